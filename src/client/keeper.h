/*
 * The keeper: the renewal thread, one for each client. It renews locks, listens for notifications, runs the
 * operations of callers that don't block, and finishes what callers have left behind. It runs step machines,
 * on one connection for each node. It calls the program's callbacks itself, or leaves them to
 * tl_client_dispatch.
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

/** Bits that are posted to waiters. */
enum {
    TL_WAKE_WOKEN = 1,
    TL_WAKE_ARMED = 2,
    TL_WAKE_DISARMED = 4,
    TL_WAKE_CANCEL = 8,
    TL_WAKE_WATCHED = 16,
    TL_WAKE_UNWATCHED = 32,
    TL_WAKE_GRANTED = 64,
    TL_WAKE_NEAR = 128,
    TL_WAKE_ANSWERED = 256 /**< not an event: the owner wakes and finds the reply by itself */
};

/** A listener of a topic. */
typedef struct tl_listener {
    /** Called with keeper.mutex held. First WAKE_ARMED (from now on no message is missed) or WAKE_DISARMED.
     *  Then WAKE_WOKEN for a message; of the inbox also WAKE_GRANTED and WAKE_NEAR. For `key`: WAKE_WATCHED,
     *  WAKE_UNWATCHED. */
    void (*on_wake)(struct tl_listener *listener, unsigned flags);
    tl_bytes topic; /**< n 0: none; only its owner sets it, under keeper.mutex */
    tl_bytes token; /**< the topic is the inbox: the token of its grants; n 0: another topic */
    tl_bytes of;    /**< the topic is the inbox: the lock's key */
    tl_grant grant; /**< WAKE_GRANTED; under keeper.posts_mutex */
    tl_bytes key;   /**< also report changes of this key; n 0: none */
    struct tl_link *link;     /**< where it listens to its topic */
    uint8_t server;           /**< one listener for each independent server: which of them */
    bool deaf;                /**< it does not listen: out of memory */
    struct tl_exchange *look; /**< a read of `key` in flight */
    bool look_again;          /**< read `key` again after that: it has changed meanwhile */
    bool hears;               /**< the key's events are subscribed to */
    bool sure;                /**< such events do arrive */
    struct tl_listener *next;
} tl_listener;

/** The subscription to the inbox at a node. It stays for a while after the last waiter there. */
typedef struct {
    unsigned listeners;
    bool listens;
    atomic_bool armed; /**< for any thread */
    tl_mono idle;      /**< since then it has no listener */
    tl_mono moved; /**< when it last left a server, for the one that has the queue; ns 0: never */
} tl_inbox;

/** A callback to call once no mutex is held. */
typedef struct tl_report {
    void (*call)(struct tl_report *report); /**< may free the report, if `called` is NULL */
    /** Called after that, with the mutex held; may free the report. NULL: nothing is left to do. */
    void (*called)(struct tl_report *report);
    const void *owner; /**< the object that the report is about */
    struct tl_report *next;
    bool queued;
} tl_report;

/** State that a lock needs only while a renewal of it is in flight. */
typedef struct tl_renewal {
    tl_attempt attempt;
    struct tl_renewal *next;
} tl_renewal;

#define TL_DUE_LENGTHS 8 /**< lengths of an interval, which depend on the locks' lifetimes */
#define TL_DUE_PARTS 4   /**< intervals of one length, one after the other */

/** An interval, by its end, and how many renewals are due in it. */
typedef struct {
    tl_mono at;
    unsigned count;
} tl_due_part;

/** A connection that was lost while locks are held. */
typedef struct {
    bool missed; /**< the loss was logged, and no new connection yet */
    tl_mono at;  /**< when it was logged last; ns 0: never */
} tl_loss;

/** The keeper's connections to a node: one for renewals, one for notifications. */
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
    atomic_bool running; /**< set under the mutex, once; read by any thread */
    bool closing, left;
    tl_mono disrupted;   /**< the last disruption that the locks were notified of */
    bool rejudge;        /**< the server's clock stepped: every lock is renewed at once */
    tl_mono close_by;    /**< closing: the latest end of the thread */
    int wake, timer;     /**< eventfd, timerfd */
    int ready;           /**< an eventfd: there is something to dispatch; -1: no dispatch */
    int gather;          /**< with dispatch: the loop polls it for `ready` and a lent connection */
    bool rung;           /**< `ready` is readable */
    bool busy;           /**< lend the connection to the loop, once no thread polls it */
    tl_mono reported_at; /**< when the loop was last given reports; ns 0: never */
    bool lent;           /**< the connection is lent: the dispatching thread reads and writes */
    bool turning;        /**< a thread dispatches */
    bool turned;         /**< a thread has dispatched since the keeper's thread looked last */
    tl_mono look_at;     /**< lent: when the keeper's thread looks again */
    bool polling;        /**< the thread polls, without the mutex */
    bool roused;         /**< polling: it was woken */
    tl_mono planned;     /**< polling: the latest time at which it wakes */
    tl_link first;       /**< to the client's first node */
    tl_link *links;      /**< to further nodes */
    tl_wakeup *holds;    /**< on etcd: notifies when the key of a held lock is deleted */
    void (*deleted)(struct tl_client *client, tl_bytes topic); /**< called for that */
    struct pollfd *fds; /**< what is polled, if there are further links; has room for fds_room */
    unsigned fds_room;
    tl_listener *listeners;
    struct {
        char name[TL_INBOX_SIZE];
        uint8_t name_n;
    } inbox; /**< the topic that notifies this client's waiters in the server's queue; never changes */
    tl_tasks tasks;
    tl_due_part parts[TL_DUE_LENGTHS][TL_DUE_PARTS]; /**< the latest ones with renewals */
    uint32_t detached;                               /**< machines left behind by callers */
    const struct tl_watching *watching;              /**< the protocol's; NULL: none */
    struct tl_watch *watch;                          /**< its state */
    tl_renew step;        /**< the machine of the lock that makes a step now */
    const tl_task *steps; /**< the task of that lock; NULL: none */
    tl_renewal *renewals; /**< idle ones: at least one, except in the middle of a step */
    unsigned renewals_idle;
    struct tl_exchange *spare;
    unsigned spares;
    tl_random random;       /**< for tl__keeper_seed */
    atomic_uint operations; /**< in the background; written under the mutex */
    struct tl_room *rooms;  /**< idle ones */
    unsigned rooms_idle;
    struct tl_batch *batch;         /**< being joined; sent before the mutex is unlocked */
    struct tl_batch *spare_batches; /**< empty ones */
    unsigned batches_spared;
    tl_batch_bytes request;                /**< the buffer that all batches share */
    struct tl_batch *singly, **singly_end; /**< refused ones, whose members are sent one by one */
    unsigned singles;                      /**< requests for a single member that are in flight */
    bool apart;         /**< the server refuses requests for keys of several slots */
    uint64_t apart_run; /**< apart: the run of that server; 0: not known */
    uint32_t apart_generation;
    tl_report *reports, **reports_end;
    const void *telling; /**< the owner of the report that `deliverer` calls now; NULL: none */
    tl_thread deliverer;

    tl_mutex posts_mutex;
    tl_task *posts; /**< tasks with posted bits */
} tl_keeper;

/** dispatch: reports wait for tl__keeper_dispatch. TL_ENOMEM. */
tl_err tl__keeper_init(tl_keeper *keeper, struct tl_client *client, bool dispatch);
/** Finish detached machines for at most `grace_ms`, end the thread, free everything. */
void tl__keeper_close(tl_keeper *keeper, int64_t grace_ms);

/** Start the thread if it isn't running. TL_ENOMEM. */
tl_err tl__keeper_ready(tl_keeper *keeper);

void tl__keeper_lock(tl_keeper *keeper);
void tl__keeper_unlock(tl_keeper *keeper);

/* With the mutex held: */

/** Run a task. Its first event is `kind`: TL_START, or TL_TIMER for a machine that goes on. TL_ENOMEM */
tl_err tl__keeper_add(tl_keeper *keeper, tl_task *task, tl_event_kind kind);
/** Run a task with this event now. Nothing happens if it isn't running. */
void tl__keeper_tell(tl_keeper *keeper, tl_task *task, tl_event_kind kind);
/** Forget a task; replies to its requests in flight are ignored. Fine for one that isn't running. */
void tl__keeper_remove(tl_keeper *keeper, tl_task *task);

/** An idle renewal. There must be one, see tl__keeper_have_renewal. */
tl_renewal *tl__keeper_take_renewal(tl_keeper *keeper);
void tl__keeper_give_renewal(tl_keeper *keeper, tl_renewal *renewal);
/** Make sure that there is an idle renewal. false: no memory. */
bool tl__keeper_have_renewal(tl_keeper *keeper);

/** As tl__client_seed. */
static inline uint64_t tl__keeper_seed(tl_keeper *keeper) {
    return tl__random_draw(&keeper->random);
}

/** So many more operations run in the background. */
static inline void tl__keeper_operates(tl_keeper *keeper, int more) {
    unsigned now = atomic_load_explicit(&keeper->operations, memory_order_relaxed);
    atomic_store_explicit(&keeper->operations, now + (unsigned)more, memory_order_release);
}

/** Memory for an operation: always of the same size for a client. It is not cleared. NULL: no memory. */
void *tl__keeper_take_room(tl_keeper *keeper, size_t size);
void tl__keeper_give_room(tl_keeper *keeper, void *room);

/** Queue a report, to be called once no mutex is held. */
void tl__keeper_report(tl_keeper *keeper, tl_report *report);
/** Take a report out of the queue, if it has not been called yet. */
void tl__keeper_withdraw(tl_keeper *keeper, tl_report *report);
/** Withdraw a report, and wait while another thread is in a report of the same owner. */
void tl__keeper_unreport(tl_keeper *keeper, tl_report *report);
/** Wait while another thread is in a report of this owner. */
void tl__keeper_await_reported(tl_keeper *keeper, const void *owner);

/** Run a copy of a machine to its end; its state has `size` bytes and has returned TL_DETACH, or begins.
 *  At the end release(hold) is called. Without memory that is called at once, and what the machine would
 *  clean up expires. */
void tl__keeper_detach_in(tl_keeper *keeper, const tl_machine *machine, size_t size,
                          tl_event_kind kind, void *hold, void (*release)(void *hold));

/* Without the mutex: */

void tl__keeper_detach(tl_keeper *keeper, const tl_machine *machine, size_t size,
                       tl_event_kind kind, void *hold, void (*release)(void *hold));

/** Post bits to a task; the keeper's thread turns them into events. Any thread, whatever mutex it holds,
 *  while the task exists. */
void tl__keeper_post(tl_keeper *keeper, tl_task *task, unsigned flags);

/** A disruption was noticed: each lock looks whether it is in doubt. Any thread, whatever mutex it holds. */
void tl__keeper_notice(void *keeper);

/** The server's clock stepped: have every lock renewed at once. */
void tl__keeper_rejudge(tl_keeper *keeper);

/** Listen to a topic, and to changes of `key` unless its n is 0. With `token`: listen to the inbox, for
 *  messages about this token and about the lock's key `of`. armed: the listener assumes that the inbox is
 *  subscribed to; it is notified only if that is wrong. */
void tl__keeper_listen(tl_keeper *keeper, tl_listener *listener, tl_bytes topic, tl_bytes key,
                       tl_bytes token, tl_bytes of, bool armed);
void tl__keeper_forget(tl_keeper *keeper, tl_listener *listener);
/** The server's queue is at this run of the server: if the subscription is known to be at
 *  another, connect anew. */
void tl__keeper_follow(tl_keeper *keeper, tl_listener *listener, uint64_t run);
/** Is the inbox subscribed to at the node of this key? Any thread. */
bool tl__keeper_hears(const tl_keeper *keeper, tl_bytes key);
/** The grant of the last WAKE_GRANTED. */
tl_grant tl__keeper_grant(tl_keeper *keeper, const tl_listener *listener);

/* The same with the mutex held: */
void tl__keeper_rejudge_in(tl_keeper *keeper);
void tl__keeper_listen_in(tl_keeper *keeper, tl_listener *listener, tl_bytes topic, tl_bytes key,
                          tl_bytes token, tl_bytes of, bool armed);
void tl__keeper_forget_in(tl_keeper *keeper, tl_listener *listener);
void tl__keeper_follow_in(tl_keeper *keeper, tl_listener *listener, uint64_t run);
/** For several independent servers: one listener for each, in their order. NULL: there are none. */
void tl__keeper_listen_all_in(tl_keeper *keeper, tl_listener *listeners, tl_bytes topic);
void tl__keeper_forget_all_in(tl_keeper *keeper, tl_listener *listeners);

/** On etcd: the key of a hold existed at this revision. If it is deleted later and the client notices,
 *  `deleted` is called with the topic. The mutex is held for all three functions. */
void tl__keeper_seen_in(tl_keeper *keeper, tl_bytes topic, int64_t revision,
                        void (*deleted)(struct tl_client *client, tl_bytes topic));
void tl__keeper_unseen_in(tl_keeper *keeper, tl_bytes topic);

/** The program's loop begins an operation; with the mutex held. */
void tl__keeper_began(tl_keeper *keeper);

/** A turn of the program's loop: call the queued reports on this thread. Returns how many. */
unsigned tl__keeper_dispatch(tl_keeper *keeper);
