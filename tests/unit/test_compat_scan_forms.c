/*
 * What a scan shows is what a look at each key by itself would call a lock. The script leaves out values by their
 * form alone. So here each dialect of the table has its stamps and its texts without an end before the script, with
 * the accidents that happen to them, and thousands of random changes.
 */
#include "feed.h"

#include "dialect/dialect.h"
#include "fake_redis.h"
#include "protocol/look.h"
#include "protocol/scan.h"

#define NOW_MS (FEED_SERVER_US / 1000)
#define DAY_MS INT64_C(86400000)
#define LEFT_MS 9000
#define TEXTS_MAX 512
#define CHANGES 12 /* random ones of each text, for each choice of a dialect */

static fake_redis *server;
static fake_conn *conn;
static uint64_t random_state = 7;
static struct {
    char text[TL_STAMP_SIZE * 2];
    size_t n;
} texts[TEXTS_MAX];
static size_t text_count;

static int serve(void **state) {
    (void)state;
    server = fake_redis_new();
    conn = fake_redis_connect(server, NULL, NULL);
    fake_redis_set_time(server, FEED_SERVER_US);
    return 0;
}

static int end_serving(void **state) {
    (void)state;
    fake_conn_close(conn);
    fake_redis_free(server);
    return 0;
}

TESTS_WITH(serve, end_serving);

/* ---- a scan, and a look without one -------------------------------------------------------------- */

static void found(const void *key, size_t key_len, const tl_lock_info *info, void *ctx) {
    (void)key, (void)key_len, (void)info;
    ++*(int *)ctx;
}

static void set(tl_bytes value, bool left) {
    const tl_bytes argv[] = {TL_LITERAL("SET"), TL_LITERAL(KEY), value, TL_LITERAL("PX"),
                             TL_LITERAL("9000")};
    assert_int_equal(fake_conn_command(conn, argv, left ? 5 : 3)->type, TL_REPLY_STATUS);
}

static size_t reply_items; /* of the last reply */

/* How many locks does a scan of the only key show? */
static int scan(const tl_legacy *legacy) {
    static feed f;
    tl_bytes argv[TL_ARGV_MAX + 3] = {TL_LITERAL("EVAL"), tl__script_text(TL_SCRIPT_SCAN),
                                      TL_LITERAL("0")};
    tl_scan m;
    int count = 0;
    feed_init(&f, &m, tl__scan_step);
    tl__scan_init(&m, TL_LITERAL("*"), 0, ATTEMPT_MS, CONNECT_MS);
    m.legacy = legacy;
    m.found = found;
    m.ctx = &count;
    (void)feed_start(&f);
    (void)feed_reached(&f);
    memcpy(argv + 3, f.last.command[0].argv, f.last.command[0].argc * sizeof *argv);
    tl_event event = {.kind = TL_REPLY, .asked = {.ticket = f.last.ticket, .sent = f.sent}};
    event.replied.reply = fake_conn_command(conn, argv, f.last.command[0].argc + (size_t)3);
    event.replied.count = 1;
    reply_items = event.replied.reply->count;
    assert_int_equal(feed_event(&f, event), TL_END);
    assert_int_equal(m.result.code, TL_OK);
    return count;
}

static bool is_lock(const tl_legacy *legacy, tl_bytes value, bool left) {
    const tl_reply items[] = {{.type = TL_REPLY_STATUS, .text = TL_LITERAL("string")},
                              {.type = TL_REPLY_STRING, .text = value},
                              {.type = TL_REPLY_INT, .integer = left ? LEFT_MS : -1}};
    const tl_reply answer = {.type = TL_REPLY_ARRAY, .items = items, .count = 3};
    tl_lock_info info;
    tl__look_fill(&info, legacy, TL_LITERAL(KEY), items[0].text, &answer, FEED_SERVER_US);
    return tl__look_is_lock(&info, TL_LITERAL(KEY));
}

static int shown, hidden;

static void compare(const tl_legacy *legacy, tl_bytes value) {
    for (int left = 0; left < 2; left++) {
        bool expected = value.n <= 128 && is_lock(legacy, value, left);
        set(value, left);
        if (scan(legacy) != expected)
            fail_msg("protocol %d, dialect %s: '%.*s' with%s lifetime is %s", legacy->protocol,
                     legacy->options.dialect ? legacy->options.dialect : "-", (int)value.n, value.p,
                     left ? "" : "out", expected ? "not shown" : "shown");
        *(expected ? &shown : &hidden) += 1;
    }
}

/* ---- what keys may hold ---------------------------------------------------------------------------- */

static void add(tl_bytes text) {
    assert_true(text_count < TEXTS_MAX && text.n <= sizeof texts->text);
    memcpy(texts[text_count].text, text.p, text.n);
    texts[text_count++].n = text.n;
}

static void add_format(const char *format, tl_bytes text) {
    char made[TL_STAMP_SIZE * 2];
    int n = snprintf(made, sizeof made, format, (int)text.n, text.p);
    assert_true(n > 0 && (size_t)n < sizeof made);
    add(tl__bytes(made, (size_t)n));
}

/* As serialisers, shells and other languages change a stamp. */
static void add_changed(tl_bytes text) {
    static const char *const formats[] = {"%.*s",   "\"%.*s\"",     "+%.*s",    "-%.*s",  "0%.*s",
                                          " %.*s",  "%.*s ",        "%.*s\n",   "%.*s.0", "%.*s000",
                                          "[%.*s]", "{\"e\":%.*s}", "%.*s30000"};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        add_format(formats[i], text);
}

/* All that the dialect writes, and all that it reads as "never expires". */
static void add_dialect(const tl_dialect *dialect) {
    static const int64_t ends_ms[] = {NOW_MS + 60000, NOW_MS - DAY_MS, INT64_C(1000000000000),
                                      NOW_MS + 3000 * DAY_MS};
    const tl_bytes id = dialect->shape == TL_SHAPE_ID_NUMBER ? TL_LITERAL(TOKEN)
                                                             : TL_LITERAL("4711");
    char text[TL_STAMP_SIZE];
    add_changed(tl__dialect_write(dialect, ends_ms[0], id, text));
    for (size_t i = 1; i < sizeof ends_ms / sizeof *ends_ms; i++)
        add(tl__dialect_write(dialect, ends_ms[i], id, text));
    if (dialect->shape == TL_SHAPE_NUMBER_ID) /* the longest that is a stamp */
        add_format("%.*s-host.example-1234567890-and-a-long-name-of-a-process-0123456",
                   tl__dialect_write(dialect, ends_ms[0], id, text));
    for (unsigned i = 0; i < 2 && dialect->eternal[i]; i++)
        add(tl__bytes_of(dialect->eternal[i]));
}

static void add_all(void) {
    static const char *const others[] = {TOKEN,
                                         "0123456789abcdef0123456789abcdef",
                                         "ABCDEFABCDEFABCDEFABCDEFABCDEFAB",
                                         "0123456789abcdef0123456789abcdef01234567",
                                         ("resting 1700000000000000 " TOKEN),
                                         "resting 1 x",
                                         "\xac\xed\1\5sr\1\16java.lang.Long;\1\1\1\1",
                                         "1.7e12",
                                         "1.700000012E+12",
                                         "1700000012345e0",
                                         "0x18bcfe56800",
                                         "{\"expires\":1700000060000}",
                                         "hello",
                                         "1",
                                         "true",
                                         "42",
                                         "",
                                         " ",
                                         "01700000060000",
                                         "17000000600001700000090000"};
    const tl_dialect *dialect;
    for (unsigned i = 0; (dialect = tl__dialect_at(i)); i++)
        add_dialect(dialect);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        add(tl__bytes_of(others[i]));
}

/* One byte more, one less or another one, a few times. */
static tl_bytes change(tl_bytes text, char to[TL_STAMP_SIZE * 2 + 8]) {
    static const char bytes[] = "0123456789012345abcdefE-|:. \"+xs\xac\n";
    memcpy(to, text.p, text.n);
    for (int64_t times = tl__random_between(&random_state, 1, 4); times > 0; times--) {
        size_t at = (size_t)tl__random_between(&random_state, 0, (int64_t)text.n);
        int64_t kind = at == text.n ? 0 : tl__random_between(&random_state, 0, 2);
        if (kind == 0)
            memmove(to + at + 1, to + at, text.n++ - at);
        if (kind == 1)
            memmove(to + at, to + at + 1, --text.n - at);
        else
            to[at] = bytes[tl__random_between(&random_state, 0, sizeof bytes - 2)];
    }
    return tl__bytes(to, text.n);
}

static void compare_all(const tl_legacy *legacy) {
    char changed[TL_STAMP_SIZE * 2 + 8];
    for (size_t i = 0; i < text_count; i++) {
        tl_bytes text = tl__bytes(texts[i].text, texts[i].n);
        compare(legacy, text);
        for (int n = 0; n < CHANGES; n++)
            compare(legacy, change(text, changed));
    }
}

TEST(what_a_look_calls_a_lock_a_scan_shows_whatever_the_dialect) {
    const tl_legacy guesses = {.protocol = TL_TOKEN};
    const tl_dialect *dialect;
    add_all();
    compare_all(&guesses);
    for (unsigned i = 0; (dialect = tl__dialect_at(i)); i++) {
        const tl_legacy chosen = {.protocol = TL_BRIDGE, .options.dialect = dialect->name};
        compare_all(&chosen);
    }
    assert_true(shown > 1000 && hidden > 1000);
}

/* A pattern of names may choose each dialect. */
TEST(a_text_without_an_end_is_shown_to_clients_of_its_dialect_alone) {
    static const tl_legacy other = {.protocol = TL_BRIDGE, .options.dialect = "php-s"},
                           guesses = {.protocol = TL_AUTO, .options.dialect = "rb-resque"},
                           several = {.protocol = TL_TIMESTAMP,
                                      .options.dialect = "jobs:*=rb-resque,a:*=rb-objects,java"};
    set(TL_LITERAL("true"), false);
    assert_int_equal(scan(&several), 1);
    assert_int_equal(scan(&other), 0);
    assert_int_equal(scan(&guesses), 0);
}

/* What clients bind by S: their tokens and stamps, whether the key has a lifetime or not. */
TEST(what_a_sidecar_binds_is_shown) {
    const tl_legacy guesses = {.protocol = TL_TOKEN};
    const tl_dialect *dialect;
    char text[TL_STAMP_SIZE];
    for (unsigned i = 0; (dialect = tl__dialect_at(i)); i++) {
        tl_token token = tl__token_draw();
        const tl_bytes id = tl__token_bytes(&token),
                       values[] = {id, tl__dialect_write(dialect, NOW_MS + 60000, id, text)};
        for (size_t v = 0; v < 2; v++) {
            const tl_bytes argv[] = {TL_LITERAL("HMSET"), TL_LITERAL(SIDECAR),
                                     TL_LITERAL("token"), id,
                                     TL_LITERAL("value"), values[v]};
            set(values[v], false);
            (void)fake_conn_command(conn, argv, 6);
            assert_int_equal(scan(&guesses), 1);
        }
    }
}

/* Of millions of other keys the server reports nothing, and reads no sidecar. */
TEST(what_is_no_lock_costs_no_reply) {
    const tl_legacy guesses = {.protocol = TL_TOKEN};
    set(TL_LITERAL("hello"), true);
    assert_int_equal(scan(&guesses), 0);
    assert_int_equal(reply_items, 3);
    set(TL_LITERAL(TOKEN), true);
    assert_int_equal(scan(&guesses), 1);
    assert_int_equal(reply_items, 4);
}

/* A word is a constant where the key's name says that it is a lock, and whoever writes it there may delete another's. */
TEST(a_constant_is_shown_where_the_name_is_a_locks) {
    static const struct {
        const char *key, *value;
        bool shown;
    } known[] = {
        {"lock", "1", true},       {"jobs:Lock:7", "Locked", true}, {"jobs:mutex", "OK", true},
        {"MUTEX", "on", true},     {"deadlock", "true", true},      {"jobs:blocked", "1", false},
        {"clock", "1", false},     {"clock:lock", "1", true},       {"jobs:nightly", "1", false},
        {"jobs:lock", "0", false}, {"jobs:lock", "1 ", false},      {"jobs:loc", "1", false}};
    const tl_legacy guesses = {.protocol = TL_TOKEN};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const tl_bytes argv[] = {TL_LITERAL("SET"), tl__bytes_of(known[i].key),
                                 tl__bytes_of(known[i].value)};
        (void)fake_conn_say(conn, "FLUSHALL");
        (void)fake_conn_command(conn, argv, 3);
        if (scan(&guesses) != known[i].shown)
            fail_msg("%s holds '%s'", known[i].key, known[i].value);
    }
    (void)fake_conn_say(conn, "FLUSHALL");
}

/* Also before 6.0, when SCAN can't leave out other types. A hash with more fields is nobody's lock. */
TEST(the_hashes_of_redisson_are_shown) {
#define REDISSON "6f1c9be2-0d4a-4c5e-9a7b-3e2d1c0b9a88:51"
    static const char *const locks[] = {"HMSET k " REDISSON " 1",
                                        "HMSET k mode read " REDISSON " 1",
                                        "HMSET k mode write " REDISSON ":write 2"},
                             *const others[] = {
                                 "HMSET k mode read",          "HMSET k a 1",
                                 "HMSET k a 1 " REDISSON " 1", "HMSET k " REDISSON "x 1",
                                 "HMSET k x" REDISSON " 1",    "HMSET k a 1 b 2 " REDISSON " 1"};
    const tl_legacy guesses = {.protocol = TL_TOKEN};
    const uint32_t levels[] = {FAKE_LEVEL(5, 0, 0), FAKE_LEVEL(7, 0, 15)};
    for (size_t level = 0; level < 2; level++) {
        fake_redis_set_level(server, levels[level]);
        for (size_t i = 0; i < sizeof locks / sizeof *locks + sizeof others / sizeof *others; i++) {
            size_t lock_count = sizeof locks / sizeof *locks;
            const char *text = i < lock_count ? locks[i] : others[i - lock_count];
            (void)fake_conn_say(conn, "FLUSHALL");
            (void)fake_conn_say(conn, text);
            if (scan(&guesses) != (i < lock_count))
                fail_msg("%s", text);
        }
    }
    (void)fake_conn_say(conn, "FLUSHALL");
}

/* Before 6.0 SCAN can't leave out other types. */
TEST(old_servers_tell_the_types) {
    const tl_legacy guesses = {.protocol = TL_TOKEN};
    const tl_bytes hash[] = {TL_LITERAL("HMSET"), TL_LITERAL("a hash"), TL_LITERAL("f"),
                             TL_LITERAL("v")};
    (void)fake_conn_command(conn, hash, 4);
    set(TL_LITERAL(TOKEN), true);
    assert_int_equal(scan(&guesses), 1);
    fake_redis_set_level(server, FAKE_LEVEL(5, 0, 0));
    assert_int_equal(scan(&guesses), 1);
}
