/*
 * Faults: connections are killed and scripts forgotten while the server itself goes on.
 */

/*
 * Faults and outcomes (tests/README.md says what is asserted of each):
 * - `CLIENT KILL` of all connections, of each one, of the subscriber's: a short delay; counted.
 * - `SCRIPT FLUSH` between any two calls, while waiting, in a loop under load: no effect; counted.
 * - `FLUSHALL`: LOST, "gone"; the next fence is larger.
 */
#include "arena.h"
#include "contest.h"

/* All but the one that asks. */
static void kill_connections(const char *kind) {
    freeReplyObject(real_redis_command(server, "CLIENT KILL TYPE %s SKIPME yes", kind));
}

static void forget_scripts(void) {
    freeReplyObject(real_redis_command(server, "SCRIPT FLUSH"));
}

static int end_contest(void **state) {
    contest_abandon();
    return arena_tear_down(state);
}

TESTS_WITH(arena_set_up, end_contest);

#define FLUSHES 3 /* while a lock is held */

/* ---- killed connections ------------------------------------------------------------------------ */

TEST(calls_survive_killed_connections) {
    tl_lock *lock = by_hand(client_direct(), AGES_MS);
    for (int i = 0; i < 10; i++) {
        ASSERT_RESULT(tl_lock_acquire(lock, i % 2 ? SOON_MS : 0, &said), TL_OK);
        kill_connections("normal");
        ASSERT_RESULT(tl_lock_extend(lock, TTL_MS, &said), TL_OK);
        assert_belief_is_true(lock);
        kill_connections("normal");
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
        assert_false(key_exists());
        kill_connections("normal");
    }
}

TEST(a_holder_keeps_its_lock_when_its_connections_are_killed) {
    tl_lock *lock = make_lock(client_direct(), KEY, KEPT_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    for (int i = 1; i <= 3; i++) {
        forget_executed();
        WAIT_FOR(SOON_MS, has_executed("evalsha", 1)); /* renewed */
        kill_connections("normal");
        assert_true(tl_lock_remaining_ms(lock) > 0);
    }
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

/* The ids of all but the one that asks. */
static int connections(long long *ids, int room) {
    redisReply *list = real_redis_command(server, "CLIENT LIST");
    long long own = real_redis_int(server, "CLIENT ID");
    int n = 0;
    for (const char *at = list ? list->str : NULL; at && n < room; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strncmp(at, "id=", 3) == 0 && atoll(at + 3) != own)
            ids[n++] = atoll(at + 3);
    }
    freeReplyObject(list);
    return n;
}

/* Each by itself: the caller's, the one that renews, the one that listens. */
TEST(any_one_connection_may_be_killed) {
    NEEDS_SERVER(REAL_CONNECTION_ID);
    lock_events *events = make_events();
    tl_client *client = client_direct();
    tl_lock *holder = make_lock_with(
        client, KEY,
        TL_LOCK_OPTIONS(.ttl_ms = KEPT_MS, .on_event = lock_events_add, .ctx = events));
    tl_lock *other = by_hand(client_direct(), AGES_MS), *lock = make_lock(client, "other", TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    tl_lock *there = make_lock(client_direct(), "other", TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(there, 0, &said), TL_OK);
    acquiring *waiter = acquiring_begin(lock, TL_FOREVER);
    long long ids[16];
    int n = 0;
    WAIT_FOR(SOON_MS, has_executed("subscribe", 1) && (n = connections(ids, 16)) >= 4);
    for (int i = 0; i < n; i++) {
        (void)real_redis_int(server, "CLIENT KILL ID %lld", ids[i]);
        forget_executed();
        WAIT_FOR(SOON_MS, has_executed("evalsha", 2));
        assert_true(tl_lock_remaining_ms(holder) > 0);
        assert_false(atomic_load(&waiter->done));
        ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_EBUSY);
    }
    ASSERT_RESULT(tl_lock_release(there, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_OK);
    ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
    lock_event lost;
    assert_false(lock_events_find(events, 0, TL_LOST, &lost));
}

TEST(a_waiter_hears_of_the_release_after_its_connections_were_killed) {
    NEEDS_SERVER(REAL_LINE);
    static const char *const kinds[] = {"pubsub", "normal"};
    tl_lock *holder = by_hand(client_direct(), AGES_MS), *lock = by_hand(client_direct(), AGES_MS);
    for (int i = 0; i < 4; i++) {
        ASSERT_RESULT(tl_lock_acquire(holder, SOON_MS, &said), TL_OK);
        stand_gone();
        forget_executed();
        acquiring *waiter = acquiring_begin(lock, TL_FOREVER);
        WAIT_FOR(SOON_MS, has_executed("zadd", 1)); /* it listens, and stands in line */
        forget_executed();
        kill_connections("pubsub");
        kill_connections(kinds[i % 2]);
        WAIT_FOR(SOON_MS, has_executed("subscribe", 1)); /* it listens again */
        ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
        ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_OK); /* it would look much later */
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    }
}

TEST(nobody_holds_twice_while_connections_are_killed) {
    tl_lock *locks[4];
    tl_client *shared = hasty_client_direct();
    for (int i = 0; i < 4; i++)
        locks[i] = make_lock(i % 2 ? shared : hasty_client_direct(), KEY, 2000);
    contest_start(locks, 4, 3000, 1);
    for (int i = 0; i < 30; i++) {
        int counted = contest_counted();
        WAIT_FOR(2 * SOON_MS, contest_counted() > counted + 3);
        kill_connections(i % 3 ? "normal" : "pubsub");
    }
    contest_end();
}

TEST(nobody_holds_twice_while_connections_are_reset) {
    tl_lock *locks[4];
    tl_client *shared = hasty_client_at(proxy_url(gate));
    for (int i = 0; i < 4; i++)
        locks[i] = make_lock(i % 2 ? shared : hasty_client_at(proxy_url(gate)), KEY, 2000);
    contest_start(locks, 4, 3000, 1);
    for (int i = 0; i < 30; i++) {
        int counted = contest_counted();
        proxy_break(gate, i % 2 ? PROXY_REPLIES : PROXY_REQUESTS, (size_t)i * 7 % 100, PROXY_RESET,
                    1 + i % 3);
        WAIT_FOR(2 * SOON_MS, contest_counted() > counted + 3);
    }
    proxy_heal(gate);
    contest_end();
}

/* ---- forgotten scripts ------------------------------------------------------------------------- */

TEST(scripts_may_be_forgotten_between_any_two_calls) {
    tl_client *client = client_direct();
    tl_lock *lock = by_hand(client, TTL_MS);
    tl_lock_info info = {.size = sizeof info};
    for (int i = 0; i < 10; i++) {
        forget_scripts();
        ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
        forget_scripts();
        ASSERT_RESULT(tl_lock_extend(lock, TTL_MS, &said), TL_OK);
        forget_scripts();
        ASSERT_RESULT(tl_client_look(client, KEY, strlen(KEY), &info, &said), TL_OK);
        assert_true(info.held);
        forget_scripts();
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    }
}

TEST(scripts_may_be_forgotten_while_holding_and_waiting) {
    lock_events *events = make_events();
    tl_lock *holder = make_lock_with(
        client_direct(), KEY,
        TL_LOCK_OPTIONS(.ttl_ms = KEPT_MS, .on_event = lock_events_add, .ctx = events));
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    acquiring *waiter = acquiring_begin(by_hand(client_direct(), AGES_MS), TL_FOREVER);
    for (int i = 0; i < FLUSHES; i++) {
        forget_scripts();
        forget_executed();
        WAIT_FOR(SOON_MS, has_executed("eval", 1)); /* renewed, by the script's text */
        ASSERT_GOES_ON(holder);
        assert_false(atomic_load(&waiter->done));
    }
    assert_in_range(lock_events_count_of(events, TL_AT_RISK), 0, FLUSHES - 1); /* at a busy time */
    forget_scripts();
    ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_OK);
}

/* As fast as the server does it, so that many fall between a script's refusal and its text. */
TEST(nobody_holds_twice_while_scripts_are_forgotten) {
    tl_lock *locks[4];
    tl_client *shared = hasty_client_direct();
    for (int i = 0; i < 4; i++)
        locks[i] = make_lock(i % 2 ? shared : hasty_client_direct(), KEY, 2000);
    contest_start(locks, 4, 3000, 1);
    const int first = contest_counted();
    int counted = first;
    clock_wait limit = clock_wait_begin(2 * SOON_MS);
    bool enough = false; /* hand-offs within the process count too, and need no script */
    while (!enough && clock_wait_more(&limit)) {
        for (int k = 0; k < 10; k++)
            forget_scripts();
        enough = contest_counted() >= first + 100 && has_executed("eval", 10);
        if (contest_counted() > counted)
            limit = clock_wait_begin(2 * SOON_MS);
        counted = contest_counted();
    }
    assert_true(enough);
    contest_end();
}

/* ---- deleted data ------------------------------------------------------------------------------ */

TEST(deleting_everything_loses_the_lock_and_frees_it) {
    lock_events *events = make_events();
    tl_lock *lock = make_lock_with(
        client_direct(), KEY,
        TL_LOCK_OPTIONS(.ttl_ms = KEPT_MS, .on_event = lock_events_add, .ctx = events));
    tl_lock *next = by_hand(client_direct(), AGES_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    uint64_t fence = tl_lock_fence(lock);
    freeReplyObject(real_redis_command(server, "FLUSHALL"));
    assert_int_equal(lock_events_await(events, TL_LOST, SOON_MS).why, TL_LOST_GONE);
    ASSERT_RESULT(tl_lock_acquire(next, SOON_MS, &said), TL_OK);
    assert_true(tl_lock_fence(next) > fence);
}

int main(void) {
    real_server_need(REAL_SCAN);
    server = real_redis_start(NULL);
    return tests_run();
}
