/*
 * The stream of watches of an etcd over gRPC, against members that the test plays: what is asked, what is told, and when the
 * gateway is asked instead. unit/test_watch_etcd has the rest, which doesn't depend on how the stream is spoken.
 */
#include "peer.h"

#include "tests.h"

#include "transport/grpc.h"
#include "transport/wakeup.h"
#include "transport/wakeup_inside.h"

#if TL_HAVE_HTTP2

#include "h2_peer.h"

#define TOPIC TL_LITERAL("5 k/1f")
#define SIZED(text) text, sizeof(text) - 1
#define HEADER "\x0a\x02\x18\x14" /* of revision 20 */
#define CREATED "\0\0\0\0\x08" HEADER "\x10\x01\x18\x01"
#define DELETED "\0\0\0\0\x0a" HEADER "\x10\x01\x5a\x02\x08\x01"
#define REJECTED "\0\0\0\0\x0a" HEADER "\x10\x01\x18\x01\x20\x01"

static struct {
    peer first, second;
    h2 server; /* whichever was accepted last */
    tl_members *members;
    tl_wakeup *wakeup;
    tl_mono now;
    unsigned woken, armed, disarmed;
} w;

static void drive(void *near) {
    (void)near;
    tl__wakeup_drive(w.wakeup, w.now);
}

static void on_woken(void *ctx, tl_bytes topic, tl_bytes payload) {
    (void)ctx, (void)topic, (void)payload;
    w.woken++;
}

static void on_armed(void *ctx, tl_bytes topic, bool armed) {
    (void)ctx, (void)topic;
    w.armed += armed;
    w.disarmed += !armed;
}

static tl_secret secret = {"secret"};

static void open_world(const char *user) {
    tl_seeds seeds = {.kind = TL_URL_ETCD, .count = 2};
    tl_endpoint like = {.secret = &secret};
    memset(&w, 0, sizeof w);
    peer_listen(&w.first);
    peer_listen(&w.second);
    w.first.drive = w.second.drive = drive;
    w.now = tl__mono_now();
    (void)snprintf(like.user, sizeof like.user, "%s", user);
    for (int i = 0; i < 2; i++) {
        (void)snprintf(seeds.seed[i].host, sizeof seeds.seed[i].host, "127.0.0.1");
        seeds.seed[i].port = i ? w.second.port : w.first.port;
    }
    w.members = tl__members_new(&like, &seeds);
    const tl_conn_limits limits = {
        .codec = &tl__codec_grpc, .members = w.members, .connect_ms = 60000};
    const tl_wakeup_calls calls = {.woken = on_woken, .armed = on_armed};
    w.wakeup = tl__wakeup_new(&w.members->endpoint[0], &limits, 60000, &calls);
    assert_non_null(w.wakeup);
    assert_int_equal(tl__wakeup_listen(w.wakeup, TOPIC, w.now), TL_OK);
}

static void close_world(void) {
    tl__wakeup_free(w.wakeup);
    h2_end(&w.server);
    peer_close(&w.first);
    peer_close(&w.second);
    tl__members_free(w.members);
}

static void idle(void) {
    tl_mono began = tl__mono_now();
    for (int i = 0; i < 20; i++)
        h2_turn(&w.server, began);
}

/* The stream of this number: it isn't whole, as it goes on. */
static h2_request *await_stream(size_t which, size_t size) {
    tl_mono began = tl__mono_now();
    while (w.server.requests <= which || w.server.request[which].n < size)
        h2_turn(&w.server, began);
    assert_string_equal(w.server.request[which].path, "/etcdserverpb.Watch/Watch");
    assert_string_equal(w.server.request[which].hasleader, "true");
    assert_string_equal(w.server.request[which].timeout, "");
    assert_false(w.server.request[which].whole);
    return &w.server.request[which];
}

/* One message, and the stream goes on. */
static h2_answer said;
static void begin_saying(size_t which, const char *bytes, size_t n) {
    said = (h2_answer){.bytes = bytes, .n = n, .text = "", .goes_on = true};
    h2_answer_as(&w.server, which, &said, "200", "application/grpc");
    h2_flush(&w.server, true);
    idle();
}
static void go_on_saying(size_t which, const char *bytes, size_t n) {
    said = (h2_answer){.bytes = bytes, .n = n, .text = "", .goes_on = true};
    assert_int_equal(nghttp2_session_resume_data(w.server.session, w.server.request[which].stream),
                     0);
    h2_flush(&w.server, true);
    idle();
}

#define ASKED "\0\0\0\0\x0e\x0a\x0c\x0a\x04k/1f\x18\x00\x28\x00\x38\x01"

TEST(a_watch_is_a_call_that_goes_on_and_tells_of_deletions) {
    open_world("");
    h2_accept(&w.server, &w.first);
    const h2_request *asked = await_stream(0, sizeof ASKED - 1);
    assert_memory_equal(asked->body, ASKED, sizeof ASKED - 1);
    begin_saying(0, SIZED(CREATED));
    assert_true(tl__wakeup_up(w.wakeup));
    assert_int_equal(w.armed, 1);
    assert_int_equal(w.woken, 1); /* something has happened since its revision */
    go_on_saying(0, SIZED(DELETED));
    assert_int_equal(w.woken, 2);
    assert_int_equal(tl__wakeup_events(w.wakeup), POLLIN);
    close_world();
}

/* Otherwise no stream would report anything while new ones come often. */
TEST(a_stream_that_was_asked_for_is_not_replaced_before_it_has_begun) {
    char name[32];
    open_world("");
    h2_accept(&w.server, &w.first);
    (void)await_stream(0, sizeof ASKED - 1);
    for (int i = 0; i < 9; i++) {
        (void)snprintf(name, sizeof name, "6 k/%df", i);
        assert_int_equal(tl__wakeup_listen(w.wakeup, tl__bytes_of(name), w.now), TL_OK);
        w.now = tl__mono_add_ms(w.now, 10);
        idle();
    }
    assert_int_equal(w.armed, 0);
    begin_saying(0, SIZED(CREATED));
    assert_int_equal(w.armed, 1);
    h2_end(&w.server);
    h2_accept(&w.server, &w.first);
    (void)await_stream(0, 10 * (sizeof ASKED - 1));
    begin_saying(0, SIZED(CREATED));
    assert_int_equal(w.armed, 2);
    close_world();
}

TEST(it_logs_in_first) {
    open_world("me");
    h2_accept(&w.server, &w.first);
    assert_string_equal(h2_await(&w.server, 0)->path, "/etcdserverpb.Auth/Authenticate");
    h2_say(&w.server, 0,
           SIZED("\x12\x05"
                 "abc.7"));
    assert_string_equal(await_stream(1, sizeof ASKED - 1)->token, "abc.7");
    close_world();
}

TEST(a_server_without_users_needs_no_token) {
    open_world("me");
    h2_accept(&w.server, &w.first);
    (void)h2_await(&w.server, 0);
    h2_refuse(&w.server, 0, 9, "etcdserver: authentication is not enabled");
    assert_string_equal(await_stream(1, sizeof ASKED - 1)->token, "");
    close_world();
}

TEST(a_stream_that_ends_is_opened_at_the_next_member) {
    open_world("");
    h2_accept(&w.server, &w.first);
    (void)await_stream(0, sizeof ASKED - 1);
    begin_saying(0, SIZED(CREATED));
    assert_int_equal(w.disarmed, 0);
    h2_reset(&w.server, 0, NGHTTP2_CANCEL);
    tl_mono began = tl__mono_now();
    while (w.disarmed == 0)
        h2_turn(&w.server, began);
    h2_end(&w.server);
    w.now = tl__mono_add_ms(w.now, 2000);
    h2_accept(&w.server, &w.second);
    (void)await_stream(0, sizeof ASKED - 1);
    close_world();
}

TEST(a_rejected_watch_ends_the_stream_and_logs_in_anew_there) {
    open_world("");
    h2_accept(&w.server, &w.first);
    (void)await_stream(0, sizeof ASKED - 1);
    begin_saying(0, SIZED(REJECTED));
    assert_int_equal(tl__wakeup_fd(w.wakeup), -1);
    h2_end(&w.server);
    w.now = tl__mono_add_ms(w.now, 2000);
    h2_accept(&w.server, &w.first);
    (void)await_stream(0, sizeof ASKED - 1);
    close_world();
}

TEST(a_member_that_speaks_no_http_2_is_asked_by_its_gateway_for_one_stream) {
    open_world("");
    peer_accept(&w.first);
    peer_expect_n(&w.first, SIZED("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
    peer_send(&w.first, "HTTP/1.1 400 Bad Request\r\n\r\n");
    tl_mono began = tl__mono_now();
    while (!w.wakeup->http1)
        peer_turn(&w.first, began);
    w.now = tl__mono_add_ms(w.now, 2000);
    peer_accept(&w.first);
    peer_expect(&w.first, "POST /v3/watch HTTP/1.1\r\n");
    peer_drop(&w.first);
    while (w.wakeup->state != TL_WATCH_DOWN)
        peer_turn(&w.first, began);
    atomic_store(&w.members->at, 0);
    w.now = tl__mono_add_ms(w.now, 10000);
    h2_accept(&w.server, &w.first);
    (void)await_stream(0, sizeof ASKED - 1);
    close_world();
}

TEST(a_member_whose_connection_for_requests_speaks_no_http_2_is_asked_by_its_gateway) {
    open_world("");
    tl__members_set_http1(w.members, 0, true);
    peer_accept(&w.first);
    peer_expect(&w.first, "POST /v3/watch HTTP/1.1\r\n");
    close_world();
}

#else

TEST(without_libnghttp2_the_stream_is_the_gateways) {
    assert_false(tl__grpc_works());
}

#endif
