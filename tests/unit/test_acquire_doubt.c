/*
 * Acquiring: in doubt whether a lost request acquired the lock; cancelling; cleaning up after either.
 */
#include "acquire_feed.h"
#include "protocol/attempt.h"

/* ---- one key at a time ----------------------------------------------------------------------- */

/* It has K, which the sidecar doesn't let it have, and can't give it back for certain: too late, or from a server that
 * heeds no limit. */
TEST(who_is_told_busy_and_has_left_the_key_cleans_up) {
    for (int checked = 0; checked < 2; checked++) {
        feed f;
        begin(&f, 0);
        (void)feed_event(&f,
                         (tl_event){.kind = TL_FAILED,
                                    .asked = {.ticket = f.last.ticket, .sent = f.sent},
                                    .failed = {.why = TL_EELSEWHERE,
                                               .redirect = TL_TRY_AGAIN,
                                               .message = TL_LITERAL("the slot is on the move")}});
        feed_assert_asked(&f, "hold");
        (void)feed_reply(&f, "[1 '" TOKEN "' 30000 %s %d]", feed_time(&f), checked);
        (void)feed_reply(&f, "'700'");
        (void)feed_reply(&f, "[0 900]");
        if (checked)
            (void)feed_reply(&f, "-2");
        expect(&f, TL_DETACH, TL_EBUSY);
        assert_true(m.result.maybe);
        (void)feed_timer(&f);
        feed_assert_asked(&f, "release");
    }
}

/* ---- uncertainty ----------------------------------------------------------------------------- */

/* A take was lost at 100 ms; it may be executed until its attempt limit at 2000. */
static void doubtful(feed *f, int64_t wait_ms) {
    begin(f, wait_ms);
    feed_at(f, 100);
    (void)feed_failed(f, true, TL_EUNAVAILABLE, "connection lost");
}

TEST(time_that_runs_out_in_doubt_is_uncertain) {
    feed f;
    begin(&f, 1000);
    (void)feed_lost(&f);
    assert_int_equal(feed_since(f.now), 1000);
    (void)feed_await(&f);
    expect(&f, TL_DETACH, TL_EUNCERTAIN);
    assert_true(m.result.maybe);
    assert_string_equal(f.out.message, "no reply in time");
}

/* A reply that there is no memory for may be that the lock is acquired. */
TEST(without_memory_for_a_reply_the_wait_ends_and_what_it_may_have_acquired_is_dropped) {
    feed f;
    begin(&f, TL_FOREVER);
    feed_at(&f, 100);
    (void)feed_failed(&f, true, TL_ENOMEM, "out of memory for a reply");
    expect(&f, TL_DETACH, TL_ENOMEM);
    assert_true(m.result.maybe);
    assert_string_equal(f.out.message, "out of memory for a reply");
    (void)feed_timer(&f);
    feed_assert_asked(&f, "release");
}

TEST(busy_before_the_lost_request_is_harmless_leaves_the_doubt) {
    feed f;
    doubtful(&f, 2100);
    feed_at(&f, 1990);
    again(&f);
    feed_at(&f, 2050); /* the answer's time doesn't count: it was sent before */
    (void)feed_busy(&f, -1, false);
    feed_at(&f, 2100);
    (void)feed_timer(&f);
    expect(&f, TL_DETACH, TL_EUNCERTAIN);
}

TEST(busy_to_a_request_sent_after_that_clears_it) {
    feed f;
    doubtful(&f, 2100);
    feed_at(&f, 2000);
    again(&f);
    (void)feed_busy(&f, -1, false);
    feed_at(&f, 2100);
    (void)feed_timer(&f);
    expect(&f, TL_END, TL_ETIMEDOUT);
}

TEST(a_server_that_does_not_check_lateness_clears_nothing) {
    feed f;
    doubtful(&f, 10000);
    feed_at(&f, 5000);
    again(&f);
    (void)feed_reply(&f, "[0 'another' -1 '77' %s 0 1]", feed_time(&f));
    feed_at(&f, 10000);
    (void)feed_timer(&f);
    expect(&f, TL_DETACH, TL_EUNCERTAIN);
}

TEST(a_request_without_a_limit_is_never_harmless) {
    feed f;
    prepare(&f);
    f.server.anchor.known = false;
    go(&f, 10000);
    (void)feed_reached(&f);
    (void)feed_lost(&f);
    f.server.anchor.known = true; /* from then on its clock is known */
    feed_at(&f, 9000);
    again(&f);
    (void)feed_busy(&f, -1, false);
    feed_at(&f, 10000);
    (void)feed_timer(&f);
    expect(&f, TL_DETACH, TL_EUNCERTAIN);
}

TEST(the_doubt_lasts_until_the_last_of_several_requests_is_harmless) {
    feed f;
    doubtful(&f, 10000);
    again(&f); /* until 2100 */
    feed_at(&f, 150);
    (void)feed_failed(&f, true, TL_EUNAVAILABLE, "connection lost");
    feed_at(&f, 2099);
    again(&f);
    (void)feed_busy(&f, -1, false);
    assert_true(m.uncertain);
    feed_at(&f, 3000);
    again(&f);
    (void)feed_busy(&f, -1, false);
    assert_false(m.uncertain);
}

TEST(a_later_limit_does_not_make_an_unlimited_request_harmless) {
    feed f;
    prepare(&f);
    f.server.anchor.known = false;
    go(&f, 60000);
    (void)feed_reached(&f);
    (void)feed_lost(&f);
    f.server.anchor.known = true;
    again(&f);
    (void)feed_lost(&f); /* this one had a limit, and that has passed */
    feed_later(&f, 1000);
    again(&f);
    (void)feed_busy(&f, -1, false);
    assert_true(m.uncertain);
}

TEST(an_answered_failure_does_not_end_an_older_doubt) {
    feed f;
    doubtful(&f, 10000); /* until 2000 */
    again(&f);
    feed_at(&f, 200);
    (void)feed_reply(&f, "-OOM command not allowed. script: 1, on @user_script:9."); /* is over */
    feed_at(&f, 300);
    again(&f);
    (void)feed_busy(&f, -1, false);
    assert_true(m.uncertain);
}

TEST(the_lock_can_still_be_had_after_a_doubt) {
    feed f;
    doubtful(&f, 10000);
    again(&f);
    (void)feed_taken(&f, TTL_MS);
    expect(&f, TL_END, TL_OK);
    assert_false(m.result.maybe);
}

TEST(trying_once_in_doubt_is_uncertain_not_busy) {
    feed f;
    doubtful(&f, 0);
    again(&f);
    (void)feed_busy(&f, -1, false);
    expect(&f, TL_DETACH, TL_EUNCERTAIN);
}

TEST(a_refusal_in_doubt_is_told_and_cleaned_up_after) {
    feed f;
    doubtful(&f, 10000);
    again(&f);
    (void)feed_reply(&f, "-NOAUTH Authentication required.");
    expect(&f, TL_DETACH, TL_EDENIED);
}

/* ---- cancelling ------------------------------------------------------------------------------ */

TEST(cancelled_while_reaching_the_server_ends_at_once) {
    feed f;
    prepare(&f);
    go(&f, TL_FOREVER);
    (void)feed_cancel(&f);
    expect(&f, TL_END, TL_ECANCELLED);
    assert_string_equal(f.out.message, "cancelled");
}

TEST(cancelled_in_a_pause_ends_at_once) {
    feed f;
    settle_down(&f, TL_FOREVER, true, 20000, true);
    (void)feed_cancel(&f);
    expect(&f, TL_END, TL_ECANCELLED);
}

TEST(cancelled_with_a_take_under_way_drops_it) {
    feed f;
    begin(&f, TL_FOREVER);
    feed_at(&f, 10);
    (void)feed_cancel(&f);
    expect(&f, TL_DETACH, TL_ECANCELLED);
    assert_true(m.result.maybe);
    assert_int_equal(f.out.until.ns, f.now.ns);
    (void)feed_await(&f);
    feed_assert_asked(&f, "release");
    assert_int_equal(f.status, TL_GO);
    (void)feed_dropped(&f, 1);
    assert_int_equal(f.status, TL_END);
    assert_int_equal(m.result.code, TL_ECANCELLED);
}

TEST(cancelled_in_a_doubtful_pause_drops_it) {
    feed f;
    begin(&f, TL_FOREVER);
    (void)feed_failed(&f, true, TL_EUNAVAILABLE, "connection lost");
    again(&f);
    (void)feed_refused(&f);
    (void)feed_cancel(&f);
    expect(&f, TL_DETACH, TL_ECANCELLED);
}

/* ---- cleaning up ----------------------------------------------------------------------------- */

/* Given up at 10 ms, with the drop in flight. */
static void cleaning(feed *f) {
    begin(f, TL_FOREVER);
    feed_at(f, 10);
    (void)feed_cancel(f);
    assert_int_equal(f->status, TL_DETACH);
    (void)feed_timer(f);
    feed_assert_asked(f, "release");
    assert_string_equal(feed_arg(f, 0), TOKEN);
    assert_int_equal(feed_since(f->last.by), 10 + ATTEMPT_MS);
}

TEST(a_definite_answer_ends_the_clean_up) {
    feed f;
    for (int status = -1; status <= 1; status++) {
        cleaning(&f);
        (void)feed_dropped(&f, status);
        assert_int_equal(f.status, TL_END);
    }
    cleaning(&f);
    (void)feed_reply(&f, "-NOAUTH Authentication required.");
    assert_int_equal(f.status, TL_END);
    assert_int_equal(m.result.code, TL_ECANCELLED);
}

TEST(the_clean_up_is_tried_again_with_growing_pauses) {
    feed f;
    cleaning(&f);
    const int64_t most[] = {20, 40, 80, 160};
    for (int i = 0; i < 4; i++) {
        feed_at(&f, 1000 + i * 1000);
        if (i % 2)
            (void)feed_reply(&f, "-LOADING Redis is loading the dataset in memory");
        else
            (void)feed_failed(&f, true, TL_EUNAVAILABLE, "connection lost");
        feed_assert_waits_between(&f, 1000 + i * 1000 + most[i] / 2, 1000 + i * 1000 + most[i]);
        (void)feed_await(&f);
        feed_assert_asked(&f, "release");
        assert_int_equal(f.out.sends, 1);
    }
    (void)feed_dropped(&f, 1);
    assert_int_equal(f.status, TL_END);
}

TEST(the_clean_up_begins_with_a_small_pause_whatever_failed_before) {
    feed f;
    begin(&f, TL_FOREVER);
    (void)feed_failed(&f, true, TL_EUNAVAILABLE, "connection lost");
    for (int i = 0; i < 5; i++) {
        (void)feed_await(&f);
        (void)feed_refused(&f);
    }
    (void)feed_cancel(&f);
    (void)feed_await(&f);
    feed_assert_asked(&f, "release");
    (void)feed_refused(&f);
    assert_in_range(tl__ms_until(f.now, f.out.until), 10, 20);
}

TEST(the_clean_up_ends_when_the_lock_has_expired_anyway) {
    feed f;
    cleaning(&f);
    const int64_t end = 10 + TTL_MS + FEED_GAIN_MS + ATTEMPT_MS;
    while (f.status == TL_GO) {
        if (f.out.sends == 1)
            (void)feed_lost(&f);
        assert_true(f.last.by.ns <= feed_ms(end).ns);
        if (f.status == TL_GO)
            (void)feed_await(&f);
    }
    assert_int_equal(f.status, TL_END);
    assert_int_equal(feed_since(f.now), end - 1); /* rounded */
}

TEST(the_clean_up_ends_in_time_with_a_drop_under_way) {
    feed f;
    cleaning(&f);
    feed_at(&f, 10 + TTL_MS + FEED_GAIN_MS + ATTEMPT_MS);
    (void)feed_timer(&f);
    assert_int_equal(f.status, TL_END);
}

TEST(the_clean_up_minds_no_other_event) {
    feed f;
    cleaning(&f);
    unsigned sends = f.sends;
    (void)feed_woken(&f);
    (void)feed_armed(&f, false);
    (void)feed_timer(&f);
    (void)feed_cancel(&f);
    (void)feed_reply_to(&f, 1, "[1 't' 30000 '77' '1' '2' 1 1]"); /* of the take given up */
    assert_int_equal(f.status, TL_GO);
    assert_int_equal(f.sends, sends);
    (void)feed_dropped(&f, 1);
    assert_int_equal(f.status, TL_END);
}

TEST(no_timer_is_asked_for_in_the_past) {
    feed f;
    cleaning(&f);
    for (int i = 0; i < 3; i++) {
        feed_later(&f, 700);
        (void)feed_timer(&f);
        assert_true(f.out.until.ns > f.now.ns);
    }
}

TEST(a_native_take_that_is_cancelled_has_its_connection_ended_before_it_is_undone) {
    for (int native = 0; native <= 1; native++) {
        feed f;
        begin(&f, 60000);
        tl_event cancel = {.kind = TL_CANCEL, .asked = {.native = native, .run = 1, .id = 7}};
        (void)feed_event(&f, cancel);
        expect(&f, TL_DETACH, TL_ECANCELLED);
        (void)feed_timer(&f);
        if (native) {
            feed_assert_asked(&f, "");
            f.run = 1;
            (void)feed_event(&f,
                             (tl_event){.kind = TL_REPLY, .asked = {.ticket = m.ticket, .run = 1}});
            assert_string_equal(f.last.command[0].argv[1].p, "KILL");
            assert_int_equal(strtol(f.last.command[0].argv[3].p, NULL, 10), 7);
            (void)feed_reply_to(&f, m.ticket, "1");
        }
        feed_assert_asked(&f, "release");
        (void)feed_dropped(&f, 1);
        assert_int_equal(f.status, TL_END);
    }
}

/* The connection of the native take is ended on the server; what was sent over another one may still come. */
static tl_mono killed_by(feed *f, uint64_t answering) {
    begin(f, 60000);
    tl_event lost = {.kind = TL_FAILED,
                     .asked = {.ticket = m.ticket, .sent = f->now},
                     .failed = {.maybe_sent = true}};
    lost.asked.native = true, lost.asked.run = 1, lost.asked.id = 7,
    lost.failed.why = TL_EUNAVAILABLE;
    lost.failed.message = TL_LITERAL("lost");
    (void)feed_event(f, lost);
    assert_int_equal(m.kill_id, 7);
    again(f); /* by script: which server this is isn't known */
    tl_mono by = tl__attempt_harmless(&m.attempt);
    feed_later(f, 10);
    (void)feed_failed(f, true, TL_EUNAVAILABLE, "lost");
    (void)feed_await(f);
    (void)feed_event(
        f, (tl_event){.kind = TL_REPLY, .asked = {.ticket = m.ticket, .sent = f->now, .run = 1}});
    f->run = answering;
    (void)feed_reply_to(f, m.ticket, "1");
    return by;
}

TEST(a_killed_connection_ends_no_doubt_but_its_own) {
    feed f;
    tl_mono by = killed_by(&f, 1);
    assert_int_equal(m.kill_id, 0);
    assert_int_equal(m.harmless.ns, by.ns);
}

TEST(another_server_says_nothing_of_a_killed_connection) {
    feed f;
    (void)killed_by(&f, 2);
    assert_int_equal(m.kill_id, 7);
    assert_true(m.uncertain);
}
