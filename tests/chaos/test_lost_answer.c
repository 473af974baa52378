/*
 * Faults: a release, an extension or a renewal is executed and its answer lost, or it never arrives.
 */

/*
 * Faults and outcomes (tests/README.md says what is asserted of each):
 * - request or reply of release, extend, renewal swallowed: retried; UNCERTAIN; AT_RISK and LOST in time.
 */
#include "arena.h"

TESTS_WITH(arena_set_up, arena_tear_down);

/* Of one that is to reach its limit, or of one that has time. */
static tl_lock *held_behind_gate(bool hastily, int64_t ttl_ms) {
    tl_lock *lock = by_hand(hastily ? hasty_client_behind_gate() : client_behind_gate(), ttl_ms);
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    return lock;
}

/* ---- release ----------------------------------------------------------------------------------- */

static void release(proxy_way way, proxy_fault fault, int connections, tl_err expected,
                    int64_t least_ms) {
    tl_lock *lock = held_behind_gate(expected != TL_OK, AGES_MS);
    proxy_break(gate, way, 0, fault, connections);
    int64_t began = clock_ms();
    ASSERT_RESULT(tl_lock_release(lock, &said), expected);
    ASSERT_TOOK(began, least_ms, ATTEMPT_MS);
    assert_true(proxy_struck(gate) >= 1);
    assert_int_equal(tl_lock_state(lock), TL_FREE);
    assert_int_equal(tl_lock_remaining_ms(lock), 0);
    if (way == PROXY_REQUESTS && expected != TL_OK)
        assert_true(key_exists());
    else
        WAIT_FOR(SOON_MS, !key_exists()); /* whoever holds up the request on its way */
    proxy_heal(gate);
    assert_free_soon();
}

TEST(a_release_whose_answer_was_reset_is_ok_when_asked_again) {
    release(PROXY_REPLIES, PROXY_RESET, 1, TL_OK, 0);
}

TEST(a_release_that_was_reset_on_its_way_is_asked_again) {
    release(PROXY_REQUESTS, PROXY_RESET, 1, TL_OK, 0);
}

TEST(a_release_without_an_answer_is_uncertain) {
    release(PROXY_REPLIES, PROXY_MUTE, 1, TL_EUNCERTAIN, ATTEMPT_MS);
}

TEST(a_release_that_never_gets_an_answer_is_uncertain) {
    release(PROXY_REPLIES, PROXY_MUTE, PROXY_ALL, TL_EUNCERTAIN, ATTEMPT_MS);
}

TEST(a_release_whose_answers_are_all_reset_is_uncertain) {
    release(PROXY_REPLIES, PROXY_RESET, PROXY_ALL, TL_EUNCERTAIN, ATTEMPT_MS);
}

TEST(a_release_that_does_not_arrive_is_repeated_in_the_background) {
    release(PROXY_REQUESTS, PROXY_MUTE, PROXY_ALL, TL_EUNCERTAIN, ATTEMPT_MS);
}

/* It had been said to be lost before: that it was ours until now is not what happened. */
TEST(a_repeated_release_of_a_lost_lock_is_not_ok) {
    lock_events *events = make_events();
    tl_lock *lock = make_lock_with(
        client_behind_gate(), KEY,
        TL_LOCK_OPTIONS(.ttl_ms = SAFE_MS, .on_event = lock_events_add, .ctx = events));
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    freeReplyObject(real_redis_command(server, "SET " KEY " foreign"));
    assert_int_equal(lock_events_await(events, TL_LOST, SOON_MS).why, TL_LOST_TAKEN);
    proxy_break(gate, PROXY_REPLIES, 0, PROXY_RESET, 2); /* one for what the keeper still does */
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_ETAKEN);
}

/* ---- extend ------------------------------------------------------------------------------------ */

static void extend(proxy_way way, proxy_fault fault, int connections, tl_err expected,
                   int64_t least_ms) {
    tl_lock *lock = held_behind_gate(expected != TL_OK, clock_patient_ms(60000));
    int64_t left = tl_lock_remaining_ms(lock);
    proxy_break(gate, way, 0, fault, connections);
    int64_t began = clock_ms();
    ASSERT_RESULT(tl_lock_extend(lock, AGES_MS, &said), expected);
    ASSERT_TOOK(began, least_ms, ATTEMPT_MS);
    assert_belief_is_true(lock);
    assert_int_equal(tl_lock_state(lock), TL_HELD);
    if (expected != TL_OK) /* count on the old deadline */
        assert_true(tl_lock_remaining_ms(lock) <= left - least_ms);
    proxy_heal(gate);
    WAIT_FOR(SOON_MS, tl_lock_extend(lock, AGES_MS, &said) == TL_OK);
    release_hastily(lock, KEY);
}

TEST(an_extension_whose_answer_was_reset_is_asked_again) {
    extend(PROXY_REPLIES, PROXY_RESET, 1, TL_OK, 0);
}

TEST(an_extension_that_was_reset_on_its_way_is_asked_again) {
    extend(PROXY_REQUESTS, PROXY_RESET, 1, TL_OK, 0);
}

TEST(an_extension_without_an_answer_is_uncertain) {
    extend(PROXY_REPLIES, PROXY_MUTE, 1, TL_EUNCERTAIN, ATTEMPT_MS);
}

TEST(an_extension_whose_answers_are_all_reset_is_uncertain) {
    extend(PROXY_REPLIES, PROXY_RESET, PROXY_ALL, TL_EUNCERTAIN, ATTEMPT_MS);
}

TEST(an_extension_that_does_not_arrive_is_uncertain) {
    extend(PROXY_REQUESTS, PROXY_MUTE, PROXY_ALL, TL_EUNCERTAIN, ATTEMPT_MS);
}

/* ---- renewal ----------------------------------------------------------------------------------- */

static tl_lock *watched(lock_events *events, int64_t ttl_ms) {
    tl_lock *lock = make_lock_with(
        hasty_client_behind_gate(), KEY,
        TL_LOCK_OPTIONS(.ttl_ms = ttl_ms, .on_event = lock_events_add, .ctx = events));
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    return lock;
}

static void risk_then_held(proxy_way way, proxy_fault fault) {
    lock_events *events = make_events();
    tl_lock *lock = watched(events, SAFE_MS);
    lock_event again;
    proxy_break(gate, way, 0, fault, 1);
    (void)lock_events_await(events, TL_AT_RISK, SOON_MS);
    WAIT_FOR(SOON_MS, lock_events_find(events, 1, TL_HELD, &again));
    assert_belief_is_true(lock);
    ASSERT_GOES_ON(lock);
    release_hastily(lock, KEY);
    /* A renewal that was late as it was released was a risk that nothing has followed. */
    assert_in_range(
        lock_events_count_of(events, TL_AT_RISK) - lock_events_count_of(events, TL_HELD), 0, 1);
    assert_int_equal(lock_events_count_of(events, TL_LOST), 0);
}

TEST(a_renewal_whose_answer_is_lost_is_asked_again) {
    risk_then_held(PROXY_REPLIES, PROXY_MUTE);
}

TEST(a_renewal_that_was_reset_on_its_way_is_asked_again) {
    risk_then_held(PROXY_REQUESTS, PROXY_RESET);
}

/* Without an answer nothing is believed: LOST by the deadline of the last one. */
static void lost_in_time(proxy_way way, proxy_fault fault) {
    lock_events *events = make_events();
    tl_lock *lock = watched(events, BRIEF_MS);
    int64_t left = tl_lock_remaining_ms(lock);
    int64_t since = clock_ms();
    proxy_break(gate, way, 0, fault, PROXY_ALL);
    const clock_wait limit = clock_wait_begin(SOON_MS);
    assert_told_of_risk(events, BRIEF_MS);
    int64_t held_at = since;
    for (int64_t now = since; tl_lock_state(lock) != TL_LOST && clock_wait_more(&limit);) {
        held_at = now;
        now = clock_ms();
    }
    assert_in_range(held_at - since, 0, left + 1);
    assert_int_equal(tl_lock_remaining_ms(lock), 0);
    lock_event lost = lock_events_await(events, TL_LOST, SOON_MS);
    assert_int_equal(lost.why, TL_LOST_EXPIRED);
    proxy_heal(gate);
    assert_free_soon();
}

TEST(a_holder_whose_renewals_get_no_answer_is_told_in_time) {
    lost_in_time(PROXY_REPLIES, PROXY_MUTE);
}

TEST(a_holder_whose_renewals_are_all_reset_is_told_in_time) {
    lost_in_time(PROXY_REQUESTS, PROXY_RESET);
}

int main(void) {
    server = real_redis_start(NULL);
    return tests_run();
}
