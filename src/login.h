/*
 * What is said first on a new connection, and what the answers mean: who we are, which database,
 * what time it is, and how long the server is up. Pure.
 */
#ifndef TL_LOGIN_H
#define TL_LOGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "endpoint.h"
#include "reply.h"

#define TL_LOGIN_SIZE (2 * TL_SECRET_SIZE + 256)
#define TL_LOGIN_STEPS 4

typedef struct {
    char bytes[TL_LOGIN_SIZE]; /* to be sent; secrets: tl__login_wipe as soon as they are */
    size_t size;
    uint8_t step[TL_LOGIN_STEPS], steps, answered;
    int64_t stamp_us;  /* TIME; -1: the server doesn't know the command */
    int64_t uptime_us; /* -1: unknown */
} tl_login;

typedef enum { TL_LOGIN_MORE, TL_LOGIN_DONE, TL_LOGIN_FAILED } tl_login_outcome;

void tl__login_begin(tl_login *login, const tl_endpoint *endpoint, bool ask_uptime);

/** The next reply. FAILED: *ret_why, and words that name the place and hold no secret. */
tl_login_outcome tl__login_reply(tl_login *login, const tl_endpoint *endpoint,
                                 const tl_reply *reply, tl_err *ret_why, char *words, size_t size);

/** Was the reply just given that of TIME? */
bool tl__login_was_time(const tl_login *login);

void tl__login_wipe(tl_login *login);

#endif
