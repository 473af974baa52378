/*
 * The spare leases of a client on etcd: which are kept, and for whom.
 */
#include "tests.h"

#include "client/leases.h"
#include "protocol/etcd.h"

#define TTL_MS 9000

static tl_leases leases;

static int set_up(void **state) {
    (void)state;
    leases = (tl_leases){.count = 0};
    tl__leases_init(&leases);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    tl__leases_end(&leases);
    return 0;
}

TESTS_WITH(set_up, tear_down);

static tl_mono at(int64_t ms) {
    return tl__mono_add_ms((tl_mono){1}, ms);
}

static tl_spare_lease spare(int64_t lease, int64_t ttl_ms, int64_t until_ms) {
    return (tl_spare_lease){lease, ttl_ms, at(until_ms)};
}

static int64_t take(int64_t ttl_ms, int64_t now_ms) {
    return tl__leases_take(&leases, ttl_ms, at(now_ms), 0).lease;
}

TEST(a_lease_is_given_to_one_and_to_the_same_lifetime_only) {
    const tl_spare_lease one = spare(7, TTL_MS, TTL_MS);
    tl__leases_give(&leases, &one);
    assert_int_equal(take(TTL_MS + 1000, 0), 0);
    assert_int_equal(take(TTL_MS - 1000, 0), 0);
    tl_spare_lease taken = tl__leases_take(&leases, TTL_MS, at(0), 0);
    assert_int_equal(taken.lease, 7);
    assert_int_equal(taken.deadline.ns, one.deadline.ns);
    assert_int_equal(take(TTL_MS, 0), 0);
}

/* Both when it is taken, and when a lock is about to be released. */
TEST(one_of_which_less_than_two_thirds_are_left_is_of_no_use) {
    const tl_spare_lease one = spare(7, TTL_MS, TTL_MS);
    (void)tl__leases_want(&leases, &one, at(0), 0);
    tl__leases_give(&leases, &one);
    assert_int_equal(take(TTL_MS, TTL_MS / 3 + 10), 0);
    assert_int_equal(leases.count, 0); /* it is forgotten */
    assert_true(tl__leases_want(&leases, &one, at(TTL_MS / 3 - 10), 0));
    assert_false(tl__leases_want(&leases, &one, at(TTL_MS / 3 + 10), 0));
    tl__leases_give(&leases, &one);
    assert_int_equal(take(TTL_MS, TTL_MS / 3 - 10), 7);
}

/* It may be the only lock that this client ever has. */
TEST(the_first_that_is_released_is_not_kept) {
    const tl_spare_lease one = spare(7, TTL_MS, TTL_MS);
    assert_false(tl__leases_want(&leases, &one, at(0), 0));
    assert_true(tl__leases_want(&leases, &one, at(0), 0));
}

TEST(what_is_no_lease_of_its_own_is_not_kept) {
    const tl_spare_lease none = spare(0, TTL_MS, TTL_MS);
    (void)tl__leases_want(&leases, &none, at(0), 0);
    assert_false(tl__leases_want(&leases, &none, at(0), 0));
    tl__leases_give(&leases, &none);
    assert_int_equal(leases.count, 0);
}

TEST(no_more_are_kept_than_there_is_room_for) {
    tl_spare_lease one = spare(0, TTL_MS, TTL_MS);
    (void)tl__leases_want(&leases, &one, at(0), 0);
    for (int i = 1; i <= TL_LEASES_MAX + 1; i++) {
        one.lease = i;
        assert_int_equal(tl__leases_want(&leases, &one, at(0), 0), i <= TL_LEASES_MAX);
        tl__leases_give(&leases, &one);
    }
    assert_int_equal(leases.count, TL_LEASES_MAX);
    one = spare(99, TTL_MS, 2 * TTL_MS); /* those that have grown too old make room for others */
    assert_true(tl__leases_want(&leases, &one, at(TTL_MS), 0));
    assert_int_equal(leases.count, 0);
}
