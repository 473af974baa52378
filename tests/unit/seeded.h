/*
 * Numbers of a seed, for tests that play what they draw: the same seed is the same test.
 */
#pragma once

#include <stdint.h>

static uint64_t seed_state;

static inline void seed_begin(uint64_t seed) {
    seed_state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

/* From 0 to below - 1. */
static inline int64_t draw(int64_t below) {
    seed_state ^= seed_state << 13;
    seed_state ^= seed_state >> 7;
    seed_state ^= seed_state << 17;
    return (int64_t)((seed_state >> 11) % (uint64_t)below);
}
