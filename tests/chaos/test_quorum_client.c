/*
 * Clients of redis+quorum: on five real servers: servers killed, restarted empty one after the other, stopped while a vote
 * is on its way, and a crowd that waits while the first server is stopped. Under load what the lock protects is counted
 * exactly, and fencing numbers increase. timeout: 240
 */

/*
 * Faults and outcomes (tests/README.md says what is asserted of each):
 * - two of five independent servers killed: a held lock stays held (AT_RISK), a free one can be acquired.
 * - three killed: LOST by the deadline, and no other client acquires the lock.
 * - two killed before a rest: it counts; three: UNCERTAIN or UNAVAILABLE.
 * - killed and stopped in turn, and all five restarted empty in turn with `quiet_ms`: held locks stay held, contended
 *   ones are counted.
 * - one stopped with a vote in flight until after the release: nothing is left; the first one while twenty wait: all
 *   acquire in turn.
 * - three places of the URL are one server: EINVAL "another server of the URL is the same".
 * - a wrong password at three of five: EDENIED.
 */
#include "arena.h"

#include "client/lock.h"
#include "protocol/quorum_renew.h"
#include "contest.h"

#define SERVERS 5
#define URL_SIZE 512
#define LIFE_MS SAFE_MS
#define LOST_IN_MS clock_patient_ms(3000) /* a lifetime that is waited out */
#define CROWD 6
#define CLIENTS 3
#define WAITERS 20

static real_redis *servers[SERVERS];
static char quorum_url[URL_SIZE];

/* ---- the set-up ------------------------------------------------------------------------------ */

static void add_server(char *url, real_redis *r) {
    size_t n = strlen(url);
    (void)snprintf(url + n, URL_SIZE - n, "%s127.0.0.1:%d", n > 15 ? "," : "", real_redis_port(r));
}

static int set_up(void **state) {
    (void)state;
    (void)snprintf(quorum_url, sizeof quorum_url, "redis+quorum://");
    for (int i = 0; i < SERVERS; i++) {
        if (!servers[i])
            servers[i] = real_redis_start(NULL);
        add_server(quorum_url, servers[i]);
    }
    return 0;
}

static int tear_down(void **state) {
    contest_abandon();
    for (int i = 0; i < SERVERS; i++)
        real_redis_thaw(servers[i]);
    for (int i = 0; i < SERVERS; i++)
        if (!real_redis_is_running(servers[i]))
            real_redis_restart(servers[i]); /* clients ask as they close */
    int failed = locks_clean_up(state);
    for (int i = 0; i < SERVERS; i++) {
        freeReplyObject(real_redis_command(servers[i], "FLUSHALL"));
    }
    return failed;
}

TESTS_WITH(set_up, tear_down);

static tl_client *quorum_client_with(tl_client_options options) {
    options.url = quorum_url;
    options.quiet_ms = options.quiet_ms ? options.quiet_ms : TL_QUIET_OFF;
    options.attempt_ms = options.attempt_ms ? options.attempt_ms : SOON_MS;
    options.connect_ms = SOON_MS;
    return make_client_with(options);
}

static tl_client *quorum_client(void) {
    return quorum_client_with(TL_CLIENT_OPTIONS(.service = "test"));
}

/* One that gives up soon on a server that doesn't answer. */
static tl_client *hasty_client(void) {
    return quorum_client_with(TL_CLIENT_OPTIONS(.attempt_ms = ATTEMPT_MS));
}

static tl_lock *kept(tl_client *client, int64_t ttl_ms, lock_events *events) {
    return make_lock_with(
        client, KEY, TL_LOCK_OPTIONS(.ttl_ms = ttl_ms, .on_event = lock_events_add, .ctx = events));
}

static void let_pass(int64_t ms) {
    const clock_wait wait = clock_wait_begin(ms);
    while (clock_wait_more(&wait)) {}
}

static int voters(const char *key) {
    int n = 0;
    for (int i = 0; i < SERVERS; i++)
        n += real_redis_is_running(servers[i]) && real_redis_int(servers[i], "EXISTS %s", key) == 1;
    return n;
}

/* One that isn't renewed has a majority's votes, and no more, where the machine was too busy for the others to be waited
 * for. */
static void acquire_of_all(tl_lock *lock) {
    for (int i = 0; i < 20; i++) {
        ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
        const clock_wait wait = clock_wait_begin(clock_patient_ms(200));
        while (voters(KEY) < SERVERS && clock_wait_more(&wait)) {}
        if (voters(KEY) == SERVERS)
            return;
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    }
    fail_msg("never at all servers");
}

/* ---- well ------------------------------------------------------------------------------------ */

TEST(it_is_acquired_renewed_and_released_at_all_servers) {
    lock_events *events = make_events();
    tl_client *client = quorum_client();
    tl_lock *one = kept(client, LIFE_MS, events);
    tl_lock *other = make_lock(quorum_client(), KEY, LIFE_MS);
    ASSERT_RESULT(tl_lock_acquire(one, 0, &said), TL_OK);
    assert_true(tl_lock_fence(one) > 0);
    assert_int_equal(tl_lock_state(one), TL_HELD);
    assert_in_range(tl_lock_remaining_ms(one), 1, LIFE_MS);
    WAIT_FOR(SOON_MS, voters(KEY) == SERVERS);
    ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_EBUSY);
    ASSERT_SAID("another holds it");
    WAIT_FOR(SOON_MS, renewals_of(client) >= SERVERS);
    ASSERT_GOES_ON(one);
    assert_int_equal(voters(KEY), SERVERS);
    uint64_t fence = tl_lock_fence(one);
    ASSERT_RESULT(tl_lock_release(one, &said), TL_OK);
    assert_int_equal(tl_lock_state(one), TL_FREE);
    WAIT_FOR(SOON_MS, voters(KEY) == 0);
    ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_OK);
    assert_true(tl_lock_fence(other) > fence);
    ASSERT_RESULT(tl_lock_release(other, &said), TL_OK);
    assert_int_equal(lock_events_count_of(events, TL_LOST), 0);
}

TEST(who_waits_is_told_of_the_release) {
    NEEDS_SERVER(REAL_SCAN);
    tl_lock *holder = make_lock(quorum_client(), KEY, AGES_MS);
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    acquiring *waiter = acquiring_begin(make_lock(quorum_client(), KEY, AGES_MS), TL_FOREVER);
    WAIT_FOR(SOON_MS, real_redis_int(servers[0], "PUBSUB NUMPAT") == 0 && /* a command that works */
                          voters(KEY) == SERVERS);
    let_pass(300); /* it listens by now, and sleeps until it is told */
    assert_false(atomic_load(&waiter->done));
    ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_OK);
    assert_true(tl_lock_fence(waiter->lock) > tl_lock_fence(holder));
}

TEST(a_wait_ends_at_its_limit_and_when_it_is_cancelled) {
    tl_lock *holder = make_lock(quorum_client(), KEY, AGES_MS);
    tl_lock *other = make_lock(quorum_client(), KEY, AGES_MS);
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    ASSERT_RESULT(acquire_to_limit(other, 300), TL_ETIMEDOUT);
    acquiring *waiter = acquiring_begin(other, TL_FOREVER);
    let_pass(200);
    tl_lock_cancel(other);
    ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_ECANCELLED);
    tl_lock_cancel(other); /* before it begins */
    ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_ECANCELLED);
    ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
    ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_OK);
}

TEST(locks_of_one_client_come_one_after_the_other) {
    tl_client *client = quorum_client();
    tl_lock *one = make_lock(client, KEY, AGES_MS), *other = make_lock(client, KEY, AGES_MS);
    ASSERT_RESULT(tl_lock_acquire(one, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_acquire(one, 0, &said), TL_EINVALID);
    ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_EBUSY);
    ASSERT_SAID("another handle of this process holds it");
    acquiring *waiter = acquiring_begin(other, TL_FOREVER);
    let_pass(100);
    assert_false(atomic_load(&waiter->done));
    ASSERT_RESULT(tl_lock_release(one, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_OK);
    assert_true(tl_lock_fence(other) > tl_lock_fence(one));
    ASSERT_RESULT(tl_lock_release(one, &said), TL_EINVALID);
}

TEST(a_lock_is_extended_and_adopted_by_its_token) {
    tl_client *client = quorum_client(), *another = quorum_client();
    tl_lock *one = by_hand(client, LIFE_MS), *heir = make_lock(another, KEY, AGES_MS);
    ASSERT_RESULT(tl_lock_acquire(one, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_extend(one, AGES_MS, &said), TL_OK);
    assert_true(tl_lock_remaining_ms(one) > LIFE_MS);
    ASSERT_RESULT(tl_lock_adopt(heir, tl_lock_token(one), &said), TL_OK);
    assert_int_equal(tl_lock_remaining_ms(heir), 0);
    drop_lock(one);
    ASSERT_RESULT(tl_lock_extend(heir, 2 * LOST_IN_MS, &said), TL_OK);
    WAIT_FOR(SOON_MS, renewals_of(another) >= SERVERS);
    ASSERT_RESULT(tl_lock_extend(heir, LIFE_MS, &said), TL_OK);
    ASSERT_GOES_ON(heir);
    ASSERT_RESULT(tl_lock_adopt(heir, "x", &said), TL_EINVALID);
    ASSERT_RESULT(tl_lock_release(heir, &said), TL_OK);
    WAIT_FOR(SOON_MS, voters(KEY) == 0);
    tl_lock *late = make_lock(another, KEY, AGES_MS);
    ASSERT_RESULT(tl_lock_adopt(late, "gone", &said), TL_OK);
    ASSERT_RESULT(tl_lock_extend(late, AGES_MS, &said), TL_EEXPIRED);
    ASSERT_SAID("a majority of the servers doesn't hold it");
    ASSERT_RESULT(tl_lock_adopt(late, "gone", &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(late, &said), TL_EEXPIRED);
}

/* ---- a rest ---------------------------------------------------------------------------------- */

#define REST_MS 3000 /* one that is waited out */

static int rests_at(void) {
    int n = 0;
    for (int i = 0; i < SERVERS; i++)
        n += real_redis_is_running(servers[i]) && rest_end_us(servers[i], KEY) > 0;
    return n;
}

static void assert_rests_at_each(long long began_us, int64_t ms) {
    WAIT_FOR(SOON_MS, rests_at() == SERVERS);
    for (int i = 0; i < SERVERS; i++)
        assert_rests_for(servers[i], KEY, began_us, ms);
}

TEST(a_rest_is_at_all_servers_and_nobody_acquires_it) {
    tl_lock *lock = by_hand(quorum_client(), AGES_MS), *other = by_hand(quorum_client(), AGES_MS);
    const long long began_us = server_us(servers[0]);
    acquire_of_all(lock);
    ASSERT_RESULT(tl_lock_rest(lock, HOUR_MS, &said), TL_OK);
    assert_int_equal(tl_lock_state(lock), TL_FREE);
    assert_rests_at_each(began_us, HOUR_MS);
    for (int i = 0; i < 3; i++) {
        ASSERT_RESULT(tl_lock_acquire(i == 2 ? lock : other, 0, &said), TL_EBUSY);
        ASSERT_SAID("it rests");
    }
    assert_rests_at_each(began_us, HOUR_MS); /* what was tried has moved nothing */
}

TEST(a_wait_for_a_holder_alone_ends_when_it_rests) {
    tl_lock *lock = by_hand(quorum_client(), AGES_MS);
    tl_lock *waits = make_lock_with(quorum_client(), KEY,
                                    TL_LOCK_OPTIONS(.ttl_ms = AGES_MS, .rest_ends_wait = true));
    acquire_of_all(lock);
    acquiring *waiter = acquiring_begin(waits, TL_FOREVER);
    let_pass(200);
    assert_false(atomic_load(&waiter->done));
    ASSERT_RESULT(tl_lock_rest(lock, HOUR_MS, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_EBUSY);
    ASSERT_SAID("it rests");
}

TEST(a_waiter_acquires_it_when_its_rest_has_ended) {
    tl_lock *lock = by_hand(quorum_client(), AGES_MS);
    acquiring *waiter = NULL;
    const long long began_us = server_us(servers[0]);
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    waiter = acquiring_begin(make_lock(quorum_client(), KEY, AGES_MS), TL_FOREVER);
    ASSERT_RESULT(tl_lock_rest(lock, REST_MS, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_OK);
    const long long passed_us = server_us(servers[0]) - began_us;
    print_message("acquired %d ms after the end of the rest\n", (int)(passed_us / 1000 - REST_MS));
    assert_true(passed_us >= REST_MS * 1000);
    assert_true(tl_lock_fence(waiter->lock) > tl_lock_fence(lock));
}

/* A majority has it: that is enough. Fewer don't, and then nobody knows. */
TEST(a_rest_counts_when_a_majority_has_it) {
    for (int killed = 2; killed <= 3; killed++) {
        tl_lock *lock = by_hand(killed == 2 ? quorum_client() : hasty_client(), AGES_MS);
        for (int i = 0; i < SERVERS; i++)
            freeReplyObject(real_redis_command(servers[i], "FLUSHALL"));
        const long long began_us = server_us(servers[0]);
        acquire_of_all(lock);
        for (int i = 0; i < killed; i++)
            real_redis_kill(servers[SERVERS - 1 - i]);
        const tl_err code = tl_lock_rest(lock, HOUR_MS, &said);
        if (killed == 2)
            ASSERT_RESULT(code, TL_OK);
        else
            assert_true(code == TL_EUNCERTAIN || code == TL_EUNAVAILABLE);
        WAIT_FOR(SOON_MS, rests_at() == SERVERS - killed);
        for (int i = 0; i < SERVERS - killed; i++)
            assert_rests_for(servers[i], KEY, began_us, HOUR_MS);
        if (killed == 2) {
            ASSERT_RESULT(tl_lock_acquire(by_hand(quorum_client(), AGES_MS), 0, &said), TL_EBUSY);
            ASSERT_SAID("it rests");
        }
        for (int i = 0; i < killed; i++)
            real_redis_restart(servers[SERVERS - 1 - i]);
    }
}

/* ---- without blocking ------------------------------------------------------------------------ */

typedef struct {
    atomic_int calls;
    tl_err code;
} outcome;

static void note(tl_lock *lock, tl_err code, const tl_error *err, void *ctx) {
    outcome *o = ctx;
    (void)lock;
    (void)err;
    o->code = code;
    atomic_fetch_add(&o->calls, 1);
}

TEST(it_is_acquired_cancelled_and_released_without_blocking) {
    outcome first = {0}, second = {0}, released = {0};
    tl_lock *one = make_lock(quorum_client(), KEY, AGES_MS);
    tl_lock *other = make_lock(quorum_client(), KEY, AGES_MS);
    ASSERT_RESULT(tl_lock_acquire_async(one, 0, note, &first, &said), TL_OK);
    WAIT_FOR(SOON_MS, atomic_load(&first.calls) == 1);
    assert_int_equal(first.code, TL_OK);
    assert_true(tl_lock_fence(one) > 0);
    ASSERT_RESULT(tl_lock_acquire_async(other, TL_FOREVER, note, &second, &said), TL_OK);
    let_pass(200);
    tl_lock_cancel(other);
    WAIT_FOR(SOON_MS, atomic_load(&second.calls) == 1);
    assert_int_equal(second.code, TL_ECANCELLED);
    ASSERT_RESULT(tl_lock_acquire_async(other, TL_FOREVER, note, &second, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release_async(one, note, &released, &said), TL_OK);
    WAIT_FOR(SOON_MS, atomic_load(&second.calls) == 2 && atomic_load(&released.calls) == 1);
    assert_int_equal(second.code, TL_OK);
    assert_int_equal(released.code, TL_OK);
    assert_true(tl_lock_fence(other) > tl_lock_fence(one));
}

TEST(a_program_without_threads_dispatches) {
    outcome done = {0};
    tl_client *client = quorum_client_with(TL_CLIENT_OPTIONS(.dispatch = true));
    tl_lock *one = make_lock(client, KEY, AGES_MS);
    for (int i = 0; i < 50; i++) {
        ASSERT_RESULT(tl_lock_acquire_async(one, SOON_MS, note, &done, &said), TL_OK);
        WAIT_FOR(SOON_MS, tl_client_dispatch(client) >= 0 && atomic_load(&done.calls) == 2 * i + 1);
        assert_int_equal(done.code, TL_OK);
        ASSERT_RESULT(tl_lock_release_async(one, note, &done, &said), TL_OK);
        WAIT_FOR(SOON_MS, tl_client_dispatch(client) >= 0 && atomic_load(&done.calls) == 2 * i + 2);
        assert_int_equal(done.code, TL_OK);
    }
}

/* Nobody dispatches: so it is never told that it holds the lock. */
TEST(who_walks_away_while_it_acquires_leaves_nothing) {
    outcome done = {0};
    tl_client *client = quorum_client_with(TL_CLIENT_OPTIONS(.dispatch = true));
    for (int i = 0; i < 30; i++) {
        tl_lock *one = make_lock(client, KEY, AGES_MS);
        ASSERT_RESULT(tl_lock_acquire_async(one, 0, note, &done, &said), TL_OK);
        let_pass(i % 3);
        drop_lock(one);
        WAIT_FOR(SOON_MS, voters(KEY) == 0);
    }
}

/* ---- servers that fail ----------------------------------------------------------------------- */

TEST(with_two_of_five_killed_it_is_held_and_acquired) {
    lock_events *events = make_events();
    tl_lock *one = kept(quorum_client(), LIFE_MS, events);
    tl_lock *other = make_lock(quorum_client(), KEY, LIFE_MS);
    ASSERT_RESULT(tl_lock_acquire(one, 0, &said), TL_OK);
    WAIT_FOR(SOON_MS, voters(KEY) == SERVERS);
    real_redis_kill(servers[1]);
    real_redis_kill(servers[3]);
    WAIT_FOR(SOON_MS, tl_lock_state(one) == TL_AT_RISK);
    assert_true(tl_lock_remaining_ms(one) > 0);
    ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_EBUSY);
    uint64_t fence = tl_lock_fence(one);
    ASSERT_RESULT(tl_lock_release(one, &said), TL_OK);
    ASSERT_RESULT(tl_lock_acquire(other, SOON_MS, &said), TL_OK);
    assert_true(tl_lock_fence(other) > fence);
    ASSERT_RESULT(tl_lock_extend(other, LIFE_MS, &said), TL_OK);
    assert_int_equal(lock_events_count_of(events, TL_LOST), 0);
}

TEST(with_three_of_five_killed_it_is_lost_in_time_and_nobody_gets_it) {
    lock_events *events = make_events();
    tl_lock *one = kept(hasty_client(), LOST_IN_MS, events);
    ASSERT_RESULT(tl_lock_acquire(one, SOON_MS, &said), TL_OK);
    int64_t killed = clock_ms();
    for (int i = 0; i < 3; i++)
        real_redis_kill(servers[i]);
    lock_event lost = lock_events_await(events, TL_LOST, LOST_IN_MS + SLACK_MS);
    assert_int_equal(lost.why, TL_LOST_EXPIRED);
    assert_true(lost.at_us / 1000 - killed <= LOST_IN_MS + SLACK_MS);
    assert_int_equal(tl_lock_remaining_ms(one), 0);
    tl_lock *other = make_lock(hasty_client(), KEY, LIFE_MS);
    ASSERT_RESULT(tl_lock_acquire(other, 500, &said), TL_EUNAVAILABLE);
    ASSERT_SAID("no majority of the 5 servers");
    ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_EUNAVAILABLE);
}

/* Each forgets all. The holder has each vote for it anew; who contends gets nothing of a server that has forgotten. */
/* A machine that stops the renewal thread for nearly a lifetime notices only the deadline: then it is tried again. */
TEST(a_holder_without_a_sign_of_life_loses_it_and_another_acquires_it) {
    tl_client *client = quorum_client();
    tl_lock *other = make_lock_with(quorum_client(), "hung", TL_LOCK_OPTIONS(.ttl_ms = LIFE_MS));
    bool stalled = false;
    for (int i = 0; i < 20 && !stalled; i++) {
        lock_events *events = make_events();
        lock_event risk;
        tl_lock *lock = make_lock_with(client, "hung",
                                       TL_LOCK_OPTIONS(.ttl_ms = 2000, .stall_ms = 20,
                                                       .on_event = lock_events_add, .ctx = events));
        ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
        ASSERT_RESULT(tl_lock_acquire(other, SOON_MS, &said), TL_OK);
        lock_event lost = lock_events_await(events, TL_LOST, SOON_MS);
        stalled = lock_events_find(events, 0, TL_AT_RISK, &risk) && risk.why == TL_RISK_STALLED;
        assert_true(!stalled || lost.why == TL_LOST_STALLED);
        ASSERT_RESULT(tl_lock_release(other, &said), TL_OK);
        drop_lock(lock);
    }
    assert_true(stalled);
}

TEST(all_may_be_restarted_empty_in_turn_under_load) {
    NEEDS_SERVER(REAL_RUN_ID);
    lock_events *events = make_events();
    const int64_t quiet = clock_patient_ms(1500);
    tl_client *clients[CLIENTS];
    tl_lock *contenders[CROWD];
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = quorum_client_with(
            TL_CLIENT_OPTIONS(.quiet_ms = quiet, .attempt_ms = clock_patient_ms(500)));
    /* That lasts though a server needs seconds to be there again; nobody else wants it. */
    tl_lock *one = kept(quorum_client(), 4 * LOST_IN_MS, events);
    ASSERT_RESULT(tl_lock_acquire(one, SOON_MS, &said), TL_OK);
    WAIT_FOR(SOON_MS, voters(KEY) == SERVERS); /* not only at the majority that answered first */
    for (int i = 0; i < CROWD; i++)
        contenders[i] = make_lock(clients[i % CLIENTS], "counted", quiet / 2);
    contest_start(contenders, CROWD, 10 * quiet, 5);
    WAIT_FOR(SOON_MS, contest_counted() > 20);
    for (int i = 0; i < SERVERS; i++) {
        int before = contest_counted();
        real_redis_kill(servers[i]);
        real_redis_restart(servers[i]);
        assert_true(real_redis_int(servers[i], "DBSIZE") < 10);
        WAIT_FOR(SOON_MS, real_redis_int(servers[i], "EXISTS %s", KEY) == 1);
        ASSERT_GOES_ON(one);
        WAIT_FOR(SOON_MS, contest_counted() > before + 5);
    }
    print_message("counted to %d; %lld ms without at most\n", contest_counted(),
                  (long long)contest_pause_ms());
    contest_end();
    assert_int_equal(lock_events_count_of(events, TL_LOST), 0);
    ASSERT_RESULT(tl_lock_release(one, &said), TL_OK);
}

/* Some are killed and some stopped, one after the other, at random moments. */
TEST(what_is_counted_while_servers_come_and_go_is_exact) {
    NEEDS_SERVER(REAL_RUN_ID);
    const int64_t quiet = clock_patient_ms(1000);
    tl_client *clients[CLIENTS];
    tl_lock *contenders[CROWD];
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = quorum_client_with(
            TL_CLIENT_OPTIONS(.quiet_ms = quiet, .attempt_ms = clock_patient_ms(200)));
    for (int i = 0; i < CROWD; i++)
        contenders[i] = make_lock(clients[i % CLIENTS], KEY, quiet);
    contest_start(contenders, CROWD, 10 * quiet, 5);
    WAIT_FOR(SOON_MS + 2 * quiet, contest_counted() > 20);
    for (int i = 0; i < 8; i++) {
        real_redis *victim = servers[(i * 3) % SERVERS];
        int before = contest_counted();
        if (i % 2)
            real_redis_kill(victim);
        else
            real_redis_freeze(victim);
        WAIT_FOR(SOON_MS, contest_counted() > before + 5);
        if (i % 2)
            real_redis_restart(victim);
        else
            real_redis_thaw(victim);
        let_pass(quiet + quiet / 2); /* it may vote again */
    }
    print_message("counted to %d; %lld ms without at most\n", contest_counted(),
                  (long long)contest_pause_ms());
    contest_end();
}

/* By a server that is stopped with the vote in its sockets. It is carried out when all is over, and leaves nothing. */
TEST(a_vote_that_is_carried_out_after_its_release_leaves_nothing) {
    tl_client *client = hasty_client();
    tl_lock *one = make_lock(client, KEY, AGES_MS);
    for (int i = 0; i < 6; i++) {
        ASSERT_RESULT(tl_lock_acquire(one, SOON_MS, &said), TL_OK);
        ASSERT_RESULT(tl_lock_release(one, &said), TL_OK);
        WAIT_FOR(SOON_MS, voters(KEY) == 0);
        real_redis_freeze(servers[2]);
        ASSERT_RESULT(tl_lock_acquire(one, SOON_MS, &said), TL_OK);
        if (i % 2)
            let_pass(2 * ATTEMPT_MS); /* its connection is another by now */
        ASSERT_RESULT(tl_lock_release(one, &said), TL_OK);
        real_redis_thaw(servers[2]);
        WAIT_FOR(SOON_MS, real_redis_int(servers[2], "EXISTS " KEY) == 0);
        let_pass(2 * ATTEMPT_MS);
        assert_int_equal(voters(KEY), 0);
    }
}

static long connections(real_redis *r) {
    static const char name[] = "total_connections_received:";
    redisReply *stats = real_redis_command(r, "INFO stats");
    assert_non_null(stats);
    const char *at = strstr(stats->str, name);
    assert_non_null(at);
    long n = strtol(at + strlen(name), NULL, 10);
    freeReplyObject(stats);
    return n;
}

/* The connection is the renewals', too: it outlives what one in haste has asked a slow server. */
static bool is_doubted(const tl_lock *lock, int server) {
    const tl_quorum_renewal *hold = lock->room;
    return hold->ballots.doubted & 1U << server;
}

/* The last server has voted for another when it is acquired, and is asked for its vote by the extension. */
TEST(what_an_extension_has_asked_for_in_vain_the_release_looks_for) {
    const int last = SERVERS - 1;
    tl_lock *lock = make_lock_with(hasty_client(), KEY,
                                   TL_LOCK_OPTIONS(.ttl_ms = 4 * LIFE_MS, .manual_renew = true));
    freeReplyObject(real_redis_command(servers[last], "SET " KEY " another"));
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    for (int i = 0; i < 20 && is_doubted(lock, last); i++) { /* it answered late */
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
        ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    }
    assert_false(is_doubted(lock, last));
    freeReplyObject(real_redis_command(servers[last], "DEL " KEY));
    for (int i = 0; i < SERVERS; i++)
        real_redis_freeze(servers[i]);
    ASSERT_RESULT(tl_lock_extend(lock, 4 * LIFE_MS, &said), TL_EUNCERTAIN);
    assert_true(is_doubted(lock, last));
    for (int i = 0; i < SERVERS; i++)
        real_redis_thaw(servers[i]);
    (void)tl_lock_release(lock, &said);
    WAIT_FOR(SOON_MS, voters(KEY) == 0);
}

TEST(who_waits_for_a_moment_ends_nobodys_connection) {
    lock_events *events = make_events();
    tl_client *client = quorum_client();
    tl_lock *one = kept(client, AGES_MS, events), *other = make_lock(client, "other", AGES_MS);
    ASSERT_RESULT(tl_lock_acquire(one, 0, &said), TL_OK);
    WAIT_FOR(SOON_MS, voters(KEY) == SERVERS);
    long before = connections(servers[2]);
    real_redis_freeze(servers[2]);
    (void)tl_lock_acquire(other, 20, &said);
    let_pass(100);
    real_redis_thaw(servers[2]);
    let_pass(1500); /* the first renewal */
    assert_int_equal(connections(servers[2]), before);
    ASSERT_GOES_ON(one);
    assert_int_equal(lock_events_count_of(events, TL_AT_RISK), 0);
}

TEST(twenty_get_it_one_after_the_other_while_the_first_server_is_stopped) {
    acquiring *waiters[WAITERS];
    int left = WAITERS;
    uint64_t last = 0;
    tl_client *clients[4];
    for (int i = 0; i < 4; i++)
        clients[i] = connected(quorum_client());
    tl_lock *holder = make_lock(quorum_client(), KEY, AGES_MS);
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    real_redis_freeze(servers[0]);
    for (int i = 0; i < WAITERS; i++)
        waiters[i] = acquiring_begin(make_lock(clients[i % 4], KEY, AGES_MS), TL_FOREVER);
    let_pass(200);
    int64_t began = clock_ms();
    ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
    clock_wait wait = clock_wait_begin(2 * SOON_MS); /* for each */
    while (left > 0) {
        assert_true(clock_wait_more(&wait));
        for (int i = 0; i < WAITERS; i++) {
            if (!waiters[i] || !atomic_load(&waiters[i]->done))
                continue;
            ASSERT_RESULT(acquiring_end(waiters[i], SOON_MS), TL_OK);
            assert_true(tl_lock_fence(waiters[i]->lock) > last);
            last = tl_lock_fence(waiters[i]->lock);
            ASSERT_RESULT(tl_lock_release(waiters[i]->lock, &said), TL_OK);
            waiters[i] = NULL;
            left--;
            wait = clock_wait_begin(2 * SOON_MS);
        }
    }
    print_message("20 in %lld ms\n", (long long)(clock_ms() - began));
}

/* ---- what is wrong with the set ---------------------------------------------------------------- */

static tl_client *client_of(const char *a, int i, const char *b, int j, const char *c, int k) {
    char url[URL_SIZE];
    (void)snprintf(url, sizeof url, "redis+quorum://%s:%d,%s:%d,%s:%d", a,
                   real_redis_port(servers[i]), b, real_redis_port(servers[j]), c,
                   real_redis_port(servers[k]));
    return make_client_with(TL_CLIENT_OPTIONS(.url = url, .quiet_ms = TL_QUIET_OFF,
                                              .attempt_ms = SOON_MS, .connect_ms = SOON_MS));
}

TEST(one_server_by_two_names_is_no_two_votes) {
    tl_client *client = client_of("127.0.0.1", 0, "localhost", 0, "127.1", 0);
    ASSERT_RESULT(tl_lock_acquire(make_lock(client, KEY, AGES_MS), 0, &said), TL_EINVALID);
    ASSERT_SAID("another server of the URL is the same");
    WAIT_FOR(SOON_MS, voters(KEY) == 0);
    client = client_of("127.0.0.1", 0, "localhost", 0, "127.0.0.1", 1);
    tl_lock *one = make_lock(client, KEY, AGES_MS);
    ASSERT_RESULT(tl_lock_acquire(one, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(one, &said), TL_OK);
    WAIT_FOR(SOON_MS, voters(KEY) == 0);
    real_redis_kill(servers[1]);
    tl_err code = tl_lock_acquire(one, 300, &said);
    assert_true(code == TL_EINVALID || code == TL_EUNAVAILABLE);
    WAIT_FOR(SOON_MS, voters(KEY) == 0);
}

/* Two names may be one server's, where none may be asked which it is. */
TEST(servers_that_do_not_say_who_they_are_have_no_vote) {
    NEEDS_SERVER(REAL_SEVEN);
    for (int i = 0; i < SERVERS; i++)
        freeReplyObject(real_redis_command(servers[i], "ACL SETUSER default -info"));
    tl_client *client = client_of("127.0.0.1", 0, "localhost", 0, "127.0.0.1", 1);
    tl_err code = tl_lock_acquire(make_lock(client, KEY, AGES_MS), 0, &said);
    for (int i = 0; i < SERVERS; i++)
        freeReplyObject(real_redis_command(servers[i], "ACL SETUSER default +info"));
    ASSERT_RESULT(code, TL_EDENIED);
    ASSERT_SAID("allow its user INFO");
    assert_int_equal(voters(KEY), 0);
}

TEST(a_wrong_password_on_some_is_told_when_no_majority_is_left) {
    tl_lock *one = make_lock(quorum_client(), KEY, AGES_MS);
    for (int i = 0; i < 3; i++) {
        ASSERT_RESULT(tl_lock_acquire(one, SOON_MS, &said), TL_OK);
        ASSERT_RESULT(tl_lock_release(one, &said), TL_OK);
        freeReplyObject(real_redis_command(servers[i], "CONFIG SET requirepass other"));
    }
    tl_lock *late = make_lock(quorum_client(), KEY, AGES_MS);
    tl_err code = tl_lock_acquire(late, SOON_MS, &said);
    for (int i = 0; i < 3; i++)
        real_redis_restart(servers[i]);
    ASSERT_RESULT(code, TL_EDENIED);
    ASSERT_SAID("no majority of the 5 servers");
}

TEST(nothing_is_given_before_quiet_ms_unless_it_is_off) {
    NEEDS_SERVER(REAL_RUN_ID);
    const int64_t quiet = clock_patient_ms(1500);
    tl_lock *other = make_lock(quorum_client(), "other", AGES_MS);
    ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_OK);
    tl_lock *one = make_lock(quorum_client_with(TL_CLIENT_OPTIONS(.quiet_ms = quiet)), KEY, quiet);
    int64_t began = clock_ms();
    ASSERT_RESULT(tl_lock_acquire(one, 10 * quiet, &said), TL_OK);
    ASSERT_TOOK(began, quiet, quiet);
    tl_client *client = make_client_with(
        TL_CLIENT_OPTIONS(.url = quorum_url, .attempt_ms = 5000, .connect_ms = SOON_MS));
    tl_lock *late = make_lock(client, "late", 1000); /* by default 30 s, for which it doesn't try */
    tl_err code = tl_lock_acquire(late, 0, &said);
    assert_true(code == TL_EBUSY || code == TL_EUNAVAILABLE);
    assert_null(tl_lock_new(client, "longer", 6, &TL_LOCK_OPTIONS(.ttl_ms = 30001), &said));
    ASSERT_SAID("at most quiet_ms, which is 30000 ms");
}

TEST(what_votes_have_not_is_refused) {
    tl_client *client;
    static const struct {
        tl_client_options options;
        const char *words;
    } rows[] = {{{.wait_replicas = 1}, "wait_replicas: not with"},
                {{.wait_fsync = true}, "wait_fsync: not with"},
                {{.protocol = TL_BRIDGE}, "it must be token"},
                {{.protocol = TL_AUTO}, "it must be token"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tl_client_options options = rows[i].options;
        options.size = sizeof options;
        options.url = quorum_url;
        ASSERT_RESULT(tl_client_open(&options, &client, &said), TL_EINVALID);
        ASSERT_SAID(rows[i].words);
    }
    client = quorum_client();
    assert_null(tl_lock_new(client, KEY, strlen(KEY), &TL_LOCK_OPTIONS(.fair = true), &said));
    ASSERT_SAID("fair: not with");
}

/* ---- looking at locks ------------------------------------------------------------------------ */

typedef struct {
    int calls, held, odd;
    char key[64];
} seen;

static void see(const void *key, size_t n, const tl_lock_info *info, void *ctx) {
    seen *s = ctx;
    s->calls++;
    s->held += info->held;
    s->odd += strstr(info->oddity, "no majority of the 5 servers holds it") != NULL;
    (void)snprintf(s->key, sizeof s->key, "%.*s", (int)n, (const char *)key);
}

static seen scan(tl_client *client) {
    seen s = {0};
    uint64_t cursor = 0;
    do
        ASSERT_RESULT(tl_client_scan(client, "*", &cursor, see, &s, &said), TL_OK);
    while (cursor != 0);
    return s;
}

static void take_votes(int from, int count, const char *token) {
    for (int i = from; i < from + count; i++)
        freeReplyObject(real_redis_command(servers[i], "SET %s %s PX 60000", KEY, token));
}

#define SOME_TOKEN "0123456789abcdef0123456789abcdef"

TEST(what_a_majority_holds_is_seen_once) {
    NEEDS_SERVER(REAL_SCAN);
    tl_lock_info info = {.size = sizeof info};
    tl_client *client = quorum_client(), *another = quorum_client();
    ASSERT_RESULT(tl_client_ping(another, &said), TL_OK);
    ASSERT_RESULT(tl_client_look(another, KEY, strlen(KEY), &info, &said), TL_OK);
    assert_false(info.held);
    assert_int_equal(scan(another).calls, 0);
    tl_lock *one = by_hand(client, AGES_MS); /* noted from the start */
    acquire_of_all(one);
    ASSERT_RESULT(tl_client_look(another, KEY, strlen(KEY), &info, &said), TL_OK);
    assert_true(info.held && info.by_tidelock);
    assert_string_equal(info.service, "test");
    assert_in_range(info.remaining_ms, 1, AGES_MS);
    seen s = scan(another);
    assert_int_equal(s.calls, 1);
    assert_int_equal(s.held, 1);
    assert_string_equal(s.key, KEY);
    real_redis_kill(servers[0]);
    real_redis_kill(servers[3]);
    ASSERT_RESULT(tl_client_look(another, KEY, strlen(KEY), &info, &said), TL_OK);
    assert_true(info.held);
    assert_int_equal(scan(another).calls, 1);
    real_redis_kill(servers[4]);
    ASSERT_RESULT(tl_client_look(another, KEY, strlen(KEY), &info, &said), TL_EUNAVAILABLE);
    ASSERT_SAID("no majority of the 5 servers");
    ASSERT_RESULT(tl_client_ping(another, &said), TL_EUNAVAILABLE);
    uint64_t cursor = 0;
    ASSERT_RESULT(tl_client_scan(another, "*", &cursor, see, &s, &said), TL_EUNAVAILABLE);
}

TEST(what_fewer_hold_is_no_lock) {
    NEEDS_SERVER(REAL_SCAN);
    tl_lock_info info = {.size = sizeof info};
    tl_client *client = quorum_client();
    take_votes(1, 2, SOME_TOKEN);
    ASSERT_RESULT(tl_client_look(client, KEY, strlen(KEY), &info, &said), TL_OK);
    assert_false(info.held);
    seen s = scan(client);
    assert_int_equal(s.held, 0);
    assert_int_equal(s.calls, s.odd);
    take_votes(3, 1, SOME_TOKEN);
    ASSERT_RESULT(tl_client_look(client, KEY, strlen(KEY), &info, &said), TL_OK);
    assert_true(info.held);
    assert_int_equal(scan(client).held, 1);
}

/* The numbers that it draws are others than those of the other servers from now on. */
static void raise_counter(real_redis *r) {
    static const char script[] = "for _, k in ipairs(redis.call('KEYS', 'tidelock:*')) do "
                                 "if redis.call('TYPE', k).ok == 'string' then "
                                 "redis.call('INCRBY', k, 600000000) end end return 1";
    assert_int_equal(real_redis_int(r, "EVAL %s 0", script), 1);
}

TEST(a_lock_is_removed_whatever_numbers_the_servers_have_noted) {
    tl_lock_info info = {.size = sizeof info};
    tl_client *client = quorum_client();
    tl_lock *one = by_hand(client, AGES_MS); /* noted from the start, as each has drawn it */
    ASSERT_RESULT(tl_lock_acquire(one, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(one, &said), TL_OK);
    raise_counter(servers[0]);
    acquire_of_all(one);
    real_redis_kill(servers[1]); /* so that of those that differ one is asked */
    real_redis_kill(servers[2]);
    ASSERT_RESULT(tl_client_look(client, KEY, strlen(KEY), &info, &said), TL_OK);
    ASSERT_RESULT(tl_client_break(client, KEY, strlen(KEY), &info, &said), TL_OK);
    assert_int_equal(voters(KEY), 0);
}

TEST(a_lock_is_removed_at_all_servers_and_its_holder_finds_it_lost) {
    lock_events *events = make_events();
    tl_lock_info info = {.size = sizeof info};
    tl_client *client = quorum_client();
    tl_client *theirs = quorum_client();
    tl_lock *one = kept(theirs, LIFE_MS, events), *other = make_lock(client, KEY, LIFE_MS);
    ASSERT_RESULT(tl_client_break(client, KEY, strlen(KEY), NULL, &said), TL_EEXPIRED);
    ASSERT_RESULT(tl_lock_acquire(one, 0, &said), TL_OK);
    WAIT_FOR(SOON_MS, renewals_of(theirs) >= SERVERS); /* noted by now */
    ASSERT_RESULT(tl_client_look(client, KEY, strlen(KEY), &info, &said), TL_OK);
    ASSERT_RESULT(tl_client_break(client, KEY, strlen(KEY), &info, &said), TL_OK);
    assert_int_equal(voters(KEY), 0);
    ASSERT_RESULT(tl_client_break(client, KEY, strlen(KEY), &info, &said), TL_EEXPIRED);
    lock_event lost = lock_events_await(events, TL_LOST, LIFE_MS + SLACK_MS);
    assert_int_equal(lost.why, TL_LOST_GONE);
    ASSERT_RESULT(tl_lock_acquire(other, LIFE_MS + SOON_MS, &said), TL_OK);
    ASSERT_RESULT(tl_client_break(client, KEY, strlen(KEY), &info, &said), TL_ETAKEN);
    ASSERT_GOES_ON(other);
    for (int i = 0; i < 3; i++)
        real_redis_kill(servers[i]);
    ASSERT_RESULT(tl_client_break(client, KEY, strlen(KEY), NULL, &said), TL_EUNAVAILABLE);
}
