/*
 * Options that let a lock rest: it is released, and stays taken for a while.
 */
#pragma once

#include "base/tool.h"

#define REST_NOT_GIVEN (-1)

/** Is it a time for which a lock can rest, or not given? option: for messages, "run: --once-per". Returns 0, or the exit status
 *  after a message. */
int rest_check(const char *option, int64_t ms);

/** A lock could not be made; with will_rest_ms perhaps since it can't rest: then the message names the option.
 *  Returns the exit status after a message. */
int rest_fail(const char *option, const tl_error *err);

/** Does a wait end as soon as the lock rests? */
bool rest_ends_wait(const server *where);
