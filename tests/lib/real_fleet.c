/*
 * What all kinds of fleets share: their processes and gates, and who is parted from whom. It never touches a
 * server that it did not start.
 */
#include "real_fleet.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clock_wait.h"
#include "connect_from.h"
#include "real_fleet_inside.h"
#include "real_server.h"

/* Addresses that connections are made from: 127.0.0.1 is any client's. */
#define FIRST_FROM 2   /* a process's */
#define SIDES_FROM 240 /* a client's who stands on a side */
#define NAP_NS 5000000

void real_fleet_fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("real_fleet: ", stderr);
    (void)vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

/* ---- asking ---------------------------------------------------------------------------------- */

void real_node_must(const real_node *node, redisReply *reply) {
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        real_fleet_fail("port %d: %s", node->port, reply ? reply->str : "no reply");
    freeReplyObject(reply);
}

redisReply *real_node_ask(const real_node *node, const char *command) {
    redisReply *reply = real_node_is_running(node) ? real_redis_command(node->redis, command)
                                                   : NULL;
    if (reply && (reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS))
        return reply;
    freeReplyObject(reply);
    return NULL;
}

bool real_node_says(const real_node *node, const char *command, const char *words) {
    redisReply *reply = real_node_ask(node, command);
    bool says = reply && strstr(reply->str, words);
    freeReplyObject(reply);
    return says;
}

bool real_node_is_master(const real_node *node) {
    return real_node_says(node, "INFO replication", "role:master");
}

/* What each says of all, for whoever wonders. */
static void tell_views(const real_fleet *f) {
    for (int i = 0; i < f->servers + f->sentinels; i++) {
        redisReply *view = real_node_ask(&f->node[i],
                                         f->kind->has_bus ? "CLUSTER NODES" : "INFO replication");
        (void)fprintf(stderr, "---- %d:\n%s\n", f->node[i].port, view ? view->str : "no answer");
        freeReplyObject(view);
    }
}

void real_fleet_nap(const real_fleet *f, int64_t since_ms, const char *what) {
    if (clock_ms() - since_ms >= clock_patient_ms(REAL_WHOLE_MS))
        tell_views(f);
    if (clock_ms() - since_ms >= clock_patient_ms(REAL_WHOLE_MS))
        real_fleet_fail("%s: not within %d ms: %s", f->url, REAL_WHOLE_MS, what);
    (void)nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
}

void real_fleet_await(real_fleet *f, bool (*is_so)(real_fleet *f), const char *what) {
    const int64_t start_ms = clock_ms();
    while (!is_so(f))
        real_fleet_nap(f, start_ms, what);
}

/* ---- life ------------------------------------------------------------------------------------ */

static char *copy_of(const char *text) {
    char *copy = text ? strdup(text) : NULL;
    if (text && !copy)
        real_fleet_fail("out of memory");
    return copy;
}

real_fleet *real_fleet_new(const real_fleet_kind *kind, const real_fleet_options *options) {
    real_fleet *f = calloc(1, sizeof *f);
    if (!f)
        real_fleet_fail("out of memory");
    if (options)
        f->options = *options;
    (void)signal(SIGPIPE, SIG_IGN); /* a failover closes connections, ours too */
    f->kind = kind;
    f->config = copy_of(f->options.config);
    f->password = copy_of(f->options.password);
    f->sentinel_password = copy_of(f->options.sentinel_password);
    f->clients = REAL_FLEET_BOTH;
    f->slot = f->closed = -1;
    (void)snprintf(f->url, sizeof f->url, "%s", kind->scheme);
    return f;
}

void real_fleet_free(real_fleet *f) {
    if (!f)
        return;
    for (int i = 0; i < f->servers + f->sentinels; i++) {
        proxy_free(f->node[i].gate);
        proxy_free(f->node[i].bus);
        real_redis_free(f->node[i].redis);
    }
    free(f->config);
    free(f->password);
    free(f->sentinel_password);
    free(f);
}

static void announce(const real_fleet *f, const real_node *node, char *to, size_t size) {
    if (node->is_sentinel)
        (void)snprintf(to, size, "sentinel announce-ip 127.0.0.1\nsentinel announce-port %d\n",
                       node->port);
    else if (node->bus)
        (void)snprintf(to, size,
                       "cluster-announce-ip 127.0.0.1\n%s %d\ncluster-announce-bus-port %d\n",
                       f->options.tls ? "cluster-announce-tls-port" : "cluster-announce-port",
                       node->port, proxy_port(node->bus));
    else
        (void)snprintf(to, size, "replica-announce-ip 127.0.0.1\nreplica-announce-port %d\n",
                       node->port);
}

/* What it announces is known before it is started, where the gate leads to, afterwards. */
static void open_gates(const real_fleet *f, real_node *node, char *config, size_t size) {
    char lines[256];
    real_server_need(REAL_SEVEN);
    node->from = FIRST_FROM + f->servers + f->sentinels;
    node->gate = proxy_start(0);
    node->bus = f->kind->has_bus ? proxy_start(0) : NULL;
    node->port = proxy_port(node->gate);
    announce(f, node, lines, sizeof lines);
    size_t used = strlen(config);
    (void)snprintf(config + used, size - used, "%sbind-source-addr 127.0.0.%d\n", lines,
                   node->from);
}

real_node *real_fleet_add(real_fleet *f, bool is_sentinel, const char *lines) {
    char config[REAL_CONFIG_SIZE];
    real_node *node = &f->node[f->servers + f->sentinels];
    if (f->servers + f->sentinels == REAL_NODES_MAX)
        real_fleet_fail("more than %d processes", REAL_NODES_MAX);
    node->is_sentinel = is_sentinel;
    (void)snprintf(config, sizeof config, "%s\n%s\n", is_sentinel || !f->config ? "" : f->config,
                   lines);
    if (f->options.gates)
        open_gates(f, node, config, sizeof config);
    const real_redis_options options = {.config = config,
                                        .password = is_sentinel ? f->sentinel_password
                                                                : f->password,
                                        .persist = f->options.persist,
                                        .sentinel = is_sentinel,
                                        .cluster = f->kind->has_bus,
                                        .tls = f->options.tls};
    node->redis = real_redis_start(&options);
    if (!node->gate)
        node->port = real_redis_port(node->redis);
    else
        proxy_lead_to(node->gate, real_redis_port(node->redis));
    if (node->bus)
        proxy_lead_to(node->bus, real_redis_bus_port(node->redis));
    *(is_sentinel ? &f->sentinels : &f->servers) += 1;
    return node;
}

void real_fleet_name(real_fleet *f, const char *tail) {
    size_t size = sizeof f->url, n;
    const char *password = f->password;
    n = (size_t)snprintf(f->url, size, "redis%s+%s://%s%s%s", f->options.tls ? "s" : "",
                         f->kind->scheme, password ? ":" : "", password ? password : "",
                         password ? "@" : "");
    int first = f->sentinels ? f->servers : 0;
    for (int i = first; i < f->servers + f->sentinels; i++)
        n += (size_t)snprintf(f->url + n, size - n, "%s127.0.0.1:%d", i > first ? "," : "",
                              f->node[i].port);
    (void)snprintf(f->url + n, size - n, "%s", tail);
}

int real_fleet_servers(const real_fleet *f) {
    return f->servers;
}

int real_fleet_sentinels(const real_fleet *f) {
    return f->sentinels;
}

real_node *real_fleet_server(real_fleet *f, int i) {
    if (i < 0 || i >= f->servers)
        real_fleet_fail("there is no server %d", i);
    return &f->node[i];
}

real_node *real_fleet_sentinel(real_fleet *f, int i) {
    if (i < 0 || i >= f->sentinels)
        real_fleet_fail("there is no Sentinel %d", i);
    return &f->node[f->servers + i];
}

const char *real_fleet_url(const real_fleet *f) {
    return f->url;
}

/* ---- after a fault --------------------------------------------------------------------------- */

void real_fleet_restart(real_fleet *f, real_node *node) {
    real_redis_restart(node->redis);
    if (f->kind->restarted)
        f->kind->restarted(node);
}

static bool all_answer(real_fleet *f) {
    for (int i = 0; i < f->servers + f->sentinels; i++)
        if (!real_node_says(&f->node[i], "PING", "PONG"))
            return false;
    return true;
}

bool real_fleet_is_whole(real_fleet *f) {
    return all_answer(f) && (!f->kind->is_whole || f->kind->is_whole(f));
}

static bool is_emptied(real_fleet *f) {
    bool all = true;
    for (int i = 0; i < f->servers; i++)
        if (real_node_is_master(&f->node[i]))
            all = real_node_says(&f->node[i], "FLUSHALL", "OK") && all;
    for (int i = 0; i < f->servers; i++)
        all = all && real_redis_int(f->node[i].redis, "DBSIZE") == 0;
    return all;
}

/* A connection that was muted stays so until it is reset. */
static void heal_gate(proxy *p) {
    if (!p)
        return;
    proxy_heal(p);
    if (proxy_struck(p) > 0)
        proxy_reset(p);
}

void real_fleet_mend(real_fleet *f) {
    real_fleet_join(f);
    for (int i = 0; i < f->servers + f->sentinels; i++) {
        real_node *node = &f->node[i];
        heal_gate(node->gate);
        heal_gate(node->bus);
        real_redis_thaw(node->redis);
        if (!real_node_is_running(node))
            real_fleet_restart(f, node);
    }
    if (f->kind->healing)
        f->kind->healing(f);
    real_fleet_await(f, real_fleet_is_whole, "it is whole again");
    if (f->kind->healed)
        f->kind->healed(f);
}

void real_fleet_heal(real_fleet *f) {
    real_fleet_mend(f);
    real_fleet_await(f, is_emptied, "it is empty");
}

/* ---- sides ----------------------------------------------------------------------------------- */

static void part_at(const real_fleet *f, proxy *at, int side) {
    if (!at)
        return;
    for (int i = 0; i < f->servers + f->sentinels; i++)
        proxy_set_apart(at, (unsigned)f->node[i].from, f->node[i].side != side);
    for (int i = 0; i < REAL_FLEET_SIDES; i++)
        proxy_set_apart(at, (unsigned)(SIDES_FROM + i), i != side);
    proxy_set_apart(at, 1, f->clients != REAL_FLEET_BOTH && f->clients != side);
}

static void part_all(const real_fleet *f) {
    for (int i = 0; i < f->servers + f->sentinels; i++) {
        part_at(f, f->node[i].gate, f->node[i].side);
        part_at(f, f->node[i].bus, f->node[i].side);
    }
}

static void must_have_side(const real_fleet *f, int side) {
    if (!f->options.gates)
        real_fleet_fail("without gates nobody can be parted");
    if (side < REAL_FLEET_BOTH || side >= REAL_FLEET_SIDES)
        real_fleet_fail("there is no side %d", side);
}

void real_fleet_part(real_fleet *f, real_node *node, int side) {
    must_have_side(f, side < 0 ? REAL_FLEET_SIDES : side);
    node->side = side;
    part_all(f);
}

void real_fleet_part_clients(real_fleet *f, int side) {
    must_have_side(f, side);
    f->clients = side;
    part_all(f);
}

void real_fleet_stand_on(int side) {
    connect_from(side == REAL_FLEET_BOTH ? 1 : (unsigned)(SIDES_FROM + side));
}

void real_fleet_join(real_fleet *f) {
    for (int i = 0; i < f->servers + f->sentinels; i++)
        f->node[i].side = 0;
    f->clients = REAL_FLEET_BOTH;
    part_all(f);
}

/* ---- independent servers --------------------------------------------------------------------- */

real_fleet *real_fleet_start_servers(int count, const real_fleet_options *options) {
    static const real_fleet_kind kind = {.scheme = "quorum"};
    real_fleet *f = real_fleet_new(&kind, options);
    for (int i = 0; i < count; i++)
        (void)real_fleet_add(f, false, "");
    real_fleet_name(f, "");
    return f;
}
