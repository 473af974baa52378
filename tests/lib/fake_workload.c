/*
 * Random commands for a server of either kind: few keys, many collisions, hostile values, and a
 * mistake now and then. All of it follows from the seed.
 */
#include "fake_workload.h"

#define B(s)                                                                                       \
    { (s), sizeof(s) - 1 }
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- random ---------------------------------------------------------------------------------- */

fake_workload fake_workload_seeded(uint64_t seed) {
    return (fake_workload){(seed + 1) * 0x9e3779b97f4a7c15};
}

uint64_t fake_workload_draw(fake_workload *w, uint64_t below) {
    w->state ^= w->state << 13;
    w->state ^= w->state >> 7;
    w->state ^= w->state << 17;
    return (w->state * 0x2545f4914f6cdd1d >> 20) % below;
}

#define PICK(w, list) ((list)[fake_workload_draw(w, COUNT(list))])

static const char long_text[] =
    "a value that is longer than the sixty-four bytes which a small hash stores compactly";

static const tl_bytes keys[] = {B("a"), B("b"), B("c"), B("d{1}"), B(""), B("\0\r\n\xff")};
static const tl_bytes fields[] = {B("token"), B("fence"), B(""), B("\0f"), B("1"), B("2")};
static const tl_bytes integers[] = {B("0"),
                                    B("1"),
                                    B("-1"),
                                    B("7"),
                                    B("100"),
                                    B("9223372036854775807"),
                                    B("-9223372036854775808"),
                                    B("9223372036854775808"),
                                    B("99999999999999999999999"),
                                    B("+1"),
                                    B("01"),
                                    B("-0"),
                                    B(" 1"),
                                    B("1 "),
                                    B("1.0"),
                                    B("1e3"),
                                    B(""),
                                    B("x"),
                                    B("1\0")};
static const tl_bytes values[] = {B(""),
                                  B("x"),
                                  B("6f1ed002ab5595859014ebf0951522d9"),
                                  B("\0binary\r\n\xfe\xff"),
                                  B("-ERR no error"),
                                  B("'\"\\"),
                                  {long_text, sizeof(long_text) - 1}};
static const tl_bytes scores[] = {B("0"),    B("1"),   B("2"),     B("-1.5"), B("0.1"),
                                  B("1e20"), B("inf"), B("-inf"),  B("nan"),  B("x"),
                                  B(""),     B(" 1"),  B("1e400"), B("0x10"), B("1700000000000000"),
                                  B("3"),    B("4"),   B("5")};
static const tl_bytes seconds[] = {B("100"),
                                   B("200000"),
                                   B("3000"),
                                   B("0"),
                                   B("-1"),
                                   B("9223372036854775"),
                                   B("9223372036854776"),
                                   B("-9223372036854776"),
                                   B("x"),
                                   B("5000")};
static const tl_bytes millis[] = {B("100000"),
                                  B("200000000"),
                                  B("3000000"),
                                  B("0"),
                                  B("-1"),
                                  B("9223372036854775807"),
                                  B("9221120237041090560"),
                                  B("-9223372036854775808"),
                                  B("x"),
                                  B("500000")};
static const tl_bytes at_second[] = {B("1"), B("4102444800"), B("4202444800"),
                                     B("0"), B("-5"),         B("9223372036854775807")};
static const tl_bytes at_milli[] = {B("1"),  B("4102444800000"),      B("4202444800000"), B("0"),
                                    B("-5"), B("9223372036854775807")};
static const tl_bytes options[] = {B("nx"), B("XX"),    B("GET"), B("KeepTTL"),
                                   B("PX"), B("bogus"), B("")};

/* Lua with two keys and three arguments: a field, a value, an integer. Some fail, in many ways. */
static const char *const scripts[] = {
    "return redis.call('GET', KEYS[1])",
    "return redis.pcall('GET', KEYS[1])",
    "return redis.call('SET', KEYS[1], ARGV[2])",
    "return redis.call('set', KEYS[1], ARGV[2], 'NX', 'PX', 100000)",
    "redis.call('SET', KEYS[1], ARGV[3]) return redis.call('INCR', KEYS[1])",
    "local v = redis.pcall('INCR', KEYS[1]) return type(v) == 'table' and {v.err, KEYS[2]} or v",
    "return redis.call('HMGET', KEYS[1], ARGV[1], 'nothing')",
    "return redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])",
    "redis.call('HSET', KEYS[2], 'n', 1.5, 'b', 2^53) return redis.call('HMGET', KEYS[2], 'n', 'b')",
    "redis.call('SET', KEYS[1], -0.1) return redis.call('GET', KEYS[1])",
    "redis.call('SET', KEYS[1], 1e15 + 0.5) return redis.call('GET', KEYS[1])",
    "redis.call('SET', KEYS[1], 1e300) return redis.call('GET', KEYS[1])",
    "redis.call('SET', KEYS[1], -0) return redis.call('GET', KEYS[1])",
    "if redis.call('GET', KEYS[1]) == ARGV[2] then return redis.call('DEL', KEYS[1]) end return 0",
    "return {1, 2, {3, {4, 'x'}}, 3.99, -3.99, true, false, 'y', nil, 'unseen'}",
    "return {ok = 'FINE'}",
    "return {err = 'My error'}",
    "return {err = 'LIKE(CODE two\\r\\nlines', ok = 'unseen'}",
    "return redis.error_reply('FOO')",
    "return redis.error_reply('FOO bar')",
    "return redis.error_reply('-FOO bar')",
    "return redis.error_reply(1)",
    "return redis.status_reply('ALL GOOD')",
    "return redis.status_reply()",
    "return {redis.pcall('nosuch', 'x'), 1}",
    "return redis.call('nosuch', 'x')",
    "return redis.pcall('GET')",
    "return redis.call('GET')",
    "return redis.call()",
    "return redis.call({})",
    "return redis.call('GET', {})",
    "return redis.call('GET', nil)",
    "return redis.call('SUBSCRIBE', 'c')",
    "return redis.pcall('MULTI')",
    "return redis.call('EVAL', 'return 1', 0)",
    "error('boom')",
    "error({err = 'MY own'})",
    "error(nil)",
    "local x\nlocal y = 1\nreturn x.y",
    "return nosuchglobal",
    "newglobal = 1 return 1",
    "KEYS[1] = 'mine' return KEYS",
    "return ARGV",
    "return #KEYS + #ARGV",
    "this is not lua",
    "return 1 +",
    "",
    "return nil",
    "return 9007199254740993",
    "return 1e300",
    "return 0/0",
    "return tostring(1e15) .. tostring(0.1) .. string.format('%.0f', 2^53)",
    "return redis.sha1hex('')",
    "return redis.sha1hex(ARGV[2])",
    "return redis.sha1hex()",
    "math.randomseed(5) return math.random(1000000)",
    "math.randomseed(7) return {math.random(100), math.random(5, 9), tostring(math.random())}",
    "return redis.replicate_commands()",
    "redis.call('SET', KEYS[1], 'x') return redis.replicate_commands()",
    "local ok, e = pcall(redis.call, 'INCR', KEYS[1]) return {tostring(ok), type(e)}",
    "local ok, e = pcall(function() return x end) return {tostring(ok), e}",
    "redis.call('SELECT', 1) return redis.call('SET', KEYS[1], 'in1')",
    "redis.call('SET', KEYS[1], 'v') redis.call('INCR', KEYS[1])",
    "local t = {} for i = 1, 20 do t[i] = redis.call('EXISTS', KEYS[i % 2 + 1]) end return t",
    "return {redis.call('TYPE', KEYS[1]), redis.call('TYPE', KEYS[2]).ok, redis.call('PING')}",
    "return redis.call('ZADD', KEYS[2], 1, ARGV[1], 2.5, ARGV[2])",
    "return redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES')",
    "return redis.call('PEXPIRE', KEYS[1], ARGV[3] .. '00000')",
    "redis.call('SETEX', KEYS[1], 5000, 'x') return redis.call('SET', KEYS[1], 'y', 'KEEPTTL')",
    "return {string.rep('ab', 3), table.concat({1, 2}, ','), unpack({7, 8})}",
    "return {tonumber('12'), tonumber('9007199254740993'), tonumber('-5'), tonumber('z', 36)}",
    "return {string.format('%.0f', 1e16), string.format('%.0f', -7), string.format('%.0f', 0.5)}",
    "return {string.format('%.0f', '7'), string.format('%s-%d', 'a', 3), string.format('%.0f', 1e300)}",
    "return string.format('%.0f', 'x')",
    "return string.format('%.0f')",
    "return tonumber()",
    "return {tonumber(' 7 '), tonumber('7x'), tonumber('1e2'), tonumber(''), tonumber({})}",
    "return {tonumber(ARGV[3]), tonumber('0x10'), tostring(nil), type(redis.call)}",
    "return redis.call('HGETALL', KEYS[1])[1] == nil",
    "return redis.log(redis.LOG_NOTICE, 'hello')",
    "return redis.log('x')",
    "return redis.log('x', 'y')",
    "return {redis.LOG_WARNING, redis.REPL_ALL}",
    "return _G.nosuch",
    "return select('#', unpack(ARGV))",
    "return {1, 2, x = 3}",
    "return setmetatable({}, {__index = function() return 5 end})",
    "return function() end",
    "return redis.call('HINCRBY', KEYS[1], ARGV[1], ARGV[3])",
    "local t = redis.call('TIME') return #t",
};

/* ---- making an order ------------------------------------------------------------------------- */

typedef struct {
    fake_likeness like;
    const char *words;
} row;

/* %k key  %f field  %v value or integer  %i integer  %z score  %s seconds  %m milliseconds
 * %S %M the same since the epoch  %o an option that may be wrong  %e a script and its arguments */
static const row rows[] = {
    {0, "GET %k"},
    {0, "GET %k"},
    {0, "MGET %k %k %k"},
    {0, "SET %k %v"},
    {0, "SET %k %i"},
    {0, "SET %k %v NX PX %m"},
    {0, "SET %k %v XX EX %s"},
    {0, "SET %k %v PXAT %M"},
    {0, "SET %k %v EXAT %S GET"},
    {0, "SET %k %v KEEPTTL"},
    {0, "SET %k %v GET NX"},
    {0, "SET %k %v %o %o"},
    {0, "SET %k %v PX"},
    {0, "SETNX %k %v"},
    {0, "GETSET %k %v"},
    {0, "SETEX %k %s %v"},
    {0, "PSETEX %k %m %v"},
    {0, "DEL %k %k"},
    {0, "DEL %k"},
    {0, "UNLINK %k"},
    {0, "EXISTS %k %k"},
    {0, "TYPE %k"},
    {0, "STRLEN %k"},
    {0, "INCR %k"},
    {0, "INCRBY %k %i"},
    {0, "DECR %k"},
    {0, "EXPIRE %k %s"},
    {0, "EXPIRE %k %s NX"},
    {0, "EXPIRE %k %s XX"},
    {0, "EXPIRE %k %s %o"},
    {0, "PEXPIRE %k %m"},
    {0, "EXPIREAT %k %S"},
    {0, "PEXPIREAT %k %M"},
    {0, "PEXPIREAT %k %M GT"},
    {0, "EXPIREAT %k %S LT"},
    {0, "PEXPIREAT %k %M GT LT"},
    {0, "PERSIST %k"},
    {FAKE_LIKE_SECONDS, "TTL %k"},
    {FAKE_LIKE_TIMES, "PTTL %k"},
    {FAKE_LIKE_TIMES, "PEXPIRETIME %k"},
    {FAKE_LIKE_SECONDS, "EXPIRETIME %k"},
    {0, "HGET %k %f"},
    {0, "HMGET %k %f %f %f"},
    {0, "HSET %k %f %v"},
    {0, "HSET %k %f %i %f %v"},
    {0, "HMSET %k %f %v %f %v"},
    {0, "HSETNX %k %f %v"},
    {FAKE_LIKE_ANY_PAIRS, "HGETALL %k"},
    {FAKE_LIKE_ANY_ORDER, "HKEYS %k"},
    {0, "HDEL %k %f %f"},
    {0, "HDEL %k %f %f %f %f %f"},
    {0, "HEXISTS %k %f"},
    {0, "HLEN %k"},
    {0, "HINCRBY %k %f %i"},
    {0, "SADD %k %f %f"},
    {0, "SREM %k %f %f"},
    {FAKE_LIKE_ANY_ORDER, "SMEMBERS %k"},
    {0, "SISMEMBER %k %f"},
    {0, "SCARD %k"},
    {0, "RPUSH %k %v"},
    {0, "RPUSH %k %v %f %v"},
    {0, "LLEN %k"},
    {0, "LRANGE %k 0 -1"},
    {0, "LRANGE %k %i %i"},
    {0, "LTRIM %k -2 -1"},
    {0, "LTRIM %k %i %i"},
    {FAKE_LIKE_ANY_ORDER, "KEYS *"},
    {0, "ZADD %k %z %f"},
    {0, "ZADD %k %z %f %z %v"},
    {0, "ZADD %k NX CH %z %f"},
    {0, "ZADD %k XX GT CH %z %f"},
    {0, "ZADD %k INCR %z %f"},
    {0, "ZADD %k %o %z %f"},
    {0, "ZADD %k LT NX %z %f"},
    {0, "ZREM %k %f %v"},
    {0, "ZRANGE %k 0 -1"},
    {0, "ZRANGE %k %i %i WITHSCORES"},
    {0, "ZRANGE %k 0 1 REV"},
    {0, "ZRANGEBYSCORE %k -inf +inf WITHSCORES"},
    {0, "ZRANGEBYSCORE %k %z %z LIMIT 0 2"},
    {0, "ZRANGEBYSCORE %k (1 %z"},
    {0, "ZREMRANGEBYSCORE %k %z %z"},
    {0, "ZPOPMIN %k"},
    {0, "ZPOPMIN %k %i"},
    {0, "ZRANK %k %f"},
    {0, "ZCARD %k"},
    {0, "ZSCORE %k %f"},
    {0, "PING"},
    {0, "PING %v"},
    {0, "ECHO %v"},
    {0, "PUBLISH %k %v"},
    {0, "WATCH %k %k"},
    {0, "WATCH %k"},
    {0, "UNWATCH"},
    {0, "MULTI"},
    {0, "MULTI"},
    {0, "EXEC"},
    {0, "EXEC"},
    {0, "EXEC"},
    {0, "DISCARD"},
    {0, "SELECT 0"},
    {0, "SELECT 1"},
    {0, "SELECT %i"},
    {0, "DBSIZE"},
    {0, "FLUSHDB"},
    {0, "SCRIPT EXISTS 6f1ed002ab5595859014ebf0951522d9aaaaaaaa"},
    {0, "SCRIPT BOGUS"},
    {0, "SCRIPT FLUSH BOGUS"},
    {0, "EVALSHA 6f1ed002ab5595859014ebf0951522d9aaaaaaaa 0"},
    {0, "EVALSHA short 0"},
    {0, "EVAL return %i"},
    {0, "EVAL return -1"},
    {0, "EVAL return 4 a b"},
    {0, "CLIENT SETNAME %v"},
    {0, "CLIENT GETNAME"},
    {0, "CLIENT BOGUS"},
    {0, "CLIENT KILL"},
    {0, "CLIENT KILL ID"},
    {0, "CLIENT KILL ID 0"},
    {0, "CLIENT KILL ID -1"},
    {0, "CLIENT KILL ID x"},
    {0, "CLIENT KILL ID 99999999"},
    {0, "CLIENT KILL ID 99999999 SKIPME no"},
    {0, "CLIENT KILL ID 99999999 SKIPME"},
    {0, "CLIENT KILL BOGUS 1"},
    {0, "CONFIG BOGUS"},
    {0, "WAIT 0 0"},
    {0, "WAIT x 0"},
    {0, "WAIT 0 -1"},
    {0, "AUTH x"},
    {0, "AUTH x y"},
    {0, "AUTH default y"},
    {0, "NOSUCH %v %v"},
    {0, "%v"},
    {0, "%e"},
    {0, "%e"},
    {0, "%e"},
    {0, "%e"},
    {0, "%e"},
    {0, "%e"},
    {0, "%e"},
    {0, "%e"},
};

static void add(fake_order *c, tl_bytes arg) {
    if (c->argc < FAKE_ORDER_MAX) {
        c->argv[c->argc++] = arg;
    }
}

size_t fake_workload_scripts(void) {
    return COUNT(scripts);
}

static void add_script(fake_workload *w, fake_order *c, size_t i) {
    add(c, TL_LITERAL("EVAL"));
    add(c, tl__bytes_of(scripts[i]));
    add(c, TL_LITERAL("2"));
    add(c, PICK(w, keys));
    add(c, PICK(w, keys));
    add(c, PICK(w, fields));
    add(c, fake_workload_draw(w, 2) ? PICK(w, values) : PICK(w, integers));
    add(c, PICK(w, integers));
}

void fake_workload_script(fake_workload *w, size_t i, fake_order *ret) {
    *ret = (fake_order){0};
    add_script(w, ret, i);
}

static void add_word(fake_workload *w, fake_order *c, tl_bytes word) {
    if (word.p[0] != '%') {
        add(c, word);
        return;
    }
    switch (word.p[1]) {
    case 'k': add(c, PICK(w, keys)); break;
    case 'f': add(c, PICK(w, fields)); break;
    case 'v': add(c, fake_workload_draw(w, 3) ? PICK(w, values) : PICK(w, integers)); break;
    case 'i': add(c, PICK(w, integers)); break;
    case 'z': add(c, PICK(w, scores)); break;
    case 's': add(c, PICK(w, seconds)); break;
    case 'm': add(c, PICK(w, millis)); break;
    case 'S': add(c, PICK(w, at_second)); break;
    case 'M': add(c, PICK(w, at_milli)); break;
    case 'o': add(c, PICK(w, options)); break;
    default: add_script(w, c, fake_workload_draw(w, COUNT(scripts)));
    }
}

void fake_workload_words(fake_workload *w, const char *words, fake_order *ret) {
    *ret = (fake_order){0};
    for (; *words; words += *words == ' ') {
        size_t n = strcspn(words, " ");
        add_word(w, ret, tl__bytes(words, n));
        words += n;
    }
}

/* Now and then an argument too few or too many, or a name in lower case. */
static void spoil(fake_workload *w, fake_order *c) {
    if (fake_workload_draw(w, 25) == 0 && c->argc > 1) {
        c->argc--;
    } else if (fake_workload_draw(w, 25) == 0) {
        add(c, PICK(w, values));
    }
    if (fake_workload_draw(w, 6) == 0 && c->argv[0].n < sizeof(c->name)) {
        for (size_t i = 0; i < c->argv[0].n; i++) {
            char a = c->argv[0].p[i];
            c->name[i] = a >= 'A' && a <= 'Z' ? (char)(a - 'A' + 'a') : a;
        }
        c->argv[0].p = c->name;
    }
}

void fake_workload_next(fake_workload *w, fake_order *ret) {
    const row *t = &PICK(w, rows);
    fake_workload_words(w, t->words, ret);
    ret->like = t->like;
    spoil(w, ret);
}
