/*
 * Stamps with a sidecar, on servers with EVAL. An acquire first expects K to be absent. Otherwise
 * the value found is judged here, and replaced only if K still has exactly these bytes. A renewal
 * writes a later stamp; one that finds a racing loser's stamp overwrites it with its own.
 */
#include "stamp/stamp.h"

#include "ground/guard.h"

enum { FIRST, EXPECTING, RENEWING };

/* ---- sending --------------------------------------------------------------------------------- */

static void write_stamp(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                        tl_bytes expect, tl_out *out) {
    char text[TL_STAMP_SIZE];
    int64_t now_ms = tl__stamp_now_us(job, event).lo / 1000, end_ms = now_ms + job->ttl_ms;
    int64_t least_ms = tl__stamp_least_end_ms(job, event);
    if (GUARD(taken_back_for_long) && stamp_try->try.result.op == TL_RENEW && expect.n > 0 &&
        end_ms < least_ms)
        end_ms = least_ms;
    stamp_try->end_ms = end_ms;
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
    if (stamp_try->drain)
        w = token;
    if (GUARD(expects_same_stamp) && expect.n > 0)
        w.expect = tl__out_copy(out, TL_LITERAL("="), expect);
    if ((stamp_try->try.result.op == TL_ACQUIRE && stamp_try->phase != RENEWING) || expect.n > 0)
        tl__sidecar_send_acquire(&stamp_try->try, job, &w, event, out);
    else
        tl__sidecar_send_renew(&stamp_try->try, job, &w, event, out);
}

#define ARGS_BEFORE 8 /* of rest.lua, before those of stamps */

/* The stamp of a dialect with %.0f in its number's place. */
static tl_bytes pattern(const tl_job *job, tl_out *out) {
    const tl_dialect *dialect = job->rules.dialect;
    tl_bytes id = tl__token_bytes(&job->token);
    size_t at = dialect->shape == TL_SHAPE_ID_NUMBER ? id.n + 1 : 0;
    char text[TL_STAMP_SIZE];
    tl_bytes zero = tl__dialect_write(dialect, 0, id, text);
    tl_bytes head = tl__out_copy(out, tl__bytes(zero.p, at), TL_LITERAL("%.0f"));
    head.n += tl__out_copy(out, tl__bytes(zero.p + at + 1, zero.n - at - 1), (tl_bytes){0}).n;
    return head; /* the second copy stands right behind the first */
}

/* The script writes the number, since it alone knows the time. K may hold `losers`, which ends at losers_end_ms,
 * instead of our stamp; n 0: no. */
static void send_rest(tl_stamp_try *stamp_try, const tl_job *job, tl_bytes losers,
                      int64_t losers_end_ms, const tl_event *event, tl_out *out) {
    tl__sidecar_send_release(&stamp_try->try, job, event, out);
    if (!stamp_try->try.resting)
        return;
    tl_command *command = out->send.command;
    while (command->argc < command->nkeys + ARGS_BEFORE)
        tl__try_add(command, TL_LITERAL(""));
    TL_ADD(command, pattern(job, out),
           tl__out_int(out, job->rules.dialect->unit == TL_UNIT_MS ? 1 : 1000),
           tl__out_int(out, job->rules.clock_skew_max_ms),
           tl__out_int(out, tl__stamp_px_ms(job, 0)));
    if (losers.n > 0)
        TL_ADD(command, tl__out_copy(out, losers, (tl_bytes){0}), tl__out_int(out, losers_end_ms));
}

void tl__stamp_script_send(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                           tl_out *out) {
    stamp_try->level = TL_LEVEL_SCRIPT;
    if (tl__stamp_rests(&stamp_try->try, job, event)) {
        send_rest(stamp_try, job, (tl_bytes){0}, 0, event, out);
        return;
    }
    if (job->rules.nodes && job->hold.proof.unbound && stamp_try->try.result.op == TL_RELEASE)
        stamp_try->try.alone = true; /* S does not know K's present value yet */
    if (stamp_try->try.alone)
        tl__stamp_alone_send(stamp_try, job, event, out);
    else if (stamp_try->try.result.op == TL_RELEASE)
        tl__sidecar_send_release(&stamp_try->try, job, event, out);
    else
        write_stamp(stamp_try, job, event, (tl_bytes){0}, out);
}

/* Does K still hold the value that this attempt just expected? Then S caused the refusal. */
static bool is_expected(const tl_stamp_try *stamp_try, tl_bytes value) {
    return GUARD(refusal_is_no_change) && stamp_try->phase == EXPECTING &&
           value.n == stamp_try->read_n && tl__bytes_hash(0, value) == stamp_try->read_hash;
}

/* False: it was tried often enough, or there is no time left. */
static bool ask_again(tl_stamp_try *stamp_try, uint8_t phase, const tl_job *job, tl_bytes expect,
                      const tl_event *event, tl_out *out) {
    if (++stamp_try->rounds > TL_STAMP_ROUNDS || !tl__mono_before(event->now, stamp_try->try.until))
        return false;
    stamp_try->phase = phase;
    stamp_try->try.asked = event->now;
    stamp_try->try.by = tl__mono_min(tl__mono_add_ms(event->now, job->attempt_ms),
                                     stamp_try->try.until);
    tl_server room;
    tl_event informed = tl__try_informed(event, out, &room);
    write_stamp(stamp_try, job, &informed, expect, out);
    return true;
}

/* Acquire K if it holds exactly these bytes. */
static bool take_from(tl_stamp_try *stamp_try, const tl_job *job, tl_bytes expect,
                      const tl_event *event, tl_out *out) {
    stamp_try->read_n = expect.n;
    stamp_try->read_hash = tl__bytes_hash(0, expect);
    return ask_again(stamp_try, EXPECTING, job, expect, event, out);
}

/* ---- judging a reply ------------------------------------------------------------------------ */

/* Does K have our token? The usual acquire's reply doesn't contain K's value. The phase that writes
 * tokens may have ended since. */
static bool is_own_token(const tl_stamp_try *stamp_try, const tl_job *job,
                         const tl_sidecar_answer *answer) {
    if (!answer->value.p)
        return stamp_try->drain &&
               (stamp_try->try.result.op == TL_ACQUIRE || stamp_try->phase == EXPECTING);
    return tl__bytes_eq(answer->value, tl__token_bytes(&job->token));
}

static tl_status held(tl_stamp_try *stamp_try, const tl_job *job, const tl_sidecar_answer *answer,
                      const tl_event *event, tl_out *out) {
    tl_try *attempt = &stamp_try->try;
    int64_t now_ms = (answer->server_us + 999) / 1000;
    bool is_token = is_own_token(stamp_try, job, answer); /* not a stamp: no clock matters */
    if (GUARD(token_is_no_stamp) && is_token)
        return tl__try_held(attempt, job, event, answer->left_ms, answer->fence, out);
    tl_stamp stamp = tl__dialect_read(job->rules.dialect, answer->value, now_ms);
    if (stamp.kind != TL_STAMP_GOOD || answer->server_us <= 0)
        return tl__try_malformed(attempt, out);
    int64_t left_ms = GUARD(found_stamp_counts) ? stamp.end_ms - now_ms : job->ttl_ms;
    left_ms -= GUARD(spares_skew) * job->rules.clock_skew_max_ms;
    left_ms -= GUARD(spares_late_waiters) * tl__stamp_late_ms(&job->rules);
    if (tl__try_held(attempt, job, event, left_ms > 0 ? left_ms : 0, answer->fence, out) !=
            TL_END ||
        attempt->result.code != TL_OK)
        return TL_END;
    tl__stamp_prove(attempt, job, event, answer->server_us, stamp.end_ms);
    /* Ours, but past its deadline. Renew it: nothing removes such a stamp, so each further acquire
     * would find the same. */
    bool over = GUARD(expired_take_renewed) && attempt->result.op == TL_ACQUIRE &&
                !tl__mono_before(event->now, attempt->result.deadline);
    return over && ask_again(stamp_try, RENEWING, job, (tl_bytes){0}, event, out) ? TL_GO : TL_END;
}

/* A stamp that S does not know, on a key with a lifetime of its own, counts as held while that
 * lifetime lasts. */
static bool is_free(const tl_job *job, const tl_sidecar_answer *answer, const tl_stamp *stamp) {
    return (answer->left_ms < 0 || answer->known || !GUARD(only_known_stamps_end)) &&
           tl__stamp_is_free(&job->rules, stamp, answer->server_us / 1000);
}

static tl_status busy(tl_stamp_try *stamp_try, const tl_job *job, const tl_sidecar_answer *answer,
                      const tl_event *event, tl_out *out) {
    tl_try *attempt = &stamp_try->try;
    int64_t now_ms = answer->server_us / 1000;
    if (!answer->value.p || is_expected(stamp_try, answer->value))
        return tl__try_busy(attempt, event, answer->left_ms);
    tl_stamp stamp = tl__dialect_read(job->rules.dialect, answer->value, now_ms);
    if (is_free(job, answer, &stamp) && take_from(stamp_try, job, answer->value, event, out))
        return TL_GO;
    if (stamp.kind != TL_STAMP_GOOD || (answer->left_ms >= 0 && !answer->known))
        return tl__try_busy(attempt, event, answer->left_ms);
    attempt->result.code = TL_EBUSY;
    attempt->result.acquire.hint = tl__stamp_free_at(&job->rules, &stamp, now_ms, event);
    return TL_END;
}

/* Another server may have answered this renewal than answered the acquire. With quiet_ms a holder
 * begins only with an acquire. It goes out at once: after a pause the stamp may be past its deadline
 * again, and so for ever. */
static tl_status renewed(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                         tl_out *out) {
    static const char again[] = "it was confirmed too late, and then renewed: acquire it again";
    tl_sidecar_answer answer;
    if (!tl__sidecar_renewed(event, out, &answer))
        return tl__try_malformed(&stamp_try->try, out);
    answer.fence = stamp_try->try.result.acquire.fence;
    bool quiet = GUARD(no_quiet_renewal) && answer.status == 1 && job->acquire.quiet_ms > 0;
    if (GUARD(renewed_acquired_at_once) && quiet &&
        ask_again(stamp_try, FIRST, job, (tl_bytes){0}, event, out)) {
        stamp_try->owned = GUARD(renewed_is_dropped); /* until it is read again */
        return TL_GO;
    }
    if (quiet)
        return tl__try_fail(&stamp_try->try, TL_EUNAVAILABLE, true, TL_LITERAL(again), out);
    if (answer.status == 1)
        return held(stamp_try, job, &answer, event, out);
    return answer.status == -2 ? tl__try_too_late(&stamp_try->try, out)
                               : tl__try_busy(&stamp_try->try, event, 0);
}

static tl_status acquire_answered(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                                  tl_out *out) {
    tl_sidecar_answer answer;
    if (stamp_try->phase == RENEWING)
        return renewed(stamp_try, job, event, out);
    if (!tl__sidecar_acquired(&stamp_try->try, job, event, out, &answer))
        return tl__try_malformed(&stamp_try->try, out);
    if (answer.status >= 0 || !GUARD(late_repeat_drops)) /* too late, it leaves K as it is */
        stamp_try->owned = false;
    if (answer.status == 1)
        return held(stamp_try, job, &answer, event, out);
    return answer.status == 0 ? busy(stamp_try, job, &answer, event, out)
                              : tl__sidecar_refused(&stamp_try->try, job, &answer, event, out);
}

/* ---- renewing ------------------------------------------------------------------------------- */

/* A request that got no reply may have renewed it key by key, while the slot was being moved. */
static tl_status renew_alone(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                             tl_out *out) {
    stamp_try->try.alone = true;
    tl_server room;
    tl_event informed = tl__try_informed(event, out, &room);
    tl__stamp_alone_send(stamp_try, job, &informed, out);
    return TL_GO;
}

static tl_status overwritten(tl_stamp_try *stamp_try, const tl_job *job,
                             const tl_sidecar_answer *answer, const tl_event *event, tl_out *out) {
    static const char message[] = "racing clients overwrite it again and again";
    int64_t now_ms = answer->server_us / 1000;
    if (!answer->value.p) /* to a renewal: a key of another type, else the status were -1 */
        return tl__try_not_renewed(&stamp_try->try, stamp_try->phase == EXPECTING ? -1 : 0, out);
    if (is_expected(stamp_try, answer->value))
        return tl__try_not_renewed(&stamp_try->try, 0, out);
    tl_stamp stamp = tl__dialect_read(job->rules.dialect, answer->value, now_ms);
    bool own = job->rules.nodes && tl__stamp_alone_owns(job, answer->value);
    bool losers = tl__stamp_is_losers(job, &stamp, event);
    if (GUARD(asks_sidecar_again) && !own && !losers && job->rules.nodes)
        return renew_alone(stamp_try, job, event, out);
    if (!own && !losers)
        return tl__stamp_stolen(&stamp_try->try, job, &stamp, now_ms, out);
    if (take_from(stamp_try, job, answer->value, event, out))
        return TL_GO;
    return tl__try_fail(&stamp_try->try, TL_EUNAVAILABLE, true, TL_LITERAL(message), out);
}

/* K was left unchanged, because S already binds for longer than the new stamp: an earlier request
 * by single keys was noted in S, but has not changed K. */
static bool is_behind(const tl_stamp_try *stamp_try, const tl_job *job,
                      const tl_sidecar_answer *answer) {
    if (!job->rules.nodes || stamp_try->phase == EXPECTING || answer->status != 1)
        return false;
    tl_stamp stamp = tl__dialect_read(job->rules.dialect, answer->value, answer->server_us / 1000);
    return stamp.kind == TL_STAMP_GOOD && stamp.end_ms < stamp_try->end_ms;
}

static tl_status renew_answered(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                                tl_out *out) {
    tl_sidecar_answer answer;
    bool sense = stamp_try->phase == EXPECTING
                     ? tl__sidecar_acquired(&stamp_try->try, job, event, out, &answer)
                     : tl__sidecar_renewed(event, out, &answer);
    if (!sense)
        return tl__try_malformed(&stamp_try->try, out);
    if (GUARD(behind_sidecar) && is_behind(stamp_try, job, &answer))
        return renew_alone(stamp_try, job, event, out);
    switch (answer.status) {
    case 1: return held(stamp_try, job, &answer, event, out);
    case 0: return overwritten(stamp_try, job, &answer, event, out);
    case -1:
        return stamp_try->phase == EXPECTING ? tl__try_too_late(&stamp_try->try, out)
                                             : tl__try_not_renewed(&stamp_try->try, -1, out);
    default: return tl__try_too_late(&stamp_try->try, out);
    }
}

/* K holds another's stamp instead of ours. The script has changed nothing: where the lock was ours until now, a
 * stamp that rests replaces a racing loser's. Else S is freed, as by a release. */
static tl_status rest_on(tl_stamp_try *stamp_try, const tl_job *job, tl_bytes value,
                         const tl_stamp *stamp, const tl_event *event, tl_out *out) {
    bool losers = tl__stamp_is_losers(job, stamp, event);
    stamp_try->try.result.code = TL_OK;
    if (GUARD(rests_over_losers) && stamp_try->rounds++ == 0 && losers)
        send_rest(stamp_try, job, value, stamp->end_ms, event, out);
    else
        tl__sidecar_send_drop(&stamp_try->try, job, event, out);
    return TL_GO;
}

/* A racing loser's stamp stays in K until it expires, but the lock was ours. A lock that was freed because it could
 * not rest is no success. */
static tl_status release_answered(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                                  tl_out *out) {
    tl_bytes value;
    bool freed = stamp_try->rounds > 0 && !stamp_try->try.resting;
    tl_status status = tl__sidecar_released(&stamp_try->try, job, event, out);
    if (freed && stamp_try->try.result.code == TL_OK)
        return tl__try_not_released(&stamp_try->try, -1, out);
    if (stamp_try->try.result.code != TL_ETAKEN || !tl__reply_text(event->replied.reply, &value))
        return status;
    tl_stamp stamp = tl__dialect_read(job->rules.dialect, value,
                                      tl__stamp_now_us(job, event).lo / 1000);
    if (stamp_try->try.resting)
        return rest_on(stamp_try, job, value, &stamp, event, out);
    if (!freed && tl__stamp_is_losers(job, &stamp, event))
        stamp_try->try.result.code = TL_OK;
    return status;
}

bool tl__stamp_script_owns(const tl_stamp_try *stamp_try) {
    return stamp_try->try.result.op == TL_ACQUIRE &&
           (stamp_try->phase == RENEWING || stamp_try->owned);
}

/* The acquire may have passed this client's own queue entry, left from an earlier phase. */
static tl_status acquired(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                          tl_out *out) {
    tl_status status = acquire_answered(stamp_try, job, event, out);
    stamp_try->try.result.proof.stood_ms = GUARD(leaves_old_queue) && job->queue.stands
                                               ? job->ttl_ms
                                               : 0;
    return status;
}

tl_status tl__stamp_script_answered(tl_stamp_try *stamp_try, const tl_job *job,
                                    const tl_event *event, tl_out *out) {
    if (stamp_try->try.alone)
        return tl__stamp_alone_answered(stamp_try, job, event, out);
    switch ((tl_op)stamp_try->try.result.op) {
    case TL_ACQUIRE: return acquired(stamp_try, job, event, out);
    case TL_RENEW: return renew_answered(stamp_try, job, event, out);
    case TL_RELEASE: return release_answered(stamp_try, job, event, out);
    }
    return tl__try_malformed(&stamp_try->try, out);
}
