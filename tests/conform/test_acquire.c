/*
 * Conformance: a lock from its acquisition to its release, and whom it keeps out meanwhile.
 */
#include <stdio.h>
#include <string.h>

#include "conform.h"

#define TTL_MS 30000

CONFORM(an_acquired_lock_is_held_until_it_is_released, c) {
    tl_lock *lock = conform_lock(c, conform_client(c), TTL_MS);
    assert_int_equal(tl_lock_state(lock), TL_FREE);
    assert_int_equal(tl_lock_fence(lock), 0);
    assert_string_equal(tl_lock_token(lock), "");
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    assert_int_equal(tl_lock_state(lock), TL_HELD);
    assert_in_range(tl_lock_remaining_ms(lock), TTL_MS / 2, TTL_MS);
    assert_true((tl_lock_fence(lock) > 0) == conform_has(c, CONFORM_FENCE));
    assert_in_range(strlen(tl_lock_token(lock)), 1, TL_TOKEN_SIZE - 1);
    assert_int_equal(conform_int(c, "EXISTS %s", c->key), 1);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    assert_int_equal(tl_lock_state(lock), TL_FREE);
    assert_int_equal(tl_lock_remaining_ms(lock), 0);
    assert_int_equal(conform_int(c, "EXISTS %s", c->key), 0);
}

CONFORM(two_clients_never_hold_the_same_lock, c) {
    tl_lock *mine = conform_lock(c, conform_client(c), TTL_MS);
    tl_lock *theirs = conform_lock(c, conform_client(c), TTL_MS);
    for (int i = 0; i < 3; i++) {
        ASSERT_RESULT(tl_lock_acquire(mine, 0, &said), TL_OK);
        ASSERT_RESULT(tl_lock_acquire(theirs, 0, &said), TL_EBUSY);
        ASSERT_SAID(c->key);
        assert_int_equal(said.code, TL_EBUSY);
        assert_int_equal(tl_lock_state(theirs), TL_FREE);
        assert_int_equal(tl_lock_remaining_ms(theirs), 0);
        ASSERT_RESULT(tl_lock_release(mine, &said), TL_OK);
        ASSERT_RESULT(tl_lock_acquire(theirs, 0, &said), TL_OK);
        ASSERT_RESULT(tl_lock_acquire(mine, 0, &said), TL_EBUSY);
        ASSERT_RESULT(tl_lock_release(theirs, &said), TL_OK);
    }
}

CONFORM(an_error_is_untouched_by_success, c) {
    tl_error error = {.code = TL_ECLOCK, .message = "as before"};
    tl_lock *lock = conform_lock(c, conform_client(c), TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &error), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &error), TL_OK);
    assert_int_equal(error.code, TL_ECLOCK);
    assert_string_equal(error.message, "as before");
    assert_int_equal(tl_lock_release(lock, NULL), TL_EINVALID);
}

/* ---- threads ----------------------------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 25 };

typedef struct {
    tl_lock *lock;
    int *counter; /* no atomic: the lock protects it */
    tl_err worst;
} worker;

static void *count_up(void *ctx) {
    worker *w = ctx;
    for (int i = 0; i < ROUNDS && w->worst == TL_OK; i++) {
        w->worst = tl_lock_acquire(w->lock, 30000, NULL);
        if (w->worst == TL_OK) {
            (*w->counter)++;
            w->worst = tl_lock_release(w->lock, NULL);
        }
    }
    return NULL;
}

CONFORM(threads_of_one_client_exclude_each_other, c) {
    tl_client *client = conform_client(c);
    int counter = 0;
    pthread_t threads[THREADS];
    worker workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){conform_lock(c, client, TTL_MS), &counter, TL_OK};
        assert_int_equal(pthread_create(&threads[i], NULL, count_up, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < THREADS; i++)
        ASSERT_RESULT(workers[i].worst, TL_OK);
    assert_int_equal(counter, THREADS * ROUNDS);
}

/* ---- handles ----------------------------------------------------------------------------------- */

CONFORM(locks_of_one_client_are_independent, c) {
    tl_client *client = conform_client(c);
    char other_key[96];
    (void)snprintf(other_key, sizeof other_key, "%s:other", c->key);
    tl_lock *one = conform_lock(c, client, TTL_MS);
    tl_lock *other = make_lock(client, other_key, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(one, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(one, &said), TL_OK);
    assert_int_equal(tl_lock_state(other), TL_HELD);
    assert_int_equal(conform_int(c, "EXISTS %s", other_key), 1);
    ASSERT_RESULT(tl_lock_release(other, &said), TL_OK);
}

CONFORM(two_handles_of_one_client_exclude_each_other, c) {
    tl_client *client = conform_client(c);
    tl_lock *one = conform_lock(c, client, TTL_MS), *two = conform_lock(c, client, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(one, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_acquire(two, 0, &said), TL_EBUSY);
    ASSERT_RESULT(tl_lock_release(one, &said), TL_OK);
    ASSERT_RESULT(tl_lock_acquire(two, 0, &said), TL_OK);
}

CONFORM(a_held_handle_refuses_to_acquire_again, c) {
    tl_lock *lock = conform_lock(c, conform_client(c), TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_EINVALID);
    ASSERT_SAID("holds it already");
    assert_int_equal(tl_lock_state(lock), TL_HELD);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

CONFORM_OF(each_acquisition_has_a_token_of_its_own, c, CONFORM_OWN_TOKEN) {
    tl_lock *lock = conform_lock(c, conform_client(c), TTL_MS);
    char token[TL_TOKEN_SIZE];
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    (void)snprintf(token, sizeof token, "%s", tl_lock_token(lock));
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    assert_string_equal(tl_lock_token(lock), token);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    assert_string_not_equal(tl_lock_token(lock), token);
}

CONFORM_OF(a_lock_freed_while_held_stays_until_its_time_is_up, c, CONFORM_EXPIRY) {
    const int64_t ttl_ms = clock_patient_ms(6000);
    tl_lock *lock = conform_lock(c, conform_client(c), ttl_ms);
    tl_lock *next = conform_lock(c, conform_client(c), TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    int64_t began = clock_ms();
    int64_t left = tl_lock_remaining_ms(lock);
    drop_lock(lock);
    assert_int_equal(conform_int(c, "EXISTS %s", c->key), 1);
    ASSERT_RESULT(tl_lock_acquire(next, 0, &said), TL_EBUSY);
    ASSERT_RESULT(tl_lock_acquire(next, SOON_MS, &said), TL_OK);
    ASSERT_TOOK(began, left, ttl_ms);
}

CONFORM_OF(a_lost_lock_can_be_acquired_again, c, CONFORM_SHORT) {
    lock_events *events = make_events();
    tl_lock *lock = conform_lock_with(
        c, conform_client(c),
        TL_LOCK_OPTIONS(.ttl_ms = LASTING_MS, .on_event = lock_events_add, .ctx = events));
    for (int i = 0; i < 2; i++) {
        int seen = lock_events_count(events);
        lock_event lost;
        ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
        assert_int_equal(tl_lock_state(lock), TL_HELD);
        conform_do(c, "DEL %s", c->key);
        WAIT_FOR(SOON_MS, lock_events_find(events, seen, TL_LOST, &lost));
        assert_int_equal(lost.why, TL_LOST_GONE);
        assert_int_equal(tl_lock_state(lock), TL_LOST);
        assert_int_equal(tl_lock_remaining_ms(lock), 0);
    }
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

CONFORM_OF(acquiring_and_releasing_take_two_commands, c, CONFORM_RUNTIME) {
    tl_lock *lock = conform_lock(c, conform_client(c), TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK); /* connects, and loads what it needs */
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    uint64_t before = conform_count(c);
    for (int i = 0; i < 10; i++) {
        ASSERT_RESULT(tl_lock_acquire(lock, i % 2 ? SOON_MS : 0, &said), TL_OK);
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    }
    /* a take by native commands is five of them in one request, for a second from each by script on; a machine that is slow sees
     * some renewals, too */
    assert_in_range(conform_count(c) - before, 20, 70);
}

/* What the keeper still asks, after a release, is answered. */
static void await_quiet(conform *c) {
    for (uint64_t count = UINT64_MAX, now; (now = conform_count(c)) != count; count = now) {
        const clock_wait moment = clock_wait_begin(100);
        while (clock_wait_more(&moment)) {}
    }
}

CONFORM_OF(closing_a_client_undoes_what_it_left_unanswered, c, CONFORM_CLEANING) {
    const int64_t attempt_ms = clock_patient_ms(5000); /* and for the clean-up */
    proxy *p = conform_proxy(c);
    tl_client *client = conform_client_with(
        c, TL_CLIENT_OPTIONS(.url = proxy_url(p), .attempt_ms = attempt_ms,
                             .legacy = &TL_LEGACY_OPTIONS(
                                     .clock_guard =
                                         TL_GUARD_OFF))); /* which would ask the time first */
    tl_lock *lock = conform_lock_with(c, client,
                                      TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .manual_renew = true));
    for (;;) {
        ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said),
                      TL_OK); /* learns all that there is to know first */
        int64_t heard = clock_ms();
        tl_err code = tl_lock_release(lock, &said);
        if (code != TL_EUNCERTAIN) /* no answer in time: it is released all the same */
            ASSERT_RESULT(code, TL_OK);
        WAIT_FOR(SOON_MS, conform_int(c, "EXISTS %s", c->key) == 0);
        await_quiet(c);
        proxy_break(p, PROXY_REPLIES, 0, PROXY_MUTE, 1); /* the take's, on the connection we have */
        code = tl_lock_acquire(lock, 0, &said);
        if (code == TL_EUNCERTAIN || !WAS_IDLE(heard, code == TL_OK ? 0 : attempt_ms)) {
            ASSERT_RESULT(code, TL_EUNCERTAIN);
            break;
        }
        proxy_heal(p);
        if (code == TL_OK)
            (void)tl_lock_release(lock, &said);
    }
    assert_int_equal(proxy_struck(p), 1);
    assert_int_equal(tl_lock_state(lock), TL_FREE);
    drop_lock(lock);
    int64_t began = clock_ms();
    drop_client(client);
    ASSERT_TOOK(began, 0, attempt_ms);
    assert_int_equal(conform_int(c, "EXISTS %s", c->key), 0);
    ASSERT_RESULT(tl_lock_acquire(conform_lock(c, conform_client(c), TTL_MS), 0, &said), TL_OK);
}

/* ---- keys -------------------------------------------------------------------------------------- */

static void hold_and_release(conform *c, const void *key, size_t n) {
    tl_client *mine = conform_client(c), *theirs = conform_client(c);
    tl_lock *lock = make_lock_n(mine, key, n, TL_LOCK_OPTIONS(0));
    tl_lock *other = make_lock_n(theirs, key, n, TL_LOCK_OPTIONS(0));
    tl_lock_info info = {.size = sizeof info};
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_EBUSY);
    assert_int_equal(conform_int(c, "EXISTS %b", key, n), 1);
    ASSERT_RESULT(tl_lock_extend(lock, 40000, &said), TL_OK); /* which tells who has it */
    ASSERT_RESULT(tl_client_look(theirs, key, n, &info, &said), TL_OK);
    assert_true(info.held && info.by_tidelock);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    assert_int_equal(conform_int(c, "EXISTS %b", key, n), 0);
    (void)locks_clean_up(NULL);
}

CONFORM_OF(a_key_may_have_any_bytes, c, CONFORM_RENEWAL | CONFORM_SCRIPTS) {
    char all[256];
    for (int i = 0; i < 256; i++)
        all[i] = (char)i;
    hold_and_release(c, all, sizeof all);
    hold_and_release(c, "\0", 1);
    hold_and_release(c, "line\r\nline", 10);
    hold_and_release(c, "*1\r\n$4\r\nPING\r\n", 14);
    hold_and_release(c, " ", 1);
    hold_and_release(c, "%s%n%d", 6);
}

CONFORM_OF(a_key_may_have_16384_bytes, c, CONFORM_RENEWAL | CONFORM_SCRIPTS) {
    static char key[TL_KEY_MAX];
    memset(key, 'k', sizeof key);
    hold_and_release(c, key, sizeof key);
}

CONFORM_OF(a_key_may_have_hash_tags, c, CONFORM_RENEWAL | CONFORM_SCRIPTS) {
    static const char *const keys[] = {"{tag}rest", "a{tag}b{c}", "{}empty", "a}b",
                                       "a{b",       "}{",         "{{x}}",   "tidelock:{k}"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        hold_and_release(c, keys[i], strlen(keys[i]));
}

CONFORM_MAIN
