/*
 * Listens to the legacy clients' commands, by MONITOR on its own connection: for a bounded time,
 * and not while the server has to buffer much.
 */
#pragma once

#include "legacy/skew_passive.h"
#include "skew/legacy_hooks.h"

#define SKEW_BACKLOG_MOST (1 << 20) /**< most bytes that the server may buffer for us */
#define SKEW_LISTEN_MESSAGE 160

typedef struct {
    int64_t passive_ms;
    const char *keys; /**< a glob of the locks' keys; NULL: any */
    const skew_dialect *dialect;
    skew_model model;
    void (*each)(void *ctx, const skew_heard *heard); /**< NULL, or called for each command */
    void *each_ctx;
} skew_listen_options;

struct skew_listen {
    skew_listen_options options;
    skew_passive passive;
    int64_t took_ms, commands, bytes, backlog_most;
    int64_t strange;                   /**< lines that are not MONITOR's */
    bool aborted;                      /**< the backlog was too large */
    char message[SKEW_LISTEN_MESSAGE]; /**< the cost of listening */
};

/** False: out of memory. */
bool skew_listen_begin(skew_listen *listening, const skew_listen_options *options);
void skew_listen_end(skew_listen *listening);

/** Listen; the link is used to check the server meanwhile. Blocks for options.passive_ms and some
 *  limits of 5 s at most, or until effort->go_on returns false. False: link->status and
 *  link->message say why. */
bool skew_listen_run(skew_listen *listening, server_link *link, const skew_effort *effort);
