/*
 * A lock that rests where several servers hold it: behind Sentinels, in a cluster, by a majority of independent ones. All of them
 * read the clock of this host.
 * timeout: 240
 */
#include <string.h>
#include <time.h>

#include "locks.h"
#include "real_fleet.h"
#include "tests.h"

#define KEY "rests"
#define TTL_MS 30000
#define HOUR_MS 3600000 /* a rest that no test outlasts */
#define BRIEF_MS 2500   /* one that is waited out */
#define DOWN_MS 60000   /* nobody is replaced because the machine has stopped him */
#define RESTS "it rests: nobody holds it, and nobody acquires it before the rest ends"

static real_fleet *fleet;

static int tear_down(void **state) {
    int failed = locks_clean_up(state);
    real_fleet_free(fleet);
    fleet = NULL;
    return failed;
}

TESTS_WITH(NULL, tear_down);

static int64_t server_us(void) {
    struct timespec t = {0};
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static tl_client *open_client(void) {
    return make_client_with(
        TL_CLIENT_OPTIONS(.url = real_fleet_url(fleet), .quiet_ms = TL_QUIET_OFF));
}

static tl_lock *new_lock(tl_lock_options options) {
    options.ttl_ms = TTL_MS;
    return make_lock_with(open_client(), KEY, options);
}

static tl_lock *plain(void) {
    return new_lock(TL_LOCK_OPTIONS(.ttl_ms = TTL_MS));
}

/* When the acquire began, us. */
static int64_t acquire(tl_lock *lock) {
    const int64_t began_us = server_us();
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    return began_us;
}

static void end_rest(void) {
    ASSERT_RESULT(tl_client_break(open_client(), KEY, strlen(KEY), NULL, &said), TL_OK);
    tl_lock *next = plain();
    ASSERT_RESULT(tl_lock_acquire(next, SOON_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(next, &said), TL_OK);
}

static void assert_rests(tl_lock *other) {
    ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_EBUSY);
    ASSERT_SAID(RESTS);
}

static void nobody_acquires_it(void) {
    tl_lock *lock = plain();
    (void)acquire(lock);
    ASSERT_RESULT(tl_lock_rest(lock, HOUR_MS, &said), TL_OK);
    assert_int_equal(tl_lock_state(lock), TL_FREE);
    ASSERT_RESULT(tl_lock_rest(lock, HOUR_MS, &said), TL_EINVALID);
    assert_rests(lock);
    assert_rests(plain());
    ASSERT_RESULT(acquire_to_limit(plain(), 300), TL_ETIMEDOUT);
    end_rest();
}

static void done(tl_lock *lock, tl_err code, const tl_error *err, void *ctx) {
    (void)lock, (void)err;
    atomic_store((atomic_int *)ctx, 1 + (int)code);
}

/* Released without blocking before its shortest hold. */
static void a_released_lock_rests(void) {
    static atomic_int told;
    tl_lock *lock = new_lock(TL_LOCK_OPTIONS(.min_hold_ms = HOUR_MS));
    (void)acquire(lock);
    atomic_store(&told, 0);
    ASSERT_RESULT(tl_lock_release_async(lock, done, &told, &said), TL_OK);
    WAIT_FOR(SOON_MS, atomic_load(&told) == 1 + TL_OK);
    assert_rests(plain());
    end_rest();
}

static void a_waiter_acquires_it_after_its_end(bool adopted) {
    tl_lock *lock = plain(), *heir = plain(), *next = plain();
    const int64_t began_us = acquire(lock);
    acquiring *waiter = acquiring_begin(next, TL_FOREVER);
    if (adopted) {
        ASSERT_RESULT(tl_lock_adopt(heir, tl_lock_token(lock), &said), TL_OK);
        ASSERT_RESULT(tl_lock_extend(lock, TTL_MS, &said), TL_OK); /* now S knows of it */
    }
    ASSERT_RESULT(tl_lock_rest(adopted ? heir : lock, BRIEF_MS, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_OK);
    const int64_t passed_us = server_us() - began_us;
    print_message("acquired %d ms after the end of the rest\n", (int)(passed_us / 1000) - BRIEF_MS);
    assert_in_range(passed_us, BRIEF_MS * 1000, INT64_MAX);
    assert_true(tl_lock_fence(next) > tl_lock_fence(lock));
    ASSERT_RESULT(tl_lock_release(next, &said), TL_OK);
    (void)tl_lock_release(lock, NULL);
}

static void a_wait_for_a_holder_alone_ends(void) {
    tl_lock *lock = plain(), *waits = new_lock(TL_LOCK_OPTIONS(.rest_ends_wait = true));
    (void)acquire(lock);
    acquiring *waiter = acquiring_begin(waits, TL_FOREVER);
    ASSERT_RESULT(tl_lock_rest(lock, HOUR_MS, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_EBUSY);
    ASSERT_SAID(RESTS);
    ASSERT_RESULT(tl_lock_acquire(waits, TL_FOREVER, &said), TL_EBUSY);
    ASSERT_SAID(RESTS);
    end_rest();
}

static void after_its_time_it_is_free(void) {
    tl_lock *lock = plain(), *next = plain();
    (void)acquire(lock);
    ASSERT_RESULT(tl_lock_rest(lock, 1, &said), TL_OK);
    (void)acquire(next);
    ASSERT_RESULT(tl_lock_rest(next, 0, &said), TL_OK);
    (void)acquire(lock);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

static void a_lost_lock_does_not_rest(void) {
    tl_lock *lock = new_lock(TL_LOCK_OPTIONS(.min_hold_ms = HOUR_MS, .manual_renew = true));
    (void)acquire(lock);
    ASSERT_RESULT(tl_client_break(open_client(), KEY, strlen(KEY), NULL, &said), TL_OK);
    const tl_err code = tl_lock_rest(lock, HOUR_MS, &said);
    assert_true(code == TL_EEXPIRED || code == TL_ETAKEN);
    after_its_time_it_is_free();
}

static void as_promised(void) {
    nobody_acquires_it();
    a_released_lock_rests();
    a_waiter_acquires_it_after_its_end(false);
    a_waiter_acquires_it_after_its_end(true);
    a_wait_for_a_holder_alone_ends();
    after_its_time_it_is_free();
    a_lost_lock_does_not_rest();
}

TEST(behind_sentinels_a_lock_rests) {
    fleet = real_fleet_start_sentinels(&(real_fleet_options){.down_ms = DOWN_MS});
    as_promised();
}

TEST(in_a_cluster_a_lock_rests) {
    fleet = real_fleet_start_cluster(&(real_fleet_options){.replicas = -1, .down_ms = DOWN_MS});
    as_promised();
}

TEST(at_a_majority_of_independent_servers_a_lock_rests) {
    fleet = real_fleet_start_servers(3, NULL);
    as_promised();
}
