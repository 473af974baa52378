/*
 * The blocking driver: runs a step machine on the calling thread.
 */
#ifndef TL_DRIVER_H
#define TL_DRIVER_H

#include "client/client.h"

/** Run until TL_END or TL_DETACH, which it returns; out->words then tells of a failure. waiter: for
 *  wake-ups and cancelling; may be NULL. shares: steps may be run by other threads that wait here, and it pins no
 *  connection. */
tl_status tl__drive(tl_client *client, const tl_machine *machine, tl_waiter *waiter, bool shares,
                    tl_out *out);
/** The same, at this node to begin with; NULL: the one that has the machine's key. */
tl_status tl__drive_at(tl_client *client, tl_node *node, const tl_machine *machine,
                       tl_waiter *waiter, bool shares, tl_out *out);

#endif
