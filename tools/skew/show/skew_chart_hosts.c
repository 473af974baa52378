/*
 * Each host's clock over time, all on one scale, with lines at the end of each one's slack.
 */
#include <stdlib.h>

#include "skew/show/skew_chart.h"
#include "skew/show/skew_page.h"
#include "skew/show/skew_show.h"

#define HIGH 84
#define MARKS 4

/* For each bucket the two clocks furthest behind and the two furthest ahead: a host is compared
 * with the first that isn't itself. */
typedef struct {
    int64_t behind[2], ahead[2];
    const past_host *is_behind, *is_ahead;
} extremes;

typedef struct {
    const skew_story *story;
    skew_chart chart;
    extremes at[CHART_BUCKETS];
    int64_t slack[CHART_BUCKETS];
    bool edges;
} fleet;

static void learn(extremes *extremes, const past_host *host, tl_interval hull) {
    if (!extremes->is_behind || hull.lo < extremes->behind[0]) {
        extremes->behind[1] = extremes->is_behind ? extremes->behind[0] : INT64_MAX;
        extremes->behind[0] = hull.lo;
        extremes->is_behind = host;
    } else if (hull.lo < extremes->behind[1]) {
        extremes->behind[1] = hull.lo;
    }
    if (!extremes->is_ahead || hull.hi > extremes->ahead[0]) {
        extremes->ahead[1] = extremes->is_ahead ? extremes->ahead[0] : INT64_MIN;
        extremes->ahead[0] = hull.hi;
        extremes->is_ahead = host;
    } else if (hull.hi > extremes->ahead[1]) {
        extremes->ahead[1] = hull.hi;
    }
}

/* Where the slack of a host ends, up or down, widened as for uncorrected clocks. */
static int64_t edge_of(const fleet *fleet, const past_host *host, int bucket, bool up) {
    static const skew_host plain;
    const extremes *extremes = &fleet->at[bucket];
    int64_t by = skew_widening_us(&fleet->story->past->last.rule, &plain, &plain),
            room = tl__add_sat(fleet->slack[bucket], -by),
            other = up ? extremes->behind[extremes->is_behind == host]
                       : extremes->ahead[extremes->is_ahead == host];

    if (!extremes->is_behind || other == INT64_MAX || other == INT64_MIN ||
        !skew_is_clock(host->kind))
        return CHART_NO_VALUE;
    return tl__add_sat(other, up ? room : -room);
}

static void learn_all(fleet *fleet) {
    story_bucket bucket[CHART_BUCKETS];
    const skew_past *past = fleet->story->past;

    story_run_buckets(fleet->story, bucket, fleet->chart.buckets);
    chart_slack(bucket, fleet->chart.buckets, 100, fleet->slack);
    for (size_t i = 0; i < past->hosts; i++) {
        if (past->host[i].count == 0 || !skew_is_clock(past->host[i].kind))
            continue;
        story_host_buckets(fleet->story, &past->host[i], bucket, fleet->chart.buckets);
        for (int b = 0; b < fleet->chart.buckets; b++)
            if (bucket[b].known)
                learn(&fleet->at[b], &past->host[i], bucket[b].hull);
    }
}

/* One scale for all: the clocks, the server's clock, and the ends of the slack, unless these are
 * far off. */
static tl_interval hosts_reach(fleet *fleet) {
    story_bucket bucket[CHART_BUCKETS];
    const skew_past *past = fleet->story->past;
    tl_interval all = {0, 0}, edges = {0, 0};

    for (size_t i = 0; i < past->hosts; i++) {
        if (past->host[i].count == 0)
            continue;
        story_host_buckets(fleet->story, &past->host[i], bucket, fleet->chart.buckets);
        for (int b = 0; b < fleet->chart.buckets; b++) {
            int64_t up = edge_of(fleet, &past->host[i], b, true),
                    down = edge_of(fleet, &past->host[i], b, false);
            if (!bucket[b].known)
                continue;
            all.lo = bucket[b].hull.lo < all.lo ? bucket[b].hull.lo : all.lo;
            all.hi = bucket[b].hull.hi > all.hi ? bucket[b].hull.hi : all.hi;
            edges.hi = up != CHART_NO_VALUE && up > edges.hi ? up : edges.hi;
            edges.lo = down != CHART_NO_VALUE && down < edges.lo ? down : edges.lo;
        }
    }
    return axis_reach(all, edges, &fleet->edges);
}

/* ---- a host ---------------------------------------------------------------------------------------- */

static void put_chart(const fleet *fleet, const past_host *host, FILE *out) {
    story_bucket bucket[CHART_BUCKETS];
    int64_t up[CHART_BUCKETS], down[CHART_BUCKETS], zero[CHART_BUCKETS];

    story_host_buckets(fleet->story, host, bucket, fleet->chart.buckets);
    for (int b = 0; b < fleet->chart.buckets; b++) {
        up[b] = edge_of(fleet, host, b, true);
        down[b] = edge_of(fleet, host, b, false);
        zero[b] = 0;
    }
    chart_open(out, &fleet->chart);
    chart_line(out, &fleet->chart, "zero", zero);
    chart_band(out, &fleet->chart, bucket, up, down);
    if (fleet->edges) {
        chart_line(out, &fleet->chart, "edge", up);
        chart_line(out, &fleet->chart, "edge", down);
    }
    chart_close(out, &fleet->chart);
}

static void put_drift(const skew_story *story, size_t i, FILE *out) {
    const skew_trend *trend = &story->drift[i];
    const past_host *host = &story->past->host[i];
    const past_point *point = &host->point[host->count - 1];
    char span[SKEW_SPAN_SIZE];

    if (story->last_of[i] < 0) {
        (void)fputs("not seen since ", out);
        page_time(out, point->at_ms);
        return;
    }
    if (past_known(point)) {
        page_between(out, point->offset, INT64_MAX);
        (void)fputs(" ms; ", out);
    } else {
        (void)fputs("not measured; ", out);
    }
    if (!trend->known) {
        (void)fputs("drift unknown", out);
        return;
    }
    (void)fputs("drifts ", out);
    page_between(out, trend->ppb, INT64_MAX);
    (void)fputs(" ppm", out);
    if (trend->to_ms > trend->from_ms)
        (void)fprintf(out, " (over %s%s)", skew_span(span, trend->to_ms - trend->from_ms),
                      trend->bent ? "; otherwise before" : "");
}

static void put_host(const fleet *fleet, size_t i, FILE *out) {
    const past_host *host = &fleet->story->past->host[i];

    (void)fputs("<div class=\"row\"><div class=\"what\"><b>", out);
    page_text(out, host->name);
    (void)fputs("</b><span>", out);
    put_drift(fleet->story, i, out);
    (void)fputs("</span></div>", out);
    put_chart(fleet, host, out);
    (void)fputs("</div>\n", out);
}

/* ---- all of them ----------------------------------------------------------------------------------- */

/* The same order as in the matrix; hosts of the latest run first. */
static size_t order_histories(const skew_story *story, size_t *order) {
    const skew_result *last = &story->past->last;
    int *of_last = calloc((size_t)last->host_count + 1, sizeof *of_last);
    size_t n = 0;

    if (!of_last)
        return 0;
    skew_order(last, of_last);
    for (int k = 0; k < last->host_count; k++)
        for (size_t i = 0; i < story->past->hosts; i++)
            if (story->last_of[i] == of_last[k] && story->past->host[i].count > 0)
                order[n++] = i;
    for (size_t i = 0; i < story->past->hosts; i++)
        if (story->last_of[i] < 0 && story->past->host[i].count > 0)
            order[n++] = i;
    free(of_last);
    return n;
}

static void put_all(fleet *fleet, const size_t *order, size_t n, FILE *out) {
    char number[SKEW_NUMBER_SIZE];
    const skew_result *last = &fleet->story->past->last;

    page_open(out, "Each host's clock over time",
              "The host's clock less the server's (the dashed line) was within the band. Grey: not "
              "measured. All hosts are on one scale, and in the order of the matrix.");
    (void)fputs("<p class=\"dim\">", out);
    (void)fputs(fleet->edges ? "Solid lines: where the slack of " : "The slack of ", out);
    page_number(out, skew_exact(number, last->rule.slack_us));
    (void)fputs(fleet->edges
                    ? " ends. A host that reaches past the upper one could steal a lock, past "
                      "the lower one lose one.</p>\n"
                    : " ends far off this scale.</p>\n",
                out);
    for (size_t i = 0; i < n; i++) {
        if (i == PAGE_HOSTS)
            (void)fprintf(out, "<details><summary>%zu more hosts</summary>\n", n - PAGE_HOSTS);
        put_host(fleet, order[i], out);
    }
    if (n > PAGE_HOSTS)
        (void)fputs("</details>\n", out);
    page_close(out);
}

void chart_hosts(const skew_story *story, FILE *out) {
    fleet *fleet = calloc(1, sizeof *fleet);
    size_t *order = calloc(story->past->hosts + 1, sizeof *order), n = 0;

    if (fleet && order)
        n = order_histories(story, order);
    if (n > 0) {
        fleet->story = story;
        fleet->chart = (skew_chart){.times = chart_times(story),
                                    .buckets = chart_buckets(story),
                                    .high = HIGH,
                                    .look = "chart",
                                    .label = "offset over time"};
        learn_all(fleet);
        fleet->chart.values = axis_of(hosts_reach(fleet), MARKS);
        put_all(fleet, order, n, out);
    }
    free(fleet);
    free(order);
}
