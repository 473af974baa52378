/*
 * One step of a scan: what is asked, what is told of the answer, and what is not believed.
 */
#include "feed.h"

#include "protocol/scan.h"

typedef struct {
    char keys[8][64];
    size_t count;
    tl_lock_info last;
} told;

static tl_scan m;
static told seen;

static void found(const void *key, size_t key_len, const tl_lock_info *info, void *ctx) {
    told *t = ctx;
    assert_true(t->count < 8 && key_len < 64);
    memcpy(t->keys[t->count], key, key_len);
    t->keys[t->count++][key_len] = '\0';
    t->last = *info;
}

static void begin(feed *f, uint64_t cursor) {
    feed_init(f, &m, tl__scan_step);
    tl__scan_init(&m, TL_LITERAL("jobs:*"), cursor, ATTEMPT_MS, CONNECT_MS);
    memset(&seen, 0, sizeof seen);
    m.found = found;
    m.ctx = &seen;
    assert_int_equal(feed_start(f), TL_GO);
    feed_assert_asked(f, "");
    assert_int_equal(feed_since(f->last.by), CONNECT_MS);
    feed_at(f, 30);
    (void)feed_reached(f);
    feed_assert_asked(f, "scan");
    assert_int_equal(feed_since(f->last.by), 30 + ATTEMPT_MS);
}

static void assert_failed(const feed *f, tl_err code) {
    assert_int_equal(f->status, TL_END);
    assert_int_equal(m.result.code, code);
    assert_true(f->out.message[0]);
}

TEST(a_step_asks_from_its_cursor) {
    feed f;
    begin(&f, 0);
    assert_string_equal(f.text[0], "0");
    assert_string_equal(f.text[1], "jobs:*");
    assert_string_equal(f.text[5], " ");
    begin(&f, UINT64_MAX);
    assert_string_equal(f.text[0], "18446744073709551615");
    assert_int_equal(f.last.command[0].nkeys, 0);
}

TEST(the_cursor_goes_on_where_the_server_says) {
    const struct {
        const char *text;
        uint64_t cursor;
    } known[] = {{"0", 0}, {"17", 17}, {"18446744073709551615", UINT64_MAX}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        feed f;
        begin(&f, 5);
        (void)feed_reply(&f, "['%s' %s]", known[i].text, feed_time(&f));
        assert_int_equal(f.status, TL_END);
        assert_int_equal(m.result.code, TL_OK);
        assert_true(m.cursor == known[i].cursor);
        assert_true(f.out.has_bracket);
        assert_int_equal(seen.count, 0);
    }
}

TEST(locks_are_told_and_other_strings_are_not) {
    feed f;
    begin(&f, 0);
    (void)feed_reply(&f,
                     "['0' %s ['a' '" TOKEN
                     "' 5000 nil nil nil nil nil] ['b' 'text' -1 nil nil nil nil nil]"
                     " ['c' 'x' 9000 'x' '0' '7' nil 'host 42 demo']]",
                     feed_time(&f));
    assert_int_equal(m.result.code, TL_OK);
    assert_int_equal(seen.count, 2);
    assert_string_equal(seen.keys[0], "a");
    assert_string_equal(seen.keys[1], "c");
    assert_true(seen.last.held && seen.last.by_tidelock);
    assert_int_equal(seen.last.size, sizeof seen.last);
    assert_int_equal(seen.last.remaining_ms, 9000);
    assert_int_equal(seen.last.fence, 7);
    assert_int_equal(seen.last.pid, 42);
}

TEST(nonsense_is_not_believed) {
    const char *const bad[] = {"nil",
                               "7",
                               "[]",
                               "['x' '1700005000' '0']",
                               "['-1' '1700005000' '0']",
                               "['' '1700005000' '0']",
                               "['18446744073709551616' '1700005000' '0']",
                               "['0' 'x' '0']",
                               "['0']",
                               "[nil '1700005000' '0']"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        feed f;
        begin(&f, 3);
        (void)feed_reply(&f, "%s", bad[i]);
        assert_failed(&f, TL_ESERVER);
        assert_true(m.cursor == 3);
    }
}

TEST(items_that_make_no_sense_are_passed_over) {
    feed f;
    begin(&f, 0);
    (void)feed_reply(&f, "['0' %s 7 nil [] ['' 'x' 1] [nil] ['k' 3 'x' [] [] [] [] []]]",
                     feed_time(&f));
    assert_int_equal(m.result.code, TL_OK);
    assert_int_equal(seen.count, 0);
}

TEST(failures_are_told_apart) {
    feed f;
    begin(&f, 0);
    (void)feed_reply(&f, "-NOPERM this user has no permissions");
    assert_failed(&f, TL_EDENIED);
    begin(&f, 0);
    (void)feed_reply(&f, "-LOADING Redis is loading");
    assert_failed(&f, TL_EUNAVAILABLE);
    begin(&f, 0);
    (void)feed_reply(&f, "-ERR unknown command 'EVAL'");
    assert_failed(&f, TL_EUNSUPPORTED);
    assert_string_equal(f.out.message, "the server has no EVAL, which listing keys needs: "
                                       "Redis 2.6 or newer, not renamed");
    begin(&f, 0);
    (void)feed_reply(&f, "['SCAN' -Unknown Redis command called from Lua script\n]"); /* 2.6 */
    assert_failed(&f, TL_EUNSUPPORTED);
    assert_string_equal(f.out.message, "the server has no SCAN, which listing keys needs: "
                                       "Redis 2.8 or newer, not renamed");
    const char *const newer[] = {"Unknown Redis command called from script script: 1, on @u:45.",
                                 "Unknown command called from script script: 1, on @u:45."};
    for (size_t i = 0; i < 2; i++) { /* Redis 7.0, Valkey: these have SCAN */
        begin(&f, 0);
        (void)feed_reply(&f, "['SCAN' -ERR %s\n]", newer[i]);
        assert_failed(&f, TL_EUNSUPPORTED);
        assert_string_equal(f.out.message, "the server has no SCAN, which listing keys needs: "
                                           "it is renamed or forbidden there");
    }
    begin(&f, 0);
    (void)feed_reply(&f, "['SCAN' -NOPERM this user has no permissions\n]");
    assert_failed(&f, TL_EDENIED);
    assert_non_null(strstr(f.out.message, "NOPERM"));
    begin(&f, 0);
    begin(&f, 0);
    (void)feed_failed(&f, true, TL_EUNAVAILABLE, "no answer");
    assert_failed(&f, TL_EUNAVAILABLE);
}
