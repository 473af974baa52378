/*
 * The machine behind tl_client_ping and tl_client_look: reach the server, ask, read the answer. What a redirection or
 * a failover has left without one is asked again.
 */
#pragma once

#include <tidelock/inspect.h>

#include "protocol/protocol.h"

typedef struct {
    tl_result result;      /**< OK, or EUNAVAILABLE, EUNCERTAIN, EDENIED, ESERVER */
    tl_bytes key, sidecar; /**< key.n 0: ask for the TIME only */
    tl_lock_info info;
    int64_t attempt_ms, connect_ms;
    tl_mono limit;            /**< of both together, however often it is asked */
    const tl_legacy *legacy;  /**< see tl__look_fill */
    tl_waiting_fn on_waiting; /**< of so many in line at most; 0: of none */
    void *ctx;
    uint32_t most;
    uint16_t ticket;
    bool may_get; /**< if the server has no EVAL, GET will do */
    bool plain;   /**< GET at once */
    bool asking;  /**< the question goes where a redirection of the kind TL_ASK has led */
    uint8_t hops; /**< redirections so far, and connections that were lost */
} tl_ask;

void tl__ask_init(tl_ask *ask, tl_bytes key, tl_bytes sidecar, int64_t attempt_ms,
                  int64_t connect_ms);

tl_status tl__ask_step(void *machine, const tl_event *event, tl_out *out);
