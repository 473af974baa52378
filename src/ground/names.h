/*
 * Asking for the addresses of a host. The only module that calls the resolver, which has no time limit:
 * whoever can't wait asks in a thread that can be abandoned (transport/resolve).
 */
#pragma once

#include <netdb.h>

/** As getaddrinfo, and freeaddrinfo of what it returned. */
int tl__names_ask(const char *host, const char *service, const struct addrinfo *hints,
                  struct addrinfo **ret);
void tl__names_free(struct addrinfo *list);
