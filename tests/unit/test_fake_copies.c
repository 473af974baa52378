/*
 * The fake server's copies, what it tells replicas, how it grows, and looking inside.
 */
#include "fake_workload.h"
#include "fake_world.h"

TESTS_WITH(setup, teardown);

/* ---- copies and replication ------------------------------------------------------------------ */

TEST_ON(a_clone_goes_its_own_way, fake_world *w) {
    says(w->a, "SET k v PX 1000", "+OK");
    says(w->a, "HSET h f 1 g 2", ":2");
    says(w->a, "ZADD z 2 b 1 a", ":2");
    runs(w->a, "return 1", ":1");
    fake_redis *copy = fake_redis_clone(w->r);
    says(w->a, "FLUSHALL", "+OK");
    says(w->a, "SCRIPT FLUSH", "+OK");
    fake_conn *c = fake_redis_connect(copy, NULL, NULL);
    says(c, "PTTL k", ":1000");
    says(c, "HGETALL h", "[$f $1 $g $2]");
    says(c, "ZRANGE z 0 -1 WITHSCORES", "[$a $1 $b $2]");
    says(c, "EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0", ":1");
    fake_redis_copy(w->r, copy);
    fake_redis_free(copy);
    says(w->a, "GET k", "$v");
    says(w->a, "ZREM z a", ":1");
}

typedef struct {
    fake_redis *replica;
    uint64_t units[16];
    size_t count;
} link;

static void replicate(void *ctx, uint64_t unit, int db, const tl_bytes *argv, size_t argc) {
    link *l = ctx;
    if (l->replica) {
        fake_redis_apply(l->replica, db, argv, argc);
    }
    if (l->count < 16) {
        l->units[l->count++] = unit;
    }
}

TEST_ON(writes_of_one_script_are_one_unit, fake_world *w) {
    link l = {0};
    fake_redis_on_write(w->r, replicate, &l);
    says(w->a, "GET k", "nil");
    says(w->a, "SETNX k v", ":1");
    says(w->a, "SETNX k v", ":0");
    runs(w->a, "redis.call('SET', 'k', '1') redis.call('INCR', 'k')", "nil");
    says(w->a, "MULTI", "+OK");
    says(w->a, "DEL k", "+QUEUED");
    says(w->a, "SET l 1", "+QUEUED");
    says(w->a, "EXEC", "[:1 +OK]");
    assert_int_equal(l.count, 5);
    assert_true(l.units[0] < l.units[1] && l.units[1] == l.units[2]);
    assert_true(l.units[2] < l.units[3] && l.units[3] == l.units[4]);
}

/* Every key of `from` is the same in `to`. */
typedef struct {
    fake_conn *from, *to;
    size_t keys;
} comparison;

static void same_key(void *ctx, tl_bytes key) {
    static const char *const looks[][3] = {{"PEXPIRETIME", NULL, NULL}, {"TYPE", NULL, NULL},
                                           {"GET", NULL, NULL},         {"HGETALL", NULL, NULL},
                                           {"SMEMBERS", NULL, NULL},    {"ZRANGE", "0", "-1"}};
    comparison *c = ctx;
    c->keys++;
    for (size_t i = 0; i < sizeof(looks) / sizeof(looks[0]); i++) {
        char a[FAKE_SHOW_SIZE], b[FAKE_SHOW_SIZE];
        tl_bytes argv[4] = {tl__bytes_of(looks[i][0]), key};
        size_t argc = 2;
        for (; argc < 4 && looks[i][argc - 1]; argc++) {
            argv[argc] = tl__bytes_of(looks[i][argc - 1]);
        }
        fake_show(fake_conn_command(c->from, argv, argc), a);
        fake_show(fake_conn_command(c->to, argv, argc), b);
        assert_string_equal(a, b);
    }
}

TEST_ON(a_replica_that_applies_every_write_is_equal, fake_world *w) {
    for (uint64_t seed = 0; seed < 60; seed++) {
        fake_redis *replica = fake_redis_beside(w->r);
        link l = {.replica = replica};
        fake_redis_reset(w->r);
        fake_redis_set_replica(replica, true);
        fake_redis_on_write(w->r, replicate, &l);
        w->a = fake_redis_connect(w->r, NULL, NULL);
        comparison c = {fake_redis_connect(w->r, NULL, NULL),
                        fake_redis_connect(replica, NULL, NULL), 0};
        fake_workload workload = fake_workload_seeded(seed);
        for (int64_t i = 0; i < 300; i++) {
            fake_order order;
            fake_redis_set_time(w->r, NOW_US + i * 40000000);
            fake_redis_set_time(replica, NOW_US + i * 40000000);
            fake_workload_next(&workload, &order);
            fake_conn_command(w->a, order.argv, order.argc);
        }
        size_t replicas = 0;
        for (int db = 0; db < 2; db++) {
            char line[32];
            snprintf(line, sizeof(line), "SELECT %d", db);
            says(c.from, line, "+OK");
            says(c.to, line, "+OK");
            fake_redis_each_key(w->r, db, same_key, &c);
            replicas -= c.keys;
            c.keys = 0;
            fake_redis_each_key(replica, db, same_key, &c);
            replicas += c.keys;
            c.keys = 0;
        }
        assert_int_equal(replicas, 0);
        fake_redis_free(replica);
    }
}

/* ---- size ------------------------------------------------------------------------------------ */

static void key_line(char *line, size_t size, const char *command, uint64_t i, const char *rest) {
    snprintf(line, size, "%s key:%llu%s", command, (unsigned long long)i, rest);
}

TEST_ON(many_keys_come_and_go, fake_world *w) {
    enum { KEYS = 3000 };
    static bool there[KEYS];
    fake_workload draw = fake_workload_seeded(1);
    char line[64];
    int64_t count = 0;
    memset(there, 0, sizeof(there));
    for (int i = 0; i < 60000; i++) {
        uint64_t k = fake_workload_draw(&draw, i % 20000 < 10000 ? KEYS : 20);
        bool set = fake_workload_draw(&draw, 2);
        key_line(line, sizeof(line), set ? "SETNX" : "DEL", k, set ? " v" : "");
        says(w->a, line, set != there[k] ? ":1" : ":0");
        count += (set && !there[k]) - (!set && there[k]);
        there[k] = set;
    }
    char expected[24];
    snprintf(expected, sizeof(expected), ":%lld", (long long)count);
    says(w->a, "DBSIZE", expected);
    for (uint64_t k = 0; k < KEYS; k++) {
        key_line(line, sizeof(line), "EXISTS", k, "");
        says(w->a, line, there[k] ? ":1" : ":0");
    }
}

TEST_ON(a_large_sorted_set_stays_in_order, fake_world *w) {
    fake_workload draw = fake_workload_seeded(2);
    char line[64];
    for (int i = 0; i < 20000; i++) {
        snprintf(line, sizeof(line), "%s z %.0f m%llu", i % 3 ? "ZADD" : "ZREM",
                 (double)fake_workload_draw(&draw, 500),
                 (unsigned long long)fake_workload_draw(&draw, 900));
        fake_conn_say(w->a, line);
    }
    int64_t size = fake_conn_say(w->a, "ZCARD z")->integer;
    const tl_reply *all = fake_conn_say(w->a, "ZRANGE z 0 -1 WITHSCORES");
    assert_int_equal(all->count, 2 * size);
    for (size_t i = 2; i < all->count; i += 2) {
        long a = strtol(all->items[i - 1].text.p, NULL, 10);
        long b = strtol(all->items[i + 1].text.p, NULL, 10);
        assert_true(a < b ||
                    (a == b && strcmp(all->items[i - 2].text.p, all->items[i].text.p) < 0));
    }
}

TEST_ON(reset_is_like_new, fake_world *w) {
    says(w->a, "SET k v", "+OK");
    says(w->b, "WATCH k", "+OK");
    says(w->a, "SUBSCRIBE c", "pushed");
    fake_redis_set_oom(w->r, true);
    fake_redis_set_password(w->r, "x");
    fake_redis_reset(w->r);
    w->a = fake_redis_connect(w->r, NULL, NULL);
    says(w->a, "SET k v NX", "+OK");
    says(w->a, "TIME", "[$0 $0]");
    says(w->a, "CLIENT ID", ":1");
    assert_int_equal(fake_redis_count(w->r, NULL), 3);
}

TEST_ON(peeking_changes_nothing, fake_world *w) {
    tl_bytes text;
    says(w->a, "SET k v PX 100", "+OK");
    says(w->a, "HSET h f 7", ":1");
    assert_true(fake_redis_peek(w->r, 0, TL_LITERAL("k"), &text));
    assert_true(tl__bytes_eq(text, TL_LITERAL("v")));
    assert_true(fake_redis_peek_field(w->r, 0, TL_LITERAL("h"), TL_LITERAL("f"), &text));
    assert_true(tl__bytes_eq(text, TL_LITERAL("7")));
    assert_int_equal(fake_redis_peek_expiry(w->r, 0, TL_LITERAL("k")), NOW_MS + 100);
    assert_int_equal(fake_redis_peek_expiry(w->r, 0, TL_LITERAL("h")), -1);
    at_ms(w, NOW_MS + 200);
    assert_false(fake_redis_peek(w->r, 0, TL_LITERAL("k"), &text));
    assert_int_equal(fake_redis_peek_expiry(w->r, 0, TL_LITERAL("k")), -2);
    at_ms(w, NOW_MS);
    assert_true(fake_redis_peek(w->r, 0, TL_LITERAL("k"), &text));
}
