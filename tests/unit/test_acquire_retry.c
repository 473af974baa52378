/*
 * Acquiring: the pauses between attempts, by each strategy.
 */
#include "acquire_feed.h"

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
