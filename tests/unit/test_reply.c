/*
 * Reading replies without trusting them.
 */
#include "feed.h"

#include "wire/reply.h"

static const tl_reply *parse(const char *text) {
    static feed f;
    return feed_parse(&f, text, NULL);
}

TEST(an_integer_is_one_or_the_text_of_one) {
    int64_t v = 0;
    assert_true(tl__reply_int(parse("-7"), &v));
    assert_int_equal(v, -7);
    assert_true(tl__reply_int(parse("'1700000000'"), &v));
    assert_int_equal(v, 1700000000);
    assert_true(tl__reply_int(parse("+12"), &v));
    assert_int_equal(v, 12);
}

TEST(nothing_else_is_an_integer) {
    const char *const bad[] = {"nil", "'x'", "''", "'1.5'", "-ERR 7", "[]", "[7]", "+OK"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t v = 99;
        assert_false(tl__reply_int(parse(bad[i]), &v));
        assert_int_equal(v, 99);
    }
}

TEST(text_is_a_string_or_a_status_never_an_error) {
    tl_bytes text = {0};
    assert_true(tl__reply_text(parse("'abc'"), &text));
    assert_true(tl__bytes_eq(text, TL_LITERAL("abc")));
    assert_true(tl__reply_text(parse("+none"), &text));
    assert_true(tl__bytes_eq(text, TL_LITERAL("none")));
    const char *const bad[] = {"nil", "7", "-ERR no", "['abc']"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(tl__reply_text(parse(bad[i]), &text));
}

TEST(an_item_that_is_not_there_is_nil) {
    const tl_reply *array = parse("[1 'two']");
    assert_int_equal(tl__reply_item(array, 1)->type, TL_REPLY_STRING);
    assert_int_equal(tl__reply_item(array, 2)->type, TL_REPLY_NIL);
    assert_int_equal(tl__reply_item(array, SIZE_MAX)->type, TL_REPLY_NIL);
    assert_int_equal(tl__reply_item(parse("[]"), 0)->type, TL_REPLY_NIL);
    assert_int_equal(tl__reply_item(parse("'abc'"), 0)->type, TL_REPLY_NIL);
    assert_int_equal(tl__reply_item(parse("nil"), 0)->type, TL_REPLY_NIL);
}

TEST(time_is_seconds_and_microseconds) {
    int64_t us = 0;
    assert_true(tl__reply_time(parse("['1700000000' '123456']"), 0, &us));
    assert_int_equal(us, 1700000000123456);
    assert_true(tl__reply_time(parse("[1 'x' 0 0]"), 2, &us));
    assert_int_equal(us, 0);
    assert_true(tl__reply_time(parse("['9007199253' '999999']"), 0, &us));
    assert_int_equal(us, 9007199253999999);
    assert_true(tl__reply_time(parse("['9007199254' '740991']"), 0, &us));
    assert_int_equal(us, 9007199254740991);
}

TEST(a_time_that_cannot_be_right_is_none) {
    const char *const bad[] = {"[]",
                               "['1700000000']",
                               "['1700000000' '1000000']",
                               "['1700000000' '-1']",
                               "['-1' '0']",
                               "['9007199255' '0']",
                               "[9223372036854775807 0]",
                               "[-9223372036854775808 0]",
                               "['x' '0']",
                               "['0' nil]",
                               "'1700000000'",
                               "nil"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t us = 99;
        assert_false(tl__reply_time(parse(bad[i]), 0, &us));
        assert_int_equal(us, 99);
    }
}
