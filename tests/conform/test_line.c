/*
 * Conformance: the waiting line. Who waits with tokens is served in the order in which the server saw it, over
 * processes; a process stands there once, and what it leaves behind holds nobody up.
 * timeout: 240
 */
#include <sched.h>
#include <stdio.h>

#include "conform.h"

#define TTL_MS 30000
#define LINES (CONFORM_FENCE | CONFORM_RUNTIME)

static long long length(conform *c) {
    return conform_int(c, "ZCARD tidelock:{%s}:line", c->key);
}

static tl_lock *held(conform *c) {
    tl_lock *lock = conform_lock(c, conform_client(c), TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    return lock;
}

static acquiring *join(conform *c, tl_lock *lock, int64_t wait_ms, int n) {
    acquiring *a = acquiring_begin(lock, wait_ms);
    WAIT_FOR(SOON_MS, length(c) == n);
    return a;
}

static tl_lock *fair_lock(conform *c, tl_client *client) {
    return conform_lock_with(c, client, TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .fair = true));
}

/* They come in this order, one after the other, with rising numbers. */
static void come_in_order(conform *c, acquiring *const *a, int count, uint64_t fence) {
    for (int i = 0; i < count; i++) {
        ASSERT_RESULT(acquiring_end(a[i], SOON_MS), TL_OK);
        for (int j = i + 1; j < count; j++)
            assert_false(atomic_load(&a[j]->done));
        assert_true(tl_lock_fence(a[i]->lock) > fence);
        fence = tl_lock_fence(a[i]->lock);
        ASSERT_RESULT(tl_lock_release(a[i]->lock, &said), TL_OK);
    }
    assert_true(conform_holds(c, c->key, NULL));
    assert_int_equal(length(c), 0);
}

CONFORM_OF(fair_waiters_come_in_the_order_of_their_joining, c, LINES) {
    conform_needs_server(c, REAL_LINE);
    enum { WAITERS = 6 };
    tl_lock *holder = held(c);
    tl_client *clients[] = {conform_client(c), conform_client(c)};
    acquiring *a[WAITERS];
    for (int i = 0; i < WAITERS; i++) /* threads of one and of the other, mixed */
        a[i] = join(c, fair_lock(c, clients[i / 2 % 2]), TL_FOREVER, i + 1);
    ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
    come_in_order(c, a, WAITERS, tl_lock_fence(holder));
}

CONFORM_OF(processes_come_in_the_order_of_their_joining, c, LINES) {
    conform_needs_server(c, REAL_LINE);
    enum { WAITERS = 5 };
    tl_lock *holder = held(c);
    acquiring *a[WAITERS];
    for (int i = 0; i < WAITERS; i++)
        a[i] = join(c, conform_lock(c, conform_client(c), TTL_MS), TL_FOREVER, i + 1);
    ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
    come_in_order(c, a, WAITERS, tl_lock_fence(holder));
}

CONFORM_OF(who_waits_no_longer_stands_there_no_longer, c, LINES) {
    conform_needs_server(c, REAL_LINE);
    tl_lock *holder = held(c);
    acquiring *b = join(c, fair_lock(c, conform_client(c)), TL_FOREVER, 1);
    tl_lock *lock = conform_lock(c, conform_client(c), TTL_MS);
    tl_err code = TL_OK;
    bool stood = false;
    /* Its limit may come before it stands there, or cut its last look short: then it waits for twice as long. */
    for (int64_t ms = 300; ms <= SOON_MS && (!stood || code != TL_ETIMEDOUT); ms *= 2) {
        acquiring *a = acquiring_begin(lock, ms);
        WAIT_FOR(2 * SOON_MS, (stood = length(c) == 2) || atomic_load(&a->done));
        code = acquiring_end(a, 2 * SOON_MS);
        assert_true(code == TL_ETIMEDOUT || code == TL_EUNCERTAIN || code == TL_EUNAVAILABLE);
        WAIT_FOR(SOON_MS, length(c) == 1);
    }
    assert_true(stood && code == TL_ETIMEDOUT);
    tl_lock_cancel(b->lock);
    ASSERT_RESULT(acquiring_end(b, SOON_MS), TL_ECANCELLED);
    WAIT_FOR(SOON_MS, length(c) == 0);
    ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
    assert_true(conform_holds(c, c->key, NULL));
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
}

/* ---- how much it costs, and whom ---------------------------------------------------------------- */

#define PASSES 49
/* Those that are passed on, one hold, and what two round trips bring in before it stands there. */
#define OTHERS_JUST (11 * (PASSES + 1))

typedef struct {
    tl_lock *lock;
    pthread_t thread;
    atomic_bool *stop;
    atomic_int *inside; /* who holds it now */
    atomic_llong *holds;
    long long others_most; /* holds of others while it waited, at most, */
    int beyond;            /* and how often more than is just */
    int done, faults;
} worker;

static void *work(void *ctx) {
    worker *w = ctx;
    while (!atomic_load(w->stop)) {
        long long before = atomic_load(w->holds);
        if (tl_lock_acquire(w->lock, 60000, NULL)) {
            w->faults++;
            continue;
        }
        w->faults += atomic_fetch_add(w->inside, 1) != 0;
        long long others = atomic_fetch_add(w->holds, 1) - before;
        if (w->done > 2) { /* it has its inbox by then */
            w->others_most = others > w->others_most ? others : w->others_most;
            w->beyond += others > OTHERS_JUST;
        }
        w->done++;
        (void)sched_yield();
        w->faults += atomic_fetch_sub(w->inside, 1) != 1;
        w->faults += tl_lock_release(w->lock, NULL) != TL_OK;
    }
    return NULL;
}

/* Until there were so many holds in all. */
static void work_all(worker *workers, int count, long long holds) {
    atomic_bool stop = false;
    atomic_int inside = 0;
    atomic_llong had = 0;
    for (int i = 0; i < count; i++) {
        workers[i].stop = &stop;
        workers[i].inside = &inside;
        workers[i].holds = &had;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    const clock_wait bound = clock_wait_begin(12 * SOON_MS);
    while (atomic_load(&had) < holds && clock_wait_more(&bound)) {}
    long long counted = atomic_load(&had);
    atomic_store(&stop, true);
    for (int i = 0; i < count; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        assert_int_equal(workers[i].faults, 0);
    }
    assert_true(counted >= holds);
}

CONFORM_OF(waiting_costs_few_requests_and_everybody_has_a_share, c, LINES) {
    conform_needs_server(c, REAL_LINE);
    enum { WORKERS = 10, HOLDS = 600 };
    worker workers[WORKERS] = {{0}};
    for (int i = 0; i < WORKERS; i++)
        workers[i].lock = i % 3 == 0 ? fair_lock(c, conform_client(c))
                                     : conform_lock(c, conform_client(c), TTL_MS);
    uint64_t before = conform_count(c);
    const int64_t began = clock_ms();
    work_all(workers, WORKERS, HOLDS);
    const uint64_t seconds = (uint64_t)(clock_ms() - began) / 1000;
    uint64_t asked = conform_count(c) - before;
    int holds = 0;
    for (int i = 0; i < WORKERS; i++) {
        holds += workers[i].done;
        assert_true(workers[i].done > 0);
    }
    /* a joining and a release; renewals, logins and looks of a slow machine are on top */
    assert_in_range(asked, 2 * (uint64_t)holds - WORKERS,
                    3 * (uint64_t)holds + 20 * WORKERS + seconds * WORKERS);
}

CONFORM_OF(threads_of_one_process_do_not_starve_another, c, LINES) {
    conform_needs_server(c, REAL_LINE);
    enum { THREADS = 16 };
    worker workers[THREADS + 1] = {{0}};
    tl_client *crowd = conform_client(c);
    for (int i = 0; i < THREADS; i++)
        workers[i].lock = conform_lock(c, crowd, TTL_MS);
    workers[THREADS].lock = conform_lock(c, conform_client(c), TTL_MS);
    work_all(workers, THREADS + 1, 3000);
    /* A machine that stops it before it stands there lets more of them pass, now and then; starved it would see nearly all of them
     * pass. */
    const worker *one = &workers[THREADS];
    print_message("%d holds, past it %lld at most\n", one->done, one->others_most);
    assert_true(one->done > 10);
    assert_true(one->beyond <= one->done / 4);
}

CONFORM_MAIN
