/*
 * The sockets of --ntp: one loop over all servers. A public server gets three requests, two seconds
 * apart, as NTP daemons send when they start: servers refuse faster clients. A server that refused,
 * or that reports itself unsynchronised, gets no further request.
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
#define NEAR_PACE_MS 20 /* ms; on this machine, where load is no concern */
#define LIMIT_MS 5000
#define PACKET_SIZE 1024 /* bytes; extensions and signatures are received and ignored */
#define PACKETS_AT_ONCE 16

typedef struct {
    uint64_t random;
    skew_reading sent;
    bool open; /* it was sent, and has no reply yet */
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

/* ---- the servers given ---------------------------------------------------------------------- */

static bool is_new(const ntp_servers *servers, const char *name) {
    for (int i = 0; i < servers->count; i++)
        if (strcmp(servers->server[i].name, name) == 0)
            return false;
    return true;
}

int ntp_servers_begin(ntp_servers *servers, const opt_texts *places) {
    *servers = (ntp_servers){.server = calloc((size_t)places->count + 1, sizeof *servers->server)};
    if (!servers->server)
        return fail(STATUS_INTERNAL, "out of memory");
    for (int i = 0; i < places->count; i++) {
        ntp_server *server = &servers->server[servers->count];
        if (!ntp_place(places->text[i], server->host, &server->port, server->name)) {
            ntp_servers_end(servers);
            return fail(STATUS_USAGE,
                        "skew: --ntp %.60s: HOST, HOST:PORT or [ADDRESS]:PORT is needed",
                        places->text[i]);
        }
        servers->count += is_new(servers, server->name);
    }
    return 0;
}

void ntp_servers_end(ntp_servers *servers) {
    free(servers->server);
    *servers = (ntp_servers){.server = NULL};
}

/* ---- one server ---------------------------------------------------------------------------------- */

static void give_up(asking *asking, const char *why) {
    asking->done = true;
    if (asking->source->answers == 0 && !asking->source->over) {
        asking->source->status = "silent";
        (void)snprintf(asking->source->why, sizeof asking->source->why, "%s", why);
    }
}

static bool is_here(const tl_address *a) {
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)&a->at;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)&a->at;
    return a->at.ss_family == AF_INET    ? ntohl(v4->sin_addr.s_addr) >> 24 == 127
           : a->at.ss_family == AF_INET6 ? IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr)
                                         : false;
}

/* A socket connected to this address alone. */
static bool turn_to(asking *asking, const tl_address *to) {
    if (asking->fd >= 0)
        close(asking->fd);
    asking->fd = socket(to->at.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    asking->server->near = is_here(to);
    asking->pace_ms = asking->server->near ? NEAR_PACE_MS : PACE_MS;
    return asking->fd >= 0 && connect(asking->fd, (const struct sockaddr *)&to->at, to->size) == 0;
}

/* Until a first reply, each request goes to the next address for which a socket can be made. */
static bool find_way(asking *asking) {
    if (asking->answered > 0 || (asking->asks > 0 && asking->addresses == 1))
        return true;
    for (size_t tried = 0; tried < asking->addresses; tried++)
        if (turn_to(asking, &asking->address[asking->at++ % asking->addresses]))
            return true;
    return false;
}

static void ask(asking *asking) {
    question *question = &asking->asked[asking->asks];
    uint8_t packet[NTP_SIZE];

    if (!find_way(asking)) {
        give_up(asking, strerror(errno));
        return;
    }
    asking->asks++;
    if (getrandom(&question->random, sizeof question->random, 0) !=
        (ssize_t)sizeof question->random) {
        give_up(asking, "no random numbers are available");
        return;
    }
    ntp_ask(packet, question->random);
    question->sent = skew_reading_now();
    question->open = send(asking->fd, packet, sizeof packet, MSG_NOSIGNAL) ==
                     (ssize_t)sizeof packet;
    asking->next = tl__mono_add_ms(tl__mono_now(), PACE_MS);
    if (!question->open && errno != EAGAIN && errno != ECONNREFUSED)
        give_up(asking, strerror(errno));
}

/* After a reply: the next request to a server on this machine need not wait. */
static void hasten(asking *asking) {
    asking->next = tl__mono_min(asking->next, tl__mono_add_ms(tl__mono_now(), asking->pace_ms));
}

static void take(asking *asking, const uint8_t *packet, size_t n, const skew_reading *received,
                 int32_t rate_ppm) {
    for (int i = asking->asks - 1; i >= 0; i--) {
        question *question = &asking->asked[i];
        if (!question->open || !ntp_learn(asking->source, packet, n, question->random,
                                          &question->sent, received, rate_ppm))
            continue;
        question->open = false;
        asking->answered++;
        hasten(asking);
        asking->done = asking->source->over || asking->answered == ASKS;
        return;
    }
}

/* The address refused the packet; after the last request this is final. */
static void refused(asking *asking, int why) {
    const char *text = why == ECONNREFUSED ? "no server listens there (connection refused)"
                                           : strerror(why);
    hasten(asking);
    if (asking->asks == ASKS)
        give_up(asking, text);
    else if (asking->source->answers == 0)
        (void)snprintf(asking->source->why, sizeof asking->source->why, "%s", text);
}

static void receive(asking *asking, int32_t rate_ppm) {
    uint8_t packet[PACKET_SIZE];

    for (int i = 0; i < PACKETS_AT_ONCE && !asking->done; i++) {
        ssize_t n = recv(asking->fd, packet, sizeof packet, 0);
        skew_reading received = skew_reading_now();
        if (n >= 0)
            take(asking, packet, (size_t)n, &received, rate_ppm);
        else if (errno == EINTR)
            continue;
        else if (errno == EAGAIN)
            return;
        else
            refused(asking, errno);
    }
}

static void take_addresses(asking *asking) {
    const char *problem = NULL;
    asking->addresses = tl__resolve_get(asking->resolve, asking->address, &problem);
    tl__resolve_free(asking->resolve);
    asking->resolve = NULL;
    if (asking->addresses == 0)
        give_up(asking, problem);
}

static void begin(asking *ret, ntp_server *server, tl_mono now) {
    *ret = (asking){.server = server, .source = &server->source, .fd = -1, .next = now};
    server->source = (ntp_source){.answers = 0};
    server->asked = true;
    server->asked_at = now;
    if (tl__resolve_numeric(server->host, server->port, &ret->address[0]))
        ret->addresses = 1;
    else if (!(ret->resolve = tl__resolve_start(NULL, server->host, server->port)))
        give_up(ret, strerror(errno));
}

static void end(asking *asking) {
    char heard[SKEW_DETAIL_SIZE];

    if (!asking->done && asking->source->answers == 0 && !asking->source->over) {
        (void)snprintf(heard, sizeof heard, "%s", asking->source->why);
        asking->source->status = "silent";
        (void)snprintf(asking->source->why, sizeof asking->source->why, "%s in %d s%s%.100s",
                       asking->resolve ? "its name was not found" : "no answer", LIMIT_MS / 1000,
                       heard[0] ? ": " : "", heard);
    }
    tl__resolve_free(asking->resolve);
    if (asking->fd >= 0)
        close(asking->fd);
}

/* ---- all of them --------------------------------------------------------------------------------- */

/* Does what is due for one server. Returns when more is due. */
static tl_mono drive(asking *asking, tl_mono now) {
    if (!asking->done && asking->resolve && tl__resolve_done(asking->resolve))
        take_addresses(asking);
    if (asking->done || asking->resolve)
        return TL_NEVER;
    if (asking->asks < ASKS && !tl__mono_before(now, asking->next))
        ask(asking);
    return asking->done || asking->asks == ASKS ? TL_NEVER : asking->next;
}

/* False: all are done. */
static bool wait_for_any(asking *asking, int count, tl_mono until) {
    struct pollfd p[OPT_TEXTS_MAX];
    bool any = false;

    for (int i = 0; i < count; i++) {
        int fd = asking[i].resolve ? tl__resolve_fd(asking[i].resolve) : asking[i].fd;
        p[i] = (struct pollfd){.fd = asking[i].done ? -1 : fd, .events = POLLIN};
        any = any || !asking[i].done;
    }
    int64_t ms = tl__ms_until(tl__mono_now(), until);
    if (any)
        (void)poll(p, (nfds_t)count, ms < LIMIT_MS ? (int)ms + 1 : LIMIT_MS);
    return any;
}

static void ask_all(asking *asking, int count, int32_t rate_ppm) {
    tl_mono limit = tl__mono_add_ms(tl__mono_now(), LIMIT_MS), now, until;

    do {
        now = tl__mono_now();
        until = limit;
        for (int i = 0; i < count; i++) {
            if (!asking[i].done && asking[i].fd >= 0)
                receive(&asking[i], rate_ppm);
            until = tl__mono_min(until, drive(&asking[i], now));
        }
    } while (tl__mono_before(now, limit) && wait_for_any(asking, count, until));
}

void ntp_servers_ask(ntp_servers *servers, int32_t rate_ppm) {
    asking *asking = calloc((size_t)servers->count + 1, sizeof *asking);
    skew_reading now = skew_reading_now();
    int n = 0;

    for (int i = 0; i < servers->count; i++) {
        ntp_server *server = &servers->server[i];
        if (server->asked && !ntp_due(&server->source, server->asked_at, server->near, &now))
            continue;
        if (asking)
            begin(&asking[n++], server, now.after);
        else
            server->source = (ntp_source){.status = "unknown", .why = "out of memory"};
    }
    if (n > 0)
        ask_all(asking, n, rate_ppm);
    for (int i = 0; i < n; i++)
        end(&asking[i]);
    free(asking);
}
