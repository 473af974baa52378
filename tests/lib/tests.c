/*
 * The tests of a program: TEST() adds them before main() begins, in whatever order the compiler likes.
 */
#include "tests.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tests_entry entries[TESTS_MAX];
static size_t count;

void tests_add(tests_entry entry) {
    size_t at = count++;
    if (at >= TESTS_MAX) {
        (void)fprintf(stderr, "more than %d tests in one program\n", TESTS_MAX);
        abort();
    }
    for (; at > 0 && entries[at - 1].line > entry.line; at--)
        entries[at] = entries[at - 1];
    entries[at] = entry;
}

const tests_entry *tests_all(size_t *ret_count) {
    *ret_count = count;
    return entries;
}

/* ---- a failure beside the test ------------------------------------------------------------------ */

/* An assertion that fails on another thread than the test's, or a signal there, makes cmocka end the program, and keep to itself
 * what that thread has to say: it says so only when it is to abort. */
static pthread_t of_tests;
static sigjmp_buf has_said;

static void go_on_ending(int signal) {
    (void)signal;
    siglongjmp(has_said, 1);
}

static void say_what_failed(void) {
    if (pthread_equal(pthread_self(), of_tests))
        return;
    (void)fflush(stdout);
    (void)signal(SIGABRT, go_on_ending);
    (void)setenv("CMOCKA_TEST_ABORT", "1", 1);
    if (sigsetjmp(has_said, 1) == 0)
        _fail("a thread that isn't the test's", 0);
    print_error("\n[  FAILED  ] and so the program ends\n");
}

static void heed_threads(void) {
    static bool heeded;
    of_tests = pthread_self();
    if (!heeded && atexit(say_what_failed) == 0)
        heeded = true;
}

int tests_run_group(const char *group, unsigned marks, CMFixtureFunction set_up,
                    CMFixtureFunction tear_down) {
    static struct CMUnitTest units[TESTS_MAX];
    const char *only = getenv("TEST_ONLY");
    size_t n = 0;
    for (const tests_entry *e = entries; e < entries + count; e++)
        if (marks == 0 || e->marks & marks)
            units[n++] = (struct CMUnitTest){e->name, e->run, e->set_up, e->tear_down, e->state};
    if (n == 0) {
        (void)fprintf(stderr, "there is no test in %s\n", group);
        return 1;
    }
    if (only)
        cmocka_set_test_filter(only);
    heed_threads();
    return _cmocka_run_group_tests(group, units, n, set_up, tear_down);
}

bool tests_whole(void) {
    const char *all = getenv("ALL");
    return all && strcmp(all, "1") == 0;
}

int tests_run(void) {
    return tests_run_group("tests", 0, NULL, NULL);
}
