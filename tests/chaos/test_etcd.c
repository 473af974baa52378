/*
 * Locks on a real etcd of three members, or of one, under faults: leaders that are killed, or stopped and woken; a majority
 * that is away; histories that are compacted; users, passwords and certificates.
 */
#include "tests.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tidelock/inspect.h>
#include <tidelock/tidelock.h>
#include <time.h>
#include <unistd.h>

#include "real_etcd.h"

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void pause_ms(long ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static tl_client *open_with(tl_client_options o) {
    tl_client *c;
    tl_error err;
    if (tl_client_open(&o, &c, &err))
        fail_msg("%s", err.message);
    return c;
}

static tl_lock *new_lock(tl_client *c, const char *key, int64_t ttl_ms) {
    const tl_lock_options o = TL_LOCK_OPTIONS(.ttl_ms = ttl_ms);
    tl_lock *lock = tl_lock_new(c, key, strlen(key), &o, NULL);
    assert_non_null(lock);
    return lock;
}

static void acquire(tl_lock *lock, int64_t wait_ms) {
    tl_error err;
    if (tl_lock_acquire(lock, wait_ms, &err))
        fail_msg("%s", err.message);
}

/* All members, this one first: so that requests go there. */
static const char *url_from(const real_etcd *e, unsigned first) {
    static char url[300];
    (void)snprintf(url, sizeof url, "%s", real_etcd_url_of(e, first));
    for (unsigned i = 0; i < 3; i++)
        if (i != first)
            (void)snprintf(url + strlen(url), sizeof url - strlen(url), ",%s",
                           strstr(real_etcd_url_of(e, i), "127"));
    return url;
}

/* Held for so long, and the key there, whatever happens. */
static void assert_held_for(tl_lock *lock, tl_client *looks, const char *key, int64_t ms) {
    for (int64_t end = now_ms() + ms; now_ms() < end; pause_ms(50)) {
        tl_lock_info info = {.size = sizeof info};
        assert_int_not_equal(tl_lock_state(lock), TL_LOST);
        assert_true(tl_lock_remaining_ms(lock) > 0);
        if (tl_client_look(looks, key, strlen(key), &info, NULL) == TL_OK) {
            assert_true(info.held);
            assert_int_equal(info.fence, tl_lock_fence(lock));
        }
    }
}

TEST(a_leader_that_is_killed_takes_no_lock_along) {
    real_etcd *e = real_etcd_start(3);
    unsigned leader = real_etcd_leader(e);
    tl_client *c = open_with(TL_CLIENT_OPTIONS(.url = url_from(e, leader)));
    tl_client *other = open_with(TL_CLIENT_OPTIONS(.url = url_from(e, (leader + 1) % 3)));
    tl_lock *lock = new_lock(c, "k", 8000), *next = new_lock(other, "k", 8000);
    acquire(lock, 0);
    uint64_t fence = tl_lock_fence(lock);
    real_etcd_kill(e, leader);
    assert_held_for(lock, other, "k", 12000);
    assert_int_not_equal(tl_lock_acquire(next, 0, NULL), TL_OK);
    assert_int_equal(tl_lock_release(lock, NULL), TL_OK);
    acquire(next, 10000);
    assert_true(tl_lock_fence(next) > fence);
    assert_int_equal(tl_lock_release(next, NULL), TL_OK);
    real_etcd_restart(e, leader);
    acquire(lock, 10000);
    assert_int_equal(tl_lock_release(lock, NULL), TL_OK);
    tl_lock_free(lock);
    tl_lock_free(next);
    tl_client_close(c);
    tl_client_close(other);
    real_etcd_free(e);
}

/* What was queued at it is carried out, or answered, when it wakes: of the holder's requests, and of those who try. */
TEST(a_leader_that_is_stopped_for_longer_than_a_lifetime_and_woken_harms_nobody) {
    enum { ROUNDS = 3, TTL_MS = 8000 };
    real_etcd *e = real_etcd_start(3);
    for (int i = 0; i < ROUNDS; i++) {
        unsigned leader = real_etcd_leader(e);
        tl_client *c = open_with(TL_CLIENT_OPTIONS(.url = url_from(e, leader)));
        tl_client *tries = open_with(
            TL_CLIENT_OPTIONS(.url = real_etcd_url_of(e, leader), .attempt_ms = 500));
        tl_client *looks = open_with(TL_CLIENT_OPTIONS(.url = url_from(e, (leader + 1) % 3)));
        tl_lock *lock = new_lock(c, "k", TTL_MS), *other = new_lock(tries, "k", TTL_MS);
        acquire(lock, 10000);
        real_etcd_freeze(e, leader);
        for (int64_t end = now_ms() + TTL_MS + 1500; now_ms() < end;) {
            assert_int_not_equal(tl_lock_acquire(other, 0, NULL), TL_OK); /* queued there */
            assert_held_for(lock, looks, "k", 100);
        }
        real_etcd_thaw(e, leader);
        assert_held_for(lock, looks, "k", TTL_MS / 2);
        assert_int_equal(tl_lock_release(lock, NULL), TL_OK);
        tl_lock_free(lock);
        tl_lock_free(other);
        tl_client_close(c);
        tl_client_close(tries);
        tl_client_close(looks);
    }
    real_etcd_free(e);
}

/* ---- who is counted ---------------------------------------------------------------------------- */

typedef struct {
    const real_etcd *etcd;
    unsigned first;
    int acquired;
} worker;

static atomic_int inside, twice, backwards;
static atomic_bool stopping;
static _Atomic uint64_t last_fence;
static pthread_mutex_t fences = PTHREAD_MUTEX_INITIALIZER;

/* Work only while it is believed. */
static void work(tl_lock *lock) {
    pthread_mutex_lock(&fences);
    bool believed = tl_lock_remaining_ms(lock) > 0;
    if (believed) {
        backwards += tl_lock_fence(lock) <= last_fence;
        last_fence = tl_lock_fence(lock);
    }
    pthread_mutex_unlock(&fences);
    for (int i = 0; i < 5 && tl_lock_remaining_ms(lock) > 0; i++) {
        if (atomic_fetch_add(&inside, 1) != 0 && tl_lock_remaining_ms(lock) > 0)
            twice++;
        pause_ms(2);
        atomic_fetch_sub(&inside, 1);
    }
}

static void *count(void *ctx) {
    worker *w = ctx;
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    char url[300];
    pthread_mutex_lock(&one); /* url_from has one room */
    (void)snprintf(url, sizeof url, "%s", url_from(w->etcd, w->first));
    pthread_mutex_unlock(&one);
    tl_client_options o = TL_CLIENT_OPTIONS(.url = url, .attempt_ms = 1000);
    tl_client *c;
    if (tl_client_open(&o, &c, NULL))
        return NULL;
    const tl_lock_options lo = TL_LOCK_OPTIONS(.ttl_ms = 4000);
    tl_lock *lock = tl_lock_new(c, "counted", 7, &lo, NULL);
    while (lock && !stopping) {
        if (tl_lock_acquire(lock, 2000, NULL))
            continue;
        w->acquired++;
        work(lock);
        (void)tl_lock_release(lock, NULL);
    }
    tl_lock_free(lock);
    tl_client_close(c);
    return NULL;
}

TEST(never_two_at_once_and_no_fence_goes_back_whatever_happens_to_the_members) {
    enum { N = 4 };
    real_etcd *e = real_etcd_start(3);
    pthread_t thread[N];
    worker w[N];
    for (unsigned i = 0; i < N; i++) {
        w[i] = (worker){.etcd = e, .first = i % 3};
        assert_int_equal(pthread_create(&thread[i], NULL, count, &w[i]), 0);
    }
    pause_ms(1000);
    for (int i = 0; i < 4; i++) {
        unsigned leader = real_etcd_leader(e);
        if (i % 2 == 0) {
            real_etcd_freeze(e, leader);
            pause_ms(5000);
            real_etcd_thaw(e, leader);
        } else {
            real_etcd_kill(e, leader);
            pause_ms(2500);
            real_etcd_restart(e, leader);
        }
        pause_ms(1500);
    }
    stopping = true;
    int acquired = 0;
    for (int i = 0; i < N; i++) {
        pthread_join(thread[i], NULL);
        acquired += w[i].acquired;
    }
    assert_int_equal(twice, 0);
    assert_int_equal(backwards, 0);
    assert_true(acquired > 50);
    real_etcd_free(e);
}

/* ---- a majority that is away ------------------------------------------------------------------- */

static atomic_int told;
static tl_err told_code;

static void done(tl_lock *lock, tl_err code, const tl_error *err, void *ctx) {
    (void)lock, (void)err, (void)ctx;
    told_code = code;
    atomic_fetch_add(&told, 1);
}

static void await_told(int64_t ms) {
    for (int64_t end = now_ms() + ms; now_ms() < end && told == 0; pause_ms(5))
        ;
    assert_int_equal(told, 1);
}

TEST(without_a_majority_a_lock_is_lost_by_its_deadline_and_nobody_gets_it_until_there_is_one) {
    real_etcd *e = real_etcd_start(3);
    tl_client *c = open_with(TL_CLIENT_OPTIONS(.url = real_etcd_url(e), .attempt_ms = 1000));
    tl_lock *lock = new_lock(c, "k", 4000), *waits = new_lock(c, "k", 4000);
    told = 0;
    acquire(lock, 0);
    assert_int_equal(tl_lock_acquire_async(waits, TL_FOREVER, done, NULL, NULL), TL_OK);
    pause_ms(500); /* with a watch open */
    real_etcd_kill(e, 1);
    real_etcd_kill(e, 2);
    int64_t lost_by = now_ms() + 4000;
    while (tl_lock_state(lock) != TL_LOST && now_ms() < lost_by)
        pause_ms(10);
    assert_int_equal(tl_lock_state(lock), TL_LOST);
    assert_int_equal(tl_lock_remaining_ms(lock), 0);
    tl_lock *tries = new_lock(c, "k", 4000);
    assert_int_not_equal(tl_lock_acquire(tries, 0, NULL), TL_OK);
    assert_int_equal(told, 0);
    real_etcd_restart(e, 1);
    await_told(20000);
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

/* ---- one member -------------------------------------------------------------------------------- */

TEST(a_history_that_was_compacted_hides_no_release) {
    real_etcd *e = real_etcd_start(1);
    tl_client *c = open_with(TL_CLIENT_OPTIONS(.url = real_etcd_url(e)));
    tl_lock *lock = new_lock(c, "k", 20000), *waits = new_lock(c, "k", 20000);
    told = 0;
    acquire(lock, 0);
    assert_int_equal(tl_lock_acquire_async(waits, TL_FOREVER, done, NULL, NULL), TL_OK);
    pause_ms(300);
    for (int i = 0; i < 5; i++)
        assert_non_null(real_etcd_ctl(e, "put x y"));
    char compact[64];
    (void)snprintf(compact, sizeof compact, "compact %llu",
                   (unsigned long long)tl_lock_fence(lock) + 5);
    assert_non_null(real_etcd_ctl(e, compact));
    real_etcd_restart(
        e, 0); /* so that the watch is asked for again, from where there is nothing any more */
    pause_ms(1500);
    assert_int_equal(told, 0);
    assert_int_equal(tl_lock_state(lock), TL_HELD);
    int64_t began = now_ms();
    assert_int_equal(tl_lock_release(lock, NULL), TL_OK);
    await_told(5000);
    assert_true(now_ms() - began < 2000); /* sooner than by looking now and then */
    assert_int_equal(told_code, TL_OK);
    assert_int_equal(tl_lock_release(waits, NULL), TL_OK);
    tl_lock_free(lock);
    tl_lock_free(waits);
    tl_client_close(c);
    real_etcd_free(e);
}

static void assert_stays(const tl_lock *lock, int64_t ms) {
    for (int64_t end = now_ms() + ms; now_ms() < end; pause_ms(20))
        assert_int_equal(tl_lock_state(lock), TL_HELD);
}

static tl_err try_with(const char *url, const char *words) {
    tl_error err = {0};
    tl_client *c = open_with(TL_CLIENT_OPTIONS(.url = url, .connect_ms = 2000));
    tl_lock *lock = new_lock(c, "k", 5000);
    tl_err code = tl_lock_acquire(lock, 0, &err);
    if (code == TL_OK)
        assert_int_equal(tl_lock_release(lock, NULL), TL_OK);
    else if (!strstr(err.message, words))
        fail_msg("%s", err.message);
    tl_lock_free(lock);
    tl_client_close(c);
    return code;
}

TEST(with_users_only_they_get_locks_and_say_so_otherwise) {
    real_etcd *e = real_etcd_start(1);
    char url[3][200];
    const char *place = strstr(real_etcd_url(e), "127");
    (void)snprintf(url[0], sizeof url[0], "etcd://root:secret@%s", place);
    (void)snprintf(url[1], sizeof url[1], "etcd://root:wrong@%s", place);
    (void)snprintf(url[2], sizeof url[2], "etcd://mean:secret@%s", place);
    assert_int_equal(try_with(url[0], ""), TL_OK); /* etcd has no users yet, and asks for none */
    assert_non_null(real_etcd_ctl(e, "user add root:secret"));
    assert_non_null(real_etcd_ctl(e, "user grant-role root root"));
    assert_non_null(real_etcd_ctl(e, "user add mean:secret"));
    assert_non_null(real_etcd_ctl(e, "auth enable"));
    assert_int_equal(try_with(url[0], ""), TL_OK);
    assert_int_equal(try_with(url[1], "login"), TL_EDENIED);
    assert_int_equal(try_with(url[2], "permission denied"), TL_EDENIED);
    assert_int_equal(try_with(real_etcd_url(e), "etcd wants a user and a password"), TL_EDENIED);
    /* A waiter's stream logs in, too; and a login that has run out, as by a change of users, is made anew. */
    tl_client *c = open_with(TL_CLIENT_OPTIONS(.url = url[0]));
    tl_lock *lock = new_lock(c, "k", 6000), *waits = new_lock(c, "k", 6000);
    told = 0;
    acquire(lock, 0);
    assert_stays(lock, 3500); /* what was asked before a login is said with its token */
    assert_non_null(real_etcd_ctl(e, "--user root:secret user add more:secret"));
    assert_int_equal(tl_lock_acquire_async(waits, TL_FOREVER, done, NULL, NULL), TL_OK);
    assert_stays(lock, 5000);
    int64_t began = now_ms();
    assert_int_equal(tl_lock_release(lock, NULL), TL_OK);
    await_told(5000);
    assert_true(now_ms() - began < 2000);
    assert_int_equal(tl_lock_release(waits, NULL), TL_OK);
    tl_lock_free(lock);
    tl_lock_free(waits);
    tl_client_close(c);
    real_etcd_free(e);
}

TEST(over_tls_whoever_proves_to_be_the_host_is_asked) {
    tl_client *c;
    tl_error err;
    tl_client_options o = TL_CLIENT_OPTIONS(.url = "etcds://127.0.0.1");
    if (tl_client_open(&o, &c, &err)) {
        assert_non_null(strstr(err.message, "TLS"));
        return;
    }
    tl_client_close(c);
    real_etcd *e = real_etcd_start_tls(1);
    assert_int_equal(try_with(real_etcd_url(e), "certificate"), TL_EDENIED);
    c = open_with(TL_CLIENT_OPTIONS(.url = real_etcd_url(e), .tls_ca_file = real_etcd_ca(e)));
    tl_lock *lock = new_lock(c, "k", 5000), *waits = new_lock(c, "k", 5000);
    told = 0;
    acquire(lock, 0);
    assert_int_equal(tl_lock_acquire_async(waits, TL_FOREVER, done, NULL, NULL), TL_OK);
    pause_ms(500);
    assert_int_equal(tl_lock_release(lock, NULL), TL_OK);
    await_told(5000);
    assert_int_equal(tl_lock_release(waits, NULL), TL_OK);
    tl_lock_free(lock);
    tl_lock_free(waits);
    tl_client_close(c);
    real_etcd_free(e);
}
