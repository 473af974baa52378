/*
 * The table on stdout, and the same as JSON in a file.
 */
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/js.h"

static json_t *lines;
static FILE *json;
static const char *path;

const char *regime_name(regime r) {
    static const char *const names[] = {"one", "cross", "free", "delay"};
    return names[r];
}

void report_begin(const char *json_path) {
    path = json_path;
    json = fopen(path, "w");
    if (!json)
        die("%s: %s", path, strerror(errno));
    printf("%s; %d rounds, medians\n\n", bench_describe(), rounds);
    printf("%-9s %-5s  %-54s %10s %10s  %6s  %-14s  %s\n", "row", "where", "what", "ours",
           "baseline", "ratio", "spread", "goal");
    lines = json_array();
}

void report_end(void) {
    json_t *all = json_pack("{s:s, s:i, s:s, s:o}", "version", tl_version(), "rounds", rounds,
                            "machine", bench_describe(), "lines", lines);
    if (!all || json_dumpf(all, json, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) || fclose(json))
        die("%s: %s", path, strerror(errno));
    json_decref(all);
    printf("\nas JSON: %s\n", path);
}

static json_t *begin_line(const char *name, regime r) {
    printf("%-9s %-5s  ", name, regime_name(r));
    return json_pack("{s:s, s:s}", "row", name, "regime", regime_name(r));
}

void report_skip(const char *name, regime r, const char *why) {
    json_t *line = begin_line(name, r);
    js_set(&line, "skipped", js_text(why));
    js_append(&lines, line);
    printf("skipped: %s\n", why);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct {
    double least, median, most;
} spread;

static spread spread_of(const double *v, int n) {
    double sorted[ROUNDS_MAX];
    memcpy(sorted, v, (size_t)n * sizeof *v);
    qsort(sorted, (size_t)n, sizeof *sorted, by_size);
    return (spread){sorted[0], (sorted[(n - 1) / 2] + sorted[n / 2]) / 2, sorted[n - 1]};
}

double median(const double *v, int n) {
    return spread_of(v, n).median;
}

/* Four digits, whatever the size. */
static const char *digits(char *text, size_t size, double v) {
    int decimals = v >= 1000 || v <= -1000 ? 0 : v >= 100 ? 1 : v >= 10 ? 2 : 3;
    (void)snprintf(text, size, "%.*f", decimals, v);
    return text;
}

static void print_line(const label *l, spread ours, const spread *base, const spread *ratio,
                       int n) {
    char what[64], a[32], b[32] = "", c[32] = "", least[32], most[32], range[70] = "";
    const spread *s = ratio ? ratio : &ours;
    (void)snprintf(what, sizeof what, "%s, %s", l->what, l->unit);
    if (base)
        digits(b, sizeof b, base->median);
    if (ratio)
        (void)snprintf(c, sizeof c, "%.2f", ratio->median);
    if (n > 1)
        (void)snprintf(range, sizeof range, "%s..%s", digits(least, sizeof least, s->least),
                       digits(most, sizeof most, s->most));
    printf("%-54s %10s %10s  %6s  %-14s  %s\n", what, digits(a, sizeof a, ours.median), b, c, range,
           l->goal ? l->goal : "");
    (void)fflush(stdout);
}

static void write_line(json_t *line, const label *l, spread ours, const spread *base,
                       const spread *ratio, int n) {
    const spread *s = ratio ? ratio : &ours;
    js_set(&line, "what", js_text(l->what));
    js_set(&line, "unit", js_text(l->unit));
    js_set(&line, "ours", json_real(ours.median));
    if (base)
        js_set(&line, "baseline", json_real(base->median));
    if (ratio)
        js_set(&line, "ratio", json_real(ratio->median));
    js_set(&line, "least", json_real(s->least));
    js_set(&line, "most", json_real(s->most));
    js_set(&line, "rounds", json_integer(n));
    if (l->goal)
        js_set(&line, "goal", js_text(l->goal));
    js_append(&lines, line);
}

void report(const label *l, const double *ours, const double *base, int n) {
    double by_round[ROUNDS_MAX];
    spread o = spread_of(ours, n), b = {0}, ratio = {0};
    if (base) {
        b = spread_of(base, n);
        for (int i = 0; i < n; i++)
            by_round[i] = base[i] != 0 ? ours[i] / base[i] : 0;
        ratio = spread_of(by_round, n);
    }
    json_t *line = begin_line(l->row, l->regime);
    print_line(l, o, base ? &b : NULL, base ? &ratio : NULL, n);
    write_line(line, l, o, base ? &b : NULL, base ? &ratio : NULL, n);
}

void report_one(const label *l, double ours) {
    report(l, &ours, NULL, 1);
}

void report_two(const label *l, double ours, double base) {
    report(l, &ours, &base, 1);
}
