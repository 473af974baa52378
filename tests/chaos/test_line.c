/*
 * Faults around the waiting line: who stands there, who is told, and who is not. Nobody holds the lock beside
 * another, nobody is left behind, and one that is gone holds nobody up for longer than its own time.
 * timeout: 300
 */
#include "arena.h"
#include "client/lock.h"
#include "contest.h"

static int end_contest(void **state) {
    contest_abandon();
    return arena_tear_down(state);
}

TESTS_WITH(arena_set_up, end_contest);

#define LINE "tidelock:{" KEY "}:line"
#define FLOOR_MS 5000 /* who stands among the first looks so often, told or not */
#define PASSWORD "correct-horse"

static int length(void) {
    return (int)real_redis_int(server, "ZCARD " LINE);
}

static tl_lock *waiter_of(tl_client *client) {
    return make_lock(client, KEY, TTL_MS);
}

static tl_lock *fair_of(tl_client *client) {
    return make_lock_with(client, KEY, TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .fair = true));
}

static tl_lock *held(int64_t ttl_ms) {
    tl_lock *lock = by_hand(client_direct(), ttl_ms);
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    return lock;
}

/* Is it the first there? */
static bool stands_first(const tl_lock *lock) {
    redisReply *entries = real_redis_command(server, "ZRANGE " LINE " 0 0");
    const char *token = lock->token.text;
    bool first = entries->elements == 1 &&
                 strncmp(entries->element[0]->str, token, strlen(token)) == 0;
    freeReplyObject(entries);
    return first;
}

/* Does it wait for the first of its own process? */
static bool is_queued(const tl_lock *lock) {
    tl_gate *gate = &lock->client->gate;
    tl__mutex_lock(&gate->mutex);
    bool queued = lock->gate_node.state == TL_QUEUED;
    tl__mutex_unlock(&gate->mutex);
    return queued;
}

/* It comes to stand there as number n. */
static acquiring *join(tl_lock *lock, int n) {
    acquiring *a = acquiring_begin(lock, TL_FOREVER);
    WAIT_FOR(SOON_MS, length() == n);
    return a;
}

/* What is left of the present hold is so much, as if its lifetime were over then. */
static void cut_short(int64_t ms) {
    static const char script[] =
        "redis.replicate_commands() local t = redis.call('TIME') "
        "redis.call('HSET', KEYS[2], 'until', string.format('%.0f', t[1] * 1000000 + t[2] + ARGV[1] * 1000)) "
        "return redis.call('PEXPIRE', KEYS[1], ARGV[1])";
    assert_int_equal(
        real_redis_int(server, "EVAL %s 2 " KEY " tidelock:{" KEY "} %lld", script, (long long)ms),
        1);
}

static void release(tl_lock *lock) {
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

/* Sooner than one looks who was told nothing behind those who are gone. */
static void has_turn(acquiring *a) {
    ASSERT_RESULT(acquiring_end(a, SOON_MS), TL_OK);
}

/* One after the other, in whichever order, and no two at once. */
static void all_have_turns(acquiring *const *a, int count) {
    clock_wait bound = clock_wait_begin(2 * SOON_MS);
    for (int left = count, i = 0; left > 0; i = (i + 1) % count) {
        if (i == 0 && !clock_wait_more(&bound))
            fail_msg("%d of %d wait in vain", left, count);
        if (!a[i]->running || !atomic_load(&a[i]->done))
            continue;
        ASSERT_RESULT(acquiring_end(a[i], SOON_MS), TL_OK);
        for (int j = 0; j < count; j++)
            assert_true(i == j || tl_lock_remaining_ms(a[j]->lock) == 0);
        release(a[i]->lock);
        left--;
        bound = clock_wait_begin(2 * SOON_MS);
    }
}

/* ---- the order --------------------------------------------------------------------------------- */

TEST(turns_come_as_the_server_saw_them_over_processes_and_threads) {
    enum { CLIENTS = 3, WAITERS = 9 };
    tl_client *clients[CLIENTS];
    tl_lock *locks[WAITERS], *holder = held(AGES_MS);
    acquiring *a[WAITERS];
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = client_direct();
    for (int i = 0; i < WAITERS; i++) {
        locks[i] = fair_of(clients[(i * 2 + i / CLIENTS) % CLIENTS]);
        a[i] = join(locks[i], i + 1);
    }
    uint64_t fence = tl_lock_fence(holder);
    release(holder);
    for (int i = 0; i < WAITERS; i++) {
        has_turn(a[i]);
        for (int j = i + 1; j < WAITERS; j++)
            assert_false(atomic_load(&a[j]->done));
        assert_true(tl_lock_fence(locks[i]) > fence);
        fence = tl_lock_fence(locks[i]);
        release(locks[i]);
    }
    assert_int_equal(length(), 0);
}

TEST(a_process_stands_there_once_and_so_another_has_its_turn) {
    enum { WAITERS = 6 };
    tl_client *one = client_direct();
    tl_lock *locks[WAITERS], *holder = held(AGES_MS), *other = waiter_of(client_direct());
    acquiring *a[WAITERS];
    locks[0] = waiter_of(one);
    a[0] = join(locks[0], 1);
    for (int i = 1; i < WAITERS; i++) {
        locks[i] = waiter_of(one);
        a[i] = acquiring_begin(locks[i], TL_FOREVER);
    }
    acquiring *b = join(other, 2);
    for (int i = 1; i < WAITERS; i++)
        WAIT_FOR(SOON_MS, is_queued(locks[i]));
    assert_int_equal(length(), 2);
    release(holder);
    has_turn(a[0]);
    release(locks[0]); /* nothing is passed on past another who waits */
    has_turn(b);
    for (int i = 1; i < WAITERS; i++)
        assert_false(atomic_load(&a[i]->done));
    release(other);
    all_have_turns(&a[1], WAITERS - 1);
}

TEST(who_gives_up_hands_its_place_to_the_next_of_its_process) {
    tl_client *one = client_direct();
    tl_lock *holder = held(AGES_MS), *first = waiter_of(one), *second = waiter_of(one);
    tl_lock *other = waiter_of(client_direct());
    acquiring *a = join(first, 1), *b = acquiring_begin(second, TL_FOREVER);
    acquiring *c = join(other, 2);
    WAIT_FOR(SOON_MS, is_queued(second));
    tl_lock_cancel(first);
    ASSERT_RESULT(acquiring_end(a, SOON_MS), TL_ECANCELLED);
    WAIT_FOR(SOON_MS, stands_first(second) && length() == 2);
    release(holder);
    has_turn(b);
    assert_false(atomic_load(&c->done));
    release(second);
    has_turn(c);
}

/* ---- who is gone ------------------------------------------------------------------------------- */

TEST(a_crashed_holder_costs_its_lifetime) {
    tl_lock *next = waiter_of(client_direct());
    tl_lock *holder = held(BRIEF_MS); /* nobody renews it */
    has_turn(acquiring_begin(next, TL_FOREVER));
    assert_int_equal(tl_lock_remaining_ms(holder), 0);
}

/* Who was far behind when it looked last wouldn't look for a minute. */
TEST(a_crashed_holder_costs_little_more_for_one_who_has_moved_up) {
    enum { BEFORE = 3 };
    tl_lock *holder = held(AGES_MS), *locks[BEFORE], *next = waiter_of(client_direct());
    acquiring *a[BEFORE];
    stand_gone();
    for (int i = 0; i < BEFORE; i++) {
        locks[i] = i < BEFORE - 1 ? waiter_of(client_direct()) : by_hand(client_direct(), AGES_MS);
        a[i] = join(locks[i], GONE + i + 1);
    }
    acquiring *b = join(next, GONE + BEFORE + 1);
    for (int i = 0; i < BEFORE; i++) {
        release(i == 0 ? holder : locks[i - 1]);
        has_turn(a[i]);
    }
    cut_short(BRIEF_MS); /* nobody renews the last */
    has_turn(b);
}

/* One of the first three looks every 5 s, others after a minute, and the one who has come to be the third is told so: the others not. */
TEST(who_moves_up_wakes_none_of_the_crowd_behind_it) {
    enum { CROWD = 24 };
    tl_client *one = client_direct();
    tl_lock *holder = held(AGES_MS), *locks[CROWD];
    acquiring *a[CROWD];
    stand_gone(); /* so that nobody looks meanwhile who isn't told to */
    for (int i = 0; i < CROWD; i++) {
        locks[i] = fair_of(one);
        a[i] = join(locks[i], GONE + i + 1);
    }
    release(holder);
    has_turn(a[0]);
    forget_executed();
    const clock_wait looks = clock_wait_begin(FLOOR_MS + FLOOR_MS / 2);
    while (clock_wait_more(&looks)) {}
    assert_false(has_executed("evalsha", CROWD / 2)); /* a renewal or two, and what three look */
    release(locks[0]);
    all_have_turns(&a[1], CROWD - 1);
}

/* How many a server sends messages to. */
static int inboxes_at(real_redis *r) {
    redisReply *names = real_redis_command(r, "PUBSUB CHANNELS tidelock:inbox:*");
    int count = (int)names->elements;
    freeReplyObject(names);
    return count;
}

static int inboxes(void) {
    return inboxes_at(server);
}

static void crash(void) {
    proxy_stop(gate);
    proxy_reset(gate);
}

TEST(a_crashed_process_in_line_costs_nothing) {
    tl_lock *holder = held(AGES_MS), *gone = waiter_of(client_behind_gate());
    tl_lock *next = waiter_of(client_direct());
    stand_gone();
    acquiring *a = join(gone, GONE + 1), *b = join(next, GONE + 2);
    crash();
    WAIT_FOR(SOON_MS, inboxes() == 1);
    release(holder);
    has_turn(b);
    proxy_heal(gate);
    assert_false(atomic_load(&a->done));
    release(next);
    ASSERT_RESULT(acquiring_end(a, 2 * SOON_MS), TL_OK);
}

TEST(waiters_of_one_dead_process_at_the_front_do_not_hide_the_end_of_the_holder) {
    enum { DEAD = 48 }; /* if each counted, the next would look after a minute */
    tl_client *dead = client_behind_gate();
    acquiring *a[DEAD];
    (void)held(AGES_MS);
    for (int i = 0; i < DEAD; i++)
        a[i] = join(fair_of(dead), i + 1);
    tl_lock *next = waiter_of(client_direct());
    acquiring *b = join(next, DEAD + 1);
    crash();
    cut_short(BRIEF_MS);
    has_turn(b);
    proxy_heal(gate);
    release(next);
    all_have_turns(a, DEAD);
}

TEST(a_crowd_that_is_gone_is_passed_over_at_once) {
    tl_lock *holder = held(AGES_MS), *next = waiter_of(client_direct());
    stand_gone_at(LINE, strlen(LINE), 1);
    stand_gone_at(LINE, strlen(LINE), 2);
    acquiring *a = join(next, 2 * GONE + 1);
    release(holder);
    has_turn(a);
    release(next);
    assert_int_equal(length(), 0);
}

/* After many grants in a row the lock is left free for a moment, and the first in line is called to look. */
TEST(a_call_to_look_that_nobody_hears_is_followed_by_a_grant) {
    tl_lock *holder = held(AGES_MS), *next = waiter_of(client_direct());
    stand_gone();
    acquiring *a = join(next, GONE + 1);
    freeReplyObject(real_redis_command(server, "ZADD " LINE " 0 %s",
                                       "token-gone 30000 64 tidelock:inbox:gone host 1 gone"));
    run("HSET tidelock:{" KEY "} row 1000");
    release(holder);
    has_turn(a);
}

/* Its connections stay open: the server still counts on it. */
TEST(a_dead_host_costs_one_grant_and_has_its_turn_when_it_is_back) {
    tl_lock *holder = held(AGES_MS), *next = waiter_of(client_direct());
    tl_lock *silent = make_lock(client_behind_gate(), KEY, BRIEF_MS);
    acquiring *a = join(silent, 1), *b = join(next, 2);
    proxy_stop(gate);
    release(holder);
    ASSERT_RESULT(acquiring_end(b, BRIEF_MS + SOON_MS), TL_OK);
    proxy_heal(gate); /* the message comes now, and is not believed */
    const clock_wait a_while = clock_wait_begin(300);
    while (clock_wait_more(&a_while))
        assert_false(atomic_load(&a->done) && a->code == TL_OK);
    release(next);
    ASSERT_RESULT(acquiring_end(a, 2 * SOON_MS), TL_OK);
    assert_belief_is_true(silent);
}

TEST(a_client_that_closes_leaves_the_line) {
    tl_lock *holder = held(AGES_MS), *next = waiter_of(client_direct());
    tl_client *closing = client_direct();
    tl_lock *lock = waiter_of(closing);
    acquiring *a = join(lock, 1), *b = join(next, 2);
    tl_lock_cancel(lock);
    ASSERT_RESULT(acquiring_end(a, SOON_MS), TL_ECANCELLED);
    drop_lock(lock);
    drop_client(closing);
    WAIT_FOR(SOON_MS, length() == 1);
    release(holder);
    has_turn(b);
}

/* ---- messages ---------------------------------------------------------------------------------- */

static long long last_place(void) {
    redisReply *entries = real_redis_command(server, "ZRANGE " LINE " -1 -1 WITHSCORES");
    assert_int_equal(entries->elements, 2);
    long long place = atoll(entries->element[1]->str);
    freeReplyObject(entries);
    return place;
}

/* Between it and the next stand those who are gone: so the next looks after a minute only, and not when it is over what
 * nobody has heard of, and whose turn it is comes by itself. The reply to its own request may still be on the way when it
 * stands in line, and be lost instead: so it doesn't wait long for one. */
static void message_is_lost(proxy_fault fault) {
    tl_lock *holder = held(AGES_MS), *lock = waiter_of(hasty_client_behind_gate());
    tl_lock *next = waiter_of(client_direct());
    const int before = length();
    acquiring *a = join(lock, before + 1);
    stand_gone_at(LINE, strlen(LINE), last_place() + 1);
    acquiring *b = join(next, before + 1 + GONE + 1);
    proxy_break(gate, PROXY_REPLIES, 0, fault, 1); /* the next that comes is the message */
    release(holder);
    has_turn(a);
    assert_false(atomic_load(&b->done));
    assert_belief_is_true(lock);
    release(lock);
    has_turn(b);
}

/* Before what is over, and before it would look by itself. */
TEST(a_message_that_breaks_its_connection_is_found_at_once) {
    stand_gone();
    message_is_lost(PROXY_RESET);
}

TEST(a_message_that_is_swallowed_is_found_by_a_look) {
    message_is_lost(PROXY_MUTE);
}

/* By then the grant is over; who looks is alive, whatever its inbox is worth. The reply to its own request may be lost
 * instead, as above. */
TEST(a_grant_that_passed_unheard_is_given_anew_to_who_looks) {
    tl_lock *holder = held(AGES_MS), *lock = make_lock(hasty_client_behind_gate(), KEY, BRIEF_MS);
    acquiring *a = join(lock, 1);
    proxy_break(gate, PROXY_REPLIES, 0, PROXY_MUTE, 1);
    release(holder);
    has_turn(a);
    assert_belief_is_true(lock);
}

TEST(a_release_beside_a_lost_subscription_is_not_missed) {
    tl_lock *holder = waiter_of(client_direct()), *lock = waiter_of(client_direct());
    for (int i = 0; i < 40; i++) {
        ASSERT_RESULT(tl_lock_acquire(holder, 2 * SOON_MS, &said), TL_OK);
        stand_gone();
        acquiring *a = join(lock, GONE + 1);
        if (i % 2)
            run("CLIENT KILL TYPE pubsub");
        release(holder);
        if (i % 2 == 0)
            run("CLIENT KILL TYPE pubsub");
        has_turn(a);
        release(lock);
    }
}

TEST(who_leaves_while_it_is_given_the_lock_hands_it_to_the_next) {
    tl_client *leaving = client_direct();
    tl_lock *holder = waiter_of(client_direct()), *next = waiter_of(client_direct());
    for (int i = 0; i < 24; i++) {
        tl_lock *lock = waiter_of(
            leaving); /* anew: a cancel that comes too late is the next acquire's */
        ASSERT_RESULT(tl_lock_acquire(holder, 2 * SOON_MS, &said), TL_OK);
        acquiring *a = join(lock, 1), *b = join(next, 2);
        if (i % 2)
            tl_lock_cancel(lock);
        release(holder);
        if (i % 2 == 0)
            tl_lock_cancel(lock);
        tl_err code = acquiring_end(a, SOON_MS);
        if (code == TL_OK) {
            assert_false(atomic_load(&b->done));
            release(lock);
        }
        has_turn(b);
        release(next);
        WAIT_FOR(SOON_MS, length() == 0 && !key_exists());
        drop_lock(lock);
    }
}

/* A subscription at a server which is another than where it waits tells of another's lock. It has come there a moment
 * after it had left, and so doesn't leave again at once. */
TEST(a_message_from_another_server_is_not_believed) {
    real_redis *former = real_redis_start(NULL);
    proxy_lead_to(gate, real_redis_port(former));
    tl_client *client = client_behind_gate();
    tl_lock *lock = waiter_of(client);
    freeReplyObject(real_redis_command(former, "SET " KEY " another"));
    acquiring *a = acquiring_begin(lock, TL_FOREVER);
    WAIT_FOR(SOON_MS, real_redis_int(former, "ZCARD " LINE) == 1);
    redisReply *entries = real_redis_command(former, "ZRANGE " LINE " 0 0");
    char token[64], inbox[128];
    assert_int_equal(sscanf(entries->element[0]->str, "%63s %*s %*s %127s", token, inbox), 2);
    freeReplyObject(entries);
    tl_lock *holder = held(AGES_MS);
    proxy_lead_to(gate, real_redis_port(server));
    freeReplyObject(real_redis_command(former, "CLIENT KILL TYPE normal SKIPME yes"));
    /* This is answered by a look, at the server that it leads to now; after that it knows where it stands. */
    assert_int_equal(real_redis_int(former, "PUBLISH %s %s", inbox, "look " KEY), 1);
    WAIT_FOR(SOON_MS, length() == 1 && inboxes_at(server) == 1);
    proxy_lead_to(gate, real_redis_port(former));
    run("CLIENT KILL TYPE pubsub");
    WAIT_FOR(SOON_MS, inboxes_at(former) == 1);
    redisReply *time = real_redis_command(former, "TIME");
    char grant[512];
    (void)snprintf(grant, sizeof grant, "grant %s 5 %s%06d 5000 0 " KEY, token,
                   time->element[0]->str, atoi(time->element[1]->str));
    freeReplyObject(time);
    assert_int_equal(real_redis_int(former, "PUBLISH %s %s", inbox, grant), 1);
    const clock_wait a_while = clock_wait_begin(500);
    while (clock_wait_more(&a_while))
        assert_false(atomic_load(&a->done));
    proxy_lead_to(gate, real_redis_port(server));
    release(holder);
    ASSERT_RESULT(acquiring_end(a, 2 * SOON_MS), TL_OK);
    real_redis_free(former);
}

/* Lua's format cuts what it is given at a zero byte. */
TEST(a_grant_of_a_lock_with_a_zero_byte_in_its_name_is_understood) {
    static const char key[] = "\0chaos", line[] = "tidelock:{\0chaos}:line";
    tl_lock *holder = make_lock_n(client_direct(), key, sizeof key - 1,
                                  TL_LOCK_OPTIONS(.ttl_ms = AGES_MS, .manual_renew = true));
    tl_lock *next = make_lock_n(client_direct(), key, sizeof key - 1,
                                TL_LOCK_OPTIONS(.ttl_ms = TTL_MS));
    ASSERT_RESULT(tl_lock_acquire(holder, SOON_MS, &said), TL_OK);
    stand_gone_at(line, sizeof line - 1, 1);
    acquiring *a = acquiring_begin(next, TL_FOREVER);
    WAIT_FOR(SOON_MS, inboxes() == 1);
    WAIT_FOR(SOON_MS, real_redis_int(server, "ZCARD %b", line, sizeof line - 1) == GONE + 1);
    release(holder);
    has_turn(a);
}

/* ---- the key ----------------------------------------------------------------------------------- */

TEST(a_key_deleted_by_hand_is_given_to_nobody_beside_its_holder) {
    for (int granted = 0; granted <= 1; granted++) {
        tl_lock *first = held(AGES_MS), *holder = first, *second = waiter_of(client_direct());
        tl_lock *next = waiter_of(client_direct());
        if (granted) {
            acquiring *a = join(second, 1);
            release(first);
            has_turn(a);
            holder = second;
        }
        acquiring *b = join(next, 1);
        run("DEL " KEY);
        if (!granted)
            ASSERT_RESULT(tl_lock_extend(holder, TTL_MS, &said), TL_EEXPIRED);
        WAIT_FOR(FLOOR_MS + 2 * SOON_MS, atomic_load(&b->done));
        assert_int_equal(tl_lock_remaining_ms(holder), 0);
        ASSERT_RESULT(acquiring_end(b, SOON_MS), TL_OK);
        release(next);
        WAIT_FOR(SOON_MS, length() == 0 && !key_exists());
    }
}

TEST(a_lock_that_is_broken_goes_to_the_next) {
    (void)held(AGES_MS);
    tl_client *client = client_direct();
    tl_lock *next = waiter_of(client_direct());
    stand_gone();
    acquiring *a = join(next, GONE + 1);
    ASSERT_RESULT(tl_client_break(client, KEY, strlen(KEY), NULL, &said), TL_OK);
    has_turn(a);
}

TEST(a_server_that_comes_back_empty_starves_nobody) {
    tl_lock *locks[3];
    acquiring *a[3];
    run("SET " KEY " another");
    for (int i = 0; i < 3; i++) {
        locks[i] = waiter_of(client_direct());
        a[i] = join(locks[i], i + 1);
    }
    real_redis_restart(server);
    all_have_turns(a, 3);
}

/* ---- others ------------------------------------------------------------------------------------ */

TEST(who_takes_natively_beside_a_line_yields) {
    tl_client *client = client_direct();
    tl_lock *taker = waiter_of(client), *silent = waiter_of(client_behind_gate());
    run("SET " KEY " another");
    acquiring *a = join(silent, 1);
    tl_lock *warm = make_lock(client, KEY "{" KEY "}", TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(warm, SOON_MS, &said), TL_OK);
    proxy_stop(gate);
    run("DEL " KEY);
    ASSERT_RESULT(tl_lock_acquire(taker, 0, &said), TL_EBUSY);
    proxy_heal(gate);
    has_turn(a);
    release(silent);
    ASSERT_RESULT(tl_lock_acquire(taker, SOON_MS, &said), TL_OK);
}

TEST(one_who_only_ever_tries_has_a_turn_among_those_in_line) {
    enum { WAITERS = 4 };
    tl_lock *locks[WAITERS];
    for (int i = 0; i < WAITERS; i++)
        locks[i] = waiter_of(client_direct());
    contest_start(locks, WAITERS, 10 * SOON_MS, 0);
    WAIT_FOR(SOON_MS, contest_counted() > 0);
    bool has = false;
    const int64_t until_ms = clock_ms() + 8 * SOON_MS;
    while (!has && clock_ms() < until_ms) {
        redisReply *reply = real_redis_command(server, "SET " KEY " foreign NX PX 300");
        has = reply && reply->type == REDIS_REPLY_STATUS;
        freeReplyObject(reply);
    }
    if (!has)
        fail_msg("the others had it %d times meanwhile", contest_counted());
    contest_end();
}

static tl_client *limited(const char *rules) {
    char command[256], url[128];
    (void)snprintf(command, sizeof command,
                   "ACL SETUSER limited reset on >" PASSWORD " ~* &* +@all %s", rules);
    run(command);
    (void)snprintf(url, sizeof url, "redis://limited:" PASSWORD "@127.0.0.1:%d",
                   real_redis_port(server));
    return client_at(url);
}

TEST(where_nobody_may_be_told_all_have_their_turn) {
    NEEDS_SERVER(REAL_CHANNEL_RULES);
    enum { WAITERS = 3 };
    static const char *const rules[] = {"-publish", "-pubsub", "-subscribe", "-publish -subscribe"};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        tl_lock *locks[WAITERS];
        acquiring *a[WAITERS];
        tl_lock *holder = waiter_of(limited(rules[i]));
        ASSERT_RESULT(tl_lock_acquire(holder, SOON_MS, &said), TL_OK);
        /* whoever is first in line is gone: it neither hears nor looks */
        run("ZADD " LINE " 1 gone");
        freeReplyObject(real_redis_command(server, "ZADD " LINE " 1 %s",
                                           "token-gone 30000 64 tidelock:inbox:gone host 1 gone"));
        for (int j = 0; j < WAITERS; j++)
            a[j] = acquiring_begin(locks[j] = waiter_of(limited(rules[i])), TL_FOREVER);
        if (i < 2)
            WAIT_FOR(SOON_MS, length() == 2 + WAITERS);
        release(holder);
        all_have_turns(a, WAITERS);
        run("DEL " KEY " " LINE);
    }
}

TEST(a_lock_that_its_caller_renews_is_had_for_all_its_lifetime) {
    tl_lock *holder = held(AGES_MS), *lock = by_hand(client_direct(), AGES_MS);
    acquiring *a = join(lock, 1);
    release(holder);
    has_turn(a);
    assert_true(tl_lock_remaining_ms(lock) > BELIEVED_MS(AGES_MS) - SOON_MS);
    assert_belief_is_true(lock);
}

/* ---- without blocking -------------------------------------------------------------------------- */

typedef struct {
    atomic_int done;
    tl_err code;
} outcome;

static void over(tl_lock *lock, tl_err code, const tl_error *err, void *ctx) {
    outcome *o = ctx;
    (void)lock, (void)err;
    o->code = code;
    atomic_store(&o->done, 1);
}

TEST(those_who_wait_without_blocking_have_their_turns) {
    enum { WAITERS = 3 };
    static outcome outcomes[WAITERS];
    tl_lock *holder = held(AGES_MS), *locks[WAITERS];
    stand_gone();
    for (int i = 0; i < WAITERS; i++) {
        outcomes[i] = (outcome){.code = TL_EBUSY};
        locks[i] = i == 2 ? waiter_of(client_direct()) : fair_of(client_direct());
        ASSERT_RESULT(tl_lock_acquire_async(locks[i], TL_FOREVER, over, &outcomes[i], &said),
                      TL_OK);
        WAIT_FOR(SOON_MS, length() == GONE + i + 1);
    }
    release(holder);
    for (int i = 0; i < WAITERS; i++) {
        WAIT_FOR(SOON_MS, atomic_load(&outcomes[i].done));
        assert_int_equal(outcomes[i].code, TL_OK);
        assert_true(i == WAITERS - 1 || !atomic_load(&outcomes[i + 1].done));
        release(locks[i]);
    }
}

TEST(a_lock_freed_while_it_waits_leaves_the_line) {
    static outcome o;
    o = (outcome){.code = TL_EBUSY};
    tl_lock *holder = held(AGES_MS), *next = waiter_of(client_direct());
    tl_client *closing = client_direct();
    tl_lock *lock = waiter_of(closing);
    ASSERT_RESULT(tl_lock_acquire_async(lock, TL_FOREVER, over, &o, &said), TL_OK);
    WAIT_FOR(SOON_MS, length() == 1);
    acquiring *b = join(next, 2);
    drop_lock(lock);
    drop_client(closing);
    release(holder);
    has_turn(b);
    assert_int_equal(atomic_load(&o.done), 0);
}

/* ---- crowds ------------------------------------------------------------------------------------ */

TEST(a_crowd_of_processes_counts_exactly_while_its_connections_are_cut) {
    enum { WAITERS = 12 };
    tl_lock *locks[WAITERS];
    for (int i = 0; i < WAITERS; i++) {
        tl_client *client = i % 3 ? client_direct() : client_at(proxy_url(gate));
        locks[i] = i % 4 == 1 ? fair_of(client) : waiter_of(client);
    }
    contest_start(locks, WAITERS, 10 * SOON_MS, 0);
    const clock_wait some = clock_wait_begin(clock_patient_ms(4000));
    for (int i = 0; clock_wait_more(&some); i++) {
        if (i % 40 == 10)
            run("CLIENT KILL TYPE pubsub");
        if (i % 40 == 20)
            proxy_reset(gate);
        if (i % 40 == 30)
            run("CLIENT KILL TYPE normal SKIPME yes");
    }
    int counted = contest_counted();
    WAIT_FOR(4 * SOON_MS, contest_counted() > counted);
    contest_end();
}

int main(void) {
    real_server_need(REAL_LINE);
    server = real_redis_start(NULL);
    return tests_run();
}
