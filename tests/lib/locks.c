/*
 * What tests of the public face share.
 */
#include "locks.h"

#include <stdio.h>
#include <string.h>

#define OWNED_MAX 512

/* Not on the stack of a test, which a failure leaves while threads still look at them. */
static tl_client *clients[OWNED_MAX];
static tl_lock *locks[OWNED_MAX];
static acquiring acquirings[OWNED_MAX];
static lock_events events[OWNED_MAX];
static int client_count, lock_count, acquiring_count, events_count;

tl_error said;

/* ---- clients and locks ------------------------------------------------------------------------- */

tl_client *make_client_with(tl_client_options options) {
    assert_true(client_count < OWNED_MAX);
    if (options.attempt_ms == 0)
        options.attempt_ms = SOON_MS;
    if (options.connect_ms == 0)
        options.connect_ms = SOON_MS;
    ASSERT_RESULT(tl_client_open(&options, &clients[client_count], &said), TL_OK);
    return clients[client_count++];
}

tl_client *make_client(const char *url) {
    return make_client_with(TL_CLIENT_OPTIONS(.url = url));
}

tl_lock *make_lock_n(tl_client *client, const void *key, size_t n, tl_lock_options options) {
    assert_true(lock_count < OWNED_MAX);
    tl_lock *lock = tl_lock_new(client, key, n, &options, &said);
    if (!lock)
        fail_msg("tl_lock_new: %s", said.message);
    locks[lock_count++] = lock;
    return lock;
}

tl_lock *make_lock_with(tl_client *client, const char *key, tl_lock_options options) {
    return make_lock_n(client, key, strlen(key), options);
}

tl_lock *make_lock(tl_client *client, const char *key, int64_t ttl_ms) {
    return make_lock_with(client, key, TL_LOCK_OPTIONS(.ttl_ms = ttl_ms));
}

uint64_t renewals_of(tl_client *client) {
    tl_stats s = {.size = sizeof s};
    ASSERT_RESULT(tl_client_stats(client, &s, &said), TL_OK);
    return s.renewals;
}

void drop_lock(tl_lock *lock) {
    for (int i = 0; i < lock_count; i++)
        if (locks[i] == lock)
            locks[i] = locks[--lock_count];
    tl_lock_free(lock);
}

void drop_client(tl_client *client) {
    for (int i = 0; i < client_count; i++)
        if (clients[i] == client)
            clients[i] = clients[--client_count];
    tl_client_close(client);
}

/* A test that failed half-way may have left a thread in a wait. */
static void stop(acquiring *a) {
    while (a->running && !atomic_load(&a->done)) {
        const clock_wait moment = clock_wait_begin(1);
        tl_lock_cancel(a->lock);
        (void)clock_wait_more(&moment);
    }
    if (a->running)
        (void)pthread_join(a->thread, NULL);
    a->running = false;
}

int locks_clean_up(void **state) {
    (void)state;
    while (acquiring_count > 0)
        stop(&acquirings[--acquiring_count]);
    while (lock_count > 0)
        tl_lock_free(locks[--lock_count]);
    while (client_count > 0)
        tl_client_close(clients[--client_count]);
    while (events_count > 0)
        (void)pthread_mutex_destroy(&events[--events_count].mutex);
    return 0;
}

/* ---- results ----------------------------------------------------------------------------------- */

void locks__result(tl_err got, tl_err expected, const char *call, const char *file, int line) {
    if (got != expected) {
        print_error("%s is %s, not %s; said last: %s\n", call, tl_err_name(got),
                    tl_err_name(expected), said.message);
        _fail(file, line);
    }
}

void locks__said(const char *words, const char *file, int line) {
    if (strstr(said.message, words) && !strpbrk(said.message, "\r\n"))
        return;
    print_error("\"%s\" is not in one line: \"%s\"\n", words, said.message);
    _fail(file, line);
}

tl_err acquire_to_limit(tl_lock *lock, int64_t wait_ms) {
    tl_err code = TL_EUNCERTAIN;
    for (; wait_ms <= SOON_MS && (code == TL_EUNCERTAIN || code == TL_EUNAVAILABLE); wait_ms *= 2) {
        int64_t began = clock_ms();
        code = tl_lock_acquire(lock, wait_ms, &said);
        ASSERT_TOOK(began, wait_ms - 1, wait_ms);
        assert_true(code == TL_OK || tl_lock_state(lock) == TL_FREE);
    }
    return code;
}

/* ---- events ------------------------------------------------------------------------------------ */

lock_events *make_events(void) {
    assert_true(events_count < OWNED_MAX);
    lock_events *e = &events[events_count++];
    e->count = 0;
    assert_int_equal(pthread_mutex_init(&e->mutex, NULL), 0);
    return e;
}

void lock_events_add(tl_lock *lock, const tl_lock_event *event, void *ctx) {
    lock_events *e = ctx;
    int64_t now_us = clock_us();
    (void)lock;
    (void)pthread_mutex_lock(&e->mutex);
    if (e->count < LOCK_EVENTS_MAX) {
        lock_event *to = &e->event[e->count++];
        *to = (lock_event){.state = event->state,
                           .why = event->why,
                           .remaining_ms = event->remaining_ms,
                           .at_us = now_us,
                           .stolen = event->stolen,
                           .thief_ahead_ms = event->thief_ahead_ms};
        (void)snprintf(to->detail, sizeof to->detail, "%s", event->detail);
    }
    (void)pthread_mutex_unlock(&e->mutex);
}

int lock_events_count(lock_events *e) {
    (void)pthread_mutex_lock(&e->mutex);
    int n = e->count;
    (void)pthread_mutex_unlock(&e->mutex);
    return n;
}

bool lock_events_find(lock_events *e, int from, tl_state state, lock_event *ret) {
    bool found = false;
    (void)pthread_mutex_lock(&e->mutex);
    for (int i = from; i < e->count && !found; i++) {
        found = e->event[i].state == state;
        *ret = e->event[i];
    }
    (void)pthread_mutex_unlock(&e->mutex);
    return found;
}

int lock_events_count_of(lock_events *e, tl_state state) {
    int n = 0;
    (void)pthread_mutex_lock(&e->mutex);
    for (int i = 0; i < e->count; i++)
        n += e->event[i].state == state;
    (void)pthread_mutex_unlock(&e->mutex);
    return n;
}

lock_event lock_events_await(lock_events *e, tl_state state, int64_t bound_ms) {
    lock_event found = {0};
    WAIT_FOR(bound_ms, lock_events_find(e, 0, state, &found));
    return found;
}

lock_event lock_events_await_risk_or_loss(lock_events *e, int64_t bound_ms) {
    lock_event found = {0};
    WAIT_FOR(bound_ms,
             lock_events_find(e, 0, TL_AT_RISK, &found) || lock_events_find(e, 0, TL_LOST, &found));
    return found;
}

/* ---- acquiring on another thread --------------------------------------------------------------- */

static void *acquire(void *ctx) {
    acquiring *a = ctx;
    a->code = tl_lock_acquire(a->lock, a->wait_ms, &a->err);
    a->ended_us = clock_us();
    atomic_store(&a->done, true);
    return NULL;
}

acquiring *acquiring_begin(tl_lock *lock, int64_t wait_ms) {
    assert_true(acquiring_count < OWNED_MAX);
    acquiring *a = &acquirings[acquiring_count];
    *a = (acquiring){.lock = lock, .wait_ms = wait_ms, .began_ms = clock_ms(), .running = true};
    assert_int_equal(pthread_create(&a->thread, NULL, acquire, a), 0);
    acquiring_count++;
    return a;
}

tl_err acquiring_end(acquiring *a, int64_t bound_ms) {
    WAIT_FOR(bound_ms, atomic_load(&a->done));
    assert_int_equal(pthread_join(a->thread, NULL), 0);
    a->running = false;
    said = a->err;
    return a->code;
}
