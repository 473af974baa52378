/*
 * Plain locks and a thread that renews them with hiredis' pipeline.
 */
#include "pipeline.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"

#define TICK (10 * MS) /* those due within it are sent together */
#define TAKE_AT_ONCE 1000
#define TOKEN "6f1c2d52-8a0b-4c57-9d3e-%012d"

struct pipeline {
    redisContext *c;
    pthread_t thread;
    int count, next, joined;
    bool by_hand;
    int64_t cycle_ns;
    char sha1[41], ttl[24];
    atomic_bool over;
    atomic_ullong renewed;
};

static const char script[] = "if redis.call('GET', KEYS[1]) == ARGV[1] then return "
                             "redis.call('PEXPIRE', KEYS[1], ARGV[2]) else return 0 end";

/* All keys are read at once, nothing is proved but that each is ours, and nothing else is kept. */
static const char joined_script[] =
    "local n, held = 0, redis.call('MGET', unpack(KEYS)) "
    "for i = 1, #KEYS do if held[i] == ARGV[i] then "
    "n = n + redis.call('PEXPIRE', KEYS[i], ARGV[#KEYS + 1]) end end "
    "return n";

/* One reply of a pipeline: its integer, or 1 for OK. */
static long long next_reply(pipeline *p) {
    redisReply *reply = NULL;
    if (redisGetReply(p->c, (void **)&reply) != REDIS_OK)
        die("pipeline: %s", p->c->errstr);
    long long v = reply->type == REDIS_REPLY_INTEGER  ? reply->integer
                  : reply->type == REDIS_REPLY_STATUS ? 1
                                                      : 0;
    freeReplyObject(reply);
    return v;
}

static void take_all(pipeline *p) {
    for (int i = 0; i < p->count; i += TAKE_AT_ONCE) {
        int n = p->count - i < TAKE_AT_ONCE ? p->count - i : TAKE_AT_ONCE;
        for (int k = i; k < i + n; k++)
            redisAppendCommand(p->c, "SET bench:plain:%d " TOKEN " NX PX %s", k, k, p->ttl);
        for (int k = 0; k < n; k++)
            if (next_reply(p) != 1)
                die("pipeline: a lock was not had");
    }
}

static void send_one(pipeline *p, int k) {
    redisAppendCommand(p->c, "EVALSHA %s 1 bench:plain:%d " TOKEN " %s", p->sha1, k, k, p->ttl);
}

static void send_joined(pipeline *p, int from, int n) {
    char words[2 * PIPELINE_JOINED][48], number[16];
    const char *argv[4 + 2 * PIPELINE_JOINED] = {"EVALSHA", p->sha1, number};
    (void)snprintf(number, sizeof number, "%d", n);
    for (int i = 0; i < n; i++) {
        int k = (from + i) % p->count;
        (void)snprintf(words[i], sizeof *words, "bench:plain:%d", k);
        (void)snprintf(words[n + i], sizeof *words, TOKEN, k);
        argv[3 + i] = words[i];
        argv[3 + n + i] = words[n + i];
    }
    argv[3 + 2 * n] = p->ttl;
    redisAppendCommandArgv(p->c, 4 + 2 * n, argv, NULL);
}

/* As programs without a script do it: what the keys hold may change before the PEXPIREs arrive. */
static void renew_by_hand(pipeline *p, int from, int n) {
    char words[PIPELINE_JOINED][48], token[48];
    const char *argv[1 + PIPELINE_JOINED] = {"MGET"};
    for (int i = 0; i < n; i++) {
        (void)snprintf(words[i], sizeof *words, "bench:plain:%d", (from + i) % p->count);
        argv[1 + i] = words[i];
    }
    redisReply *reply = redisCommandArgv(p->c, 1 + n, argv, NULL);
    if (!reply || reply->elements != (size_t)n)
        die("pipeline: %s", p->c->errstr);
    for (int i = 0; i < n; i++) {
        (void)snprintf(token, sizeof token, TOKEN, (from + i) % p->count);
        if (!reply->element[i]->str || strcmp(reply->element[i]->str, token) != 0)
            die("pipeline: a lock has expired: is the machine so busy?");
        redisAppendCommand(p->c, "PEXPIRE %s %s", words[i], p->ttl);
    }
    freeReplyObject(reply);
}

static void send_all(pipeline *p, int n) {
    for (int i = 0; i < n; i += p->joined)
        if (p->joined > 1)
            send_joined(p, p->next + i, n - i < p->joined ? n - i : p->joined);
        else
            send_one(p, (p->next + i) % p->count);
}

void pipeline_renew(pipeline *p, int n) {
    if (p->by_hand)
        renew_by_hand(p, p->next, n);
    else
        send_all(p, n);
    for (int i = 0; i < n; i += p->joined)
        if (next_reply(p) != (n - i < p->joined ? n - i : p->joined))
            die("pipeline: a lock has expired: is the machine so busy?");
    p->next = (p->next + n) % p->count;
    atomic_fetch_add(&p->renewed, (unsigned long long)n);
}

static void *work(void *arg) {
    pipeline *p = arg;
    int64_t start = now_ns(), done = 0;
    while (!atomic_load(&p->over)) {
        int64_t due = (now_ns() - start) * p->count / p->cycle_ns - done;
        if (due > 0)
            pipeline_renew(p, (int)(due < p->count ? due : p->count));
        done += due;
        const struct timespec tick = {.tv_nsec = TICK};
        (void)nanosleep(&tick, NULL);
    }
    return NULL;
}

pipeline *pipeline_open(redisContext *c, int count, int64_t ttl_ms, int joined) {
    pipeline *p = calloc(1, sizeof *p);
    if (!p)
        die("out of memory");
    p->c = c;
    p->count = count;
    p->by_hand = joined == PIPELINE_BY_HAND;
    p->joined = p->by_hand ? 1 : joined;
    (void)snprintf(p->ttl, sizeof p->ttl, "%lld", (long long)ttl_ms);
    redisReply *reply = redisCommand(p->c, "SCRIPT LOAD %s", joined > 1 ? joined_script : script);
    if (!reply || reply->type != REDIS_REPLY_STRING)
        die("SCRIPT LOAD: %s", p->c->errstr);
    (void)snprintf(p->sha1, sizeof p->sha1, "%s", reply->str);
    freeReplyObject(reply);
    take_all(p);
    return p;
}

pipeline *pipeline_start(int count, int64_t ttl_ms, int64_t cycle_ns, int joined) {
    pipeline *p = pipeline_open(bench_connect(), count, ttl_ms, joined);
    p->cycle_ns = cycle_ns;
    if (pthread_create(&p->thread, NULL, work, p) != 0)
        die("no thread");
    return p;
}

uint64_t pipeline_renewed(pipeline *p) {
    return atomic_load(&p->renewed);
}

void pipeline_stop(pipeline *p) {
    atomic_store(&p->over, true);
    (void)pthread_join(p->thread, NULL);
    redisFree(p->c);
    free(p);
}
