/*
 * Instants, and the only module that reads clocks. An instant is a struct, so that it is never mistaken for a
 * duration. A duration is an int64_t whose name ends in its unit.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/** The deadline clock, CLOCK_BOOTTIME, in ns: it never steps, and counts time in suspend. */
typedef struct {
    int64_t ns;
} tl_mono;

/** Microseconds since the epoch: used only in stored values and to measure clock skew. */
typedef struct {
    int64_t us;
} tl_wall;

#define TL_NS_PER_US INT64_C(1000)
#define TL_NS_PER_MS INT64_C(1000000)
#define TL_NEVER ((tl_mono){INT64_MAX})

tl_mono tl__mono_now(void);
tl_wall tl__wall_now(void);

/** The length of the next slice of a wait until `by`, in ns, when the deadline clock shows `now`; 0: `by` has
 *  passed. System calls wait on CLOCK_MONOTONIC, which stands still in suspend. So a wait is cut into slices
 *  of at most 1 s, and the deadline clock is read after each. */
static inline int64_t tl__slice_ns(tl_mono now, tl_mono by) {
    const int64_t most = 1000000000;
    int64_t left = by.ns == INT64_MAX ? most : by.ns - now.ns;
    return left < 0 ? 0 : left < most ? left : most;
}

/** The value of CLOCK_MONOTONIC `ns` from now, at most a slice: for pthread_cond_timedwait alone. */
struct timespec tl__monotonic_in(int64_t ns);

static inline int64_t tl__add_sat(int64_t a, int64_t b) {
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return b > 0 ? INT64_MAX : INT64_MIN;
    return sum;
}

static inline int64_t tl__mul_sat(int64_t a, int64_t b) {
    int64_t product;
    if (__builtin_mul_overflow(a, b, &product))
        return (a > 0) == (b > 0) ? INT64_MAX : INT64_MIN;
    return product;
}

static inline tl_mono tl__mono_add_ns(tl_mono t, int64_t ns) {
    return (tl_mono){tl__add_sat(t.ns, ns)};
}

static inline tl_mono tl__mono_add_ms(tl_mono t, int64_t ms) {
    return tl__mono_add_ns(t, tl__mul_sat(ms, TL_NS_PER_MS));
}

static inline bool tl__mono_before(tl_mono a, tl_mono b) {
    return a.ns < b.ns;
}

static inline tl_mono tl__mono_min(tl_mono a, tl_mono b) {
    return a.ns < b.ns ? a : b;
}

static inline tl_mono tl__mono_max(tl_mono a, tl_mono b) {
    return a.ns > b.ns ? a : b;
}

/** The distance of the instants of a grid, in ns: the largest power of two that is not above slack_ns; 0: no
 *  grid. */
static inline int64_t tl__grid_step(int64_t slack_ns) {
    return slack_ns < 1 ? 0 : INT64_C(1) << (63 - __builtin_clzll((unsigned long long)slack_ns));
}

/** Round t up to the next instant of that grid, at most slack_ns later: so the wake-ups of many locks
 *  coincide. */
static inline tl_mono tl__mono_grid(tl_mono t, int64_t slack_ns) {
    int64_t step = tl__grid_step(slack_ns);
    if (step == 0 || t.ns > INT64_MAX - slack_ns)
        return t;
    return (tl_mono){(t.ns + step - 1) & ~(step - 1)};
}

/** From `from` to `to` in nanoseconds; negative when `to` is earlier. */
static inline int64_t tl__ns_until(tl_mono from, tl_mono to) {
    return to.ns == INT64_MAX ? INT64_MAX : to.ns - from.ns;
}

/** Whole milliseconds from `from` to `to`, rounded down; 0 when `to` is not later. */
static inline int64_t tl__ms_until(tl_mono from, tl_mono to) {
    int64_t ns = tl__ns_until(from, to);
    return ns <= 0 ? 0 : ns / TL_NS_PER_MS;
}
