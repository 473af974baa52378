/*
 * Resolves host names without ever blocking the caller: numeric addresses at once, names in a thread that can
 * be abandoned, since getaddrinfo has no time limit of its own.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ground/clock.h"
#include "ground/socket.h"

#define TL_ADDRESS_MAX 16 /**< addresses of a name that are tried, at most */

typedef struct tl_resolve tl_resolve;

/** The lookups of a client: a second caller that asks for a name while it is being looked up gets the same
 *  result. */
typedef struct tl_lookups tl_lookups;

/** NULL: no memory. */
tl_lookups *tl__lookups_new(void);
/** End the lookups, when no caller uses them. Waits briefly, at most until `by`. A lookup that hangs longer
 *  continues by itself, and the code that it runs stays loaded until the process ends. NULL is fine. */
void tl__lookups_end(tl_lookups *all, tl_mono by);

/** Parse host as a numeric address; false if it is a name. */
bool tl__resolve_numeric(const char *host, uint16_t port, tl_address *ret);

/** Begin to look up a name. NULL and errno: no memory, descriptor or thread. */
tl_resolve *tl__resolve_start(tl_lookups *lookups, const char *host, uint16_t port);

/** Readable once the result is there. */
int tl__resolve_fd(const tl_resolve *resolve);
bool tl__resolve_done(const tl_resolve *resolve);

/** Done: returns the number of addresses, and writes them, at most TL_ADDRESS_MAX; 0: *ret_problem is the
 *  reason. */
size_t tl__resolve_get(const tl_resolve *resolve, tl_address *ret, const char **ret_problem);
/** Done, without an address: the closest errno. ENOENT: certainly no such host; EAGAIN: the name service does
 *  not reply. */
int tl__resolve_errno(const tl_resolve *resolve);

/** Free it, done or not. The thread goes on. NULL is fine. */
void tl__resolve_free(tl_resolve *resolve);
