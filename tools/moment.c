/*
 * The tool's only reader of a clock, and its only timer: CLOCK_BOOTTIME, as the library's
 * deadlines, so that a laptop that slept past a deadline acts on it as soon as it wakes.
 */
#include <sys/timerfd.h>
#include <time.h>

#include "tool.h"

int64_t moment_ms(void) {
    struct timespec now;

    if (clock_gettime(CLOCK_BOOTTIME, &now))
        return 0;
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int moment_timer(void) {
    return timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
}

void moment_timer_set(int fd, int64_t in_ms) {
    struct itimerspec when = {.it_value = {0}};

    if (in_ms != MOMENT_NEVER) {
        if (in_ms < 0)
            in_ms = 0;
        when.it_value.tv_sec = in_ms / 1000;
        when.it_value.tv_nsec = in_ms % 1000 * 1000000 + 1; /* all zero would disarm it */
    }
    (void)timerfd_settime(fd, 0, &when, NULL);
}
