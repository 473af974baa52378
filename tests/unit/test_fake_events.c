/*
 * What the fake server publishes of changes to keys: the knob, the levels, what expires, replicas and
 * copies. That the events are a real server's is test_differential's matter.
 */
#include "fake_world.h"

TESTS_WITH(setup, teardown);

static void collect(void *ctx, const tl_reply *reply) {
    char *heard = ctx, text[FAKE_SHOW_SIZE];
    if (reply->count == 3 && tl__bytes_eq(reply->items[0].text, TL_LITERAL("message"))) {
        fake_show(reply, text);
        strncat(heard, text, FAKE_SHOW_SIZE - strlen(heard) - 1);
    }
}

static char heard[FAKE_SHOW_SIZE];

static fake_conn *listen_to(fake_world *w, const char *channels) {
    char line[200];
    fake_conn *c = fake_redis_connect(w->r, &(fake_calls){.push = collect}, heard);
    snprintf(line, sizeof(line), "SUBSCRIBE %s", channels);
    says(c, line, "pushed");
    heard[0] = '\0';
    return c;
}

static void has_heard(const char *expected) {
    assert_string_equal(heard, expected);
    heard[0] = '\0';
}

TEST_ON(nothing_is_told_unless_it_is_configured, fake_world *w) {
    fake_conn *c = listen_to(w, "__keyspace@0__:k __keyevent@0__:set");
    says(w->a, "SET k v", "+OK");
    has_heard("");
    fake_redis_set_events(w->r, "K");
    says(w->a, "SET k v", "+OK");
    has_heard("");
    fake_redis_set_events(w->r, "K$");
    says(w->a, "SET k v PX 100", "+OK");
    says(w->a, "SET other v", "+OK");
    says(w->a, "DEL k", ":1");
    has_heard("[$message $__keyspace@0__:k $set]");
    fake_redis_set_events(w->r, "KEA");
    says(w->a, "SET k v PX 100", "+OK");
    has_heard("[$message $__keyspace@0__:k $set][$message $__keyevent@0__:set $k]"
              "[$message $__keyspace@0__:k $expire]");
    says(w->a, "SELECT 1", "+OK");
    says(w->a, "SET k v", "+OK");
    has_heard("");
    fake_conn_close(c);
}

TEST_ON(an_expiry_is_told_when_the_key_goes, fake_world *w) {
    fake_conn *c = listen_to(w, "__keyspace@0__:k");
    fake_redis_set_events(w->r, "Kxg");
    says(w->a, "SET k v PX 100", "+OK");
    has_heard("[$message $__keyspace@0__:k $expire]");
    at_ms(w, NOW_MS + 101);
    has_heard("");
    fake_redis_expire_cycle(w->r);
    has_heard("[$message $__keyspace@0__:k $expired]");
    says(w->a, "SET k v PX 100", "+OK");
    heard[0] = '\0';
    at_ms(w, NOW_MS + 300);
    says(w->b, "GET k", "nil");
    has_heard("[$message $__keyspace@0__:k $expired]");
    fake_conn_close(c);
}

TEST_ON(a_replica_tells_what_it_is_told, fake_world *w) {
    fake_conn *c = listen_to(w, "__keyspace@0__:k");
    fake_redis_set_events(w->r, "KA");
    fake_redis_set_replica(w->r, true);
    fake_redis_apply(w->r, 0,
                     (tl_bytes[]){TL_LITERAL("SET"), TL_LITERAL("k"), TL_LITERAL("v"),
                                  TL_LITERAL("PXAT"), TL_LITERAL("1700000000200")},
                     5);
    at_ms(w, NOW_MS + 300);
    says(w->a, "GET k", "nil");
    has_heard("[$message $__keyspace@0__:k $set][$message $__keyspace@0__:k $expire]");
    fake_redis_apply(w->r, 0, (tl_bytes[]){TL_LITERAL("DEL"), TL_LITERAL("k")}, 2);
    has_heard("[$message $__keyspace@0__:k $del]");
    says(w->a, "DBSIZE", ":0");
    fake_conn_close(c);
}

TEST_ON(what_is_configured_meanwhile_ends_with_a_restart, fake_world *w) {
    fake_redis_set_events(w->r, "Kg");
    says(w->a, "CONFIG SET notify-keyspace-events AE", "+OK");
    fake_redis *other = fake_redis_clone(w->r);
    fake_conn *c = fake_redis_connect(other, NULL, NULL);
    says(c, "CONFIG GET notify-keyspace-events", "[$notify-keyspace-events $AE]");
    fake_redis_free(other);
    fake_redis_restart(w->r, true);
    says(w->a, "CONFIG GET notify-keyspace-events", "[$notify-keyspace-events $gK]");
    fake_redis_reset(w->r);
    w->a = fake_redis_connect(w->r, NULL, NULL);
    says(w->a, "CONFIG GET notify-keyspace-events", "[$notify-keyspace-events $]");
}

TEST_ON(levels_know_some_letters, fake_world *w) {
    fake_redis_set_level(w->r, FAKE_LEVEL(2, 6, 17));
    says(w->a, "CONFIG SET notify-keyspace-events K",
         "-ERR Unsupported CONFIG parameter: notify-keyspace-events");
    says(w->a, "CONFIG GET notify-keyspace-events", "[]");
    fake_redis_set_level(w->r, FAKE_LEVEL(2, 8, 24));
    says(w->a, "CONFIG SET notify-keyspace-events KEA", "+OK");
    says(w->a, "CONFIG GET notify-keyspace-events", "[$notify-keyspace-events $AKE]");
    says(w->a, "CONFIG SET notify-keyspace-events Km",
         "-ERR Invalid argument 'Km' for CONFIG SET 'notify-keyspace-events'");
    fake_redis_set_level(w->r, FAKE_LEVEL(6, 0, 0));
    fake_conn *c = listen_to(w, "__keyspace@0__:k");
    says(w->a, "CONFIG SET notify-keyspace-events Km", "+OK");
    says(w->a, "GET k", "nil");
    has_heard("[$message $__keyspace@0__:k $keymiss]");
    fake_conn_close(c);
}
