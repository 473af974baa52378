/*
 * Conformance: a lock that rests. Nobody holds it and nobody acquires it before the end, by the server's clock; then the next
 * waiter acquires it.
 * timeout: 240
 */
#include <poll.h>
#include <string.h>

#include "client/lock.h"
#include "conform.h"
#include "queue_look.h"

#define TTL_MS 45000      /* longer than what is to happen soon */
#define HOUR_MS 3600000   /* a rest that no test outlasts */
#define BRIEF_MS 1500     /* one that is waited out */
#define SECOND_US 1000000 /* what the server has noted for an acquire may be so much too early */
#define RESTS "it rests: nobody holds it, and nobody acquires it before the rest ends"
#define TRIES 50 /* of a machine that is too slow for what a test is about */

/* ---- the server's clock ------------------------------------------------------------------------ */

/* The server's clock, us, before and after an acquire, and before the rest. */
typedef struct {
    int64_t from, to, rests;
} span;

static int64_t server_us(conform *c) {
    return conform_int(c, "EVAL %s 0", "local t = redis.call('TIME') return t[1] * 1000000 + t[2]");
}

/* M and L of the rows with stamps, and what is rounded. */
#define STAMP_LATE_US 5000

/* K's stamp ends M after the rest, and S binds for M longer. */
static int64_t stamp_end_us(conform *c) {
    static const char script[] =
        "local s = redis.call('HMGET', KEYS[2], 'token', 'value', 'until') "
        "local found = redis.call('GET', KEYS[1]) "
        "if string.sub(s[1], 1, 8) ~= 'resting ' or found ~= s[2] then return -2 end "
        "local ends = found * 1000 "
        "return tonumber(s[3]) >= ends and tonumber(s[3]) < ends + 2000 and ends or -3";
    return conform_int(c, "EVAL %s 2 %s tidelock:{%s}", script, c->key, c->key);
}

/* When the rest ends, us: S says so exactly. K ends about then: the server may be stopped between two commands of a script. */
static int64_t end_us(conform *c) {
    if (c->row->stamps)
        return stamp_end_us(c);
    static const char script[] =
        "if string.sub(redis.call('GET', KEYS[1]), 1, 8) ~= 'resting ' then return -2 end "
        "local ms, t = redis.call('PTTL', KEYS[1]), redis.call('TIME') "
        "local ends = tonumber(redis.call('HGET', KEYS[2], 'until')) "
        "local off = math.abs(t[1] * 1000000 + t[2] + ms * 1000 - ends) "
        "return off < tonumber(ARGV[1]) * 1000 and ends or -3";
    return conform_int(c, "EVAL %s 2 %s tidelock:{%s} %d", script, c->key, c->key, (int)SLACK_MS);
}

static span acquire(conform *c, tl_lock *lock) {
    span at = {.from = server_us(c)};
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    at.rests = at.to = server_us(c);
    return at;
}

static void rest(conform *c, tl_lock *lock, int64_t ms, span *at) {
    at->rests = server_us(c);
    ASSERT_RESULT(tl_lock_rest(lock, ms, &said), TL_OK);
}

/* It ends so long after the acquire, by the server's clock. It may end later by the round trip of the acquire, and by what two
 * clocks make of the time that it was held. */
static void assert_ends(conform *c, span at, int64_t ms, int64_t more_us) {
    const int64_t rested_us = server_us(c);
    const int64_t round_trip_us = (at.to - at.from) * 5 / 4, held_us = (at.rests - at.to) / 4,
                  rest_us = (rested_us - at.rests) * 5 / 4;
    const int64_t latest_us = at.to + round_trip_us + held_us + rest_us + 5000 + more_us +
                              (c->row->stamps ? STAMP_LATE_US : 0);
    assert_in_range(end_us(c), at.from + ms * 1000, latest_us + ms * 1000);
}

/* It was acquired no earlier than so long after the span began. */
static void assert_rested(conform *c, span at, int64_t ms) {
    const int64_t passed_us = server_us(c) - at.from;
    assert_in_range(passed_us, ms * 1000, INT64_MAX);
}

/* ---- locks ------------------------------------------------------------------------------------- */

static tl_lock *other_lock(conform *c) {
    return conform_lock(c, conform_client(c), TTL_MS);
}

static tl_lock *by_hand(conform *c, tl_client *client) {
    return conform_lock_with(c, client, TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .manual_renew = true));
}

static tl_lock *holding_for(conform *c, int64_t min_hold_ms) {
    return conform_lock_with(c, conform_client(c),
                             TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .min_hold_ms = min_hold_ms));
}

/* A wait of its ends as soon as the lock is found to rest. */
static tl_lock *impatient(conform *c) {
    return conform_lock_with(c, conform_client(c),
                             TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .rest_ends_wait = true));
}

static tl_lock *resting(conform *c, int64_t ms) {
    tl_lock *lock = other_lock(c);
    (void)acquire(c, lock);
    ASSERT_RESULT(tl_lock_rest(lock, ms, &said), TL_OK);
    return lock;
}

/* The message says so, unless it is a stamp that rests. */
static void assert_says_rests(const conform *c) {
    if (conform_has(c, CONFORM_SAYS_REST))
        ASSERT_SAID(RESTS);
}

static void assert_rests(conform *c) {
    ASSERT_RESULT(tl_lock_acquire(other_lock(c), 0, &said), TL_EBUSY);
    ASSERT_SAID(c->key);
    assert_says_rests(c);
}

static void assert_is_free(conform *c) {
    tl_lock *lock = other_lock(c);
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    drop_lock(lock);
}

static void let_pass(int64_t ms) {
    const clock_wait wait = clock_wait_begin(ms);
    while (clock_wait_more(&wait)) {}
}

/* On a thread of its own, until it has asked the server at least once. */
static acquiring *begin_waiting(conform *c, tl_lock *lock) {
    const uint64_t before = conform_count(c);
    acquiring *waiter = acquiring_begin(lock, TL_FOREVER);
    WAIT_FOR(SOON_MS, conform_count(c) > before + 1); /* its login, and a take */
    return waiter;
}

static tl_stats stats_of(tl_client *client) {
    tl_stats s = {.size = sizeof s};
    ASSERT_RESULT(tl_client_stats(client, &s, &said), TL_OK);
    return s;
}

/* How what does not block has ended. */
typedef struct {
    atomic_int told;
    tl_err code;
    tl_error err;
} outcome;

static void note(tl_lock *lock, tl_err code, const tl_error *err, void *ctx) {
    outcome *o = ctx;
    (void)lock;
    o->code = code;
    if (err)
        o->err = *err;
    atomic_fetch_add(&o->told, 1);
}

static tl_err await(tl_client *client, outcome *o) {
    WAIT_FOR(SOON_MS, (tl_client_fd(client) < 0 || tl_client_dispatch(client) >= 0) &&
                          atomic_load(&o->told) > 0);
    assert_int_equal(atomic_exchange(&o->told, 0), 1);
    said = o->err;
    return o->code;
}

/* ---- while it rests ---------------------------------------------------------------------------- */

CONFORM_OF(nobody_holds_a_resting_lock_and_nobody_acquires_it, c, CONFORM_REST) {
    lock_events *events = make_events();
    tl_client *client = conform_client(c);
    tl_lock *lock = conform_lock_with(
        c, client, TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .on_event = lock_events_add, .ctx = events));
    (void)acquire(c, lock);
    const uint64_t fence = tl_lock_fence(lock);
    ASSERT_RESULT(tl_lock_rest(lock, HOUR_MS, &said), TL_OK);
    assert_int_equal(tl_lock_state(lock), TL_FREE);
    assert_int_equal(tl_lock_remaining_ms(lock), 0);
    assert_true(tl_lock_fence(lock) == fence); /* that of the last hold */
    assert_rests(c);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_EBUSY);
    assert_says_rests(c);
    ASSERT_RESULT(tl_lock_acquire(conform_lock(c, client, TTL_MS), 0, &said), TL_EBUSY);
    assert_says_rests(c);
    ASSERT_RESULT(acquire_to_limit(other_lock(c), 300), TL_ETIMEDOUT);
    assert_says_rests(c);
    assert_int_equal(lock_events_count(events), 0);
}

CONFORM_OF(a_rest_is_neither_extended_nor_released_nor_repeated, c, CONFORM_REST) {
    tl_lock *lock = other_lock(c);
    span at = acquire(c, lock);
    rest(c, lock, HOUR_MS, &at);
    ASSERT_RESULT(tl_lock_rest(lock, 2 * HOUR_MS, &said), TL_EINVALID);
    ASSERT_SAID("it is not held");
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_EINVALID);
    ASSERT_RESULT(tl_lock_extend(lock, TTL_MS, &said), TL_EINVALID);
    assert_ends(c, at, HOUR_MS, 0);
}

/* By its token, as somebody does who comes late. */
CONFORM_OF(the_spent_token_holds_nothing, c, CONFORM_REST | CONFORM_OWN_TOKEN) {
    tl_lock *lock = other_lock(c), *heir = other_lock(c);
    span at = acquire(c, lock);
    rest(c, lock, HOUR_MS, &at);
    ASSERT_RESULT(tl_lock_adopt(heir, tl_lock_token(lock), &said), TL_OK);
    const tl_err extended = tl_lock_extend(heir, TTL_MS, &said);
    assert_true(extended == TL_ETAKEN || extended == TL_EEXPIRED);
    ASSERT_RESULT(tl_lock_adopt(heir, tl_lock_token(lock), &said), TL_OK);
    const tl_err released = tl_lock_release(heir, &said);
    assert_true(released == TL_ETAKEN || released == TL_EEXPIRED);
    assert_ends(c, at, HOUR_MS, 0);
}

CONFORM_OF(a_resting_key_that_is_deleted_rests_until_its_end, c, CONFORM_REST | CONFORM_FENCE) {
    tl_lock *lock = other_lock(c), *next = other_lock(c);
    const span at = acquire(c, lock);
    ASSERT_RESULT(tl_lock_rest(lock, BRIEF_MS, &said), TL_OK);
    conform_do(c, "DEL %s", c->key);
    ASSERT_RESULT(tl_lock_acquire(next, SOON_MS, &said), TL_OK);
    assert_rested(c, at, BRIEF_MS);
    assert_true(tl_lock_fence(next) > tl_lock_fence(lock));
    ASSERT_RESULT(tl_lock_rest(next, HOUR_MS, &said), TL_OK);
    conform_do(c, "DEL %s", c->key);
    ASSERT_RESULT(tl_lock_acquire(other_lock(c), 0, &said), TL_EBUSY);
}

CONFORM_OF(a_break_ends_a_rest, c, CONFORM_REST) {
    tl_client *client = conform_client(c);
    tl_lock *waiting = other_lock(c);
    for (int i = 0; i < 2; i++) {
        (void)resting(c, HOUR_MS);
        acquiring *waiter = i ? begin_waiting(c, waiting) : NULL;
        ASSERT_RESULT(tl_client_break(client, c->key, strlen(c->key), NULL, &said), TL_OK);
        if (waiter)
            ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_OK);
        else
            assert_is_free(c);
    }
    ASSERT_RESULT(tl_lock_release(waiting, &said), TL_OK);
}

/* ---- its end ----------------------------------------------------------------------------------- */

CONFORM_OF(a_rest_ends_so_long_after_the_acquire, c, CONFORM_REST | CONFORM_GARBAGE) {
    static const int64_t rests_ms[] = {HOUR_MS, TL_REST_MAX_MS};
    tl_client *client = conform_client(c);
    for (int i = 0; i < 4; i++) {
        tl_lock *lock = i < 2 ? conform_lock(c, client, TTL_MS) : by_hand(c, client);
        span at = acquire(c, lock);
        let_pass(200); /* which is not added */
        rest(c, lock, rests_ms[i % 2], &at);
        assert_ends(c, at, rests_ms[i % 2], 0);
        conform_do(c, "DEL %s tidelock:{%s}", c->key, c->key);
    }
}

/* They try without a pause: the one that acquires it does so soon after the end. */
CONFORM_OF(nobody_acquires_it_before_the_end, c, CONFORM_REST) {
    tl_lock *lock = other_lock(c), *tries = other_lock(c);
    const span at = acquire(c, lock);
    tl_err code = TL_EBUSY;
    int64_t in_vain_us = 0;
    ASSERT_RESULT(tl_lock_rest(lock, BRIEF_MS, &said), TL_OK);
    const clock_wait bound = clock_wait_begin(SOON_MS);
    while ((code = tl_lock_acquire(tries, 0, &said)) == TL_EBUSY) {
        in_vain_us = server_us(c);
        if (clock_us() / 1000 >= bound.until_ms)
            fail_msg("it rests for ever");
    }
    ASSERT_RESULT(code, TL_OK);
    assert_rested(c, at, BRIEF_MS);
    print_message("%lld us after the acquire in vain, %lld us after it acquired\n",
                  (long long)(in_vain_us - at.from), (long long)(server_us(c) - at.from));
    assert_true(tl_lock_fence(tries) > tl_lock_fence(lock) || !conform_has(c, CONFORM_FENCE));
    ASSERT_RESULT(tl_lock_release(tries, &said), TL_OK);
}

/* The first began to wait while it was held, the second while it rests. */
CONFORM_OF(waiters_acquire_it_one_after_the_other_when_it_has_ended, c, CONFORM_REST) {
    tl_lock *lock = other_lock(c), *first = other_lock(c), *second = other_lock(c);
    const span at = acquire(c, lock);
    acquiring *a = begin_waiting(c, first);
    ASSERT_RESULT(tl_lock_rest(lock, BRIEF_MS, &said), TL_OK);
    acquiring *b = begin_waiting(c, second);
    WAIT_FOR(SOON_MS, atomic_load(&a->done) || atomic_load(&b->done));
    assert_rested(c, at, BRIEF_MS);
    print_message("acquired %lld ms after the end of the rest\n",
                  (long long)((server_us(c) - at.from) / 1000 - BRIEF_MS));
    bool first_is_it = atomic_load(&a->done); /* stamps have no queue */
    ASSERT_RESULT(acquiring_end(first_is_it ? a : b, SOON_MS), TL_OK);
    assert_false(atomic_load(&(first_is_it ? b : a)->done));
    ASSERT_RESULT(tl_lock_release(first_is_it ? first : second, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(first_is_it ? b : a, SOON_MS), TL_OK);
    ASSERT_RESULT(tl_lock_release(first_is_it ? second : first, &said), TL_OK);
}

CONFORM_OF(after_the_time_of_its_rest_it_is_released_at_once, c, CONFORM_REST) {
    static const int64_t rests_ms[] = {0, 1};
    tl_client *client = conform_client(c);
    tl_lock *next = other_lock(c);
    for (int i = 0; i < 2; i++) {
        tl_lock *lock = conform_lock(c, client, TTL_MS);
        (void)acquire(c, lock);
        acquiring *waiter = begin_waiting(c, next);
        let_pass(20);
        ASSERT_RESULT(tl_lock_rest(lock, rests_ms[i], &said), TL_OK);
        assert_int_equal(tl_lock_state(lock), TL_FREE);
        ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_OK);
        ASSERT_RESULT(tl_lock_release(next, &said), TL_OK);
    }
    assert_is_free(c);
}

/* What is noted at the server for the acquire of another process, which may be a second too early. */
CONFORM_OF(an_adopted_lock_rests_from_its_first_acquire_on, c, CONFORM_REST | CONFORM_GARBAGE) {
    tl_lock *lock = by_hand(c, conform_client(c)), *heir = other_lock(c);
    span at = acquire(c, lock);
    let_pass(1500); /* more than that */
    ASSERT_RESULT(tl_lock_adopt(heir, tl_lock_token(lock), &said), TL_OK);
    rest(c, heir, HOUR_MS, &at);
    assert_ends(c, at, HOUR_MS, SECOND_US);
    assert_rests(c);
    tl_err code = tl_lock_release(lock, &said);
    assert_true(code == TL_ETAKEN || code == TL_EEXPIRED);
    assert_ends(c, at, HOUR_MS, SECOND_US);
}

/* ---- min_hold_ms ------------------------------------------------------------------------------- */

CONFORM_OF(released_before_its_shortest_hold_it_rests, c, CONFORM_REST | CONFORM_GARBAGE) {
    tl_lock *lock = holding_for(c, HOUR_MS);
    const span at = acquire(c, lock);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    assert_int_equal(tl_lock_state(lock), TL_FREE);
    assert_rests(c);
    assert_ends(c, at, HOUR_MS, 0);
}

CONFORM_OF(released_and_freed_before_its_shortest_hold_it_rests, c, CONFORM_REST) {
    tl_client *client = conform_client(c);
    const tl_lock_options options = TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .min_hold_ms = HOUR_MS);
    tl_lock *lock = tl_lock_new(client, c->key, strlen(c->key), &options, &said);
    assert_non_null(lock);
    (void)acquire(c, lock);
    ASSERT_RESULT(tl_release(lock, &said), TL_OK);
    assert_rests(c);
}

CONFORM_OF(released_after_its_shortest_hold_it_is_free, c, CONFORM_REST) {
    tl_lock *lock = holding_for(c, 1);
    (void)acquire(c, lock);
    let_pass(20);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    assert_is_free(c);
}

CONFORM_OF(a_shorter_rest_than_the_shortest_hold_is_as_long_as_that, c,
           CONFORM_REST | CONFORM_GARBAGE) {
    static const int64_t rests_ms[] = {0, 1, 2 * HOUR_MS};
    tl_lock *lock = holding_for(c, HOUR_MS);
    for (int i = 0; i < 3; i++) {
        span at = acquire(c, lock);
        rest(c, lock, rests_ms[i], &at);
        assert_ends(c, at, i < 2 ? HOUR_MS : 2 * HOUR_MS, 0);
        conform_do(c, "DEL %s tidelock:{%s}", c->key, c->key);
    }
}

CONFORM_OF(a_held_lock_that_is_freed_does_not_rest, c,
           CONFORM_REST | CONFORM_EXPIRY | CONFORM_SHORT) {
    tl_lock *lock = conform_lock_with(
        c, conform_client(c),
        TL_LOCK_OPTIONS(.ttl_ms = BRIEF_MS, .manual_renew = true, .min_hold_ms = HOUR_MS));
    (void)acquire(c, lock);
    drop_lock(lock);
    assert_is_free(c);
}

CONFORM_OF(a_lost_lock_does_not_rest, c, CONFORM_REST | CONFORM_GARBAGE | CONFORM_SHORT) {
    tl_lock *lock = conform_lock_with(
        c, conform_client(c),
        TL_LOCK_OPTIONS(.ttl_ms = 250, .manual_renew = true, .min_hold_ms = HOUR_MS));
    for (int i = 0; i < 2; i++) {
        (void)acquire(c, lock);
        WAIT_FOR(SOON_MS, conform_int(c, "EXISTS %s", c->key) == 0);
        assert_int_equal(tl_lock_state(lock), TL_LOST);
        ASSERT_RESULT(i ? tl_lock_rest(lock, HOUR_MS, &said) : tl_lock_release(lock, &said),
                      TL_EEXPIRED);
        assert_int_equal(tl_lock_state(lock), TL_FREE);
        assert_is_free(c);
    }
}

CONFORM_OF(a_lock_that_another_holds_by_now_does_not_rest, c, CONFORM_REST) {
    tl_lock *lock = by_hand(c, conform_client(c));
    (void)acquire(c, lock);
    conform_do(c, "SET %s foreign", c->key);
    ASSERT_RESULT(tl_lock_rest(lock, HOUR_MS, &said), TL_ETAKEN);
    assert_true(conform_holds(c, c->key, "foreign"));
    conform_do(c, "DEL %s", c->key);
    assert_is_free(c);
}

CONFORM_OF(a_lock_whose_key_was_deleted_does_not_rest, c, CONFORM_REST) {
    tl_lock *lock = by_hand(c, conform_client(c));
    (void)acquire(c, lock);
    conform_do(c, "DEL %s", c->key);
    ASSERT_RESULT(tl_lock_rest(lock, HOUR_MS, &said), TL_EEXPIRED);
    assert_is_free(c);
}

/* Its key may still be there. */
CONFORM_OF(a_lock_that_was_held_for_too_long_does_not_rest, c, CONFORM_REST | CONFORM_RENEWAL) {
    static outcome o;
    lock_events *events = make_events();
    tl_client *client = conform_client(c);
    tl_lock *lock = conform_lock_with(c, client,
                                      TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .max_hold_ms = 100,
                                                      .min_hold_ms = HOUR_MS,
                                                      .on_event = lock_events_add, .ctx = events));
    for (int i = 0; i < 4; i++) {
        (void)acquire(c, lock);
        WAIT_FOR(SOON_MS, lock_events_count_of(events, TL_LOST) > i);
        if (i < 2) {
            tl_err code = i ? (tl_lock_release_async(lock, note, &o, &said), await(client, &o))
                            : tl_lock_release(lock, &said);
            assert_true(code == TL_OK || code == TL_EEXPIRED);
        } else {
            tl_err code = i == 3 ? (tl_lock_rest_async(lock, HOUR_MS, note, &o, &said),
                                    await(client, &o))
                                 : tl_lock_rest(lock, HOUR_MS, &said);
            ASSERT_RESULT(code, TL_EEXPIRED);
            ASSERT_SAID("rest ");
        }
        assert_int_equal(tl_lock_state(lock), TL_FREE);
        assert_is_free(c);
    }
}

/* ---- a wait that ends with the rest ------------------------------------------------------------ */

CONFORM_OF(who_waits_for_a_holder_alone_ends_when_it_rests, c,
           CONFORM_REST | CONFORM_SAYS_REST | CONFORM_GARBAGE) {
    tl_lock *lock = other_lock(c);
    for (int i = 0; i < 2; i++) {
        tl_lock *before = impatient(c), *after = impatient(c);
        (void)acquire(c, lock);
        acquiring *waiter = begin_waiting(c, before);
        ASSERT_RESULT(tl_lock_rest(lock, HOUR_MS, &said), TL_OK);
        ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_EBUSY);
        ASSERT_SAID(RESTS);
        const int64_t began = clock_ms();
        ASSERT_RESULT(tl_lock_acquire(after, TL_FOREVER, &said), TL_EBUSY);
        ASSERT_SAID(RESTS);
        ASSERT_TOOK(began, 0, 0);
        WAIT_FOR(SOON_MS, conform_int(c, "EXISTS tidelock:{%s}:line", c->key) == 0);
        conform_do(c, "DEL %s tidelock:{%s}", c->key, c->key);
    }
}

/* Of one client, and of as many clients. */
CONFORM_OF(all_who_wait_for_a_holder_alone_end_when_it_rests, c,
           CONFORM_REST | CONFORM_SAYS_REST | CONFORM_GARBAGE) {
    enum { WAITERS = 12 };
    tl_client *client = conform_client(c);
    tl_lock *lock = other_lock(c);
    acquiring *waiters[WAITERS];
    (void)acquire(c, lock);
    for (int i = 0; i < WAITERS; i++) {
        tl_lock *waits = conform_lock_with(
            c, i % 2 ? client : conform_client(c),
            TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .rest_ends_wait = true,
                            .fair = c->protocol == TL_TOKEN && i % 3 == 0));
        waiters[i] = begin_waiting(c, waits);
    }
    ASSERT_RESULT(tl_lock_rest(lock, HOUR_MS, &said), TL_OK);
    for (int i = 0; i < WAITERS; i++) {
        ASSERT_RESULT(acquiring_end(waiters[i], SOON_MS), TL_EBUSY);
        ASSERT_SAID(RESTS);
    }
}

CONFORM_OF(who_waits_for_a_holder_alone_acquires_what_is_released, c,
           CONFORM_REST | CONFORM_SAYS_REST) {
    tl_lock *lock = other_lock(c), *next = impatient(c);
    (void)acquire(c, lock);
    acquiring *waiter = begin_waiting(c, next);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_OK);
    ASSERT_RESULT(tl_lock_release(next, &said), TL_OK);
}

/* The one before it in the local queue waits for the end of the rest. */
CONFORM_OF(who_waits_for_a_holder_alone_ends_behind_another_lock_of_its_client, c,
           CONFORM_REST | CONFORM_SAYS_REST | CONFORM_GARBAGE) {
    tl_client *client = conform_client(c);
    tl_lock *patient = conform_lock(c, client, TTL_MS);
    tl_lock *behind = conform_lock_with(c, client,
                                        TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .rest_ends_wait = true));
    (void)resting(c, HOUR_MS);
    acquiring *a = begin_waiting(c, patient);
    acquiring *b = acquiring_begin(behind, TL_FOREVER);
    ASSERT_RESULT(acquiring_end(b, SOON_MS), TL_EBUSY);
    ASSERT_SAID(RESTS);
    assert_false(atomic_load(&a->done));
    tl_lock_cancel(patient);
    ASSERT_RESULT(acquiring_end(a, SOON_MS), TL_ECANCELLED);
}

CONFORM_OF(a_retry_strategy_of_the_programs_own_ends_when_it_rests, c,
           CONFORM_REST | CONFORM_SAYS_REST | CONFORM_GARBAGE) {
    tl_lock *lock = conform_lock_with(c, conform_client(c),
                                      TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .retry = TL_RETRY_FIXED,
                                                      .retry_delay_ms = 10,
                                                      .rest_ends_wait = true));
    (void)resting(c, HOUR_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, TL_FOREVER, &said), TL_EBUSY);
    ASSERT_SAID(RESTS);
}

/* ---- without blocking -------------------------------------------------------------------------- */

static void rest_without_blocking(conform *c, bool dispatch) {
    static outcome o;
    tl_client *client = conform_client_with(c, TL_CLIENT_OPTIONS(.dispatch = dispatch));
    for (int i = 0; i < 2; i++) { /* by the call, by the option */
        tl_lock *lock = conform_lock_with(
            c, client, TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .min_hold_ms = i ? HOUR_MS : 0));
        tl_lock *ends = conform_lock_with(
            c, client, TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .rest_ends_wait = true));
        span at = {.from = server_us(c)};
        ASSERT_RESULT(tl_lock_acquire_async(lock, SOON_MS, note, &o, &said), TL_OK);
        ASSERT_RESULT(await(client, &o), TL_OK);
        at.rests = at.to = server_us(c);
        ASSERT_RESULT(i ? tl_lock_release_async(lock, note, &o, &said)
                        : tl_lock_rest_async(lock, HOUR_MS, note, &o, &said),
                      TL_OK);
        assert_int_equal(tl_lock_remaining_ms(lock), 0);
        ASSERT_RESULT(await(client, &o), TL_OK);
        assert_int_equal(tl_lock_state(lock), TL_FREE);
        assert_ends(c, at, HOUR_MS, 0);
        ASSERT_RESULT(tl_lock_acquire_async(ends, TL_FOREVER, note, &o, &said), TL_OK);
        ASSERT_RESULT(await(client, &o), TL_EBUSY);
        ASSERT_SAID(RESTS);
        ASSERT_RESULT(tl_lock_rest_async(lock, HOUR_MS, note, &o, &said), TL_EINVALID);
        ASSERT_SAID("it is not held");
        conform_do(c, "DEL %s tidelock:{%s}", c->key, c->key);
    }
}

static void rest_it(tl_lock *lock, tl_err code, const tl_error *err, void *ctx) {
    tl_error failed = {.code = code};
    if (!code)
        code = tl_lock_rest_async(lock, HOUR_MS, note, ctx, &failed);
    if (code)
        note(lock, code, err ? err : &failed, ctx);
}

CONFORM_OF(a_callback_may_let_its_lock_rest, c, CONFORM_REST) {
    static outcome o;
    tl_client *client = conform_client(c);
    tl_lock *lock = conform_lock(c, client, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire_async(lock, SOON_MS, rest_it, &o, &said), TL_OK);
    ASSERT_RESULT(await(client, &o), TL_OK);
    assert_int_equal(tl_lock_state(lock), TL_FREE);
    assert_rests(c);
}

/* It is told to nobody, and rests. */
CONFORM_OF(a_lock_that_is_freed_while_it_begins_to_rest_rests, c, CONFORM_REST | CONFORM_GARBAGE) {
    static outcome o;
    tl_client *client = conform_client(c);
    for (int i = 0; i < 10; i++) {
        tl_lock *lock = conform_lock(c, client, TTL_MS);
        (void)acquire(c, lock);
        ASSERT_RESULT(tl_lock_rest_async(lock, HOUR_MS, note, &o, &said), TL_OK);
        drop_lock(lock);
        WAIT_FOR(SOON_MS, end_us(c) > 0);
        assert_rests(c);
        conform_do(c, "DEL %s tidelock:{%s}", c->key, c->key);
    }
    atomic_store(&o.told, 0);
}

CONFORM_OF(it_rests_without_blocking_told_by_the_keeper, c,
           CONFORM_REST | CONFORM_SAYS_REST | CONFORM_GARBAGE) {
    rest_without_blocking(c, false);
}

CONFORM_OF(it_rests_without_blocking_told_by_dispatch, c,
           CONFORM_REST | CONFORM_SAYS_REST | CONFORM_GARBAGE) {
    rest_without_blocking(c, true);
}

/* ---- the local queue --------------------------------------------------------------------------- */

static acquiring *begin_queued(tl_lock *lock) {
    acquiring *a = acquiring_begin(lock, TL_FOREVER);
    WAIT_FOR(SOON_MS, standing(lock) == TL_QUEUED);
    return a;
}

/* Held by a lock that knew of the queue as it acquired, with `second` behind it: it hands over within a second of that. */
static span hold_for_passing(conform *c, tl_client *client, tl_lock *first, tl_lock *second,
                             acquiring **ret) {
    tl_lock *before = by_hand(c, client);
    (void)acquire(c, before);
    acquiring *a = begin_queued(first);
    *ret = begin_queued(second);
    span at = {.from = server_us(c)};
    ASSERT_RESULT(tl_lock_release(before, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(a, SOON_MS), TL_OK);
    at.to = server_us(c);
    drop_lock(before);
    return at;
}

CONFORM_OF(a_waiter_of_the_same_client_is_handed_no_lock_that_rests, c,
           CONFORM_REST | CONFORM_RUNTIME) {
    tl_client *client = conform_client(c);
    tl_lock *lock = by_hand(c, client), *next = by_hand(c, client);
    acquiring *waiter;
    const span at = hold_for_passing(c, client, lock, next, &waiter);
    ASSERT_RESULT(tl_lock_rest(lock, BRIEF_MS, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_OK);
    assert_rested(c, at, BRIEF_MS);
    assert_true(tl_lock_fence(next) > tl_lock_fence(lock));
    ASSERT_RESULT(tl_lock_release(next, &said), TL_OK);
}

CONFORM_OF(a_hold_that_was_handed_over_rests_from_then_on, c, CONFORM_REST | CONFORM_RUNTIME) {
    enum {
        HELD_MS = 250,
        THEN_MS = 2500
    }; /* so long that drift of the clocks could explain HELD_MS */
    tl_client *client = conform_client(c);
    tl_lock *first = by_hand(c, client), *second = by_hand(c, client);
    bool handed = false;
    for (int i = 0; i < TRIES && !handed; i++) { /* on a slow machine it is acquired anew */
        acquiring *waiter;
        const span taken = hold_for_passing(c, client, first, second, &waiter);
        let_pass(HELD_MS);
        span at = {.from = server_us(c)};
        ASSERT_RESULT(tl_lock_release(first, &said), TL_OK);
        ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_OK);
        at.to = server_us(c);
        handed = strcmp(tl_lock_token(first), tl_lock_token(second)) == 0;
        let_pass(THEN_MS);
        rest(c, second, HOUR_MS, &at);
        /* later by the round trip of the acquire, and by what two clocks make of the time since */
        assert_ends(c, at, HOUR_MS, (taken.to - taken.from) + (at.to - taken.from) / 4);
        conform_do(c, "DEL %s tidelock:{%s}", c->key, c->key);
    }
    assert_true(handed);
}

/* It is handed over: what it was acquired for is done by the one that has it now. */
CONFORM_OF(after_the_time_of_its_rest_it_is_handed_over, c, CONFORM_REST | CONFORM_RUNTIME) {
    tl_client *client = conform_client(c);
    tl_lock *first = by_hand(c, client), *second = by_hand(c, client);
    bool handed = false;
    for (int i = 0; i < TRIES && !handed; i++) {
        acquiring *waiter;
        (void)hold_for_passing(c, client, first, second, &waiter);
        let_pass(10);
        ASSERT_RESULT(tl_lock_rest(first, 1, &said), TL_OK);
        ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_OK);
        handed = strcmp(tl_lock_token(first), tl_lock_token(second)) == 0;
        ASSERT_RESULT(tl_lock_release(second, &said), TL_OK);
    }
    assert_true(handed);
}

/* ---- what it says of itself -------------------------------------------------------------------- */

CONFORM_OF(a_rest_is_counted_as_a_release, c, CONFORM_REST) {
    tl_client *client = conform_client(c);
    tl_lock *lock = conform_lock(c, client, TTL_MS);
    ASSERT_RESULT(tl_lock_rest(lock, HOUR_MS, &said), TL_EINVALID);
    (void)acquire(c, lock);
    ASSERT_RESULT(tl_lock_rest(lock, -1, &said), TL_EINVALID);
    ASSERT_RESULT(tl_lock_rest(lock, HOUR_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_EBUSY);
    tl_stats s = stats_of(client);
    assert_int_equal(s.releases[TL_OK], 1);
    assert_int_equal(s.releases[TL_EINVALID], 2);
    assert_int_equal(s.acquires[TL_OK], 1);
    assert_int_equal(s.acquires[TL_EBUSY], 1);
    for (int i = 0; i < TL_STATS_RESULTS; i++)
        assert_true(i == TL_OK || i == TL_EINVALID || s.releases[i] == 0);
    for (size_t i = 0; i < sizeof s.lost / sizeof *s.lost; i++)
        assert_int_equal(s.lost[i], 0);
}

/* ---- what is refused --------------------------------------------------------------------------- */

CONFORM(a_rest_of_no_time_is_refused, c) {
    static const int64_t wrong_ms[] = {-1, INT64_MIN, TL_REST_MAX_MS + 1, INT64_MAX};
    tl_client *client = conform_client(c);
    tl_lock *lock = conform_lock(c, client, TTL_MS);
    (void)acquire(c, lock);
    for (int i = 0; i < 4; i++) {
        const tl_lock_options options = TL_LOCK_OPTIONS(.min_hold_ms = wrong_ms[i]);
        ASSERT_RESULT(tl_lock_rest(lock, wrong_ms[i], &said), TL_EINVALID);
        ASSERT_SAID("rest: 0 to 34560000000 ms (400 days), not ");
        ASSERT_RESULT(tl_lock_rest_async(lock, wrong_ms[i], note, NULL, &said), TL_EINVALID);
        ASSERT_SAID("400 days");
        assert_int_equal(tl_lock_state(lock), TL_HELD);
        assert_null(tl_lock_new(client, c->key, strlen(c->key), &options, &said));
        ASSERT_SAID("min_hold: 0 to 34560000000 ms (400 days), not ");
    }
    ASSERT_RESULT(tl_lock_rest_async(lock, 0, NULL, NULL, &said), TL_EINVALID);
    ASSERT_SAID("done");
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

CONFORM(a_lock_that_is_not_held_does_not_rest, c) {
    tl_lock *lock = other_lock(c);
    ASSERT_RESULT(tl_lock_rest(lock, HOUR_MS, &said), TL_EINVALID);
    ASSERT_SAID(c->key);
    ASSERT_SAID("it is not held");
    ASSERT_RESULT(tl_lock_rest_async(lock, HOUR_MS, note, NULL, &said), TL_EINVALID);
    assert_is_free(c);
}

/* And it is still held. */
CONFORM_OF(where_a_lock_cannot_rest_that_is_refused, c, CONFORM_SCRIPTS) {
    tl_client *client = conform_client(c);
    tl_lock *lock = conform_lock(c, client, TTL_MS);
    const tl_lock_options each[] = {TL_LOCK_OPTIONS(.min_hold_ms = HOUR_MS),
                                    TL_LOCK_OPTIONS(.will_rest_ms = HOUR_MS)};
    for (size_t i = 0; i < 2; i++) {
        tl_lock *holding = tl_lock_new(client, c->key, strlen(c->key), &each[i], &said);
        assert_int_equal(holding != NULL, conform_has(c, CONFORM_REST));
        tl_lock_free(holding);
    }
    if (conform_has(c, CONFORM_REST))
        return;
    ASSERT_SAID("will_rest: ");
    ASSERT_SAID("can't rest");
    (void)acquire(c, lock);
    ASSERT_RESULT(tl_lock_rest(lock, HOUR_MS, &said), TL_EINVALID);
    ASSERT_SAID("can't rest");
    ASSERT_RESULT(tl_lock_rest_async(lock, HOUR_MS, note, NULL, &said), TL_EINVALID);
    ASSERT_SAID("can't rest");
    assert_int_equal(tl_lock_state(lock), TL_HELD);
    assert_true(tl_lock_remaining_ms(lock) > 0);
    ASSERT_RESULT(tl_lock_acquire(other_lock(c), 0, &said), TL_EBUSY);
    ASSERT_RESULT(tl_lock_rest(lock, 0, &said), TL_OK); /* which is a release */
    assert_is_free(c);
}

CONFORM_MAIN
