/*
 * The script that extends locks the short way, executed: what it says was extended was, K and S both, and of whatever
 * else it finds it tells the number and leaves the rest to the long way.
 */
#include <stdlib.h>

#include "script_feed.h"

#define LOCKS 5
#define TTL "9000"
#define TTL_MS 9000
#define LEFT_MS 4000
#define UNTIL "1700000004000000"
#define LATER "1700000009000000"

static const uint32_t levels[] = {FAKE_LEVEL(3, 2, 0), FAKE_LEVEL(6, 2, 14), FAKE_LEVEL(7, 0, 15)};
#define LEVELS (sizeof levels / sizeof *levels)

static char key[LOCKS][16], sidecar[LOCKS][32], token[LOCKS][40];

/* Each lock is held for 4 s, and S knows it. */
static void set_up_at(uint32_t level) {
    fake_redis_set_level(server, level);
    (void)SAY(L("FLUSHALL"));
    for (int i = 0; i < LOCKS; i++) {
        (void)snprintf(key[i], sizeof key[i], "jobs:%d", i);
        (void)snprintf(sidecar[i], sizeof sidecar[i], "tidelock:{jobs:%d}", i);
        (void)snprintf(token[i], sizeof token[i], "00000000-0000-4000-8000-00000000000%d", i);
        tl_bytes t = tl__bytes_of(token[i]), s = tl__bytes_of(sidecar[i]);
        (void)SAY(L("PSETEX"), tl__bytes_of(key[i]), L("4000"), t);
        (void)SAY(L("HMSET"), s, L("token"), t, L("value"), t, L("until"), L(UNTIL), L("fence"),
                  L("7"));
        (void)SAY(L("PEXPIRE"), s, L("3600000"));
    }
}

TESTS_WITH(serve, end_serving);

static const tl_reply *refresh_by(const char *not_after) {
    tl_bytes argv[3 + 3 * LOCKS + 2] = {L("EVAL"), tl__script_text(TL_SCRIPT_REFRESH), L("10")};
    size_t n = 3;
    for (int i = 0; i < LOCKS; i++) {
        argv[n++] = tl__bytes_of(key[i]);
        argv[n++] = tl__bytes_of(sidecar[i]);
    }
    for (int i = 0; i < LOCKS; i++)
        argv[n++] = tl__bytes_of(token[i]);
    argv[n++] = tl__bytes_of(not_after);
    argv[n++] = L(TTL);
    return say(argv, n);
}

/* What is told behind TIME, as text: "1 3". */
static const char *told(const char *not_after) {
    static char text[64];
    const tl_reply *r = refresh_by(not_after);
    int64_t us = 0;
    size_t n = 0;
    text[0] = '\0';
    assert_true(tl__reply_time(r, 0, &us));
    assert_int_equal(us, NOW_US);
    for (size_t i = 2; i < r->count; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%lld", n ? " " : "",
                              (long long)number_of(&r->items[i]));
    return text;
}

static int64_t left_of(const char *k) {
    return number_of(SAY(L("PTTL"), tl__bytes_of(k)));
}

static void assert_left(int i, int64_t ms, const char *until) {
    assert_int_equal(left_of(key[i]), ms);
    holds("until", SAY(L("HGET"), tl__bytes_of(sidecar[i]), L("until")), until);
}

/* All but that one are extended, whatever it is about it. */
static void assert_only_odd(int odd) {
    char number[8];
    (void)snprintf(number, sizeof number, "%d", odd + 1);
    assert_string_equal(told("0"), number);
    for (int i = 0; i < LOCKS; i++)
        if (i != odd)
            assert_left(i, TTL_MS, LATER);
}

TEST(all_are_extended_and_bind_for_as_long) {
    for (size_t l = 0; l < LEVELS; l++) {
        set_up_at(levels[l]);
        assert_string_equal(told("0"), "");
        for (int i = 0; i < LOCKS; i++) {
            assert_left(i, TTL_MS, LATER);
            assert_int_equal(left_of(sidecar[i]), 3600000); /* that is not what changes */
        }
    }
}

TEST(one_that_is_anothers_is_left_to_him) {
    for (size_t l = 0; l < LEVELS; l++) {
        set_up_at(levels[l]);
        (void)SAY(L("PSETEX"), tl__bytes_of(key[1]), L("4000"), L(OTHER));
        assert_only_odd(1);
        assert_left(1, LEFT_MS, UNTIL);
    }
}

TEST(one_that_is_gone_is_not_made_again) {
    for (size_t l = 0; l < LEVELS; l++) {
        set_up_at(levels[l]);
        (void)SAY(L("DEL"), tl__bytes_of(key[2]));
        assert_only_odd(2);
        assert_left(2, -2, UNTIL);
    }
}

TEST(one_of_another_type_fails_alone) {
    for (size_t l = 0; l < LEVELS; l++) {
        set_up_at(levels[l]);
        (void)SAY(L("DEL"), tl__bytes_of(key[0]));
        (void)SAY(L("LPUSH"), tl__bytes_of(key[0]), L("x"));
        assert_only_odd(0);
    }
}

TEST(none_is_shortened) {
    for (size_t l = 0; l < LEVELS; l++) {
        set_up_at(levels[l]);
        (void)SAY(L("PEXPIRE"), tl__bytes_of(key[3]), L("20000"));
        assert_only_odd(3);
        assert_left(3, 20000, UNTIL);
    }
}

/* Nor one that somebody has given no end: the long way gives it one. */
TEST(one_without_an_end_is_left_as_it_is) {
    for (size_t l = 0; l < LEVELS; l++) {
        set_up_at(levels[l]);
        (void)SAY(L("PERSIST"), tl__bytes_of(key[3]));
        assert_only_odd(3);
        assert_left(3, -1, UNTIL);
    }
}

/* It was evicted, or a server that took over doesn't have it. */
TEST(one_whose_sidecar_is_gone_is_told_and_leaves_nothing_for_good) {
    for (size_t l = 0; l < LEVELS; l++) {
        set_up_at(levels[l]);
        (void)SAY(L("DEL"), tl__bytes_of(sidecar[4]));
        assert_only_odd(4);
        assert_int_equal(left_of(sidecar[4]), 3600000);
        holds("token", SAY(L("HGET"), tl__bytes_of(sidecar[4]), L("token")), NULL);
    }
}

TEST(one_whose_sidecar_is_of_another_type_fails_alone) {
    for (size_t l = 0; l < LEVELS; l++) {
        set_up_at(levels[l]);
        tl_bytes s = tl__bytes_of(sidecar[4]);
        (void)SAY(L("SET"), s, L("of somebody"));
        assert_string_equal(told("0"), "5");
        assert_int_equal(left_of(sidecar[4]), -1);
        holds("S", SAY(L("GET"), s), "of somebody");
    }
}

TEST(a_command_that_is_forbidden_is_told_of_all_that_need_it) {
    set_up_at(FAKE_LEVEL(7, 0, 15));
    fake_redis_deny(server, "HSET", FAKE_NOPERM);
    assert_string_equal(told("0"), "1 2 3 4 5");
    set_up_at(FAKE_LEVEL(7, 0, 15));
    fake_redis_deny(server, "PEXPIRE", FAKE_NOPERM);
    assert_string_equal(told("0"), "1 2 3 4 5");
}

TEST(what_may_not_be_read_refuses_all) {
    set_up_at(FAKE_LEVEL(7, 0, 15));
    fake_redis_deny(server, "MGET", FAKE_NOPERM);
    assert_int_equal(refresh_by("0")->type, TL_REPLY_ERROR);
    assert_left(0, LEFT_MS, UNTIL);
}

TEST(past_its_limit_it_does_nothing) {
    set_up_at(FAKE_LEVEL(7, 0, 15));
    assert_string_equal(told("1699999999999999"), "0");
    for (int i = 0; i < LOCKS; i++)
        assert_left(i, LEFT_MS, UNTIL);
    assert_string_equal(told(NOW), "");
}

/* Of two the older arrives last, but no earlier than the newer: it moves nothing back. */
TEST(one_that_was_held_up_moves_nothing_back) {
    for (size_t l = 0; l < LEVELS; l++) {
        set_up_at(levels[l]);
        assert_string_equal(told("0"), "");
        assert_string_equal(told("0"), "1 2 3 4 5");
        for (int i = 0; i < LOCKS; i++)
            assert_left(i, TTL_MS, LATER);
    }
}

TEST(below_3_2_it_says_that_it_cannot) {
    set_up_at(FAKE_LEVEL(2, 8, 0));
    const tl_reply *r = refresh_by("0");
    assert_int_equal(r->count, 1);
    assert_int_equal(number_of(&r->items[0]), 0);
    assert_left(0, LEFT_MS, UNTIL);
}
