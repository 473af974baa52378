/*
 * Stamps by requests of one key each. While a cluster moves a slot, K and S may be on two nodes, and
 * neither executes a script that uses both. Holds are renewed and released so; none is acquired
 * (follow() in protocol/attempt.c).
 *
 * Here too, bytes alone prove nothing. So the holder asks S first: its token proves the hold, and S
 * notes the value that K is to hold next. Then K is changed from its old value to that one. Until this
 * is done, no other request notes another value: neither a late, lost or repeated one, nor one of
 * another thread of the holder. So K's value is either known to belong to the token, or is another
 * client's. Neither script creates a key that is absent. So a request that an ASK redirected, and that
 * arrives late, changes nothing.
 */
#include "ground/guard.h"
#include "protocol/alone.h"
#include "stamp/stamp.h"

#define S_LEAST_MS 3600000 /* ms; S outlives a renewal by an hour, as in sidecar.c */
#define STEP_MS 1000       /* ms; the next later stamp in whole seconds */
#define SHORT_PARTS                                                                                \
    4 /* 1/4: a stamp that lacks more than this part of its lifetime is renewed again at once */

/* From 8 on, above the phases of stamp_script.c: such an attempt may continue here. */
enum { LEAVING = 8, NOTING, SWAPPING, LOOKING };

/* ---- stamps ------------------------------------------------------------------------------------ */

static tl_bytes write(const tl_job *job, int64_t end_ms, char to[TL_STAMP_SIZE]) {
    return tl__dialect_write(job->rules.dialect, end_ms, tl__token_bytes(&job->token), to);
}

static tl_bytes text_of(const tl_job *job, int64_t end_ms, tl_out *out) {
    char text[TL_STAMP_SIZE];
    return end_ms == 0 ? TL_LITERAL("")
                       : tl__out_copy(out, write(job, end_ms, text), (tl_bytes){0});
}

/* The end in a text, if its bytes are what we would write; 0: they are not. */
static int64_t own_end_ms(const tl_job *job, tl_bytes text, const tl_event *event) {
    char own[TL_STAMP_SIZE];
    tl_stamp stamp = tl__dialect_read(job->rules.dialect, text,
                                      tl__stamp_now_us(job, event).hi / 1000);
    bool is = stamp.kind == TL_STAMP_GOOD && tl__bytes_eq(text, write(job, stamp.end_ms, own));
    return is ? stamp.end_ms : 0;
}

/* The latest end that K is known to have held, by the last reply or by S. */
static int64_t held_ms(const tl_stamp_try *stamp_try) {
    int64_t end_ms = stamp_try->read_end_ms > stamp_try->proved_ms ? stamp_try->read_end_ms
                                                                   : stamp_try->proved_ms;
    return end_ms > stamp_try->from_ms ? end_ms : stamp_try->from_ms;
}

/* A later end than that, so that the two values differ. */
static int64_t next_ms(const tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event) {
    int64_t end_ms = tl__stamp_now_us(job, event).lo / 1000 + job->ttl_ms;
    int64_t step_ms = job->rules.dialect->unit == TL_UNIT_MS ? 1 : STEP_MS;
    int64_t least_ms = held_ms(stamp_try) + step_ms;
    if (stamp_try->owned && least_ms < tl__stamp_least_end_ms(job, event))
        least_ms = tl__stamp_least_end_ms(job, event);
    return end_ms > least_ms ? end_ms : least_ms;
}

bool tl__stamp_alone_owns(const tl_job *job, tl_bytes value) {
    char own[TL_STAMP_SIZE];
    int64_t end_ms = tl__proof_stamp(&job->hold.proof).end_ms;
    return end_ms != 0 && tl__bytes_eq(value, write(job, end_ms, own));
}

/* ---- asking ------------------------------------------------------------------------------------ */

static tl_command *say(tl_stamp_try *stamp_try, tl_script script, tl_bytes key, tl_out *out) {
    tl_command *command = tl__try_script(
        tl__out_send(out, stamp_try->try.ticket, stamp_try->try.by), script);
    command->nkeys = 1;
    tl__try_add(command, key);
    return command;
}

static void send_note(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                      tl_out *out) {
    tl_command *command = say(stamp_try, TL_SCRIPT_NOTE, job->sidecar, out);
    tl__try_add(command, tl__token_bytes(&job->token));
    if (stamp_try->try.result.op == TL_RELEASE)
        return;
    int64_t end_ms = next_ms(stamp_try, job, event);
    TL_ADD(command, text_of(job, stamp_try->proved_ms, out), text_of(job, end_ms, out),
           text_of(job, stamp_try->end_ms, out),
           tl__out_int(out, (end_ms + job->rules.clock_skew_max_ms) * 1000),
           tl__out_int(out, S_LEAST_MS));
}

/* The server time before which no other client's clock is past K's stamp: a delete executed by then
 * deletes no successor's lock. */
static int64_t delete_before_us(const tl_stamp_try *stamp_try, const tl_job *job,
                                const tl_event *event) {
    int64_t end_ms = held_ms(stamp_try);
    return end_ms && GUARD(deleted_before_end) ? (end_ms - job->rules.clock_skew_max_ms) * 1000
                                               : tl__try_not_after_us(&stamp_try->try, event, true);
}

/* Change K from any of the values that it may hold: by the last proof, by S, and by what S noted.
 * `more`: also from this value, a racing loser's; n 0: none. */
static void send_swap(tl_stamp_try *stamp_try, const tl_job *job, tl_bytes more,
                      const tl_event *event, tl_out *out) {
    bool keeps = stamp_try->try.result.op == TL_RENEW;
    const int64_t from[] = {stamp_try->proved_ms, stamp_try->read_end_ms, stamp_try->from_ms,
                            stamp_try->end_ms};
    tl_command *command = say(stamp_try, TL_SCRIPT_SWAP, job->key, out);
    stamp_try->try.asked = event->now;
    tl__try_add(command, keeps ? text_of(job, stamp_try->end_ms, out) : TL_LITERAL(""));
    int64_t left_ms = stamp_try->end_ms - tl__stamp_now_us(job, event).lo / 1000;
    TL_ADD(command, tl__out_int(out, tl__stamp_px_ms(job, left_ms)),
           tl__out_int(out, keeps ? tl__try_not_after_us(&stamp_try->try, event, false)
                                  : delete_before_us(stamp_try, job, event)),
           job->sidecar);
    for (size_t i = 0; i < sizeof from / sizeof *from; i++)
        if (from[i] != 0 && (!keeps || from[i] < stamp_try->end_ms))
            tl__try_add(command, text_of(job, from[i], out));
    if (more.n > 0)
        tl__try_add(command, tl__out_copy(out, more, (tl_bytes){0}));
    if (keeps)
        tl__try_add_wait(&out->send, job, out);
}

static void send_look(tl_stamp_try *stamp_try, const tl_job *job, tl_out *out) {
    tl_command *command = tl__try_command(
        tl__out_send(out, stamp_try->try.ticket, stamp_try->try.by));
    TL_ADD(command, TL_LITERAL("GET"), job->key);
}

void tl__stamp_alone_send(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                          tl_out *out) {
    stamp_try->level = TL_LEVEL_SCRIPT;
    if (stamp_try->phase < LEAVING) {
        /* Of a phase of tokens: an entry that stays would be called in vain, before all waiters. */
        bool leaves = GUARD(leaves_queue_alone) && stamp_try->try.result.op == TL_RELEASE &&
                      job->queue.stands;
        stamp_try->phase = leaves ? LEAVING : NOTING;
        stamp_try->proved_ms = tl__proof_stamp(&job->hold.proof).end_ms;
        stamp_try->read_end_ms = stamp_try->from_ms = stamp_try->end_ms = 0;
        stamp_try->owned = stamp_try->sidecar_asked = false;
    }
    switch (stamp_try->phase) {
    case LEAVING: tl__alone_send_leave(&stamp_try->try, job, out); break;
    case NOTING: send_note(stamp_try, job, event, out); break;
    case SWAPPING: send_swap(stamp_try, job, (tl_bytes){0}, event, out); break;
    default: send_look(stamp_try, job, out); break;
    }
}

/* ---- from one key to the next --------------------------------------------------------------- */

static bool is_late(tl_stamp_try *stamp_try, const tl_event *event, tl_out *out) {
    bool is = !tl__mono_before(event->now, stamp_try->try.by);
    if (is)
        (void)tl__try_no_time(&stamp_try->try, out);
    return is;
}

/* The next key may be on another node. */
static tl_status go_on(tl_stamp_try *stamp_try, uint8_t phase, const tl_job *job,
                       const tl_event *event, tl_out *out) {
    if (is_late(stamp_try, event, out))
        return TL_END;
    stamp_try->phase = phase;
    stamp_try->try.asking = stamp_try->try.again = false;
    stamp_try->try.hops = 0;
    tl__stamp_alone_send(stamp_try, job, event, out);
    return TL_GO;
}

/* Fails the attempt when others have changed K too often. */
static bool is_tired(tl_stamp_try *stamp_try, tl_out *out) {
    static const char message[] = "racing clients overwrite it again and again";
    bool is = ++stamp_try->rounds > TL_STAMP_ROUNDS;
    if (is)
        (void)tl__try_fail(&stamp_try->try, TL_EUNAVAILABLE, true, TL_LITERAL(message), out);
    return is;
}

/* ---- S ----------------------------------------------------------------------------------------- */

/* S was lost, or another client acquired and released the lock. The normal form finds out which,
 * when the slot is whole again. */
static tl_status is_unknown(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                            tl_out *out) {
    static const char message[] =
        "the key's slot is being moved, and its sidecar has no record of the lock";
    int64_t left_ms;
    if (!tl__reply_int(tl__reply_item(event->replied.reply, 1), &left_ms))
        return tl__try_malformed(&stamp_try->try, out);
    if (tl__alone_may_repeat(&stamp_try->try, event))
        return tl__alone_repeat(&stamp_try->try, job, event, out);
    if (stamp_try->try.result.op == TL_RELEASE)
        return go_on(stamp_try, GUARD(repeated_release_looks) ? LOOKING : SWAPPING, job, event,
                     out);
    if (left_ms >= 0)
        return tl__try_not_renewed(&stamp_try->try, 0, out);
    return tl__try_fail(&stamp_try->try, TL_EUNAVAILABLE, true, TL_LITERAL(message), out);
}

/* A next value in S that is not later than K's comes from a delayed request or an earlier hold. It
 * may be replaced, because no request that gets this reply will write it. */
static tl_status noted(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                       tl_out *out) {
    int64_t status;
    tl_bytes value, from, next;
    if (!tl__reply_int(tl__reply_item(event->replied.reply, 0), &status) || status < 0 ||
        status > 1)
        return tl__try_malformed(&stamp_try->try, out);
    if (status == 0)
        return is_unknown(stamp_try, job, event, out);
    if (!tl__reply_text(tl__reply_item(event->replied.reply, 1), &value) ||
        !tl__reply_text(tl__reply_item(event->replied.reply, 2), &from) ||
        !tl__reply_text(tl__reply_item(event->replied.reply, 3), &next))
        return tl__try_malformed(&stamp_try->try, out);
    stamp_try->read_end_ms = GUARD(sidecars_stamp_replaced) ? own_end_ms(job, value, event) : 0;
    stamp_try->from_ms = own_end_ms(job, from, event);
    stamp_try->end_ms = GUARD(writes_noted_stamp) ? own_end_ms(job, next, event)
                                                  : next_ms(stamp_try, job, event);
    if (stamp_try->try.result.op == TL_RELEASE)
        return go_on(stamp_try, SWAPPING, job, event, out);
    bool short_of = stamp_try->owned && stamp_try->end_ms < tl__stamp_least_end_ms(job, event);
    if (stamp_try->end_ms > held_ms(stamp_try) && !short_of)
        return go_on(stamp_try, SWAPPING, job, event, out);
    if (stamp_try->end_ms == 0)
        return tl__try_malformed(&stamp_try->try, out);
    return is_tired(stamp_try, out) ? TL_END : go_on(stamp_try, NOTING, job, event, out);
}

/* ---- K ----------------------------------------------------------------------------------------- */

/* The noted stamp is old, or shorter than wanted: a full renewal is still needed. */
static bool is_short(const tl_stamp_try *stamp_try, const tl_job *job, int64_t server_us) {
    int64_t wanted_ms = job->ttl_ms - job->ttl_ms / SHORT_PARTS;
    return stamp_try->end_ms - server_us / 1000 < wanted_ms && stamp_try->rounds < TL_STAMP_ROUNDS;
}

static tl_status renewed(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                         tl_out *out) {
    tl_try *attempt = &stamp_try->try;
    int64_t server_us;
    if (!tl__reply_time(event->replied.reply, 2, &server_us))
        return tl__try_malformed(attempt, out);
    if (is_short(stamp_try, job, server_us) && tl__mono_before(event->now, attempt->by)) {
        stamp_try->rounds++;
        stamp_try->proved_ms = stamp_try->end_ms;
        return go_on(stamp_try, NOTING, job, event, out);
    }
    int64_t left_ms = stamp_try->end_ms - (server_us + 999) / 1000 - job->rules.clock_skew_max_ms -
                      tl__stamp_late_ms(&job->rules);
    if (tl__try_held(attempt, job, event, left_ms > 0 ? left_ms : 0, 0, out) != TL_END ||
        attempt->result.code != TL_OK)
        return TL_END;
    tl__stamp_prove(attempt, job, event, server_us, stamp_try->end_ms);
    attempt->result.proof.unbound = true; /* the next request reports it to S */
    return TL_END;
}

static tl_status absent(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                        tl_out *out) {
    if (tl__alone_may_repeat(&stamp_try->try, event))
        return tl__alone_repeat(&stamp_try->try, job, event, out);
    return stamp_try->try.result.op == TL_RELEASE ? tl__try_not_released(&stamp_try->try, -1, out)
                                                  : tl__try_not_renewed(&stamp_try->try, -1, out);
}

/* K has the token itself, of a lock that was adopted, or acquired in vain, in a phase that writes tokens. Unlike
 * a stamp's bytes that proves whose lock it is. */
static tl_status go_on_as_token(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                                tl_out *out) {
    const tl_try former = stamp_try->try;
    if (is_late(stamp_try, event, out))
        return TL_END;
    tl__attempt_init(stamp_try, &tl__protocol_token, (tl_op)former.result.op, former.ticket,
                     former.until);
    tl_try *attempt = &stamp_try->try;
    attempt->by = former.by;
    attempt->asked = event->now;
    attempt->alone = true;
    return attempt->row->send(attempt, job, event, out);
}

/* A racing loser's stamp is replaced by one that ends late enough for the deadline already
 * believed. An unknown stamp may come from another request of the same holder, such as an
 * extension, noted in S since. So S is asked once more before the lock counts as another
 * client's. */
static tl_status overwritten(tl_stamp_try *stamp_try, const tl_job *job, tl_bytes value,
                             const tl_event *event, tl_out *out) {
    int64_t now_ms = tl__stamp_now_us(job, event).lo / 1000;
    tl_stamp stamp = tl__dialect_read(job->rules.dialect, value, now_ms);
    bool losers = value.p && tl__stamp_is_losers(job, &stamp, event);
    if (GUARD(token_in_open_slot) && tl__bytes_eq(value, tl__token_bytes(&job->token)))
        return go_on_as_token(stamp_try, job, event, out);
    if (stamp_try->try.result.op ==
        TL_RELEASE) /* a loser's stamp stays until it expires, but the lock was ours */
        return losers ? TL_END : tl__try_not_released(&stamp_try->try, 0, out);
    if (!losers && stamp_try->sidecar_asked)
        return tl__stamp_stolen(&stamp_try->try, job, &stamp, now_ms, out);
    if (!losers) {
        stamp_try->sidecar_asked = true;
        return go_on(stamp_try, NOTING, job, event, out);
    }
    if (is_tired(stamp_try, out) || is_late(stamp_try, event, out))
        return TL_END;
    stamp_try->owned = true;
    if (stamp_try->end_ms < tl__stamp_least_end_ms(job, event))
        return go_on(stamp_try, NOTING, job, event, out);
    send_swap(stamp_try, job, value, event, out);
    return TL_GO;
}

static tl_status swapped(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                         tl_out *out) {
    int64_t status;
    tl_bytes value = {0};
    if (!tl__reply_int(tl__reply_item(event->replied.reply, 0), &status) || status < -2 ||
        status > 1)
        return tl__try_malformed(&stamp_try->try, out);
    (void)tl__reply_text(tl__reply_item(event->replied.reply, 1), &value);
    tl__out_time(out, event->replied.reply, 2, event);
    switch (status) {
    case 1:
        return stamp_try->try.result.op == TL_RELEASE ? TL_END
                                                      : renewed(stamp_try, job, event, out);
    case 0: return overwritten(stamp_try, job, value, event, out);
    case -1: return absent(stamp_try, job, event, out);
    default: return tl__try_too_late(&stamp_try->try, out);
    }
}

/* An earlier try of this release has cleared S, and may or may not have deleted K. The same bytes
 * prove nothing a second time, so K isn't deleted; a remaining stamp expires. */
static tl_status looked(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                        tl_out *out) {
    tl_bytes value = {0};
    if (event->replied.reply->type == TL_REPLY_NIL)
        return absent(stamp_try, job, event, out);
    (void)tl__reply_text(event->replied.reply, &value);
    if (tl__stamp_alone_owns(job, value) && tl__job_believes(job, job->hold.believed, event->now))
        return TL_END;
    return overwritten(stamp_try, job, value, event, out);
}

bool tl__stamp_alone_leaves(const tl_stamp_try *stamp_try) {
    return stamp_try->try.alone && stamp_try->phase == LEAVING;
}

tl_status tl__stamp_alone_answered(tl_stamp_try *stamp_try, const tl_job *job,
                                   const tl_event *event, tl_out *out) {
    switch (stamp_try->phase) {
    case LEAVING: return go_on(stamp_try, NOTING, job, event, out); /* whatever the reply is */
    case NOTING: return noted(stamp_try, job, event, out);
    case SWAPPING: return swapped(stamp_try, job, event, out);
    default: return looked(stamp_try, job, event, out);
    }
}
