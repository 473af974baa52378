/*
 * A holder of a stamp learns at once when its key is taken, changed or deleted by somebody else, where
 * the server can tell (CLIENT TRACKING); and by its next renewal where it can't.
 */
#include <stdarg.h>

#include "arena.h"

#define LEGACY_TTL_MS 60000
#define AT_ONCE_MS 2000 /* far less than the third of a lifetime at which it would be renewed */

static tl_client *bridge(void) {
    return make_client_with(TL_CLIENT_OPTIONS(.url = real_redis_url(server), .protocol = TL_BRIDGE,
                                              .skew_max_ms = 300, .legacy_ttl_ms = LEGACY_TTL_MS));
}

static tl_lock *held(lock_events *events) {
    tl_lock *lock = make_lock_with(bridge(), KEY,
                                   TL_LOCK_OPTIONS(.on_event = lock_events_add, .ctx = events));
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    return lock;
}

static void ask(const char *format, ...) {
    char command[256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(command, sizeof command, format, args);
    va_end(args);
    freeReplyObject(real_redis_command(server, command));
}

/* How many keys the server remembers to tell of. */
static int64_t tracked(void) {
    static const char name[] = "tracking_total_keys:";
    redisReply *reply = real_redis_command(server, "INFO stats");
    const char *at = strstr(reply->str, name);
    int64_t n = at ? atoll(at + sizeof name - 1) : -1;
    freeReplyObject(reply);
    return n;
}

static void await_tracking(void) {
    WAIT_FOR(SOON_MS, tracked() == 1);
}

static int64_t server_ms(void) {
    redisReply *reply = real_redis_command(server, "TIME");
    int64_t ms = atoll(reply->element[0]->str) * 1000 + atoll(reply->element[1]->str) / 1000;
    freeReplyObject(reply);
    return ms;
}

static void test_a_robbery_is_told_at_once_with_the_robbers_clock(void **state) {
    (void)state;
    lock_events *events = make_events();
    (void)held(events);
    await_tracking();
    const int64_t ahead_ms = 5000;
    ask("GETSET " KEY " %lld", (long long)(server_ms() + ahead_ms + LEGACY_TTL_MS));
    lock_event lost = lock_events_await(events, TL_LOST, AT_ONCE_MS);
    assert_int_equal(lost.why, TL_LOST_TAKEN);
    assert_true(lost.robbed);
    assert_in_range(lost.robber_ms, ahead_ms - AT_ONCE_MS, ahead_ms);
}

static void test_a_deleted_key_is_told_at_once(void **state) {
    (void)state;
    lock_events *events = make_events();
    (void)held(events);
    await_tracking();
    ask("DEL " KEY);
    assert_int_equal(lock_events_await(events, TL_LOST, AT_ONCE_MS).why, TL_LOST_GONE);
}

static void test_a_flushed_server_is_told_at_once(void **state) {
    (void)state;
    lock_events *events = make_events();
    (void)held(events);
    await_tracking();
    ask("FLUSHALL");
    assert_int_equal(lock_events_await(events, TL_LOST, AT_ONCE_MS).why, TL_LOST_GONE);
}

/* A lock that is told of changes renews as soon as K's lifetime is touched. */
static void await_told_again(tl_lock *lock) {
    const clock_wait bound = clock_wait_begin(SOON_MS);
    bool told = false;
    while (!told && clock_wait_more(&bound)) {
        redisReply *before = real_redis_command(server, "GET " KEY);
        ask("SET " KEY " %s KEEPTTL", before->str);
        const clock_wait soon = clock_wait_begin(AT_ONCE_MS / 4);
        while (!told && clock_wait_more(&soon)) {
            redisReply *now = real_redis_command(server, "GET " KEY);
            told = strcmp(now->str, before->str) != 0;
            freeReplyObject(now);
        }
        freeReplyObject(before);
    }
    assert_true(told);
    assert_int_equal(tl_lock_state(lock), TL_HELD);
}

static void test_it_is_told_after_renewals_and_new_connections_too(void **state) {
    (void)state;
    lock_events *events = make_events();
    tl_lock *lock = held(events);
    await_tracking();
    ASSERT_RESULT(tl_lock_extend(lock, LEGACY_TTL_MS, &said), TL_OK);
    ask("CLIENT KILL TYPE pubsub");
    await_told_again(lock);
    ask("CLIENT KILL TYPE normal SKIPME yes");
    await_told_again(lock);
    assert_int_equal(tl_lock_state(lock), TL_HELD);
    ask("DEL " KEY);
    assert_int_equal(lock_events_await(events, TL_LOST, AT_ONCE_MS).why, TL_LOST_GONE);
}

static void test_a_racing_losers_stamp_is_taken_back_at_once(void **state) {
    (void)state;
    lock_events *events = make_events();
    tl_lock *lock = held(events);
    await_tracking();
    int64_t losers = server_ms() + LEGACY_TTL_MS - 100;
    ask("GETSET " KEY " %lld", (long long)losers);
    redisReply *reply = NULL;
    const clock_wait bound = clock_wait_begin(AT_ONCE_MS);
    do {
        if (reply)
            freeReplyObject(reply);
        reply = real_redis_command(server, "GET " KEY);
    } while (atoll(reply->str) == losers && clock_wait_more(&bound));
    assert_true(atoll(reply->str) > losers);
    freeReplyObject(reply);
    assert_int_equal(tl_lock_state(lock), TL_HELD);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

/* ---- waiting behind a client of the old kind ---------------------------------------------------- */

static long long commands(void) {
    static const char name[] = "cmdstat_evalsha:calls=";
    redisReply *reply = real_redis_command(server, "INFO commandstats");
    const char *at = strstr(reply->str, name);
    long long n = at ? atoll(at + sizeof name - 1) : 0;
    freeReplyObject(reply);
    return n;
}

/* A holder of the old kind, and one who waits behind it and has fallen silent. */
static acquiring *waiting_silently(tl_lock *lock) {
    ask("SET " KEY " %lld", (long long)(server_ms() + LEGACY_TTL_MS));
    acquiring *waiter = acquiring_begin(lock, TL_FOREVER);
    await_tracking();
    int64_t since = clock_ms();
    long long count = -1;
    const clock_wait bound = clock_wait_begin(SOON_MS);
    while (clock_ms() - since < AT_ONCE_MS / 2) { /* one that polls asks four times and more */
        long long now = commands();
        if (now != count)
            since = clock_ms();
        count = now;
        assert_true(clock_wait_more(&bound));
    }
    assert_false(atomic_load(&waiter->done));
    return waiter;
}

static void test_a_waiter_comes_at_once_when_an_old_client_releases(void **state) {
    (void)state;
    tl_lock *lock = make_lock_with(bridge(), KEY, TL_LOCK_OPTIONS(.ttl_ms = 0));
    acquiring *waiter = waiting_silently(lock);
    ask("DEL " KEY);
    ASSERT_RESULT(acquiring_end(waiter, AT_ONCE_MS), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

static void test_a_waiter_stays_told_however_often_old_clients_change_hands(void **state) {
    (void)state;
    tl_lock *lock = make_lock_with(bridge(), KEY, TL_LOCK_OPTIONS(.ttl_ms = 0));
    acquiring *waiter = waiting_silently(lock);
    for (int i = 1; i <= 50; i++)
        ask("SET " KEY " %lld", (long long)(server_ms() + LEGACY_TTL_MS + i));
    assert_false(atomic_load(&waiter->done));
    ask("CLIENT KILL TYPE pubsub");
    ask("SET " KEY " %lld", (long long)(server_ms() + LEGACY_TTL_MS));
    ask("CLIENT KILL TYPE normal SKIPME yes");
    ask("SET " KEY " %lld", (long long)(server_ms() + LEGACY_TTL_MS));
    assert_false(atomic_load(&waiter->done));
    ask("DEL " KEY);
    ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

static int start(void **state) {
    (void)state;
    server = real_redis_start(NULL);
    return 0;
}

static int stop(void **state) {
    (void)state;
    real_redis_free(server);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ARENA_TEST(test_a_robbery_is_told_at_once_with_the_robbers_clock),
        ARENA_TEST(test_a_deleted_key_is_told_at_once),
        ARENA_TEST(test_a_flushed_server_is_told_at_once),
        ARENA_TEST(test_it_is_told_after_renewals_and_new_connections_too),
        ARENA_TEST(test_a_racing_losers_stamp_is_taken_back_at_once),
        ARENA_TEST(test_a_waiter_comes_at_once_when_an_old_client_releases),
        ARENA_TEST(test_a_waiter_stays_told_however_often_old_clients_change_hands),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
