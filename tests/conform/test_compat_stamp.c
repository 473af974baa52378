/*
 * Conformance: what locks of stamps promise besides, towards legacy clients.
 */
#include "conform.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "wire/script.h"

#define TTL_MS 30000
#define AHEAD_MS 120000

static int64_t wall_ms(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* What all of the row's clients take for the lifetime of legacy clients. */
static int64_t legacy_ms(const conform *c) {
    return c->row->strict ? STRICT_TTL_MS : TL_TTL_MAX_MS;
}

static void set_stamp(conform *c, int64_t end_ms) {
    conform_do(c, "SET %s %lld", c->key, (long long)end_ms);
}

/* K as a number; -1: it is none. */
static int64_t stamp_in(conform *c) {
    c->asked++;
    redisReply *reply = redisCommand(c->context, "GET %s", c->key);
    int64_t v = reply && reply->type == REDIS_REPLY_STRING ? strtoll(reply->str, NULL, 10) : -1;
    freeReplyObject(reply);
    return v;
}

static tl_lock *by_hand(conform *c, tl_client *client) {
    return conform_lock_with(c, client, TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .manual_renew = true));
}

/* ---- what others wrote ------------------------------------------------------------------------- */

CONFORM_STAMPS(an_expired_stamp_is_taken_over_by_one, c, 0) {
    enum { CLIENTS = 4 };
    tl_lock *locks[CLIENTS];
    for (int i = 0; i < CLIENTS; i++)
        locks[i] = by_hand(c, conform_client(c));
    for (int round = 0; round < 10; round++) {
        acquiring *a[CLIENTS];
        tl_lock *winner = NULL;
        set_stamp(c, wall_ms() - 1000000 + round);
        for (int i = 0; i < CLIENTS; i++)
            a[i] = acquiring_begin(locks[i], 0);
        for (int i = 0; i < CLIENTS; i++) {
            tl_err code = acquiring_end(a[i], SOON_MS);
            assert_true(code == TL_OK ? !winner : code == TL_EBUSY);
            winner = code == TL_OK ? locks[i] : winner;
        }
        assert_non_null(winner);
        assert_true(stamp_in(c) > wall_ms());
        (void)tl_lock_release(winner, &said);
        conform_do(c, "DEL %s", c->key);
    }
}

CONFORM_STAMPS(a_stamp_that_runs_is_held, c, 0) {
    int64_t end = wall_ms() + 60000;
    set_stamp(c, end);
    ASSERT_RESULT(tl_lock_acquire(by_hand(c, conform_client(c)), 0, &said), TL_EBUSY);
    assert_int_equal(stamp_in(c), end);
}

CONFORM_STAMPS(what_is_no_stamp_is_held, c, 0) {
    static const char *const values[] = {"soon", "1699999999", "17000000000000000",
                                         "00000000-0000-4000-8000-000000000001", "-1600000000000"};
    tl_lock *lock = by_hand(c, conform_client(c));
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        conform_do(c, "SET %s %s", c->key, values[i]);
        ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_EBUSY);
        assert_true(conform_holds(c, c->key, values[i]));
    }
}

/* ---- what others read -------------------------------------------------------------------------- */

CONFORM_STAMPS(a_legacy_client_reads_the_end_of_the_lifetime, c, 0) {
    tl_lock *lock = by_hand(c, conform_client(c));
    int64_t before = wall_ms();
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    int64_t ttl_ms = c->row->strict ? legacy_ms(c) : TTL_MS;
    assert_in_range(stamp_in(c), before + ttl_ms - SLACK_MS, wall_ms() + ttl_ms + SLACK_MS);
    assert_int_equal(conform_int(c, "SETNX %s 1600000000000", c->key), 0);
    ASSERT_BELIEVES(tl_lock_remaining_ms(lock), TTL_MS, SLACK_MS);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    assert_int_equal(conform_int(c, "EXISTS %s", c->key), 0);
}

CONFORM_STAMPS(extending_moves_the_stamp, c, CONFORM_RENEWAL) {
    tl_lock *lock = by_hand(c, conform_client(c));
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_extend(lock, 60000, &said), TL_OK);
    assert_in_range(stamp_in(c), wall_ms() + 60000 - SLACK_MS, wall_ms() + 60000 + SLACK_MS);
    ASSERT_BELIEVES(tl_lock_remaining_ms(lock), 60000, SLACK_MS);
    ASSERT_RESULT(tl_lock_extend(lock, 300, &said), TL_OK); /* a smaller one only this side's */
    assert_in_range(stamp_in(c), wall_ms() + 60000 - SLACK_MS, wall_ms() + 60000 + SLACK_MS);
    assert_in_range(tl_lock_remaining_ms(lock), 0, 300);
}

CONFORM_STAMPS(the_commands_are_those_of_the_old_clients_alone, c, CONFORM_NO_SCRIPTS) {
    uint64_t before = conform_count(c);
    tl_lock *lock = by_hand(c, conform_client(c));
    for (int i = 0; i < 5; i++) { /* SETNX; GET, DEL; and nothing at the beginning */
        ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    }
    assert_int_equal(conform_count(c) - before, 15);
}

/* ---- a stamp that rests ------------------------------------------------------------------------ */

#define REST_MS 1500

CONFORM_STAMPS(a_legacy_client_reads_the_end_of_the_rest, c, CONFORM_REST) {
    static const int64_t rests_ms[] = {REST_MS, 3600000}; /* moved back, and ahead */
    for (int i = 0; i < 2; i++) {
        tl_lock *lock = by_hand(c, conform_client(c));
        int64_t before = wall_ms();
        ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
        ASSERT_RESULT(tl_lock_rest(lock, rests_ms[i], &said), TL_OK);
        assert_in_range(stamp_in(c), before + rests_ms[i], wall_ms() + rests_ms[i] + SLACK_MS);
        conform_do(c, "DEL %s tidelock:{%s}", c->key, c->key);
    }
}

/* The phase moves on meanwhile. */
CONFORM_STAMPS(a_drain_acquires_a_stamp_that_rests_when_it_has_ended, c, CONFORM_REST) {
    tl_legacy_options legacy = TL_LEGACY_OPTIONS(.clock_skew_max_ms = 1, .legacy_delay_max_ms = 1,
                                                 .legacy_ttl_min_ms = TL_TTL_MAX_MS);
    tl_lock *lock = by_hand(c, conform_client(c));
    int64_t before = wall_ms();
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_rest(lock, REST_MS, &said), TL_OK);
    conform_do(c, "HMSET tidelock:phase:{default} phase 2 epoch 1 lease_ms 30000 since 1 keys *");
    tl_lock *next = by_hand(
        c,
        make_client_with(TL_CLIENT_OPTIONS(.url = c->url, .protocol = TL_AUTO, .legacy = &legacy)));
    ASSERT_RESULT(tl_lock_acquire(next, 0, &said), TL_EBUSY);
    ASSERT_RESULT(tl_lock_acquire(next, SOON_MS, &said), TL_OK);
    assert_in_range(wall_ms(), before + REST_MS, INT64_MAX);
    assert_true(conform_holds(c, c->key, tl_lock_token(next)));
    ASSERT_RESULT(tl_lock_rest(next, 3600000, &said), TL_OK);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_EBUSY);
    conform_do(c, "DEL tidelock:phase:{default} tidelock:phase:{default}:clients");
}

/* ---- overwritten, and stolen ------------------------------------------------------------------- */

CONFORM_STAMPS(a_racing_losers_stamp_is_put_right, c, CONFORM_RENEWAL) {
    tl_lock *lock = by_hand(c, conform_client(c));
    int64_t losers = wall_ms() - 100 + legacy_ms(c); /* of one that began to race before */
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    set_stamp(c, losers);
    ASSERT_RESULT(tl_lock_extend(lock, TTL_MS, &said), TL_OK);
    assert_int_not_equal(stamp_in(c), losers);
    ASSERT_BELIEVES(tl_lock_remaining_ms(lock), TTL_MS, SLACK_MS);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    assert_int_equal(conform_int(c, "EXISTS %s", c->key), 0);
}

CONFORM_STAMPS(a_release_leaves_a_losers_stamp_where_it_is, c, 0) {
    tl_lock *lock = by_hand(c, conform_client(c));
    int64_t losers = 0, found = -1;
    /* A holder that is told of it before the release takes the lock back: then nothing is left. */
    for (int i = 0; i < 20 && found == -1; i++) {
        losers = wall_ms() - 100 + legacy_ms(c); /* of one that began to race before */
        ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
        set_stamp(c, losers);
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
        found = stamp_in(c);
    }
    assert_int_equal(found, losers);
}

typedef struct {
    _Atomic int64_t thief_ahead_ms;
    atomic_bool lost, stolen;
} thief;

static void meet(tl_lock *lock, const tl_lock_event *event, void *ctx) {
    thief *t = ctx;
    (void)lock;
    if (event->state != TL_LOST)
        return;
    t->stolen = event->stolen && event->why == TL_LOST_TAKEN;
    t->thief_ahead_ms = event->thief_ahead_ms;
    t->lost = true;
}

CONFORM_STAMPS(who_is_robbed_is_told_how_far_the_thiefs_clock_is_ahead, c, 0) {
    static thief t;
    memset(&t, 0, sizeof t);
    tl_lock *lock = conform_lock_with(
        c, conform_client(c), TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .on_event = meet, .ctx = &t));
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    set_stamp(c, wall_ms() + AHEAD_MS + legacy_ms(c));
    WAIT_FOR(SOON_MS, t.lost);
    assert_true(t.stolen);
    assert_in_range(t.thief_ahead_ms, AHEAD_MS - TTL_MS - SLACK_MS, AHEAD_MS + SLACK_MS);
    assert_int_equal(tl_lock_state(lock), TL_LOST);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_ETAKEN);
    assert_true(stamp_in(c) > wall_ms() + legacy_ms(c));
}

/* ---- who holds it ------------------------------------------------------------------------------ */

CONFORM_STAMPS(equal_bytes_are_not_ours_when_the_sidecar_names_another, c, CONFORM_FENCE) {
    for (int extends = 0; extends < 2; extends++) {
        tl_lock *lock = by_hand(c, conform_client(c));
        ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
        int64_t stamp = stamp_in(c);
        conform_do(c, "HSET tidelock:{%s} token another", c->key);
        if (extends)
            ASSERT_RESULT(tl_lock_extend(lock, TTL_MS, &said), TL_ETAKEN);
        (void)tl_lock_release(lock, &said);
        assert_int_equal(stamp_in(c), stamp);
        conform_do(c, "DEL %s tidelock:{%s}", c->key, c->key);
    }
}

/* A take with the same token each time, as it is sent; `until`: what S binds others for. */
static long long status_of_take(conform *c, const char *value, const char *expect,
                                const char *until) {
    c->asked++;
    redisReply *r = redisCommand(c->context,
                                 "EVAL %s 4 %s tidelock:{%s} tidelock:fence:{0} tidelock:{%s}:line "
                                 "token 30000 0 1600000000000000 1600000000000000 owner 1 %s %s %s",
                                 tl__script_text(TL_SCRIPT_ACQUIRE).p, c->key, c->key, c->key,
                                 value, expect, until);
    long long status = r && r->type == REDIS_REPLY_ARRAY ? r->element[0]->integer : -9;
    freeReplyObject(r);
    return status;
}

/* Between judging a stamp and taking it another may have been faster. */
CONFORM_STAMPS(a_take_over_takes_exactly_what_was_judged, c, CONFORM_FENCE | CONFORM_SCRIPTS) {
    set_stamp(c, 1600000000001);
    assert_int_equal(status_of_take(c, "1900000000000", "=1600000000000", "30000"), 0);
    assert_int_equal(stamp_in(c), 1600000000001);
    assert_int_equal(status_of_take(c, "1900000000000", "=1600000000001", "30000"), 1);
    assert_int_equal(stamp_in(c), 1900000000000);
    conform_do(c, "DEL %s tidelock:{%s}", c->key, c->key);
    /* nor where there is nothing any more */
    assert_int_equal(status_of_take(c, "1900000000000", "=1600000000001", "30000"), 0);
    assert_int_equal(conform_int(c, "EXISTS %s", c->key), 0);
}

/* A stamp doesn't vanish when its time is over: who took it finds itself the holder whatever it asks for,
 * and moves it on by a keep. */
CONFORM_STAMPS(a_take_finds_its_own_stamp_though_it_is_over, c, CONFORM_FENCE | CONFORM_SCRIPTS) {
    assert_int_equal(status_of_take(c, "1600000000000", "", "@1600000001000000"), 1);
    assert_int_equal(status_of_take(c, "1900000000000", "", "30000"), 1);
    assert_int_equal(stamp_in(c), 1600000000000);
}

CONFORM_MAIN
