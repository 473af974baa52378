/*
 * "Did you mean": typing errors find the name that was meant, and other words find nothing.
 */
#include <stdio.h>
#include <string.h>

#include "tests.h"
#include "base/suggest.h"

TEST(distances) {
    static const struct {
        const char *a, *b;
        int distance;
    } rows[] = {
        {"", "", 0},
        {"", "run", 3},
        {"run", "run", 0},
        {"rn", "run", 1},      /* one is missing */
        {"runn", "run", 1},    /* one too many */
        {"rin", "run", 1},     /* another */
        {"rnu", "run", 1},     /* two swapped */
        {"cehkc", "check", 2}, /* twice */
        {"kitten", "sitting", 3},
        {"ca", "abc", 3}, /* a character that was swapped is not edited again */
        {"abcdef", "ghijkl", 6},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(suggest_distance(rows[i].a, rows[i].b), rows[i].distance);
        assert_int_equal(suggest_distance(rows[i].b, rows[i].a), rows[i].distance);
    }
}

/* Of a long word the first characters count, and nothing is read or written beyond them. */
TEST(long_words_are_cut) {
    char word[SUGGEST_WORD_MAX + 100];
    memset(word, 'a', sizeof word);
    word[sizeof word - 1] = '\0';
    assert_int_equal(suggest_distance(word, ""), SUGGEST_WORD_MAX);
    assert_int_equal(suggest_distance(word, word), 0);
    suggestion s = suggest_begin(word);
    suggest_offer(&s, word);
    assert_null(s.best);
}

static const char *nearest(const char *typed) {
    static const char *const names[] = {
        "run",     "lock",  "unlock", "extend",  "check",
        "inspect", "break", "local",  "no-wait", "conflict-exit-code",
        "ttl",     "wait"};
    suggestion s = suggest_begin(typed);

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        suggest_offer(&s, names[i]);
    return s.best ? s.best : "nothing";
}

TEST(typing_errors_find_the_name) {
    static const struct {
        const char *typed, *best;
    } rows[] = {
        {"rn", "run"},
        {"rnu", "run"},
        {"tll", "ttl"},
        {"lokc", "lock"},
        {"unlok", "unlock"},
        {"chekc", "check"},
        {"extned", "extend"},
        {"nowait", "no-wait"},
        {"inpsect", "inspect"},
        {"insp", "inspect"}, /* its first characters */
        {"conflict", "conflict-exit-code"},
        {"waitt", "wait"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_string_equal(nearest(rows[i].typed), rows[i].best);
}

TEST(other_words_find_nothing) {
    static const char *const words[] = {"", "r", "x", "nonsense", "zz", "abc", "deploy", "hunter2"};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        assert_string_equal(nearest(words[i]), "nothing");
}

TEST(the_first_of_equals_stays) {
    suggestion s = suggest_begin("lick");
    suggest_offer(&s, "lock");
    suggest_offer(&s, "luck");
    assert_string_equal(s.best, "lock");
    assert_int_equal(s.distance, 1);
    suggest_offer(&s, "lick");
    assert_string_equal(s.best, "lick");
}

TEST(synonyms) {
    static const synonym table[] = {{"ls", "inspect"}, {"status", "check"}, {NULL, NULL}};

    assert_string_equal(suggest_synonym(table, "ls"), "inspect");
    assert_string_equal(suggest_synonym(table, "status"), "check");
    assert_null(suggest_synonym(table, "l"));
    assert_null(suggest_synonym(table, "inspect"));
}
