/*
 * The script that acquires a lock, executed: a take that was in flight for long finds its own token bound,
 * and K deleted meanwhile.
 */
#include <stdlib.h>

#include "protocol/protocol.h"
#include "script_feed.h"

#define EARLIER "1699999998000000" /* 2 s */
#define NEW FAKE_LEVEL(7, 0, 0)
#define OLD FAKE_LEVEL(2, 6, 17) /* a script there can't ask for the time before it writes */

/* K has been deleted; S binds others for the token until then. */
static void begin(uint32_t level, const char *until_us) {
    server = fake_redis_new();
    fake_redis_set_level(server, level);
    conn = fake_redis_connect(server, NULL, NULL);
    fake_redis_set_time(server, NOW_US);
    (void)SAY(L("HMSET"), L(S), L("token"), L(TOKEN), L("value"), L(TOKEN), L("until"),
              tl__bytes_of(until_us), L("fence"), L("7"));
}

static void end(void) {
    fake_conn_close(conn);
    fake_redis_free(server);
}

/* For 4 s, by the sender's idea of the time. */
static const tl_reply *say_take(const char *token, const char *told) {
    return SAY(L("EVAL"), tl__script_text(TL_SCRIPT_ACQUIRE), L("4"), L(K), L(S), L(F), L(LINE),
               tl__bytes_of(token), L("4000"), L("0"), tl__bytes_of(told), tl__bytes_of(told),
               L("owner"));
}

/* The usual answer is the fence alone. */
static int64_t status_of(const tl_reply *reply) {
    int64_t status = 0;
    if (reply->type == TL_REPLY_STRING)
        return 1;
    assert_true(tl__reply_int(tl__reply_item(reply, 0), &status));
    return status;
}

static int64_t take(const char *token, const char *told) {
    return status_of(say_take(token, told));
}

static void assert_binds_until(const char *until_us) {
    tl_bytes until = {0};
    assert_true(tl__reply_text(SAY(L("HGET"), L(S), L("until")), &until));
    assert_true(tl__bytes_eq(until, tl__bytes_of(until_us)));
}

/* Its holder believes in what it was told later: that it has been extended. */
TEST(a_late_take_of_the_same_token_moves_nothing_back) {
    static const char extended[] = "1700000060000000";
    static const uint32_t levels[] = {NEW, OLD};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        begin(levels[i], extended);
        assert_int_equal(take(TOKEN, EARLIER), 1);
        assert_binds_until(extended);
        (void)SAY(L("DEL"), L(K));
        assert_int_equal(take(OTHER, NOW), 0);
        end();
    }
}

#define STAMP "1700000001000"

static const tl_reply *take_by(const char *not_after) {
    return SAY(L("EVAL"), tl__script_text(TL_SCRIPT_ACQUIRE), L("4"), L(K), L(S), L(F), L(LINE),
               L(TOKEN), L("4000"), tl__bytes_of(not_after), L(NOW), L(NOW), L("owner"));
}

/* Its holder counts on a token's lifetime, and a stamp ends by what it says, whatever lifetime K has. */
TEST(a_stamp_of_an_earlier_phase_becomes_a_token_when_it_is_taken_again) {
    static const uint32_t levels[] = {NEW, OLD};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        begin(levels[i], "1700000001000000");
        (void)SAY(L("HSET"), L(S), L("value"), L(STAMP));
        (void)SAY(L("PSETEX"), L(K), L("3600000"), L(STAMP));
        if (levels[i] == NEW) { /* whoever asked has moved on */
            assert_int_equal(status_of(take_by(EARLIER)), -1);
            K_HOLDS(STAMP);
        }
        const tl_reply *reply = take_by("0");
        assert_int_equal(status_of(reply), 1);
        assert_int_equal(number_of(tl__reply_item(reply, 2)), 4000);
        K_HOLDS(TOKEN);
        assert_int_equal(number_of(SAY(L("PTTL"), L(K))), 4000);
        S_HAS("value", TOKEN);
        assert_binds_until("1700000004000000");
        end();
    }
}

/* Where the script can't ask for the time: for how long the take in flight was sent. */
TEST(a_take_of_the_same_token_binds_for_longer) {
    begin(OLD, "1700000001000000");
    assert_int_equal(take(TOKEN, EARLIER), 1);
    assert_binds_until("1700000002000000");
    end();
    begin(NEW, "1700000001000000");
    assert_int_equal(take(TOKEN, EARLIER), 1);
    assert_binds_until("1700000004000000");
    end();
}

/* It is to be had again only if S can be told, so that no other takes it should K be deleted. */
TEST(a_holder_for_longer_than_s_can_be_told_is_refused) {
    static const uint32_t levels[] = {NEW, OLD};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        begin(levels[i], "1700000001000000");
        (void)SAY(L("PSETEX"), L(K), L("9000"), L(TOKEN));
        fake_redis_set_oom(server, true);
        if (levels[i] == OLD) {
            assert_int_equal(say_take(TOKEN, NOW)->type, TL_REPLY_ERROR);
            fake_redis_set_oom(server, false);
        }
        assert_int_equal(take(TOKEN, NOW), 1);
        assert_binds_until(levels[i] == OLD ? "1700000004000000" : "1700000001000000");
        end();
    }
}

/* S knows the last number that it was given, not how many these were: who reserves some to pass on gets new ones. */
TEST(a_take_that_reserves_more_than_the_one_before_gets_new_numbers) {
    static const uint32_t levels[] = {NEW, OLD};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        int64_t last = 0;
        begin(levels[i], "1700000001000000");
        (void)SAY(L("PSETEX"), L(K), L("9000"), L(TOKEN));
        const tl_reply *reply = SAY(L("EVAL"), tl__script_text(TL_SCRIPT_ACQUIRE), L("4"), L(K),
                                    L(S), L(F), L(LINE), L(TOKEN), L("4000"), L("0"), L(NOW),
                                    L(NOW), L("owner"), L("64"));
        assert_int_equal(status_of(reply), 1);
        assert_true(tl__reply_int(tl__reply_item(reply, 3), &last));
        assert_int_equal(last, NOW_US + 63); /* the first is above S's 7 and not behind the clock */
        end();
    }
}

/* And so does who takes a stamp again, having stood in line meanwhile, where some are reserved. */
TEST(a_stamp_that_is_taken_again_gets_new_numbers_where_more_are_reserved) {
    int64_t last = 0;
    begin(NEW, "1700000001000000");
    (void)SAY(L("HSET"), L(S), L("value"), L(STAMP));
    (void)SAY(L("PSETEX"), L(K), L("9000"), L(STAMP));
    const tl_reply *reply = SAY(L("EVAL"), tl__script_text(TL_SCRIPT_ACQUIRE), L("4"), L(K), L(S),
                                L(F), L(LINE), L(TOKEN), L("4000"), L("0"), L(NOW), L(NOW),
                                L("owner"), L("64"), L("1700000004000"), L(""),
                                L("@1700000004001"));
    assert_int_equal(status_of(reply), 1);
    assert_true(tl__reply_int(tl__reply_item(reply, 3), &last));
    assert_int_equal(last, NOW_US + 63);
    K_HOLDS(STAMP);
    S_HAS("value", STAMP);
    end();
}

/* Another's is not there any more when that is over. */
TEST(a_take_after_anothers_binds_for_its_own_time) {
    begin(OLD, "1699999999000000");
    assert_int_equal(take(OTHER, NOW), 1);
    assert_binds_until("1700000004000000");
    end();
}

/* ---- the usual take, whose S is left to the first renewal --------------------------------------- */

#define A "tidelock:inbox:a"
#define LATER "1700000004000000"
#define PAST "1699999999999999"

static void begin_empty(void) {
    begin(NEW, NOW);
    (void)SAY(L("DEL"), L(S));
}

static const tl_reply *say_usual(const char *token, const char *not_after) {
    return SAY(L("EVAL"), tl__script_text(TL_SCRIPT_ACQUIRE), L("4"), L(K), L(S), L(F), L(LINE),
               tl__bytes_of(token), L("4000"), tl__bytes_of(not_after), L(NOW), L(NOW), L(""));
}

static int64_t usual(const char *token) {
    return status_of(say_usual(token, "0"));
}

static void set_k(const char *token) {
    (void)SAY(L("PSETEX"), L(K), L("9000"), tl__bytes_of(token));
}

TEST(it_writes_nothing_beside_the_key_and_its_counter) {
    begin_empty();
    holds("fence", say_usual(TOKEN, "0"), NOW);
    K_HOLDS(TOKEN);
    holds("F", SAY(L("GET"), L(F)), NOW);
    assert_int_equal(number_of(SAY(L("EXISTS"), L(S))), 0);
    assert_int_equal(usual(OTHER), 0);
    end();
}

/* Whatever raised it: the counter itself, a sidecar that outlived it, or the clock. */
TEST(a_number_is_above_all_before_and_not_behind_the_clock) {
    static const struct {
        const char *counter, *noted;
        int64_t fence;
    } c[] = {{"5", "6", NOW_US},
             {"1700000000000006", "6", NOW_US + 7},
             {"5", "1700000000000008", NOW_US + 9},
             {"1700000000000006", "1700000000000008", NOW_US + 9},
             {NULL, "1700000000000008", NOW_US + 9}};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        begin(NEW, PAST);
        if (c[i].counter)
            (void)SAY(L("SET"), L(F), tl__bytes_of(c[i].counter));
        (void)SAY(L("HSET"), L(S), L("fence"), tl__bytes_of(c[i].noted));
        const tl_reply *r = say_usual(OTHER, "0");
        int64_t fence = 0;
        tl_bytes text = {0};
        if (tl__reply_text(r, &text))
            assert_true(tl__bytes_to_int(text, &fence));
        else
            fence = number_of(tl__reply_item(r, 3));
        assert_int_equal(fence, c[i].fence);
        end();
    }
}

TEST(a_counter_that_can_not_count_is_named) {
    static const char *const wrong[] = {
        "x", "", "-5", "1e3", "9007199254740991", "9223372036854775807"};
    for (size_t i = 0; i <= sizeof wrong / sizeof *wrong; i++) {
        begin_empty();
        if (i < sizeof wrong / sizeof *wrong)
            (void)SAY(L("SET"), L(F), tl__bytes_of(wrong[i]));
        else
            (void)SAY(L("RPUSH"), L(F), L("x"));
        char words[256];
        const tl_reply *r = say_usual(TOKEN, "0");
        assert_int_equal(r->type, TL_REPLY_ERROR);
        (void)snprintf(words, sizeof words, "%.*s", (int)r->text.n, r->text.p);
        assert_non_null(strstr(words, F));
        assert_non_null(strstr(words, i == 4 || i == 5 ? "2^53" : "holds no number"));
        K_HOLDS(NULL);
        (void)SAY(L("DEL"), L(F));
        assert_int_equal(usual(TOKEN), 1);
        end();
    }
}

/* The clock was two days ahead, or thirty years, and has been set right. */
TEST(a_counter_ahead_of_the_clock_goes_on_from_there) {
    static const char *const ahead[] = {"1700172800000000", "2646000000000000", "9007199254740900"};
    for (size_t i = 0; i < sizeof ahead / sizeof *ahead; i++) {
        int64_t was = 0;
        begin_empty();
        assert_true(tl__bytes_to_int(tl__bytes_of(ahead[i]), &was));
        (void)SAY(L("SET"), L(F), tl__bytes_of(ahead[i]));
        const tl_reply *r = say_usual(TOKEN, "0");
        assert_int_equal(number_of(tl__reply_item(r, 0)), 1);
        assert_int_equal(number_of(tl__reply_item(r, 3)), was + 1);
        K_HOLDS(TOKEN);
        end();
    }
}

/* Its own native commands have set K: that is to be judged. */
TEST(what_it_has_set_itself_is_its_own_by_a_new_number) {
    begin_empty();
    set_k(TOKEN);
    (void)SAY(L("SET"), L(F), L("5"));
    const tl_reply *r = say_usual(TOKEN, "0");
    assert_int_equal(number_of(tl__reply_item(r, 0)), 1);
    assert_int_equal(number_of(tl__reply_item(r, 3)), NOW_US);
    assert_int_equal(number_of(SAY(L("EXISTS"), L(S))), 0);
    end();
}

/* A release has left S for a short while only. */
TEST(what_is_noted_of_what_it_has_set_itself_outlasts_it) {
    begin_empty();
    set_k(OTHER);
    (void)SAY(L("HMSET"), L(S), L("token"), L(""), L("spent"), L(THIRD));
    (void)SAY(L("PEXPIRE"), L(S), L("62000"));
    assert_int_equal(take(OTHER, NOW), 1);
    S_HAS("token", OTHER);
    assert_true(number_of(SAY(L("PTTL"), L(S))) >= 3600000);
    end();
}

TEST(what_it_has_set_itself_is_given_back_where_s_binds_another) {
    begin(NEW, LATER);
    set_k(OTHER);
    assert_int_equal(usual(OTHER), 0);
    K_HOLDS(NULL);
    S_HAS("token", TOKEN);
    fake_redis_set_time(server, NOW_US + 4000001);
    assert_int_equal(usual(OTHER), 1);
    K_HOLDS(OTHER);
    end();
}

static void begin_line(listener *l) {
    begin_empty();
    (void)SAY(L("ZADD"), L(LINE), L("5"), L(OTHER " 9000 1 " A " owner"));
    (void)SAY(L("HMSET"), L(S), L("line"), L(F));
    if (l)
        listen_to(l, A);
}

TEST(who_stands_in_line_is_before_who_comes) {
    for (int set = 0; set < 2; set++) {
        listener a;
        begin_line(&a);
        if (set)
            set_k(TOKEN);
        assert_int_equal(usual(TOKEN), 0);
        K_HOLDS(OTHER);
        assert_int_equal(a.count, 1);
        end();
    }
}

/* One who acquires the lock by himself stands first, and S is to name him. */
static void begin_called(listener *l) {
    begin_empty();
    (void)SAY(L("ZADD"), L(LINE), L("5"), L(OTHER " 9000? 64 " A " owner"), L("6"),
              L("third 9000 1 " A " owner"));
    (void)SAY(L("HMSET"), L(S), L("line"), L(F));
    listen_to(l, A);
}

TEST(who_comes_calls_who_stands_before_him_and_takes_it_by_himself) {
    for (int set = 0; set < 2; set++) {
        listener a;
        begin_called(&a);
        if (set)
            set_k(TOKEN);
        const tl_reply *r = say_usual(TOKEN, "0");
        assert_int_equal(number_of(tl__reply_item(r, 0)), 0);
        assert_int_equal(tl__reply_item(r, 1)->type, TL_REPLY_NIL);
        assert_int_equal(number_of(tl__reply_item(r, 2)), 5001);
        K_HOLDS(NULL);
        S_HAS("token", OTHER);
        assert_string_equal(a.last, "look " K);
        assert_int_equal(usual("fourth"), 0);
        assert_int_equal(a.count, 1);
        end();
    }
}

/* It has stood in its place for a moment: who was called may have found it there, and waits. */
TEST(what_was_set_in_the_place_of_one_who_was_called_calls_him_again) {
    listener a;
    begin_called(&a);
    assert_int_equal(usual(TOKEN), 0);
    set_k(TOKEN);
    assert_int_equal(usual(TOKEN), 0);
    K_HOLDS(NULL);
    S_HAS("token", OTHER);
    assert_int_equal(a.count, 2);
    assert_string_equal(a.last, "look " K);
    end();
}

/* As the phase of a migration has it by then: no token, and the line isn't asked. */
TEST(who_was_called_takes_it_in_another_phase_too) {
    for (int stamp = 0; stamp < 2; stamp++) {
        listener a;
        begin_called(&a);
        assert_int_equal(usual(TOKEN), 0);
        const tl_reply *r = SAY(L("EVAL"), tl__script_text(TL_SCRIPT_ACQUIRE), L("4"), L(K), L(S),
                                L(F), L(LINE), L(OTHER), L("4000"), L("0"), L(NOW), L(NOW),
                                L("owner"), L("64"), stamp ? L("1700000004000") : L(OTHER), L(""),
                                L("@1700000004000500"));
        assert_int_equal(status_of(r), 1);
        K_HOLDS(stamp ? "1700000004000" : OTHER);
        S_HAS("token", OTHER);
        S_HAS("value", stamp ? "1700000004000" : OTHER);
        end();
    }
}

/* It stands in line no more, by its phase, but its entry does. */
TEST(nobody_is_barred_by_his_own_entry) {
    listener a;
    begin_called(&a);
    assert_int_equal(usual(OTHER), 1);
    K_HOLDS(OTHER);
    assert_int_equal(a.count, 0);
    end();
}

TEST(a_line_in_which_nobody_is_heard_bars_nobody) {
    for (int set = 0; set < 2; set++) {
        begin_line(NULL);
        if (set)
            set_k(TOKEN);
        assert_int_equal(usual(TOKEN), 1);
        K_HOLDS(TOKEN);
        S_HAS("line", "");
        end();
    }
}

TEST(nothing_is_handed_over_while_s_binds_one) {
    listener a;
    begin_line(&a);
    (void)SAY(L("HMSET"), L(S), L("token"), L(THIRD), L("value"), L(THIRD), L("until"), L(LATER));
    assert_int_equal(usual(TOKEN), 0);
    K_HOLDS(NULL);
    assert_int_equal(a.count, 0);
    end();
}

TEST(a_token_that_was_given_up_takes_nothing) {
    begin_empty();
    (void)SAY(L("HMSET"), L(S), L("spent"), L(TOKEN));
    assert_int_equal(usual(TOKEN), -2);
    K_HOLDS(NULL);
    end();
}

TEST(nothing_is_taken_too_late) {
    begin_empty();
    assert_int_equal(status_of(say_usual(TOKEN, PAST)), -1);
    K_HOLDS(NULL);
    assert_int_equal(status_of(say_usual(TOKEN, NOW)), 1);
    end();
}

/* ---- who could not renew it -------------------------------------------------------------------- */

static const tl_reply *take_as_usual(void) {
    return SAY(L("EVAL"), tl__script_text(TL_SCRIPT_ACQUIRE), L("4"), L(K), L(S), L(F), L(LINE),
               L(TOKEN), L("4000"), L("0"), L(NOW), L(NOW), L(""));
}

static void assert_refused_with(const tl_reply *r, const char *words) {
    assert_int_equal(r->type, TL_REPLY_ERROR);
    assert_non_null(memmem(r->text.p, r->text.n, words, strlen(words)));
    assert_false(tl__from_script(r->text)); /* nothing is left of it */
    assert_int_equal(number_of(SAY(L("EXISTS"), L(K))), 0);
    assert_int_equal(number_of(SAY(L("EXISTS"), L(S))), 0);
}

TEST(who_may_not_renew_a_lock_is_refused_it) {
    static const struct {
        const char *name, *words;
    } rows[] = {{"PEXPIRE", "(pexpire)"}, {"PTTL", "(pttl)"}};
    static const fake_denial denials[] = {FAKE_NOPERM, FAKE_RENAMED};
    begin(NEW, "0");
    (void)SAY(L("DEL"), L(S));
    for (size_t i = 0; i < 4; i++) {
        fake_redis_deny(server, rows[i / 2].name, denials[i % 2]);
        assert_refused_with(take_as_usual(), rows[i / 2].words);
        fake_redis_deny(server, rows[i / 2].name, FAKE_ALLOW);
    }
    assert_int_equal(status_of(take_as_usual()), 1);
    K_HOLDS(TOKEN);
    assert_int_equal(number_of(SAY(L("PTTL"), L(K))), 4000);
    end();
}

/* After a write a server refuses no more in a script for want of memory. */
TEST(that_it_is_asked_for_leaves_a_full_memory_refused) {
    begin(NEW, "0");
    (void)SAY(L("DEL"), L(S));
    fake_redis_set_oom(server, true);
    assert_refused_with(take_as_usual(), "OOM");
    end();
}

/* ---- a condition ------------------------------------------------------------------------------- */

#define CONDITION                                                                                  \
    "tidelock:phase:slot:{"                                                                        \
    "K"                                                                                            \
    "}:default"

/* Acquire if the condition's key holds these bytes. */
static const tl_reply *take_if(const char *token, const char *reads) {
    return SAY(L("EVAL"), tl__script_text(TL_SCRIPT_ACQUIRE), L("5"), L(K), L(S), L(F), L(LINE),
               L(CONDITION), tl__bytes_of(token), L("4000"), L("0"), L(NOW), L(NOW), L("owner"),
               L("1"), tl__bytes_of(token), L(""), L("4000"), L(""), tl__bytes_of(reads));
}

static void assert_differs(const char *reads, const char *holds) {
    const tl_reply *reply = take_if(OTHER, reads);
    tl_bytes held;
    assert_int_equal(status_of(reply), -6);
    assert_true(tl__reply_text(tl__reply_item(reply, 1), &held));
    assert_true(tl__bytes_eq(held, tl__bytes_of(holds)));
}

TEST(a_condition_that_does_not_hold_changes_nothing) {
    static const uint32_t levels[] = {NEW, OLD};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        begin(levels[i], EARLIER);
        (void)SAY(L("DEL"), L(S));
        assert_differs("2 17", "");
        (void)SAY(L("SET"), L(CONDITION), L("1 18"));
        assert_differs("2 17", "1 18");
        assert_differs("", "1 18");
        assert_differs("1 1", "1 18");
        assert_int_equal(number_of(SAY(L("EXISTS"), L(K))), 0);
        assert_int_equal(number_of(SAY(L("EXISTS"), L(S))), 0);
        assert_int_equal(number_of(SAY(L("EXISTS"), L(F))), 0);
        assert_int_equal(status_of(take_if(TOKEN, "1 18")), 1);
        assert_differs("2 17", "1 18");
        (void)SAY(L("DEL"), L(K));
        (void)SAY(L("DEL"), L(S));
        (void)SAY(L("DEL"), L(CONDITION));
        assert_int_equal(status_of(take_if(TOKEN, "")), 1);
        end();
    }
}

/* Its first request was executed, and has no reply: by what it learns it asks again. */
TEST(a_holder_learns_what_the_condition_reads_too) {
    begin(NEW, EARLIER);
    (void)SAY(L("DEL"), L(S));
    (void)SAY(L("SET"), L(CONDITION), L("2 17"));
    assert_int_equal(status_of(take_if(TOKEN, "2 17")), 1);
    (void)SAY(L("SET"), L(CONDITION), L("1 18"));
    assert_int_equal(status_of(take_if(TOKEN, "2 17")), -6);
    assert_int_equal(status_of(take_if(TOKEN, "1 18")), 1);
    end();
}
