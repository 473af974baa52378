/*
 * Conformance: the local queue. Locks of one client on one key line up; what the first of them
 * releases passes to the next, and other processes have their turn all the same.
 * timeout: 240
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lock.h"
#include "conform.h"
#include "queue_look.h"

#define TTL_MS 30000
#define BRIEF_MS clock_patient_ms(5000) /* to be met, and to be waited for */
#define WAITERS 9
#define PASSES_MAX 50

/* How many stand behind the lock that is at the front. */
static int queue_behind(tl_lock *front) {
    tl_gate *gate = &front->client->gate;
    int n = 0;
    tl__mutex_lock(&gate->mutex);
    for (tl_gate_node *p = front->gate_node.state == TL_FRONT ? front->gate_node.first : NULL; p;
         p = p->next)
        n++;
    tl__mutex_unlock(&gate->mutex);
    return n;
}

static acquiring *begin_queued(tl_lock *lock, tl_lock *front, int64_t wait_ms) {
    int before = queue_behind(front);
    acquiring *a = acquiring_begin(lock, wait_ms);
    WAIT_FOR(SOON_MS, queue_behind(front) == before + 1);
    return a;
}

/* At the front, looked at the key, and asleep until it is told or its holder's time is up: no question
 * is in flight, so that those behind it have a server that answers. */
static void await_asleep(conform *c, tl_lock *front, uint64_t before) {
    /* login, take; login, ping, subscribe; look again */
    WAIT_FOR(SOON_MS, standing(front) == TL_FRONT && conform_count(c) >= before + 6 &&
                          atomic_load(&front->client->node.mute_ns) == 0);
}

/* Nobody asks for it but who calls. */
static tl_lock *by_hand(conform *c, tl_client *client) {
    return conform_lock_with(c, client, TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .manual_renew = true));
}

/* It passes on however long the test takes for its next step: the second after a take is unit/test_gate's. */
static void keep_passable(tl_lock *holder) {
    holder->taken = tl__mono_add_ms(holder->taken, TTL_MS);
}

/* Held by a lock that knew of the queue when it took it, with `second` behind it. */
static tl_lock *held_for_passing(conform *c, tl_client *client, tl_lock *second, acquiring **ret) {
    tl_lock *before = by_hand(c, client), *first = by_hand(c, client);
    ASSERT_RESULT(tl_lock_acquire(before, 0, &said), TL_OK);
    acquiring *a = begin_queued(first, before, TL_FOREVER);
    *ret = begin_queued(second, before, TL_FOREVER);
    ASSERT_RESULT(tl_lock_release(before, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(a, SOON_MS), TL_OK);
    keep_passable(first);
    return first;
}

/* Asked by a client of its own. */
static void assert_key_is_free_within(conform *c, int64_t bound_ms) {
    tl_lock *other = conform_lock(c, conform_client(c), TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(other, bound_ms, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(other, &said), TL_OK);
}

/* S knows of it from the beginning: who waits behind one that S doesn't know yet asks every 50 to 250 ms. */
static tl_lock *known_at_once(conform *c) {
    return by_hand(c, conform_client(c));
}

/* ---- who asks, and who is next --------------------------------------------------------------- */

CONFORM_OF(of_many_waiters_only_the_first_asks_the_server, c, CONFORM_FENCE | CONFORM_RUNTIME) {
    tl_client *client = conform_client(c);
    tl_lock *holder = known_at_once(c), *waiters[WAITERS];
    acquiring *a[WAITERS];
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    for (int i = 0; i < WAITERS; i++)
        waiters[i] = conform_lock(c, client, TTL_MS);
    uint64_t before = conform_count(c);
    int64_t began = clock_ms();
    a[0] = acquiring_begin(waiters[0], TL_FOREVER);
    await_asleep(c, waiters[0], before);
    for (int i = 1; i < WAITERS; i++)
        a[i] = begin_queued(waiters[i], waiters[0], TL_FOREVER);
    /* a look or two more, and on a slow machine another now and then */
    assert_in_range(conform_count(c) - before, 6, 12 + (clock_ms() - began) / 2000);
    ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
    uint64_t fence = tl_lock_fence(holder);
    for (int i = 0; i < WAITERS; i++) {
        ASSERT_RESULT(acquiring_end(a[i], SOON_MS), TL_OK);
        for (int j = i + 1; j < WAITERS; j++)
            assert_false(atomic_load(&a[j]->done));
        assert_true(tl_lock_fence(waiters[i]) > fence);
        fence = tl_lock_fence(waiters[i]);
        ASSERT_RESULT(tl_lock_release(waiters[i], &said), TL_OK);
    }
    assert_true(conform_holds(c, c->key, NULL));
}

CONFORM_OF(handing_over_makes_no_round_trip, c, CONFORM_FENCE | CONFORM_RUNTIME) {
    tl_client *client = conform_client(c);
    tl_lock *second = by_hand(c, client), *third = by_hand(c, client);
    acquiring *a;
    tl_lock *first = held_for_passing(c, client, second, &a);
    acquiring *b = begin_queued(third, first, TL_FOREVER);
    uint64_t count = conform_count(c);
    ASSERT_RESULT(tl_lock_release(first, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(a, SOON_MS), TL_OK);
    assert_int_equal(tl_lock_fence(second), tl_lock_fence(first) + 1);
    assert_int_equal(tl_lock_state(first), TL_FREE);
    assert_int_equal(tl_lock_remaining_ms(first), 0);
    assert_int_equal(tl_lock_state(second), TL_HELD);
    assert_true(tl_lock_remaining_ms(second) > TTL_MS / 2);
    int64_t left = conform_int(c, "PTTL %s", c->key); /* first: time may pass between the two */
    assert_true(tl_lock_remaining_ms(second) <= left);
    ASSERT_RESULT(tl_lock_release(second, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(b, SOON_MS), TL_OK);
    assert_int_equal(tl_lock_fence(third), tl_lock_fence(first) + 2);
    assert_string_equal(tl_lock_token(third), tl_lock_token(first));
    assert_int_equal(conform_count(c), count);
    ASSERT_RESULT(tl_lock_release(third, &said), TL_OK);
    assert_true(conform_count(c) > count);
    assert_true(conform_holds(c, c->key, NULL));
}

CONFORM_OF(the_fence_of_another_client_is_larger_than_all_that_were_passed, c,
           CONFORM_FENCE | CONFORM_RUNTIME) {
    tl_client *client = conform_client(c);
    tl_lock *second = conform_lock(c, client, TTL_MS);
    acquiring *a;
    tl_lock *first = held_for_passing(c, client, second, &a);
    ASSERT_RESULT(tl_lock_release(first, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(a, SOON_MS), TL_OK);
    ASSERT_RESULT(tl_lock_release(second, &said), TL_OK);
    tl_lock *other = conform_lock(c, conform_client(c), TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_OK);
    assert_true(tl_lock_fence(other) > tl_lock_fence(first) + PASSES_MAX - 1);
    ASSERT_RESULT(tl_lock_release(other, &said), TL_OK);
    ASSERT_RESULT(tl_lock_acquire(first, 0, &said), TL_OK);
    assert_true(tl_lock_fence(first) > tl_lock_fence(other));
}

typedef struct {
    tl_turn turn; /* first */
    tl_lock *before;
    bool came;
    tl_state seen;
} watcher;

static void watch(tl_turn *turn) {
    watcher *w = (watcher *)turn;
    w->came = true;
    w->seen = tl_lock_state(w->before);
}

CONFORM_OF(nobody_sees_two_holders_while_one_hands_over, c, CONFORM_RUNTIME) {
    tl_client *client = conform_client(c);
    tl_lock *before = conform_lock(c, client, TTL_MS), *first = conform_lock(c, client, TTL_MS);
    tl_gate_node place = {.key = first->gate_node.key, .hash = first->gate_node.hash};
    watcher w = {.turn = {.ttl_ms = TTL_MS, .on_turn = watch}, .before = first};
    ASSERT_RESULT(tl_lock_acquire(before, 0, &said), TL_OK);
    acquiring *a = begin_queued(first, before, TL_FOREVER);
    (void)tl__gate_enter(&client->gate, &place, &w.turn);
    ASSERT_RESULT(tl_lock_release(before, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(a, SOON_MS), TL_OK);
    keep_passable(first);
    ASSERT_RESULT(tl_lock_release(first, &said), TL_OK);
    tl__gate_leave(&client->gate, &place);
    assert_true(w.came && w.turn.given);
    assert_int_equal(w.seen, TL_FREE);
}

/* ---- many at once ------------------------------------------------------------------------------ */

/* Holds of one token, one after the other. */
typedef struct {
    char token[TL_TOKEN_SIZE];
    int length, longest;
} series;

typedef struct {
    tl_client *client;
    const char *key;
    int rounds;
    atomic_bool *stop;
    int *counter; /* no atomic: the lock protects this and the next two */
    uint64_t *last_fence;
    series *run;
    int done, faults;
} worker;

static void count_token(series *run, const char *token) {
    run->length = strcmp(run->token, token) == 0 ? run->length + 1 : 1;
    run->longest = run->length > run->longest ? run->length : run->longest;
    (void)snprintf(run->token, sizeof run->token, "%s", token);
}

static void *work(void *ctx) {
    worker *w = ctx;
    const tl_lock_options options = TL_LOCK_OPTIONS(.ttl_ms = TTL_MS);
    tl_lock *lock = tl_lock_new(w->client, w->key, strlen(w->key), &options, NULL);
    for (int i = 0; lock && i < w->rounds && !(w->stop && atomic_load(w->stop)); i++) {
        if (tl_lock_acquire(lock, 60000, NULL)) {
            w->faults++;
            continue;
        }
        (*w->counter)++;
        w->faults += tl_lock_fence(lock) <= *w->last_fence;
        *w->last_fence = tl_lock_fence(lock);
        if (w->run)
            count_token(w->run, tl_lock_token(lock));
        w->faults += tl_lock_release(lock, NULL) != TL_OK;
        w->done++;
    }
    tl_lock_free(lock);
    return NULL;
}

CONFORM_OF(a_number_is_exact_with_many_threads_of_several_clients, c, CONFORM_RUNTIME) {
    enum { CLIENTS = 3, THREADS = 16, ROUNDS = 12 };
    worker workers[CLIENTS * THREADS];
    pthread_t threads[CLIENTS * THREADS] = {0};
    int counter = 0;
    uint64_t last_fence = 0;
    for (int i = 0; i < CLIENTS; i++) {
        tl_client *client = conform_client(c);
        for (int j = i * THREADS; j < (i + 1) * THREADS; j++) {
            workers[j] = (worker){.client = client,
                                  .key = c->key,
                                  .rounds = ROUNDS,
                                  .counter = &counter,
                                  .last_fence = &last_fence};
            assert_int_equal(pthread_create(&threads[j], NULL, work, &workers[j]), 0);
        }
    }
    for (int j = 0; j < CLIENTS * THREADS; j++) {
        assert_int_equal(pthread_join(threads[j], NULL), 0);
        assert_int_equal(workers[j].faults, 0);
        assert_int_equal(workers[j].done, ROUNDS);
    }
    assert_int_equal(counter, CLIENTS * THREADS * ROUNDS);
    assert_true(conform_holds(c, c->key, NULL));
}

CONFORM_OF(another_client_gets_its_turn_while_a_queue_never_empties, c,
           CONFORM_FENCE | CONFORM_RUNTIME) {
    enum { THREADS = 4 };
    tl_client *client = conform_client(c);
    tl_lock *other = conform_lock(c, conform_client(c), TTL_MS);
    worker workers[THREADS];
    pthread_t threads[THREADS];
    atomic_bool stop = false;
    int counter = 0;
    uint64_t last_fence = 0;
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.client = client,
                              .key = c->key,
                              .rounds = 1000000,
                              .stop = &stop,
                              .counter = &counter,
                              .last_fence = &last_fence};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    tl_err code = TL_OK;
    int faults = 0;
    for (int i = 0; i < 3 && !code; i++) {
        code = tl_lock_acquire(other, 60000, &said);
        if (code)
            break;
        faults += tl_lock_fence(other) <= last_fence;
        last_fence = tl_lock_fence(other);
        code = tl_lock_release(other, &said);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        faults += workers[i].faults;
    }
    ASSERT_RESULT(code, TL_OK);
    assert_int_equal(faults, 0);
}

CONFORM_OF(a_hold_is_passed_on_no_further_than_its_fencing_numbers, c, CONFORM_RUNTIME) {
    enum { THREADS = 4 };
    tl_client *client = conform_client(c);
    worker workers[THREADS];
    pthread_t threads[THREADS];
    int counter = 0;
    uint64_t last_fence = 0;
    series run = {0};
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.client = client,
                              .key = c->key,
                              .rounds = 100,
                              .counter = &counter,
                              .run = &run,
                              .last_fence = &last_fence};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(workers[i].faults, 0);
    }
    assert_in_range(run.longest, 2, PASSES_MAX);
}

/* ---- different wants --------------------------------------------------------------------------- */

CONFORM_OF(one_who_wants_a_longer_lifetime_takes_it_anew, c, CONFORM_RUNTIME) {
    tl_client *client = conform_client(c);
    tl_lock *second = conform_lock(c, client, 3 * TTL_MS);
    acquiring *a;
    tl_lock *first = held_for_passing(c, client, second, &a);
    ASSERT_RESULT(tl_lock_release(first, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(a, SOON_MS), TL_OK);
    assert_true(tl_lock_remaining_ms(second) > 2 * TTL_MS);
    assert_true(tl_lock_fence(second) > tl_lock_fence(first));
}

CONFORM_OF(one_who_wants_a_shorter_lifetime_is_kept_too, c, CONFORM_RUNTIME) {
    tl_client *client = conform_client(c);
    lock_events *events = make_events();
    tl_lock *second = conform_lock_with(
        c, client,
        TL_LOCK_OPTIONS(.ttl_ms = LASTING_MS, .on_event = lock_events_add, .ctx = events));
    acquiring *a;
    tl_lock *first = held_for_passing(c, client, second, &a);
    ASSERT_RESULT(tl_lock_release(first, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(a, SOON_MS), TL_OK);
    assert_true(tl_lock_remaining_ms(second) > LASTING_MS);
    ASSERT_RESULT(tl_lock_extend(second, LASTING_MS, &said), TL_OK);
    assert_in_range(tl_lock_remaining_ms(second), 1, LASTING_MS);
    const uint64_t renewals = renewals_of(client);
    WAIT_FOR(SOON_MS, renewals_of(client) > renewals);
    ASSERT_GOES_ON(second);
    assert_int_equal(lock_events_count_of(events, TL_LOST), 0);
    ASSERT_RESULT(tl_lock_release(second, &said), TL_OK);
}

CONFORM_OF(a_handed_lock_can_be_extended_and_keeps_its_own_longest_hold, c, CONFORM_RUNTIME) {
    tl_client *client = conform_client(c);
    lock_events *events = make_events();
    tl_lock *second = conform_lock_with(c, client,
                                        TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .max_hold_ms = BRIEF_MS,
                                                        .on_event = lock_events_add,
                                                        .ctx = events));
    acquiring *a;
    tl_lock *first = held_for_passing(c, client, second, &a);
    ASSERT_RESULT(tl_lock_release(first, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(a, SOON_MS), TL_OK);
    ASSERT_RESULT(tl_lock_extend(second, 2 * TTL_MS, &said), TL_OK);
    assert_true(conform_int(c, "PTTL %s", c->key) > TTL_MS);
    assert_int_equal(lock_events_await(events, TL_LOST, SOON_MS).why, TL_LOST_MAX_HOLD);
}

CONFORM_OF(a_handed_lock_that_is_renewed_by_hand_is_not_renewed, c, CONFORM_RUNTIME) {
    tl_client *client = conform_client(c);
    lock_events *events = make_events();
    tl_lock *before = conform_lock(c, client, LASTING_MS),
            *first = conform_lock(c, client, LASTING_MS);
    tl_lock *second = conform_lock_with(c, client,
                                        TL_LOCK_OPTIONS(.ttl_ms = BRIEF_MS, .manual_renew = true,
                                                        .on_event = lock_events_add,
                                                        .ctx = events));
    ASSERT_RESULT(tl_lock_acquire(before, 0, &said), TL_OK);
    acquiring *a = begin_queued(first, before, TL_FOREVER);
    acquiring *b = begin_queued(second, before, TL_FOREVER);
    ASSERT_RESULT(tl_lock_release(before, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(a, SOON_MS), TL_OK);
    keep_passable(first);
    const bool known = !first->proof.unbound; /* to the server; else a renewal would tell it */
    ASSERT_RESULT(tl_lock_release(first, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(b, SOON_MS), TL_OK);
    assert_int_equal(strcmp(tl_lock_token(second), tl_lock_token(first)) == 0, known);
    assert_false(second->proof.unbound);
    assert_int_equal(lock_events_await(events, TL_LOST, SOON_MS).why, TL_LOST_EXPIRED);
}

CONFORM_OF(trying_once_and_other_strategies_do_not_queue, c, CONFORM_RUNTIME) {
    tl_client *client = conform_client(c);
    tl_lock *second = conform_lock(c, client, TTL_MS), *once = conform_lock(c, client, TTL_MS);
    tl_lock *own = conform_lock_with(
        c, client,
        TL_LOCK_OPTIONS(.retry = TL_RETRY_FIXED, .retry_delay_ms = 1, .retry_max_attempts = 3));
    acquiring *a;
    tl_lock *first = held_for_passing(c, client, second, &a);
    uint64_t count = conform_count(c);
    ASSERT_RESULT(tl_lock_acquire(once, 0, &said), TL_EBUSY);
    uint64_t of_once = conform_count(c) - count;
    ASSERT_RESULT(tl_lock_acquire(own, TL_FOREVER, &said), TL_EBUSY);
    assert_true(conform_count(c) - count >= of_once + 3);
    assert_int_equal(queue_behind(first), 1);
    ASSERT_RESULT(tl_lock_release(first, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(a, SOON_MS), TL_OK);
}

CONFORM_OF(a_strategy_with_long_pauses_holds_nobody_up, c, CONFORM_RUNTIME) {
    tl_client *client = conform_client(c);
    tl_lock *slow = conform_lock_with(
        c, client, TL_LOCK_OPTIONS(.retry = TL_RETRY_FIXED, .retry_delay_ms = 600000));
    tl_lock *lock = conform_lock(c, client, TTL_MS);
    conform_do(c, "SET %s another's", c->key); /* and its end is announced to nobody */
    uint64_t count = conform_count(c);
    acquiring *a = acquiring_begin(slow, TL_FOREVER);
    WAIT_FOR(SOON_MS, conform_count(c) >= count + 3);
    acquiring *b = acquiring_begin(lock, TL_FOREVER);
    WAIT_FOR(SOON_MS, standing(lock) == TL_FRONT);
    assert_int_equal(standing(slow), TL_OUTSIDE);
    conform_do(c, "DEL %s", c->key);
    WAIT_FOR(SOON_MS, atomic_load(&a->done) || atomic_load(&b->done));
    bool lucky = atomic_load(&a->done); /* it looked once more as it began to listen, just now */
    ASSERT_RESULT(acquiring_end(lucky ? a : b, SOON_MS), TL_OK);
    ASSERT_RESULT(tl_lock_release(lucky ? slow : lock, &said), TL_OK); /* the other hears this */
    ASSERT_RESULT(acquiring_end(lucky ? b : a, SOON_MS), TL_OK);
    ASSERT_RESULT(tl_lock_release(lucky ? lock : slow, &said), TL_OK);
}

CONFORM_OF(whoever_took_it_outside_passes_it_on_to_those_who_come, c, CONFORM_RUNTIME) {
    tl_client *client = conform_client(c);
    tl_lock *own = conform_lock_with(c, client, TL_LOCK_OPTIONS(.retry = TL_RETRY_FIXED));
    tl_lock *lock = conform_lock(c, client, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(own, SOON_MS, &said), TL_OK);
    assert_int_equal(standing(own), TL_FRONT);
    acquiring *a = begin_queued(lock, own, TL_FOREVER);
    ASSERT_RESULT(tl_lock_release(own, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(a, SOON_MS), TL_OK);
}

/* ---- ends ---------------------------------------------------------------------------------------- */

CONFORM_OF(a_former_handle_harms_nothing, c, CONFORM_RUNTIME) {
    tl_client *client = conform_client(c);
    tl_lock *second = by_hand(c, client);
    acquiring *a;
    tl_lock *first = held_for_passing(c, client, second, &a);
    ASSERT_RESULT(tl_lock_release(first, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(a, SOON_MS), TL_OK);
    uint64_t count = conform_count(c);
    ASSERT_RESULT(tl_lock_release(first, &said), TL_EINVALID);
    ASSERT_RESULT(tl_lock_extend(first, TTL_MS, &said), TL_EINVALID);
    assert_int_equal(conform_count(c), count);
    drop_lock(first);
    assert_true(conform_holds(c, c->key, tl_lock_token(second)));
    ASSERT_RESULT(tl_lock_release(second, &said), TL_OK);
}

CONFORM_OF(cancel_ends_a_wait_in_the_queue_and_nobody_elses, c, CONFORM_RUNTIME) {
    tl_client *client = conform_client(c);
    tl_lock *second = conform_lock(c, client, TTL_MS), *third = conform_lock(c, client, TTL_MS);
    acquiring *a;
    tl_lock *first = held_for_passing(c, client, second, &a);
    acquiring *b = begin_queued(third, first, TL_FOREVER);
    tl_lock_cancel(second);
    ASSERT_RESULT(acquiring_end(a, SOON_MS), TL_ECANCELLED);
    ASSERT_SAID("cancelled");
    assert_int_equal(queue_behind(first), 1);
    ASSERT_RESULT(tl_lock_release(first, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(b, SOON_MS), TL_OK);
    assert_true(tl_lock_fence(third) > tl_lock_fence(first));
}

/* Nobody has asked the server meanwhile: there is no cause to. */
CONFORM_OF(a_wait_behind_a_holder_times_out, c, CONFORM_RUNTIME) {
    tl_client *client = conform_client(c);
    tl_lock *first = by_hand(c, client), *second = conform_lock(c, client, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(first, 0, &said), TL_OK);
    uint64_t count = conform_count(c);
    int64_t began = clock_ms();
    ASSERT_RESULT(tl_lock_acquire(second, 50, &said), TL_ETIMEDOUT);
    ASSERT_SAID("another handle of this process holds it already");
    ASSERT_TOOK(began, 50, 50);
    assert_int_equal(conform_count(c), count);
    assert_int_equal(queue_behind(first), 0);
}

CONFORM_OF(a_wait_behind_a_waiter_times_out, c, CONFORM_RUNTIME) {
    tl_client *client = conform_client(c);
    tl_lock *holder = known_at_once(c);
    tl_lock *first = conform_lock(c, client, TTL_MS), *second = conform_lock(c, client, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    uint64_t count = conform_count(c);
    acquiring *a = acquiring_begin(first, TL_FOREVER);
    await_asleep(c, first, count);
    /* Its last question may go unanswered: then it waits for twice as long. */
    tl_err code = TL_EUNCERTAIN;
    for (int64_t ms = 250; ms <= SOON_MS && (code == TL_EUNCERTAIN || code == TL_EUNAVAILABLE);
         ms *= 2)
        code = acquiring_end(begin_queued(second, first, ms), 2 * SOON_MS);
    ASSERT_RESULT(code, TL_ETIMEDOUT);
    ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(a, SOON_MS), TL_OK);
}

typedef struct {
    tl_lock *lock;
    int64_t wait_ms;
    atomic_bool *stop;
    int held, faults;
} impatient;

static void *give_up_often(void *ctx) {
    impatient *p = ctx;
    while (!atomic_load(p->stop)) {
        tl_err code = tl_lock_acquire(p->lock, p->wait_ms, NULL);
        if (code == TL_OK) {
            p->held++;
            code = tl_lock_release(p->lock, NULL);
        }
        p->faults += code != TL_OK && code != TL_ECANCELLED && code != TL_ETIMEDOUT &&
                     code != TL_EUNAVAILABLE && code != TL_EUNCERTAIN;
    }
    return NULL;
}

/* Whoever gives up at the moment at which the lock comes to it: it is held, or passes on. */
CONFORM_OF(giving_up_at_any_moment_loses_no_lock, c, CONFORM_RUNTIME) {
    enum { THREADS = 6 };
    tl_client *client = conform_client(c);
    impatient people[THREADS];
    pthread_t threads[THREADS];
    atomic_bool stop = false;
    for (int i = 0; i < THREADS; i++) {
        people[i] = (impatient){.lock = conform_lock(c, client, TTL_MS),
                                .wait_ms = i < 3 ? i + 1 : TL_FOREVER,
                                .stop = &stop};
        assert_int_equal(pthread_create(&threads[i], NULL, give_up_often, &people[i]), 0);
    }
    const clock_wait end = clock_wait_begin(1500);
    for (int i = 0; clock_wait_more(&end); i++)
        tl_lock_cancel(people[3 + i % 3].lock);
    atomic_store(&stop, true);
    int held = 0;
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(people[i].faults, 0);
        assert_int_equal(tl_lock_state(people[i].lock), TL_FREE);
        assert_int_equal(standing(people[i].lock), TL_OUTSIDE);
        held += people[i].held;
    }
    print_message("held %d times\n", held);
    assert_key_is_free_within(c, SOON_MS);
}

CONFORM_OF(a_lock_that_is_freed_while_held_lets_the_queue_go_on, c, CONFORM_RUNTIME) {
    tl_client *client = conform_client(c);
    tl_lock *first = conform_lock(c, client, BRIEF_MS), *second = conform_lock(c, client, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(first, 0, &said), TL_OK);
    acquiring *a = begin_queued(second, first, TL_FOREVER);
    uint64_t fence = tl_lock_fence(first);
    drop_lock(first);
    ASSERT_RESULT(acquiring_end(a, BRIEF_MS + SOON_MS), TL_OK);
    assert_true(tl_lock_fence(second) > fence);
}

CONFORM_OF(a_lock_that_is_lost_lets_the_queue_go_on_and_is_not_passed, c, CONFORM_RUNTIME) {
    tl_client *client = conform_client(c);
    lock_events *events = make_events();
    tl_lock *first = conform_lock_with(
        c, client,
        TL_LOCK_OPTIONS(.ttl_ms = LASTING_MS, .on_event = lock_events_add, .ctx = events));
    tl_lock *second = conform_lock(c, client, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(first, 0, &said), TL_OK);
    acquiring *a = begin_queued(second, first, TL_FOREVER);
    conform_do(c, "SET %s another's", c->key);
    assert_int_equal(lock_events_await(events, TL_LOST, SOON_MS).why, TL_LOST_TAKEN);
    WAIT_FOR(SOON_MS, standing(second) == TL_FRONT);
    ASSERT_RESULT(tl_lock_release(first, &said), TL_ETAKEN);
    assert_false(atomic_load(&a->done));
    conform_do(c, "DEL %s", c->key);
    ASSERT_RESULT(acquiring_end(a, SOON_MS), TL_OK);
    assert_string_not_equal(tl_lock_token(second), tl_lock_token(first));
}

/* So long a renewal goes unanswered until its lock is at risk. */
#define LIMIT_MS clock_patient_ms(400)

CONFORM_OF(a_lock_at_risk_is_not_passed_on, c, CONFORM_RUNTIME) {
    proxy *p = conform_proxy(c);
    tl_client *client = conform_client_with(
        c, TL_CLIENT_OPTIONS(.url = proxy_url(p), .attempt_ms = LIMIT_MS, .connect_ms = LIMIT_MS));
    lock_events *events = make_events();
    tl_lock_options options = TL_LOCK_OPTIONS(.ttl_ms = LASTING_MS, .on_event = lock_events_add,
                                              .ctx = events);
    tl_lock *before = conform_lock(c, client, TTL_MS);
    tl_lock *first = conform_lock_with(c, client, options),
            *second = conform_lock(c, client, LIMIT_MS);
    ASSERT_RESULT(tl_lock_acquire(before, SOON_MS, &said), TL_OK);
    acquiring *a = begin_queued(first, before, TL_FOREVER);
    acquiring *b = begin_queued(second, before, 60000);
    tl_err code = tl_lock_release(before, &said);
    if (code != TL_EUNCERTAIN) /* no answer in time: it is released all the same */
        ASSERT_RESULT(code, TL_OK);
    ASSERT_RESULT(acquiring_end(a, SOON_MS), TL_OK);
    proxy_stop(p);
    (void)lock_events_await(events, TL_AT_RISK, SOON_MS);
    uint64_t fence = tl_lock_fence(first);
    assert_int_not_equal(tl_lock_release(first, &said), TL_OK);
    assert_false(atomic_load(&b->done)); /* though enough is left for what it wants */
    proxy_heal(p);
    ASSERT_RESULT(acquiring_end(b, 2 * SOON_MS), TL_OK);
    assert_true(tl_lock_fence(second) > fence);
    assert_string_not_equal(tl_lock_token(second), tl_lock_token(first));
}

CONFORM_OF(a_lock_that_adopts_a_token_does_not_stay_in_the_queues_way, c, CONFORM_RUNTIME) {
    tl_client *client = conform_client(c);
    tl_lock *first = conform_lock_with(c, client,
                                       TL_LOCK_OPTIONS(.ttl_ms = BRIEF_MS, .manual_renew = true));
    tl_lock *second = conform_lock(c, client, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(first, 0, &said), TL_OK);
    acquiring *a = begin_queued(second, first, TL_FOREVER);
    atomic_store(&first->deadline_ns, 1); /* over, and the keeper hasn't looked yet */
    ASSERT_RESULT(tl_lock_adopt(first, "a token from elsewhere", &said), TL_OK);
    assert_int_equal(standing(second), TL_FRONT);
    ASSERT_RESULT(acquiring_end(a, BRIEF_MS + SOON_MS), TL_OK);
}

/* ---- many keys ----------------------------------------------------------------------------------- */

CONFORM_OF(a_thousand_keys_have_a_thousand_queues, c, CONFORM_RUNTIME) {
    enum { KEYS = 1000 };
    tl_client *client = conform_client(c);
    /* The first must not expire before a slow machine has acquired the last. */
    const tl_lock_options options = TL_LOCK_OPTIONS(.ttl_ms = TL_TTL_MAX_MS, .manual_renew = true);
    tl_lock **locks = calloc(KEYS, sizeof(tl_lock *));
    assert_non_null(locks);
    int faults = 0;
    for (int i = 0; i < KEYS; i++) {
        char key[32];
        int n = snprintf(key, sizeof key, "%s:%d", c->key, i);
        locks[i] = tl_lock_new(client, key, (size_t)n, &options, &said);
        faults += !locks[i] || tl_lock_acquire(locks[i], 60000, &said) != TL_OK;
    }
    assert_int_equal(client->gate.fronts, KEYS);
    for (int i = 0; i < KEYS; i++) {
        faults += tl_lock_release(locks[i], &said) != TL_OK;
        tl_lock_free(locks[i]);
    }
    free(locks);
    assert_int_equal(faults, 0);
    assert_int_equal(client->gate.fronts, 0);
}

CONFORM_MAIN
