/*
 * Conformance: keeping a lock. What is said of its remaining time is never more than the truth, and
 * LOST is never said too late.
 */
#include "conform.h"

#define TTL_MS 30000
#define PATIENT_MS 60000 /* until the answer to a take comes within the 10 ms that it is good for */

static tl_lock *watched(conform *c, tl_client *client, lock_events *events,
                        tl_lock_options options) {
    options.on_event = lock_events_add;
    options.ctx = events;
    return conform_lock_with(c, client, options);
}

/* ---- renewal ----------------------------------------------------------------------------------- */

CONFORM_OF(renewal_keeps_a_lock_for_longer_than_it_lasts, c, CONFORM_RENEWAL) {
    enum { RENEWALS = 3 }; /* the last comes nearly when the lifetime that was asked for is over */
    lock_events *events = make_events();
    tl_client *client = conform_client(c);
    const int64_t ttl_ms = LASTING_MS;
    tl_lock *lock = watched(c, client, events, TL_LOCK_OPTIONS(.ttl_ms = ttl_ms));
    tl_lock *other = conform_lock(c, conform_client(c), TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    const int64_t began = clock_ms();
    while (renewals_of(client) < RENEWALS || clock_ms() - began <= ttl_ms) {
        assert_in_range(tl_lock_remaining_ms(lock), 1, ttl_ms);
        assert_true(clock_ms() - began < ttl_ms + SOON_MS);
        ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_EBUSY);
    }
    ASSERT_GOES_ON(lock);
    assert_int_equal(lock_events_count_of(events, TL_LOST), 0);
    /* One may be late on a busy machine, but not each. */
    assert_in_range(lock_events_count_of(events, TL_AT_RISK), 0, RENEWALS - 1);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

CONFORM_OF(renewal_ends_with_the_release, c, CONFORM_RUNTIME | CONFORM_SHORT) {
    lock_events *events = make_events();
    tl_client *client = conform_client(c);
    tl_lock *lock = watched(c, client, events, TL_LOCK_OPTIONS(.ttl_ms = TTL_MS));
    tl_lock *other = conform_lock_with(c, conform_client(c),
                                       TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .manual_renew = true));
    tl_stats s = {.size = sizeof s};
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    ASSERT_RESULT(tl_lock_acquire(other, SOON_MS, &said), TL_OK);
    const uint64_t before = renewals_of(client);
    const clock_wait end = clock_wait_begin(1200); /* the first renewal would have come */
    while (clock_wait_more(&end))
        assert_int_equal(tl_lock_state(lock), TL_FREE);
    ASSERT_RESULT(tl_client_stats(client, &s, &said), TL_OK);
    assert_int_equal(s.renewals, before);
    assert_int_equal(s.renewals_failed, 0);
    assert_int_equal(lock_events_count(events), 0);
}

CONFORM_OF(a_failed_renewal_is_a_risk_until_the_next_succeeds, c, CONFORM_RENEWAL) {
    proxy *p = conform_proxy(c);
    lock_events *events = make_events();
    tl_client *client = conform_client_with(c, TL_CLIENT_OPTIONS(.url = proxy_url(p)));
    tl_lock *lock = watched(c, client, events, TL_LOCK_OPTIONS(.ttl_ms = LASTING_MS));
    lock_event risk, again;
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    proxy_break(p, PROXY_REPLIES, 0, PROXY_RESET, PROXY_ALL);
    risk = lock_events_await(events, TL_AT_RISK, SOON_MS);
    proxy_heal(p);
    assert_in_range(risk.remaining_ms, 1, LASTING_MS);
    WAIT_FOR(SOON_MS, lock_events_find(events, 1, TL_HELD, &again));
    assert_int_equal(again.why, TL_NOT_LOST);
    ASSERT_GOES_ON(lock);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    assert_int_equal(lock_events_count_of(events, TL_AT_RISK),
                     lock_events_count_of(events, TL_HELD));
    assert_int_equal(lock_events_count_of(events, TL_LOST), 0);
}

/* One risk and one end of it after the other, whoever ended it. */
static void assert_alternate(lock_events *e) {
    for (int i = 0; i < lock_events_count(e); i++)
        assert_int_equal(e->event[i].state, i % 2 == 0 ? TL_AT_RISK : TL_HELD);
}

/* Renewals are refused while the sidecar isn't one; what is back then is mended by hand. */
CONFORM_OF(an_extension_that_ends_a_risk_is_told_as_a_renewal_is, c,
           CONFORM_RENEWAL | CONFORM_FENCE | CONFORM_RUNTIME) {
    lock_events *events = make_events();
    tl_lock *lock = watched(c, conform_client(c), events, TL_LOCK_OPTIONS(.ttl_ms = LASTING_MS));
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    conform_spoil(c);
    (void)lock_events_await(events, TL_AT_RISK, SOON_MS);
    conform_heal(c);
    ASSERT_RESULT(tl_lock_extend(lock, TL_TTL_MAX_MS, &said), TL_OK);
    assert_int_equal(tl_lock_state(lock), TL_HELD);
    WAIT_FOR(SOON_MS, lock_events_count_of(events, TL_HELD) == 1);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    assert_int_equal(lock_events_count(events), 2);
    assert_alternate(events);
}

/* ---- losing it --------------------------------------------------------------------------------- */

/* Hold until it is lost; returns by how many microseconds LOST was said after the deadline. */
static int64_t lateness(conform *c, tl_client *client, tl_lock_options options) {
    lock_events *events = make_events();
    tl_lock *lock = watched(c, client, events, options);
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    int64_t left = tl_lock_remaining_ms(lock);
    int64_t deadline_us = clock_us() + (left + 1) * 1000;
    lock_event lost = lock_events_await(events, TL_LOST, left + SOON_MS);
    assert_int_equal(lost.why, TL_LOST_EXPIRED);
    assert_int_equal(tl_lock_state(lock), TL_LOST);
    assert_int_equal(tl_lock_remaining_ms(lock), 0);
    assert_int_equal(lock_events_count(events), 1);
    (void)tl_lock_release(lock, &said);
    return lost.at_us - deadline_us;
}

CONFORM_OF(lost_is_said_no_later_than_the_deadline, c, CONFORM_SHORT) {
    tl_client *client = conform_client(c);
    int64_t least = INT64_MAX;
    for (int i = 0; i < 200 && least > 0;
         i++) { /* this machine may be late at times, but not always */
        int64_t late = lateness(c, client, TL_LOCK_OPTIONS(.ttl_ms = 300, .manual_renew = true));
        assert_true(late < SLACK_MS * 1000);
        least = late < least ? late : least;
    }
    assert_true(least <= 0);
}

CONFORM_OF(the_state_is_lost_from_the_deadline_on, c, CONFORM_EXPIRY) {
    tl_lock *lock = conform_lock_with(c, conform_client(c),
                                      TL_LOCK_OPTIONS(.ttl_ms = 300, .manual_renew = true));
    tl_lock *other = conform_lock(c, conform_client(c), TTL_MS);
    for (int i = 0; i < 3; i++) {
        ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
        acquiring *next = acquiring_begin(other, TL_FOREVER);
        const clock_wait bound = clock_wait_begin(SOON_MS);
        while (tl_lock_remaining_ms(lock) > 0 && clock_wait_more(&bound))
            assert_false(atomic_load(&next->done) && tl_lock_remaining_ms(lock) > 0);
        int64_t none = clock_ms(); /* rounded down to a millisecond */
        WAIT_FOR(SOON_MS, clock_ms() > none + 1);
        assert_int_equal(tl_lock_state(lock), TL_LOST);
        ASSERT_RESULT(acquiring_end(next, SOON_MS), TL_OK);
        ASSERT_RESULT(tl_lock_release(other, &said), TL_OK);
    }
}

static atomic_bool keeper_is_held_up, keeper_may_go_on;

static void hold_the_keeper_up(tl_lock *lock, const tl_lock_event *event, void *ctx) {
    const clock_wait bound = clock_wait_begin(SOON_MS);
    (void)lock, (void)event, (void)ctx;
    atomic_store(&keeper_is_held_up, true);
    while (!atomic_load(&keeper_may_go_on) && clock_wait_more(&bound)) {}
}

CONFORM_OF(the_state_is_lost_in_time_even_when_a_callback_blocks, c, CONFORM_SHORT) {
    tl_client *client = conform_client(c);
    tl_lock *lock = conform_lock(c, client, 1000);
    tl_lock *other = make_lock_with(
        client, "conform:blocks",
        TL_LOCK_OPTIONS(.ttl_ms = 300, .manual_renew = true, .on_event = hold_the_keeper_up));
    atomic_store(&keeper_is_held_up, false);
    atomic_store(&keeper_may_go_on, false);
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_acquire(other, SOON_MS, &said), TL_OK);
    WAIT_FOR(SOON_MS, atomic_load(&keeper_is_held_up));
    int64_t left = tl_lock_remaining_ms(
        lock); /* first: no stall between the two makes it too soon */
    int64_t last = clock_ms() + left;
    WAIT_FOR(SOON_MS, clock_ms() > last + 1);
    tl_state then = tl_lock_state(lock);
    int64_t remaining = tl_lock_remaining_ms(lock);
    atomic_store(&keeper_may_go_on, true);
    assert_int_equal(then, TL_LOST);
    assert_int_equal(remaining, 0);
}

CONFORM_OF(a_definite_answer_is_lost_at_once, c, CONFORM_SHORT) {
    static const struct {
        const char *command;
        tl_lost_why why;
    } cases[] = {
        {"DEL %s", TL_LOST_GONE},
        {"SET %s foreign", TL_LOST_TAKEN},
        {"SET %s foreign PX 60000", TL_LOST_TAKEN},
    };
    tl_client *client = conform_client(c);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lock_events *events = make_events();
        tl_lock *lock = watched(c, client, events, TL_LOCK_OPTIONS(.ttl_ms = LASTING_MS));
        ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
        conform_do(c, cases[i].command, c->key);
        lock_event lost = lock_events_await(events, TL_LOST, SOON_MS);
        assert_int_equal(lost.why, cases[i].why);
        assert_int_equal(tl_lock_state(lock), TL_LOST);
        (void)tl_lock_release(lock, &said);
        conform_do(c, "DEL %s", c->key);
    }
}

CONFORM_OF(a_hold_ends_by_its_longest_time, c, CONFORM_EXPIRY) {
    const int64_t ttl_ms = LASTING_MS, max_ms = ttl_ms + 100;
    lock_events *events = make_events();
    tl_lock *lock = watched(c, conform_client(c), events,
                            TL_LOCK_OPTIONS(.ttl_ms = ttl_ms, .max_hold_ms = max_ms));
    tl_lock *other = conform_lock(c, conform_client(c), TTL_MS);
    int64_t began = clock_ms();
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    lock_event lost = lock_events_await(events, TL_LOST, max_ms + SOON_MS);
    assert_in_range(lost.at_us / 1000 - began, ttl_ms, max_ms + SLACK_MS);
    assert_int_equal(lost.why, TL_LOST_MAX_HOLD);
    assert_int_equal(tl_lock_state(lock), TL_LOST);
    ASSERT_RESULT(tl_lock_acquire(other, SOON_MS, &said), TL_OK);
    ASSERT_TOOK(began, ttl_ms, max_ms + ttl_ms);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_ETAKEN);
    assert_int_equal(tl_lock_state(other), TL_HELD);
}

/* A holder that counts on what remains must not work longer than it may hold the lock; and it must not wait for its own key. */
CONFORM_OF(what_remains_is_no_more_than_the_longest_hold_leaves, c, CONFORM_EXPIRY) {
    const int64_t max_ms = 300;
    lock_events *events = make_events();
    tl_lock *lock = watched(c, conform_client(c), events,
                            TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .max_hold_ms = max_ms));
    for (int i = 0; i < 2; i++) {
        ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
        assert_in_range(tl_lock_remaining_ms(lock), 0, max_ms);
        (void)tl_lock_extend(lock, TTL_MS, &said);
        assert_in_range(tl_lock_remaining_ms(lock), 0, max_ms);
        WAIT_FOR(SOON_MS, lock_events_count_of(events, TL_LOST) > i);
        assert_int_equal(tl_lock_remaining_ms(lock), 0);
        assert_int_equal(tl_lock_state(lock), TL_LOST);
    }
}

/* ---- what remains ------------------------------------------------------------------------------ */

CONFORM_OF(remaining_is_never_more_than_the_servers_own, c, CONFORM_EXPIRY) {
    static const int64_t ttls[] = {10, 15, 60, 300, 5000, 30000, 86400000};
    tl_client *client = conform_client(c);
    size_t least = 0;
    for (int round = 0; round < 20; round++) {
        for (size_t i = least; i < sizeof ttls / sizeof *ttls; i++) {
            tl_lock *lock = conform_lock_with(
                c, client, TL_LOCK_OPTIONS(.ttl_ms = ttls[i], .manual_renew = true));
            tl_err code = tl_lock_acquire(lock, PATIENT_MS, &said);
            if (code == TL_EUNAVAILABLE && ttls[i] < 1000) {
                ASSERT_SAID("the confirmation came too late"); /* each time, on a slow machine */
                drop_lock(lock);
                least = i + 1;
                continue;
            }
            ASSERT_RESULT(code, TL_OK);
            int64_t since = clock_ms();
            int64_t first = tl_lock_remaining_ms(lock);
            long long pttl = conform_int(c, "PTTL %s", c->key);
            int64_t passed = clock_ms() - since;
            int64_t then = tl_lock_remaining_ms(lock);
            assert_true(first <= ttls[i]);
            assert_true(then <= (pttl > 0 ? pttl : 0));
            assert_true(first <= (pttl > 0 ? pttl : 0) + passed + 1);
            assert_true(then > 0 || ttls[i] < 10000);
            (void)tl_lock_release(lock, &said);
            drop_lock(lock);
        }
    }
}

CONFORM_OF(remaining_only_falls_between_renewals, c, CONFORM_SHORT) {
    tl_lock *lock = conform_lock_with(c, conform_client(c),
                                      TL_LOCK_OPTIONS(.ttl_ms = 500, .manual_renew = true));
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    int64_t last = 500, now;
    const clock_wait bound = clock_wait_begin(SOON_MS);
    while ((now = tl_lock_remaining_ms(lock)) > 0 && clock_wait_more(&bound)) {
        assert_true(now <= last);
        last = now;
    }
    assert_int_equal(tl_lock_remaining_ms(lock), 0);
}

CONFORM_MAIN
