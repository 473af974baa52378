/*
 * Arithmetic of intervals. Every rounding goes outwards, so that the truth stays inside.
 */
#include "wire/interval.h"

#include "ground/guard.h"

#define MILLION INT64_C(1000000)

static int64_t floor_us(int64_t ns) {
    return ns / TL_NS_PER_US - (ns % TL_NS_PER_US < 0);
}

static int64_t ceil_us(int64_t ns) {
    return ns / TL_NS_PER_US + (ns % TL_NS_PER_US > 0);
}

tl_interval tl__bracket(int64_t server_us, tl_mono sent, tl_mono received) {
    return (tl_interval){
        tl__add_sat(server_us, -ceil_us((GUARD(bracket_from_receipt) ? received : sent).ns)),
        tl__add_sat(server_us, 1 - floor_us(sent.ns))};
}

tl_interval tl__interval_intersect(tl_interval a, tl_interval b) {
    return (tl_interval){a.lo > b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi};
}

int64_t tl__drift_ns(int64_t duration_ns, int32_t rate_ppm) {
    if (duration_ns <= 0)
        return 0;
    return tl__add_sat(tl__mul_sat(duration_ns / MILLION, rate_ppm), rate_ppm);
}

int64_t tl__rate_least_ns(int64_t duration_ns, int32_t drift_ppm) {
    int64_t slow = MILLION - drift_ppm, fast = MILLION + drift_ppm;
    if (duration_ns <= 0 || slow <= 0)
        return 0;
    return duration_ns / fast * slow + duration_ns % fast * slow / fast;
}

int64_t tl__rate_most_ns(int64_t duration_ns, int32_t drift_ppm) {
    int64_t slow = MILLION - drift_ppm, fast = MILLION + drift_ppm;
    if (duration_ns <= 0)
        return 0;
    if (slow <= 0)
        return INT64_MAX;
    return tl__add_sat(tl__mul_sat(duration_ns / slow, fast),
                       (duration_ns % slow * fast + slow - 1) / slow);
}

tl_interval tl__interval_aged(tl_interval i, tl_mono from, tl_mono to, int32_t rate_ppm) {
    int64_t by = ceil_us(tl__drift_ns(tl__ns_until(from, to), rate_ppm));
    return (tl_interval){tl__add_sat(i.lo, -by), tl__add_sat(i.hi, by)};
}

/* ---- anchors --------------------------------------------------------------------------------- */

/* How much the server's clock may have gained on ours while ours showed duration_ns; and lost. */
static int64_t gained_us(int64_t duration_ns, int32_t drift_ppm) {
    if (duration_ns <= 0)
        return 0;
    return ceil_us(tl__add_sat(tl__rate_most_ns(duration_ns, drift_ppm), -duration_ns));
}

static int64_t lost_us(int64_t duration_ns, int32_t drift_ppm) {
    if (duration_ns <= 0)
        return 0;
    return ceil_us(duration_ns - tl__rate_least_ns(duration_ns, drift_ppm));
}

static tl_interval offset_at(tl_interval offset, tl_mono from, tl_mono to, int32_t drift_ppm) {
    int64_t ns = GUARD(anchor_with_drift) * tl__ns_until(from, to);
    return (tl_interval){tl__add_sat(offset.lo, -lost_us(ns, drift_ppm)),
                         tl__add_sat(offset.hi, gained_us(ns, drift_ppm))};
}

/* The server read its clock at some moment of the exchange, whose duration is the bracket's width. Between
 * that moment and the reply its clock may have gained on ours, which raises the upper edge. The lower edge
 * assumes the moment of the reply, so it needs no change. */
static tl_interval at_receipt(tl_interval bracket, int32_t drift_ppm) {
    int64_t width_ns = tl__mul_sat(tl__add_sat(bracket.hi, -bracket.lo), TL_NS_PER_US);
    /* Otherwise a slow reply followed by a quick one would look like a step of the server's clock. */
    if (GUARD(bracket_with_drift))
        bracket.hi = tl__add_sat(bracket.hi, gained_us(width_ns, drift_ppm));
    return bracket;
}

bool tl__anchor_learn(tl_anchor *anchor, tl_interval bracket, tl_mono received, int32_t drift_ppm) {
    tl_mono at = anchor->known ? tl__mono_max(received, anchor->at) : received;
    bool stepped = false;
    bracket = offset_at(at_receipt(bracket, drift_ppm), received, at, drift_ppm);
    if (anchor->known) {
        tl_interval aged = offset_at(anchor->offset, anchor->at, at, drift_ppm);
        tl_interval both = tl__interval_intersect(aged, bracket);
        stepped = tl__interval_empty(both);
        if (!stepped)
            bracket = both;
    }
    anchor->known = true;
    anchor->offset = bracket;
    anchor->at = at;
    anchor->steps += stepped;
    return stepped;
}

bool tl__anchor_renew(tl_anchor *anchor, tl_interval bracket, tl_mono received, int32_t drift_ppm) {
    bool stepped = tl__anchor_learn(anchor, bracket, received, drift_ppm);
    anchor->known = !GUARD(new_clock_alone);
    (void)tl__anchor_learn(anchor, bracket, received, drift_ppm);
    return stepped;
}

tl_interval tl__anchor_server_time(const tl_anchor *anchor, tl_mono at, int32_t drift_ppm) {
    tl_interval aged = offset_at(anchor->offset, anchor->at, at, drift_ppm);
    return (tl_interval){tl__add_sat(aged.lo, floor_us(at.ns)),
                         tl__add_sat(aged.hi, ceil_us(at.ns))};
}

tl_interval tl__anchor_offset(const tl_anchor *anchor, tl_mono at, int32_t drift_ppm) {
    return offset_at(anchor->offset, anchor->at, at, drift_ppm);
}
