/*
 * The verdict over all ordered pairs. Only edges are compared, never midpoints, and nothing
 * doubtful is SAFE.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "skew/judge/skew_judge.h"
#include "ground/guard.h"
#include "skew/judge/skew_alarm.h"
#include "skew/judge/skew_gaps.h"
#include "skew/judge/skew_reason.h"
#include "skew/judge/skew_worst.h"

const char *skew_verdict_name(skew_verdict v) {
    static const char *const names[] = {"SAFE", "WARN", "UNSAFE", "UNKNOWN"};
    return names[v];
}

const char *skew_kind_name(skew_kind kind) {
    static const char *const names[] = {"clock", "served", "redis", "aside", "remark"};
    return names[kind];
}

/* ---- the verdict ------------------------------------------------------------------------------ */

static int count_lacking(const skew_result *result) {
    int n = 0;
    for (int i = 0; i < result->host_count; i++)
        n += skew_is_clock(result->hosts[i].kind) && skew_is_lacking(&result->hosts[i]) &&
             !(result->hosts[i].known && result->hosts[i].unsteady);
    return n;
}

/* Counts the hosts that acquire locks and whose clock is known, if only relative to others. */
static int count_clocks(const skew_result *result) {
    int n = 0;
    for (int i = 0; i < result->host_count; i++)
        n += (result->hosts[i].known || result->hosts[i].relative) && !result->hosts[i].missing &&
             result->hosts[i].kind == SKEW_CLOCK;
    return n;
}

/* The most certain theft has the highest low edge. The pairs are sorted by the high edge. */
static const skew_pair *surest(const skew_result *result) {
    const skew_pair *found = NULL;
    for (size_t i = 0; i < result->pair_count; i++)
        if (result->pairs[i].verdict == SKEW_UNSAFE &&
            (!found || result->pairs[i].gap.lo > found->gap.lo))
            found = &result->pairs[i];
    return found;
}

/* How badly evidence is lacking, worst first: relative hosts, whose given lifetime can't be right;
 * no evidence; a daemon's report; NTP alone. */
static int want(const skew_host *host) {
    if (host->relative)
        return 4;
    return !skew_is_lacking(host)     ? 0
           : host->missing            ? 3
           : host->known              ? (host->unsteady ? 2 : 1)
           : host->kind == SKEW_ASIDE ? 2
                                      : 3;
}

static const skew_host *first_lacking(const skew_result *result) {
    const skew_host *found = NULL;
    for (int i = 0; i < result->host_count; i++)
        if (want(&result->hosts[i]) > (found ? want(found) : 0))
            found = &result->hosts[i];
    return found;
}

/* The least number of hosts: an observed address may belong to a host that also has a name. */
static int count_hosts(const skew_result *result) {
    int named = 0, heard = 0;
    for (int i = 0; i < result->host_count; i++) {
        const skew_host *host = &result->hosts[i];
        if ((!host->known && !host->relative) || host->missing || host->kind != SKEW_CLOCK)
            continue;
        if (strcmp(host->instrument, "passive") == 0)
            heard++;
        else
            named++;
    }
    return named > heard ? named : heard;
}

static void decide_by_clocks(skew_result *result) {
    int lacking = count_lacking(result), clocks = count_clocks(result), hosts = count_hosts(result);
    const skew_pair *worst = result->pair_count ? result->pairs : NULL, *theft = surest(result);
    const skew_host *lacks = first_lacking(result);

    if (clocks > 0)
        skew_say_pad(result);
    if (theft) {
        result->verdict = SKEW_UNSAFE;
        skew_say_theft(result, theft);
        return;
    }
    result->verdict = clocks == 0 ? SKEW_UNKNOWN : SKEW_WARN;
    if (clocks == 0) {
        skew_say_unmeasured(result);
    } else if (worst && worst->gap.hi > result->rule.slack_us) {
        skew_say_doubt(result, worst);
    } else if ((lacks && GUARD(evidence_of_all)) || (result->more && GUARD(all_are_looked_at)) ||
               result->unheard || clocks < 2 || !worst ||
               (GUARD(least_hosts) && hosts < result->rule.min_hosts)) {
        skew_say_lacking(result, lacks, lacking, clocks < 2 ? 1 : hosts);
    } else if (skew_is_close(result, worst)) {
        skew_say_close(result, worst);
    } else {
        result->verdict = SKEW_SAFE;
        skew_say_safe(result, worst);
    }
}

/* Only clocks that acquire locks count: the hypervisor of a host of --no-self endangers none. */
static void decide(skew_result *result) {
    const skew_host *host = skew_alarm_worst(result);

    decide_by_clocks(result);
    if (!host || !GUARD(alarm_is_doubt))
        return;
    result->alarmed = result->verdict == SKEW_SAFE;
    if (result->alarmed)
        result->verdict = SKEW_WARN;
    skew_say_alarm(result, host);
}

bool skew_judge(skew_result *result) {
    result->pairs = NULL;
    result->gaps = NULL;
    result->pair_count = result->pairs_total = 0;
    result->advices = result->causes = 0;
    result->advice_where = -1;
    result->cause_text[0] = '\0';
    result->alarmed = false;
    if (result->host_count > SKEW_HOSTS_MAX || !(result->gaps = skew_gaps_begin(result)) ||
        !skew_worst_find(result))
        return false;
    decide(result);
    return true;
}

void skew_result_end(skew_result *result) {
    free(result->pairs);
    skew_gaps_end(result->gaps);
    result->pairs = NULL;
    result->gaps = NULL;
}
