/*
 * Conformance: the simple face.
 */
#include "conform.h"

CONFORM_OF(a_lock_in_two_calls, c, CONFORM_RUNTIME) {
    tl_lock *lock = tl_acquire(conform_client(c), c->key, 0, &said);
    assert_non_null(lock);
    assert_int_equal(tl_lock_state(lock), TL_HELD);
    assert_in_range(tl_lock_remaining_ms(lock), 1, 30000);
    assert_true(conform_holds(c, c->key, tl_lock_token(lock)));
    ASSERT_RESULT(tl_release(lock, &said), TL_OK);
    assert_true(conform_holds(c, c->key, NULL));
}

/* The limit may cut short its only look, which then can't say: it waits anew, each time for twice as long. */
static void assert_times_out(tl_client *client, const char *key, int64_t limit_ms) {
    said.code = TL_EUNCERTAIN;
    for (; limit_ms <= SOON_MS && (said.code == TL_EUNCERTAIN || said.code == TL_EUNAVAILABLE);
         limit_ms *= 2) {
        int64_t began = clock_ms();
        assert_null(tl_acquire(client, key, limit_ms, &said));
        ASSERT_TOOK(began, limit_ms, limit_ms);
    }
    assert_int_equal(said.code, TL_ETIMEDOUT);
}

CONFORM_OF(what_is_held_elsewhere_is_not_had, c, CONFORM_RUNTIME) {
    const int64_t limit_ms = clock_patient_ms(400); /* in which the server is heard */
    tl_client *client = conform_client(c), *other = conform_client(c);
    tl_lock *lock = tl_acquire(client, c->key, TL_FOREVER, &said);
    assert_non_null(lock);
    assert_null(tl_acquire(other, c->key, 0, &said));
    assert_int_equal(said.code, TL_EBUSY);
    assert_times_out(other, c->key, limit_ms);
    assert_times_out(client, c->key, limit_ms); /* not by the same client either */
    assert_null(tl_acquire(client, c->key, 100, NULL));
    ASSERT_RESULT(tl_release(lock, &said), TL_OK);
    lock = tl_acquire(other, c->key, 0, &said);
    assert_non_null(lock);
    ASSERT_RESULT(tl_release(lock, NULL), TL_OK);
}

CONFORM_OF(a_lock_that_was_lost_says_so_and_is_freed, c, CONFORM_RUNTIME) {
    tl_lock *lock = tl_acquire(conform_client(c), c->key, 0, &said);
    assert_non_null(lock);
    conform_do(c, "SET %s another's", c->key);
    ASSERT_RESULT(tl_release(lock, &said), TL_ETAKEN);
    assert_true(conform_holds(c, c->key, "another's"));
}

CONFORM_OF(what_is_wrong_is_said, c, CONFORM_RUNTIME) {
    tl_client *client = conform_client(c);
    assert_null(tl_acquire(client, NULL, 0, &said));
    assert_int_equal(said.code, TL_EINVALID);
    assert_null(tl_acquire(client, "", 0, &said));
    assert_int_equal(said.code, TL_EINVALID);
    assert_null(tl_acquire(client, c->key, -1, &said));
    assert_int_equal(said.code, TL_EINVALID);
    ASSERT_RESULT(tl_release(NULL, &said), TL_OK);
}

CONFORM_MAIN
