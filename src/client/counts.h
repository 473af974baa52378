/*
 * Counters of what a client has done, for monitoring (tl_client_stats). Counting must cost
 * nothing that could be measured. So what happens under the keeper's mutex anyway is counted
 * under it, and all else without a mutex.
 */
#pragma once

#include <stdatomic.h>

#include "protocol/protocol.h"
#include "transport/conn.h"

/** Bytes: counters of many threads share no cache line with anything else. */
#define TL_COUNTS_APART 64

typedef enum { TL_COUNT_ACQUIRES, TL_COUNT_RELEASES, TL_COUNT_EXTENDS, TL_COUNT_CALLS } tl_counted;

typedef struct {
    char before[TL_COUNTS_APART];
    _Atomic uint64_t call[TL_COUNT_CALLS][TL_STATS_RESULTS];
    _Atomic uint64_t trips[TL_STATS_BUCKETS], trips_us, unanswered, connections, waiting;
    char behind[TL_COUNTS_APART];
    tl_stats own; /**< under keeper.mutex: what is counted under it, added to the others */
} tl_counts;

/** A call has ended. Returns its result `code`. */
tl_err tl__count_call(tl_counts *counts, tl_counted what, tl_err code);
/** A request was answered, or has failed. */
void tl__count_answer(tl_counts *counts, const tl_answer *answer);

static inline void tl__count_connection(tl_counts *counts) {
    (void)atomic_fetch_add_explicit(&counts->connections, 1, memory_order_relaxed);
}

/** A call begins to wait for a lock, or has ended its wait. */
void tl__count_waiting(tl_counts *counts, bool waits);

/* With keeper.mutex held: */

void tl__count_call_in(tl_counts *counts, tl_counted what, tl_err code);
void tl__count_answer_in(tl_counts *counts, const tl_answer *answer);
/** A lock was acquired; the acquire took so long. */
void tl__count_wait(tl_counts *counts, int64_t ns, bool waited, bool handed_over);
/** A lock is held from now on, or is not any more. */
void tl__count_held(tl_counts *counts, bool held);
/** A hold is over; it lasted so long. */
void tl__count_hold(tl_counts *counts, int64_t ns);
/** Count the result of one step of a held lock's machine. */
void tl__count_step(tl_counts *counts, const tl_out *out);
