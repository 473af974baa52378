/*
 * The plain protocol's attempts: one SET first, then only what compares; and what each answer means.
 */
#include "attempt_feed.h"
#include "protocol/attempt.h"

static void prepare(feed *f, tl_op op, bool again) {
    memset(&m, 0x5a, sizeof m);
    m.job = feed_job();
    m.job.protocol = tl__protocol_token.no_fence;
    m.job.again = again;
    feed_init(f, &m, one_step);
    tl__attempt_init(&m.attempt, m.job.protocol, op, TICKET, feed_ms(60000));
}

static void begin(feed *f, tl_op op, bool again) {
    prepare(f, op, again);
    assert_int_equal(feed_start(f), TL_GO);
}

static void assert_words(const feed *f, uint8_t command, const char *const *words) {
    const tl_command *c = &f->last.command[command];
    for (size_t i = 0; words[i]; i++) {
        assert_true(i < c->argc);
        assert_string_equal(c->argv[i].p, words[i]);
    }
}

/* ---- asking ---------------------------------------------------------------------------------- */

TEST(the_first_take_is_one_plain_set) {
    feed f;
    begin(&f, TL_ACQUIRE, false);
    assert_int_equal(f.last.count, 1);
    assert_int_equal(f.last.command[0].form, TL_ARGV);
    assert_int_equal(f.last.command[0].argc, 6);
    assert_words(&f, 0, (const char *const[]){"SET", KEY, TOKEN, "NX", "PX", "30000", NULL});
    assert_int_equal(feed_since(f.last.by), ATTEMPT_MS);
}

TEST(a_further_take_and_a_keep_compare_and_have_a_limit) {
    for (int i = 0; i < 2; i++) {
        feed f;
        char limit[TL_INT_SIZE];
        begin(&f, i ? TL_RENEW : TL_ACQUIRE, true);
        (void)snprintf(limit, sizeof limit, "%lld", (long long)feed_server_us(ATTEMPT_MS) - 400);
        feed_assert_asked(&f, "hold");
        assert_int_equal(f.last.command[0].nkeys, 1);
        assert_int_equal(f.last.command[0].argc, 5);
        assert_words(&f, 0,
                     (const char *const[]){KEY, TOKEN, "30000", limit, i ? "keep" : "take", NULL});
    }
}

TEST(a_drop_compares_and_names_the_channel) {
    feed f;
    begin(&f, TL_RELEASE, false);
    feed_assert_asked(&f, "free");
    assert_int_equal(f.last.command[0].nkeys, 1);
    assert_words(&f, 0, (const char *const[]){KEY, TOKEN, SIDECAR, NULL});
}

TEST(wait_follows_what_writes) {
    for (int i = 0; i < 4; i++) {
        feed f;
        prepare(&f, i == 3 ? TL_RELEASE : i == 2 ? TL_RENEW : TL_ACQUIRE, i == 1);
        m.job.wait_replicas = 2;
        m.job.wait_replicas_ms = 750;
        (void)feed_start(&f);
        assert_int_equal(f.last.count, i == 3 ? 1 : 2);
        if (i < 3)
            assert_words(&f, 1, (const char *const[]){"WAIT", "2", "750", NULL});
    }
}

/* ---- the first take -------------------------------------------------------------------------- */

TEST(a_set_is_ours_from_the_sending_less_the_drift) {
    feed f;
    begin(&f, TL_ACQUIRE, false);
    feed_at(&f, 800); /* when the answer came doesn't count */
    (void)feed_reply(&f, "+OK");
    expect(&f, TL_OK, false);
    assert_int_equal(result()->deadline.ns, feed_ms(TTL_MS).ns - DRIFT_NS);
    assert_int_equal(result()->fence, 0);
    assert_false(f.out.has_bracket);
}

TEST(a_refused_set_is_busy_for_who_knows_how_long) {
    feed f;
    begin(&f, TL_ACQUIRE, false);
    (void)feed_reply(&f, "nil");
    expect(&f, TL_EBUSY, false);
    assert_int_equal(result()->hint.ns, INT64_MAX);
    assert_false(result()->announced || result()->checked);
}

TEST(a_lost_set_may_take_effect_whenever_it_arrives) {
    feed f;
    begin(&f, TL_ACQUIRE, false);
    (void)feed_lost(&f);
    expect(&f, TL_EUNCERTAIN, true);
    assert_int_equal(result()->harmless.ns, INT64_MAX);
}

TEST(any_other_answer_to_set_is_malformed) {
    const char *const bad[] = {
        "1", "0", "+QUEUED", "'ok'", "+", "[]", "[1 't' 30000 '1' '2']", "[1 't' nil '1' '2' 1]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        feed f;
        begin(&f, TL_ACQUIRE, false);
        (void)feed_reply(&f, "%s", bad[i]);
        expect(&f, TL_ESERVER, true);
    }
}

TEST(errors_mean_what_they_mean_to_all) {
    static const struct {
        const char *error;
        tl_err code;
    } rows[] = {{"-NOPERM no permissions", TL_EDENIED},
                {"-OOM command not allowed", TL_EUNAVAILABLE},
                {"-READONLY replica", TL_EELSEWHERE},
                {"-ERR no such thing", TL_ESERVER},
                {"-ERR syntax error", TL_EUNSUPPORTED},                                 /* 2.6.0 */
                {"-ERR wrong number of arguments for 'set' command", TL_EUNSUPPORTED}}; /* 2.4 */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        feed f;
        begin(&f, TL_ACQUIRE, false);
        (void)feed_reply(&f, "%s", rows[i].error);
        expect(&f, rows[i].code, false);
    }
}

/* ---- comparing ------------------------------------------------------------------------------- */

static tl_status held(feed *f, int status, const char *left) {
    return feed_reply(f, "[%d 'x' %s %s 1]", status, left, feed_time(f));
}

TEST(ours_by_comparison_counts_what_the_key_has_left) {
    for (int i = 0; i < 2; i++) {
        feed f;
        begin(&f, i ? TL_RENEW : TL_ACQUIRE, true);
        feed_at(&f, 100);
        (void)held(&f, 1, "1234");
        expect(&f, TL_OK, false);
        assert_int_equal(result()->deadline.ns, feed_ms(1234).ns - FEED_LOSS_OF(1234));
        assert_true(f.out.has_bracket && result()->checked);
    }
}

TEST(busy_by_comparison_tells_when_to_come_back) {
    feed f;
    begin(&f, TL_ACQUIRE, true);
    feed_at(&f, 30);
    (void)held(&f, 0, "5000");
    expect(&f, TL_EBUSY, false);
    assert_int_equal(feed_since(result()->hint), 30 + 5000 + 1);
    assert_false(result()->announced); /* who knows whether its holder does */
    begin(&f, TL_ACQUIRE, true);
    (void)held(&f, 0, "-1");
    assert_int_equal(result()->hint.ns, INT64_MAX);
}

TEST(a_keep_that_finds_another_or_nothing_has_lost) {
    feed f;
    begin(&f, TL_RENEW, false);
    (void)held(&f, 0, "5000");
    expect(&f, TL_ELOST, false);
    assert_int_equal(result()->why, TL_LOST_TAKEN);
    begin(&f, TL_RENEW, false);
    (void)held(&f, -1, "-1");
    expect(&f, TL_ELOST, false);
    assert_int_equal(result()->why, TL_LOST_GONE);
}

TEST(a_request_past_its_limit_left_nothing_behind) {
    for (int i = 0; i < 2; i++) {
        feed f;
        begin(&f, i ? TL_RENEW : TL_ACQUIRE, true);
        (void)held(&f, -2, "-1");
        expect(&f, TL_EUNAVAILABLE, false);
    }
}

TEST(any_other_comparison_is_malformed) {
    const char *const bad[] = {"nil",
                               "+OK",
                               "1",
                               "[]",
                               "[2 'x' 5 '1' '2' 1]",
                               "[-3 'x' 5 '1' '2' 1]",
                               "[nil 'x' 5 '1' '2' 1]",
                               "[1 'x' nil '1' '2' 1]",
                               "[1 'x' 5 '1' '2']",
                               "[-1 nil -1 '1' '2' 1]"}; /* absent, and yet not taken */
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        feed f;
        begin(&f, TL_ACQUIRE, true);
        (void)feed_reply(&f, "%s", bad[i]);
        expect(&f, TL_ESERVER, true);
        assert_int_equal(result()->harmless.ns, feed_ms(ATTEMPT_MS).ns);
    }
}

TEST(each_drop_answer_is_told_apart) {
    static const struct {
        const char *reply;
        tl_err code;
        bool maybe;
    } rows[] = {{"1", TL_OK, false},      {"0", TL_ETAKEN, false},  {"-1", TL_EEXPIRED, false},
                {"2", TL_ESERVER, true},  {"-2", TL_ESERVER, true}, {"nil", TL_ESERVER, true},
                {"[1]", TL_ESERVER, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        feed f;
        begin(&f, TL_RELEASE, false);
        (void)feed_reply(&f, "%s", rows[i].reply);
        expect(&f, rows[i].code, rows[i].maybe);
    }
}

/* ---- replicas and restarts ------------------------------------------------------------------- */

TEST(too_few_replicas_are_no_lock) {
    for (int i = 0; i < 6; i++) {
        feed f;
        prepare(&f, i % 3 == 2 ? TL_RENEW : TL_ACQUIRE, i % 3 == 1);
        m.job.wait_replicas = 2;
        (void)feed_start(&f);
        if (i % 3 == 0)
            (void)feed_reply(&f, "+OK %d", i / 3 + 1);
        else
            (void)feed_reply(&f, "[1 'x' 30000 %s 1] %d", feed_time(&f), i / 3 + 1);
        expect(&f, i / 3 ? TL_OK : TL_EUNAVAILABLE, i / 3 == 0);
    }
}

TEST(an_answer_to_another_question_is_ignored) {
    feed f;
    begin(&f, TL_ACQUIRE, false);
    assert_int_equal(feed_reply_to(&f, TICKET + 1, "+OK"), TL_GO);
    (void)feed_reply(&f, "nil");
    expect(&f, TL_EBUSY, false);
}
