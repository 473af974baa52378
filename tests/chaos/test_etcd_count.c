/*
 * Locks on an etcd of three members, which are killed, stopped and woken: those who hold one are counted.
 *
 * timeout: 180
 */

/*
 * Faults and outcomes (tests/README.md says what is asserted of each):
 * - members killed, stopped and resumed: counted by four clients.
 */
#include <pthread.h>

#include "etcd_faults.h"

typedef struct {
    const real_etcd *etcd;
    unsigned first;
    int acquired;
    _Atomic(tl_lock *) at_work;
} worker;

enum { N = 4 };
static worker workers[N];
static atomic_int twice, backwards, in_all;
static atomic_bool stopping;
static _Atomic uint64_t last_fence;
static pthread_mutex_t fences = PTHREAD_MUTEX_INITIALIZER;

/* Who works beside one who holds the lock holds none: or is only late to find out, and believes in nothing by then. */
static void look_beside(const worker *w, const tl_lock *lock) {
    for (const worker *other = workers; other < workers + N; other++) {
        const tl_lock *its = other == w ? NULL : atomic_load(&other->at_work);
        twice += its && tl_lock_remaining_ms(its) > 0 && tl_lock_remaining_ms(lock) > 0;
    }
}

/* Work only while it is believed. */
static void work(worker *w, tl_lock *lock) {
    pthread_mutex_lock(&fences);
    bool believed = tl_lock_remaining_ms(lock) > 0;
    if (believed) {
        backwards += tl_lock_fence(lock) <= last_fence;
        last_fence = tl_lock_fence(lock);
    }
    pthread_mutex_unlock(&fences);
    for (int i = 0; i < 5 && tl_lock_remaining_ms(lock) > 0; i++) {
        atomic_store(&w->at_work, lock);
        look_beside(w, lock);
        pause_ms(2);
        atomic_store(&w->at_work, NULL);
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
        in_all++;
        work(w, lock);
        (void)tl_lock_release(lock, NULL);
    }
    tl_lock_free(lock);
    tl_client_close(c);
    return NULL;
}

TEST(never_two_at_once_and_no_fence_goes_back_whatever_happens_to_the_members) {
    real_etcd *e = real_etcd_start(3);
    pthread_t thread[N];
    worker *w = workers;
    for (unsigned i = 0; i < N; i++) {
        w[i].etcd = e;
        w[i].first = i % 3;
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
    for (int64_t end = now_ms() + 4 * ENOUGH_MS; now_ms() < end && in_all <= 50;)
        pause_ms(50);
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
