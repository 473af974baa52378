/*
 * Host names to addresses, without ever blocking the asker: numeric addresses at once, names in a
 * thread that can be abandoned, since getaddrinfo has no time limit of its own.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ground/clock.h"
#include "ground/socket.h"

#define TL_ADDRESS_MAX 16 /**< addresses of a name that are tried */

typedef struct tl_resolve tl_resolve;

/** The lookups of a client: who asks for a name that is being looked up already waits for the same answer. */
typedef struct tl_lookups tl_lookups;

/** NULL: no memory. */
tl_lookups *tl__lookups_new(void);
/** When nobody asks any more. Waits for a moment, until `by` at most; a lookup that hangs for longer goes on by itself, and the code that it
 *  runs stays loaded until the process ends. NULL is fine. */
void tl__lookups_end(tl_lookups *all, tl_mono by);

/** The address that host spells out; false when it is a name. */
bool tl__resolve_numeric(const char *host, uint16_t port, tl_address *ret);

/** Begin to look up a name. NULL and errno: no memory, descriptor or thread. */
tl_resolve *tl__resolve_start(tl_lookups *lookups, const char *host, uint16_t port);

/** Readable once the answer is there. */
int tl__resolve_fd(const tl_resolve *resolve);
bool tl__resolve_done(const tl_resolve *resolve);

/** Done: the number of addresses, written to TL_ADDRESS_MAX of them; 0: *ret_problem says why. */
size_t tl__resolve_get(const tl_resolve *resolve, tl_address *ret, const char **ret_problem);
/** Done, without an address: the errno that comes nearest. ENOENT: for certain there is no such
 *  host; EAGAIN: the name service does not answer. */
int tl__resolve_errno(const tl_resolve *resolve);

/** Done or not: give it up. The thread goes on. NULL is fine. */
void tl__resolve_free(tl_resolve *resolve);
