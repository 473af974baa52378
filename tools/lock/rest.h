/*
 * Options that let a lock rest: it is released, and stays taken for a while.
 */
#pragma once

#include "base/tool.h"

#define REST_NOT_GIVEN (-1)

/** Is it a time for which a lock can rest, or not given? option: for messages, "run: --once-per". Returns 0, or the exit status
 *  after a message. */
int rest_check(const char *option, int64_t ms);

/** Can a lock of this client with these options rest? No I/O. Returns 0, or the exit status after a message. */
int rest_probe(const char *option, tl_client *client, const char *key,
               const tl_lock_options *options);

/** Does a wait end as soon as the lock rests? */
bool rest_ends_wait(const server *where);
