/*
 * The machine that looks at a lock of a majority: it asks all servers, and reports what a majority of them
 * holds.
 */
#pragma once

#include "protocol/ask.h"
#include "protocol/quorum.h"

typedef struct {
    tl_result result;  /**< OK, or EUNAVAILABLE, EUNCERTAIN, EDENIED, ESERVER */
    tl_lock_info info; /**< OK */
    unsigned votes;    /**< OK, held: the number of servers that hold K for the holder */
    tl_ask ask[TL_QUORUM_MAX];
    uint8_t count, next;
    uint8_t answered, failed; /**< a bit for each server */
    char message[TL_MESSAGE_SIZE];
    int sys_errno;
} tl_quorum_look;

/** ask: from tl__ask_init, with the other members set as needed. */
void tl__quorum_look_init(tl_quorum_look *look, const tl_ask *ask, unsigned count);

tl_status tl__quorum_look_step(void *machine, const tl_event *event, tl_out *out);
