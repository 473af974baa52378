/*
 * Conformance: acquiring and releasing without blocking, told by the keeper thread and told within
 * tl_client_dispatch.
 * timeout: 240
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/lock.h"
#include "conform.h"
#include "queue_look.h"

#define TTL_MS 30000
#define ATTEMPT_MS clock_patient_ms(200)
#define CONNECT_MS clock_patient_ms(300)
#define LIMIT_MS clock_patient_ms(400) /* of a wait in which the server is heard */
#define OUTCOMES 128
#define SILENCE_MS 100

/* How an operation ended. Not on the stack of a test, which a failure leaves. */
typedef struct {
    atomic_int told;
    tl_err code;
    bool has_err;
    tl_error err;
    tl_state state; /* of the lock, when it was told */
    pthread_t thread;
} outcome;

static outcome outcomes[OUTCOMES];
static int outcome_count;

static outcome *new_outcome(void) {
    outcome *o = &outcomes[outcome_count++ % OUTCOMES];
    memset(o, 0, sizeof *o);
    return o;
}

static void note(tl_lock *lock, tl_err code, const tl_error *err, void *ctx) {
    outcome *o = ctx;
    o->code = code;
    o->has_err = err != NULL;
    if (err)
        o->err = *err;
    o->state = tl_lock_state(lock);
    o->thread = pthread_self();
    atomic_fetch_add(&o->told, 1);
}

static bool readable(const tl_client *client, int limit_ms) {
    struct pollfd fd = {.fd = tl_client_fd(client), .events = POLLIN};
    return poll(&fd, 1, limit_ms) == 1 && fd.revents & POLLIN;
}

/* Either way of being told: with dispatch, only when its descriptor says so. */
static void serve(tl_client *client) {
    if (tl_client_fd(client) >= 0 && readable(client, 0))
        (void)tl_client_dispatch(client);
}

static tl_err await_told(tl_client *client, outcome *o, int64_t bound_ms) {
    const clock_wait bound = clock_wait_begin(bound_ms);
    while (atomic_load(&o->told) == 0) {
        serve(client);
        if (!clock_wait_more(&bound))
            fail_msg("not told within %d ms", (int)bound_ms);
    }
    assert_int_equal(atomic_load(&o->told), 1);
    assert_int_equal(o->has_err, o->code != TL_OK);
    if (o->has_err) {
        assert_int_equal(o->err.code, o->code);
        said = o->err;
    }
    return o->code;
}

static outcome *begin(tl_lock *lock, int64_t wait_ms) {
    outcome *o = new_outcome();
    ASSERT_RESULT(tl_lock_acquire_async(lock, wait_ms, note, o, &said), TL_OK);
    return o;
}

static outcome *begin_release(tl_lock *lock) {
    outcome *o = new_outcome();
    ASSERT_RESULT(tl_lock_release_async(lock, note, o, &said), TL_OK);
    return o;
}

static tl_err acquire(tl_lock *lock, int64_t wait_ms) {
    return await_told(lock->client, begin(lock, wait_ms), 2 * SOON_MS);
}

static tl_err release(tl_lock *lock) {
    return await_told(lock->client, begin_release(lock), SOON_MS);
}

static tl_client *client_in(conform *c, bool dispatch) {
    return conform_client_with(c, TL_CLIENT_OPTIONS(.dispatch = dispatch));
}

/* The server hears of it from its holder alone. */
static tl_lock *by_hand(conform *c, tl_client *client) {
    return conform_lock_with(c, client, TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .manual_renew = true));
}

static void await_standing(tl_lock *lock, int state) {
    WAIT_FOR(SOON_MS, standing(lock) == state);
}

/* Nothing more is told, though the server is asked something and answers meanwhile. */
static void assert_told_no_more(conform *c, tl_client *client, outcome *o, int told) {
    const clock_wait moment = clock_wait_begin(SILENCE_MS);
    while (clock_wait_more(&moment)) {
        (void)conform_int(c, "EXISTS %s", c->key);
        serve(client);
    }
    assert_int_equal(atomic_load(&o->told), told);
}

static void assert_key_is_free_soon(conform *c) {
    tl_lock *other = conform_lock(c, conform_client(c), TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(other, SOON_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(other, &said), TL_OK);
}

/* Each of these promises holds in both ways of being told. */
#define BOTH_WAYS(name)                                                                            \
    static void name(conform *c, bool dispatch);                                                   \
    CONFORM_OF(name##_told_by_the_keeper, c, CONFORM_RUNTIME) {                                    \
        name(c, false);                                                                            \
    }                                                                                              \
    CONFORM_OF(name##_told_by_dispatch, c, CONFORM_RUNTIME) {                                      \
        name(c, true);                                                                             \
    }                                                                                              \
    static void name(conform *c, bool dispatch)

/* ---- the usual ----------------------------------------------------------------------------------- */

BOTH_WAYS(acquire_and_release) {
    tl_client *client = client_in(c, dispatch);
    tl_lock *lock = conform_lock(c, client, TTL_MS);
    uint64_t fence = 0;
    for (int i = 0; i < 3; i++) {
        outcome *o = begin(lock, SOON_MS);
        ASSERT_RESULT(await_told(client, o, SOON_MS), TL_OK);
        assert_int_equal(o->state, TL_HELD);
        assert_true(conform_holds(c, c->key, tl_lock_token(lock)));
        int64_t left = conform_int(c, "PTTL %s", c->key); /* first: time may pass between the two */
        assert_true(tl_lock_remaining_ms(lock) <= left);
        assert_true(tl_lock_fence(lock) > fence);
        fence = tl_lock_fence(lock);
        o = begin_release(lock);
        assert_int_equal(tl_lock_state(lock), TL_FREE); /* from now on */
        assert_int_equal(tl_lock_remaining_ms(lock), 0);
        ASSERT_RESULT(await_told(client, o, SOON_MS), TL_OK);
        assert_told_no_more(c, client, o, 1);
        assert_true(conform_holds(c, c->key, NULL));
    }
}

CONFORM_OF(with_dispatch_callbacks_run_within_it_alone, c, CONFORM_RUNTIME) {
    tl_client *client = client_in(c, true);
    tl_lock *lock = by_hand(c, client); /* no renewal is there to be read */
    int fd = tl_client_fd(client);
    assert_true(fd >= 0);
    assert_int_equal(tl_client_dispatch(client), 0);
    for (int i = 0; i < 3; i++) {
        outcome *o = i % 2 ? begin_release(lock) : begin(lock, SOON_MS);
        int told = 0;
        while (told == 0) { /* it may be there to go on only */
            assert_true(readable(client, SOON_MS));
            assert_int_equal(atomic_load(&o->told), 0);
            told = tl_client_dispatch(client);
        }
        assert_int_equal(told, 1);
        assert_int_equal(atomic_load(&o->told), 1);
        assert_true(pthread_equal(o->thread, pthread_self()));
        assert_false(readable(client, 0));
        assert_int_equal(tl_client_dispatch(client), 0);
        assert_int_equal(tl_client_fd(client), fd);
    }
}

/* Does it read and write itself? */
static bool is_lent(tl_client *client) {
    tl__keeper_lock(&client->keeper);
    bool lent = client->keeper.lent;
    tl__keeper_unlock(&client->keeper);
    return lent;
}

/* It does from some turn on, as one operation follows the other. */
static void make_busy(tl_client *client, tl_lock *lock) {
    const int64_t until_ms = clock_ms() + SOON_MS;
    do {
        ASSERT_RESULT(acquire(lock, SOON_MS), TL_OK);
        ASSERT_RESULT(release(lock), TL_OK);
        if (clock_ms() > until_ms)
            fail_msg("the loop doesn't read and write itself");
    } while (!is_lent(client));
}

/* Nobody looks after it then every 2 ms. */
CONFORM_OF(a_loop_with_nothing_to_do_is_lent_nothing, c, CONFORM_RUNTIME) {
    tl_client *client = client_in(c, true);
    tl_lock *lock = conform_lock(c, client, TTL_MS);
    make_busy(client, lock);
    WAIT_FOR(SOON_MS, !is_lent(client));
    make_busy(client, lock);
}

static void await_renewals(tl_lock *const *locks, int count) {
    enum { RENEWALS = 2 };
    for (int i = 0; i < count * RENEWALS; i++) {
        tl_lock *lock = locks[i % count];
        int64_t deadline_ns = atomic_load(&lock->deadline_ns);
        WAIT_FOR(SOON_MS, atomic_load(&lock->deadline_ns) != deadline_ns);
        assert_int_equal(tl_lock_state(lock), TL_HELD);
    }
}

typedef struct {
    tl_lock *lock[2];
    outcome *told;
} stall;

static void get_stuck(tl_lock *lock, tl_err code, const tl_error *err, void *ctx) {
    stall *s = ctx;
    await_renewals(s->lock, 2);
    note(lock, code, err, s->told);
}

/* One elsewhere, the other in a callback. */
CONFORM_OF(busy_loops_that_get_stuck_cost_no_lock, c, CONFORM_RENEWAL | CONFORM_RUNTIME) {
    static const char *const keys[] = {"conform:elsewhere", "conform:callback"};
    static stall s;
    for (int i = 0; i < 2; i++) {
        s.lock[i] = make_lock(client_in(c, true), keys[i], LASTING_MS);
        make_busy(s.lock[i]->client, s.lock[i]);
    }
    outcome *o = begin(s.lock[0], SOON_MS); /* from here on nobody dispatches */
    s.told = new_outcome();
    WAIT_FOR(SOON_MS, tl_lock_state(s.lock[0]) == TL_HELD);
    ASSERT_RESULT(tl_lock_acquire_async(s.lock[1], SOON_MS, get_stuck, &s, &said), TL_OK);
    ASSERT_RESULT(await_told(s.lock[1]->client, s.told, 2 * SOON_MS), TL_OK);
    assert_int_equal(atomic_load(&o->told), 0);
    ASSERT_RESULT(await_told(s.lock[0]->client, o, SOON_MS), TL_OK);
    for (int i = 0; i < 2; i++)
        ASSERT_RESULT(release(s.lock[i]), TL_OK);
}

typedef struct {
    tl_lock *lock;
    tl_err worst;
    atomic_bool over;
} beginner;

/* It doesn't dispatch: another thread's loop does. */
static void *begin_and_wait(void *ctx) {
    enum { ROUNDS = 50 };
    beginner *b = ctx;
    for (int i = 0; i < 2 * ROUNDS && !b->worst; i++) {
        outcome o = {0};
        b->worst = i % 2 ? tl_lock_release_async(b->lock, note, &o, NULL)
                         : tl_lock_acquire_async(b->lock, SOON_MS, note, &o, NULL);
        while (!b->worst && atomic_load(&o.told) == 0)
            (void)sched_yield();
        b->worst = b->worst ? b->worst : o.code;
    }
    atomic_store(&b->over, true);
    return NULL;
}

CONFORM_OF(other_threads_may_keep_a_loop_busy, c, CONFORM_RUNTIME) {
    enum { THREADS = 4 };
    static const char *const keys[THREADS] = {"conform:a", "conform:b", "conform:c", "conform:d"};
    static beginner begun[THREADS];
    pthread_t threads[THREADS];
    tl_client *client = client_in(c, true);
    make_busy(client, conform_lock(c, client, TTL_MS));
    for (int i = 0; i < THREADS; i++) {
        begun[i] = (beginner){.lock = make_lock(client, keys[i], TTL_MS)};
        assert_int_equal(pthread_create(&threads[i], NULL, begin_and_wait, &begun[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        while (!atomic_load(&begun[i].over))
            if (readable(client, 10))
                (void)tl_client_dispatch(client);
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        ASSERT_RESULT(begun[i].worst, TL_OK);
    }
}

CONFORM_OF(without_dispatch_there_is_no_descriptor, c, CONFORM_RUNTIME) {
    tl_client *client = client_in(c, false);
    tl_lock *lock = conform_lock(c, client, TTL_MS);
    assert_int_equal(tl_client_fd(client), -1);
    outcome *o = begin(lock, SOON_MS);
    assert_int_equal(tl_client_dispatch(client), 0);
    ASSERT_RESULT(await_told(client, o, SOON_MS), TL_OK);
    assert_false(pthread_equal(o->thread, pthread_self()));
}

CONFORM_OF(events_of_a_lock_come_by_dispatch_too, c, CONFORM_RUNTIME) {
    tl_client *client = client_in(c, true);
    lock_events *events = make_events();
    lock_event event;
    tl_lock *lock = conform_lock_with(
        c, client,
        TL_LOCK_OPTIONS(.ttl_ms = LASTING_MS, .on_event = lock_events_add, .ctx = events));
    ASSERT_RESULT(acquire(lock, SOON_MS), TL_OK);
    conform_do(c, "SET %s another's", c->key);
    WAIT_FOR(SOON_MS, tl_lock_state(lock) == TL_LOST);
    assert_true(readable(client, SOON_MS));
    assert_int_equal(lock_events_count(events), 0);
    assert_int_equal(tl_client_dispatch(client), 1);
    assert_true(lock_events_find(events, 0, TL_LOST, &event));
    assert_int_equal(event.why, TL_LOST_TAKEN);
    ASSERT_RESULT(release(lock), TL_ETAKEN);
    conform_do(c, "DEL %s", c->key);
}

static void mend(conform *c, tl_lock *lock, int64_t ttl_ms) {
    conform_heal(c);
    ASSERT_RESULT(tl_lock_extend(lock, ttl_ms, &said), TL_OK);
}

CONFORM_OF(a_risk_that_was_over_before_it_could_be_told_is_not_told, c,
           CONFORM_RENEWAL | CONFORM_FENCE | CONFORM_RUNTIME) {
    tl_client *client = client_in(c, true);
    lock_events *events = make_events();
    tl_lock *lock = conform_lock_with(
        c, client,
        TL_LOCK_OPTIONS(.ttl_ms = LASTING_MS, .on_event = lock_events_add, .ctx = events));
    ASSERT_RESULT(acquire(lock, SOON_MS), TL_OK);
    conform_spoil(c);
    WAIT_FOR(SOON_MS, tl_lock_state(lock) == TL_AT_RISK);
    mend(c, lock, LASTING_MS);
    assert_int_equal(tl_client_dispatch(client), 0);
    conform_spoil(c);
    WAIT_FOR(SOON_MS, tl_lock_state(lock) == TL_AT_RISK);
    assert_int_equal(tl_client_dispatch(client), 1);
    mend(c, lock, TTL_MS);
    assert_int_equal(tl_client_dispatch(client), 1);
    assert_int_equal(lock_events_count(events), 2);
    assert_int_equal(events->event[0].state, TL_AT_RISK);
    assert_int_equal(events->event[1].state, TL_HELD);
    ASSERT_RESULT(release(lock), TL_OK);
}

/* ---- waiting ------------------------------------------------------------------------------------- */

BOTH_WAYS(a_waiter_is_woken_by_anothers_release) {
    tl_client *client = client_in(c, dispatch);
    tl_lock *holder = conform_lock(c, conform_client(c), TTL_MS);
    tl_lock *lock = conform_lock(c, client, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    uint64_t count = conform_count(c);
    outcome *o = begin(lock, TL_FOREVER);
    int64_t began = clock_ms();
    WAIT_FOR(SOON_MS,
             conform_count(c) >= count + 6); /* login, take; login, ping, subscribe; look */
    assert_told_no_more(c, client, o, 0);
    /* a renewal or a look now and then, where the machine is slow */
    int64_t looks = (clock_ms() - began) / 500;
    assert_in_range(conform_count(c) - count, 6, 12 + looks);
    ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
    ASSERT_RESULT(await_told(client, o, SOON_MS), TL_OK);
    assert_true(tl_lock_fence(lock) > tl_lock_fence(holder));
}

/* The limit may cut short the last look of one that polls, or its only one, which then can't say: it
 * waits anew, each time for twice as long. */
static void assert_times_out(tl_lock *lock) {
    tl_err code = TL_EUNCERTAIN;
    for (int64_t ms = LIMIT_MS; ms < SOON_MS && (code == TL_EUNCERTAIN || code == TL_EUNAVAILABLE);
         ms *= 2) {
        int64_t began = clock_ms();
        code = acquire(lock, ms);
        ASSERT_TOOK(began, ms, ms);
    }
    ASSERT_RESULT(code, TL_ETIMEDOUT);
}

BOTH_WAYS(a_wait_ends_at_its_limit) {
    tl_client *client = client_in(c, dispatch);
    tl_lock *holder = conform_lock(c, conform_client(c), TTL_MS);
    tl_lock *front = conform_lock(c, client, TTL_MS), *lock = conform_lock(c, client, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    ASSERT_RESULT(acquire(lock, 0), TL_EBUSY);
    outcome *first = begin(front, TL_FOREVER);
    assert_times_out(lock); /* behind it */
    tl_lock_cancel(front);
    ASSERT_RESULT(await_told(client, first, SOON_MS), TL_ECANCELLED);
    assert_times_out(lock); /* at the front */
}

BOTH_WAYS(they_queue_with_those_that_block) {
    enum { LOCKS = 8 };
    tl_client *client = client_in(c, dispatch);
    tl_lock *holder = by_hand(c, client), *locks[LOCKS];
    acquiring *blocks[LOCKS] = {0};
    outcome *told[LOCKS] = {0};
    ASSERT_RESULT(acquire(holder, 0), TL_OK);
    for (int i = 0; i < LOCKS; i++) {
        locks[i] = by_hand(c, client);
        if (i % 2)
            blocks[i] = acquiring_begin(locks[i], TL_FOREVER);
        else
            told[i] = begin(locks[i], TL_FOREVER);
        await_standing(locks[i], TL_QUEUED);
    }
    ASSERT_RESULT(release(holder), TL_OK);
    uint64_t count = 0;
    for (int i = 0; i < LOCKS; i++) {
        tl_err code = i % 2 ? acquiring_end(blocks[i], SOON_MS)
                            : await_told(client, told[i], SOON_MS);
        ASSERT_RESULT(code, TL_OK);
        if (i == 0) { /* from now on it passes however slow we are: a second is unit/test_gate's */
            locks[i]->taken = tl__mono_add_ms(locks[i]->taken, TTL_MS);
            count = conform_count(c);
        } else {
            assert_true(tl_lock_fence(locks[i]) > tl_lock_fence(locks[i - 1]));
        }
        if (i + 1 == LOCKS)
            assert_int_equal(conform_count(c), count); /* all were passed on */
        ASSERT_RESULT(i % 3 ? release(locks[i]) : tl_lock_release(locks[i], &said), TL_OK);
    }
    assert_true(conform_holds(c, c->key, NULL));
}

/* ---- cancelling ---------------------------------------------------------------------------------- */

BOTH_WAYS(cancel_ends_it_in_each_phase) {
    tl_client *client = client_in(c, dispatch);
    tl_lock *holder = by_hand(c, conform_client(c));
    tl_lock *front = conform_lock(c, client, TTL_MS), *lock = conform_lock(c, client, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    tl_lock_cancel(lock); /* before it begins */
    uint64_t count = conform_count(c);
    ASSERT_RESULT(acquire(lock, TL_FOREVER), TL_ECANCELLED);
    assert_int_equal(conform_count(c), count);
    outcome *first = begin(front, TL_FOREVER), *second = begin(lock, TL_FOREVER);
    await_standing(lock, TL_QUEUED);
    tl_lock_cancel(lock);
    ASSERT_RESULT(await_told(client, second, SOON_MS), TL_ECANCELLED);
    ASSERT_SAID("cancelled");
    WAIT_FOR(SOON_MS, conform_count(c) >= count + 6);
    assert_int_equal(atomic_load(&first->told), 0);
    tl_lock_cancel(front);
    ASSERT_RESULT(await_told(client, first, SOON_MS), TL_ECANCELLED);
    ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
    ASSERT_RESULT(acquire(lock, SOON_MS), TL_OK); /* this one isn't cancelled */
}

BOTH_WAYS(a_cancel_at_any_moment_leaves_no_lock_behind) {
    tl_client *client = client_in(c, dispatch);
    tl_lock *a = conform_lock(c, client, TTL_MS), *b = conform_lock(c, client, TTL_MS);
    int got = 0;
    for (int i = 0; i < 100; i++) {
        outcome *first = begin(a, TL_FOREVER), *second = begin(b, TL_FOREVER);
        for (volatile int spin = 0; spin < i * 1000; spin++) {}
        tl_lock_cancel(i % 2 ? a : b);
        for (int j = 0; j < 2; j++) { /* whoever gets it lets the other have it */
            outcome *o = j ? second : first;
            if (await_told(client, o, SOON_MS) == TL_OK) {
                got++;
                ASSERT_RESULT(release(j ? b : a), TL_OK);
            } else {
                ASSERT_RESULT(o->code, TL_ECANCELLED);
            }
        }
        tl_lock_cancel(a); /* perhaps it had come too late: use it up */
        tl_lock_cancel(b);
        ASSERT_RESULT(acquire(a, 0), TL_ECANCELLED);
        ASSERT_RESULT(acquire(b, 0), TL_ECANCELLED);
    }
    print_message("had it %d times\n", got);
    assert_key_is_free_soon(c);
}

typedef struct {
    tl_lock *lock;
    atomic_int round, over; /* which one the canceller is to cancel, and has cancelled */
} canceller;

static void *cancel_in_time(void *ctx) {
    canceller *k = ctx;
    for (int done = 0, round; (round = atomic_load(&k->round)) >= 0;) {
        if (round == done)
            continue;
        for (volatile int spin = 0; spin < round % 64 * 16; spin++) {}
        tl_lock_cancel(k->lock);
        done = round;
        atomic_store(&k->over, done);
    }
    return NULL;
}

/* Before it begins, while it begins, or after: it never waits on. */
CONFORM_OF(a_cancel_while_it_begins_is_not_lost, c, CONFORM_RUNTIME) {
    static canceller k;
    tl_client *client = client_in(c, false);
    tl_lock *holder = conform_lock(c, client, TTL_MS);
    pthread_t thread;
    k = (canceller){.lock = conform_lock(c, client, TTL_MS)};
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    assert_int_equal(pthread_create(&thread, NULL, cancel_in_time, &k), 0);
    int told = 1, began = 0;
    while (told && began < 1000) {
        atomic_store(&k.round, ++began);
        outcome *o = begin(k.lock, TL_FOREVER);
        const clock_wait bound = clock_wait_begin(SOON_MS);
        while (!(told = atomic_load(&o->told)) && clock_wait_more(&bound)) {}
        assert_true(!told || o->code == TL_ECANCELLED);
        WAIT_FOR(SOON_MS, atomic_load(&k.over) == began);
    }
    atomic_store(&k.round, -1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    if (!told)
        fail_msg("cancelled, and not told: round %d", began);
}

static atomic_bool is_busy, may_go_on;

static void keep_busy(tl_lock *lock, tl_err code, const tl_error *err, void *ctx) {
    const clock_wait bound = clock_wait_begin(SOON_MS);
    atomic_store(&is_busy, true);
    while (!atomic_load(&may_go_on) && clock_wait_more(&bound)) {}
    note(lock, code, err, ctx);
}

/* While the keeper is busy, the lock is handed over, and its next holder cancels. */
CONFORM_OF(a_cancel_together_with_the_hand_over_loses_no_lock, c, CONFORM_RUNTIME) {
    tl_client *client = client_in(c, false);
    tl_lock *before = conform_lock(c, client, TTL_MS), *first = conform_lock(c, client, TTL_MS);
    tl_lock *second = conform_lock(c, client, TTL_MS);
    tl_lock *other = make_lock(client, "conform:busy", TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(before, 0, &said), TL_OK);
    acquiring *a = acquiring_begin(first, TL_FOREVER);
    await_standing(first, TL_QUEUED);
    outcome *o = begin(second, TL_FOREVER), *busy = new_outcome();
    await_standing(second, TL_QUEUED);
    ASSERT_RESULT(tl_lock_release(before, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(a, SOON_MS), TL_OK);
    first->taken = tl__mono_add_ms(first->taken, TTL_MS); /* it passes on however slow we are */
    atomic_store(&is_busy, false);
    atomic_store(&may_go_on, false);
    ASSERT_RESULT(tl_lock_acquire_async(other, 0, keep_busy, busy, &said), TL_OK);
    WAIT_FOR(SOON_MS, atomic_load(&is_busy));
    ASSERT_RESULT(tl_lock_release(first, &said), TL_OK);
    assert_int_equal(standing(second), TL_FRONT);
    tl_lock_cancel(second);
    atomic_store(&may_go_on, true);
    if (await_told(client, o, SOON_MS) == TL_OK)
        ASSERT_RESULT(tl_lock_release(second, &said), TL_OK);
    else
        ASSERT_RESULT(o->code, TL_ECANCELLED);
    assert_key_is_free_soon(c);
    ASSERT_RESULT(await_told(client, busy, SOON_MS), TL_OK);
    ASSERT_RESULT(tl_lock_release(other, &said), TL_OK);
}

/* ---- freeing ------------------------------------------------------------------------------------- */

BOTH_WAYS(a_lock_freed_in_any_phase_is_told_nothing_and_leaves_nothing) {
    tl_client *client = client_in(c, dispatch);
    tl_lock *holder = conform_lock(c, conform_client(c), TTL_MS);
    tl_lock *front = conform_lock(c, client, TTL_MS), *lock = conform_lock(c, client, TTL_MS);
    tl_lock *last = conform_lock(c, client, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    outcome *o[3] = {begin(front, TL_FOREVER), begin(lock, TL_FOREVER), begin(last, TL_FOREVER)};
    await_standing(last, TL_QUEUED);
    drop_lock(lock);  /* queued */
    drop_lock(front); /* contending */
    ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
    ASSERT_RESULT(await_told(client, o[2], SOON_MS), TL_OK);
    ASSERT_RESULT(release(last), TL_OK);
    outcome *releasing;
    ASSERT_RESULT(acquire(last, SOON_MS), TL_OK);
    releasing = begin_release(last);
    drop_lock(last); /* releasing */
    assert_key_is_free_soon(c);
    assert_told_no_more(c, client, o[0], 0);
    assert_int_equal(atomic_load(&o[1]->told), 0);
    assert_true(dispatch ? atomic_load(&releasing->told) == 0 : atomic_load(&releasing->told) <= 1);
}

CONFORM_OF(a_lock_freed_before_it_is_told_that_it_holds_is_given_back, c, CONFORM_RUNTIME) {
    tl_client *client = client_in(c, true);
    tl_lock *lock = conform_lock(c, client, TTL_MS), *next = conform_lock(c, client, TTL_MS);
    outcome *o = begin(lock, TL_FOREVER), *p = begin(next, TL_FOREVER);
    assert_true(readable(client, SOON_MS)); /* completed, and untold */
    drop_lock(lock);
    ASSERT_RESULT(await_told(client, p, SOON_MS), TL_OK);
    ASSERT_RESULT(release(next), TL_OK);
    assert_told_no_more(c, client, o, 0);
    assert_key_is_free_soon(c);
}

BOTH_WAYS(a_lock_freed_at_any_moment_leaves_nothing_behind) {
    tl_client *client = client_in(c, dispatch);
    for (int i = 0; i < 60; i++) {
        tl_lock *a = conform_lock(c, client, TTL_MS), *b = conform_lock(c, client, TTL_MS);
        outcome *first = begin(a, TL_FOREVER), *second = begin(b, TL_FOREVER);
        for (volatile int spin = 0; spin < i * 2000; spin++)
            if (i % 3 == 0)
                serve(client), spin += 999;
        int told = atomic_load(&first->told); /* once: what is told after this is told meanwhile */
        if (told == 1)                        /* then it is the caller's to release */
            ASSERT_RESULT(tl_lock_release(a, &said), TL_OK);
        drop_lock(a);
        if (told == 0 && atomic_load(&first->told) == 1) { /* told meanwhile, and then freed held */
            conform_do(c, "DEL %s", c->key);
            conform_do(c, "DEL tidelock:{%s}", c->key);
        }
        ASSERT_RESULT(await_told(client, second, SOON_MS), TL_OK);
        ASSERT_RESULT(release(b), TL_OK);
        drop_lock(b);
    }
    assert_key_is_free_soon(c);
}

/* ---- one at a time --------------------------------------------------------------------------------- */

BOTH_WAYS(nothing_else_may_be_done_meanwhile) {
    tl_client *client = client_in(c, dispatch);
    tl_lock *holder = conform_lock(c, conform_client(c), TTL_MS);
    tl_lock *lock = conform_lock(c, client, TTL_MS);
    outcome *none = new_outcome();
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    outcome *o = begin(lock, TL_FOREVER);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_EINVALID);
    ASSERT_SAID("another operation");
    ASSERT_RESULT(tl_lock_acquire_async(lock, 0, note, none, &said), TL_EINVALID);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_EINVALID);
    ASSERT_RESULT(tl_lock_release_async(lock, note, none, &said), TL_EINVALID);
    ASSERT_RESULT(tl_lock_extend(lock, TTL_MS, &said), TL_EINVALID);
    ASSERT_RESULT(tl_lock_adopt(lock, "token", &said), TL_EINVALID);
    assert_int_equal(tl_lock_state(lock), TL_FREE);
    ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
    ASSERT_RESULT(await_told(client, o, SOON_MS), TL_OK);
    ASSERT_RESULT(tl_lock_acquire_async(lock, 0, note, none, &said), TL_EINVALID);
    ASSERT_SAID("holds it already");
    ASSERT_RESULT(release(lock), TL_OK);
    ASSERT_RESULT(tl_lock_release_async(lock, note, none, &said), TL_EINVALID);
    ASSERT_SAID("not held");
    ASSERT_RESULT(tl_lock_acquire_async(lock, -1, note, none, &said), TL_EINVALID);
    ASSERT_RESULT(tl_lock_acquire_async(lock, 0, NULL, none, &said), TL_EINVALID);
    ASSERT_RESULT(acquire(lock, 0), TL_OK);
    ASSERT_RESULT(tl_lock_release_async(lock, NULL, none, &said), TL_EINVALID);
    ASSERT_RESULT(release(lock), TL_OK);
    assert_int_equal(atomic_load(&none->told), 0);
}

/* ---- from within a callback ------------------------------------------------------------------------ */

#define CHAIN_ROUNDS 25

typedef struct {
    int rounds;
    atomic_int ended; /* told for the last time */
    tl_err worst;
    int *counter; /* no atomic: the lock protects it */
} chain;

static void on_released(tl_lock *lock, tl_err code, const tl_error *err, void *ctx);

static void on_acquired(tl_lock *lock, tl_err code, const tl_error *err, void *ctx) {
    chain *s = ctx;
    (void)err;
    if (!code)
        (*s->counter)++;
    s->worst = code ? code : tl_lock_release_async(lock, on_released, ctx, NULL);
    if (s->worst)
        atomic_store(&s->ended, 1);
}

static void on_released(tl_lock *lock, tl_err code, const tl_error *err, void *ctx) {
    chain *s = ctx;
    (void)err;
    s->worst = code;
    if (!code && ++s->rounds < CHAIN_ROUNDS)
        s->worst = tl_lock_acquire_async(lock, 60000, on_acquired, ctx, NULL);
    if (s->worst || s->rounds == CHAIN_ROUNDS)
        atomic_store(&s->ended, 1);
}

static void await_chains(tl_client **clients, int client_count, chain *chains, int count) {
    const clock_wait bound = clock_wait_begin(12 * SOON_MS);
    for (int i = 0; i < count;) {
        i += atomic_load(&chains[i].ended);
        for (int j = 0; j < client_count; j++)
            serve(clients[j]);
        if (i < count && !clock_wait_more(&bound))
            fail_msg("chain %d has not ended", i);
    }
    for (int i = 0; i < count; i++) {
        ASSERT_RESULT(chains[i].worst, TL_OK);
        assert_int_equal(chains[i].rounds, CHAIN_ROUNDS);
    }
}

BOTH_WAYS(the_next_operation_begins_within_the_callback) {
    enum { CLIENTS = 3, CHAINS = 12 };
    static chain chains[CHAINS];
    static int counter;
    tl_client *clients[CLIENTS];
    counter = 0;
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = client_in(c, dispatch);
    for (int i = 0; i < CHAINS; i++) {
        chains[i] = (chain){.counter = &counter};
        tl_lock *lock = conform_lock(c, clients[i % CLIENTS], TTL_MS);
        ASSERT_RESULT(tl_lock_acquire_async(lock, 60000, on_acquired, &chains[i], &said), TL_OK);
    }
    await_chains(clients, CLIENTS, chains, CHAINS);
    assert_int_equal(counter, CHAINS * CHAIN_ROUNDS);
    assert_true(conform_holds(c, c->key, NULL));
}

static void free_it(tl_lock *lock, tl_err code, const tl_error *err, void *ctx) {
    outcome *o = ctx;
    tl_client *client = lock->client;
    (void)err;
    o->code = code ? code : tl_lock_release(lock, NULL); /* with dispatch anything may be called */
    tl_lock_free(lock);
    o->code = o->code ? o->code : tl_client_ping(client, NULL);
    o->has_err = o->code != TL_OK;
    atomic_fetch_add(&o->told, 1);
}

CONFORM_OF(with_dispatch_a_callback_may_free_its_lock, c, CONFORM_RUNTIME) {
    tl_client *client = client_in(c, true);
    const tl_lock_options options = TL_LOCK_OPTIONS(.ttl_ms = TTL_MS);
    tl_lock *lock = tl_lock_new(client, c->key, strlen(c->key), &options, &said);
    outcome *o = new_outcome();
    ASSERT_RESULT(tl_lock_acquire_async(lock, SOON_MS, free_it, o, &said), TL_OK);
    ASSERT_RESULT(await_told(client, o, SOON_MS), TL_OK);
    assert_key_is_free_soon(c);
}

static atomic_bool tired;

static void again(tl_lock *lock, tl_err code, const tl_error *err, void *ctx) {
    outcome *o = ctx;
    (void)err;
    o->code = code;
    tl_lock_cancel(lock); /* so that the next ends at once */
    if (!atomic_load(&tired) && atomic_fetch_add(&o->told, 1) < 1000000)
        (void)tl_lock_acquire_async(lock, TL_FOREVER, again, o, NULL);
}

CONFORM_OF(dispatch_comes_back_though_callbacks_go_on_and_on, c, CONFORM_RUNTIME) {
    tl_client *client = client_in(c, true);
    tl_lock *lock = conform_lock(c, client, TTL_MS);
    outcome *o = new_outcome();
    atomic_store(&tired, false);
    tl_lock_cancel(lock);
    ASSERT_RESULT(tl_lock_acquire_async(lock, TL_FOREVER, again, o, &said), TL_OK);
    for (int i = 1; i < 4; i++) {
        assert_true(readable(client, SOON_MS));
        assert_in_range(tl_client_dispatch(client), 1, 64);
        assert_int_equal(o->code, TL_ECANCELLED);
    }
    atomic_store(&tired, true);
    while (tl_client_dispatch(client) > 0) {}
    assert_false(readable(client, 0));
}

/* Those of the keeper's own don't keep it from renewing. */
CONFORM_OF(a_held_lock_is_renewed_though_callbacks_go_on_and_on, c, CONFORM_RUNTIME) {
    tl_client *client = client_in(c, false);
    lock_events *events = make_events();
    tl_lock *held = conform_lock_with(
        c, client,
        TL_LOCK_OPTIONS(.ttl_ms = LASTING_MS, .on_event = lock_events_add, .ctx = events));
    tl_lock *lock = make_lock(client, "conform:other", TTL_MS);
    outcome *o = new_outcome();
    ASSERT_RESULT(acquire(held, SOON_MS), TL_OK);
    atomic_store(&tired, false);
    tl_lock_cancel(lock);
    ASSERT_RESULT(tl_lock_acquire_async(lock, TL_FOREVER, again, o, &said), TL_OK);
    const uint64_t renewals = renewals_of(client);
    WAIT_FOR(SOON_MS, renewals_of(client) >= renewals + 2);
    int told = atomic_load(&o->told);
    atomic_store(&tired, true);
    assert_true(told > 64);
    ASSERT_GOES_ON(held);
    assert_int_equal(lock_events_count_of(events, TL_LOST), 0);
    ASSERT_RESULT(release(held), TL_OK);
}

BOTH_WAYS(many_operations_are_under_way_at_once) {
    enum { LOCKS = 60 };
    tl_client *client = client_in(c, dispatch);
    tl_lock *locks[LOCKS];
    outcome *o[LOCKS];
    for (int i = 0; i < LOCKS; i++) {
        char key[96];
        (void)snprintf(key, sizeof key, "%s:%d", c->key, i);
        locks[i] = make_lock(client, key, TTL_MS);
    }
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < LOCKS; i++)
            o[i] = round ? begin_release(locks[i]) : begin(locks[i], SOON_MS);
        for (int i = 0; i < LOCKS; i++)
            ASSERT_RESULT(await_told(client, o[i], SOON_MS), TL_OK);
    }
}

/* ---- a server that is away ------------------------------------------------------------------------- */

static tl_client *client_behind(conform *c, proxy *p, bool dispatch) {
    return conform_client_with(c, TL_CLIENT_OPTIONS(.url = proxy_url(p), .dispatch = dispatch));
}

/* One who is to reach his limits. */
static tl_client *hasty_client_behind(conform *c, proxy *p, bool dispatch) {
    return conform_client_with(c,
                               TL_CLIENT_OPTIONS(.url = proxy_url(p), .attempt_ms = ATTEMPT_MS,
                                                 .connect_ms = CONNECT_MS, .dispatch = dispatch));
}

/* What it reads itself is lost with its connection, and it goes on. */
CONFORM_OF(a_busy_loop_outlives_its_connection, c, CONFORM_RUNTIME) {
    proxy *p = conform_proxy(c);
    tl_client *client = client_behind(c, p, true);
    tl_lock *lock = conform_lock(c, client, TTL_MS);
    for (int i = 0; i < 3; i++) {
        make_busy(client, lock);
        proxy_reset(p);
        WAIT_FOR(SOON_MS, acquire(lock, SOON_MS) == TL_OK);
        ASSERT_RESULT(release(lock), TL_OK);
    }
}

/* It has nothing open but the connection, and tells when that is so. */
static int child_keeps(tl_client *client, int end) {
    int kept = tl__conn_fd(client->keeper.first.conn);
    char byte = 0;
    (void)alarm(300);
    bool refused = tl_client_dispatch(client) == 0 && tl_client_fd(client) == -1;
    for (int fd = 3; fd < 1024; fd++)
        if (fd != kept && fd != end)
            (void)close(fd);
    return refused && write(end, "", 1) == 1 && read(end, &byte, 1) == 0 ? 0 : 1;
}

/* Nor does what it keeps open show in the parent's descriptor. */
CONFORM_OF(a_forked_child_is_no_turn_of_a_busy_loop, c, CONFORM_RUNTIME) {
    proxy *p = conform_proxy(c);
    tl_client *client = client_behind(c, p, true);
    tl_lock *lock = conform_lock(c, client, TTL_MS);
    int status, ends[2];
    char byte = 1;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    make_busy(client, lock);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(child_keeps(client, ends[0]));
    assert_int_equal(close(ends[0]), 0);
    assert_int_equal(read(ends[1], &byte, 1), 1);
    make_busy(client, lock);
    proxy_reset(p);
    WAIT_FOR(SOON_MS, acquire(lock, SOON_MS) == TL_OK);
    ASSERT_RESULT(release(lock), TL_OK);
    assert_false(readable(client, 0));
    assert_int_equal(close(ends[1]), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

BOTH_WAYS(a_server_that_is_not_reached_is_unavailable) {
    proxy *p = conform_proxy(c);
    tl_client *client = hasty_client_behind(c, p, dispatch);
    tl_lock *lock = conform_lock(c, client, TTL_MS), *second = conform_lock(c, client, TTL_MS);
    proxy_stop(p);
    const int64_t waits[] = {0, TL_FOREVER, 100};
    for (int i = 0; i < 3; i++) {
        int64_t began = clock_ms();
        ASSERT_RESULT(acquire(lock, waits[i]), TL_EUNAVAILABLE);
        ASSERT_TOOK(began, waits[i] == 100 ? 100 : CONNECT_MS, CONNECT_MS);
    }
    int64_t began = clock_ms();
    outcome *o = begin(lock, TL_FOREVER);
    ASSERT_RESULT(acquire(second, TL_FOREVER), TL_EUNAVAILABLE); /* behind it, and no longer */
    ASSERT_RESULT(await_told(client, o, SOON_MS), TL_EUNAVAILABLE);
    assert_int_equal(o->err.sys_errno, ETIMEDOUT);
    ASSERT_TOOK(began, CONNECT_MS, CONNECT_MS);
    proxy_heal(p);
    ASSERT_RESULT(acquire(second, SOON_MS), TL_OK);
}

/* What was taken unheard is given back in the background, also when the lock is freed meanwhile, and
 * when its client is closed straight after. */
BOTH_WAYS(a_lost_answer_is_uncertain_and_is_undone) {
    enum { TOLD, FREED, CLOSED, WAYS };
    proxy *p = conform_proxy(c);
    for (int way = TOLD; way < WAYS; way++) {
        tl_client *client = hasty_client_behind(c, p, dispatch);
        tl_lock *lock = conform_lock(c, client, TTL_MS);
        ASSERT_RESULT(acquire(lock, SOON_MS), TL_OK); /* connected */
        tl_err code = release(lock);
        if (code != TL_EUNCERTAIN) /* no answer in time: it is released all the same */
            ASSERT_RESULT(code, TL_OK);
        WAIT_FOR(SOON_MS, conform_int(c, "EXISTS %s", c->key) == 0);
        proxy_break(p, PROXY_REPLIES, 0, PROXY_MUTE, PROXY_ALL);
        outcome *o = NULL;
        if (way == TOLD) { /* anew, if its limit came before it had asked */
            WAIT_FOR(SOON_MS, acquire(lock, ATTEMPT_MS + 50) == TL_EUNCERTAIN);
            assert_int_equal(tl_lock_state(lock), TL_FREE);
            proxy_heal(p);
        } else {
            o = begin(lock, TL_FOREVER);
            WAIT_FOR(SOON_MS, conform_int(c, "EXISTS %s", c->key) == 1);
            drop_lock(lock);
        }
        if (way == CLOSED)
            drop_client(client);
        WAIT_FOR(SOON_MS, conform_int(c, "EXISTS %s", c->key) == 0);
        proxy_heal(p);
        assert_true(!o || atomic_load(&o->told) == 0);
        assert_key_is_free_soon(c);
    }
}

BOTH_WAYS(a_release_without_answer_is_uncertain_and_goes_on) {
    proxy *p = conform_proxy(c);
    tl_client *client = hasty_client_behind(c, p, dispatch);
    tl_lock *lock = conform_lock(c, client, TTL_MS);
    ASSERT_RESULT(acquire(lock, SOON_MS), TL_OK);
    proxy_break(p, PROXY_REQUESTS, 0, PROXY_MUTE, PROXY_ALL);
    int64_t began = clock_ms();
    tl_err code = release(lock);
    assert_true(code == TL_EUNCERTAIN || code == TL_EUNAVAILABLE);
    ASSERT_TOOK(began, 0, ATTEMPT_MS + CONNECT_MS);
    assert_true(conform_holds(c, c->key, tl_lock_token(lock)));
    proxy_heal(p);
    WAIT_FOR(SOON_MS, conform_int(c, "EXISTS %s", c->key) == 0);
    ASSERT_RESULT(acquire(lock, SOON_MS), TL_OK);
}

CONFORM_MAIN
