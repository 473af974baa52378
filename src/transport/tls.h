/*
 * TLS over a connected non-blocking socket. In a build without TLS all functions fail; tl__tls_built tells
 * beforehand.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "transport/endpoint.h"

#define TL_TLS_MESSAGE_SIZE 192
/** A hint where the server's bytes are no TLS, or none come: a server without TLS may wait for more of ours. */
#define TL_TLS_PLAIN " (a port without TLS? begin the URL with redis:// or etcd://)"

typedef struct tl_tls tl_tls;

/** The outcome of an operation. */
typedef enum {
    TL_TLS_DONE,
    TL_TLS_WANT_READ,  /**< try again when the socket is readable */
    TL_TLS_WANT_WRITE, /**< try again when it is writable */
    TL_TLS_CLOSED,     /**< closed by the peer */
    TL_TLS_BROKEN,     /**< the network failed; see the message */
    TL_TLS_NONSENSE,   /**< no TLS, or none that both sides support; see the message */
    TL_TLS_UNTRUSTED,  /**< the peer is not the endpoint's host; see the message */
    TL_TLS_SCARCE, /**< an authority's file may be missing since no descriptor is left: EMFILE */
    TL_TLS_REFUSED /**< the peer rejects our certificate, or asks for one; see the message */
} tl_tls_outcome;

bool tl__tls_built(void);

/** Load the authorities to trust, and our certificate and key; begin a session on the socket. http2: offer it,
 *  and HTTP/1.1 after it. NULL: the message says why; *ret_scarce is EMFILE or ENOMEM if the process has no descriptor
 *  or memory left, else 0. */
tl_tls *tl__tls_new(const tl_endpoint *endpoint, int fd, bool http2, int *ret_scarce,
                    char message[TL_TLS_MESSAGE_SIZE]);

/** NULL is fine. The socket stays open. */
void tl__tls_free(tl_tls *tls);

typedef enum {
    /** DONE: the server has proved that it is the endpoint's host. Whether it accepts our certificate may be
     *  known only after the first read or write. */
    TL_TLS_SHAKE,
    TL_TLS_READ,
    /** If it is not DONE, repeat it with the same bytes; the peer may already have received some of them. */
    TL_TLS_WRITE,
} tl_tls_work;

/** Continue one of these operations. *n: the bytes to write, or the room for reading; on return the number of
 *  bytes moved, 0 if not DONE. SHAKE uses no bytes. */
tl_tls_outcome tl__tls_do(tl_tls *tls, tl_tls_work work, void *bytes, size_t *n);

/** The last problem, "" if there was none. */
const char *tl__tls_message(const tl_tls *tls);

/** Are there bytes to read that poll can't see? */
bool tl__tls_pending(const tl_tls *tls);
