/*
 * Faults: the server is killed, and comes back with or without its data, while some wait and others
 * hold.
 */

/*
 * Faults and outcomes (tests/README.md says what is asserted of each):
 * - server killed (kill -9) and restarted with its data: UNAVAILABLE "refused"; waiters and holders continue; counted.
 * - the same without its data: LOST, "gone"; counted with `quiet_ms`.
 */
#include <errno.h>

#include "arena.h"
#include "contest.h"

static real_redis *forgetful, *faithful; /* without and with a file that every write is put into */

static int with(real_redis *r, void **state) {
    server = r;
    if (real_redis_pid(server) < 0)
        real_redis_restart(server);
    return arena_set_up(state);
}

static int with_forgetful(void **state) {
    return with(forgetful, state);
}

static int with_faithful(void **state) {
    return with(faithful, state);
}

static tl_lock *watched(tl_client *client, lock_events *events, int64_t ttl_ms) {
    tl_lock *lock = make_lock_with(
        client, KEY, TL_LOCK_OPTIONS(.ttl_ms = ttl_ms, .on_event = lock_events_add, .ctx = events));
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    return lock;
}

static acquiring *a_waiter(tl_client *client, int64_t wait_ms) {
    tl_lock *lock = by_hand(client, AGES_MS);
    for (;;) {
        forget_executed();
        acquiring *waiter = acquiring_begin(lock, wait_ms);
        WAIT_FOR(SOON_MS, has_executed("subscribe", 1) || atomic_load(&waiter->done));
        if (!atomic_load(&waiter->done)) /* it knows that it must wait */
            return waiter;
        assert_true(wait_ms != TL_FOREVER); /* else it didn't come so far within its limit */
        assert_int_not_equal(acquiring_end(waiter, SOON_MS), TL_OK);
    }
}

#define COUNTED(name, with) TEST_WITH(name, with, end_contest)
#define FORGETFUL(name) TEST_WITH(name, with_forgetful, arena_tear_down)
#define FAITHFUL(name) TEST_WITH(name, with_faithful, arena_tear_down)

/* ---- the server is down ------------------------------------------------------------------------ */

/* The limit is far longer than what it takes to see that nobody is there. */
FORGETFUL(trying_once_where_nobody_listens_is_over_at_once) {
    tl_client *client = make_client_with(
        TL_CLIENT_OPTIONS(.url = real_redis_url(server), .connect_ms = 60000));
    tl_lock *lock = by_hand(client, AGES_MS);
    real_redis_kill(server);
    int64_t began = clock_ms();
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_EUNAVAILABLE);
    ASSERT_TOOK(began, 0, SOON_MS);
    ASSERT_SAID("refused");
    assert_int_equal(said.sys_errno, ECONNREFUSED);
}

FORGETFUL(a_server_that_is_down_is_unavailable_in_time) {
    tl_client *client = hasty_client_direct();
    tl_lock *lock = by_hand(client, AGES_MS);
    real_redis_kill(server);
    int64_t began = clock_ms();
    ASSERT_RESULT(tl_client_ping(client, &said), TL_EUNAVAILABLE);
    ASSERT_SAID("refused");
    assert_int_equal(said.sys_errno, ECONNREFUSED);
    ASSERT_TOOK(began, 0, CONNECT_MS + ATTEMPT_MS);
    began = clock_ms();
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_EUNAVAILABLE);
    ASSERT_SAID("refused");
    ASSERT_TOOK(began, 0, CONNECT_MS);
    began = clock_ms();
    ASSERT_RESULT(tl_lock_acquire(lock, TL_FOREVER, &said), TL_EUNAVAILABLE);
    ASSERT_TOOK(began, 0, CONNECT_MS);
    began = clock_ms();
    ASSERT_RESULT(tl_lock_acquire(lock, 500, &said), TL_EUNAVAILABLE);
    ASSERT_TOOK(began, 500, 500);
}

FORGETFUL(a_wait_begun_while_the_server_is_down_gets_the_lock) {
    tl_client *client = hasty_client_direct();
    real_redis_kill(server);
    acquiring *waiter = acquiring_begin(by_hand(client, AGES_MS), 60000);
    const clock_wait a_moment = clock_wait_begin(200);
    while (clock_wait_more(&a_moment))
        assert_false(atomic_load(&waiter->done));
    real_redis_restart(server);
    ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_OK);
}

FORGETFUL(a_holder_is_told_before_its_deadline) {
    lock_events *events = make_events();
    tl_lock *lock = watched(hasty_client_direct(), events, BRIEF_MS);
    int64_t deadline_us = clock_us() + (tl_lock_remaining_ms(lock) + 1) * 1000;
    real_redis_kill(server);
    assert_told_of_risk(events, BRIEF_MS);
    lock_event lost = lock_events_await(events, TL_LOST, SOON_MS);
    assert_int_equal(lost.why, TL_LOST_EXPIRED);
    assert_true(lost.at_us < deadline_us + SLACK_MS * 1000);
    assert_int_equal(tl_lock_state(lock), TL_LOST);
    int64_t began = clock_ms();
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_EUNAVAILABLE);
    ASSERT_TOOK(began, 0, ATTEMPT_MS);
    ASSERT_RESULT(tl_lock_extend(lock, AGES_MS, &said), TL_EINVALID);
}

FAITHFUL(a_release_while_the_server_is_down_is_done_when_it_is_back) {
    tl_lock *lock = by_hand(hasty_client_direct(), AGES_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    real_redis_kill(server);
    int64_t began = clock_ms();
    tl_err code = tl_lock_release(lock, &said);
    assert_true(code == TL_EUNAVAILABLE || code == TL_EUNCERTAIN);
    ASSERT_TOOK(began, ATTEMPT_MS, ATTEMPT_MS);
    real_redis_restart(server);
    assert_free_soon();
    assert_false(key_exists());
}

/* ---- it comes back ----------------------------------------------------------------------------- */

FAITHFUL(a_lock_survives_a_restart_that_keeps_the_data) {
    lock_events *events = make_events();
    tl_lock *lock = watched(client_direct(), events, SAFE_MS);
    tl_lock *other = by_hand(client_direct(), AGES_MS);
    uint64_t fence = tl_lock_fence(lock);
    real_redis_restart(server);
    assert_true(key_exists());
    ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_EBUSY);
    ASSERT_RESULT(tl_lock_extend(lock, 10 * BRIEF_MS, &said), TL_OK);
    assert_belief_is_true(lock);
    forget_executed();
    WAIT_FOR(SOON_MS, has_executed("evalsha", 1)); /* the keeper, on a new connection */
    ASSERT_GOES_ON(lock);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_OK);
    assert_true(tl_lock_fence(other) > fence);
}

FORGETFUL(a_lock_lost_by_a_restart_is_found_out) {
    lock_events *events = make_events();
    tl_lock *lock = watched(client_direct(), events, SAFE_MS);
    tl_lock *next = by_hand(client_direct(), AGES_MS);
    uint64_t fence = tl_lock_fence(lock);
    real_redis_restart(server);
    lock_event lost = lock_events_await(events, TL_LOST, SOON_MS);
    assert_int_equal(lost.why, TL_LOST_GONE);
    assert_int_equal(tl_lock_state(lock), TL_LOST);
    ASSERT_RESULT(tl_lock_acquire(next, SOON_MS, &said), TL_OK);
    assert_true(tl_lock_fence(next) > fence);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_ETAKEN);
    ASSERT_RESULT(tl_lock_release(next, &said), TL_OK);
}

FAITHFUL(a_waiter_waits_through_a_restart_that_keeps_the_data) {
    tl_lock *holder = by_hand(client_direct(), AGES_MS);
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    acquiring *waiter = a_waiter(client_direct(), TL_FOREVER);
    real_redis_restart(server);
    WAIT_FOR(SOON_MS, has_executed("subscribe", 1)); /* it is back, and listens again */
    assert_false(atomic_load(&waiter->done));
    ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
    int64_t began = clock_ms();
    ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_OK);
    ASSERT_TOOK(began, 0, 1000);
}

FORGETFUL(a_waiter_gets_what_a_restart_has_freed) {
    tl_lock *holder = by_hand(client_direct(), AGES_MS);
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    acquiring *waiter = a_waiter(client_direct(), TL_FOREVER);
    real_redis_restart(server);
    ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_OK);
    (void)tl_lock_release(holder, &said); /* it knows nothing of the restart */
    ASSERT_RESULT(tl_lock_extend(waiter->lock, AGES_MS, &said), TL_OK);
}

FAITHFUL(a_wait_through_an_outage_ends_at_its_limit) {
    tl_lock *holder = by_hand(hasty_client_direct(), AGES_MS);
    ASSERT_RESULT(tl_lock_acquire(holder, SOON_MS, &said), TL_OK);
    acquiring *waiter = a_waiter(hasty_client_direct(), 700);
    real_redis_kill(server);
    const int64_t killed_us = clock_us();
    tl_err code = acquiring_end(waiter, SOON_MS);
    if (waiter->ended_us <= killed_us) /* a busy machine was too late with the outage */
        assert_true(code == TL_ETIMEDOUT || code == TL_EUNAVAILABLE || code == TL_EUNCERTAIN);
    else
        assert_true(code == TL_EUNAVAILABLE || code == TL_EUNCERTAIN);
    ASSERT_WAITED(waiter, 700, 700);
}

/* On a busy machine so short a lifetime may be over by now. */
static void release_in_time_or_not(tl_lock *lock) {
    tl_err code = tl_lock_release(lock, &said);
    if (code != TL_EEXPIRED)
        ASSERT_RESULT(code, TL_OK);
}

/* Nor is anything believed that is there already: it may be older than what was lost. */
static void quiet_after_a_restart(void) {
    const int64_t quiet_ms = clock_patient_ms(1000);
    tl_client *client = make_client_with(TL_CLIENT_OPTIONS(.url = real_redis_url(server),
                                                           .attempt_ms = SOON_MS,
                                                           .quiet_ms = quiet_ms));
    tl_lock *lock = make_lock(client, KEY, quiet_ms);
    ASSERT_RESULT(tl_lock_acquire(lock, 2 * SOON_MS, &said), TL_OK);
    release_in_time_or_not(lock);
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK); /* it is known from now on */
    release_in_time_or_not(lock);
    int64_t restarted = clock_ms();
    real_redis_restart(server);
    tl_err code = tl_lock_acquire(lock, quiet_ms / 2, &said);
    assert_true(code != TL_OK || clock_ms() - restarted >= quiet_ms);
    if (code != TL_OK)
        ASSERT_RESULT(tl_lock_acquire(lock, 2 * SOON_MS, &said), TL_OK);
    ASSERT_TOOK(restarted, quiet_ms, quiet_ms + SOON_MS);
    assert_belief_is_true(lock);
    release_in_time_or_not(lock);
}

FORGETFUL(after_a_restart_nothing_is_granted_for_as_long_as_asked) {
    NEEDS_SERVER(REAL_RUN_ID);
    quiet_after_a_restart();
}

FAITHFUL(nor_after_one_that_seems_to_have_kept_the_data) {
    NEEDS_SERVER(REAL_RUN_ID);
    quiet_after_a_restart();
}

/* ---- the number that the lock protects --------------------------------------------------------- */

static int end_contest(void **state) {
    contest_abandon();
    return arena_tear_down(state);
}

static void count_over_restarts(tl_lock *const *locks, int restarts) {
    contest_start(locks, 3, 3000, 1);
    for (int i = 0; i <= restarts; i++) {
        int counted = contest_counted();
        WAIT_FOR(3 * SOON_MS, contest_counted() > counted + 5);
        if (i < restarts)
            real_redis_restart(server);
    }
    contest_end();
}

COUNTED(nobody_holds_twice_over_restarts_that_keep_the_data, with_faithful) {
    tl_lock *locks[3];
    tl_client *shared = hasty_client_direct();
    for (int i = 0; i < 3; i++)
        locks[i] = make_lock(i ? shared : hasty_client_direct(), KEY, 1000);
    count_over_restarts(locks, 4);
}

COUNTED(nobody_holds_twice_over_a_restart_that_loses_the_data, with_forgetful) {
    NEEDS_SERVER(REAL_RUN_ID);
    tl_lock *locks[3];
    for (int i = 0; i < 3; i++)
        locks[i] = make_lock(
            make_client_with(TL_CLIENT_OPTIONS(.url = real_redis_url(server), .attempt_ms = 1000,
                                               .quiet_ms = 500)),
            KEY, 500);
    count_over_restarts(locks, 1);
}

int main(void) {
    forgetful = real_redis_start(NULL);
    faithful = real_redis_start(&(real_redis_options){.persist = true});
    return tests_run();
}
