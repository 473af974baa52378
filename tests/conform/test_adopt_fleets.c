/*
 * A handle that adopts another's token does not release it by its next acquire, where several servers hold the lock, and on
 * etcd.
 * timeout: 240
 */
#include "locks.h"
#include "real_etcd.h"
#include "real_fleet.h"
#include "tests.h"

#define KEY "adopted"
#define TTL_MS 30000
#define DOWN_MS 60000 /* nobody is replaced because the machine has stopped him */
#define MAX_MS 50

static real_fleet *fleet;
static real_etcd *etcd;

static int tear_down(void **state) {
    int failed = locks_clean_up(state);
    real_fleet_free(fleet);
    real_etcd_free(etcd);
    fleet = NULL;
    etcd = NULL;
    return failed;
}

TESTS_WITH(NULL, tear_down);

static tl_lock *new_lock(const char *url, tl_lock_options options) {
    tl_client *client = make_client_with(
        TL_CLIENT_OPTIONS(.url = url, .quiet_ms = fleet ? TL_QUIET_OFF : 0));
    return make_lock_with(client, KEY, options);
}

static void done(tl_lock *lock, tl_err code, const tl_error *err, void *ctx) {
    (void)lock, (void)err;
    atomic_store((atomic_int *)ctx, 1 + (int)code);
}

static tl_err acquire_async(tl_lock *lock) {
    static atomic_int told;
    atomic_store(&told, 0);
    ASSERT_RESULT(tl_lock_acquire_async(lock, 300, done, &told, &said), TL_OK);
    WAIT_FOR(SOON_MS, atomic_load(&told) != 0);
    return (tl_err)(atomic_load(&told) - 1);
}

/* The handle had a hold that max_hold_ms would have ended by now. */
static void the_holder_keeps_it(const char *url) {
    tl_lock *holder = new_lock(url, TL_LOCK_OPTIONS(.ttl_ms = TTL_MS));
    tl_lock *adopter = new_lock(url, TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .max_hold_ms = MAX_MS));
    ASSERT_RESULT(tl_lock_acquire(adopter, SOON_MS, &said), TL_OK);
    const clock_wait passes = clock_wait_begin(MAX_MS + 20);
    (void)tl_lock_release(adopter, &said); /* it may be lost by now */
    ASSERT_RESULT(tl_lock_acquire(holder, SOON_MS, &said), TL_OK);
    while (clock_wait_more(&passes))
        continue;
    for (int blocks = 0; blocks < 2; blocks++) {
        ASSERT_RESULT(tl_lock_adopt(adopter, tl_lock_token(holder), &said), TL_OK);
        ASSERT_RESULT(blocks ? acquire_to_limit(adopter, 300) : acquire_async(adopter),
                      TL_ETIMEDOUT);
    }
    assert_int_equal(tl_lock_state(holder), TL_HELD);
    ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
}

TEST(behind_sentinels_the_holder_keeps_it) {
    fleet = real_fleet_start_sentinels(&(real_fleet_options){.down_ms = DOWN_MS});
    the_holder_keeps_it(real_fleet_url(fleet));
}

TEST(in_a_cluster_the_holder_keeps_it) {
    fleet = real_fleet_start_cluster(&(real_fleet_options){.replicas = -1, .down_ms = DOWN_MS});
    the_holder_keeps_it(real_fleet_url(fleet));
}

TEST(at_a_majority_of_independent_servers_the_holder_keeps_it) {
    fleet = real_fleet_start_servers(3, NULL);
    the_holder_keeps_it(real_fleet_url(fleet));
}

TEST(on_etcd_the_holder_keeps_it) {
    etcd = real_etcd_start(1);
    the_holder_keeps_it(real_etcd_url(etcd));
}
