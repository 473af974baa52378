/*
 * The axes of a page's charts: their spans, and their marks at round values and round times.
 */
#pragma once

#include <stdio.h>

#include "wire/interval.h"

typedef struct {
    tl_interval all; /**< both edges: us, or ms of UTC */
    int64_t step;    /**< distance of the marks, which are at its multiples */
} skew_axis;

/** An axis of values in us, with some room at both ends, and at most about `most` marks. */
skew_axis axis_of(tl_interval all, int most);

/** The span of a scale: all that was measured, 0, and the ends of the slack, unless those are so
 *  far off that nothing else could be seen. */
tl_interval axis_reach(tl_interval measured, tl_interval edges, bool *ret_edges);

#define AXIS_TIMES_MOST 5

/** An axis of times in ms, with at most AXIS_TIMES_MOST marks. */
skew_axis axis_of_times(int64_t from_ms, int64_t to_ms);

/** The position of a value as a fraction of the span; 0 is the low edge. */
double axis_part(const skew_axis *axis, int64_t v);

/** Write the marks' texts: values beside a chart (from the top down), values or times below it. */
void axis_beside(FILE *out, const skew_axis *axis);
void axis_below(FILE *out, const skew_axis *axis);
void axis_times(FILE *out, const skew_axis *axis);

/** Write lines at the marks of an axis beside or below, in an SVG of that size. */
void axis_rows(FILE *out, const skew_axis *axis, double wide, double high);
void axis_columns(FILE *out, const skew_axis *axis, double wide, double high);
