/*
 * One result as a page: the verdict, the matrix, the worst pairs, each host's clock. All clocks are
 * on one scale, and lines on it show where the slack of each ends.
 */
#include <stdlib.h>

#include "ground/guard.h"
#include "skew/show/skew_axis.h"
#include "skew/show/skew_page.h"
#include "skew/show/skew_show.h"

#define SPAN 1000.0 /* units of a bar's width */
#define HIGH 14
#define MARKS 6

/* ---- the scale ------------------------------------------------------------------------------------ */

page_room *page_rooms(const skew_result *r) {
    page_room *x = calloc((size_t)r->host_count + 1, sizeof *x);

    for (int i = 0; x && i < r->host_count; i++)
        x[i] = (page_room){INT64_MIN, INT64_MAX};
    for (size_t i = 0; x && i < r->pair_count; i++) {
        const skew_pair *p = &r->pairs[i];
        const skew_host *h = &r->hosts[p->holder], *t = &r->hosts[p->taker];
        int64_t left = tl__add_sat(r->rule.slack_us,
                                   -(GUARD(bar_by_upper_edge) ? p->gap.hi : p->gap.lo));
        if (t->known && tl__add_sat(t->offset.hi, left) < x[p->taker].ahead)
            x[p->taker].ahead = tl__add_sat(t->offset.hi, left);
        if (h->known && tl__add_sat(h->offset.lo, -left) > x[p->holder].behind)
            x[p->holder].behind = tl__add_sat(h->offset.lo, -left);
    }
    return x;
}

static tl_interval reach(const skew_result *r, const page_room *rooms, bool *ret_edges) {
    tl_interval all = {0, 0}, edges = {0, 0};

    for (int i = 0; i < r->host_count; i++) {
        const skew_host *h = &r->hosts[i];
        if (!h->known)
            continue;
        all.lo = h->offset.lo < all.lo ? h->offset.lo : all.lo;
        all.hi = h->offset.hi > all.hi ? h->offset.hi : all.hi;
        if (rooms[i].behind != INT64_MIN && rooms[i].behind < edges.lo)
            edges.lo = rooms[i].behind;
        if (rooms[i].ahead != INT64_MAX && rooms[i].ahead > edges.hi)
            edges.hi = rooms[i].ahead;
    }
    return axis_reach(all, edges, ret_edges);
}

/* ---- a row ---------------------------------------------------------------------------------------- */

static double place(const skew_axis *a, int64_t us) {
    double part = axis_part(a, us);
    return (part < -1 ? -1 : part > 2 ? 2 : part) * SPAN;
}

static void put_rect(FILE *out, const char *look, double from, double to, int inset) {
    if (to > from)
        (void)fprintf(out, "<rect class=\"%s\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>",
                      look, from, inset, to - from, HIGH - 2 * inset);
}

static void put_edge(FILE *out, double at) {
    if (at > 0 && at < SPAN)
        (void)fprintf(out, "<path class=\"edge\" d=\"M%.1f 0v%d\"/>", at, HIGH);
}

/* The clock, and what of it is past where its slack ends. */
static void put_band(FILE *out, const skew_host *h, const page_room *x, const skew_axis *a) {
    double from = place(a, h->offset.lo), to = place(a, h->offset.hi),
           behind = x->behind == INT64_MIN ? -1 : place(a, x->behind),
           ahead = x->ahead == INT64_MAX ? 2 * SPAN : place(a, x->ahead);

    if (to - from < 6) { /* to be seen at all */
        double middle = (from + to) / 2;
        from = middle - 3;
        to = middle + 3;
    }
    put_rect(out, "past", 0, behind < SPAN ? behind : SPAN, 0);
    put_rect(out, "past", ahead > 0 ? ahead : 0, SPAN, 0);
    put_rect(out, "band", from, to, 2);
    if (h->offset.lo < x->behind)
        put_rect(out, "over", from, behind < to ? behind : to, 2);
    if (h->offset.hi > x->ahead)
        put_rect(out, "over", ahead > from ? ahead : from, to, 2);
    put_edge(out, behind);
    put_edge(out, ahead);
}

static void put_bar(FILE *out, const skew_host *h, const page_room *x, const skew_axis *a) {
    (void)fprintf(out,
                  "<svg class=\"plot bar\" viewBox=\"0 0 %.0f %d\" preserveAspectRatio=\"none\" "
                  "aria-hidden=\"true\">",
                  SPAN, HIGH);
    axis_columns(out, a, SPAN, HIGH);
    (void)fprintf(out, "<path class=\"zero\" d=\"M%.1f 0v%d\"/>", place(a, 0), HIGH);
    if (h->known)
        put_band(out, h, x, a);
    else
        put_rect(out, "none", 0, SPAN, 0);
    (void)fputs("</svg>", out);
}

static void put_details(FILE *out, const skew_host *h) {
    char age[SKEW_SPAN_SIZE];

    (void)fputs("<small>by ", out);
    page_text(out, h->instrument);
    if (h->age_ms >= 0)
        (void)fprintf(out, ", %s old", skew_span(age, h->age_ms));
    if (h->known && h->has_drift) {
        (void)fputs(", drifts ", out);
        page_between(out, h->drift_ppb, INT64_MAX);
        (void)fputs(" ppm", out);
    }
    if (h->detail[0]) {
        (void)fputs("; ", out);
        page_text(out, h->detail);
    }
    (void)fputs("</small>", out);
}

static void put_row(FILE *out, const skew_host *h, const page_room *x, const skew_axis *a) {
    (void)fputs("<div class=\"row wide\"><div class=\"who\"><b>", out);
    page_text(out, h->name);
    (void)fputs("</b>", out);
    if (h->self)
        (void)fputs(" <span class=\"tag\">this host</span>", out);
    put_details(out, h);
    (void)fputs("</div>", out);
    put_bar(out, h, x, a);
    (void)fputs("<div class=\"num warn\">", out);
    if (h->known) {
        page_between(out, h->offset, INT64_MAX);
        (void)fputs(" ms", out);
    }
    if (h->missing || h->unsteady || !h->known)
        (void)fprintf(out, "%s<b class=\"lack\">&ndash; %s</b>", h->known ? "<br>" : "",
                      h->missing ? "missing"
                      : h->known ? "runs wrong"
                                 : "not measured");
    (void)fputs("</div>", out);
    (void)fputs("</div>\n", out);
}

/* ---- all of them ---------------------------------------------------------------------------------- */

static void put_lines(FILE *out, const skew_result *r, bool edges) {
    char number[SKEW_NUMBER_SIZE];

    (void)fputs(
        "<ul class=\"lines\"><li><svg viewBox=\"0 0 20 10\" aria-hidden=\"true\"><rect "
        "class=\"band\" y=\"2\" width=\"20\" height=\"6\"/></svg>the host&rsquo;s clock, "
        "less the server&rsquo;s, is within</li><li><svg viewBox=\"0 0 20 10\" "
        "aria-hidden=\"true\"><path class=\"zero\" d=\"M10 0v10\"/></svg>the server&rsquo;s "
        "clock</li>",
        out);
    if (edges)
        (void)fputs("<li><svg viewBox=\"0 0 20 10\" aria-hidden=\"true\"><rect class=\"past\" "
                    "x=\"10\" width=\"10\" height=\"10\"/><path class=\"edge\" d=\"M10 0v10\"/>"
                    "</svg>the slack of ",
                    out);
    else if (r->pair_count)
        (void)fputs("<li>The slack of ", out);
    if (edges || r->pair_count) {
        page_number(out, skew_exact(number, r->rule.slack_us));
        (void)fputs(edges ? " ends: who reaches past it could steal a lock (right), or lose one "
                            "(left)</li>"
                          : " ends far off this scale.</li>",
                    out);
    }
    (void)fputs("</ul>\n", out);
}

static void put_rows(FILE *out, const skew_result *r, const int *order, const page_room *rooms) {
    bool edges;
    skew_axis a = axis_of(reach(r, rooms, &edges), MARKS);

    edges = edges && r->pair_count;
    put_lines(out, r, edges);
    (void)fputs("<div class=\"wide\"><div></div>", out);
    axis_below(out, &a);
    (void)fputs("</div>\n", out);
    for (int i = 0; i < r->host_count; i++) {
        if (i == PAGE_HOSTS)
            (void)fprintf(out, "<details><summary>%d more hosts</summary>\n",
                          r->host_count - PAGE_HOSTS);
        put_row(out, &r->hosts[order[i]], &rooms[order[i]], &a);
    }
    if (r->host_count > PAGE_HOSTS)
        (void)fputs("</details>\n", out);
}

static void put_hosts(FILE *out, const skew_result *r) {
    int *order = calloc((size_t)r->host_count + 1, sizeof *order);
    page_room *rooms = page_rooms(r);

    if (r->host_count > 0 && order && rooms) {
        skew_order(r, order);
        page_open(out, "Each host's clock",
                  "In the order of the matrix, from the clock furthest ahead to the one furthest "
                  "behind.");
        put_rows(out, r, order, rooms);
        page_close(out);
    }
    free(order);
    free(rooms);
}

void skew_show_html(const skew_result *r, FILE *out) {
    page_begin(out, r, "clocks and locks", 0);
    page_verdict(out, r);
    page_heat(out, r);
    page_pairs(out, r);
    put_hosts(out, r);
    page_end(out, r);
}
