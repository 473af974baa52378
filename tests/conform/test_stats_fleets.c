/*
 * What a client tells of itself (tl_client_stats) where several servers hold its locks: behind Sentinels, in a
 * cluster, and by a majority of independent ones.
 * timeout: 240
 */
#include "locks.h"
#include "real_fleet.h"
#include "tests.h"

#define TTL_MS 30000
#define DOWN_MS 60000 /* nobody is replaced because the machine has stopped him */
#define SERVERS 3
#define KEYS 20

static real_fleet *fleet;

static int tear_down(void **state) {
    int failed = locks_clean_up(state);
    real_fleet_free(fleet);
    fleet = NULL;
    return failed;
}

TESTS_WITH(NULL, tear_down);

static tl_stats stats_of(tl_client *client) {
    tl_stats s = {.size = sizeof s};
    ASSERT_RESULT(tl_client_stats(client, &s, &said), TL_OK);
    assert_int_equal(s.wait.count, s.acquires[TL_OK]);
    return s;
}

static tl_client *open_client(void) {
    return make_client_with(
        TL_CLIENT_OPTIONS(.url = real_fleet_url(fleet), .quiet_ms = TL_QUIET_OFF));
}

/* On this host all clocks are one. */
static void assert_clocks(const tl_stats *s, unsigned least, unsigned most) {
    assert_in_range(s->clocks, least, most);
    assert_in_range(s->clock_offset_us + s->clock_width_us / 2 + 10, 0, s->clock_width_us + 20);
}

/* Two clients: one acquires, is renewed and releases, the other is refused meanwhile. */
static tl_stats do_the_usual(const char *key) {
    tl_client *client = open_client(), *others = open_client();
    tl_lock *lock = make_lock(client, key, TTL_MS), *other = make_lock(others, key, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_EBUSY);
    WAIT_FOR(SOON_MS, stats_of(client).renewals > 0); /* the first comes within a second */
    ASSERT_RESULT(tl_lock_extend(lock, TTL_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    tl_stats s = stats_of(client), o = stats_of(others);
    assert_int_equal(s.acquires[TL_OK], 1);
    assert_int_equal(s.extends[TL_OK], 1);
    assert_int_equal(s.releases[TL_OK], 1);
    assert_int_equal(s.waited, 0);
    assert_int_equal(o.acquires[TL_EBUSY], 1);
    assert_int_equal(o.acquires[TL_OK], 0);
    return s;
}

/* The holder releases it once the waiter has been answered so often. */
static tl_stats wait_once(const char *key, uint64_t answers) {
    tl_client *client = open_client();
    tl_lock *holder = make_lock(open_client(), key, TTL_MS), *lock = make_lock(client, key, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    acquiring *a = acquiring_begin(lock, TL_FOREVER);
    WAIT_FOR(SOON_MS, stats_of(client).round_trips.count >= answers);
    ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(a, SOON_MS), TL_OK);
    tl_stats s = stats_of(client);
    assert_int_equal(s.acquires[TL_OK], 1);
    assert_true(s.wait.sum_us > 0);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    return s;
}

TEST(behind_sentinels) {
    fleet = real_fleet_start_sentinels(&(real_fleet_options){.down_ms = DOWN_MS});
    tl_stats s = do_the_usual("usual");
    assert_clocks(&s, 1, 1);
    assert_in_range(s.round_trips.count, 4, 40);
    (void)wait_once("waited for", 1);
}

TEST(of_a_cluster_each_master_counts) {
    fleet = real_fleet_start_cluster(&(real_fleet_options){.replicas = -1, .down_ms = DOWN_MS});
    tl_stats s = do_the_usual("usual");
    assert_clocks(&s, 1, SERVERS);
    (void)wait_once("waited for", 1);
    tl_client *client = open_client();
    for (int i = 0; i < KEYS; i++) { /* somewhere in all of the slots */
        char key[2] = {(char)('a' + i), '\0'};
        tl_lock *lock = make_lock(client, key, TTL_MS);
        ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    }
    s = stats_of(client);
    assert_int_equal(s.acquires[TL_OK], KEYS);
    assert_int_equal(s.releases[TL_OK], KEYS);
    assert_in_range(s.round_trips.count, 2 * KEYS, 8 * KEYS);
    assert_clocks(&s, SERVERS, SERVERS);
}

TEST(of_independent_servers_each_request_and_each_renewal_counts) {
    fleet = real_fleet_start_servers(SERVERS, NULL);
    tl_stats s = do_the_usual("usual");
    assert_clocks(&s, 2, SERVERS);
    assert_true(s.round_trips.count >=
                2 * 4); /* of a majority at least: take, extend, renew, drop */
    s = wait_once("waited for",
                  2 * SERVERS + 1); /* all have said that it is held, and it looks again */
    assert_int_equal(s.waited, 1);
}
