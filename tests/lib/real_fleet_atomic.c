/*
 * Slots that move with all of their keys at one moment, by the commands of either family: Valkey's former owner is asked to give
 * them, Redis' new owner to take them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock_wait.h"
#include "real_fleet.h"
#include "real_fleet_inside.h"
#include "real_server.h"
#include "wire/keys.h"

#define SKIP 77
#define AGAIN_MS 3000 /* a move that has not begun or came to nothing is asked for again */

typedef enum { NEITHER, VALKEY, REDIS } family;

static family family_at(real_redis *server) {
    redisReply *help = real_redis_command(server, "CLUSTER HELP");
    family found = NEITHER;
    for (size_t i = 0; help && i < help->elements; i++) {
        if (strncmp(help->element[i]->str, "MIGRATESLOTS", strlen("MIGRATESLOTS")) == 0)
            found = VALKEY;
        if (strncmp(help->element[i]->str, "MIGRATION ", strlen("MIGRATION ")) == 0)
            found = REDIS;
    }
    freeReplyObject(help);
    return found;
}

static family family_of(const real_node *node) {
    return family_at(node->redis);
}

static real_node *running(const real_fleet *f) {
    for (int i = 0; i < f->servers; i++)
        if (real_node_is_running(&f->node[i]))
            return (real_node *)&f->node[i];
    real_fleet_fail("no server runs");
}

bool real_fleet_moves_whole_slots(const real_fleet *f) {
    return family_of(running(f)) != NEITHER;
}

void real_fleet_need_whole_moves(void) {
    real_redis *one = real_redis_start(&(real_redis_options){.cluster = true});
    const family found = family_at(one);
    real_redis_free(one);
    if (found != NEITHER)
        return;
    (void)printf("SKIP: %s moves no slot at one moment: name a Valkey 9.0 or a Redis 8.4 by "
                 "CLUSTER_SERVER=PATH\n",
                 real_server_name());
    exit(SKIP);
}

bool real_fleet_takes_over_late(const real_fleet *f) {
    return family_of(running(f)) == VALKEY;
}

/* An error says that it can't be begun yet, or has begun. */
static void ask_to_move(real_fleet *f, const char *key, const real_node *to) {
    const int slot = tl__hash_slot(tl__bytes_of(key));
    real_node *from = real_fleet_owner(f, key);
    if (!from || from == to)
        return;
    freeReplyObject(
        family_of(to) == VALKEY
            ? real_redis_command(from->redis, "CLUSTER MIGRATESLOTS SLOTSRANGE %d %d NODE %s", slot,
                                 slot, to->id)
            : real_redis_command(to->redis, "CLUSTER MIGRATION IMPORT %d %d", slot, slot));
}

void real_fleet_begin_move(real_fleet *f, const char *key, real_node *to) {
    ask_to_move(f, key, to);
}

/* Does it serve the key, or send to the node that does? */
static bool names(const real_node *node, const char *key, const real_node *owner) {
    char port[16];
    redisReply *reply = real_redis_command(node->redis, "EXISTS %s", key);
    (void)snprintf(port, sizeof port, ":%d", owner->port);
    size_t n = reply && reply->str ? strlen(reply->str) : 0;
    bool moved = reply && reply->type == REDIS_REPLY_ERROR && n > strlen(port) &&
                 strncmp(reply->str, "MOVED", 5) == 0 &&
                 strcmp(reply->str + n - strlen(port), port) == 0;
    bool serves = reply && reply->type == REDIS_REPLY_INTEGER;
    freeReplyObject(reply);
    return node == owner ? serves : moved;
}

static bool all_name(const real_fleet *f, const char *key, const real_node *owner) {
    for (int i = 0; i < f->servers; i++)
        if (real_node_is_running(&f->node[i]) && !names(&f->node[i], key, owner))
            return false;
    return true;
}

void real_fleet_end_move(real_fleet *f, const char *key, real_node *to) {
    const int64_t start_ms = clock_ms();
    int64_t asked_ms = start_ms;
    while (!all_name(f, key, to)) {
        real_fleet_nap(f, start_ms, "the slot has moved");
        if (clock_ms() - asked_ms < AGAIN_MS)
            continue;
        asked_ms = clock_ms();
        ask_to_move(f, key, to);
    }
}

void real_fleet_cancel_moves(real_fleet *f) {
    for (int i = 0; i < f->servers; i++)
        if (real_node_is_running(&f->node[i]))
            freeReplyObject(
                real_redis_command(f->node[i].redis, family_of(&f->node[i]) == VALKEY
                                                         ? "CLUSTER CANCELSLOTMIGRATIONS"
                                                         : "CLUSTER MIGRATION CANCEL ALL"));
}

/* Does any of its moves say so of its state? The reply is a list of lists of names and values. */
static bool has_state(const redisReply *moves, const char *const *states) {
    for (size_t i = 0; moves && i < moves->elements; i++)
        for (size_t k = 0; k + 1 < moves->element[i]->elements; k += 2) {
            const redisReply *const *item = (const redisReply *const *)moves->element[i]->element;
            for (const char *const *state = states; *state; state++)
                if (strcmp(item[k]->str, "state") == 0 && strcmp(item[k + 1]->str, *state) == 0)
                    return true;
        }
    return false;
}

bool real_fleet_is_handing_over(const real_node *node) {
    static const char *const states[] = {"failover-granted", "stream-eof", NULL};
    redisReply *moves = real_redis_command(node->redis, family_of(node) == VALKEY
                                                            ? "CLUSTER GETSLOTMIGRATIONS"
                                                            : "CLUSTER MIGRATION STATUS ALL");
    bool is = has_state(moves, states);
    freeReplyObject(moves);
    return is;
}

void real_fleet_set_longest_pause(real_fleet *f, int ms) {
    for (int i = 0; i < f->servers; i++) {
        const bool valkey = family_of(&f->node[i]) == VALKEY;
        REAL_NODE_MUST(&f->node[i], "CONFIG SET %s %d",
                       valkey ? "cluster-manual-failover-timeout" /* which counts twice */
                              : "cluster-slot-migration-write-pause-timeout",
                       valkey ? ms / 2 : ms);
    }
}

void real_fleet_hold_take_over(const real_node *node, bool hold) {
    if (family_of(node) == VALKEY)
        REAL_NODE_MUST(node, "DEBUG SLOTMIGRATION PREVENT-FAILOVER %d", hold);
    else
        REAL_NODE_MUST(node, "DEBUG ASM-FAILPOINT %s %s", hold ? "import-main-channel" : "",
                       hold ? "takeover" : "");
}
