/*
 * One result as a page: the verdict, the matrix, the worst pairs, each host's clock. All clocks are
 * on one scale, and lines on it show where the slack of each ends.
 */
#include <stdlib.h>

#include "ground/guard.h"
#include "skew/judge/skew_worst.h"
#include "skew/show/skew_axis.h"
#include "skew/show/skew_page.h"
#include "skew/show/skew_show.h"

#define SPAN 1000.0 /* units of a bar's width */
#define HIGH 14
#define MARKS 6

/* ---- the scale ------------------------------------------------------------------------------------ */

/* The rest of the slack that the largest gap leaves. */
static int64_t left_of(const skew_result *result, int64_t gap_us) {
    return tl__add_sat(result->rule.slack_us, -(GUARD(bar_by_upper_edge) ? gap_us : 0));
}

page_room *page_rooms(const skew_result *result) {
    size_t hosts = (size_t)result->host_count;
    page_room *room = calloc(hosts + 1, sizeof *room);
    int64_t *holding = calloc(2 * hosts + 1, sizeof *holding), *taking = holding + hosts;
    bool found = room && holding && skew_worst_of_each(result, holding, taking);

    for (size_t i = 0; found && i < hosts; i++) {
        const skew_host *host = &result->hosts[i];
        room[i] = (page_room){INT64_MIN, INT64_MAX};
        if (host->known && holding[i] != INT64_MIN)
            room[i].behind = tl__add_sat(host->offset.lo, -left_of(result, holding[i]));
        if (host->known && taking[i] != INT64_MIN)
            room[i].ahead = tl__add_sat(host->offset.hi, left_of(result, taking[i]));
    }
    free(holding);
    if (found)
        return room;
    free(room);
    return NULL;
}

static tl_interval reach(const skew_result *result, const page_room *rooms, bool *ret_edges) {
    tl_interval all = {0, 0}, edges = {0, 0};

    for (int i = 0; i < result->host_count; i++) {
        const skew_host *host = &result->hosts[i];
        if (!host->known)
            continue;
        all.lo = host->offset.lo < all.lo ? host->offset.lo : all.lo;
        all.hi = host->offset.hi > all.hi ? host->offset.hi : all.hi;
        if (rooms[i].behind != INT64_MIN && rooms[i].behind < edges.lo)
            edges.lo = rooms[i].behind;
        if (rooms[i].ahead != INT64_MAX && rooms[i].ahead > edges.hi)
            edges.hi = rooms[i].ahead;
    }
    return axis_reach(all, edges, ret_edges);
}

/* ---- a row ---------------------------------------------------------------------------------------- */

static double place(const skew_axis *axis, int64_t us) {
    double part = axis_part(axis, us);
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

/* Draws the clock's interval, and the part of it beyond the end of its slack. */
static void put_band(FILE *out, const skew_host *host, const page_room *room,
                     const skew_axis *axis) {
    double from = place(axis, host->offset.lo), to = place(axis, host->offset.hi),
           behind = room->behind == INT64_MIN ? -1 : place(axis, room->behind),
           ahead = room->ahead == INT64_MAX ? 2 * SPAN : place(axis, room->ahead);

    if (to - from < 6) { /* else it could not be seen */
        double middle = (from + to) / 2;
        from = middle - 3;
        to = middle + 3;
    }
    put_rect(out, "past", 0, behind < SPAN ? behind : SPAN, 0);
    put_rect(out, "past", ahead > 0 ? ahead : 0, SPAN, 0);
    put_rect(out, "band", from, to, 2);
    if (host->offset.lo < room->behind)
        put_rect(out, "over", from, behind < to ? behind : to, 2);
    if (host->offset.hi > room->ahead)
        put_rect(out, "over", ahead > from ? ahead : from, to, 2);
    put_edge(out, behind);
    put_edge(out, ahead);
}

static void put_bar(FILE *out, const skew_host *host, const page_room *room,
                    const skew_axis *axis) {
    (void)fprintf(out,
                  "<svg class=\"plot bar\" viewBox=\"0 0 %.0f %d\" preserveAspectRatio=\"none\" "
                  "aria-hidden=\"true\">",
                  SPAN, HIGH);
    axis_columns(out, axis, SPAN, HIGH);
    (void)fprintf(out, "<path class=\"zero\" d=\"M%.1f 0v%d\"/>", place(axis, 0), HIGH);
    if (host->known)
        put_band(out, host, room, axis);
    else
        put_rect(out, "none", 0, SPAN, 0);
    (void)fputs("</svg>", out);
}

static void put_details(FILE *out, const skew_host *host) {
    char age[SKEW_SPAN_SIZE];

    (void)fputs("<small>by ", out);
    page_text(out, host->instrument);
    if (host->age_ms >= 0)
        (void)fprintf(out, ", %s old", skew_span(age, host->age_ms));
    if (host->known && host->has_drift) {
        (void)fputs(", drifts ", out);
        page_between(out, host->drift_ppb, INT64_MAX);
        (void)fputs(" ppm", out);
    }
    if (host->detail[0]) {
        (void)fputs("; ", out);
        page_text(out, host->detail);
    }
    (void)fputs("</small>", out);
}

static void put_row(FILE *out, const skew_host *host, const page_room *room,
                    const skew_axis *axis) {
    (void)fputs("<div class=\"row wide\"><div class=\"who\"><b>", out);
    page_text(out, host->name);
    (void)fputs("</b>", out);
    if (host->self)
        (void)fputs(" <span class=\"tag\">this host</span>", out);
    put_details(out, host);
    (void)fputs("</div>", out);
    put_bar(out, host, room, axis);
    (void)fputs("<div class=\"num warn\">", out);
    if (host->known) {
        page_between(out, host->offset, INT64_MAX);
        (void)fputs(" ms", out);
    }
    if (host->missing || host->unsteady || !host->known)
        (void)fprintf(out, "%s<b class=\"lack\">&ndash; %s</b>", host->known ? "<br>" : "",
                      host->missing ? "missing"
                      : host->known ? "runs wrong"
                                    : "not measured");
    (void)fputs("</div>", out);
    (void)fputs("</div>\n", out);
}

/* ---- all of them ---------------------------------------------------------------------------------- */

static void put_lines(FILE *out, const skew_result *result, bool edges) {
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
    else if (result->pair_count)
        (void)fputs("<li>The slack of ", out);
    if (edges || result->pair_count) {
        page_number(out, skew_exact(number, result->rule.slack_us));
        (void)fputs(edges ? " ends: who reaches past it could steal a lock (right), or lose one "
                            "(left)</li>"
                          : " ends far off this scale.</li>",
                    out);
    }
    (void)fputs("</ul>\n", out);
}

static void put_rows(FILE *out, const skew_result *result, const int *order,
                     const page_room *rooms) {
    bool edges;
    skew_axis axis = axis_of(reach(result, rooms, &edges), MARKS);

    edges = edges && result->pair_count;
    put_lines(out, result, edges);
    (void)fputs("<div class=\"wide\"><div></div>", out);
    axis_below(out, &axis);
    (void)fputs("</div>\n", out);
    for (int i = 0; i < result->host_count; i++) {
        if (i == PAGE_HOSTS)
            (void)fprintf(out, "<details><summary>%d more hosts</summary>\n",
                          result->host_count - PAGE_HOSTS);
        put_row(out, &result->hosts[order[i]], &rooms[order[i]], &axis);
    }
    if (result->host_count > PAGE_HOSTS)
        (void)fputs("</details>\n", out);
}

static void put_hosts(FILE *out, const skew_result *result) {
    int *order = calloc((size_t)result->host_count + 1, sizeof *order);
    page_room *rooms = page_rooms(result);

    if (result->host_count > 0 && order && rooms) {
        skew_order(result, order);
        page_open(out, "Each host's clock",
                  "In the order of the matrix, from the clock furthest ahead to the one furthest "
                  "behind.");
        put_rows(out, result, order, rooms);
        page_close(out);
    }
    free(order);
    free(rooms);
}

void skew_show_html(const skew_result *result, FILE *out) {
    page_begin(out, result, "clocks and locks", 0);
    page_verdict(out, result);
    page_pairs(out, result);
    page_heat(out, result);
    put_hosts(out, result);
    page_end(out, result);
}
