/*
 * Asks for a name in a thread of its own, one for each lookup. What the two sides share is
 * a box that the last one to leave frees; the asker never waits for the thread.
 */
#include "transport/resolve.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ground/names.h"
#include "ground/thread.h"
#include "ground/wait.h"
#include "transport/endpoint.h"

#define PORT_SIZE 6

struct tl_resolve {
    atomic_int holders; /* the asker and the thread */
    atomic_bool done;   /* the rest has been written and stays as it is */
    int fd;
    char host[TL_HOST_SIZE], port[PORT_SIZE];
    int result, sys_errno; /* of the resolver */
    size_t count;
    tl_address address[TL_ADDRESS_MAX];
};

static struct addrinfo hints_of(int flags) {
    return (struct addrinfo){
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
}

static size_t keep(const struct addrinfo *list, tl_address *to, size_t room) {
    size_t n = 0;
    for (; list && n < room; list = list->ai_next) {
        if (list->ai_addrlen > sizeof to[n].at)
            continue;
        memcpy(&to[n].at, list->ai_addr, list->ai_addrlen);
        to[n++].size = list->ai_addrlen;
    }
    return n;
}

bool tl__resolve_numeric(const char *host, uint16_t port, tl_address *ret) {
    char service[PORT_SIZE];
    struct addrinfo hints = hints_of(AI_NUMERICHOST), *list = NULL;
    (void)snprintf(service, sizeof service, "%u", (unsigned)port);
    if (tl__names_ask(host, service, &hints, &list) != 0)
        return false;
    size_t n = keep(list, ret, 1);
    tl__names_free(list);
    return n == 1;
}

static void leave(tl_resolve *r) {
    if (atomic_fetch_sub(&r->holders, 1) > 1)
        return;
    tl__wake_close(r->fd);
    free(r);
}

static void *look_up(void *box) {
    tl_resolve *r = box;
    struct addrinfo hints = hints_of(0), *list = NULL;
    r->result = tl__names_ask(r->host, r->port, &hints, &list);
    r->sys_errno = errno;
    if (r->result == 0 && list) {
        r->count = keep(list, r->address, TL_ADDRESS_MAX);
        tl__names_free(list);
    }
    atomic_store(&r->done, true);
    tl__wake_post(r->fd);
    leave(r);
    return NULL;
}

tl_resolve *tl__resolve_start(const char *host, uint16_t port) {
    tl_resolve *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    (void)snprintf(r->host, sizeof r->host, "%s", host);
    (void)snprintf(r->port, sizeof r->port, "%u", (unsigned)port);
    atomic_init(&r->holders, 2);
    r->fd = tl__wake_open();
    if (r->fd < 0)
        goto out;
    int result = tl__thread_start(look_up, r, NULL);
    if (result == 0)
        return r;
    tl__wake_close(r->fd);
    errno = result;
out:
    free(r);
    return NULL;
}

int tl__resolve_fd(const tl_resolve *resolve) {
    return resolve->fd;
}

bool tl__resolve_done(const tl_resolve *resolve) {
    return atomic_load(&resolve->done);
}

static const char *problem_of(const tl_resolve *r) {
    switch (r->result) {
    case 0:
    case EAI_NONAME: return "no such host";
#ifdef EAI_NODATA
    case EAI_NODATA: return "no such host";
#endif
    case EAI_AGAIN: return "the name service does not answer";
    case EAI_SYSTEM: return strerror(r->sys_errno);
    default: return gai_strerror(r->result);
    }
}

int tl__resolve_errno(const tl_resolve *r) {
    switch (r->result) {
    case 0:
#ifdef EAI_NODATA
    case EAI_NODATA:
#endif
    case EAI_NONAME: return ENOENT;
    case EAI_AGAIN: return EAGAIN;
    case EAI_MEMORY: return ENOMEM;
    case EAI_SYSTEM: return r->sys_errno;
    default: return EIO;
    }
}

size_t tl__resolve_get(const tl_resolve *resolve, tl_address *ret, const char **ret_problem) {
    if (resolve->count == 0)
        *ret_problem = problem_of(resolve);
    else
        memcpy(ret, resolve->address, resolve->count * sizeof *ret);
    return resolve->count;
}

void tl__resolve_free(tl_resolve *resolve) {
    int saved = errno;
    if (resolve)
        leave(resolve);
    errno = saved;
}
