/*
 * Acquiring a lock: the machine that stands in the local queue and asks the server, and what comes before
 * and after it, the same for callers that block and for those that don't.
 */
#pragma once

#include "client/lock.h"
#include "protocol/etcd_acquire.h"

struct tl_acquiring;

/** How a lock is acquired at a kind of server: its row is client.backend->asker. */
typedef struct tl_asker {
    bool queues; /**< who waits in the usual way stands in the local queue first */
    size_t
        room; /**< so many bytes of its own the machine of an operation has, at tl_acquiring.room */
    /** NULL, or: make that ready for the task that runs the machine. The listener of the task, or listeners. */
    tl_listener *(*attach)(struct tl_acquiring *m, void *room, tl_task *task);
    /** Begin to ask. job: as for any machine of the lock; start: the first event. */
    tl_status (*ask)(struct tl_acquiring *m, tl_job *job, const tl_event *start, int64_t wait_ms,
                     int64_t connect_ms, tl_out *out);
    /** A step after that. Once it is over the lock may be gone. */
    tl_status (*step)(struct tl_acquiring *m, tl_event *e, tl_out *out);
    /** The machine that goes on after TL_DETACH, and how large it is. */
    tl_machine (*rest)(struct tl_acquiring *m, size_t *ret_size);
    /** It has ended with TL_OK: the hold, but for what the queue knows of it. */
    tl_hold (*held)(const struct tl_acquiring *m);
    /** Has it been told that another holds the lock? */
    bool (*answered)(const struct tl_acquiring *m);
    /** Has whoever is asked about the key answered since then; and for how long has a question been without an answer? */
    bool (*was_heard)(tl_client *client, tl_bytes key, tl_mono since);
    int64_t (*mute_ms)(tl_client *client, tl_bytes key, tl_mono since);
} tl_asker;

typedef struct tl_acquiring {
    union { /* first: it has the result */
        tl_acquisition ask;
        tl_etcd_acquisition etcd;
    };
    const tl_asker *asker;
    void *room; /**< tl_asker.room: its machine first */
    tl_lock *lock;
    tl_listener *listener; /**< who is told when it is its turn, by TL_WAKE_WOKEN */
    tl_turn turn;
    enum { TL_BEGINNING, TL_QUEUING, TL_ASKING } state;
    bool queued; /**< it has stood in the queue */
    bool called; /**< it is at the front, and TL_WAKE_WOKEN for that is yet to come */
    bool over;   /**< only cleaning up is left, if anything */
    int64_t wait_ms;
    int64_t spent_ms; /**< of connect_ms, before it began */
    tl_mono since, limit;
} tl_acquiring;

/** As the first thing of an acquire: TL_EINVALID for a wait that can't be, or when it is held. */
tl_err tl__lock_begin_acquire(tl_lock *lock, int64_t wait_ms, tl_error *err);
/** Make the wait visible to tl_lock_cancel. false: it has been cancelled before it began. */
bool tl__lock_open_wait(tl_lock *lock, tl_waiter *waiter);
void tl__lock_close_wait(tl_lock *lock);
/** Take a cancel that came before the acquire, or is over with it. */
bool tl__lock_was_cancelled(tl_lock *lock);
/** Is it held here, with nobody who could release it while this thread waits? */
bool tl__lock_waits_for_itself(const tl_lock *lock);

/** It stays where it is, and so does the listener, until the machine has ended. TL_CANCEL instead of
 *  TL_START: it was cancelled before. After TL_DETACH it is only `ask` that goes on. */
void tl__lock_acquire_init(tl_acquiring *machine, tl_lock *lock, int64_t wait_ms,
                           tl_listener *listener);
tl_status tl__lock_acquire_step(void *machine, const tl_event *event, tl_out *out);

/** What goes on after TL_DETACH, and how large it is. */
tl_machine tl__lock_acquire_rest(tl_acquiring *machine, size_t *ret_size);

/** It has ended with TL_OK: the hold. */
tl_hold tl__lock_acquired(const tl_acquiring *machine);
/** Why it was not had: the words, or that this process holds it itself. */
const char *tl__lock_busy(const tl_lock *lock, tl_err code, const char *message);
