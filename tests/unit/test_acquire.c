/*
 * Acquiring: attempt, wait, back off, give up, clean up; each with every answer, at every moment.
 */
#include "feed.h"

#include "protocol/acquire.h"

static tl_acquire m;
static tl_retry retry;
static tl_job job;

static void prepare(feed *f) {
    job = feed_job();
    retry = (tl_retry){0};
    feed_init(f, &m, tl__acquire_step);
}

static void go(feed *f, int64_t wait_ms) {
    tl__acquire_init(&m, &job, &retry, wait_ms, CONNECT_MS, 42);
    assert_int_equal(feed_start(f), TL_GO);
    feed_assert_asked(f, "");
}

/* Begun, the server reached, the first take under way. */
static void begin(feed *f, int64_t wait_ms) {
    prepare(f);
    go(f, wait_ms);
    assert_int_equal(feed_reached(f), TL_GO);
    feed_assert_asked(f, "take");
}

/* The pause is over: reach the server, and take again. */
static void again(feed *f) {
    assert_int_equal(feed_await(f), TL_GO);
    feed_assert_asked(f, "");
    assert_int_equal(f->out.sends, 1);
    assert_int_equal(feed_reached(f), TL_GO);
    feed_assert_asked(f, "take");
}

static void expect(const feed *f, tl_status status, tl_err code) {
    assert_int_equal(f->status, status);
    assert_int_equal(m.result.code, code);
    assert_int_equal(f->out.sends, 0);
    if (code != TL_OK)
        assert_string_not_equal(f->out.words, "");
}

/* ---- taken ----------------------------------------------------------------------------------- */

TEST(a_free_lock_is_had_with_one_request) {
    feed f;
    begin(&f, 5000);
    feed_at(&f, 3);
    (void)feed_taken(&f, TTL_MS);
    expect(&f, TL_END, TL_OK);
    assert_int_equal(m.result.deadline.ns, feed_ms(TTL_MS).ns - DRIFT_NS);
    assert_int_equal(m.result.fence, 77);
    assert_int_equal(f.sends, 1);
    assert_int_equal(f.arms, 0);
    assert_true(f.out.has_bracket);
}

TEST(the_server_is_reached_before_anything_is_said) {
    feed f;
    prepare(&f);
    go(&f, 5000);
    assert_int_equal(f.last.count, 0);
    feed_at(&f, 900);
    (void)feed_reached(&f);
    (void)feed_taken(&f, TTL_MS); /* the validity counts from the take, not from before */
    assert_int_equal(m.result.deadline.ns, feed_ms(900 + TTL_MS).ns - DRIFT_NS);
}

TEST(a_retry_that_finds_itself_the_holder_counts_what_is_left) {
    feed f;
    begin(&f, 10000);
    feed_at(&f, 500);
    (void)feed_failed(&f, true, TL_EUNAVAILABLE, "connection lost"); /* it had been executed */
    again(&f);
    feed_at(&f, 600);
    (void)feed_taken(&f, TTL_MS - 490);
    expect(&f, TL_END, TL_OK);
    /* from this request's sending, and what the key has left: never T from the retry */
    assert_int_equal(m.result.deadline.ns,
                     feed_ms(500 + TTL_MS - 490).ns - FEED_LOSS_OF(TTL_MS - 490));
    assert_int_equal(f.sends, 2);
}

TEST(a_retry_speaks_with_the_same_token) {
    feed f;
    begin(&f, 10000);
    (void)feed_lost(&f);
    again(&f);
    assert_string_equal(feed_arg(&f, 0), TOKEN);
}

TEST(confirmed_too_late_is_not_had) {
    feed f;
    prepare(&f);
    job.ttl_ms = 1000;
    go(&f, 1500);
    (void)feed_reached(&f);
    feed_at(&f, 1000); /* less the drift, its time was over before this answer came */
    (void)feed_taken(&f, 1000);
    feed_assert_waits_between(&f, 1010, 1020);
    again(&f); /* with the same token */
    (void)feed_lost(&f);
    (void)feed_await(&f);
    expect(&f, TL_DETACH, TL_EUNCERTAIN); /* and what it may have left behind is dropped */
    (void)feed_await(&f);
    feed_assert_asked(&f, "drop");
}

TEST(confirmed_too_late_is_given_back) {
    feed f;
    prepare(&f);
    job.ttl_ms = 1000;
    go(&f, 1010);
    (void)feed_reached(&f);
    feed_at(&f, 1005);
    (void)feed_taken(&f, 1000);
    (void)feed_await(&f);
    expect(&f, TL_DETACH, TL_EUNAVAILABLE);
    assert_string_equal(f.out.words, "confirmed too late");
    (void)feed_await(&f);
    feed_assert_asked(&f, "drop");
}

TEST(the_last_moment_of_validity_decides) {
    feed f;
    for (int late = 0; late <= 1; late++) {
        begin(&f, 60000);
        f.now = tl__mono_add_ns(feed_ms(0), FEED_LEAST_OF(1500) - 1 + late);
        (void)feed_taken(&f, 1500);
        assert_int_equal(f.status, late ? TL_GO : TL_END);
    }
}

TEST(confirmed_too_late_then_found_to_be_anothers_leaves_nothing) {
    feed f;
    prepare(&f);
    job.ttl_ms = 100;
    go(&f, 3000);
    (void)feed_reached(&f);
    feed_at(&f, 150);
    (void)feed_taken(&f, 100);
    again(&f);
    (void)feed_busy(&f, 5000, false);
    feed_at(&f, 3000);
    (void)feed_timer(&f);
    expect(&f, TL_END, TL_ETIMEDOUT);
}

/* ---- trying once ----------------------------------------------------------------------------- */

TEST(trying_once_finds_it_busy) {
    feed f;
    begin(&f, 0);
    (void)feed_busy(&f, 5000, true);
    expect(&f, TL_END, TL_EBUSY);
    assert_int_equal(f.sends, 1);
    assert_int_equal(f.arms, 0);
}

TEST(trying_once_has_one_attempt_limit_after_reaching_the_server) {
    feed f;
    prepare(&f);
    go(&f, 0);
    assert_int_equal(feed_since(f.last.by), CONNECT_MS);
    feed_at(&f, 4900);
    (void)feed_reached(&f);
    assert_int_equal(feed_since(f.last.by), 4900 + ATTEMPT_MS);
    (void)feed_lost(&f);
    (void)feed_await(&f);
    expect(&f, TL_DETACH, TL_EUNCERTAIN);
    assert_int_equal(feed_since(f.now), 4900 + ATTEMPT_MS);
}

TEST(trying_once_where_nobody_is_ends_at_the_second_look) {
    feed f;
    prepare(&f);
    go(&f, 0);
    (void)feed_absent(&f);
    assert_int_equal(f.status, TL_GO);
    (void)feed_await(&f);
    assert_int_equal(f.out.sends, 1);
    (void)feed_absent(&f);
    expect(&f, TL_END, TL_EUNAVAILABLE);
    assert_string_equal(f.out.words, "connection refused");
    assert_int_equal(f.out.sys_errno, ECONNREFUSED);
    assert_in_range(feed_since(f.now), 0, CONNECT_MS / 10);
}

static void look_where_nobody_is(feed *f) {
    unsigned tries = 0;
    while (f->status == TL_GO) {
        assert_true(++tries < 50);
        (void)feed_absent(f);
        while (f->status == TL_GO && f->out.sends == 0)
            (void)feed_await(f);
    }
}

TEST(who_waits_waits_for_a_server_that_nobody_has_started) {
    static const int64_t waits_ms[] = {700, TL_FOREVER};
    for (size_t i = 0; i < sizeof waits_ms / sizeof *waits_ms; i++) {
        feed f;
        prepare(&f);
        go(&f, waits_ms[i]);
        look_where_nobody_is(&f);
        expect(&f, TL_END, TL_EUNAVAILABLE);
        assert_int_equal(feed_since(f.now), i ? CONNECT_MS : 700);
    }
}

TEST(trying_once_goes_on_where_somebody_may_be) {
    feed f;
    prepare(&f);
    go(&f, 0);
    for (int i = 0; i < 3; i++) {
        (void)feed_absent(&f);
        (void)feed_await(&f);
        (void)feed_refused(&f); /* one that is about to start, say */
        assert_int_equal(f.status, TL_GO);
        (void)feed_await(&f);
    }
}

/* Its take may have been executed: it looks as long as it may. */
TEST(trying_once_in_doubt_goes_on_though_nobody_is_there) {
    feed f;
    begin(&f, 0);
    (void)feed_failed(&f, true, TL_EUNAVAILABLE, "connection lost");
    (void)feed_await(&f);
    while (f.status == TL_GO) {
        (void)feed_absent(&f);
        while (f.status == TL_GO && f.out.sends == 0)
            (void)feed_await(&f);
    }
    expect(&f, TL_DETACH, TL_EUNCERTAIN);
    assert_int_equal(feed_since(f.now), ATTEMPT_MS);
}

TEST(trying_once_asks_again_within_its_attempt_limit_only) {
    feed f;
    begin(&f, 0);
    feed_at(&f, 400);
    (void)feed_failed(&f, true, TL_EUNAVAILABLE, "connection lost");
    again(&f);
    assert_int_equal(feed_since(f.last.by), ATTEMPT_MS); /* not from here anew */
    (void)feed_lost(&f);
    (void)feed_await(&f);
    expect(&f, TL_DETACH, TL_EUNCERTAIN);
    assert_int_equal(feed_since(f.now), ATTEMPT_MS);
}

TEST(trying_once_on_a_server_that_is_not_there_ends_at_connect_ms) {
    feed f;
    prepare(&f);
    go(&f, 0);
    unsigned tries = 0;
    while (f.status == TL_GO) {
        assert_true(++tries < 50);
        (void)feed_refused(&f);
        while (f.status == TL_GO && f.out.sends == 0)
            (void)feed_await(&f);
    }
    expect(&f, TL_END, TL_EUNAVAILABLE);
    assert_string_equal(f.out.words, "connection refused");
    assert_int_equal(feed_since(f.now), CONNECT_MS);
    assert_in_range(tries, 5, 20); /* with growing pauses */
}

/* ---- limits ---------------------------------------------------------------------------------- */

TEST(no_request_outlives_the_wait) {
    feed f;
    prepare(&f);
    go(&f, 300);
    assert_int_equal(feed_since(f.last.by), 300);
    (void)feed_reached(&f);
    assert_int_equal(feed_since(f.last.by), 300);
    assert_int_equal(feed_arg_int(&f, 2), feed_server_us(300) - 60); /* nor may it take later */
}

TEST(a_wait_ends_exactly_at_its_limit) {
    feed f;
    begin(&f, 1000);
    (void)feed_busy(&f, -1, true);
    (void)feed_armed(&f, true);
    (void)feed_reached(&f);
    (void)feed_busy(&f, -1, true);
    feed_assert_waits_until(&f, 1000);
    f.now.ns = feed_ms(1000).ns - 1;
    (void)feed_timer(&f);
    feed_assert_waits_until(&f, 1000); /* too early by a nanosecond */
    f.now.ns++;
    (void)feed_timer(&f);
    expect(&f, TL_END, TL_ETIMEDOUT);
    assert_string_equal(f.out.words, "another holds it");
}

/* Two answers, and when the next take begins: at the limit none does. */
static void take_twice(int64_t first_ms, int64_t second_ms, int64_t next_ms) {
    feed f;
    prepare(&f);
    retry = (tl_retry){.kind = TL_RETRY_FIXED, .delay_ms = 400};
    go(&f, 1000);
    (void)feed_reached(&f);
    feed_at(&f, first_ms);
    (void)feed_busy(&f, -1, false);
    again(&f);
    feed_at(&f, second_ms);
    (void)feed_busy(&f, -1, false);
    feed_assert_waits_until(&f, next_ms);
}

/* What it takes, half as much again, and 1 ms. */
TEST(no_take_is_begun_that_the_limit_would_cut_short) {
    take_twice(100, 539, 939); /* 39 ms */
    take_twice(100, 540, 1000);
    take_twice(10, 500, 900); /* the quickest counts */
    take_twice(0, 599, 1000);
    take_twice(0, 598, 998);
}

TEST(an_answer_at_the_limit_still_counts) {
    feed f;
    begin(&f, 1000);
    feed_at(&f, 1000);
    (void)feed_taken(&f, TTL_MS);
    expect(&f, TL_END, TL_OK);
}

TEST(a_server_that_is_not_reached_within_the_wait_is_unavailable) {
    feed f;
    prepare(&f);
    go(&f, 700);
    feed_at(&f, 700);
    (void)feed_failed(&f, false, TL_EUNAVAILABLE, "no answer in time");
    expect(&f, TL_END, TL_EUNAVAILABLE);
    assert_string_equal(f.out.words, "no answer in time");
}

/* Nothing was written, so there is no doubt; but that another holds it to the end isn't known either. */
TEST(a_server_silent_since_it_said_busy_is_unavailable) {
    feed f;
    begin(&f, 1000);
    (void)feed_busy(&f, -1, false);
    (void)feed_await(&f);
    (void)feed_reached(&f);
    feed_at(&f, 1000);
    (void)feed_failed(&f, false, TL_EUNAVAILABLE, "no reply in time");
    (void)feed_timer(&f);
    expect(&f, TL_END, TL_EUNAVAILABLE);
    assert_string_equal(f.out.words, "no reply in time");
}

TEST(a_server_back_before_the_limit_says_busy_again) {
    feed f;
    begin(&f, 1000);
    (void)feed_busy(&f, -1, false);
    (void)feed_await(&f);
    (void)feed_refused(&f);
    (void)feed_await(&f);
    (void)feed_reached(&f);
    (void)feed_busy(&f, -1, false);
    feed_at(&f, 1000);
    (void)feed_timer(&f);
    expect(&f, TL_END, TL_ETIMEDOUT);
}

TEST(an_attempt_cut_short_by_the_limit_does_not_hide_what_is_wrong) {
    feed f;
    prepare(&f);
    go(&f, 700);
    (void)feed_refused(&f);
    (void)feed_await(&f);
    feed_at(&f, 700);
    (void)feed_failed(&f, false, TL_EUNAVAILABLE, "no answer in 12 ms");
    expect(&f, TL_END, TL_EUNAVAILABLE);
    assert_string_equal(f.out.words, "connection refused");
}

TEST(a_server_lost_after_it_said_busy_is_unavailable) {
    feed f;
    begin(&f, 1000);
    (void)feed_busy(&f, -1, false);
    (void)feed_await(&f);
    feed_at(&f, 1000);
    (void)feed_refused(&f);
    expect(&f, TL_END, TL_EUNAVAILABLE);
    assert_string_equal(f.out.words, "connection refused");
}

TEST(waiting_forever_for_a_server_that_is_not_there_ends_at_connect_ms) {
    feed f;
    prepare(&f);
    go(&f, TL_FOREVER);
    assert_int_equal(feed_since(f.last.by), CONNECT_MS);
    feed_at(&f, CONNECT_MS);
    (void)feed_refused(&f);
    expect(&f, TL_END, TL_EUNAVAILABLE);
}

TEST(waiting_forever_outlasts_an_outage_after_one_answer) {
    feed f;
    begin(&f, TL_FOREVER);
    (void)feed_busy(&f, -1, false);
    for (int i = 0; i < 200; i++) {
        (void)feed_await(&f);
        assert_int_equal(f.out.sends, 1);
        assert_int_equal(f.last.by.ns, INT64_MAX);
        (void)feed_refused(&f);
        assert_int_equal(f.status, TL_GO);
    }
    assert_true(feed_since(f.now) > 10 * CONNECT_MS);
    (void)feed_await(&f);
    (void)feed_reached(&f);
    assert_int_equal(tl__ns_until(f.now, f.last.by), ATTEMPT_MS * TL_NS_PER_MS);
    (void)feed_taken(&f, TTL_MS);
    expect(&f, TL_END, TL_OK);
}

TEST(the_longest_wait_of_all_does_not_overflow) {
    feed f;
    begin(&f, TL_FOREVER - 1);
    (void)feed_busy(&f, INT64_MAX / 2, true);
    (void)feed_armed(&f, true);
    (void)feed_reached(&f);
    (void)feed_busy(&f, INT64_MAX / 2, true);
    feed_assert_waits_until(&f, 5000);
}

/* ---- waiting --------------------------------------------------------------------------------- */

TEST(listening_begins_once_and_on_the_sidecar) {
    feed f;
    begin(&f, 60000);
    (void)feed_busy(&f, -1, false);
    assert_true(f.out.arm);
    assert_true(tl__bytes_eq(f.out.topic, TL_LITERAL(SIDECAR)));
    again(&f);
    (void)feed_busy(&f, -1, false);
    assert_false(f.out.arm);
    assert_int_equal(f.arms, 1);
}

TEST(the_state_is_read_again_once_listening_is_in_force) {
    for (int armed = 0; armed <= 1; armed++) {
        feed f;
        begin(&f, 60000);
        (void)feed_busy(&f, 20000, true);
        feed_at(&f, 2);
        (void)feed_armed(&f, armed); /* a release in between would have gone unheard */
        feed_assert_asked(&f, "");
        assert_int_equal(f.out.sends, 1);
    }
}

/* Busy, listened for in vain or not, and busy again at 2 ms: the pause that then begins. */
static void settle_down(feed *f, int64_t wait_ms, bool armed, int64_t left_ms, bool announced) {
    begin(f, wait_ms);
    (void)feed_busy(f, left_ms, announced);
    feed_at(f, 2);
    (void)feed_armed(f, armed);
    (void)feed_reached(f);
    (void)feed_busy(f, left_ms, announced);
}

TEST(an_announced_release_is_waited_for_with_a_look_every_5_s) {
    feed f;
    settle_down(&f, 60000, true, 20000, true);
    feed_assert_waits_until(&f, 2 + 5000);
    (void)feed_woken(&f);
    assert_int_equal(f.out.sends, 1); /* at once */
}

/* However late, as it is likely free then. */
TEST(a_wake_up_is_followed_to_the_last_moment) {
    feed f;
    settle_down(&f, 1000, true, 20000, true);
    feed_at(&f, 999);
    (void)feed_woken(&f);
    assert_int_equal(f.out.sends, 1);
}

TEST(a_holder_that_announces_nothing_is_polled) {
    for (int i = 0; i < 100; i++) {
        feed f;
        settle_down(&f, 60000, true, -1, false);
        feed_assert_waits_between(&f, 2 + 50, 2 + 250);
    }
}

TEST(who_cannot_listen_polls) {
    feed f;
    settle_down(&f, 60000, false, 20000, true);
    feed_assert_waits_between(&f, 2 + 50, 2 + 250);
}

TEST(who_loses_his_ear_looks_at_once_and_then_polls) {
    feed f;
    settle_down(&f, 60000, true, 20000, true);
    feed_at(&f, 100);
    (void)feed_armed(&f, false);
    assert_int_equal(f.out.sends, 1);
    (void)feed_reached(&f);
    (void)feed_busy(&f, 20000, true);
    feed_assert_waits_between(&f, 100 + 50, 100 + 250);
}

TEST(a_seed_of_zero_is_as_random_as_any) {
    feed f;
    bool above = false;
    prepare(&f);
    tl__acquire_init(&m, &job, &retry, 60000, CONNECT_MS, 0);
    (void)feed_start(&f);
    (void)feed_reached(&f);
    for (int i = 0; i < 10; i++) {
        (void)feed_busy(&f, -1, false);
        above = above || tl__ms_until(f.now, f.out.until) != 50;
        again(&f);
    }
    assert_true(above);
}

TEST(polls_are_spread) {
    feed f;
    begin(&f, TL_FOREVER);
    bool early = false, late = false;
    for (int i = 0; i < 100; i++) {
        (void)feed_busy(&f, -1, false);
        int64_t pause = tl__ms_until(f.now, f.out.until);
        early = early || pause < 100;
        late = late || pause > 200;
        again(&f);
    }
    assert_true(early && late);
}

TEST(the_holders_expiry_is_met_but_never_early) {
    for (int announced = 0; announced <= 1; announced++) {
        feed f;
        settle_down(&f, 60000, announced, 30, announced);
        /* 30 ms, one because keys live to the end of theirs, one for rounding, up to 4 of spread */
        feed_assert_waits_between(&f, 2 + 31, 2 + 30 + 1 + 1 + 4);
    }
}

TEST(a_wake_up_during_a_take_is_not_lost) {
    feed f;
    settle_down(&f, 60000, true, 20000, true);
    (void)feed_woken(&f);
    (void)feed_reached(&f);
    (void)feed_woken(&f); /* the release came after this take was executed, before its answer */
    assert_int_equal(f.out.sends, 0);
    assert_int_equal(f.status, TL_GO);
    (void)feed_busy(&f, 20000, true);
    feed_assert_waits_until(&f, 2);
    again(&f);
    (void)feed_taken(&f, TTL_MS);
    expect(&f, TL_END, TL_OK);
}

TEST(a_wake_up_before_the_take_is_spent_by_it) {
    feed f;
    settle_down(&f, 60000, true, 20000, true);
    (void)feed_woken(&f);
    (void)feed_woken(&f); /* while the server is being reached: the take reads what came of it */
    (void)feed_reached(&f);
    (void)feed_busy(&f, 20000, true);
    feed_assert_waits_until(&f, 2 + 5000);
}

TEST(a_wake_up_proves_that_listening_is_in_force) {
    feed f;
    settle_down(&f, 60000, false, 20000, true);
    (void)feed_woken(&f);
    (void)feed_reached(&f);
    (void)feed_busy(&f, 20000, true);
    feed_assert_waits_until(&f, 2 + 5000);
}

TEST(a_wake_up_before_the_first_answer_does_no_harm) {
    feed f;
    prepare(&f);
    go(&f, 5000);
    (void)feed_woken(&f);
    assert_int_equal(f.out.sends, 0);
    (void)feed_timer(&f);
    assert_int_equal(f.out.sends, 0);
    (void)feed_reached(&f);
    (void)feed_timer(&f); /* a timer of before may still come */
    assert_int_equal(f.out.sends, 0);
    (void)feed_taken(&f, TTL_MS);
    expect(&f, TL_END, TL_OK);
}

TEST(a_wake_up_while_the_server_is_away_does_not_end_the_back_off) {
    feed f;
    settle_down(&f, 60000, true, 20000, true);
    (void)feed_armed(&f, false); /* the server went away, and listening with it */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(f.last.count, 0);
        (void)feed_refused(&f);
        tl_mono until = f.out.until;
        assert_true(until.ns >= f.now.ns + 10 * TL_NS_PER_MS);
        (void)feed_armed(&f, i % 2);
        assert_int_equal(f.out.sends, 0);
        assert_int_equal(f.out.until.ns, until.ns);
        (void)feed_await(&f);
    }
}

TEST(a_stray_answer_does_not_end_the_waiting) {
    feed f;
    settle_down(&f, 1000, true, 20000, true);
    tl_mono until = f.out.until;
    (void)feed_reply_to(&f, 1, "[1 't' 30000 '77' '1' '2' 1 1]");
    assert_int_equal(f.status, TL_GO);
    assert_int_equal(f.out.until.ns,
                     until.ns); /* each answer of the machine states its timer anew */
    (void)feed_event(&f, (tl_event){.kind = TL_FAILED, .ticket = 99, .maybe_sent = true});
    assert_int_equal(f.out.until.ns, until.ns);
    (void)feed_taken(&f, TTL_MS); /* the last ticket, which has been answered */
    assert_int_equal(f.status, TL_GO);
    assert_int_equal(f.out.until.ns, until.ns);
}

TEST(answers_of_another_ticket_are_ignored) {
    feed f;
    prepare(&f);
    go(&f, 5000);
    (void)feed_event(&f, (tl_event){.kind = TL_REPLY, .ticket = 99});
    (void)feed_event(&f, (tl_event){.kind = TL_FAILED, .ticket = 99, .why = TL_EDENIED});
    assert_int_equal(f.status, TL_GO);
    assert_int_equal(f.sends, 0);
    (void)feed_reached(&f);
    (void)feed_reply_to(&f, (uint16_t)(f.last.ticket - 1), "[1 't' 30000 '77' '1' '2' 1 1]");
    assert_int_equal(f.status, TL_GO);
    assert_int_equal(f.out.sends, 0);
    (void)feed_busy(&f, -1, false);
    again(&f);
    (void)feed_taken(&f, TTL_MS);
    expect(&f, TL_END, TL_OK);
}

/* ---- retry strategies ------------------------------------------------------------------------ */

TEST(a_fixed_pause_is_fixed) {
    feed f;
    prepare(&f);
    retry = (tl_retry){.kind = TL_RETRY_FIXED, .delay_ms = 70};
    go(&f, TL_FOREVER);
    (void)feed_reached(&f);
    for (int i = 0; i < 10; i++) {
        (void)feed_busy(&f, 5, true); /* whatever the holder's time is */
        feed_assert_waits_until(&f, (i + 1) * 70);
        again(&f);
    }
}

TEST(pauses_have_defaults) {
    feed f;
    prepare(&f);
    retry = (tl_retry){.kind = TL_RETRY_FIXED};
    go(&f, TL_FOREVER);
    (void)feed_reached(&f);
    (void)feed_busy(&f, -1, false);
    feed_assert_waits_until(&f, 100);
}

TEST(an_exponential_pause_is_random_up_to_a_doubling_bound) {
    int64_t least[8], most[8];
    const int64_t bound[8] = {10, 20, 40, 80, 160, 300, 300, 300};
    for (int i = 0; i < 8; i++)
        least[i] = INT64_MAX, most[i] = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        feed f;
        prepare(&f);
        retry = (tl_retry){.kind = TL_RETRY_EXPONENTIAL, .delay_ms = 10, .max_delay_ms = 300};
        tl__acquire_init(&m, &job, &retry, TL_FOREVER, CONNECT_MS, seed * 0x9e3779b97f4a7c15u);
        (void)feed_start(&f);
        (void)feed_reached(&f);
        for (int i = 0; i < 8; i++) {
            (void)feed_busy(&f, -1, false);
            int64_t pause = tl__ms_until(f.now, f.out.until);
            least[i] = pause < least[i] ? pause : least[i];
            most[i] = pause > most[i] ? pause : most[i];
            again(&f);
        }
    }
    for (int i = 0; i < 8; i++) {
        assert_in_range(least[i], 1, bound[i] / 10 + 1);
        assert_in_range(most[i], bound[i] * 9 / 10, bound[i]);
    }
}

TEST(an_exponential_pause_never_overflows) {
    feed f;
    prepare(&f);
    retry = (tl_retry){.kind = TL_RETRY_EXPONENTIAL, .delay_ms = 3, .max_delay_ms = INT64_MAX};
    go(&f, TL_FOREVER);
    (void)feed_reached(&f);
    for (int i = 0; i < 200; i++) {
        (void)feed_busy(&f, -1, false);
        assert_true(f.out.until.ns > f.now.ns);
        f.out.until = f.now;
        (void)feed_woken(&f);
        (void)feed_reached(&f);
    }
    prepare(&f);
    retry = (tl_retry){.kind = TL_RETRY_EXPONENTIAL, .delay_ms = 9000, .max_delay_ms = 7};
    go(&f, TL_FOREVER);
    (void)feed_reached(&f);
    (void)feed_busy(&f, -1, false);
    feed_assert_waits_between(&f, 1, 7);
}

TEST(attempts_can_be_counted) {
    feed f;
    prepare(&f);
    retry = (tl_retry){.kind = TL_RETRY_FIXED, .delay_ms = 10, .max_attempts = 3};
    go(&f, TL_FOREVER);
    (void)feed_reached(&f);
    (void)feed_busy(&f, -1, false);
    again(&f);
    (void)feed_busy(&f, -1, false);
    again(&f);
    (void)feed_busy(&f, -1, false);
    expect(&f, TL_END, TL_EBUSY);
    assert_int_equal(f.sends, 3);
    assert_int_equal(feed_since(f.now), 20);
}

TEST(one_attempt_never_listens) {
    feed f;
    prepare(&f);
    retry.max_attempts = 1;
    go(&f, TL_FOREVER);
    (void)feed_reached(&f);
    (void)feed_busy(&f, 5000, true);
    expect(&f, TL_END, TL_EBUSY);
    assert_int_equal(f.arms, 0);
}

/* What a strategy promises about its pauses holds although the machine listens as well. */
TEST(listening_costs_none_of_the_attempts_that_are_counted) {
    feed f;
    prepare(&f);
    retry = (tl_retry){.kind = TL_RETRY_FIXED, .delay_ms = 1000, .max_attempts = 2};
    go(&f, TL_FOREVER);
    (void)feed_reached(&f);
    (void)feed_busy(&f, 60000, true);
    feed_at(&f, 1);
    if (f.arms > 0)
        (void)feed_armed(&f, true);
    while (f.status == TL_GO) {
        if (f.out.sends == 0)
            (void)feed_await(&f);
        else if (f.last.count == 0)
            (void)feed_reached(&f);
        else
            (void)feed_busy(&f, 60000, true);
    }
    expect(&f, TL_END, TL_EBUSY);
    assert_int_equal(feed_since(f.now), 1000);
}

TEST(an_attempt_during_which_listening_began_counts) {
    feed f;
    prepare(&f);
    retry = (tl_retry){.kind = TL_RETRY_FIXED, .delay_ms = 10, .max_attempts = 2};
    go(&f, TL_FOREVER);
    (void)feed_reached(&f);
    (void)feed_busy(&f, 60000, true);
    again(&f);
    (void)feed_armed(&f, true);
    (void)feed_busy(&f, 60000, true);
    expect(&f, TL_END, TL_EBUSY);
}

/* Then the look that is owed comes at once, and the pause of the strategy goes on all the same. */
TEST(listening_that_begins_during_an_attempt_shortens_no_pause) {
    feed f;
    prepare(&f);
    retry = (tl_retry){.kind = TL_RETRY_FIXED, .delay_ms = 70};
    go(&f, TL_FOREVER);
    (void)feed_reached(&f);
    (void)feed_busy(&f, 60000, true);
    again(&f);
    (void)feed_armed(&f, true);
    feed_at(&f, 75);
    (void)feed_busy(&f, 60000, true);
    feed_assert_waits_until(&f, 75);
    (void)feed_await(&f);
    (void)feed_reached(&f);
    feed_at(&f, 80);
    (void)feed_busy(&f, 60000, true);
    feed_assert_waits_until(&f, 145);
}

TEST(an_exponential_pause_has_defaults_and_may_be_tiny) {
    feed f;
    prepare(&f);
    retry = (tl_retry){.kind = TL_RETRY_EXPONENTIAL};
    go(&f, TL_FOREVER);
    (void)feed_reached(&f);
    int64_t most = 0;
    for (int i = 0; i < 200; i++) {
        (void)feed_busy(&f, -1, false);
        int64_t pause = tl__ms_until(f.now, f.out.until);
        assert_in_range(pause, 1, i == 0 ? 100 : 5000);
        most = pause > most ? pause : most;
        again(&f);
    }
    assert_true(most > 4000);
    prepare(&f);
    retry = (tl_retry){.kind = TL_RETRY_EXPONENTIAL, .delay_ms = 1, .max_delay_ms = 1};
    go(&f, TL_FOREVER);
    (void)feed_reached(&f);
    (void)feed_busy(&f, -1, false);
    feed_assert_waits_until(&f, 1);
}

static uint32_t told_attempts;
static int64_t told_waited, tells;

static int64_t custom(uint32_t attempts, int64_t waited_ms, void *ctx) {
    told_attempts = attempts;
    told_waited = waited_ms;
    assert_ptr_equal(ctx, &tells);
    return tells;
}

static void begin_custom(feed *f) {
    prepare(f);
    retry = (tl_retry){.kind = TL_RETRY_CUSTOM, .next = custom, .ctx = &tells};
    go(f, TL_FOREVER);
    feed_at(f, 40);
    (void)feed_reached(f);
}

TEST(a_strategy_of_the_callers_own_decides_the_pause) {
    feed f;
    begin_custom(&f);
    tells = 33;
    (void)feed_busy(&f, 5, true);
    feed_assert_waits_until(&f, 40 + 33);
    assert_int_equal(told_attempts, 1);
    assert_int_equal(told_waited, 40);
    again(&f);
    tells = 0;
    (void)feed_busy(&f, 5, true);
    assert_int_equal(told_attempts, 2);
    assert_int_equal(told_waited, 40 + 33);
    feed_assert_waits_until(&f, 40 + 33);
    again(&f);
    tells = INT64_MAX;
    (void)feed_busy(&f, 5, true);
    assert_int_equal(f.out.until.ns, INT64_MAX);
    assert_int_equal(f.status, TL_GO);
}

TEST(listening_does_not_ask_the_callers_strategy_again) {
    feed f;
    begin_custom(&f);
    tells = 500;
    (void)feed_busy(&f, 60000, true);
    told_attempts = 0;
    feed_at(&f, 50);
    (void)feed_armed(&f, true);
    if (f.out.sends == 1) {
        (void)feed_reached(&f);
        (void)feed_busy(&f, 60000, true);
    }
    assert_int_equal(told_attempts, 0);
    feed_assert_waits_until(&f, 40 + 500);
    again(&f);
    (void)feed_busy(&f, 60000, true);
    assert_int_equal(told_attempts, 2);
}

TEST(a_strategy_of_the_callers_own_can_stop) {
    feed f;
    begin_custom(&f);
    tells = -1;
    (void)feed_busy(&f, 5, true);
    expect(&f, TL_END, TL_EBUSY);
    begin_custom(&f);
    tells = INT64_MIN;
    (void)feed_busy(&f, 5, true);
    expect(&f, TL_END, TL_EBUSY);
}

TEST(stopping_while_uncertain_says_so) {
    feed f;
    begin_custom(&f);
    (void)feed_failed(&f, true, TL_EUNAVAILABLE, "connection lost");
    again(&f);
    tells = -1;
    (void)feed_busy(&f, 5, true); /* the first may yet arrive */
    expect(&f, TL_DETACH, TL_EUNCERTAIN);
}

/* ---- failures -------------------------------------------------------------------------------- */

TEST(a_lost_request_is_asked_again_at_once_and_then_with_pauses) {
    feed f;
    begin(&f, 60000);
    feed_at(&f, 100);
    (void)feed_failed(&f, true, TL_EUNAVAILABLE, "connection lost");
    feed_assert_waits_until(&f, 100);
    again(&f);
    (void)feed_failed(&f, true, TL_EUNAVAILABLE, "connection lost");
    feed_assert_waits_between(&f, 100 + 20, 100 + 40);
}

TEST(a_request_that_never_left_is_asked_again_with_a_pause) {
    feed f;
    begin(&f, 60000);
    (void)feed_refused(&f);
    feed_assert_waits_between(&f, 10, 20);
    again(&f);
    (void)feed_taken(&f, TTL_MS);
    expect(&f, TL_END, TL_OK);
}

TEST(pauses_begin_small_again_after_an_answer) {
    feed f;
    begin(&f, TL_FOREVER);
    (void)feed_busy(&f, -1, false);
    for (int i = 0; i < 6; i++) {
        (void)feed_await(&f);
        (void)feed_refused(&f);
    }
    again(&f);
    (void)feed_busy(&f, -1, false);
    (void)feed_await(&f);
    (void)feed_refused(&f);
    assert_in_range(tl__ms_until(f.now, f.out.until), 10, 20);
}

TEST(errors_that_pass_are_waited_out) {
    const char *const passing[] = {"LOADING Redis is loading the dataset in memory",
                                   "OOM command not allowed when used memory > 'maxmemory'.",
                                   "READONLY You can't write against a read only replica.",
                                   "MASTERDOWN Link with MASTER is down"};
    for (size_t i = 0; i < sizeof passing / sizeof *passing; i++) {
        feed f;
        begin(&f, 60000);
        (void)feed_reply(&f, "-%s", passing[i]);
        feed_assert_waits_between(&f, 10, 20);
        again(&f);
        (void)feed_taken(&f, TTL_MS);
        expect(&f, TL_END, TL_OK);
    }
}

TEST(an_error_that_lasts_ends_unavailable_in_its_own_words) {
    feed f;
    begin(&f, 500);
    while (f.status == TL_GO) {
        (void)feed_reply(&f, "-LOADING Redis is loading the dataset in memory");
        (void)feed_await(&f);
        if (f.status == TL_GO && f.out.sends == 1)
            (void)feed_reached(&f);
    }
    expect(&f, TL_END, TL_EUNAVAILABLE);
    assert_string_equal(f.out.words, "LOADING Redis is loading the dataset in memory");
    assert_int_equal(feed_since(f.now), 500);
}

TEST(errors_that_will_not_pass_end_it_at_once) {
    static const struct {
        const char *text, *words;
        tl_err code;
    } final[] = {
        {"NOAUTH Authentication required.", "NOAUTH Authentication required.", TL_EDENIED},
        {"NOPERM this user has no permissions to run the 'evalsha' command",
         "NOPERM: the user may not run 'evalsha': the permission +evalsha is missing", TL_EDENIED},
        {"ERR no such thing", "ERR no such thing", TL_ESERVER},
        {"ERR unknown command 'EVALSHA', with args beginning with: '8f'", "no EVAL",
         TL_EUNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof final / sizeof *final; i++) {
        feed f;
        begin(&f, TL_FOREVER);
        (void)feed_reply(&f, "-%s", final[i].text);
        expect(&f, TL_END, final[i].code); /* nothing was executed: nothing to clean up */
        assert_non_null(strstr(f.out.words, final[i].words));
    }
}

TEST(an_error_within_the_script_is_cleaned_up_after) {
    feed f;
    begin(&f, 60000);
    (void)feed_reply(&f, "-ERR Error running script (call to f_1): @user_script:9: wrong");
    expect(&f, TL_DETACH, TL_ESERVER);
    (void)feed_await(&f);
    feed_assert_asked(&f, "drop");
}

TEST(a_malformed_answer_ends_it_and_is_cleaned_up_after) {
    const char *const bad[] = {
        "nil", "[]", "'OK'", "[1]", "[7 't' 1 '1' '1' '1' 1 1]", "[1 't' 30000 '0' '1' '1' 1 1]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        feed f;
        begin(&f, TL_FOREVER);
        (void)feed_reply(&f, "%s", bad[i]);
        expect(&f, TL_DETACH, TL_ESERVER);
    }
}

TEST(a_refusal_on_reaching_the_server_is_final) {
    const tl_err final[] = {TL_EDENIED, TL_ESERVER, TL_EINVALID, TL_ENOMEM, TL_EUNSUPPORTED};
    for (size_t i = 0; i < sizeof final / sizeof *final; i++) {
        feed f;
        prepare(&f);
        go(&f, TL_FOREVER);
        (void)feed_failed(&f, false, final[i], "WRONGPASS");
        expect(&f, TL_END, final[i]);
        assert_string_equal(f.out.words, "WRONGPASS");
    }
}

TEST(a_request_that_arrived_too_late_is_asked_again) {
    feed f;
    begin(&f, 5000);
    feed_at(&f, 1500);
    (void)feed_too_late(&f);
    feed_assert_waits_between(&f, 1510, 1520);
    again(&f);
    (void)feed_taken(&f, TTL_MS);
    expect(&f, TL_END, TL_OK);
}

TEST(too_late_to_the_end_leaves_nothing_behind) {
    feed f;
    begin(&f, 1000);
    feed_at(&f, 995);
    (void)feed_too_late(&f);
    (void)feed_await(&f);
    expect(&f, TL_END, TL_EUNAVAILABLE);
}

TEST(a_spent_token_ends_it) {
    feed f;
    begin(&f, 5000);
    (void)feed_reply(&f, "[-2 nil -1 '77' %s 1 0]", feed_time(&f));
    expect(&f, TL_END, TL_ESERVER);
}

/* ---- replicas and restarts ------------------------------------------------------------------- */

static void few_replicas(feed *f) {
    (void)feed_reply(f, "[1 '" TOKEN "' 30000 '77' %s 1 1] 0", feed_time(f));
}

TEST(too_few_replicas_are_asked_again_and_may_come_back) {
    feed f;
    prepare(&f);
    job.wait_replicas = 1;
    job.wait_replicas_ms = 100;
    go(&f, 5000);
    (void)feed_reached(&f);
    few_replicas(&f);
    assert_int_equal(f.status, TL_GO);
    again(&f);
    feed_at(&f, 200);
    (void)feed_reply(&f, "[1 '" TOKEN "' 29850 '77' %s 1 1] 1", feed_time(&f));
    expect(&f, TL_END, TL_OK);
}

TEST(too_few_replicas_to_the_end_give_the_lock_back_unavailable) {
    feed f;
    prepare(&f);
    job.wait_replicas = 1;
    go(&f, 300);
    (void)feed_reached(&f);
    while (f.status == TL_GO) {
        few_replicas(&f);
        (void)feed_await(&f);
        if (f.status == TL_GO)
            (void)feed_reached(&f);
    }
    expect(&f, TL_DETACH, TL_EUNAVAILABLE); /* every request was answered: nothing is uncertain */
    assert_string_equal(f.out.words, "too few replicas confirmed the lock in time");
    (void)feed_await(&f);
    feed_assert_asked(&f, "drop");
}

TEST(a_restarted_server_is_waited_out) {
    feed f;
    prepare(&f);
    job.restart_quiet_ms = 30000;
    f.server.up_since = feed_ms(-29000);
    go(&f, 5000);
    (void)feed_reached(&f);
    (void)feed_taken(&f, TTL_MS);
    while (feed_since(f.sent) < 1000) {
        assert_int_equal(f.status, TL_GO);
        again(&f);
        (void)feed_taken(&f, TTL_MS - feed_since(f.now));
    }
    expect(&f, TL_END, TL_OK);
}

TEST(waiting_forever_waits_out_a_restart_longer_than_connect_ms) {
    feed f;
    prepare(&f);
    job.restart_quiet_ms = 30000;
    f.server.up_since = feed_ms(-20000);
    go(&f, TL_FOREVER);
    (void)feed_reached(&f);
    (void)feed_taken(&f, TTL_MS);
    while (f.status == TL_GO && feed_since(f.sent) < 10000) {
        (void)feed_await(&f);
        if (f.status != TL_GO)
            break;
        (void)feed_reached(&f);
        (void)feed_taken(&f, TTL_MS - feed_since(f.now));
    }
    expect(&f, TL_END, TL_OK);
}

TEST(a_restart_not_over_in_time_is_unavailable) {
    feed f;
    prepare(&f);
    job.restart_quiet_ms = 30000;
    f.server.up_since = feed_ms(-20000);
    go(&f, 200);
    (void)feed_reached(&f);
    while (f.status == TL_GO) {
        (void)feed_taken(&f, TTL_MS - feed_since(f.now));
        (void)feed_await(&f);
        if (f.status == TL_GO)
            (void)feed_reached(&f);
    }
    expect(&f, TL_DETACH, TL_EUNAVAILABLE);
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
    assert_string_equal(f.out.words, "no reply in time");
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
    assert_string_equal(f.out.words, "cancelled");
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
    feed_assert_asked(&f, "drop");
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

/* Given up at 10 ms, with the drop under way. */
static void cleaning(feed *f) {
    begin(f, TL_FOREVER);
    feed_at(f, 10);
    (void)feed_cancel(f);
    assert_int_equal(f->status, TL_DETACH);
    (void)feed_timer(f);
    feed_assert_asked(f, "drop");
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
        feed_assert_asked(&f, "drop");
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
    feed_assert_asked(&f, "drop");
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
