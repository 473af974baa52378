/*
 * The tool's own connection to a server: a question at a time, each with a limit.
 */
#pragma once

#include "base/infotext.h"
#include "base/tool.h"
#include "transport/conn.h"

/** What all endpoints of a login have in common. */
typedef struct {
    tl_secret secret;
    tl_tls_files files;
} link_login;

typedef struct {
    tl_endpoint endpoint;
    link_login *own; /**< until it is closed; NULL: it logs in as another, which outlives it */
    tl_conn *conn;
    bool (*take)(void *ctx, const tl_reply *reply); /**< false: it is malformed */
    void *ctx;
    bool done, ok;
    bool error;   /**< not ok: the server answered with an error */
    unsigned ups; /**< how often it has connected: another time, another server may answer */
    bool lacks;   /**< and it was that the server lacks the command */
    tl_redirect_kind elsewhere; /**< or that another node of a cluster is to be asked, */
    char to_host[TL_HOST_SIZE]; /**< MOVED: this one; */
    uint16_t to_port;           /**< 0: it isn't said */
    bool announced;             /**< the address is one that a cluster's nodes tell of */
    int status;                 /**< not ok: the exit status that it means */
    char message[240];
    const tl_needer
        *needer; /**< NULL, or who asks: then what the server lacks is told with its version */
} server_link;

/** Of a server that doesn't know CLUSTER; the library says the same. */
#define LINK_NO_CLUSTER                                                                            \
    "%.100s has no CLUSTER: it is a Sentinel, older than Redis 3.0, or the command is renamed "    \
    "there"

/** To link->endpoint, as link_open finds it. It neither connects nor blocks; nor do the two below. False: no memory. */
bool link_begin(server_link *link);
/** Go on with another server, logged in as with the one before. False: no memory. */
bool link_turn(server_link *link, const char *host, uint16_t port);

/** Open one to another server, by the same login or, as a stranger, by none, to be closed before the other is. False: no memory. */
bool link_open_beside(server_link *link, const server_link *other, const char *host, uint16_t port,
                      bool stranger);

void link_close(server_link *link);

/** Ask with the words of a command, up to a NULL, and give the answer to take (may be NULL), for 5 s at
 *  most. False: link->status and link->message say why. */
bool link_ask(server_link *link, const char *const *request,
              bool (*take)(void *ctx, const tl_reply *reply), void *ctx);

/** The same with `n` words (TL_ARGV_MAX at most) of any bytes. */
bool link_ask_bytes(server_link *link, const tl_bytes *request, size_t n,
                    bool (*take)(void *ctx, const tl_reply *reply), void *ctx);

/** What the server is, as info_product; false: it doesn't say. */
bool link_product(server_link *link, char product[INFO_PRODUCT_SIZE]);
