/*
 * The inside of a client: its options, its node, the local queue, and the keeper (the renewal thread).
 *
 * Lock order: a share's mutex, keeper.mutex, client.mutex, gate.mutex, keeper.posts_mutex, leases.mutex, a
 * waiter's mutex. No mutex is held while blocking. None is held during a callback of the program, except
 * `log` and a retry's `next`: these two must not call the library.
 */
#pragma once

#include <stdatomic.h>

#include "client/counts.h"
#include "client/disruption.h"
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

/** A caller that waits, as other threads see it. */
typedef struct tl_waiter {
    tl_listener listener;
    atomic_uint flags; /**< TL_WAKE_ bits that were posted and that the owner has not taken yet */
    int fd;            /**< an eventfd: wakes an owner that polls a connection as well */
    tl_mutex mutex;
    tl_cond posted; /**< wakes an owner that sleeps */
    bool sleeps;
    struct tl_waiter *next; /**< in the pool */
} tl_waiter;

struct tl_client {
    tl_secret secret;   /**< the password of all its servers; its Sentinels have their own */
    tl_tls_files files; /**< for all its servers and Sentinels */
    const struct tl_backend *backend;
    tl_fleet fleet;
    tl_node node;
    tl_members *members;        /**< the members of an etcd; NULL: the servers are no etcd */
    tl_leases leases;           /**< spare leases on etcd */
    struct tl_lookups *lookups; /**< lookups of host names, for all its connections */
    const tl_protocol *protocol;
    int64_t attempt_ms, connect_ms, quiet_ms;
    int32_t drift_ppm, wait_replicas, wait_replicas_ms;
    bool wait_fsync;
    tl_legacy legacy; /**< its dialect is a copy that the client frees, its namespaces NULL */
    void *upkeep;     /**< the state of protocol->upkeep; NULL: none */
    void (*log)(tl_log_level level, const char *line, void *ctx);
    void *log_ctx;
    bool trace; /**< each step is logged */
    char owner[TL_OWNER_SIZE];
    uint16_t owner_n;
    tl_disruptions disruptions;
    const volatile unsigned char *here; /**< a page that reads 0 in a forked child */
    atomic_uint spinning;               /**< callers that wait for a reply without sleeping */
    unsigned crowd; /**< from this many callers at once on, those that come share connections */

    tl_mutex mutex; /**< guards what follows, and the nodes */
    tl_random random;
    tl_waiter *waiters; /**< idle ones */

    _Atomic int64_t warned_ns; /**< when clock_off was logged last */

    atomic_uint callers; /**< locks with on_event: they may call a function of the program */
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

/** Log a warning, such as that a clock is too far off; at most one in 60 s is logged. */
void tl__client_warn(tl_client *client, const char *message, tl_mono now);

/** A seed for jitter. Copies of a process, started from an image of its memory, share seeds: never tokens. */
uint64_t tl__client_seed(tl_client *client);

/** NULL: no memory or descriptors. */
tl_waiter *tl__waiter_take(tl_client *client);
void tl__waiter_give(tl_client *client, tl_waiter *waiter);
/** Set bits and wake the owner. Any thread, whatever mutex it holds, until the owner gives the waiter
 *  back. */
void tl__waiter_post(tl_waiter *waiter, unsigned flags);
/** For the owner: return the posted bits and clear them. */
unsigned tl__waiter_posts(tl_waiter *waiter);
/** Sleep until bits are posted, or until `until`. waiter NULL: nobody posts any. state NULL: the
 *  thread is not cancelled. Else there is a waiter, and `state` says whether the thread may be
 *  cancelled while it sleeps (ground/cancel). */
void tl__waiter_await(tl_waiter *waiter, tl_mono until, const int *state);

/** Free all idle waiters. */
void tl__waiters_free(tl_client *client);

void tl__log(tl_client *client, tl_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
