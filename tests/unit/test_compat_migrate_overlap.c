/*
 * Patterns of two namespaces: only what is certain to share no name is called apart.
 */
#include "tests.h"
#include "migrate/migrate_overlap.h"

static void assert_judged(bool apart, const char *a, const char *b) {
    if (migrate_apart(a, b) != apart || migrate_apart(b, a) != apart)
        fail_msg("%s and %s are %s", a, b, apart ? "apart" : "not apart");
}

TEST(what_begins_or_ends_otherwise_is_apart) {
    assert_judged(true, "jobs:*", "cron:*");
    assert_judged(true, "jobs:a*", "jobs:b?");
    assert_judged(true, "*:a", "*:b");
    assert_judged(true, "x[ab]y", "y*");
    assert_judged(true, "jobs:\\*a", "cron:*");
}

TEST(a_name_is_apart_from_what_it_does_not_fit) {
    assert_judged(true, "jobs", "jobs:a");
    assert_judged(true, "jobs:a", "jobs:?b");
    assert_judged(true, "jobs:c", "jobs:[ab]");
    assert_judged(false, "jobs:a", "jobs:[ab]");
    assert_judged(false, "jobs", "jobs");
}

TEST(what_may_share_a_name_is_not_apart) {
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
