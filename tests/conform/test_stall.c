/*
 * Conformance: a watchdog that the holder feeds. A holder that gives no sign of life loses its lock in time, and another
 * acquires it; one that gives signs keeps it.
 */
#include "conform.h"

#include <string.h>

#define TTL_MS 30000
#define BRIEF_MS 600 /* a lifetime that is waited out */
#define STALL_MS 60
#define FEED_MS 1000 /* a busy machine may stop the feeding thread for a part of it */
#define TRIES 100    /* of a machine that stops the renewal thread for nearly a lifetime */

static tl_lock *watched(conform *c, tl_client *client, lock_events *events, int64_t ttl_ms,
                        int64_t stall_ms) {
    return conform_lock_with(c, client,
                             TL_LOCK_OPTIONS(.ttl_ms = ttl_ms, .stall_ms = stall_ms,
                                             .on_event = lock_events_add, .ctx = events));
}

static tl_stats stats_of(tl_client *client) {
    tl_stats s = {.size = sizeof s};
    ASSERT_RESULT(tl_client_stats(client, &s, &said), TL_OK);
    return s;
}

/* Hold until it is lost. False: the renewal thread came too late to notice the stall before the deadline. */
static bool is_lost_as_stalled(tl_lock *lock, lock_events *events) {
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    int before = lock_events_count_of(events, TL_LOST);
    lock_event risk = {0}, lost;
    WAIT_FOR(SOON_MS, lock_events_count_of(events, TL_LOST) > before);
    assert_int_equal(tl_lock_remaining_ms(lock), 0);
    assert_int_equal(tl_lock_state(lock), TL_LOST);
    bool noticed = lock_events_find(events, 0, TL_AT_RISK, &risk) && risk.why == TL_RISK_STALLED;
    if (!noticed)
        return false;
    assert_true(lock_events_find(events, 0, TL_LOST, &lost));
    assert_int_equal(lost.why, TL_LOST_STALLED);
    assert_non_null(strstr(risk.detail, ": stalled: no sign of life for 60 ms"));
    assert_non_null(strstr(lost.detail, ": stalled: no sign of life for 60 ms"));
    return true;
}

CONFORM_OF(without_a_sign_of_life_it_is_lost_and_another_acquires_it, c, CONFORM_SHORT) {
    tl_client *client = conform_client(c);
    tl_lock *other = conform_lock(c, conform_client(c), TTL_MS);
    bool stalled = false;
    for (int i = 0; i < TRIES && !stalled; i++) {
        lock_events *events = make_events();
        tl_lock *lock = watched(c, client, events, BRIEF_MS, STALL_MS);
        stalled = is_lost_as_stalled(lock, events);
        ASSERT_RESULT(tl_lock_acquire(other, SOON_MS, &said), TL_OK);
        assert_int_not_equal(tl_lock_release(lock, &said), TL_OK);
        ASSERT_RESULT(tl_lock_release(other, &said), TL_OK);
        drop_lock(lock);
    }
    assert_true(stalled);
    assert_true(stats_of(client).lost[TL_LOST_STALLED] >= 1);
}

CONFORM_OF(fed_again_it_is_renewed_and_held, c, CONFORM_RENEWAL) {
    lock_events *events = make_events();
    tl_client *client = conform_client(c);
    tl_lock *lock = watched(c, client, events, LASTING_MS, FEED_MS);
    lock_event held;
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    lock_event risk = lock_events_await(events, TL_AT_RISK, SOON_MS);
    assert_int_equal(risk.why, TL_RISK_STALLED);
    uint64_t renewals = renewals_of(client);
    WAIT_FOR(SOON_MS, (tl_lock_alive(lock), lock_events_find(events, 1, TL_HELD, &held)));
    assert_true(renewals_of(client) > renewals);
    assert_int_equal(held.why, TL_NOT_LOST);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    assert_int_equal(lock_events_count_of(events, TL_LOST), 0);
}

CONFORM_OF(fed_it_is_renewed_for_longer_than_it_lasts, c, CONFORM_RENEWAL | CONFORM_RUNTIME) {
    lock_events *events = make_events();
    tl_lock *lock = watched(c, conform_client(c), events, LASTING_MS, LASTING_MS / 2);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    const clock_wait end = clock_wait_begin(LASTING_MS + 1000);
    while (clock_wait_more(&end))
        tl_lock_alive(lock);
    assert_true(tl_lock_remaining_ms(lock) > 0);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    assert_int_equal(lock_events_count_of(events, TL_LOST), 0);
}

CONFORM_OF(a_holder_that_calls_itself_stalled_is_at_risk, c, CONFORM_RENEWAL | CONFORM_RUNTIME) {
    lock_events *events = make_events();
    tl_lock *lock = watched(c, conform_client(c), events, LASTING_MS, TL_TTL_MAX_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    tl_lock_stall(lock);
    assert_int_equal(lock_events_await(events, TL_AT_RISK, SOON_MS).why, TL_RISK_STALLED);
    tl_lock_alive(lock);
    (void)lock_events_await(events, TL_HELD, SOON_MS);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

/* Of two locks that are renewed together only the one without signs is lost. */
CONFORM_OF(one_stalled_lock_costs_no_other_its_renewal, c, CONFORM_SHORT | CONFORM_RUNTIME) {
    tl_client *client = conform_client(c);
    lock_events *events = make_events(), *others = make_events();
    tl_lock *lock = watched(c, client, events, BRIEF_MS, STALL_MS);
    tl_lock *other = make_lock_with(
        client, "conform:fed",
        TL_LOCK_OPTIONS(.ttl_ms = LASTING_MS, .on_event = lock_events_add, .ctx = others));
    ASSERT_RESULT(tl_lock_acquire(other, SOON_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    (void)lock_events_await(events, TL_LOST, SOON_MS);
    ASSERT_GOES_ON(other);
    ASSERT_RESULT(tl_lock_release(other, &said), TL_OK);
    assert_int_equal(lock_events_count_of(others, TL_LOST), 0);
}

CONFORM_OF(without_a_watchdog_signs_of_life_have_no_effect, c, CONFORM_RUNTIME) {
    tl_lock *lock = conform_lock(c, conform_client(c), TTL_MS);
    tl_lock_alive(lock);
    tl_lock_stall(lock);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    tl_lock_stall(lock);
    tl_lock_alive(lock);
    assert_int_equal(tl_lock_state(lock), TL_HELD);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    tl_lock_stall(lock);
    tl_lock_alive(lock);
    assert_int_equal(tl_lock_state(lock), TL_FREE);
}

CONFORM(where_no_lock_is_renewed_a_watchdog_is_refused, c) {
    const tl_lock_options options = TL_LOCK_OPTIONS(.stall_ms = TTL_MS);
    tl_lock *lock = tl_lock_new(conform_client(c), c->key, strlen(c->key), &options, &said);
    assert_int_equal(lock == NULL, c->row->strict);
    if (!lock)
        ASSERT_SAID("stall: with strict a lock is not renewed");
    tl_lock_free(lock);
}

CONFORM_MAIN
