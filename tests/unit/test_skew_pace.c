/*
 * What an agent makes of its rounds: a step is told from a clock that runs wrong, the truth is inside what a record says until
 * the next round, and what has been set may be set again. The clocks here are numbers.
 */
#include <stdlib.h>
#include <string.h>

#include "tests.h"
#include "skew/judge/skew_pace.h"

#define US INT64_C(1000)
#define MS INT64_C(1000000)
#define S INT64_C(1000000000)
#define RATE 200
#define ZERO (INT64_C(1700000000) * S)

/* True time, and by how much the host's clocks go wrong in it: all of them, or the wall clock alone, as a tool shows it that
 * only pretends. */
typedef struct {
    int64_t now, wrong_ppm, set_ns, wrong_since, wrong_before;
    bool wall_alone;
    skew_track track;
    skew_pace pace;
    skew_record record;
    int64_t published; /* true time */
} world;

static int64_t wrong_ns(const world *w) {
    return w->wrong_before + (w->now - w->wrong_since) / 1000 * w->wrong_ppm / 1000;
}
static int64_t boot_ns(const world *w) {
    return w->now + (w->wall_alone ? 0 : wrong_ns(w));
}
static int64_t off_ns(const world *w) {
    return wrong_ns(w) + w->set_ns;
}
static void run_at(world *w, int64_t ppm) {
    w->wrong_before = wrong_ns(w);
    w->wrong_since = w->now;
    w->wrong_ppm = ppm;
}

static skew_reading look(world *w) {
    tl_mono before = {boot_ns(w)};
    w->now += 50;
    int64_t wall = (ZERO + w->now + off_ns(w)) / 1000;
    w->now += 50;
    int64_t monotonic = boot_ns(w);
    w->now += 50;
    return skew_read(before, wall, monotonic, (tl_mono){boot_ns(w)});
}

static int64_t way_ns = 50 * US;
static void ask_server(world *w, int32_t rate) {
    skew_reading sent = look(w);
    w->now += way_ns;
    int64_t stamp = (ZERO + w->now) / 1000;
    w->now += way_ns;
    skew_reading received = look(w);
    skew_learn(&w->track, &sent, stamp, &received, rate);
}

/* As the agent does it. */
static void round_of(world *w) {
    int32_t seen = skew_pace_ppm(&w->pace);
    skew_track_round(&w->track);
    for (int i = 0; i < 8; i++)
        ask_server(w, seen ? skew_rate(RATE, seen) : RATE);
    skew_pace_learn(&w->pace, &w->track, RATE);
    assert_true(w->track.known);
    w->record = (skew_record){.id = "b-1",
                              .server = "run1",
                              .at_us = w->track.stamp_us,
                              .offset = w->track.offset,
                              .samples = w->track.samples,
                              .every_ms = 10000};
    skew_pace_mark(&w->pace, w->track.at, &w->record);
    w->published = w->now;
}

static skew_host seen_now(const world *w) {
    skew_host h = {.known = false};
    skew_record_at at = {.server = "run1", .now_us = (ZERO + w->now) / 1000};
    skew_record_judge(&w->record, &at, RATE, &h);
    return h;
}

static bool tells_the_truth(const world *w) {
    skew_host h = seen_now(w);
    return !h.known || (h.offset.lo * 1000 <= off_ns(w) && off_ns(w) <= h.offset.hi * 1000);
}

static world begin(int64_t ppm, bool wall_alone) {
    world w = {.now = 1000 * S, .wall_alone = wall_alone, .set_ns = 7 * MS};
    w.wrong_since = w.now;
    round_of(&w);
    w.now += S;
    round_of(&w);
    run_at(&w, ppm);
    return w;
}

TEST(a_clock_that_keeps_within_its_bound_is_steady) {
    static const int64_t ppm[] = {0, 150, -150};
    for (size_t i = 0; i < sizeof ppm / sizeof *ppm; i++) {
        world w = begin(ppm[i], false);
        for (int n = 0; n < 20; n++) {
            w.now += 10 * S;
            assert_true(tells_the_truth(&w));
            round_of(&w);
            assert_false(w.record.unsteady || skew_pace_wonders(&w.pace));
            assert_int_equal(w.record.slew_ppm, 0);
            assert_string_equal(seen_now(&w).status, "ok");
        }
    }
}

/* From the second round on in which it was where no clock may be. */
TEST(a_clock_that_runs_wrong_is_unsteady_and_as_wide_as_that) {
    static const int64_t ppm[] = {2000, -2000, 20000, -20000, 83333, -83333, 300000};
    static const int64_t every[] = {S, 10 * S};
    for (size_t i = 0; i < sizeof ppm / sizeof *ppm; i++)
        for (int k = 0; k < 4; k++) {
            world w = begin(ppm[i], k % 2);
            w.now += every[k / 2];
            round_of(&w);
            assert_true(w.record.slew_ppm >= llabs(ppm[i])); /* a step, or not: it may go on */
            assert_true(w.record.unsteady || skew_pace_wonders(&w.pace));
            uint32_t steps = w.track.server_steps;
            for (int n = 0; n < 30; n++) {
                for (int part = 0; part < 10; part++) {
                    w.now += every[k / 2] / 10;
                    if (!tells_the_truth(&w))
                        fail_msg("%lld ppm, round %d: %lld us is outside", (long long)ppm[i], n,
                                 (long long)(off_ns(&w) / 1000));
                }
                round_of(&w);
                assert_true(w.record.unsteady);
                assert_string_equal(seen_now(&w).status, "unsteady");
                assert_int_equal(w.track.server_steps, steps); /* it is told as no step */
            }
        }
}

/* Where an answer takes long a single round shows nothing: many do. */
TEST(far_from_the_server_it_is_seen_later_and_does_not_settle) {
    way_ns = 20 * MS;
    world w = begin(1000, false);
    int n = 0;
    for (; !w.record.unsteady && n < 60; n++) {
        w.now += 10 * S;
        round_of(&w);
    }
    assert_in_range(n, 2, 20);
    for (n = 0; n < 60; n++) {
        w.now += 10 * S;
        assert_true(tells_the_truth(&w));
        round_of(&w);
        assert_true(w.record.unsteady);
    }
    w = begin(190, false);
    for (n = 0; n < 400; n++) {
        w.now += 10 * S;
        assert_true(tells_the_truth(&w));
        round_of(&w);
        assert_false(w.record.unsteady);
    }
    way_ns = 50 * US;
}

TEST(it_is_steady_again_after_a_while) {
    world w = begin(2000, false);
    for (int n = 0; n < 5; n++) {
        w.now += 10 * S;
        round_of(&w);
    }
    assert_true(w.record.unsteady);
    run_at(&w, 0);
    int more = 0;
    for (; w.record.unsteady && more < 20; more++) {
        w.now += 10 * S;
        assert_true(tells_the_truth(&w));
        round_of(&w);
    }
    assert_in_range(more, 3, 10);
    assert_int_equal(w.record.slew_ppm, 0);
}

/* What a step looks like at first may go on. Soon it is known that it doesn't. */
TEST(a_step_is_no_rate) {
    for (int server = 0; server < 2; server++) {
        world w = begin(0, server); /* a step of all clocks is the server's */
        w.now += 10 * S;
        w.set_ns += server ? 350 * MS : 0;
        w.wrong_before += server ? 0 : 350 * MS;
        round_of(&w);
        assert_true(skew_pace_wonders(&w.pace) && !w.record.unsteady);
        assert_true(w.record.slew_ppm >= 34000);
        assert_true(tells_the_truth(&w));
        w.now += S;
        round_of(&w);
        assert_false(skew_pace_wonders(&w.pace) || w.record.unsteady);
        assert_int_equal(w.record.slew_ppm, 0);
    }
}

/* A look between a step and the next round: the first can't be known, the next is counted on. */
TEST(what_was_set_may_be_set_again) {
    world w = begin(0, true);
    int64_t steps[] = {350 * MS, -350 * MS, 300 * MS, -340 * MS};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        w.now += 60 * S;
        round_of(&w);
        w.now += S;
        round_of(&w);
        w.set_ns += steps[i];
        assert_int_equal(tells_the_truth(&w), i > 0);
        round_of(&w);
        assert_true(tells_the_truth(&w));
    }
    assert_string_equal(seen_now(&w).status, "unsteady"); /* again and again */
}

static int64_t counts_for(world *w, int64_t after_ms) {
    return skew_pace_step_us(&w->pace, tl__mono_add_ms(w->track.at, after_ms));
}

TEST(a_step_counts_for_a_while_and_one_of_many_for_a_day) {
    world w = begin(0, true);
    assert_int_equal(counts_for(&w, 0), 0);
    w.set_ns -= 5 * S; /* it was wrong, and is set right */
    round_of(&w);
    assert_in_range(counts_for(&w, 0), 5000000, 5000010);
    assert_in_range(counts_for(&w, 899000), 5000000, 5000010);
    assert_int_equal(counts_for(&w, 901000), 0);
    w.now += 3600 * S;
    w.set_ns += MS;
    round_of(&w);
    assert_in_range(counts_for(&w, 89990000), 5000000, 5000010); /* the larger of the two */
    assert_int_equal(counts_for(&w, 90010000), 0);
}

TEST(another_server_is_another_pace) {
    world w = begin(2000, false);
    for (int n = 0; n < 4; n++) {
        w.now += 10 * S;
        round_of(&w);
    }
    assert_true(w.pace.wrong);
    w.track.known = false;
    skew_pace_forget(&w.pace);
    round_of(&w);
    assert_false(w.record.unsteady);
    assert_true(skew_pace_wonders(&w.pace));
}

/* So fast that no exchange is without a step: it is known in the first round. */
TEST(a_clock_that_moves_while_it_is_read_is_unsteady_at_once) {
    world w = {.now = 1000 * S, .wall_alone = true, .wrong_ppm = 2000000, .wrong_since = 1000 * S};
    round_of(&w);
    assert_true(w.record.unsteady);
    skew_host h = seen_now(&w);
    assert_false(h.known);
    assert_string_equal(h.status, "unsteady");
    for (int n = 0; n < 5; n++) {
        w.now += S;
        round_of(&w);
        assert_false(seen_now(&w).known);
    }
}
