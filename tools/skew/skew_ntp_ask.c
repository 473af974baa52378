/*
 * The sockets behind --ntp: one loop over all servers. A public server is asked three times, two seconds
 * apart, as daemons do when they start: faster ones are told off. A server that has told us off, or that
 * says that it is no evidence, is asked no more.
 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "skew/skew_sample.h"
#include "skew/skew_ntp_ask.h"
#include "transport/resolve.h"

#define ASKS 3
#define PACE_MS 2000
#define NEAR_PACE_MS 20 /* on this machine, where nobody needs sparing */
#define LIMIT_MS 5000
#define PACKET_SIZE 1024 /* extensions and signatures are read, and left alone */
#define PACKETS_AT_ONCE 16

typedef struct {
    uint64_t random;
    skew_reading sent;
    bool open; /* it was sent, and its answer is not there */
} question;

typedef struct {
    ntp_server *server;
    ntp_source *source; /* the server's */
    tl_resolve *resolve;
    tl_address address[TL_ADDRESS_MAX];
    size_t addresses, at;
    int fd;
    question asked[ASKS];
    int asks, answered;
    int64_t pace_ms;
    tl_mono next;
    bool done;
} asking;

/* ---- the places ---------------------------------------------------------------------------------- */

static bool is_new(const ntp_servers *s, const char *name) {
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->server[i].name, name) == 0)
            return false;
    return true;
}

int ntp_servers_begin(ntp_servers *s, const opt_texts *places) {
    *s = (ntp_servers){.server = calloc((size_t)places->count + 1, sizeof *s->server)};
    if (!s->server)
        return fail(STATUS_INTERNAL, "out of memory");
    for (int i = 0; i < places->count; i++) {
        ntp_server *x = &s->server[s->count];
        if (!ntp_place(places->text[i], x->host, &x->port, x->name)) {
            ntp_servers_end(s);
            return fail(STATUS_USAGE,
                        "skew: --ntp %.60s: HOST, HOST:PORT or [ADDRESS]:PORT is needed",
                        places->text[i]);
        }
        s->count += is_new(s, x->name);
    }
    return 0;
}

void ntp_servers_end(ntp_servers *s) {
    free(s->server);
    *s = (ntp_servers){.server = NULL};
}

/* ---- one server ---------------------------------------------------------------------------------- */

static void give_up(asking *a, const char *why) {
    a->done = true;
    if (a->source->answers == 0 && !a->source->over) {
        a->source->status = "silent";
        (void)snprintf(a->source->why, sizeof a->source->why, "%s", why);
    }
}

static bool is_here(const tl_address *a) {
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)&a->at;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)&a->at;
    return a->at.ss_family == AF_INET    ? ntohl(v4->sin_addr.s_addr) >> 24 == 127
           : a->at.ss_family == AF_INET6 ? IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr)
                                         : false;
}

/* A socket that hears this address alone. */
static bool turn_to(asking *a, const tl_address *to) {
    if (a->fd >= 0)
        close(a->fd);
    a->fd = socket(to->at.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    a->server->near = is_here(to);
    a->pace_ms = a->server->near ? NEAR_PACE_MS : PACE_MS;
    return a->fd >= 0 && connect(a->fd, (const struct sockaddr *)&to->at, to->size) == 0;
}

/* As long as nothing was heard, each question goes to the next address that can be reached. */
static bool find_way(asking *a) {
    if (a->answered > 0 || (a->asks > 0 && a->addresses == 1))
        return true;
    for (size_t tried = 0; tried < a->addresses; tried++)
        if (turn_to(a, &a->address[a->at++ % a->addresses]))
            return true;
    return false;
}

static void ask(asking *a) {
    question *q = &a->asked[a->asks];
    uint8_t packet[NTP_SIZE];

    if (!find_way(a)) {
        give_up(a, strerror(errno));
        return;
    }
    a->asks++;
    if (getrandom(&q->random, sizeof q->random, 0) != (ssize_t)sizeof q->random) {
        give_up(a, "no random numbers are to be had");
        return;
    }
    ntp_ask(packet, q->random);
    q->sent = skew_reading_now();
    q->open = send(a->fd, packet, sizeof packet, MSG_NOSIGNAL) == (ssize_t)sizeof packet;
    a->next = tl__mono_add_ms(tl__mono_now(), PACE_MS);
    if (!q->open && errno != EAGAIN && errno != ECONNREFUSED)
        give_up(a, strerror(errno));
}

/* Something came: one of this machine need not be waited for. */
static void hasten(asking *a) {
    a->next = tl__mono_min(a->next, tl__mono_add_ms(tl__mono_now(), a->pace_ms));
}

static void take(asking *a, const uint8_t *packet, size_t n, const skew_reading *received,
                 int32_t rate_ppm) {
    for (int i = a->asks - 1; i >= 0; i--) {
        question *q = &a->asked[i];
        if (!q->open || !ntp_learn(a->source, packet, n, q->random, &q->sent, received, rate_ppm))
            continue;
        q->open = false;
        a->answered++;
        hasten(a);
        a->done = a->source->over || a->answered == ASKS;
        return;
    }
}

/* Nobody listens there: after the last question that is final. */
static void refused(asking *a, int why) {
    const char *text = why == ECONNREFUSED ? "nobody answers there (connection refused)"
                                           : strerror(why);
    hasten(a);
    if (a->asks == ASKS)
        give_up(a, text);
    else if (a->source->answers == 0)
        (void)snprintf(a->source->why, sizeof a->source->why, "%s", text);
}

static void receive(asking *a, int32_t rate_ppm) {
    uint8_t packet[PACKET_SIZE];

    for (int i = 0; i < PACKETS_AT_ONCE && !a->done; i++) {
        ssize_t n = recv(a->fd, packet, sizeof packet, 0);
        skew_reading received = skew_reading_now();
        if (n >= 0)
            take(a, packet, (size_t)n, &received, rate_ppm);
        else if (errno == EINTR)
            continue;
        else if (errno == EAGAIN)
            return;
        else
            refused(a, errno);
    }
}

static void take_addresses(asking *a) {
    const char *problem = NULL;
    a->addresses = tl__resolve_get(a->resolve, a->address, &problem);
    tl__resolve_free(a->resolve);
    a->resolve = NULL;
    if (a->addresses == 0)
        give_up(a, problem);
}

static void begin(asking *a, ntp_server *server, tl_mono now) {
    *a = (asking){.server = server, .source = &server->source, .fd = -1, .next = now};
    server->source = (ntp_source){.answers = 0};
    server->asked = true;
    server->asked_at = now;
    if (tl__resolve_numeric(server->host, server->port, &a->address[0]))
        a->addresses = 1;
    else if (!(a->resolve = tl__resolve_start(NULL, server->host, server->port)))
        give_up(a, strerror(errno));
}

static void end(asking *a) {
    char heard[SKEW_DETAIL_SIZE];

    if (!a->done && a->source->answers == 0 && !a->source->over) {
        (void)snprintf(heard, sizeof heard, "%s", a->source->why);
        a->source->status = "silent";
        (void)snprintf(a->source->why, sizeof a->source->why, "%s in %d s%s%.100s",
                       a->resolve ? "its name was not found" : "no answer", LIMIT_MS / 1000,
                       heard[0] ? ": " : "", heard);
    }
    tl__resolve_free(a->resolve);
    if (a->fd >= 0)
        close(a->fd);
}

/* ---- all of them --------------------------------------------------------------------------------- */

/* What is due of one; returns when more will be. */
static tl_mono drive(asking *a, tl_mono now) {
    if (!a->done && a->resolve && tl__resolve_done(a->resolve))
        take_addresses(a);
    if (a->done || a->resolve)
        return TL_NEVER;
    if (a->asks < ASKS && !tl__mono_before(now, a->next))
        ask(a);
    return a->done || a->asks == ASKS ? TL_NEVER : a->next;
}

/* False: they are all done. */
static bool wait_for_any(asking *a, int count, tl_mono until) {
    struct pollfd p[OPT_TEXTS_MAX];
    bool any = false;

    for (int i = 0; i < count; i++) {
        int fd = a[i].resolve ? tl__resolve_fd(a[i].resolve) : a[i].fd;
        p[i] = (struct pollfd){.fd = a[i].done ? -1 : fd, .events = POLLIN};
        any = any || !a[i].done;
    }
    int64_t ms = tl__ms_until(tl__mono_now(), until);
    if (any)
        (void)poll(p, (nfds_t)count, ms < LIMIT_MS ? (int)ms + 1 : LIMIT_MS);
    return any;
}

static void ask_all(asking *a, int count, int32_t rate_ppm) {
    tl_mono limit = tl__mono_add_ms(tl__mono_now(), LIMIT_MS), now, until;

    do {
        now = tl__mono_now();
        until = limit;
        for (int i = 0; i < count; i++) {
            if (!a[i].done && a[i].fd >= 0)
                receive(&a[i], rate_ppm);
            until = tl__mono_min(until, drive(&a[i], now));
        }
    } while (tl__mono_before(now, limit) && wait_for_any(a, count, until));
}

void ntp_servers_ask(ntp_servers *s, int32_t rate_ppm) {
    asking *a = calloc((size_t)s->count + 1, sizeof *a);
    skew_reading now = skew_reading_now();
    int n = 0;

    for (int i = 0; i < s->count; i++) {
        ntp_server *x = &s->server[i];
        if (x->asked && !ntp_due(&x->source, x->asked_at, x->near, &now))
            continue;
        if (a)
            begin(&a[n++], x, now.after);
        else
            x->source = (ntp_source){.status = "unknown", .why = "out of memory"};
    }
    if (n > 0)
        ask_all(a, n, rate_ppm);
    for (int i = 0; i < n; i++)
        end(&a[i]);
    free(a);
}
