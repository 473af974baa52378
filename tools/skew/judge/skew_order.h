/*
 * The order of hosts in all output: lists, rows and columns; and the middle, from which each host's
 * own distance is shown. Pure except for memory.
 */
#pragma once

#include "skew/judge/skew_judge.h"

/** The median; sorts the values, of which there is at least one. */
int64_t skew_median(int64_t *value, size_t count);

/** The middle of the fleet, us: the median of all known clocks' middles, which a few bad clocks don't
 *  move. False: less than two clocks are known, or there is no memory. */
bool skew_fleet_middle(const skew_result *result, int64_t *ret);

/** From the clock furthest ahead to the one furthest behind, so that possible thieves come first.
 *  Then hosts of which only differences are known, then hosts without evidence, and last the rows
 *  that are not clocks. order: room for all. */
void skew_order(const skew_result *result, int *order);
