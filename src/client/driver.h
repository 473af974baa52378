/*
 * The blocking driver: runs a step machine on the calling thread.
 */
#pragma once

#include "client/client.h"

/** Run until TL_END or TL_DETACH, which it returns; out->words then tells of a failure. node: whom to ask to begin with;
 *  NULL: the one that has the machine's key. shares: steps may be run by other threads that wait here, and it pins no
 *  connection. */
tl_status tl__drive(tl_client *client, tl_node *node, const tl_machine *machine, bool shares,
                    tl_out *out);

/** The thread may be cancelled (pthread_cancel) while it waits: then the machine is told TL_CANCEL and run to its end, end(ctx)
 *  is called with its status, and the thread ends. `state` is what was in force before the call (ground/cancel). */
typedef struct {
    int state;
    void (*end)(void *ctx, tl_status status);
    void *ctx;
} tl_on_cancel;

/** The same for one who may be cancelled, and woken, by the waiter. */
tl_status tl__drive_cancellable(tl_client *client, const tl_machine *machine, tl_waiter *waiter,
                                bool shares, const tl_on_cancel *on_cancel, tl_out *out);

/** Run a machine that asks once: of a key, or at a node (NULL: the key's own, or the client's first). `state` begins with its
 *  tl_result. The machine's code, with "what: why" in err. */
tl_err tl__inquire(tl_client *client, tl_node *node, tl_bytes key, void *state, tl_step step,
                   const char *what, tl_error *err);
