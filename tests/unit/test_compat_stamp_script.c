/*
 * Stamps with a sidecar: what takes, keeps and drops say, and what each answer is worth.
 */
#include "stamp_feed.h"
#include "renewals.h"

#include "protocol/renew.h"
#include "protocol/settle.h"

static const tl_protocol *const both[] = {&tl__protocol_bridge, &tl__protocol_timestamp};

static void begin(feed *f, tl_op op) {
    prepare(f, &tl__protocol_bridge, op);
    assert_int_equal(feed_start(f), TL_GO);
}

static void begin_with_ttl(feed *f, int64_t ttl_ms) {
    prepare(f, &tl__protocol_bridge, TL_ACQUIRE);
    m.job.ttl_ms = ttl_ms;
    assert_int_equal(feed_start(f), TL_GO);
}

/* The last send takes K from exactly this. */
static void assert_takes_from(const feed *f, const char *value) {
    feed_assert_asked(f, "acquire");
    assert_int_equal(feed_arg(f, 8)[0], '=');
    assert_string_equal(feed_arg(f, 8) + 1, value);
}

/* ---- asking ---------------------------------------------------------------------------------- */

TEST(take_expects_nothing_and_writes_the_end_of_the_lifetime) {
    for (size_t i = 0; i < 2; i++) {
        feed f;
        prepare(&f, both[i], TL_ACQUIRE);
        assert_int_equal(feed_start(&f), TL_GO);
        feed_assert_asked(&f, "acquire");
        assert_string_equal(feed_arg(&f, 0), TOKEN);
        assert_int_equal(feed_arg_int(&f, 7), START_MS + T_MS);
        assert_string_equal(feed_arg(&f, 8), "");
        assert_int_equal(feed_arg_int(&f, 1), T_MS + GRACE_MS);
        assert_int_equal(feed_arg(&f, 9)[0], '@');
        assert_string_equal(feed_arg(&f, 9) + 1, text_of((START_MS + T_MS + M_MS) * 1000));
        assert_int_equal(feed_arg_int(&f, 2), feed_server_us(ATTEMPT_MS) - 400);
        assert_int_equal(feed_since(f.last.by), ATTEMPT_MS);
    }
}

TEST(the_garbage_lifetime_grows_with_a_long_one) {
    feed f;
    prepare(&f, &tl__protocol_bridge, TL_ACQUIRE);
    m.job.rules.legacy_ttl_min_ms = m.job.ttl_ms = 500000;
    (void)feed_start(&f);
    assert_int_equal(feed_arg_int(&f, 1), 11 * 500000);
}

TEST(a_stamp_counts_from_the_earliest_that_the_servers_clock_can_show) {
    feed f;
    prepare(&f, &tl__protocol_bridge, TL_ACQUIRE);
    f.server.anchor.offset.lo -= 700000;
    f.server.anchor.offset.hi += 90000;
    (void)feed_start(&f);
    assert_int_equal(feed_arg_int(&f, 7), START_MS - 700 + T_MS);
}

/* A former one may have made it a token, its answer lost, in a phase whose lease is over. */
TEST(keep_that_finds_its_own_token_holds_by_that) {
    feed f;
    begin(&f, TL_RENEW);
    (void)answer_keep(&f, 1, TOKEN, 5000);
    expect(&f, TL_OK, false);
    assert_int_equal(result()->proof.kind, TL_PROOF_TOKEN);
    assert_int_equal(result()->deadline.ns, feed_ms(5000).ns - DRIFT_OF(5000));
}

TEST(take_that_finds_its_own_token_holds_by_that) {
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)answer_take(&f, 1, TOKEN, 5000, true);
    expect(&f, TL_OK, false);
    assert_int_equal(result()->proof.kind, TL_PROOF_TOKEN);
}

TEST(keep_writes_a_later_stamp_and_says_who_we_are) {
    feed f;
    prepare(&f, &tl__protocol_bridge, TL_RENEW);
    feed_at(&f, 10000);
    f.server.anchor.at = f.now;
    (void)feed_start(&f);
    feed_assert_asked(&f, "renew");
    assert_string_equal(feed_arg(&f, 3), TOKEN);
    assert_int_equal(feed_arg_int(&f, 4), START_MS + 10000 + T_MS);
    assert_int_equal(feed_arg_int(&f, 5), T_MS + GRACE_MS);
    assert_string_equal(feed_arg(&f, 6) + 1, text_of((START_MS + 10000 + T_MS + M_MS) * 1000));
}

TEST(drop_says_the_token_alone) {
    feed f;
    begin(&f, TL_RELEASE);
    feed_assert_asked(&f, "release");
    assert_string_equal(feed_arg(&f, 0), TOKEN);
}

TEST(a_dialect_that_names_its_writer_is_given_the_token) {
    feed f;
    prepare(&f, &tl__protocol_bridge, TL_ACQUIRE);
    m.job.rules.dialect = dialect("ms-pipe");
    (void)feed_start(&f);
    char want[TL_STAMP_SIZE];
    (void)snprintf(want, sizeof want, "%lld|" TOKEN, (long long)(START_MS + T_MS));
    assert_string_equal(feed_arg(&f, 7), want);
}

/* ---- what a take is worth -------------------------------------------------------------------- */

/* The stamp ends 30 s after the start; the script ran `ran_us` after that. */
static int64_t worth_ns(int64_t ran_us) {
    feed f;
    begin_with_ttl(&f, 30000);
    feed_at(&f, 900);
    int64_t us = FEED_SERVER_US + ran_us;
    (void)feed_reply(&f, "[1 '%s' %d '77' '%s' '%s' 1 1]", text_of(START_MS + 30000),
                     30000 + GRACE_MS, text_of(us / 1000000), text_of(us % 1000000));
    expect(&f, TL_OK, false);
    assert_int_equal(result()->acquire.fence, 77);
    return result()->deadline.ns - FEED_START_NS;
}

TEST(held_from_the_asking_for_what_the_stamp_has_left_less_m_and_drift) {
    assert_int_equal(worth_ns(0), INT64_C(29000000000) - DRIFT_OF(29000));
    assert_int_equal(worth_ns(400000), INT64_C(28600000000) - DRIFT_OF(28600));
    assert_int_equal(worth_ns(400001), INT64_C(28599000000) - DRIFT_OF(28599));
}

TEST(an_older_stamp_is_worth_what_it_has_left_never_a_lifetime) {
    feed f;
    begin_with_ttl(&f, 30000);
    (void)answer_take(&f, 1, text_of(START_MS + 12345), 60000, true);
    expect(&f, TL_OK, false);
    assert_int_equal(result()->deadline.ns, feed_ms(11345).ns - DRIFT_OF(11345));
    assert_int_equal(result()->proof.stamp.end_ms, START_MS + 12345);
    begin_with_ttl(&f, 30000);
    (void)answer_take(&f, 1, text_of(START_MS + 500), 60000, true);
    assert_int_equal(f.status, TL_GO); /* over already: it is moved on */
    feed_assert_asked(&f, "renew");
    (void)answer_keep(&f, 1, text_of(START_MS + 30000), 60000);
    expect(&f, TL_OK, false);
    assert_int_equal(result()->deadline.ns, feed_ms(29000).ns - DRIFT_OF(29000));
}

/* Another server may have answered the keep than the take before. */
TEST(with_quiet_ms_a_stamp_is_believed_by_a_take_alone) {
    feed f;
    prepare(&f, &tl__protocol_bridge, TL_ACQUIRE);
    m.job.acquire.quiet_ms = T_MS;
    (void)feed_start(&f);
    assert_int_equal(feed_arg_int(&f, 10), T_MS);
    (void)answer_take(&f, 1, text_of(START_MS + 500), 60000, true);
    feed_assert_asked(&f, "renew");
    (void)answer_keep(&f, 1, text_of(START_MS + T_MS), 60000);
    feed_assert_asked(&f, "acquire"); /* at once: after a pause the stamp may be over again */
    assert_int_equal(feed_arg_int(&f, 10), T_MS);
    (void)answer_take(&f, 1, text_of(START_MS + T_MS), 60000, true);
    expect(&f, TL_OK, false);
}

TEST(a_stamp_that_was_renewed_is_dropped_if_it_cannot_be_acquired_again) {
    feed f;
    enum { BUSY, LATE, REFUSED, HOW };
    for (int how = BUSY; how < HOW; how++) {
        prepare(&f, &tl__protocol_bridge, TL_ACQUIRE);
        m.job.acquire.quiet_ms = T_MS;
        (void)feed_start(&f);
        (void)answer_take(&f, 1, text_of(START_MS + 500), 60000, true);
        (void)answer_keep(&f, 1, text_of(START_MS + T_MS), 60000);
        feed_assert_asked(&f, "acquire");
        if (how == REFUSED)
            (void)feed_failed(&f, false, TL_EUNAVAILABLE, "connection refused");
        else
            (void)answer_take(&f, how == BUSY ? 0 : -1, text_of(START_MS + 90000), 60000, true);
        expect(&f, how == BUSY ? TL_EBUSY : TL_EUNAVAILABLE, how != BUSY);
    }
}

TEST(a_stamp_that_is_not_given_yet_is_not_believed) {
    feed f;
    prepare(&f, &tl__protocol_bridge, TL_ACQUIRE);
    m.job.acquire.quiet_ms = T_MS;
    (void)feed_start(&f);
    (void)answer_take(&f, 0, text_of(START_MS - 60000), -1, false);
    feed_assert_asked(&f, "acquire"); /* in the place of one that is over */
    assert_int_equal(feed_arg_int(&f, 10), T_MS);
    (void)feed_withheld(&f, 700);
    expect(&f, TL_EUNAVAILABLE, true);
    assert_int_equal(feed_since(result()->acquire.hint), 700);
}

/* A holder believes already. */
TEST(what_a_holder_takes_back_is_asked_for_without_quiet_ms) {
    feed f;
    prepare(&f, &tl__protocol_bridge, TL_RENEW);
    m.job.acquire.quiet_ms = T_MS;
    (void)feed_start(&f);
    feed_assert_asked(&f, "renew");
    (void)answer_keep(&f, 0, text_of(START_MS + LEGACY_MS - 1), 60000);
    feed_assert_asked(&f, "acquire");
    assert_int_equal(f.last.command[0].argc, 4 + 10);
}

TEST(more_than_our_lifetime_in_the_stamp_counts_for_nothing) {
    feed f;
    begin_with_ttl(&f, 30000);
    (void)answer_take(&f, 1, text_of(START_MS + 40000), 60000, true);
    assert_int_equal(result()->deadline.ns, feed_ms(30000).ns - DRIFT_OF(30000));
}

TEST(a_take_is_capped_by_what_a_racing_loser_may_leave) {
    feed f;
    begin(&f, TL_ACQUIRE);
    feed_at(&f, 20);
    (void)answer_take(&f, 1, text_of(START_MS + T_MS), T_MS + GRACE_MS, true);
    expect(&f, TL_OK, false);
    assert_int_equal(result()->deadline.ns, feed_ms(CAP_MS).ns - DRIFT_OF(CAP_MS));
    assert_int_equal(result()->proof.stamp.cap.ns, feed_ms(CAP_MS).ns - DRIFT_OF(CAP_MS));
    assert_int_equal(result()->proof.stamp.capped_until.ns, feed_ms(20).ns + FEED_MOST_OF(L_MS));
    assert_int_equal(result()->proof.stamp.proved_us, feed_server_us(20));
    assert_int_equal(result()->proof.stamp.end_ms, START_MS + T_MS);
    assert_false(result()->acquire.stamp_is_token);
}

TEST(a_take_that_shows_no_stamp_or_no_time_makes_no_sense) {
    static const char *const values[] = {"nil", "'x" TOKEN "'", "''", "'60000'", "7"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        feed f;
        begin(&f, TL_ACQUIRE);
        (void)feed_reply(&f, "[1 %s 60000 '77' %s 1 1]", values[i], feed_time(&f));
        expect(&f, TL_ESERVER, true);
    }
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)feed_reply(&f, "[1 '%s' 60000 '77' '0' '0' 1 1]", text_of(START_MS + T_MS));
    expect(&f, TL_ESERVER, true);
}

TEST(too_few_replicas_are_no_lock) {
    feed f;
    prepare(&f, &tl__protocol_bridge, TL_ACQUIRE);
    m.job.wait_replicas = 1;
    (void)feed_start(&f);
    assert_int_equal(f.last.count, 2);
    (void)feed_reply(&f, "[1 '%s' 60000 '77' %s 1 1] 0", text_of(START_MS + T_MS), feed_time(&f));
    expect(&f, TL_EUNAVAILABLE, true);
}

/* ---- what K holds of others ------------------------------------------------------------------ */

/* Not parsable, or no time at all: held for as long as K lives. */
TEST(what_is_no_stamp_is_held) {
    static const struct {
        const char *dialect, *value;
    } all[] = {{"java", "another"},
               {"java", TOKEN},
               {"java", "1699"},
               {"java", "999999999999"},
               {"java", "1600000000000x"},
               {"java", " 1600000000000"},
               {"java", "-1600000000000"},
               {"java", "9999999999999999"},
               {"java", ""},
               {"py-float", "1"},
               {"py-float", "2147483649.0"},
               {"rb-resque", "true"},
               {"java", NULL}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        feed f;
        prepare(&f, &tl__protocol_bridge, TL_ACQUIRE);
        m.job.rules.dialect = dialect(all[i].dialect);
        (void)feed_start(&f);
        (void)answer_take(&f, 0, all[i].value, -1, false);
        expect(&f, TL_EBUSY, false);
        assert_int_equal(result()->acquire.hint.ns, INT64_MAX);
        prepare(&f, &tl__protocol_bridge, TL_ACQUIRE);
        m.job.rules.dialect = dialect(all[i].dialect);
        (void)feed_start(&f);
        (void)answer_take(&f, 0, all[i].value, 4000, false);
        expect(&f, TL_EBUSY, false);
        assert_int_equal(feed_since(result()->acquire.hint), 4001);
    }
}

/* The earliest and the latest that is likely: from 2001-09-09 to ten years ahead. */
TEST(a_number_is_a_time_from_2001_to_ten_years_ahead) {
    const int64_t ahead = START_MS + INT64_C(3653) * 86400000;
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)answer_take(&f, 0, text_of(1000000000000), -1, false);
    assert_takes_from(&f, "1000000000000");
    begin(&f, TL_ACQUIRE);
    (void)answer_take(&f, 0, text_of(999999999999), -1, false);
    expect(&f, TL_EBUSY, false);
    begin(&f, TL_ACQUIRE);
    (void)answer_take(&f, 0, text_of(ahead), -1, false);
    expect(&f, TL_EBUSY, false);
    assert_int_not_equal(result()->acquire.hint.ns, INT64_MAX);
    begin(&f, TL_ACQUIRE);
    (void)answer_take(&f, 0, text_of(ahead + 1), -1, false);
    expect(&f, TL_EBUSY, false);
    assert_int_equal(result()->acquire.hint.ns, INT64_MAX);
}

/* Free when first free, and M and L after that, are over; until a ms before it is held. */
static void assert_free_after(const char *name, const char *value, int64_t first_free_ms) {
    for (int late = 0; late < 2; late++) {
        feed f;
        prepare(&f, &tl__protocol_bridge, TL_ACQUIRE);
        m.job.rules.dialect = dialect(name);
        (void)feed_start(&f);
        feed_at(&f, first_free_ms + M_MS + L_MS + late - START_MS);
        (void)answer_take(&f, 0, value, -1, false);
        if (late) {
            assert_int_equal(f.status, TL_GO);
            assert_takes_from(&f, value);
        } else {
            expect(&f, TL_EBUSY, false);
            assert_int_equal(result()->acquire.hint.ns, f.now.ns + 1000000);
            assert_false(result()->acquire.announced);
        }
    }
}

TEST(a_stamp_is_free_when_m_and_l_have_passed_since_the_first_could_take_it) {
    const int64_t end = START_MS + 100, whole = (START_MS / 1000 + 7) * 1000;
    char real[32];
    assert_free_after("java", text_of(end), end + 1);
    assert_free_after("node-ms", text_of(end), end);
    assert_free_after("redis-doc", text_of(whole / 1000), whole);
    assert_free_after("php-s", text_of(whole / 1000), whole + 1000);
    (void)snprintf(real, sizeof real, "%lld.100000", (long long)(whole / 1000));
    assert_free_after("py-float-1", real, whole + 101);
    (void)snprintf(real, sizeof real, "%lld.100999", (long long)(whole / 1000));
    assert_free_after("py-float-1", real, whole + 102); /* a reader may round it to .101 */
}

TEST(judging_follows_the_servers_time_in_the_answer_itself) {
    feed f;
    begin(&f, TL_ACQUIRE);
    f.server.anchor.known = false;
    (void)feed_reply(&f, "[0 '%s' -1 '77' '%s' '999999' 1 0]", text_of(START_MS + 498),
                     text_of(START_MS / 1000 + 1));
    expect(&f, TL_EBUSY, false);
    begin(&f, TL_ACQUIRE);
    (void)feed_reply(&f, "[0 '%s' -1 '77' '%s' '0' 1 0]", text_of(START_MS + 498),
                     text_of(START_MS / 1000 + 2));
    assert_takes_from(&f, text_of(START_MS + 498));
}

TEST(a_stamp_with_a_lifetime_of_its_own_is_held_while_that_lasts) {
    feed f;
    const char *old = text_of(START_MS - 100000);
    begin(&f, TL_ACQUIRE);
    (void)answer_take(&f, 0, old, 3000, false);
    expect(&f, TL_EBUSY, false);
    assert_int_equal(feed_since(result()->acquire.hint), 3001);
    begin(&f,
          TL_ACQUIRE); /* but one that S knows is a tidelock client's, whose lifetime is garbage */
    (void)answer_take(&f, 0, old, 3000, true);
    assert_takes_from(&f, old);
}

TEST(a_tidelock_holder_is_waited_for_and_will_announce) {
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)answer_take(&f, 0, text_of(START_MS + 4000), GRACE_MS, true);
    expect(&f, TL_EBUSY, false);
    assert_true(result()->acquire.announced && result()->acquire.checked &&
                !result()->acquire.silent);
    assert_int_equal(feed_since(result()->acquire.hint), 4000 + 1 + M_MS + L_MS + 1);
}

TEST(s_binds_while_k_is_gone) {
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)answer_take(&f, 0, NULL, 5000, true);
    expect(&f, TL_EBUSY, false);
    assert_int_equal(feed_since(result()->acquire.hint), 5001);
    assert_true(result()->acquire.announced);
}

/* ---- taking over ----------------------------------------------------------------------------- */

static void begin_taking_over(feed *f, const char *value) {
    begin(f, TL_ACQUIRE);
    feed_at(f, 30);
    (void)answer_take(f, 0, value, -1, false);
    assert_int_equal(f->status, TL_GO);
    assert_takes_from(f, value);
}

TEST(a_take_over_compares_the_bytes_and_counts_from_its_own_asking) {
    feed f;
    begin_taking_over(&f, text_of(START_MS - 60000));
    assert_int_equal(f.last.ticket, TICKET);
    assert_int_equal(feed_since(f.last.by), 30 + ATTEMPT_MS);
    assert_in_range(feed_arg_int(&f, 7), START_MS + 29 + T_MS, START_MS + 30 + T_MS);
    feed_at(&f, 70);
    (void)answer_take(&f, 1, text_of(START_MS + 30 + T_MS), T_MS + GRACE_MS, true);
    expect(&f, TL_OK, false);
    assert_int_equal(result()->deadline.ns, feed_ms(30 + CAP_MS).ns - DRIFT_OF(CAP_MS));
    assert_int_equal(result()->proof.stamp.capped_until.ns, feed_ms(70).ns + FEED_MOST_OF(L_MS));
}

TEST(a_take_over_that_another_won_finds_it_held) {
    feed f;
    begin_taking_over(&f, text_of(START_MS - 60000));
    (void)answer_take(&f, 0, text_of(START_MS + 60000), -1, false);
    expect(&f, TL_EBUSY, false);
    assert_int_equal(feed_since(result()->acquire.hint), 60000 + 1 + M_MS + L_MS + 1);
}

TEST(what_changes_again_and_again_is_followed_three_times) {
    feed f;
    begin_taking_over(&f, text_of(START_MS - 60000));
    for (int i = 1; i < TL_STAMP_ROUNDS; i++) {
        const char *other = text_of(START_MS - 60000 + i);
        (void)answer_take(&f, 0, other, -1, false);
        assert_takes_from(&f, other);
    }
    (void)answer_take(&f, 0, text_of(START_MS - 50000), -1, false);
    expect(&f, TL_EBUSY, false);
}

TEST(a_take_over_is_not_begun_when_the_asker_has_moved_on) {
    feed f;
    begin(&f, TL_ACQUIRE);
    feed_at(&f, UNTIL_MS);
    (void)answer_take(&f, 0, text_of(START_MS - 60000), -1, false);
    expect(&f, TL_EBUSY, false);
}

TEST(a_take_over_that_s_refuses_waits_for_what_binds) {
    feed f;
    const char *old = text_of(START_MS - 60000);
    begin_taking_over(&f, old);
    (void)answer_take(&f, 0, old, 9000, true); /* K is as it was: so another is bound to it */
    expect(&f, TL_EBUSY, false);
    assert_int_equal(feed_since(result()->acquire.hint), 30 + 9001);
}

/* A take whose own stamp is in K yet, and over: it asks K to be kept. */
static void begin_renewing(feed *f) {
    begin(f, TL_ACQUIRE);
    (void)answer_take(f, 1, text_of(START_MS + M_MS), GRACE_MS, true);
    assert_int_equal(f->status, TL_GO);
    feed_assert_asked(f, "renew");
}

TEST(a_take_that_finds_its_own_stamp_over_renews_it) {
    feed f;
    begin_renewing(&f);
    (void)answer_keep(&f, 1, text_of(START_MS + T_MS), GRACE_MS);
    expect(&f, TL_OK, false);
    assert_int_equal(result()->proof.stamp.end_ms, START_MS + T_MS);
    assert_int_equal(result()->acquire.fence, 77);
    assert_int_equal(result()->deadline.ns, feed_ms(CAP_MS).ns - DRIFT_OF(CAP_MS));
}

TEST(what_another_took_before_that_is_busy) {
    static const int statuses[] = {0, -1};
    for (size_t i = 0; i < 2; i++) {
        feed f;
        begin_renewing(&f);
        (void)answer_keep(&f, statuses[i], i ? NULL : text_of(START_MS + T_MS), GRACE_MS);
        expect(&f, TL_EBUSY, false);
    }
    feed f;
    begin_renewing(&f);
    (void)answer_keep(&f, -2, NULL, -1); /* too late: it may be ours yet, and has to be released */
    expect(&f, TL_EUNAVAILABLE, true);
}

TEST(refusals_of_a_take_are_told_apart) {
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)answer_take(&f, -1, NULL, -1, false);
    expect(&f, TL_EUNAVAILABLE, false);
    begin(&f, TL_ACQUIRE);
    (void)answer_take(&f, -2, NULL, -1, false);
    expect(&f, TL_ESERVER, false);
    begin(&f, TL_ACQUIRE);
    (void)answer_take(&f, 2, NULL, -1, false);
    expect(&f, TL_ESERVER, true);
    begin(&f, TL_ACQUIRE);
    (void)feed_reply(&f, "7");
    expect(&f, TL_ESERVER, true);
}

/* ---- keeping --------------------------------------------------------------------------------- */

/* A keep of the hold, asked `asked_ns` after the end of the time in which takes are capped. */
static int64_t kept_until(int64_t asked_ns) {
    feed f;
    prepare(&f, &tl__protocol_bridge, TL_RENEW);
    f.now = tl__mono_add_ns(m.job.hold.proof.stamp.capped_until, asked_ns);
    (void)feed_start(&f);
    (void)answer_keep(&f, 1, text_of(server_ms(&f) + T_MS), GRACE_MS);
    expect(&f, TL_OK, false);
    assert_int_equal(result()->proof.stamp.cap.ns, m.job.hold.proof.stamp.cap.ns);
    assert_int_equal(result()->proof.stamp.capped_until.ns, m.job.hold.proof.stamp.capped_until.ns);
    return result()->deadline.ns;
}

TEST(a_keep_asked_more_than_l_after_the_take_is_not_capped_any_more) {
    assert_int_equal(kept_until(-1000000), feed_ms(CAP_MS).ns);
    assert_int_equal(kept_until(0), feed_ms(CAP_MS).ns);
    assert_true(kept_until(1) >= feed_ms(L_MS + T_MS - M_MS - 1).ns - DRIFT_OF(T_MS));
}

TEST(kept_counts_from_the_asking_what_the_stamp_has_left) {
    feed f;
    prepare(&f, &tl__protocol_bridge, TL_RENEW);
    feed_at(&f, 20000);
    (void)feed_start(&f);
    feed_at(&f, 20300);
    (void)answer_keep(&f, 1, text_of(START_MS + 20000 + T_MS), GRACE_MS);
    expect(&f, TL_OK, false);
    assert_int_equal(result()->deadline.ns,
                     feed_ms(20000 + T_MS - 300 - M_MS).ns - DRIFT_OF(T_MS - 300 - M_MS));
    assert_int_equal(result()->proof.stamp.proved_us, feed_server_us(20300));
    assert_int_equal(result()->proof.stamp.end_ms, START_MS + 20000 + T_MS);
}

TEST(the_first_keep_of_an_adopted_lock_is_capped_like_a_take) {
    feed f;
    prepare(&f, &tl__protocol_bridge, TL_RENEW);
    m.job.hold.proof = (tl_proof){0};
    m.job.hold.believed = (tl_mono){0};
    (void)feed_start(&f);
    feed_at(&f, 20);
    (void)answer_keep(&f, 1, text_of(START_MS + T_MS), GRACE_MS);
    expect(&f, TL_OK, false);
    assert_int_equal(result()->deadline.ns, feed_ms(CAP_MS).ns - DRIFT_OF(CAP_MS));
    assert_int_equal(result()->proof.stamp.capped_until.ns, feed_ms(20).ns + FEED_MOST_OF(L_MS));
}

TEST(a_keep_that_finds_nothing_has_lost) {
    feed f;
    begin(&f, TL_RENEW);
    (void)answer_keep(&f, -1, NULL, -1);
    expect_lost(&f, TL_LOST_GONE, false);
    begin(&f, TL_RENEW);
    (void)answer_keep(&f, 0, NULL, -1); /* no string */
    expect_lost(&f, TL_LOST_TAKEN, false);
}

TEST(a_keep_that_came_too_late_proves_no_loss) {
    feed f;
    begin(&f, TL_RENEW);
    (void)answer_keep(&f, -2, text_of(START_MS + T_MS), 1000);
    expect(&f, TL_EUNAVAILABLE, false);
}

/* ---- overwritten, or stolen? ----------------------------------------------------------------- */

/* What a legacy client writes whose clock shows so much more than the server's did at the take. */
static const char *legacy_stamp(int64_t ahead_ms) {
    return text_of(START_MS + ahead_ms + LEGACY_MS);
}

TEST(a_racing_losers_stamp_is_taken_back) {
    feed f;
    const char *losers = legacy_stamp(M_MS); /* the fastest clock that is allowed */
    begin(&f, TL_RENEW);
    feed_at(&f, 40);
    (void)answer_keep(&f, 0, losers, -1);
    assert_int_equal(f.status, TL_GO);
    assert_takes_from(&f, losers);
    assert_string_equal(feed_arg(&f, 0), TOKEN);
    assert_int_equal(feed_since(f.last.by), 40 + ATTEMPT_MS);
    feed_at(&f, 1000);
    (void)answer_take(&f, 1, text_of(START_MS + 40 + T_MS), GRACE_MS, true);
    expect(&f, TL_OK, false);
    assert_int_equal(result()->deadline.ns, feed_ms(CAP_MS).ns); /* asked within L: capped */
    assert_int_equal(result()->proof.stamp.proved_us, feed_server_us(1000));
}

/* It writes within L of the take. By a proof that is as late the key was still ours, so the stamp is a later client's. */
TEST(after_l_no_stamp_is_a_racing_losers) {
    for (int late = 0; late < 2; late++) {
        feed f;
        begin(&f, TL_RENEW);
        m.job.hold.proved = tl__mono_add_ns(feed_ms(L_MS), late - 1);
        (void)answer_keep(&f, 0, legacy_stamp(0), -1);
        if (late)
            expect_lost(&f, TL_LOST_TAKEN, false);
        else
            assert_takes_from(&f, legacy_stamp(0));
        begin(&f, TL_RELEASE);
        m.job.hold.proved = tl__mono_add_ns(feed_ms(L_MS), late - 1);
        (void)answer_drop(&f, 0, legacy_stamp(0));
        assert_int_equal(f.status, TL_END);
        assert_int_equal(result()->code, late ? TL_ETAKEN : TL_OK);
    }
}

/* What was known of the server's clock before this answer counts no more: it might show a time by which the
 * request would be refused. */
TEST(taking_back_goes_by_the_time_that_was_just_told) {
    feed f;
    prepare(&f, both[0], TL_RENEW);
    f.server.drift_ppm = 101500;
    feed_at(&f, 15000);
    (void)feed_start(&f);
    feed_at(&f, 15040);
    (void)answer_keep(&f, 0, legacy_stamp(0), -1);
    assert_takes_from(&f, legacy_stamp(0));
    assert_true(feed_arg_int(&f, 2) >= feed_server_us(15040 + ATTEMPT_MS / 2));
}

TEST(a_stamp_of_a_clock_beyond_m_has_robbed_us) {
    feed f;
    begin(&f, TL_RENEW);
    feed_at(&f, 400);
    (void)answer_keep(&f, 0, legacy_stamp(M_MS + 1), -1);
    expect_lost(&f, TL_LOST_TAKEN, true);
    assert_int_equal(result()->lost.thief_ahead_ms, M_MS + 1 - 400);
}

TEST(the_last_proof_decides_who_is_a_loser) {
    feed f;
    prepare(&f, &tl__protocol_bridge, TL_RENEW);
    m.job.hold.proof.stamp.proved_us = feed_server_us(20000);
    m.job.hold.believed = feed_ms(70000);
    feed_at(&f, 30000);
    (void)feed_start(&f);
    (void)answer_keep(&f, 0, legacy_stamp(20000 + M_MS), -1);
    assert_int_equal(f.status, TL_GO);
    prepare(&f, &tl__protocol_bridge, TL_RENEW);
    m.job.hold.proof.stamp.proved_us = feed_server_us(20000);
    m.job.hold.believed = feed_ms(70000);
    feed_at(&f, 30000);
    (void)feed_start(&f);
    (void)answer_keep(&f, 0, legacy_stamp(20000 + M_MS + 1), -1);
    expect_lost(&f, TL_LOST_TAKEN, false); /* but its clock may be right */
}

TEST(what_dialects_add_is_not_taken_for_the_clock) {
    feed f;
    prepare(&f, &tl__protocol_bridge, TL_RENEW);
    m.job.rules.dialect = dialect("jedis-lock"); /* adds a ms */
    (void)feed_start(&f);
    (void)answer_keep(&f, 0, legacy_stamp(M_MS + 1), -1);
    assert_int_equal(f.status, TL_GO);
}

TEST(nothing_is_taken_back_once_the_time_is_over) {
    for (int late = 0; late < 2; late++) {
        feed f;
        begin(&f, TL_RENEW);
        f.now = tl__mono_add_ns(m.job.hold.believed, late - 1);
        (void)answer_keep(&f, 0, legacy_stamp(0), -1);
        if (late)
            expect_lost(&f, TL_LOST_TAKEN, false);
        else
            assert_int_equal(f.status, TL_GO);
    }
}

TEST(what_is_no_stamp_is_another_holder) {
    static const char *const values[] = {TOKEN, "x", "17", "", "99999999999999999"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        feed f;
        begin(&f, TL_RENEW);
        (void)answer_keep(&f, 0, values[i], -1);
        expect_lost(&f, TL_LOST_TAKEN, false);
    }
}

/* A waiter compares L after it has written, at the latest: with our stamp, or with one that another's
 * slow clock has left since the proof. */
TEST(waiters_that_always_overwrite_rob_only_near_the_end) {
    for (int row = 0; row < 4; row++) {
        feed f;
        char value[64];
        bool late = row % 2, ours = row < 2;
        prepare(&f, &tl__protocol_bridge, TL_RENEW);
        m.job.rules.dialect = dialect("ms-pipe");
        m.job.hold.proof.stamp.end_ms -= ours ? 2 * M_MS + 2 * L_MS : 0;
        (void)feed_start(&f);
        int64_t end = ours ? m.job.hold.proof.stamp.end_ms : START_MS - L_MS - M_MS + LEGACY_MS;
        int64_t read = end - L_MS - 1 + late;
        (void)snprintf(value, sizeof value, "%lld|x", (long long)(read + LEGACY_MS));
        (void)answer_keep(&f, 0, value, -1);
        if (late)
            expect_lost(&f, TL_LOST_TAKEN, true);
        else
            assert_takes_from(&f, value);
    }
}

/* Any poll of theirs may leave a stamp as early as a racing loser's. */
TEST(where_waiters_always_overwrite_each_keep_is_capped_anew) {
    feed f;
    char value[64];
    prepare(&f, &tl__protocol_bridge, TL_RENEW);
    m.job.rules.dialect = dialect("ms-pipe");
    feed_at(&f, 20000);
    (void)feed_start(&f);
    feed_later(&f, 100);
    (void)snprintf(value, sizeof value, "%lld|" TOKEN, (long long)(START_MS + 20000 + T_MS));
    (void)answer_keep(&f, 1, value, GRACE_MS);
    expect(&f, TL_OK, false);
    int64_t cap_ms = CAP_MS - L_MS;
    assert_int_equal(result()->deadline.ns, feed_ms(20000 + cap_ms).ns - DRIFT_OF(cap_ms));
    assert_int_equal(result()->proof.stamp.cap.ns, result()->deadline.ns);
    assert_int_equal(feed_since(result()->proof.stamp.capped_until), 20100 + L_MS);
}

/* Who replaces it before it ends, and compares then, may be its next holder. */
TEST(where_waiters_always_overwrite_a_lock_ends_l_before_all_that_they_may_find_expired) {
    static const struct {
        const char *dialect, *text;
        int64_t less_ms;
    } rows[] = {{"jedis-lock", "", 0}, {"ms-pipe", "|" TOKEN, L_MS}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        feed f;
        char value[64];
        prepare(&f, &tl__protocol_bridge, TL_ACQUIRE);
        m.job.rules.dialect = dialect(rows[i].dialect);
        m.job.ttl_ms = 20000;
        (void)feed_start(&f);
        (void)snprintf(value, sizeof value, "%lld%s", (long long)(START_MS + 20000), rows[i].text);
        (void)answer_take(&f, 1, value, GRACE_MS, true);
        expect(&f, TL_OK, false);
        int64_t left_ms = 20000 - M_MS - rows[i].less_ms;
        assert_int_equal(result()->deadline.ns, feed_ms(left_ms).ns - DRIFT_OF(left_ms));
    }
}

/* One with a longer lifetime, whose answer is still to come, may be believed for that. */
TEST(what_is_taken_back_from_such_a_waiter_doesnt_end_before_any_keep) {
    feed f;
    char value[64];
    prepare(&f, &tl__protocol_bridge, TL_RENEW);
    m.job.rules.dialect = dialect("ms-pipe");
    m.job.ttl_ms = 10000;
    feed_at(&f, 20000);
    (void)feed_start(&f);
    (void)snprintf(value, sizeof value, "%lld|x", (long long)(START_MS + 10000));
    (void)answer_keep(&f, 0, value, -1);
    assert_takes_from(&f, value);
    int64_t end_ms = strtoll(feed_arg(&f, 7), NULL, 10);
    assert_in_range(end_ms, START_MS + 20000 + CAP_MS + M_MS,
                    START_MS + 20000 + CAP_MS + M_MS + 100); /* the cap spares L, too */
}

/* From the latest that the server's clock can show, with what a fast clock of the server gains on ours until then, M, and rounding. */
TEST(what_is_taken_back_ends_m_after_all_that_may_be_believed) {
    feed f;
    prepare(&f, &tl__protocol_bridge, TL_RENEW);
    m.job.ttl_ms = 10000;
    feed_at(&f, 20000);
    f.server.anchor.at = f.now;
    f.server.anchor.offset.lo -= 7000;
    f.server.anchor.offset.hi += 5000;
    (void)feed_start(&f);
    const char *losers = legacy_stamp(0);
    feed_later(&f, 5); /* the answer doesn't tell it better */
    (void)answer_keep(&f, 0, losers, -1);
    assert_takes_from(&f, losers);
    assert_int_equal(feed_arg_int(&f, 7),
                     START_MS + 5 + CAP_MS + M_MS + (CAP_MS - 20005) / 5000 + 2);
}

/* A keep that is taking its stamp back. */
static void begin_taking_back(feed *f) {
    begin(f, TL_RENEW);
    (void)answer_keep(f, 0, legacy_stamp(-100), -1);
    assert_int_equal(f->status, TL_GO);
}

TEST(taking_back_follows_three_losers_and_then_is_only_at_risk) {
    feed f;
    begin_taking_back(&f);
    for (int i = 1; i < TL_STAMP_ROUNDS; i++) {
        (void)answer_take(&f, 0, legacy_stamp(i), -1, false);
        assert_takes_from(&f, legacy_stamp(i));
    }
    (void)answer_take(&f, 0, legacy_stamp(50), -1, false);
    expect(&f, TL_EUNAVAILABLE, true);
}

TEST(taking_back_ends_with_what_it_finds) {
    feed f;
    begin_taking_back(&f);
    (void)answer_take(&f, 0, legacy_stamp(M_MS + 1), -1, false);
    expect_lost(&f, TL_LOST_TAKEN, true);
    begin_taking_back(&f);
    (void)answer_take(&f, 0, NULL, 4000, true);
    expect_lost(&f, TL_LOST_GONE, false);
    begin_taking_back(&f);
    (void)answer_take(&f, -1, NULL, -1, false);
    expect(&f, TL_EUNAVAILABLE, false);
    begin_taking_back(&f);
    (void)answer_take(&f, -2, NULL, -1, false);
    expect(&f, TL_EUNAVAILABLE, false);
    begin_taking_back(&f);
    (void)feed_reply(&f, "+OK");
    expect(&f, TL_ESERVER, true);
}

TEST(a_stamp_that_s_does_not_give_back_is_lost) {
    feed f;
    begin_taking_back(&f);
    (void)answer_take(&f, 0, legacy_stamp(-100), 4000, true); /* as it was: S names another */
    expect_lost(&f, TL_LOST_TAKEN, false);
}

TEST(a_lost_answer_to_taking_back_is_only_uncertain) {
    feed f;
    begin_taking_back(&f);
    (void)feed_lost(&f);
    expect(&f, TL_EUNCERTAIN, true);
}

/* ---- releasing ------------------------------------------------------------------------------- */

TEST(drop_tells_released_expired_and_taken_apart) {
    static const struct {
        int status;
        int64_t ahead_ms;
        tl_err code;
    } all[] = {{1, 0, TL_OK},
               {-1, 0, TL_EEXPIRED},
               {0, M_MS, TL_OK}, /* a racing loser's stands there: it was ours until now */
               {0, M_MS + 1, TL_ETAKEN}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        feed f;
        begin(&f, TL_RELEASE);
        const char *value = all[i].status < 0 ? NULL : legacy_stamp(all[i].ahead_ms);
        (void)answer_drop(&f, all[i].status, value);
        assert_int_equal(f.status, TL_END);
        assert_int_equal(result()->code, all[i].code);
    }
}

TEST(a_losers_stamp_after_our_time_is_anothers) {
    feed f;
    begin(&f, TL_RELEASE);
    f.now = m.job.hold.believed;
    (void)answer_drop(&f, 0, legacy_stamp(0));
    expect(&f, TL_ETAKEN, false);
    begin(&f, TL_RELEASE);
    (void)answer_drop(&f, 0, NULL);
    expect(&f, TL_ETAKEN, false);
}

/* ---- servers without EVAL -------------------------------------------------------------------- */

/* What it replies: one that doesn't know the command, and a Valkey without its Lua module. */
static const char *const without_eval[] = {"-ERR unknown command 'EVALSHA'",
                                           "-ERR Could not find scripting engine 'lua'"};
#define WITHOUT_EVAL (sizeof without_eval / sizeof *without_eval)

/* That the server won't tell its time says nothing of its scripts. */
TEST(a_time_that_is_refused_is_no_lack_of_scripts) {
    feed f;
    prepare(&f, &tl__protocol_timestamp, TL_ACQUIRE);
    f.server.anchor.at = feed_ms(-3600000);
    f.server.drift_ppm = 100000;
    assert_int_equal(feed_start(&f), TL_GO);
    assert_string_equal(f.last.command[0].argv[0].p, "TIME");
    assert_int_equal(feed_reply(&f, "-ERR unknown command 'TIME'"), TL_END);
    expect(&f, TL_EUNSUPPORTED, false);
    assert_int_equal(f.out.level, TL_LEVEL_UNKNOWN);
}

TEST(the_bridge_refuses_a_server_without_eval) {
    for (unsigned i = 0; i < 3 * WITHOUT_EVAL; i++) {
        feed f;
        begin(&f, (tl_op)(i % 3));
        (void)feed_reply(&f, "%s", without_eval[i / 3]);
        expect(&f, TL_EUNSUPPORTED, false);
        assert_non_null(strstr(f.out.message, "the server has no EVAL"));
        assert_int_equal(f.out.level, 0);
    }
}

TEST(a_timestamp_lock_goes_on_without_eval_and_remembers_it) {
    for (unsigned i = 0; i < 3 * WITHOUT_EVAL; i++) {
        tl_op op = (tl_op)(i % 3);
        feed f;
        prepare(&f, &tl__protocol_timestamp, op);
        (void)feed_start(&f);
        assert_int_equal(f.last.command[0].form, TL_SCRIPT);
        (void)feed_reply(&f, "%s", without_eval[i / 3]);
        assert_int_equal(f.status, TL_GO);
        assert_string_equal(f.last.command[0].argv[0].p, "WATCH");
        assert_int_equal(f.out.level, TL_LEVEL_WATCH);
        prepare(&f, &tl__protocol_timestamp, op); /* the next, on the same connection */
        f.server.level = TL_LEVEL_WATCH;
        (void)feed_start(&f);
        assert_string_equal(f.last.command[0].argv[0].p, "WATCH");
        prepare(&f, &tl__protocol_timestamp, op); /* and one after a reconnect */
        f.server.level = TL_LEVEL_UNKNOWN;
        (void)feed_start(&f);
        assert_int_equal(f.last.command[0].form, TL_SCRIPT);
    }
}

TEST(the_bridge_asks_by_script_whatever_is_known) {
    feed f;
    prepare(&f, &tl__protocol_bridge, TL_ACQUIRE);
    f.server.level = TL_LEVEL_PLAIN;
    (void)feed_start(&f);
    feed_assert_asked(&f, "acquire");
}

TEST(other_errors_do_not_tell_the_level) {
    static const char *const errors[] = {
        "-NOPERM this user has no permissions to run the 'evalsha' command",
        "-ERR Error running script (call to f_1): @user_script: 9: unknown command called from script",
        "-ERR Error running script (call to f_1): @user_script: 9: Could not find scripting engine",
        "-LOADING Redis is loading the dataset in memory", "-ERR unknown subcommand"};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        feed f;
        prepare(&f, &tl__protocol_timestamp, TL_ACQUIRE);
        (void)feed_start(&f);
        (void)feed_reply(&f, "%s", errors[i]);
        assert_int_equal(f.status, TL_END);
        assert_int_not_equal(result()->code, TL_OK);
        assert_int_equal(f.out.level, 0);
    }
}

/* ---- within the machines that drive it ------------------------------------------------------- */

TEST(the_keeper_takes_a_losers_stamp_back_without_a_word) {
    static tl_renew r;
    feed f;
    tl_job job = stamp_job(&tl__protocol_bridge);
    is_held(&job);
    feed_init(&f, &r, tl__renew_step);
    renew_begin(&r, &job, job.hold.believed, TL_NEVER, false, 1);
    (void)feed_start(&f);
    (void)feed_await(&f);
    feed_assert_asked(&f, "renew");
    (void)answer_keep(&f, 0, legacy_stamp(0), -1);
    assert_takes_from(&f, legacy_stamp(0));
    int64_t asked_ms = feed_since(f.now);
    (void)answer_take(&f, 1, text_of(server_ms(&f) + T_MS), GRACE_MS, true);
    assert_int_equal(f.status, TL_GO);
    assert_int_equal(f.out.notes, 0);
    assert_in_range(feed_since(r.result.deadline), asked_ms + T_MS - M_MS - 20,
                    asked_ms + T_MS - M_MS);
    (void)feed_await(&f); /* the next begins as a keep again */
    feed_assert_asked(&f, "renew");
}

TEST(the_keeper_names_the_thiefs_clock) {
    static tl_renew r;
    feed f;
    tl_job job = stamp_job(&tl__protocol_bridge);
    is_held(&job);
    feed_init(&f, &r, tl__renew_step);
    renew_begin(&r, &job, job.hold.believed, TL_NEVER, false, 1);
    (void)feed_start(&f);
    (void)feed_await(&f);
    (void)answer_keep(&f, 0, text_of(server_ms(&f) + 90000 + LEGACY_MS), -1);
    assert_int_equal(f.status, TL_END);
    assert_int_equal(f.out.note[0].kind, TL_NOTE_LOST);
    assert_int_equal(f.out.note[0].why, TL_LOST_TAKEN);
    assert_true(f.out.note[0].stolen);
    assert_int_equal(f.out.note[0].thief_ahead_ms, 90000);
}
