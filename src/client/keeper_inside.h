/*
 * The inside of the keeper, for its files. keeper: the thread. keeper_run: how it runs tasks. run: one step
 * of a machine that it or a caller runs. keeper_loop: the part of its work that a caller's loop does.
 * keeper_join: renewals of many locks in one request. keeper_listen: the listeners and their topics.
 *
 * The mutex is held for all functions, unless a comment says otherwise.
 */
#pragma once

#include "client/batch.h"
#include "client/keeper.h"
#include "client/node.h"
#include "ground/wait.h"

/** A request in flight. */
typedef struct tl_exchange {
    tl_task *task;         /**< NULL: the reply is ignored */
    tl_batch *batch;       /**< a joined request: it belongs to its members, not to one task */
    bool single;           /**< for one member of a refused batch; counted in keeper.singles */
    bool alone;            /**< as tl_send.alone */
    uint8_t server;        /**< which of several independent servers is asked */
    bool watch;            /**< the keeper's own request, about watching */
    bool reads;            /**< it reads the task's key after a change; not sent by its machine */
    tl_listener *listener; /**< the listener that waits for this reply; NULL: none */
    struct tl_exchange *next; /**< of the same task, or in the list of spare ones */
} tl_exchange;

/** Wake the thread, if it polls and was not woken yet. */
void tl__keeper_wake(tl_keeper *keeper);
/** Wake the thread in any case; without the mutex. */
void tl__keeper_rouse(tl_keeper *keeper);

/** Make the thread, or the loop that has the connection, write what is queued there. */
void tl__keeper_wake_writer(tl_keeper *keeper);

/** Call at most `most` queued reports; returns how many. The mutex is unlocked during each call. */
unsigned tl__keeper_deliver(tl_keeper *keeper, unsigned most);

/** Run one step of a task, and send what it asks for. The task may be freed by that. */
void tl__keeper_run(tl_keeper *keeper, tl_task *task, const tl_event *event);
/** The same for the reply of this node; NULL: the node that has the task's key. */
void tl__keeper_run_at(tl_keeper *keeper, tl_task *task, const tl_event *event, tl_node *node);

/** How the tasks of a client are run: its row is client.backend->runner. */
typedef struct tl_runner {
    /** A machine asks all servers of the URL, over the keeper's connections. So the keeper also runs the
     *  machines of callers that block, and each server must report its run. */
    bool asks_all;
    /** Change the limits of the connections that requests use. NULL: there is nothing to change. */
    void (*limit)(const struct tl_client *client, tl_conn_limits *limits);
    /** One step of a task, as tl__keeper_run_at. */
    void (*run)(tl_keeper *keeper, tl_task *task, const tl_event *event, tl_node *node);
    /** Before a machine gets the event `e`, a reply of this server at this run: reject it if the server's
     *  vote must not count. NULL: never. */
    void (*judge)(tl_keeper *keeper, unsigned server, uint64_t run, tl_event *e);
    /** A task's listener stops listening. listener NULL: it has none. */
    void (*forget)(tl_keeper *keeper, tl_listener *listener);
} tl_runner;

extern const tl_runner tl__runner_of_one;   /**< keeper_run: a machine asks one server */
extern const tl_runner tl__runner_of_votes; /**< keeper_votes */
/** The row of the keeper's client. */
const tl_runner *tl__keeper_runner(const tl_keeper *keeper);

/** The task's machine has made a step: set when the task is due next, or end it. false: it has ended, and may
 *  have been freed. */
bool tl__keeper_stepped(tl_keeper *keeper, tl_task *task, const tl_out *out, tl_status status);

/** The limits of the connections that requests use. */
tl_conn_limits tl__keeper_limits(const tl_keeper *keeper, tl_conn_limits limits);

/** Run the tasks with the bits that were posted to them. */
void tl__keeper_run_posts(tl_keeper *keeper);

/* Watching keys: */

/** How the keeper notices at once that a key has changed, for a protocol of ../compat
 *  (tl_protocol.watching); the keeper calls these functions. Without watching, the keys that tasks and
 *  listeners want watched have n 0. */
typedef struct tl_watching {
    struct tl_watch *(*begin)(tl_keeper *keeper); /**< NULL: no memory */
    void (*end)(struct tl_watch *watch);          /**< NULL is fine */
    /** A task or a listener begins or ends watching a key. `*hears` is its own flag for that;
     *  false at first. */
    void (*watch)(tl_keeper *keeper, tl_bytes key, bool *hears);
    void (*unwatch)(tl_keeper *keeper, tl_bytes key, bool *hears);
    /** Read a task's key, and give its value to the task as TL_CHANGED. */
    void (*read)(tl_keeper *keeper, tl_task *task);
    /** The same, where the server notifies only of the next change after a read. For use
     *  after our own write. */
    void (*look)(tl_keeper *keeper, tl_task *task);
    /** Read a listener's key, so that the server notifies of its next change. Then `looked` is called. */
    void (*look_for)(tl_keeper *keeper, tl_listener *listener);
    void (*looked)(tl_keeper *keeper, tl_listener *listener, bool ok);
    /** The connection is lost or new: ask the server again for notifications. */
    void (*anew)(tl_keeper *keeper);
    void (*answered)(tl_keeper *keeper, const tl_answer *answer); /**< the reply to that */
    void (*changed)(tl_keeper *keeper, tl_bytes key);             /**< as in tl_wakeup_calls */
    /** For a topic that may be the events of a key: a message; whether it is subscribed to. */
    void (*event)(tl_keeper *keeper, tl_bytes topic, tl_bytes what);
    void (*events)(tl_keeper *keeper, tl_bytes topic, bool armed);
} tl_watching;

/* keeper_loop: */

/** Wake the program's loop: it has something to do. */
void tl__keeper_ring(tl_keeper *keeper);
/** Take the connection back from the loop. */
void tl__keeper_take_back(tl_keeper *keeper);

/* For the thread: */

/** Lend the connection to the loop, if the loop is busy. */
void tl__keeper_lend(tl_keeper *keeper);
/** until: when to look whether the loop still dispatches. mind: look, and take the connection back if it does
 *  not. `heard`: the thread has read something meanwhile. */
tl_mono tl__keeper_loop_until(const tl_keeper *keeper);
void tl__keeper_mind_loop(tl_keeper *keeper, bool heard);

/* keeper_listen: */

/** For tl_wakeup_calls; ctx is the link. */
void tl__keeper_on_woken(void *ctx, tl_bytes topic, tl_bytes payload);
void tl__keeper_on_armed(void *ctx, tl_bytes topic, bool armed);

/** On etcd: make keeper.holds (false: no memory); its descriptor to poll; when to drive it. */
bool tl__keeper_make_holds(tl_keeper *keeper);
struct pollfd tl__keeper_holds_fd(const tl_keeper *keeper);
tl_mono tl__keeper_holds_until(const tl_keeper *keeper);

/** until: when the inbox will have been unused for long enough. leave: unsubscribe if that time has come. */
tl_mono tl__inbox_until(const tl_inbox *inbox);
void tl__link_leave_inbox(tl_link *link, tl_mono now);

/* keeper_join: */

/** Join a send to others for the same node; the next flush sends them. `member` is its exchange.
 *  false: out of memory. */
bool tl__keeper_join(tl_keeper *keeper, tl_node *node, const tl_send *send, tl_exchange *member,
                     tl_mono now);
/** Send what has been joined. */
void tl__keeper_flush(tl_keeper *keeper);
/** A batch was answered by this node (NULL: the one that has the keys), or failed: give each member its part.
 *  If the server refused the joined request, send each member alone instead. */
void tl__keeper_deal_out(tl_keeper *keeper, tl_batch *batch, const tl_event *whole, tl_node *node);
/** The connection is new. A server that refuses requests for several slots gets none, unless it
 *  is another one. */
void tl__keeper_joins_anew(tl_keeper *keeper);
/** A `single` exchange has ended: send the next one. */
void tl__keeper_asked_one(tl_keeper *keeper);
/** until: the earliest limit of the members that are still to be sent alone. expire: fail those past it. */
tl_mono tl__keeper_singly_until(const tl_keeper *keeper);
void tl__keeper_expire_singly(tl_keeper *keeper, tl_mono now);
/** At the end, after all tasks have ended. */
void tl__keeper_free_batches(tl_keeper *keeper);

/* keeper_run: */

/** How many idle renewals are kept at most; also how many idle exchanges. */
unsigned tl__keeper_spares_max(const tl_keeper *keeper);

/** NULL: out of memory. */
tl_exchange *tl__keeper_take_exchange(tl_keeper *keeper);
void tl__keeper_give_exchange(tl_keeper *keeper, tl_exchange *exchange);

/** Send a request of the keeper's own, not of a machine. The reply goes to what.listener if there is one.
 *  Else with what.watch to tl_watching.answered, with what.reads to the task as TL_CHANGED, else nowhere.
 *  NULL: out of memory. */
tl_exchange *tl__keeper_send_own(tl_keeper *keeper, const tl_send *send, tl_exchange what);

/** Log that a connection was lost, or is up again; each once. */
void tl__keeper_log_lost(tl_keeper *keeper, tl_loss *loss, tl_bytes message);
void tl__keeper_log_back(tl_keeper *keeper, tl_loss *loss, const tl_node *node, tl_mono now);

/** A request to this node was answered, or has failed. */
void tl__keeper_answered(tl_keeper *keeper, tl_node *node, const tl_answer *answer);

/** After the thread has ended, when no mutex is needed any more. */
void tl__keeper_end_tasks(tl_keeper *keeper);
void tl__keeper_free_spares(tl_keeper *keeper);
