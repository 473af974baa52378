/*
 * Many threads on one client, each with a lock of its own, beside as many bare connections.
 */
#include <stdio.h>

#include "bare.h"
#include "crew.h"

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

static void report_all(regime r, int size, const figures *f) {
    char what[5][48];
    static const char *const words[] = {"pairs a second", "p50 of a pair", "p99 of a pair",
                                        "client CPU a pair", "pairs a second of core time"};
    for (int i = 0; i < 5; i++)
        (void)snprintf(what[i], sizeof what[i], "%d: %s", size, words[i]);
    report(&(label){ROW, what[0], "/s", r, goal_of(r, size)}, f[0].rate, f[1].rate, rounds);
    if (r == ONE)
        report(&(label){ROW, what[4], "/s", r, NULL}, f[0].core_rate, f[1].core_rate, rounds);
    report(&(label){ROW, what[1], "us", r, NULL}, f[0].p50_us, f[1].p50_us, rounds);
    report(&(label){ROW, what[2], "us", r, size > 16 ? "<= 0.5" : NULL}, f[0].p99_us, f[1].p99_us,
           rounds);
    report(&(label){ROW, what[3], "us", r, NULL}, f[0].client_us, f[1].client_us, rounds);
}

static void measure(regime r, int size) {
    static figures f[2];
    static hist of_ours, of_bare;
    crew mine = {.size = size, .operation = pair, .hist = &of_ours};
    crew theirs = {.size = size, .operation = bare_one, .hist = &of_bare};
    const contender c[] = {{&mine, crew_run, &of_ours}, {&theirs, crew_run, &of_bare}};
    tl_client *client = bench_client();
    tl_error err;
    for (int i = 0; i < size; i++) {
        char key[32];
        int n = snprintf(key, sizeof key, "bench:ours:%d", i);
        mine.ctx[i] = tl_lock_new(client, key, (size_t)n, NULL, &err);
        if (!mine.ctx[i])
            die("%s", err.message);
        (void)snprintf(key, sizeof key, "bench:bare:%d", i);
        theirs.ctx[i] = bare_open(key);
    }
    take_turns(c, 2, size > 16 ? LONG_SLICE : SLICE, SLICES, f);
    report_all(r, size, f);
    for (int i = 0; i < size; i++) {
        tl_lock_free(mine.ctx[i]);
        bare_close(theirs.ctx[i]);
    }
    tl_client_close(client);
}

void row_threads(regime r) {
    measure(r, 4);
    measure(r, 16);
    measure(r, 64);
}
