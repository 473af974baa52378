/*
 * Operations that the keeper runs in the background, instead of a caller that blocks.
 */
#pragma once

#include "protocol/protocol.h"

struct tl_lock;

/** Cancel the acquire that is in flight, if there is one. Any thread. */
void tl__async_cancel(struct tl_lock *lock);

/** The lock is being freed: give up the operation that is in flight and clean up after it in the
 *  background. Its callback is not called. */
void tl__async_abandon(struct tl_lock *lock);

/* For callers that block, where tl_runner.asks_all is set: the keeper runs these operations too. It uses the
 * connections by which it renews, so that later requests for the same lock can't overtake these. */
/** For a thread that may be cancelled while it waits. */
typedef struct {
    int state; /**< its cancellation state before the call (ground/cancel) */
    /** Releases the lock if it was acquired although the thread was cancelled. */
    tl_err (*release)(struct tl_lock *lock, tl_error *err);
} tl_operation_cancel;
/** cancel NULL: the thread is not cancelled while it waits. */
tl_err tl__operation_acquire(struct tl_lock *lock, int64_t wait_ms,
                             const tl_operation_cancel *cancel, tl_error *err);
/** Only after tl__hold_begin_release has returned TL_OK and not passed the hold on. */
tl_err tl__operation_release(struct tl_lock *lock, int64_t rest_ms, tl_error *err);
typedef struct {
    /** OK: the renewals go on, with the new deadline; false: nobody renews the hold. */
    bool renewed;
    tl_result result;
} tl_operation_extended;
tl_err tl__operation_extend(struct tl_lock *lock, int64_t ttl_ms, tl_operation_extended *ret,
                            tl_error *err);
