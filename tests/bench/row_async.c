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
#define SLICE (20 * MS)
#define SLICES 4
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

static void open_loop(loop *l, int size) {
    const tl_client_options options = TL_CLIENT_OPTIONS(.url = bench_url(), .dispatch = true);
    tl_error err;
    if (tl_client_open(&options, &l->client, &err) || tl_client_ping(l->client, &err))
        die("%s", err.message);
    l->size = size;
    for (int i = 0; i < size; i++) {
        char key[32];
        int n = snprintf(key, sizeof key, "bench:async:%d", i);
        l->flight[i] = (flight){l, tl_lock_new(l->client, key, (size_t)n, NULL, &err)};
        if (!l->flight[i].lock)
            die("%s", err.message);
    }
}

static void close_loop(loop *l) {
    for (int i = 0; i < l->size; i++)
        tl_lock_free(l->flight[i].lock);
    tl_client_close(l->client);
}

static uint64_t bare_ones(void *ctx, int64_t until_ns, meter *m) {
    uint64_t n = 0;
    (void)m;
    do {
        bare_pair(ctx);
        n++;
    } while (now_ns() < until_ns);
    return n;
}

/* ---- the row --------------------------------------------------------------------------------- */

enum { OURS, BARE, HAND, LIMIT, SIDES };

static double system_calls_of(const contender *c) {
    system_calls_start();
    double n = (double)c->run(c->ctx, now_ns() + COUNTED_NS, NULL);
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
    double mine = system_calls_of(&c[OURS]), bare = system_calls_of(&c[BARE]);
    label calls = {ROW, what[3], "counted", r, has_goal ? "<= 0.3 counted" : NULL};
    if (r == ONE)
        report_three(&calls, mine, bare, system_calls_of(&c[LIMIT]));
    else
        report_two(&calls, mine, bare);
}

static void measure(regime r, int size) {
    static figures f[SIDES];
    static loop mine;
    contender c[SIDES];
    open_loop(&mine, size);
    c[OURS] = (contender){&mine, run, NULL};
    c[BARE] = (contender){bare_open("bench:bare"), bare_ones, NULL};
    c[HAND] = (contender){hand_open(size), hand_run, NULL};
    c[LIMIT] = (contender){raw_open(r, size), raw_run, NULL};
    take_turns(c, SIDES, r == DELAY ? 2 * SLICE : SLICE, SLICES, f);
    report_all(r, size, c, f);
    close_loop(&mine);
    bare_close(c[BARE].ctx);
    hand_close(c[HAND].ctx);
    raw_close(c[LIMIT].ctx);
}

void row_async(regime r) {
    static const int size[] = {1, 4, 16, 64, RAW_MOST};
    for (int i = 0; i < 5; i++)
        measure(r, size[i]);
}
