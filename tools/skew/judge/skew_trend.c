/*
 * Drift and outlook. A line passes through all intervals exactly when, for each two of them, its slope lies
 * between those of their opposite corners: so the stretch is the longest for which all of these have a
 * slope in common. Every rounding goes outwards.
 */
#include <stdlib.h>

#include "skew/judge/skew_trend.h"
#include "ground/guard.h"

#define US_PER_MS_PPB INT64_C(1000000) /* 1 us in 1 ms, in ppb */

static int64_t div_down(int64_t a, int64_t b) {
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t div_up(int64_t a, int64_t b) {
    return a / b + (a % b != 0 && (a < 0) == (b < 0));
}

/* ---- drift -------------------------------------------------------------------------------------- */

/* The slopes of lines through both, ppb; the second is later. */
static tl_interval slopes(const past_point *a, const past_point *b) {
    int64_t over_ms = b->at_ms - a->at_ms;
    tl_interval s = {
        tl__add_sat(b->offset.lo, -(GUARD(drift_is_a_bound) ? a->offset.hi : a->offset.lo)),
        tl__add_sat(b->offset.hi, -a->offset.lo)};

    if (over_ms == 0) /* any, or none at all */
        return s.lo <= 0 && s.hi >= 0 ? (tl_interval){-TREND_PPB_MOST, TREND_PPB_MOST}
                                      : (tl_interval){1, 0};
    s.lo = div_down(tl__mul_sat(s.lo, US_PER_MS_PPB), over_ms);
    s.hi = div_up(tl__mul_sat(s.hi, US_PER_MS_PPB), over_ms);
    return s;
}

/* What may be passed over: the known points, thinned towards the past. Newest first. */
static size_t choose(const past_point *point, size_t count, const past_point *ret[TREND_POINTS]) {
    size_t step = 1, n = 0;

    if (count > TREND_POINTS)
        step = (count - TREND_POINTS / 2) / (TREND_POINTS / 2) + 1;
    for (size_t back = 0; back < count && n < TREND_POINTS;
         back += back < TREND_POINTS / 2 ? 1 : step) {
        const past_point *x = &point[count - 1 - back];
        if (past_known(x))
            ret[n++] = x;
    }
    return n;
}

/* What is left of the slopes when a line passes through an older point too. */
static tl_interval also_through(tl_interval ppb, const past_point *const *chosen, size_t n,
                                const past_point *older) {
    for (size_t i = 0; i < n && !tl__interval_empty(ppb); i++)
        ppb = tl__interval_intersect(ppb, slopes(older, chosen[i]));
    return ppb;
}

skew_trend trend_of(const past_point *point, size_t count) {
    const past_point *chosen[TREND_POINTS];
    size_t n = choose(point, count, chosen), used = 1;
    tl_interval any = {-TREND_PPB_MOST, TREND_PPB_MOST}, ppb = any;
    skew_trend t = {.known = false};

    if (n == 0)
        return t;
    for (; used < n; used++) {
        tl_interval left = also_through(ppb, chosen, used, chosen[used]);
        t.bent = tl__interval_empty(left);
        if (t.bent && GUARD(latest_stretch_alone))
            break;
        ppb = left;
    }
    t.to_ms = chosen[0]->at_ms;
    t.from_ms = chosen[used - 1]->at_ms;
    t.known = t.from_ms < t.to_ms;
    t.ppb = ppb;
    return t;
}

/* ---- the outlook --------------------------------------------------------------------------------- */

/* When something that grows at this rate has grown so much, ms; -1: never, or not in a hundred years. */
static int64_t reached_ms(int64_t by_us, int64_t ppb, bool up) {
    if (by_us <= 0)
        return 0;
    if (ppb <= 0)
        return -1;
    int64_t scaled = tl__mul_sat(by_us, US_PER_MS_PPB);
    int64_t ms = up ? div_up(scaled, ppb) : scaled / ppb;
    return ms > TREND_FOREVER_MS ? -1 : ms;
}

static bool sooner(int64_t ms, int64_t than_ms) {
    return ms >= 0 && (than_ms < 0 || ms < than_ms);
}

static void consider(trend_outlook *o, const skew_result *r, const skew_pair *p,
                     const skew_trend *drift) {
    const skew_trend *h = &drift[p->holder], *t = &drift[p->taker];
    tl_interval rate = {t->ppb.lo - h->ppb.hi, t->ppb.hi - h->ppb.lo};
    int64_t slack = r->rule.slack_us,
            first = reached_ms(tl__add_sat(tl__add_sat(slack, 1), -p->gap.hi), rate.hi, false),
            last = reached_ms(tl__add_sat(tl__add_sat(slack, 1), -p->gap.lo), rate.lo, true);

    if (sooner(first, o->earliest_ms)) {
        o->earliest_ms = first;
        o->holder = p->holder;
        o->taker = p->taker;
    }
    if (sooner(last, o->latest_ms))
        o->latest_ms = last;
}

/* The gap as it was judged, where the line still has it; else from the two offsets, which is wider. */
static skew_pair gap_of(const skew_result *r, const skew_pair *const *judged, int h, int t) {
    const skew_host *holder = &r->hosts[h], *taker = &r->hosts[t];
    skew_pair p = {.holder = h, .taker = t};

    if (judged[h * r->host_count + t])
        return *judged[h * r->host_count + t];
    p.gap = skew_widened(&r->rule, holder, taker,
                         (tl_interval){tl__add_sat(taker->offset.lo, -holder->offset.hi),
                                       tl__add_sat(taker->offset.hi, -holder->offset.lo)});
    return p;
}

static bool has_drift(const skew_result *r, const skew_trend *drift, int i) {
    return skew_is_clock(r->hosts[i].kind) && r->hosts[i].known &&
           !(GUARD(missing_has_no_drift) && r->hosts[i].missing) &&
           (drift[i].known || !GUARD(drift_is_known));
}

static void consider_all(trend_outlook *o, const skew_result *r, const skew_trend *drift,
                         const skew_pair **judged) {
    for (size_t i = 0; i < r->pair_count; i++)
        judged[r->pairs[i].holder * r->host_count + r->pairs[i].taker] = &r->pairs[i];
    for (int h = 0; h < r->host_count; h++)
        for (int t = 0; t < r->host_count; t++) {
            if (h == t || !has_drift(r, drift, h) || !has_drift(r, drift, t))
                continue;
            skew_pair p = gap_of(r, judged, h, t);
            consider(o, r, &p, drift);
        }
}

static void count_undriven(trend_outlook *o, const skew_result *r, const skew_trend *drift) {
    for (int i = 0; i < r->host_count; i++)
        if (skew_is_clock(r->hosts[i].kind) && !has_drift(r, drift, i)) {
            o->one_unknown = i;
            o->unknown++;
        }
}

trend_outlook trend_look_ahead(const skew_result *r, const skew_trend *drift) {
    size_t n = (size_t)r->host_count;
    trend_outlook o = {.state = TREND_UNKNOWN,
                       .earliest_ms = -1,
                       .latest_ms = -1,
                       .holder = -1,
                       .taker = -1,
                       .one_unknown = -1};
    const skew_pair **judged = calloc(n * n + 1, sizeof(void *));

    if (!judged)
        return o;
    count_undriven(&o, r, drift);
    consider_all(&o, r, drift, judged);
    free(judged);
    bool unsafe = r->verdict == SKEW_UNSAFE, doubt = false;
    for (size_t i = 0; i < r->pair_count; i++)
        doubt = doubt || r->pairs[i].gap.hi > r->rule.slack_us;
    if (unsafe || doubt)
        o.earliest_ms = 0;
    if (unsafe)
        o.latest_ms = 0;
    if ((unsafe || doubt) && o.holder < 0) {
        o.holder = r->pairs[0].holder;
        o.taker = r->pairs[0].taker;
    }
    int measured = 0;
    for (int i = 0; i < r->host_count; i++)
        measured += has_drift(r, drift, i);
    o.state = unsafe               ? TREND_UNSAFE
              : doubt              ? TREND_DOUBT
              : measured < 2       ? TREND_UNKNOWN
              : o.earliest_ms >= 0 ? TREND_DRIFTING
                                   : TREND_STEADY;
    return o;
}

const char *trend_state_name(trend_state s) {
    static const char *const names[] = {"unsafe", "doubt", "drifting", "steady", "unknown"};
    return names[s];
}
