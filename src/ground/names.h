/*
 * Addresses of a host. The only module that calls the resolver, which has no time limit: a caller that needs
 * one asks in a thread that can be abandoned (transport/resolve).
 */
#pragma once

#include <netdb.h>

/** The same as getaddrinfo, and freeaddrinfo of its result. */
int tl__names_ask(const char *host, const char *service, const struct addrinfo *hints,
                  struct addrinfo **ret);
void tl__names_free(struct addrinfo *list);
