/*
 * A TCP proxy for tests, in a thread of its own: it forwards bytes between 127.0.0.1 and a server,
 * and breaks connections at a chosen byte, loudly or silently. It doesn't look at what it forwards.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct proxy proxy;

/** To a port of 127.0.0.1. Ends the program when it can't listen. */
proxy *proxy_start(int port);
/** Closes every connection. NULL is fine. */
void proxy_free(proxy *p);

int proxy_port(const proxy *p);
const char *proxy_url(const proxy *p); /**< "redis://127.0.0.1:PORT", valid as long as p */

typedef enum { PROXY_REQUESTS, PROXY_REPLIES } proxy_way;
typedef enum {
    PROXY_RESET, /**< both ends are reset */
    PROXY_MUTE   /**< it stays open, and nothing more gets through this way */
} proxy_fault;

/** The connections made from now on lead to this port of 127.0.0.1; those there are stay. */
void proxy_lead_to(proxy *p, int port);

/** Strike each of the next `connections` connections on which something comes this way: `after`
 *  bytes still get through, the rest is lost. Replaces what was asked for before. */
void proxy_break(proxy *p, proxy_way way, size_t after, proxy_fault fault, int connections);
#define PROXY_ALL 1000000 /**< that is, until proxy_heal */

/** Stop forwarding on all connections and accepting new ones, silently; nothing is lost. */
void proxy_stop(proxy *p);

/** Connections from 127.0.0.FROM, those there are and new ones, are apart from the server or not: nothing gets
 *  through either way, and nothing is lost. Not changed by proxy_heal. */
void proxy_set_apart(proxy *p, unsigned from, bool apart);

/** No further connection is struck, and proxy_stop is over. One that was muted stays so. */
void proxy_heal(proxy *p);

/** Reset all connections. */
void proxy_reset(proxy *p);

/** How many connections proxy_break has struck so far: each when the first byte was lost. */
int proxy_struck(proxy *p);

/** How many bytes it has forwarded this way so far. */
size_t proxy_passed(proxy *p, proxy_way way);
