/*
 * Locks that are to be on disk (wait_fsync): through the public header, on a fake server, whose disks are
 * slower, fuller or more than a real one's here would be, and on a real one that has no WAITAOF.
 */

/*
 * Faults and outcomes (tests/README.md says what is asserted of each):
 * - the write is not on the disk in time (`wait_fsync`): UNAVAILABLE "on its disk", and the lock is released; a holder is
 *   notified in time.
 * - the server has no append-only file, or no WAITAOF: UNSUPPORTED.
 */
#include <string.h>

#include "fake_tcp.h"
#include "locks.h"
#include "real_redis.h"
#include "tests.h"

#define KEY "jobs:nightly"
#define TTL_MS 30000
#define MANY 20

static fake_tcp *server;

static void disks(bool appends, bool synced, int replicas) {
    fake_redis_set_disks(fake_tcp_lock(server), appends, synced, replicas);
    fake_tcp_unlock(server);
}

static int set_up(void **state) {
    (void)state;
    server = fake_tcp_start(NULL);
    fake_redis_set_level(fake_tcp_lock(server), FAKE_LEVEL(7, 2, 4));
    fake_tcp_unlock(server);
    disks(true, true, 0);
    return 0;
}

static int tear_down(void **state) {
    (void)locks_clean_up(state);
    fake_tcp_free(server);
    return 0;
}

TESTS_WITH(set_up, tear_down);

static tl_client *client_on_disk(int32_t replicas) {
    return make_client_with(TL_CLIENT_OPTIONS(.url = fake_tcp_url(server), .wait_fsync = true,
                                              .wait_replicas = replicas));
}

/* The limit may cut short the last of the looks, which then can't say: again, each time for twice as long. */
static void refused(tl_lock *lock, tl_err want, const char *words) {
    tl_err code = TL_EUNCERTAIN;
    for (int64_t ms = 300; ms <= SOON_MS && code == TL_EUNCERTAIN; ms *= 2)
        code = tl_lock_acquire(lock, ms, &said);
    ASSERT_RESULT(code, want);
    ASSERT_SAID(words);
}

static bool is_there(void) {
    fake_redis *r = fake_tcp_lock(server);
    fake_conn *c = fake_redis_connect(r, NULL, NULL);
    bool there = fake_conn_say(c, "EXISTS " KEY)->integer == 1;
    fake_conn_close(c);
    fake_tcp_unlock(server);
    return there;
}

static bool is_gone(void) {
    return !is_there();
}

TEST(what_the_disk_has_is_held_and_each_take_is_confirmed) {
    tl_lock *lock = make_lock(client_on_disk(0), KEY, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    assert_true(fake_tcp_count(server, "waitaof") >= 1);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK); /* now the fencing counter is there */
    uint64_t natively = fake_tcp_count(server, "set"), before = fake_tcp_count(server, "waitaof");
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    assert_int_equal(fake_tcp_count(server, "set") - natively, 1);
    /* Where the machine is slow, a renewal is confirmed, too. */
    assert_in_range(fake_tcp_count(server, "waitaof") - before, 1, 2);
    before = fake_tcp_count(server, "waitaof");
    ASSERT_RESULT(tl_lock_extend(lock, TTL_MS, &said), TL_OK);
    assert_true(fake_tcp_count(server, "waitaof") > before);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    assert_int_equal(fake_tcp_count(server, "wait"), 0);
}

TEST(what_it_has_not_is_given_back) {
    tl_lock *lock = make_lock(client_on_disk(0), KEY, TTL_MS);
    disks(true, false, 0);
    refused(lock, TL_EUNAVAILABLE, "the server did not have the lock on its disk in time");
    WAIT_FOR(SOON_MS, is_gone());
    disks(true, true, 0);
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
}

TEST(replicas_have_disks_too) {
    tl_lock *lock = make_lock(client_on_disk(2), KEY, TTL_MS);
    disks(true, true, 1);
    refused(lock, TL_EUNAVAILABLE, "too few replicas had the lock on their disks in time");
    WAIT_FOR(SOON_MS, is_gone());
    disks(true, true, 2);
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
}

TEST(a_server_without_an_append_only_file_is_refused_at_once) {
    tl_lock *lock = make_lock(client_on_disk(0), KEY, TTL_MS);
    disks(false, false, 0);
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_EUNSUPPORTED);
    ASSERT_SAID("keeps no append-only file, which wait_fsync needs: appendonly yes");
    WAIT_FOR(SOON_MS, is_gone());
}

/* A renewal that isn't on the disk is none. */
TEST(a_holder_whose_renewals_the_disk_has_not_is_told_in_time) {
    lock_events *events = make_events();
    tl_lock *lock = make_lock_with(
        client_on_disk(0), KEY,
        TL_LOCK_OPTIONS(.ttl_ms = LASTING_MS, .on_event = lock_events_add, .ctx = events));
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    disks(true, false, 0);
    (void)lock_events_await(events, TL_AT_RISK, SOON_MS);
    disks(true, true, 0);
    ASSERT_GOES_ON(lock);
    disks(true, false, 0);
    lock_event lost = lock_events_await(events, TL_LOST, SOON_MS);
    assert_int_equal(lost.remaining_ms, 0);
}

TEST(many_renewals_are_confirmed_by_one) {
    tl_client *client = client_on_disk(0);
    tl_lock *lock[MANY];
    for (int i = 0; i < MANY; i++) {
        char key[32];
        (void)snprintf(key, sizeof key, "many:%d", i);
        lock[i] = make_lock(client, key, LASTING_MS);
        ASSERT_RESULT(tl_lock_acquire(lock[i], SOON_MS, &said), TL_OK);
    }
    disks(true, false, 0);
    for (int i = 0; i < MANY; i++) /* what is joined isn't confirmed for anyone */
        WAIT_FOR(SOON_MS, tl_lock_state(lock[i]) != TL_HELD);
    disks(true, true, 0);
    uint64_t before = fake_tcp_count(server, "waitaof");
    for (int i = 0; i < MANY; i++)
        WAIT_FOR(SOON_MS, tl_lock_state(lock[i]) != TL_AT_RISK);
    assert_true(fake_tcp_count(server, "waitaof") - before < 3 * MANY);
}

/* Who is given it in line looks, and is confirmed, before he has it. */
TEST(a_grant_counts_only_when_the_disk_has_it) {
    tl_lock *first = make_lock(client_on_disk(0), KEY, TTL_MS);
    tl_lock *second = make_lock(client_on_disk(0), KEY, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(first, SOON_MS, &said), TL_OK);
    acquiring *waiter = acquiring_begin(second, 4 * SOON_MS);
    WAIT_FOR(SOON_MS, fake_tcp_count(server, "subscribe") >= 1);
    disks(true, false, 0);
    ASSERT_RESULT(tl_lock_release(first, &said), TL_OK);
    uint64_t asked = fake_tcp_count(server, "waitaof");
    WAIT_FOR(SOON_MS, fake_tcp_count(server, "waitaof") > asked + 1);
    assert_false(atomic_load(&waiter->done));
    disks(true, true, 0);
    ASSERT_RESULT(acquiring_end(waiter, 4 * SOON_MS), TL_OK);
}

TEST(a_real_server_has_waitaof_or_is_refused_at_once) {
    const real_redis_options appending = {.persist = true};
    real_redis *old = real_redis_start(&appending);
    tl_lock *lock = make_lock(
        make_client_with(TL_CLIENT_OPTIONS(.url = real_redis_url(old), .wait_fsync = true)), KEY,
        TTL_MS);
    tl_err code = tl_lock_acquire(lock, SOON_MS, &said);
    if (code != TL_OK) { /* from before 7.2 */
        ASSERT_RESULT(code, TL_EUNSUPPORTED);
        ASSERT_SAID("the server has no WAITAOF, which wait_fsync needs: Redis 7.2 or newer");
    }
    locks_clean_up(NULL);
    real_redis_free(old);
}
