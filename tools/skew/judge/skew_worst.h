/*
 * Finds the worst pairs of many hosts without looking at all pairs. Pure except for memory.
 */
#pragma once

#include "skew/judge/skew_judge.h"

/** Fill pairs, pair_count and pairs_total from hosts, rule and gaps. False: out of memory. */
bool skew_worst_find(skew_result *result);

/** Find any pair whose gap is too large (skew_is_beyond); the result needs its gaps. ret->holder is
 *  unchanged if there is none. False: out of memory. */
bool skew_worst_beyond(const skew_result *result, skew_pair *ret);

/** Judge one of all pairs, kept or not; the result needs its gaps. False: there is no gap between the
 *  two. */
bool skew_judge_pair(const skew_result *result, int holder, int taker, skew_pair *ret);
