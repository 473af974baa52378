/*
 * The counting itself: which bucket a duration is in, and what a step of a held lock counts as.
 */
#include <string.h>

#include "client/counts.h"
#include "tests.h"

static tl_counts counts;

static int set_up(void **state) {
    (void)state;
    memset(&counts, 0, sizeof counts);
    return 0;
}

TESTS_WITH(set_up, NULL);

static unsigned bucket_of_us(int64_t us) {
    memset(&counts, 0, sizeof counts);
    tl__count_wait(&counts, us * 1000, false, false);
    unsigned i = 0;
    while (counts.own.wait.bucket[i] == 0)
        i++;
    assert_int_equal(counts.own.wait.bucket[i], 1);
    return i;
}

TEST(a_duration_is_in_the_bucket_that_ends_behind_it) {
    assert_int_equal(bucket_of_us(0), 0);
    assert_int_equal(bucket_of_us(7), 0);
    for (unsigned i = 0; i + 1 < TL_STATS_BUCKETS; i++) {
        assert_int_equal(bucket_of_us(TL_STATS_BUCKET_US(i) - 1), i);
        assert_int_equal(bucket_of_us(TL_STATS_BUCKET_US(i)), i + 1);
    }
    assert_int_equal(bucket_of_us(INT64_C(9000000000000000)), TL_STATS_BUCKETS - 1);
}

TEST(a_clock_that_goes_back_counts_as_no_time) {
    tl__count_wait(&counts, -5000, true, true);
    assert_int_equal(counts.own.wait.bucket[0], 1);
    assert_int_equal(counts.own.wait.sum_us, 0);
    assert_int_equal(counts.own.waited, 1);
    assert_int_equal(counts.own.handed_over, 1);
}

TEST(a_hold_is_held_until_it_is_over) {
    tl__count_held(&counts, true);
    tl__count_held(&counts, true);
    tl__count_held(&counts, false);
    tl__count_hold(&counts, 20000);
    assert_int_equal(counts.own.held_now, 1);
    assert_int_equal(counts.own.hold.bucket[2], 1); /* 20 us: 16 to 32 */
    assert_int_equal(counts.own.hold.sum_us, 20);
    assert_int_equal(counts.own.wait.count, 0);
}

TEST(a_wait_is_one_until_it_is_over) {
    tl__count_waiting(&counts, true);
    tl__count_waiting(&counts, true);
    tl__count_waiting(&counts, false);
    assert_int_equal(counts.waiting, 1);
}

TEST(an_answer_is_a_round_trip_and_merely_being_connected_is_none) {
    tl_answer answer = {.ok = true, .count = 0, .sent = {1000000}, .received = {1020000}};
    tl__count_answer(&counts, &answer);
    assert_int_equal(counts.trips[2], 0);
    answer.count = 3;
    tl__count_answer(&counts, &answer);
    assert_int_equal(counts.trips[2], 1); /* 20 us: 16 to 32 */
    assert_int_equal(counts.trips_us, 20);
    answer.ok = false;
    tl__count_answer(&counts, &answer);
    assert_int_equal(counts.unanswered, 0);
    answer.maybe_sent = true;
    tl__count_answer(&counts, &answer);
    assert_int_equal(counts.unanswered, 1);
    assert_int_equal(counts.trips_us, 20);
}

TEST(a_step_counts_what_it_notes) {
    tl_out out;
    memset(&out, 0, sizeof out);
    out.renewed = true;
    tl__count_step(&counts, &out);
    out.renewed = false;
    out.missed = true;
    out.notes = 2;
    out.note[0] = (tl_note){.kind = TL_NOTE_AT_RISK};
    out.note[1] = (tl_note){.kind = TL_NOTE_LOST, .why = TL_LOST_TAKEN, .stolen = true};
    tl__count_step(&counts, &out);
    out.missed = false;
    out.notes = 1;
    out.note[0] = (tl_note){.kind = TL_NOTE_HELD};
    tl__count_step(&counts, &out);
    assert_int_equal(counts.own.renewals, 1);
    assert_int_equal(counts.own.renewals_failed, 1);
    assert_int_equal(counts.own.at_risk, 1);
    assert_int_equal(counts.own.lost[TL_LOST_TAKEN], 1);
    assert_int_equal(counts.own.stolen, 1);
    assert_int_equal(counts.own.lost[TL_NOT_LOST], 0);
}

TEST(a_result_that_callers_are_never_told_is_not_counted) {
    assert_int_equal(tl__count_call(&counts, TL_COUNT_EXTENDS, (tl_err)64), 64);
    assert_int_equal(tl__count_call(&counts, TL_COUNT_EXTENDS, TL_OK), TL_OK);
    assert_int_equal(counts.call[TL_COUNT_EXTENDS][TL_OK], 1);
    assert_int_equal(counts.trips[0], 0);
}
