/*
 * `tidelock inspect` beside a million keys that are no locks: strings with and without a lifetime, numbers, long
 * values, hashes and lists. Another client asks every millisecond meanwhile how long a PING takes. The limit is a
 * program that reads the same by hand: SCAN, and then GET and PTTL of each key, pipelined. It does not look for
 * sidecars, and receives long values whole. Its p99 is that of other clients beside it.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "spawn.h"

#define ROW "bigdb"
#define KEYS 1000000
#define KEYS_AT_ONCE 1000
#define SCANNED_AT_ONCE 100

/* ---- the keys -------------------------------------------------------------------------------- */

static const char fill_script[] =
    "for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do\n"
    "    local kind = i % 10\n"
    "    if kind < 3 then redis.call('SET', 'item:' .. i, 'the value of item ' .. i)\n"
    "    elseif kind < 5 then redis.call('SET', 'session:' .. i, '{\"user\":' .. i .. '}', 'PX', 86400000)\n"
    "    elseif kind < 6 then redis.call('SET', 'page:' .. i, string.rep('x', 600), 'PX', 86400000)\n"
    "    elseif kind < 8 then redis.call('SET', 'count:' .. i, i)\n"
    "    elseif kind < 9 then redis.call('HSET', 'user:' .. i, 'name', i)\n"
    "    else redis.call('RPUSH', 'list:' .. i, i) end\n"
    "end";

static redisReply *answer(redisContext *c, redisReply *reply) {
    if (!reply)
        die("bigdb: %s", c->errstr);
    return reply;
}

static void fill(void) {
    redisContext *c = bench_connect_near();
    for (int i = 0; i < KEYS; i += KEYS_AT_ONCE) {
        redisReply *reply = answer(
            c, redisCommand(c, "EVAL %s 0 %d %d", fill_script, i, i + KEYS_AT_ONCE - 1));
        if (reply->type == REDIS_REPLY_ERROR)
            die("bigdb: %s", reply->str);
        freeReplyObject(reply);
    }
    redisFree(c);
}

/* ---- another client -------------------------------------------------------------------------- */

typedef struct {
    pid_t pid;
    hist *pings; /* shared */
} other;

static void ping_for_ever(hist *pings) {
    const struct timespec nap = {.tv_nsec = MS};
    redisContext *c = bench_connect();
    for (;;) {
        int64_t sent = now_ns();
        freeReplyObject(answer(c, redisCommand(c, "PING")));
        hist_add(pings, now_ns() - sent);
        (void)nanosleep(&nap, NULL);
    }
}

static other other_start(void) {
    static hist *pings;
    pings = pings ? pings : share(sizeof *pings);
    hist_clear(pings);
    (void)fflush(NULL);
    pid_t parent = getpid();
    other o = {.pid = fork(), .pings = pings};
    if (o.pid < 0)
        die("bigdb: no process for another client");
    if (o.pid > 0)
        return o;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent)
        ping_for_ever(pings);
    _exit(1);
}

static double other_stop(const other *o) {
    (void)kill(o->pid, SIGKILL);
    (void)waitpid(o->pid, NULL, 0);
    return hist_us(o->pings, 0.99) / 1000;
}

/* ---- the contenders -------------------------------------------------------------------------- */

static void inspect(void) {
    static const char *const words[] = {"inspect", "*", NULL};
    (void)spawn_run(words);
}

static void read_keys(redisContext *c, const redisReply *keys) {
    void *reply;
    for (size_t i = 0; i < keys->elements; i++) {
        const redisReply *key = keys->element[i];
        (void)redisAppendCommand(c, "GET %b", key->str, key->len);
        (void)redisAppendCommand(c, "PTTL %b", key->str, key->len);
    }
    for (size_t i = 0; i < 2 * keys->elements; i++) {
        if (redisGetReply(c, &reply) != REDIS_OK)
            die("bigdb: %s", c->errstr);
        freeReplyObject(reply);
    }
}

static void read_by_hand(void *ctx) {
    redisContext *c = bench_connect();
    char cursor[24] = "0";
    (void)ctx;
    do {
        redisReply *reply = answer(c, redisCommand(c, "SCAN %s COUNT %d", cursor, SCANNED_AT_ONCE));
        if (reply->elements != 2)
            die("bigdb: SCAN is refused");
        (void)snprintf(cursor, sizeof cursor, "%s", reply->element[0]->str);
        read_keys(c, reply->element[1]);
        freeReplyObject(reply);
    } while (strcmp(cursor, "0") != 0);
    redisFree(c);
}

static void by_hand(void) {
    apart(read_by_hand, NULL);
}

/* ---- the row --------------------------------------------------------------------------------- */

typedef struct {
    double s[ROUNDS_MAX], server_s[ROUNDS_MAX], p99_ms[ROUNDS_MAX];
} cost;

static void measure(void (*work)(void), cost *ret, int round) {
    other o = other_start();
    int64_t from_ns = now_ns(), from_cpu = bench_server_cpu_ns();
    work();
    ret->s[round] = (double)(now_ns() - from_ns) / SECOND;
    ret->server_s[round] = (double)(bench_server_cpu_ns() - from_cpu) / SECOND;
    ret->p99_ms[round] = other_stop(&o);
}

void row_bigdb(regime r) {
    static cost ours, limit;
    fill();
    for (int i = 0; i < rounds; i++) {
        measure(inspect, &ours, i);
        measure(by_hand, &limit, i);
    }
    report_within(&(label){ROW, "inspect beside a million other keys", "s", r, "<= 4"}, ours.s,
                  NULL, limit.s, rounds);
    report_within(&(label){ROW, "the server's CPU for it", "s", r, "<= 3"}, ours.server_s, NULL,
                  limit.server_s, rounds);
    report_within(&(label){ROW, "p99 of another client's PING meanwhile", "ms", r, "<= 2"},
                  ours.p99_ms, NULL, limit.p99_ms, rounds);
}
