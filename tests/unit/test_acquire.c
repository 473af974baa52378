/*
 * Acquiring: what is taken, and what trying once finds.
 */
#include "acquire_feed.h"

/* ---- taken ----------------------------------------------------------------------------------- */

TEST(a_free_lock_is_had_with_one_request) {
    feed f;
    begin(&f, 5000);
    feed_at(&f, 3);
    (void)feed_taken(&f, TTL_MS);
    expect(&f, TL_END, TL_OK);
    assert_int_equal(m.result.deadline.ns, feed_ms(TTL_MS).ns - DRIFT_NS);
    assert_int_equal(m.result.acquire.fence, 77);
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
    feed_assert_asked(&f, "release");
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
    assert_string_equal(f.out.message, "the confirmation came too late");
    (void)feed_await(&f);
    feed_assert_asked(&f, "release");
}

/* The server may have been another's replica by then, and not know it. */
TEST(what_was_asked_long_after_the_master_was_named_counts_when_it_is_named_anew) {
    feed f;
    for (int named = 0; named <= 1; named++) {
        begin(&f, 5000);
        f.unnamed = true;
        feed_at(&f, 3);
        (void)feed_taken(&f, TTL_MS);
        assert_int_equal(f.status, TL_GO);
        assert_int_equal(f.last.count, 0);
        assert_true(f.last.confirm);
        feed_at(&f, 5);
        if (named) {
            (void)feed_reached(&f);
            expect(&f, TL_END, TL_OK);
            assert_int_equal(m.result.deadline.ns, feed_ms(TTL_MS).ns - DRIFT_NS);
        } else {
            (void)feed_failed(&f, false, TL_EUNAVAILABLE, "m: no majority of the Sentinels");
            assert_int_equal(f.status, TL_GO); /* it tries again, */
            feed_at(&f, 5000);
            (void)feed_timer(&f); /* and gives back what may be its own */
            expect(&f, TL_DETACH, TL_EUNAVAILABLE);
            (void)feed_await(&f);
            feed_assert_asked(&f, "release");
        }
    }
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
    assert_string_equal(f.out.message, "connection refused");
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
    assert_string_equal(f.out.message, "connection refused");
    assert_int_equal(feed_since(f.now), CONNECT_MS);
    assert_in_range(tries, 5, 20); /* with growing pauses */
}
