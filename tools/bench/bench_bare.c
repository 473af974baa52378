/*
 * hiredis as a program without tidelock would use it. A request that goes wrong ends it: it is only for comparing.
 */
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
    redisContext *c;
    char key[KEY_SIZE], sha1[48];
    unsigned long long token;
};

static const char script[] =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

/* To be freed; NULL: none, or an error. */
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

static bool log_in(redisContext *c, const tl_endpoint *e) {
    tl_password password = tl__password_ask(e);
    bool in = true;
    if (e->user[0])
        in = is_done(redisCommand(c, "AUTH %s %s", e->user, password.text));
    else if (password.text[0])
        in = is_done(redisCommand(c, "AUTH %s", password.text));
    tl__password_forget(&password);
    if (!in)
        return false;
    return e->db == 0 || is_done(redisCommand(c, "SELECT %d", (int)e->db));
}

static bool load(bench_bare *b) {
    redisReply *reply = good(redisCommand(b->c, "SCRIPT LOAD %s", script));
    bool ok = reply && reply->type == REDIS_REPLY_STRING;
    if (ok)
        (void)snprintf(b->sha1, sizeof b->sha1, "%s", reply->str);
    if (reply)
        freeReplyObject(reply);
    return ok;
}

bench_bare *bench_bare_open(const tl_endpoint *e, const char *key) {
    const struct timeval limit = {.tv_sec = LIMIT_S};
    bench_bare *b = e->tls ? NULL : calloc(1, sizeof *b);
    if (!b)
        return NULL;
    (void)snprintf(b->key, sizeof b->key, "%s", key);
    b->c = e->path[0] ? redisConnectUnixWithTimeout(e->path, limit)
                      : redisConnectWithTimeout(e->host, e->port, limit);
    if (b->c && !b->c->err && redisSetTimeout(b->c, limit) == REDIS_OK && log_in(b->c, e) &&
        load(b))
        return b;
    if (b->c)
        redisFree(b->c);
    free(b);
    return NULL;
}

void bench_bare_close(bench_bare *b) {
    if (!b)
        return;
    bench_bare_remove(b, b->key);
    redisFree(b->c);
    free(b);
}

bool bench_bare_pair(bench_bare *b) {
    char token[40];
    (void)snprintf(token, sizeof token, "bench-%030llu", ++b->token);
    return is_done(redisCommand(b->c, "SET %s %s NX PX " TTL_MS, b->key, token)) &&
           is_done(redisCommand(b->c, "EVALSHA %s 1 %s %s", b->sha1, b->key, token));
}

/* Of a line of INFO, in seconds. */
static double seconds_of(const char *info, const char *name) {
    const char *at = strstr(info, name);
    return at ? strtod(at + strlen(name), NULL) : -1;
}

int64_t bench_bare_cpu_us(bench_bare *b) {
    redisReply *reply = good(redisCommand(b->c, "INFO cpu"));
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

void bench_bare_remove(bench_bare *b, const char *key) {
    (void)is_done(redisCommand(b->c, "DEL %s", key));
}
