/*
 * Advice for commands that only a shell knows: it is the line to type, and never changes what the words mean.
 */
#include <stdio.h>
#include <string.h>

#include "tests.h"
#include "lock/not_found.h"

static const char *advice(char *const *argv) {
    static char buf[NOT_FOUND_ADVICE];

    return not_found_advice(buf, argv) ? buf : "none";
}
#define ADVICE(...) advice((char *[]){__VA_ARGS__, NULL})

TEST(builtins_are_run_by_a_shell) {
    assert_string_equal(ADVICE("cd", "/"), "it is a shell builtin: sh -c 'cd /'");
    assert_string_equal(ADVICE("export", "A=b"), "it is a shell builtin: sh -c 'export A=b'");
    assert_string_equal(ADVICE(":"), "it is a shell builtin: sh -c ':'");
}

/* sh may be dash, which has none of these. */
TEST(builtins_of_bash_are_run_by_bash) {
    assert_string_equal(ADVICE("source", "env.sh"),
                        "it is a shell builtin: bash -c 'source env.sh'");
    assert_string_equal(ADVICE("time", "ls"), "it is a shell builtin: bash -c 'time ls'");
    assert_string_equal(ADVICE("[[", "a", "]]"), "it is a shell builtin: bash -c '[[ ...'");
}

TEST(words_that_a_shell_would_change_are_left_out) {
    static char long_word[300];

    assert_string_equal(ADVICE("cd", "it's"), "it is a shell builtin: sh -c 'cd ...'");
    assert_string_equal(ADVICE("cd", "/", "a b"), "it is a shell builtin: sh -c 'cd ...'");
    assert_string_equal(ADVICE("eval", "$HOME"), "it is a shell builtin: sh -c 'eval ...'");
    assert_string_equal(ADVICE("cd", ""), "it is a shell builtin: sh -c 'cd ...'");
    memset(long_word, 'x', sizeof long_word - 1);
    assert_string_equal(ADVICE("cd", long_word), "it is a shell builtin: sh -c 'cd ...'");
}

TEST(a_command_line_in_one_word_is_run_by_a_shell) {
    assert_string_equal(ADVICE("sleep 5"), "if it is a shell command: sh -c 'sleep 5'");
    assert_string_equal(ADVICE("a | b && c"), "if it is a shell command: sh -c 'a | b && c'");
    assert_string_equal(ADVICE("echo 'it'"), "none");
    assert_string_equal(ADVICE("sleep 5", "x"), "none");
}

TEST(other_commands_are_only_missing) {
    assert_string_equal(ADVICE("no-such-command"), "none");
    assert_string_equal(ADVICE("/bin/cd"), "none");
    assert_string_equal(ADVICE(""), "none");
}
