/*
 * What a lock is inside, for the files that share it: lock (the calls that block), hold (watching
 * over what is held), async (the calls that don't block).
 */
#ifndef TL_LOCK_H
#define TL_LOCK_H

#include "client/client.h"
#include "client/gate.h"
#include "protocol/acquire.h"
#include "protocol/renew.h"

/** The names of a lock, shared with machines that outlive it. */
typedef struct tl_name {
    atomic_uint refs;
    tl_bytes key, sidecar;
    char room[];
} tl_name;

struct tl_operation;

struct tl_lock {
    tl_client *client;
    const tl_protocol *protocol;
    tl_name *name;
    tl_retry retry;
    void (*on_event)(tl_lock *lock, const tl_lock_event *event, void *ctx);
    void *ctx;
    int64_t ttl_ms, max_hold_ms;
    bool manual_renew;
    bool adopted; /* a token from elsewhere that no answer has confirmed yet */
    tl_token token;
    unsigned passes; /* how often this hold may pass on yet within the process */
    tl_mono taken;   /* from the server, perhaps by another lock of this client */
    tl_rules rules;
    tl_proof proof; /* of the present hold; renew has a newer one while the keeper watches */
    tl_place place;

    /* for any thread */
    _Atomic int64_t deadline_ns;
    _Atomic uint64_t fence;
    atomic_int state;                  /* a tl_state, LOST not yet derived from the deadline */
    _Atomic(struct tl_operation *) op; /* what goes on without a caller that blocks */

    /* under client.mutex */
    tl_waiter *waiter; /* while acquiring */
    bool cancelled;

    /* under keeper.mutex */
    tl_task task;
    tl_renew renew;
    tl_report report;
    tl_lock_event event; /* the newest to report */
    tl_state told;       /* the last that was */
};

/* ---- lock.c ---------------------------------------------------------------------------------- */

tl_name *tl__name_hold(tl_name *name);
void tl__name_release(void *hold);

tl_job tl__lock_job(const tl_lock *lock);
bool tl__lock_is_held(const tl_lock *lock);
/** Fill err with "what KEY: words". */
tl_err tl__lock_fail(const tl_lock *lock, tl_err code, const char *what, const char *words,
                     tl_error *err);
/** The same, and the errno behind it. */
tl_err tl__lock_fail_by(const tl_lock *lock, tl_err code, const char *what, const char *words,
                        int sys_errno, tl_error *err);
/** May an operation begin? TL_OK, or TL_EINVALID. */
tl_err tl__lock_check(const tl_lock *lock, const char *what, tl_error *err);
/** As the first thing of an acquire: TL_EINVALID for a wait that can't be, or when it is held. */
tl_err tl__lock_begin_acquire(tl_lock *lock, int64_t wait_ms, tl_error *err);
/** Come to the front, or stand in the queue: a place's state. A strategy of the caller's own stays
 *  outside, where its pauses are nobody else's; one that tries once doesn't queue. */
int tl__lock_enter(tl_lock *lock, int64_t wait_ms, tl_turn *turn);
/** Take a cancel that came before the acquire, or is over with it. */
bool tl__lock_was_cancelled(tl_lock *lock);
/** How long to try to reach the server, for one that has waited since then. */
int64_t tl__lock_connect_ms(const tl_lock *lock, tl_mono since);
/** Why it was not had: the words, or that this process holds it itself. */
const char *tl__lock_busy(const tl_lock *lock, tl_err code, const char *words);
/** What a wait in the local queue has come to when its time is up. */
tl_err tl__lock_queue_timeout(const tl_lock *lock, tl_mono since, const char **words);
/** As the first thing of a release: TL_EINVALID when it is not held. Passed: it is done already, and
 *  the hold is another lock's of this process. */
tl_err tl__lock_begin_release(tl_lock *lock, bool *ret_passed, tl_error *err);
/** What has been taken, as a hold. */
tl_hold tl__lock_hold_of(const tl_lock *lock, const tl_acquire *a);

/* ---- hold.c: all but tl__hold_init and the queries take the keeper's mutex, or want it (_in) --- */

void tl__hold_init(tl_lock *lock);
void tl__hold_publish(tl_lock *lock, tl_state state, tl_mono deadline);
/** HELD from now on, and watched over by the keeper, which is ready. TL_ENOMEM: FREE, and what was
 *  taken is dropped. */
tl_err tl__hold_begin(tl_lock *lock, const tl_hold *hold, uint64_t seed);
tl_err tl__hold_begin_in(tl_lock *lock, const tl_hold *hold, uint64_t seed);
/** Watch over a deadline that an extension has proved; the keeper is ready. TL_ENOMEM */
tl_err tl__hold_watch(tl_lock *lock, tl_mono deadline, uint64_t seed);
/** Bring lock->proof up to what the last renewal has proved. */
void tl__hold_prove(tl_lock *lock);
/** True when something of the hold may be left over that nobody has dropped. */
bool tl__hold_stop(tl_lock *lock);
/** In the background: make sure that nothing of a hold which is over stands in anyone's way. */
void tl__hold_drop(tl_lock *lock);
/** The hold as it may pass on, and whether it may: still ours and in good health. */
bool tl__hold_passable(const tl_lock *lock, tl_hold *ret);

#endif
