/*
 * A master, two replicas and three Sentinels, each with a password of its own kind; and what befalls them.
 *
 * timeout: 180
 */

/*
 * Faults and outcomes (tests/README.md says what is asserted of each):
 * - graceful failover, master killed, master stopped and resumed: the client follows the new one; LOST where the lock
 *   was not replicated, by the deadline; counted under load with `quiet_ms`; prints the time without service.
 * - a server that is master again and was a replica meanwhile (`quiet_ms`): it grants nothing until its role has been
 *   stable that long.
 * - a failover while a lock rests that all replicas have confirmed: it rests on.
 * - a holder cut off with the master and one Sentinel: AT_RISK, then LOST by the deadline, before the next master grants
 *   the lock.
 * - a master without its replicas that stops by itself (`min-replicas-to-write`, URLs of servers), cut off with its
 *   holder: LOST before the next master grants it, if `quiet_ms` is a lifetime, min-replicas-max-lag and 2 s.
 * - one Sentinel down: no effect; fewer than a majority left: UNAVAILABLE "no majority of the Sentinels", renewals do
 *   not count, LOST.
 * - Sentinels that know no such master, or refuse the password: UNAVAILABLE "know no master of this name", "wrong user
 *   or password".
 */
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arena.h"
#include "contest.h"
#include "sentinel_faults.h"

#define MASTER_PASSWORD "of-the-master"
#define SENTINEL_PASSWORD "of-the-sentinels"
#define SENTINELS 3
#define DOWN_MS 600 /* a master that is silent for so long is down, where the test is about that */
#define STILL_MS 60000     /* elsewhere: a busy machine may stop it */
#define LATER_MS 200       /* each Sentinel than the one before, or all vote for themselves */
#define FAILOVER_MS 120000 /* until everybody follows another, on a busy machine */
#define SHORT_MS clock_patient_ms(500)
#define ROUNDED_MS 5 /* between two clocks */

/* Most of the time is spent waiting: these two groups run at once, each with a fleet of its own. */
enum { FIRST = 1, BESIDE = 2 };

static real_fleet *fleet;

/* ---- the set-up ------------------------------------------------------------------------------ */

static void must(real_redis *r, const char *command) {
    redisReply *reply = real_redis_command(r, command);
    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", command, reply->str);
    freeReplyObject(reply);
}

static real_redis *sentinel(int i) {
    return real_fleet_sentinel(fleet, i)->redis;
}

static void take_for_down_after(int ms) {
    char command[96];
    for (int i = 0; i < SENTINELS; i++) {
        (void)snprintf(command, sizeof command,
                       "SENTINEL SET " REAL_FLEET_NAME " down-after-milliseconds %d",
                       ms + i * LATER_MS);
        must(sentinel(i), command);
    }
}

/* As before the test, but perhaps with another master. */
static int set_up(void **state) {
    (void)state;
    const real_fleet_options options = {.gates = true,
                                        .down_ms = DOWN_MS,
                                        .password = MASTER_PASSWORD,
                                        .sentinel_password = SENTINEL_PASSWORD};
    if (!fleet) {
        (void)signal(SIGPIPE, SIG_IGN); /* the test's own connections to who is killed */
        fleet = real_fleet_start_sentinels(&options);
    }
    real_fleet_heal(fleet);
    take_for_down_after(STILL_MS);
    server = real_fleet_master(fleet)->redis;
    return 0;
}

static int tear_down(void **state) {
    for (int i = 0; i < SENTINELS; i++) {
        real_redis_thaw(sentinel(i));
        freeReplyObject(real_redis_command(sentinel(i), "ACL SETUSER default +info"));
    }
    for (int i = 0; i < real_fleet_servers(fleet); i++)
        real_redis_thaw(real_fleet_server(fleet, i)->redis);
    contest_abandon();
    return locks_clean_up(state);
}

TESTS_WITH(set_up, tear_down);

static tl_client *client_with(tl_client_options options) {
    options.url = options.url ? options.url : real_fleet_url(fleet);
    options.sentinel_password = SENTINEL_PASSWORD;
    options.attempt_ms = options.attempt_ms ? options.attempt_ms : SOON_MS;
    options.connect_ms = FAILOVER_MS;
    return make_client_with(options);
}

static tl_client *client_by_sentinels(void) {
    return client_with(TL_CLIENT_OPTIONS(.quiet_ms = 0));
}

/* By the first of the Sentinels alone. */
static tl_client *client_by_one(void) {
    char url[128];
    (void)snprintf(url, sizeof url,
                   "redis+sentinel://:" MASTER_PASSWORD "@127.0.0.1:%d/" REAL_FLEET_NAME,
                   real_fleet_sentinel(fleet, 0)->port);
    return client_with(TL_CLIENT_OPTIONS(.url = url));
}

/* By a client that gives up soon, until it is told so: a busy machine is too slow for it now and then. */
static tl_err ping_briefly(const char *name, const char *password, const char *words) {
    tl_err code = TL_OK;
    char url[256];
    (void)snprintf(url, sizeof url, "%.*s%s",
                   (int)(strlen(real_fleet_url(fleet)) - strlen(REAL_FLEET_NAME)),
                   real_fleet_url(fleet), name);
    tl_client *client = make_client_with(
        TL_CLIENT_OPTIONS(.url = url, .sentinel_password = password, .attempt_ms = ATTEMPT_MS,
                          .connect_ms = CONNECT_MS));
    said = (tl_error){0};
    for (int i = 0; i < 50 && !strstr(said.message, words); i++)
        code = tl_client_ping(client, &said);
    ASSERT_SAID(words);
    return code;
}

static void fail_over(void) {
    real_fleet_switch(fleet);
    server = real_fleet_master(fleet)->redis;
}

/* ---- well ------------------------------------------------------------ */

TEST_IN(the_master_is_found_and_each_is_told_its_own_password, FIRST) {
    tl_lock *lock = by_hand(client_by_sentinels(), AGES_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    assert_true(key_exists());
    ASSERT_RESULT(tl_lock_extend(lock, 2 * AGES_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    assert_false(key_exists());
}

/* Commands that the Sentinels have executed, of which a question is two; some are their own. */
static long long asked(void) {
    static const char name[] = "total_commands_processed:";
    long long calls = 0;
    for (int i = 0; i < SENTINELS; i++) {
        redisReply *r = real_redis_command(sentinel(i), "INFO stats");
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
    assert_true(asked() - (before) >= 2 * (SENTINELS / 2 + 1) * (keeps_))

TEST_IN(each_keep_is_followed_by_a_question, FIRST) {
    enum { KEEPS = 10 };
    tl_client *client = client_by_sentinels();
    tl_lock *lock = by_hand(client, AGES_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    long long before = asked();
    for (int i = 0; i < KEEPS; i++)
        ASSERT_RESULT(tl_lock_extend(lock, AGES_MS, &said), TL_OK);
    ASSERT_EACH_ASKED(KEEPS, before);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

TEST_IN(and_so_is_each_round_of_renewals, FIRST) {
    enum { TTL_SHORT_MS = 600, ROUNDS = 5 };
    tl_lock *lock = make_lock_with(client_by_sentinels(), KEY,
                                   TL_LOCK_OPTIONS(.ttl_ms = TTL_SHORT_MS));
    const clock_wait limit = clock_wait_begin(4 * SOON_MS);
    long long before = 0, kept = 0;
    bool begun = false;
    do { /* anew, where a busy machine lets it expire */
        assert_true(clock_wait_more(&limit));
        if (begun && tl_lock_state(lock) != TL_LOST)
            continue;
        begun = true;
        if (tl_lock_state(lock) == TL_LOST)
            (void)tl_lock_release(lock, &said);
        ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
        before = asked();
        kept = keeps();
    } while (keeps() - kept < ROUNDS);
    kept = keeps() - kept;
    ASSERT_EACH_ASKED(kept - 1, before); /* of the last the answer may be in flight */
    (void)tl_lock_release(lock, &said);
}

TEST_IN(a_name_that_no_sentinel_knows, FIRST) {
    ASSERT_RESULT(ping_briefly("other", SENTINEL_PASSWORD,
                               "other: the Sentinels know no master of this name"),
                  TL_EUNAVAILABLE);
}

TEST_IN(a_wrong_password_of_the_sentinels, FIRST) {
    ASSERT_RESULT(ping_briefly(REAL_FLEET_NAME, "wrong", "wrong user or password"), TL_EDENIED);
    ASSERT_SAID("no majority of the Sentinels: 0 of 3 answer");
}

/* ---- failovers ----------------------------------------------------------------------------- */

TEST_IN(a_holder_and_a_waiter_go_on_after_a_graceful_failover, FIRST) {
    tl_lock *holder = make_lock_with(client_by_sentinels(), KEY,
                                     TL_LOCK_OPTIONS(.ttl_ms = AGES_MS));
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    uint64_t fence = tl_lock_fence(holder);
    WAIT_FOR(SOON_MS, real_redis_int(server, "WAIT 2 1000") >= 2); /* it is everywhere */
    acquiring *waiter = acquiring_begin(by_hand(client_by_sentinels(), AGES_MS), TL_FOREVER);
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

/* Its key is deleted at the replicas, as if they hadn't heard of it. */
TEST_IN(what_did_not_come_along_is_lost_by_the_failover, FIRST) {
    lock_events *events = make_events();
    tl_lock *lock = make_lock_with(
        client_by_sentinels(), KEY,
        TL_LOCK_OPTIONS(.ttl_ms = FAILOVER_MS, .on_event = lock_events_add, .ctx = events));
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    WAIT_FOR(SOON_MS, real_redis_int(server, "WAIT 2 1000") >= 2);
    for (int i = 0; i < real_fleet_servers(fleet); i++) {
        real_redis *replica = real_fleet_server(fleet, i)->redis;
        if (replica == server)
            continue;
        must(replica, "CONFIG SET replica-read-only no");
        must(replica, "DEL " KEY);
        must(replica, "CONFIG SET replica-read-only yes");
    }
    fail_over();
    lock_event lost = lock_events_await(events, TL_LOST, FAILOVER_MS);
    assert_int_equal(lost.why, TL_LOST_GONE);
    assert_string_equal(lost.detail, KEY ": the failover lost it");
    events = make_events(); /* what is deleted by hand is another matter */
    lock = make_lock_with(
        client_by_sentinels(), KEY,
        TL_LOCK_OPTIONS(.ttl_ms = FAILOVER_MS, .on_event = lock_events_add, .ctx = events));
    ASSERT_RESULT(tl_lock_acquire(lock, FAILOVER_MS, &said), TL_OK);
    must(server, "DEL " KEY);
    lost = lock_events_await(events, TL_LOST, FAILOVER_MS);
    assert_int_equal(lost.why, TL_LOST_GONE);
    assert_string_equal(lost.detail, KEY ": its key no longer exists");
}

TEST_IN(a_rest_that_all_replicas_have_confirmed_survives_a_failover, FIRST) {
    tl_lock *lock = by_hand(
        client_with(TL_CLIENT_OPTIONS(.wait_replicas = real_fleet_servers(fleet) - 1,
                                      .wait_replicas_ms = SOON_MS)),
        AGES_MS);
    tl_lock *other = by_hand(client_by_sentinels(), AGES_MS);
    const long long began_us = server_us(server);
    ASSERT_RESULT(tl_lock_acquire(lock, FAILOVER_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_rest(lock, HOUR_MS, &said), TL_OK);
    for (int i = 0; i < 2; i++) {
        assert_rests_for(server, KEY, began_us, HOUR_MS);
        ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_EBUSY);
        ASSERT_SAID("it rests");
        if (i == 0)
            fail_over();
    }
}

/* ---- what a failover must not forget: quiet_ms ------------------------------------------------- */

static tl_client *quiet_client(void) {
    return client_with(TL_CLIENT_OPTIONS(.quiet_ms = SENTINEL_QUIET_MS(SHORT_MS)));
}

static void count_on(const char *after) {
    real_fleet_mend(fleet); /* while nothing is given yet */
    const int counted = contest_counted();
    WAIT_FOR(FAILOVER_MS, contest_counted() > counted + 10);
    print_message("%s: %d ms without service\n", after, (int)contest_pause_ms());
}

/* It is stopped with renewals in its sockets, another is promoted, and it wakes and carries them out: by then nobody
 * listens to it, and what it answers doesn't count. */
static void wake_a_former_master(void) {
    lock_events *events = make_events();
    tl_lock *lock = make_lock_with(
        client_by_sentinels(), "chaos:woken",
        TL_LOCK_OPTIONS(.ttl_ms = 10 * DOWN_MS, .on_event = lock_events_add, .ctx = events));
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    real_node *former = real_fleet_master(fleet);
    WAIT_FOR(SOON_MS, real_redis_int(former->redis, "WAIT 2 1000") >= 2);
    must(former->redis, "CLIENT NO-EVICT off"); /* answered: nothing else is in its sockets */
    real_redis_freeze(former->redis);
    (void)real_fleet_await_master(fleet, former);
    must(real_fleet_master(fleet)->redis,
         "DEL chaos:woken tidelock:{chaos:woken}"); /* as if it hadn't come along */
    real_redis_thaw(former->redis);
    lock_event lost = lock_events_await(events, TL_LOST, FAILOVER_MS);
    assert_true(lost.why == TL_LOST_GONE || lost.why == TL_LOST_EXPIRED);
    assert_int_equal(tl_lock_remaining_ms(lock), 0);
}

/* More faults, for longer: make soak. */
TEST_IN(nobody_holds_twice_over_failovers, BESIDE) {
    enum { CONTENDERS = 4 };
    take_for_down_after(DOWN_MS);
    tl_client *shared = quiet_client();
    tl_lock *locks[CONTENDERS];
    for (int i = 0; i < CONTENDERS; i++)
        locks[i] = make_lock(i ? shared : quiet_client(), KEY, SHORT_MS);
    contest_start(locks, CONTENDERS, 2 * SHORT_MS, 0);
    WAIT_FOR(FAILOVER_MS, contest_counted() > 10);
    (void)contest_pause_ms();
    sentinel_fault_named("the master killed")->strike(fleet);
    count_on("the master killed");
    wake_a_former_master();
    count_on("the master stopped, and woken after the promotion");
    contest_end();
}

/* All that may take over have what is held: nothing needs to be waited for. */
TEST_IN(what_all_replicas_have_confirmed_is_not_held_twice, BESIDE) {
    enum { CONTENDERS = 3 };
    tl_lock *locks[CONTENDERS];
    for (int i = 0; i < CONTENDERS; i++)
        locks[i] = make_lock(
            client_with(TL_CLIENT_OPTIONS(.wait_replicas = real_fleet_servers(fleet) - 1)), KEY,
            KEPT_MS);
    contest_start(locks, CONTENDERS, 2 * KEPT_MS, 0);
    WAIT_FOR(FAILOVER_MS, contest_counted() > 10);
    (void)contest_pause_ms();
    sentinel_fault_named("a graceful failover")->strike(fleet);
    count_on("a graceful failover, with replicas that confirm");
    contest_end();
}

static void prefer(real_node *node, const char *priority) {
    char command[64];
    (void)snprintf(command, sizeof command, "CONFIG SET replica-priority %s", priority);
    must(node->redis, command);
}

/* A server that was a replica meanwhile has the run id of before: others may have held locks since, of which it knows
 * nothing. Both clients have connections that are idle. */
TEST_IN(who_was_a_replica_meanwhile_is_another, BESIDE) {
    real_node *first = real_fleet_master(fleet);
    tl_lock *lock = make_lock(client_with(TL_CLIENT_OPTIONS(.quiet_ms = SHORT_MS)), KEY, SHORT_MS);
    tl_lock *other = by_hand(client_by_sentinels(), AGES_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, FAILOVER_MS, &said), TL_OK);
    (void)tl_lock_release(lock, &said); /* on a busy machine it may be over already */
    ASSERT_RESULT(tl_lock_acquire(other, SOON_MS, &said), TL_OK);
    uint64_t fence = tl_lock_fence(other);
    ASSERT_RESULT(tl_lock_release(other, &said), TL_OK);
    prefer(first, "1");
    fail_over();
    assert_ptr_not_equal(server, first->redis);
    ASSERT_RESULT(tl_lock_acquire(other, SOON_MS, &said), TL_OK);
    assert_true(key_exists() && tl_lock_fence(other) > fence);
    ASSERT_RESULT(tl_lock_release(other, &said), TL_OK);
    while (real_fleet_master(fleet) != first) {
        real_fleet_mend(fleet);
        fail_over();
    }
    prefer(first, "100");
    int64_t began = clock_ms();
    ASSERT_RESULT(tl_lock_acquire(lock, FAILOVER_MS, &said), TL_OK);
    ASSERT_TOOK(began, SHORT_MS - ROUNDED_MS, FAILOVER_MS);
    const bool exists = key_exists();
    assert_true(exists || tl_lock_remaining_ms(lock) == 0); /* over already, on a busy machine */
}

/* ---- a holder on the side of the former master ------------------------------------------------- */

typedef struct {
    atomic_llong until_us;  /* the holder believed at most so long, */
    atomic_llong lost_us;   /* was told of the loss then, */
    atomic_bool held, risk; /* and of the risk before */
    atomic_bool still;      /* it stood still for long enough to be told of none */
} belief;

static void told(tl_lock *lock, const tl_lock_event *event, void *ctx) {
    belief *b = ctx;
    (void)lock;
    if (event->state == TL_AT_RISK)
        atomic_store(&b->risk, event->remaining_ms > 0);
    if (event->state == TL_LOST)
        atomic_store(&b->lost_us, clock_us());
}

/* In a process of its own, whose connections stay on side 0. */
__attribute__((noreturn)) static void believe(belief *b) {
    tl_client *client;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    real_fleet_stand_on(0);
    tl_client_options options = TL_CLIENT_OPTIONS(.url = real_fleet_url(fleet),
                                                  .sentinel_password = SENTINEL_PASSWORD);
    tl_lock_options terms = TL_LOCK_OPTIONS(.ttl_ms = SHORT_MS, .on_event = told, .ctx = b);
    if (tl_client_open(&options, &client, NULL))
        _exit(1);
    tl_lock *lock = tl_lock_new(client, KEY, strlen(KEY), &terms, NULL);
    if (!lock || tl_lock_acquire(lock, FAILOVER_MS, NULL))
        _exit(2);
    for (int64_t before_us = clock_us(), now_us; !atomic_load(&b->lost_us); before_us = now_us) {
        now_us = clock_us();
        const int64_t remaining_ms = tl_lock_remaining_ms(lock);
        if (now_us - before_us > SHORT_MS * 1000 / 8)
            atomic_store(&b->still, true);
        if (remaining_ms > 0)
            atomic_store(&b->until_us, now_us + remaining_ms * 1000);
        atomic_store(&b->held, remaining_ms > 0);
        (void)poll(NULL, 0, 1);
    }
    _exit(0);
}

/* All but the master and one Sentinel are with the others. */
static void part_from_holder(const real_node *master) {
    for (int i = 0; i < real_fleet_servers(fleet); i++)
        if (real_fleet_server(fleet, i) != master)
            real_fleet_part(fleet, real_fleet_server(fleet, i), 1);
    for (int i = 1; i < SENTINELS; i++)
        real_fleet_part(fleet, real_fleet_sentinel(fleet, i), 1);
}

/* The former master answers its keeps, and one Sentinel names it still. */
TEST_IN(a_holder_cut_off_with_the_master_has_lost_before_another_acquires, FIRST) {
    // cppcheck-suppress invalidFunctionArg ; -1 is what anonymous memory wants
    belief *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(b, MAP_FAILED);
    pid_t pid = fork();
    if (pid == 0)
        believe(b);
    WAIT_FOR(FAILOVER_MS, atomic_load(&b->held));
    take_for_down_after(DOWN_MS);
    const int64_t parted_us = clock_us();
    real_node *former = real_fleet_master(fleet);
    part_from_holder(former);
    (void)real_fleet_await_master(fleet, former);
    tl_lock *next = make_lock(quiet_client(), KEY, SHORT_MS);
    ASSERT_RESULT(tl_lock_acquire(next, FAILOVER_MS, &said), TL_OK);
    const int64_t acquired_us = clock_us();
    WAIT_FOR(SOON_MS, atomic_load(&b->lost_us)); /* however late it is told, it has not believed */
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    print_message("lost %d ms after the parting, acquired %d ms later\n",
                  (int)((atomic_load(&b->lost_us) - parted_us) / 1000),
                  (int)((acquired_us - atomic_load(&b->lost_us)) / 1000));
    assert_in_range(atomic_load(&b->until_us), parted_us, acquired_us);
    assert_true(atomic_load(&b->risk) || atomic_load(&b->still));
    assert_in_range(atomic_load(&b->lost_us), parted_us,
                    atomic_load(&b->until_us) + 1000 * SLACK_MS);
    munmap(b, sizeof *b);
}

/* ---- by URLs of servers: a master that stops by itself ------------------------------------------- */

#define LAG_S 1
#define STOPS_MS                                                                                   \
    ((LAG_S + 2) * 1000) /* so long after it was cut off it may execute what it is sent */

static tl_client *client_of(const real_node *node) {
    char url[128];
    (void)snprintf(url, sizeof url, "redis://:" MASTER_PASSWORD "@127.0.0.1:%d", node->port);
    return make_client_with(TL_CLIENT_OPTIONS(.url = url, .quiet_ms = SHORT_MS + STOPS_MS,
                                              .attempt_ms = SOON_MS, .connect_ms = FAILOVER_MS));
}

static void stop_without_replicas(real_node *master, int replicas) {
    char least[64], lag[64];
    (void)snprintf(least, sizeof least, "CONFIG SET min-replicas-to-write %d", replicas);
    (void)snprintf(lag, sizeof lag, "CONFIG SET min-replicas-max-lag %d", LAG_S);
    must(master->redis, lag);
    must(master->redis, least);
}

/* It is cut off from all but its holder, who has no Sentinels to ask: it refuses writes itself, as its replicas are gone. */
TEST_IN(a_master_that_stops_without_its_replicas_leaves_no_two_holders, BESIDE) {
    real_node *former = real_fleet_master(fleet);
    lock_events *events = make_events();
    tl_lock *lock = make_lock_with(
        client_of(former), KEY,
        TL_LOCK_OPTIONS(.ttl_ms = SHORT_MS, .on_event = lock_events_add, .ctx = events));
    take_for_down_after(DOWN_MS);
    stop_without_replicas(former, real_fleet_servers(fleet) - 1);
    ASSERT_RESULT(tl_lock_acquire(lock, FAILOVER_MS, &said), TL_OK);
    WAIT_FOR(SOON_MS, real_redis_int(former->redis, "WAIT 2 1000") >= 2);
    const int64_t parted_ms = clock_ms();
    for (int i = 0; i < real_fleet_servers(fleet); i++)
        if (real_fleet_server(fleet, i) != former)
            real_fleet_part(fleet, real_fleet_server(fleet, i), 1);
    for (int i = 0; i < SENTINELS; i++)
        real_fleet_part(fleet, real_fleet_sentinel(fleet, i), 1);
    (void)real_fleet_await_master(fleet, former);
    acquiring *next = acquiring_begin(make_lock(client_of(real_fleet_master(fleet)), KEY, SHORT_MS),
                                      FAILOVER_MS);
    lock_event lost;
    int64_t until_us = 0;
    const clock_wait limit = clock_wait_begin(FAILOVER_MS);
    while (!lock_events_find(events, 0, TL_LOST, &lost)) {
        const int64_t now_us = clock_us(), remaining_ms = tl_lock_remaining_ms(lock);
        until_us = remaining_ms > 0 ? now_us + remaining_ms * 1000 : until_us;
        assert_true(clock_wait_more(&limit));
    }
    const int64_t lost_ms = clock_ms() - parted_ms;
    ASSERT_RESULT(acquiring_end(next, FAILOVER_MS), TL_OK);
    if (next->ended_us < until_us)
        fail_msg("two holders: the former master has answered for %d ms", (int)lost_ms);
    print_message("lost %d ms after the parting, acquired %d ms later\n", (int)lost_ms,
                  (int)(clock_ms() - parted_ms - lost_ms));
    stop_without_replicas(former, 0);
}

/* ---- Sentinels stopped: they lead no failover for half a minute afterwards --------------- */

TEST_IN(one_named_sentinel_leads_to_the_others, FIRST) {
    tl_client *client = client_by_one();
    tl_lock *lock = by_hand(client, AGES_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    real_redis_freeze(sentinel(0));
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_extend(lock, AGES_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

TEST_IN(a_sentinel_that_is_down_costs_nothing, FIRST) {
    tl_lock *lock = by_hand(client_by_sentinels(), AGES_MS);
    real_redis_freeze(sentinel(1));
    for (int i = 0; i < 3; i++) {
        ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
        ASSERT_RESULT(tl_lock_extend(lock, AGES_MS, &said), TL_OK);
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    }
}

TEST_IN(fewer_than_a_majority_of_the_sentinels, FIRST) {
    real_redis_freeze(sentinel(1));
    real_redis_freeze(sentinel(2));
    ASSERT_RESULT(ping_briefly(REAL_FLEET_NAME, SENTINEL_PASSWORD,
                               REAL_FLEET_NAME ": no majority of the Sentinels: 1 of 3 answer"),
                  TL_EUNAVAILABLE);
}

/* Its user may not run INFO, and the URL names it otherwise than it announces itself: it has two places. */
TEST_IN(one_sentinel_by_two_names_is_no_majority, FIRST) {
    NEEDS_SERVER(REAL_SEVEN);
    char url[160];
    for (int i = 0; i < SENTINELS; i++)
        must(sentinel(i), "ACL SETUSER default -info");
    (void)snprintf(url, sizeof url,
                   "redis+sentinel://:" MASTER_PASSWORD
                   "@localhost:%d,localhost:%d,localhost:%d/" REAL_FLEET_NAME,
                   real_fleet_sentinel(fleet, 0)->port, real_fleet_sentinel(fleet, 1)->port,
                   real_fleet_sentinel(fleet, 2)->port);
    tl_lock *lock = by_hand(client_with(TL_CLIENT_OPTIONS(.url = url, .attempt_ms = 3000)),
                            AGES_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    real_redis_freeze(sentinel(1));
    real_redis_freeze(sentinel(2));
    tl_err code = TL_OK;
    WAIT_FOR(FAILOVER_MS, (code = tl_lock_extend(lock, AGES_MS, &said)) != TL_OK &&
                              !strstr(said.message, "0 of 3")); /* too slow, all of them */
    ASSERT_RESULT(code, TL_EUNCERTAIN);
    ASSERT_SAID("no majority of the Sentinels: 1 of 3 answer");
}

/* The master is well, and says so; but whether it is still the master nobody can tell. */
TEST_IN(without_a_majority_no_renewal_counts_and_nothing_is_acquired, FIRST) {
    lock_events *events = make_events();
    tl_client *client = client_by_sentinels();
    tl_lock *lock = make_lock_with(
        client, KEY,
        TL_LOCK_OPTIONS(.ttl_ms = KEPT_MS, .on_event = lock_events_add, .ctx = events));
    tl_lock *other = make_lock_with(client, "chaos:other", TL_LOCK_OPTIONS(.ttl_ms = AGES_MS));
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    real_redis_freeze(sentinel(1));
    real_redis_freeze(sentinel(2));
    assert_told_of_risk(events, KEPT_MS);
    lock_event lost = lock_events_await(events, TL_LOST, SOON_MS);
    assert_int_equal(lost.why, TL_LOST_EXPIRED);
    ASSERT_RESULT(tl_lock_acquire(other, 100, &said), TL_EUNAVAILABLE);
    real_redis_thaw(sentinel(1));
    ASSERT_RESULT(tl_lock_acquire(other, SOON_MS, &said), TL_OK);
}

/* ---- both groups at once ----------------------------------------------------------------------- */

__attribute__((noreturn)) static void run_beside(FILE *said_there) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)dup2(fileno(said_there), STDOUT_FILENO);
    (void)dup2(fileno(said_there), STDERR_FILENO);
    exit(tests_run_group("beside", BESIDE, NULL, NULL));
}

int main(void) {
    real_server_need(REAL_SEVEN);
    int status = 1, c;
    FILE *said_there = tmpfile();
    if (!said_there)
        return 1;
    pid_t pid = fork();
    if (pid == 0)
        run_beside(said_there);
    int failed = tests_run_group("first", FIRST, NULL, NULL);
    (void)waitpid(pid, &status, 0);
    rewind(said_there);
    while ((c = fgetc(said_there)) != EOF)
        (void)putchar(c);
    (void)fclose(said_there);
    return failed || status;
}
