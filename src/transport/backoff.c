/*
 * Pauses between attempts. Pure arithmetic: it neither waits nor reads a clock.
 */
#include "transport/backoff.h"

#include "ground/clock.h"

#define FIRST_MS 20
#define LAST_MS 1000

static uint64_t next_random(tl_backoff *backoff) {
    uint64_t z = backoff->random += UINT64_C(0x9E3779B97F4A7C15); /* splitmix64 */
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

int64_t tl__backoff_ns(tl_backoff *backoff) {
    int64_t ms = FIRST_MS;
    for (unsigned i = 0; i < backoff->failures && ms < LAST_MS; i++)
        ms *= 2;
    backoff->failures++;
    int64_t half = (ms < LAST_MS ? ms : LAST_MS) * TL_NS_PER_MS / 2;
    return half + (int64_t)(next_random(backoff) % (uint64_t)half);
}
