/*
 * The reader of JSON: what RFC 8259 allows and nothing else, numbers without a float, bounds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests.h"
#include "base/jsonin.h"

static bool reads(const char *text) {
    json_tree t = {.value = NULL};
    /* a copy without a final zero byte, so that a sanitizer sees whoever reads on */
    size_t n = strlen(text);
    char *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, text, n);
    bool ok = json_read(&t, copy, n);
    json_forget(&t);
    free(copy);
    return ok;
}

TEST(what_is_json) {
    static const char *const good[] = {"{}",
                                       "[]",
                                       " [ ] ",
                                       "0",
                                       "-0",
                                       "10",
                                       "1.50",
                                       "1e9",
                                       "1E+9",
                                       "-1e-9",
                                       "null",
                                       "true",
                                       "false",
                                       "\"\"",
                                       "\"a\\n\\u00e9\\\"\"",
                                       "[1,[2]]",
                                       "{\"a\":1}",
                                       "{ \"a\" : [ { } ] , \"b\" : null }",
                                       "\"\\u0000\\/\\\\\"",
                                       "\"\xc3\xa9\""};
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
    char text[2 * JSON_DEPTH_MOST + 3];
    for (int depth = JSON_DEPTH_MOST - 1; depth <= JSON_DEPTH_MOST + 1; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        text[2 * depth] = '\0';
        assert_int_equal(reads(text), depth <= JSON_DEPTH_MOST);
    }
}

/* A list of so many ones. */
static bool reads_list(size_t items) {
    size_t n = 2 * items + 1;
    char *text = malloc(n);
    json_tree t = {.value = NULL};
    assert_non_null(text);
    for (size_t i = 0; i < n; i++)
        text[i] = (char)(i == 0 ? '[' : i == n - 1 ? ']' : i % 2 ? '1' : ',');
    bool ok = json_read(&t, text, n);
    json_forget(&t);
    free(text);
    return ok;
}

TEST(values_are_bounded) {
    assert_true(reads_list(JSON_VALUES_MOST - 1)); /* the list is one too */
    assert_false(reads_list(JSON_VALUES_MOST));
}

static int64_t scaled(const char *text, int decimals, bool *ret_ok) {
    json_tree t = {.value = NULL};
    int64_t v = 0;
    assert_true(json_read(&t, text, strlen(text)));
    *ret_ok = json_scaled(t.value, decimals, &v);
    json_forget(&t);
    return v;
}

TEST(numbers_are_whole) {
    static const struct {
        const char *text;
        int decimals;
        bool ok;
        int64_t value;
    } rows[] = {{"1.25", 3, true, 1250},
                {"-0.001", 3, true, -1},
                {"-12", 3, true, -12000},
                {"0", 0, true, 0},
                {"1.2500", 3, false, 0},
                {"1.5", 0, false, 0},
                {"1e3", 3, false, 0},
                {"9223372036854775", 3, true, INT64_C(9223372036854775000)},
                {"9223372036854776", 3, false, 0},
                {"99999999999999999999999999", 0, false, 0},
                {"\"1\"", 0, false, 0},
                {"null", 0, false, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool ok;
        int64_t v = scaled(rows[i].text, rows[i].decimals, &ok);
        if (ok != rows[i].ok || (ok && v != rows[i].value))
            fail_msg("%s: %d %lld", rows[i].text, ok, (long long)v);
    }
}

TEST(texts_are_printable_and_fit) {
    static const char text[] = "{\"a\":\"x\\u0041\\u001b\\n\\\"\xc3\xa9\",\"b\":2}";
    json_tree t = {.value = NULL};
    char buf[16];
    assert_true(json_read(&t, text, sizeof text - 1));
    const json_value *a = json_member_of(&t, t.value, "a");
    assert_true(json_copy(a, buf, sizeof buf));
    assert_string_equal(buf, "xA??\"??");
    assert_false(json_copy(a, buf, 7));
    assert_true(json_copy(a, buf, 8));
    assert_false(json_copy(json_member_of(&t, t.value, "b"), buf, sizeof buf));
    assert_null(json_member_of(&t, t.value, "c"));
    assert_null(json_member_of(&t, a, "a"));
    assert_ptr_equal(json_next(&t, json_first(&t, t.value)), json_member_of(&t, t.value, "b"));
    json_forget(&t);
}
