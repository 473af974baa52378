/*
 * A lock in a cluster: what a redirection makes of an attempt, and a take that asks of one key at a time, where a slot is
 * being moved.
 */
#include "attempt_feed.h"
#include "protocol/attempt.h"

static void begin(feed *f, tl_op op) {
    memset(&m, 0x5a, sizeof m);
    m.job = feed_job();
    feed_init(f, &m, one_step);
    tl__attempt_init(&m.attempt, m.job.protocol, op, TICKET, feed_ms(60000));
    assert_int_equal(feed_start(f), TL_GO);
    assert_false(f->last.alone || f->last.asking);
}

static tl_status redirect(feed *f, tl_redirect_kind kind) {
    return feed_event(f, (tl_event){.kind = TL_FAILED,
                                    .asked = {.ticket = f->last.ticket, .sent = f->sent},
                                    .failed = {.why = TL_EELSEWHERE,
                                               .redirect = (uint8_t)kind,
                                               .message = TL_LITERAL("another node has the key")}});
}

/* One that may be followed by the letter, as it has one key. */
static void assert_alone(const feed *f, const char *script, const char *key, bool asking) {
    feed_assert_asked(f, script);
    assert_int_equal(f->last.command[0].nkeys, 1);
    assert_string_equal(f->last.command[0].argv[0].p, key);
    assert_true(f->last.alone);
    assert_int_equal(f->last.asking, asking);
    assert_int_equal(f->last.native, 0);
}

static tl_status held(feed *f) {
    return feed_reply(f, "[1 '" TOKEN "' %d %s 1]", TTL_MS, feed_time(f));
}

/* ---- whole ----------------------------------------------------------------------------------- */

TEST(what_has_moved_is_built_anew_for_the_other_node) {
    feed f;
    begin(&f, TL_ACQUIRE);
    feed_later(&f, 100);
    f.server.anchor.offset.lo += 5000; /* the other's clock is another */
    f.server.anchor.offset.hi += 5000;
    assert_int_equal(redirect(&f, TL_MOVED), TL_GO);
    feed_assert_asked(&f, "acquire");
    assert_false(f.last.alone || f.last.asking);
    assert_int_equal(feed_arg_int(&f, 3), feed_server_us(100) + 5000 - 20);
    assert_int_equal(feed_taken(&f, TTL_MS), TL_END);
    expect(&f, TL_OK, false);
    assert_int_equal(result()->deadline.ns, feed_ms(100).ns + FEED_LEAST_OF(TTL_MS));
}

TEST(nodes_that_send_in_a_circle_are_left_after_some_rounds) {
    feed f;
    unsigned sent = 0;
    for (begin(&f, TL_RENEW); f.status == TL_GO; sent++)
        (void)redirect(&f, TL_MOVED);
    assert_in_range(sent, 4, 20);
    expect(&f, TL_EELSEWHERE, false);
}

TEST(what_may_have_been_sent_is_not_followed) {
    feed f;
    begin(&f, TL_ACQUIRE);
    assert_int_equal(feed_failed(&f, true, TL_EELSEWHERE, "gone"), TL_END);
    expect(&f, TL_EUNCERTAIN, true);
}

/* ---- a slot on the move ---------------------------------------------------------------------- */

TEST(a_take_asks_for_the_key_then_a_number_then_for_the_sidecar_then_for_the_key) {
    feed f;
    begin(&f, TL_ACQUIRE);
    assert_int_equal(redirect(&f, TL_TRY_AGAIN), TL_GO);
    assert_alone(&f, "hold", KEY, false);
    feed_later(&f, 10);
    assert_int_equal(held(&f), TL_GO);
    assert_alone(&f, "number", COUNTER, false);
    feed_later(&f, 10);
    assert_int_equal(feed_reply(&f, "'500'"), TL_GO);
    assert_alone(&f, "bind", SIDECAR, false);
    assert_string_equal(f.last.command[0].argv[5].p, "500");
    feed_later(&f, 10);
    assert_int_equal(feed_reply(&f, "[1 -1]"), TL_GO);
    assert_alone(&f, "hold", KEY, false);
    feed_later(&f, 10);
    assert_int_equal(held(&f), TL_END);
    expect(&f, TL_OK, false);
    assert_int_equal(result()->acquire.fence, 500);
    assert_int_equal(result()->deadline.ns, feed_ms(0).ns + FEED_LEAST_OF(TTL_MS)); /* K's */
}

TEST(each_key_is_asked_for_where_it_is) {
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)redirect(&f, TL_ASK); /* of all keys: where the first of them is isn't known yet */
    assert_alone(&f, "hold", KEY, false);
    (void)redirect(&f, TL_ASK);
    assert_alone(&f, "hold", KEY, true);
    (void)held(&f);
    assert_alone(&f, "number", COUNTER, false);
    (void)redirect(&f, TL_MOVED);
    assert_alone(&f, "number", COUNTER, false);
    (void)redirect(&f, TL_ASK);
    assert_alone(&f, "number", COUNTER, true);
    (void)feed_reply(&f, "'7'");
    assert_alone(&f, "bind", SIDECAR, false);
}

TEST(a_sidecar_that_binds_another_gives_the_key_back) {
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)redirect(&f, TL_TRY_AGAIN);
    (void)held(&f);
    (void)feed_reply(&f, "'7'");
    assert_int_equal(feed_reply(&f, "[0 900]"), TL_GO);
    assert_alone(&f, "free", KEY, false);
    assert_int_equal(feed_dropped(&f, 1), TL_END);
    expect(&f, TL_EBUSY, false);
    assert_false(result()->acquire.giving);
    assert_int_equal(feed_since(result()->acquire.hint), 901);
}

/* The token may have K again by then, when the request that went unanswered comes at last. */
TEST(a_key_is_given_back_in_time_or_not_by_that_request) {
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)redirect(&f, TL_TRY_AGAIN);
    (void)held(&f);
    (void)feed_reply(&f, "'7'");
    (void)feed_reply(&f, "[0 900]");
    assert_alone(&f, "free", KEY, false);
    const int64_t not_after = feed_arg_int(&f, 1);
    assert_in_range(not_after, feed_server_us(ATTEMPT_MS) - 1000, feed_server_us(ATTEMPT_MS));
    assert_int_equal(feed_failed(&f, true, TL_EUNAVAILABLE, "connection lost"), TL_END);
    expect(&f, TL_EUNCERTAIN, true);
    assert_true(result()->acquire.giving);
    assert_int_equal(feed_since(result()->acquire.hint), ATTEMPT_MS);
    assert_int_equal(feed_since(result()->harmless), ATTEMPT_MS);
}

TEST(where_a_server_heeds_no_limit_nothing_is_given_back) {
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)redirect(&f, TL_TRY_AGAIN);
    (void)feed_reply(&f, "[1 '" TOKEN "' %d %s 0]", TTL_MS, feed_time(&f));
    (void)feed_reply(&f, "'7'");
    assert_int_equal(feed_reply(&f, "[0 900]"), TL_END);
    expect(&f, TL_EBUSY, true); /* K is its own, and is left */
    assert_int_equal(feed_since(result()->acquire.hint), 901);
}

TEST(who_fails_behind_the_key_says_that_it_is_left) {
    for (int i = 0; i < 5; i++) {
        feed f;
        begin(&f, TL_ACQUIRE);
        (void)redirect(&f, TL_TRY_AGAIN);
        (void)held(&f);
        if (i == 0) {
            (void)feed_refused(&f);
        } else if (i == 1) {
            (void)feed_reply(&f, "-ERR the fencing counter holds no number");
        } else {
            (void)feed_reply(&f, "'7'");
            (void)(i == 2   ? feed_reply(&f, "[-1 -1]") /* S tells of a later number */
                   : i == 3 ? feed_reply(&f, "[-2 -1]") /* it was given up */
                            : feed_reply(&f, "'x'"));
        }
        assert_int_equal(f.status, TL_END);
        assert_true(result()->code != TL_OK && result()->maybe);
    }
}

/* Led on by an ASK of before the slot was moved to and fro: another took K where the slot is, a moment ago, so that S
 * doesn't know of him. K is asked for there, not where it was taken. */
TEST(who_was_led_to_a_node_that_has_the_slot_no_more_is_not_the_holder) {
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)redirect(&f, TL_ASK);
    (void)redirect(&f, TL_ASK);
    assert_alone(&f, "hold", KEY, true);
    (void)held(&f);
    (void)feed_reply(&f, "'7'");
    assert_int_equal(feed_reply(&f, "[1 -1]"), TL_GO);
    assert_alone(&f, "hold", KEY, false);
    assert_string_equal(f.last.command[0].argv[4].p, "keep");
    assert_int_equal(feed_reply(&f, "[0 'x' 500 %s 1]", feed_time(&f)), TL_END);
    expect(&f, TL_EUNAVAILABLE, true);
}

/* One of before that is still on its way may have deleted K, which S didn't know of. */
TEST(who_has_asked_before_makes_sure_of_the_key_in_the_end) {
    for (int kept = 0; kept < 2; kept++) {
        feed f;
        begin(&f, TL_ACQUIRE);
        m.job.again = true;
        (void)redirect(&f, TL_TRY_AGAIN);
        (void)held(&f);
        (void)feed_reply(&f, "'7'");
        assert_int_equal(feed_reply(&f, "[1 -1]"), TL_GO);
        assert_alone(&f, "hold", KEY, false);
        assert_string_equal(f.last.command[0].argv[4].p, "keep");
        (void)(kept ? held(&f) : feed_reply(&f, "[-1 nil -1 %s 1]", feed_time(&f)));
        expect(&f, kept ? TL_OK : TL_EUNAVAILABLE, !kept);
    }
}

TEST(who_waits_looks_often_as_the_line_stands_still) {
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)redirect(&f, TL_TRY_AGAIN);
    (void)feed_reply(&f, "[0 'x' 500 %s 1]", feed_time(&f));
    expect(&f, TL_EBUSY, false);
    assert_true(result()->acquire.polls);
}

TEST(a_keep_and_a_drop_compare_the_key_alone) {
    feed f;
    begin(&f, TL_RENEW);
    m.job.hold.proof.unbound = true;
    (void)redirect(&f, TL_TRY_AGAIN);
    assert_alone(&f, "hold", KEY, false);
    assert_string_equal(f.last.command[0].argv[4].p, "keep");
    assert_int_equal(held(&f), TL_END);
    expect(&f, TL_OK, false);
    assert_true(result()->proof.unbound); /* S doesn't know of it any more than before */
    begin(&f, TL_RELEASE);
    (void)redirect(&f, TL_ASK);
    assert_alone(&f, "leave", LINE, false); /* others are called, who stand there */
    assert_string_equal(f.last.command[0].argv[1].p, "");
    assert_string_equal(f.last.command[0].argv[2].p, KEY);
    (void)feed_reply(&f, "3");
    assert_alone(&f, "unbind", SIDECAR,
                 false); /* else it would keep others out for the rest of a lifetime */
    (void)feed_reply(&f, "1");
    assert_alone(&f, "free", KEY, false);
    (void)redirect(&f, TL_ASK);
    assert_alone(&f, "free", KEY, true);
    assert_int_equal(feed_dropped(&f, 1), TL_END);
    expect(&f, TL_OK, false);
}

/* Led on by an ASK of before the slot was moved to and fro, and so absent there: it may be where the slot is. */
TEST(what_is_absent_where_an_ask_has_led_is_asked_for_once_more) {
    for (int there = 0; there < 2; there++) {
        feed f;
        begin(&f, TL_RENEW);
        (void)redirect(&f, TL_ASK);
        (void)redirect(&f, TL_ASK);
        assert_int_equal(feed_reply(&f, "[-1 nil -1 %s 1]", feed_time(&f)), TL_GO);
        assert_alone(&f, "hold", KEY, false);
        (void)redirect(&f, TL_ASK);
        assert_alone(&f, "hold", KEY, true);
        (void)(there ? held(&f) : feed_reply(&f, "[-1 nil -1 %s 1]", feed_time(&f)));
        assert_int_equal(f.status, TL_END);
        expect(&f, there ? TL_OK : TL_ELOST, false);
        begin(&f, TL_RELEASE);
        (void)redirect(&f, TL_ASK);
        (void)feed_reply(&f, "0");
        (void)feed_reply(&f, "0");
        (void)redirect(&f, TL_ASK);
        assert_int_equal(feed_reply(&f, "-1"), TL_GO);
        assert_alone(&f, "free", KEY, false);
        assert_int_equal(feed_dropped(&f, there ? 1 : -1), TL_END);
        expect(&f, there ? TL_OK : TL_EEXPIRED, false);
    }
}

/* Else its entry would be given the lock that nobody waits for by it any more. */
TEST(who_stands_in_line_leaves_it_before_the_key_is_given_up) {
    for (int refused = 0; refused < 2; refused++) {
        feed f;
        begin(&f, TL_RELEASE);
        m.job.queue.stands = true;
        m.job.fences = 64;
        m.job.queue.inbox = TL_LITERAL("inbox");
        (void)redirect(&f, TL_TRY_AGAIN);
        assert_alone(&f, "leave", LINE, false);
        assert_string_equal(f.last.command[0].argv[1].p, TOKEN " 30000 64 inbox " OWNER);
        (void)redirect(&f, TL_ASK);
        assert_alone(&f, "leave", LINE, true);
        (void)feed_reply(&f, refused ? "-NOPERM" : "1");
        assert_alone(&f, "unbind", SIDECAR, false);
        (void)feed_reply(&f, refused ? "-NOPERM" : "1");
        assert_alone(&f, "free", KEY, false);
        assert_int_equal(feed_dropped(&f, 1), TL_END);
        expect(&f, TL_OK, false);
    }
}

/* Whether that server has forgotten what it gave can't be asked there. */
TEST(with_quiet_ms_nothing_is_taken_key_by_key) {
    feed f;
    begin(&f, TL_ACQUIRE);
    m.job.acquire.quiet_ms = 1000;
    assert_int_equal(redirect(&f, TL_TRY_AGAIN), TL_END);
    expect(&f, TL_EUNAVAILABLE, false);
    begin(&f, TL_RENEW);
    m.job.acquire.quiet_ms = 1000;
    assert_int_equal(redirect(&f, TL_TRY_AGAIN), TL_GO);
}
