/*
 * Faults: the server executes a take, and its answer is lost. The lock is had after all, or is not
 * had and soon free again; never is it nobody's for longer than its lifetime.
 */

/*
 * Faults and outcomes (tests/README.md says what is asserted of each):
 * - the reply to an acquire swallowed, delayed, reset: acquired after all, or UNCERTAIN and undone.
 */
#include <string.h>

#include "arena.h"

TESTS_WITH(arena_set_up, arena_tear_down);

/* ---- once -------------------------------------------------------------------------------------- */

static void had_after_all(proxy_fault fault, int64_t wait_ms, int64_t least_ms) {
    tl_lock *lock = by_hand(fault == PROXY_MUTE ? hasty_client_behind_gate() : client_behind_gate(),
                            AGES_MS);
    proxy_break(gate, PROXY_REPLIES, 0, fault, 1);
    int64_t began = clock_ms();
    ASSERT_RESULT(tl_lock_acquire(lock, wait_ms, &said), TL_OK);
    ASSERT_TOOK(began, least_ms, least_ms);
    assert_int_equal(proxy_struck(gate), 1);
    assert_true(holds_token_of(lock));
    assert_belief_is_true(lock);
    assert_int_equal(tl_lock_state(lock), TL_HELD);
    WAIT_FOR(SOON_MS, tl_lock_extend(lock, AGES_MS, &said) == TL_OK);
    release_hastily(lock, KEY);
}

TEST(a_waiter_asks_again_after_a_reset_and_finds_itself_the_holder) {
    had_after_all(PROXY_RESET, 2 * SOON_MS, 0);
}

TEST(a_waiter_asks_again_after_silence_and_finds_itself_the_holder) {
    had_after_all(PROXY_MUTE, 2 * SOON_MS, ATTEMPT_MS);
}

TEST(trying_once_asks_again_after_a_reset) {
    had_after_all(PROXY_RESET, 0, 0);
}

/* Try once with a client that has just heard from the server, of whose replies `times` are lost then. */
static void try_unheard(tl_client *client, tl_lock *lock, int times) {
    for (;;) {
        int64_t heard = clock_ms();
        (void)connected(client);
        forget_executed();
        proxy_break(gate, PROXY_REPLIES, 0, PROXY_MUTE, times);
        tl_err code = tl_lock_acquire(lock, 0, &said);
        if (code == TL_EUNCERTAIN || !WAS_IDLE(heard, code == TL_OK ? 0 : ATTEMPT_MS)) {
            ASSERT_RESULT(code, TL_EUNCERTAIN);
            return;
        }
        proxy_heal(gate);
        if (code == TL_OK)
            release_hastily(lock, KEY);
    }
}

TEST(trying_once_is_uncertain_after_silence_and_cleans_up) {
    tl_client *client = hasty_client_behind_gate();
    tl_lock *lock = by_hand(client, AGES_MS);
    int64_t began = clock_ms();
    try_unheard(client, lock, 1);
    ASSERT_TOOK(began, ATTEMPT_MS, ATTEMPT_MS);
    ASSERT_SAID("no reply");
    assert_int_equal(tl_lock_state(lock), TL_FREE);
    assert_int_equal(tl_lock_remaining_ms(lock), 0);
    assert_free_soon();
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
}

/* ---- again and again --------------------------------------------------------------------------- */

/* What was taken, that is: a busy machine may bring the request to the server when its time is over. */
static void uncertain_then_free(proxy_fault fault) {
    bool taken = false;
    for (int i = 0; i < 20 && !taken; i++) {
        int64_t heard = clock_ms();
        tl_lock *lock = by_hand(hasty_client_behind_gate(), AGES_MS);
        forget_executed();
        proxy_break(gate, PROXY_REPLIES, 0, fault, PROXY_ALL);
        int64_t began = clock_ms();
        tl_err code = tl_lock_acquire(lock, 500, &said);
        if (code != TL_EUNCERTAIN && WAS_IDLE(heard, 500)) {
            proxy_heal(gate);
            continue;
        }
        ASSERT_RESULT(code, TL_EUNCERTAIN);
        ASSERT_TOOK(began, 500, 500);
        WAIT_FOR(SOON_MS, proxy_struck(gate) >= 1);
        WAIT_FOR(SOON_MS, has_executed("evalsha", 1));
        taken = key_exists();
        proxy_heal(gate);
        assert_free_soon();
    }
    assert_true(taken);
}

TEST(a_waiter_that_never_hears_is_uncertain_and_cleans_up) {
    uncertain_then_free(PROXY_MUTE);
}

TEST(a_waiter_that_is_always_reset_is_uncertain_and_cleans_up) {
    uncertain_then_free(PROXY_RESET);
}

TEST(cancel_cleans_up_too) {
    /* What is cleaned up begins when the request's limit is over, or that of a login whose reply was lost, too. */
    const int64_t limit_ms = clock_patient_ms(2000);
    tl_client *client = make_client_with(
        TL_CLIENT_OPTIONS(.url = proxy_url(gate), .attempt_ms = limit_ms, .connect_ms = limit_ms));
    tl_lock *lock = by_hand(connected(client), AGES_MS);
    proxy_break(gate, PROXY_REPLIES, 0, PROXY_MUTE, PROXY_ALL);
    acquiring *a = acquiring_begin(lock, TL_FOREVER);
    WAIT_FOR(SOON_MS, key_exists());
    tl_lock_cancel(lock);
    int64_t began = clock_ms();
    ASSERT_RESULT(acquiring_end(a, SOON_MS), TL_ECANCELLED);
    ASSERT_TOOK(began, 0, 0);
    proxy_heal(gate);
    assert_free_soon();
}

TEST(no_orphan_outlives_its_lifetime) {
    const int64_t ttl_ms = 800;
    tl_client *client = hasty_client_behind_gate();
    tl_lock *lock = by_hand(client, ttl_ms);
    tl_lock *next = by_hand(client_direct(), AGES_MS);
    try_unheard(client, lock, PROXY_ALL);
    int64_t began = clock_ms();
    drop_lock(lock);
    int64_t closing = clock_ms();
    drop_client(client); /* nobody is left to clean up */
    ASSERT_TOOK(closing, 0, ATTEMPT_MS);
    ASSERT_RESULT(tl_lock_acquire(next, SOON_MS, &said), TL_OK);
    ASSERT_TOOK(began, 0, ttl_ms);
}

/* ---- late -------------------------------------------------------------------------------------- */

TEST(a_request_held_up_on_its_way_takes_nothing_any_more) {
    NEEDS_SERVER(REAL_LINE);
    tl_lock *lock = by_hand(hasty_client_behind_gate(), AGES_MS);
    for (;;) {
        ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
        int64_t heard = clock_ms();
        release_hastily(lock, KEY);
        forget_executed();
        proxy_stop(gate);
        tl_err code = tl_lock_acquire(lock, 0, &said);
        proxy_heal(gate); /* what was held up goes on, and so does the clean-up */
        if (code == TL_EUNCERTAIN || !WAS_IDLE(heard, ATTEMPT_MS)) {
            ASSERT_RESULT(code, TL_EUNCERTAIN);
            break;
        }
    }
    WAIT_FOR(SOON_MS, has_executed("evalsha", 2));
    assert_false(key_exists());
    tl_lock_info info = {.size = sizeof info};
    ASSERT_RESULT(tl_client_look(client_direct(), KEY, strlen(KEY), &info, &said), TL_OK);
    assert_true(info.fence == tl_lock_fence(lock)); /* nobody has held it since */
    assert_free_soon();
}

static int thaw(void **state);

/* A native take carries no limit: before what it may have done is undone the connection that holds it is ended on
 * the server, so that it can't come later. One that isn't native, since a busy machine was too late for that, is a script
 * that comes too late, and another that cleans up. */
TEST(a_native_take_held_up_on_its_way_has_its_connection_ended) {
    NEEDS_SERVER(REAL_SEVEN); /* which tells of each CLIENT KILL */
    tl_lock *lock = make_lock(hasty_client_behind_gate(), KEY, AGES_MS);
    bool native = false;
    for (int i = 0; i < 50 && !native; i++) {
        ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
        int64_t heard = clock_ms();
        release_hastily(lock, KEY); /* the counter has been raised: the next take is native */
        forget_executed();
        proxy_stop(gate);
        tl_err code = tl_lock_acquire(lock, 0, &said);
        proxy_heal(gate);
        if (code != TL_EUNCERTAIN && WAS_IDLE(heard, ATTEMPT_MS))
            continue;
        ASSERT_RESULT(code, TL_EUNCERTAIN);
        WAIT_FOR(SOON_MS, has_executed("client|kill", 1) || has_executed("evalsha", 2));
        native = has_executed("client|kill", 1);
        WAIT_FOR(SOON_MS, has_executed("evalsha", 1));
        assert_free_soon();
        assert_false(key_exists());
    }
    assert_true(native);
}

/* So it has when it is cancelled, which closes the connection without waiting. That the take was native is seen once
 * it is executed; on a busy machine it may be too late for that. */
TEST_WITH(a_native_take_that_is_cancelled_has_its_connection_ended, arena_set_up, thaw) {
    NEEDS_SERVER(REAL_SEVEN); /* which tells of each CLIENT KILL */
    tl_lock *lock = make_lock(client_behind_gate(), KEY, AGES_MS);
    bool native = false;
    for (int i = 0; i < 50 && !native; i++) {
        ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
        forget_executed();
        const size_t passed = proxy_passed(gate, PROXY_REQUESTS);
        real_redis_freeze(server);
        acquiring *a = acquiring_begin(lock, TL_FOREVER);
        WAIT_FOR(SOON_MS, proxy_passed(gate, PROXY_REQUESTS) > passed);
        tl_lock_cancel(lock);
        ASSERT_RESULT(acquiring_end(a, SOON_MS), TL_ECANCELLED);
        real_redis_thaw(server);
        assert_free_soon();
        native = has_executed("multi", 1);
        if (native)
            WAIT_FOR(SOON_MS, has_executed("client|kill", 1));
        WAIT_FOR(SOON_MS, !key_exists());
    }
    assert_true(native);
}

TEST(a_take_confirmed_too_late_is_confirmed_again) {
    tl_client *client = make_client_with(TL_CLIENT_OPTIONS(.url = proxy_url(gate)));
    tl_lock *lock = by_hand(client, 500);
    ASSERT_RESULT(tl_client_ping(client, &said), TL_OK);
    proxy_stop(gate);
    acquiring *a = acquiring_begin(lock, 2 * SOON_MS);
    const clock_wait longer_than_ttl = clock_wait_begin(800);
    while (clock_wait_more(&longer_than_ttl))
        assert_false(atomic_load(&a->done));
    proxy_heal(gate);
    ASSERT_RESULT(acquiring_end(a, SOON_MS), TL_OK);
    assert_belief_is_true(lock);
}

/* The reply to a cancelled take comes while the connection could be used for another lock. */
TEST_WITH(a_late_reply_never_answers_the_wrong_question, arena_set_up, thaw) {
    tl_client *client = client_behind_gate();
    tl_lock *lock = by_hand(client, AGES_MS), *other = make_lock(client, "chaos:other", AGES_MS);
    tl_lock *holder = make_lock(client_direct(), "chaos:other", AGES_MS);
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    for (int i = 0; i < 5; i++) {
        ASSERT_RESULT(tl_client_ping(client, &said), TL_OK);
        const size_t passed = proxy_passed(gate, PROXY_REQUESTS);
        real_redis_freeze(server);
        acquiring *a = acquiring_begin(lock, TL_FOREVER);
        WAIT_FOR(SOON_MS, proxy_passed(gate, PROXY_REQUESTS) > passed);
        tl_lock_cancel(lock);
        tl_err cancelled = acquiring_end(a, SOON_MS);
        acquiring *b = acquiring_begin(other, 0);
        real_redis_thaw(server);
        ASSERT_RESULT(cancelled, TL_ECANCELLED);
        ASSERT_RESULT(acquiring_end(b, SOON_MS), TL_EBUSY);
        assert_free_soon();
    }
}

static int thaw(void **state) {
    real_redis_thaw(server);
    return arena_tear_down(state);
}

int main(void) {
    server = real_redis_start(NULL);
    return tests_run();
}
