/*
 * The local queue: locks of one client on one key line up here, first come first served, so that
 * only the one at the front bothers the server, and what it releases can pass to the next without
 * a request to the server. Any thread; nothing here blocks.
 */
#pragma once

#include <stdbool.h>

#include "ground/bytes.h"
#include "ground/clock.h"
#include "ground/thread.h"
#include "protocol/protocol.h"

/** A hold as it passes from one lock to the next. */
typedef struct {
    tl_token token;
    tl_mono deadline;
    uint64_t fence;  /**< the present holder's; 0: the lock has none */
    unsigned passes; /**< how often it may pass on yet: so many fencing numbers are reserved */
    tl_mono taken;   /**< from the server */
    tl_proof proof;
    const struct tl_ballots *ballots; /**< of several servers, and then passes is 0; NULL: of one */
    tl_mono asked;                    /**< when its present holder has begun to acquire it */
    bool waited;                      /**< which took more than one look */
    bool handed;                      /**< it was passed on to him within the process */
} tl_hold;

/** Whoever stands in the queue. */
typedef struct tl_turn {
    int64_t ttl_ms;                        /**< the lifetime it wants */
    void (*on_turn)(struct tl_turn *turn); /**< it is its turn; with the gate's mutex held */
    int64_t rank; /**< in line: of the one before it, which has given up; 0: none */
    bool given;   /**< with a hold: then it doesn't ask the server */
    tl_hold hold;
} tl_turn;

/** A lock's place. All but `key` and `hash` is the gate's. */
typedef struct tl_gate_node {
    tl_bytes key;
    uint32_t hash;
    enum { TL_OUTSIDE, TL_QUEUED, TL_FRONT } state;
    int64_t rank; /**< FRONT: its place in line, for whoever is next if it gives up; the owner's */
    struct tl_gate_node *next; /* QUEUED: behind it; FRONT: of the same bucket */
    union {
        tl_turn *turn;              /* QUEUED */
        struct tl_gate_node *first; /* FRONT: the queue */
    };
    struct tl_gate_node *last; /* FRONT */
} tl_gate_node;

typedef struct {
    tl_mutex mutex;
    tl_gate_node **bucket;
    size_t buckets, fronts;
} tl_gate;

/** false: out of memory. */
bool tl__gate_init(tl_gate *gate);
void tl__gate_end(tl_gate *gate);

uint32_t tl__gate_hash(tl_bytes key);

/** Go to the front when nobody is there: TL_FRONT. Otherwise stand in the queue if `turn` is given:
 *  TL_QUEUED; or stay outside. One that stands somewhere stays there. */
int tl__gate_enter(tl_gate *gate, tl_gate_node *node, tl_turn *turn);

/** Leave the queue. false: it isn't in it, but has come to the front, perhaps with a hold. */
bool tl__gate_quit(tl_gate *gate, tl_gate_node *node);

/** Leave the front, with nothing to hand on; the next comes there. Fine for one outside. */
void tl__gate_leave(tl_gate *gate, tl_gate_node *node);

/** At the front with a hold that is over for its owner: hand it to the next, who comes to the front
 *  with the next fencing number. false: nobody waits, or it has been passed on for long enough while other processes may
 *  wait, or too little of it is left. */
bool tl__gate_pass(tl_gate *gate, tl_gate_node *node, const tl_hold *hold, tl_mono now);

/** Have `see` look at the one at the front of a key, if there is one, with the gate's mutex held. */
void tl__gate_show(tl_gate *gate, tl_bytes key, void (*see)(tl_gate_node *node));

/** Is this so of the one that is at the front of this key, of whichever place? Or with `below` of one at the front of a key
 *  that is this one, a slash, and more: on etcd it is in the way. false: nobody is there. `so` is called with the gate's
 *  mutex held. */
bool tl__gate_blocks(tl_gate *gate, const tl_gate_node *node, bool below,
                     bool (*so)(const tl_gate_node *front));

/** Is anybody behind the one at the front? */
bool tl__gate_has_queue(tl_gate *gate, const tl_gate_node *node);
