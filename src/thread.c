/*
 * Floor 0: starting a thread. It must never run with the signals of the program that it is linked to.
 */
#include "thread.h"

#include <signal.h>

int tl__thread_start(void *(*work)(void *), void *ctx, pthread_t *ret_thread) {
    pthread_t thread;
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(ret_thread ? ret_thread : &thread, NULL, work, ctx);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!failed && !ret_thread)
        (void)pthread_detach(thread);
    return failed;
}
