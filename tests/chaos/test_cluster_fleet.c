/*
 * Locks on a Redis Cluster, found from its URL: whole slots and open ones, masters that are killed and replaced.
 *
 * timeout: 180
 */

/*
 * Faults and outcomes (tests/README.md says what is asserted of each):
 * - a slot moved under a holder and a waiter: both continue.
 * - a slot open for three lifetimes with its keys at two nodes: no held lock is lost, others are acquired one after the
 *   other; counted.
 * - a slot that is moved while a lock rests, or before it is to rest: it rests until its end.
 * - a master replaced by its replica twice: counted; killed with `quiet_ms`: counted; stopped: LOST by the deadline.
 * - a node announces another port, and its own again: its locks are held.
 * - a slot without a node; a server that is no cluster node: UNAVAILABLE "CLUSTERDOWN", "is no node of a cluster".
 */
#include "arena.h"

#include "contest.h"
#include "real_fleet.h"

#define PASSWORD "of-the-cluster"
#define LIFE_MS clock_patient_ms(1500)
#define KEEP_MS clock_patient_ms(10000) /* a lifetime that must last, on a busy machine */
#define HELD "{slot}held"               /* in the slot of */
#define WANTED "{slot}wanted"
#define SLOT_KEY WANTED
#define MOVE_MS 60000 /* until everybody knows who has a slot, on a busy machine */
#define REST_MS 1500  /* a rest that is waited out */
#define CROWD 6
#define CLIENTS 3

static real_fleet *fleet;

/* ---- the set-up ------------------------------------------------------------------------------ */

static int set_up(void **state) {
    real_server_need(REAL_MOVES_KEYS);
    (void)state;
    if (!fleet)
        fleet = real_fleet_start_cluster(
            &(real_fleet_options){.password = PASSWORD, .config = "save \"\""});
    return 0;
}

static int tear_down(void **state) {
    contest_abandon();
    int failed = locks_clean_up(state);
    real_fleet_heal(fleet);
    return failed;
}

TESTS_WITH(set_up, tear_down);

static tl_client *client_of_cluster(void) {
    return make_client_with(TL_CLIENT_OPTIONS(.url = real_fleet_url(fleet), .attempt_ms = SOON_MS,
                                              .connect_ms = MOVE_MS));
}

/* With an end to what a stopped node is asked for. */
static tl_client *client_in_doubt(void) {
    return make_client_with(
        TL_CLIENT_OPTIONS(.url = real_fleet_url(fleet), .attempt_ms = 3000, .connect_ms = MOVE_MS));
}

static real_redis *owner(const char *key) {
    real_node *node = NULL;
    WAIT_FOR(MOVE_MS, (node = real_fleet_owner(fleet, key)) != NULL);
    return node->redis;
}

static real_node *another_master(const char *key) {
    const real_node *mine = real_fleet_owner(fleet, key);
    for (int i = 0; i < real_fleet_servers(fleet); i++) {
        real_node *node = real_fleet_server(fleet, i);
        if (node != mine && real_fleet_replica(fleet, node))
            return node;
    }
    fail_msg("there is no other master");
    return NULL;
}

static void let_pass(int64_t ms) {
    const clock_wait wait = clock_wait_begin(ms);
    while (clock_wait_more(&wait)) {}
}

static tl_lock *renewed(tl_client *client, const char *key, lock_events *events) {
    return make_lock_with(
        client, key,
        TL_LOCK_OPTIONS(.ttl_ms = KEEP_MS, .on_event = lock_events_add, .ctx = events));
}

static tl_lock *by_hand_at(tl_client *client, const char *key, int64_t life_ms) {
    return make_lock_with(client, key, TL_LOCK_OPTIONS(.ttl_ms = life_ms, .manual_renew = true));
}

/* In the background, so many more. */
static void await_renewals(tl_client *client, uint64_t more) {
    const uint64_t before = renewals_of(client);
    WAIT_FOR(KEEP_MS + SOON_MS, renewals_of(client) >= before + more);
}

/* ---- well ------------------------------------------------------------------------------------ */

#define MANY 60

static void count_found(const void *key, size_t n, const tl_lock_info *info, void *ctx) {
    (void)info;
    *(int *)ctx += n > 5 && memcmp(key, "many:", 5) == 0;
}

TEST(locks_of_many_slots_are_kept_found_and_released) {
    lock_events *events = make_events();
    tl_client *client = client_of_cluster();
    tl_lock *locks[MANY];
    for (int i = 0; i < MANY; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "many:%d", i);
        locks[i] = renewed(client, key, events);
        ASSERT_RESULT(tl_lock_acquire(locks[i], 0, &said), TL_OK);
    }
    await_renewals(client, 2 * MANY);
    uint64_t cursor = 0;
    int found = 0;
    do
        ASSERT_RESULT(tl_client_scan(client, "many:*", &cursor, count_found, &found, &said), TL_OK);
    while (cursor != 0);
    assert_int_equal(found, MANY);
    for (int i = 0; i < MANY; i++) {
        ASSERT_GOES_ON(locks[i]);
        ASSERT_RESULT(tl_lock_release(locks[i], &said), TL_OK);
    }
    assert_int_equal(lock_events_count_of(events, TL_LOST), 0);
}

static long long calls_of(const real_node *node, const char *command) {
    char words[64];
    redisReply *r = real_redis_command(node->redis, "INFO commandstats");
    (void)snprintf(words, sizeof words, "cmdstat_%s:calls=", command);
    const char *at = r && r->str ? strstr(r->str, words) : NULL;
    long long calls = at ? atoll(at + strlen(words)) : 0;
    freeReplyObject(r);
    return calls;
}

static long long scripts_run(const real_node *node) {
    return calls_of(node, "evalsha") + calls_of(node, "eval");
}

/* Half of them in one slot, the others each in its own, at the same and at other nodes. */
TEST(renewals_of_one_slot_are_joined_and_a_bad_key_fails_alone) {
    lock_events *events = make_events();
    tl_client *client = client_of_cluster();
    tl_lock *locks[MANY], *bad = make_lock(client, "{slot}bad", LIFE_MS);
    for (int i = 0; i < MANY; i++) {
        char key[24];
        (void)snprintf(key, sizeof key, i % 2 ? "{slot}many:%d" : "many:%d", i);
        locks[i] = renewed(client, key, events);
        ASSERT_RESULT(tl_lock_acquire(locks[i], 0, &said), TL_OK);
    }
    await_renewals(client, MANY);
    const real_node *node = real_fleet_owner(fleet, SLOT_KEY);
    long long scripts = scripts_run(node), renewed = calls_of(node, "pexpire");
    await_renewals(client, MANY);
    scripts = scripts_run(node) - scripts;
    renewed = calls_of(node, "pexpire") - renewed;
    print_message("%lld scripts for %lld renewals of %d locks of a slot and %d others\n", scripts,
                  renewed, MANY / 2, MANY / 2);
    assert_in_range(scripts, 1, renewed * 7 / 8); /* each its own, if they weren't joined */
    ASSERT_RESULT(tl_lock_acquire(bad, 0, &said), TL_OK);
    freeReplyObject(real_redis_command(node->redis, "DEL {slot}bad {slot}bad:tidelock"));
    freeReplyObject(real_redis_command(node->redis, "HSET {slot}bad f v"));
    WAIT_FOR(2 * LIFE_MS + SOON_MS, tl_lock_state(bad) == TL_LOST);
    for (int i = 0; i < MANY; i++)
        ASSERT_GOES_ON(locks[i]);
    assert_int_equal(lock_events_count_of(events, TL_LOST), 0);
}

TEST(a_waiter_is_told_by_the_node_of_its_key) {
    tl_lock *holder = by_hand(client_of_cluster(), AGES_MS);
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    acquiring *waiter = acquiring_begin(by_hand(client_of_cluster(), AGES_MS), TL_FOREVER);
    WAIT_FOR(SOON_MS, real_redis_int(owner(KEY), "ZCARD tidelock:{" KEY "}:line") == 1);
    ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_OK);
    assert_true(tl_lock_fence(waiter->lock) > tl_lock_fence(holder));
}

/* ---- a slot is moved ------------------------------------------------------------------------- */

static bool hears_of_lines(real_redis *node) {
    redisReply *channels = real_redis_command(node, "PUBSUB CHANNELS tidelock:inbox:*");
    bool any = channels && channels->elements > 0;
    freeReplyObject(channels);
    return any;
}

TEST(a_holder_and_a_waiter_follow_a_slot_that_has_moved) {
    lock_events *events = make_events();
    tl_client *client = client_of_cluster();
    tl_lock *holder = renewed(client, SLOT_KEY, events);
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    tl_lock *next = make_lock(client_of_cluster(), SLOT_KEY, KEEP_MS);
    acquiring *waiter = acquiring_begin(next, TL_FOREVER);
    WAIT_FOR(SOON_MS, real_redis_int(owner(SLOT_KEY), "ZCARD " SLOT_KEY ":tidelock:line") == 1);
    real_fleet_open_slot(fleet, SLOT_KEY, another_master(SLOT_KEY));
    WAIT_FOR(SOON_MS, !hears_of_lines(another_master(SLOT_KEY)->redis)); /* of former clients */
    real_fleet_close_slot(fleet);
    await_renewals(client, 1);
    WAIT_FOR(2 * SOON_MS, hears_of_lines(owner(SLOT_KEY)));
    ASSERT_GOES_ON(holder);
    assert_false(atomic_load(&waiter->done));
    ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(waiter, MOVE_MS), TL_OK);
    assert_true(tl_lock_fence(next) > tl_lock_fence(holder));
    assert_int_equal(lock_events_count_of(events, TL_LOST), 0);
}

static tl_lock *contenders[CROWD];

static void begin_contest(int64_t life_ms, int64_t quiet_ms) {
    tl_client *clients[CLIENTS];
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = make_client_with(
            TL_CLIENT_OPTIONS(.url = real_fleet_url(fleet), .attempt_ms = clock_patient_ms(5000),
                              .connect_ms = MOVE_MS, .quiet_ms = quiet_ms));
    for (int i = 0; i < CROWD; i++)
        contenders[i] = make_lock(clients[i % CLIENTS], WANTED, life_ms);
    contest_start(contenders, CROWD, SOON_MS, 3);
}

static void await_counted(int more) {
    int before = contest_counted();
    WAIT_FOR(MOVE_MS, contest_counted() >= before + more);
}

/* Its keys are at two nodes: no script of two keys is executed anywhere. */
TEST(a_slot_that_stays_open_costs_no_held_lock_and_others_go_on) {
    lock_events *events = make_events();
    tl_client *client = client_of_cluster();
    tl_lock *held = renewed(client, HELD, events), *new = make_lock(client, "{slot}new", KEEP_MS);
    ASSERT_RESULT(tl_lock_acquire(held, 0, &said), TL_OK);
    uint64_t fence = tl_lock_fence(held);
    begin_contest(LIFE_MS, 0);
    await_counted(20);
    real_fleet_open_slot(fleet, SLOT_KEY, another_master(SLOT_KEY));
    real_fleet_move_key(fleet, HELD);
    const uint64_t before = renewals_of(client);
    for (clock_wait wait = clock_wait_begin(KEEP_MS + SOON_MS); renewals_of(client) == before;) {
        real_fleet_move_key(fleet, WANTED ":tidelock"); /* wherever it has just been written */
        assert_true(clock_wait_more(&wait));
    }
    await_counted(5);
    ASSERT_RESULT(tl_lock_acquire(new, SOON_MS, &said), TL_OK);
    assert_true(tl_lock_fence(new) > fence);
    ASSERT_RESULT(tl_lock_extend(new, 2 * KEEP_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(new, &said), TL_OK);
    ASSERT_GOES_ON(held);
    real_fleet_close_slot(fleet);
    await_counted(20);
    contest_end();
    ASSERT_GOES_ON(held);
    ASSERT_RESULT(tl_lock_release(held, &said), TL_OK);
    assert_int_equal(lock_events_count_of(events, TL_LOST), 0);
}

/* It goes with its key, and so does a waiter. */
TEST(a_rest_goes_with_its_slot) {
    tl_lock *lock = by_hand_at(client_of_cluster(), SLOT_KEY, AGES_MS),
            *other = by_hand_at(client_of_cluster(), SLOT_KEY, AGES_MS);
    const long long began_us = server_us(owner(SLOT_KEY));
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_rest(lock, HOUR_MS, &said), TL_OK);
    real_fleet_open_slot(fleet, SLOT_KEY, another_master(SLOT_KEY));
    ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_EBUSY);
    real_fleet_move_key(fleet, SLOT_KEY); /* S stays behind */
    ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_EBUSY);
    real_fleet_close_slot(fleet);
    ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_EBUSY);
    ASSERT_SAID("it rests");
    assert_rests_for(owner(SLOT_KEY), SLOT_KEY, began_us, HOUR_MS);
}

/* Let it rest, acquired before the slot is moved, while its key is at another node than what S says of it: the key alone says that
 * it rests. False: the machine was so slow that it had expired. */
static bool rests_in_open_slot(const char *key, int64_t life_ms, int64_t ms, long long *ret_began) {
    tl_lock *lock = by_hand_at(client_of_cluster(), key, life_ms);
    *ret_began = server_us(owner(key));
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    real_fleet_open_slot(fleet, key, another_master(key));
    real_fleet_move_key(fleet, key);
    tl_err code = tl_lock_rest(lock, ms, &said);
    assert_int_equal(tl_lock_state(lock), TL_FREE);
    if (code != TL_EEXPIRED)
        ASSERT_RESULT(code, TL_OK);
    return code == TL_OK;
}

TEST(a_lock_rests_while_its_slot_is_moved) {
    long long began_us;
    tl_lock *other = by_hand_at(client_of_cluster(), HELD, AGES_MS);
    assert_true(rests_in_open_slot(HELD, AGES_MS, HOUR_MS, &began_us));
    ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_EBUSY);
    real_fleet_close_slot(fleet);
    assert_rests_for(owner(HELD), HELD, began_us, HOUR_MS);
    ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_EBUSY);
    ASSERT_SAID("it rests");
}

/* S binds others for as long as the holder has acquired it for. */
TEST(a_waiter_acquires_a_lock_that_has_rested_while_its_slot_is_moved) {
    const int64_t rest_ms = LIFE_MS + 1500;
    tl_lock *other = by_hand_at(client_of_cluster(), HELD, AGES_MS);
    long long began_us;
    for (int i = 0; !rests_in_open_slot(HELD, LIFE_MS, rest_ms, &began_us); i++) {
        assert_true(i < 20);
        real_fleet_close_slot(fleet);
    }
    ASSERT_RESULT(tl_lock_acquire(other, MOVE_MS, &said), TL_OK);
    assert_true(server_us(owner(HELD)) >= began_us + rest_ms * 1000);
    real_fleet_close_slot(fleet);
}

/* ---- a node is called otherwise -------------------------------------------------------------- */

/* Does `asked` know the node by its own port? */
static bool knows_at_its_port(const real_node *asked, const real_node *node) {
    char words[80];
    redisReply *nodes = real_redis_command(asked->redis, "CLUSTER NODES");
    (void)snprintf(words, sizeof words, "%s 127.0.0.1:%d@", node->id, node->port);
    bool is = nodes && nodes->str && strstr(nodes->str, words);
    freeReplyObject(nodes);
    return is;
}

static void announce(const real_node *node, const char *setting, int port) {
    redisReply *reply = real_redis_command(node->redis, "CONFIG SET %s %d", setting, port);
    assert_true(reply && reply->type == REDIS_REPLY_STATUS);
    freeReplyObject(reply);
}

/* It leads there through a proxy. */
TEST(a_lock_is_kept_when_its_node_announces_another_port_and_its_own_again) {
    NEEDS_SERVER(REAL_SEVEN);
    static const char setting[] = "cluster-announce-port";
    lock_events *events = make_events();
    tl_client *client = client_of_cluster();
    tl_lock *held = renewed(client, HELD, events);
    ASSERT_RESULT(tl_lock_acquire(held, 0, &said), TL_OK);
    const real_node *node = real_fleet_owner(fleet, HELD);
    proxy *other = proxy_start(node->port);
    announce(node, setting, proxy_port(other));
    tl_lock *late = NULL;
    for (clock_wait wait = clock_wait_begin(MOVE_MS); proxy_passed(other, PROXY_REPLIES) == 0;) {
        late = make_lock(client_of_cluster(), "{slot}late", KEEP_MS); /* which asks for the nodes */
        ASSERT_RESULT(tl_lock_acquire(late, SOON_MS, &said), TL_OK);
        ASSERT_RESULT(tl_lock_release(late, &said), TL_OK);
        assert_true(clock_wait_more(&wait));
    }
    await_renewals(client, 1);
    ASSERT_GOES_ON(held);
    announce(node, setting, 0);
    for (int i = 0; i < real_fleet_servers(fleet); i++)
        WAIT_FOR(MOVE_MS, knows_at_its_port(real_fleet_server(fleet, i), node));
    await_renewals(client, 2);
    ASSERT_GOES_ON(held);
    ASSERT_RESULT(tl_lock_release(held, &said), TL_OK);
    assert_int_equal(lock_events_count_of(events, TL_LOST), 0);
    proxy_free(other);
}

/* ---- masters are replaced -------------------------------------------------------------------- */

static void print_outage(const char *what, int64_t since_ms) {
    print_message("%s: %lld ms without service\n", what, (long long)(clock_ms() - since_ms));
}

TEST(two_failovers_that_lose_nothing_keep_the_count) {
    NEEDS_SERVER(REAL_PAUSE_WRITES); /* which a failover does; before, it may take ten seconds */
    lock_events *events = make_events();
    tl_lock *held = make_lock_with(
        client_of_cluster(), HELD,
        TL_LOCK_OPTIONS(.ttl_ms = 2 * KEEP_MS, .on_event = lock_events_add, .ctx = events));
    ASSERT_RESULT(tl_lock_acquire(held, 0, &said), TL_OK);
    begin_contest(LIFE_MS, 0);
    for (int i = 0; i < 2; i++) {
        await_counted(20);
        real_node *replica = NULL;
        WAIT_FOR(MOVE_MS, (replica = real_fleet_replica(fleet, real_fleet_owner(fleet, HELD))));
        int64_t start_ms = clock_ms();
        real_fleet_promote(fleet, replica);
        print_message("CLUSTER FAILOVER took %lld ms\n", (long long)(clock_ms() - start_ms));
        start_ms = clock_ms();
        await_counted(1);
        print_outage("after it", start_ms);
    }
    await_counted(20);
    contest_end();
    ASSERT_GOES_ON(held);
    assert_int_equal(lock_events_count_of(events, TL_LOST), 0);
}

/* What was not replicated is lost: nothing is given before it is over. */
TEST(a_master_that_is_killed_is_followed_and_with_quiet_ms_nobody_holds_twice) {
    const int64_t life_ms = clock_patient_ms(800);
    begin_contest(life_ms, life_ms + life_ms / 2);
    await_counted(20);
    real_node *former = real_fleet_owner(fleet, WANTED);
    int64_t start_ms = clock_ms();
    real_redis_kill(former->redis);
    (void)real_fleet_await_owner(fleet, WANTED, former);
    await_counted(20);
    print_outage("a master was killed", start_ms);
    contest_end();
}

TEST(a_holder_whose_lock_did_not_come_along_is_told_before_its_deadline) {
    lock_events *events = make_events();
    tl_lock *lock = make_lock_with(
        client_in_doubt(), HELD,
        TL_LOCK_OPTIONS(.ttl_ms = LIFE_MS, .on_event = lock_events_add, .ctx = events));
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    real_redis_freeze(real_fleet_owner(fleet, HELD)->redis);
    lock_event lost = lock_events_await(events, TL_LOST, MOVE_MS);
    assert_true(lost.why == TL_LOST_EXPIRED || lost.why == TL_LOST_GONE);
    assert_int_equal(tl_lock_remaining_ms(lock), 0);
}

#define LONG_MS 40000 /* a renewal of such a lock is waited for longer than a failover takes */

static tl_client *patient_client(void) {
    return make_client_with(TL_CLIENT_OPTIONS(.url = real_fleet_url(fleet), .attempt_ms = LONG_MS,
                                              .connect_ms = MOVE_MS));
}

/* Until the former holder is told: what it has been answered late moves nothing. */
static void assert_loses(tl_lock *held, lock_events *events) {
    int64_t remaining_ms = tl_lock_remaining_ms(held);
    while (lock_events_count_of(events, TL_LOST) == 0) {
        int64_t ms = tl_lock_remaining_ms(held);
        if (ms > remaining_ms)
            fail_msg("two hold it: what the former master has answered counts");
        remaining_ms = ms;
    }
    assert_int_equal(tl_lock_remaining_ms(held), 0);
}

/* Does every node tell of every master's replica? It isn't told of before it has got something. */
static bool all_replicas_are_told_of(void) {
    bool all = true;
    for (int i = 0; i < real_fleet_servers(fleet); i++) {
        redisReply *slots = real_redis_command(real_fleet_server(fleet, i)->redis, "CLUSTER SLOTS");
        for (size_t k = 0; slots && k < slots->elements; k++)
            all = all && slots->element[k]->elements > 3;
        all = all && slots && slots->elements > 0;
        freeReplyObject(slots);
    }
    return all;
}

/* A renewal and a take lie in its sockets when it is stopped. It wakes after its replica has been promoted, where others
 * have these locks by now, and carries both out before it hears of that. Each is a client's that has no other reason to
 * ask who is the master. */
TEST(what_a_former_master_answers_when_it_wakes_does_not_count) {
    WAIT_FOR(MOVE_MS, all_replicas_are_told_of());
    lock_events *events = make_events();
    tl_client *client = patient_client();
    tl_lock *first = make_lock(client, "{slot}first", LONG_MS);
    tl_lock *held = make_lock_with(
        client, HELD,
        TL_LOCK_OPTIONS(.ttl_ms = LONG_MS, .on_event = lock_events_add, .ctx = events));
    tl_lock *late = make_lock(patient_client(), WANTED, LONG_MS);
    tl_lock *others[] = {make_lock(client_of_cluster(), HELD, LONG_MS),
                         make_lock(client_of_cluster(), WANTED, LONG_MS)};
    ASSERT_RESULT(tl_lock_acquire(late, SOON_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(late, &said), TL_OK);
    ASSERT_RESULT(tl_lock_acquire(first, SOON_MS, &said), TL_OK);
    WAIT_FOR(SOON_MS,
             real_redis_int(owner(HELD), "EXISTS {slot}first:tidelock") == 1); /* renewed */
    real_node *former = real_fleet_owner(fleet, HELD);
    long long keeps = scripts_run(former);
    ASSERT_RESULT(tl_lock_acquire(held, SOON_MS, &said), TL_OK);
    freeReplyObject(real_redis_command(former->redis, "WAIT 1 5000"));
    long long takes = calls_of(former, "set");
    real_redis_freeze(former->redis);
    acquiring *taker = acquiring_begin(late, LONG_MS);
    (void)real_fleet_await_owner(fleet, HELD, former);
    freeReplyObject(real_redis_command(owner(HELD), "DEL " HELD " " HELD ":tidelock"));
    for (int i = 0; i < 2; i++)
        ASSERT_RESULT(tl_lock_acquire(others[i], MOVE_MS, &said), TL_OK);
    real_redis_thaw(former->redis);
    assert_loses(held, events);
    WAIT_FOR(SOON_MS, scripts_run(former) > keeps);
    WAIT_FOR(SOON_MS, calls_of(former, "set") > takes);
    let_pass(500);
    assert_false(atomic_load(&taker->done));
    for (int i = 0; i < 2; i++)
        ASSERT_RESULT(tl_lock_release(others[i], &said), TL_OK);
    ASSERT_RESULT(acquiring_end(taker, MOVE_MS), TL_OK);
    assert_true(tl_lock_fence(late) > tl_lock_fence(others[1]));
}

/* Its replica can't tell that it is a master still: the other masters do. */
TEST(a_replica_that_is_down_costs_no_lock_and_nobody_else_no_promise) {
    WAIT_FOR(MOVE_MS, all_replicas_are_told_of());
    lock_events *events = make_events();
    tl_client *client = make_client_with(TL_CLIENT_OPTIONS(.url = real_fleet_url(fleet),
                                                           .attempt_ms = 10000,
                                                           .connect_ms = MOVE_MS));
    tl_lock *held = renewed(client, HELD, events), *by_call = make_lock(client, WANTED, LONG_MS);
    ASSERT_RESULT(tl_lock_acquire(held, SOON_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_acquire(by_call, SOON_MS, &said), TL_OK);
    real_node *mine = real_fleet_owner(fleet, HELD);
    const real_node *replica = real_fleet_replica(fleet, mine);
    real_redis_freeze(replica->redis);
    ASSERT_RESULT(tl_lock_extend(by_call, LONG_MS, &said), TL_OK);
    await_renewals(client, 2);
    ASSERT_GOES_ON(held);
    assert_int_equal(lock_events_count_of(events, TL_LOST), 0);
    tl_lock *hasty = make_lock(client_in_doubt(), "{slot}hasty", LONG_MS);
    WAIT_FOR(SOON_MS, tl_lock_acquire(hasty, 0, &said) == TL_OK);
    for (int i = 0; i < real_fleet_servers(fleet); i++)
        if (real_fleet_server(fleet, i) != mine && real_fleet_server(fleet, i) != replica)
            real_redis_freeze(real_fleet_server(fleet, i)->redis);
    ASSERT_RESULT(tl_lock_extend(hasty, LONG_MS, &said), TL_EUNCERTAIN);
    ASSERT_SAID("neither its replicas nor enough of the other masters say");
    (void)lock_events_await(events, TL_LOST, MOVE_MS);
}

/* ---- what can't be had, and what is said ---------------------------------------------------------------------------- */

static tl_err ping(const char *url) {
    tl_client *client = make_client_with(
        TL_CLIENT_OPTIONS(.url = url, .attempt_ms = SOON_MS, .connect_ms = SOON_MS));
    return tl_client_ping(client, &said);
}

TEST(what_a_cluster_has_no_place_for_is_refused) {
    tl_client *client = client_of_cluster();
    const tl_lock_options options = TL_LOCK_OPTIONS(.ttl_ms = TTL_MS);
    assert_null(tl_lock_new(client, "a}b", 3, &options, &said));
    ASSERT_SAID("it has a '}' and no {tag}");
}

/* This one has one alone. */
TEST(a_database_that_the_cluster_lacks_is_named) {
    char url[600];
    (void)snprintf(url, sizeof url, "%s/7", real_fleet_url(fleet));
    ASSERT_RESULT(ping(url), TL_EINVALID);
    ASSERT_SAID("database 7 cannot be selected");
}

TEST(what_is_no_cluster_says_so) {
    char url[96];
    real_redis *alone = real_redis_start(NULL);
    (void)snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d", real_redis_port(alone));
    ASSERT_RESULT(ping(url), TL_ESERVER);
    ASSERT_SAID("is no node of a cluster: give its URL as redis://");
}

TEST(a_slot_that_nobody_has_is_told) {
    char url[96];
    real_redis *half = real_redis_start(
        &(real_redis_options){.config = "cluster-enabled yes\ncluster-require-full-coverage no"});
    real_redis_give_slots(half, 0, 8191);
    (void)snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d", real_redis_port(half));
    tl_client *client = make_client_with(
        TL_CLIENT_OPTIONS(.url = url, .attempt_ms = 3000, .connect_ms = SOON_MS));
    WAIT_FOR(SOON_MS, tl_client_ping(client, &said) == TL_OK);
    tl_lock *there = make_lock(client, "{b}", TTL_MS), *nowhere = make_lock(client, "{a}", TTL_MS);
    WAIT_FOR(SOON_MS, tl_lock_acquire(there, 0, &said) == TL_OK);
    WAIT_FOR(SOON_MS, tl_lock_acquire(nowhere, 0, &said) == TL_EUNAVAILABLE);
    ASSERT_SAID("CLUSTERDOWN");
}
