/*
 * The local queue. Locks of one client on one key queue here, first come, first served: only the first of
 * them asks the server. When the first one releases its hold, the next one can get it without a request to
 * the server. Any thread; nothing here blocks.
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
    tl_mono proved;  /**< as in tl_result */
    tl_mono began;   /**< the acquire began then whose token it is */
    uint64_t fence;  /**< the present holder's; 0: the lock has none */
    unsigned passes; /**< how many more times it may pass on: as many fencing numbers are left */
    tl_mono taken;   /**< when it was acquired from the server */
    /** the latest time, us, that the server's clock could show then; 0: not known */
    int64_t taken_us;
    tl_proof proof;
    const struct tl_ballots *ballots; /**< votes of several servers (passes is 0), or NULL */
    tl_mono asked;                    /**< when its present holder began to acquire it */
    bool waited;                      /**< that acquire had to wait */
    bool handed;                      /**< another lock of this process handed it over */
} tl_hold;

/** A waiter in the local queue. */
typedef struct tl_turn {
    int64_t ttl_ms; /**< the lifetime it wants */
    bool by_hand;   /**< no renewal writes its holder at the server: the acquire has to */
    void (*on_turn)(struct tl_turn *turn); /**< it has become first; with the gate's mutex held */
    int64_t rank; /**< its rank in the server's queue, left by the lock before it; 0: none */
    bool given;   /**< `hold` was handed over: it need not ask the server */
    tl_hold hold;
} tl_turn;

/** A lock's node in the local queue. All but `key` and `hash` belongs to the gate. */
typedef struct tl_gate_node {
    tl_bytes key;
    uint32_t hash;
    enum { TL_OUTSIDE, TL_QUEUED, TL_FRONT } state;
    /** FRONT: its rank in the server's queue. Its owner sets it; the next lock gets it if
     *  this one gives up. */
    int64_t rank;
    struct tl_gate_node *next; /* QUEUED: the one behind it; FRONT: the next in its bucket */
    union {
        tl_turn *turn;              /* QUEUED */
        struct tl_gate_node *first; /* FRONT: the first one behind it */
    };
    struct tl_gate_node *last; /* FRONT: the last one behind it */
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

/** Enter, and return the new state. If no lock is first on the key: TL_FRONT. Else, if `turn` is given:
 *  TL_QUEUED. Else it stays TL_OUTSIDE. A node that has entered before keeps its state. */
int tl__gate_enter(tl_gate *gate, tl_gate_node *node, tl_turn *turn);

/** Leave the queue. false: it was not queued, since it has become first, perhaps with a hold. */
bool tl__gate_quit(tl_gate *gate, tl_gate_node *node);

/** Stop being first, without a hold to hand over; the next one becomes first. Fine for a node outside. */
void tl__gate_leave(tl_gate *gate, tl_gate_node *node);

/** For the first one, whose owner releases `hold`: hand it over to the next one, which becomes first and gets
 *  the next fencing number. false: nobody is queued; no fencing number is reserved; too little of the hold is
 *  left; it was passed on for a second already, while other processes may wait; or the server doesn't know the
 *  holder, and the next one is renewed by hand. */
bool tl__gate_pass(tl_gate *gate, tl_gate_node *node, const tl_hold *hold, tl_mono now);

/** Call `see` with the node that is first on a key, if there is one, with the gate's mutex held. */
void tl__gate_show(tl_gate *gate, tl_bytes key, void (*see)(tl_gate_node *node));

/** Is `so` true of the node that is first on this node's key? With `below`, also look at keys
 *  that begin with this key and a slash: on etcd they block it. false if there is none. `so` is
 *  called with the gate's mutex held. */
bool tl__gate_blocks(tl_gate *gate, const tl_gate_node *node, bool below,
                     bool (*so)(const tl_gate_node *front));

/** Is any lock queued behind this first one? */
bool tl__gate_has_queue(tl_gate *gate, const tl_gate_node *node);
