/*
 * A node: a server that keeps locks, as a client knows it. Its address, its clock, what it can do,
 * whether it answers, and the connections to it that callers borrow or share. Other files use only these
 * functions for that.
 */
#pragma once

#include <stdatomic.h>

#include "ground/spin.h"
#include "ground/thread.h"
#include "protocol/protocol.h"
#include "transport/conn.h"

#define TL_POOLED_MAX 64  /**< connections to a node for callers that block */
#define TL_POOLED_LEAST 4 /**< the same for each of many nodes, at least */
#define TL_POOLED_ALL 256 /**< the same for all nodes, if that leaves each TL_POOLED_LEAST */
#define TL_SHARES_MAX 4   /**< connections to a node that callers share */

struct tl_waiter;

/** A pooled connection; used by one caller at a time. */
typedef struct tl_pooled {
    struct tl_node *node;
    tl_conn *conn;
    tl_spin spin;
    void *user; /**< for `answered`, which gets its replies; NULL: it is in the pool */
    void (*answered)(void *user, const tl_answer *answer);
    tl_mono idle_since;
    struct tl_pooled *next;
} tl_pooled;

struct tl_link;

typedef struct tl_node {
    struct tl_client *client;
    /** The keeper's own connections to it. NULL: there are none yet, or it is the first node. */
    _Atomic(struct tl_link *) link;
    /** Without a site: the server's. Of a cluster's node: its present or last address, which may change.
     *  Else: what all servers of the site have in common. See tl__node_face and tl__node_label. */
    tl_endpoint endpoint;
    tl_site *site; /**< where its connections lead; NULL: always to `endpoint` */
    /** Callers with a connection of their own, and callers with a shared one. */
    atomic_uint borrowed, sharers;
    atomic_bool shares; /**< there are so many callers that they share */
    atomic_uint turn;   /**< counts callers that came to share: they use the shares by turns */
    _Atomic(struct tl_share *) share[TL_SHARES_MAX]; /**< each set once, under client.mutex */
    _Atomic int64_t heard_ns;                        /**< when the server answered last */
    /** Of several independent servers: which run of which server it is; 0: not known. */
    _Atomic uint64_t run;
    _Atomic int64_t mute_ns; /**< since when a question has no reply; 0: none is open */

    tl_cond pooled_freed; /**< a connection is free, or a waiter was cancelled */
    /* Under keeper.mutex: a copy of `server`, and its `changes`. */
    tl_server seen;
    unsigned seen_changes; /**< 0: there is no copy yet */
    atomic_uint changes;   /**< of `server`; counted under client.mutex */
    /* Under client.mutex: */
    tl_server server;  /**< tl__node_changed follows each change */
    tl_pooled *pooled; /**< idle ones */
    unsigned pooled_made;
} tl_node;

void tl__node_init(tl_node *node, struct tl_client *client);
/** Nobody uses it any more. */
void tl__node_end(tl_node *node);

/** The endpoint that names a connection to it, as long as the connection leads nowhere. Any
 *  thread; never changes. */
const tl_endpoint *tl__node_face(const tl_node *node);
/** Can its address change? Any thread; the result never changes. */
bool tl__node_moves(const tl_node *node);
/** Its name in messages. Any thread, whatever mutex it holds. Returns `label`. */
const char *tl__node_label(const tl_node *node, char label[TL_LABEL_SIZE]);

/* ---- what is known of it (known.c) ------------------------------------------------------------ */

/** Returns what is known of the server, in `room`. room NULL: keeper.mutex is held, and the result is valid
 *  until the next step of a machine. `now`: the time of the present event. A protocol that needs the wall
 *  clock gets it as read between `now` and the return; that saves reading the other clock once more. */
const tl_server *tl__node_server(tl_node *node, tl_mono now, tl_server *room);
/** Count a change of node->server. With client.mutex held. */
void tl__node_changed(tl_node *node);

/** Note what an attempt has learned of the server. */
void tl__node_level(tl_node *node, uint8_t level, uint32_t generation);

/** The server is asked something. Waiters that don't ask it themselves depend on this. */
void tl__node_asked(tl_node *node, tl_mono now);
/** The server has answered. */
void tl__node_answered(tl_node *node, tl_mono now);
bool tl__node_heard_since(const tl_node *node, tl_mono since);
/** For how long since then, ms, the server has left a question without a reply. 0: it has answered since
 *  then, or nobody asked. */
int64_t tl__node_mute_ms(tl_node *node, tl_mono since, tl_mono now);

/** Merge a bracket of the server's clock. true: its clock has stepped. Of another generation:
 *  nothing happens. */
bool tl__node_learn(tl_node *node, tl_interval bracket, uint32_t generation, tl_mono now);

/** For tl_conn_calls.up of this connection. true: the server's clock has stepped, or it is another server. */
bool tl__node_up(tl_node *node, const tl_conn *conn, const tl_interval *bracket, tl_mono now);

tl_conn_limits tl__node_limits(const tl_node *node);

/* ---- connections (pool.c) --------------------------------------------------------------------- */

/** take: a connection for this caller alone, until give. Blocks until one is free. NULL: none is free by
 *  `by`, the waiter (NULL: none) is cancelled, or no memory. now: when the call began. broken: close it, don't
 *  keep it. */
tl_pooled *tl__pool_take(tl_node *node, struct tl_waiter *waiter, tl_mono by, tl_mono now);
void tl__pool_give(tl_pooled *pooled, bool broken);
/** Close the idle connections, as the node serves no keys any more. With client.mutex held. */
void tl__pool_shrink_in(tl_node *node);

/** A waiter was cancelled, and may be waiting for a connection to any node. With client.mutex held. */
void tl__pool_wake(struct tl_client *client);

/** Free all idle connections; no caller has one any more. */
void tl__pool_free(tl_node *node);
