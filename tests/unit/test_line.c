/*
 * Waiting in line: what a message says and how far it is believed, when to look by oneself, and the machine that
 * acquires, told while it asks, while it waits, and when it has gone.
 */
#include "acquire_feed.h"
#include "protocol/line.h"

#define INBOX "tidelock:inbox:me"
#define RUN 7
#define LEASE_MS 5000

/* ---- messages ---------------------------------------------------------------------------------- */

typedef struct {
    tl_bytes key, token;
    tl_grant grant;
} message;

static tl_line_message read_message(const char *text, message *ret) {
    *ret = (message){.key = {0}};
    return tl__line_read(tl__bytes_of(text), &ret->key, &ret->token, &ret->grant);
}

TEST(a_grant_says_whose_it_is_and_for_how_long) {
    message m;
    assert_int_equal(read_message("grant tok 77 1700 5000 3 jobs a b", &m), TL_LINE_GRANT);
    assert_true(tl__bytes_eq(m.token, TL_LITERAL("tok")));
    assert_true(tl__bytes_eq(m.key, TL_LITERAL("jobs a b"))); /* a key may have spaces */
    assert_int_equal(m.grant.fence, 77);
    assert_int_equal(m.grant.at_us, 1700);
    assert_int_equal(m.grant.lease_ms, 5000);
    assert_int_equal(m.grant.others, 3);
    assert_int_equal(read_message("look jobs a b", &m), TL_LINE_LOOK);
    assert_true(tl__bytes_eq(m.key, TL_LITERAL("jobs a b")));
    assert_int_equal(read_message("near tok jobs a b", &m), TL_LINE_NEAR);
    assert_true(tl__bytes_eq(m.token, TL_LITERAL("tok")));
    assert_true(tl__bytes_eq(m.key, TL_LITERAL("jobs a b")));
}

TEST(whatever_else_comes_says_nothing) {
    static const char *const nonsense[] = {
        "",
        " ",
        "look",
        "look ",
        "Look k",
        "near",
        "near ",
        "near tok",
        "near tok ",
        "near  k",
        "grant",
        "grant ",
        "grant tok",
        "grant tok 1 2 3 4",
        "grant tok 1 2 3 4 ",
        "grant tok 0 2 3 4 k",
        "grant tok 1 0 3 4 k",
        "grant tok 1 2 0 4 k",
        "grant tok 1 2 3 -1 k",
        "grant tok -1 2 3 4 k",
        "grant tok x 2 3 4 k",
        "grant tok 1 2x 3 4 k",
        "grant tok 1 2 99999999999999999999 4 k",
        "granted tok 1 2 3 4 k",
    };
    message m;
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++)
        if (read_message(nonsense[i], &m) != TL_LINE_NONSENSE)
            fail_msg("'%s' says something", nonsense[i]);
}

/* ---- belief ------------------------------------------------------------------------------------ */

typedef struct {
    tl_grant grant;
    tl_job job;
    tl_server server;
    tl_mono now;
    uint64_t run;
} belief;

/* Given at 0 ms, come at 1 ms; the server's clock is known exactly, but for the drift. */
static belief good(void) {
    feed f;
    feed_init(&f, NULL, NULL);
    belief b = {.job = feed_job(), .server = f.server, .now = feed_ms(1), .run = RUN};
    b.grant = (tl_grant){.fence = 5,
                         .at_us = feed_server_us(0),
                         .lease_ms = LEASE_MS,
                         .run = RUN,
                         .arrived = feed_ms(1)};
    return b;
}

static bool believes(const belief *b, tl_mono *ret) {
    const tl_event e = {.kind = TL_GRANTED, .now = b->now, .server = &b->server};
    return tl__line_believe(&b->grant, b->run, &b->job, &e, ret);
}

TEST(a_grant_is_believed_no_longer_than_the_server_keeps_it) {
    belief b = good();
    tl_mono until;
    assert_true(believes(&b, &until));
    assert_true(until.ns <= feed_ms(LEASE_MS).ns - FEED_LOSS_OF(LEASE_MS - 1));
    assert_true(until.ns > feed_ms(LEASE_MS - 5).ns);
}

/* A clock that is thought to be behind: the lease would seem to end later than it has begun to run here. */
TEST(nor_longer_than_its_length_from_its_arrival) {
    belief b = good();
    tl_mono until;
    b.now = feed_ms(1000);
    b.grant.at_us = feed_server_us(1000);
    b.grant.arrived = feed_ms(500);
    assert_true(believes(&b, &until));
    assert_true(until.ns <= feed_ms(500 + LEASE_MS).ns - FEED_LOSS_OF(LEASE_MS));
}

TEST(a_grant_is_not_believed_without_each_reason_to) {
    tl_mono until;
    for (int i = 0; i < 12; i++) {
        belief b = good();
        switch (i) {
        case 0: b.job.acquire.bind = true; break;
        case 1: b.job.wait_replicas = 1; break;
        case 2: b.job.acquire.quiet_ms = 1; break;
        case 3: b.run = 0; break;
        case 4: b.grant.run = RUN + 1; break;
        case 5: b.grant.run = b.run = 0; break;
        case 6: b.server.anchor.known = false; break;
        case 7: b.now = feed_ms(LEASE_MS / 2 + 1); break; /* less than half is left */
        case 8: b.grant.at_us = feed_server_us(2); break; /* ahead of the server's clock */
        case 9: b.grant.at_us = feed_server_us(-LEASE_MS); break;
        case 10: /* by the latest that it may be over there */
            b.server.anchor.offset.hi += (LEASE_MS / 2 + 1) * 1000;
            break;
        case 11: b.job.wait_fsync = true; break;
        }
        if (believes(&b, &until))
            fail_msg("believed in case %d", i);
    }
}

TEST(a_grant_beyond_all_numbers_is_not_believed) {
    tl_mono until;
    belief b = good();
    b.grant.lease_ms = INT64_MAX;
    assert_false(believes(&b, &until));
    b = good();
    b.grant.at_us = INT64_MAX;
    assert_false(believes(&b, &until));
}

/* ---- pauses ------------------------------------------------------------------------------------ */

static void pause_near_is(tl_acquire_result r, bool near, int64_t least, int64_t most) {
    uint64_t random = 42;
    for (int i = 0; i < 50; i++)
        assert_in_range(tl__line_pause_ms(&r, near, feed_ms(0), &random), least, most);
}

static void pause_is(tl_acquire_result r, int64_t least, int64_t most) {
    pause_near_is(r, false, least, most);
}

TEST(the_first_three_look_at_the_end_of_the_holder_and_others_seldom) {
    const tl_mono end = feed_ms(300);
    pause_is((tl_acquire_result){.before = 0, .announced = true, .hint = TL_NEVER}, 5000, 5000);
    pause_is((tl_acquire_result){.before = 0, .announced = true, .hint = end}, 301, 306);
    pause_is((tl_acquire_result){.before = 0, .hint = TL_NEVER}, 50, 250);
    pause_is((tl_acquire_result){.before = 1, .hint = TL_NEVER}, 1000, 1000);
    pause_is((tl_acquire_result){.before = 1, .announced = true, .hint = TL_NEVER}, 5000, 5000);
    pause_is((tl_acquire_result){.before = 2, .hint = end}, 301, 306);
    pause_is((tl_acquire_result){.before = 3, .hint = end}, 18000, 18000);
    pause_is((tl_acquire_result){.before = 45, .hint = end}, 60000, 60000);
    pause_is((tl_acquire_result){.before = INT32_MAX, .hint = end}, 60000, 60000);
    pause_near_is((tl_acquire_result){.before = 45, .hint = end}, true, 5000, 5000);
    pause_near_is((tl_acquire_result){.before = 2, .hint = end}, true, 301, 306);
}

/* ---- the machine ------------------------------------------------------------------------------- */

static tl_status reply_from(feed *f, uint64_t run, const char *text) {
    tl_event e = {.kind = TL_REPLY,
                  .asked = {.ticket = f->last.ticket, .sent = f->sent, .run = run}};
    e.replied.reply = feed_parse(f, text, &e.replied.count);
    return feed_event(f, e);
}

static tl_status joined(feed *f, int status, int before) {
    char text[256];
    (void)snprintf(text, sizeof text, "[%d '%s' 20000 '90' %s '88' %d %d 1]", status,
                   status == 1 ? TOKEN : "another", feed_time(f), before, before + 1);
    return reply_from(f, RUN, text);
}

static tl_status granted(feed *f, int64_t at_ms) {
    const tl_grant grant = {.fence = 91,
                            .at_us = feed_server_us(at_ms),
                            .lease_ms = LEASE_MS,
                            .run = RUN,
                            .arrived = f->now};
    return feed_event(f, (tl_event){.kind = TL_GRANTED, .grant = &grant});
}

/* It may stand in line, and its inbox is heard of already or not. */
static void begin_lining(feed *f, bool armed) {
    prepare(f);
    job.queue.inbox = TL_LITERAL(INBOX);
    job.line = TL_LITERAL(SIDECAR ":line");
    tl__acquire_init(&m, &job, &retry, 60000, CONNECT_MS, 42);
    if (armed)
        tl__acquire_armed(&m);
    assert_int_equal(feed_start(f), TL_GO);
    (void)feed_reached(f);
    feed_assert_asked(f, "acquire");
    (void)feed_busy(f, 20000, true);
    assert_true(f->out.arm);
    assert_int_equal(f->out.armed, armed);
    assert_true(tl__bytes_eq(f->out.topic, TL_LITERAL(INBOX)));
    assert_true(tl__bytes_eq(f->out.token, TL_LITERAL(TOKEN)));
}

/* The look, or the joining, is in flight. */
static void look(feed *f) {
    feed_assert_asked(f, "");
    assert_int_equal(f->out.sends, 1);
    (void)feed_reached(f);
    feed_assert_asked(f, "join");
}

/* It stands in line, behind so many, and waits. */
static void stand(feed *f, int before) {
    begin_lining(f, true);
    feed_at(f, 1);
    (void)feed_timer(f);
    look(f);
    assert_int_equal(joined(f, 0, before), TL_GO);
    assert_int_equal(f->out.sends, 0);
}

TEST(nobody_joins_before_its_inbox_is_heard) {
    feed f;
    begin_lining(&f, false);
    assert_int_equal(feed_await(&f), TL_GO);
    (void)feed_reached(&f);
    feed_assert_asked(&f, "acquire");
    (void)feed_busy(&f, 20000, true);
    (void)feed_armed(&f, true);
    look(&f);
    assert_string_equal(feed_arg(&f, 6), ""); /* no place yet */
}

TEST(who_looks_again_says_which_place_it_was_told) {
    feed f;
    stand(&f, 0);
    (void)feed_await(&f);
    look(&f);
    assert_string_equal(feed_arg(&f, 6), "88");
}

static tl_status near(feed *f) {
    return feed_event(f, (tl_event){.kind = TL_NEAR});
}

static void looks_at(feed *f, int64_t ms) {
    assert_int_equal(f->out.until.ns, feed_ms(ms).ns);
    assert_int_equal(f->out.sends, 0);
}

/* Else it would sleep while nobody looks whether the holder has died. */
TEST(who_has_become_one_of_the_first_three_looks_soon) {
    feed f;
    stand(&f, 20);
    looks_at(&f, 1 + 35000);
    feed_at(&f, 100);
    assert_int_equal(near(&f), TL_GO);
    looks_at(&f, 5100);
    feed_at(&f, 200);
    assert_int_equal(near(&f), TL_GO); /* once more: that delays nothing */
    looks_at(&f, 5100);
}

TEST(also_when_it_was_told_so_while_its_look_was_in_flight) {
    feed f;
    stand(&f, 20);
    feed_at(&f, 100);
    (void)feed_woken(&f);
    look(&f);
    assert_int_equal(near(&f), TL_GO);
    assert_int_equal(joined(&f, 0, 3), TL_GO);
    looks_at(&f, 5100);
    (void)feed_await(&f);
    look(&f);
    assert_int_equal(joined(&f, 0, 3), TL_GO); /* it has been passed by one who came back */
    looks_at(&f, 5100 + 18000);
}

/* A rest notifies the first three alone: the others learn of it as these leave the queue. */
TEST(who_is_ended_by_a_rest_looks_at_once_when_it_has_become_one_of_the_first_three) {
    feed f;
    stand(&f, 20);
    m.job.acquire.rest_ends_wait = true;
    feed_at(&f, 100);
    assert_int_equal(near(&f), TL_GO);
    look(&f);
    assert_int_equal(near(&f), TL_GO); /* the server may have executed the look before */
    assert_int_equal(joined(&f, 0, 3), TL_GO);
    looks_at(&f, 100);
}

static tl_status try_again(feed *f) {
    return feed_event(f, (tl_event){.kind = TL_FAILED,
                                    .asked = {.ticket = f->last.ticket, .sent = f->sent},
                                    .failed = {.why = TL_EELSEWHERE,
                                               .redirect = TL_TRY_AGAIN,
                                               .message = TL_LITERAL("the slot is on the move")}});
}

/* While the slot was moved it had K, which S wouldn't let it have, and the request that gave K back went unanswered. Whatever
 * it had by the same token now, that could take away. */
TEST(who_may_have_given_the_key_back_has_it_by_no_way_before_that_is_over) {
    feed f;
    stand(&f, 0);
    (void)feed_await(&f);
    look(&f);
    const int64_t asked_ms = feed_since(f.now);
    (void)try_again(&f);
    feed_assert_asked(&f, "hold");
    char text[128];
    (void)snprintf(text, sizeof text, "[1 '" TOKEN "' 30000 %s 1]", feed_time(&f));
    (void)reply_from(&f, RUN, text);
    (void)reply_from(&f, RUN, "'700'");
    (void)reply_from(&f, RUN, "[0 900]");
    feed_assert_asked(&f, "free");
    assert_int_equal(feed_failed(&f, true, TL_EUNAVAILABLE, "connection lost"), TL_GO);
    assert_in_range(f.out.until.ns, feed_ms(asked_ms + ATTEMPT_MS).ns,
                    feed_ms(asked_ms + ATTEMPT_MS + 10).ns);
    feed_later(&f, 10);
    assert_int_equal(granted(&f, feed_since(f.now)), TL_GO);
    assert_int_equal(f.out.sends, 0);
    assert_int_equal(feed_woken(&f), TL_GO);
    assert_int_equal(f.out.sends, 0);
    (void)feed_await(&f);
    look(&f);
}

TEST(a_grant_to_one_that_waits_is_a_hold) {
    feed f;
    stand(&f, 2);
    feed_at(&f, 100);
    assert_int_equal(granted(&f, 99), TL_END);
    assert_int_equal(m.result.code, TL_OK);
    assert_int_equal(m.result.acquire.fence, 91);
    assert_true(m.result.proof.unbound);
    assert_false(m.result.proof.doubted);
    assert_true(m.result.deadline.ns < feed_ms(99 + LEASE_MS).ns);
}

TEST(a_grant_that_is_not_believed_is_looked_at) {
    feed f;
    stand(&f, 2);
    feed_at(&f, 4000);
    assert_int_equal(granted(&f, 0), TL_GO);
    look(&f);
    assert_int_equal(joined(&f, 1, 0), TL_END);
    assert_int_equal(m.result.code, TL_OK);
    assert_int_equal(m.result.acquire.fence, 90);
}

TEST(a_grant_before_it_has_stood_there_is_looked_at) {
    feed f;
    begin_lining(&f, false);
    feed_at(&f, 10);
    assert_int_equal(granted(&f, 9), TL_GO);
    assert_int_equal(m.result.code, TL_OK); /* nothing has come of it */
    assert_int_equal(f.out.sends, 1);
}

/* ---- a look in flight -------------------------------------------------------------------------- */

static void grant_in_flight(feed *f, int64_t sent_ms, int64_t at_ms) {
    stand(f, 0);
    feed_at(f, sent_ms);
    (void)feed_woken(f);
    look(f);
    feed_at(f, at_ms + 1);
    assert_int_equal(granted(f, at_ms), TL_GO); /* a doubt until that is answered */
    assert_int_equal(f->out.sends, 0);
}

TEST(a_look_that_was_answered_before_the_grant_leaves_it_good) {
    feed f;
    grant_in_flight(&f, 100, 200);
    char text[256]; /* executed at 150 ms, heard of at 210 */
    feed_at(&f, 150);
    (void)snprintf(text, sizeof text, "[0 'another' 20000 '0' %s '88' 0 1 1]", feed_time(&f));
    feed_at(&f, 210);
    assert_int_equal(reply_from(&f, RUN, text), TL_END);
    assert_int_equal(m.result.acquire.fence, 91);
    assert_false(m.result.proof.doubted);
}

TEST(a_look_that_was_answered_after_the_grant_knows_better) {
    feed f;
    grant_in_flight(&f, 100, 200);
    feed_at(&f, 210);
    assert_int_equal(joined(&f, 0, 0), TL_GO); /* another has it by now */
    feed_at(&f, 260);
    (void)feed_woken(&f);
    look(&f);
    assert_int_equal(joined(&f, 0, 0), TL_GO); /* and the grant is forgotten */
}

TEST(a_look_that_takes_it_after_the_grant_is_the_hold) {
    feed f;
    grant_in_flight(&f, 100, 200);
    feed_at(&f, 210);
    assert_int_equal(joined(&f, 1, 0), TL_END);
    assert_int_equal(m.result.acquire.fence, 90);
}

TEST(a_look_from_another_run_of_the_server_ends_the_belief) {
    feed f;
    grant_in_flight(&f, 100, 200);
    char text[256];
    feed_at(&f, 150);
    (void)snprintf(text, sizeof text, "[0 'another' 20000 '0' %s '88' 0 1 1]", feed_time(&f));
    feed_at(&f, 210);
    assert_int_equal(reply_from(&f, RUN + 1, text), TL_GO);
}

TEST(a_grant_that_is_not_believed_when_a_look_is_answered_is_looked_at_at_once) {
    feed f;
    grant_in_flight(&f, 100, 200);
    char text[256];
    feed_at(&f, 150);
    (void)snprintf(text, sizeof text, "[0 'another' 20000 '0' %s '88' 0 1 1]", feed_time(&f));
    feed_at(&f, 210);
    assert_int_equal(reply_from(&f, RUN + 1, text), TL_GO);
    assert_true(f.out.until.ns == feed_ms(210).ns);
    assert_int_equal(feed_timer(&f), TL_GO);
    look(&f);
    assert_int_equal(joined(&f, 1, 0), TL_END);
    assert_int_equal(m.result.code, TL_OK);
}

TEST(a_look_that_is_lost_is_asked_again_and_leaves_a_doubt) {
    feed f;
    grant_in_flight(&f, 100, 200);
    assert_int_equal(feed_lost(&f), TL_GO);
    assert_int_equal(feed_timer(&f), TL_GO);
    look(&f);
    assert_int_equal(joined(&f, 1, 0), TL_END);
    assert_true(m.result.proof.doubted);
    assert_int_equal(m.result.proof.stood_ms, 30000); /* where what is lost may come to stand yet */
}

/* ---- coming and going -------------------------------------------------------------------------- */

TEST(who_is_heard_no_more_looks_at_once_and_often_but_stays) {
    feed f;
    stand(&f, 5);
    feed_at(&f, 100);
    (void)feed_armed(&f, false);
    look(&f);
    (void)joined(&f, 0, 5);
    feed_assert_waits_between(&f, 100 + 50, 100 + 250);
    feed_at(&f, 120);
    (void)feed_armed(&f, true); /* what came in between was missed */
    look(&f);
    (void)joined(&f, 0, 5);
    feed_assert_waits_until(&f, 120 + 15000 + 5000);
}

/* Counted on from the beginning, it had gone, and came back before anybody could say so. */
TEST(an_inbox_that_is_heard_anew_is_looked_after_though_it_was_counted_on) {
    feed f;
    stand(&f, 5);
    feed_at(&f, 100);
    (void)feed_armed(&f, true);
    look(&f);
}

TEST(a_server_that_can_have_no_line_is_waited_for_as_before) {
    feed f;
    begin_lining(&f, true);
    feed_at(&f, 1);
    (void)feed_timer(&f);
    look(&f);
    assert_int_equal(feed_reply(&f, "[-3]"), TL_GO);
    assert_true(f.out.level != 0);
    f.server.level = f.out.level;
    feed_assert_asked(&f, "acquire");
    (void)feed_busy(&f, 20000, true);
    assert_true(f.out.disarm);
    assert_int_equal(feed_await(&f), TL_GO);
    (void)feed_reached(&f);
    feed_assert_asked(&f, "acquire");
    (void)feed_busy(&f, 20000, true);
    assert_true(f.out.arm);
    assert_true(tl__bytes_eq(f.out.topic, TL_LITERAL(SIDECAR)));
}

/* The connection was made anew while it asked, so that nobody knows yet what was learned of the server: it calls nobody. */
TEST(where_there_is_no_line_it_looks_again_soon_though_it_listens) {
    feed f;
    stand(&f, 1);
    feed_at(&f, 100);
    (void)feed_woken(&f);
    look(&f);
    assert_int_equal(feed_reply(&f, "[-3]"), TL_GO);
    feed_assert_asked(&f, "acquire");
    (void)feed_busy(&f, 20000, true);
    feed_assert_waits_between(&f, 100 + 50, 100 + 250);
}

/* It stands there, and looks; then it may do so no more, and takes. */
static void refused_in_line(feed *f) {
    stand(f, 1);
    feed_at(f, 100);
    (void)feed_woken(f);
    look(f);
    assert_int_equal(feed_reply(f, "-NOPERM this user has no permissions"), TL_GO);
    assert_true(f->out.level != 0);
    f->server.level = f->out.level;
    feed_assert_asked(f, "acquire");
}

/* Its entry would be given the lock when its turn comes, for nobody. */
TEST(who_may_look_no_more_leaves_the_line_when_it_gives_up) {
    feed f;
    refused_in_line(&f);
    (void)feed_busy(&f, 20000, true);
    assert_true(f.out.disarm);
    assert_int_equal(feed_cancel(&f), TL_DETACH);
    assert_int_equal(m.result.code, TL_ECANCELLED);
    (void)feed_timer(&f);
    feed_assert_asked(&f, "release");
    assert_string_equal(feed_arg(&f, 2), TOKEN " 30000 50 " INBOX " " OWNER);
    assert_int_equal(feed_dropped(&f, 0), TL_END);
}

TEST(who_gets_it_past_its_own_entry_knows_that_it_stands_there) {
    feed f;
    refused_in_line(&f);
    assert_int_equal(feed_taken(&f, 30000), TL_END);
    assert_int_equal(m.result.code, TL_OK);
    assert_int_equal(m.result.proof.stood_ms, 30000);
    stand(&f, 1);
    feed_at(&f, 100);
    (void)feed_woken(&f);
    look(&f);
    assert_int_equal(joined(&f, 1, 0), TL_END); /* by its turn: the entry has gone */
    assert_int_equal(m.result.proof.stood_ms, 0);
}

/* Its entry is taken out; what it has in flight may bring it back, and is waited for. */
TEST(who_gives_up_leaves_the_line) {
    feed f;
    stand(&f, 1);
    feed_at(&f, 100);
    assert_int_equal(feed_cancel(&f), TL_DETACH);
    assert_int_equal(m.result.code, TL_ECANCELLED);
    (void)feed_timer(&f);
    feed_assert_asked(&f, "release");
    assert_string_equal(feed_arg(&f, 0), TOKEN);
    assert_string_equal(feed_arg(&f, 2), TOKEN " 30000 50 " INBOX " " OWNER);
    assert_int_equal(feed_dropped(&f, 0), TL_END);
}

TEST(who_gives_up_with_a_look_in_flight_leaves_twice) {
    feed f;
    stand(&f, 1);
    feed_at(&f, 100);
    (void)feed_woken(&f);
    look(&f);
    tl_mono harmless = f.last.by;
    assert_int_equal(feed_cancel(&f), TL_DETACH);
    (void)feed_timer(&f);
    feed_assert_asked(&f, "release");
    assert_int_equal(feed_dropped(&f, 0), TL_GO);
    assert_true(f.out.until.ns >= harmless.ns);
    (void)feed_await(&f);
    feed_assert_asked(&f, "release");
    assert_int_equal(feed_dropped(&f, 0), TL_END);
}
