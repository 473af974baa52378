/*
 * A connection to a server on this host: one request at a time, each with a time limit.
 */
#pragma once

#include "transport/conn.h"

#define LOCAL_ANSWER_MS 2000 /**< for each reply, and to connect */

typedef struct {
    tl_conn *conn;
    tl_endpoint endpoint; /**< not with etcd; the connection refers to it as long as it lives */
    tl_members *members;  /**< with etcd; else NULL */
    bool (*take)(void *ctx, const tl_reply *reply); /**< false: the reply is malformed */
    void *ctx;
    bool done, ok;
    char message[240]; /**< not ok: why */
} local_line;

/** Neither connects nor blocks. sentinel: the server is a Sentinel, which has no TIME. False: out of
 *  memory. */
bool local_ask_open(local_line *line, const tl_endpoint *endpoint, bool sentinel);
/** The same for members of an etcd. Their requests use the words of wire/etcd.h. */
bool local_ask_open_etcd(local_line *line, const tl_endpoint *login, const tl_seeds *seeds);
void local_ask_close(local_line *line);

/** Send a command, whose words end with a NULL, and wait for the reply, which goes to `take` (may be NULL).
 *  False: line->message says why. */
bool local_ask(local_line *line, const char *const *request,
               bool (*take)(void *ctx, const tl_reply *reply), void *ctx);
