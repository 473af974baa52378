/*
 * The inside of wake-ups, for their files, and a row for each source of notifications: wakeup subscribes to
 * channels of Redis, watch opens a stream of etcd's watches.
 */
#pragma once

#include "transport/backoff.h"
#include "transport/codec.h"
#include "transport/gateway.h"
#include "transport/grpc.h"
#include "transport/reply_room.h"
#include "transport/stream.h"
#include "transport/topics.h"
#include "transport/wakeup.h"

#define TL_WATCH_GATHER_MS 500
#define TL_WATCH_EACH_MS 2
#define TL_WATCH_CATCH_UP_MS 200 /* etcd takes up to 100 ms, and a little */
#define TL_WATCH_SEEN_MAX 1000

/** As the functions of wakeup.h. */
typedef struct {
    bool (*make)(tl_wakeup *wakeup, const tl_endpoint *endpoint, const tl_conn_limits *limits);
    void (*end)(tl_wakeup *wakeup);
    /** The topic has one more listener. false, only for the first: out of memory */
    bool (*listen)(tl_wakeup *wakeup, tl_topic *topic, tl_mono now);
    void (*seen)(tl_wakeup *wakeup, tl_bytes name, int64_t revision, tl_mono now); /**< or NULL */
    /** The topic has no listener left. NULL: nothing to do */
    void (*forget)(tl_wakeup *wakeup, const tl_topic *topic, tl_mono now);
    int64_t (*id)(const tl_wakeup *wakeup);   /**< NULL: 0 */
    uint64_t (*run)(const tl_wakeup *wakeup); /**< NULL: 0 */
    bool (*up)(const tl_wakeup *wakeup);
    int (*fd)(const tl_wakeup *wakeup);
    short (*events)(const tl_wakeup *wakeup);
    tl_mono (*until)(const tl_wakeup *wakeup);
    void (*drive)(tl_wakeup *wakeup, tl_mono now);
} tl_wakeup_row;
extern const tl_wakeup_row tl__wakeup_subscribes, tl__wakeup_watches;

struct tl_wakeup {
    const tl_wakeup_row *row;
    tl_wakeup_calls calls;
    int64_t attempt_ms;
    tl_topics topics;
    bool leaving; /* another server sends the messages now: close with the next drive */
    union {
        struct { /* for tl__wakeup_subscribes */
            tl_conn *conn;
            /* Commands sent on this connection are numbered from 1. Those from `answered` + 1 to `said` have
             * no reply yet. asked[number % asked_size]: the topic of a SUBSCRIBE while it is still wanted,
             * else NULL. */
            uint64_t said, answered;
            tl_topic **asked;
            size_t asked_size;
            bool knocking; /* a connection is being made */
            bool confused; /* a reply made no sense; the next drive closes */
            tl_mono now;   /* of the present drive */
            tl_mono heard; /* when something was received last, or the wait for it began */
            tl_mono empty; /* since when there has been no topic */
        };
        struct { /* for tl__wakeup_watches; topic.asked is a watch id in this stream; 0: none */
            tl_members *members;
            int64_t connect_ms;
            unsigned member; /* index of the member that the stream goes to */
            enum {
                TL_WATCH_DOWN,
                TL_WATCH_OPENING,
                TL_WATCH_LOGIN,
                TL_WATCH_ASKING,
                TL_WATCH_UP
            } state;
            tl_stream stream;
            tl_gateway *gateway;
            tl_grpc *grpc;      /* NULL: the stream is always the gateway's */
            tl_grpc_call *call; /* by gRPC: the login, then the stream; NULL: by the gateway */
            bool by_grpc;       /* the present connection speaks gRPC */
            bool http1;         /* the member spoke no HTTP/2: the next stream is the gateway's */
            bool blocked;       /* it has no room for what gRPC has to write */
            tl_reply_room room; /* of a message by gRPC */
            char *bytes; /* to be written: `size` of them, `done` written; by gRPC: of the call */
            size_t size, done;
            tl_bytes token; /* owned; kept for the next stream, until one fails */
            tl_backoff backoff;
            tl_mono began, by, retry_at;
            tl_mono asked_at;     /* when a stream was opened last */
            tl_mono caught_up_at; /* once it is up: it has reported what happened before */
            tl_mono look_at;      /* when a patient topic may have to be watched */
            bool wanted;          /* a topic must be watched, or was */
            bool stale;           /* topics were added that this stream doesn't watch */
            bool more;
            /* A watch was rejected: users have changed, or the user may not read there. */
            bool refused;
        };
    };
};

void tl__wakeup_report(tl_wakeup *wakeup, tl_topic *topic, bool armed);
/** Report to all topics that they are not armed. */
void tl__wakeup_lose(tl_wakeup *wakeup);
