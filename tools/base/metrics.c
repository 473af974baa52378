/*
 * What Prometheus' text format asks for: labels in UTF-8 with their escapes, base units, buckets that add up.
 */
#include <inttypes.h>
#include <string.h>

#include "base/js.h"
#include "base/metrics.h"

#define US_PER_S INT64_C(1000000)

/* ---- the format ------------------------------------------------------------------------------ */

void metrics_head(const metrics *m, const char *name, const char *type, const char *help) {
    (void)fprintf(m->out, "# HELP tidelock_%s %s\n# TYPE tidelock_%s %s\n", name, help, name, type);
}

static void put_value(FILE *out, const char *text) {
    for (const char *p = text; *p; p++) {
        if (*p == '\n')
            (void)fputs("\\n", out);
        else if (*p == '"' || *p == '\\')
            (void)fprintf(out, "\\%c", *p);
        else
            (void)fputc(*p, out);
    }
}

/* Bytes that are no UTF-8 become characters, as in JSON. */
static void put_label(FILE *out, const metrics_label *label, const char *before) {
    json_t *text = js_text(label->value);
    const char *value = text ? json_string_value(text) : NULL;
    (void)fprintf(out, "%s%s=\"", before, label->name);
    put_value(out, value ? value : "");
    (void)fputc('"', out);
    json_decref(text);
}

static void begin_line(const metrics *m, const char *name, const metrics_label *label) {
    const char *before = "{";
    (void)fprintf(m->out, "tidelock_%s", name);
    for (int i = 0; i < METRICS_LABELS_MAX && m->label[i].name; i++) {
        put_label(m->out, &m->label[i], before);
        before = ",";
    }
    if (label) {
        put_label(m->out, label, before);
        before = ",";
    }
    (void)fputs(*before == ',' ? "} " : " ", m->out);
}

void metrics_int(const metrics *m, const char *name, const metrics_label *label, int64_t value) {
    begin_line(m, name, label);
    (void)fprintf(m->out, "%" PRId64 "\n", value);
}

static void put_seconds(FILE *out, int64_t us) {
    uint64_t n = us < 0 ? -(uint64_t)us : (uint64_t)us;
    (void)fprintf(out, "%s%" PRIu64 ".%06" PRIu64, us < 0 ? "-" : "", n / US_PER_S, n % US_PER_S);
}

void metrics_seconds(const metrics *m, const char *name, const metrics_label *label, int64_t us) {
    begin_line(m, name, label);
    put_seconds(m->out, us);
    (void)fputc('\n', m->out);
}

/* ---- a client -------------------------------------------------------------------------------- */

static void put_counter(const metrics *m, const char *name, const char *help, uint64_t n) {
    metrics_head(m, name, "counter", help);
    metrics_int(m, name, NULL, (int64_t)n);
}

/* Success is always there, so that a rate can be had; of failures those that there were. */
static void put_results(const metrics *m, const char *name, const char *help,
                        const uint64_t results[TL_STATS_RESULTS]) {
    metrics_head(m, name, "counter", help);
    for (int i = 0; i < TL_STATS_RESULTS; i++) {
        const metrics_label result = {"result", tl_err_name((tl_err)i)};
        if (i == TL_OK || results[i] > 0)
            metrics_int(m, name, &result, (int64_t)results[i]);
    }
}

static void put_losses(const metrics *m, const tl_stats *s) {
    static const struct {
        tl_lost_why why;
        const char *cause;
    } rows[] = {{TL_LOST_EXPIRED, "expired"},
                {TL_LOST_TAKEN, "taken"},
                {TL_LOST_GONE, "gone"},
                {TL_LOST_MAX_HOLD, "max_hold"}};
    metrics_head(m, "losses_total", "counter",
                 "Locks that were lost while they were held, by cause.");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const metrics_label cause = {"cause", rows[i].cause};
        metrics_int(m, "losses_total", &cause, (int64_t)s->lost[rows[i].why]);
    }
}

static void put_durations(const metrics *m, const char *name, const char *help,
                          const tl_durations *d) {
    char line[64];
    uint64_t sum = 0;
    metrics_head(m, name, "histogram", help);
    (void)snprintf(line, sizeof line, "%s_bucket", name);
    for (int i = 0; i < TL_STATS_BUCKETS; i++) {
        char end[32] = "+Inf";
        if (i + 1 < TL_STATS_BUCKETS)
            (void)snprintf(end, sizeof end, "%" PRId64 ".%06" PRId64,
                           TL_STATS_BUCKET_US(i) / US_PER_S, TL_STATS_BUCKET_US(i) % US_PER_S);
        const metrics_label le = {"le", end};
        sum += d->bucket[i];
        metrics_int(m, line, &le, (int64_t)sum);
    }
    (void)snprintf(line, sizeof line, "%s_sum", name);
    metrics_seconds(m, line, NULL, (int64_t)d->sum_us);
    (void)snprintf(line, sizeof line, "%s_count", name);
    metrics_int(m, line, NULL, (int64_t)sum);
}

static void put_clock(const metrics *m, const tl_stats *s) {
    if (s->clocks == 0)
        return;
    metrics_head(
        m, "clock_offset_seconds", "gauge",
        "The server's clock less this host's, as last told; of several the one furthest off.");
    metrics_seconds(m, "clock_offset_seconds", NULL, s->clock_offset_us);
    metrics_head(m, "clock_width_seconds", "gauge",
                 "The offset is at most half of this from the truth.");
    metrics_seconds(m, "clock_width_seconds", NULL, s->clock_width_us);
}

void metrics_client(const metrics *m, const tl_stats *s) {
    put_results(m, "acquires_total", "Calls that acquire, by result.", s->acquires);
    put_results(m, "releases_total", "Calls that release, by result.", s->releases);
    put_counter(m, "waited_total", "Acquisitions that found the lock held at first.", s->waited);
    put_counter(m, "renewals_total", "Renewals that succeeded.", s->renewals);
    put_counter(m, "renewals_failed_total", "Renewals that failed, and were tried again.",
                s->renewals_failed);
    put_counter(m, "at_risk_total", "How often a lock was at risk.", s->at_risk);
    put_losses(m, s);
    put_counter(m, "connections_total", "Connections that were made to servers.", s->connections);
    put_counter(m, "requests_unanswered_total", "Requests that were not answered in time.",
                s->unanswered);
    put_durations(m, "round_trip_seconds", "From a request to its answer.", &s->round_trips);
    put_durations(m, "wait_seconds", "From the call until the lock was held.", &s->wait);
    put_clock(m, s);
}
