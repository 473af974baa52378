/*
 * A connection to members of an etcd, against peers that the test plays: who logs in, who is asked next, and what goes along.
 */
#include "conn_world.h"

#include "tests.h"

#include "transport/gateway.h"
#include "transport/grpc.h"

#if TL_HAVE_JSON

#define OK_HEAD "HTTP/1.1 200 OK\r\n"
#define LEASE                                                                                      \
    "POST /v3/lease/revoke HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nContent-Type: application/json\r\n%s" \
    "Grpc-Timeout: 60000m\r\nContent-Length: 11\r\n\r\n{\"ID\":\"%d\"}"

typedef struct {
    conn_world world; /* first: its peer is the first member */
    peer second;
    tl_members *members;
} etcd_world;

static void drive(void *near) {
    conn_world *w = near;
    tl__conn_drive(w->conn, w->now);
}

static void open_world(etcd_world *e, const char *user) {
    conn_world *w = &e->world;
    tl_seeds seeds = {.kind = TL_URL_ETCD, .count = 2};
    memset(e, 0, sizeof *e);
    peer_listen(&w->peer);
    peer_listen(&e->second);
    w->peer.drive = e->second.drive = drive;
    w->peer.near = e->second.near = w;
    w->now = tl__mono_now();
    for (int i = 0; i < 2; i++) {
        (void)snprintf(seeds.seed[i].host, sizeof seeds.seed[i].host, "127.0.0.1");
        seeds.seed[i].port = i ? e->second.port : w->peer.port;
    }
    (void)snprintf(w->endpoint.user, sizeof w->endpoint.user, "%s", user);
    (void)snprintf(w->secret.text, sizeof w->secret.text, "%s", user[0] ? "secret" : "");
    w->endpoint.secret = &w->secret;
    e->members = tl__members_new(&w->endpoint, &seeds);
    assert_non_null(e->members);
    const tl_conn_limits limits = {
        .codec = &tl__codec_etcd, .members = e->members, .connect_ms = CONNECT_MS};
    const tl_conn_calls calls = {
        .answer = world_answer, .up = world_up, .down = world_down, .ctx = w};
    w->conn = tl__conn_new(&e->members->endpoint[0], &limits, &calls);
    assert_non_null(w->conn);
}

static void close_world(etcd_world *e) {
    tl__conn_free(e->world.conn);
    peer_close(&e->world.peer);
    peer_close(&e->second);
    tl__members_free(e->members);
}

static void say_revoke(etcd_world *e, int lease) {
    char text[16];
    tl_send send = {
        .ticket = (uint16_t)lease, .count = 1, .by = tl__mono_add_ms(e->world.now, LIMIT_MS)};
    (void)snprintf(text, sizeof text, "%d", lease);
    send.command[0] = (tl_command){
        .form = TL_ARGV, .argc = 2, .argv = {TL_LITERAL("REVOKE"), tl__bytes_of(text)}};
    assert_int_equal(tl__conn_send(e->world.conn, &send, &e->world, e->world.now), TL_OK);
}

static void expect_revoke(const etcd_world *e, peer *p, const char *token, int lease) {
    char text[400];
    (void)e;
    (void)snprintf(text, sizeof text, LEASE, p->port, token, lease);
    peer_expect(p, text);
}

static void expect_login(peer *p) {
    char login[400];
    (void)snprintf(
        login, sizeof login,
        "POST /v3/auth/authenticate HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nContent-Type: application/json\r\n"
        "Grpc-Timeout: %dm\r\nContent-Length: 33\r\n\r\n{\"name\":\"me\",\"password\":\"secret\"}",
        p->port, CONNECT_MS);
    peer_expect(p, login);
}

static void answer(peer *p, int status, const char *body) {
    char text[400];
    (void)snprintf(text, sizeof text, "HTTP/1.1 %d X\r\nContent-Length: %zu\r\n\r\n%s", status,
                   strlen(body), body);
    peer_send(p, text);
}

static void await_seen(etcd_world *e, peer *p, size_t count) {
    tl_mono began = tl__mono_now();
    while (e->world.seen < count)
        peer_turn(p, began);
    assert_int_equal(e->world.seen, count);
}

TEST(what_was_queued_before_the_login_is_said_with_its_token) {
    etcd_world e;
    open_world(&e, "me");
    say_revoke(&e, 42);
    peer_accept(&e.world.peer);
    expect_login(&e.world.peer);
    answer(&e.world.peer, 200, "{\"token\":\"abc.7\"}");
    expect_revoke(&e, &e.world.peer, "Authorization: abc.7\r\n", 42);
    answer(&e.world.peer, 200, "{\"header\":{}}");
    await_seen(&e, &e.world.peer, 1);
    assert_true(e.world.log[0].ok);
    close_world(&e);
}

/* Nothing that it was sent has been executed; but what an etcd has answered badly may have been. */
TEST(an_http_server_that_is_no_etcd_is_told_as_such) {
    for (int served = 0; served < 2; served++) {
        etcd_world e;
        open_world(&e, "");
        say_revoke(&e, 42);
        peer_accept(&e.world.peer);
        expect_revoke(&e, &e.world.peer, "", 42);
        if (served) {
            answer(&e.world.peer, 200, "{\"header\":{}}");
            await_seen(&e, &e.world.peer, 1);
            say_revoke(&e, 43);
            expect_revoke(&e, &e.world.peer, "", 43);
        }
        answer(&e.world.peer, 404, "<html>404 page not found</html>");
        await_seen(&e, &e.world.peer, served ? 2 : 1);
        const seen *last = &e.world.log[served];
        assert_int_equal(last->why, TL_ESERVER);
        assert_int_equal(last->maybe_sent, served);
        assert_non_null(strstr(last->text, "no reply of etcd's JSON gateway: HTTP status 404"));
        assert_true(tl__grpc_works() || strstr(last->text, "Build tidelock with libnghttp2"));
        close_world(&e);
    }
}

static void assert_login_told(int status, const char *reply, tl_err why, const char *end) {
    etcd_world e;
    open_world(&e, "me");
    say_revoke(&e, 42);
    peer_accept(&e.world.peer);
    expect_login(&e.world.peer);
    answer(&e.world.peer, status, reply);
    await_seen(&e, &e.world.peer, 1);
    const char *text = e.world.log[0].text, *login = strstr(text, "login: ");
    assert_int_equal(e.world.log[0].why, why);
    assert_non_null(login);
    assert_string_equal(login, end);
    close_world(&e);
}

/* It may repeat what it was asked, with the password. */
TEST(of_what_a_server_says_of_a_login_only_what_etcd_may_say_is_told) {
    assert_login_told(400,
                      "{\"message\":\"cannot parse {\\\"password\\\":\\\"secret\\\"}\",\"code\":3}",
                      TL_EDENIED, "login: refused (code 3)");
    assert_login_told(
        400,
        "{\"message\":\"etcdserver: authentication failed, invalid user ID or password: "
        "secret\",\"code\":3}",
        TL_EDENIED, "login: authentication failed, invalid user ID or password");
    assert_login_told(503, "{\"message\":\"etcdserver: no leader\",\"code\":14}", TL_EUNAVAILABLE,
                      "login: no leader");
    assert_login_told(503, "secret", TL_EUNAVAILABLE, "login: HTTP status 503");
    assert_login_told(500, "{\"error\":\"HTTP status 500 secret\"}", TL_EUNAVAILABLE,
                      "login: refused (code -1)");
}

TEST(a_login_for_which_etcd_asks_for_no_token_goes_on) {
    etcd_world e;
    open_world(&e, "me");
    say_revoke(&e, 42);
    peer_accept(&e.world.peer);
    expect_login(&e.world.peer);
    answer(&e.world.peer, 412,
           "{\"message\":\"etcdserver: authentication is not enabled\",\"code\":9}");

    expect_revoke(&e, &e.world.peer, "", 42);
    answer(&e.world.peer, 200, "{\"header\":{}}");
    await_seen(&e, &e.world.peer, 1);
    assert_true(e.world.log[0].ok);
    close_world(&e);
}

/* The first is refused as if it were wrong: it is told as of a login that is over, and the next logs in, at the same member. */
static void assert_logs_in_anew(const char *refusal, const char *first_token) {
    char text[100];
    etcd_world e;
    open_world(&e, "me");
    say_revoke(&e, 42);
    peer_accept(&e.world.peer);
    expect_login(&e.world.peer);
    if (first_token[0])
        answer(&e.world.peer, 200, "{\"token\":\"abc.7\"}");
    else
        answer(&e.world.peer, 412,
               "{\"message\":\"etcdserver: authentication is not enabled\",\"code\":9}");
    expect_revoke(&e, &e.world.peer, first_token, 42);
    say_revoke(&e, 43); /* what was sent is waited for */
    expect_revoke(&e, &e.world.peer, first_token, 43);
    (void)snprintf(text, sizeof text, "{\"message\":\"etcdserver: %s\",\"code\":3}", refusal);
    answer(&e.world.peer, 400, text);
    answer(&e.world.peer, 200, "{\"header\":{}}");
    await_seen(&e, &e.world.peer, 2);
    (void)snprintf(text, sizeof text, "ETCD 16 etcdserver: %s", refusal);
    assert_string_equal(e.world.log[0].text, text);
    assert_true(e.world.log[1].ok);
    peer_turn(&e.world.peer, tl__mono_now());
    assert_int_equal(atomic_load(&e.members->at), 0);
    say_revoke(&e, 44);
    peer_accept(&e.world.peer);
    expect_login(&e.world.peer);
    answer(&e.world.peer, 200, "{\"token\":\"abc.8\"}");
    expect_revoke(&e, &e.world.peer, "Authorization: abc.8\r\n", 44);
    answer(&e.world.peer, 200, "{\"header\":{}}");
    await_seen(&e, &e.world.peer, 3);
    close_world(&e);
}

TEST(a_login_that_users_have_changed_since_is_made_anew_at_the_same_member) {
    assert_logs_in_anew("revision of auth store is old", "Authorization: abc.7\r\n");
}

TEST(a_member_that_asks_for_users_by_now_is_logged_in_to) {
    assert_logs_in_anew("user name is empty", "");
}

TEST(without_a_user_there_is_nothing_to_log_in_with) {
    etcd_world e;
    open_world(&e, "");
    say_revoke(&e, 42);
    peer_accept(&e.world.peer);
    expect_revoke(&e, &e.world.peer, "", 42);
    answer(&e.world.peer, 400, "{\"message\":\"etcdserver: user name is empty\",\"code\":3}");
    await_seen(&e, &e.world.peer, 1);
    assert_string_equal(e.world.log[0].text, "ETCD 3 etcdserver: user name is empty");
    say_revoke(&e, 43); /* over the same connection */
    expect_revoke(&e, &e.world.peer, "", 43);
    close_world(&e);
}

TEST(a_member_that_says_it_cannot_serve_is_left_for_the_next) {
    etcd_world e;
    open_world(&e, "");
    say_revoke(&e, 42);
    peer_accept(&e.world.peer);
    expect_revoke(&e, &e.world.peer, "", 42);
    answer(&e.world.peer, 503, "{\"message\":\"etcdserver: no leader\",\"code\":14}");
    await_seen(&e, &e.world.peer, 1); /* an answer, which the machine judges */
    assert_string_equal(e.world.log[0].text, "ETCD 14 etcdserver: no leader");
    say_revoke(&e, 43);
    peer_accept(&e.second);
    expect_revoke(&e, &e.second, "", 43); /* with its own name */
    answer(&e.second, 404, "{\"message\":\"etcdserver: requested lease not found\",\"code\":5}");
    await_seen(&e, &e.second, 2);
    say_revoke(&e, 44); /* that was definite: it stays there */
    expect_revoke(&e, &e.second, "", 44);
    close_world(&e);
}

static void pass_to(etcd_world *e, int64_t ms) {
    e->world.now = tl__mono_add_ms(tl__mono_now(), ms);
    tl__conn_drive(e->world.conn, e->world.now);
}

/* A stopped one: its system takes the connection, and what is sent. */
TEST(a_member_that_has_never_answered_is_left_while_there_is_time_for_another) {
    etcd_world e;
    open_world(&e, "");
    say_revoke(&e, 42);
    peer_accept(&e.world.peer);
    expect_revoke(&e, &e.world.peer, "", 42);
    pass_to(&e, LIMIT_MS / 3);
    assert_int_equal(e.world.seen, 0);
    assert_true(tl__ns_until(e.world.now, tl__conn_until(e.world.conn)) <
                LIMIT_MS / 2 * INT64_C(1000000));
    pass_to(&e, LIMIT_MS / 2 + 1);
    assert_int_equal(e.world.seen, 1);
    assert_true(!e.world.log[0].ok && e.world.log[0].maybe_sent);
    assert_non_null(strstr(e.world.log[0].text, "no reply in 3"));
    say_revoke(&e, 43);
    peer_accept(&e.second);
    expect_revoke(&e, &e.second, "", 43);
    e.world.now = tl__mono_add_ms(e.world.now, LIMIT_MS * 2 / 3); /* the last has all its time */
    tl__conn_drive(e.world.conn, e.world.now);
    assert_int_equal(e.world.seen, 1);
    close_world(&e);
}

TEST(a_member_that_has_answered_is_given_all_the_time) {
    etcd_world e;
    open_world(&e, "");
    say_revoke(&e, 42);
    peer_accept(&e.world.peer);
    expect_revoke(&e, &e.world.peer, "", 42);
    answer(&e.world.peer, 200, "{\"header\":{}}");
    await_seen(&e, &e.world.peer, 1);
    say_revoke(&e, 43);
    expect_revoke(&e, &e.world.peer, "", 43);
    pass_to(&e, LIMIT_MS * 2 / 3);
    assert_int_equal(e.world.seen, 1);
    close_world(&e);
}

TEST(a_request_of_which_nothing_was_sent_goes_along_to_the_next_member) {
    etcd_world e;
    open_world(&e, "");
    peer_close(&e.world.peer);
    say_revoke(&e, 42);
    peer_accept(&e.second);
    expect_revoke(&e, &e.second, "", 42);
    answer(&e.second, 200, "{\"header\":{}}");
    await_seen(&e, &e.second, 1);
    assert_true(e.world.log[0].ok);
    assert_int_equal(atomic_load(&e.members->at), 1); /* where all others are to go, too */
    close_world(&e);
}

TEST(all_members_away_are_told_as_soon_as_all_have_been_tried) {
    etcd_world e;
    open_world(&e, "");
    peer p = e.world.peer;
    peer_close(&e.world.peer);
    peer_close(&e.second);
    say_revoke(&e, 42);
    await_seen(&e, &p, 1);
    assert_false(e.world.log[0].ok);
    assert_false(e.world.log[0].maybe_sent);
    close_world(&e);
}

TEST(a_request_that_was_sent_is_never_said_again) {
    etcd_world e;
    open_world(&e, "");
    say_revoke(&e, 42);
    peer_accept(&e.world.peer);
    expect_revoke(&e, &e.world.peer, "", 42);
    peer_drop(&e.world.peer);
    await_seen(&e, &e.world.peer, 1);
    assert_false(e.world.log[0].ok);
    assert_true(e.world.log[0].maybe_sent);
    close_world(&e);
}

TEST(answers_belong_to_the_requests_in_their_order_and_nonsense_to_none) {
    etcd_world e;
    open_world(&e, "");
    say_revoke(&e, 42);
    say_revoke(&e, 43);
    peer_accept(&e.world.peer);
    expect_revoke(&e, &e.world.peer, "", 42);
    expect_revoke(&e, &e.world.peer, "", 43);
    answer(&e.world.peer, 404, "{\"message\":\"first\",\"code\":5}");
    answer(&e.world.peer, 200, "{\"header\":{}}");
    await_seen(&e, &e.world.peer, 2);
    assert_int_equal(e.world.log[0].ticket, 42);
    assert_string_equal(e.world.log[0].text, "ETCD 5 first");
    assert_int_equal(e.world.log[1].ticket, 43);
    assert_string_equal(e.world.log[1].text, "OK");
    say_revoke(&e, 44);
    expect_revoke(&e, &e.world.peer, "", 44);
    peer_send(&e.world.peer, "-ERR unknown command\r\n\r\n");
    await_seen(&e, &e.world.peer, 3);
    assert_non_null(strstr(e.world.log[2].text, "this is no reply of etcd's JSON gateway"));
    close_world(&e);
}

/* Who only wants to reach a member stands between requests that were sent. */
TEST(who_reaches_for_a_member_that_is_left_takes_no_answer_of_another) {
    etcd_world e;
    open_world(&e, "");
    say_revoke(&e, 42);
    tl_send reach = {.ticket = 1, .by = tl__mono_add_ms(e.world.now, LIMIT_MS)};
    assert_int_equal(tl__conn_send(e.world.conn, &reach, &e.world, e.world.now), TL_OK);
    say_revoke(&e, 43);
    say_revoke(&e, 44);
    peer_accept(&e.world.peer);
    for (int lease = 42; lease <= 44; lease++)
        expect_revoke(&e, &e.world.peer, "", lease);
    answer(&e.world.peer, 503, "{\"message\":\"etcdserver: request timed out\",\"code\":14}");
    await_seen(&e, &e.world.peer, 1);
    answer(&e.world.peer, 404, "{\"message\":\"second\",\"code\":5}");
    answer(&e.world.peer, 200, "{\"header\":{}}");
    await_seen(&e, &e.world.peer, 3);
    assert_int_equal(e.world.log[1].ticket, 43);
    assert_string_equal(e.world.log[1].text, "ETCD 5 second");
    assert_int_equal(e.world.log[2].ticket, 44);
    assert_string_equal(e.world.log[2].text, "OK");
    peer_accept(&e.second);
    await_seen(&e, &e.second, 4);
    assert_true(e.world.log[3].ok);
    assert_int_equal(e.world.log[3].ticket, 1);
    close_world(&e);
}

#else

TEST(without_jansson_there_is_no_such_connection) {
    assert_false(tl__gateway_works());
}

#endif
