/*
 * The simulator's own random numbers (splitmix64): the same on every machine, no floating point.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

static inline uint64_t sim_random(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/** least .. most, both included. */
static inline int64_t sim_between(uint64_t *state, int64_t least, int64_t most) {
    if (most <= least)
        return least;
    return least + (int64_t)(sim_random(state) % (uint64_t)(most - least + 1));
}

/** The same, small ones as likely as large ones. least > 0 */
static inline int64_t sim_spread(uint64_t *state, int64_t least, int64_t most) {
    int64_t bits = 0;
    while (least << bits <= most / 2)
        bits++;
    int64_t low = least << sim_between(state, 0, bits);
    return sim_between(state, low, low * 2 < most ? low * 2 : most);
}

static inline bool sim_chance(uint64_t *state, uint32_t per_million) {
    return per_million > 0 && sim_random(state) % 1000000 < per_million;
}
