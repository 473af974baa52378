/*
 * Threads on one client, each with a lock of its own, beside as many bare connections and as many pairs that
 * one thread keeps on their way.
 */
#include <stdio.h>

#include "bare.h"
#include "crew.h"
#include "raw.h"

#define SLICE (500 * MS) /* the kernel has spread the threads, and each has had its turn */
#define SLICES 1
#define ROW "threads"

/* Of as many bare connections. */
static const char *goal_of(regime r, int size) {
    if (r == ONE || r == DELAY)
        return NULL;
    if (size <= 4)
        return ">= 1.0";
    if (size <= 16)
        return r == FREE ? ">= 1.9" : ">= 1.7";
    return r == FREE ? ">= 2.8" : ">= 2.1";
}

/* Ours, as many bare connections, and the limit. */
enum { OURS, BARE, LIMIT, SIDES };

static void report_all(regime r, int size, const figures *f) {
    const figures *ours = &f[OURS], *bare = &f[BARE], *limit = &f[LIMIT];
    char what[6][48];
    static const char *const words[] = {"pairs a second",    "p50 of a pair",
                                        "p99 of a pair",     "client CPU a pair",
                                        "server CPU a pair", "pairs a second of core time"};
    for (int i = 0; i < 6; i++)
        (void)snprintf(what[i], sizeof what[i], "%d: %s", size, words[i]);
    report_within(&(label){ROW, what[0], "/s", r, goal_of(r, size)}, ours->rate, bare->rate,
                  limit->rate, rounds);
    if (r == ONE)
        report_within(&(label){ROW, what[5], "/s", r, NULL}, ours->core_rate, bare->core_rate,
                      limit->core_rate, rounds);
    report(&(label){ROW, what[1], "us", r, NULL}, ours->p50_us, bare->p50_us, rounds);
    report(&(label){ROW, what[2], "us", r, size >= 16 ? "<= 0.8" : NULL}, ours->p99_us,
           bare->p99_us, rounds);
    report(&(label){ROW, what[3], "us", r, NULL}, ours->client_us, bare->client_us, rounds);
    report_within(&(label){ROW, what[4], "us", r, NULL}, ours->server_us, bare->server_us,
                  limit->server_us, rounds);
}

static void *begin(void *ctx) {
    crew *c = ctx;
    tl_client *client = bench_client();
    tl_error err;
    for (int i = 0; i < c->size; i++) {
        char key[32];
        int n = snprintf(key, sizeof key, "bench:ours:%d", i);
        c->ctx[i] = tl_lock_new(client, key, (size_t)n, NULL, &err);
        if (!c->ctx[i])
            die("%s", err.message);
    }
    return c;
}

static void *begin_bare(void *ctx) {
    crew *c = ctx;
    for (int i = 0; i < c->size; i++) {
        char key[32];
        (void)snprintf(key, sizeof key, "bench:bare:%d", i);
        c->ctx[i] = bare_open(key);
    }
    return c;
}

static void measure(regime r, int size) {
    static figures f[SIDES];
    static hist hists[BARE + 1];
    in_flight depth = {r, size};
    crew ours = {.size = size, .operation = bench_pair, .hist = &hists[OURS]};
    crew bare = {.size = size, .operation = bare_pair, .hist = &hists[BARE]};
    const contender c[SIDES] = {
        [OURS] = {.open = begin, .ctx = &ours, .run = crew_run, .hist = &hists[OURS]},
        [BARE] = {.open = begin_bare, .ctx = &bare, .run = crew_run, .hist = &hists[BARE]},
        [LIMIT] = {.open = raw_open, .ctx = &depth, .run = raw_run},
    };
    take_turns(c, SIDES, SLICE, SLICES, f);
    report_all(r, size, f);
}

void row_threads(regime r) {
    static const int size[] = {1, 4, 16, 64};
    for (int i = 0; i < 4; i++)
        measure(r, size[i]);
}
