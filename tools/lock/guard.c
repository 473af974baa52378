/*
 * When to end the command. Each renewal moves the deadline, so the guard remembers nothing of it, with one
 * exception. Once TERM was sent the KILL is certain, even if a late renewal succeeds: the command was asked
 * to end, and a deadline that moves would let it linger.
 */
#include "lock/guard.h"
#include "ground/guard.h"

#define TERM_LEAD_MAX_MS 5000
#define KILL_LEAD_MAX_MS 100

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

guard guard_begin(on_lost_mode on_lost, int64_t ttl_ms, int64_t believed_ms, int64_t max_hold_ms,
                  int64_t now_ms) {
    int64_t lead = least(ttl_ms / 4, TERM_LEAD_MAX_MS);

    return (guard){
        .on_lost = on_lost,
        /* The first renewal comes after a third of believed_ms: no TERM before that. */
        .term_lead_ms = GUARD(term_before_deadline) * least(lead, believed_ms / 4),
        .grace_ms = lead,
        /* Lifetimes below 0.8 s have no 100 ms to spare between two renewals. */
        .kill_lead_ms = GUARD(kill_before_deadline) * least(lead / 2, KILL_LEAD_MAX_MS),
        .max_hold_until = max_hold_ms < 0 ? INT64_MAX : now_ms + max_hold_ms,
        .kill_at = INT64_MAX,
    };
}

static guard_action kill_now(guard *guard) {
    guard->kill_sent = true;
    return GUARD_KILL;
}

static guard_action term_now(guard *guard, int64_t kill_at) {
    bool first = !guard->term_sent;

    guard->term_sent = true;
    guard->kill_at = least(guard->kill_at, kill_at);
    return first ? GUARD_TERM : GUARD_NOTHING;
}

/* The action that is due because of the lock, apart from --max-hold. */
static guard_action step_lock(guard *guard, int64_t now_ms, int64_t remaining_ms) {
    if (guard->on_lost == ON_LOST_CONTINUE)
        return GUARD_NOTHING;
    if (remaining_ms <= guard->kill_lead_ms) {
        guard->for_loss = true;
        return kill_now(guard);
    }
    if (guard->on_lost == ON_LOST_TERM && !guard->for_loss && remaining_ms <= guard->term_lead_ms) {
        guard->for_loss = true;
        return term_now(guard, now_ms + remaining_ms - guard->kill_lead_ms);
    }
    return GUARD_NOTHING;
}

static int64_t until_next(const guard *guard, int64_t now_ms, int64_t remaining_ms) {
    int64_t wake = INT64_MAX;

    if (guard->on_lost != ON_LOST_CONTINUE)
        wake = remaining_ms - guard->kill_lead_ms;
    if (guard->on_lost == ON_LOST_TERM && !guard->for_loss)
        wake = least(wake, remaining_ms - guard->term_lead_ms);
    if (!guard->term_sent && guard->max_hold_until != INT64_MAX)
        wake = least(wake, guard->max_hold_until - now_ms);
    if (guard->term_sent)
        wake = least(wake, guard->kill_at - now_ms);
    return wake < 0 ? 0 : wake;
}

guard_action guard_step(guard *guard, int64_t now_ms, int64_t remaining_ms, int64_t *ret_wake_ms) {
    *ret_wake_ms = INT64_MAX;
    if (guard->kill_sent)
        return GUARD_NOTHING;
    guard_action action = step_lock(guard, now_ms, remaining_ms);
    if (action == GUARD_NOTHING && !guard->term_sent && now_ms >= guard->max_hold_until)
        action = term_now(guard, now_ms + guard->grace_ms);
    if (GUARD(kill_follows_term) && action != GUARD_KILL && guard->term_sent &&
        now_ms >= guard->kill_at)
        action = kill_now(guard);
    if (!guard->kill_sent)
        *ret_wake_ms = until_next(guard, now_ms, remaining_ms);
    return action;
}
