/*
 * Faults: the name of a server leads to another one after a failover. Who has connections to the
 * old one, which is a replica now, gets to the new one without being restarted.
 */

/*
 * Faults and outcomes (tests/README.md says what is asserted of each):
 * - a replica without the last writes takes over, or a former master in the same process: with `quiet_ms` it grants
 *   nothing before the old holder's lifetime has ended, over old connections too.
 * - failover, and the name leads to the new master: the client resolves the name again and follows; counted.
 * - too few replicas confirm (`wait_replicas`): UNAVAILABLE "too few replicas"; the lock is released.
 * - the same of a rest: UNAVAILABLE, and it rests; a confirmed rest survives the failover.
 */
#include <netdb.h>

#include "arena.h"
#include "contest.h"
#include "names_as.h"

static real_redis *first, *second;
static atomic_int lookups;

/* The proxy is behind the name. */
static int look_up(const char *host, const char *service, const struct addrinfo *hints,
                   struct addrinfo **ret) {
    if (strcmp(host, "redis.example") != 0)
        return EAI_NONAME;
    atomic_fetch_add(&lookups, 1);
    return getaddrinfo("127.0.0.1", service, hints, ret);
}

static void must(real_redis *r, const char *command) {
    redisReply *reply = real_redis_command(r, command);
    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", command, reply->str);
    freeReplyObject(reply);
}

static void follow_port(real_redis *replica, int port) {
    char command[64];
    (void)snprintf(command, sizeof command, "%sOF 127.0.0.1 %d", real_server_replica(), port);
    must(replica, command);
}

static void follow(real_redis *replica, real_redis *master) {
    follow_port(replica, real_redis_port(master));
}

static void promote(real_redis *r) {
    char command[64];
    (void)snprintf(command, sizeof command, "%sOF NO ONE", real_server_replica());
    must(r, command);
}

static bool is_linked(real_redis *replica) {
    redisReply *info = real_redis_command(replica, "INFO replication");
    bool is = info && strstr(info->str, "master_link_status:up");
    freeReplyObject(info);
    return is;
}

/* The first is the master, the second its replica. */
static int set_up(void **state) {
    promote(first);
    server = first;
    if (arena_set_up(state))
        return -1;
    follow(second, first);
    WAIT_FOR(2 * SOON_MS, is_linked(second));
    atomic_store(&lookups, 0);
    names_as(look_up);
    return 0;
}

static int tear_down(void **state) {
    contest_abandon();
    int failed = arena_tear_down(state);
    names_as(NULL);
    return failed;
}

TESTS_WITH(set_up, tear_down);

static long long offset_of(real_redis *r) {
    static const char name[] = "repl_offset:"; /* a replica's own comes first */
    redisReply *info = real_redis_command(r, "INFO replication");
    const char *at = info ? strstr(info->str, name) : NULL;
    long long offset = at ? atoll(at + sizeof name - 1) : -1;
    freeReplyObject(info);
    return offset;
}

/* What was written is on the replica; it becomes the master, the master its replica, and the name
 * leads to it. The connections to the old one stay open. */
static void fail_over(void) {
    real_redis *old = server, *new = server == first ? second : first;
    WAIT_FOR(SOON_MS, offset_of(new) == offset_of(old));
    promote(new);
    follow(old, new);
    proxy_lead_to(gate, real_redis_port(new));
    server = new;
    WAIT_FOR(2 * SOON_MS, is_linked(old));
}

static tl_client *client_by_name(void) {
    char url[64];
    (void)snprintf(url, sizeof url, "redis://redis.example:%d", proxy_port(gate));
    return connected(client_at(url));
}

TEST(each_call_gets_to_the_new_master) {
    tl_lock *lock = by_hand(client_by_name(), AGES_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    uint64_t fence = tl_lock_fence(lock);
    fail_over();
    int looked = atomic_load(&lookups);
    ASSERT_RESULT(tl_lock_extend(lock, 2 * AGES_MS, &said), TL_OK);
    assert_true(atomic_load(&lookups) > looked);
    assert_belief_is_true(lock);
    fail_over();
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    assert_false(key_exists());
    fail_over();
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    assert_true(tl_lock_fence(lock) > fence);
    assert_true(key_exists());
    fail_over();
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    fail_over();
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
}

TEST(a_holder_and_a_waiter_go_on_at_the_new_master) {
    lock_events *events = make_events();
    tl_lock *holder = make_lock_with(
        client_by_name(), KEY,
        TL_LOCK_OPTIONS(.ttl_ms = 10 * BRIEF_MS, .on_event = lock_events_add, .ctx = events));
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    acquiring *waiter = acquiring_begin(by_hand(client_by_name(), AGES_MS), TL_FOREVER);
    WAIT_FOR(SOON_MS, has_executed("subscribe", 1));
    fail_over();
    forget_executed();
    WAIT_FOR(SOON_MS, has_executed("evalsha", 1) || has_executed("eval", 1)); /* renewed, there */
    WAIT_FOR(SOON_MS, tl_lock_state(holder) == TL_HELD);
    assert_belief_is_true(holder);
    assert_false(atomic_load(&waiter->done));
    ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(waiter, 2 * SOON_MS), TL_OK);
}

/* How many the server sends messages to. */
static int inboxes(void) {
    redisReply *names = real_redis_command(server, "PUBSUB CHANNELS tidelock:inbox:*");
    int count = (int)names->elements;
    freeReplyObject(names);
    return count;
}

/* Who still listens at the old master hears there what the new one says to nobody. On a busy machine the failover may take
 * so long that who waits has looked at the new master by itself: then it has the lock there. */
TEST(a_message_that_a_replica_repeats_gives_nobody_a_lock) {
    NEEDS_SERVER(REAL_SEVEN); /* whose replica links before the waiter has looked again */
    tl_lock *holder = make_lock(client_by_name(), KEY, AGES_MS);
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    acquiring *waiter = acquiring_begin(make_lock(client_by_name(), KEY, AGES_MS), TL_FOREVER);
    WAIT_FOR(SOON_MS, real_redis_int(server, "ZCARD tidelock:{" KEY "}:line") == 1);
    fail_over();
    ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
    tl_lock *other = by_hand(client_direct(), AGES_MS);
    tl_err code = tl_lock_acquire(other, 0, &said);
    if (code == TL_EBUSY) {
        ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_OK);
        assert_true(holds_token_of(waiter->lock));
        return;
    }
    ASSERT_RESULT(code, TL_OK);
    const clock_wait a_while = clock_wait_begin(300);
    while (clock_wait_more(&a_while))
        assert_false(atomic_load(&waiter->done));
    ASSERT_RESULT(tl_lock_release(other, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(waiter, 2 * SOON_MS), TL_OK);
}

/* A subscription at the old master says nothing of the failover; who gives the lock at the new one asks who listens
 * there. So who looks in line notices, and listens where it looks. */
TEST(who_stands_in_line_comes_to_listen_at_the_new_master) {
    NEEDS_SERVER(REAL_LINE);
    tl_lock *holder = by_hand(client_by_name(), AGES_MS);
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    acquiring *waiter = acquiring_begin(make_lock(client_by_name(), KEY, AGES_MS), TL_FOREVER);
    WAIT_FOR(SOON_MS, real_redis_int(server, "ZCARD tidelock:{" KEY "}:line") == 1);
    for (int i = 0; i < 2; i++) {
        fail_over();
        WAIT_FOR(3 * SOON_MS, inboxes() == 1);
    }
    ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
    assert_true(key_exists()); /* it was given to who listens, who has been told so */
    ASSERT_RESULT(acquiring_end(waiter, 2 * SOON_MS), TL_OK);
}

/* The old master has lost its data: that it doesn't know the lock says nothing. */
TEST(a_replica_that_does_not_know_the_lock_is_not_believed) {
    tl_lock *lock = by_hand(client_by_name(), AGES_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    WAIT_FOR(SOON_MS, offset_of(second) == offset_of(first));
    promote(second);
    must(first, "FLUSHALL");
    follow_port(first, 1);
    proxy_lead_to(gate, real_redis_port(second));
    server = second;
    assert_true(key_exists());
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    assert_false(key_exists());
}

/* While the name still leads to what is a replica now, nothing is had, nor is the server stormed. */
TEST(a_name_that_still_leads_to_the_replica_is_waited_for) {
    tl_lock *lock = by_hand(client_by_name(), AGES_MS);
    promote(second);
    follow(first, second);
    tl_err code = TL_EUNCERTAIN;
    for (int i = 0; i < 10 && code == TL_EUNCERTAIN;
         i++) { /* the limit may cut the last try short */
        atomic_store(&lookups, 0);
        int64_t began = clock_ms();
        code = tl_lock_acquire(lock, 500, &said);
        ASSERT_TOOK(began, 500, 500);
        assert_true(atomic_load(&lookups) <= 30);
    }
    ASSERT_RESULT(code, TL_EUNAVAILABLE);
    ASSERT_SAID("READONLY");
    acquiring *waiter = acquiring_begin(lock, 10 * SOON_MS);
    int looked = atomic_load(&lookups);
    WAIT_FOR(SOON_MS, atomic_load(&lookups) > looked);
    assert_false(atomic_load(&waiter->done));
    proxy_lead_to(gate, real_redis_port(second));
    ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_OK);
    server = second;
    assert_true(key_exists());
}

/* ---- a server that may have forgotten ----------------------------------------------------------- */

#define QUIET_MS clock_patient_ms(600)

static tl_client *client_that_waits(real_redis *at) {
    return connected(
        make_client_with(TL_CLIENT_OPTIONS(.url = real_redis_url(at), .attempt_ms = SOON_MS,
                                           .connect_ms = SOON_MS, .quiet_ms = QUIET_MS)));
}

/* On a busy machine so short a lifetime may be over by now. */
static void release_in_time_or_not(tl_lock *lock) {
    tl_err code = tl_lock_release(lock, &said);
    if (code != TL_EEXPIRED)
        ASSERT_RESULT(code, TL_OK);
}

/* It is known to be the same server for long enough. */
static tl_lock *settled(real_redis *at) {
    NEEDS_SERVER(REAL_RUN_ID);
    tl_lock *lock = by_hand(client_that_waits(at), QUIET_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 2 * SOON_MS, &said), TL_OK);
    release_in_time_or_not(lock);
    ASSERT_RESULT(tl_lock_acquire(lock, 2 * SOON_MS, &said), TL_OK);
    return lock;
}

/* The old master is cut off from the replica that takes over, and its holder from everything: what he has been given
 * since is not known there. Who asks there does so over a connection that was there before. */
TEST(a_replica_that_takes_over_gives_nothing_that_another_may_hold) {
    tl_lock *holder = settled(first), *next = by_hand(client_that_waits(second), QUIET_MS);
    release_in_time_or_not(holder);
    WAIT_FOR(SOON_MS, offset_of(second) == offset_of(first));
    promote(second);
    ASSERT_RESULT(tl_lock_acquire(holder, 2 * SOON_MS, &said), TL_OK);
    int64_t began = clock_ms();
    real_redis_freeze(first);
    ASSERT_RESULT(tl_lock_acquire(next, 2 * SOON_MS, &said), TL_OK);
    ASSERT_TOOK(began, QUIET_MS, QUIET_MS + SOON_MS);
    assert_int_equal(tl_lock_remaining_ms(holder), 0);
    real_redis_thaw(first);
    server = second;
}

/* The same process, but what it knew before it was a replica may be gone. */
TEST(nor_does_one_that_has_been_the_master_before) {
    tl_lock *lock = settled(first);
    release_in_time_or_not(lock);
    fail_over();
    fail_over();
    assert_ptr_equal(server, first);
    int64_t began = clock_ms();
    ASSERT_RESULT(tl_lock_acquire(lock, 2 * SOON_MS, &said), TL_OK);
    ASSERT_TOOK(began, QUIET_MS, QUIET_MS + SOON_MS);
}

/* ---- replicas that must confirm ----------------------------------------------------------------- */

static tl_client *client_that_is_careful(void) {
    return make_client_with(TL_CLIENT_OPTIONS(.url = real_redis_url(first), .attempt_ms = SOON_MS,
                                              .connect_ms = SOON_MS, .wait_replicas = 1,
                                              .wait_replicas_ms = 100));
}

TEST(without_replicas_that_confirm_nothing_is_had_until_one_is_back) {
    NEEDS_SERVER(REAL_WAIT);
    tl_lock *lock = by_hand(client_that_is_careful(), AGES_MS);
    promote(second);
    said = (tl_error){0};
    for (int i = 0; i < 10 && !strstr(said.message, "too few replicas confirmed"); i++) {
        int64_t began = clock_ms(); /* again, if none of its tries was heard of in time */
        tl_err code = tl_lock_acquire(lock, 500, &said);
        if (code != TL_EUNCERTAIN) /* the last attempt may have been cut short by the limit */
            ASSERT_RESULT(code, TL_EUNAVAILABLE);
        ASSERT_TOOK(began, 500, 500);
    }
    ASSERT_SAID("too few replicas confirmed");
    ASSERT_SAID(strstr(real_redis_url(first), "127."));
    assert_free_soon(); /* it has been given back */
    acquiring *waiter = acquiring_begin(lock, 10 * SOON_MS);
    WAIT_FOR(SOON_MS, has_executed("wait", 2));
    assert_false(atomic_load(&waiter->done));
    follow(second, first);
    ASSERT_RESULT(acquiring_end(waiter, 2 * SOON_MS), TL_OK);
}

static tl_lock *confirmed(lock_events *events, int64_t ttl_ms) {
    tl_lock *lock = make_lock_with(
        client_that_is_careful(), KEY,
        TL_LOCK_OPTIONS(.ttl_ms = ttl_ms, .on_event = lock_events_add, .ctx = events));
    ASSERT_RESULT(tl_lock_acquire(lock, 2 * SOON_MS, &said), TL_OK);
    return lock;
}

/* They are gone for a while, and for good. */
TEST(a_holder_without_replicas_that_confirm_is_told_in_time) {
    NEEDS_SERVER(REAL_WAIT);
    lock_events *events = make_events();
    tl_lock *lock = confirmed(events, SAFE_MS);
    lock_event again;
    promote(second);
    (void)lock_events_await(events, TL_AT_RISK, SOON_MS);
    follow(second, first);
    WAIT_FOR(SOON_MS, lock_events_find(events, 1, TL_HELD, &again));
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    events = make_events();
    (void)confirmed(events, BRIEF_MS);
    promote(second);
    assert_int_equal(lock_events_await(events, TL_LOST, SOON_MS).why, TL_LOST_EXPIRED);
    int64_t began = clock_ms();
    assert_free_soon();
    ASSERT_TOOK(began, 0, BRIEF_MS);
}

static tl_lock *held_by_careful(int64_t attempt_ms, int64_t wait_replicas_ms,
                                long long *ret_began) {
    tl_client *client = make_client_with(
        TL_CLIENT_OPTIONS(.url = real_redis_url(first), .attempt_ms = attempt_ms,
                          .connect_ms = SOON_MS, .wait_replicas = 1,
                          .wait_replicas_ms = wait_replicas_ms));
    tl_lock *lock = by_hand(client, AGES_MS);
    *ret_began = server_us(first);
    ASSERT_RESULT(tl_lock_acquire(lock, 2 * SOON_MS, &said), TL_OK);
    return lock;
}

TEST(a_rest_that_a_replica_has_confirmed_survives_the_failover) {
    NEEDS_SERVER(REAL_WAIT);
    long long began_us;
    tl_lock *lock = held_by_careful(SOON_MS, SOON_MS, &began_us);
    ASSERT_RESULT(tl_lock_rest(lock, HOUR_MS, &said), TL_OK);
    promote(second); /* it has what was confirmed, whatever else it has */
    proxy_lead_to(gate, real_redis_port(second));
    server = second;
    assert_rests_for(second, KEY, began_us, HOUR_MS);
    ASSERT_RESULT(tl_lock_acquire(by_hand(client_by_name(), AGES_MS), 0, &said), TL_EBUSY);
    ASSERT_SAID("it rests");
}

TEST(a_rest_that_no_replica_confirms_is_unavailable_and_rests) {
    NEEDS_SERVER(REAL_WAIT);
    long long began_us;
    tl_lock *lock = held_by_careful(clock_patient_ms(2000), 100, &began_us);
    promote(second);
    const tl_err code = tl_lock_rest(lock, HOUR_MS, &said);
    if (code != TL_EUNCERTAIN) { /* the limit may have cut the last request short */
        ASSERT_RESULT(code, TL_EUNAVAILABLE);
        ASSERT_SAID("too few replicas confirmed");
    }
    assert_rests_for(first, KEY, began_us, HOUR_MS);
}

/* ---- the number that the lock protects ---------------------------------------------------------- */

/* Two masters in turn, each a replica while it is not; every write is on both before the turn. */
TEST(nobody_holds_twice_over_failovers) {
    NEEDS_SERVER(REAL_PAUSE_WRITES);
    tl_lock *locks[3];
    tl_client *shared = client_by_name();
    for (int i = 0; i < 3; i++)
        locks[i] = make_lock(i ? shared : client_by_name(), KEY, 1000);
    contest_start(locks, 3, 3000, 1);
    for (int i = 0; i < 3; i++) {
        int counted = contest_counted();
        WAIT_FOR(2 * SOON_MS, contest_counted() > counted + 10);
        real_redis *old = server, *new = server == first ? second : first;
        must(old, "CLIENT PAUSE 600000 WRITE"); /* so that nothing is lost */
        WAIT_FOR(SOON_MS, offset_of(new) == offset_of(old));
        promote(new);
        follow(old, new);
        proxy_lead_to(gate, real_redis_port(new));
        must(old, "CLIENT UNPAUSE");
        server = new;
    }
    int counted = contest_counted();
    WAIT_FOR(2 * SOON_MS, contest_counted() > counted + 10);
    contest_end();
}

int main(void) {
    real_server_need(REAL_SCAN);
    const real_redis_options quick = {.config = "repl-diskless-sync-delay 0"};
    first = real_redis_start(&quick);
    second = real_redis_start(&quick);
    return tests_run();
}
