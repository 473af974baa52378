/*
 * The script that extends locks, executed: a stamp that has become a token, while a phase had it so,
 * is a token for good, and gets no more lifetime than its sender says.
 */
#include <stdlib.h>
#include <string.h>

#include "script_feed.h"

#define STAMP "1700000009000"
#define TOKEN_MS 4000      /* K's lifetime, and how long S binds */
#define GARBAGE_MS 3600000 /* what collects stamps that are left */

/* K holds this, and S knows the token for its writer. */
static int set_up(void **state) {
    (void)serve(state);
    (void)SAY(L("PSETEX"), L(K), L("4000"), L(TOKEN));
    (void)SAY(L("HMSET"), L(S), L("token"), L(TOKEN), L("value"), L(TOKEN), L("until"),
              L("1700000004000000"), L("fence"), L("7"));
    (void)SAY(L("PEXPIRE"), L(S), L("5400000"));
    return 0;
}

TESTS_WITH(set_up, end_serving);

/* Of a client that mistakes its lock for a stamp, and has it end then: what is answered. */
static int64_t status_of_keep(const char *until_us) {
    char hold[32] = "@";
    (void)strncat(hold, until_us, sizeof hold - 2);
    const tl_reply *r = SAY(L("EVAL"), tl__script_text(TL_SCRIPT_RENEW), L("2"), L(K), L(S),
                            L("1700000000000000"), L("3600000"), L("owner"), L(TOKEN), L(STAMP),
                            L("3600000"), tl__bytes_of(hold), L("7"), L("0"),
                            L("1700000000000000"));
    int64_t status = -9;
    assert_true(tl__reply_int(tl__reply_item(tl__reply_item(r, 2), 0), &status));
    return status;
}

static void keep_as_stamp(const char *until_us) {
    assert_int_equal(status_of_keep(until_us), 1);
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

/* S names the token still: whoever overwrote K told it nothing. */
TEST(what_another_has_written_is_not_extended) {
    int64_t left = 0;
    (void)SAY(L("PSETEX"), L(K), L("4000"), L("another"));
    assert_int_equal(status_of_keep("1700000009000000"), 0);
    assert_true(tl__reply_int(SAY(L("PTTL"), L(K)), &left));
    assert_int_equal(left, TOKEN_MS);
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
    const tl_reply *r = SAY(L("EVAL"), tl__script_text(TL_SCRIPT_RENEW), L("2"), L(K), L(S),
                            L("1700000000000000"), L("3600000"), L("owner"), L(TOKEN), L(STAMP),
                            L("3600000"), L("@1700000009000000"), L("7"), L("0"),
                            L("1700000000000000"));
    assert_int_equal(r->type, TL_REPLY_ERROR);
    assert_true(tl__reply_text(SAY(L("GET"), L(K)), &value));
    assert_true(tl__bytes_eq(value, L("1700000004000")));
}

/* ---- the first of a token ---------------------------------------------------------------------- */

#define INBOX "tidelock:inbox:a"

/* For 9 s. */
static const tl_reply *say_numbered(const char *fence, const char *not_after) {
    return SAY(L("EVAL"), tl__script_text(TL_SCRIPT_RENEW), L("2"), L(K), L(S), L(NOW),
               L("3600000"), L("owner"), L(TOKEN), L(TOKEN), L("9000"), L("9000"),
               tl__bytes_of(fence), tl__bytes_of(not_after), L(NOW));
}

static const tl_reply *say_first(const char *not_after) {
    return say_numbered("8", not_after);
}

static int64_t keep_first(const char *not_after) {
    return number_of(tl__reply_item(tl__reply_item(say_first(not_after), 2), 0));
}

TEST(it_is_written_down_by_the_first) {
    (void)SAY(L("DEL"), L(S));
    assert_int_equal(keep_first("0"), 1);
    assert_token_lasts(9000);
    S_HAS("token", TOKEN);
    S_HAS("value", TOKEN);
    S_HAS("until", "1700000009000000");
    S_HAS("fence", "8");
    S_HAS("since", "8");
    S_HAS("owner", "owner");
    assert_int_equal(number_of(SAY(L("PTTL"), L(S))), 3600000);
}

/* The clock was ahead, and so is the counter: nobody has held it since tomorrow. */
TEST(a_number_ahead_of_the_clock_does_not_tell_since_when) {
    (void)SAY(L("DEL"), L(S));
    (void)say_numbered("1700172800000000", "0");
    S_HAS("fence", "1700172800000000");
    S_HAS("since", NOW);
}

/* Its holder goes on to count on all that K has left. */
TEST(the_first_binds_as_long_as_k_lasts_though_it_is_for_less) {
    (void)SAY(L("DEL"), L(S));
    (void)SAY(L("PEXPIRE"), L(K), L("20000"));
    assert_int_equal(keep_first("0"), 1);
    assert_token_lasts(20000);
    S_HAS("until", "1700000020000000");
}

/* It has lost K meanwhile, or never had it: the holder's sidecar is not its business. */
TEST(nothing_is_written_down_of_one_who_does_not_hold_it) {
    (void)SAY(L("HMSET"), L(S), L("token"), L(OTHER));
    (void)SAY(L("SET"), L(K), L(OTHER));
    assert_int_equal(keep_first("0"), 0);
    (void)SAY(L("DEL"), L(K));
    assert_int_equal(keep_first("0"), -1);
    K_HOLDS(NULL);
    S_HAS("token", OTHER);
    S_HAS("fence", "7");
}

/* What remains of one before binds nobody who holds K, but its number stays. */
TEST(the_first_takes_the_place_of_one_before) {
    (void)SAY(L("HMSET"), L(S), L("token"), L(OTHER), L("until"), L("1700000099000000"), L("fence"),
              L("1700000000000009"), L("claim"), L(INBOX));
    assert_int_equal(keep_first("0"), 1);
    S_HAS("token", TOKEN);
    S_HAS("until", "1700000009000000");
    S_HAS("fence", "1700000000000009");
    S_HAS("claim", "");
}

/* The line has given it for a few seconds. */
TEST(the_first_claims_what_was_given_for_all_its_lifetime) {
    (void)SAY(L("HMSET"), L(S), L("claim"), L(INBOX));
    assert_int_equal(keep_first("0"), 1);
    assert_token_lasts(9000);
    S_HAS("claim", "");
    S_HAS("until", "1700000009000000");
}

/* By one whose later renewal has come first. */
TEST(a_claim_moves_nothing_back) {
    (void)SAY(L("PEXPIRE"), L(K), L("60000"));
    (void)SAY(L("HMSET"), L(S), L("claim"), L(INBOX), L("until"), L("1700000060000000"));
    assert_int_equal(keep_first("0"), 1);
    assert_token_lasts(60000);
    S_HAS("claim", "");
    S_HAS("until", "1700000060000000");
}

TEST(the_first_comes_too_late_for_anything) {
    (void)SAY(L("HMSET"), L(S), L("claim"), L(INBOX));
    assert_int_equal(keep_first("1699999999999999"), -2);
    assert_token_lasts(TOKEN_MS);
    S_HAS("claim", INBOX);
}

TEST(where_the_sidecar_may_not_be_written_the_first_says_so) {
    (void)SAY(L("DEL"), L(S));
    fake_redis_deny(server, "HMSET", FAKE_NOPERM);
    assert_int_equal(say_first("0")->type, TL_REPLY_ERROR);
    K_HOLDS(TOKEN);
}
