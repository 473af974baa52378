/*
 * Threads of the library's own: they take no signals of the program, and leave its mask as it was.
 */
#include <semaphore.h>
#include <signal.h>

#include "tests.h"
#include "ground/thread.h"

static sigset_t seen;
static sem_t ran;

static void *look(void *ctx) {
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &seen), 0);
    (void)sem_post(&ran);
    return ctx;
}

static void assert_deaf(const sigset_t *mask) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGCHLD, SIGUSR1, SIGPIPE};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        assert_true(sigismember(mask, signals[i]));
}

static void start(tl_thread *ret_thread) {
    sigset_t mine, after;
    assert_int_equal(sem_init(&ran, 0, 0), 0);
    (void)sigemptyset(&mine);
    (void)sigaddset(&mine, SIGUSR2);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &mine, NULL), 0);
    assert_int_equal(tl__thread_start(look, &ran, ret_thread), 0);
    assert_int_equal(sem_wait(&ran), 0);
    assert_deaf(&seen);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &after), 0);
    assert_true(sigismember(&after, SIGUSR2));
    assert_false(sigismember(&after, SIGTERM));
}

TEST(one_that_is_joined_takes_no_signals) {
    tl_thread thread;
    void *result = NULL;
    start(&thread);
    assert_int_equal(pthread_join(thread.system, &result), 0);
    assert_ptr_equal(result, &ran);
}

TEST(a_detached_one_takes_no_signals) {
    start(NULL);
}
