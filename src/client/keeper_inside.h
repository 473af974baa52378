/*
 * The inside of the keeper, for its files: keeper, the thread; keeper_run, what it runs;
 * run, one step of what it or a caller runs; keeper_loop, what a caller's loop does of it; keeper_join, renewals of
 * many locks in one request; keeper_listen, who listens to what.
 * All with the mutex held, unless it says otherwise.
 */
#pragma once

#include "client/batch.h"
#include "client/keeper.h"
#include "client/node.h"
#include "ground/wait.h"

/** A request in flight. */
typedef struct tl_exchange {
    tl_task *task;            /**< NULL: nobody wants the answer any more */
    tl_batch *batch;          /**< one for many: not a task's, but its members' */
    bool single;              /**< one of those of a refused batch, which are counted */
    bool alone;               /**< as tl_send.alone */
    uint8_t server;           /**< of several independent ones: which is asked */
    bool watch;               /**< the keeper's own, about watching */
    bool reads;               /**< the task's key, after a change: not asked by its machine */
    tl_listener *listener;    /**< who wants to know when it has been answered */
    struct tl_exchange *next; /**< of the same task, or of the spare ones */
} tl_exchange;

/** Have the thread look again, if it doesn't anyway. */
void tl__keeper_wake(tl_keeper *keeper);
/** The same without the mutex. */
void tl__keeper_rouse(tl_keeper *keeper);

/** Have somebody write what has been queued on the connection, if nobody does anyway. */
void tl__keeper_wake_writer(tl_keeper *keeper);

/** Tell what there is to report, so much of it at most: how many. The mutex is let go for each. */
unsigned tl__keeper_deliver(tl_keeper *keeper, unsigned most);

/** One step of a task, and what it asks for. The task may be gone afterwards. */
void tl__keeper_run(tl_keeper *keeper, tl_task *task, const tl_event *event);
/** The same of an answer, by this node; NULL: the one that has the task's key. */
void tl__keeper_run_at(tl_keeper *keeper, tl_task *task, const tl_event *event, tl_node *node);

/** How the tasks of a client are run: its row is client.backend->runner. */
typedef struct tl_runner {
    /** A machine asks all servers of the URL, over the keeper's connections. So the keeper runs the machines of callers that
     *  block, too, and each server must say which it is. */
    bool asks_all;
    /** NULL, or: what else limits the connections by which requests go. */
    void (*limit)(const struct tl_client *client, tl_conn_limits *limits);
    /** One step of a task, as tl__keeper_run_at. */
    void (*run)(tl_keeper *keeper, tl_task *task, const tl_event *event, tl_node *node);
    /** NULL, or: an answer of this server at this run of it, as it is to a machine. */
    void (*judge)(tl_keeper *keeper, unsigned server, uint64_t run, tl_event *e);
    /** A task's listener listens no longer. NULL: it has none. */
    void (*forget)(tl_keeper *keeper, tl_listener *listener);
} tl_runner;

extern const tl_runner tl__runner_of_one;   /**< keeper_run: a machine asks one server */
extern const tl_runner tl__runner_of_votes; /**< keeper_votes */
/** That of the keeper's client. */
const tl_runner *tl__keeper_runner(const tl_keeper *keeper);

/** Its machine has made a step: when it is due next, or that it has ended. false: that; it may be gone. */
bool tl__keeper_stepped(tl_keeper *keeper, tl_task *task, const tl_out *out, tl_status status);

/** Those of the connections by which requests go. */
tl_conn_limits tl__keeper_limits(const tl_keeper *keeper, tl_conn_limits limits);

/** Give the tasks what has been posted to them. */
void tl__keeper_run_posts(tl_keeper *keeper);

/* Watching keys: */

/** How a protocol of ../compat is told at once that a key has changed: calls of the keeper's, by
 *  tl_protocol.watching. Without it the keys that tasks and listeners want watched have n 0. */
typedef struct tl_watching {
    struct tl_watch *(*begin)(tl_keeper *keeper); /**< NULL: no memory */
    void (*end)(struct tl_watch *watch);          /**< NULL is fine */
    /** Somebody with a key to watch comes or goes. *hears is theirs, for it: false at first. */
    void (*watch)(tl_keeper *keeper, tl_bytes key, bool *hears);
    void (*unwatch)(tl_keeper *keeper, tl_bytes key, bool *hears);
    /** Read a task's key, and give it what that holds as TL_CHANGED. */
    void (*read)(tl_keeper *keeper, tl_task *task);
    /** The same where the server tells of the next change to what was read: after what we have
     *  written ourselves. */
    void (*look)(tl_keeper *keeper, tl_task *task);
    /** Read a listener's key for that, who is told when it has been read. */
    void (*look_for)(tl_keeper *keeper, tl_listener *listener);
    void (*looked)(tl_keeper *keeper, tl_listener *listener, bool ok);
    void (*anew)(tl_keeper *keeper); /**< the connection is new: it must ask again */
    void (*answered)(tl_keeper *keeper, const tl_answer *answer); /**< the server, to that */
    void (*changed)(tl_keeper *keeper, tl_bytes key);             /**< by the wake-ups */
    /** A topic that may be a key's events: what it has told; whether it is in force. */
    void (*event)(tl_keeper *keeper, tl_bytes topic, tl_bytes what);
    void (*events)(tl_keeper *keeper, tl_bytes topic, bool armed);
} tl_watching;

/* keeper_loop: */

/** The loop has something to do. */
void tl__keeper_ring(tl_keeper *keeper);
/** The connection is the thread's again. */
void tl__keeper_take_back(tl_keeper *keeper);

/* For the thread: */

/** Lend it, if the loop is busy. */
void tl__keeper_lend(tl_keeper *keeper);
/** When to look whether the loop turns; look, and take the connection back if it doesn't. `heard`: there was
 *  something to read. */
tl_mono tl__keeper_loop_until(const tl_keeper *keeper);
void tl__keeper_mind_loop(tl_keeper *keeper, bool heard);

/* keeper_listen: */

/** For the wake-ups; ctx is the link. */
void tl__keeper_on_woken(void *ctx, tl_bytes topic, tl_bytes payload);
void tl__keeper_on_armed(void *ctx, tl_bytes topic, bool armed);

/** On etcd: what listens to the deletion of held keys. false: no memory. What of it is polled, and until when. */
bool tl__keeper_make_holds(tl_keeper *keeper);
struct pollfd tl__keeper_holds_fd(const tl_keeper *keeper);
tl_mono tl__keeper_holds_until(const tl_keeper *keeper);

/** When nobody has needed the inbox for long enough; leave it then. */
tl_mono tl__inbox_until(const tl_inbox *inbox);
void tl__link_leave_inbox(tl_link *link, tl_mono now);

/* keeper_join: */

/** Have a send that can be joined sent with others to the same node, by the next flush; `member` is its exchange.
 *  false: out of memory. */
bool tl__keeper_join(tl_keeper *keeper, tl_node *node, const tl_send *send, tl_exchange *member,
                     tl_mono now);
/** Send what has been joined. */
void tl__keeper_flush(tl_keeper *keeper);
/** What came of a batch, at this node (NULL: the one that has the keys): each member gets its part; or they are asked singly, where the server
 *  refused to be asked for many. */
void tl__keeper_deal_out(tl_keeper *keeper, tl_batch *batch, const tl_event *whole, tl_node *node);
/** The connection is new: a server that was found to refuse requests for several slots isn't asked for them again. */
void tl__keeper_joins_anew(tl_keeper *keeper);
/** A `single` exchange is over: there is room for another. */
void tl__keeper_asked_one(tl_keeper *keeper);
/** When somebody who is to be asked singly can wait no longer; fail those who can't. */
tl_mono tl__keeper_singly_until(const tl_keeper *keeper);
void tl__keeper_expire_singly(tl_keeper *keeper, tl_mono now);
/** At the end; the tasks are gone. */
void tl__keeper_free_batches(tl_keeper *keeper);

/* keeper_run: */

/** How many renewals, and how many exchanges, are kept for the next at most. */
unsigned tl__keeper_spares_max(const tl_keeper *keeper);

/** NULL: out of memory. */
tl_exchange *tl__keeper_take_exchange(tl_keeper *keeper);
void tl__keeper_give_exchange(tl_keeper *keeper, tl_exchange *exchange);

/** Send what no machine asks for. Its answer goes to tl_watching.answered for `watch`, to the
 *  listener if there is one, as TL_CHANGED to the task that `reads`, else nowhere. NULL: out of memory. */
tl_exchange *tl__keeper_send_own(tl_keeper *keeper, const tl_send *send, tl_exchange what);

/** A connection is lost, or up again: log it, once each. */
void tl__keeper_log_lost(tl_keeper *keeper, tl_loss *loss, tl_bytes message);
void tl__keeper_log_back(tl_keeper *keeper, tl_loss *loss, const tl_node *node, tl_mono now);

/** A node has answered. */
void tl__keeper_answered(tl_keeper *keeper, tl_node *node, const tl_answer *answer);

/** When the thread has ended, and no mutex is needed any more. */
void tl__keeper_end_tasks(tl_keeper *keeper);
void tl__keeper_free_spares(tl_keeper *keeper);
