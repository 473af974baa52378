/*
 * Keeping a lock of a majority: each vote renewed in time, at risk below all, voted anew where it was lost, and lost no
 * later than the majority's deadline.
 */
#include "quorum_feed.h"
#include "renewals.h"

#include "protocol/quorum_renew.h"

#define N 3
#define FENCE INT64_C(77)

static tl_quorum_renewal m;

static tl_job held_job(bool unbound) {
    tl_job job = feed_job();
    job.hold.fence = (uint64_t)FENCE;
    job.acquire.quiet_ms = TTL_MS;
    job.hold.proof.unbound = unbound;
    return job;
}

/* ms 0: no vote. */
static void begin_with(q_feed *f, unsigned count, const int64_t *ms, unsigned doubted, tl_mono hold,
                       bool by_hand) {
    tl_job job = held_job(false);
    tl_ballots b = {.count = (uint8_t)count, .doubted = (uint8_t)doubted};
    for (unsigned i = 0; i < count; i++)
        b.until[i] = ms[i] ? feed_ms(ms[i]) : (tl_mono){0};
    q_init(f, count, &m, tl__quorum_renew_step);
    tl__quorum_renew_init(&m, &job, &b, hold, by_hand, 42);
    (void)q_start(f);
}

static void begin(q_feed *f) {
    static const int64_t all[] = {TTL_MS, TTL_MS, TTL_MS};
    begin_with(f, N, all, 0, TL_NEVER, false);
}

static void due(q_feed *f) {
    (void)q_await(f);
    for (unsigned i = 0; i < f->count; i++)
        q_assert_asked(f, i, "renew");
}

static void assert_lost(const q_feed *f, tl_lost_why why) {
    assert_int_equal(f->status, TL_END);
    assert_true(f->notes >= 1);
    assert_int_equal(f->note[f->notes - 1].kind, TL_NOTE_LOST);
    assert_int_equal(f->note[f->notes - 1].why, why);
    assert_int_equal(m.result.code, TL_ELOST);
    assert_int_equal(m.result.lost.why, why);
}

/* ---- renewing ---------------------------------------------------------------------------------- */

TEST(all_votes_are_renewed_at_a_third_and_the_majority_counts) {
    q_feed f;
    begin(&f);
    q_assert_waits_between(&f, TTL_MS / 3, TTL_MS / 3);
    due(&f);
    assert_string_equal(q_arg(&f, 1, 3), TOKEN);
    assert_int_equal(q_arg_int(&f, 1, 7), FENCE);
    tl_mono asked = f.now;
    (void)q_kept(&f, 0, TTL_MS);
    assert_int_equal(m.result.deadline.ns, feed_ms(TTL_MS).ns); /* one is no majority */
    (void)q_kept(&f, 1, TTL_MS);
    assert_int_equal(m.result.deadline.ns, asked.ns + FEED_LEAST_OF(TTL_MS));
    (void)q_kept(&f, 2, TTL_MS);
    assert_int_equal(f.notes, 0);
    q_assert_waits_between(&f, 2 * TTL_MS / 3 - 10, 2 * TTL_MS / 3);
}

TEST(the_first_renewal_comes_within_a_second_and_only_that) {
    q_feed f;
    tl_job job = held_job(true);
    tl_ballots b = {.count = N};
    for (unsigned i = 0; i < N; i++)
        b.until[i] = feed_ms(TTL_MS);
    q_init(&f, N, &m, tl__quorum_renew_step);
    tl__quorum_renew_init(&m, &job, &b, TL_NEVER, false, 42);
    (void)q_start(&f);
    q_assert_waits_between(&f, 1000, 1000);
    due(&f);
    for (unsigned i = 0; i < N; i++)
        (void)q_kept(&f, i, TTL_MS);
    q_assert_waits_between(&f, 1000 + TTL_MS / 3 - 10, 1000 + TTL_MS / 3);
}

TEST(by_hand_nothing_is_asked_and_the_deadline_watched) {
    static const int64_t all[] = {3000, 2000, 1000};
    q_feed f;
    begin_with(&f, N, all, 0, TL_NEVER, true);
    q_assert_waits_between(&f, 1999, 1999);
    (void)q_await(&f);
    assert_lost(&f, TL_LOST_EXPIRED);
    assert_int_equal(f.asked, 0);
}

TEST(a_hold_ends_when_it_must) {
    static const int64_t all[] = {TTL_MS, TTL_MS, TTL_MS};
    q_feed f;
    begin_with(&f, N, all, 0, feed_ms(500), false);
    (void)q_await(&f);
    assert_lost(&f, TL_LOST_MAX_HOLD);
}

/* ---- at risk ----------------------------------------------------------------------------------- */

TEST(it_is_at_risk_below_all_and_held_when_all_have_answered) {
    for (unsigned bad = 0; bad < N; bad++) {
        q_feed f;
        begin(&f);
        due(&f);
        (void)q_kept(&f, (bad + 1) % N, TTL_MS);
        (void)q_fail(&f, bad, true, TL_EUNAVAILABLE);
        q_assert_note(&f, TL_NOTE_AT_RISK, TL_NOT_LOST);
        q_assert_asked(&f, bad, "renew"); /* again, at once */
        (void)q_kept(&f, (bad + 2) % N, TTL_MS);
        assert_int_equal(f.notes, 0);
        (void)q_refused(&f, bad);
        assert_int_equal(f.notes, 0); /* that is said once */
        (void)q_await(&f);
        (void)q_kept(&f, bad, TTL_MS);
        q_assert_note(&f, TL_NOTE_HELD, TL_NOT_LOST);
    }
}

TEST(a_minority_may_be_gone_for_good) {
    q_feed f;
    begin(&f);
    for (int64_t end = feed_ms(10 * TTL_MS).ns; f.now.ns < end; (void)q_await(&f)) {
        assert_int_equal(f.status, TL_GO);
        for (unsigned i = 0; i < N; i++)
            if (f.at[i].open)
                (void)(i == 1 ? q_refused(&f, i) : q_kept(&f, i, TTL_MS));
    }
    assert_true(f.asked < 600); /* and isn't asked all the time */
}

TEST(without_answers_it_is_lost_just_before_the_majority_ends) {
    static const int64_t differ[] = {3000, 9000, 2000};
    q_feed f;
    begin_with(&f, N, differ, 0, TL_NEVER, false);
    while (f.status == TL_GO) {
        bool any = false;
        for (unsigned i = 0; i < N && !any; i++)
            if (f.at[i].open && !tl__mono_before(f.out.until, f.at[i].by)) {
                (void)q_lost(&f, i);
                any = true;
            }
        if (!any)
            (void)q_await(&f);
    }
    assert_lost(&f, TL_LOST_EXPIRED);
    assert_int_equal(f.now.ns, feed_ms(2999).ns);
}

TEST(an_answer_after_the_deadline_changes_nothing) {
    q_feed f;
    begin(&f);
    due(&f);
    f.now = feed_ms(TTL_MS);
    (void)q_kept(&f, 0, TTL_MS);
    assert_lost(&f, TL_LOST_EXPIRED);
}

/* With the one of before it would be a majority again. */
TEST(an_answer_after_the_deadline_makes_no_majority) {
    q_feed f;
    begin(&f);
    due(&f);
    (void)q_kept(&f, 0, TTL_MS);
    assert_int_equal(f.status, TL_GO);
    f.now = feed_ms(TTL_MS);
    (void)q_kept(&f, 1, TTL_MS);
    assert_lost(&f, TL_LOST_EXPIRED);
}

/* ---- votes that were lost ------------------------------------------------------------------------ */

TEST(where_the_key_is_gone_it_is_voted_anew_and_counts_at_once) {
    q_feed f;
    begin(&f);
    due(&f);
    (void)q_kept(&f, 0, TTL_MS);
    (void)q_not_kept(&f, 2, -1);
    q_assert_note(&f, TL_NOTE_AT_RISK, TL_NOT_LOST);
    q_assert_asked(&f, 2, "vote");
    assert_string_equal(q_arg(&f, 2, 0), TOKEN);
    assert_string_equal(q_arg(&f, 2, 5), OWNER);
    assert_int_equal(q_arg_int(&f, 2, 8), TTL_MS); /* quiet_ms */
    assert_true(q_arg_int(&f, 2, 7) > FENCE);      /* the counter that was lost, too */
    tl_mono was = m.result.deadline;
    (void)q_voted(&f, 2, q_arg_int(&f, 2, 7), TTL_MS);
    assert_true(tl__mono_before(was, m.result.deadline)); /* 0 and 2 are a majority now */
    assert_int_equal(f.notes, 1);
    assert_int_equal(f.note[0].kind, TL_NOTE_HELD);
    (void)q_kept(&f, 1, TTL_MS);
    assert_int_equal(f.status, TL_GO);
}

/* Another client may count on a vote that the server has forgotten. */
TEST(a_server_that_may_have_forgotten_gives_its_vote_after_quiet_ms) {
    q_feed f;
    begin(&f);
    due(&f);
    (void)q_kept(&f, 0, TTL_MS);
    (void)q_not_kept(&f, 2, -1);
    const int64_t left_ms = TTL_MS / 8;
    const tl_mono gives = tl__mono_add_ms(f.now, left_ms), was = m.result.deadline;
    (void)q_withheld(&f, 2, left_ms);
    assert_int_equal(f.status, TL_GO);
    assert_int_equal(m.result.deadline.ns, was.ns);
    (void)q_kept(&f, 1, TTL_MS);
    while (!f.at[2].open)
        (void)q_await(&f);
    assert_int_equal(f.now.ns, gives.ns);
}

/* Two servers that restarted empty: another may have held it meanwhile. */
TEST(when_a_majority_has_lost_the_key_it_is_lost_at_once) {
    for (unsigned good = 0; good < N; good++) {
        q_feed f;
        begin(&f);
        due(&f);
        (void)q_kept(&f, good, TTL_MS);
        (void)q_not_kept(&f, (good + 1) % N, -1);
        assert_int_equal(f.status, TL_GO);
        (void)q_not_kept(&f, (good + 2) % N, -1);
        assert_lost(&f, TL_LOST_GONE);
        begin(&f);
        due(&f);
        (void)q_not_kept(&f, (good + 1) % N, -1);
        (void)q_not_kept(&f, (good + 2) % N, 0);
        assert_lost(&f, TL_LOST_TAKEN);
    }
}

TEST(of_five_two_may_lose_it_in_turn_for_ever) {
    static const int64_t all[] = {TTL_MS, TTL_MS, TTL_MS, TTL_MS, TTL_MS};
    q_feed f;
    begin_with(&f, 5, all, 0, TL_NEVER, false);
    for (unsigned round = 0; round < 20; round++) {
        due(&f);
        for (unsigned i = 0; i < 5; i++)
            if (i == round % 5 || i == (round + 1) % 5)
                (void)q_not_kept(&f, i, -1);
            else
                (void)q_kept(&f, i, TTL_MS);
        for (unsigned i = 0; i < 5; i++)
            if (i == round % 5 || i == (round + 1) % 5)
                (void)q_voted(&f, i, q_arg_int(&f, i, 7), TTL_MS);
        assert_int_equal(f.status, TL_GO);
        assert_int_equal(ballots_live(&m.ballots, f.now), 5);
    }
}

TEST(where_another_has_it_it_is_asked_for_until_it_is_had) {
    q_feed f;
    begin(&f);
    due(&f);
    (void)q_kept(&f, 0, TTL_MS);
    (void)q_kept(&f, 1, TTL_MS);
    (void)q_not_kept(&f, 2, 0);
    q_assert_note(&f, TL_NOTE_AT_RISK, TL_NOT_LOST);
    q_assert_asked(&f, 2, "vote");
    (void)q_busy(&f, 2, "another", 5000, true);
    assert_int_equal(m.ballots.doubted, 0);
    (void)q_await(&f);
    q_assert_asked(&f, 2, "vote");
    (void)q_voted(&f, 2, 1, TTL_MS);
    assert_int_equal(f.note[0].kind, TL_NOTE_HELD);
}

TEST(a_vote_that_was_missing_is_asked_for_soon) {
    static const int64_t two[] = {TTL_MS, 0, TTL_MS};
    q_feed f;
    begin_with(&f, N, two, 0, TL_NEVER, false);
    q_assert_waits_between(&f, 100, 100);
    (void)q_await(&f);
    q_assert_asked(&f, 1, "vote");
    assert_int_equal(m.ballots.doubted, 2); /* from now on it may be there */
    (void)q_voted(&f, 1, 1, TTL_MS);
    assert_int_equal(m.ballots.doubted, 0);
    assert_int_equal(f.notes, 0); /* nothing was said of it */
}

TEST(a_vote_that_is_in_doubt_is_looked_for) {
    static const int64_t two[] = {TTL_MS, 0, TTL_MS};
    q_feed f;
    begin_with(&f, N, two, 2, TL_NEVER, false);
    (void)q_await(&f);
    q_assert_asked(&f, 1, "renew");
    (void)q_not_kept(&f, 1, -1);
    q_assert_asked(&f, 1, "vote");
    (void)q_fail(&f, 1, true, TL_EUNAVAILABLE);
    assert_int_equal(m.ballots.doubted, 2);
    (void)q_await(&f);
    q_assert_asked(&f, 1, "renew");
    (void)q_kept(&f, 1, TTL_MS);
    assert_int_equal(m.ballots.doubted, 0);
    assert_true(m.ballots.until[1].ns > 0);
}

/* ---- from outside --------------------------------------------------------------------------------- */

TEST(a_clock_that_has_stepped_is_asked_at_once) {
    q_feed f;
    begin(&f);
    (void)q_called(&f, 1);
    q_assert_asked(&f, 0, NULL);
    q_assert_asked(&f, 1, "renew");
    (void)q_called(&f, 1); /* again, while it is asked */
    (void)q_kept(&f, 1, TTL_MS);
    q_assert_asked(&f, 1, "renew");
}

/* It may come after a release: then the door must be shut behind it. */
TEST(a_vote_that_is_on_its_way_is_in_doubt_also_after_an_extension) {
    static const int64_t two[] = {TTL_MS, TTL_MS, 0};
    q_feed f;
    begin_with(&f, N, two, 0, TL_NEVER, false);
    tl_ballots b = m.ballots;
    (void)q_await(&f);
    q_assert_asked(&f, 2, "vote");
    b.until[0] = b.until[1] = feed_ms(90000);
    tl__quorum_renew_extended(&m, 60000, &b, f.now);
    (void)q_timer(&f);
    assert_int_equal(m.ballots.doubted, 4);
    (void)q_await(&f);
    q_assert_asked(&f, 2, "renew");
}

TEST(an_extension_by_hand_counts_and_what_is_in_flight_does_not) {
    q_feed f;
    begin(&f);
    due(&f);
    (void)q_fail(&f, 0, true, TL_EUNAVAILABLE);
    tl_ballots b = {.count = N};
    for (unsigned i = 0; i < N; i++)
        b.until[i] = feed_ms(90000);
    tl__quorum_renew_extended(&m, 60000, &b, f.now);
    (void)q_timer(&f);
    q_assert_note(&f, TL_NOTE_HELD, TL_NOT_LOST);
    (void)q_kept(&f, 1, TTL_MS); /* of before: for less */
    assert_int_equal(m.result.deadline.ns, feed_ms(90000).ns);
    assert_int_equal(m.job.ttl_ms, 60000);
}

/* ---- a holder that gives no sign of life ------------------------------------------------------- */

#define STALL_MS 12000

static void begin_watched(q_feed *f) {
    begin(f);
    m.stalls = feed_ms(STALL_MS);
    (void)q_timer(f);
    due(f);
    for (unsigned i = 0; i < N; i++)
        (void)q_kept(f, i, TTL_MS);
    q_assert_waits_between(f, STALL_MS, STALL_MS);
}

static void begin_stalled(q_feed *f) {
    begin_watched(f);
    (void)q_await(f);
    q_assert_note(f, TL_NOTE_AT_RISK, TL_RISK_STALLED);
}

TEST(without_a_sign_of_life_no_vote_is_renewed) {
    q_feed f;
    begin_stalled(&f);
    tl_mono deadline = m.result.deadline;
    unsigned asked = f.asked;
    while (q_await(&f) == TL_GO)
        assert_int_equal(f.notes, 0);
    assert_lost(&f, TL_LOST_STALLED);
    assert_int_equal(f.asked, asked);
    assert_int_equal(f.now.ns, deadline.ns - TL_LOST_EARLY_NS);
}

TEST(with_one_all_votes_are_renewed_at_once_and_it_is_held_when_all_are) {
    q_feed f;
    begin_stalled(&f);
    q_later(&f, 5000);
    m.stalls = tl__mono_add_ms(f.now, STALL_MS);
    (void)q_timer(&f);
    for (unsigned i = 0; i < N; i++) {
        q_assert_asked(&f, i, "renew");
        (void)q_kept(&f, i, TTL_MS);
        assert_int_equal(f.notes, i == N - 1);
    }
    q_assert_note(&f, TL_NOTE_HELD, TL_NOT_LOST);
    assert_true(m.result.deadline.ns > feed_ms(STALL_MS + 5000 + TTL_MS - 100).ns);
}

TEST(votes_in_flight_prolong_no_stalled_lock) {
    q_feed f;
    begin(&f);
    due(&f);
    tl_mono deadline = m.result.deadline;
    m.stalls = f.now;
    for (unsigned i = 0; i < N; i++) {
        (void)q_kept(&f, i, TTL_MS);
        assert_int_equal(m.result.deadline.ns, deadline.ns);
        assert_int_equal(f.notes, i == 0);
    }
    while (q_await(&f) == TL_GO)
        assert_int_equal(f.notes, 0);
    assert_lost(&f, TL_LOST_STALLED);
    assert_in_range(f.now.ns, deadline.ns - 2 * TL_LOST_EARLY_NS, deadline.ns);
}

TEST(a_failed_vote_of_a_stalled_lock_is_not_asked_for_again) {
    q_feed f;
    begin(&f);
    due(&f);
    m.stalls = f.now;
    unsigned asked = f.asked;
    for (unsigned i = 0; i < N; i++)
        (void)q_refused(&f, i);
    while (q_await(&f) == TL_GO)
        assert_int_equal(f.notes, 0);
    assert_lost(&f, TL_LOST_STALLED);
    assert_int_equal(f.asked, asked);
}

TEST(a_server_whose_clock_has_stepped_is_asked_about_a_stalled_lock_once) {
    q_feed f;
    begin_stalled(&f);
    tl_mono deadline = m.result.deadline;
    (void)q_called(&f, 1);
    q_assert_asked(&f, 1, "renew");
    (void)q_kept(&f, 1, TTL_MS);
    assert_int_equal(f.notes, 0);
    q_assert_asked(&f, 1, NULL);
    assert_int_equal(m.result.deadline.ns, deadline.ns);
}

TEST(an_extension_ends_the_stall) {
    q_feed f;
    begin_stalled(&f);
    tl_ballots b = {.count = N};
    for (unsigned i = 0; i < N; i++)
        b.until[i] = feed_ms(90000);
    m.stalls = tl__mono_add_ms(f.now, STALL_MS);
    tl__quorum_renew_extended(&m, 60000, &b, f.now);
    (void)q_timer(&f);
    q_assert_note(&f, TL_NOTE_HELD, TL_NOT_LOST);
    assert_int_equal(m.result.deadline.ns, feed_ms(90000).ns);
}

/* ---- disruptions --------------------------------------------------------------------------------- */

static void begin_proved(q_feed *f) {
    begin(f);
    for (unsigned i = 0; i < N; i++)
        m.ballots.proved[i] = f->now;
    q_later(f, 100);
    m.job.hold.disrupted = f->now;
    q_later(f, 1);
    (void)q_timer(f);
    q_assert_note(f, TL_NOTE_AT_RISK, TL_RISK_DISRUPTED);
    for (unsigned i = 0; i < N; i++)
        q_assert_asked(f, i, "renew");
}

TEST(disrupted_all_votes_are_renewed_at_once_and_a_majority_of_new_ones_counts) {
    q_feed f;
    begin_proved(&f);
    tl_mono asked = f.now;
    q_later(&f, 10);
    (void)q_kept(&f, 0, TTL_MS);
    assert_int_equal(f.notes, 0);
    assert_true(tl__is_disrupted(m.result.proved, m.job.hold.disrupted));
    (void)q_kept(&f, 1, TTL_MS / 2);
    assert_false(tl__is_disrupted(m.result.proved, m.job.hold.disrupted));
    /* the third server's vote lasts longer than that, but nobody knows */
    assert_int_equal(m.result.deadline.ns, asked.ns + FEED_LEAST_OF(TTL_MS / 2));
    assert_int_equal(f.notes, 0); /* not all have answered */
    (void)q_kept(&f, 2, TTL_MS);
    q_assert_note(&f, TL_NOTE_HELD, TL_NOT_LOST);
}

/* Another may have held the lock meanwhile: then no new vote makes it ours. */
TEST(disrupted_no_vote_is_asked_for_until_a_majority_is_certain) {
    q_feed f;
    begin_proved(&f);
    (void)q_not_kept(&f, 2, -1);
    assert_false(f.at[2].open && strcmp(q_arg(&f, 2, 0), TOKEN) == 0);
    (void)q_not_kept(&f, 1, -1);
    assert_lost(&f, TL_LOST_DISRUPTED);
}

TEST(disrupted_again_the_votes_between_count_no_more) {
    q_feed f;
    begin_proved(&f);
    (void)q_kept(&f, 0, TTL_MS);
    q_later(&f, 5);
    m.job.hold.disrupted = f.now;
    q_later(&f, 1);
    (void)q_timer(&f);
    assert_true(f.at[0].open); /* asked again */
    (void)q_kept(&f, 1, TTL_MS);
    assert_true(tl__is_disrupted(m.result.proved, m.job.hold.disrupted));
    (void)q_kept(&f, 0, TTL_MS);
    (void)q_timer(&f);
    (void)q_kept(&f, 1, TTL_MS);
    assert_false(tl__is_disrupted(m.result.proved, m.job.hold.disrupted));
}

TEST(a_copy_loses_it_without_asking) {
    q_feed f;
    begin(&f);
    m.job.hold.copied = true;
    (void)q_timer(&f);
    assert_lost(&f, TL_LOST_DISRUPTED);
    assert_int_equal(f.asked, 0);
}
