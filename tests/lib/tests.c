/*
 * The tests of a program: TEST() adds them before main() begins, in whatever order the compiler likes.
 */
#include "tests.h"

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
    return _cmocka_run_group_tests(group, units, n, set_up, tear_down);
}

bool tests_whole(void) {
    const char *all = getenv("ALL");
    return all && strcmp(all, "1") == 0;
}

int tests_run(void) {
    return tests_run_group("tests", 0, NULL, NULL);
}
