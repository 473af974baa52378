/*
 * A connection's beginning: resolving, connecting, logging in, and every way in which that fails.
 */
#include "conn_world.h"
#include "names_as.h"
#include "transport/resolve.h"

#include <pthread.h>
#include <stdatomic.h>

/* ---- what is said ------------------------------------------------------------------------------ */

static void check_login_bytes(const char *login, const char *more, bool run, const char *bytes) {
    conn_world w;
    world_open_with(&w, login, more, (tl_conn_limits){.connect_ms = CONNECT_MS, .ask_run = run});
    world_ask(&w, 1, "GET k");
    peer_accept(&w.peer);
    peer_expect(&w.peer, bytes);
    peer_expect_silence(&w.peer); /* the request waits */
    assert_int_equal(w.ups, 0);
    world_close(&w);
}

TEST(login_bytes_are_exact) {
    check_login_bytes("", "", false, TIME_ASKED);
    check_login_bytes("", "", true, TIME_ASKED "*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n");
    check_login_bytes("", "/12", false, "*2\r\n$6\r\nSELECT\r\n$2\r\n12\r\n" TIME_ASKED);
    check_login_bytes(":p%20w@", "", false, "*2\r\n$4\r\nAUTH\r\n$3\r\np w\r\n" TIME_ASKED);
    check_login_bytes("me:pw@", "/1", true,
                      "*3\r\n$4\r\nAUTH\r\n$2\r\nme\r\n$2\r\npw\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n1"
                      "\r\n" TIME_ASKED "*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n");
    check_login_bytes("me@", "", false, "*3\r\n$4\r\nAUTH\r\n$2\r\nme\r\n$0\r\n\r\n" TIME_ASKED);
}

TEST(a_login_that_has_nothing_to_say_says_nothing) {
    conn_world w;
    world_open_with(&w, "", "", (tl_conn_limits){.connect_ms = CONNECT_MS, .no_time = true});
    world_ask(&w, 1, "GET k");
    peer_accept(&w.peer);
    peer_expect(&w.peer, "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
    assert_int_equal(w.ups, 1);
    assert_false(w.has_bracket);
    peer_send(&w.peer, "$-1\r\n");
    world_close(&w);
}

TEST(up_tells_the_bracket) {
    conn_world w;
    world_open_with(&w, ":pw@", "/3", (tl_conn_limits){.connect_ms = CONNECT_MS, .ask_run = true});
    tl_mono before = tl__mono_now();
    world_ask(&w, 1, "GET k");
    peer_accept(&w.peer);
    peer_send(&w.peer, "+OK\r\n+OK\r\n" TIME_TOLD
                       "$50\r\n# Server\r\nuptime_in_seconds:77\r\nuptime_in_days:0\r\n\r\n");
    peer_expect(&w.peer,
                "*2\r\n$4\r\nAUTH\r\n$2\r\npw\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n" TIME_ASKED
                "*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
    assert_int_equal(w.ups, 1);
    assert_true(tl__conn_up(w.conn));
    assert_false(tl__conn_idle(w.conn));
    assert_true(w.has_bracket);
    tl_interval widest = tl__bracket(STAMP_US, before, tl__mono_now());
    assert_true(widest.lo <= w.bracket.lo && w.bracket.lo <= w.bracket.hi &&
                w.bracket.hi <= widest.hi);
    world_close(&w);
}

/* What is told of the clock counts from when the login is complete: the server may have gained on ours since it told. */
TEST(a_login_in_parts_brackets_the_clock_by_the_last_of_them) {
    conn_world w;
    world_open_with(&w, "", "", (tl_conn_limits){.connect_ms = CONNECT_MS, .ask_run = true});
    world_ask(&w, 1, "GET k");
    peer_accept(&w.peer);
    peer_send(&w.peer, TIME_TOLD);
    peer_expect(&w.peer, TIME_ASKED "*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n");
    assert_int_equal(w.ups, 0);
    tl_mono between = tl__mono_now();
    peer_send(&w.peer, "$20\r\nuptime_in_seconds:42\r\n");
    tl_mono began = tl__mono_now();
    while (!w.ups)
        peer_turn(&w.peer, began);
    assert_true(w.has_bracket);
    assert_true(w.bracket.lo <= STAMP_US - between.ns / 1000);
    world_close(&w);
}

TEST(a_sentinel_is_no_server_of_locks) {
    conn_world w;
    world_open_with(&w, "", "", (tl_conn_limits){.connect_ms = CONNECT_MS, .ask_run = true});
    world_ask(&w, 1, "GET k");
    peer_accept(&w.peer);
    peer_send(&w.peer, "-ERR unknown command 'TIME', with args beginning with: \r\n");
    peer_send(&w.peer, "$29\r\n# Server\r\nredis_mode:sentinel\r\n");
    world_await(&w, 1);
    seen_failed(&w, 0, 1, false, TL_ESERVER, "this is a Sentinel, which keeps no locks");
    world_close(&w);
}

static void check_up(const char *reply, bool bracket) {
    conn_world w;
    world_open_with(&w, "", "", (tl_conn_limits){.connect_ms = CONNECT_MS, .ask_run = true});
    world_ask(&w, 1, "GET k");
    peer_accept(&w.peer);
    peer_send(&w.peer, reply);
    peer_send(&w.peer, "");
    tl_mono began = tl__mono_now();
    while (!w.ups)
        peer_turn(&w.peer, began);
    assert_int_equal(w.has_bracket, bracket);
    world_close(&w);
}

TEST(what_an_old_or_odd_server_lacks_is_done_without) {
#define INFO_TOLD "$20\r\nuptime_in_seconds:42\r\n"
    check_up("-ERR unknown command 'TIME'\r\n" INFO_TOLD, false);
    check_up("-ERR unknown command `TIME`, with args beginning with: \r\n" INFO_TOLD, false);
    /* Before 2.6 INFO knows no sections. */
    check_up("-ERR unknown command 'TIME'\r\n-ERR wrong number of arguments for 'info' command\r\n",
             false);
    check_up(TIME_TOLD "-NOPERM this user has no permissions to run the 'info' command\r\n", true);
    check_up(TIME_TOLD "$-1\r\n", true);
    check_up(TIME_TOLD INFO_TOLD, true);
}

/* ---- being refused ----------------------------------------------------------------------------- */

static void check_refused(const char *login, const char *more, const char *reply, tl_err why,
                          const char *words) {
    conn_world w;
    char place[32];
    world_open_with(&w, login, more, (tl_conn_limits){.connect_ms = CONNECT_MS});
    (void)snprintf(place, sizeof place, "127.0.0.1:%u: ", (unsigned)w.peer.port);
    for (size_t i = 0; i < 2; i++) { /* and the next request tries again */
        world_ask(&w, 1, "GET k");
        world_ask(&w, 2, "GET k");
        peer_accept(&w.peer);
        peer_send(&w.peer, reply);
        world_await(&w, 2 * i + 2);
        for (size_t k = 2 * i; k < 2 * i + 2; k++) {
            seen_failed(&w, k, (uint16_t)(k - 2 * i + 1), false, why, words);
            assert_memory_equal(w.log[k].text, place, strlen(place));
            assert_null(strstr(w.log[k].text + strlen(place), place)); /* the place once */
            assert_null(strstr(w.log[k].text, "hunter2"));
            assert_null(strstr(w.log[k].text, "alice"));
        }
        assert_int_equal(w.downs, i + 1);
        assert_null(strstr(w.down, "hunter2"));
        assert_int_equal(tl__conn_fd(w.conn), -1);
        world_pass_ms(&w, 50);
    }
    assert_int_equal(w.ups, 0);
    world_close(&w);
}

TEST(a_refused_login_says_why_and_keeps_the_secret) {
    const char *alice = "alice:hunter2@", *only = ":hunter2@";
    check_refused(alice, "", "-WRONGPASS invalid username-password pair or user is disabled.\r\n",
                  TL_EDENIED, "login refused: WRONGPASS: wrong user or password");
    check_refused(only, "", "-ERR invalid password\r\n", TL_EDENIED,
                  "login refused: ERR: wrong password");
    check_refused(only, "", "-ERR Client sent AUTH, but no password is set\r\n", TL_EDENIED,
                  "the server asks for none");
    check_refused(only, "",
                  "-ERR AUTH <password> called without any password configured for the default "
                  "user. Are you sure your configuration is correct?\r\n",
                  TL_EDENIED, "the server asks for none");
    check_refused(alice, "", "-ERR wrong number of arguments for 'auth' command\r\n", TL_EDENIED,
                  "too old for user names");
    check_refused(only, "", "-ERR unknown command 'AUTH', with args beginning with: 'hunter2' \r\n",
                  TL_EDENIED, "login refused: ERR: the server has no command AUTH");
    check_refused(alice, "", "-ERR no alice here\r\n", TL_EDENIED, "login refused: ERR");
    check_refused(only, "", "-ERR hunter2 is wrong\r\n", TL_EDENIED, "login refused: ERR");
    check_refused(only, "", "-hunter2\r\n", TL_EDENIED, "login refused");
    check_refused(only, "", "+OK\r\n-ERR hunter2\r\n", TL_EUNAVAILABLE, "TIME failed");
    check_refused(only, "/3", "+OK\r\n-ERR hunter2\r\n", TL_EINVALID,
                  "database 3 cannot be selected");
    check_refused(only, "", ":1\r\n", TL_ESERVER, "malformed reply to the login");
}

/* Letters that a secret and the words have in common cut nothing. */
TEST(words_are_whole_whatever_the_secret) {
    static const char *const logins[] = {":e@", ":wrong@", "o:r@", "alid:s@", ":login@"};
    for (size_t i = 0; i < sizeof logins / sizeof *logins; i++) {
        check_refused(logins[i], "", "-WRONGPASS invalid username-password pair\r\n", TL_EDENIED,
                      ": login refused: WRONGPASS: wrong user or password");
        check_refused(logins[i], "", "+OK\r\n-LOADING Redis is loading the dataset in memory\r\n",
                      TL_EUNAVAILABLE, ": LOADING: the server is loading its data");
    }
}

/* redis://hunter2@host: the password stands where a user belongs. */
TEST(a_password_in_the_users_place_gets_a_hint) {
    check_refused("hunter2@", "",
                  "-WRONGPASS invalid username-password pair or user is disabled.\r\n", TL_EDENIED,
                  "a password alone is written redis://:PASSWORD@HOST");
    check_refused("hunter2@", "", "-ERR wrong number of arguments for 'auth' command\r\n",
                  TL_EDENIED, "redis://:PASSWORD@HOST");
}

TEST(a_missing_password_or_permission_is_denied) {
    check_refused("", "", "-NOAUTH Authentication required.\r\n", TL_EDENIED,
                  "the server asks for a password");
    check_refused("", "/3", "-NOAUTH Authentication required.\r\n", TL_EDENIED,
                  "the server asks for a password");
    check_refused("", "", "-ERR operation not permitted\r\n", TL_EDENIED,
                  "the server asks for a password");
    check_refused("", "",
                  "-DENIED Redis is running in protected mode because protected mode is "
                  "enabled and no password is set for the default user.\r\n",
                  TL_EDENIED, "DENIED: the server is in protected mode");
    check_refused("", "/99", "-ERR DB index is out of range\r\n", TL_EINVALID,
                  "database 99 cannot be selected: ERR DB index");
}

/* From 7.2 the server names the user before the command. */
TEST(a_missing_permission_names_the_command) {
    static const char *const words[] = {"this user has no permissions to run the '%s' command",
                                        "User alice has no permissions to run the '%s' command"};
    for (size_t i = 0; i < 2; i++) {
        char no[160], reply[256];
        (void)snprintf(no, sizeof no, words[i], "time");
        (void)snprintf(reply, sizeof reply, "+OK\r\n-NOPERM %s\r\n", no);
        check_refused("alice:hunter2@", "", reply, TL_EDENIED,
                      ": NOPERM: the user may not run 'time': the permission +time is missing");
        (void)snprintf(no, sizeof no, words[i], "select");
        (void)snprintf(reply, sizeof reply, "+OK\r\n-NOPERM %s\r\n", no);
        check_refused("alice:hunter2@", "/3", reply, TL_EDENIED,
                      ": NOPERM: the user may not run 'select': the permission +select is missing");
    }
}

TEST(a_server_that_cannot_serve_now_is_unavailable) {
    check_refused("", "", "-LOADING Redis is loading the dataset in memory\r\n", TL_EUNAVAILABLE,
                  "LOADING");
    check_refused(":hunter2@", "", "-LOADING Redis is loading the dataset in memory\r\n",
                  TL_EUNAVAILABLE, "LOADING");
    check_refused("", "", "-MASTERDOWN Link with MASTER is down\r\n", TL_EUNAVAILABLE,
                  "MASTERDOWN");
    check_refused(":hunter2@", "", "-ERR max number of clients reached\r\n", TL_EUNAVAILABLE,
                  "max number of clients");
    check_refused("", "", "-ERR something new\r\n", TL_EUNAVAILABLE, "TIME failed: ERR something");
}

TEST(what_is_no_redis_is_said_to_be_none) {
    check_refused("", "", "HTTP/1.1 400 Bad Request\r\n\r\n", TL_ESERVER,
                  "no reply of a Redis server");
    check_refused("", "", "+PONG\r\n", TL_ESERVER, "malformed reply to TIME");
    check_refused("", "", "*2\r\n$1\r\nx\r\n$1\r\n5\r\n", TL_ESERVER, "malformed reply to TIME");
    check_refused("", "", "*0\r\n", TL_ESERVER, "malformed reply to TIME");
    check_refused("", "", ":1\r\n", TL_ESERVER, "malformed reply to TIME");
}

TEST(a_server_that_hangs_up_at_login) {
    conn_world w;
    world_open(&w);
    world_ask(&w, 1, "GET k");
    peer_accept(&w.peer);
    peer_expect(&w.peer, TIME_ASKED);
    peer_drop(&w.peer);
    world_await(&w, 1);
    seen_failed(&w, 0, 1, false, TL_EUNAVAILABLE, ": connection closed by the server");
    world_close(&w);
}

/* ---- limits ------------------------------------------------------------------------------------ */

TEST(a_server_that_never_answers_the_login_ends_by_the_limit) {
    conn_world w;
    world_open(&w);
    assert_int_equal(world_try(&w, 1, "GET k", 60000), TL_OK);
    assert_int_equal(world_try(&w, 2, "GET k", 100), TL_OK);
    peer_accept(&w.peer);
    peer_expect(&w.peer, TIME_ASKED);
    world_pass_ms(&w, 100);
    world_await(&w, 1);
    seen_failed(&w, 0, 2, false, TL_EUNAVAILABLE, ": no reply to the login in 100 ms");
    world_pass_ms(&w, CONNECT_MS - 100);
    world_await(&w, 2);
    seen_failed(&w, 1, 1, false, TL_EUNAVAILABLE, ": no reply to the login in 5000 ms");
    assert_int_equal(tl__conn_fd(w.conn), -1);
    world_close(&w);
}

TEST(a_connect_that_is_swallowed_ends_by_the_limit) {
    conn_world w = {0};
    char url[64];
    int fill[64];
    struct pollfd queued[64];
    peer_listen_at(&w.peer, NULL, 0, 0);
    for (size_t i = 0; i < 64; i++) { /* fill the queue of what nobody accepts */
        struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(w.peer.port)};
        in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(fill[i], (struct sockaddr *)&in, sizeof in);
        queued[i] = (struct pollfd){.fd = fill[i], .events = POLLOUT};
    }
    assert_true(poll(queued, 64, PEER_WAIT_MS) > 0); /* one fills it */
    (void)snprintf(url, sizeof url, "redis://127.0.0.1:%u", (unsigned)w.peer.port);
    world_connect(&w, url, &(tl_conn_limits){.connect_ms = CONNECT_MS});
    assert_int_equal(world_try(&w, 1, "GET k", 60000), TL_OK);
    world_drive(&w);
    world_drive(&w);
    assert_int_equal(w.seen, 0);
    assert_true(tl__conn_until(w.conn).ns <= tl__mono_add_ms(world_now(&w), CONNECT_MS).ns);
    assert_int_equal(tl__conn_events(w.conn), POLLOUT);
    world_pass_ms(&w, CONNECT_MS);
    world_drive(&w);
    assert_int_equal(w.seen, 1);
    seen_failed(&w, 0, 1, false, TL_EUNAVAILABLE, ": no reply in 5000 ms");
    assert_memory_equal(w.log[0].text, "connect 127.0.0.1:", 18);
    for (size_t i = 0; i < 64; i++)
        close(fill[i]);
    world_close(&w);
}

TEST(a_refused_connect_fails_at_once_and_backs_off) {
    conn_world w;
    char words[64];
    world_open(&w);
    close(w.peer.listener);
    (void)snprintf(words, sizeof words, "connect 127.0.0.1:%u: connection refused",
                   (unsigned)w.peer.port);
    world_ask(&w, 1, "GET k");
    world_await(&w, 1);
    seen_failed(&w, 0, 1, false, TL_EUNAVAILABLE, words);
    assert_string_equal(w.log[0].text, words);
    int64_t last = 0, most = 20;
    for (size_t i = 1; i < 12; i++) { /* 20 ms doubling to 1 s, the upper half of it at random */
        world_ask(&w, 2, "GET k");
        int64_t pause = tl__ns_until(world_now(&w), tl__conn_until(w.conn));
        assert_true(pause <= most * TL_NS_PER_MS);
        assert_true(pause >= most * TL_NS_PER_MS / 2);
        last = pause;
        most = most < 500 ? most * 2 : 1000;
        w.now = tl__mono_add_ns(w.now, pause);
        world_await(&w, i + 1);
        seen_failed(&w, i, 2, false, TL_EUNAVAILABLE, words);
    }
    assert_true(last > 400 * TL_NS_PER_MS);
    /* One whose limit is over before the back-off is told what the last attempt met. */
    assert_int_equal(world_try(&w, 3, "GET k", 1), TL_OK);
    world_pass_ms(&w, 1);
    world_await(&w, 13);
    seen_failed(&w, 12, 3, false, TL_EUNAVAILABLE, words);
    w.peer.listener = -1;
    world_close(&w);
}

TEST(without_requests_nothing_is_connected) {
    conn_world w;
    world_open(&w);
    for (int i = 0; i < 5; i++) {
        world_drive(&w);
        assert_int_equal(tl__conn_fd(w.conn), -1);
        assert_int_equal(tl__conn_until(w.conn).ns, TL_NEVER.ns);
    }
    world_close(&w);
}

/* ---- unix sockets ------------------------------------------------------------------------------ */

static void unix_listen(conn_world *w, char *path, size_t size, int backlog) {
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    char directory[] = "/tmp/tl-conn-XXXXXX";
    assert_non_null(mkdtemp(directory));
    (void)snprintf(path, size, "%s/s", directory);
    (void)snprintf(un.sun_path, sizeof un.sun_path, "%s", path);
    w->peer.stream = -1;
    w->peer.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(w->peer.listener, (struct sockaddr *)&un, sizeof un), 0);
    assert_int_equal(listen(w->peer.listener, backlog), 0);
}

static void unix_remove(char *path) {
    (void)unlink(path);
    *strrchr(path, '/') = '\0';
    (void)rmdir(path);
}

TEST(unix_socket) {
    conn_world w = {0};
    char path[64], url[80];
    unix_listen(&w, path, sizeof path, 8);
    (void)snprintf(url, sizeof url, "unix://%s", path);
    world_connect(&w, url, &(tl_conn_limits){.connect_ms = CONNECT_MS});
    world_serve(&w);
    tl__conn_free(w.conn);
    peer_close(&w.peer);
    unix_remove(path);
    w = (conn_world){.peer = {.listener = -1, .stream = -1}};
    (void)snprintf(url, sizeof url, "unix:///nowhere/at/all");
    world_connect(&w, url, &(tl_conn_limits){.connect_ms = CONNECT_MS});
    world_ask(&w, 1, "GET k");
    world_await(&w, 1);
    seen_failed(&w, 0, 1, false, TL_EUNAVAILABLE,
                "connect /nowhere/at/all: no such file or directory");
    world_close(&w);
}

TEST(a_full_unix_socket_is_tried_again) {
    conn_world w = {0};
    char path[64], url[80];
    unix_listen(&w, path, sizeof path, 0);
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    (void)snprintf(un.sun_path, sizeof un.sun_path, "%s", path);
    int fill = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(connect(fill, (struct sockaddr *)&un, sizeof un), 0);
    (void)snprintf(url, sizeof url, "unix://%s", path);
    world_connect(&w, url, &(tl_conn_limits){.connect_ms = CONNECT_MS});
    world_ask(&w, 1, "GET k");
    for (int i = 0; i < 5; i++) {
        world_drive(&w);
        assert_int_equal(tl__conn_fd(w.conn), -1); /* nothing that poll could wait for */
        int64_t pause = tl__ns_until(world_now(&w), tl__conn_until(w.conn));
        assert_true(pause <= 10 * TL_NS_PER_MS);
        world_pass_ms(&w, 5);
    }
    assert_int_equal(w.seen, 0);
    peer_accept(&w.peer); /* the filler's */
    close(fill);
    world_pass_ms(&w, 10);
    world_login(&w);
    world_close(&w);
    unix_remove(path);
}

/* ---- names ------------------------------------------------------------------------------------- */

static atomic_int lookups, released, left;
static int lookup_result;

/* Answers once it is released. */
static int slow_lookup(const char *host, const char *service, const struct addrinfo *hints,
                       struct addrinfo **ret) {
    assert_string_equal(host, "redis.example");
    int me = atomic_fetch_add(&lookups, 1);
    while (atomic_load(&released) <= me)
        (void)poll(NULL, 0, 1);
    int result = lookup_result ? lookup_result : getaddrinfo("127.0.0.1", service, hints, ret);
    atomic_fetch_add(&left, 1);
    return result;
}

static void lookup_reset(int already_released, int result) {
    atomic_store(&lookups, 0);
    atomic_store(&left, 0);
    atomic_store(&released, already_released);
    lookup_result = result;
    names_as(slow_lookup);
}

static void named_open(conn_world *w) {
    char url[64];
    *w = (conn_world){0};
    peer_listen(&w->peer);
    (void)snprintf(url, sizeof url, "redis://redis.example:%u", (unsigned)w->peer.port);
    world_connect(w, url, &(tl_conn_limits){.connect_ms = CONNECT_MS});
}

static int unpatch(void **state);

TEST_WITH(a_name_is_resolved, NULL, unpatch) {
    conn_world w;
    lookup_reset(1, 0);
    named_open(&w);
    world_serve(&w);
    seen_ok(&w, 0, 0, "PONG");
    assert_int_equal(atomic_load(&lookups), 1);
    world_close(&w);
}

TEST_WITH(a_name_that_is_none_is_said, NULL, unpatch) {
    conn_world w;
    lookup_reset(100, EAI_NONAME);
    named_open(&w);
    world_ask(&w, 1, "GET k");
    world_await(&w, 1);
    assert_string_equal(w.log[0].text, "resolve redis.example: no such host");
    seen_failed(&w, 0, 1, false, TL_EUNAVAILABLE, "no such host");
    lookup_result = EAI_AGAIN;
    world_pass_ms(&w, 50); /* the back-off */
    world_ask(&w, 2, "GET k");
    world_await(&w, 2);
    seen_failed(&w, 1, 2, false, TL_EUNAVAILABLE, "the name service does not answer");
    world_close(&w);
}

TEST_WITH(a_slow_resolver_ends_in_time_and_is_not_asked_twice, NULL, unpatch) {
    conn_world w;
    lookup_reset(0, 0);
    named_open(&w);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(world_try(&w, 1, "GET k", 60000), TL_OK);
        assert_int_equal(world_try(&w, 2, "GET k", 70), TL_OK);
        world_pass_ms(&w, 1000); /* the back-off */
        world_drive(&w);
        world_pass_ms(&w, CONNECT_MS);
        world_await(&w, 2 * i + 2);
        assert_int_equal(tl__conn_fd(w.conn), -1);
    }
    seen_failed(&w, 0, 2, false, TL_EUNAVAILABLE, "resolve redis.example: no reply in 70 ms");
    seen_failed(&w, 1, 1, false, TL_EUNAVAILABLE, "resolve redis.example: no reply in 5000 ms");
    while (atomic_load(&lookups) == 0)
        (void)poll(NULL, 0, 1);
    /* An attempt that begins while it still runs gets its answer. */
    world_ask(&w, 3, "GET k");
    world_pass_ms(&w, 1000);
    world_drive(&w);
    atomic_store(&released, 1);
    world_login(&w);
    assert_int_equal(atomic_load(&lookups), 1);
    world_close(&w);
}

TEST_WITH(an_abandoned_resolver_frees_its_own, NULL, unpatch) {
    conn_world w;
    lookup_reset(0, 0);
    named_open(&w);
    world_ask(&w, 1, "GET k");
    world_drive(&w);
    world_close(&w);
    assert_int_equal(w.seen, 1);
    atomic_store(&released, 1);
    while (atomic_load(&left) == 0)
        (void)poll(NULL, 0, 1);
    (void)poll(NULL, 0, 20); /* let the thread end: what it leaves behind is a leak */
}

static int two_addresses(const char *host, const char *service, const struct addrinfo *hints,
                         struct addrinfo **ret) {
    (void)host;
    struct addrinfo *second;
    int result = getaddrinfo("127.0.0.2", service, hints, ret);
    if (result == 0 && (result = getaddrinfo("127.0.0.1", service, hints, &second)) == 0)
        (*ret)->ai_next = second;
    return result;
}

TEST_WITH(each_address_is_tried, NULL, unpatch) {
    conn_world w;
    names_as(two_addresses);
    named_open(&w);
    world_serve(&w); /* it listens on the second only */
    world_close(&w);
    named_open(&w);
    close(w.peer.listener);
    w.peer.listener = -1;
    world_ask(&w, 1, "GET k");
    world_await(&w, 1);
    char words[64];
    (void)snprintf(words, sizeof words, "connect redis.example:%u: connection refused",
                   (unsigned)w.peer.port);
    assert_string_equal(w.log[0].text, words);
    world_close(&w);
}

static int unpatch(void **state) {
    (void)state;
    names_as(NULL);
    return 0;
}

TEST(numbers_need_no_resolver) {
    tl_address a;
    assert_true(tl__resolve_numeric("127.0.0.1", 1, &a));
    assert_true(tl__resolve_numeric("::1", 65535, &a));
    assert_int_equal(a.at.ss_family, AF_INET6);
    assert_false(tl__resolve_numeric("localhost", 1, &a));
    assert_false(tl__resolve_numeric("1.2.3.4.5", 1, &a));
}
