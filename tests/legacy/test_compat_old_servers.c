/*
 * Servers from before scripts, imitated: today's without EVAL, also without WATCH, also without TIME.
 * The bridge says in one line that it can't; stamps go on with the commands that Java uses.
 */
#include <string.h>

#include "legacy.h"

#define KEY "old"
#define WITHOUT(command) "rename-command " command " \"\"\n"
#define SERVERS 3

static const char *const lacking[SERVERS] = {
    WITHOUT("EVAL") WITHOUT("EVALSHA"),
    WITHOUT("EVAL") WITHOUT("EVALSHA") WITHOUT("WATCH") WITHOUT("MULTI"),
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

static tl_lock *lock_at(int i, tl_protocol_id protocol) {
    return make_lock(make_client_with(legacy_client(real_redis_url(servers[i]), protocol, false)),
                     KEY, 0);
}

static void test_the_bridge_says_in_one_line_what_it_lacks(void **state) {
    (void)state;
    for (int i = 0; i < SERVERS; i++) {
        ASSERT_RESULT(tl_lock_acquire(lock_at(i, TL_BRIDGE), 0, &said), TL_ESERVER);
        ASSERT_SAID("the server has no EVAL, which the bridge needs: Redis 2.6 or newer");
        assert_int_equal(real_redis_int(servers[i], "DBSIZE"), 0);
    }
}

/* The lock is Java's and ours in turn, and each is kept out by the other. */
static void take_turns(int i) {
    tl_lock *lock = lock_at(i, TL_TIMESTAMP);
    java = java_peer(servers[i], 0);
    for (int turn = 0; turn < 2; turn++) {
        java_answers(&java, "acquire " KEY, "yes");
        ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_EBUSY);
        java_answers(&java, "release " KEY, "done");
        ASSERT_RESULT(tl_lock_acquire(lock, LATE_MS, &said), TL_OK);
        assert_int_equal(tl_lock_fence(lock), 0);
        java_answers(&java, "acquire " KEY, "no");
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
        assert_int_equal(real_redis_int(servers[i], "DBSIZE"), 0);
    }
    (void)service_kill(&java);
}

static void test_stamps_and_java_keep_each_other_out(void **state) {
    (void)state;
    for (int i = 0; i < SERVERS; i++)
        take_turns(i);
}

static void test_what_a_killed_java_leaves_is_ours_when_it_has_expired(void **state) {
    tl_lock *lock[SERVERS];
    (void)state;
    for (int i = 0; i < SERVERS; i++) {
        java = java_peer(servers[i], 0);
        java_answers(&java, "acquire " KEY, "yes");
        (void)service_kill(&java);
        lock[i] = lock_at(i, TL_TIMESTAMP);
    }
    for (int i = 0; i < SERVERS; i++)
        ASSERT_RESULT(tl_lock_acquire(lock[i], FREE_MS + LATE_MS, &said), TL_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_the_bridge_says_in_one_line_what_it_lacks, clean_up),
        cmocka_unit_test_teardown(test_stamps_and_java_keep_each_other_out, clean_up),
        cmocka_unit_test_teardown(test_what_a_killed_java_leaves_is_ours_when_it_has_expired,
                                  clean_up),
    };
    legacy_need_java();
    for (int i = 0; i < SERVERS; i++)
        servers[i] = real_redis_start(&(real_redis_options){.config = lacking[i]});
    return cmocka_run_group_tests(tests, NULL, NULL);
}
