/*
 * The M, L and T that a survey proposes: larger M and L and a smaller T are always safe, so samples never
 * make them less safe than the defaults' margins; and what was not seen is said.
 */
#include "tests.h"
#include "migrate/migrate_advise.h"

const char *show_ms(char buf[DURATION_SHOWN], int64_t ms) {
    (void)snprintf(buf, DURATION_SHOWN, "%lld ms", (long long)ms);
    return buf;
}

static survey_advice advised(survey_facts facts) {
    survey_advice advice;

    survey_advise(&facts, &advice);
    assert_true(advice.skew_why[0] && advice.delay_why[0] && advice.ttl_why[0]);
    return advice;
}

#define HAS(text, part) assert_non_null(strstr((text), (part)))

TEST(nothing_seen_is_the_default_and_says_so) {
    survey_advice a = advised((survey_facts){.left_most_ms = -1});
    assert_int_equal(a.skew_ms, 1000);
    assert_int_equal(a.delay_ms, 500);
    assert_int_equal(a.ttl_ms, 60000);
    HAS(a.skew_why, "no clock of a legacy client was measured");
    HAS(a.delay_why, "no takeover");
    HAS(a.ttl_why, "no stamp was seen");
    assert_string_equal(a.warning, "");
    a = advised((survey_facts){.left_most_ms = 299000, .vague = 2});
    assert_int_equal(a.ttl_ms, 60000);
    HAS(a.ttl_why, "299000 ms left");
    HAS(a.skew_why, "closely enough");
}

TEST(clocks_and_delays_are_doubled_and_rounded_up) {
    survey_advice a = advised((survey_facts){
        .clocks = 2, .off_most_us = 1300001, .delays = {.count = 3, .most_ms = 900}});
    assert_int_equal(a.skew_ms, 3000);
    assert_int_equal(a.delay_ms, 2000);
    HAS(a.skew_why, "2 clocks");
    HAS(a.delay_why, "3 takeovers");
}

TEST(few_good_samples_make_no_margin_smaller) {
    survey_advice a = advised((survey_facts){
        .clocks = 1, .off_most_us = 10, .relative = true, .delays = {.count = 1, .most_ms = 1}});
    assert_int_equal(a.skew_ms, 1000);
    assert_int_equal(a.delay_ms, 500);
    HAS(a.skew_why, "from each other");
}

TEST(a_lifetime_is_rounded_down) {
    static const int64_t seen[][2] = {{59950, 60000}, {59899, 59000}, {60850, 60000}, {1999, 2000},
                                      {899, 899},     {40, 100},      {-5, 100}};
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++) {
        survey_advice a = advised((survey_facts){
            .lifetimes = {.count = 1, .least_ms = seen[i][0], .most_ms = seen[i][0]}});
        assert_int_equal(a.ttl_ms, seen[i][1]);
    }
    assert_int_equal(
        advised((survey_facts){.lifetimes = {.count = 1, .least_ms = 9 * INT64_C(86400000)}})
            .ttl_ms,
        86400000);
}

TEST(a_given_lifetime_counts) {
    survey_advice a = advised(
        (survey_facts){.given_ttl_ms = 90000, .lifetimes = {.count = 1, .least_ms = 59000}});
    assert_int_equal(a.ttl_ms, 90000);
    HAS(a.ttl_why, "--legacy-ttl-min");
}

TEST(values_that_leave_no_validity_are_a_warning) {
    survey_advice a = advised((survey_facts){.lifetimes = {.count = 1, .least_ms = 3000}});
    HAS(a.warning, "at least 4000 ms");
    a = advised((survey_facts){.holds = {.count = 1, .most_ms = 57501}});
    HAS(a.warning, "57500 ms");
    a = advised((survey_facts){.holds = {.count = 1, .most_ms = 57500}});
    assert_string_equal(a.warning, "");
}
