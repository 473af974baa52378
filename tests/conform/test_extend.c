/*
 * Conformance: extending a lock by hand, and speaking for one that was acquired elsewhere.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "conform.h"

#define TTL_MS 30000
#define BRIEF_MS clock_patient_ms(1000) /* to be waited for */
#define KEPT_MS clock_patient_ms(6000)  /* to be met again and again, and to be waited for */

/* Where legacy clients are reckoned with and the server tells of changes, the holder may know already. */
static void assert_lost(const conform *c, tl_err code, tl_err expected) {
    if (code != TL_ELOST || (!c->row->stamps && !c->row->phase))
        ASSERT_RESULT(code, expected);
}

static tl_lock *by_hand(conform *c, tl_client *client, int64_t ttl_ms) {
    return conform_lock_with(c, client, TL_LOCK_OPTIONS(.ttl_ms = ttl_ms, .manual_renew = true));
}

/* ---- extending --------------------------------------------------------------------------------- */

CONFORM_OF(extend_gives_the_new_lifetime, c, CONFORM_RENEWAL | CONFORM_GARBAGE) {
    tl_lock *lock = by_hand(c, conform_client(c), TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    uint64_t fence = tl_lock_fence(lock);
    ASSERT_RESULT(tl_lock_extend(lock, 60000, &said), TL_OK);
    ASSERT_BELIEVES(tl_lock_remaining_ms(lock), 60000, SLACK_MS);
    assert_in_range(conform_int(c, "PTTL %s", c->key), 60000 - SLACK_MS, 60000);
    assert_int_equal(tl_lock_state(lock), TL_HELD);
    assert_true(tl_lock_fence(lock) == fence);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

CONFORM_OF(extending_by_hand_keeps_a_lock_for_longer_than_it_lasts, c, CONFORM_RENEWAL) {
    tl_lock *lock = by_hand(c, conform_client(c), KEPT_MS);
    tl_lock *other = conform_lock(c, conform_client(c), TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    const clock_wait end = clock_wait_begin(KEPT_MS + 500);
    while (clock_wait_more(&end)) {
        ASSERT_RESULT(tl_lock_extend(lock, KEPT_MS, &said), TL_OK);
        ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_EBUSY);
    }
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

CONFORM_OF(a_shorter_lifetime_shortens_this_side_only, c, CONFORM_RENEWAL | CONFORM_GARBAGE) {
    tl_lock *lock = by_hand(c, conform_client(c), TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_extend(lock, BRIEF_MS, &said), TL_OK);
    assert_in_range(tl_lock_remaining_ms(lock), 0, BRIEF_MS);
    assert_in_range(conform_int(c, "PTTL %s", c->key), BRIEF_MS + 1, TTL_MS);
    WAIT_FOR(SOON_MS, tl_lock_state(lock) == TL_LOST);
}

CONFORM_OF(renewal_goes_on_with_the_new_lifetime, c, CONFORM_RENEWAL) {
    tl_client *client = conform_client(c);
    tl_lock *lock = conform_lock(c, client, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_extend(lock, LASTING_MS, &said), TL_OK);
    const uint64_t renewals = renewals_of(client);
    const clock_wait bound = clock_wait_begin(SOON_MS);
    while (renewals_of(client) < renewals + 2 && clock_wait_more(&bound))
        assert_in_range(tl_lock_remaining_ms(lock), 1, LASTING_MS);
    assert_true(renewals_of(client) >= renewals + 2);
    ASSERT_GOES_ON(lock);
    ASSERT_RESULT(tl_lock_extend(lock, 60000, &said), TL_OK);
    ASSERT_BELIEVES(tl_lock_remaining_ms(lock), 60000, SLACK_MS);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

CONFORM_OF(extend_finds_out_that_the_lock_is_gone, c, CONFORM_RENEWAL) {
    static const struct {
        const char *command;
        tl_err code;
    } cases[] = {
        {"DEL %s", TL_EEXPIRED},
        {"SET %s foreign PX 60000", TL_ETAKEN},
        {"SET %s foreign", TL_ETAKEN},
    };
    tl_client *client = conform_client(c);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tl_lock *lock = by_hand(c, client, TTL_MS);
        ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
        conform_do(c, cases[i].command, c->key);
        assert_lost(c, tl_lock_extend(lock, TTL_MS, &said), cases[i].code);
        ASSERT_SAID(c->key);
        assert_int_equal(tl_lock_state(lock), TL_LOST);
        assert_int_equal(tl_lock_remaining_ms(lock), 0);
        ASSERT_RESULT(tl_lock_extend(lock, TTL_MS, &said), TL_ELOST);
        if (cases[i].code == TL_ETAKEN)
            assert_true(conform_holds(c, c->key, "foreign"));
        conform_do(c, "DEL %s", c->key);
        drop_lock(lock);
    }
}

CONFORM_OF(a_lock_whose_time_is_up_cannot_be_extended, c, CONFORM_RENEWAL) {
    tl_lock *lock = by_hand(c, conform_client(c), BRIEF_MS / 4);
    tl_lock *other = conform_lock(c, conform_client(c), TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_acquire(other, SOON_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_extend(lock, TTL_MS, &said), TL_ELOST);
    assert_int_equal(tl_lock_state(lock), TL_LOST);
    assert_int_equal(tl_lock_state(other), TL_HELD);
}

CONFORM_OF(extend_needs_a_held_lock_and_a_good_lifetime, c, CONFORM_RENEWAL) {
    static const int64_t bad[] = {0,         -1,       TL_TTL_MIN_MS - 1, TL_TTL_MAX_MS + 1,
                                  INT64_MAX, INT64_MIN};
    tl_lock *lock = by_hand(c, conform_client(c), TTL_MS);
    ASSERT_RESULT(tl_lock_extend(lock, TTL_MS, &said), TL_EINVALID);
    ASSERT_SAID("not held");
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ASSERT_RESULT(tl_lock_extend(lock, bad[i], &said), TL_EINVALID);
        ASSERT_SAID("ttl");
    }
    ASSERT_RESULT(tl_lock_extend(lock, TL_TTL_MAX_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    ASSERT_RESULT(tl_lock_extend(lock, TTL_MS, &said), TL_EINVALID);
}

/* ---- a token from elsewhere -------------------------------------------------------------------- */

CONFORM_OF(a_token_can_be_passed_on, c, CONFORM_RENEWAL) {
    tl_lock *first = by_hand(c, conform_client(c), TTL_MS);
    tl_lock *second = by_hand(c, conform_client(c), TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(first, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_adopt(second, tl_lock_token(first), &said), TL_OK);
    assert_int_equal(tl_lock_state(second), TL_LOST);
    assert_int_equal(tl_lock_remaining_ms(second), 0);
    assert_string_equal(tl_lock_token(second), tl_lock_token(first));
    ASSERT_RESULT(tl_lock_extend(second, 40000, &said), TL_OK);
    assert_int_equal(tl_lock_state(second), TL_HELD);
    ASSERT_BELIEVES(tl_lock_remaining_ms(second), 40000, SLACK_MS);
    assert_int_equal(tl_lock_fence(second), 0);
    ASSERT_RESULT(tl_lock_release(second, &said), TL_OK);
    assert_int_equal(conform_int(c, "EXISTS %s", c->key), 0);
    assert_lost(c, tl_lock_extend(first, TTL_MS, &said), TL_EEXPIRED);
}

/* How late a request of the other process may come isn't known. */
CONFORM_OF(what_the_server_remembers_of_a_token_that_was_passed_on_stays_for_long, c,
           CONFORM_RENEWAL | CONFORM_FENCE | CONFORM_SIDECAR | CONFORM_SCRIPTS) {
    tl_lock *first = by_hand(c, conform_client(c), TTL_MS);
    tl_lock *second = by_hand(c, conform_client(c), TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(first, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_adopt(second, tl_lock_token(first), &said), TL_OK);
    drop_lock(
        first); /* it would release the lock that it finds lost, and that it has acquired itself */
    ASSERT_RESULT(tl_lock_extend(second, TTL_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(second, &said), TL_OK);
    assert_true(conform_int(c, "PTTL tidelock:{%s}", c->key) > 1800000);
    ASSERT_RESULT(tl_lock_acquire(second, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_extend(second, TTL_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(second, &said), TL_OK);
    assert_in_range(conform_int(c, "PTTL tidelock:{%s}", c->key), 1, 120000);
}

CONFORM_OF(an_adopted_lock_is_renewed, c, CONFORM_RENEWAL) {
    tl_client *client = conform_client(c);
    tl_lock *first = by_hand(c, conform_client(c), LASTING_MS);
    tl_lock *second = conform_lock(c, client, LASTING_MS);
    ASSERT_RESULT(tl_lock_acquire(first, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_adopt(second, tl_lock_token(first), &said), TL_OK);
    drop_lock(first);
    ASSERT_RESULT(tl_lock_extend(second, LASTING_MS, &said), TL_OK);
    WAIT_FOR(SOON_MS, renewals_of(client) >= 1);
    ASSERT_GOES_ON(second);
    ASSERT_RESULT(tl_lock_release(second, &said), TL_OK);
}

CONFORM_OF(the_former_handle_of_a_token_does_not_take_it_back, c, CONFORM_RENEWAL) {
    tl_lock *first = by_hand(c, conform_client(c), KEPT_MS);
    /* where first looks at each change, none must come in its time */
    int64_t rare_ms = 5 * KEPT_MS;
    tl_lock *second = conform_lock(c, conform_client(c), rare_ms);
    ASSERT_RESULT(tl_lock_acquire(first, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_adopt(second, tl_lock_token(first), &said), TL_OK);
    ASSERT_RESULT(tl_lock_extend(second, rare_ms, &said), TL_OK);
    WAIT_FOR(SOON_MS, tl_lock_state(first) == TL_LOST); /* as far as it knows */
    const clock_wait end = clock_wait_begin(100);
    while (clock_wait_more(&end))
        assert_int_equal(conform_int(c, "EXISTS %s", c->key), 1);
    ASSERT_RESULT(tl_lock_release(second, &said), TL_OK);
}

CONFORM(a_token_can_be_released_at_once, c) {
    tl_lock *first = by_hand(c, conform_client(c), TTL_MS);
    tl_lock *second = by_hand(c, conform_client(c), TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(first, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_adopt(second, tl_lock_token(first), &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(second, &said), TL_OK);
    assert_int_equal(conform_int(c, "EXISTS %s", c->key), 0);
    assert_int_equal(tl_lock_state(second), TL_FREE);
}

static void done(tl_lock *lock, tl_err code, const tl_error *err, void *ctx) {
    (void)lock, (void)err;
    atomic_store((atomic_int *)ctx, 1 + (int)code);
}

static tl_err acquire_async(tl_lock *lock) {
    static atomic_int told;
    atomic_store(&told, 0);
    ASSERT_RESULT(tl_lock_acquire_async(lock, 300, done, &told, &said), TL_OK);
    WAIT_FOR(SOON_MS, atomic_load(&told) != 0);
    return (tl_err)(atomic_load(&told) - 1);
}

/* The handle had a hold that max_hold_ms would have ended by now. The lock whose token it adopts is another's. */
CONFORM(the_next_acquire_does_not_release_a_lock_whose_token_was_adopted, c) {
    const int64_t max_ms = 50;
    tl_lock *holder = conform_lock(c, conform_client(c), TTL_MS);
    tl_lock *adopter = conform_lock_with(c, conform_client(c),
                                         TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .max_hold_ms = max_ms));
    ASSERT_RESULT(tl_lock_acquire(adopter, SOON_MS, &said), TL_OK);
    const clock_wait passes = clock_wait_begin(max_ms + 20);
    (void)tl_lock_release(adopter, &said); /* it may be lost by now */
    ASSERT_RESULT(tl_lock_acquire(holder, SOON_MS, &said), TL_OK);
    while (clock_wait_more(&passes))
        continue;
    for (int blocks = 0; blocks < 2; blocks++) {
        ASSERT_RESULT(tl_lock_adopt(adopter, tl_lock_token(holder), &said), TL_OK);
        ASSERT_RESULT(blocks ? acquire_to_limit(adopter, 300) : acquire_async(adopter),
                      TL_ETIMEDOUT);
        ASSERT_RESULT(tl_lock_adopt(adopter, tl_lock_token(holder), &said), TL_OK);
        ASSERT_RESULT(tl_lock_acquire(adopter, 0, &said), TL_EBUSY);
    }
    assert_int_equal(tl_lock_state(holder), TL_HELD);
    ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
}

CONFORM_OF(a_token_of_nobody_is_refused_by_the_server, c, CONFORM_RENEWAL) {
    tl_lock *holder = by_hand(c, conform_client(c), TTL_MS);
    tl_lock *lock = by_hand(c, conform_client(c), TTL_MS);
    ASSERT_RESULT(tl_lock_adopt(lock, "not-a-token-of-anybody", &said), TL_OK);
    ASSERT_RESULT(tl_lock_extend(lock, TTL_MS, &said), TL_EEXPIRED);
    ASSERT_RESULT(tl_lock_adopt(lock, "not-a-token-of-anybody", &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_EEXPIRED);
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_adopt(lock, "not-a-token-of-anybody", &said), TL_OK);
    ASSERT_RESULT(tl_lock_extend(lock, TTL_MS, &said), TL_ETAKEN);
    ASSERT_RESULT(tl_lock_adopt(lock, "not-a-token-of-anybody", &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_ETAKEN);
    ASSERT_RESULT(tl_lock_extend(holder, TTL_MS, &said), TL_OK);
}

CONFORM(adopt_needs_a_free_handle_and_a_token, c) {
    char longest[TL_TOKEN_SIZE + 1];
    tl_lock *lock = by_hand(c, conform_client(c), TTL_MS);
    memset(longest, 'x', sizeof longest);
    longest[TL_TOKEN_SIZE] = '\0';
    ASSERT_RESULT(tl_lock_adopt(lock, "", &said), TL_EINVALID);
    ASSERT_SAID("token");
    ASSERT_RESULT(tl_lock_adopt(lock, NULL, &said), TL_EINVALID);
    ASSERT_RESULT(tl_lock_adopt(lock, longest, &said), TL_EINVALID);
    longest[TL_TOKEN_SIZE - 1] = '\0';
    ASSERT_RESULT(tl_lock_adopt(lock, longest, &said), TL_OK);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_adopt(lock, longest, &said), TL_EINVALID);
    assert_int_equal(tl_lock_state(lock), TL_HELD);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

CONFORM_MAIN
