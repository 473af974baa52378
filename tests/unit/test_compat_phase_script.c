/*
 * The script that reads a register, executed: what it answers, and what it leaves of a client for those
 * who move the phase.
 */
#include <stdlib.h>
#include <string.h>

#include "fake_redis.h"
#include "tests.h"
#include "wire/script.h"

#define REGISTER "tidelock:phase:{ns}"
#define CLIENTS REGISTER ":clients"
#define ME "00000000-0000-4000-8000-0000000000aa"
#define OTHER "00000000-0000-4000-8000-0000000000bb"
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

/* Read it as this client, which acts in phase 0 where there is none, and knows this epoch and phase; the
 * epoch that it is told. */
static int64_t read_knowing(const char *id, const char *lease_ms, const char *known,
                            const char *phase) {
    const tl_bytes argv[] = {TL_LITERAL("EVAL"),
                             tl__script_text(TL_SCRIPT_PHASE),
                             TL_LITERAL("3"),
                             TL_LITERAL(REGISTER),
                             TL_LITERAL(CLIENTS),
                             TL_LITERAL("tidelock:skew:{ns}"),
                             tl__bytes_of(id),
                             TL_LITERAL("1.0 host 7 service"),
                             TL_LITERAL("1700000000000000"),
                             TL_LITERAL("0"),
                             tl__bytes_of(lease_ms),
                             TL_LITERAL("0"),
                             tl__bytes_of(known),
                             tl__bytes_of(phase),
                             TL_LITERAL("jobs:*")};
    int64_t epoch = -1;
    const tl_reply *r = fake_conn_command(conn, argv, sizeof argv / sizeof *argv);
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
    (void)fake_conn_say(conn, "HMSET " REGISTER " phase 2 epoch 5 lease_ms 30000");
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
    (void)fake_conn_say(conn, "HMSET " REGISTER " phase 1 epoch 1 lease_ms 1000");
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
    (void)fake_conn_say(conn, "HMSET " REGISTER " phase 1 epoch 6 lease_ms 30000");
    assert_int_equal(read_knowing(ME, "30000", "7", "3"), 6);
    record_is(ME, "7 3 1000 1700000000000000 1.0 host 7 service\tjobs:*");
    (void)fake_conn_say(conn, "HMSET " REGISTER " phase 2 epoch 8");
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
