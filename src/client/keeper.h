/*
 * The keeper: one thread a client that renews locks, listens for wake-ups, runs what goes on without
 * a caller that blocks, and finishes what callers have left behind. It runs step machines on one
 * connection. What there is to report it tells itself, or leaves for tl_client_dispatch.
 */
#pragma once

#include <stdatomic.h>

#include "client/batch.h"
#include "client/tasks.h"
#include "ground/thread.h"
#include "protocol/renew.h"
#include "protocol/protocol.h"
#include "transport/conn.h"
#include "transport/wakeup.h"

struct tl_client;

#define TL_INBOX_SIZE 64

/** Bits that are posted to those who wait. */
enum {
    TL_WAKE_WOKEN = 1,
    TL_WAKE_ARMED = 2,
    TL_WAKE_DISARMED = 4,
    TL_WAKE_CANCEL = 8,
    TL_WAKE_WATCHED = 16,
    TL_WAKE_UNWATCHED = 32,
    TL_WAKE_GRANTED = 64,
    TL_WAKE_NEAR = 128,
    TL_WAKE_ANSWERED = 256 /**< no event: whoever sleeps finds the answer by itself */
};

/** Somebody who listens to a topic. */
typedef struct tl_listener {
    /** WAKE_ARMED or WAKE_DISARMED, then WAKE_WOKEN or, of the inbox, WAKE_GRANTED; WAKE_WATCHED, WAKE_UNWATCHED of the key. With
     *  keeper.mutex held. */
    void (*on_wake)(struct tl_listener *listener, unsigned flags);
    tl_bytes topic; /**< n 0: none; only its owner sets it, under keeper.mutex */
    tl_bytes
        token;   /**< the topic is the inbox, and this is whom a grant must name; n 0: it isn't */
    tl_bytes of; /**< with it: the lock's key */
    tl_grant grant;           /**< WAKE_GRANTED; under keeper.posts_mutex */
    tl_bytes key;             /**< whose changes it wants to be told of, too; n 0: none */
    struct tl_link *link;     /**< by which it listens, with a topic */
    uint8_t server;           /**< of several independent servers' listeners, which this is */
    bool deaf;                /**< it doesn't, for want of memory */
    struct tl_exchange *look; /**< in flight for that */
    bool look_again;          /**< after it: the key has changed meanwhile */
    bool hears;               /**< the key's events are subscribed to */
    bool sure;                /**< and it has been told that they come */
    struct tl_listener *next;
} tl_listener;

/** The inbox, as it is listened to at a node: for a while after the last who stands in line there, too. */
typedef struct {
    unsigned listeners;
    bool listens;
    atomic_bool armed; /**< for any thread */
    tl_mono idle;      /**< no listener since then */
    tl_mono moved; /**< when it last left a server that wasn't the one to listen to; ns 0: never */
} tl_inbox;

/** Something to report when no mutex is held. */
typedef struct tl_report {
    void (*call)(struct tl_report *report); /**< may free the report */
    const void *owner;                      /**< whom it tells of */
    struct tl_report *next;
    bool queued;
} tl_report;

/** What a lock needs only while a renewal of it is in flight. */
typedef struct tl_renewal {
    tl_attempt attempt;
    struct tl_renewal *next;
} tl_renewal;

#define TL_DUE_LENGTHS 8 /**< by how long it is, which lifetimes tell, */
#define TL_DUE_PARTS 4   /**< and its place among those that follow each other */

/** A part of the time, by its end, and how many are to be renewed in it. */
typedef struct {
    tl_mono at;
    unsigned count;
} tl_due_part;

/** A connection that is lost under held locks. */
typedef struct {
    bool missed; /**< that it is lost has been logged, and not that it is back */
    tl_mono at;  /**< when it was logged last; ns 0: never */
} tl_loss;

/** The keeper's connections to a node: for renewals and for wake-ups. */
typedef struct tl_link {
    struct tl_keeper *keeper;
    struct tl_node *node;
    tl_conn *conn;
    tl_wakeup *wakeup;
    tl_loss loss;
    tl_inbox inbox;
    struct tl_link *next;
} tl_link;

typedef struct tl_keeper {
    struct tl_client *client;
    tl_mutex mutex;
    tl_cond delivered;
    tl_thread thread;
    bool running, closing, left;
    bool rejudge;     /**< the server's clock stepped: every lock is renewed at once */
    tl_mono close_by; /**< closing: no longer than this */
    int wake, timer;  /**< eventfd, timerfd */
    int ready;  /**< an eventfd: there is something to dispatch; -1: the keeper tells itself */
    int gather; /**< with it: what a loop polls, `ready` and, while it is lent, the connection */
    bool rung;  /**< `ready` is readable */
    bool busy;  /**< lend the connection to the loop when it isn't polled */
    tl_mono reported_at; /**< when it was told something last; ns 0: never */
    bool lent;           /**< it is: whoever dispatches reads and writes there */
    bool turning;        /**< somebody dispatches */
    bool turned;         /**< and has, since the thread looked last, */
    tl_mono look_at;     /**< lent: when it looks again */
    bool polling;        /**< the thread waits, with the mutex let go */
    bool roused;         /**< and has been woken */
    tl_mono planned;     /**< polling: it looks again by then */
    tl_link first;       /**< to the client's first node */
    tl_link *links;      /**< to further ones */
    tl_wakeup *holds;    /**< on etcd: tells when a key that is held is deleted, */
    void (*deleted)(struct tl_client *client, tl_bytes topic); /**< to this */
    struct pollfd *fds; /**< what is polled, where there are some; room for fds_room */
    unsigned fds_room;
    tl_listener *listeners;
    struct {
        char name[TL_INBOX_SIZE];
        uint8_t name_n;
    } inbox; /**< where those who stand in line are told: one topic for all of a client, which never changes */
    tl_tasks tasks;
    tl_due_part parts[TL_DUE_LENGTHS][TL_DUE_PARTS]; /**< that locks were given to lately */
    uint32_t detached;                               /**< machines left behind by callers */
    const struct tl_watching *watching;              /**< the protocol's; NULL: none */
    struct tl_watch *watch;                          /**< of that */
    tl_renew step;                                   /**< of the lock that takes one */
    const tl_task *steps;                            /**< whose that is; NULL: nobody's */
    tl_renewal *renewals; /**< idle ones: one at least, but in the middle of a step */
    unsigned renewals_idle;
    struct tl_exchange *spare;
    unsigned spares;
    struct tl_batch *batch; /**< those that are being joined; sent before the mutex is let go */
    struct tl_batch *spare_batches; /**< empty ones */
    unsigned batches_spared;
    tl_batch_bytes request;                /**< the buffer of them all */
    struct tl_batch *singly, **singly_end; /**< whose members are asked one by one */
    unsigned singles;                      /**< requests for one of them that are in flight */
    bool apart;         /**< the server refuses requests for keys of several slots: */
    uint64_t apart_run; /**< this run of it; 0: it doesn't tell */
    uint32_t apart_generation;
    tl_report *reports, **reports_end;
    const void *telling; /**< the owner of the report that `deliverer` tells */
    tl_thread deliverer;

    tl_mutex posts_mutex;
    tl_task *posts; /**< those that something has been posted to */
} tl_keeper;

/** dispatch: reports are left for tl__keeper_dispatch. */
tl_err tl__keeper_init(tl_keeper *keeper, struct tl_client *client, bool dispatch);
/** Finish detached machines for at most `grace_ms`, end the thread, free everything. */
void tl__keeper_close(tl_keeper *keeper, int64_t grace_ms);

/** Start the thread if it isn't running. TL_ENOMEM. */
tl_err tl__keeper_ready(tl_keeper *keeper);

void tl__keeper_lock(tl_keeper *keeper);
void tl__keeper_unlock(tl_keeper *keeper);

/* With the mutex held: */

/** Run a task: `kind` (TL_START, or TL_TIMER for one that goes on) is given to it by the thread.
 *  TL_ENOMEM */
tl_err tl__keeper_add(tl_keeper *keeper, tl_task *task, tl_event_kind kind);
/** Give a task an event now. */
void tl__keeper_tell(tl_keeper *keeper, tl_task *task, tl_event_kind kind);
/** Forget a task; what it has in flight goes unheard. Fine for one that isn't running. */
void tl__keeper_remove(tl_keeper *keeper, tl_task *task);

/** An idle one, of which there is one at least. */
tl_renewal *tl__keeper_take_renewal(tl_keeper *keeper);
void tl__keeper_give_renewal(tl_keeper *keeper, tl_renewal *renewal);
/** See to it that there is one. false: no memory. */
bool tl__keeper_have_renewal(tl_keeper *keeper);

void tl__keeper_report(tl_keeper *keeper, tl_report *report);
/** It needn't be told any more, if it hasn't begun to be. */
void tl__keeper_withdraw(tl_keeper *keeper, tl_report *report);
/** Take a report back; waits while another thread tells one of its owner's. */
void tl__keeper_unreport(tl_keeper *keeper, tl_report *report);
/** Wait while another thread tells one of its reports. */
void tl__keeper_await_reported(tl_keeper *keeper, const void *owner);

/** Run a copy of a machine (its state, of `size`, is TL_DETACH) to its end. `hold` is kept until then,
 *  and let go by release(hold). On failure it is dropped: what it would clean up expires. */
void tl__keeper_detach_in(tl_keeper *keeper, const tl_machine *machine, size_t size,
                          tl_event_kind kind, void *hold, void (*release)(void *hold));

/* Without the mutex: */

void tl__keeper_detach(tl_keeper *keeper, const tl_machine *machine, size_t size,
                       tl_event_kind kind, void *hold, void (*release)(void *hold));

/** Post bits to a task, which the thread gives it as events. Any thread, whatever else it holds,
 *  while the task exists. */
void tl__keeper_post(tl_keeper *keeper, tl_task *task, unsigned flags);

/** The server's clock stepped: have every lock renewed at once. */
void tl__keeper_rejudge(tl_keeper *keeper);

/** Listen to a topic, and to changes of a key unless its n is 0; or, with `token`, to what the inbox says of it, and
 *  of the lock's key `of`. `armed` is whether the listener counts on the inbox already: it is told if that is wrong. */
void tl__keeper_listen(tl_keeper *keeper, tl_listener *listener, tl_bytes topic, tl_bytes key,
                       tl_bytes token, tl_bytes of, bool armed);
void tl__keeper_forget(tl_keeper *keeper, tl_listener *listener);
/** The line is at this run of the server: listen there, if it is elsewhere as far as is known. */
void tl__keeper_follow(tl_keeper *keeper, tl_listener *listener, uint64_t run);
/** Do the inbox's messages come in, as far as those are concerned who wait for this key? Any thread. */
bool tl__keeper_hears(const tl_keeper *keeper, tl_bytes key);
/** What WAKE_GRANTED told of. */
tl_grant tl__keeper_grant(tl_keeper *keeper, const tl_listener *listener);

/* The same with it: */
void tl__keeper_rejudge_in(tl_keeper *keeper);
void tl__keeper_listen_in(tl_keeper *keeper, tl_listener *listener, tl_bytes topic, tl_bytes key,
                          tl_bytes token, tl_bytes of, bool armed);
void tl__keeper_forget_in(tl_keeper *keeper, tl_listener *listener);
void tl__keeper_follow_in(tl_keeper *keeper, tl_listener *listener, uint64_t run);
/** Of several independent servers: one listener for each, in their order. NULL: there are none. */
void tl__keeper_listen_all_in(tl_keeper *keeper, tl_listener *listeners, tl_bytes topic);
void tl__keeper_forget_all_in(tl_keeper *keeper, tl_listener *listeners);

/** On etcd: the key of a hold was there at this revision; `deleted` is called with the topic when it is deleted after that, as
 *  far as that is noticed. With the mutex held, all three. */
void tl__keeper_seen_in(tl_keeper *keeper, tl_bytes topic, int64_t revision,
                        void (*deleted)(struct tl_client *client, tl_bytes topic));
void tl__keeper_unseen_in(tl_keeper *keeper, tl_bytes topic);

/** An operation of the loop's begins; with the mutex held. */
void tl__keeper_began(tl_keeper *keeper);

/** A turn of the loop: tell what there is to report, on this thread. How many. */
unsigned tl__keeper_dispatch(tl_keeper *keeper);
