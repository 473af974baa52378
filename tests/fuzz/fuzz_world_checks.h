/*
 * The contract, as something to be held against each answer of a machine: what it may ask for, and
 * what its result may be after all that the server has said and left unsaid.
 */

/*
 * The asserts after each step:
 * - One send at most, none with DETACH or END, none while another is in flight. Its ticket was never used before. Its
 *   commands encode, and begin with the lock's two keys.
 * - TIMER is requested at most three times at one instant. When each request fails at once, at most four are made at one
 *   instant. A machine that goes on has a request in flight or a timer.
 * - OK only for an answer whose status says so, with as many replicas as requested. The deadline is no later than the
 *   sending + what the server says is left, or the lifetime. On acquiring it is in the future, the fence is the answer's
 *   and below 2^53, and the server is up long enough.
 * - Acquired by native commands: only in time, with a known clock, a number near it and above the sidecar's, no queue,
 *   and no other holder that the sidecar binds.
 * - Not acquired, with a request that may have taken effect, or has: only with DETACH, to clean up.
 * - A release is reported as done after another answer only if a request before it was not answered and the lock was
 *   still believed then.
 * - Renewing: LOST by the deadline and by the longest hold. No answer brings a lost lock back. The deadline moves by
 *   proof only. AT_RISK and HELD take turns. A lock renewed by hand is only asked about when the clock has stepped.
 * - The caller's answer comes within the limit of the public header, and the end of the clean-up within lifetime +
 *   attempt.
 * - Result codes are those documented for the call. A failure has a message, printable and terminated.
 */
#pragma once

#include "fuzz_world_stamps.h"

#define SENDS_AT_ONCE 4 /* and sends, when each fails at once */
#define WIRE_SIZE 32768
#define EARLY_NS 1000000 /* LOST is said so much before the deadline */

/* ---- after each step -------------------------------------------------------------------------- */

static inline void check_command(const fuzz_world *w, const tl_command *c) {
    static char wire[2][WIRE_SIZE]; /* every byte is read, while it is there */
    MUST(c->argc >= 1 && c->argc <= TL_ARGV_MAX);
    MUST(tl__command_encode(c, 0, wire[0], WIRE_SIZE) <= WIRE_SIZE);
    MUST(tl__command_encode(c, 1, wire[1], WIRE_SIZE) <= WIRE_SIZE);
    if (c->form != TL_SCRIPT)
        return;
    MUST(c->script < TL_SCRIPTS && c->nkeys >= 2 && c->nkeys <= 4 && c->argc >= c->nkeys);
    MUST(tl__bytes_eq(c->argv[0], w->job.key) && tl__bytes_eq(c->argv[1], w->job.sidecar));
}

/* A ticket that was never used before; or that of the attempt which goes on: of stamps, after TIME, after the
 * native form, or after the short way of a renewal. */
static inline void check_ticket(fuzz_world *w, const tl_send *send) {
    MUST(w->sends < SENDS_MAX);
    bool goes_on = w->stamps || is_time(&w->asked) || w->asked.native > 0 ||
                   is_script(&w->asked, TL_SCRIPT_REFRESH);
    if (goes_on && w->sends > 0 && w->tickets[w->sends - 1] == send->ticket)
        return;
    for (unsigned i = 0; i < w->sends; i++)
        MUST(w->tickets[i] != send->ticket);
    w->tickets[w->sends++] = send->ticket;
}

static inline void check_send(fuzz_world *w, const tl_send *send) {
    MUST(!w->in_flight && !w->by_hand);
#ifdef TL_COMPAT
    bool goes_on = w->sends > 0 && w->tickets[w->sends - 1] == send->ticket;
    if (is_time(send))
        MUST(w->kind == PING || (w->server.anchor.known && !w->job.rules.strict && !goes_on));
    else if (w->stamps && send->count > 0 && send->command[0].form == TL_ARGV)
        check_plain(w, send, goes_on ? asked_word(w) : NO_WORD);
    else if (w->stamps && send->count > 0)
        check_scripts(w, send);
    if (w->stamps) {
        note_written(w, send);
        w->asked_us = known_us(w).hi;
    }
#endif
    check_ticket(w, send);
    MUST(send->count <= 2 && (send->native == 0 || is_script(send, TL_SCRIPT_ACQUIRE)));
    MUST(send->native <= TL_COMMANDS_MAX && send->count + send->native <= TL_COMMANDS_BOTH);
    for (uint8_t i = 0; i < send->count + send->native; i++)
        check_command(w, &send->command[i]);
    MUST(send->by.ns != TL_NEVER.ns || (send->count == 0 && w->wait_ms == TL_FOREVER));
    w->at_once++;
    MUST(!w->finishing || w->at_once <= SENDS_AT_ONCE);
    w->asked = *send;
    w->asked_at = w->now;
    w->in_flight = true;
}

static inline void check_notes(fuzz_world *w) {
    MUST(w->out.notes <= TL_NOTE_MAX && (w->kind == RENEW || w->out.notes == 0));
    for (uint8_t i = 0; i < w->out.notes; i++) {
        const tl_note *note = &w->out.note[i];
        MUST((note->kind == TL_NOTE_LOST) == (note->why != TL_NOT_LOST));
        MUST((note->kind == TL_NOTE_LOST) == (w->status == TL_END && i + 1 == w->out.notes));
        MUST(note->kind == TL_NOTE_LOST || w->at_risk == (note->kind == TL_NOTE_HELD));
        w->at_risk = note->kind == TL_NOTE_AT_RISK;
    }
}

static inline void check_out(fuzz_world *w, const tl_event *e) {
    const tl_out *out = &w->out;
    MUST(out->sends <= (w->status == TL_GO ? 1 : 0));
    MUST(out->scratch_used <= TL_SCRATCH);
    MUST(is_line(out->message, sizeof out->message));
    MUST(!out->has_bracket || e->kind == TL_REPLY);
    check_notes(w);
    w->arms += out->arm;
    MUST(w->arms <= (w->kind == ACQUIRE ? 1 : 0) && !out->disarm);
    MUST(!out->arm || tl__bytes_eq(out->topic, w->job.sidecar));
    if (out->has_bracket) {
        MUST(out->bracket.lo <= out->bracket.hi);
        (void)tl__anchor_learn(&w->server.anchor, out->bracket, w->now, w->server.drift_ppm);
    }
    if (out->sends)
        check_send(w, &out->send);
    bool patient = w->kind == ACQUIRE && w->wait_ms == TL_FOREVER && !w->detached;
    MUST(w->status != TL_GO || w->in_flight || patient || out->until.ns != TL_NEVER.ns);
    MUST(w->status != TL_DETACH || out->until.ns <= w->now.ns);
}

/* ---- results ---------------------------------------------------------------------------------- */

/* Every failure is explained, unless whoever caused it gave no words for it. */
static inline void check_words(const fuzz_world *w) {
    MUST(w->out.message[0] || w->wordless);
}

/* Does it say that K, taken before, is no longer ours? */
static inline bool says_not_kept(const fuzz_world *w, const tl_event *e) {
    return is_script(&w->asked, TL_SCRIPT_RENEW) && (has_status(w, e, 0) || has_status(w, e, -1));
}

static inline bool is_refusal(tl_err code) {
    return code == TL_EDENIED || code == TL_ESERVER || code == TL_EINVALID || code == TL_ENOMEM ||
           code == TL_EUNSUPPORTED;
}

/* INCR counts up from what was there, so its number is good only beside what the rest of the answer says. */
static inline void check_native(const fuzz_world *w, const tl_event *e) {
    const tl_reply *s = native_item(e, 2);
    tl_interval now = tl__anchor_server_time(&w->server.anchor, w->now, w->server.drift_ppm);
    int64_t last = 0, until = 0, noted = 0;
    tl_bytes token = {0}, line = {0};
    MUST(!e->replied.stale && w->server.anchor.known && says(w, e, 3, &last));
    MUST(last >= now.lo - 1000000 && last < INT64_C(1) << 53);
    MUST(s->type == TL_REPLY_ARRAY);
    MUST(!tl__reply_int(tl__reply_item(s, 2), &noted) || last > noted);
    MUST(!tl__reply_text(tl__reply_item(s, 3), &line) || line.n == 0);
    bool other = tl__reply_text(tl__reply_item(s, 0), &token) && token.n > 0 &&
                 !tl__bytes_eq(token, tl__token_bytes(&w->job.token));
    MUST(!other || !tl__reply_int(tl__reply_item(s, 1), &until) || until < now.lo);
}

static inline void check_acquired(const fuzz_world *w, const tl_event *e) {
    const tl_result *r = &w->machine.result;
#ifdef TL_COMPAT
    if (w->stamps) {
        check_stamp_acquired(w, e);
        return;
    }
#endif
    int64_t fence = 0;
    MUST(w->status == TL_END);
    if (e->asked.native)
        check_native(w, e);
    MUST(is_script(&w->asked, TL_SCRIPT_ACQUIRE) && has_status(w, e, 1));
    MUST(says(w, e, 3, &fence) && fence > 0 && r->acquire.fence == (uint64_t)fence);
    MUST(r->acquire.fence < UINT64_C(1) << 53);
    MUST(is_confirmed(w, e) && !is_unasked(w, e));
    MUST(r->deadline.ns > w->now.ns && r->deadline.ns <= latest(w, e).ns);
}

static inline void check_acquire(const fuzz_world *w, const tl_event *e) {
    const tl_result *r = &w->machine.result;
    if (r->code == TL_OK) {
        check_acquired(w, e);
        return;
    }
    check_words(w);
    MUST(r->code == TL_EBUSY || r->code == TL_ETIMEDOUT || r->code == TL_ECANCELLED ||
         r->code == TL_EUNCERTAIN || r->code == TL_EUNAVAILABLE || is_refusal(r->code) ||
         (r->code == TL_ECLOCK && writes_early(w)));
    MUST((r->code == TL_ECANCELLED) == (e->kind == TL_CANCEL));
    MUST(r->code != TL_EBUSY || has_status(w, e, 0) || says_not_kept(w, e) || is_plain(w));
    MUST(r->code != TL_ETIMEDOUT || w->busy);
    MUST(w->status == TL_DETACH || !(w->doubt || w->done));
    MUST((w->status == TL_DETACH) == r->maybe);
}

static inline void check_kept(const fuzz_world *w, const tl_event *e) {
    const tl_result *r = &w->machine.result;
    MUST(w->status == TL_END);
    if (r->code == TL_OK) {
        MUST(r->deadline.ns > w->now.ns);
#ifdef TL_COMPAT
        if (w->stamps) {
            check_stamp_kept(w, e, r->deadline, w->believed);
            return;
        }
#endif
        MUST(has_status(w, e, 1) && is_confirmed(w, e));
        MUST(r->deadline.ns <= latest(w, e).ns);
        return;
    }
    check_words(w);
#ifdef TL_COMPAT
    if (w->stamps && r->code == TL_ELOST) {
        MUST(says_lost(w, e, r->lost.why == TL_LOST_TAKEN));
        return;
    }
#endif
    if (r->code == TL_ELOST) {
        int64_t status = 1;
        MUST(says(w, e, 0, &status) && (status == 0 || status == -1));
        MUST(r->lost.why == (status == 0 ? TL_LOST_TAKEN : TL_LOST_GONE));
        return;
    }
    MUST(r->code == TL_EUNCERTAIN || r->code == TL_EUNAVAILABLE || is_refusal(r->code));
    MUST(r->code != TL_EUNAVAILABLE || !(w->doubt || w->done));
}

static inline void check_dropped(const fuzz_world *w, const tl_event *e) {
    const tl_result *r = &w->machine.result;
    if (r->code != TL_OK)
        check_words(w);
#ifdef TL_COMPAT
    if (w->stamps) {
        check_stamp_dropped(w, e);
        return;
    }
#endif
    switch (r->code) {
    case TL_OK:
        if (!has_status(w, e, 1)) /* an earlier one did it */
            MUST((has_status(w, e, 0) || has_status(w, e, -1)) && w->in_time &&
                 (w->doubt || w->done));
        break;
    case TL_ETAKEN: MUST(has_status(w, e, 0)); break;
    case TL_EEXPIRED: MUST(has_status(w, e, -1)); break;
    case TL_EUNCERTAIN: MUST(w->status == TL_DETACH && (w->doubt || w->done)); break;
    case TL_EUNAVAILABLE: MUST(w->status == TL_DETACH && !(w->doubt || w->done)); break;
    default: MUST(is_refusal(r->code));
    }
}

static inline void check_asked(const fuzz_world *w, const tl_event *e) {
    const tl_result *r = &w->machine.result;
    const tl_lock_info *info = &w->machine.ask.info;
    MUST(w->status == TL_END);
    MUST(is_line(info->value, sizeof info->value) && is_line(info->host, sizeof info->host) &&
         is_line(info->service, sizeof info->service));
    MUST(info->remaining_ms >= -1 && info->held_ms >= -1);
    MUST(!info->by_tidelock || info->held);
    if (r->code == TL_OK) {
        MUST(e->kind == TL_REPLY && e->replied.count > 0 &&
             e->replied.reply->type != TL_REPLY_ERROR);
        return;
    }
    check_words(w);
    MUST((r->code == TL_ECANCELLED) == (e->kind == TL_CANCEL));
    MUST(r->code == TL_ECANCELLED || r->code == TL_EUNAVAILABLE || r->code == TL_EUNCERTAIN ||
         is_refusal(r->code));
}

static inline void check_proof(fuzz_world *w, const tl_event *e) {
    const tl_result *r = &w->machine.result;
#ifdef TL_COMPAT
    if (w->stamps) {
        check_stamp_kept(w, e, r->deadline, w->deadline);
        w->bound = r->deadline;
        return;
    }
#endif
    MUST(r->deadline.ns <= latest(w, e).ns && is_confirmed(w, e));
    w->bound = r->deadline;
}

static inline bool is_lost(const fuzz_world *w, const tl_event *e, bool taken) {
#ifdef TL_COMPAT
    if (w->stamps)
        return says_lost(w, e, taken);
#endif
    return has_status(w, e, taken ? 0 : -1);
}

static inline void check_renewed(fuzz_world *w, const tl_event *e) {
    const tl_result *r = &w->machine.result;
    if (has_status(w, e, 1) && r->deadline.ns != w->deadline.ns)
        check_proof(w, e);
    MUST(r->deadline.ns <= w->bound.ns);
    MUST(w->status == TL_END || w->now.ns < w->deadline.ns); /* nothing brings a lost one back */
    if (w->status == TL_GO) {
        MUST(w->now.ns < r->deadline.ns && w->now.ns < w->hold.ns);
        MUST(w->in_flight ||
             w->out.until.ns <= (r->deadline.ns < w->hold.ns ? r->deadline.ns : w->hold.ns));
        return;
    }
    MUST(w->status == TL_END);
    if (e->kind == TL_CANCEL)
        return;
    MUST(r->code == TL_ELOST && w->out.notes > 0);
    switch (r->lost.why) {
    case TL_LOST_TAKEN: MUST(is_lost(w, e, true)); break;
    case TL_LOST_GONE: MUST(is_lost(w, e, false)); break;
    case TL_LOST_EXPIRED: MUST(w->now.ns >= r->deadline.ns - EARLY_NS); break;
    case TL_LOST_MAX_HOLD: MUST(w->now.ns >= w->hold.ns); break;
    case TL_LOST_STALLED:   /* there is no watchdog, */
    case TL_LOST_DISRUPTED: /* and no VMClock */
    case TL_NOT_LOST: MUST(r->lost.why == TL_LOST_EXPIRED);
    }
}

static inline void check_result(fuzz_world *w, const tl_event *e) {
    if (w->kind == RENEW)
        check_renewed(w, e);
    if (w->status == TL_GO || w->detached || w->kind == RENEW)
        return;
    switch (w->kind) {
    case ACQUIRE: check_acquire(w, e); break;
    case KEEP: check_kept(w, e); break;
    case DROP: check_dropped(w, e); break;
    default: check_asked(w, e);
    }
}

/* ---- doubt ------------------------------------------------------------------------------------ */

static inline void doubt(fuzz_world *w, tl_mono by, bool killable) {
    if (!w->doubt)
        w->doubt_by = w->unkillable = (tl_mono){0};
    w->doubt_by = tl__mono_max(w->doubt_by, by);
    if (!killable)
        w->unkillable = tl__mono_max(w->unkillable, by);
    w->doubt = true;
}

/* That a connection be ended: it acquires nothing. */
static inline bool is_kill(const fuzz_world *w) {
    const tl_command *c = &w->asked.command[0];
    return c->form == TL_ARGV && tl__bytes_eq(c->argv[0], TL_LITERAL("CLIENT"));
}

/* The connection of a native take has been ended: it comes no more. */
static inline void note_killed(fuzz_world *w, const tl_event *e) {
    int64_t count;
    if (is_kill(w) && e->kind == TL_REPLY && e->replied.count > 0 && e->asked.run == 1 &&
        tl__reply_int(e->replied.reply, &count))
        w->doubt_by = tl__mono_max(w->now, w->unkillable);
}

/* Until when the take that was asked for may still be carried out. */
static inline tl_mono asked_by(const fuzz_world *w) {
    int64_t not_after = 0;
    const tl_command *c = &w->asked.command[0];
    return tl__bytes_to_int(c->argv[c->nkeys + 2], &not_after) && not_after > 0 ? w->asked.by
                                                                                : TL_NEVER;
}

/* A request that comes too late is refused by this server: then K, asked for after all takes that were lost
 * had come too late, tells of them all. */
static inline void note_harmless(fuzz_world *w, const tl_event *e) {
    bool over = w->doubt_by.ns != TL_NEVER.ns && e->asked.sent.ns >= w->doubt_by.ns;
    if (w->checks && over)
        w->doubt = false;
}

/* What this event leaves unknown, before the machine is told. A renewal within a take changes only what is
 * ours already: without an answer it leaves no more to be undone than the take before it did. */
static inline void note_doubt(fuzz_world *w, const tl_event *e) {
    bool expected = w->in_flight && (e->kind == TL_CANCEL || e->asked.ticket == w->asked.ticket);
    if (!expected || w->asked.count == 0 || w->kind == LOOK || w->kind == PING)
        return;
    note_killed(w, e);
    bool take = is_script(&w->asked, TL_SCRIPT_ACQUIRE);
    bool renews = w->kind == ACQUIRE && is_script(&w->asked, TL_SCRIPT_RENEW);
    bool harmless = renews || is_kill(w) || (reads_only(w) && e->kind == TL_FAILED);
    bool unanswered = (e->kind == TL_FAILED && e->failed.maybe_sent) || e->kind == TL_CANCEL;
    int64_t checked = 0;
    if (unanswered && !harmless)
        doubt(w, take && !e->asked.native ? asked_by(w) : TL_NEVER, e->asked.native);
    if (e->kind == TL_REPLY && is_plain(w)) { /* nothing at that level can clean up */
        w->busy = true;
        w->done = false;
    }
    if (take && says(w, e, 6, &checked))
        w->checks = checked == 1;
    /* A take looks whether K is the token's before it says that it is too late, and a token is spent by what
     * deletes its key. */
    if (take && !w->stamps && (has_status(w, e, -1) || has_status(w, e, -2)))
        w->done = false;
    /* what was taken is gone, or is another's */
    if ((renews && says_not_kept(w, e)) || (take && has_status(w, e, 0))) {
        w->busy = true;
        w->done = false;
        if (!e->asked.native)
            note_harmless(w, e);
    }
}

/* What the server did, or may have done, when it didn't make what was wanted of it. */
static inline void note_done(fuzz_world *w, const tl_event *e) {
    bool made = w->status == TL_END && w->machine.result.code == TL_OK;
    if (e->kind != TL_REPLY || e->replied.count == 0 || made || w->detached || is_time(&w->asked))
        return;
    /* The native form runs no script, whatever its error says; and one that runs on a replica is refused its first
     * write, so that it has made none. */
    bool failed = !e->asked.native && !reads_only(w) && e->replied.reply->type == TL_REPLY_ERROR &&
                  tl__from_script(e->replied.reply->text) &&
                  !tl__is_elsewhere(e->replied.reply->text);
    failed = failed ||
             (e->asked.native && is_ok(&e->replied.reply[NATIVE_SET])); /* without MULTI */
    w->done = w->done || failed || has_status(w, e, 1) || takes_plainly(w, e);
}
