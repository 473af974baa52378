/*
 * One step of a machine. The blocking driver and the renewal thread (keeper) both use this. The machine gets
 * an event; what it learns of the server is kept for all threads; and the topics that it asks for are
 * listened to. The two differ only in the thread that waits and in the connection that is used.
 */
#pragma once

#include "client/client.h"

/** A machine, and what its step needs. */
typedef struct {
    tl_client *client;
    const tl_machine *machine;
    tl_listener *listener; /**< for its topic; NULL: it never listens */
    bool in;               /**< keeper.mutex is held */
    /** The machine asks all of several independent servers. Then `node` is the one that the event comes from,
     *  or any; `in` is true; and `listener` is an array of one for each server, or NULL. */
    bool all;
    /** The node that the event comes from. NULL: set it to the node that has the machine's key. The step's
     *  requests are built by this node's clock, and are for this node only. */
    tl_node *node;
} tl_run;

/** One step. event->server need not be set; `out` is cleared first. */
tl_status tl__run_step(tl_run *run, const tl_event *event, tl_out *out);

/** For several independent servers: log a warning if their clocks are too far apart to agree on
 *  fencing numbers. */
void tl__run_compare_clocks(tl_client *client, const tl_server *all, tl_mono now);

/** Turn the answer of *node to a request into a machine's event, and note that the node has answered. If the
 *  answer redirects, the fleet learns that, and *node becomes the node to ask instead; NULL: the one that has
 *  the machine's key. alone: tl_send.alone of the request. */
tl_event tl__run_answered(tl_node **node, const tl_answer *answer, bool alone);

/** The event for a request that could not even be queued; `why` is the result of tl__conn_send. */
tl_event tl__run_refused(const tl_send *send, tl_err why, tl_mono now);

/** Turn some of the posted bits into an event, and clear them. false: no bits are left. */
bool tl__run_posted(unsigned *flags, tl_event *ret);
