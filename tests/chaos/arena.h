/*
 * What tests of faults share: a private redis-server, a proxy before it, and clients on both ways.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "locks.h"
#include "proxy.h"
#include "real_redis.h"
#include "real_server.h"
#include "tests.h"

#define KEY "chaos:key"
#define TTL_MS 30000
#define AGES_MS 600000  /**< one that nobody renews, and no test outlasts */
#define HOUR_MS 3600000 /**< a rest that no test outlasts */
#define ATTEMPT_MS clock_patient_ms(300)
#define CONNECT_MS clock_patient_ms(400)
#define BRIEF_MS clock_patient_ms(1200) /**< a lifetime that is waited out */
#define KEPT_MS                                                                                    \
    clock_patient_ms(9000) /**< one that a renewal saves though all stands still for some seconds */

static real_redis *server;
static proxy *gate;

/** A lifetime that a renewal saves though all stands still for seconds, several times. The first renewal is due within a
 *  second of the acquire all the same. */
#define SAFE_MS clock_patient_ms(30000)

/** Before each test: an empty server, which has read all that the last test sent, and a new proxy. */
static inline int arena_set_up(void **state) {
    (void)state;
    WAIT_FOR(SOON_MS, real_redis_clients(server) == 0);
    gate = proxy_start(real_redis_port(server));
    freeReplyObject(real_redis_command(server, "FLUSHALL"));
    freeReplyObject(real_redis_command(server, "CONFIG RESETSTAT"));
    return 0;
}

static inline int arena_tear_down(void **state) {
    int failed = locks_clean_up(state);
    proxy_free(gate);
    gate = NULL;
    return failed;
}

/** Its limits are reached by faults alone, however busy the machine. */
static inline tl_client *client_at(const char *url) {
    return make_client_with(
        TL_CLIENT_OPTIONS(.url = url, .attempt_ms = SOON_MS, .connect_ms = SOON_MS));
}

/** With short limits, for who is to reach them: ATTEMPT_MS and CONNECT_MS. What it asks of a server that
 *  is well it asks until it is answered in time. */
static inline tl_client *hasty_client_at(const char *url) {
    return make_client_with(
        TL_CLIENT_OPTIONS(.url = url, .attempt_ms = ATTEMPT_MS, .connect_ms = CONNECT_MS));
}

static inline tl_client *connected(tl_client *client) {
    WAIT_FOR(SOON_MS, tl_client_ping(client, &said) == TL_OK);
    return client;
}

/** Through the proxy, with a connection that is open already. */
static inline tl_client *client_behind_gate(void) {
    return connected(client_at(proxy_url(gate)));
}

static inline tl_client *hasty_client_behind_gate(void) {
    return connected(hasty_client_at(proxy_url(gate)));
}

/** Straight to the server. */
static inline tl_client *client_direct(void) {
    return client_at(real_redis_url(server));
}

static inline tl_client *hasty_client_direct(void) {
    return hasty_client_at(real_redis_url(server));
}

static inline tl_lock *by_hand(tl_client *client, int64_t ttl_ms) {
    return make_lock_with(client, KEY, TL_LOCK_OPTIONS(.ttl_ms = ttl_ms, .manual_renew = true));
}

/** Ask the server for something that it must not refuse. */
static inline void run(const char *command) {
    redisReply *reply = real_redis_command(server, command);
    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", command, reply->str);
    freeReplyObject(reply);
}

static inline bool key_exists(void) {
    return real_redis_int(server, "EXISTS " KEY) == 1;
}

/** By a hasty client, whose connection or reply may come too late for it: the lock is released all the same. */
static inline void release_hastily(tl_lock *lock, const char *key) {
    tl_err code = tl_lock_release(lock, &said);
    if (code != TL_EUNCERTAIN && code != TL_EUNAVAILABLE)
        ASSERT_RESULT(code, TL_OK);
    WAIT_FOR(SOON_MS, real_redis_int(server, "EXISTS %s", key) == 0);
}

/** Has the server executed a command at least so often in this test, or since forget_executed? */
static inline int executed(const char *command) {
    char words[64];
    redisReply *info = real_redis_command(server, "INFO commandstats");
    (void)snprintf(words, sizeof words, "cmdstat_%s:calls=", command);
    const char *at = info ? strstr(info->str, words) : NULL;
    int n = at ? atoi(at + strlen(words)) : 0;
    freeReplyObject(info);
    return n;
}

static inline bool has_executed(const char *command, int times) {
    int n = executed(command);
    if (strcmp(command, "evalsha") == 0 && !real_server_has(REAL_LINE))
        n += executed("eval"); /* which it is counted as, for what replicas are sent */
    return n >= times;
}

static inline void forget_executed(void) {
    freeReplyObject(real_redis_command(server, "CONFIG RESETSTAT"));
}

/** Where a connection is broken: at each byte of the first ones, by a stride. */
typedef struct {
    proxy_way way;
    size_t bytes, stride;
} arena_cut;

/** Each new client, whose connection through this proxy breaks once, gets and releases the lock all the same. */
static inline void survives_one_reset(proxy *at, const arena_cut *cut, tl_client *(*make)(void)) {
    for (size_t byte = 0; byte < cut->bytes; byte += cut->stride) {
        tl_client *client = make();
        tl_lock *lock = by_hand(client, TTL_MS);
        int struck = proxy_struck(at);
        proxy_break(at, cut->way, byte, PROXY_RESET, 1);
        ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
        assert_int_equal(proxy_struck(at), struck + 1);
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
        drop_lock(lock);
        drop_client(client);
    }
}

/** Those of a process that is gone stand in a line of n bytes, at this place. They are passed over at once; but so many
 *  that who joins behind them looks by itself after a minute only: what it knows sooner it has been told. */
#define GONE 100
static inline void stand_gone_at(const void *line, size_t n, long long place) {
    char score[24], entries[GONE][64];
    const char *argv[2 + 2 * GONE] = {"ZADD", line};
    size_t lengths[2 + 2 * GONE] = {strlen("ZADD"), n};
    (void)snprintf(score, sizeof score, "%lld", place);
    for (size_t i = 0; i < GONE; i++) {
        (void)snprintf(entries[i], sizeof entries[i],
                       "gone-%lld-%zu 30000 1 tidelock:inbox:gone host 1 gone", place, i);
        argv[2 + 2 * i] = score;
        argv[3 + 2 * i] = entries[i];
        lengths[2 + 2 * i] = strlen(score);
        lengths[3 + 2 * i] = strlen(entries[i]);
    }
    redisContext *context = real_redis_connect(server);
    redisReply *reply = redisCommandArgv(context, 2 + 2 * GONE, argv, lengths);
    assert_true(reply && reply->type == REDIS_REPLY_INTEGER && reply->integer == GONE);
    freeReplyObject(reply);
    redisFree(context);
}

/** Of the key, in front. */
static inline void stand_gone(void) {
    static const char line[] = "tidelock:{" KEY "}:line";
    stand_gone_at(line, sizeof line - 1, 1);
}

/** Does the key hold this lock's own token? */
static inline bool holds_token_of(const tl_lock *lock) {
    redisReply *reply = real_redis_command(server, "GET " KEY);
    bool is = reply && reply->type == REDIS_REPLY_STRING &&
              strcmp(reply->str, tl_lock_token(lock)) == 0;
    freeReplyObject(reply);
    return is;
}

/** The server's clock, us. */
static inline long long server_us(real_redis *at) {
    return real_redis_int(at, "EVAL %s 0",
                          "local t = redis.call('TIME') return t[1] * 1000000 + t[2]");
}

/** When the key ends to rest, by the server's clock, us: no earlier than it does, and later by what the server is
 *  stopped meanwhile, and 2 ms. -1: it doesn't rest there. */
static inline long long rest_end_us(real_redis *at, const char *key) {
    static const char script[] =
        "if string.sub(redis.call('GET', KEYS[1]) or '', 1, 8) ~= 'resting ' then return -1 end "
        "local ms, t = redis.call('PTTL', KEYS[1]), redis.call('TIME') "
        "return t[1] * 1000000 + t[2] + ms * 1000";
    return real_redis_int(at, "EVAL %s 1 %s", script, key);
}

/** It rests until so long after an acquire that began when the server's clock showed this, and has ended by now. */
static inline void assert_rests_for(real_redis *at, const char *key, long long began_us,
                                    int64_t ms) {
    const int64_t end_us = rest_end_us(at, key), latest_us = server_us(at) + 5000;
    assert_in_range(end_us, began_us + ms * 1000, latest_us + ms * 1000);
}

/** The lock is free for another, soon. */
static inline void assert_free_soon(void) {
    tl_lock *next = by_hand(client_direct(), TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(next, SOON_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(next, &said), TL_OK);
    drop_lock(next);
}

/** It was told of the risk before the loss, unless that passed while all stood still. */
static inline void assert_told_of_risk(lock_events *events, int64_t ttl_ms) {
    lock_event first = lock_events_await_risk_or_loss(events, SOON_MS);
    if (first.state == TL_AT_RISK)
        assert_in_range(first.remaining_ms, 1, ttl_ms);
}

/** What the holder believes is not more than what the server will keep. */
static inline void assert_belief_is_true(const tl_lock *lock) {
    int64_t pttl = real_redis_int(server, "PTTL " KEY);
    int64_t remaining = tl_lock_remaining_ms(lock);
    assert_true(remaining <= (pttl > 0 ? pttl : 0));
}
