/*
 * Acquiring: requests that fail, servers that refuse, replicas that lag, restarts.
 */
#include "acquire_feed.h"

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
    assert_string_equal(f.out.message, "LOADING Redis is loading the dataset in memory");
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
        {"ERR unknown command 'EVALSHA', with args beginning with: '8f'", "no EVALSHA",
         TL_EUNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof final / sizeof *final; i++) {
        feed f;
        begin(&f, TL_FOREVER);
        (void)feed_reply(&f, "-%s", final[i].text);
        expect(&f, TL_END, final[i].code); /* nothing was executed: nothing to clean up */
        assert_non_null(strstr(f.out.message, final[i].words));
    }
}

/* Even if its answer comes when the time is up: what was wrong before was to pass. */
TEST(who_is_refused_at_the_limit_is_told_what_by) {
    feed f;
    begin(&f, 500);
    (void)feed_reply(&f, "-TRYAGAIN Multiple keys request during rehashing of slot");
    again(&f);
    feed_at(&f, 500);
    (void)feed_reply(&f, "-MOVED 7629 10.0.0.6:6379");
    expect(&f, TL_END, TL_ESERVER);
    assert_non_null(strstr(f.out.message, "MOVED 7629 10.0.0.6:6379: another node"));
}

TEST(an_error_within_the_script_is_cleaned_up_after) {
    feed f;
    begin(&f, 60000);
    (void)feed_reply(&f, "-ERR Error running script (call to f_1): @user_script:9: wrong");
    expect(&f, TL_DETACH, TL_ESERVER);
    (void)feed_await(&f);
    feed_assert_asked(&f, "release");
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
        assert_string_equal(f.out.message, "WRONGPASS");
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
    assert_string_equal(f.out.message, "too few replicas confirmed the lock in time");
    (void)feed_await(&f);
    feed_assert_asked(&f, "release");
}

#define QUIET_MS 30000

/* Whoever waits so long as the server says has it then; meanwhile nothing is asked. */
static void wait_out(int64_t wait_ms, int64_t left_ms) {
    feed f;
    prepare(&f);
    job.acquire.quiet_ms = QUIET_MS;
    go(&f, wait_ms);
    (void)feed_reached(&f);
    (void)feed_withheld(&f, left_ms);
    feed_assert_waits_between(&f, left_ms, left_ms + 5);
    again(&f);
    (void)feed_withheld(&f, 1); /* its clock is slower than ours */
    again(&f);
    (void)feed_taken(&f, TTL_MS);
    expect(&f, TL_END, TL_OK);
}

TEST(a_server_that_gives_nothing_yet_is_waited_out) {
    wait_out(5000, 1000);
    wait_out(TL_FOREVER, 20000); /* longer than connect_ms */
    wait_out(0, 1000);           /* within attempt_ms */
}

/* A message of the line is none to believe in. */
TEST(nothing_that_is_told_meanwhile_cuts_that_short) {
    feed f;
    prepare(&f);
    job.acquire.quiet_ms = QUIET_MS;
    go(&f, 5000);
    (void)feed_reached(&f);
    (void)feed_withheld(&f, 1000);
    (void)feed_woken(&f);
    feed_assert_waits_between(&f, 1000, 1005);
}

static void in_vain(int64_t wait_ms, bool at_once) {
    feed f;
    prepare(&f);
    job.acquire.quiet_ms = QUIET_MS;
    go(&f, wait_ms);
    (void)feed_reached(&f);
    (void)feed_withheld(&f, 10000);
    if (!at_once) {
        feed_assert_waits_until(&f, wait_ms);
        (void)feed_await(&f);
    }
    expect(&f, TL_DETACH, TL_EUNAVAILABLE);
    assert_non_null(strstr(f.out.message, "quiet_ms"));
    (void)feed_await(&f); /* what it found may be its own */
    feed_assert_asked(&f, "release");
}

TEST(who_has_not_the_time_for_that_is_told_that_the_server_is_unavailable) {
    in_vain(200, false);
    in_vain(0, true);
}
