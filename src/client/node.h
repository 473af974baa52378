/*
 * A server that locks are kept on, as a client knows it: where it is, its clock and what it can do, whether it
 * answers, and the connections to it that callers borrow or share. Others know of it by these calls alone.
 */
#pragma once

#include <stdatomic.h>

#include "ground/spin.h"
#include "ground/thread.h"
#include "protocol/protocol.h"
#include "transport/conn.h"

#define TL_POOLED_MAX 64  /**< connections to a node for callers that block */
#define TL_POOLED_LEAST 4 /**< where there are so many nodes that all together get TL_POOLED_ALL */
#define TL_POOLED_ALL 256
#define TL_SHARES_MAX 4 /**< and of those that callers share */

struct tl_waiter;

/** A pooled connection; used by one caller at a time. */
typedef struct tl_pooled {
    struct tl_node *node;
    tl_conn *conn;
    tl_spin spin;
    void *user; /**< who is told what is answered; NULL in the pool */
    void (*answered)(void *user, const tl_answer *answer);
    tl_mono idle_since;
    struct tl_pooled *next;
} tl_pooled;

struct tl_link;

typedef struct tl_node {
    struct tl_client *client;
    _Atomic(struct tl_link *)
        link; /**< the keeper's own connections to it; NULL: none yet, or those of the first node */
    tl_endpoint
        endpoint; /**< of a server that never changes; else what all of them have in common, but of a cluster's node where
                       it is, or was last, which may change (fleet_cluster): see tl__node_face, tl__node_label */
    tl_site *site; /**< NULL: it never changes */
    atomic_uint borrowed,
        sharers;        /**< callers with a connection of their own, and with a shared one */
    atomic_bool shares; /**< they have been so many */
    atomic_uint turn;   /**< counts those who came to share: they go round */
    _Atomic(struct tl_share *) share[TL_SHARES_MAX]; /**< each set once, under the mutex */
    _Atomic int64_t heard_ns;                        /**< when the server answered last */
    _Atomic uint64_t
        run; /**< of several independent ones: which run of which server it is; 0: it isn't known */
    _Atomic int64_t mute_ns; /**< since when a question is without an answer; 0: none is */

    tl_cond pooled_freed; /**< or a waiter cancelled, who may wait for one */
    /* under client.mutex */
    tl_server server;
    tl_pooled *pooled; /**< idle ones */
    unsigned pooled_made;
} tl_node;

void tl__node_init(tl_node *node, struct tl_client *client);
/** Nobody uses it any more. */
void tl__node_end(tl_node *node);

/** For a connection to it, as long as that isn't led anywhere yet. Any thread; never changes. */
const tl_endpoint *tl__node_face(const tl_node *node);
/** May it be somewhere else by now, at another address? Any thread; never changes. */
bool tl__node_moves(const tl_node *node);
/** What it is called in messages. Any thread, whatever mutex it holds. Returns `label`. */
const char *tl__node_label(const tl_node *node, char label[TL_LABEL_SIZE]);

/* ---- what is known of it (known.c) ------------------------------------------------------------ */

/** What is known of the server. `now` is the present event's: the wall clock, where it is wanted, is read
 *  between that and the return, which saves a reading for each step. */
tl_server tl__node_server(tl_node *node, tl_mono now);

/** What an attempt has learned of the server. */
void tl__node_level(tl_node *node, uint8_t level, uint32_t generation);

/** The server is asked: for those who wait without asking. */
void tl__node_asked(tl_node *node, tl_mono now);
/** It has answered. */
void tl__node_answered(tl_node *node, tl_mono now);
bool tl__node_heard_since(const tl_node *node, tl_mono since);
/** For how long, since then, the server has left a question without an answer; 0 when it has
 *  answered since then, or when nobody asked. */
int64_t tl__node_mute_ms(tl_node *node, tl_mono since, tl_mono now);

/** Merge a bracket; true when the server's clock stepped. What one of another generation has said is nothing of
 *  this one. */
bool tl__node_learn(tl_node *node, tl_interval bracket, uint32_t generation, tl_mono now);

/** For conn calls.up, of that connection. True when the server's clock stepped, or another's was seen. */
bool tl__node_up(tl_node *node, const tl_conn *conn, const tl_interval *bracket, tl_mono now);

tl_conn_limits tl__node_limits(const tl_node *node);

/* ---- connections (pool.c) --------------------------------------------------------------------- */

/** A connection of one's own until it is given back; NULL when none is free by then, or before the
 *  waiter (NULL: none) is cancelled, or no memory. broken: close it instead of keeping it. */
tl_pooled *tl__pool_take(tl_node *node, struct tl_waiter *waiter, tl_mono by);
void tl__pool_give(tl_pooled *pooled, bool broken);
/** Close those that are idle: nobody is led there any more. With the mutex of the client held. */
void tl__pool_shrink_in(tl_node *node);

/** With client.mutex held: a waiter is cancelled, who may wait for a connection to any node. */
void tl__pool_wake(struct tl_client *client);

/** All that is idle; nobody borrows any more. */
void tl__pool_free(tl_node *node);
