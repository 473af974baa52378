/*
 * Extending and releasing. A request without an answer is asked again, which is safe, as
 * both compare the token. It must never call a lock kept without an answer that says so.
 */
#include "protocol/settle.h"

#include "ground/guard.h"
#include "protocol/attempt.h"

void tl__settle_init(tl_settle *s, const tl_job *job, tl_op op, tl_mono believed, uint64_t seed) {
    *s = (tl_settle){.job = *job, .op = (uint8_t)op, .believed = believed};
    s->job.proof.noted_s = 0; /* the short way of a renewal is for those of the keeper */
    s->random = seed ? seed : 1;
}

/* One cut short by the limit says less of what is wrong than one before it. */
static void keep_words(tl_settle *s, const tl_event *e, tl_bytes words) {
    if (s->words[0] && !tl__mono_before(e->now, s->limit))
        return;
    tl__bytes_print(s->words, sizeof s->words, words);
    s->sys_errno = e->kind == TL_FAILED ? e->sys_errno : 0;
}

static tl_status ask(tl_settle *s, const tl_event *e, tl_out *out) {
    tl_event start = {.kind = TL_START, .now = e->now, .server = e->server};
    s->next = TL_NEVER;
    s->job.again = s->failures > 0;
    tl__attempt_init(&s->attempt, s->job.protocol, (tl_op)s->op, ++s->ticket,
                     GUARD(settle_has_limit) ? s->limit : TL_NEVER);
    tl_status status = tl__attempt_step(&s->attempt, &s->job, &start, out);
    out->until = s->limit;
    return status;
}

static tl_status begin(tl_settle *s, const tl_event *e, tl_out *out) {
    s->limit = tl__mono_add_ms(e->now, s->job.attempt_ms);
    /* A lock that was handed over or extended may live longer than this ttl. */
    tl_mono expiry = tl__mono_max(tl__mono_add_ms(e->now, s->job.ttl_ms), s->believed);
    s->end = tl__mono_add_ms(expiry, s->job.attempt_ms);
    s->in_time = tl__mono_before(e->now, s->believed);
    return ask(s, e, out);
}

static bool is_under_way(const tl_settle *s) {
    return s->next.ns == INT64_MAX;
}

/* A request in flight ends by the limit: then there is nothing to wait for beyond that. */
static tl_status stay(const tl_settle *s, const tl_event *e, tl_out *out) {
    out->until = tl__mono_min(s->next, s->limit);
    if (is_under_way(s) && !tl__mono_before(e->now, s->limit))
        out->until = TL_NEVER;
    return TL_GO;
}

/* Time is up without an answer. */
static tl_status run_out(tl_settle *s, const tl_event *e, tl_out *out) {
    if (s->detached)
        return TL_END;
    tl__out_words(out, tl__bytes_of(s->words));
    out->sys_errno = s->sys_errno;
    s->result.maybe = s->maybe;
    s->result.code = s->maybe ? TL_EUNCERTAIN : TL_EUNAVAILABLE;
    if (s->op != TL_RELEASE || !GUARD(release_goes_on))
        return TL_END;
    s->detached = true;
    s->limit = s->end;
    s->next = e->now;
    out->until = e->now;
    return TL_DETACH;
}

static tl_status cancelled(tl_settle *s, const tl_event *e, tl_out *out) {
    s->maybe = s->maybe || is_under_way(s);
    keep_words(s, e, TL_LITERAL("cancelled"));
    return run_out(s, e, out);
}

/* Is the answer one to stop at? A lock that was extended too late to be of use is asked for again. */
static bool is_final(const tl_settle *s, const tl_event *e) {
    const tl_result *r = &s->attempt.result;
    if (r->code == TL_OK)
        return s->op == TL_RELEASE || !GUARD(late_extension) ||
               tl__mono_before(e->now, r->deadline);
    return r->last || !tl__may_pass(r->code);
}

static tl_status finish(tl_settle *s) {
    tl_result *r = &s->attempt.result;
    /* Asked again, a release that worked at first finds the lock free, or already another's. */
    if (GUARD(repeated_release) && s->op == TL_RELEASE && s->maybe &&
        (s->in_time || !GUARD(released_in_time)) &&
        (r->code == TL_EEXPIRED || r->code == TL_ETAKEN))
        r->code = TL_OK;
    if (!s->detached)
        s->result = *r;
    return TL_END;
}

static tl_status attempt_ended(tl_settle *s, const tl_event *e, tl_out *out) {
    const tl_result *r = &s->attempt.result;
    if (is_final(s, e))
        return finish(s);
    s->maybe = s->maybe || r->maybe || r->code == TL_OK;
    keep_words(s, e,
               r->code == TL_OK ? TL_LITERAL("confirmed too late") : tl__bytes_of(out->words));
    if (!tl__mono_before(e->now, s->limit))
        return run_out(s, e, out);
    s->failures++;
    s->next = s->failures == 1 && r->maybe
                  ? e->now
                  : tl__mono_add_ms(e->now, tl__backoff_ms(s->failures, &s->random));
    return stay(s, e, out);
}

static tl_status on_answer(tl_settle *s, const tl_event *e, tl_out *out) {
    if (!is_under_way(s) || e->ticket != s->ticket)
        return stay(s, e, out);
    tl_status status = tl__attempt_step(&s->attempt, &s->job, e, out);
    return status == TL_END ? attempt_ended(s, e, out) : status;
}

static tl_status on_timer(tl_settle *s, const tl_event *e, tl_out *out) {
    if (!is_under_way(s) && !tl__mono_before(e->now, s->limit))
        return run_out(s, e, out);
    return tl__mono_before(e->now, s->next) ? stay(s, e, out) : ask(s, e, out);
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
