/*
 * The far end of a connection, by hand and in the same thread: a listener, and the one stream that
 * was accepted last. Whoever waits here drives the near end meanwhile, and fails after PEER_WAIT_MS.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests.h"
#include "ground/clock.h"

/* Where a guard is removed the wait is often in vain, and nothing else is at stake. */
#define PEER_WAIT_MS (getenv("TL_WITHOUT") ? 2000 : 60000)

typedef struct {
    int listener, stream;
    uint16_t port;
    void (*drive)(void *near);
    void *near;
} peer;

static inline void peer_listen_at(peer *p, const char *host, uint16_t port, int backlog) {
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
    socklen_t size = sizeof in;
    int on = 1;
    in.sin_addr.s_addr = htonl(host ? INADDR_ANY : INADDR_LOOPBACK);
    p->stream = -1;
    p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(p->listener >= 0);
    (void)setsockopt(p->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    assert_int_equal(bind(p->listener, (struct sockaddr *)&in, size), 0);
    assert_int_equal(listen(p->listener, backlog), 0);
    assert_int_equal(getsockname(p->listener, (struct sockaddr *)&in, &size), 0);
    p->port = ntohs(in.sin_port);
}

static inline void peer_listen(peer *p) {
    peer_listen_at(p, NULL, 0, 16);
}

/* Drive the near end, then give the world a moment. */
static inline void peer_turn(peer *p, tl_mono began) {
    if (tl__ms_until(began, tl__mono_now()) > PEER_WAIT_MS)
        fail_msg("waited for %d ms", PEER_WAIT_MS);
    p->drive(p->near);
    (void)poll(NULL, 0, 0);
}

static inline void peer_drop(peer *p) {
    if (p->stream >= 0)
        close(p->stream);
    p->stream = -1;
}

/* As a server that crashed: what it sent may not even arrive. */
static inline void peer_reset(peer *p) {
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(p->stream, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    peer_drop(p);
}

static inline void peer_close(peer *p) {
    peer_drop(p);
    if (p->listener >= 0)
        close(p->listener);
    p->listener = -1;
}

static inline void peer_accept(peer *p) {
    tl_mono began = tl__mono_now();
    peer_drop(p);
    while ((p->stream = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) < 0) {
        assert_int_equal(errno, EAGAIN);
        peer_turn(p, began);
    }
}

static inline void peer_send_n(peer *p, const char *bytes, size_t n) {
    tl_mono began = tl__mono_now();
    while (n > 0) {
        ssize_t sent = send(p->stream, bytes, n, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN)
            return; /* the near end has had enough */
        if (sent > 0) {
            bytes += sent;
            n -= (size_t)sent;
        }
        if (n > 0)
            peer_turn(p, began);
    }
}

static inline void peer_send(peer *p, const char *text) {
    peer_send_n(p, text, strlen(text));
}

/* Exactly these bytes come next. */
static inline void peer_expect_n(peer *p, const char *bytes, size_t n) {
    tl_mono began = tl__mono_now();
    char got[4096];
    for (size_t at = 0; at < n;) {
        size_t room = n - at < sizeof got ? n - at : sizeof got;
        ssize_t k = recv(p->stream, got, room, 0);
        if (k > 0) {
            if (memcmp(got, bytes + at, (size_t)k) != 0)
                fail_msg("expected \"%.*s\", got \"%.*s\"", (int)room, bytes + at, (int)k, got);
            at += (size_t)k;
            continue;
        }
        if (k == 0 || errno != EAGAIN)
            fail_msg("closed instead of \"%s\"", bytes + at);
        peer_turn(p, began);
    }
}

static inline void peer_expect(peer *p, const char *text) {
    peer_expect_n(p, text, strlen(text));
}

/* The near end closes, having said nothing more. */
static inline void peer_expect_end(peer *p) {
    tl_mono began = tl__mono_now();
    char byte;
    ssize_t k;
    while ((k = recv(p->stream, &byte, 1, 0)) < 0 && errno == EAGAIN)
        peer_turn(p, began);
    assert_true(k <= 0);
}

/* Nothing has been said, and nothing comes from some more turns. */
static inline void peer_expect_silence(peer *p) {
    tl_mono began = tl__mono_now();
    char byte;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(recv(p->stream, &byte, 1, 0), -1);
        assert_int_equal(errno, EAGAIN);
        peer_turn(p, began);
    }
}
