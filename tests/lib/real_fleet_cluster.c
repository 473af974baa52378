/*
 * A Redis Cluster: masters with equal shares of the slots, and replicas; slots that are moved half and wholly.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock_wait.h"
#include "real_fleet.h"
#include "real_fleet_inside.h"
#include "real_server.h"
#include "wire/keys.h"

#define MASTERS 3
#define REPLICAS 1
#define NODE_MS 1000 /* cluster-node-timeout */
#define CLAIM_MS 3000
#define MOVE_MS 5000

/* ---- what a node says ------------------------------------------------------------------------ */

/* A line of CLUSTER NODES, as far as it is of interest. */
typedef struct {
    char id[41], flags[64], master[41], link[16];
    long long epoch;
    const char *slots; /* "0-5460 5462 [5461->-ID]", up to the end of the line */
} line;

static bool read_line(const char *text, line *ret) {
    int used = 0;
    ret->slots = "";
    if (sscanf(text, "%40s %*s %63s %40s %*s %*s %lld %15s%n", ret->id, ret->flags, ret->master,
               &ret->epoch, ret->link, &used) != 5)
        return false;
    ret->slots = text + used;
    return true;
}

static const char *next_line(const char *text) {
    const char *end = strchr(text, '\n');
    return end && end[1] ? end + 1 : NULL;
}

/* Is the slot among the ranges of a line? What is being moved, in brackets, isn't asked about. */
static bool has_slot(const line *l, int slot) {
    const char *at = l->slots;
    while (*at == ' ' && at[1] != '[') {
        char *end;
        long first = strtol(at + 1, &end, 10),
             last = *end == '-' ? strtol(end + 1, &end, 10) : first;
        if (slot >= first && slot <= last)
            return true;
        at = end;
    }
    return false;
}

/* What a node says of another, or of itself. false: it doesn't run, or doesn't know it. */
static bool says_of(redisReply *nodes, const char *id, line *ret) {
    for (const char *at = nodes ? nodes->str : NULL; at; at = next_line(at))
        if (read_line(at, ret) && strcmp(ret->id, id) == 0)
            return true;
    return false;
}

static bool is_master(const line *l) {
    return strstr(l->flags, "master") && !strstr(l->flags, "fail");
}

/* Does it, where it runs, know all, none of them failing, all connected? */
static bool knows_all(const real_fleet *f, const real_node *node) {
    redisReply *nodes = real_node_ask(node, "CLUSTER NODES");
    int known = 0;
    line l;
    for (const char *at = nodes ? nodes->str : NULL; at; at = next_line(at))
        known += read_line(at, &l) && !strstr(l.flags, "fail") && !strstr(l.flags, "handshake") &&
                 !strstr(l.flags, "noaddr") && strcmp(l.link, "connected") == 0;
    freeReplyObject(nodes);
    return known == f->servers;
}

static bool all_know_all(real_fleet *f) {
    for (int i = 0; i < f->servers; i++)
        if (!knows_all(f, &f->node[i]))
            return false;
    return true;
}

static bool is_linked(const real_node *node) {
    return real_node_is_master(node) ||
           real_node_says(node, "INFO replication", "master_link_status:up");
}

static int count_masters(const real_fleet *f) {
    int masters = 0;
    for (int i = 0; i < f->servers; i++)
        masters += real_node_is_master(&f->node[i]);
    return masters;
}

static bool is_whole(real_fleet *f) {
    for (int i = 0; i < f->servers; i++)
        if (!real_node_says(&f->node[i], "CLUSTER INFO", "cluster_state:ok") ||
            !is_linked(&f->node[i]))
            return false;
    return all_know_all(f) && count_masters(f) == f->masters;
}

static int slot_of(const char *key) {
    return tl__hash_slot(tl__bytes_of(key));
}

static real_node *owner_of(real_fleet *f, int slot) {
    long long epoch = -1;
    real_node *owner = NULL;
    for (int i = 0; i < f->servers; i++) {
        redisReply *nodes = real_node_ask(&f->node[i], "CLUSTER NODES");
        line l;
        if (says_of(nodes, f->node[i].id, &l) && is_master(&l) && has_slot(&l, slot) &&
            l.epoch > epoch) {
            epoch = l.epoch;
            owner = &f->node[i];
        }
        freeReplyObject(nodes);
    }
    return owner;
}

real_node *real_fleet_owner(real_fleet *f, const char *key) {
    return owner_of(f, slot_of(key));
}

real_node *real_fleet_replica(real_fleet *f, const real_node *master) {
    real_node *replica = NULL;
    for (int i = 0; i < f->servers && !replica; i++) {
        redisReply *nodes = real_node_ask(&f->node[i], "CLUSTER NODES");
        line l;
        if (says_of(nodes, f->node[i].id, &l) && strcmp(l.master, master->id) == 0)
            replica = &f->node[i];
        freeReplyObject(nodes);
    }
    return replica;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void learn_id(real_node *node) {
    redisReply *id = real_node_ask(node, "CLUSTER MYID");
    if (!id || id->len >= sizeof node->id)
        real_fleet_fail("port %d: it has no name in the cluster", node->port);
    memcpy(node->id, id->str, id->len + 1);
    freeReplyObject(id);
}

static int bus_port(const real_node *node) {
    return node->bus ? proxy_port(node->bus) : real_redis_bus_port(node->redis);
}

static void add_node(real_fleet *f) {
    char lines[512];
    const char *password = f->password;
    (void)snprintf(lines, sizeof lines,
                   "repl-diskless-sync-delay 0\ncluster-node-timeout %d\n"
                   "%s\ncluster-%s-validity-factor 0\n%s%s\n",
                   f->options.down_ms ? f->options.down_ms : NODE_MS,
                   real_server_has(REAL_PAUSE_WRITES) ? "cluster-allow-replica-migration no"
                                                      : "cluster-migration-barrier 100",
                   real_server_replica(), password ? "masterauth " : "", password ? password : "");
    learn_id(real_fleet_add(f, false, lines));
}

/* Epochs first, so that none has to give way to another. */
static void give_slots(real_fleet *f) {
    for (int i = 0; i < f->servers; i++)
        REAL_NODE_MUST(&f->node[i], "CLUSTER SET-CONFIG-EPOCH %d", i + 1);
    for (int i = 0; i < f->masters; i++)
        real_redis_give_slots(f->node[i].redis, TL_SLOTS * i / f->masters,
                              TL_SLOTS * (i + 1) / f->masters - 1);
}

static void meet(real_fleet *f) {
    for (int i = 0; i < f->servers; i++)
        for (int k = i + 1; k < f->servers; k++)
            if (real_server_has(REAL_SEVEN))
                REAL_NODE_MUST(&f->node[i], "CLUSTER MEET 127.0.0.1 %d %d", f->node[k].port,
                               bus_port(&f->node[k]));
            else
                REAL_NODE_MUST(&f->node[i], "CLUSTER MEET 127.0.0.1 %d", f->node[k].port);
}

static void follow(real_fleet *f) {
    for (int i = f->masters; i < f->servers; i++)
        REAL_NODE_MUST(&f->node[i], "CLUSTER REPLICATE %s", f->node[i % f->masters].id);
}

/* To all others: who still imports a slot hears of no owner. */
static void say_closed(const real_fleet *f, int slot, const real_node *but) {
    for (int i = 0; i < f->servers; i++)
        if (&f->node[i] != but && real_node_is_running(&f->node[i]))
            freeReplyObject(
                real_redis_command(f->node[i].redis, "CLUSTER SETSLOT %d STABLE", slot));
}

/* A busy machine's failovers may have left one open somewhere. */
static void healing(real_fleet *f) {
    if (f->slot < 0 && f->closed >= 0)
        say_closed(f, f->closed, NULL);
}

static void healed(real_fleet *f) {
    if (f->slot >= 0)
        real_fleet_close_slot(f);
}

real_fleet *real_fleet_start_cluster(const real_fleet_options *options) {
    static const real_fleet_kind kind = {.scheme = "cluster",
                                         .has_bus = true,
                                         .is_whole = is_whole,
                                         .healing = healing,
                                         .healed = healed};
    real_fleet *f = real_fleet_new(&kind, options);
    int replicas = f->options.replicas ? f->options.replicas : REPLICAS;
    f->masters = f->options.masters ? f->options.masters : MASTERS;
    for (int i = 0; i < f->masters * (1 + (replicas < 0 ? 0 : replicas)); i++)
        add_node(f);
    real_fleet_name(f, "");
    give_slots(f);
    meet(f);
    real_fleet_await(f, all_know_all, "all know each other");
    follow(f);
    real_fleet_await(f, is_whole, "all say that it is well");
    return f;
}

/* ---- moving a slot --------------------------------------------------------------------------- */

static void open_at_both(real_fleet *f) {
    REAL_NODE_MUST(f->slot_to, "CLUSTER SETSLOT %d IMPORTING %s", f->slot, f->slot_from->id);
    REAL_NODE_MUST(f->slot_from, "CLUSTER SETSLOT %d MIGRATING %s", f->slot, f->slot_to->id);
}

void real_fleet_open_slot(real_fleet *f, const char *key, real_node *to) {
    real_node *from = real_fleet_owner(f, key);
    if (f->slot >= 0 || !from || from == to)
        real_fleet_fail("%s: the slot can't be opened, or another is open", key);
    f->slot = slot_of(key);
    f->slot_from = from;
    f->slot_to = to;
    open_at_both(f);
}

/* Who takes over from a master knows nothing of slots that are open there. */
static bool another_has_taken_over(real_fleet *f) {
    real_node *owner = owner_of(f, f->slot);
    if (!owner || owner == f->slot_from || owner == f->slot_to)
        return false;
    f->slot_from = owner;
    open_at_both(f);
    return true;
}

static redisReply *migrate(const real_fleet *f, const char *key, const char *how) {
    char auth[2 * sizeof f->url] = "";
    if (f->password)
        (void)snprintf(auth, sizeof auth, " AUTH %s", f->password);
    char command[sizeof auth + 128];
    (void)snprintf(command, sizeof command, "MIGRATE 127.0.0.1 %d %s 0 %d%s%s", f->slot_to->port,
                   key, MOVE_MS, how, auth);
    return real_redis_command(f->slot_from->redis, command);
}

/* A key at both nodes: a request that an ASK led on has come late, or another has taken over. The owner's counts. */
static bool is_double(const redisReply *reply) {
    return reply && reply->type == REDIS_REPLY_ERROR && strstr(reply->str, "BUSYKEY");
}

/* For a moment after a failover, or on a busy machine, where nodes seem to fail. */
static bool is_down(const redisReply *reply) {
    return reply && reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "CLUSTERDOWN", 11) == 0;
}

void real_fleet_move_key(real_fleet *f, const char *key) {
    if (slot_of(key) != f->slot)
        real_fleet_fail("%s: its slot isn't open", key);
    const int64_t start_ms = clock_ms();
    redisReply *reply = migrate(f, key, "");
    while (is_down(reply)) {
        freeReplyObject(reply);
        real_fleet_nap(f, start_ms, "the cluster is up again");
        reply = migrate(f, key, "");
    }
    if (is_double(reply)) {
        f->doubles++;
        freeReplyObject(reply);
        reply = migrate(f, key, " REPLACE");
    }
    if ((!reply || reply->type == REDIS_REPLY_ERROR) && another_has_taken_over(f))
        freeReplyObject(reply);
    else
        real_node_must(f->slot_from, reply);
}

int real_fleet_doubles(const real_fleet *f) {
    return f->doubles;
}

static bool move_some(real_fleet *f) {
    redisReply *keys = real_redis_command(f->slot_from->redis, "CLUSTER GETKEYSINSLOT %d 100",
                                          f->slot);
    size_t n = keys && keys->type == REDIS_REPLY_ARRAY ? keys->elements : 0;
    for (size_t i = 0; i < n; i++)
        real_fleet_move_key(f, keys->element[i]->str);
    freeReplyObject(keys);
    return n > 0;
}

/* Does every running node say that it is served by whom it was moved to? */
static bool is_moved(real_fleet *f) {
    for (int i = 0; i < f->servers; i++) {
        redisReply *nodes = real_node_ask(&f->node[i], "CLUSTER NODES");
        line l;
        bool says = says_of(nodes, f->slot_to->id, &l) && has_slot(&l, f->slot);
        freeReplyObject(nodes);
        if (!says && real_node_is_running(&f->node[i]))
            return false;
    }
    return true;
}

/* With the latest epoch. */
static void claim(const real_fleet *f) {
    say_closed(f, f->slot, f->slot_to);
    freeReplyObject(real_redis_command(f->slot_to->redis, "CLUSTER BUMPEPOCH"));
    freeReplyObject(real_redis_command(f->slot_to->redis, "CLUSTER SETSLOT %d NODE %s", f->slot,
                                       f->slot_to->id));
}

/* On a busy machine a replica of the former owner may have been promoted meanwhile, by a later epoch than the one that the
 * new owner claims the slot with: then it claims it anew. */
static void await_moved(real_fleet *f) {
    const int64_t start_ms = clock_ms();
    int64_t told_ms = start_ms;
    while (!is_moved(f)) {
        real_fleet_nap(f, start_ms, "all know who has the slot");
        if (clock_ms() - told_ms < CLAIM_MS)
            continue;
        told_ms = clock_ms();
        claim(f);
    }
}

/* The new owner is told first: then nobody sends anybody back to the former, who may have changed meanwhile. */
void real_fleet_close_slot(real_fleet *f) {
    if (f->slot < 0 || !owner_of(f, f->slot))
        real_fleet_fail("no slot is open, or nobody has it");
    const bool moves = owner_of(f, f->slot) != f->slot_to;
    if (moves)
        (void)another_has_taken_over(f);
    while (moves && move_some(f)) {}
    REAL_NODE_MUST(f->slot_to, "CLUSTER SETSLOT %d NODE %s", f->slot, f->slot_to->id);
    if (moves)
        REAL_NODE_MUST(f->slot_from, "CLUSTER SETSLOT %d NODE %s", f->slot, f->slot_to->id);
    await_moved(f);
    f->closed = f->slot;
    f->slot = -1;
}

/* ---- a failover ------------------------------------------------------------------------------ */

/* Does every running node say that it is a master? */
static bool is_promoted(real_fleet *f, const real_node *replica) {
    bool all = true;
    for (int i = 0; i < f->servers; i++) {
        redisReply *nodes = real_node_ask(&f->node[i], "CLUSTER NODES");
        line l;
        all = all && (!real_node_is_running(&f->node[i]) ||
                      (says_of(nodes, replica->id, &l) && is_master(&l) && l.slots[0] == ' '));
        freeReplyObject(nodes);
    }
    return all;
}

void real_fleet_promote(real_fleet *f, real_node *replica) {
    const int64_t start_ms = clock_ms();
    while (!is_promoted(f, replica)) {
        if (!real_node_is_master(replica)) /* one that came to nothing is begun again */
            freeReplyObject(real_redis_command(replica->redis, "CLUSTER FAILOVER"));
        real_fleet_nap(f, start_ms, "CLUSTER FAILOVER has an end");
    }
}

int64_t real_fleet_await_owner(real_fleet *f, const char *key, const real_node *former) {
    const int64_t start_ms = clock_ms();
    real_node *now;
    while (!(now = real_fleet_owner(f, key)) || now == former)
        real_fleet_nap(f, start_ms, "another has the slot");
    return clock_ms() - start_ms;
}
