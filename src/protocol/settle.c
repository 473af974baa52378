/*
 * Extending and releasing. A request without a reply is sent again, which is safe, since both compare the
 * token. The machine must never report a lock as extended without a reply that says so.
 */
#include "protocol/settle.h"

#include "ground/assert.h"
#include "ground/guard.h"
#include "protocol/attempt.h"

void tl__settle_init(tl_settle *settlement, const tl_job *job, tl_op op, tl_mono believed,
                     uint64_t seed) {
    TL_ASSERT(op == TL_RENEW || op == TL_RELEASE);
    *settlement = (tl_settle){.result = {.op = (uint8_t)op}, .job = *job, .believed = believed};
    /* Only the keeper's renewals use `refresh`, and compare when a key on etcd was changed last. The keeper's
     * last renewal may be in flight now. */
    if (job->hold.proof.kind == TL_PROOF_TOKEN)
        settlement->job.hold.proof.token.noted_s = 0;
    else if (job->hold.proof.kind == TL_PROOF_ETCD)
        settlement->job.hold.proof.etcd.changed = 0;
    settlement->retry.random = tl__random_begin(seed);
}

static tl_status attempt_ended(tl_settle *settlement, const tl_event *event, tl_out *out);

static tl_status ask(tl_settle *settlement, const tl_event *event, tl_out *out) {
    settlement->retry.next = TL_NEVER;
    settlement->job.again = settlement->retry.failures > 0;
    tl_status status = tl__attempt_begin(
        &settlement->attempt, &settlement->job, (tl_op)settlement->result.op, ++settlement->ticket,
        GUARD(settle_has_limit) ? settlement->retry.limit : TL_NEVER, event, out);
    out->until = settlement->retry.limit;
    return status == TL_END && GUARD(unsent_is_no_success) ? attempt_ended(settlement, event, out)
                                                           : status;
}

/* Does the lock still have to rest? Then a repeated request that finds the key gone has not worked. */
static bool rests(const tl_settle *settlement, const tl_event *event) {
    return GUARD(rest_is_not_a_release) &&
           tl__job_rest_ms(&settlement->job, event->now, event->server->drift_ppm) > 0;
}

static tl_status begin(tl_settle *settlement, const tl_event *event, tl_out *out) {
    TL_ASSERT(settlement->retry.limit.ns == 0);
    settlement->retry.limit = tl__mono_add_ms(event->now, settlement->job.attempt_ms);
    settlement->end = tl__retry_cleans_until(&settlement->job, settlement->believed, event->now,
                                             event->server->drift_ppm);
    settlement->in_time = tl__job_believes(&settlement->job, settlement->believed, event->now);
    return ask(settlement, event, out);
}

static bool is_under_way(const tl_settle *settlement) {
    return settlement->retry.next.ns == INT64_MAX;
}

/* A request in flight ends by the limit: beyond that there is nothing to wait for. */
static tl_status stay(const tl_settle *settlement, const tl_event *event, tl_out *out) {
    out->until = tl__retry_wakes(&settlement->retry);
    if (is_under_way(settlement) && !tl__mono_before(event->now, settlement->retry.limit))
        out->until = TL_NEVER;
    return TL_GO;
}

/* The limit has come without a reply. */
static tl_status run_out(tl_settle *settlement, const tl_event *event, tl_out *out) {
    if (settlement->detached)
        return TL_END;
    tl__retry_report(&settlement->retry, out);
    settlement->result.maybe = settlement->maybe;
    settlement->result.code = settlement->maybe ? TL_EUNCERTAIN : TL_EUNAVAILABLE;
    if (settlement->result.op != TL_RELEASE || !GUARD(release_goes_on))
        return TL_END;
    settlement->detached = true;
    settlement->retry.limit = settlement->end;
    settlement->retry.next = event->now;
    out->until = event->now;
    return TL_DETACH;
}

static tl_status cancelled(tl_settle *settlement, const tl_event *event, tl_out *out) {
    settlement->maybe = settlement->maybe || is_under_way(settlement);
    tl__retry_say(&settlement->retry, TL_LITERAL("cancelled"));
    return run_out(settlement, event, out);
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

static tl_status finish(tl_settle *settlement, const tl_event *event) {
    tl_result *result = &settlement->attempt.result;
    if (tl__settle_has_worked((tl_op)settlement->result.op, result->code, settlement->maybe,
                              settlement->in_time && !rests(settlement, event)))
        result->code = TL_OK;
    if (!settlement->detached)
        settlement->result = *result;
    return TL_END;
}

static tl_status attempt_ended(tl_settle *settlement, const tl_event *event, tl_out *out) {
    const tl_result *result = &settlement->attempt.result;
    if (tl__settle_is_final((tl_op)settlement->result.op, result, event->now))
        return finish(settlement, event);
    settlement->maybe = settlement->maybe || result->maybe || result->code == TL_OK;
    tl__retry_blame(&settlement->retry, event, TL_EUNAVAILABLE,
                    result->code == TL_OK ? TL_LITERAL("the confirmation came too late")
                                          : tl__bytes_of(out->message));
    if (!tl__mono_before(event->now, settlement->retry.limit))
        return run_out(settlement, event, out);
    bool known = settlement->result.op == TL_RELEASE && result->rests_from.ns > 0;
    settlement->retry.next = known ? result->rests_from
                                   : tl__retry_after(&settlement->retry, event->now,
                                                     result->code == TL_EUNCERTAIN);
    return stay(settlement, event, out);
}

static tl_status on_answer(tl_settle *settlement, const tl_event *event, tl_out *out) {
    if (!is_under_way(settlement) || event->asked.ticket != settlement->ticket)
        return stay(settlement, event, out);
    tl_status status = tl__attempt_step(&settlement->attempt, &settlement->job, event, out);
    return status == TL_END ? attempt_ended(settlement, event, out) : status;
}

static tl_status on_timer(tl_settle *settlement, const tl_event *event, tl_out *out) {
    if (!is_under_way(settlement) && !tl__mono_before(event->now, settlement->retry.limit))
        return run_out(settlement, event, out);
    return tl__mono_before(event->now, settlement->retry.next) ? stay(settlement, event, out)
                                                               : ask(settlement, event, out);
}

tl_status tl__settle_step(void *machine, const tl_event *event, tl_out *out) {
    tl_settle *settlement = machine;
    switch (event->kind) {
    case TL_START: return begin(settlement, event, out);
    case TL_REPLY:
    case TL_FAILED: return on_answer(settlement, event, out);
    case TL_CANCEL: return cancelled(settlement, event, out);
    default: return on_timer(settlement, event, out);
    }
}
