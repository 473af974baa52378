/*
 * Faults: a server that answers, but refuses. Each refusal has its own result and its own words, no
 * secret is among them, and nothing stays locked that nobody holds.
 */
#include <stdio.h>
#include <string.h>

#include "arena.h"

#define PASSWORD "correct-horse"
#define WRONG "battery-staple"

static void assert_no_secret(void) {
    assert_null(strstr(said.message, PASSWORD));
    assert_null(strstr(said.message, WRONG));
}

static void run(const char *command) {
    redisReply *reply = real_redis_command(server, command);
    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", command, reply->str);
    freeReplyObject(reply);
}

/* A server that refuses nothing. */
static int start_over(void **state) {
    freeReplyObject(real_redis_command(server, "CONFIG SET requirepass %s", ""));
    run("CONFIG SET maxmemory 0");
    run("REPLICAOF NO ONE");
    run("ACL SETUSER limited reset");
    return arena_set_up(state);
}

/* Every call that reaches the server is refused in the same way. */
static void refused(tl_client *client, tl_err expected, const char *words) {
    tl_lock_info info = {.size = sizeof info};
    tl_lock *lock = by_hand(client, TTL_MS);
    ASSERT_RESULT(tl_client_ping(client, &said), expected);
    ASSERT_SAID(words);
    assert_no_secret();
    ASSERT_RESULT(tl_client_look(client, KEY, strlen(KEY), &info, &said), expected);
    ASSERT_SAID(words);
    assert_no_secret();
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), expected);
    ASSERT_SAID(words);
    assert_no_secret();
    int64_t began = clock_ms();
    ASSERT_RESULT(tl_lock_acquire(lock, TL_FOREVER, &said), expected);
    ASSERT_TOOK(began, 0, CONNECT_MS);
    assert_no_secret();
}

/* ---- logging in -------------------------------------------------------------------------------- */

static void test_a_missing_password_is_denied(void **state) {
    (void)state;
    run("CONFIG SET requirepass " PASSWORD);
    refused(client_direct(), TL_EDENIED, "asks for a password");
}

static void test_a_wrong_password_is_denied(void **state) {
    (void)state;
    run("CONFIG SET requirepass " PASSWORD);
    refused(make_client_with(TL_CLIENT_OPTIONS(.url = real_redis_url(server), .password = WRONG)),
            TL_EDENIED, "login refused");
    char url[128];
    (void)snprintf(url, sizeof url, "redis://nobody:" WRONG "@127.0.0.1:%d",
                   real_redis_port(server));
    refused(make_client(url), TL_EDENIED, "login refused");
}

static void test_the_right_password_opens(void **state) {
    char url[128];
    (void)state;
    run("CONFIG SET requirepass " PASSWORD);
    (void)snprintf(url, sizeof url, "redis://:" PASSWORD "@127.0.0.1:%d", real_redis_port(server));
    ASSERT_RESULT(tl_client_ping(make_client(url), &said), TL_OK);
    ASSERT_RESULT(tl_client_ping(make_client_with(TL_CLIENT_OPTIONS(.url = real_redis_url(server),
                                                                    .password = PASSWORD)),
                                 &said),
                  TL_OK);
}

static void test_a_password_that_is_not_asked_for_is_denied(void **state) {
    (void)state;
    refused(make_client_with(TL_CLIENT_OPTIONS(.url = real_redis_url(server), .password = WRONG)),
            TL_EDENIED, "asks for none");
}

static void test_a_database_that_is_not_there_is_invalid(void **state) {
    char url[128];
    (void)state;
    (void)snprintf(url, sizeof url, "redis://127.0.0.1:%d/4711", real_redis_port(server));
    refused(make_client(url), TL_EINVALID, "database 4711");
}

static void test_who_is_logged_in_keeps_the_lock_when_the_password_changes(void **state) {
    (void)state;
    tl_lock *lock = make_lock(client_direct(), KEY, 600);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    WAIT_FOR(SOON_MS, has_executed("evalsha", 2)); /* renewed */
    run("CONFIG SET requirepass " PASSWORD);
    WAIT_FOR(SOON_MS, has_executed("evalsha", 5));
    assert_int_equal(tl_lock_state(lock), TL_HELD);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

/* ---- permissions ------------------------------------------------------------------------------- */

/* In a script the server doesn't say which command it is about. */
#define IN_SCRIPT "can't run this command"

/* A user who may do all but what `rules` take away. */
static tl_client *client_limited(const char *rules) {
    char command[256], url[128];
    (void)snprintf(command, sizeof command,
                   "ACL SETUSER limited reset on >" PASSWORD " ~* &* +@all %s", rules);
    run(command);
    (void)snprintf(url, sizeof url, "redis://limited:" PASSWORD "@127.0.0.1:%d",
                   real_redis_port(server));
    return client_at(url);
}

static void test_a_permission_that_taking_needs_is_named(void **state) {
    static const struct {
        const char *rules, *words;
    } cases[] = {
        {"-evalsha", "evalsha"}, {"-evalsha -eval", "evalsha"},  {"resetkeys ~other:*", "keys"},
        {"-time", "time"},       {"resetkeys ~chaos:*", "keys"}, {"-hmget", IN_SCRIPT},
        {"-psetex", IN_SCRIPT},  {"-pexpire", IN_SCRIPT},        {"-hmset", IN_SCRIPT},
        {"-get", IN_SCRIPT},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tl_lock *lock = by_hand(client_limited(cases[i].rules), TTL_MS);
        int64_t began = clock_ms();
        print_message("  %s\n", cases[i].rules);
        ASSERT_RESULT(tl_lock_acquire(lock, 2000, &said), TL_EDENIED);
        ASSERT_TOOK(began, 0, 0);
        ASSERT_SAID(cases[i].words);
        assert_no_secret();
        assert_int_equal(tl_lock_state(lock), TL_FREE);
        if (strcmp(cases[i].rules, "-pexpire") == 0) /* refused after it was taken: undone */
            WAIT_FOR(SOON_MS, !key_exists());
        assert_free_soon();
        assert_false(key_exists());
    }
}

static void test_a_permission_that_extending_needs_is_named(void **state) {
    static const char *const commands[] = {"evalsha", "hmget", "pexpire", "get"};
    (void)state;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char rules[64];
        tl_lock *lock = by_hand(client_limited(""), TTL_MS);
        ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
        (void)snprintf(rules, sizeof rules, "ACL SETUSER limited -%s", commands[i]);
        run(rules);
        print_message("  -%s\n", commands[i]);
        ASSERT_RESULT(tl_lock_extend(lock, 2 * TTL_MS, &said), TL_EDENIED);
        ASSERT_SAID(i ? IN_SCRIPT : commands[i]);
        assert_int_equal(tl_lock_state(lock), TL_HELD); /* as far as is known */
        run("ACL SETUSER limited +@all");
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    }
}

static void test_a_permission_that_releasing_needs_is_named(void **state) {
    static const char *const commands[] = {"evalsha", "hmget", "del", "get"};
    (void)state;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char rules[64];
        tl_lock *lock = by_hand(client_limited(""), 400);
        ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
        (void)snprintf(rules, sizeof rules, "ACL SETUSER limited -%s", commands[i]);
        run(rules);
        print_message("  -%s\n", commands[i]);
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_EDENIED);
        ASSERT_SAID(i ? IN_SCRIPT : commands[i]);
        assert_int_equal(tl_lock_state(lock), TL_FREE);
        run("ACL SETUSER limited +@all");
        assert_free_soon();
    }
}

static void test_without_publish_a_release_still_works(void **state) {
    static const char *const rules[] = {"-publish", "resetchannels"};
    (void)state;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        tl_lock *lock = by_hand(client_limited(rules[i]), TTL_MS);
        ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
        assert_false(key_exists());
        assert_free_soon();
    }
}

static bool was_denied(void) {
    redisReply *log = real_redis_command(server, "ACL LOG");
    bool was = log && log->elements > 0;
    freeReplyObject(log);
    return was;
}

static void test_without_subscribe_a_waiter_still_gets_the_lock(void **state) {
    static const char *const rules[] = {"-subscribe", "resetchannels"};
    (void)state;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        tl_lock *holder = by_hand(client_direct(), TTL_MS);
        tl_lock *lock = by_hand(client_limited(rules[i]), TTL_MS);
        ASSERT_RESULT(tl_lock_acquire(holder, SOON_MS, &said), TL_OK);
        run("ACL LOG RESET");
        acquiring *waiter = acquiring_begin(lock, TL_FOREVER);
        WAIT_FOR(SOON_MS, was_denied());
        ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
        int64_t began = clock_ms();
        ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_OK);
        ASSERT_TOOK(began, 0, 250);
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    }
}

/* ---- cannot now -------------------------------------------------------------------------------- */

static void test_a_replica_is_unavailable_in_its_own_words(void **state) {
    (void)state;
    tl_lock *lock = by_hand(client_direct(), TTL_MS);
    run("REPLICAOF 127.0.0.1 1");
    int64_t began = clock_ms();
    tl_err once = tl_lock_acquire(lock, 0, &said);
    run("REPLICAOF NO ONE");
    ASSERT_RESULT(once, TL_EUNAVAILABLE);
    ASSERT_SAID("READONLY");
    ASSERT_TOOK(began, 0, CONNECT_MS + ATTEMPT_MS);
    assert_false(key_exists());
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
}

static void test_a_waiter_gets_the_lock_when_a_replica_is_promoted(void **state) {
    (void)state;
    tl_lock *lock = by_hand(client_direct(), TTL_MS);
    run("REPLICAOF 127.0.0.1 1");
    acquiring *waiter = acquiring_begin(lock, 20000);
    const clock_wait a_moment = clock_wait_begin(300);
    while (clock_wait_more(&a_moment))
        assert_false(atomic_load(&waiter->done));
    run("REPLICAOF NO ONE");
    ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_OK);
}

static void test_a_full_memory_is_unavailable_in_its_own_words(void **state) {
    (void)state;
    tl_lock *lock = by_hand(client_direct(), TTL_MS);
    ASSERT_RESULT(tl_client_ping(client_direct(), &said), TL_OK);
    run("CONFIG SET maxmemory 1");
    int64_t began = clock_ms();
    tl_err once = tl_lock_acquire(lock, 0, &said);
    run("CONFIG SET maxmemory 0");
    ASSERT_RESULT(once, TL_EUNAVAILABLE);
    ASSERT_SAID("OOM");
    ASSERT_TOOK(began, 0, CONNECT_MS + ATTEMPT_MS);
    assert_false(key_exists());
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
}

static void test_a_release_works_with_a_full_memory(void **state) {
    (void)state;
    tl_lock *lock = by_hand(client_direct(), TTL_MS), *next = by_hand(client_direct(), TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    run("CONFIG SET maxmemory 1");
    tl_err extended = tl_lock_extend(lock, 2 * TTL_MS, &said);
    tl_err released = tl_lock_release(lock, &said);
    run("CONFIG SET maxmemory 0");
    ASSERT_RESULT(released, TL_OK);
    assert_true(extended == TL_OK || extended == TL_EUNAVAILABLE || extended == TL_EUNCERTAIN);
    assert_false(key_exists());
    ASSERT_RESULT(tl_lock_acquire(next, 0, &said), TL_OK);
}

static void test_a_server_that_resets_every_connection_is_unavailable(void **state) {
    (void)state;
    char url[128];
    (void)snprintf(url, sizeof url, "redis://127.0.0.1:%d", proxy_port(gate));
    proxy_break(gate, PROXY_REQUESTS, 0, PROXY_RESET, PROXY_ALL);
    refused(make_client_with(
                TL_CLIENT_OPTIONS(.url = url, .attempt_ms = ATTEMPT_MS, .connect_ms = CONNECT_MS)),
            TL_EUNAVAILABLE, url + strlen("redis://"));
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, start_over, arena_tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_missing_password_is_denied),
        TEST(test_a_wrong_password_is_denied),
        TEST(test_the_right_password_opens),
        TEST(test_a_password_that_is_not_asked_for_is_denied),
        TEST(test_a_database_that_is_not_there_is_invalid),
        TEST(test_who_is_logged_in_keeps_the_lock_when_the_password_changes),
        TEST(test_a_permission_that_taking_needs_is_named),
        TEST(test_a_permission_that_extending_needs_is_named),
        TEST(test_a_permission_that_releasing_needs_is_named),
        TEST(test_without_publish_a_release_still_works),
        TEST(test_without_subscribe_a_waiter_still_gets_the_lock),
        TEST(test_a_replica_is_unavailable_in_its_own_words),
        TEST(test_a_waiter_gets_the_lock_when_a_replica_is_promoted),
        TEST(test_a_full_memory_is_unavailable_in_its_own_words),
        TEST(test_a_release_works_with_a_full_memory),
        TEST(test_a_server_that_resets_every_connection_is_unavailable),
    };
    server = real_redis_start(NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
