/*
 * The pause before the next attempt to connect: 20 ms, doubled with each failure up to 1 s. The second half
 * of it is random, so that many clients don't reconnect at the same moment.
 */
#pragma once

#include <stdint.h>

typedef struct {
    uint64_t random; /* seeded by the owner */
    unsigned failures;
} tl_backoff;

/** Record a failure; returns the pause before the next attempt, in ns. */
int64_t tl__backoff_ns(tl_backoff *backoff);

/** Record a success. */
static inline void tl__backoff_reset(tl_backoff *backoff) {
    backoff->failures = 0;
}
