/*
 * A fake server on which a test executes the scripts that are shipped.
 */
#pragma once

#include <stdio.h>
#include <string.h>

#include "fake_redis.h"
#include "tests.h"
#include "wire/script.h"

#define K "jobs"
#define S "tidelock:{jobs}"
#define F "tidelock:fence:{6MN}"
#define LINE S ":line"
#define TOKEN "00000000-0000-4000-8000-0000000000aa"
#define OTHER "00000000-0000-4000-8000-0000000000bb"
#define THIRD "00000000-0000-4000-8000-0000000000cc"
#define NOW_US INT64_C(1700000000000000)
#define NOW "1700000000000000"

static fake_redis *server;
static fake_conn *conn;

/* For TESTS_WITH, or what else a test sets up begins with it. */
static inline int serve(void **state) {
    (void)state;
    server = fake_redis_new();
    conn = fake_redis_connect(server, NULL, NULL);
    fake_redis_set_time(server, NOW_US);
    return 0;
}

static inline int end_serving(void **state) {
    (void)state;
    fake_conn_close(conn);
    fake_redis_free(server);
    return 0;
}

static inline const tl_reply *say(const tl_bytes *argv, size_t argc) {
    return fake_conn_command(conn, argv, argc);
}

#define SAY(...)                                                                                   \
    say((const tl_bytes[]){__VA_ARGS__}, sizeof((const tl_bytes[]){__VA_ARGS__}) / sizeof(tl_bytes))
#define L(text) TL_LITERAL(text)

/* ---- what is there ----------------------------------------------------------------------------- */

static inline void holds(const char *what, const tl_reply *reply, const char *expected) {
    char found[512] = "nothing";
    tl_bytes text = {0};
    if (tl__reply_text(reply, &text))
        (void)snprintf(found, sizeof found, "%.*s", (int)text.n, text.p);
    if (strcmp(found, expected ? expected : "nothing") != 0)
        fail_msg("%s: expected %s, found %s", what, expected ? expected : "nothing", found);
}

static inline int64_t number_of(const tl_reply *reply) {
    int64_t n = -99;
    (void)tl__reply_int(reply, &n);
    return n;
}

/* NULL: nothing. */
#define K_HOLDS(value) holds("K", SAY(L("GET"), L(K)), value)
#define S_HAS(field, value) holds(field, SAY(L("HGET"), L(S), L(field)), value)

/* ---- those who listen -------------------------------------------------------------------------- */

typedef struct {
    fake_conn *conn;
    size_t count;
    char last[512]; /* message */
} listener;

static inline void listener_push(void *ctx, const tl_reply *reply) {
    listener *l = ctx;
    tl_bytes text = {0};
    if (reply->count < 3 || !tl__reply_text(&reply->items[2], &text))
        return; /* that it listens */
    l->count++;
    (void)snprintf(l->last, sizeof l->last, "%.*s", (int)text.n, text.p);
}

static inline void listen_to(listener *l, const char *channel) {
    *l = (listener){0};
    l->conn = fake_redis_connect(server, &(fake_calls){listener_push}, l);
    (void)fake_conn_command(l->conn, (tl_bytes[]){L("SUBSCRIBE"), tl__bytes_of(channel)}, 2);
}
