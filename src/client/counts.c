/*
 * Counting what a client does (tl_client_stats).
 */
#include "client/counts.h"
#include "ground/guard.h"

#define FIRST_BITS 3 /* the first bucket ends at 1 << FIRST_BITS us */

static unsigned bucket_of(uint64_t us) {
    unsigned bits = us ? 64 - (unsigned)__builtin_clzll(us) : 0;
    unsigned i = bits > FIRST_BITS ? bits - FIRST_BITS : 0;
    return i < TL_STATS_BUCKETS ? i : TL_STATS_BUCKETS - 1;
}

static uint64_t us_of(int64_t ns) {
    return ns > 0 ? (uint64_t)(ns / TL_NS_PER_US) : 0;
}

static void add(_Atomic uint64_t *to, uint64_t n) {
    (void)atomic_fetch_add_explicit(to, n, memory_order_relaxed);
}

tl_err tl__count_call(tl_counts *counts, tl_counted what, tl_err code) {
    if ((unsigned)code < TL_STATS_RESULTS)
        add(&counts->call[what][code], 1);
    return code;
}

void tl__count_call_in(tl_counts *counts, tl_counted what, tl_err code) {
    tl_stats *own = &counts->own;
    uint64_t *const calls[TL_COUNT_CALLS] = {own->acquires, own->releases, own->extends};
    if ((unsigned)code < TL_STATS_RESULTS)
        calls[what][code]++;
}

/* A request without commands only waits for the connection: that is no round trip. */
static bool is_trip(const tl_answer *answer) {
    return answer->ok && (answer->count > 0 || !GUARD(reached_is_no_trip));
}

static bool is_unanswered(const tl_answer *answer) {
    return !answer->ok && (answer->maybe_sent || !GUARD(unsent_is_not_unanswered));
}

void tl__count_answer(tl_counts *counts, const tl_answer *answer) {
    if (is_trip(answer)) {
        uint64_t us = us_of(tl__ns_until(answer->sent, answer->received));
        add(&counts->trips[bucket_of(us)], 1);
        add(&counts->trips_us, us);
    } else if (is_unanswered(answer)) {
        add(&counts->unanswered, 1);
    }
}

static void note(tl_durations *durations, uint64_t us) {
    durations->bucket[bucket_of(us)]++;
    durations->count++;
    durations->sum_us += us;
}

void tl__count_answer_in(tl_counts *counts, const tl_answer *answer) {
    if (is_trip(answer))
        note(&counts->own.round_trips, us_of(tl__ns_until(answer->sent, answer->received)));
    else if (is_unanswered(answer))
        counts->own.unanswered++;
}

void tl__count_wait(tl_counts *counts, int64_t ns, bool waited, bool handed_over) {
    tl_stats *own = &counts->own;
    note(&own->wait, us_of(ns));
    own->waited += waited;
    own->handed_over += handed_over;
}

void tl__count_waiting(tl_counts *counts, bool waits) {
    add(&counts->waiting, waits ? 1 : UINT64_MAX); /* which is -1 */
}

void tl__count_held(tl_counts *counts, bool held) {
    counts->own.held_now += held ? 1 : UINT64_MAX; /* which is -1 */
}

void tl__count_hold(tl_counts *counts, int64_t ns) {
    note(&counts->own.hold, us_of(ns));
}

void tl__count_step(tl_counts *counts, const tl_out *out) {
    tl_stats *own = &counts->own;
    own->renewals += out->renewed;
    own->renewals_failed += out->missed;
    for (unsigned i = 0; i < out->notes; i++) {
        const tl_note *note = &out->note[i];
        own->at_risk += note->kind == TL_NOTE_AT_RISK;
        own->lost[note->why] += note->kind == TL_NOTE_LOST;
        own->stolen += note->kind == TL_NOTE_LOST && note->stolen;
    }
}
