/*
 * The scripts of one key each for stamps in a slot that is being moved: note.lua and swap.lua.
 */
#include "script_feed.h"

#define HOUR "3600000"
#define FIRST "1700000060000"
#define SECOND "1700000080000"
#define THIRD_STAMP "1700000100000"
#define UNTIL "1700000081000000"

TESTS_WITH(serve, end_serving);

static void begin(void) {
    (void)SAY(L("HMSET"), L(S), L("token"), L(TOKEN), L("value"), L(FIRST), L("until"),
              L("1700000061000000"));
}

static const tl_reply *note(const char *token, const char *from, const char *next,
                            const char *replaced, const char *until) {
    return SAY(L("EVAL"), tl__script_text(TL_SCRIPT_NOTE), L("1"), L(S), tl__bytes_of(token),
               tl__bytes_of(from), tl__bytes_of(next), tl__bytes_of(replaced), tl__bytes_of(until),
               L(HOUR));
}

static const tl_reply *unbind(const char *token) {
    return SAY(L("EVAL"), tl__script_text(TL_SCRIPT_NOTE), L("1"), L(S), tl__bytes_of(token));
}

static void answers(const tl_reply *reply, const char *value, const char *from, const char *next) {
    assert_int_equal(number_of(tl__reply_item(reply, 0)), 1);
    holds("value", tl__reply_item(reply, 1), value);
    holds("from", tl__reply_item(reply, 2), from);
    holds("next", tl__reply_item(reply, 3), next);
}

static void refuses(const tl_reply *reply, int64_t left_ms) {
    assert_int_equal(number_of(tl__reply_item(reply, 0)), 0);
    assert_int_equal(number_of(tl__reply_item(reply, 1)), left_ms);
}

static const tl_reply *swap(const char *value, const char *not_after, const char *a,
                            const char *b) {
    return SAY(L("EVAL"), tl__script_text(TL_SCRIPT_SWAP), L("1"), L(K), tl__bytes_of(value),
               L("65000"), tl__bytes_of(not_after), L(S), tl__bytes_of(a), tl__bytes_of(b));
}

static int64_t status_of(const tl_reply *reply) {
    return number_of(tl__reply_item(reply, 0));
}

/* ---- S ----------------------------------------------------------------------------------------- */

TEST(what_is_noted_first_stays_until_it_is_replaced_by_name) {
    begin();
    answers(note(TOKEN, FIRST, SECOND, "", UNTIL), FIRST, FIRST, SECOND);
    answers(note(TOKEN, FIRST, THIRD_STAMP, "", UNTIL), FIRST, FIRST, SECOND);
    answers(note(TOKEN, FIRST, THIRD_STAMP, FIRST, UNTIL), FIRST, FIRST, SECOND);
    answers(note(TOKEN, SECOND, THIRD_STAMP, SECOND, UNTIL), FIRST, SECOND, THIRD_STAMP);
    answers(note(TOKEN, "", SECOND, THIRD_STAMP, UNTIL), FIRST, "", SECOND);
    S_HAS("value", FIRST);
}

TEST(what_a_hold_before_has_noted_is_nothing) {
    begin();
    (void)note(TOKEN, FIRST, SECOND, "", UNTIL);
    (void)SAY(L("HMSET"), L(S), L("token"), L(OTHER), L("value"), L(FIRST));
    answers(note(OTHER, FIRST, THIRD_STAMP, "", UNTIL), FIRST, FIRST, THIRD_STAMP);
}

TEST(others_are_bound_for_longer_and_never_for_less) {
    begin();
    (void)note(TOKEN, FIRST, SECOND, "", UNTIL);
    S_HAS("until", UNTIL);
    (void)note(TOKEN, FIRST, SECOND, "", "1700000070000000");
    S_HAS("until", UNTIL);
    assert_in_range(number_of(SAY(L("PTTL"), L(S))), 3599000, 3600000);
}

TEST(a_sidecar_that_names_another_or_nobody_is_left) {
    refuses(note(TOKEN, FIRST, SECOND, "", UNTIL), -1);
    assert_int_equal(number_of(SAY(L("EXISTS"), L(S))), 0);
    begin();
    refuses(note(OTHER, FIRST, SECOND, "", UNTIL), 61001);
    fake_redis_set_time(server, NOW_US + 61000001);
    refuses(note(OTHER, FIRST, SECOND, "", UNTIL), -1);
    S_HAS("token", TOKEN);
    S_HAS("next", NULL);
}

TEST(a_token_is_unbound_once) {
    begin();
    (void)note(TOKEN, FIRST, SECOND, "", UNTIL);
    answers(unbind(TOKEN), FIRST, FIRST, SECOND);
    S_HAS("token", "");
    S_HAS("spent", TOKEN);
    refuses(unbind(TOKEN), -1);
    refuses(note(TOKEN, FIRST, SECOND, "", UNTIL), -1);
    refuses(unbind(OTHER), -1);
}

/* ---- K ----------------------------------------------------------------------------------------- */

TEST(a_stamp_is_changed_by_what_it_is_alone) {
    (void)SAY(L("SET"), L(K), L(FIRST));
    assert_int_equal(status_of(swap(THIRD_STAMP, "0", SECOND, OTHER)), 0);
    K_HOLDS(FIRST);
    assert_int_equal(status_of(swap(SECOND, "0", OTHER, FIRST)), 1);
    K_HOLDS(SECOND);
    assert_int_equal(number_of(SAY(L("PTTL"), L(K))), 65000);
    assert_int_equal(status_of(swap(SECOND, "0", FIRST, FIRST)), 1); /* done before */
    K_HOLDS(SECOND);
}

TEST(a_stamp_that_is_gone_is_not_made) {
    assert_int_equal(status_of(swap(SECOND, "0", FIRST, FIRST)), -1);
    assert_int_equal(status_of(swap("", "0", FIRST, FIRST)), -1);
    K_HOLDS(NULL);
}

TEST(what_comes_past_its_time_changes_nothing) {
    (void)SAY(L("SET"), L(K), L(FIRST));
    fake_redis_set_time(server, NOW_US + 1000);
    assert_int_equal(status_of(swap(SECOND, "1700000000000999", FIRST, FIRST)), -2);
    assert_int_equal(status_of(swap("", "1700000000000999", FIRST, FIRST)), -2);
    K_HOLDS(FIRST);
    assert_int_equal(status_of(swap(SECOND, "1700000000001000", FIRST, FIRST)), 1);
    K_HOLDS(SECOND);
}

TEST(a_stamp_is_deleted_by_what_it_is_and_others_are_told) {
    (void)SAY(L("SET"), L(K), L(FIRST));
    assert_int_equal(status_of(swap("", "0", SECOND, OTHER)), 0);
    K_HOLDS(FIRST);
    assert_int_equal(status_of(swap("", "0", SECOND, FIRST)), 1);
    K_HOLDS(NULL);
}

TEST(a_key_of_another_kind_is_anothers) {
    (void)SAY(L("HSET"), L(K), L("f"), L("v"));
    assert_int_equal(status_of(swap(SECOND, "0", FIRST, FIRST)), 0);
    assert_int_equal(status_of(swap("", "0", FIRST, "")), 0);
    assert_int_equal(number_of(SAY(L("EXISTS"), L(K))), 1);
}

/* What it knows may be old: another has the lock by now. */
TEST(a_replica_says_nothing_of_what_it_doesnt_know) {
    begin();
    (void)SAY(L("SET"), L(K), L(FIRST));
    fake_redis_set_replica(server, true);
    assert_int_equal(note(OTHER, FIRST, SECOND, "", UNTIL)->type, TL_REPLY_ERROR);
    assert_int_equal(note(TOKEN, FIRST, SECOND, "", UNTIL)->type, TL_REPLY_ERROR);
    assert_int_equal(swap(SECOND, "0", OTHER, OTHER)->type, TL_REPLY_ERROR);
}
