/*
 * A master, two replicas and three Sentinels, each with a password of its own kind; and what befalls them.
 */
#include <poll.h>
#include <signal.h>

#include "arena.h"

#define MASTER_PASSWORD "of-the-master"
#define SENTINEL_PASSWORD "of-the-sentinels"
#define SERVERS 3
#define DOWN_MS 1000      /* a master that is silent for so long is down */
#define FAILOVER_MS 60000 /* until everybody follows another, on a busy machine */

static real_redis *redis[SERVERS], *sentinel[SERVERS];

/* ---- the set-up ------------------------------------------------------------------------------ */

static void must(real_redis *r, const char *command) {
    redisReply *reply = real_redis_command(r, command);
    if (!reply) /* a Sentinel has ended the connection: it is made anew */
        reply = real_redis_command(r, command);
    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", command, reply->str);
    freeReplyObject(reply);
}

static bool says(real_redis *r, const char *command, const char *words) {
    redisReply *info = real_redis_command(r, command);
    bool is = info && info->str && strstr(info->str, words);
    freeReplyObject(info);
    return is;
}

/* The port of the master, as this one of the Sentinels has it. */
static int named_by(int i) {
    redisReply *r = real_redis_command(sentinel[i], "SENTINEL GET-MASTER-ADDR-BY-NAME m");
    int port = r && r->elements == 2 ? atoi(r->element[1]->str) : -1;
    freeReplyObject(r);
    return port;
}

static long long field_of(int i, const char *name) {
    redisReply *r = real_redis_command(sentinel[i], "SENTINEL MASTER m");
    long long value = -1;
    for (size_t k = 0; r && k + 1 < r->elements; k += 2)
        if (strcmp(r->element[k]->str, name) == 0)
            value = atoll(r->element[k + 1]->str);
    freeReplyObject(r);
    return value;
}

static real_redis *master(void) {
    int port = named_by(0);
    for (int i = 0; i < SERVERS; i++)
        if (real_redis_port(redis[i]) == port)
            return redis[i];
    return NULL;
}

/* Those that aren't dead. A Sentinel needs some seconds to find the others, and more to lead a former master back. */
static bool all_agree(void) {
    real_redis *m = master();
    int replicas = 0;
    for (int i = 0; i < SERVERS; i++)
        if (named_by(i) != named_by(0) || field_of(i, "num-other-sentinels") != SERVERS - 1 ||
            field_of(i, "num-slaves") < 1)
            return false;
    for (int i = 0; i < SERVERS; i++)
        replicas += redis[i] != m && real_redis_pid(redis[i]) > 0 &&
                    says(redis[i], "INFO replication", "master_link_status:up");
    return replicas > 0 && says(m, "INFO replication", "role:master");
}

static void start_all(void) {
    static const char data[] = "masterauth " MASTER_PASSWORD "\nrepl-diskless-sync-delay 0\n"
                               "repl-timeout 60\nrepl-ping-replica-period 1\n";
    char config[1024];
    (void)signal(SIGPIPE,
                 SIG_IGN); /* Sentinels end the test's own connections to a former master */
    for (int i = 0; i < SERVERS; i++) {
        (void)snprintf(config, sizeof config, "%s", data);
        if (i > 0)
            (void)snprintf(config, sizeof config, "%sreplicaof 127.0.0.1 %d\n", data,
                           real_redis_port(redis[0]));
        redis[i] = real_redis_start(
            &(real_redis_options){.config = config, .password = MASTER_PASSWORD});
    }
    (void)snprintf(config, sizeof config,
                   "sentinel monitor m 127.0.0.1 %d 2\nsentinel auth-pass m " MASTER_PASSWORD
                   "\nsentinel sentinel-pass " SENTINEL_PASSWORD
                   "\nsentinel down-after-milliseconds m %d\nsentinel failover-timeout m 5000\n"
                   "sentinel parallel-syncs m 2\n",
                   real_redis_port(redis[0]), DOWN_MS);
    for (int i = 0; i < SERVERS; i++)
        sentinel[i] = real_redis_start(&(real_redis_options){
            .config = config, .password = SENTINEL_PASSWORD, .sentinel = true});
}

/* As before the test, but perhaps with another master. */
static int set_up(void **state) {
    (void)state;
    if (!redis[0])
        start_all();
    for (int i = 0; i < SERVERS; i++) {
        real_redis_thaw(redis[i]);
        real_redis_thaw(sentinel[i]);
    }
    WAIT_FOR(FAILOVER_MS, all_agree());
    server = master();
    must(server, "FLUSHALL");
    return 0;
}

static int tear_down(void **state) {
    for (int i = 0; i < SERVERS; i++) {
        real_redis_thaw(redis[i]);
        real_redis_thaw(sentinel[i]);
    }
    return locks_clean_up(state);
}

TESTS_WITH(set_up, tear_down);

/* By the first of the Sentinels alone, or all. */
static tl_client *client_of(int named, const char *password) {
    char url[256], *end = url + snprintf(url, sizeof url, "redis+sentinel://:" MASTER_PASSWORD "@");
    for (int i = 0; i < named; i++)
        end += snprintf(end, (size_t)(url + sizeof url - end), "%s127.0.0.1:%d", i ? "," : "",
                        real_redis_port(sentinel[i]));
    (void)snprintf(end, (size_t)(url + sizeof url - end), "/m");
    return make_client_with(TL_CLIENT_OPTIONS(.url = url, .sentinel_password = password,
                                              .attempt_ms = SOON_MS, .connect_ms = FAILOVER_MS));
}

static tl_client *client_by_sentinels(void) {
    return client_of(SERVERS, SENTINEL_PASSWORD);
}

/* One that gives up soon. */
static tl_err ping_briefly(const char *name, const char *password) {
    char url[256];
    (void)snprintf(url, sizeof url,
                   "redis+sentinel://:" MASTER_PASSWORD
                   "@127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/%s",
                   real_redis_port(sentinel[0]), real_redis_port(sentinel[1]),
                   real_redis_port(sentinel[2]), name);
    tl_client *client = make_client_with(
        TL_CLIENT_OPTIONS(.url = url, .sentinel_password = password, .attempt_ms = ATTEMPT_MS,
                          .connect_ms = CONNECT_MS));
    return tl_client_ping(client, &said);
}

static void fail_over(void) {
    int former = named_by(0);
    must(sentinel[0], "SENTINEL FAILOVER m");
    WAIT_FOR(FAILOVER_MS, named_by(0) != former && all_agree());
    server = master();
}

/* ---- well ------------------------------------------------------------ */

TEST(the_master_is_found_and_each_is_told_its_own_password) {
    tl_lock *lock = by_hand(client_by_sentinels(), TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    assert_true(key_exists());
    ASSERT_RESULT(tl_lock_extend(lock, 2 * TTL_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    assert_false(key_exists());
}

/* Commands that the Sentinels have executed, of which a question is two; some are their own. */
static long long asked(void) {
    static const char name[] = "total_commands_processed:";
    long long calls = 0;
    for (int i = 0; i < SERVERS; i++) {
        redisReply *r = real_redis_command(sentinel[i], "INFO stats");
        const char *at = r && r->str ? strstr(r->str, name) : NULL;
        calls += at ? atoll(at + sizeof name - 1) : 0;
        freeReplyObject(r);
    }
    return calls;
}

static long long keeps(void) {
    static const char name[] = "cmdstat_evalsha:calls=";
    redisReply *r = real_redis_command(server, "INFO commandstats");
    const char *at = r && r->str ? strstr(r->str, name) : NULL;
    long long calls = at ? atoll(at + sizeof name - 1) : 0;
    freeReplyObject(r);
    return calls;
}

/* By a majority, however lately the master was named. */
#define ASSERT_EACH_ASKED(keeps_, before)                                                          \
    assert_true(asked() - (before) >= 2 * (SERVERS / 2 + 1) * (keeps_))

TEST(each_keep_is_followed_by_a_question) {
    enum { KEEPS = 10 };
    tl_client *client = client_by_sentinels();
    tl_lock *lock = by_hand(client, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    long long before = asked();
    for (int i = 0; i < KEEPS; i++)
        ASSERT_RESULT(tl_lock_extend(lock, TTL_MS, &said), TL_OK);
    ASSERT_EACH_ASKED(KEEPS, before);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

TEST(and_so_is_each_round_of_renewals) {
    enum { TTL_SHORT_MS = 100, FOR_MS = 600 };
    tl_lock *lock = make_lock_with(client_by_sentinels(), KEY,
                                   TL_LOCK_OPTIONS(.ttl_ms = TTL_SHORT_MS));
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    long long before = asked(), kept = keeps();
    (void)poll(NULL, 0, FOR_MS);
    kept = keeps() - kept;
    assert_true(kept > 4);
    ASSERT_EACH_ASKED(kept - 1, before); /* of the last the answer may be in flight */
    (void)tl_lock_release(lock, &said);
}

TEST(a_name_that_no_sentinel_knows) {
    ASSERT_RESULT(ping_briefly("other", SENTINEL_PASSWORD), TL_EUNAVAILABLE);
    ASSERT_SAID("other: the Sentinels know no master of this name");
}

TEST(a_wrong_password_of_the_sentinels) {
    ASSERT_RESULT(ping_briefly("m", "wrong"), TL_EUNAVAILABLE);
    ASSERT_SAID("no majority of the Sentinels: 0 of 3 answer");
    ASSERT_SAID("wrong user or password");
}

/* ---- failovers: each with one server less, as a former master comes back late --------------- */

TEST(a_holder_and_a_waiter_go_on_after_a_graceful_failover) {
    tl_lock *holder = make_lock_with(client_by_sentinels(), KEY, TL_LOCK_OPTIONS(.ttl_ms = TTL_MS));
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    uint64_t fence = tl_lock_fence(holder);
    must(server, "WAIT 1 5000"); /* what was written is everywhere */
    acquiring *waiter = acquiring_begin(by_hand(client_by_sentinels(), TTL_MS), TL_FOREVER);
    WAIT_FOR(SOON_MS, real_redis_int(server, "ZCARD tidelock:{" KEY "}:line") == 1);
    fail_over();
    WAIT_FOR(FAILOVER_MS, real_redis_int(server, "EXISTS " KEY) == 1);
    assert_false(atomic_load(&waiter->done));
    assert_true(tl_lock_remaining_ms(holder) > 0);
    ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(waiter, FAILOVER_MS), TL_OK);
    assert_true(tl_lock_fence(waiter->lock) > fence);
    assert_true(key_exists());
}

TEST(a_master_that_is_killed_is_left_for_the_next) {
    tl_client *client = client_by_sentinels();
    tl_lock *lock = by_hand(client, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    real_redis *former = server;
    real_redis_kill(former);
    tl_lock *next = make_lock_with(client, "chaos:next", TL_LOCK_OPTIONS(.ttl_ms = TTL_MS));
    ASSERT_RESULT(tl_lock_acquire(next, FAILOVER_MS, &said), TL_OK);
    server = master();
    assert_ptr_not_equal(server, former);
    WAIT_FOR(SOON_MS, real_redis_int(server, "EXISTS chaos:next") == 1);
    ASSERT_RESULT(tl_lock_release(next, &said), TL_OK);
}

/* It is stopped with renewals in its sockets, another is promoted, and it wakes and carries them out: by then nobody
 * listens to it, and what it answers doesn't count. */
TEST(a_master_that_wakes_keeps_nothing) {
    lock_events *events = make_events();
    tl_lock *lock = make_lock_with(
        client_by_sentinels(), KEY,
        TL_LOCK_OPTIONS(.ttl_ms = 10 * DOWN_MS, .on_event = lock_events_add, .ctx = events));
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    real_redis *former = server;
    must(former, "WAIT 1 5000");
    must(former, "CLIENT NO-EVICT off"); /* answered: nothing else is in its sockets */
    real_redis_freeze(former);
    int port = real_redis_port(former);
    WAIT_FOR(FAILOVER_MS, named_by(0) != port && named_by(1) == named_by(0));
    server = master();
    must(server, "DEL " KEY " tidelock:{" KEY "}"); /* as if it hadn't come along */
    real_redis_thaw(former);
    lock_event lost = lock_events_await(events, TL_LOST, FAILOVER_MS);
    assert_true(lost.why == TL_LOST_GONE || lost.why == TL_LOST_EXPIRED);
    assert_int_equal(tl_lock_remaining_ms(lock), 0);
}
/* ---- Sentinels stopped: they lead no failover for half a minute afterwards --------------- */

TEST(one_named_sentinel_leads_to_the_others) {
    tl_client *client = client_of(1, SENTINEL_PASSWORD);
    tl_lock *lock = by_hand(client, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    real_redis_freeze(sentinel[0]);
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_extend(lock, TTL_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

TEST(a_sentinel_that_is_down_costs_nothing) {
    tl_lock *lock = by_hand(client_by_sentinels(), TTL_MS);
    real_redis_freeze(sentinel[1]);
    for (int i = 0; i < 3; i++) {
        ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
        ASSERT_RESULT(tl_lock_extend(lock, TTL_MS, &said), TL_OK);
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    }
}

TEST(fewer_than_a_majority_of_the_sentinels) {
    real_redis_freeze(sentinel[1]);
    real_redis_freeze(sentinel[2]);
    ASSERT_RESULT(ping_briefly("m", SENTINEL_PASSWORD), TL_EUNAVAILABLE);
    ASSERT_SAID("m: no majority of the Sentinels: 1 of 3 answer");
}

/* The master is well, and says so; but whether it is still the master nobody can tell. */
TEST(without_a_majority_no_renewal_counts_and_nothing_is_acquired) {
    lock_events *events = make_events();
    tl_client *client = client_by_sentinels();
    tl_lock *lock = make_lock_with(
        client, KEY,
        TL_LOCK_OPTIONS(.ttl_ms = KEPT_MS, .on_event = lock_events_add, .ctx = events));
    tl_lock *other = make_lock_with(client, "chaos:other", TL_LOCK_OPTIONS(.ttl_ms = TTL_MS));
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    real_redis_freeze(sentinel[1]);
    real_redis_freeze(sentinel[2]);
    lock_event lost = lock_events_await(events, TL_LOST, SOON_MS);
    assert_int_equal(lost.why, TL_LOST_EXPIRED);
    assert_true(lock_events_count_of(events, TL_AT_RISK) > 0);
    ASSERT_RESULT(tl_lock_acquire(other, 100, &said), TL_EUNAVAILABLE);
    real_redis_thaw(sentinel[1]);
    ASSERT_RESULT(tl_lock_acquire(other, SOON_MS, &said), TL_OK);
}
