/*
 * Each host's clock over time, all on one scale, with lines where they are too far from the middle of all.
 */
#include <stdlib.h>

#include "skew/judge/skew_order.h"
#include "skew/show/skew_chart.h"
#include "skew/show/skew_page.h"
#include "skew/show/skew_show.h"

#define HIGH 84
#define MARKS 4

typedef struct {
    const skew_story *story;
    skew_chart chart;
    int64_t middle[CHART_BUCKETS]; /* of all clocks; CHART_NO_VALUE: less than two are known */
    int64_t slack[CHART_BUCKETS];
    bool edges;
} fleet;

/* Where a clock is further from the middle of all than the slack, up or down, widened as for
 * uncorrected clocks. */
static int64_t edge_of(const fleet *fleet, const past_host *host, int bucket, bool up) {
    static const skew_host plain;
    int64_t by = skew_widening_us(&fleet->story->past->last.rule, &plain, &plain),
            room = tl__add_sat(fleet->slack[bucket], -by);

    room = room > 0 ? room : 0;
    if (fleet->middle[bucket] == CHART_NO_VALUE || !skew_is_clock(host->kind))
        return CHART_NO_VALUE;
    return tl__add_sat(fleet->middle[bucket], up ? room : -room);
}

/* Finds the middle of all clocks in each bucket. False: out of memory. */
static bool find_middles(fleet *fleet) {
    story_bucket bucket[CHART_BUCKETS];
    const skew_past *past = fleet->story->past;
    int64_t *of = calloc(past->hosts * CHART_BUCKETS + 1, sizeof *of);
    size_t count[CHART_BUCKETS] = {0};

    for (size_t i = 0; of && i < past->hosts; i++) {
        if (past->host[i].count == 0 || !skew_is_clock(past->host[i].kind))
            continue;
        story_host_buckets(fleet->story, &past->host[i], bucket, fleet->chart.buckets);
        for (size_t b = 0; b < (size_t)fleet->chart.buckets; b++)
            if (bucket[b].known)
                of[b * past->hosts + count[b]++] = bucket[b].hull.lo / 2 + bucket[b].hull.hi / 2;
    }
    for (size_t b = 0; of && b < (size_t)fleet->chart.buckets; b++)
        fleet->middle[b] = count[b] > 1 ? skew_median(&of[b * past->hosts], count[b])
                                        : CHART_NO_VALUE;
    free(of);
    return of != NULL;
}

static bool learn_all(fleet *fleet) {
    story_bucket bucket[CHART_BUCKETS];

    story_run_buckets(fleet->story, bucket, fleet->chart.buckets);
    chart_slack(bucket, fleet->chart.buckets, 100, fleet->slack);
    return find_middles(fleet);
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
    (void)fputs(fleet->edges ? " ends, from the middle of all clocks.</p>\n"
                             : " ends far off this scale.</p>\n",
                out);
    for (size_t i = 0; i < n; i++) {
        if (i == PAGE_HOSTS / 2 && n > PAGE_HOSTS)
            (void)fprintf(out, "<details><summary>%zu more hosts between</summary>\n",
                          n - PAGE_HOSTS);
        put_host(fleet, order[i], out);
        if (i + 1 == n - PAGE_HOSTS / 2 && n > PAGE_HOSTS)
            (void)fputs("</details>\n", out);
    }
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
        if (learn_all(fleet)) {
            fleet->chart.values = axis_of(hosts_reach(fleet), MARKS);
            put_all(fleet, order, n, out);
        }
    }
    free(fleet);
    free(order);
}
