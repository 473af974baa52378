/*
 * The one way in which a machine is run, by a caller that blocks (driver) and by the renewal thread
 * (keeper): it is given an event; what it has learned of the server is kept for all; and it is
 * listened for what it wants to hear. The two differ in who waits, and on which connection it asks.
 */
#ifndef TL_RUN_H
#define TL_RUN_H

#include "client/client.h"

/** A machine, and for whom it runs. */
typedef struct {
    tl_client *client;
    const tl_machine *machine;
    tl_listener *listener; /**< for its topic; NULL: it never listens */
    bool in;               /**< the keeper's mutex is held */
} tl_run;

/** One step. `event` lacks its server; `out` is cleared first. */
tl_status tl__run_step(const tl_run *run, const tl_event *event, tl_out *out);

/** What an answer is to a machine. That the server has answered is noted. */
tl_event tl__run_answered(tl_client *client, const tl_answer *answer);

/** What a request that can't even be queued is to it; `why` as tl__conn_send tells. */
tl_event tl__run_refused(const tl_send *send, tl_err why, tl_mono now);

/** The next of the events that posted bits stand for, which are taken out. false: there is none. */
bool tl__run_posted(unsigned *flags, tl_event *ret);

#endif
