/*
 * The fake server's commands: one row each, with the flags that redis-server gives them and the
 * version that brought them.
 */
#include "fake_inside.h"

#define V(major, minor) FAKE_LEVEL(major, minor, 0)
#define W FAKE_WRITE
#define M (FAKE_WRITE | FAKE_DENY_OOM)
#define Q FAKE_READ
#define K FAKE_KEY
#define KS FAKE_KEYS
#define S FAKE_NO_SCRIPT
#define L FAKE_LOADING
#define A FAKE_AT_ONCE
#define X FAKE_EXPIRES
#define P FAKE_PARENT
#define R FAKE_RANDOM

const fake_row fake__rows[] = {
    {"get", fake__get, 2, Q | K, 0},
    {"set", fake__set, -3, M | X | K, 0},
    {"evalsha", fake__evalsha, -3, S | FAKE_SCRIPT_KEYS, V(2, 6)},
    {"eval", fake__eval, -3, S | FAKE_SCRIPT_KEYS, V(2, 6)},
    {"del", fake__del, -2, W | KS, 0},
    {"setnx", fake__setnx, 3, M | K, 0},
    {"getset", fake__getset, 3, M | K, 0},
    {"time", fake__time, 1, L | R, V(2, 6)},
    {"pttl", fake__ttl, 2, Q | K, V(2, 6)},
    {"ttl", fake__ttl, 2, Q | K, 0},
    {"pexpiretime", fake__ttl, 2, Q | K, V(7, 0)},
    {"expiretime", fake__ttl, 2, Q | K, V(7, 0)},
    {"hget", fake__hget, 3, Q | K, V(2, 0)},
    {"hmget", fake__hmget, -3, Q | K, V(2, 0)},
    {"hset", fake__hset, -4, M | K, V(2, 0)},
    {"hmset", fake__hset, -4, M | K, V(2, 0)},
    {"hsetnx", fake__hsetnx, 4, M | K, V(2, 0)},
    {"hgetall", fake__hgetall, 2, Q | K, V(2, 0)},
    {"hkeys", fake__hkeys, 2, Q | K, V(2, 0)},
    {"hdel", fake__hdel, -3, W | K, V(2, 0)},
    {"hexists", fake__hexists, 3, Q | K, V(2, 0)},
    {"hlen", fake__hlen, 2, Q | K, V(2, 0)},
    {"hincrby", fake__hincrby, 4, M | K, V(2, 0)},
    {"setex", fake__setex, 4, M | X | K, V(2, 0)},
    {"psetex", fake__psetex, 4, M | X | K, V(2, 6)},
    {"mget", fake__mget, -2, Q | KS, 0},
    {"strlen", fake__strlen, 2, Q | K, V(2, 2)},
    {"incr", fake__incr, 2, M | K, 0},
    {"incrby", fake__incr, 3, M | K, 0},
    {"decr", fake__incr, 2, M | K, 0},
    {"unlink", fake__del, -2, W | KS, V(4, 0)},
    {"exists", fake__exists, -2, Q | KS, 0},
    {"type", fake__type, 2, Q | K, 0},
    {"expire", fake__expire, -3, W | X | K, 0},
    {"pexpire", fake__expire, -3, W | X | K, V(2, 6)},
    {"expireat", fake__expire, -3, W | X | K, 0},
    {"pexpireat", fake__expire, -3, W | X | K, V(2, 6)},
    {"persist", fake__persist, 2, W | K, V(2, 2)},
    {"sadd", fake__sadd, -3, M | K, 0},
    {"srem", fake__srem, -3, W | K, 0},
    {"smembers", fake__smembers, 2, Q | K, 0},
    {"sismember", fake__sismember, 3, Q | K, 0},
    {"scard", fake__scard, 2, Q | K, 0},
    {"srandmember", fake__srandmember, -2, R | Q | K, 0},
    {"rpush", fake__rpush, -3, M | K, 0},
    {"ltrim", fake__ltrim, 4, W | K, 0},
    {"lrange", fake__lrange, 4, Q | K, 0},
    {"llen", fake__llen, 2, Q | K, 0},
    {"zadd", fake__zadd, -4, M | K, V(1, 2)},
    {"zrem", fake__zrem, -3, W | K, V(1, 2)},
    {"zrange", fake__zrange, -4, Q | K, V(1, 2)},
    {"zrangebyscore", fake__zrangebyscore, -4, Q | K, V(1, 2)},
    {"zremrangebyscore", fake__zremrangebyscore, 4, W | K, V(1, 2)},
    {"zpopmin", fake__zpopmin, -2, W | K, V(5, 0)},
    {"zrank", fake__zrank, 3, Q | K, V(2, 0)},
    {"zcard", fake__zcard, 2, Q | K, V(1, 2)},
    {"zscore", fake__zscore, 3, Q | K, V(1, 2)},
    {"ping", fake__ping, -1, FAKE_PUBSUB, 0},
    {"echo", fake__echo, 2, L, 0},
    {"publish", fake__publish, 3, L, V(2, 0)},
    {"pubsub", fake__pubsub, -2, L | R, V(2, 8)},
    {"subscribe", fake__subscribe, -2, L | S | FAKE_PUBSUB | FAKE_NO_MULTI, V(2, 0)},
    {"unsubscribe", fake__unsubscribe, -1, L | S | FAKE_PUBSUB | FAKE_NO_MULTI, V(2, 0)},
    {"multi", fake__multi, 1, L | S | A, V(1, 2)},
    {"exec", fake__exec, 1, L | S | A | FAKE_ENDS_MULTI, V(1, 2)},
    {"discard", fake__discard, 1, L | S | A | FAKE_ENDS_MULTI, V(2, 0)},
    {"watch", fake__watch, -2, L | S | A | KS, V(2, 2)},
    {"unwatch", fake__unwatch_command, 1, L | S, V(2, 2)},
    {"script", fake__script, -2, S | P, V(2, 6)},
    {"auth", fake__auth, -2, L | S | FAKE_NO_AUTH, 0},
    {"quit", fake__quit, -1, L | S | A | FAKE_ENDS_MULTI | FAKE_NO_AUTH | FAKE_PUBSUB, 0},
    {"select", fake__select, 2, L, 0},
    {"wait", fake__wait, 3, S, V(3, 0)},
    {"waitaof", fake__waitaof, 4, S, V(7, 2)},
    {"info", fake__info, -1, L, 0},
    {"role", fake__role, 1, L | S, FAKE_LEVEL(2, 8, 12)},
    {"cluster", fake__cluster, -2, L | S, V(3, 0)},
    {"flushall", fake__flush, -1, W, 0},
    {"flushdb", fake__flush, -1, W, 0},
    {"dbsize", fake__dbsize, 1, Q, 0},
    {"keys", fake__keys, 2, Q, 0},
    {"scan", fake__scan, -2, R | Q, V(2, 8)},
    {"randomkey", fake__randomkey, 1, R | Q, 0},
    {"lastsave", fake__lastsave, 1, L | R, 0},
    {"client", fake__client, -2, L | S | P, V(2, 4)},
    {"monitor", fake__monitor, 1, L | S | FAKE_NO_MULTI, 0},
    {"config", fake__config, -2, L | S | P, V(2, 0)},
    {"asking", fake__asking, 1, 0, V(3, 0)},
};

const size_t fake__row_count = sizeof(fake__rows) / sizeof(fake__rows[0]);

const fake_sub fake__subs[] = {
    {fake__script, "load", 3, V(2, 6)},
    {fake__script, "exists", -3, V(2, 6)},
    {fake__script, "flush", -2, V(2, 6)},
    {fake__script, "kill", 2, V(2, 6)},
    {fake__client, "id", 2, V(5, 0)},
    {fake__client, "setname", 3, FAKE_LEVEL(2, 6, 9)},
    {fake__client, "getname", 2, FAKE_LEVEL(2, 6, 9)},
    {fake__client, "tracking", -3, V(6, 0)},
    {fake__client, "list", -2, V(2, 4)},
    {fake__client, "getredir", 2, V(6, 0)},
    {fake__client, "kill", -3, FAKE_LEVEL(2, 8, 12)},
    {fake__client, "kill", 3, V(2, 4)},
    {fake__config, "get", -3, V(2, 0)},
    {fake__config, "set", -4, V(2, 0)},
    {NULL, NULL, 0, 0},
};

_Static_assert(sizeof(fake__rows) / sizeof(fake__rows[0]) <= FAKE_ROWS_MAX, "FAKE_ROWS_MAX");

static inline uint8_t slot_of(tl_bytes name) {
    unsigned first = name.p[0] | 0x20, last = name.p[name.n - 1] | 0x20;
    return (uint8_t)(first * 5 + last * 31 + name.n * 17);
}

void fake__index_names(uint8_t index[256]) {
    memset(index, 0, 256);
    for (size_t i = 0; i < fake__row_count; i++) {
        uint8_t slot = slot_of(tl__bytes_of(fake__rows[i].name));
        while (index[slot]) {
            slot++;
        }
        index[slot] = (uint8_t)(i + 1);
    }
}

const fake_row *fake__lookup(const fake_redis *r, tl_bytes name) {
    if (!name.n) {
        return NULL;
    }
    for (uint8_t slot = slot_of(name); r->index[slot]; slot++) {
        size_t i = r->index[slot] - 1u;
        if (fake__is(name, fake__rows[i].name)) {
            bool there = fake__rows[i].since <= r->level && r->denied[i] != FAKE_RENAMED;
            return there ? &fake__rows[i] : NULL;
        }
    }
    return NULL;
}
