/*
 * Servers from before scripts, imitated: today's without EVAL; and without TIME, WATCH, MULTI or EXEC.
 * The bridge says in one line that it can't; stamps go on by WATCH, and without that with the commands
 * that Java uses.
 */
#include <stdlib.h>
#include <string.h>

#include "legacy.h"
#include "tests.h"

#define KEY "old"
#define WITHOUT(command) "rename-command " command " \"\"\n"
#define SERVERS 6
#define WATCHING 2 /* the first of them have WATCH, MULTI and EXEC */

static const char *const lacking[SERVERS] = {
    WITHOUT("EVAL") WITHOUT("EVALSHA"),
    WITHOUT("EVAL") WITHOUT("EVALSHA") WITHOUT("TIME"),
    WITHOUT("EVAL") WITHOUT("EVALSHA") WITHOUT("WATCH"),
    WITHOUT("EVAL") WITHOUT("EVALSHA") WITHOUT("MULTI"),
    WITHOUT("EVAL") WITHOUT("EVALSHA") WITHOUT("EXEC"),
    WITHOUT("EVAL") WITHOUT("EVALSHA") WITHOUT("WATCH") WITHOUT("MULTI") WITHOUT("TIME"),
};

static real_redis *servers[SERVERS];
static service java = {.pid = -1, .wire = -1};

static int clean_up(void **state) {
    int failed = locks_clean_up(state);
    (void)service_kill(&java);
    for (int i = 0; i < SERVERS; i++)
        (void)real_redis_int(servers[i], "FLUSHALL");
    return failed;
}

TESTS_WITH(NULL, clean_up);

static tl_lock *lock_at(int i, tl_protocol_id protocol) {
    return make_lock(make_client_with(legacy_client(real_redis_url(servers[i]), protocol, false)),
                     KEY, 0);
}

TEST(the_bridge_says_in_one_line_what_it_lacks) {
    for (int i = 0; i < SERVERS; i++) {
        ASSERT_RESULT(tl_lock_acquire(lock_at(i, TL_BRIDGE), 0, &said), TL_EUNSUPPORTED);
        ASSERT_SAID("the server has no EVALSHA, which the bridge needs: ");
        /* from 4.0 on its words show that it is too new to have no EVAL */
        ASSERT_SAID(real_server_has(REAL_RUN_ID) ? "it is renamed or forbidden there"
                                                 : "Redis 2.6 or newer");
        assert_int_equal(real_redis_int(servers[i], "DBSIZE"), 0);
    }
}

/* If the machine stalls for longer than a request may take, the release goes on in the background. */
static void release(int i, tl_lock *lock) {
    tl_err code = tl_lock_release(lock, &said);
    if (code != TL_EUNCERTAIN && code != TL_EUNAVAILABLE)
        ASSERT_RESULT(code, TL_OK);
    WAIT_FOR(LATE_MS, real_redis_int(servers[i], "EXISTS " KEY) == 0);
}

/* The lock is Java's and ours in turn, and each is kept out by the other. */
static void take_turns(int i) {
    tl_lock *lock = lock_at(i, TL_TIMESTAMP);
    uint64_t fence = 0;
    java = java_peer(servers[i], 0);
    for (int turn = 0; turn < 2; turn++) {
        java_answers(&java, "acquire " KEY, "yes");
        tl_err code = TL_EUNCERTAIN;
        for (int k = 0; k < 10 && code == TL_EUNCERTAIN; k++) /* no answer in time */
            code = tl_lock_acquire(lock, 0, &said);
        ASSERT_RESULT(code, TL_EBUSY);
        java_answers(&java, "release " KEY, "done");
        ASSERT_RESULT(tl_lock_acquire(lock, LATE_MS, &said), TL_OK);
        assert_true(i < WATCHING ? tl_lock_fence(lock) > fence : tl_lock_fence(lock) == 0);
        fence = tl_lock_fence(lock);
        java_answers(&java, "acquire " KEY, "no");
        release(i, lock);
        assert_int_equal(real_redis_int(servers[i], "DBSIZE"), i < WATCHING); /* the sidecar */
    }
    (void)service_kill(&java);
}

TEST(stamps_and_java_keep_each_other_out) {
    for (int i = 0; i < SERVERS; i++)
        take_turns(i);
}

TEST(what_a_killed_java_leaves_is_ours_when_it_has_expired) {
    tl_lock *lock[SERVERS];
    for (int i = 0; i <= WATCHING; i++) { /* each level */
        java = java_peer(servers[i], 0);
        java_answers(&java, "acquire " KEY, "yes");
        (void)service_kill(&java);
        lock[i] = lock_at(i, TL_TIMESTAMP);
    }
    for (int i = 0; i <= WATCHING; i++)
        ASSERT_RESULT(tl_lock_acquire(lock[i], FREE_MS + LATE_MS, &said), TL_OK);
}

/* ---- by WATCH ----------------------------------------------------------------------------------- */

static long long stamp_at(int i) {
    redisReply *reply = real_redis_command(servers[i], "GET " KEY);
    long long stamp = reply->type == REDIS_REPLY_STRING ? atoll(reply->str) : 0;
    freeReplyObject(reply);
    return stamp;
}

TEST(a_lock_is_renewed_beyond_its_lifetime) {
    for (int i = 0; i < WATCHING; i++) {
        tl_lock *lock = lock_at(i, TL_TIMESTAMP);
        java = java_peer(servers[i], 0);
        ASSERT_RESULT(tl_lock_acquire(lock, LATE_MS, &said), TL_OK);
        long long first = stamp_at(i);
        assert_true(first > 0);
        WAIT_FOR(LATE_MS, stamp_at(i) > first + LIFE_MS);
        java_answers(&java, "acquire " KEY, "no");
        assert_int_equal(tl_lock_state(lock), TL_HELD);
        assert_true(tl_lock_remaining_ms(lock) > 0);
        ASSERT_RESULT(tl_lock_extend(lock, 2 * LIFE_MS - 4 * SKEW_MS - 4 * LAG_MS, &said), TL_OK);
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
        assert_int_equal(stamp_at(i), 0);
        (void)service_kill(&java);
    }
}

TEST(a_lock_that_was_deleted_or_taken_is_lost_and_not_deleted) {
    static const char *const changes[] = {"DEL " KEY, "SET " KEY " somebody"};
    for (int i = 0; i < WATCHING; i++) {
        for (int change = 0; change < 2; change++) {
            tl_lock *lock = lock_at(i, TL_TIMESTAMP);
            ASSERT_RESULT(tl_lock_acquire(lock, LATE_MS, &said), TL_OK);
            freeReplyObject(real_redis_command(servers[i], changes[change]));
            WAIT_FOR(LATE_MS, tl_lock_state(lock) == TL_LOST);
            (void)tl_lock_release(lock, &said);
            assert_int_equal(real_redis_int(servers[i], "EXISTS " KEY), change);
            (void)real_redis_int(servers[i], "DEL " KEY);
        }
    }
}

#define MANY 12
#define MANY_LIFE_MS clock_patient_ms(3000)

/* The keeper's one connection renews them all: none of their transactions meets another's. */
TEST(many_locks_of_one_client_are_renewed) {
    for (int i = 0; i < WATCHING; i++) {
        tl_client_options options = legacy_client(real_redis_url(servers[i]), TL_TIMESTAMP, false);
        tl_legacy_options legacy = *options.legacy;
        legacy.legacy_ttl_min_ms = MANY_LIFE_MS; /* no lifetime may be much longer */
        options.legacy = &legacy;
        tl_client *client = make_client_with(options);
        tl_lock *lock[MANY];
        char key[16];
        for (int k = 0; k < MANY; k++) {
            (void)snprintf(key, sizeof key, "many:%d", k);
            lock[k] = make_lock(client, key, MANY_LIFE_MS);
            ASSERT_RESULT(tl_lock_acquire(lock[k], LATE_MS, &said), TL_OK);
        }
        int64_t until_us = shared_us() + 2 * MANY_LIFE_MS * INT64_C(1000);
        WAIT_FOR(LATE_MS, shared_us() > until_us);
        for (int k = 0; k < MANY; k++) {
            assert_true(tl_lock_remaining_ms(lock[k]) > 0);
            ASSERT_RESULT(tl_lock_release(lock[k], &said), TL_OK);
        }
        assert_int_equal(real_redis_int(servers[i], "DBSIZE"), MANY); /* the sidecars */
    }
}

int main(void) {
    legacy_need_java();
    for (int i = 0; i < SERVERS; i++)
        servers[i] = real_redis_start(&(real_redis_options){.config = lacking[i]});
    return tests_run();
}
