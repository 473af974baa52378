/*
 * Acquiring a lock: the machine that stands in the local queue and asks the server, and what comes before
 * and after it, the same for callers that block and for those that don't.
 */
#ifndef TL_LOCK_ACQUIRE_H
#define TL_LOCK_ACQUIRE_H

#include "client/lock.h"
#include "protocol/etcd_acquire.h"
#include "protocol/quorum_acquire.h"

/** What several servers have told by their topics, and has not been given to the machine yet: a bit for each. Under
 *  keeper.mutex. */
typedef struct {
    uint8_t armed, disarmed, woken;
} tl_news;

typedef struct {
    union { /* first: it has the result */
        tl_acquisition ask;
        tl_etcd_acquisition etcd;
    };
    bool on_etcd;
    tl_quorum_acquisition *votes; /**< in its place, of several servers; NULL: of one */
    tl_news *news;                /**< with it */
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
/** After it, of several servers: what else it is, which lasts as long. */
static inline void tl__lock_acquire_votes(tl_acquiring *machine, tl_quorum_acquisition *votes,
                                          tl_news *news) {
    machine->votes = votes;
    machine->news = news;
}
tl_status tl__lock_acquire_step(void *machine, const tl_event *event, tl_out *out);

/** What goes on after TL_DETACH, and how large it is. */
tl_machine tl__lock_acquire_rest(tl_acquiring *machine, size_t *ret_size);

/** It has ended with TL_OK: the hold. */
tl_hold tl__lock_acquired(const tl_acquiring *machine);
/** Why it was not had: the words, or that this process holds it itself. */
const char *tl__lock_busy(const tl_lock *lock, tl_err code, const char *words);

#endif
