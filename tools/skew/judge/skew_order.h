/*
 * The order of hosts in all output: lists, rows and columns. Pure.
 */
#pragma once

#include "skew/judge/skew_judge.h"

/** From the clock furthest ahead to the one furthest behind, so that possible thieves come first.
 *  Then hosts of which only differences are known, then hosts without evidence, and last the rows
 *  that are not clocks. order: room for all. */
void skew_order(const skew_result *result, int *order);
