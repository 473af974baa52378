/*
 * A connection to members of an etcd over gRPC, against peers that the test plays: what is sent when, which reply belongs to
 * which request, and what may have been executed when calls are refused, reset or cut at each byte.
 */
#include "conn_world.h"

#include "tests.h"

#include "transport/grpc.h"

#if TL_HAVE_HTTP2

#include "h2_peer.h"

#define REVOKED "\x0a\x02\x18\x07" /* a header of revision 7 */
#define SHORT_MS 3000              /* less than what a login may take */
#define SIZED(text) text, sizeof(text) - 1

typedef struct {
    conn_world world; /* first: its peer is the first member */
    peer second;
    h2 server; /* whichever was accepted last */
    tl_members *members;
    int64_t limit_ms; /* of a request */
} grpc_world;

static void drive(void *near) {
    conn_world *w = near;
    tl__conn_drive(w->conn, w->now);
}

static void open_world(grpc_world *g, const char *user) {
    conn_world *w = &g->world;
    tl_seeds seeds = {.kind = TL_URL_ETCD, .count = 2};
    memset(g, 0, sizeof *g);
    g->limit_ms = LIMIT_MS;
    peer_listen(&w->peer);
    peer_listen(&g->second);
    w->peer.drive = g->second.drive = drive;
    w->peer.near = g->second.near = w;
    w->now = tl__mono_now();
    for (int i = 0; i < 2; i++) {
        (void)snprintf(seeds.seed[i].host, sizeof seeds.seed[i].host, "127.0.0.1");
        seeds.seed[i].port = i ? g->second.port : w->peer.port;
    }
    (void)snprintf(w->endpoint.user, sizeof w->endpoint.user, "%s", user);
    (void)snprintf(w->secret.text, sizeof w->secret.text, "%s", user[0] ? "secret" : "");
    w->endpoint.secret = &w->secret;
    g->members = tl__members_new(&w->endpoint, &seeds);
    assert_non_null(g->members);
    const tl_conn_limits limits = {
        .codec = &tl__codec_grpc, .members = g->members, .connect_ms = CONNECT_MS};
    const tl_conn_calls calls = {
        .answer = world_answer, .up = world_up, .down = world_down, .ctx = w};
    w->conn = tl__conn_new(&g->members->endpoint[0], &limits, &calls);
    assert_non_null(w->conn);
}

static void close_world(grpc_world *g) {
    tl__conn_free(g->world.conn);
    h2_end(&g->server);
    peer_close(&g->world.peer);
    peer_close(&g->second);
    tl__members_free(g->members);
}

static tl_command revoke_of(const char *lease) {
    return (tl_command){
        .form = TL_ARGV, .argc = 2, .argv = {TL_LITERAL("REVOKE"), tl__bytes_of(lease)}};
}

static void say_revoke(grpc_world *g, int lease) {
    char text[16];
    tl_send send = {
        .ticket = (uint16_t)lease, .count = 1, .by = tl__mono_add_ms(g->world.now, g->limit_ms)};
    (void)snprintf(text, sizeof text, "%d", lease);
    send.command[0] = revoke_of(text);
    assert_int_equal(tl__conn_send(g->world.conn, &send, &g->world, g->world.now), TL_OK);
}

/* A lease, and what depends on it. */
static void say_both(grpc_world *g, int64_t limit_ms) {
    tl_send send = {.ticket = 9, .count = 2, .by = tl__mono_add_ms(g->world.now, limit_ms)};
    send.command[0] = (tl_command){
        .form = TL_ARGV,
        .argc = 3,
        .argv = {TL_LITERAL("GRANT"), TL_LITERAL("42"), TL_LITERAL("30")}};
    send.command[1] = revoke_of("43");
    assert_int_equal(tl__conn_send(g->world.conn, &send, &g->world, g->world.now), TL_OK);
}

static void await_seen(grpc_world *g, size_t count) {
    tl_mono began = tl__mono_now();
    while (g->world.seen < count)
        h2_turn(&g->server, began);
    assert_int_equal(g->world.seen, count);
}

static void idle(grpc_world *g) {
    tl_mono began = tl__mono_now();
    for (int i = 0; i < 20; i++)
        h2_turn(&g->server, began);
}

static void expect_revoke(grpc_world *g, size_t which, int lease) {
    const h2_request *r = h2_await(&g->server, which);
    const char body[] = {0, 0, 0, 0, 2, 8, (char)lease};
    assert_string_equal(r->path, "/etcdserverpb.Lease/LeaseRevoke");
    assert_int_equal(r->n, sizeof body);
    assert_memory_equal(r->body, body, sizeof body);
}

TEST(a_request_is_a_call_with_its_limit_once_the_member_has_greeted) {
    grpc_world g;
    open_world(&g, "");
    say_revoke(&g, 42);
    peer_accept(&g.world.peer);
    h2_begin(&g.server, &g.world.peer);
    tl_mono began = tl__mono_now();
    for (int i = 0; i < 20; i++) { /* it doesn't greet yet */
        peer_turn(&g.world.peer, began);
        h2_read(&g.server);
    }
    assert_int_equal(g.server.requests, 0);
    expect_revoke(&g, 0, 42);
    char host[32];
    (void)snprintf(host, sizeof host, "127.0.0.1:%u", g.world.peer.port);
    assert_string_equal(g.server.request[0].authority, host);
    assert_string_equal(g.server.request[0].token, "");
    char *end;
    long limit = strtol(g.server.request[0].timeout, &end, 10);
    assert_true(limit > LIMIT_MS / 2 && limit <= LIMIT_MS && strcmp(end, "m") == 0);
    h2_say(&g.server, 0, SIZED(REVOKED));
    await_seen(&g, 1);
    assert_true(g.world.log[0].ok);
    assert_string_equal(g.world.log[0].text, "OK");
    close_world(&g);
}

TEST(what_was_queued_before_the_login_is_said_with_its_token) {
    grpc_world g;
    open_world(&g, "me");
    say_revoke(&g, 42);
    h2_accept(&g.server, &g.world.peer);
    const h2_request *login = h2_await(&g.server, 0);
    assert_string_equal(login->path, "/etcdserverpb.Auth/Authenticate");
    assert_int_equal(login->n, 17);
    assert_memory_equal(login->body + 5, "\x0a\x02me\x12\x06secret", 12);
    assert_int_equal(g.server.requests, 1);
    h2_say(&g.server, 0,
           SIZED("\x12\x05"
                 "abc.7"));
    expect_revoke(&g, 1, 42);
    assert_string_equal(g.server.request[1].token, "abc.7");
    h2_say(&g.server, 1, SIZED(REVOKED));
    await_seen(&g, 1);
    assert_true(g.world.log[0].ok);
    close_world(&g);
}

TEST(a_login_that_is_over_is_made_anew_at_the_same_member) {
    grpc_world g;
    open_world(&g, "me");
    say_revoke(&g, 42);
    h2_accept(&g.server, &g.world.peer);
    (void)h2_await(&g.server, 0);
    h2_refuse(&g.server, 0, 9, "etcdserver: authentication is not enabled");
    expect_revoke(&g, 1, 42);
    h2_refuse(&g.server, 1, 3, "etcdserver: user name is empty");
    await_seen(&g, 1);
    assert_string_equal(g.world.log[0].text, "ETCD 16 etcdserver: user name is empty");
    idle(&g);
    h2_end(&g.server);
    say_revoke(&g, 43);
    h2_accept(&g.server, &g.world.peer);
    assert_string_equal(h2_await(&g.server, 0)->path, "/etcdserverpb.Auth/Authenticate");
    assert_int_equal(atomic_load(&g.members->at), 0);
    close_world(&g);
}

TEST(a_refused_login_is_told) {
    grpc_world g;
    open_world(&g, "me");
    say_revoke(&g, 42);
    h2_accept(&g.server, &g.world.peer);
    (void)h2_await(&g.server, 0);
    h2_refuse(&g.server, 0, 3, "etcdserver: authentication failed, %69nvalid user ID or password");
    await_seen(&g, 1);
    assert_int_equal(g.world.log[0].why, TL_EDENIED);
    assert_false(g.world.log[0].maybe_sent);
    assert_non_null(strstr(g.world.log[0].text, "login: authentication failed, invalid"));
    close_world(&g);
}

/* Two calls are in flight at once, and answered in any order. */
TEST(replies_belong_to_their_calls_and_come_in_the_order_of_the_requests) {
    grpc_world g;
    open_world(&g, "");
    say_revoke(&g, 42);
    say_revoke(&g, 43);
    h2_accept(&g.server, &g.world.peer);
    expect_revoke(&g, 0, 42);
    expect_revoke(&g, 1, 43);
    h2_refuse(&g.server, 1, 5, "second");
    idle(&g);
    assert_int_equal(g.world.seen, 0);
    h2_say(&g.server, 0, SIZED(REVOKED));
    await_seen(&g, 2);
    assert_int_equal(g.world.log[0].ticket, 42);
    assert_string_equal(g.world.log[0].text, "OK");
    assert_int_equal(g.world.log[1].ticket, 43);
    assert_string_equal(g.world.log[1].text, "ETCD 5 second");
    close_world(&g);
}

/* A member may execute calls in any order: what depends on a lease must not overtake its grant. */
TEST(the_commands_of_a_request_are_sent_one_after_the_other) {
    grpc_world g;
    open_world(&g, "");
    say_both(&g, LIMIT_MS);
    say_revoke(&g, 44);
    h2_accept(&g.server, &g.world.peer);
    assert_string_equal(h2_await(&g.server, 0)->path, "/etcdserverpb.Lease/LeaseGrant");
    expect_revoke(&g, 1, 44);
    idle(&g);
    assert_int_equal(g.server.requests, 2);
    h2_say(&g.server, 0, SIZED("\x18\x1e"));
    expect_revoke(&g, 2, 43);
    h2_say(&g.server, 1, SIZED(REVOKED));
    h2_say(&g.server, 2, SIZED(REVOKED));
    await_seen(&g, 2);
    assert_int_equal(g.world.log[0].ticket, 9);
    assert_int_equal(g.world.log[0].count, 2);
    assert_int_equal(g.world.log[1].ticket, 44);
    close_world(&g);
}

static void say_both_once(void *world, const tl_answer *answer) {
    grpc_world *g = world;
    (void)answer;
    g->world.also = NULL;
    say_both(g, LIMIT_MS);
}

/* It may use the memory of the request that was answered. */
TEST(the_commands_of_a_request_from_a_callback_are_sent_one_after_the_other) {
    grpc_world g;
    open_world(&g, "");
    g.world.also = say_both_once;
    say_revoke(&g, 42);
    h2_accept(&g.server, &g.world.peer);
    expect_revoke(&g, 0, 42);
    h2_say(&g.server, 0, SIZED(REVOKED));
    assert_string_equal(h2_await(&g.server, 1)->path, "/etcdserverpb.Lease/LeaseGrant");
    idle(&g);
    assert_int_equal(g.server.requests, 2);
    h2_say(&g.server, 1, SIZED("\x18\x1e"));
    expect_revoke(&g, 2, 43);
    h2_say(&g.server, 2, SIZED(REVOKED));
    await_seen(&g, 2);
    assert_int_equal(g.world.log[1].count, 2);
    close_world(&g);
}

TEST(what_nobody_waits_for_any_more_is_not_sent) {
    grpc_world g;
    open_world(&g, "");
    say_both(&g, LIMIT_MS);
    say_revoke(&g, 44);
    h2_accept(&g.server, &g.world.peer);
    (void)h2_await(&g.server, 1);
    tl__conn_forget(g.world.conn, &g.world);
    h2_say(&g.server, 0, SIZED("\x18\x1e"));
    h2_say(&g.server, 1, SIZED(REVOKED));
    idle(&g);
    assert_int_equal(g.server.requests, 2);
    close_world(&g);
}

TEST(a_request_that_ends_in_the_middle_holds_nothing_up) {
    grpc_world g;
    open_world(&g, "");
    say_both(&g, LIMIT_MS);
    h2_accept(&g.server, &g.world.peer);
    (void)h2_await(&g.server, 0);
    tl__conn_forget(g.world.conn, &g.world);
    h2_say(&g.server, 0, SIZED("\x18\x1e"));
    idle(&g);
    assert_int_equal(g.server.requests, 1);
    assert_true(tl__conn_idle(g.world.conn));
    assert_int_equal(atomic_load(&g.members->at), 0);
    close_world(&g);
}

/* A goodbye that comes with the reply to its first command. */
TEST(the_rest_of_a_request_is_not_sent_to_a_member_that_says_goodbye) {
    grpc_world g;
    open_world(&g, "");
    say_both(&g, LIMIT_MS);
    h2_accept(&g.server, &g.world.peer);
    (void)h2_await(&g.server, 0);
    assert_int_equal(nghttp2_submit_goaway(g.server.session, 0, g.server.request[0].stream,
                                           NGHTTP2_NO_ERROR, NULL, 0),
                     0);
    h2_say(&g.server, 0, SIZED("\x18\x1e"));
    await_seen(&g, 1);
    assert_true(g.world.log[0].ok);
    assert_non_null(strstr(g.world.log[0].text, "ETCD -1 the member has not begun the request"));
    close_world(&g);
}

/* REFUSED_STREAM says that nothing was executed. After any other end it may have been. */
TEST(only_a_call_that_the_member_has_not_begun_is_certainly_not_executed) {
    for (int refused = 0; refused < 2; refused++) {
        grpc_world g;
        open_world(&g, "");
        say_revoke(&g, 42);
        h2_accept(&g.server, &g.world.peer);
        expect_revoke(&g, 0, 42);
        h2_reset(&g.server, 0, refused ? NGHTTP2_REFUSED_STREAM : NGHTTP2_CANCEL);
        await_seen(&g, 1);
        assert_int_equal(g.world.log[0].ok, !refused);
        assert_int_equal(g.world.log[0].maybe_sent, !refused);
        assert_non_null(
            strstr(g.world.log[0].text, refused ? "the member has not begun the request"
                                                : "ETCD -1 the server has ended the call: CANCEL"));
        assert_true(!refused || g.world.log[0].why == TL_EUNAVAILABLE);
        idle(&g);
        h2_end(&g.server);
        say_revoke(&g, 43); /* at the next member */
        h2_accept(&g.server, &g.second);
        expect_revoke(&g, 0, 43);
        close_world(&g);
    }
}

/* Else a request that is told as not executed would have been, in part. */
TEST(what_follows_a_refused_command_is_not_sent) {
    grpc_world g;
    open_world(&g, "");
    say_both(&g, LIMIT_MS);
    say_revoke(&g, 44);
    h2_accept(&g.server, &g.world.peer);
    (void)h2_await(&g.server, 1);
    h2_reset(&g.server, 0, NGHTTP2_REFUSED_STREAM);
    idle(&g);
    assert_int_equal(g.server.requests, 2);
    assert_int_equal(g.world.seen, 1);
    assert_int_equal(g.world.log[0].ticket, 9);
    assert_false(g.world.log[0].ok || g.world.log[0].maybe_sent);
    close_world(&g);
}

/* Its lease was granted: so the whole may have had an effect. */
TEST(a_request_that_is_refused_in_the_middle_is_not_told_as_unsent) {
    grpc_world g;
    open_world(&g, "");
    say_both(&g, LIMIT_MS);
    h2_accept(&g.server, &g.world.peer);
    (void)h2_await(&g.server, 0);
    h2_say(&g.server, 0, SIZED("\x18\x1e"));
    (void)h2_await(&g.server, 1);
    h2_reset(&g.server, 1, NGHTTP2_REFUSED_STREAM);
    await_seen(&g, 1);
    assert_true(g.world.log[0].ok);
    assert_int_equal(g.world.log[0].count, 2);
    assert_non_null(strstr(g.world.log[0].text, "ETCD -1 the member has not begun the request"));
    close_world(&g);
}

TEST(a_member_that_says_goodbye_is_left_when_it_has_answered) {
    grpc_world g;
    open_world(&g, "");
    say_revoke(&g, 42);
    say_revoke(&g, 43);
    h2_accept(&g.server, &g.world.peer);
    expect_revoke(&g, 0, 42);
    expect_revoke(&g, 1, 43);
    /* It has begun the first alone. */
    assert_int_equal(nghttp2_submit_goaway(g.server.session, 0, g.server.request[0].stream,
                                           NGHTTP2_NO_ERROR, NULL, 0),
                     0);
    tl_mono began = tl__mono_now();
    while (tl__conn_up(g.world.conn))
        h2_turn(&g.server, began);
    say_revoke(&g, 44); /* waits for the next member */
    h2_say(&g.server, 0, SIZED(REVOKED));
    await_seen(&g, 2);
    assert_true(g.world.log[0].ok);
    assert_false(g.world.log[1].ok || g.world.log[1].maybe_sent);
    h2_end(&g.server);
    h2_accept(&g.server, &g.second);
    expect_revoke(&g, 0, 44);
    close_world(&g);
}

TEST(a_member_that_dies_may_have_executed_what_it_was_sent) {
    grpc_world g;
    open_world(&g, "");
    say_revoke(&g, 42);
    h2_accept(&g.server, &g.world.peer);
    expect_revoke(&g, 0, 42);
    peer_drop(&g.world.peer);
    tl_mono began = tl__mono_now();
    while (g.world.seen < 1)
        peer_turn(&g.world.peer, began);
    assert_false(g.world.log[0].ok);
    assert_true(g.world.log[0].maybe_sent);
    close_world(&g);
}

/* A stopped one: its system takes the connection. What waits for it goes on to the next member. */
TEST(a_member_that_does_not_greet_is_left_while_there_is_time_for_another) {
    grpc_world g;
    open_world(&g, "");
    g.limit_ms = SHORT_MS;
    say_revoke(&g, 42);
    peer_accept(&g.world.peer);
    peer_expect_n(&g.world.peer, SIZED("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
    g.world.now = tl__mono_add_ms(g.world.now, SHORT_MS / 3);
    drive(&g.world);
    assert_int_equal(atomic_load(&g.members->at), 0);
    g.world.now = tl__mono_add_ms(g.world.now, SHORT_MS / 3);
    drive(&g.world);
    assert_int_equal(atomic_load(&g.members->at), 1);
    assert_int_equal(g.world.seen, 0);
    h2_accept(&g.server, &g.second);
    expect_revoke(&g, 0, 42);
    close_world(&g);
}

static void greet_in_http_1(peer *p, const char *greeting) {
    peer_accept(p);
    peer_expect_n(p, SIZED("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
    peer_send(p, greeting);
}

static void answer_by_gateway(grpc_world *g, peer *p, const char *answer) {
    size_t seen = g->world.seen;
    char expected[300];
    peer_accept(p);
    (void)snprintf(expected, sizeof expected,
                   "POST /v3/lease/revoke HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n", p->port);
    peer_expect(p, expected);
    assert_int_equal(g->world.seen, seen);
    peer_send(p, answer);
    tl_mono began = tl__mono_now();
    while (g->world.seen <= seen)
        peer_turn(p, began);
}

#define ERROR_PAGE "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
#define GATEWAY_REVOKED "HTTP/1.1 200 X\r\nContent-Length: 13\r\n\r\n{\"header\":{}}"

/* It was sent nothing but a greeting. The gateway is asked at the same member. */
static void assert_asks_gateway(const char *greeting) {
    grpc_world g;
    open_world(&g, "");
    say_revoke(&g, 42);
    greet_in_http_1(&g.world.peer, greeting);
    answer_by_gateway(&g, &g.world.peer, GATEWAY_REVOKED);
    assert_true(tl__members_is_http1(g.members, 0));
    assert_false(tl__members_is_http1(g.members, 1));
    assert_int_equal(atomic_load(&g.members->at), 0);
    assert_true(g.world.log[0].ok);
    close_world(&g);
}

TEST(a_member_that_speaks_no_http_2_is_asked_by_its_gateway) {
    assert_asks_gateway(ERROR_PAGE);
    assert_asks_gateway("<html>");
    assert_asks_gateway("-ERR");
}

/* A proxy may have answered for it. The request that waits is encoded anew. */
TEST(the_next_connection_to_such_a_member_speaks_http_2_again) {
    grpc_world g;
    open_world(&g, "");
    say_revoke(&g, 42);
    greet_in_http_1(&g.world.peer, ERROR_PAGE);
    answer_by_gateway(&g, &g.world.peer, GATEWAY_REVOKED);
    peer_drop(&g.world.peer);
    tl_mono began = tl__mono_now();
    while (tl__conn_up(g.world.conn))
        peer_turn(&g.world.peer, began);
    atomic_store(&g.members->at, 0);
    say_revoke(&g, 43);
    h2_accept(&g.server, &g.world.peer);
    expect_revoke(&g, 0, 43);
    assert_false(tl__members_is_http1(g.members, 0));
    h2_say(&g.server, 0, SIZED(REVOKED));
    await_seen(&g, 2);
    assert_true(g.world.log[1].ok);
    close_world(&g);
}

TEST(the_other_members_are_asked_in_http_2) {
    grpc_world g;
    open_world(&g, "");
    say_revoke(&g, 42);
    greet_in_http_1(&g.world.peer, ERROR_PAGE);
    answer_by_gateway(&g, &g.world.peer,
                      "HTTP/1.1 503 X\r\nContent-Length: 29\r\n\r\n"
                      "{\"message\":\"words\",\"code\":14}");
    say_revoke(&g, 43);
    h2_accept(&g.server, &g.second);
    expect_revoke(&g, 0, 43);
    close_world(&g);
}

static const char *const nameless[] = {
    "HTTP/1.1 400 X\r\nContent-Length: 47\r\n\r\n"
    "{\"message\":\"etcd: user name is empty\",\"code\":3}",
    "HTTP/1.1 400 X\r\nContent-Length: 20\r\n\r\nCommonName of client"};

/* The gateway does not pass on whom the certificate names; gRPC does. So the request may be sent again there. */
TEST(a_gateway_that_knows_no_user_is_left_for_http_2) {
    for (int i = 0; i < 2; i++) {
        grpc_world g;
        open_world(&g, "");
        say_revoke(&g, 42);
        greet_in_http_1(&g.world.peer, ERROR_PAGE);
        answer_by_gateway(&g, &g.world.peer, nameless[i]);
        assert_int_equal(g.world.log[0].why, TL_EUNAVAILABLE);
        assert_false(g.world.log[0].ok || g.world.log[0].maybe_sent);
        say_revoke(&g, 43);
        h2_accept(&g.server, &g.world.peer);
        expect_revoke(&g, 0, 43);
        assert_int_equal(atomic_load(&g.members->at), 0);
        close_world(&g);
    }
}

/* The member greets in HTTP/1 twice in a row: its gateway's refusal is the result then, until it greets in HTTP/2. */
TEST(a_gateway_that_knows_no_user_and_stays_refuses) {
    grpc_world g;
    open_world(&g, "");
    for (int i = 0; i < 3; i++) {
        say_revoke(&g, 42 + i);
        greet_in_http_1(&g.world.peer, ERROR_PAGE);
        answer_by_gateway(&g, &g.world.peer, nameless[0]);
        assert_int_equal(g.world.log[i].ok, i > 0);
    }
    assert_string_equal(g.world.log[2].text, "ETCD 3 etcd: user name is empty");
    say_revoke(&g, 45);
    h2_accept(&g.server, &g.world.peer);
    expect_revoke(&g, 0, 45);
    h2_say(&g.server, 0, SIZED(REVOKED));
    await_seen(&g, 4);
    close_world(&g);
}

/* What isn't a reply of gRPC proves nothing. */
TEST(a_malformed_reply_is_found) {
    static const struct {
        const char *bytes;
        size_t n;
        int status;
        const char *http, *type, *text;
    } rows[] = {
        {"", 0, 0, "404", "text/html", "ETCD -1 no gRPC: HTTP status 404"},
        {"<html>", 6, 0, "200", "text/html", "ETCD -1 no gRPC: HTTP status 200"},
        {"", 0, 99, "200", "application/grpc", "ETCD -1 the server has ended the call"},
        {"", 0, 12, "200", "application/grpc", "ETCD 12 an error without a message"},
        {"", 0, 0, "200", "application/grpc", "a reply without its message"},
        {SIZED("\0\0\0\0\x03\x0a\x02"), 0, "200", "application/grpc", "without its message"},
        {SIZED("\0\0\0\0\x03\x0a\x02\x18"), 0, "200", "application/grpc", "malformed protobuf"},
        {SIZED("\x01\0\0\0\x04\x0a\x02\x18\x07"), 0, "200", "application/grpc", "message"},
        {SIZED("\0\x7f\0\0\x04\x0a\x02\x18\x07"), 0, "200", "application/grpc", "message"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        grpc_world g;
        open_world(&g, "");
        say_revoke(&g, 42);
        h2_accept(&g.server, &g.world.peer);
        expect_revoke(&g, 0, 42);
        h2_answer answer = {
            .bytes = rows[i].bytes, .n = rows[i].n, .status = rows[i].status, .text = ""};
        h2_answer_as(&g.server, 0, &answer, rows[i].http, rows[i].type);
        h2_flush(&g.server, true);
        await_seen(&g, 1);
        assert_true(g.world.log[0].maybe_sent);
        if (!strstr(g.world.log[0].text, rows[i].text))
            fail_msg("row %zu: %s", i, g.world.log[0].text);
        close_world(&g);
    }
}

/* More than the window that the member grants at first: the rest follows when it grants more. */
TEST(a_long_request_waits_for_the_members_window) {
    static char value[100 * 1024];
    grpc_world g;
    open_world(&g, "");
    memset(value, 'v', sizeof value);
    tl_send send = {.ticket = 1, .count = 1, .by = tl__mono_add_ms(g.world.now, LIMIT_MS)};
    send.command[0] = (tl_command){.form = TL_ARGV,
                                   .argc = 5,
                                   .argv = {TL_LITERAL("TRY"), TL_LITERAL("k"), TL_LITERAL("s"),
                                            TL_LITERAL("7"), tl__bytes(value, sizeof value)}};
    assert_int_equal(tl__conn_send(g.world.conn, &send, &g.world, g.world.now), TL_OK);
    h2_accept(&g.server, &g.world.peer);
    const h2_request *r = h2_await(&g.server, 0);
    assert_string_equal(r->path, "/etcdserverpb.KV/Txn");
    assert_true(r->n > sizeof value);
    close_world(&g);
}

static void ping(grpc_world *g) {
    assert_int_equal(nghttp2_submit_ping(g->server.session, 0, NULL), 0);
}

static void await_acks(grpc_world *g, size_t count) {
    tl_mono began = tl__mono_now();
    while (g->server.acks < count)
        h2_turn(&g->server, began);
}

TEST(a_ping_with_a_reply_is_answered_with_the_next_request) {
    grpc_world g;
    open_world(&g, "");
    say_revoke(&g, 42);
    h2_accept(&g.server, &g.world.peer);
    expect_revoke(&g, 0, 42);
    ping(&g);
    h2_say(&g.server, 0, SIZED(REVOKED));
    await_seen(&g, 1);
    idle(&g);
    assert_int_equal(tl__conn_events(g.world.conn), POLLIN);
    assert_int_equal(g.server.acks, 0);
    say_revoke(&g, 43);
    expect_revoke(&g, 1, 43);
    assert_int_equal(g.server.acks, 1);
    close_world(&g);
}

/* In flight: the member may need it to go on. Idle: it may close the connection otherwise. */
TEST(a_ping_without_a_reply_is_answered_at_once) {
    grpc_world g;
    open_world(&g, "");
    say_revoke(&g, 42);
    h2_accept(&g.server, &g.world.peer);
    expect_revoke(&g, 0, 42);
    ping(&g);
    await_acks(&g, 1);
    h2_say(&g.server, 0, SIZED(REVOKED));
    await_seen(&g, 1);
    ping(&g);
    await_acks(&g, 2);
    idle(&g);
    assert_int_equal(tl__conn_events(g.world.conn), POLLIN);
    close_world(&g);
}

/* A member that reads so slowly that there is always more to write. */
TEST(what_was_written_takes_no_memory) {
    static const char settings[9] = {0, 0, 0, NGHTTP2_SETTINGS},
                      pinged[17] = {0, 0, 8, NGHTTP2_PING};
    tl_grpc *grpc = tl__grpc_new();
    const char *first = NULL;
    assert_non_null(grpc);
    assert_true(tl__grpc_reset(grpc));
    tl__grpc_feed(grpc, settings, sizeof settings);
    for (int i = 0; i < 100000; i++) {
        tl__grpc_feed(grpc, pinged, sizeof pinged);
        tl_bytes bytes = tl__grpc_output(grpc);
        first = first && i > 10000 ? first : bytes.p;
        assert_true(bytes.n > 1 && labs(bytes.p - first) < 1 << 20);
        tl__grpc_wrote(grpc, bytes.n - 1);
    }
    tl__grpc_free(grpc);
}

/* What the member sends for one request: its greeting, and from `answer` on the reply. */
static size_t record(char **ret_bytes, size_t *ret_answer) {
    grpc_world g;
    open_world(&g, "");
    say_revoke(&g, 42);
    h2_accept(&g.server, &g.world.peer);
    expect_revoke(&g, 0, 42);
    idle(&g);
    *ret_answer = g.server.recorded;
    h2_say(&g.server, 0, SIZED(REVOKED));
    await_seen(&g, 1);
    size_t n = g.server.recorded;
    *ret_bytes = malloc(n);
    assert_non_null(*ret_bytes);
    memcpy(*ret_bytes, g.server.record, n);
    close_world(&g);
    return n;
}

static void await_result(grpc_world *g) {
    tl_mono began = tl__mono_now();
    while (g->world.seen < 1 && tl__ms_until(began, tl__mono_now()) < PEER_WAIT_MS)
        drive(&g->world);
    assert_int_equal(g->world.seen, 1);
}

TEST(a_connection_may_be_cut_at_each_byte) {
    char *bytes;
    size_t answer, n = record(&bytes, &answer);
    assert_true(answer > 9 && n > answer + 9);
    for (size_t cut = 0; cut <= n; cut++) {
        grpc_world g;
        open_world(&g, "");
        peer_close(&g.second);
        say_revoke(&g, 42);
        peer_accept(&g.world.peer);
        if (cut < answer) {
            peer_send_n(&g.world.peer, bytes, cut);
            peer_close(&g.world.peer);
            await_result(&g);
            assert_false(g.world.log[0].ok);
            assert_true(cut >= 9 || !g.world.log[0].maybe_sent);
        } else {
            h2_begin(&g.server, &g.world.peer);
            peer_send_n(&g.world.peer, bytes, answer);
            tl_mono began = tl__mono_now();
            while (!h2_has(&g.server, 1)) {
                peer_turn(&g.world.peer, began);
                h2_read(&g.server);
            }
            peer_send_n(&g.world.peer, bytes + answer, cut - answer);
            peer_close(&g.world.peer);
            await_result(&g);
            assert_int_equal(g.world.log[0].ok, cut == n);
            assert_true(g.world.log[0].maybe_sent);
        }
        close_world(&g);
    }
    free(bytes);
}

#else

TEST(without_libnghttp2_all_are_asked_by_the_gateway) {
    const tl_endpoint like = {.host = "h"};
    const tl_seeds seeds = {.kind = TL_URL_ETCD, .count = 1, .seed = {{.host = "h", .port = 1}}};
    tl_members *members = tl__members_new(&like, &seeds);
    assert_non_null(members);
    assert_false(tl__grpc_works());
    assert_true(tl__members_is_http1(members, 0));
    tl__members_free(members);
}

#endif
