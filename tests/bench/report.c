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
    printf("%-9s %-5s  %-54s %10s %10s  %6s  %10s  %6s  %-14s  %s\n", "row", "where", "what",
           "ours", "baseline", "ratio", "limit", "of it", "spread", "goal");
    lines = json_array();
}

void report_end(bool complete) {
    json_t *all = json_pack("{s:s, s:i, s:s, s:b, s:o}", "version", tl_version(), "rounds", rounds,
                            "machine", bench_describe(), "complete", complete, "lines", lines);
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

/* What a line says, each as medians with their spread. */
typedef struct {
    spread ours, base, ratio, limit, part; /* part: ours of the limit */
    bool has_base, has_limit;
    int n;
} values;

static const spread *spread_shown(const values *v) {
    return v->has_base ? &v->ratio : v->has_limit ? &v->part : &v->ours;
}

static void print_line(const label *l, const values *v) {
    char what[64], a[32], b[32] = "", c[32] = "", d[32] = "", e[32] = "";
    char least[32], most[32], range[70] = "";
    const spread *s = spread_shown(v);
    (void)snprintf(what, sizeof what, "%s, %s", l->what, l->unit);
    if (v->has_base) {
        digits(b, sizeof b, v->base.median);
        (void)snprintf(c, sizeof c, "%.2f", v->ratio.median);
    }
    if (v->has_limit) {
        digits(d, sizeof d, v->limit.median);
        (void)snprintf(e, sizeof e, "%.2f", v->part.median);
    }
    if (v->n > 1)
        (void)snprintf(range, sizeof range, "%s..%s", digits(least, sizeof least, s->least),
                       digits(most, sizeof most, s->most));
    printf("%-54s %10s %10s  %6s  %10s  %6s  %-14s  %s\n", what,
           digits(a, sizeof a, v->ours.median), b, c, d, e, range, l->goal ? l->goal : "");
    (void)fflush(stdout);
}

static void write_line(json_t *line, const label *l, const values *v) {
    const spread *s = spread_shown(v);
    js_set(&line, "what", js_text(l->what));
    js_set(&line, "unit", js_text(l->unit));
    js_set(&line, "ours", json_real(v->ours.median));
    if (v->has_base) {
        js_set(&line, "baseline", json_real(v->base.median));
        js_set(&line, "ratio", json_real(v->ratio.median));
    }
    if (v->has_limit) {
        js_set(&line, "limit", json_real(v->limit.median));
        js_set(&line, "part", json_real(v->part.median));
    }
    js_set(&line, "least", json_real(s->least));
    js_set(&line, "most", json_real(s->most));
    js_set(&line, "rounds", json_integer(v->n));
    if (l->goal)
        js_set(&line, "goal", js_text(l->goal));
    js_append(&lines, line);
}

/* Of the ratios, round by round. */
static spread ratio_of(const double *ours, const double *other, int n) {
    double by_round[ROUNDS_MAX] = {0};
    for (int i = 0; i < n; i++)
        by_round[i] = other[i] != 0 ? ours[i] / other[i] : 0;
    return spread_of(by_round, n);
}

void report_within(const label *l, const double *ours, const double *base, const double *limit,
                   int n) {
    values v = {.ours = spread_of(ours, n), .has_base = base, .has_limit = limit, .n = n};
    if (base) {
        v.base = spread_of(base, n);
        v.ratio = ratio_of(ours, base, n);
    }
    if (limit) {
        v.limit = spread_of(limit, n);
        v.part = ratio_of(ours, limit, n);
    }
    json_t *line = begin_line(l->row, l->regime);
    print_line(l, &v);
    write_line(line, l, &v);
}

void report(const label *l, const double *ours, const double *base, int n) {
    report_within(l, ours, base, NULL, n);
}

void report_one(const label *l, double ours) {
    report(l, &ours, NULL, 1);
}

void report_two(const label *l, double ours, double base) {
    report(l, &ours, &base, 1);
}

void report_three(const label *l, double ours, double base, double limit) {
    report_within(l, &ours, &base, &limit, 1);
}
