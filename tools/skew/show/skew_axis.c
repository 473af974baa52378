/*
 * Axes. The marks' texts belong to the page, not to the drawing, which is stretched to the
 * available width.
 */
#include <stdlib.h>
#include <time.h>

#include "skew/show/skew_axis.h"
#include "skew/show/skew_page.h"

#define FURTHER 3 /* the ends of the slack may be 3 times further off */
#define DAY_MS INT64_C(86400000)

/* 1, 2, 5, 10, 20, ... */
static int64_t value_step(int64_t span, int most) {
    static const int factor[] = {1, 2, 5};

    for (int64_t ten = 1;; ten *= 10)
        for (int i = 0; i < 3; i++)
            if (span / most < factor[i] * ten || ten > INT64_MAX / 100)
                return factor[i] * ten;
}

/* Steps of seconds, minutes, hours and days. */
static int64_t time_step(int64_t span_ms, int most) {
    static const int64_t steps_s[] = {1,     2,     5,      10,     15,     30,     60,    120,
                                      300,   600,   900,    1800,   3600,   7200,   10800, 21600,
                                      43200, 86400, 172800, 432000, 864000, 1728000};
    int64_t last = 0;

    for (size_t i = 0; i < sizeof steps_s / sizeof *steps_s; i++) {
        last = steps_s[i] * 1000;
        if (span_ms / most < last)
            return last;
    }
    return (span_ms / most / last + 1) * last;
}

skew_axis axis_of(tl_interval all, int most) {
    int64_t room = (all.hi - all.lo) / 20 + 1;
    tl_interval roomy = {all.lo - room, all.hi + room};

    return (skew_axis){.all = roomy, .step = value_step(roomy.hi - roomy.lo, most)};
}

tl_interval axis_reach(tl_interval measured, tl_interval edges, bool *ret_edges) {
    tl_interval all = {measured.lo < 0 ? measured.lo : 0, measured.hi > 0 ? measured.hi : 0};

    *ret_edges = edges.hi - edges.lo <= tl__mul_sat(all.hi - all.lo, FURTHER);
    if (*ret_edges) {
        all.lo = edges.lo < all.lo ? edges.lo : all.lo;
        all.hi = edges.hi > all.hi ? edges.hi : all.hi;
    }
    return all;
}

skew_axis axis_of_times(int64_t from_ms, int64_t to_ms) {
    return (skew_axis){.all = {from_ms, to_ms},
                       .step = time_step(to_ms - from_ms, AXIS_TIMES_MOST)};
}

double axis_part(const skew_axis *axis, int64_t v) {
    return ((double)v - (double)axis->all.lo) / ((double)axis->all.hi - (double)axis->all.lo);
}

/* The first mark. */
static int64_t first(const skew_axis *axis) {
    int64_t over = axis->all.lo % axis->step;
    return over > 0 ? axis->all.lo - over + axis->step : axis->all.lo - over;
}

/* ---- texts ----------------------------------------------------------------------------------------- */

static void put_value(FILE *out, int64_t us, int64_t step) {
    char buf[SKEW_NUMBER_SIZE];
    bool seconds = step >= 1000000;
    int decimals = seconds || us == 0 || step >= 1000 ? 0 : step >= 100 ? 1 : step >= 10 ? 2 : 3;

    page_number(out, skew_down(buf, seconds ? us / 1000 : us, decimals));
    (void)fputs(seconds ? " s</span>" : " ms</span>", out);
}

void axis_beside(FILE *out, const skew_axis *axis) {
    (void)fputs("<div class=\"y\">", out);
    for (int64_t v = first(axis); v <= axis->all.hi; v += axis->step) {
        (void)fprintf(out, "<span style=\"top:%.1f%%\">", (1 - axis_part(axis, v)) * 100);
        put_value(out, v, axis->step);
    }
    (void)fputs("</div>", out);
}

/* Near the ends a text is on the inner side of its mark. */
static void open_below(FILE *out, double part) {
    (void)fprintf(out, "<span%s style=\"left:%.1f%%\">",
                  part < 0.12   ? " class=\"l\""
                  : part > 0.88 ? " class=\"r\""
                                : "",
                  part * 100);
}

void axis_below(FILE *out, const skew_axis *axis) {
    (void)fputs("<div class=\"x\">", out);
    for (int64_t v = first(axis); v <= axis->all.hi; v += axis->step) {
        open_below(out, axis_part(axis, v));
        put_value(out, v, axis->step);
    }
    (void)fputs("</div>", out);
}

/* With the date if the axis spans several days. */
static void put_moment(FILE *out, const skew_axis *axis, int64_t at_ms) {
    char text[64] = "";
    time_t seconds = (time_t)(at_ms / 1000);
    struct tm parts;
    const char *form = axis->step >= DAY_MS                             ? "%Y-%m-%d"
                       : axis->all.lo / DAY_MS != axis->all.hi / DAY_MS ? "%m-%d %H:%M"
                       : axis->step < 60000                             ? "%H:%M:%S"
                                                                        : "%H:%M";

    if (gmtime_r(&seconds, &parts))
        (void)strftime(text, sizeof text, form, &parts);
    (void)fprintf(out, "%s</span>", text);
}

void axis_times(FILE *out, const skew_axis *axis) {
    (void)fputs("<div class=\"x many\">", out);
    for (int64_t v = first(axis); v <= axis->all.hi; v += axis->step) {
        open_below(out, axis_part(axis, v));
        put_moment(out, axis, v);
    }
    (void)fputs("</div>", out);
}

/* ---- lines ----------------------------------------------------------------------------------------- */

void axis_rows(FILE *out, const skew_axis *axis, double wide, double high) {
    (void)fputs("<path class=\"grid\" d=\"", out);
    for (int64_t v = first(axis); v <= axis->all.hi; v += axis->step)
        (void)fprintf(out, "M0 %.1fh%.0f", (1 - axis_part(axis, v)) * high, wide);
    (void)fputs("\"/>", out);
}

void axis_columns(FILE *out, const skew_axis *axis, double wide, double high) {
    (void)fputs("<path class=\"grid\" d=\"", out);
    for (int64_t v = first(axis); v <= axis->all.hi; v += axis->step)
        (void)fprintf(out, "M%.1f 0v%.0f", axis_part(axis, v) * wide, high);
    (void)fputs("\"/>", out);
}
