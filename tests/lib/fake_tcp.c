/*
 * The fake server behind a real socket: its life, and the knobs that a test turns from outside.
 */
#include "fake_tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "fake_tcp_inside.h"
#include "ports.h"

/* ---- life ------------------------------------------------------------------------------------ */

static void set_address(fake_tcp *t, const char *unix_path) {
    if (unix_path) {
        struct sockaddr_un *un = (struct sockaddr_un *)&t->address;
        un->sun_family = AF_UNIX;
        if (strlen(unix_path) >= sizeof(t->path)) {
            errno = ENAMETOOLONG;
            fake_tcp__fail(unix_path);
        }
        memcpy(t->path, unix_path, strlen(unix_path) + 1);
        memcpy(un->sun_path, unix_path, strlen(unix_path) + 1);
        t->address_size = sizeof(*un);
    } else {
        struct sockaddr_in *in = (struct sockaddr_in *)&t->address;
        in->sin_family = AF_INET;
        in->sin_port = htons((uint16_t)ports_claim());
        in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        t->address_size = sizeof(*in);
    }
}

fake_tcp *fake_tcp_start(const char *unix_path) {
    fake_tcp *t = calloc(1, sizeof(*t));
    if (!t) {
        fake_tcp__fail("out of memory");
    }
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&t->counted, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&t->mutex, NULL);
    t->redis = fake_redis_new();
    t->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    set_address(t, unix_path);
    fake_tcp__open_door(t);
    if (unix_path) {
        snprintf(t->url, sizeof(t->url), "unix:%s", unix_path);
    } else {
        snprintf(t->url, sizeof(t->url), "redis://127.0.0.1:%d", fake_tcp_port(t));
    }
    if (t->wake < 0 || pthread_create(&t->thread, NULL, fake_tcp__serve, t) != 0) {
        fake_tcp__fail("start");
    }
    return t;
}

static void nudge(fake_tcp *t) {
    uint64_t one = 1;
    if (write(t->wake, &one, sizeof(one)) < 0 && errno != EAGAIN) {
        fake_tcp__fail("eventfd");
    }
}

void fake_tcp_free(fake_tcp *t) {
    if (!t) {
        return;
    }
    pthread_mutex_lock(&t->mutex);
    t->stop = true;
    nudge(t);
    pthread_mutex_unlock(&t->mutex);
    pthread_join(t->thread, NULL);
    while (t->client_count) {
        fake_tcp__close_client(t, 0);
    }
    fake_tcp__close_door(t);
    if (t->path[0]) {
        unlink(t->path);
    }
    close(t->wake);
    fake_redis_free(t->redis);
    free(t->aim);
    pthread_cond_destroy(&t->counted);
    pthread_mutex_destroy(&t->mutex);
    free(t);
}

int fake_tcp_port(const fake_tcp *t) {
    return t->path[0] ? 0 : ntohs(((const struct sockaddr_in *)&t->address)->sin_port);
}

const char *fake_tcp_url(const fake_tcp *t) {
    return t->url;
}

fake_redis *fake_tcp_lock(fake_tcp *t) {
    pthread_mutex_lock(&t->mutex);
    fake_tcp__set_clock(t);
    return t->redis;
}

void fake_tcp_unlock(fake_tcp *t) {
    nudge(t);
    pthread_mutex_unlock(&t->mutex);
}

/* ---- counting -------------------------------------------------------------------------------- */

uint64_t fake_tcp_count(fake_tcp *t, const char *name) {
    pthread_mutex_lock(&t->mutex);
    uint64_t n = fake_tcp__counted(t, name);
    pthread_mutex_unlock(&t->mutex);
    return n;
}

bool fake_tcp_wait_count(fake_tcp *t, const char *name, uint64_t n, int64_t limit_ms) {
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += limit_ms / 1000;
    end.tv_nsec += limit_ms % 1000 * 1000000;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    pthread_mutex_lock(&t->mutex);
    int status = 0;
    while (fake_tcp__counted(t, name) < n && status == 0) {
        status = pthread_cond_timedwait(&t->counted, &t->mutex, &end);
    }
    bool reached = fake_tcp__counted(t, name) >= n;
    pthread_mutex_unlock(&t->mutex);
    return reached;
}

uint64_t fake_tcp_accepted(fake_tcp *t) {
    pthread_mutex_lock(&t->mutex);
    uint64_t n = t->accepted;
    pthread_mutex_unlock(&t->mutex);
    return n;
}

uint64_t fake_tcp_connections(fake_tcp *t) {
    pthread_mutex_lock(&t->mutex);
    uint64_t n = t->client_count;
    pthread_mutex_unlock(&t->mutex);
    return n;
}

/* ---- knobs ----------------------------------------------------------------------------------- */

#define KNOB(t, ...)                                                                               \
    do {                                                                                           \
        pthread_mutex_lock(&(t)->mutex);                                                           \
        __VA_ARGS__;                                                                               \
        nudge(t);                                                                                  \
        pthread_mutex_unlock(&(t)->mutex);                                                         \
    } while (0)

void fake_tcp_set_offset(fake_tcp *t, int64_t us) {
    KNOB(t, t->offset_us = us);
}

void fake_tcp_aim(fake_tcp *t, const char *names) {
    KNOB(t, free(t->aim); t->aim = names ? strdup(names) : NULL);
}

void fake_tcp_swallow_replies(fake_tcp *t, int n) {
    KNOB(t, t->swallow_replies = n);
}

void fake_tcp_swallow_requests(fake_tcp *t, int n) {
    KNOB(t, t->swallow_requests = n);
}

void fake_tcp_cut_reply(fake_tcp *t, size_t bytes) {
    KNOB(t, t->cutting = true; t->cut_bytes = bytes);
}

void fake_tcp_delay(fake_tcp *t, int64_t ms) {
    KNOB(t, t->delay_ms = ms);
}

static void let_go(fake_tcp *t) {
    for (size_t i = 0; i < t->client_count; i++) {
        for (delivery *d = t->clients[i]->first; d; d = d->next) {
            d->due_ms = 0;
        }
    }
}

static void set_hold(fake_tcp *t, bool hold) {
    if (t->hold && !hold) {
        let_go(t);
    }
    t->hold = hold;
}

void fake_tcp_hold(fake_tcp *t, bool hold) {
    KNOB(t, set_hold(t, hold));
}

void fake_tcp_freeze(fake_tcp *t, bool freeze) {
    KNOB(t, t->freeze = freeze);
}

static void set_door(fake_tcp *t, fake_tcp_door door) {
    t->door = door;
    if (door == FAKE_TCP_REFUSE) {
        fake_tcp__close_door(t);
    } else if (t->listener < 0) {
        fake_tcp__open_door(t);
    }
}

void fake_tcp_set_door(fake_tcp *t, fake_tcp_door door) {
    KNOB(t, set_door(t, door));
}

static void close_all(fake_tcp *t, bool silent_only) {
    for (size_t i = t->client_count; i-- > 0;) {
        if (!silent_only || t->clients[i]->mute) {
            fake_tcp__close_client(t, i);
        }
    }
}

void fake_tcp_disconnect(fake_tcp *t) {
    KNOB(t, close_all(t, false));
}

void fake_tcp_heal(fake_tcp *t) {
    KNOB(t, free(t->aim); t->aim = NULL; t->swallow_replies = t->swallow_requests = 0;
         t->cutting = t->freeze = false; t->delay_ms = 0; set_hold(t, false);
         set_door(t, FAKE_TCP_ACCEPT); close_all(t, true));
}
