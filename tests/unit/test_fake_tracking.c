/*
 * Who the fake server tells that a key has changed: CLIENT TRACKING with REDIRECT, and its levels.
 * test_differential compares it with a real one; here are time, restarts, and copies.
 */
#include "fake_world.h"

typedef struct {
    fake_world w;
    fake_conn *sub;
    char heard[FAKE_SHOW_SIZE];
} told_world;

static void collect(void *ctx, const tl_reply *reply) {
    char *heard = ctx, text[FAKE_SHOW_SIZE];
    fake_show(reply, text);
    strncat(heard, text, FAKE_SHOW_SIZE - strlen(heard) - 1);
}

static void has_heard(told_world *t, const char *expected) {
    assert_string_equal(t->heard, expected);
    t->heard[0] = '\0';
}

#define K_CHANGED "[$message $__redis__:invalidate [$k]]"
#define ALL_CHANGED "[$message $__redis__:invalidate nil]"

static void listen_for(told_world *t, const char *channel) {
    char line[80];
    snprintf(line, sizeof(line), "SUBSCRIBE %s", channel);
    says(t->sub, line, "pushed");
    t->heard[0] = '\0';
}

static int begin(void **state) {
    told_world *t = calloc(1, sizeof(*t));
    t->w.r = fake_redis_new();
    t->sub = fake_redis_connect(t->w.r, &(fake_calls){.push = collect}, t->heard);
    t->w.a = fake_redis_connect(t->w.r, NULL, NULL);
    t->w.b = fake_redis_connect(t->w.r, NULL, NULL);
    fake_redis_set_time(t->w.r, NOW_US);
    listen_for(t, "__redis__:invalidate");
    says(t->w.a, "CLIENT TRACKING ON REDIRECT 1 NOLOOP", "+OK");
    *state = t;
    return 0;
}

static int end(void **state) {
    told_world *t = *state;
    fake_redis_free(t->w.r);
    free(t);
    return 0;
}

TESTS_WITH(begin, end);

TEST_ON(a_change_is_told_once_to_who_has_read, told_world *t) {
    says(t->w.b, "SET k v", "+OK");
    has_heard(t, "");
    says(t->w.a, "GET k", "$v");
    says(t->w.b, "SET k w", "+OK");
    has_heard(t, K_CHANGED);
    says(t->w.b, "DEL k", ":1");
    has_heard(t, "");
    says(t->w.a, "EXISTS k", ":0");
    says(t->w.b, "HSET k f v", ":1");
    has_heard(t, K_CHANGED);
}

TEST_ON(its_own_changes_are_not_told_and_end_it, told_world *t) {
    says(t->w.a, "GET k", "nil");
    says(t->w.a, "SET k v", "+OK");
    says(t->w.b, "SET k w", "+OK");
    has_heard(t, "");
    says(t->w.a, "CLIENT TRACKING ON REDIRECT 1", "+OK");
    says(t->w.a, "GET k", "$w");
    says(t->w.a, "DEL k", ":1");
    has_heard(t, K_CHANGED);
}

TEST_ON(a_script_reads_its_own_keys_when_it_reads_any, told_world *t) {
    runs(t->w.a, "return redis.call('TIME')[1]", "$1700000000");
    says(t->w.b, "SET k v", "+OK");
    has_heard(t, "");
    fake_redis_allow_undeclared(t->w.r, NULL);
    runs(t->w.a, "return redis.call('GET', 'other')", "nil");
    says(t->w.b, "SET other v", "+OK");
    has_heard(t, "");
    says(t->w.b, "SET k v", "+OK");
    has_heard(t, K_CHANGED);
}

TEST_ON(what_expires_is_told_when_it_goes, told_world *t) {
    says(t->w.b, "SET k v PX 100", "+OK");
    says(t->w.a, "GET k", "$v");
    at_ms(&t->w, NOW_MS + 101);
    has_heard(t, "");
    fake_redis_expire_cycle(t->w.r);
    has_heard(t, K_CHANGED);
    says(t->w.b, "SET k v PX 100", "+OK");
    says(t->w.a, "GET k", "$v");
    at_ms(&t->w, NOW_MS + 300);
    says(t->w.b, "GET k", "nil");
    has_heard(t, K_CHANGED);
}

TEST_ON(a_flush_a_copy_and_a_replicated_write_are_told, told_world *t) {
    says(t->w.a, "GET k", "nil");
    says(t->w.b, "FLUSHALL", "+OK");
    has_heard(t, ALL_CHANGED);
    says(t->w.b, "SET k v", "+OK");
    has_heard(t, "");
    fake_redis *other = fake_redis_beside(t->w.r);
    fake_redis_copy(t->w.r, other);
    fake_redis_free(other);
    has_heard(t, ALL_CHANGED);
    says(t->w.a, "GET k", "nil");
    fake_redis_set_replica(t->w.r, true);
    fake_redis_apply(t->w.r, 0, (tl_bytes[]){TL_LITERAL("SET"), TL_LITERAL("k"), TL_LITERAL("v")},
                     3);
    has_heard(t, K_CHANGED);
}

TEST_ON(nothing_is_told_after_a_restart_or_to_who_has_gone, told_world *t) {
    says(t->w.a, "GET k", "nil");
    fake_redis_restart(t->w.r, true);
    listen_for(t, "__redis__:invalidate");
    says(t->w.b, "SET k v", "+OK");
    says(t->w.a, "CLIENT GETREDIR", ":-1");
    has_heard(t, "");
    says(t->w.a, "CLIENT TRACKING ON REDIRECT 9",
         "-ERR The client ID you want redirect to does not exist");
    const tl_reply *id = fake_conn_say(t->sub, "CLIENT ID"); /* refused: it subscribes */
    assert_int_equal(id->type, TL_REPLY_ERROR);
    says(t->w.a, "CLIENT TRACKING ON NOLOOP REDIRECT 3", "+OK");
    says(t->w.a, "GET k", "$v");
    says(t->w.b, "SET k w", "+OK");
    has_heard(t, K_CHANGED);
    says(t->w.a, "GET k", "$w");
    fake_conn_close(t->sub);
    says(t->w.b, "SET k v", "+OK");
    has_heard(t, "");
}

TEST_ON(before_6_there_is_none, told_world *t) {
    static const struct {
        uint32_t level;
        const char *id, *refusal;
    } all[] = {
        {FAKE_LEVEL(2, 6, 17), NULL,
         "-ERR Syntax error, try CLIENT (LIST | KILL ip:port | GETNAME | SETNAME connection-name)"},
        {FAKE_LEVEL(4, 0, 14), NULL,
         "-ERR Syntax error, try CLIENT (LIST | KILL | GETNAME | SETNAME | PAUSE | REPLY)"},
        {FAKE_LEVEL(5, 0, 14), ":2",
         "-ERR Unknown subcommand or wrong number of arguments for 'TRACKING'. Try CLIENT HELP"},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        fake_redis_set_level(t->w.r, all[i].level);
        says(t->w.a, "CLIENT ID", all[i].id ? all[i].id : all[i].refusal);
        says(t->w.a, "CLIENT TRACKING ON REDIRECT 1 NOLOOP", all[i].refusal);
    }
    fake_redis_set_level(t->w.r, FAKE_LEVEL(6, 0, 0));
    says(t->w.a, "CLIENT TRACKING ON REDIRECT 1 NOLOOP", "+OK");
    says(t->w.a, "CLIENT TRACKING",
         "-ERR Unknown subcommand or wrong number of arguments for 'TRACKING'. Try CLIENT HELP.");
}
