/*
 * One thread, one poll. Everything is under one mutex, which is let go for polling only.
 */
#include "proxy.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINKS_MAX 128
#define CHUNK 16384

/* A connection: fd[way] is where the bytes of that way come from. */
typedef struct {
    int fd[2];
    bool struck[2];
    size_t left[2];     /* of a struck way: bytes that still get through */
    unsigned char from; /* the last number of the address that it was made from */
    proxy_fault fault;
} link_pair;

struct proxy {
    pthread_t thread;
    pthread_mutex_t mutex;
    int listener, wake, server_port, port;
    char url[64];
    bool ending, stopped;
    bool apart[256]; /* from whom nothing gets through */
    bool changed;    /* what was polled for may be out of date */
    link_pair links[LINKS_MAX];
    int count;
    proxy_way way;
    size_t after;
    proxy_fault fault;
    int connections; /* still to be struck */
    int struck;
    size_t passed[2];
};

static void die(const char *what) {
    fprintf(stderr, "proxy: %s: %s\n", what, strerror(errno));
    exit(1);
}

static struct sockaddr_in local(int port) {
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return in;
}

static void wake(proxy *p) {
    const uint64_t one = 1;
    p->changed = true;
    (void)!write(p->wake, &one, sizeof one);
}

/* ---- connections ------------------------------------------------------------------------------- */

static void close_fd(int fd, bool reset) {
    const struct linger now = {.l_onoff = 1, .l_linger = 0};
    if (reset)
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    (void)close(fd);
}

static void close_link(proxy *p, int i, bool reset) {
    for (int way = 0; way < 2; way++)
        close_fd(p->links[i].fd[way], reset);
    p->links[i] = p->links[--p->count];
}

static void accept_one(proxy *p) {
    const struct sockaddr_in in = local(p->server_port);
    const struct timeval limit = {.tv_sec = 5};
    const int on = 1;
    struct sockaddr_in peer = {0};
    socklen_t size = sizeof peer;
    int near = accept4(p->listener, (struct sockaddr *)&peer, &size, SOCK_CLOEXEC);
    if (near < 0)
        return;
    int far = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (far < 0 || p->count == LINKS_MAX ||
        connect(far, (const struct sockaddr *)&in, sizeof in) != 0) {
        close_fd(near, true);
        if (far >= 0)
            close_fd(far, false);
        return;
    }
    for (int i = 0; i < 2; i++) {
        (void)setsockopt(i ? far : near, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        (void)setsockopt(i ? far : near, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    }
    p->links[p->count++] = (link_pair){.fd = {near, far},
                                       .from = (unsigned char)ntohl(peer.sin_addr.s_addr)};
}

/* ---- bytes ------------------------------------------------------------------------------------- */

/* How many of n bytes get through. */
static size_t let_through(proxy *p, link_pair *l, proxy_way way, size_t n) {
    if (!l->struck[way] && p->connections > 0 && p->way == way) {
        p->connections--;
        l->struck[way] = true;
        l->left[way] = p->after;
        l->fault = p->fault;
    }
    if (!l->struck[way])
        return n;
    size_t through = n < l->left[way] ? n : l->left[way];
    if (through < n && l->left[way] != SIZE_MAX) {
        p->struck++;
        l->left[way] = SIZE_MAX; /* counted */
        return through;
    }
    if (l->left[way] == SIZE_MAX)
        return 0;
    l->left[way] -= through;
    return through;
}

/* Who can't be written to any more may have said why before: that still gets through. */
static void forward_rest(proxy *p, link_pair *l, proxy_way way) {
    char chunk[CHUNK];
    ssize_t n, sent = 0;
    while (sent >= 0 && (n = recv(l->fd[way], chunk, sizeof chunk, MSG_DONTWAIT)) > 0) {
        size_t through = let_through(p, l, way, (size_t)n);
        sent = send(l->fd[!way], chunk, through, MSG_NOSIGNAL);
        p->passed[way] += through;
        if (through < (size_t)n)
            return;
    }
}

/* false: the connection is over. */
static bool forward(proxy *p, link_pair *l, proxy_way way, bool *ret_reset) {
    char chunk[CHUNK];
    ssize_t n = recv(l->fd[way], chunk, sizeof chunk, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    *ret_reset = n < 0;
    if (n <= 0)
        return false;
    size_t through = let_through(p, l, way, (size_t)n);
    for (size_t done = 0; done < through;) {
        ssize_t sent = send(l->fd[!way], chunk + done, through - done, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR) {
            forward_rest(p, l, (proxy_way)!way);
            return false;
        }
        done += sent > 0 ? (size_t)sent : 0;
    }
    p->passed[way] += through;
    *ret_reset = through < (size_t)n && l->fault == PROXY_RESET;
    return !*ret_reset;
}

static void serve(proxy *p, const struct pollfd *fds, int links) {
    for (int i = links - 1; i >= 0; i--) { /* closing moves the last one, which has been served */
        for (int way = 0; way < 2; way++) {
            bool reset = false;
            if (fds[2 * i + way].revents && !forward(p, &p->links[i], (proxy_way)way, &reset)) {
                close_link(p, i, reset);
                break;
            }
        }
    }
}

static void *run(void *ctx) {
    proxy *p = ctx;
    struct pollfd fds[2 + 2 * LINKS_MAX];
    uint64_t woken;
    (void)pthread_mutex_lock(&p->mutex);
    while (!p->ending) {
        nfds_t links = p->stopped ? 0 : (nfds_t)p->count;
        fds[0] = (struct pollfd){.fd = p->wake, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = p->stopped ? -1 : p->listener, .events = POLLIN};
        for (nfds_t i = 0; i < links; i++)
            for (nfds_t way = 0; way < 2; way++)
                fds[2 + 2 * i + way] = (struct pollfd){
                    .fd = p->apart[p->links[i].from] ? -1 : p->links[i].fd[way], .events = POLLIN};
        (void)pthread_mutex_unlock(&p->mutex);
        (void)poll(fds, 2 + 2 * links, -1);
        (void)pthread_mutex_lock(&p->mutex);
        if (p->changed) {
            p->changed = false;
            (void)!read(p->wake, &woken, sizeof woken);
            continue;
        }
        serve(p, fds + 2, (int)links);
        if (fds[1].revents)
            accept_one(p);
    }
    (void)pthread_mutex_unlock(&p->mutex);
    return NULL;
}

/* ---- life -------------------------------------------------------------------------------------- */

proxy *proxy_start(int port) {
    proxy *p = calloc(1, sizeof *p);
    struct sockaddr_in in = local(0);
    socklen_t size = sizeof in;
    if (!p)
        die("start");
    p->server_port = port;
    p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    p->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (p->listener < 0 || p->wake < 0 ||
        bind(p->listener, (const struct sockaddr *)&in, sizeof in) != 0 ||
        listen(p->listener, LINKS_MAX) != 0 ||
        getsockname(p->listener, (struct sockaddr *)&in, &size) != 0)
        die("listen");
    p->port = ntohs(in.sin_port);
    (void)snprintf(p->url, sizeof p->url, "redis://127.0.0.1:%d", p->port);
    (void)pthread_mutex_init(&p->mutex, NULL);
    if (pthread_create(&p->thread, NULL, run, p) != 0)
        die("thread");
    return p;
}

void proxy_free(proxy *p) {
    if (!p)
        return;
    (void)pthread_mutex_lock(&p->mutex);
    p->ending = true;
    wake(p);
    (void)pthread_mutex_unlock(&p->mutex);
    (void)pthread_join(p->thread, NULL);
    while (p->count > 0)
        close_link(p, 0, false);
    (void)close(p->listener);
    (void)close(p->wake);
    (void)pthread_mutex_destroy(&p->mutex);
    free(p);
}

int proxy_port(const proxy *p) {
    return p->port;
}

const char *proxy_url(const proxy *p) {
    return p->url;
}

/* ---- knobs ------------------------------------------------------------------------------------- */

void proxy_lead_to(proxy *p, int port) {
    (void)pthread_mutex_lock(&p->mutex);
    p->server_port = port;
    (void)pthread_mutex_unlock(&p->mutex);
}

void proxy_break(proxy *p, proxy_way way, size_t after, proxy_fault fault, int connections) {
    (void)pthread_mutex_lock(&p->mutex);
    p->way = way;
    p->after = after;
    p->fault = fault;
    p->connections = connections;
    (void)pthread_mutex_unlock(&p->mutex);
}

void proxy_stop(proxy *p) {
    (void)pthread_mutex_lock(&p->mutex);
    p->stopped = true;
    wake(p);
    (void)pthread_mutex_unlock(&p->mutex);
}

void proxy_set_apart(proxy *p, unsigned from, bool apart) {
    (void)pthread_mutex_lock(&p->mutex);
    p->apart[from] = apart;
    wake(p);
    (void)pthread_mutex_unlock(&p->mutex);
}

void proxy_heal(proxy *p) {
    (void)pthread_mutex_lock(&p->mutex);
    p->stopped = false;
    p->connections = 0;
    wake(p);
    (void)pthread_mutex_unlock(&p->mutex);
}

void proxy_reset(proxy *p) {
    (void)pthread_mutex_lock(&p->mutex);
    while (p->count > 0)
        close_link(p, 0, true);
    wake(p);
    (void)pthread_mutex_unlock(&p->mutex);
}

int proxy_struck(proxy *p) {
    (void)pthread_mutex_lock(&p->mutex);
    int n = p->struck;
    (void)pthread_mutex_unlock(&p->mutex);
    return n;
}

size_t proxy_passed(proxy *p, proxy_way way) {
    (void)pthread_mutex_lock(&p->mutex);
    size_t n = p->passed[way];
    (void)pthread_mutex_unlock(&p->mutex);
    return n;
}
