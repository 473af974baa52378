/*
 * The first requests on a new connection and their replies: the login, the database, the time, and which run
 * of the server this is.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "transport/endpoint.h"
#include "transport/stream.h"
#include "wire/interval.h"
#include "wire/reply.h"

/* etcd gets the password as JSON, in which some bytes take two */
#define TL_LOGIN_SIZE (TL_USER_SIZE + 2 * TL_PASSWORD_SIZE + 768)
#define TL_LOGIN_STEPS 6

typedef struct {
    const tl_endpoint *endpoint;
    tl_err why; /* why it failed; the message names the address and holds no secret */
    char message[TL_STREAM_MESSAGE_SIZE];
    size_t size, done; /* of `bytes`: to be sent, written */
    tl_mono sent;      /* before the first byte was written */
    uint8_t step[TL_LOGIN_STEPS], steps, answered;
    bool serves;      /* the server must hold locks: a Sentinel is rejected */
    bool has_bracket; /* false: the server doesn't know TIME */
    int64_t server_us;
    tl_interval bracket;       /* at the last reply */
    uint64_t run;              /* of the server: a hash of its run_id; 0: unknown */
    int64_t id;                /* the server's number for the connection; 0: unknown */
    char bytes[TL_LOGIN_SIZE]; /* secrets: tl__login_wipe */
} tl_login;

/** Clear it, except for its bytes. */
static inline void tl__login_clear(tl_login *login, const tl_endpoint *endpoint) {
    memset(login, 0, offsetof(tl_login, bytes));
    login->endpoint = endpoint;
}

/** The questions beside AUTH and SELECT. */
typedef struct {
    bool time, run, id;
    bool role; /**< the server must report itself as a master */
} tl_login_asks;

typedef enum { TL_LOGIN_MORE, TL_LOGIN_DONE, TL_LOGIN_FAILED } tl_login_outcome;

/** Encode the login. If there is nothing to send, steps is 0, and no reply follows. */
void tl__login_begin(tl_login *login, const tl_endpoint *endpoint, tl_login_asks asks);

/** Write as much as the stream accepts. false: the stream broke. */
bool tl__login_write(tl_login *login, tl_stream *stream);

/** Handle the next reply. */
tl_login_outcome tl__login_reply(tl_login *login, const tl_reply *reply, tl_mono received);

/** Fail for this reason; returns FAILED. */
tl_login_outcome tl__login_fail(tl_login *login, tl_err why, const char *problem);

void tl__login_wipe(tl_login *login);

/** The kind of server that sends these bytes where a Redis server is expected; NULL: unknown. */
const char *tl__login_stranger(tl_bytes heard);
