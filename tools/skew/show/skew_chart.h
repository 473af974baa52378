/*
 * Charts of a page: bands and lines over time, with both axes marked.
 */
#pragma once

#include "skew/show/skew_axis.h"
#include "skew/show/skew_story.h"

typedef struct {
    skew_axis times, values;
    int buckets;
    int high;          /**< units (pixels) */
    const char *look;  /**< a further style class */
    const char *label; /**< a description for screen readers */
} skew_chart;

/** Open the frame of a chart of values; close it with the marks of time. */
void chart_open(FILE *out, const skew_chart *chart);
void chart_close(FILE *out, const skew_chart *chart);

/** Draw where a value is known (from lo to hi), and where it isn't. Parts beyond the upper or lower
 *  line have another colour; NULL: no such line. */
void chart_band(FILE *out, const skew_chart *chart, const story_bucket *bucket, const int64_t *up,
                const int64_t *down);

/** Draw a stepped line, "edge", "half" or "zero": one value for each bucket, or CHART_NO_VALUE. */
#define CHART_NO_VALUE INT64_MIN
void chart_line(FILE *out, const skew_chart *chart, const char *look, const int64_t *value);

/** The number of buckets in a story's charts, and their times. */
#define CHART_BUCKETS 120
int chart_buckets(const skew_story *story);
skew_axis chart_times(const skew_story *story);

/** `percent` of the slack in each bucket of runs; a bucket without a run takes the value of the one
 *  before. */
void chart_slack(const story_bucket *bucket, int buckets, int percent, int64_t *value);

/** A section of the page: each host's clock over time, all on one scale. */
void chart_hosts(const skew_story *story, FILE *out);
