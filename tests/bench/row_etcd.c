/*
 * Locks on a real etcd of one member: a pair, a line of clients that contend, waiters that do nothing, ten thousand locks
 * that are renewed, and the command beside `etcdctl lock`. The limit is the same said by hand (etcd_bare.h). Beside Go's
 * concurrency.Mutex where $BENCH_ETCD names a program for it, as bench-peers does.
 */

/*
 * The etcd has its data on a disk, and each commit waits for the disk. The limit of a pair is two requests by hand
 * (etcd_bare.c) over one connection, under an existing lease: create the key if it does not exist, delete it. Round
 * trips are times divided by the time of a request that changes nothing. The member itself counts requests and CPU.
 * Contenders hold for no time: a turn is a hand-off. Its limit is one round trip: the release's way to the server and
 * the event's way to the next client. By hand a renewal is a lease and a transaction of 128 keys.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "delay.h"
#include "etcd_bare.h"
#include "etcd_crowd.h"
#include "peer.h"
#include "real_etcd.h"
#include "transport/gateway.h"

#define SLICE (200 * MS)
#define SLICES 2
#define TRIP_NS (5 * MS)
#define LOOKS 30
#define COUNTED 200 /* pairs */
#define FEW 5       /* clients that contend */
#define MANY 20
#define SETTLE_MS 300
#define WAITERS 20
#define IDLE_MS 12000
#define LOCKS 10000
#define TAKERS 16 /* threads that acquire them */
#define RENEW_MS 20000
#define LOOK_MS 250
#define BARE_RENEWALS 40

extern char **environ;

typedef struct {
    const char *row;
    regime r;
    const char *go; /* a program; NULL: not measured */
    const char *url;
    int port;       /* by the way of the regime */
    double trip_ms; /* by that way */
} bench;

static real_etcd *server;
static int near_port;
static delay *way;

/* ---- the server ------------------------------------------------------------------------------ */

static bool is_program(const char *name) {
    char path[512];
    for (const char *from = getenv("PATH"); from && *from; from += *from == ':') {
        size_t n = strcspn(from, ":");
        (void)snprintf(path, sizeof path, "%.*s/%s", (int)n, from, name);
        if (access(path, X_OK) == 0)
            return true;
        from += n;
    }
    return false;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double trip_of(int port) {
    double ms[LOOKS];
    etcd_bare *b = etcd_bare_open(port, "bench:trip");
    for (int i = 0; i < LOOKS; i++) {
        int64_t start = now_ns();
        etcd_bare_look(b);
        ms[i] = (double)(now_ns() - start) / MS;
    }
    etcd_bare_close(b);
    qsort(ms, LOOKS, sizeof *ms, by_size);
    return ms[LOOKS / 2];
}

/* NULL, or why there is nothing to measure. */
static const char *enter(bench *b) {
    static char url[64];
    if (!is_program("etcd") || !is_program("etcdctl"))
        return "there is no etcd (Debian: etcd-server, etcd-client)";
    if (!tl__gateway_works())
        return "this build has no jansson";
    if (!server) {
        server = real_etcd_start(1);
        near_port = atoi(strrchr(real_etcd_url_of(server, 0), ':') + 1);
    }
    if (b->r == DELAY && !way) {
        way = delay_start(near_port);
        delay_set(way, TRIP_NS / 2);
    }
    b->port = b->r == DELAY ? delay_port(way) : near_port;
    (void)snprintf(url, sizeof url, "etcd://127.0.0.1:%d", b->port);
    b->url = url;
    b->trip_ms = trip_of(b->port);
    report_one(&(label){b->row, "a request by hand that changes nothing", "ms", b->r, NULL},
               b->trip_ms);
    return NULL;
}

/* ---- contenders ------------------------------------------------------------------------------ */

static void *begin_pairs(void *how) {
    const bench *b = how;
    const tl_client_options options = TL_CLIENT_OPTIONS(.url = b->url);
    return bench_lock(&options, "bench:ours");
}

static void *begin_bare(void *how) {
    const bench *b = how;
    return etcd_bare_open(b->port, "bench:bare");
}

static uint64_t sum_of(peer *p) {
    double each[ETCD_CROWD_MOST] = {0}, sum = 0;
    (void)peer_turns(p, each);
    for (int i = 0; i < ETCD_CROWD_MOST; i++)
        sum += each[i];
    return (uint64_t)sum;
}

/* Those of the crowd, or of the program, whichever there is. */
typedef struct {
    etcd_crowd *ours;
    peer *go;
    const char *url;
    int n;
} loopers;

static void *begin_crowd(void *ctx) {
    loopers *l = ctx;
    l->ours = etcd_crowd_open(l->url, "bench:line", l->n);
    return l;
}

static uint64_t turns_of(const loopers *l) {
    return l->ours ? etcd_crowd_turns(l->ours) : sum_of(l->go);
}

static void begin(const loopers *l) {
    if (l->ours)
        etcd_crowd_begin(l->ours);
    else
        peer_begin(l->go);
    (void)poll(NULL, 0, SETTLE_MS);
}

static void end(const loopers *l) {
    if (l->ours)
        etcd_crowd_end(l->ours);
    else
        peer_end(l->go);
}

static uint64_t again(void *ctx, int64_t until_ns, meter *m) {
    int ms = (int)((until_ns - now_ns()) / MS);
    begin(ctx);
    uint64_t before = turns_of(ctx);
    meter_start(m);
    (void)poll(NULL, 0, ms);
    uint64_t n = turns_of(ctx) - before;
    meter_stop(m);
    end(ctx);
    return n;
}

/* ---- reports --------------------------------------------------------------------------------- */

static void report_trips(const bench *b, const char *what, const char *goal, const figures *ours,
                         const figures *go, const figures *limit) {
    double trips[3][ROUNDS_MAX];
    for (int i = 0; i < rounds; i++) {
        trips[0][i] = 1000 / ours->rate[i] / b->trip_ms;
        trips[1][i] = go ? 1000 / go->rate[i] / b->trip_ms : 0;
        trips[2][i] = limit ? 1000 / limit->rate[i] / b->trip_ms : 1;
    }
    report_within(&(label){b->row, what, "round trips", b->r, goal}, trips[0], go ? trips[1] : NULL,
                  trips[2], rounds);
}

static double requests_of(const contender *c, void *ctx) {
    etcd_counts before = etcd_counts_of(near_port);
    for (int i = 0; i < COUNTED; i++)
        c->operation(ctx);
    return (etcd_counts_of(near_port).requests - before.requests) / COUNTED;
}

static double requests_of_go(peer *p) {
    peer_begin(p);
    uint64_t turns = sum_of(p);
    etcd_counts before = etcd_counts_of(near_port);
    (void)poll(NULL, 0, 1000);
    turns = sum_of(p) - turns;
    double n = etcd_counts_of(near_port).requests - before.requests;
    peer_end(p);
    return turns > 0 ? n / (double)turns : 0;
}

/* ---- a pair ---------------------------------------------------------------------------------- */

enum { OURS, BARE, GO, SIDES };

static void report_pairs(const bench *b, const figures *f, const contender *c, peer *p) {
    const figures *go = p ? &f[GO] : NULL;
    report_within(&(label){b->row, "pairs a second", "/s", b->r, go ? ">= 0.8" : NULL},
                  f[OURS].rate, go ? go->rate : NULL, f[BARE].rate, rounds);
    report_trips(b, "time of a pair",
                 b->r != DELAY ? NULL
                 : go          ? "<= 1.05"
                               : "<= 2.1",
                 &f[OURS], go, &f[BARE]);
    report_within(&(label){b->row, "client CPU a pair", "us", b->r, NULL}, f[OURS].client_us, NULL,
                  f[BARE].client_us, rounds);
    if (b->r == DELAY)
        return;
    double ours = count_apart(&c[OURS], requests_of), bare = count_apart(&c[BARE], requests_of);
    const label l = {b->row, p ? "requests a pair" : "requests a pair, beside by hand", "counted",
                     b->r, NULL};
    if (p)
        report_three(&l, ours, requests_of_go(p), bare);
    else
        report_two(&l, ours, bare);
}

static void row_pair(const bench *b) {
    static figures f[SIDES];
    loopers go = {.go = b->go ? peer_open(b->go, b->port, 1, 0) : NULL};
    const contender c[SIDES] = {
        [OURS] = {.open = begin_pairs, .ctx = (void *)b, .operation = bench_pair},
        [BARE] = {.open = begin_bare, .ctx = (void *)b, .operation = etcd_bare_pair},
        [GO] = {.ctx = &go, .run = again},
    };
    take_turns(c, go.go ? SIDES : GO, SLICE, SLICES, f);
    report_pairs(b, f, c, go.go);
    peer_close(go.go);
}

/* ---- contending ------------------------------------------------------------------------------ */

static void row_contend(const bench *b, int n, const char *goal) {
    static figures f[2];
    loopers ours = {.url = b->url, .n = n};
    loopers go = {.go = b->go ? peer_open(b->go, b->port, n, 0) : NULL};
    const contender c[] = {{.open = begin_crowd, .ctx = &ours, .run = again},
                           {.ctx = &go, .run = again}};
    char what[2][64];
    (void)snprintf(what[0], sizeof what[0], "%d contend: turns a second", n);
    (void)snprintf(what[1], sizeof what[1], "%d contend: time of a turn", n);
    take_turns(c, go.go ? 2 : 1, 3 * SLICE, SLICES, f);
    report(&(label){b->row, what[0], "/s", b->r, NULL}, f[0].rate, go.go ? f[1].rate : NULL,
           rounds);
    if (b->r == DELAY)
        report_trips(b, what[1], goal, &f[0], go.go ? &f[1] : NULL, NULL);
    peer_close(go.go);
}

/* ---- waiting --------------------------------------------------------------------------------- */

typedef struct {
    double requests, server_ms, client_ms; /* a waiter and a second */
} idle_cost;

static idle_cost wait_behind(const loopers *l, const char *key) {
    const tl_client_options options = TL_CLIENT_OPTIONS(.url = real_etcd_url(server));
    const double waited = (double)WAITERS * IDLE_MS / 1000;
    tl_client *client;
    tl_error err;
    if (tl_client_open(&options, &client, &err))
        die("%s", err.message);
    tl_lock *lock = tl_acquire(client, key, 20000, &err);
    if (!lock)
        die("%s", err.message);
    begin(l);
    (void)poll(NULL, 0, 4 * SETTLE_MS); /* the first renewals are early */
    int64_t cpu = bench_client_cpu_ns();
    etcd_counts before = etcd_counts_of(near_port);
    (void)poll(NULL, 0, IDLE_MS);
    etcd_counts after = etcd_counts_of(near_port);
    cpu = bench_client_cpu_ns() - cpu;
    if (tl_release(lock, &err))
        die("%s", err.message);
    end(l);
    tl_client_close(client);
    return (idle_cost){(after.requests - before.requests) / waited,
                       (after.cpu_s - before.cpu_s) * 1000 / waited, (double)cpu / MS / waited};
}

static void row_idle(const bench *b) {
    loopers ours = {.ours = etcd_crowd_open(b->url, "bench:idle", WAITERS)};
    loopers go = {.go = b->go ? peer_open(b->go, b->port, WAITERS, 0) : NULL};
    char key[64] = "";
    if (b->go)
        (void)snprintf(key, sizeof key, "bench:%s", strrchr(b->go, '/') + 1);
    idle_cost we = wait_behind(&ours, "bench:idle"), they = {0};
    if (go.go)
        they = wait_behind(&go, key);
    const label l[] = {
        {b->row, "20 wait: requests a waiter and second", "counted", b->r, NULL},
        {b->row, "20 wait: server CPU a waiter and second", "ms", b->r, NULL},
        {b->row, "20 wait: client CPU a waiter and second", "ms", b->r, NULL},
    };
    if (go.go) {
        report_two(&l[0], we.requests, they.requests);
        report_two(&l[1], we.server_ms, they.server_ms);
    } else {
        report_one(&l[0], we.requests);
        report_one(&l[1], we.server_ms);
    }
    report_one(&l[2], we.client_ms);
    etcd_crowd_close(ours.ours);
    peer_close(go.go);
}

/* ---- ten thousand ---------------------------------------------------------------------------- */

static tl_lock *locks[LOCKS];
static int64_t ends_ms[LOCKS]; /* as seen last */

static void *take_some(void *ctx) {
    const tl_lock_options options = TL_LOCK_OPTIONS(.ttl_ms = 30000);
    char key[32];
    tl_error err;
    tl_client *client = ctx;
    static atomic_int next;
    for (int i; (i = atomic_fetch_add(&next, 1)) < LOCKS;) {
        int n = snprintf(key, sizeof key, "bench:lock:%d", i);
        locks[i] = tl_lock_new(client, key, (size_t)n, &options, &err);
        if (!locks[i] || tl_lock_acquire(locks[i], 20000, &err))
            die("%s", err.message);
    }
    return NULL;
}

/* Renewals since the last look; the least that is left of a lock. */
static int look_at_all(double *least_ms) {
    int64_t now = now_ns() / MS;
    int renewed = 0;
    for (int i = 0; i < LOCKS; i++) {
        int64_t left = tl_lock_remaining_ms(locks[i]);
        bool later = left > 0 && now + left > ends_ms[i] + LOOK_MS;
        renewed += later;
        if (later)
            ends_ms[i] = now + left;
        if ((double)left < *least_ms)
            *least_ms = (double)left;
    }
    return renewed;
}

static void report_renewals(const bench *b, double n, double client_us, double server_us,
                            double least_ms) {
    etcd_bare *bare = etcd_bare_open(b->port, "bench:bare");
    int64_t cpu = bench_client_cpu_ns();
    etcd_counts before = etcd_counts_of(near_port);
    for (int i = 0; i < BARE_RENEWALS; i++)
        etcd_bare_renew(bare, ETCD_BARE_KEYS_MOST);
    double keys = (double)BARE_RENEWALS * ETCD_BARE_KEYS_MOST;
    double bare_us = (double)(bench_client_cpu_ns() - cpu) / 1000 / keys;
    double bare_server_us = (etcd_counts_of(near_port).cpu_s - before.cpu_s) * 1e6 / keys;
    etcd_bare_close(bare);
    int lost = 0;
    for (int i = 0; i < LOCKS; i++)
        lost += tl_lock_state(locks[i]) != TL_HELD;
    report_one(&(label){b->row, "10000 held: renewals a second", "/s", b->r, NULL},
               n * 1000 / RENEW_MS);
    report_two(
        &(label){b->row, "10000 held: client CPU a renewal, beside by hand", "us", b->r, NULL},
        client_us, bare_us);
    report_two(
        &(label){b->row, "10000 held: server CPU a renewal, beside by hand", "us", b->r, NULL},
        server_us, bare_server_us);
    report_one(&(label){b->row, "10000 held: least that was left of 30 s", "ms", b->r, NULL},
               least_ms);
    report_one(&(label){b->row, "10000 held: locks lost", "counted", b->r, "0"}, lost);
}

static void row_renewals(const bench *b) {
    const tl_client_options options = TL_CLIENT_OPTIONS(.url = b->url);
    pthread_t taker[TAKERS];
    tl_client *client;
    tl_error err;
    double least_ms = 30000, renewed = 0;
    if (tl_client_open(&options, &client, &err))
        die("%s", err.message);
    int64_t start = now_ns();
    for (int i = 0; i < TAKERS; i++)
        if (pthread_create(&taker[i], NULL, take_some, client))
            die("no thread");
    for (int i = 0; i < TAKERS; i++)
        (void)pthread_join(taker[i], NULL);
    report_one(&(label){b->row, "10000 acquired by 16 threads", "/s", b->r, NULL},
               LOCKS / ((double)(now_ns() - start) / SECOND));
    (void)look_at_all(&least_ms);
    int64_t cpu = bench_client_cpu_ns();
    etcd_counts before = etcd_counts_of(near_port);
    for (int ms = 0; ms < RENEW_MS; ms += LOOK_MS) {
        (void)poll(NULL, 0, LOOK_MS);
        renewed += look_at_all(&least_ms);
    }
    double n = renewed > 0 ? renewed : 1;
    double client_us = (double)(bench_client_cpu_ns() - cpu) / 1000 / n;
    report_renewals(b, renewed, client_us,
                    (etcd_counts_of(near_port).cpu_s - before.cpu_s) * 1e6 / n, least_ms);
    for (int i = 0; i < LOCKS; i++)
        tl_lock_free(locks[i]);
    tl_client_close(client);
}

/* ---- the command ----------------------------------------------------------------------------- */

static uint64_t run_commands(void *ctx, int64_t until_ns, meter *m) {
    char **argv = ctx;
    uint64_t n = 0;
    int status;
    pid_t pid;
    (void)m;
    do {
        int code = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);
        if (code)
            die("%s: %s", argv[0], strerror(code));
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
        if (status != 0)
            die("%s: wait status %d", argv[0], status);
        n++;
    } while (now_ns() < until_ns);
    return n;
}

static void row_commands(const bench *b) {
    static figures f[2];
    const char *tool = getenv("TIDELOCK");
    char endpoint[32];
    char *run[] = {(char *)(tool ? tool : "build/tidelock"),
                   "--url",
                   (char *)b->url,
                   "run",
                   "bench:command",
                   "--",
                   "true",
                   NULL};
    char *ctl[] = {"etcdctl", "--endpoints", endpoint, "lock", "bench:command", "true", NULL};
    const contender c[] = {{.ctx = run, .run = run_commands}, {.ctx = ctl, .run = run_commands}};
    double ms[2][ROUNDS_MAX];
    (void)snprintf(endpoint, sizeof endpoint, "127.0.0.1:%d", b->port);
    take_turns(c, 2, SLICE, SLICES, f);
    for (int i = 0; i < 2 * rounds; i++)
        ms[i / rounds][i % rounds] = 1000 / f[i / rounds].rate[i % rounds];
    report(&(label){b->row, "run KEY -- true, beside etcdctl lock", "ms", b->r, "<= 1"}, ms[0],
           ms[1], rounds);
}

/* ---- the rows -------------------------------------------------------------------------------- */

static void measure(const char *row, regime r, const char *go) {
    bench b = {.row = row, .r = r, .go = go};
    const char *problem = enter(&b);
    if (problem) {
        report_skip(row, r, problem);
        return;
    }
    row_pair(&b);
    row_contend(&b, FEW, NULL);
    row_contend(&b, MANY, go ? "<= 0.8" : "<= 2.2");
    if (!go)
        row_commands(&b);
    if (r == FREE)
        row_idle(&b);
    if (r == FREE && !go)
        row_renewals(&b);
}

void row_etcd(regime r) {
    measure("etcd", r, NULL);
}

void row_etcd_peers(regime r) {
    const char *go = getenv("BENCH_ETCD");
    if (go && access(go, X_OK) == 0)
        measure("etcd-peers", r, go);
    else
        report_skip("etcd-peers", r, "Go's Mutex is not here: make bench-peers fetches it");
}
