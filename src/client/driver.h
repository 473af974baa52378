/*
 * The blocking driver: runs a step machine on the calling thread.
 */
#pragma once

#include "client/client.h"

/** Run until TL_END or TL_DETACH, and return that; after a failure out->message has the reason. node: the
 *  first node to ask; NULL: the one that has the machine's key. shares: it may use a shared connection, so
 *  that steps may run on other waiting threads; its sends have no tl_pin. */
tl_status tl__drive(tl_client *client, tl_node *node, const tl_machine *machine, bool shares,
                    tl_out *out);

/** For a thread that may be cancelled (pthread_cancel) while it waits. Then the machine gets TL_CANCEL and
 *  runs to its end, `end` is called with ctx and its status, and the thread ends. `state`: the thread's
 *  cancellation state before the call (ground/cancel). */
typedef struct {
    int state;
    void (*end)(void *ctx, tl_status status);
    void *ctx;
} tl_on_cancel;

/** The same, for a caller that may be cancelled and that other threads wake through `waiter`. */
tl_status tl__drive_cancellable(tl_client *client, const tl_machine *machine, tl_waiter *waiter,
                                bool shares, const tl_on_cancel *on_cancel, tl_out *out);

/** Run a machine that asks one question, at `node`; NULL: the node that has the key, or without a key the
 *  client's first. `state` begins with its tl_result. Returns the result's code, with "what: why" in err. */
tl_err tl__inquire(tl_client *client, tl_node *node, tl_bytes key, void *state, tl_step step,
                   const char *what, tl_error *err);
