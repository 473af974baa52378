/*
 * Acquire and release by one thread, uncontended, where several servers belong to one URL: behind Sentinels, in a Cluster,
 * by a majority of five. Beside the same client at one server of theirs; a cluster also beside a plain server, five also beside
 * asking them in turn by hand.
 */

/*
 * The row starts servers of its own for each regime and reaches them by TCP, also in `one` and `free`. Servers run where
 * the regime has its server, Sentinels anywhere. In `delay` each server has a delay.c of its own, set like the first,
 * and is known by that port. Sentinels watch the port. Cluster nodes announce it (Redis 7.0; older ones cannot while
 * they run, and are reported as `skipped:`). Sentinels themselves are asked without delay. No server has a replica.
 *
 * - *Sentinel*: the baseline is the same client at the same master by `redis://`.
 * - *cluster*: the baseline is the same client at the node that has the key, so the cluster's own work counts on both
 *   sides. *beside a plain server* shows that work, above all PUBLISH that all nodes repeat.
 * - *quorum*: the baseline is one of its servers. By hand is SET NX PX at each of the five in turn, then the script that
 *   compares and deletes; it draws no fencing number. `quiet_ms` is on as by default, but 3 s, as lifetimes are here, so
 *   the first lock does not take 30 s.
 * - The server's CPU is that of all servers for a pair, of a cluster all masters; Sentinels do not count. Requests are
 *   counted at the servers, with the few that Sentinels send; those of a quorum are the mean of its servers.
 * - The quorum is measured in `free` and `delay`, the others in `one` and `delay`, and in `cross` on request.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "bare.h"
#include "bench.h"
#include "delay.h"
#include "real_fleet.h"

#define ROW "fleets"
#define SLICE (250 * MS)
#define SLICES 1
#define COUNTED 500         /* pairs */
#define OURS "{bench}:ours" /* in a cluster on the node that the key beside is on */
#define THEIRS "{bench}:beside"
#define SERVERS_MOST 5
#define SENTINELS 3
#define MASTERS 3
#define NODE_MS 5000 /* cluster-node-timeout: none is busy for so long */
#define QUIET_MS                                                                                   \
    3000 /* on with a quorum: what it costs belongs to the pair; and lifetimes, no longer */
#define FIRST_MS 20000
#define NAP_MS 20
#define URL_SIZE 256

/* Servers, and by which URLs they are reached in the regime. */
typedef struct {
    regime r;
    real_redis *server[SERVERS_MOST]; /* that keep the locks */
    int servers;
    real_redis *sentinel[SENTINELS];
    real_fleet *cluster;          /* that the servers belong to; NULL: to none */
    real_redis *plain;            /* none of them; NULL: there is none */
    delay *way[SERVERS_MOST + 1]; /* in DELAY: to each, in the order in which they were reached */
    int ways;
    char url[URL_SIZE], beside[64], plain_url[64]; /* beside: of one of the servers */
} rig;

/* ---- servers --------------------------------------------------------------------------------- */

static real_redis *start(const real_redis_options *options) {
    real_redis *r = real_redis_start(options);
    bench_pin(r, !options || !options->sentinel);
    return r;
}

/* The port that leads there. */
static int reach(rig *g, const real_redis *r) {
    if (g->r != DELAY)
        return real_redis_port(r);
    delay *d = bench_delay(real_redis_port(r));
    g->way[g->ways++] = d;
    return delay_port(d);
}

static void add_host(rig *g, int port) {
    size_t n = strlen(g->url);
    (void)snprintf(g->url + n, sizeof g->url - n, "%s127.0.0.1:%d", g->url[n - 1] == '/' ? "" : ",",
                   port);
}

static void name_one(char to[64], int port) {
    (void)snprintf(to, 64, "redis://127.0.0.1:%d", port);
}

/* What they watch is the port that leads to the master, so that is what they name. */
static const char *start_sentinels(rig *g) {
    char config[128];
    const real_redis_options options = {.config = config, .sentinel = true};
    g->server[g->servers++] = start(NULL);
    int port = reach(g, g->server[0]);
    (void)snprintf(config, sizeof config, "sentinel monitor " REAL_FLEET_NAME " 127.0.0.1 %d %d\n",
                   port, SENTINELS / 2 + 1);
    (void)snprintf(g->url, sizeof g->url, "redis+sentinel://");
    for (int i = 0; i < SENTINELS; i++) {
        g->sentinel[i] = start(&options);
        add_host(g, real_redis_port(g->sentinel[i]));
    }
    strncat(g->url, "/" REAL_FLEET_NAME, sizeof g->url - strlen(g->url) - 1);
    name_one(g->beside, port);
    return NULL;
}

/* Does this node name each by the port that it announces? */
static bool names_all(real_redis *r, const rig *g) {
    char port[24];
    redisReply *nodes = real_redis_command(r, "CLUSTER NODES");
    bool all = nodes && nodes->type == REDIS_REPLY_STRING;
    for (int i = 0; i < g->servers && all; i++) {
        (void)snprintf(port, sizeof port, ":%d@", delay_port(g->way[i]));
        all = strstr(nodes->str, port);
    }
    freeReplyObject(nodes);
    return all;
}

static bool announce(real_redis *r, int port) {
    redisReply *reply = real_redis_command(r, "CONFIG SET cluster-announce-port %d", port);
    bool done = reply && reply->type == REDIS_REPLY_STATUS;
    freeReplyObject(reply);
    return done;
}

/* On return all of them name the ports that lead through the delays. */
static const char *announce_all(const rig *g) {
    for (int i = 0; i < g->servers; i++)
        if (!announce(g->server[i], delay_port(g->way[i])))
            return "this server can't announce another port while it runs";
    const int64_t end = now_ns() + 20 * SECOND;
    for (int i = 0; i < g->servers; i += names_all(g->server[i], g)) {
        if (now_ns() > end)
            die("the cluster doesn't learn of the ports that it announces");
        (void)poll(NULL, 0, NAP_MS);
    }
    return NULL;
}

static const char *start_cluster(rig *g) {
    g->cluster = real_fleet_start_cluster(
        &(real_fleet_options){.masters = MASTERS, .replicas = -1, .down_ms = NODE_MS});
    (void)snprintf(g->url, sizeof g->url, "redis+cluster://");
    while (g->servers < MASTERS) {
        real_redis *r = real_fleet_server(g->cluster, g->servers)->redis;
        int port = reach(g, r);
        bench_pin(r, true);
        g->server[g->servers++] = r;
        add_host(g, port);
        if (r == real_fleet_owner(g->cluster, THEIRS)->redis)
            name_one(g->beside, port);
    }
    g->plain = start(NULL);
    name_one(g->plain_url, reach(g, g->plain));
    return g->r == DELAY ? announce_all(g) : NULL;
}

static const char *start_quorum(rig *g) {
    (void)snprintf(g->url, sizeof g->url, "redis+quorum://");
    while (g->servers < SERVERS_MOST) {
        real_redis *r = start(NULL);
        int port = reach(g, r);
        g->server[g->servers++] = r;
        add_host(g, port);
        if (g->servers == 1)
            name_one(g->beside, port);
    }
    return NULL;
}

static void end(rig *g) {
    for (int i = 0; i < g->ways; i++)
        delay_free(g->way[i]);
    for (int i = 0; i < SENTINELS; i++)
        real_redis_free(g->sentinel[i]);
    for (int i = 0; i < g->servers && !g->cluster; i++)
        real_redis_free(g->server[i]);
    real_fleet_free(g->cluster);
    real_redis_free(g->plain);
}

/* ---- contenders ------------------------------------------------------------------------------ */

typedef struct {
    const char *url, *key; /* or by hand: NULL, and by which ports */
    bool is_quorum;
    int port[SERVERS_MOST];
    tl_lock *lock;
    bare *by_hand[SERVERS_MOST];
    real_redis *const *server; /* who has work by it */
    int servers;
} side;

static void *begin(void *ctx) {
    side *s = ctx;
    const tl_lock_options lock = TL_LOCK_OPTIONS(.ttl_ms = QUIET_MS);
    tl_client_options options = TL_CLIENT_OPTIONS(.url = s->url);
    tl_client *client;
    tl_error err;
    options.quiet_ms = s->is_quorum ? QUIET_MS : 0;
    if (tl_client_open(&options, &client, &err))
        die("%s", err.message);
    s->lock = tl_lock_new(client, s->key, strlen(s->key), &lock, &err);
    if (!s->lock || tl_lock_acquire(s->lock, FIRST_MS, &err) || tl_lock_release(s->lock, &err))
        die("%s: %s", s->url, err.message);
    bench_count_cpu_of(s->server, s->servers);
    return s;
}

static void *begin_by_hand(void *ctx) {
    side *s = ctx;
    for (int i = 0; i < s->servers; i++) {
        redisContext *c = redisConnect("127.0.0.1", s->port[i]);
        if (!c || c->err)
            die("connect: %s", c ? c->errstr : "out of memory");
        s->by_hand[i] = bare_open_on(c, "bench:bare");
    }
    bench_count_cpu_of(s->server, s->servers);
    return s;
}

static void pair(void *ctx) {
    side *s = ctx;
    bench_pair(s->lock);
}

static void pair_by_hand(void *ctx) {
    side *s = ctx;
    for (int i = 0; i < s->servers; i++)
        if (!bare_take(s->by_hand[i]))
            die("bare SET: another has it");
    for (int i = 0; i < s->servers; i++)
        bare_drop(s->by_hand[i]);
}

/* ---- reports --------------------------------------------------------------------------------- */

enum { FLEET, BESIDE, OTHER, SIDES };

typedef struct {
    const char *name;
    const char *(*start)(rig *g); /* NULL: they run. Otherwise why they can't */
    regimes in;
    const char *goal, *delay_goal;  /* of pairs */
    const char *other, *other_goal; /* what else stands beside it; NULL: nothing. In DELAY */
    bool is_quorum;
} kind;

static void report_line(const kind *k, const label *l, const double *ours, const double *base) {
    char what[96];
    label whole = *l;
    (void)snprintf(what, sizeof what, "%s: %s", k->name, l->what);
    whole.what = what;
    report(&whole, ours, base, rounds);
}

/* How long a pair takes, in round trips of 5 ms. */
static void report_trips(const kind *k, const figures *f) {
    double trips[2][ROUNDS_MAX];
    for (int i = 0; i < rounds; i++)
        for (int side = FLEET; side <= BESIDE; side++)
            trips[side][i] = 1000 / f[side].rate[i] / 5;
    report_line(k, &(label){ROW, "time of a pair", "round trips", DELAY, NULL}, trips[FLEET],
                trips[BESIDE]);
}

static const double *rate_of(const figures *f, regime r) {
    return r == ONE ? f->core_rate : f->rate;
}

static void report_other(const kind *k, regime r, const figures *f) {
    char what[2][64];
    (void)snprintf(what[0], sizeof what[0], "pairs beside %s", k->other);
    (void)snprintf(what[1], sizeof what[1], "server CPU beside %s", k->other);
    report_line(k, &(label){ROW, what[0], "/s", r, r == DELAY ? k->other_goal : NULL},
                rate_of(&f[FLEET], r), rate_of(&f[OTHER], r));
    report_line(k, &(label){ROW, what[1], "us", r, NULL}, f[FLEET].server_us, f[OTHER].server_us);
}

static void report_figures(const kind *k, regime r, const figures *f) {
    const figures *ours = &f[FLEET], *base = &f[BESIDE];
    report_line(k,
                &(label){ROW, r == ONE ? "pairs a second of core time" : "pairs a second", "/s", r,
                         r == DELAY ? k->delay_goal : k->goal},
                rate_of(ours, r), rate_of(base, r));
    if (r == DELAY)
        report_trips(k, f);
    report_line(k, &(label){ROW, "client CPU a pair", "us", r, NULL}, ours->client_us,
                base->client_us);
    report_line(k, &(label){ROW, "server CPU a pair", "us", r, NULL}, ours->server_us,
                base->server_us);
    if (k->other)
        report_other(k, r, f);
}

/* At all its servers. */
static double requests_of(const contender *c, void *ctx) {
    const side *s = ctx;
    uint64_t n = 0;
    for (int i = 0; i < s->servers; i++) {
        commands_start_at(s->server[i]);
        for (int j = 0; j < COUNTED; j++)
            c->operation(ctx);
        n += commands_stop();
    }
    return (double)n / COUNTED;
}

static void report_requests(const kind *k, regime r, const contender *c, const side *s) {
    char what[64];
    double ours = count_apart(&c[FLEET], requests_of), base = count_apart(&c[BESIDE], requests_of);
    (void)snprintf(what, sizeof what, "%s: requests a pair%s", k->name,
                   k->is_quorum ? " at each server" : "");
    report_two(&(label){ROW, what, "counted", r, k->is_quorum ? NULL : "<= 2.1 counted"},
               k->is_quorum ? ours / s[FLEET].servers : ours, base);
}

/* ---- the row --------------------------------------------------------------------------------- */

static void measure(const kind *k, const rig *g) {
    static figures f[SIDES];
    side s[SIDES] = {
        [FLEET] = {.url = g->url, .key = OURS, .server = g->server, .servers = g->servers},
        [BESIDE] = {.url = g->beside,
                    .key = THEIRS,
                    .server = g->server,
                    .servers = g->cluster ? g->servers : 1},
        [OTHER] = {.url = g->plain_url,
                   .key = OURS,
                   .server = g->plain ? &g->plain : g->server,
                   .servers = g->plain ? 1 : g->servers},
    };
    contender c[SIDES];
    s[FLEET].is_quorum = k->is_quorum;
    for (int i = 0; i < SIDES; i++)
        c[i] = (contender){.open = begin, .ctx = &s[i], .operation = pair};
    if (k->is_quorum)
        c[OTHER] = (contender){.open = begin_by_hand, .ctx = &s[OTHER], .operation = pair_by_hand};
    for (int i = 0; k->is_quorum && i < g->servers; i++)
        s[OTHER].port[i] = g->r == DELAY ? delay_port(g->way[i]) : real_redis_port(g->server[i]);
    take_turns(c, k->other ? SIDES : OTHER, SLICE, SLICES, f);
    report_figures(k, g->r, f);
    if (g->r != DELAY)
        report_requests(k, g->r, c, s);
}

void row_fleets(regime r) {
    const regimes delayed = 1u << DELAY, pinned = 1u << ONE | 1u << CROSS;
    const kind kinds[] = {
        {"Sentinel", start_sentinels, pinned | delayed, ">= 0.97", ">= 0.97", NULL, NULL, false},
        {"cluster", start_cluster, pinned | delayed, ">= 0.97", ">= 0.97", "a plain server", NULL,
         false},
        {"quorum of 5", start_quorum, 1u << FREE | delayed, NULL, ">= 0.9", "five in turn by hand",
         ">= 2.5", true},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        rig g = {.r = r};
        if (!(kinds[i].in & 1u << r))
            continue;
        const char *problem = kinds[i].start(&g);
        if (problem)
            report_skip(ROW, r, problem);
        else
            measure(&kinds[i], &g);
        end(&g);
    }
}
