/*
 * All clocks of this host at one moment, and what the kernel says of its wall clock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/** Read in this order. before and after are CLOCK_BOOTTIME, as deadlines are. */
typedef struct {
    int64_t before_ns, wall_us, monotonic_ns, after_ns;
} moments;

/** Some microseconds apart, unless the process is paused: that makes the two wide, not wrong. */
moments moment_all(void);

/** It corroborates only: under chronyd it leaves out what is still to be corrected. */
typedef struct {
    bool known;
    bool synchronised, leaping;
    int64_t max_error_us;
    int32_t slew_ppm; /**< the clock is being corrected, and may move so fast; 0: it is not */
} kernel_clock;

kernel_clock moment_kernel(void);

/** A descriptor that is readable once somebody has set the wall clock, at once; -1: the kernel doesn't tell. */
int moment_set_begin(void);
/** Has it been set since this was asked last? */
bool moment_set_seen(int fd);

/** What follows from what adjtimex() says, or whoever stands in for it. */
struct timex;
kernel_clock moment_kernel_says(int (*ask)(struct timex *));
