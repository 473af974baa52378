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

/* FAILED, with the words that are there. */
static void give_up(tl_stream *s, tl_err why, int sys_errno) {
    s->why = why;
    s->sys_errno = sys_errno;
    s->absent = false;
    s->state = TL_STREAM_FAILED;
}

/* FAILED, with "[doing ]place: problem", the problem beginning in lower case like the rest. */
static void fail(tl_stream *s, tl_err why, const char *doing, const char *place,
                 const char *problem) {
    bool word = isupper((unsigned char)problem[0]) && islower((unsigned char)problem[1]);
    (void)snprintf(s->words, sizeof s->words, "%s%s: %c%s", doing, place,
                   word ? tolower((unsigned char)problem[0]) : problem[0], problem + 1);
    give_up(s, why, 0);
}

/* The same, by an errno. */
static void fail_as(tl_stream *s, tl_err why, const char *doing, const char *place, int sys_errno) {
    fail(s, why, doing, place, strerror(sys_errno));
    s->sys_errno = sys_errno;
}

static void fail_connect(tl_stream *s, int sys_errno) {
    tl_err why = sys_errno == EMFILE || sys_errno == ENFILE || sys_errno == ENOMEM
                     ? TL_ENOMEM
                     : TL_EUNAVAILABLE;
    fail_as(s, why, "connect ", s->endpoint->label, sys_errno);
    s->absent = s->nowhere;
}

/* The open stream broke. */
static ssize_t lost(tl_stream *s, int sys_errno) {
    fail(s, TL_EUNAVAILABLE, "", s->endpoint->label,
         sys_errno ? strerror(sys_errno) : "connection closed by the server");
    s->sys_errno = sys_errno;
    return -1;
}

void tl__stream_describe(const tl_stream *s, int64_t limit_ms, char *words, size_t size) {
    const tl_endpoint *e = s->endpoint;
    if (s->state == TL_STREAM_RESOLVING)
        (void)snprintf(words, size, "resolve %s: no answer in %lld ms", e->host,
                       (long long)limit_ms);
    else if (s->state == TL_STREAM_STARTING && s->local_words[0])
        (void)snprintf(words, size, "%s", s->local_words);
    else if (s->state == TL_STREAM_STARTING)
        (void)snprintf(words, size, "%s: redis-server does not answer in %lld ms: see %s/redis.log",
                       e->label, (long long)limit_ms, e->dir);
    else if (s->state == TL_STREAM_SECURING)
        (void)snprintf(words, size, "connect %s: no TLS handshake in %lld ms", e->label,
                       (long long)limit_ms);
    else
        (void)snprintf(words, size, "connect %s: no answer in %lld ms", e->label,
                       (long long)limit_ms);
}

static void fail_late(tl_stream *s) {
    tl__stream_describe(s, tl__ms_until(s->began, s->by), s->words, sizeof s->words);
    give_up(s, TL_EUNAVAILABLE, ETIMEDOUT);
}

/* ---- life -------------------------------------------------------------------------------------- */

void tl__stream_init(tl_stream *stream, const tl_endpoint *endpoint) {
    *stream = (tl_stream){.endpoint = endpoint, .fd = -1};
}

static void close_socket(tl_stream *s) {
    int saved = errno;
    tl__tls_free(s->tls);
    s->tls = NULL;
    if (s->fd >= 0)
        tl__socket_close(s->fd);
    s->fd = -1;
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

static void opened(tl_stream *s) {
    if (s->endpoint->dir[0] && !tl__local_is_ours(s->fd)) {
        fail(s, TL_EDENIED, "", s->endpoint->label, "the server that answers is another user's");
        return;
    }
    s->local_words[0] = '\0';
    if (!s->endpoint->tls) {
        s->state = TL_STREAM_OPEN;
        return;
    }
    char problem[TL_TLS_WORDS];
    /* Anew for each connection: certificates are renewed, so their files may be others by now. */
    s->tls = tl__tls_new(s->endpoint, s->fd, problem);
    if (!s->tls) {
        fail(s, TL_EINVALID, "connect ", s->endpoint->label, problem);
        return;
    }
    s->handshake_wants = POLLOUT;
    s->state = TL_STREAM_SECURING;
}

/* Each address gets an equal share of the time that is left. */
static tl_mono share(const tl_stream *s, tl_mono now) {
    int64_t left = tl__ns_until(now, s->by);
    return tl__mono_add_ns(now, left / (int64_t)(s->addresses - s->next + 1));
}

static void fail_local(tl_stream *s, tl_err why, const char *words) {
    (void)snprintf(s->words, sizeof s->words, "%s", words);
    give_up(s, why, 0);
}

/* What an earlier start met says more than that there was no time for another. */
static void fail_start(tl_stream *s, const tl_local_problem *problem) {
    if (!problem->late || !s->local_words[0])
        (void)snprintf(s->local_words, sizeof s->local_words, "%s", problem->words);
    fail_local(s, problem->code, s->local_words);
}

/* Nobody listens on the socket of local: have a server started, once in each attempt. */
static bool may_start(const tl_stream *s, int problem) {
    return s->endpoint->dir[0] && !s->endpoint->only_find && !s->started &&
           (problem == ENOENT || problem == ECONNREFUSED);
}

static void begin_starting(tl_stream *s, tl_mono now) {
    s->started = true;
    if (s->local && tl__local_done(s->local)) { /* came too late, and may be old by now */
        tl__local_free(s->local);
        s->local = NULL;
    }
    if (!s->local) /* it ends a little before us, because it can say more */
        s->local = tl__local_start(s->endpoint->dir, tl__ms_until(now, s->by) * 9 / 10);
    if (s->local)
        s->state = TL_STREAM_STARTING;
    else
        fail_as(s, TL_ENOMEM, "", s->endpoint->label, errno);
}

/* false: it is not there, and its server neither; or it must not be used. */
static bool check_local(tl_stream *s, tl_mono now) {
    tl_local_problem problem;
    if (tl__local_may_enter(s->endpoint->dir, &problem))
        return true;
    if (problem.code)
        fail_local(s, problem.code, problem.words);
    else if (may_start(s, ENOENT))
        begin_starting(s, now);
    else
        fail_connect(s, ENOENT);
    return false;
}

/* What an address met. Was it that nobody is there, or no way to him? */
static void count_problem(tl_stream *s, int problem) {
    static const int absences[] = {ECONNREFUSED, ENOENT,      ENOTDIR,  EACCES,
                                   EHOSTUNREACH, ENETUNREACH, EHOSTDOWN};
    bool absent = false;
    for (size_t i = 0; i < sizeof absences / sizeof *absences; i++)
        absent = absent || problem == absences[i];
    s->nowhere = s->nowhere && absent;
}

/* Try the addresses that are left; `problem`: what the one before met. */
static void next_address(tl_stream *s, tl_mono now, int problem) {
    if (problem)
        count_problem(s, problem);
    while (s->next < s->addresses) {
        close_socket(s);
        problem = tl__socket_connect(&s->address[s->next++], &s->fd);
        s->address_by = share(s, now);
        if (problem == 0) {
            opened(s);
            return;
        }
        if (problem == EINPROGRESS) {
            s->state = TL_STREAM_CONNECTING;
            return;
        }
        if (problem == EAGAIN) { /* unix: the listener's queue is full, and poll won't tell */
            close_socket(s);
            s->next--;
            s->again = tl__mono_add_ms(now, UNIX_AGAIN_MS);
            s->state = TL_STREAM_PAUSING;
            return;
        }
        count_problem(s, problem);
    }
    close_socket(s);
    if (may_start(s, problem))
        begin_starting(s, now);
    else
        fail_connect(s, problem);
}

static tl_address unix_address(const char *path) {
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    tl_address address = {.size = sizeof un};
    (void)snprintf(un.sun_path, sizeof un.sun_path, "%s", path);
    memcpy(&address.at, &un, sizeof un);
    return address;
}

static void begin_resolve(tl_stream *s) {
    if (s->resolve && tl__resolve_done(s->resolve)) { /* came too late, and may be old by now */
        tl__resolve_free(s->resolve);
        s->resolve = NULL;
    }
    if (!s->resolve)
        s->resolve = tl__resolve_start(s->endpoint->lookups, s->endpoint->host, s->endpoint->port);
    if (s->resolve)
        s->state = TL_STREAM_RESOLVING;
    else
        fail_as(s, TL_ENOMEM, "resolve ", s->endpoint->host, errno);
}

void tl__stream_open(tl_stream *stream, tl_mono now, int64_t limit_ms) {
    const tl_endpoint *e = stream->endpoint;
    stream->began = now;
    stream->by = tl__mono_add_ms(now, limit_ms);
    stream->next = 0;
    stream->addresses = 1;
    stream->started = false;
    stream->nowhere = !e->dir[0]; /* of local: it may be about to be there */
    if (e->path[0])
        stream->address[0] = unix_address(e->path);
    if (e->dir[0] && !check_local(stream, now))
        return;
    if (!e->path[0] && !tl__resolve_numeric(e->host, e->port, &stream->address[0])) {
        begin_resolve(stream);
        return;
    }
    next_address(stream, now, 0);
}

static void go_on_starting(tl_stream *s, tl_mono now) {
    if (!tl__local_done(s->local))
        return;
    const tl_local_problem *problem = tl__local_problem(s->local);
    s->next = 0;
    if (problem)
        fail_start(s, problem);
    else
        next_address(s, now, 0);
    tl__local_free(s->local);
    s->local = NULL;
}

static void go_on_resolving(tl_stream *s, tl_mono now) {
    const char *problem = NULL;
    if (!tl__resolve_done(s->resolve))
        return;
    s->addresses = tl__resolve_get(s->resolve, s->address, &problem);
    if (s->addresses == 0) {
        fail(s, TL_EUNAVAILABLE, "resolve ", s->endpoint->host, problem);
        s->sys_errno = tl__resolve_errno(s->resolve);
        s->absent = s->sys_errno == ENOENT;
    } else
        next_address(s, now, 0);
    tl__resolve_free(s->resolve);
    s->resolve = NULL;
}

static void go_on_connecting(tl_stream *s, tl_mono now) {
    int problem = tl__socket_connected(s->fd);
    bool late = s->next < s->addresses && !tl__mono_before(now, s->address_by);
    if (problem == EINPROGRESS && late)
        problem = ETIMEDOUT;
    if (problem == 0)
        opened(s);
    else if (problem != EINPROGRESS)
        next_address(s, now, problem);
}

static void go_on_securing(tl_stream *s) {
    size_t none = 0;
    const char *place = s->endpoint->label, *problem = tl__tls_words(s->tls);
    switch (tl__tls_do(s->tls, TL_TLS_SHAKE, NULL, &none)) {
    case TL_TLS_DONE: s->state = TL_STREAM_OPEN; break;
    case TL_TLS_WANT_READ: s->handshake_wants = POLLIN; break;
    case TL_TLS_WANT_WRITE: s->handshake_wants = POLLOUT; break;
    case TL_TLS_CLOSED:
        fail(s, TL_EUNAVAILABLE, "connect ", place,
             "the server closed the connection during the TLS handshake");
        break;
    case TL_TLS_BROKEN: fail(s, TL_EUNAVAILABLE, "connect ", place, problem); break;
    case TL_TLS_NONSENSE: fail(s, TL_ESERVER, "connect ", place, problem); break;
    case TL_TLS_UNTRUSTED:
    case TL_TLS_REFUSED:
        fail(s, GUARD(certificate_is_final) ? TL_EDENIED : TL_EUNAVAILABLE, "connect ", place,
             problem);
        break;
    }
}

static bool opening(const tl_stream *s) {
    return s->state > TL_STREAM_CLOSED && s->state < TL_STREAM_OPEN;
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

static ssize_t tls_result(tl_stream *s, tl_tls_outcome outcome, size_t n) {
    const char *place = s->endpoint->label, *problem = tl__tls_words(s->tls);
    switch (outcome) {
    case TL_TLS_DONE: return (ssize_t)n;
    case TL_TLS_WANT_READ:
    case TL_TLS_WANT_WRITE: return 0;
    case TL_TLS_CLOSED: return lost(s, 0);
    case TL_TLS_REFUSED:
        fail(s, GUARD(certificate_is_final) ? TL_EDENIED : TL_EUNAVAILABLE, "connect ", place,
             problem);
        return -1;
    default: fail(s, TL_EUNAVAILABLE, "", place, problem); return -1;
    }
}

static ssize_t tls_read(tl_stream *s, char *to, size_t room, bool *ret_more) {
    size_t n = room;
    tl_tls_outcome outcome = tl__tls_do(s->tls, TL_TLS_READ, to, &n);
    s->read_wants_write = outcome == TL_TLS_WANT_WRITE;
    *ret_more = outcome == TL_TLS_DONE && tl__tls_pending(s->tls);
    return tls_result(s, outcome, n);
}

static ssize_t tls_write(tl_stream *s, const char *from, size_t size) {
    size_t n = size;
    tl_tls_outcome outcome = tl__tls_do(s->tls, TL_TLS_WRITE, (void *)from, &n);
    s->write_wants_read = outcome == TL_TLS_WANT_READ;
    return tls_result(s, outcome, n);
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
