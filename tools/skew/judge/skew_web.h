/*
 * Differences of clocks as constraints: each says that the difference of two clocks lies in an
 * interval. Together they may say more than each alone (shortest paths), or contradict each other.
 * Pure except for memory.
 */
#pragma once

#include "wire/interval.h"

#define SKEW_WEB_MAX 1024
/** The edge of an unbounded interval. */
#define SKEW_UNBOUNDED (INT64_MAX / 4)

typedef struct {
    int clocks;
    int64_t *most; /**< [a * clocks + b]: clock b - clock a is at most this, us */
    int torn_via;  /**< the clock through which a contradiction was found; 0: none, or clock 0 */
} skew_web;

/** False: out of memory, or more clocks than SKEW_WEB_MAX. */
bool skew_web_begin(skew_web *web, int clocks);
void skew_web_end(skew_web *web);

/** Clock b - clock a lies in the interval. Constraints on the same two are intersected. */
void skew_web_bind(skew_web *web, int a, int b, tl_interval difference);

/** An edge of an interval, limited to what is unbounded. */
int64_t skew_web_edge(int64_t us);
/** The edge of a path over two edges. An unbounded one makes it unbounded. */
int64_t skew_web_sum(int64_t a, int64_t b);

/** Tighten each constraint by the paths through one clock, after the clocks before it. False: there
 *  is a contradiction. */
bool skew_web_pass(skew_web *web, int via);

/** Tighten each constraint by all others. False: they contradict each other; skew_web_torn says
 *  where, and the other values mean nothing. */
bool skew_web_close(skew_web *web);

/** After skew_web_close failed: is the clock part of the contradiction? Clock 0, the reference of
 *  all others, is not named. Not all contradictions are found at once. */
bool skew_web_torn(const skew_web *web, int clock);

/** Clock b - clock a, after skew_web_close succeeded. Edges beyond SKEW_UNBOUNDED / 2 mean
 *  unbounded. */
tl_interval skew_web_between(const skew_web *web, int a, int b);
