/*
 * A lock that rests, as a look, a scan and a break find it: it is taken, nobody holds it, and those who look learn
 * who held it last, since when it rests, and until when.
 */
#include "script_feed.h"

#include "protocol/look.h"

#define REST_MS 3600000

/* TOKEN held K for a minute, and left it to rest; K alone: S knows nothing of it. */
static void rest(bool alone) {
    if (!alone)
        (void)SAY(L("HMSET"), L(S), L("token"), L(TOKEN), L("value"), L(TOKEN), L("until"),
                  L("1700000009000000"), L("fence"), L("7"), L("since"), L("1699999940000000"),
                  L("owner"), L("db1 812 nightly"));
    (void)SAY(L("SET"), L(K), L(TOKEN), L("PX"), L("9000"));
#define REST_ARGS L(TOKEN), L("3600000"), L("0"), L(NOW), L("db1 812 nightly"), L("7")
    const tl_reply *reply = alone ? SAY(L("EVAL"), tl__script_text(TL_SCRIPT_REST), L("1"), L(K),
                                        REST_ARGS)
                                  : SAY(L("EVAL"), tl__script_text(TL_SCRIPT_REST), L("3"), L(K),
                                        L(S), L(LINE), REST_ARGS);
    assert_int_equal(number_of(reply), 1);
}

static tl_lock_info look(void) {
    const tl_reply *reply = SAY(L("EVAL"), tl__script_text(TL_SCRIPT_LOOK), L("3"), L(K), L(S),
                                L(LINE));
    tl_lock_info info;
    tl_bytes kind;
    int64_t now_us;
    assert_true(tl__reply_text(tl__reply_item(reply, 0), &kind));
    assert_true(tl__reply_time(reply, 8, &now_us));
    tl__look_fill(&info, NULL, L(K), kind, reply, now_us);
    return info;
}

static int64_t remove_seen(const char *value, const char *fence) {
    char seen[80];
    (void)snprintf(seen, sizeof seen, "=%s", value);
    return number_of(tl__reply_item(SAY(L("EVAL"), tl__script_text(TL_SCRIPT_BREAK), L("4"), L(K),
                                        L(S), L(F), L(LINE), tl__bytes_of(seen),
                                        tl__bytes_of(fence), L("an operator"), L("3600000")),
                                    0));
}

static void assert_rests(const tl_lock_info *info, int64_t rested_ms) {
    int64_t end_ms = NOW_US / 1000 + REST_MS;
    assert_true(info->held && info->rests);
    assert_int_equal(info->protocol, TL_TOKEN);
    assert_false(info->guessed);
    assert_string_equal(info->oddity, "");
    assert_string_equal(info->value, "resting " TOKEN);
    assert_int_equal(info->held_ms, -1);
    assert_int_equal(info->rested_ms, rested_ms);
    assert_in_range(info->remaining_ms, REST_MS - rested_ms, REST_MS - rested_ms + 1);
    assert_in_range(info->rest_end_ms, end_ms, end_ms + 1);
    assert_true(tl__look_is_lock(info, L(K)));
}

TESTS_WITH(serve, end_serving);

TEST(a_look_says_who_held_it_last_and_until_when_it_rests) {
    rest(false);
    fake_redis_set_time(server, NOW_US + 5000000);
    tl_lock_info info = look();
    assert_rests(&info, 5000);
    assert_true(info.by_tidelock);
    assert_int_equal(info.fence, 7);
    assert_string_equal(info.host, "db1");
    assert_string_equal(info.service, "nightly");
    assert_int_equal(info.pid, 812);
}

TEST(so_it_is_though_its_key_was_deleted) {
    rest(false);
    (void)SAY(L("DEL"), L(K));
    tl_lock_info info = look();
    assert_rests(&info, 0);
    assert_string_equal(info.host, "db1");
}

TEST(of_the_key_alone_the_last_holder_is_not_known) {
    rest(true);
    tl_lock_info info = look();
    assert_rests(&info, 0);
    assert_false(info.by_tidelock);
}

TEST(nothing_rests_after_its_end_nor_while_it_is_held) {
    rest(false);
    fake_redis_set_time(server, NOW_US + REST_MS * INT64_C(1000) + 2000);
    tl_lock_info info = look();
    assert_false(info.held || info.rests);
    assert_int_equal(info.rest_end_ms, 0);
    (void)SAY(L("SET"), L(K), L(OTHER), L("PX"), L("9000"));
    info = look();
    assert_true(info.held && !info.rests);
}

/* As a client of stamps leaves it: K has a stamp, and S says by its token that it is one of a rest. */
TEST(a_stamp_rests_when_its_sidecar_says_so) {
    (void)SAY(L("HMSET"), L(S), L("token"), L("resting " NOW " " TOKEN), L("value"),
              L("1700003600000"), L("until"), L("1700003600000000"), L("fence"), L("7"), L("owner"),
              L("db1 812 nightly"));
    (void)SAY(L("SET"), L(K), L("1700003600000"));
    fake_redis_set_time(server, NOW_US + 5000000);
    tl_lock_info info = look();
    assert_true(info.held && info.rests && info.by_tidelock);
    assert_int_equal(info.rested_ms, 5000);
    assert_string_equal(info.value, "1700003600000");
    (void)SAY(L("SET"), L(K), L("1700003600001")); /* another's by now */
    info = look();
    assert_true(info.held && !info.rests);
}

TEST(a_scan_finds_it) {
    tl_lock_info info;
    rest(false);
    const tl_reply *reply = SAY(L("EVAL"), tl__script_text(TL_SCRIPT_SCAN), L("0"), L("0"), L(K),
                                L("100"), L("128"), L("16384"), L(" "));
    assert_int_equal(reply->count, 4);
    tl__look_fill(&info, NULL, L(K), L("string"), tl__reply_item(reply, 3), NOW_US);
    assert_rests(&info, 0);
    assert_string_equal(info.host, "db1");
}

/* ---- removing it ------------------------------------------------------------------------------- */

TEST(a_break_ends_the_rest_that_was_seen_and_no_other) {
    rest(false);
    assert_int_equal(remove_seen("resting " OTHER, "7"), 0);
    assert_int_equal(remove_seen("resting " TOKEN, "8"), 0);
    assert_int_equal(remove_seen("resting " TOKEN, "7"), 1);
    K_HOLDS(NULL);
    S_HAS("token", "");
    S_HAS("broken", "an operator");
    assert_false(look().held);
}

/* Else a request of its last holder that arrives now would acquire it. */
TEST(the_token_of_the_last_holder_stays_spent_after_a_break) {
    rest(false);
    assert_int_equal(remove_seen("resting " TOKEN, "7"), 1);
    S_HAS("spent", TOKEN);
    rest(true);
    assert_int_equal(remove_seen("resting " TOKEN, ""), 1);
    S_HAS("spent", TOKEN);
}
