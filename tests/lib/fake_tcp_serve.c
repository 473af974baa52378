/*
 * The fake server's thread: one poll loop that accepts, reads requests, has them executed, and
 * writes the replies, or loses them as it was told to.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "fake_tcp_inside.h"

__attribute__((noreturn)) void fake_tcp__fail(const char *what) {
    fprintf(stderr, "fake_tcp: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t clock_us(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int64_t now_ms(void) {
    return clock_us(CLOCK_MONOTONIC) / 1000;
}

/* ---- names ----------------------------------------------------------------------------------- */

static bool same_name(tl_bytes a, const char *b, size_t n) {
    return a.n == n && strncasecmp(a.p, b, n) == 0;
}

static void count(fake_tcp *t, tl_bytes name) {
    size_t i = 0;
    t->total++;
    while (i < NAMES_MAX && t->names[i].name[0] &&
           !same_name(name, t->names[i].name, strlen(t->names[i].name))) {
        i++;
    }
    if (i < NAMES_MAX && name.n < NAME_SIZE) {
        memcpy(t->names[i].name, name.p, name.n);
        t->names[i].count++;
    }
    pthread_cond_broadcast(&t->counted);
}

uint64_t fake_tcp__counted(const fake_tcp *t, const char *name) {
    for (size_t i = 0; name && i < NAMES_MAX; i++) {
        if (strcasecmp(t->names[i].name, name) == 0) {
            return t->names[i].count;
        }
    }
    return name ? 0 : t->total;
}

static bool aimed_at(const fake_tcp *t, tl_bytes name) {
    const char *names = t->aim;
    while (names && *names) {
        size_t n = strcspn(names, " ");
        if (same_name(name, names, n)) {
            return true;
        }
        names += n + strspn(names + n, " ");
    }
    return !t->aim;
}

/* ---- replies --------------------------------------------------------------------------------- */

static delivery *append(client *c) {
    delivery *d = calloc(1, sizeof(*d));
    if (!d) {
        fake_tcp__fail("out of memory");
    }
    *(c->last ? &c->last->next : &c->first) = d;
    c->last = d;
    return d;
}

static void drop_first(client *c) {
    delivery *d = c->first;
    c->first = d->next;
    if (!c->first) {
        c->last = NULL;
    }
    fake_buffer_free(&d->text);
    free(d);
}

static void deliver(client *c, const tl_reply *reply, bool aimed) {
    fake_tcp *t = c->owner;
    if (aimed && t->swallow_replies > 0) {
        t->swallow_replies--;
        c->mute = true;
    }
    if (c->mute) {
        return;
    }
    delivery *d = append(c);
    fake_resp_write(&d->text, reply);
    d->due_ms = !aimed ? 0 : t->hold ? INT64_MAX : t->delay_ms ? now_ms() + t->delay_ms : 0;
    if (aimed && t->cutting) {
        t->cutting = false;
        d->text.n = d->text.n < t->cut_bytes ? d->text.n : t->cut_bytes;
        d->close_after = true;
    }
}

static void on_push(void *ctx, const tl_reply *reply) {
    deliver(ctx, reply, false);
}

/* Nothing is read from it any more, and nothing written. */
static bool is_over(const client *c) {
    return c->dead || fake_conn_killed(c->conn);
}

static void write_due(client *c) {
    int64_t now = now_ms();
    while (c->first && c->first->due_ms <= now && !is_over(c)) {
        delivery *d = c->first;
        ssize_t n = send(c->fd, d->text.p, d->text.n, MSG_NOSIGNAL);
        if (n < 0 && d->text.n) {
            c->dead = errno != EAGAIN && errno != EINTR;
            return;
        }
        fake_buffer_cut(&d->text, n > 0 ? (size_t)n : 0);
        if (d->text.n) {
            return;
        }
        c->dead = d->close_after;
        drop_first(c);
    }
}

/* ---- requests -------------------------------------------------------------------------------- */

void fake_tcp__set_clock(fake_tcp *t) {
    fake_redis_set_time(t->redis, clock_us(CLOCK_REALTIME) + t->offset_us);
    if (now_ms() >= t->next_cycle_ms) {
        t->next_cycle_ms = now_ms() + CYCLE_MS;
        fake_redis_expire_cycle(t->redis);
    }
}

static void execute(client *c, const tl_bytes *argv, size_t argc) {
    fake_tcp *t = c->owner;
    count(t, argv[0]);
    bool aimed = aimed_at(t, argv[0]);
    if (aimed && t->swallow_requests > 0) {
        t->swallow_requests--;
        c->deaf = c->mute = true;
    }
    if (c->deaf) {
        return;
    }
    fake_tcp__set_clock(t);
    const tl_reply *reply = fake_conn_command(c->conn, argv, argc);
    if (reply) {
        deliver(c, reply, aimed);
    }
    if (fake_conn_closing(c->conn)) {
        append(c)->close_after = true;
    }
}

static void protocol_error(client *c) {
    tl_reply reply = {.type = TL_REPLY_ERROR, .text = TL_LITERAL("ERR Protocol error")};
    deliver(c, &reply, false);
    append(c)->close_after = true;
    c->deaf = true;
    c->in.n = 0;
}

static void execute_all(client *c) {
    size_t argc, used, at = 0;
    fake_resp_state state = FAKE_RESP_READY;
    while (state == FAKE_RESP_READY && at < c->in.n) {
        state = fake_resp_read(tl__bytes(c->in.p + at, c->in.n - at), c->owner->argv, &argc, &used);
        if (state == FAKE_RESP_READY) {
            at += used;
            if (argc) {
                execute(c, c->owner->argv, argc);
            }
        }
    }
    fake_buffer_cut(&c->in, at);
    if (state == FAKE_RESP_BAD) {
        protocol_error(c);
    }
}

static void read_requests(client *c) {
    char room[READ_SIZE];
    ssize_t n = recv(c->fd, room, sizeof(room), 0);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        c->dead = true;
    } else if (n > 0) {
        fake_buffer_add(&c->in, room, (size_t)n);
        execute_all(c);
    }
}

/* ---- connections ----------------------------------------------------------------------------- */

void fake_tcp__close_client(fake_tcp *t, size_t i) {
    client *c = t->clients[i];
    while (c->first) {
        drop_first(c);
    }
    fake_conn_close(c->conn);
    fake_buffer_free(&c->in);
    close(c->fd);
    free(c);
    t->clients[i] = t->clients[--t->client_count];
}

static void close_dead(fake_tcp *t) {
    for (size_t i = t->client_count; i-- > 0;) {
        if (is_over(t->clients[i])) {
            fake_tcp__close_client(t, i);
        }
    }
}

static void tell_address(const client *c) {
    struct sockaddr_in peer;
    socklen_t size = sizeof(peer);
    char text[120];
    if (c->owner->path[0]) {
        snprintf(text, sizeof(text), "unix:%s", c->owner->path);
    } else if (getpeername(c->fd, (struct sockaddr *)&peer, &size) == 0) {
        snprintf(text, sizeof(text), "127.0.0.1:%u", (unsigned)ntohs(peer.sin_port));
    } else {
        return; /* it has gone already */
    }
    fake_conn_set_address(c->conn, text);
}

static void accept_client(fake_tcp *t) {
    int fd = accept4(t->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 || t->client_count == CLIENTS_MAX) {
        if (fd >= 0) {
            close(fd);
        }
        return;
    }
    client *c = calloc(1, sizeof(*c));
    if (!c) {
        fake_tcp__fail("out of memory");
    }
    c->fd = fd;
    c->owner = t;
    c->conn = fake_redis_connect(t->redis, &(fake_calls){.push = on_push}, c);
    tell_address(c);
    t->clients[t->client_count++] = c;
    t->accepted++;
}

void fake_tcp__open_door(fake_tcp *t) {
    int one = 1;
    t->listener = socket(t->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (t->listener < 0) {
        fake_tcp__fail("socket");
    }
    setsockopt(t->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (t->path[0]) {
        unlink(t->path);
    }
    if (bind(t->listener, (struct sockaddr *)&t->address, t->address_size) != 0 ||
        listen(t->listener, 512) != 0) {
        fake_tcp__fail("listen");
    }
}

void fake_tcp__close_door(fake_tcp *t) {
    if (t->listener >= 0) {
        shutdown(t->listener, SHUT_RDWR); /* it would stay open while the loop polls it */
        close(t->listener);
        t->listener = -1;
    }
}

/* ---- the loop -------------------------------------------------------------------------------- */

static int wait_ms(const fake_tcp *t) {
    int64_t now = now_ms(), until = now + CYCLE_MS;
    for (size_t i = 0; i < t->client_count; i++) {
        const delivery *d = t->clients[i]->first;
        until = d && d->due_ms < until ? d->due_ms : until;
    }
    return until > now ? (int)(until - now) : 1;
}

static size_t watched(const fake_tcp *t, struct pollfd *fds) {
    fds[0] = (struct pollfd){.fd = t->wake, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = t->door == FAKE_TCP_ACCEPT && !t->freeze ? t->listener : -1,
                             .events = POLLIN};
    for (size_t i = 0; i < t->client_count; i++) {
        const client *c = t->clients[i];
        bool more = c->first && c->first->due_ms <= now_ms();
        fds[2 + i] = (struct pollfd){.fd = t->freeze ? -1 : c->fd,
                                     .events = (short)(POLLIN | (more ? POLLOUT : 0))};
    }
    return 2 + t->client_count;
}

static void handle(fake_tcp *t, const struct pollfd *fds, size_t n) {
    uint64_t woken;
    if (fds[0].revents && read(t->wake, &woken, sizeof(woken)) < 0 && errno != EAGAIN) {
        fake_tcp__fail("eventfd");
    }
    for (size_t i = 0; i + 2 < n && !t->freeze; i++) {
        if (fds[2 + i].revents && !is_over(t->clients[i])) {
            read_requests(t->clients[i]);
        }
    }
    if (fds[1].revents && t->listener >= 0) {
        accept_client(t);
    }
    for (size_t i = 0; i < t->client_count && !t->freeze; i++) {
        write_due(t->clients[i]);
    }
    close_dead(t);
}

void *fake_tcp__serve(void *ctx) {
    fake_tcp *t = ctx;
    static _Thread_local struct pollfd fds[CLIENTS_MAX + 2];
    pthread_mutex_lock(&t->mutex);
    while (!t->stop) {
        size_t n = watched(t, fds);
        int limit = wait_ms(t);
        pthread_mutex_unlock(&t->mutex);
        int ready = poll(fds, (nfds_t)n, limit);
        pthread_mutex_lock(&t->mutex);
        if (ready < 0 && errno != EINTR) {
            fake_tcp__fail("poll");
        }
        /* A knob may have closed connections meanwhile: then look again. */
        if (n == 2 + t->client_count && ready >= 0) {
            handle(t, fds, n);
        }
    }
    pthread_mutex_unlock(&t->mutex);
    return NULL;
}
