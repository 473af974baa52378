/*
 * Many held locks of the default lifetime, renewed by the keeper, beside a program that sends an EVALSHA for each at the
 * same pace, pipelined, and one that sends an EVALSHA for a hundred; and what another client notices of
 * it. A keeper can't be told to pause, so here they don't take turns by slices: the others' rounds stand
 * before and after ours, each in a process of its own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bench.h"
#include "pipeline.h"

#define PARTS 3 /* renewed at this part of the lifetime, by the keeper and so by the baseline */
#define TTL_MS INT64_C(30000)
#define CYCLE (TTL_MS * MS / PARTS)
#define ROUND (2 * SECOND) /* in which none is renewed twice */
#define LOCKS 100000
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
    tl_lock **locks;
    int64_t *deadline_ns; /* as last seen; now_ns */
    uint64_t renewed;
    double latest; /* renewal, as a share of the lifetime */
    int lost;
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
    const tl_lock_options options = TL_LOCK_OPTIONS(.ttl_ms = TTL_MS);
    int64_t start = now_ns();
    tl_error err;
    for (int i = 0; i < LOCKS; i++) {
        char key[32];
        int n = snprintf(key, sizeof key, "bench:held:%d", i);
        h->locks[i] = tl_lock_new(client, key, (size_t)n, &options, &err);
        if (!h->locks[i] || tl_lock_acquire(h->locks[i], 0, &err))
            die("%s", err.message);
        int64_t early = start + CYCLE / LOCKS * i - now_ns();
        if (early > NAP)
            nap(early);
    }
}

static void look_at(held *h, int i, int64_t now) {
    int64_t deadline = now + tl_lock_remaining_ms(h->locks[i]) * MS;
    int64_t later = deadline - h->deadline_ns[i], ttl_ns = TTL_MS * MS;
    if (later < ttl_ns / 10)
        return;
    if (h->deadline_ns[i] != 0) {
        double share = (double)later / (double)ttl_ns;
        h->renewed++;
        h->latest = share > h->latest ? share : h->latest;
    }
    h->deadline_ns[i] = deadline;
}

static void look_at_all(held *h) {
    int64_t now = now_ns();
    for (int i = 0; i < LOCKS && h->locks[0]; i++)
        look_at(h, i, now);
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static int64_t own_cpu_ns(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

static void be_another(hist *hist) {
    redisContext *c = bench_connect();
    for (int64_t end = now_ns() + ROUND; now_ns() < end; nap(NAP)) {
        int64_t start = now_ns();
        redisReply *reply = redisCommand(c, "GET bench:probe");
        if (!reply)
            die("probe: %s", c->errstr);
        hist_add(hist, now_ns() - start);
        freeReplyObject(reply);
    }
    redisFree(c);
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
    nap(ROUND);
    meter_stop(&m);
    h->idle_server = (double)m.server_ns / ((double)m.ns / SECOND);
}

/* What it costs is measured while nobody else asks the server: what an occasional command costs it depends on what else
 * keeps it awake, and is more than a renewal does. Then what another notices. */
static void one_round(held *h, pipeline *p, int round, costs *ret) {
    static hist hist;
    meter m = {0};
    look_at_all(h);
    int64_t own = own_cpu_ns();
    uint64_t before = p ? pipeline_renewed(p) : h->renewed;
    meter_start(&m);
    nap(ROUND);
    meter_stop(&m);
    own = own_cpu_ns() - own;
    look_at_all(h);
    uint64_t renewed = (p ? pipeline_renewed(p) : h->renewed) - before;
    write_down(h, &m, own, renewed, round, ret);
    hist_clear(&hist);
    be_another(&hist);
    ret->p99_us[round] = hist_us(&hist, 0.99);
}

/* The rounds of one side. */
typedef struct {
    held *h;
    int side, from, to;
} stretch;

static void be_pipeline(const stretch *s) {
    pipeline *p = pipeline_start(LOCKS, TTL_MS, CYCLE, s->side == LIMIT ? PIPELINE_JOINED : 1);
    for (int round = s->from; round < s->to; round++)
        one_round(s->h, p, round, &s->h->of[s->side]);
    pipeline_stop(p);
}

static void be_ours(const stretch *s) {
    held *h = s->h;
    hold_all(h, bench_client());
    look_at_all(h);
    nap(CYCLE); /* a first renewal finds out more, and is paid for once */
    for (int round = s->from; round < s->to; round++)
        one_round(h, NULL, round, &h->of[OURS]);
    for (int i = 0; i < LOCKS; i++)
        h->lost += tl_lock_state(h->locks[i]) == TL_LOST;
}

static void run_stretch(void *ctx) {
    const stretch *s = ctx;
    if (s->side == OURS)
        be_ours(s);
    else
        be_pipeline(s);
}

static void rounds_of(held *h, int side, int from, int to) {
    if (from == to)
        return;
    apart(run_stretch, &(stretch){h, side, from, to});
    bench_flush();
}

/* ---- the row --------------------------------------------------------------------------------- */

static void report_all(regime r, const held *h) {
    static const char *const words[] = {
        "renewals a second of core time", "client CPU a lock", "server CPU a lock",
        "p99 of another client",          "latest renewal",    "locks lost"};
    char what[6][64];
    for (int i = 0; i < 6; i++)
        (void)snprintf(what[i], sizeof what[i], "%d: %s", LOCKS, words[i]);
    const costs *ours = &h->of[OURS], *base = &h->of[BASE], *limit = &h->of[LIMIT];
    report_within(&(label){ROW, what[0], "/s", r, ">= 1.5"}, ours->capacity, base->capacity,
                  limit->capacity, rounds);
    report_within(&(label){ROW, what[1], "us", r, "<= 0.5 us"}, ours->client_us, base->client_us,
                  limit->client_us, rounds);
    report_within(&(label){ROW, what[2], "us", r, "<= 1.25 of the limit"}, ours->server_us,
                  base->server_us, limit->server_us, rounds);
    report_within(&(label){ROW, what[3], "us", r, "<= 0.6"}, ours->p99_us, base->p99_us,
                  limit->p99_us, rounds);
    report_one(&(label){ROW, what[4], "of the validity", r, "<= 0.5"}, h->latest);
    report_one(&(label){ROW, what[5], "counted", r, "0"}, h->lost);
}

void row_renew(regime r) {
    held *h = share(sizeof *h);
    h->locks = calloc(LOCKS, sizeof *h->locks);
    h->deadline_ns = calloc(LOCKS, sizeof *h->deadline_ns);
    if (!h->locks || !h->deadline_ns)
        die("out of memory");
    find_idle(h);
    rounds_of(h, BASE, 0, rounds / 2);
    rounds_of(h, LIMIT, 0, rounds / 2);
    rounds_of(h, OURS, 0, rounds);
    rounds_of(h, LIMIT, rounds / 2, rounds);
    rounds_of(h, BASE, rounds / 2, rounds);
    report_all(r, h);
    free(h->locks);
    free(h->deadline_ns);
}
