/*
 * Several private servers for a test: a master with replicas and Sentinels, a Redis Cluster, or servers that know
 * nothing of each other. As of real_redis.h, they die with the test program, whichever way that ends, and what can't be
 * had ends it; a test without a redis-server is skipped.
 *
 * With gates each process is reached through a proxy of its own, by the others and by clients: it announces
 * the gate's address. Then any of them can be parted from the rest, and `gate` has the faults of proxy.h. Without,
 * they are reached directly. The test itself asks a process by real_redis_command, which passes no gate.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proxy.h"
#include "real_redis.h"

#define REAL_FLEET_NAME "main" /**< of the master, for Sentinels */

typedef struct real_fleet real_fleet;

/** A process. It is killed, stopped and continued by real_redis_kill, _freeze and _thaw of `redis`. */
typedef struct {
    real_redis *redis;
    proxy *gate; /**< NULL without gates */
    proxy *bus;  /**< a cluster's: what other nodes come through */
    bool is_sentinel;
    int port;    /**< of 127.0.0.1, as it is announced */
    char id[41]; /**< a cluster's: what it is called there */
    int from;    /**< with gates: it connects to others from 127.0.0.FROM */
    int side;    /**< see real_fleet_part */
} real_node;

/** 0 and NULL stand for what is said in brackets. */
typedef struct {
    int sentinels; /**< [3] */
    int masters;   /**< of a cluster [3] */
    int replicas;  /**< of each master; negative: none [2; of a cluster 1] */
    bool gates;    /**< [none] */
    bool tls;      /**< everybody speaks TLS; real_redis_ca signs [plain] */
    bool persist;  /**< as of real_redis_options */
    int down_ms; /**< after so long a process is held to be down: down-after-milliseconds, for each
                          further Sentinel 100 more, or cluster-node-timeout [1000] */
    int failover_ms;                          /**< failover-timeout of Sentinels [2000] */
    const char *password, *sentinel_password; /**< of the servers, of the Sentinels [none] */
    const char *config; /**< further lines for each server's redis.conf [none] */
} real_fleet_options;

/* ---- life ------------------------------------------------------------------------------------ */

/** Server 0 is the master, the others its replicas, all linked; each Sentinel knows all. From the main thread, as
 *  the following. `options` may be NULL. */
real_fleet *real_fleet_start_sentinels(const real_fleet_options *options);
/** The first servers are the masters, each with an equal share of the slots; the replicas follow, in the masters' order,
 *  round by round. All of them say that it is well. */
real_fleet *real_fleet_start_cluster(const real_fleet_options *options);
real_fleet *real_fleet_start_servers(int count, const real_fleet_options *options);

/** Kill all, and remove their directories. NULL is fine. At exit it is done by real_redis. */
void real_fleet_free(real_fleet *f);

int real_fleet_servers(const real_fleet *f);   /**< how many, masters and replicas */
int real_fleet_sentinels(const real_fleet *f); /**< how many; 0 of other kinds */
real_node *real_fleet_server(real_fleet *f, int i);
real_node *real_fleet_sentinel(real_fleet *f, int i);
/** redis+sentinel://, redis+cluster:// or redis+quorum://, as announced, with the servers' password; rediss+… with TLS. */
const char *real_fleet_url(const real_fleet *f);

/** Kill it if need be, and start it again in its place; answering on return. */
void real_fleet_restart(real_fleet *f, real_node *node);

/** Is everybody there, and knows and follows whom it should? Servers without links: whether they answer. */
bool real_fleet_is_whole(real_fleet *f);
/** End what a test has done: continue, restart, heal and join all; on return it is whole. */
void real_fleet_mend(real_fleet *f);
/** The same, and every server is emptied. */
void real_fleet_heal(real_fleet *f);

/* ---- sides ----------------------------------------------------------------------------------- */

#define REAL_FLEET_SIDES 8   /**< 0 to 7 */
#define REAL_FLEET_BOTH (-1) /**< of clients only: nothing keeps them apart from anybody */

/** With gates. All processes are on side 0 at first, clients on both. Between two sides nothing gets through, what is sent
 *  waits until they are joined again; connections stay open and new ones seem to open, as behind a network that
 *  has fallen silent. A server and its replica, a Sentinel and another, are parted as well as from clients. */
void real_fleet_part(real_fleet *f, real_node *node, int side);
void real_fleet_part_clients(real_fleet *f, int side);
/** What this process connects from now on is on that side, whatever is said of clients; REAL_FLEET_BOTH: it goes with them.
 *  For a forked child, so that clients are on both sides. */
void real_fleet_stand_on(int side);
/** All on one side again. */
void real_fleet_join(real_fleet *f);

/* ---- Sentinels ------------------------------------------------------------------------------- */

/** Whom more than half of all Sentinels name, of those that run, and who says himself that he is a master. NULL: nobody. */
real_node *real_fleet_master(real_fleet *f);
/** Does each Sentinel name it? All of them run. */
bool real_fleet_all_name(real_fleet *f, const real_node *master);

/** Wait until that is another than this one; how long it took, in ms. It ends the program after 240 s, as all that is waited for
 *  here. */
int64_t real_fleet_await_master(real_fleet *f, const real_node *former);

/** SENTINEL FAILOVER, with everybody well: on return another is the master. */
void real_fleet_switch(real_fleet *f);

/* ---- a cluster ------------------------------------------------------------------------------- */

/** The running node that says that it serves the key's slot; of several the one of the latest epoch. NULL: none says so. */
real_node *real_fleet_owner(real_fleet *f, const char *key);
/** Wait until that is another than this one; how long it took, in ms. */
int64_t real_fleet_await_owner(real_fleet *f, const char *key, const real_node *former);
/** A running replica that follows it. NULL: none does. */
real_node *real_fleet_replica(real_fleet *f, const real_node *master);

/** Begin to move the key's slot to a master which isn't its owner: from now on it is open at both ends. One at a time. */
void real_fleet_open_slot(real_fleet *f, const char *key, real_node *to);
/** Of the open slot: move this key, in place of one that is at the other node, too. One that isn't there moves nothing. */
void real_fleet_move_key(real_fleet *f, const char *key);
int real_fleet_doubles(const real_fleet *f); /**< how many have been at both */
/** Move what is left of the open slot; on return all running nodes name its new owner. */
void real_fleet_close_slot(real_fleet *f);

/* ---- a slot that moves with all of its keys at one moment ---- */

/** Has the server that? Valkey 9.0 (CLUSTER MIGRATESLOTS), Redis 8.4 (CLUSTER MIGRATION). */
bool real_fleet_moves_whole_slots(const real_fleet *f);
/** In main(): the whole program is skipped where it has not. */
void real_fleet_need_whole_moves(void);
/** The key's slot is to move to this master: the servers begin. */
void real_fleet_begin_move(real_fleet *f, const char *key, real_node *to);
/** On return all running nodes name `to` as the slot's owner; a move that came to nothing is begun again. */
void real_fleet_end_move(real_fleet *f, const char *key, real_node *to);
/** A move in flight is to come to nothing. None is no error. */
void real_fleet_cancel_moves(real_fleet *f);
/** Does it, as the owner before, keep all writes waiting, and has it told the new owner to take over? */
bool real_fleet_is_handing_over(const real_node *node);
/** The servers keep writes waiting for so long at most. */
void real_fleet_set_longest_pause(real_fleet *f, int ms);
/** It takes over no slot until that is ended. Valkey takes over then, at once; Redis doesn't before a new move. The server needs
 *  "enable-debug-command yes". */
void real_fleet_hold_take_over(const real_node *node, bool hold);
bool real_fleet_takes_over_late(const real_fleet *f); /**< is it such a server: Valkey? */

/** CLUSTER FAILOVER, with both well: on return the replica is the master, and all running nodes know. */
void real_fleet_promote(real_fleet *f, real_node *replica);
