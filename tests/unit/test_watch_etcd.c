/*
 * The stream by which a client hears that a key which it holds is deleted, against a peer that the test plays: when it is
 * opened, from which revision on, and what is told.
 */
#include "peer.h"

#include "tests.h"

#include "transport/gateway.h"
#include "transport/wakeup.h"
#include "transport/wakeup_inside.h"

#if TL_HAVE_JSON

#define TOPIC TL_LITERAL("5 k/1f")
#define OTHER TL_LITERAL("6 k/2f")

static struct {
    peer peer;
    tl_members *members;
    tl_wakeup *wakeup;
    tl_mono now;
    unsigned woken, armed, disarmed;
    char topic[64];
} w;

static void drive(void *near) {
    (void)near;
    tl__wakeup_drive(w.wakeup, w.now);
}

static void on_woken(void *ctx, tl_bytes topic, tl_bytes payload) {
    (void)ctx, (void)payload;
    w.woken++;
    tl__bytes_print(w.topic, sizeof w.topic, topic);
}

static void on_armed(void *ctx, tl_bytes topic, bool armed) {
    (void)ctx, (void)topic;
    w.armed += armed;
    w.disarmed += !armed;
}

static int set_up(void **state) {
    (void)state;
    tl_seeds seeds = {.kind = TL_URL_ETCD, .count = 1};
    tl_endpoint like = {0};
    memset(&w, 0, sizeof w);
    peer_listen(&w.peer);
    w.peer.drive = drive;
    w.now = tl__mono_now();
    (void)snprintf(seeds.seed[0].host, sizeof seeds.seed[0].host, "127.0.0.1");
    seeds.seed[0].port = w.peer.port;
    w.members = tl__members_new(&like, &seeds);
    const tl_conn_limits limits = {
        .codec = &tl__codec_etcd, .members = w.members, .connect_ms = 60000};
    const tl_wakeup_calls calls = {.woken = on_woken, .armed = on_armed};
    w.wakeup = tl__wakeup_new(&w.members->endpoint[0], &limits, 60000, &calls);
    return w.wakeup == NULL;
}

static int tear_down(void **state) {
    (void)state;
    tl__wakeup_free(w.wakeup);
    peer_close(&w.peer);
    tl__members_free(w.members);
    return 0;
}

TESTS_WITH(set_up, tear_down);

static void pass_ms(int64_t ms) {
    w.now = tl__mono_add_ms(w.now, ms);
    tl__wakeup_drive(w.wakeup, w.now);
}

static void seen(tl_bytes topic, int64_t revision) {
    tl__wakeup_seen(w.wakeup, topic, revision, w.now);
}

#define CREATE(key, revision, id)                                                                  \
    "{\"create_request\":{\"key\":\"" key "\",\"start_revision\":\"" revision                      \
    "\",\"filters\":[\"NOPUT\"],\"watch_id\":\"" id "\"}}\n"
#define FIRST "ay8xZg=="  /* k/1f */
#define SECOND "ay8yZg==" /* k/2f */

/* A stream is opened, with this body. */
static void expect_stream(const char *body) {
    char text[1000];
    (void)snprintf(
        text, sizeof text,
        "POST /v3/watch HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nContent-Type: application/json\r\n"
        "Content-Length: %zu\r\nGrpc-Metadata-hasleader: true\r\nConnection: close\r\n\r\n%s",
        w.peer.port, strlen(body), body);
    peer_accept(&w.peer);
    peer_expect(&w.peer, text);
    peer_send(&w.peer, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
}

static void message(const char *json) {
    char text[400];
    (void)snprintf(text, sizeof text, "%zx\r\n%s\n\r\n", strlen(json) + 1, json);
    peer_send(&w.peer, text);
    for (int i = 0; i < 20; i++)
        peer_turn(&w.peer, tl__mono_now());
}

static void assert_not_open(void) {
    assert_int_equal(tl__wakeup_fd(w.wakeup), -1);
}

TEST(a_key_that_is_held_for_a_moment_opens_no_stream) {
    for (int i = 0; i < 20; i++) {
        seen(TOPIC, 5);
        pass_ms(TL_WATCH_GATHER_MS / 2);
        tl__wakeup_forget(w.wakeup, TOPIC, w.now);
        assert_not_open();
    }
    pass_ms(TL_WATCH_GATHER_MS);
    assert_not_open();
    assert_int_equal(tl__wakeup_until(w.wakeup).ns, TL_NEVER.ns);
}

TEST(keys_are_asked_for_together_from_where_they_were_seen_last) {
    seen(TOPIC, 5);
    pass_ms(TL_WATCH_GATHER_MS - 1);
    seen(OTHER, 9);
    seen(TOPIC, 7);
    seen(TOPIC, 6); /* an answer that was given before */
    assert_not_open();
    assert_true(tl__ns_until(w.now, tl__wakeup_until(w.wakeup)) <= 1000000);
    pass_ms(1);
    expect_stream(CREATE(SECOND, "10", "1") CREATE(FIRST, "8", "2"));
    message("{\"result\":{\"header\":{\"revision\":\"20\"},\"watch_id\":\"2\",\"created\":true}}");
    assert_int_equal(w.woken, 0);
    message(
        "{\"result\":{\"header\":{\"revision\":\"21\"},\"watch_id\":\"2\",\"events\":[{\"type\":"
        "\"DELETE\"}]}}");
    assert_int_equal(w.woken, 1);
    assert_string_equal(w.topic, "5 k/1f");
    seen(OTHER, 22); /* it isn't asked for again for that */
    pass_ms(10 * TL_WATCH_GATHER_MS);
    peer_expect_silence(&w.peer);
    tl__wakeup_forget(w.wakeup, TOPIC, w.now);
    tl__wakeup_forget(w.wakeup, OTHER, w.now);
    peer_expect_end(&w.peer);
    assert_not_open();
}

/* One that is there already is asked for anew with the next, from a later revision on. */
TEST(one_more_opens_the_next_stream) {
    seen(TOPIC, 5);
    pass_ms(TL_WATCH_GATHER_MS);
    expect_stream(CREATE(FIRST, "6", "1"));
    message("{\"result\":{\"header\":{\"revision\":\"20\"},\"watch_id\":\"1\",\"created\":true}}");
    seen(TOPIC, 30);
    seen(OTHER, 31);
    pass_ms(TL_WATCH_GATHER_MS - 1);
    peer_expect_silence(&w.peer);
    pass_ms(1);
    peer_expect_end(&w.peer);
    expect_stream(CREATE(SECOND, "32", "1") CREATE(FIRST, "31", "2"));
}

TEST(after_the_last_revision_of_all_there_is_no_next) {
    seen(TOPIC, INT64_MAX);
    pass_ms(TL_WATCH_GATHER_MS);
    expect_stream(CREATE(FIRST, "9223372036854775807", "1"));
}

/* What came after its revision isn't kept any more: it must be seen anew first. */
TEST(one_that_was_compacted_away_is_asked_for_when_it_has_been_seen_later) {
    seen(TOPIC, 5);
    pass_ms(TL_WATCH_GATHER_MS);
    expect_stream(CREATE(FIRST, "6", "1"));
    message("{\"result\":{\"header\":{\"revision\":\"20\"},\"watch_id\":\"1\",\"created\":true}}");
    message("{\"result\":{\"header\":{\"revision\":\"20\"},\"watch_id\":\"1\",\"canceled\":true,"
            "\"compact_revision\":\"9\"}}");
    assert_int_equal(w.woken, 0);
    pass_ms(10 * TL_WATCH_GATHER_MS);
    peer_expect_silence(&w.peer);
    seen(TOPIC, 12);
    pass_ms(TL_WATCH_GATHER_MS);
    peer_expect_end(&w.peer);
    expect_stream(CREATE(FIRST, "13", "1"));
}

TEST(a_stream_that_ends_is_opened_again) {
    seen(TOPIC, 5);
    pass_ms(TL_WATCH_GATHER_MS);
    expect_stream(CREATE(FIRST, "6", "1"));
    message("{\"error\":{\"grpc_code\":14,\"message\":\"no leader\"}}");
    assert_not_open();
    pass_ms(5000);
    expect_stream(CREATE(FIRST, "6", "1"));
}

/* As one with a login that users have changed since, which the next stream does without. */
TEST(a_watch_that_is_refused_ends_the_stream) {
    seen(TOPIC, 5);
    pass_ms(TL_WATCH_GATHER_MS);
    expect_stream(CREATE(FIRST, "6", "1"));
    message("{\"result\":{\"header\":{},\"watch_id\":\"-1\",\"created\":true,\"canceled\":true,"
            "\"cancel_reason\":\"etcdserver: revision of auth store is old\"}}");
    assert_not_open();
    assert_true(tl__ns_until(w.now, tl__wakeup_until(w.wakeup)) > 0); /* not at once */
    pass_ms(5000);
    expect_stream(CREATE(FIRST, "6", "1"));
}

/* ---- waiters ------------------------------------------------------------------------------------ */

#define CREATED(id, revision)                                                                      \
    "{\"result\":{\"header\":{\"revision\":\"" revision "\"},\"watch_id\":\"" id                   \
    "\",\"created\":true}}"
#define OF_NOTHING "{\"result\":{\"header\":{},\"watch_id\":\"1\",\"created\":true}}"

static void listen_to(tl_bytes topic) {
    assert_int_equal(tl__wakeup_listen(w.wakeup, topic, w.now), TL_OK);
    pass_ms(0);
}

static void assert_told(unsigned armed, unsigned woken) {
    assert_int_equal(w.armed, armed);
    assert_int_equal(w.woken, woken);
}

TEST(who_waits_is_told_from_now_on) {
    listen_to(TOPIC);
    expect_stream(CREATE(FIRST, "0", "1"));
    assert_told(0, 0);
    message(CREATED("1", "5"));
    assert_told(1, 0);
    message("{\"result\":{\"header\":{\"revision\":\"6\"},\"watch_id\":\"1\",\"events\":[{\"type\":"
            "\"DELETE\"}]}}");
    assert_told(1, 1);
}

/* A member that is behind the others begins with what came before. */
TEST(a_member_that_has_heard_less_has_missed_nothing) {
    listen_to(TOPIC);
    expect_stream(CREATE(FIRST, "0", "1"));
    message(CREATED("1", "3"));
    assert_told(1, 0);
}

TEST(what_came_between_is_looked_for) {
    listen_to(TOPIC);
    expect_stream(CREATE(FIRST, "0", "1"));
    message(CREATED("1", "6"));
    assert_told(1, 1);
}

TEST(who_is_not_told_from_when_on_looks) {
    listen_to(TOPIC);
    expect_stream(CREATE(FIRST, "0", "1"));
    message(OF_NOTHING);
    assert_told(1, 1);
}

/* Otherwise all of them would have to look whenever another comes. */
TEST(those_that_have_been_told_go_on_from_there_on_the_next_stream) {
    listen_to(TOPIC);
    expect_stream(CREATE(FIRST, "0", "1"));
    message(CREATED("1", "20"));
    assert_told(1, 1);
    listen_to(OTHER);
    peer_expect_end(&w.peer);
    expect_stream(CREATE(SECOND, "0", "1") CREATE(FIRST, "21", "2"));
    message(CREATED("2", "30"));
    assert_told(1, 1);
    message(CREATED("1", "6"));
    assert_told(2, 1);
}

TEST(one_that_was_not_told_yet_is_asked_for_from_now_on_again) {
    listen_to(TOPIC);
    expect_stream(CREATE(FIRST, "0", "1"));
    message("{\"error\":{\"grpc_code\":14,\"message\":\"no leader\"}}");
    listen_to(OTHER);
    pass_ms(5000);
    expect_stream(CREATE(SECOND, "0", "1") CREATE(FIRST, "0", "2"));
    message(CREATED("2", "6"));
    assert_told(1, 1);
    assert_string_equal(w.topic, "5 k/1f");
}

TEST(what_came_while_a_stream_was_lost_is_looked_for) {
    listen_to(TOPIC);
    expect_stream(CREATE(FIRST, "0", "1"));
    message(CREATED("1", "5"));
    message("{\"error\":{\"grpc_code\":14,\"message\":\"no leader\"}}");
    assert_int_equal(w.disarmed, 1);
    pass_ms(5000);
    expect_stream(CREATE(FIRST, "0", "1"));
    message(CREATED("1", "9"));
    assert_told(2, 1);
}

/* The deletion may have been told before. */
TEST(another_that_listens_to_the_same_looks) {
    listen_to(TOPIC);
    expect_stream(CREATE(FIRST, "0", "1"));
    message(CREATED("1", "5"));
    listen_to(TOPIC);
    assert_told(2, 1);
}

/* ---- when a stream is replaced ------------------------------------------------------------------- */

#define EACH_MS 10

/* The stream asks for so many keys. */
static void await_creates(size_t count) {
    char body[4096];
    size_t creates = 0;
    tl_mono began = tl__mono_now();
    for (char before = 0; creates < count; peer_turn(&w.peer, began)) {
        ssize_t n = recv(w.peer.stream, body, sizeof body, 0);
        for (ssize_t i = 0; i < n; before = body[i++])
            creates += body[i] == '\n' && before == '}';
    }
    assert_int_equal(creates, count);
    peer_expect_silence(&w.peer);
}

/* One more is listened to every EACH_MS, and the stream stays as it is. Returns how many. */
static unsigned crowd_in(int64_t ms) {
    static unsigned last;
    char name[32];
    unsigned count = 0;
    for (; ms >= EACH_MS; ms -= EACH_MS, count++) {
        pass_ms(EACH_MS);
        (void)snprintf(name, sizeof name, "6 k/%u", last++);
        listen_to(tl__bytes_of(name));
        peer_expect_silence(&w.peer);
        assert_true(tl__mono_before(w.now, tl__wakeup_until(w.wakeup))); /* nobody spins */
    }
    return count;
}

static void assert_replaced(size_t count) {
    peer_expect_end(&w.peer);
    peer_accept(&w.peer);
    await_creates(count);
    peer_send(&w.peer, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
}

static void begin_all(unsigned count) {
    char json[200];
    for (unsigned id = 1; id <= count; id++) {
        (void)snprintf(json, sizeof json, CREATED("%u", "6"), id);
        message(json);
    }
}

/* TOPIC is armed, and goes on in a stream that is to begin OTHER. */
static void go_on_with_other(void) {
    listen_to(TOPIC);
    expect_stream(CREATE(FIRST, "0", "1"));
    message(CREATED("1", "5"));
    listen_to(OTHER);
    peer_expect_end(&w.peer);
    expect_stream(CREATE(SECOND, "0", "1") CREATE(FIRST, "6", "2"));
}

TEST(new_ones_wait_until_a_stream_has_begun) {
    listen_to(TOPIC);
    expect_stream(CREATE(FIRST, "0", "1"));
    unsigned more = crowd_in(1000);
    assert_told(0, 0);
    message(CREATED("1", "5"));
    assert_told(1, 0);
    assert_replaced(1 + more);
    begin_all(1 + more);
    assert_int_equal(w.armed, 1 + more);
}

TEST(new_ones_wait_until_an_old_one_was_told_what_came_meanwhile) {
    go_on_with_other();
    unsigned more = crowd_in(1000);
    message(CREATED("1", "6"));
    message(CREATED("2", "6"));
    assert_told(2, 0);
    more += crowd_in(TL_WATCH_CATCH_UP_MS / 2);
    assert_told(2, 0);
    message("{\"result\":{\"header\":{\"revision\":\"8\"},\"watch_id\":\"2\",\"events\":[{\"type\":"
            "\"DELETE\"}]}}");
    assert_told(2, 1);
    assert_string_equal(w.topic, "5 k/1f");
    assert_replaced(2 + more);
}

TEST(new_ones_wait_no_longer_than_a_stream_takes_to_catch_up) {
    go_on_with_other();
    message(CREATED("1", "6"));
    message(CREATED("2", "6"));
    unsigned more = crowd_in(TL_WATCH_CATCH_UP_MS - EACH_MS);
    assert_true(tl__ns_until(w.now, tl__wakeup_until(w.wakeup)) <= EACH_MS * TL_NS_PER_MS);
    pass_ms(EACH_MS);
    assert_replaced(2 + more);
    begin_all(2 + more);
    assert_int_equal(w.armed, 2 + more);
}

TEST(new_ones_wait_for_none_that_nobody_listens_to) {
    go_on_with_other();
    unsigned more = crowd_in(EACH_MS);
    tl__wakeup_forget(w.wakeup, TOPIC, w.now);
    tl__wakeup_forget(w.wakeup, OTHER, w.now);
    assert_replaced(more);
}

/* With many the streams follow each other more slowly, and there are never too many. */
TEST(many_are_bounded) {
    char name[32];
    for (int i = 0; i < TL_WATCH_SEEN_MAX + 5; i++) {
        (void)snprintf(name, sizeof name, "5 k/%d", i);
        seen(tl__bytes_of(name), 5);
    }
    pass_ms(TL_WATCH_GATHER_MS);
    peer_accept(&w.peer);
    await_creates(TL_WATCH_SEEN_MAX);
    tl__wakeup_forget(w.wakeup, TL_LITERAL("5 k/0"), w.now);
    seen(OTHER, 6);
    peer_send(&w.peer, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    message("{\"result\":{\"header\":{\"revision\":\"20\"},\"watch_id\":\"1\",\"created\":true}}");
    pass_ms(TL_WATCH_GATHER_MS);
    peer_expect_silence(&w.peer);
    pass_ms(TL_WATCH_SEEN_MAX * TL_WATCH_EACH_MS);
    peer_expect_end(&w.peer);
}

#else

TEST(without_jansson_nothing_can_be_read) {
    assert_false(tl__gateway_works());
}

#endif
