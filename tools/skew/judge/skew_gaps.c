/*
 * Every host is bound to the server's clock, which is the hub. A path between two hosts that is
 * shorter than the one over the hub stays among hosts that are measured against each other: these
 * form a web. All webs are tightened together, one clock after the other, as one web of all clocks
 * would be: so a contradiction makes the same hosts unknown. It is in one web. The hub itself is
 * tightened first, so a contradiction that includes it is noticed at another clock of that web.
 */
#include <stdio.h>
#include <stdlib.h>

#include "skew/judge/skew_gaps.h"
#include "skew/judge/skew_web.h"

#define ALONE (-1)

typedef struct {
    int64_t behind; /* the hub's clock - this one is at most this, us */
    int64_t ahead;  /* this clock - the hub's is at most this, us */
    int64_t extra_ppm;
    int web, at; /* at: the clock in its web; web: ALONE if it is in none */
} bound;

struct skew_gaps {
    bound *host;
    int hosts;
    skew_web *web;
    int webs;
};

/* ---- which hosts are measured against each other -------------------------------------------------- */

static bool in_pairs(const skew_host *host) {
    return host->known && skew_is_clock(host->kind);
}

/* Only differences of such hosts are known. */
static bool is_relative(const skew_host *host) {
    return host->relative && !host->known;
}

/* The host that measured this one; -1: the server alone did. */
static int measured_by(const skew_result *result, int i) {
    const skew_host *host = &result->hosts[i];
    return in_pairs(host) && host->against > 0 && host->against <= result->host_count &&
                   host->against != i + 1 && in_pairs(&result->hosts[host->against - 1])
               ? host->against - 1
               : -1;
}

/* The first host of a group; `web` leads there. */
static int first_of(skew_gaps *gaps, int i) {
    while (gaps->host[i].web != i) {
        gaps->host[i].web = gaps->host[gaps->host[i].web].web;
        i = gaps->host[i].web;
    }
    return i;
}

static void join(skew_gaps *gaps, int a, int b) {
    int x = first_of(gaps, a), y = first_of(gaps, b);
    gaps->host[x > y ? x : y].web = x > y ? y : x;
}

/* Gives each group of more than one host a web: a clock for each of its hosts, in their order. */
static bool make_webs(skew_gaps *gaps) {
    int *clocks = calloc((size_t)gaps->hosts + 1, sizeof *clocks),
        *number = calloc((size_t)gaps->hosts + 1, sizeof *number);
    bool made = clocks && number;

    for (int i = 0; made && i < gaps->hosts; i++) {
        gaps->host[i].web = first_of(gaps, i);
        gaps->host[i].at = ++clocks[gaps->host[i].web];
    }
    for (int i = 0; made && i < gaps->hosts; i++)
        number[i] = clocks[i] > 1 ? gaps->webs++ : ALONE;
    if (made && gaps->webs)
        gaps->web = calloc((size_t)gaps->webs, sizeof *gaps->web);
    made = made && (gaps->web || gaps->webs == 0);
    for (int i = 0; made && i < gaps->hosts; i++) {
        if (number[i] != ALONE)
            made = skew_web_begin(&gaps->web[number[i]], clocks[i] + 1);
        gaps->host[i].web = number[gaps->host[i].web];
    }
    free(clocks);
    free(number);
    return made;
}

static bool group(skew_gaps *gaps, const skew_result *result) {
    for (int i = 0; i < gaps->hosts; i++)
        gaps->host[i].web = i;
    for (int i = 0; i < gaps->hosts; i++)
        if (measured_by(result, i) >= 0)
            join(gaps, measured_by(result, i), i);
    return make_webs(gaps);
}

/* ---- what is measured ------------------------------------------------------------------------------ */

static void bind_host(skew_gaps *gaps, const skew_result *result, int i) {
    const skew_host *host = &result->hosts[i];
    bound *bound = &gaps->host[i];
    int by = measured_by(result, i);

    bound->behind = bound->ahead = SKEW_UNBOUNDED;
    bound->extra_ppm = skew_extra_ppm(&result->rule, host);
    if (!in_pairs(host) && !is_relative(host))
        return;
    bound->behind = skew_web_edge(host->offset.lo == INT64_MIN ? INT64_MAX : -host->offset.lo);
    bound->ahead = skew_web_edge(host->offset.hi);
    if (bound->web == ALONE)
        return;
    skew_web_bind(&gaps->web[bound->web], 0, bound->at, host->offset);
    if (by >= 0)
        skew_web_bind(&gaps->web[bound->web], gaps->host[by].at, bound->at, host->apart);
}

static void unbind(skew_gaps *gaps) {
    for (int i = 0; i < gaps->webs; i++)
        skew_web_end(&gaps->web[i]);
    free(gaps->web);
    gaps->web = NULL;
    gaps->webs = 0;
}

static bool bind(skew_gaps *gaps, const skew_result *result) {
    unbind(gaps);
    if (!group(gaps, result))
        return false;
    for (int i = 0; i < gaps->hosts; i++)
        bind_host(gaps, result, i);
    return true;
}

/* ---- tightening ------------------------------------------------------------------------------------ */

static void read_bounds(skew_gaps *gaps, int i) {
    bound *bound = &gaps->host[i];
    if (bound->web == ALONE)
        return;
    bound->behind = skew_web_between(&gaps->web[bound->web], bound->at, 0).hi;
    bound->ahead = skew_web_between(&gaps->web[bound->web], 0, bound->at).hi;
}

/* A host against itself, over the hub: below 0 there is a contradiction. */
static int64_t around(const bound *bound) {
    return skew_web_sum(bound->behind, bound->ahead);
}

/* Tightens all by the hub: finds all contradictions of hosts with the server alone. */
static bool close_over_hub(skew_gaps *gaps) {
    bool sound = true;

    for (int i = 0; i < gaps->webs; i++)
        sound = skew_web_pass(&gaps->web[i], 0) && sound;
    for (int i = 0; i < gaps->hosts; i++)
        sound = sound && (gaps->host[i].web != ALONE || around(&gaps->host[i]) >= 0);
    return sound;
}

/* Stops at the first contradiction, as a web does. */
static bool close_all(skew_gaps *gaps) {
    bool sound = close_over_hub(gaps);

    for (int i = 0; i < gaps->hosts && sound; i++)
        sound = gaps->host[i].web == ALONE ||
                skew_web_pass(&gaps->web[gaps->host[i].web], gaps->host[i].at);
    for (int i = 0; i < gaps->hosts && sound; i++)
        read_bounds(gaps, i);
    return sound;
}

static bool is_torn(const bound *bound, const skew_web *web) {
    return bound->web == ALONE ? around(bound) < 0 : skew_web_torn(&web[bound->web], bound->at);
}

static int tear_out(const skew_gaps *gaps, skew_result *result) {
    int torn = 0;
    for (int i = 0; i < result->host_count; i++) {
        skew_host *host = &result->hosts[i];
        if (!in_pairs(host) || !is_torn(&gaps->host[i], gaps->web))
            continue;
        host->known = false;
        host->status = "inconsistent";
        (void)snprintf(host->detail, sizeof host->detail, "what was measured contradicts itself");
        torn++;
    }
    return torn;
}

/* Each pass makes a host unknown. */
static bool tighten(skew_gaps *gaps, skew_result *result) {
    if (!bind(gaps, result))
        return false;
    while (!close_all(gaps))
        if (tear_out(gaps, result) == 0 || !bind(gaps, result))
            return false;
    return true;
}

skew_gaps *skew_gaps_begin(skew_result *result) {
    skew_gaps *gaps = calloc(1, sizeof *gaps);

    if (!gaps)
        return NULL;
    gaps->hosts = result->host_count;
    gaps->host = calloc((size_t)gaps->hosts + 1, sizeof *gaps->host);
    if (gaps->host && tighten(gaps, result))
        return gaps;
    skew_gaps_end(gaps);
    return NULL;
}

void skew_gaps_end(skew_gaps *gaps) {
    if (!gaps)
        return;
    unbind(gaps);
    free(gaps->host);
    free(gaps);
}

/* ---- gaps ----------------------------------------------------------------------------------------- */

bool skew_gaps_comparable(const skew_result *result, int holder, int taker) {
    const skew_host *a = &result->hosts[holder], *b = &result->hosts[taker];
    return (in_pairs(a) && in_pairs(b)) || (is_relative(a) && is_relative(b));
}

static tl_interval measured(const skew_gaps *gaps, int holder, int taker) {
    const bound *from = &gaps->host[holder], *to = &gaps->host[taker];

    if (from->web != ALONE && from->web == to->web)
        return skew_web_between(&gaps->web[from->web], from->at, to->at);
    return (tl_interval){-skew_web_sum(to->behind, from->ahead),
                         skew_web_sum(from->behind, to->ahead)};
}

tl_interval skew_gaps_between(const skew_result *result, int holder, int taker) {
    const skew_gaps *gaps = result->gaps;
    return skew_widened_by(&result->rule,
                           gaps->host[holder].extra_ppm + gaps->host[taker].extra_ppm,
                           measured(gaps, holder, taker));
}

/* ---- how far hosts reach --------------------------------------------------------------------------- */

#define ROUNDING_US 8 /* the parts of a widening are rounded on their own */

static int by_reach(const void *a, const void *b) {
    const skew_reach *x = a, *y = b;
    if (x->us != y->us)
        return x->us < y->us ? 1 : -1;
    return x->host - y->host;
}

/* A host's part of the widening. */
static int64_t widening_of(const skew_result *result, int64_t ppm) {
    return tl__mul_sat(result->rule.lock_timeout_us / 1000 + 1, ppm) / 1000 + 1;
}

int skew_gaps_reach(const skew_result *result, bool relative, bool takers, skew_reach *reach) {
    int n = 0;

    for (int i = 0; i < result->host_count; i++) {
        const bound *bound = &result->gaps->host[i];
        int64_t us = takers ? bound->ahead : bound->behind;
        if (relative ? !is_relative(&result->hosts[i]) : !in_pairs(&result->hosts[i]))
            continue;
        reach[n++] = (skew_reach){i, us >= SKEW_UNBOUNDED
                                         ? SKEW_NO_REACH
                                         : tl__add_sat(us, widening_of(result, bound->extra_ppm))};
    }
    qsort(reach, (size_t)n, sizeof *reach, by_reach);
    return n;
}

int64_t skew_gaps_most(const skew_result *result, const skew_reach *holder,
                       const skew_reach *taker) {
    int64_t most = tl__add_sat(holder->us, taker->us),
            least = -SKEW_UNBOUNDED / 2; /* beyond this, sums of edges are no longer exact */

    if (holder->us == SKEW_NO_REACH || taker->us == SKEW_NO_REACH)
        return SKEW_NO_REACH;
    most = most > least ? most : least;
    return tl__add_sat(most, tl__add_sat(skew_widening_by(&result->rule, 0), ROUNDING_US));
}
