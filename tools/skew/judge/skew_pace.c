/*
 * From one round to the next. Of what a round has measured the narrowest bracket alone counts here, since that rests on no
 * assumption about rates. Edges are compared, never middles.
 */
#include "skew/judge/skew_pace.h"
#include "ground/guard.h"

#define RESTLESS 3 /* contradictions in one round: more than a step of each of the two clocks */
#define SETTLED 6  /* rounds without anything odd */
#define MOST_PPB 1000000000 /* as much as passes */
#define ALONE_MS 900000     /* how long a step counts */
#define AGAIN_MS 90000000   /* of those that come again: a day, and an hour for one that is late */

/* us over a time, parts per billion, rounded away from 0. */
static int64_t ppb_out(int64_t us, int64_t over_ns) {
    int64_t scaled = tl__mul_sat(us < 0 ? -us : us, 1000000), over_ms = over_ns / TL_NS_PER_MS;
    int64_t ppb = over_ms > 0 ? scaled / over_ms + 1 : MOST_PPB;
    return ppb < MOST_PPB ? ppb : MOST_PPB;
}

/* It may have moved so far, and did move so far. */
static int64_t most(tl_interval moved) {
    return moved.hi > -moved.lo ? moved.hi : -moved.lo;
}

static int64_t least(tl_interval moved) {
    return moved.lo > 0 ? moved.lo : moved.hi < 0 ? -moved.hi : 0;
}

static void note_step(skew_pace *p, skew_track *t) {
    if (t->set_by_us == 0)
        return;
    p->set[1] = p->set[0];
    p->set[0] = (skew_set){t->set_by_us, t->at};
    t->set_by_us = 0;
}

static tl_interval moved(tl_interval from, tl_interval to) {
    return (tl_interval){tl__add_sat(to.lo, -from.hi), tl__add_sat(to.hi, -from.lo)};
}

/* Within a round, and over all rounds since it was off last: where brackets are wide a single one shows little. */
static bool is_off(skew_pace *p, const skew_track *t, int64_t over_ns, int32_t bound_ppm) {
    int64_t may_us = over_ns / 1000000 * bound_ppm / 1000 + 1;
    p->may_us = tl__add_sat(p->may_us, may_us);
    return least(moved(p->offset, t->best)) > may_us ||
           (GUARD(many_rounds_show) && least(moved(p->from, t->best)) > p->may_us) ||
           t->steps + t->server_steps != p->breaks;
}

static void compare(skew_pace *p, const skew_track *t, int64_t over_ns, int32_t bound_ppm) {
    bool off = is_off(p, t, over_ns, bound_ppm);
    int64_t ppb = ppb_out(most(moved(p->offset, t->best)), over_ns);

    p->rounds++;
    p->blind = false;
    if (off) {
        p->wrong = p->wrong || (GUARD(off_again_is_unsteady) && p->was_off && p->even <= SETTLED);
        p->was_off = true;
        p->even = 0;
        p->ppb = ppb > p->ppb ? ppb : p->ppb;
        p->from = t->best;
        p->may_us = 0;
        return;
    }
    p->even++;
    if (!p->wrong || p->even > SETTLED) { /* it was a step, or is over */
        p->ppb = 0;
        p->wrong = false;
    }
}

void skew_pace_learn(skew_pace *p, skew_track *t, int32_t bound_ppm) {
    int64_t over_ns = p->known ? tl__ns_until(p->at, t->best_at) : 0;

    if (!t->known)
        return;
    note_step(p, t);
    uint32_t breaks = t->steps + t->server_steps;
    if (GUARD(restless_is_unsteady) && breaks - p->seen >= RESTLESS) {
        p->blind = p->blind || p->ppb == 0;
        p->wrong = p->was_off = true;
        p->even = 0;
    }
    p->seen = breaks;
    if (p->known && over_ns < SKEW_PACE_LEAST_MS * TL_NS_PER_MS)
        return;
    if (p->known)
        compare(p, t, over_ns, bound_ppm);
    else
        p->from = t->best;
    p->known = true;
    p->offset = t->best;
    p->at = t->best_at;
    p->breaks = breaks;
}

void skew_pace_forget(skew_pace *p) {
    *p = (skew_pace){.seen = p->seen, .set = {p->set[0], p->set[1]}};
}

bool skew_pace_wonders(const skew_pace *p) {
    return p->rounds == 0 || (p->was_off && p->even == 0 && !p->wrong);
}

/* The rate was seen on a clock that runs wrong itself: on the server's, by which records age, it may be more. */
int32_t skew_pace_ppm(const skew_pace *p) {
    int64_t ppm = p->ppb / 1000 + 1;
    if (p->ppb == 0)
        return p->blind ? SKEW_PPM_MOST : 0;
    return ppm < 500000 ? (int32_t)(ppm * 1000000 / (1000000 - ppm) + 1) : SKEW_PPM_MOST;
}

int64_t skew_pace_step_us(const skew_pace *p, tl_mono now) {
    const skew_set *last = &p->set[0], *before = &p->set[1];
    bool again = GUARD(set_often_counts_a_day) && before->us > 0 &&
                 tl__ms_until(before->at, last->at) < AGAIN_MS;
    int64_t most_us = again && before->us > last->us ? before->us : last->us;
    return last->us > 0 && tl__ms_until(last->at, now) < (again ? AGAIN_MS : ALONE_MS) ? most_us
                                                                                       : 0;
}

void skew_pace_mark(const skew_pace *p, tl_mono now, skew_record *r) {
    int64_t step_us = GUARD(set_again_by_as_much) ? skew_pace_step_us(p, now) : 0;
    int32_t ppm = skew_pace_ppm(p);

    r->offset = (tl_interval){tl__add_sat(r->offset.lo, -step_us),
                              tl__add_sat(r->offset.hi, step_us)};
    if (GUARD(ages_by_rate_seen) && ppm > r->slew_ppm)
        r->slew_ppm = ppm;
    r->unsteady = p->wrong;
}
