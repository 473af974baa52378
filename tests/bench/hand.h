/*
 * Pipelining by hand: the commands of a pair of ours, written and read by hiredis as its manual shows, so many pairs on
 * their way at a time over one connection. Unlike the limit (raw.h) it makes each command when it sends it.
 */
#pragma once

#include "bench.h"

#define HAND_MOST 256 /* pairs on their way */

/** A contender's open and run: ctx is an in_flight (raw.h), then the hand. It has `depth` keys of its own. */
void *hand_open(void *how);
uint64_t hand_run(void *ctx, int64_t until_ns, meter *m);
