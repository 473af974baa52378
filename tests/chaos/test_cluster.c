/*
 * A server that is a cluster's node refuses to be asked for keys of several slots at once: its locks are
 * renewed one by one, and in time, and it isn't asked so again.
 *
 * timeout: 180
 */

/*
 * Faults and outcomes (tests/README.md says what is asserted of each):
 * - a cluster's node that refuses keys of several slots in one script: all locks are renewed one by one, none is at
 *   risk.
 */
#include "arena.h"

#define LOCKS 2000 /* more than are asked singly at once */
#define LIFE_MS clock_patient_ms(15000)
#define ROUND_MS (LIFE_MS + SOON_MS) /* until all have been renewed once more, on a busy machine */

static long long number_in(const char *section, const char *name) {
    char command[32];
    (void)snprintf(command, sizeof command, "INFO %s", section);
    redisReply *info = real_redis_command(server, command);
    assert_non_null(info);
    const char *at = strstr(info->str, name);
    long long n = at ? atoll(at + strlen(name)) : 0;
    freeReplyObject(info);
    return n;
}

static long long refused(void) {
    return number_in("errorstats", "errorstat_CROSSSLOT:count=");
}

static long long connections(void) {
    return number_in("stats", "total_connections_received:");
}

static bool is_ready(void) {
    redisReply *info = real_redis_command(server, "CLUSTER INFO");
    bool ready = info && info->str && strstr(info->str, "cluster_state:ok");
    freeReplyObject(info);
    return ready;
}

static tl_lock *locks[LOCKS];

static void take_all(tl_client *client, lock_events *events) {
    for (int i = 0; i < LOCKS; i++) {
        char key[32];
        (void)snprintf(key, sizeof key, "cluster:%d", i);
        const tl_lock_options options = TL_LOCK_OPTIONS(.ttl_ms = LIFE_MS,
                                                        .on_event = lock_events_add, .ctx = events);
        locks[i] = tl_lock_new(client, key, strlen(key), &options, &said);
        assert_non_null(locks[i]);
        ASSERT_RESULT(tl_lock_acquire(locks[i], 0, &said), TL_OK);
    }
}

static int tear_down(void **state) {
    for (int i = 0; i < LOCKS; i++)
        tl_lock_free(locks[i]);
    memset(locks, 0, sizeof locks);
    return arena_tear_down(state);
}

TESTS_WITH(arena_set_up, tear_down);

/* Each once more, or more than once. */
static void await_renewals(int rounds) {
    const int before = executed("pexpire");
    WAIT_FOR(rounds * ROUND_MS, executed("pexpire") >= before + rounds * LOCKS);
}

/* Each has been renewed, though perhaps late on a busy machine. */
static void assert_all_are_kept(lock_events *events) {
    await_renewals(1);
    assert_int_equal(lock_events_count_of(events, TL_LOST), 0);
    for (int i = 0; i < LOCKS; i++)
        ASSERT_GOES_ON(locks[i]);
}

TEST(locks_of_many_slots_are_all_kept_and_asked_for_together_once) {
    lock_events *events = make_events();
    take_all(client_direct(), events);
    WAIT_FOR(ROUND_MS, refused() > 0);
    assert_all_are_kept(events);
    long long first = refused();
    assert_in_range(first, 1, LOCKS / 5); /* those that were in flight when the first was refused */
    await_renewals(1);
    assert_int_equal(refused(), first);
}

TEST(nor_are_they_over_a_new_connection_to_that_server) {
    lock_events *events = make_events();
    take_all(client_direct(), events);
    WAIT_FOR(ROUND_MS, refused() > 0);
    await_renewals(1);
    long long before = refused(), made = connections();
    freeReplyObject(real_redis_command(server, "CLIENT KILL TYPE normal"));
    assert_all_are_kept(events);
    assert_true(connections() > made);
    assert_int_equal(refused(), before);
}

static void await_ready(void) {
    const clock_wait wait = clock_wait_begin(SOON_MS);
    while (!is_ready() && clock_wait_more(&wait)) {}
}

/* It may have become another, that can do it. */
TEST(another_run_of_the_server_is_tried_anew) {
    lock_events *events = make_events();
    tl_client *client = client_direct();
    take_all(client, events);
    WAIT_FOR(ROUND_MS, refused() > 0);
    for (int i = 0; i < LOCKS; i++)
        tl_lock_free(locks[i]);
    memset(locks, 0, sizeof locks);
    real_redis_restart(server);
    await_ready();
    assert_int_equal(refused(), 0);
    take_all(client, events);
    WAIT_FOR(ROUND_MS, refused() > 0);
}

int main(void) {
    real_server_need(REAL_SEVEN);
    const real_redis_options node = {.cluster = true};
    server = real_redis_start(&node);
    real_redis_give_slots(server, 0, 16383);
    await_ready();
    return tests_run();
}
