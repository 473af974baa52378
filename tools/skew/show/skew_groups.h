/*
 * The worst pairs for people: one bad clock is in a pair with every other host, so the pairs of one
 * host that are alike are one line. Pure except for memory.
 */
#pragma once

#include "skew/judge/skew_judge.h"

typedef struct {
    const skew_pair *pair; /**< the worst of the group */
    bool by_taker;         /**< the pairs have its taker in common; else its holder */
    int count;             /**< its pairs */
} skew_group;

/** The first groups, thefts before others, each with the worst pair first. Pairs that are safe are
 *  in no group with others. Returns how many; group: room for `most`. */
int skew_groups(const skew_result *result, skew_group *group, int most);

/** The pairs in this order: first those with a possible theft. For free(); NULL: out of memory. */
const skew_pair **skew_pairs_in_order(const skew_result *result);
