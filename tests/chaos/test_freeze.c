/*
 * Faults: the server stops for a while, as a process that is suspended, and goes on as if nothing
 * had happened.
 */

/*
 * Faults and outcomes (tests/README.md says what is asserted of each):
 * - server stopped (SIGSTOP), also for longer than the lifetime: UNCERTAIN, LOST before the deadline; counted.
 * - server slow (`DEBUG SLEEP`): the call takes that long, nothing else changes.
 */
#include "arena.h"
#include "contest.h"

static int thaw(void **state) {
    contest_abandon();
    real_redis_thaw(server);
    return arena_tear_down(state);
}

TESTS_WITH(arena_set_up, thaw);

static tl_lock *held(tl_client *client, const char *key) {
    tl_lock *lock = make_lock_with(client, key,
                                   TL_LOCK_OPTIONS(.ttl_ms = AGES_MS, .manual_renew = true));
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    return lock;
}

/* ---- limits ------------------------------------------------------------------------------------ */

/* The result of an acquire from a server that stops when the client has just heard from it. */
static tl_err acquire_when_stopped(tl_client *client, const char *key, int64_t wait_ms) {
    tl_lock *lock = make_lock(client, key, TTL_MS);
    const int64_t least_ms = wait_ms > 0 ? wait_ms : ATTEMPT_MS;
    tl_err code;
    bool idle;
    do {
        int64_t heard = clock_ms();
        (void)connected(client);
        real_redis_freeze(server);
        int64_t began = clock_ms();
        code = tl_lock_acquire(lock, wait_ms, &said);
        idle = WAS_IDLE(heard, least_ms);
        ASSERT_TOOK(began, least_ms, least_ms);
        real_redis_thaw(server);
    } while (code != TL_EUNCERTAIN && idle);
    return code;
}

TEST(acquires_from_a_stopped_server_end_at_their_limits) {
    ASSERT_RESULT(acquire_when_stopped(hasty_client_direct(), "chaos:once", 0), TL_EUNCERTAIN);
    ASSERT_RESULT(acquire_when_stopped(hasty_client_direct(), "chaos:wait", 800), TL_EUNCERTAIN);
    WAIT_FOR(SOON_MS, real_redis_int(server, "EXISTS chaos:once") == 0);
    WAIT_FOR(SOON_MS, real_redis_int(server, "EXISTS chaos:wait") == 0);
}

/* Each call with a client of its own, whose one connection is open. */
TEST(calls_to_a_stopped_server_end_at_their_limits) {
    tl_client *client[3];
    for (int i = 0; i < 3; i++)
        client[i] = connected(hasty_client_direct());
    tl_lock *extend = held(client[0], "chaos:extend"), *release = held(client[1], "chaos:release");
    real_redis_freeze(server);
    int64_t began = clock_ms();
    ASSERT_RESULT(tl_lock_extend(extend, TTL_MS, &said), TL_EUNCERTAIN);
    ASSERT_TOOK(began, ATTEMPT_MS, ATTEMPT_MS);
    began = clock_ms();
    ASSERT_RESULT(tl_lock_release(release, &said), TL_EUNCERTAIN);
    ASSERT_TOOK(began, ATTEMPT_MS, ATTEMPT_MS);
    began = clock_ms();
    ASSERT_RESULT(tl_client_ping(client[2], &said), TL_EUNAVAILABLE);
    ASSERT_TOOK(began, ATTEMPT_MS, CONNECT_MS + ATTEMPT_MS);
    began = clock_ms();
    ASSERT_RESULT(tl_client_ping(hasty_client_direct(), &said), TL_EUNAVAILABLE);
    ASSERT_SAID("no reply to the login");
    ASSERT_TOOK(began, CONNECT_MS, CONNECT_MS + ATTEMPT_MS);
    assert_int_equal(tl_lock_state(extend), TL_HELD);
    real_redis_thaw(server);
    WAIT_FOR(SOON_MS, real_redis_int(server, "EXISTS chaos:release") == 0);
    release_hastily(extend, "chaos:extend");
}

TEST(closing_a_client_of_a_stopped_server_ends_in_time) {
    tl_client *client = hasty_client_direct();
    tl_lock *lock = by_hand(client, TTL_MS);
    for (;;) {
        int64_t heard = clock_ms();
        (void)connected(client);
        real_redis_freeze(server);
        tl_err code = tl_lock_acquire(lock, 0, &said);
        if (code == TL_EUNCERTAIN || !WAS_IDLE(heard, ATTEMPT_MS)) {
            ASSERT_RESULT(code, TL_EUNCERTAIN);
            break;
        }
        real_redis_thaw(server);
    }
    drop_lock(lock);
    int64_t began = clock_ms();
    drop_client(client);
    ASSERT_TOOK(began, 0, ATTEMPT_MS);
}

/* ---- longer than a lifetime -------------------------------------------------------------------- */

TEST(a_holder_is_told_before_its_deadline) {
    const int64_t ttl_ms = BRIEF_MS;
    lock_events *events = make_events();
    tl_lock *lock = make_lock_with(
        hasty_client_direct(), KEY,
        TL_LOCK_OPTIONS(.ttl_ms = ttl_ms, .on_event = lock_events_add, .ctx = events));
    tl_lock *next = by_hand(client_direct(), AGES_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    uint64_t fence = tl_lock_fence(lock);
    real_redis_freeze(server);
    int64_t deadline_us = clock_us() + (tl_lock_remaining_ms(lock) + 1) * 1000;
    assert_told_of_risk(events, ttl_ms);
    lock_event lost = lock_events_await(events, TL_LOST, SOON_MS);
    assert_int_equal(lost.why, TL_LOST_EXPIRED);
    assert_true(lost.at_us < deadline_us + SLACK_MS * 1000);
    assert_int_equal(tl_lock_state(lock), TL_LOST);
    real_redis_thaw(server); /* now it executes renewals that nobody waits for any more */
    ASSERT_RESULT(tl_lock_acquire(next, SOON_MS, &said), TL_OK);
    assert_true(tl_lock_fence(next) > fence);
    assert_int_equal(tl_lock_state(lock), TL_LOST);
    tl_err code = tl_lock_release(lock, &said); /* and may not hear the answer in time */
    if (code != TL_EUNCERTAIN)
        ASSERT_RESULT(code, TL_ETAKEN);
    ASSERT_RESULT(tl_lock_extend(next, TTL_MS, &said), TL_OK);
}

TEST(nobody_holds_twice_when_a_server_goes_on) {
    const int64_t ttl_ms = 350;
    tl_lock *locks[3];
    for (int i = 0; i < 3; i++)
        locks[i] = make_lock(hasty_client_direct(), KEY, ttl_ms);
    contest_start(locks, 3, 500, 10);
    for (int i = 0; i < 3; i++) {
        int counted = contest_counted();
        WAIT_FOR(2 * SOON_MS, contest_counted() > counted + 5 && contest_held());
        real_redis_freeze(server);
        const clock_wait longer = clock_wait_begin(ttl_ms + 50);
        while (clock_wait_more(&longer)) {}
        WAIT_FOR(SOON_MS, !contest_held());
        real_redis_thaw(server);
    }
    int counted = contest_counted();
    WAIT_FOR(2 * SOON_MS, contest_counted() > counted + 5);
    contest_end();
}

TEST(a_waiter_goes_on_waiting) {
    tl_lock *holder = by_hand(client_direct(), AGES_MS);
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    forget_executed();
    acquiring *waiter = acquiring_begin(by_hand(hasty_client_direct(), AGES_MS), TL_FOREVER);
    WAIT_FOR(SOON_MS, has_executed("subscribe", 1));
    real_redis_freeze(server);
    const clock_wait stopped = clock_wait_begin(ATTEMPT_MS + CONNECT_MS);
    while (clock_wait_more(&stopped))
        assert_false(atomic_load(&waiter->done));
    real_redis_thaw(server);
    ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(waiter, 2 * SOON_MS), TL_OK);
}

/* ---- a moment ---------------------------------------------------------------------------------- */

TEST(a_slow_server_costs_time_and_nothing_else) {
    lock_events *events = make_events();
    tl_client *client = make_client_with(TL_CLIENT_OPTIONS(.url = real_redis_url(server)));
    tl_lock *lock = make_lock_with(
        client, KEY, TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .on_event = lock_events_add, .ctx = events));
    redisContext *slow = real_redis_connect(server);
    tl_err codes[3] = {TL_OK, TL_OK, TL_OK};
    ASSERT_RESULT(tl_client_ping(client, &said), TL_OK);
    for (int i = 0; i < 3; i++) {
        int64_t began = clock_ms();
        int done = 0;
        (void)redisAppendCommand(slow, "DEBUG SLEEP 0.1");
        while (!done && redisBufferWrite(slow, &done) == REDIS_OK) {}
        codes[i] = i == 0   ? tl_lock_acquire(lock, 0, &said)
                   : i == 1 ? tl_lock_extend(lock, TTL_MS, &said)
                            : tl_lock_release(lock, &said);
        ASSERT_TOOK(began, 0, 100);
    }
    redisFree(slow);
    for (int i = 0; i < 3; i++)
        ASSERT_RESULT(codes[i], TL_OK);
    assert_int_equal(lock_events_count(events), 0);
}

int main(void) {
    server = real_redis_start(&(real_redis_options){.debug = true});
    return tests_run();
}
