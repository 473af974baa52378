/*
 * The lock is held for no time at all: what a turn takes is its way from one to the next.
 */
#include "etcd_crowd.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

typedef struct {
    struct etcd_crowd *all;
    tl_client *client;
    tl_lock *lock;
    pthread_t thread;
} one;

struct etcd_crowd {
    atomic_bool over;
    atomic_ullong turns;
    int n;
    one of[];
};

static void *loop(void *ctx) {
    one *o = ctx;
    tl_error err;
    while (!atomic_load(&o->all->over)) {
        if (tl_lock_acquire(o->lock, TL_FOREVER, &err))
            die("%s", err.message);
        atomic_fetch_add(&o->all->turns, 1);
        if (tl_lock_release(o->lock, &err))
            die("%s", err.message);
    }
    return NULL;
}

etcd_crowd *etcd_crowd_open(const char *url, const char *key, int n) {
    const tl_client_options options = TL_CLIENT_OPTIONS(.url = url);
    tl_error err;
    etcd_crowd *c = calloc(1, sizeof *c + (size_t)n * sizeof *c->of);
    if (!c)
        die("out of memory");
    c->n = n;
    for (int i = 0; i < n; i++) {
        one *o = &c->of[i];
        o->all = c;
        if (tl_client_open(&options, &o->client, &err) || tl_client_ping(o->client, &err) ||
            !(o->lock = tl_lock_new(o->client, key, strlen(key), NULL, &err)))
            die("%s", err.message);
    }
    return c;
}

void etcd_crowd_close(etcd_crowd *c) {
    for (int i = 0; c && i < c->n; i++) {
        tl_lock_free(c->of[i].lock);
        tl_client_close(c->of[i].client);
    }
    free(c);
}

void etcd_crowd_begin(etcd_crowd *c) {
    atomic_store(&c->over, false);
    for (int i = 0; i < c->n; i++)
        if (pthread_create(&c->of[i].thread, NULL, loop, &c->of[i]))
            die("no thread");
}

void etcd_crowd_end(etcd_crowd *c) {
    atomic_store(&c->over, true);
    for (int i = 0; i < c->n; i++)
        (void)pthread_join(c->of[i].thread, NULL);
}

uint64_t etcd_crowd_turns(const etcd_crowd *c) {
    return atomic_load(&c->turns);
}
