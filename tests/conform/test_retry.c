/*
 * Conformance: how an acquisition pauses between its attempts, and when it gives up.
 */
#include "conform.h"

#define TTL_MS 30000
#define ASKED_MAX 16

/* A lock that nobody announces the end of, so that nothing but the strategy decides. */
static tl_lock *against_foreign(conform *c, tl_lock_options options) {
    conform_do(c, "SET %s foreign", c->key);
    options.ttl_ms = TTL_MS;
    return conform_lock_with(c, conform_client(c), options);
}

CONFORM(fixed_pauses_for_the_delay, c) {
    tl_lock *lock = against_foreign(
        c, TL_LOCK_OPTIONS(.retry = TL_RETRY_FIXED, .retry_delay_ms = 60, .retry_max_attempts = 5));
    int64_t began = clock_ms();
    ASSERT_RESULT(tl_lock_acquire(lock, TL_FOREVER, &said), TL_EBUSY);
    ASSERT_TOOK(began, 4 * 60, 4 * 60);
}

CONFORM(fixed_waits_no_longer_than_it_may, c) {
    tl_lock *lock = against_foreign(
        c, TL_LOCK_OPTIONS(.retry = TL_RETRY_FIXED, .retry_delay_ms = 20000));
    ASSERT_RESULT(acquire_to_limit(lock, 200), TL_ETIMEDOUT);
}

CONFORM(fixed_gets_a_lock_that_becomes_free, c) {
    tl_lock *lock = against_foreign(c,
                                    TL_LOCK_OPTIONS(.retry = TL_RETRY_FIXED, .retry_delay_ms = 20));
    acquiring *waiter = acquiring_begin(lock, TL_FOREVER);
    uint64_t before = conform_count(c);
    WAIT_FOR(SOON_MS, conform_count(c) > before + 5);
    assert_false(atomic_load(&waiter->done));
    conform_do(c, "DEL %s", c->key);
    ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_OK);
}

CONFORM(exponential_pauses_at_random_up_to_its_limits, c) {
    const tl_lock_options retry = TL_LOCK_OPTIONS(.retry = TL_RETRY_EXPONENTIAL,
                                                  .retry_delay_ms = 10, .retry_max_delay_ms = 40,
                                                  .retry_max_attempts = 7);
    tl_lock *lock = against_foreign(c, retry);
    int64_t began = clock_ms();
    ASSERT_RESULT(tl_lock_acquire(lock, TL_FOREVER, &said), TL_EBUSY);
    ASSERT_TOOK(began, 6, 10 + 20 + 4 * 40);
}

CONFORM(max_attempts_counts_attempts, c) {
    static const tl_retry_kind kinds[] = {TL_RETRY_AUTO, TL_RETRY_FIXED, TL_RETRY_EXPONENTIAL};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const tl_lock_options once = TL_LOCK_OPTIONS(.retry = kinds[i], .retry_delay_ms = 10,
                                                     .retry_max_attempts = 1);
        int64_t began = clock_ms();
        ASSERT_RESULT(tl_lock_acquire(against_foreign(c, once), TL_FOREVER, &said), TL_EBUSY);
        ASSERT_TOOK(began, 0, 0);
        const tl_lock_options thrice = TL_LOCK_OPTIONS(.retry = kinds[i], .retry_delay_ms = 10,
                                                       .retry_max_attempts = 3);
        ASSERT_RESULT(tl_lock_acquire(against_foreign(c, thrice), TL_FOREVER, &said), TL_EBUSY);
        ASSERT_SAID(c->key);
    }
}

/* ---- the caller's own -------------------------------------------------------------------------- */

typedef struct {
    int count;
    uint32_t attempts[ASKED_MAX];
    int64_t waited_ms[ASKED_MAX];
    pthread_t thread[ASKED_MAX];
    int stop_at;
    int64_t pause_ms;
} questions;

static int64_t answer(uint32_t attempts, int64_t waited_ms, void *ctx) {
    questions *q = ctx;
    if (q->count < ASKED_MAX) {
        q->attempts[q->count] = attempts;
        q->waited_ms[q->count] = waited_ms;
        q->thread[q->count] = pthread_self();
    }
    return ++q->count == q->stop_at ? -1 : q->pause_ms;
}

CONFORM(custom_is_asked_after_each_attempt, c) {
    questions q = {.stop_at = 4, .pause_ms = 30};
    tl_lock *lock = against_foreign(
        c, TL_LOCK_OPTIONS(.retry = TL_RETRY_CUSTOM, .retry_next = answer, .retry_ctx = &q));
    int64_t began = clock_ms();
    ASSERT_RESULT(tl_lock_acquire(lock, TL_FOREVER, &said), TL_EBUSY);
    ASSERT_TOOK(began, 3 * 30, 3 * 30);
    assert_int_equal(q.count, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(q.attempts[i], i + 1);
        assert_in_range(q.waited_ms[i], 30 * i, 30 * i + SLACK_MS);
        assert_true(pthread_equal(q.thread[i], pthread_self()));
    }
}

CONFORM(custom_may_ask_again_at_once, c) {
    questions q = {.stop_at = 10, .pause_ms = 0};
    tl_lock *lock = against_foreign(
        c, TL_LOCK_OPTIONS(.retry = TL_RETRY_CUSTOM, .retry_next = answer, .retry_ctx = &q));
    int64_t began = clock_ms();
    ASSERT_RESULT(tl_lock_acquire(lock, TL_FOREVER, &said), TL_EBUSY);
    ASSERT_TOOK(began, 0, 0);
    assert_int_equal(q.count, 10);
}

CONFORM(custom_is_not_asked_when_the_lock_is_free, c) {
    questions q = {.stop_at = 1};
    const tl_lock_options retry = TL_LOCK_OPTIONS(.retry = TL_RETRY_CUSTOM, .retry_next = answer,
                                                  .retry_ctx = &q);
    tl_lock *lock = against_foreign(c, retry);
    conform_do(c, "DEL %s", c->key);
    ASSERT_RESULT(tl_lock_acquire(lock, TL_FOREVER, &said), TL_OK);
    assert_int_equal(q.count, 0);
}

CONFORM(cancel_ends_a_long_pause, c) {
    tl_lock *lock = against_foreign(
        c, TL_LOCK_OPTIONS(.retry = TL_RETRY_FIXED, .retry_delay_ms = 100000));
    uint64_t before = conform_count(c);
    acquiring *waiter = acquiring_begin(lock, TL_FOREVER);
    WAIT_FOR(SOON_MS, conform_count(c) > before);
    tl_lock_cancel(lock);
    ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_ECANCELLED);
}

CONFORM_MAIN
