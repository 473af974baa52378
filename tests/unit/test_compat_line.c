/*
 * Standing in line by the phase of a migration: who waits stands there while the phase is that of tokens, as one who
 * is only called, and acquires the lock by himself under his lease. It begins and ends with the phase, in the middle of a
 * wait; what it leaves behind in the line is known until the end.
 */
#include "acquire_feed.h"

#include "phase/phase.h"
#include "stamp/stamp.h"

#define LEASE_MS 30000
#define INBOX "tidelock:inbox:me"
#define ID "00000000-0000-4000-8000-0000000000aa"
#define RUN 7
#define ENTRY TOKEN " 30000? 50 " INBOX " " OWNER
#define T_LEGACY_MS 60000

static tl_namespaces *names;

static int set_up(void **state) {
    const tl_legacy_options o = TL_LEGACY_OPTIONS(0);
    tl_token id;
    tl_error said;
    (void)state;
    memcpy(id.text, ID, sizeof ID);
    return tl__namespaces_open(&o, TL_LITERAL(OWNER), &id, &names, &said);
}

static int tear_down(void **state) {
    (void)state;
    tl__namespaces_close(names);
    return 0;
}

TESTS_WITH(set_up, tear_down);

/* As the driver does it: what was learned is kept. */
static tl_status keeping(void *machine, const tl_event *e, tl_out *out) {
    tl_server *server = (tl_server *)(uintptr_t)e->server;
    tl_status status = tl__acquire_step(machine, e, out);
    if (out->keeps)
        tl__lease_merge((tl_lease *)&server->kept[out->keeps_at], tl__lease_read(out));
    if (out->level)
        server->level = out->level;
    return status;
}

/* A lease that begins now. */
static void know(feed *f, int phase, int64_t epoch) {
    *(tl_lease *)&f->server.kept[0] = (tl_lease){.phase = (int8_t)phase,
                                                 .epoch = epoch,
                                                 .lease_ms = LEASE_MS,
                                                 .until = tl__mono_add_ms(f->now, LEASE_MS)};
}

static void prepare_by_phase(feed *f, bool join) {
    prepare(f);
    job.protocol = &tl__protocol_auto;
    job.acquire.bind = true;
    job.queue.join = join;
    job.queue.inbox = TL_LITERAL(INBOX);
    job.rules = (tl_rules){.dialect = tl__dialect_find(TL_LITERAL("java")),
                           .clock_skew_max_ms = 1000,
                           .legacy_delay_max_ms = 500,
                           .legacy_ttl_min_ms = T_LEGACY_MS,
                           .of = &names->at[0]};
    f->step = keeping;
    f->server.wall_us = FEED_OFFSET_US;
}

static void start(feed *f) {
    tl__acquire_init(&m, &job, &retry, 600000, CONNECT_MS, 42);
    tl__acquire_armed(&m);
    assert_int_equal(feed_start(f), TL_GO);
    assert_int_equal(feed_reached(f), TL_GO);
}

/* In this phase, a first take in flight. */
static void begin_by_phase(feed *f, int phase) {
    prepare_by_phase(f, false);
    know(f, phase, 7);
    start(f);
    feed_assert_asked(f, "acquire");
}

static tl_status joined(feed *f, int status, int before) {
    char text[256];
    (void)snprintf(text, sizeof text, "[%d '%s' %d '90' %s '88' %d %d 1]", status,
                   status == 1 ? TOKEN : "another", status == 1 ? TTL_MS : 20000, feed_time(f),
                   before, before + 1);
    tl_event e = {.kind = TL_REPLY,
                  .asked = {.ticket = f->last.ticket, .sent = f->sent, .run = RUN}};
    e.replied.reply = feed_parse(f, text, &e.replied.count);
    return feed_event(f, e);
}

static bool listens_to(const feed *f, const char *topic) {
    return f->out.arm && tl__bytes_eq(f->out.topic, tl__bytes_of(topic));
}

/* The pause is over, and the server is reached. */
static void go_on(feed *f) {
    assert_int_equal(feed_await(f), TL_GO);
    assert_int_equal(feed_reached(f), TL_GO);
}

/* It stands in line, and waits. */
static void stand(feed *f) {
    begin_by_phase(f, TL_PHASE_TOKEN);
    (void)feed_busy(f, 20000, true);
    assert_true(listens_to(f, INBOX));
    assert_false(f->out.disarm);
    go_on(f);
    feed_assert_asked(f, "join");
    assert_string_equal(feed_arg(f, 1), "30000?");
    (void)joined(f, 0, 0);
}

/* ---- the turn ------------------------------------------------------------------------------------ */

TEST(who_is_called_takes_it_by_a_request_under_the_lease) {
    feed f;
    stand(&f);
    know(&f, TL_PHASE_TOKEN, 7);
    ((tl_lease *)&f.server.kept[0])->lease_ms = 1000; /* which ends in a second */
    ((tl_lease *)&f.server.kept[0])->until = tl__mono_add_ms(f.now, 1000);
    int64_t until_us = feed_server_us(feed_since(f.now)) + 1000000;
    (void)feed_woken(&f);
    (void)feed_reached(&f);
    feed_assert_asked(&f, "join");
    int64_t not_after = feed_arg_int(&f, 2);
    assert_true(not_after <= until_us && not_after > until_us - 10000);
    assert_string_equal(feed_arg(&f, 6), "88");
    assert_int_equal(joined(&f, 1, 0), TL_END);
    assert_int_equal(m.result.code, TL_OK);
    assert_int_equal(m.result.acquire.fence, 90);
    assert_int_equal(m.result.proof.held_by, 1 + TL_TOKEN);
    assert_int_equal(m.result.proof.stood_ms, 0);
    assert_false(m.result.proof.unbound);
}

/* Nobody gives it the lock; should anybody say so, it looks. */
TEST(a_grant_by_message_is_never_believed) {
    feed f;
    stand(&f);
    feed_later(&f, 100);
    const tl_grant grant = {.fence = 91,
                            .at_us = feed_server_us(feed_since(f.now)),
                            .lease_ms = 5000,
                            .run = RUN,
                            .arrived = f.now};
    assert_int_equal(feed_event(&f, (tl_event){.kind = TL_GRANTED, .grant = &grant}), TL_GO);
    (void)feed_reached(&f);
    feed_assert_asked(&f, "join");
}

TEST(who_knows_the_phase_begins_in_line_and_who_does_not_reads_it_first) {
    feed f;
    prepare_by_phase(&f, true);
    know(&f, TL_PHASE_TOKEN, 7);
    start(&f);
    feed_assert_asked(&f, "join");
    prepare_by_phase(&f, true);
    start(&f);
    feed_assert_asked(&f, "phase");
    (void)feed_reply(&f, "[3 7 30000 %s -1]", feed_time(&f));
    feed_assert_asked(&f, "acquire");
    (void)feed_busy(&f, 20000, true);
    go_on(&f);
    feed_assert_asked(&f, "join");
}

TEST(who_gives_up_takes_its_entry_out_by_the_same_words) {
    feed f;
    stand(&f);
    assert_int_equal(feed_cancel(&f), TL_DETACH);
    (void)feed_timer(&f);
    feed_assert_asked(&f, "release");
    assert_string_equal(feed_arg(&f, 2), ENTRY);
    assert_int_equal(feed_dropped(&f, 0), TL_END);
}

/* ---- which phase --------------------------------------------------------------------------------- */

TEST(in_phases_with_stamps_nobody_stands_in_line) {
    for (int phase = TL_PHASE_TIMESTAMP; phase < TL_PHASE_TOKEN; phase++) {
        feed f;
        begin_by_phase(&f, phase);
        (void)feed_busy(&f, 20000, true);
        assert_true(listens_to(&f, SIDECAR));
        go_on(&f);
        feed_assert_asked(&f, "acquire");
    }
}

TEST(when_the_phase_comes_that_has_a_line_the_wait_goes_on_there) {
    feed f;
    begin_by_phase(&f, TL_PHASE_DRAIN);
    (void)feed_busy(&f, 20000, true);
    assert_true(listens_to(&f, SIDECAR));
    know(&f, TL_PHASE_TOKEN, 8);
    go_on(&f);
    feed_assert_asked(&f, "acquire");
    (void)feed_busy(&f, 20000, true);
    assert_true(f.out.disarm); /* in place of what it listened to */
    assert_true(listens_to(&f, INBOX));
    go_on(&f);
    feed_assert_asked(&f, "join");
    assert_int_equal(joined(&f, 1, 0), TL_END);
}

/* It stands there, when the phase goes back; and the lock is another's. */
static void go_back(feed *f, int phase) {
    stand(f);
    know(f, phase, 8);
    go_on(f);
    feed_assert_asked(f, "acquire");
    (void)feed_busy(f, 20000, true);
    assert_true(f->out.disarm);
    feed_assert_waits_between(f, feed_since(f->now) + 50, feed_since(f->now) + 250);
}

TEST(when_the_phase_goes_back_the_wait_goes_on_as_before) {
    for (int phase = TL_PHASE_TIMESTAMP; phase < TL_PHASE_TOKEN; phase++) {
        feed f;
        go_back(&f, phase);
        go_on(&f);
        feed_assert_asked(&f, "acquire");
        (void)feed_busy(&f, 20000, true);
        assert_true(listens_to(&f, SIDECAR));
        know(&f, TL_PHASE_TOKEN, 9); /* and returns to its place */
        go_on(&f);
        (void)feed_busy(&f, 20000, true);
        assert_true(listens_to(&f, INBOX));
        go_on(&f);
        feed_assert_asked(&f, "join");
        assert_string_equal(feed_arg(&f, 6), "88");
    }
}

TEST(what_it_has_left_in_line_goes_with_the_wait) {
    for (int phase = TL_PHASE_TIMESTAMP; phase < TL_PHASE_TOKEN; phase++) {
        feed f;
        go_back(&f, phase);
        assert_int_equal(feed_cancel(&f), TL_DETACH);
        (void)feed_timer(&f);
        feed_assert_asked(&f, "release");
        assert_string_equal(feed_arg(&f, 2), ENTRY);
    }
}

TEST(or_with_the_hold) {
    for (int phase = TL_PHASE_TIMESTAMP; phase < TL_PHASE_TOKEN; phase++) {
        feed f;
        go_back(&f, phase);
        go_on(&f);
        if (phase == TL_PHASE_DRAIN)
            (void)feed_taken(&f, TTL_MS);
        else
            (void)feed_reply(&f, "[1 '%lld' 30000 '77' %s 1 1]",
                             (long long)(FEED_OFFSET_US / 1000 + f.now.ns / 1000000 + TTL_MS),
                             feed_time(&f));
        assert_int_equal(f.status, TL_END);
        assert_int_equal(m.result.code, TL_OK);
        assert_int_equal(m.result.proof.stood_ms, TTL_MS);
    }
}

TEST(without_a_lease_that_lasts_nobody_stands_in_line) {
    feed f;
    stand(&f);
    f.now = tl__mono_add_ms(f.now, LEASE_MS);
    (void)feed_woken(&f);
    (void)feed_reached(&f);
    feed_assert_asked(&f, "phase");
    (void)feed_reply(&f, "-NOPERM no\n");
    assert_int_equal(m.result.code, TL_EDENIED);
    stand(&f);
    (void)feed_woken(&f);
    (void)feed_reached(&f);
    feed_assert_asked(&f, "join");
    f.now = tl__mono_add_ms(f.now, LEASE_MS); /* it is over when the answer comes */
    (void)joined(&f, 0, 0);
    assert_true(f.out.disarm);
}

/* ---- what a server can do ------------------------------------------------------------------------ */

/* What it has learned of the line is no level of stamps, nor the other way round. */
TEST(a_server_that_can_have_no_line_has_scripts_for_stamps_all_the_same) {
    feed f;
    begin_by_phase(&f, TL_PHASE_TOKEN);
    (void)feed_busy(&f, 20000, true);
    go_on(&f);
    feed_assert_asked(&f, "join");
    (void)feed_reply(&f, "[-3]");
    feed_assert_asked(&f, "acquire");
    assert_int_equal(f.server.level & TL_LEVEL_BITS, TL_LEVEL_UNKNOWN);
    (void)feed_busy(&f, 20000, true);
    assert_true(f.out.disarm);
    go_on(&f);
    feed_assert_asked(&f, "acquire");
    (void)feed_busy(&f, 20000, true);
    assert_true(listens_to(&f, SIDECAR));
    know(&f, TL_PHASE_TIMESTAMP, 8);
    go_on(&f);
    feed_assert_asked(&f, "acquire");
    for (uint8_t level = TL_LEVEL_UNKNOWN; level <= TL_LEVEL_PLAIN; level++) {
        begin_by_phase(&f, TL_PHASE_TOKEN);
        f.server.level = level;
        (void)feed_busy(&f, 20000, true);
        assert_true(listens_to(&f, INBOX));
    }
    prepare_by_phase(&f, false);
    know(&f, TL_PHASE_TIMESTAMP, 7);
    f.server.level = 0x20 | TL_LEVEL_WATCH; /* there is no line, as was found out before */
    start(&f);
    assert_ptr_equal(f.last.pin, &tl__pin_opens);
}
