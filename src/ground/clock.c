/*
 * The only file that reads a clock or makes a timer. It must never be called by a step
 * machine: those are told the time.
 */
#include "ground/clock.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <time.h>

static struct timespec clock_read(clockid_t id) {
    struct timespec t = {0};
    (void)clock_gettime(id, &t); /* can't fail for these two on Linux */
    return t;
}

tl_mono tl__mono_now(void) {
    struct timespec t = clock_read(CLOCK_BOOTTIME);
    return (tl_mono){(int64_t)t.tv_sec * 1000000000 + t.tv_nsec};
}

tl_wall tl__wall_now(void) {
    struct timespec t = clock_read(CLOCK_REALTIME);
    return (tl_wall){(int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000};
}

int tl__timer_open(void) {
    return timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
}

void tl__timer_set(int fd, tl_mono at) {
    struct itimerspec spec = {0};
    if (at.ns != INT64_MAX) {
        int64_t ns = at.ns > 0 ? at.ns : 1; /* 0 would disarm it */
        spec.it_value.tv_sec = (time_t)(ns / 1000000000);
        spec.it_value.tv_nsec = (long)(ns % 1000000000);
    }
    int saved = errno;
    (void)timerfd_settime(fd, TFD_TIMER_ABSTIME, &spec, NULL);
    errno = saved;
}

/* A condition can't wait on the deadline clock itself, and the monotonic one stands still in suspend:
 * so wait in slices, and read the deadline clock again after each. */
bool tl__cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, tl_mono by) {
    const int64_t slice_ns = 1000000000;
    int64_t left = tl__ns_until(tl__mono_now(), by);
    if (left <= 0)
        return false;
    struct timespec until = clock_read(CLOCK_MONOTONIC);
    until.tv_nsec += (long)(left < slice_ns ? left : slice_ns - 1);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_cond_clockwait(cond, mutex, CLOCK_MONOTONIC, &until);
    return true;
}
