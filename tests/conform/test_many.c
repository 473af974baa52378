/*
 * Conformance: many locks held at once are renewed in a few requests, each in time.
 *
 * timeout: 180
 */
#include "conform.h"

#include <string.h>

#define LOCKS 200
#define TTL_MS LASTING_MS
#define SOME 50
#define ILL 7                            /* of those */
#define LOSING_MS clock_patient_ms(6000) /* to be waited out */
#define LONG_MS 60000
#define BATCH 100 /* locks that one request renews at most */

static tl_lock *lock_number(conform *c, tl_client *client, int i) {
    char key[96];
    (void)snprintf(key, sizeof key, "%s:%d", c->key, i);
    const tl_lock_options options = TL_LOCK_OPTIONS(.ttl_ms = TTL_MS);
    tl_lock *lock = tl_lock_new(client, key, strlen(key), &options, &said);
    assert_non_null(lock);
    return lock;
}

static void take_all(conform *c, tl_client *client, tl_lock **locks) {
    for (int i = 0; i < LOCKS; i++) {
        locks[i] = lock_number(c, client, i);
        ASSERT_RESULT(tl_lock_acquire(locks[i], 0, &said), TL_OK);
    }
}

/* That they were kept has been seen; one may run out between the look and its release. */
static void release_all(tl_lock **locks) {
    for (int i = 0; i < LOCKS; i++) {
        tl_err code = tl_lock_remaining_ms(locks[i]) > 0 ? tl_lock_release(locks[i], &said) : TL_OK;
        if (code != TL_EEXPIRED)
            ASSERT_RESULT(code, TL_OK);
        tl_lock_free(locks[i]);
    }
}

/* At risk too, for a moment, when a renewal is late. */
static int count_kept(tl_lock **locks) {
    int n = 0;
    for (int i = 0; i < LOCKS; i++)
        n += tl_lock_remaining_ms(locks[i]) > 0;
    return n;
}

static void let_pass(int64_t ms) {
    const clock_wait wait = clock_wait_begin(ms);
    while (clock_wait_more(&wait)) {}
}

/* As many as there are locks: about one of each, since a lock isn't renewed twice before all have been. */
static void await_renewals(tl_client *client, uint64_t more) {
    const uint64_t before = renewals_of(client);
    WAIT_FOR(SOON_MS, renewals_of(client) >= before + more);
}

CONFORM_OF(many_locks_are_renewed_together_and_all_stay_held, c,
           CONFORM_RENEWAL | CONFORM_FENCE | CONFORM_RUNTIME) {
    tl_client *client = conform_client(c);
    tl_lock *locks[LOCKS];
    take_all(c, client, locks);
    uint64_t before = conform_count(c);
    await_renewals(client, 2 * LOCKS);
    uint64_t asked = conform_count(c) - before;
    /* Where they are due together in one request: fewer than alone. */
    assert_in_range(asked, 2 * LOCKS / BATCH, 2 * LOCKS - 1);
    for (int i = 0; i < LOCKS; i++) {
        ASSERT_GOES_ON(locks[i]);
        WAIT_FOR(SOON_MS, tl_lock_remaining_ms(locks[i]) > TTL_MS / 3);
    }
    print_message("%d locks, two renewals of each: %d requests\n", LOCKS, (int)asked);
    release_all(locks);
}

CONFORM_OF(of_many_only_those_whose_keys_are_gone_are_lost, c, CONFORM_RENEWAL | CONFORM_RUNTIME) {
    tl_client *client = conform_client(c);
    tl_lock *locks[LOCKS];
    take_all(c, client, locks);
    for (int i = 0; i < LOCKS; i += 10)
        conform_do(c, "DEL %s:%d", c->key, i);
    WAIT_FOR(SOON_MS, count_kept(locks) == LOCKS - LOCKS / 10);
    await_renewals(client, LOCKS - LOCKS / 10);
    for (int i = 0; i < LOCKS; i++)
        if (i % 10 == 0)
            assert_int_equal(tl_lock_state(locks[i]), TL_LOST);
        else
            ASSERT_GOES_ON(locks[i]);
    release_all(locks);
}

CONFORM_OF(many_are_kept_by_a_server_that_forgets_its_scripts, c,
           CONFORM_RENEWAL | CONFORM_RUNTIME) {
    tl_client *client = conform_client(c);
    tl_lock *locks[LOCKS];
    take_all(c, client, locks);
    const uint64_t before = renewals_of(client);
    for (int i = 0; i < 10; i++) {
        conform_do(c, "SCRIPT FLUSH");
        let_pass(TTL_MS / 20);
    }
    WAIT_FOR(SOON_MS, renewals_of(client) >= before + 2 * LOCKS);
    assert_int_equal(count_kept(locks), LOCKS);
    release_all(locks);
}

/* One sidecar is of another type: its lock's renewals are refused, and whatever is asked with them. */
CONFORM_OF(a_key_that_fails_its_request_costs_no_other_lock_its_renewal, c,
           CONFORM_RENEWAL | CONFORM_FENCE | CONFORM_RUNTIME) {
    tl_client *client = conform_client(c);
    lock_events *well = make_events(), *ill = make_events();
    tl_lock *locks[SOME];
    for (int i = 0; i < SOME; i++) {
        char key[96];
        (void)snprintf(key, sizeof key, "%s:%d", c->key, i);
        locks[i] = make_lock_with(client, key,
                                  TL_LOCK_OPTIONS(.ttl_ms = i == ILL ? LOSING_MS : LONG_MS,
                                                  .on_event = lock_events_add,
                                                  .ctx = i == ILL ? ill : well));
        ASSERT_RESULT(tl_lock_acquire(locks[i], 0, &said), TL_OK);
    }
    conform_do(c, "SET tidelock:{%s:%d} string", c->key, ILL);
    (void)lock_events_await(ill, TL_LOST, LOSING_MS + SOON_MS);
    WAIT_FOR(SOON_MS, renewals_of(client) >= SOME - 1);
    assert_true(lock_events_find(ill, 0, TL_AT_RISK, &(lock_event){0}));
    assert_int_equal(lock_events_count(well), 0);
    for (int i = 0; i < SOME; i++)
        assert_int_equal(tl_lock_state(locks[i]), i == ILL ? TL_LOST : TL_HELD);
}

/* ---- each odd in its own way, among others ------------------------------------------------------- */

enum { STOLEN = 3, DELETED, OTHER_TYPE, NO_SIDECAR, OTHERS_SIDECAR, NO_END, LONGER };

static void make_odd(conform *c) {
    conform_do(c, "SET %s:%d another PX 60000", c->key, STOLEN);
    conform_do(c, "DEL %s:%d", c->key, DELETED);
    conform_do(c, "DEL %s:%d", c->key, OTHER_TYPE);
    conform_do(c, "HSET %s:%d f v", c->key, OTHER_TYPE);
    conform_do(c, "DEL tidelock:{%s:%d}", c->key, NO_SIDECAR);
    conform_do(c, "HSET tidelock:{%s:%d} token another", c->key, OTHERS_SIDECAR);
    conform_do(c, "PERSIST %s:%d", c->key, NO_END);
    conform_do(c, "PEXPIRE %s:%d 3600000", c->key, LONGER);
}

/* Two renewals of each have passed: from the second on it is asked for in few words. */
CONFORM_OF(what_is_odd_about_one_lock_is_seen_for_that_one_alone, c,
           CONFORM_RENEWAL | CONFORM_FENCE | CONFORM_RUNTIME) {
    tl_client *client = conform_client(c);
    lock_events *well = make_events(), *ill = make_events();
    tl_lock *locks[SOME];
    for (int i = 0; i < SOME; i++) {
        char key[96];
        (void)snprintf(key, sizeof key, "%s:%d", c->key, i);
        locks[i] = make_lock_with(
            client, key,
            TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .on_event = lock_events_add,
                            .ctx = i >= STOLEN && i <= OTHER_TYPE ? ill : well));
        ASSERT_RESULT(tl_lock_acquire(locks[i], 0, &said), TL_OK);
    }
    WAIT_FOR(SOON_MS, renewals_of(client) >= 2 * SOME);
    make_odd(c);
    WAIT_FOR(SOON_MS, lock_events_count_of(ill, TL_LOST) == 3);
    await_renewals(client, SOME - 3);
    assert_int_equal(lock_events_count_of(well, TL_LOST), 0);
    for (int i = 0; i < SOME; i++)
        if (i < STOLEN || i > OTHER_TYPE)
            ASSERT_GOES_ON(locks[i]);
    WAIT_FOR(SOON_MS, conform_int(c, "HEXISTS tidelock:{%s:%d} fence", c->key, NO_SIDECAR) == 1);
    WAIT_FOR(SOON_MS, conform_int(c, "PTTL %s:%d", c->key, NO_END) > 0);
}

CONFORM_MAIN
