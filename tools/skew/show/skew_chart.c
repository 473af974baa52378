/*
 * Charts. A drawing is stretched to the available width, but its lines keep their own; so it
 * contains no text. Values far outside are cut at the edge.
 */
#include "skew/show/skew_chart.h"

#define WIDE 1000.0

static double down_at(const skew_chart *chart, int64_t v) {
    double part = axis_part(&chart->values, v);
    return (1 - (part < -1 ? -1 : part > 2 ? 2 : part)) * chart->high;
}

void chart_open(FILE *out, const skew_chart *chart) {
    (void)fputs("<div class=\"graph\">", out);
    axis_beside(out, &chart->values);
    (void)fprintf(out,
                  "<svg class=\"plot %s\" viewBox=\"0 0 %.0f %d\" preserveAspectRatio=\"none\" "
                  "role=\"img\" aria-label=\"%s\">",
                  chart->look, WIDE, chart->high, chart->label);
    axis_rows(out, &chart->values, WIDE, chart->high);
    axis_columns(out, &chart->times, WIDE, chart->high);
}

void chart_close(FILE *out, const skew_chart *chart) {
    (void)fputs("</svg>", out);
    axis_times(out, &chart->times);
    (void)fputs("</div>\n", out);
}

static bool is_past(const story_bucket *bucket, int i, const int64_t *up, const int64_t *down) {
    return (up && up[i] != CHART_NO_VALUE && bucket[i].hull.hi > up[i]) ||
           (down && down[i] != CHART_NO_VALUE && bucket[i].hull.lo < down[i]);
}

static void put_band(FILE *out, const skew_chart *chart, const story_bucket *bucket, int i) {
    double wide = WIDE / chart->buckets, top = down_at(chart, bucket[i].hull.hi),
           high = down_at(chart, bucket[i].hull.lo) - top;

    (void)fprintf(out, "M%.1f %.1fh%.1fv%.1fh-%.1fz", i * wide, top, wide, high < 2 ? 2 : high,
                  wide);
}

void chart_band(FILE *out, const skew_chart *chart, const story_bucket *bucket, const int64_t *up,
                const int64_t *down) {
    double wide = WIDE / chart->buckets;

    for (int past = 0; past <= 1; past++) {
        (void)fprintf(out, "<path class=\"%s\" d=\"", past ? "over" : "band");
        for (int i = 0; i < chart->buckets; i++)
            if (bucket[i].known && is_past(bucket, i, up, down) == past)
                put_band(out, chart, bucket, i);
        (void)fputs("\"/>", out);
    }
    for (int i = 0; i < chart->buckets; i++)
        if (bucket[i].unknown)
            (void)fprintf(out, "<rect class=\"none\" x=\"%.1f\" width=\"%.1f\" height=\"%d\"/>",
                          i * wide, wide, chart->high);
}

void chart_line(FILE *out, const skew_chart *chart, const char *look, const int64_t *value) {
    double wide = WIDE / chart->buckets;
    bool drawing = false;

    (void)fprintf(out, "<path class=\"%s\" d=\"", look);
    for (int i = 0; i < chart->buckets; i++) {
        if (value[i] == CHART_NO_VALUE) {
            drawing = false;
            continue;
        }
        (void)fprintf(out, "%c%.1f %.1fH%.1f", drawing ? 'L' : 'M', i * wide,
                      down_at(chart, value[i]), (i + 1) * wide);
        drawing = true;
    }
    (void)fputs("\"/>", out);
}

/* ---- charts of a story ---------------------------------------------------------------------- */

int chart_buckets(const skew_story *story) {
    return story->past->runs < CHART_BUCKETS ? (int)story->past->runs : CHART_BUCKETS;
}

skew_axis chart_times(const skew_story *story) {
    return axis_of_times(story->past->run[0].at_ms,
                         story->past->run[story->past->runs - 1].at_ms + 1);
}

void chart_slack(const story_bucket *bucket, int buckets, int percent, int64_t *value) {
    int64_t slack = 0;

    for (int i = 0; i < buckets; i++) {
        slack = bucket[i].from_ms ? bucket[i].slack_us : slack;
        value[i] = slack / 100 * percent;
    }
}
