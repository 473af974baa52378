/*
 * Charts of a page: bands and lines over time, with both axes marked.
 */
#pragma once

#include "skew/show/skew_axis.h"
#include "skew/show/skew_story.h"

typedef struct {
    skew_axis times, values;
    int buckets;
    int high;          /**< units, which are pixels */
    const char *look;  /**< its class of style besides */
    const char *label; /**< for those who can't see it */
} skew_chart;

/** The frame of a chart of values, and its end with the marks of time. */
void chart_open(FILE *out, const skew_chart *chart);
void chart_close(FILE *out, const skew_chart *chart);

/** Where something is known from lo to hi, and where it is not. What reaches past an upper or a
 *  lower line is another colour; no lines where these are NULL. */
void chart_band(FILE *out, const skew_chart *chart, const story_bucket *bucket, const int64_t *up,
                const int64_t *down);

/** A line in steps, "edge", "half" or "zero": a value for each bucket, or CHART_NO_VALUE. */
#define CHART_NO_VALUE INT64_MIN
void chart_line(FILE *out, const skew_chart *chart, const char *look, const int64_t *value);

/** How many buckets a story has in its charts, and their times. */
#define CHART_BUCKETS 120
int chart_buckets(const skew_story *story);
skew_axis chart_times(const skew_story *story);

/** So many percent of the slack in each bucket of runs; where there was no run, what was before. */
void chart_slack(const story_bucket *bucket, int buckets, int percent, int64_t *value);

/** Each host's clock over time, all on one scale: a section of the page. */
void chart_hosts(const skew_story *story, FILE *out);
