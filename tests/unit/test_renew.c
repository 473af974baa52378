/*
 * Keeping a lock: renewed at a third of its validity, at risk at the first failure, and lost no
 * later than its deadline.
 */
#include "feed.h"
#include "renewals.h"

#include "protocol/renew.h"

#define MS TL_NS_PER_MS

static tl_renew m;
static tl_job job;

static void begin_with(feed *f, int64_t deadline_ms, tl_mono hold, bool by_hand) {
    job = feed_job();
    feed_init(f, &m, tl__renew_step);
    renew_begin(&m, &job, feed_ms(deadline_ms), hold, by_hand, 42);
    (void)feed_start(f);
}

static void begin(feed *f) {
    begin_with(f, TTL_MS, TL_NEVER, false);
    feed_assert_waits_until(f, TTL_MS / 3);
}

/* Time passes to the renewal. */
static void due(feed *f) {
    (void)feed_await(f);
    assert_int_equal(f->out.sends, 1);
    if (!feed_refreshes(f))
        feed_assert_asked(f, "renew");
}

static void expect_note(const feed *f, tl_note_kind kind, tl_lost_why why) {
    assert_int_equal(f->out.notes, 1);
    assert_int_equal(f->out.note[0].kind, kind);
    assert_int_equal(f->out.note[0].why, why);
}

static void expect_lost(const feed *f, tl_lost_why why) {
    assert_int_equal(f->status, TL_END);
    assert_int_equal(f->out.sends, 0);
    assert_true(f->out.notes >= 1);
    assert_int_equal(f->out.note[f->out.notes - 1].kind, TL_NOTE_LOST);
    assert_int_equal(f->out.note[f->out.notes - 1].why, why);
    assert_int_equal(m.result.code, TL_ELOST);
    assert_int_equal(m.result.lost.why, why);
}

/* ---- renewing -------------------------------------------------------------------------------- */

TEST(renewal_is_due_at_a_third_of_the_validity) {
    feed f;
    begin(&f);
    feed_at(&f, TTL_MS / 3 - 1);
    (void)feed_timer(&f);
    feed_assert_waits_until(&f, TTL_MS / 3);
    due(&f);
    assert_int_equal(feed_since(f.now), TTL_MS / 3);
    assert_string_equal(feed_arg(&f, 3), TOKEN);
    assert_string_equal(feed_arg(&f, 5), "30000");
}

/* So that one request renews all locks of some time. Most of the validity is left for retries. */
TEST(a_renewal_may_be_late_by_a_sixteenth_of_the_time_left) {
    feed f;
    begin(&f);
    int64_t left = m.result.deadline.ns - f.out.until.ns;
    assert_in_range(f.out.slack_ns, left / 16 - MS, left / 16);
}

TEST(a_renewal_moves_the_deadline_and_plans_the_next) {
    feed f;
    begin(&f);
    for (int i = 0; i < 5; i++) {
        due(&f);
        tl_mono sent = f.sent;
        feed_later(&f, 20);
        (void)feed_kept(&f, TTL_MS);
        assert_int_equal(f.status, TL_GO);
        assert_int_equal(f.out.notes, 0);
        int64_t deadline = sent.ns + TTL_MS * MS - DRIFT_NS;
        assert_int_equal(m.result.deadline.ns, deadline);
        assert_int_equal(f.out.until.ns, f.now.ns + (deadline - f.now.ns) / 3);
    }
}

TEST(a_renewal_does_not_tell_how_late_another_process_may_still_ask) {
    feed f;
    begin(&f);
    m.job.hold.proof.unlimited = true;
    due(&f);
    (void)feed_kept(&f, TTL_MS);
    assert_true(m.job.hold.proof.unlimited);
}

TEST(the_deadline_moves_only_by_what_the_answer_proves) {
    feed f;
    begin(&f);
    due(&f);
    (void)feed_kept(&f, 25000);
    assert_int_equal(m.result.deadline.ns, f.sent.ns + 25000 * MS - FEED_LOSS_OF(25000));
}

TEST(an_answer_is_awaited_for_a_third_of_what_is_left_at_most) {
    feed f;
    begin(&f);
    due(&f);
    assert_int_equal(f.last.by.ns, f.now.ns + ATTEMPT_MS * MS);
    begin_with(&f, 900, TL_NEVER, false);
    due(&f);
    assert_int_equal(f.last.by.ns, f.now.ns + (900 - 300 - 1) * MS / 3);
}

/* ---- at risk --------------------------------------------------------------------------------- */

TEST(the_first_failure_puts_it_at_risk_and_is_tried_again_at_once) {
    feed f;
    begin(&f);
    due(&f);
    (void)feed_lost(&f);
    expect_note(&f, TL_NOTE_AT_RISK, TL_NOT_LOST);
    assert_int_equal(f.out.sends, 1);
    feed_assert_asked(&f, "renew");
    assert_int_equal(m.result.deadline.ns, feed_ms(TTL_MS).ns);
}

TEST(risk_is_reported_once) {
    feed f;
    begin(&f);
    due(&f);
    (void)feed_lost(&f);
    (void)feed_lost(&f);
    assert_int_equal(f.out.notes, 0);
    assert_int_equal(f.status, TL_GO);
}

TEST(further_failures_are_followed_by_growing_pauses) {
    feed f;
    begin(&f);
    due(&f);
    (void)feed_refused(&f);
    const int64_t most[] = {40, 80, 160, 320};
    for (int i = 0; i < 4; i++) {
        (void)feed_refused(&f);
        assert_int_equal(f.out.sends, 0);
        assert_in_range(tl__ms_until(f.now, f.out.until), most[i] / 2, most[i]);
        due(&f);
    }
}

TEST(pauses_shrink_with_what_is_left) {
    feed f;
    begin_with(&f, 301, TL_NEVER, false);
    due(&f);
    (void)feed_refused(&f);
    for (int i = 0; i < 1000 && f.status == TL_GO && f.now.ns < feed_ms(299).ns; i++) {
        if (f.out.sends == 1) {
            (void)feed_refused(&f);
            continue;
        }
        int64_t most = (feed_ms(300).ns - f.now.ns) / 6 + 1, least = 2 * TL_NS_PER_MS;
        assert_true(f.out.until.ns - f.now.ns <= (most > least ? most : least));
        (void)feed_await(&f);
    }
    assert_true(f.sends > 10);
}

TEST(held_again_after_a_risk_is_reported) {
    feed f;
    begin(&f);
    due(&f);
    (void)feed_lost(&f);
    (void)feed_kept(&f, TTL_MS);
    expect_note(&f, TL_NOTE_HELD, TL_NOT_LOST);
    due(&f);
    (void)feed_kept(&f, TTL_MS);
    assert_int_equal(f.out.notes, 0);
    due(&f);
    (void)feed_lost(&f); /* and the next failure is a first one again */
    expect_note(&f, TL_NOTE_AT_RISK, TL_NOT_LOST);
    assert_int_equal(f.out.sends, 1);
}

TEST(errors_and_nonsense_put_it_at_risk_only) {
    const char *const all[] = {"-NOAUTH Authentication required.",
                               "-NOPERM no",
                               "-ERR unknown command",
                               "-LOADING Redis is loading",
                               "-OOM command not allowed. script: 1",
                               "nil",
                               "[]",
                               "['1' '2' [1 't' nil]]",
                               "'OK'"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        feed f;
        begin(&f);
        due(&f);
        (void)feed_reply(&f, "%s", all[i]);
        assert_int_equal(f.status, TL_GO);
        expect_note(&f, TL_NOTE_AT_RISK, TL_NOT_LOST);
    }
}

TEST(too_few_replicas_put_it_at_risk) {
    feed f;
    job = feed_job();
    job.wait_replicas = 1;
    feed_init(&f, &m, tl__renew_step);
    renew_begin(&m, &job, feed_ms(TTL_MS), TL_NEVER, false, 42);
    (void)feed_start(&f);
    due(&f);
    (void)feed_reply(&f, "[%s [1 '" TOKEN "' 30000]] 0", feed_time(&f));
    expect_note(&f, TL_NOTE_AT_RISK, TL_NOT_LOST);
    assert_int_equal(m.result.deadline.ns, feed_ms(TTL_MS).ns);
}

/* ---- lost ------------------------------------------------------------------------------------ */

TEST(lost_at_once_when_another_has_it) {
    feed f;
    begin(&f);
    due(&f);
    (void)feed_not_kept(&f, 0);
    expect_lost(&f, TL_LOST_TAKEN);
}

TEST(lost_at_once_when_the_key_is_gone) {
    feed f;
    begin(&f);
    due(&f);
    (void)feed_not_kept(&f, -1);
    expect_lost(&f, TL_LOST_GONE);
}

TEST(lost_is_said_a_millisecond_before_the_deadline) {
    feed f;
    begin(&f);
    due(&f);
    assert_int_equal(f.out.until.ns, feed_ms(TTL_MS - 1).ns); /* although a request is in flight */
    f.now.ns = feed_ms(TTL_MS - 1).ns - 1;
    (void)feed_timer(&f);
    assert_int_equal(f.status, TL_GO);
    f.now.ns++;
    (void)feed_timer(&f);
    expect_lost(&f, TL_LOST_EXPIRED);
}

TEST(no_failure_moves_the_deadline) {
    feed f;
    begin(&f);
    for (int i = 0; i < 1000 && f.status == TL_GO; i++) {
        if (f.out.sends == 1 && f.last.by.ns < feed_ms(TTL_MS - 1).ns)
            (void)feed_lost(&f);
        else
            (void)feed_await(&f);
        assert_int_equal(m.result.deadline.ns, feed_ms(TTL_MS).ns);
        assert_true(f.now.ns <= feed_ms(TTL_MS - 1).ns);
    }
    expect_lost(&f, TL_LOST_EXPIRED);
}

TEST(a_last_failure_that_comes_too_late_is_a_loss) {
    feed f;
    begin(&f);
    due(&f);
    feed_at(&f, TTL_MS);
    (void)feed_failed(&f, true, TL_EUNAVAILABLE, "connection lost");
    expect_lost(&f, TL_LOST_EXPIRED);
}

TEST(a_lock_that_is_over_when_it_begins_is_lost_at_once) {
    feed f;
    begin_with(&f, 1, TL_NEVER, false);
    expect_lost(&f, TL_LOST_EXPIRED);
    begin_with(&f, -5000, TL_NEVER, false);
    expect_lost(&f, TL_LOST_EXPIRED);
}

/* What has been over cannot be had again: others have seen nothing remaining. */
TEST(an_answer_after_the_deadline_does_not_bring_it_back) {
    feed f;
    begin(&f);
    feed_at(&f, TTL_MS - 100);
    (void)feed_timer(&f);
    feed_assert_asked(&f, "renew");
    feed_at(&f, TTL_MS + 10); /* the program had been stopped meanwhile */
    (void)feed_kept(&f, TTL_MS);
    expect_lost(&f, TL_LOST_EXPIRED);
}

TEST(an_answer_whose_validity_is_over_is_a_loss) {
    feed f;
    begin(&f);
    due(&f);
    feed_later(&f, 1000);
    (void)feed_kept(&f, 900);
    expect_lost(&f, TL_LOST_EXPIRED);
}

/* ---- longest hold, by hand ------------------------------------------------------------------- */

TEST(the_longest_hold_ends_it_although_renewed) {
    feed f;
    begin_with(&f, TTL_MS, feed_ms(45000), false);
    while (f.status == TL_GO) {
        if (f.out.sends == 1)
            (void)feed_kept(&f, TTL_MS);
        else
            (void)feed_await(&f);
        assert_true(f.now.ns <= feed_ms(45000).ns);
    }
    expect_lost(&f, TL_LOST_MAX_HOLD);
    assert_int_equal(feed_since(f.now), 45000);
    assert_int_equal(f.sends, 4);
}

TEST(the_longest_hold_is_met_with_a_request_under_way) {
    feed f;
    begin_with(&f, TTL_MS, feed_ms(10001), false);
    due(&f);
    assert_int_equal(feed_since(f.out.until), 10001);
    assert_true(f.last.by.ns <= feed_ms(10001).ns);
    (void)feed_await(&f);
    expect_lost(&f, TL_LOST_MAX_HOLD);
}

TEST(by_hand_only_the_deadline_is_watched) {
    feed f;
    begin_with(&f, TTL_MS, TL_NEVER, true);
    feed_assert_waits_until(&f, TTL_MS - 1);
    feed_at(&f, TTL_MS / 2);
    (void)feed_timer(&f);
    feed_assert_waits_until(&f, TTL_MS - 1);
    (void)feed_await(&f);
    expect_lost(&f, TL_LOST_EXPIRED);
}

/* ---- extended -------------------------------------------------------------------------------- */

TEST(extended_has_the_new_lifetime_from_then_on) {
    feed f;
    begin(&f);
    feed_at(&f, 3000);
    tl__renew_extended(&m, 60000, feed_ms(63000), f.now);
    (void)feed_timer(&f);
    feed_assert_waits_until(&f, 3000 + 20000);
    assert_int_equal(m.result.deadline.ns, feed_ms(63000).ns);
    due(&f);
    assert_string_equal(feed_arg(&f, 5), "60000");
}

TEST(extended_to_less_is_lost_earlier) {
    feed f;
    begin_with(&f, TTL_MS, TL_NEVER, true);
    tl__renew_extended(&m, 1000, feed_ms(1000), f.now);
    (void)feed_timer(&f);
    feed_assert_waits_until(&f, 999);
    (void)feed_await(&f);
    expect_lost(&f, TL_LOST_EXPIRED);
}

TEST(extended_by_hand_nothing_is_left_to_try_again) {
    feed f;
    begin_with(&f, TTL_MS, TL_NEVER, true);
    (void)feed_woken(&f);
    (void)feed_refused(&f);
    (void)feed_refused(&f);
    assert_true(f.out.until.ns < feed_ms(1000).ns);
    tl__renew_extended(&m, TTL_MS, feed_ms(TTL_MS), f.now);
    (void)feed_timer(&f);
    feed_assert_waits_until(&f, TTL_MS - 1);
}

TEST(extended_ends_the_risk) {
    feed f;
    begin(&f);
    due(&f);
    (void)feed_refused(&f);
    (void)feed_refused(&f);
    tl__renew_extended(&m, TTL_MS, tl__mono_add_ms(f.now, TTL_MS), f.now);
    (void)feed_timer(&f);
    expect_note(&f, TL_NOTE_HELD, TL_NOT_LOST);
    assert_int_equal(f.out.until.ns, f.now.ns + TTL_MS * MS / 3);
    due(&f);
    assert_int_equal(f.out.notes, 0); /* once */
    (void)feed_lost(&f);
    expect_note(&f, TL_NOTE_AT_RISK, TL_NOT_LOST); /* the next failure is a first one */
    assert_int_equal(f.out.sends, 1);
}

TEST(extended_too_late_is_lost_and_was_never_held_again) {
    feed f;
    begin(&f);
    due(&f);
    (void)feed_lost(&f);
    feed_later(&f, 100);
    tl__renew_extended(&m, 50, f.now, f.now);
    (void)feed_timer(&f);
    assert_int_equal(f.out.notes, 1);
    expect_lost(&f, TL_LOST_EXPIRED);
}

TEST(extended_with_a_renewal_under_way_waits_for_its_answer) {
    feed f;
    begin(&f);
    due(&f);
    tl__renew_extended(&m, 60000, tl__mono_add_ms(f.now, 60000), f.now);
    (void)feed_timer(&f);
    assert_int_equal(f.out.sends, 0);
    assert_int_equal(f.sends, 1);
    feed_later(&f, 10);
    (void)feed_kept(&f, 60000);
    assert_int_equal(f.status, TL_GO);
    assert_int_equal(f.out.notes, 0);
}

/* The renewal was sent before the extension, and its answer proves less. */
TEST(an_older_renewals_answer_takes_nothing_back_from_an_extension) {
    feed f;
    begin(&f);
    due(&f);
    feed_later(&f, 5);
    tl_mono extended = tl__mono_add_ms(f.now, 60000);
    tl__renew_extended(&m, 60000, extended, f.now);
    feed_later(&f, 5);
    (void)feed_kept(&f, TTL_MS);
    assert_int_equal(m.result.deadline.ns, extended.ns);
}

/* ---- a server whose clock has stepped -------------------------------------------------------- */

TEST(woken_renews_at_once) {
    feed f;
    begin(&f);
    feed_at(&f, 5);
    (void)feed_woken(&f);
    assert_int_equal(f.out.sends, 1);
    feed_assert_asked(&f, "renew");
    (void)feed_kept(&f, 12000); /* its time had run ahead */
    assert_int_equal(m.result.deadline.ns, f.sent.ns + 12000 * MS - FEED_LOSS_OF(12000));
}

TEST(woken_with_a_renewal_under_way_renews_again_after_it) {
    feed f;
    begin(&f);
    due(&f);
    (void)feed_woken(&f); /* that one may have been executed before the step */
    assert_int_equal(f.out.sends, 0);
    (void)feed_kept(&f, TTL_MS);
    while (f.status == TL_GO && f.out.sends == 0 && f.out.until.ns <= f.now.ns)
        (void)feed_timer(&f);
    assert_int_equal(f.out.sends, 1);
    (void)feed_kept(&f, TTL_MS); /* and then no more than usual */
    assert_int_equal(f.out.sends, 0);
    assert_in_range(tl__ms_until(f.now, f.out.until), TTL_MS / 3 - 10, TTL_MS / 3);
}

/* The extension, too, may have been executed before the step. */
TEST(woken_with_a_renewal_under_way_is_not_forgotten_when_extended) {
    feed f;
    begin(&f);
    due(&f);
    (void)feed_woken(&f);
    tl__renew_extended(&m, TTL_MS, tl__mono_add_ms(f.now, TTL_MS), f.now);
    (void)feed_timer(&f);
    assert_int_equal(f.out.sends, 1);
    feed_assert_asked(&f, "renew");
}

TEST(woken_judges_a_lock_renewed_by_hand_too) {
    feed f;
    begin_with(&f, TTL_MS, TL_NEVER, true);
    feed_at(&f, 5);
    (void)feed_woken(&f);
    assert_int_equal(f.out.sends, 1);
    (void)feed_not_kept(&f, -1);
    expect_lost(&f, TL_LOST_GONE);
}

/* ---- a holder that gives no sign of life ------------------------------------------------------- */

#define STALL_MS 12000 /* the first renewal, at a third, comes before that */

/* The holder's last sign of life was at `ms`. */
static void feed_alive(int64_t ms) {
    m.stalls = feed_ms(ms + STALL_MS);
}

static void begin_watched(feed *f) {
    job = feed_job();
    feed_init(f, &m, tl__renew_step);
    renew_begin(&m, &job, feed_ms(TTL_MS), TL_NEVER, false, 42);
    feed_alive(0);
    (void)feed_start(f);
    feed_assert_waits_until(f, TTL_MS / 3);
}

/* Renewed once, at 10 s, and stalled at 12 s. */
static void begin_stalled(feed *f) {
    begin_watched(f);
    due(f);
    (void)feed_kept(f, TTL_MS);
    feed_assert_waits_until(f, STALL_MS);
    (void)feed_await(f);
    expect_note(f, TL_NOTE_AT_RISK, TL_RISK_STALLED);
    assert_int_equal(f->out.sends, 0);
}

TEST(fed_it_is_renewed_as_ever) {
    feed f;
    begin_watched(&f);
    for (int i = 0; i < 50; i++) {
        feed_later(&f, STALL_MS - 1);
        feed_alive(feed_since(f.now));
        if (feed_timer(&f) == TL_GO && f.out.sends == 1)
            (void)feed_kept(&f, TTL_MS);
        assert_int_equal(f.status, TL_GO);
        assert_int_equal(f.out.notes, 0);
    }
    assert_true(f.sends > 25);
}

TEST(the_look_for_life_may_be_late_by_a_part_of_the_wait) {
    feed f;
    begin_watched(&f);
    due(&f);
    (void)feed_kept(&f, TTL_MS);
    feed_assert_waits_until(&f, STALL_MS);
    assert_in_range(f.out.slack_ns, 1, (STALL_MS - TTL_MS / 3) * MS / 32);
}

TEST(unfed_it_is_at_risk_at_that_moment_and_renewed_no_more) {
    feed f;
    begin_stalled(&f);
    assert_int_equal(feed_since(f.now), STALL_MS);
    tl_mono deadline = m.result.deadline;
    unsigned sends = f.sends, reaches = f.reaches;
    while (feed_await(&f) == TL_GO)
        assert_int_equal(f.out.notes, 0);
    expect_lost(&f, TL_LOST_STALLED);
    assert_int_equal(f.sends, sends);
    assert_int_equal(f.reaches, reaches);
    assert_int_equal(f.now.ns, deadline.ns - TL_LOST_EARLY_NS);
}

/* However late the timer is. */
TEST(no_renewal_begins_once_it_has_stalled) {
    feed f;
    begin_watched(&f);
    feed_at(&f, STALL_MS + 1);
    (void)feed_timer(&f);
    expect_note(&f, TL_NOTE_AT_RISK, TL_RISK_STALLED);
    assert_int_equal(f.out.sends, 0);
}

TEST(fed_again_it_is_renewed_at_once_and_held) {
    feed f;
    begin_stalled(&f);
    int64_t fed_ms = 20000;
    while (f.now.ns < feed_ms(fed_ms).ns)
        (void)feed_await(&f);
    feed_alive(fed_ms);
    (void)feed_await(&f);
    assert_in_range(feed_since(f.now), fed_ms, fed_ms + 2 * TL_STALL_LOOK_NS / MS);
    assert_int_equal(f.out.notes, 0);
    assert_int_equal(f.out.sends, 1);
    (void)feed_kept(&f, TTL_MS);
    expect_note(&f, TL_NOTE_HELD, TL_NOT_LOST);
    assert_int_equal(m.result.deadline.ns, f.sent.ns + TTL_MS * MS - DRIFT_NS);
    assert_in_range(f.out.until.ns, f.now.ns + 1, m.stalls.ns);
}

TEST(fed_in_its_last_moments_it_is_still_renewed) {
    feed f;
    begin_stalled(&f);
    int64_t end_ms = feed_since(m.result.deadline);
    while (f.now.ns < feed_ms(end_ms - 10).ns)
        (void)feed_await(&f);
    feed_alive(end_ms - 10);
    (void)feed_await(&f);
    assert_int_equal(f.out.sends, 1);
    (void)feed_kept(&f, TTL_MS);
    expect_note(&f, TL_NOTE_HELD, TL_NOT_LOST);
}

TEST(a_renewal_in_flight_prolongs_no_stalled_lock) {
    feed f;
    begin_watched(&f);
    due(&f);
    tl_mono deadline = m.result.deadline;
    feed_later(&f, 1);
    m.stalls = f.now;
    (void)feed_kept(&f, TTL_MS);
    expect_note(&f, TL_NOTE_AT_RISK, TL_RISK_STALLED);
    assert_int_equal(m.result.deadline.ns, deadline.ns);
    while (feed_await(&f) == TL_GO)
        assert_int_equal(f.out.sends + f.out.notes, 0);
    expect_lost(&f, TL_LOST_STALLED);
}

/* The sign comes before the reply is read: the proof counts. */
TEST(a_renewal_in_flight_counts_when_the_holder_is_back) {
    feed f;
    begin_watched(&f);
    due(&f);
    m.stalls = f.now;
    (void)feed_timer(&f);
    expect_note(&f, TL_NOTE_AT_RISK, TL_RISK_STALLED);
    feed_later(&f, 50);
    feed_alive(feed_since(f.now));
    (void)feed_kept(&f, TTL_MS);
    expect_note(&f, TL_NOTE_HELD, TL_NOT_LOST);
    assert_int_equal(m.result.deadline.ns, f.sent.ns + TTL_MS * MS - DRIFT_NS);
}

TEST(a_failed_renewal_of_a_stalled_lock_is_not_repeated) {
    feed f;
    begin_watched(&f);
    due(&f);
    m.stalls = f.now;
    (void)feed_lost(&f);
    expect_note(&f, TL_NOTE_AT_RISK, TL_RISK_STALLED);
    while (feed_await(&f) == TL_GO)
        assert_int_equal(f.out.sends, 0);
    expect_lost(&f, TL_LOST_STALLED);
}

TEST(a_risk_from_before_ends_with_a_renewal_of_the_living) {
    feed f;
    begin_watched(&f);
    due(&f);
    (void)feed_refused(&f);
    expect_note(&f, TL_NOTE_AT_RISK, TL_NOT_LOST);
    m.stalls = f.now;
    (void)feed_refused(&f);
    assert_int_equal(f.out.notes + f.out.sends, 0);
    feed_later(&f, 100);
    feed_alive(feed_since(f.now));
    (void)feed_timer(&f);
    assert_int_equal(f.out.sends, 1);
    (void)feed_kept(&f, TTL_MS);
    expect_note(&f, TL_NOTE_HELD, TL_NOT_LOST);
}

TEST(a_stalled_lock_is_asked_about_but_not_prolonged) {
    feed f;
    begin_stalled(&f);
    tl_mono deadline = m.result.deadline;
    for (int i = 0; i < 3; i++) {
        feed_later(&f, 500);
        (void)feed_woken(&f);
        assert_int_equal(f.out.sends, 1);
        (void)feed_kept(&f, TTL_MS);
        assert_int_equal(f.out.sends + f.out.notes, 0);
        assert_int_equal(m.result.deadline.ns, deadline.ns);
    }
    feed_later(&f, 500);
    (void)feed_woken(&f);
    (void)feed_not_kept(&f, -1);
    expect_lost(&f, TL_LOST_GONE);
}

TEST(an_extension_ends_the_stall) {
    feed f;
    begin_stalled(&f);
    feed_later(&f, 1000);
    feed_alive(feed_since(f.now));
    tl__renew_extended(&m, TTL_MS, tl__mono_add_ms(f.now, TTL_MS), f.now);
    (void)feed_timer(&f);
    expect_note(&f, TL_NOTE_HELD, TL_NOT_LOST);
    assert_int_equal(f.out.sends, 0);
    assert_in_range(f.out.until.ns, f.now.ns + 1, f.now.ns + STALL_MS * MS);
}

/* The thread that extended it was held up for so long. */
TEST(stalled_again_before_its_first_step_it_was_never_held) {
    feed f;
    begin_stalled(&f);
    tl__renew_extended(&m, TTL_MS, tl__mono_add_ms(f.now, TTL_MS), f.now);
    (void)feed_timer(&f);
    expect_note(&f, TL_NOTE_AT_RISK, TL_RISK_STALLED);
}

TEST(stopped_beyond_the_deadline_it_has_expired) {
    feed f;
    begin_watched(&f);
    feed_at(&f, TTL_MS);
    (void)feed_timer(&f);
    expect_lost(&f, TL_LOST_EXPIRED);
}

TEST(the_longest_hold_is_the_cause_although_stalled) {
    feed f;
    job = feed_job();
    feed_init(&f, &m, tl__renew_step);
    renew_begin(&m, &job, feed_ms(TTL_MS), feed_ms(STALL_MS + 5), false, 42);
    feed_alive(0);
    (void)feed_start(&f);
    feed_at(&f, STALL_MS);
    (void)feed_timer(&f);
    expect_note(&f, TL_NOTE_AT_RISK, TL_RISK_STALLED);
    feed_at(&f, STALL_MS + 5);
    (void)feed_timer(&f);
    expect_lost(&f, TL_LOST_MAX_HOLD);
}

TEST(a_seed_of_zero_is_as_random_as_any) {
    feed f;
    bool above = false;
    job = feed_job();
    feed_init(&f, &m, tl__renew_step);
    renew_begin(&m, &job, feed_ms(TTL_MS), TL_NEVER, false, 0);
    (void)feed_start(&f);
    due(&f);
    (void)feed_refused(&f);
    for (int i = 1; i < 5; i++) {
        (void)feed_refused(&f);
        above = above || tl__ms_until(f.now, f.out.until) != INT64_C(10) << i;
        due(&f);
    }
    assert_true(above);
}

/* ---- other events ---------------------------------------------------------------------------- */

TEST(stray_answers_are_ignored) {
    feed f;
    begin(&f);
    (void)feed_reply_to(&f, 5, "['1' '2' [0 'x' -1]]");
    feed_assert_waits_until(&f, TTL_MS / 3);
    due(&f);
    (void)feed_reply_to(&f, (uint16_t)(f.last.ticket + 1), "['1' '2' [0 'x' -1]]");
    assert_int_equal(f.status, TL_GO);
    (void)feed_kept(&f, TTL_MS);
    tl_mono until = f.out.until;
    (void)feed_reply_to(&f, f.last.ticket, "['1' '2' [0 'x' -1]]"); /* answered already */
    assert_int_equal(f.status, TL_GO);
    assert_int_equal(f.out.until.ns, until.ns);
}

TEST(cancel_ends_it_without_a_word) {
    feed f;
    begin(&f);
    (void)feed_cancel(&f);
    assert_int_equal(f.status, TL_END);
    assert_int_equal(f.out.notes, 0);
    begin(&f);
    due(&f);
    (void)feed_cancel(&f);
    assert_int_equal(f.status, TL_END);
    assert_int_equal(f.out.notes, 0);
}

TEST(no_timer_is_asked_for_in_the_past) {
    for (int64_t ms = 0; ms <= TTL_MS; ms += 500) {
        feed f;
        begin(&f);
        feed_at(&f, ms);
        (void)feed_timer(&f);
        assert_true(f.status == TL_END || f.out.until.ns > f.now.ns);
        if (f.status == TL_GO && f.out.sends == 1) {
            (void)feed_timer(&f);
            assert_true(f.out.until.ns > f.now.ns);
        }
    }
}

/* Failures that take no time must not keep it from ever letting go. */
TEST(failures_at_the_last_moment_come_to_an_end) {
    for (int64_t before = 1; before <= 20; before++) {
        feed f;
        begin(&f);
        f.now.ns = feed_ms(TTL_MS - 1).ns - before;
        (void)feed_timer(&f);
        for (int i = 0; i < 100 && f.status == TL_GO; i++) {
            if (f.out.sends == 1)
                (void)feed_refused(&f);
            else
                (void)feed_await(&f);
        }
        expect_lost(&f, TL_LOST_EXPIRED);
    }
}

/* ---- where the master may have changed --------------------------------------------------------- */

static void begin_confirmed(feed *f) {
    job = feed_job();
    job.renew.confirms = true;
    feed_init(f, &m, tl__renew_step);
    renew_begin(&m, &job, feed_ms(TTL_MS), TL_NEVER, false, 42);
    (void)feed_start(f);
    due(f);
}

static void expect_confirmation(const feed *f) {
    assert_int_equal(f->status, TL_GO);
    assert_int_equal(f->out.sends, 1);
    assert_int_equal(f->last.count, 0);
    assert_true(f->last.confirm);
    assert_int_equal(m.result.deadline.ns, feed_ms(TTL_MS).ns); /* nothing is proved yet */
}

TEST(a_keep_counts_only_when_the_master_is_confirmed_after_its_answer) {
    feed f;
    begin_confirmed(&f);
    tl_mono sent = f.sent, by = f.last.by;
    feed_later(&f, 20);
    (void)feed_kept(&f, TTL_MS);
    expect_confirmation(&f);
    assert_int_equal(f.last.by.ns, by.ns); /* one limit for both */
    feed_later(&f, 20);
    (void)feed_reached(&f);
    assert_int_equal(f.out.notes, 0);
    assert_int_equal(m.result.deadline.ns, sent.ns + TTL_MS * MS - DRIFT_NS);
}

TEST(a_keep_that_is_not_confirmed_changes_nothing) {
    feed f;
    begin_confirmed(&f);
    (void)feed_kept(&f, TTL_MS);
    expect_confirmation(&f);
    (void)feed_failed(&f, false, TL_EUNAVAILABLE, "m: no majority of the Sentinels");
    expect_note(&f, TL_NOTE_AT_RISK, TL_NOT_LOST);
    assert_int_equal(m.result.deadline.ns, feed_ms(TTL_MS).ns);
    feed_assert_asked(&f, "renew"); /* anew */
}

TEST(a_lock_that_no_majority_confirms_is_lost_by_its_deadline) {
    feed f;
    begin_confirmed(&f);
    while (f.status == TL_GO && feed_since(f.now) < 2 * TTL_MS) {
        if (f.out.sends > 0 && f.last.count > 0)
            (void)feed_kept(&f, TTL_MS);
        else if (f.out.sends > 0)
            (void)feed_refused(&f);
        else
            (void)feed_await(&f);
    }
    expect_lost(&f, TL_LOST_EXPIRED);
    assert_true(feed_since(f.now) < TTL_MS);
}

TEST(a_refusal_needs_no_confirmation) {
    feed f;
    begin_confirmed(&f);
    (void)feed_not_kept(&f, -1);
    expect_lost(&f, TL_LOST_GONE);
}

TEST(what_another_server_is_to_be_asked_is_no_risk_at_first) {
    feed f;
    begin(&f);
    due(&f);
    uint16_t before = f.last.ticket;
    (void)feed_failed(&f, false, TL_EELSEWHERE, "another server is the master now");
    assert_int_equal(f.out.notes, 0);
    feed_assert_asked(&f, "renew");
    assert_int_not_equal(f.last.ticket, before);
    (void)feed_failed(&f, false, TL_EELSEWHERE, "another server is the master now");
    expect_note(&f, TL_NOTE_AT_RISK, TL_NOT_LOST);
}

/* ---- disruptions ----------------------------------------------------------------------------- */

/* What was proved at the beginning counts no longer. The driver says so with each step. */
static void disrupt(const feed *f) {
    m.job.hold.disrupted = f->now;
}

static void begin_proved(feed *f, bool by_hand) {
    begin_with(f, TTL_MS, TL_NEVER, by_hand);
    m.result.proved = f->now;
    feed_at(f, 100);
}

TEST(disrupted_it_is_renewed_at_once_and_held_after_that) {
    feed f;
    begin_proved(&f, false);
    disrupt(&f);
    (void)feed_timer(&f);
    expect_note(&f, TL_NOTE_AT_RISK, TL_RISK_DISRUPTED);
    assert_int_equal(f.out.sends, 1);
    feed_later(&f, 5); /* but it was built at the moment of the look: that may have been before */
    (void)feed_kept(&f, TTL_MS);
    assert_int_equal(f.out.notes, 0);
    while (f.status == TL_GO && f.out.sends == 0 && f.out.until.ns <= f.now.ns)
        (void)feed_timer(&f);
    assert_int_equal(f.out.sends, 1);
    tl_mono built = f.now;
    feed_later(&f, 5);
    (void)feed_kept(&f, TTL_MS);
    expect_note(&f, TL_NOTE_HELD, TL_NOT_LOST);
    assert_int_equal(m.result.proved.ns, built.ns);
    assert_int_equal(f.out.sends, 0);
    assert_in_range(tl__ms_until(f.now, f.out.until), TTL_MS / 3 - 10, TTL_MS / 3);
}

/* Its reply says what was true before. */
TEST(disrupted_with_a_renewal_under_way_it_is_renewed_again_after_it) {
    feed f;
    begin(&f);
    m.result.proved = f.now;
    due(&f);
    feed_later(&f, 5);
    disrupt(&f);
    (void)feed_timer(&f);
    expect_note(&f, TL_NOTE_AT_RISK, TL_RISK_DISRUPTED);
    assert_int_equal(f.out.sends, 0);
    feed_later(&f, 5);
    (void)feed_kept(&f, TTL_MS);
    assert_int_equal(f.out.notes, 0);
    while (f.status == TL_GO && f.out.sends == 0 && f.out.until.ns <= f.now.ns)
        (void)feed_timer(&f);
    assert_int_equal(f.out.sends, 1);
    (void)feed_kept(&f, TTL_MS);
    expect_note(&f, TL_NOTE_HELD, TL_NOT_LOST);
}

TEST(each_disruption_has_it_renewed_at_once) {
    feed f;
    begin_proved(&f, false);
    for (int i = 0; i < 3; i++) {
        disrupt(&f);
        feed_later(&f, 1);
        (void)feed_timer(&f);
        expect_note(&f, TL_NOTE_AT_RISK, TL_RISK_DISRUPTED);
        assert_int_equal(f.out.sends, 1);
        feed_later(&f, 5);
        (void)feed_kept(&f, TTL_MS);
        expect_note(&f, TL_NOTE_HELD, TL_NOT_LOST);
    }
}

TEST(disrupted_and_not_renewed_it_is_lost_by_its_deadline) {
    feed f;
    begin_proved(&f, false);
    disrupt(&f);
    (void)feed_timer(&f);
    while (f.status == TL_GO) {
        if (f.out.sends > 0 || m.rest.asking)
            (void)feed_lost(&f);
        else
            (void)feed_await(&f);
    }
    expect_lost(&f, TL_LOST_DISRUPTED);
}

TEST(disrupted_and_found_anothers_it_is_lost_by_the_disruption) {
    feed f;
    begin_proved(&f, false);
    disrupt(&f);
    (void)feed_timer(&f);
    (void)feed_not_kept(&f, 0);
    expect_lost(&f, TL_LOST_DISRUPTED);
}

TEST(disrupted_while_renewed_by_hand_it_waits_for_an_extension) {
    feed f;
    begin_proved(&f, true);
    disrupt(&f);
    (void)feed_timer(&f);
    expect_note(&f, TL_NOTE_AT_RISK, TL_RISK_DISRUPTED);
    assert_int_equal(f.out.sends, 0);
    feed_later(&f, 10);
    tl__renew_extended(&m, TTL_MS, tl__mono_add_ms(f.now, TTL_MS), f.now);
    m.result.proved = f.now;
    (void)feed_timer(&f);
    expect_note(&f, TL_NOTE_HELD, TL_NOT_LOST);
}

/* Before it, so its reply proves nothing. */
TEST(an_extension_of_before_a_disruption_ends_no_doubt) {
    feed f;
    begin_proved(&f, true);
    tl_mono asked = f.now;
    feed_later(&f, 10);
    disrupt(&f);
    tl__renew_extended(&m, TTL_MS, tl__mono_add_ms(asked, TTL_MS), f.now);
    m.result.proved = asked;
    (void)feed_timer(&f);
    expect_note(&f, TL_NOTE_AT_RISK, TL_RISK_DISRUPTED);
}

TEST(a_disruption_before_the_acquire_has_no_effect) {
    feed f;
    begin(&f);
    disrupt(&f);
    feed_later(&f, 1);
    m.result.proved = f.now;
    (void)feed_timer(&f);
    assert_int_equal(f.out.notes, 0);
    assert_int_equal(f.out.sends, 0);
}

/* As a stamp without scripts, whose deadline no request moves: it is only looked at. */
static tl_status looked(tl_try *attempt, const tl_job *looks, const tl_event *event, tl_out *out) {
    (void)event;
    (void)out;
    attempt->result.code = TL_OK;
    attempt->result.deadline = looks->hold.believed;
    return TL_END;
}

TEST(a_look_that_proves_nothing_is_not_repeated_at_once) {
    feed f;
    tl_protocol looks = tl__protocol_token;
    looks.answered = looked;
    begin_proved(&f, false);
    m.job.protocol = &looks;
    disrupt(&f);
    (void)feed_timer(&f);
    assert_int_equal(f.out.sends, 1);
    feed_later(&f, 5);
    (void)feed_kept(&f, TTL_MS);
    assert_int_equal(f.out.notes, 0);
    assert_int_equal(f.out.sends, 0);
    assert_in_range(tl__ms_until(f.now, f.out.until), TTL_MS / 4, TTL_MS / 3);
}

TEST(a_copy_loses_it_without_a_request) {
    feed f;
    begin_proved(&f, false);
    disrupt(&f);
    m.job.hold.copied = true;
    (void)feed_timer(&f);
    expect_lost(&f, TL_LOST_DISRUPTED);
}
