/*
 * Operations that go on without a caller that blocks: the keeper runs them.
 */
#pragma once

#include "protocol/protocol.h"

struct tl_lock;

/** Cancel the acquire that is in flight, if there is one. Any thread. */
void tl__async_cancel(struct tl_lock *lock);

/** The lock is being freed: what is in flight is given up, and cleaned up in the background; nobody
 *  is called. */
void tl__async_abandon(struct tl_lock *lock);

/* For callers that block, where tl_runner.asks_all: the keeper runs these, too, over the connections by which it renews, so
 * that what follows for the same lock can't overtake them. */
/** Of a thread that may be cancelled while it waits. */
typedef struct {
    int state; /**< as ground/cancel has it */
    tl_err (*release)(struct tl_lock *lock,
                      tl_error *err); /**< what it has acquired all the same */
} tl_operation_cancel;
tl_err tl__operation_acquire(struct tl_lock *lock, int64_t wait_ms,
                             const tl_operation_cancel *cancel, tl_error *err);
/** tl__hold_begin_release has said that it may be. */
tl_err tl__operation_release(struct tl_lock *lock, tl_error *err);
typedef struct {
    bool renewed; /**< OK: its renewals go on, and know; false: it is only noted */
    tl_result result;
} tl_operation_extended;
tl_err tl__operation_extend(struct tl_lock *lock, int64_t ttl_ms, tl_operation_extended *ret,
                            tl_error *err);
