/*
 * Names of keys that belong together, and the pattern that a survey proposes for them: it matches each name
 * that was learned, and a shell reads it as one word.
 */
#include "tests.h"
#include "ground/glob.h"
#include "migrate/migrate_names.h"

static char buf[NAMES_PATTERN];

static names all_of(const char *const *list) {
    names all = {.count = 0};

    for (; *list; list++)
        names_learn(&all, tl__bytes_of(*list));
    return all;
}

#define PATTERN(expected, ...)                                                                     \
    do {                                                                                           \
        const char *const list[] = {__VA_ARGS__, NULL};                                            \
        names all = all_of(list);                                                                  \
        assert_string_equal(names_pattern(buf, &all), (expected));                                 \
        assert_true(!*buf || !tl__glob_flaw(tl__bytes_of(buf)));                                   \
        for (int i = 0; list[i] && *buf; i++)                                                      \
            assert_true(tl__glob_fits(tl__bytes_of(buf), tl__bytes_of(list[i])));                  \
    } while (0)

TEST(a_pattern_has_the_parts_that_the_names_share) {
    PATTERN("jobs:*", "jobs:nightly", "jobs:import");
    PATTERN("jobs:*", "jobs:nightly");
    PATTERN("app:lock:*", "app:lock:a", "app:lock:b");
    PATTERN("user:*:lock", "user:4:lock", "user:42:lock");
    PATTERN("a/b/*", "a/b/c", "a/b/d");
    PATTERN("*_lock", "nightly_lock", "import_lock");
    PATTERN("lock*", "lock1", "lock22");
    PATTERN("nightly", "nightly");
    PATTERN("nightly", "nightly", "nightly");
    PATTERN("nightly*", "nightly", "nightly2");
}

TEST(names_without_a_common_part_have_no_pattern) {
    PATTERN("", "apple", "pear");
    names none = {.count = 0};
    assert_string_equal(names_pattern(buf, &none), "");
}

TEST(a_head_and_a_tail_never_overlap) {
    PATTERN("a:*", "a:a", "a:a:a");
    PATTERN("x:*:x", "x::x", "x:1:x");
}

TEST(bytes_with_a_meaning_are_literal) {
    PATTERN("a\\*b:*", "a*b:1", "a*b:2");
    PATTERN("\\[x\\]\\?\\\\:*", "[x]?\\:1", "[x]?\\:2");
    PATTERN("a??:*", "a\xc3\xa4:1", "a\xc3\xa4:2");
    PATTERN("a?b", "a\nb");
}

TEST(long_names_have_a_pattern_that_fits) {
    char one[400], other[400];

    memset(one, 'x', sizeof one - 1);
    one[sizeof one - 1] = '\0';
    memcpy(other, one, sizeof one);
    other[300] = 'y';
    const char *const list[] = {one, other, NULL};
    names all = all_of(list);
    (void)names_pattern(buf, &all);
    assert_true(tl__glob_fits(tl__bytes_of(buf), tl__bytes_of(one)));
    assert_true(tl__glob_fits(tl__bytes_of(buf), tl__bytes_of(other)));
}

TEST(merging_is_as_learning_all_at_once) {
    static const char *const first[] = {"app:lock:a", "app:lock:b", NULL}, *const second[] = {
                                                                               "app:job:a", NULL};
    names into = all_of(first), other = all_of(second), none = {.count = 0};

    names_merge(&into, &none);
    assert_string_equal(names_pattern(buf, &into), "app:lock:*");
    names_merge(&into, &other);
    assert_string_equal(names_pattern(buf, &into), "app:*");
    names_merge(&none, &other);
    assert_string_equal(names_pattern(buf, &none), "app:job:*");
}

static void assert_family(const char *expected, const char *name) {
    char family[NAMES_FAMILY];
    assert_string_equal(names_family(family, tl__bytes_of(name)), expected);
}

TEST(a_family_is_the_first_parts_of_a_name) {
    assert_family("jobs:", "jobs:nightly");
    assert_family("app:lock:", "app:lock:a:b");
    assert_family("user:*:", "user:42:lock");
    assert_family("*:", "42:lock");
    assert_family("nightly_", "nightly_lock");
    assert_family("lock", "lock17");
    assert_family("17", "17");
    assert_family("", "");
    char parent[NAMES_FAMILY];
    assert_string_equal(names_parent(parent, "app:lock:"), "app:");
    assert_string_equal(names_parent(parent, "jobs:"), "jobs:");
    assert_string_equal(names_parent(parent, "nightly_"), "");
}

TEST(a_shell_reads_a_quoted_text_as_one_word) {
    char quoted[64], small[8];
    assert_string_equal(names_quote(quoted, sizeof quoted, "jobs:*"), "'jobs:*'");
    assert_string_equal(names_quote(quoted, sizeof quoted, "it's"), "'it'\\''s'");
    assert_string_equal(names_quote(quoted, sizeof quoted, ""), "''");
    assert_string_equal(names_quote(small, sizeof small, "jobs"), "");
}
