/*
 * Locks that are held for long and renewed at the pace of use, with default options. A process of its own
 * holds ours, and others as many plain keys: one renews by hand, by MGET and then a PEXPIRE for each key; one
 * by a script that does the same, the limit. All are at work at the same time, each with a server of its own,
 * so other work on the machine slows all of them alike.
 *
 * No renewal can reach the goal in the server. By hand a key may change between the MGET and its PEXPIRE: only
 * a script excludes that, and Lua alone costs the server 1.4 to 1.7 of the same commands by hand. Ours also
 * writes for each lock until when S excludes others if K is deleted, which must not end before K.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "pipeline.h"

#define ROW "held"
#define TTL_MS 30000
#define CYCLE (TTL_MS * MS / 3)
#define ROUND (6 * SECOND)
#define WARM_UP (CYCLE + 4 * SECOND) /* each lock was renewed once by then */
#define BY_HAND 64                   /* keys by one MGET: about as many as ours by one request */
#define NAP (10 * MS)

typedef enum { OURS, HAND, LIMIT, IDLE, KINDS } kind;

/* What a holder reports at the end of each round, beginning with that of the warm-up. */
typedef struct {
    atomic_bool written[ROUNDS_MAX + 1];
    uint64_t renewals[ROUNDS_MAX + 1], requests[ROUNDS_MAX + 1];
} counts;

typedef struct {
    kind kind;
    int count;
    int64_t start_ns;
    real_redis *server;
    pid_t pid;
    counts *counts;                                            /* shared */
    int64_t cpu_ns[ROUNDS_MAX + 1], server_ns[ROUNDS_MAX + 1]; /* at the end of each round */
} holder;

/* ---- the processes --------------------------------------------------------------------------- */

static void sleep_until(int64_t ns) {
    const struct timespec t = {.tv_sec = (time_t)(ns / SECOND), .tv_nsec = (long)(ns % SECOND)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {}
}

static int64_t end_of(const holder *h, int round) {
    return h->start_ns + WARM_UP + round * ROUND;
}

static void note(const holder *h, int round, uint64_t renewals, uint64_t requests) {
    h->counts->renewals[round] = renewals;
    h->counts->requests[round] = requests;
    atomic_store(&h->counts->written[round], true);
}

static void hold_one(const holder *h, tl_client *client, int i) {
    char key[32];
    tl_error err;
    int n = snprintf(key, sizeof key, "bench:held:%d", i);
    tl_lock *lock = tl_lock_new(client, key, (size_t)n, NULL, &err);
    if (!lock || tl_lock_acquire(lock, 0, &err))
        die("%s", err.message);
    if (i % 10 == 0)
        sleep_until(h->start_ns + CYCLE / h->count * i);
}

/* The process has one thread beside the client's own, which sleeps. */
static void hold_ours(const holder *h) {
    const tl_client_options options = TL_CLIENT_OPTIONS(.url = real_redis_unix_url(h->server));
    tl_stats stats = {.size = sizeof stats};
    tl_client *client;
    tl_error err;
    if (tl_client_open(&options, &client, &err))
        die("%s", err.message);
    for (int i = 0; i < h->count; i++)
        hold_one(h, client, i);
    for (int round = 0; round <= rounds; round++) {
        sleep_until(end_of(h, round));
        if (tl_client_stats(client, &stats, &err))
            die("%s", err.message);
        note(h, round, stats.renewals, stats.round_trips.count);
    }
}

/* It wakes when the next are due, or a round ends. */
static void hold_plain(const holder *h) {
    pipeline *p = pipeline_open(real_redis_connect(h->server), h->count, TTL_MS,
                                h->kind == HAND ? PIPELINE_BY_HAND : PIPELINE_JOINED);
    uint64_t done = 0, requests = 0;
    for (int round = 0; round <= rounds;) {
        int64_t due_ns = h->start_ns + (int64_t)(done + BY_HAND) * CYCLE / h->count;
        sleep_until(due_ns < end_of(h, round) ? due_ns : end_of(h, round));
        for (; now_ns() >= due_ns; due_ns += BY_HAND * CYCLE / h->count, requests++) {
            pipeline_renew(p, BY_HAND);
            done += BY_HAND;
        }
        if (now_ns() >= end_of(h, round))
            note(h, round++, done, requests);
    }
}

static void start(holder *h, kind kind, int count, int64_t start_ns) {
    const real_redis_options options = {.config = "hz 1"}; /* it does little beside renewing */
    *h = (holder){.kind = kind, .count = count, .start_ns = start_ns};
    h->server = real_redis_start(&options);
    h->counts = mmap(NULL, sizeof *h->counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                     -1, 0);
    if (h->counts == MAP_FAILED)
        die("shared memory: %s", strerror(errno));
    (void)fflush(NULL); /* else the process would print it again */
    pid_t parent = getpid();
    h->pid = fork();
    if (h->pid < 0)
        die("fork: %s", strerror(errno));
    if (h->pid > 0)
        return;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    if (kind == OURS)
        hold_ours(h);
    else if (kind != IDLE)
        hold_plain(h);
    (void)pause(); /* what its end costs is not counted */
    _exit(0);
}

static void stop(holder *h) {
    (void)kill(h->pid, SIGKILL);
    (void)waitpid(h->pid, NULL, 0);
    (void)munmap(h->counts, sizeof *h->counts);
    real_redis_free(h->server);
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static int64_t cpu_of(pid_t pid) {
    clockid_t clock;
    struct timespec t = {0};
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) != 0)
        die("a process has ended");
    return t.tv_sec * SECOND + t.tv_nsec;
}

static void await_written(const holder *h, int round) {
    for (int64_t until = now_ns() + 10 * SECOND; !atomic_load(&h->counts->written[round]);)
        if (now_ns() > until)
            die("a holder of %d locks reports nothing", h->count);
        else
            sleep_until(now_ns() + NAP);
}

static void end_round(holder *all, int round) {
    sleep_until(end_of(&all[OURS], round));
    for (int k = 0; k < KINDS; k++) {
        all[k].cpu_ns[round] = cpu_of(all[k].pid);
        all[k].server_ns[round] = cpu_of(real_redis_pid(all[k].server));
    }
    for (int k = 0; k < IDLE; k++)
        await_written(&all[k], round);
}

/* By round, a renewal. */
typedef struct {
    double client_us[ROUNDS_MAX], server_us[ROUNDS_MAX], both_us[ROUNDS_MAX], joined[ROUNDS_MAX],
        rate[ROUNDS_MAX];
} costs;

static void find_costs(const holder *h, const holder *idle, costs *ret) {
    for (int i = 0; i < rounds; i++) {
        const counts *c = h->counts;
        double n = (double)(c->renewals[i + 1] - c->renewals[i]);
        double requests = (double)(c->requests[i + 1] - c->requests[i]);
        if (n == 0 || requests == 0)
            die("%d locks: nothing was renewed", h->count);
        int64_t server_ns = h->server_ns[i + 1] - h->server_ns[i] -
                            (idle->server_ns[i + 1] - idle->server_ns[i]);
        ret->client_us[i] = (double)(h->cpu_ns[i + 1] - h->cpu_ns[i]) / n / 1000;
        ret->server_us[i] = (double)server_ns / n / 1000;
        ret->both_us[i] = ret->client_us[i] + ret->server_us[i];
        ret->joined[i] = n / requests;
        ret->rate[i] = n * SECOND / ROUND;
    }
}

static void report_all(regime r, int count, const costs *of) {
    static const struct {
        const char *words, *unit, *goal;
        size_t figures;
    } lines[] = {
        {"server CPU a renewal", "us", "<= 1.25", offsetof(costs, server_us)},
        {"client CPU a renewal", "us", "<= 1.25", offsetof(costs, client_us)},
        {"CPU of both a renewal", "us", "<= 1.25", offsetof(costs, both_us)},
        {"renewals a request", "counted", NULL, offsetof(costs, joined)},
        {"renewals a second", "/s", NULL, offsetof(costs, rate)},
    };
    char what[64];
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const double *figures[IDLE];
        for (int k = 0; k < IDLE; k++)
            figures[k] = (const double *)((const char *)&of[k] + lines[i].figures);
        (void)snprintf(what, sizeof what, "%d: %s", count, lines[i].words);
        report_within(&(label){ROW, what, lines[i].unit, r, lines[i].goal}, figures[OURS],
                      figures[HAND], figures[LIMIT], rounds);
    }
}

static void measure(regime r, int count) {
    static holder all[KINDS];
    static costs of[IDLE];
    int64_t start_ns = now_ns() + SECOND;
    for (int k = 0; k < KINDS; k++)
        start(&all[k], (kind)k, count, start_ns);
    for (int round = 0; round <= rounds; round++)
        end_round(all, round);
    for (int k = 0; k < IDLE; k++)
        find_costs(&all[k], &all[IDLE], &of[k]);
    for (int k = 0; k < KINDS; k++)
        stop(&all[k]);
    report_all(r, count, of);
}

void row_held(regime r) {
    measure(r, 1000);
    measure(r, 10000);
}
