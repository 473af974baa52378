/*
 * A byte stream to an endpoint. It resolves the name, connects to each address in turn, and starts TLS if the
 * endpoint wants it; then it reads and writes bytes. Non-blocking: the owner polls tl__stream_fd for
 * tl__stream_events until tl__stream_until. A plain struct inside its owner; zeroed is not valid.
 */
#pragma once

#include <sys/types.h>

#include "ground/clock.h"
#include "transport/endpoint.h"
#include "transport/local/local.h"
#include "transport/resolve.h"
#include "transport/tls.h"

#define TL_STREAM_MESSAGE_SIZE (TL_HOST_SIZE + 256)
_Static_assert(TL_LOCAL_MESSAGE_SIZE <= TL_STREAM_MESSAGE_SIZE, "room for the message");

typedef enum {
    TL_STREAM_CLOSED,
    TL_STREAM_RESOLVING,
    TL_STREAM_STARTING, /* local: nothing listens yet, so a server is being started */
    TL_STREAM_PAUSING,  /* the backlog of the unix socket is full: try again soon */
    TL_STREAM_CONNECTING,
    TL_STREAM_SECURING,
    TL_STREAM_OPEN,
    TL_STREAM_FAILED /* see `why` and `message`; close it */
} tl_stream_state;

typedef struct {
    const tl_endpoint *endpoint;
    tl_stream_state state;
    tl_err why;
    int sys_errno; /* FAILED: the cause, or 0 */
    /* FAILED: certainly nothing listens there, and a retry soon would find the same. */
    bool absent;
    char message[TL_STREAM_MESSAGE_SIZE]; /* FAILED: names the address, no secrets */
    /* private */
    int fd;
    tl_mono began, by, address_by, again;
    tl_resolve *resolve;                       /* kept for the next attempt while it runs */
    tl_local *local;                           /* the same */
    char local_message[TL_LOCAL_MESSAGE_SIZE]; /* why the last start failed, "" if none did */
    bool started;                              /* in this attempt: a second start would not help */
    tl_address address[TL_ADDRESS_MAX];
    size_t addresses, next;
    bool nowhere;      /* every address tried so far was absent */
    bool offers_http2; /* set by the owner: with TLS, HTTP/2 is offered beside HTTP/1.1 */
    tl_tls *tls;
    short handshake_wants;
    bool read_wants_write, write_wants_read;
} tl_stream;

/** The endpoint must outlive it. */
void tl__stream_init(tl_stream *stream, const tl_endpoint *endpoint);

/** CLOSED: connect to this endpoint from now on. Frees all state of another endpoint. */
void tl__stream_lead(tl_stream *stream, const tl_endpoint *endpoint);

/** Close, and free everything. */
void tl__stream_free(tl_stream *stream);

/** CLOSED: begin to open, within limit_ms. */
void tl__stream_open(tl_stream *stream, tl_mono now, int64_t limit_ms);

/** Go on opening. On return it is OPEN, FAILED or still opening. */
void tl__stream_drive(tl_stream *stream, tl_mono now);

void tl__stream_close(tl_stream *stream);

/** OPEN: returns the bytes read; 0: none at present; -1: FAILED. *ret_more: there may be more, which poll may
 *  not show. */
ssize_t tl__stream_read(tl_stream *stream, char *to, size_t room, bool *ret_more);

/** OPEN: returns the bytes written; 0: no room at present, repeat with the same bytes; -1: FAILED. With TLS
 *  the server may have received some of the bytes in any case. */
ssize_t tl__stream_write(tl_stream *stream, const char *from, size_t n);

int tl__stream_fd(const tl_stream *stream);
/** `writing`: there is something to write. */
short tl__stream_events(const tl_stream *stream, bool writing);
tl_mono tl__stream_until(const tl_stream *stream);

/** Write what it was doing when opening took too long. */
void tl__stream_describe(const tl_stream *stream, int64_t limit_ms, char *message, size_t size);
