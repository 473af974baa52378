/*
 * hiredis, used as a program without tidelock would use it. It is only for comparison: after a failed
 * request it is not used again.
 */
#ifndef TL_SYSTEM_TIME_64 /* hiredis takes a struct timeval: the system's, of 32 bits in some 32-bit systems */
#undef _TIME_BITS
#endif
#include "bench/bench_bare.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#define LIMIT_S 2
#define TTL_MS "10000"
#define KEY_SIZE 128

struct bench_bare {
    redisContext *context;
    char key[KEY_SIZE], sha1[48];
    unsigned long long token;
};

static const char script[] =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

/* The caller frees it. NULL: no reply, or an error. */
static redisReply *good(redisReply *reply) {
    if (reply && reply->type == REDIS_REPLY_ERROR) {
        freeReplyObject(reply);
        return NULL;
    }
    return reply;
}

static bool is_done(redisReply *reply) {
    reply = good(reply);
    if (reply)
        freeReplyObject(reply);
    return reply != NULL;
}

static bool log_in(redisContext *context, const tl_endpoint *endpoint) {
    tl_password password = tl__password_ask(endpoint);
    bool in = true;
    if (endpoint->user[0])
        in = is_done(redisCommand(context, "AUTH %s %s", endpoint->user, password.text));
    else if (password.text[0])
        in = is_done(redisCommand(context, "AUTH %s", password.text));
    tl__password_forget(&password);
    if (!in)
        return false;
    return endpoint->db == 0 || is_done(redisCommand(context, "SELECT %d", (int)endpoint->db));
}

static bool load(bench_bare *bare) {
    redisReply *reply = good(redisCommand(bare->context, "SCRIPT LOAD %s", script));
    bool ok = reply && reply->type == REDIS_REPLY_STRING;
    if (ok)
        (void)snprintf(bare->sha1, sizeof bare->sha1, "%s", reply->str);
    if (reply)
        freeReplyObject(reply);
    return ok;
}

bench_bare *bench_bare_open(const tl_endpoint *endpoint, const char *key) {
    const struct timeval limit = {.tv_sec = LIMIT_S};
    bench_bare *bare = endpoint->tls ? NULL : calloc(1, sizeof *bare);
    if (!bare)
        return NULL;
    (void)snprintf(bare->key, sizeof bare->key, "%s", key);
    bare->context = endpoint->path[0]
                        ? redisConnectUnixWithTimeout(endpoint->path, limit)
                        : redisConnectWithTimeout(endpoint->host, endpoint->port, limit);
    if (bare->context && !bare->context->err && redisSetTimeout(bare->context, limit) == REDIS_OK &&
        log_in(bare->context, endpoint) && load(bare))
        return bare;
    if (bare->context)
        redisFree(bare->context);
    free(bare);
    return NULL;
}

void bench_bare_close(bench_bare *bare) {
    if (!bare)
        return;
    bench_bare_remove(bare, bare->key);
    redisFree(bare->context);
    free(bare);
}

bool bench_bare_pair(bench_bare *bare) {
    char token[40];
    (void)snprintf(token, sizeof token, "bench-%030llu", ++bare->token);
    return is_done(redisCommand(bare->context, "SET %s %s NX PX " TTL_MS, bare->key, token)) &&
           is_done(redisCommand(bare->context, "EVALSHA %s 1 %s %s", bare->sha1, bare->key, token));
}

/* A field of INFO, in seconds; -1: it is missing. */
static double seconds_of(const char *info, const char *name) {
    const char *at = strstr(info, name);
    return at ? strtod(at + strlen(name), NULL) : -1;
}

int64_t bench_bare_cpu_us(bench_bare *bare) {
    redisReply *reply = good(redisCommand(bare->context, "INFO cpu"));
    int64_t us = -1;
    if (reply && reply->str) {
        double sys = seconds_of(reply->str, "used_cpu_sys:"),
               user = seconds_of(reply->str, "used_cpu_user:");
        if (sys >= 0 && user >= 0)
            us = (int64_t)((sys + user) * 1e6);
    }
    if (reply)
        freeReplyObject(reply);
    return us;
}

void bench_bare_remove(bench_bare *bare, const char *key) {
    (void)is_done(redisCommand(bare->context, "DEL %s", key));
}
