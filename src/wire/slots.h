/*
 * Slots of a cluster as its nodes report them: redirections, and which node has which slot. Pure; all texts
 * belong to the reply.
 */
#pragma once

#include "wire/keys.h"
#include "wire/reply.h"

#define TL_SLOT_NODES_MAX 1000 /**< the most that the cluster specification recommends */
#define TL_NODE_NAME_MAX 255   /**< bytes of a host */
#define TL_NODE_ID_MAX 64      /**< bytes of a node's permanent id; Redis uses 40 */
#define TL_NODE_OTHERS 2
#define TL_NOBODY UINT16_MAX

/** host.n 0: the host that was asked, with this port. port 0: unknown address. */
typedef struct {
    tl_bytes host;
    uint16_t port;
    /* In a map only, and only if the node reports it: */
    tl_bytes id; /**< stays the same when the address changes; n 0: unknown, as before Redis 4.0 */
    /** Other names of the same address: the numeric one, the host name; n 0: none */
    tl_bytes other[TL_NODE_OTHERS];
} tl_slot_node;

/* ---- an error ---------------------------------------------------------------------------------- */

typedef enum {
    TL_NOT_ELSEWHERE, /**< an error of another kind */
    TL_MOVED,         /**< the node has the slot */
    TL_ASK,           /**< the node has the key, or would have it: ask it once, after ASKING */
    /** Some keys of the request are here, some on the node to which the slot is being moved */
    TL_TRY_AGAIN,
    TL_CLUSTER_DOWN /**< no node has the slot at present */
} tl_redirect_kind;

typedef struct {
    tl_redirect_kind kind;
    uint16_t slot;     /**< MOVED, ASK; TL_NOBODY: not given */
    tl_slot_node node; /**< MOVED, ASK */
} tl_redirect;

/** Read a redirection from an error. One that begins with MOVED or ASK but continues in an unknown way keeps
 *  that kind, without a node: in any case nothing of the request was executed. */
tl_redirect tl__redirect_read(tl_bytes error);

/* ---- CLUSTER SLOTS ----------------------------------------------------------------------------- */

typedef struct {
    uint16_t node_of[TL_SLOTS]; /**< an index of `node`, or TL_NOBODY */
    unsigned served;            /**< slots that some node has */
    unsigned count;
    tl_slot_node node[TL_SLOT_NODES_MAX]; /**< the masters, each once */
    unsigned replicas;
    /** Their replicas, without those that the cluster considers down */
    tl_slot_node replica[TL_SLOT_NODES_MAX];
    uint16_t master_of[TL_SLOT_NODES_MAX]; /**< for each replica: an index of `node` */
    /** For each master: it has another replica, whose address is unknown or for which there was no room */
    bool incomplete[TL_SLOT_NODES_MAX];
} tl_slot_map;

/** Read a node's reply to CLUSTER SLOTS; its texts must live as long as the map. Slots of a master whose
 *  address is unknown count as unserved. false: the reply is malformed, or names more than TL_SLOT_NODES_MAX
 *  nodes; *ret is unusable then. */
bool tl__slot_map_read(tl_slot_map *ret, const tl_reply *reply);
