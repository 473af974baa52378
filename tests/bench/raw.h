/*
 * The limit: the very commands of a pair of ours, made in advance, so many pairs on their way at a time over
 * one connection, by a thread that does nothing else but compare the replies with those that it expects.
 */
#pragma once

#include "bench.h"
#include "wire/script.h"

#define RAW_MOST 256 /* pairs on their way */

typedef struct raw raw;

/** Have the server know one of the library's scripts. */
void raw_load(redisContext *c, tl_script script);

/** Connects by the way of the regime, and has `depth` keys of its own. */
raw *raw_open(regime r, int depth);
void raw_close(raw *w);
/** A contender's run: ctx is the raw. It spins where it has a core to itself. */
uint64_t raw_run(void *ctx, int64_t until_ns, meter *m);
