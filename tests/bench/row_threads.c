/*
 * Threads on one client, each with a lock of its own, beside as many bare connections and as many pairs that
 * one thread keeps on their way.
 */
#include <stdio.h>

#include "bare.h"
#include "crew.h"
#include "raw.h"

#define SLICE (100 * MS)
#define LONG_SLICE (200 * MS) /* for many threads: each has its turn */
#define SLICES 2
#define ROW "threads"

static void pair(void *ctx) {
    tl_error err;
    if (tl_lock_acquire(ctx, 0, &err) || tl_lock_release(ctx, &err))
        die("%s", err.message);
}

static void bare_one(void *ctx) {
    bare_pair(ctx);
}

/* Of as many bare connections. */
static const char *goal_of(regime r, int size) {
    if (r == ONE || r == DELAY)
        return NULL;
    if (size <= 4)
        return ">= 1.0";
    if (size <= 16)
        return r == FREE ? ">= 1.75" : ">= 1.4";
    return r == FREE ? ">= 2.3" : ">= 2.1";
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
    report(&(label){ROW, what[2], "us", r, size > 16 ? "<= 0.5" : NULL}, ours->p99_us, bare->p99_us,
           rounds);
    report(&(label){ROW, what[3], "us", r, NULL}, ours->client_us, bare->client_us, rounds);
    report_within(&(label){ROW, what[4], "us", r, NULL}, ours->server_us, bare->server_us,
                  limit->server_us, rounds);
}

static void make(crew *c, tl_client *client) {
    tl_error err;
    for (int i = 0; i < c->size; i++) {
        char key[32];
        int n = snprintf(key, sizeof key, "bench:ours:%d", i);
        c->ctx[i] = tl_lock_new(client, key, (size_t)n, NULL, &err);
        if (!c->ctx[i])
            die("%s", err.message);
    }
}

static void make_bare(crew *c) {
    for (int i = 0; i < c->size; i++) {
        char key[32];
        (void)snprintf(key, sizeof key, "bench:bare:%d", i);
        c->ctx[i] = bare_open(key);
    }
}

static void measure(regime r, int size) {
    static figures f[SIDES];
    static hist hists[BARE + 1];
    crew crews[BARE + 1];
    contender c[SIDES];
    tl_client *client = bench_client();
    for (int i = 0; i <= BARE; i++) {
        crews[i] = (crew){
            .size = size, .operation = i == BARE ? bare_one : pair, .hist = &hists[i]};
        c[i] = (contender){&crews[i], crew_run, &hists[i]};
    }
    make(&crews[OURS], client);
    make_bare(&crews[BARE]);
    c[LIMIT] = (contender){raw_open(r, size), raw_run, NULL};
    take_turns(c, SIDES, size > 16 ? LONG_SLICE : SLICE, SLICES, f);
    report_all(r, size, f);
    for (int i = 0; i < size; i++) {
        tl_lock_free(crews[OURS].ctx[i]);
        bare_close(crews[BARE].ctx[i]);
    }
    tl_client_close(client);
    raw_close(c[LIMIT].ctx);
}

void row_threads(regime r) {
    static const int size[] = {1, 4, 16, 64};
    for (int i = 0; i < 4; i++)
        measure(r, size[i]);
}
