/*
 * The gap of any two hosts, without a table of all pairs. Almost every host is measured against the
 * server alone. The gap of two such hosts follows from their two offsets. Only hosts that are also
 * measured against another host need a web of constraints, and only with each other. Pure except
 * for memory.
 */
#pragma once

#include "skew/judge/skew_judge.h"

/** Tighten what is measured. Hosts with contradictory evidence become unknown. NULL: out of
 *  memory. */
skew_gaps *skew_gaps_begin(skew_result *result);
void skew_gaps_end(skew_gaps *gaps);

/** Is there a gap between the two? They are known, or known up to an error that they share. */
bool skew_gaps_comparable(const skew_result *result, int holder, int taker);

/** By how much the taker's clock is ahead of the holder's, us, widened for the lifetime. Only for
 *  comparable hosts. */
tl_interval skew_gaps_between(const skew_result *result, int holder, int taker);

/** A host's part of the gaps in which it holds, or takes. */
typedef struct {
    int host;
    int64_t us; /**< SKEW_NO_REACH: unbounded */
} skew_reach;
#define SKEW_NO_REACH INT64_MAX

/** The known hosts, or the relative ones: as holders, or as takers, those with the largest gaps
 *  first. Returns their number; reach: room for all hosts. */
int skew_gaps_reach(const skew_result *result, bool relative, bool takers, skew_reach *reach);

/** At least the upper edge of the two hosts' gap, us: it is no smaller for a larger reach. */
int64_t skew_gaps_most(const skew_result *result, const skew_reach *holder,
                       const skew_reach *taker);
