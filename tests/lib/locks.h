/*
 * The public face in a test's words: clients and locks that are freed after the test, the error of
 * the call before, what a callback was told, and calls on threads of their own.
 */
#pragma once

#include <stdatomic.h>
#include <pthread.h>

#include <tidelock/inspect.h>
#include <tidelock/legacy.h>
#include <tidelock/tidelock.h>

#include "clock_wait.h"

/* ---- clients and locks ------------------------------------------------------------------------- */

/** They fail the test when they can't, and belong to it until locks_clean_up. Main thread only. A client has SOON_MS for what its
 *  options leave at 0 of attempt_ms and connect_ms, so that no result depends on how busy the machine is. */
tl_client *make_client(const char *url);
tl_client *make_client_with(tl_client_options options);
tl_lock *make_lock(tl_client *client, const char *key, int64_t ttl_ms);
tl_lock *make_lock_with(tl_client *client, const char *key, tl_lock_options options);
tl_lock *make_lock_n(tl_client *client, const void *key, size_t n, tl_lock_options options);

/** A lifetime that a renewal saves, though the machine stops everybody for some seconds. */
#define LASTING_MS clock_patient_ms(10000)
/** How many renewals of its locks have succeeded so far. The first of a lock comes within a second. */
uint64_t renewals_of(tl_client *client);

/** Before the end of the test. */
void drop_lock(tl_lock *lock);
void drop_client(tl_client *client);

/** Ends what still runs and frees what is left: a cmocka teardown. */
int locks_clean_up(void **state);

/* ---- results ----------------------------------------------------------------------------------- */

/** For the last argument of a call on the main thread. */
extern tl_error said;

#define ASSERT_RESULT(call, expected) locks__result((call), (expected), #call, __FILE__, __LINE__)
/** What a holder counts on of `ms` on the server's clock, asked for at most `slack` ago: what the rates of two clocks
 *  leave of it, (1 - drift) / (1 + drift), with the default of 10.15 %. */
#define BELIEVED_MS(ms) ((int64_t)(ms)*898500 / 1101500)
#define ASSERT_BELIEVES(remaining, ms, slack)                                                      \
    assert_in_range((remaining), BELIEVED_MS(ms) > (slack) ? BELIEVED_MS(ms) - (slack) : 1,        \
                    BELIEVED_MS(ms))

/** The call before failed with one line that has these words. */
#define ASSERT_SAID(words) locks__said((words), __FILE__, __LINE__)

void locks__result(tl_err got, tl_err expected, const char *call, const char *file, int line);
void locks__said(const char *words, const char *file, int line);

/** Acquire what isn't to be had, for wait_ms, no less and not much more. The limit may cut short the last
 *  look of one that polls, or its only one, which then can't say: it waits anew, each time for twice as long. */
tl_err acquire_to_limit(tl_lock *lock, int64_t wait_ms);

/** The lock goes on: it is believed in, and its keeper is sure of it at last. On a busy machine a renewal may
 *  come late for a moment, which is a risk; what is lost stays lost, and fails at once. */
#define ASSERT_GOES_ON(lock)                                                                       \
    do {                                                                                           \
        assert_true(tl_lock_remaining_ms(lock) > 0);                                               \
        WAIT_FOR(SOON_MS, tl_lock_state(lock) != TL_AT_RISK);                                      \
        assert_int_equal(tl_lock_state(lock), TL_HELD);                                            \
    } while (0)

/* ---- events ------------------------------------------------------------------------------------ */

#define LOCK_EVENTS_MAX 64

typedef struct {
    tl_state state;
    tl_lost_why why;
    int64_t remaining_ms, at_us;
    bool stolen;
    int64_t thief_ahead_ms;
    char detail[160];
} lock_event;

typedef struct {
    pthread_mutex_t mutex;
    int count; /**< see lock_events_count */
    lock_event event[LOCK_EVENTS_MAX];
} lock_events;

/** Empty; belongs to the test. */
lock_events *make_events(void);
/** For on_event, with the lock_events as ctx. */
void lock_events_add(tl_lock *lock, const tl_lock_event *event, void *ctx);
int lock_events_count(lock_events *e);
/** The first of this state from number `from` on; false: there is none yet. */
bool lock_events_find(lock_events *e, int from, tl_state state, lock_event *ret);
/** How many are of this state. */
int lock_events_count_of(lock_events *e, tl_state state);
/** The first risk that it was told of, or the loss when it was told of that alone: the keeper was held up
 *  for as long as the risk lasted. */
lock_event lock_events_await_risk_or_loss(lock_events *e, int64_t bound_ms);
/** Wait until there is. */
lock_event lock_events_await(lock_events *e, tl_state state, int64_t bound_ms);

/* ---- acquiring on another thread --------------------------------------------------------------- */

typedef struct {
    tl_lock *lock;
    int64_t wait_ms, began_ms, ended_us;
    tl_err code;
    tl_error err;
    pthread_t thread;
    atomic_bool done;
    bool running; /**< not joined yet */
} acquiring;

acquiring *acquiring_begin(tl_lock *lock, int64_t wait_ms);
/** Of one that has ended: so much passed within it at least, and at most so much and the slack. */
#define ASSERT_WAITED(a, least_ms, most_ms)                                                        \
    assert_in_range((a)->ended_us / 1000 - (a)->began_ms, (least_ms), (most_ms) + SLACK_MS)
/** Its result; the test fails when it takes longer than bound_ms from now. */
tl_err acquiring_end(acquiring *a, int64_t bound_ms);
