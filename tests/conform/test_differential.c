/*
 * The fake server answers as redis-server 7.0 does: the same commands go to both, and the replies
 * must be equal. Lifetimes are long or past, so that only what is left of them may differ a little.
 *
 *   SEED=n RUNS=n   the first seed (default 1), and how many sequences (default 40)
 *   TRACE=1         print each command and both replies
 * Only in make check-all: it is about the fake server of the tests.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "fake_alike.h"
#include "fake_redis.h"
#include "fake_show.h"
#include "fake_workload.h"
#include "real_redis.h"
#include "real_server.h"
#include "tests.h"
#include "wire/script.h"

#define CONNS 3
#define QUEUE_MAX 64
#define STEPS 800
#define POOL 4096 /* items in a reply */
#define NO_ITEM SIZE_MAX

/* One connection to each server. */
typedef struct {
    fake_conn *fake;
    redisContext *real;
    fake_likeness queued[QUEUE_MAX]; /* of the commands in an open transaction */
    size_t queue_count;
} pair;

typedef struct {
    real_redis *real;
    fake_redis *fake;
    pair conn[CONNS];
    fake_workload workload;
    uint64_t seed;
    size_t step;
    bool trace;
} twin_world;

/* ---- comparing ------------------------------------------------------------------------------- */

typedef struct {
    tl_reply item[POOL];
    size_t used;
} pool;

static void convert(pool *items, const redisReply *from, tl_reply *to) {
    static const tl_reply_type types[] = {
        [REDIS_REPLY_STRING] = TL_REPLY_STRING, [REDIS_REPLY_ARRAY] = TL_REPLY_ARRAY,
        [REDIS_REPLY_INTEGER] = TL_REPLY_INT,   [REDIS_REPLY_NIL] = TL_REPLY_NIL,
        [REDIS_REPLY_STATUS] = TL_REPLY_STATUS, [REDIS_REPLY_ERROR] = TL_REPLY_ERROR};
    tl_reply *list = &items->item[items->used];
    assert_in_range(from->type, 1, 6);
    *to = (tl_reply){.type = types[from->type], .integer = from->integer};
    if (to->type == TL_REPLY_ARRAY) {
        items->used += from->elements;
        assert_true(items->used <= POOL);
        to->items = list;
        to->count = from->elements;
        for (size_t i = 0; i < from->elements; i++) {
            convert(items, from->element[i], &list[i]);
        }
    } else if (to->type != TL_REPLY_INT && to->type != TL_REPLY_NIL) {
        to->text = tl__bytes(from->str, from->len);
    }
}

/* `blind`: an item of the reply that can't be compared, the microseconds of TIME. */
static void compare(const twin_world *w, const pair *p, const fake_order *c, const tl_reply *fake,
                    const redisReply *reply, size_t blind) {
    static pool items;
    tl_reply real;
    char text[FAKE_SHOW_SIZE];
    fake_alikeness how = {c->like, p->queued, p->queue_count};
    items.used = 0;
    convert(&items, reply, &real);
    if (fake->type == TL_REPLY_ARRAY && real.type == TL_REPLY_ARRAY && blind < fake->count &&
        blind < real.count) {
        items.item[blind] = fake->items[blind];
    }
    bool equal = fake_alike(&how, fake, &real);
    if (equal && !w->trace) {
        return;
    }
    tl_reply words[FAKE_ORDER_MAX];
    tl_reply order = {.type = TL_REPLY_ARRAY, .items = words, .count = c->argc};
    for (size_t i = 0; i < c->argc; i++) {
        words[i] = (tl_reply){.type = TL_REPLY_STRING, .text = c->argv[i]};
    }
    printf("SEED=%llu, step %zu, connection %d: %s\n", (unsigned long long)w->seed, w->step,
           (int)(p - w->conn), fake_show(&order, text));
    printf("  fake: %s\n", fake_show(fake, text));
    printf("  real: %s\n", fake_show(&real, text));
    assert_true(equal);
}

/* ---- both servers ---------------------------------------------------------------------------- */

static int64_t wall_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static redisReply *ask_real(const pair *p, const fake_order *c) {
    const char *argv[FAKE_ORDER_MAX];
    size_t lengths[FAKE_ORDER_MAX];
    for (size_t i = 0; i < c->argc; i++) {
        argv[i] = c->argv[i].p;
        lengths[i] = c->argv[i].n;
    }
    redisReply *reply = redisCommandArgv(p->real, (int)c->argc, argv, lengths);
    if (!reply) {
        fail_msg("the real server does not answer %s: %s", argv[0], p->real->errstr);
    }
    return reply;
}

static void remember_queued(pair *p, const fake_order *c, const tl_reply *reply) {
    if (reply->type == TL_REPLY_STATUS && tl__bytes_eq(reply->text, TL_LITERAL("QUEUED"))) {
        if (p->queue_count < QUEUE_MAX) {
            p->queued[p->queue_count++] = c->like;
        }
    } else if (reply->type != TL_REPLY_ERROR) {
        p->queue_count = 0;
    }
}

/* Both execute it, and must answer the same. Returns the fake's reply. */
static const tl_reply *both(twin_world *w, int conn, const fake_order *c) {
    pair *p = &w->conn[conn];
    redisReply *real = ask_real(p, c);
    fake_redis_set_time(w->fake, wall_us());
    const tl_reply *fake = fake_conn_command(p->fake, c->argv, c->argc);
    compare(w, p, c, fake, real, NO_ITEM);
    remember_queued(p, c, fake);
    freeReplyObject(real);
    return fake;
}

static const tl_reply *say(twin_world *w, int conn, fake_likeness like, const char *words) {
    fake_order c;
    fake_workload_words(&w->workload, words, &c);
    c.like = like;
    w->step++;
    return both(w, conn, &c);
}

/* For the real server alone: what a knob is on the fake. */
static void real_only(twin_world *w, const char *words) {
    redisReply *reply = real_redis_command(w->real, words);
    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_ERROR) {
        fail_msg("%s: %s", words, reply->str);
    }
    freeReplyObject(reply);
}

static void begin(twin_world *w, uint64_t seed) {
    w->seed = seed;
    w->workload = fake_workload_seeded(seed);
    w->step = 0;
    real_only(w, "FLUSHALL");
    real_only(w, "SCRIPT FLUSH");
    fake_redis_reset(w->fake);
    fake_redis_allow_undeclared(w->fake, NULL);
    for (int i = 0; i < CONNS; i++) {
        redisFree(w->conn[i].real);
        w->conn[i] = (pair){.fake = fake_redis_connect(w->fake, NULL, NULL),
                            .real = real_redis_connect(w->real)};
        say(w, i, FAKE_LIKE_EXACT, "PING"); /* by now it has been accepted */
    }
    w->step = 0;
}

/* ---- random ---------------------------------------------------------------------------------- */

static long setting(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtol(text, NULL, 10) : otherwise;
}

TEST_ON(random_commands_are_answered_as_redis_does, twin_world *w) {
    uint64_t first = (uint64_t)setting("SEED", 1);
    long runs = setting("RUNS", 40);
    for (long run = 0; run < runs; run++) {
        begin(w, first + (uint64_t)run);
        for (; w->step < STEPS; w->step++) {
            fake_order c;
            fake_workload_next(&w->workload, &c);
            bool same_one = fake_workload_draw(&w->workload, 4);
            both(w, same_one ? 0 : (int)fake_workload_draw(&w->workload, CONNS), &c);
        }
    }
}

TEST_ON(every_script_is_answered_as_redis_does, twin_world *w) {
    begin(w, 1);
    for (size_t i = 0; i < fake_workload_scripts(); i++, w->step++) {
        fake_order eval, load = {.argc = 3, .argv = {TL_LITERAL("SCRIPT"), TL_LITERAL("LOAD")}};
        fake_workload_script(&w->workload, i, &eval);
        load.argv[2] = eval.argv[1];
        const tl_reply *loaded = both(w, 1, &load);
        if (loaded->type == TL_REPLY_STRING) {
            eval.argv[0] = TL_LITERAL("EVALSHA");
            eval.argv[1] = loaded->text;
        }
        both(w, 0, &eval);
    }
}

/* ---- the scripts that are shipped ------------------------------------------------------------ */

/* Fencing numbers beyond both clocks. */
static tl_bytes proposal(uint64_t i) {
    static char text[4][24];
    for (int64_t j = 0; j < 4 && !text[3][0]; j++)
        (void)snprintf(text[j], sizeof text[j], "%lld",
                       (long long)(wall_us() + INT64_C(3600000000) * (j + 1)));
    return tl__bytes_of(text[i]);
}

/* An argument of a kind: good mostly, hostile now and then. */
static tl_bytes lock_argument(fake_workload *w, char kind) {
    static const char *const tokens[] = {"token-one", "token-two", "x", ""};
    static const char *const expected[] = {"", "", "=token-one", "=x"};
    static const char *const lifetimes[] = {"100000", "3000000", "500000000", "60000"};
    static const char *const limits[] = {"0", "1", "4102444800000000", "0"};
    static const char *const hostile[] = {"-5", "", "1e400", "x"};
    uint64_t i = fake_workload_draw(w, 4);
    if (fake_workload_draw(w, 150) == 0) {
        return tl__bytes_of(hostile[i]);
    }
    switch (kind) {
    case 't': return tl__bytes_of(tokens[i]);
    case 'e': return tl__bytes_of(expected[i]);
    case 'l': return tl__bytes_of(lifetimes[i]);
    case 'n': return tl__bytes_of(limits[i]);
    case 'h': return i % 2 ? TL_LITERAL("take") : TL_LITERAL("keep");
    case '0': return TL_LITERAL("0");
    case '1': return TL_LITERAL("1");
    case 'p': return proposal(i);
    default: return TL_LITERAL("host 1 service");
    }
}

/* Its keys, the kinds of its arguments, and what of the reply is the microseconds of TIME. */
static const struct {
    const char *keys, *kinds;
    size_t micros;
} shipped[TL_SCRIPTS] = {
    [TL_SCRIPT_ACQUIRE] = {"2", "tlnnno", 5},   [TL_SCRIPT_RENEW] = {"2", "nlttllnn", 1},
    [TL_SCRIPT_RELEASE] = {"4", "t", SIZE_MAX}, [TL_SCRIPT_LOOK] = {"3", "", 9},
    [TL_SCRIPT_HOLD] = {"1", "tlnh", 4},        [TL_SCRIPT_FREE] = {"1", "to", SIZE_MAX},
    [TL_SCRIPT_VOTE] = {"3", "tlnnno1p0", 5},   [TL_SCRIPT_UNVOTE] = {"3", "t", SIZE_MAX},
    [TL_SCRIPT_BREAK] = {"2", "enol", SIZE_MAX}}; /* and scan.lua has no keys of its own */

static void both_shipped(twin_world *w, tl_script script) {
    fake_order c = {.like = FAKE_LIKE_TIMES, .argc = 3 + (size_t)(*shipped[script].keys - '0')};
    c.argv[0] = TL_LITERAL("EVAL");
    c.argv[1] = tl__script_text(script);
    c.argv[2] = tl__bytes_of(shipped[script].keys);
    c.argv[3] = TL_LITERAL("lock");
    c.argv[4] = TL_LITERAL("tidelock:{lock}"); /* or written over */
    c.argv[5] = TL_LITERAL("tidelock:fence:{1}");
    c.argv[6] = TL_LITERAL("tidelock:{lock}:line");
    if (script == TL_SCRIPT_LOOK || script == TL_SCRIPT_UNVOTE)
        c.argv[5] = c.argv[6];
    for (const char *kind = shipped[script].kinds; *kind; kind++) {
        c.argv[c.argc++] = lock_argument(&w->workload, *kind);
    }
    redisReply *real = ask_real(&w->conn[0], &c);
    fake_redis_set_time(w->fake, wall_us());
    const tl_reply *fake = fake_conn_command(w->conn[0].fake, c.argv, c.argc);
    compare(w, &w->conn[0], &c, fake, real, shipped[script].micros);
    freeReplyObject(real);
}

TEST_ON(shipped_scripts_are_answered_as_redis_does, twin_world *w) {
    static const char *const meddling[] = {"DEL lock",
                                           "DEL tidelock:{lock}",
                                           "GETSET lock x",
                                           "SET lock token-one PX 60000",
                                           "HSET lock f v",
                                           "GET lock",
                                           "SET tidelock:{lock} string",
                                           "HSET tidelock:{lock} until bogus fence bogus"};
    for (uint64_t seed = 1; seed <= 6; seed++) {
        begin(w, seed);
        for (; w->step < 400; w->step++) {
            if (fake_workload_draw(&w->workload, 12) == 0) {
                say(w, 1, FAKE_LIKE_EXACT, meddling[fake_workload_draw(&w->workload, 8)]);
            } else {
                tl_script script = (tl_script)fake_workload_draw(&w->workload, TL_SCRIPTS);
                both_shipped(w, shipped[script].keys ? script : TL_SCRIPT_ACQUIRE);
            }
            say(w, 1, FAKE_LIKE_TIMES, "PTTL lock");
            say(w, 1, FAKE_LIKE_ANY_PAIRS, "HGETALL tidelock:{lock}");
        }
    }
}

/* ---- knobs ----------------------------------------------------------------------------------- */

static void script(twin_world *w, const char *text) {
    fake_order c = {.argc = 5,
                    .argv = {TL_LITERAL("EVAL"), tl__bytes_of(text), TL_LITERAL("1"),
                             TL_LITERAL("k"), TL_LITERAL("v")}};
    w->step++;
    both(w, 0, &c);
}

static const char write_script[] = "return redis.call('SET', KEYS[1], ARGV[1])";
static const char pwrite_script[] = "return redis.pcall('SET', KEYS[1], ARGV[1])";

/* What every refusal of writes has in common. */
static void try_writes(twin_world *w) {
    say(w, 0, FAKE_LIKE_EXACT, "GET k");
    say(w, 0, FAKE_LIKE_EXACT, "SET k v");
    say(w, 0, FAKE_LIKE_EXACT, "DEL k");
    say(w, 0, FAKE_LIKE_EXACT, "SETNX k v");
    say(w, 0, FAKE_LIKE_EXACT, "PEXPIRE k 100000");
    script(w, write_script);
    script(w, pwrite_script);
    script(w, "redis.call('DEL', KEYS[1]) return redis.call('SET', KEYS[1], ARGV[1])");
    script(w, "return redis.call('GET', KEYS[1])");
    script(w, "local r = redis.pcall('SET', KEYS[1], ARGV[1]) return r.err");
    say(w, 0, FAKE_LIKE_EXACT, "MULTI");
    say(w, 0, FAKE_LIKE_EXACT, "GET k");
    say(w, 0, FAKE_LIKE_EXACT, "SET k v");
    say(w, 0, FAKE_LIKE_EXACT, "EXEC");
}

/* Queued while writes were still allowed. */
static void queue_write(twin_world *w) {
    say(w, 1, FAKE_LIKE_EXACT, "MULTI");
    say(w, 1, FAKE_LIKE_EXACT, "SET k queued");
}

TEST_ON(out_of_memory_is_refused_as_redis_does, twin_world *w) {
    begin(w, 1);
    say(w, 0, FAKE_LIKE_EXACT, "SET k v");
    queue_write(w);
    real_only(w, "CONFIG SET maxmemory 1");
    fake_redis_set_oom(w->fake, true);
    say(w, 1, FAKE_LIKE_EXACT, "EXEC");
    try_writes(w);
    real_only(w, "CONFIG SET maxmemory 0");
    fake_redis_set_oom(w->fake, false);
    try_writes(w);
}

TEST_ON(a_read_only_replica_refuses_as_redis_does, twin_world *w) {
    begin(w, 1);
    say(w, 0, FAKE_LIKE_EXACT, "SET k v");
    queue_write(w);
    real_only(w, "REPLICAOF 127.0.0.1 1");
    fake_redis_set_replica(w->fake, true);
    say(w, 1, FAKE_LIKE_EXACT, "EXEC");
    try_writes(w);
    real_only(w, "REPLICAOF NO ONE");
    fake_redis_set_replica(w->fake, false);
    try_writes(w);
}

TEST_ON(denied_commands_are_refused_as_redis_does, twin_world *w) {
    begin(w, 1);
    real_only(w, "ACL SETUSER default -set -del -multi");
    fake_redis_deny(w->fake, "SET DEL MULTI", FAKE_NOPERM);
    try_writes(w);
    real_only(w, "ACL SETUSER default +set +del +multi");
    fake_redis_deny(w->fake, "SET DEL MULTI", FAKE_ALLOW);
    try_writes(w);
}

TEST_ON(passwords_are_asked_for_as_redis_does, twin_world *w) {
    begin(w, 1);
    real_only(w, "CONFIG SET requirepass secret");
    fake_redis_set_password(w->fake, "secret");
    redisFree(w->conn[2].real);
    w->conn[2].real = real_redis_connect(w->real);
    w->conn[2].fake = fake_redis_connect(w->fake, NULL, NULL);
    say(w, 0, FAKE_LIKE_EXACT, "SET k v");
    static const char *const words[] = {"GET k",
                                        "NOSUCH",
                                        "MULTI",
                                        "GET",
                                        "AUTH wrong",
                                        "AUTH nobody secret",
                                        "AUTH default wrong",
                                        "AUTH a b c",
                                        "GET k",
                                        "AUTH secret",
                                        "GET k",
                                        "AUTH wrong",
                                        "GET k",
                                        "AUTH default secret"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        say(w, 2, FAKE_LIKE_EXACT, words[i]);
    }
    freeReplyObject(real_redis_command(w->real, "CONFIG SET requirepass %s", ""));
}

/* ---- messages -------------------------------------------------------------------------------- */

#define PUSHES_MAX 16

typedef struct {
    twin_world *w;
    size_t count;
    redisContext *real;
} listener;

/* Each push of the fake must be what comes next from the real one. */
static void on_push(void *ctx, const tl_reply *reply) {
    listener *l = ctx;
    redisReply *real = NULL;
    if (redisGetReply(l->real, (void **)&real) != REDIS_OK) {
        char text[FAKE_SHOW_SIZE];
        fail_msg("SEED=%llu, step %zu: the real server doesn't push %s",
                 (unsigned long long)l->w->seed, l->w->step, fake_show(reply, text));
    }
    l->count++;
    compare(l->w, &l->w->conn[2], &(fake_order){0}, reply, real, NO_ITEM);
    freeReplyObject(real);
}

/* The last connection hears what is pushed. */
static void listen_on(twin_world *w, listener *l) {
    l->real = w->conn[2].real;
    fake_conn_close(w->conn[2].fake);
    w->conn[2].fake = fake_redis_connect(w->fake, &(fake_calls){.push = on_push}, l);
}

/* Or unsubscribe: what both push is compared. */
static void subscribe(listener *l, const char *line) {
    int done = 0;
    assert_int_equal(redisAppendCommand(l->real, line), REDIS_OK);
    while (!done) {
        assert_int_equal(redisBufferWrite(l->real, &done), REDIS_OK);
    }
    assert_null(fake_conn_say(l->w->conn[2].fake, line));
}

TEST_ON(messages_are_published_as_redis_does, twin_world *w) {
    begin(w, 1);
    listener l = {.w = w};
    listen_on(w, &l);
    static const char *const steps[] = {"SUBSCRIBE a b", "SUBSCRIBE a",     "UNSUBSCRIBE b",
                                        "UNSUBSCRIBE x", "UNSUBSCRIBE",     "UNSUBSCRIBE",
                                        "SUBSCRIBE a",   "UNSUBSCRIBE a x", "SUBSCRIBE b a"};
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        subscribe(&l, steps[i]);
        say(w, 0, FAKE_LIKE_EXACT, "PUBLISH a hello");
        say(w, 0, FAKE_LIKE_EXACT, "PUBLISH b there");
        script(w, "return redis.call('PUBLISH', 'a', ARGV[1])");
    }
    assert_int_equal(l.count, 27);
    say(w, 2, FAKE_LIKE_EXACT, "GET k");
    say(w, 2, FAKE_LIKE_EXACT, "PING");
    say(w, 2, FAKE_LIKE_EXACT, "PING x");
    say(w, 2, FAKE_LIKE_EXACT, "MULTI");
}

/* ---- tracking -------------------------------------------------------------------------------- */

/* It hears of what the first connection has read. */
static void track(listener *l, const char *options) {
    twin_world *w = l->w;
    char real[100], fake[100];
    redisReply *id = redisCommand(l->real, "CLIENT ID");
    assert_non_null(id);
    snprintf(real, sizeof(real), "CLIENT TRACKING ON REDIRECT %lld%s", id->integer, options);
    snprintf(fake, sizeof(fake), "CLIENT TRACKING ON REDIRECT %lld%s",
             (long long)fake_conn_say(w->conn[2].fake, "CLIENT ID")->integer, options);
    redisReply *on = redisCommand(w->conn[0].real, real);
    assert_true(on && on->type == REDIS_REPLY_STATUS);
    assert_int_equal(fake_conn_say(w->conn[0].fake, fake)->type, TL_REPLY_STATUS);
    freeReplyObject(on);
    freeReplyObject(id);
}

/* Everything has been heard: what comes next is the answer. */
static void nothing_more(twin_world *w) {
    say(w, 2, FAKE_LIKE_EXACT, "PING");
}

/* Each by the reader, "<", or by the other, ">"; `in`: a script with key k. */
static const char *const read_and_changed[] = {"> SET k v",
                                               "< GET k",
                                               "> SET k w",
                                               "> SET k x",
                                               "< GET k",
                                               "< SET k v",
                                               "> SET k w",
                                               "< GET k",
                                               "> SELECT 1",
                                               "> SET k v",
                                               "> SELECT 0",
                                               "< EXISTS k no",
                                               "> SET no v",
                                               "< HGETALL k",
                                               "> DEL k",
                                               "< PTTL k",
                                               "> RPUSH k a b",
                                               "< LRANGE k 0 -1",
                                               "> LTRIM k 0 0",
                                               "< TYPE k",
                                               "> FLUSHDB",
                                               "> SET k v",
                                               "< GET k",
                                               "< FLUSHALL",
                                               "> SET k v",
                                               "< GET k",
                                               "> PEXPIRE k 100000",
                                               "< PTTL k",
                                               "> PERSIST k",
                                               "< GET k",
                                               "> SETNX k v",
                                               "> DEL none",
                                               "< WATCH w",
                                               "> SET w v",
                                               "< UNWATCH",
                                               "< MULTI",
                                               "< GET k",
                                               "< GET l",
                                               "< SET l v",
                                               "< EXEC",
                                               "> SET k v",
                                               "> SET l v",
                                               "> SET k v PXAT 1",
                                               "< GET k",
                                               "> SET k v",
                                               "< GET k",
                                               "> SET k v PXAT 1",
                                               "> GET k",
                                               "< DBSIZE",
                                               "< SCAN 0 MATCH none",
                                               "< KEYS none",
                                               "> SET k v",
                                               "< GET k",
                                               "< CLIENT GETNAME",
                                               "< CLIENT TRACKING OFF",
                                               "> SET k v",
                                               "< CLIENT TRACKING ON",
                                               "> SET k v"};

static void play_tracked(twin_world *w) {
    for (size_t i = 0; i < sizeof(read_and_changed) / sizeof(read_and_changed[0]); i++) {
        const char *step = read_and_changed[i];
        say(w, step[0] == '>', FAKE_LIKE_TIMES, step + 2);
        nothing_more(w);
    }
}

TEST_ON(changes_are_told_as_redis_does, twin_world *w) {
    static const char *const options[] = {" NOLOOP", ""};
    for (size_t i = 0; i < 2; i++) {
        begin(w, 1);
        listener l = {.w = w};
        listen_on(w, &l);
        track(&l, options[i]);
        say(w, 0, FAKE_LIKE_EXACT, "GET k");
        say(w, 1, FAKE_LIKE_EXACT, "SET k v"); /* before it subscribes */
        nothing_more(w);
        subscribe(&l, "SUBSCRIBE anything __redis__:invalidate");
        play_tracked(w);
        assert_in_range(l.count, 15, 25);
    }
}

TEST_ON(changes_of_what_scripts_read_are_told_as_redis_does, twin_world *w) {
    static const char *const all[] = {
        "return redis.call('GET', KEYS[1])",
        "return redis.call('GET', 'other')",
        "return redis.call('SET', KEYS[1], 'w')",
        "redis.call('SET', KEYS[1], 'w') return redis.call('GET', KEYS[1])",
        ("redis.call('GET', KEYS[1]) redis.call('SET', KEYS[1], 'w') "
         "return redis.call('PUBLISH', 'anything', 'm')"),
        "return #redis.call('TIME')",
        "return redis.pcall('HGET', KEYS[1], 'f')",
        "redis.call('EXISTS', 'none') return redis.call('FLUSHALL')",
    };
    static const char *const options[] = {" NOLOOP", ""};
    for (size_t i = 0; i < 2 * sizeof(all) / sizeof(all[0]); i++) {
        begin(w, 1);
        listener l = {.w = w};
        listen_on(w, &l);
        track(&l, options[i % 2]);
        subscribe(&l, "SUBSCRIBE anything __redis__:invalidate");
        script(w, all[i / 2]);
        nothing_more(w);
        say(w, 1, FAKE_LIKE_EXACT, "SET k v");
        say(w, 1, FAKE_LIKE_EXACT, "SET other v");
        nothing_more(w);
    }
}

TEST_ON(tracking_is_refused_as_redis_does, twin_world *w) {
    static const char *const all[] = {"CLIENT TRACKING",
                                      "CLIENT TRACKING BOGUS",
                                      "CLIENT TRACKING ON BOGUS",
                                      "CLIENT TRACKING OFF BOGUS",
                                      "CLIENT TRACKING ON REDIRECT",
                                      "CLIENT TRACKING ON REDIRECT x",
                                      "CLIENT TRACKING ON REDIRECT 999999",
                                      "CLIENT TRACKING ON REDIRECT -1",
                                      "CLIENT TRACKING BOGUS REDIRECT 999999",
                                      "CLIENT GETREDIR",
                                      "CLIENT TRACKING ON NOLOOP NOLOOP",
                                      "CLIENT GETREDIR",
                                      "CLIENT GETREDIR x",
                                      "CLIENT TRACKING off NOLOOP",
                                      "CLIENT ID x",
                                      "MULTI",
                                      "CLIENT TRACKING",
                                      "EXEC"};
    begin(w, 1);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        say(w, 0, FAKE_LIKE_EXACT, all[i]);
    }
}

/* ---- keyspace events ------------------------------------------------------------------------- */

static void no_events(twin_world *w) {
    freeReplyObject(real_redis_command(w->real, "CONFIG SET notify-keyspace-events %s", ""));
}

static void configure_events(twin_world *w, const char *events) {
    char line[80];
    snprintf(line, sizeof(line), "CONFIG SET notify-keyspace-events %s", events);
    say(w, 1, FAKE_LIKE_EXACT, line);
    say(w, 1, FAKE_LIKE_EXACT, "CONFIG GET notify-keyspace-events");
}

TEST_ON(events_are_configured_as_redis_does, twin_world *w) {
    static const char *const all[] = {"KEA", "K!", "Kx", "Em", "KEg$lshzxetd", "KAn", "Kng",
                                      "A",   "K",  "KA", "g"};
    begin(w, 1);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        configure_events(w, all[i]);
    }
    say(w, 0, FAKE_LIKE_EXACT, "CONFIG SET no-such-option 1");
    say(w, 0, FAKE_LIKE_EXACT, "CONFIG SET notify-keyspace-events");
    no_events(w);
}

/* All that is ever told of the workload's keys. */
static void subscribe_to_events(listener *l) {
    static const char *const events[] = {
        "del",  "set",     "expire", "expired", "persist", "incrby",          "hset",
        "hdel", "hincrby", "sadd",   "srem",    "rpush",   "ltrim",           "zadd",
        "zrem", "zincr",   "new",    "zpopmin", "keymiss", "zremrangebyscore"};
    char line[80];
    for (int db = 0; db < 2; db++) {
        for (const char *key = "abc"; *key; key++) {
            snprintf(line, sizeof(line), "SUBSCRIBE __keyspace@%d__:%c", db, *key);
            subscribe(l, line);
        }
        for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
            snprintf(line, sizeof(line), "SUBSCRIBE __keyevent@%d__:%s", db, events[i]);
            subscribe(l, line);
        }
    }
}

/* Events, or what the first connection has read and others change: of one change now this comes first,
 * now that, so not both at once. */
TEST_ON(random_changes_are_told_as_redis_does, twin_world *w) {
    uint64_t first = (uint64_t)setting("SEED", 1);
    long runs = setting("RUNS", 40) / 4 + 1;
    size_t heard = 0;
    for (long run = 0; run < runs; run++) {
        begin(w, first + (uint64_t)run);
        listener l = {.w = w};
        listen_on(w, &l);
        if (run % 4 == 0) {
            track(&l, run % 8 ? " NOLOOP" : "");
            subscribe(&l, "SUBSCRIBE __redis__:invalidate");
        } else {
            subscribe_to_events(&l);
            configure_events(w, run % 4 == 1 ? "KEAmn" : run % 4 == 2 ? "Kg$x" : "KEA");
        }
        for (; w->step < STEPS; w->step++) {
            fake_order c;
            fake_workload_next(&w->workload, &c);
            both(w, (int)fake_workload_draw(&w->workload, 2), &c);
        }
        nothing_more(w);
        no_events(w);
        heard += l.count;
    }
    assert_true(heard > 100 * (size_t)runs);
}

/* ---- MONITOR --------------------------------------------------------------------------------- */

/* A line without its time, and with one address for all of TCP. */
static void plain_line(char to[FAKE_SHOW_SIZE], const char *line) {
    const char *db = strchr(line, '['), *end = db ? strchr(db, ']') : NULL;
    const char *blank = db ? strchr(db, ' ') : NULL;
    assert_true(end && blank && blank < end && strchr(line, '.') < db);
    bool lua = strncmp(blank, " lua]", 5) == 0;
    snprintf(to, FAKE_SHOW_SIZE, "%.*s %s%s", (int)(blank - db), db, lua ? "lua" : "tcp", end);
}

static void on_line(void *ctx, const tl_reply *reply) {
    listener *l = ctx;
    redisReply *real = NULL;
    char a[FAKE_SHOW_SIZE], b[FAKE_SHOW_SIZE], line[FAKE_SHOW_SIZE];
    assert_int_equal(redisGetReply(l->real, (void **)&real), REDIS_OK);
    assert_int_equal(reply->type, TL_REPLY_STATUS);
    assert_int_equal(real->type, REDIS_REPLY_STATUS);
    snprintf(line, sizeof(line), "%.*s", (int)reply->text.n, reply->text.p);
    plain_line(a, line);
    plain_line(b, real->str);
    assert_string_equal(a, b);
    freeReplyObject(real);
    l->count++;
}

TEST_ON(random_commands_are_monitored_as_redis_does, twin_world *w) {
    for (uint64_t seed = 1; seed <= 4; seed++) {
        begin(w, seed);
        listener l = {.w = w};
        listen_on(w, &l);
        fake_conn_close(w->conn[2].fake);
        w->conn[2].fake = fake_redis_connect(w->fake, &(fake_calls){.push = on_line}, &l);
        say(w, 2, FAKE_LIKE_EXACT, "MONITOR");
        for (; w->step < STEPS; w->step++) {
            fake_order c;
            fake_workload_next(&w->workload, &c);
            both(w, (int)fake_workload_draw(&w->workload, 2), &c);
        }
        assert_true(l.count > 100);
    }
}

/* ---- permissions ----------------------------------------------------------------------------- */

static void say_all(twin_world *w, int conn, const char *const *lines, size_t n) {
    for (size_t i = 0; i < n; i++) {
        say(w, conn, FAKE_LIKE_EXACT, lines[i]);
    }
}

#define SAY_ALL(w, conn, lines) say_all(w, conn, lines, sizeof(lines) / sizeof((lines)[0]))

TEST_ON(keys_and_channels_are_forbidden_as_redis_does, twin_world *w) {
    static const char *const tries[] = {"GET ok1",
                                        "GET no",
                                        "MGET ok1 no",
                                        "SET no v",
                                        "DEL ok1 no",
                                        "PUBLISH fine1 x",
                                        "PUBLISH bad x",
                                        "WATCH ok1 no",
                                        "PUBSUB NUMSUB bad",
                                        "GET",
                                        "KEYS none",
                                        "MULTI",
                                        "GET no",
                                        "EXEC",
                                        "MULTI",
                                        "PUBLISH bad x",
                                        "EXEC",
                                        "EVAL x 1 no",
                                        "EVALSHA x 1 no",
                                        "EVAL x 2 ok1",
                                        "SUBSCRIBE bad",
                                        "SUBSCRIBE fine1 bad"};
    begin(w, 1);
    say(w, 1, FAKE_LIKE_EXACT, "MULTI");
    say(w, 1, FAKE_LIKE_EXACT, "SET no v");
    say(w, 1, FAKE_LIKE_EXACT, "PUBLISH bad v");
    say(w, 1, FAKE_LIKE_EXACT, "SET ok1 v");
    real_only(w, "ACL SETUSER default resetkeys ~ok* ~k? resetchannels &fine* &other");
    fake_redis_allow_keys(w->fake, "ok* k?");
    fake_redis_allow_channels(w->fake, "fine* other");
    say(w, 1, FAKE_LIKE_EXACT, "EXEC");
    SAY_ALL(w, 0, tries);
    script(w, "return redis.call('GET', KEYS[1])");
    real_only(w, "ACL SETUSER default ~k");
    fake_redis_allow_keys(w->fake, "ok* k");
    script(w, "return redis.call('GET', KEYS[1])");
    script(w, "return redis.call('GET', 'no')");
    script(w, "return redis.pcall('MGET', 'k', 'no')");
    script(w, "return redis.call('PUBLISH', 'bad', 'm')");
    script(w, "return redis.pcall('PUBLISH', 'bad', 'm')");
    script(w, "return redis.call('PUBLISH', 'fine', 'm')");
    real_only(w, "ACL SETUSER default allkeys allchannels");
    fake_redis_allow_keys(w->fake, NULL);
    fake_redis_allow_channels(w->fake, NULL);
    say(w, 0, FAKE_LIKE_EXACT, "GET no");
}

TEST_ON(subcommands_are_forbidden_as_redis_does, twin_world *w) {
    static const char *const tries[] = {"CLIENT TRACKING ON", "CLIENT TRACKING", "CLIENT GETNAME",
                                        "CLIENT BOGUS",       "SCRIPT FLUSH",    "SCRIPT EXISTS x"};
    begin(w, 1);
    real_only(w, "ACL SETUSER default -client|tracking -script|flush");
    fake_redis_deny(w->fake, "CLIENT|TRACKING script|flush", FAKE_NOPERM);
    SAY_ALL(w, 0, tries);
    real_only(w, "ACL SETUSER default +client|tracking -client");
    fake_redis_deny(w->fake, "client|tracking", FAKE_ALLOW);
    fake_redis_deny(w->fake, "client", FAKE_NOPERM);
    SAY_ALL(w, 0, tries);
    real_only(w, "ACL SETUSER default +@all");
    fake_redis_deny(w->fake, "client script|flush", FAKE_ALLOW);
    SAY_ALL(w, 0, tries);
}

/* Each with a key of its kind. */
static const char *const on_a_key[] = {"GET %s",
                                       "SET %s 7",
                                       "SET %s 8 GET",
                                       "SETNX %s v",
                                       "GETSET %s 9",
                                       "STRLEN %s",
                                       "INCR %s",
                                       "INCRBY %s 2",
                                       "DECR %s",
                                       "MGET %s %s",
                                       "EXISTS %s",
                                       "TYPE %s",
                                       "TTL %s",
                                       "PTTL %s",
                                       "EXPIRETIME %s",
                                       "PEXPIRETIME %s",
                                       "PERSIST %s",
                                       "WATCH %s",
                                       "EVAL return(redis.call('GET',KEYS[1])) 1 %s",
                                       "EVALSHA x 1 %s",
                                       "EXPIRE %s 1000",
                                       "PEXPIRE %s 1000000",
                                       "EXPIREAT %s 9999999999",
                                       "PEXPIREAT %s 9999999999999",
                                       "DEL %s",
                                       "SETEX %s 100 v",
                                       "PSETEX %s 100000 v",
                                       "UNLINK %s",
                                       "HSET %s f 1",
                                       "HMSET %s f 1",
                                       "HSETNX %s g 1",
                                       "HGET %s f",
                                       "HMGET %s f",
                                       "HGETALL %s",
                                       "HEXISTS %s f",
                                       "HLEN %s",
                                       "HINCRBY %s f 2",
                                       "HDEL %s f",
                                       "DEL %s",
                                       "SADD %s m",
                                       "SMEMBERS %s",
                                       "SISMEMBER %s m",
                                       "SCARD %s",
                                       "SRANDMEMBER %s",
                                       "SREM %s m",
                                       "RPUSH %s v",
                                       "LRANGE %s 0 -1",
                                       "LLEN %s",
                                       "LTRIM %s 1 0",
                                       "ZADD %s 1 m",
                                       "ZRANGE %s 0 -1",
                                       "ZRANGEBYSCORE %s 0 2",
                                       "ZRANK %s m",
                                       "ZCARD %s",
                                       "ZSCORE %s m",
                                       "ZREMRANGEBYSCORE %s 5 6",
                                       "ZREM %s x",
                                       "ZPOPMIN %s"};

/* One pattern must allow all that a command does with the key: those of x are apart. */
TEST_ON(keys_to_be_read_or_written_alone_are_forbidden_as_redis_does, twin_world *w) {
    static const char *const keys[] = {"r1", "w1", "x1", "x22", "b1", "no"};
    char line[100];
    begin(w, 1);
    real_only(w, "ACL SETUSER default resetkeys %%R~r* %%W~w* %%R~x* %%W~x? ~b*");
    fake_redis_allow_keys(w->fake, "%R~r* %W~w* %R~x* %W~x? b*");
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        for (size_t j = 0; j < sizeof(on_a_key) / sizeof(on_a_key[0]); j++) {
            snprintf(line, sizeof(line), on_a_key[j], keys[i], keys[i]);
            say(w, 0, FAKE_LIKE_EXACT, line);
        }
        say(w, 0, FAKE_LIKE_EXACT, "UNWATCH");
    }
    say(w, 0, FAKE_LIKE_EXACT, "MGET r1 b1");
    say(w, 0, FAKE_LIKE_EXACT, "MGET r1 w1");
    real_only(w, "ACL SETUSER default resetkeys %%R~k");
    fake_redis_allow_keys(w->fake, "%R~k");
    script(w, write_script);
    real_only(w, "ACL SETUSER default ~k %%R~r %%W~w");
    fake_redis_allow_keys(w->fake, "k %R~r %W~w");
    script(w, "return redis.call('GET', 'r')");
    script(w, "return redis.call('SET', 'r', 1)");
    script(w, "return redis.pcall('SET', 'r', 1)");
    script(w, "return redis.call('GET', 'w')");
    script(w, "return redis.call('SET', 'w', 1)");
    real_only(w, "ACL SETUSER default allkeys");
    fake_redis_allow_keys(w->fake, NULL);
    say(w, 0, FAKE_LIKE_EXACT, "GET no");
}

/* ---- a cluster's node ------------------------------------------------------------------------ */

static bool cluster_is_up(real_redis *node) {
    redisReply *reply = real_redis_command(node, "CLUSTER INFO");
    bool up = reply && strstr(reply->str, "cluster_state:ok");
    freeReplyObject(reply);
    return up;
}

static const char *const crossing[] = {"GET a",
                                       "MGET a b",
                                       "MGET {x}a {x}b",
                                       "DEL a b",
                                       "EXISTS a b",
                                       "SELECT 0",
                                       "SELECT 1",
                                       "SELECT x",
                                       "SELECT 99",
                                       "WATCH a b",
                                       "WATCH a",
                                       "UNWATCH",
                                       "MULTI",
                                       "SET a 1",
                                       "SET b 1",
                                       "EXEC",
                                       "MULTI",
                                       "MGET a b",
                                       "SET a 1",
                                       "EXEC",
                                       "WATCH a",
                                       "MULTI",
                                       "SET b 1",
                                       "EXEC",
                                       "MULTI",
                                       "SELECT 1",
                                       "EXEC",
                                       "PUBLISH a b",
                                       "EVAL x 5",
                                       "EVAL x 2 a b",
                                       "EVALSHA x 2 a b",
                                       "EVALSHA x 2 {a} a",
                                       "MGET {} {}a",
                                       "MGET {a a{",
                                       "MGET a{}x a{}x",
                                       "MGET {{a}} {{a",
                                       "MGET }{a} a",
                                       "SCRIPT EXISTS a b"};

static real_redis *start_node(void) {
    return real_redis_start(&(real_redis_options){.config = "cluster-enabled yes"});
}

/* All that follows is said to a cluster's node. Returns the server that was asked until now. */
static real_redis *begin_node(twin_world *w) {
    real_redis *alone = w->real;
    w->real = start_node();
    real_only(w, "CLUSTER ADDSLOTSRANGE 0 16383");
    int64_t until = wall_us() + 120000000;
    while (!cluster_is_up(w->real)) {
        assert_true(wall_us() < until);
    }
    begin(w, 1);
    fake_redis_set_cluster(w->fake, true);
    return alone;
}

static void end_node(twin_world *w, real_redis *alone) {
    for (int i = 0; i < CONNS; i++) {
        redisFree(w->conn[i].real);
        w->conn[i].real = real_redis_connect(alone);
    }
    real_redis_free(w->real);
    w->real = alone;
}

TEST_ON(a_clusters_node_refuses_as_redis_does, twin_world *w) {
    real_redis *alone = begin_node(w);
    SAY_ALL(w, 0, crossing);
    say(w, 0, FAKE_LIKE_EXACT, "SET k v");
    script(w, "return redis.call('GET', 'b')");
    script(w, "return redis.call('MGET', 'b', 'c')");
    script(w, "return redis.pcall('MGET', 'b', 'c')");
    script(w, "redis.call('GET', 'b') return redis.call('GET', 'c')");
    script(w, "return redis.call('SELECT', '1')");
    for (int i = 0; i < 200; i++) {
        char key[24];
        snprintf(key, sizeof(key), i % 2 ? "key:%d" : "{k:%d}x}", i * 977);
        assert_int_equal(fake_redis_slot(tl__bytes_of(key)),
                         real_redis_int(w->real, "CLUSTER KEYSLOT %s", key));
    }
    end_node(w, alone);
}

/* What a node's name is to others. */
static void name_of(real_redis *node, char id[64]) {
    redisReply *reply = real_redis_command(node, "CLUSTER MYID");
    snprintf(id, 64, "%s", reply->str);
    freeReplyObject(reply);
}

static bool knows(real_redis *node, const char *id) {
    redisReply *reply = real_redis_command(node, "CLUSTER NODES");
    const char *line = reply ? strstr(reply->str, id) : NULL;
    bool well = line && !memmem(line, strcspn(line, "\n"), "handshake", 9);
    freeReplyObject(reply);
    return well;
}

/* A second node, to which slot 7629 begins to move. Its name, and where it is. */
typedef struct {
    real_redis *node;
    char here[64], there[64], where[32];
} migration;

static void tell_node(real_redis *node, const char *words, const char *id) {
    redisReply *reply = real_redis_command(node, "CLUSTER SETSLOT 7629 %s %s", words, id);
    assert_string_equal(reply->str, "OK");
    freeReplyObject(reply);
}

static void begin_migrating(twin_world *w, migration *m) {
    char line[64];
    m->node = start_node();
    name_of(w->real, m->here);
    name_of(m->node, m->there);
    snprintf(m->where, sizeof(m->where), "127.0.0.1:%d", real_redis_port(m->node));
    snprintf(line, sizeof(line), "CLUSTER MEET 127.0.0.1 %d", real_redis_port(m->node));
    real_only(w, line);
    int64_t until = wall_us() + 120000000;
    while (!knows(w->real, m->there) || !knows(m->node, m->here) || !cluster_is_up(m->node)) {
        assert_true(wall_us() < until);
    }
    tell_node(m->node, "IMPORTING", m->here);
    tell_node(w->real, "MIGRATING", m->there);
    fake_redis_move_slots(w->fake, 7629, 7629, FAKE_SLOTS_MIGRATING, m->where);
}

static const char *const moving[] = {
    "GET k",
    "GET {k}2",
    "GET {k}3",
    "GET a",
    "MGET k {k}2",
    "MGET k {k}3",
    "MGET {k}3 {k}4",
    "MGET a k",
    "MGET k a",
    "EXISTS {k}3",
    "SET {k}3 v NX",
    "WATCH k {k}3",
    "WATCH k",
    "MULTI",
    "GET k",
    "GET {k}2",
    "EXEC",
    "MULTI",
    "GET k",
    "GET {k}3",
    "EXEC",
    "WATCH k",
    "MULTI",
    "PUBLISH a b",
    "EXEC",
    "EVAL x 2 k {k}3",
    "EVAL return(1) 1 {k}3",
    "EVAL return(1) 2 {k}3 {k}4",
    "EVAL return(redis.call('GET',KEYS[2])) 2 k {k}2",
    "EVAL return(redis.call('GET','{k}3')) 1 k",
    "EVAL return(redis.pcall('MGET','k','{k}3')) 1 k",
    "EVAL redis.call('DEL',KEYS[2])return(redis.call('GET',KEYS[2])) 2 k {k}2",
    "SET {k}2 v",
    "PUBLISH k x",
};

TEST_ON(slots_that_move_are_refused_as_redis_does, twin_world *w) {
    real_redis *alone = begin_node(w);
    migration m;
    char line[100];
    SAY_ALL(w, 0, moving);
    say(w, 0, FAKE_LIKE_EXACT, "SET k v");
    say(w, 0, FAKE_LIKE_EXACT, "SET {k}2 v");
    begin_migrating(w, &m);
    SAY_ALL(w, 0, moving);
    end_node(w, alone);
    real_redis_free(m.node);
    alone = begin_node(w);
    say(w, 0, FAKE_LIKE_EXACT, "SET k v");
    say(w, 0, FAKE_LIKE_EXACT, "SET {k}2 v");
    begin_migrating(w, &m);
    say(w, 0, FAKE_LIKE_EXACT, "MGET k {k}2");
    snprintf(line, sizeof(line), "MIGRATE 127.0.0.1 %d {k}2 0 5000", real_redis_port(m.node));
    real_only(w, line);
    fake_redis_leave_keys(w->fake, "x {k}2");
    SAY_ALL(w, 0, moving);
    snprintf(line, sizeof(line), "MIGRATE 127.0.0.1 %d k 0 5000", real_redis_port(m.node));
    real_only(w, line);
    tell_node(m.node, "NODE", m.there);
    tell_node(w->real, "NODE", m.there);
    fake_redis_move_slots(w->fake, 7629, 7629, FAKE_SLOTS_MOVED, m.where);
    SAY_ALL(w, 0, moving);
    end_node(w, alone);
    real_redis_free(m.node);
}

/* ---- all ------------------------------------------------------------------------------------- */

static int setup(void **state) {
    twin_world *w = calloc(1, sizeof(*w));
    w->trace = getenv("TRACE");
    w->real = real_redis_start(&(real_redis_options){.debug = true});
    real_only(w, "DEBUG SET-ACTIVE-EXPIRE 0");
    w->fake = fake_redis_new();
    *state = w;
    return 0;
}

static int teardown(void **state) {
    twin_world *w = *state;
    for (int i = 0; i < CONNS; i++) {
        redisFree(w->conn[i].real);
    }
    fake_redis_free(w->fake);
    real_redis_free(w->real);
    free(w);
    return 0;
}

int main(void) {
    if (!real_server_is_seven_zero()) {
        print_message("SKIP: the fake server is as Redis 7.0; this one is %s\n",
                      real_server_name());
        return 77;
    }
    return tests_run_group("tests", 0, setup, teardown);
}
