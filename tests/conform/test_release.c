/*
 * Conformance: what a release says, what it never touches, and the fencing numbers of holders that
 * follow each other.
 */
#include "conform.h"

#define TTL_MS 30000
#define SHORT_MS 250                    /* to be waited for */
#define BRIEF_MS clock_patient_ms(6000) /* to be met, and then waited for */

static tl_lock *by_hand(conform *c, tl_client *client, int64_t ttl_ms) {
    return conform_lock_with(c, client, TL_LOCK_OPTIONS(.ttl_ms = ttl_ms, .manual_renew = true));
}

/* ---- results ----------------------------------------------------------------------------------- */

CONFORM(release_of_what_is_not_held_is_refused, c) {
    tl_lock *lock = conform_lock(c, conform_client(c), TTL_MS);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_EINVALID);
    ASSERT_SAID("not held");
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_EINVALID);
}

CONFORM_OF(release_says_that_the_lock_had_expired, c, CONFORM_EXPIRY | CONFORM_GARBAGE) {
    tl_lock *lock = by_hand(c, conform_client(c), SHORT_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    WAIT_FOR(SOON_MS, conform_int(c, "EXISTS %s", c->key) == 0);
    assert_int_equal(tl_lock_state(lock), TL_LOST);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_EEXPIRED);
    ASSERT_SAID(c->key);
    assert_int_equal(tl_lock_state(lock), TL_FREE);
}

CONFORM(release_says_that_the_key_was_deleted, c) {
    tl_lock *lock = by_hand(c, conform_client(c), TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    conform_do(c, "DEL %s", c->key);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_EEXPIRED);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
}

CONFORM_OF(release_never_deletes_the_next_holders_lock, c, CONFORM_EXPIRY) {
    tl_lock *lock = by_hand(c, conform_client(c), SHORT_MS);
    tl_lock *next = by_hand(c, conform_client(c), TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_acquire(next, SOON_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_ETAKEN);
    assert_int_equal(tl_lock_state(lock), TL_FREE);
    assert_int_equal(conform_int(c, "EXISTS %s", c->key), 1);
    ASSERT_RESULT(tl_lock_extend(next, TTL_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(next, &said), TL_OK);
}

CONFORM(release_never_deletes_a_foreign_lock, c) {
    tl_lock *lock = by_hand(c, conform_client(c), TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    conform_do(c, "SET %s foreign", c->key);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_ETAKEN);
    assert_true(conform_holds(c, c->key, "foreign"));
    conform_do(c, "DEL %s", c->key);
    conform_do(c, "HSET %s field value", c->key);
    ASSERT_RESULT(tl_lock_adopt(lock, "1600000000000", &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_ETAKEN);
    assert_int_equal(conform_int(c, "HLEN %s", c->key), 1);
}

CONFORM_OF(a_deleted_key_keeps_tidelock_clients_out_until_its_holder_lets_go, c, CONFORM_FENCE) {
    proxy *p = conform_proxy(c);
    tl_client *behind = conform_client_with(c, TL_CLIENT_OPTIONS(.url = proxy_url(p)));
    tl_lock *lock = by_hand(c, behind, BRIEF_MS);
    tl_lock *other = by_hand(c, conform_client(c), TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    int64_t began = clock_ms();
    int64_t left = tl_lock_remaining_ms(lock);
    proxy_stop(p); /* its holder is told nothing of it and still works */
    conform_do(c, "DEL %s", c->key);
    ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_EBUSY);
    ASSERT_RESULT(tl_lock_acquire(other, SOON_MS, &said), TL_OK);
    ASSERT_TOOK(began, left, BRIEF_MS);
    assert_int_equal(tl_lock_remaining_ms(lock), 0);
    proxy_heal(p);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_ETAKEN);
    ASSERT_RESULT(tl_lock_release(other, &said), TL_OK);
}

/* ---- fences ------------------------------------------------------------------------------------ */

CONFORM_OF(fences_rise_over_all_holders, c, CONFORM_FENCE | CONFORM_SHORT) {
    enum { HOLDS = 60 };
    tl_lock *locks[3] = {by_hand(c, conform_client(c), TTL_MS), by_hand(c, conform_client(c), 50),
                         by_hand(c, conform_client(c), TTL_MS)};
    uint64_t last = 0;
    for (int i = 0; i < HOLDS; i++) {
        tl_lock *lock = locks[i % 3];
        ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
        assert_true(tl_lock_fence(lock) > last);
        assert_true(tl_lock_fence(lock) < UINT64_C(1) << 53);
        last = tl_lock_fence(lock);
        if (i % 3 != 1)
            ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
        else
            WAIT_FOR(SOON_MS, tl_lock_state(lock) == TL_LOST);
        assert_true(tl_lock_fence(lock) == last); /* that of the last hold */
    }
}

CONFORM_OF(fences_rise_after_everything_was_deleted, c, CONFORM_FENCE) {
    tl_lock *lock = by_hand(c, conform_client(c), TTL_MS);
    uint64_t last = 0;
    for (int i = 0; i < 5; i++) {
        ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
        assert_true(tl_lock_fence(lock) > last);
        last = tl_lock_fence(lock);
        if (i % 2)
            conform_do(c, "DEL %s", c->key);
        else
            conform_do(c, "FLUSHALL");
        (void)tl_lock_release(lock, &said);
    }
}

#define SOON_GONE_MS 120000

/* By then no request for the token can take effect. The counter of the fences stays. */
CONFORM_OF(a_sidecar_lasts_for_an_hour_while_it_is_used_and_two_minutes_after_a_release, c,
           CONFORM_FENCE | CONFORM_GARBAGE) {
    tl_lock *lock = by_hand(c, conform_client(c), TTL_MS),
            *late = by_hand(c, conform_client(c), SHORT_MS);
    for (int i = 0; i < 3; i++) {
        ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
        assert_true(conform_int(c, "PTTL tidelock:{%s}", c->key) > 3600000);
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
        assert_in_range(conform_int(c, "PTTL tidelock:{%s}", c->key), 1, SOON_GONE_MS);
        if (i == 1)
            conform_do(c, "DEL tidelock:{%s}", c->key);
    }
    /* a release that finds nothing makes S anew, and that does not stay for ever either */
    ASSERT_RESULT(tl_lock_acquire(late, SOON_MS, &said), TL_OK);
    WAIT_FOR(SOON_MS, conform_int(c, "EXISTS %s", c->key) == 0);
    conform_do(c, "DEL tidelock:{%s}", c->key);
    ASSERT_RESULT(tl_lock_release(late, &said), TL_EEXPIRED);
    assert_in_range(conform_int(c, "PTTL tidelock:{%s}", c->key), 1, SOON_GONE_MS);
}

CONFORM_OF(a_day_of_holding_is_remembered_for_longer, c, CONFORM_FENCE) {
    tl_lock *lock = by_hand(c, conform_client(c), TTL_MS);
    tl_lock *day = by_hand(c, conform_client(c), TL_TTL_MAX_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    ASSERT_RESULT(tl_lock_acquire(day, 0, &said), TL_OK);
    assert_true(conform_int(c, "PTTL tidelock:{%s}", c->key) > TL_TTL_MAX_MS);
    ASSERT_RESULT(tl_lock_release(day, &said), TL_OK);
}

CONFORM_OF(fences_of_keys_are_independent, c, CONFORM_FENCE) {
    tl_client *client = conform_client(c);
    tl_lock *lock = by_hand(c, client, TTL_MS), *other = make_lock(client, "conform:other", TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    uint64_t fence = tl_lock_fence(lock);
    ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_OK);
    assert_true(tl_lock_fence(other) > 0);
    assert_true(tl_lock_fence(lock) == fence);
    ASSERT_RESULT(tl_lock_release(other, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

CONFORM_MAIN
