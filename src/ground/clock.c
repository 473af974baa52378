/*
 * The only file that reads a clock. A step machine must never call it: machines receive the time as data.
 */
#include "ground/clock.h"

static struct timespec clock_read(clockid_t id) {
    struct timespec t = {0};
    (void)clock_gettime(id, &t); /* can't fail for these on Linux */
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

struct timespec tl__monotonic_in(int64_t ns) {
    struct timespec t = clock_read(CLOCK_MONOTONIC);
    int64_t nsec = t.tv_nsec + ns;
    t.tv_sec += (time_t)(nsec / 1000000000);
    t.tv_nsec = (long)(nsec % 1000000000);
    return t;
}
