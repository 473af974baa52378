/*
 * The gaps of all ordered pairs, and the verdict over them. Only edges are compared, never
 * midpoints, and nothing doubtful is SAFE.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "skew/judge/skew_judge.h"
#include "ground/guard.h"
#include "skew/judge/skew_web.h"
#include "skew/judge/skew_reason.h"

#define EARLY_US 1000 /* most stamps count in milliseconds */

const char *skew_verdict_name(skew_verdict v) {
    static const char *const names[] = {"SAFE", "WARN", "UNSAFE", "UNKNOWN"};
    return names[v];
}

const char *skew_kind_name(skew_kind kind) {
    static const char *const names[] = {"clock", "served", "redis", "aside", "remark"};
    return names[kind];
}

skew_verdict skew_judge_gap(tl_interval gap, int64_t slack_us) {
    if ((GUARD(safe_by_upper_edge) ? gap.hi : gap.lo) <= slack_us)
        return SKEW_SAFE;
    return (GUARD(theft_by_lower_edge) ? gap.lo : gap.hi) > slack_us ? SKEW_UNSAFE : SKEW_WARN;
}

/* The host clock's possible rate beyond the usual drift: what its daemon may do, or an observed
 * rate that is certainly more than drift. */
static int64_t extra_ppm(const skew_rule *rule, const skew_host *host) {
    int64_t extra = host->slew_ppm, usual = (int64_t)rule->drift_ppm * 1000;
    if (host->has_drift && (host->drift_ppb.lo > usual || host->drift_ppb.hi < -usual)) {
        int64_t seen = host->drift_ppb.lo > usual ? host->drift_ppb.hi : -host->drift_ppb.lo;
        if (seen / 1000 + 1 > extra)
            extra = seen / 1000 + 1;
    }
    return extra > 1000000 ? 1000000 : extra;
}

int64_t skew_widening_us(const skew_rule *rule, const skew_host *a, const skew_host *b) {
    int64_t ppm = rule->drift_ppm + extra_ppm(rule, a) + extra_ppm(rule, b);
    int64_t by = tl__mul_sat(rule->lock_timeout_us / 1000 + 1, ppm) / 1000 + 1;
    return tl__add_sat(by, rule->early_us ? rule->early_us : EARLY_US);
}

tl_interval skew_widened(const skew_rule *rule, const skew_host *a, const skew_host *b,
                         tl_interval gap) {
    int64_t by = skew_widening_us(rule, a, b), early = rule->early_us ? rule->early_us : EARLY_US,
            more = rule->late_us > early ? rule->late_us - early : 0;

    return (tl_interval){tl__add_sat(tl__add_sat(gap.lo, -by), -more), tl__add_sat(gap.hi, by)};
}

/* ---- pairs ----------------------------------------------------------------------------------- */

/* Is the host part of pairs? A daemon's report on a measured clock is not. */
static bool in_pairs(const skew_host *host) {
    return host->known && host->kind != SKEW_ASIDE && host->kind != SKEW_REMARK;
}

static bool comparable(const skew_host *a, const skew_host *b) {
    return (in_pairs(a) && in_pairs(b)) || (a->relative && b->relative);
}

/* All constraints: each known host against the server, which is clock 0, and against the host that
 * measured it. Relative hosts share one unknown error, which is a clock of its own: the last. */
static void bind_host(const skew_result *result, skew_web *web, int i) {
    const skew_host *host = &result->hosts[i];
    if (host->relative)
        skew_web_bind(web, result->host_count + 1, i + 1, host->offset);
    if (!in_pairs(host))
        return;
    skew_web_bind(web, 0, i + 1, host->offset);
    if (host->against > 0 && in_pairs(&result->hosts[host->against - 1]))
        skew_web_bind(web, host->against, i + 1, host->apart);
}

static bool weave(const skew_result *result, skew_web *web) {
    if (!skew_web_begin(web, result->host_count + 2))
        return false;
    for (int i = 0; i < result->host_count; i++)
        bind_host(result, web, i);
    return true;
}

static int tear_out(skew_result *result, const skew_web *web) {
    int torn = 0;
    for (int i = 0; i < result->host_count; i++) {
        skew_host *host = &result->hosts[i];
        if (!in_pairs(host) || !skew_web_torn(web, i + 1))
            continue;
        host->known = false;
        host->status = "inconsistent";
        (void)snprintf(host->detail, sizeof host->detail, "what was measured contradicts itself");
        torn++;
    }
    return torn;
}

static int worse(const void *a, const void *b) {
    const skew_pair *x = a, *y = b;
    if (x->gap.hi != y->gap.hi)
        return x->gap.hi < y->gap.hi ? 1 : -1;
    if (x->holder != y->holder)
        return x->holder - y->holder;
    return x->taker - y->taker;
}

static bool is_close(const skew_result *result, const skew_pair *pair) {
    return GUARD(close_is_warned) &&
           tl__mul_sat(pair->gap.hi, 100) >
               tl__mul_sat(result->rule.slack_us, result->rule.warn_percent);
}

/* Is the host's evidence too weak to prove safety? So it is for a missing host's last record, and
 * for a clock that runs wrong. The time that a daemon serves may not be its host's: alone it proves
 * neither safety nor theft. */
static bool is_in_doubt(const skew_host *host) {
    return (GUARD(missing_is_doubt) && host->missing) ||
           (GUARD(unsteady_is_doubt) && host->unsteady);
}

static skew_verdict judge_pair(const skew_result *result, const skew_pair *pair) {
    const skew_host *host = &result->hosts[pair->holder], *taker = &result->hosts[pair->taker];
    skew_verdict v = skew_judge_gap(pair->gap, result->rule.slack_us);
    bool served = host->kind == SKEW_SERVED || taker->kind == SKEW_SERVED;
    bool alone = (host->kind == SKEW_SERVED && !host->covered) ||
                 (taker->kind == SKEW_SERVED && !taker->covered);

    if (v == SKEW_SAFE && (is_in_doubt(host) || is_in_doubt(taker) || is_close(result, pair)))
        return SKEW_WARN;
    return (GUARD(ntp_proves_no_safety) && alone) ||
                   (GUARD(ntp_proves_no_theft) && served && v == SKEW_UNSAFE)
               ? SKEW_WARN
               : v;
}

/* A warning may have two causes: the pair is close to the slack, or something is not known. */
char skew_mark(const skew_result *result, const skew_pair *pair) {
    const skew_host *host = &result->hosts[pair->holder], *taker = &result->hosts[pair->taker];

    if (pair->verdict != SKEW_WARN)
        return pair->verdict == SKEW_SAFE ? ' ' : '!';
    return pair->gap.hi > result->rule.slack_us || is_in_doubt(host) || is_in_doubt(taker) ||
                   host->kind == SKEW_SERVED || taker->kind == SKEW_SERVED
               ? '?'
               : '~';
}

static void pair_up(skew_result *result, const skew_web *web) {
    for (int h = 0; h < result->host_count; h++)
        for (int t = 0; t < result->host_count; t++) {
            if (h == t || !comparable(&result->hosts[h], &result->hosts[t]))
                continue;
            skew_pair *pair = &result->pairs[result->pair_count++];
            pair->holder = h;
            pair->taker = t;
            pair->gap = skew_widened(&result->rule, &result->hosts[h], &result->hosts[t],
                                     skew_web_between(web, h + 1, t + 1));
            pair->verdict = judge_pair(result, pair);
        }
    qsort(result->pairs, result->pair_count, sizeof *result->pairs, worse);
}

static bool make_pairs(skew_result *result) {
    size_t most = (size_t)result->host_count * (size_t)result->host_count;
    skew_web web;

    result->pair_count = 0;
    result->pairs = calloc(most + 1, sizeof *result->pairs);
    if (!result->pairs || !weave(result, &web))
        return false;
    while (!skew_web_close(&web)) { /* each pass makes a host unknown */
        int torn = tear_out(result, &web);
        skew_web_end(&web);
        if (torn == 0 || !weave(result, &web))
            return false;
    }
    pair_up(result, &web);
    skew_web_end(&web);
    return true;
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

static void decide(skew_result *result) {
    int lacking = count_lacking(result), clocks = count_clocks(result), hosts = count_hosts(result);
    const skew_pair *worst = result->pair_count ? result->pairs : NULL, *theft = surest(result);
    const skew_host *lacks = first_lacking(result);

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
    } else if (is_close(result, worst)) {
        skew_say_close(result, worst);
    } else {
        result->verdict = SKEW_SAFE;
        skew_say_safe(result, worst);
    }
}

bool skew_judge(skew_result *result) {
    result->pairs = NULL;
    result->advices = 0;
    if (result->host_count > SKEW_HOSTS_MAX || !make_pairs(result))
        return false;
    decide(result);
    return true;
}

void skew_result_end(skew_result *result) {
    free(result->pairs);
    result->pairs = NULL;
}
