/*
 * Many locks on their way at a time, by one thread and its event loop, beside one blocking connection, the same commands
 * pipelined by hand with hiredis, and the limit.
 */
#include <poll.h>
#include <stdio.h>

#include "bare.h"
#include "bench.h"
#include "hand.h"
#include "raw.h"

#define ROW "async"
#define SLICE (250 * MS)
#define SLICES 1
#define COUNTED_NS (50 * MS)
#define PATIENCE_MS 20000

typedef struct loop loop;

typedef struct {
    loop *loop;
    tl_lock *lock;
} flight;

struct loop {
    tl_client *client;
    int size, busy;
    int64_t until_ns;
    uint64_t done;
    flight flight[RAW_MOST];
};

/* ---- the loop -------------------------------------------------------------------------------- */

static void on_acquired(tl_lock *lock, tl_err code, const tl_error *err, void *ctx);

static void acquire(flight *f) {
    tl_error err;
    if (tl_lock_acquire_async(f->lock, 0, on_acquired, f, &err))
        die("%s", err.message);
}

static void on_released(tl_lock *lock, tl_err code, const tl_error *err, void *ctx) {
    flight *f = ctx;
    (void)lock;
    if (code)
        die("%s", err->message);
    f->loop->done++;
    if (now_ns() < f->loop->until_ns)
        acquire(f);
    else
        f->loop->busy--;
}

static void on_acquired(tl_lock *lock, tl_err code, const tl_error *err, void *ctx) {
    tl_error failed;
    if (code)
        die("%s", err->message);
    if (tl_lock_release_async(lock, on_released, ctx, &failed))
        die("%s", failed.message);
}

static uint64_t run(void *ctx, int64_t until_ns, meter *m) {
    loop *l = ctx;
    struct pollfd p = {.fd = tl_client_fd(l->client), .events = POLLIN};
    (void)m;
    l->until_ns = until_ns;
    l->done = 0;
    l->busy = l->size;
    for (int i = 0; i < l->size; i++)
        acquire(&l->flight[i]);
    while (l->busy > 0) {
        if (poll(&p, 1, PATIENCE_MS) == 0)
            die("%d of %d on their way did not come back", l->busy, l->size);
        (void)tl_client_dispatch(l->client);
    }
    return l->done;
}

static void *begin(void *how) {
    static loop l;
    const in_flight *f = how;
    const tl_client_options options = TL_CLIENT_OPTIONS(.url = bench_url(), .dispatch = true);
    tl_error err;
    if (tl_client_open(&options, &l.client, &err) || tl_client_ping(l.client, &err))
        die("%s", err.message);
    l.size = f->depth;
    for (int i = 0; i < l.size; i++) {
        char key[32];
        int n = snprintf(key, sizeof key, "bench:async:%d", i);
        l.flight[i] = (flight){&l, tl_lock_new(l.client, key, (size_t)n, NULL, &err)};
        if (!l.flight[i].lock)
            die("%s", err.message);
    }
    return &l;
}

/* ---- the row --------------------------------------------------------------------------------- */

enum { OURS, BARE, HAND, LIMIT, SIDES };

static double system_calls_of(const contender *c, void *ctx) {
    system_calls_start();
    int64_t until_ns = now_ns() + COUNTED_NS;
    double n = (double)(c->run ? c->run(ctx, until_ns, NULL) : repeat(c, ctx, until_ns));
    return (double)system_calls_stop() / n;
}

static void report_all(regime r, int size, const contender *c, const figures *f) {
    static const char *const words[] = {"pairs a second", "client CPU a pair", "server CPU a pair",
                                        "system calls a pair", "pairs beside hiredis by hand"};
    bool has_goal = size == 64 && r != DELAY;
    char what[5][80];
    for (int i = 0; i < 5; i++)
        (void)snprintf(what[i], sizeof what[i], "%d in flight: %s", size, words[i]);
    report_within(&(label){ROW, what[0], "/s", r, has_goal ? ">= 0.95 of the limit" : NULL},
                  f[OURS].rate, f[BARE].rate, f[LIMIT].rate, rounds);
    report(&(label){ROW, what[4], "/s", r, has_goal ? ">= 0.95" : NULL}, f[OURS].rate, f[HAND].rate,
           rounds);
    report_within(&(label){ROW, what[1], "us", r, NULL}, f[OURS].client_us, f[BARE].client_us,
                  r == ONE ? f[LIMIT].client_us : NULL, rounds); /* elsewhere it spins */
    report_within(&(label){ROW, what[2], "us", r, NULL}, f[OURS].server_us, f[BARE].server_us,
                  f[LIMIT].server_us, rounds);
    double mine = count_apart(&c[OURS], system_calls_of);
    double bare = count_apart(&c[BARE], system_calls_of);
    label calls = {ROW, what[3], "counted", r, has_goal ? "<= 0.3 counted" : NULL};
    if (r == ONE)
        report_three(&calls, mine, bare, count_apart(&c[LIMIT], system_calls_of));
    else
        report_two(&calls, mine, bare);
}

static void measure(regime r, int size) {
    static figures f[SIDES];
    in_flight depth = {r, size};
    const contender c[SIDES] = {
        [OURS] = {.open = begin, .ctx = &depth, .run = run},
        [BARE] = {.open = bare_begin, .ctx = "bench:bare", .operation = bare_pair},
        [HAND] = {.open = hand_open, .ctx = &depth, .run = hand_run},
        [LIMIT] = {.open = raw_open, .ctx = &depth, .run = raw_run},
    };
    take_turns(c, SIDES, SLICE, SLICES, f);
    report_all(r, size, c, f);
}

void row_async(regime r) {
    static const int size[] = {1, 4, 16, 64, RAW_MOST};
    for (int i = 0; i < 5; i++)
        measure(r, size[i]);
}
