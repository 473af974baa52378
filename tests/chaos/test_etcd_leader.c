/*
 * Locks on an etcd of three members whose leader is killed, or stopped and woken. `make soak SOAK=etcd` does so for longer.
 *
 * timeout: 180
 */

/*
 * Faults and outcomes (tests/README.md says what is asserted of each):
 * - the leader killed, or stopped for longer than a lifetime with requests queued at it and resumed: held through
 *   another member; the fence rises.
 * - the leader that granted a rest stopped and resumed: the rest ends no earlier, and then a waiter acquires the lock.
 */
#include "etcd_faults.h"

TEST(a_leader_that_is_killed_takes_no_lock_along) {
    real_etcd *e = real_etcd_start(3);
    unsigned leader = real_etcd_leader(e);
    tl_client *c = open_with(TL_CLIENT_OPTIONS(.url = url_from(e, leader), .attempt_ms = 2000));
    tl_client *other = open_with(TL_CLIENT_OPTIONS(.url = url_from(e, (leader + 1) % 3)));
    tl_lock *lock = new_lock(c, "k", 15000), *next = new_lock(other, "k", 15000);
    acquire(lock, 0);
    uint64_t fence = tl_lock_fence(lock);
    real_etcd_kill(e, leader);
    assert_held_for(lock, other, "k", 17000);
    assert_int_not_equal(tl_lock_acquire(next, 0, NULL), TL_OK);
    assert_int_equal(tl_lock_release(lock, NULL), TL_OK);
    acquire(next, ENOUGH_MS);
    assert_true(tl_lock_fence(next) > fence);
    assert_int_equal(tl_lock_release(next, NULL), TL_OK);
    real_etcd_restart(e, leader);
    acquire(lock, ENOUGH_MS);
    assert_int_equal(tl_lock_release(lock, NULL), TL_OK);
    tl_lock_free(lock);
    tl_lock_free(next);
    tl_client_close(c);
    tl_client_close(other);
    real_etcd_free(e);
}

TEST(a_leader_that_is_stopped_for_longer_than_a_lifetime_and_woken_harms_nobody) {
    enum { TTL_MS = 15000 };
    real_etcd *e = real_etcd_start(3);
    etcd_stop_and_wake_the_leader(e, TTL_MS);
    real_etcd_free(e);
}

TEST(a_rest_ends_no_earlier_though_the_leader_is_stopped_and_woken) {
    enum { REST_MS = 10000, STOPPED_MS = 5000 };
    real_etcd *e = real_etcd_start(3);
    unsigned leader = real_etcd_leader(e);
    tl_client *c = open_with(TL_CLIENT_OPTIONS(.url = url_from(e, leader)));
    tl_client *other = open_with(TL_CLIENT_OPTIONS(.url = url_from(e, (leader + 1) % 3)));
    tl_lock *lock = new_lock(c, "k", 15000), *next = new_lock(other, "k", 15000);
    int64_t began = now_ms();
    acquire(lock, 0);
    assert_int_equal(tl_lock_rest(lock, REST_MS, NULL), TL_OK);
    real_etcd_freeze(e, leader);
    assert_int_not_equal(tl_lock_acquire(next, 0, NULL), TL_OK);
    pause_ms(STOPPED_MS);
    real_etcd_thaw(e, leader);
    acquire(next, ENOUGH_MS);
    assert_true(now_ms() - began >= REST_MS - REST_MS / 100);
    assert_int_equal(tl_lock_release(next, NULL), TL_OK);
    tl_lock_free(lock);
    tl_lock_free(next);
    tl_client_close(c);
    tl_client_close(other);
    real_etcd_free(e);
}
