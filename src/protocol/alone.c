/*
 * Locks by requests of one key each. An acquire sends several requests. The first is for K. The second draws
 * a fencing number, while K is held, so that numbers rise. The third is for S, which may name another holder.
 * The last is for K again. An attempt that ends between them leaves K behind, and must say so. These requests
 * don't join the queue: their waiters poll.
 */
#include "protocol/alone.h"

#include "ground/guard.h"
#include "protocol/sidecar.h"

/* ---- K --------------------------------------------------------------------------------------- */

void tl__alone_send_hold(tl_try *attempt, const tl_job *job, bool take, const tl_event *event,
                         tl_out *out) {
    tl_send *send = tl__out_send(out, attempt->ticket, attempt->by);
    tl_command *command = tl__try_script(send, TL_SCRIPT_HOLD);
    int64_t not_after = tl__try_not_after_us(attempt, event, false);
    attempt->bounded = attempt->result.op == TL_ACQUIRE && not_after > 0;
    command->nkeys = 1;
    TL_ADD(command, job->key, tl__token_bytes(&job->token), tl__out_int(out, job->ttl_ms),
           tl__out_int(out, not_after), take ? TL_LITERAL("take") : TL_LITERAL("keep"));
    tl__try_add_wait(send, job, out);
}

void tl__alone_send_free(tl_try *attempt, const tl_job *job, tl_out *out) {
    tl_command *command = tl__try_script(tl__out_send(out, attempt->ticket, attempt->by),
                                         TL_SCRIPT_FREE);
    command->nkeys = 1;
    TL_ADD(command, job->key, tl__token_bytes(&job->token), job->sidecar);
}

/* The release within an acquire. The token may acquire K again later, so the request carries a not_after:
 * executed late, it must do nothing. The result says until when it may be executed. */
static void send_back(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    tl__alone_send_free(attempt, job, out);
    if (GUARD(given_back_in_time))
        tl__try_add(&out->send.command[0],
                    tl__out_int(out, tl__try_not_after_us(attempt, event, false)));
    attempt->result.acquire.giving = true;
    attempt->result.acquire.hint = attempt->by;
}

void tl__alone_send_leave(tl_try *attempt, const tl_job *job, tl_out *out) {
    tl_command *command = tl__try_script(tl__out_send(out, attempt->ticket, attempt->by),
                                         TL_SCRIPT_LEAVE);
    command->nkeys = 1;
    TL_ADD(command, job->line, job->queue.stands ? tl__sidecar_entry(job, out) : TL_LITERAL(""),
           job->key);
}

void tl__alone_send_unbind(tl_try *attempt, const tl_job *job, tl_out *out) {
    tl_command *command = tl__try_script(tl__out_send(out, attempt->ticket, attempt->by),
                                         TL_SCRIPT_UNBIND);
    command->nkeys = 1;
    TL_ADD(command, job->sidecar, tl__token_bytes(&job->token));
}

/* A request that was redirected by an ASK may be executed much later. By then the slot may have been moved
 * away and back, and be moving again. Then a key that is absent at that node may be at the slot's owner, and
 * a key that was acquired there may be another's at the owner. So the slot's owner is asked, too. */
bool tl__alone_may_repeat(const tl_try *attempt, const tl_event *event) {
    return attempt->asking && !attempt->again && tl__mono_before(event->now, attempt->by);
}

tl_status tl__alone_repeat(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    attempt->again = true;
    attempt->asking = false;
    attempt->hops = 0;
    return attempt->row->send(attempt, job, event, out);
}

tl_status tl__alone_held(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    int64_t status, left, checked;
    if (!tl__reply_int(tl__reply_item(event->replied.reply, 0), &status) || status < -2 ||
        status > 1 || !tl__reply_int(tl__reply_item(event->replied.reply, 2), &left) ||
        !tl__reply_int(tl__reply_item(event->replied.reply, 5), &checked))
        return tl__try_malformed(attempt, out);
    tl__out_time(out, event->replied.reply, 3, event);
    if (attempt->result.op == TL_ACQUIRE) {
        attempt->result.acquire.checked = checked == 1;
        attempt->result.acquire.polls = true;
    }
    if (status == -2)
        return tl__try_too_late(attempt, out);
    if (status == 1)
        return tl__try_held(attempt, job, event, left, 0, out);
    if (attempt->result.op == TL_RENEW && status == -1 && tl__alone_may_repeat(attempt, event))
        return tl__alone_repeat(attempt, job, event, out);
    if (attempt->result.op == TL_RENEW)
        return tl__try_not_renewed(attempt, status, out);
    return status == 0 ? tl__try_busy(attempt, event, left) : tl__try_malformed(attempt, out);
}

/* The deadline is that of the first reply; the lifetime in this reply is not used. */
tl_status tl__alone_has_again(tl_try *attempt, const tl_event *event, tl_out *out) {
    static const char gone[] = "the key was deleted meanwhile, or another holds it";
    int64_t status;
    if (!tl__reply_int(tl__reply_item(event->replied.reply, 0), &status))
        return tl__try_malformed(attempt, out);
    return status == 1 ? TL_END
                       : tl__try_fail(attempt, TL_EUNAVAILABLE, true, TL_LITERAL(gone), out);
}

tl_status tl__alone_freed(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    int64_t status;
    if (!tl__reply_int(event->replied.reply, &status) || status < -1 || status > 1)
        return tl__try_malformed(attempt, out);
    if (status == -1 && tl__alone_may_repeat(attempt, event))
        return tl__alone_repeat(attempt, job, event, out);
    return status == 1 ? TL_END : tl__try_not_released(attempt, status, out);
}

/* ---- the number, and S ----------------------------------------------------------------------- */

static void send_number(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    char counter[TL_COUNTER_SIZE];
    tl_command *command = tl__try_script(tl__out_send(out, attempt->ticket, attempt->by),
                                         TL_SCRIPT_NUMBER);
    command->nkeys = 1;
    TL_ADD(command, tl__out_copy(out, tl__counter(counter, &job->slot), (tl_bytes){0}),
           tl__out_int(out, tl__job_fences(job)),
           tl__out_int(out, tl__try_server_us(event, event->now).lo));
}

static void send_bind(tl_try *attempt, const tl_alone *alone, const tl_job *job,
                      const tl_event *event, tl_out *out) {
    tl_command *command = tl__try_script(tl__out_send(out, attempt->ticket, attempt->by),
                                         TL_SCRIPT_BIND);
    tl_interval now = tl__try_server_us(event, event->now);
    command->nkeys = 1;
    TL_ADD(command, job->sidecar, tl__token_bytes(&job->token), tl__out_int(out, job->ttl_ms),
           tl__out_int(out, now.lo), tl__out_int(out, now.hi),
           tl__out_int(out, (int64_t)alone->last), job->owner,
           tl__out_int(out, tl__try_not_after_us(attempt, event, true)));
}

void tl__alone_send(tl_try *attempt, tl_alone *alone, const tl_job *job, const tl_event *event,
                    tl_out *out) {
    switch ((tl_alone_stage)alone->stage) {
    case TL_ALONE_KEY:
        attempt->asked = event->now; /* this server may not be the one that was asked before */
        tl__alone_send_hold(attempt, job, true, event, out);
        break;
    case TL_ALONE_NUMBER: send_number(attempt, job, event, out); break;
    case TL_ALONE_BIND: send_bind(attempt, alone, job, event, out); break;
    case TL_ALONE_AGAIN: tl__alone_send_hold(attempt, job, false, event, out); break;
    case TL_ALONE_BACK: send_back(attempt, job, event, out); break;
    }
}

/* ---- an acquire, stage by stage -------------------------------------------------------------- */

static tl_status go_on(tl_try *attempt, tl_alone *alone, tl_alone_stage stage, const tl_job *job,
                       const tl_event *event, tl_out *out) {
    if (!tl__mono_before(event->now, attempt->by))
        return tl__try_no_time(attempt, out);
    alone->stage = (uint8_t)stage;
    attempt->asking = false; /* the next key may be at another node */
    attempt->hops = 0;
    tl__alone_send(attempt, alone, job, event, out);
    return TL_GO;
}

static tl_status has_key(tl_try *attempt, tl_alone *alone, const tl_job *job, const tl_event *event,
                         tl_out *out) {
    tl_status status = tl__alone_held(attempt, job, event, out);
    bool held = status == TL_END && attempt->result.code == TL_OK;
    return held ? go_on(attempt, alone, TL_ALONE_NUMBER, job, event, out) : status;
}

static tl_status has_number(tl_try *attempt, tl_alone *alone, const tl_job *job,
                            const tl_event *event, tl_out *out) {
    int64_t last;
    if (!tl__reply_int(event->replied.reply, &last) || last < tl__job_fences(job) ||
        last >= TL_FENCE_END)
        return tl__try_malformed(attempt, out);
    alone->last = (uint64_t)last;
    return go_on(attempt, alone, TL_ALONE_BIND, job, event, out);
}

static tl_status has_all(tl_try *attempt, const tl_alone *alone, const tl_job *job) {
    attempt->result.code = TL_OK;
    attempt->result.acquire.fence = alone->last - (uint64_t)(tl__job_fences(job) - 1);
    /* Our entry may still be in the queue. */
    attempt->result.proof.stood_ms = job->queue.stands ? (int32_t)job->ttl_ms : 0;
    return TL_END;
}

/* S names another holder. Release K only on a server that rejects late requests. Elsewhere a late release
 * could delete K after the token has acquired it again: there K is left to expire. */
static tl_status binds_another(tl_try *attempt, tl_alone *alone, const tl_job *job,
                               const tl_event *event, tl_out *out) {
    if (attempt->bounded && (attempt->result.acquire.checked || !GUARD(unchecked_is_left)))
        return go_on(attempt, alone, TL_ALONE_BACK, job, event, out);
    attempt->result.acquire.announced = false;
    return tl__try_busy(attempt, event, alone->left_ms);
}

/* K may be lost by now. An earlier request still in flight may have found K set by a token unknown to S, and
 * have deleted K. Or the request for K was redirected by an ASK and executed much later
 * (tl__alone_may_repeat): then another client may hold K at the slot's owner, unknown to S. So ask for K once
 * more, at the slot's owner. Now that S has the token, every later client finds it there. */
static tl_status has_bound(tl_try *attempt, tl_alone *alone, const tl_job *job,
                           const tl_event *event, tl_out *out) {
    static const char behind[] =
        "the fencing counter is lower than this lock's last fencing number",
                      spent[] = "this token has been released already";
    int64_t status, left;
    if (!tl__reply_int(tl__reply_item(event->replied.reply, 0), &status) ||
        !tl__reply_int(tl__reply_item(event->replied.reply, 1), &left))
        return tl__try_malformed(attempt, out);
    switch (status) {
    case 1:
        return GUARD(key_asked_again) ? go_on(attempt, alone, TL_ALONE_AGAIN, job, event, out)
                                      : has_all(attempt, alone, job);
    case 0:
        alone->left_ms = left;
        return GUARD(bound_for_another) ? binds_another(attempt, alone, job, event, out)
                                        : has_all(attempt, alone, job);
    case -1: return tl__try_fail(attempt, TL_EUNAVAILABLE, true, TL_LITERAL(behind), out);
    case -2: return tl__try_fail(attempt, TL_ESERVER, true, TL_LITERAL(spent), out);
    case -3: return tl__try_too_late(attempt, out);
    default: return tl__try_malformed(attempt, out);
    }
}

static tl_status has_all_again(tl_try *attempt, const tl_alone *alone, const tl_job *job,
                               const tl_event *event, tl_out *out) {
    tl_status status = tl__alone_has_again(attempt, event, out);
    return attempt->result.code == TL_OK ? has_all(attempt, alone, job) : status;
}

/* If the release came too late or was rejected, K has stayed. */
static tl_status is_back(tl_try *attempt, tl_alone *alone, const tl_event *event) {
    int64_t status;
    if (tl__reply_int(event->replied.reply, &status) && status >= -1)
        alone->stage = TL_ALONE_KEY;
    attempt->result.acquire.giving = attempt->result.acquire.announced = false;
    return tl__try_busy(attempt, event, alone->left_ms);
}

tl_status tl__alone_answered(tl_try *attempt, tl_alone *alone, const tl_job *job,
                             const tl_event *event, tl_out *out) {
    switch ((tl_alone_stage)alone->stage) {
    case TL_ALONE_KEY: return has_key(attempt, alone, job, event, out);
    case TL_ALONE_NUMBER: return has_number(attempt, alone, job, event, out);
    case TL_ALONE_BIND: return has_bound(attempt, alone, job, event, out);
    case TL_ALONE_AGAIN: return has_all_again(attempt, alone, job, event, out);
    case TL_ALONE_BACK: return is_back(attempt, alone, event);
    }
    return tl__try_malformed(attempt, out);
}
