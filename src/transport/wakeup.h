/*
 * Wake-ups: listens to the topics (pub/sub channels) that a client's waiters wait for, over one
 * connection of its own. Non-blocking like a connection, and for one thread at a time: the keeper.
 *
 * It connects when the first topic is listened to, connects again (with a back-off) as long as there
 * are any, notices a peer that went silent, and closes when there was none for half a minute.
 */
#pragma once

#include "ground/bytes.h"
#include "ground/clock.h"
#include "transport/conn.h"

#define TL_TOPIC_EXTRA 24 /**< bytes that a topic is longer than the key it is about, at most */
#define TL_TOPIC_MAX (TL_KEY_MAX + TL_TOPIC_EXTRA)

typedef struct tl_wakeup tl_wakeup;

/** They may listen and forget, but not free. */
typedef struct {
    /** A message came. */
    void (*woken)(void *ctx, tl_bytes topic, tl_bytes payload);
    /** From now on no message is missed; or, armed false, messages are missed: the connection was
     *  lost or not to be had, or the server refuses the topic. Called at each change; a topic that is
     *  still wanted is subscribed to again once there is a connection. May be NULL. */
    void (*armed)(void *ctx, tl_bytes topic, bool armed);
    /** On TL_TOPIC_CHANGES: this key has changed; n 0: any may have. May be NULL. */
    void (*changed)(void *ctx, tl_bytes key);
    void *ctx;
} tl_wakeup_calls;

/** Where a server tells which keys have changed, of those that a connection has read which has
 *  CLIENT TRACKING redirected to tl__wakeup_id. */
#define TL_TOPIC_CHANGES TL_LITERAL("__redis__:invalidate")

/** attempt_ms: a server that says nothing for so long when it should is taken for dead. Of `limits`
 *  only connect_ms, ask_run and ask_id count. No I/O. NULL: out of memory. */
tl_wakeup *tl__wakeup_new(const tl_endpoint *endpoint, const tl_conn_limits *limits,
                          int64_t attempt_ms, const tl_wakeup_calls *calls);

/** Close, without a call. NULL is fine. */
void tl__wakeup_free(tl_wakeup *wakeup);

/** Listen to a topic, which is copied, once more than so far. `armed` is called from within when it
 *  is known already whether that is in force. TL_ENOMEM, or TL_EINVALID for one that is too long:
 *  then it is not listened to; only the first listener of a topic can fail. */
tl_err tl__wakeup_listen(tl_wakeup *wakeup, tl_bytes name, tl_mono now);

/** On etcd: listen to a topic, some time, if it isn't listened to yet: it is known that nothing has come of it up to this
 *  revision. Nothing happens if there are very many, or without memory for it. */
void tl__wakeup_seen(tl_wakeup *wakeup, tl_bytes name, int64_t revision, tl_mono now);

/** Is any topic listened to? */
bool tl__wakeup_listens(const tl_wakeup *wakeup);

/** Undo one listen. A topic that nobody listens to is fine. */
void tl__wakeup_forget(tl_wakeup *wakeup, tl_bytes name, tl_mono now);

/** The number by which the server knows this connection, where limits.ask_id; 0: unknown. */
int64_t tl__wakeup_id(const tl_wakeup *wakeup);

/** Which run of which server sends the messages, where limits.ask_run; 0: unknown. */
uint64_t tl__wakeup_run(const tl_wakeup *wakeup);

/** Another server is the one to listen to: the next drive closes, and connects again by the server's name. */
void tl__wakeup_leave(tl_wakeup *wakeup);

/** Is the connection up? Then what isn't armed has been refused. */
bool tl__wakeup_up(const tl_wakeup *wakeup);

/** As of a connection: poll fd for events until then, and drive. */
int tl__wakeup_fd(const tl_wakeup *wakeup);
short tl__wakeup_events(const tl_wakeup *wakeup);
tl_mono tl__wakeup_until(const tl_wakeup *wakeup);
void tl__wakeup_drive(tl_wakeup *wakeup, tl_mono now);
