/*
 * Starting a thread, which must never run with the signals of the program that it is linked to;
 * counting them.
 */
#include "ground/thread.h"

#include <signal.h>
#include <sys/stat.h>

int tl__thread_start(void *(*work)(void *), void *ctx, pthread_t *ret_thread) {
    pthread_t thread;
    pthread_attr_t attr;
    sigset_t all, before;
    int failed = pthread_attr_init(&attr);
    if (failed)
        return failed;
    if (!ret_thread)
        (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(ret_thread ? ret_thread : &thread, &attr, work, ctx);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attr);
    return failed;
}

/* Of a directory's links two are its own. */
unsigned tl__thread_count(void) {
    struct stat s;
    return stat("/proc/self/task", &s) == 0 && s.st_nlink > 2 ? (unsigned)s.st_nlink - 2 : 0;
}
