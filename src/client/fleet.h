/*
 * The servers of a client: which of them has a key, and how the client finds out. A row for each kind of URL.
 *
 * The keeper's thread drives a fleet, under its mutex, beside its own connections.
 */
#pragma once

#include "client/node.h"
#include "ground/wait.h"
#include "protocol/quorum.h"

#define TL_FLEET_FDS 64
/** Nodes of a cluster that a client knows at a time, including former ones that are still used. */
#define TL_NODES_MAX 2048

struct tl_fleet;

typedef struct {
    /** NULL: there is never anything to do. fds: the descriptors to poll, at most TL_FLEET_FDS; returns how
     *  many. until: when to drive even if none is ready. drive: do what can be done now, without blocking. */
    unsigned (*fds)(const struct tl_fleet *fleet, struct pollfd *ret);
    tl_mono (*until)(const struct tl_fleet *fleet);
    void (*drive)(struct tl_fleet *fleet, tl_mono now);
    /** Free the state; nobody uses the fleet any more. NULL: there is nothing to free. */
    void (*end)(struct tl_fleet *fleet);
    /* Any thread may call what follows. */
    /** The node that has the key, as far as is known. Independent servers all have it: then the first one. */
    tl_node *(*node_of)(const struct tl_fleet *fleet, tl_bytes key);
    /** Learn from a redirection that `node` has sent. Returns the node that an ASK names, or NULL. The
     *  function is NULL where no node redirects. */
    tl_node *(*redirected)(struct tl_fleet *fleet, tl_node *node, const tl_redirect *redirect);
    /** The next node that has keys, from number *from on; *from becomes its number. NULL: there is no more. A
     *  number is below TL_NODES_MAX; once its node is forgotten another node may get it. */
    tl_node *(*next)(struct tl_fleet *fleet, unsigned *from);
    /** How many connections callers may have to each node. NULL: TL_POOLED_MAX */
    unsigned (*pooled)(const struct tl_fleet *fleet);
} tl_fleet_row;

typedef struct tl_fleet {
    const tl_fleet_row *row;
    void *state;
    int wake;         /**< the keeper's eventfd, which wakes its thread */
    unsigned servers; /**< how many independent servers, of which a majority counts; else 1 */
    tl_node *server[TL_QUORUM_MAX]; /**< the first is the client's own node */
} tl_fleet;

/** A fleet of one server; a fleet begins as that before it is opened as another kind. */
void tl__fleet_init(tl_fleet *fleet, tl_node *node);
/* node_of and next, for rows where fleet->server[] never changes. */
tl_node *tl__fleet_first(const tl_fleet *fleet, tl_bytes key);
tl_node *tl__fleet_server(tl_fleet *fleet, unsigned *from);

/** For a URL that names Sentinels. The caller sets fleet->wake later. TL_ENOMEM, TL_EINVALID */
tl_err tl__fleet_open_sentinels(tl_fleet *fleet, tl_node *node, const tl_seeds *seeds,
                                const tl_client_options *options, tl_error *err);

/** The same for a URL that names nodes of a cluster. */
tl_err tl__fleet_open_cluster(tl_fleet *fleet, tl_node *node, const tl_seeds *seeds,
                              const tl_client_options *options, tl_error *err);

/** The same for a URL that names independent servers. */
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
