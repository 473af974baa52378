/*
 * Clock offsets as intervals, in microseconds: the truth is inside, edges are what gets compared.
 * Pure. An anchor is the client's present knowledge of (server clock - own deadline clock).
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
    uint32_t steps; /**< how often a bracket contradicted what was known */
} tl_anchor;

/** Where the offset must be, given a server stamp seen in the reply to a request sent at `sent`
 *  and received at `received`: stamp - received <= offset <= stamp + 1 us - sent. */
tl_interval tl__bracket(int64_t server_us, tl_mono sent, tl_mono received);

static inline bool tl__interval_empty(tl_interval i) {
    return i.lo > i.hi;
}

tl_interval tl__interval_intersect(tl_interval a, tl_interval b);

/** Both edges moved outwards by rate_ppm of the time from `from` to `to`, rounded up: the most that
 *  one clock moves against another. */
tl_interval tl__interval_aged(tl_interval i, tl_mono from, tl_mono to, int32_t rate_ppm);

/** ppm of a duration in ns, rounded up. */
int64_t tl__drift_ns(int64_t duration_ns, int32_t rate_ppm);

/*
 * How fast clocks run. `drift_ppm` bounds the rate of each clock by itself: while a true second
 * passes, it shows between 1 - drift and 1 + drift seconds. So of two clocks one can show (1 +
 * drift) / (1 - drift) times what the other does. A holder counts the least, whoever waits for him
 * on whatever clock waits the whole: what is believed for tl__rate_least_ns(d) on one clock is
 * over, in true time, before d has passed on any.
 */

/** The least that one clock shows while another shows duration_ns; rounded down. */
int64_t tl__rate_least_ns(int64_t duration_ns, int32_t drift_ppm);
/** The most that one clock shows while another shows duration_ns; rounded up. */
int64_t tl__rate_most_ns(int64_t duration_ns, int32_t drift_ppm);

/** Merge a bracket, whose reply was received at `received`; brackets may come out of order. Returns
 *  true when it contradicts what was known (the server's clock stepped, or another server answers);
 *  the anchor then starts again from the bracket alone. */
bool tl__anchor_learn(tl_anchor *anchor, tl_interval bracket, tl_mono received, int32_t drift_ppm);

/** The same from a new connection, which may be to another server: what was known counts no more, even
 *  where the bracket doesn't contradict it. */
bool tl__anchor_renew(tl_anchor *anchor, tl_interval bracket, tl_mono received, int32_t drift_ppm);

/** The offset at `at`, of a known anchor. */
tl_interval tl__anchor_offset(const tl_anchor *anchor, tl_mono at, int32_t drift_ppm);

/** The server's clock at `at`: [earliest, latest] in us. Call only for a known anchor. */
tl_interval tl__anchor_server_time(const tl_anchor *anchor, tl_mono at, int32_t drift_ppm);
