/*
 * Stamps on a Redis Cluster: they are looked at, on whatever node, and none is acquired.
 */
#include "arena.h"

#include "distribute_lock_util.h"
#include "real_fleet.h"

#define KEYS 12
#define LONG_AGO_MS 60000

static real_fleet *fleet;

static int set_up(void **state) {
    (void)state;
    if (!fleet)
        fleet = real_fleet_start_cluster(
            &(real_fleet_options){.replicas = -1, .config = "save \"\""});
    return 0;
}

TESTS_WITH(set_up, locks_clean_up);

static tl_client *looker(const tl_legacy_options *legacy) {
    return make_client_with(TL_CLIENT_OPTIONS(.url = real_fleet_url(fleet), .protocol = TL_BRIDGE,
                                              .legacy = legacy, .attempt_ms = SOON_MS,
                                              .connect_ms = SOON_MS));
}

static real_redis *owner(const char *key) {
    real_node *node = NULL;
    WAIT_FOR(SOON_MS, (node = real_fleet_owner(fleet, key)) != NULL);
    return node->redis;
}

/* Half of them are over. */
static void put_stamps(int64_t now_ms) {
    for (int i = 0; i < KEYS; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "jobs:%d", i);
        int64_t end_ms = now_ms + (i % 2 ? LONG_AGO_MS : -LONG_AGO_MS);
        freeReplyObject(real_redis_command(owner(key), "SET %s %lld", key, (long long)end_ms));
    }
}

typedef struct {
    int held[KEYS], free[KEYS];
} seen;

static void found(const void *key, size_t key_len, const tl_lock_info *info, void *ctx) {
    seen *s = ctx;
    char text[32];
    (void)snprintf(text, sizeof text, "%.*s", (int)key_len, (const char *)key);
    int i = atoi(text + 5);
    assert_in_range(i, 0, KEYS - 1);
    assert_int_equal(info->protocol, TL_TIMESTAMP);
    assert_false(info->guessed);
    (info->held ? s->held : s->free)[i]++;
}

TEST(stamps_on_all_nodes_of_a_cluster_are_read_as_their_clients_do) {
    const tl_legacy_options legacy = TL_LEGACY_OPTIONS(.clock_skew_max_ms = 250);
    tl_client *client = looker(&legacy);
    tl_lock_info info = {.size = sizeof info};
    uint64_t cursor = 0;
    seen s = {.held = {0}};
    put_stamps(real_redis_int(owner("jobs:0"), "EVAL %s 0", "return redis.call('TIME')[1] * 1000"));
    do
        ASSERT_RESULT(tl_client_scan(client, "jobs:*", &cursor, found, &s, &said), TL_OK);
    while (cursor != 0);
    for (int i = 0; i < KEYS; i++)
        assert_true(i % 2 ? s.held[i] > 0 && !s.free[i] : s.free[i] > 0 && !s.held[i]);
    ASSERT_RESULT(tl_client_look(client, "jobs:1", 6, &info, &said), TL_OK);
    assert_true(info.held && info.remaining_ms > LONG_AGO_MS - SOON_MS);
}

TEST(no_lock_is_acquired_by_stamps_in_a_cluster) {
    static const tl_protocol_id ids[] = {TL_BRIDGE, TL_TIMESTAMP};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        tl_client *client = make_client_with(
            TL_CLIENT_OPTIONS(.url = real_fleet_url(fleet), .protocol = ids[i]));
        assert_null(tl_lock_new(client, "job", 3, NULL, &said));
        assert_int_equal(said.code, TL_EINVALID);
        ASSERT_SAID("it must be token: by this one locks can be looked at there, but not acquired");
    }
}

TEST(no_client_follows_a_phase_in_a_cluster) {
    const tl_client_options o = TL_CLIENT_OPTIONS(.url = real_fleet_url(fleet),
                                                  .protocol = TL_AUTO);
    tl_client *none = NULL;
    ASSERT_RESULT(tl_client_open(&o, &none, &said), TL_EINVALID);
    ASSERT_SAID("it must be token: the phase would be on another node than the key");
}

TEST(the_drop_in_is_not_opened_on_a_cluster) {
    assert_null(tl_dlu_open(real_fleet_url(fleet), &said));
    assert_int_equal(said.code, TL_EINVALID);
    ASSERT_SAID("none is acquired by stamps");
    tl_dlu *alone = tl_dlu_open("redis://u:+cluster@127.0.0.1", &said);
    assert_non_null(alone);
    tl_dlu_close(alone);
}
