/*
 * Clock offsets as intervals: whatever is rounded, aged or merged, the truth stays inside.
 */
#include "tests.h"
#include "wire/interval.h"

#define S INT64_C(1000000000)
#define US_2262 INT64_C(9214646400000000) /* 2262-01-01 */

static void expect(tl_interval i, int64_t lo, int64_t hi) {
    assert_int_equal(i.lo, lo);
    assert_int_equal(i.hi, hi);
}

/* ---- brackets -------------------------------------------------------------------------------- */

TEST(a_bracket_rounds_outwards) {
    expect(tl__bracket(1000, (tl_mono){5000}, (tl_mono){7000}), 993, 996);
    expect(tl__bracket(1000, (tl_mono){5001}, (tl_mono){7001}), 992, 996);
    expect(tl__bracket(1000, (tl_mono){5999}, (tl_mono){7999}), 992, 996);
    expect(tl__bracket(1000, (tl_mono){-1}, (tl_mono){1}), 999, 1002);
    expect(tl__bracket(1000, (tl_mono){-1001}, (tl_mono){-1001}), 1001, 1003);
}

TEST(a_bracket_holds_the_truth) {
    for (int64_t offset_ns = -2500; offset_ns <= 2500; offset_ns += 7)
        for (int64_t sent = 10001; sent < 10020; sent += 3)
            for (int64_t stamped = sent; stamped < sent + 3000; stamped += 501) {
                int64_t server_ns = stamped + offset_ns; /* positive: this floors */
                tl_interval b = tl__bracket(server_ns / 1000, (tl_mono){sent},
                                            (tl_mono){stamped + 137});
                assert_true(b.lo * 1000 <= offset_ns && offset_ns <= b.hi * 1000);
            }
}

TEST(a_bracket_at_the_epoch_and_in_2262) {
    expect(tl__bracket(0, (tl_mono){0}, (tl_mono){0}), 0, 1);
    expect(tl__bracket(0, (tl_mono){1000 * S}, (tl_mono){1001 * S}), -1001000000, -999999999);
    expect(tl__bracket(US_2262, (tl_mono){0}, (tl_mono){S}), US_2262 - 1000000, US_2262 + 1);
}

TEST(a_bracket_saturates) {
    tl_interval b = tl__bracket(INT64_MAX, (tl_mono){INT64_MIN}, (tl_mono){INT64_MIN});
    expect(b, INT64_MAX, INT64_MAX);
    b = tl__bracket(INT64_MIN, (tl_mono){INT64_MAX}, (tl_mono){INT64_MAX});
    expect(b, INT64_MIN, INT64_MIN);
}

/* ---- ageing ---------------------------------------------------------------------------------- */

TEST(ageing_widens_both_edges_by_the_drift_rounded_up) {
    /* 10 s at 200 ppm is 2 ms, and the 200 ns that rounding may have cost */
    expect(tl__interval_aged((tl_interval){-5, 5}, (tl_mono){0}, (tl_mono){10 * S}, 200), -2006,
           2006);
    expect(tl__interval_aged((tl_interval){-5, 5}, (tl_mono){0}, (tl_mono){1}, 200), -6, 6);
}

TEST(no_time_and_no_drift_widen_nothing) {
    expect(tl__interval_aged((tl_interval){-5, 5}, (tl_mono){7}, (tl_mono){7}, 200), -5, 5);
    expect(tl__interval_aged((tl_interval){-5, 5}, (tl_mono){7}, (tl_mono){6}, 200), -5, 5);
    expect(tl__interval_aged((tl_interval){-5, 5}, (tl_mono){0}, (tl_mono){10 * S}, 0), -5, 5);
}

TEST(ageing_saturates) {
    tl_interval edge = {INT64_MIN + 1, INT64_MAX - 1};
    expect(tl__interval_aged(edge, (tl_mono){0}, (tl_mono){100 * S}, 1000000), INT64_MIN,
           INT64_MAX);
    tl_interval far = tl__interval_aged((tl_interval){0, 0}, (tl_mono){0}, TL_NEVER, INT32_MAX);
    assert_true(far.lo < -INT64_MAX / 1001 && far.hi > INT64_MAX / 1001);
}

TEST(what_drift_takes_is_never_too_little) {
    assert_int_equal(tl__drift_ns(-1, 200), 0);
    assert_int_equal(tl__drift_ns(0, 200), 0);
    for (int64_t ns = 1; ns < 50000000; ns = ns * 3 + 1)
        assert_true(tl__drift_ns(ns, 200) * 1000000 >= ns * 200);
    assert_int_equal(tl__drift_ns(30 * S, 200), 6000000 + 200);
    assert_int_equal(tl__drift_ns(INT64_MAX, INT32_MAX), INT64_MAX);
}

/* A clock that is fast by a tenth shows 11 while one that is slow by a tenth shows 9. */
TEST(two_clocks_of_any_rate_allowed_show_no_less_and_no_more) {
    assert_int_equal(tl__rate_least_ns(11 * S, 100000), 9 * S);
    assert_int_equal(tl__rate_most_ns(9 * S, 100000), 11 * S);
    assert_int_equal(tl__rate_least_ns(S, 0), S);
    assert_int_equal(tl__rate_most_ns(S, 0), S);
    for (int64_t true_ns = 1; true_ns < INT64_C(100000000000000); true_ns = true_ns * 3 + 1) {
        int64_t fast = true_ns + true_ns / 10, slow = true_ns - true_ns / 10;
        assert_true(tl__rate_least_ns(fast, 100000) <= slow);
        assert_true(tl__rate_most_ns(slow, 100000) >= fast);
        assert_true(tl__rate_least_ns(fast, 100000) > slow - 3);
    }
}

TEST(rates_saturate_and_never_give_time_away) {
    assert_int_equal(tl__rate_least_ns(-1, 200), 0);
    assert_int_equal(tl__rate_most_ns(-1, 200), 0);
    assert_int_equal(tl__rate_least_ns(S, 1000000), 0);
    assert_int_equal(tl__rate_most_ns(S, 1000000), INT64_MAX);
    assert_int_equal(tl__rate_most_ns(INT64_MAX, 200), INT64_MAX);
    assert_true(tl__rate_least_ns(INT64_MAX, 200) < INT64_MAX);
    assert_int_equal(tl__rate_least_ns(1, 200), 0);
    assert_int_equal(tl__rate_most_ns(1, 200), 2);
}

/* ---- intersection ---------------------------------------------------------------------------- */

TEST(an_intersection_is_what_both_allow) {
    expect(tl__interval_intersect((tl_interval){0, 10}, (tl_interval){5, 15}), 5, 10);
    expect(tl__interval_intersect((tl_interval){0, 10}, (tl_interval){2, 3}), 2, 3);
    expect(tl__interval_intersect((tl_interval){0, 10}, (tl_interval){10, 12}), 10, 10);
    assert_false(tl__interval_empty((tl_interval){10, 10}));
    assert_true(
        tl__interval_empty(tl__interval_intersect((tl_interval){0, 10}, (tl_interval){11, 12})));
}

/* ---- anchors --------------------------------------------------------------------------------- */

TEST(the_first_bracket_is_the_anchor) {
    tl_anchor a = {0};
    assert_false(tl__anchor_learn(&a, (tl_interval){100, 200}, (tl_mono){S}, 200));
    assert_true(a.known);
    assert_int_equal(a.at.ns, S);
    assert_int_equal(a.steps, 0);
    expect(a.offset, 100, 201); /* what 200 ppm may have added since the stamp was made */
}

TEST(brackets_narrow_each_other) {
    tl_anchor a = {0};
    (void)tl__anchor_learn(&a, (tl_interval){100, 200}, (tl_mono){S}, 0);
    assert_false(tl__anchor_learn(&a, (tl_interval){150, 300}, (tl_mono){2 * S}, 0));
    expect(a.offset, 150, 200);
    assert_int_equal(a.at.ns, 2 * S);
    assert_false(tl__anchor_learn(&a, (tl_interval){0, 1000}, (tl_mono){3 * S}, 0));
    expect(a.offset, 150, 200);
}

TEST(what_was_known_is_aged_before_it_is_merged) {
    tl_anchor a = {0};
    (void)tl__anchor_learn(&a, (tl_interval){0, 0}, (tl_mono){0}, 200);
    /* after 10 s it may have drifted by 2 ms: this bracket is no step */
    assert_false(tl__anchor_learn(&a, (tl_interval){1500, 3000}, (tl_mono){10 * S}, 100));
    expect(a.offset, 1500, 2001);
}

TEST(a_contradiction_starts_again_and_is_counted) {
    tl_anchor a = {0};
    (void)tl__anchor_learn(&a, (tl_interval){0, 10}, (tl_mono){S}, 0);
    assert_true(tl__anchor_learn(&a, (tl_interval){11, 20}, (tl_mono){2 * S}, 0));
    expect(a.offset, 11, 20);
    assert_int_equal(a.at.ns, 2 * S);
    assert_int_equal(a.steps, 1);
    assert_true(tl__anchor_learn(&a, (tl_interval){-20, 10}, (tl_mono){3 * S}, 0));
    expect(a.offset, -20, 10);
    assert_int_equal(a.steps, 2);
}

/* Another server may answer there, whose clock differs by less than was known. */
TEST(a_new_connection_counts_alone) {
    tl_anchor a = {0};
    assert_false(tl__anchor_renew(&a, (tl_interval){0, 10}, (tl_mono){2 * S}, 0));
    expect(a.offset, 0, 10);
    assert_false(tl__anchor_renew(&a, (tl_interval){5, 20}, (tl_mono){S}, 0));
    expect(a.offset, 5, 20);
    assert_true(a.known);
    assert_int_equal(a.at.ns, S);
    assert_int_equal(a.steps, 0);
    assert_true(tl__anchor_renew(&a, (tl_interval){21, 30}, (tl_mono){3 * S}, 0));
    expect(a.offset, 21, 30);
    assert_int_equal(a.steps, 1);
}

TEST(touching_edges_are_no_contradiction) {
    tl_anchor a = {0};
    (void)tl__anchor_learn(&a, (tl_interval){0, 10}, (tl_mono){S}, 0);
    assert_false(tl__anchor_learn(&a, (tl_interval){10, 20}, (tl_mono){S}, 0));
    expect(a.offset, 10, 10);
}

TEST(the_servers_time_is_earliest_and_latest) {
    tl_anchor a = {.known = true, .offset = {1000, 1010}, .at = {S}};
    expect(tl__anchor_server_time(&a, (tl_mono){S}, 200), 1001000, 1001010);
    /* between two microseconds: the earliest goes down, the latest up */
    expect(tl__anchor_server_time(&a, (tl_mono){S + 1}, 0), 1001000, 1001011);
    /* 10 s later, each clock fast or slow by a tenth: 10 s * 9/11 at least, 10 s * 11/9 at most */
    expect(tl__anchor_server_time(&a, (tl_mono){11 * S}, 100000), 1001000 + 8181818,
           1001010 + 12222223);
}

TEST(the_servers_time_saturates) {
    tl_anchor a = {.known = true, .offset = {INT64_MAX - 5, INT64_MAX - 5}, .at = {0}};
    expect(tl__anchor_server_time(&a, (tl_mono){S}, 0), INT64_MAX, INT64_MAX);
    a.offset = (tl_interval){US_2262, US_2262};
    expect(tl__anchor_server_time(&a, (tl_mono){S}, 0), US_2262 + 1000000, US_2262 + 1000000);
}

/* The stamp is made as the request arrives; the reply takes 2 s, while the server's clock gains on
 * ours. A quick exchange right after it must not look like a step. */
TEST(drift_during_a_long_exchange_is_no_step) {
    const int32_t ppm = 200;
    const int64_t offset_us = 5000000, gained_us = 399; /* just within 200 ppm of 2 s */
    tl_anchor a = {0};
    tl_mono sent = {10 * S}, received = {12 * S}, later = {12 * S + 2000};
    tl_interval slow = tl__bracket(sent.ns / 1000 + offset_us, sent, received);
    assert_false(tl__anchor_learn(&a, slow, received, ppm));
    tl_interval quick = tl__bracket(received.ns / 1000 + offset_us + gained_us, received, later);
    assert_false(tl__anchor_learn(&a, quick, later, ppm));
}

/* Two threads: the older of two brackets is merged last. */
TEST(brackets_out_of_order_are_no_step) {
    const int32_t ppm = 200;
    const int64_t offset_us = 5000000, gained_us = 199;
    tl_anchor a = {0};
    tl_mono early = {10 * S}, late = {11 * S};
    tl_interval older = tl__bracket(early.ns / 1000 + offset_us, early, early);
    tl_interval newer = tl__bracket(late.ns / 1000 + offset_us + gained_us, late, late);
    assert_false(tl__anchor_learn(&a, newer, late, ppm));
    assert_false(tl__anchor_learn(&a, older, early, ppm));
    assert_int_equal(a.at.ns, late.ns);
    assert_true(a.offset.lo <= offset_us + gained_us && offset_us + gained_us <= a.offset.hi);
}
