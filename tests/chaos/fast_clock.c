/*
 * To be preloaded into a server: its wall clock runs fast by a tenth from when the process began, as
 * a clock does that is slewed as fast as a kernel can. (libfaketime doesn't work with a server that
 * has an allocator of its own.) It uses system calls only, since it may be called by that allocator.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int64_t true_ns(clockid_t id) {
    struct timespec t;
    (void)syscall(SYS_clock_gettime, id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t fast_ns(void) {
    static _Atomic int64_t began;
    int64_t now = true_ns(CLOCK_REALTIME), none = 0;
    (void)atomic_compare_exchange_strong(&began, &none, now);
    return now + (now - atomic_load(&began)) / 10;
}

int clock_gettime(clockid_t id, struct timespec *ret) {
    bool wall = id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE;
    int64_t ns = wall ? fast_ns() : true_ns(id);
    *ret = (struct timespec){ns / 1000000000, ns % 1000000000};
    return 0;
}

int gettimeofday(struct timeval *restrict ret, void *restrict zone) {
    int64_t ns = fast_ns();
    (void)zone;
    *ret = (struct timeval){ns / 1000000000, ns % 1000000000 / 1000};
    return 0;
}

time_t time(time_t *ret) {
    time_t s = fast_ns() / 1000000000;
    if (ret)
        *ret = s;
    return s;
}
