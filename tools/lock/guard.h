/*
 * When to end the command: pure arithmetic on the time that remains of the lock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef enum { ON_LOST_TERM, ON_LOST_KILL, ON_LOST_CONTINUE } on_lost_mode;
typedef enum { GUARD_NOTHING, GUARD_TERM, GUARD_KILL } guard_action;

typedef struct {
    on_lost_mode on_lost;
    int64_t term_lead_ms;   /**< TERM is due so long before the deadline */
    int64_t kill_lead_ms;   /**< KILL is due so long before the deadline */
    int64_t grace_ms;       /**< KILL is due so long after a TERM by --max-hold */
    int64_t max_hold_until; /**< when --max-hold ends; INT64_MAX: no limit */
    int64_t kill_at;        /**< when the KILL that follows a TERM is due */
    bool term_sent, kill_sent;
    bool for_loss; /**< the command is ended since the lock is lost, or about to be */
} guard;

/** believed_ms: the time that remains of the lock now; with stamps much less than ttl_ms. max_hold_ms below
 *  0: no limit. */
guard guard_begin(on_lost_mode on_lost, int64_t ttl_ms, int64_t believed_ms, int64_t max_hold_ms,
                  int64_t now_ms);

/**
 * The action that is due now. Call it again after ret_wake_ms (INT64_MAX: only when something happens), and
 * whenever the lock may have changed.
 */
guard_action guard_step(guard *guard, int64_t now_ms, int64_t remaining_ms, int64_t *ret_wake_ms);
