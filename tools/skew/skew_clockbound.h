/*
 * ClockBound's estimate of this host's clock: its daemon writes a bound into a file that any process may
 * read. The bound is a statement of the daemon, and says nothing about other clocks. So it is shown beside
 * the measurement, and is part of no pair.
 */
#pragma once

#include <stddef.h>

#include "skew/judge/skew_judge.h"
#include "skew/judge/skew_track.h"

#define CLOCKBOUND_SIZE 104 /**< bytes of the longest layout that is known */

/** The daemon writes this. as_of and void_after are times of CLOCK_MONOTONIC in version 2. In version 3
 *  they are true times, as the daemon believes. */
typedef struct {
    int version;
    bool free_running;
    int64_t as_of_ns, void_after_ns;
    int64_t bound_us;     /**< as of then */
    int64_t drift_ppb;    /**< by so much the bound grows */
    uint64_t counter;     /**< version 3: the processor's counter as of then, */
    uint64_t period_frac; /**< and its period in seconds: frac / 2^(64 + shift) */
    int period_shift;
} clockbound_state;

/** This host's clocks, read together. */
typedef struct {
    skew_reading reading;
    int64_t monotonic_ns; /**< CLOCK_MONOTONIC, no earlier than the wall clock */
    bool has_counter;
    uint64_t counter_before, counter_after; /**< the wall clock was read between them */
} clockbound_clocks;

/** Read the file's bytes. False: `why` has the reason, and ret_status one word. */
bool clockbound_read(const uint8_t *bytes, size_t n, clockbound_state *ret, const char **ret_status,
                     char why[SKEW_DETAIL_SIZE]);

/** The offset wall clock - true time, as the daemon believes. rate_ppm bounds how fast the wall clock
 *  may move against the true time. False: as for clockbound_read. */
bool clockbound_offset(const clockbound_state *state, const clockbound_clocks *now,
                       int32_t rate_ppm, tl_interval *ret, int64_t *ret_age_ms,
                       const char **ret_status, char why[SKEW_DETAIL_SIZE]);

typedef struct {
    bool known;
    clockbound_state state;
    clockbound_clocks at; /**< when the file was read */
    const char *status;
    char why[SKEW_DETAIL_SIZE];
} clockbound_report;

/** Read the file, within 10 ms. With path "" it is that of version 3, or where there is none that of
 *  version 2, below /var/run/clockbound. */
void clockbound_ask(clockbound_report *report, const char *path);

/** Fill this host's row, all but the name. `begun` is a reading from before the measurement; own is this
 *  host's clock minus the Redis server's, NULL: unknown. */
void clockbound_judge(const clockbound_report *report, const skew_reading *begun,
                      const tl_interval *own, int32_t rate_ppm, skew_host *host);

/** Compare the row with what another witness, `who`, believes of this host's clock. Where they
 *  contradict each other, the row becomes unknown and shows both. */
void clockbound_compare(skew_host *host, tl_interval other, const char *who);
