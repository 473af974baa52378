/*
 * Acquiring a lock of a majority, against servers that the test plays: each reply lost, late, refused; numbers that
 * differ; contenders; what is left behind.
 */
#include "quorum_feed.h"

#include "protocol/quorum_acquire.h"

#define N 3
#define OTHER "another"
#define NUMBER FEED_SERVER_US /* what is proposed at the start */

static tl_quorum_acquisition m;
static tl_job job;

static void begin_of(q_feed *f, unsigned count, int64_t wait_ms) {
    static const tl_retry retry = {.kind = TL_RETRY_AUTO};
    job = feed_job();
    job.acquire.quiet_ms = TTL_MS;
    q_init(f, count, &m, tl__quorum_acquire_step);
    tl__quorum_acquire_init(&m, &job, count, &retry, wait_ms, CONNECT_MS, 42);
    (void)q_start(f);
}

static void begin(q_feed *f, int64_t wait_ms) {
    begin_of(f, N, wait_ms);
    q_reach_all(f);
}

/* The servers in the order of this key, which decides who goes on. */
static unsigned ranked(unsigned rank, unsigned count) {
    return (tl__quorum_first(TL_LITERAL(KEY), count) + rank) % count;
}

static unsigned asked(const q_feed *f, const char *script) {
    unsigned mask = 0;
    for (unsigned i = 0; i < f->count; i++)
        if (f->at[i].open && strcmp(f->at[i].script, script) == 0)
            mask |= 1U << i;
    return mask;
}

static void assert_held(const q_feed *f, int64_t number) {
    assert_int_equal(f->status, TL_END);
    assert_int_equal(m.result.code, TL_OK);
    assert_int_equal(m.result.acquire.fence, number);
}

/* Whatever waits is over, as it ends by itself or is cancelled; what may be left is taken back. */
static void assert_detached(const q_feed *f, tl_err code) {
    assert_int_equal(f->status, TL_DETACH);
    assert_int_equal(m.result.code, code);
}

/* ---- the usual way ----------------------------------------------------------------------------- */

TEST(all_are_asked_at_once_with_one_proposal_and_a_limit_by_their_own_clocks) {
    q_feed f;
    begin_of(&f, 5, 1000);
    assert_int_equal(asked(&f, ""), 31);
    assert_int_equal(f.asked, 0);
    f.server[2].anchor.offset = (tl_interval){FEED_OFFSET_US + 5000, FEED_OFFSET_US + 7000};
    q_reach_all(&f);
    assert_int_equal(asked(&f, "vote"), 31);
    for (unsigned i = 0; i < 5; i++) {
        assert_string_equal(q_arg(&f, i, 0), TOKEN);
        assert_int_equal(q_arg_int(&f, i, 1), TTL_MS);
        assert_string_equal(q_arg(&f, i, 5), ""); /* S is left to the first renewal */
        assert_int_equal(q_arg_int(&f, i, 6), 1);
        assert_int_equal(q_arg_int(&f, i, 7), NUMBER + 7000);
        assert_int_equal(q_arg_int(&f, i, 8), TTL_MS); /* quiet_ms */
    }
    assert_int_equal(q_arg_int(&f, 2, 2) - q_arg_int(&f, 0, 2), 5000);
    for (unsigned i = 0; i < 5; i++)
        (void)q_voted(&f, i, NUMBER + 7000, TTL_MS);
    assert_held(&f, NUMBER + 7000);
    assert_int_equal(m.ballots.count, 5);
    assert_int_equal(m.ballots.seen_us[0], FEED_SERVER_US);
    assert_int_equal(m.ballots.doubted, 0);
    assert_int_equal(f.asked, 5);
}

TEST(it_is_held_for_as_long_as_a_majority_of_the_votes) {
    q_feed f;
    begin(&f, 1000);
    (void)q_voted(&f, 0, NUMBER, TTL_MS);
    (void)q_voted(&f, 2, NUMBER, TTL_MS - 9000);
    (void)q_voted(&f, 1, NUMBER, TTL_MS - 5000);
    assert_held(&f, NUMBER);
    int64_t least = feed_ms(0).ns + FEED_LEAST_OF(TTL_MS - 5000);
    assert_int_equal(m.result.deadline.ns, least);
}

TEST(a_majority_is_enough_and_the_others_are_waited_for_a_moment_only) {
    q_feed f;
    begin(&f, 1000);
    q_later(&f, 8);
    (void)q_voted(&f, 0, NUMBER, TTL_MS);
    (void)q_voted(&f, 1, NUMBER, TTL_MS);
    assert_int_equal(f.status, TL_GO);
    q_assert_waits_between(&f, 10, 10); /* a quarter of what it took */
    (void)q_await(&f);
    assert_held(&f, NUMBER);
    assert_int_equal(m.ballots.doubted, 1U << 2); /* it may come yet */
    assert_int_equal(m.ballots.until[2].ns, 0);
}

/* A rest counts from when the lock is held, by the clock of each server as its vote has told it. */
TEST(it_is_known_which_time_each_server_could_show_when_the_lock_was_acquired) {
    q_feed f;
    begin(&f, 1000);
    q_later(&f, 10);
    for (unsigned i = 0; i < N; i++)
        f.server[i].anchor.offset.hi += 5000000; /* it was known badly */
    (void)q_voted(&f, 0, NUMBER, TTL_MS);
    q_later(&f, 1000);
    (void)q_voted(&f, 2, NUMBER, TTL_MS);
    while (f.status == TL_GO)
        (void)q_await(&f);
    assert_held(&f, NUMBER);
    int64_t now_us = feed_server_us(feed_since(f.now));
    assert_in_range(m.ballots.seen_us[0], now_us,
                    now_us + 10000 + 1000); /* the round trip, and what clocks may differ by */
    assert_in_range(m.ballots.seen_us[2], now_us, now_us + 1010000 + 1000);
    assert_int_equal(m.ballots.seen_us[1], 0);
}

TEST(one_vote_is_none) {
    q_feed f;
    begin(&f, 1000);
    (void)q_voted(&f, 0, NUMBER, TTL_MS);
    (void)q_busy(&f, 1, OTHER, 5000, true);
    assert_int_equal(f.status, TL_GO);
    (void)q_busy(&f, 2, OTHER, 5000, true);
    assert_int_equal(f.status, TL_GO);
    assert_int_not_equal(m.result.code == TL_OK && m.result.acquire.fence, 1);
    q_assert_asked(&f, 0, "unvote");
}

TEST(a_vote_that_has_run_out_counts_no_more) {
    q_feed f;
    begin_of(&f, 3, 60000);
    q_reach_all(&f);
    (void)q_voted(&f, 0, NUMBER, 20);
    (void)q_refused(&f, 1);
    q_later(&f, 21);
    (void)q_voted(&f, 2, NUMBER, TTL_MS);
    assert_int_equal(f.status, TL_GO);
}

/* The asker was stopped meanwhile: nobody else has the lock. */
TEST(votes_that_come_too_late_are_no_others) {
    q_feed f;
    begin(&f, 0);
    q_later(&f, 21);
    for (unsigned i = 0; i < N; i++)
        (void)q_voted(&f, i, NUMBER, 20);
    assert_int_equal(f.status, TL_GO);
    assert_int_equal(asked(&f, "unvote"), 7);
    while (f.status == TL_GO)
        for (unsigned i = 0; i < N && f.status == TL_GO; i++)
            (void)(f.at[i].open ? q_refused(&f, i) : q_await(&f));
    assert_detached(&f, TL_EUNAVAILABLE);
}

/* One voted, and that ran out before a majority had answered. */
TEST(a_vote_that_ran_out_says_nothing_of_others) {
    q_feed f;
    begin(&f, 0);
    (void)q_voted(&f, 0, NUMBER, 20);
    (void)q_refused(&f, 1);
    q_later(&f, 21);
    (void)q_voted(&f, 2, NUMBER, 20);
    assert_int_equal(f.status, TL_GO);
    assert_int_equal(asked(&f, "unvote"), 5);
}

/* ---- replies that are lost --------------------------------------------------------------------- */

TEST(any_one_reply_may_be_lost) {
    for (unsigned lost = 0; lost < N; lost++)
        for (unsigned sent = 0; sent < 2; sent++) {
            q_feed f;
            begin(&f, 10000);
            (void)q_fail(&f, lost, sent, TL_EUNAVAILABLE);
            (void)q_voted(&f, (lost + 1) % N, NUMBER, TTL_MS);
            (void)q_voted(&f, (lost + 2) % N, NUMBER, TTL_MS);
            assert_held(&f, NUMBER);
            assert_int_equal(m.ballots.doubted, sent << lost);
            assert_int_equal(m.result.proof.doubted, sent);
        }
}

TEST(two_replies_that_are_lost_may_be_a_majority) {
    q_feed f;
    begin(&f, 3000);
    (void)q_busy(&f, 0, OTHER, 60000, true);
    (void)q_lost(&f, 1);
    (void)q_lost(&f, 2);
    assert_int_equal(f.status, TL_GO);
    for (int i = 0; i < 40 && f.status == TL_GO; i++)
        for (unsigned s = 0; s < N && f.status == TL_GO; s++)
            if (f.at[s].open)
                (void)q_fail(&f, s, strcmp(f.at[s].script, "") != 0, TL_EUNAVAILABLE);
            else if (s == N - 1)
                (void)q_await(&f);
    assert_int_equal(f.status, TL_DETACH);
    assert_int_equal(m.result.code, TL_EUNCERTAIN);
    (void)q_timer(&f);
    assert_int_equal(asked(&f, "release") & 6, 6);
    assert_string_equal(q_arg(&f, 1, 2), ""); /* the door is shut behind what may come yet */
}

TEST(what_may_be_there_is_taken_back_until_each_server_has_said_so) {
    q_feed f;
    begin(&f, 1000);
    (void)q_voted(&f, 0, NUMBER, TTL_MS);
    (void)q_event(&f, (tl_event){.kind = TL_CANCEL});
    assert_detached(&f, TL_ECANCELLED);
    (void)q_timer(&f);
    assert_int_equal(asked(&f, "release"),
                     7); /* also of those that haven't answered; others, who wait, are told */
    assert_int_equal(f.at[0].argc - f.at[0].nkeys, 2);
    assert_int_equal(f.at[1].argc - f.at[1].nkeys, 3);
    assert_int_equal(q_say(&f, 0, "1"), TL_GO);
    assert_int_equal(q_say(&f, 1, "-1"), TL_GO);
    assert_int_equal(q_fail(&f, 2, true, TL_EUNAVAILABLE), TL_GO);
    (void)q_await(&f);
    assert_int_equal(asked(&f, "release"), 4);
    assert_int_equal(q_say(&f, 2, "0"), TL_END);
}

TEST(nothing_is_taken_back_for_longer_than_a_lifetime) {
    q_feed f;
    begin(&f, 1000);
    (void)q_event(&f, (tl_event){.kind = TL_CANCEL});
    assert_detached(&f, TL_ECANCELLED);
    (void)q_timer(&f);
    for (int i = 0; i < 10000 && f.status == TL_GO; i++)
        for (unsigned s = 0; s < N && f.status == TL_GO; s++)
            (void)(f.at[s].open ? q_lost(&f, s) : q_await(&f));
    assert_int_equal(f.status, TL_END);
    assert_in_range(f.now.ns, feed_ms(TTL_MS).ns,
                    feed_ms(TTL_MS + FEED_GAIN_MS + 2 * ATTEMPT_MS).ns);
}

TEST(a_cancel_before_anything_was_asked_leaves_nothing) {
    q_feed f;
    begin_of(&f, N, 1000);
    assert_int_equal(q_event(&f, (tl_event){.kind = TL_CANCEL}), TL_END);
    assert_int_equal(m.result.code, TL_ECANCELLED);
    assert_false(m.result.maybe);
}

/* ---- fencing numbers --------------------------------------------------------------------------- */

TEST(a_number_that_a_majority_gave_counts_though_another_gave_a_larger_one) {
    q_feed f;
    begin_of(&f, 5, 1000);
    q_reach_all(&f);
    (void)q_voted(&f, 0, NUMBER, TTL_MS);
    (void)q_voted(&f, 1, NUMBER + 90, TTL_MS);
    (void)q_voted(&f, 2, NUMBER, TTL_MS);
    (void)q_voted(&f, 3, NUMBER + 7, TTL_MS);
    (void)q_voted(&f, 4, NUMBER, TTL_MS);
    assert_held(&f, NUMBER);
}

TEST(of_numbers_that_differ_the_greatest_is_raised_before_it_counts) {
    q_feed f;
    begin(&f, 1000);
    (void)q_voted(&f, 0, NUMBER, TTL_MS);
    (void)q_voted(&f, 1, NUMBER + 5, TTL_MS);
    (void)q_voted(&f, 2, NUMBER + 3, TTL_MS);
    assert_int_equal(f.status, TL_GO);
    assert_int_equal(asked(&f, "vote"), 5);
    for (unsigned i = 0; i < N; i += 2) {
        assert_string_equal(q_arg(&f, i, 0), TOKEN);
        assert_int_equal(q_arg_int(&f, i, 7), NUMBER + 5);
        assert_string_equal(q_arg(&f, i, 5), OWNER); /* asked again: S knows */
    }
    (void)q_raised(&f, 2, NUMBER + 5, TTL_MS); /* a majority has it: enough */
    assert_held(&f, NUMBER + 5);
}

/* Others of the slot have drawn meanwhile; this lock's own is at most what was raised. */
TEST(a_counter_that_was_beyond_the_number_is_as_good_where_the_vote_was_held_all_the_time) {
    q_feed f;
    begin(&f, 1000);
    (void)q_voted(&f, 0, NUMBER, TTL_MS);
    (void)q_voted(&f, 1, NUMBER + 5, TTL_MS);
    (void)q_refused(&f, 2);
    assert_int_equal(asked(&f, "vote"), 1);
    (void)q_raised(&f, 0, NUMBER + 900, TTL_MS);
    assert_held(&f, NUMBER + 5);
}

/* Another may have held the lock meanwhile, with a number up to that one. */
TEST(a_vote_that_was_lost_before_its_number_was_raised_brings_a_new_one) {
    q_feed f;
    begin(&f, 1000);
    (void)q_voted(&f, 0, NUMBER, TTL_MS);
    (void)q_voted(&f, 1, NUMBER + 5, TTL_MS);
    (void)q_refused(&f, 2);
    (void)q_voted(&f, 0, NUMBER + 9, TTL_MS); /* drawn by a new vote */
    assert_int_equal(f.status, TL_GO);
    assert_int_equal(asked(&f, "vote"), 2);
    assert_int_equal(q_arg_int(&f, 1, 7), NUMBER + 9);
    (void)q_raised(&f, 1, NUMBER + 9, TTL_MS);
    assert_held(&f, NUMBER + 9);
}

TEST(a_vote_that_is_anothers_when_its_number_is_to_be_raised_is_none) {
    q_feed f;
    begin(&f, 10000);
    (void)q_voted(&f, 0, NUMBER, TTL_MS);
    (void)q_voted(&f, 1, NUMBER + 5, TTL_MS);
    (void)q_refused(&f, 2);
    (void)q_busy(&f, 0, OTHER, 5000, false);
    assert_int_equal(f.status, TL_GO);
    q_assert_asked(&f, 0, NULL);
    assert_true(tl__mono_before(f.now, f.out.until));
}

TEST(a_number_that_could_not_be_raised_is_no_fence) {
    q_feed f;
    begin(&f, 10000);
    (void)q_voted(&f, 0, NUMBER, TTL_MS);
    (void)q_voted(&f, 1, NUMBER + 5, TTL_MS);
    (void)q_refused(&f, 2);
    (void)q_fail(&f, 0, true, TL_EUNAVAILABLE);
    assert_int_equal(f.status, TL_GO); /* it begins anew, with another token */
    (void)q_await(&f);
    q_assert_asked(&f, 1, "unvote");
    assert_string_equal(q_arg(&f, 1, 0), TOKEN);
    (void)q_say(&f, 1, "1");
    (void)q_reached(&f, 1);
    if (!f.at[0].open)
        (void)q_await(&f);
    q_assert_asked(&f, 0, "unvote");
    (void)q_say(&f, 0, "1");
    (void)q_reached(&f, 0);
    assert_int_equal(asked(&f, "vote") & 3, 3);
    assert_string_not_equal(q_arg(&f, 0, 0), TOKEN);
    assert_int_equal(q_arg_int(&f, 0, 7) > NUMBER + 5, 1);
}

TEST(the_next_proposal_is_beyond_all_that_was_seen) {
    q_feed f;
    begin(&f, 10000);
    unsigned first = ranked(0, N), second = ranked(1, N), third = ranked(2, N);
    (void)q_voted(&f, first, NUMBER + 1000000000, TTL_MS);
    (void)q_busy(&f, second, OTHER, 100, false);
    (void)q_busy(&f, third, "a third", 100, false);
    (void)q_await(&f);
    (void)q_reached(&f, second);
    assert_int_equal(q_arg_int(&f, second, 7), NUMBER + 1000000001);
}

/* ---- contenders -------------------------------------------------------------------------------- */

TEST(who_has_the_vote_of_the_first_server_keeps_it_and_asks_the_others_again) {
    q_feed f;
    begin(&f, 1000);
    unsigned first = ranked(0, N), second = ranked(1, N), third = ranked(2, N);
    q_later(&f, 10);
    (void)q_voted(&f, first, NUMBER, TTL_MS);
    (void)q_busy(&f, second, OTHER, 5000, false);
    (void)q_busy(&f, third, "a third", 5000, false);
    q_assert_asked(&f, first, NULL);
    q_assert_waits_between(&f, 15, 20); /* no longer than an exchange */
    (void)q_await(&f);
    assert_int_equal(asked(&f, ""), 7U & ~(1U << first));
    (void)q_reached(&f, second);
    (void)q_reached(&f, third);
    assert_string_equal(q_arg(&f, second, 0), TOKEN);
    int64_t number = q_arg_int(&f, second, 7);
    (void)q_voted(&f, second, number, TTL_MS);
    (void)q_voted(&f, third, number, TTL_MS);
    assert_held(&f, number);
}

/* Two of three have said that others have their votes: that is known, and asked again so late it would be in doubt. */
TEST(who_goes_on_asks_no_more_so_late_that_it_could_not_be_answered_by_the_limit) {
    for (int exchange_ms = 90; exchange_ms < 110; exchange_ms++) {
        q_feed f;
        unsigned first = ranked(0, N), rounds = 0;
        begin(&f, 0);
        tl_mono limit = tl__mono_add_ms(f.now, ATTEMPT_MS);
        for (; f.status == TL_GO && rounds < 50; rounds++) {
            if (rounds > 0 && asked(&f, "vote") == 0)
                (void)q_await(&f);
            for (unsigned i = 0; i < N; i++)
                if (f.at[i].open && f.at[i].script[0] == '\0')
                    (void)q_reached(&f, i);
            q_later(&f, exchange_ms);
            bool late = !tl__mono_before(f.now, limit);
            for (unsigned i = 0; late && i < N; i++)
                if (f.status == TL_GO && f.at[i].open)
                    (void)q_lost(&f, i);
            if (late)
                break;
            if (rounds == 0)
                (void)q_voted(&f, first, NUMBER, TTL_MS);
            (void)q_busy(&f, ranked(1, N), OTHER, 5000, false);
            (void)q_busy(&f, ranked(2, N), "a third", 5000, false);
        }
        assert_in_range(rounds, 8, 20); /* it has gone on for long */
        assert_detached(&f, TL_EBUSY);
        assert_true(tl__mono_before(f.now, limit));
    }
}

TEST(who_has_another_vote_gives_it_back_silently_and_comes_with_a_new_token) {
    q_feed f;
    begin(&f, 1000);
    unsigned first = ranked(0, N), second = ranked(1, N), third = ranked(2, N);
    (void)q_voted(&f, second, NUMBER, TTL_MS);
    (void)q_busy(&f, first, OTHER, 5000, false);
    (void)q_busy(&f, third, "a third", 5000, false);
    assert_int_equal(asked(&f, "unvote"), 1U << second);
    assert_string_equal(q_arg(&f, second, 0), TOKEN);
    assert_int_equal(f.at[second].argc - f.at[second].nkeys, 2);
    q_assert_waits_between(&f, 50, 250);
    assert_int_equal(f.arms, 1);
    (void)q_say(&f, second, "1");
    (void)q_await(&f);
    q_reach_all(&f);
    assert_string_not_equal(q_arg(&f, second, 0), TOKEN);
    assert_int_equal(memcmp(q_arg(&f, second, 0), TOKEN, 30), 0);
}

/* A stopped server is not waited for: the first of those that answer decides. */
TEST(the_first_server_that_answers_decides) {
    q_feed f;
    begin_of(&f, 5, 1000);
    q_reach_all(&f);
    q_later(&f, 4);
    (void)q_voted(&f, ranked(1, 5), NUMBER, TTL_MS);
    (void)q_busy(&f, ranked(2, 5), OTHER, 5000, false);
    (void)q_busy(&f, ranked(3, 5), OTHER, 5000, false);
    (void)q_busy(&f, ranked(4, 5), "a third", 5000, false);
    q_assert_asked(&f, ranked(0, 5), "vote");
    (void)q_await(&f); /* the moment that the first is waited for */
    assert_true(tl__mono_before(f.now, feed_ms(6)));
    assert_int_equal(asked(&f, "unvote"), 0);
    (void)q_await(&f);
    assert_int_equal(tl__quorum_bits(asked(&f, "")), 3);
    q_assert_asked(&f, ranked(0, 5), "vote");
}

/* What it was asked in the round before is an answer of this one, and it counts among those that are reached. */
TEST(who_answers_from_the_round_before_is_reached) {
    q_feed f;
    begin_of(&f, 5, 60000);
    q_reach_all(&f);
    q_later(&f, 4);
    unsigned late = ranked(3, 5), last = ranked(4, 5);
    (void)q_voted(&f, ranked(0, 5), NUMBER, TTL_MS);
    (void)q_busy(&f, ranked(1, 5), OTHER, 5000, false);
    (void)q_busy(&f, ranked(2, 5), "a third", 5000, false);
    (void)q_busy(&f, last, "a third", 5000, false);
    (void)q_await(&f);
    (void)q_await(&f);
    assert_int_equal(tl__quorum_bits(asked(&f, "")), 3);
    q_assert_asked(&f, late, "vote");
    (void)q_busy(&f, late, OTHER, 5000, false);
    (void)q_refused(&f, ranked(1, 5));
    (void)q_refused(&f, ranked(2, 5));
    (void)q_reached(&f, last);
    q_assert_asked(&f, last, "vote");
}

TEST(patience_ends_and_the_votes_go_back) {
    q_feed f;
    begin(&f, 60000);
    unsigned first = ranked(0, N), second = ranked(1, N), third = ranked(2, N), rounds = 0;
    (void)q_voted(&f, first, NUMBER, TTL_MS);
    while (!(asked(&f, "unvote") & 1U << first)) {
        assert_true(rounds++ < 100);
        if (!f.at[second].open)
            (void)q_await(&f);
        if (strcmp(f.at[second].script, "") == 0) {
            (void)q_reached(&f, second);
            (void)q_reached(&f, third);
        }
        (void)q_busy(&f, second, OTHER, 50000, false);
        (void)q_busy(&f, third, "a third", 50000, false);
    }
    assert_true(rounds > 5);
}

/* What a late answer brings is another's business by then; only after it the vote is taken back. */
TEST(a_vote_that_comes_late_for_a_token_of_before_is_taken_back_behind_it) {
    q_feed f;
    begin_of(&f, 5, 10000);
    q_reach_all(&f);
    q_later(&f, 4);
    unsigned late = ranked(4, 5);
    for (unsigned i = 0; i < 4; i++)
        (void)(i == 1 ? q_voted(&f, ranked(i, 5), NUMBER, TTL_MS)
                      : q_busy(&f, ranked(i, 5), i ? OTHER : "a third", 5000, false));
    (void)q_await(&f);
    assert_int_equal(asked(&f, "unvote"), 1U << ranked(1, 5));
    q_assert_asked(&f, late, "vote");
    (void)q_voted(&f, late, NUMBER, TTL_MS);
    q_assert_asked(&f, late, "unvote");
    assert_string_equal(q_arg(&f, late, 0), TOKEN);
}

/* The lock is had by another token meanwhile: that is told, and the vote is taken back all the same. */
TEST(what_is_left_of_a_token_of_before_is_taken_back_after_the_lock_was_had) {
    q_feed f;
    begin_of(&f, 5, 10000);
    q_reach_all(&f);
    q_later(&f, 4);
    unsigned late = ranked(4, 5);
    for (unsigned i = 0; i < 4; i++)
        (void)(i == 1 ? q_voted(&f, ranked(i, 5), NUMBER, TTL_MS)
                      : q_busy(&f, ranked(i, 5), i ? OTHER : "a third", 5000, false));
    (void)q_await(&f);
    (void)q_say(&f, ranked(1, 5), "1");
    while (asked(&f, "") == 0)
        (void)q_await(&f);
    for (unsigned i = 0; i < 4; i++)
        (void)q_reached(&f, ranked(i, 5));
    for (unsigned i = 0; i < 4; i++)
        (void)q_voted(&f, ranked(i, 5), NUMBER + 1000, TTL_MS);
    (void)q_await(&f);
    assert_detached(&f, TL_OK);
    assert_string_not_equal(m.job.token.text, TOKEN);
    assert_int_equal(m.result.acquire.fence, NUMBER + 1000);
    assert_int_equal(m.ballots.doubted, 0);
    assert_false(m.result.maybe);
    (void)q_timer(&f);
    assert_int_equal(asked(&f, "unvote"), 1U << late);
    assert_string_equal(q_arg(&f, late, 0), TOKEN);
    assert_string_equal(q_arg(&f, late, 2), "");
    assert_int_equal(q_say(&f, late, "-1"), TL_END);
    assert_int_equal(m.result.code, TL_OK);
}

/* ---- waiting ------------------------------------------------------------------------------------ */

static void busy_all(q_feed *f, int64_t left_ms, bool announced) {
    for (unsigned i = 0; i < f->count; i++)
        if (f->at[i].open && f->status == TL_GO)
            (void)q_busy(f, i, OTHER, left_ms, announced);
}

TEST(who_tries_once_is_told_at_once_that_another_holds_it) {
    q_feed f;
    begin(&f, 0);
    busy_all(&f, 5000, true);
    assert_int_equal(f.status, TL_END);
    assert_int_equal(m.result.code, TL_EBUSY);
}

TEST(that_another_holds_it_is_known_from_a_majority) {
    q_feed f;
    begin_of(&f, 5, 0);
    (void)q_refused(&f, 1);
    (void)q_refused(&f, 4);
    for (unsigned i = 0; i < 5; i++)
        if (f.at[i].open)
            (void)q_reached(&f, i);
    busy_all(&f, 5000, true);
    assert_int_equal(f.status, TL_END);
    assert_int_equal(m.result.code, TL_EBUSY);
}

#define RESTS_AT(us) "resting " #us " " TOKEN

/* Each server notes its own time of the rest. */
static void all_rest(q_feed *f, unsigned count) {
    (void)q_busy(f, 0, count > 0 ? RESTS_AT(1700000000000001) : OTHER, 9000, true);
    (void)q_busy(f, 1, count > 1 ? RESTS_AT(1700000000000002) : OTHER, 9000, true);
    (void)q_busy(f, 2, count > 2 ? RESTS_AT(1700000000000003) : OTHER, 9000, true);
}

TEST(who_tries_once_is_told_that_it_rests_where_a_majority_says_so) {
    for (unsigned resting = 0; resting <= N; resting++) {
        q_feed f;
        begin(&f, 0);
        all_rest(&f, resting);
        assert_int_equal(f.status, TL_END);
        assert_int_equal(m.result.code, TL_EBUSY);
        assert_string_equal(f.out.message, resting >= 2 ? TL_RESTS : "another holds it");
    }
}

/* The third server has not executed the rest yet, or its reply is late; or the holder never had its vote. */
TEST(who_tries_once_is_told_that_it_rests_while_one_server_is_late) {
    q_feed f;
    begin(&f, 0);
    (void)q_busy(&f, 0, RESTS_AT(1), 9000, true);
    (void)q_busy(&f, 1, TOKEN, 9000, true);
    (void)q_lost(&f, 2);
    assert_string_equal(f.out.message, TL_RESTS);
    assert_detached(&f, TL_EBUSY);
}

TEST(a_vote_does_not_contradict_a_rest_that_another_server_names) {
    q_feed f;
    begin(&f, 0);
    (void)q_busy(&f, 0, RESTS_AT(1), 9000, true);
    (void)q_voted(&f, 1, NUMBER, TTL_MS);
    (void)q_await(&f);
    assert_string_equal(f.out.message, TL_RESTS);
}

TEST(a_rest_is_one_holder_whose_end_is_waited_for) {
    q_feed f;
    begin(&f, 60000);
    all_rest(&f, N);
    for (unsigned i = 0; i < 2; i++)
        (void)q_armed(&f, i, true);
    q_reach_all(&f);
    all_rest(&f, N);
    q_assert_waits_between(&f, 5000, 5000);
}

TEST(a_wait_ends_when_a_majority_rests_if_it_is_to) {
    for (unsigned resting = 0; resting <= N; resting++)
        for (int ends = 0; ends <= 1; ends++) {
            static const tl_retry retry = {.kind = TL_RETRY_AUTO};
            q_feed f;
            job = feed_job();
            job.acquire.rest_ends_wait = ends;
            q_init(&f, N, &m, tl__quorum_acquire_step);
            tl__quorum_acquire_init(&m, &job, N, &retry, 60000, CONNECT_MS, 42);
            (void)q_start(&f);
            q_reach_all(&f);
            all_rest(&f, resting);
            if (ends && resting >= 2) {
                assert_int_equal(f.status, TL_END);
                assert_int_equal(m.result.code, TL_EBUSY);
                assert_string_equal(f.out.message, TL_RESTS);
            } else {
                assert_int_equal(f.status, TL_GO);
            }
        }
}

/* It gives back the vote that it has. */
TEST(a_wait_that_a_rest_ends_leaves_no_vote) {
    static const tl_retry retry = {.kind = TL_RETRY_AUTO};
    q_feed f;
    job = feed_job();
    job.acquire.rest_ends_wait = true;
    q_init(&f, N, &m, tl__quorum_acquire_step);
    tl__quorum_acquire_init(&m, &job, N, &retry, 60000, CONNECT_MS, 42);
    (void)q_start(&f);
    q_reach_all(&f);
    (void)q_busy(&f, 0, RESTS_AT(1), 9000, true);
    (void)q_busy(&f, 1, RESTS_AT(2), 9000, true);
    (void)q_voted(&f, 2, NUMBER, TTL_MS);
    assert_detached(&f, TL_EBUSY);
    (void)q_timer(&f);
    q_assert_asked(&f, 2, "release");
}

TEST(a_holder_of_a_majority_is_waited_for_by_being_told) {
    q_feed f;
    begin(&f, 60000);
    busy_all(&f, 20000, true);
    q_assert_waits_between(&f, 50, 250); /* nobody tells yet */
    for (unsigned i = 0; i < 2; i++)
        (void)q_armed(&f, i, true);
    assert_int_equal(asked(&f, ""), 7); /* what was released before that was not told */
    q_reach_all(&f);
    busy_all(&f, 20000, true);
    q_assert_waits_between(&f, 5000, 5000);
    (void)q_called(&f, 2);
    q_assert_waits_between(&f, 50, 250); /* the other calls may have got lost */
    assert_int_equal(asked(&f, ""), 0);
    (void)q_called(&f, 2);
    assert_int_equal(asked(&f, ""), 0); /* the same server again is no majority */
    (void)q_called(&f, 0);
    assert_int_equal(asked(&f, ""), 7);
}

TEST(a_call_while_it_asks_makes_it_ask_again) {
    q_feed f;
    begin(&f, 60000);
    (void)q_called(&f, 0);
    (void)q_called(&f, 1);
    busy_all(&f, 20000, true);
    assert_int_equal(asked(&f, ""), 7);
}

TEST(it_looks_when_a_majority_of_the_keys_has_run_out) {
    q_feed f;
    begin(&f, 60000);
    (void)q_armed(&f, 0, true);
    (void)q_armed(&f, 1, true);
    (void)q_busy(&f, 0, OTHER, 900, true);
    (void)q_busy(&f, 1, OTHER, 100, true);
    (void)q_busy(&f, 2, OTHER, 1900, true);
    if (asked(&f, "")) {
        q_reach_all(&f);
        (void)q_busy(&f, 0, OTHER, 900, true);
        (void)q_busy(&f, 1, OTHER, 100, true);
        (void)q_busy(&f, 2, OTHER, 1900, true);
    }
    q_assert_waits_between(&f, 900, 950);
}

TEST(the_wait_ends_at_its_limit) {
    q_feed f;
    begin(&f, 100);
    busy_all(&f, 20000, false);
    while (f.status == TL_GO) {
        (void)q_await(&f);
        if (asked(&f, ""))
            q_reach_all(&f);
        busy_all(&f, 20000, false);
    }
    assert_int_equal(m.result.code, TL_ETIMEDOUT);
    assert_true(feed_since(f.now) <= 101);
}

/* All that it could bring is doubt of what a majority has said. */
TEST(no_round_is_begun_that_the_limit_would_cut_short) {
    q_feed f;
    begin_of(&f, N, 1000);
    q_later(&f, 400);
    q_reach_all(&f);
    busy_all(&f, 20000, false);
    q_assert_waits_between(&f, 1000, 1000); /* as long again wouldn't be in time */
    (void)q_await(&f);
    assert_int_equal(f.status, TL_END);
    assert_int_equal(m.result.code, TL_ETIMEDOUT);
    assert_string_equal(f.out.message, "another holds it");
}

/* Nor because one of the servers has called. */
TEST(a_call_that_comes_late_begins_no_round_either) {
    q_feed f;
    begin_of(&f, N, 1000);
    for (unsigned round = 0; round < 2; round++) {
        q_later(&f, 300);
        q_reach_all(&f);
        for (unsigned i = 0; i < 2 && round == 0; i++)
            (void)q_armed(&f, i, true); /* and it looks again */
        busy_all(&f, 20000, true);
    }
    q_later(&f, 10);
    (void)q_called(&f, 2);
    q_assert_waits_between(&f, 1000, 1000);
}

/* Two of three answer, and neither has voted for us; but one of these, and the third, may come to do so. */
TEST(who_tries_once_and_may_have_a_majority_yet_is_told_so) {
    q_feed f;
    begin(&f, 0);
    unsigned first = ranked(0, N), second = ranked(1, N), third = ranked(2, N);
    (void)q_fail(&f, third, true, TL_EUNAVAILABLE);
    (void)q_voted(&f, second, NUMBER, TTL_MS);
    (void)q_busy(&f, first, OTHER, 5000, false);
    assert_detached(&f, TL_EUNCERTAIN);
    assert_true(m.result.maybe);
}

/* Two of three say all the time that another holds it; what befell the third is not why. */
TEST(where_another_held_it_the_words_are_of_him_though_a_server_fails) {
    q_feed f;
    begin_of(&f, N, 100);
    while (f.status == TL_GO) {
        for (unsigned s = 0; s < 2 && f.status == TL_GO; s++)
            if (f.at[s].open && strcmp(f.at[s].script, "") == 0)
                (void)q_reached(&f, s);
        for (unsigned s = 0; s < 2 && f.status == TL_GO; s++)
            if (f.at[s].open)
                (void)q_busy(&f, s, OTHER, 20000, false);
        if (f.status == TL_GO)
            (void)q_await(&f);
        if (f.status == TL_GO && m.retry.doing == TL_PAUSES && f.at[2].open)
            (void)q_refused(&f, 2); /* when it isn't waited for any more */
    }
    assert_int_equal(m.result.code, TL_ETIMEDOUT);
    assert_string_equal(f.out.message, "another holds it");
    assert_int_equal(f.out.sys_errno, 0);
}

/* ---- servers that can't or don't ---------------------------------------------------------------- */

TEST(nothing_is_had_without_a_majority_and_the_words_say_so) {
    q_feed f;
    begin_of(&f, N, 500);
    for (int i = 0; i < 100 && f.status == TL_GO; i++)
        for (unsigned s = 0; s < N && f.status == TL_GO; s++)
            if (f.at[s].open)
                (void)(s == 0 && strcmp(f.at[s].script, "") == 0 ? q_reached(&f, s)
                                                                 : q_refused(&f, s));
            else if (s == N - 1)
                (void)q_await(&f);
    assert_int_equal(f.status, TL_END);
    assert_int_equal(m.result.code, TL_EUNAVAILABLE);
    assert_string_equal(f.out.message, "no majority of the 3 servers: h: no reply in time");
    assert_true(feed_since(f.now) <= 501);
}

/* It could not be reached, for this reason. */
static void fail_by(q_feed *f, unsigned i, tl_err why, int sys_errno, const char *message) {
    f->at[i].open = false;
    (void)q_event(
        f, (tl_event){
               .kind = TL_FAILED,
               .asked = {.ticket = f->at[i].ticket},
               .failed = {.why = why, .sys_errno = sys_errno, .message = tl__bytes_of(message)}});
}

TEST(an_attempt_cut_short_by_the_limit_does_not_hide_what_is_wrong) {
    q_feed f;
    begin_of(&f, N, 700);
    for (unsigned i = 0; i < N; i++)
        fail_by(&f, i, TL_EUNAVAILABLE, ECONNREFUSED, "connection refused");
    (void)q_await(&f);
    q_later(&f, 700);
    for (unsigned i = 0; i < N && f.status == TL_GO; i++)
        fail_by(&f, i, TL_EUNAVAILABLE, 0, "no answer in 680 ms");
    assert_int_equal(m.result.code, TL_EUNAVAILABLE);
    assert_string_equal(f.out.message, "no majority of the 3 servers: connection refused");
    assert_int_equal(f.out.sys_errno, ECONNREFUSED);
}

/* Somebody has to change something there; the other server may be back by itself. */
TEST(of_several_reasons_one_that_will_be_the_same_next_time_is_told) {
    q_feed f;
    begin_of(&f, N, 700);
    (void)q_reached(&f, 0);
    fail_by(&f, 1, TL_EDENIED, 0, "WRONGPASS");
    fail_by(&f, 2, TL_EUNAVAILABLE, ECONNREFUSED, "connection refused");
    q_later(&f, 700);
    (void)q_timer(&f);
    assert_int_equal(m.result.code, TL_EUNAVAILABLE);
    assert_string_equal(f.out.message, "no majority of the 3 servers: WRONGPASS");
    assert_int_equal(f.out.sys_errno, 0);
}

/* By the next round it is the present reason that counts. */
TEST(what_was_to_last_is_not_told_once_it_has_passed) {
    q_feed f;
    begin_of(&f, N, 700);
    (void)q_reached(&f, 0);
    fail_by(&f, 1, TL_EDENIED, 0, "WRONGPASS");
    fail_by(&f, 2, TL_EUNAVAILABLE, ECONNREFUSED, "connection refused");
    (void)q_await(&f);
    for (unsigned i = 0; i < N; i++)
        if (f.at[i].open)
            fail_by(&f, i, TL_EUNAVAILABLE, ECONNREFUSED, "connection refused");
    q_later(&f, 700);
    (void)q_timer(&f);
    assert_string_equal(f.out.message, "no majority of the 3 servers: connection refused");
}

TEST(a_server_that_refuses_for_good_is_one_that_is_missing) {
    q_feed f;
    begin(&f, 1000);
    (void)q_say(&f, 0, "-NOPERM this user has no permissions\n");
    (void)q_voted(&f, 1, NUMBER, TTL_MS);
    (void)q_voted(&f, 2, NUMBER, TTL_MS);
    assert_held(&f, NUMBER);
    begin(&f, 1000);
    (void)q_say(&f, 0, "-NOPERM this user has no permissions\n");
    (void)q_say(&f, 2, "-NOPERM this user has no permissions\n");
    assert_int_equal(f.status, TL_DETACH); /* the third may have voted */
    assert_int_equal(m.result.code, TL_EDENIED);
}

TEST(what_is_withheld_is_asked_for_when_a_majority_gives_again) {
    q_feed f;
    begin(&f, 60000);
    (void)q_withheld(&f, 0, 3000);
    (void)q_withheld(&f, 1, 4000);
    (void)q_withheld(&f, 2, 9000);
    q_assert_waits_between(&f, 4000, 4100);
}

TEST(a_malformed_reply_is_no_vote) {
    q_feed f;
    begin(&f, 1000);
    (void)q_say(&f, 0, "'1700000000000000'");
    (void)q_voted(&f, 1, NUMBER, TTL_MS);
    (void)q_say(&f, 2, "[1 'x']");
    assert_int_not_equal(m.result.code == TL_OK && f.status == TL_END, 1);
    assert_int_equal(m.result.code, TL_ESERVER);
}
