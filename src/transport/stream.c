/*
 * Opens a stream, step by step, and moves its bytes. Nothing here ever waits.
 */
#include "transport/stream.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "ground/guard.h"
#include "ground/socket.h"

#define UNIX_AGAIN_MS 10

/* ---- failing ----------------------------------------------------------------------------------- */

/* Fail; the message is set already. */
static void give_up(tl_stream *stream, tl_err why, int sys_errno) {
    stream->why = why;
    stream->sys_errno = sys_errno;
    stream->absent = false;
    stream->state = TL_STREAM_FAILED;
}

/* Fail with "[doing ]place: problem". The problem begins in lower case, as the rest does. */
static void fail(tl_stream *stream, tl_err why, const char *doing, const char *place,
                 const char *problem) {
    bool word = isupper((unsigned char)problem[0]) && islower((unsigned char)problem[1]);
    (void)snprintf(stream->message, sizeof stream->message, "%s%s: %c%s", doing, place,
                   word ? tolower((unsigned char)problem[0]) : problem[0], problem + 1);
    give_up(stream, why, 0);
}

/* The same, for an errno. */
static void fail_as(tl_stream *stream, tl_err why, const char *doing, const char *place,
                    int sys_errno) {
    fail(stream, why, doing, place, strerror(sys_errno));
    stream->sys_errno = sys_errno;
}

static void fail_connect(tl_stream *stream, int sys_errno) {
    tl_err why = sys_errno == EMFILE || sys_errno == ENFILE || sys_errno == ENOMEM
                     ? TL_ENOMEM
                     : TL_EUNAVAILABLE;
    fail_as(stream, why, "connect ", stream->endpoint->label, sys_errno);
    stream->absent = stream->nowhere;
}

/* The open stream broke. */
static ssize_t lost(tl_stream *stream, int sys_errno) {
    fail(stream, TL_EUNAVAILABLE, "", stream->endpoint->label,
         sys_errno ? strerror(sys_errno) : "connection closed by the server");
    stream->sys_errno = sys_errno;
    return -1;
}

void tl__stream_describe(const tl_stream *stream, int64_t limit_ms, char *message, size_t size) {
    const tl_endpoint *endpoint = stream->endpoint;
    if (stream->state == TL_STREAM_RESOLVING)
        (void)snprintf(message, size, "resolve %s: no reply in %lld ms", endpoint->host,
                       (long long)limit_ms);
    else if (stream->state == TL_STREAM_STARTING && stream->local_message[0])
        (void)snprintf(message, size, "%s", stream->local_message);
    else if (stream->state == TL_STREAM_STARTING)
        (void)snprintf(message, size,
                       "%s: redis-server does not answer in %lld ms: see %s/redis.log",
                       endpoint->label, (long long)limit_ms, endpoint->dir);
    else if (stream->state == TL_STREAM_SECURING)
        (void)snprintf(message, size, "connect %s: no TLS handshake in %lld ms" TL_TLS_PLAIN,
                       endpoint->label, (long long)limit_ms);
    else
        (void)snprintf(message, size, "connect %s: no reply in %lld ms", endpoint->label,
                       (long long)limit_ms);
}

static void fail_late(tl_stream *stream) {
    tl__stream_describe(stream, tl__ms_until(stream->began, stream->by), stream->message,
                        sizeof stream->message);
    give_up(stream, TL_EUNAVAILABLE, ETIMEDOUT);
}

/* ---- life -------------------------------------------------------------------------------------- */

void tl__stream_init(tl_stream *stream, const tl_endpoint *endpoint) {
    *stream = (tl_stream){.endpoint = endpoint, .fd = -1};
}

static void close_socket(tl_stream *stream) {
    int saved = errno;
    tl__tls_free(stream->tls);
    stream->tls = NULL;
    if (stream->fd >= 0)
        tl__socket_close(stream->fd);
    stream->fd = -1;
    errno = saved;
}

void tl__stream_close(tl_stream *stream) {
    close_socket(stream);
    stream->state = TL_STREAM_CLOSED;
    stream->read_wants_write = stream->write_wants_read = false;
}

void tl__stream_free(tl_stream *stream) {
    tl__stream_close(stream);
    tl__resolve_free(stream->resolve);
    stream->resolve = NULL;
    tl__local_free(stream->local);
    stream->local = NULL;
}

void tl__stream_lead(tl_stream *stream, const tl_endpoint *endpoint) {
    if (stream->endpoint == endpoint)
        return;
    tl__stream_free(stream);
    tl__stream_init(stream, endpoint);
}

/* ---- opening ----------------------------------------------------------------------------------- */

static void opened(tl_stream *stream) {
    if (stream->endpoint->dir[0] && !tl__local_is_ours(stream->fd)) {
        fail(stream, TL_EDENIED, "", stream->endpoint->label,
             "the server on its socket belongs to another user");
        return;
    }
    stream->local_message[0] = '\0';
    if (!stream->endpoint->tls) {
        stream->state = TL_STREAM_OPEN;
        return;
    }
    char problem[TL_TLS_MESSAGE_SIZE];
    int scarce;
    /* The files are read for each connection: certificates are renewed, so they may have changed. */
    stream->tls = tl__tls_new(stream->endpoint, stream->fd, stream->offers_http2, &scarce, problem);
    if (!stream->tls) {
        if (scarce)
            fail_connect(stream, scarce);
        else
            fail(stream, TL_EINVALID, "connect ", stream->endpoint->label, problem);
        return;
    }
    stream->handshake_wants = POLLOUT;
    stream->state = TL_STREAM_SECURING;
}

/* Each remaining address gets an equal share of the time left. */
static tl_mono share(const tl_stream *stream, tl_mono now) {
    int64_t left = tl__ns_until(now, stream->by);
    return tl__mono_add_ns(now, left / (int64_t)(stream->addresses - stream->next + 1));
}

static void fail_local(tl_stream *stream, tl_err why, const char *message) {
    (void)snprintf(stream->message, sizeof stream->message, "%s", message);
    give_up(stream, why, 0);
}

/* Fail to start a server. An earlier start's problem explains more than that there was no time for
 * another. */
static void fail_start(tl_stream *stream, const tl_local_problem *problem) {
    if (!problem->late || !stream->local_message[0])
        (void)snprintf(stream->local_message, sizeof stream->local_message, "%s", problem->message);
    fail_local(stream, problem->code, stream->local_message);
}

/* May a server be started? Only for local:, where nothing listens on its socket, and once in each attempt. */
static bool may_start(const tl_stream *stream, int problem) {
    return stream->endpoint->dir[0] && !stream->endpoint->only_find && !stream->started &&
           (problem == ENOENT || problem == ECONNREFUSED);
}

static void begin_starting(tl_stream *stream, tl_mono now) {
    stream->started = true;
    if (stream->local && tl__local_done(stream->local)) { /* done too late, and may be outdated */
        tl__local_free(stream->local);
        stream->local = NULL;
    }
    if (!stream->local) /* it ends a little before this attempt, since its message explains more */
        stream->local = tl__local_start(stream->endpoint->dir,
                                        tl__ms_until(now, stream->by) * 9 / 10);
    if (stream->local)
        stream->state = TL_STREAM_STARTING;
    else
        fail_as(stream, TL_ENOMEM, "", stream->endpoint->label, errno);
}

/* Check the directory of local:. false: it doesn't exist, so there is no server; or it must not be used. */
static bool check_local(tl_stream *stream, tl_mono now) {
    tl_local_problem problem;
    if (tl__local_may_enter(stream->endpoint->dir, &problem))
        return true;
    if (problem.code)
        fail_local(stream, problem.code, problem.message);
    else if (may_start(stream, ENOENT))
        begin_starting(stream, now);
    else
        fail_connect(stream, ENOENT);
    return false;
}

/* Count the problem of an address: does it mean that nothing listens there, or that there is no route? */
static void count_problem(tl_stream *stream, int problem) {
    static const int absences[] = {ECONNREFUSED, ENOENT,      ENOTDIR,  EACCES,
                                   EHOSTUNREACH, ENETUNREACH, EHOSTDOWN};
    bool absent = false;
    for (size_t i = 0; i < sizeof absences / sizeof *absences; i++)
        absent = absent || problem == absences[i];
    stream->nowhere = stream->nowhere && absent;
}

/* Try the remaining addresses; `problem`: that of the one before. */
static void next_address(tl_stream *stream, tl_mono now, int problem) {
    if (problem)
        count_problem(stream, problem);
    while (stream->next < stream->addresses) {
        close_socket(stream);
        problem = tl__socket_connect(&stream->address[stream->next++], &stream->fd);
        stream->address_by = share(stream, now);
        if (problem == 0) {
            opened(stream);
            return;
        }
        if (problem == EINPROGRESS) {
            stream->state = TL_STREAM_CONNECTING;
            return;
        }
        /* unix: the listener's backlog is full, and poll doesn't report when it has room. */
        if (problem == EAGAIN) {
            close_socket(stream);
            stream->next--;
            stream->again = tl__mono_add_ms(now, UNIX_AGAIN_MS);
            stream->state = TL_STREAM_PAUSING;
            return;
        }
        count_problem(stream, problem);
    }
    close_socket(stream);
    if (may_start(stream, problem))
        begin_starting(stream, now);
    else
        fail_connect(stream, problem);
}

static tl_address unix_address(const char *path) {
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    tl_address address = {.size = sizeof un};
    (void)snprintf(un.sun_path, sizeof un.sun_path, "%s", path);
    memcpy(&address.at, &un, sizeof un);
    return address;
}

static void begin_resolve(tl_stream *stream) {
    if (stream->resolve &&
        tl__resolve_done(stream->resolve)) { /* done too late, and may be outdated */
        tl__resolve_free(stream->resolve);
        stream->resolve = NULL;
    }
    if (!stream->resolve)
        stream->resolve = tl__resolve_start(stream->endpoint->lookups, stream->endpoint->host,
                                            stream->endpoint->port);
    if (stream->resolve)
        stream->state = TL_STREAM_RESOLVING;
    else
        fail_as(stream, TL_ENOMEM, "resolve ", stream->endpoint->host, errno);
}

void tl__stream_open(tl_stream *stream, tl_mono now, int64_t limit_ms) {
    const tl_endpoint *endpoint = stream->endpoint;
    stream->began = now;
    stream->by = tl__mono_add_ms(now, limit_ms);
    stream->next = 0;
    stream->addresses = 1;
    stream->started = false;
    stream->nowhere = !endpoint->dir[0]; /* for local: a server may be about to start */
    if (endpoint->path[0])
        stream->address[0] = unix_address(endpoint->path);
    if (endpoint->dir[0] && !check_local(stream, now))
        return;
    if (!endpoint->path[0] &&
        !tl__resolve_numeric(endpoint->host, endpoint->port, &stream->address[0])) {
        begin_resolve(stream);
        return;
    }
    next_address(stream, now, 0);
}

static void go_on_starting(tl_stream *stream, tl_mono now) {
    if (!tl__local_done(stream->local))
        return;
    const tl_local_problem *problem = tl__local_problem(stream->local);
    stream->next = 0;
    if (problem)
        fail_start(stream, problem);
    else
        next_address(stream, now, 0);
    tl__local_free(stream->local);
    stream->local = NULL;
}

static void go_on_resolving(tl_stream *stream, tl_mono now) {
    const char *problem = NULL;
    if (!tl__resolve_done(stream->resolve))
        return;
    stream->addresses = tl__resolve_get(stream->resolve, stream->address, &problem);
    if (stream->addresses == 0) {
        fail(stream, TL_EUNAVAILABLE, "resolve ", stream->endpoint->host, problem);
        stream->sys_errno = tl__resolve_errno(stream->resolve);
        stream->absent = stream->sys_errno == ENOENT;
    } else
        next_address(stream, now, 0);
    tl__resolve_free(stream->resolve);
    stream->resolve = NULL;
}

static void go_on_connecting(tl_stream *stream, tl_mono now) {
    int problem = tl__socket_connected(stream->fd);
    bool late = stream->next < stream->addresses && !tl__mono_before(now, stream->address_by);
    if (problem == EINPROGRESS && late)
        problem = ETIMEDOUT;
    if (problem == 0)
        opened(stream);
    else if (problem != EINPROGRESS)
        next_address(stream, now, problem);
}

static void go_on_securing(tl_stream *stream) {
    size_t none = 0;
    const char *place = stream->endpoint->label, *problem = tl__tls_message(stream->tls);
    switch (tl__tls_do(stream->tls, TL_TLS_SHAKE, NULL, &none)) {
    case TL_TLS_DONE: stream->state = TL_STREAM_OPEN; break;
    case TL_TLS_WANT_READ: stream->handshake_wants = POLLIN; break;
    case TL_TLS_WANT_WRITE: stream->handshake_wants = POLLOUT; break;
    case TL_TLS_CLOSED:
        fail(stream, TL_EUNAVAILABLE, "connect ", place,
             "the server closed the connection during the TLS handshake");
        break;
    case TL_TLS_BROKEN: fail(stream, TL_EUNAVAILABLE, "connect ", place, problem); break;
    case TL_TLS_NONSENSE: fail(stream, TL_ESERVER, "connect ", place, problem); break;
    case TL_TLS_SCARCE: fail_connect(stream, EMFILE); break;
    case TL_TLS_UNTRUSTED:
    case TL_TLS_REFUSED:
        fail(stream, GUARD(certificate_is_final) ? TL_EDENIED : TL_EUNAVAILABLE, "connect ", place,
             problem);
        break;
    }
}

static bool opening(const tl_stream *stream) {
    return stream->state > TL_STREAM_CLOSED && stream->state < TL_STREAM_OPEN;
}

void tl__stream_drive(tl_stream *stream, tl_mono now) {
    if (stream->state == TL_STREAM_RESOLVING)
        go_on_resolving(stream, now);
    else if (stream->state == TL_STREAM_STARTING)
        go_on_starting(stream, now);
    else if (stream->state == TL_STREAM_PAUSING && !tl__mono_before(now, stream->again))
        next_address(stream, now, 0);
    if (stream->state == TL_STREAM_CONNECTING)
        go_on_connecting(stream, now);
    if (stream->state == TL_STREAM_SECURING)
        go_on_securing(stream);
    if (opening(stream) && !tl__mono_before(now, stream->by))
        fail_late(stream);
}

/* ---- open -------------------------------------------------------------------------------------- */

static ssize_t tls_result(tl_stream *stream, tl_tls_outcome outcome, size_t n) {
    const char *place = stream->endpoint->label, *problem = tl__tls_message(stream->tls);
    switch (outcome) {
    case TL_TLS_DONE: return (ssize_t)n;
    case TL_TLS_WANT_READ:
    case TL_TLS_WANT_WRITE: return 0;
    case TL_TLS_CLOSED: return lost(stream, 0);
    case TL_TLS_REFUSED:
        fail(stream, GUARD(certificate_is_final) ? TL_EDENIED : TL_EUNAVAILABLE, "connect ", place,
             problem);
        return -1;
    default: fail(stream, TL_EUNAVAILABLE, "", place, problem); return -1;
    }
}

static ssize_t tls_read(tl_stream *stream, char *to, size_t room, bool *ret_more) {
    size_t n = room;
    tl_tls_outcome outcome = tl__tls_do(stream->tls, TL_TLS_READ, to, &n);
    stream->read_wants_write = outcome == TL_TLS_WANT_WRITE;
    *ret_more = outcome == TL_TLS_DONE && tl__tls_pending(stream->tls);
    return tls_result(stream, outcome, n);
}

static ssize_t tls_write(tl_stream *stream, const char *from, size_t size) {
    size_t n = size;
    tl_tls_outcome outcome = tl__tls_do(stream->tls, TL_TLS_WRITE, (void *)from, &n);
    stream->write_wants_read = outcome == TL_TLS_WANT_READ;
    return tls_result(stream, outcome, n);
}

ssize_t tl__stream_read(tl_stream *stream, char *to, size_t room, bool *ret_more) {
    *ret_more = false;
    if (stream->tls)
        return tls_read(stream, to, room, ret_more);
    ssize_t n = tl__socket_receive(stream->fd, to, room);
    if (n > 0) {
        *ret_more = (size_t)n == room;
        return n;
    }
    if (n == 0)
        return lost(stream, 0);
    return errno == EAGAIN ? 0 : lost(stream, errno);
}

ssize_t tl__stream_write(tl_stream *stream, const char *from, size_t n) {
    if (stream->tls)
        return tls_write(stream, from, n);
    ssize_t written = tl__socket_send(stream->fd, from, n);
    if (written >= 0)
        return written;
    return errno == EAGAIN ? 0 : lost(stream, errno);
}

/* ---- polling ----------------------------------------------------------------------------------- */

int tl__stream_fd(const tl_stream *stream) {
    switch (stream->state) {
    case TL_STREAM_RESOLVING: return tl__resolve_fd(stream->resolve);
    case TL_STREAM_STARTING: return tl__local_fd(stream->local);
    default: return stream->fd;
    }
}

short tl__stream_events(const tl_stream *stream, bool writing) {
    switch (stream->state) {
    case TL_STREAM_RESOLVING:
    case TL_STREAM_STARTING: return POLLIN;
    case TL_STREAM_CONNECTING: return POLLOUT;
    case TL_STREAM_SECURING: return stream->handshake_wants;
    case TL_STREAM_OPEN: break;
    default: return 0;
    }
    bool out = (writing && !stream->write_wants_read) || stream->read_wants_write;
    return (short)(POLLIN | (out ? POLLOUT : 0));
}

tl_mono tl__stream_until(const tl_stream *stream) {
    switch (stream->state) {
    case TL_STREAM_FAILED: return (tl_mono){0};
    case TL_STREAM_PAUSING: return tl__mono_min(stream->again, stream->by);
    case TL_STREAM_CONNECTING: return tl__mono_min(stream->address_by, stream->by);
    case TL_STREAM_RESOLVING:
    case TL_STREAM_STARTING:
    case TL_STREAM_SECURING: return stream->by;
    default: return TL_NEVER;
    }
}
