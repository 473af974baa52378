/*
 * Slots of a cluster that go from node to node while services work: opened, some keys at either node, closed; or with all
 * keys at one moment, by every second move, where the servers can do that. Nothing here waits for long.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "legacy.h"

#define REST_US 1000000 /* a slot may be opened again L after it was moved; this is much longer */
#define WHOLE_US 3000000

/* A node's line begins with its name; those of its replicas have it, too. */
static const char *line_of(const char *nodes, const char *id) {
    const char *at = nodes ? strstr(nodes, id) : NULL;
    while (at && at > nodes && at[-1] != '\n')
        at = strstr(at + 1, id);
    return at;
}

static bool calls_master(const real_node *one, const real_node *other) {
    redisReply *nodes = real_redis_command(one->redis, "CLUSTER NODES");
    const char *line = line_of(nodes ? nodes->str : NULL, other->id);
    char flags[64] = "";
    if (line)
        (void)sscanf(line, "%*s %*s %63s", flags);
    freeReplyObject(nodes);
    return strstr(flags, "master") && !strstr(flags, "fail");
}

/* After a failover not all know at once who is a master. */
static bool all_call_master(real_fleet *f, const real_node *node) {
    for (int i = 0; i < real_fleet_servers(f); i++) {
        const real_node *one = real_fleet_server(f, i);
        if (real_redis_is_running(one->redis) && !calls_master(one, node))
            return false;
    }
    return true;
}

static real_node *another_master(real_fleet *f, const char *key, unsigned *seed) {
    real_node *owner = real_fleet_owner(f, key);
    const int n = real_fleet_servers(f), first = rand_r(seed) % n;
    for (int i = 0; owner && i < n && all_call_master(f, owner); i++) {
        real_node *node = real_fleet_server(f, (first + i) % n);
        if (node != owner && real_fleet_replica(f, node) && all_call_master(f, node))
            return node;
    }
    return NULL;
}

bool slot_mover_begin(slot_mover *m, const char *key, int64_t open_us) {
    const bool is_whole = open_us != SLOT_STAYS_OPEN && m->moves % 2 &&
                          real_fleet_moves_whole_slots(m->fleet);
    real_node *to = NULL;
    if (!m->key && shared_us() > m->next_us)
        to = another_master(m->fleet, key, &m->seed);
    if (!to)
        return false;
    (void)snprintf(m->name, sizeof m->name, "%s", key);
    m->key = m->name;
    m->to = to;
    m->is_whole = is_whole;
    m->close_us = open_us == SLOT_STAYS_OPEN ? INT64_MAX : shared_us() + open_us;
    m->moves++;
    if (is_whole)
        real_fleet_begin_move(m->fleet, key, to);
    else
        real_fleet_open_slot(m->fleet, key, to);
    if (!is_whole && m->moves % 4 == 1)
        real_fleet_move_key(m->fleet, key);
    return true;
}

void slot_mover_close(slot_mover *m) {
    m->close_us = 0;
}

/* A whole move that came to nothing is asked for again. */
static bool is_under_way(const slot_mover *m) {
    if (!m->is_whole)
        return shared_us() < m->close_us;
    return real_fleet_owner(m->fleet, m->key) != m->to && shared_us() < m->close_us + WHOLE_US;
}

bool slot_mover_rests(slot_mover *m) {
    if (!m->key)
        return true;
    if (is_under_way(m))
        return false;
    if (m->is_whole)
        real_fleet_end_move(m->fleet, m->key, m->to);
    else
        real_fleet_close_slot(m->fleet);
    m->key = NULL;
    m->next_us = shared_us() + REST_US;
    return true;
}
