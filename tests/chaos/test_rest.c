/*
 * Faults: a holder lets its lock rest, and the answer is lost, the request never arrives, or the server is stopped or
 * killed. Nobody acquires the lock before the end that was asked for.
 */

/*
 * Faults and outcomes (tests/README.md says what is asserted of each):
 * - request or reply of a rest swallowed: retried; UNCERTAIN; in the background as long as the key lasts.
 * - server stopped (SIGSTOP): UNCERTAIN; it rests when the server goes on, unless the lock has expired by then.
 * - server killed: UNAVAILABLE or UNCERTAIN; with its data it rests when it is back.
 * - no memory for more keys (`maxmemory`): UNCERTAIN "maxmemory"; it rests when there is room again.
 */
#include "arena.h"

static real_redis *usual, *faithful; /* without and with a file that every write is put into */

static int with(real_redis *r, void **state) {
    server = r;
    return arena_set_up(state);
}

static int with_usual(void **state) {
    return with(usual, state);
}

static int with_faithful(void **state) {
    return with(faithful, state);
}

static int tear_down(void **state) {
    real_redis_thaw(server);
    if (real_redis_pid(server) < 0)
        real_redis_restart(server);
    freeReplyObject(real_redis_command(server, "CONFIG SET maxmemory 0"));
    return arena_tear_down(state);
}

TESTS_WITH(with_usual, tear_down);

static long long began_us; /* the server's clock before the last acquire */

static tl_lock *held_by(tl_client *client, int64_t ttl_ms) {
    tl_lock *lock = by_hand(client, ttl_ms);
    began_us = server_us(server);
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    return lock;
}

static void assert_rests_soon(void) {
    WAIT_FOR(SOON_MS, rest_end_us(server, KEY) > 0);
    assert_rests_for(server, KEY, began_us, HOUR_MS);
    tl_lock *other = by_hand(client_direct(), TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_EBUSY);
    ASSERT_SAID("it rests");
}

/* ---- requests and replies ---------------------------------------------------------------------- */

static void rest(proxy_way way, proxy_fault fault, int connections, tl_err expected,
                 int64_t least_ms) {
    tl_client *client = expected == TL_OK ? client_behind_gate() : hasty_client_behind_gate();
    tl_lock *lock = held_by(client, AGES_MS);
    proxy_break(gate, way, 0, fault, connections);
    forget_executed();
    int64_t began = clock_ms();
    ASSERT_RESULT(tl_lock_rest(lock, HOUR_MS, &said), expected);
    ASSERT_TOOK(began, least_ms, ATTEMPT_MS);
    assert_true(proxy_struck(gate) >= 1);
    assert_int_equal(tl_lock_state(lock), TL_FREE);
    assert_int_equal(tl_lock_remaining_ms(lock), 0);
    if (way == PROXY_REQUESTS && expected != TL_OK)
        assert_true(holds_token_of(lock)); /* it has not arrived */
    proxy_heal(gate);
    assert_rests_soon();
    assert_int_equal(executed("psetex"), 1); /* whatever was repeated, the end was set once */
}

TEST(a_rest_whose_answer_was_reset_is_asked_for_again_and_not_moved) {
    rest(PROXY_REPLIES, PROXY_RESET, 1, TL_OK, 0);
}

TEST(a_rest_that_was_reset_on_its_way_is_asked_for_again) {
    rest(PROXY_REQUESTS, PROXY_RESET, 1, TL_OK, 0);
}

TEST(a_rest_without_an_answer_is_uncertain) {
    rest(PROXY_REPLIES, PROXY_MUTE, 1, TL_EUNCERTAIN, ATTEMPT_MS);
}

TEST(a_rest_whose_answers_are_all_reset_is_uncertain) {
    rest(PROXY_REPLIES, PROXY_RESET, PROXY_ALL, TL_EUNCERTAIN, ATTEMPT_MS);
}

TEST(a_rest_that_does_not_arrive_is_repeated_in_the_background) {
    rest(PROXY_REQUESTS, PROXY_MUTE, PROXY_ALL, TL_EUNCERTAIN, ATTEMPT_MS);
}

/* ---- the server -------------------------------------------------------------------------------- */

TEST(a_rest_that_a_stopped_server_reads_late_ends_when_it_was_to_end) {
    tl_lock *lock = held_by(connected(hasty_client_direct()), AGES_MS);
    real_redis_freeze(server);
    int64_t began = clock_ms();
    ASSERT_RESULT(tl_lock_rest(lock, HOUR_MS, &said), TL_EUNCERTAIN);
    ASSERT_TOOK(began, ATTEMPT_MS, ATTEMPT_MS);
    assert_int_equal(tl_lock_state(lock), TL_FREE);
    real_redis_thaw(server);
    assert_rests_soon();
}

/* Another has acquired the lock by then, and keeps it. */
TEST(a_rest_that_a_stopped_server_reads_after_the_lifetime_changes_nothing) {
    tl_lock *lock = held_by(connected(hasty_client_direct()), BRIEF_MS);
    tl_lock *next = by_hand(connected(client_direct()), AGES_MS);
    real_redis_freeze(server);
    const tl_err code = tl_lock_rest(lock, HOUR_MS, &said);
    assert_true(code == TL_EUNCERTAIN || code == TL_EUNAVAILABLE || code == TL_EEXPIRED);
    const clock_wait expires = clock_wait_begin(BRIEF_MS + 50);
    while (clock_wait_more(&expires)) {}
    real_redis_thaw(server);
    ASSERT_RESULT(tl_lock_acquire(next, SOON_MS, &said), TL_OK);
    assert_true(holds_token_of(next));
    ASSERT_RESULT(tl_lock_extend(next, TTL_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(next, &said), TL_OK);
    assert_free_soon();
}

/* What it has begun in the background goes on there. */
TEST_WITH(a_rest_at_a_killed_server_begins_when_that_is_back_with_its_data, with_faithful,
          tear_down) {
    tl_lock *lock = held_by(connected(hasty_client_direct()), AGES_MS);
    real_redis_kill(server);
    int64_t began = clock_ms();
    const tl_err code = tl_lock_rest(lock, HOUR_MS, &said);
    assert_true(code == TL_EUNCERTAIN || code == TL_EUNAVAILABLE);
    ASSERT_TOOK(began, 0, ATTEMPT_MS);
    assert_int_equal(tl_lock_state(lock), TL_FREE);
    real_redis_restart(server);
    assert_rests_soon();
}

TEST_WITH(a_rest_survives_a_server_that_is_killed_and_back_with_its_data, with_faithful,
          tear_down) {
    tl_lock *lock = held_by(client_direct(), AGES_MS);
    ASSERT_RESULT(tl_lock_rest(lock, HOUR_MS, &said), TL_OK);
    real_redis_kill(server);
    real_redis_restart(server);
    assert_rests_soon();
}

/* At once, or in the background when there is room again. */
TEST(a_rest_where_memory_is_full_is_not_forgotten) {
    tl_client *client = make_client_with(
        TL_CLIENT_OPTIONS(.url = real_redis_url(server), .attempt_ms = clock_patient_ms(3000)));
    tl_lock *lock = held_by(client, AGES_MS);
    run("CONFIG SET maxmemory 1");
    const tl_err code = tl_lock_rest(lock, HOUR_MS, &said);
    run("CONFIG SET maxmemory 0");
    if (code != TL_OK) {
        ASSERT_RESULT(code, TL_EUNCERTAIN);
        ASSERT_SAID("maxmemory");
    }
    assert_rests_soon();
}

int main(void) {
    usual = real_redis_start(NULL);
    faithful = real_redis_start(&(real_redis_options){.persist = true});
    return tests_run();
}
