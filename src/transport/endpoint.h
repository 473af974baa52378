/*
 * The parts of a URL: where a server is, and how to log in.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <tidelock/tidelock.h>

#include "ground/bytes.h"
#include "transport/local/local.h"

#define TL_HOST_SIZE 256
#define TL_LABEL_SIZE (TL_HOST_SIZE + 16)
#define TL_PATH_SIZE 108 /**< of a unix socket, with its NUL */
#define TL_FILE_SIZE 4096
#define TL_USER_SIZE 512 /**< user name, with its NUL */

/** The function that is asked for the password before each login, as in tl_client_options. */
typedef struct {
    bool (*fn)(tl_password_for whose, char *ret, size_t size, void *ctx); /**< NULL: none */
    void *ctx;
    tl_password_for whose;
} tl_password_source;

/** A password of the URL or of the options; all endpoints with this login point to the same one. The owner is
 *  the code that parses the URL. It must not move the secret while an endpoint uses it, and wipes it after
 *  the last one. */
typedef struct {
    char text[TL_PASSWORD_SIZE]; /**< "": none */
} tl_secret;

/** The certificate files that the options name; owned in the same way. */
typedef struct {
    char ca[TL_FILE_SIZE], cert[TL_FILE_SIZE], key[TL_FILE_SIZE]; /**< each may be "" */
} tl_tls_files;

typedef struct {
    bool tls;
    char host[TL_HOST_SIZE]; /**< "" for a unix socket */
    uint16_t port;
    char path[TL_PATH_SIZE];     /**< "" for TCP */
    char dir[TL_LOCAL_DIR_SIZE]; /**< of local:, else "" */
    bool only_find;              /**< local: never start a server */
    char user[TL_USER_SIZE];
    tl_secret *secret; /**< used where the source has no password; not owned. NULL: none */
    tl_password_source source;
    int32_t db;
    const tl_tls_files *files;      /**< not owned. NULL: none */
    char server_name[TL_HOST_SIZE]; /**< the name that the certificate must have; "": the host */
    char label[TL_LABEL_SIZE];  /**< "host:port", the path or "local", for messages; no secrets */
    struct tl_lookups *lookups; /**< of its client, see resolve.h; NULL: not shared */
} tl_endpoint;

#define TL_SEEDS_MAX 16   /**< servers that a URL names, at most */
#define TL_MASTER_SIZE 64 /**< name of a master, with its NUL */
#define TL_SEEDS_PREFIX 256

typedef enum {
    TL_URL_UNKNOWN, /**< an unknown scheme */
    TL_URL_ONE,     /**< one server: redis:, unix: */
    TL_URL_LOCAL,
    TL_URL_SENTINELS,
    TL_URL_CLUSTER, /**< nodes of a Redis Cluster */
    TL_URL_QUORUM,  /**< independent servers, a majority of which decides */
    TL_URL_ETCD     /**< members of one etcd */
} tl_url_kind;

/** For a URL that names more than one server: the servers to ask. */
typedef struct {
    tl_url_kind kind;
    char prefix[TL_SEEDS_PREFIX]; /**< etcd: the prefix of all keys; may be "" */
    /** The name under which the Sentinels know the master; "": none. */
    char master[TL_MASTER_SIZE];
    unsigned count;
    struct {
        char host[TL_HOST_SIZE]; /**< "" for a unix socket */
        uint16_t port;
        char path[TL_PATH_SIZE]; /**< "" for TCP; only of a quorum */
    } seed[TL_SEEDS_MAX];
} tl_seeds;

/** The kind of a URL by its scheme alone; the rest is not checked. */
tl_url_kind tl__url_kind(const char *url, bool *ret_tls);

/** The bytes of a URL that are user and password, without the '@' after them; n 0: none. Of a malformed URL,
 *  the bytes that may have been meant as such. */
tl_bytes tl__url_login(const char *url);

/**
 * Parse a URL that tl__endpoint_parse accepts (then seeds->count is 0), or one of
 *   redis+sentinel://[user[:password]@]host[:port],host[:port],.../MASTER[/db]
 *   redis+cluster://[user[:password]@]host[:port],host[:port],...
 *   redis+quorum://[user[:password]@]SERVER,SERVER,SERVER   3, 5 or 7, each host[:port] or unix:/path
 *   etcd://[user:password@]host[:port],host[:port],...[/prefix]   or etcds
 * and the same with rediss. User and password are those of the master, or of each node or server; ret has no
 * host. The password is put into secret; NULL: the URL must have none.
 *
 * TL_EINVALID  as tl__endpoint_parse
 */
tl_err tl__endpoint_parse_seeds(tl_endpoint *ret, tl_secret *secret, tl_seeds *ret_seeds,
                                const char *url, tl_error *err);

/** Make an endpoint with the same login, secret, files and database at another host, given as name or
 *  address. false: the host is empty or too long. */
bool tl__endpoint_at(tl_endpoint *ret, const tl_endpoint *like, tl_bytes host, uint16_t port);
/** The same at one of the servers of a URL, over a unix socket or not. */
void tl__endpoint_at_seed(tl_endpoint *ret, const tl_endpoint *like, const tl_seeds *seeds,
                          unsigned index);

/**
 * Parse redis://[user[:password]@]host[:port][/db], rediss://…, unix:///path[?db=N] (also
 * unix://[user:password@]/path), local: or local:/directory (see local.h). User and password may be
 * percent-encoded; IPv6 addresses are in brackets.
 *
 * TL_EINVALID  with a message that shows neither user nor password; also for rediss: in a build
 *              without TLS
 */
tl_err tl__endpoint_parse(tl_endpoint *ret, tl_secret *secret, const char *url, tl_error *err);

/**
 * Add the options that a URL can't express: password, password_fn, tls_ca_file, tls_cert_file, tls_key_file
 * and tls_server_name, each if it is given. The password goes into the secret that the URL was parsed with,
 * the names of files into `files`.
 *
 * TL_EINVALID  one is too long, or requires another option, rediss: or etcds:; err says which
 */
tl_err tl__endpoint_add(tl_endpoint *endpoint, tl_tls_files *files,
                        const tl_client_options *options, tl_error *err);

/** The password that applies if the source has none; "": none. */
static inline const char *tl__endpoint_password(const tl_endpoint *endpoint) {
    return endpoint->secret ? endpoint->secret->text : "";
}

/** May a login send a password? */
static inline bool tl__endpoint_has_password(const tl_endpoint *endpoint) {
    return tl__endpoint_password(endpoint)[0] || endpoint->source.fn;
}

/** The password for a login that begins now. */
typedef struct {
    const char *text; /**< "": none */
    char *room;
} tl_password;

tl_password tl__password_ask(const tl_endpoint *endpoint);
/** Wipe the password that tl__password_ask fetched. */
void tl__password_forget(tl_password *password);

/** Remove user, password and source. */
void tl__endpoint_make_stranger(tl_endpoint *endpoint);

/** Change the login to the one for Sentinels, with a secret of its own: the user and password that the
 *  options give for Sentinels, either of which may be NULL. The source is the same, asked with
 *  TL_PASSWORD_SENTINEL. TL_EINVALID: one is too long; err says which. */
tl_err tl__endpoint_log_in_as(tl_endpoint *endpoint, tl_secret *secret,
                              const tl_client_options *options, tl_error *err);

/** Wipe the user; the secret stays, since other endpoints use it. */
void tl__endpoint_wipe(tl_endpoint *endpoint);
/** Wipe the secret: no endpoint uses it from now on. */
void tl__secret_wipe(tl_secret *secret);
