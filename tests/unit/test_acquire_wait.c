/*
 * Acquiring: waiting for what another holds; being woken, listening, polling.
 */
#include "acquire_feed.h"

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
    (void)feed_event(
        &f, (tl_event){.kind = TL_FAILED, .asked = {.ticket = 99}, .failed = {.maybe_sent = true}});
    assert_int_equal(f.out.until.ns, until.ns);
    (void)feed_taken(&f, TTL_MS); /* the last ticket, which has been answered */
    assert_int_equal(f.status, TL_GO);
    assert_int_equal(f.out.until.ns, until.ns);
}

TEST(answers_of_another_ticket_are_ignored) {
    feed f;
    prepare(&f);
    go(&f, 5000);
    (void)feed_event(&f, (tl_event){.kind = TL_REPLY, .asked = {.ticket = 99}});
    (void)feed_event(
        &f, (tl_event){.kind = TL_FAILED, .asked = {.ticket = 99}, .failed = {.why = TL_EDENIED}});
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
