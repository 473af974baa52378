/*
 * What a client is inside: options, a pool of connections for callers that block, what is known of
 * the server, the local queue, and the keeper. Lock order: a share's mutex, keeper.mutex, client.mutex, gate.mutex,
 * keeper.posts_mutex, a waiter's mutex; none is held while blocking or during a callback of the caller's, but log and a
 * retry's next, which may not call back.
 */
#ifndef TL_CLIENT_H
#define TL_CLIENT_H

#include <stdatomic.h>

#include "client/gate.h"
#include "client/keeper.h"
#include "ground/spin.h"
#include "ground/thread.h"
#include "protocol/protocol.h"
#include "transport/conn.h"

#define TL_POOLED_MAX 64 /**< connections of a client for callers that block */
#define TL_CROWD 8
#define TL_OWNER_SIZE 352 /**< "host pid service" */

/** A pooled connection; used by one caller at a time. */
typedef struct tl_pooled {
    struct tl_client *client;
    tl_conn *conn;
    tl_spin spin;
    void *user; /**< who is told what is answered; NULL in the pool */
    void (*answered)(void *user, const tl_answer *answer);
    tl_mono idle_since;
    struct tl_pooled *next;
} tl_pooled;

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
    tl_endpoint endpoint;
    const tl_protocol *protocol;
    int64_t attempt_ms, connect_ms, restart_quiet_ms;
    int32_t drift_ppm, wait_replicas, wait_replicas_ms;
    tl_legacy legacy; /**< its dialect is our own copy, its namespaces NULL */
    void *upkeep;     /**< of protocol->upkeep; NULL: none */
    void (*log)(tl_log_level level, const char *line, void *ctx);
    void *log_ctx;
    bool trace; /**< each step is logged */
    char owner[TL_OWNER_SIZE];
    const volatile unsigned char *here; /**< a page that reads 0 in a forked child */
    atomic_uint spinning;               /**< callers that wait for an answer without sleeping */
    unsigned
        crowd; /**< where so many callers ask at a time, who comes then shares a connection with others */
    atomic_uint borrowed,
        sharers;        /**< callers with a connection of their own, and with the shared one */
    atomic_bool shares; /**< they have been so many */
    _Atomic(struct tl_share *) share; /**< set once, under the mutex */

    tl_mutex mutex;       /**< for what follows */
    tl_cond pooled_freed; /**< or a waiter cancelled, who may wait for one */
    tl_server server;
    tl_random random;
    tl_pooled *pooled; /**< idle ones */
    unsigned pooled_made;
    tl_waiter *waiters; /**< idle ones */

    _Atomic int64_t warned_ns; /**< when clock_off was logged last */
    _Atomic int64_t heard_ns;  /**< when the server answered last */
    _Atomic int64_t mute_ns;   /**< since when a question is without an answer; 0: none is */

    atomic_uint
        callers; /**< of functions of the caller's: operations that go on by themselves, locks with events */
    tl_gate gate;
    tl_keeper keeper;
};

/** May this process use the client? False in a forked child. */
static inline bool tl__client_is_here(const tl_client *client) {
    return client->here[0] != 0;
}

/** What is known of the server. `now` is the present event's: the wall clock, where it is wanted, is read
 *  between that and the return, which saves a reading for each step. */
tl_server tl__client_server(tl_client *client, tl_mono now);

/** A clock is too far off: say so, but not too often. */
void tl__client_clock_off(tl_client *client, const char *words, tl_mono now);

/** What an attempt has learned of the server. */
void tl__client_level(tl_client *client, uint8_t level);

/** The server is asked: for those who wait without asking. */
void tl__client_asked(tl_client *client, tl_mono now);
/** It has answered. */
void tl__client_answered(tl_client *client, tl_mono now);
bool tl__client_heard_since(const tl_client *client, tl_mono since);
/** For how long, since then, the server has left a question without an answer; 0 when it has
 *  answered since then, or when nobody asked. */
int64_t tl__client_mute_ms(tl_client *client, tl_mono since, tl_mono now);

/** Merge a bracket; true when the server's clock stepped. */
bool tl__client_learn(tl_client *client, tl_interval bracket, tl_mono now);

/** For conn calls.up: ctx is the client. True when the server's clock stepped, or another's was seen. */
bool tl__client_up(tl_client *client, const tl_interval *bracket, int64_t uptime_us, tl_mono now);

tl_conn_limits tl__client_limits(const tl_client *client);

/** A fresh token; a seed for jitter. */
tl_token tl__client_token(tl_client *client);
uint64_t tl__client_seed(tl_client *client);

/** A connection of one's own until it is given back; NULL when none is free by then, or before the
 *  waiter (NULL: none) is cancelled, or no memory. broken: close it instead of keeping it. */
tl_pooled *tl__pool_take(tl_client *client, tl_waiter *waiter, tl_mono by);
void tl__pool_give(tl_pooled *pooled, bool broken);

/** NULL: no memory or descriptors. */
tl_waiter *tl__waiter_take(tl_client *client);
void tl__waiter_give(tl_client *client, tl_waiter *waiter);
/** Set bits and wake its owner. Any thread, while it is taken, whatever else it holds. */
void tl__waiter_post(tl_waiter *waiter, unsigned flags);
/** For its owner: its descriptor is readable. */
void tl__waiter_drain(tl_waiter *waiter);
/** For its owner: take the bits. */
unsigned tl__waiter_posts(tl_waiter *waiter);
/** Sleep until bits are posted, or that long. waiter: NULL: nobody posts any. */
void tl__waiter_await(tl_waiter *waiter, tl_mono until);

/** All that is idle; nobody borrows any more. */
void tl__pool_free(tl_client *client);

void tl__log(tl_client *client, tl_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
