/*
 * Globs mean to us what they mean to a server: for random patterns, KEYS of a real one names exactly the keys
 * that fit. Flawed patterns, which servers of different ages don't read alike, are left out.
 *
 *   SEED=n RUNS=n   the first seed (default 1), and how many patterns for each set of keys (default 2000)
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests.h"
#include "ground/glob.h"
#include "real_redis.h"
#include "real_server.h"

#define SETS 5
#define KEYS 100
#define LENGTH 7
#define PIPELINED 100

typedef struct {
    char bytes[LENGTH + 1];
    size_t n;
} text;

static uint64_t state_of_random;

static size_t below(size_t n) {
    state_of_random = state_of_random * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (size_t)(state_of_random >> 33) % n;
}

static tl_bytes bytes_of(const text *t) {
    return tl__bytes(t->bytes, t->n);
}

/* Never empty: no lock's name is, and servers don't agree whether '**' fits that. */
static text draw(const char *letters, size_t count) {
    text t = {.n = 1 + below(LENGTH)};
    for (size_t i = 0; i < t.n; i++)
        t.bytes[i] = letters[below(count)];
    return t;
}

static void fill(redisContext *c, text keys[KEYS]) {
    static const char letters[] = "aabbc-]^*\\[?\xff"; /* and the zero byte behind them */
    redisReply *flushed = redisCommand(c, "FLUSHALL");
    assert_non_null(flushed);
    freeReplyObject(flushed);
    for (size_t i = 0; i < KEYS; i++) {
        keys[i] = draw(letters, sizeof letters);
        redisReply *r = redisCommand(c, "SET %b 1", keys[i].bytes, keys[i].n);
        assert_non_null(r);
        freeReplyObject(r);
    }
}

static bool is_named(const redisReply *r, tl_bytes key) {
    for (size_t i = 0; i < r->elements; i++)
        if (tl__bytes_eq(key, tl__bytes(r->element[i]->str, r->element[i]->len)))
            return true;
    return false;
}

static size_t compare(redisContext *c, const text keys[KEYS], const text *pattern) {
    redisReply *r = NULL;
    char shown[2][LENGTH + 1];
    size_t fitting = 0;
    assert_int_equal(redisGetReply(c, (void **)&r), REDIS_OK);
    assert_int_equal(r->type, REDIS_REPLY_ARRAY);
    for (size_t i = 0; i < KEYS; i++) {
        bool fits = tl__glob_fits(bytes_of(pattern), bytes_of(&keys[i]));
        fitting += fits;
        if (fits == is_named(r, bytes_of(&keys[i])))
            continue;
        tl__bytes_print(shown[0], sizeof shown[0], bytes_of(pattern));
        tl__bytes_print(shown[1], sizeof shown[1], bytes_of(&keys[i]));
        fail_msg("'%s' and '%s': the server says %s", shown[0], shown[1], fits ? "no" : "yes");
    }
    freeReplyObject(r);
    return fitting;
}

TEST(the_server_names_what_fits) {
    NEEDS_SERVER(REAL_GLOBS);
    static const char letters[] = "aabbc--]]^**\\[[?\xff";
    const char *runs = getenv("RUNS"), *seed = getenv("SEED");
    int each = runs ? atoi(runs) : 2000;
    real_redis *server = real_redis_start(NULL);
    redisContext *c = real_redis_connect(server);
    size_t fitting = 0;
    state_of_random = seed ? strtoull(seed, NULL, 10) : 1;
    for (int set = 0; set < SETS; set++) {
        text keys[KEYS], pattern[PIPELINED];
        fill(c, keys);
        for (int done = 0; done < each; done += PIPELINED) {
            for (size_t i = 0; i < PIPELINED; i++) {
                do
                    pattern[i] = draw(letters, sizeof letters);
                while (tl__glob_flaw(bytes_of(&pattern[i])));
                redisAppendCommand(c, "KEYS %b", pattern[i].bytes, pattern[i].n);
            }
            for (size_t i = 0; i < PIPELINED; i++)
                fitting += compare(c, keys, &pattern[i]);
        }
    }
    assert_true(fitting > (size_t)each); /* they aren't all of nothing */
    redisFree(c);
    real_redis_free(server);
}
