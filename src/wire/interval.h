/*
 * Clock offsets as intervals, in microseconds. The true value is inside; comparisons use the edges. Pure. An
 * anchor is what the client knows at present of the offset (server clock - own deadline clock).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ground/clock.h"

typedef struct {
    int64_t lo, hi;
} tl_interval;

typedef struct {
    bool known;
    tl_interval offset; /**< server us - deadline clock us, as of `at` */
    tl_mono at;
    uint32_t steps; /**< how many brackets contradicted what was known */
} tl_anchor;

/** The interval that must contain the offset. server_us is the server's time in the reply to a request
 *  that was sent at `sent` and received at `received`: server_us - received <= offset <= server_us + 1 us
 *  - sent. */
tl_interval tl__bracket(int64_t server_us, tl_mono sent, tl_mono received);

static inline bool tl__interval_empty(tl_interval i) {
    return i.lo > i.hi;
}

tl_interval tl__interval_intersect(tl_interval a, tl_interval b);

/** The interval with both edges moved outwards by rate_ppm of the time from `from` to `to`, rounded up: one
 *  clock moves at most so much against another. */
tl_interval tl__interval_aged(tl_interval i, tl_mono from, tl_mono to, int32_t rate_ppm);

/** ppm of a duration in ns, rounded up. */
int64_t tl__drift_ns(int64_t duration_ns, int32_t rate_ppm);

/*
 * The rates of clocks. `drift_ppm` bounds each clock's own rate: in a true second it shows between 1 - drift
 * and 1 + drift seconds. So one clock can show (1 + drift) / (1 - drift) times as much as another.
 *
 * For a lifetime d a holder counts on its lock for tl__rate_least_ns(d) by its own clock; a waiter waits for
 * the whole d by its own. So the holder stops, in true time, before d has passed on any clock.
 */

/** The least that one clock shows while another shows duration_ns; rounded down. */
int64_t tl__rate_least_ns(int64_t duration_ns, int32_t drift_ppm);
/** The most that one clock shows while another shows duration_ns; rounded up. */
int64_t tl__rate_most_ns(int64_t duration_ns, int32_t drift_ppm);

/** Merge a bracket, whose reply was received at `received`; brackets may come out of order. Returns true if
 *  it contradicts what was known: the server's clock stepped, or another server replied. The anchor then
 *  starts anew from this bracket alone. */
bool tl__anchor_learn(tl_anchor *anchor, tl_interval bracket, tl_mono received, int32_t drift_ppm);

/** The same for a bracket from a new connection, which may lead to another server: it replaces what was
 *  known, even if there is no contradiction. */
bool tl__anchor_renew(tl_anchor *anchor, tl_interval bracket, tl_mono received, int32_t drift_ppm);

/** The offset at `at`. Only for a known anchor. */
tl_interval tl__anchor_offset(const tl_anchor *anchor, tl_mono at, int32_t drift_ppm);

/** The server's time at `at`: [earliest, latest] in us. Only for a known anchor. */
tl_interval tl__anchor_server_time(const tl_anchor *anchor, tl_mono at, int32_t drift_ppm);
