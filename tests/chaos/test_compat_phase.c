/*
 * Clients by phase when their register can't be reached, goes back or goes away; registration; a hold
 * across a change of phase.
 */

/*
 * Faults and outcomes (tests/README.md says what is asserted of each):
 * - the register of a phase cut off, set back, removed, forbidden: nothing is acquired after the lease; DENIED "older
 *   epoch", "gone".
 */
#include "arena.h"

TESTS_WITH(arena_set_up, arena_tear_down);

#define LEASE_MS 1000
#define PHASE "tidelock:phase:{default}"

/* M and L are the least, for short lifetimes. */
static tl_client *client_with_limits(const char *url, int64_t attempt_ms, int64_t connect_ms) {
    return make_client_with(
        TL_CLIENT_OPTIONS(.url = url, .protocol = TL_AUTO, .attempt_ms = attempt_ms,
                          .connect_ms = connect_ms,
                          .legacy = &TL_LEGACY_OPTIONS(.clock_skew_max_ms = 1,
                                                       .legacy_delay_max_ms = 1,
                                                       .phase_lease_ms = LEASE_MS)));
}

static tl_client *client_by_phase(const char *url) {
    return client_with_limits(url, SOON_MS, SOON_MS);
}

static void set_phase_for(int phase, int epoch, int lease_ms) {
    freeReplyObject(
        real_redis_command(server, "HMSET " PHASE " phase %d epoch %d lease_ms %d since 1 keys *",
                           phase, epoch, lease_ms));
}

static void set_phase(int phase, int epoch) {
    set_phase_for(phase, epoch, LEASE_MS);
}

static bool holds_token(const tl_lock *lock) {
    redisReply *reply = real_redis_command(server, "GET " KEY);
    bool token = reply->type == REDIS_REPLY_STRING && strcmp(reply->str, tl_lock_token(lock)) == 0;
    freeReplyObject(reply);
    return token;
}

/* The only client's record says that it has been told of this epoch. */
static bool has_confirmed(int epoch) {
    redisReply *reply = real_redis_command(server, "HVALS " PHASE ":clients");
    bool has = reply->elements == 1 && atoi(reply->element[0]->str) == epoch;
    freeReplyObject(reply);
    return has;
}

static tl_lock *lock_of(tl_client *client) {
    return make_lock_with(client, KEY, TL_LOCK_OPTIONS(.ttl_ms = TTL_MS));
}

static void take_and_give_back(tl_lock *lock) {
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    release_hastily(lock, KEY);
}

/* Until its lease is over for certain. */
static void outwait_a_lease(void) {
    const clock_wait wait = clock_wait_begin(LEASE_MS + 100);
    while (clock_wait_more(&wait)) {}
}

TEST(one_that_was_cut_off_acts_by_what_it_reads_when_it_returns) {
    set_phase(1, 1);
    tl_lock *lock = lock_of(client_with_limits(proxy_url(gate), ATTEMPT_MS, CONNECT_MS));
    take_and_give_back(lock);
    proxy_break(gate, PROXY_REQUESTS, 0, PROXY_MUTE, PROXY_ALL);
    outwait_a_lease();
    set_phase(3, 3); /* two steps: nothing that it knows holds any more */
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_EUNAVAILABLE);
    proxy_heal(gate);
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    assert_true(holds_token(lock));
    release_hastily(lock, KEY);
}

TEST(a_lease_is_kept_fresh_and_a_change_is_confirmed) {
    set_phase(0, 1);
    tl_lock *lock = lock_of(client_by_phase(real_redis_url(server)));
    take_and_give_back(lock);
    assert_true(has_confirmed(1));
    for (int phase = 1; phase <= 3; phase++) {
        set_phase(phase, phase + 1);
        WAIT_FOR(SOON_MS, has_confirmed(phase + 1)); /* though nobody locks */
    }
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    assert_true(holds_token(lock));
}

TEST(under_a_lease_a_pair_is_two_commands) {
    set_phase_for(1, 1, 600 * LEASE_MS); /* it is not made anew while these are on their way */
    tl_client *client = make_client_with(TL_CLIENT_OPTIONS(.url = real_redis_url(server),
                                                           .protocol = TL_AUTO,
                                                           .attempt_ms = SOON_MS));
    tl_lock *lock = lock_of(client);
    take_and_give_back(lock);
    forget_executed();
    for (int i = 0; i < 20; i++)
        take_and_give_back(lock);
    assert_false(has_executed("hset", 1)); /* which only reading the register does */
    assert_true(has_executed("evalsha", 40));
    assert_false(
        has_executed("evalsha", 61)); /* one a pair at most, by a keeper that begins to watch K */
}

TEST(a_held_stamp_becomes_a_token_when_the_fleet_drains) {
    set_phase(1, 1);
    lock_events *events = make_events();
    tl_client *client = client_by_phase(real_redis_url(server));
    tl_lock *lock = make_lock_with(client, KEY,
                                   TL_LOCK_OPTIONS(.ttl_ms = clock_patient_ms(12000),
                                                   .on_event = lock_events_add, .ctx = events));
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    uint64_t fence = tl_lock_fence(lock);
    assert_false(holds_token(lock));
    set_phase(2, 2);
    WAIT_FOR(2 * SOON_MS, holds_token(lock)); /* from the next renewal on */
    WAIT_FOR(SOON_MS, tl_lock_remaining_ms(lock) > 0 && tl_lock_state(lock) == TL_HELD);
    assert_belief_is_true(lock);
    assert_int_equal(tl_lock_fence(lock), fence);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    assert_false(key_exists());
}

TEST(a_register_that_goes_back_or_away_stops_who_knew_better) {
    set_phase(2, 5);
    tl_lock *lock = lock_of(client_by_phase(real_redis_url(server)));
    take_and_give_back(lock);
    set_phase(1, 4); /* as a failover that loses the last writes does it */
    outwait_a_lease();
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_EDENIED);
    assert_non_null(strstr(said.message, "older epoch"));
    assert_true(has_confirmed(5)); /* and not what it refuses */
    run("DEL " PHASE);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_EDENIED);
    assert_non_null(strstr(said.message, "gone"));
    assert_true(has_confirmed(5));
    set_phase(2, 6);
    take_and_give_back(lock);
}

TEST(who_closes_its_client_is_no_longer_waited_for) {
    set_phase(1, 1);
    tl_client *client = client_by_phase(real_redis_url(server));
    tl_lock *lock = lock_of(client);
    take_and_give_back(lock);
    assert_true(has_confirmed(1));
    drop_lock(lock);
    drop_client(client);
    assert_int_equal(real_redis_int(server, "EXISTS " PHASE ":clients"), 0);
}

TEST(who_closes_before_there_is_a_register_is_forgotten_too) {
    tl_client *client = client_by_phase(real_redis_url(server));
    tl_lock *lock = lock_of(client);
    take_and_give_back(lock);
    assert_true(has_confirmed(0));
    drop_lock(lock);
    drop_client(client);
    assert_int_equal(real_redis_int(server, "EXISTS " PHASE ":clients"), 0);
}

TEST(a_lock_that_is_freed_while_held_is_no_reason_to_stay) {
    tl_client *client = client_by_phase(real_redis_url(server));
    tl_lock *lock = lock_of(client);
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    drop_lock(lock);
    drop_client(client);
    assert_int_equal(real_redis_int(server, "EXISTS " PHASE ":clients"), 0);
}

/* It may still take effect, by a phase that must be waited for then. */
TEST(who_closes_with_a_take_in_doubt_is_waited_for) {
    set_phase(1, 1);
    tl_client *client = client_with_limits(proxy_url(gate), ATTEMPT_MS, CONNECT_MS);
    tl_lock *lock = lock_of(client);
    take_and_give_back(lock);
    set_phase(1, 2);
    WAIT_FOR(SOON_MS, has_confirmed(2)); /* by the connection that would take its leave, too */
    tl_err code = TL_OK;
    const clock_wait bound = clock_wait_begin(6 * SOON_MS);
    while (code != TL_EUNCERTAIN && clock_wait_more(&bound)) { /* a slow machine has to read */
        proxy_heal(gate);
        take_and_give_back(lock); /* nothing need be read before the next */
        proxy_break(gate, PROXY_REPLIES, 0, PROXY_MUTE, PROXY_ALL);
        code = tl_lock_acquire(lock, 0, &said);
    }
    ASSERT_RESULT(code, TL_EUNCERTAIN);
    drop_lock(lock);
    drop_client(client);
    proxy_heal(gate);
    WAIT_FOR(SOON_MS, real_redis_clients(server) == 0); /* all that was sent has arrived */
    assert_true(has_confirmed(2));
}

TEST(where_the_register_may_not_be_read_nothing_is_taken) {
    NEEDS_SERVER(REAL_CHANNEL_RULES);
    run("ACL SETUSER u on >p ~chaos:* ~tidelock:{chaos:* &* +@all");
    char url[160];
    (void)snprintf(url, sizeof url, "redis://u:p@127.0.0.1:%d", real_redis_port(server));
    tl_lock *lock = lock_of(client_by_phase(url));
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_EDENIED);
    assert_false(key_exists());
    run("ACL DELUSER u");
}

TEST(a_new_client_clears_away_records_that_are_over) {
    set_phase(1, 1);
    freeReplyObject(real_redis_command(server, "HMSET " PHASE ":clients dead %s odd %s",
                                       "1 1 1000 1700000000000000 0.1.0 host 1 x", "what is this"));
    tl_lock *lock = lock_of(client_by_phase(real_redis_url(server)));
    take_and_give_back(lock);
    assert_true(has_confirmed(1)); /* and is alone */
}

int main(void) {
    server = real_redis_start(NULL);
    int failed = tests_run();
    real_redis_free(server);
    return failed;
}
