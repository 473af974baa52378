/*
 * Floor 2: keeping a lock. Renewal is due at a third of the validity. It must report LOST no later
 * than the deadline, and never move a deadline on anything but an answer that proves it.
 */
#include "renew.h"

#define EARLY_NS 1000000 /* LOST is said 1 ms early, so that a late timer is still in time */
#define PARTS 3          /* renew at, and wait for an answer no longer than, a third */

void tl__renew_init(tl_renew *r, const tl_job *job, tl_mono deadline, tl_mono hold, bool by_hand,
                    uint64_t seed) {
    *r = (tl_renew){.job = *job, .hold = hold, .next = TL_NEVER, .by_hand = by_hand};
    r->result.deadline = deadline;
    r->random = seed ? seed : 1;
}

static tl_mono end(const tl_renew *r) {
    return tl__mono_min(tl__mono_add_ns(r->result.deadline, -EARLY_NS), r->hold);
}

static void plan(tl_renew *r, tl_mono now) {
    int64_t left = tl__ns_until(now, r->result.deadline);
    if (!r->by_hand)
        r->next = tl__mono_add_ns(now, left / PARTS);
}

static tl_status lost(tl_renew *r, tl_lost_why why, tl_out *out) {
    r->result.code = TL_ELOST;
    r->result.why = why;
    tl__out_note(out, TL_NOTE_LOST, why);
    return TL_END;
}

static tl_status ask(tl_renew *r, const tl_event *e, tl_out *out) {
    int64_t left = tl__ns_until(e->now, end(r)), limit = r->job.attempt_ms * TL_NS_PER_MS;
    tl_mono by = tl__mono_add_ns(e->now, left / PARTS < limit ? left / PARTS : limit);
    tl_event start = {.kind = TL_START, .now = e->now, .server = e->server};
    r->next = TL_NEVER;
    r->job.protocol->init(&r->attempt, TL_KEEP, ++r->ticket, by);
    return r->job.protocol->step(&r->attempt, &r->job, &start, out);
}

static void kept(tl_renew *r, const tl_event *e, tl_out *out) {
    r->result.deadline = r->attempt.result.deadline;
    r->failures = 0;
    if (r->at_risk)
        tl__out_note(out, TL_NOTE_HELD, TL_LOST_NOT);
    r->at_risk = false;
    plan(r, e->now);
}

static void missed(tl_renew *r, const tl_event *e, tl_out *out) {
    if (!r->at_risk)
        tl__out_note(out, TL_NOTE_AT_RISK, TL_LOST_NOT);
    r->at_risk = true;
    r->failures++;
    int64_t pause = tl__mul_sat(tl__backoff_ms(r->failures, &r->random), TL_NS_PER_MS);
    int64_t most = tl__ns_until(e->now, end(r)) / (2 * PARTS);
    r->next = tl__mono_add_ns(e->now, r->failures == 1 ? 0 : pause < most ? pause : most);
}

static tl_status go_on(tl_renew *r, const tl_event *e, tl_out *out) {
    if (!tl__mono_before(e->now, end(r)))
        return lost(r, tl__mono_before(e->now, r->hold) ? TL_LOST_EXPIRED : TL_LOST_MAX_HOLD, out);
    out->until = tl__mono_min(r->next, end(r));
    if (tl__mono_before(e->now, r->next))
        return TL_GO;
    tl_status status = ask(r, e, out);
    out->until = end(r);
    return status;
}

static tl_status on_answer(tl_renew *r, const tl_event *e, tl_out *out) {
    if (e->ticket == r->ticket && r->next.ns == INT64_MAX &&
        r->job.protocol->step(&r->attempt, &r->job, e, out) == TL_END) {
        if (r->attempt.result.code == TL_ELOST)
            return lost(r, r->attempt.result.why, out);
        if (r->attempt.result.code == TL_OK)
            kept(r, e, out);
        else
            missed(r, e, out);
    }
    return go_on(r, e, out);
}

void tl__renew_extended(tl_renew *r, int64_t ttl_ms, tl_mono deadline, tl_mono now) {
    r->job.ttl_ms = ttl_ms;
    r->result.deadline = deadline;
    r->at_risk = false;
    r->failures = 0;
    if (r->next.ns != INT64_MAX)
        plan(r, now);
}

tl_status tl__renew_step(void *machine, const tl_event *e, tl_out *out) {
    tl_renew *r = machine;
    switch (e->kind) {
    case TL_START: plan(r, e->now); break;
    case TL_REPLY:
    case TL_FAILED: return on_answer(r, e, out);
    case TL_WOKEN:
        if (r->next.ns != INT64_MAX)
            r->next = e->now;
        break;
    case TL_CANCEL: return TL_END;
    default: break;
    }
    return go_on(r, e, out);
}
