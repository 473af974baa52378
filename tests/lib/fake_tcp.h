/*
 * The fake server behind a real socket, on real time, in a thread of its own: for the library's own
 * connections. Every function here may be called from any thread.
 *
 * A connection is a stream: once a byte of it is lost, nothing that follows can arrive. So a
 * connection that had a request or a reply swallowed stays silent until the client closes it.
 */
#pragma once

#include "fake_redis.h"

typedef struct fake_tcp fake_tcp;

/** Listening. unix_path NULL: TCP, on a free port of 127.0.0.1. A failure ends the program. */
fake_tcp *fake_tcp_start(const char *unix_path);
/** NULL is fine. */
void fake_tcp_free(fake_tcp *t);

int fake_tcp_port(const fake_tcp *t);
const char *fake_tcp_url(const fake_tcp *t); /**< "redis://127.0.0.1:PORT" or "unix:PATH" */

/** The fake itself, for its knobs and to look inside: nothing is served until unlock. */
fake_redis *fake_tcp_lock(fake_tcp *t);
void fake_tcp_unlock(fake_tcp *t);

/* ---- counting -------------------------------------------------------------------------------- */

/** Requests read so far, by name, or NULL: all. Swallowed ones count, and denied ones. */
uint64_t fake_tcp_count(fake_tcp *t, const char *name);
/** Wait until it is at least `count`; false after limit_ms. */
bool fake_tcp_wait_count(fake_tcp *t, const char *name, uint64_t count, int64_t limit_ms);
uint64_t fake_tcp_accepted(fake_tcp *t);    /**< connections so far */
uint64_t fake_tcp_connections(fake_tcp *t); /**< open now */

/* ---- the clock ------------------------------------------------------------------------------- */

/** The server's clock is the real one plus this. */
void fake_tcp_set_offset(fake_tcp *t, int64_t us);

/* ---- faults ---------------------------------------------------------------------------------- */

/** The faults below concern these commands only ("EVALSHA EVAL"); NULL: all, the default. */
void fake_tcp_aim(fake_tcp *t, const char *names);

/** The next n requests are executed, but their replies are lost. */
void fake_tcp_swallow_replies(fake_tcp *t, int n);
/** The next n requests are lost. */
void fake_tcp_swallow_requests(fake_tcp *t, int n);
/** Of the next reply only so many bytes arrive, and then the end of the connection. */
void fake_tcp_cut_reply(fake_tcp *t, size_t bytes);
/** Replies arrive this much later. 0: at once, the default. */
void fake_tcp_delay(fake_tcp *t, int64_t ms);
/** Requests are executed, and their replies kept until this is false again. */
void fake_tcp_hold(fake_tcp *t, bool hold);
/** Nothing is read, executed or answered until this is false again: a stopped process. */
void fake_tcp_freeze(fake_tcp *t, bool freeze);

typedef enum {
    FAKE_TCP_ACCEPT,
    FAKE_TCP_IGNORE, /**< connecting succeeds, but nobody reads */
    FAKE_TCP_REFUSE  /**< connection refused */
} fake_tcp_door;

/** How new connections fare; those that are open stay. */
void fake_tcp_set_door(fake_tcp *t, fake_tcp_door door);
/** Close all connections, now. */
void fake_tcp_disconnect(fake_tcp *t);

/** Back to no faults: connections that are silent are closed, kept replies sent. */
void fake_tcp_heal(fake_tcp *t);
