/*
 * A URL taken apart: where a server is and how to log in.
 */
#ifndef TL_ENDPOINT_H
#define TL_ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>
#include <tidelock/tidelock.h>

#include "transport/local/local.h"

#define TL_HOST_SIZE 256
#define TL_PATH_SIZE 108 /**< of a unix socket */
#define TL_FILE_SIZE 4096
#define TL_SECRET_SIZE 512 /**< user name or password, with its NUL */

typedef struct {
    bool tls;
    char host[TL_HOST_SIZE]; /**< "" for a unix socket */
    uint16_t port;
    char path[TL_PATH_SIZE];     /**< "" for TCP */
    char dir[TL_LOCAL_DIR_SIZE]; /**< of local:, "" otherwise */
    bool only_find;              /**< local: never start a server */
    char user[TL_SECRET_SIZE];
    char password[TL_SECRET_SIZE];
    int32_t db;
    char ca_file[TL_FILE_SIZE], cert_file[TL_FILE_SIZE], key_file[TL_FILE_SIZE]; /**< or "" */
    char server_name[TL_HOST_SIZE]; /**< what the certificate must name; "": the host */
    char
        label[TL_HOST_SIZE + 16]; /**< "host:port", the path or "local", for messages; no secrets */
} tl_endpoint;

/**
 * Parse redis://[user[:password]@]host[:port][/db], rediss://…, unix:///path[?db=N] (also
 * unix://[user:password@]/path), local: or local:/directory (see local.h). User and password may be percent-encoded; IPv6 in brackets.
 *
 * TL_EINVALID  with a message that shows neither user nor password; also rediss: in a build without
 *              TLS
 */
tl_err tl__endpoint_parse(tl_endpoint *ret, const char *url, tl_error *err);

/**
 * Add what a URL doesn't tell: the options password, tls_ca_file, tls_cert_file, tls_key_file and
 * tls_server_name, each if it is given.
 *
 * TL_EINVALID  one is too long, or of use only with another or with rediss:; err says which
 */
tl_err tl__endpoint_add(tl_endpoint *endpoint, const tl_client_options *options, tl_error *err);

/** Overwrite the secrets. */
void tl__endpoint_wipe(tl_endpoint *endpoint);

#endif
