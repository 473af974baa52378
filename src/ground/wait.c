/*
 * The only file that polls, and that makes wake-ups and timers. It must never decide how long to wait: the
 * caller passes the instant.
 */
#include "ground/wait.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

void tl__wait(struct pollfd *fds, unsigned count, tl_mono until) {
    struct timespec slice = {0};
    if (until.ns != INT64_MAX && until.ns > 0)
        slice.tv_nsec = tl__slice_ns(tl__mono_now(), until);
    slice.tv_sec = slice.tv_nsec / 1000000000;
    slice.tv_nsec %= 1000000000;
    (void)ppoll(fds, count, until.ns == INT64_MAX ? NULL : &slice,
                NULL); /* EINTR: early returns are allowed */
}

int tl__wake_open(void) {
    return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

int tl__timer_open(void) {
    return timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
}

int tl__gather_open(void) {
    return epoll_create1(EPOLL_CLOEXEC);
}

bool tl__gather_add(int gather, int fd) {
    struct epoll_event event = {.events = EPOLLIN};
    return epoll_ctl(gather, EPOLL_CTL_ADD, fd, &event) == 0;
}

void tl__gather_drop(int gather, int fd) {
    int saved = errno;
    (void)epoll_ctl(gather, EPOLL_CTL_DEL, fd, NULL);
    errno = saved;
}

void tl__wake_close(int fd) {
    int saved = errno;
    (void)close(fd);
    errno = saved;
}

void tl__wake_post(int fd) {
    const uint64_t one = 1;
    int saved = errno;
    (void)!write(fd, &one, sizeof one); /* fails only if it is readable already */
    errno = saved;
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

void tl__wake_clear(int fd) {
    uint64_t count;
    int saved = errno;
    (void)!read(fd, &count, sizeof count); /* fails only if it is not readable */
    errno = saved;
}
