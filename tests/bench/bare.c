/*
 * SET NX PX and EVALSHA by blocking calls of hiredis. Its tokens cost nothing, so that it is not
 * made to look worse than it is.
 */
#include "bare.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench.h"

#define TOKEN "%08x-8a0b-4c57-9d3e-000000000000" /* with the process */
#define TOKEN_SIZE 37

struct bare {
    redisContext *c;
    char key[64], sha1[41], token[TOKEN_SIZE];
};

static const char script[] =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 "
    "end";

bare *bare_open_on(redisContext *c, const char *key) {
    bare *b = calloc(1, sizeof *b);
    if (!b)
        die("out of memory");
    b->c = c;
    redisReply *reply = redisCommand(b->c, "SCRIPT LOAD %s", script);
    if (!reply || reply->type != REDIS_REPLY_STRING)
        die("SCRIPT LOAD: %s", b->c->errstr);
    (void)snprintf(b->sha1, sizeof b->sha1, "%s", reply->str);
    (void)snprintf(b->key, sizeof b->key, "%s", key);
    (void)snprintf(b->token, sizeof b->token, TOKEN, (unsigned)getpid());
    freeReplyObject(reply);
    return b;
}

bare *bare_open(const char *key) {
    return bare_open_on(bench_connect(), key);
}

void *bare_begin(void *key) {
    return bare_open(key);
}

void bare_close(bare *b) {
    redisFree(b->c);
    free(b);
}

/* Count its last digits up. */
static void next_token(char *token) {
    for (char *p = token + TOKEN_SIZE - 2; *p != '-'; p--) {
        *p = *p == '9' ? 'a' : (char)(*p + 1);
        if (*p <= 'f')
            return;
        *p = '0';
    }
}

bool bare_take(bare *b) {
    next_token(b->token);
    redisReply *set = redisCommand(b->c, "SET %s %s NX PX 30000", b->key, b->token);
    if (!set || set->type == REDIS_REPLY_ERROR)
        die("bare SET: %s", set ? set->str : b->c->errstr);
    bool taken = set->type == REDIS_REPLY_STATUS;
    freeReplyObject(set);
    return taken;
}

void bare_drop(bare *b) {
    redisReply *del = redisCommand(b->c, "EVALSHA %s 1 %s %s", b->sha1, b->key, b->token);
    if (!del || del->type != REDIS_REPLY_INTEGER || del->integer != 1)
        die("bare EVALSHA: %s", del ? "not ours" : b->c->errstr);
    freeReplyObject(del);
}

void bare_pair(void *ctx) {
    if (!bare_take(ctx))
        die("bare SET: another has it");
    bare_drop(ctx);
}
