/*
 * An expected host that isn't among the hosts that acquire locks has a row that says so, and where
 * no row is free the result still lacks something.
 */
#include "skew_faces.h"

#include "skew/expected_hosts.h"

static skew_host hosts[SKEW_HOSTS_MAX];

static skew_fleet fleet_of(int n) {
    for (int i = 0; i < n; i++) {
        char name[SKEW_NAME_SIZE];
        (void)snprintf(name, sizeof name, "app%d", i);
        hosts[i] = host(name, i ? "agent" : "server", 0, 10, 0);
    }
    return (skew_fleet){.hosts = hosts, .count = n};
}

static expected_hosts expecting(const char *names) {
    expected_hosts expected = {.min_hosts = 0};
    expected.expect.text[expected.expect.count++] = names;
    return expected;
}

TEST(who_is_not_there_is_missing_once) {
    expected_hosts expected = expecting("app1,db1,db1,db2");
    skew_fleet f = fleet_of(2);
    expected_hosts_apply(&expected, &f);
    assert_int_equal(f.count, 4);
    assert_false(hosts[1].missing);
    assert_string_equal(hosts[2].name, "db1");
    assert_string_equal(hosts[3].name, "db2");
    assert_true(hosts[2].missing && hosts[3].missing);
    assert_false(hosts[2].known || hosts[3].known);
    assert_false(f.more);
}

/* What a daemon or a server says is not the clock that locks go by. */
TEST(a_row_that_is_no_host_of_locks_is_nobody) {
    static const skew_kind kinds[] = {SKEW_SERVED, SKEW_REDIS, SKEW_ASIDE, SKEW_REMARK};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        expected_hosts expected = expecting("app1");
        skew_fleet f = fleet_of(2);
        hosts[1].kind = kinds[i];
        expected_hosts_apply(&expected, &f);
        assert_int_equal(f.count, 3);
        assert_true(hosts[2].missing);
    }
}

TEST(where_no_row_is_free_the_result_lacks_something) {
    expected_hosts there = expecting("app1,app999"), absent = expecting("db1");
    skew_fleet f = fleet_of(SKEW_HOSTS_MAX);
    expected_hosts_apply(&there, &f);
    assert_false(f.more);
    expected_hosts_apply(&absent, &f);
    assert_int_equal(f.count, SKEW_HOSTS_MAX);
    assert_true(f.more);
}
