/*
 * The faces of a result for machines: JSON, a Nagios line, Prometheus' text. Names are of letters,
 * digits and . _ : - alone, so that they need no quoting; free text gets it.
 */
#include <stdlib.h>

#include "base/jsonbits.h"
#include "skew/show/skew_show.h"

/* Microseconds as a number of seconds, without a float. */
static void put_s(FILE *out, int64_t us) {
    (void)fprintf(out, "%s%llu.%06llu", us < 0 ? "-" : "", (unsigned long long)llabs(us) / 1000000,
                  (unsigned long long)llabs(us) % 1000000);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void put_host(FILE *out, const skew_host *h, bool logged) {
    (void)fputc('{', out);
    jsonbits_text(out, "name", h->name);
    (void)fputc(',', out);
    jsonbits_text(out, "instrument", h->instrument);
    (void)fputc(',', out);
    jsonbits_interval(out, "offset_ms", h->known, h->offset);
    (void)fputc(',', out);
    jsonbits_interval(out, "drift_ppm", h->known && h->has_drift, h->drift_ppb);
    if (h->age_ms < 0)
        (void)fputs(",\"age_ms\":null", out);
    else
        (void)fprintf(out, ",\"age_ms\":%lld", (long long)h->age_ms);
    (void)fprintf(out, ",\"samples\":%lld,", (long long)h->samples);
    jsonbits_text(out, "status", h->status);
    (void)fputc(',', out);
    jsonbits_text(out, "detail", h->detail);
    (void)fprintf(out, ",\"self\":%s,\"missing\":%s", h->self ? "true" : "false",
                  h->missing ? "true" : "false");
    if (logged)
        (void)fprintf(out, ",\"slew_ppm\":%d,\"kind\":\"%s\"", h->slew_ppm,
                      skew_kind_name(h->kind));
    (void)fputc('}', out);
}

static void put_pair(FILE *out, const skew_result *r, const skew_pair *p) {
    (void)fputc('{', out);
    jsonbits_text(out, "holder", r->hosts[p->holder].name);
    (void)fputc(',', out);
    jsonbits_text(out, "taker", r->hosts[p->taker].name);
    (void)fputc(',', out);
    jsonbits_interval(out, "gap_ms", true, p->gap);
    (void)fputc(',', out);
    jsonbits_text(out, "verdict", skew_verdict_name(p->verdict));
    (void)fputc('}', out);
}

static void put_rule(FILE *out, const skew_rule *rule) {
    (void)fprintf(out,
                  "\"lock_timeout_ms\":%lld,\"max_hold_ms\":%lld,\"max_hold_assumed\":%s,"
                  "\"slack_ms\":%lld,\"warn_percent\":%d,",
                  (long long)(rule->lock_timeout_us / 1000),
                  (long long)((rule->lock_timeout_us - rule->slack_us) / 1000),
                  rule->hold_assumed ? "true" : "false", (long long)(rule->slack_us / 1000),
                  (int)rule->warn_percent);
}

static void put_result(FILE *out, const skew_result *r, bool logged) {
    size_t pairs = logged && r->pair_count > SKEW_LOG_PAIRS ? SKEW_LOG_PAIRS : r->pair_count;

    (void)fputc('{', out);
    if (logged)
        (void)fprintf(out, "\"at_ms\":%lld,", (long long)r->at_ms);
    jsonbits_text(out, "verdict", skew_verdict_name(r->verdict));
    (void)fputc(',', out);
    jsonbits_text(out, "reason", r->reason);
    (void)fputc(',', out);
    put_rule(out, &r->rule);
    if (logged)
        (void)fprintf(out, "\"early_us\":%lld,\"late_us\":%lld,", (long long)r->rule.resolution_us,
                      (long long)r->rule.late_us);
    if (logged && r->server[0]) {
        jsonbits_text(out, "server", r->server);
        (void)fputc(',', out);
    }
    (void)fputs("\"hosts\":[", out);
    for (int i = 0; i < r->host_count; i++) {
        (void)fputs(i ? "," : "", out);
        put_host(out, &r->hosts[i], logged);
    }
    (void)fputs("],\"pairs\":[", out);
    for (size_t i = 0; i < pairs; i++) {
        (void)fputs(i ? "," : "", out);
        put_pair(out, r, &r->pairs[i]);
    }
    (void)fputs("],\"worst\":", out);
    if (r->pair_count)
        put_pair(out, r, &r->pairs[0]);
    else
        (void)fputs("null", out);
    (void)fputs(",\"advice\":[", out);
    for (int i = 0; i < r->advices; i++) {
        (void)fputs(i ? "," : "", out);
        jsonbits_quoted(out, r->advice[i]);
    }
    (void)fputc(']', out);
    if (r->cost) {
        (void)fputc(',', out);
        jsonbits_text(out, "cost", r->cost);
    }
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
    static const char *const words[] = {"OK", "WARNING", "CRITICAL", "UNKNOWN"};
    int known = 0, missing = 0;

    for (int i = 0; i < r->host_count; i++) {
        known += r->hosts[i].known && !r->hosts[i].missing;
        missing += r->hosts[i].missing;
    }
    (void)fprintf(out, "SKEW %s - ", words[r->verdict]);
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

void skew_show_prometheus(const skew_result *r, FILE *out) {
    char labels[256];

    head(out, "verdict", "0 safe, 1 warning, 2 unsafe, 3 unknown.");
    (void)fprintf(out, "tidelock_skew_verdict %d\n", (int)r->verdict);
    put_metric(out, "lock_timeout_seconds", "Lifetime of the locks.", r->rule.lock_timeout_us);
    put_metric(out, "slack_seconds", "Lifetime less the longest hold.", r->rule.slack_us);
    head(out, "max_hold_assumed", "1 if the longest hold is assumed, not given.");
    (void)fprintf(out, "tidelock_skew_max_hold_assumed %d\n", r->rule.hold_assumed);
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
    if (r->pair_count == 0)
        return;
    head(out, "worst_gap_seconds", "How far the taker's clock is ahead of the holder's, bounds.");
    (void)snprintf(labels, sizeof labels,
                   "tidelock_skew_worst_gap_seconds{holder=\"%s\",taker=\"%s\"",
                   r->hosts[r->pairs[0].holder].name, r->hosts[r->pairs[0].taker].name);
    edges(out, labels, r->pairs[0].gap);
}
