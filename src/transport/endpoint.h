/*
 * A URL taken apart: where a server is and how to log in.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <tidelock/tidelock.h>

#include "ground/bytes.h"
#include "transport/local/local.h"

#define TL_HOST_SIZE 256
#define TL_LABEL_SIZE (TL_HOST_SIZE + 16)
#define TL_PATH_SIZE 108 /**< of a unix socket */
#define TL_FILE_SIZE 4096
#define TL_USER_SIZE 512 /**< user name, with its NUL */

/** Who is asked for the password before each login: as tl_client_options has it. */
typedef struct {
    bool (*fn)(tl_password_for whose, char *ret, size_t size, void *ctx); /**< NULL: nobody */
    void *ctx;
    tl_password_for whose;
} tl_password_source;

/** A password of a URL or of the options, once for all endpoints of that login. Whoever parses the URL has it, and lets it be
 *  where it is, and wipes it, when none of them is used any more. */
typedef struct {
    char text[TL_PASSWORD_SIZE]; /**< "": none */
} tl_secret;

/** The files of certificates that the options name, kept in the same way. */
typedef struct {
    char ca[TL_FILE_SIZE], cert[TL_FILE_SIZE], key[TL_FILE_SIZE]; /**< or "" */
} tl_tls_files;

typedef struct {
    bool tls;
    char host[TL_HOST_SIZE]; /**< "" for a unix socket */
    uint16_t port;
    char path[TL_PATH_SIZE];     /**< "" for TCP */
    char dir[TL_LOCAL_DIR_SIZE]; /**< of local:, "" otherwise */
    bool only_find;              /**< local: never start a server */
    char user[TL_USER_SIZE];
    tl_secret
        *secret; /**< where the source has none; NULL: nor has this. It isn't the endpoint's */
    tl_password_source source;
    int32_t db;
    const tl_tls_files *files;      /**< NULL: none. They aren't the endpoint's either */
    char server_name[TL_HOST_SIZE]; /**< what the certificate must name; "": the host */
    char label[TL_LABEL_SIZE];  /**< "host:port", the path or "local", for messages; no secrets */
    struct tl_lookups *lookups; /**< its client's, see resolve.h; NULL: it shares none */
} tl_endpoint;

#define TL_SEEDS_MAX 16   /**< servers that a URL names */
#define TL_MASTER_SIZE 64 /**< name of a master, with its NUL */
#define TL_SEEDS_PREFIX 256

typedef enum {
    TL_URL_UNKNOWN, /**< no scheme of ours */
    TL_URL_ONE,     /**< one server: redis:, unix: */
    TL_URL_LOCAL,
    TL_URL_SENTINELS,
    TL_URL_CLUSTER, /**< nodes of a Redis Cluster */
    TL_URL_QUORUM,  /**< independent servers, of which a majority counts */
    TL_URL_ETCD     /**< members of one etcd */
} tl_url_kind;

/** Where else a URL leads than to one server: who are to be asked for it. */
typedef struct {
    tl_url_kind kind;
    char prefix[TL_SEEDS_PREFIX]; /**< etcd: what stands before all keys; it may be "" */
    char master[TL_MASTER_SIZE];  /**< which the Sentinels know by this name; "": none is */
    unsigned count;
    struct {
        char host[TL_HOST_SIZE]; /**< "" for a unix socket */
        uint16_t port;
        char path[TL_PATH_SIZE]; /**< "" for TCP; only of a quorum */
    } seed[TL_SEEDS_MAX];
} tl_seeds;

/** By its scheme alone, whatever follows; NULL: unknown. */
tl_url_kind tl__url_kind(const char *url, bool *ret_tls);

/** The bytes of a URL that are user and password, without the '@' behind them; n 0: there are none. Of one that is
 *  malformed, whatever may have been meant for them. */
tl_bytes tl__url_login(const char *url);

/**
 * Parse what tl__endpoint_parse takes, for which seeds->count is then 0, or
 *   redis+sentinel://[user[:password]@]host[:port],host[:port],.../MASTER[/db]
 *   redis+cluster://[user[:password]@]host[:port],host[:port],...
 *   redis+quorum://[user[:password]@]SERVER,SERVER,SERVER   3, 5 or 7, each host[:port] or unix:/path
 *   etcd://[user:password@]host[:port],host[:port],...[/prefix]   or etcds
 * and the same with rediss. User and password are the master's, or of each node or server; ret has no host.
 * The password is put into secret; NULL: there must be none.
 *
 * TL_EINVALID  as for that
 */
tl_err tl__endpoint_parse_seeds(tl_endpoint *ret, tl_secret *secret, tl_seeds *ret_seeds,
                                const char *url, tl_error *err);

/** The same login, by the same secret, files and database at another host: its name or address as text. false: too long. */
bool tl__endpoint_at(tl_endpoint *ret, const tl_endpoint *like, tl_bytes host, uint16_t port);
/** The same at one of those that a URL names, over a unix socket or not. */
void tl__endpoint_at_seed(tl_endpoint *ret, const tl_endpoint *like, const tl_seeds *seeds,
                          unsigned index);

/**
 * Parse redis://[user[:password]@]host[:port][/db], rediss://…, unix:///path[?db=N] (also
 * unix://[user:password@]/path), local: or local:/directory (see local.h). User and password may be percent-encoded; IPv6 in brackets.
 *
 * TL_EINVALID  with a message that shows neither user nor password; also rediss: in a build without
 *              TLS
 */
tl_err tl__endpoint_parse(tl_endpoint *ret, tl_secret *secret, const char *url, tl_error *err);

/**
 * Add what a URL doesn't tell: the options password, password_fn, tls_ca_file, tls_cert_file, tls_key_file and
 * tls_server_name, each if it is given: the password to the secret that the URL was parsed with, the names of files to `files`.
 *
 * TL_EINVALID  one is too long, or of use only with another or with rediss:; err says which
 */
tl_err tl__endpoint_add(tl_endpoint *endpoint, tl_tls_files *files,
                        const tl_client_options *options, tl_error *err);

/** The password where the source has none; "": there is none. */
static inline const char *tl__endpoint_password(const tl_endpoint *endpoint) {
    return endpoint->secret ? endpoint->secret->text : "";
}

/** Does a login tell a password? */
static inline bool tl__endpoint_has_password(const tl_endpoint *endpoint) {
    return tl__endpoint_password(endpoint)[0] || endpoint->source.fn;
}

/** The password for a login that begins now. */
typedef struct {
    const char *text; /**< "": none */
    char *room;
} tl_password;

tl_password tl__password_ask(const tl_endpoint *endpoint);
/** Overwrite what was made for it. */
void tl__password_forget(tl_password *password);

/** Forget user, password and source. */
void tl__endpoint_make_stranger(tl_endpoint *endpoint);

/** Another user's login at Sentinels, with a secret of its own: what the options say of them, either of which may be NULL, for whom
 *  the same source is asked by TL_PASSWORD_SENTINEL. TL_EINVALID: one is too long; err says which. */
tl_err tl__endpoint_log_in_as(tl_endpoint *endpoint, tl_secret *secret,
                              const tl_client_options *options, tl_error *err);

/** Overwrite the user, and leave the secret to the others. */
void tl__endpoint_wipe(tl_endpoint *endpoint);
/** Overwrite it: no endpoint with it is used any more. */
void tl__secret_wipe(tl_secret *secret);
