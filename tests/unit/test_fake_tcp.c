/*
 * The fake server behind a socket: hiredis talks to it, and each fault happens as asked for.
 */
#ifndef TL_SYSTEM_TIME_64 /* hiredis takes a struct timeval: the system's, of 32 bits in some 32-bit systems */
#undef _TIME_BITS
#endif
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#include "fake_resp.h"
#include "fake_tcp.h"
#include "tests.h"

#define SOON_MS 30000 /* a limit that is never reached when all is well */
#define NEVER_MS 60   /* long enough to see that nothing comes */

static void set_limit(redisContext *c, int64_t limit_ms) {
    struct timeval limit = {.tv_sec = limit_ms / 1000, .tv_usec = limit_ms % 1000 * 1000};
    assert_int_equal(redisSetTimeout(c, limit), REDIS_OK);
}

static redisContext *dial(fake_tcp *t) {
    struct timeval limit = {.tv_sec = SOON_MS / 1000};
    redisContext *c = redisConnectWithTimeout("127.0.0.1", fake_tcp_port(t), limit);
    assert_non_null(c);
    if (!c->err) {
        set_limit(c, SOON_MS);
    }
    return c;
}

/* The reply to a command as text; "" when none came. */
static const char *ask(redisContext *c, const char *command) {
    static char text[64];
    redisReply *reply = redisCommand(c, command);
    text[0] = '\0';
    if (reply && reply->type == REDIS_REPLY_INTEGER) {
        snprintf(text, sizeof(text), "%lld", reply->integer);
    } else if (reply && reply->type == REDIS_REPLY_NIL) {
        strcpy(text, "nil");
    } else if (reply) {
        snprintf(text, sizeof(text), "%s", reply->str);
    }
    freeReplyObject(reply);
    return text;
}

/* No reply comes. */
static void ask_in_vain(redisContext *c, const char *command) {
    set_limit(c, NEVER_MS);
    assert_string_equal(ask(c, command), "");
}

static bool holds(fake_tcp *t, const char *key, const char *value) {
    tl_bytes text = {0};
    fake_redis *r = fake_tcp_lock(t);
    bool there = fake_redis_peek(r, 0, tl__bytes_of(key), &text);
    bool equal = value ? there && tl__bytes_eq(text, tl__bytes_of(value)) : !there;
    fake_tcp_unlock(t);
    return equal;
}

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int setup(void **state) {
    *state = fake_tcp_start(NULL);
    return 0;
}

static int teardown(void **state) {
    fake_tcp_free(*state);
    return 0;
}

TESTS_WITH(setup, teardown);

TEST_ON(it_serves_commands_and_counts_them, fake_tcp *t) {
    redisContext *c = dial(t);
    assert_string_equal(ask(c, "SET k v"), "OK");
    assert_string_equal(ask(c, "get k"), "v");
    assert_string_equal(ask(c, "GET none"), "nil");
    assert_string_equal(ask(c, "EVAL return{1} 0"), "(null)");
    assert_int_equal(fake_tcp_count(t, "GET"), 2);
    assert_int_equal(fake_tcp_count(t, NULL), 4);
    assert_true(fake_tcp_wait_count(t, "SET", 1, 0));
    assert_false(fake_tcp_wait_count(t, "SET", 2, 20));
    assert_int_equal(fake_tcp_connections(t), 1);
    for (int i = 0; i < 1000; i++) {
        redisAppendCommand(c, "INCR n");
    }
    for (int i = 0; i < 1000; i++) {
        redisReply *reply = NULL;
        assert_int_equal(redisGetReply(c, (void **)&reply), REDIS_OK);
        assert_int_equal(reply->integer, i + 1);
        freeReplyObject(reply);
    }
    redisFree(c);
}

TEST_ON(a_large_value_passes_in_pieces, fake_tcp *t) {
    enum { SIZE = 3000000 };
    redisContext *c = dial(t);
    char *value = malloc(SIZE);
    memset(value, 'x', SIZE);
    freeReplyObject(redisCommand(c, "SET k %b", value, (size_t)SIZE));
    redisReply *reply = redisCommand(c, "GET k");
    assert_non_null(reply);
    assert_int_equal(reply->len, SIZE);
    assert_memory_equal(reply->str, value, SIZE);
    freeReplyObject(reply);
    free(value);
    redisFree(c);
}

TEST_ON(a_swallowed_reply_was_executed, fake_tcp *t) {
    redisContext *c = dial(t);
    fake_tcp_aim(t, "SET");
    fake_tcp_swallow_replies(t, 1);
    assert_string_equal(ask(c, "GET k"), "nil");
    ask_in_vain(c, "SET k v");
    assert_true(fake_tcp_wait_count(t, "SET", 1, SOON_MS));
    assert_true(holds(t, "k", "v"));
    redisFree(c);
    c = dial(t);
    assert_string_equal(ask(c, "SET k w"), "OK");
    redisFree(c);
}

TEST_ON(a_swallowed_request_was_not_executed, fake_tcp *t) {
    redisContext *c = dial(t);
    fake_tcp_swallow_requests(t, 1);
    ask_in_vain(c, "SET k v");
    assert_true(fake_tcp_wait_count(t, "SET", 1, SOON_MS));
    assert_true(holds(t, "k", NULL));
    assert_int_equal(fake_tcp_count(t, "SET"), 1);
    redisFree(c);
}

TEST_ON(a_cut_reply_ends_the_connection, fake_tcp *t) {
    for (size_t bytes = 0; bytes < 6; bytes++) {
        redisContext *c = dial(t);
        fake_tcp_cut_reply(t, bytes);
        assert_string_equal(ask(c, "SET k v"), bytes == 5 ? "OK" : "");
        assert_string_equal(ask(c, "GET k"), "");
        assert_int_not_equal(c->err, 0);
        assert_true(holds(t, "k", "v"));
        redisFree(c);
    }
}

TEST_ON(a_delayed_reply_comes_late, fake_tcp *t) {
    redisContext *c = dial(t);
    fake_tcp_delay(t, 50);
    int64_t start = now_ms();
    assert_string_equal(ask(c, "SET k v"), "OK");
    assert_true(now_ms() - start >= 50);
    redisFree(c);
}

TEST_ON(a_held_reply_comes_when_released, fake_tcp *t) {
    redisContext *c = dial(t);
    int done = 0;
    fake_tcp_hold(t, true);
    redisAppendCommand(c, "SET k v");
    redisBufferWrite(c, &done);
    assert_true(fake_tcp_wait_count(t, "SET", 1, SOON_MS));
    assert_true(holds(t, "k", "v"));
    fake_tcp_hold(t, false);
    redisReply *reply = NULL;
    assert_int_equal(redisGetReply(c, (void **)&reply), REDIS_OK);
    assert_string_equal(reply->str, "OK");
    freeReplyObject(reply);
    redisFree(c);
}

TEST_ON(a_frozen_server_executes_later, fake_tcp *t) {
    redisContext *c = dial(t);
    assert_string_equal(ask(c, "PING"), "PONG");
    fake_tcp_freeze(t, true);
    ask_in_vain(c, "SET k v");
    assert_true(holds(t, "k", NULL));
    fake_tcp_freeze(t, false);
    assert_true(fake_tcp_wait_count(t, "SET", 1, SOON_MS));
    assert_true(holds(t, "k", "v"));
    redisFree(c);
}

TEST_ON(the_door, fake_tcp *t) {
    redisContext *open = dial(t);
    assert_string_equal(ask(open, "PING"), "PONG");
    fake_tcp_set_door(t, FAKE_TCP_REFUSE);
    redisContext *c = dial(t);
    assert_int_equal(c->err, REDIS_ERR_IO);
    redisFree(c);
    assert_string_equal(ask(open, "PING"), "PONG");
    fake_tcp_set_door(t, FAKE_TCP_IGNORE);
    c = dial(t);
    assert_int_equal(c->err, 0);
    ask_in_vain(c, "PING");
    redisFree(c);
    fake_tcp_heal(t);
    c = dial(t);
    assert_string_equal(ask(c, "PING"), "PONG");
    fake_tcp_disconnect(t);
    assert_string_equal(ask(c, "PING"), "");
    assert_string_equal(ask(open, "PING"), "");
    redisFree(c);
    redisFree(open);
}

TEST_ON(the_clock_can_be_set_off, fake_tcp *t) {
    redisContext *c = dial(t);
    assert_string_equal(ask(c, "SET k v PX 100000"), "OK");
    fake_tcp_set_offset(t, 200 * INT64_C(1000000));
    assert_string_equal(ask(c, "GET k"), "nil");
    redisReply *reply = redisCommand(c, "TIME");
    long long ahead = strtoll(reply->element[0]->str, NULL, 10) - (long long)time(NULL);
    assert_true(ahead >= 140 && ahead <= 201); /* less by what has passed since */
    freeReplyObject(reply);
    redisFree(c);
}

TEST_ON(messages_arrive_and_quit_ends, fake_tcp *t) {
    redisContext *a = dial(t), *b = dial(t);
    freeReplyObject(redisCommand(b, "SUBSCRIBE c"));
    assert_string_equal(ask(a, "PUBLISH c hello"), "1");
    redisReply *reply = NULL;
    assert_int_equal(redisGetReply(b, (void **)&reply), REDIS_OK);
    assert_string_equal(reply->element[2]->str, "hello");
    freeReplyObject(reply);
    assert_string_equal(ask(a, "QUIT"), "OK");
    assert_string_equal(ask(a, "PING"), "");
    redisFree(a);
    redisFree(b);
}

TEST_WITH(a_unix_socket_and_knobs_of_the_fake, NULL, NULL) {
    char directory[] = "/tmp/tidelock-fake-XXXXXX", path[64];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/s", directory);
    fake_tcp *t = fake_tcp_start(path);
    fake_redis_deny(fake_tcp_lock(t), "SET", FAKE_NOPERM);
    fake_tcp_unlock(t);
    redisContext *c = redisConnectUnix(path);
    assert_int_equal(c->err, 0);
    assert_memory_equal(ask(c, "SET k v"), "NOPERM", 6);
    redisFree(c);
    fake_tcp_free(t);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(rmdir(directory), 0);
}

/* ---- the parser ------------------------------------------------------------------------------ */

TEST_WITH(requests_are_parsed_within_bounds, NULL, NULL) {
    static const struct {
        const char *text;
        fake_resp_state state;
    } cases[] = {
        {"*1\r\n$4\r\nPING\r\n", FAKE_RESP_READY},
        {"*0\r\n", FAKE_RESP_READY},
        {"*2\r\n$0\r\n\r\n$1\r\n\n\r\n", FAKE_RESP_READY},
        {"PING\r\n", FAKE_RESP_BAD},
        {"*-1\r\n", FAKE_RESP_BAD},
        {"*x\r\n", FAKE_RESP_BAD},
        {"*\r\n", FAKE_RESP_BAD},
        {"*1\n", FAKE_RESP_BAD},
        {"*5000\r\n", FAKE_RESP_BAD},
        {"*99999999999999999999\r\n", FAKE_RESP_BAD},
        {"*1111111111111111111111111111", FAKE_RESP_BAD},
        {"*1\r\n:4\r\n", FAKE_RESP_BAD},
        {"*1\r\n$-1\r\n", FAKE_RESP_BAD},
        {"*1\r\n$999999999\r\n", FAKE_RESP_BAD},
        {"*1\r\n$4\r\nPINGxx", FAKE_RESP_BAD},
    };
    static tl_bytes argv[FAKE_RESP_ARGS_MAX];
    size_t argc, used;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tl_bytes text = tl__bytes_of(cases[i].text);
        assert_int_equal(fake_resp_read(text, argv, &argc, &used), cases[i].state);
        if (cases[i].state == FAKE_RESP_READY) {
            assert_int_equal(used, text.n);
        }
        for (size_t n = 0; n < text.n && cases[i].state == FAKE_RESP_READY; n++) {
            assert_int_equal(fake_resp_read(tl__bytes(text.p, n), argv, &argc, &used),
                             FAKE_RESP_MORE);
        }
    }
}
