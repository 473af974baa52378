/*
 * A key that holds no string is somebody's: each script says so, in the words of every server. Before 2.8
 * the server has no code for that, and says only that the value is of the wrong kind.
 */
#include <stdlib.h>
#include <string.h>

#include "fake_redis.h"
#include "tests.h"
#include "wire/script.h"

#define K "jobs"
#define S "tidelock:{jobs}"
#define F "tidelock:fence:{6MN}"
#define LINE S ":line"
#define TOKEN "00000000-0000-4000-8000-0000000000aa"
#define L(text) TL_LITERAL(text)

static const uint32_t levels[] = {FAKE_LEVEL(2, 6, 17), FAKE_LEVEL(2, 8, 0), FAKE_LEVEL(7, 0, 15)};
#define LEVELS (sizeof levels / sizeof *levels)

static fake_redis *server;
static fake_conn *conn;

/* K is a hash, at the time 1.7e15 us. */
static void begin(uint32_t level) {
    server = fake_redis_new();
    fake_redis_set_level(server, level);
    conn = fake_redis_connect(server, NULL, NULL);
    fake_redis_set_time(server, INT64_C(1700000000000000));
    (void)fake_conn_say(conn, "HSET " K " a b");
}

static void end(void) {
    fake_conn_close(conn);
    fake_redis_free(server);
}

static const tl_reply *ask(tl_script script, const char *nkeys, const tl_bytes *args,
                           size_t count) {
    tl_bytes argv[16] = {L("EVAL"), tl__script_text(script), tl__bytes_of(nkeys)};
    for (size_t i = 0; i < count; i++)
        argv[3 + i] = args[i];
    return fake_conn_command(conn, argv, 3 + count);
}

#define ASK(script, nkeys, ...)                                                                    \
    ask(script, nkeys, (const tl_bytes[]){__VA_ARGS__},                                            \
        sizeof((const tl_bytes[]){__VA_ARGS__}) / sizeof(tl_bytes))

static void expect_status(const tl_reply *reply, int64_t status) {
    int64_t got = INT64_MIN;
    if (reply->type == TL_REPLY_ERROR)
        fail_msg("%.*s", (int)reply->text.n, reply->text.p);
    assert_true(tl__reply_int(reply->type == TL_REPLY_ARRAY ? &reply->items[0] : reply, &got));
    assert_int_equal(got, status);
}

TEST(the_servers_words_are_those_of_its_time) {
    for (size_t i = 0; i < LEVELS; i++) {
        begin(levels[i]);
        const tl_reply *r = fake_conn_say(conn, "GET " K);
        assert_int_equal(r->type, TL_REPLY_ERROR);
        assert_memory_equal(r->text.p, i ? "WRONGTYPE " : "ERR Operation ", i ? 10 : 14);
        end();
    }
}

TEST(who_takes_it_finds_it_held) {
    for (size_t i = 0; i < LEVELS; i++) {
        begin(levels[i]);
        expect_status(ASK(TL_SCRIPT_ACQUIRE, "4", L(K), L(S), L(F), L(LINE), L(TOKEN), L("5000"),
                          L("0"), L("1700000000000000"), L("1700000000000000"), L("me")),
                      0);
        expect_status(ASK(TL_SCRIPT_HOLD, "1", L(K), L(TOKEN), L("5000"), L("0"), L("take")), 0);
        end();
    }
}

TEST(who_held_it_finds_it_anothers) {
    for (size_t i = 0; i < LEVELS; i++) {
        begin(levels[i]);
        const tl_reply *r = ASK(TL_SCRIPT_RENEW, "2", L(K), L(S), L("1700000000000000"),
                                L("3600000"), L("me"), L(TOKEN), L(TOKEN), L("5000"), L("5000"),
                                L("7"), L("0"), L("1700000000000000"));
        assert_int_equal(r->type, TL_REPLY_ARRAY);
        expect_status(tl__reply_item(r, 2), 0);
        expect_status(ASK(TL_SCRIPT_HOLD, "1", L(K), L(TOKEN), L("5000"), L("0"), L("keep")), 0);
        expect_status(ASK(TL_SCRIPT_RELEASE, "4", L(K), L(S), L(F), L(LINE), L(TOKEN)), 0);
        expect_status(ASK(TL_SCRIPT_FREE, "1", L(K), L(TOKEN), L(S)), 0);
        end();
    }
}

TEST(who_breaks_it_is_told_that_it_is_no_lock) {
    for (size_t i = 0; i < LEVELS; i++) {
        begin(levels[i]);
        expect_status(ASK(TL_SCRIPT_BREAK, "4", L(K), L(S), L(F), L(LINE), L(""), L(""), L("me"),
                          L("3600000")),
                      -2);
        end();
    }
}
