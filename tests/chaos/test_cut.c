/*
 * Faults: connections that break at every byte of a request and of its reply, or that go silent.
 * timeout: 240
 */

/*
 * Faults and outcomes (tests/README.md says what is asserted of each):
 * - connection reset at each byte of a request or reply of acquire, extend, release: the client retries and gets the
 *   right result.
 * - half-open connection, silence in the middle of a reply: ends at its limit; a waiter whose notification is lost
 *   acquires at the expiry.
 */
#include "arena.h"

TESTS_WITH(arena_set_up, arena_tear_down);

#define BYTES_MAX 4096 /* more than a request or a reply has */

/* ---- at every byte ----------------------------------------------------------------------------- */

static void take(tl_lock *lock) {
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
}

static void extend(tl_lock *lock) {
    ASSERT_RESULT(tl_lock_extend(lock, AGES_MS, &said), TL_OK);
}

static void release(tl_lock *lock) {
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

static void nothing(tl_lock *lock) {
    (void)lock;
}

/* Break at byte after byte of what `call` says or hears, until that has no more bytes. */
static void at_every_byte(proxy_way way, void (*before)(tl_lock *lock), void (*call)(tl_lock *lock),
                          void (*after)(tl_lock *lock)) {
    tl_client *client = client_behind_gate();
    tl_lock *lock = by_hand(client, AGES_MS);
    int broken = -1;
    size_t byte;
    for (byte = 0; byte < BYTES_MAX && proxy_struck(gate) != broken; byte++) {
        broken = proxy_struck(gate);
        ASSERT_RESULT(tl_client_ping(client, &said), TL_OK); /* a connection to break */
        before(lock);
        proxy_break(gate, way, byte, PROXY_RESET, 1);
        call(lock);
        proxy_heal(gate);
        assert_belief_is_true(lock);
        after(lock);
        assert_false(key_exists());
    }
    assert_in_range(byte, 5, BYTES_MAX - 1); /* no reply is shorter than ":1" */
}

TEST(a_take_survives_a_reset_at_every_byte_of_its_reply) {
    at_every_byte(PROXY_REPLIES, nothing, take, release);
}

TEST(a_take_survives_a_reset_at_every_byte_of_its_request) {
    at_every_byte(PROXY_REQUESTS, nothing, take, release);
}

TEST(a_release_survives_a_reset_at_every_byte_of_its_reply) {
    at_every_byte(PROXY_REPLIES, take, release, nothing);
}

TEST(a_release_survives_a_reset_at_every_byte_of_its_request) {
    at_every_byte(PROXY_REQUESTS, take, release, nothing);
}

TEST(an_extension_survives_a_reset_at_every_byte_of_its_reply) {
    at_every_byte(PROXY_REPLIES, take, extend, release);
}

TEST(an_extension_survives_a_reset_at_every_byte_of_its_request) {
    at_every_byte(PROXY_REQUESTS, take, extend, release);
}

/* A part of a reply, and then silence: the attempt ends at its limit, and the next one knows. */
TEST(a_reply_that_stops_in_the_middle_is_not_waited_for) {
    static const size_t afters[] = {1, 5, 20};
    tl_lock *lock = by_hand(hasty_client_behind_gate(), AGES_MS);
    const clock_wait bound = clock_wait_begin(4 * SOON_MS);
    for (size_t i = 0; i < sizeof afters / sizeof *afters; i = (size_t)proxy_struck(gate)) {
        assert_true(
            clock_wait_more(&bound)); /* a reply that comes too late by itself isn't struck */
        proxy_break(gate, PROXY_REPLIES, afters[i], PROXY_MUTE, 1);
        int64_t began = clock_ms();
        ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
        ASSERT_TOOK(began, ATTEMPT_MS, ATTEMPT_MS);
        proxy_heal(gate);
        assert_belief_is_true(lock);
        release_hastily(lock, KEY);
    }
}

/* ---- silence ----------------------------------------------------------------------------------- */

TEST(calls_over_a_silent_connection_end_at_their_limits) {
    tl_client *client = hasty_client_behind_gate();
    tl_lock *held = by_hand(client, AGES_MS);
    tl_lock *other = make_lock(client, "chaos:other", AGES_MS);
    tl_lock_info info = {.size = sizeof info};
    ASSERT_RESULT(tl_lock_acquire(held, SOON_MS, &said), TL_OK);
    proxy_stop(gate);
    int64_t began = clock_ms();
    ASSERT_RESULT(tl_client_ping(client, &said), TL_EUNAVAILABLE);
    ASSERT_TOOK(began, ATTEMPT_MS, CONNECT_MS + ATTEMPT_MS);
    began = clock_ms();
    ASSERT_RESULT(tl_client_look(client, "k", 1, &info, &said), TL_EUNAVAILABLE);
    ASSERT_TOOK(began, CONNECT_MS, CONNECT_MS + ATTEMPT_MS);
    began = clock_ms();
    ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_EUNAVAILABLE);
    ASSERT_TOOK(began, CONNECT_MS, CONNECT_MS + ATTEMPT_MS);
    began = clock_ms();
    ASSERT_RESULT(tl_lock_acquire(other, 500, &said), TL_EUNAVAILABLE);
    ASSERT_TOOK(began, 500, 500);
    began = clock_ms();
    ASSERT_RESULT(tl_lock_acquire(other, TL_FOREVER, &said), TL_EUNAVAILABLE);
    ASSERT_TOOK(began, CONNECT_MS, CONNECT_MS);
    began = clock_ms();
    ASSERT_RESULT(tl_lock_extend(held, AGES_MS, &said), TL_EUNAVAILABLE);
    ASSERT_TOOK(began, ATTEMPT_MS, ATTEMPT_MS);
    began = clock_ms();
    ASSERT_RESULT(tl_lock_release(held, &said), TL_EUNAVAILABLE);
    ASSERT_TOOK(began, ATTEMPT_MS, ATTEMPT_MS);
    drop_lock(held);
    drop_lock(other);
    began = clock_ms();
    drop_client(client);
    ASSERT_TOOK(began, 0, ATTEMPT_MS);
}

TEST(a_wait_goes_on_after_a_silence) {
    tl_lock *holder = by_hand(client_direct(), AGES_MS);
    tl_lock *lock = by_hand(hasty_client_behind_gate(), AGES_MS);
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    acquiring *waiter = acquiring_begin(lock, TL_FOREVER);
    WAIT_FOR(SOON_MS, has_executed("subscribe", 1)); /* it knows that it must wait */
    proxy_stop(gate);
    ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK); /* the waiter doesn't hear of it */
    const clock_wait silence = clock_wait_begin(ATTEMPT_MS + CONNECT_MS);
    while (clock_wait_more(&silence))
        assert_false(atomic_load(&waiter->done));
    proxy_heal(gate);
    ASSERT_RESULT(acquiring_end(waiter, 2 * SOON_MS), TL_OK);
    assert_belief_is_true(lock);
}

TEST(a_wait_in_silence_ends_at_its_limit) {
    tl_lock *holder = by_hand(client_direct(), AGES_MS);
    tl_lock *lock = by_hand(hasty_client_behind_gate(), AGES_MS);
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    acquiring *waiter = acquiring_begin(lock, 600);
    WAIT_FOR(SOON_MS, has_executed("subscribe", 1) || atomic_load(&waiter->done));
    proxy_stop(gate);
    tl_err code = acquiring_end(waiter, SOON_MS);
    assert_true(code == TL_ETIMEDOUT || code == TL_EUNCERTAIN || code == TL_EUNAVAILABLE);
    ASSERT_WAITED(waiter, 600, 600);
}

/* The announcement is lost, and the connection seems to be there: the expiry is known anyway. */
TEST(a_waiter_that_hears_nothing_comes_when_the_holders_time_is_up) {
    const int64_t ttl_ms = clock_patient_ms(1900);
    tl_lock *holder = by_hand(client_direct(), ttl_ms);
    tl_lock *lock = by_hand(hasty_client_behind_gate(), AGES_MS);
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    int64_t began = clock_ms();
    acquiring *waiter = acquiring_begin(lock, TL_FOREVER);
    WAIT_FOR(SOON_MS, atomic_load(&waiter->done) ||
                          (has_executed("subscribe", 1) && has_executed("evalsha", 3)));
    proxy_break(gate, PROXY_REPLIES, 0, PROXY_MUTE, 1);
    tl_err code = tl_lock_release(holder, &said);
    ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_OK);
    if (code == TL_OK) /* else all stood still until its time was up */
        WAIT_FOR(SOON_MS, proxy_struck(gate) == 1);
    ASSERT_TOOK(began, 0, ttl_ms);
}

int main(void) {
    server = real_redis_start(NULL);
    return tests_run();
}
