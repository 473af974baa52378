/*
 * Defines all of ground/names, so that the linker has no need of the library's own.
 */
#include "names_as.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "ground/names.h"

static _Atomic(names_answer) present;

void names_as(names_answer answer) {
    atomic_store(&present, answer);
}

int names_of_loopback(const char *host, const char *service, const struct addrinfo *hints,
                      struct addrinfo **ret) {
    (void)host;
    return getaddrinfo("127.0.0.1", service, hints, ret);
}

int tl__names_ask(const char *host, const char *service, const struct addrinfo *hints,
                  struct addrinfo **ret) {
    bool is_number = hints->ai_flags & AI_NUMERICHOST;
    names_answer answer = is_number ? NULL : atomic_load(&present);
    return (answer ? answer : getaddrinfo)(host, service, hints, ret);
}

void tl__names_free(struct addrinfo *list) {
    freeaddrinfo(list);
}
