/*
 * A stamp in a cluster, where its slot is being moved: a take ends, a keep and a drop go on key by key.
 */
#include "stamp_feed.h"

#define X_MS (START_MS + T_MS) /* what K holds when a test begins */
#define LATER_MS 20000

static feed f;

static const char *x(void) {
    return text_of(X_MS);
}

static void begin(tl_op op) {
    prepare(&f, &tl__protocol_bridge, op);
    m.job.rules.nodes = true;
    feed_later(&f, LATER_MS);
    assert_int_equal(feed_start(&f), TL_GO);
}

static tl_status redirect(tl_redirect_kind kind) {
    return feed_event(&f,
                      (tl_event){.kind = TL_FAILED,
                                 .asked = {.ticket = f.last.ticket, .sent = f.sent},
                                 .failed = {.why = TL_EELSEWHERE,
                                            .redirect = (uint8_t)kind,
                                            .message = TL_LITERAL("another node has the key")}});
}

static void assert_alone(const char *script, const char *key, bool asking) {
    feed_assert_asked(&f, script);
    assert_int_equal(f.last.command[0].nkeys, 1);
    assert_string_equal(f.last.command[0].argv[0].p, key);
    assert_true(f.last.alone);
    assert_int_equal(f.last.asking, asking);
}

/* Argument i of a script of one key. */
static const char *arg(size_t i) {
    return f.last.command[0].argv[1 + i].p;
}

static int64_t arg_int(size_t i) {
    return strtoll(arg(i), NULL, 10);
}

static unsigned args(void) {
    return f.last.command[0].argc - 1U;
}

static tl_status noted(const char *value, const char *from, const char *next) {
    char v[32], s[32], n[32];
    (void)snprintf(v, sizeof v, "%s", value);
    (void)snprintf(s, sizeof s, "%s", from);
    (void)snprintf(n, sizeof n, "%s", next);
    return feed_reply(&f, "[1 '%s' '%s' '%s']", v, s, n);
}

static tl_status swapped(int status, const char *value) {
    return feed_reply(&f, "[%d %s %s]", status, quoted(value), feed_time(&f));
}

/* ---- a take ------------------------------------------------------------------------------------ */

TEST(no_take_is_led_on) {
    static const tl_redirect_kind kinds[] = {TL_ASK, TL_TRY_AGAIN};
    for (size_t i = 0; i < 2; i++) {
        begin(TL_ACQUIRE);
        assert_int_equal(redirect(kinds[i]), TL_END);
        expect(&f, TL_EUNAVAILABLE, false);
        assert_non_null(strstr(f.out.message, "the key's slot is being moved: a lock with a stamp "
                                              "can't be acquired until it has moved; wait, or "));
    }
    begin(TL_ACQUIRE);
    assert_int_equal(redirect(TL_MOVED), TL_GO);
    feed_assert_asked(&f, "acquire");
}

TEST(nor_one_from_a_stamp_that_is_over) {
    begin(TL_ACQUIRE);
    (void)answer_take(&f, 0, text_of(server_ms(&f) - 5000), -1, false);
    feed_assert_asked(&f, "acquire");
    assert_int_equal(redirect(TL_TRY_AGAIN), TL_END);
    expect(&f, TL_EUNAVAILABLE, false);
}

/* What WATCH has opened would have to be closed at the same node, and without either nothing can be renewed. */
TEST(a_node_without_scripts_is_not_asked_otherwise) {
    prepare(&f, &tl__protocol_timestamp, TL_ACQUIRE);
    m.job.rules.nodes = true;
    assert_int_equal(feed_start(&f), TL_GO);
    feed_assert_asked(&f, "acquire");
    assert_int_equal(feed_reply(&f, "-ERR unknown command 'EVALSHA'"), TL_END);
    expect(&f, TL_EUNSUPPORTED, false);
    assert_int_equal(f.out.level, 0);
    prepare(&f, &tl__protocol_timestamp, TL_ACQUIRE);
    m.job.rules.nodes = true;
    f.server.level = TL_LEVEL_PLAIN; /* whatever is known of it */
    assert_int_equal(feed_start(&f), TL_GO);
    feed_assert_asked(&f, "acquire");
}

/* ---- a keep ------------------------------------------------------------------------------------ */

TEST(a_keep_notes_what_is_to_follow_and_then_changes_the_key) {
    begin(TL_RENEW);
    assert_int_equal(redirect(TL_TRY_AGAIN), TL_GO);
    assert_alone("note", SIDECAR, false);
    assert_string_equal(arg(0), TOKEN);
    assert_string_equal(arg(1), x());
    assert_in_range(arg_int(2), server_ms(&f) + T_MS - 10, server_ms(&f) + T_MS);
    assert_string_equal(arg(3), "");
    assert_int_equal(arg_int(4), (arg_int(2) + M_MS) * 1000);
    const char *next = text_of(arg_int(2));
    assert_int_equal(noted(x(), x(), next), TL_GO);
    assert_alone("swap", KEY, false);
    assert_string_equal(arg(0), next);
    assert_true(arg_int(1) >= T_MS + M_MS + L_MS); /* K lasts until it is free for all */
    assert_in_range(arg_int(1), 0, T_MS + M_MS + L_MS + 3000);
    int64_t by_us = feed_server_us(LATER_MS + ATTEMPT_MS);
    assert_in_range(arg_int(2), by_us - 10000, by_us + 10000);
    assert_string_equal(arg(3), SIDECAR);
    for (unsigned i = 4; i < args(); i++)
        assert_string_equal(arg(i), x());
    assert_int_equal(swapped(1, next), TL_END);
    expect(&f, TL_OK, false);
    assert_int_equal(result()->proof.stamp.end_ms, strtoll(next, NULL, 10));
    assert_true(result()->proof.unbound);
    int64_t left_ms = tl__ns_until(f.now, result()->deadline) / 1000000;
    assert_in_range(left_ms, T_MS - M_MS - DRIFT_OF(T_MS) / 1000000 - 20, T_MS - M_MS);
}

TEST(each_key_is_asked_for_where_it_is) {
    begin(TL_RENEW);
    (void)redirect(TL_ASK); /* of both */
    assert_alone("note", SIDECAR, false);
    (void)redirect(TL_ASK);
    assert_alone("note", SIDECAR, true);
    const char *next = text_of(arg_int(2));
    (void)noted(x(), x(), next);
    assert_alone("swap", KEY, false);
    (void)redirect(TL_ASK);
    assert_alone("swap", KEY, true);
    assert_string_equal(arg(0), next);
    assert_string_equal(arg(4), x());
    (void)swapped(1, next);
    expect(&f, TL_OK, false);
}

/* An earlier one, unanswered, may have changed K to that, or may do so yet. */
TEST(what_was_noted_before_is_what_follows) {
    begin(TL_RENEW);
    (void)redirect(TL_TRY_AGAIN);
    const char *pinned = text_of(X_MS + 18000);
    (void)noted(x(), x(), pinned);
    assert_alone("swap", KEY, false);
    assert_string_equal(arg(0), pinned);
    (void)swapped(1, pinned);
    expect(&f, TL_OK, false);
    assert_int_equal(result()->proof.stamp.end_ms, X_MS + 18000);
}

/* One that is not later than what K holds is of before: another takes its place, by name. */
TEST(what_was_noted_long_ago_is_replaced) {
    static const int64_t old[] = {0, -1, -5000};
    for (size_t i = 0; i < 3; i++) {
        begin(TL_RENEW);
        (void)redirect(TL_TRY_AGAIN);
        const char *stale = text_of(X_MS + old[i]);
        (void)noted(x(), x(), stale);
        assert_alone("note", SIDECAR, false);
        assert_string_equal(arg(3), stale);
        (void)noted(x(), x(), text_of(arg_int(2)));
        assert_alone("swap", KEY, false);
    }
}

/* A keep of both keys that went unanswered: S knows what it has written. */
TEST(what_the_sidecar_knows_is_the_tokens_too) {
    begin(TL_RENEW);
    (void)redirect(TL_TRY_AGAIN);
    const char *known = text_of(X_MS + 4000);
    (void)noted(known, "", text_of(X_MS + 18000));
    assert_alone("swap", KEY, false);
    assert_int_equal(args(), 6);
    assert_string_equal(arg(4), x());
    assert_string_equal(arg(5), known);
}

TEST(one_of_which_only_the_token_is_known_goes_by_the_sidecar) {
    begin(TL_RENEW);
    m.job.hold.proof = (tl_proof){.elsewhere = true};
    m.job.hold.believed = (tl_mono){0};
    (void)redirect(TL_TRY_AGAIN);
    assert_string_equal(arg(1), "");
    const char *next = text_of(arg_int(2));
    (void)noted(x(), "", next);
    assert_alone("swap", KEY, false);
    assert_string_equal(arg(4), x());
    (void)swapped(1, next);
    expect(&f, TL_OK, false);
}

/* It was noted for less than is asked for now. */
TEST(what_is_short_is_followed_by_what_was_asked_for) {
    begin(TL_RENEW);
    (void)redirect(TL_TRY_AGAIN);
    const char *pinned = text_of(X_MS + 1);
    (void)noted(x(), x(), pinned);
    assert_int_equal(swapped(1, pinned), TL_GO);
    assert_alone("note", SIDECAR, false);
    assert_string_equal(arg(1), pinned);
    assert_string_equal(arg(3), pinned);
    const char *next = text_of(arg_int(2));
    (void)noted(x(), pinned, next);
    assert_alone("swap", KEY, false);
    (void)swapped(1, next);
    expect(&f, TL_OK, false);
}

TEST(what_is_none_of_its_own_is_a_loss) {
    begin(TL_RENEW);
    (void)redirect(TL_TRY_AGAIN);
    const char *next = text_of(arg_int(2));
    (void)noted(x(), x(), next);
    assert_int_equal(swapped(0, text_of(X_MS + T_MS + 77)), TL_GO);
    assert_alone("note", SIDECAR, false);
    (void)noted(x(), x(), next);
    assert_alone("swap", KEY, false);
    assert_int_equal(swapped(0, text_of(X_MS + T_MS + 77)), TL_END);
    expect_lost(&f, TL_LOST_TAKEN, true);
    begin(TL_RENEW);
    (void)redirect(TL_TRY_AGAIN);
    (void)noted(x(), x(), text_of(arg_int(2)));
    assert_int_equal(swapped(-1, NULL), TL_END);
    expect_lost(&f, TL_LOST_GONE, false);
}

/* By an extension, that was asked for at the same time. */
TEST(what_another_request_of_its_own_has_noted_since_is_no_loss) {
    begin(TL_RENEW);
    (void)redirect(TL_TRY_AGAIN);
    const char *next = text_of(arg_int(2)), *others = text_of(X_MS + T_MS + 77);
    (void)noted(x(), x(), next);
    assert_int_equal(swapped(0, others), TL_GO);
    assert_alone("note", SIDECAR, false);
    (void)noted(x(), next, others);
    assert_alone("swap", KEY, false);
    assert_string_equal(arg(0), others);
    (void)swapped(1, others);
    expect(&f, TL_OK, false);
    assert_int_equal(result()->proof.stamp.end_ms, X_MS + T_MS + 77);
}

/* It was over before the take, by its writer's clock: that it stands there is no loss. */
TEST(a_racing_losers_stamp_is_replaced) {
    begin(TL_RENEW);
    (void)redirect(TL_TRY_AGAIN);
    const char *next = text_of(arg_int(2)), *losers = text_of(START_MS + T_MS - 300);
    (void)noted(x(), x(), next);
    assert_int_equal(swapped(0, losers), TL_GO);
    assert_alone("swap", KEY, false);
    assert_string_equal(arg(args() - 1), losers);
    (void)swapped(1, next);
    expect(&f, TL_OK, false);
}

TEST(what_was_answered_where_an_ask_had_led_is_asked_once_more) {
    begin(TL_RENEW);
    (void)redirect(TL_ASK);
    (void)redirect(TL_ASK);
    assert_int_equal(feed_reply(&f, "[0 -1]"), TL_GO);
    assert_alone("note", SIDECAR, false);
    const char *next = text_of(arg_int(2));
    (void)noted(x(), x(), next);
    (void)redirect(TL_ASK);
    assert_int_equal(swapped(-1, NULL), TL_GO);
    assert_alone("swap", KEY, false);
    assert_string_equal(arg(0), next);
    (void)swapped(-1, NULL);
    expect_lost(&f, TL_LOST_GONE, false);
}

TEST(a_sidecar_that_binds_another_is_a_loss_and_one_that_is_gone_is_none) {
    begin(TL_RENEW);
    (void)redirect(TL_TRY_AGAIN);
    assert_int_equal(feed_reply(&f, "[0 900]"), TL_END);
    expect_lost(&f, TL_LOST_TAKEN, false);
    begin(TL_RENEW);
    (void)redirect(TL_TRY_AGAIN);
    assert_int_equal(feed_reply(&f, "[0 -1]"), TL_END);
    expect(&f, TL_EUNAVAILABLE, true);
}

TEST(a_request_that_came_too_late_renews_nothing) {
    begin(TL_RENEW);
    (void)redirect(TL_TRY_AGAIN);
    (void)noted(x(), x(), text_of(arg_int(2)));
    assert_int_equal(swapped(-2, x()), TL_END);
    expect(&f, TL_EUNAVAILABLE, false);
}

/* Of a phase of tokens: the process that acquired it has handed it over. */
TEST(an_adopted_token_is_renewed_as_one) {
    begin(TL_RENEW);
    m.job.hold.proof = (tl_proof){.elsewhere = true};
    (void)redirect(TL_ASK);
    (void)noted(TOKEN, "", text_of(arg_int(2)));
    assert_alone("swap", KEY, false);
    (void)redirect(TL_ASK);
    feed_at(&f, LATER_MS + 20);
    assert_int_equal(swapped(0, TOKEN), TL_GO);
    assert_alone("hold", KEY, false);
    assert_string_equal(arg(0), TOKEN);
    assert_string_equal(arg(3), "keep");
    (void)redirect(TL_ASK);
    assert_alone("hold", KEY, true);
    assert_int_equal(feed_reply(&f, "[1 '" TOKEN "' %d %s 1]", T_MS, feed_time(&f)), TL_END);
    expect(&f, TL_OK, false);
    assert_int_equal(result()->proof.held_by, 1 + TL_TOKEN);
    assert_int_equal(result()->proved.ns, feed_ms(LATER_MS + 20).ns);
}

/* ---- when the slot is whole again ------------------------------------------------------------------ */

TEST(what_was_renewed_key_by_key_becomes_the_sidecars_again) {
    begin(TL_RENEW);
    (void)answer_keep(&f, 0, x(), 30000);
    feed_assert_asked(&f, "acquire");
    assert_string_equal(feed_arg(&f, 8) + 1, x());
    assert_false(f.last.alone);
}

/* By one that went unanswered. */
TEST(what_may_have_been_renewed_key_by_key_is_found_out) {
    begin(TL_RENEW);
    const char *pinned = text_of(X_MS + T_MS / 2);
    (void)answer_keep(&f, 0, pinned, 30000);
    assert_alone("note", SIDECAR, false);
    (void)noted(x(), x(), pinned);
    assert_alone("swap", KEY, false);
    (void)swapped(1, pinned);
    expect(&f, TL_OK, false);
}

/* S binds for longer than K would have become: for what was noted there, and K has not become. */
TEST(what_the_sidecar_binds_for_is_what_the_key_becomes) {
    begin(TL_RENEW);
    (void)answer_keep(&f, 1, x(), 30000);
    assert_alone("note", SIDECAR, false);
    begin(TL_RENEW);
    (void)answer_keep(&f, 1, text_of(server_ms(&f) + T_MS), 30000);
    expect(&f, TL_OK, false);
    assert_false(result()->proof.unbound);
    prepare(&f, &tl__protocol_bridge, TL_RENEW); /* elsewhere it stays as it is */
    feed_later(&f, LATER_MS);
    (void)feed_start(&f);
    (void)answer_keep(&f, 1, x(), 30000);
    expect(&f, TL_OK, false);
}

/* ---- a drop ------------------------------------------------------------------------------------ */

TEST(a_drop_unbinds_the_sidecar_and_then_deletes_by_all_that_is_its_own) {
    begin(TL_RELEASE);
    assert_int_equal(redirect(TL_TRY_AGAIN), TL_GO);
    assert_alone("note", SIDECAR, false);
    assert_int_equal(args(), 1);
    const char *pinned = text_of(X_MS + 9000), *known = text_of(X_MS - 9000);
    (void)noted(known, x(), pinned);
    assert_alone("swap", KEY, false);
    assert_string_equal(arg(0), "");
    assert_int_equal(arg_int(2), (X_MS - M_MS) * 1000); /* nobody else can have it before */
    assert_int_equal(args(), 8);
    assert_string_equal(arg(4), x());
    assert_string_equal(arg(5), known);
    assert_string_equal(arg(7), pinned);
    assert_int_equal(swapped(1, x()), TL_END);
    expect(&f, TL_OK, false);
}

/* Its bytes may be another's by now. */
TEST(a_drop_that_has_been_asked_for_before_deletes_nothing) {
    begin(TL_RELEASE);
    (void)redirect(TL_TRY_AGAIN);
    assert_int_equal(feed_reply(&f, "[0 -1]"), TL_GO);
    SAID(&f, "GET", KEY);
    assert_int_equal(feed_reply(&f, "'%s'", x()), TL_END);
    expect(&f, TL_OK, false);
    begin(TL_RELEASE);
    (void)redirect(TL_TRY_AGAIN);
    (void)feed_reply(&f, "[0 -1]");
    assert_int_equal(feed_reply(&f, "'%s'", text_of(X_MS + T_MS)), TL_END);
    expect(&f, TL_ETAKEN, false);
    begin(TL_RELEASE);
    (void)redirect(TL_TRY_AGAIN);
    (void)feed_reply(&f, "[0 -1]");
    assert_int_equal(feed_reply(&f, "nil"), TL_END);
    expect(&f, TL_EEXPIRED, false);
}

/* Its waiter has stood there in a phase of tokens, or was the holder's. */
TEST(a_drop_leaves_the_queue_first) {
    for (int denied = 0; denied < 2; denied++) {
        begin(TL_RELEASE);
        m.job.queue.stands = true;
        m.job.queue.inbox = TL_LITERAL("tidelock:inbox:1");
        m.job.fences = TL_FENCES;
        (void)redirect(TL_TRY_AGAIN);
        assert_alone("leave", LINE, false);
        assert_memory_equal(arg(0), TOKEN " ", sizeof TOKEN);
        assert_string_equal(arg(1), KEY);
        (void)redirect(TL_ASK);
        assert_alone("leave", LINE, true);
        assert_int_equal(feed_reply(&f, denied ? "-NOPERM no permissions" : "1"), TL_GO);
        assert_alone("note", SIDECAR, false);
        (void)noted(x(), "", "");
        assert_alone("swap", KEY, false);
        assert_int_equal(swapped(1, x()), TL_END);
        expect(&f, TL_OK, false);
    }
}

TEST(a_drop_of_what_the_sidecar_wasnt_told_of_begins_key_by_key) {
    prepare(&f, &tl__protocol_bridge, TL_RELEASE);
    m.job.rules.nodes = m.job.hold.proof.unbound = true;
    assert_int_equal(feed_start(&f), TL_GO);
    assert_alone("note", SIDECAR, false);
    prepare(&f, &tl__protocol_bridge, TL_RELEASE);
    m.job.rules.nodes = true;
    assert_int_equal(feed_start(&f), TL_GO);
    feed_assert_asked(&f, "release");
}

/* Its acquire went unanswered, in a phase of tokens. */
TEST(a_drop_of_a_token_is_one) {
    for (int known = 0; known < 2; known++) {
        begin(TL_RELEASE);
        m.job.hold.proof = (tl_proof){0};
        m.job.release.in_vain = true;
        (void)redirect(TL_TRY_AGAIN);
        (void)(known ? noted(TOKEN, "", "") : feed_reply(&f, "[0 -1]"));
        assert_int_equal(known ? swapped(0, TOKEN) : feed_reply(&f, "'" TOKEN "'"), TL_GO);
        feed_assert_asked(&f, "leave");
        assert_int_equal(feed_reply(&f, "0"), TL_GO);
        assert_alone("unbind", SIDECAR, false);
        assert_int_equal(feed_reply(&f, "0"), TL_GO);
        assert_alone("free", KEY, false);
        assert_int_equal(feed_reply(&f, "1"), TL_END);
        expect(&f, TL_OK, false);
    }
}

TEST(malformed_answers_are_told) {
    static const char *const notes[] = {"5", "[2 'a' 'b' 'c']", "[1 'a']", "[1 'a' 'b' 'c']",
                                        "[0]"};
    static const char *const swaps[] = {"5", "[7 nil 1 1]", "[1 nil]"};
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++) {
        begin(TL_RENEW);
        (void)redirect(TL_TRY_AGAIN);
        assert_int_equal(feed_reply(&f, "%s", notes[i]), TL_END);
        expect(&f, TL_ESERVER, true);
    }
    for (size_t i = 0; i < sizeof swaps / sizeof *swaps; i++) {
        begin(TL_RENEW);
        (void)redirect(TL_TRY_AGAIN);
        (void)noted(x(), x(), text_of(arg_int(2)));
        assert_int_equal(feed_reply(&f, "%s", swaps[i]), TL_END);
        expect(&f, TL_ESERVER, true);
    }
}
