/*
 * Locks on a cluster whose slots move with all of their keys at one moment: Valkey 9.0 (CLUSTER MIGRATESLOTS), Redis 8.4
 * (CLUSTER MIGRATION). CLUSTER_SERVER=PATH names such a server; without it the redis-server on the PATH is looked at.
 *
 * timeout: 240
 */

/*
 * Faults and outcomes (tests/README.md says what is asserted of each). "Handing over": the owner before keeps all writes waiting.
 * - a slot moves, or moves back and forth: held locks, rests, stamps and waiters go along; counted.
 * - a release, an acquire and a renewal that come while a slot is being handed over: they work afterwards.
 * - handing over comes to nothing, by its limit or by a cancel: the lock stays held, at the owner before; counted.
 * - the owner before is killed, or stopped and woken, while handing over, with `quiet_ms`: counted. The one after: a held lock is not lost; counted.
 * - the one after takes over after the limit, when the other has granted locks again, with `quiet_ms`: counted.
 */
#include "arena.h"

#include "contest.h"
#include "real_fleet.h"

#define PASSWORD "of-the-cluster"
#define LIFE_MS clock_patient_ms(1500)
#define KEEP_MS clock_patient_ms(15000) /* outlasts what is handed over, on a busy machine */
#define PAUSE_MS 3000                   /* the limit for handing over */
#define HELD "{slot}held"
#define WANTED "{slot}wanted"
#define MOVE_MS 60000
#define CROWD 6
#define CLIENTS 3

static real_fleet *fleet;

/* ---- the set-up ------------------------------------------------------------------------------ */

static bool has_databases(void) {
    const char *name = real_server_name();
    return strncmp(name, "Valkey ", 7) == 0 && atoi(name + 7) >= 9;
}

/* Each node is in another availability zone, and so it is said of a replica: Valkey 9.1. Others don't know the setting. */
static void announce_zones(void) {
    for (int i = 0; i < real_fleet_servers(fleet); i++)
        freeReplyObject(real_redis_command(real_fleet_server(fleet, i)->redis,
                                           "CONFIG SET availability-zone zone-%d", i));
}

static int set_up(void **state) {
    (void)state;
    if (!fleet)
        fleet = real_fleet_start_cluster(&(real_fleet_options){
            .password = PASSWORD,
            .gates = true,
            .down_ms = 3 * PAUSE_MS, /* no failover while handing over */
            .config = has_databases() ? "save \"\"\nenable-debug-command yes\n"
                                        "cluster-databases 4"
                                      : "save \"\"\nenable-debug-command yes"});
    real_fleet_set_longest_pause(fleet, PAUSE_MS);
    announce_zones();
    return 0;
}

static void hold_take_over(bool hold) {
    for (int i = 0; i < real_fleet_servers(fleet); i++)
        if (real_redis_is_running(real_fleet_server(fleet, i)->redis))
            real_fleet_hold_take_over(real_fleet_server(fleet, i), hold);
}

static int tear_down(void **state) {
    contest_abandon();
    hold_take_over(false);
    real_fleet_cancel_moves(fleet);
    int failed = locks_clean_up(state);
    real_fleet_heal(fleet);
    return failed;
}

TESTS_WITH(set_up, tear_down);

static tl_client *client_with(int64_t quiet_ms, int64_t attempt_ms) {
    return make_client_with(TL_CLIENT_OPTIONS(.url = real_fleet_url(fleet),
                                              .attempt_ms = attempt_ms, .connect_ms = MOVE_MS,
                                              .quiet_ms = quiet_ms));
}

static tl_client *client_of_cluster(void) {
    return client_with(0, SOON_MS);
}

static real_node *owner(const char *key) {
    real_node *node = NULL;
    WAIT_FOR(MOVE_MS, (node = real_fleet_owner(fleet, key)) != NULL);
    return node;
}

static real_node *another_master(const char *key) {
    const real_node *mine = owner(key);
    for (int i = 0; i < real_fleet_servers(fleet); i++) {
        real_node *node = real_fleet_server(fleet, i);
        if (node != mine && real_fleet_replica(fleet, node))
            return node;
    }
    fail_msg("there is no other master");
    return NULL;
}

static void move_slot(void) {
    real_node *to = another_master(WANTED);
    real_fleet_begin_move(fleet, WANTED, to);
    real_fleet_end_move(fleet, WANTED, to);
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

static void await_renewals(tl_client *client, uint64_t more) {
    const uint64_t before = renewals_of(client);
    WAIT_FOR(KEEP_MS + SOON_MS, renewals_of(client) >= before + more);
}

static bool queue_is(long long waiters) {
    return real_redis_int(owner(WANTED)->redis, "ZCARD " WANTED ":tidelock:line") == waiters;
}

/* From now on writes wait at the owner before, until let_take_over() or PAUSE_MS have passed. */
static real_node *begin_handing_over(void) {
    real_node *from = owner(WANTED), *to = another_master(WANTED);
    real_fleet_hold_take_over(to, true);
    real_fleet_begin_move(fleet, WANTED, to);
    WAIT_FOR(MOVE_MS, real_fleet_is_handing_over(from));
    return to;
}

static void let_take_over(real_node *to) {
    real_fleet_hold_take_over(to, false);
    real_fleet_end_move(fleet, WANTED, to);
}

/* ---- calls on a thread of their own ---------------------------------------------------------- */

typedef struct {
    tl_lock *lock;
    tl_err code;
    tl_error err;
    pthread_t thread;
    atomic_bool done;
} releasing;

static void *release(void *arg) {
    releasing *r = arg;
    r->code = tl_lock_release(r->lock, &r->err);
    atomic_store(&r->done, true);
    return NULL;
}

static void begin_release(releasing *r, tl_lock *lock) {
    *r = (releasing){.lock = lock};
    assert_int_equal(pthread_create(&r->thread, NULL, release, r), 0);
}

static tl_err end_release(releasing *r) {
    (void)pthread_join(r->thread, NULL);
    said = r->err;
    return r->code;
}

/* ---- it moves -------------------------------------------------------------------------------- */

/* The one that has the lock by now, of those that wait; NULL: none yet. */
static acquiring *next_of(acquiring **waiter, int count) {
    for (int i = 0; i < count; i++)
        if (waiter[i] && atomic_load(&waiter[i]->done)) {
            acquiring *next = waiter[i];
            waiter[i] = NULL;
            return next;
        }
    return NULL;
}

/* They listen at the owner before: so the first release afterwards calls them all, and they come in any order. */
TEST(a_holder_and_all_waiters_go_along) {
    lock_events *events = make_events();
    tl_client *client = client_of_cluster();
    tl_lock *holder = renewed(client, WANTED, events), *lock[CROWD];
    acquiring *waiter[CROWD];
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    for (int i = 0; i < CROWD; i++) {
        lock[i] = make_lock_with(client_of_cluster(), WANTED,
                                 TL_LOCK_OPTIONS(.ttl_ms = KEEP_MS, .fair = true));
        waiter[i] = acquiring_begin(lock[i], TL_FOREVER);
        WAIT_FOR(SOON_MS, queue_is(i + 1));
    }
    move_slot();
    await_renewals(client, 1);
    ASSERT_GOES_ON(holder);
    for (int i = 0; i < CROWD; i++)
        assert_false(atomic_load(&waiter[i]->done));
    uint64_t fence = tl_lock_fence(holder);
    ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
    for (int i = 0; i < CROWD; i++) {
        acquiring *next = NULL;
        WAIT_FOR(SOON_MS, (next = next_of(waiter, CROWD)) != NULL);
        ASSERT_RESULT(acquiring_end(next, SOON_MS), TL_OK);
        assert_true(tl_lock_fence(next->lock) > fence);
        fence = tl_lock_fence(next->lock);
        ASSERT_RESULT(tl_lock_release(next->lock, &said), TL_OK);
    }
    assert_int_equal(lock_events_count_of(events, TL_LOST), 0);
}

TEST(a_rest_goes_along) {
    tl_lock *lock = by_hand_at(client_of_cluster(), WANTED, AGES_MS),
            *other = by_hand_at(client_of_cluster(), WANTED, AGES_MS);
    const long long began_us = server_us(owner(WANTED)->redis);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_rest(lock, HOUR_MS, &said), TL_OK);
    move_slot();
    ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_EBUSY);
    ASSERT_SAID("it rests");
    assert_rests_for(owner(WANTED)->redis, WANTED, began_us, HOUR_MS);
}

#ifdef TL_COMPAT
TEST(a_stamp_goes_along) {
    const tl_legacy_options legacy = TL_LEGACY_OPTIONS(.clock_skew_max_ms = 100,
                                                       .legacy_ttl_min_ms = KEEP_MS);
    static const tl_protocol_id ids[] = {TL_BRIDGE, TL_TIMESTAMP};
    for (int i = 0; i < 2; i++) {
        lock_events *events = make_events();
        tl_client *client[2];
        for (int k = 0; k < 2; k++)
            client[k] = make_client_with(
                TL_CLIENT_OPTIONS(.url = real_fleet_url(fleet), .protocol = ids[i],
                                  .legacy = &legacy, .attempt_ms = SOON_MS, .connect_ms = MOVE_MS));
        tl_lock *lock = renewed(client[0], WANTED, events),
                *other = renewed(client[1], WANTED, events);
        ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
        move_slot();
        await_renewals(client[0], 1);
        ASSERT_GOES_ON(lock);
        ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_EBUSY);
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
        ASSERT_RESULT(tl_lock_acquire(other, MOVE_MS, &said), TL_OK);
        ASSERT_RESULT(tl_lock_release(other, &said), TL_OK);
        assert_int_equal(lock_events_count_of(events, TL_LOST), 0);
    }
}
#endif

static tl_lock *contenders[CROWD];

static void begin_contest_with(int64_t life_ms, int64_t quiet_ms, int64_t attempt_ms) {
    tl_client *clients[CLIENTS];
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = client_with(quiet_ms, attempt_ms);
    for (int i = 0; i < CROWD; i++)
        contenders[i] = make_lock(clients[i % CLIENTS], WANTED, life_ms);
    contest_start(contenders, CROWD, SOON_MS, 3);
}

static void begin_contest(int64_t life_ms, int64_t quiet_ms) {
    begin_contest_with(life_ms, quiet_ms, SOON_MS);
}

static void await_counted(int more) {
    int before = contest_counted();
    WAIT_FOR(MOVE_MS, contest_counted() >= before + more);
}

TEST(a_slot_that_moves_back_and_forth_keeps_the_count) {
    lock_events *events = make_events();
    tl_lock *held = renewed(client_of_cluster(), HELD, events);
    ASSERT_RESULT(tl_lock_acquire(held, 0, &said), TL_OK);
    begin_contest(LIFE_MS, 0);
    for (int i = 0; i < 8; i++) {
        await_counted(20);
        (void)contest_pause_ms();
        move_slot();
        await_counted(5);
        print_message("without service for %lld ms at most\n", (long long)contest_pause_ms());
    }
    contest_end();
    ASSERT_GOES_ON(held);
    print_message("the lock that is held was at risk %d times\n",
                  lock_events_count_of(events, TL_AT_RISK));
    assert_int_equal(lock_events_count_of(events, TL_LOST), 0);
}

/* ---- while it is handed over ----------------------------------------------------------------- */

TEST(what_comes_while_a_slot_is_handed_over_works_afterwards) {
    lock_events *events = make_events();
    releasing releases;
    tl_client *client = client_of_cluster();
    tl_lock *held = renewed(client, HELD, events),
            *lock = by_hand_at(client_of_cluster(), WANTED, KEEP_MS),
            *next = by_hand_at(client_of_cluster(), WANTED, KEEP_MS),
            *free = by_hand_at(client_of_cluster(), "{slot}free", KEEP_MS);
    ASSERT_RESULT(tl_lock_acquire(held, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    acquiring *waiter = acquiring_begin(next, TL_FOREVER);
    WAIT_FOR(SOON_MS, queue_is(1));
    real_node *to = begin_handing_over();
    begin_release(&releases, lock);
    acquiring *acquires = acquiring_begin(free, TL_FOREVER);
    let_pass(200);
    const bool early = atomic_load(&releases.done) || atomic_load(&acquires->done);
    assert_true(!early || !real_fleet_is_handing_over(owner(WANTED)));
    let_take_over(to);
    ASSERT_RESULT(end_release(&releases), TL_OK);
    ASSERT_RESULT(acquiring_end(acquires, MOVE_MS), TL_OK);
    ASSERT_RESULT(acquiring_end(waiter, MOVE_MS), TL_OK);
    assert_true(tl_lock_fence(next) > tl_lock_fence(lock));
    await_renewals(client, 1);
    ASSERT_GOES_ON(held);
    assert_int_equal(lock_events_count_of(events, TL_LOST), 0);
    assert_ptr_equal(owner(WANTED), to);
}

/* The longest that handing over may take, and in vain. */
TEST(a_lock_that_outlasts_the_pause_is_kept_though_the_move_comes_to_nothing) {
    lock_events *events = make_events();
    tl_client *client = client_of_cluster();
    tl_lock *held = renewed(client, HELD, events);
    ASSERT_RESULT(tl_lock_acquire(held, 0, &said), TL_OK);
    begin_contest(LIFE_MS, 0);
    await_counted(20);
    real_node *from = owner(WANTED);
    (void)begin_handing_over();
    WAIT_FOR(MOVE_MS, !real_fleet_is_handing_over(from));
    await_counted(20);
    contest_end();
    await_renewals(client, 1);
    ASSERT_GOES_ON(held);
    assert_ptr_equal(owner(WANTED), from);
    assert_int_equal(lock_events_count_of(events, TL_LOST), 0);
}

TEST(a_cancelled_move_costs_nothing) {
    lock_events *events = make_events();
    tl_client *client = client_of_cluster();
    tl_lock *held = renewed(client, HELD, events);
    ASSERT_RESULT(tl_lock_acquire(held, 0, &said), TL_OK);
    begin_contest(LIFE_MS, 0);
    await_counted(20);
    real_node *from = owner(WANTED);
    (void)begin_handing_over();
    real_fleet_cancel_moves(fleet);
    await_counted(20);
    contest_end();
    await_renewals(client, 1);
    ASSERT_GOES_ON(held);
    assert_ptr_equal(owner(WANTED), from);
    assert_int_equal(lock_events_count_of(events, TL_LOST), 0);
}

/* ---- faults meanwhile ------------------------------------------------------------------------ */

TEST(with_quiet_ms_nobody_holds_twice_when_the_owner_before_is_killed) {
    const int64_t life_ms = clock_patient_ms(800);
    begin_contest(life_ms, life_ms + 1000);
    await_counted(20);
    real_node *from = owner(WANTED), *to = begin_handing_over();
    real_redis_kill(from->redis);
    real_fleet_cancel_moves(fleet); /* Redis would begin again */
    real_fleet_hold_take_over(to, false);
    (void)real_fleet_await_owner(fleet, WANTED, from);
    await_counted(20);
    contest_end();
}

TEST(a_lock_is_kept_when_the_new_owner_is_killed_before_it_takes_over) {
    lock_events *events = make_events();
    tl_client *client = client_of_cluster();
    tl_lock *held = renewed(client, HELD, events);
    ASSERT_RESULT(tl_lock_acquire(held, 0, &said), TL_OK);
    begin_contest(LIFE_MS, 0);
    await_counted(20);
    const real_node *from = owner(WANTED);
    real_redis_kill(begin_handing_over()->redis);
    await_counted(20);
    contest_end();
    await_renewals(client, 1);
    ASSERT_GOES_ON(held);
    assert_ptr_equal(owner(WANTED), from);
    assert_int_equal(lock_events_count_of(events, TL_LOST), 0);
}

TEST(a_lock_is_kept_when_the_owner_before_is_killed_afterwards) {
    lock_events *events = make_events();
    tl_client *client = client_of_cluster();
    tl_lock *held = renewed(client, HELD, events);
    ASSERT_RESULT(tl_lock_acquire(held, 0, &said), TL_OK);
    begin_contest(LIFE_MS, 0);
    await_counted(20);
    const real_node *from = owner(WANTED);
    move_slot();
    real_redis_kill(from->redis);
    await_counted(20);
    contest_end();
    await_renewals(client, 1);
    ASSERT_GOES_ON(held);
    assert_int_equal(lock_events_count_of(events, TL_LOST), 0);
}

/* It wakes with requests in its sockets, when others have the lock at the new owner. */
TEST(with_quiet_ms_nobody_holds_twice_when_the_owner_before_is_stopped_and_wakes) {
    if (!real_fleet_takes_over_late(fleet)) {
        print_message("SKIP: this server can't be made to take over late\n");
        skip();
    }
    const int64_t life_ms = clock_patient_ms(800);
    begin_contest_with(life_ms, life_ms + 1000, 1000);
    await_counted(20);
    real_node *from = owner(WANTED), *to = begin_handing_over();
    real_redis_freeze(from->redis);
    real_fleet_hold_take_over(to, false);
    WAIT_FOR(MOVE_MS, real_fleet_owner(fleet, WANTED) == to);
    await_counted(20);
    real_redis_thaw(from->redis);
    await_counted(40);
    contest_end();
}

/* The owner before no longer reaches the one after, gives up waiting and grants locks. What it granted since then the one after
 * doesn't know when it takes over. */
TEST(with_quiet_ms_nobody_holds_twice_when_the_new_owner_takes_over_late) {
    if (!real_fleet_takes_over_late(fleet)) {
        print_message("SKIP: this server can't be made to take over late\n");
        skip();
    }
    const int64_t life_ms = clock_patient_ms(800);
    begin_contest(life_ms, life_ms + 1000);
    await_counted(20);
    real_node *from = owner(WANTED), *to = begin_handing_over();
    proxy_stop(to->gate);
    WAIT_FOR(MOVE_MS, !real_fleet_is_handing_over(from));
    await_counted(20);
    real_fleet_hold_take_over(to, false);
    WAIT_FOR(MOVE_MS, real_fleet_owner(fleet, WANTED) == to);
    proxy_heal(to->gate);
    await_counted(20);
    contest_end();
}

/* ---- databases ------------------------------------------------------------------------------- */

static tl_client *client_of_database(int number) {
    char url[600];
    (void)snprintf(url, sizeof url, "%s/%d", real_fleet_url(fleet), number);
    return make_client_with(
        TL_CLIENT_OPTIONS(.url = url, .attempt_ms = SOON_MS, .connect_ms = MOVE_MS));
}

/* Each has a lock of its own by the same name, and a queue. */
TEST(locks_of_all_databases_go_along) {
    lock_events *events = make_events();
    tl_client *client[2];
    tl_lock *lock[2], *next[2];
    acquiring *waiter[2];
    if (!has_databases()) {
        print_message("SKIP: clusters of this server have one database\n");
        skip();
    }
    for (int i = 0; i < 2; i++) {
        client[i] = client_of_database(3 * i);
        lock[i] = renewed(client[i], WANTED, events);
        next[i] = renewed(client_of_database(3 * i), WANTED, events);
        ASSERT_RESULT(tl_lock_acquire(lock[i], 0, &said), TL_OK);
        waiter[i] = acquiring_begin(next[i], TL_FOREVER);
    }
    move_slot();
    for (int i = 0; i < 2; i++) {
        await_renewals(client[i], 1);
        ASSERT_GOES_ON(lock[i]);
        assert_false(atomic_load(&waiter[i]->done));
        ASSERT_RESULT(tl_lock_release(lock[i], &said), TL_OK);
        ASSERT_RESULT(acquiring_end(waiter[i], MOVE_MS), TL_OK);
    }
    assert_int_equal(lock_events_count_of(events, TL_LOST), 0);
}

int main(void) {
    real_server_use(getenv("CLUSTER_SERVER"));
    real_server_need(REAL_SEVEN);
    real_fleet_need_whole_moves();
    return tests_run();
}
