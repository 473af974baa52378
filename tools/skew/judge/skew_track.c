/*
 * Brackets of a host's wall clock against the server's. Every rounding goes outwards. It reads no
 * clock, and never carries what was measured before a step over it.
 */
#include "skew/judge/skew_track.h"
#include "ground/guard.h"

#define DRIFT_LEAST_NS INT64_C(1000000000)

skew_reading skew_read(tl_mono before, int64_t wall_us, int64_t monotonic_ns, tl_mono after) {
    tl_interval boot_less_monotonic = {
        (before.ns - monotonic_ns) / 1000 - 1,
        (after.ns - monotonic_ns) / 1000 + 1,
    };
    return (skew_reading){.before = before,
                          .after = after,
                          .wall_us = wall_us,
                          .wall = tl__bracket(wall_us, before, after),
                          .slept = boot_less_monotonic};
}

static void forget(skew_track *t) {
    t->known = t->has_best = false;
    t->samples = 0;
}

void skew_track_round(skew_track *t) {
    t->has_best = false;
}

/* By how much more one shows than the other, at most. */
static int64_t apart(tl_interval a, tl_interval b) {
    int64_t up = tl__add_sat(b.hi, -a.lo), down = tl__add_sat(a.hi, -b.lo);
    return up > down ? up : down;
}

/* Does the reading agree with those before it? If not, all that was known is void. */
static bool agrees(skew_track *t, const skew_reading *r) {
    bool first = !t->has_reading;
    tl_interval wall = first ? r->wall : tl__interval_intersect(t->wall, r->wall);
    tl_interval slept = first ? r->slept : tl__interval_intersect(t->slept, r->slept);
    bool stepped = tl__interval_empty(wall), resumed = tl__interval_empty(slept);

    if (stepped && apart(t->wall, r->wall) > t->set_by_us)
        t->set_by_us = apart(t->wall, r->wall);
    t->has_reading = true;
    t->wall = stepped ? r->wall : wall;
    t->slept = resumed ? r->slept : slept;
    t->steps += stepped;
    t->resumes += resumed;
    if ((stepped && GUARD(void_after_step)) || (resumed && GUARD(void_after_resume)))
        forget(t);
    return !stepped && !resumed;
}

/* The stamps were made, and the wall clock passed from one reading to the other, between the two. */
typedef struct {
    skew_edge lo, hi;
} bracket;

static bracket bracket_of(const skew_reading *sent, int64_t first_us, int64_t last_us,
                          const skew_reading *received) {
    return (bracket){
        .lo = {tl__add_sat(sent->wall_us, -tl__add_sat(first_us, 1)), sent->before},
        .hi = {tl__add_sat(tl__add_sat(received->wall_us, 1), -last_us), sent->before},
    };
}

/* Of an exchange in which the wall clock was set: by its end alone, and by how long it took on the deadline clock. */
static bracket end_of(const skew_reading *sent, int64_t last_us, const skew_reading *received,
                      int32_t rate_ppm) {
    int64_t took_us = tl__ns_until(sent->before, received->after) / 1000 + 1;
    took_us = tl__add_sat(took_us, tl__mul_sat(took_us, rate_ppm) / 1000000 + 1);
    return (bracket){
        .lo = {tl__add_sat(received->wall_us, -tl__add_sat(last_us, tl__add_sat(took_us, 1))),
               received->before},
        .hi = {tl__add_sat(tl__add_sat(received->wall_us, 1), -last_us), received->before},
    };
}

static tl_interval aged(const skew_edge *lo, const skew_edge *hi, tl_mono now, int32_t rate_ppm) {
    const tl_interval low = {lo->us, lo->us}, high = {hi->us, hi->us};
    return (tl_interval){tl__interval_aged(low, lo->since, now, rate_ppm).lo,
                         tl__interval_aged(high, hi->since, now, rate_ppm).hi};
}

/* The time until the last sample is paid for by the rate that was said to hold for it. */
static void change_rate(skew_track *t, int32_t rate_ppm) {
    if (t->known && t->rate_ppm != rate_ppm) {
        t->lo = (skew_edge){t->offset.lo, t->at};
        t->hi = (skew_edge){t->offset.hi, t->at};
    }
    t->rate_ppm = rate_ppm;
}

static void begin(skew_track *t, const bracket *b, tl_interval offset, tl_mono at) {
    t->known = true;
    t->samples = 0;
    t->first = offset;
    t->first_at = at;
    t->lo = b->lo;
    t->hi = b->hi;
    t->offset = offset;
}

/* Of each edge the one that says more from now on. False: the bracket contradicts what was known. */
static bool tighten(skew_track *t, const bracket *b, tl_interval offset, tl_mono now) {
    tl_interval was = aged(&t->lo, &t->hi, now, t->rate_ppm);
    tl_interval both = tl__interval_intersect(was, offset);
    if (tl__interval_empty(both))
        return false;
    if (offset.lo > was.lo)
        t->lo = b->lo;
    if (offset.hi < was.hi)
        t->hi = b->hi;
    t->offset = both;
    return true;
}

void skew_learn(skew_track *t, const skew_reading *sent, int64_t stamp_us,
                const skew_reading *received, int32_t rate_ppm) {
    skew_learn_two(t, sent, stamp_us, stamp_us, received, rate_ppm);
}

void skew_learn_two(skew_track *t, const skew_reading *sent, int64_t first_us, int64_t last_us,
                    const skew_reading *received, int32_t rate_ppm) {
    bool whole = agrees(t, sent);
    whole = agrees(t, received) && whole;
    t->stamp_us = last_us; /* the server has answered, whatever was wrong with our own clock */
    /* The first reading of a new beginning is sound by itself; a suspend in between spoils the bracket, a step its begin. */
    if (!whole && tl__interval_empty(tl__interval_intersect(sent->slept, received->slept)))
        return;
    bool set = GUARD(set_exchange_by_end) && !whole &&
               tl__interval_empty(tl__interval_intersect(sent->wall, received->wall));
    change_rate(t, rate_ppm);
    bracket b = set ? end_of(sent, last_us, received, rate_ppm)
                    : bracket_of(sent, first_us, last_us, received);
    tl_interval offset = aged(&b.lo, &b.hi, received->after, rate_ppm);
    if (tl__interval_empty(offset)) { /* the stamps are further apart than the exchange took */
        t->server_steps++;
        t->server_stepped_us = last_us;
        forget(t);
        return;
    }
    if (t->known && !tighten(t, &b, offset, received->after)) {
        t->server_steps++;
        t->server_stepped_us = last_us;
        forget(t);
    }
    if (!t->known)
        begin(t, &b, offset, received->after);
    t->at = received->after;
    t->samples++;
    if (!t->has_best || offset.hi - offset.lo < t->best.hi - t->best.lo) {
        t->has_best = true;
        t->best = offset;
        t->best_at = t->at;
    }
}

int32_t skew_rate(int32_t drift_ppm, int32_t slew_ppm) {
    int64_t ppm = (int64_t)drift_ppm + slew_ppm, most = 500000;

    if (slew_ppm <= 0)
        return drift_ppm;
    ppm = ppm < most ? ppm : most;
    return (int32_t)(ppm * 1000000 / (1000000 - ppm) + 1);
}

bool skew_unbroken(const skew_track *t, const skew_reading *now) {
    return !tl__interval_empty(tl__interval_intersect(t->wall, now->wall)) &&
           !tl__interval_empty(tl__interval_intersect(t->slept, now->slept));
}

tl_interval skew_offset(const skew_track *t, tl_mono now, int32_t rate_ppm) {
    if (rate_ppm != t->rate_ppm)
        return tl__interval_aged(t->offset, t->at, now, rate_ppm);
    return aged(&t->lo, &t->hi, now, rate_ppm);
}

/* us over ns as parts per billion, rounded down. */
static int64_t ppb_down(int64_t us, int64_t over_ns) {
    int64_t over_ms = over_ns / TL_NS_PER_MS + (us > 0);
    int64_t scaled = tl__mul_sat(us, 1000000);
    return tl__add_sat(scaled / over_ms, -(scaled % over_ms < 0));
}

bool skew_drift(const skew_track *t, tl_interval *ret_ppb) {
    int64_t over_ns = t->known ? tl__ns_until(t->first_at, t->at) : 0;
    if (over_ns < DRIFT_LEAST_NS)
        return false;
    ret_ppb->lo = ppb_down(tl__add_sat(t->offset.lo, -t->first.hi), over_ns);
    ret_ppb->hi = -ppb_down(tl__add_sat(t->first.lo, -t->offset.hi), over_ns);
    return true;
}
