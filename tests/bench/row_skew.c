/*
 * Measuring clocks: how narrow the interval of a host's clock is, on an idle server and on a busy one;
 * what judging all pairs of a large fleet takes; and what a fleet's agents, and who watches them, cost
 * the server.
 */

/*
 * The row measures as `tidelock skew` does: 32 questions, which take turns with 32 more that are only timed. The *bound*
 * is what the quickest of these would allow: half of it, 1 us, and the drift since. *Full load* is a process (load.c)
 * with 48 SETs in flight on each of 4 connections, without the delay and at low priority. How busy the server was is a
 * line of its own; in `one`, where all share a core, it is not 100 %. The hosts of the matrix are records made by the
 * agents' own code. A neighbour has measured half of them too, so that there is something to tighten. From the matrix
 * on, all is measured in `one` alone. The server's CPU is its use beyond that of an idle server.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "fleet.h"
#include "link/link_open.h"
#include "load.h"
#include "skew/judge/skew_cause.h"
#include "skew/skew_self.h"
#include "spawn.h"

#define ROW "skew"
#define SAMPLES 32 /* as many as `tidelock skew` takes */
#define HOSTS 500
#define MATRIX_SLICE (100 * MS)
#define PERIODS 10 /* of an agent, for each figure */
#define LOOKS 5    /* of a watch */

static void link_to_server(server_link *l) {
    const server s = {.url = (char *)bench_url()};
    if (link_open(l, &s))
        die("skew: no link to %s", bench_url());
}

/* ---- the interval ---------------------------------------------------------------------------- */

typedef struct {
    double half_us, bound_us;
} width;

static bool take_moment(void *ctx, const tl_reply *reply) {
    *(int64_t *)ctx = now_ns();
    return reply->type == TL_REPLY_ARRAY;
}

/* How long a question for the TIME is in flight; at_ns: when the answer was there. */
static int64_t exchange_ns(server_link *l, int64_t *at_ns) {
    static const char *const words[] = {"TIME", NULL};
    int64_t sent = now_ns();
    if (!link_ask(l, words, take_moment, at_ns))
        die("skew: %s", l->message);
    return *at_ns - sent;
}

/* Half of what the interval is wide, and what the least of exchanges that took turns with the samples
 * would have it be at most: half of that, 1 us, and the drift since. */
static width measure(server_link *l) {
    kernel_clock kernel = moment_kernel();
    int32_t rate = skew_self_rate(&kernel);
    skew_track track = {.known = false};
    int64_t least = INT64_MAX, least_at = 0, at;
    (void)exchange_ns(l, &at); /* what was in flight before is over */
    for (int i = 0; i < SAMPLES; i++) {
        if (!skew_sample(l, &track, rate))
            die("skew: %s", l->message);
        int64_t took = exchange_ns(l, &at);
        least_at = took < least ? at : least_at;
        least = took < least ? took : least;
    }
    if (!track.known)
        die("skew: a clock was set meanwhile");
    tl_interval offset = skew_offset(&track, skew_reading_now().after, rate);
    double drift_us = (double)(now_ns() - least_at) / 1e9 * rate;
    return (width){.half_us = (double)(offset.hi - offset.lo) / 2,
                   .bound_us = (double)least / 2000 + 1 + drift_us};
}

/* `n` measurements; returns the medians. */
static width measure_some(server_link *l, int n) {
    double half[ROUNDS_MAX], bound[ROUNDS_MAX];
    for (int i = 0; i < n; i++) {
        width w = measure(l);
        half[i] = w.half_us;
        bound[i] = w.bound_us;
    }
    return (width){median(half, n), median(bound, n)};
}

static void report_interval(regime r, server_link *l) {
    double idle[ROUNDS_MAX], idle_bound[ROUNDS_MAX], busy[ROUNDS_MAX], busy_bound[ROUNDS_MAX];
    double share[ROUNDS_MAX];
    int n = r == DELAY ? 3 : 25;
    for (int i = 0; i < rounds; i++) {
        width w = measure_some(l, n);
        idle[i] = w.half_us;
        idle_bound[i] = w.bound_us;
        load_start();
        int64_t from_ns = now_ns(), from_cpu = bench_server_cpu_ns();
        w = measure_some(l, n);
        share[i] = (double)(bench_server_cpu_ns() - from_cpu) / (double)(now_ns() - from_ns) * 100;
        load_stop();
        busy[i] = w.half_us;
        busy_bound[i] = w.bound_us;
    }
    report(&(label){ROW, "half-width of 32 samples, beside its bound", "us", r, "<= 1"}, idle,
           idle_bound, rounds);
    report(&(label){ROW, "the same, server under full load", "us", r, "<= 1"}, busy, busy_bound,
           rounds);
    report(&(label){ROW, "under full load, beside idle", "us", r, "<= 1.1"}, busy, idle, rounds);
    report(&(label){ROW, "the server's CPU under that load", "% of a core", r, NULL}, share, NULL,
           rounds);
}

/* ---- the matrix ------------------------------------------------------------------------------ */

static skew_host hosts[FLEET_MOST];
static skew_pair pairs[HOSTS * HOSTS];
static const skew_rule rule = {SKEW_HOLD(60000000, 59000000), .warn_percent = 50,
                               .drift_ppm = SKEW_DRIFT_PPM};

static void judge_all(int n) {
    skew_result r = {.rule = rule, .hosts = hosts, .host_count = n};
    fleet_read(hosts);
    fleet_bind(hosts);
    if (!skew_judge(&r) || r.pairs_total != (size_t)n * (size_t)(n - 1) || r.verdict != SKEW_SAFE)
        die("skew: %d hosts were judged wrongly: %s", n, r.reason);
    skew_result_end(&r);
}

static uint64_t judge_tightened(void *ctx, int64_t until_ns, meter *m) {
    uint64_t n = 0;
    (void)ctx;
    (void)m;
    do {
        judge_all(HOSTS);
        n++;
    } while (now_ns() < until_ns);
    return n;
}

static int worse(const void *a, const void *b) {
    const skew_pair *x = a, *y = b;
    return (x->gap.hi < y->gap.hi) - (x->gap.hi > y->gap.hi);
}

/* All pairs from what was measured of each host alone. */
static void judge_plainly(void) {
    size_t n = 0;
    fleet_read(hosts);
    for (int h = 0; h < HOSTS; h++)
        for (int t = 0; t < HOSTS; t++) {
            if (h == t)
                continue;
            int64_t by = skew_widening_us(&rule, &hosts[h], &hosts[t]);
            tl_interval gap = {hosts[t].offset.lo - hosts[h].offset.hi - by,
                               hosts[t].offset.hi - hosts[h].offset.lo + by};
            pairs[n++] = (skew_pair){h, t, gap, skew_judge_gap(gap, rule.slack_us)};
        }
    qsort(pairs, n, sizeof *pairs, worse);
}

static uint64_t judge_untightened(void *ctx, int64_t until_ns, meter *m) {
    uint64_t n = 0;
    (void)ctx;
    (void)m;
    do {
        judge_plainly();
        n++;
    } while (now_ns() < until_ns);
    return n;
}

static uint64_t read_alone(void *ctx, int64_t until_ns, meter *m) {
    uint64_t n = 0;
    (void)ctx;
    (void)m;
    do {
        fleet_read(hosts);
        n++;
    } while (now_ns() < until_ns);
    return n;
}

/* ms CPU. */
static double judge_once(server_link *l, int n) {
    fleet_make(l, n);
    int64_t from = bench_client_cpu_ns();
    judge_all(n);
    return (double)(bench_client_cpu_ns() - from) / MS;
}

/* ms CPU: n hosts, of which one is 3 s ahead, are judged, and it is found. */
static double find_cause_once(server_link *l, int n) {
    skew_result r = {.rule = rule, .hosts = hosts, .host_count = n};
    fleet_make(l, n);
    fleet_read(hosts);
    hosts[n / 3].offset.lo += 3000 * (int64_t)1000;
    hosts[n / 3].offset.hi += 3000 * (int64_t)1000;
    int64_t from = bench_client_cpu_ns();
    if (!skew_judge(&r) || !skew_cause_find(&r) || r.causes != 1 || r.cause[0].host[0] != n / 3)
        die("skew: of %d hosts another is the cause: %s", n, r.cause_text);
    double took = (double)(bench_client_cpu_ns() - from) / MS;
    skew_result_end(&r);
    return took;
}

static void report_matrix(regime r, server_link *l) {
    static figures f[3];
    const contender c[] = {
        {.run = judge_tightened}, {.run = judge_untightened}, {.run = read_alone}};
    double tight[ROUNDS_MAX], plain[ROUNDS_MAX], read[ROUNDS_MAX];
    fleet_make(l, HOSTS);
    take_turns(c, 3, MATRIX_SLICE, 1, f);
    for (int i = 0; i < rounds; i++) {
        tight[i] = f[0].client_us[i] / 1000;
        plain[i] = f[1].client_us[i] / 1000;
        read[i] = f[2].client_us[i] / 1000;
    }
    report(&(label){ROW, "500 hosts judged, beside no tightening", "ms CPU", r, "<= 1000 ms"},
           tight, plain, rounds);
    report(&(label){ROW, "reading their records, of that", "ms CPU", r, NULL}, read, NULL, rounds);
    report_two(&(label){ROW, "1000 hosts judged, beside 500", "ms CPU", r, NULL},
               judge_once(l, 2 * HOSTS), median(tight, rounds));
    report_two(&(label){ROW, "5000 hosts judged, beside 500", "ms CPU", r, "<= 2000 ms"},
               judge_once(l, 10 * HOSTS), median(tight, rounds));
    report_two(&(label){ROW, "5000 hosts, one bad, found, beside 500", "ms CPU", r, "<= 2000 ms"},
               find_cause_once(l, 10 * HOSTS), find_cause_once(l, HOSTS));
}

/* ---- the command ----------------------------------------------------------------------------- */

/* With as many agents as there are records. */
static void report_command(regime r, server_link *l) {
    static const struct {
        int agents;
        const char *what, *format, *goal;
    } faces[] = {
        {HOSTS, "tidelock skew, 500 agents, beside --no-agents", "text", "<= 1000 ms"},
        {HOSTS, "tidelock skew --format json, the same", "json", NULL},
        {HOSTS, "tidelock skew --format html, the same", "html", NULL},
        {2 * HOSTS, "tidelock skew, 1000 agents, beside --no-agents", "text", "<= 300 ms"},
        {2 * HOSTS, "tidelock skew --format json, 1000 agents", "json", "<= 500 ms"},
        {10 * HOSTS - 1, "tidelock skew, 4999 agents, beside --no-agents", "text", "<= 2000 ms"},
        {10 * HOSTS - 1, "tidelock skew --format json, 4999 agents", "json", "<= 2000 ms"},
        {10 * HOSTS - 1, "tidelock skew --format html, 4999 agents", "html", NULL}};
    double with[ROUNDS_MAX], without[ROUNDS_MAX];
    for (size_t k = 0; k < sizeof faces / sizeof *faces; k++) {
        fleet_make(l, faces[k].agents);
        fleet_publish();
        const char *const all[] = {"skew", "--format", faces[k].format, NULL};
        const char *const none[] = {"skew", "--format", faces[k].format, "--no-agents", NULL};
        for (int i = 0; i < rounds; i++) {
            with[i] = spawn_run(all);
            without[i] = spawn_run(none);
        }
        report(&(label){ROW, faces[k].what, "ms", r, faces[k].goal}, with, without, rounds);
    }
}

/* ---- what it costs the server ---------------------------------------------------------------- */

static double idle_share; /* of the server's CPU time, with nothing to do */

static void rest(void) {
    int64_t from_ns = now_ns(), from_cpu = bench_server_cpu_ns();
    (void)poll(NULL, 0, 1000);
    idle_share = (double)(bench_server_cpu_ns() - from_cpu) / (double)(now_ns() - from_ns);
}

/* What n lines of it cost, us each: the server beyond what it uses anyway, and itself. */
static void cost_of(const spawn *s, int n, double *server_us, double *own_us) {
    int64_t from_ns = now_ns(), from_server = bench_server_cpu_ns(), from_own = spawn_cpu_ns(s);
    spawn_await(s, n);
    double anyway = idle_share * (double)(now_ns() - from_ns);
    *server_us = ((double)(bench_server_cpu_ns() - from_server) - anyway) / 1000 / n;
    *own_us = (double)(spawn_cpu_ns(s) - from_own) / 1000 / n;
}

/* Each period or look ends with a line, and is followed by a pause. */
static double commands_of(const spawn *s, int n) {
    commands_start();
    spawn_await(s, n);
    return (double)commands_stop() / n;
}

static void report_agent(regime r) {
    static const char *const words[] = {"agent",  "--verbose", "--every", "100ms",
                                        "--name", "bench",     NULL};
    double server_us[ROUNDS_MAX], own_us[ROUNDS_MAX];
    spawn s = spawn_start(words, 2);
    spawn_await(&s, 2);
    double commands = commands_of(&s, PERIODS);
    for (int i = 0; i < rounds; i++)
        cost_of(&s, PERIODS, &server_us[i], &own_us[i]);
    spawn_stop(&s);
    report_one(&(label){ROW, "an agent's period: commands", "counted", r, NULL}, commands);
    report(&(label){ROW, "an agent's period: server CPU", "us", r, NULL}, server_us, NULL, rounds);
    report(&(label){ROW, "an agent's period: its own CPU", "us", r, NULL}, own_us, NULL, rounds);
}

static double memory_of(const char *const *words) {
    spawn s = spawn_start(words, 1);
    spawn_await(&s, 2);
    double mb = spawn_memory_mb(&s);
    spawn_stop(&s);
    return mb;
}

static void report_watch(regime r) {
    static const char *const words[] = {"skew", "--watch=100ms", "--format", "nagios", NULL};
    static const char *const alone[] = {"skew",   "--watch=100ms", "--format",
                                        "nagios", "--no-agents",   NULL};
    double server_us[ROUNDS_MAX], own_ms[ROUNDS_MAX];
    spawn s = spawn_start(words, 1);
    spawn_await(&s, 2);
    double commands = commands_of(&s, LOOKS);
    for (int i = 0; i < rounds; i++) {
        cost_of(&s, LOOKS, &server_us[i], &own_ms[i]);
        server_us[i] /= HOSTS;
        own_ms[i] /= 1000;
    }
    spawn_stop(&s);
    report_one(&(label){ROW, "skew --watch, 500 hosts: commands a look", "counted", r, NULL},
               commands);
    report(&(label){ROW, "skew --watch: server CPU a host and look", "us", r, NULL}, server_us,
           NULL, rounds);
    report(&(label){ROW, "skew --watch: its own CPU a look", "ms", r, NULL}, own_ms, NULL, rounds);
    report_two(&(label){ROW, "its memory, beside --no-agents", "MB", r, NULL}, memory_of(words),
               memory_of(alone));
}

/* ---- the row --------------------------------------------------------------------------------- */

void row_skew(regime r) {
    server_link l;
    link_to_server(&l);
    report_interval(r, &l);
    if (r == ONE) {
        report_matrix(r, &l);
        rest();
        report_agent(r);
        fleet_make(&l, HOSTS);
        fleet_publish();
        report_watch(r);
        report_command(r, &l);
    }
    link_close(&l);
}
