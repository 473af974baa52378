/*
 * Conformance: waiting for a lock that another holds, until it is released, expires, or is given up.
 */
#include "conform.h"

#define TTL_MS 30000
#define POLL_MS 250   /* the longest pause of one that nobody tells */
#define FLOOR_MS 5000 /* the longest pause of one that is told */

static tl_lock *held_by_another(conform *c, int64_t ttl_ms) {
    tl_lock *lock = conform_lock_with(c, conform_client(c),
                                      TL_LOCK_OPTIONS(.ttl_ms = ttl_ms, .manual_renew = true));
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    return lock;
}

/* Nobody says anything to the server for so long. */
static void await_silence(conform *c, int64_t silence_ms) {
    uint64_t count = conform_count(c);
    int64_t since = clock_ms();
    const clock_wait bound = clock_wait_begin(SOON_MS);
    while (clock_ms() - since < silence_ms) {
        uint64_t now = conform_count(c);
        if (now != count)
            since = clock_ms();
        count = now;
        if (!clock_wait_more(&bound))
            fail_msg("no silence of %d ms", (int)silence_ms);
    }
}

/* How long it has taken since then, or the least so far. */
static int64_t woken_after_us(acquiring *waiter, int64_t since_us, int64_t least_us) {
    ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_OK);
    int64_t us = waiter->ended_us - since_us;
    return us < least_us ? us : least_us;
}

/* ---- being told -------------------------------------------------------------------------------- */

CONFORM_OF(a_waiter_is_woken_by_the_release_and_does_not_poll, c, CONFORM_FENCE) {
    tl_lock *holder = held_by_another(c, TTL_MS);
    tl_lock *lock = conform_lock(c, conform_client(c), TTL_MS);
    int64_t least_us = INT64_MAX;
    /* Anew, if the machine has stopped somebody for as long as one waits who isn't told. */
    for (int i = 0; i < 10 && least_us >= FLOOR_MS * 1000 / 2; i++) {
        if (i > 0)
            ASSERT_RESULT(tl_lock_acquire(holder, SOON_MS, &said), TL_OK);
        acquiring *waiter = acquiring_begin(lock, TL_FOREVER);
        await_silence(c, 3 * POLL_MS); /* it has armed itself, and looked again */
        assert_false(atomic_load(&waiter->done));
        ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
        least_us = woken_after_us(waiter, clock_us(), least_us);
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    }
    assert_true(least_us < FLOOR_MS * 1000 / 2);
}

CONFORM_OF(a_release_at_any_moment_is_not_missed, c, CONFORM_SIDECAR) {
    tl_lock *holder = conform_lock(c, conform_client(c), TTL_MS);
    tl_lock *lock = conform_lock(c, conform_client(c), TTL_MS);
    /* who stands in line behind one that S knows at once asks once, from the second time on */
    bool in_line = c->row->phase == 3;
    const int moments = in_line ? 2 : 4;
    int64_t least_us[4] = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
    for (int i = 0; i < 40; i++) { /* take, subscribe, look again */
        ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
        uint64_t before = conform_count(c);
        acquiring *waiter = acquiring_begin(lock, TL_FOREVER);
        WAIT_FOR(SOON_MS, conform_count(c) >= before + (uint64_t)(i % moments));
        ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
        least_us[i % moments] = woken_after_us(waiter, clock_us(), least_us[i % moments]);
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    }
    /* A busy machine may be late at times, but not each time at the same moment. */
    for (int i = 0; i < moments; i++)
        assert_true(least_us[i] < FLOOR_MS * 1000 / 2);
}

enum { WAITERS = 6 };

/* How many have it and haven't released it; *ret is one of them. */
static int holding(acquiring *const *waiters, acquiring **ret) {
    int n = 0;
    for (int i = 0; i < WAITERS; i++)
        if (waiters[i]->running && atomic_load(&waiters[i]->done)) {
            *ret = waiters[i];
            n++;
        }
    return n;
}

CONFORM(waiters_get_it_one_after_the_other, c) {
    tl_lock *holder = held_by_another(c, TTL_MS);
    tl_client *shared = conform_client(c);
    acquiring *waiters[WAITERS], *first = NULL;
    for (int i = 0; i < WAITERS; i++) {
        tl_client *client = i % 2 ? shared : conform_client(c);
        waiters[i] = acquiring_begin(conform_lock(c, client, TTL_MS), TL_FOREVER);
    }
    ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
    for (int served = 0; served < WAITERS; served++) {
        WAIT_FOR(SOON_MS, holding(waiters, &first) > 0);
        assert_int_equal(holding(waiters, &first), 1);
        ASSERT_RESULT(acquiring_end(first, SOON_MS), TL_OK);
        ASSERT_RESULT(tl_lock_release(first->lock, &said), TL_OK);
    }
}

/* ---- not being told ---------------------------------------------------------------------------- */

CONFORM_OF(a_waiter_gets_a_lock_that_expires, c, CONFORM_EXPIRY) {
    tl_lock *holder = held_by_another(c, 500);
    tl_lock *lock = conform_lock(c, conform_client(c), TTL_MS);
    int64_t began = clock_ms();
    int64_t left = tl_lock_remaining_ms(holder);
    ASSERT_RESULT(tl_lock_acquire(lock, TL_FOREVER, &said), TL_OK);
    ASSERT_TOOK(began, left, 500);
    assert_int_equal(tl_lock_remaining_ms(holder), 0);
}

CONFORM(a_foreign_lock_is_waited_for, c) {
    tl_lock *lock = conform_lock(c, conform_client(c), TTL_MS);
    conform_do(c, "SET %s foreign PX 5000", c->key);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_EBUSY);
    int64_t began = clock_ms();
    long long left = conform_int(c, "PTTL %s", c->key);
    ASSERT_RESULT(tl_lock_acquire(lock, TL_FOREVER, &said), TL_OK);
    ASSERT_TOOK(began, left > 0 ? left : 0, 5000);
}

CONFORM(a_foreign_lock_without_lifetime_is_waited_for, c) {
    tl_lock *lock = conform_lock(c, conform_client(c), TTL_MS);
    conform_do(c, "SET %s foreign", c->key);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_EBUSY);
    ASSERT_RESULT(acquire_to_limit(lock, 300), TL_ETIMEDOUT);
    assert_true(conform_holds(c, c->key, "foreign"));
    await_silence(c, 10); /* it has left the line: behind it the next would look seldom */
    acquiring *waiter = acquiring_begin(lock, TL_FOREVER);
    await_silence(c, 10); /* it is between two looks */
    conform_do(c, "DEL %s", c->key);
    int64_t deleted_us = clock_us();
    ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_OK);
    assert_true(waiter->ended_us - deleted_us < (POLL_MS + SLACK_MS) * 1000);
}

CONFORM(a_key_of_another_type_is_somebodys_lock, c) {
    tl_lock *lock = conform_lock(c, conform_client(c), TTL_MS);
    conform_do(c, "HSET %s field value", c->key);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_EBUSY);
    ASSERT_RESULT(acquire_to_limit(lock, 300), TL_ETIMEDOUT);
    assert_int_equal(conform_int(c, "HLEN %s", c->key), 1);
}

/* ---- giving up --------------------------------------------------------------------------------- */

CONFORM(trying_once_does_not_wait, c) {
    (void)held_by_another(c, TTL_MS);
    tl_lock *lock = conform_lock(c, conform_client(c), TTL_MS);
    int64_t began = clock_ms();
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_EBUSY);
    ASSERT_TOOK(began, 0, 0);
}

CONFORM(a_wait_ends_at_its_limit, c) {
    static const int64_t limits[] = {1, 20};
    (void)held_by_another(c, TTL_MS);
    tl_lock *lock = conform_lock(c, conform_client(c), TTL_MS);
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        int64_t began = clock_ms();
        tl_err code = tl_lock_acquire(lock, limits[i], &said);
        assert_true(code != TL_OK); /* it can run out on the first connection */
        ASSERT_TOOK(began, limits[i] - 1, limits[i]);
        assert_int_equal(tl_lock_state(lock), TL_FREE);
    }
    ASSERT_RESULT(acquire_to_limit(lock, 300), TL_ETIMEDOUT);
    ASSERT_RESULT(acquire_to_limit(lock, 600), TL_ETIMEDOUT);
}

CONFORM_OF(cancel_ends_a_wait, c, CONFORM_SIDECAR) {
    (void)held_by_another(c, TTL_MS);
    tl_lock *lock = conform_lock(c, conform_client(c), TTL_MS);
    acquiring *waiter = acquiring_begin(lock, TL_FOREVER);
    await_silence(c, POLL_MS); /* between two looks, if it has any */
    int64_t began = clock_ms();
    tl_lock_cancel(lock);
    ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_ECANCELLED);
    ASSERT_TOOK(began, 0, 0);
    ASSERT_SAID("cancelled");
}

CONFORM(cancel_before_acquire_ends_the_next_one_only, c) {
    tl_lock *lock = conform_lock(c, conform_client(c), TTL_MS);
    uint64_t before = conform_count(c);
    tl_lock_cancel(lock);
    ASSERT_RESULT(tl_lock_acquire(lock, TL_FOREVER, &said), TL_ECANCELLED);
    assert_int_equal(conform_count(c), before);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

/* Whatever the moment, a cancelled acquire either has the lock or leaves nothing behind for long. */
CONFORM_OF(cancel_at_any_moment_leaves_no_lock_behind, c, CONFORM_CLEANING | CONFORM_FENCE) {
    tl_lock *lock = conform_lock(c, conform_client(c), TTL_MS);
    tl_lock *next = conform_lock(c, conform_client(c), TTL_MS);
    for (int i = 0; i < 30; i++) {
        acquiring *a = acquiring_begin(lock, TL_FOREVER);
        for (volatile int spin = 0; spin < i * 2000; spin++) {}
        tl_lock_cancel(lock);
        tl_err code = acquiring_end(a, SOON_MS);
        if (code == TL_OK)
            ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
        else
            ASSERT_RESULT(code, TL_ECANCELLED);
        ASSERT_RESULT(tl_lock_acquire(next, SOON_MS, &said), TL_OK);
        ASSERT_RESULT(tl_lock_release(next, &said), TL_OK);
        tl_lock_cancel(lock); /* perhaps it had come too late: use it up */
        ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_ECANCELLED);
    }
}

CONFORM_MAIN
