/*
 * When to wait for an answer without sleeping: the decision, by its numbers.
 */
#include "tests.h"
#include "ground/spin.h"

#define MANY 100000

/* Play `answers` that are there in time or not; returns how many were looked for. */
static unsigned play(tl_spin *spin, unsigned answers, bool there) {
    unsigned tried = 0;
    for (unsigned i = 0; i < answers; i++) {
        if (tl__spin_ns(spin, 0) == 0)
            continue;
        tried++;
        tl__spin_learn(spin, there);
    }
    return tried;
}

TEST(a_new_connection_is_tried_for_the_bound_and_no_longer) {
    tl_spin spin = {0};
    assert_int_equal(tl__spin_ns(&spin, 0), TL_SPIN_NS);
    assert_true(TL_SPIN_NS <= 50000);
}

TEST(a_near_server_is_looked_for_every_time) {
    tl_spin spin = {0};
    assert_int_equal(play(&spin, MANY, true), MANY);
}

TEST(a_far_server_costs_one_look_in_a_thousand) {
    tl_spin spin = {0};
    assert_in_range(play(&spin, MANY, false), MANY / (TL_SPIN_REST_MAX + 1), MANY / 1000 + 12);
}

TEST(a_server_that_has_come_near_is_noticed) {
    tl_spin spin = {0};
    (void)play(&spin, MANY, false);
    unsigned slept = 0;
    while (tl__spin_ns(&spin, 0) == 0)
        slept++;
    assert_true(slept <= TL_SPIN_REST_MAX);
    tl__spin_learn(&spin, true);
    assert_int_equal(play(&spin, MANY, true), MANY);
}

TEST(one_late_answer_among_many_costs_little) {
    tl_spin spin = {0};
    unsigned tried = 0;
    for (int i = 0; i < 1000; i++) {
        tried += play(&spin, 19, true);
        (void)play(&spin, 1, false);
    }
    assert_true(tried > 17000);
}

TEST(no_more_than_a_few_callers_look_at_a_time) {
    tl_spin spin = {0};
    assert_int_equal(tl__spin_ns(&spin, TL_SPINNERS_MAX - 1), TL_SPIN_NS);
    assert_int_equal(tl__spin_ns(&spin, TL_SPINNERS_MAX), 0);
    assert_int_equal(tl__spin_ns(&spin, 0), TL_SPIN_NS); /* which says nothing of the server */
}
