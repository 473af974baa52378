/*
 * A stamp that is to rest: what a release asks for, when, and what each answer is worth.
 */
#include "stamp_feed.h"

#include "protocol/settle.h"

#define REST_MS 100000
#define LATER_MS 10000 /* no loser of a race may write any more */

static feed f;

/* A hold acquired at the start, which is to rest. */
static void prepare_rest(const tl_protocol *protocol) {
    prepare(&f, protocol, TL_RELEASE);
    m.job.release.rest_ms = REST_MS;
    m.job.release.rest_since = feed_ms(0);
    m.job.release.rest_since_us = FEED_SERVER_US;
    feed_later(&f, LATER_MS);
}

static void begin(void) {
    prepare_rest(&tl__protocol_bridge);
    assert_int_equal(feed_start(&f), TL_GO);
}

static const char *legacy_stamp(int64_t read_ms) {
    return text_of(START_MS + read_ms + LEGACY_MS);
}

static unsigned args(void) {
    return f.last.command[0].argc - f.last.command[0].nkeys;
}

/* ---- asking ------------------------------------------------------------------------------------ */

TEST(a_release_that_rests_tells_how_the_stamp_is_written) {
    begin();
    feed_assert_asked(&f, "rest");
    assert_string_equal(feed_arg(&f, 0), TOKEN);
    assert_int_equal(feed_arg_int(&f, 2), FEED_SERVER_US + REST_MS * INT64_C(1000));
    assert_string_equal(feed_arg(&f, 6), "");
    assert_string_equal(feed_arg(&f, 7), "");
    assert_string_equal(feed_arg(&f, 8), "%.0f");
    assert_string_equal(feed_arg(&f, 9), "1");
    assert_int_equal(feed_arg_int(&f, 10), M_MS);
    assert_int_equal(feed_arg_int(&f, 11), T_MS + GRACE_MS);
    assert_int_equal(args(), 12);
    (void)feed_reply(&f, "1");
    expect(&f, TL_OK, false);
}

TEST(an_adopted_lock_tells_for_how_long_from_its_acquire) {
    prepare_rest(&tl__protocol_bridge);
    m.job.release.rest_since_us = 0;
    (void)feed_start(&f);
    assert_int_equal(feed_arg_int(&f, 2), 0);
    assert_int_equal(feed_arg_int(&f, 6), REST_MS);
    assert_int_equal(args(), 12);
}

TEST(each_dialect_has_its_number_at_its_place) {
    static const struct {
        const char *dialect, *pattern, *unit;
    } all[] = {{"jedis-lock-uuid", TOKEN ":%.0f", "1"},
               {"redis-doc", "%.0f", "1000"},
               {"py-float", "%.0f.000000", "1000"},
               {"rb-pid", "%.0f-" TOKEN, "1000"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        prepare_rest(&tl__protocol_bridge);
        m.job.rules.dialect = dialect(all[i].dialect);
        (void)feed_start(&f);
        assert_string_equal(feed_arg(&f, 8), all[i].pattern);
        assert_string_equal(feed_arg(&f, 9), all[i].unit);
    }
}

TEST(what_has_passed_already_is_a_release) {
    prepare_rest(&tl__protocol_bridge);
    feed_at(&f, REST_MS + 100);
    (void)feed_start(&f);
    feed_assert_asked(&f, "release");
}

/* ---- losers of a race -------------------------------------------------------------------------- */

/* It may overwrite the stamp until L after the acquire, and nobody would take that back. */
TEST(it_rests_only_when_no_loser_may_write_any_more) {
    prepare_rest(&tl__protocol_bridge);
    feed_at(&f, L_MS);
    assert_int_equal(feed_start(&f), TL_END);
    expect(&f, TL_EUNAVAILABLE, false);
    assert_non_null(strstr(f.out.message, "legacy_delay_max"));
    prepare_rest(&tl__protocol_bridge);
    f.now = tl__mono_add_ns(feed_ms(0), FEED_MOST_OF(L_MS));
    assert_int_equal(feed_start(&f), TL_GO);
    feed_assert_asked(&f, "rest");
}

TEST(a_settlement_waits_for_that) {
    static tl_settle settlement;
    tl_job job = stamp_job(&tl__protocol_bridge);
    is_held(&job);
    job.release.rest_ms = REST_MS;
    job.release.rest_since = feed_ms(0);
    job.release.rest_since_us = FEED_SERVER_US;
    feed_init(&f, &settlement, tl__settle_step);
    tl__settle_init(&settlement, &job, TL_RELEASE, job.hold.believed, 1);
    (void)feed_start(&f);
    assert_int_equal(f.sends, 0);
    (void)feed_await(&f);
    assert_int_equal(f.now.ns, FEED_START_NS + FEED_MOST_OF(L_MS));
    feed_assert_asked(&f, "rest");
    (void)feed_reply(&f, "1");
    assert_int_equal(f.status, TL_END);
    assert_int_equal(settlement.result.code, TL_OK);
}

TEST(a_losers_stamp_is_replaced_by_one_that_rests) {
    begin();
    assert_int_equal(feed_reply(&f, "'%s'", legacy_stamp(M_MS)), TL_GO);
    feed_assert_asked(&f, "rest");
    assert_int_equal(args(), 14);
    assert_string_equal(feed_arg(&f, 12), legacy_stamp(M_MS));
    assert_string_equal(feed_arg(&f, 13), legacy_stamp(M_MS));
    (void)feed_reply(&f, "1");
    expect(&f, TL_OK, false);
}

/* The sidecar would exclude others: it is freed, as by a release. */
TEST(a_thiefs_stamp_does_not_rest) {
    begin();
    assert_int_equal(feed_reply(&f, "'%s'", legacy_stamp(M_MS + 1)), TL_GO);
    feed_assert_asked(&f, "release");
    assert_int_equal(args(), 2);
    (void)feed_reply(&f, "'%s'", legacy_stamp(M_MS + 1));
    expect(&f, TL_ETAKEN, false);
    begin();
    (void)feed_reply(&f, "-1");
    expect(&f, TL_EEXPIRED, false);
}

TEST(a_losers_stamp_that_the_sidecar_does_not_give_back_does_not_rest) {
    begin();
    (void)feed_reply(&f, "'%s'", legacy_stamp(0));
    feed_assert_asked(&f, "rest");
    (void)feed_reply(&f, "'%s'", legacy_stamp(0));
    feed_assert_asked(&f, "release");
    (void)feed_reply(&f, "'%s'", legacy_stamp(0));
    expect(&f, TL_ETAKEN, false);
}

/* A renewal that was in flight has written it again in between. */
TEST(what_was_freed_instead_is_no_success) {
    begin();
    (void)feed_reply(&f, "'%s'", legacy_stamp(M_MS + 1));
    (void)feed_reply(&f, "1");
    expect(&f, TL_EEXPIRED, false);
}

/* Our own, past its end by some legacy client's clock: it is freed, and that is no rest. */
TEST(a_stamp_of_ours_that_is_over_is_freed_and_does_not_rest) {
    begin();
    for (int i = 0; f.status == TL_GO && i < 3; i++)
        (void)feed_reply(&f, i < 2 && args() > 8 ? "'%s'" : "1", text_of(START_MS + T_MS));
    feed_assert_asked(&f, "release");
    expect(&f, TL_EEXPIRED, false);
}

/* ---- where it can't be done -------------------------------------------------------------------- */

/* The stamp stays until its end: nobody acquires the lock within the period. */
TEST(without_scripts_nothing_rests_and_nothing_is_released) {
    prepare_rest(&tl__protocol_timestamp);
    (void)feed_start(&f);
    feed_assert_asked(&f, "rest");
    assert_int_equal(feed_reply(&f, "-ERR unknown command 'EVALSHA'"), TL_END);
    expect(&f, TL_EUNSUPPORTED, false);
    assert_non_null(strstr(f.out.message, "EVAL"));
    for (uint8_t level = TL_LEVEL_WATCH; level <= TL_LEVEL_PLAIN; level++) {
        prepare_rest(&tl__protocol_timestamp);
        f.server.level = level;
        assert_int_equal(feed_start(&f), TL_END);
        expect(&f, TL_EUNSUPPORTED, false);
        assert_non_null(strstr(f.out.message, "EVAL"));
    }
}

/* Nothing is written: the refusal comes before the work. */
TEST(without_scripts_a_lock_that_is_to_rest_is_not_acquired) {
    prepare(&f, &tl__protocol_timestamp, TL_ACQUIRE);
    m.job.acquire.will_rest = true;
    (void)feed_start(&f);
    feed_assert_asked(&f, "acquire");
    assert_int_equal(feed_reply(&f, "-ERR unknown command 'EVALSHA'"), TL_END);
    expect(&f, TL_EUNSUPPORTED, false);
    assert_non_null(strstr(f.out.message, "can't rest"));
    for (uint8_t level = TL_LEVEL_WATCH; level <= TL_LEVEL_PLAIN; level++) {
        prepare(&f, &tl__protocol_timestamp, TL_ACQUIRE);
        m.job.acquire.will_rest = true;
        f.server.level = level;
        assert_int_equal(feed_start(&f), TL_END);
        expect(&f, TL_EUNSUPPORTED, false);
        assert_non_null(strstr(f.out.message, "can't rest"));
    }
}

static tl_status redirect(tl_redirect_kind kind) {
    return feed_event(&f,
                      (tl_event){.kind = TL_FAILED,
                                 .asked = {.ticket = f.last.ticket, .sent = f.sent},
                                 .failed = {.why = TL_EELSEWHERE,
                                            .redirect = (uint8_t)kind,
                                            .message = TL_LITERAL("another node has the key")}});
}

TEST(in_a_slot_that_is_being_moved_it_rests_later) {
    for (int kind = TL_ASK; kind <= TL_TRY_AGAIN; kind++) {
        if (kind != TL_ASK && kind != TL_TRY_AGAIN)
            continue;
        prepare_rest(&tl__protocol_bridge);
        m.job.rules.nodes = true;
        (void)feed_start(&f);
        assert_int_equal(redirect((tl_redirect_kind)kind), TL_END);
        expect(&f, TL_EUNAVAILABLE, false);
        assert_non_null(strstr(f.out.message, "being moved"));
    }
}

/* S has noted what a renewal of K alone has written, and the script reads that. */
TEST(once_it_has_moved_it_rests_by_one_script) {
    prepare_rest(&tl__protocol_bridge);
    m.job.rules.nodes = true;
    m.job.hold.proof.unbound = true;
    (void)feed_start(&f);
    feed_assert_asked(&f, "rest");
    assert_int_equal(f.last.command[0].nkeys, 3);
    assert_int_equal(feed_arg_int(&f, 11), M_MS + L_MS + 2000);
}
