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

static bool number(const json_tree *t, const json_value *v, const char *name, int64_t least,
                   int64_t most, int64_t *ret) {
    return json_scaled(json_member_of(t, v, name), 0, ret) && *ret >= least && *ret <= most;
}

static bool verdict_of(const json_value *v, skew_verdict *ret) {
    for (int i = SKEW_SAFE; i <= (int)SKEW_UNKNOWN; i++)
        if (json_is(v, skew_verdict_name((skew_verdict)i))) {
            *ret = (skew_verdict)i;
            return true;
        }
    return false;
}

/* Lines of before it was told have no such member. */
static bool is_true(const json_tree *t, const json_value *v, const char *name) {
    const json_value *member = json_member_of(t, v, name);
    return member && member->kind == JSON_BOOL && member->text[0] == 't';
}

bool logline_head(const json_tree *t, skew_result *r, const char **ret_why) {
    const json_value *v = t->value;
    int64_t lifetime, slack, warn, early = 0, late = 0;

    *ret_why = NULL;
    if (v->kind != JSON_OBJECT || !number(t, v, "at_ms", 1, AT_MOST_MS, &r->at_ms))
        *ret_why = "it has no time (at_ms)";
    else if (!verdict_of(json_member_of(t, v, "verdict"), &r->verdict))
        *ret_why = "it has no verdict";
    else if (!number(t, v, "lock_timeout_ms", 1, SPAN_MOST_MS, &lifetime) ||
             !number(t, v, "slack_ms", -SPAN_MOST_MS, SPAN_MOST_MS, &slack))
        *ret_why = "its lifetime or slack is malformed";
    else if ((json_member_of(t, v, "early_us") &&
              !number(t, v, "early_us", 0, OVER_MOST_US, &early)) ||
             (json_member_of(t, v, "late_us") && !number(t, v, "late_us", 0, OVER_MOST_US, &late)))
        *ret_why = "its rounding of stamps is malformed";
    if (*ret_why)
        return false;
    r->rule.lock_timeout_us = lifetime * 1000;
    r->rule.slack_us = slack * 1000;
    r->rule.drift_ppm = SKEW_DRIFT_PPM;
    r->rule.resolution_us = early;
    r->rule.late_us = late;
    r->rule.hold_assumed = is_true(t, v, "max_hold_assumed");
    r->rule.warn_percent = number(t, v, "warn_percent", 0, 100, &warn) ? (int32_t)warn : WARN_USUAL;
    return true;
}

/* ---- hosts ---------------------------------------------------------------------------------------- */

static const char *instrument_of(const json_value *v) {
    static const char *const names[] = {"server", "agent", "passive", "chrony", "ntp", "kernel"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (json_is(v, names[i]))
            return names[i];
    return "other";
}

/* Lines of before there were kinds speak of clocks. */
static skew_kind kind_of_line(const json_value *v) {
    for (int i = SKEW_CLOCK; i <= (int)SKEW_REMARK; i++)
        if (json_is(v, skew_kind_name((skew_kind)i)))
            return (skew_kind)i;
    return SKEW_CLOCK;
}

/* Null, or edges in thousandths of the unit. */
static bool interval(const json_tree *t, const json_value *v, int64_t most, bool *ret_known,
                     tl_interval *ret) {
    *ret_known = v && v->kind == JSON_OBJECT;
    if (!*ret_known)
        return v && v->kind == JSON_NULL;
    return json_scaled(json_member_of(t, v, "lo"), 3, &ret->lo) &&
           json_scaled(json_member_of(t, v, "hi"), 3, &ret->hi) && ret->lo <= ret->hi &&
           ret->lo >= -most && ret->hi <= most;
}

static bool age_of(const json_tree *t, const json_value *v, int64_t *ret) {
    const json_value *age = json_member_of(t, v, "age_ms");

    *ret = -1;
    return !age || age->kind == JSON_NULL || number(t, v, "age_ms", 0, COUNT_MOST, ret);
}

static bool host_of(const json_tree *t, const json_value *v, skew_host *h) {
    int64_t slew = 0;

    *h = (skew_host){.instrument = instrument_of(json_member_of(t, v, "instrument"))};
    if (!json_copy(json_member_of(t, v, "name"), h->name, sizeof h->name) || !h->name[0] ||
        !interval(t, json_member_of(t, v, "offset_ms"), OFFSET_MOST_US, &h->known, &h->offset) ||
        !interval(t, json_member_of(t, v, "drift_ppm"), PPB_MOST, &h->has_drift, &h->drift_ppb) ||
        !age_of(t, v, &h->age_ms) || !number(t, v, "samples", 0, COUNT_MOST, &h->samples))
        return false;
    if (json_member_of(t, v, "slew_ppm") && !number(t, v, "slew_ppm", 0, 1000000, &slew))
        return false;
    h->slew_ppm = (int32_t)slew;
    h->kind = kind_of_line(json_member_of(t, v, "kind"));
    h->self = is_true(t, v, "self");
    h->missing = is_true(t, v, "missing");
    h->status = h->missing ? "missing" : h->known ? "ok" : "unknown";
    if (!json_copy(json_member_of(t, v, "detail"), h->detail, sizeof h->detail))
        h->detail[0] = '\0';
    return true;
}

bool logline_host(const json_tree *t, const json_value **at, skew_host *h, const char **ret_why) {
    const json_value *hosts = json_member_of(t, t->value, "hosts");

    *ret_why = NULL;
    if (!hosts || hosts->kind != JSON_LIST) {
        *ret_why = "it has no hosts";
        return false;
    }
    *at = *at ? json_next(t, *at) : json_first(t, hosts);
    if (!*at)
        return false;
    if (host_of(t, *at, h))
        return true;
    *ret_why = "its entry of a host is malformed";
    return false;
}

/* ---- all of it ----------------------------------------------------------------------------------- */

static int host_named(const skew_result *r, const json_value *name) {
    char text[SKEW_NAME_SIZE];
    int found = -1;

    if (!json_copy(name, text, sizeof text))
        return -1;
    for (int i = 0; i < r->host_count; i++)
        if (strcmp(r->hosts[i].name, text) == 0 && skew_is_clock(r->hosts[i].kind) &&
            (found < 0 || !r->hosts[found].known))
            found = i;
    return found;
}

static bool pair_of_line(const json_tree *t, const json_value *v, const skew_result *r,
                         skew_pair *p) {
    bool known;

    p->holder = host_named(r, json_member_of(t, v, "holder"));
    p->taker = host_named(r, json_member_of(t, v, "taker"));
    return p->holder >= 0 && p->taker >= 0 &&
           interval(t, json_member_of(t, v, "gap_ms"), 2 * OFFSET_MOST_US, &known, &p->gap) &&
           known && verdict_of(json_member_of(t, v, "verdict"), &p->verdict);
}

bool logline_worst(const json_tree *t, tl_interval *ret_gap) {
    const json_value *worst = json_member_of(t, t->value, "worst");
    bool known;

    return worst && worst->kind == JSON_OBJECT &&
           interval(t, json_member_of(t, worst, "gap_ms"), 2 * OFFSET_MOST_US, &known, ret_gap) &&
           known;
}

static size_t length(const json_tree *t, const json_value *list) {
    size_t n = 0;
    for (const json_value *v = json_first(t, list); v; v = json_next(t, v))
        n++;
    return n;
}

static bool make_room(const json_tree *t, skew_result *r) {
    size_t hosts = length(t, json_member_of(t, t->value, "hosts")),
           pairs = length(t, json_member_of(t, t->value, "pairs"));

    r->host_count = 0;
    r->pair_count = 0;
    r->hosts = calloc(hosts + 1, sizeof *r->hosts);
    r->pairs = calloc(pairs + 1, sizeof *r->pairs);
    return r->hosts && r->pairs;
}

static void read_words(const json_tree *t, skew_result *r) {
    const json_value *advice = json_first(t, json_member_of(t, t->value, "advice"));

    if (!json_copy(json_member_of(t, t->value, "reason"), r->reason, sizeof r->reason))
        r->reason[0] = '\0';
    if (!json_copy(json_member_of(t, t->value, "server"), r->server, sizeof r->server))
        r->server[0] = '\0';
    for (r->advices = 0; advice && r->advices < (int)(sizeof r->advice / sizeof *r->advice);
         advice = json_next(t, advice))
        if (json_copy(advice, r->advice[r->advices], sizeof r->advice[0]))
            r->advices++;
}

bool logline_all(const json_tree *t, skew_result *r, const char **ret_why) {
    const json_value *at = NULL, *pair;

    *r = (skew_result){.hosts = NULL};
    if (!logline_head(t, r, ret_why) || !make_room(t, r))
        return false;
    while (logline_host(t, &at, &r->hosts[r->host_count], ret_why))
        r->host_count++;
    if (*ret_why)
        return false;
    for (pair = json_first(t, json_member_of(t, t->value, "pairs"));
         pair && r->pair_count < PAIRS_MOST; pair = json_next(t, pair))
        if (pair_of_line(t, pair, r, &r->pairs[r->pair_count]))
            r->pair_count++;
    read_words(t, r);
    return true;
}

void logline_end(skew_result *r) {
    free(r->hosts);
    free(r->pairs);
    *r = (skew_result){.hosts = NULL};
}
