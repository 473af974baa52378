/*
 * The output formats for machines: JSON, a Nagios line, Prometheus' text. Names consist of letters,
 * digits and . _ : - and need no quoting; free text is quoted.
 */
#include <stdlib.h>

#include "base/js.h"
#include "skew/judge/skew_alarm.h"
#include "skew/judge/skew_cause.h"
#include "skew/show/skew_show.h"

/* Microseconds as a number of seconds, without a float. */
static void put_s(FILE *out, int64_t us) {
    (void)fprintf(out, "%s%llu.%06llu", us < 0 ? "-" : "", (unsigned long long)llabs(us) / 1000000,
                  (unsigned long long)llabs(us) % 1000000);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

#define SKEW_MEMBERS(M, of)                                                                        \
    M(of, verdict, "the verdict: SAFE, WARN, UNSAFE or UNKNOWN")                                   \
    M(of, reason, "why")                                                                           \
    M(of, lock_timeout_ms, "the option of that name")                                              \
    M(of, longest_hold_ms, "likewise")                                                             \
    M(of, longest_hold_assumed, "true: no option gives the longest hold")                          \
    M(of, slack_ms, "the slack")                                                                   \
    M(of, warn_percent, "the option *--warn*")                                                     \
    M(of, hosts, "an array of objects, see below")                                                 \
    M(of, pairs_total, "how many ordered pairs of measured hosts there are")                       \
    M(of, pairs_listed, "how many of them *pairs* lists")                                          \
    M(of, pairs,                                                                                   \
      "an array of objects, the worst first, see below. With more than a hundred hosts "           \
      "these are the 10,000 pairs with the largest gaps and the 10,000 such pairs that are "       \
      "_UNSAFE_, unless *--all-pairs* is given")                                                   \
    M(of, worst, "the first of the pairs, or null")                                                \
    M(of, cause, "which hosts cause the verdict, in words, or null")                               \
    M(of, causes,                                                                                  \
      "an array of objects, see below: the smallest sets of at most three hosts without which "    \
      "the clocks of the others are near each other. Several: each may be the cause")              \
    M(of, advice, "a list of sentences")                                                           \
    M(of, cost, "what it has cost the server to listen to legacy clients, in words")
MEMBERS(skew, SKEW_MEMBERS);

#define LOG_MEMBERS(M, of)                                                                         \
    M(of, at_ms, "when, on the server's clock")                                                    \
    M(of, early_us, "how much earlier than it says a stamp may end")                               \
    M(of, late_us, "how much later")                                                               \
    M(of, server, "which server's clock it was")
MEMBERS(log, LOG_MEMBERS);

#define HOST_MEMBERS(M, of)                                                                        \
    M(of, name, "the host")                                                                        \
    M(of, instrument,                                                                              \
      "_server_: measured now; _agent_: published; _passive_: seen by listening to legacy "        \
      "clients; _ntp_, _chrony_, _clockbound_, _kernel_: reported by a daemon or the kernel")      \
    M(of, offset_ms,                                                                               \
      "the host's clock less the server's, with lo and hi; null when unknown. Of "                 \
      "_chrony_, _clockbound_ and _kernel_ less the true time, as these believe")                  \
    M(of, drift_ppm, "the drift, with lo and hi; null when unknown")                               \
    M(of, age_ms, "the age of the newest evidence")                                                \
    M(of, samples, "how many measurements it consists of")                                         \
    M(of, status, "one of those below")                                                            \
    M(of, detail, "more about it, in words")                                                       \
    M(of, self, "true: this host")                                                                 \
    M(of, missing, "true: it is missing")
MEMBERS(host, HOST_MEMBERS);

#define LOG_HOST_MEMBERS(M, of)                                                                    \
    M(of, slew_ppm, "how fast its clock is being corrected")                                       \
    M(of, kind, "the kind of its row, for *skew report*")
MEMBERS(log_host, LOG_HOST_MEMBERS);

#define PAIR_MEMBERS(M, of)                                                                        \
    M(of, holder, "the host that holds")                                                           \
    M(of, taker, "the host whose clock lets it acquire too early")                                 \
    M(of, gap_ms, "by how much the taker's clock is ahead, with lo and hi")                        \
    M(of, verdict, "the verdict on this pair")
MEMBERS(pair, PAIR_MEMBERS);

#define CAUSE_MEMBERS(M, of)                                                                       \
    M(of, hosts, "the names of its hosts")                                                         \
    M(of, verdict, "the verdict on the other hosts")                                               \
    M(of, worst_gap_ms, "the gap of their worst pair, with lo and hi, or null")
MEMBERS(cause, CAUSE_MEMBERS);

static json_t *host_json(const skew_host *host, bool logged) {
    json_t *json = json_pack("{s:o, s:o}", name_of_host, js_text(host->name), instrument_of_host,
                             js_text(host->instrument));

    js_set(&json, offset_ms_of_host, js_interval(host->known, host->offset));
    js_set(&json, drift_ppm_of_host, js_interval(host->known && host->has_drift, host->drift_ppb));
    js_set(&json, age_ms_of_host, js_known(host->age_ms));
    js_set(&json, samples_of_host, json_integer(host->samples));
    js_set(&json, status_of_host, js_text(host->status));
    js_set(&json, detail_of_host, js_text(host->detail));
    js_set(&json, self_of_host, json_boolean(host->self));
    js_set(&json, missing_of_host, json_boolean(host->missing));
    if (logged) {
        js_set(&json, slew_ppm_of_log_host, json_integer(host->slew_ppm));
        js_set(&json, kind_of_log_host, js_text(skew_kind_name(host->kind)));
    }
    return json;
}

static json_t *pair_json(const skew_result *result, const skew_pair *pair) {
    return json_pack(
        "{s:o, s:o, s:o, s:s}", holder_of_pair, js_text(result->hosts[pair->holder].name),
        taker_of_pair, js_text(result->hosts[pair->taker].name), gap_ms_of_pair,
        js_interval(true, pair->gap), verdict_of_pair, skew_verdict_name(pair->verdict));
}

static json_t *cause_json(const skew_result *result, const skew_cause *cause) {
    json_t *hosts = json_array();

    for (int i = 0; i < cause->hosts; i++)
        js_append(&hosts, js_text(result->hosts[cause->host[i]].name));
    return json_pack("{s:o, s:s, s:o}", hosts_of_cause, hosts, verdict_of_cause,
                     skew_verdict_name(cause->verdict), worst_gap_ms_of_cause,
                     js_interval(cause->any_pair, cause->worst));
}

/* The members before the pairs. */
static json_t *head_json(const skew_result *result, bool logged) {
    const skew_rule *rule = &result->rule;
    json_t *json = json_object(), *hosts = json_array();

    if (logged)
        js_set(&json, at_ms_of_log, json_integer(result->at_ms));
    js_set(&json, verdict_of_skew, js_text(skew_verdict_name(result->verdict)));
    js_set(&json, reason_of_skew, js_text(result->reason));
    js_set(&json, lock_timeout_ms_of_skew, json_integer(rule->lock_timeout_us / 1000));
    js_set(&json, longest_hold_ms_of_skew, json_integer(rule->longest_hold_us / 1000));
    js_set(&json, longest_hold_assumed_of_skew, json_boolean(rule->longest_hold_assumed));
    js_set(&json, slack_ms_of_skew, json_integer(rule->slack_us / 1000));
    js_set(&json, warn_percent_of_skew, json_integer(rule->warn_percent));
    if (logged) {
        js_set(&json, early_us_of_log, json_integer(rule->early_us));
        js_set(&json, late_us_of_log, json_integer(rule->late_us));
    }
    if (logged && result->server[0])
        js_set(&json, server_of_log, js_text(result->server));
    for (int i = 0; i < result->host_count; i++)
        js_append(&hosts, host_json(&result->hosts[i], logged));
    js_set(&json, hosts_of_skew, hosts);
    return json;
}

static json_t *tail_json(const skew_result *result) {
    json_t *advice = json_array(), *causes = json_array();

    for (int i = 0; i < result->causes; i++)
        js_append(&causes, cause_json(result, &result->cause[i]));
    for (int i = 0; i < result->advices; i++)
        js_append(&advice, js_text(result->advice[i]));
    json_t *json = json_pack(
        "{s:o, s:o, s:o, s:o}", worst_of_skew,
        result->pair_count ? pair_json(result, &result->pairs[0]) : json_null(), cause_of_skew,
        js_text(result->cause_text[0] ? result->cause_text : NULL), causes_of_skew, causes,
        advice_of_skew, advice);
    if (result->cost)
        js_set(&json, cost_of_skew, js_text(result->cost));
    return json;
}

static void put_result(FILE *out, const skew_result *result, bool logged) {
    size_t pairs = logged && result->pair_count > SKEW_LOG_PAIRS ? SKEW_LOG_PAIRS
                                                                 : result->pair_count;

    (void)fputc('{', out);
    js_put(head_json(result, logged), JSON_EMBED, out);
    (void)fprintf(out, ",\"%s\":%zu,\"%s\":%zu,\"%s\":[", pairs_total_of_skew, result->pairs_total,
                  pairs_listed_of_skew, pairs, pairs_of_skew);
    for (size_t i = 0; i < pairs; i++) {
        (void)fputs(i ? "," : "", out);
        js_put(pair_json(result, &result->pairs[i]), 0, out);
    }
    (void)fputs("],", out);
    js_put(tail_json(result), JSON_EMBED, out);
    (void)fputs("}\n", out);
}

void skew_show_json(const skew_result *result, FILE *out) {
    put_result(out, result, false);
}

void skew_show_log(const skew_result *result, FILE *out) {
    put_result(out, result, true);
}

/* ---- Nagios ----------------------------------------------------------------------------------- */

/* A bar would begin the performance data. */
static void put_without_bars(FILE *out, const char *text) {
    for (const char *c = text; *c; c++)
        (void)fputc(*c == '|' ? '/' : *c, out);
}

void skew_show_nagios(const skew_result *result, FILE *out) {
    static const char *const names[] = {"OK", "WARNING", "CRITICAL", "UNKNOWN"};
    int known = 0, missing = 0;

    for (int i = 0; i < result->host_count; i++) {
        known += result->hosts[i].known && !result->hosts[i].missing;
        missing += result->hosts[i].missing;
    }
    (void)fprintf(out, "SKEW %s - ", names[result->verdict]);
    put_without_bars(out, result->reason);
    put_without_bars(out, result->cause_text[0] ? "; " : "");
    put_without_bars(out, result->cause_text);
    (void)fprintf(out, " | hosts=%d measured=%d missing=%d", result->host_count, known, missing);
    if (result->pair_count) {
        (void)fputs(" worst_gap=", out);
        put_s(out, result->pairs[0].gap.hi);
        (void)fputs("s;", out);
        put_s(out, result->rule.slack_us / 100 * result->rule.warn_percent);
        (void)fputc(';', out);
        put_s(out, result->rule.slack_us);
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

/* A host whose agent has ended is not known, whatever its last record says; its age grows. */
static void put_presence(FILE *out, const skew_result *result) {
    head(out, "host_known", "1 if the host's clock is measured.");
    for (int i = 0; i < result->host_count; i++)
        (void)fprintf(out, "tidelock_skew_host_known{host=\"%s\",instrument=\"%s\"} %d\n",
                      result->hosts[i].name, result->hosts[i].instrument,
                      result->hosts[i].known && !result->hosts[i].missing);
    head(out, "host_missing", "1 if the host is expected and missing.");
    for (int i = 0; i < result->host_count; i++)
        (void)fprintf(out, "tidelock_skew_host_missing{host=\"%s\",instrument=\"%s\"} %d\n",
                      result->hosts[i].name, result->hosts[i].instrument, result->hosts[i].missing);
    head(out, "host_age_seconds", "How old the evidence of the host's clock is.");
    for (int i = 0; i < result->host_count; i++) {
        if (result->hosts[i].age_ms < 0)
            continue;
        (void)fprintf(out, "tidelock_skew_host_age_seconds{host=\"%s\",instrument=\"%s\"} ",
                      result->hosts[i].name, result->hosts[i].instrument);
        put_s(out, tl__mul_sat(result->hosts[i].age_ms, 1000));
        (void)fputc('\n', out);
    }
}

static void put_widths(FILE *out, const skew_result *result) {
    head(out, "width_seconds", "How far these bounds are apart.");
    for (int i = 0; i < result->host_count; i++) {
        if (!result->hosts[i].known)
            continue;
        (void)fprintf(out, "tidelock_skew_width_seconds{host=\"%s\",instrument=\"%s\"} ",
                      result->hosts[i].name, result->hosts[i].instrument);
        put_s(out, tl__add_sat(result->hosts[i].offset.hi, -result->hosts[i].offset.lo));
        (void)fputc('\n', out);
    }
}

/* Only hosts that are or may be the cause have a line. */
static void put_causes(FILE *out, const skew_result *result) {
    head(out, "cause", "1 if the host's clock is or may be the cause of the verdict.");
    for (int i = 0; i < result->host_count; i++)
        if (skew_may_be_cause(result, i))
            (void)fprintf(out, "tidelock_skew_cause{host=\"%s\",instrument=\"%s\"} 1\n",
                          result->hosts[i].name, result->hosts[i].instrument);
}

/* Only hosts with an alarm have a line. */
static void put_alarms(FILE *out, const skew_result *result) {
    bool any = false;

    for (int i = 0; i < result->host_count; i++) {
        const skew_host *host = &result->hosts[i];
        if (host->alarm == SKEW_NO_ALARM)
            continue;
        if (!any)
            head(out, "hypervisor_alarm", "1 if the host's hypervisor warns of its clock.");
        any = true;
        (void)fprintf(
            out, "tidelock_skew_hypervisor_alarm{host=\"%s\",instrument=\"%s\",alarm=\"%s\"} 1\n",
            host->name, host->instrument, skew_alarm_name(host->alarm));
    }
}

void skew_show_prometheus(const skew_result *result, FILE *out) {
    char labels[256];

    head(out, "verdict", "0 safe, 1 warning, 2 unsafe, 3 unknown.");
    (void)fprintf(out, "tidelock_skew_verdict %d\n", (int)result->verdict);
    put_metric(out, "lock_timeout_seconds", "Lifetime of the locks.", result->rule.lock_timeout_us);
    put_metric(out, "slack_seconds", "Lifetime less the longest hold.", result->rule.slack_us);
    head(out, "longest_hold_assumed", "1 if the longest hold is assumed, not given.");
    (void)fprintf(out, "tidelock_skew_longest_hold_assumed %d\n",
                  result->rule.longest_hold_assumed);
    put_presence(out, result);
    head(out, "offset_seconds", "The host's clock less the server's, bounds.");
    for (int i = 0; i < result->host_count; i++) {
        if (!result->hosts[i].known)
            continue;
        (void)snprintf(labels, sizeof labels,
                       "tidelock_skew_offset_seconds{host=\"%s\",instrument=\"%s\"",
                       result->hosts[i].name, result->hosts[i].instrument);
        edges(out, labels, result->hosts[i].offset);
    }
    put_widths(out, result);
    put_causes(out, result);
    put_alarms(out, result);
    if (result->pair_count == 0)
        return;
    head(out, "worst_gap_seconds", "How far the taker's clock is ahead of the holder's, bounds.");
    (void)snprintf(
        labels, sizeof labels, "tidelock_skew_worst_gap_seconds{holder=\"%s\",taker=\"%s\"",
        result->hosts[result->pairs[0].holder].name, result->hosts[result->pairs[0].taker].name);
    edges(out, labels, result->pairs[0].gap);
}
