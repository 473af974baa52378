/*
 * Acquiring: the limits of a wait, and of each request within it.
 */
#include "acquire_feed.h"

#include "protocol/attempt.h"

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
    assert_string_equal(f.out.message, "another holds it");
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
    assert_string_equal(f.out.message, "no answer in time");
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
    assert_string_equal(f.out.message, "no reply in time");
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

/* Nor is one that came there after the limit, on a busy host or server: it was refused. */
TEST(who_comes_too_late_to_the_server_is_told_that_another_holds_it) {
    feed f;
    begin(&f, 1000);
    (void)feed_busy(&f, -1, false);
    (void)feed_await(&f);
    (void)feed_reached(&f);
    feed_at(&f, 1000);
    (void)feed_too_late(&f);
    expect(&f, TL_END, TL_ETIMEDOUT);
    assert_string_equal(f.out.message, "another holds it");
}

/* By the earliest time of the server's clock it may be late there before the limit has come here. */
TEST(too_late_by_the_servers_clock_before_the_limit_is_no_failure) {
    feed f;
    begin(&f, 1000);
    (void)feed_busy(&f, -1, false);
    (void)feed_await(&f);
    (void)feed_reached(&f);
    feed_at(&f, 998);
    assert_int_equal(feed_too_late(&f), TL_GO);
    assert_int_equal(feed_await(&f), TL_END);
    assert_true(f.now.ns == feed_ms(1000).ns);
    expect(&f, TL_END, TL_ETIMEDOUT);
    assert_string_equal(f.out.message, "another holds it");
}

static bool has_left;

static bool leaves(const tl_try *attempt) {
    (void)attempt;
    return has_left;
}

/* An attempt of several requests, of which the last was late: the first may have set K. */
TEST(too_late_with_a_key_that_is_left_is_undone) {
    static const int64_t late_at[] = {998, 1000};
    for (size_t i = 0; i < 2; i++) {
        tl_protocol row = tl__protocol_token;
        feed f;
        row.leaves = leaves;
        has_left = false;
        prepare(&f);
        job.protocol = &row;
        go(&f, 1000);
        (void)feed_reached(&f);
        (void)feed_busy(&f, -1, false);
        (void)feed_await(&f);
        (void)feed_reached(&f);
        has_left = true;
        feed_at(&f, late_at[i]);
        (void)feed_too_late(&f);
        while (f.status == TL_GO)
            (void)feed_await(&f);
        assert_int_equal(f.status, TL_DETACH);
        (void)feed_await(&f);
        feed_assert_asked(&f, "release");
    }
}

/* An attempt that had all of its time and is found late is another matter: it is repeated. */
TEST(too_late_long_before_the_limit_is_repeated) {
    feed f;
    begin(&f, 60000);
    (void)feed_busy(&f, -1, false);
    (void)feed_await(&f);
    (void)feed_reached(&f);
    assert_int_equal(feed_too_late(&f), TL_GO);
    (void)feed_await(&f);
    (void)feed_reached(&f);
    (void)feed_taken(&f, TTL_MS);
    expect(&f, TL_END, TL_OK);
}

/* Neither is one that had all of its time, if this host was stopped until the limit of the wait. */
TEST(too_late_after_the_limit_though_it_had_all_of_its_time) {
    feed f;
    begin(&f, 60000);
    (void)feed_busy(&f, -1, false);
    (void)feed_await(&f);
    (void)feed_reached(&f);
    feed_at(&f, 60000);
    (void)feed_too_late(&f);
    expect(&f, TL_END, TL_ETIMEDOUT);
    assert_string_equal(f.out.message, "another holds it");
}

/* E.g. where the server's clock has stepped: the reply tells the new time, and much of the wait is left. */
TEST(too_late_though_much_of_the_wait_is_left_is_repeated) {
    feed f;
    begin(&f, 1000);
    (void)feed_busy(&f, -1, false);
    (void)feed_await(&f);
    (void)feed_reached(&f);
    assert_int_equal(feed_too_late(&f), TL_GO);
    (void)feed_await(&f);
    (void)feed_reached(&f);
    (void)feed_taken(&f, TTL_MS);
    expect(&f, TL_END, TL_OK);
}

/* Told the time at the limit, as on a busy host, it has no time left to ask: what the server said last holds. */
TEST(who_comes_too_late_to_ask_is_told_that_another_holds_it) {
    feed f;
    begin(&f, 1000);
    (void)feed_busy(&f, -1, false);
    (void)feed_await(&f);
    f.server.drift_ppm = 100000;
    f.server.anchor.at = feed_ms(-60000);
    (void)feed_reached(&f);
    assert_string_equal(f.last.command[0].argv[0].p, "TIME");
    feed_at(&f, 1000);
    (void)feed_reply(&f, "['1700005001' '0']");
    expect(&f, TL_END, TL_ETIMEDOUT);
    assert_string_equal(f.out.message, "another holds it");
}

/* A host that was stopped hears at its limit, or later, that the server was reached: it asks for nothing any more. */
TEST(a_server_that_is_reached_after_the_wait_is_not_asked) {
    for (int64_t late_ms = 0; late_ms < 500; late_ms += 499) {
        feed f;
        prepare(&f);
        go(&f, 1000);
        feed_at(&f, 1000 + late_ms);
        (void)feed_reached(&f);
        expect(&f, TL_END, TL_EUNAVAILABLE);
        assert_string_equal(f.out.message, "the wait's time was up when the server was reached");
        begin(&f, 1000);
        (void)feed_busy(&f, -1, false);
        (void)feed_await(&f);
        feed_at(&f, 1000 + late_ms);
        (void)feed_reached(&f);
        expect(&f, TL_END, TL_ETIMEDOUT);
        assert_string_equal(f.out.message, "another holds it");
    }
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
    assert_string_equal(f.out.message, "connection refused");
}

TEST(a_server_lost_after_it_said_busy_is_unavailable) {
    feed f;
    begin(&f, 1000);
    (void)feed_busy(&f, -1, false);
    (void)feed_await(&f);
    feed_at(&f, 1000);
    (void)feed_refused(&f);
    expect(&f, TL_END, TL_EUNAVAILABLE);
    assert_string_equal(f.out.message, "connection refused");
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
