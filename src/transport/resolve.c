/*
 * Looks up names, in one thread for each name, however many callers ask for it. A caller never waits for the
 * thread. The memory that both use is freed by the last one to leave.
 */
#include "transport/resolve.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ground/cancel.h"
#include "ground/names.h"
#include "ground/stay.h"
#include "ground/thread.h"
#include "ground/wait.h"
#include "transport/endpoint.h"

#define PORT_SIZE 6

#define END_MS 50 /* a client that is closed waits so long for its lookups */

/* A thread, and its result. */
typedef struct lookup {
    tl_lookups *all;
    struct lookup *next;
    tl_resolve *first; /* the callers that still wait for it */
    unsigned holders;  /* these, and the thread until it has been joined */
    bool done;         /* the result below is written and stays unchanged */
    tl_thread thread;
    char host[TL_HOST_SIZE], port[PORT_SIZE];
    int result, sys_errno; /* from the resolver */
    size_t count;
    tl_address address[TL_ADDRESS_MAX];
} lookup;

struct tl_resolve {
    lookup *lookup;
    tl_resolve *next;
    atomic_bool done;
    bool alone; /* it has a tl_lookups to itself */
    int fd;
};

struct tl_lookups {
    tl_mutex mutex; /* protects all of it, and all of a lookup but the result */
    tl_cond ended;  /* a lookup has ended */
    lookup *first;  /* the lookups whose threads have not been joined */
    unsigned running;
    bool closed; /* the last running lookup frees it */
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

/* ---- threads ----------------------------------------------------------------------------------- */

tl_lookups *tl__lookups_new(void) {
    tl_lookups *all = calloc(1, sizeof *all);
    if (!all)
        return NULL;
    tl__mutex_init(&all->mutex);
    tl__cond_init(&all->ended);
    return all;
}

static void free_all(tl_lookups *all) {
    tl__mutex_end(&all->mutex);
    tl__cond_end(&all->ended);
    free(all);
}

/* With the mutex. */
static void leave(lookup *l) {
    if (--l->holders == 0)
        free(l);
}

static void look_up(lookup *l) {
    struct addrinfo hints = hints_of(0), *list = NULL;
    l->result = tl__names_ask(l->host, l->port, &hints, &list);
    l->sys_errno = errno;
    if (l->result == 0 && list) {
        l->count = keep(list, l->address, TL_ADDRESS_MAX);
        tl__names_free(list);
    }
}

static void *run(void *of) {
    lookup *l = of;
    tl_lookups *all = l->all;
    (void)tl__cancel_off();
    look_up(l);
    tl__mutex_lock(&all->mutex);
    l->done = true;
    for (tl_resolve *r = l->first; r; r = r->next) {
        atomic_store(&r->done, true);
        tl__wake_post(r->fd);
    }
    all->running--;
    bool closed = all->closed, last = all->running == 0;
    if (closed)
        leave(l); /* it will not be joined */
    tl__cond_wake(&all->ended);
    tl__mutex_unlock(&all->mutex);
    if (closed && last)
        free_all(all);
    return NULL;
}

/* Join the threads that have ended. With the mutex, which none of them needs from now on. */
static void join_ended(tl_lookups *all) {
    for (lookup **at = &all->first; *at;) {
        lookup *l = *at;
        if (!l->done) {
            at = &l->next;
            continue;
        }
        *at = l->next;
        tl__thread_join(l->thread);
        leave(l);
    }
}

static void end(tl_lookups *all, tl_mono by) {
    tl__mutex_lock(&all->mutex);
    while (all->running > 0 && tl__cond_wait_by(&all->ended, &all->mutex, by))
        ;
    join_ended(all);
    for (lookup *l = all->first; l; l = l->next)
        tl__thread_detach(l->thread);
    bool hangs = all->running > 0;
    all->closed = true;
    tl__mutex_unlock(&all->mutex);
    if (hangs)
        tl__stay_loaded();
    else
        free_all(all);
}

void tl__lookups_end(tl_lookups *all, tl_mono by) {
    if (all)
        end(all, tl__mono_min(by, tl__mono_add_ms(tl__mono_now(), END_MS)));
}

/* ---- callers ----------------------------------------------------------------------------------- */

/* Find a lookup of this name that still runs; NULL: none. */
static lookup *find(const tl_lookups *all, const char *host, const char *port) {
    lookup *l = all->first;
    while (l && (l->done || strcmp(l->host, host) != 0 || strcmp(l->port, port) != 0))
        l = l->next;
    return l;
}

/* NULL and errno. */
static lookup *begin(tl_lookups *all, const char *host, const char *port) {
    lookup *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    (void)snprintf(l->host, sizeof l->host, "%s", host);
    (void)snprintf(l->port, sizeof l->port, "%s", port);
    l->all = all;
    l->holders = 1;
    int result = tl__thread_start(run, l, &l->thread);
    if (result != 0) {
        free(l);
        errno = result;
        return NULL;
    }
    l->next = all->first;
    all->first = l;
    all->running++;
    return l;
}

tl_resolve *tl__resolve_start(tl_lookups *lookups, const char *host, uint16_t port) {
    const tl_mono at_once = {0};
    char service[PORT_SIZE];
    tl_lookups *all = lookups ? lookups : tl__lookups_new();
    tl_resolve *r = all ? calloc(1, sizeof *r) : NULL;
    (void)snprintf(service, sizeof service, "%u", (unsigned)port);
    if (!r)
        goto out;
    r->alone = !lookups;
    r->fd = tl__wake_open();
    if (r->fd < 0)
        goto out;
    tl__mutex_lock(&all->mutex);
    join_ended(all);
    lookup *l = r->lookup = find(all, host, service);
    if (!l)
        l = r->lookup = begin(all, host, service);
    if (l) {
        l->holders++;
        r->next = l->first;
        l->first = r;
    }
    tl__mutex_unlock(&all->mutex);
    if (l)
        return r;
    tl__wake_close(r->fd);
out:
    if (all && !lookups)
        end(all, at_once);
    free(r);
    return NULL;
}

int tl__resolve_fd(const tl_resolve *resolve) {
    return resolve->fd;
}

bool tl__resolve_done(const tl_resolve *resolve) {
    return atomic_load(&resolve->done);
}

static const char *problem_of(const lookup *r) {
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

int tl__resolve_errno(const tl_resolve *resolve) {
    const lookup *r = resolve->lookup;
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
    const lookup *l = resolve->lookup;
    if (l->count == 0)
        *ret_problem = problem_of(l);
    else
        memcpy(ret, l->address, l->count * sizeof *ret);
    return l->count;
}

void tl__resolve_free(tl_resolve *resolve) {
    if (!resolve)
        return;
    const tl_mono at_once = {0};
    int saved = errno;
    lookup *l = resolve->lookup;
    tl_lookups *all = l->all;
    tl__mutex_lock(&all->mutex);
    tl_resolve **at = &l->first;
    while (*at != resolve)
        at = &(*at)->next;
    *at = resolve->next;
    leave(l);
    tl__mutex_unlock(&all->mutex);
    if (resolve->alone)
        end(all, at_once);
    tl__wake_close(resolve->fd);
    free(resolve);
    errno = saved;
}
