/*
 * Acquire and release by one thread, uncontended, beside bare hiredis and beside the same commands without a library.
 */
#include "bare.h"
#include "bench.h"
#include "raw.h"

#define SLICE (250 * MS)
#define SLICES 2
#define COUNTED 200 /* pairs */
#define ROW "pairs"

/* ---- contenders ------------------------------------------------------------------------------ */

/* A client that has the key's lock, by the way of the regime or by a unix socket, and what it logs. */
typedef struct {
    const char *key;
    bool near, log, trace;
} user;

static void hear(tl_log_level level, const char *line, void *ctx) {
    (void)line;
    *(volatile int *)ctx = (int)level;
}

static void *begin(void *how) {
    static volatile int heard;
    const user *u = how;
    const tl_client_options options = TL_CLIENT_OPTIONS(.url = u->near ? bench_unix_url()
                                                                       : bench_url(),
                                                        .log = u->log ? hear : NULL,
                                                        .log_ctx = (void *)&heard,
                                                        .trace = u->trace);
    return bench_lock(&options, u->key);
}

static void *begin_bare_near(void *key) {
    return bare_open_on(bench_connect_near(), key);
}

/* ---- reports --------------------------------------------------------------------------------- */

static const char *rate_goal(regime r) {
    return r == DELAY   ? NULL
           : r == ONE   ? ">= 0.92"
           : r == CROSS ? ">= 2.5, >= 0.95 of the limit"
                        : ">= 1.2, >= 0.95 of the limit";
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

static double allocations_of(const contender *c, void *ctx) {
    allocations_start();
    for (int i = 0; i < COUNTED; i++)
        c->operation(ctx);
    return (double)allocations_stop() / COUNTED;
}

static void report_counts(const contender *ours, const contender *base) {
    report_two(&(label){ROW, "requests a pair", "counted", ONE, "2"},
               count_apart(ours, commands_each), count_apart(base, commands_each));
    report_two(&(label){ROW, "allocations a pair", "counted", ONE, "0"},
               count_apart(ours, allocations_of), count_apart(base, allocations_of));
}

/* ---- the row --------------------------------------------------------------------------------- */

/* What the log costs: one that is told of warnings alone, and one that is told of each step. */
static void row_trace(void) {
    static figures f[3];
    static user users[] = {{.key = "bench:silent"},
                           {.key = "bench:log", .log = true},
                           {.key = "bench:trace", .log = true, .trace = true}};
    contender c[3];
    for (int i = 0; i < 3; i++)
        c[i] = (contender){.open = begin, .ctx = &users[i], .operation = bench_pair};
    take_turns(c, 3, SLICE, SLICES, f);
    report(&(label){ROW, "a log, no trace, beside none: client CPU a pair", "us", ONE, "<= 1.0"},
           f[1].client_us, f[0].client_us, rounds);
    report(&(label){ROW, "a trace beside none: client CPU a pair", "us", ONE, NULL}, f[2].client_us,
           f[0].client_us, rounds);
}

static void row_near(void) {
    static figures f[2];
    static user near = {.key = "bench:near", .near = true};
    const contender c[] = {
        {.open = begin, .ctx = &near, .operation = bench_pair},
        {.open = begin_bare_near, .ctx = "bench:bare:near", .operation = bare_pair},
    };
    take_turns(c, 2, SLICE, SLICES, f);
    report(&(label){ROW, "unix socket: pairs a second of core time", "/s", ONE, NULL},
           f[0].core_rate, f[1].core_rate, rounds);
}

enum { OURS, BARE, LIMIT, SIDES };

void row_pairs(regime r) {
    static figures f[SIDES];
    static user mine = {.key = "bench:ours"};
    in_flight one = {r, 1};
    const contender c[SIDES] = {
        [OURS] = {.open = begin, .ctx = &mine, .operation = bench_pair},
        [BARE] = {.open = bare_begin, .ctx = "bench:bare", .operation = bare_pair},
        [LIMIT] = {.open = raw_open, .ctx = &one, .run = raw_run},
    };
    take_turns(c, SIDES, SLICE, SLICES, f);
    report_figures(r, &f[OURS], &f[BARE], &f[LIMIT]);
    if (r != ONE)
        return;
    row_near();
    report_counts(&c[OURS], &c[BARE]);
    row_trace();
}
