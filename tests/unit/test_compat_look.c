/*
 * What people are told of a lock whose key holds a stamp: the dialect as it was chosen or guessed,
 * when it will be free by the rules that a taker would follow, and what is odd about it.
 */
#include "feed.h"

#include "protocol/ask.h"
#include "protocol/look.h"
#include "protocol/scan.h"

#define NOW_US FEED_SERVER_US
#define NOW_MS (NOW_US / 1000)
#define MARGIN_MS 1501 /* M, L, and the millisecond of a comparison without equality */

static const tl_legacy guesses = {.protocol = TL_TOKEN};
static const tl_legacy bridge = {.protocol = TL_BRIDGE};
static const tl_legacy strict = {.protocol = TL_TIMESTAMP, .options.strict = true};
static const tl_legacy cron = {.protocol = TL_BRIDGE, .options.dialect = "jobs:*=redis-doc,java"};

/* Look at K with this value, `left` ms of lifetime, and a sidecar with `bound` ("": none), which has rested since
 * then (0: it is held). */
static tl_lock_info look_at(const tl_legacy *legacy, const char *value, int64_t left,
                            const char *bound, int64_t rests_us) {
    char until[TL_INT_SIZE], since[64];
    (void)snprintf(since, sizeof since, rests_us ? "resting %lld " TOKEN : "%lld",
                   (long long)(rests_us ? rests_us : NOW_US - 5000000));
    const tl_reply items[] = {
        {.type = TL_REPLY_STATUS, .text = TL_LITERAL("string")},
        {.type = *value ? TL_REPLY_STRING : TL_REPLY_NIL, .text = tl__bytes_of(value)},
        {.type = TL_REPLY_INT, .integer = left},
        {.type = *bound ? TL_REPLY_STRING : TL_REPLY_NIL, .text = tl__bytes_of(bound)},
        {.type = TL_REPLY_STRING, .text = tl__bytes_from_int(until, NOW_US + 7000000)},
        {.type = TL_REPLY_STRING, .text = TL_LITERAL("41")},
        {.type = TL_REPLY_STRING, .text = tl__bytes_of(since)},
        {.type = TL_REPLY_STRING, .text = TL_LITERAL("db1 812 nightly")},
    };
    const tl_reply answer = {.type = TL_REPLY_ARRAY, .items = items, .count = 8};
    tl_lock_info info;
    tl__look_fill(&info, legacy, TL_LITERAL(KEY), *value ? items[0].text : TL_LITERAL("none"),
                  &answer, NOW_US);
    assert_int_equal(info.size, sizeof info);
    return info;
}

static tl_lock_info look(const tl_legacy *legacy, const char *value, int64_t left,
                         const char *bound) {
    return look_at(legacy, value, left, bound, 0);
}

static const char *stamp(char to[32], int64_t in_ms) {
    (void)snprintf(to, 32, "%lld", (long long)(NOW_MS + in_ms));
    return to;
}

/* ---- whose, and until when --------------------------------------------------------------------- */

TEST(a_stamp_of_strangers_is_theirs_until_a_taker_would_have_it) {
    char text[32];
    tl_lock_info info = look(&bridge, stamp(text, 12000), -1, "");
    assert_true(info.held && !info.by_tidelock && !info.guessed);
    assert_int_equal(info.protocol, TL_TIMESTAMP);
    assert_string_equal(info.dialect, "java");
    assert_int_equal(info.stamp_left_ms, 12000);
    assert_int_equal(info.remaining_ms, 12000 + MARGIN_MS + 1);
    assert_true(tl__look_is_lock(&info, TL_LITERAL(KEY)));
}

/* S says that a stamp is one of a rest; its end is that of the stamp, by the rules of who looks. */
TEST(a_stamp_that_rests_is_over_when_a_taker_would_have_it) {
    const tl_legacy *all[] = {&bridge, &guesses};
    char text[32];
    for (size_t i = 0; i < 2; i++) {
        tl_lock_info info = look_at(all[i], stamp(text, 12000), -1, text, NOW_US - 3000000);
        assert_true(info.held && info.rests && info.by_tidelock);
        assert_int_equal(info.rested_ms, 3000);
        assert_int_equal(info.rest_end_ms, NOW_MS + info.remaining_ms);
        assert_in_range(info.remaining_ms, 5000, 12000 + MARGIN_MS + 1);
        info = look_at(all[i], stamp(text, -100000), -1, text, NOW_US - 3000000);
        assert_false(info.rests);
    }
}

TEST(it_is_free_from_the_instant_a_taker_would_have_it) {
    char text[32];
    tl_lock_info info = look(&bridge, stamp(text, -MARGIN_MS), -1, "");
    assert_true(info.held);
    assert_int_equal(info.remaining_ms, 1);
    assert_int_equal(info.free_at_ms, NOW_MS + 1);
    info = look(&bridge, stamp(text, -MARGIN_MS - 1), -1, "");
    assert_false(info.held);
    assert_int_equal(info.remaining_ms, 0);
    assert_int_equal(info.free_at_ms, NOW_MS);
    assert_string_equal(info.dialect, "java"); /* what stands there is told all the same */
}

TEST(a_lifetime_that_no_sidecar_knows_of_holds_it_longer) {
    char text[32];
    tl_lock_info info = look(&bridge, stamp(text, -100000), 5000, "");
    assert_true(info.held);
    assert_int_equal(info.remaining_ms, 5000);
    info = look(&bridge, stamp(text, 2000), 5, "");
    assert_int_equal(info.remaining_ms, 2000 + MARGIN_MS + 1);
}

TEST(a_stamp_of_ours_names_its_holder_and_not_its_keys_lifetime) {
    char text[32];
    (void)stamp(text, 12000);
    tl_lock_info info = look(&bridge, text, 3600000, text);
    assert_true(info.held && info.by_tidelock && !info.guessed);
    assert_int_equal(info.protocol, TL_BRIDGE);
    assert_string_equal(info.host, "db1");
    assert_string_equal(info.service, "nightly");
    assert_int_equal(info.pid, 812);
    assert_int_equal(info.held_ms, 5000);
    assert_int_equal(info.fence, 41);
    assert_int_equal(info.remaining_ms, 12000 + MARGIN_MS + 1);
}

TEST(a_client_of_tokens_guesses_and_never_calls_it_free) {
    const struct {
        const char *value, *dialect;
    } known[] = {{"1700004990000", "java"},
                 {"1700004990", "redis-doc"},
                 {"1700004990.5", "py-float"},
                 {"1700004990-42", "rb-pid"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        tl_lock_info info = look(&guesses, known[i].value, -1, "");
        assert_true(info.held && info.guessed);
        assert_string_equal(info.dialect, known[i].dialect);
        assert_true(info.stamp_left_ms < 0);
        assert_int_equal(info.remaining_ms, -1);
        assert_int_equal(info.free_at_ms, -1); /* in which dialect, nobody knows */
    }
}

TEST(the_dialect_is_the_one_of_this_key) {
    tl_lock_info info = look(&cron, "1705000100", -1, "");
    assert_string_equal(info.dialect, "redis-doc");
    assert_false(info.guessed);
    assert_int_equal(info.stamp_left_ms, 1705000100000 - NOW_MS);
}

TEST(after_a_deletion_the_stamp_is_the_sidecars) {
    char text[32];
    tl_lock_info info = look(&bridge, "", -1, stamp(text, 12000));
    assert_true(info.held && info.by_tidelock);
    assert_int_equal(info.protocol, TL_BRIDGE);
    assert_int_equal(info.stamp_left_ms, 12000);
    assert_int_equal(info.remaining_ms, 7001); /* as long as the sidecar binds */
}

TEST(a_free_key_has_no_protocol) {
    tl_lock_info info = look(&bridge, "", -1, "");
    assert_false(info.held);
    assert_int_equal(info.protocol, -1);
    assert_int_equal(info.stamp_left_ms, INT64_MIN);
}

/* ---- what is no stamp -------------------------------------------------------------------------- */

TEST(tokens_are_told_from_stamps) {
    const tl_legacy *const all[] = {&guesses, &bridge, &strict};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        tl_lock_info info = look(all[i], TOKEN, 5000, TOKEN);
        assert_int_equal(info.protocol, TL_TOKEN);
        assert_false(info.guessed);
        info = look(all[i], TOKEN, 5000, "");
        assert_int_equal(info.protocol, TL_TOKEN);
        assert_true(info.guessed && info.held);
        assert_int_equal(info.remaining_ms, 5000);
        assert_string_equal(info.dialect, "");
        assert_string_equal(info.oddity, "");
    }
}

TEST(accidents_are_held_for_ever_and_named) {
    const char *const bad[] = {"\"1705000100000\"", "170000490000060000", "+1705000100000",
                               "1705000100", "01705000100000"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tl_lock_info info = look(&bridge, bad[i], -1, "");
        assert_true(info.held && info.oddity[0]);
        assert_int_equal(info.remaining_ms, -1);
        assert_int_equal(info.protocol, -1);
        assert_true(tl__look_is_lock(&info, TL_LITERAL(KEY)));
    }
}

TEST(other_strings_are_no_locks) {
    const char *const other[] = {"x",
                                 "0",
                                 "1",
                                 "42",
                                 "true",
                                 "hello world",
                                 "1234567",
                                 "abc-def",
                                 "9223372036854775807",
                                 "123456789012345678",
                                 "{\"a\": 17}"};
    const tl_legacy *const all[] = {&guesses, &bridge};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        for (size_t k = 0; k < 2; k++) {
            tl_lock_info info = look(all[k], other[i], 5000, "");
            if (tl__look_is_lock(&info, TL_LITERAL(KEY)))
                fail_msg("'%s' passes for a lock", other[i]);
        }
    tl_lock_info info = look(&guesses, TOKEN, -1, ""); /* a token that never expires */
    assert_false(tl__look_is_lock(&info, TL_LITERAL(KEY)));
}

/* ---- without EVAL ------------------------------------------------------------------------------ */

static tl_ask m;

static void begin(feed *f, const tl_legacy *legacy) {
    feed_init(f, &m, tl__ask_step);
    tl__ask_init(&m, TL_LITERAL(KEY), TL_LITERAL(LINE), ATTEMPT_MS, CONNECT_MS);
    m.legacy = legacy;
    m.plain = legacy->options.strict;
    m.may_get = legacy->protocol == TL_TIMESTAMP;
    assert_int_equal(feed_start(f), TL_GO);
    f->server.wall_us = FEED_OFFSET_US;
    (void)feed_reached(f);
}

static void assert_get(const feed *f) {
    assert_int_equal(f->last.count, 1);
    assert_int_equal(f->last.command[0].form, TL_ARGV);
    assert_string_equal(f->last.command[0].argv[0].p, "GET");
}

TEST(strict_asks_with_get_and_reads_its_own_clock) {
    feed f;
    begin(&f, &strict);
    assert_get(&f);
    (void)feed_reply(&f, "'%lld'", (long long)(NOW_MS + 9000));
    assert_int_equal(f.status, TL_END);
    assert_int_equal(m.result.code, TL_OK);
    assert_true(m.info.held && m.info.value_only); /* its holder may be a tidelock client */
    assert_int_equal(m.info.stamp_left_ms, 9000);
    begin(&f, &strict);
    (void)feed_reply(&f, "nil");
    assert_int_equal(m.result.code, TL_OK);
    assert_false(m.info.held);
    begin(&f, &strict);
    (void)feed_reply(&f, "7");
    assert_int_equal(m.result.code, TL_ESERVER);
    begin(&f, &strict);
    (void)feed_reply(&f, "-WRONGTYPE Operation against a key");
    assert_int_equal(m.result.code, TL_ESERVER);
}

TEST(a_server_without_eval_is_asked_with_get) {
    static const tl_legacy timestamp = {.protocol = TL_TIMESTAMP};
    feed f;
    begin(&f, &timestamp);
    feed_assert_asked(&f, "look");
    (void)feed_reply(&f, "-ERR unknown command 'EVAL'");
    assert_int_equal(f.status, TL_GO);
    assert_get(&f);
    (void)feed_reply(&f, "-ERR unknown command 'GET'");
    assert_int_equal(m.result.code, TL_EUNSUPPORTED);
    begin(&f, &timestamp); /* a Valkey without its Lua module */
    (void)feed_reply(&f, "-ERR Could not find scripting engine 'lua'");
    assert_int_equal(f.status, TL_GO);
    assert_get(&f);
    begin(&f, &bridge); /* which needs EVAL */
    (void)feed_reply(&f, "-ERR unknown command 'EVAL'");
    assert_int_equal(m.result.code, TL_EUNSUPPORTED);
}
