/*
 * The one order in which hosts are shown, in lists and as rows and columns alike. Pure.
 */
#pragma once

#include "skew/judge/skew_judge.h"

/** From the clock that is furthest ahead to the one furthest behind, so that what can steal comes
 *  first; then those of which only differences are known, then those without evidence; in the end
 *  what is no clock. order: room for all. */
void skew_order(const skew_result *result, int *order);
