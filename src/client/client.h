/*
 * What a client is inside: options, its node, the local queue, and the keeper. Lock order: a share's mutex,
 * keeper.mutex, client.mutex, gate.mutex, keeper.posts_mutex, that of leases, a waiter's mutex; none is held while blocking or during
 * a callback of the caller's, but log and a retry's next, which may not call back.
 */
#pragma once

#include <stdatomic.h>

#include "client/counts.h"
#include "client/fleet.h"
#include "client/gate.h"
#include "client/keeper.h"
#include "client/leases.h"
#include "client/node.h"
#include "ground/thread.h"
#include "protocol/protocol.h"

#define TL_CROWD 8
#define TL_KEY_SHOWN 64 /**< bytes of a key in a message */
#define TL_KEY_SHOWN_SIZE (TL_KEY_SHOWN + sizeof "...")
#define TL_OWNER_SIZE 352 /**< "host pid service" */

/** A caller that waits, seen from other threads. */
typedef struct tl_waiter {
    tl_listener listener;
    atomic_uint flags; /**< what has been posted and not been looked at */
    int fd;            /**< an eventfd, for one that polls a connection, too */
    tl_mutex mutex;
    tl_cond posted; /**< for one that sleeps */
    bool sleeps;
    struct tl_waiter *next; /**< in the pool */
} tl_waiter;

struct tl_client {
    tl_secret secret;   /**< the password at all of its servers; its Sentinels have another */
    tl_tls_files files; /**< of all, Sentinels among them */
    const struct tl_backend *backend;
    tl_fleet fleet;
    tl_node node;
    tl_members *members;        /**< of an etcd; NULL: it is no etcd */
    tl_leases leases;           /**< of that */
    struct tl_lookups *lookups; /**< of names, by all its connections */
    const tl_protocol *protocol;
    int64_t attempt_ms, connect_ms, quiet_ms;
    int32_t drift_ppm, wait_replicas, wait_replicas_ms;
    bool wait_fsync;
    tl_legacy legacy; /**< its dialect is our own copy, its namespaces NULL */
    void *upkeep;     /**< of protocol->upkeep; NULL: none */
    void (*log)(tl_log_level level, const char *line, void *ctx);
    void *log_ctx;
    bool trace; /**< each step is logged */
    char owner[TL_OWNER_SIZE];
    uint16_t owner_n;
    const volatile unsigned char *here; /**< a page that reads 0 in a forked child */
    atomic_uint spinning;               /**< callers that wait for an answer without sleeping */
    unsigned
        crowd; /**< where so many callers ask at a time, who comes then shares a connection with others */

    tl_mutex mutex; /**< for what follows, and for nodes */
    tl_random random;
    tl_waiter *waiters; /**< idle ones */

    _Atomic int64_t warned_ns; /**< when clock_off was logged last */

    atomic_uint
        callers; /**< of functions of the caller's: operations that go on by themselves, locks with events */
    tl_gate gate;
    tl_keeper keeper;
    tl_counts counts;
};

/** May this process use the client? False in a forked child. */
static inline bool tl__client_is_here(const tl_client *client) {
    return client->here[0] != 0;
}

/** The node that has the key, as far as is known. */
static inline tl_node *tl__fleet_node(tl_client *client, tl_bytes key) {
    return client->fleet.row->node_of(&client->fleet, key);
}

/** A clock is too far off, or a server is no other: say so, but not too often. */
void tl__client_warn(tl_client *client, const char *message, tl_mono now);

/** A fresh token; a number as unique, where a key is named by one; a seed for jitter, which copies of the process share. */
tl_token tl__client_token(tl_client *client);
uint64_t tl__client_number(tl_client *client);
uint64_t tl__client_seed(tl_client *client);

/** NULL: no memory or descriptors. */
tl_waiter *tl__waiter_take(tl_client *client);
void tl__waiter_give(tl_client *client, tl_waiter *waiter);
/** Set bits and wake its owner. Any thread, while it is taken, whatever else it holds. */
void tl__waiter_post(tl_waiter *waiter, unsigned flags);
/** For its owner: take the bits. */
unsigned tl__waiter_posts(tl_waiter *waiter);
/** Sleep until bits are posted, or that long. waiter: NULL: nobody posts any. state: NULL, or where there is a waiter:
 *  meanwhile the thread may be cancelled, if that says so (ground/cancel). */
void tl__waiter_await(tl_waiter *waiter, tl_mono until, const int *state);

/** All that are idle. */
void tl__waiters_free(tl_client *client);

void tl__log(tl_client *client, tl_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
