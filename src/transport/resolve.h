/*
 * Host names to addresses, without ever blocking the asker: numeric addresses at once, names in a
 * detached thread that can be abandoned, since getaddrinfo has no time limit of its own.
 */
#ifndef TL_RESOLVE_H
#define TL_RESOLVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ground/socket.h"

#define TL_ADDRESS_MAX 16 /**< addresses of a name that are tried */

typedef struct tl_resolve tl_resolve;

/** The address that host spells out; false when it is a name. */
bool tl__resolve_numeric(const char *host, uint16_t port, tl_address *ret);

/** Begin to look up a name. NULL and errno: no memory, descriptor or thread. */
tl_resolve *tl__resolve_start(const char *host, uint16_t port);

/** Readable once the answer is there. */
int tl__resolve_fd(const tl_resolve *resolve);
bool tl__resolve_done(const tl_resolve *resolve);

/** Done: the number of addresses, written to TL_ADDRESS_MAX of them; 0: *ret_problem says why. */
size_t tl__resolve_get(const tl_resolve *resolve, tl_address *ret, const char **ret_problem);
/** Done, without an address: the errno that comes nearest. ENOENT: for certain there is no such
 *  host; EAGAIN: the name service does not answer. */
int tl__resolve_errno(const tl_resolve *resolve);

/** Done or not: give it up. The thread frees what it still needs. NULL is fine. */
void tl__resolve_free(tl_resolve *resolve);
#endif
