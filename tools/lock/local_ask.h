/*
 * A server on this host, asked one question at a time, each with a limit.
 */
#pragma once

#include "transport/conn.h"

#define LOCAL_ANSWER_MS 2000 /**< for each answer, and to connect */

typedef struct {
    tl_conn *conn;
    tl_endpoint endpoint; /**< not of an etcd: the connection leads there as long as it lives */
    tl_members *members;  /**< of an etcd; else NULL */
    bool (*take)(void *ctx, const tl_reply *reply); /**< false: it is malformed */
    void *ctx;
    bool done, ok;
    char message[240]; /**< not ok: why */
} local_line;

/** Neither connects nor blocks. sentinel: it is one, which knows no TIME. false: out of memory. */
bool local_ask_open(local_line *line, const tl_endpoint *endpoint, bool sentinel);
/** To members of an etcd, whose words are those of wire/etcd.h. The same. */
bool local_ask_open_etcd(local_line *line, const tl_endpoint *login, const tl_seeds *seeds);
void local_ask_close(local_line *line);

/** request: the words of a command, up to a NULL; the answer goes to `take`, which may be NULL. */
bool local_ask(local_line *line, const char *const *request,
               bool (*take)(void *ctx, const tl_reply *reply), void *ctx);
