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
    uint16_t ticket;
    uint8_t hops; /**< redirections so far */
} tl_break;

tl_status tl__break_step(void *machine, const tl_event *event, tl_out *out);
