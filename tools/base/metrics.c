/*
 * Prometheus' text format: labels in UTF-8 with escapes, base units, cumulative buckets.
 */
#include <inttypes.h>
#include <string.h>

#include "base/js.h"
#include "base/metrics.h"

#define US_PER_S INT64_C(1000000)

/* ---- the format ------------------------------------------------------------------------------ */

void metrics_head(const metrics *metrics, const char *name, const char *type, const char *help) {
    (void)fprintf(metrics->out, "# HELP tidelock_%s %s\n# TYPE tidelock_%s %s\n", name, help, name,
                  type);
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

/* Bytes that are not UTF-8 become characters, as in JSON. */
static void put_label(FILE *out, const metrics_label *label, const char *before) {
    json_t *text = js_text(label->value);
    const char *value = text ? json_string_value(text) : NULL;
    (void)fprintf(out, "%s%s=\"", before, label->name);
    put_value(out, value ? value : "");
    (void)fputc('"', out);
    json_decref(text);
}

static void begin_line(const metrics *metrics, const char *name, const metrics_label *label) {
    const char *before = "{";
    (void)fprintf(metrics->out, "tidelock_%s", name);
    for (int i = 0; i < METRICS_LABELS_MAX && metrics->label[i].name; i++) {
        put_label(metrics->out, &metrics->label[i], before);
        before = ",";
    }
    if (label) {
        put_label(metrics->out, label, before);
        before = ",";
    }
    (void)fputs(*before == ',' ? "} " : " ", metrics->out);
}

void metrics_int(const metrics *metrics, const char *name, const metrics_label *label,
                 int64_t value) {
    begin_line(metrics, name, label);
    (void)fprintf(metrics->out, "%" PRId64 "\n", value);
}

static void put_seconds(FILE *out, int64_t us) {
    uint64_t n = us < 0 ? -(uint64_t)us : (uint64_t)us;
    (void)fprintf(out, "%s%" PRIu64 ".%06" PRIu64, us < 0 ? "-" : "", n / US_PER_S, n % US_PER_S);
}

void metrics_seconds(const metrics *metrics, const char *name, const metrics_label *label,
                     int64_t us) {
    begin_line(metrics, name, label);
    put_seconds(metrics->out, us);
    (void)fputc('\n', metrics->out);
}

/* ---- a client -------------------------------------------------------------------------------- */

static void put_counter(const metrics *metrics, const char *name, const char *help, uint64_t n) {
    metrics_head(metrics, name, "counter", help);
    metrics_int(metrics, name, NULL, (int64_t)n);
}

/* Success is always present, so that a rate can be computed; a failure only once it has happened. */
static void put_results(const metrics *metrics, const char *name, const char *help,
                        const uint64_t results[TL_STATS_RESULTS]) {
    metrics_head(metrics, name, "counter", help);
    for (int i = 0; i < TL_STATS_RESULTS; i++) {
        const metrics_label result = {"result", tl_err_name((tl_err)i)};
        if (i == TL_OK || results[i] > 0)
            metrics_int(metrics, name, &result, (int64_t)results[i]);
    }
}

static void put_losses(const metrics *metrics, const tl_stats *stats) {
    static const struct {
        tl_lost_why why;
        const char *cause;
    } rows[] = {{TL_LOST_EXPIRED, "expired"}, {TL_LOST_TAKEN, "taken"},
                {TL_LOST_GONE, "gone"},       {TL_LOST_MAX_HOLD, "max_hold"},
                {TL_LOST_STALLED, "stalled"}, {TL_LOST_DISRUPTED, "disrupted"}};
    metrics_head(metrics, "losses_total", "counter",
                 "Locks that were lost while they were held, by cause.");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const metrics_label cause = {"cause", rows[i].cause};
        metrics_int(metrics, "losses_total", &cause, (int64_t)stats->lost[rows[i].why]);
    }
}

static void put_durations(const metrics *metrics, const char *name, const char *help,
                          const tl_durations *durations) {
    char line[64];
    uint64_t sum = 0;
    metrics_head(metrics, name, "histogram", help);
    (void)snprintf(line, sizeof line, "%s_bucket", name);
    for (int i = 0; i < TL_STATS_BUCKETS; i++) {
        char end[32] = "+Inf";
        if (i + 1 < TL_STATS_BUCKETS)
            (void)snprintf(end, sizeof end, "%" PRId64 ".%06" PRId64,
                           TL_STATS_BUCKET_US(i) / US_PER_S, TL_STATS_BUCKET_US(i) % US_PER_S);
        const metrics_label le = {"le", end};
        sum += durations->bucket[i];
        metrics_int(metrics, line, &le, (int64_t)sum);
    }
    (void)snprintf(line, sizeof line, "%s_sum", name);
    metrics_seconds(metrics, line, NULL, (int64_t)durations->sum_us);
    (void)snprintf(line, sizeof line, "%s_count", name);
    metrics_int(metrics, line, NULL, (int64_t)sum);
}

static void put_clock(const metrics *metrics, const tl_stats *stats) {
    if (stats->clocks == 0)
        return;
    metrics_head(
        metrics, "clock_offset_seconds", "gauge",
        "The server's clock minus this host's, when it was last measured; of several servers the "
        "one furthest off.");
    metrics_seconds(metrics, "clock_offset_seconds", NULL, stats->clock_offset_us);
    metrics_head(metrics, "clock_width_seconds", "gauge",
                 "The offset is at most half of this from the truth.");
    metrics_seconds(metrics, "clock_width_seconds", NULL, stats->clock_width_us);
}

void metrics_client(const metrics *metrics, const tl_stats *stats) {
    put_results(metrics, "acquires_total", "Calls that acquire, by result.", stats->acquires);
    put_results(metrics, "releases_total", "Calls that release, by result.", stats->releases);
    put_counter(metrics, "waited_total", "Acquisitions that found the lock held at first.",
                stats->waited);
    put_counter(metrics, "renewals_total", "Renewals that succeeded.", stats->renewals);
    put_counter(metrics, "renewals_failed_total", "Renewals that failed, and were tried again.",
                stats->renewals_failed);
    put_counter(metrics, "at_risk_total", "How often a lock was at risk.", stats->at_risk);
    put_losses(metrics, stats);
    put_counter(metrics, "connections_total", "Connections that were made to servers.",
                stats->connections);
    put_counter(metrics, "requests_unanswered_total", "Requests without a reply in time.",
                stats->unanswered);
    put_durations(metrics, "round_trip_seconds", "From a request to its reply.",
                  &stats->round_trips);
    put_durations(metrics, "wait_seconds", "From the call until the lock was held.", &stats->wait);
    put_durations(metrics, "hold_seconds",
                  "From the acquisition until the lock was released or lost.", &stats->hold);
    put_clock(metrics, stats);
}
