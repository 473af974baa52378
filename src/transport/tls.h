/*
 * TLS over a connected non-blocking socket. In a build without TLS everything here fails, and
 * tl__tls_built says so beforehand.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "transport/endpoint.h"

#define TL_TLS_MESSAGE_SIZE 192

typedef struct tl_tls tl_tls;

/** What came of an operation. */
typedef enum {
    TL_TLS_DONE,
    TL_TLS_WANT_READ,  /**< try again when the socket is readable */
    TL_TLS_WANT_WRITE, /**< try again when it is writable */
    TL_TLS_CLOSED,     /**< by the peer */
    TL_TLS_BROKEN,     /**< the network: words say more */
    TL_TLS_NONSENSE,   /**< that is no TLS that we could agree on: words say more */
    TL_TLS_UNTRUSTED,  /**< the peer is not the endpoint's host: words say more */
    TL_TLS_REFUSED /**< the peer doesn't let us in without another certificate: words say more */
} tl_tls_outcome;

bool tl__tls_built(void);

/** Load the authorities to trust, and our certificate and key; begin a session on the socket. NULL: words say why. */
tl_tls *tl__tls_new(const tl_endpoint *endpoint, int fd, char message[TL_TLS_MESSAGE_SIZE]);

/** NULL is fine. Leaves the socket alone. */
void tl__tls_free(tl_tls *tls);

typedef enum {
    TL_TLS_SHAKE, /**< DONE: the server has proved that it is the endpoint's host. What it thinks of us may come later, at the
                   *   first reading or writing */
    TL_TLS_READ,
    TL_TLS_WRITE, /**< if it is not DONE it must be repeated with the same bytes, of which the peer may already have some */
} tl_tls_work;

/** Go on with one of these. *n: bytes to write, or room for those read; then how many it were, 0 if not DONE. SHAKE has none. */
tl_tls_outcome tl__tls_do(tl_tls *tls, tl_tls_work work, void *bytes, size_t *n);

/** What was wrong last, "" if nothing was. */
const char *tl__tls_message(const tl_tls *tls);

/** Are there bytes to read that poll can't see? */
bool tl__tls_pending(const tl_tls *tls);
