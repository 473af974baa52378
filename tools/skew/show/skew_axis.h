/*
 * Axes of a page's charts: what they span, and their marks at round values and round times.
 */
#pragma once

#include <stdio.h>

#include "wire/interval.h"

typedef struct {
    tl_interval all; /**< from edge to edge: us, or ms of UTC */
    int64_t step;    /**< from mark to mark, at its multiples */
} skew_axis;

/** Of values in us; with some room at both ends, and about so many marks at most. */
skew_axis axis_of(tl_interval all, int most);

/** What a scale spans: all that was measured, and 0, and where slack ends, unless that is so far
 *  off that nothing else could be seen. */
tl_interval axis_reach(tl_interval measured, tl_interval edges, bool *ret_edges);

#define AXIS_TIMES_MOST 5

/** Of times in ms, with so many marks at most. */
skew_axis axis_of_times(int64_t from_ms, int64_t to_ms);

/** Where a value is, as a part of the span: 0 is its low edge. */
double axis_part(const skew_axis *axis, int64_t v);

/** The marks, as texts: values beside a chart (from the top down), values or times below it. */
void axis_beside(FILE *out, const skew_axis *axis);
void axis_below(FILE *out, const skew_axis *axis);
void axis_times(FILE *out, const skew_axis *axis);

/** Lines at the marks of an axis beside or below, in an SVG of so many units. */
void axis_rows(FILE *out, const skew_axis *axis, double wide, double high);
void axis_columns(FILE *out, const skew_axis *axis, double wide, double high);
