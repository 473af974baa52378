/*
 * The face of the Java class DistributeLockUtil, on the public header alone: a table of the
 * holds of one process, by key. It must never release for one thread what another has locked unless
 * told to, nor hold its mutex while it asks the server.
 */
#include "distribute_lock_util.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUCKETS_LEAST 16
#define OPTIONS_MOST 4096 /* no options are ever larger */
#define KEY_SHOWN 64      /* bytes of a key in a message */

typedef struct hold {
    struct hold *next; /* of the same bucket */
    tl_lock *lock;
    uint64_t thread; /* of this_thread() */
    uint64_t hash;
    char key[];
} hold;

#define ANY_THREAD 0

struct tl_dlu {
    tl_client *client;
    pid_t process;
    pthread_mutex_t mutex; /* for what follows */
    hold **bucket;
    size_t buckets, holds;
};

static tl_err fail(tl_error *err, tl_err code, const char *what, const char *key,
                   const char *message) {
    if (!err)
        return code;
    size_t n = strnlen(key, KEY_SHOWN);
    *err = (tl_error){.code = code};
    (void)snprintf(err->message, sizeof err->message, "%s %.*s%s: %s", what, (int)n, key,
                   key[n] ? "..." : "", message);
    for (char *p = err->message; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 127)
            *p = '?';
    return code;
}

/* A number that no other thread of this process has, or ever had: the system gives the number of a thread that has
 * ended to a later one, which could release the former's lock then. */
static uint64_t this_thread(void) {
    static _Atomic uint64_t threads = ANY_THREAD;
    static _Thread_local uint64_t mine;
    if (mine == 0)
        mine = atomic_fetch_add(&threads, 1) + 1;
    return mine;
}

/* ---- the table: with the mutex held ------------------------------------------------------------ */

static uint64_t hash_of(const char *key) {
    uint64_t h = 14695981039346656037U;
    for (; *key; key++)
        h = (h ^ (unsigned char)*key) * 1099511628211U;
    return h;
}

/* Where a pointer to the key's hold stands; to NULL: there is none. */
static hold **find(tl_dlu *d, const char *key, uint64_t hash) {
    hold **at = &d->bucket[hash % d->buckets];
    while (*at && ((*at)->hash != hash || strcmp((*at)->key, key) != 0))
        at = &(*at)->next;
    return at;
}

static hold *take_out(tl_dlu *d, hold **at) {
    hold *h = *at;
    *at = h->next;
    h->next = NULL;
    d->holds--;
    return h;
}

static bool is_over(const hold *h) {
    return tl_lock_remaining_ms(h->lock) == 0;
}

static void free_hold(hold *h) {
    if (h)
        tl_lock_free(h->lock);
    free(h);
}

static void forget_what_is_over(tl_dlu *d) {
    for (size_t i = 0; i < d->buckets; i++)
        for (hold **at = &d->bucket[i]; *at;)
            if (is_over(*at))
                free_hold(take_out(d, at));
            else
                at = &(*at)->next;
}

/* A table that is full of what is held grows; without memory its chains do. */
static void make_room(tl_dlu *d) {
    if (d->holds < d->buckets)
        return;
    forget_what_is_over(d);
    hold **bigger = d->holds <= d->buckets / 2 ? NULL : calloc(2 * d->buckets, sizeof(hold *));
    if (!bigger)
        return;
    for (size_t i = 0; i < d->buckets; i++)
        for (hold *h = d->bucket[i], *next; h; h = next) {
            next = h->next;
            h->next = bigger[h->hash % (2 * d->buckets)];
            bigger[h->hash % (2 * d->buckets)] = h;
        }
    free(d->bucket);
    d->bucket = bigger;
    d->buckets *= 2;
}

/* ---- opening and closing ----------------------------------------------------------------------- */

static tl_dlu *open_table(tl_client *client, tl_error *err) {
    tl_dlu *d = calloc(1, sizeof *d);
    hold **bucket = calloc(BUCKETS_LEAST, sizeof(hold *));
    if (!d || !bucket || pthread_mutex_init(&d->mutex, NULL)) {
        free(d);
        free(bucket);
        (void)fail(err, TL_ENOMEM, "open", "locks", "out of memory");
        return NULL;
    }
    d->client = client;
    d->process = getpid();
    d->bucket = bucket;
    d->buckets = BUCKETS_LEAST;
    return d;
}

/* Left out is the same number: neither may become what the other means. A stamp in a fleet of tokens keeps all of them
 * out for ever once its holder has crashed, and Java fails at a token. */
static const char no_tokens[] =
    "protocol: say which: TL_BRIDGE (as tl_dlu_open), TL_TIMESTAMP or TL_AUTO; tokens are not locked "
    "by this drop-in: use tl_client_open and tl_lock";

tl_dlu *tl_dlu_open_with(const tl_client_options *options, tl_error *err) {
    union { /* of whatever version of the header they are */
        tl_client_options o;
        char room[OPTIONS_MOST];
    } copy = {.o = {.size = sizeof copy.o}};
    tl_client *client;
    bool odd = options && (options->size < sizeof copy.o.size || options->size > sizeof copy);
    if (options && !odd)
        memcpy(&copy, options, options->size);
    bool says = options && options->size > offsetof(tl_client_options, protocol);
    if (!says)
        copy.o.protocol = TL_BRIDGE;
    else if (!odd && copy.o.protocol == TL_TOKEN) {
        (void)fail(err, TL_EINVALID, "open", "locks", no_tokens);
        return NULL;
    }
    if (tl_client_open(odd ? options : &copy.o, &client, err))
        return NULL;
    tl_dlu *d = open_table(client, err);
    if (!d)
        tl_client_close(client);
    return d;
}

tl_dlu *tl_dlu_open(const char *url, tl_error *err) {
    tl_client_options o = TL_CLIENT_OPTIONS(.url = url, .protocol = TL_BRIDGE);
    return tl_dlu_open_with(&o, err);
}

static bool is_here(const tl_dlu *d) {
    return d->process == getpid();
}

void tl_dlu_close(tl_dlu *d) {
    if (!d)
        return;
    int saved = errno;
    for (size_t i = 0; i < d->buckets; i++)
        while (d->bucket[i])
            free_hold(take_out(d, &d->bucket[i]));
    tl_client_close(d->client);
    if (is_here(d)) /* else it may be locked, for ever */
        (void)pthread_mutex_destroy(&d->mutex);
    free(d->bucket);
    free(d);
    errno = saved;
}

/* ---- locking ----------------------------------------------------------------------------------- */

static hold *make_hold(tl_dlu *d, const char *key, tl_error *err) {
    const tl_lock_options options = TL_LOCK_OPTIONS(.manual_renew = true);
    size_t n = strlen(key);
    hold *h = calloc(1, sizeof *h + n + 1);
    if (!h) {
        (void)fail(err, TL_ENOMEM, "lock", key, "out of memory");
        return NULL;
    }
    memcpy(h->key, key, n + 1);
    h->hash = hash_of(key);
    h->thread = this_thread();
    h->lock = tl_lock_new(d->client, key, n, &options, err);
    if (h->lock)
        return h;
    free(h);
    return NULL;
}

static bool holds_already(tl_dlu *d, const char *key) {
    (void)pthread_mutex_lock(&d->mutex);
    const hold *h = *find(d, key, hash_of(key));
    bool holds = h && !is_over(h);
    (void)pthread_mutex_unlock(&d->mutex);
    return holds;
}

/* In place of a hold that is over. False: another thread was faster, which has it for certain. */
static bool put_in(tl_dlu *d, hold *h) {
    hold *old = NULL;
    (void)pthread_mutex_lock(&d->mutex);
    make_room(d);
    hold **at = find(d, h->key, h->hash);
    bool free_for_us = !*at || is_over(*at);
    if (free_for_us) {
        if (*at)
            old = take_out(d, at);
        h->next = d->bucket[h->hash % d->buckets];
        d->bucket[h->hash % d->buckets] = h;
        d->holds++;
    }
    (void)pthread_mutex_unlock(&d->mutex);
    free_hold(old);
    return free_for_us;
}

static void forget(void *h) {
    free_hold(h);
}

bool tl_dlu_lock_wait(tl_dlu *d, const char *key, int64_t wait_ms, tl_error *err) {
    tl_err code;
    if (!is_here(d)) {
        (void)fail(err, TL_EINVALID, "lock", key, "the handle belongs to the parent process");
        return false;
    }
    if (wait_ms == 0 && holds_already(d, key)) {
        (void)fail(err, TL_EBUSY, "lock", key, "this handle holds it");
        return false;
    }
    hold *h = make_hold(d, key, err);
    if (!h)
        return false;
    pthread_cleanup_push(forget, h); /* the thread may be cancelled while it waits */
    code = tl_lock_acquire(h->lock, wait_ms, err);
    pthread_cleanup_pop(0);
    if (code == TL_OK) {
        if (put_in(d, h))
            return true;
        (void)tl_lock_release(h->lock, NULL);
        (void)fail(err, TL_EBUSY, "lock", key, "another thread holds it");
    }
    free_hold(h);
    return false;
}

bool tl_dlu_lock(tl_dlu *d, const char *key, tl_error *err) {
    return tl_dlu_lock_wait(d, key, 0, err);
}

/* ---- releasing --------------------------------------------------------------------------------- */

static tl_err release(tl_dlu *d, const char *key, uint64_t thread, tl_error *err) {
    hold *h = NULL;
    if (!is_here(d))
        return fail(err, TL_EINVALID, "release", key, "the handle belongs to the parent process");
    (void)pthread_mutex_lock(&d->mutex);
    hold **at = find(d, key, hash_of(key));
    bool held = *at != NULL;
    if (held && (thread == ANY_THREAD || (*at)->thread == thread))
        h = take_out(d, at);
    (void)pthread_mutex_unlock(&d->mutex);
    if (!h)
        return fail(err, TL_EINVALID, "release", key,
                    held ? "another thread has locked it" : "it is not held");
    bool over = is_over(h);
    tl_err code = tl_lock_release(h->lock, err);
    if (code == TL_OK && over) /* without scripts it isn't looked for any more */
        code = fail(err, TL_EEXPIRED, "release", key, "it had expired");
    free_hold(h);
    return code;
}

tl_err tl_dlu_release(tl_dlu *d, const char *key, tl_error *err) {
    return release(d, key, this_thread(), err);
}

tl_err tl_dlu_release_any(tl_dlu *d, const char *key, tl_error *err) {
    return release(d, key, ANY_THREAD, err);
}

int64_t tl_dlu_remaining_ms(tl_dlu *d, const char *key) {
    if (!is_here(d))
        return 0;
    (void)pthread_mutex_lock(&d->mutex);
    const hold *h = *find(d, key, hash_of(key));
    int64_t ms = h ? tl_lock_remaining_ms(h->lock) : 0;
    (void)pthread_mutex_unlock(&d->mutex);
    return ms;
}
