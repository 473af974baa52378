/*
 * The measurements, each for its part of the time. The loop with tidelock and the bare loop take turns, so
 * that both run under the same conditions. Between short slices it looks for a signal, and then releases
 * what is held.
 */
#include "bench/bench_measure.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "ground/clock.h"
#include "ground/wait.h"

#define TTL_MS 10000
#define SAMPLES 20000 /* of a measurement; others are only counted */
#define SLICE_MS 50
#define QUEUE_MS 5 /* for a waiter to queue, at least */
#define HAND_OFF_MS 5000
#define NS_PER_US 1000.0

/* ---- samples --------------------------------------------------------------------------------- */

typedef struct {
    int64_t count, sum_ns, kept;
    int64_t ns[SAMPLES];
} samples;

static void add(samples *samples, int64_t ns) {
    samples->count++;
    samples->sum_ns += ns;
    if (samples->kept < SAMPLES)
        samples->ns[samples->kept++] = ns;
}

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static bench_times times_of(samples *samples) {
    bench_times times = {.count = samples->count};
    if (samples->count == 0)
        return times;
    qsort(samples->ns, (size_t)samples->kept, sizeof *samples->ns, compare);
    int64_t middle = samples->kept / 2, within = samples->kept - 1 - (samples->kept - 1) / 100;
    times.p50 = (double)samples->ns[middle] / NS_PER_US;
    times.p99 = (double)samples->ns[within] / NS_PER_US;
    times.mean = (double)samples->sum_ns / (double)samples->count / NS_PER_US;
    return times;
}

/* ---- slices ---------------------------------------------------------------------------------- */

static bool goes_on(bench *bench) {
    for (int sig; !bench->ended_by && (sig = signals_next(bench->signals));)
        if (signals_ends(bench->signals, sig))
            bench->ended_by = sig;
    return !bench->ended_by;
}

/* One step that is measured. False: it failed. */
typedef bool (*measured)(bench *bench, tl_lock *lock);

/* Repeat the step for `ms`, at least once, and note how long each took. */
static bool slice(bench *bench, tl_lock *lock, measured once, int64_t ms, samples *samples) {
    tl_mono now = tl__mono_now(), end = tl__mono_add_ms(now, ms);
    do {
        tl_mono before = now;
        if (!once(bench, lock))
            return false;
        now = tl__mono_now();
        add(samples, tl__ns_until(before, now));
    } while (tl__mono_before(now, end));
    return goes_on(bench);
}

static bool part(bench *bench, tl_lock *lock, measured once, samples *samples) {
    tl_mono end = tl__mono_add_ms(tl__mono_now(), bench->part_ms);
    bool ok;
    memset(samples, 0, sizeof *samples);
    do
        ok = slice(bench, lock, once, SLICE_MS, samples);
    while (ok && tl__mono_before(tl__mono_now(), end));
    return ok;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static bool ask(bench *bench, tl_lock *lock) {
    (void)lock;
    return tl_client_ping(bench->client, &bench->err) == TL_OK;
}

static bool pair(bench *bench, tl_lock *lock) {
    return tl_lock_acquire(lock, 0, &bench->err) == TL_OK &&
           tl_lock_release(lock, &bench->err) == TL_OK;
}

static bool bare_pair(bench *bench, tl_lock *lock) {
    (void)lock;
    return bench_bare_pair(bench->bare);
}

static bool renew(bench *bench, tl_lock *lock) {
    return tl_lock_extend(lock, TTL_MS, &bench->err) == TL_OK;
}

/* ---- pairs ----------------------------------------------------------------------------------- */

typedef struct {
    samples ours, bare, waited;
    int64_t server_us;
    bool server_known;
} pairs;

static int64_t waited_us(const bench *bench) {
    tl_stats stats = {.size = sizeof stats};
    return tl_client_stats(bench->client, &stats, NULL) ? 0 : (int64_t)stats.round_trips.sum_us;
}

/* Time a pair, and the part of it that waits for replies. Reading the counters isn't timed. */
static bool our_pair(bench *bench, tl_lock *lock, pairs *pairs) {
    int64_t waited = waited_us(bench);
    tl_mono before = tl__mono_now();
    if (!pair(bench, lock))
        return false;
    add(&pairs->ours, tl__ns_until(before, tl__mono_now()));
    add(&pairs->waited, (waited_us(bench) - waited) * (int64_t)NS_PER_US);
    return true;
}

static bool our_slice(bench *bench, tl_lock *lock, pairs *pairs) {
    int64_t cpu = bench->bare ? bench_bare_cpu_us(bench->bare) : -1;
    tl_mono end = tl__mono_add_ms(tl__mono_now(), SLICE_MS);
    bool ok;
    do
        ok = our_pair(bench, lock, pairs);
    while (ok && tl__mono_before(tl__mono_now(), end));
    int64_t after = cpu < 0 ? -1 : bench_bare_cpu_us(bench->bare);
    pairs->server_known = pairs->server_known && after >= cpu && cpu >= 0;
    pairs->server_us += after - cpu;
    return ok && goes_on(bench);
}

/* If the bare loop fails, the rest is measured without it. */
static bool bare_slice(bench *bench, pairs *pairs) {
    if (slice(bench, NULL, bare_pair, SLICE_MS, &pairs->bare))
        return true;
    if (bench->ended_by)
        return false;
    bench_bare_close(bench->bare);
    bench->bare = NULL;
    pairs->bare.count = 0;
    return true;
}

static double rate_of(const samples *samples) {
    return samples->count > 0 ? (double)samples->count * 1e9 / (double)samples->sum_ns : 0;
}

/* Medians: a moment in which this machine did something else says nothing of locks. */
static bool measure_pairs(bench *bench, tl_lock *lock, pairs *pairs, bench_result *ret) {
    bool ok = pair(bench, lock); /* connects, and loads the scripts */
    tl_mono end = tl__mono_add_ms(tl__mono_now(), 2 * bench->part_ms);
    pairs->server_known = bench->bare != NULL;
    while (ok) {
        ok = our_slice(bench, lock, pairs) && (!bench->bare || bare_slice(bench, pairs));
        if (!tl__mono_before(tl__mono_now(), end))
            break;
    }
    if (!ok)
        return false;
    ret->pairs = rate_of(&pairs->ours);
    ret->bare_pairs = rate_of(&pairs->bare);
    ret->pair = times_of(&pairs->ours);
    ret->bare_pair = times_of(&pairs->bare);
    ret->waiting_us = times_of(&pairs->waited).p50;
    ret->client_us = ret->pair.p50 > ret->waiting_us ? ret->pair.p50 - ret->waiting_us : 0;
    ret->server_us = pairs->server_known ? (double)pairs->server_us / (double)pairs->ours.count
                                         : -1;
    return true;
}

/* ---- hand-offs ------------------------------------------------------------------------------- */

typedef struct {
    int fd;
    _Atomic int64_t at_ns;
    tl_err code;
    tl_error err;
} notified;

static void tell(tl_lock *lock, tl_err code, const tl_error *err, void *ctx) {
    notified *notified = ctx;
    (void)lock;
    notified->code = code;
    if (err)
        notified->err = *err;
    atomic_store(&notified->at_ns, tl__mono_now().ns);
    tl__wake_post(notified->fd);
}

static void nap(int64_t ms) {
    tl_mono end = tl__mono_add_ms(tl__mono_now(), ms);
    while (tl__mono_before(tl__mono_now(), end))
        tl__wait(NULL, 0, end);
}

/* Measure the time from the release until the other lock is held; then the other is the holder. */
static bool hand_off(bench *bench, tl_lock *from, tl_lock *to, notified *notified, int64_t queue_ms,
                     samples *samples) {
    struct pollfd fd = {.fd = notified->fd, .events = POLLIN};
    atomic_store(&notified->at_ns, 0);
    if (tl_lock_acquire_async(to, HAND_OFF_MS + queue_ms, tell, notified, &bench->err))
        return false;
    nap(queue_ms);
    tl_mono before = tl__mono_now();
    bool ok = tl_lock_release(from, &bench->err) == TL_OK;
    while (atomic_load(&notified->at_ns) == 0)
        tl__wait(&fd, 1, TL_NEVER);
    tl__wake_clear(notified->fd);
    if (ok && notified->code) {
        bench->err = notified->err;
        return false;
    }
    add(samples, atomic_load(&notified->at_ns) - before.ns);
    return ok && goes_on(bench);
}

static bool hand_offs(bench *bench, tl_lock *one, tl_lock *two, notified *notified,
                      int64_t queue_ms, samples *samples) {
    tl_mono end = tl__mono_add_ms(tl__mono_now(), bench->part_ms);
    memset(samples, 0, sizeof *samples);
    if (tl_lock_acquire(one, 0, &bench->err))
        return false;
    for (bool turn = false; tl__mono_before(tl__mono_now(), end) || samples->count == 0;
         turn = !turn)
        if (!hand_off(bench, turn ? two : one, turn ? one : two, notified, queue_ms, samples))
            return false;
    return true;
}

static bool measure_hand_offs(bench *bench, tl_lock *lock, samples *samples, bench_result *ret) {
    const tl_lock_options options = TL_LOCK_OPTIONS(.ttl_ms = TTL_MS);
    notified notified = {.fd = tl__wake_open()};
    int64_t queue_ms = QUEUE_MS + (int64_t)(5 * ret->round_trip.p99 / 1000);
    tl_lock *other = notified.fd < 0 ? NULL
                                     : tl_lock_new(bench->other, bench->key, strlen(bench->key),
                                                   &options, &bench->err);
    bool ok = other && hand_offs(bench, lock, other, &notified, queue_ms, samples);
    tl_lock *const both[] = {lock, other};
    for (int i = 0; i < 2; i++)
        if (both[i] && tl_lock_state(both[i]) != TL_FREE)
            (void)tl_lock_release(both[i], NULL);
    tl_lock_free(other);
    if (notified.fd >= 0)
        tl__wake_close(notified.fd);
    ret->hand_off = times_of(samples);
    return ok;
}

/* ---- all measurements ------------------------------------------------------------------------ */

static bool measure_renewals(bench *bench, tl_lock *lock, samples *samples, bench_result *ret) {
    bool ok = tl_lock_acquire(lock, 0, &bench->err) == TL_OK && part(bench, lock, renew, samples);
    if (tl_lock_state(lock) != TL_FREE)
        (void)tl_lock_release(lock, NULL);
    ret->renewal = times_of(samples);
    return ok;
}

static bool measure(bench *bench, tl_lock *lock, pairs *pairs, bench_result *ret) {
    if (!ask(bench, lock) || !part(bench, lock, ask, &pairs->ours))
        return false;
    ret->round_trip = times_of(&pairs->ours);
    memset(pairs, 0, sizeof *pairs);
    return measure_pairs(bench, lock, pairs, ret) &&
           measure_renewals(bench, lock, &pairs->ours, ret) &&
           measure_hand_offs(bench, lock, &pairs->ours, ret);
}

bool bench_measure(bench *bench, bench_result *ret) {
    const tl_lock_options options = TL_LOCK_OPTIONS(.ttl_ms = TTL_MS);
    tl_lock *lock = tl_lock_new(bench->client, bench->key, strlen(bench->key), &options,
                                &bench->err);
    pairs *pairs = calloc(1, sizeof *pairs);
    *ret = (bench_result){.server_us = -1};
    bench->err.code = pairs ? bench->err.code : TL_ENOMEM;
    bool ok = lock && pairs && measure(bench, lock, pairs, ret);
    if (!ok) /* a user who interrupts a wait for a silent server sees no error */
        (void)goes_on(bench);
    if (lock && tl_lock_state(lock) != TL_FREE)
        (void)tl_lock_release(lock, NULL);
    tl_lock_free(lock);
    free(pairs);
    return ok;
}

bench_limit bench_limit_of(const bench_result *result) {
    double network = result->waiting_us - result->server_us;
    if (result->server_us < 0)
        return result->client_us > result->waiting_us ? BENCH_CLIENT : BENCH_WAITING;
    if (result->client_us > network && result->client_us > result->server_us)
        return BENCH_CLIENT;
    return result->server_us > network ? BENCH_SERVER : BENCH_NETWORK;
}
