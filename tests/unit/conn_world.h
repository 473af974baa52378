/*
 * A connection and the server at its far end, which a test plays by hand.
 */
#pragma once

#include "peer.h"
#include "transport/conn.h"

#define SEEN_MAX 256
#define LIMIT_MS 60000
#define CONNECT_MS 5000

#define TIME_ASKED "*1\r\n$4\r\nTIME\r\n"
#define TIME_TOLD "*2\r\n$10\r\n1700000000\r\n$6\r\n123456\r\n"
#define STAMP_US INT64_C(1700000000123456)

typedef struct {
    uint16_t ticket;
    bool ok, maybe_sent, native, stale, unnamed;
    uint64_t run;
    tl_err why;
    tl_mono sent, received;
    uint8_t count;
    char text[256]; /* the reply as text, or the words */
} seen;

typedef struct {
    peer peer; /* first */
    tl_endpoint endpoint;
    tl_secret secret;
    tl_conn *conn;
    tl_mono now; /* stands still but for world_pass_ms: a slow machine changes nothing */
    seen log[SEEN_MAX];
    size_t seen, ups, downs, pushes;
    tl_interval bracket;
    bool has_bracket;
    char down[512], push[1024];
    void (*also)(void *world, const tl_answer *answer);
    tl_err also_code;
} conn_world;

static inline tl_mono world_now(const conn_world *w) {
    return w->now;
}

static inline void world_pass_ms(conn_world *w, int64_t ms) {
    w->now = tl__mono_add_ms(w->now, ms);
}

/* A reply as one line: "str", :7, nil, +status, -error, [a b]. */
static inline void show(char *to, size_t size, const tl_reply *r) {
    size_t n = strlen(to);
    to += n;
    size -= n;
    switch (r->type) {
    case TL_REPLY_NIL: (void)snprintf(to, size, "nil"); break;
    case TL_REPLY_INT: (void)snprintf(to, size, ":%lld", (long long)r->integer); break;
    case TL_REPLY_ARRAY:
        (void)snprintf(to, size, "[");
        for (size_t i = 0; i < r->count && i < 16; i++) {
            if (i)
                (void)snprintf(to + strlen(to), size - strlen(to), " ");
            show(to, size, &r->items[i]);
        }
        (void)snprintf(to + strlen(to), size - strlen(to), "]");
        break;
    default:
        (void)snprintf(to, size, r->type == TL_REPLY_STRING ? "\"%.*s\"" : "%.*s",
                       (int)(r->text.n < 100 ? r->text.n : 100), r->text.p ? r->text.p : "");
    }
}

static inline void world_answer(void *ctx, const tl_answer *a) {
    conn_world *w = ctx;
    assert_true(w->seen < SEEN_MAX);
    seen *s = &w->log[w->seen++];
    *s = (seen){.ticket = a->ticket,
                .ok = a->ok,
                .maybe_sent = a->maybe_sent,
                .native = a->native,
                .stale = a->stale,
                .unnamed = a->unnamed,
                .run = a->run,
                .why = a->why,
                .sent = a->sent,
                .received = a->received,
                .count = a->count};
    assert_ptr_equal(a->cookie, w);
    for (size_t i = 0; a->ok && i < a->count; i++) {
        if (i)
            (void)snprintf(s->text + strlen(s->text), sizeof s->text - strlen(s->text), " ");
        show(s->text, sizeof s->text, &a->reply[i]);
    }
    if (!a->ok)
        (void)snprintf(s->text, sizeof s->text, "%.*s", (int)a->message.n, a->message.p);
    if (w->also)
        w->also(w, a);
}

static inline void world_up(void *ctx, const tl_interval *bracket, tl_mono now) {
    conn_world *w = ctx;
    (void)now;
    w->ups++;
    w->has_bracket = bracket;
    if (bracket)
        w->bracket = *bracket;
}

static inline void world_down(void *ctx, tl_bytes words) {
    conn_world *w = ctx;
    w->downs++;
    (void)snprintf(w->down, sizeof w->down, "%.*s", (int)words.n, words.p);
}

static inline void world_push(void *ctx, const tl_reply *reply) {
    conn_world *w = ctx;
    w->pushes++;
    show(w->push, sizeof w->push, reply);
}

static inline void world_drive(void *ctx) {
    conn_world *w = ctx;
    tl__conn_drive(w->conn, world_now(w));
    /* What it says about itself holds in every state. */
    int fd = tl__conn_fd(w->conn);
    short events = tl__conn_events(w->conn);
    assert_true(fd >= 0 || events == 0);
    if (fd >= 0) {
        assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
    }
    assert_true(!tl__conn_idle(w->conn) || tl__conn_up(w->conn));
}

/* A connection to an endpoint; the peer, if the test needs one, is its own business. */
static inline void world_connect(conn_world *w, const char *url, const tl_conn_limits *limits) {
    tl_error err = {0};
    tl_conn_calls calls = {world_answer, world_up, world_down, world_push, w, NULL};
    if (tl__endpoint_parse(&w->endpoint, &w->secret, url, &err))
        fail_msg("%s: %s", url, err.message);
    w->now = tl__mono_now();
    w->conn = tl__conn_new(&w->endpoint, limits, &calls);
    assert_non_null(w->conn);
    w->peer.drive = world_drive;
    w->peer.near = w;
}

/* The same to a peer that listens, with `login` ("user:password@") and `more` ("/3") in the URL. */
static inline void world_open_with(conn_world *w, const char *login, const char *more,
                                   tl_conn_limits limits) {
    char url[256];
    *w = (conn_world){0};
    peer_listen(&w->peer);
    (void)snprintf(url, sizeof url, "redis://%s127.0.0.1:%u%s", login, (unsigned)w->peer.port,
                   more);
    world_connect(w, url, &limits);
}

static inline void world_open(conn_world *w) {
    world_open_with(w, "", "", (tl_conn_limits){.connect_ms = CONNECT_MS});
}

static inline void world_close(conn_world *w) {
    tl__conn_free(w->conn);
    peer_close(&w->peer);
}

/* ---- requests ---------------------------------------------------------------------------------- */

/* The words of a line as a command. */
static inline tl_command command_of(const char *line, char *copy, size_t size) {
    tl_command c = {.form = TL_ARGV};
    char *rest;
    (void)snprintf(copy, size, "%s", line);
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        c.argv[c.argc++] = tl__bytes_of(word);
    return c;
}

static inline tl_err world_try(conn_world *w, uint16_t ticket, const char *line, int64_t limit_ms) {
    char copy[1024];
    tl_send send = {.ticket = ticket, .count = 1, .by = tl__mono_add_ms(world_now(w), limit_ms)};
    send.command[0] = command_of(line, copy, sizeof copy);
    tl_err code = tl__conn_send(w->conn, &send, w, world_now(w));
    memset(copy, 'x', sizeof copy); /* nothing of the caller's is needed any more */
    return code;
}

static inline void world_ask(conn_world *w, uint16_t ticket, const char *line) {
    assert_int_equal(world_try(w, ticket, line, LIMIT_MS), TL_OK);
}

/* Drive until n answers have been seen altogether. */
static inline void world_await(conn_world *w, size_t n) {
    tl_mono began = tl__mono_now();
    while (w->seen < n)
        peer_turn(&w->peer, began);
    assert_int_equal(w->seen, n);
}

/* What the peer has said, or its end, has come over to this side: the network may take its time. */
static inline void world_arrived(const conn_world *w) {
    struct pollfd p = {.fd = tl__conn_fd(w->conn), .events = POLLIN};
    assert_true(p.fd >= 0);
    assert_int_equal(poll(&p, 1, PEER_WAIT_MS), 1);
}

static inline void world_drive_until_down(conn_world *w, size_t downs) {
    tl_mono began = tl__mono_now();
    while (w->downs < downs)
        peer_turn(&w->peer, began);
}

/* Accept a connection, and let it log in. */
static inline void world_login(conn_world *w) {
    peer_accept(&w->peer);
    peer_expect(&w->peer, TIME_ASKED);
    peer_send(&w->peer, TIME_TOLD);
}

/* A connection that is up and has answered a request, ticket 0. */
static inline void world_serve(conn_world *w) {
    world_ask(w, 0, "PING");
    world_login(w);
    peer_expect(&w->peer, "*1\r\n$4\r\nPING\r\n");
    peer_send(&w->peer, "+PONG\r\n");
    world_await(w, w->seen + 1);
    assert_true(tl__conn_idle(w->conn));
}

static inline void seen_ok(const conn_world *w, size_t i, uint16_t ticket, const char *text) {
    assert_true(i < w->seen);
    if (!w->log[i].ok || w->log[i].ticket != ticket || strcmp(w->log[i].text, text) != 0)
        fail_msg("answer %zu: expected %u %s, got %u %s", i, ticket, text, w->log[i].ticket,
                 w->log[i].text);
    assert_false(tl__mono_before(w->log[i].received, w->log[i].sent));
}

static inline void seen_failed(const conn_world *w, size_t i, uint16_t ticket, bool maybe_sent,
                               tl_err why, const char *words) {
    assert_true(i < w->seen);
    const seen *s = &w->log[i];
    if (s->ok || s->ticket != ticket || !strstr(s->text, words))
        fail_msg("answer %zu: expected %u to fail with \"%s\", got %u %s", i, ticket, words,
                 s->ticket, s->text);
    assert_int_equal(s->maybe_sent, maybe_sent);
    assert_string_equal(tl_err_name(s->why), tl_err_name(why));
}
