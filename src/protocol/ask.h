/*
 * The machine behind tl_client_ping and tl_client_look: it reaches the server, asks, and reads the reply. If
 * a redirection or a failover left the question without a reply, it asks again.
 */
#pragma once

#include <tidelock/inspect.h>

#include "protocol/protocol.h"

typedef struct {
    tl_result result;   /**< OK, or EUNAVAILABLE, EUNCERTAIN, EDENIED, ESERVER */
    tl_bytes key, line; /**< key.n 0: ask for the TIME only */
    tl_lock_info info;
    int64_t attempt_ms, connect_ms;
    tl_mono limit;            /**< of reaching and asking together, however often it asks */
    const tl_legacy *legacy;  /**< see tl__look_fill */
    tl_waiting_fn on_waiting; /**< called for at most `most` waiters in the queue */
    void *ctx;
    uint32_t most;
    uint16_t ticket;
    bool may_get; /**< if the server has no EVAL, it uses GET. */
    bool plain;   /**< it uses GET */
    bool asking;  /**< the question goes to the node that a redirection of the kind TL_ASK named */
    bool two; /**< the slot is being moved: ask without the queue, which may be at another node */
    uint8_t hops; /**< redirections so far, plus lost connections */
} tl_ask;

/** line: the queue's name, which begins with the sidecar's. */
void tl__ask_init(tl_ask *ask, tl_bytes key, tl_bytes line, int64_t attempt_ms, int64_t connect_ms);

tl_status tl__ask_step(void *machine, const tl_event *event, tl_out *out);
