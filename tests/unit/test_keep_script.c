/*
 * The script that extends locks, executed: a stamp that has become a token, while a phase had it so,
 * is a token for good, and gets no more lifetime than its sender says.
 */
#include <stdlib.h>
#include <string.h>

#include "script_feed.h"

#define STAMP "1700000009000"
#define NOW_MS INT64_C(1700000000000)
#define TOKEN_MS 4000      /* K's lifetime, and how long S binds */
#define GARBAGE_MS 3600000 /* what collects stamps that are left */

/* K holds this, and S knows the token for its writer. */
static int set_up(void **state) {
    (void)state;
    server = fake_redis_new();
    conn = fake_redis_connect(server, NULL, NULL);
    fake_redis_set_time(server, NOW_MS * 1000);
    (void)SAY(L("PSETEX"), L(K), L("4000"), L(TOKEN));
    (void)SAY(L("HMSET"), L(S), L("token"), L(TOKEN), L("value"), L(TOKEN), L("until"),
              L("1700000004000000"), L("fence"), L("7"));
    (void)SAY(L("PEXPIRE"), L(S), L("5400000"));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    fake_conn_close(conn);
    fake_redis_free(server);
    return 0;
}

TESTS_WITH(set_up, tear_down);

/* Of a client that mistakes its lock for a stamp, and has it end then. */
static void keep_as_stamp(const char *until_us) {
    char hold[32] = "@";
    (void)strncat(hold, until_us, sizeof hold - 2);
    const tl_reply *r = SAY(L("EVAL"), tl__script_text(TL_SCRIPT_KEEP), L("2"), L(K), L(S),
                            L("1700000000000000"), L("3600000"), L(TOKEN), L(STAMP), L("3600000"),
                            tl__bytes_of(hold), L("0"), L("1700000000000000"));
    int64_t status = 0;
    assert_true(tl__reply_int(tl__reply_item(tl__reply_item(r, 2), 0), &status));
    assert_int_equal(status, 1);
}

static void assert_token_lasts(int64_t ms) {
    int64_t left = 0;
    tl_bytes value = {0};
    assert_true(tl__reply_text(SAY(L("GET"), L(K)), &value));
    assert_true(tl__bytes_eq(value, L(TOKEN)));
    assert_true(tl__reply_int(SAY(L("PTTL"), L(K)), &left));
    assert_int_equal(left, ms);
}

TEST(it_lasts_no_longer_than_a_later_stamp_would) {
    keep_as_stamp("1700000009000000");
    assert_token_lasts(9000);
}

TEST(an_earlier_stamp_leaves_it_as_it_is) {
    keep_as_stamp("1700000003000000");
    assert_token_lasts(TOKEN_MS);
}

/* Late, on its way since before a later one. */
TEST(an_earlier_stamp_leaves_a_later_one_as_it_is) {
    (void)SAY(L("PSETEX"), L(K), L("4000"), L("1700000004000"));
    (void)SAY(L("HSET"), L(S), L("value"), L("1700000004000"));
    keep_as_stamp("1700000003000000");
    int64_t left = 0;
    assert_true(tl__reply_int(SAY(L("PTTL"), L(K)), &left));
    assert_int_equal(left, TOKEN_MS);
    assert_true(left < GARBAGE_MS);
}

/* A stamp that S doesn't know would bind for as long as it may lie in K: for an hour. */
TEST(where_s_may_not_be_written_k_stays_what_s_knows) {
    tl_bytes value = {0};
    (void)SAY(L("PSETEX"), L(K), L("4000"), L("1700000004000"));
    (void)SAY(L("HSET"), L(S), L("value"), L("1700000004000"));
    fake_redis_deny(server, "HMSET", FAKE_NOPERM);
    const tl_reply *r = SAY(L("EVAL"), tl__script_text(TL_SCRIPT_KEEP), L("2"), L(K), L(S),
                            L("1700000000000000"), L("3600000"), L(TOKEN), L(STAMP), L("3600000"),
                            L("@1700000009000000"), L("0"), L("1700000000000000"));
    assert_int_equal(r->type, TL_REPLY_ERROR);
    assert_true(tl__reply_text(SAY(L("GET"), L(K)), &value));
    assert_true(tl__bytes_eq(value, L("1700000004000")));
}
