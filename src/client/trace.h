/*
 * What goes on with a lock, a line for each step: what came, and what it led to. For people who look
 * for a lock that hangs; it tells no token, no password and no value that a key holds.
 */
#pragma once

#include "client/client.h"

/** A machine was given `e`, by this node where there are several, and answered `status` and `out`. Only where
 *  client->trace. */
void tl__trace_step(tl_client *client, const tl_node *node, const tl_machine *machine,
                    const tl_event *event, const tl_out *out, tl_status status);

/** What happens to a lock without a step. */
void tl__trace(tl_client *client, tl_bytes key, const char *does, const char *what);
