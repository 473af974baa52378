/*
 * The machine behind tl_client_break: it reaches the server, and removes the lock if it is still the one that
 * was seen.
 */
#pragma once

#include <tidelock/inspect.h>

#include "protocol/protocol.h"

typedef struct {
    /** OK, EEXPIRED: nothing was there, ETAKEN: another's, EINVALID: no lock; EUNCERTAIN, EUNAVAILABLE,
     *  EDENIED, ESERVER */
    tl_result result;
    tl_bytes key, sidecar, line, who;
    tl_slot_tag slot;
    const tl_lock_info *seen; /**< the lock that was seen; NULL: remove any lock */
    int64_t attempt_ms, connect_ms;
    tl_mono by; /**< of the request, with all that follows it */
    uint16_t ticket;
    uint8_t hops; /**< redirections so far */
    /** On a server that runs no scripts, remove the lock by WATCH, MULTI and EXEC. */
    bool transacts;
} tl_break;

/** The tickets: reaching the server, the script, and the two exchanges of a transaction. */
enum { TL_BREAK_REACH = 1, TL_BREAK_SCRIPT, TL_BREAK_READS, TL_BREAK_WRITES };

/* break_watch.c, of which break.c uses these. */

/** End with what was found: 1 removed, 0 another's, -1 nothing was there, -2 no string. */
tl_status tl__break_found(tl_break *machine, int64_t status, tl_out *out);
extern const tl_needer tl__break_needer;
/** The transaction. */
tl_status tl__break_watch_send(tl_break *machine, tl_out *out);
tl_status tl__break_watch_answered(tl_break *machine, const tl_event *event, tl_out *out);

tl_status tl__break_step(void *machine, const tl_event *event, tl_out *out);
