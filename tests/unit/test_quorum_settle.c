/*
 * Extending and releasing a lock of a majority, and looking at one.
 */
#include "quorum_feed.h"

#include "protocol/quorum_look.h"
#include "protocol/quorum_settle.h"

#define N 3

static tl_quorum_settlement m;

/* ms 0: no vote. */
static void begin_with(q_feed *f, unsigned count, const int64_t *ms, unsigned doubted, tl_op op) {
    tl_job job = feed_job();
    job.hold.fence = 77;
    tl_ballots b = {.count = (uint8_t)count, .doubted = (uint8_t)doubted};
    for (unsigned i = 0; i < count; i++)
        b.until[i] = ms[i] ? feed_ms(ms[i]) : (tl_mono){0};
    job.hold.believed = tl__ballots_deadline(&b);
    q_init(f, count, &m, tl__quorum_settle_step);
    tl__quorum_settle_init(&m, &job, &b, op, 42);
    (void)q_start(f);
}

static void begin(q_feed *f, tl_op op) {
    static const int64_t all[] = {5000, 5000, 5000};
    begin_with(f, N, all, 0, op);
    for (unsigned i = 0; i < N; i++)
        q_assert_asked(f, i, op == TL_RELEASE ? "release" : "renew");
}

static void ends(const q_feed *f, tl_status status, tl_err code) {
    assert_int_equal(f->status, status);
    assert_int_equal(m.result.code, code);
}

/* ---- releasing ----------------------------------------------------------------------------------- */

TEST(a_release_asks_all_and_is_over_when_all_have_answered) {
    q_feed f;
    begin(&f, TL_RELEASE);
    assert_string_equal(q_arg(&f, 0, 0), TOKEN);
    assert_int_equal(f.at[0].argc, 6);
    (void)q_say(&f, 0, "1");
    (void)q_say(&f, 1, "1");
    assert_int_equal(f.status, TL_GO);
    (void)q_say(&f, 2, "1");
    ends(&f, TL_END, TL_OK);
}

TEST(a_majority_has_released_and_the_other_is_seen_to_in_the_background) {
    q_feed f;
    begin(&f, TL_RELEASE);
    (void)q_say(&f, 0, "1");
    (void)q_say(&f, 2, "1");
    (void)q_await(&f);
    ends(&f, TL_DETACH, TL_OK);
    assert_true(feed_since(f.now) <= 1);
    (void)q_timer(&f);
    q_assert_asked(&f, 1, "release");
    (void)q_fail(&f, 1, true, TL_EUNAVAILABLE);
    (void)q_await(&f);
    (void)q_say(&f, 1, "1");
    ends(&f, TL_END, TL_OK);
}

TEST(each_release_that_is_lost_is_asked_again_and_good_when_it_finds_nothing) {
    for (unsigned lost = 0; lost < N; lost++) {
        q_feed f;
        begin(&f, TL_RELEASE);
        (void)q_say(&f, (lost + 1) % N, "1");
        (void)q_fail(&f, lost, true, TL_EUNAVAILABLE);
        (void)q_fail(&f, (lost + 2) % N, false, TL_EUNAVAILABLE);
        (void)q_await(&f);
        if (!f.at[lost].open)
            (void)q_await(&f);
        (void)q_say(&f, lost, "-1"); /* the first one was carried out */
        if (f.status == TL_GO && !f.at[(lost + 2) % N].open)
            (void)q_await(&f);
        if (f.status == TL_GO)
            (void)q_await(&f);
        assert_int_equal(m.result.code, TL_OK);
        assert_true(f.status != TL_GO);
    }
}

TEST(what_was_lost_before_it_was_released_is_said) {
    static const struct {
        const char *say[N];
        tl_err code;
    } rows[] = {{{"-1", "-1", "-1"}, TL_EEXPIRED}, {{"-1", "1", "-1"}, TL_EEXPIRED},
                {{"0", "0", "1"}, TL_ETAKEN},      {{"'another'", "-1", "'another'"}, TL_ETAKEN},
                {{"0", "-1", "1"}, TL_EEXPIRED},   {{"1", "0", "1"}, TL_OK}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        q_feed f;
        begin(&f, TL_RELEASE);
        for (unsigned s = 0; s < N; s++)
            (void)q_say(&f, s, "%s", rows[i].say[s]);
        ends(&f, TL_END, rows[i].code);
    }
}

/* Two of five never voted: what they say of it is no loss, and they are free for others. */
TEST(who_had_just_a_majority_has_released_when_a_majority_is_free) {
    static const int64_t three[] = {5000, 5000, 5000, 0, 0};
    q_feed f;
    begin_with(&f, 5, three, 0, TL_RELEASE);
    (void)q_say(&f, 3, "-1");
    (void)q_say(&f, 4, "-1");
    (void)q_say(&f, 0, "1");
    (void)q_fail(&f, 2, true, TL_EUNAVAILABLE);
    while (f.status == TL_GO && tl__mono_before(f.now, feed_ms(100)))
        if (f.at[2].open)
            (void)q_fail(&f, 2, true, TL_EUNAVAILABLE);
        else if (f.at[1].open)
            (void)q_say(&f, 1, "1");
        else
            (void)q_await(&f);
    ends(&f, TL_DETACH, TL_OK);
}

/* ---- a release that lets the lock rest ---------------------------------------------------------- */

/* Until so long after the start. */
static void begin_rest(q_feed *f, const int64_t *votes, int64_t ms) {
    tl_job job = feed_job();
    job.hold.fence = 77;
    job.release.rest_ms = ms;
    job.release.rest_since = feed_ms(0);
    tl_ballots b = {.count = N, .seen_us = {FEED_SERVER_US + 5, FEED_SERVER_US + 7}};
    for (unsigned i = 0; i < N; i++)
        b.until[i] = votes[i] ? feed_ms(votes[i]) : (tl_mono){0};
    job.hold.believed = tl__ballots_deadline(&b);
    q_init(f, N, &m, tl__quorum_settle_step);
    tl__quorum_settle_init(&m, &job, &b, TL_RELEASE, 42);
    (void)q_start(f);
    for (unsigned i = 0; i < N; i++)
        q_assert_asked(f, i, "rest");
}

static const int64_t all_voted[] = {5000, 5000, 5000}, two_voted[] = {5000, 5000, 0};

/* By the clock of each as it was at the acquire. No server is asked to count from the time that it has noted: the number there may
 * be by another's clock. */
TEST(a_rest_asks_all_for_the_end_by_their_own_clocks) {
    q_feed f;
    begin_rest(&f, all_voted, 60000);
    for (unsigned i = 0; i < N; i++) {
        assert_int_equal(f.at[i].argc, 9);
        assert_string_equal(q_arg(&f, i, 0), TOKEN);
        assert_int_equal(q_arg_int(&f, i, 1), 60000);
        assert_int_equal(q_arg_int(&f, i, 2), i < 2 ? FEED_SERVER_US + 5 + 2 * i + 60000000 : 0);
        assert_int_equal(q_arg_int(&f, i, 3), FEED_SERVER_US);
        assert_string_equal(q_arg(&f, i, 4), OWNER);
        assert_int_equal(q_arg_int(&f, i, 5), 77);
    }
}

TEST(a_rest_counts_when_a_majority_has_it) {
    q_feed f;
    begin_rest(&f, all_voted, 60000);
    (void)q_say(&f, 0, "1");
    (void)q_say(&f, 2, "1");
    (void)q_await(&f);
    ends(&f, TL_DETACH, TL_OK);
    (void)q_timer(&f);
    q_assert_asked(&f, 1, "rest");
    (void)q_say(&f, 1, "1");
    ends(&f, TL_END, TL_OK);
}

TEST(what_was_lost_before_it_was_to_rest_is_said) {
    static const struct {
        const char *say[N];
        tl_err code;
    } rows[] = {{{"-1", "-1", "1"}, TL_EEXPIRED},
                {{"0", "0", "1"}, TL_ETAKEN},
                {{"0", "-1", "1"}, TL_EEXPIRED},
                {{"1", "0", "1"}, TL_OK}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        q_feed f;
        begin_rest(&f, all_voted, 60000);
        for (unsigned s = 0; s < N; s++)
            (void)q_say(&f, s, "%s", rows[i].say[s]);
        ends(&f, TL_END, rows[i].code);
    }
}

/* One never voted, and one doesn't answer: a release would have worked. */
TEST(a_majority_that_is_free_is_no_rest) {
    q_feed f;
    begin_rest(&f, two_voted, 60000);
    (void)q_say(&f, 2, "-1");
    (void)q_say(&f, 0, "1");
    while (f.status == TL_GO)
        (void)(f.at[1].open ? q_fail(&f, 1, true, TL_EUNAVAILABLE) : q_await(&f));
    ends(&f, TL_DETACH, TL_EUNCERTAIN);
    assert_int_equal(feed_since(f.now), ATTEMPT_MS);
}

/* The key was deleted at two of them. */
TEST(a_repeated_rest_that_finds_nothing_there_is_not_counted) {
    q_feed f;
    begin_rest(&f, all_voted, 60000);
    (void)q_say(&f, 0, "1");
    (void)q_fail(&f, 1, true, TL_EUNAVAILABLE);
    (void)q_fail(&f, 2, true, TL_EUNAVAILABLE);
    while (f.status == TL_GO)
        if (f.at[1].open)
            (void)q_say(&f, 1, "-1");
        else if (f.at[2].open)
            (void)q_say(&f, 2, "-1");
        else
            (void)q_await(&f);
    ends(&f, TL_END, TL_EEXPIRED);
}

/* The first requests have worked, and what they left has ended. */
TEST(a_rest_that_is_over_meanwhile_becomes_a_release_there) {
    q_feed f;
    begin_rest(&f, all_voted, 100);
    for (unsigned i = 0; i < N; i++)
        (void)q_fail(&f, i, true, TL_EUNAVAILABLE);
    f.now = feed_ms(101);
    (void)q_timer(&f);
    for (unsigned i = 0; i < N; i++) {
        q_assert_asked(&f, i, "release");
        (void)q_say(&f, i, "-1");
    }
    ends(&f, TL_END, TL_OK);
}

/* ---- releasing what is in doubt ------------------------------------------------------------------ */

TEST(where_a_vote_is_in_doubt_the_door_is_shut_behind_it) {
    static const int64_t two[] = {5000, 5000, 0};
    q_feed f;
    begin_with(&f, N, two, 4, TL_RELEASE);
    assert_int_equal(f.at[0].argc, 6);
    assert_string_not_equal(q_arg(&f, 0, 1), "");
    assert_int_equal(f.at[2].argc, 7);
    assert_string_equal(q_arg(&f, 2, 1), ""); /* how late it may come isn't known */
    assert_string_equal(q_arg(&f, 2, 2), "");
}

TEST(a_release_without_answers_is_uncertain_and_goes_on) {
    q_feed f;
    begin(&f, TL_RELEASE);
    for (int n = 0; n < 1000 && f.status == TL_GO; n++)
        for (unsigned i = 0; i < N && f.status == TL_GO; i++)
            (void)(f.at[i].open ? q_fail(&f, i, true, TL_EUNAVAILABLE) : q_await(&f));
    ends(&f, TL_DETACH, TL_EUNCERTAIN);
    assert_int_equal(feed_since(f.now), ATTEMPT_MS);
    assert_string_equal(f.out.message, "no majority of the 3 servers: h: no reply in time");
    (void)q_timer(&f);
    for (unsigned i = 0; i < N; i++)
        (void)q_say(&f, i, "-1");
    assert_int_equal(f.status, TL_END);
}

/* Their clocks may be slow. */
TEST(a_release_goes_on_until_the_votes_have_expired) {
    q_feed f;
    begin(&f, TL_RELEASE);
    for (int i = 0; i < 10000 && f.status != TL_END; i++)
        for (unsigned s = 0; s < N && f.status != TL_END; s++)
            (void)(f.at[s].open ? q_lost(&f, s) : q_await(&f));
    assert_int_equal(f.now.ns, feed_ms(ATTEMPT_MS).ns + FEED_MOST_OF(TTL_MS));
}

TEST(a_release_that_is_refused_for_good_says_so) {
    q_feed f;
    begin(&f, TL_RELEASE);
    for (unsigned i = 0; i < N; i++)
        (void)q_say(&f, i, "-NOPERM no\n");
    ends(&f, TL_END, TL_EDENIED);
}

/* ---- extending ------------------------------------------------------------------------------------ */

TEST(an_extension_is_good_by_a_majority) {
    q_feed f;
    begin(&f, TL_RENEW);
    (void)q_kept(&f, 1, TTL_MS);
    (void)q_kept(&f, 2, TTL_MS - 1000);
    assert_int_equal(f.status, TL_GO);
    (void)q_await(&f);
    ends(&f, TL_END, TL_OK); /* nothing needs to be undone */
    assert_int_equal(m.result.deadline.ns, feed_ms(0).ns + FEED_LEAST_OF(TTL_MS - 1000));
    assert_int_equal(m.ballots.until[0].ns, feed_ms(5000).ns);
}

TEST(an_extension_that_fewer_confirm_is_none) {
    q_feed f;
    begin(&f, TL_RENEW);
    (void)q_kept(&f, 1, TTL_MS);
    (void)q_not_kept(&f, 0, -1);
    assert_int_equal(f.status, TL_GO);
    (void)q_not_kept(&f, 2, 0);
    ends(&f, TL_END, TL_ELOST);
}

TEST(an_extension_without_answers_is_uncertain) {
    q_feed f;
    begin(&f, TL_RENEW);
    (void)q_kept(&f, 1, TTL_MS);
    for (int n = 0; n < 1000 && f.status == TL_GO; n++)
        for (unsigned i = 0; i < N && f.status == TL_GO; i += 2)
            (void)(f.at[i].open ? q_refused(&f, i) : q_await(&f));
    ends(&f, TL_END, TL_EUNCERTAIN);
    assert_int_equal(feed_since(f.now), ATTEMPT_MS);
}

/* That another was not reached at first says nothing of why it was refused. */
TEST(an_extension_that_is_refused_says_what_the_server_has_said) {
    q_feed f;
    begin(&f, TL_RENEW);
    (void)q_say(&f, 0, "-NOPERM no\n");
    (void)q_not_kept(&f, 2, 0);
    (void)q_refused(&f, 1);
    while (f.status == TL_GO && !f.at[1].open)
        (void)q_await(&f);
    (void)q_kept(&f, 1, TTL_MS);
    ends(&f, TL_END, TL_EDENIED);
    assert_non_null(strstr(f.out.message, "NOPERM"));
}

/* Two are confirmed for a moment, which has passed when a majority has been waited for. */
TEST(an_extension_that_is_over_already_is_asked_for_again) {
    q_feed f;
    begin(&f, TL_RENEW);
    (void)q_kept(&f, 1, 20);
    q_later(&f, 21);
    (void)q_kept(&f, 2, TTL_MS);
    assert_int_equal(f.status, TL_GO);
    q_assert_asked(&f, 1, "renew");
    (void)q_kept(&f, 1, TTL_MS);
    (void)q_await(&f);
    ends(&f, TL_END, TL_OK);
    assert_true(tl__mono_before(feed_ms(20000), m.result.deadline));
}

/* A lock that nobody renews may stand at three of five; two of these die. */
TEST(an_extension_asks_those_for_their_vote_who_have_none) {
    static const int64_t three[] = {5000, 5000, 5000, 0, 0};
    q_feed f;
    begin_with(&f, 5, three, 0, TL_RENEW);
    for (unsigned i = 0; i < 5; i++)
        q_assert_asked(&f, i, i < 3 ? "renew" : "vote");
    assert_string_equal(q_arg(&f, 3, 0), TOKEN);
    assert_string_equal(q_arg(&f, 3, 8), "0"); /* whatever it has forgotten */
    (void)q_refused(&f, 0);
    (void)q_refused(&f, 1);
    (void)q_kept(&f, 2, TTL_MS);
    (void)q_voted(&f, 3, 1, TTL_MS);
    assert_int_equal(f.status, TL_GO);
    (void)q_voted(&f, 4, 1, TTL_MS);
    while (f.status == TL_GO)
        (void)q_await(&f);
    ends(&f, TL_END, TL_OK);
    assert_true(tl__mono_before(feed_ms(20000), m.result.deadline));
    assert_int_equal(m.ballots.doubted, 0);
}

TEST(an_extension_asks_for_a_vote_that_is_gone_and_finds_another_s) {
    for (int another = 0; another < 2; another++) {
        q_feed f;
        begin(&f, TL_RENEW);
        (void)q_not_kept(&f, 0, -1);
        q_assert_asked(&f, 0, "vote");
        (void)q_kept(&f, 1, TTL_MS);
        if (another)
            (void)q_busy(&f, 0, "other", 500, false);
        else
            (void)q_voted(&f, 0, 1, TTL_MS);
        (void)q_kept(&f, 2, TTL_MS);
        ends(&f, TL_END, TL_OK);
        assert_int_equal(m.ballots.until[0].ns > 0, !another);
        assert_int_equal(m.ballots.doubted, 0);
    }
}

/* Where a majority doesn't hold it without that vote another may have had it. */
TEST(an_extension_asks_for_no_vote_where_too_few_hold_it) {
    static const int64_t two[] = {5000, 5000, 0};
    q_feed f;
    begin_with(&f, N, two, 0, TL_RENEW);
    q_assert_asked(&f, 2, "vote");
    (void)q_not_kept(&f, 0, -1);
    q_assert_asked(&f, 0, NULL);
    (void)q_voted(&f, 2, 1, TTL_MS);
    (void)q_kept(&f, 1, TTL_MS);
    ends(&f, TL_END, TL_ELOST);
    assert_int_equal(m.ballots.until[2].ns, 0);
    assert_int_equal(m.ballots.doubted, 4); /* it may be there, and the release looks */
}

/* After a disruption another may have had it, too. */
TEST(an_extension_asks_for_no_vote_while_the_hold_is_in_doubt) {
    q_feed f;
    tl_job job = feed_job();
    tl_ballots b = {.count = N, .until = {feed_ms(5000), feed_ms(5000)}};
    job.hold.believed = tl__ballots_deadline(&b);
    job.hold.disrupted = feed_ms(-1);
    q_init(&f, N, &m, tl__quorum_settle_step);
    tl__quorum_settle_init(&m, &job, &b, TL_RENEW, 42);
    (void)q_start(&f);
    q_assert_asked(&f, 2, "renew");
    (void)q_kept(&f, 0, TTL_MS);
    (void)q_kept(&f, 1, TTL_MS);
    while (f.status == TL_GO)
        (void)q_await(&f);
    ends(&f, TL_END, TL_OK);
}

/* The two others may have voted for another client in that pause. */
TEST(an_extension_asks_for_no_vote_after_a_pause_in_it) {
    q_feed f;
    tl_job job = feed_job();
    tl_ballots b = {.count = N, .until = {feed_ms(5000), feed_ms(5000), feed_ms(5000)}};
    job.hold.believed = tl__ballots_deadline(&b);
    q_init(&f, N, &m, tl__quorum_settle_step);
    tl__quorum_settle_init(&m, &job, &b, TL_RENEW, 42);
    (void)q_start(&f);
    (void)q_kept(&f, 0, TTL_MS);
    q_later(&f, 10);
    for (unsigned i = 0; i < N; i++)
        f.server[i].disrupted = f.now;
    q_later(&f, 10);
    (void)q_not_kept(&f, 1, -1);
    q_assert_asked(&f, 1, NULL);
    (void)q_not_kept(&f, 2, -1);
    ends(&f, TL_END, TL_ELOST);
}

TEST(a_vote_that_comes_after_the_deadline_extends_nothing) {
    static const int64_t two[] = {50, 50, 0};
    q_feed f;
    begin_with(&f, N, two, 0, TL_RENEW);
    (void)q_kept(&f, 1, TTL_MS);
    q_later(&f, 51);
    (void)q_voted(&f, 2, 1, TTL_MS);
    assert_int_equal(m.ballots.until[2].ns, 0);
    (void)q_not_kept(&f, 0, -1);
    ends(&f, TL_END, TL_ELOST);
}

/* Who adopts it doesn't know who has voted: that is found first. */
TEST(an_adopted_lock_is_extended_where_it_is_and_then_asked_for_elsewhere) {
    static const int64_t none[] = {0, 0, 0};
    q_feed f;
    begin_with(&f, N, none, 0, TL_RENEW);
    for (unsigned i = 0; i < N; i++)
        q_assert_asked(&f, i, "renew");
    (void)q_kept(&f, 0, TTL_MS);
    (void)q_kept(&f, 1, TTL_MS);
    (void)q_not_kept(&f, 2, -1);
    q_assert_asked(&f, 2, "vote");
    (void)q_voted(&f, 2, 1, TTL_MS);
    ends(&f, TL_END, TL_OK);
    assert_true(m.ballots.until[2].ns > 0);
}

/* One that was in doubt may be there, and is there for the next extension. */
TEST(a_vote_without_an_answer_is_kept_by_the_next_extension) {
    static const int64_t two[] = {5000, 5000, 0};
    q_feed f;
    begin_with(&f, N, two, 0, TL_RENEW);
    (void)q_kept(&f, 0, TTL_MS);
    (void)q_kept(&f, 1, TTL_MS);
    (void)q_await(&f);
    ends(&f, TL_END, TL_OK);
    assert_int_equal(m.ballots.doubted, 4);
    begin_with(&f, N, two, 4, TL_RENEW);
    q_assert_asked(&f, 2, "renew");
    (void)q_kept(&f, 2, TTL_MS);
    assert_int_equal(m.ballots.doubted, 0);
}

/* ---- looking ---------------------------------------------------------------------------------------- */

static tl_quorum_look look;

static void begin_look(q_feed *f) {
    tl_ask ask;
    tl__ask_init(&ask, TL_LITERAL(KEY), TL_LITERAL(LINE), ATTEMPT_MS, CONNECT_MS);
    q_init(f, N, &look, tl__quorum_look_step);
    tl__quorum_look_init(&look, &ask, N);
    (void)q_start(f);
    q_reach_all(f);
}

static void looked(q_feed *f, unsigned i, const char *value, int64_t left_ms, const char *fence) {
    q_assert_asked(f, i, "look");
    (void)q_say(f, i, "['string' '%s' %lld '%s' '%lld' '%s' '%s' 'host 7 demo' %s 0 0]", value,
                (long long)left_ms, value, (long long)(FEED_SERVER_US + 60000000), fence, fence,
                q_time(f));
}

static void looked_free(q_feed *f, unsigned i) {
    (void)q_say(f, i, "['none' nil -2 nil nil '5' nil nil %s 0 0]", q_time(f));
}

TEST(held_is_what_a_majority_holds) {
    q_feed f;
    begin_look(&f);
    looked_free(&f, 0);
    looked(&f, 1, TOKEN, 9000, "1700000000000007");
    assert_int_equal(f.status, TL_GO);
    looked(&f, 2, TOKEN, 4000, "1700000000000007");
    assert_int_equal(f.status, TL_END);
    assert_int_equal(look.result.code, TL_OK);
    assert_true(look.info.held && look.info.by_tidelock);
    assert_int_equal(look.info.remaining_ms, 4000);
    assert_int_equal(look.info.fence, INT64_C(1700000000000007));
    assert_string_equal(look.info.host, "host");
    assert_int_equal(look.votes, 2);
}

TEST(votes_for_different_holders_are_nobodys) {
    q_feed f;
    begin_look(&f);
    looked(&f, 0, TOKEN, 9000, "7");
    looked(&f, 1, "another", 9000, "8");
    looked_free(&f, 2);
    assert_int_equal(f.status, TL_END);
    assert_int_equal(look.result.code, TL_OK);
    assert_false(look.info.held);
    assert_int_equal(look.votes, 0);
    assert_string_equal(look.info.oddity, "no majority of the 3 servers holds it, but 2 do");
}

TEST(free_is_what_a_majority_says_is_free) {
    q_feed f;
    begin_look(&f);
    (void)q_refused(&f, 1);
    looked_free(&f, 0);
    looked_free(&f, 2);
    assert_int_equal(look.result.code, TL_OK);
    assert_false(look.info.held);
    assert_string_equal(look.info.oddity, "");
}

TEST(fewer_than_a_majority_tell_nothing) {
    q_feed f;
    begin_look(&f);
    looked(&f, 0, TOKEN, 9000, "7");
    (void)q_refused(&f, 1);
    (void)q_refused(&f, 2);
    assert_int_equal(f.status, TL_END);
    assert_int_equal(look.result.code, TL_EUNAVAILABLE);
    assert_string_equal(f.out.message, "no majority of the 3 servers: h: no reply in time");
}
