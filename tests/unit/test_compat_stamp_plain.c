/*
 * Stamps without scripts, and strict: SETNX, GET, GETSET and DEL; what each answer is worth, and what
 * must not be sent.
 */
#include "stamp_feed.h"

#include "protocol/acquire.h"
#include "protocol/settle.h"

/* Known to have no EVAL; its time is known too, exactly. */
static void prepare_plain(feed *f, tl_op op) {
    prepare(f, &tl__protocol_timestamp, op);
    f->server.level = TL_LEVEL_PLAIN;
}

static void begin(feed *f, tl_op op) {
    prepare_plain(f, op);
    assert_int_equal(feed_start(f), TL_GO);
}

static void prepare_strict(feed *f, tl_op op) {
    prepare(f, &tl__protocol_timestamp, op);
    m.job.rules.strict = true;
    f->server.anchor.known = false;
}

static void begin_strict(feed *f, tl_op op) {
    prepare_strict(f, op);
    assert_int_equal(feed_start(f), TL_GO);
}

#define OWN text_of(START_MS + T_MS)

/* ---- quiet_ms ------------------------------------------------------------------------------- */

static void refuses_quiet(feed *f) {
    expect(f, TL_EUNSUPPORTED, false);
    assert_non_null(strstr(f->out.message, "quiet_ms"));
    assert_int_equal(f->sends, 0);
}

TEST(without_a_script_quiet_ms_cannot_be_had) {
    for (uint8_t level = TL_LEVEL_WATCH; level <= TL_LEVEL_PLAIN; level++) {
        feed f;
        prepare_plain(&f, TL_ACQUIRE);
        f.server.level = level;
        m.job.acquire.quiet_ms = T_MS;
        (void)feed_start(&f);
        refuses_quiet(&f);
    }
    feed f;
    prepare_strict(&f, TL_ACQUIRE);
    m.job.acquire.quiet_ms = T_MS;
    (void)feed_start(&f);
    refuses_quiet(&f);
}

/* It is found out by the first take, which took nothing. */
TEST(a_server_that_turns_out_to_have_none_is_refused_too) {
    feed f;
    prepare(&f, &tl__protocol_timestamp, TL_ACQUIRE);
    m.job.acquire.quiet_ms = T_MS;
    (void)feed_start(&f);
    feed_assert_asked(&f, "acquire");
    f.sends = 0;
    (void)feed_reply(&f, "-ERR unknown command 'EVALSHA'");
    refuses_quiet(&f);
    assert_int_equal(f.out.level, TL_LEVEL_WATCH);
}

/* What is held is given up all the same. */
TEST(a_release_is_not_refused_for_that) {
    feed f;
    prepare_plain(&f, TL_RELEASE);
    m.job.acquire.quiet_ms = T_MS;
    assert_int_equal(feed_start(&f), TL_GO);
}

/* ---- taking ---------------------------------------------------------------------------------- */

TEST(a_take_is_one_setnx_of_the_end_of_the_lifetime) {
    feed f;
    begin(&f, TL_ACQUIRE);
    SAID(&f, "SETNX", KEY, OWN);
    assert_int_equal(feed_since(f.last.by), L_MS); /* nothing is sent later than L */
}

TEST(a_setnx_that_worked_is_ours_from_the_reading_of_our_clock) {
    feed f;
    begin(&f, TL_ACQUIRE);
    feed_at(&f, 400); /* when the answer came doesn't count */
    (void)feed_reply(&f, "1");
    expect(&f, TL_OK, false);
    assert_int_equal(result()->acquire.fence, 0);
    assert_int_equal(result()->deadline.ns, feed_ms(CAP_MS).ns - DRIFT_OF(CAP_MS));
    assert_int_equal(result()->proof.stamp.cap.ns, result()->deadline.ns);
    assert_int_equal(result()->proof.stamp.capped_until.ns, INT64_MAX); /* it is never renewed */
    assert_int_equal(result()->proof.stamp.proved_us, FEED_SERVER_US);
    assert_int_equal(result()->proof.stamp.end_ms, START_MS + T_MS);
    assert_true(result()->acquire.stamp_is_token);
}

TEST(a_dialect_that_names_its_writer_has_the_token) {
    feed f;
    char want[TL_STAMP_SIZE];
    prepare_plain(&f, TL_ACQUIRE);
    m.job.rules.dialect = dialect("jedis-lock-uuid");
    (void)feed_start(&f);
    (void)snprintf(want, sizeof want, TOKEN ":%s", OWN);
    SAID(&f, "SETNX", KEY, want);
    (void)feed_reply(&f, "1");
    expect(&f, TL_OK, false);
    assert_false(result()->acquire.stamp_is_token);
}

/* Our stamp, should it be a racing loser's, must not undercut what winners count on. */
TEST(a_short_lifetime_is_believed_but_not_written) {
    feed f;
    prepare_plain(&f, TL_ACQUIRE);
    m.job.ttl_ms = 10000;
    (void)feed_start(&f);
    SAID(&f, "SETNX", KEY, text_of(START_MS + LEGACY_MS));
    (void)feed_reply(&f, "1");
    expect(&f, TL_OK, false);
    assert_int_equal(result()->deadline.ns, feed_ms(10000 - M_MS).ns - DRIFT_OF(10000 - M_MS));
    assert_int_equal(result()->proof.stamp.end_ms, START_MS + LEGACY_MS);
}

TEST(a_long_lifetime_is_written_but_believed_to_the_cap_only) {
    feed f;
    prepare_plain(&f, TL_ACQUIRE);
    m.job.ttl_ms = 90000;
    (void)feed_start(&f);
    SAID(&f, "SETNX", KEY, text_of(START_MS + 90000));
    (void)feed_reply(&f, "1");
    assert_int_equal(result()->deadline.ns, feed_ms(CAP_MS).ns - DRIFT_OF(CAP_MS));
}

TEST(a_clock_that_is_known_roughly_makes_no_stamp_too_early) {
    feed f;
    prepare_plain(&f, TL_ACQUIRE);
    f.server.anchor.offset.lo -= 700001;
    f.server.anchor.offset.hi += 90001;
    (void)feed_start(&f);
    SAID(&f, "SETNX", KEY, text_of(START_MS + 91 + T_MS));
    (void)feed_reply(&f, "1");
    expect(&f, TL_OK, false);
    assert_int_equal(result()->proof.stamp.proved_us, FEED_SERVER_US - 700001);
    prepare_plain(&f, TL_ACQUIRE); /* and judges by the earliest that it can show */
    f.server.anchor.offset.lo -= 700000;
    (void)feed_start(&f);
    (void)feed_reply(&f, "0");
    (void)feed_reply(&f, "'%s'", text_of(START_MS - 700 - M_MS - L_MS - 1));
    expect(&f, TL_EBUSY, false);
}

TEST(an_expired_stamp_is_taken_over_by_getset) {
    feed f;
    const char *old = text_of(START_MS - 90000);
    begin(&f, TL_ACQUIRE);
    (void)feed_reply(&f, "0");
    assert_int_equal(f.status, TL_GO);
    SAID(&f, "GET", KEY);
    assert_int_equal(feed_since(f.last.by), ATTEMPT_MS);
    (void)feed_reply(&f, "'%s'", old);
    assert_int_equal(f.status, TL_GO);
    SAID(&f, "GETSET", KEY, OWN);
    (void)feed_reply(&f, "'%s'", old);
    expect(&f, TL_OK, false);
    assert_int_equal(result()->deadline.ns, feed_ms(CAP_MS).ns - DRIFT_OF(CAP_MS));
}

/* Up to the point where GETSET is in flight: GET is sent 0.3 s after the start, and answered in time. */
static void begin_getset(feed *f, const char *old) {
    begin_strict(f, TL_ACQUIRE);
    feed_at(f, 300);
    (void)feed_reply(f, "0");
    feed_at(f, 300 + L_MS - 1);
    (void)feed_reply(f, "'%s'", old);
    assert_int_equal(f->status, TL_GO);
}

/* Whoever acquires behind the GET counts on losers for L, and knows them by a clock that was read before. */
TEST(our_clock_is_read_anew_for_the_get_and_getset_is_sent_within_l) {
    feed f;
    begin_getset(&f, text_of(START_MS - 90000));
    SAID(&f, "GETSET", KEY, text_of(START_MS + 300 + T_MS));
    assert_int_equal(feed_since(f.last.by), 300 + L_MS);
    feed_at(&f, 1300);
    (void)feed_reply(&f, "'%s'", text_of(START_MS - 90000));
    expect(&f, TL_OK, false);
    assert_int_equal(result()->deadline.ns, feed_ms(300 + CAP_MS).ns - DRIFT_OF(CAP_MS));
    assert_int_equal(result()->proof.stamp.proved_us, feed_server_us(300));
}

TEST(a_get_that_took_l_is_repeated_three_times_at_most) {
    feed f;
    begin_strict(&f, TL_ACQUIRE);
    (void)feed_reply(&f, "0");
    for (int i = 1; i <= 3; i++) {
        SAID(&f, "GET", KEY);
        assert_int_equal(f.status, TL_GO);
        feed_at(&f, i * L_MS);
        (void)feed_reply(&f, "'%s'", text_of(START_MS - 90000));
    }
    expect(&f, TL_EBUSY, false);
    assert_int_equal(feed_since(result()->acquire.hint), 3 * L_MS); /* it may be free */
}

TEST(a_getset_that_finds_nothing_has_made_the_key) {
    feed f;
    begin_getset(&f, text_of(START_MS - 90000));
    (void)feed_reply(&f, "nil");
    expect(&f, TL_OK, false);
    assert_int_equal(result()->proof.stamp.end_ms, START_MS + 300 + T_MS);
}

TEST(a_getset_that_finds_anything_else_has_lost_the_race) {
    char zero[64];
    const char *old = text_of(START_MS - 90000);
    (void)snprintf(zero, sizeof zero, "0%s", old); /* the same time, in other bytes */
    const char *const all[] = {text_of(START_MS + 60100), text_of(START_MS - 89999), zero, "x", ""};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        feed f;
        begin_getset(&f, old);
        (void)feed_reply(&f, "'%s'", all[i]);
        expect(&f, TL_EBUSY, false);
        assert_true(result()->acquire.silent);
        /* K has our stamp now, for the winner's lock: it is free when that is over */
        assert_int_equal(feed_since(result()->acquire.hint), 300 + T_MS + 1 + M_MS + L_MS + 1);
    }
}

TEST(getset_compares_the_bytes_not_the_time) {
    feed f;
    prepare_strict(&f, TL_ACQUIRE);
    m.job.rules.dialect = dialect("py-float");
    (void)feed_start(&f);
    (void)feed_reply(&f, "0");
    (void)feed_reply(&f, "'1600000000.5'");
    assert_string_equal(f.last.command[0].argv[0].p, "GETSET");
    (void)feed_reply(&f, "'1600000000.7'");
    expect(&f, TL_EBUSY, false);
    prepare_strict(&f, TL_ACQUIRE);
    m.job.rules.dialect = dialect("py-float");
    (void)feed_start(&f);
    (void)feed_reply(&f, "0");
    (void)feed_reply(&f, "'1600000000.5000001'");
    (void)feed_reply(&f, "'1600000000.5000002'"); /* no different to a microsecond */
    expect(&f, TL_EBUSY, false);
}

TEST(free_is_judged_to_the_millisecond) {
    feed f;
    const int64_t border = START_MS - M_MS - L_MS - 1; /* first free a ms later */
    begin_strict(&f, TL_ACQUIRE);
    (void)feed_reply(&f, "0");
    (void)feed_reply(&f, "'%s'", text_of(border));
    expect(&f, TL_EBUSY, false);
    assert_true(result()->acquire.silent);
    assert_int_equal(feed_since(result()->acquire.hint), 1);
    begin_strict(&f, TL_ACQUIRE);
    (void)feed_reply(&f, "0");
    (void)feed_reply(&f, "'%s'", text_of(border - 1));
    assert_int_equal(f.status, TL_GO);
    assert_string_equal(f.last.command[0].argv[0].p, "GETSET");
}

TEST(what_is_no_stamp_is_held_for_who_knows_how_long) {
    static const char *const values[] = {
        TOKEN, "", "0", "60000", "999999999999", "2600000000000", "99999999999999999999", "16e11"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        feed f;
        begin(&f, TL_ACQUIRE);
        (void)feed_reply(&f, "0");
        (void)feed_reply(&f, "'%s'", values[i]);
        expect(&f, TL_EBUSY, false);
        assert_int_equal(result()->acquire.hint.ns, INT64_MAX);
        assert_true(result()->acquire.silent);
    }
}

TEST(a_key_that_vanishes_is_tried_again_three_times_at_most) {
    feed f;
    begin(&f, TL_ACQUIRE);
    for (int i = 1; i < TL_STAMP_ROUNDS; i++) {
        (void)feed_reply(&f, "0");
        SAID(&f, "GET", KEY);
        (void)feed_reply(&f, "nil");
        assert_int_equal(f.status, TL_GO);
        assert_string_equal(f.last.command[0].argv[0].p, "SETNX");
    }
    (void)feed_reply(&f, "0");
    (void)feed_reply(&f, "nil");
    expect(&f, TL_EBUSY, false);
    assert_int_equal(result()->acquire.hint.ns, f.now.ns);
    begin(&f, TL_ACQUIRE);
    (void)feed_reply(&f, "0");
    (void)feed_reply(&f, "nil");
    (void)feed_reply(&f, "1");
    expect(&f, TL_OK, false);
}

TEST(nothing_is_sent_when_the_asker_has_moved_on) {
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)feed_reply(&f, "0");
    feed_at(&f, UNTIL_MS);
    (void)feed_reply(&f, "nil");
    expect(&f, TL_EBUSY, false);
}

TEST(what_was_not_answered_is_not_ours) {
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)feed_lost(&f);
    expect(&f, TL_EUNCERTAIN, true);
    assert_int_equal(result()->harmless.ns, INT64_MAX);
    begin_getset(&f, text_of(START_MS - 90000));
    (void)feed_lost(&f);
    expect(&f, TL_EUNCERTAIN, true);
    begin(&f, TL_ACQUIRE); /* our bytes there prove nothing: another may have written the same */
    (void)feed_reply(&f, "0");
    (void)feed_reply(&f, "'%s'", OWN);
    expect(&f, TL_EBUSY, false);
}

TEST(a_get_without_an_answer_has_changed_nothing) {
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)feed_reply(&f, "0");
    (void)feed_lost(&f);
    expect(&f, TL_EUNAVAILABLE, false);
    begin(&f, TL_RENEW);
    (void)feed_lost(&f);
    expect(&f, TL_EUNAVAILABLE, false);
    begin(&f, TL_RELEASE);
    (void)feed_lost(&f);
    expect(&f, TL_EUNAVAILABLE, false);
    assert_false(result()->last);
}

TEST(an_answer_without_any_reply_is_malformed) {
    for (int op = TL_ACQUIRE; op <= TL_RELEASE; op++) {
        feed f;
        begin(&f, (tl_op)op);
        (void)feed_event(&f,
                         (tl_event){.kind = TL_REPLY, .asked = {.ticket = TICKET, .sent = f.now}});
        expect(&f, TL_ESERVER, true);
    }
}

TEST(a_key_of_another_type_is_anothers) {
    static const char *const errors[] = {
        "-WRONGTYPE Operation against a key holding the wrong kind of value",
        "-ERR Operation against a key holding the wrong kind of value"};
    for (size_t i = 0; i < 2; i++) {
        feed f;
        begin(&f, TL_ACQUIRE);
        (void)feed_reply(&f, "0");
        (void)feed_reply(&f, "%s", errors[i]);
        expect(&f, TL_EBUSY, false);
        assert_int_equal(result()->acquire.hint.ns, INT64_MAX);
        begin_getset(&f, text_of(START_MS - 90000));
        (void)feed_reply(&f, "%s", errors[i]);
        expect(&f, TL_EBUSY, false);
        begin(&f, TL_RENEW);
        (void)feed_reply(&f, "%s", errors[i]);
        expect_lost(&f, TL_LOST_TAKEN, false);
        begin(&f, TL_RELEASE);
        (void)feed_reply(&f, "%s", errors[i]);
        expect(&f, TL_ETAKEN, false);
    }
}

TEST(any_other_answer_is_malformed) {
    static const char *const bad[] = {"[]", "nil", "'x'", "+OK"}, *const bad_text[] = {"[]", "7"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        feed f;
        begin(&f, TL_ACQUIRE);
        (void)feed_reply(&f, "%s", bad[i]);
        expect(&f, TL_ESERVER, true);
    }
    for (size_t i = 0; i < sizeof bad_text / sizeof *bad_text; i++) {
        feed f;
        begin(&f, TL_ACQUIRE);
        (void)feed_reply(&f, "0");
        (void)feed_reply(&f, "%s", bad_text[i]);
        expect(&f, TL_ESERVER, true);
        begin_getset(&f, text_of(START_MS - 90000));
        (void)feed_reply(&f, "%s", bad_text[i]);
        expect(&f, TL_ESERVER, true);
        begin(&f, TL_RENEW);
        (void)feed_reply(&f, "%s", bad_text[i]);
        expect(&f, TL_ESERVER, true);
        begin(&f, TL_RELEASE);
        (void)feed_reply(&f, "%s", bad_text[i]);
        expect(&f, TL_ESERVER, true);
    }
}

TEST(a_setnx_that_set_neither_0_nor_1_is_followed_by_a_get) {
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)feed_reply(&f, "2");
    SAID(&f, "GET", KEY);
}

/* ---- strict ---------------------------------------------------------------------------------- */

TEST(strict_knows_our_own_clock_alone) {
    feed f;
    prepare(&f, &tl__protocol_timestamp, TL_ACQUIRE);
    m.job.rules.strict = true;
    f.server.wall_us = FEED_OFFSET_US + 3000000; /* ahead of what the server has told others */
    (void)feed_start(&f);
    SAID(&f, "SETNX", KEY, text_of(START_MS + 3000 + T_MS));
    (void)feed_reply(&f, "1");
    expect(&f, TL_OK, false);
    assert_false(f.out.has_bracket);
    assert_int_equal(f.out.level, 0);
}

TEST(strict_asks_no_script_for_anything) {
    static const char *const first[] = {"SETNX", "GET", "GET"};
    for (int op = TL_ACQUIRE; op <= TL_RELEASE; op++) {
        feed f;
        begin_strict(&f, (tl_op)op);
        assert_int_equal(f.last.count, 1);
        assert_int_equal(f.last.command[0].form, TL_ARGV);
        assert_string_equal(f.last.command[0].argv[0].p, first[op]);
        (void)feed_reply(&f, "-ERR unknown command 'x'");
        expect(&f, TL_EUNSUPPORTED, false);
    }
}

/* ---- keeping --------------------------------------------------------------------------------- */

TEST(a_keep_only_looks_and_proves_nothing_new) {
    feed f;
    begin(&f, TL_RENEW);
    m.job.hold.proof.held_by = 1 + TL_TIMESTAMP;
    SAID(&f, "GET", KEY);
    feed_at(&f, 30000);
    (void)feed_reply(&f, "'%s'", OWN);
    expect(&f, TL_OK, false);
    assert_int_equal(result()->deadline.ns, m.job.hold.believed.ns);
    assert_memory_equal(&result()->proof, &m.job.hold.proof, sizeof(tl_proof));
}

/* To extend it is all that a keep of such a one can be for. */
TEST(a_stamp_taken_elsewhere_cannot_be_kept) {
    feed f;
    prepare_plain(&f, TL_RENEW);
    m.job.hold.believed = (tl_mono){0};
    m.job.hold.proof = (tl_proof){.kind = TL_PROOF_STAMP, .stamp = {.end_ms = START_MS + T_MS}};
    (void)feed_start(&f);
    (void)feed_reply(&f, "'%s'", OWN);
    expect(&f, TL_EINVALID, false);
}

TEST(a_keep_tells_losers_thieves_and_nothing_apart) {
    feed f;
    begin(&f, TL_RENEW);
    (void)feed_reply(&f, "'%s'", text_of(START_MS + M_MS + LEGACY_MS));
    expect(&f, TL_OK, false);
    assert_int_equal(result()->deadline.ns, m.job.hold.believed.ns);
    begin(&f, TL_RENEW);
    (void)feed_reply(&f, "'%s'", text_of(START_MS + M_MS + 1 + LEGACY_MS));
    expect_lost(&f, TL_LOST_TAKEN, true);
    assert_int_equal(result()->lost.thief_ahead_ms, M_MS + 1);
    begin(&f, TL_RENEW);
    (void)feed_reply(&f, "'x'");
    expect_lost(&f, TL_LOST_TAKEN, false);
    begin(&f, TL_RENEW);
    (void)feed_reply(&f, "nil");
    expect_lost(&f, TL_LOST_GONE, false);
}

/* ---- releasing ------------------------------------------------------------------------------- */

TEST(a_release_gets_and_compares_before_it_deletes) {
    feed f;
    begin(&f, TL_RELEASE);
    SAID(&f, "GET", KEY);
    feed_at(&f, 20);
    (void)feed_reply(&f, "'%s'", OWN);
    assert_int_equal(f.status, TL_GO);
    SAID(&f, "DEL", KEY);
    assert_int_equal(feed_since(f.last.by), ATTEMPT_MS);
    (void)feed_reply(&f, "1");
    expect(&f, TL_OK, false);
}

TEST(a_release_never_deletes_what_is_not_exactly_ours) {
    feed f;
    char zero[64];
    (void)snprintf(zero, sizeof zero, "0%s", OWN);
    const char *const all[] = {"x", zero, text_of(START_MS + M_MS + 1 + LEGACY_MS)};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        begin(&f, TL_RELEASE);
        (void)feed_reply(&f, "'%s'", all[i]);
        assert_int_equal(f.status, TL_END);
        assert_int_equal(result()->code, TL_ETAKEN);
    }
    begin(&f, TL_RELEASE); /* a racing loser's: ours until now, and left to run out */
    (void)feed_reply(&f, "'%s'", text_of(START_MS + T_MS + 1));
    expect(&f, TL_OK, false);
    begin(&f, TL_RELEASE);
    (void)feed_reply(&f, "nil");
    expect(&f, TL_EEXPIRED, false);
}

/* A release whose GET is answered with our own bytes when so much of the time is left. */
static void begin_release_with(feed *f, int64_t left_ms) {
    prepare_plain(f, TL_RELEASE);
    f->now = tl__mono_add_ms(m.job.hold.believed, -left_ms);
    (void)feed_start(f);
    SAID(f, "GET", KEY);
    (void)feed_reply(f, "'%s'", OWN);
}

TEST(a_release_too_late_for_a_del_leaves_k_to_run_out) {
    feed f;
    begin_release_with(&f, ATTEMPT_MS + 1);
    assert_int_equal(f.status, TL_GO);
    SAID(&f, "DEL", KEY);
    begin_release_with(&f, ATTEMPT_MS);
    expect(&f, TL_OK, false);
    begin_release_with(&f, 1);
    expect(&f, TL_OK, false);
    begin_release_with(&f, 0); /* by now it is not ours, whosever these bytes are */
    expect(&f, TL_EEXPIRED, false);
}

TEST(a_get_that_took_the_time_for_the_del_leaves_k_to_run_out) {
    feed f;
    prepare_plain(&f, TL_RELEASE);
    f.now = tl__mono_add_ms(m.job.hold.believed, -ATTEMPT_MS - 10);
    (void)feed_start(&f);
    feed_later(&f, 9);
    (void)feed_reply(&f, "'%s'", OWN);
    assert_int_equal(f.status, TL_GO);
    SAID(&f, "DEL", KEY);
    prepare_plain(&f, TL_RELEASE);
    f.now = tl__mono_add_ms(m.job.hold.believed, -ATTEMPT_MS - 10);
    (void)feed_start(&f);
    feed_later(&f, 10);
    (void)feed_reply(&f, "'%s'", OWN);
    expect(&f, TL_OK, false);
}

TEST(a_stamp_taken_elsewhere_is_deleted_while_its_taker_may_believe_in_it) {
    /* it is believed to E - 2 M - L at the least; the DEL has ATTEMPT_MS to arrive */
    const int64_t last = T_MS - 2 * M_MS - L_MS - ATTEMPT_MS;
    for (int late = 0; late < 2; late++) {
        feed f;
        prepare_strict(&f, TL_RELEASE);
        m.job.hold.believed = (tl_mono){0};
        m.job.hold.proof = (tl_proof){.kind = TL_PROOF_STAMP, .stamp = {.end_ms = START_MS + T_MS}};
        feed_at(&f, last - 1 + late);
        (void)feed_start(&f);
        (void)feed_reply(&f, "'%s'", OWN);
        assert_int_equal(f.status, late ? TL_END : TL_GO);
        assert_string_equal(f.last.command[0].argv[0].p, late ? "GET" : "DEL");
    }
}

TEST(a_del_of_a_stamp_taken_elsewhere_spares_a_second_where_writers_round_down) {
    const int64_t last = T_MS - 2 * M_MS - L_MS - 1000 - ATTEMPT_MS;
    char own[TL_STAMP_SIZE + 1] = {0};
    (void)tl__dialect_write(dialect("py-float"), START_MS + T_MS, (tl_bytes){0}, own);
    for (int late = 0; late < 2; late++) {
        feed f;
        prepare_strict(&f, TL_RELEASE);
        m.job.rules.dialect = dialect("py-float");
        m.job.hold.believed = (tl_mono){0};
        m.job.hold.proof = (tl_proof){.kind = TL_PROOF_STAMP, .stamp = {.end_ms = START_MS + T_MS}};
        feed_at(&f, last - 1 + late);
        (void)feed_start(&f);
        (void)feed_reply(&f, "'%s'", own);
        assert_string_equal(f.last.command[0].argv[0].p, late ? "GET" : "DEL");
    }
}

/* The server's clock may reach the stamp's end in less of ours than is left. */
TEST(a_del_of_a_stamp_taken_elsewhere_is_in_time_by_any_clock) {
    const int32_t ppm = 101500;
    const int64_t left_ms = (int64_t)ATTEMPT_MS * (1000000 + ppm) / (1000000 - ppm);
    for (int late = 0; late < 2; late++) {
        feed f;
        prepare_strict(&f, TL_RELEASE);
        f.server.drift_ppm = ppm;
        m.job.hold.believed = (tl_mono){0};
        m.job.hold.proof = (tl_proof){.kind = TL_PROOF_STAMP, .stamp = {.end_ms = START_MS + T_MS}};
        feed_at(&f, T_MS - 2 * M_MS - L_MS - left_ms - 2 + 2 * late);
        (void)feed_start(&f);
        (void)feed_reply(&f, "'%s'", OWN);
        assert_int_equal(f.status, late ? TL_END : TL_GO);
    }
}

/* By the latest that the server's clock can show. */
TEST(a_stamp_taken_elsewhere_is_believed_for_the_shortest) {
    const int64_t last = T_MS - 2 * M_MS - L_MS - ATTEMPT_MS - 90;
    for (int late = 0; late < 2; late++) {
        feed f;
        prepare_plain(&f, TL_RELEASE);
        m.job.hold.believed = (tl_mono){0};
        m.job.hold.proof = (tl_proof){.kind = TL_PROOF_STAMP, .stamp = {.end_ms = START_MS + T_MS}};
        feed_at(&f, last - 1 + late);
        f.server.anchor.at = f.now;
        f.server.anchor.offset.lo -= 700000;
        f.server.anchor.offset.hi += 90000;
        (void)feed_start(&f);
        (void)feed_reply(&f, "'%s'", OWN);
        assert_int_equal(f.status, late ? TL_END : TL_GO);
    }
}

/* In a dialect that names its writer the token alone tells whose it is, and K when it ends. */
TEST(a_stamp_taken_elsewhere_is_deleted_by_its_token) {
    static const char other[] = "00000000-0000-4000-8000-000000000000";
    const struct {
        const char *token, *last;
        tl_err code;
    } rows[] = {{TOKEN, "DEL", TL_OK}, {other, "GET", TL_ETAKEN}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        feed f;
        prepare_strict(&f, TL_RELEASE);
        m.job.rules.dialect = dialect("ms-pipe");
        m.job.hold.believed = (tl_mono){0};
        m.job.hold.proof = (tl_proof){.elsewhere = true};
        (void)feed_start(&f);
        (void)feed_reply(&f, "'%s|%s'", OWN, rows[i].token);
        assert_string_equal(f.last.command[0].argv[0].p, rows[i].last);
        if (f.status == TL_GO)
            (void)feed_reply(&f, "1");
        expect(&f, rows[i].code, false);
    }
}

/* The bare number of another dialect proves nothing to who has no number. */
TEST(a_bare_stamp_is_nobodys_by_a_token) {
    feed f;
    prepare_strict(&f, TL_RELEASE);
    m.job.hold.believed = (tl_mono){0};
    m.job.hold.proof = (tl_proof){.elsewhere = true};
    (void)feed_start(&f);
    (void)feed_reply(&f, "'%s'", OWN);
    expect(&f, TL_ETAKEN, false);
}

TEST(cleaning_up_after_a_take_without_an_answer_deletes_nothing) {
    feed f;
    prepare_plain(&f, TL_RELEASE);
    m.job.hold.believed = (tl_mono){0};
    m.job.hold.proof = (tl_proof){0};
    (void)feed_start(&f);
    assert_int_equal(f.last.count, 0);
    (void)feed_reached(&f);
    expect(&f, TL_EEXPIRED, false);
}

TEST(a_del_that_found_nothing_tells_so) {
    feed f;
    begin(&f, TL_RELEASE);
    (void)feed_reply(&f, "'%s'", OWN);
    (void)feed_reply(&f, "0");
    expect(&f, TL_EEXPIRED, false);
    begin(&f, TL_RELEASE);
    (void)feed_reply(&f, "'%s'", OWN);
    (void)feed_reply(&f, "nil");
    expect(&f, TL_ESERVER, true);
}

/* ---- within the machines that drive it ------------------------------------------------------- */

static tl_settle settling;

static void begin_release(feed *f) {
    tl_job job = stamp_job(&tl__protocol_timestamp);
    is_held(&job);
    feed_init(f, &settling, tl__settle_step);
    f->server.level = TL_LEVEL_PLAIN;
    tl__settle_init(&settling, &job, TL_RELEASE, job.hold.believed, 1);
    (void)feed_start(f);
    SAID(f, "GET", KEY);
}

TEST(a_del_without_an_answer_is_never_sent_again) {
    feed f;
    begin_release(&f);
    (void)feed_reply(&f, "'%s'", OWN);
    SAID(&f, "DEL", KEY);
    feed_at(&f, 100);
    (void)feed_failed(&f, true, TL_EUNAVAILABLE, "connection lost");
    assert_int_equal(f.status, TL_END);
    assert_int_equal(settling.result.code, TL_EUNCERTAIN);
    assert_int_equal(f.sends, 2);
}

TEST(a_lost_get_of_a_release_does_not_turn_expired_into_released) {
    feed f;
    begin_release(&f);
    feed_at(&f, 100);
    (void)feed_failed(&f, true, TL_EUNAVAILABLE, "connection lost");
    assert_int_equal(f.status, TL_GO);
    (void)feed_await(&f);
    SAID(&f, "GET", KEY);
    (void)feed_reply(&f, "nil");
    assert_int_equal(f.status, TL_END);
    assert_int_equal(settling.result.code, TL_EEXPIRED);
}

static tl_acquisition acquiring;

static void begin_acquire(feed *f, int64_t wait_ms) {
    static const tl_retry retry = {0};
    tl_job job = stamp_job(&tl__protocol_timestamp);
    job.rules.strict = true;
    is_held(&job); /* an earlier hold's: of no account */
    feed_init(f, &acquiring, tl__acquire_step);
    f->server.wall_us = FEED_OFFSET_US;
    tl__acquire_init(&acquiring, &job, &retry, wait_ms, CONNECT_MS, 1);
    (void)feed_start(f);
    (void)feed_reached(f);
    SAID(f, "SETNX", KEY, OWN);
}

TEST(giving_up_after_a_lost_setnx_sends_nothing_more) {
    feed f;
    begin_acquire(&f, 400);
    (void)feed_lost(&f);
    (void)feed_await(&f);
    assert_int_equal(f.status, TL_DETACH);
    assert_int_equal(acquiring.result.code, TL_EUNCERTAIN);
    (void)feed_await(&f);
    assert_int_equal(f.last.count, 0);
    (void)feed_reached(&f);
    assert_int_equal(f.status, TL_END);
    assert_int_equal(f.sends, 1);
}

TEST(waiting_polls_and_listens_to_nothing) {
    feed f;
    begin_acquire(&f, 60000);
    (void)feed_reply(&f, "0");
    (void)feed_reply(&f, "'%s'", text_of(START_MS + 50000));
    assert_int_equal(f.arms, 0);
    feed_assert_waits_between(&f, 50, 250);
}
