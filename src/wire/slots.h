/*
 * What a cluster's node says of slots: that a key is elsewhere, and who has which. Pure; all texts stay the reply's.
 */
#pragma once

#include "wire/keys.h"
#include "wire/reply.h"

#define TL_SLOT_NODES_MAX 1000 /**< that a cluster should have, by its specification */
#define TL_NODE_NAME_MAX 255   /**< bytes of a host */
#define TL_NODE_ID_MAX 64      /**< bytes of what a node is called for good; Redis has 40 */
#define TL_NODE_OTHERS 2
#define TL_NOBODY UINT16_MAX

/** host.n is 0: the host that was asked, with this port. port is 0: it isn't known where. */
typedef struct {
    tl_bytes host;
    uint16_t port;
    /* In a map, if it tells that: */
    tl_bytes id; /**< which it keeps wherever it is; n 0: it isn't known, as before Redis 4.0 */
    tl_bytes other
        [TL_NODE_OTHERS]; /**< the same place by other names: its address, its host name; n 0: none */
} tl_slot_node;

/* ---- an error ---------------------------------------------------------------------------------- */

typedef enum {
    TL_NOT_ELSEWHERE, /**< an error of another kind */
    TL_MOVED,         /**< the node has the slot, */
    TL_ASK,           /**< or the key, or would have it: ask there once, behind ASKING */
    TL_TRY_AGAIN, /**< some keys of the request are here, some at the node that the slot is moving to */
    TL_CLUSTER_DOWN /**< nobody has the slot at present */
} tl_redirect_kind;

typedef struct {
    tl_redirect_kind kind;
    uint16_t slot;     /**< MOVED, ASK; TL_NOBODY: it isn't said */
    tl_slot_node node; /**< MOVED, ASK */
} tl_redirect;

/** What an error says of where to ask. One that begins as MOVED or ASK and goes on in any unknown way is still that, with
 *  nobody named: nothing of what was asked was done. */
tl_redirect tl__redirect_read(tl_bytes error);

/* ---- CLUSTER SLOTS ----------------------------------------------------------------------------- */

typedef struct {
    uint16_t node_of[TL_SLOTS]; /**< an index of `node`, or TL_NOBODY */
    unsigned served;            /**< slots that somebody has */
    unsigned count;
    tl_slot_node node[TL_SLOT_NODES_MAX]; /**< the masters, each once */
    unsigned replicas;
    tl_slot_node replica[TL_SLOT_NODES_MAX]; /**< theirs, those that aren't held to be down */
    uint16_t master_of[TL_SLOT_NODES_MAX];   /**< an index of `node` for each */
    bool incomplete
        [TL_SLOT_NODES_MAX]; /**< of a master: it has another, of which nobody knows where, or there was no room */
} tl_slot_map;

/** The reply of a node, whose texts must last as long as the map. A master without a known place has nothing. false: malformed, or it names
 *  more than TL_SLOT_NODES_MAX; *ret is of no use then. */
bool tl__slot_map_read(tl_slot_map *ret, const tl_reply *reply);
