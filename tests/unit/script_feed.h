/*
 * A fake server on which a test executes the scripts that are shipped.
 */
#ifndef SCRIPT_FEED_H
#define SCRIPT_FEED_H

#include "fake_redis.h"
#include "tests.h"
#include "wire/script.h"

#define K "jobs"
#define S "tidelock:{jobs}"
#define TOKEN "00000000-0000-4000-8000-0000000000aa"

static fake_redis *server;
static fake_conn *conn;

static inline const tl_reply *say(const tl_bytes *argv, size_t argc) {
    return fake_conn_command(conn, argv, argc);
}

#define SAY(...)                                                                                   \
    say((const tl_bytes[]){__VA_ARGS__}, sizeof((const tl_bytes[]){__VA_ARGS__}) / sizeof(tl_bytes))
#define L(text) TL_LITERAL(text)

#endif
