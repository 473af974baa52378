/*
 * Many held locks, renewed by the keeper, beside a program that sends an EVALSHA for each at the
 * same pace, pipelined, and one that sends an EVALSHA for a hundred; and what another client notices of
 * it. A keeper can't be told to pause, so here they don't take turns by slices: the others' rounds stand
 * before and after ours.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bench.h"
#include "pipeline.h"

#define PARTS 3 /* renewed at this part of the lifetime, by the keeper and so by the baseline */
#define ROUND_LEAST (500 * MS)
#define ROUND_MOST (1 * SECOND)
#define SWEEPS 20 /* each lock is looked at so often from one renewal to the next */
#define NAP (1 * MS)
#define ROW "renew"

enum { OURS, BASE, LIMIT, SIDES };

/* By round. */
typedef struct {
    double client_us[ROUNDS_MAX], server_us[ROUNDS_MAX]; /* a renewal */
    double capacity[ROUNDS_MAX],
        p99_us[ROUNDS_MAX]; /* renewals a second of CPU; another client's */
} costs;

typedef struct {
    int count;
    int64_t ttl_ms, cycle_ns, round_ns;
    tl_lock **locks;
    int64_t *deadline_ns; /* as last seen; now_ns */
    int next;             /* to be looked at */
    uint64_t renewed;
    double latest; /* renewal, as a share of the lifetime */
    int lost;
    redisContext *probe;
    double idle_server; /* CPU that the server uses while nobody asks, a second */
    costs of[SIDES];
} held;

/* ---- holding --------------------------------------------------------------------------------- */

static void nap(int64_t ns) {
    const struct timespec t = {.tv_sec = (time_t)(ns / SECOND), .tv_nsec = (long)(ns % SECOND)};
    (void)nanosleep(&t, NULL);
}

/* Spread over a cycle, so that their renewals are. */
static void hold_all(held *h, tl_client *client) {
    const tl_lock_options options = TL_LOCK_OPTIONS(.ttl_ms = h->ttl_ms);
    int64_t start = now_ns();
    tl_error err;
    for (int i = 0; i < h->count; i++) {
        char key[32];
        int n = snprintf(key, sizeof key, "bench:held:%d", i);
        h->locks[i] = tl_lock_new(client, key, (size_t)n, &options, &err);
        if (!h->locks[i] || tl_lock_acquire(h->locks[i], 0, &err))
            die("%s", err.message);
        int64_t early = start + h->cycle_ns / h->count * i - now_ns();
        if (early > NAP)
            nap(early);
    }
}

static void look_at(held *h, int i, int64_t now) {
    int64_t deadline = now + tl_lock_remaining_ms(h->locks[i]) * MS;
    int64_t later = deadline - h->deadline_ns[i], ttl_ns = h->ttl_ms * MS;
    if (later < ttl_ns / 10)
        return;
    if (h->deadline_ns[i] != 0) {
        double share = (double)later / (double)ttl_ns;
        h->renewed++;
        h->latest = share > h->latest ? share : h->latest;
    }
    h->deadline_ns[i] = deadline;
}

static void look_at_some(held *h, int n) {
    int64_t now = now_ns();
    for (int i = 0; i < n; i++) {
        look_at(h, h->next, now);
        h->next = (h->next + 1) % h->count;
    }
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static int64_t own_cpu_ns(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

static void be_another(held *h, hist *hist) {
    int64_t start = now_ns();
    redisReply *reply = redisCommand(h->probe, "GET bench:probe");
    if (!reply)
        die("probe: %s", h->probe->errstr);
    hist_add(hist, now_ns() - start);
    freeReplyObject(reply);
}

/* Look at the locks, if there are any, for the length of a round; with `hist` be another client meanwhile, now and then. */
static void pass(held *h, hist *hist) {
    int some = (int)(h->count / (h->cycle_ns / SWEEPS / NAP)) + 1;
    for (int64_t end = now_ns() + h->round_ns; now_ns() < end; nap(NAP)) {
        if (hist)
            be_another(h, hist);
        if (h->locks[0])
            look_at_some(h, some);
    }
    if (h->locks[0])
        look_at_some(h, h->count);
}

/* What was used by others than this thread, us a renewal. */
static void write_down(const held *h, const meter *m, int64_t own_ns, uint64_t renewed, int round,
                       costs *ret) {
    double n = renewed ? (double)renewed : 1, seconds = (double)m->ns / SECOND;
    double client = (double)(m->client_ns - own_ns) / n / 1000;
    double server = ((double)m->server_ns - h->idle_server * seconds) / n / 1000;
    ret->client_us[round] = client;
    ret->server_us[round] = server;
    ret->capacity[round] = renewed ? 1e6 / (client + server) : 0;
}

static void find_idle(held *h) {
    meter m = {0};
    meter_start(&m);
    pass(h, NULL);
    meter_stop(&m);
    h->idle_server = (double)m.server_ns / ((double)m.ns / SECOND);
}

/* What it costs is measured while nobody else asks the server: what an occasional command costs it depends on what else
 * keeps it awake, and is more than a renewal does. Then what another notices. */
static void one_round(held *h, pipeline *p, int round, costs *ret) {
    static hist hist;
    meter m = {0};
    int64_t own = own_cpu_ns();
    uint64_t before = p ? pipeline_renewed(p) : h->renewed;
    meter_start(&m);
    pass(h, NULL);
    meter_stop(&m);
    uint64_t renewed = (p ? pipeline_renewed(p) : h->renewed) - before;
    write_down(h, &m, own_cpu_ns() - own, renewed, round, ret);
    hist_clear(&hist);
    pass(h, &hist);
    ret->p99_us[round] = hist_us(&hist, 0.99);
}

static void rounds_of_pipeline(held *h, int side, int from, int to) {
    if (from == to)
        return;
    pipeline *p = pipeline_start(h->count, h->ttl_ms, h->cycle_ns,
                                 side == LIMIT ? PIPELINE_JOINED : 1);
    for (int round = from; round < to; round++)
        one_round(h, p, round, &h->of[side]);
    pipeline_stop(p);
    bench_flush();
}

static void rounds_of_ours(held *h) {
    tl_client *client = bench_client();
    hold_all(h, client);
    for (int64_t end = now_ns() + h->cycle_ns; now_ns() < end;)
        pass(h, NULL); /* a first renewal finds out more, and is paid for once */
    for (int round = 0; round < rounds; round++)
        one_round(h, NULL, round, &h->of[OURS]);
    for (int i = 0; i < h->count; i++) {
        h->lost += tl_lock_state(h->locks[i]) == TL_LOST;
        tl_lock_free(h->locks[i]);
        h->locks[i] = NULL;
    }
    tl_client_close(client);
    bench_flush();
}

/* ---- the row --------------------------------------------------------------------------------- */

static void report_all(regime r, const held *h) {
    static const char *const words[] = {
        "renewals a second of core time", "client CPU a lock", "server CPU a lock",
        "p99 of another client",          "latest renewal",    "locks lost"};
    char what[6][64];
    for (int i = 0; i < 6; i++)
        (void)snprintf(what[i], sizeof what[i], "%d: %s", h->count, words[i]);
    const costs *ours = &h->of[OURS], *base = &h->of[BASE], *limit = &h->of[LIMIT];
    report_within(&(label){ROW, what[0], "/s", r, ">= 1.5"}, ours->capacity, base->capacity,
                  limit->capacity, rounds);
    report_within(&(label){ROW, what[1], "us", r, "<= 0.5 us"}, ours->client_us, base->client_us,
                  limit->client_us, rounds);
    report_within(&(label){ROW, what[2], "us", r, "<= 2.6 us"}, ours->server_us, base->server_us,
                  limit->server_us, rounds);
    report_within(&(label){ROW, what[3], "us", r, "<= 0.6"}, ours->p99_us, base->p99_us,
                  limit->p99_us, rounds);
    report_one(&(label){ROW, what[4], "of the validity", r, "<= 0.5"}, h->latest);
    report_one(&(label){ROW, what[5], "counted", r, "0"}, h->lost);
}

static void measure(regime r, int count, int64_t ttl_ms) {
    static held h;
    h = (held){.count = count, .ttl_ms = ttl_ms, .cycle_ns = ttl_ms * MS / PARTS};
    h.round_ns = h.cycle_ns < ROUND_LEAST  ? ROUND_LEAST
                 : h.cycle_ns > ROUND_MOST ? ROUND_MOST
                                           : h.cycle_ns;
    h.locks = calloc((size_t)count, sizeof *h.locks);
    h.deadline_ns = calloc((size_t)count, sizeof *h.deadline_ns);
    if (!h.locks || !h.deadline_ns)
        die("out of memory");
    h.probe = bench_connect();
    find_idle(&h);
    rounds_of_pipeline(&h, BASE, 0, rounds / 2);
    rounds_of_pipeline(&h, LIMIT, 0, rounds / 2);
    rounds_of_ours(&h);
    rounds_of_pipeline(&h, LIMIT, rounds / 2, rounds);
    rounds_of_pipeline(&h, BASE, rounds / 2, rounds);
    report_all(r, &h);
    redisFree(h.probe);
    free(h.locks);
    free(h.deadline_ns);
}

void row_renew(regime r) {
    measure(r, 1000, 1500);
    measure(r, 10000, 6000);
    measure(r, 100000, 30000);
}
