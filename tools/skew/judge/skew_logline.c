/*
 * Reads one line of a log. Other programs may write to the file, so everything is checked: numbers
 * are in range, intervals have lo <= hi, and pairs name existing hosts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "skew/judge/skew_logline.h"

#define AT_MOST_MS INT64_C(9300000000000) /* in 2264 */
#define OFFSET_MOST_US (INT64_C(400) * 365 * 86400 * 1000000)
#define PPB_MOST INT64_C(1000000000000)
#define SPAN_MOST_MS INT64_C(86400000) /* ms; largest lifetime or slack */
#define PAIRS_MOST 20000
#define OVER_MOST_US INT64_C(10000000) /* us; largest rounding */
#define COUNT_MOST INT64_C(1000000000000000)
#define WARN_USUAL 50

/* ---- the head ------------------------------------------------------------------------------------ */

static bool number(const json_t *json, const char *name, int64_t least, int64_t most,
                   int64_t *ret) {
    const json_t *member = json_object_get(json, name);

    *ret = json_integer_value(member);
    return json_is_integer(member) && *ret >= least && *ret <= most;
}

static bool verdict_of(const json_t *json, skew_verdict *ret) {
    for (int i = SKEW_SAFE; i <= (int)SKEW_UNKNOWN; i++)
        if (js_is(json, skew_verdict_name((skew_verdict)i))) {
            *ret = (skew_verdict)i;
            return true;
        }
    return false;
}

/* Older lines lack such a member. */
static bool is_true(const json_t *json, const char *name) {
    return json_is_true(json_object_get(json, name));
}

bool logline_head(const json_t *line, skew_result *result, const char **ret_why) {
    int64_t lifetime, slack, warn, early = 0, late = 0;

    *ret_why = NULL;
    if (!number(line, "at_ms", 1, AT_MOST_MS, &result->at_ms))
        *ret_why = "it has no time (at_ms)";
    else if (!verdict_of(json_object_get(line, "verdict"), &result->verdict))
        *ret_why = "it has no verdict";
    else if (!number(line, "lock_timeout_ms", 1, SPAN_MOST_MS, &lifetime) ||
             !number(line, "slack_ms", -SPAN_MOST_MS, SPAN_MOST_MS, &slack))
        *ret_why = "its lifetime or slack is malformed";
    else if ((json_object_get(line, "early_us") &&
              !number(line, "early_us", 0, OVER_MOST_US, &early)) ||
             (json_object_get(line, "late_us") && !number(line, "late_us", 0, OVER_MOST_US, &late)))
        *ret_why = "its rounding of stamps is malformed";
    if (*ret_why)
        return false;
    /* The longest hold is left out, because a report uses the slack. Older lines have another name
     * for `assumed`. */
    result->rule = (skew_rule){
        .lock_timeout_us = lifetime * 1000,
        .slack_us = slack * 1000,
        .longest_hold_assumed = is_true(line, "longest_hold_assumed") ||
                                is_true(line, "max_hold_assumed"),
        .warn_percent = number(line, "warn_percent", 0, 100, &warn) ? (int32_t)warn : WARN_USUAL,
        .drift_ppm = SKEW_DRIFT_PPM,
        .early_us = early,
        .late_us = late};
    return true;
}

/* ---- hosts ---------------------------------------------------------------------------------------- */

static const char *instrument_of(const json_t *json) {
    static const char *const names[] = {"server", "agent",  "passive",   "chrony",
                                        "ntp",    "kernel", "clockbound"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (js_is(json, names[i]))
            return names[i];
    return "other";
}

/* Older lines have no kind, and mean clocks. */
static skew_kind kind_of_line(const json_t *json) {
    for (int i = SKEW_CLOCK; i <= (int)SKEW_REMARK; i++)
        if (js_is(json, skew_kind_name((skew_kind)i)))
            return (skew_kind)i;
    return SKEW_CLOCK;
}

/* Reads null, or edges in thousandths of the unit. */
static bool interval(const json_t *json, int64_t most, bool *ret_known, tl_interval *ret) {
    *ret_known = json_is_object(json);
    if (!*ret_known)
        return json_is_null(json);
    return js_thousandths(json_object_get(json, "lo"), &ret->lo) &&
           js_thousandths(json_object_get(json, "hi"), &ret->hi) && ret->lo <= ret->hi &&
           ret->lo >= -most && ret->hi <= most;
}

static bool age_of(const json_t *json, int64_t *ret) {
    const json_t *age = json_object_get(json, "age_ms");

    if (age && !json_is_null(age))
        return number(json, "age_ms", 0, COUNT_MOST, ret);
    *ret = -1;
    return true;
}

static bool host_of(const json_t *json, skew_host *host) {
    int64_t slew = 0;

    *host = (skew_host){.instrument = instrument_of(json_object_get(json, "instrument"))};
    if (!js_copy(json_object_get(json, "name"), host->name, sizeof host->name) || !host->name[0] ||
        !interval(json_object_get(json, "offset_ms"), OFFSET_MOST_US, &host->known,
                  &host->offset) ||
        !interval(json_object_get(json, "drift_ppm"), PPB_MOST, &host->has_drift,
                  &host->drift_ppb) ||
        !age_of(json, &host->age_ms) || !number(json, "samples", 0, COUNT_MOST, &host->samples))
        return false;
    if (json_object_get(json, "slew_ppm") && !number(json, "slew_ppm", 0, 1000000, &slew))
        return false;
    host->slew_ppm = (int32_t)slew;
    host->kind = kind_of_line(json_object_get(json, "kind"));
    host->self = is_true(json, "self");
    host->missing = is_true(json, "missing");
    host->unsteady = js_is(json_object_get(json, "status"), "unsteady");
    host->status = host->missing    ? "missing"
                   : host->unsteady ? "unsteady"
                   : host->known    ? "ok"
                                    : "unknown";
    if (!js_copy(json_object_get(json, "detail"), host->detail, sizeof host->detail))
        host->detail[0] = '\0';
    return true;
}

bool logline_host(const json_t *line, size_t at, skew_host *host, const char **ret_why) {
    const json_t *hosts = json_object_get(line, "hosts");

    *ret_why = NULL;
    if (!json_is_array(hosts)) {
        *ret_why = "it has no hosts";
        return false;
    }
    if (at >= json_array_size(hosts))
        return false;
    if (host_of(json_array_get(hosts, at), host))
        return true;
    *ret_why = "its entry of a host is malformed";
    return false;
}

/* ---- the complete result -------------------------------------------------------------------- */

static int host_named(const skew_result *result, const json_t *name) {
    char text[SKEW_NAME_SIZE];
    int found = -1;

    if (!js_copy(name, text, sizeof text))
        return -1;
    for (int i = 0; i < result->host_count; i++)
        if (strcmp(result->hosts[i].name, text) == 0 && skew_is_clock(result->hosts[i].kind) &&
            (found < 0 || !result->hosts[found].known))
            found = i;
    return found;
}

static bool pair_of_line(const json_t *json, const skew_result *result, skew_pair *pair) {
    bool known;

    pair->holder = host_named(result, json_object_get(json, "holder"));
    pair->taker = host_named(result, json_object_get(json, "taker"));
    return pair->holder >= 0 && pair->taker >= 0 &&
           interval(json_object_get(json, "gap_ms"), 2 * OFFSET_MOST_US, &known, &pair->gap) &&
           known && verdict_of(json_object_get(json, "verdict"), &pair->verdict);
}

bool logline_worst(const json_t *line, tl_interval *ret_gap) {
    const json_t *worst = json_object_get(line, "worst");
    bool known;

    return interval(json_object_get(worst, "gap_ms"), 2 * OFFSET_MOST_US, &known, ret_gap) && known;
}

/* Older lines do not say how many pairs there were. */
static size_t count_pairs(const json_t *line, size_t listed) {
    int64_t total;
    return number(line, "pairs_total", (int64_t)listed, COUNT_MOST, &total) ? (size_t)total
                                                                            : listed;
}

static bool make_room(const json_t *line, skew_result *result) {
    size_t hosts = json_array_size(json_object_get(line, "hosts")),
           pairs = json_array_size(json_object_get(line, "pairs"));

    result->host_count = 0;
    result->pair_count = 0;
    result->hosts = calloc(hosts + 1, sizeof *result->hosts);
    result->pairs = calloc(pairs + 1, sizeof *result->pairs);
    return result->hosts && result->pairs;
}

static void read_words(const json_t *line, skew_result *result) {
    const json_t *advice = json_object_get(line, "advice");

    if (!js_copy(json_object_get(line, "reason"), result->reason, sizeof result->reason))
        result->reason[0] = '\0';
    if (!js_copy(json_object_get(line, "cause"), result->cause_text, sizeof result->cause_text))
        result->cause_text[0] = '\0';
    if (!js_copy(json_object_get(line, "server"), result->server, sizeof result->server))
        result->server[0] = '\0';
    result->advices = 0;
    for (size_t i = 0; i < json_array_size(advice) &&
                       result->advices < (int)(sizeof result->advice / sizeof *result->advice);
         i++)
        if (js_copy(json_array_get(advice, i), result->advice[result->advices],
                    sizeof result->advice[0]))
            result->advices++;
}

bool logline_all(const json_t *line, skew_result *result, const char **ret_why) {
    const json_t *pairs = json_object_get(line, "pairs");

    *result = (skew_result){.hosts = NULL};
    if (!logline_head(line, result, ret_why) || !make_room(line, result))
        return false;
    while (
        logline_host(line, (size_t)result->host_count, &result->hosts[result->host_count], ret_why))
        result->host_count++;
    if (*ret_why)
        return false;
    for (size_t i = 0; i < json_array_size(pairs) && result->pair_count < PAIRS_MOST; i++)
        if (pair_of_line(json_array_get(pairs, i), result, &result->pairs[result->pair_count]))
            result->pair_count++;
    result->pairs_total = count_pairs(line, result->pair_count);
    read_words(line, result);
    return true;
}

void logline_end(skew_result *result) {
    free(result->hosts);
    free(result->pairs);
    *result = (skew_result){.hosts = NULL};
}
