/*
 * Extending and releasing: asked until answered, within one attempt limit, and a release goes on
 * in the background after that.
 */
#include "feed.h"

#include "protocol/attempt.h"
#include "protocol/settle.h"

static tl_settle m;
static tl_job job;

static void begin_believing(feed *f, tl_op op, tl_mono believed) {
    job = feed_job();
    feed_init(f, &m, tl__settle_step);
    tl__settle_init(&m, &job, op, believed, 42);
    assert_int_equal(feed_start(f), TL_GO);
    feed_assert_asked(f, op == TL_RENEW ? "renew" : "release");
    assert_int_equal(feed_since(f->last.by), ATTEMPT_MS);
}

/* Of a lock that is believed for 20 s more. */
static void begin(feed *f, tl_op op) {
    begin_believing(f, op, feed_ms(20000));
}

static void expect(const feed *f, tl_status status, tl_err code) {
    assert_int_equal(f->status, status);
    assert_int_equal(m.result.code, code);
    assert_int_equal(f->out.sends, 0);
    if (code != TL_OK && status == TL_END)
        assert_string_not_equal(f->out.message, "");
}

/* ---- extending ------------------------------------------------------------------------------- */

TEST(extend_tells_the_new_deadline) {
    feed f;
    begin(&f, TL_RENEW);
    feed_at(&f, 30);
    (void)feed_kept(&f, TTL_MS);
    expect(&f, TL_END, TL_OK);
    assert_int_equal(m.result.deadline.ns, feed_ms(TTL_MS).ns - DRIFT_NS);
    assert_true(f.out.has_bracket);
}

/* Where the master may have changed: a lock that this handle did not acquire may be a former master's. */
TEST(the_confirmation_of_an_extension_says_whether_the_lock_was_adopted) {
    for (int adopted = 0; adopted < 2; adopted++) {
        feed f;
        job = feed_job();
        job.renew.confirms = true;
        job.hold.proof.elsewhere = adopted;
        feed_init(&f, &m, tl__settle_step);
        tl__settle_init(&m, &job, TL_RENEW, feed_ms(20000), 42);
        (void)feed_start(&f);
        assert_false(f.last.adopted);
        (void)feed_kept(&f, TTL_MS);
        assert_true(f.last.confirm);
        assert_int_equal(f.last.adopted, adopted);
        (void)feed_reached(&f);
        expect(&f, TL_END, TL_OK);
        assert_false(m.result.proof.elsewhere); /* it has held at this master since */
    }
}

TEST(extend_finds_it_lost) {
    feed f;
    begin(&f, TL_RENEW);
    (void)feed_not_kept(&f, 0);
    expect(&f, TL_END, TL_ELOST);
    assert_int_equal(m.result.lost.why, TL_LOST_TAKEN);
    begin(&f, TL_RENEW);
    (void)feed_not_kept(&f, -1);
    expect(&f, TL_END, TL_ELOST);
    assert_int_equal(m.result.lost.why, TL_LOST_GONE);
}

TEST(extend_after_a_lost_reply_asks_again_at_once) {
    feed f;
    begin(&f, TL_RENEW);
    feed_at(&f, 100);
    (void)feed_failed(&f, true, TL_EUNAVAILABLE, "connection lost");
    feed_assert_waits_until(&f, 100);
    (void)feed_await(&f);
    feed_assert_asked(&f, "renew");
    assert_int_equal(feed_since(f.last.by), ATTEMPT_MS); /* one limit for all */
    feed_at(&f, 150);
    (void)feed_kept(&f, TTL_MS);
    expect(&f, TL_END, TL_OK);
    assert_int_equal(m.result.deadline.ns, feed_ms(100 + TTL_MS).ns - DRIFT_NS);
}

TEST(extend_without_a_reply_in_time_is_uncertain_and_done) {
    feed f;
    begin(&f, TL_RENEW);
    (void)feed_lost(&f);
    expect(&f, TL_END, TL_EUNCERTAIN); /* nothing to clean up */
    assert_true(m.result.maybe);
    assert_int_equal(feed_since(f.now), ATTEMPT_MS);
    assert_int_equal(m.result.deadline.ns, 0);
}

TEST(an_attempt_cut_short_by_the_limit_does_not_hide_what_is_wrong) {
    feed f;
    begin(&f, TL_RENEW);
    (void)feed_reply(&f, "-LOADING Redis is loading the dataset in memory");
    (void)feed_await(&f);
    feed_at(&f, ATTEMPT_MS);
    (void)feed_failed(&f, false, TL_EUNAVAILABLE, "no answer in 12 ms");
    expect(&f, TL_END, TL_EUNAVAILABLE);
    assert_string_equal(f.out.message, "LOADING Redis is loading the dataset in memory");
}

TEST(extend_that_never_left_is_unavailable_at_its_limit) {
    feed f;
    begin(&f, TL_RENEW);
    unsigned tries = 1;
    while (f.status == TL_GO) {
        if (f.out.sends == 1)
            (void)feed_refused(&f);
        else
            (void)feed_await(&f);
        tries += f.out.sends;
        assert_true(tries < 100);
    }
    assert_int_equal(f.status, TL_END);
    assert_int_equal(m.result.code, TL_EUNAVAILABLE);
    assert_int_equal(feed_since(f.now), ATTEMPT_MS);
    assert_in_range(tries, 4, 16); /* with growing pauses */
}

TEST(a_first_failure_without_effect_is_followed_by_a_pause) {
    feed f;
    begin(&f, TL_RENEW);
    (void)feed_refused(&f);
    feed_assert_waits_between(&f, 10, 20);
    (void)feed_await(&f);
    (void)feed_refused(&f);
    assert_in_range(tl__ms_until(f.now, f.out.until), 20, 40);
}

TEST(extend_with_too_few_replicas_is_asked_again) {
    feed f;
    job = feed_job();
    job.wait_replicas = 1;
    feed_init(&f, &m, tl__settle_step);
    tl__settle_init(&m, &job, TL_RENEW, feed_ms(20000), 42);
    (void)feed_start(&f);
    (void)feed_reply(&f, "[%s [1 '" TOKEN "' 30000]] 0", feed_time(&f));
    feed_assert_waits_between(&f, 10, 20); /* it was answered: nothing is to be cleared up */
    (void)feed_await(&f);
    (void)feed_reply(&f, "[%s [1 '" TOKEN "' 30000]] 1", feed_time(&f));
    expect(&f, TL_END, TL_OK);
}

TEST(an_extension_that_is_over_when_confirmed_is_not_called_kept) {
    feed f;
    job = feed_job();
    job.ttl_ms = 100;
    feed_init(&f, &m, tl__settle_step);
    tl__settle_init(&m, &job, TL_RENEW, feed_ms(20000), 42);
    (void)feed_start(&f);
    feed_at(&f, 150);
    (void)feed_kept(&f, 100);
    assert_true(f.status == TL_GO || m.result.code != TL_OK);
}

TEST(refusals_are_final) {
    const tl_op ops[] = {TL_RENEW, TL_RELEASE};
    for (size_t i = 0; i < 2; i++) {
        feed f;
        begin(&f, ops[i]);
        (void)feed_reply(&f, "-NOPERM this user has no permissions");
        expect(&f, TL_END, TL_EDENIED);
        begin(&f, ops[i]);
        (void)feed_reply(&f, "-ERR unknown command");
        expect(&f, TL_END, TL_EUNSUPPORTED);
        begin(&f, ops[i]);
        (void)feed_reply(&f, "nil");
        expect(&f, TL_END, TL_ESERVER);
        begin(&f, ops[i]);
        (void)feed_failed(&f, false, TL_EDENIED, "WRONGPASS");
        expect(&f, TL_END, TL_EDENIED);
        begin(&f, ops[i]);
        (void)feed_failed(&f, false, TL_ENOMEM, "out of memory");
        expect(&f, TL_END, TL_ENOMEM);
    }
}

/* ---- releasing ------------------------------------------------------------------------------- */

TEST(release_tells_released_expired_and_taken_apart) {
    const tl_err codes[] = {TL_EEXPIRED, TL_ETAKEN, TL_OK};
    for (int status = -1; status <= 1; status++) {
        feed f;
        begin(&f, TL_RELEASE);
        (void)feed_dropped(&f, status);
        expect(&f, TL_END, codes[status + 1]);
        assert_int_equal(f.sends, 1);
    }
}

static void repeated(feed *f, tl_mono believed, int status) {
    begin_believing(f, TL_RELEASE, believed);
    feed_at(f, 100);
    (void)feed_failed(f, true, TL_EUNAVAILABLE, "connection lost");
    (void)feed_await(f);
    (void)feed_dropped(f, status);
}

TEST(a_repeated_release_first_sent_in_time_has_worked) {
    feed f;
    repeated(&f, feed_ms(20000), -1);
    expect(&f, TL_END, TL_OK);
    repeated(&f, feed_ms(20000), 0);
    expect(&f, TL_END, TL_OK);
    repeated(&f, feed_ms(20000), 1);
    expect(&f, TL_END, TL_OK);
}

TEST(the_first_sending_counts_for_in_time_not_the_repeat) {
    feed f;
    repeated(&f, (tl_mono){feed_ms(0).ns + 1}, -1); /* over by the time of the repeat */
    expect(&f, TL_END, TL_OK);
}

TEST(a_repeated_release_first_sent_too_late_believes_the_answer) {
    feed f;
    repeated(&f, feed_ms(0), -1);
    expect(&f, TL_END, TL_EEXPIRED);
    repeated(&f, feed_ms(0), 0);
    expect(&f, TL_END, TL_ETAKEN);
    repeated(&f, (tl_mono){0}, -1);
    expect(&f, TL_END, TL_EEXPIRED);
}

TEST(a_release_repeated_after_one_that_never_left_believes_the_answer) {
    feed f;
    begin(&f, TL_RELEASE);
    (void)feed_refused(&f);
    (void)feed_await(&f);
    (void)feed_dropped(&f, -1);
    expect(&f, TL_END, TL_EEXPIRED);
}

/* Of who got it past its own entry: the entry has the lifetime that was asked for then. */
TEST(a_release_takes_the_entry_out_of_the_line) {
    feed f;
    job = feed_job();
    job.queue.stands = true;
    job.fences = TL_FENCES;
    job.queue.inbox = TL_LITERAL("inbox");
    job.hold.proof.stood_ms = 400;
    feed_init(&f, &m, tl__settle_step);
    tl__settle_init(&m, &job, TL_RELEASE, feed_ms(20000), 42);
    assert_int_equal(feed_start(&f), TL_GO);
    feed_assert_asked(&f, "release");
    assert_non_null(strstr(feed_arg(&f, 2), TOKEN " 400 50 inbox "));
    (void)feed_dropped(&f, 1);
    expect(&f, TL_END, TL_OK);
}

TEST(a_release_without_an_answer_goes_on_in_the_background) {
    feed f;
    begin(&f, TL_RELEASE);
    (void)feed_lost(&f);
    expect(&f, TL_DETACH, TL_EUNCERTAIN);
    assert_true(m.result.maybe);
    assert_int_equal(feed_since(f.now), ATTEMPT_MS);
    assert_int_equal(f.out.until.ns, f.now.ns);
    (void)feed_await(&f);
    feed_assert_asked(&f, "release");
    assert_int_equal(feed_since(f.last.by), 2 * ATTEMPT_MS);
    (void)feed_dropped(&f, 1);
    assert_int_equal(f.status, TL_END);
    assert_int_equal(m.result.code, TL_EUNCERTAIN); /* what the caller was told stays */
}

TEST(a_release_that_never_left_is_unavailable_and_goes_on) {
    feed f;
    begin(&f, TL_RELEASE);
    feed_at(&f, ATTEMPT_MS);
    (void)feed_refused(&f);
    expect(&f, TL_DETACH, TL_EUNAVAILABLE);
    assert_false(m.result.maybe);
}

TEST(the_release_in_the_background_ends_when_the_lock_has_expired_anyway) {
    feed f;
    begin(&f, TL_RELEASE);
    (void)feed_lost(&f);
    while (f.status != TL_END) {
        (void)feed_await(&f);
        assert_true(f.last.by.ns <= feed_ms(ATTEMPT_MS).ns + FEED_MOST_OF(TTL_MS));
        if (f.out.sends == 1)
            (void)feed_lost(&f);
    }
    assert_int_equal(f.now.ns,
                     feed_ms(ATTEMPT_MS).ns + FEED_MOST_OF(TTL_MS)); /* its clock is slow */
    assert_int_equal(m.result.code, TL_EUNCERTAIN);
}

TEST(each_definite_answer_ends_the_release_in_the_background) {
    for (int status = -1; status <= 1; status++) {
        feed f;
        begin(&f, TL_RELEASE);
        (void)feed_lost(&f);
        (void)feed_await(&f);
        (void)feed_dropped(&f, status);
        assert_int_equal(f.status, TL_END);
    }
}

/* ---- a release that lets the lock rest ---------------------------------------------------------- */

/* Until so long after the start. */
static void begin_rest(feed *f, int64_t ms, int replicas) {
    job = feed_job();
    job.release.rest_ms = ms;
    job.release.rest_since = feed_ms(0);
    job.release.rest_since_us = feed_server_us(0);
    job.wait_replicas = replicas;
    feed_init(f, &m, tl__settle_step);
    tl__settle_init(&m, &job, TL_RELEASE, feed_ms(20000), 42);
    assert_int_equal(feed_start(f), TL_GO);
    feed_assert_asked(f, "rest");
}

static int64_t left_ms(const feed *f) {
    int64_t ms = 0;
    assert_true(tl__bytes_to_int(f->last.command[0].argv[4], &ms));
    return ms;
}

TEST(a_rest_is_over_when_it_is_answered) {
    static const tl_err code[] = {TL_EEXPIRED, TL_ETAKEN, TL_OK};
    for (int status = -1; status <= 1; status++) {
        feed f;
        begin_rest(&f, 60000, 0);
        assert_int_equal(left_ms(&f), 60000);
        (void)feed_dropped(&f, status);
        expect(&f, TL_END, code[status + 1]);
    }
}

TEST(a_rest_after_a_lost_reply_is_asked_for_again_for_what_is_left) {
    feed f;
    begin_rest(&f, 60000, 0);
    feed_at(&f, 1000);
    (void)feed_failed(&f, true, TL_EUNAVAILABLE, "connection lost");
    (void)feed_await(&f);
    feed_assert_asked(&f, "rest");
    assert_int_equal(left_ms(&f), 59001); /* its clock may be fast */
    assert_int_equal(feed_since(f.last.by), ATTEMPT_MS);
    (void)feed_dropped(&f, 1);
    expect(&f, TL_END, TL_OK);
}

/* Somebody has deleted the key, or the first request never came and it has expired. */
TEST(a_repeated_rest_that_finds_nothing_has_not_worked) {
    for (int status = -1; status <= 0; status++) {
        feed f;
        begin_rest(&f, 60000, 0);
        (void)feed_failed(&f, true, TL_EUNAVAILABLE, "connection lost");
        (void)feed_await(&f);
        (void)feed_dropped(&f, status);
        expect(&f, TL_END, status == 0 ? TL_ETAKEN : TL_EEXPIRED);
    }
}

/* Its time is over before it is asked for again. The first request has worked, and what it left has ended. */
TEST(a_rest_that_is_over_meanwhile_becomes_a_release) {
    for (int status = -1; status <= 1; status++) {
        feed f;
        begin_rest(&f, 100, 0);
        feed_at(&f, 50);
        (void)feed_refused(&f);
        (void)feed_await(&f);
        feed_assert_asked(&f, "rest");
        feed_at(&f, 101);
        (void)feed_failed(&f, true, TL_EUNAVAILABLE, "connection lost");
        (void)feed_await(&f);
        feed_assert_asked(&f, "release");
        (void)feed_dropped(&f, status);
        expect(&f, TL_END, TL_OK);
    }
}

/* The server's clock is ahead of what it can be since the acquire: another server may have taken over. */
TEST(a_rest_ends_by_no_other_clock_than_that_of_the_acquire) {
    for (int ahead = 0; ahead <= 1; ahead++) {
        feed f;
        begin_rest(&f, 60000, 0);
        f.now = feed_ms(1000);
        f.server.anchor.offset.lo += ahead * 1000;
        f.server.anchor.offset.hi += ahead * 1000;
        f.server.anchor.at = f.now;
        tl__settle_init(&m, &job, TL_RELEASE, feed_ms(20000), 42);
        (void)feed_start(&f);
        assert_int_equal(left_ms(&f), 59001);
        tl_bytes latest = f.last.command[0].argv[5];
        int64_t us = -1;
        assert_true(tl__bytes_to_int(latest, &us));
        assert_int_equal(us, ahead ? 0 : feed_server_us(60000));
    }
}

TEST(a_rest_that_was_over_before_is_a_release) {
    feed f;
    begin_rest(&f, 100, 0);
    f.now = feed_ms(101);
    tl__settle_init(&m, &job, TL_RELEASE, feed_ms(20000), 42);
    (void)feed_start(&f);
    feed_assert_asked(&f, "release");
}

TEST(a_rest_without_an_answer_goes_on_in_the_background) {
    feed f;
    begin_rest(&f, 60000, 0);
    (void)feed_lost(&f);
    expect(&f, TL_DETACH, TL_EUNCERTAIN);
    (void)feed_await(&f);
    feed_assert_asked(&f, "rest");
    assert_int_equal(left_ms(&f), 58001);
    (void)feed_dropped(&f, 1);
    assert_int_equal(f.status, TL_END);
    assert_int_equal(m.result.code, TL_EUNCERTAIN);
}

TEST(a_rest_that_too_few_replicas_confirm_is_asked_for_again) {
    feed f;
    begin_rest(&f, 60000, 1);
    (void)feed_reply(&f, "1 0");
    feed_assert_waits_between(&f, 10, 20);
    (void)feed_await(&f);
    feed_assert_asked(&f, "rest");
    (void)feed_reply(&f, "1 1");
    expect(&f, TL_END, TL_OK);
}

TEST(a_rest_that_replicas_never_confirm_is_uncertain) {
    feed f;
    begin_rest(&f, 60000, 1);
    while (f.status == TL_GO)
        (void)(f.out.sends == 1 ? feed_reply(&f, "1 0") : feed_await(&f));
    expect(&f, TL_DETACH, TL_EUNCERTAIN);
    assert_string_equal(f.out.message, "too few replicas confirmed the lock in time");
}

/* ---- an attempt that ends before anything is sent ------------------------------------------------ */

static tl_err unsent; /* why */

static tl_status ends_unsent(tl_try *attempt, const tl_job *j, const tl_event *event, tl_out *out) {
    (void)j, (void)event;
    return tl__try_fail(attempt, unsent, false, TL_LITERAL("nothing can be sent"), out);
}

static void begin_unsent(feed *f, tl_op op, tl_err why) {
    static const tl_protocol row = {.name = "unsent", .size = sizeof(tl_try), .send = ends_unsent};
    job = feed_job();
    job.protocol = &row;
    unsent = why;
    feed_init(f, &m, tl__settle_step);
    tl__settle_init(&m, &job, op, feed_ms(20000), 42);
    (void)feed_start(f);
}

TEST(what_was_not_sent_is_no_success) {
    static const tl_op op[] = {TL_RENEW, TL_RELEASE};
    for (size_t i = 0; i < 2; i++) {
        feed f;
        begin_unsent(&f, op[i], TL_EUNSUPPORTED);
        expect(&f, TL_END, TL_EUNSUPPORTED);
        assert_string_equal(f.out.message, "nothing can be sent");
    }
}

TEST(what_could_not_be_sent_now_is_tried_again_until_the_limit) {
    static const tl_op op[] = {TL_RENEW, TL_RELEASE};
    for (size_t i = 0; i < 2; i++) {
        feed f;
        begin_unsent(&f, op[i], TL_EUNAVAILABLE);
        feed_assert_waits_between(&f, 10, 20);
        while (f.status == TL_GO)
            (void)feed_await(&f);
        expect(&f, op[i] == TL_RELEASE ? TL_DETACH : TL_END, TL_EUNAVAILABLE);
        assert_int_equal(feed_since(f.now), ATTEMPT_MS);
    }
}

/* ---- timers and other events ----------------------------------------------------------------- */

TEST(a_timer_while_a_request_is_under_way_changes_nothing) {
    feed f;
    begin(&f, TL_RELEASE);
    feed_at(&f, 500);
    (void)feed_timer(&f);
    (void)feed_woken(&f);
    (void)feed_armed(&f, true);
    assert_int_equal(f.status, TL_GO);
    assert_int_equal(f.sends, 1);
    (void)feed_dropped(&f, 1);
    expect(&f, TL_END, TL_OK);
}

/* A driver gives timers until the machine asks for none that has passed. */
TEST(no_timer_is_asked_for_in_the_past) {
    const int64_t moments[] = {0, 1999, 2000, 2001, 60000};
    for (int detached = 0; detached <= 1; detached++)
        for (size_t i = 0; i < sizeof moments / sizeof *moments; i++) {
            feed f;
            begin(&f, TL_RELEASE);
            if (detached) {
                (void)feed_lost(&f);
                (void)feed_await(&f);
            }
            feed_later(&f, moments[i]);
            (void)feed_timer(&f);
            assert_true(f.status == TL_END || f.out.until.ns > f.now.ns);
        }
}

TEST(an_early_timer_in_a_pause_is_patient) {
    feed f;
    begin(&f, TL_RELEASE);
    (void)feed_refused(&f);
    tl_mono until = f.out.until;
    (void)feed_timer(&f);
    assert_int_equal(f.out.sends, 0);
    assert_int_equal(f.out.until.ns, until.ns);
}

TEST(a_stray_answer_after_the_limit_does_not_hide_that_time_is_up) {
    feed f;
    begin(&f, TL_RELEASE);
    (void)feed_refused(&f);
    feed_at(&f, ATTEMPT_MS + 5); /* the timer is late */
    (void)feed_reply_to(&f, 77, "[1 nil '1' '2']");
    (void)feed_await(&f);
    expect(&f, TL_DETACH, TL_EUNAVAILABLE);
}

TEST(a_seed_of_zero_is_as_random_as_any) {
    feed f;
    bool above = false;
    job = feed_job();
    feed_init(&f, &m, tl__settle_step);
    tl__settle_init(&m, &job, TL_RELEASE, feed_ms(20000), 0);
    (void)feed_start(&f);
    for (int i = 0; i < 4; i++) {
        (void)feed_refused(&f);
        above = above || tl__ms_until(f.now, f.out.until) != INT64_C(10) << i;
        (void)feed_await(&f);
    }
    assert_true(above);
}

TEST(stray_answers_are_ignored) {
    feed f;
    begin(&f, TL_RELEASE);
    (void)feed_reply_to(&f, 77, "[1 nil '1' '2']");
    assert_int_equal(f.status, TL_GO);
    (void)feed_refused(&f);
    tl_mono until = f.out.until;
    (void)feed_reply_to(&f, f.last.ticket, "[1 nil '1' '2']"); /* answered already */
    assert_int_equal(f.status, TL_GO);
    assert_int_equal(f.out.until.ns, until.ns);
}

TEST(cancelled_with_a_request_under_way_is_uncertain) {
    feed f;
    begin(&f, TL_RENEW);
    (void)feed_cancel(&f);
    assert_int_equal(f.status, TL_END);
    assert_int_equal(m.result.code, TL_EUNCERTAIN);
    begin(&f, TL_RELEASE);
    (void)feed_cancel(&f);
    assert_int_equal(f.status, TL_DETACH);
    assert_int_equal(m.result.code, TL_EUNCERTAIN);
}

TEST(cancelled_before_anything_left_is_unavailable) {
    feed f;
    begin(&f, TL_RENEW);
    (void)feed_refused(&f);
    (void)feed_cancel(&f);
    assert_int_equal(f.status, TL_END);
    assert_int_equal(m.result.code, TL_EUNAVAILABLE);
}
