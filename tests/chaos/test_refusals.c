/*
 * Faults: a server that answers, but refuses. Each refusal has its own result and its own words, no
 * secret is among them, and nothing stays locked that nobody holds.
 */

/*
 * Faults and outcomes (tests/README.md says what is asserted of each):
 * - no password, a wrong one, one too many; set while a client holds or waits: DENIED, "asks for a password", "wrong
 *   user or password", "asks for none".
 * - `SELECT` out of range: INVALID "database"; protected mode, from outside: DENIED "protected mode".
 */
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "arena.h"

#define PASSWORD "correct-horse"
#define WRONG "battery-staple"

static void assert_no_secret(void) {
    assert_null(strstr(said.message, PASSWORD));
    assert_null(strstr(said.message, WRONG));
}

/* Before 6.0 who was there already must log in, too. */
static void log_in(void) {
    freeReplyObject(real_redis_command(server, "AUTH " PASSWORD));
}

static void ask_for_password(void) {
    run("CONFIG SET requirepass " PASSWORD);
    log_in();
}

static void ask_for_no_password(void) {
    log_in();
    freeReplyObject(real_redis_command(server, "CONFIG SET requirepass %s", ""));
}

static void cut_connections(void) {
    run("CLIENT KILL TYPE normal SKIPME yes");
    run("CLIENT KILL TYPE pubsub");
}

/* A server that refuses nothing. */
static int start_over(void **state) {
    ask_for_no_password();
    if (real_server_has(REAL_PAUSE_WRITES))
        run("CONFIG SET bind 127.0.0.1");
    return arena_set_up(state);
}

TESTS_WITH(start_over, arena_tear_down);

/* Every call that reaches the server is refused in the same way. */
static void refused(tl_client *client, tl_err expected, const char *words) {
    tl_lock_info info = {.size = sizeof info};
    tl_lock *lock = by_hand(client, AGES_MS);
    ASSERT_RESULT(tl_client_ping(client, &said), expected);
    ASSERT_SAID(words);
    assert_no_secret();
    ASSERT_RESULT(tl_client_look(client, KEY, strlen(KEY), &info, &said), expected);
    ASSERT_SAID(words);
    assert_no_secret();
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), expected);
    ASSERT_SAID(words);
    assert_no_secret();
    int64_t began = clock_ms();
    ASSERT_RESULT(tl_lock_acquire(lock, TL_FOREVER, &said), expected);
    ASSERT_TOOK(began, 0, CONNECT_MS);
    assert_no_secret();
}

/* ---- logging in -------------------------------------------------------------------------------- */

TEST(a_missing_password_is_denied) {
    ask_for_password();
    refused(client_direct(), TL_EDENIED, "asks for a password");
}

TEST(a_wrong_password_is_denied) {
    ask_for_password();
    refused(make_client_with(TL_CLIENT_OPTIONS(.url = real_redis_url(server), .password = WRONG)),
            TL_EDENIED,
            real_server_has(REAL_USERS) ? "login refused: WRONGPASS: wrong user or password"
                                        : "login refused: ERR: wrong password");
    char url[128];
    (void)snprintf(url, sizeof url, "redis://nobody:" WRONG "@127.0.0.1:%d",
                   real_redis_port(server));
    refused(make_client(url), TL_EDENIED,
            real_server_has(REAL_USERS) ? "login refused: WRONGPASS: wrong user or password"
                                        : "the server is too old for user names");
}

TEST(the_right_password_opens) {
    char url[128];
    ask_for_password();
    (void)snprintf(url, sizeof url, "redis://:" PASSWORD "@127.0.0.1:%d", real_redis_port(server));
    ASSERT_RESULT(tl_client_ping(make_client(url), &said), TL_OK);
    ASSERT_RESULT(tl_client_ping(make_client_with(TL_CLIENT_OPTIONS(.url = real_redis_url(server),
                                                                    .password = PASSWORD)),
                                 &said),
                  TL_OK);
}

TEST(a_password_that_is_not_asked_for_is_denied) {
    refused(make_client_with(TL_CLIENT_OPTIONS(.url = real_redis_url(server), .password = WRONG)),
            TL_EDENIED, "asks for none");
}

TEST(a_database_that_is_not_there_is_invalid) {
    char url[128];
    (void)snprintf(url, sizeof url, "redis://127.0.0.1:%d/4711", real_redis_port(server));
    refused(make_client(url), TL_EINVALID, "database 4711");
}

/* What was refused is granted to the same handles when the password is gone again. */
TEST(a_password_that_is_asked_for_no_more_is_not_missed) {
    tl_lock *lock = by_hand(client_direct(), AGES_MS);
    ask_for_password();
    int64_t began = clock_ms();
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_EDENIED); /* not a thing to wait for */
    ASSERT_SAID("asks for a password");
    ASSERT_TOOK(began, 0, 0);
    ask_for_no_password();
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

/* The password is set while they hold and wait, and their connections are cut. */
TEST(a_waiter_that_may_not_come_back_is_denied) {
    tl_lock *holder = by_hand(client_direct(), AGES_MS);
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    tl_client *theirs = make_client_with(
        TL_CLIENT_OPTIONS(.url = real_redis_url(server),
                          .attempt_ms = 3000)); /* for so long it asks as it closes */
    acquiring *waiter = acquiring_begin(by_hand(theirs, AGES_MS), TL_FOREVER);
    WAIT_FOR(SOON_MS, has_executed("subscribe", 1));
    ask_for_password();
    cut_connections();
    ASSERT_RESULT(acquiring_end(waiter, 2 * SOON_MS), TL_EDENIED);
    ASSERT_SAID("asks for a password");
    ASSERT_RESULT(tl_lock_release(holder, &said), TL_EDENIED);
    ASSERT_SAID("asks for a password");
}

TEST(a_holder_that_may_not_come_back_is_told_in_time) {
    for (int i = 0; i < 2; i++) { /* for a while, and for good */
        const int64_t ttl_ms = i ? BRIEF_MS : SAFE_MS;
        lock_events *events = make_events();
        tl_lock *lock = make_lock_with(
            client_direct(), KEY,
            TL_LOCK_OPTIONS(.ttl_ms = ttl_ms, .on_event = lock_events_add, .ctx = events));
        lock_event seen;
        ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
        ask_for_password();
        cut_connections();
        if (i == 0) {
            (void)lock_events_await(events, TL_AT_RISK, SOON_MS);
            ask_for_no_password();
        }
        WAIT_FOR(SOON_MS, lock_events_find(events, 1 - i, i ? TL_LOST : TL_HELD, &seen));
        if (i == 0) {
            assert_belief_is_true(lock);
            ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
            continue;
        }
        assert_int_equal(tl_lock_remaining_ms(lock), 0);
        ask_for_no_password();
        int64_t began = clock_ms();
        assert_free_soon();
        ASSERT_TOOK(began, 0, ttl_ms);
    }
}

/* ---- from outside ------------------------------------------------------------------------------ */

/* An address of this host that isn't a loopback one; false: it has none. */
static bool own_address(char *to, size_t size) {
    struct ifaddrs *list, *a;
    if (getifaddrs(&list) != 0)
        return false;
    for (a = list; a; a = a->ifa_next)
        if (a->ifa_addr && a->ifa_addr->sa_family == AF_INET && !(a->ifa_flags & IFF_LOOPBACK))
            break;
    bool found = a && getnameinfo(a->ifa_addr, sizeof(struct sockaddr_in), to, (socklen_t)size,
                                  NULL, 0, NI_NUMERICHOST) == 0;
    freeifaddrs(list);
    return found;
}

TEST(a_server_that_is_protected_from_outside_says_so) {
    NEEDS_SERVER(REAL_SEVEN);
    char address[64], url[128];
    if (!own_address(address, sizeof address)) {
        print_message("SKIP: this host has no address but the loopback one\n");
        skip();
    }
    run("CONFIG SET bind *");
    run("CONFIG SET protected-mode yes");
    (void)snprintf(url, sizeof url, "redis://%s:%d", address, real_redis_port(server));
    tl_client *client = client_at(url);
    refused(client, TL_EDENIED, "protected mode");
    run("CONFIG SET protected-mode no");
    ASSERT_RESULT(tl_client_ping(client, &said), TL_OK); /* the same handle */
}

TEST(who_is_logged_in_keeps_the_lock_when_the_password_changes) {
    NEEDS_SERVER(REAL_USERS);
    tl_client *client = client_direct();
    tl_lock *lock = make_lock(client, KEY, SAFE_MS);
    tl_lock *other = make_lock(client, "chaos:other", SAFE_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    WAIT_FOR(SOON_MS, renewals_of(client) >= 1);
    ask_for_password();
    ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_OK);
    const uint64_t before = renewals_of(client);
    WAIT_FOR(SOON_MS, renewals_of(client) > before); /* over the same connection, within a second */
    ASSERT_GOES_ON(lock);
    ASSERT_RESULT(tl_lock_release(other, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

/* ---- connections ------------------------------------------------------------------------------- */

TEST(a_server_that_resets_every_connection_is_unavailable) {
    char url[128];
    (void)snprintf(url, sizeof url, "redis://127.0.0.1:%d", proxy_port(gate));
    proxy_break(gate, PROXY_REQUESTS, 0, PROXY_RESET, PROXY_ALL);
    refused(make_client_with(
                TL_CLIENT_OPTIONS(.url = url, .attempt_ms = ATTEMPT_MS, .connect_ms = CONNECT_MS)),
            TL_EUNAVAILABLE, url + strlen("redis://"));
}

int main(void) {
    real_server_need(REAL_SCAN);
    server = real_redis_start(NULL);
    return tests_run();
}
