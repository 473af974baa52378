/*
 * Patterns of two namespaces: only what is certain to share no name is called apart.
 */
#include "migrate/migrate_overlap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void assert_judged(bool apart, const char *a, const char *b) {
    if (migrate_apart(a, b) != apart || migrate_apart(b, a) != apart)
        fail_msg("%s and %s are %s", a, b, apart ? "apart" : "not apart");
}

static void test_what_begins_or_ends_otherwise_is_apart(void **state) {
    (void)state;
    assert_judged(true, "jobs:*", "cron:*");
    assert_judged(true, "jobs:a*", "jobs:b?");
    assert_judged(true, "*:a", "*:b");
    assert_judged(true, "x[ab]y", "y*");
    assert_judged(true, "jobs:\\*a", "cron:*");
}

static void test_a_name_is_apart_from_what_it_does_not_fit(void **state) {
    (void)state;
    assert_judged(true, "jobs", "jobs:a");
    assert_judged(true, "jobs:a", "jobs:?b");
    assert_judged(true, "jobs:c", "jobs:[ab]");
    assert_judged(false, "jobs:a", "jobs:[ab]");
    assert_judged(false, "jobs", "jobs");
}

static void test_what_may_share_a_name_is_not_apart(void **state) {
    (void)state;
    assert_judged(false, "jobs:*", "jobs:*");
    assert_judged(false, "jobs:*", "jobs:a*");
    assert_judged(false, "jobs:*", "*:a");
    assert_judged(false, "*", "jobs:*");
    assert_judged(false, "a*bc", "*c");
    assert_judged(false, "jobs:\\*", "jobs:*");
    assert_judged(false, "jobs:[ab]", "jobs:?");
    assert_judged(false, "x[ab", "*a");
    assert_judged(false, "x[\\]ab", "*]");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_begins_or_ends_otherwise_is_apart),
        cmocka_unit_test(test_a_name_is_apart_from_what_it_does_not_fit),
        cmocka_unit_test(test_what_may_share_a_name_is_not_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
