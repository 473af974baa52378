/*
 * Keeping a lock. Renewal is due at a third of the validity. It must report LOST no later
 * than the deadline, and never move a deadline on anything but an answer that proves it.
 */
#include "protocol/renew.h"

#include "ground/assert.h"
#include "ground/guard.h"
#include "protocol/attempt.h"

#define SLACK_PARTS 32     /* a renewal may be late by this part of what is left then, */
#define SLACK_NS 125000000 /* and the first by no more than this */
#define LEAST_NS 2000000   /* no shorter waits than this, however near the end */

tl_rest tl__rest_begin(tl_mono hold, bool by_hand, uint64_t seed) {
    return (tl_rest){
        .next = TL_NEVER, .hold = hold, .random = tl__random_begin(seed), .by_hand = by_hand};
}

/* What the attempt is matters only while it asks. */
void tl__renew_resume(tl_renew *r, tl_mono deadline, const tl_rest *rest) {
    r->result = (tl_result){.op = TL_RENEW, .deadline = deadline};
    r->rest = *rest;
}

static tl_mono end(const tl_renew *r) {
    return tl__mono_min(tl__mono_add_ns(r->result.deadline, -GUARD(lost_early) * TL_LOST_EARLY_NS),
                        GUARD(longest_hold) ? r->rest.hold : TL_NEVER);
}

/* A part of the time that is left, for a wait. */
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

static void plan(tl_renew *r, tl_mono now) {
    r->rest.next = TL_NEVER;
    int64_t ns = tl__ns_until(now, r->result.deadline) / TL_RENEW_PARTS;
    if (GUARD(early_first_renewal) && r->job.hold.proof.unbound && ns > TL_RENEW_FIRST_NS)
        ns = TL_RENEW_FIRST_NS;
    if (!r->rest.by_hand)
        r->rest.next = tl__mono_add_ns(now, ns);
}

static tl_status lost(tl_renew *r, tl_lost_why why, tl_out *out) {
    r->result.code = TL_ELOST;
    r->result.lost.why = why;
    tl_note *note = tl__out_note(out, TL_NOTE_LOST, why);
    note->stolen = why == TL_LOST_TAKEN && r->attempt.result.lost.stolen;
    note->thief_ahead_ms = note->stolen ? r->attempt.result.lost.thief_ahead_ms : 0;
    return TL_END;
}

static tl_status ask(tl_renew *r, const tl_event *e, tl_out *out) {
    tl_mono by = tl__renew_by(e->now, end(r), r->job.attempt_ms);
    r->rest.next = TL_NEVER;
    r->rest.asking = true;
    r->rest.again = false;
    r->job.hold.believed = r->result.deadline;
    r->job.again = r->rest.failures > 0;
    return tl__attempt_begin(&r->attempt, &r->job, TL_RENEW, ++r->rest.ticket, by, e, out);
}

static void kept(tl_renew *r, const tl_event *e, tl_out *out) {
    out->renewed = true;
    r->result.deadline = r->attempt.result.deadline;
    bool doubted = r->job.hold.proof.doubted;
    int32_t stood_ms = r->job.hold.proof.stood_ms;
    r->job.hold.proof = r->attempt.result.proof;
    r->job.hold.proof.doubted = doubted;
    r->job.hold.proof.stood_ms = stood_ms;
    r->rest.failures = 0;
    if (r->rest.at_risk)
        (void)tl__out_note(out, TL_NOTE_HELD, TL_NOT_LOST);
    r->rest.at_risk = false;
    plan(r, e->now);
    if (r->rest.again)
        r->rest.next = e->now;
}

/* One that wasn't for the server which was asked is no risk yet: it is asked for anew, at once. */
static void missed(tl_renew *r, const tl_event *e, tl_out *out) {
    bool elsewhere = r->attempt.result.code == TL_EELSEWHERE && r->rest.failures == 0;
    out->missed = !elsewhere;
    if (!r->rest.at_risk && !elsewhere)
        (void)tl__out_note(out, TL_NOTE_AT_RISK, TL_NOT_LOST);
    r->rest.at_risk = r->rest.at_risk || !elsewhere;
    r->rest.failures++;
    r->rest.next = tl__renew_again(e->now, end(r), r->rest.failures, &r->rest.random);
}

static tl_status over(tl_renew *r, const tl_event *e, tl_out *out) {
    return lost(r, tl__mono_before(e->now, r->rest.hold) ? TL_LOST_EXPIRED : TL_LOST_MAX_HOLD, out);
}

static bool is_over(const tl_renew *r, const tl_event *e) {
    return GUARD(lost_reported) && !tl__mono_before(e->now, end(r));
}

static tl_status go_on(tl_renew *r, const tl_event *e, tl_out *out) {
    if (is_over(r, e))
        return over(r, e, out);
    if (GUARD(extension_ends_risk) && r->rest.mended)
        (void)tl__out_note(out, TL_NOTE_HELD, TL_NOT_LOST);
    r->rest.mended = false;
    tl_status status = tl__mono_before(e->now, r->rest.next) ? TL_GO : ask(r, e, out);
    out->until = tl__mono_min(r->rest.next, end(r));
    if (tl__mono_before(r->rest.next, end(r)))
        out->slack_ns = tl__ns_until(r->rest.next, end(r)) / SLACK_PARTS;
    if (r->job.hold.proof.unbound && out->slack_ns > SLACK_NS)
        out->slack_ns = SLACK_NS;
    return status;
}

/* An answer after the deadline changes nothing: the lock has been called lost by then. */
static tl_status on_answer(tl_renew *r, const tl_event *e, tl_out *out) {
    if (GUARD(late_renewal) && is_over(r, e))
        return over(r, e, out);
    if (!r->rest.asking || e->asked.ticket != r->rest.ticket ||
        tl__attempt_step(&r->attempt, &r->job, e, out) != TL_END)
        return go_on(r, e, out);
    r->rest.asking = false;
    if (r->attempt.result.code == TL_ELOST)
        return lost(r, r->attempt.result.lost.why, out);
    if (r->attempt.result.code == TL_OK)
        kept(r, e, out);
    else
        missed(r, e, out);
    return go_on(r, e, out);
}

static void on_wake(tl_renew *r, const tl_event *e) {
    if (r->rest.asking)
        r->rest.again = true;
    else
        r->rest.next = e->now;
}

/* Has K been changed? A read that was refused doesn't tell. */
static bool is_changed(const tl_renew *r, const tl_reply *found) {
    tl_bytes value = found->text;
    if (found->type == TL_REPLY_ERROR)
        return tl__is_of_other_type(value);
    return !tl__reply_text(found, &value) || !r->job.protocol->unchanged(&r->job, value);
}

/* A change that we have made ourselves, by a renewal, must not lead to the next; nor one whose renewal did
 * not count, which is asked for again anyway. */
static void look_at_change(tl_renew *r, const tl_event *e) {
    TL_ASSERT(e->kind == TL_CHANGED && e->value && r->job.protocol->unchanged);
    if (r->rest.failures == 0 && (is_changed(r, e->value) || !GUARD(change_by_others)))
        on_wake(r, e);
}

void tl__renew_extended(tl_renew *r, int64_t ttl_ms, tl_mono deadline, tl_mono now) {
    r->job.ttl_ms = ttl_ms;
    r->result.deadline = deadline;
    r->rest.mended = r->rest.mended || r->rest.at_risk;
    r->rest.at_risk = r->rest.asking = false;
    r->rest.failures = 0;
    plan(r, now);
    if (r->rest.again) /* the extension may have been executed before the clock stepped */
        r->rest.next = now;
}

tl_status tl__renew_step(void *machine, const tl_event *e, tl_out *out) {
    tl_renew *r = machine;
    switch (e->kind) {
    case TL_START: plan(r, e->now); break;
    case TL_REPLY:
    case TL_FAILED: return on_answer(r, e, out);
    case TL_WOKEN: on_wake(r, e); break;
    case TL_CHANGED: look_at_change(r, e); break;
    case TL_CANCEL: return TL_END;
    default: break;
    }
    return go_on(r, e, out);
}
