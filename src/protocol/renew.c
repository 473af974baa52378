/*
 * Renewing a lock. A renewal is due at a third of the validity. The machine must report LOST no later than
 * the deadline, and never move a deadline without a reply that proves it. While the holder gives no sign of
 * life it begins no renewal, and no deadline moves.
 */
#include "protocol/renew.h"

#include "ground/assert.h"
#include "ground/guard.h"
#include "protocol/attempt.h"

#define SLACK_PARTS 16      /* a renewal may be late by this part of the time left then, */
#define SLACK_NS 125000000  /* and the first by no more than this */
#define LEAST_NS 2000000    /* no wait is shorter than this, however near the end is */
#define LOOK_PARTS 32       /* a stalled lock looks again after this part of the time left */
#define LOOK_SLACK_PARTS 32 /* a look for life may be late by this part of the wait */

tl_rest tl__rest_begin(tl_mono hold, bool by_hand, uint64_t seed) {
    return (tl_rest){
        .next = TL_NEVER, .hold = hold, .random = tl__random_begin(seed), .by_hand = by_hand};
}

/* The attempt matters only while a request is in flight. */
void tl__renew_resume(tl_renew *renewal, tl_mono deadline, tl_mono stalls, const tl_rest *rest) {
    renewal->result = (tl_result){.op = TL_RENEW, .deadline = deadline};
    renewal->stalls = stalls;
    renewal->rest = *rest;
}

static tl_mono end(const tl_renew *renewal) {
    return tl__mono_min(
        tl__mono_add_ns(renewal->result.deadline, -GUARD(lost_early) * TL_LOST_EARLY_NS),
        GUARD(longest_hold) ? renewal->rest.hold : TL_NEVER);
}

/* A part of the time that is left, for a pause. */
static int64_t part(tl_mono now, tl_mono end, int64_t parts) {
    int64_t ns = tl__ns_until(now, end) / parts;
    return ns > LEAST_NS ? ns : LEAST_NS;
}

tl_mono tl__renew_by(tl_mono now, tl_mono end, int64_t attempt_ms) {
    int64_t share = part(now, end, TL_RENEW_PARTS), limit = attempt_ms * TL_NS_PER_MS;
    return tl__mono_min(tl__mono_add_ns(now, share < limit ? share : limit), end);
}

tl_mono tl__renew_again(tl_mono now, tl_mono end, uint32_t failures, uint64_t *random) {
    int64_t pause = tl__mul_sat(tl__backoff_ms(failures, random), TL_NS_PER_MS);
    int64_t most = part(now, end, 2 * TL_RENEW_PARTS);
    return tl__mono_add_ns(now, failures == 1 ? 0 : pause < most ? pause : most);
}

tl_mono tl__stall_look_at(tl_mono now, tl_mono end) {
    int64_t ns = part(now, end, LOOK_PARTS);
    return tl__mono_add_ns(now, ns < TL_STALL_LOOK_NS ? ns : TL_STALL_LOOK_NS);
}

/* Does anything but its owner's calls renew the lock? */
static bool is_renewed(const tl_renew *renewal) {
    return !renewal->rest.by_hand && !(renewal->rest.stalled && GUARD(stall_stops_renewals));
}

static void plan(tl_renew *renewal, tl_mono now) {
    renewal->rest.next = TL_NEVER;
    int64_t ns = tl__ns_until(now, renewal->result.deadline) / TL_RENEW_PARTS;
    if (GUARD(early_first_renewal) && renewal->job.hold.proof.unbound && ns > TL_RENEW_FIRST_NS)
        ns = TL_RENEW_FIRST_NS;
    if (is_renewed(renewal))
        renewal->rest.next = tl__mono_add_ns(now, ns);
}

/* After a disruption the hold counts for nothing until a request proves it that was built later. If that request
 * finds it unchanged, no other client held the lock meanwhile: its token holds the key all the time, or never
 * again. So a doubt may end, which a loss never does: until then the lock is AT_RISK, with no time remaining. */
static bool is_in_doubt(const tl_renew *renewal) {
    return GUARD(disrupted_is_in_doubt) &&
           tl__is_disrupted(renewal->result.proved, renewal->job.hold.disrupted);
}

static tl_status lost(tl_renew *renewal, tl_lost_why why, tl_out *out) {
    if (is_in_doubt(renewal) && why != TL_LOST_MAX_HOLD)
        why = TL_LOST_DISRUPTED;
    renewal->result.code = TL_ELOST;
    renewal->result.lost.why = why;
    tl_note *note = tl__out_note(out, TL_NOTE_LOST, why);
    note->stolen = why == TL_LOST_TAKEN && renewal->attempt.result.lost.stolen;
    note->thief_ahead_ms = note->stolen ? renewal->attempt.result.lost.thief_ahead_ms : 0;
    return TL_END;
}

static tl_status ask(tl_renew *renewal, const tl_event *event, tl_out *out) {
    tl_mono by = tl__renew_by(event->now, end(renewal), renewal->job.attempt_ms);
    renewal->rest.next = TL_NEVER;
    renewal->rest.asking = true;
    renewal->rest.again = false;
    renewal->job.hold.believed = renewal->result.deadline;
    renewal->job.again = renewal->rest.failures > 0;
    return tl__attempt_begin(&renewal->attempt, &renewal->job, TL_RENEW, ++renewal->rest.ticket, by,
                             event, out);
}

/* Of a stalled lock the reply has the proof, but the deadline stays: a renewal that was in flight when the
 * lock stalled, or one that only asks whether the key is still there, must not prolong the hold. */
static void kept(tl_renew *renewal, const tl_event *event, tl_out *out) {
    tl_mono deadline = renewal->attempt.result.deadline;
    out->renewed = true;
    renewal->result.deadline = renewal->rest.stalled && GUARD(stall_keeps_deadline)
                                   ? tl__mono_min(renewal->result.deadline, deadline)
                                   : deadline;
    if (renewal->attempt.result.proved.ns != 0 && GUARD(reply_proves_its_request))
        renewal->result.proved = renewal->attempt.result.proved;
    bool doubted = renewal->job.hold.proof.doubted, unlimited = renewal->job.hold.proof.unlimited;
    int32_t stood_ms = renewal->job.hold.proof.stood_ms;
    renewal->job.hold.proof = renewal->attempt.result.proof;
    renewal->job.hold.proof.doubted = doubted;
    renewal->job.hold.proof.unlimited = unlimited;
    renewal->job.hold.proof.stood_ms = stood_ms;
    renewal->rest.failures = 0;
    bool in_doubt = renewal->rest.doubted = is_in_doubt(renewal);
    if ((!renewal->rest.stalled || !GUARD(stalled_is_not_held)) && !in_doubt) {
        if (renewal->rest.at_risk)
            (void)tl__out_note(out, TL_NOTE_HELD, TL_NOT_LOST);
        renewal->rest.at_risk = false;
    }
    plan(renewal, event->now);
    bool proves = renewal->attempt.result.proved.ns != 0 || !GUARD(look_is_not_repeated);
    if (renewal->rest.again || (in_doubt && proves && is_renewed(renewal)))
        renewal->rest.next = event->now;
}

/* A renewal that reached the wrong server is no risk yet: it is sent to the right one at once. */
static void missed(tl_renew *renewal, const tl_event *event, tl_out *out) {
    bool elsewhere = renewal->attempt.result.code == TL_EELSEWHERE && renewal->rest.failures == 0;
    out->missed = !elsewhere;
    if (!renewal->rest.at_risk && !elsewhere)
        (void)tl__out_note(out, TL_NOTE_AT_RISK, TL_NOT_LOST);
    renewal->rest.at_risk = renewal->rest.at_risk || !elsewhere;
    renewal->rest.failures++;
    tl_mono again = tl__renew_again(event->now, end(renewal), renewal->rest.failures,
                                    &renewal->rest.random);
    bool stalled = renewal->rest.stalled && GUARD(stall_stops_renewals);
    renewal->rest.next = stalled ? TL_NEVER : again;
}

static tl_status over(tl_renew *renewal, const tl_event *event, tl_out *out) {
    tl_lost_why why = renewal->rest.stalled ? TL_LOST_STALLED : TL_LOST_EXPIRED;
    bool held = tl__mono_before(event->now, renewal->rest.hold);
    return lost(renewal, held ? why : TL_LOST_MAX_HOLD, out);
}

static bool is_over(const tl_renew *renewal, const tl_event *event) {
    return GUARD(lost_reported) && !tl__mono_before(event->now, end(renewal));
}

/* ---- signs of life --------------------------------------------------------------------------- */

static void stall(tl_renew *renewal, tl_out *out) {
    if (GUARD(stall_stops_renewals))
        renewal->rest.next = TL_NEVER;
    renewal->rest.mended = false;
    if (!renewal->rest.at_risk && GUARD(stall_is_reported))
        (void)tl__out_note(out, TL_NOTE_AT_RISK, TL_RISK_STALLED);
    renewal->rest.at_risk = true;
}

/* Each step looks before it does anything else. So no renewal begins after the lock has stalled, however late
 * the timer is. */
static void look_for_life(tl_renew *renewal, const tl_event *event, tl_out *out) {
    bool stalled = !tl__mono_before(event->now, renewal->stalls);
    if (stalled == renewal->rest.stalled || is_over(renewal, event))
        return;
    renewal->rest.stalled = stalled;
    if (stalled)
        stall(renewal, out);
    else if (!renewal->rest.asking && GUARD(life_renews))
        renewal->rest.next = event->now;
}

/* Nobody wakes the machine for a sign of life. */
static tl_mono next_look(const tl_renew *renewal, tl_mono now) {
    if (!renewal->rest.stalled)
        return GUARD(stall_is_noticed_in_time) ? renewal->stalls : TL_NEVER;
    return GUARD(stalled_looks_for_life) ? tl__stall_look_at(now, end(renewal)) : TL_NEVER;
}

static void plan_look(const tl_renew *renewal, const tl_event *event, tl_out *out) {
    tl_mono look = next_look(renewal, event->now);
    int64_t slack_ns = tl__ns_until(event->now, look) / LOOK_SLACK_PARTS;
    if (!tl__mono_before(look, out->until))
        return;
    out->until = look;
    if (out->slack_ns > slack_ns)
        out->slack_ns = slack_ns;
}

/* ---- disruptions ----------------------------------------------------------------------------- */

static void on_wake(tl_renew *renewal, const tl_event *event);

/* Each step looks, as for life: whatever woke the machine, the lock is renewed at once. */
static void look_for_disruption(tl_renew *renewal, const tl_event *event, tl_out *out) {
    bool doubted = is_in_doubt(renewal);
    bool begins = doubted && !renewal->rest.doubted && !is_over(renewal, event);
    renewal->rest.doubted = doubted;
    if (!begins)
        return;
    renewal->rest.mended = false;
    if (!renewal->rest.at_risk)
        (void)tl__out_note(out, TL_NOTE_AT_RISK, TL_RISK_DISRUPTED);
    renewal->rest.at_risk = true;
    if (is_renewed(renewal) && GUARD(disruption_renews))
        on_wake(renewal, event);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static tl_status go_on(tl_renew *renewal, const tl_event *event, tl_out *out) {
    if (is_over(renewal, event))
        return over(renewal, event, out);
    if (GUARD(extension_ends_risk) && renewal->rest.mended)
        (void)tl__out_note(out, TL_NOTE_HELD, TL_NOT_LOST);
    renewal->rest.mended = false;
    tl_status status = tl__mono_before(event->now, renewal->rest.next) ? TL_GO
                                                                       : ask(renewal, event, out);
    out->until = tl__mono_min(renewal->rest.next, end(renewal));
    if (tl__mono_before(renewal->rest.next, end(renewal)))
        out->slack_ns = tl__ns_until(renewal->rest.next, end(renewal)) / SLACK_PARTS;
    if (renewal->job.hold.proof.unbound && out->slack_ns > SLACK_NS)
        out->slack_ns = SLACK_NS;
    plan_look(renewal, event, out);
    return status;
}

/* A reply after the deadline changes nothing: the lock has been reported as lost by then. */
static tl_status on_answer(tl_renew *renewal, const tl_event *event, tl_out *out) {
    if (GUARD(late_renewal) && is_over(renewal, event))
        return over(renewal, event, out);
    if (!renewal->rest.asking || event->asked.ticket != renewal->rest.ticket ||
        tl__attempt_step(&renewal->attempt, &renewal->job, event, out) != TL_END)
        return go_on(renewal, event, out);
    renewal->rest.asking = false;
    if (renewal->attempt.result.code == TL_ELOST)
        return lost(renewal, renewal->attempt.result.lost.why, out);
    if (renewal->attempt.result.code == TL_OK)
        kept(renewal, event, out);
    else
        missed(renewal, event, out);
    return go_on(renewal, event, out);
}

static void on_wake(tl_renew *renewal, const tl_event *event) {
    if (renewal->rest.asking)
        renewal->rest.again = true;
    else
        renewal->rest.next = event->now;
}

/* Has K changed? A read that was rejected doesn't say. */
static bool is_changed(const tl_renew *renewal, const tl_reply *found) {
    tl_bytes value = found->text;
    if (found->type == TL_REPLY_ERROR)
        return tl__is_of_other_type(value);
    return !tl__reply_text(found, &value) ||
           !renewal->job.protocol->unchanged(&renewal->job, value);
}

/* A change by our own renewal must not cause another renewal. Nor must a change after a failed renewal, which
 * is sent again anyway. */
static void look_at_change(tl_renew *renewal, const tl_event *event) {
    TL_ASSERT(event->kind == TL_CHANGED && event->value && renewal->job.protocol->unchanged);
    if (renewal->rest.failures == 0 &&
        (is_changed(renewal, event->value) || !GUARD(change_by_others)))
        on_wake(renewal, event);
}

void tl__renew_extended(tl_renew *renewal, int64_t ttl_ms, tl_mono deadline, tl_mono now) {
    renewal->job.ttl_ms = ttl_ms;
    renewal->result.deadline = deadline;
    renewal->rest.mended = renewal->rest.mended || renewal->rest.at_risk;
    renewal->rest.at_risk = renewal->rest.asking = renewal->rest.stalled = false;
    renewal->rest.doubted = false;
    renewal->rest.failures = 0;
    plan(renewal, now);
    if (renewal->rest.again) /* the extension may have been executed before the clock stepped */
        renewal->rest.next = now;
}

tl_status tl__renew_step(void *machine, const tl_event *event, tl_out *out) {
    tl_renew *renewal = machine;
    if (event->kind != TL_CANCEL && renewal->job.hold.copied && GUARD(copy_loses))
        return lost(renewal, TL_LOST_DISRUPTED, out);
    if (event->kind != TL_CANCEL) {
        look_for_life(renewal, event, out);
        look_for_disruption(renewal, event, out);
    }
    switch (event->kind) {
    case TL_START: plan(renewal, event->now); break;
    case TL_REPLY:
    case TL_FAILED: return on_answer(renewal, event, out);
    case TL_WOKEN: on_wake(renewal, event); break;
    case TL_CHANGED: look_at_change(renewal, event); break;
    case TL_CANCEL: return TL_END;
    default: break;
    }
    return go_on(renewal, event, out);
}
