/*
 * Byte strings: the text of integers, printing what strangers sent, and words in errors.
 */
#include <stdio.h>

#include <string.h>

#include "tests.h"
#include "ground/bytes.h"

static bool reads(const char *text, int64_t *v) {
    return tl__bytes_to_int(tl__bytes_of(text), v);
}

TEST(any_int64_survives_writing_and_reading) {
    const int64_t all[] = {0,
                           1,
                           -1,
                           9,
                           10,
                           -10,
                           9007199254740992,
                           INT64_MAX,
                           INT64_MIN,
                           INT64_MIN + 1,
                           INT64_MAX - 1,
                           1700000000000000};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char buffer[TL_INT_SIZE];
        int64_t back = 12345;
        tl_bytes text = tl__bytes_from_int(buffer, all[i]);
        assert_true(tl__bytes_to_int(text, &back));
        assert_int_equal(back, all[i]);
        assert_int_equal(text.p[text.n], '\0');
    }
}

TEST(each_number_of_digits_is_written_as_it_should_be) {
    for (int64_t power = 1; power <= INT64_MAX / 100; power *= 10)
        for (int64_t v = power - 1; v <= power + 1; v++) {
            char buffer[TL_INT_SIZE], expected[TL_INT_SIZE];
            int64_t back;
            int n = snprintf(expected, sizeof expected, "%lld", (long long)v);
            tl_bytes text = tl__bytes_from_int(buffer, v);
            assert_int_equal(text.n, n);
            assert_memory_equal(text.p, expected, (size_t)n);
            assert_true(tl__bytes_to_int(text, &back));
            assert_int_equal(back, v);
        }
    for (int64_t v = 0; v < 100; v++) {
        char buffer[TL_INT_SIZE];
        tl_bytes text = tl__bytes_from_int(buffer, 700 + v); /* each pair of digits */
        assert_int_equal((text.p[1] - '0') * 10 + text.p[2] - '0', v);
    }
}

TEST(the_longest_integer_fills_its_buffer_exactly) {
    char buffer[TL_INT_SIZE];
    tl_bytes text = tl__bytes_from_int(buffer, INT64_MIN);
    assert_int_equal(text.n, TL_INT_SIZE - 1);
    assert_ptr_equal(text.p, buffer);
    assert_memory_equal(text.p, "-9223372036854775808", 20);
}

TEST(only_a_minus_and_digits_are_an_integer) {
    const char *const bad[] = {"",    "-",    "--1", "+1",  " 1",  "1 ",
                               "1.0", "0x10", "1e3", "1\n", "one", "-1-"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t v = 7;
        assert_false(reads(bad[i], &v));
        assert_int_equal(v, 7);
    }
    int64_t v;
    assert_false(tl__bytes_to_int(tl__bytes("1\0", 2), &v));
    assert_false(tl__bytes_to_int((tl_bytes){NULL, 0}, &v));
}

TEST(an_integer_that_overflows_is_refused) {
    int64_t v;
    assert_true(reads("9223372036854775807", &v));
    assert_int_equal(v, INT64_MAX);
    assert_true(reads("-9223372036854775808", &v));
    assert_int_equal(v, INT64_MIN);
    assert_false(reads("9223372036854775808", &v));
    assert_false(reads("-9223372036854775809", &v));
    assert_false(reads("92233720368547758070", &v));
    assert_false(reads("99999999999999999999999999", &v));
}

TEST(leading_zeros_are_digits) {
    int64_t v;
    assert_true(reads("000000000000000000000000042", &v));
    assert_int_equal(v, 42);
    assert_true(reads("-0", &v));
    assert_int_equal(v, 0);
}

TEST(equality_is_of_length_and_of_every_byte) {
    assert_true(tl__bytes_eq(TL_LITERAL("a\0b"), TL_LITERAL("a\0b")));
    assert_false(tl__bytes_eq(TL_LITERAL("a\0b"), TL_LITERAL("a\0c")));
    assert_false(tl__bytes_eq(TL_LITERAL("a"), TL_LITERAL("ab")));
    assert_true(tl__bytes_eq((tl_bytes){NULL, 0}, TL_LITERAL("")));
}

TEST(printing_hides_control_bytes_and_everything_past_ascii) {
    char to[32];
    tl__bytes_print(to, sizeof to, tl__bytes("a\n\x1b[0m\x7f\xff\0z ~", 12));
    assert_string_equal(to, "a??[0m???z ~");
}

TEST(printing_cuts_to_fit_and_always_ends) {
    char to[4];
    tl__bytes_print(to, sizeof to, TL_LITERAL("abcdef"));
    assert_string_equal(to, "abc");
    tl__bytes_print(to, sizeof to, TL_LITERAL("abc"));
    assert_string_equal(to, "abc");
    tl__bytes_print(to, 1, TL_LITERAL("abc"));
    assert_string_equal(to, "");
    to[0] = 'x';
    tl__bytes_print(to, 0, TL_LITERAL("abc"));
    assert_int_equal(to[0], 'x');
}

static bool has(const char *text, const char *word) {
    return tl__bytes_has_word(tl__bytes_of(text), word);
}

TEST(a_word_is_found_whole_or_not_at_all) {
    assert_true(has("BUSY Redis is busy running a script", "BUSY"));
    assert_true(has("BUSY", "BUSY"));
    assert_true(has("ERR Error running script: -OOM command not allowed", "OOM"));
    assert_true(has("-OOM", "OOM"));
    assert_false(has("BUSYGROUP exists", "BUSY"));
    assert_false(has("NOTBUSY", "BUSY"));
    assert_false(has("ABUSY BUSYZ ZBUSY BUSYA", "BUSY"));
    assert_true(has("@BUSY[", "BUSY"));
    assert_false(has("busy", "BUSY"));
    assert_false(has("BUS", "BUSY"));
    assert_false(has("", "BUSY"));
    assert_true(has("BUSYGROUP or BUSY", "BUSY"));
}

static void check_bytes(tl_bytes found, const char *expected) {
    if (!tl__bytes_eq(found, tl__bytes_of(expected)))
        fail_msg("'%.*s' is not '%s'", (int)found.n, found.p ? found.p : "", expected);
}

TEST(a_text_begins_with_another_that_is_no_longer) {
    assert_true(tl__bytes_starts(TL_LITERAL("MOVED 5"), "MOVED "));
    assert_true(tl__bytes_starts(TL_LITERAL("ASK"), "ASK"));
    assert_false(tl__bytes_starts(TL_LITERAL("AS"), "ASK"));
    assert_false(tl__bytes_starts(TL_LITERAL(" ASK"), "ASK"));
    assert_false(tl__bytes_starts((tl_bytes){0}, "ASK"));
}

TEST(what_precedes_and_follows_the_first_of_a_part_is_found) {
    tl_bytes text = TL_LITERAL("a, b, c");
    check_bytes(tl__bytes_after(text, ", "), "b, c");
    check_bytes(tl__bytes_before(text, ", "), "a");
    check_bytes(tl__bytes_before(text, "a"), "");
    check_bytes(tl__bytes_before(text, "; "), "a, b, c");
    assert_non_null(tl__bytes_after(text, "c").p);
    assert_int_equal(tl__bytes_after(text, "c").n, 0);
    assert_null(tl__bytes_after(text, "; ").p);
    assert_null(tl__bytes_after((tl_bytes){0}, "a").p);
    assert_true(tl__bytes_has(text, "b, "));
    assert_true(tl__bytes_has(tl__bytes("a\0b", 3), "b"));
    assert_false(tl__bytes_has(tl__bytes("abc", 2), "c"));
}

TEST(words_are_taken_off_one_by_one) {
    tl_bytes text = TL_LITERAL("one  three");
    check_bytes(tl__bytes_take(&text, ' '), "one");
    check_bytes(tl__bytes_take(&text, ' '), "");
    check_bytes(text, "three");
    check_bytes(tl__bytes_take(&text, ' '), "three");
    assert_null(text.p);
    check_bytes(tl__bytes_take(&text, ' '), "");
    text = TL_LITERAL("end\n");
    check_bytes(tl__bytes_take(&text, '\n'), "end");
    assert_true(text.p && text.n == 0);
}

TEST(a_number_without_sign_has_only_digits_of_its_base) {
    static const struct {
        const char *text;
        unsigned base;
        uint64_t v;
    } rows[] = {{"0", 10, 0},
                {"007", 10, 7},
                {"18446744073709551615", 10, UINT64_MAX},
                {"ff", 16, 255},
                {"ffffffffffffffff", 16, UINT64_MAX},
                {"9a0f", 16, 0x9a0f}};
    static const struct {
        const char *text;
        unsigned base;
    } none[] = {{"", 10},
                {"-1", 10},
                {"+1", 10},
                {" 1", 10},
                {"1a", 10},
                {"18446744073709551616", 10},
                {"FF", 16},
                {"g", 16},
                {":", 16},
                {"@", 16},
                {"`", 16},
                {"\xb1", 16},
                {"10000000000000000", 16}};
    uint64_t v;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_true(tl__bytes_to_uint(tl__bytes_of(rows[i].text), rows[i].base, &v));
        assert_true(v == rows[i].v);
    }
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (tl__bytes_to_uint(tl__bytes_of(none[i].text), none[i].base, &v))
            fail_msg("'%s' is read as a number", none[i].text);
}

TEST(visible_is_ascii_that_leaves_ink) {
    assert_true(tl__bytes_is_visible(TL_LITERAL("!~Az09")));
    assert_true(tl__bytes_is_visible((tl_bytes){0}));
    const char *const invisible[] = {"a b", "\t", "\x7f", "\x80", "\xff", "a\n"};
    for (size_t i = 0; i < sizeof invisible / sizeof *invisible; i++)
        assert_false(tl__bytes_is_visible(tl__bytes_of(invisible[i])));
    assert_false(tl__bytes_is_visible(tl__bytes("a\0", 2)));
}
