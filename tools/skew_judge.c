/*
 * Gaps of all ordered pairs, and the verdict over them. Only edges are compared, never middles, and
 * whatever is in doubt is not SAFE.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "skew_judge.h"
#include "skew_web.h"

#define OLD_MS 30000       /* evidence: agents publish every ten seconds unless told otherwise */
#define RESOLUTION_US 1000 /* most stamps count in milliseconds */

const char *skew_verdict_name(skew_verdict v) {
    static const char *const names[] = {"SAFE", "WARN", "UNSAFE", "UNKNOWN"};
    return names[v];
}

const char *skew_kind_name(skew_kind kind) {
    static const char *const names[] = {"clock", "served", "redis", "aside", "remark"};
    return names[kind];
}

skew_verdict skew_judge_gap(tl_interval gap, int64_t slack_us) {
    if (gap.hi <= slack_us)
        return SKEW_SAFE;
    return gap.lo > slack_us ? SKEW_UNSAFE : SKEW_WARN;
}

/* How fast the host's clock may move besides the usual drift: what its daemon may do, or what it was
 * seen to do, when that is certainly more than drift. */
static int64_t extra_ppm(const skew_rule *rule, const skew_host *h) {
    int64_t extra = h->slew_ppm, usual = (int64_t)rule->drift_ppm * 1000;
    if (h->has_drift && (h->drift_ppb.lo > usual || h->drift_ppb.hi < -usual)) {
        int64_t seen = h->drift_ppb.lo > usual ? h->drift_ppb.hi : -h->drift_ppb.lo;
        if (seen / 1000 + 1 > extra)
            extra = seen / 1000 + 1;
    }
    return extra > 1000000 ? 1000000 : extra;
}

int64_t skew_widening_us(const skew_rule *rule, const skew_host *a, const skew_host *b) {
    int64_t ppm = rule->drift_ppm + extra_ppm(rule, a) + extra_ppm(rule, b);
    int64_t by = tl__mul_sat(rule->lock_timeout_us / 1000 + 1, ppm) / 1000 + 1;
    return tl__add_sat(by, rule->resolution_us ? rule->resolution_us : RESOLUTION_US);
}

tl_interval skew_widened(const skew_rule *rule, const skew_host *a, const skew_host *b,
                         tl_interval gap) {
    int64_t by = skew_widening_us(rule, a, b),
            early = rule->resolution_us ? rule->resolution_us : RESOLUTION_US,
            more = rule->late_us > early ? rule->late_us - early : 0;

    return (tl_interval){tl__add_sat(tl__add_sat(gap.lo, -by), -more), tl__add_sat(gap.hi, by)};
}

/* ---- pairs ----------------------------------------------------------------------------------- */

/* Daemons say what they believe, of clocks that are measured: it binds nothing. */
static bool in_pairs(const skew_host *h) {
    return h->known && h->kind != SKEW_ASIDE && h->kind != SKEW_REMARK;
}

static bool comparable(const skew_host *a, const skew_host *b) {
    return (in_pairs(a) && in_pairs(b)) || (a->relative && b->relative);
}

/* All constraints there are: each known host against the server, which is clock 0, and against the host
 * that measured it. What relative ones are off by in common is a clock of its own, the last, of which
 * nothing is known. */
static void bind_host(const skew_result *r, skew_web *web, int i) {
    const skew_host *h = &r->hosts[i];
    if (h->relative)
        skew_web_bind(web, r->host_count + 1, i + 1, h->offset);
    if (!in_pairs(h))
        return;
    skew_web_bind(web, 0, i + 1, h->offset);
    if (h->against > 0 && in_pairs(&r->hosts[h->against - 1]))
        skew_web_bind(web, h->against, i + 1, h->apart);
}

static bool weave(const skew_result *r, skew_web *web) {
    if (!skew_web_begin(web, r->host_count + 2))
        return false;
    for (int i = 0; i < r->host_count; i++)
        bind_host(r, web, i);
    return true;
}

static int tear_out(skew_result *r, const skew_web *web) {
    int torn = 0;
    for (int i = 0; i < r->host_count; i++) {
        skew_host *h = &r->hosts[i];
        if (!in_pairs(h) || !skew_web_torn(web, i + 1))
            continue;
        h->known = false;
        h->status = "inconsistent";
        (void)snprintf(h->detail, sizeof h->detail, "what was measured contradicts itself");
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

/* The time that a daemon serves may not be its host's: alone it proves neither safety nor theft. */
static skew_verdict judge_pair(const skew_result *r, const skew_pair *p) {
    const skew_host *h = &r->hosts[p->holder], *t = &r->hosts[p->taker];
    skew_verdict v = skew_judge_gap(p->gap, r->rule.slack_us);
    bool served = h->kind == SKEW_SERVED || t->kind == SKEW_SERVED;
    bool alone = (h->kind == SKEW_SERVED && !h->covered) || (t->kind == SKEW_SERVED && !t->covered);

    return alone || (served && v == SKEW_UNSAFE) ? SKEW_WARN : v;
}

static void pair_up(skew_result *r, const skew_web *web) {
    for (int h = 0; h < r->host_count; h++)
        for (int t = 0; t < r->host_count; t++) {
            if (h == t || !comparable(&r->hosts[h], &r->hosts[t]))
                continue;
            skew_pair *p = &r->pairs[r->pair_count++];
            p->holder = h;
            p->taker = t;
            p->gap = skew_widened(&r->rule, &r->hosts[h], &r->hosts[t],
                                  skew_web_between(web, h + 1, t + 1));
            p->verdict = judge_pair(r, p);
        }
    qsort(r->pairs, r->pair_count, sizeof *r->pairs, worse);
}

static bool make_pairs(skew_result *r) {
    size_t most = (size_t)r->host_count * (size_t)r->host_count;
    skew_web web;

    r->pair_count = 0;
    r->pairs = calloc(most + 1, sizeof *r->pairs);
    if (!r->pairs || !weave(r, &web))
        return false;
    while (!skew_web_close(&web)) { /* each round makes a host unknown */
        int torn = tear_out(r, &web);
        skew_web_end(&web);
        if (torn == 0 || !weave(r, &web))
            return false;
    }
    pair_up(r, &web);
    skew_web_end(&web);
    return true;
}

/* ---- the verdict ------------------------------------------------------------------------------ */

static void advise(skew_result *r, const char *what) {
    if (r->advices < (int)(sizeof r->advice / sizeof *r->advice))
        (void)snprintf(r->advice[r->advices++], sizeof r->advice[0], "%s", what);
}

#define ADVISE_AGENTS "run \"tidelock agent\" on every host that takes these locks"

#define ADVISE_LISTEN                                                                              \
    "listen for longer (--passive=1m), or where there are none leave --passive out"

#define ADVISE_QUIET                                                                               \
    "listen when the server has less to do, or run \"tidelock agent\" on the hosts instead"

static const char *ms(char buf[32], int64_t us) {
    (void)snprintf(buf, 32, "%s%lld.%03lld", us < 0 ? "-" : "", (long long)llabs(us / 1000),
                   (long long)llabs(us % 1000));
    return buf;
}

/* "when H holds, T's clock is LO to HI ms ahead (slack S ms)", and where it comes from. */
static void explain(skew_result *r, const skew_pair *p, const char *what) {
    const skew_host *h = &r->hosts[p->holder], *t = &r->hosts[p->taker];
    char lo[32], hi[32], slack[32];
    (void)snprintf(r->reason, sizeof r->reason,
                   "%s: %s %s%s, the clock of %s is %s to %s ms ahead, and the slack is %s "
                   "ms (by %s, %lld ms old, and %s, %lld ms old)",
                   what, h->kind == SKEW_REDIS ? "for a lock timed by" : "when", h->name,
                   h->kind == SKEW_REDIS ? "" : " holds", t->name, ms(lo, p->gap.lo),
                   ms(hi, p->gap.hi), ms(slack, r->rule.slack_us), h->instrument,
                   (long long)h->age_ms, t->instrument, (long long)t->age_ms);
}

/* How far a clock is from the server's at least. */
static int64_t distance(const skew_host *h) {
    return h->offset.lo > 0 ? h->offset.lo : h->offset.hi < 0 ? -h->offset.hi : 0;
}

/* Where to look: at the clock of the two that is further from the server's. */
static void advise_where(skew_result *r, const skew_pair *p) {
    const skew_host *h = &r->hosts[p->holder], *t = &r->hosts[p->taker];
    char text[SKEW_REASON_SIZE];

    if (h->known && t->known && distance(h) != distance(t))
        (void)snprintf(
            text, sizeof text,
            "look at the time service of %s first, whose clock is further from the "
            "server's (there: chronyc tracking, timedatectl); one source should steer all "
            "hosts",
            distance(h) > distance(t) ? h->name : t->name);
    else
        (void)snprintf(text, sizeof text,
                       "look at the time services of %s and %s (there: chronyc tracking, "
                       "timedatectl); one source should steer all hosts",
                       h->name, t->name);
    advise(r, text);
}

/* What helps before the clocks are mended: against the worst gap, which is not always the pair's. Of a
 * longer life the gap takes its part: what drifts, drifts for longer. */
static void advise_until(skew_result *r) {
    int64_t gap = r->pairs[0].gap.hi, life = r->rule.lock_timeout_us,
            hold = tl__add_sat(life, -gap) / 1000 * 1000,
            lacks = tl__add_sat(gap, -r->rule.slack_us),
            longer = tl__add_sat(life, tl__add_sat(lacks, lacks / 5)) / 1000 * 1000 + 2000;
    char text[SKEW_REASON_SIZE], held[32], lived[32];

    if (hold <= 0)
        (void)snprintf(
            text, sizeof text,
            "until then no hold is short enough for locks that live %s ms: let them live "
            "for %s ms",
            ms(held, life), ms(lived, longer));
    else if (lacks > 0)
        (void)snprintf(text, sizeof text,
                       "until then let no holder work for more than %s ms (--max-hold), or let the "
                       "locks live for %s ms",
                       ms(held, hold), ms(lived, longer));
    else
        (void)snprintf(text, sizeof text,
                       "until then let no holder work for more than %s ms (--max-hold)",
                       ms(held, hold));
    advise(r, text);
}

static void advise_clocks(skew_result *r, const skew_pair *p) {
    const skew_host *h = &r->hosts[p->holder], *t = &r->hosts[p->taker],
                    *old = h->age_ms > t->age_ms ? h : t;
    char text[SKEW_REASON_SIZE];

    if (r->verdict == SKEW_WARN && old->age_ms >= OLD_MS) {
        (void)snprintf(text, sizeof text,
                       "what is known of %s is %lld s old and wide by that: let its agent publish "
                       "more often (tidelock agent --every 10s)",
                       old->name, (long long)(old->age_ms / 1000));
        advise(r, text);
    }
    advise_where(r, p);
    advise_until(r);
}

/* Evidence that is not there: none at all, or nothing but the time that a host's daemon serves. */
static bool is_lacking(const skew_host *h) {
    return (!h->known && h->kind != SKEW_REMARK) ||
           (h->known && h->kind == SKEW_SERVED && !h->covered);
}

static int count_lacking(const skew_result *r) {
    int n = 0;
    for (int i = 0; i < r->host_count; i++)
        n += is_lacking(&r->hosts[i]);
    return n;
}

/* Hosts that take locks, whose clock is known, if only against each other's. */
static int count_clocks(const skew_result *r) {
    int n = 0;
    for (int i = 0; i < r->host_count; i++)
        n += (r->hosts[i].known || r->hosts[i].relative) && r->hosts[i].kind == SKEW_CLOCK;
    return n;
}

/* The certain theft that is greatest: pairs are sorted by the high edge, not the low one. */
static const skew_pair *surest(const skew_result *r) {
    const skew_pair *found = NULL;
    for (size_t i = 0; i < r->pair_count; i++)
        if (r->pairs[i].verdict == SKEW_UNSAFE && (!found || r->pairs[i].gap.lo > found->gap.lo))
            found = &r->pairs[i];
    return found;
}

static void say_unsafe(skew_result *r, const skew_pair *p) {
    char by[32], what[96];
    (void)snprintf(what, sizeof what, "a lock can be stolen %s ms too early",
                   ms(by, tl__add_sat(p->gap.lo, -r->rule.slack_us)));
    r->verdict = SKEW_UNSAFE;
    explain(r, p, what);
    advise_clocks(r, p);
}

static bool beyond_warn(const skew_result *r, const skew_pair *p) {
    return tl__mul_sat(p->gap.hi, 100) > tl__mul_sat(r->rule.slack_us, r->rule.warn_percent);
}

/* The worst want comes first: a rule that can't be right; no evidence at all; of a daemon; NTP alone. */
static int want(const skew_host *h) {
    if (h->relative)
        return 4;
    return !is_lacking(h) ? 0 : h->known ? 1 : h->kind == SKEW_ASIDE ? 2 : 3;
}

static const skew_host *first_lacking(const skew_result *r) {
    const skew_host *found = NULL;
    for (int i = 0; i < r->host_count; i++)
        if (want(&r->hosts[i]) > (found ? want(found) : 0))
            found = &r->hosts[i];
    return found;
}

static void say_missing(skew_result *r, int lacking) {
    const skew_host *h = first_lacking(r);
    r->verdict = SKEW_WARN;
    bool listened = !h && !r->missing && (r->unheard || r->cut_short);
    advise(r, !listened ? ADVISE_AGENTS : r->cut_short ? ADVISE_QUIET : ADVISE_LISTEN);
    if (h && h->relative)
        (void)snprintf(r->reason, sizeof r->reason, "%s", h->detail);
    else if (h && h->known)
        (void)snprintf(
            r->reason, sizeof r->reason,
            "of %s only the time that it serves is known, which its own clock may differ "
            "from: NTP alone proves nothing",
            h->name);
    else if (h && h->kind == SKEW_ASIDE)
        (void)snprintf(r->reason, sizeof r->reason, "what was asked about %s is not known (%s)",
                       h->name, h->detail);
    else if (h && lacking > 1)
        (void)snprintf(r->reason, sizeof r->reason,
                       "there is no evidence of %d hosts, among them %s (%s)", lacking, h->name,
                       h->detail);
    else if (h)
        (void)snprintf(r->reason, sizeof r->reason, "there is no evidence of %s (%s)", h->name,
                       h->detail);
    else if (r->missing)
        (void)snprintf(r->reason, sizeof r->reason,
                       "there are more hosts than the %d that were looked at", r->host_count);
    else if (r->cut_short)
        (void)snprintf(r->reason, sizeof r->reason,
                       "listening was given up before its time, and who takes locks was not heard "
                       "in full");
    else if (r->unheard)
        (void)snprintf(r->reason, sizeof r->reason,
                       "no client of the old kind took a lock while it was listened to them");
    else
        (void)snprintf(r->reason, sizeof r->reason,
                       "only one host is measured: there is nothing to compare it with");
}

static void decide(skew_result *r) {
    int lacking = count_lacking(r), clocks = count_clocks(r);
    const skew_pair *worst = r->pair_count ? r->pairs : NULL, *theft = surest(r);

    if (clocks == 0) {
        r->verdict = SKEW_UNKNOWN;
        (void)snprintf(r->reason, sizeof r->reason, "no host could be measured");
        advise(r, ADVISE_AGENTS);
    } else if (theft) {
        say_unsafe(r, theft);
    } else if (worst && worst->gap.hi > r->rule.slack_us) {
        r->verdict = SKEW_WARN;
        explain(r, worst, "a theft can't be ruled out");
        advise_clocks(r, worst);
    } else if (lacking || r->missing || r->unheard || r->cut_short || clocks < 2 || !worst) {
        say_missing(r, lacking);
    } else if (beyond_warn(r, worst)) {
        r->verdict = SKEW_WARN;
        explain(r, worst, "little slack is left");
        advise_clocks(r, worst);
    } else {
        r->verdict = SKEW_SAFE;
        explain(r, worst, "no lock can be stolen");
    }
}

bool skew_judge(skew_result *r) {
    r->pairs = NULL;
    r->advices = 0;
    if (r->host_count > SKEW_HOSTS_MAX || !make_pairs(r))
        return false;
    decide(r);
    return true;
}

void skew_result_end(skew_result *r) {
    free(r->pairs);
    r->pairs = NULL;
}
