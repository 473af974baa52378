/*
 * The faces of a result for machines: JSON, a Nagios line, Prometheus' text. Names are of letters,
 * digits and . _ : - alone, so that they need no quoting; free text gets it.
 */
#include <stdlib.h>

#include "base/js.h"
#include "skew/show/skew_show.h"

/* Microseconds as a number of seconds, without a float. */
static void put_s(FILE *out, int64_t us) {
    (void)fprintf(out, "%s%llu.%06llu", us < 0 ? "-" : "", (unsigned long long)llabs(us) / 1000000,
                  (unsigned long long)llabs(us) % 1000000);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *host_json(const skew_host *h, bool logged) {
    json_t *j = json_pack("{s:o, s:o}", "name", js_text(h->name), "instrument",
                          js_text(h->instrument));

    js_set(&j, "offset_ms", js_interval(h->known, h->offset));
    js_set(&j, "drift_ppm", js_interval(h->known && h->has_drift, h->drift_ppb));
    js_set(&j, "age_ms", js_known(h->age_ms));
    js_set(&j, "samples", json_integer(h->samples));
    js_set(&j, "status", js_text(h->status));
    js_set(&j, "detail", js_text(h->detail));
    js_set(&j, "self", json_boolean(h->self));
    js_set(&j, "missing", json_boolean(h->missing));
    if (logged) {
        js_set(&j, "slew_ppm", json_integer(h->slew_ppm));
        js_set(&j, "kind", js_text(skew_kind_name(h->kind)));
    }
    return j;
}

static json_t *pair_json(const skew_result *r, const skew_pair *p) {
    return json_pack("{s:o, s:o, s:o, s:s}", "holder", js_text(r->hosts[p->holder].name), "taker",
                     js_text(r->hosts[p->taker].name), "gap_ms", js_interval(true, p->gap),
                     "verdict", skew_verdict_name(p->verdict));
}

/* What stands before the pairs. */
static json_t *head_json(const skew_result *r, bool logged) {
    const skew_rule *rule = &r->rule;
    json_t *j = json_object(), *hosts = json_array();

    if (logged)
        js_set(&j, "at_ms", json_integer(r->at_ms));
    js_set(&j, "verdict", js_text(skew_verdict_name(r->verdict)));
    js_set(&j, "reason", js_text(r->reason));
    js_set(&j, "lock_timeout_ms", json_integer(rule->lock_timeout_us / 1000));
    js_set(&j, "longest_hold_ms", json_integer(rule->longest_hold_us / 1000));
    js_set(&j, "longest_hold_assumed", json_boolean(rule->longest_hold_assumed));
    js_set(&j, "slack_ms", json_integer(rule->slack_us / 1000));
    js_set(&j, "warn_percent", json_integer(rule->warn_percent));
    if (logged) {
        js_set(&j, "early_us", json_integer(rule->early_us));
        js_set(&j, "late_us", json_integer(rule->late_us));
    }
    if (logged && r->server[0])
        js_set(&j, "server", js_text(r->server));
    for (int i = 0; i < r->host_count; i++)
        js_append(&hosts, host_json(&r->hosts[i], logged));
    js_set(&j, "hosts", hosts);
    return j;
}

static json_t *tail_json(const skew_result *r) {
    json_t *advice = json_array();

    for (int i = 0; i < r->advices; i++)
        js_append(&advice, js_text(r->advice[i]));
    json_t *j = json_pack("{s:o, s:o}", "worst",
                          r->pair_count ? pair_json(r, &r->pairs[0]) : json_null(), "advice",
                          advice);
    if (r->cost)
        js_set(&j, "cost", js_text(r->cost));
    return j;
}

static void put_result(FILE *out, const skew_result *r, bool logged) {
    size_t pairs = logged && r->pair_count > SKEW_LOG_PAIRS ? SKEW_LOG_PAIRS : r->pair_count;

    (void)fputc('{', out);
    js_put(head_json(r, logged), JSON_EMBED, out);
    (void)fputs(",\"pairs\":[", out);
    for (size_t i = 0; i < pairs; i++) {
        (void)fputs(i ? "," : "", out);
        js_put(pair_json(r, &r->pairs[i]), 0, out);
    }
    (void)fputs("],", out);
    js_put(tail_json(r), JSON_EMBED, out);
    (void)fputs("}\n", out);
}

void skew_show_json(const skew_result *r, FILE *out) {
    put_result(out, r, false);
}

void skew_show_log(const skew_result *r, FILE *out) {
    put_result(out, r, true);
}

/* ---- Nagios ----------------------------------------------------------------------------------- */

void skew_show_nagios(const skew_result *r, FILE *out) {
    static const char *const names[] = {"OK", "WARNING", "CRITICAL", "UNKNOWN"};
    int known = 0, missing = 0;

    for (int i = 0; i < r->host_count; i++) {
        known += r->hosts[i].known && !r->hosts[i].missing;
        missing += r->hosts[i].missing;
    }
    (void)fprintf(out, "SKEW %s - ", names[r->verdict]);
    for (const char *c = r->reason; *c; c++)
        (void)fputc(*c == '|' ? '/' : *c, out); /* which begins the performance data */
    (void)fprintf(out, " | hosts=%d measured=%d missing=%d", r->host_count, known, missing);
    if (r->pair_count) {
        (void)fputs(" worst_gap=", out);
        put_s(out, r->pairs[0].gap.hi);
        (void)fputs("s;", out);
        put_s(out, r->rule.slack_us / 100 * r->rule.warn_percent);
        (void)fputc(';', out);
        put_s(out, r->rule.slack_us);
    }
    (void)fputc('\n', out);
}

/* ---- Prometheus -------------------------------------------------------------------------------- */

static void head(FILE *out, const char *name, const char *help) {
    (void)fprintf(out, "# HELP tidelock_skew_%s %s\n# TYPE tidelock_skew_%s gauge\n", name, help,
                  name);
}

static void edges(FILE *out, const char *labels, tl_interval i) {
    (void)fprintf(out, "%s,edge=\"lo\"} ", labels);
    put_s(out, i.lo);
    (void)fprintf(out, "\n%s,edge=\"hi\"} ", labels);
    put_s(out, i.hi);
    (void)fputc('\n', out);
}

static void put_metric(FILE *out, const char *name, const char *help, int64_t us) {
    head(out, name, help);
    (void)fprintf(out, "tidelock_skew_%s ", name);
    put_s(out, us);
    (void)fputc('\n', out);
}

/* A host whose agent has gone is not known, whatever is left of what it said; its age grows. */
static void put_presence(FILE *out, const skew_result *r) {
    head(out, "host_known", "1 if the host's clock is measured.");
    for (int i = 0; i < r->host_count; i++)
        (void)fprintf(out, "tidelock_skew_host_known{host=\"%s\",instrument=\"%s\"} %d\n",
                      r->hosts[i].name, r->hosts[i].instrument,
                      r->hosts[i].known && !r->hosts[i].missing);
    head(out, "host_missing", "1 if the host is expected and missing.");
    for (int i = 0; i < r->host_count; i++)
        (void)fprintf(out, "tidelock_skew_host_missing{host=\"%s\",instrument=\"%s\"} %d\n",
                      r->hosts[i].name, r->hosts[i].instrument, r->hosts[i].missing);
    head(out, "host_age_seconds", "How old the evidence of the host's clock is.");
    for (int i = 0; i < r->host_count; i++) {
        if (r->hosts[i].age_ms < 0)
            continue;
        (void)fprintf(out, "tidelock_skew_host_age_seconds{host=\"%s\",instrument=\"%s\"} ",
                      r->hosts[i].name, r->hosts[i].instrument);
        put_s(out, tl__mul_sat(r->hosts[i].age_ms, 1000));
        (void)fputc('\n', out);
    }
}

static void put_widths(FILE *out, const skew_result *r) {
    head(out, "width_seconds", "How far these bounds are apart.");
    for (int i = 0; i < r->host_count; i++) {
        if (!r->hosts[i].known)
            continue;
        (void)fprintf(out, "tidelock_skew_width_seconds{host=\"%s\",instrument=\"%s\"} ",
                      r->hosts[i].name, r->hosts[i].instrument);
        put_s(out, tl__add_sat(r->hosts[i].offset.hi, -r->hosts[i].offset.lo));
        (void)fputc('\n', out);
    }
}

void skew_show_prometheus(const skew_result *r, FILE *out) {
    char labels[256];

    head(out, "verdict", "0 safe, 1 warning, 2 unsafe, 3 unknown.");
    (void)fprintf(out, "tidelock_skew_verdict %d\n", (int)r->verdict);
    put_metric(out, "lock_timeout_seconds", "Lifetime of the locks.", r->rule.lock_timeout_us);
    put_metric(out, "slack_seconds", "Lifetime less the longest hold.", r->rule.slack_us);
    head(out, "longest_hold_assumed", "1 if the longest hold is assumed, not given.");
    (void)fprintf(out, "tidelock_skew_longest_hold_assumed %d\n", r->rule.longest_hold_assumed);
    put_presence(out, r);
    head(out, "offset_seconds", "The host's clock less the server's, bounds.");
    for (int i = 0; i < r->host_count; i++) {
        if (!r->hosts[i].known)
            continue;
        (void)snprintf(labels, sizeof labels,
                       "tidelock_skew_offset_seconds{host=\"%s\",instrument=\"%s\"",
                       r->hosts[i].name, r->hosts[i].instrument);
        edges(out, labels, r->hosts[i].offset);
    }
    put_widths(out, r);
    if (r->pair_count == 0)
        return;
    head(out, "worst_gap_seconds", "How far the taker's clock is ahead of the holder's, bounds.");
    (void)snprintf(labels, sizeof labels,
                   "tidelock_skew_worst_gap_seconds{holder=\"%s\",taker=\"%s\"",
                   r->hosts[r->pairs[0].holder].name, r->hosts[r->pairs[0].taker].name);
    edges(out, labels, r->pairs[0].gap);
}
