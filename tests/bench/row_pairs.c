/*
 * Acquire and release by one thread, uncontended, beside bare hiredis and beside the same commands without a library.
 */
#include <stdio.h>
#include <string.h>

#include "bare.h"
#include "bench.h"
#include "raw.h"

#define SLICE (20 * MS)
#define LONG_SLICE (40 * MS) /* where a pair takes 10 ms */
#define SLICES 8
#define COUNTED 200 /* pairs */
#define ROW "pairs"

/* ---- contenders ------------------------------------------------------------------------------ */

static void pair(void *lock) {
    tl_error err;
    if (tl_lock_acquire(lock, 0, &err) || tl_lock_release(lock, &err))
        die("%s", err.message);
}

static uint64_t ours(void *ctx, int64_t until_ns, meter *m) {
    uint64_t n = 0;
    (void)m;
    do {
        pair(ctx);
        n++;
    } while (now_ns() < until_ns);
    return n;
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

/* ---- reports --------------------------------------------------------------------------------- */

static const char *rate_goal(regime r) {
    return r == DELAY ? NULL : r == ONE ? ">= 0.85" : ">= 1.2, >= 0.95 of the limit";
}

static const char *cpu_goal(regime r) {
    return r == DELAY ? "<= 1.2" : r == ONE ? NULL : "<= 1.1";
}

static const char *server_goal(regime r) {
    return r != DELAY ? "<= 1.35" : NULL;
}

/* How long a pair takes, in round trips of 5 ms. */
static void report_trips(const char *what, const figures *const side[3]) {
    double trips[3][ROUNDS_MAX];
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < rounds; i++)
            trips[k][i] = 1000 / side[k]->rate[i] / 5;
    report_within(&(label){ROW, what, "round trips", DELAY, NULL}, trips[0], trips[1], trips[2],
                  rounds);
}

static void report_figures(regime r, const figures *f, const figures *base, const figures *limit) {
    report_within(&(label){ROW, "pairs a second", "/s", r, rate_goal(r)}, f->rate, base->rate,
                  limit->rate, rounds);
    if (r == ONE)
        report_within(&(label){ROW, "pairs a second of core time", "/s", r, rate_goal(r)},
                      f->core_rate, base->core_rate, limit->core_rate, rounds);
    if (r == DELAY)
        report_trips("time of a pair", (const figures *const[]){f, base, limit});
    report_within(&(label){ROW, "client CPU a pair", "us", r, cpu_goal(r)}, f->client_us,
                  base->client_us, r == ONE || r == DELAY ? limit->client_us : NULL,
                  rounds); /* else it spins */
    report_within(&(label){ROW, "server CPU a pair", "us", r, server_goal(r)}, f->server_us,
                  base->server_us, limit->server_us, rounds);
}

static double commands_of(void (*operation)(void *), void *ctx) {
    commands_start();
    for (int i = 0; i < COUNTED; i++)
        operation(ctx);
    return (double)commands_stop() / COUNTED;
}

static double allocations_of(void (*operation)(void *), void *ctx) {
    allocations_start();
    for (int i = 0; i < COUNTED; i++)
        operation(ctx);
    return (double)allocations_stop() / COUNTED;
}

static void bare_one(void *b) {
    bare_pair(b);
}

static void report_counts(tl_lock *lock, bare *b) {
    report_two(&(label){ROW, "requests a pair", "counted", ONE, "2"}, commands_of(pair, lock),
               commands_of(bare_one, b));
    report_two(&(label){ROW, "allocations a pair", "counted", ONE, "0"}, allocations_of(pair, lock),
               allocations_of(bare_one, b));
}

/* ---- the row --------------------------------------------------------------------------------- */

static tl_lock *make(tl_client *client, const char *key) {
    tl_error err;
    tl_lock *lock = tl_lock_new(client, key, strlen(key), NULL, &err);
    if (!lock)
        die("%s", err.message);
    return lock;
}

/* What the log costs: one that is told of warnings alone, and one that is told of each step. */
static void hear(tl_log_level level, const char *line, void *ctx) {
    (void)line;
    *(volatile int *)ctx = (int)level;
}

static void row_trace(void) {
    static figures f[3];
    static volatile int heard;
    static const char *const keys[] = {"bench:silent", "bench:log", "bench:trace"};
    tl_client *client[3];
    tl_lock *lock[3];
    contender c[3];
    for (int i = 0; i < 3; i++) {
        tl_client_options options = TL_CLIENT_OPTIONS(.url = bench_url());
        tl_error err;
        options.log = i > 0 ? hear : NULL;
        options.log_ctx = (void *)&heard;
        options.trace = i == 2;
        if (tl_client_open(&options, &client[i], &err))
            die("%s", err.message);
        lock[i] = make(client[i], keys[i]);
        c[i] = (contender){lock[i], ours, NULL};
    }
    take_turns(c, 3, SLICE, SLICES, f);
    report(&(label){ROW, "a log, no trace, beside none: client CPU a pair", "us", ONE, "<= 1.0"},
           f[1].client_us, f[0].client_us, rounds);
    report(&(label){ROW, "a trace beside none: client CPU a pair", "us", ONE, NULL}, f[2].client_us,
           f[0].client_us, rounds);
    for (int i = 0; i < 3; i++) {
        tl_lock_free(lock[i]);
        tl_client_close(client[i]);
    }
}

enum { OURS, BARE, LIMIT, SIDES };

static void report_all(regime r, const contender *c, const figures *f) {
    report_figures(r, &f[OURS], &f[BARE], &f[LIMIT]);
    if (r != ONE)
        return;
    report_counts(c[OURS].ctx, c[BARE].ctx);
    row_trace();
}

void row_pairs(regime r) {
    static figures f[SIDES];
    tl_client *client = bench_client();
    contender c[SIDES] = {
        [OURS] = {make(client, "bench:ours"), ours, NULL},
        [BARE] = {bare_open("bench:bare"), bare_ones, NULL},
        [LIMIT] = {raw_open(r, 1), raw_run, NULL},
    };
    take_turns(c, SIDES, r == DELAY ? LONG_SLICE : SLICE, SLICES, f);
    report_all(r, c, f);
    tl_lock_free(c[OURS].ctx);
    bare_close(c[BARE].ctx);
    raw_close(c[LIMIT].ctx);
    tl_client_close(client);
}
