/*
 * Compares each round with the one before. Only a round's narrowest bracket counts, because it
 * rests on no assumption about rates. Edges are compared, never midpoints.
 */
#include "skew/judge/skew_pace.h"
#include "ground/guard.h"

/* contradictions in one round: more than one step of each clock can cause */
#define RESTLESS 3
#define SETTLED 6           /* rounds without anything odd */
#define MOST_PPB 1000000000 /* as fast as time passes */
#define ALONE_MS 900000     /* ms; how long a step counts */
/* ms; how long repeated steps count: a day, and an hour for a late one */
#define AGAIN_MS 90000000

/* us per time, as parts per billion, rounded away from 0. */
static int64_t ppb_out(int64_t us, int64_t over_ns) {
    int64_t scaled = tl__mul_sat(us < 0 ? -us : us, 1000000), over_ms = over_ns / TL_NS_PER_MS;
    int64_t ppb = over_ms > 0 ? scaled / over_ms + 1 : MOST_PPB;
    return ppb < MOST_PPB ? ppb : MOST_PPB;
}

/* The most that the clock may have moved; and the least that it did move. */
static int64_t most(tl_interval moved) {
    return moved.hi > -moved.lo ? moved.hi : -moved.lo;
}

static int64_t least(tl_interval moved) {
    return moved.lo > 0 ? moved.lo : moved.hi < 0 ? -moved.hi : 0;
}

static void note_step(skew_pace *pace, skew_track *track) {
    if (track->set_by_us == 0)
        return;
    pace->set[1] = pace->set[0];
    pace->set[0] = (skew_set){track->set_by_us, track->at};
    track->set_by_us = 0;
}

static tl_interval moved(tl_interval from, tl_interval to) {
    return (tl_interval){tl__add_sat(to.lo, -from.hi), tl__add_sat(to.hi, -from.lo)};
}

/* Did the clock move too far, within this round or over all rounds since it last did? With wide
 * brackets a single round shows little. */
static bool is_off(skew_pace *pace, const skew_track *track, int64_t over_ns, int32_t bound_ppm) {
    int64_t may_us = over_ns / 1000000 * bound_ppm / 1000 + 1;
    pace->may_us = tl__add_sat(pace->may_us, may_us);
    return least(moved(pace->offset, track->best)) > may_us ||
           (GUARD(many_rounds_show) && least(moved(pace->from, track->best)) > pace->may_us) ||
           track->steps + track->server_steps != pace->breaks;
}

static void compare(skew_pace *pace, const skew_track *track, int64_t over_ns, int32_t bound_ppm) {
    bool off = is_off(pace, track, over_ns, bound_ppm);
    int64_t ppb = ppb_out(most(moved(pace->offset, track->best)), over_ns);

    pace->rounds++;
    pace->blind = false;
    if (off) {
        pace->wrong = pace->wrong ||
                      (GUARD(off_again_is_unsteady) && pace->was_off && pace->even <= SETTLED);
        pace->was_off = true;
        pace->even = 0;
        pace->ppb = ppb > pace->ppb ? ppb : pace->ppb;
        pace->from = track->best;
        pace->may_us = 0;
        return;
    }
    pace->even++;
    if (!pace->wrong || pace->even > SETTLED) { /* it was a step, or has ended */
        pace->ppb = 0;
        pace->wrong = false;
    }
}

void skew_pace_learn(skew_pace *pace, skew_track *track, int32_t bound_ppm) {
    int64_t over_ns = pace->known ? tl__ns_until(pace->at, track->best_at) : 0;

    if (!track->known)
        return;
    note_step(pace, track);
    uint32_t breaks = track->steps + track->server_steps;
    if (GUARD(restless_is_unsteady) && breaks - pace->seen >= RESTLESS) {
        pace->blind = pace->blind || pace->ppb == 0;
        pace->wrong = pace->was_off = true;
        pace->even = 0;
    }
    pace->seen = breaks;
    if (pace->known && over_ns < SKEW_PACE_LEAST_MS * TL_NS_PER_MS)
        return;
    if (pace->known)
        compare(pace, track, over_ns, bound_ppm);
    else
        pace->from = track->best;
    pace->known = true;
    pace->offset = track->best;
    pace->at = track->best_at;
    pace->breaks = breaks;
}

void skew_pace_forget(skew_pace *pace) {
    *pace = (skew_pace){.seen = pace->seen, .set = {pace->set[0], pace->set[1]}};
}

bool skew_pace_wonders(const skew_pace *pace) {
    return pace->rounds == 0 || (pace->was_off && pace->even == 0 && !pace->wrong);
}

/* The rate was observed on a clock that itself runs wrong. On the server's clock, by which records
 * age, it may be higher. */
int32_t skew_pace_ppm(const skew_pace *pace) {
    int64_t ppm = pace->ppb / 1000 + 1;
    if (pace->ppb == 0)
        return pace->blind ? SKEW_PPM_MOST : 0;
    return ppm < 500000 ? (int32_t)(ppm * 1000000 / (1000000 - ppm) + 1) : SKEW_PPM_MOST;
}

int64_t skew_pace_step_us(const skew_pace *pace, tl_mono now) {
    const skew_set *last = &pace->set[0], *before = &pace->set[1];
    bool again = GUARD(set_often_counts_a_day) && before->us > 0 &&
                 tl__ms_until(before->at, last->at) < AGAIN_MS;
    int64_t most_us = again && before->us > last->us ? before->us : last->us;
    return last->us > 0 && tl__ms_until(last->at, now) < (again ? AGAIN_MS : ALONE_MS) ? most_us
                                                                                       : 0;
}

void skew_pace_mark(const skew_pace *pace, tl_mono now, skew_record *record) {
    int64_t step_us = GUARD(set_again_by_as_much) ? skew_pace_step_us(pace, now) : 0;
    int32_t ppm = skew_pace_ppm(pace);

    record->offset = (tl_interval){tl__add_sat(record->offset.lo, -step_us),
                                   tl__add_sat(record->offset.hi, step_us)};
    if (GUARD(ages_by_rate_seen) && ppm > record->slew_ppm)
        record->slew_ppm = ppm;
    record->unsteady = pace->wrong;
}
