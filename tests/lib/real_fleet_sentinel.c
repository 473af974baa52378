/*
 * A master, its replicas and Sentinels. What Sentinels do every few seconds they do several times a second here,
 * so that tests needn't wait; what they decide a failover by is untouched.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock_wait.h"
#include "real_fleet.h"
#include "real_fleet_inside.h"

#define SENTINELS 3
#define REPLICAS 2
#define DOWN_MS 1000
#define LATER_MS                                                                                   \
    200 /* than the last Sentinel: those that find it down at once vote each for itself, and wait */
#define FAILOVER_MS 2000
#define QUICK_HELLO_MS 100 /* until they know each other, or all is healed */
#define HELLO_MS 600

/* ---- what a Sentinel says -------------------------------------------------------------------- */

/* Of a list of names and values. */
static const char *field(const redisReply *list, const char *name) {
    for (size_t i = 0; list && list->type == REDIS_REPLY_ARRAY && i + 1 < list->elements; i += 2)
        if (list->element[i]->str && strcmp(list->element[i]->str, name) == 0)
            return list->element[i + 1]->str ? list->element[i + 1]->str : "";
    return "";
}

static redisReply *ask(const real_node *sentinel, const char *what) {
    return real_node_is_running(sentinel)
               ? real_redis_command(sentinel->redis, "SENTINEL %s " REAL_FLEET_NAME, what)
               : NULL;
}

/* That another had found a master down is said for seconds afterwards. */
static bool is_well(const redisReply *one) {
    const char *flags = field(one, "flags"), *link = field(one, "master-link-status");
    return !strstr(flags, "s_down") && !strstr(flags, "disconnected") &&
           (strcmp(flags, "slave") != 0 || strcmp(link, "ok") == 0);
}

/* Does it list so many, and all of them well? */
static bool lists(const real_node *sentinel, const char *what, int count) {
    redisReply *list = ask(sentinel, what);
    bool are = list && list->type == REDIS_REPLY_ARRAY && list->elements == (size_t)count;
    for (size_t i = 0; are && i < list->elements; i++)
        are = is_well(list->element[i]);
    freeReplyObject(list);
    return are;
}

static bool knows_all(const real_fleet *f, const real_node *sentinel) {
    redisReply *master = ask(sentinel, "MASTER");
    bool knows = strcmp(field(master, "flags"), "master") == 0 &&
                 strcmp(field(master, "role-reported"), "master") == 0;
    freeReplyObject(master);
    return knows && lists(sentinel, "REPLICAS", f->servers - 1) &&
           lists(sentinel, "SENTINELS", f->sentinels - 1);
}

static bool is_linked(const real_fleet *f) {
    int linked = 0, masters = 0;
    for (int i = 0; i < f->servers; i++) {
        redisReply *info = real_node_ask(&f->node[i], "INFO replication");
        linked += info && strstr(info->str, "master_link_status:up");
        masters += info && strstr(info->str, "role:master");
        freeReplyObject(info);
    }
    return masters == 1 && linked == f->servers - 1;
}

static bool is_whole(real_fleet *f) {
    bool is = is_linked(f) && real_fleet_master(f);
    for (int i = 0; i < f->sentinels && is; i++)
        is = knows_all(f, real_fleet_sentinel(f, i));
    return is;
}

static int port_named_by(const real_node *sentinel) {
    redisReply *address = ask(sentinel, "GET-MASTER-ADDR-BY-NAME");
    int port = address && address->type == REDIS_REPLY_ARRAY && address->elements == 2
                   ? atoi(address->element[1]->str)
                   : 0;
    freeReplyObject(address);
    return port;
}

real_node *real_fleet_master(real_fleet *f) {
    int votes[REAL_NODES_MAX] = {0};
    for (int i = 0; i < f->sentinels; i++) {
        int port = port_named_by(real_fleet_sentinel(f, i));
        for (int k = 0; k < f->servers; k++)
            votes[k] += f->node[k].port == port;
    }
    for (int k = 0; k < f->servers; k++)
        if (votes[k] > f->sentinels / 2 && real_node_is_master(&f->node[k]))
            return &f->node[k];
    return NULL;
}

bool real_fleet_all_name(real_fleet *f, const real_node *master) {
    for (int i = 0; i < f->sentinels; i++)
        if (port_named_by(real_fleet_sentinel(f, i)) != master->port)
            return false;
    return true;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* They introduce themselves so often; it isn't kept over a restart. By the period of pings they connect anew, which
 * each does after a failover, and which must take less than what makes a server be down; five of them are how old what
 * is known of a replica may be, and it is asked each second. A replica that calls itself a master for four times
 * this is made one again: who is promoted must be known by then, who leads the failover looks each second. A
 * Sentinel that knows no such command has its own pace. */
static void set_pace(const real_node *sentinel, int hello_ms) {
    freeReplyObject(real_redis_command(
        sentinel->redis, "SENTINEL DEBUG info-period 300 ping-period 400 publish-period %d",
        hello_ms));
}

static void hurry(real_fleet *f) {
    for (int i = 0; i < f->sentinels; i++)
        set_pace(real_fleet_sentinel(f, i), QUICK_HELLO_MS);
}

static void calm_down(real_fleet *f) {
    for (int i = 0; i < f->sentinels; i++)
        set_pace(real_fleet_sentinel(f, i), HELLO_MS);
}

static void restarted(real_node *node) {
    if (node->is_sentinel)
        set_pace(node, HELLO_MS);
}

static void add_server(real_fleet *f) {
    char lines[256] = "repl-diskless-sync-delay 0\n";
    if (f->password)
        (void)snprintf(lines + strlen(lines), sizeof lines - strlen(lines), "masterauth %s\n",
                       f->password);
    real_node *node = real_fleet_add(f, false, lines);
    if (f->servers == 1)
        return;
    REAL_NODE_MUST(node, "REPLICAOF 127.0.0.1 %d", f->node[0].port);
    REAL_NODE_MUST(node, "CONFIG REWRITE"); /* after a kill it is a replica again */
}

static void add_sentinel(real_fleet *f, int quorum) {
    char lines[1024];
    const char *const password = f->password, *const own = f->sentinel_password;
    const int down_ms = (f->options.down_ms ? f->options.down_ms : DOWN_MS) +
                        f->sentinels * LATER_MS;
    const int failover_ms = f->options.failover_ms ? f->options.failover_ms : FAILOVER_MS;
    (void)snprintf(lines, sizeof lines,
                   "sentinel monitor %s 127.0.0.1 %d %d\n"
                   "sentinel down-after-milliseconds %s %d\nsentinel failover-timeout %s %d\n"
                   "%s%s%s%s%s%s",
                   REAL_FLEET_NAME, f->node[0].port, quorum, REAL_FLEET_NAME, down_ms,
                   REAL_FLEET_NAME, failover_ms,
                   password ? "sentinel auth-pass " REAL_FLEET_NAME " " : "",
                   password ? password : "", password ? "\n" : "",
                   own ? "sentinel sentinel-pass " : "", own ? own : "", own ? "\n" : "");
    set_pace(real_fleet_add(f, true, lines), QUICK_HELLO_MS);
}

real_fleet *real_fleet_start_sentinels(const real_fleet_options *options) {
    static const real_fleet_kind kind = {.scheme = "sentinel",
                                         .is_whole = is_whole,
                                         .restarted = restarted,
                                         .healing = hurry,
                                         .healed = calm_down};
    real_fleet *f = real_fleet_new(&kind, options);
    int sentinels = f->options.sentinels ? f->options.sentinels : SENTINELS;
    int replicas = f->options.replicas ? f->options.replicas : REPLICAS;
    for (int i = 0; i <= (replicas < 0 ? 0 : replicas); i++)
        add_server(f);
    for (int i = 0; i < sentinels; i++)
        add_sentinel(f, sentinels / 2 + 1);
    real_fleet_name(f, "/" REAL_FLEET_NAME);
    real_fleet_await(f, is_whole, "all know each other");
    calm_down(f);
    return f;
}

/* ---- a failover ------------------------------------------------------------------------------ */

int64_t real_fleet_await_master(real_fleet *f, const real_node *former) {
    const int64_t start_ms = clock_ms();
    real_node *now;
    while (!(now = real_fleet_master(f)) || now == former)
        real_fleet_nap(f, start_ms, "another is the master");
    return clock_ms() - start_ms;
}

void real_fleet_switch(real_fleet *f) {
    const int64_t start_ms = clock_ms();
    real_node *former = real_fleet_master(f), *now = former;
    if (!former)
        real_fleet_fail("%s: nobody is the master that could be switched from", f->url);
    for (; !now || now == former; now = real_fleet_master(f)) {
        if (now) /* refused while one is being made: one that came to nothing is begun again */
            freeReplyObject(ask(real_fleet_sentinel(f, 0), "FAILOVER"));
        real_fleet_nap(f, start_ms, "SENTINEL FAILOVER has an end");
    }
}
