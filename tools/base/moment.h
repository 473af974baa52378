/*
 * All clocks of this host at one moment, and the kernel's report on its wall clock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/** Read in this order. before and after are CLOCK_BOOTTIME, as deadlines are. */
typedef struct {
    int64_t before_ns, wall_us, monotonic_ns, after_ns;
} moments;

/** The readings are some microseconds apart. If the process is paused meanwhile, the interval becomes wide, not wrong. */
moments moment_all(void);

/** By how much the kernel has slewed this host's clocks since some moment in the past, in us. Only the difference of two
 *  calls means something: the error of the crystal until then, and each correction, whatever else the kernel reports. */
int64_t moment_slewed_us(void);

/** The processor's counter, which ClockBound's daemon tells the time by; 0: this processor has none that is known. */
uint64_t moment_counter(void);

/** It only corroborates a measurement: under chronyd it omits the correction that is still to be made. */
typedef struct {
    bool known;
    bool synchronised, leaping;
    int64_t max_error_us;
    int32_t slew_ppm; /**< the clock is being corrected, at most so fast; 0: it is not */
} kernel_clock;

kernel_clock moment_kernel(void);

/** A descriptor that becomes readable when the wall clock is set; -1: the kernel does not report that. */
int moment_set_begin(void);
/** Has the clock been set since the last call? */
bool moment_set_seen(int fd);

/** Interpret the result of adjtimex(), or of a substitute in tests. */
struct timex;
kernel_clock moment_kernel_says(int (*ask)(struct timex *));
