/*
 * A holder of a stamp, and who waits behind one, learn at once when its key is taken, changed or deleted by
 * somebody else, where the server can tell (CLIENT TRACKING, or keyspace events if they are configured);
 * and by the next renewal or look where it can't.
 */
#include <stdarg.h>

#include "arena.h"

/* How clients hear of changes: by CLIENT TRACKING, by keyspace events, or not at all. */
enum { BY_TRACKING = 1, BY_EVENTS = 2, BY_NOTHING = 4 };

TESTS_WITH(arena_set_up, arena_tear_down);

#define LEGACY_TTL_MS 600000
#define AT_ONCE_MS SOON_MS /* far less than the third of a lifetime at which it would be renewed */
#define TTL_BRIEF_MS 12000
#define AHEAD_MS 500000 /* a clock that is too far ahead */
#define SILENCE_MS 1000 /* one that polls asks each 250 ms and more often */
#define LETTERS "Kg$xe" /* of notify-keyspace-events */
#define WITHOUT_TRACKING "-client +client|id +client|kill"

static enum { TRACKING, EVENTS, NOTHING } told_by;

static tl_client *bridge(void) {
    return make_client_with(
        TL_CLIENT_OPTIONS(.url = real_redis_url(server), .protocol = TL_BRIDGE,
                          .legacy = &TL_LEGACY_OPTIONS(.clock_skew_max_ms = 300,
                                                       .legacy_ttl_min_ms = LEGACY_TTL_MS)));
}

static tl_lock *held(lock_events *events) {
    tl_lock *lock = make_lock_with(bridge(), KEY,
                                   TL_LOCK_OPTIONS(.on_event = lock_events_add, .ctx = events));
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    return lock;
}

static void ask(const char *format, ...) {
    char command[256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(command, sizeof command, format, args);
    va_end(args);
    freeReplyObject(real_redis_command(server, command));
}

/* How many keys the server remembers to tell of. */
static int64_t tracked(void) {
    static const char name[] = "tracking_total_keys:";
    redisReply *reply = real_redis_command(server, "INFO stats");
    const char *at = strstr(reply->str, name);
    int64_t n = at ? atoll(at + sizeof name - 1) : -1;
    freeReplyObject(reply);
    return n;
}

/* How many are subscribed to the events of a key. */
static long long hearing(int db, const void *key, size_t n) {
    redisReply *reply = real_redis_command(server, "PUBSUB NUMSUB __keyspace@%d__:%b", db, key, n);
    long long count = reply->elements == 2 ? reply->element[1]->integer : -1;
    freeReplyObject(reply);
    return count;
}

static bool is_watched(void) {
    return told_by == EVENTS ? hearing(0, KEY, strlen(KEY)) == 1 : tracked() == 1;
}

static void await_watched(void) {
    WAIT_FOR(SOON_MS, is_watched());
}

static int64_t server_ms(void) {
    redisReply *reply = real_redis_command(server, "TIME");
    int64_t ms = atoll(reply->element[0]->str) * 1000 + atoll(reply->element[1]->str) / 1000;
    freeReplyObject(reply);
    return ms;
}

TEST_IN(a_robbery_is_told_at_once_with_the_robbers_clock, BY_TRACKING | BY_EVENTS) {
    lock_events *events = make_events();
    (void)held(events);
    await_watched();
    ask("GETSET " KEY " %lld", (long long)(server_ms() + AHEAD_MS + LEGACY_TTL_MS));
    lock_event lost = lock_events_await(events, TL_LOST, AT_ONCE_MS);
    assert_int_equal(lost.why, TL_LOST_TAKEN);
    assert_true(lost.stolen);
    assert_in_range(lost.thief_ahead_ms, AHEAD_MS - AT_ONCE_MS, AHEAD_MS);
}

TEST_IN(a_deleted_key_is_told_at_once, BY_TRACKING | BY_EVENTS) {
    lock_events *events = make_events();
    (void)held(events);
    await_watched();
    ask("DEL " KEY);
    assert_int_equal(lock_events_await(events, TL_LOST, AT_ONCE_MS).why, TL_LOST_GONE);
}

TEST_IN(a_flushed_server_is_told_at_once, BY_TRACKING) {
    lock_events *events = make_events();
    (void)held(events);
    await_watched();
    ask("FLUSHALL");
    assert_int_equal(lock_events_await(events, TL_LOST, AT_ONCE_MS).why, TL_LOST_GONE);
}

static long long value(void) {
    redisReply *reply = real_redis_command(server, "GET " KEY);
    long long stamp = reply->type == REDIS_REPLY_STRING ? atoll(reply->str) : 0;
    freeReplyObject(reply);
    return stamp;
}

/* The key's lifetime stays. */
static void set_stamp(long long stamp) {
    static const char script[] = "local t = redis.call('PTTL', KEYS[1]) "
                                 "return redis.call('SET', KEYS[1], ARGV[1], 'PX', t)";
    if (real_server_has(REAL_USERS))
        ask("SET " KEY " %lld KEEPTTL", stamp);
    else
        freeReplyObject(real_redis_command(server, "EVAL %s 1 " KEY " %lld", script, stamp));
}

/* A lock that is told of changes takes a racing loser's stamp back as soon as it is there. The same one each
 * time: one that is too early was stolen. */
static void await_told_again(tl_lock *lock) {
    const clock_wait bound = clock_wait_begin(SOON_MS);
    const long long losers = value() - 100;
    bool told = false;
    while (!told && clock_wait_more(&bound)) {
        set_stamp(losers);
        const clock_wait soon = clock_wait_begin(500);
        while (!told && clock_wait_more(&soon))
            told = value() != losers;
    }
    assert_true(told);
    WAIT_FOR(SOON_MS, tl_lock_state(lock) == TL_HELD); /* at risk until the answer is here */
}

TEST_IN(it_is_told_after_renewals_and_new_connections_too, BY_TRACKING | BY_EVENTS) {
    lock_events *events = make_events();
    tl_lock *lock = held(events);
    await_watched();
    ASSERT_RESULT(tl_lock_extend(lock, LEGACY_TTL_MS, &said), TL_OK);
    ask("CLIENT KILL TYPE pubsub");
    await_told_again(lock);
    ask("CLIENT KILL TYPE normal SKIPME yes");
    await_told_again(lock);
    assert_int_equal(tl_lock_state(lock), TL_HELD);
    ask("DEL " KEY);
    assert_int_equal(lock_events_await(events, TL_LOST, AT_ONCE_MS).why, TL_LOST_GONE);
}

TEST_IN(what_happened_while_nothing_could_be_told_is_found_out, BY_TRACKING | BY_EVENTS) {
    lock_events *events = make_events();
    (void)held(events);
    await_watched();
    ask("MULTI");
    ask("CLIENT KILL TYPE pubsub");
    ask("DEL " KEY);
    ask("EXEC");
    assert_int_equal(lock_events_await(events, TL_LOST, AT_ONCE_MS).why, TL_LOST_GONE);
}

TEST_IN(a_racing_losers_stamp_is_taken_back_at_once, BY_TRACKING | BY_EVENTS) {
    lock_events *events = make_events();
    tl_lock *lock = held(events);
    await_watched();
    long long losers = server_ms() + LEGACY_TTL_MS - 100;
    ask("GETSET " KEY " %lld", losers);
    WAIT_FOR(AT_ONCE_MS, value() > losers);
    ASSERT_GOES_ON(lock);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

/* ---- waiting behind a legacy client ---------------------------------------------------- */

/* How often a command has been executed, or refused. */
static long long count_of(const char *command, const char *what) {
    char name[64];
    (void)snprintf(name, sizeof name, "cmdstat_%s:", command);
    redisReply *reply = real_redis_command(server, "INFO commandstats");
    const char *at = strstr(reply->str, name);
    at = at ? strstr(at, what) : NULL;
    long long n = at ? atoll(at + strlen(what)) : 0;
    freeReplyObject(reply);
    return n;
}

static long long scripts(void) {
    return count_of("evalsha", "calls=");
}

/* Until nobody asks for anything any more. */
static void await_silence(void) {
    int64_t since = clock_ms();
    long long count = -1;
    const clock_wait bound = clock_wait_begin(SOON_MS);
    while (clock_ms() - since < SILENCE_MS) {
        long long now = scripts() + count_of("get", "calls=");
        if (now != count)
            since = clock_ms();
        count = now;
        assert_true(clock_wait_more(&bound));
    }
}

/* Who waits is sure to be told of a DEL when something of that kind has been told. */
static void tell_something(void) {
    ask("PEXPIRE " KEY " 6000000");
    ask("PERSIST " KEY);
    freeReplyObject(
        real_redis_command(server, "APPEND " KEY " %s", "")); /* that isn't told by all */
}

/* A legacy holder, and one who waits behind it and has fallen silent. */
static acquiring *waiting_silently(tl_lock *lock) {
    ask("SET " KEY " %lld", (long long)(server_ms() + LEGACY_TTL_MS));
    acquiring *waiter = acquiring_begin(lock, TL_FOREVER);
    await_watched();
    if (told_by == EVENTS)
        tell_something();
    await_silence();
    assert_false(atomic_load(&waiter->done));
    return waiter;
}

TEST_IN(a_waiter_comes_at_once_when_an_old_client_releases, BY_TRACKING | BY_EVENTS) {
    tl_lock *lock = make_lock_with(bridge(), KEY, TL_LOCK_OPTIONS(.ttl_ms = 0));
    acquiring *waiter = waiting_silently(lock);
    ask("DEL " KEY);
    ASSERT_RESULT(acquiring_end(waiter, AT_ONCE_MS), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

TEST_IN(a_waiter_stays_told_however_often_old_clients_change_hands, BY_TRACKING | BY_EVENTS) {
    tl_lock *lock = make_lock_with(bridge(), KEY, TL_LOCK_OPTIONS(.ttl_ms = 0));
    acquiring *waiter = waiting_silently(lock);
    for (int i = 1; i <= 50; i++)
        ask("SET " KEY " %lld", (long long)(server_ms() + LEGACY_TTL_MS + i));
    assert_false(atomic_load(&waiter->done));
    ask("CLIENT KILL TYPE pubsub");
    ask("SET " KEY " %lld", (long long)(server_ms() + LEGACY_TTL_MS));
    ask("CLIENT KILL TYPE normal SKIPME yes");
    ask("SET " KEY " %lld", (long long)(server_ms() + LEGACY_TTL_MS));
    assert_false(atomic_load(&waiter->done));
    ask("DEL " KEY);
    ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

/* ---- by events --------------------------------------------------------------------------------- */

TEST_IN(own_renewals_lead_to_no_others, BY_EVENTS) {
    enum { TIMES = 5 };
    lock_events *events = make_events();
    tl_lock *lock = held(events);
    await_watched();
    await_silence();
    long long before = scripts(), reads = count_of("get", "calls=");
    for (int i = 0; i < TIMES; i++)
        ASSERT_RESULT(tl_lock_extend(lock, LEGACY_TTL_MS + i, &said), TL_OK);
    await_silence();
    assert_in_range(scripts() - before, TIMES, 3 * TIMES); /* before it knows of one, it may ask */
    assert_in_range(count_of("get", "calls=") - reads, TIMES, 12 * TIMES);
    assert_int_equal(lock_events_count(events), 0);
}

TEST_IN(a_subscription_ends_with_the_last_interest, BY_EVENTS) {
    tl_lock *lock = held(make_events());
    for (int i = 0; i < 5; i++) {
        await_watched();
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
        WAIT_FOR(SOON_MS, hearing(0, KEY, strlen(KEY)) == 0);
        ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    }
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    if (real_server_has(REAL_SEVEN)) /* which counts them */
        assert_in_range(count_of("client|tracking", "rejected_calls="), 1, 2); /* not each time */
    acquiring *waiter = waiting_silently(lock);
    tl_lock_cancel(lock);
    ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_ECANCELLED);
    WAIT_FOR(SOON_MS, hearing(0, KEY, strlen(KEY)) == 0);
}

TEST_IN(events_are_left_where_tracking_is_had_again, BY_EVENTS) {
    NEEDS_SERVER(REAL_CHANNEL_RULES);
    lock_events *events = make_events();
    (void)held(events);
    await_watched();
    ask("ACL SETUSER default +client");
    ask("CLIENT KILL TYPE normal SKIPME yes");
    WAIT_FOR(SOON_MS, tracked() == 1 && hearing(0, KEY, strlen(KEY)) == 0);
    ask("DEL " KEY);
    assert_int_equal(lock_events_await(events, TL_LOST, AT_ONCE_MS).why, TL_LOST_GONE);
    ask("ACL SETUSER default " WITHOUT_TRACKING);
}

/* Of whichever database, and whatever the key is made of. */
static void is_told_of(int db, const void *key, size_t n) {
    char url[96];
    (void)snprintf(url, sizeof url, "%s/%d", real_redis_url(server), db);
    lock_events *events = make_events();
    tl_client *client = make_client_with(
        TL_CLIENT_OPTIONS(.url = url, .protocol = TL_BRIDGE,
                          .legacy = &TL_LEGACY_OPTIONS(.clock_skew_max_ms = 300,
                                                       .legacy_ttl_min_ms = LEGACY_TTL_MS)));
    tl_lock *lock = make_lock_n(client, key, n,
                                TL_LOCK_OPTIONS(.on_event = lock_events_add, .ctx = events));
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    WAIT_FOR(SOON_MS, hearing(db, key, n) == 1);
    ask("SELECT %d", db == 0 ? 1 : 0);
    freeReplyObject(real_redis_command(server, "SET %b another", key, n)); /* of the same name */
    ask("SELECT %d", db);
    assert_int_equal(lock_events_count(events), 0);
    assert_int_equal(real_redis_int(server, "DEL %b", key, n), 1);
    assert_int_equal(lock_events_await(events, TL_LOST, AT_ONCE_MS).why, TL_LOST_GONE);
    ask("SELECT 0");
    drop_lock(lock);
    drop_client(client);
}

TEST_IN(of_any_database_and_any_key, BY_EVENTS) {
    static char longest[TL_KEY_MAX];
    memset(longest, 'k', sizeof longest);
    is_told_of(3, KEY, strlen(KEY));
    is_told_of(0, "\0\r\n\xff *?", 7);
    is_told_of(15, longest, sizeof longest);
}

/* A DEL is of another kind than a SET, and may not be told. */
TEST_IN(a_waiter_polls_until_it_is_sure_to_be_told, BY_EVENTS) {
    ask("CONFIG SET notify-keyspace-events K$");
    tl_lock *lock = make_lock_with(bridge(), KEY, TL_LOCK_OPTIONS(.ttl_ms = 0));
    ask("SET " KEY " %lld", (long long)(server_ms() + LEGACY_TTL_MS));
    acquiring *waiter = acquiring_begin(lock, TL_FOREVER);
    await_watched();
    for (int i = 1; i <= 5; i++)
        ask("SET " KEY " %lld", (long long)(server_ms() + LEGACY_TTL_MS + i));
    long long before = scripts();
    WAIT_FOR(SOON_MS, scripts() - before > 5);
    ask("DEL " KEY);
    ASSERT_RESULT(acquiring_end(waiter, AT_ONCE_MS), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    ask("CONFIG SET notify-keyspace-events " LETTERS);
}

/* Another server may answer there, or the same with other settings. */
TEST_IN(what_came_on_a_former_connection_makes_nobody_sure, BY_EVENTS) {
    tl_lock *lock = make_lock_with(bridge(), KEY, TL_LOCK_OPTIONS(.ttl_ms = 0));
    acquiring *waiter = waiting_silently(lock);
    ask("CONFIG SET notify-keyspace-events \"\"");
    ask("CLIENT KILL TYPE pubsub");
    long long before = scripts();
    WAIT_FOR(SOON_MS, scripts() - before > 5);
    WAIT_FOR(SOON_MS, is_watched());
    before = scripts();
    WAIT_FOR(SOON_MS, scripts() - before > 5);
    ask("DEL " KEY);
    ASSERT_RESULT(acquiring_end(waiter, AT_ONCE_MS), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    ask("CONFIG SET notify-keyspace-events " LETTERS);
}

/* Looking for a key that isn't there is an event too, if so configured. */
TEST_IN(a_waiters_own_looks_wake_nobody, BY_EVENTS) {
    ask("CONFIG SET notify-keyspace-events " LETTERS "m");
    ask("SET " KEY " %lld", (long long)(server_ms() + LEGACY_TTL_MS));
    tl_lock *lock = make_lock_with(bridge(), KEY, TL_LOCK_OPTIONS(.ttl_ms = 0));
    acquiring *waiter = waiting_silently(lock);
    ask("HSET tidelock:{" KEY "} token another value 1 until %lld000",
        (long long)(server_ms() + LEGACY_TTL_MS));
    long long before = scripts();
    ask("DEL " KEY); /* the sidecar still binds */
    WAIT_FOR(SOON_MS, scripts() > before);
    await_silence();
    assert_in_range(scripts() - before, 1, 10);
    assert_false(atomic_load(&waiter->done));
    tl_lock_cancel(lock);
    ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_ECANCELLED);
    ask("CONFIG SET notify-keyspace-events " LETTERS);
}

/* ---- by nothing -------------------------------------------------------------------------------- */

static tl_lock *brief(const char *url, lock_events *events) {
    tl_client *client = make_client_with(
        TL_CLIENT_OPTIONS(.url = url, .protocol = TL_BRIDGE,
                          .legacy = &TL_LEGACY_OPTIONS(.clock_skew_max_ms = 300,
                                                       .legacy_ttl_min_ms = TTL_BRIEF_MS)));
    return make_lock_with(client, KEY, TL_LOCK_OPTIONS(.on_event = lock_events_add, .ctx = events));
}

TEST_IN(untold_a_waiter_comes_when_the_stamp_has_expired, BY_NOTHING) {
    const int64_t left_ms = 1000, spared_ms = 300 + 150;
    tl_lock *lock = make_lock_with(bridge(), KEY, TL_LOCK_OPTIONS(.ttl_ms = 0));
    const int64_t began_ms = server_ms(), end_ms = began_ms + left_ms;
    ask("SET " KEY " %lld", (long long)end_ms);
    ASSERT_RESULT(tl_lock_acquire(lock, TL_FOREVER, &said), TL_OK);
    assert_in_range(server_ms() - end_ms, spared_ms, spared_ms + AT_ONCE_MS);
    assert_in_range(scripts(), 1, 10 + (server_ms() - began_ms) / 50); /* it polls no oftener */
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

TEST_IN(untold_a_waiter_finds_what_an_old_client_has_released, BY_NOTHING) {
    tl_lock *lock = make_lock_with(bridge(), KEY, TL_LOCK_OPTIONS(.ttl_ms = 0));
    ask("SET " KEY " %lld", (long long)(server_ms() + LEGACY_TTL_MS));
    acquiring *waiter = acquiring_begin(lock, TL_FOREVER);
    WAIT_FOR(SOON_MS, hearing(0, KEY, strlen(KEY)) == 1);
    WAIT_FOR(SOON_MS, scripts() > 4);
    ask("DEL " KEY);
    ASSERT_RESULT(acquiring_end(waiter, AT_ONCE_MS), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

TEST_IN(untold_a_holder_finds_out_by_its_renewal, BY_NOTHING) {
    lock_events *events = make_events();
    tl_lock *lock = brief(real_redis_url(server), events);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    ask("DEL " KEY);
    assert_int_equal(lock_events_await(events, TL_LOST, TTL_BRIEF_MS + SOON_MS).why, TL_LOST_GONE);
}

/* A refusal is enough, and what may be heard still is. */
TEST_IN(where_their_channels_are_forbidden_all_else_goes_on, BY_NOTHING) {
    NEEDS_SERVER(REAL_CHANNEL_RULES);
    char url[96];
    ask("CONFIG SET notify-keyspace-events " LETTERS);
    ask("ACL SETUSER limited reset on >word ~* +@all -client resetchannels &tidelock:*");
    (void)snprintf(url, sizeof url, "redis://limited:word@127.0.0.1:%d", real_redis_port(server));
    lock_events *events = make_events();
    tl_lock *lock = brief(url, events), *other = brief(url, make_events());
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    WAIT_FOR(SOON_MS, count_of("subscribe", "rejected_calls=") == 2); /* of all changes, of K's */
    enum { TIMES = 20 };
    for (int i = 0; i < TIMES; i++) {
        acquiring *waiter = acquiring_begin(other, TL_FOREVER);
        WAIT_FOR(SOON_MS, real_redis_int(server, "PUBLISH tidelock:{" KEY "} ''") == 1);
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
        ASSERT_RESULT(acquiring_end(waiter, AT_ONCE_MS), TL_OK);
        tl_lock *was = lock;
        lock = other;
        other = was;
    }
    /* Of two clients; a few more before they know. */
    assert_in_range(count_of("subscribe", "rejected_calls="), 2, TIMES / 2);
    ask("DEL " KEY);
    WAIT_FOR(TTL_BRIEF_MS + SOON_MS, tl_lock_state(lock) == TL_LOST);
}

/* ---- servers ----------------------------------------------------------------------------------- */

static int start(int by, const char *config) {
    told_by = by;
    server = real_redis_start(&(real_redis_options){.config = config});
    return 0;
}

static int start_tracking(void **state) {
    (void)state;
    return start(TRACKING, NULL);
}

static int start_events(void **state) {
    (void)state;
    if (!real_server_has(REAL_USERS))
        return start(EVENTS, "notify-keyspace-events " LETTERS);
    return start(EVENTS, "notify-keyspace-events " LETTERS "\n"
                         "user default on nopass ~* &* +@all " WITHOUT_TRACKING);
}

/* As they are before Redis 5: the connection's number isn't told either. */
static int start_nothing(void **state) {
    (void)state;
    return start(NOTHING, "rename-command CLIENT \"\"");
}

static int stop(void **state) {
    (void)state;
    real_redis_free(server);
    return 0;
}

int main(void) {
    real_server_need(REAL_SCAN);
    int failed = 0;
    if (real_server_shows_group(REAL_CHANNEL_RULES, "by_tracking"))
        failed += tests_run_group("by_tracking", BY_TRACKING, start_tracking, stop);
    const real_server_ability rules = real_server_has(REAL_USERS) ? REAL_CHANNEL_RULES
                                                                  : REAL_CONNECTION_ID;
    if (real_server_shows_group(rules, "by_events"))
        failed += tests_run_group("by_events", BY_EVENTS, start_events, stop);
    return failed + tests_run_group("by_nothing", BY_NOTHING, start_nothing, stop);
}
