/*
 * Phases: reading a register, acting by it under a lease, keeping the lease fresh; which protocol a
 * take, a keep and a drop speak.
 */
#include "stamp_feed.h"

#include "phase/phase.h"

#define LEASE_MS 30000
#define ID "00000000-0000-4000-8000-0000000000aa"
#define REGISTER "tidelock:phase:{default}"

static tl_namespaces *names;
static tl_error why;

static tl_namespaces *open_names(tl_legacy_options o) {
    tl_namespaces *all = NULL;
    tl_token id;
    memcpy(id.text, ID, sizeof ID);
    tl_err code = tl__namespaces_open(&o, TL_LITERAL(OWNER), &id, &all, &why);
    assert_int_equal(code != TL_OK, all == NULL);
    return all;
}

static void refused(tl_legacy_options o, const char *words) {
    assert_null(open_names(o));
    assert_int_equal(why.code, TL_EINVALID);
    assert_non_null(strstr(why.message, words));
}

/* As the driver does it: a lease that was read is kept. */
static tl_status keeping(void *machine, const tl_event *e, tl_out *out) {
    tl_status status = one_step(machine, e, out);
    if (out->keeps)
        tl__lease_merge((tl_lease *)(uintptr_t)tl__lease_of(e->server, out->keeps_at),
                        tl__lease_read(out));
    return status;
}

static void ready_with(feed *f, tl_op op, tl_legacy_options o) {
    prepare(f, &tl__protocol_auto, op);
    free(names);
    names = open_names(o);
    m.job.rules.of = &names->at[0];
    f->step = keeping;
}

static void ready(feed *f, tl_op op) {
    ready_with(f, op, TL_LEGACY_OPTIONS(0));
}

static tl_status answer_phase(feed *f, int phase, int64_t epoch, int64_t lease_ms) {
    return feed_reply(f, "[%d %lld %lld %s]", phase, (long long)epoch, (long long)lease_ms,
                      feed_time(f));
}

/* A lease that was read at the start. */
static void know(feed *f, int phase, int64_t epoch) {
    *(tl_lease *)&f->server.kept[0] = (tl_lease){
        .phase = (int8_t)phase, .epoch = epoch, .lease_ms = LEASE_MS, .until = feed_ms(LEASE_MS)};
}

static void knowing(feed *f, tl_op op, int phase) {
    ready(f, op);
    know(f, phase, 7);
    (void)feed_start(f);
}

static const char *writes(const feed *f) {
    if (f->last.command[0].form == TL_ARGV)
        return "plain";
    if (f->last.command[0].script == TL_SCRIPT_RENEW)
        return strcmp(feed_arg(f, 4), TOKEN) == 0 ? "token" : "stamp";
    feed_assert_asked(f, "acquire");
    return f->last.command[0].argc <= 11 || strcmp(feed_arg(f, 7), TOKEN) == 0 ? "token" : "stamp";
}

static uint8_t speaks(void) {
    return result()->proof.held_by;
}

/* ---- names ----------------------------------------------------------------------------------- */

TEST(the_default_is_one_namespace_for_all_names) {
    tl_namespaces *all = open_names(TL_LEGACY_OPTIONS(0));
    const tl_namespace *ns = tl__namespace_of(all, TL_LITERAL(KEY));
    assert_int_equal(all->count, 1);
    assert_true(tl__bytes_eq(ns->name, TL_LITERAL("default")));
    assert_true(tl__bytes_eq(ns->reg, TL_LITERAL(REGISTER)));
    assert_true(tl__bytes_eq(ns->clients, TL_LITERAL(REGISTER ":clients")));
    assert_int_equal(all->fallback, TL_PHASE_BRIDGE);
    assert_int_equal(all->lease_ms, LEASE_MS);
    assert_string_equal(all->record, TL_VERSION " " OWNER);
    free(all);
}

TEST(the_first_pattern_that_fits_counts) {
    tl_namespaces *all = open_names(TL_LEGACY_OPTIONS(.namespaces = "cron:*=cron,a=b:*=x.Y_z-1"));
    assert_true(tl__bytes_eq(tl__namespace_of(all, TL_LITERAL("cron:1"))->reg,
                             TL_LITERAL("tidelock:phase:{cron}")));
    assert_true(
        tl__bytes_eq(tl__namespace_of(all, TL_LITERAL("a=b:"))->name, TL_LITERAL("x.Y_z-1")));
    assert_int_equal(tl__namespace_of(all, TL_LITERAL("a=b:"))->index, 1);
    assert_null(tl__namespace_of(all, TL_LITERAL("cro")));
    free(all);
    all = open_names(TL_LEGACY_OPTIONS(.namespaces = "jobs:[eu]:*=default,a\\,b=c"));
    assert_int_equal(tl__namespace_of(all, TL_LITERAL("jobs:e:1"))->index, 0);
    assert_null(tl__namespace_of(all, TL_LITERAL("jobs:[eu]:1")));
    assert_int_equal(tl__namespace_of(all, TL_LITERAL("a,b"))->index, 1);
    free(all);
}

TEST(what_is_no_name_is_refused) {
    char longer[TL_NAMESPACE_MAX + 2];
    memset(longer, 'n', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    refused(TL_LEGACY_OPTIONS(.namespaces = "a b"), "'a b'");
    refused(TL_LEGACY_OPTIONS(.namespaces = "x*="), "''");
    refused(TL_LEGACY_OPTIONS(.namespaces = ",a"), "''");
    refused(TL_LEGACY_OPTIONS(.namespaces = "jobs:[a=a"), "'jobs:[a' has a '[' without ']'");
    refused(TL_LEGACY_OPTIONS(.namespaces = "jobs\\=a"), "has a '\\' at the end");
    refused(TL_LEGACY_OPTIONS(.namespaces = longer), "nnn");
    refused(TL_LEGACY_OPTIONS(.namespaces = "{a}"), "'{a}'");
    refused(TL_LEGACY_OPTIONS(.namespaces = "a,b,c,d,e"), "more than 4");
    refused(TL_LEGACY_OPTIONS(.phase_lease_ms = 99), "phase_lease");
    refused(TL_LEGACY_OPTIONS(.phase_lease_ms = 3600001), "phase_lease");
    refused(TL_LEGACY_OPTIONS(.fallback = TL_AUTO), "fallback");
    longer[TL_NAMESPACE_MAX] = '\0';
    free(open_names(TL_LEGACY_OPTIONS(.namespaces = longer, .phase_lease_ms = 3600000)));
}

/* The client's record in the register has one pattern. */
TEST(a_namespace_that_is_named_twice_is_refused) {
    refused(TL_LEGACY_OPTIONS(.namespaces = "cron:*=default,jobs:*=default"),
            "'default' is named twice");
    refused(TL_LEGACY_OPTIONS(.namespaces = "cron:*=a,jobs:*=default,default"),
            "'default' is named twice");
    refused(TL_LEGACY_OPTIONS(.namespaces = "a,b,c,d,a"), "'a' is named twice");
    free(open_names(TL_LEGACY_OPTIONS(.namespaces = "jobs:*=cron,cron:*=jobs,jobs:*=jobs.2")));
}

/* ---- reading before acting ------------------------------------------------------------------- */

TEST(without_a_lease_the_register_is_read_first) {
    feed f;
    ready(&f, TL_ACQUIRE);
    assert_int_equal(feed_start(&f), TL_GO);
    feed_assert_asked(&f, "phase");
    assert_int_equal(f.last.command[0].nkeys, 3);
    assert_string_equal(f.text[0], REGISTER);
    assert_string_equal(f.text[1], REGISTER ":clients");
    assert_string_equal(f.text[2], "tidelock:skew:{default}");
    assert_string_equal(feed_arg(&f, 0), ID);
    assert_string_equal(feed_arg(&f, 1), TL_VERSION " " OWNER);
    assert_int_equal(feed_arg_int(&f, 2), FEED_SERVER_US);
    assert_int_equal(feed_arg_int(&f, 3), TL_PHASE_BRIDGE);
    assert_int_equal(feed_arg_int(&f, 4), LEASE_MS);
    assert_int_equal(feed_arg_int(&f, 5), 0);
    assert_int_equal(feed_arg_int(&f, 6), 0);
    assert_int_equal(feed_arg_int(&f, 7), TL_PHASE_BRIDGE);
    assert_string_equal(feed_arg(&f, 8), "*");
    assert_int_equal(feed_since(f.last.by), ATTEMPT_MS);
    feed_at(&f, 20);
    assert_int_equal(answer_phase(&f, TL_PHASE_TOKEN, 3, LEASE_MS), TL_GO);
    assert_true(f.out.has_bracket);
    assert_string_equal(writes(&f), "token");
    assert_int_equal(tl__lease_of(&f.server, 0)->epoch, 3);
    assert_int_equal(feed_just_taken(&f), TL_END);
    expect(&f, TL_OK, false);
    assert_int_equal(speaks(), 1 + TL_TOKEN);
}

TEST(each_phase_has_its_protocol) {
    static const struct {
        int phase;
        const char *writes;
        uint8_t held_by;
    } rows[] = {{TL_PHASE_NONE, "stamp", TL_BRIDGE},
                {TL_PHASE_TIMESTAMP, "stamp", TL_TIMESTAMP},
                {TL_PHASE_BRIDGE, "stamp", TL_BRIDGE},
                {TL_PHASE_DRAIN, "token", TL_TOKEN},
                {TL_PHASE_TOKEN, "token", TL_TOKEN}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        feed f;
        ready(&f, TL_ACQUIRE);
        (void)feed_start(&f);
        (void)answer_phase(&f, rows[i].phase, rows[i].phase < 0 ? 0 : 7, LEASE_MS);
        assert_string_equal(writes(&f), rows[i].writes);
        const char *value = strcmp(rows[i].writes, "token") == 0 ? TOKEN : text_of(START_MS + T_MS);
        assert_int_equal(answer_take(&f, 1, value, T_MS, true), TL_END);
        expect(&f, TL_OK, false);
        assert_int_equal(speaks(), 1 + rows[i].held_by);
    }
}

TEST(the_fallback_may_be_the_timestamp_protocol) {
    feed f;
    ready_with(&f, TL_ACQUIRE, TL_LEGACY_OPTIONS(.fallback = TL_TIMESTAMP));
    (void)feed_start(&f);
    assert_int_equal(feed_arg_int(&f, 3), TL_PHASE_TIMESTAMP);
    (void)feed_reply(&f, "-ERR unknown command 'EVALSHA'"); /* so nobody can have made a register */
    assert_int_equal(tl__lease_of(&f.server, 0)->phase, TL_PHASE_NONE);
    feed_assert_asked(&f, "acquire");
    (void)feed_reply(&f, "-ERR unknown command 'EVALSHA'");
    assert_string_equal(writes(&f), "plain");
}

/* It may have run scripts before it was started without its Lua module: a register may be there. */
TEST(a_server_that_lost_its_lua_module_may_have_a_register) {
    feed f;
    ready_with(&f, TL_ACQUIRE, TL_LEGACY_OPTIONS(.fallback = TL_TIMESTAMP));
    (void)feed_start(&f);
    assert_int_equal(feed_reply(&f, "-ERR Could not find scripting engine 'lua'"), TL_END);
    expect(&f, TL_EUNSUPPORTED, false);
    assert_non_null(strstr(f.out.message, "its Lua module is not loaded"));
}

TEST(under_a_lease_nothing_is_read) {
    feed f;
    for (int64_t ms = 0; ms < LEASE_MS; ms += 500) {
        ready(&f, TL_ACQUIRE);
        know(&f, TL_PHASE_TOKEN, 7);
        feed_at(&f, ms);
        (void)feed_start(&f);
        feed_assert_asked(&f, ms < LEASE_MS - LEASE_MS / 4 ? "acquire" : "phase");
    }
}

/* The machine was paused, and the register may have changed meanwhile. */
TEST(a_lease_of_before_a_disruption_is_none) {
    feed f;
    ready(&f, TL_ACQUIRE);
    know(&f, TL_PHASE_TOKEN, 7);
    f.server.disrupted = feed_ms(0);
    (void)feed_start(&f);
    feed_assert_asked(&f, "phase");
}

/* Another thread noticed the pause before this reply came: the phase may be another one by now. */
TEST(a_phase_that_was_asked_for_before_a_disruption_is_none) {
    feed f;
    ready(&f, TL_ACQUIRE);
    (void)feed_start(&f);
    feed_assert_asked(&f, "phase");
    f.server.disrupted = feed_ms(10);
    feed_at(&f, 20);
    assert_int_equal(answer_phase(&f, TL_PHASE_TIMESTAMP, 7, LEASE_MS), TL_END);
    expect(&f, TL_EUNAVAILABLE, false);
    assert_false(f.out.keeps);
}

TEST(a_take_carries_the_end_of_the_lease) {
    feed f;
    ready(&f, TL_ACQUIRE);
    m.job.attempt_ms = 60000;
    know(&f, TL_PHASE_BRIDGE, 7);
    feed_at(&f, 10000);
    (void)feed_start(&f);
    assert_int_equal(feed_since(f.last.by), LEASE_MS);
    assert_in_range(feed_arg_int(&f, 2), feed_server_us(LEASE_MS - 10), feed_server_us(LEASE_MS));
}

TEST(a_lease_counts_from_before_the_question_less_the_drift) {
    feed f;
    ready(&f, TL_ACQUIRE);
    feed_at(&f, 5);
    (void)feed_start(&f);
    feed_at(&f, 1000);
    (void)answer_phase(&f, TL_PHASE_TOKEN, 1, 10000);
    assert_int_equal(tl__lease_of(&f.server, 0)->until.ns,
                     feed_ms(5 + 10000).ns - FEED_LOSS_OF(10000));
    assert_int_equal(tl__lease_of(&f.server, 0)->lease_ms, 10000);
    assert_int_equal(tl__lease_of(&f.server, 0)->reported.ns, feed_ms(1000).ns);
}

TEST(an_answer_after_the_lease_is_not_acted_by) {
    feed f;
    ready(&f, TL_ACQUIRE);
    (void)feed_start(&f);
    feed_at(&f, 1000);
    assert_int_equal(answer_phase(&f, TL_PHASE_TOKEN, 1, 1000), TL_END);
    expect(&f, TL_EUNAVAILABLE, false);
}

TEST(a_register_never_goes_back) {
    feed f;
    ready(&f, TL_ACQUIRE);
    know(&f, TL_PHASE_DRAIN, 7);
    feed_at(&f, LEASE_MS);
    (void)feed_start(&f);
    (void)answer_phase(&f, TL_PHASE_BRIDGE, 6, LEASE_MS);
    expect(&f, TL_EDENIED, false);
    assert_non_null(strstr(f.out.message, "older epoch"));
    assert_int_equal(tl__lease_of(&f.server, 0)->epoch, 7);
    ready(&f, TL_ACQUIRE);
    know(&f, TL_PHASE_DRAIN, 7);
    feed_at(&f, LEASE_MS);
    (void)feed_start(&f);
    (void)answer_phase(&f, TL_PHASE_NONE, 0, LEASE_MS);
    expect(&f, TL_EDENIED, false);
    assert_non_null(strstr(f.out.message, "namespace default: its register has gone"));
    ready(&f, TL_ACQUIRE);
    know(&f, TL_PHASE_NONE, 0);
    feed_at(&f, LEASE_MS);
    (void)feed_start(&f);
    assert_int_equal(answer_phase(&f, TL_PHASE_NONE, 0, LEASE_MS), TL_GO);
}

/* Two ask; the one that was answered first heard of the change. */
TEST(what_was_asked_before_a_change_is_no_proof_that_writes_were_lost) {
    for (int64_t epoch = 0; epoch <= 6; epoch += 6) {
        feed f;
        ready(&f, TL_ACQUIRE);
        (void)feed_start(&f);
        know(&f, TL_PHASE_DRAIN, 7);
        ((tl_lease *)&f.server.kept[0])->reported = feed_ms(1);
        feed_at(&f, 2);
        (void)answer_phase(&f, epoch ? TL_PHASE_BRIDGE : TL_PHASE_NONE, epoch, LEASE_MS);
        expect(&f, TL_EUNAVAILABLE, false);
        assert_non_null(strstr(f.out.message, "while it was being read"));
        assert_int_equal(tl__lease_of(&f.server, 0)->epoch, 7);
        ready(&f, TL_ACQUIRE);
        know(&f, TL_PHASE_DRAIN, 7);
        ((tl_lease *)&f.server.kept[0])->reported = feed_ms(1);
        feed_at(&f, LEASE_MS);
        (void)feed_start(&f);
        assert_int_equal(feed_arg_int(&f, 6), 7);
        assert_int_equal(feed_arg_int(&f, 7), TL_PHASE_DRAIN);
        (void)answer_phase(&f, epoch ? TL_PHASE_BRIDGE : TL_PHASE_NONE, epoch, LEASE_MS);
        expect(&f, TL_EDENIED, false);
    }
}

TEST(of_two_leases_the_newer_is_kept) {
    tl_lease known = {.epoch = 4, .phase = 1, .until = feed_ms(100)}, was = known;
    tl_lease older = {.epoch = 3, .phase = 0, .until = feed_ms(900)};
    tl_lease earlier = {.epoch = 4, .phase = 1, .until = feed_ms(50)};
    tl_lease later = {.epoch = 4, .phase = 1, .until = feed_ms(200)};
    tl_lease next = {.epoch = 5, .phase = 2, .until = feed_ms(10)};
    tl__lease_merge(&known, &older);
    tl__lease_merge(&known, &earlier);
    assert_int_equal(known.until.ns, was.until.ns);
    assert_int_equal(known.epoch, 4);
    tl__lease_merge(&known, &later);
    assert_int_equal(known.until.ns, later.until.ns);
    tl__lease_merge(&known, &next);
    assert_int_equal(known.phase, 2);
    tl_lease none = {.phase = TL_PHASE_NONE, .until = feed_ms(10)}, nothing = {0};
    tl__lease_merge(&nothing, &none);
    assert_int_equal(nothing.phase, TL_PHASE_NONE);
}

TEST(while_it_cannot_be_read_nothing_is_taken_and_nothing_is_in_doubt) {
    feed f;
    ready(&f, TL_ACQUIRE);
    (void)feed_start(&f);
    assert_int_equal(feed_lost(&f), TL_END);
    expect(&f, TL_EUNAVAILABLE, false);
    ready(&f, TL_ACQUIRE);
    (void)feed_start(&f);
    (void)feed_failed(&f, false, TL_ENOMEM, "out of memory");
    expect(&f, TL_ENOMEM, false);
    static const struct {
        const char *reply;
        tl_err code;
    } rows[] = {{"-READONLY You can't write against a read only replica.", TL_EUNAVAILABLE},
                {"-NOPERM this user has no permissions", TL_EDENIED},
                {"7", TL_ESERVER},
                {"[1 0 30000 '1' '1']", TL_ESERVER},
                {"[4 1 30000 '1' '1']", TL_ESERVER},
                {"[-1 1 30000 '1' '1']", TL_ESERVER},
                {"[1 1 0 '1' '1']", TL_ESERVER},
                {"[1 1 30001 '1' '1']", TL_ESERVER},
                {"[1 1]", TL_ESERVER}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ready(&f, TL_ACQUIRE);
        (void)feed_start(&f);
        assert_int_equal(feed_reply(&f, "%s", rows[i].reply), TL_END);
        expect(&f, rows[i].code, false);
        assert_int_equal(tl__lease_of(&f.server, 0)->until.ns, 0);
    }
}

/* What it was told before may be acted by for longer than what it is told now, if that gets lost. */
TEST(a_register_is_told_how_long_the_lease_before_lasts) {
    feed f;
    ready(&f, TL_ACQUIRE);
    know(&f, TL_PHASE_NONE, 0);
    feed_at(&f, LEASE_MS - 7000);
    (void)feed_start(&f);
    feed_assert_asked(&f, "phase");
    assert_int_equal(feed_arg_int(&f, 5), 7002);
}

/* ---- drain ----------------------------------------------------------------------------------- */

TEST(drain_takes_a_stamp_when_it_is_free_and_writes_a_token) {
    feed f;
    knowing(&f, TL_ACQUIRE, TL_PHASE_DRAIN);
    assert_string_equal(writes(&f), "token");
    const char *old = text_of(START_MS - M_MS - L_MS - 2);
    assert_int_equal(answer_take(&f, 0, old, -1, false), TL_GO);
    feed_assert_asked(&f, "acquire");
    assert_string_equal(feed_arg(&f, 7), TOKEN);
    assert_string_equal(feed_arg(&f, 8) + 1, old);
    assert_int_equal(feed_arg_int(&f, 1), T_MS);
    assert_int_equal(feed_arg_int(&f, 9), T_MS);
    assert_int_equal(answer_take(&f, 1, TOKEN, T_MS, true), TL_END);
    expect(&f, TL_OK, false);
    assert_int_equal(speaks(), 1 + TL_TOKEN);
    assert_int_equal(result()->deadline.ns, feed_ms(T_MS).ns - DRIFT_OF(T_MS));
}

/* The usual take tells just when it was: what was asked for is a token. */
TEST(drain_takes_back_what_a_racing_loser_overwrote_by_a_token) {
    feed f;
    knowing(&f, TL_RENEW, TL_PHASE_DRAIN);
    const char *losers = text_of(START_MS + LEGACY_MS);
    assert_int_equal(answer_keep(&f, 0, losers, -1), TL_GO);
    feed_assert_asked(&f, "acquire");
    assert_string_equal(feed_arg(&f, 7), TOKEN);
    assert_string_equal(feed_arg(&f, 8) + 1, losers);
    assert_int_equal(feed_just_taken(&f), TL_END);
    expect(&f, TL_OK, false);
    assert_int_equal(result()->deadline.ns, feed_ms(T_MS).ns - DRIFT_OF(T_MS));
}

TEST(drain_honours_a_stamp_and_a_token) {
    feed f;
    knowing(&f, TL_ACQUIRE, TL_PHASE_DRAIN);
    assert_int_equal(answer_take(&f, 0, text_of(START_MS - M_MS - L_MS - 1), -1, false), TL_END);
    expect(&f, TL_EBUSY, false);
    assert_int_equal(feed_since(result()->acquire.hint), 1);
    knowing(&f, TL_ACQUIRE, TL_PHASE_DRAIN);
    assert_int_equal(answer_take(&f, 0, "another", 700, true), TL_END);
    expect(&f, TL_EBUSY, false);
    assert_int_equal(feed_since(result()->acquire.hint), 701);
}

TEST(a_held_stamp_becomes_a_token) {
    for (int phase = TL_PHASE_TIMESTAMP; phase <= TL_PHASE_TOKEN; phase++)
        for (uint8_t by = TL_BRIDGE; by <= TL_TIMESTAMP; by++) {
            feed f;
            ready(&f, TL_RENEW);
            m.job.hold.proof.held_by = 1 + by;
            know(&f, phase, 7);
            (void)feed_start(&f);
            feed_assert_asked(&f, "renew");
            bool drains = phase >= TL_PHASE_DRAIN;
            assert_string_equal(writes(&f), drains ? "token" : "stamp");
            const char *value = drains ? TOKEN : text_of(START_MS + T_MS + 1);
            assert_int_equal(answer_keep(&f, 1, value, T_MS), TL_END);
            expect(&f, TL_OK, false);
            assert_int_equal(speaks(), 1 + (drains ? TL_TOKEN : by));
            assert_int_equal(result()->proof.kind, drains ? TL_PROOF_TOKEN : TL_PROOF_STAMP);
            if (drains)
                assert_int_equal(result()->deadline.ns, feed_ms(T_MS).ns - DRIFT_OF(T_MS));
        }
}

/* It must not be carried out once the lease is over: the time is asked first where it is known badly, and where
 * that doesn't help, as clocks may be so fast, the earliest counts all the same. */
TEST(a_stamp_becomes_a_token_by_the_earliest_that_the_clock_can_show) {
    feed f;
    for (int wide = 0; wide <= 1; wide++) {
        ready(&f, TL_RENEW);
        m.job.hold.proof.held_by = 1 + TL_BRIDGE;
        know(&f, TL_PHASE_DRAIN, 7);
        f.server.drift_ppm = wide ? 500000 : 100000;
        f.server.anchor.at = feed_ms(-60000);
        (void)feed_start(&f);
        assert_string_equal(f.last.command[0].argv[0].p, "TIME");
        assert_int_equal(feed_reply(&f, "['1700005000' '0']"), TL_GO);
        feed_assert_asked(&f, "renew");
        assert_string_equal(writes(&f), "token");
        int64_t least_ms = wide ? ATTEMPT_MS / 3 : ATTEMPT_MS * 9 / 11;
        assert_in_range(feed_arg_int(&f, 8), feed_server_us(least_ms) - 1,
                        feed_server_us(least_ms + 1));
    }
}

TEST(a_stamp_that_was_kept_as_it_is_counts_as_a_stamp) {
    feed f;
    ready(&f, TL_RENEW);
    m.job.hold.proof.held_by = 1 + TL_BRIDGE;
    know(&f, TL_PHASE_DRAIN, 7);
    (void)feed_start(&f);
    (void)answer_keep(&f, 1, text_of(START_MS + T_MS), GRACE_MS);
    expect(&f, TL_OK, false);
    assert_int_equal(speaks(), 1 + TL_BRIDGE);
    assert_true(result()->deadline.ns <= feed_ms(T_MS - M_MS).ns);
}

/* As where stamps are written: an extension by less, unanswered, must not end what is still believed. */
TEST(a_token_in_a_losers_place_lasts_as_long_as_is_believed) {
    feed f;
    ready(&f, TL_RENEW);
    m.job.hold.proof.held_by = 1 + TL_BRIDGE;
    m.job.ttl_ms = 10000;
    know(&f, TL_PHASE_DRAIN, 7);
    (void)feed_start(&f);
    assert_int_equal(feed_arg_int(&f, 5), 10000);
    (void)answer_keep(&f, 0, text_of(START_MS + LEGACY_MS - 300), -1);
    feed_assert_asked(&f, "acquire");
    assert_in_range(feed_arg_int(&f, 1), CAP_MS + M_MS, CAP_MS + M_MS + 100);
    assert_int_equal(feed_arg_int(&f, 9), feed_arg_int(&f, 1));
}

TEST(a_racing_losers_stamp_in_its_place_becomes_a_token_too) {
    feed f;
    ready(&f, TL_RENEW);
    m.job.hold.proof.held_by = 1 + TL_BRIDGE;
    know(&f, TL_PHASE_DRAIN, 7);
    (void)feed_start(&f);
    const char *losers = text_of(START_MS + LEGACY_MS - 300);
    assert_int_equal(answer_keep(&f, 0, losers, -1), TL_GO);
    feed_assert_asked(&f, "acquire");
    assert_string_equal(feed_arg(&f, 7), TOKEN);
    assert_string_equal(feed_arg(&f, 8) + 1, losers);
    assert_int_equal(answer_take(&f, 1, TOKEN, T_MS, true), TL_END);
    expect(&f, TL_OK, false);
    assert_int_equal(speaks(), 1 + TL_TOKEN);
}

TEST(at_the_end_of_a_lease_a_stamp_stays_one) {
    feed f;
    ready(&f, TL_RENEW);
    m.job.hold.proof.held_by = 1 + TL_BRIDGE;
    know(&f, TL_PHASE_DRAIN, 7);
    feed_at(&f, LEASE_MS - LEASE_MS / 4);
    (void)feed_start(&f);
    feed_assert_asked(&f, "renew");
    assert_string_equal(writes(&f), "stamp");
}

TEST(what_turns_into_a_token_ends_with_the_lease) {
    feed f;
    ready(&f, TL_RENEW);
    m.job.hold.proof.held_by = 1 + TL_BRIDGE;
    m.job.attempt_ms = 60000;
    know(&f, TL_PHASE_DRAIN, 7);
    (void)feed_start(&f);
    assert_int_equal(feed_since(f.last.by), LEASE_MS);
}

TEST(a_stamp_without_scripts_is_never_renewed) {
    feed f;
    ready(&f, TL_RENEW);
    m.job.hold.proof.held_by = 1 + TL_TIMESTAMP;
    m.job.hold.proof.stamp.capped_until = TL_NEVER;
    know(&f, TL_PHASE_DRAIN, 7);
    (void)feed_start(&f);
    assert_true(f.sends == 0 || strcmp(writes(&f), "token") != 0);
}

/* ---- holds ----------------------------------------------------------------------------------- */

TEST(a_token_stays_a_token_whatever_the_phase) {
    for (int phase = TL_PHASE_TIMESTAMP; phase <= TL_PHASE_TOKEN; phase++) {
        feed f;
        ready(&f, TL_RENEW);
        m.job.hold.proof = (tl_proof){.kind = TL_PROOF_TOKEN, .held_by = 1 + TL_TOKEN};
        know(&f, phase, 7);
        (void)feed_start(&f);
        feed_assert_asked(&f, "renew");
        assert_string_equal(writes(&f), "token");
        (void)feed_kept(&f, T_MS);
        expect(&f, TL_OK, false);
        assert_int_equal(speaks(), 1 + TL_TOKEN);
    }
}

TEST(a_keep_never_waits_for_a_register) {
    for (uint8_t by = TL_TOKEN; by <= TL_TIMESTAMP; by++) {
        feed f;
        ready(&f, TL_RENEW);
        m.job.hold.proof.held_by = 1 + by;
        (void)feed_start(&f);
        feed_assert_asked(&f, "renew");
    }
}

TEST(a_keep_of_a_token_from_elsewhere_writes_what_the_phase_writes) {
    for (int phase = TL_PHASE_TIMESTAMP; phase <= TL_PHASE_TOKEN; phase++) {
        feed f;
        ready(&f, TL_RENEW);
        m.job.hold.proof = (tl_proof){0};
        (void)feed_start(&f);
        feed_assert_asked(&f, "phase");
        (void)answer_phase(&f, phase, 7, LEASE_MS);
        feed_assert_asked(&f, "renew");
        assert_string_equal(writes(&f), phase >= TL_PHASE_DRAIN ? "token" : "stamp");
    }
}

TEST(a_drop_needs_no_phase) {
    for (int by = -1; by <= TL_TIMESTAMP; by++) {
        feed f;
        ready(&f, TL_RELEASE);
        m.job.hold.proof.held_by = (uint8_t)(1 + by);
        (void)feed_start(&f);
        feed_assert_asked(&f, "release");
        assert_int_equal(answer_drop(&f, 1, NULL), TL_END);
        expect(&f, TL_OK, false);
    }
}

/* A stamp as a stamp, a token as a token. Where it isn't known, the script sees what K holds. */
TEST(a_lock_rests_as_it_is_held) {
    for (int by = -1; by <= TL_TIMESTAMP; by++) {
        feed f;
        ready(&f, TL_RELEASE);
        know(&f, TL_PHASE_DRAIN, 7);
        m.job.hold.proof.held_by = (uint8_t)(1 + by);
        m.job.release.rest_ms = 3600000;
        m.job.release.rest_since = feed_ms(0);
        m.job.release.rest_since_us = FEED_SERVER_US;
        feed_at(&f, 2 * L_MS);
        (void)feed_start(&f);
        feed_assert_asked(&f, "rest");
        assert_int_equal(f.last.command[0].argc, 3 + (by == TL_TOKEN ? 6 : 12));
        assert_int_equal(answer_drop(&f, 1, NULL), TL_END);
        expect(&f, TL_OK, false);
    }
}

/* A take that wasn't answered, where there are no scripts: its protocol isn't known. */
TEST(what_a_take_has_left_is_dropped_without_scripts_too) {
    feed f;
    ready(&f, TL_RELEASE);
    m.job.hold.proof = (tl_proof){0};
    f.server.level = TL_LEVEL_WATCH;
    (void)feed_start(&f);
    assert_ptr_equal(f.last.pin, &tl__pin_opens);
    ready(&f, TL_RELEASE);
    m.job.hold.proof = (tl_proof){0};
    (void)feed_start(&f);
    assert_int_equal(feed_reply(&f, "-ERR unknown command 'EVALSHA'\n"), TL_GO);
    assert_ptr_equal(f.last.pin, &tl__pin_opens);
}

TEST(a_stray_answer_changes_nothing) {
    feed f;
    ready(&f, TL_ACQUIRE);
    (void)feed_start(&f);
    assert_int_equal(feed_reply_to(&f, TICKET + 1, "[3 1 30000 '1' '1']"), TL_GO);
    assert_int_equal(feed_timer(&f), TL_GO);
    assert_int_equal(f.sends, 1);
    assert_false(f.out.keeps);
}

/* ---- the guard ------------------------------------------------------------------------------- */

/* A take while this host's clock is so far ahead of the server's, known to 2 ms. */
static void take_with_clock(feed *f, const tl_protocol *protocol, tl_clock_guard guard,
                            int64_t ahead_us) {
    prepare(f, protocol, TL_ACQUIRE);
    m.job.rules.clock_guard = (uint8_t)guard;
    f->server.wall_us = FEED_OFFSET_US + ahead_us - 1000;
    f->server.wall_wide_us = 1000;
    f->server.anchor.offset.hi += 1000;
    (void)feed_start(f);
}

TEST(a_clock_that_is_off_for_certain_is_warned_of_or_refused) {
    static const tl_protocol *const both[] = {&tl__protocol_bridge, &tl__protocol_timestamp};
    for (size_t i = 0; i < 2; i++) {
        feed f;
        take_with_clock(&f, both[i], TL_GUARD_WARN, M_MS * 1000 + 2001);
        assert_true(f.out.clock_off);
        assert_non_null(strstr(f.out.clock_message, "at least 1000 ms ahead of"));
        feed_assert_asked(&f, "acquire");
        take_with_clock(&f, both[i], TL_GUARD_REFUSE, M_MS * 1000 + 2001);
        expect(&f, TL_ECLOCK, false);
        assert_int_equal(f.sends, 0);
        take_with_clock(&f, both[i], TL_GUARD_REFUSE, -M_MS * 1000 - 1);
        expect(&f, TL_ECLOCK, false);
        assert_non_null(strstr(f.out.message, "behind"));
        take_with_clock(&f, both[i], TL_GUARD_OFF, 3600000000);
        assert_false(f.out.clock_off);
        feed_assert_asked(&f, "acquire");
    }
}

TEST(what_is_not_certain_is_not_refused) {
    for (int64_t us = -M_MS * 1000; us <= M_MS * 1000 + 2000; us += 1000) {
        feed f;
        take_with_clock(&f, &tl__protocol_bridge, TL_GUARD_REFUSE, us);
        feed_assert_asked(&f, "acquire");
        assert_false(f.out.clock_off);
    }
    feed f;
    prepare(&f, &tl__protocol_bridge, TL_ACQUIRE);
    m.job.rules.clock_guard = TL_GUARD_REFUSE;
    f.server.wall_us = FEED_OFFSET_US + 3600000000;
    f.server.anchor.known = false;
    (void)feed_start(&f);
    feed_assert_asked(&f, "acquire");
}

/* A step of a clock since the server's was looked at is seen before the next take. */
TEST(the_guard_asks_for_the_time_when_it_was_told_long_ago) {
    feed f;
    prepare(&f, &tl__protocol_bridge, TL_ACQUIRE);
    m.job.rules.clock_guard = TL_GUARD_REFUSE;
    m.job.attempt_ms = 60000; /* for the limit's sake it need not be asked for */
    f.server.drift_ppm = 100000;
    f.server.anchor.at = feed_ms(-2750); /* which leave half of M */
    f.server.wall_us = FEED_OFFSET_US + (M_MS + 500) * 1000;
    (void)feed_start(&f);
    feed_assert_asked(&f, "acquire");
    f.server.anchor.at = feed_ms(-2751);
    tl__attempt_init(&m.attempt, m.job.protocol, TL_ACQUIRE, TICKET, feed_ms(60000));
    (void)feed_start(&f);
    assert_string_equal(f.last.command[0].argv[0].p, "TIME");
    unsigned sends = f.sends;
    (void)feed_reply(&f, "['1700005000' '0']");
    expect(&f, TL_ECLOCK, false);
    assert_int_equal(f.sends, sends);
    assert_non_null(strstr(f.out.message, "at least 1499 ms ahead of"));
}

/* Nobody could read it, and where nothing ends it, it would be held for ever. */
TEST(no_stamp_is_written_by_a_clock_of_before_2001) {
    static const tl_protocol *const both[] = {&tl__protocol_bridge, &tl__protocol_timestamp};
    const int64_t early_us = INT64_C(1000000000000000) - T_MS * 1000;
    for (size_t i = 0; i < 4; i++) {
        feed f;
        prepare(&f, both[i % 2], TL_ACQUIRE);
        m.job.rules.clock_guard = TL_GUARD_OFF;
        m.job.rules.strict = i == 3;
        f.server.wall_us = early_us - 1000 - FEED_START_NS / 1000;
        f.server.anchor.offset = (tl_interval){f.server.wall_us, f.server.wall_us};
        (void)feed_start(&f);
        expect(&f, TL_ECLOCK, false);
        assert_int_equal(f.sends, 0);
        assert_non_null(strstr(f.out.message, "before 2001"));
        prepare(&f, both[i % 2], TL_ACQUIRE);
        m.job.rules.clock_guard = TL_GUARD_OFF;
        m.job.rules.strict = i == 3;
        f.server.wall_us = early_us - FEED_START_NS / 1000;
        f.server.anchor.offset = (tl_interval){f.server.wall_us, f.server.wall_us};
        assert_int_equal(feed_start(&f), TL_GO);
        assert_int_equal(f.sends, 1);
    }
}

TEST(who_holds_is_not_bothered_about_clocks) {
    for (tl_op op = TL_RENEW; op <= TL_RELEASE; op++) {
        feed f;
        prepare(&f, &tl__protocol_bridge, op);
        m.job.rules.clock_guard = TL_GUARD_REFUSE;
        f.server.wall_us = FEED_OFFSET_US + 3600000000;
        assert_int_equal(feed_start(&f), TL_GO);
        assert_false(f.out.clock_off);
    }
}

static void said(feed *f, int phase, tl_clock_guard guard, const char *worst) {
    ready(f, TL_ACQUIRE);
    m.job.rules.clock_guard = (uint8_t)guard;
    (void)feed_start(f);
    (void)feed_reply(f, "[%d 7 %d %s %s]", phase, LEASE_MS, feed_time(f), worst);
}

static void unsafe_since(feed *f, int phase, tl_clock_guard guard) {
    said(f, phase, guard, "1350");
}

TEST(what_skew_has_published_counts_while_stamps_are_written) {
    feed f;
    for (int phase = TL_PHASE_TIMESTAMP; phase <= TL_PHASE_BRIDGE; phase++) {
        unsafe_since(&f, phase, TL_GUARD_REFUSE);
        expect(&f, TL_ECLOCK, false);
        assert_non_null(strstr(f.out.message, "namespace default are up to 1350 ms apart"));
        unsafe_since(&f, phase, TL_GUARD_WARN);
        assert_true(f.out.clock_off);
        feed_assert_asked(&f, "acquire");
    }
    for (int phase = TL_PHASE_DRAIN; phase <= TL_PHASE_TOKEN; phase++) {
        unsafe_since(&f, phase, TL_GUARD_REFUSE);
        assert_false(f.out.clock_off);
        feed_assert_asked(&f, "acquire");
    }
    ready(&f, TL_ACQUIRE);
    m.job.rules.clock_guard = TL_GUARD_REFUSE;
    (void)feed_start(&f);
    (void)feed_reply(&f, "[1 7 %d %s -1]", LEASE_MS, feed_time(&f));
    feed_assert_asked(&f, "acquire");
}

TEST(a_verdict_that_is_half_read_is_doubt_for_who_asked_to_refuse) {
    static const struct {
        const char *worst, *words;
    } c[] = {
        {"-2", "clocks of namespace default are too far apart: UNSAFE, says tidelock skew"},
        {"-3", "for namespace default can't be read: delete the key tidelock:skew:{default}, then"},
        {"9000000000000000", "are up to 2147483647 ms apart"},
    };
    feed f;
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        said(&f, TL_PHASE_BRIDGE, TL_GUARD_REFUSE, c[i].worst);
        expect(&f, TL_ECLOCK, false);
        if (!strstr(f.out.message, c[i].words))
            fail_msg("%s", f.out.message);
        said(&f, TL_PHASE_BRIDGE, TL_GUARD_WARN, c[i].worst);
        assert_true(f.out.clock_off);
        assert_non_null(strstr(f.out.clock_message, c[i].words));
        feed_assert_asked(&f, "acquire");
        said(&f, TL_PHASE_BRIDGE, TL_GUARD_OFF, c[i].worst);
        assert_false(f.out.clock_off);
        feed_assert_asked(&f, "acquire");
    }
}

/* ---- keeping a lease fresh ------------------------------------------------------------------- */

static tl_attend attendant;

static tl_status attending(void *machine, const tl_event *e, tl_out *out) {
    tl_status status = tl__attend_step(machine, e, out);
    if (out->keeps)
        tl__lease_merge((tl_lease *)(uintptr_t)tl__lease_of(e->server, out->keeps_at),
                        tl__lease_read(out));
    return status;
}

static void attend(feed *f) {
    ready(f, TL_ACQUIRE);
    tl__attend_init(&attendant, names, 0, ATTEMPT_MS, 1);
    f->machine = &attendant;
    f->step = attending;
    know(f, TL_PHASE_BRIDGE, 7);
    (void)feed_start(f);
}

TEST(a_lease_is_read_again_at_each_third) {
    feed f;
    attend(&f);
    for (int i = 1; i <= 4; i++) {
        assert_int_equal(feed_await(&f), TL_GO);
        assert_int_equal(feed_since(f.now), i * LEASE_MS / 3);
        feed_assert_asked(&f, "phase");
        assert_int_equal(f.sends, i);
        assert_int_equal(answer_phase(&f, TL_PHASE_BRIDGE, 7, LEASE_MS), TL_GO);
        const tl_event then = {.now = feed_ms(i * LEASE_MS / 3 + 20000), .server = &f.server};
        assert_true(tl__lease_lasts(tl__lease_of(&f.server, 0), &then));
    }
}

TEST(a_lease_that_gets_shorter_is_read_again_at_its_own_third) {
    feed f;
    attend(&f);
    (void)feed_await(&f);
    (void)answer_phase(&f, TL_PHASE_BRIDGE, 8, 3000);
    (void)feed_await(&f);
    assert_int_equal(feed_since(f.now), LEASE_MS / 3 + 1000);
}

TEST(what_fails_is_asked_again_soon_and_more_slowly) {
    feed f;
    attend(&f);
    (void)feed_await(&f);
    for (int i = 0; i < 10; i++) {
        (void)feed_lost(&f);
        int64_t failed = feed_since(f.now);
        (void)feed_await(&f);
        assert_in_range(feed_since(f.now) - failed, 10, 1000);
        feed_assert_asked(&f, "phase");
    }
    (void)feed_reply(&f, "-LOADING Redis is loading the dataset in memory");
    assert_int_equal(f.sends, 11);
    (void)feed_await(&f);
    (void)answer_phase(&f, TL_PHASE_BRIDGE, 6, LEASE_MS); /* older: not kept, and asked again */
    assert_int_equal(tl__lease_of(&f.server, 0)->epoch, 7);
    (void)feed_await(&f);
    assert_int_equal(f.sends, 13);
    assert_int_equal(feed_cancel(&f), TL_END);
}

TEST(a_stray_answer_is_not_read) {
    feed f;
    attend(&f);
    assert_int_equal(feed_reply_to(&f, 0, "[3 8 30000 '1' '1']"), TL_GO);
    assert_int_equal(tl__lease_of(&f.server, 0)->epoch, 7);
    (void)feed_await(&f);
    (void)feed_reply_to(&f, 99, "[3 8 30000 '1' '1']");
    assert_int_equal(tl__lease_of(&f.server, 0)->epoch, 7);
    assert_int_equal(f.sends, 1);
}

TEST(who_leaves_takes_its_record_away_and_asks_once) {
    for (int answered = 0; answered < 2; answered++) {
        feed f;
        attend(&f);
        tl__leave_init(&attendant, names, 0, ATTEMPT_MS);
        assert_int_equal(feed_start(&f), TL_GO);
        SAID(&f, "HDEL", REGISTER ":clients", ID);
        assert_int_equal(feed_timer(&f), TL_GO);
        assert_int_equal(answered ? feed_reply(&f, "1") : feed_lost(&f), TL_END);
        assert_int_equal(f.sends, 1);
    }
}

static int end(void **state) {
    (void)state;
    free(names);
    return 0;
}

int main(void) {
    return tests_run_group("tests", 0, NULL, end);
}
