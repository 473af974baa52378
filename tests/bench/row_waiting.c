/*
 * Many processes that wait for one lock: how long the lock is on its way from one to the next, what
 * that costs the server, and who gets it how often.
 */

/*
 * A process for each waiter (crowd.c): forked, with a client of its own, on one key. Each records when it called
 * acquire, acquired and released, by CLOCK_MONOTONIC in shared memory. Two holds that overlap end the benchmark. A
 * hand-off is the time from a call of release to the return of the next acquire. In `delay` and in *again* it is in
 * round trips, as PINGs measure them when the row begins.
 *
 * - *once*: all wait behind a holder that then releases. Requests and server CPU count from its acquire on, also those
 *   of joining, without what the idle server uses.
 * - *again*: each loops and holds the lock for 1 ms. Up to 100 processes take turns with their baseline (SET NX every 20
 *   ms) and their limit. For a thousand, one kind is measured after the other. A lock that one message hands on cannot
 *   pass 1/(hold + round trip) acquisitions a second. That is printed beside those of 100, for the hold and the round
 *   trip of the same round.
 * - A case that does not end in several times its time is reported as `skipped:`.
 * - Jain's index of the turns counts from when all have had one. It is 1 when all had as many, 1/n when one had all. It
 *   is taken in `one`, with holds of 3, 1 and 0.1 ms by 10, 100 and 1,000 processes: with all at one distance, and with
 *   one that is 6 ms further from the server (a second delay.c).
 * - *longest wait* of one process beside 16 threads of another has its goal beside it: 63 holds (49 are passed on), but
 *   at most 1 s, one hold and two round trips.
 * - A perfect queue (BLPOP and RPUSH of one element) has 2.00 requests and 1.02 round trips. It reaches 1.00 of the
 *   limit in `delay`, 0.95 in `cross` and 0.93 in `one`, where a PING takes less than waking the next process. Its
 *   Jain's index is 0.999 and more.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "crowd.h"

#define ROW "waiting"
#define SMALL 100 /* processes of the crowd that is used for all sizes up to this */
#define LARGE 1000
#define HOLD (1 * MS)
#define LIMIT (10 * SECOND) /* of turns that should be over much sooner */
#define WINDOW_MS 400       /* of a round of again and again */
#define SETTLE_MS 100       /* before it */
#define WINDOW_MOST_MS 5000
#define AGAIN_CYCLES 3 /* turns of each, in all rounds */
#define IDLE_MS 500
#define LOOK_MS 10
#define THREADS 16
#define THREADS_MS 300 /* for each round */
#define PASSES 63      /* within a process, while others wait; or for a second */

static int64_t trip_ns;   /* a PING's round trip, here and now */
static double idle_share; /* of the server's CPU time, with a crowd that asks nothing */

/* ---- everyone once --------------------------------------------------------------------------- */

typedef struct {
    double p50[ROUNDS_MAX], p99[ROUNDS_MAX]; /* of a hand-off, us */
    double server_us[ROUNDS_MAX];            /* an acquisition */
} once_figures;

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* From one's release to the next one's acquire. Returns how many; sorted. */
static int hand_offs(const turn *all, int n, int holders, double *ret_us) {
    int k = 0;
    for (int i = 1; i < n; i++)
        if (i % holders != 0) /* else another's beginning, with nobody before it */
            ret_us[k++] = (double)(all[i].acquired_ns - all[i - 1].release_ns) / 1000;
    qsort(ret_us, (size_t)k, sizeof *ret_us, by_size);
    return k;
}

static double quantile(const double *sorted, int n, double share) {
    int i = (int)(share * n);
    return n ? sorted[i < n ? i : n - 1] : 0;
}

static void write_down(const crowd *c, int n, int round, once_figures *f) {
    int turns;
    turn *all = crowd_story(c, &turns);
    double *us = calloc((size_t)turns + 1, sizeof *us);
    if (!us)
        die("out of memory");
    int k = hand_offs(all, turns, n + 1, us);
    f->p50[round] = quantile(us, k, 0.50);
    f->p99[round] = quantile(us, k, 0.99);
    free(us);
    free(all);
}

/* Everyone's one turn. Long after it should be over it is given up, in a line that says so. */
static bool everyone_once(regime r, crowd *c, int n, int64_t hold_ns) {
    char why[64];
    int64_t limit = LIMIT + 2 * n * (hold_ns + trip_ns);
    int left = crowd_once(c, n, hold_ns, limit);
    if (left == 0)
        return true;
    (void)snprintf(why, sizeof why, "%d of %d waiting had no turn within %d s", left, n,
                   (int)(limit / SECOND));
    report_skip(ROW, r, why);
    return false;
}

/* Few hand-offs are too few to have a 99th of a hundred: the small sizes are repeated. */
static int repeats_of(int n) {
    return n < 10 ? 5 : n < 50 ? 2 : 1;
}

static bool once_round(regime r, crowd *c, int n, int64_t hold_ns, int round, once_figures *f) {
    int repeats = repeats_of(n);
    int64_t from_ns = now_ns(), from_cpu = bench_server_cpu_ns();
    crowd_forget(c);
    for (int i = 0; i < repeats; i++)
        if (!everyone_once(r, c, n, hold_ns))
            return false;
    double anyway = idle_share * (double)(now_ns() - from_ns);
    f->server_us[round] = ((double)(bench_server_cpu_ns() - from_cpu) - anyway) / 1000 / repeats /
                          (n + 1);
    write_down(c, n, round, f);
    return true;
}

static void report_hand_off(regime r, int n, int64_t hold_ns, const once_figures *f, int times) {
    static const char *const words[] = {"hand-off, median", "hand-off, p99"};
    double v[2][ROUNDS_MAX], unit = r == DELAY ? (double)trip_ns / 1000 : 1;
    for (int i = 0; i < times; i++) {
        v[0][i] = f->p50[i] / unit;
        v[1][i] = f->p99[i] / unit;
    }
    for (int i = 0; i < 2; i++) {
        char what[64];
        (void)snprintf(what, sizeof what, "%d once, hold %d ms: %s", n, (int)(hold_ns / MS),
                       words[i]);
        report(&(label){ROW, what, r == DELAY ? "round trips" : "us", r,
                        r != DELAY || n > 50 ? NULL
                        : i == 0             ? "<= 1.03"
                                             : "<= 1.10"},
               v[i], NULL, times);
    }
}

/* Of one more round, which takes longer for being counted. */
static bool report_requests(regime r, crowd *c, int n) {
    char what[64];
    commands_start();
    bool all = everyone_once(r, c, n, HOLD);
    double requests = (double)commands_stop() / (n + 1);
    (void)snprintf(what, sizeof what, "%d once: requests an acquisition", n);
    if (all)
        report_one(&(label){ROW, what, "counted", r, n > SMALL ? "<= 3" : "<= 2.1"}, requests);
    return all;
}

static bool once_for(regime r, crowd *c, int n, int64_t hold_ns, int times) {
    static once_figures f;
    for (int i = 0; i < times; i++)
        if (!once_round(r, c, n, hold_ns, i, &f))
            return false;
    report_hand_off(r, n, hold_ns, &f, times);
    if (hold_ns > 0 && r != DELAY) {
        char what[64];
        (void)snprintf(what, sizeof what, "%d once: server CPU an acquisition", n);
        report(&(label){ROW, what, "us", r, NULL}, f.server_us, NULL, times);
    }
    return true;
}

static bool once(regime r, crowd *c, int n, int times) {
    bool quick = r != DELAY || n < SMALL; /* a thousand round trips are enough of them */
    return (!quick || once_for(r, c, n, 0, times)) && once_for(r, c, n, HOLD, times) &&
           ((!quick && n > SMALL) || report_requests(r, c, n));
}

/* ---- again and again ------------------------------------------------------------------------- */

/* A crowd, or one to compare it with. */
enum { OURS, BARE, QUEUE, SIDES };

typedef struct {
    double rate[ROUNDS_MAX], limit[ROUNDS_MAX], hold_us[ROUNDS_MAX], server_us[ROUNDS_MAX];
    double p50[ROUNDS_MAX], p99[ROUNDS_MAX]; /* of a hand-off, round trips */
    double shares[LARGE], requests;          /* turns of each; requests an acquisition */
} again_figures;

static double mean_hold_ns(const turn *all, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)(all[i].release_ns - all[i].acquired_ns);
    return n ? sum / n : 0;
}

/* Long enough for each to have some turns, where that doesn't take too long. */
static int window_ms(int n) {
    int64_t ms = AGAIN_CYCLES * n * (HOLD + trip_ns) / MS / rounds;
    return ms < WINDOW_MS ? WINDOW_MS : ms > WINDOW_MOST_MS ? WINDOW_MOST_MS : (int)ms;
}

/* Those who come to stand in line aren't measured. */
static void begin_again(crowd *c, int n) {
    crowd_forget(c);
    crowd_begin(c, 1, n, HOLD);
    (void)poll(NULL, 0, SETTLE_MS + n);
}

static void again_round(crowd *c, int n, int round, again_figures *f) {
    int turns;
    begin_again(c, n);
    uint64_t from = crowd_turns(c);
    int64_t from_ns = now_ns(), from_cpu = bench_server_cpu_ns();
    (void)poll(NULL, 0, window_ms(n));
    double ns = (double)(now_ns() - from_ns), done = (double)(crowd_turns(c) - from);
    f->server_us[round] = (double)(bench_server_cpu_ns() - from_cpu) / 1000 / (done > 0 ? done : 1);
    for (int i = 0; i < n; i++)
        f->shares[i] = (round > 0 ? f->shares[i] : 0) + crowd_turns_of(c, i + 1);
    crowd_end(c);
    turn *all = crowd_story(c, &turns);
    double hold_ns = mean_hold_ns(all, turns), *us = calloc((size_t)turns + 1, sizeof *us);
    if (!us)
        die("out of memory");
    int k = hand_offs(all, turns, turns + 1, us);
    f->p50[round] = quantile(us, k, 0.50) * 1000 / (double)trip_ns;
    f->p99[round] = quantile(us, k, 0.99) * 1000 / (double)trip_ns;
    free(us);
    free(all);
    f->rate[round] = done * SECOND / ns;
    f->limit[round] = SECOND / (hold_ns + (double)bench_round_trip_ns());
    f->hold_us[round] = hold_ns / 1000;
}

static double again_requests(crowd *c, int n) {
    begin_again(c, n);
    commands_start();
    uint64_t from = crowd_turns(c);
    (void)poll(NULL, 0, WINDOW_MS);
    uint64_t done = crowd_turns(c) - from, requests = commands_stop();
    crowd_end(c);
    return (double)requests / (double)(done ? done : 1);
}

static void report_again(regime r, int n, again_figures *const f[SIDES], int times) {
    static const char *const words[] = {"acquisitions",
                                        "hand-off, median",
                                        "hand-off, p99",
                                        "server CPU an acquisition",
                                        "requests an acquisition",
                                        "Jain's index",
                                        "acquisitions, beside 1/(hold + trip)",
                                        "hold, 1 ms by choice"};
    const again_figures *a = f[OURS], *b = f[BARE], *q = f[QUEUE];
    char what[8][64];
    for (int i = 0; i < 8; i++)
        (void)snprintf(what[i], sizeof what[i], "%d again: %s", n, words[i]);
    report_within(&(label){ROW, what[0], "/s", r, NULL}, a->rate, b->rate, q->rate, times);
    if (n == SMALL)
        report(&(label){ROW, what[6], "/s", r, ">= 0.97"}, a->rate, a->limit, times);
    report_within(&(label){ROW, what[1], "round trips", r, NULL}, a->p50, b->p50, q->p50, times);
    report_within(&(label){ROW, what[2], "round trips", r, NULL}, a->p99, b->p99, q->p99, times);
    report_within(&(label){ROW, what[7], "us", r, NULL}, a->hold_us, b->hold_us, q->hold_us, times);
    report_within(&(label){ROW, what[3], "us", r, NULL}, a->server_us, b->server_us, q->server_us,
                  times);
    report_three(&(label){ROW, what[4], "counted", r, n == SMALL ? "<= 2.1 counted" : NULL},
                 a->requests, b->requests, q->requests);
    report_three(&(label){ROW, what[5], "of 1", r, NULL}, jain(a->shares, n), jain(b->shares, n),
                 jain(q->shares, n));
}

/* Those to compare with come and go: what they leave connected keeps the server busy. */
static crowd *gather(regime r, int n, crowd_kind kind) {
    const crowd_part part[CROWD_PARTS] = {{NULL, n + 1, 1}};
    crowd *c = crowd_open(part, kind);
    if (!c)
        report_skip(ROW, r, "so many clients need more descriptors than we may have");
    return c;
}

/* By turns where there are few, each alone where there are many. */
static void again(regime r, const int *size, int sizes, crowd *const c[SIDES]) {
    static again_figures f[SIDES];
    again_figures *const all[SIDES] = {&f[OURS], &f[BARE], &f[QUEUE]};
    for (int s = 0; s < sizes; s++) {
        for (int i = 0; i < rounds; i++)
            for (int k = OURS; k < SIDES; k++)
                again_round(c[k], size[s], i, &f[k]);
        for (int k = OURS; k < SIDES; k++)
            f[k].requests = again_requests(c[k], size[s]);
        report_again(r, size[s], all, rounds);
    }
}

static void again_large(regime r, crowd *ours) {
    static again_figures f[SIDES];
    again_figures *const all[SIDES] = {&f[OURS], &f[BARE], &f[QUEUE]};
    int times = 1 + rounds / 10;
    for (int k = OURS; k < SIDES; k++) {
        crowd *c = k == OURS ? ours : gather(r, LARGE, k == BARE ? CROWD_BARE : CROWD_QUEUE);
        if (!c)
            return;
        for (int i = 0; i < times; i++)
            again_round(c, LARGE, i, &f[k]);
        f[k].requests = again_requests(c, LARGE);
        crowd_close(c);
    }
    report_again(r, LARGE, all, times);
}

/* ---- fairness -------------------------------------------------------------------------------- */

/* Turns a member: enough that a begun cycle hardly counts. */
static int cycles_of(int n) {
    return (n < SMALL ? 10 : n < LARGE ? 4 : 2) * rounds;
}

/* In a cycle whoever is further away gives back, learns that it did, and asks again: few must hold for
 * longer, or it isn't always among those that wait. */
static int64_t hold_of(int n) {
    return n < SMALL ? 3 * HOLD : n < LARGE ? HOLD : HOLD / 10;
}

static const char *fair_goal(int n) {
    return n < LARGE ? ">= 0.999" : ">= 0.98";
}

/* In its first turn each connects: what counts begins when all have had one. */
static void connect_each(crowd *c, int n, uint64_t *ret_before) {
    int64_t until = now_ns() + LIMIT;
    for (int i = 0; i < n; i++)
        while (crowd_turns_of(c, i) == 0 && now_ns() < until)
            (void)poll(NULL, 0, LOOK_MS);
    for (int i = 0; i < n; i++)
        ret_before[i] = crowd_turns_of(c, i);
}

static void fairness(regime r, int n, bool fair, bool apart) {
    const crowd_part part[CROWD_PARTS] = {{NULL, n - apart, 1},
                                          {apart ? bench_further_url() : NULL, apart, 1}};
    char what[64];
    double *shares = calloc((size_t)n, sizeof *shares);
    uint64_t *before = calloc((size_t)n, sizeof *before);
    crowd *c = crowd_open(part, fair ? CROWD_FAIR : CROWD_LOCK);
    if (!shares || !before)
        die("out of memory");
    if (!c) {
        report_skip(ROW, r, "so many clients need more descriptors than we may have");
        free(shares);
        free(before);
        return;
    }
    crowd_begin(c, 0, n, hold_of(n));
    connect_each(c, n, before);
    uint64_t enough = crowd_turns(c) + (uint64_t)n * (uint64_t)cycles_of(n);
    for (int64_t until = now_ns() + LIMIT; crowd_turns(c) < enough && now_ns() < until;)
        (void)poll(NULL, 0, LOOK_MS);
    crowd_kill(c);
    for (int i = 0; i < n; i++)
        shares[i] = (double)(crowd_turns_of(c, i) - before[i]);
    int turns;
    free(crowd_story(c, &turns));
    crowd_close(c);
    (void)snprintf(what, sizeof what, "%d again, %s%s: Jain's index", n, fair ? "fair" : "default",
                   apart ? ", one further" : "");
    report_one(&(label){ROW, what, "of 1", r, fair ? fair_goal(n) : NULL}, jain(shares, n));
    free(shares);
    free(before);
}

static void fairnesses(regime r) {
    static const int size[] = {10, SMALL, LARGE};
    for (int i = 0; i < 3; i++)
        fairness(r, size[i], false, false);
    for (int i = 0; i < 6; i++)
        fairness(r, size[i / 2], true, i % 2);
}

/* ---- threads of one process beside another process ------------------------------------------- */

static int64_t longest_wait_ns(const turn *all, int n, int member) {
    int64_t most = 0;
    for (int i = 0; i < n; i++)
        if (all[i].member == member && all[i].acquired_ns - all[i].asked_ns > most)
            most = all[i].acquired_ns - all[i].asked_ns;
    return most;
}

static void beside_threads(regime r, bool apart) {
    const crowd_part part[CROWD_PARTS] = {{NULL, 1, THREADS},
                                          {apart ? bench_further_url() : NULL, 1, 1}};
    const char *where = apart ? "16 threads, 1 elsewhere, 6 ms further" : "16 threads, 1 elsewhere";
    char what[2][64];
    int n;
    crowd *c = crowd_open(part, CROWD_LOCK);
    if (!c)
        die("not even %d descriptors", 2 * THREADS);
    crowd_begin(c, 0, THREADS + 1, HOLD);
    (void)poll(NULL, 0, rounds * THREADS_MS);
    uint64_t all_turns = crowd_turns(c), its_turns = crowd_turns_of(c, THREADS);
    crowd_end(c); /* so that a wait which has not ended is known, too */
    turn *all = crowd_story(c, &n);
    double hold_ns = mean_hold_ns(all, n), wait_ns = (double)longest_wait_ns(all, n, THREADS);
    double trip = (double)trip_ns + (apart ? 6.0 * MS : 0), passed_on = PASSES * hold_ns;
    double most_ns = (passed_on < SECOND ? passed_on : SECOND) + hold_ns + 2 * trip;
    free(all);
    crowd_close(c);
    (void)snprintf(what[0], sizeof what[0], "%s: longest wait", where);
    (void)snprintf(what[1], sizeof what[1], "%s: share", where);
    report_two(&(label){ROW, what[0], "ms", r, "<= 1"}, wait_ns / MS, most_ns / MS);
    report_one(&(label){ROW, what[1], "%", r, NULL},
               100.0 * (double)its_turns / (double)(all_turns ? all_turns : 1));
}

/* ---- the row --------------------------------------------------------------------------------- */

/* In the first turn they connect for what waiting needs: it is not measured. */
static bool connect_all(regime r, crowd *c, int n) {
    if (!c || !everyone_once(r, c, n, 0))
        return false;
    int64_t from_ns = now_ns(), from_cpu = bench_server_cpu_ns();
    (void)poll(NULL, 0, IDLE_MS);
    idle_share = (double)(bench_server_cpu_ns() - from_cpu) / (double)(now_ns() - from_ns);
    return true;
}

static void in_small(regime r) {
    static const int size[] = {2, 10, 50, SMALL};
    crowd *c[SIDES] = {[OURS] = gather(r, SMALL, CROWD_LOCK)};
    bool all = connect_all(r, c[OURS], SMALL);
    for (int i = 0; i < 4 && all; i++)
        all = once(r, c[OURS], size[i], rounds);
    if (all) {
        c[BARE] = gather(r, SMALL, CROWD_BARE);
        c[QUEUE] = gather(r, SMALL, CROWD_QUEUE);
        if (c[BARE] && c[QUEUE])
            again(r, size, 4, c);
    }
    for (int k = OURS; k < SIDES; k++)
        crowd_close(c[k]);
}

/* In `delay` they connect in the turn that is measured, before the first of them is released; nothing
 * is counted there. */
static void in_large(regime r) {
    crowd *c = gather(r, LARGE, CROWD_LOCK);
    if (c && (r == DELAY || connect_all(r, c, LARGE)) && once(r, c, LARGE, 1 + rounds / 10))
        again_large(r, c);
    else
        crowd_close(c);
}

void row_waiting(regime r) {
    trip_ns = bench_round_trip_ns();
    in_small(r);
    if (r != CROSS)
        in_large(r);
    beside_threads(r, false);
    if (r == ONE) {
        beside_threads(r, true);
        fairnesses(r);
    }
}
