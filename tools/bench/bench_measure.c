/*
 * The measurements, each for its part of the time. Ours and the bare loop go by turns, so that both meet the same
 * machine. A signal is looked for between short slices; whatever is held then is given back.
 */
#include "bench/bench_measure.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "ground/clock.h"
#include "ground/wait.h"

#define TTL_MS 10000
#define SAMPLES 20000 /* of a measurement; more are only counted */
#define SLICE_MS 50
#define QUEUE_MS 5 /* until who waits stands in line, at least */
#define HAND_OFF_MS 5000
#define NS_PER_US 1000.0

/* ---- samples --------------------------------------------------------------------------------- */

typedef struct {
    int64_t count, sum_ns, kept;
    int64_t ns[SAMPLES];
} samples;

static void add(samples *s, int64_t ns) {
    s->count++;
    s->sum_ns += ns;
    if (s->kept < SAMPLES)
        s->ns[s->kept++] = ns;
}

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static bench_times times_of(samples *s) {
    bench_times t = {.count = s->count};
    if (s->count == 0)
        return t;
    qsort(s->ns, (size_t)s->kept, sizeof *s->ns, compare);
    int64_t middle = s->kept / 2, within = s->kept - 1 - (s->kept - 1) / 100;
    t.p50 = (double)s->ns[middle] / NS_PER_US;
    t.p99 = (double)s->ns[within] / NS_PER_US;
    t.mean = (double)s->sum_ns / (double)s->count / NS_PER_US;
    return t;
}

/* ---- slices ---------------------------------------------------------------------------------- */

static bool goes_on(bench *b) {
    for (int sig; !b->ended_by && (sig = signals_next(b->signals));)
        if (signals_ends(b->signals, sig))
            b->ended_by = sig;
    return !b->ended_by;
}

/* Do it again and again until then, once at least, and note how long each took. */
static bool slice(bench *b, tl_lock *lock, bool (*once)(bench *b, tl_lock *lock), int64_t ms,
                  samples *s) {
    tl_mono now = tl__mono_now(), end = tl__mono_add_ms(now, ms);
    do {
        tl_mono before = now;
        if (!once(b, lock))
            return false;
        now = tl__mono_now();
        add(s, tl__ns_until(before, now));
    } while (tl__mono_before(now, end));
    return goes_on(b);
}

static bool part(bench *b, tl_lock *lock, bool (*once)(bench *b, tl_lock *lock), samples *s) {
    tl_mono end = tl__mono_add_ms(tl__mono_now(), b->part_ms);
    bool ok;
    memset(s, 0, sizeof *s);
    do
        ok = slice(b, lock, once, SLICE_MS, s);
    while (ok && tl__mono_before(tl__mono_now(), end));
    return ok;
}

/* ---- what is done ---------------------------------------------------------------------------- */

static bool ask(bench *b, tl_lock *lock) {
    (void)lock;
    return tl_client_ping(b->client, &b->err) == TL_OK;
}

static bool pair(bench *b, tl_lock *lock) {
    return tl_lock_acquire(lock, 0, &b->err) == TL_OK && tl_lock_release(lock, &b->err) == TL_OK;
}

static bool bare_pair(bench *b, tl_lock *lock) {
    (void)lock;
    return bench_bare_pair(b->bare);
}

static bool renew(bench *b, tl_lock *lock) {
    return tl_lock_extend(lock, TTL_MS, &b->err) == TL_OK;
}

/* ---- pairs ----------------------------------------------------------------------------------- */

typedef struct {
    samples ours, bare, waited;
    int64_t server_us;
    bool server_known;
} pairs;

static int64_t waited_us(const bench *b) {
    tl_stats s = {.size = sizeof s};
    return tl_client_stats(b->client, &s, NULL) ? 0 : (int64_t)s.round_trips.sum_us;
}

/* A pair, and how long of it was for answers; what it takes to find that out isn't timed. */
static bool our_pair(bench *b, tl_lock *lock, pairs *p) {
    int64_t waited = waited_us(b);
    tl_mono before = tl__mono_now();
    if (!pair(b, lock))
        return false;
    add(&p->ours, tl__ns_until(before, tl__mono_now()));
    add(&p->waited, (waited_us(b) - waited) * (int64_t)NS_PER_US);
    return true;
}

static bool our_slice(bench *b, tl_lock *lock, pairs *p) {
    int64_t cpu = b->bare ? bench_bare_cpu_us(b->bare) : -1;
    tl_mono end = tl__mono_add_ms(tl__mono_now(), SLICE_MS);
    bool ok;
    do
        ok = our_pair(b, lock, p);
    while (ok && tl__mono_before(tl__mono_now(), end));
    int64_t after = cpu < 0 ? -1 : bench_bare_cpu_us(b->bare);
    p->server_known = p->server_known && after >= cpu && cpu >= 0;
    p->server_us += after - cpu;
    return ok && goes_on(b);
}

/* Without it the rest is measured all the same. */
static bool bare_slice(bench *b, pairs *p) {
    if (slice(b, NULL, bare_pair, SLICE_MS, &p->bare))
        return true;
    if (b->ended_by)
        return false;
    bench_bare_close(b->bare);
    b->bare = NULL;
    p->bare.count = 0;
    return true;
}

static double rate_of(const samples *s) {
    return s->count > 0 ? (double)s->count * 1e9 / (double)s->sum_ns : 0;
}

/* What is typical: a moment in which this machine did something else says nothing of locks. */
static bool measure_pairs(bench *b, tl_lock *lock, pairs *p, bench_result *ret) {
    bool ok = pair(b, lock); /* it is connected, and the scripts are there, from now on */
    tl_mono end = tl__mono_add_ms(tl__mono_now(), 2 * b->part_ms);
    p->server_known = b->bare != NULL;
    while (ok) {
        ok = our_slice(b, lock, p) && (!b->bare || bare_slice(b, p));
        if (!tl__mono_before(tl__mono_now(), end))
            break;
    }
    if (!ok)
        return false;
    ret->pairs = rate_of(&p->ours);
    ret->bare_pairs = rate_of(&p->bare);
    ret->pair = times_of(&p->ours);
    ret->bare_pair = times_of(&p->bare);
    ret->waiting_us = times_of(&p->waited).p50;
    ret->client_us = ret->pair.p50 > ret->waiting_us ? ret->pair.p50 - ret->waiting_us : 0;
    ret->server_us = p->server_known ? (double)p->server_us / (double)p->ours.count : -1;
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
    notified *t = ctx;
    (void)lock;
    t->code = code;
    if (err)
        t->err = *err;
    atomic_store(&t->at_ns, tl__mono_now().ns);
    tl__wake_post(t->fd);
}

static void nap(int64_t ms) {
    tl_mono end = tl__mono_add_ms(tl__mono_now(), ms);
    while (tl__mono_before(tl__mono_now(), end))
        tl__wait(NULL, 0, end);
}

/* How long it is from the release to the other's hold; the other then has it. */
static bool hand_off(bench *b, tl_lock *from, tl_lock *to, notified *t, int64_t queue_ms,
                     samples *s) {
    struct pollfd fd = {.fd = t->fd, .events = POLLIN};
    atomic_store(&t->at_ns, 0);
    if (tl_lock_acquire_async(to, HAND_OFF_MS + queue_ms, tell, t, &b->err))
        return false;
    nap(queue_ms);
    tl_mono before = tl__mono_now();
    bool ok = tl_lock_release(from, &b->err) == TL_OK;
    while (atomic_load(&t->at_ns) == 0)
        tl__wait(&fd, 1, TL_NEVER);
    tl__wake_clear(t->fd);
    if (ok && t->code) {
        b->err = t->err;
        return false;
    }
    add(s, atomic_load(&t->at_ns) - before.ns);
    return ok && goes_on(b);
}

static bool hand_offs(bench *b, tl_lock *one, tl_lock *two, notified *t, int64_t queue_ms,
                      samples *s) {
    tl_mono end = tl__mono_add_ms(tl__mono_now(), b->part_ms);
    memset(s, 0, sizeof *s);
    if (tl_lock_acquire(one, 0, &b->err))
        return false;
    for (bool turn = false; tl__mono_before(tl__mono_now(), end) || s->count == 0; turn = !turn)
        if (!hand_off(b, turn ? two : one, turn ? one : two, t, queue_ms, s))
            return false;
    return true;
}

static bool measure_hand_offs(bench *b, tl_lock *lock, samples *s, bench_result *ret) {
    const tl_lock_options options = TL_LOCK_OPTIONS(.ttl_ms = TTL_MS);
    notified t = {.fd = tl__wake_open()};
    int64_t queue_ms = QUEUE_MS + (int64_t)(5 * ret->round_trip.p99 / 1000);
    tl_lock *other = t.fd < 0 ? NULL
                              : tl_lock_new(b->other, b->key, strlen(b->key), &options, &b->err);
    bool ok = other && hand_offs(b, lock, other, &t, queue_ms, s);
    tl_lock *const both[] = {lock, other};
    for (int i = 0; i < 2; i++)
        if (both[i] && tl_lock_state(both[i]) != TL_FREE)
            (void)tl_lock_release(both[i], NULL);
    tl_lock_free(other);
    if (t.fd >= 0)
        tl__wake_close(t.fd);
    ret->hand_off = times_of(s);
    return ok;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static bool measure_renewals(bench *b, tl_lock *lock, samples *s, bench_result *ret) {
    bool ok = tl_lock_acquire(lock, 0, &b->err) == TL_OK && part(b, lock, renew, s);
    if (tl_lock_state(lock) != TL_FREE)
        (void)tl_lock_release(lock, NULL);
    ret->renewal = times_of(s);
    return ok;
}

static bool measure(bench *b, tl_lock *lock, pairs *p, bench_result *ret) {
    if (!ask(b, lock) || !part(b, lock, ask, &p->ours))
        return false;
    ret->round_trip = times_of(&p->ours);
    memset(p, 0, sizeof *p);
    return measure_pairs(b, lock, p, ret) && measure_renewals(b, lock, &p->ours, ret) &&
           measure_hand_offs(b, lock, &p->ours, ret);
}

bool bench_measure(bench *b, bench_result *ret) {
    const tl_lock_options options = TL_LOCK_OPTIONS(.ttl_ms = TTL_MS);
    tl_lock *lock = tl_lock_new(b->client, b->key, strlen(b->key), &options, &b->err);
    pairs *p = calloc(1, sizeof *p);
    *ret = (bench_result){.server_us = -1};
    b->err.code = p ? b->err.code : TL_ENOMEM;
    bool ok = lock && p && measure(b, lock, p, ret);
    if (!ok) /* who has had enough of a server that doesn't answer is told no more of it */
        (void)goes_on(b);
    if (lock && tl_lock_state(lock) != TL_FREE)
        (void)tl_lock_release(lock, NULL);
    tl_lock_free(lock);
    free(p);
    return ok;
}

bench_limit bench_limit_of(const bench_result *r) {
    double network = r->waiting_us - r->server_us;
    if (r->server_us < 0)
        return r->client_us > r->waiting_us ? BENCH_CLIENT : BENCH_WAITING;
    if (r->client_us > network && r->client_us > r->server_us)
        return BENCH_CLIENT;
    return r->server_us > network ? BENCH_SERVER : BENCH_NETWORK;
}
