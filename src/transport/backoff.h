/*
 * How long to pause before the next attempt to connect: 20 ms, doubled with each failure up to 1 s,
 * of which the second half is left to chance, so that many clients don't come back all at once.
 */
#pragma once

#include <stdint.h>

typedef struct {
    uint64_t random; /* seeded by the owner */
    unsigned failures;
} tl_backoff;

/** Another failure: the pause that it calls for. */
int64_t tl__backoff_ns(tl_backoff *backoff);

/** A success. */
static inline void tl__backoff_reset(tl_backoff *backoff) {
    backoff->failures = 0;
}
