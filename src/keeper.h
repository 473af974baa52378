/*
 * The keeper: one thread a client that renews locks, reports what becomes of them, listens for
 * wake-ups and finishes what callers have left behind. It runs step machines on one connection.
 */
#ifndef TL_KEEPER_H
#define TL_KEEPER_H

#include <pthread.h>

#include "conn.h"
#include "protocol.h"
#include "wakeup.h"

struct tl_client;
struct tl_waiter;
struct tl_exchange;
typedef struct tl_task tl_task;

/** A machine that the keeper runs. Owned by whoever starts it; everything under keeper.mutex. */
struct tl_task {
    void *machine;
    tl_step step;
    /** After each step: take over results and notes. May free the task at TL_END. Must not block or
     *  call back. */
    void (*stepped)(tl_task *task, const tl_out *out, tl_status status);
    tl_mono until;
    struct tl_exchange *exchange; /**< the one under way */
    uint32_t at;                  /**< place in the heap, from 1; 0: not there */
};

/** Something to report when the keeper holds no mutex. */
typedef struct tl_report {
    void (*deliver)(struct tl_report *report);
    struct tl_report *next;
    bool queued;
} tl_report;

typedef struct {
    struct tl_client *client;
    pthread_mutex_t mutex;
    pthread_cond_t delivered;
    pthread_t thread;
    bool running, closing;
    bool rejudge;     /**< the server's clock stepped: every lock is renewed at once */
    tl_mono close_by; /**< closing: no longer than this */
    int wake, timer;  /**< eventfd, timerfd */
    tl_mono planned;  /**< the thread looks again by then */
    tl_conn *conn;
    tl_wakeup *wakeup;
    struct tl_waiter *listeners;
    tl_task **heap; /**< earliest `until` first; [0] is unused */
    uint32_t heap_count, heap_room;
    uint32_t detached; /**< machines left behind by callers */
    struct tl_exchange *spare;
    tl_report *reports, **reports_end;
    tl_report *delivering;
} tl_keeper;

tl_err tl__keeper_init(tl_keeper *keeper, struct tl_client *client);
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
/** Forget a task; what it has under way goes unheard. Fine for one that isn't running. */
void tl__keeper_remove(tl_keeper *keeper, tl_task *task);

void tl__keeper_report(tl_keeper *keeper, tl_report *report);
/** Take a report back; waits while it is being delivered by the keeper's thread. */
void tl__keeper_unreport(tl_keeper *keeper, tl_report *report);

/* Without the mutex: */

/** Run a copy of a machine (of `size`, in state TL_DETACH) to its end. `hold` is kept until then,
 *  and let go by release(hold). On failure it is dropped: what it would clean up expires. */
void tl__keeper_detach(tl_keeper *keeper, const void *machine, size_t size, tl_step step,
                       tl_event_kind kind, void *hold, void (*release)(void *hold));

/** The server's clock stepped: have every lock renewed at once. */
void tl__keeper_rejudge(tl_keeper *keeper);

/** Listen to a topic for a waiter: WAKE_ARMED or WAKE_DISARMED, then WAKE_WOKEN are posted to it. */
void tl__keeper_listen(tl_keeper *keeper, struct tl_waiter *waiter, tl_bytes topic);
void tl__keeper_forget(tl_keeper *keeper, struct tl_waiter *waiter);

#endif
