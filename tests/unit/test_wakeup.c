/*
 * Wake-ups: what is subscribed to, who is told what, and what happens when the server goes away,
 * falls silent or refuses.
 */
#include "transport/wakeup.h"

#include "peer.h"

#define ATTEMPT_MS 2000
#define CONNECT_MS 5000
#define TIME_ASKED "*1\r\n$4\r\nTIME\r\n"
#define TIME_TOLD "*2\r\n$10\r\n1700000000\r\n$6\r\n123456\r\n"
#define PING "*1\r\n$4\r\nPING\r\n"
#define PONG "*2\r\n$4\r\npong\r\n$0\r\n\r\n"
#define SUB(t) "*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\n" t "\r\n"
#define UNSUB(t) "*2\r\n$11\r\nUNSUBSCRIBE\r\n$1\r\n" t "\r\n"
#define SUBBED(t) "*3\r\n$9\r\nsubscribe\r\n$1\r\n" t "\r\n:1\r\n"
#define UNSUBBED(t) "*3\r\n$11\r\nunsubscribe\r\n$1\r\n" t "\r\n:0\r\n"
#define MESSAGE(t, m) "*3\r\n$7\r\nmessage\r\n$1\r\n" t "\r\n$1\r\n" m "\r\n"

typedef struct {
    peer peer; /* first */
    tl_endpoint endpoint;
    tl_wakeup *wakeup;
    tl_mono now;
    char log[4096]; /* "+a" armed, "-a" not, "!a=m" a message; all that was told, in order */
    void (*also)(void *world, tl_bytes topic, bool armed);
} wakeup_world;

static void note(wakeup_world *w, const char *sign, tl_bytes topic, const char *more,
                 tl_bytes payload) {
    size_t n = strlen(w->log);
    assert_true(n + 64 < sizeof w->log);
    (void)snprintf(w->log + n, sizeof w->log - n, "%s%.*s%s%.*s ", sign, (int)topic.n, topic.p,
                   more, (int)payload.n, payload.p);
}

static void on_woken(void *ctx, tl_bytes topic, tl_bytes payload) {
    note(ctx, "!", topic, "=", payload);
}

static void on_armed(void *ctx, tl_bytes topic, bool armed) {
    wakeup_world *w = ctx;
    note(w, armed ? "+" : "-", topic, "", TL_LITERAL(""));
    if (w->also)
        w->also(w, topic, armed);
}

static void drive(void *ctx) {
    wakeup_world *w = ctx;
    tl__wakeup_drive(w->wakeup, w->now);
}

static void pass_ms(wakeup_world *w, int64_t ms) {
    w->now = tl__mono_add_ms(w->now, ms);
}

static void open_world(wakeup_world *w) {
    char url[64];
    tl_error err = {0};
    *w = (wakeup_world){0};
    tl_wakeup_calls calls = {.woken = on_woken, .armed = on_armed, .ctx = w};
    peer_listen(&w->peer);
    (void)snprintf(url, sizeof url, "redis://127.0.0.1:%u", (unsigned)w->peer.port);
    assert_int_equal(tl__endpoint_parse(&w->endpoint, NULL, url, &err), TL_OK);
    w->wakeup = tl__wakeup_new(&w->endpoint, &(tl_conn_limits){.connect_ms = CONNECT_MS},
                               ATTEMPT_MS, &calls);
    assert_non_null(w->wakeup);
    w->now = tl__mono_now();
    w->peer.drive = drive;
    w->peer.near = w;
}

static void close_world(wakeup_world *w) {
    tl__wakeup_free(w->wakeup);
    peer_close(&w->peer);
}

static void listen_to(wakeup_world *w, const char *topic) {
    assert_int_equal(tl__wakeup_listen(w->wakeup, tl__bytes_of(topic), w->now), TL_OK);
}

static void forget(wakeup_world *w, const char *topic) {
    tl__wakeup_forget(w->wakeup, tl__bytes_of(topic), w->now);
}

/* Drive until this is all that was told since the last time. */
static void told(wakeup_world *w, const char *log) {
    tl_mono began = tl__mono_now();
    while (strlen(w->log) < strlen(log) && tl__ms_until(began, tl__mono_now()) < PEER_WAIT_MS)
        peer_turn(&w->peer, began);
    assert_string_equal(w->log, log);
    w->log[0] = '\0';
}

static void login(wakeup_world *w) {
    peer_accept(&w->peer);
    peer_expect(&w->peer, TIME_ASKED);
    peer_send(&w->peer, TIME_TOLD);
    peer_expect(&w->peer, PING);
    peer_send(&w->peer, "+PONG\r\n");
}

/* Listening to "a", which is confirmed. */
static void arm_a(wakeup_world *w) {
    open_world(w);
    listen_to(w, "a");
    login(w);
    peer_expect(&w->peer, SUB("a"));
    peer_send(&w->peer, SUBBED("a"));
    told(w, "+a ");
}

static int64_t ms_left(const wakeup_world *w) {
    return tl__ms_until(w->now, tl__mono_add_ns(tl__wakeup_until(w->wakeup), TL_NS_PER_MS - 1));
}

/* Drive until something has been heard just now and nothing more is waited for. */
static void heard(wakeup_world *w) {
    tl_mono began = tl__mono_now();
    while (ms_left(w) < 10000)
        peer_turn(&w->peer, began);
}

/* ---- everyday ---------------------------------------------------------------------------------- */

TEST(no_listener_no_connection) {
    wakeup_world w;
    open_world(&w);
    for (int i = 0; i < 3; i++) {
        drive(&w);
        assert_int_equal(tl__wakeup_fd(w.wakeup), -1);
        assert_int_equal(tl__wakeup_until(w.wakeup).ns, TL_NEVER.ns);
    }
    forget(&w, "never heard of");
    close_world(&w);
    tl__wakeup_free(NULL);
}

TEST(armed_then_woken) {
    wakeup_world w;
    arm_a(&w);
    peer_send(&w.peer, MESSAGE("a", "1") MESSAGE("z", "2") MESSAGE("a", "3"));
    told(&w, "!a=1 !a=3 ");
    assert_int_equal(tl__wakeup_events(w.wakeup), POLLIN);
    close_world(&w);
}

TEST(one_subscription_for_many_listeners) {
    wakeup_world w;
    arm_a(&w);
    listen_to(&w, "a");
    told(&w, "+a "); /* known already */
    forget(&w, "a");
    peer_expect_silence(&w.peer);
    forget(&w, "a");
    peer_expect(&w.peer, UNSUB("a"));
    peer_send(&w.peer, MESSAGE("a", "1") UNSUBBED("a"));
    for (int i = 0; i < 5; i++)
        drive(&w);
    told(&w, "");
    forget(&w, "a");
    close_world(&w);
}

TEST(listen_before_confirmation_waits_for_it) {
    wakeup_world w;
    open_world(&w);
    listen_to(&w, "a");
    listen_to(&w, "a");
    listen_to(&w, "b");
    told(&w, "");
    login(&w);
    peer_expect(&w.peer, SUB("b") SUB("a"));
    peer_send(&w.peer, SUBBED("b"));
    told(&w, "+b ");
    peer_send(&w.peer, SUBBED("a"));
    told(&w, "+a ");
    close_world(&w);
}

/* The confirmation of a subscription that was given up must not arm its successor. */
TEST(a_former_subscription_arms_nothing) {
    wakeup_world w;
    open_world(&w);
    listen_to(&w, "x");
    login(&w);
    peer_expect(&w.peer, SUB("x"));
    listen_to(&w, "a");
    forget(&w, "a");
    listen_to(&w, "a");
    peer_expect(&w.peer, SUB("a") UNSUB("a") SUB("a"));
    peer_send(&w.peer, SUBBED("x") SUBBED("a"));
    told(&w, "+x ");
    peer_send(&w.peer, UNSUBBED("a"));
    for (int i = 0; i < 5; i++)
        drive(&w);
    told(&w, "");
    peer_send(&w.peer, SUBBED("a"));
    told(&w, "+a ");
    close_world(&w);
}

TEST(what_is_forgotten_before_there_is_a_connection_is_never_said) {
    wakeup_world w;
    open_world(&w);
    listen_to(&w, "b");
    for (int i = 0; i < 1000; i++) {
        listen_to(&w, "a");
        forget(&w, "a");
    }
    login(&w);
    peer_expect(&w.peer, SUB("b"));
    peer_expect_silence(&w.peer);
    close_world(&w);
}

TEST(any_bytes_up_to_the_longest) {
    wakeup_world w;
    static char longest[TL_TOPIC_MAX], head[64];
    memset(longest, 'x', sizeof longest);
    arm_a(&w);
    assert_int_equal(tl__wakeup_listen(w.wakeup, tl__bytes("\0\r\n\xff", 4), w.now), TL_OK);
    assert_int_equal(tl__wakeup_listen(w.wakeup, tl__bytes(longest, sizeof longest), w.now), TL_OK);
    assert_int_equal(tl__wakeup_listen(w.wakeup, tl__bytes(longest, 0), w.now), TL_OK);
    static const char odd[] = "*2\r\n$9\r\nSUBSCRIBE\r\n$4\r\n\0\r\n\xff\r\n";
    peer_expect_n(&w.peer, odd, sizeof odd - 1);
    (void)snprintf(head, sizeof head, "*2\r\n$9\r\nSUBSCRIBE\r\n$%zu\r\n", sizeof longest);
    peer_expect(&w.peer, head);
    peer_expect_n(&w.peer, longest, sizeof longest);
    peer_expect(&w.peer, "\r\n*2\r\n$9\r\nSUBSCRIBE\r\n$0\r\n\r\n");
    static char huge[TL_TOPIC_MAX + 1];
    assert_int_equal(tl__wakeup_listen(w.wakeup, tl__bytes(huge, sizeof huge), w.now), TL_EINVALID);
    close_world(&w);
}

TEST(thousands_of_topics) {
    wakeup_world w;
    char topic[16], bytes[128];
    enum { MANY = 3000 };
    open_world(&w);
    listen_to(&w, "x");
    login(&w);
    peer_expect(&w.peer, SUB("x"));
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(topic, sizeof topic, "t%05d", i);
        listen_to(&w, topic);
    }
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(bytes, sizeof bytes, "*2\r\n$9\r\nSUBSCRIBE\r\n$6\r\nt%05d\r\n", i);
        peer_expect(&w.peer, bytes);
    }
    peer_send(&w.peer, SUBBED("x"));
    told(&w, "+x ");
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(bytes, sizeof bytes, "*3\r\n$9\r\nsubscribe\r\n$6\r\nt%05d\r\n:1\r\n", i);
        peer_send(&w.peer, bytes);
        (void)snprintf(bytes, sizeof bytes, "+t%05d ", i);
        told(&w, bytes);
    }
    for (int i = 0; i < MANY; i += 2) {
        (void)snprintf(topic, sizeof topic, "t%05d", i);
        forget(&w, topic);
    }
    peer_send(&w.peer, "*3\r\n$7\r\nmessage\r\n$6\r\nt02998\r\n$1\r\n1\r\n"
                       "*3\r\n$7\r\nmessage\r\n$6\r\nt02999\r\n$1\r\n1\r\n");
    told(&w, "!t02999=1 ");
    close_world(&w);
}

/* ---- losing ------------------------------------------------------------------------------------ */

TEST(a_lost_connection_disarms_and_is_made_again) {
    wakeup_world w;
    arm_a(&w);
    peer_reset(&w.peer);
    told(&w, "-a ");
    login(&w); /* at once */
    peer_expect(&w.peer, SUB("a"));
    told(&w, "");
    peer_send(&w.peer, SUBBED("a"));
    told(&w, "+a ");
    peer_send(&w.peer, MESSAGE("a", "1"));
    told(&w, "!a=1 ");
    close_world(&w);
}

TEST(a_connect_that_fails_tells_once_and_is_tried_again) {
    wakeup_world w;
    open_world(&w);
    uint16_t port = w.peer.port;
    peer_close(&w.peer);
    listen_to(&w, "a");
    told(&w, "-a ");
    for (int i = 0; i < 4; i++) { /* in a back-off, then trying again */
        tl_mono began = tl__mono_now();
        while (tl__wakeup_fd(w.wakeup) >= 0) /* the refusal may take its time */
            peer_turn(&w.peer, began);
        assert_true(ms_left(&w) <= 1000);
        pass_ms(&w, 1000);
        drive(&w);
    }
    told(&w, "");
    listen_to(&w, "a"); /* one who comes later hears how things stand */
    told(&w, "-a ");
    peer_listen_at(&w.peer, NULL, port, 16);
    pass_ms(&w, 1000);
    login(&w);
    peer_expect(&w.peer, SUB("a"));
    peer_send(&w.peer, SUBBED("a"));
    told(&w, "+a ");
    close_world(&w);
}

TEST(forgotten_while_down_is_not_connected_for) {
    wakeup_world w;
    open_world(&w);
    peer_close(&w.peer);
    listen_to(&w, "a");
    told(&w, "-a ");
    forget(&w, "a");
    for (int i = 0; i < 4; i++) {
        pass_ms(&w, 1000);
        drive(&w);
    }
    assert_int_equal(tl__wakeup_until(w.wakeup).ns, TL_NEVER.ns);
    close_world(&w);
}

TEST(a_refused_topic_is_not_armed) {
    wakeup_world w;
    arm_a(&w);
    listen_to(&w, "b");
    listen_to(&w, "c");
    peer_expect(&w.peer, SUB("b") SUB("c"));
    peer_send(&w.peer, "-NOPERM this user has no permissions to access one of the channels\r\n");
    told(&w, "-b ");
    peer_send(&w.peer, SUBBED("c"));
    told(&w, "+c ");
    listen_to(&w, "b");
    told(&w, "-b ");
    close_world(&w);
}

static void on_change(void *ctx, tl_bytes topic, bool armed) {
    wakeup_world *w = ctx;
    if (!armed) {
        tl__wakeup_forget(w->wakeup, topic, w->now); /* which frees the topic */
        tl__wakeup_forget(w->wakeup, TL_LITERAL("b"), w->now);
        (void)tl__wakeup_listen(w->wakeup, TL_LITERAL("n"), w->now);
    }
}

TEST(topics_come_and_go_while_being_told) {
    wakeup_world w;
    arm_a(&w);
    listen_to(&w, "b");
    listen_to(&w, "c");
    peer_expect(&w.peer, SUB("b") SUB("c"));
    peer_send(&w.peer, SUBBED("b") SUBBED("c"));
    told(&w, "+b +c ");
    w.also = on_change;
    peer_reset(&w.peer);
    told(&w, "-c -a "); /* b went meanwhile, n came */
    w.also = NULL;
    login(&w);
    peer_expect(&w.peer, SUB("n"));
    peer_expect_silence(&w.peer);
    close_world(&w);
}

/* ---- silence ----------------------------------------------------------------------------------- */

TEST(a_silent_server_is_pinged_and_then_dropped) {
    wakeup_world w;
    arm_a(&w);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ms_left(&w), 10000);
        pass_ms(&w, 9999);
        peer_expect_silence(&w.peer);
        pass_ms(&w, 1);
        peer_expect(&w.peer, PING);
        assert_int_equal(ms_left(&w), ATTEMPT_MS);
        pass_ms(&w, ATTEMPT_MS - 1);
        peer_send(&w.peer, PONG);
        heard(&w);
        told(&w, "");
    }
    pass_ms(&w, 10000);
    peer_expect(&w.peer, PING);
    pass_ms(&w, ATTEMPT_MS);
    told(&w, "-a ");
    pass_ms(&w, 20);
    login(&w);
    peer_expect(&w.peer, SUB("a"));
    close_world(&w);
}

TEST(an_unanswered_subscription_drops_the_connection) {
    wakeup_world w;
    arm_a(&w);
    listen_to(&w, "b");
    peer_expect(&w.peer, SUB("b"));
    pass_ms(&w, ATTEMPT_MS);
    told(&w, "-b -a ");
    close_world(&w);
}

TEST(without_listeners_it_closes_after_half_a_minute) {
    wakeup_world w;
    arm_a(&w);
    forget(&w, "a");
    peer_expect(&w.peer, UNSUB("a"));
    peer_send(&w.peer, UNSUBBED("a"));
    for (int i = 0; i < 2; i++) {
        heard(&w);
        pass_ms(&w, 10000);
        peer_expect(&w.peer, PING);
        peer_send(&w.peer, "+PONG\r\n");
    }
    heard(&w);
    pass_ms(&w, 10000);
    peer_expect_end(&w.peer);
    assert_int_equal(tl__wakeup_fd(w.wakeup), -1);
    assert_int_equal(tl__wakeup_until(w.wakeup).ns, TL_NEVER.ns);
    told(&w, "");
    pass_ms(&w, 20);
    listen_to(&w, "a");
    login(&w);
    peer_expect(&w.peer, SUB("a"));
    close_world(&w);
}

/* ---- nonsense ---------------------------------------------------------------------------------- */

static void check_nonsense(const char *bytes) {
    wakeup_world w;
    arm_a(&w);
    peer_send(&w.peer, bytes);
    told(&w, "-a ");
    pass_ms(&w, 100);
    login(&w);
    peer_expect(&w.peer, SUB("a"));
    close_world(&w);
}

TEST(what_no_server_says_drops_the_connection) {
    check_nonsense("+PONG\r\n"); /* nobody asked */
    check_nonsense(":1\r\n");
    check_nonsense("$-1\r\n");
    check_nonsense("*0\r\n");
    check_nonsense("-ERR what\r\n");
    check_nonsense(SUBBED("a"));
    check_nonsense(UNSUBBED("a"));
    check_nonsense("*1\r\n$7\r\nmessage\r\n");
    check_nonsense("*3\r\n$7\r\nmessage\r\n:1\r\n:2\r\n");
    check_nonsense("*1\r\n*1\r\n:1\r\n");
    check_nonsense("HTTP/1.1 200 OK\r\n");
}
