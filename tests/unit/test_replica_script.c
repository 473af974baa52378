/*
 * What a replica says of a lock may be old: no script takes it for certain, but refuses as a write is refused, also
 * where there is nothing to be written. At a master such an answer writes nothing.
 */
#include <stdio.h>
#include <string.h>

#include "fake_redis.h"
#include "tests.h"
#include "wire/script.h"

#define K "jobs"
#define S "tidelock:{jobs}"
#define F "tidelock:fence:{6MN}"
#define LINE S ":line"
#define TOKEN "00000000-0000-4000-8000-0000000000aa"
#define OTHER "00000000-0000-4000-8000-0000000000bb"
#define L(text) TL_LITERAL(text)

static const uint32_t levels[] = {FAKE_LEVEL(2, 6, 17), FAKE_LEVEL(2, 8, 0), FAKE_LEVEL(6, 2, 14),
                                  FAKE_LEVEL(7, 0, 15)};
#define LEVELS (sizeof levels / sizeof *levels)

static fake_redis *server;
static fake_conn *conn;
static size_t writes;

static void note_write(void *ctx, uint64_t unit, int db, const tl_bytes *argv, size_t argc) {
    (void)ctx, (void)unit, (void)db, (void)argv, (void)argc;
    writes++;
}

/* K holds this for 10 s; NULL: it is absent. S names TOKEN, for longer. */
static void begin(uint32_t level, const char *holds) {
    char line[100];
    server = fake_redis_new();
    fake_redis_set_level(server, level);
    conn = fake_redis_connect(server, NULL, NULL);
    fake_redis_set_time(server, INT64_C(1700000000000000));
    (void)snprintf(line, sizeof line, "PSETEX " K " 10000 %s", holds ? holds : "");
    if (holds)
        (void)fake_conn_say(conn, line);
    (void)fake_conn_say(conn, "HMSET " S " token " TOKEN " value " TOKEN " until 1700000010000000");
    (void)fake_conn_say(conn, "PEXPIRE " S " 7200000");
    writes = 0;
}

static void end(void) {
    fake_conn_close(conn);
    fake_redis_free(server);
}

static const tl_reply *ask(tl_script script, const char *nkeys, const tl_bytes *args,
                           size_t count) {
    tl_bytes argv[16] = {L("EVAL"), tl__script_text(script), tl__bytes_of(nkeys)};
    memcpy(argv + 3, args, count * sizeof *args);
    return fake_conn_command(conn, argv, 3 + count);
}

#define ASK(script, nkeys, ...)                                                                    \
    ask(script, nkeys, (const tl_bytes[]){__VA_ARGS__},                                            \
        sizeof((const tl_bytes[]){__VA_ARGS__}) / sizeof(tl_bytes))

static const tl_reply *keep(void) {
    return ASK(TL_SCRIPT_RENEW, "2", L(K), L(S), L("1700000000000000"), L("3600000"), L("me"),
               L(TOKEN), L(TOKEN), L("5000"), L("5000"), L("7"), L("0"), L("1700000000000000"));
}

static const tl_reply *refresh(void) {
    return ASK(TL_SCRIPT_REFRESH, "2", L(K), L(S), L(TOKEN), L("0"), L("50000"));
}

static const tl_reply *drop(void) {
    return ASK(TL_SCRIPT_RELEASE, "4", L(K), L(S), L(F), L(LINE), L(TOKEN));
}

static const tl_reply *hold(void) {
    return ASK(TL_SCRIPT_HOLD, "1", L(K), L(TOKEN), L("5000"), L("0"), L("keep"));
}

static const tl_reply *release_plain(void) {
    return ASK(TL_SCRIPT_FREE, "1", L(K), L(TOKEN), L(S));
}

static const struct {
    const char *name;
    const tl_reply *(*ask)(void);
} scripts[] = {{"renew", keep}, {"release", drop}, {"hold", hold}, {"free", release_plain}};
#define SCRIPTS (sizeof scripts / sizeof *scripts)

/* Also where it is its own, and lasts for longer than is asked for. */
TEST(a_replica_confirms_nothing) {
    static const char *const values[] = {NULL, OTHER, TOKEN};
    for (size_t i = 0; i < LEVELS * SCRIPTS * 3; i++) {
        size_t script = i / 3 % SCRIPTS;
        const char *value = values[i % 3];
        begin(levels[i / 3 / SCRIPTS], value);
        fake_redis_set_replica(server, true);
        const tl_reply *r = scripts[script].ask();
        if (r->type != TL_REPLY_ERROR || !memmem(r->text.p, r->text.n, "READONLY", 8))
            fail_msg("%s is answered, where %s stands", scripts[script].name,
                     value ? value : "nothing");
        end();
    }
}

static const tl_reply *take(void) {
    return ASK(TL_SCRIPT_ACQUIRE, "4", L(K), L(S), L(F), L(LINE), L(TOKEN), L("5000"), L("0"),
               L("1700000000000000"), L("1700000000000000"), L("me"));
}

/* A take that is repeated, as its answer was lost or came too late: the server that it reaches now may have become a
 * replica since it gave the lock, by a clock that is behind its new master's. Also where the user may not HMSET. */
TEST(a_replica_gives_nobody_what_he_seems_to_have) {
    for (size_t i = 0; i < LEVELS * 2; i++) {
        int64_t status = 0;
        begin(levels[i / 2], TOKEN);
        if (i % 2)
            fake_redis_deny(server, "HMSET", FAKE_NOPERM);
        assert_true(tl__reply_int(tl__reply_item(take(), 0), &status));
        assert_int_equal(status, 1);
        fake_redis_set_replica(server, true);
        const tl_reply *r = take();
        assert_int_equal(r->type, TL_REPLY_ERROR);
        assert_non_null(memmem(r->text.p, r->text.n, "READONLY", 8));
        end();
    }
}

/* It says nothing for certain there: the keep that follows it does. */
TEST(a_replica_refreshes_nothing) {
    static const char *const values[] = {NULL, OTHER, TOKEN};
    for (size_t i = 0; i < LEVELS * 3; i++) {
        int64_t number = -1;
        if (levels[i / 3] < FAKE_LEVEL(3, 2, 0))
            continue;
        begin(levels[i / 3], values[i % 3]);
        fake_redis_set_replica(server, true);
        const tl_reply *r = refresh();
        assert_int_equal(r->count, 3);
        assert_true(tl__reply_int(&r->items[2], &number));
        assert_int_equal(number, 1);
        end();
    }
}

static void writes_nothing(const char *value, int64_t status) {
    for (size_t i = 0; i < LEVELS * SCRIPTS; i++) {
        size_t script = i % SCRIPTS;
        begin(levels[i / SCRIPTS], value);
        if (script == 1) { /* that one remembers the token */
            end();
            continue;
        }
        fake_redis_on_write(server, note_write, NULL);
        const tl_reply *r = scripts[script].ask();
        int64_t said = 7;
        r = script == 0   ? tl__reply_item(tl__reply_item(r, 2), 0)
            : script == 2 ? tl__reply_item(r, 0)
                          : r;
        assert_true(tl__reply_int(r, &said));
        assert_int_equal(said, status);
        assert_int_equal(writes, 0);
        fake_redis_on_write(server, NULL, NULL);
        end();
    }
}

TEST(a_master_says_so_and_writes_nothing) {
    writes_nothing(NULL, -1);
    writes_nothing(OTHER, 0);
}
