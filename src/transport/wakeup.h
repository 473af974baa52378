/*
 * Wake-ups: listens to the topics (pub/sub channels) of a client's waiters, over a connection of its own.
 * Non-blocking like a connection, and for one thread at a time: the renewal thread (the keeper).
 *
 * It connects when the first topic is listened to. While there are topics it reconnects, with a back-off, and
 * notices a peer that has gone silent. It closes after half a minute without topics.
 */
#pragma once

#include "ground/bytes.h"
#include "ground/clock.h"
#include "transport/conn.h"

#define TL_TOPIC_EXTRA 24 /**< bytes that a topic adds to the key it is about, at most */
#define TL_TOPIC_MAX (TL_KEY_MAX + TL_TOPIC_EXTRA)

typedef struct tl_wakeup tl_wakeup;

/** The callbacks may listen and forget, but not free. */
typedef struct {
    /** A message has arrived. */
    void (*woken)(void *ctx, tl_bytes topic, tl_bytes payload);
    /** armed true: from now on no message is missed. False: messages are missed, since the connection was
     *  lost or could not be made, or the server rejects the topic. Called at each change. A topic that is
     *  still listened to is subscribed to again once there is a connection. May be NULL. */
    void (*armed)(void *ctx, tl_bytes topic, bool armed);
    /** On TL_TOPIC_CHANGES: this key has changed; n 0: any key may have. May be NULL. */
    void (*changed)(void *ctx, tl_bytes key);
    void *ctx;
} tl_wakeup_calls;

/** The channel on which a server reports changed keys: those that were read over a connection with CLIENT
 *  TRACKING redirected to tl__wakeup_id. */
#define TL_TOPIC_CHANGES TL_LITERAL("__redis__:invalidate")

/** attempt_ms: a server that owes a reply for so long is considered dead. Of `limits` only connect_ms,
 *  ask_run and ask_id count. No I/O. NULL: out of memory. */
tl_wakeup *tl__wakeup_new(const tl_endpoint *endpoint, const tl_conn_limits *limits,
                          int64_t attempt_ms, const tl_wakeup_calls *calls);

/** Close; no callback runs. NULL is fine. */
void tl__wakeup_free(tl_wakeup *wakeup);

/** Add a listener to a topic, whose name is copied. If it is already known whether the topic is armed,
 *  `armed` runs from within. TL_ENOMEM, or TL_EINVALID for a name that is too long: then the topic is not
 *  listened to. Only the first listener of a topic can fail. */
tl_err tl__wakeup_listen(tl_wakeup *wakeup, tl_bytes name, tl_mono now);

/** On etcd: begin to listen to a topic at some later time, unless it is listened to already. The caller knows
 *  that nothing has happened to it up to this revision. Does nothing if there are very many topics, or no
 *  memory. */
void tl__wakeup_seen(tl_wakeup *wakeup, tl_bytes name, int64_t revision, tl_mono now);

/** Is any topic listened to? */
bool tl__wakeup_listens(const tl_wakeup *wakeup);

/** Remove a listener. A topic without listeners is fine. */
void tl__wakeup_forget(tl_wakeup *wakeup, tl_bytes name, tl_mono now);

/** The server's number for this connection, with limits.ask_id; 0: unknown. */
int64_t tl__wakeup_id(const tl_wakeup *wakeup);

/** The run of the server that sends the messages, with limits.ask_run; 0: unknown. */
uint64_t tl__wakeup_run(const tl_wakeup *wakeup);

/** Another server sends the messages now: the next drive closes, and connects again by the server's name. */
void tl__wakeup_leave(tl_wakeup *wakeup);

/** Is the connection up? Then the server has rejected the topics that aren't armed. */
bool tl__wakeup_up(const tl_wakeup *wakeup);

/** As for a connection: poll fd for events until then, and drive. */
int tl__wakeup_fd(const tl_wakeup *wakeup);
short tl__wakeup_events(const tl_wakeup *wakeup);
tl_mono tl__wakeup_until(const tl_wakeup *wakeup);
void tl__wakeup_drive(tl_wakeup *wakeup, tl_mono now);
