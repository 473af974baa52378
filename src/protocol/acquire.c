/*
 * Acquiring. It drives a protocol's attempts, and between them waits for the release, the
 * expiry or a poll. It must never say "not acquired" of a lock that one of its own requests may
 * still take without cleaning up after itself, and never wait past its limit.
 */
#include "protocol/acquire.h"

#include "ground/assert.h"
#include "ground/guard.h"
#include "protocol/attempt.h"
#include "protocol/line.h"

void tl__acquire_init(tl_acquisition *a, const tl_job *job, const tl_retry *retry, int64_t wait_ms,
                      int64_t connect_ms, uint64_t seed) {
    TL_ASSERT(job->protocol && !job->queue.stands);
    *a = (tl_acquisition){.job = *job, .retry = tl__retry_init(retry, wait_ms, connect_ms, seed)};
    a->job.hold.proof = (tl_proof){0}; /* of an earlier hold, if of any */
    a->lining = job->queue.join;
    a->job.hold.believed = (tl_mono){0};
}

/* ---- a take that went unanswered -------------------------------------------------------------- */

/* A native take carries no limit: only the end of its connection, on the server, is its end for certain. To
 * another run of a server the number is a stranger's. */
static bool must_kill(const tl_acquisition *a, const tl_event *e) {
    return a->kill_id != 0 &&
           (!GUARD(ends_in_its_run) || (e->asked.run != 0 && e->asked.run == a->kill_run));
}

static tl_status kill(tl_acquisition *a, const tl_event *e, tl_out *out) {
    tl_mono by = tl__mono_add_ms(e->now, a->job.attempt_ms);
    tl_send *send = tl__out_send(out, ++a->ticket, tl__mono_min(by, a->retry.limit));
    tl_command *c = &send->command[send->count++];
    *c = (tl_command){.form = TL_ARGV, .argc = 4};
    c->argv[0] = TL_LITERAL("CLIENT");
    c->argv[1] = TL_LITERAL("KILL");
    c->argv[2] = TL_LITERAL("ID");
    c->argv[3] = tl__out_int(out, a->kill_id);
    send->here = true;
    return TL_GO;
}

/* Whether it was there or not, nothing is read from it any more. Who may not do that remains in doubt. */
static void killed(tl_acquisition *a, const tl_event *e) {
    int64_t count;
    if (e->kind != TL_REPLY || e->replied.count < 1 || e->asked.run != a->kill_run)
        return;
    a->kill_id = 0;
    if (tl__reply_int(e->replied.reply, &count))
        a->harmless = tl__mono_min(a->harmless, tl__mono_max(e->now, a->unkillable));
}

/* ---- attempts -------------------------------------------------------------------------------- */

static tl_status reach(tl_acquisition *a, tl_out *out) {
    a->retry.doing = TL_REACHES;
    a->woken = a->called = false; /* the state will be read after this */
    tl__out_send(out, ++a->ticket, GUARD(reach_has_limit) ? a->retry.limit : TL_NEVER);
    return TL_GO;
}

/* What is still on its way may bring its entry back into the line, which its release then strikes out. */
static void note_doubt(tl_acquisition *a) {
    a->result.proof.doubted = a->uncertain;
    if (GUARD(entry_in_doubt) && a->uncertain && a->job.queue.stands)
        a->result.proof.stood_ms = (int32_t)a->job.ttl_ms;
}

static tl_status attempt_ended(tl_acquisition *a, const tl_event *e, tl_out *out);

/* One that may stand in line takes nothing past it: its entry would be given the lock later. */
static bool joins(const tl_acquisition *a) {
    return a->lining && (a->armed || a->job.queue.stands);
}

static tl_status take(tl_acquisition *a, const tl_event *e, tl_out *out) {
    a->woken = a->called = a->near = false;
    a->job.again = GUARD(repeat_compares) && a->retry.attempts > 0;
    tl__retry_ask(&a->retry, e->now, a->job.attempt_ms);
    a->job.queue.join = joins(a);
    a->job.queue.stands = a->job.queue.stands || a->job.queue.join;
    if (a->job.queue.join)
        a->job.fences = a->job.queue.fair ? 1 : TL_FENCES;
    tl_status status = tl__attempt_begin(&a->attempt, &a->job, TL_ACQUIRE, ++a->ticket,
                                         a->retry.limit, e, out);
    return status == TL_END ? attempt_ended(a, e, out) : status; /* refused before it was sent */
}

/* ---- the end --------------------------------------------------------------------------------- */

/* The caller gets `code`; what may have been left behind is dropped in the background. */
static tl_status give_up(tl_acquisition *a, const tl_event *e, tl_err code, tl_out *out) {
    a->result = (tl_result){.code = code,
                            .maybe = a->uncertain || a->unwanted || a->job.queue.stands};
    tl__retry_report(&a->retry, out);
    if (!a->result.maybe || !GUARD(cleans_up))
        return TL_END;
    tl__retry_clean(&a->retry, &a->job, e->now, e->server->drift_ppm);
    a->job.release.in_vain = true;
    a->retry.next = e->now;
    out->until = e->now;
    return TL_DETACH;
}

static tl_status run_out(tl_acquisition *a, const tl_event *e, tl_out *out) {
    return give_up(a, e, tl__retry_ran_out(&a->retry, a->uncertain), out);
}

/* ---- pauses ---------------------------------------------------------------------------------- */

static int64_t auto_pause(tl_acquisition *a, const tl_event *e) {
    const tl_acquire_result *busy = &a->attempt.result.acquire;
    bool told = (busy->announced && a->armed) || a->watching;
    return tl__retry_auto_ms(&a->retry, busy->hint, told, e->now);
}

static bool may_line(const tl_acquisition *a, const tl_event *e) {
    return a->job.queue.inbox.n > 0 && a->retry.wait_ms != 0 && a->job.protocol->lines &&
           a->job.protocol->lines(e->server, &a->job.rules, e->now);
}

/* In line as long as it is told when its turn has come; else it looks often, and stands there for that long. */
static int64_t line_pause(tl_acquisition *a, const tl_event *e) {
    if (GUARD(waits_for_its_turn) && a->armed && a->job.queue.join &&
        !a->attempt.result.acquire.polls)
        return tl__line_pause_ms(&a->attempt.result.acquire, a->near, e->now, &a->retry.random);
    return tl__retry_poll_ms(&a->retry);
}

static void listen_to_inbox(tl_acquisition *a, tl_out *out) {
    a->listening = true;
    a->armed = a->inbox_armed;
    tl__out_listen(out, a->job.queue.inbox);
    out->armed = a->armed;
    out->token = tl__token_bytes(&a->job.token);
}

static void listen(tl_acquisition *a, tl_out *out) {
    a->listening = true;
    tl__out_listen(out, a->job.sidecar);
    if (a->job.protocol->watching && a->retry.strategy.kind == TL_RETRY_AUTO)
        out->watched = a->job.key;
}

static void leave_topic(tl_acquisition *a, tl_out *out) {
    a->listening = a->armed = a->watching = false;
    out->disarm = true;
}

/* There is no line at this server for this user, as it has turned out, or no more in this phase. An entry of before,
 * when it might be there, still has its turn: job.queue.stands stays, so that giving up takes it away. */
static void leave_inbox(tl_acquisition *a, tl_out *out) {
    a->lining = false;
    leave_topic(a, out);
}

static bool is_granted(const tl_acquisition *a);
static bool is_given(tl_acquisition *a, const tl_event *e);

static void note_place(tl_acquisition *a, const tl_event *e, tl_out *out) {
    if (!a->job.queue.join || !a->lining || a->attempt.result.acquire.place <= 0)
        return;
    a->job.queue.place = a->attempt.result.acquire.place;
    a->run = out->run = e->asked.run;
}

static tl_status busy(tl_acquisition *a, const tl_event *e, tl_out *out) {
    tl_retrier *r = &a->retry;
    a->unwanted = a->attempt.result.maybe; /* the key is its own, which the sidecar forbids */
    tl__retry_held(r, TL_LITERAL("another holds it"), out);
    if (a->uncertain && (a->attempt.result.acquire.checked || !GUARD(limit_checked)) &&
        (!tl__mono_before(e->asked.sent, a->harmless) || !GUARD(busy_behind_doubt)))
        a->uncertain = false; /* the takes that were in flight are over, and K isn't ours */
    bool may = may_line(a, e), begins = !a->lining && may;
    if (GUARD(leaves_queue) && a->lining && !may)
        leave_inbox(a, out);
    else if (begins && a->listening)
        leave_topic(a, out);
    a->lining = a->lining || begins;
    note_place(a, e, out);
    bool granted = is_granted(a);
    if (is_given(a, e))
        return TL_END;
    if (GUARD(looks_after_grant) && granted) /* what is not believed is looked at */
        a->woken = a->called = true;
    tl_mono next = r->planned;
    if (!tl__retry_is_planned(r)) {
        int64_t pause = tl__retry_pause_ms(r, e->now);
        if (pause < 0)
            return give_up(a, e, a->uncertain ? TL_EUNCERTAIN : TL_EBUSY, out);
        if (r->strategy.kind == TL_RETRY_AUTO)
            pause = a->lining ? line_pause(a, e) : auto_pause(a, e);
        next = tl__retry_in_time(r, e->now, tl__mono_add_ms(e->now, pause));
    }
    if (begins) {
        listen_to_inbox(a, out);
        return tl__retry_pause(r, a->armed ? e->now : next, out);
    }
    if (!a->listening && !out->disarm && !a->attempt.result.acquire.silent)
        listen(a, out);
    if (!a->woken)
        return tl__retry_pause(r, next, out);
    r->planned = next;
    tl_status status = tl__retry_pause(r, e->now, out);
    r->extra = !a->called;
    return status;
}

static void doubt(tl_acquisition *a, tl_mono harmless, bool killable) {
    if (!a->uncertain)
        a->harmless = a->unkillable = (tl_mono){0};
    a->harmless = tl__mono_max(a->harmless, harmless);
    if (!killable)
        a->unkillable = tl__mono_max(a->unkillable, harmless);
    a->uncertain = GUARD(doubt_remembered);
}

/* A native take that is on its way ends with its connection. */
static bool note_native(tl_acquisition *a, const tl_event *e) {
    if (!e->asked.native || e->asked.id == 0 || !GUARD(native_is_ended))
        return false;
    a->kill_id = e->asked.id;
    a->kill_run = e->asked.run;
    return true;
}

/* No answer, or one that may pass: try again with the same token, at once if a first request got
 * lost, since it may have taken effect. */
static tl_status failed(tl_acquisition *a, const tl_event *e, tl_err code, tl_out *out) {
    if (!tl__may_pass(code))
        return give_up(a, e, code, out);
    tl_mono next = tl__retry_after(&a->retry, e->now, code == TL_EUNCERTAIN);
    return tl__retry_pause(&a->retry, next, out);
}

/* Nothing is given there before the hint. */
static tl_status withheld(tl_acquisition *a, const tl_event *e, tl_out *out) {
    int64_t ms = tl__until_hint_ms(a->attempt.result.acquire.hint, INT64_MAX, e->now,
                                   &a->retry.random);
    tl_mono next = tl__mono_add_ms(e->now, ms);
    note_place(a, e, out);
    a->retry.failures++;
    if (a->retry.wait_ms == 0 && !tl__mono_before(next, a->retry.limit))
        return run_out(a, e, out);
    return tl__retry_pause(&a->retry, next, out);
}

static tl_status attempt_ended(tl_acquisition *a, const tl_event *e, tl_out *out) {
    const tl_result *r = &a->attempt.result;
    if (r->code == TL_OK && (!GUARD(late_success) || tl__mono_before(e->now, r->deadline))) {
        a->result = *r;
        note_doubt(a);
        return TL_END;
    }
    if (r->code == TL_OK) { /* confirmed too late to be of use: have it confirmed again */
        a->unwanted = GUARD(unwanted_remembered);
        tl__retry_say(&a->retry, TL_LITERAL("confirmed too late"));
        return failed(a, e, TL_EUNAVAILABLE, out);
    }
    if (r->code == TL_EBUSY)
        return busy(a, e, out);
    if (r->late && a->retry.answered && !tl__mono_before(e->now, a->retry.limit))
        return run_out(a, e, out); /* no failure of the server's: what it said last holds */
    bool killable = e->kind == TL_FAILED && e->failed.maybe_sent && note_native(a, e);
    if (r->maybe && r->code == TL_EUNCERTAIN)
        doubt(a, r->harmless, killable);
    else if (r->maybe) {
        a->unwanted = GUARD(unwanted_remembered);
        tl__retry_lift_limit(&a->retry);
    }
    /* Without memory for the reply it isn't known, and none can be had by asking again. */
    bool unknown = GUARD(unread_for_memory) && e->kind == TL_FAILED && e->failed.why == TL_ENOMEM;
    tl_err code = unknown ? TL_ENOMEM : r->code;
    tl__retry_blame(&a->retry, e, code, tl__bytes_of(out->words));
    bool waits = GUARD(sleeps_until_hint) && r->acquire.hint.ns != TL_NEVER.ns &&
                 tl__may_pass(code);
    return waits ? withheld(a, e, out) : failed(a, e, code, out);
}

/* ---- cleaning up ----------------------------------------------------------------------------- */

static tl_status drop(tl_acquisition *a, const tl_event *e, tl_out *out) {
    tl_status status = tl__attempt_begin(&a->attempt, &a->job, TL_RELEASE, ++a->ticket,
                                         a->retry.limit, e, out);
    a->retry.next = TL_NEVER;
    out->until = a->retry.limit;
    return status;
}

/* A look that is still on its way would stand in line anew: `spent` knows the last token only. */
static bool may_return(const tl_acquisition *a, const tl_event *e) {
    return a->job.queue.stands && a->uncertain && tl__mono_before(e->now, a->harmless) &&
           tl__mono_before(a->harmless, a->retry.limit);
}

static tl_status reach_to_kill(tl_acquisition *a, tl_out *out) {
    a->retry.next = TL_NEVER;
    a->killing = false;
    out->until = a->retry.limit;
    tl__out_send(out, ++a->ticket, GUARD(reach_has_limit) ? a->retry.limit : TL_NEVER);
    return TL_GO;
}

/* First the connection is ended whose request may come late; then what it may have done is undone. */
static tl_status clean_kill(tl_acquisition *a, const tl_event *e, tl_out *out) {
    out->until = a->retry.limit;
    if (e->kind == TL_REPLY && !a->killing && must_kill(a, e)) {
        a->killing = true;
        return kill(a, e, out);
    }
    if (a->killing)
        killed(a, e);
    if (e->kind == TL_REPLY) {
        a->kill_id = 0;
        return GUARD(undone_after_kill) ? drop(a, e, out) : TL_END;
    }
    a->retry.next = tl__retry_after(&a->retry, e->now, false);
    out->until = tl__retry_wakes(&a->retry);
    return TL_GO;
}

static tl_status clean(tl_acquisition *a, const tl_event *e, tl_out *out) {
    if (!tl__mono_before(e->now, a->retry.limit))
        return TL_END; /* by now it has expired */
    if (!tl__mono_before(e->now, a->retry.next))
        return a->kill_id ? reach_to_kill(a, out) : drop(a, e, out);
    bool answer = e->kind == TL_REPLY || e->kind == TL_FAILED;
    if (answer && a->kill_id && e->asked.ticket == a->ticket)
        return clean_kill(a, e, out);
    /* Until the connection is ended nothing is being dropped. */
    if (answer && !a->kill_id && tl__attempt_step(&a->attempt, &a->job, e, out) == TL_END) {
        bool done = !tl__may_pass(a->attempt.result.code);
        if (done && !may_return(a, e))
            return TL_END;
        a->retry.next = done ? a->harmless : tl__retry_after(&a->retry, e->now, false);
    }
    out->until = tl__retry_wakes(&a->retry);
    return TL_GO;
}

/* ---- in line --------------------------------------------------------------------------------- */

/* Given while a look was in flight, which was answered without knowing of it: it was executed before. */
static bool is_granted(const tl_acquisition *a) {
    return a->granted &&
           (a->attempt.result.acquire.server_us <= a->grant.at_us || !GUARD(later_look_counts));
}

/* A request of ours that gives K back may still come. */
static bool may_be_given_back(const tl_acquisition *a, const tl_event *e) {
    return GUARD(not_while_given_back) && a->attempt.result.acquire.giving &&
           tl__mono_before(e->now, a->attempt.result.acquire.hint);
}

static bool is_given(tl_acquisition *a, const tl_event *e) {
    bool granted = is_granted(a) && !may_be_given_back(a, e);
    tl_mono deadline;
    a->granted = false;
    if (!granted || !tl__line_believe(&a->grant, a->run, &a->job, e, &deadline))
        return false;
    int64_t others = a->grant.others < INT32_MAX ? a->grant.others : INT32_MAX;
    a->result = (tl_result){.code = TL_OK,
                            .deadline = deadline,
                            .proof = {.kind = TL_PROOF_TOKEN, .held_by = 1 + TL_TOKEN},
                            .acquire = {.fence = a->grant.fence, .waiting = (int32_t)others}};
    note_doubt(a);
    a->result.proof.unbound = true; /* kept for a short time until the first renewal */
    return true;
}

/* ---- events ---------------------------------------------------------------------------------- */

static tl_status begin(tl_acquisition *a, const tl_event *e, tl_out *out) {
    a->lining = a->lining && may_line(a, e);
    if (a->lining)
        listen_to_inbox(a, out);
    tl__retry_begin(&a->retry, e->now);
    return reach(a, out);
}

static tl_status reach_failed(tl_acquisition *a, const tl_event *e, tl_out *out) {
    return tl__retry_unreached(&a->retry, e, a->uncertain || a->unwanted)
               ? failed(a, e, e->failed.why, out)
               : run_out(a, e, out);
}

static tl_status on_answer(tl_acquisition *a, const tl_event *e, tl_out *out) {
    if (e->asked.ticket != a->ticket || a->retry.doing == TL_PAUSES)
        return tl__retry_stay(&a->retry, out);
    if (a->retry.doing == TL_ASKS) {
        tl_status status = tl__attempt_step(&a->attempt, &a->job, e, out);
        return status == TL_END ? attempt_ended(a, e, out) : status;
    }
    if (a->retry.doing == TL_KILLS) {
        killed(a, e);
    } else if (e->kind == TL_REPLY && must_kill(a, e)) {
        a->retry.doing = TL_KILLS;
        return kill(a, e, out);
    }
    return e->kind == TL_REPLY ? take(a, e, out) : reach_failed(a, e, out);
}

static tl_status on_timer(tl_acquisition *a, const tl_event *e, tl_out *out) {
    if (a->retry.doing != TL_PAUSES)
        return TL_GO;
    if (!tl__mono_before(e->now, a->retry.limit))
        return run_out(a, e, out);
    if (!tl__mono_before(e->now, a->retry.next))
        return reach(a, out);
    return tl__retry_stay(&a->retry, out);
}

/* Something may have changed, or nobody will tell any more: look at once, unless it is the server
 * that is away. */
static tl_status on_wake(tl_acquisition *a, const tl_event *e, tl_out *out) {
    if (e->kind == TL_WATCHED)
        a->watching = e->armed;
    else
        a->armed = e->kind == TL_WOKEN || e->armed;
    a->woken = GUARD(wake_remembered);
    a->called = a->called || e->kind == TL_WOKEN;
    if (a->retry.doing == TL_PAUSES && a->retry.failures == 0) {
        a->retry.extra = e->kind != TL_WOKEN;
        a->retry.planned = a->retry.next;
        a->retry.next = GUARD(wakes_at_once) ? e->now : a->retry.planned;
    }
    return on_timer(a, e, out);
}

/* What is not believed is looked at. */
static tl_status on_granted(tl_acquisition *a, const tl_event *e, tl_out *out) {
    TL_ASSERT(e->kind == TL_GRANTED);
    a->granted = a->job.queue.stands;
    a->grant = *e->grant;
    if (a->retry.doing == TL_ASKS)
        return TL_GO;
    a->attempt.result.acquire.server_us = 0; /* whatever was answered before */
    if (is_given(a, e))
        return TL_END;
    if (a->retry.doing == TL_PAUSES && a->retry.failures == 0)
        a->retry.next = e->now;
    return on_timer(a, e, out);
}

/* One of the first three now, who mind the end of the holder's time; also when what is in flight has been answered
 * before that was so. */
static tl_status on_near(tl_acquisition *a, const tl_event *e, tl_out *out) {
    a->near = GUARD(near_looks_soon);
    if (a->near && a->retry.doing == TL_PAUSES && a->retry.failures == 0)
        a->retry.next = tl__mono_min(a->retry.next, tl__mono_add_ms(e->now, TL_LOOK_AGAIN_MS));
    return on_timer(a, e, out);
}

static tl_status on_cancel(tl_acquisition *a, const tl_event *e, tl_out *out) {
    if (GUARD(cancel_in_doubt) && a->retry.doing == TL_ASKS)
        doubt(a, a->job.queue.join ? tl__attempt_harmless(&a->attempt) : TL_NEVER,
              note_native(a, e));
    tl__retry_say(&a->retry, TL_LITERAL("cancelled"));
    return give_up(a, e, TL_ECANCELLED, out);
}

tl_status tl__acquire_step(void *machine, const tl_event *e, tl_out *out) {
    tl_acquisition *a = machine;
    if (a->retry.doing == TL_CLEANS)
        return clean(a, e, out);
    switch (e->kind) {
    case TL_START: return begin(a, e, out);
    case TL_REPLY:
    case TL_FAILED: return on_answer(a, e, out);
    case TL_ARMED:
    case TL_WATCHED:
    case TL_WOKEN: return on_wake(a, e, out);
    case TL_GRANTED: return on_granted(a, e, out);
    case TL_NEAR: return on_near(a, e, out);
    case TL_TIMER: return on_timer(a, e, out);
    case TL_CANCEL: return on_cancel(a, e, out);
    case TL_CHANGED: break; /* of holds */
    }
    return TL_GO;
}
