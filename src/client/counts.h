/*
 * What a client has done, in numbers, for whoever watches over it (tl_client_stats). Counting must cost nothing that
 * could be measured: so what happens under the keeper's mutex anyway is counted there, and the rest without any.
 */
#pragma once

#include <stdatomic.h>

#include "protocol/protocol.h"
#include "transport/conn.h"

#define TL_COUNTS_APART                                                                            \
    64 /**< bytes: what many threads count is not in one line of the cache with anything else */

typedef enum { TL_COUNT_ACQUIRES, TL_COUNT_RELEASES, TL_COUNT_EXTENDS, TL_COUNT_CALLS } tl_counted;

typedef struct {
    char before[TL_COUNTS_APART];
    _Atomic uint64_t call[TL_COUNT_CALLS][TL_STATS_RESULTS];
    _Atomic uint64_t trips[TL_STATS_BUCKETS], trips_us, unanswered, connections;
    char behind[TL_COUNTS_APART];
    tl_stats holds; /**< under keeper.mutex: of waits and of what is held; the rest stays 0 */
} tl_counts;

/** A call has ended: its result, again. */
tl_err tl__count_call(tl_counts *counts, tl_counted what, tl_err code);
/** A connection has told what came of a request. */
void tl__count_answer(tl_counts *counts, const tl_answer *answer);

static inline void tl__count_connection(tl_counts *counts) {
    (void)atomic_fetch_add_explicit(&counts->connections, 1, memory_order_relaxed);
}

/* With keeper.mutex held: */

/** A lock is held, which was asked for so long ago. */
void tl__count_wait(tl_counts *counts, int64_t ns, bool waited, bool handed_over);
/** What a step of a held lock's machine has said. */
void tl__count_step(tl_counts *counts, const tl_out *out);
