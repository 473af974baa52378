/*
 * The interface of the Java class DistributeLockUtil, on the public header alone: a table of one
 * process's holds, by key. Must never release for one thread a lock that another thread acquired,
 * except by tl_dlu_release_any. Must never hold its mutex while it waits for the server. A hold that
 * has expired stays for a while, also beside the next one of its key: its release says what happened.
 */
#include "distribute_lock_util.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BUCKETS_LEAST 16
#define OPTIONS_MOST 4096 /* bytes; no options are ever larger */
#define KEY_SHOWN 64      /* bytes of a key in a message */

typedef struct hold {
    struct hold
        *next; /* of the same bucket; of one key the latest is first, and others have expired */
    tl_lock *lock;
    uint64_t thread; /* number from this_thread() */
    uint64_t hash;
    int64_t forget_ms; /* by now_ms(): remembered until then at least */
    bool replaced;     /* the key was locked again before this hold was released */
    char key[];
} hold;

struct tl_dlu {
    tl_client *client;
    pid_t process;
    pthread_mutex_t mutex; /* guards the members below */
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

/* A number that no other thread of this process ever has. System thread IDs don't suffice: a later
 * thread may get the ID of one that ended, and could then release that thread's lock. */
static uint64_t this_thread(void) {
    static _Atomic uint64_t threads;
    static _Thread_local uint64_t mine;
    if (mine == 0)
        mine = atomic_fetch_add(&threads, 1) + 1;
    return mine;
}

/* For how long a hold is remembered after its end. No lock depends on this clock. */
static int64_t now_ms(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- the table: with the mutex held ------------------------------------------------------------ */

static uint64_t hash_of(const char *key) {
    uint64_t h = 14695981039346656037U;
    for (; *key; key++)
        h = (h ^ (unsigned char)*key) * 1099511628211U;
    return h;
}

/* The address of the pointer to the key's next hold from `at` on; that pointer is NULL if there is none. */
static hold **next_of(hold **at, const char *key, uint64_t hash) {
    while (*at && ((*at)->hash != hash || strcmp((*at)->key, key) != 0))
        at = &(*at)->next;
    return at;
}

/* The same for the key's latest hold. */
static hold **find(tl_dlu *dlu, const char *key, uint64_t hash) {
    return next_of(&dlu->bucket[hash % dlu->buckets], key, hash);
}

static hold *take_out(tl_dlu *dlu, hold **at) {
    hold *held = *at;
    *at = held->next;
    held->next = NULL;
    dlu->holds--;
    return held;
}

static bool is_over(const hold *held) {
    return tl_lock_remaining_ms(held->lock) == 0;
}

static bool is_remembered(const hold *held) {
    return !is_over(held) || now_ms() < held->forget_ms;
}

static void free_hold(hold *held) {
    if (held)
        tl_lock_free(held->lock);
    free(held);
}

static void forget_what_is_old(tl_dlu *dlu) {
    for (size_t i = 0; i < dlu->buckets; i++)
        for (hold **at = &dlu->bucket[i]; *at;)
            if (!is_remembered(*at))
                free_hold(take_out(dlu, at));
            else
                at = &(*at)->next;
}

/* A table grows that is full of holds which live or are remembered. Without memory its chains get longer
 * instead. */
static void make_room(tl_dlu *dlu) {
    if (dlu->holds < dlu->buckets)
        return;
    forget_what_is_old(dlu);
    hold **bigger = dlu->holds <= dlu->buckets / 2 ? NULL
                                                   : calloc(2 * dlu->buckets, sizeof(hold *));
    if (!bigger)
        return;
    for (size_t i = 0; i < dlu->buckets; i++) {
        hold **end[2] = {&bigger[i], &bigger[i + dlu->buckets]}; /* they keep their order */
        for (hold *held = dlu->bucket[i]; held; held = held->next) {
            hold ***to = &end[held->hash % (2 * dlu->buckets) != i];
            **to = held;
            *to = &held->next;
        }
        *end[0] = *end[1] = NULL;
    }
    free(dlu->bucket);
    dlu->bucket = bigger;
    dlu->buckets *= 2;
}

/* ---- opening and closing ----------------------------------------------------------------------- */

static tl_dlu *open_table(tl_client *client, tl_error *err) {
    tl_dlu *dlu = calloc(1, sizeof *dlu);
    hold **bucket = calloc(BUCKETS_LEAST, sizeof(hold *));
    if (!dlu || !bucket || pthread_mutex_init(&dlu->mutex, NULL)) {
        free(dlu);
        free(bucket);
        (void)fail(err, TL_ENOMEM, "open", "locks", "out of memory");
        return NULL;
    }
    dlu->client = client;
    dlu->process = getpid();
    dlu->bucket = bucket;
    dlu->buckets = BUCKETS_LEAST;
    return dlu;
}

/* TL_TOKEN and an unset protocol are the same number, and neither may mean the other. In a fleet of
 * tokens, a stamp would block all clients for ever once its holder has crashed. In a fleet of
 * stamps, Java fails at a token. */
static const char no_tokens[] =
    "protocol: choose TL_BRIDGE (as tl_dlu_open), TL_TIMESTAMP or TL_AUTO; this drop-in does not "
    "use tokens: for those, use tl_client_open and tl_lock";

tl_dlu *tl_dlu_open_with(const tl_client_options *options, tl_error *err) {
    union { /* options of any version of the header */
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
    tl_dlu *dlu = open_table(client, err);
    if (!dlu)
        tl_client_close(client);
    return dlu;
}

tl_dlu *tl_dlu_open(const char *url, tl_error *err) {
    tl_client_options o = TL_CLIENT_OPTIONS(.url = url, .protocol = TL_BRIDGE);
    return tl_dlu_open_with(&o, err);
}

static bool is_here(const tl_dlu *dlu) {
    return dlu->process == getpid();
}

void tl_dlu_close(tl_dlu *dlu) {
    if (!dlu)
        return;
    int saved = errno;
    for (size_t i = 0; i < dlu->buckets; i++)
        while (dlu->bucket[i])
            free_hold(take_out(dlu, &dlu->bucket[i]));
    tl_client_close(dlu->client);
    if (is_here(dlu)) /* else it may be locked for ever */
        (void)pthread_mutex_destroy(&dlu->mutex);
    free(dlu->bucket);
    free(dlu);
    errno = saved;
}

/* ---- locking ----------------------------------------------------------------------------------- */

static hold *make_hold(tl_dlu *dlu, const char *key, tl_error *err) {
    const tl_lock_options options = TL_LOCK_OPTIONS(.manual_renew = true);
    size_t n = strlen(key);
    hold *held = calloc(1, sizeof *held + n + 1);
    if (!held) {
        (void)fail(err, TL_ENOMEM, "lock", key, "out of memory");
        return NULL;
    }
    memcpy(held->key, key, n + 1);
    held->hash = hash_of(key);
    held->thread = this_thread();
    held->lock = tl_lock_new(dlu->client, key, n, &options, err);
    if (held->lock)
        return held;
    free(held);
    return NULL;
}

static bool holds_already(tl_dlu *dlu, const char *key) {
    (void)pthread_mutex_lock(&dlu->mutex);
    const hold *held = *find(dlu, key, hash_of(key));
    bool holds = held && !is_over(held);
    (void)pthread_mutex_unlock(&dlu->mutex);
    return holds;
}

/* Stores the hold, before an expired one, which is remembered for as long as this one lasts. False:
 * another thread was faster and certainly holds the lock. */
static bool put_in(tl_dlu *dlu, hold *held) {
    (void)pthread_mutex_lock(&dlu->mutex);
    make_room(dlu);
    hold *old = *find(dlu, held->key, held->hash);
    bool free_for_us = !old || is_over(old);
    if (free_for_us) {
        int64_t now = now_ms(), lasts_ms = tl_lock_remaining_ms(held->lock);
        if (old && !old->replaced) {
            old->replaced = true;
            old->forget_ms = now + lasts_ms;
        }
        held->forget_ms = now + 2 * lasts_ms;
        held->next = dlu->bucket[held->hash % dlu->buckets];
        dlu->bucket[held->hash % dlu->buckets] = held;
        dlu->holds++;
    }
    (void)pthread_mutex_unlock(&dlu->mutex);
    return free_for_us;
}

static void forget(void *h) {
    free_hold(h);
}

bool tl_dlu_lock_wait(tl_dlu *dlu, const char *key, int64_t wait_ms, tl_error *err) {
    tl_err code;
    if (!is_here(dlu)) {
        (void)fail(err, TL_EINVALID, "lock", key, "the handle belongs to the parent process");
        return false;
    }
    if (wait_ms == 0 && holds_already(dlu, key)) {
        (void)fail(err, TL_EBUSY, "lock", key, "this handle holds it");
        return false;
    }
    hold *held = make_hold(dlu, key, err);
    if (!held)
        return false;
    pthread_cleanup_push(forget, held); /* the thread may be cancelled while it waits */
    code = tl_lock_acquire(held->lock, wait_ms, err);
    pthread_cleanup_pop(0);
    if (code == TL_OK) {
        if (put_in(dlu, held))
            return true;
        (void)tl_lock_release(held->lock, NULL);
        (void)fail(err, TL_EBUSY, "lock", key, "another thread holds it");
    }
    free_hold(held);
    return false;
}

bool tl_dlu_lock(tl_dlu *dlu, const char *key, tl_error *err) {
    return tl_dlu_lock_wait(dlu, key, 0, err);
}

/* ---- releasing --------------------------------------------------------------------------------- */

/* Takes out the latest hold of this thread, and the earlier ones, which it has left behind. */
static hold *take_mine(tl_dlu *dlu, const char *key) {
    hold *mine = NULL, **end = &mine;
    uint64_t hash = hash_of(key);
    for (hold **at = find(dlu, key, hash); *at; at = next_of(at, key, hash))
        if ((*at)->thread == this_thread()) {
            *end = take_out(dlu, at);
            end = &(*end)->next;
        } else {
            at = &(*at)->next;
        }
    return mine;
}

/* Takes out a hold of this thread if there is one, else any. A late release must not end the lock of
 * the successor: so the earliest hold that is remembered goes first, also of two of one thread, which may
 * lock for many as in a loop of events. */
static hold *take_any(tl_dlu *dlu, const char *key) {
    hold **best = NULL;
    int best_rank = -1;
    uint64_t hash = hash_of(key);
    for (hold **at = find(dlu, key, hash); *at; at = next_of(&(*at)->next, key, hash)) {
        bool remembered = is_remembered(*at);
        int rank = 2 * ((*at)->thread == this_thread()) + remembered;
        if (rank > best_rank || (rank == best_rank && remembered)) {
            best = at;
            best_rank = rank;
        }
    }
    return best ? take_out(dlu, best) : NULL;
}

static tl_err release(tl_dlu *dlu, const char *key, hold *take(tl_dlu *, const char *),
                      tl_error *err) {
    if (!is_here(dlu))
        return fail(err, TL_EINVALID, "release", key, "the handle belongs to the parent process");
    (void)pthread_mutex_lock(&dlu->mutex);
    hold *ours = take(dlu, key);
    bool held = *find(dlu, key, hash_of(key)) != NULL;
    (void)pthread_mutex_unlock(&dlu->mutex);
    if (!ours)
        return fail(err, TL_EINVALID, "release", key,
                    held ? "another thread has locked it" : "it is not held");
    bool over = is_over(ours);
    tl_err code = tl_lock_release(ours->lock, err);
    if (code == TL_OK && over) /* without scripts an expired lock isn't looked up */
        code = fail(err, TL_EEXPIRED, "release", key, "it had expired");
    for (hold *next; ours; ours = next) {
        next = ours->next;
        free_hold(ours);
    }
    return code;
}

tl_err tl_dlu_release(tl_dlu *dlu, const char *key, tl_error *err) {
    return release(dlu, key, take_mine, err);
}

tl_err tl_dlu_release_any(tl_dlu *dlu, const char *key, tl_error *err) {
    return release(dlu, key, take_any, err);
}

int64_t tl_dlu_remaining_ms(tl_dlu *dlu, const char *key) {
    if (!is_here(dlu))
        return 0;
    (void)pthread_mutex_lock(&dlu->mutex);
    const hold *held = *find(dlu, key, hash_of(key));
    int64_t ms = held && held->thread == this_thread() ? tl_lock_remaining_ms(held->lock) : 0;
    (void)pthread_mutex_unlock(&dlu->mutex);
    return ms;
}
