/*
 * The trace: a log line for each step of a machine, with its event and its result. It is for people who look
 * into a lock that hangs. It contains no token, no password and no value of a key.
 */
#pragma once

#include "client/client.h"

/** A machine got `event`, from this node, and returned `status` and `out`. Only if client->trace is set. */
void tl__trace_step(tl_client *client, const tl_node *node, const tl_machine *machine,
                    const tl_event *event, const tl_out *out, tl_status status);

/** Something happened to a lock without a step. */
void tl__trace(tl_client *client, tl_bytes key, const char *does, const char *what);
