/*
 * Brackets of a host's wall clock against the server's. All rounding goes outwards. Reads no clock,
 * and never uses a measurement from before a step after it.
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

static void forget(skew_track *track) {
    track->known = track->has_best = false;
    track->samples = 0;
}

void skew_track_round(skew_track *track) {
    track->has_best = false;
}

/* The largest possible difference of the two. */
static int64_t apart(tl_interval a, tl_interval b) {
    int64_t up = tl__add_sat(b.hi, -a.lo), down = tl__add_sat(a.hi, -b.lo);
    return up > down ? up : down;
}

/* Does the reading agree with the readings before it? If not, all former evidence is void. */
static bool agrees(skew_track *track, const skew_reading *reading) {
    bool first = !track->has_reading;
    tl_interval wall = first ? reading->wall : tl__interval_intersect(track->wall, reading->wall);
    tl_interval slept = first ? reading->slept
                              : tl__interval_intersect(track->slept, reading->slept);
    bool stepped = tl__interval_empty(wall), resumed = tl__interval_empty(slept);

    if (stepped && apart(track->wall, reading->wall) > track->set_by_us)
        track->set_by_us = apart(track->wall, reading->wall);
    track->has_reading = true;
    track->wall = stepped ? reading->wall : wall;
    track->slept = resumed ? reading->slept : slept;
    track->steps += stepped;
    track->resumes += resumed;
    if ((stepped && GUARD(void_after_step)) || (resumed && GUARD(void_after_resume)))
        forget(track);
    return !stepped && !resumed;
}

/* The edges proved by one exchange: the server's times lie between our two readings of the wall
 * clock. */
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

/* For an exchange during which the wall clock was set: uses only its end, and its duration on the
 * deadline clock. */
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

/* Applies a new rate. The time up to the last sample ages by the rate given for it. */
static void change_rate(skew_track *track, int32_t rate_ppm) {
    if (track->known && track->rate_ppm != rate_ppm) {
        track->lo = (skew_edge){track->offset.lo, track->at};
        track->hi = (skew_edge){track->offset.hi, track->at};
    }
    track->rate_ppm = rate_ppm;
}

static void begin(skew_track *track, const bracket *bracket, tl_interval offset, tl_mono at) {
    track->known = true;
    track->samples = 0;
    track->first = offset;
    track->first_at = at;
    track->lo = bracket->lo;
    track->hi = bracket->hi;
    track->offset = offset;
}

/* Keeps the tighter of each two edges. False: the bracket contradicts the former evidence. */
static bool tighten(skew_track *track, const bracket *bracket, tl_interval offset, tl_mono now) {
    tl_interval was = aged(&track->lo, &track->hi, now, track->rate_ppm);
    tl_interval both = tl__interval_intersect(was, offset);
    if (tl__interval_empty(both))
        return false;
    if (offset.lo > was.lo)
        track->lo = bracket->lo;
    if (offset.hi < was.hi)
        track->hi = bracket->hi;
    track->offset = both;
    return true;
}

void skew_learn(skew_track *track, const skew_reading *sent, int64_t stamp_us,
                const skew_reading *received, int32_t rate_ppm) {
    skew_learn_two(track, sent, stamp_us, stamp_us, received, rate_ppm);
}

void skew_learn_two(skew_track *track, const skew_reading *sent, int64_t first_us, int64_t last_us,
                    const skew_reading *received, int32_t rate_ppm) {
    bool whole = agrees(track, sent);
    whole = agrees(track, received) && whole;
    track->stamp_us = last_us; /* the server replied, whatever was wrong with our clock */
    /* Evidence begins again. A suspend during the exchange spoils the whole bracket, a step only
     * its first half. */
    if (!whole && tl__interval_empty(tl__interval_intersect(sent->slept, received->slept)))
        return;
    bool set = GUARD(set_exchange_by_end) && !whole &&
               tl__interval_empty(tl__interval_intersect(sent->wall, received->wall));
    change_rate(track, rate_ppm);
    bracket proof = set ? end_of(sent, last_us, received, rate_ppm)
                        : bracket_of(sent, first_us, last_us, received);
    tl_interval offset = aged(&proof.lo, &proof.hi, received->after, rate_ppm);
    /* the server's times are further apart than the exchange took */
    if (tl__interval_empty(offset)) {
        track->server_steps++;
        track->server_stepped_us = last_us;
        forget(track);
        return;
    }
    if (track->known && !tighten(track, &proof, offset, received->after)) {
        track->server_steps++;
        track->server_stepped_us = last_us;
        forget(track);
    }
    if (!track->known)
        begin(track, &proof, offset, received->after);
    track->at = received->after;
    track->samples++;
    if (!track->has_best || offset.hi - offset.lo < track->best.hi - track->best.lo) {
        track->has_best = true;
        track->best = offset;
        track->best_at = track->at;
    }
}

int32_t skew_rate(int32_t drift_ppm, int32_t slew_ppm) {
    int64_t ppm = (int64_t)drift_ppm + slew_ppm, most = 500000;

    if (slew_ppm <= 0)
        return drift_ppm;
    ppm = ppm < most ? ppm : most;
    return (int32_t)(ppm * 1000000 / (1000000 - ppm) + 1);
}

bool skew_unbroken(const skew_track *track, const skew_reading *now) {
    return !tl__interval_empty(tl__interval_intersect(track->wall, now->wall)) &&
           !tl__interval_empty(tl__interval_intersect(track->slept, now->slept));
}

tl_interval skew_offset(const skew_track *track, tl_mono now, int32_t rate_ppm) {
    if (rate_ppm != track->rate_ppm)
        return tl__interval_aged(track->offset, track->at, now, rate_ppm);
    return aged(&track->lo, &track->hi, now, rate_ppm);
}

/* us per ns, as parts per billion, rounded down. */
static int64_t ppb_down(int64_t us, int64_t over_ns) {
    int64_t over_ms = over_ns / TL_NS_PER_MS + (us > 0);
    int64_t scaled = tl__mul_sat(us, 1000000);
    return tl__add_sat(scaled / over_ms, -(scaled % over_ms < 0));
}

bool skew_drift(const skew_track *track, tl_interval *ret_ppb) {
    int64_t over_ns = track->known ? tl__ns_until(track->first_at, track->at) : 0;
    if (over_ns < DRIFT_LEAST_NS)
        return false;
    ret_ppb->lo = ppb_down(tl__add_sat(track->offset.lo, -track->first.hi), over_ns);
    ret_ppb->hi = -ppb_down(tl__add_sat(track->first.lo, -track->offset.hi), over_ns);
    return true;
}
