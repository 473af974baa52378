/*
 * The tool's own connection to a server: one question at a time, each with a limit.
 */
#pragma once

#include "base/infotext.h"
#include "base/tool.h"
#include "transport/conn.h"

/** The part of a login that all its endpoints share. */
typedef struct {
    tl_secret secret;
    tl_tls_files files;
} link_login;

typedef struct {
    tl_endpoint endpoint;
    link_login
        *own; /**< freed with the link; NULL: the login is that of a link that outlives this one */
    tl_conn *conn;
    bool (*take)(void *ctx, const tl_reply *reply); /**< false: the reply is malformed */
    void *ctx;
    bool done, ok;
    bool error;      /**< not ok: the server replied with an error */
    unsigned ups;    /**< how often it has connected: after that another server may reply */
    bool lacks;      /**< the error says that the server lacks the command */
    bool engineless; /**< the error says that the server has no Lua to run a script */
    tl_redirect_kind elsewhere; /**< the error says that another node of a cluster must be asked */
    char to_host[TL_HOST_SIZE]; /**< after MOVED: that node */
    uint16_t to_port;           /**< 0: not known */
    bool announced;             /**< the address was announced by nodes of a cluster */
    int status;                 /**< not ok: the exit status that it means */
    char message[240];
    /** Not NULL: what needs the command. Then a message about a lacking command also has the server's
     *  version. */
    const tl_needer *needer;
    struct link_many *many; /**< not NULL: within link_ask_many */
} server_link;

/** The message about a server that doesn't know CLUSTER; the library's is the same. */
#define LINK_NO_CLUSTER                                                                            \
    "%.100s has no CLUSTER: it is a Sentinel, older than Redis 3.0, or the command is renamed "    \
    "there"

/** Make the connection to link->endpoint, as link_open finds it. This function and the next two neither
 *  connect nor block. False: no memory. */
bool link_begin(server_link *link);
/** Turn the link to another server, with the same login. False: no memory. */
bool link_turn(server_link *link, const char *host, uint16_t port);

/** Open a link to another server, with the login of `other`; as a `stranger` without a login. Close it
 *  before `other`. False: no memory. */
bool link_open_beside(server_link *link, const server_link *other, const char *host, uint16_t port,
                      bool stranger);

/** The same, but to the same database: nodes of a cluster may have several (Valkey 9.0). */
bool link_open_same(server_link *link, const server_link *other, const char *host, uint16_t port);

void link_close(server_link *link);

/** Send a command, whose words end with a NULL, and wait for the reply for 5 s at most. `take`, if not
 *  NULL, receives the reply. False: link->status and link->message say why. */
bool link_ask(server_link *link, const char *const *request,
              bool (*take)(void *ctx, const tl_reply *reply), void *ctx);

/** The same with `n` words of any bytes, TL_ARGV_MAX at most. */
bool link_ask_bytes(server_link *link, const tl_bytes *request, size_t n,
                    bool (*take)(void *ctx, const tl_reply *reply), void *ctx);

/** Many requests, of which hundreds are in flight at once. */
typedef struct link_many {
    size_t count;
    /** Write request number i, of TL_ARGV_MAX words at most; returns how many. It is encoded at once. */
    size_t (*request)(void *ctx, size_t i, tl_bytes *argv);
    /** The reply to request number i, which may be an error. */
    void (*take)(void *ctx, size_t i, const tl_reply *reply);
    void *ctx;
    size_t sent, done; /**< used by the link */
} link_many;

/** Send them all, and wait for each reply for 5 s at most. False: some have no reply; link->status and
 *  link->message say why. */
bool link_ask_many(server_link *link, link_many *many);

/** The server's product and version, as of info_product; false: it doesn't say. */
bool link_product(server_link *link, char product[INFO_PRODUCT_SIZE]);
