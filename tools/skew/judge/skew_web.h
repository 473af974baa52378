/*
 * Differences of clocks as constraints: each says that one clock less another lies in an interval.
 * Together they may say more than each (shortest paths), or contradict each other. Pure but for memory.
 */
#pragma once

#include "wire/interval.h"

#define SKEW_WEB_MAX 1024
/** An edge that nothing bounds. */
#define SKEW_UNBOUNDED (INT64_MAX / 4)

typedef struct {
    int clocks;
    int64_t *most; /**< [a * clocks + b]: clock b less clock a is at most this, us */
    int torn_via;  /**< the clock over which a contradiction was found; 0: none, or the first */
} skew_web;

/** Returns false when there is no memory, or clocks are more than SKEW_WEB_MAX. */
bool skew_web_begin(skew_web *web, int clocks);
void skew_web_end(skew_web *web);

/** Clock b less clock a lies in the interval. Constraints for the same two are intersected. */
void skew_web_bind(skew_web *web, int a, int b, tl_interval difference);

/** Tighten all by all. False: they contradict each other; skew_web_torn says where, and the rest
 *  means nothing. */
bool skew_web_close(skew_web *web);

/** After a close that failed: is the clock one of those between which it was found? Clock 0, which all
 *  others are measured against, is not named. Not all contradictions need be found at once. */
bool skew_web_torn(const skew_web *web, int clock);

/** Clock b less clock a, after a close that succeeded; edges beyond SKEW_UNBOUNDED / 2 say nothing. */
tl_interval skew_web_between(const skew_web *web, int a, int b);
