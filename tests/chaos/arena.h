/*
 * What tests of faults share: a private redis-server, a proxy before it, and clients on both ways.
 */
#ifndef ARENA_H
#define ARENA_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "locks.h"
#include "proxy.h"
#include "real_redis.h"

#define KEY "chaos:key"
#define TTL_MS 30000
#define ATTEMPT_MS clock_patient_ms(300)
#define CONNECT_MS clock_patient_ms(400)
#define BRIEF_MS                                                                                   \
    clock_patient_ms(1200) /**< a lifetime that is renewed in time, and can be waited out */

static real_redis *server;
static proxy *gate;

/** Before each test: an empty server, and a new proxy. */
static inline int arena_set_up(void **state) {
    (void)state;
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

#define ARENA_TEST(test) cmocka_unit_test_setup_teardown(test, arena_set_up, arena_tear_down)

/** With short limits; through the proxy, or straight to the server. */
static inline tl_client *client_at(const char *url) {
    return make_client_with(
        TL_CLIENT_OPTIONS(.url = url, .attempt_ms = ATTEMPT_MS, .connect_ms = CONNECT_MS));
}

/** Through the proxy, with a connection that is open already. */
static inline tl_client *client_behind_gate(void) {
    tl_client *client = client_at(proxy_url(gate));
    ASSERT_RESULT(tl_client_ping(client, &said), TL_OK);
    return client;
}

static inline tl_client *client_direct(void) {
    return client_at(real_redis_url(server));
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

/** Has the server executed a command at least so often in this test, or since forget_executed? */
static inline bool has_executed(const char *command, int times) {
    char words[64];
    redisReply *info = real_redis_command(server, "INFO commandstats");
    (void)snprintf(words, sizeof words, "cmdstat_%s:calls=", command);
    const char *at = info ? strstr(info->str, words) : NULL;
    bool has = at && atoi(at + strlen(words)) >= times;
    freeReplyObject(info);
    return has;
}

static inline void forget_executed(void) {
    freeReplyObject(real_redis_command(server, "CONFIG RESETSTAT"));
}

/** The lock is free for another, soon. */
static inline void assert_free_soon(void) {
    tl_lock *next = by_hand(client_direct(), TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(next, SOON_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(next, &said), TL_OK);
    drop_lock(next);
}

/** What the holder believes is not more than what the server will keep. */
static inline void assert_belief_is_true(const tl_lock *lock) {
    int64_t pttl = real_redis_int(server, "PTTL " KEY);
    int64_t remaining = tl_lock_remaining_ms(lock);
    assert_true(remaining <= (pttl > 0 ? pttl : 0));
}

#endif
