/*
 * Drift and outlook. A line passes through all intervals exactly if, for each two of them, its
 * slope lies between the slopes through their opposite corners. So the stretch is the longest one
 * for which all these ranges of slopes have a slope in common. All rounding goes outwards.
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

/* The possible slopes of lines through both, ppb; the second is later. */
static tl_interval slopes(const past_point *from, const past_point *to) {
    int64_t over_ms = to->at_ms - from->at_ms;
    tl_interval slope = {
        tl__add_sat(to->offset.lo, -(GUARD(drift_is_a_bound) ? from->offset.hi : from->offset.lo)),
        tl__add_sat(to->offset.hi, -from->offset.lo)};

    if (over_ms == 0) /* any slope, or none */
        return slope.lo <= 0 && slope.hi >= 0 ? (tl_interval){-TREND_PPB_MOST, TREND_PPB_MOST}
                                              : (tl_interval){1, 0};
    slope.lo = div_down(tl__mul_sat(slope.lo, US_PER_MS_PPB), over_ms);
    slope.hi = div_up(tl__mul_sat(slope.hi, US_PER_MS_PPB), over_ms);
    return slope;
}

/* Chooses the points to use: the known ones, fewer towards the past. Newest first. */
static size_t choose(const past_point *point, size_t count, const past_point *ret[TREND_POINTS]) {
    size_t step = 1, n = 0;

    if (count > TREND_POINTS)
        step = (count - TREND_POINTS / 2) / (TREND_POINTS / 2) + 1;
    for (size_t back = 0; back < count && n < TREND_POINTS;
         back += back < TREND_POINTS / 2 ? 1 : step) {
        const past_point *known = &point[count - 1 - back];
        if (past_known(known))
            ret[n++] = known;
    }
    return n;
}

/* The slopes that remain if the line also passes through an older point. */
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
    skew_trend trend = {.known = false};

    if (n == 0)
        return trend;
    for (; used < n; used++) {
        tl_interval left = also_through(ppb, chosen, used, chosen[used]);
        trend.bent = tl__interval_empty(left);
        if (trend.bent && GUARD(latest_stretch_alone))
            break;
        ppb = left;
    }
    trend.to_ms = chosen[0]->at_ms;
    trend.from_ms = chosen[used - 1]->at_ms;
    trend.known = trend.from_ms < trend.to_ms;
    trend.ppb = ppb;
    return trend;
}

/* ---- the outlook --------------------------------------------------------------------------------- */

/* The time, in ms, in which something at this rate grows so much; -1: never, or not in a hundred
 * years. */
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

static void consider(trend_outlook *outlook, const skew_result *result, const skew_pair *pair,
                     const skew_trend *drift) {
    const skew_trend *holder = &drift[pair->holder], *taker = &drift[pair->taker];
    tl_interval rate = {taker->ppb.lo - holder->ppb.hi, taker->ppb.hi - holder->ppb.lo};
    int64_t slack = result->rule.slack_us,
            first = reached_ms(tl__add_sat(tl__add_sat(slack, 1), -pair->gap.hi), rate.hi, false),
            last = reached_ms(tl__add_sat(tl__add_sat(slack, 1), -pair->gap.lo), rate.lo, true);

    if (sooner(first, outlook->earliest_ms)) {
        outlook->earliest_ms = first;
        outlook->holder = pair->holder;
        outlook->taker = pair->taker;
    }
    if (sooner(last, outlook->latest_ms))
        outlook->latest_ms = last;
}

/* The gap as judged, if the log line still has it; else from the two offsets, which is wider.
 * judged: of this holder, by takers. */
static skew_pair gap_of(const skew_result *result, const skew_pair *const *judged, int h, int t) {
    const skew_host *holder = &result->hosts[h], *taker = &result->hosts[t];
    skew_pair pair = {.holder = h, .taker = t};

    if (judged[t])
        return *judged[t];
    pair.gap = skew_widened(&result->rule, holder, taker,
                            (tl_interval){tl__add_sat(taker->offset.lo, -holder->offset.hi),
                                          tl__add_sat(taker->offset.hi, -holder->offset.lo)});
    return pair;
}

static bool has_drift(const skew_result *result, const skew_trend *drift, int i) {
    return skew_is_clock(result->hosts[i].kind) && result->hosts[i].known &&
           !(GUARD(missing_has_no_drift) && result->hosts[i].missing) &&
           (drift[i].known || !GUARD(drift_is_known));
}

static void consider_holder(trend_outlook *outlook, const skew_result *result,
                            const skew_trend *drift, const skew_pair **judged, int h) {
    for (int t = 0; t < result->host_count; t++)
        judged[t] = NULL;
    for (size_t i = 0; i < result->pair_count; i++)
        if (result->pairs[i].holder == h)
            judged[result->pairs[i].taker] = &result->pairs[i];
    for (int t = 0; t < result->host_count; t++) {
        if (h == t || !has_drift(result, drift, t))
            continue;
        skew_pair pair = gap_of(result, judged, h, t);
        consider(outlook, result, &pair, drift);
    }
}

static void count_undriven(trend_outlook *outlook, const skew_result *result,
                           const skew_trend *drift) {
    for (int i = 0; i < result->host_count; i++)
        if (skew_is_clock(result->hosts[i].kind) && !has_drift(result, drift, i)) {
            outlook->one_unknown = i;
            outlook->unknown++;
        }
    if (result->pair_count && !has_drift(result, drift, result->pairs[0].taker))
        outlook->one_unknown = result->pairs[0].taker;
    else if (result->pair_count && !has_drift(result, drift, result->pairs[0].holder))
        outlook->one_unknown = result->pairs[0].holder;
}

trend_outlook trend_look_ahead(const skew_result *result, const skew_trend *drift) {
    size_t n = (size_t)result->host_count;
    trend_outlook outlook = {.state = TREND_UNKNOWN,
                             .earliest_ms = -1,
                             .latest_ms = -1,
                             .holder = -1,
                             .taker = -1,
                             .one_unknown = -1};
    const skew_pair **judged = calloc(n + 1, sizeof(void *));

    if (!judged)
        return outlook;
    count_undriven(&outlook, result, drift);
    for (int h = 0; h < result->host_count; h++)
        if (has_drift(result, drift, h))
            consider_holder(&outlook, result, drift, judged, h);
    free(judged);
    bool unsafe = result->verdict == SKEW_UNSAFE, doubt = false;
    for (size_t i = 0; i < result->pair_count; i++)
        doubt = doubt || result->pairs[i].gap.hi > result->rule.slack_us;
    if (unsafe || doubt)
        outlook.earliest_ms = 0;
    if (unsafe)
        outlook.latest_ms = 0;
    if ((unsafe || doubt) && outlook.holder < 0) {
        outlook.holder = result->pairs[0].holder;
        outlook.taker = result->pairs[0].taker;
    }
    int measured = 0;
    for (int i = 0; i < result->host_count; i++)
        measured += has_drift(result, drift, i);
    outlook.state = unsafe                     ? TREND_UNSAFE
                    : doubt                    ? TREND_DOUBT
                    : measured < 2             ? TREND_UNKNOWN
                    : outlook.earliest_ms >= 0 ? TREND_DRIFTING
                                               : TREND_STEADY;
    return outlook;
}

const char *trend_state_name(trend_state s) {
    static const char *const names[] = {"unsafe", "doubt", "drifting", "steady", "unknown"};
    return names[s];
}
