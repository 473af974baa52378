/*
 * Names the hosts whose clocks cause a verdict. Pure except for memory.
 */
#pragma once

#include "skew/judge/skew_judge.h"

/** After skew_judge: find the smallest sets of at most SKEW_CAUSE_MOST hosts without which no two
 *  clocks of the others are too far apart, and judge the others. Fills causes and cause_text, and
 *  names a single cause in the advice. There is no cause in the clocks if the verdict rests on
 *  something else, such as a missing host. False: out of memory. */
bool skew_cause_find(skew_result *result);

/** Is the host in one of the causes? */
bool skew_may_be_cause(const skew_result *result, int host);

/** The index of the row that stands for this row's host: a daemon's report on a host with a clock
 *  of its own belongs to that host. */
int skew_cause_host(const skew_result *result, int row);
