/*
 * Faults of a cluster. Each begins with one that is whole (real_fleet_mend).
 */
#include "cluster_faults.h"

#include <stdio.h>
#include <stdlib.h>

#include "clock_wait.h"
#include "contest.h"
#include "real_fleet_inside.h"
#include "wire/keys.h"

#define ENOUGH 5 /* are counted while a fault lasts that stops nobody */
#define OPEN_MS clock_patient_ms(3000)
#define NAME_SIZE 80

static void go_on(void) {
    const int counted = contest_counted();
    WAIT_FOR(6 * SOON_MS, contest_counted() > counted + ENOUGH);
}

static real_node *owner(real_fleet *f, const char *key) {
    real_node *node = real_fleet_owner(f, key);
    if (!node)
        real_fleet_fail("%s: nobody has its slot", key);
    return node;
}

/* A master that isn't the owner. */
static real_node *another(real_fleet *f, const char *key) {
    const real_node *mine = owner(f, key);
    real_node *other[REAL_NODES_MAX];
    int n = 0;
    for (int i = 0; i < real_fleet_servers(f); i++)
        if (real_fleet_server(f, i) != mine && real_fleet_replica(f, real_fleet_server(f, i)))
            other[n++] = real_fleet_server(f, i);
    if (n == 0)
        real_fleet_fail("there is no other master");
    return other[random() % n];
}

/* ---- masters --------------------------------------------------------------------------------- */

static void graceful(real_fleet *f, const char *key) {
    real_fleet_promote(f, real_fleet_replica(f, owner(f, key)));
}

static void there_and_back(real_fleet *f, const char *key) {
    real_node *former = owner(f, key);
    real_fleet_promote(f, real_fleet_replica(f, former));
    go_on();
    real_fleet_mend(f); /* it follows */
    real_fleet_promote(f, former);
}

static void killed(real_fleet *f, const char *key) {
    real_node *former = owner(f, key);
    real_redis_kill(former->redis);
    (void)real_fleet_await_owner(f, key, former);
    real_fleet_restart(f, former);
}

/* Without its data, and perhaps before another takes over. */
static void restarted(real_fleet *f, const char *key) {
    real_fleet_restart(f, owner(f, key));
}

static void other_killed(real_fleet *f, const char *key) {
    real_node *one = another(f, key);
    real_redis_kill(one->redis);
    go_on();
    real_fleet_restart(f, one);
}

static void replica_killed(real_fleet *f, const char *key) {
    real_node *one = real_fleet_replica(f, owner(f, key));
    real_redis_kill(one->redis);
    go_on();
    real_fleet_restart(f, one);
}

/* Not for so long that another takes over. */
static void stopped_for_a_moment(real_fleet *f, const char *key) {
    real_node *one = owner(f, key);
    real_redis_freeze(one->redis);
    const clock_wait wait = clock_wait_begin(300);
    while (clock_wait_more(&wait)) {}
    real_redis_thaw(one->redis);
}

/* It wakes with requests in its sockets, which it carries out and answers. */
static void stopped(real_fleet *f, const char *key) {
    real_node *former = owner(f, key);
    real_redis_freeze(former->redis);
    (void)real_fleet_await_owner(f, key, former);
    real_redis_thaw(former->redis);
}

static void at_all(real_fleet *f, const char *command) {
    for (int i = 0; i < real_fleet_servers(f); i++)
        freeReplyObject(real_redis_command(real_fleet_server(f, i)->redis, command));
}

/* ---- slots ----------------------------------------------------------------------------------- */

/* A node that still takes it for open would hear of no other owner. */
static void close_slot(real_fleet *f, const char *key) {
    char command[NAME_SIZE];
    real_fleet_close_slot(f);
    (void)snprintf(command, sizeof command, "CLUSTER SETSLOT %d STABLE",
                   (int)tl__hash_slot(tl__bytes_of(key)));
    at_all(f, command);
}

static void moved(real_fleet *f, const char *key) {
    real_fleet_open_slot(f, key, another(f, key));
    close_slot(f, key);
}

/* With all of its keys at one moment. */
static void moved_whole(real_fleet *f, const char *key) {
    real_node *to = another(f, key);
    real_fleet_begin_move(f, key, to);
    real_fleet_end_move(f, key, to);
}

/* Of each lock one key moves at a time, whichever there is, and new ones are written at both ends. */
static void left_open(real_fleet *f, const char *key) {
    static const char *const names[] = {"%s", "%s:tidelock", "%s:tidelock:line"};
    char name[NAME_SIZE];
    real_fleet_open_slot(f, key, another(f, key));
    const clock_wait wait = clock_wait_begin(OPEN_MS);
    while (clock_wait_more(&wait)) {
        (void)snprintf(name, sizeof name, names[random() % 3], key);
        real_fleet_move_key(f, name);
    }
    close_slot(f, key);
}

/* ---- connections and scripts ----------------------------------------------------------------- */

static void disconnected(real_fleet *f, const char *key) {
    (void)key;
    at_all(f, "CLIENT KILL TYPE normal SKIPME yes");
    at_all(f, "CLIENT KILL TYPE pubsub");
}

static void forgetting_scripts(real_fleet *f, const char *key) {
    (void)key;
    at_all(f, "SCRIPT FLUSH");
}

unsigned cluster_masters(real_fleet *f) {
    unsigned all = 0;
    for (int i = 0; i < real_fleet_servers(f); i++)
        all |= (unsigned)real_node_is_master(real_fleet_server(f, i)) << i;
    return all;
}

static const cluster_fault faults[] = {
    {"CLUSTER FAILOVER", graceful, CLUSTER_FORGETS_NOTHING, 1},
    {"CLUSTER FAILOVER there and back", there_and_back, CLUSTER_FORGETS_NOTHING, 0},
    {"the master stopped for a moment", stopped_for_a_moment, CLUSTER_FORGETS_NOTHING, 0},
    {"its replica killed", replica_killed, CLUSTER_FORGETS_NOTHING, 0},
    {"the slot moved", moved, CLUSTER_FORGETS_NOTHING, 0},
    {"the slot left open, its keys at two nodes", left_open, CLUSTER_FORGETS_NOTHING, 0},
    {"all connections ended", disconnected, CLUSTER_FORGETS_NOTHING, 0},
    {"SCRIPT FLUSH", forgetting_scripts, CLUSTER_FORGETS_NOTHING, 0},
    {"the master killed", killed, CLUSTER_FORGETS, 1},
    {"the master killed, and back at once, empty", restarted, CLUSTER_FORGETS, 1},
    {"the master of other slots killed", other_killed, CLUSTER_FORGETS, 1},
    {"the master stopped, and woken after the promotion", stopped, CLUSTER_ANSWERS_AFTERWARDS, 1},
    {"the slot moved at one moment", moved_whole, CLUSTER_FORGETS_NOTHING, 0}, /* the last one */
};

const cluster_fault *cluster_fault_at(const real_fleet *f, int i) {
    const int last = (int)(sizeof faults / sizeof *faults) - 1;
    return i < last || (i == last && real_fleet_moves_whole_slots(f)) ? &faults[i] : NULL;
}
