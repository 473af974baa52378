/*
 * Stamps with a sidecar, on servers with EVAL. A take first expects K to be absent; what it
 * finds instead is judged here, and taken by comparing its exact bytes. A keep writes a later stamp;
 * one that finds a racing loser's stamp takes its own back.
 */
#include "stamp/stamp.h"

#include "ground/guard.h"

enum { FIRST, EXPECTING, RENEWING };

/* ---- sending --------------------------------------------------------------------------------- */

static void write_stamp(tl_stamp_try *s, const tl_job *job, const tl_event *e, tl_bytes expect,
                        tl_out *out) {
    char text[TL_STAMP_SIZE];
    int64_t now_ms = tl__stamp_now_us(job, e).lo / 1000, end_ms = now_ms + job->ttl_ms;
    int64_t least_ms = tl__stamp_least_end_ms(job, e);
    if (GUARD(taken_back_for_long) && s->try.result.op == TL_RENEW && expect.n > 0 &&
        end_ms < least_ms)
        end_ms = least_ms;
    s->end_ms = end_ms;
    tl_bytes value = tl__dialect_write(job->rules.dialect, end_ms, tl__token_bytes(&job->token),
                                       text);
    tl_sidecar_write token = {.value = tl__token_bytes(&job->token),
                              .expect = TL_LITERAL(""),
                              .px_ms = end_ms - now_ms,
                              .binds = true};
    tl_sidecar_write w = {
        .value = tl__out_copy(out, value, (tl_bytes){0}),
        .expect = TL_LITERAL(""),
        .px_ms = tl__stamp_px_ms(job, end_ms - now_ms),
        .until_us = (end_ms + GUARD(binds_for_skew) * job->rules.clock_skew_max_ms) * 1000};
    if (s->drain)
        w = token;
    if (GUARD(expects_same_stamp) && expect.n > 0)
        w.expect = tl__out_copy(out, TL_LITERAL("="), expect);
    if ((s->try.result.op == TL_ACQUIRE && s->phase != RENEWING) || expect.n > 0)
        tl__sidecar_send_acquire(&s->try, job, &w, e, out);
    else
        tl__sidecar_send_renew(&s->try, job, &w, e, out);
}

void tl__stamp_script_send(tl_stamp_try *s, const tl_job *job, const tl_event *e, tl_out *out) {
    s->level = TL_LEVEL_SCRIPT;
    if (job->rules.nodes && job->hold.proof.unbound && s->try.result.op == TL_RELEASE)
        s->try.alone = true; /* what K holds S hasn't been told of yet */
    if (s->try.alone)
        tl__stamp_alone_send(s, job, e, out);
    else if (s->try.result.op == TL_RELEASE)
        tl__sidecar_send_release(&s->try, job, out);
    else
        write_stamp(s, job, e, (tl_bytes){0}, out);
}

/* Does K still hold what this attempt has just asked for? Then it was S that refused. */
static bool is_expected(const tl_stamp_try *s, tl_bytes value) {
    return GUARD(refusal_is_no_change) && s->phase == EXPECTING && value.n == s->read_n &&
           tl__bytes_hash(0, value) == s->read_hash;
}

/* false: it has been tried often enough, or it is too late. */
static bool ask_again(tl_stamp_try *s, uint8_t phase, const tl_job *job, tl_bytes expect,
                      const tl_event *e, tl_out *out) {
    if (++s->rounds > TL_STAMP_ROUNDS || !tl__mono_before(e->now, s->try.until))
        return false;
    s->phase = phase;
    s->try.asked = e->now;
    s->try.by = tl__mono_min(tl__mono_add_ms(e->now, job->attempt_ms), s->try.until);
    tl_server room;
    tl_event informed = tl__try_informed(e, out, &room);
    write_stamp(s, job, &informed, expect, out);
    return true;
}

/* Take K where it holds exactly this. */
static bool take_from(tl_stamp_try *s, const tl_job *job, tl_bytes expect, const tl_event *e,
                      tl_out *out) {
    s->read_n = expect.n;
    s->read_hash = tl__bytes_hash(0, expect);
    return ask_again(s, EXPECTING, job, expect, e, out);
}

/* ---- what an answer is worth ----------------------------------------------------------------- */

/* Has K our token? The usual take doesn't tell. A phase that writes tokens may have been left since. */
static bool is_own_token(const tl_stamp_try *s, const tl_job *job,
                         const tl_sidecar_answer *answer) {
    if (!answer->value.p)
        return s->drain && (s->try.result.op == TL_ACQUIRE || s->phase == EXPECTING);
    return tl__bytes_eq(answer->value, tl__token_bytes(&job->token));
}

static tl_status held(tl_stamp_try *s, const tl_job *job, const tl_sidecar_answer *answer,
                      const tl_event *e, tl_out *out) {
    tl_try *a = &s->try;
    int64_t now_ms = (answer->server_us + 999) / 1000;
    bool is_token = is_own_token(s, job, answer); /* no stamp any more, and no clock counts */
    if (GUARD(token_is_no_stamp) && is_token)
        return tl__try_held(a, job, e, answer->left_ms, answer->fence, out);
    tl_stamp stamp = tl__dialect_read(job->rules.dialect, answer->value, now_ms);
    if (stamp.kind != TL_STAMP_GOOD || answer->server_us <= 0)
        return tl__try_malformed(a, out);
    int64_t left_ms = GUARD(found_stamp_counts) ? stamp.end_ms - now_ms : job->ttl_ms;
    left_ms -= GUARD(spares_skew) * job->rules.clock_skew_max_ms;
    left_ms -= GUARD(spares_late_waiters) * tl__stamp_late_ms(&job->rules);
    if (tl__try_held(a, job, e, left_ms > 0 ? left_ms : 0, answer->fence, out) != TL_END ||
        a->result.code != TL_OK)
        return TL_END;
    tl__stamp_prove(a, job, e, answer->server_us, stamp.end_ms);
    /* Ours, but over: nothing ends such a stamp, so that each further take would find the same. */
    bool over = GUARD(expired_take_renewed) && a->result.op == TL_ACQUIRE &&
                !tl__mono_before(e->now, a->result.deadline);
    return over && ask_again(s, RENEWING, job, (tl_bytes){0}, e, out) ? TL_GO : TL_END;
}

/* A stamp with a lifetime of its own that S knows nothing of is held while that lasts. */
static bool is_free(const tl_job *job, const tl_sidecar_answer *answer, const tl_stamp *stamp) {
    return (answer->left_ms < 0 || answer->known || !GUARD(only_known_stamps_end)) &&
           tl__stamp_is_free(&job->rules, stamp, answer->server_us / 1000);
}

static tl_status busy(tl_stamp_try *s, const tl_job *job, const tl_sidecar_answer *answer,
                      const tl_event *e, tl_out *out) {
    tl_try *a = &s->try;
    int64_t now_ms = answer->server_us / 1000;
    if (!answer->value.p || is_expected(s, answer->value))
        return tl__try_busy(a, e, answer->left_ms);
    tl_stamp stamp = tl__dialect_read(job->rules.dialect, answer->value, now_ms);
    if (is_free(job, answer, &stamp) && take_from(s, job, answer->value, e, out))
        return TL_GO;
    if (stamp.kind != TL_STAMP_GOOD || (answer->left_ms >= 0 && !answer->known))
        return tl__try_busy(a, e, answer->left_ms);
    a->result.code = TL_EBUSY;
    a->result.acquire.hint = tl__stamp_free_at(&job->rules, &stamp, now_ms, e);
    return TL_END;
}

/* Another server may have answered this than the take before: who has quiet_ms begins to believe by a take alone. */
static tl_status renewed(tl_stamp_try *s, const tl_job *job, const tl_event *e, tl_out *out) {
    static const char again[] = "it was confirmed too late, and renewed: to be taken again";
    tl_sidecar_answer answer;
    if (!tl__sidecar_renewed(e, out, &answer))
        return tl__try_malformed(&s->try, out);
    answer.fence = s->try.result.acquire.fence;
    if (GUARD(no_quiet_renewal) && answer.status == 1 && job->acquire.quiet_ms > 0)
        return tl__try_fail(&s->try, TL_EUNAVAILABLE, true, TL_LITERAL(again), out);
    if (answer.status == 1)
        return held(s, job, &answer, e, out);
    return answer.status == -2 ? tl__try_too_late(&s->try, out) : tl__try_busy(&s->try, e, 0);
}

static tl_status acquire_answered(tl_stamp_try *s, const tl_job *job, const tl_event *e,
                                  tl_out *out) {
    tl_sidecar_answer answer;
    if (s->phase == RENEWING)
        return renewed(s, job, e, out);
    if (!tl__sidecar_acquired(&s->try, job, e, out, &answer))
        return tl__try_malformed(&s->try, out);
    if (answer.status == 1)
        return held(s, job, &answer, e, out);
    return answer.status == 0 ? busy(s, job, &answer, e, out)
                              : tl__sidecar_refused(&s->try, &answer, e, out);
}

/* ---- keeping --------------------------------------------------------------------------------- */

/* It may have been renewed key by key by a request that went unanswered, while the slot was being moved. */
static tl_status renew_alone(tl_stamp_try *s, const tl_job *job, const tl_event *e, tl_out *out) {
    s->try.alone = true;
    tl_server room;
    tl_event informed = tl__try_informed(e, out, &room);
    tl__stamp_alone_send(s, job, &informed, out);
    return TL_GO;
}

static tl_status overwritten(tl_stamp_try *s, const tl_job *job, const tl_sidecar_answer *answer,
                             const tl_event *e, tl_out *out) {
    static const char message[] = "racing clients overwrite it again and again";
    int64_t now_ms = answer->server_us / 1000;
    if (!answer->value.p) /* to a keep: a key of another type, or it would have said -1 */
        return tl__try_not_renewed(&s->try, s->phase == EXPECTING ? -1 : 0, out);
    if (is_expected(s, answer->value))
        return tl__try_not_renewed(&s->try, 0, out);
    tl_stamp stamp = tl__dialect_read(job->rules.dialect, answer->value, now_ms);
    bool own = job->rules.nodes && tl__stamp_alone_owns(job, answer->value);
    bool losers = tl__stamp_is_losers(job, &stamp, e);
    if (GUARD(asks_sidecar_again) && !own && !losers && job->rules.nodes)
        return renew_alone(s, job, e, out);
    if (!own && !losers)
        return tl__stamp_stolen(&s->try, job, &stamp, now_ms, out);
    if (take_from(s, job, answer->value, e, out))
        return TL_GO;
    return tl__try_fail(&s->try, TL_EUNAVAILABLE, true, TL_LITERAL(message), out);
}

/* K has stayed what it was, as S binds for longer than it would have become: a request was noted there, key by key, that has
 * not changed K. */
static bool is_behind(const tl_stamp_try *s, const tl_job *job, const tl_sidecar_answer *answer) {
    if (!job->rules.nodes || s->phase == EXPECTING || answer->status != 1)
        return false;
    tl_stamp stamp = tl__dialect_read(job->rules.dialect, answer->value, answer->server_us / 1000);
    return stamp.kind == TL_STAMP_GOOD && stamp.end_ms < s->end_ms;
}

static tl_status renew_answered(tl_stamp_try *s, const tl_job *job, const tl_event *e,
                                tl_out *out) {
    tl_sidecar_answer answer;
    bool sense = s->phase == EXPECTING ? tl__sidecar_acquired(&s->try, job, e, out, &answer)
                                       : tl__sidecar_renewed(e, out, &answer);
    if (!sense)
        return tl__try_malformed(&s->try, out);
    if (GUARD(behind_sidecar) && is_behind(s, job, &answer))
        return renew_alone(s, job, e, out);
    switch (answer.status) {
    case 1: return held(s, job, &answer, e, out);
    case 0: return overwritten(s, job, &answer, e, out);
    case -1:
        return s->phase == EXPECTING ? tl__try_too_late(&s->try, out)
                                     : tl__try_not_renewed(&s->try, -1, out);
    default: return tl__try_too_late(&s->try, out);
    }
}

/* A racing loser's stamp stays where it is until it runs out, but the lock was ours. */
static tl_status release_answered(tl_stamp_try *s, const tl_job *job, const tl_event *e,
                                  tl_out *out) {
    tl_bytes value;
    tl_status status = tl__sidecar_released(&s->try, e, out);
    if (s->try.result.code != TL_ETAKEN || !tl__reply_text(e->replied.reply, &value))
        return status;
    tl_stamp stamp = tl__dialect_read(job->rules.dialect, value,
                                      tl__stamp_now_us(job, e).lo / 1000);
    if (tl__stamp_is_losers(job, &stamp, e))
        s->try.result.code = TL_OK;
    return status;
}

bool tl__stamp_script_renews(const tl_stamp_try *s) {
    return s->try.result.op == TL_ACQUIRE && s->phase == RENEWING;
}

/* Got past its own entry in line, of a phase before. */
static tl_status acquired(tl_stamp_try *s, const tl_job *job, const tl_event *e, tl_out *out) {
    tl_status status = acquire_answered(s, job, e, out);
    s->try.result.proof.stood_ms = GUARD(leaves_old_queue) && job->queue.stands ? job->ttl_ms : 0;
    return status;
}

tl_status tl__stamp_script_answered(tl_stamp_try *s, const tl_job *job, const tl_event *e,
                                    tl_out *out) {
    if (s->try.alone)
        return tl__stamp_alone_answered(s, job, e, out);
    switch ((tl_op)s->try.result.op) {
    case TL_ACQUIRE: return acquired(s, job, e, out);
    case TL_RENEW: return renew_answered(s, job, e, out);
    case TL_RELEASE: return release_answered(s, job, e, out);
    }
    return tl__try_malformed(&s->try, out);
}
