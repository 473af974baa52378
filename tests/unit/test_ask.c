/*
 * Questions that change nothing: the server's time, and what a key holds.
 */
#include <errno.h>

#include "feed.h"

#include "protocol/ask.h"

static tl_ask m;

static void begin(feed *f, const char *key) {
    feed_init(f, &m, tl__ask_step);
    tl__ask_init(&m, tl__bytes_of(key), TL_LITERAL(LINE), ATTEMPT_MS, CONNECT_MS);
    assert_int_equal(feed_start(f), TL_GO);
    feed_assert_asked(f, "");
    assert_int_equal(feed_since(f->last.by), CONNECT_MS);
}

static void ping(feed *f) {
    begin(f, "");
    feed_at(f, 30);
    (void)feed_reached(f);
    assert_int_equal(f->last.count, 1);
    assert_int_equal(feed_since(f->last.by), 30 + ATTEMPT_MS);
}

static void look(feed *f) {
    begin(f, KEY);
    feed_at(f, 30);
    (void)feed_reached(f);
    feed_assert_asked(f, "look");
    assert_int_equal(feed_since(f->last.by), 30 + ATTEMPT_MS);
}

static void expect(const feed *f, tl_err code) {
    assert_int_equal(f->status, TL_END);
    assert_int_equal(m.result.code, code);
    assert_int_equal(f->out.message[0] != '\0', code != TL_OK);
}

/* ---- ping ------------------------------------------------------------------------------------ */

TEST(ping_asks_the_time) {
    feed f;
    ping(&f);
    assert_int_equal(f.last.command[0].form, TL_ARGV);
    assert_int_equal(f.last.command[0].argc, 1);
    assert_string_equal(f.last.command[0].argv[0].p, "TIME");
    (void)feed_reply(&f, "[%s]", feed_time(&f));
    expect(&f, TL_OK);
    assert_true(f.out.has_bracket);
}

TEST(ping_believes_no_nonsense) {
    const char *const bad[] = {"nil", "7", "+PONG", "[]", "['x' 'y']", "['1']"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        feed f;
        ping(&f);
        (void)feed_reply(&f, "%s", bad[i]);
        expect(&f, TL_ESERVER);
    }
}

/* ---- failures -------------------------------------------------------------------------------- */

TEST(errors_are_told_apart) {
    for (int i = 0; i < 2; i++) {
        feed f;
        void (*const ask)(feed *) = i ? look : ping;
        ask(&f);
        (void)feed_reply(&f, "-NOAUTH Authentication required.");
        expect(&f, TL_EDENIED);
        assert_string_equal(f.out.message, "NOAUTH Authentication required.");
        ask(&f);
        (void)feed_reply(&f, "-LOADING Redis is loading");
        expect(&f, TL_EUNAVAILABLE);
        ask(&f);
        (void)feed_reply(&f, "-ERR what");
        expect(&f, TL_ESERVER);
        ask(&f);
        (void)feed_lost(&f);
        expect(&f, TL_EUNAVAILABLE); /* it changes nothing: there is no uncertainty in it */
        ask(&f);
        (void)feed_failed(&f, false, TL_ENOMEM, "out of memory");
        expect(&f, TL_ENOMEM);
        ask(&f);
        (void)feed_event(&f, (tl_event){.kind = TL_REPLY, .asked = {.ticket = f.last.ticket}});
        expect(&f, TL_ESERVER);
    }
}

/* As to those who acquire a lock: it is of this side, and no failure of the server's. */
TEST(a_reply_for_which_there_is_no_memory_is_told_as_that) {
    feed f;
    ping(&f);
    (void)feed_failed(&f, true, TL_ENOMEM, "out of memory");
    expect(&f, TL_ENOMEM);
}

TEST(a_server_that_is_not_reached_is_told_as_it_was) {
    feed f;
    begin(&f, KEY);
    (void)feed_refused(&f);
    expect(&f, TL_EUNAVAILABLE);
    assert_string_equal(f.out.message, "connection refused");
    begin(&f, KEY);
    (void)feed_failed(&f, false, TL_EDENIED, "WRONGPASS");
    expect(&f, TL_EDENIED);
}

/* ---- failovers ------------------------------------------------------------------------------- */

/* Behind Sentinels, or of a cluster. */
static void ask_in_a_fleet(feed *f, const char *key) {
    feed_init(f, &m, tl__ask_step);
    f->asked = 1;
    tl__ask_init(&m, tl__bytes_of(key), TL_LITERAL(LINE), ATTEMPT_MS, CONNECT_MS);
    assert_int_equal(feed_start(f), TL_GO);
    feed_at(f, 30);
    (void)feed_reached(f);
    feed_at(f, 40);
}

static tl_status cut_off(feed *f) {
    return feed_failed(f, true, TL_EUNAVAILABLE, "another server is the master now");
}

TEST(a_question_that_a_failover_has_interrupted_is_asked_again) {
    for (int i = 0; i < 2; i++) {
        feed f;
        ask_in_a_fleet(&f, i ? KEY : "");
        assert_int_equal(cut_off(&f), TL_GO);
        feed_assert_asked(&f, ""); /* of the other server that it is there */
        assert_int_equal(feed_since(f.last.by), 40 + CONNECT_MS);
        f.asked = 2;
        feed_at(&f, 50);
        (void)feed_reached(&f);
        assert_int_equal(f.last.count, 1);
        assert_int_equal(feed_since(f.last.by), 50 + ATTEMPT_MS);
        if (i)
            (void)feed_reply(&f, "['none' nil -2 nil nil nil nil nil %s]", feed_time(&f));
        else
            (void)feed_reply(&f, "[%s]", feed_time(&f));
        expect(&f, TL_OK);
    }
}

TEST(it_is_not_asked_again_beyond_its_limit) {
    feed f;
    ask_in_a_fleet(&f, KEY);
    feed_at(&f, CONNECT_MS + ATTEMPT_MS / 2);
    assert_int_equal(cut_off(&f), TL_GO);
    assert_true(feed_since(f.last.by) <= CONNECT_MS + ATTEMPT_MS);
    (void)feed_reached(&f);
    assert_int_equal(feed_since(f.last.by), CONNECT_MS + ATTEMPT_MS);
    feed_at(&f, CONNECT_MS + ATTEMPT_MS);
    (void)cut_off(&f);
    expect(&f, TL_EUNAVAILABLE);
    assert_string_equal(f.out.message, "another server is the master now");
}

TEST(it_is_not_asked_again_for_ever) {
    feed f;
    int times = 0;
    ask_in_a_fleet(&f, KEY);
    for (; cut_off(&f) == TL_GO; times++)
        (void)feed_reached(&f);
    expect(&f, TL_EUNAVAILABLE);
    assert_in_range(times, 2, 20);
}

TEST(a_question_whose_time_was_up_is_not_asked_again) {
    feed f;
    ask_in_a_fleet(&f, KEY);
    (void)feed_event(&f, (tl_event){.kind = TL_FAILED,
                                    .asked = {.ticket = f.last.ticket},
                                    .failed = {.maybe_sent = true,
                                               .why = TL_EUNAVAILABLE,
                                               .sys_errno = ETIMEDOUT,
                                               .message = TL_LITERAL("no reply")}});
    expect(&f, TL_EUNAVAILABLE);
}

static tl_status keys_are_apart(feed *f, uint8_t how) {
    return feed_event(f, (tl_event){.kind = TL_FAILED,
                                    .asked = {.ticket = f->last.ticket},
                                    .failed = {.why = TL_EELSEWHERE,
                                               .redirect = how,
                                               .message = TL_LITERAL("TRYAGAIN")}});
}

/* There is rarely a queue, and what isn't there may be at the other node. */
TEST(in_an_open_slot_it_asks_without_the_queue_and_then_for_the_key_alone) {
    feed f;
    ask_in_a_fleet(&f, KEY);
    assert_int_equal(f.last.command[0].nkeys, 3);
    assert_int_equal(keys_are_apart(&f, TL_TRY_AGAIN), TL_GO);
    feed_assert_asked(&f, "look");
    assert_int_equal(f.last.command[0].nkeys, 2);
    assert_int_equal(f.last.command[0].argc, 2);
    assert_int_equal(keys_are_apart(&f, TL_TRY_AGAIN), TL_GO);
    assert_int_equal(f.last.command[0].form, TL_ARGV);
    assert_string_equal(f.last.command[0].argv[0].p, "GET");
}

TEST(who_waits_for_a_server_that_left_waits_for_the_other) {
    feed f;
    begin(&f, KEY);
    feed_at(&f, 20);
    assert_int_equal(feed_failed(&f, false, TL_EELSEWHERE, "left"), TL_GO);
    feed_assert_asked(&f, "");
    assert_int_equal(feed_since(f.last.by), 20 + CONNECT_MS);
    (void)feed_reached(&f);
    feed_assert_asked(&f, "look");
}

TEST(cancel_ends_it) {
    feed f;
    look(&f);
    (void)feed_cancel(&f);
    expect(&f, TL_ECANCELLED);
}

TEST(other_events_are_ignored) {
    feed f;
    look(&f);
    assert_int_equal(feed_timer(&f), TL_GO);
    assert_int_equal(feed_woken(&f), TL_GO);
    assert_int_equal(feed_armed(&f, true), TL_GO);
    assert_int_equal(feed_reply_to(&f, 99, "-ERR no"), TL_GO);
    assert_int_equal(feed_event(&f, (tl_event){.kind = TL_FAILED, .asked = {.ticket = 99}}), TL_GO);
    assert_int_equal(f.out.sends, 0);
}

/* ---- looking --------------------------------------------------------------------------------- */

static void answer(feed *f, const char *items) {
    look(f);
    (void)feed_reply(f, "[%s %s]", items, feed_time(f));
    expect(f, TL_OK);
    assert_true(f->out.has_bracket);
    assert_int_equal(m.info.size, sizeof m.info);
}

TEST(a_lock_of_ours_is_described_in_full) {
    feed f;
    char items[512];
    (void)snprintf(items, sizeof items,
                   "'string' '" TOKEN "' 25000 '" TOKEN "' '%lld' '77' '%lld' 'host 42 my demo'",
                   (long long)feed_server_us(25030), (long long)feed_server_us(-4970));
    answer(&f, items);
    assert_true(m.info.held && m.info.by_tidelock);
    assert_int_equal(m.info.remaining_ms, 25000);
    assert_int_equal(m.info.fence, 77);
    assert_int_equal(m.info.held_ms, 5000);
    assert_string_equal(m.info.value, TOKEN);
    assert_string_equal(m.info.host, "host");
    assert_int_equal(m.info.pid, 42);
    assert_string_equal(m.info.service, "my demo");
}

TEST(a_free_lock_tells_the_last_fence) {
    feed f;
    answer(&f, "'none' nil -2 '' '0' '77' '1' 'host 42 demo'");
    assert_false(m.info.held || m.info.by_tidelock);
    assert_int_equal(m.info.remaining_ms, -1);
    assert_int_equal(m.info.fence, 77);
    assert_int_equal(m.info.held_ms, -1);
    assert_string_equal(m.info.value, "");
    assert_string_equal(m.info.host, "");
}

TEST(a_key_never_used_is_free) {
    feed f;
    answer(&f, "'none' nil -2 nil nil nil nil nil");
    assert_false(m.info.held || m.info.by_tidelock);
    assert_int_equal(m.info.fence, 0);
}

TEST(a_lock_of_strangers_is_held_by_nobody_known) {
    feed f;
    answer(&f, "'string' 'foreign' -1 nil nil nil nil nil");
    assert_true(m.info.held);
    assert_false(m.info.by_tidelock);
    assert_int_equal(m.info.remaining_ms, -1);
    assert_string_equal(m.info.value, "foreign");
    assert_int_equal(m.info.fence, 0);
    assert_int_equal(m.info.held_ms, -1);
}

TEST(a_strangers_lock_over_an_old_sidecar_is_not_the_old_holders) {
    feed f;
    answer(&f, "'string' 'foreign' 900 '" TOKEN "' '9999999999999999' '77' '1' 'host 42 demo'");
    assert_true(m.info.held);
    assert_false(m.info.by_tidelock);
    assert_int_equal(m.info.remaining_ms, 900);
    assert_string_equal(m.info.value, "foreign");
    assert_string_equal(m.info.host, "");
}

TEST(an_empty_value_is_not_that_of_a_lock_given_up) {
    feed f;
    answer(&f, "'string' '' 0 '' '0' '77' '1' 'host 42 demo'");
    assert_true(m.info.held);
    assert_false(m.info.by_tidelock);
    assert_int_equal(m.info.remaining_ms, 0);
}

TEST(the_first_and_the_last_moment_count) {
    feed f;
    char items[256];
    int64_t now = feed_server_us(30);
    (void)snprintf(items, sizeof items, "'none' nil -2 't' '%lld' '77' '%lld' 'h 1 s'",
                   (long long)now, (long long)now);
    answer(&f, items);
    assert_true(m.info.held);
    assert_int_equal(m.info.remaining_ms, 1);
    assert_int_equal(m.info.held_ms, 0);
    (void)snprintf(items, sizeof items, "'string' 't' 5 't' '1' '77' '%lld' 'h 1 s'",
                   (long long)now + 1);
    answer(&f, items);
    assert_int_equal(m.info.held_ms, -1);
    answer(&f, "'string' 't' 5 't' '1' '77' '0' 'h 1 s'");
    assert_int_equal(m.info.held_ms, now / 1000);
}

static void assert_constant(const char *value, bool is) {
    feed f;
    char items[128];
    (void)snprintf(items, sizeof items, "'string' '%s' 5 nil nil nil nil nil", value);
    answer(&f, items);
    assert_true(m.info.held);
    if (is != (strncmp(m.info.oddity, "a constant: ", 12) == 0))
        fail_msg("%s: %s", value, m.info.oddity);
}

TEST(a_value_that_every_holder_writes_is_a_fault) {
    static const char *const constants[] = {"1",  "true", "TRUE", "yes",
                                            "on", "OK",   "lock", "Locked"};
    static const char *const others[] = {"0", "11", "list", "worker-1", "lockedout", TOKEN};
    feed f;
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        assert_constant(constants[i], true);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_constant(others[i], false);
    answer(
        &f,
        "'string' '1' 5 '1' '9999999999999999' '7' '0' 'h 1 s'"); /* the sidecar knows its holder */
    assert_string_equal(m.info.oddity, "");
}

TEST(the_value_of_shedlock_is_a_token) {
    feed f;
    answer(&f, "'string' 'ADDED:2026-11-30T03:33:45.123Z@db1:" TOKEN "' 5 nil nil nil nil nil");
    assert_int_equal(m.info.protocol, TL_TOKEN);
    assert_true(m.info.guessed);
    answer(&f, "'string' 'ADDED:2026-11-30T03:33:45.123Z-db1:" TOKEN "' 5 nil nil nil nil nil");
    assert_int_equal(m.info.protocol, -1);
}

TEST(a_key_of_another_kind_is_held) {
    feed f;
    answer(&f, "'hash' nil -1 nil nil nil nil nil");
    assert_true(m.info.held);
    assert_string_equal(m.info.value, "hash");
    assert_string_equal(m.info.oddity, "holds a hash, not a lock");
    answer(&f, "'zset' nil -1 nil nil nil nil nil");
    assert_string_equal(m.info.oddity, "holds a sorted set, not a lock");
    answer(&f, "'ReJSON-RL' nil -1 nil nil nil nil nil");
    assert_string_equal(m.info.value, "ReJSON-RL");
    assert_string_equal(m.info.oddity, "holds a value of another type, not a lock");
    answer(&f, "'redisson' nil 30000 nil nil nil nil nil");
    assert_string_equal(m.info.oddity, "holds a lock of Redisson, which only Redisson can share");
    answer(&f, "'string' 'list' -1 nil nil nil nil nil"); /* a string of that name is none */
    assert_string_equal(m.info.value, "list");
    assert_string_equal(m.info.oddity, "");
    answer(&f, "'none' nil -2 nil nil nil nil nil");
    assert_false(m.info.held);
    assert_string_equal(m.info.oddity, "");
}

TEST(a_deleted_key_is_held_while_its_holder_may_still_work) {
    feed f;
    for (int over = 0; over <= 1; over++) {
        char items[256];
        int64_t until = feed_server_us(30) + 1500500 - over * 1500501;
        (void)snprintf(items, sizeof items, "'none' nil -2 '" TOKEN "' '%lld' '77' '1' 'h 1 s'",
                       (long long)until);
        answer(&f, items);
        assert_int_equal(m.info.held, !over);
        assert_int_equal(m.info.by_tidelock, !over);
        assert_int_equal(m.info.remaining_ms, over ? -1 : 1501);
        assert_string_equal(m.info.value, over ? "" : TOKEN);
    }
}

TEST(what_strangers_wrote_is_cut_and_printable) {
    feed f;
    char items[1600], a300[301];
    memset(a300, 'a', 300);
    a300[300] = '\0';
    (void)snprintf(items, sizeof items,
                   "'string' '\x1b[2J%s' 5 '\x1b[2J%s' '1' '5' '1' '%s 7 \t%s'", a300, a300, a300,
                   a300);
    answer(&f, items);
    assert_true(m.info.by_tidelock);
    assert_int_equal(strlen(m.info.value), sizeof m.info.value - 1);
    assert_memory_equal(m.info.value, "?[2Jaaa", 7);
    assert_int_equal(strlen(m.info.host), sizeof m.info.host - 1);
    assert_int_equal(strlen(m.info.service), sizeof m.info.service - 1);
    assert_int_equal(m.info.service[0], '?');
    assert_int_equal(m.info.pid, 7);
}

TEST(an_owner_without_three_words_is_unknown) {
    const char *const owners[] = {"''", "'host'", "'host 42'", "nil", "7", "'  '"};
    for (size_t i = 0; i < sizeof owners / sizeof *owners; i++) {
        feed f;
        char items[256];
        (void)snprintf(items, sizeof items, "'string' 't' 5 't' '1' '5' '1' %s", owners[i]);
        answer(&f, items);
        assert_true(m.info.by_tidelock);
        assert_string_equal(m.info.host, "");
        assert_string_equal(m.info.service, "");
        assert_int_equal(m.info.pid, 0);
    }
}

TEST(numbers_that_cannot_be_right_are_unknown) {
    feed f;
    answer(&f, "'string' 't' -9223372036854775808 't' '-5' '-9223372036854775808' "
               "'9223372036854775807' 'h x s'");
    assert_int_equal(m.info.remaining_ms, -1);
    assert_int_equal(m.info.fence, 0);
    assert_int_equal(m.info.held_ms, -1);
    assert_int_equal(m.info.pid, 0);
    answer(&f, "'none' nil -2 't' '9223372036854775807' 'x' '-1' 'h 1 s'");
    assert_true(m.info.held && m.info.remaining_ms > 0);
    assert_int_equal(m.info.held_ms, -1);
    answer(&f, "'none' nil -2 't' '-9223372036854775808' 'x' '-1' 'h 1 s'");
    assert_false(m.info.held);
}

/* ---- the line -------------------------------------------------------------------------------- */

typedef struct {
    size_t count;
    tl_waiting of[4];
} standing;

static void told(const tl_waiting *w, void *ctx) {
    standing *s = ctx;
    assert_true(s->count < 4);
    s->of[s->count++] = *w;
}

TEST(those_in_line_are_told_in_order_and_cut) {
    feed f;
    standing s = {0};
    feed_init(&f, &m, tl__ask_step);
    tl__ask_init(&m, TL_LITERAL(KEY), TL_LITERAL(LINE), ATTEMPT_MS, CONNECT_MS);
    m.on_waiting = told;
    m.ctx = &s;
    m.most = 2;
    assert_int_equal(feed_start(&f), TL_GO);
    (void)feed_reached(&f);
    assert_string_equal(f.text[f.last.command[0].argc - 1], "2");
    (void)feed_reply(
        &f,
        "['none' nil -1 nil nil nil nil nil '1000' '0' 2 7"
        " 't 100 1 i host 42 demo' '999000000' 't 100? 64 poll:998000000 h\x1b 7 s' '1000000001']");
    expect(&f, TL_OK);
    assert_int_equal(m.info.in_line, 7);
    assert_int_equal(m.info.waiters, 9);
    assert_int_equal(s.count, 2);
    assert_int_equal(s.of[0].place, 1);
    assert_int_equal(s.of[0].waited_ms, 1000);
    assert_true(s.of[0].fair);
    assert_string_equal(s.of[0].host, "host");
    assert_int_equal(s.of[0].pid, 42);
    assert_string_equal(s.of[0].service, "demo");
    assert_int_equal(s.of[1].place, 2);
    assert_int_equal(s.of[1].waited_ms, -1);
    assert_false(s.of[1].fair);
    assert_string_equal(s.of[1].host, "h?");
}

TEST(an_answer_without_a_kind_or_a_time_is_malformed) {
    const char *const bad[] = {"nil",
                               "7",
                               "[]",
                               "[nil nil -2 nil nil nil nil nil '1700000000' '5']",
                               "[7 nil -2 nil nil nil nil nil '1700000000' '5']",
                               "['none' nil -2 nil nil nil nil nil]",
                               "['none' nil -2 nil nil nil nil nil nil nil]",
                               "['none' nil -2 nil nil nil nil nil '-1' '5']"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        feed f;
        look(&f);
        (void)feed_reply(&f, "%s", bad[i]);
        expect(&f, TL_ESERVER);
    }
}
