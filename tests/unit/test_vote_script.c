/*
 * The scripts by which one of several independent servers votes for a token, and by which a vote is taken back,
 * executed.
 */
#include "script_feed.h"

#define LEAST "1700000000000500" /* what is proposed */
#define QUIET_MS 30000
#define NEW FAKE_LEVEL(7, 0, 0)
#define OLD FAKE_LEVEL(2, 6, 17) /* a script there can't ask for the time before it writes */
#define DAY_US INT64_C(86400000000)

static int begin(void **state) {
    (void)serve(state);
    fake_redis_set_run_id(server, 0xa);
    fake_redis_set_replid(server, 0x1);
    return 0;
}

TESTS_WITH(begin, end_serving);

typedef struct {
    const char *token, *not_after, *owner, *numbers, *least, *quiet;
} asked;

static const tl_reply *say_vote(asked a) {
    return SAY(L("EVAL"), tl__script_text(TL_SCRIPT_VOTE), L("3"), L(K), L(S), L(F),
               tl__bytes_of(a.token ? a.token : TOKEN), L("4000"),
               tl__bytes_of(a.not_after ? a.not_after : "0"), L(NOW), L(NOW),
               tl__bytes_of(a.owner ? a.owner : ""), tl__bytes_of(a.numbers ? a.numbers : "1"),
               tl__bytes_of(a.least ? a.least : LEAST), tl__bytes_of(a.quiet ? a.quiet : "0"));
}

static int64_t item_of(const tl_reply *r, size_t i) {
    if (r->type == TL_REPLY_ERROR)
        fail_msg("%.*s", (int)r->text.n, r->text.p);
    return number_of(tl__reply_item(r, i));
}

static void expect_vote(const tl_reply *r, int64_t status, int64_t last, int64_t noted) {
    assert_int_equal(item_of(r, 0), status);
    if (last >= 0)
        assert_int_equal(item_of(r, 3), last);
    assert_int_equal(item_of(r, 7), noted);
}

static int64_t say_unvote(const char *token, bool doubted) {
    tl_bytes argv[] = {L("EVAL"),
                       tl__script_text(TL_SCRIPT_UNVOTE),
                       L("3"),
                       L(K),
                       L(S),
                       L(LINE),
                       tl__bytes_of(token),
                       L("62000"),
                       L("")};
    return number_of(say(argv, doubted ? 9 : 8));
}

static void later(int64_t ms) {
    fake_redis_set_time(server, NOW_US + ms * 1000);
}

/* ---- who could not renew it -------------------------------------------------------------------- */

TEST(no_vote_is_given_to_who_may_not_renew_it) {
    static const char *const rows[][2] = {{"PEXPIRE", "(pexpire)"}, {"PTTL", "(pttl)"}};
    for (size_t i = 0; i < 2; i++) {
        fake_redis_deny(server, rows[i][0], FAKE_NOPERM);
        const tl_reply *r = say_vote((asked){0});
        assert_int_equal(r->type, TL_REPLY_ERROR);
        assert_non_null(memmem(r->text.p, r->text.n, rows[i][1], strlen(rows[i][1])));
        assert_int_equal(number_of(SAY(L("EXISTS"), L(K))), 0);
        fake_redis_deny(server, rows[i][0], FAKE_ALLOW);
    }
    fake_redis_set_oom(server, true);
    const tl_reply *r = say_vote((asked){0});
    assert_int_equal(r->type, TL_REPLY_ERROR);
    assert_non_null(memmem(r->text.p, r->text.n, "OOM", 3));
    fake_redis_set_oom(server, false);
    expect_vote(say_vote((asked){0}), 1, -1, 0);
}

/* ---- voting ------------------------------------------------------------------------------------ */

TEST(a_vote_has_the_number_that_was_proposed_and_leaves_the_sidecar_alone) {
    const tl_reply *r = say_vote((asked){0});
    expect_vote(r, 1, INT64_C(1700000000000500), 0);
    assert_int_equal(item_of(r, 2), 4000);
    assert_int_equal(item_of(r, 6), 1);
    K_HOLDS(TOKEN);
    assert_int_equal(number_of(SAY(L("EXISTS"), L(S))), 0);
    assert_int_equal(number_of(SAY(L("PTTL"), L(K))), 4000);
    holds("F", SAY(L("GET"), L(F)), LEAST);
}

TEST(numbers_increase_whatever_is_proposed) {
    (void)SAY(L("SET"), L(F), L("1700000000009999"));
    expect_vote(say_vote((asked){0}), 1, INT64_C(1700000000010000), 0);
    (void)SAY(L("DEL"), L(K));
    expect_vote(say_vote((asked){.numbers = "64"}), 1, INT64_C(1700000000010064), 0);
    (void)SAY(L("DEL"), L(K));
    (void)SAY(L("HSET"), L(S), L("fence"), L("1700000000020000"));
    expect_vote(say_vote((asked){0}), 1, INT64_C(1700000000020001), 0);
}

TEST(of_several_numbers_the_first_is_what_was_proposed) {
    expect_vote(say_vote((asked){.numbers = "64"}), 1, INT64_C(1700000000000563), 0);
}

/* Asked again it moves nothing but the numbers: so one is raised where the vote is held. */
TEST(a_vote_that_is_held_stays_as_it_is_and_its_number_is_raised) {
    (void)say_vote((asked){0});
    later(1000);
    const tl_reply *r = say_vote((asked){.least = "1700000000000900", .owner = "host 1 x"});
    expect_vote(r, 1, INT64_C(1700000000000900), 1);
    assert_int_equal(item_of(r, 2), 3000);
    K_HOLDS(TOKEN);
    S_HAS("token", TOKEN);
    S_HAS("owner", "host 1 x");
    S_HAS("fence", "1700000000000900");
    S_HAS("until", "1700000005000000");
    expect_vote(say_vote((asked){.least = "5"}), 1, INT64_C(1700000000000901), 1);
}

TEST(another_has_it) {
    (void)say_vote((asked){.token = OTHER});
    const tl_reply *r = say_vote((asked){0});
    expect_vote(r, 0, 0, 0);
    holds("K", tl__reply_item(r, 1), OTHER);
    assert_int_equal(item_of(r, 2), 4000);
    (void)say_vote((asked){.token = OTHER, .owner = "host 1 x"});
    expect_vote(say_vote((asked){0}), 0, -1, 1); /* its release will be announced */
}

TEST(the_sidecar_excludes_others_while_the_key_is_gone) {
    (void)say_vote((asked){.token = OTHER, .owner = "host 1 x"});
    (void)SAY(L("DEL"), L(K));
    const tl_reply *r = say_vote((asked){0});
    expect_vote(r, 0, -1, 1);
    assert_int_equal(item_of(r, 2), 4001);
    expect_vote(say_vote((asked){.token = OTHER}), 1, -1, 0);
    (void)SAY(L("DEL"), L(K));
    later(4001);
    expect_vote(say_vote((asked){0}), 1, -1, 0);
}

TEST(what_comes_too_late_gets_nothing_but_what_it_has) {
    expect_vote(say_vote((asked){.not_after = "1699999999999999"}), -1, -1, 0);
    K_HOLDS(NULL);
    (void)say_vote((asked){.not_after = NOW});
    expect_vote(say_vote((asked){.not_after = "1699999999999999"}), 1, -1, 1);
}

/* Another server's counter is ahead, whose clock has been set back: a majority must reach its number. */
TEST(a_proposal_may_be_ahead_of_the_clock_and_ends_below_the_last_number) {
    char far[32];
    (void)snprintf(far, sizeof far, "%lld", (long long)(NOW_US + 40 * DAY_US));
    expect_vote(say_vote((asked){.least = far}), 1, NOW_US + 40 * DAY_US, 0);
    expect_vote(say_vote((asked){0}), 1, NOW_US + 40 * DAY_US + 1, 1);
    (void)say_vote((asked){.token = OTHER});
    (void)SAY(L("DEL"), L(K), L(F));
    const tl_reply *r = say_vote((asked){.least = "9007199254740992"});
    assert_int_equal(r->type, TL_REPLY_ERROR);
    assert_non_null(strstr(r->text.p, "2^53"));
    K_HOLDS(NULL);
    assert_int_equal(number_of(SAY(L("EXISTS"), L(F))), 0);
}

TEST(a_counter_that_holds_no_number_is_an_error) {
    (void)SAY(L("SET"), L(F), L("x"));
    assert_int_equal(say_vote((asked){0})->type, TL_REPLY_ERROR);
    K_HOLDS(NULL);
}

TEST(a_key_of_another_kind_is_anothers) {
    (void)SAY(L("HSET"), L(K), L("x"), L("y"));
    const tl_reply *r = say_vote((asked){0});
    expect_vote(r, 0, -1, 0);
    assert_int_equal(tl__reply_item(r, 1)->type, TL_REPLY_NIL);
}

TEST(old_servers_vote_by_the_senders_idea_of_the_time) {
    fake_redis_set_level(server, OLD);
    const tl_reply *r = say_vote((asked){.owner = "host 1 x", .not_after = "1"});
    expect_vote(r, 1, INT64_C(1700000000000500), 0);
    assert_int_equal(item_of(r, 6), 0); /* no limit was checked */
    S_HAS("until", "1700000004000000");
    expect_vote(say_vote((asked){.token = OTHER}), 0, -1, 1);
    expect_vote(say_vote((asked){.token = TOKEN, .quiet = "30000"}), -5, -1, 0);
}

/* ---- a server that may have forgotten --------------------------------------------------------------- */

TEST(nothing_is_given_before_it_has_been_the_same_for_long_enough) {
    const tl_reply *r = say_vote((asked){.quiet = "30000"});
    expect_vote(r, -4, -1, 0);
    assert_int_equal(item_of(r, 2), QUIET_MS);
    K_HOLDS(NULL);
    later(QUIET_MS - 1);
    expect_vote(say_vote((asked){.quiet = "30000"}), -4, -1, 0);
    later(QUIET_MS);
    expect_vote(say_vote((asked){.quiet = "30000"}), 1, -1, 0);
    fake_redis_set_run_id(server, 0xb); /* restarted, with its data */
    expect_vote(say_vote((asked){.quiet = "30000"}), -4, -1,
                0); /* what seems its own counts for nothing */
    expect_vote(say_vote((asked){0}), 1, -1,
                1); /* a holder, who believes already, doesn't ask that */
}

/* ---- taking it back ------------------------------------------------------------------------------- */

TEST(a_vote_is_taken_back_and_nobody_told) {
    listener l;
    listen_to(&l, S);
    (void)say_vote((asked){0});
    assert_int_equal(say_unvote(TOKEN, false), 1);
    K_HOLDS(NULL);
    assert_int_equal(number_of(SAY(L("EXISTS"), L(S))), 0);
    assert_int_equal(l.count, 0);
    fake_conn_close(l.conn);
}

TEST(anothers_vote_stays) {
    (void)say_vote((asked){.token = OTHER});
    assert_int_equal(say_unvote(TOKEN, false), 0);
    K_HOLDS(OTHER);
    (void)SAY(L("DEL"), L(K));
    assert_int_equal(say_unvote(TOKEN, false), -1);
}

TEST(a_vote_that_comes_after_it_was_taken_back_finds_the_door_shut) {
    assert_int_equal(say_unvote(TOKEN, true), -1);
    S_HAS("spent", TOKEN);
    assert_int_equal(number_of(SAY(L("PTTL"), L(S))), 62000);
    expect_vote(say_vote((asked){0}), -2, -1, 0);
    K_HOLDS(NULL);
    expect_vote(say_vote((asked){.token = OTHER}), 1, -1, 0);
}

TEST(what_the_sidecar_knows_is_unbound) {
    (void)say_vote((asked){.owner = "host 1 x"});
    assert_int_equal(say_unvote(TOKEN, false), 1);
    S_HAS("token", "");
    S_HAS("spent", TOKEN);
    assert_int_equal(number_of(SAY(L("PTTL"), L(S))), 62000);
    expect_vote(say_vote((asked){.token = OTHER}), 1, -1, 0);
    expect_vote(say_vote((asked){0}), -2, -1, 0);
}
