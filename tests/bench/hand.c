/*
 * Each key has one message on its way, the take and the release in turn; a token is a number and made anew for each
 * take.
 */
#include "hand.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raw.h"
#include "wire/keys.h"

typedef struct {
    char key[32], token[40], line[32 + TL_SIDECAR_EXTRA + TL_LINE_EXTRA], counter[TL_COUNTER_SIZE];
    tl_bytes beside, counts, waits;
    bool held; /* or being taken: what is on its way is the take */
} slot;

typedef struct {
    redisContext *c;
    int depth, on_way, first; /* first: whose reply is awaited, of `order` */
    uint64_t tokens;
    tl_bytes sha1;
    slot slot[HAND_MOST];
    slot *order[HAND_MOST]; /* a ring */
} hand;

void *hand_open(void *how) {
    const in_flight *f = how;
    hand *h = calloc(1, sizeof *h);
    if (!h)
        die("out of memory");
    h->c = bench_connect();
    h->depth = f->depth;
    h->sha1 = tl__script_sha1(TL_SCRIPT_RELEASE);
    raw_load(h->c, TL_SCRIPT_RELEASE);
    for (int i = 0; i < f->depth; i++) {
        slot *s = &h->slot[i];
        int n = snprintf(s->key, sizeof s->key, "bench:hand:%d", i);
        tl_bytes key = {s->key, (size_t)n};
        tl_slot_tag tag = tl__slot_tag(tl__hash_slot(key));
        bool same;
        s->beside = tl__sidecar(s->line, key, &same);
        s->waits = tl__line(s->line, s->beside);
        s->counts = tl__counter(s->counter, &tag);
    }
    return h;
}

/* ---- sending --------------------------------------------------------------------------------- */

static void append(hand *h, int n, const tl_bytes *words) {
    const char *argv[9];
    size_t lengths[9];
    for (int i = 0; i < n; i++) {
        argv[i] = words[i].p;
        lengths[i] = words[i].n;
    }
    if (redisAppendCommandArgv(h->c, n, argv, lengths) != REDIS_OK)
        die("by hand: %s", h->c->errstr);
}

#define APPEND(h, ...)                                                                             \
    append(h, (int)(sizeof((const tl_bytes[]){__VA_ARGS__}) / sizeof(tl_bytes)),                   \
           (const tl_bytes[]){__VA_ARGS__})
#define TEXT(s) ((tl_bytes){s, strlen(s)})

static void send_take(hand *h, slot *s) {
    (void)snprintf(s->token, sizeof s->token, "6f1c2d52-8a0b-4c57-9d3e-%012llu",
                   (unsigned long long)++h->tokens);
    APPEND(h, TL_LITERAL("MULTI"));
    APPEND(h, TL_LITERAL("SET"), TEXT(s->key), TEXT(s->token), TL_LITERAL("NX"), TL_LITERAL("PX"),
           TL_LITERAL("30000"));
    APPEND(h, TL_LITERAL("INCR"), s->counts);
    APPEND(h, TL_LITERAL("HMGET"), s->beside, TL_LITERAL("token"), TL_LITERAL("until"),
           TL_LITERAL("fence"), TL_LITERAL("line"));
    APPEND(h, TL_LITERAL("EXEC"));
}

static void send_drop(hand *h, const slot *s) {
    APPEND(h, TL_LITERAL("EVALSHA"), h->sha1, TL_LITERAL("4"), TEXT(s->key), s->beside, s->counts,
           s->waits, TEXT(s->token), TL_LITERAL("62000"));
}

static void send_next(hand *h, slot *s) {
    s->held = !s->held;
    if (s->held)
        send_take(h, s);
    else
        send_drop(h, s);
    h->order[(h->first + h->on_way++) % HAND_MOST] = s;
}

/* ---- reading --------------------------------------------------------------------------------- */

static redisReply *next_reply(hand *h, int type) {
    redisReply *reply = NULL;
    if (redisGetReply(h->c, (void **)&reply) != REDIS_OK)
        die("by hand: %s", h->c->errstr);
    if (reply->type != type)
        die("by hand: a reply of type %d: %s", reply->type, reply->str ? reply->str : "");
    return reply;
}

static void read_take(hand *h) {
    for (int i = 0; i < 4; i++) /* OK, QUEUED three times */
        freeReplyObject(next_reply(h, REDIS_REPLY_STATUS));
    redisReply *all = next_reply(h, REDIS_REPLY_ARRAY);
    if (all->elements != 3 || all->element[0]->type != REDIS_REPLY_STATUS)
        die("by hand: a lock was not had");
    freeReplyObject(all);
}

static void read_drop(hand *h) {
    redisReply *reply = next_reply(h, REDIS_REPLY_INTEGER);
    if (reply->integer != 1)
        die("by hand: a lock was not given back");
    freeReplyObject(reply);
}

uint64_t hand_run(void *ctx, int64_t until_ns, meter *m) {
    hand *h = ctx;
    uint64_t done = 0;
    (void)m;
    for (int i = 0; i < h->depth; i++)
        send_next(h, &h->slot[i]);
    while (h->on_way > 0) {
        slot *s = h->order[h->first];
        h->first = (h->first + 1) % HAND_MOST;
        h->on_way--;
        if (s->held)
            read_take(h);
        else
            read_drop(h);
        done += !s->held;
        if (s->held || now_ns() < until_ns)
            send_next(h, s);
    }
    return done;
}
