/*
 * The only file that calls pthreads. A thread started here must never receive the program's signals.
 */
#include "ground/thread.h"

#include <sched.h>
#include <signal.h>
#include <sys/stat.h>

#include "ground/guard.h"

int tl__thread_start(void *(*work)(void *), void *ctx, tl_thread *ret_thread) {
    pthread_t thread;
    pthread_attr_t attr;
    sigset_t all, before;
    int failed = pthread_attr_init(&attr);
    if (failed)
        return failed;
    if (!ret_thread)
        (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void)(GUARD(threads_take_no_signals) ? sigfillset(&all) : sigemptyset(&all));
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(ret_thread ? &ret_thread->system : &thread, &attr, work, ctx);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attr);
    return failed;
}

void tl__thread_join(tl_thread thread) {
    (void)pthread_join(thread.system, NULL);
}

void tl__thread_detach(tl_thread thread) {
    (void)pthread_detach(thread.system);
}

tl_thread tl__thread_self(void) {
    return (tl_thread){pthread_self()};
}

bool tl__thread_is_self(tl_thread thread) {
    return pthread_equal(thread.system, pthread_self());
}

void tl__thread_yield(void) {
    (void)sched_yield();
}

/* The link count of a directory is 2 more than its number of subdirectories, here one for each thread. */
unsigned tl__thread_count(void) {
    struct stat s;
    return stat("/proc/self/task", &s) == 0 && s.st_nlink > 2 ? (unsigned)s.st_nlink - 2 : 0;
}

/* ---- mutexes and conditions ------------------------------------------------------------------ */

void tl__mutex_init(tl_mutex *mutex) {
    (void)pthread_mutex_init(&mutex->system, NULL);
}

void tl__mutex_end(tl_mutex *mutex) {
    (void)pthread_mutex_destroy(&mutex->system);
}

void tl__mutex_lock(tl_mutex *mutex) {
    (void)pthread_mutex_lock(&mutex->system);
}

bool tl__mutex_try(tl_mutex *mutex) {
    return pthread_mutex_trylock(&mutex->system) == 0;
}

void tl__mutex_unlock(tl_mutex *mutex) {
    (void)pthread_mutex_unlock(&mutex->system);
}

void tl__cond_init(tl_cond *cond) {
    pthread_condattr_t by_monotonic;
    (void)pthread_condattr_init(&by_monotonic);
    (void)pthread_condattr_setclock(&by_monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&cond->system, &by_monotonic);
    (void)pthread_condattr_destroy(&by_monotonic);
}

void tl__cond_end(tl_cond *cond) {
    (void)pthread_cond_destroy(&cond->system);
}

void tl__cond_wait(tl_cond *cond, tl_mutex *mutex) {
    (void)pthread_cond_wait(&cond->system, &mutex->system);
}

bool tl__cond_wait_by(tl_cond *cond, tl_mutex *mutex, tl_mono by) {
    int64_t slice = tl__slice_ns(tl__mono_now(), by);
    if (slice == 0)
        return false;
    struct timespec until = tl__monotonic_in(slice);
    (void)pthread_cond_timedwait(&cond->system, &mutex->system, &until);
    return true;
}

void tl__cond_wake(tl_cond *cond) {
    (void)pthread_cond_signal(&cond->system);
}

void tl__cond_wake_all(tl_cond *cond) {
    (void)pthread_cond_broadcast(&cond->system);
}
