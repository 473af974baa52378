/*
 * One line of a log. Others may write to the file, so nothing is taken on trust: what is read is in range,
 * its intervals are the right way up, and pairs speak of hosts that are there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "skew/judge/skew_logline.h"

#define AT_MOST_MS INT64_C(9300000000000) /* in 2264 */
#define OFFSET_MOST_US (INT64_C(400) * 365 * 86400 * 1000000)
#define PPB_MOST INT64_C(1000000000000)
#define SPAN_MOST_MS INT64_C(86400000) /* of lifetimes and slacks */
#define PAIRS_MOST 20000
#define OVER_MOST_US INT64_C(10000000) /* rounding */
#define COUNT_MOST INT64_C(1000000000000000)
#define WARN_USUAL 50

/* ---- the head ------------------------------------------------------------------------------------ */

static bool number(const json_t *v, const char *name, int64_t least, int64_t most, int64_t *ret) {
    const json_t *member = json_object_get(v, name);

    *ret = json_integer_value(member);
    return json_is_integer(member) && *ret >= least && *ret <= most;
}

static bool verdict_of(const json_t *v, skew_verdict *ret) {
    for (int i = SKEW_SAFE; i <= (int)SKEW_UNKNOWN; i++)
        if (js_is(v, skew_verdict_name((skew_verdict)i))) {
            *ret = (skew_verdict)i;
            return true;
        }
    return false;
}

/* Lines of before it was told have no such member. */
static bool is_true(const json_t *v, const char *name) {
    return json_is_true(json_object_get(v, name));
}

bool logline_head(const json_t *line, skew_result *r, const char **ret_why) {
    int64_t lifetime, slack, warn, early = 0, late = 0;

    *ret_why = NULL;
    if (!number(line, "at_ms", 1, AT_MOST_MS, &r->at_ms))
        *ret_why = "it has no time (at_ms)";
    else if (!verdict_of(json_object_get(line, "verdict"), &r->verdict))
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
    /* The longest hold is left out: what a report says goes by the slack. Older lines have another name for what was assumed. */
    r->rule = (skew_rule){
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

static const char *instrument_of(const json_t *v) {
    static const char *const names[] = {"server", "agent", "passive", "chrony", "ntp", "kernel"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (js_is(v, names[i]))
            return names[i];
    return "other";
}

/* Lines of before there were kinds speak of clocks. */
static skew_kind kind_of_line(const json_t *v) {
    for (int i = SKEW_CLOCK; i <= (int)SKEW_REMARK; i++)
        if (js_is(v, skew_kind_name((skew_kind)i)))
            return (skew_kind)i;
    return SKEW_CLOCK;
}

/* Null, or edges in thousandths of the unit. */
static bool interval(const json_t *v, int64_t most, bool *ret_known, tl_interval *ret) {
    *ret_known = json_is_object(v);
    if (!*ret_known)
        return json_is_null(v);
    return js_thousandths(json_object_get(v, "lo"), &ret->lo) &&
           js_thousandths(json_object_get(v, "hi"), &ret->hi) && ret->lo <= ret->hi &&
           ret->lo >= -most && ret->hi <= most;
}

static bool age_of(const json_t *v, int64_t *ret) {
    const json_t *age = json_object_get(v, "age_ms");

    if (age && !json_is_null(age))
        return number(v, "age_ms", 0, COUNT_MOST, ret);
    *ret = -1;
    return true;
}

static bool host_of(const json_t *v, skew_host *h) {
    int64_t slew = 0;

    *h = (skew_host){.instrument = instrument_of(json_object_get(v, "instrument"))};
    if (!js_copy(json_object_get(v, "name"), h->name, sizeof h->name) || !h->name[0] ||
        !interval(json_object_get(v, "offset_ms"), OFFSET_MOST_US, &h->known, &h->offset) ||
        !interval(json_object_get(v, "drift_ppm"), PPB_MOST, &h->has_drift, &h->drift_ppb) ||
        !age_of(v, &h->age_ms) || !number(v, "samples", 0, COUNT_MOST, &h->samples))
        return false;
    if (json_object_get(v, "slew_ppm") && !number(v, "slew_ppm", 0, 1000000, &slew))
        return false;
    h->slew_ppm = (int32_t)slew;
    h->kind = kind_of_line(json_object_get(v, "kind"));
    h->self = is_true(v, "self");
    h->missing = is_true(v, "missing");
    h->unsteady = js_is(json_object_get(v, "status"), "unsteady");
    h->status = h->missing ? "missing" : h->unsteady ? "unsteady" : h->known ? "ok" : "unknown";
    if (!js_copy(json_object_get(v, "detail"), h->detail, sizeof h->detail))
        h->detail[0] = '\0';
    return true;
}

bool logline_host(const json_t *line, size_t at, skew_host *h, const char **ret_why) {
    const json_t *hosts = json_object_get(line, "hosts");

    *ret_why = NULL;
    if (!json_is_array(hosts)) {
        *ret_why = "it has no hosts";
        return false;
    }
    if (at >= json_array_size(hosts))
        return false;
    if (host_of(json_array_get(hosts, at), h))
        return true;
    *ret_why = "its entry of a host is malformed";
    return false;
}

/* ---- all of it ----------------------------------------------------------------------------------- */

static int host_named(const skew_result *r, const json_t *name) {
    char text[SKEW_NAME_SIZE];
    int found = -1;

    if (!js_copy(name, text, sizeof text))
        return -1;
    for (int i = 0; i < r->host_count; i++)
        if (strcmp(r->hosts[i].name, text) == 0 && skew_is_clock(r->hosts[i].kind) &&
            (found < 0 || !r->hosts[found].known))
            found = i;
    return found;
}

static bool pair_of_line(const json_t *v, const skew_result *r, skew_pair *p) {
    bool known;

    p->holder = host_named(r, json_object_get(v, "holder"));
    p->taker = host_named(r, json_object_get(v, "taker"));
    return p->holder >= 0 && p->taker >= 0 &&
           interval(json_object_get(v, "gap_ms"), 2 * OFFSET_MOST_US, &known, &p->gap) && known &&
           verdict_of(json_object_get(v, "verdict"), &p->verdict);
}

bool logline_worst(const json_t *line, tl_interval *ret_gap) {
    const json_t *worst = json_object_get(line, "worst");
    bool known;

    return interval(json_object_get(worst, "gap_ms"), 2 * OFFSET_MOST_US, &known, ret_gap) && known;
}

static bool make_room(const json_t *line, skew_result *r) {
    size_t hosts = json_array_size(json_object_get(line, "hosts")),
           pairs = json_array_size(json_object_get(line, "pairs"));

    r->host_count = 0;
    r->pair_count = 0;
    r->hosts = calloc(hosts + 1, sizeof *r->hosts);
    r->pairs = calloc(pairs + 1, sizeof *r->pairs);
    return r->hosts && r->pairs;
}

static void read_words(const json_t *line, skew_result *r) {
    const json_t *advice = json_object_get(line, "advice");

    if (!js_copy(json_object_get(line, "reason"), r->reason, sizeof r->reason))
        r->reason[0] = '\0';
    if (!js_copy(json_object_get(line, "server"), r->server, sizeof r->server))
        r->server[0] = '\0';
    r->advices = 0;
    for (size_t i = 0;
         i < json_array_size(advice) && r->advices < (int)(sizeof r->advice / sizeof *r->advice);
         i++)
        if (js_copy(json_array_get(advice, i), r->advice[r->advices], sizeof r->advice[0]))
            r->advices++;
}

bool logline_all(const json_t *line, skew_result *r, const char **ret_why) {
    const json_t *pairs = json_object_get(line, "pairs");

    *r = (skew_result){.hosts = NULL};
    if (!logline_head(line, r, ret_why) || !make_room(line, r))
        return false;
    while (logline_host(line, (size_t)r->host_count, &r->hosts[r->host_count], ret_why))
        r->host_count++;
    if (*ret_why)
        return false;
    for (size_t i = 0; i < json_array_size(pairs) && r->pair_count < PAIRS_MOST; i++)
        if (pair_of_line(json_array_get(pairs, i), r, &r->pairs[r->pair_count]))
            r->pair_count++;
    read_words(line, r);
    return true;
}

void logline_end(skew_result *r) {
    free(r->hosts);
    free(r->pairs);
    *r = (skew_result){.hosts = NULL};
}
