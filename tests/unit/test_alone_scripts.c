/*
 * The scripts of one key each for an open slot: number.lua, bind.lua, unbind.lua, leave.lua, free.lua.
 */
#include "script_feed.h"

#define HOUR_MS 3600000

TESTS_WITH(serve, end_serving);

static const tl_reply *number(const char *n) {
    return SAY(L("EVAL"), tl__script_text(TL_SCRIPT_NUMBER), L("1"), L(F), tl__bytes_of(n), L(NOW));
}

static const tl_reply *bind_until(const char *token, const char *fence, const char *not_after) {
    return SAY(L("EVAL"), tl__script_text(TL_SCRIPT_BIND), L("1"), L(S), tl__bytes_of(token),
               L("30000"), L(NOW), L(NOW), tl__bytes_of(fence), L("host 1 x"),
               tl__bytes_of(not_after));
}

static const tl_reply *bind(const char *token, const char *fence) {
    return bind_until(token, fence, "0"); /* no limit */
}

static int64_t status_of(const tl_reply *reply) {
    return number_of(tl__reply_item(reply, 0));
}

TEST(numbers_are_larger_than_all_before_and_not_behind_the_clock) {
    assert_int_equal(number_of(number("1")), NOW_US);
    assert_int_equal(number_of(number("1")), NOW_US + 1);
    assert_int_equal(number_of(number("64")), NOW_US + 65);
    fake_redis_set_time(server, NOW_US + 1000);
    assert_int_equal(number_of(number("2")), NOW_US + 1001);
    holds("F", SAY(L("GET"), L(F)), "1700000000001001");
}

TEST(a_counter_that_is_none_is_told) {
    (void)SAY(L("SET"), L(F), L("x"));
    assert_int_equal(number("1")->type, TL_REPLY_ERROR);
}

TEST(the_sidecar_says_who_holds_it_from_then_on) {
    assert_int_equal(status_of(bind(TOKEN, "500")), 1);
    S_HAS("token", TOKEN);
    S_HAS("value", TOKEN);
    S_HAS("fence", "500");
    S_HAS("until", "1700000030000000");
    S_HAS("owner", "host 1 x");
    assert_in_range(number_of(SAY(L("PTTL"), L(S))), HOUR_MS, 2 * HOUR_MS);
}

TEST(a_sidecar_that_binds_another_is_left) {
    (void)SAY(L("HSET"), L(S), L("token"), L(OTHER), L("until"), L("1700000000500000"));
    const tl_reply *reply = bind(TOKEN, "500");
    assert_int_equal(status_of(reply), 0);
    assert_int_equal(number_of(tl__reply_item(reply, 1)), 501);
    S_HAS("token", OTHER);
    fake_redis_set_time(server, NOW_US + 500001);
    assert_int_equal(status_of(bind(TOKEN, "500")), 1);
    S_HAS("token", TOKEN);
}

TEST(a_number_that_is_no_later_binds_nobody) {
    (void)SAY(L("HSET"), L(S), L("fence"), L("500"));
    assert_int_equal(status_of(bind(TOKEN, "500")), -1);
    S_HAS("token", NULL);
    assert_int_equal(status_of(bind(TOKEN, "501")), 1);
}

TEST(a_token_that_was_dropped_binds_nobody) {
    (void)SAY(L("HSET"), L(S), L("spent"), L(TOKEN));
    assert_int_equal(status_of(bind(TOKEN, "500")), -2);
    S_HAS("token", NULL);
}

TEST(what_comes_past_its_time_binds_nobody) {
    fake_redis_set_time(server, NOW_US + 1000);
    assert_int_equal(status_of(bind_until(TOKEN, "500", "1700000000000999")), -3);
    S_HAS("token", NULL);
    assert_int_equal(status_of(bind_until(TOKEN, "500", "1700000000001000")), 1);
    S_HAS("token", TOKEN);
}

static int64_t freed(const char *not_after) {
    return number_of(SAY(L("EVAL"), tl__script_text(TL_SCRIPT_FREE), L("1"), L(K), L(TOKEN), L(S),
                         tl__bytes_of(not_after)));
}

TEST(what_comes_past_its_time_gives_nothing_back) {
    (void)SAY(L("SET"), L(K), L(TOKEN));
    fake_redis_set_time(server, NOW_US + 1000);
    assert_int_equal(freed("1700000000000999"), -2);
    holds("K", SAY(L("GET"), L(K)), TOKEN);
    assert_int_equal(freed("1700000000001000"), 1);
    assert_int_equal(freed("1700000000001000"), -1);
    (void)SAY(L("SET"), L(K), L(TOKEN));
    assert_int_equal(freed("0"), 1); /* no limit */
}

TEST(who_gives_up_binds_nobody_any_more_and_another_is_left) {
    (void)bind(TOKEN, "500");
    assert_int_equal(
        number_of(SAY(L("EVAL"), tl__script_text(TL_SCRIPT_UNBIND), L("1"), L(S), L(OTHER))), 0);
    S_HAS("token", TOKEN);
    assert_int_equal(
        number_of(SAY(L("EVAL"), tl__script_text(TL_SCRIPT_UNBIND), L("1"), L(S), L(TOKEN))), 1);
    S_HAS("token", "");
    S_HAS("spent", TOKEN);
    assert_int_equal(status_of(bind(OTHER, "501")), 1);
}

#define INBOX(letter) "tidelock:inbox:" letter
#define ENTRY(token, letter) token " 9000 1 " INBOX(letter) " owner"

static int64_t leave(const char *entry) {
    return number_of(SAY(L("EVAL"), tl__script_text(TL_SCRIPT_LEAVE), L("1"), L(LINE),
                         tl__bytes_of(entry), L(K)));
}

TEST(who_leaves_the_line_calls_the_first_three_to_look) {
    static const char *const entries[] = {ENTRY(TOKEN, "a"), ENTRY(OTHER, "b"), ENTRY(THIRD, "c"),
                                          ENTRY("t", "d"), ENTRY("u", "e")};
    static const char *const inboxes[] = {INBOX("a"), INBOX("b"), INBOX("c"), INBOX("d"),
                                          INBOX("e")};
    listener all[5];
    for (size_t i = 0; i < 5; i++) {
        listen_to(&all[i], inboxes[i]);
        (void)SAY(L("ZADD"), L(LINE), tl__bytes(&"12345"[i], 1), tl__bytes_of(entries[i]));
    }
    assert_int_equal(leave(entries[0]), 3);
    assert_int_equal(number_of(SAY(L("ZCARD"), L(LINE))), 4);
    assert_int_equal(all[0].count, 0);
    assert_int_equal(all[4].count, 0);
    for (size_t i = 1; i < 4; i++)
        assert_string_equal(all[i].last, "look " K);
    assert_int_equal(leave(""), 3); /* of one who stood in none */
    assert_int_equal(number_of(SAY(L("ZCARD"), L(LINE))), 4);
    (void)SAY(L("DEL"), L(LINE));
    assert_int_equal(leave(""), 0);
}
