/*
 * The limit: the very commands of a pair of ours, made in advance, so many pairs on their way at a time over
 * one connection, by a thread that does nothing else but compare the replies with those that it expects.
 */
#pragma once

#include "bench.h"
#include "wire/script.h"

#define RAW_MOST 256 /* pairs on their way */

/** Have the server know one of the library's scripts. */
void raw_load(redisContext *c, tl_script script);

/** How many pairs are on their way at a time. */
typedef struct {
    regime r;
    int depth;
} in_flight;

/** A contender's open and run: ctx is an in_flight, then the raw. It has `depth` keys of its own, and spins where it has
 *  a core to itself. */
void *raw_open(void *how);
uint64_t raw_run(void *ctx, int64_t until_ns, meter *m);
