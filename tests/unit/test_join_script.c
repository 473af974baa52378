/*
 * The script that stands in line, executed: whose turn it is, what place one has, and what becomes of a lock
 * that was given to one who is not there. How a lock is given is what with/grant.lua has, which the script that
 * releases uses, too.
 */
#include <string.h>

#include "script_feed.h"

#define A "tidelock:inbox:a"
#define B "tidelock:inbox:b"
#define C "tidelock:inbox:c"
#define FAIR "1"
#define LATER "1700000004000000" /* 4 s */
#define PAST "1699999999999999"

typedef struct {
    const char *token, *inbox, *not_after, *numbers, *place, *px;
} join;

TESTS_WITH(serve, end_serving);

static const tl_reply *say_join(join j) {
    return SAY(L("EVAL"), tl__script_text(TL_SCRIPT_JOIN), L("4"), L(K), L(S), L(F), L(LINE),
               tl__bytes_of(j.token), tl__bytes_of(j.px ? j.px : "9000"),
               tl__bytes_of(j.not_after ? j.not_after : "0"), L("owner"),
               tl__bytes_of(j.numbers ? j.numbers : FAIR), tl__bytes_of(j.inbox),
               tl__bytes_of(j.place ? j.place : ""));
}

/* Its answer, copied. */
typedef struct {
    int64_t status, left, fence, before, all, announced;
    char place[32];
} joined;

static joined do_join(join j) {
    const tl_reply *r = say_join(j);
    joined ret = {.status = -99};
    tl_bytes place = {0};
    if (r->type == TL_REPLY_ERROR)
        fail_msg("%.*s", (int)r->text.n, r->text.p);
    ret.status = number_of(tl__reply_item(r, 0));
    if (r->count < 10)
        return ret;
    ret.left = number_of(tl__reply_item(r, 2));
    ret.fence = number_of(tl__reply_item(r, 3));
    if (tl__reply_text(tl__reply_item(r, 6), &place))
        (void)snprintf(ret.place, sizeof ret.place, "%.*s", (int)place.n, place.p);
    ret.before = number_of(tl__reply_item(r, 7));
    ret.all = number_of(tl__reply_item(r, 8));
    ret.announced = number_of(tl__reply_item(r, 9));
    return ret;
}

#define JOIN(token_, inbox_, ...) do_join((join){.token = (token_), .inbox = (inbox_), __VA_ARGS__})

/* As one that comes for the first time, in fairness. */
static joined join_in(const char *token, const char *inbox) {
    return JOIN(token, inbox, .numbers = FAIR);
}

/* K is another's, for 4 s. */
static void hold_by(const char *token) {
    (void)SAY(L("PSETEX"), L(K), L("4000"), tl__bytes_of(token));
    (void)SAY(L("HMSET"), L(S), L("token"), tl__bytes_of(token), L("value"), tl__bytes_of(token),
              L("until"), L(LATER), L("fence"), L("7"));
}

/* It ends without a release: by itself, or S too. */
static void end_hold(void) {
    (void)SAY(L("DEL"), L(K));
    (void)SAY(L("HSET"), L(S), L("until"), L(PAST));
}

static int64_t release(const char *token) {
    return number_of(SAY(L("EVAL"), tl__script_text(TL_SCRIPT_RELEASE), L("4"), L(K), L(S), L(F),
                         L(LINE), tl__bytes_of(token)));
}

static int64_t line_length(void) {
    return number_of(SAY(L("ZCARD"), L(LINE)));
}

static void stand(const char *token, const char *inbox, const char *numbers, const char *place) {
    char entry[256];
    (void)snprintf(entry, sizeof entry, "%s 9000 %s %s owner", token, numbers, inbox);
    (void)SAY(L("ZADD"), L(LINE), tl__bytes_of(place), tl__bytes_of(entry));
    (void)SAY(L("HMSET"), L(S), L("line"), L(F));
}

/* ---- whose turn it is -------------------------------------------------------------------------- */

TEST(below_3_2_there_is_no_line) {
    static const uint32_t levels[] = {FAKE_LEVEL(2, 6, 17), FAKE_LEVEL(2, 8, 24),
                                      FAKE_LEVEL(3, 0, 7)};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        fake_redis_set_level(server, levels[i]);
        assert_int_equal(join_in(TOKEN, A).status, -3);
        K_HOLDS(NULL);
        assert_int_equal(line_length(), 0);
    }
}

TEST(a_free_lock_is_had_at_once_for_all_its_lifetime) {
    joined j = join_in(TOKEN, A);
    assert_int_equal(j.status, 1);
    assert_int_equal(j.left, 9000);
    assert_int_equal(j.fence, NOW_US + 1); /* its place was the number before */
    K_HOLDS(TOKEN);
    S_HAS("token", TOKEN);
    S_HAS("claim", ""); /* it was told by this answer */
    S_HAS("line", "");
    assert_int_equal(line_length(), 0);
}

TEST(a_place_is_kept_by_those_who_look) {
    hold_by(THIRD);
    joined first = join_in(TOKEN, A), second = join_in(OTHER, B);
    assert_int_equal(first.status, 0);
    assert_int_equal(first.announced, 1);
    assert_int_equal(first.left, 4000);
    assert_int_equal(first.before, 0);
    assert_int_equal(second.before, 1);
    assert_int_equal(second.all, 2);
    S_HAS("line", F);
    assert_string_not_equal(first.place, second.place);
    joined again = JOIN(TOKEN, A, .place = first.place);
    assert_string_equal(again.place, first.place);
    assert_int_equal(again.before, 0);
    assert_int_equal(again.all, 2);
    again = JOIN(TOKEN, A, .place = second.place); /* where it stands is better */
    assert_string_equal(again.place, first.place);
    assert_int_equal(again.before, 0);
}

TEST(a_late_repetition_costs_nobody_its_place) {
    hold_by(THIRD);
    joined first = join_in(TOKEN, A);
    (void)SAY(L("DEL"), L(LINE));
    joined other = join_in(OTHER, B);
    joined late = join_in(TOKEN, A); /* as the first time, when it knew of no place */
    assert_int_equal(late.before, 1);
    joined again = JOIN(TOKEN, A, .place = first.place);
    assert_string_equal(again.place, first.place);
    assert_int_equal(again.before, 0);
    assert_int_equal(JOIN(OTHER, B, .place = other.place).before, 1);
}

TEST(who_went_out_comes_back_to_its_place) {
    hold_by(THIRD);
    joined first = join_in(TOKEN, A), second = join_in(OTHER, B);
    (void)SAY(L("DEL"), L(LINE));
    assert_int_equal(JOIN(OTHER, B, .place = second.place).before, 0);
    assert_int_equal(JOIN(TOKEN, A, .place = first.place).before, 0);
    assert_int_equal(JOIN(OTHER, B, .place = second.place).before, 1);
}

/* Else nobody would hand the lock over any more. */
TEST(who_looks_notes_that_there_is_a_line_where_the_sidecar_was_evicted) {
    listener a;
    listen_to(&a, A);
    hold_by(THIRD);
    joined j = join_in(TOKEN, A);
    (void)SAY(L("DEL"), L(S));
    assert_int_equal(JOIN(TOKEN, A, .place = j.place).status, 0);
    S_HAS("line", F);
    assert_true(number_of(SAY(L("PTTL"), L(S))) >= 3600000);
    assert_int_equal(release(THIRD), 1);
    K_HOLDS(TOKEN);
}

TEST(of_one_inbox_only_the_first_is_before_others) {
    hold_by(THIRD);
    char token[40];
    for (int i = 0; i < 5; i++) {
        (void)snprintf(token, sizeof token, "a-%d", i);
        assert_int_equal(join_in(token, A).before, i);
    }
    assert_int_equal(join_in(TOKEN, B).before, 1);
    assert_int_equal(join_in(OTHER, B).before,
                     6); /* one of its own inbox is before it: that looks */
}

/* ---- what it finds ----------------------------------------------------------------------------- */

static void give_to(const char *token, const char *inbox) {
    hold_by(token);
    (void)SAY(L("HMSET"), L(S), L("claim"), tl__bytes_of(inbox));
}

TEST(a_look_claims_what_was_given_meanwhile) {
    give_to(TOKEN, A);
    joined j = JOIN(TOKEN, A, .numbers = "64");
    assert_int_equal(j.status, 1);
    assert_int_equal(j.left, 9000);
    assert_int_equal(j.fence, NOW_US); /* the first of 64, none of them had by another */
    assert_int_equal(number_of(SAY(L("GET"), L(F))), NOW_US + 63);
    assert_int_equal(number_of(SAY(L("PTTL"), L(K))), 9000);
    S_HAS("claim", "");
    S_HAS("until", "1700000009000000");
    S_HAS("fence", "1700000000000063");
}

/* Key by key, in a slot that was being moved, and was not believed then, perhaps as too few replicas had it: else the lock would
 * be given to him once more when he has released it. */
TEST(who_took_the_lock_by_himself_stands_in_line_no_more_when_he_looks) {
    hold_by(TOKEN);
    stand(TOKEN, A, FAIR, "5");
    stand("another", B, FAIR, "6");
    assert_int_equal(join_in(TOKEN, A).status, 1);
    assert_int_equal(line_length(), 1);
}

TEST(a_look_that_comes_too_late_claims_nothing) {
    give_to(TOKEN, A);
    assert_int_equal(JOIN(TOKEN, A, .not_after = PAST).status, 1);
    S_HAS("claim", A);
    S_HAS("until", LATER);
    assert_int_equal(number_of(SAY(L("PTTL"), L(K))), 4000);
    assert_int_equal(line_length(), 0);
}

/* Its answer may come in time all the same: the 64 that it then passes on are nobody else's. With the commands that
 * the doctor prints for a user of locks: HSET is not among them. */
TEST(a_look_that_comes_too_late_is_told_the_first_of_its_numbers) {
    give_to(TOKEN, A);
    fake_redis_deny(server, "HSET", FAKE_NOPERM);
    joined j = JOIN(TOKEN, A, .not_after = PAST, .numbers = "64");
    assert_int_equal(j.status, 1);
    assert_int_equal(j.fence, NOW_US);
    assert_int_equal(number_of(SAY(L("GET"), L(F))), NOW_US + 63);
    S_HAS("fence", "1700000000000063");
}

TEST(a_join_that_comes_too_late_stands_nowhere) {
    assert_int_equal(JOIN(TOKEN, A, .not_after = PAST).status, -1);
    K_HOLDS(NULL);
    assert_int_equal(line_length(), 0);
    S_HAS("line", NULL);
    assert_int_equal(JOIN(TOKEN, A, .not_after = NOW).status, 1);
}

TEST(a_token_that_was_given_up_stands_nowhere) {
    (void)SAY(L("HMSET"), L(S), L("spent"), L(TOKEN));
    assert_int_equal(join_in(TOKEN, A).status, -2);
    K_HOLDS(NULL);
    assert_int_equal(line_length(), 0);
    assert_int_equal(join_in(OTHER, A).status, 1);
}

/* By a request that was held up on its way: nobody believes in it. */
TEST(what_a_late_request_of_its_own_has_set_counts_for_nothing) {
    hold_by(THIRD);
    (void)SAY(L("PSETEX"), L(K), L("9000"), L(TOKEN));
    joined j = join_in(TOKEN, A);
    assert_int_equal(j.status, 0);
    assert_int_equal(j.left, 4001); /* so long S binds all others */
    K_HOLDS(NULL);
}

TEST(nor_does_it_pass_those_who_came_before) {
    listener b;
    listen_to(&b, B);
    stand(OTHER, B, FAIR, "5");
    (void)SAY(L("PSETEX"), L(K), L("9000"), L(TOKEN));
    joined j = join_in(TOKEN, A);
    assert_int_equal(j.status, 0);
    assert_int_equal(b.count, 1);
    K_HOLDS(OTHER);
}

TEST(a_key_of_another_kind_is_waited_for) {
    (void)SAY(L("RPUSH"), L(K), L("x"));
    assert_int_equal(join_in(TOKEN, A).status, 0);
    assert_int_equal(line_length(), 1);
}

TEST(who_may_not_look_at_the_lock_is_told_so) {
    fake_redis_deny(server, "GET", FAKE_NOPERM);
    join j = {.token = TOKEN, .inbox = A, .place = "5"}; /* draws no number */
    assert_int_equal(say_join(j)->type, TL_REPLY_ERROR);
    assert_int_equal(line_length(), 0);
}

TEST(a_counter_that_can_not_count_is_named) {
    static const char *const wrong[] = {"x", "-5", "1e3", "9007199254740991"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        (void)SAY(L("SET"), L(F), tl__bytes_of(wrong[i]));
        const tl_reply *r = say_join((join){.token = TOKEN, .inbox = A});
        assert_int_equal(r->type, TL_REPLY_ERROR);
        char words[256];
        (void)snprintf(words, sizeof words, "%.*s", (int)r->text.n, r->text.p);
        assert_non_null(strstr(words, F));
        K_HOLDS(NULL);
        assert_int_equal(line_length(), 0);
    }
}

/* The server's clock was ahead, and has been set right. */
TEST(a_counter_ahead_of_the_clock_is_no_reason_not_to_wait) {
    (void)SAY(L("SET"), L(F), L("1700172800000000"));
    hold_by(THIRD);
    assert_int_equal(join_in(TOKEN, A).status, 0);
    assert_int_equal(line_length(), 1);
}

/* ---- to whom it is given ----------------------------------------------------------------------- */

TEST(a_lock_that_is_released_is_given_to_the_first_who_is_heard) {
    listener b, c;
    hold_by(THIRD);
    (void)join_in(TOKEN, A);
    (void)JOIN(OTHER, B, .numbers = "64");
    (void)join_in("c", C);
    listen_to(&b, B);
    listen_to(&c, C);
    assert_int_equal(release(THIRD), 1);
    K_HOLDS(OTHER);
    S_HAS("token", OTHER);
    S_HAS("claim", B);
    S_HAS("line", F);
    S_HAS("until", "1700000005000000"); /* for 5 s: it may be gone */
    assert_int_equal(number_of(SAY(L("PTTL"), L(K))), 5000);
    assert_int_equal(line_length(), 1); /* who isn't heard goes out */
    /* A number was drawn for each of three places, and 64 for who was heard. */
    assert_string_equal(b.last, "grant " OTHER " 1700000000000003 1700000000000000 5000 1 " K);
    S_HAS("fence", "1700000000000066");
    assert_int_equal(c.count, 0);
}

/* Who has moved up looks whether the holder has died; those before him do already. */
static void assert_told(const listener *l, size_t first, size_t count) {
    char near[32];
    for (size_t i = first; i < first + count; i++) {
        (void)snprintf(near, sizeof near, "near t%zu %s", i, K);
        assert_int_equal(l[i].count, 1);
        assert_string_equal(l[i].last, near);
    }
}

/* Six, of as many inboxes. */
static void stand_six(listener *l, size_t heard_from) {
    char token[8], inbox[8];
    hold_by(THIRD);
    for (size_t i = 0; i < 6; i++) {
        (void)snprintf(token, sizeof token, "t%zu", i);
        (void)snprintf(inbox, sizeof inbox, "i%zu", i);
        (void)join_in(token, inbox);
        if (i >= heard_from)
            listen_to(&l[i], inbox);
        else
            l[i] = (listener){0};
    }
}

TEST(who_becomes_the_third_in_line_is_told) {
    listener l[6];
    stand_six(l, 0);
    assert_int_equal(release(THIRD), 1);
    K_HOLDS("t0");
    assert_int_equal(l[1].count + l[2].count, 0);
    assert_told(l, 3, 1);
    assert_int_equal(l[4].count + l[5].count, 0);
}

TEST(where_several_have_gone_all_of_the_first_three_are_told_who_were_not_among_them) {
    listener l[6];
    stand_six(l, 2); /* the first two aren't heard */
    assert_int_equal(release(THIRD), 1);
    K_HOLDS("t2");
    assert_int_equal(line_length(), 3);
    assert_told(l, 3, 3);
}

TEST(who_gives_up_moves_the_fourth_up) {
    listener l[6];
    stand_six(l, 0);
    holds("the answer",
          SAY(L("EVAL"), tl__script_text(TL_SCRIPT_RELEASE), L("4"), L(K), L(S), L(F), L(LINE),
              L("t1"), L(""), L("t1 9000 1 i1 owner")),
          THIRD);
    assert_int_equal(line_length(), 5);
    assert_int_equal(l[0].count + l[2].count, 0);
    assert_told(l, 3, 1);
    assert_int_equal(l[4].count + l[5].count, 0);
}

TEST(the_last_in_line_leaves_none_behind) {
    listener a;
    listen_to(&a, A);
    hold_by(THIRD);
    (void)join_in(TOKEN, A);
    (void)release(THIRD);
    S_HAS("line", "");
    K_HOLDS(TOKEN);
}

TEST(while_s_binds_one_nobody_is_given_a_lock_whose_key_is_gone) {
    listener a;
    listen_to(&a, A);
    hold_by(THIRD);
    (void)join_in(TOKEN, A);
    (void)SAY(L("DEL"), L(K));
    (void)release("nobody");
    joined j = join_in(OTHER, B);
    assert_int_equal(j.status, 0);
    assert_int_equal(a.count, 0);
    K_HOLDS(NULL);
    S_HAS("token", THIRD);
    fake_redis_set_time(server, NOW_US + 4000000);
    assert_int_equal(join_in(OTHER, B).status, 0);
    assert_int_equal(a.count, 0); /* to the last microsecond */
    fake_redis_set_time(server, NOW_US + 4000001);
    assert_int_equal(join_in(OTHER, B).status, 0);
    assert_int_equal(a.count, 1);
}

/* All who wait there: nobody reads what it is told. */
TEST(who_did_not_come_for_it_goes_out_with_all_of_its_inbox) {
    listener a, b;
    listen_to(&a, A);
    listen_to(&b, B);
    give_to(THIRD, A);
    stand("a2", A, FAIR, "5");
    stand("a3", A, FAIR, "6");
    stand(OTHER, B, FAIR, "7");
    stand("a4", A, FAIR, "8");
    end_hold();
    (void)release("nobody");
    K_HOLDS(OTHER);
    assert_int_equal(line_length(), 0);
    assert_int_equal(a.count, 1);
    assert_string_equal(a.last, "look " K); /* whoever lives stands in line again */
    assert_int_equal(b.count, 1);
}

TEST(who_looks_is_there_though_what_was_given_to_its_inbox_was_in_vain) {
    listener a;
    listen_to(&a, A);
    give_to(THIRD, A);
    stand("a2", A, FAIR, "5");
    end_hold();
    assert_int_equal(join_in(TOKEN, A).status, 0);
    K_HOLDS("a2");
    assert_int_equal(line_length(), 1);
}

/* Its own entry stays, before one that stands behind another inbox. */
TEST(who_looks_keeps_its_place_though_what_was_given_to_its_inbox_was_in_vain) {
    listener a, b;
    listen_to(&a, A);
    listen_to(&b, B);
    give_to(THIRD, A);
    joined mine = join_in(TOKEN, A);
    (void)join_in(OTHER, B);
    end_hold();
    assert_int_equal(JOIN(TOKEN, A, .numbers = FAIR, .place = mine.place).status, 1);
    K_HOLDS(TOKEN);
    assert_int_equal(b.count, 0);
}

static void nobody_may_be_told(const char *command) {
    listener a;
    listen_to(&a, A);
    hold_by(THIRD);
    (void)join_in(TOKEN, A);
    fake_redis_deny(server, command, FAKE_NOPERM);
    assert_int_equal(release(THIRD), 1);
    K_HOLDS(NULL);
    S_HAS("token", "");
    S_HAS("claim", "");
    S_HAS("line", F);
    assert_int_equal(line_length(), 1); /* it looks by itself */
}

TEST(what_one_may_not_be_told_nobody_is_given) {
    nobody_may_be_told("PUBLISH");
}

TEST(nor_where_one_may_not_ask_who_listens) {
    nobody_may_be_told("PUBSUB");
}

/* A call to look does no harm, whoever repeats it. */
TEST(but_there_the_first_who_hears_is_called_to_look) {
    listener b, c;
    listen_to(&b, B);
    listen_to(&c, C);
    hold_by(THIRD);
    (void)join_in(TOKEN, A);
    (void)join_in(OTHER, B);
    (void)join_in("c", C);
    fake_redis_deny(server, "PUBSUB", FAKE_NOPERM);
    assert_int_equal(release(THIRD), 1);
    K_HOLDS(NULL);
    S_HAS("line", F);
    assert_string_equal(b.last, "look " K);
    assert_int_equal(c.count, 0);
    assert_int_equal(line_length(), 2);
    assert_int_equal(join_in(OTHER, B).status, 1);
}

static void who_asks_gets_it(const char *command) {
    listener b;
    listen_to(&b, B);
    fake_redis_deny(server, command, FAKE_NOPERM);
    stand(OTHER, B, FAIR, "5");
    assert_int_equal(join_in(TOKEN, A).status, 1);
    K_HOLDS(TOKEN);
    S_HAS("line", F);
    assert_int_equal(line_length(), 1);
}

TEST(but_who_asks_gets_it_there_whoever_is_before) {
    who_asks_gets_it("PUBLISH");
}

TEST(and_so_where_one_may_not_ask_who_listens) {
    who_asks_gets_it("PUBSUB");
}

static void stand_many(int from, int to) {
    char inbox[40], place[16];
    for (int i = from; i < to; i++) {
        (void)snprintf(inbox, sizeof inbox, "tidelock:inbox:%d", i);
        (void)snprintf(place, sizeof place, "%d", i + 1);
        stand(TOKEN, inbox, FAIR, place);
    }
}

TEST(a_crowd_of_processes_that_are_gone_is_passed_over_at_once) {
    listener b;
    listen_to(&b, B);
    stand_many(0, 500);
    stand(THIRD, B, FAIR, "1000000");
    (void)release("nobody");
    K_HOLDS(THIRD);
    assert_int_equal(line_length(), 0);
}

TEST(after_10000_who_are_not_heard_the_next_to_come_goes_on) {
    listener b;
    listen_to(&b, B);
    stand_many(0, 10000);
    stand(THIRD, B, FAIR, "1000000");
    (void)release("nobody");
    assert_int_equal(line_length(), 1);
    K_HOLDS(NULL);
    S_HAS("line", F);
    S_HAS("token", "");
    (void)release("nobody");
    K_HOLDS(THIRD);
    assert_int_equal(line_length(), 0);
}

/* Even where its inbox is heard: a lifetime of 0 would be refused each time, numbers without end use up the counter. */
TEST(what_stands_there_and_is_no_entry_goes_out) {
    static const char *const strange[] = {"nonsense", "token 0 1 " A " owner",
                                          "token 9000 0 " A " owner",
                                          "token 9000 999999999999999 " A " owner"};
    listener a, b;
    listen_to(&a, A);
    listen_to(&b, B);
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++)
        (void)SAY(L("ZADD"), L(LINE), L("1"), tl__bytes_of(strange[i]));
    stand(OTHER, B, FAIR, "5");
    (void)release("nobody");
    K_HOLDS(OTHER);
    assert_int_equal(line_length(), 0);
}

/* ---- those who take it by themselves ------------------------------------------------------------ */

#define CALLED "9000?"

static joined called_join(const char *token, const char *inbox, const char *place) {
    return JOIN(token, inbox, .px = CALLED, .numbers = "64", .place = place);
}

/* It stands before `next`, and the holder has released. */
static void call_first(listener *a, const char *next, const char *next_inbox) {
    listen_to(a, A);
    hold_by(THIRD);
    (void)called_join(TOKEN, A, "");
    if (next)
        (void)join_in(next, next_inbox);
    assert_int_equal(release(THIRD), 1);
}

TEST(who_takes_it_by_himself_is_called_and_the_lock_is_kept_free_for_him) {
    listener a, s;
    listen_to(&s, S);
    call_first(&a, OTHER, B);
    K_HOLDS(NULL);
    S_HAS("token", TOKEN);
    S_HAS("claim", A);
    S_HAS("until", "1700000005000000");
    S_HAS("line", F);
    assert_string_equal(a.last, "look " K);
    assert_int_equal(a.count, 1);
    assert_int_equal(s.count, 1); /* should he listen there by now */
    assert_int_equal(line_length(), 1);
    joined j = join_in(OTHER, B);
    assert_int_equal(j.status, 0);
    assert_int_equal(j.left, 5001);
    assert_int_equal(j.announced, 1);
    K_HOLDS(NULL);
}

TEST(and_takes_it) {
    listener a;
    call_first(&a, OTHER, B);
    joined j = called_join(TOKEN, A, "1700000000000000");
    assert_int_equal(j.status, 1);
    assert_int_equal(j.left, 9000);
    K_HOLDS(TOKEN);
    S_HAS("token", TOKEN);
    S_HAS("claim", "");
    S_HAS("until", "1700000009000000");
    assert_int_equal(number_of(SAY(L("PTTL"), L(K))), 9000);
    assert_int_equal(line_length(), 1);
    assert_int_equal(a.count, 1);
    assert_int_equal(release(TOKEN), 1);
}

/* By his request alone, in its time: what he is told gives him nothing, however long it is ago. */
TEST(but_not_when_he_comes_too_late) {
    listener a;
    call_first(&a, OTHER, B);
    assert_int_equal(JOIN(TOKEN, A, .px = CALLED, .not_after = PAST).status, -1);
    K_HOLDS(NULL);
    fake_redis_set_time(server, NOW_US + 5000001);
    listener b;
    listen_to(&b, B);
    assert_int_equal(join_in("c", C).status, 0);
    K_HOLDS(OTHER);
    assert_int_equal(a.count, 1);
}

TEST(what_is_kept_free_in_vain_is_so_once_for_all_of_an_inbox) {
    listener a, b;
    listen_to(&b, B);
    call_first(&a, NULL, NULL);
    stand("a2", A, FAIR, "5");
    stand(OTHER, B, FAIR, "7");
    stand("a3", A, FAIR, "8");
    fake_redis_set_time(server, NOW_US + 5000000);
    (void)release("nobody");
    K_HOLDS(NULL); /* to the last microsecond */
    fake_redis_set_time(server, NOW_US + 5000001);
    (void)release("nobody");
    K_HOLDS(OTHER);
    assert_int_equal(a.count, 2); /* to be told that they went out */
    assert_int_equal(line_length(), 0);
}

/* It got the lock by another way than the line, in a phase before, lost it, and hasn't released it yet. */
TEST(who_had_the_lock_while_his_entry_stood_there_is_not_called) {
    listener a;
    listen_to(&a, A);
    hold_by(TOKEN);
    (void)SAY(L("ZADD"), L(LINE), L("5"), L(TOKEN " " CALLED " 64 " A " owner"));
    end_hold();
    assert_int_equal(called_join(OTHER, B, "").status, 1);
    K_HOLDS(OTHER);
    assert_int_equal(a.count, 0);
    assert_int_equal(line_length(), 0);
}

/* He took it by a stamp, and wasn't told, when the phase was another for a while: it would stand in his way for an hour. */
TEST(a_stamp_of_his_own_becomes_a_token_when_he_looks) {
    static const char stamp[] = "1700000004000";
    hold_by(stamp);
    (void)SAY(L("HMSET"), L(S), L("token"), L(TOKEN));
    (void)SAY(L("PEXPIRE"), L(K), L("3600000"));
    (void)SAY(L("ZADD"), L(LINE), L("5"), L(TOKEN " " CALLED " 64 " A " owner"));
    assert_int_equal(JOIN(TOKEN, A, .px = CALLED, .not_after = PAST).status, -1);
    assert_int_equal(called_join(OTHER, B, "").status, 0);
    K_HOLDS(stamp);
    joined j = called_join(TOKEN, A, "");
    assert_int_equal(j.status, 1);
    assert_int_equal(j.left, 9000);
    assert_true(j.fence > NOW_US);
    K_HOLDS(TOKEN);
    S_HAS("value", TOKEN);
    S_HAS("until", "1700000009000000");
    assert_int_equal(number_of(SAY(L("PTTL"), L(K))), 9000);
    assert_int_equal(line_length(), 1); /* the other's */
    assert_int_equal(release(TOKEN), 1);
}

TEST(who_is_called_by_another_who_asks_is_before_him) {
    listener a;
    listen_to(&a, A);
    hold_by(THIRD);
    (void)called_join(TOKEN, A, "");
    end_hold();
    joined j = join_in(OTHER, B);
    assert_int_equal(j.status, 0);
    assert_int_equal(j.left, 5001);
    assert_string_equal(a.last, "look " K);
    K_HOLDS(NULL);
}

TEST(the_first_in_line_who_asks_takes_it_at_once) {
    listener a;
    listen_to(&a, A);
    hold_by(THIRD);
    (void)called_join(TOKEN, A, "");
    end_hold();
    assert_int_equal(called_join(TOKEN, A, "").status, 1);
    K_HOLDS(TOKEN);
    S_HAS("claim", "");
    assert_int_equal(a.count, 0);
}

/* One who sets K without a look at S. He stays the one whose turn it is, and looks again soon. */
TEST(who_was_called_and_finds_another_stays_first) {
    listener a;
    call_first(&a, OTHER, B);
    (void)SAY(L("SET"), L(K), L("foreign"));
    joined j = called_join(TOKEN, A, "1700000000000000");
    assert_int_equal(j.status, 0);
    assert_int_equal(j.before, 0);
    assert_int_equal(j.all, 2);
    assert_int_equal(j.announced, 0);
    (void)SAY(L("DEL"), L(K));
    assert_int_equal(called_join(TOKEN, A, j.place).status, 1);
    K_HOLDS(TOKEN);
    assert_int_equal(line_length(), 1);
}

TEST(who_was_called_and_leaves_makes_room_for_the_next) {
    listener a, b;
    listen_to(&b, B);
    call_first(&a, OTHER, B);
    assert_int_equal(release(TOKEN), -1);
    K_HOLDS(OTHER);
    S_HAS("claim", B);
    S_HAS("spent", TOKEN);
    assert_int_equal(called_join(TOKEN, A, "5").status, -2);
}

/* He holds nothing that could be removed, and comes back to his place. */
TEST(who_was_called_waits_on_when_the_lock_is_removed_by_force) {
    listener a, b;
    listen_to(&b, B);
    call_first(&a, OTHER, B);
    (void)SAY(L("HSET"), L(S), L("spent"), L("gone"));
    assert_int_equal(number_of(tl__reply_item(SAY(L("EVAL"), tl__script_text(TL_SCRIPT_BREAK),
                                                  L("4"), L(K), L(S), L(F), L(LINE), L(""), L(""),
                                                  L("an operator"), L("3600000")),
                                              0)),
                     1);
    K_HOLDS(OTHER);
    S_HAS("claim", B);
    S_HAS("spent", "gone");
    assert_int_equal(called_join(TOKEN, A, "5").status, 0);
    assert_int_equal(release(OTHER), 1);
    assert_int_equal(called_join(TOKEN, A, "5").status, 1);
    K_HOLDS(TOKEN);
}

TEST(who_may_not_be_told_is_not_called) {
    listener a;
    listen_to(&a, A);
    hold_by(THIRD);
    (void)called_join(TOKEN, A, "");
    fake_redis_deny(server, "PUBLISH", FAKE_NOPERM);
    assert_int_equal(release(THIRD), 1);
    K_HOLDS(NULL);
    S_HAS("token", "");
    assert_int_equal(line_length(), 1);
    assert_int_equal(called_join(TOKEN, A, "").status, 1);
}

/* One who came back to his place meanwhile. */
static void one_stands_before_who_was_called(listener *a, listener *b, int64_t later_us) {
    listen_to(b, B);
    call_first(a, NULL, NULL);
    stand(OTHER, B, FAIR, "5");
    fake_redis_set_time(server, NOW_US + later_us);
}

TEST(who_was_called_has_it_before_one_who_stands_in_front_of_him) {
    listener a, b;
    one_stands_before_who_was_called(&a, &b, 5000000);
    assert_int_equal(called_join(TOKEN, A, "6").status, 1);
    K_HOLDS(TOKEN);
    assert_int_equal(b.count, 0);
}

TEST(but_only_while_it_is_kept_for_him) {
    listener a, b;
    one_stands_before_who_was_called(&a, &b, 5000001);
    assert_int_equal(called_join(TOKEN, A, "6").status, 0);
    K_HOLDS(OTHER);
    assert_int_equal(b.count, 1);
    assert_int_equal(line_length(), 1);
}

/* Its key was deleted by hand: that is no turn in line. */
TEST(who_has_come_already_is_called_no_more) {
    listener b;
    listen_to(&b, B);
    hold_by(TOKEN);
    stand(OTHER, B, FAIR, "5");
    (void)SAY(L("DEL"), L(K));
    assert_int_equal(called_join(TOKEN, A, "6").status, 0);
    K_HOLDS(NULL);
    fake_redis_set_time(server, NOW_US + 4000001);
    assert_int_equal(called_join(TOKEN, A, "6").status, 0);
    K_HOLDS(OTHER);
    assert_int_equal(b.count, 1);
}

/* ---- those who only ever try ------------------------------------------------------------------- */

static void after(const char *row, listener *b, const char *numbers) {
    listen_to(b, B);
    hold_by(THIRD);
    stand(OTHER, B, numbers, "5");
    stand(TOKEN, A, numbers, "6");
    (void)SAY(L("HSET"), L(S), L("row"), tl__bytes_of(row));
    assert_int_equal(release(THIRD), 1);
}

static void after_a_row(listener *b, const char *numbers) {
    after("200", b, numbers);
}

TEST(after_a_row_of_grants_others_have_a_chance) {
    listener b;
    after_a_row(&b, "64");
    K_HOLDS(NULL);
    S_HAS("row", "0");
    S_HAS("line", F);
    assert_string_equal(b.last, "look " K);
    assert_int_equal(line_length(), 2);
}

TEST(but_not_sooner) {
    listener b;
    after("199", &b, "64");
    K_HOLDS(OTHER);
    S_HAS("row", "200");
}

TEST(nor_before_those_who_wait_in_fairness) {
    listener b;
    after_a_row(&b, FAIR);
    K_HOLDS(OTHER);
    S_HAS("row", "0");
}

TEST(nor_where_nobody_hears_that_it_is_free) {
    listener b;
    hold_by(THIRD);
    stand("first", C, "64", "4");
    after_a_row(&b, "64");
    K_HOLDS(OTHER);
}

TEST(a_row_is_counted_while_others_wait) {
    listener b;
    listen_to(&b, B);
    stand(OTHER, B, "64", "5");
    stand(TOKEN, A, "64", "6");
    (void)SAY(L("HSET"), L(S), L("row"), L("7"));
    (void)release("nobody");
    S_HAS("row", "8");
}

TEST(a_line_that_has_emptied_counts_anew) {
    listener b;
    listen_to(&b, B);
    stand(OTHER, B, "64", "5");
    (void)SAY(L("HSET"), L(S), L("row"), L("7"));
    (void)release("nobody");
    S_HAS("row", "0");
}

#define CONDITION                                                                                  \
    "tidelock:phase:slot:{"                                                                        \
    "K"                                                                                            \
    "}:default"

TEST(whoever_finds_another_condition_joins_no_queue) {
    static const char *const reads[] = {"3 17", "", "2 18"};
    (void)SAY(L("SET"), L(CONDITION), L("2 18"));
    for (size_t i = 0; i < 3; i++) {
        const tl_reply *reply = SAY(L("EVAL"), tl__script_text(TL_SCRIPT_JOIN), L("5"), L(K), L(S),
                                    L(F), L(LINE), L(CONDITION), L(TOKEN), L("9000?"), L("0"),
                                    L("owner"), L(FAIR), L(A), L(""), L(""),
                                    tl__bytes_of(reads[i]));
        bool holds = i == 2;
        assert_int_equal(number_of(tl__reply_item(reply, 0)), holds ? 1 : -6);
        assert_int_equal(number_of(SAY(L("EXISTS"), L(K))), holds);
        assert_int_equal(number_of(SAY(L("EXISTS"), L(LINE))), 0);
    }
}
