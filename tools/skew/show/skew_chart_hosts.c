/*
 * Each host's clock over time, all on one scale, with lines where the slack of each ends.
 */
#include <stdlib.h>

#include "skew/show/skew_chart.h"
#include "skew/show/skew_page.h"
#include "skew/show/skew_show.h"

#define HIGH 84
#define MARKS 4

/* In each bucket the clock that is furthest behind and the one furthest ahead, and the next: what a
 * host is compared with is another. */
typedef struct {
    int64_t behind[2], ahead[2];
    const past_host *is_behind, *is_ahead;
} extremes;

typedef struct {
    const skew_story *s;
    skew_chart chart;
    extremes at[CHART_BUCKETS];
    int64_t slack[CHART_BUCKETS];
    bool edges;
} fleet;

static void learn(extremes *x, const past_host *h, tl_interval hull) {
    if (!x->is_behind || hull.lo < x->behind[0]) {
        x->behind[1] = x->is_behind ? x->behind[0] : INT64_MAX;
        x->behind[0] = hull.lo;
        x->is_behind = h;
    } else if (hull.lo < x->behind[1]) {
        x->behind[1] = hull.lo;
    }
    if (!x->is_ahead || hull.hi > x->ahead[0]) {
        x->ahead[1] = x->is_ahead ? x->ahead[0] : INT64_MIN;
        x->ahead[0] = hull.hi;
        x->is_ahead = h;
    } else if (hull.hi > x->ahead[1]) {
        x->ahead[1] = hull.hi;
    }
}

/* Where the slack of a host ends, up or down. Widened as for clocks that nobody corrects. */
static int64_t edge_of(const fleet *f, const past_host *h, int bucket, bool up) {
    static const skew_host plain;
    const extremes *x = &f->at[bucket];
    int64_t by = skew_widening_us(&f->s->past->last.rule, &plain, &plain),
            room = tl__add_sat(f->slack[bucket], -by),
            other = up ? x->behind[x->is_behind == h] : x->ahead[x->is_ahead == h];

    if (!x->is_behind || other == INT64_MAX || other == INT64_MIN || !skew_is_clock(h->kind))
        return CHART_NO_VALUE;
    return tl__add_sat(other, up ? room : -room);
}

static void learn_all(fleet *f) {
    story_bucket bucket[CHART_BUCKETS];
    const skew_past *p = f->s->past;

    story_run_buckets(f->s, bucket, f->chart.buckets);
    chart_slack(bucket, f->chart.buckets, 100, f->slack);
    for (size_t i = 0; i < p->hosts; i++) {
        if (p->host[i].count == 0 || !skew_is_clock(p->host[i].kind))
            continue;
        story_host_buckets(f->s, &p->host[i], bucket, f->chart.buckets);
        for (int b = 0; b < f->chart.buckets; b++)
            if (bucket[b].known)
                learn(&f->at[b], &p->host[i], bucket[b].hull);
    }
}

/* One scale for all: the clocks, the server's, and where the slack ends, unless that is far off. */
static tl_interval hosts_reach(fleet *f) {
    story_bucket bucket[CHART_BUCKETS];
    const skew_past *p = f->s->past;
    tl_interval all = {0, 0}, edges = {0, 0};

    for (size_t i = 0; i < p->hosts; i++) {
        if (p->host[i].count == 0)
            continue;
        story_host_buckets(f->s, &p->host[i], bucket, f->chart.buckets);
        for (int b = 0; b < f->chart.buckets; b++) {
            int64_t up = edge_of(f, &p->host[i], b, true), down = edge_of(f, &p->host[i], b, false);
            if (!bucket[b].known)
                continue;
            all.lo = bucket[b].hull.lo < all.lo ? bucket[b].hull.lo : all.lo;
            all.hi = bucket[b].hull.hi > all.hi ? bucket[b].hull.hi : all.hi;
            edges.hi = up != CHART_NO_VALUE && up > edges.hi ? up : edges.hi;
            edges.lo = down != CHART_NO_VALUE && down < edges.lo ? down : edges.lo;
        }
    }
    return axis_reach(all, edges, &f->edges);
}

/* ---- a host ---------------------------------------------------------------------------------------- */

static void put_chart(const fleet *f, const past_host *h, FILE *out) {
    story_bucket bucket[CHART_BUCKETS];
    int64_t up[CHART_BUCKETS], down[CHART_BUCKETS], zero[CHART_BUCKETS];

    story_host_buckets(f->s, h, bucket, f->chart.buckets);
    for (int b = 0; b < f->chart.buckets; b++) {
        up[b] = edge_of(f, h, b, true);
        down[b] = edge_of(f, h, b, false);
        zero[b] = 0;
    }
    chart_open(out, &f->chart);
    chart_line(out, &f->chart, "zero", zero);
    chart_band(out, &f->chart, bucket, up, down);
    if (f->edges) {
        chart_line(out, &f->chart, "edge", up);
        chart_line(out, &f->chart, "edge", down);
    }
    chart_close(out, &f->chart);
}

static void put_drift(const skew_story *s, size_t i, FILE *out) {
    const skew_trend *t = &s->drift[i];
    const past_host *h = &s->past->host[i];
    const past_point *x = &h->point[h->count - 1];
    char span[SKEW_SPAN_SIZE];

    if (s->last_of[i] < 0) {
        (void)fputs("not seen since ", out);
        page_time(out, x->at_ms);
        return;
    }
    if (past_known(x)) {
        page_between(out, x->offset, INT64_MAX);
        (void)fputs(" ms; ", out);
    } else {
        (void)fputs("not measured; ", out);
    }
    if (!t->known) {
        (void)fputs("drift unknown", out);
        return;
    }
    (void)fputs("drifts ", out);
    page_between(out, t->ppb, INT64_MAX);
    (void)fputs(" ppm", out);
    if (t->to_ms > t->from_ms)
        (void)fprintf(out, " (over %s%s)", skew_span(span, t->to_ms - t->from_ms),
                      t->bent ? "; otherwise before" : "");
}

static void put_host(const fleet *f, size_t i, FILE *out) {
    const past_host *h = &f->s->past->host[i];

    (void)fputs("<div class=\"row\"><div class=\"what\"><b>", out);
    page_text(out, h->name);
    (void)fputs("</b><span>", out);
    put_drift(f->s, i, out);
    (void)fputs("</span></div>", out);
    put_chart(f, h, out);
    (void)fputs("</div>\n", out);
}

/* ---- all of them ----------------------------------------------------------------------------------- */

/* As in the matrix; those of the latest run first. */
static size_t order_histories(const skew_story *s, size_t *order) {
    const skew_result *last = &s->past->last;
    int *of_last = calloc((size_t)last->host_count + 1, sizeof *of_last);
    size_t n = 0;

    if (!of_last)
        return 0;
    skew_order(last, of_last);
    for (int k = 0; k < last->host_count; k++)
        for (size_t i = 0; i < s->past->hosts; i++)
            if (s->last_of[i] == of_last[k] && s->past->host[i].count > 0)
                order[n++] = i;
    for (size_t i = 0; i < s->past->hosts; i++)
        if (s->last_of[i] < 0 && s->past->host[i].count > 0)
            order[n++] = i;
    free(of_last);
    return n;
}

static void put_all(fleet *f, const size_t *order, size_t n, FILE *out) {
    char number[SKEW_NUMBER_SIZE];
    const skew_result *last = &f->s->past->last;

    page_open(out, "Each host's clock over time",
              "The host's clock less the server's (the dashed line) was within the band. Grey: not "
              "measured. All hosts are on one scale, and in the order of the matrix.");
    (void)fputs("<p class=\"dim\">", out);
    (void)fputs(f->edges ? "Solid lines: where the slack of " : "The slack of ", out);
    page_number(out, skew_exact(number, last->rule.slack_us));
    (void)fputs(f->edges ? " ends. Whoever reaches past the upper one could steal a lock, past the "
                           "lower one lose one.</p>\n"
                         : " ends far off this scale.</p>\n",
                out);
    for (size_t i = 0; i < n; i++) {
        if (i == PAGE_HOSTS)
            (void)fprintf(out, "<details><summary>%zu more hosts</summary>\n", n - PAGE_HOSTS);
        put_host(f, order[i], out);
    }
    if (n > PAGE_HOSTS)
        (void)fputs("</details>\n", out);
    page_close(out);
}

void chart_hosts(const skew_story *s, FILE *out) {
    fleet *f = calloc(1, sizeof *f);
    size_t *order = calloc(s->past->hosts + 1, sizeof *order), n = 0;

    if (f && order)
        n = order_histories(s, order);
    if (n > 0) {
        f->s = s;
        f->chart = (skew_chart){.times = chart_times(s),
                                .buckets = chart_buckets(s),
                                .high = HIGH,
                                .look = "chart",
                                .label = "offset over time"};
        learn_all(f);
        f->chart.values = axis_of(hosts_reach(f), MARKS);
        put_all(f, order, n, out);
    }
    free(f);
    free(order);
}
