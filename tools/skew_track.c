/*
 * Brackets of a host's wall clock against the server's. Every rounding goes outwards. It reads no
 * clock, and never carries what was measured before a step over it.
 */
#include "skew_track.h"

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
    t->known = false;
    t->samples = 0;
}

/* Does the reading agree with those before it? If not, all that was known is void. */
static bool agrees(skew_track *t, const skew_reading *r) {
    bool first = !t->has_reading;
    tl_interval wall = first ? r->wall : tl__interval_intersect(t->wall, r->wall);
    tl_interval slept = first ? r->slept : tl__interval_intersect(t->slept, r->slept);
    bool stepped = tl__interval_empty(wall), resumed = tl__interval_empty(slept);

    t->has_reading = true;
    t->wall = stepped ? r->wall : wall;
    t->slept = resumed ? r->slept : slept;
    t->steps += stepped;
    t->resumes += resumed;
    if (stepped || resumed)
        forget(t);
    return !stepped && !resumed;
}

/* The stamps were made, and the wall clock passed from one reading to the other, between the two. */
static tl_interval bracket(const skew_reading *sent, int64_t first_us, int64_t last_us,
                           const skew_reading *received, int32_t rate_ppm) {
    tl_interval at_stamp = {
        tl__add_sat(sent->wall_us, -tl__add_sat(first_us, 1)),
        tl__add_sat(tl__add_sat(received->wall_us, 1), -last_us),
    };
    return tl__interval_aged(at_stamp, sent->before, received->after, rate_ppm);
}

static void begin(skew_track *t, tl_interval offset, tl_mono at) {
    t->known = true;
    t->samples = 0;
    t->first = offset;
    t->first_at = at;
    t->offset = offset;
}

void skew_learn(skew_track *t, const skew_reading *sent, int64_t stamp_us,
                const skew_reading *received, int32_t rate_ppm) {
    skew_learn_two(t, sent, stamp_us, stamp_us, received, rate_ppm);
}

void skew_learn_two(skew_track *t, const skew_reading *sent, int64_t first_us, int64_t last_us,
                    const skew_reading *received, int32_t rate_ppm) {
    bool whole = agrees(t, sent);
    whole = agrees(t, received) && whole;
    /* The first reading of a new beginning is sound by itself; a step in between spoils the bracket. */
    if (!whole && (tl__interval_empty(tl__interval_intersect(sent->wall, received->wall)) ||
                   tl__interval_empty(tl__interval_intersect(sent->slept, received->slept))))
        return;
    tl_interval offset = bracket(sent, first_us, last_us, received, rate_ppm);
    if (tl__interval_empty(offset)) { /* the stamps are further apart than the exchange took */
        t->server_steps++;
        t->server_stepped_us = last_us;
        forget(t);
        return;
    }
    if (t->known) {
        tl_interval both = tl__interval_intersect(skew_offset(t, received->after, rate_ppm),
                                                  offset);
        if (tl__interval_empty(both)) {
            t->server_steps++;
            t->server_stepped_us = last_us;
            forget(t);
        } else {
            t->offset = both;
        }
    }
    if (!t->known)
        begin(t, offset, received->after);
    t->at = received->after;
    t->stamp_us = last_us;
    t->samples++;
}

bool skew_unbroken(const skew_track *t, const skew_reading *now) {
    return !tl__interval_empty(tl__interval_intersect(t->wall, now->wall)) &&
           !tl__interval_empty(tl__interval_intersect(t->slept, now->slept));
}

tl_interval skew_offset(const skew_track *t, tl_mono now, int32_t rate_ppm) {
    return tl__interval_aged(t->offset, t->at, now, rate_ppm);
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
