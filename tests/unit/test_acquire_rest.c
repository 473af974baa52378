/*
 * Acquiring a lock that rests: what the wait makes of it, and what an acquire notes for a later rest.
 */
#include "acquire_feed.h"

#define RESTS "resting 1700005000000000 00000000-0000-4000-8000-0000000000bb"
#define INBOX "tidelock:inbox:7f3a"
#define RUN 4711

static void prepare_to_end(feed *f, bool ends) {
    prepare(f);
    job.acquire.rest_ends_wait = ends;
}

static void begin_to_end(feed *f, bool ends, int64_t wait_ms) {
    prepare_to_end(f, ends);
    go(f, wait_ms);
    (void)feed_reached(f);
}

/* ---- the replies of each form ------------------------------------------------------------------- */

static tl_status script_replies(feed *f, const char *k) {
    return feed_reply(f, "[0 '%s' 20000 '77' %s 1 1]", k, feed_time(f));
}

/* K is another's, and S has this token for so long from now. */
static tl_status native_replies(feed *f, const char *token, int64_t left_ms) {
    char text[512];
    (void)snprintf(text, sizeof text, "+OK +QUEUED +QUEUED +QUEUED [nil 9 ['%s' '%lld' '7' nil]]",
                   token, (long long)(feed_server_us(feed_since(f->now)) + left_ms * 1000));
    return feed_native_reply(f, text);
}

static tl_status join_replies(feed *f, const char *k) {
    char text[512];
    (void)snprintf(text, sizeof text, "[0 '%s' %lld '90' %s '88' 0 1 1]", k,
                   (long long)(20000 - feed_since(f->now)), feed_time(f));
    tl_event e = {.kind = TL_REPLY,
                  .asked = {.ticket = f->last.ticket, .sent = f->sent, .run = RUN}};
    e.replied.reply = feed_parse(f, text, &e.replied.count);
    return feed_event(f, e);
}

/* Its first look from the queue is in flight. */
static void begin_join(feed *f, bool ends) {
    prepare_to_end(f, ends);
    job.queue.inbox = TL_LITERAL(INBOX);
    job.queue.join = true;
    tl__acquire_init(&m, &job, &retry, 60000, CONNECT_MS, 42);
    tl__acquire_armed(&m);
    assert_int_equal(feed_start(f), TL_GO);
    (void)feed_reached(f);
    feed_assert_asked(f, "join");
}

/* ---- a wait that ends with the rest ------------------------------------------------------------- */

TEST(a_wait_ends_when_the_script_finds_that_it_rests) {
    feed f;
    begin_to_end(&f, true, 60000);
    (void)script_replies(&f, RESTS);
    expect(&f, TL_END, TL_EBUSY);
    assert_string_equal(f.out.message, TL_RESTS);
}

TEST(a_wait_ends_when_the_native_form_finds_that_it_rests) {
    feed f;
    begin_to_end(&f, true, 60000);
    (void)native_replies(&f, RESTS, 20000);
    expect(&f, TL_END, TL_EBUSY);
    assert_string_equal(f.out.message, TL_RESTS);
}

/* What it has joined is left behind it. */
TEST(a_wait_ends_when_the_look_from_the_queue_finds_that_it_rests) {
    feed f;
    begin_join(&f, true);
    (void)join_replies(&f, RESTS);
    expect(&f, TL_DETACH, TL_EBUSY);
    (void)feed_await(&f);
    feed_assert_asked(&f, "release");
}

TEST(a_wait_ends_when_a_holder_s_lock_begins_to_rest) {
    feed f;
    begin_join(&f, true);
    (void)join_replies(&f, "another");
    assert_int_equal(f.status, TL_GO);
    feed_at(&f, 1000);
    (void)feed_woken(&f);
    (void)feed_reached(&f);
    feed_assert_asked(&f, "join");
    (void)join_replies(&f, RESTS);
    expect(&f, TL_DETACH, TL_EBUSY);
    assert_string_equal(f.out.message, TL_RESTS);
}

TEST(a_wait_goes_on_behind_what_is_no_rest) {
    static const char *const k[] = {"another",        "resting",         "resting 7",
                                    "resting 7 ",     "resting x token", "resting -7 token",
                                    "Resting 7 token"};
    for (size_t i = 0; i < sizeof k / sizeof *k; i++) {
        feed f;
        begin_to_end(&f, true, 60000);
        assert_int_equal(script_replies(&f, k[i]), TL_GO);
        begin_to_end(&f, true, 60000);
        assert_int_equal(native_replies(&f, k[i], 20000), TL_GO);
        begin_join(&f, true);
        assert_int_equal(join_replies(&f, k[i]), TL_GO);
    }
}

/* K is another's by now, and S tells of a rest that is over. */
TEST(a_rest_that_is_over_ends_no_wait) {
    feed f;
    begin_to_end(&f, true, 60000);
    assert_int_equal(native_replies(&f, RESTS, -1), TL_GO);
}

TEST(a_wait_goes_on_behind_a_rest_if_it_is_not_to_end_with_it) {
    feed f;
    begin_to_end(&f, false, 60000);
    assert_int_equal(script_replies(&f, RESTS), TL_GO);
    begin_to_end(&f, false, 60000);
    assert_int_equal(native_replies(&f, RESTS, 20000), TL_GO);
    begin_join(&f, false);
    assert_int_equal(join_replies(&f, RESTS), TL_GO);
}

/* Both ways the first in the queue looks when the rest is over. */
TEST(a_wait_in_the_queue_looks_when_the_rest_is_over) {
    feed f;
    begin_join(&f, false);
    assert_int_equal(join_replies(&f, RESTS), TL_GO);
    do {
        (void)feed_await(&f);
        (void)feed_reached(&f);
        feed_assert_asked(&f, "join");
    } while (feed_since(f.now) < 20000 && join_replies(&f, RESTS) == TL_GO);
    assert_in_range(feed_since(f.now), 20000, 20010);
}

/* Its own request may have been executed, or may yet be. */
TEST(a_wait_that_a_rest_ends_in_doubt_is_uncertain) {
    feed f;
    begin_to_end(&f, true, 60000);
    (void)feed_failed(&f, true, TL_EUNAVAILABLE, "connection lost");
    again(&f);
    (void)script_replies(&f, RESTS);
    expect(&f, TL_DETACH, TL_EUNCERTAIN);
}

TEST(who_tries_once_is_told_that_it_rests) {
    for (int ends = 0; ends <= 1; ends++) {
        feed f;
        begin_to_end(&f, ends, 0);
        (void)script_replies(&f, RESTS);
        expect(&f, TL_END, TL_EBUSY);
        assert_string_equal(f.out.message, TL_RESTS);
    }
}

/* ---- the time of the acquire, from which a rest counts ------------------------------------------- */

static void assert_noted(const feed *f, int64_t least_us, int64_t most_us) {
    assert_int_equal(m.result.code, TL_OK);
    assert_int_equal(m.result.acquire.seen.ns, f->now.ns);
    assert_in_range(m.result.acquire.seen_us, least_us, most_us);
}

/* The latest that the server's clock could show when the reply came; the reply itself tells it. */
TEST(an_acquire_notes_the_latest_time_of_the_server_when_the_reply_came) {
    feed f;
    begin(&f, 60000);
    f.server.anchor.offset.hi += 5000000; /* it was known badly */
    feed_at(&f, 10);
    (void)feed_just_taken(&f);
    assert_noted(&f, feed_server_us(10), feed_server_us(20) + 10);
}

TEST(a_native_acquire_notes_it_by_what_is_known) {
    feed f;
    char text[128];
    begin(&f, 60000);
    f.server.anchor.offset.hi += 700;
    feed_at(&f, 10);
    (void)snprintf(text, sizeof text, "+OK +QUEUED +QUEUED +QUEUED [+OK %lld [nil nil nil nil]]",
                   (long long)feed_server_us(10));
    (void)feed_native_reply(&f, text);
    assert_noted(&f, feed_server_us(10) + 700, feed_server_us(10) + 710);
}

TEST(an_acquire_at_a_server_whose_clock_is_unknown_notes_none) {
    feed f;
    begin(&f, 60000);
    f.server.anchor.known = false;
    (void)feed_reply(&f, "[1 '" TOKEN "' 30000 '77' 'x' 'y' 1 1]");
    assert_int_equal(m.result.code, TL_OK);
    assert_int_equal(m.result.acquire.seen_us, 0);
}

TEST(a_grant_notes_when_it_came) {
    feed f;
    begin_join(&f, false);
    (void)join_replies(&f, "another");
    feed_at(&f, 100);
    const tl_grant grant = {
        .fence = 91, .at_us = feed_server_us(99), .lease_ms = 5000, .run = RUN, .arrived = f.now};
    (void)feed_event(&f, (tl_event){.kind = TL_GRANTED, .grant = &grant});
    assert_int_equal(f.status, TL_END);
    assert_noted(&f, feed_server_us(100), feed_server_us(101));
}

/* By the clock that was read last: a disruption since then makes the grant's time unknown. */
TEST(a_grant_is_proved_as_of_the_servers_clock) {
    feed f;
    begin_join(&f, false);
    (void)join_replies(&f, "another");
    f.server.anchor.at = feed_ms(40);
    feed_at(&f, 100);
    const tl_grant grant = {
        .fence = 91, .at_us = feed_server_us(99), .lease_ms = 5000, .run = RUN, .arrived = f.now};
    (void)feed_event(&f, (tl_event){.kind = TL_GRANTED, .grant = &grant});
    assert_int_equal(m.result.proved.ns, feed_ms(40).ns);
}
