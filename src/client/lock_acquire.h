/*
 * Acquiring a lock: the machine that queues locally and asks the server, and the steps before and after it.
 * Callers that block and callers that don't use the same.
 */
#pragma once

#include "client/lock.h"
#include "protocol/etcd_acquire.h"

struct tl_acquiring;

/** How a lock is acquired at a kind of server: its row is client.backend->asker. */
typedef struct tl_asker {
    bool queues; /**< a waiter with the usual retry strategy first waits in the local queue */
    size_t room; /**< bytes at tl_acquiring.room, of a machine that the keeper runs */
    /** Make that room ready for the task that runs the machine. Returns the task's listener, or an array of
     *  one for each server. NULL: there is no room, and the task has one listener. */
    tl_listener *(*attach)(struct tl_acquiring *m, void *room, tl_task *task);
    /** Begin to ask. job: as for any machine of the lock; start: the first event. */
    tl_status (*ask)(struct tl_acquiring *m, tl_job *job, const tl_event *start, int64_t wait_ms,
                     int64_t connect_ms, tl_out *out);
    /** A step after that. Once m->over is set, the lock may have been freed. */
    tl_status (*step)(struct tl_acquiring *m, tl_event *e, tl_out *out);
    /** The machine that goes on after TL_DETACH, and its size in bytes. */
    tl_machine (*rest)(struct tl_acquiring *m, size_t *ret_size);
    /** After TL_OK: the hold, without what the local queue knows of it. */
    tl_hold (*held)(const struct tl_acquiring *m);
    /** Has a server replied that another holds the lock? */
    bool (*answered)(const struct tl_acquiring *m);
    /** Has the server of the key (or a majority) answered since then? For how long, ms, has it left a
     *  question without a reply? */
    bool (*was_heard)(tl_client *client, tl_bytes key, tl_mono since);
    int64_t (*mute_ms)(tl_client *client, tl_bytes key, tl_mono since);
} tl_asker;

typedef struct tl_acquiring {
    union { /* the first member: it begins with the result */
        tl_acquisition ask;
        tl_etcd_acquisition etcd;
    };
    const tl_asker *asker;
    void *room; /**< tl_asker.room: begins with its machine */
    tl_lock *lock;
    tl_listener *listener; /**< gets TL_WAKE_WOKEN when it is first in the local queue */
    tl_turn turn;
    uint64_t random; /**< seeds of the machines for this acquire and for its hold */
    enum { TL_BEGINNING, TL_QUEUING, TL_ASKING } state;
    bool queued; /**< it has waited in the local queue */
    bool waits;  /**< counted as waiting, in tl_counts */
    bool called; /**< it is first, and the TL_WAKE_WOKEN for that is still to come */
    bool over;   /**< only cleaning up is left, if anything; the lock may have been freed */
    int64_t wait_ms;
    int64_t spent_ms; /**< how much of connect_ms was used before it began */
    tl_mono since, limit;
} tl_acquiring;

/** The first step of an acquire. TL_EINVALID: wait_ms is negative, the lock is held, or an operation
 *  is in progress. */
tl_err tl__lock_begin_acquire(tl_lock *lock, int64_t wait_ms, tl_error *err);
/** Its parts: the checks, and the rest with keeper.mutex held; the keeper runs. */
tl_err tl__lock_may_acquire(const tl_lock *lock, int64_t wait_ms, tl_error *err);
void tl__lock_begin_acquire_in(tl_lock *lock);
/** Make the wait visible to tl_lock_cancel. false: it was cancelled before it began. */
bool tl__lock_open_wait(tl_lock *lock, tl_waiter *waiter);
void tl__lock_close_wait(tl_lock *lock);
/** Was the lock cancelled, before its acquire or until the acquire ended? Clears that. */
bool tl__lock_was_cancelled(tl_lock *lock);
/** Does this process hold the lock, and can nobody release it while this thread waits? */
bool tl__lock_waits_for_itself(const tl_lock *lock);

/** The machine and the listener must not move until the machine has ended. Its first event is TL_START, or
 *  TL_CANCEL if it was cancelled before. After TL_DETACH only tl__lock_acquire_rest goes on. */
void tl__lock_acquire_init(tl_acquiring *machine, tl_lock *lock, int64_t wait_ms,
                           tl_listener *listener, uint64_t seed);
tl_status tl__lock_acquire_step(void *machine, const tl_event *event, tl_out *out);

/** The machine that goes on after TL_DETACH, and its size in bytes. */
tl_machine tl__lock_acquire_rest(tl_acquiring *machine, size_t *ret_size);

/** After TL_OK: the hold, and a seed for its renewals. */
tl_hold tl__lock_acquired(const tl_acquiring *machine);
uint64_t tl__lock_acquired_seed(tl_acquiring *machine);
/** The message of a failed acquire: `message`, unless another handle of this process holds the lock. */
const char *tl__lock_busy(const tl_lock *lock, tl_err code, const char *message);
