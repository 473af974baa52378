/*
 * Stamps with a sidecar on servers that have WATCH but run no scripts: Redis 2.2 to 2.4, newer ones
 * where EVAL is renamed, and Valkey without its Lua module. An attempt is a transaction
 * (protocol/transaction.h): it watches and reads K and S, judges their values here, and writes only
 * if neither was touched meanwhile. It must never write in another way. A request that is executed
 * late then finds that a later attempt, or the release, has touched S, and does nothing.
 *
 * K gets no lifetime of its own, for two reasons. Below 2.6.5 a transaction is executed without the
 * commands that were refused, and K without S would be held for that lifetime. And the default
 * policy of these servers evicts keys that have one.
 */
#include "stamp/stamp.h"

#include "ground/guard.h"

#define S_SPARE_MS INT64_C(1800000) /* ms; as in acquire.lua: S outlives K's hour by this */
#define S_LEAST_S 3600              /* s; S outlives its last use by an hour */

enum { READING, WRITING };
enum { GOT_WATCH, GOT_VALUE, GOT_TTL, GOT_SIDECAR, GOT_MORE }; /* replies to the reads */
enum { S_TOKEN, S_VALUE, S_UNTIL, S_FENCE };                   /* fields of S */

/* The contents of K and S. */
typedef struct {
    bool there;     /* K exists */
    tl_bytes value; /* p NULL: K is absent, or not a string */
    int64_t left_ms;
    bool ours;  /* S names our token */
    bool bound; /* S names a holder */
    bool same;  /* and K holds S's value */
    bool empty; /* S does not exist */
    int64_t until_us, fence;
    int64_t now_us; /* the server's time, at the latest when they were read */
} seen;

/* ---- reading --------------------------------------------------------------------------------- */

static tl_send *begin(tl_stamp_try *stamp_try, uint8_t phase, const tl_pin *pin, tl_out *out) {
    tl_send *send = tl__out_send(out, stamp_try->try.ticket, stamp_try->try.by);
    stamp_try->phase = phase;
    send->pin = pin;
    return send;
}

static void read_both(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                      tl_out *out) {
    stamp_try->try.by = tl__mono_min(tl__mono_add_ms(event->now, job->attempt_ms),
                                     stamp_try->try.until);
    stamp_try->timed = event->server->anchor.known;
    tl_send *send = begin(stamp_try, READING, &tl__pin_opens, out);
    tl_command *watch = tl__say(send, "WATCH", GUARD(watches_key) ? job->key : job->sidecar);
    if (GUARD(watches_sidecar))
        tl__try_add(watch, job->sidecar);
    (void)tl__say(send, "GET", job->key);
    (void)tl__say(send, "TTL", job->key);
    tl_command *command = tl__say(send, "HMGET", job->sidecar);
    TL_ADD(command, TL_LITERAL("token"), TL_LITERAL("value"), TL_LITERAL("until"),
           TL_LITERAL("fence"));
    if (stamp_try->timed)
        (void)tl__say(send, "TIME", (tl_bytes){0});
    (void)tl__say(send, "MULTI", (tl_bytes){0});
}

void tl__stamp_watch_send(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                          tl_out *out) {
    stamp_try->level = TL_LEVEL_WATCH;
    read_both(stamp_try, job, event, out);
}

bool tl__stamp_watch_reads(const tl_stamp_try *stamp_try) {
    return stamp_try->phase == READING;
}

/* ---- replies -------------------------------------------------------------------------------- */

static bool is_refused(const tl_reply *reply, const char *text) {
    return reply->type == TL_REPLY_ERROR && tl__bytes_has(reply->text, text);
}

static bool is_unknown(const tl_reply *reply) {
    return reply->type == TL_REPLY_ERROR && tl__is_unknown_command(reply->text);
}

bool tl__stamp_watch_lacks(const tl_stamp_try *stamp_try, const tl_event *event) {
    if (event->kind != TL_REPLY || event->replied.count == 0)
        return false;
    if (stamp_try->phase == WRITING)
        return stamp_try->exec < event->replied.count &&
               is_unknown(&event->replied.reply[stamp_try->exec]);
    return is_unknown(&event->replied.reply[GOT_WATCH]) ||
           is_unknown(&event->replied.reply[event->replied.count - 1]);
}

static tl_status refused(tl_stamp_try *stamp_try, const tl_reply *reply, bool maybe, tl_out *out) {
    return tl__try_refused(&stamp_try->try, reply->text, maybe, NULL, out);
}

/* The reply of a needed command that failed; NULL: none. K may be of another type, and TIME may
 * fail. */
static const tl_reply *trouble(const tl_stamp_try *stamp_try, const tl_event *event) {
    static const size_t needed[] = {GOT_WATCH, GOT_VALUE, GOT_TTL, GOT_SIDECAR};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        const tl_reply *reply = &event->replied.reply[needed[i]];
        bool other_kind = needed[i] == GOT_VALUE && is_refused(reply, "wrong kind of value");
        if (reply->type == TL_REPLY_ERROR && !other_kind)
            return reply;
    }
    const tl_reply *multi = &event->replied.reply[GOT_MORE + stamp_try->timed];
    return GUARD(no_write_without_multi) && multi->type == TL_REPLY_ERROR ? multi : NULL;
}

static int64_t number(const tl_reply *array, size_t i) {
    int64_t v;
    return tl__reply_int(tl__reply_item(array, i), &v) && v > 0 ? v : 0;
}

/* False: a reply is malformed. */
static bool understand(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                       tl_out *out, seen *ret) {
    const tl_reply *reply = event->replied.reply, *side = &reply[GOT_SIDECAR];
    tl_bytes token = {0}, bound = {0};
    int64_t ttl;
    *ret = (seen){.there = reply[GOT_VALUE].type != TL_REPLY_NIL, .left_ms = -1};
    if (side->type != TL_REPLY_ARRAY || side->count != S_FENCE + 1 ||
        !tl__reply_int(&reply[GOT_TTL], &ttl))
        return false;
    (void)tl__reply_text(&reply[GOT_VALUE], &ret->value);
    (void)tl__reply_text(tl__reply_item(side, S_TOKEN), &token);
    bool has_value = tl__reply_text(tl__reply_item(side, S_VALUE), &bound);
    if (ttl >= 0)
        ret->left_ms = tl__mul_sat(ttl + 1, 1000);
    ret->bound = token.n > 0;
    ret->ours = (ret->bound && !GUARD(sidecar_has_token)) ||
                tl__bytes_eq(token, tl__token_bytes(&job->token));
    ret->same = ret->bound && has_value && ret->value.p && tl__bytes_eq(ret->value, bound);
    ret->empty = !has_value;
    for (size_t i = 0; i <= S_FENCE; i++)
        ret->empty = ret->empty && tl__reply_item(side, i)->type == TL_REPLY_NIL;
    ret->until_us = number(side, S_UNTIL);
    ret->fence = number(side, S_FENCE);
    ret->now_us = tl__stamp_now_us(job, event).lo;
    stamp_try->timed = stamp_try->timed && tl__reply_time(&reply[GOT_MORE], 0, &ret->now_us);
    if (stamp_try->timed)
        tl__out_time(out, &reply[GOT_MORE], 0, event);
    return true;
}

static tl_stamp stamp_of(const tl_job *job, const seen *key_seen) {
    return tl__dialect_read(job->rules.dialect, key_seen->value, key_seen->now_us / 1000);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Adds EXEC behind the writes. Commands added after this are not part of the transaction. */
static void end(tl_stamp_try *stamp_try, tl_send *send) {
    stamp_try->exec = send->count;
    (void)tl__say(send, "EXEC", (tl_bytes){0});
}

/* The stamp to write, with its end in stamp_try. n 0: our clock shows a time that can't be
 * written. */
static tl_bytes new_stamp(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                          int64_t least_ms, tl_out *out) {
    char text[TL_STAMP_SIZE];
    tl_interval now_us = tl__stamp_now_us(job, event);
    int64_t end_ms = now_us.lo / 1000 + job->ttl_ms;
    tl_bytes value = tl__dialect_write(
        job->rules.dialect, end_ms > least_ms || !GUARD(keeps_later_end) ? end_ms : least_ms,
        tl__token_bytes(&job->token), text);
    tl_stamp stamp = tl__dialect_read(job->rules.dialect, value, now_us.hi / 1000);
    stamp_try->read_us = now_us.lo;
    stamp_try->end_ms = stamp.end_ms;
    return stamp.kind == TL_STAMP_GOOD ? tl__out_copy(out, value, (tl_bytes){0}) : (tl_bytes){0};
}

/* Adds the new holder's fields to HMSET. False: the fencing numbers are exhausted. */
static bool add_holder(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                       const seen *key_seen, tl_command *command, tl_out *out) {
    tl_interval now_us = tl__stamp_now_us(job, event);
    int64_t more = tl__job_fences(job) - 1;
    int64_t fence = GUARD(watch_fence_grows) && key_seen->fence >= now_us.hi ? key_seen->fence + 1
                                                                             : now_us.hi;
    stamp_try->try.result.acquire.fence = (uint64_t)fence;
    TL_ADD(command, TL_LITERAL("token"), tl__token_bytes(&job->token), TL_LITERAL("fence"),
           tl__out_int(out, fence + more), TL_LITERAL("since"), tl__out_int(out, now_us.lo),
           TL_LITERAL("owner"), job->owner);
    return fence + more < TL_FENCE_END;
}

/* Writes S first. If the server then refuses K's write, removing the token fixes S; the other order
 * could not be fixed. */
static tl_status write_stamp(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                             const seen *key_seen, int64_t least_ms, tl_out *out) {
    tl_try *attempt = &stamp_try->try;
    bool takes = attempt->result.op == TL_ACQUIRE && !stamp_try->owned;
    attempt->asked = event->now;
    attempt->by = tl__mono_min(tl__mono_add_ms(event->now, job->attempt_ms), attempt->until);
    tl_bytes value = new_stamp(stamp_try, job, event, least_ms, out);
    int64_t until_us = (stamp_try->end_ms + job->rules.clock_skew_max_ms) * 1000;
    int64_t left_ms = tl__stamp_px_ms(job, 0) + S_SPARE_MS;
    tl_send *send = begin(stamp_try, WRITING, &tl__pin_closes, out);
    tl_command *command = tl__say(send, "HMSET", job->sidecar);
    TL_ADD(command, TL_LITERAL("value"), value, TL_LITERAL("until"), tl__out_int(out, until_us));
    if (value.n == 0 || (takes && !add_holder(stamp_try, job, event, key_seen, command, out))) {
        out->sends = 0;
        return tl__try_malformed(attempt, out);
    }
    tl__try_add(tl__say(send, "EXPIRE", job->sidecar), tl__out_int(out, left_ms / 1000 + 1));
    tl__try_add(tl__say(send, "SET", job->key), value);
    if (stamp_try->timed)
        (void)tl__say(send, "TIME", (tl_bytes){0});
    end(stamp_try, send);
    tl__try_add_wait(send, job, out);
    return TL_GO;
}

/* ---- judging --------------------------------------------------------------------------------- */

/* The lock is already ours, from an acquire that got no reply or was confirmed too late: its stamp
 * is written again. */
static tl_status take_again(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                            const seen *key_seen, tl_out *out) {
    tl_stamp stamp = stamp_of(job, key_seen);
    int64_t reserved = tl__job_fences(job);
    if (key_seen->fence < reserved || key_seen->fence >= TL_FENCE_END)
        return tl__try_malformed(&stamp_try->try, out);
    stamp_try->try.result.acquire.fence = (uint64_t)(key_seen->fence - reserved + 1);
    return write_stamp(stamp_try, job, event, key_seen,
                       stamp.kind == TL_STAMP_GOOD ? stamp.end_ms : 0, out);
}

static tl_status take(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                      const seen *key_seen, tl_out *out) {
    tl_try *attempt = &stamp_try->try;
    int64_t now_ms = key_seen->now_us / 1000;
    attempt->result.acquire.announced = key_seen->same;
    /* Judged again each time: another client may have held the lock since the last read. */
    stamp_try->owned = GUARD(own_stamp_known) && ((key_seen->ours && key_seen->same) ||
                                                  (stamp_try->owned && !GUARD(repeat_judged_anew)));
    if (stamp_try->owned)
        return take_again(stamp_try, job, event, key_seen, out);
    if (key_seen->there) {
        tl_stamp stamp = stamp_of(job, key_seen);
        bool strange = !key_seen->value.p || stamp.kind != TL_STAMP_GOOD ||
                       (key_seen->left_ms >= 0 && !key_seen->same);
        if (strange)
            return tl__try_busy(attempt, event, key_seen->left_ms);
        if (GUARD(live_stamp_holds) && !tl__stamp_is_free(&job->rules, &stamp, now_ms)) {
            attempt->result.code = TL_EBUSY;
            attempt->result.acquire.hint = tl__stamp_free_at(&job->rules, &stamp, now_ms, event);
            return TL_END;
        }
    }
    if (GUARD(sidecar_binds) && key_seen->bound && !key_seen->ours &&
        key_seen->until_us >= key_seen->now_us) {
        attempt->result.acquire.announced = true;
        return tl__try_busy(attempt, event, (key_seen->until_us - key_seen->now_us) / 1000 + 1);
    }
    return write_stamp(stamp_try, job, event, key_seen, 0, out);
}

static tl_status keep(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                      const seen *key_seen, tl_out *out) {
    if (!key_seen->there)
        return tl__try_not_renewed(&stamp_try->try, -1, out);
    if (!key_seen->value.p)
        return tl__try_not_renewed(&stamp_try->try, 0, out);
    tl_stamp stamp = stamp_of(job, key_seen);
    if (GUARD(own_stamp_known) && key_seen->ours &&
        (key_seen->same || !GUARD(renewal_compares_stamp)))
        return write_stamp(stamp_try, job, event, key_seen,
                           stamp.kind == TL_STAMP_GOOD ? stamp.end_ms : 0, out);
    if (!key_seen->ours || !tl__stamp_is_losers(job, &stamp, event))
        return tl__stamp_stolen(&stamp_try->try, job, &stamp, key_seen->now_us / 1000, out);
    return write_stamp(stamp_try, job, event, key_seen, tl__stamp_least_end_ms(job, event), out);
}

/* A racing loser's stamp stays in K until it expires, but the lock was ours. */
static int8_t drop_status(const tl_job *job, const tl_event *event, const seen *key_seen) {
    if (!key_seen->there)
        return -1;
    tl_stamp stamp = stamp_of(job, key_seen);
    return key_seen->ours && (key_seen->same || tl__stamp_is_losers(job, &stamp, event)) ? 1 : 0;
}

/* A release always touches S, so that an acquire or renewal still on its way fails its WATCH. When
 * memory is full the server does not refuse commands that delete. */
static tl_status drop(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                      const seen *key_seen, tl_out *out) {
    stamp_try->status = drop_status(job, event, key_seen);
    stamp_try->try.asked = event->now;
    tl_send *send = begin(stamp_try, WRITING, &tl__pin_closes, out);
    if (!key_seen->ours && !GUARD(release_touches_sidecar))
        return tl__try_not_released(&stamp_try->try, stamp_try->status, out);
    if (key_seen->ours) {
        if (key_seen->same || !GUARD(release_compares_stamp))
            (void)tl__say(send, "DEL", job->key);
        tl__try_add(tl__say(send, "HDEL", job->sidecar), TL_LITERAL("token"));
        end(stamp_try, send);
        tl__try_add(tl__say(send, "PUBLISH", job->sidecar), TL_LITERAL(""));
        return TL_GO;
    }
    tl_command *command = tl__say(send, "HMSET", job->sidecar);
    TL_ADD(command, TL_LITERAL("spent"), tl__token_bytes(&job->token));
    if (key_seen->empty)
        tl__try_add(tl__say(send, "EXPIRE", job->sidecar), tl__out_int(out, S_LEAST_S));
    end(stamp_try, send);
    return TL_GO;
}

static tl_status judge(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                       tl_out *out) {
    seen k;
    const tl_reply *wrong = event->replied.count == GOT_MORE + 1 + stamp_try->timed
                                ? trouble(stamp_try, event)
                                : NULL;
    if (wrong)
        return refused(stamp_try, wrong, false, out);
    if (event->replied.count != GOT_MORE + 1 + stamp_try->timed ||
        !understand(stamp_try, job, event, out, &k)) {
        (void)tl__try_malformed(&stamp_try->try, out);
        stamp_try->try.result.maybe = false; /* the attempt only read */
        return TL_END;
    }
    switch ((tl_op)stamp_try->try.result.op) {
    case TL_ACQUIRE: return take(stamp_try, job, event, &k, out);
    case TL_RENEW: return keep(stamp_try, job, event, &k, out);
    case TL_RELEASE: return drop(stamp_try, job, event, &k, out);
    }
    return tl__try_malformed(&stamp_try->try, out);
}

/* ---- the result ----------------------------------------------------------------------------- */

/* Others have touched K or S: nothing was executed. */
static tl_status raced(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                       tl_out *out) {
    static const char message[] = "others write to it again and again";
    if (++stamp_try->rounds <= TL_STAMP_ROUNDS &&
        tl__mono_before(event->now, stamp_try->try.until)) {
        read_both(stamp_try, job, event, out);
        return TL_GO;
    }
    if (stamp_try->try.result.op == TL_ACQUIRE && !stamp_try->owned)
        return tl__try_busy(&stamp_try->try, event, -1);
    return tl__try_fail(&stamp_try->try, TL_EUNAVAILABLE, false, TL_LITERAL(message), out);
}

static tl_status held(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                      tl_out *out) {
    tl_try *attempt = &stamp_try->try;
    const tl_reply *time = tl__reply_item(&event->replied.reply[stamp_try->exec],
                                          (size_t)stamp_try->exec - 1U);
    int64_t server_us = tl__stamp_now_us(job, event).hi, proved_us = stamp_try->read_us;
    if (stamp_try->timed && tl__reply_time(time, 0, &server_us)) {
        tl__out_time(out, time, 0, event);
        proved_us = server_us;
    }
    int64_t left_ms = stamp_try->end_ms - (server_us + 999) / 1000 -
                      GUARD(spares_skew) * tl__stamp_skew_ms(job, event);
    left_ms -= GUARD(spares_late_waiters) * tl__stamp_late_ms(&job->rules);
    uint64_t fence = attempt->result.op == TL_ACQUIRE ? attempt->result.acquire.fence : 0;
    if (tl__try_held(attempt, job, event, left_ms > 0 ? left_ms : 0, fence, out) == TL_END &&
        attempt->result.code == TL_OK)
        tl__stamp_prove(attempt, job, event, proved_us, stamp_try->end_ms);
    return TL_END;
}

/* The error of a command that was left out of the transaction; NULL: none. Below 2.6.5 a server
 * executes a transaction without the commands that it refused. */
static const tl_reply *left_out(const tl_stamp_try *stamp_try, const tl_event *event) {
    const tl_reply *exec = &event->replied.reply[stamp_try->exec];
    const tl_reply *wrong = tl__first_error(event->replied.reply, stamp_try->exec);
    return wrong ? wrong : tl__first_error(exec->items, exec->count);
}

static tl_status dropped(tl_stamp_try *stamp_try, const tl_event *event, tl_out *out) {
    int64_t deleted;
    const tl_reply *exec = &event->replied.reply[stamp_try->exec];
    bool had = stamp_try->status == 1 && stamp_try->exec == 2; /* DEL, HDEL */
    if (had && tl__reply_int(tl__reply_item(exec, 0), &deleted) && deleted == 0)
        stamp_try->status = -1;
    return stamp_try->status == 1 ? TL_END
                                  : tl__try_not_released(&stamp_try->try, stamp_try->status, out);
}

static tl_status wrote(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                       tl_out *out) {
    static const tl_reply none = {.type = TL_REPLY_INT};
    const tl_reply *exec = stamp_try->exec < event->replied.count
                               ? &event->replied.reply[stamp_try->exec]
                               : &none;
    if (GUARD(nil_exec_did_nothing) && exec->type == TL_REPLY_NIL)
        return raced(stamp_try, job, event, out);
    if (exec->type == TL_REPLY_ERROR) { /* nothing was executed; the first error says why */
        const tl_reply *first = tl__first_error(event->replied.reply, stamp_try->exec);
        return refused(stamp_try, first ? first : exec, false, out);
    }
    const tl_reply *wrong = GUARD(whole_transaction) && exec->type == TL_REPLY_ARRAY
                                ? left_out(stamp_try, event)
                                : NULL;
    if (wrong)
        return refused(stamp_try, wrong, true, out);
    if (exec->type != TL_REPLY_ARRAY ||
        (GUARD(whole_transaction) && exec->count != stamp_try->exec))
        return tl__try_malformed(&stamp_try->try, out);
    return stamp_try->try.result.op == TL_RELEASE ? dropped(stamp_try, event, out)
                                                  : held(stamp_try, job, event, out);
}

tl_status tl__stamp_watch_answered(tl_stamp_try *stamp_try, const tl_job *job,
                                   const tl_event *event, tl_out *out) {
    return stamp_try->phase == READING ? judge(stamp_try, job, event, out)
                                       : wrote(stamp_try, job, event, out);
}
