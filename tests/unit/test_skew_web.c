/*
 * Constraints between clocks: tightening never widens, never loses the truth, and a contradiction is
 * proved where there is one and nowhere else.
 */
#include "seeded.h"
#include "tests.h"
#include "skew/judge/skew_web.h"

static void expect(const skew_web *w, int a, int b, int64_t lo, int64_t hi) {
    tl_interval i = skew_web_between(w, a, b);
    assert_int_equal(i.lo, lo);
    assert_int_equal(i.hi, hi);
}

TEST(two_hosts_are_compared_through_the_server) {
    skew_web w;
    assert_true(skew_web_begin(&w, 3));
    skew_web_bind(&w, 0, 1, (tl_interval){340, 360});
    skew_web_bind(&w, 0, 2, (tl_interval){-125, -115});
    assert_true(skew_web_close(&w));
    expect(&w, 2, 1, 455, 485);
    expect(&w, 1, 2, -485, -455);
    expect(&w, 1, 1, 0, 0);
    skew_web_end(&w);
}

TEST(a_third_measurement_tightens_and_a_wide_one_changes_nothing) {
    skew_web w;
    assert_true(skew_web_begin(&w, 3));
    skew_web_bind(&w, 0, 1, (tl_interval){-100, 100});
    skew_web_bind(&w, 0, 2, (tl_interval){0, 10});
    skew_web_bind(&w, 1, 2, (tl_interval){50, 60});
    skew_web_bind(&w, 1, 2, (tl_interval){-1000, 1000});
    assert_true(skew_web_close(&w));
    expect(&w, 0, 1, -60, -40);
    expect(&w, 1, 2, 50, 60);
    skew_web_end(&w);
}

TEST(a_contradiction_is_proved_and_located) {
    skew_web w;
    assert_true(skew_web_begin(&w, 4));
    skew_web_bind(&w, 0, 1, (tl_interval){0, 10});
    skew_web_bind(&w, 0, 2, (tl_interval){0, 10});
    skew_web_bind(&w, 0, 3, (tl_interval){0, 10});
    skew_web_bind(&w, 1, 2, (tl_interval){30, 40}); /* at most 10 by way of the server */
    assert_false(skew_web_close(&w));
    assert_true(skew_web_torn(&w, 1));
    assert_true(skew_web_torn(&w, 2));
    skew_web_end(&w);
}

TEST(what_nothing_bounds_stays_unbounded) {
    skew_web w;
    assert_true(skew_web_begin(&w, 3));
    skew_web_bind(&w, 0, 1, (tl_interval){INT64_MIN, INT64_MAX});
    skew_web_bind(&w, 0, 2, (tl_interval){-5, 5});
    assert_true(skew_web_close(&w));
    expect(&w, 1, 2, -SKEW_UNBOUNDED, SKEW_UNBOUNDED);
    skew_web_end(&w);
    assert_false(skew_web_begin(&w, SKEW_WEB_MAX + 1));
    assert_false(skew_web_begin(&w, 0));
}

/* ---- seeded ------------------------------------------------------------------------------------ */

#define CLOCKS 8
TEST(the_truth_stays_inside_and_nothing_is_widened) {
    for (uint64_t seed = 1; seed <= 20000; seed++) {
        skew_web w;
        int64_t truth[CLOCKS];
        tl_interval direct[CLOCKS][CLOCKS];
        seed_begin(seed);
        assert_true(skew_web_begin(&w, CLOCKS));
        for (int i = 0; i < CLOCKS; i++)
            truth[i] = draw(2000000) - 1000000;
        for (int a = 0; a < CLOCKS; a++)
            for (int b = 0; b < CLOCKS; b++)
                direct[a][b] = (tl_interval){INT64_MIN, INT64_MAX};
        for (int n = 0; n < 14; n++) {
            int a = (int)draw(CLOCKS), b = (int)draw(CLOCKS);
            int64_t is = truth[b] - truth[a];
            tl_interval i = {is - draw(5000), is + draw(5000)};
            if (a == b)
                continue;
            skew_web_bind(&w, a, b, i);
            direct[a][b] = tl__interval_intersect(direct[a][b], i);
        }
        if (!skew_web_close(&w))
            fail_msg("seed %llu: a contradiction among true statements", (unsigned long long)seed);
        for (int a = 0; a < CLOCKS; a++)
            for (int b = 0; b < CLOCKS; b++) {
                tl_interval i = skew_web_between(&w, a, b);
                int64_t is = truth[b] - truth[a];
                if (i.lo > is || is > i.hi || i.hi > direct[a][b].hi || i.lo < direct[a][b].lo)
                    if (a != b || i.lo != 0 || i.hi != 0)
                        fail_msg("seed %llu: %d to %d", (unsigned long long)seed, a, b);
            }
        skew_web_end(&w);
    }
}
