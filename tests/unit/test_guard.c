/* When `tidelock run` ends its command: the guard, with what remains of the lock as data. */
#include "tests.h"

#include "lock/guard.h"

#define TTL_MS 4000
#define TERM_LEAD_MS 1000 /* a quarter of the lifetime */
#define KILL_LEAD_MS 100
#define BEGAN_MS 1000000

static guard g;
static int64_t now_ms, wake_ms;

static void begin(on_lost_mode on_lost, int64_t max_hold_ms) {
    now_ms = BEGAN_MS;
    g = guard_begin(on_lost, TTL_MS, TTL_MS, max_hold_ms, now_ms);
}

static guard_action at(int64_t ms, int64_t remaining_ms) {
    now_ms = BEGAN_MS + ms;
    return guard_step(&g, now_ms, remaining_ms, &wake_ms);
}

TEST(term_comes_a_quarter_before_the_deadline_and_kill_a_tenth_of_a_second) {
    begin(ON_LOST_TERM, -1);
    assert_int_equal(at(0, TTL_MS), GUARD_NOTHING);
    assert_int_equal(wake_ms, TTL_MS - TERM_LEAD_MS);
    assert_int_equal(at(2999, 1001), GUARD_NOTHING);
    assert_int_equal(wake_ms, 1);
    assert_int_equal(at(3000, 1000), GUARD_TERM);
    assert_true(g.for_loss);
    assert_int_equal(wake_ms, TERM_LEAD_MS - KILL_LEAD_MS);
    assert_int_equal(at(3899, 101), GUARD_NOTHING);
    assert_int_equal(at(3900, 100), GUARD_KILL);
    assert_int_equal(at(3901, 99), GUARD_NOTHING); /* once */
    assert_int_equal(wake_ms, INT64_MAX);
}

TEST(a_renewal_before_the_term_moves_everything) {
    begin(ON_LOST_TERM, -1);
    assert_int_equal(at(2900, 1100), GUARD_NOTHING);
    assert_int_equal(at(2950, TTL_MS), GUARD_NOTHING);
    assert_int_equal(wake_ms, TTL_MS - TERM_LEAD_MS);
    assert_false(g.term_sent);
}

TEST(a_renewal_after_the_term_spares_nobody_and_gives_no_more_time) {
    begin(ON_LOST_TERM, -1);
    assert_int_equal(at(3000, 1000), GUARD_TERM);
    assert_int_equal(at(3100, TTL_MS), GUARD_NOTHING);
    assert_int_equal(wake_ms, 800);
    assert_int_equal(at(3900, 3200), GUARD_KILL);
}

TEST(after_a_term_that_was_late_kill_comes_before_the_deadline_all_the_same) {
    begin(ON_LOST_TERM, -1);
    assert_int_equal(at(3700, 300), GUARD_TERM);
    assert_int_equal(wake_ms, 200);
    assert_int_equal(at(3900, 100), GUARD_KILL);
}

TEST(a_lock_that_is_gone_is_a_kill_at_once) {
    begin(ON_LOST_TERM, -1);
    assert_int_equal(at(500, 0), GUARD_KILL);
    assert_true(g.for_loss);
}

TEST(on_lost_kill_sends_no_term) {
    begin(ON_LOST_KILL, -1);
    assert_int_equal(at(0, TTL_MS), GUARD_NOTHING);
    assert_int_equal(wake_ms, TTL_MS - KILL_LEAD_MS);
    assert_int_equal(at(3500, 500), GUARD_NOTHING);
    assert_int_equal(at(3900, 100), GUARD_KILL);
    assert_false(g.term_sent);
}

TEST(on_lost_continue_ends_nothing) {
    begin(ON_LOST_CONTINUE, -1);
    assert_int_equal(at(0, TTL_MS), GUARD_NOTHING);
    assert_int_equal(wake_ms, INT64_MAX);
    assert_int_equal(at(9000, 0), GUARD_NOTHING);
}

TEST(max_hold_brings_a_term_and_after_a_grace_a_kill_though_the_lock_is_renewed) {
    begin(ON_LOST_TERM, 10000);
    assert_int_equal(at(9999, TTL_MS), GUARD_NOTHING);
    assert_int_equal(wake_ms, 1);
    assert_int_equal(at(10000, TTL_MS), GUARD_TERM);
    assert_false(g.for_loss);
    assert_int_equal(wake_ms, TTL_MS / 4);
    assert_int_equal(at(10999, TTL_MS), GUARD_NOTHING);
    assert_int_equal(at(11000, TTL_MS), GUARD_KILL);
}

TEST(a_loss_during_the_grace_of_max_hold_brings_the_kill_forward) {
    begin(ON_LOST_TERM, 10000);
    assert_int_equal(at(10000, 1200), GUARD_TERM);
    assert_int_equal(at(10200, 1000), GUARD_NOTHING); /* it has been told */
    assert_true(g.for_loss);
    assert_int_equal(at(10900, 300), GUARD_NOTHING);
    assert_int_equal(at(11000, 200), GUARD_KILL);
    begin(ON_LOST_TERM, 10000);
    assert_int_equal(at(10000, 900), GUARD_TERM);
    assert_int_equal(at(10800, 100), GUARD_KILL);
}

/* With stamps less is believed than the lifetime: the first renewal comes at a third of that. */
TEST(no_term_comes_before_the_first_renewal) {
    now_ms = BEGAN_MS;
    g = guard_begin(ON_LOST_TERM, TTL_MS, 1200, -1, now_ms);
    assert_int_equal(at(0, 1200), GUARD_NOTHING);
    assert_int_equal(wake_ms, 900);
    assert_int_equal(at(900, 300), GUARD_TERM);
}

TEST(short_lifetimes_keep_half_of_their_lead_for_the_command) {
    now_ms = BEGAN_MS;
    g = guard_begin(ON_LOST_TERM, 400, 400, -1, now_ms);
    assert_int_equal(at(300, 100), GUARD_TERM);
    assert_int_equal(wake_ms, 50);
    assert_int_equal(at(350, 50), GUARD_KILL);
}

int main(void) {
    return tests_run();
}
