/*
 * Globs fit as the server's own do (conform/test_glob asks one), in bounded time, and lists of them are
 * taken apart as they are meant.
 */
#include "tests.h"
#include "ground/glob.h"

TEST(patterns_fit_as_the_servers_do) {
    static const struct {
        const char *pattern, *key;
        bool fits;
    } all[] = {
        {"*", "", true},
        {"*", "a", true},
        {"jobs:*", "jobs:a", true},
        {"jobs:*", "jobs:", true},
        {"jobs:*", "job:a", false},
        {"jobs:*", "Jobs:a", false},
        {"jobs", "jobs", true},
        {"jobs", "jobs:", false},
        {"a*b*c", "axxbyyc", true},
        {"a*b*c", "axxbyy", false},
        {"*aab", "aaab", true},
        {"a*a", "a", false},
        {"*a", "ba", true},
        {"*a", "ab", false},
        {"?", "a", true},
        {"?", "", false},
        {"a?c", "abc", true},
        {"jobs:[eu]:*", "jobs:e:1", true},
        {"jobs:[eu]:*", "jobs:[eu]:1", false},
        {"[ab]c", "bc", true},
        {"[ab]c", "cc", false},
        {"[^ab]c", "cc", true},
        {"[^ab]c", "ac", false},
        {"[!a]", "b", false},
        {"[!a]", "!", true},
        {"[a-c]", "b", true},
        {"[c-a]", "b", true},
        {"[a-c]", "d", false},
        {"[]", "]", false},
        {"[^]", "x", true},
        {"\\*", "*", true},
        {"\\*", "a", false},
        {"\\[a]", "[a]", true},
        {"[\\]]", "]", true},
        {"[a\\]]", "a", true},
        {"a**b", "ab", true},
        {"", "", true},
        {"", "a", false},
        {"*[0-9]", "job7", true},
        {"*[0-9]", "job", false},
        {"[a", "a", true},
        {"a\\", "a\\", true},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (tl__glob_fits(tl__bytes_of(all[i].pattern), tl__bytes_of(all[i].key)) != all[i].fits)
            fail_msg("'%s' and '%s'", all[i].pattern, all[i].key);
}

TEST(every_byte_is_one) {
    assert_true(tl__glob_fits(TL_LITERAL("a?c"), TL_LITERAL("a\0c")));
    assert_true(tl__glob_fits(TL_LITERAL("a\0*"), TL_LITERAL("a\0c")));
    assert_false(tl__glob_fits(TL_LITERAL("a\0c"), TL_LITERAL("a\0d")));
    assert_false(tl__glob_fits(TL_LITERAL("a"), TL_LITERAL("a\0")));
    assert_true(tl__glob_fits(TL_LITERAL("\xc3[\xa4\xb6]"), TL_LITERAL("\xc3\xb6")));
    assert_false(tl__glob_fits(TL_LITERAL("[a-z]"), TL_LITERAL("\xc3")));
}

/* One that tries each star anew would take longer than the universe. */
TEST(many_stars_take_no_time) {
    char pattern[512], text[1024];
    for (size_t i = 0; i < sizeof pattern; i += 2) {
        pattern[i] = '*';
        pattern[i + 1] = 'a';
    }
    pattern[sizeof pattern - 1] = 'b';
    memset(text, 'a', sizeof text);
    assert_false(tl__glob_fits(tl__bytes(pattern, sizeof pattern), tl__bytes(text, sizeof text)));
    text[sizeof text - 1] = 'b';
    assert_true(tl__glob_fits(tl__bytes(pattern, sizeof pattern), tl__bytes(text, sizeof text)));
}

TEST(what_servers_read_differently_is_a_flaw) {
    static const char *const good[] = {"",      "*",    "a?b", "[ab]",  "[^a]",     "[]",
                                       "[a-]]", "\\[a", "]",   "[\\]]", "x[a]y[b]", "\\\\"};
    static const char *const open[] = {"[",    "a[",  "[a",      "[^", "[a-]",
                                       "[\\]", "[\\", "x[a]y[b", "*["};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_null(tl__glob_flaw(tl__bytes_of(good[i])));
    for (size_t i = 0; i < sizeof open / sizeof *open; i++)
        assert_string_equal(tl__glob_flaw(tl__bytes_of(open[i])), "'[' without ']'");
    assert_string_equal(tl__glob_flaw(TL_LITERAL("[a\x80-z]x")), "range of bytes beyond ASCII");
    assert_null(tl__glob_flaw(TL_LITERAL("[\x80"
                                         "a-z]x")));
    assert_string_equal(tl__glob_flaw(TL_LITERAL("a\\")), "'\\' at the end");
    assert_string_equal(tl__glob_flaw(TL_LITERAL("\\\\\\")), "'\\' at the end");
}

TEST(a_list_is_taken_apart) {
    static const char *const want[][2] = {{"cron:*", "doc"}, {"*", "java"},   {"a=b", "x"},
                                          {"a\\,b", "y"},    {"[\\,=]", "z"}, {"", "e"},
                                          {"*", ""},         {"*", "last\\"}};
    const char *list = "cron:*=doc,java,a=b=x,a\\,b=y,[\\,=]=z,=e,,last\\";
    tl_bytes pattern, name;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        assert_true(tl__glob_choice(&list, &pattern, &name));
        assert_true(tl__bytes_eq(pattern, tl__bytes_of(want[i][0])));
        assert_true(tl__bytes_eq(name, tl__bytes_of(want[i][1])));
    }
    assert_false(tl__glob_choice(&list, &pattern, &name));
    list = NULL;
    assert_false(tl__glob_choice(&list, &pattern, &name));
    list = "php-s,";
    assert_true(tl__glob_choice(&list, &pattern, &name));
    assert_false(tl__glob_choice(&list, &pattern, &name));
}
