/*
 * Drift and outlook against a truth that is known: clocks that drift steadily, seen through intervals that
 * hold the truth, wherever in them it is. The bounds hold it too, and what is foreseen comes true.
 */
#include <stdio.h>

#include "tests.h"
#include "skew/judge/skew_judge.h"
#include "skew/judge/skew_number.h"
#include "skew/judge/skew_trend.h"
#include "skew/judge/skew_web.h"
#include "skew/judge/skew_reason.h"

#define AT INT64_C(1795300000000)
#define MINUTE INT64_C(60000)

static uint64_t seed;
static int64_t any(int64_t least, int64_t most) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return least + (int64_t)((seed >> 33) % (uint64_t)(most - least + 1));
}

/* us that a clock with this drift has gained after so many ms, rounded down. */
static int64_t gained(int64_t ppb, int64_t ms) {
    int64_t product = ppb * ms;
    return product / 1000000 - (product % 1000000 < 0);
}

/* n points, the last at AT, of a clock that is offset_us off then. */
static void draw(past_point *point, int n, int64_t offset_us, int64_t ppb, int64_t every_ms,
                 int64_t width_us) {
    for (int i = 0; i < n; i++) {
        int64_t back_ms = (n - 1 - i) * every_ms;
        int64_t truth = offset_us - gained(ppb, back_ms), before = any(1, width_us);
        point[i] = (past_point){AT - back_ms, {truth - before, truth + width_us + 1 - before}};
    }
}

TEST(the_truth_is_inside) {
    static past_point point[1500];
    for (int run = 0; run < 300; run++) {
        int n = (int)any(2, run % 10 == 0 ? 1500 : 60);
        int64_t ppb = any(-400000, 400000), width = any(1, 5000);
        draw(point, n, any(-1000000, 1000000), ppb, any(1, 100) * 1000, width);
        for (int i = 0; i < n - 1; i++)
            if (any(0, 9) == 0)
                point[i].offset = (tl_interval){1, 0};
        skew_trend t = trend_of(point, (size_t)n);
        if (!t.known)
            continue; /* all but one were unknown */
        assert_false(t.bent);
        assert_true(t.ppb.lo <= ppb && ppb <= t.ppb.hi);
        assert_int_equal(t.to_ms, AT);
    }
}

TEST(the_bounds_are_narrow) {
    past_point point[100];
    draw(point, 100, 5000, 20000, MINUTE, 100);
    skew_trend t = trend_of(point, 100);
    assert_true(t.known && t.from_ms == AT - 99 * MINUTE);
    assert_true(t.ppb.hi - t.ppb.lo <=
                2 * 102 * 1000 / 99 * 1000 / 60); /* two widths over the time */
    draw(point, 2, 5000, 20000, MINUTE, 100);
    t = trend_of(point, 2);
    assert_true(t.ppb.hi - t.ppb.lo <= 2 * 102 * INT64_C(1000000) / MINUTE + 2);
}

TEST(only_the_latest_stretch_counts) {
    past_point point[60];
    draw(point, 30, 0, -50000, MINUTE, 50);
    for (int i = 0; i < 30; i++)
        point[i].at_ms -= 30 * MINUTE;
    draw(point + 30, 30, 30 * 60 * 40, 40000, MINUTE, 50); /* bent, and set by some ms */
    skew_trend t = trend_of(point, 60);
    assert_true(t.known && t.bent && t.ppb.lo <= 40000 && 40000 <= t.ppb.hi);
    assert_true(t.from_ms >= AT - 31 * MINUTE && t.from_ms <= AT - 29 * MINUTE);
    /* The last point alone, after a jump that no drift explains. */
    point[59].offset.lo += 1000000;
    point[59].offset.hi += 1000000;
    t = trend_of(point, 60);
    assert_true(!t.known && t.bent);
}

TEST(too_little_is_unknown) {
    past_point point[3];
    draw(point, 3, 0, 0, MINUTE, 10);
    assert_false(trend_of(point, 0).known);
    assert_false(trend_of(point, 1).known);
    point[0].at_ms = point[1].at_ms = point[2].at_ms;
    assert_false(trend_of(point, 3).known);
    point[1].offset = point[0].offset = (tl_interval){1, 0};
    assert_false(trend_of(point, 3).known);
    /* At one moment, two that contradict each other. */
    point[1].offset = (tl_interval){-900, -800};
    skew_trend t = trend_of(point, 3);
    assert_true(!t.known && t.bent);
}

/* ---- the outlook -------------------------------------------------------------------------------------- */

static skew_host host(const char *name, int64_t us) {
    skew_host h = {
        .instrument = "agent", .known = true, .offset = {us - 50, us + 50}, .status = "ok"};
    (void)snprintf(h.name, sizeof h.name, "%s", name);
    return h;
}

static skew_trend steady(int64_t lo, int64_t hi) {
    return (skew_trend){.known = true, .ppb = {lo, hi}, .from_ms = AT - MINUTE, .to_ms = AT};
}

static trend_outlook ahead_of(skew_host *hosts, int n, const skew_trend *drift, int64_t slack_us) {
    skew_result r = {.rule = {SKEW_HOLD(60000000, 60000000 - slack_us), .warn_percent = 100},
                     .hosts = hosts,
                     .host_count = n};
    assert_true(skew_judge(&r));
    trend_outlook o = trend_look_ahead(&r, drift);
    skew_result_end(&r);
    return o;
}

TEST(what_is_foreseen_comes_true) {
    for (int run = 0; run < 500; run++) {
        skew_host hosts[3];
        skew_trend drift[3];
        int64_t us[3], ppb[3], slack = any(100000, 900000), certain = INT64_MAX;
        for (int i = 0; i < 3; i++) {
            us[i] = any(-40000, 40000);
            ppb[i] = any(-100000, 100000);
            hosts[i] = host("h", us[i]);
            hosts[i].name[0] = (char)('a' + i);
            drift[i] = steady(ppb[i] - any(0, 3000), ppb[i] + any(0, 3000));
        }
        trend_outlook o = ahead_of(hosts, 3, drift, slack);
        /* When the gap is beyond the slack in truth: with one that reads the stamps finely. */
        for (int h = 0; h < 3; h++)
            for (int t = 0; t < 3; t++)
                if (ppb[t] > ppb[h]) {
                    int64_t at = (slack - us[t] + us[h]) * 1000000 / (ppb[t] - ppb[h]);
                    certain = at < certain ? at : certain;
                }
        assert_int_equal(o.unknown, 0);
        assert_true(o.state == TREND_DRIFTING || o.state == TREND_STEADY);
        if (o.state == TREND_STEADY) {
            assert_true(certain == INT64_MAX || certain > TREND_FOREVER_MS / 2);
            continue;
        }
        assert_true(o.earliest_ms > 0 && o.earliest_ms <= certain);
        assert_true(o.latest_ms < 0 || o.latest_ms + 1 >= certain);
        assert_true(o.latest_ms < 0 || o.latest_ms >= o.earliest_ms);
    }
}

TEST(the_outlook_by_hand) {
    skew_host hosts[] = {host("a", 0), host("b", 0), host("c", 0)};
    skew_trend drift[] = {steady(0, 0), steady(10000, 10000), {.known = false}};
    /* 1 ms of resolution, 1 us of rounding, 100 us of the two intervals: 1101 us on each edge. */
    trend_outlook o = ahead_of(hosts, 2, drift, 11101);
    assert_int_equal(o.state, TREND_DRIFTING);
    assert_int_equal(o.earliest_ms, 1000100); /* 10001 us at 10 us/s */
    assert_int_equal(o.latest_ms, 1220300);   /* 12203 us */
    assert_true(o.holder == 0 && o.taker == 1);
    drift[1] = steady(-1000, 10000); /* perhaps it never comes */
    o = ahead_of(hosts, 2, drift, 11101);
    assert_true(o.earliest_ms == 1000100 && o.latest_ms == -1);
    drift[1] = steady(0, 0);
    assert_int_equal(ahead_of(hosts, 2, drift, 11101).state, TREND_STEADY);
    /* A clock of which nothing is known. */
    o = ahead_of(hosts, 3, drift, 11101);
    assert_true(o.unknown == 1 && o.one_unknown == 2);
    hosts[1].known = false;
    assert_int_equal(ahead_of(hosts, 3, drift, 11101).state, TREND_UNKNOWN);
    /* Now. */
    hosts[1] = host("b", 11000);
    o = ahead_of(hosts, 2, drift, 11101);
    assert_true(o.state == TREND_DOUBT && o.earliest_ms == 0 && o.latest_ms == -1);
    hosts[1] = host("b", 20000);
    o = ahead_of(hosts, 2, drift, 11101);
    assert_true(o.state == TREND_UNSAFE && o.latest_ms == 0 && o.holder == 0 && o.taker == 1);
}

/* A line of a log keeps the worst pairs only: the others are told from the offsets, never too late. */
TEST(pairs_that_the_line_leaves_out) {
    skew_host hosts[] = {host("a", 0), host("b", 0), host("c", 5000)};
    skew_trend drift[] = {steady(0, 0), steady(50000, 50000), steady(0, 0)};
    skew_result r = {.rule = {SKEW_HOLD(60000000, 59988899), .warn_percent = 100},
                     .hosts = hosts,
                     .host_count = 3};
    assert_true(skew_judge(&r));
    trend_outlook whole = trend_look_ahead(&r, drift);
    r.pair_count = 1;
    trend_outlook part = trend_look_ahead(&r, drift);
    skew_result_end(&r);
    assert_int_equal(whole.earliest_ms,
                     200020); /* of b, which gains on a and is no part of the worst pair */
    assert_int_equal(part.earliest_ms, whole.earliest_ms);
    assert_true(part.holder == 0 && part.taker == 1);
}

/* Its clock may have been set since. */
TEST(nothing_is_foreseen_of_a_host_that_is_missing) {
    skew_host hosts[] = {host("a", 0), host("b", 0), host("c", 0)};
    skew_trend drift[] = {steady(0, 0), steady(0, 0), steady(50000, 50000)};
    assert_int_equal(ahead_of(hosts, 3, drift, 100000).state, TREND_DRIFTING);
    hosts[2].missing = true;
    hosts[2].status = "missing";
    trend_outlook o = ahead_of(hosts, 3, drift, 100000);
    assert_int_equal(o.state, TREND_STEADY);
    assert_true(o.unknown == 1 && o.one_unknown == 2);
}
