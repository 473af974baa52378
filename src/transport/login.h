/*
 * What is said first on a new connection, and what the answers mean: who we are, which database,
 * what time it is, and which run of the server this is.
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

/* etcd is told a password as JSON, which takes two bytes for some of its own. */
#define TL_LOGIN_SIZE (TL_USER_SIZE + 2 * TL_PASSWORD_SIZE + 768)
#define TL_LOGIN_STEPS 6

typedef struct {
    const tl_endpoint *endpoint;
    tl_err why; /* it has failed, with words that name the place and hold no secret */
    char message[TL_STREAM_MESSAGE_SIZE];
    size_t size, done; /* of bytes: to be sent, written */
    tl_mono sent;      /* before the first byte was */
    uint8_t step[TL_LOGIN_STEPS], steps, answered;
    bool serves;      /* the server is to keep locks: a Sentinel won't do */
    bool has_bracket; /* else the server doesn't know TIME */
    int64_t server_us;
    tl_interval bracket;       /* at the last reply */
    uint64_t run;              /* of the server: a digest of its run_id; 0: unknown */
    int64_t id;                /* the connection's, in the server's eyes; 0: unknown */
    char bytes[TL_LOGIN_SIZE]; /* secrets: tl__login_wipe */
} tl_login;

/** As if nothing had been said; its bytes are left as they are. */
static inline void tl__login_clear(tl_login *login, const tl_endpoint *endpoint) {
    memset(login, 0, offsetof(tl_login, bytes));
    login->endpoint = endpoint;
}

/** What to ask besides being let in. */
typedef struct {
    bool time, run, id;
    bool role; /**< it must say of itself that it is a master */
} tl_login_asks;

typedef enum { TL_LOGIN_MORE, TL_LOGIN_DONE, TL_LOGIN_FAILED } tl_login_outcome;

/** Perhaps there is nothing to say: then steps is 0, and no reply is to be waited for. */
void tl__login_begin(tl_login *login, const tl_endpoint *endpoint, tl_login_asks asks);

/** Write as far as the stream takes it. false: it broke. */
bool tl__login_write(tl_login *login, tl_stream *stream);

/** The next reply. */
tl_login_outcome tl__login_reply(tl_login *login, const tl_reply *reply, tl_mono received);

/** FAILED, for this reason. */
tl_login_outcome tl__login_fail(tl_login *login, tl_err why, const char *problem);

void tl__login_wipe(tl_login *login);

/** Who it is that says this where a Redis server is expected; NULL: not known. */
const char *tl__login_stranger(tl_bytes heard);
