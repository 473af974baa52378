/*
 * A crew: threads that repeat an operation side by side for the length of a slice.
 */
#pragma once

#include "bench.h"

#define CREW_MAX 64

typedef struct {
    int size;
    void (*operation)(void *ctx); /**< once */
    void *ctx[CREW_MAX];          /**< of each thread */
    hist *hist;                   /**< gets each operation's duration; may be NULL */
} crew;

/** A contender's run: ctx is the crew. What counts is the length of the slice from a while after all are ready, and the
 *  operations that ended in it. */
uint64_t crew_run(void *ctx, int64_t until_ns, meter *m);
