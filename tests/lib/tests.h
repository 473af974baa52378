/*
 * A test is defined and registered at once:
 *
 *     TEST(a_released_lock_is_free) {
 *         ...
 *     }
 *
 * What stands in a test file is run by cmocka, in the file's order, and nothing else names it: main() is
 * here too, unless the file has one of its own. TEST_ONLY='*free*' in the environment runs the tests
 * whose names fit.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* cmocka's fail is a macro, and the tool has a function of that name. */
#undef fail
#undef fail_msg
#define fail_msg(...)                                                                              \
    do {                                                                                           \
        print_error("ERROR: " __VA_ARGS__);                                                        \
        print_error("\n");                                                                         \
        _fail(__FILE__, __LINE__);                                                                 \
    } while (0)

#define TESTS_MAX 256 /**< in one program */

typedef struct {
    const char *name;
    CMUnitTestFunction run;
    CMFixtureFunction set_up, tear_down;
    void *state;    /**< what they find in *state */
    int line;       /**< they run in this order; on one line, as they were added */
    unsigned marks; /**< for tests_run_group */
} tests_entry;

typedef struct {
    CMFixtureFunction set_up, tear_down;
} tests_fixture;

/** What is done before and after each TEST and TEST_ON of this file: see TESTS_WITH. */
__attribute__((unused)) static const tests_fixture tests__fixture;

/** Once in a file, after the definitions of both; either may be NULL. */
#define TESTS_WITH(set_up, tear_down)                                                              \
    static const tests_fixture tests__fixture = {set_up, tear_down}

/** Ends with the parameters of the function that follows. */
#define TESTS__ADD(title, function, before, after, mark)                                           \
    __attribute__((constructor)) static void add_##title(void) {                                   \
        tests_add((tests_entry){.name = #title,                                                    \
                                .run = (function),                                                 \
                                .set_up = (before),                                                \
                                .tear_down = (after),                                              \
                                .line = __LINE__,                                                  \
                                .marks = (mark)});                                                 \
    }

#define TESTS__PLAIN(title, before, after, mark)                                                   \
    static void test_##title(void **);                                                             \
    TESTS__ADD(title, test_##title, before, after, mark)                                           \
    static void test_##title(__attribute__((unused)) void **tests__state)

#define TEST(name) TESTS__PLAIN(name, tests__fixture.set_up, tests__fixture.tear_down, 0)
/** With a fixture of its own instead of the file's. */
#define TEST_WITH(name, set_up, tear_down) TESTS__PLAIN(name, set_up, tear_down, 0)
/** For groups, as bits. */
#define TEST_IN(name, groups)                                                                      \
    TESTS__PLAIN(name, tests__fixture.set_up, tests__fixture.tear_down, groups)
/** With what the file's set-up left in *state: TEST_ON(a_promise, fake_world *w) { ... } */
#define TEST_ON(name, parameter)                                                                   \
    TESTS__ON(name, parameter, tests__fixture.set_up, tests__fixture.tear_down, 0)

#define TESTS__ON(title, parameter, before, after, mark)                                           \
    static void test_##title(parameter);                                                           \
    static void run_##title(void **state) {                                                        \
        test_##title(*state);                                                                      \
    }                                                                                              \
    TESTS__ADD(title, run_##title, before, after, mark)                                            \
    static void test_##title(parameter)

/** One more, for a main() that makes its tests of a table. What it points at must last. */
void tests_add(tests_entry entry);

/** What has been added so far, in order. */
const tests_entry *tests_all(size_t *ret_count);

/** All of them. For a main(): 0 when all passed. */
int tests_run(void);
/** ALL=1 in the environment: what plays many worlds or orders plays all of them, and not the sample of `make check`. */
bool tests_whole(void);
/** Those with one of these marks; 0 for all. set_up and tear_down are done once; either may be NULL. */
int tests_run_group(const char *group, unsigned marks, CMFixtureFunction set_up,
                    CMFixtureFunction tear_down);
