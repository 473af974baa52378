/*
 * A host's offset from the server: whatever happens on the way and to the clocks, the truth stays
 * inside the interval. The clocks here are numbers. SKEW_RUNS=n plays so many seeded worlds, SKEW_SEED=n
 * one of them.
 */
#include <stdlib.h>

#include "seeded.h"
#include "tests.h"
#include "skew/judge/skew_track.h"

#define US INT64_C(1000)
#define MS INT64_C(1000000)
#define S INT64_C(1000000000)
#define RATE 200
#define SLEW 83333 /* how fast a daemon corrects the clock besides */

static uint64_t seed_played; /* for messages; 0: by hand */
static int32_t told = RATE;  /* bounds the drift, in seeded worlds */

/* ---- a world: true time, and what each clock shows -------------------------------------------- */

typedef struct {
    int64_t now;                               /* true time, ns */
    int64_t boot_zero, wall_zero, server_zero; /* what is added to true time, ns */
    int64_t slept;                             /* deadline clock less monotonic clock */
    int64_t wall_ppb, server_ppb; /* rates; the deadline clock runs as the wall clock */
    int64_t rated_at, boot_gained, server_gained;
} track_world;

static int64_t gain(int64_t over, int64_t ppb) {
    return over / 1000 * ppb / 1000000;
}
static int64_t boot_at(const track_world *w) {
    return w->now + w->boot_zero + w->boot_gained + gain(w->now - w->rated_at, w->wall_ppb);
}
static int64_t wall_at(const track_world *w) {
    return boot_at(w) - w->boot_zero + w->wall_zero;
}
static int64_t server_at(const track_world *w) {
    return w->now + w->server_zero + w->server_gained + gain(w->now - w->rated_at, w->server_ppb);
}
static int64_t floor_us(int64_t ns) {
    return ns / 1000 - (ns % 1000 < 0);
}
/* In ns. */
static int64_t truth(const track_world *w) {
    return wall_at(w) - server_at(w);
}
static void set_rates(track_world *w, int64_t wall_ppb, int64_t server_ppb) {
    w->boot_gained += gain(w->now - w->rated_at, w->wall_ppb);
    w->server_gained += gain(w->now - w->rated_at, w->server_ppb);
    w->rated_at = w->now;
    w->wall_ppb = wall_ppb;
    w->server_ppb = server_ppb;
}

/* A reading that takes a pause between each two of its clocks. */
static skew_reading look(track_world *w, int64_t pause_ns) {
    tl_mono before = {boot_at(w)};
    w->now += pause_ns;
    int64_t wall = floor_us(wall_at(w));
    w->now += pause_ns;
    int64_t monotonic = boot_at(w) - w->slept;
    w->now += pause_ns;
    return skew_read(before, wall, monotonic, (tl_mono){boot_at(w)});
}

/* One exchange: so long there, so long back. */
static void exchange(track_world *w, skew_track *t, int64_t there, int64_t back) {
    skew_reading sent = look(w, 50);
    w->now += there;
    int64_t stamp = floor_us(server_at(w));
    w->now += back;
    skew_reading received = look(w, 50);
    skew_learn(t, &sent, stamp, &received, RATE);
}

/* So long each way, with a bound on the drift that is true just now. */
static void exchange_by(track_world *w, skew_track *t, int64_t way, int32_t rate_ppm) {
    skew_reading sent = look(w, 50);
    w->now += way;
    int64_t stamp = floor_us(server_at(w));
    w->now += way;
    skew_reading received = look(w, 50);
    skew_learn(t, &sent, stamp, &received, rate_ppm);
}

/* The same, with an answer that says when the question came and, some time later, when it left. */
static void exchange_two(track_world *w, skew_track *t, int64_t there, int64_t thought,
                         int64_t back) {
    skew_reading sent = look(w, 50);
    w->now += there;
    int64_t first = floor_us(server_at(w));
    w->now += thought;
    int64_t last = floor_us(server_at(w));
    w->now += back;
    skew_reading received = look(w, 50);
    skew_learn_two(t, &sent, first, last, &received, told);
}

static track_world calm(void) {
    return (track_world){.now = 1000 * S,
                         .boot_zero = 77 * S + 123,
                         .wall_zero = INT64_C(1700000000) * S + 350 * MS,
                         .server_zero = INT64_C(1700000000) * S};
}

static void assert_inside_by(const track_world *w, const skew_track *t, int32_t rate_ppm) {
    tl_interval i = skew_offset(t, (tl_mono){boot_at(w)}, rate_ppm);
    int64_t is = truth(w);
    if (i.lo * 1000 > is || is > i.hi * 1000)
        fail_msg("SKEW_SEED=%llu: the truth %lld ns is outside of %lld..%lld us",
                 (unsigned long long)seed_played, (long long)is, (long long)i.lo, (long long)i.hi);
}
static void assert_inside(const track_world *w, const skew_track *t) {
    assert_inside_by(w, t, told);
}

/* ---- by hand ----------------------------------------------------------------------------------- */

TEST(an_exchange_brackets_the_offset_by_its_round_trip) {
    track_world w = calm();
    skew_track t = {.known = false};
    exchange(&w, &t, 100 * US, 300 * US);
    assert_true(t.known);
    assert_inside(&w, &t);
    assert_in_range(t.offset.hi - t.offset.lo, 400, 405);
    assert_int_equal(t.samples, 1);
}

TEST(brackets_are_intersected_and_never_averaged) {
    track_world w = calm();
    skew_track t = {.known = false};
    exchange(&w, &t, 10 * US, 5000 * US);
    exchange(&w, &t, 5000 * US, 10 * US);
    assert_inside(&w, &t);
    assert_in_range(t.offset.hi - t.offset.lo, 20, 45);
    exchange(&w, &t, 900 * MS, 900 * MS);
    assert_inside(&w, &t);
    assert_in_range(t.offset.hi - t.offset.lo, 20, 800); /* only aged by 1.8 s at 200 ppm, twice */
}

TEST(a_narrow_bracket_loses_nothing_to_many_wide_ones) {
    track_world w = calm();
    skew_track t = {.known = false};
    exchange(&w, &t, 5 * US, 5 * US);
    int64_t alone = t.offset.hi - t.offset.lo;
    for (int i = 0; i < 100; i++)
        exchange(&w, &t, 30 * US, 30 * US);
    tl_interval in_the_end = skew_offset(&t, (tl_mono){boot_at(&w)}, RATE);
    assert_inside(&w, &t);
    assert_true(w.now - 1000 * S < 7 * MS);                      /* 1.4 us of drift at most */
    assert_true(in_the_end.hi - in_the_end.lo <= alone + 2 * 2); /* each edge: that, rounded up */
}

TEST(what_a_fast_rate_cost_stays_paid) {
    track_world w = calm();
    skew_track t = {.known = false};
    set_rates(&w, 50000000, 0); /* 5 %: a daemon corrects the clock */
    exchange_by(&w, &t, US, 60000);
    w.now += 10 * S;
    exchange_by(&w, &t, 2 * S, 60000);
    set_rates(&w, 0, 0);
    assert_inside(&w, &t); /* by a slower rate for the time from now on alone */
    w.now += 10 * S;
    exchange_by(&w, &t, 2 * S, RATE);
    assert_int_equal(t.server_steps, 0);
    assert_int_equal(t.samples, 3);
    assert_inside(&w, &t);
    set_rates(&w, 50000000, 0);
    w.now += 30 * S; /* 1.5 s */
    assert_inside_by(&w, &t, 60000);
}

TEST(a_pause_of_the_measuring_process_is_no_step) {
    track_world w = calm();
    skew_track t = {.known = false};
    exchange(&w, &t, US, US);
    skew_reading sent = look(&w, 700 * MS), received;
    int64_t stamp = floor_us(server_at(&w));
    received = look(&w, 3 * S);
    skew_learn(&t, &sent, stamp, &received, RATE);
    assert_int_equal(t.steps + t.resumes + t.server_steps, 0);
    assert_int_equal(t.samples, 2);
    assert_inside(&w, &t);
}

TEST(evidence_from_before_a_step_is_void) {
    track_world w = calm();
    skew_track t = {.known = false};
    exchange(&w, &t, US, US);
    w.wall_zero += 5 * MS;
    exchange(&w, &t, 20 * MS, 20 * MS); /* so wide that it agrees with both */
    assert_int_equal(t.steps, 1);
    assert_int_equal(t.server_steps, 0);
    assert_int_equal(t.samples, 1);
    assert_inside(&w, &t);
    assert_true(t.offset.hi - t.offset.lo > 39000);
}

/* Also when it is smaller than the exchange took, so that the bracket would not show it. */
TEST(of_an_exchange_with_a_step_in_it_the_end_counts) {
    static const int64_t steps[] = {-40 * MS, -3 * MS, 3 * MS, 40 * MS};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        track_world w = calm();
        skew_track t = {.known = false};
        exchange(&w, &t, US, US);
        skew_reading sent = look(&w, 50);
        w.now += 5 * MS;
        int64_t stamp = floor_us(server_at(&w));
        w.wall_zero += steps[i];
        w.now += 5 * MS;
        skew_reading received = look(&w, 50);
        skew_learn(&t, &sent, stamp, &received, RATE);
        assert_true(t.known);
        assert_int_equal(t.stamp_us, stamp);
        assert_int_equal(t.steps, 1);
        assert_inside(&w, &t);
        assert_in_range(t.offset.hi - t.offset.lo, 9000, 11000); /* as long as it took */
        assert_in_range(t.set_by_us, llabs(steps[i]) / 1000, llabs(steps[i]) / 1000 + 5);
        exchange(&w, &t, US, US);
        assert_true(t.known);
        assert_int_equal(t.steps, 1);
        assert_int_equal(t.server_steps, 0);
        assert_inside(&w, &t);
    }
}

TEST(evidence_from_before_a_suspend_is_void) {
    track_world w = calm();
    skew_track t = {.known = false};
    exchange(&w, &t, US, US);
    w.now += 60 * S;
    w.slept += 60 * S;
    exchange(&w, &t, 5 * MS, 5 * MS);
    assert_int_equal(t.resumes, 1);
    assert_int_equal(t.steps, 0);
    assert_int_equal(t.samples, 1);
    assert_inside(&w, &t);
}

TEST(an_exchange_with_a_suspend_in_it_is_dropped) {
    track_world w = calm();
    skew_track t = {.known = false};
    exchange(&w, &t, US, US);
    skew_reading sent = look(&w, 50);
    int64_t stamp = floor_us(server_at(&w));
    w.now += 60 * S;
    w.slept += 60 * S;
    skew_reading received = look(&w, 50);
    skew_learn(&t, &sent, stamp, &received, RATE);
    assert_false(t.known);
    assert_int_equal(t.resumes, 1);
    assert_int_equal(t.steps, 0);
}

TEST(a_step_of_the_server_is_told_from_ones_own) {
    track_world w = calm();
    skew_track t = {.known = false};
    exchange(&w, &t, US, US);
    w.server_zero += S;
    exchange(&w, &t, US, US);
    assert_int_equal(t.server_steps, 1);
    assert_int_equal(t.steps, 0);
    assert_int_equal(t.server_stepped_us, t.stamp_us);
    assert_int_equal(t.samples, 1);
    assert_inside(&w, &t);
}

TEST(drift_has_bounds_and_needs_a_second) {
    track_world w = calm();
    skew_track t = {.known = false};
    tl_interval d;
    set_rates(&w, 60000, -30000); /* 90 ppm apart */
    exchange(&w, &t, 10 * US, 10 * US);
    assert_false(skew_drift(&t, &d));
    w.now += 999 * MS;
    exchange(&w, &t, 10 * US, 10 * US);
    assert_false(skew_drift(&t, &d));
    w.now += 99 * S;
    exchange(&w, &t, 10 * US, 10 * US);
    assert_true(skew_drift(&t, &d));
    assert_true(d.lo <= 90000 && 90000 <= d.hi);
    assert_true(d.hi - d.lo < 2000);
}

TEST(drift_after_a_step_starts_anew) {
    track_world w = calm();
    skew_track t = {.known = false};
    tl_interval d;
    exchange(&w, &t, US, US);
    w.now += 10 * S;
    w.wall_zero += 300 * MS;
    exchange(&w, &t, US, US);
    assert_false(skew_drift(&t, &d));
}

TEST(a_server_that_thinks_for_long_costs_drift_and_is_no_step) {
    track_world w = calm();
    skew_track t = {.known = false};
    set_rates(&w, -99000, 99000);
    for (int i = 0; i < 3; i++) {
        exchange_two(&w, &t, 10 * US, 3 * S, 10 * US);
        assert_int_equal(t.server_steps, 0);
        assert_true(t.known);
        assert_inside(&w, &t);
    }
    assert_true(t.offset.hi - t.offset.lo < 3000); /* not the 3 s */
}

TEST(stamps_further_apart_than_the_exchange_took_prove_nothing) {
    track_world w = calm();
    skew_track t = {.known = false};
    skew_reading sent = look(&w, 50);
    int64_t stamp = floor_us(server_at(&w));
    skew_reading received = look(&w, 50);
    skew_learn_two(&t, &sent, stamp, stamp + 1000, &received, RATE);
    assert_false(t.known);
    assert_int_equal(t.server_steps, 1);
}

TEST(clocks_at_the_epoch_and_in_2262) {
    static const int64_t zeros[] = {0, INT64_C(9214646400) * S};
    for (int i = 0; i < 2; i++) {
        track_world w = calm();
        skew_track t = {.known = false};
        w.wall_zero = zeros[i];
        w.server_zero = zeros[1 - i];
        exchange(&w, &t, US, US);
        int64_t is = floor_us(wall_at(&w)) - floor_us(server_at(&w));
        assert_true(t.offset.lo <= is + 1 && is - 1 <= t.offset.hi);
    }
}

/* ---- seeded worlds ------------------------------------------------------------------------------ */

/* Short ones often, long ones at times. */
static int64_t delay(void) {
    static const int64_t most[] = {20 * US, 20 * US, 500 * US, 20 * MS, 2 * S};
    return draw(most[draw(5)]) + 1;
}
static int64_t rate(void) {
    return draw(200001) - 100000;
}
/* The host's own clock may be corrected besides. */
static int64_t wall_rate(void) {
    int64_t most = told == RATE ? 0 : SLEW * INT64_C(1000);
    return rate() + draw(2 * most + 1) - most;
}

/* Something happens to the clocks. Steps of the server are large enough to be seen: a contradiction
 * needs one that is wider than both intervals. */
static void happen(track_world *w, const skew_track *t, int64_t *server_step) {
    int64_t size = draw(2 * S) + 100 * US;
    int64_t wide = t->known ? (t->offset.hi - t->offset.lo) * 2000 : 0;
    if (draw(2))
        size = -size;
    switch (draw(6)) {
    case 0: w->wall_zero += size; break;
    case 1:
        w->slept += llabs(size);
        w->now += llabs(size);
        break;
    case 2:
        wide += told == RATE ? 10 * S : 100 * S;
        *server_step = size < 0 ? size - wide : size + wide;
        w->server_zero += *server_step;
        break;
    default: set_rates(w, wall_rate(), rate()); break;
    }
}

static void play(uint64_t seed) {
    track_world w = calm();
    skew_track t = {.known = false};
    seed_played = seed;
    seed_begin(seed);
    w.wall_zero += draw(20 * S) - 10 * S;
    told = draw(4) ? RATE : skew_rate(RATE, SLEW);
    set_rates(&w, wall_rate(), rate());
    for (int i = 0; i < 6; i++) {
        int64_t server_step = 0;
        exchange_two(&w, &t, delay(), draw(2) ? delay() : 0, delay());
        if (t.known)
            assert_inside(&w, &t);
        w.now += delay() * draw(40);
        if (t.known)
            assert_inside(&w, &t);
        if (draw(3) == 0) {
            happen(&w, &t, &server_step);
            exchange_two(&w, &t, delay(), draw(2) ? delay() : 0, delay());
            if (server_step && t.server_steps == 0 && t.samples > 1)
                fail_msg("SKEW_SEED=%llu: a step of the server by %lld ns was not seen",
                         (unsigned long long)seed, (long long)server_step);
            if (t.known)
                assert_inside(&w, &t);
        }
        tl_interval d;
        if (skew_drift(&t, &d))
            assert_true(d.lo <= d.hi && (told != RATE || (d.lo <= 200001 && d.hi >= -200001)));
    }
}

TEST(the_truth_is_inside_in_every_seeded_world) {
    const char *asked = getenv("SKEW_RUNS"), *one = getenv("SKEW_SEED");
    uint64_t runs = asked ? strtoull(asked, NULL, 10) : tests_whole() ? 3000000 : 300000;
    if (one) {
        play(strtoull(one, NULL, 10));
        return;
    }
    for (uint64_t seed = 1; seed <= runs; seed++) {
        play(seed);
    }
    print_message("%llu worlds\n", (unsigned long long)runs);
}
