/*
 * Phases in a cluster: each acquire carries what the register of its slot should hold, and acts by what
 * it holds.
 */
#include "stamp_feed.h"

#include "phase/phase.h"

#define REGISTER_OF "tidelock:phase:slot:{"
#define ID "00000000-0000-4000-8000-0000000000aa"

static tl_namespaces *names;
static tl_error why;

/* As the driver does it: what was read is kept. */
static tl_status keeping(void *machine, const tl_event *e, tl_out *out) {
    tl_status status = one_step(machine, e, out);
    if (out->keeps)
        tl__lease_merge((tl_lease *)(uintptr_t)tl__lease_of(e->server, out->keeps_at),
                        tl__lease_read(out));
    return status;
}

static void ready(feed *f, tl_op op) {
    tl_legacy_options o = TL_LEGACY_OPTIONS(0);
    tl_token id;
    memcpy(id.text, ID, sizeof ID);
    prepare(f, &tl__protocol_auto, op);
    free(names);
    assert_int_equal(tl__namespaces_open(&o, TL_LITERAL(OWNER), &id, &names, &why), TL_OK);
    m.job.rules.of = &names->at[0];
    m.job.rules.nodes = true;
    m.job.slot = tl__slot_tag(tl__hash_slot(m.job.key));
    f->step = keeping;
}

static void know(feed *f, int phase, int64_t epoch) {
    *(tl_lease *)&f->server.kept[0] = (tl_lease){
        .phase = (int8_t)phase, .epoch = epoch, .until = TL_NEVER};
}

static const char *writes(const feed *f) {
    if (f->last.command[0].script == TL_SCRIPT_RENEW)
        return strcmp(feed_arg(f, 4), TOKEN) == 0 ? "token" : "stamp";
    feed_assert_asked(f, "acquire");
    return strcmp(feed_arg(f, 7), TOKEN) == 0 ? "token" : "stamp";
}

/* The last send is conditional: the register of this slot must hold these bytes. */
static void expects(const feed *f, const char *reads) {
    char key[96];
    (void)snprintf(key, sizeof key, REGISTER_OF "%s}:default", m.job.slot.text);
    assert_int_equal(f->last.command[0].nkeys, 5);
    assert_int_equal(f->last.native, 0);
    assert_string_equal(f->text[4], key);
    assert_string_equal(feed_arg(f, f->last.command[0].argc - 6), reads);
}

static tl_status answer_differs(feed *f, const char *reads) {
    return feed_reply(f, "[-6 '%s' -1 '0' %s 0 0]", reads, feed_time(f));
}

static uint8_t speaks(void) {
    return result()->proof.held_by;
}

static int64_t known_epoch(const feed *f) {
    return tl__lease_of(&f->server, 0)->epoch;
}

TEST(an_acquire_expects_no_register_at_first) {
    feed f;
    ready(&f, TL_ACQUIRE);
    assert_int_equal(feed_start(&f), TL_GO);
    assert_string_equal(writes(&f), "stamp");
    expects(&f, "");
    assert_int_equal(tl__hash_slot(tl__bytes_of(f.text[4])), tl__hash_slot(m.job.key));
    assert_int_equal(answer_take(&f, 1, text_of(START_MS + T_MS), T_MS, true), TL_END);
    expect(&f, TL_OK, false);
    assert_int_equal(speaks(), 1 + TL_BRIDGE);
    assert_false(f.out.keeps);
}

TEST(it_acts_by_what_the_register_holds_instead) {
    static const struct {
        const char *reads, *writes;
        uint8_t held_by;
        int64_t epoch;
    } rows[] = {{"0 5", "stamp", TL_TIMESTAMP, 5},
                {"1 17", "stamp", TL_BRIDGE, 17},
                {"2 1796000000123456", "token", TL_TOKEN, 1796000000123456},
                {"3 9007199254740991", "token", TL_TOKEN, 9007199254740991}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        feed f;
        ready(&f, TL_ACQUIRE);
        (void)feed_start(&f);
        feed_at(&f, 20);
        assert_int_equal(answer_differs(&f, rows[i].reads), TL_GO);
        assert_string_equal(writes(&f), rows[i].writes);
        expects(&f, rows[i].reads);
        assert_int_equal(known_epoch(&f), rows[i].epoch);
        const char *value = strcmp(rows[i].writes, "token") == 0 ? TOKEN : text_of(START_MS + T_MS);
        assert_int_equal(answer_take(&f, 1, value, T_MS, true), TL_END);
        expect(&f, TL_OK, false);
        assert_int_equal(speaks(), 1 + rows[i].held_by);
        assert_int_equal(result()->proved.ns, feed_ms(20).ns);
    }
}

TEST(what_is_known_is_expected_at_once_and_never_natively) {
    feed f;
    ready(&f, TL_ACQUIRE);
    know(&f, TL_PHASE_TOKEN, 17);
    (void)feed_start(&f);
    assert_string_equal(writes(&f), "token");
    expects(&f, "3 17");
    assert_int_equal(answer_differs(&f, ""), TL_GO); /* its register has gone */
    assert_string_equal(writes(&f), "stamp");
    expects(&f, "");
    assert_int_equal(known_epoch(&f), 17);
}

/* It may have come back with an old dump, when Java runs again. */
TEST(by_an_older_register_no_token_is_written_that_a_later_one_forbids) {
    static const struct {
        int known;
        const char *reads, *writes;
    } rows[] = {{TL_PHASE_BRIDGE, "2 17", "stamp"}, {TL_PHASE_TIMESTAMP, "3 17", "stamp"},
                {TL_PHASE_DRAIN, "1 17", "stamp"},  {TL_PHASE_DRAIN, "3 17", "token"},
                {TL_PHASE_TOKEN, "2 17", "token"},  {TL_PHASE_BRIDGE, "2 19", "token"},
                {TL_PHASE_TOKEN, "1 19", "stamp"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        feed f;
        ready(&f, TL_ACQUIRE);
        know(&f, rows[i].known, 18);
        (void)feed_start(&f);
        (void)answer_differs(&f, rows[i].reads);
        assert_string_equal(writes(&f), rows[i].writes);
        expects(&f, rows[i].reads);
    }
}

TEST(an_older_register_counts_in_its_slot_alone) {
    feed f;
    ready(&f, TL_ACQUIRE);
    know(&f, TL_PHASE_TOKEN, 18);
    (void)feed_start(&f);
    expects(&f, "3 18");
    (void)answer_differs(&f, "1 17");
    assert_string_equal(writes(&f), "stamp");
    expects(&f, "1 17");
    assert_int_equal(known_epoch(&f), 18);
    assert_int_equal(tl__lease_of(&f.server, 0)->phase, TL_PHASE_TOKEN);
}

/* Another thread has read a newer register: the attempt's own request must not pass by that. */
TEST(an_attempt_expects_what_it_acts_by) {
    feed f;
    ready(&f, TL_ACQUIRE);
    know(&f, TL_PHASE_BRIDGE, 17);
    (void)feed_start(&f);
    expects(&f, "1 17");
    know(&f, TL_PHASE_TOKEN, 19);
    (void)answer_take(&f, 0, text_of(START_MS - M_MS - L_MS - 5000), -1, true);
    assert_string_equal(writes(&f), "stamp");
    expects(&f, "1 17");
}

TEST(a_register_that_changes_again_and_again_is_no_lock) {
    feed f;
    ready(&f, TL_ACQUIRE);
    (void)feed_start(&f);
    assert_int_equal(answer_differs(&f, "1 1"), TL_GO);
    assert_int_equal(answer_differs(&f, "2 2"), TL_GO);
    assert_int_equal(answer_differs(&f, "1 3"), TL_GO);
    assert_int_equal(answer_differs(&f, "2 4"), TL_END);
    expect(&f, TL_EUNAVAILABLE, false);
    assert_int_equal(f.sends, 4);
    assert_int_equal(known_epoch(&f), 4);
}

TEST(a_register_that_is_told_too_late_is_no_change) {
    feed f;
    ready(&f, TL_ACQUIRE);
    (void)feed_start(&f);
    feed_at(&f, UNTIL_MS);
    assert_int_equal(answer_differs(&f, "1 1"), TL_END);
    expect(&f, TL_EUNAVAILABLE, false);
    assert_string_equal(f.out.message, "the reply with the phase came too late");
    assert_int_equal(known_epoch(&f), 1);
}

TEST(a_register_that_cannot_be_read_is_no_lock) {
    static const char *const rows[] = {"1",
                                       "4 1",
                                       "1 0",
                                       "1 01",
                                       "1  1",
                                       " 1 1",
                                       "1 1 ",
                                       "1 x",
                                       "-1 1",
                                       "1 -1",
                                       "1 9007199254740992",
                                       "11 1"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        feed f;
        ready(&f, TL_ACQUIRE);
        (void)feed_start(&f);
        assert_int_equal(answer_differs(&f, rows[i]), TL_END);
        expect(&f, TL_ESERVER, false);
        assert_string_equal(
            f.out.message,
            "namespace default: its register tidelock:phase:slot:{0DT}:default can't be "
            "read; see `tidelock migrate status --namespace default`");
        assert_false(f.out.keeps);
    }
}

TEST(a_waiter_queues_by_the_latest_phase_under_the_same_condition) {
    feed f;
    ready(&f, TL_ACQUIRE);
    assert_false(tl__protocol_auto.lines(&f.server, &m.job.rules, f.now));
    know(&f, TL_PHASE_TOKEN, 17);
    assert_true(tl__protocol_auto.lines(&f.server, &m.job.rules, f.now));
    m.job.queue.join = true;
    m.job.queue.inbox = TL_LITERAL("inbox");
    (void)feed_start(&f);
    feed_assert_asked(&f, "join");
    expects(&f, "3 17");
    assert_int_equal(feed_reply(&f, "[-6 '2 18']"), TL_GO);
    assert_string_equal(writes(&f), "token"); /* and joins no queue */
    expects(&f, "2 18");
    assert_int_equal(answer_take(&f, 0, TOKEN "x", 100, true), TL_END);
    expect(&f, TL_EBUSY, false);
    assert_true(result()->acquire.polls);
    assert_false(tl__protocol_auto.lines(&f.server, &m.job.rules, f.now));
}

/* Nothing judges the phase of a renewal. */
TEST(a_stamp_stays_a_stamp) {
    for (int by = -1; by <= TL_TIMESTAMP; by++) {
        if (by == TL_TOKEN)
            continue;
        feed f;
        ready(&f, TL_RENEW);
        m.job.hold.proof.held_by = (uint8_t)(1 + by);
        know(&f, TL_PHASE_DRAIN, 17);
        (void)feed_start(&f);
        assert_string_equal(writes(&f), "stamp");
        assert_int_equal(f.last.command[0].nkeys, 2);
    }
}

TEST(a_racing_losers_stamp_is_replaced_whatever_the_phase) {
    feed f;
    ready(&f, TL_RENEW);
    m.job.hold.proof.held_by = 1 + TL_BRIDGE;
    know(&f, TL_PHASE_DRAIN, 17);
    feed_at(&f, 100);
    (void)feed_start(&f);
    (void)answer_keep(&f, 0, text_of(START_MS + LEGACY_MS), -1);
    feed_assert_asked(&f, "acquire");
    assert_int_equal(f.last.command[0].nkeys, 4);
    assert_string_equal(writes(&f), "stamp");
}

TEST(a_release_has_no_condition) {
    for (int by = -1; by <= TL_TIMESTAMP; by++) {
        feed f;
        ready(&f, TL_RELEASE);
        m.job.hold.proof.held_by = (uint8_t)(1 + by);
        know(&f, TL_PHASE_DRAIN, 17);
        (void)feed_start(&f);
        feed_assert_asked(&f, "release");
        assert_int_equal(f.last.command[0].nkeys, 4);
    }
}

static tl_status redirected(feed *f, tl_redirect_kind kind) {
    return feed_event(f, (tl_event){.kind = TL_FAILED,
                                    .asked = {.ticket = f->last.ticket, .sent = f->sent},
                                    .failed = {.why = TL_EELSEWHERE, .redirect = (uint8_t)kind}});
}

TEST(in_an_open_slot_nothing_is_acquired) {
    feed f;
    ready(&f, TL_ACQUIRE);
    know(&f, TL_PHASE_TOKEN, 17);
    (void)feed_start(&f);
    (void)redirected(&f, TL_TRY_AGAIN);
    expect(&f, TL_EUNAVAILABLE, false);
    assert_int_equal(f.sends, 1);
    assert_non_null(strstr(f.out.message, "a lock that follows a phase can't be acquired until it "
                                          "has moved; wait, or finish the move"));
}

static int end(void **state) {
    (void)state;
    free(names);
    return 0;
}

int main(void) {
    return tests_run_group("tests", 0, NULL, end);
}
