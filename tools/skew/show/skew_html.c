/*
 * One result as a page: the verdict, the matrix, the worst pairs, each host's clock. All clocks are
 * one scale, and lines on it show where they are too far from the middle of all.
 */
#include <stdlib.h>

#include "ground/guard.h"
#include "skew/judge/skew_cause.h"
#include "skew/show/skew_axis.h"
#include "skew/show/skew_page.h"
#include "skew/show/skew_show.h"

#define SPAN 1000.0 /* units of a bar's width */
#define HIGH 14
#define MARKS 6

/* ---- the scale ------------------------------------------------------------------------------------ */

static int64_t at_least_0(int64_t us) {
    return us > 0 ? us : 0;
}

page_room page_room_of(const skew_result *result, int host, const int64_t *middle) {
    const skew_rule *rule = &result->rule;
    int64_t by = skew_widening_by(rule, skew_extra_ppm(rule, &result->hosts[host])),
            pad = GUARD(bar_by_upper_edge) ? by : 0,
            far = at_least_0(tl__add_sat(rule->slack_us, -pad)),
            near = at_least_0(tl__add_sat(rule->slack_us / 100 * rule->warn_percent, -pad));

    if (!middle || !result->hosts[host].known || !skew_is_clock(result->hosts[host].kind))
        return (page_room){INT64_MIN, INT64_MAX, INT64_MIN, INT64_MAX};
    return (page_room){tl__add_sat(*middle, -far), tl__add_sat(*middle, far),
                       tl__add_sat(*middle, -near), tl__add_sat(*middle, near)};
}

static tl_interval reach(const skew_result *result, const int64_t *middle, bool *ret_edges) {
    tl_interval all = {0, 0}, edges = {0, 0};

    for (int i = 0; i < result->host_count; i++) {
        const skew_host *host = &result->hosts[i];
        page_room room = page_room_of(result, i, middle);
        if (!host->known)
            continue;
        all.lo = host->offset.lo < all.lo ? host->offset.lo : all.lo;
        all.hi = host->offset.hi > all.hi ? host->offset.hi : all.hi;
        if (room.behind != INT64_MIN && room.behind < edges.lo)
            edges.lo = room.behind;
        if (room.ahead != INT64_MAX && room.ahead > edges.hi)
            edges.hi = room.ahead;
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

typedef struct {
    double from, to; /* of the drawn band */
} band;

static band band_of(const skew_host *host, const skew_axis *axis) {
    band band = {place(axis, host->offset.lo), place(axis, host->offset.hi)};

    if (band.to - band.from < 6) { /* else it could not be seen */
        double middle = (band.from + band.to) / 2;
        band.from = middle - 3;
        band.to = middle + 3;
    }
    return band;
}

/* Draws the parts of the clock's interval that are beyond the two lines. */
static void put_beyond(FILE *out, const char *look, const skew_host *host, int64_t behind,
                       int64_t ahead, const skew_axis *axis) {
    band band = band_of(host, axis);
    double left = place(axis, behind), right = place(axis, ahead);

    if (host->offset.lo < behind)
        put_rect(out, look, band.from, left < band.to ? left : band.to, 2);
    if (host->offset.hi > ahead)
        put_rect(out, look, right > band.from ? right : band.from, band.to, 2);
}

/* Draws the clock's interval, and the parts of it that are too far from the fleet's middle. */
static void put_band(FILE *out, const skew_host *host, const page_room *room,
                     const skew_axis *axis) {
    band band = band_of(host, axis);
    double behind = place(axis, room->behind), ahead = place(axis, room->ahead);

    put_rect(out, "past", 0, behind < SPAN ? behind : SPAN, 0);
    put_rect(out, "past", ahead > 0 ? ahead : 0, SPAN, 0);
    put_rect(out, "band", band.from, band.to, 2);
    put_beyond(out, "w", host, room->near_behind, room->near_ahead, axis);
    put_beyond(out, "over", host, room->behind, room->ahead, axis);
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

static void put_tags(FILE *out, const skew_result *result, int i) {
    if (result->hosts[i].self)
        (void)fputs(" <span class=\"tag\">this host</span>", out);
    if (skew_may_be_cause(result, i))
        (void)fprintf(out, " <span class=\"tag blame\">%s</span>",
                      result->causes == 1 ? "the cause" : "may be the cause");
}

static void put_row(FILE *out, const skew_result *result, int i, const page_room *room,
                    const skew_axis *axis) {
    const skew_host *host = &result->hosts[i];

    (void)fputs("<div class=\"row wide\"><div class=\"who\"><b>", out);
    page_text(out, host->name);
    (void)fputs("</b>", out);
    put_tags(out, result, i);
    put_details(out, host);
    (void)fputs("</div>", out);
    put_bar(out, host, room, axis);
    (void)fputs("<div class=\"num warn\">", out);
    if (host->known) {
        page_between(out, host->offset, INT64_MAX);
        (void)fputs(" ms", out);
    }
    if (host->missing || host->unsteady || !host->known || host->alarm != SKEW_NO_ALARM)
        (void)fprintf(out, "%s<b class=\"lack\">&ndash; %s</b>", host->known ? "<br>" : "",
                      host->missing    ? "missing"
                      : !host->known   ? "not measured"
                      : host->unsteady ? "runs wrong"
                                       : "hypervisor warns");
    (void)fputs("</div>", out);
    (void)fputs("</div>\n", out);
}

/* ---- all of them ---------------------------------------------------------------------------------- */

static void put_sign_of(FILE *out, const char *drawing, const char *text) {
    (void)fprintf(out, "<li><svg viewBox=\"0 0 20 10\" aria-hidden=\"true\">%s</svg>%s</li>",
                  drawing, text);
}

static void put_lines(FILE *out, const skew_result *result, bool edges) {
    char number[SKEW_NUMBER_SIZE];

    (void)fputs("<ul class=\"lines\">", out);
    put_sign_of(out, "<rect class=\"band\" y=\"2\" width=\"20\" height=\"6\"/>",
                "the host&rsquo;s clock, less the server&rsquo;s, is within");
    put_sign_of(out, "<path class=\"zero\" d=\"M10 0v10\"/>", "the server&rsquo;s clock");
    if (result->pair_count) {
        (void)fprintf(out,
                      "<li><svg viewBox=\"0 0 20 10\" aria-hidden=\"true\"><rect class=\"w\" "
                      "y=\"2\" width=\"20\" height=\"6\"/></svg>more than %d&nbsp;%% of the slack "
                      "from the middle of all clocks</li>",
                      (int)result->rule.warn_percent);
        put_sign_of(out, "<rect class=\"over\" y=\"2\" width=\"20\" height=\"6\"/>",
                    "further from it than the slack");
        (void)fprintf(out, "<li>%sthe slack of ",
                      edges ? "<svg viewBox=\"0 0 20 10\" aria-hidden=\"true\"><rect "
                              "class=\"past\" x=\"10\" width=\"10\" height=\"10\"/><path "
                              "class=\"edge\" d=\"M10 0v10\"/></svg>"
                            : "");
        page_number(out, skew_exact(number, result->rule.slack_us));
        (void)fprintf(out, " ends%s</li>", edges ? "" : " far off this scale");
    }
    (void)fputs("</ul>\n", out);
}

/* Of many hosts those at both ends are visible: the bad clocks, and those without evidence. */
static void put_rows(FILE *out, const skew_result *result, const int *order,
                     const int64_t *middle) {
    bool edges;
    skew_axis axis = axis_of(reach(result, middle, &edges), MARKS);
    int folded = result->host_count - PAGE_HOSTS;

    edges = edges && result->pair_count;
    put_lines(out, result, edges);
    (void)fputs("<div class=\"wide\"><div></div>", out);
    axis_below(out, &axis);
    (void)fputs("</div>\n", out);
    for (int i = 0; i < result->host_count; i++) {
        page_room room = page_room_of(result, order[i], middle);
        if (i == PAGE_HOSTS / 2 && folded > 0)
            (void)fprintf(out, "<details><summary>%d more hosts between</summary>\n", folded);
        put_row(out, result, order[i], &room, &axis);
        if (i == PAGE_HOSTS / 2 + folded - 1 && folded > 0)
            (void)fputs("</details>\n", out);
    }
}

static void put_hosts(FILE *out, const skew_result *result) {
    int *order = calloc((size_t)result->host_count + 1, sizeof *order);
    int64_t middle;

    if (result->host_count > 0 && order) {
        skew_order(result, order);
        page_open(out, "Each host's clock",
                  "In the order of the matrix, from the clock furthest ahead to the one furthest "
                  "behind. Colours say how far each is from the middle of all clocks, so one bad "
                  "clock colours no other.");
        put_rows(out, result, order, skew_fleet_middle(result, &middle) ? &middle : NULL);
        page_close(out);
    }
    free(order);
}

void skew_show_html(const skew_result *result, FILE *out) {
    page_begin(out, result, "clocks and locks", 0);
    page_verdict(out, result);
    page_pairs(out, result);
    page_heat(out, result);
    put_hosts(out, result);
    page_end(out, result);
}
