/*
 * What migrate changes in the server, executed on servers of every age: none refuses it, below 3.2 neither,
 * where nothing may be written once the TIME was asked; and what is compared in place of the TIME there.
 */
#include "tests.h"
#include "migrate/migrate_scripts.h"

#include <stdio.h>

#include "fake_redis.h"

#define REGISTER "tidelock:phase:{ns}"
#define PERMIT REGISTER ":permit"
#define NOW INT64_C(1700000000000000)
#define S INT64_C(1000000)
#define WORDS 15

static const uint32_t ages[] = {FAKE_LEVEL(2, 6, 17), FAKE_LEVEL(2, 8, 24), FAKE_LEVEL(3, 0, 7),
                                FAKE_LEVEL(3, 2, 13), FAKE_LEVEL(5, 0, 14), FAKE_LEVEL(7, 0, 15)};
#define AGES (sizeof ages / sizeof *ages)

static fake_redis *server;
static fake_conn *conn;
static char permitted[80];
static const char *run_id = ""; /* of the server that was judged */

static bool is_old(uint32_t age) {
    return age < FAKE_LEVEL(3, 2, 0);
}

static void begin(uint32_t age) {
    server = fake_redis_new();
    fake_redis_set_level(server, age);
    fake_redis_set_time(server, NOW);
    conn = fake_redis_connect(server, NULL, NULL);
}

static void end(void) {
    fake_conn_close(conn);
    fake_redis_free(server);
}

static void say(const char *line) {
    const tl_reply *r = fake_conn_say(conn, line);
    assert_non_null(r);
    assert_int_not_equal(r->type, TL_REPLY_ERROR);
}

/* As the tool does it: it may be carried out for 5 s from now. */
static void permit(void) {
    int64_t now = fake_redis_time(server);
    (void)snprintf(permitted, sizeof permitted, "%lld %lld 4711", (long long)(now + 5 * S),
                   (long long)now);
    const tl_bytes argv[] = {TL_LITERAL("PSETEX"), TL_LITERAL(PERMIT), TL_LITERAL("5000"),
                             tl__bytes_of(permitted)};
    assert_int_equal(fake_conn_command(conn, argv, 4)->type, TL_REPLY_STATUS);
}

/* The word that the change is answered with. */
static tl_bytes change(const char *epoch, const char *phase, const char *keys) {
    const char *const words[WORDS] = {"EVAL",
                                      migrate_change_script,
                                      "4",
                                      REGISTER,
                                      REGISTER ":clients",
                                      REGISTER ":log",
                                      PERMIT,
                                      epoch,
                                      phase,
                                      "host 7 user",
                                      "\"action\":\"x\"}",
                                      keys,
                                      "30000",
                                      run_id,
                                      permitted};
    tl_bytes argv[WORDS], text = {0};
    for (size_t i = 0; i < WORDS; i++)
        argv[i] = tl__bytes_of(words[i]);
    const tl_reply *r = fake_conn_command(conn, argv, WORDS);
    if (r->type == TL_REPLY_ERROR)
        fail_msg("%.*s", (int)r->text.n, r->text.p);
    assert_true(tl__reply_text(tl__reply_item(r, 0), &text));
    return text;
}

static void assert_changed(const char *epoch, const char *phase, const char *keys) {
    assert_true(tl__bytes_eq(change(epoch, phase, keys), TL_LITERAL("done")));
}

static void assert_answered(const char *word, const char *epoch) {
    assert_true(tl__bytes_eq(change(epoch, "2", ""), tl__bytes_of(word)));
}

static void assert_field(const char *field, const char *value) {
    tl_bytes text;
    assert_true(fake_redis_peek_field(server, 0, TL_LITERAL(REGISTER), tl__bytes_of(field), &text));
    assert_true(tl__bytes_eq(text, tl__bytes_of(value)));
}

static int64_t since(void) {
    tl_bytes text;
    int64_t us = 0;
    assert_true(fake_redis_peek_field(server, 0, TL_LITERAL(REGISTER), TL_LITERAL("since"), &text));
    assert_true(tl__bytes_to_int(text, &us));
    return us;
}

TEST(a_register_is_made_and_changed) {
    for (size_t i = 0; i < AGES; i++) {
        begin(ages[i]);
        permit();
        fake_redis_set_time(server, NOW + S);
        assert_changed("", "1", "jobs:*");
        assert_field("keys", "jobs:*");
        assert_field("phase", "1");
        assert_int_equal(since() - NOW, is_old(ages[i]) ? 5 * S : S); /* at the latest */
        permit();
        assert_changed("1", "2", "");
        assert_field("epoch", "2");
        assert_int_equal(fake_conn_say(conn, "LLEN " REGISTER ":log")->integer, 2);
        assert_int_equal(fake_conn_say(conn, "EXISTS " PERMIT)->integer, 0);
        end();
    }
}

TEST(a_step_that_comes_late_does_nothing) {
    for (size_t i = 0; i < AGES; i++) {
        begin(ages[i]);
        permit();
        assert_changed("", "1", "jobs:*");
        permit();
        fake_redis_set_time(server, NOW + 5 * S + 1000);
        assert_answered("late", "1");
        assert_field("phase", "1");
        permit();
        assert_answered("done", "1");
        end();
    }
}

/* Another refuses it; but below 3.2 a replica is another too, as is the server itself when it reads its append-only
 * file after a restart: they are sent the script, and must do as was done. */
TEST(a_step_is_for_one_server_and_its_replicas) {
    run_id = "2f";
    for (size_t i = 0; i < AGES; i++) {
        begin(ages[i]);
        fake_redis_set_run_id(server, 0x30);
        permit();
        assert_true(tl__bytes_eq(change("", "1", "jobs:*"),
                                 tl__bytes_of(is_old(ages[i]) ? "done" : "server")));
        assert_int_equal(fake_conn_say(conn, "EXISTS " REGISTER)->integer, is_old(ages[i]));
        end();
    }
    run_id = "";
}

TEST(nobody_is_gone_too_soon) {
    for (size_t i = 0; i < AGES; i++) {
        begin(ages[i]);
        permit();
        assert_changed("", "1", "jobs:*");
        const tl_bytes record[] = {TL_LITERAL("HSET"), TL_LITERAL(REGISTER ":clients"),
                                   TL_LITERAL("c"),
                                   TL_LITERAL("9 2 1000 1700000000000000 0.1.0 db1 7 x")};
        (void)fake_conn_command(conn, record, 4);
        fake_redis_set_time(server, NOW + 3 * S); /* three leases: the last moment */
        permit();
        assert_answered("client", "1");
        fake_redis_set_time(server, NOW + 3 * S + 1000);
        permit();
        assert_answered("done", "1");
        assert_int_equal(fake_conn_say(conn, "EXISTS " REGISTER ":clients")->integer, 0);
        end();
    }
}

TEST(the_history_is_added_to) {
    for (size_t i = 0; i < AGES; i++) {
        begin(ages[i]);
        const tl_bytes argv[] = {TL_LITERAL("EVAL"),
                                 tl__bytes_of(migrate_note_script),
                                 TL_LITERAL("2"),
                                 TL_LITERAL(REGISTER),
                                 TL_LITERAL(REGISTER ":log"),
                                 TL_LITERAL("\"action\":\"sweep\"}"),
                                 TL_LITERAL("1700000000000000")};
        assert_int_equal(fake_conn_command(conn, argv, 7)->type, TL_REPLY_INT);
        const tl_reply *log = fake_conn_say(conn, "LRANGE " REGISTER ":log 0 -1");
        assert_int_equal(log->count, 1);
        assert_true(tl__bytes_eq(log->items[0].text,
                                 TL_LITERAL("{\"at_us\":1700000000000000,\"to_epoch\":0,"
                                            "\"action\":\"sweep\"}")));
        end();
    }
}

/* now_us: the server's time before it was sent. */
static const tl_reply *ask_sweep(const char *now_us) {
    const tl_bytes argv[] = {TL_LITERAL("EVAL"),
                             tl__bytes_of(migrate_sweep_script),
                             TL_LITERAL("2"),
                             TL_LITERAL("jobs:a"),
                             TL_LITERAL("tidelock:{jobs:a}"),
                             TL_LITERAL("7"),
                             TL_LITERAL("1700000000001"),
                             tl__bytes_of(now_us)};
    return fake_conn_command(conn, argv, 8);
}

static int64_t sweep(const char *now_us) {
    const tl_reply *r = ask_sweep(now_us);
    if (r->type == TL_REPLY_ERROR)
        fail_msg("%.*s", (int)r->text.n, r->text.p);
    return r->integer;
}

TEST(a_stamp_is_swept_when_it_is_over) {
    for (size_t i = 0; i < AGES; i++) {
        begin(ages[i]);
        say("SET jobs:a 7");
        say("HMSET tidelock:{jobs:a} token t value 7 until 1700000000001000 fence 1");
        assert_int_equal(sweep("1700000000000000"), -1); /* not over */
        fake_redis_set_time(server, NOW + 1000);
        assert_int_equal(sweep("1700000000001000"), -1); /* its holder may believe in it */
        fake_redis_set_time(server, NOW + 1001);
        assert_int_equal(sweep("1700000000001000"), is_old(ages[i]) ? -1 : 1);
        if (is_old(ages[i])) /* by the time before, which is sooner */
            assert_int_equal(sweep("1700000000001001"), 1);
        assert_int_equal(fake_conn_say(conn, "EXISTS jobs:a")->integer, 0);
        end();
    }
}

/* A node that has but a part of what tells whether it is over removes nothing. */
TEST(nothing_is_swept_while_its_slot_is_being_moved) {
    for (size_t i = 0; i < AGES; i++) {
        if (ages[i] < FAKE_LEVEL(3, 0, 0))
            continue;
        begin(ages[i]);
        fake_redis_set_cluster(server, true);
        say("SET jobs:a 7");
        say("HMSET tidelock:{jobs:a} token t value 8 until 1800000000000000 fence 1");
        fake_redis_move_slots(server, 0, 16383, FAKE_SLOTS_MIGRATING, "127.0.0.1:7001");
        fake_redis_leave_keys(server, "tidelock:*");
        fake_redis_set_time(server, NOW + 60 * S);
        const tl_reply *r = ask_sweep("1700000060000000");
        assert_int_equal(r->type, TL_REPLY_ERROR);
        const char *want = ages[i] < FAKE_LEVEL(7, 0, 0) ? "ASK " : "TRYAGAIN ";
        assert_memory_equal(r->text.p, want, strlen(want));
        assert_int_equal(fake_conn_say(conn, "EXISTS jobs:a")->integer, 1);
        fake_redis_leave_keys(server, NULL);
        assert_int_equal(sweep("1700000060000000"), -1); /* what it didn't know */
        end();
    }
}

/* In a cluster a key of which no sidecar can stand in the same slot has none. */
TEST(a_stamp_without_room_for_a_sidecar_is_swept_by_itself) {
    for (size_t i = 0; i < AGES; i++) {
        begin(ages[i]);
        say("SET a}b 7");
        fake_redis_set_time(server, NOW + 60 * S);
        const tl_bytes argv[] = {TL_LITERAL("EVAL"),
                                 tl__bytes_of(migrate_sweep_script),
                                 TL_LITERAL("1"),
                                 TL_LITERAL("a}b"),
                                 TL_LITERAL("7"),
                                 TL_LITERAL("1700000000001"),
                                 TL_LITERAL("1700000060000000")};
        assert_int_equal(fake_conn_command(conn, argv, 7)->integer, 1);
        assert_int_equal(fake_conn_say(conn, "EXISTS a}b")->integer, 0);
        end();
    }
}
