/*
 * TLS over a connected non-blocking socket. In a build without TLS everything here fails, and
 * tl__tls_built says so beforehand.
 */
#ifndef TL_TLS_H
#define TL_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "transport/endpoint.h"

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

/** Load the authorities to trust, and our certificate and key. NULL: words say why. */
tl_tls *tl__tls_new(const tl_endpoint *endpoint, char *words, size_t size);

/** NULL is fine. Leaves the socket alone. */
void tl__tls_free(tl_tls *tls);

/** Begin a session on a socket; any former one is over. false: words say why. */
bool tl__tls_begin(tl_tls *tls, int fd, char *words, size_t size);

/** Forget the session. */
void tl__tls_end(tl_tls *tls);

/** Go on with the handshake. DONE: the server has proved that it is the endpoint's host. What it
 *  thinks of us may come later, at the first reading or writing. */
tl_tls_outcome tl__tls_handshake(tl_tls *tls, char *words, size_t size);

/** *ret_n bytes were read or written if DONE. A write that is not DONE must be repeated with the
 *  same bytes, of which the peer may already have some. */
tl_tls_outcome tl__tls_read(tl_tls *tls, char *to, size_t room, size_t *ret_n, char *words,
                            size_t size);
tl_tls_outcome tl__tls_write(tl_tls *tls, const char *from, size_t n, size_t *ret_n, char *words,
                             size_t size);

/** Are there bytes to read that poll can't see? */
bool tl__tls_pending(const tl_tls *tls);

#endif
