/*
 * Pipelining by hand: the commands of a pair of ours, written and read by hiredis as its manual shows, so many pairs on
 * their way at a time over one connection. Unlike the limit (raw.h) it makes each command when it sends it.
 */
#pragma once

#include "bench.h"

#define HAND_MOST 256 /* pairs on their way */

typedef struct hand hand;

/** Has `depth` keys of its own. */
hand *hand_open(int depth);
void hand_close(hand *h);
/** A contender's run: ctx is the hand. */
uint64_t hand_run(void *ctx, int64_t until_ns, meter *m);
