/*
 * The script that reads a register, executed: what it answers, and what it leaves of a client for those
 * who move the phase.
 */
#include <stdlib.h>
#include <string.h>

#include "fake_redis.h"
#include "legacy/migrate_record.h"
#include "tests.h"
#include "wire/script.h"

#define REGISTER "tidelock:phase:{ns}"
#define SKEW "tidelock:skew:{ns}"
#define CLIENTS REGISTER ":clients"
#define ME "00000000-0000-4000-8000-0000000000aa"
#define OTHER "00000000-0000-4000-8000-0000000000bb"
#define REST " since 1700000000000000 keys jobs:*"
#define NOW INT64_C(1700000000000000)

static fake_redis *server;
static fake_conn *conn;

static int set_up(void **state) {
    (void)state;
    server = fake_redis_new();
    conn = fake_redis_connect(server, NULL, NULL);
    fake_redis_set_time(server, NOW);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    fake_conn_close(conn);
    fake_redis_free(server);
    return 0;
}

TESTS_WITH(set_up, tear_down);

static void at_ms(int64_t ms) {
    fake_redis_set_time(server, NOW + ms * 1000);
}

/* Read it as this client, which acts in phase 0 where there is none, and knows this epoch and phase. */
static const tl_reply *ask(const char *id, const char *lease_ms, const char *known,
                           const char *phase) {
    const tl_bytes argv[] = {TL_LITERAL("EVAL"),
                             tl__script_text(TL_SCRIPT_PHASE),
                             TL_LITERAL("3"),
                             TL_LITERAL(REGISTER),
                             TL_LITERAL(CLIENTS),
                             TL_LITERAL(SKEW),
                             tl__bytes_of(id),
                             TL_LITERAL("1.0 host 7 service"),
                             TL_LITERAL("1700000000000000"),
                             TL_LITERAL("0"),
                             tl__bytes_of(lease_ms),
                             TL_LITERAL("0"),
                             tl__bytes_of(known),
                             tl__bytes_of(phase),
                             TL_LITERAL("jobs:*")};
    return fake_conn_command(conn, argv, sizeof argv / sizeof *argv);
}

/* The epoch that it is told. */
static int64_t read_knowing(const char *id, const char *lease_ms, const char *known,
                            const char *phase) {
    int64_t epoch = -1;
    const tl_reply *r = ask(id, lease_ms, known, phase);
    if (!tl__reply_int(tl__reply_item(r, 1), &epoch))
        fail_msg("%.*s", (int)r->text.n, r->text.p);
    return epoch;
}

static int64_t read_as(const char *id, const char *lease_ms) {
    return read_knowing(id, lease_ms, "0", "0");
}

static void record_is(const char *id, const char *expected) {
    tl_bytes text = {0};
    bool there = fake_redis_peek_field(server, 0, TL_LITERAL(CLIENTS), tl__bytes_of(id), &text);
    assert_int_equal(there, expected != NULL);
    if (there && !tl__bytes_eq(text, tl__bytes_of(expected)))
        fail_msg("%.*s", (int)text.n, text.p);
}

TEST(a_client_is_recorded_with_what_it_acts_by) {
    assert_int_equal(read_as(ME, "30000"), 0);
    record_is(ME, "0 0 30000 1700000000000000 1.0 host 7 service\tjobs:*");
    (void)fake_conn_say(conn, "HMSET " REGISTER " phase 2 epoch 5 lease_ms 30000" REST);
    at_ms(10);
    assert_int_equal(read_as(ME, "30000"), 5);
    record_is(ME, "5 2 30000 1700000000010000 1.0 host 7 service\tjobs:*");
    assert_int_equal(read_as(ME, "20000"),
                     5); /* a shorter one, while the last may still be acted by */
    record_is(ME, "5 2 30000 1700000000010000 1.0 host 7 service\tjobs:*");
}

/* Else those who move the phase would believe that nobody falls back any more. */
TEST(a_longer_lease_is_not_forgotten_before_it_is_over) {
    assert_int_equal(read_as(ME, "30000"), 0);
    (void)fake_conn_say(conn, "HMSET " REGISTER " phase 1 epoch 1 lease_ms 1000" REST);
    at_ms(29999);
    assert_int_equal(read_as(ME, "30000"), 1);
    record_is(ME, "0 0 30000 1700000000000000 1.0 host 7 service\tjobs:*");
    assert_int_equal(read_as(OTHER, "30000"), 1);
    record_is(OTHER, "1 1 1000 1700000029999000 1.0 host 7 service\tjobs:*");
    at_ms(30000);
    assert_int_equal(read_as(ME, "30000"), 1);
    record_is(ME, "1 1 1000 1700000030000000 1.0 host 7 service\tjobs:*");
}

/* It refuses to act by that; and who makes a register anew must go beyond what it knows. */
TEST(a_register_that_went_back_is_not_confirmed) {
    assert_int_equal(read_knowing(ME, "30000", "7", "3"), 0); /* it has gone */
    record_is(ME, "7 3 1000 1700000000000000 1.0 host 7 service\tjobs:*");
    (void)fake_conn_say(conn, "HMSET " REGISTER " phase 1 epoch 6 lease_ms 30000" REST);
    assert_int_equal(read_knowing(ME, "30000", "7", "3"), 6);
    record_is(ME, "7 3 1000 1700000000000000 1.0 host 7 service\tjobs:*");
    (void)fake_conn_say(conn, "HMSET " REGISTER " phase 2 epoch 8" REST);
    assert_int_equal(read_knowing(ME, "30000", "7", "3"), 8);
    record_is(ME, "8 2 30000 1700000000000000 1.0 host 7 service\tjobs:*");
}

TEST(those_that_are_gone_are_cleared_away) {
    assert_int_equal(read_as(OTHER, "1000"), 0);
    at_ms(3000);
    assert_int_equal(read_as(ME, "30000"), 0);
    record_is(OTHER, "0 0 1000 1700000000000000 1.0 host 7 service\tjobs:*");
    (void)fake_conn_say(conn, "DEL " CLIENTS);
    at_ms(0);
    assert_int_equal(read_as(OTHER, "1000"), 0);
    at_ms(3001);
    assert_int_equal(read_as(ME, "30000"), 0);
    record_is(OTHER, NULL);
}

/* ---- by one rule -------------------------------------------------------------------------------- */

static int64_t item(const tl_reply *r, size_t i) {
    int64_t n = INT64_MIN;
    if (!tl__reply_int(tl__reply_item(r, i), &n))
        fail_msg("%zu of %.*s", i, (int)r->text.n, r->text.p);
    return n;
}

static void set_field(const char *key, const char *field, tl_bytes value) {
    const tl_bytes argv[] = {TL_LITERAL("HSET"), tl__bytes_of(key), tl__bytes_of(field), value};
    (void)fake_conn_command(conn, argv, sizeof argv / sizeof *argv);
}

static bool tool_reads(migrate_register *ret) {
    migrate_register_read(fake_conn_say(conn, "HGETALL " REGISTER), ret);
    return ret->readable;
}

/* Phase 2, epoch 5, with one field that is otherwise: both read it, or neither. */
static void read_by_both(bool readable, const char *field, tl_bytes value) {
    migrate_register reg;
    (void)fake_conn_say(conn, "DEL " REGISTER);
    (void)fake_conn_say(conn, "HMSET " REGISTER " phase 2 epoch 5 lease_ms 20000" REST);
    if (value.p)
        set_field(REGISTER, field, value);
    else
        (void)fake_conn_command(
            conn, (const tl_bytes[]){TL_LITERAL("HDEL"), TL_LITERAL(REGISTER), tl__bytes_of(field)},
            3);
    bool tool = tool_reads(&reg);
    const tl_reply *r = ask(ME, "30000", "0", "0");
    bool client = item(r, 0) >= 0;
    if (tool != readable || client != readable)
        fail_msg("%s '%.*s': tool %d, client %d", field, (int)value.n, value.p, tool, client);
    if (client && (item(r, 0) != reg.phase || item(r, 1) != reg.epoch ||
                   item(r, 2) != (reg.lease_ms < 30000 ? reg.lease_ms : 30000)))
        fail_msg("%s '%.*s' is read as two numbers", field, (int)value.n, value.p);
    if (!client && (item(r, 0) != -2 || item(r, 1) != 0))
        fail_msg("%s '%.*s' is not called unreadable", field, (int)value.n, value.p);
}

TEST(clients_and_tool_read_a_register_by_one_rule) {
    static const char *const numbers[] = {"phase", "epoch", "lease_ms", "since"};
    static const char *const no_numbers[] = {"",
                                             "x",
                                             "2.9",
                                             "2.0",
                                             "0x1",
                                             "0x2",
                                             "1e3",
                                             "1e0",
                                             "+2",
                                             " 2",
                                             "2 ",
                                             "2\n",
                                             "-2",
                                             "-0",
                                             "00",
                                             "02",
                                             "0005",
                                             "inf",
                                             "nan",
                                             "-inf",
                                             "2,",
                                             "1_0",
                                             "\xc2\xb2",
                                             "1.",
                                             ".5",
                                             "Infinity",
                                             "0b1",
                                             "5L",
                                             "9999999999999999999",
                                             "99999999999999999999999999999999999999"};
    for (size_t f = 0; f < sizeof numbers / sizeof *numbers; f++) {
        for (size_t i = 0; i < sizeof no_numbers / sizeof *no_numbers; i++)
            read_by_both(false, numbers[f], tl__bytes_of(no_numbers[i]));
        read_by_both(false, numbers[f], tl__bytes("2\0", 2));
        read_by_both(false, numbers[f], (tl_bytes){0});
    }
    for (int phase = 0; phase <= 4; phase++)
        read_by_both(phase < 4, "phase", tl__bytes((const char[]){(char)('0' + phase)}, 1));
    read_by_both(false, "epoch", TL_LITERAL("0"));
    read_by_both(true, "epoch", TL_LITERAL("1000000000000"));
    read_by_both(false, "epoch", TL_LITERAL("1000000000001"));
    read_by_both(false, "lease_ms", TL_LITERAL("0"));
    read_by_both(true, "lease_ms", TL_LITERAL("1"));
    read_by_both(true, "lease_ms", TL_LITERAL("600000"));
    read_by_both(false, "lease_ms", TL_LITERAL("600001"));
    read_by_both(true, "since", TL_LITERAL("0"));
    read_by_both(false, "since", TL_LITERAL("9000000000000001"));
}

TEST(clients_and_tool_want_a_pattern_that_both_can_keep) {
    char longest[MIGRATE_KEYS_SIZE];
    memset(longest, 'k', sizeof longest);
    read_by_both(true, "keys", tl__bytes(longest, sizeof longest - 1));
    read_by_both(false, "keys", tl__bytes(longest, sizeof longest));
    read_by_both(false, "keys", TL_LITERAL(""));
    read_by_both(false, "keys", tl__bytes("a\0b", 3));
    read_by_both(false, "keys", (tl_bytes){0});
    read_by_both(true, "keys", TL_LITERAL("job \xff%z"));
}

TEST(what_is_there_without_a_field_is_no_missing_register) {
    migrate_register reg;
    (void)fake_conn_say(conn, "HSET " REGISTER " by somebody");
    assert_false(tool_reads(&reg));
    assert_true(reg.there);
    assert_int_equal(item(ask(ME, "30000", "0", "0"), 0), -2);
    (void)fake_conn_say(conn, "DEL " REGISTER);
    assert_int_equal(item(ask(ME, "30000", "0", "0"), 0), -1);
}

/* What the client may still act by is not forgotten: who makes a new one must go beyond it. */
TEST(a_register_that_cannot_be_read_confirms_nothing) {
    (void)fake_conn_say(conn, "HMSET " REGISTER " phase 2.9 epoch 8 lease_ms 30000" REST);
    assert_int_equal(read_knowing(ME, "30000", "7", "3"), 0);
    record_is(ME, "7 3 1000 1700000000000000 1.0 host 7 service\tjobs:*");
    assert_int_equal(read_knowing(OTHER, "30000", "0", "0"), 0);
    record_is(OTHER, "0 0 30000 1700000000000000 1.0 host 7 service\tjobs:*");
}

/* ---- advice ------------------------------------------------------------------------------------- */

#define LATER "1700000000000001"

/* The fields of what was published; NULL: there is none. */
static int64_t clocks(const char *verdict, const char *until, const char *worst_ms) {
    (void)fake_conn_say(conn, "DEL " SKEW);
    if (verdict)
        set_field(SKEW, "verdict", tl__bytes_of(verdict));
    if (until)
        set_field(SKEW, "until", tl__bytes_of(until));
    if (worst_ms)
        set_field(SKEW, "worst_ms", tl__bytes_of(worst_ms));
    return item(ask(ME, "30000", "0", "0"), 5);
}

TEST(a_verdict_counts_until_it_is_over) {
    assert_int_equal(clocks(NULL, NULL, NULL), -1);
    assert_int_equal(clocks("UNSAFE", LATER, "1350"), 1350);
    assert_int_equal(clocks("UNSAFE", LATER, "0"), 0);
    assert_int_equal(clocks("UNSAFE", "1700000000000000", "1350"), -1);
    assert_int_equal(clocks("SAFE", LATER, "1350"), -1);
    assert_int_equal(clocks("WARN", LATER, "1350"), -1);
    assert_int_equal(clocks("UNKNOWN", LATER, "-1"), -1);
}

TEST(an_unsafe_whose_numbers_are_none_stays_unsafe) {
    static const char *const no_numbers[] = {"inf", "nan", "-inf", "abc", "",
                                             "-1",  "1e3", "0x10", "1.5", "99999999999999999999"};
    for (size_t i = 0; i < sizeof no_numbers / sizeof *no_numbers; i++) {
        assert_int_equal(clocks("UNSAFE", LATER, no_numbers[i]), -2);
        assert_int_equal(clocks("UNSAFE", no_numbers[i], "1350"), 1350);
        assert_int_equal(clocks("SAFE", no_numbers[i], "1350"), -1);
    }
    assert_int_equal(clocks("UNSAFE", LATER, NULL), -2);
    assert_int_equal(clocks("UNSAFE", NULL, NULL), -2);
}

TEST(advice_that_cannot_be_read_does_not_end_a_reading) {
    static const char *const others[] = {"SET " SKEW " x", "LPUSH " SKEW " x", "SADD " SKEW " x"};
    assert_int_equal(clocks("unsafe", LATER, "1350"), -3);
    assert_int_equal(clocks("", NULL, NULL), -3);
    assert_int_equal(clocks(NULL, LATER, NULL), -3);
    assert_int_equal(clocks(NULL, NULL, "5"), -3);
    assert_int_equal(clocks("nonsense", "1", NULL), -1); /* it is over */
    (void)fake_conn_say(conn, "HMSET " REGISTER " phase 2 epoch 5 lease_ms 20000" REST);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        (void)fake_conn_say(conn, "DEL " SKEW);
        if (fake_conn_say(conn, others[i])->type == TL_REPLY_ERROR)
            continue; /* a kind that this server has none of */
        const tl_reply *r = ask(ME, "30000", "0", "0");
        assert_int_equal(item(r, 0), 2);
        assert_int_equal(item(r, 5), -3);
    }
    (void)fake_conn_say(conn, "DEL " SKEW);
    fake_redis_deny(server, "HMGET", FAKE_NOPERM);
    assert_int_equal(item(ask(ME, "30000", "0", "0"), 5), -3);
}
