/*
 * The servers of a client: who says which of them a key is on, and for how long. A row for each kind of URL.
 *
 * What there is to do is done by the keeper's thread, under its mutex, beside its own connections.
 */
#pragma once

#include "client/node.h"
#include "ground/wait.h"
#include "protocol/quorum.h"

#define TL_FLEET_FDS 64
#define TL_NODES_MAX                                                                               \
    2048 /**< nodes of a cluster that a client knows at a time, former ones that something still uses among them */

struct tl_fleet;

typedef struct {
    /** NULL: there is never anything to do. Or: what there is to wait for. At most TL_FLEET_FDS descriptors. */
    unsigned (*fds)(const struct tl_fleet *fleet, struct pollfd *ret);
    tl_mono (*until)(const struct tl_fleet *fleet);
    void (*drive)(struct tl_fleet *fleet, tl_mono now);
    /** NULL: there is nothing to free. Nobody uses it any more. */
    void (*end)(struct tl_fleet *fleet);
    /* What follows any thread may call. */
    /** Which node has the key, as far as is known. Of several independent servers each has it: the first. */
    tl_node *(*node_of)(const struct tl_fleet *fleet, tl_bytes key);
    /** NULL: no node redirects. Or: a node has answered so: learn of it. The node that an ASK has named; NULL: none. */
    tl_node *(*redirected)(struct tl_fleet *fleet, tl_node *node, const tl_redirect *redirect);
    /** The next node that has keys, from number `from` on, which is set; NULL: there is no more. A number is below TL_NODES_MAX;
     *  when its node has been forgotten another may have it. */
    tl_node *(*next)(struct tl_fleet *fleet, unsigned *from);
    /** How many connections callers may have to each of its nodes. NULL: TL_POOLED_MAX */
    unsigned (*pooled)(const struct tl_fleet *fleet);
} tl_fleet_row;

typedef struct tl_fleet {
    const tl_fleet_row *row;
    void *state;
    int wake;         /**< the keeper's */
    unsigned servers; /**< 1; or those that are independent, and of which a majority counts */
    tl_node *server[TL_QUORUM_MAX]; /**< the first is the client's own node */
} tl_fleet;

/** One server, and what a fleet is before it is opened as another kind. */
void tl__fleet_init(tl_fleet *fleet, tl_node *node);
/* For rows whose servers never change, or of which one takes another's place. */
tl_node *tl__fleet_first(const tl_fleet *fleet, tl_bytes key);
tl_node *tl__fleet_server(tl_fleet *fleet, unsigned *from);

/** Of a URL that names Sentinels: what may be set is. wake: an eventfd by which the thread is woken that drives it.
 *  TL_ENOMEM */
tl_err tl__fleet_open_sentinels(tl_fleet *fleet, tl_node *node, const tl_seeds *seeds,
                                const tl_client_options *options, tl_error *err);

/** Of a URL that names nodes of a cluster; the same. */
tl_err tl__fleet_open_cluster(tl_fleet *fleet, tl_node *node, const tl_seeds *seeds,
                              const tl_client_options *options, tl_error *err);

/** Of a URL that names independent servers; the same. */
tl_err tl__fleet_open_quorum(tl_fleet *fleet, tl_node *node, const tl_seeds *seeds,
                             const tl_client_options *options, tl_error *err);

static inline unsigned tl__fleet_fds(const tl_fleet *fleet, struct pollfd *ret) {
    return fleet->row->fds ? fleet->row->fds(fleet, ret) : 0;
}

static inline tl_mono tl__fleet_until(const tl_fleet *fleet) {
    return fleet->row->fds ? fleet->row->until(fleet) : TL_NEVER;
}

static inline void tl__fleet_drive(tl_fleet *fleet, tl_mono now) {
    if (fleet->row->fds)
        fleet->row->drive(fleet, now);
}

/** Nobody uses it any more. */
static inline void tl__fleet_end(tl_fleet *fleet) {
    if (fleet->row->end)
        fleet->row->end(fleet);
}
