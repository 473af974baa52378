/*
 * The measurements of tidelock bench, and what follows from them.
 */
#pragma once

#include "base/signals.h"
#include "base/tool.h"
#include "bench/bench_bare.h"

/** Durations in microseconds. */
typedef struct {
    int64_t count; /**< 0: none was measured */
    double p50, p99, mean;
} bench_times;

typedef enum { BENCH_CLIENT, BENCH_SERVER, BENCH_NETWORK, BENCH_WAITING } bench_limit;

typedef struct {
    bench_times round_trip, pair, bare_pair, hand_off, renewal;
    double pairs, bare_pairs; /**< per second; bare_pairs 0: not measured */
    /* of a typical pair, us: */
    double client_us;  /**< work of this host */
    double waiting_us; /**< waiting for replies; part of it: */
    double server_us;  /**< work of the server; negative: not known */
} bench_result;

typedef struct {
    tl_client *client, *other;
    const char *key;
    bench_bare *bare; /**< NULL: none */
    signals *signals;
    int64_t part_ms; /**< the duration of each measurement */
    tl_error err;
    int ended_by; /**< the signal that ended it; 0: none */
} bench;

/** Run all measurements. False: err says why, or ended_by is set. */
bool bench_measure(bench *bench, bench_result *ret);

/** The largest part of a pair. */
bench_limit bench_limit_of(const bench_result *result);
