/*
 * Stamps on servers without EVAL, and `strict`: SETNX, GET, GETSET and DEL, as the legacy clients
 * use them, but with a GET before each DEL. No command here compares and sets in one step. So a
 * lock whose request got no reply is not ours, a stamp is never renewed, and no DEL is sent that
 * might arrive too late. Each stamp comes from a new reading of our clock, before the SETNX or the
 * GET, and is sent at most L after that reading.
 */
#include "stamp/stamp.h"

#include "ground/guard.h"

enum { SETNX, GET, GETSET, LOOK, COMPARE, DEL, LEAVE };

static int64_t now_ms(const tl_job *job, const tl_event *event) {
    return tl__stamp_now_us(job, event).lo / 1000;
}

/* ---- sending --------------------------------------------------------------------------------- */

static void say(tl_stamp_try *stamp_try, const char *word, const tl_job *job, tl_bytes value,
                tl_out *out) {
    tl_command *command = tl__try_command(
        tl__out_send(out, stamp_try->try.ticket, stamp_try->try.by));
    TL_ADD(command, tl__bytes_of(word), job->key);
    if (value.n > 0)
        tl__try_add(command, value);
}

/* The value of K if the lock is ours. */
static tl_bytes own_stamp(const tl_job *job, int64_t end_ms, tl_out *out) {
    char text[TL_STAMP_SIZE];
    tl_bytes value = tl__dialect_write(job->rules.dialect, end_ms, tl__token_bytes(&job->token),
                                       text);
    return tl__out_copy(out, value, (tl_bytes){0});
}

/* Our stamp may be a racing loser's: it may replace the stamp of a winner, which relies on every
 * loser's stamp lasting at least the legacy lifetime from now. Our own deadline is shorter
 * (held()). */
static void read_clock(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event) {
    int64_t legacy_ms = job->rules.legacy_ttl_min_ms;
    tl_interval now_us = tl__stamp_now_us(job, event);
    stamp_try->read_at = event->now;
    stamp_try->read_us = now_us.lo;
    stamp_try->end_ms = ((GUARD(stamp_from_latest) ? now_us.hi : now_us.lo) + 999) / 1000 +
                        (job->ttl_ms > legacy_ms || !GUARD(writes_legacy_lifetime) ? job->ttl_ms
                                                                                   : legacy_ms);
}

static tl_mono sent_by(const tl_stamp_try *stamp_try, const tl_job *job) {
    return tl__mono_add_ms(stamp_try->read_at, job->rules.legacy_delay_max_ms);
}

static void send_stamp(tl_stamp_try *stamp_try, uint8_t phase, const tl_job *job,
                       const tl_event *event, tl_out *out) {
    stamp_try->phase = phase;
    if (phase == SETNX || !GUARD(stamp_from_before_get))
        read_clock(stamp_try, job, event);
    if (GUARD(stamp_sent_soon))
        stamp_try->try.by = tl__mono_min(stamp_try->try.by, sent_by(stamp_try, job));
    say(stamp_try, phase == SETNX ? "SETNX" : "GETSET", job, own_stamp(job, stamp_try->end_ms, out),
        out);
}

/* The GETSET behind a GET is a loser's if another client acquires between the two. The winner counts on losers
 * for L after its acquire, and knows them by a clock read before it (tl__stamp_is_losers()). So the stamp's clock
 * is read before the GET, as legacy clients do: else a GET that took long would put no limit on the GETSET. */
static void send_get(tl_stamp_try *stamp_try, uint8_t phase, const tl_job *job,
                     const tl_event *event, tl_out *out) {
    stamp_try->phase = phase;
    if (phase == GET)
        read_clock(stamp_try, job, event);
    stamp_try->try.by = tl__mono_min(tl__mono_add_ms(event->now, job->attempt_ms),
                                     stamp_try->try.until);
    say(stamp_try, "GET", job, (tl_bytes){0}, out);
}

/* The end in our stamp. For a lock acquired elsewhere, in a dialect that names its writer, it is
 * the end in K: the token proves that the stamp is ours. */
static int64_t own_end_ms(const tl_job *job, const tl_stamp *found) {
    int64_t known_ms = tl__proof_stamp(&job->hold.proof).end_ms;
    bool by_token = GUARD(token_proves_stamp) && job->hold.proof.elsewhere && known_ms == 0 &&
                    (job->rules.dialect->shape != TL_SHAPE_BARE || !GUARD(number_proves_nothing));
    return by_token && found->kind == TL_STAMP_GOOD ? found->end_ms : known_ms;
}

/* The deadline of a stamp that was acquired elsewhere: the earliest moment at which any client may
 * call it expired. It is computed from the server's clock, and the least that our clock can advance
 * until then. */
static tl_mono believed(const tl_job *job, const tl_event *event, int64_t end_ms) {
    const tl_rules *rules = &job->rules;
    if (job->hold.believed.ns != 0 || end_ms == 0)
        return job->hold.believed;
    int64_t spared = 2 * (int64_t)rules->clock_skew_max_ms + rules->legacy_delay_max_ms +
                     tl__stamp_late_ms(rules) + tl__stamp_early_ms(rules);
    int64_t left_ms = end_ms - spared - tl__stamp_now_us(job, event).hi / 1000;
    int64_t left_ns = left_ms * TL_NS_PER_MS;
    return tl__mono_add_ns(
        event->now, left_ms > 0 ? tl__rate_least_ns(left_ns, event->server->drift_ppm) : left_ns);
}

/* A DEL that arrives after the deadline deletes a successor's lock. Without time for the DEL, K is
 * left to expire. */
static bool has_time_for_del(const tl_job *job, const tl_event *event, tl_mono deadline) {
    return tl__mono_before(tl__mono_add_ms(event->now, job->attempt_ms), deadline);
}

/* Without a known stamp (an acquire that got no reply) nothing proves that K is ours, so nothing is
 * sent. */
static void send_release(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                         tl_out *out) {
    if (job->hold.proof.kind == TL_PROOF_STAMP || job->hold.proof.elsewhere) {
        send_get(stamp_try, COMPARE, job, event, out);
        return;
    }
    stamp_try->phase = LEAVE;
    (void)tl__out_send(out, stamp_try->try.ticket, stamp_try->try.by);
}

void tl__stamp_plain_send(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                          tl_out *out) {
    stamp_try->level = TL_LEVEL_PLAIN;
    switch ((tl_op)stamp_try->try.result.op) {
    case TL_ACQUIRE: send_stamp(stamp_try, SETNX, job, event, out); break;
    case TL_RENEW: send_get(stamp_try, LOOK, job, event, out); break;
    case TL_RELEASE: send_release(stamp_try, job, event, out); break;
    }
}

/* ---- acquiring ------------------------------------------------------------------------------ */

static tl_status busy(tl_stamp_try *stamp_try, tl_mono hint) {
    stamp_try->try.result.code = TL_EBUSY;
    stamp_try->try.result.acquire.silent = true;
    stamp_try->try.result.acquire.hint = hint;
    return TL_END;
}

static tl_status held(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                      tl_out *out) {
    tl_try *attempt = &stamp_try->try;
    attempt->asked = stamp_try->read_at;
    int64_t left_ms = job->ttl_ms - GUARD(spares_skew) * job->rules.clock_skew_max_ms;
    if (tl__try_held(attempt, job, event, left_ms > 0 ? left_ms : 0, 0, out) != TL_END ||
        attempt->result.code != TL_OK)
        return TL_END;
    attempt->result.proof = (tl_proof){
        .kind = TL_PROOF_STAMP,
        .stamp = {.cap = tl__stamp_cap(job, stamp_try->read_at, event),
                  .capped_until = TL_NEVER,
                  .proved_us = stamp_try->read_us,
                  .end_ms = stamp_try->end_ms}};
    if (GUARD(losers_cap))
        attempt->result.deadline = tl__mono_min(attempt->result.deadline,
                                                attempt->result.proof.stamp.cap);
    attempt->result.acquire.stamp_is_token = job->rules.dialect->shape == TL_SHAPE_BARE;
    return TL_END;
}

static tl_status setnx_answered(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                                tl_out *out) {
    int64_t set;
    if (!tl__reply_int(event->replied.reply, &set))
        return tl__try_malformed(&stamp_try->try, out);
    if (set == 1)
        return held(stamp_try, job, event, out);
    send_get(stamp_try, GET, job, event, out);
    return TL_GO;
}

/* K is not a string: another client's, for an unknown time. */
tl_status tl__stamp_plain_wrong_type(tl_stamp_try *stamp_try, tl_out *out) {
    switch ((tl_op)stamp_try->try.result.op) {
    case TL_ACQUIRE: return busy(stamp_try, TL_NEVER);
    case TL_RENEW: return tl__try_not_renewed(&stamp_try->try, 0, out);
    case TL_RELEASE: return tl__try_not_released(&stamp_try->try, 0, out);
    }
    return tl__try_malformed(&stamp_try->try, out);
}

/* Begin anew, by a SETNX or a GET, unless that has been done too often. */
static tl_status anew(tl_stamp_try *stamp_try, uint8_t phase, const tl_job *job,
                      const tl_event *event, tl_out *out) {
    if (++stamp_try->rounds >= TL_STAMP_ROUNDS ||
        !tl__mono_before(event->now, stamp_try->try.until))
        return busy(stamp_try, event->now);
    if (phase == SETNX)
        send_stamp(stamp_try, SETNX, job, event, out);
    else
        send_get(stamp_try, GET, job, event, out);
    return TL_GO;
}

static tl_status get_answered(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                              tl_out *out) {
    tl_bytes text;
    if (event->replied.reply->type == TL_REPLY_NIL) /* deleted meanwhile */
        return anew(stamp_try, SETNX, job, event, out);
    if (!tl__reply_text(event->replied.reply, &text))
        return tl__try_malformed(&stamp_try->try, out);
    tl_stamp stamp = tl__dialect_read(job->rules.dialect, text, now_ms(job, event));
    if (!GUARD(bytes_prove_nothing) && tl__bytes_eq(text, own_stamp(job, stamp_try->end_ms, out)))
        return held(stamp_try, job, event, out);
    if (!tl__stamp_is_free(&job->rules, &stamp, now_ms(job, event)))
        return busy(stamp_try, tl__stamp_free_at(&job->rules, &stamp, now_ms(job, event), event));
    if (GUARD(stamp_from_before_get) && !tl__mono_before(event->now, sent_by(stamp_try, job)))
        return anew(stamp_try, GET, job, event, out);
    stamp_try->read_end_ms = stamp.end_ms;
    stamp_try->read_n = text.n;
    stamp_try->read_hash = tl__bytes_hash(0, text);
    send_stamp(stamp_try, GETSET, job, event, out);
    return TL_GO;
}

static tl_status getset_answered(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                                 tl_out *out) {
    tl_bytes text;
    if (event->replied.reply->type == TL_REPLY_NIL) /* deleted meanwhile: our GETSET created it */
        return held(stamp_try, job, event, out);
    if (!tl__reply_text(event->replied.reply, &text))
        return tl__try_malformed(&stamp_try->try, out);
    tl_stamp stamp = tl__dialect_read(job->rules.dialect, text, now_ms(job, event));
    if (stamp.kind == TL_STAMP_GOOD &&
        (!GUARD(getset_compares) ||
         (stamp.end_ms == stamp_try->read_end_ms && text.n == stamp_try->read_n &&
          tl__bytes_hash(0, text) == stamp_try->read_hash)))
        return held(stamp_try, job, event, out);
    /* Another client was faster, and K now has our stamp for that client's lock. */
    tl_stamp ours = tl__dialect_read(job->rules.dialect, own_stamp(job, stamp_try->end_ms, out),
                                     now_ms(job, event));
    return busy(stamp_try, tl__stamp_free_at(&job->rules, &ours, now_ms(job, event), event));
}

/* ---- renewing and releasing ----------------------------------------------------------------- */

/* Not a renewal: only checks that K is unchanged. */
static tl_status look_answered(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                               tl_out *out) {
    tl_bytes text;
    if (event->replied.reply->type == TL_REPLY_NIL)
        return tl__try_not_renewed(&stamp_try->try, -1, out);
    if (!tl__reply_text(event->replied.reply, &text))
        return tl__try_malformed(&stamp_try->try, out);
    tl_stamp stamp = tl__dialect_read(job->rules.dialect, text, now_ms(job, event));
    bool same = !GUARD(del_compares) ||
                tl__bytes_eq(text, own_stamp(job, own_end_ms(job, &stamp), out));
    if (!same && !tl__stamp_is_losers(job, &stamp, event))
        return tl__stamp_stolen(&stamp_try->try, job, &stamp, now_ms(job, event), out);
    if (job->hold.believed.ns ==
        0) /* acquired elsewhere: the caller wants an extension, which is not possible */
        return tl__try_fail(&stamp_try->try, TL_EINVALID, false,
                            tl__bytes_of(tl__stamp_never_renewed(&job->rules)), out);
    stamp_try->try.result.code = TL_OK;
    stamp_try->try.result.deadline = job->hold.believed; /* that of the acquire, as `proved` is */
    stamp_try->try.result.proof = job->hold.proof;
    return TL_END;
}

static tl_status compare_answered(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                                  tl_out *out) {
    tl_bytes text;
    if (event->replied.reply->type == TL_REPLY_NIL)
        return tl__try_not_released(&stamp_try->try, -1, out);
    if (!tl__reply_text(event->replied.reply, &text))
        return tl__try_malformed(&stamp_try->try, out);
    tl_stamp stamp = tl__dialect_read(job->rules.dialect, text, now_ms(job, event));
    int64_t end_ms = own_end_ms(job, &stamp);
    bool same = !GUARD(del_compares) || tl__bytes_eq(text, own_stamp(job, end_ms, out));
    if (!same && tl__stamp_is_losers(job, &stamp, event))
        return TL_END; /* ours until now; the loser's stamp in K expires */
    if (!same)
        return tl__try_not_released(&stamp_try->try, 0, out);
    tl_mono deadline = believed(job, event, end_ms);
    if (GUARD(del_in_time) && !tl__job_believes(job, deadline, event->now))
        return tl__try_not_released(&stamp_try->try, -1, out);
    if (GUARD(del_in_time) && !has_time_for_del(job, event, deadline))
        return TL_END;
    stamp_try->phase = DEL;
    stamp_try->try.result.last = GUARD(del_sent_once);
    say(stamp_try, "DEL", job, (tl_bytes){0}, out);
    return TL_GO;
}

static tl_status del_answered(tl_stamp_try *stamp_try, const tl_event *event, tl_out *out) {
    int64_t n;
    if (!tl__reply_int(event->replied.reply, &n))
        return tl__try_malformed(&stamp_try->try, out);
    return n == 1 ? TL_END : tl__try_not_released(&stamp_try->try, -1, out);
}

bool tl__stamp_plain_reads(const tl_stamp_try *stamp_try) {
    return stamp_try->phase == GET || stamp_try->phase == LOOK || stamp_try->phase == COMPARE;
}

tl_status tl__stamp_plain_answered(tl_stamp_try *stamp_try, const tl_job *job,
                                   const tl_event *event, tl_out *out) {
    switch (stamp_try->phase) {
    case SETNX: return setnx_answered(stamp_try, job, event, out);
    case GET: return get_answered(stamp_try, job, event, out);
    case GETSET: return getset_answered(stamp_try, job, event, out);
    case LOOK: return look_answered(stamp_try, job, event, out);
    case COMPARE: return compare_answered(stamp_try, job, event, out);
    case DEL: return del_answered(stamp_try, event, out);
    case LEAVE: return tl__try_not_released(&stamp_try->try, -1, out);
    default: return tl__try_malformed(&stamp_try->try, out);
    }
}
