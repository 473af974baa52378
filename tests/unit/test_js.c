/*
 * JSON: what RFC 8259 allows is read and nothing else, within bounds; numbers keep their thousandths; and
 * whatever bytes a text has, what is written is read again by anyone.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests.h"
#include "base/js.h"

static json_t *read_text(const char *text, size_t n, const char **ret_why) {
    /* a copy without a final zero byte, so that a sanitizer sees whoever reads on */
    char *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, text, n);
    json_t *j = js_read(copy, n, ret_why);
    free(copy);
    assert_int_equal(j == NULL, *ret_why != NULL);
    return j;
}

static bool reads(const char *text) {
    const char *why;
    json_t *j = read_text(text, strlen(text), &why);
    json_decref(j);
    return j != NULL;
}

TEST(what_is_json) {
    static const char *const good[] = {
        "{}",          "[]",          " [ ] ",
        "0",           "-0",          "10",
        "1.50",        "1e9",         "1E+9",
        "-1e-9",       "null",        "true",
        "false",       "\"\"",        "\"a\\n\\u00e9\\\"\"",
        "[1,[2]]",     "{\"a\":1}",   "{ \"a\" : [ { } ] , \"b\" : null }",
        "\"\\/\\\\\"", "\"\xc3\xa9\""};
    static const char *const bad[] = {
        "",        " ",       "{",           "[",      "]",     "[1,]",  "[,1]",
        "{\"a\"}", "{a:1}",   "{\"a\":",     "01",     "-",     "1.",    ".5",
        "1e",      "1e+",     "+1",          "nul",    "nulls", "TRUE",  "\"",
        "\"\\\"",  "\"\\x\"", "\"\\u12\"",   "\"\n\"", "1 2",   "[1 2]", "{\"a\":1,}",
        "[1}",     "'a'",     "\"\\u123g\"", "{1:2}",  "NaN",   "\\",    "\"\\"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!reads(good[i]))
            fail_msg("refused: %s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (reads(bad[i]))
            fail_msg("accepted: %s", bad[i]);
}

TEST(depth_is_bounded) {
    char text[2 * JS_DEPTH_MOST + 3];
    for (int depth = JS_DEPTH_MOST - 1; depth <= JS_DEPTH_MOST + 1; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        text[2 * depth] = '\0';
        assert_int_equal(reads(text), depth <= JS_DEPTH_MOST);
    }
}

/* A list of so many ones. */
static bool reads_list(size_t items) {
    size_t n = 2 * items + 1;
    char *text = malloc(n);
    const char *why;
    assert_non_null(text);
    for (size_t i = 0; i < n; i++)
        text[i] = (char)(i == 0 ? '[' : i == n - 1 ? ']' : i % 2 ? '1' : ',');
    json_t *j = read_text(text, n, &why);
    json_decref(j);
    free(text);
    return j != NULL;
}

TEST(values_are_bounded) {
    assert_true(reads_list(JS_VALUES_MOST - 1)); /* the list is one too */
    assert_false(reads_list(JS_VALUES_MOST));
}

/* Brackets and commas in a text are none. */
TEST(texts_count_once) {
    static char text[2 * JS_VALUES_MOST + 8];
    size_t n = 0;
    text[n++] = '"';
    text[n++] = '\\';
    text[n++] = '"';
    memset(text + n, '[', sizeof text - n - 2);
    n += sizeof text - n - 2;
    text[n - 1] = ',';
    text[n++] = '"';
    text[n] = '\0';
    assert_true(reads(text));
}

TEST(what_is_no_json_says_why) {
    static const struct {
        const char *text, *why;
        size_t len;
    } rows[] = {
#define ROW(t, w) {t, w, sizeof t - 1}
        ROW("{\"a\":1,", "it is not JSON"),
        ROW("{\"a\":1,\"b\":2,\"a\":1}", "it names a member twice"),
        ROW("[{\"a\":1,\"\\u0061\":2}]", "it names a member twice"),
        ROW("[99999999999999999999]", "it has a number that is too large"),
        ROW("[1e999]", "it has a number that is too large"),
        ROW("[\"a\\u0000b\"]", "it has a zero character"),
        ROW("[\"a\0b\"]", "it is not JSON"),
        ROW("[1]\0", "it is not JSON"),
        ROW("[\"\xe4\"]", "it is not JSON"),
        ROW("[\"\\ud800\"]", "it is not JSON"),
#undef ROW
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *why;
        json_t *j = read_text(rows[i].text, rows[i].len, &why);
        assert_null(j);
        assert_string_equal(why, rows[i].why);
    }
}

TEST(numbers_are_whole) {
    static const struct {
        const char *text;
        bool ok;
        int64_t value;
    } rows[] = {{"1.25", true, 1250},
                {"1.2500", true, 1250},
                {"-0.001", true, -1},
                {"-12", true, -12000},
                {"-12.0", true, -12000},
                {"1e3", true, 1000000},
                {"0", true, 0},
                {"8.123", true, 8123},
                {"999999999999.999", true, INT64_C(999999999999999)},
                {"1.2505", false, 0},
                {"0.0001", false, 0},
                {"9223372036854775", true, INT64_C(9223372036854775000)},
                {"9223372036854776", false, 0},
                {"9300000000000000.0", false, 0},
                {"-1e300", false, 0},
                {"\"1\"", false, 0},
                {"null", false, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *why;
        int64_t v = 0;
        json_t *j = read_text(rows[i].text, strlen(rows[i].text), &why);
        assert_non_null(j);
        bool ok = js_thousandths(j, &v);
        if (ok != rows[i].ok || (ok && v != rows[i].value))
            fail_msg("%s: %d %lld", rows[i].text, ok, (long long)v);
        json_decref(j);
    }
}

TEST(texts_are_printable_and_fit) {
    static const char text[] = "{\"a\":\"x\\u0041\\u001b\\n\\\"\xc3\xa9\\u20ac\",\"b\":2}";
    char buf[16];
    const char *why;
    json_t *j = read_text(text, sizeof text - 1, &why);
    const json_t *a = json_object_get(j, "a");
    assert_true(js_copy(a, buf, sizeof buf));
    assert_string_equal(buf, "xA??\"??");
    assert_false(js_copy(a, buf, 7));
    assert_true(js_copy(a, buf, 8));
    assert_false(js_copy(json_object_get(j, "b"), buf, sizeof buf));
    assert_false(js_copy(NULL, buf, sizeof buf));
    assert_true(js_is(json_object_get(j, "a"), "xA\x1b\n\"\xc3\xa9\xe2\x82\xac"));
    assert_false(js_is(json_object_get(j, "a"), "xA"));
    assert_false(js_is(json_object_get(j, "b"), "2"));
    json_decref(j);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void writes(json_t *value, const char *want) {
    int fd[2];
    char line[256] = "";
    assert_int_equal(pipe(fd), 0);
    assert_int_equal(js_line(value, fd[1]), 0);
    ssize_t n = read(fd[0], line, sizeof line - 1);
    assert_true(n > 0);
    assert_string_equal(line, want);
    close(fd[0]);
    close(fd[1]);
}

TEST(any_bytes_are_written_as_json) {
    writes(js_text(NULL), "null\n");
    writes(js_text("a\"\\\x1f\t"), "\"a\\\"\\\\\\u001F\\t\"\n");
    writes(js_text("gr\xc3\xb6\xc3\x9f"
                   "e \xe2\x82\xac \xf0\x9f\x94\x92"),
           "\"gr\xc3\xb6\xc3\x9f"
           "e \xe2\x82\xac \xf0\x9f\x94\x92\"\n");
    writes(js_bytes("z\0y", 3), "\"z\\u0000y\"\n");
    /* no UTF-8: cut off, too long a form, a surrogate, a byte alone */
    writes(js_text("\xc3\xa9\xff\xe9"), "\"\xc3\xa9\xc3\xbf\xc3\xa9\"\n");
    writes(js_text("\xc0\xaf\xed\xa0\xbd\xe2\xac"),
           "\"\xc3\x80\xc2\xaf\xc3\xad\xc2\xa0\xc2\xbd\xc3\xa2\xc2\xac\"\n");
}

/* What a terminal would obey is escaped, be it a byte or a character. */
TEST(no_line_controls_a_terminal) {
    writes(js_text("\x9b"
                   "2J\xc3\xa9"),
           "\"\\u009B2J\\u00E9\"\n");
    writes(js_text("\xc2\x9b"
                   "2J"),
           "\"\\u009B2J\"\n");
    writes(js_text("\x1b[2J\xc2\xa0"), "\"\\u001B[2J\xc2\xa0\"\n");
}

TEST(edges_are_told_exactly_or_wider) {
    static const struct {
        int64_t lo, hi;
        const char *text;
    } rows[] = {
        {0, 1, "{\"lo\":0.0,\"hi\":0.001}\n"},
        {-1250, 364000, "{\"lo\":-1.25,\"hi\":364.0}\n"},
        {8123, 9949, "{\"lo\":8.123,\"hi\":9.949}\n"},
        {-999999999999999, 999999999999999, "{\"lo\":-999999999999.999,\"hi\":999999999999.999}\n"},
        {-1000000000000001, 12614400000000001,
         "{\"lo\":-1000000000001.0,\"hi\":12614400000001.0}\n"},
        {12614400000000999, 12614400000001000,
         "{\"lo\":12614400000000.0,\"hi\":12614400000001.0}\n"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        writes(js_interval(true, (tl_interval){rows[i].lo, rows[i].hi}), rows[i].text);
    writes(js_interval(false, (tl_interval){1, 0}), "null\n");
    for (int64_t v = -1000000; v <= 1000000; v += 7) {
        json_t *j = js_interval(true, (tl_interval){v, v * 999999937});
        int64_t back;
        assert_true(js_thousandths(json_object_get(j, "lo"), &back) && back == v);
        assert_true(js_thousandths(json_object_get(j, "hi"), &back) && back == v * 999999937);
        json_decref(j);
    }
}

TEST(what_could_not_be_made_is_not_written) {
    json_t *j = json_object(), *list = json_array();
    js_set(&j, "a", json_integer(1));
    js_set(&j, "b", NULL);
    assert_null(j);
    js_set(&j, "c", json_integer(2));
    assert_null(j);
    js_append(&list, NULL);
    assert_null(list);
    js_append(&list, json_integer(1));
    assert_null(list);
    errno = 0;
    assert_int_equal(js_line(j, -1), -1);
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(js_line(json_null(), -1), -1);
    assert_int_equal(errno, EBADF);
}
