/*
 * One row for each kind of server that keeps locks: what a client does differently there. Other files call
 * the row's functions, and never ask which kind it is.
 */
#pragma once

#include <tidelock/inspect.h>

#include "client/keeper_inside.h"
#include "client/lock_acquire.h"
#include "protocol/ask.h"
#include "protocol/break.h"
#include "protocol/scan.h"

/** Do waiters queue at the server? */
typedef enum {
    TL_LINE_BY_PROTOCOL, /**< if the protocol has a queue there */
    TL_LINE_ALWAYS,
    TL_LINE_NEVER
} tl_line_kind;

typedef struct tl_backend {
    const char *scheme;          /**< how its URLs begin, for messages */
    const tl_codec *codec;       /**< how its servers speak; NULL: tl__codec_resp */
    const tl_protocol *protocol; /**< the protocol of its locks; NULL: that of the options */
    int64_t quiet_ms;            /**< for a client whose options have quiet_ms 0 */
    int64_t ttl_least_ms;        /**< the shortest lifetime of a lock; 0: as everywhere */
    const char *ttl_why;         /**< the reason for ttl_least_ms, for messages */
    tl_line_kind line;
    bool names_nest; /**< the holder of a/b excludes others from a */
    /** Keys are on several nodes by their slots: a request has keys of one slot only. */
    bool slotted;
    bool watches;          /**< changes of a key can be watched, if the protocol wants that */
    bool sentinel_login;   /**< it uses the options sentinel_user and sentinel_password */
    const char *unreached; /**< message: a wait has ended, and no server replied */
    const char *expired;   /**< message: a lock is lost, as it was not renewed in time */
    /** While a client is opened, after the endpoint of its first node is set: reject options that are not
     *  supported there, and set up the servers. NULL: there is nothing to do. TL_EINVALID, TL_ENOMEM */
    tl_err (*open)(tl_client *client, const tl_seeds *seeds, const tl_client_options *options,
                   tl_error *err);
    /** May a lock with this key be acquired, or (looks) be looked at? TL_EINVALID. NULL: every key may. */
    tl_err (*check_key)(const tl_client *client, tl_bytes key, bool looks, tl_error *err);
    const tl_asker *asker;          /**< how a lock is acquired */
    const tl_holder *holder;        /**< how it is held */
    const struct tl_runner *runner; /**< how the keeper runs tasks */
    const tl_joiner *joiner;        /**< how the keeper joins renewals */
    /* The calls of the public header. The caller has checked their arguments. */
    tl_err (*ping)(tl_client *client, tl_error *err);
    /** ask: from tl__ask_init, with the client's options for legacy locks. The result is ask->info. */
    tl_err (*look)(tl_client *client, tl_ask *ask, tl_error *err);
    /** scan: all but its cursor is set. The meaning of *cursor is the row's own. */
    tl_err (*scan)(tl_client *client, tl_scan *scan, uint64_t *cursor, tl_error *err);
    tl_err (*remove)(tl_client *client, tl_break *b, tl_error *err);
} tl_backend;

/** All rows, by the kinds of URLs: tl__backend_server for TL_URL_ONE, and so on. */
#define TL_BACKENDS(ROW)                                                                           \
    ROW(TL_URL_UNKNOWN, server)                                                                    \
    ROW(TL_URL_ONE, server)                                                                        \
    ROW(TL_URL_LOCAL, server)                                                                      \
    ROW(TL_URL_SENTINELS, sentinel)                                                                \
    ROW(TL_URL_CLUSTER, cluster)                                                                   \
    ROW(TL_URL_QUORUM, quorum)                                                                     \
    ROW(TL_URL_ETCD, etcd)

#define TL_DECLARE(kind, name) extern const tl_backend tl__backend_##name;
TL_BACKENDS(TL_DECLARE)
#undef TL_DECLARE

/** The row for a URL, whatever follows its scheme. */
const tl_backend *tl__backend_of(const char *url);

/* Shared by the rows where each key is on one server (backend_server.c). */
#define TL_BACKEND_OF_ONE                                                                          \
    .asker = &tl__server_asker, .holder = &tl__server_holder, .runner = &tl__runner_of_one,        \
    .joiner = &tl__joiner_of_scripts, .unreached = "the server was not reached",                   \
    .expired = "no renewal succeeded in time"
extern const tl_asker tl__server_asker;
extern const tl_holder tl__server_holder;
bool tl__server_was_heard(tl_client *client, tl_bytes key, tl_mono since);
int64_t tl__server_mute_ms(tl_client *client, tl_bytes key, tl_mono since);
tl_err tl__server_reach(tl_client *client, const char *what, tl_error *err);
tl_err tl__server_ping(tl_client *client, tl_error *err);
tl_err tl__server_look(tl_client *client, tl_ask *ask, tl_error *err);
tl_err tl__server_remove(tl_client *client, tl_break *machine, tl_error *err);
