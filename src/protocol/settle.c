/*
 * Extending and releasing. A request without an answer is asked again, which is safe, as
 * both compare the token. It must never call a lock kept without an answer that says so.
 */
#include "protocol/settle.h"

#include "ground/assert.h"
#include "ground/guard.h"
#include "protocol/attempt.h"

void tl__settle_init(tl_settle *s, const tl_job *job, tl_op op, tl_mono believed, uint64_t seed) {
    TL_ASSERT(op == TL_RENEW || op == TL_RELEASE);
    *s = (tl_settle){.result = {.op = (uint8_t)op}, .job = *job, .believed = believed};
    /* The short way of a renewal, and the comparison with when a key on etcd was changed, are for those of the keeper, whose
     * last one may be in flight. */
    if (job->hold.proof.kind == TL_PROOF_TOKEN)
        s->job.hold.proof.token.noted_s = 0;
    else if (job->hold.proof.kind == TL_PROOF_ETCD)
        s->job.hold.proof.etcd.changed = 0;
    s->retry.random = tl__random_begin(seed);
}

static tl_status ask(tl_settle *s, const tl_event *e, tl_out *out) {
    s->retry.next = TL_NEVER;
    s->job.again = s->retry.failures > 0;
    tl_status status = tl__attempt_begin(&s->attempt, &s->job, (tl_op)s->result.op, ++s->ticket,
                                         GUARD(settle_has_limit) ? s->retry.limit : TL_NEVER, e,
                                         out);
    out->until = s->retry.limit;
    return status;
}

static tl_status begin(tl_settle *s, const tl_event *e, tl_out *out) {
    TL_ASSERT(s->retry.limit.ns == 0);
    s->retry.limit = tl__mono_add_ms(e->now, s->job.attempt_ms);
    s->end = tl__retry_cleans_until(&s->job, s->believed, e->now, e->server->drift_ppm);
    s->in_time = tl__mono_before(e->now, s->believed);
    return ask(s, e, out);
}

static bool is_under_way(const tl_settle *s) {
    return s->retry.next.ns == INT64_MAX;
}

/* A request in flight ends by the limit: then there is nothing to wait for beyond that. */
static tl_status stay(const tl_settle *s, const tl_event *e, tl_out *out) {
    out->until = tl__retry_wakes(&s->retry);
    if (is_under_way(s) && !tl__mono_before(e->now, s->retry.limit))
        out->until = TL_NEVER;
    return TL_GO;
}

/* Time is up without an answer. */
static tl_status run_out(tl_settle *s, const tl_event *e, tl_out *out) {
    if (s->detached)
        return TL_END;
    tl__retry_report(&s->retry, out);
    s->result.maybe = s->maybe;
    s->result.code = s->maybe ? TL_EUNCERTAIN : TL_EUNAVAILABLE;
    if (s->result.op != TL_RELEASE || !GUARD(release_goes_on))
        return TL_END;
    s->detached = true;
    s->retry.limit = s->end;
    s->retry.next = e->now;
    out->until = e->now;
    return TL_DETACH;
}

static tl_status cancelled(tl_settle *s, const tl_event *e, tl_out *out) {
    s->maybe = s->maybe || is_under_way(s);
    tl__retry_say(&s->retry, TL_LITERAL("cancelled"));
    return run_out(s, e, out);
}

bool tl__settle_is_final(tl_op op, const tl_result *result, tl_mono now) {
    if (result->code == TL_OK)
        return op == TL_RELEASE || !GUARD(late_extension) || tl__mono_before(now, result->deadline);
    return result->last || !tl__may_pass(result->code);
}

bool tl__settle_has_worked(tl_op op, tl_err code, bool maybe, bool in_time) {
    return GUARD(repeated_release) && op == TL_RELEASE && maybe &&
           (in_time || !GUARD(released_in_time)) && (code == TL_EEXPIRED || code == TL_ETAKEN);
}

static tl_status finish(tl_settle *s) {
    tl_result *r = &s->attempt.result;
    if (tl__settle_has_worked((tl_op)s->result.op, r->code, s->maybe, s->in_time))
        r->code = TL_OK;
    if (!s->detached)
        s->result = *r;
    return TL_END;
}

static tl_status attempt_ended(tl_settle *s, const tl_event *e, tl_out *out) {
    const tl_result *r = &s->attempt.result;
    if (tl__settle_is_final((tl_op)s->result.op, r, e->now))
        return finish(s);
    s->maybe = s->maybe || r->maybe || r->code == TL_OK;
    tl__retry_blame(&s->retry, e, TL_EUNAVAILABLE,
                    r->code == TL_OK ? TL_LITERAL("confirmed too late") : tl__bytes_of(out->words));
    if (!tl__mono_before(e->now, s->retry.limit))
        return run_out(s, e, out);
    s->retry.next = tl__retry_after(&s->retry, e->now, r->code == TL_EUNCERTAIN);
    return stay(s, e, out);
}

static tl_status on_answer(tl_settle *s, const tl_event *e, tl_out *out) {
    if (!is_under_way(s) || e->asked.ticket != s->ticket)
        return stay(s, e, out);
    tl_status status = tl__attempt_step(&s->attempt, &s->job, e, out);
    return status == TL_END ? attempt_ended(s, e, out) : status;
}

static tl_status on_timer(tl_settle *s, const tl_event *e, tl_out *out) {
    if (!is_under_way(s) && !tl__mono_before(e->now, s->retry.limit))
        return run_out(s, e, out);
    return tl__mono_before(e->now, s->retry.next) ? stay(s, e, out) : ask(s, e, out);
}

tl_status tl__settle_step(void *machine, const tl_event *e, tl_out *out) {
    tl_settle *s = machine;
    switch (e->kind) {
    case TL_START: return begin(s, e, out);
    case TL_REPLY:
    case TL_FAILED: return on_answer(s, e, out);
    case TL_CANCEL: return cancelled(s, e, out);
    default: return on_timer(s, e, out);
    }
}
