/*
 * Locks on an etcd whose majority is away: killed, or stopped and woken, so that what was answered with an error is carried out
 * after all.
 */

/*
 * Faults and outcomes (tests/README.md says what is asserted of each):
 * - two of three members killed with a watch open: LOST by the deadline, no client acquires it; the waiter does when one
 *   is back.
 * - the follower that the URL names first stopped: acquired and released in one attempt through another member.
 * - both followers stopped, and requests that ended with an error executed when they resume: UNCERTAIN; undone, or
 *   counted as done, long before a lifetime has passed.
 */
#include "clock_wait.h"
#include "etcd_faults.h"

/* Its system takes connections, and what is sent. */
TEST(who_names_a_stopped_member_first_and_asks_once_is_served_by_another) {
    real_etcd *e = real_etcd_start(3);
    unsigned stopped = (real_etcd_leader(e) + 1) % 3;
    real_etcd_freeze(e, stopped);
    const tl_client_options o = TL_CLIENT_OPTIONS(.url = url_from(e, stopped), .attempt_ms = 12000);
    tl_client *takes = open_with(o), *drops = open_with(o);
    tl_lock *lock = new_lock(takes, "k", 60000), *same = new_lock(drops, "k", 60000);
    acquire(lock, 0);
    assert_int_equal(tl_lock_adopt(same, tl_lock_token(lock), NULL), TL_OK);
    assert_int_equal(tl_lock_release(same, NULL), TL_OK);
    tl_lock_free(same);
    tl_lock_free(lock);
    tl_client_close(takes);
    tl_client_close(drops);
    real_etcd_thaw(e, stopped);
    real_etcd_free(e);
}

TEST(without_a_majority_a_lock_is_lost_by_its_deadline_and_nobody_gets_it_until_there_is_one) {
    real_etcd *e = real_etcd_start(3);
    tl_client *c = open_with(TL_CLIENT_OPTIONS(.url = real_etcd_url(e), .attempt_ms = 4000));
    tl_lock *lock = new_lock(c, "k", 4000), *waits = new_lock(c, "k", 30000);
    told = 0;
    acquire(lock, ENOUGH_MS);
    assert_int_equal(tl_lock_acquire_async(waits, TL_FOREVER, done, NULL, NULL), TL_OK);
    pause_ms(500); /* with a watch open */
    real_etcd_kill(e, 1);
    real_etcd_kill(e, 2);
    int64_t lost_by = now_ms() + 4000;
    while (tl_lock_state(lock) != TL_LOST && now_ms() < lost_by)
        pause_ms(10);
    assert_int_equal(tl_lock_remaining_ms(lock), 0);
    for (int64_t end = now_ms() + ENOUGH_MS; tl_lock_state(lock) != TL_LOST && now_ms() < end;)
        pause_ms(10); /* nobody may have had the time to say so */
    assert_int_equal(tl_lock_state(lock), TL_LOST);
    tl_lock *tries = new_lock(c, "k", 4000);
    assert_int_not_equal(tl_lock_acquire(tries, 0, NULL), TL_OK);
    assert_int_equal(told, 0);
    real_etcd_restart(e, 1);
    await_told(ENOUGH_MS);
    assert_int_equal(told_code, TL_OK);
    assert_true(tl_lock_fence(waits) > tl_lock_fence(lock));
    real_etcd_restart(e, 2);
    assert_int_equal(tl_lock_release(waits, NULL), TL_OK);
    tl_lock_free(tries);
    tl_lock_free(waits);
    tl_lock_free(lock);
    tl_client_close(c);
    real_etcd_free(e);
}

/* How many keys there are below K/. */
static unsigned contenders(const real_etcd *e, const char *key) {
    char arguments[100];
    (void)snprintf(arguments, sizeof arguments, "get --prefix --keys-only %s/", key);
    const char *text = real_etcd_ctl(e, arguments);
    unsigned n = 0;
    for (; text && *text; text++)
        n += *text == '/';
    return n;
}

static void await_contenders(const real_etcd *e, unsigned n) {
    for (int64_t end = now_ms() + ENOUGH_MS; now_ms() < end && contenders(e, "k") != n;)
        pause_ms(20);
    assert_int_equal(contenders(e, "k"), n);
}

static void set_followers(real_etcd *e, unsigned leader, bool frozen) {
    for (unsigned i = 0; i < 3; i++)
        if (i != leader && frozen)
            real_etcd_freeze(e, i);
        else if (i != leader)
            real_etcd_thaw(e, i);
}

/* The leader answers that it has failed, and carries it out when it has its followers back. */
TEST(what_is_executed_after_its_error_is_undone_or_counts) {
    real_etcd *e = real_etcd_start(3);
    unsigned leader = real_etcd_leader(e);
    tl_client *c = open_with(
        TL_CLIENT_OPTIONS(.url = real_etcd_url_of(e, leader), .attempt_ms = 3000));
    tl_lock *lock = new_lock(c, "k", 300000), *other = new_lock(c, "k", 300000);
    for (;;) {
        acquire(other, ENOUGH_MS); /* so that there is a connection, and a lease to spare */
        int64_t heard = clock_ms();
        assert_int_equal(tl_lock_release(other, NULL), TL_OK);
        set_followers(e, leader, true);
        tl_err code = tl_lock_acquire(lock, 0, NULL);
        set_followers(e, leader, false);
        if (code == TL_EUNCERTAIN || !WAS_IDLE(heard, 0)) {
            assert_int_equal(code, TL_EUNCERTAIN);
            break;
        }
        if (code == TL_OK)
            assert_int_equal(tl_lock_release(lock, NULL), TL_OK);
    }
    acquire(other, ENOUGH_MS); /* long before a lifetime has passed */
    set_followers(e, leader, true);
    assert_int_equal(tl_lock_release(other, NULL), TL_EUNCERTAIN);
    set_followers(e, leader, false);
    acquire(lock, ENOUGH_MS);
    await_contenders(e, 1);
    assert_int_equal(tl_lock_release(lock, NULL), TL_OK);
    await_contenders(e, 0);
    tl_lock_free(lock);
    tl_lock_free(other);
    tl_client_close(c);
    real_etcd_free(e);
}
