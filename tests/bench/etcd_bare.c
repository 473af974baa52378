/*
 * HTTP/1.1 by hand, as little of it as etcd's gateway needs. An answer that isn't the expected one ends the benchmark.
 */
#include "etcd_bare.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"

#define TEXT_SIZE (256 * 1024)
#define LEASE_S 600
#define LIMIT_S 20

struct etcd_bare {
    int fd;
    char key[96], lease[32]; /* in base64; in digits */
    int64_t last;            /* a lease that renew has asked for */
    char create[512], drop[256], look[256];
    char text[TEXT_SIZE];
};

static int reach(int port) {
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval limit = {.tv_sec = LIMIT_S};
    int yes = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&at, sizeof at) != 0)
        die("etcd: connect: %s", strerror(errno));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    return fd;
}

/* ---- a request and its answer ---------------------------------------------------------------- */

/* Is it all there? Either its length is told, or it ends with an empty chunk. */
static bool is_whole(const char *text, size_t n) {
    const char *body = strstr(text, "\r\n\r\n"), *length = strcasestr(text, "\r\nContent-Length:");
    if (!body)
        return false;
    if (length && length < body)
        return n >= (size_t)(body + 4 - text) + strtoul(length + 17, NULL, 10);
    return n >= 7 && strcmp(text + n - 7, "\r\n0\r\n\r\n") == 0;
}

static const char *ask(etcd_bare *b, const char *request, size_t size, const char *expected) {
    size_t n = 0;
    if (send(b->fd, request, size, MSG_NOSIGNAL) != (ssize_t)size)
        die("etcd: send: %s", strerror(errno));
    do {
        ssize_t got = recv(b->fd, b->text + n, sizeof b->text - 1 - n, 0);
        if (got <= 0)
            die("etcd: no whole answer: %s", got < 0 ? strerror(errno) : "closed");
        n += (size_t)got;
        b->text[n] = '\0';
    } while (!is_whole(b->text, n));
    if (!strstr(b->text, expected))
        die("etcd answers %.300s", b->text);
    return b->text;
}

__attribute__((format(printf, 4, 5))) static size_t post(char *to, size_t size, const char *path,
                                                         const char *format, ...) {
    static char body[TEXT_SIZE];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(body, sizeof body, format, args);
    va_end(args);
    int all = snprintf(to, size,
                       "POST /v3/%s HTTP/1.1\r\nHost: etcd\r\nContent-Length: %d\r\n\r\n%s", path,
                       n, body);
    if (n < 0 || all < 0 || (size_t)all >= size)
        die("etcd: a request is too long");
    return (size_t)all;
}

static void base64(char *to, size_t size, const char *text) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t n = strlen(text), at = 0;
    for (size_t i = 0; i < n && at + 5 < size; i += 3) {
        unsigned v = (unsigned char)text[i] * 65536U;
        v += i + 1 < n ? (unsigned char)text[i + 1] * 256U : 0;
        v += i + 2 < n ? (unsigned char)text[i + 2] : 0;
        for (int k = 18; k >= 0; k -= 6)
            to[at++] = digits[v >> k & 63];
        if (i + 2 >= n)
            to[at - 1] = '=';
        if (i + 1 >= n)
            to[at - 2] = '=';
    }
    to[at] = '\0';
}

static void grant(etcd_bare *b, int64_t lease) {
    char request[256];
    size_t n = post(request, sizeof request, "lease/grant", "{\"ID\":\"%lld\",\"TTL\":\"%d\"}",
                    (long long)lease, LEASE_S);
    (void)ask(b, request, n, "\"ID\"");
}

static void give_back(etcd_bare *b, int64_t lease) {
    char request[256];
    size_t n = post(request, sizeof request, "lease/revoke", "{\"ID\":\"%lld\"}", (long long)lease);
    (void)ask(b, request, n, " 200 ");
}

/* ---- what is measured ------------------------------------------------------------------------ */

etcd_bare *etcd_bare_open(int port, const char *key) {
    etcd_bare *b = calloc(1, sizeof *b);
    if (!b)
        die("out of memory");
    b->fd = reach(port);
    base64(b->key, sizeof b->key, key);
    b->last = now_ns() & 0x7fffffffffffff;
    (void)snprintf(b->lease, sizeof b->lease, "%lld", (long long)b->last);
    grant(b, b->last);
    (void)post(
        b->create, sizeof b->create, "kv/txn",
        "{\"compare\":[{\"key\":\"%s\",\"target\":\"CREATE\",\"create_revision\":\"0\"}],"
        "\"success\":[{\"request_put\":{\"key\":\"%s\",\"value\":\"dg==\",\"lease\":\"%s\"}}]}",
        b->key, b->key, b->lease);
    (void)post(b->drop, sizeof b->drop, "kv/deleterange", "{\"key\":\"%s\"}", b->key);
    (void)post(b->look, sizeof b->look, "kv/range", "{\"key\":\"%s\"}", b->key);
    return b;
}

void etcd_bare_close(etcd_bare *b) {
    if (!b)
        return;
    give_back(b, strtoll(b->lease, NULL, 10));
    if (b->last != strtoll(b->lease, NULL, 10))
        give_back(b, b->last);
    (void)close(b->fd);
    free(b);
}

void etcd_bare_pair(void *ctx) {
    etcd_bare *b = ctx;
    (void)ask(b, b->create, strlen(b->create), "\"succeeded\":true");
    (void)ask(b, b->drop, strlen(b->drop), "\"deleted\":\"1\"");
}

void etcd_bare_look(etcd_bare *b) {
    (void)ask(b, b->look, strlen(b->look), " 200 ");
}

void etcd_bare_renew(etcd_bare *b, int n) {
    static char puts[ETCD_BARE_KEYS_MOST * 160], request[sizeof puts + 512];
    char name[64], key[96];
    int64_t former = b->last;
    size_t used = 0;
    grant(b, ++b->last);
    for (int i = 0; i < n && i < ETCD_BARE_KEYS_MOST; i++) {
        (void)snprintf(name, sizeof name, "bench:bare:%d", i);
        base64(key, sizeof key, name);
        used += (size_t)snprintf(puts + used, sizeof puts - used,
                                 "%s{\"request_put\":{\"key\":\"%s\",\"value\":\"dg==\",\"lease\":"
                                 "\"%lld\"}}",
                                 i ? "," : "", key, (long long)b->last);
    }
    size_t size = post(request, sizeof request, "kv/txn", "{\"success\":[%s]}", puts);
    (void)ask(b, request, size, "\"succeeded\":true");
    if (former != strtoll(b->lease, NULL, 10))
        give_back(b, former);
}

/* ---- its metrics ----------------------------------------------------------------------------- */

static double sum_of(const char *text, const char *name) {
    double sum = 0;
    size_t n = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *end = strchrnul(line, '\n'), *at = memrchr(line, ' ', (size_t)(end - line));
        if (strncmp(line, name, n) == 0 && at)
            sum += strtod(at, NULL);
    }
    return sum;
}

etcd_counts etcd_counts_of(int port) {
    static const char request[] = "GET /metrics HTTP/1.0\r\nHost: etcd\r\n\r\n";
    char *text = calloc(1, TEXT_SIZE);
    ssize_t got = 1;
    size_t n = 0;
    int fd = reach(port);
    if (!text || send(fd, request, sizeof request - 1, MSG_NOSIGNAL) < 0)
        die("etcd: its metrics: %s", strerror(errno));
    while (got > 0 && n < TEXT_SIZE - 1) {
        got = recv(fd, text + n, TEXT_SIZE - 1 - n, 0);
        n += got > 0 ? (size_t)got : 0;
    }
    (void)close(fd);
    etcd_counts c = {sum_of(text, "grpc_server_msg_received_total{"),
                     sum_of(text, "process_cpu_seconds_total ")};
    free(text);
    if (c.cpu_s <= 0)
        die("etcd: its metrics tell nothing");
    return c;
}
