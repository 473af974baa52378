/*
 * Faults: a user who lacks a permission: each command that the library sends, or runs in a script,
 * and keys. What needs it is denied at once, says so in one line, and leaves nothing locked.
 */

/*
 * Faults and outcomes (tests/README.md says what is asserted of each):
 * - no permission for a key, a channel, or any one command that is sent or run in a script: DENIED at once, names the
 *   command.
 * - without SUBSCRIBE, PUBLISH, PING or WAIT it works as far as it can; also without INFO, unless `quiet_ms` needs it.
 */
#include "arena.h"
#include "wire/keys.h"

TESTS_WITH(arena_set_up, arena_tear_down);

#define PASSWORD "correct-horse"
#define TTL_BRIEF_MS 500
#define QUIET_MS 500

static void set_rules(const char *rules) {
    char command[256];
    (void)snprintf(command, sizeof command, "ACL SETUSER limited %s", rules);
    run(command);
}

/* A user who may do all but what `rules` take away. */
static tl_client *client_limited_with(const char *rules, tl_client_options options) {
    char url[128];
    set_rules("reset on >" PASSWORD " ~* &* +@all");
    set_rules(rules);
    (void)snprintf(url, sizeof url, "redis://limited:" PASSWORD "@127.0.0.1:%d/3",
                   real_redis_port(server));
    options.url = url;
    options.attempt_ms = SOON_MS;
    options.connect_ms = SOON_MS;
    return make_client_with(options);
}

static tl_client *client_limited(const char *rules) {
    return client_limited_with(rules, TL_CLIENT_OPTIONS(.url = NULL));
}

static void denied(tl_err code, const char *words) {
    ASSERT_RESULT(code, TL_EDENIED);
    ASSERT_SAID(words);
    ASSERT_SAID(strstr(real_redis_url(server), "127."));
    assert_null(strstr(said.message, PASSWORD));
}

/* Another gets the lock, soon or when a lifetime is over. */
static void free_for_another(void) {
    char url[64];
    (void)snprintf(url, sizeof url, "%s/3", real_redis_url(server));
    tl_lock *next = by_hand(client_at(url), AGES_MS);
    ASSERT_RESULT(tl_lock_acquire(next, SOON_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(next, &said), TL_OK);
    drop_lock(next);
}

/* ---- before there is a connection -------------------------------------------------------------- */

TEST(what_logging_in_needs_is_named) {
    static const struct {
        const char *rules, *words;
    } cases[] = {{"-time", "+time"}, {"-select", "+select"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tl_client *client = client_limited(cases[i].rules);
        tl_lock *lock = by_hand(client, AGES_MS);
        int64_t began = clock_ms();
        denied(tl_client_ping(client, &said), cases[i].words);
        denied(tl_lock_acquire(lock, 0, &said), cases[i].words);
        denied(tl_lock_acquire(lock, SOON_MS, &said), cases[i].words);
        ASSERT_TOOK(began, 0, 0);
        set_rules("+@all"); /* the same handles work when it is given */
        ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    }
}

/* Who wants no lock from a server that may have forgotten one must know that it hasn't. */
TEST(without_info_a_server_that_may_have_restarted_grants_nothing) {
    tl_client *client = client_limited_with("-info", TL_CLIENT_OPTIONS(.quiet_ms = QUIET_MS));
    tl_lock *lock = make_lock(client, KEY, QUIET_MS);
    int64_t began = clock_ms();
    ASSERT_RESULT(tl_client_ping(client, &said), TL_OK);
    denied(tl_lock_acquire(lock, SOON_MS, &said), "+info");
    ASSERT_SAID("quiet_ms");
    ASSERT_TOOK(began, 0, 0);
    set_rules("+@all");
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK); /* the same handle */
    (void)tl_lock_release(lock, &said); /* on a busy machine it may be over already */
    drop_lock(lock);
    drop_client(client);
    client = client_limited_with("-info", TL_CLIENT_OPTIONS(.quiet_ms = 0));
    ASSERT_RESULT(tl_lock_acquire(by_hand(client, AGES_MS), SOON_MS, &said), TL_OK);
}

/* ---- on a connection --------------------------------------------------------------------------- */

enum { TAKE = 1, EXTEND = 2, RELEASE = 4, LOOK = 8, ALL = 15 };

static const struct {
    const char *rules;
    int needed_by;
    const char *words;
} needs[] = {
    {"-evalsha", ALL, "+evalsha "},
    {"-evalsha -eval", ALL, "+evalsha "},
    {"resetkeys ~other:*", ALL, "keys"},
    {"resetkeys ~chaos:*", ALL, "keys"}, /* the sidecar's name begins with tidelock: */
    {"resetkeys %%R~*", ALL, "keys"},    /* reading is not enough */
    {"-time", TAKE | EXTEND | LOOK, "+time "},
    {"-get", ALL, "+get "},
    {"-hmget", ALL, "+hmget "},
    {"-hmset", TAKE | EXTEND, "+hmset "},
    {"-set", TAKE, "+set "},
    {"-pexpire", TAKE | EXTEND, "+pexpire "},
    {"-pttl", TAKE | EXTEND | LOOK, "+pttl "},
    {"-del", RELEASE, "+del "},
    {"-type", LOOK, "+type "},
    {"-publish", 0, NULL},
    {"-multi -incr -incrby", 0, NULL},    /* the script does the same */
    {"-@sortedset -hget -hset", 0, NULL}, /* nobody is in line: who waits is told by a look */
    {"resetchannels", 0, NULL},
    {"-eval", 0, NULL}, /* as long as the scripts are known */
    {"-script -ping -subscribe -unsubscribe -info -wait", 0, NULL},
};
#define NEEDS (sizeof needs / sizeof *needs)

static void judge(size_t i, int who, tl_err code) {
    if (needs[i].needed_by & who)
        denied(code, needs[i].words);
    else
        ASSERT_RESULT(code, TL_OK);
}

static void learn_scripts(void) {
    tl_client *client = client_limited("+@all");
    tl_lock *lock = by_hand(client, AGES_MS);
    tl_lock_info info = {.size = sizeof info};
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_extend(lock, AGES_MS, &said), TL_OK);
    ASSERT_RESULT(tl_client_look(client, KEY, strlen(KEY), &info, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    drop_lock(lock);
    drop_client(client);
}

/* The permission goes while the client is connected. */
TEST(each_permission_that_taking_needs_is_asked_for) {
    learn_scripts();
    for (size_t i = 0; i < NEEDS; i++) {
        tl_client *client = client_limited("+@all");
        tl_lock *lock = by_hand(client, AGES_MS);
        print_message("  %s\n", needs[i].rules);
        freeReplyObject(real_redis_command(server, "FLUSHALL")); /* S is to get a lifetime */
        ASSERT_RESULT(tl_client_ping(client, &said), TL_OK);
        set_rules(needs[i].rules);
        int64_t began = clock_ms();
        tl_err code = tl_lock_acquire(lock, SOON_MS, &said);
        judge(i, TAKE, code);
        ASSERT_TOOK(began, 0, 0);
        assert_int_equal(tl_lock_state(lock), code ? TL_FREE : TL_HELD);
        set_rules("+@all allkeys allchannels");
        if (code == TL_OK)
            ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
        free_for_another();
        ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK); /* the same handle */
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
        drop_lock(lock);
        drop_client(client);
    }
}

TEST(each_permission_that_a_holder_needs_is_asked_for) {
    for (size_t i = 0; i < NEEDS; i++) {
        tl_client *client = client_limited("+@all");
        /* Without HMSET its release leaves it to its lifetime, which is waited out. */
        bool waits = strcmp(needs[i].rules, "-hmset") == 0;
        tl_lock *lock = by_hand(client, waits ? KEPT_MS : SAFE_MS);
        tl_lock_info info = {.size = sizeof info};
        print_message("  %s\n", needs[i].rules);
        ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
        set_rules(needs[i].rules);
        judge(i, EXTEND, tl_lock_extend(lock, 2 * AGES_MS, &said));
        assert_int_equal(tl_lock_state(lock), TL_HELD); /* as far as is known */
        judge(i, LOOK, tl_client_look(client, KEY, strlen(KEY), &info, &said));
        judge(i, RELEASE, tl_lock_release(lock, &said));
        assert_int_equal(tl_lock_state(lock), TL_FREE);
        set_rules("+@all allkeys allchannels");
        drop_lock(lock);
        drop_client(client);
        if (needs[i].needed_by & RELEASE)
            freeReplyObject(real_redis_command(server, "FLUSHALL"));
        free_for_another();
    }
}

/* A release that was denied leaves the lock to its lifetime, no longer. */
TEST(a_lock_whose_release_was_denied_is_free_when_its_lifetime_is_over) {
    tl_lock *lock = make_lock(client_limited("+@all"), KEY, BRIEF_MS);
    tl_err code = TL_EEXPIRED;
    int64_t began = 0;
    for (int i = 0; i < 20 && code == TL_EEXPIRED;
         i++) { /* it was over already, on a busy machine */
        set_rules("+@all");
        ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
        set_rules("-del");
        began = clock_ms();
        code = tl_lock_release(lock, &said);
    }
    denied(code, "+del ");
    free_for_another();
    ASSERT_TOOK(began, 0, BRIEF_MS);
}

TEST(a_holder_whose_renewals_are_denied_is_told_in_time) {
    static const char *const rules[] = {"-evalsha", "-pexpire", "resetkeys"};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        lock_events *events = make_events();
        tl_lock *lock = make_lock_with(
            client_limited("+@all"), KEY,
            TL_LOCK_OPTIONS(.ttl_ms = TTL_BRIEF_MS, .on_event = lock_events_add, .ctx = events));
        ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
        set_rules(rules[i]);
        assert_told_of_risk(events, TTL_BRIEF_MS);
        assert_int_equal(lock_events_await(events, TL_LOST, SOON_MS).why, TL_LOST_EXPIRED);
        assert_int_equal(tl_lock_remaining_ms(lock), 0);
        int64_t began = clock_ms();
        free_for_another();
        ASSERT_TOOK(began, 0, TTL_BRIEF_MS);
    }
}

TEST(a_holder_whose_permission_comes_back_in_time_goes_on) {
    lock_events *events = make_events();
    tl_lock *lock = make_lock_with(
        client_limited("+@all"), KEY,
        TL_LOCK_OPTIONS(.ttl_ms = SAFE_MS, .on_event = lock_events_add, .ctx = events));
    lock_event again;
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    set_rules("-evalsha");
    (void)lock_events_await(events, TL_AT_RISK, SOON_MS);
    set_rules("+@all");
    WAIT_FOR(SOON_MS, lock_events_find(events, 1, TL_HELD, &again));
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

/* ---- the scripts' text, and replicas ----------------------------------------------------------- */

TEST(without_eval_a_script_that_is_not_known_is_denied) {
    tl_lock *lock = by_hand(client_limited("-eval"), AGES_MS);
    run("SCRIPT FLUSH");
    denied(tl_lock_acquire(lock, SOON_MS, &said), "+eval ");
    set_rules("+@all");
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
}

TEST(without_wait_a_lock_that_replicas_must_confirm_is_not_had) {
    tl_client *client = client_limited_with(
        "-wait", TL_CLIENT_OPTIONS(.wait_replicas = 1, .wait_replicas_ms = 50));
    tl_lock *lock = by_hand(client, AGES_MS);
    tl_err code = TL_EUNCERTAIN;
    said = (tl_error){0};
    for (int i = 0; i < 20 && !strstr(said.message, "replicas");
         i++) /* no try was heard of in time */
        code = tl_lock_acquire(lock, 300, &said);
    if (code != TL_EUNCERTAIN) /* the limit may cut the last try short */
        ASSERT_RESULT(code, TL_EUNAVAILABLE);
    ASSERT_SAID("replicas");
    free_for_another();
}

/* ---- announcements ----------------------------------------------------------------------------- */

static bool was_denied(void) {
    redisReply *log = real_redis_command(server, "ACL LOG");
    bool was = log && log->elements > 0;
    freeReplyObject(log);
    return was;
}

TEST(without_subscribe_a_waiter_still_gets_the_lock) {
    static const char *const rules[] = {"-subscribe", "resetchannels"};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        char url[64];
        (void)snprintf(url, sizeof url, "%s/3", real_redis_url(server));
        tl_lock *holder = by_hand(client_at(url), AGES_MS);
        tl_lock *lock = by_hand(client_limited(rules[i]), AGES_MS);
        ASSERT_RESULT(tl_lock_acquire(holder, SOON_MS, &said), TL_OK);
        run("ACL LOG RESET");
        acquiring *waiter = acquiring_begin(lock, TL_FOREVER);
        WAIT_FOR(SOON_MS, was_denied());
        ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
        int64_t began = clock_ms();
        ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_OK);
        ASSERT_TOOK(began, 0, 250);
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    }
}

/* ---- the transaction, and the line ------------------------------------------------------------- */

/* After the first, which is a script's, the others are native where they may be. */
TEST(who_may_not_run_the_transaction_has_it_done_by_the_script) {
    static const char *const rules[] = {"-multi", "-incr", "-exec", "-multi -exec -incr -incrby"};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        tl_lock *lock = make_lock(client_limited(rules[i]), KEY, SAFE_MS);
        uint64_t fence = 0;
        print_message("  %s\n", rules[i]);
        for (int n = 0; n < 4; n++) {
            ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
            assert_true(tl_lock_fence(lock) > fence);
            fence = tl_lock_fence(lock);
            ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
        }
        free_for_another();
    }
}

/* One whose rules are older than the line, or name a part of it only, waits as if there were none: it is given
 * the lock in the end, also when others have stood in line before it. */
TEST(who_may_not_stand_in_line_waits_all_the_same) {
    static const char *const rules[] = {"-@sortedset",
                                        "-zadd",
                                        "-zrange",
                                        "-zscore",
                                        "-zrank",
                                        "-zcard",
                                        "-zrem",
                                        "-hget",
                                        "-publish",
                                        "-info",
                                        "resetchannels &tidelock:{*"};
    char url[64];
    (void)snprintf(url, sizeof url, "%s/3", real_redis_url(server));
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        tl_lock *holder = by_hand(client_at(url), AGES_MS),
                *other = by_hand(client_at(url), AGES_MS);
        tl_lock *lock = make_lock(client_limited(rules[i]), KEY, SAFE_MS);
        print_message("  %s\n", rules[i]);
        for (int turn = 0; turn < 2; turn++) {
            ASSERT_RESULT(tl_lock_acquire(holder, SOON_MS, &said), TL_OK);
            forget_executed();
            acquiring *stands = turn ? acquiring_begin(other, TL_FOREVER) : NULL;
            WAIT_FOR(SOON_MS, !turn || has_executed("zadd", 1));
            forget_executed();
            acquiring *waiter = acquiring_begin(lock, TL_FOREVER);
            WAIT_FOR(SOON_MS,
                     has_executed("evalsha", turn ? 1 : 2)); /* it has tried to stand in line */
            ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
            if (stands) {
                ASSERT_RESULT(acquiring_end(stands, 2 * SOON_MS), TL_OK);
                ASSERT_RESULT(tl_lock_release(other, &said), TL_OK);
            }
            ASSERT_RESULT(acquiring_end(waiter, 2 * SOON_MS), TL_OK);
            ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
        }
        drop_lock(lock);
        drop_lock(other);
        drop_lock(holder);
    }
}

/* A server checks each command of a script for its user: so no script touches any other key. */
TEST(who_may_use_the_four_keys_of_a_lock_alone_can_do_all) {
    char rules[160], url[128], counter[TL_COUNTER_SIZE];
    tl_slot_tag tag = tl__slot_tag(tl__hash_slot(TL_LITERAL(KEY)));
    tl_bytes name = tl__counter(counter, &tag);
    (void)snprintf(rules, sizeof rules,
                   "resetkeys ~" KEY " ~tidelock:{" KEY "} ~tidelock:{" KEY "}:line ~%.*s",
                   (int)name.n, name.p);
    tl_client *client = client_limited(rules);
    (void)snprintf(url, sizeof url, "redis://limited:" PASSWORD "@127.0.0.1:%d/3",
                   real_redis_port(server));
    tl_lock *lock = by_hand(client, AGES_MS), *other = by_hand(client_at(url), AGES_MS);
    tl_lock_info info = {.size = sizeof info};
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    forget_executed();
    acquiring *waiter = acquiring_begin(other, TL_FOREVER);
    WAIT_FOR(SOON_MS, has_executed("zadd", 1));
    ASSERT_RESULT(tl_lock_extend(lock, AGES_MS, &said), TL_OK);
    ASSERT_RESULT(tl_client_look(client, KEY, strlen(KEY), &info, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK); /* handed over */
    ASSERT_RESULT(acquiring_end(waiter, 2 * SOON_MS), TL_OK);
    ASSERT_RESULT(tl_lock_rest(other, AGES_MS, &said), TL_OK);
    ASSERT_RESULT(tl_client_break(client, KEY, strlen(KEY), NULL, &said), TL_OK);
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

/* It may be all that is left of a line. */
TEST(who_may_not_read_the_line_passes_it_by) {
    static const char script[] = "redis.call('SELECT', 3) "
                                 "return redis.call('HSET', 'tidelock:{" KEY "}', 'line', 'F')";
    tl_lock *lock = by_hand(client_limited("-@sortedset"), AGES_MS);
    freeReplyObject(real_redis_command(server, "EVAL %s 0", script));
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

int main(void) {
    real_server_need(REAL_SEVEN);
    server = real_redis_start(NULL);
    return tests_run();
}
