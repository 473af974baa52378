/*
 * The script that lets a lock rest, executed where K holds a stamp: what it leaves in K and S for legacy clients and for ours.
 */
#include "script_feed.h"

#define STAMP "1700000060000"    /* a minute from now */
#define LOSERS "1700000060400"   /* one that a racing loser left */
#define UNTIL "1700000061000000" /* M after STAMP */
#define M_MS "1000"
#define GRACE_MS "3600000"
#define GRACE INT64_C(3600000)
#define OF(pattern, unit) L(""), L(pattern), L(unit), L(M_MS), L(GRACE_MS)
#define OF_UNIT_MS OF("%.0f", "1")

static int set_up(void **state) {
    (void)serve(state);
    (void)SAY(L("HMSET"), L(S), L("token"), L(TOKEN), L("value"), L(STAMP), L("until"), L(UNTIL),
              L("fence"), L("7"), L("since"), L("1699999999000000"), L("owner"), L("host 42 demo"));
    (void)SAY(L("SET"), L(K), L(STAMP), L("PX"), L("3660000"));
    return 0;
}

TESTS_WITH(set_up, end_serving);

static void anew(void) {
    (void)end_serving(NULL);
    (void)set_up(NULL);
}

#define REST(left_ms, latest_us, ...)                                                              \
    SAY(L("EVAL"), tl__script_text(TL_SCRIPT_REST), L("3"), L(K), L(S), L(LINE), L(TOKEN),         \
        L(left_ms), L(latest_us), L(NOW), L("host 42 demo"), L("7"), __VA_ARGS__)
/* For 100 s from the acquire, which was a second ago by the latest idea. */
#define RESTS(...) REST("99500", "1700000099000000", L(""), __VA_ARGS__)

static int64_t left_ms(void) {
    return number_of(SAY(L("PTTL"), L(K)));
}

/* ---- a stamp that rests ------------------------------------------------------------------------ */

/* So that no legacy client calls it expired within the rest, whose clock is M ahead. */
TEST(the_stamp_ends_m_after_the_rest_and_the_sidecar_binds_m_longer) {
    assert_int_equal(number_of(RESTS(OF_UNIT_MS)), 1);
    K_HOLDS("1700000100000");
    S_HAS("token", "resting " NOW " " TOKEN);
    S_HAS("value", "1700000100000");
    S_HAS("until", "1700000101000000");
    S_HAS("spent", TOKEN);
    S_HAS("fence", "7");
    S_HAS("owner", "host 42 demo");
    assert_int_equal(left_ms(), 100001 + GRACE);
    assert_true(number_of(SAY(L("PTTL"), L(S))) > left_ms());
}

TEST(a_rest_that_is_shorter_moves_our_own_stamp_back) {
    assert_int_equal(number_of(REST("10000", "1700000009000000", L(""), OF_UNIT_MS)), 1);
    K_HOLDS("1700000010000");
    S_HAS("until", "1700000011000000");
}

TEST(equal_bytes_are_moved_only_for_the_token_that_the_sidecar_names) {
    (void)SAY(L("HMSET"), L(S), L("token"), L(OTHER));
    holds("answer", REST("10000", "0", L(""), OF_UNIT_MS), STAMP);
    K_HOLDS(STAMP);
    S_HAS("token", OTHER);
    S_HAS("spent", NULL);
}

TEST(the_number_is_written_as_the_dialect_has_it_and_rounded_up) {
    (void)REST("99500", "1700000099000001", L(""), OF(TOKEN ":%.0f", "1"));
    K_HOLDS(TOKEN ":1700000100001");
    anew();
    (void)REST("99500", "1700000099000001", L(""), OF("%.0f-" TOKEN, "1000"));
    K_HOLDS("1700000101-" TOKEN);
    anew();
    (void)REST("99500", "1700000099000000", L(""), OF("%.0f.000000", "1000"));
    K_HOLDS("1700000100.000000");
}

/* The server counts from the acquire that the sidecar has noted. */
TEST(an_adopted_lock_rests_from_its_acquire_on) {
    assert_int_equal(number_of(REST("500000", "0", L("100000"), OF_UNIT_MS)), 1);
    K_HOLDS("1700000101000");
}

/* From M before its end on a legacy client may have read that it has expired: its GETSET may come behind the rest. */
TEST(a_stamp_that_may_be_called_expired_does_not_rest) {
    fake_redis_set_time(server, INT64_C(1700000059000000) - 1);
    assert_int_equal(number_of(RESTS(OF_UNIT_MS)), 1);
    anew();
    fake_redis_set_time(server, INT64_C(1700000059000000));
    holds("answer", RESTS(OF_UNIT_MS), STAMP);
    K_HOLDS(STAMP);
    S_HAS("token", TOKEN);
    anew();
    (void)SAY(L("SET"), L(K), L(LOSERS));
    fake_redis_set_time(server, INT64_C(1700000059400000));
    holds("answer", RESTS(OF_UNIT_MS, L(LOSERS), L(LOSERS)), LOSERS);
    K_HOLDS(LOSERS);
}

/* A renewal has made it a token, its answer lost. */
TEST(a_token_rests_as_a_token) {
    (void)SAY(L("SET"), L(K), L(TOKEN));
    assert_int_equal(number_of(RESTS(OF_UNIT_MS)), 1);
    K_HOLDS("resting " NOW " " TOKEN);
    S_HAS("value", "resting " NOW " " TOKEN);
    S_HAS("until", "1700000099000000");
    assert_int_equal(left_ms(), 99001);
}

TEST(a_repeated_request_moves_nothing) {
    (void)RESTS(OF_UNIT_MS);
    fake_redis_set_time(server, NOW_US + 5000000);
    assert_int_equal(number_of(RESTS(OF_UNIT_MS)), 1);
    K_HOLDS("1700000100000");
    S_HAS("until", "1700000101000000");
    S_HAS("token", "resting " NOW " " TOKEN);
}

/* ---- what else K may hold ---------------------------------------------------------------------- */

/* Whether a racing loser has left it the reader judges; until then S binds as before. */
TEST(anothers_stamp_is_told_and_the_sidecar_stays) {
    (void)SAY(L("SET"), L(K), L(LOSERS));
    holds("answer", RESTS(OF_UNIT_MS), LOSERS);
    K_HOLDS(LOSERS);
    S_HAS("token", TOKEN);
    S_HAS("until", UNTIL);
}

TEST(a_losers_stamp_is_replaced_by_its_bytes_and_never_moved_back) {
    (void)SAY(L("SET"), L(K), L(LOSERS));
    assert_int_equal(number_of(RESTS(OF_UNIT_MS, L(LOSERS), L(LOSERS))), 1);
    K_HOLDS("1700000100000");
    anew();
    (void)SAY(L("SET"), L(K), L(LOSERS));
    assert_int_equal(number_of(REST("10000", "0", L(""), OF_UNIT_MS, L(LOSERS), L(LOSERS))), 1);
    K_HOLDS(LOSERS);
    S_HAS("value", LOSERS);
    S_HAS("until", "1700000061400000");
    S_HAS("token", "resting " NOW " " TOKEN);
    anew();
    (void)SAY(L("SET"), L(K), L("1700000060401"));
    holds("answer", RESTS(OF_UNIT_MS, L(LOSERS), L(LOSERS)), "1700000060401");
}

/* In a cluster: a renewal of K alone has written it while the slot was being moved. */
TEST(a_stamp_that_the_sidecar_has_noted_is_ours) {
    (void)SAY(L("HMSET"), L(S), L("next"), L(TOKEN " " STAMP " 1700000070000"));
    (void)SAY(L("SET"), L(K), L("1700000070000"));
    assert_int_equal(number_of(RESTS(OF_UNIT_MS)), 1);
    K_HOLDS("1700000100000");
    anew();
    (void)SAY(L("HMSET"), L(S), L("next"), L(OTHER " " STAMP " 1700000070000"));
    (void)SAY(L("SET"), L(K), L("1700000070000"));
    holds("answer", RESTS(OF_UNIT_MS), "1700000070000");
}

TEST(a_stamp_that_was_deleted_does_not_rest_and_the_sidecar_lets_others_in) {
    (void)SAY(L("DEL"), L(K));
    assert_int_equal(number_of(RESTS(OF_UNIT_MS)), -1);
    K_HOLDS(NULL);
    S_HAS("token", "");
    S_HAS("spent", TOKEN);
}

/* S would not know the new one, which then bound for all of its lifetime, an hour longer. */
TEST(where_the_sidecar_cannot_be_written_the_stamp_stays) {
    fake_redis_deny(server, "HMSET", FAKE_NOPERM);
    assert_int_equal(RESTS(OF_UNIT_MS)->type, TL_REPLY_ERROR);
    K_HOLDS(STAMP);
    S_HAS("token", TOKEN);
    S_HAS("value", STAMP);
    fake_redis_deny(server, "HMSET", FAKE_ALLOW);
    assert_int_equal(number_of(RESTS(OF_UNIT_MS)), 1);
}

/* ---- who comes after --------------------------------------------------------------------------- */

static int64_t take(const char *token, const char *expect) {
    const tl_reply *reply = SAY(L("EVAL"), tl__script_text(TL_SCRIPT_ACQUIRE), L("4"), L(K), L(S),
                                L(F), L(LINE), tl__bytes_of(token), L("3660000"), L("0"), L(NOW),
                                L(NOW), L("host 43 demo"), L("1"), L("1700000200000"),
                                tl__bytes_of(expect), L("@1700000201000000"));
    return number_of(tl__reply_item(reply, 0));
}

TEST(nobody_acquires_it_while_it_rests_even_if_the_stamp_was_deleted) {
    (void)RESTS(OF_UNIT_MS);
    assert_int_equal(take(OTHER, ""), 0);
    assert_int_equal(take(OTHER, "=1700000100000"), 0);
    (void)SAY(L("DEL"), L(K));
    fake_redis_set_time(server, NOW_US + 101000000);
    assert_int_equal(take(OTHER, ""), 0);
    fake_redis_set_time(server, NOW_US + 101000001);
    assert_int_equal(take(OTHER, ""), 1);
}

TEST(no_late_request_of_the_former_hold_ends_it) {
    (void)RESTS(OF_UNIT_MS);
    assert_int_equal(take(TOKEN, ""), -2);
    const tl_reply *reply = SAY(L("EVAL"), tl__script_text(TL_SCRIPT_RENEW), L("2"), L(K), L(S),
                                L(NOW), L("3600000"), L("host 42 demo"), L(TOKEN),
                                L("1700000200000"), L("3660000"), L("@1700000201000000"), L("7"),
                                L("0"), L(NOW));
    assert_int_equal(number_of(tl__reply_item(tl__reply_item(reply, 2), 0)), 0);
    holds("answer",
          SAY(L("EVAL"), tl__script_text(TL_SCRIPT_RELEASE), L("4"), L(K), L(S), L(F), L(LINE),
              L(TOKEN)),
          "1700000100000");
    K_HOLDS("1700000100000");
    S_HAS("token", "resting " NOW " " TOKEN);
    S_HAS("until", "1700000101000000");
}
