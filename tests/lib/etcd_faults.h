/*
 * What the tests of faults of an etcd have in common.
 */
#pragma once

#include "tests.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tidelock/inspect.h>
#include <tidelock/tidelock.h>
#include <time.h>
#include <unistd.h>

#include "real_etcd.h"

static inline int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static inline void pause_ms(long ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

#define ENOUGH_MS 60000 /* a bound that only what hangs reaches, however busy the machine */

/* Its limits are reached by faults alone, where they aren't given. */
static inline tl_client *open_with(tl_client_options o) {
    tl_client *c;
    tl_error err;
    o.attempt_ms = o.attempt_ms ? o.attempt_ms : ENOUGH_MS / 2;
    o.connect_ms = o.connect_ms ? o.connect_ms : ENOUGH_MS / 2;
    if (tl_client_open(&o, &c, &err))
        fail_msg("%s", err.message);
    return c;
}

static inline tl_lock *new_lock(tl_client *c, const char *key, int64_t ttl_ms) {
    const tl_lock_options o = TL_LOCK_OPTIONS(.ttl_ms = ttl_ms);
    tl_lock *lock = tl_lock_new(c, key, strlen(key), &o, NULL);
    assert_non_null(lock);
    return lock;
}

static inline void acquire(tl_lock *lock, int64_t wait_ms) {
    tl_error err;
    if (tl_lock_acquire(lock, wait_ms, &err))
        fail_msg("%s", err.message);
}

/* By the keeper. A renewal may fail, as long as the lock is held. */
static inline void await_renewal(const tl_lock *lock) {
    int64_t end = now_ms() + ENOUGH_MS, left = tl_lock_remaining_ms(lock);
    for (; now_ms() < end && tl_lock_remaining_ms(lock) <= left; pause_ms(10)) {
        left = tl_lock_remaining_ms(lock);
        assert_int_not_equal(tl_lock_state(lock), TL_LOST);
    }
    assert_true(now_ms() < end);
}

/* All members, this one first: so that requests go there. */
static inline const char *url_from(const real_etcd *e, unsigned first) {
    static char url[300];
    (void)snprintf(url, sizeof url, "%s", real_etcd_url_of(e, first));
    for (unsigned i = 0; i < 3; i++)
        if (i != first)
            (void)snprintf(url + strlen(url), sizeof url - strlen(url), ",%s",
                           strstr(real_etcd_url_of(e, i), "127"));
    return url;
}

/* Held for so long, and the key there, whatever happens. */
static inline void assert_held_for(tl_lock *lock, tl_client *looks, const char *key, int64_t ms) {
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

/* So that a test that fails by a loss says why: the log of the client that holds, and the loss. */
static inline void print_log(tl_log_level level, const char *line, void *ctx) {
    (void)level, (void)ctx;
    (void)fprintf(stderr, "%lld ms: %s\n", (long long)now_ms(), line);
}
static inline void print_loss(tl_lock *lock, const tl_lock_event *event, void *ctx) {
    (void)lock;
    if (event->state == TL_LOST)
        print_log(TL_LOG_WARNING, event->detail, ctx);
}

/* The leader is stopped for longer than a lifetime, while requests are queued at it: the holder's, and of one who tries. What
 * was queued is carried out, or answered, when it is woken, and harms nobody. */
static inline void etcd_stop_and_wake_the_leader(real_etcd *e, int64_t ttl_ms) {
    unsigned leader = real_etcd_leader(e);
    tl_client *c = open_with(
        TL_CLIENT_OPTIONS(.url = url_from(e, leader), .attempt_ms = 2000, .log = print_log));
    tl_client *tries = open_with(TL_CLIENT_OPTIONS(.url = real_etcd_url_of(e, leader),
                                                   .attempt_ms = 500, .connect_ms = 500));
    tl_client *looks = open_with(
        TL_CLIENT_OPTIONS(.url = url_from(e, (leader + 1) % 3), .attempt_ms = 2000));
    const tl_lock_options o = TL_LOCK_OPTIONS(.ttl_ms = ttl_ms, .on_event = print_loss);
    tl_lock *lock = tl_lock_new(c, "k", 1, &o, NULL), *other = new_lock(tries, "k", ttl_ms);
    assert_non_null(lock);
    acquire(lock, ENOUGH_MS);
    (void)tl_lock_acquire(other, 0, NULL); /* connects, so that its next request is sent */
    real_etcd_freeze(e, leader);
    for (int64_t end = now_ms() + ttl_ms + 1500; now_ms() < end;) {
        assert_int_not_equal(tl_lock_acquire(other, 0, NULL), TL_OK); /* queued there */
        assert_held_for(lock, looks, "k", 100);
    }
    real_etcd_thaw(e, leader);
    assert_held_for(lock, looks, "k", ttl_ms / 2);
    assert_int_equal(tl_lock_release(lock, NULL), TL_OK);
    tl_lock_free(lock);
    tl_lock_free(other);
    tl_client_close(c);
    tl_client_close(tries);
    tl_client_close(looks);
}

/* ---- who is told ------------------------------------------------------------------------------- */

static atomic_int told;
static tl_err told_code;

static inline void done(tl_lock *lock, tl_err code, const tl_error *err, void *ctx) {
    (void)lock, (void)err, (void)ctx;
    told_code = code;
    atomic_fetch_add(&told, 1);
}

static inline void await_told(int64_t ms) {
    for (int64_t end = now_ms() + ms; now_ms() < end && told == 0; pause_ms(5))
        ;
    assert_int_equal(told, 1);
}
