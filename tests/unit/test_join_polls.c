/*
 * The queue and its waiters that hear nothing, and poll: when such a waiter is called, how long its turn lasts, and what
 * it costs the others if it is gone.
 */
#include "script_feed.h"

#define A "tidelock:inbox:a"
#define B "tidelock:inbox:b"
#define SEC 1000000

TESTS_WITH(serve, end_serving);

/* As the last answer said, with the time of that. */
typedef struct {
    int64_t status, left, before, all;
    char place[64];
} polled;

static polled look(const char *token, const char *px, const char *inbox, const char *place) {
    const tl_reply *r = SAY(L("EVAL"), tl__script_text(TL_SCRIPT_JOIN), L("4"), L(K), L(S), L(F),
                            L(LINE), tl__bytes_of(token), tl__bytes_of(px), L("0"), L("owner"),
                            L("64"), tl__bytes_of(inbox), tl__bytes_of(place));
    tl_bytes found = {0};
    int64_t time_us = 0;
    if (r->type == TL_REPLY_ERROR)
        fail_msg("%.*s", (int)r->text.n, r->text.p);
    polled ret = {.status = number_of(tl__reply_item(r, 0)),
                  .left = number_of(tl__reply_item(r, 2)),
                  .before = number_of(tl__reply_item(r, 7)),
                  .all = number_of(tl__reply_item(r, 8))};
    assert_true(tl__reply_time(r, 4, &time_us));
    if (tl__reply_text(tl__reply_item(r, 6), &found) && found.n > 0)
        (void)snprintf(ret.place, sizeof ret.place, "%.*s %lld", (int)found.n, found.p,
                       (long long)time_us);
    return ret;
}

static polled poll_at(int64_t us, const char *token, const char *place) {
    fake_redis_set_time(server, NOW_US + us);
    return look(token, "9000?", "poll", place);
}

/* One that hears. */
static polled wait_at(int64_t us, const char *token, const char *inbox) {
    fake_redis_set_time(server, NOW_US + us);
    return look(token, "9000?", inbox, "");
}

static void hold(const char *token) {
    (void)SAY(L("PSETEX"), L(K), L("60000"), tl__bytes_of(token));
    (void)SAY(L("HMSET"), L(S), L("token"), tl__bytes_of(token), L("value"), tl__bytes_of(token),
              L("until"), L("1700000060000000"), L("fence"), L("7"));
}

static int64_t release_at(int64_t us, const char *token) {
    fake_redis_set_time(server, NOW_US + us);
    return number_of(SAY(L("EVAL"), tl__script_text(TL_SCRIPT_RELEASE), L("4"), L(K), L(S), L(F),
                         L(LINE), tl__bytes_of(token), L("62000")));
}

static int64_t queued(void) {
    return number_of(SAY(L("ZCARD"), L(LINE)));
}

TEST(a_waiter_that_polls_has_one_entry_at_one_place) {
    hold(THIRD);
    polled first = poll_at(0, TOKEN, ""), other = poll_at(1, OTHER, "");
    assert_int_equal(first.status, 0);
    assert_int_equal(other.before, 1);
    for (int i = 1; i < 5; i++) {
        polled again = poll_at(i * SEC / 4, TOKEN, first.place);
        assert_int_equal(again.before, 0);
        assert_int_equal(again.all, 2);
        assert_memory_equal(again.place, first.place, strcspn(first.place, " "));
        first = again;
    }
}

TEST(its_turn_is_kept_for_a_second_and_it_takes_the_lock_by_itself) {
    listener s;
    listen_to(&s, S);
    hold(THIRD);
    polled mine = poll_at(0, TOKEN, "");
    (void)poll_at(1, OTHER, "");
    assert_int_equal(release_at(SEC, THIRD), 1);
    K_HOLDS(NULL);
    S_HAS("token", TOKEN);
    S_HAS("claim", "poll");
    S_HAS("until", "1700000002000000");
    assert_int_equal(s.count, 0); /* nobody there can act on it */
    assert_int_equal(poll_at(SEC + 1, OTHER, "").status, 0);
    polled taken = poll_at(2 * SEC, TOKEN, mine.place);
    assert_int_equal(taken.status, 1);
    assert_int_equal(taken.left, 9000);
    K_HOLDS(TOKEN);
    S_HAS("claim", "");
    S_HAS("until", "1700000011000000");
}

/* It polls no more often for that. */
TEST(its_turn_is_no_shorter_for_a_short_lifetime) {
    hold(THIRD);
    (void)look(TOKEN, "100?", "poll", "");
    assert_int_equal(release_at(0, THIRD), 1);
    S_HAS("until", "1700000001000000");
}

TEST(a_waiter_with_an_inbox_is_called_for_five_seconds_as_before) {
    listener a;
    listen_to(&a, A);
    hold(THIRD);
    (void)wait_at(0, TOKEN, A);
    assert_int_equal(release_at(0, THIRD), 1);
    S_HAS("claim", A);
    S_HAS("until", "1700000005000000");
}

TEST(a_waiter_that_polls_is_never_set_the_key) {
    hold(THIRD);
    (void)look(TOKEN, "9000", "poll", ""); /* by its words it might be */
    assert_int_equal(release_at(0, THIRD), 1);
    K_HOLDS(NULL);
    S_HAS("token", "");
    assert_int_equal(queued(), 0);
}

static void release_after_poll(int64_t us) {
    static listener b;
    listen_to(&b, B);
    hold(THIRD);
    (void)poll_at(0, TOKEN, "");
    (void)wait_at(0, OTHER, B);
    assert_int_equal(release_at(us, THIRD), 1);
}

TEST(one_that_came_within_two_seconds_has_its_turn) {
    release_after_poll(2 * SEC);
    S_HAS("token", TOKEN);
}

/* It costs nobody anything. */
TEST(one_that_has_not_come_for_two_seconds_is_passed_over_at_once) {
    release_after_poll(2 * SEC + 1);
    S_HAS("token", OTHER);
    assert_int_equal(queued(), 0);
}

TEST(one_that_does_not_come_in_its_turn_is_passed_over_and_no_other_goes_with_it) {
    hold(THIRD);
    (void)poll_at(0, TOKEN, "");
    polled other = poll_at(1, OTHER, ""), third = poll_at(2, "third", "");
    assert_int_equal(release_at(SEC, THIRD), 1);
    assert_int_equal(poll_at(2 * SEC, OTHER, other.place).status, 0);
    third = poll_at(2 * SEC + 1, "third", third.place);
    assert_int_equal(third.status, 0);
    S_HAS("token", OTHER); /* it is its turn: nobody needs to release anything */
    assert_int_equal(third.all, 1);
    assert_int_equal(poll_at(3 * SEC, OTHER, other.place).status, 1);
    K_HOLDS(OTHER);
}

TEST(one_that_comes_late_has_its_place_again) {
    hold(THIRD);
    polled mine = poll_at(0, TOKEN, "");
    (void)poll_at(1, OTHER, "");
    assert_int_equal(release_at(SEC, THIRD), 1);
    fake_redis_set_time(server, NOW_US + 2 * SEC + 1);
    assert_int_equal(poll_at(2 * SEC + 1, TOKEN, mine.place).status, 1);
    K_HOLDS(TOKEN);
}

/* Whoever passed it over: a client of an earlier version finds that nobody listens, and removes the entry. */
TEST(one_that_was_removed_returns_to_its_place) {
    hold(THIRD);
    polled mine = poll_at(0, TOKEN, "");
    polled other = poll_at(1, OTHER, "");
    (void)SAY(L("DEL"), L(LINE));
    assert_int_equal(poll_at(2, OTHER, other.place).before, 0);
    mine = poll_at(SEC, TOKEN, mine.place);
    assert_int_equal(mine.before, 0);
    assert_int_equal(mine.all, 2);
}

TEST(the_next_that_hears_looks_and_minds_the_turn_of_one_that_polls) {
    listener a, b;
    listen_to(&a, A);
    listen_to(&b, B);
    hold(THIRD);
    (void)poll_at(0, TOKEN, "");
    (void)poll_at(1, "second", "");
    (void)wait_at(2, "gone", "tidelock:inbox:gone");
    (void)wait_at(3, OTHER, A);
    (void)wait_at(4, "last", B);
    assert_int_equal(release_at(SEC, THIRD), 1);
    assert_int_equal(a.count, 2); /* it has become the third, and: */
    assert_string_equal(a.last, "look " K);
    assert_int_equal(b.count, 0);
    polled told = wait_at(SEC, OTHER, A);
    assert_int_equal(told.status, 0);
    assert_int_equal(told.left, 1001);
}

TEST(those_that_poll_count_as_one_before_a_waiter_that_hears) {
    char token[16];
    hold(THIRD);
    for (int i = 0; i < 9; i++) {
        (void)snprintf(token, sizeof token, "p%d", i);
        assert_int_equal(poll_at(i, token, "").before, i);
    }
    assert_int_equal(wait_at(9, OTHER, A).before, 1);
}

TEST(one_that_gives_up_takes_its_entry_along) {
    char entry[128];
    hold(THIRD);
    polled mine = poll_at(0, TOKEN, "");
    (void)poll_at(1, OTHER, "");
    (void)snprintf(entry, sizeof entry, TOKEN " 9000? 64 poll:%s owner",
                   strchr(mine.place, ' ') + 1);
    holds("the answer",
          SAY(L("EVAL"), tl__script_text(TL_SCRIPT_RELEASE), L("4"), L(K), L(S), L(F), L(LINE),
              L(TOKEN), L("62000"), tl__bytes_of(entry)),
          THIRD);
    assert_int_equal(queued(), 1);
    assert_int_equal(release_at(SEC, THIRD), 1);
    S_HAS("token", OTHER);
}

TEST(where_nobody_may_be_told_one_that_polls_has_its_turn) {
    hold(THIRD);
    polled mine = poll_at(0, TOKEN, "");
    (void)wait_at(1, OTHER, A);
    fake_redis_deny(server, "PUBSUB", FAKE_NOPERM);
    fake_redis_deny(server, "PUBLISH", FAKE_NOPERM);
    assert_int_equal(release_at(SEC, THIRD), 1);
    S_HAS("token", TOKEN);
    assert_int_equal(poll_at(2 * SEC, TOKEN, mine.place).status, 1);
}
