/*
 * The only file that calls the resolver.
 */
#include "ground/names.h"

int tl__names_ask(const char *host, const char *service, const struct addrinfo *hints,
                  struct addrinfo **ret) {
    return getaddrinfo(host, service, hints, ret);
}

void tl__names_free(struct addrinfo *list) {
    freeaddrinfo(list);
}
