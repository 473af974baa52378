/*
 * Many threads, one client, one lock: what it protects stays exact, whatever the threads do to the
 * client meanwhile.
 */

/*
 * Faults and outcomes (tests/README.md says what is asserted of each):
 * - many threads on one client, cancelled and inspected meanwhile: counted.
 */
#include "arena.h"
#include "client/lock.h"

TESTS_WITH(arena_set_up, arena_tear_down);

#define THREADS 8
#define ROUNDS 40

typedef struct {
    tl_client *client;
    int *counter; /* no atomic: the lock protects it */
    int done;
    tl_err worst;
    uint64_t *last_fence;
    bool fences_rise;
} worker;

static bool round_of(worker *w, tl_lock *lock) {
    w->worst = tl_lock_acquire(lock, 20 * SOON_MS, NULL);
    if (w->worst)
        return false;
    (*w->counter)++;
    w->fences_rise = w->fences_rise && tl_lock_fence(lock) > *w->last_fence;
    *w->last_fence = tl_lock_fence(lock);
    w->worst = tl_lock_release(lock, NULL);
    w->done++;
    return w->worst == TL_OK;
}

static void *work(void *ctx) {
    worker *w = ctx;
    const tl_lock_options options = TL_LOCK_OPTIONS(.ttl_ms = 20000);
    tl_lock *lock = NULL;
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 10 == 0) { /* handles come and go */
            tl_lock_free(lock);
            lock = tl_lock_new(w->client, KEY, sizeof KEY - 1, &options, NULL);
        }
        if (!lock || !round_of(w, lock))
            break;
    }
    tl_lock_free(lock);
    return NULL;
}

TEST(a_plain_number_is_counted_up_exactly_by_many_threads) {
    tl_client *client = make_client(real_redis_url(server));
    int counter = 0;
    uint64_t last_fence = 0;
    pthread_t threads[THREADS];
    worker workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){
            .client = client, .counter = &counter, .last_fence = &last_fence, .fences_rise = true};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        ASSERT_RESULT(workers[i].worst, TL_OK);
        assert_int_equal(workers[i].done, ROUNDS);
        assert_true(workers[i].fences_rise);
    }
    assert_int_equal(counter, THREADS * ROUNDS);
    assert_false(key_exists());
}

/* ---- more threads than connections -------------------------------------------------------------- */

static bool is_waiting(tl_lock *lock) {
    tl__mutex_lock(&lock->client->mutex);
    bool is = lock->waiter != NULL;
    tl__mutex_unlock(&lock->client->mutex);
    return is;
}

static int64_t often(uint32_t attempt, int64_t waited_ms, void *ctx) {
    (void)attempt, (void)waited_ms, (void)ctx;
    return 10;
}

/* One that has a strategy of its own wants a connection of its own, too. */
TEST(a_cancel_ends_the_wait_for_a_connection) {
    tl_pooled *lines[TL_POOLED_MAX];
    tl_client *client = make_client_with(
        TL_CLIENT_OPTIONS(.url = real_redis_url(server), .connect_ms = 60000));
    tl_lock *lock = make_lock_with(
        client, KEY,
        TL_LOCK_OPTIONS(.ttl_ms = AGES_MS, .retry = TL_RETRY_CUSTOM, .retry_next = often));
    for (int i = 0; i < TL_POOLED_MAX; i++) {
        tl_mono now = tl__mono_now();
        lines[i] = tl__pool_take(&client->node, NULL, now, now);
        assert_non_null(lines[i]);
    }
    acquiring *a = acquiring_begin(lock, TL_FOREVER);
    WAIT_FOR(SOON_MS, is_waiting(lock));
    tl_lock_cancel(lock);
    ASSERT_RESULT(acquiring_end(a, SOON_MS), TL_ECANCELLED);
    ASSERT_SAID("cancelled");
    a = acquiring_begin(lock, TL_FOREVER);
    WAIT_FOR(SOON_MS, is_waiting(lock));
    for (int i = 0; i < TL_POOLED_MAX; i++)
        tl__pool_give(lines[i], false);
    ASSERT_RESULT(acquiring_end(a, SOON_MS), TL_OK);
}

/* ---- what any thread may do ------------------------------------------------------------------- */

typedef struct {
    tl_lock *lock;
    tl_client *client;
    atomic_bool *ending;
    int64_t most_ms; /* ever remaining */
    tl_err worst;
} onlooker;

static void *look_on(void *ctx) {
    onlooker *o = ctx;
    while (!atomic_load(o->ending)) {
        int64_t ms = tl_lock_remaining_ms(o->lock);
        o->most_ms = ms > o->most_ms ? ms : o->most_ms;
        (void)tl_lock_state(o->lock);
        (void)tl_lock_fence(o->lock);
        tl_lock_cancel(o->lock);
        tl_lock_info info = {.size = sizeof info};
        tl_err code = tl_client_look(o->client, KEY, sizeof KEY - 1, &info, NULL);
        if (code)
            o->worst = code;
    }
    return NULL;
}

TEST(any_thread_may_look_and_cancel) {
    lock_events *events = make_events();
    tl_client *client = make_client(real_redis_url(server));
    tl_lock *lock = make_lock_with(
        client, KEY,
        TL_LOCK_OPTIONS(.ttl_ms = BRIEF_MS, .on_event = lock_events_add, .ctx = events));
    atomic_bool ending = false;
    pthread_t threads[3];
    onlooker onlookers[3];
    for (int i = 0; i < 3; i++) {
        onlookers[i] = (onlooker){.lock = lock, .client = client, .ending = &ending};
        assert_int_equal(pthread_create(&threads[i], NULL, look_on, &onlookers[i]), 0);
    }
    tl_err worst = TL_OK;
    int held = 0;
    const clock_wait end = clock_wait_begin(700);
    while (clock_wait_more(&end)) {
        tl_err code = tl_lock_acquire(lock, SOON_MS, &said);
        if (code == TL_OK) {
            held++;
            (void)tl_lock_release(lock, NULL);
        } else if (code != TL_ECANCELLED && code != TL_ETIMEDOUT) {
            worst = code;
        }
    }
    atomic_store(&ending, true);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    ASSERT_RESULT(worst, TL_OK);
    for (int i = 0; i < 3; i++) {
        ASSERT_RESULT(onlookers[i].worst, TL_OK);
        assert_true(onlookers[i].most_ms <= BRIEF_MS);
    }
    print_message("held %d times\n", held);
    tl_lock_cancel(lock);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_ECANCELLED);
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
}

TEST(many_locks_are_kept_by_one_client) {
    enum { LOCKS = 40 };
    lock_events *events = make_events();
    tl_client *client = make_client(real_redis_url(server));
    tl_lock *locks[LOCKS];
    for (int i = 0; i < LOCKS; i++) {
        char key[32];
        (void)snprintf(key, sizeof key, "chaos:many:%d", i);
        locks[i] = make_lock_with(
            client, key,
            TL_LOCK_OPTIONS(.ttl_ms = SAFE_MS, .on_event = lock_events_add, .ctx = events));
        ASSERT_RESULT(tl_lock_acquire(locks[i], 0, &said), TL_OK);
    }
    WAIT_FOR(SOON_MS, renewals_of(client) >= LOCKS);
    for (int i = 0; i < LOCKS; i++)
        ASSERT_GOES_ON(locks[i]);
    for (int i = 0; i < LOCKS; i++)
        ASSERT_RESULT(tl_lock_release(locks[i], &said), TL_OK);
    assert_int_equal(lock_events_count_of(events, TL_LOST), 0);
}

int main(void) {
    server = real_redis_start(NULL);
    return tests_run();
}
