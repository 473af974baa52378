/*
 * MONITOR's lines as servers write them, and what is none of them; what the server keeps for whom.
 */
#include <stdio.h>

#include "tests.h"
#include "legacy/skew_monitor.h"

#define READS(line, c) assert_true(skew_monitor_read(TL_LITERAL(line), (c)))
#define REFUSES(line) assert_false(skew_monitor_read(TL_LITERAL(line), &(skew_heard){.words = 0}))

static void assert_word(const skew_heard *c, int i, const char *bytes, size_t n) {
    assert_true(i < c->words);
    assert_int_equal(c->word[i].n, n);
    assert_memory_equal(c->word[i].bytes, bytes, n);
}

TEST(a_line_tells_when_who_and_what) {
    skew_heard c;
    READS("1700000000.000042 [3 10.0.0.5:40001] \"SETNX\" \"lock:a b\" \"1700000060000\"", &c);
    assert_int_equal(c.stamp_us, INT64_C(1700000000000042));
    assert_int_equal(c.by, SKEW_BY_TCP);
    assert_string_equal(c.client, "10.0.0.5:40001");
    assert_string_equal(c.host, "10.0.0.5");
    assert_int_equal(c.words, 3);
    assert_word(&c, 1, "lock:a b", 8);
    assert_word(&c, 2, "1700000060000", 13);
    assert_true(skew_heard_is(&c, "setnx"));
    assert_false(skew_heard_is(&c, "set"));
}

TEST(addresses_of_every_kind) {
    skew_heard c;
    READS("1.000000 [0 [fe80::1]:6000] \"ping\"", &c);
    assert_string_equal(c.client, "[fe80::1]:6000");
    assert_string_equal(c.host, "fe80::1");
    READS("1.000000 [0 ::1:6000] \"ping\"", &c); /* from before 3.2 */
    assert_string_equal(c.host, "::1");
    READS("1.000000 [0 unix:/tmp/a b.sock] \"ping\"", &c);
    assert_int_equal(c.by, SKEW_BY_UNIX);
    READS("1.000000 [0 lua] \"setnx\" \"k\" \"1\"", &c);
    assert_int_equal(c.by, SKEW_BY_SCRIPT);
}

TEST(escapes_are_taken_back) {
    skew_heard c;
    READS("1.000000 [0 h:1] \"setnx\" \"\\\"\\\\\\n\\r\\t\\a\\b\" \"\\x00\\xff\\x41\"", &c);
    assert_word(&c, 1, "\"\\\n\r\t\a\b", 7);
    assert_word(&c, 2,
                "\0\xff"
                "A",
                3);
}

TEST(more_words_than_are_kept_are_passed_over) {
    skew_heard c;
    READS("1.000000 [0 h:1] \"set\" \"k\" \"v\" \"nx\" \"px\" \"nonsense\\", &c);
    assert_int_equal(c.words, 3);
}

TEST(a_long_word_and_a_line_without_its_end_are_cut) {
    char line[2 * SKEW_WORD_SIZE];
    skew_heard c;
    int n = snprintf(line, sizeof line, "1.000000 [0 h:1] \"set\" \"%0*d\" \"v\"", SKEW_WORD_SIZE,
                     7);
    assert_true(skew_monitor_read(tl__bytes(line, (size_t)n), &c));
    assert_int_equal(c.words, 3);
    assert_false(c.word[1].cut);
    assert_int_equal(c.word[1].n, SKEW_WORD_SIZE);
    n = snprintf(line, sizeof line, "1.000000 [0 h:1] \"set\" \"%0*d\" \"v\"", SKEW_WORD_SIZE + 1,
                 7);
    assert_true(skew_monitor_read(tl__bytes(line, (size_t)n), &c));
    assert_true(c.word[1].cut);
    assert_int_equal(c.word[1].n, SKEW_WORD_SIZE);
    assert_false(c.word[2].cut);
    READS("1.000000 [0 h:1] \"set\" \"k\" \"170000", &c);
    assert_true(c.word[2].cut);
    READS("1.000000 [0 h:1] \"set\" \"k\" \"17\\x0", &c);
    assert_true(c.word[2].cut);
    READS("1.000000 [0 h:1] \"setn", &c);
    assert_false(skew_heard_is(&c, "setn"));
}

TEST(anything_else_is_refused) {
    REFUSES("");
    REFUSES("OK");
    REFUSES("1339518083.107412 (db 0) \"keys\" \"*\""); /* 2.4 tells no address */
    REFUSES("1700000000.12345 [0 h:1] \"ping\"");       /* no microseconds */
    REFUSES("170000000000.123456 [0 h:1] \"ping\"");    /* no time */
    REFUSES("-1.000000 [0 h:1] \"ping\"");
    REFUSES("1.000000 [x h:1] \"ping\"");
    REFUSES("1.000000 [0 h] \"ping\"");
    REFUSES("1.000000 [0 :1] \"ping\"");
    REFUSES("1.000000 [0 h:] \"ping\"");
    REFUSES("1.000000 [0 h:x1] \"ping\"");
    REFUSES("1.000000 [0 h:123456] \"ping\"");
    REFUSES("1.000000 [0 h:1 \"ping\"");
    REFUSES("1.000000 [0 h:1] ");
    REFUSES("1.000000 [0 h:1] ping");
    REFUSES("1.000000 [0 h:1] \"ping\"\"x\"");
    REFUSES("1.000000 [0 h:1] \"ping\" ");
    REFUSES("1.000000 [0 h:1] \"ping\\q\" \"x\" \"y\"");
    REFUSES(
        "1.000000 [0 0123456789012345678901234567890123456789012345678901234567890123:1] \"p\"");
}

TEST(what_the_server_keeps_is_that_of_one_client) {
    static const char list[] =
        "id=3 addr=1.1.1.1:5 fd=8 name=omem=9 flags=N omem=777 cmd=get\n"
        "id=33 addr=1.1.1.1:6 fd=9 name= flags=O omem=2000000 events=r cmd=monitor\n"
        "id=34 addr=1.1.1.1:7 fd=9 name= flags=O omem=10 events=r cmd=monitor\n";
    assert_int_equal(skew_monitor_backlog(TL_LITERAL(list), 33), 2000000);
    assert_int_equal(skew_monitor_backlog(TL_LITERAL(list), 34), 10);
    assert_int_equal(skew_monitor_backlog(TL_LITERAL(list), 3), 777);
    assert_int_equal(skew_monitor_backlog(TL_LITERAL(list), 4), 0);
    assert_int_equal(skew_monitor_backlog(TL_LITERAL(list), 0), 2000000);
    assert_int_equal(skew_monitor_backlog(TL_LITERAL(""), 0), 0);
    assert_int_equal(skew_monitor_backlog(TL_LITERAL("id=1 flags=O"), 1), 0);
}
