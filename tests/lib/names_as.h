/*
 * The resolver, as a test wants it: linked in place of the library's ground/names by whoever calls names_as.
 */
#pragma once

#include <netdb.h>

typedef int (*names_answer)(const char *host, const char *service, const struct addrinfo *hints,
                            struct addrinfo **ret);

/** From now on names (not numeric addresses) are asked of this, in any thread; NULL: of the real resolver, as before the first call.
 *  What it returns is freed by freeaddrinfo. */
void names_as(names_answer answer);

/** An answer for names_as: each name is 127.0.0.1's, whether or not this machine has an /etc/hosts. */
int names_of_loopback(const char *host, const char *service, const struct addrinfo *hints,
                      struct addrinfo **ret);
