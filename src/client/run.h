/*
 * The one way in which a machine is run, by a caller that blocks (driver) and by the renewal thread
 * (keeper): it is given an event; what it has learned of the server is kept for all; and it is
 * listened for what it wants to hear. The two differ in who waits, and on which connection it asks.
 */
#pragma once

#include "client/client.h"

/** A machine, and for whom it runs. */
typedef struct {
    tl_client *client;
    const tl_machine *machine;
    tl_listener *listener; /**< for its topic; NULL: it never listens */
    bool in;               /**< the keeper's mutex is held */
    bool
        all; /**< it asks all of several independent servers: node is the one that the event comes from, or any, `in` is
                   true, and there is a listener for each of them, or none */
    tl_node *
        node; /**< that the event comes from; NULL: the one that has the machine's key, which is set. Whatever the
                        step asks for is built by its clock, and for it alone */
} tl_run;

/** One step. `event` lacks its server; `out` is cleared first. */
tl_status tl__run_step(tl_run *run, const tl_event *event, tl_out *out);

/** Of several independent servers: say so if their clocks are too far apart to agree on anything. */
void tl__run_compare_clocks(tl_client *client, const tl_server *all, tl_mono now);

/** What the answer of a node is to a machine. That it has answered is noted, and where else the key is, if it says that:
 *  then *node is the one to ask instead, NULL for the one that has the machine's key. `alone`: of what was asked. */
tl_event tl__run_answered(tl_node **node, const tl_answer *answer, bool alone);

/** What a request that can't even be queued is to it; `why` as tl__conn_send tells. */
tl_event tl__run_refused(const tl_send *send, tl_err why, tl_mono now);

/** The next of the events that posted bits stand for, which are taken out. false: there is none. */
bool tl__run_posted(unsigned *flags, tl_event *ret);
