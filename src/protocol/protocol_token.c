/*
 * The token protocol. K holds a random token with a lifetime. S beside it holds the token, the fence and
 * until when S keeps others out. The usual acquire is a transaction of native commands, which leaves S to the
 * first renewal. Scripts in src/wire/scripts do everything else in one step each, and judge whatever a native
 * acquire finds unusual.
 *
 * This file says what to send and what a reply means. It must never count on more time than the reply proves,
 * nor on a fencing number that may be lower than another's.
 */
#include "ground/guard.h"
#include "protocol/alone.h"
#include "protocol/sidecar.h"
#include "wire/rest.h"

#define BEHIND_US 1000000 /* a number is at most this far behind the server's clock */

#define REFRESH_S 1800    /* after this comes a `renew`: S lives only an hour from the last one */
#define REFRESH_MS 600000 /* longer lifetimes are always renewed by `renew`, since that is rare */

/* In tl_server.level: the server rejects the native form; it supports no queue; it doesn't support
 * `refresh`. */
enum { LEVEL_SCRIPTS = 0x10, LEVEL_NO_LINE = 0x20, LEVEL_NO_REFRESH = 0x40 };

/* The replies of the native form, and the items of the reply to HMGET. */
enum { MULTI, SET, INCR, HMGET, EXEC };
enum { S_TOKEN, S_UNTIL, S_FENCE, S_LINE };

typedef struct {
    tl_try try;
    bool set;        /* the native form has set K, but that wasn't enough */
    bool joining;    /* a join is in flight */
    bool refreshing; /* a `refresh` is in flight */
    bool odd;        /* a `refresh` found something unusual */
    tl_alone alone;
} token_try;

_Static_assert(sizeof(token_try) <= TL_ATTEMPT_SIZE, "an attempt fits into a tl_attempt");

/* ---- sending --------------------------------------------------------------------------------- */

static tl_command *native(tl_send *send, tl_bytes name) {
    tl_command *command = &send->command[send->count + send->native++];
    *command = (tl_command){.form = TL_ARGV, .argc = 1};
    command->argv[0] = name;
    return command;
}

/* Only an acquire has a native form. One of a release is MULTI, DELIFEQ (Valkey 9.0; DELEX, Redis 8.4), HMGET,
 * PUBLISH and EXEC. It was measured on Valkey 9.1, without waiters, on one core (medians of 31 rounds). Of a pair
 * it saves the server 13 % of its CPU time (24.9 us to 21.7), and server and client together 5 %. DELIFEQ alone
 * saves 18 and 11 %. But it compares K alone. The script also unbinds S, notes the token as spent, and grants K
 * to the next waiter. So where HMGET shows a queue or our token a script would have to follow: the hand-off to a
 * waiter would be two requests, and no longer one step. */

/* Add the native form to the script that does the same. The counter rises by one, or by as many numbers as
 * are reserved. */
static void add_native(const tl_job *job, tl_send *send, tl_out *out) {
    tl_bytes counter = send->command[0].argv[2], px = send->command[0].argv[5];
    send->slot = job->slot;
    (void)native(send, TL_LITERAL("MULTI"));
    tl_command *command = native(send, TL_LITERAL("SET"));
    TL_ADD(command, job->key, tl__token_bytes(&job->token), TL_LITERAL("NX"), TL_LITERAL("PX"), px);
    command = native(send, job->fences > 1 ? TL_LITERAL("INCRBY") : TL_LITERAL("INCR"));
    tl__try_add(command, counter);
    if (job->fences > 1)
        tl__try_add(command, tl__out_int(out, job->fences));
    command = native(send, TL_LITERAL("HMGET"));
    TL_ADD(command, job->sidecar, TL_LITERAL("token"), TL_LITERAL("until"), TL_LITERAL("fence"),
           TL_LITERAL("line"));
    (void)native(send, TL_LITERAL("EXEC"));
    if (send->count > 1) {
        send->command[send->count + send->native] = send->command[1]; /* WAIT */
        send->native++;
    }
}

static tl_sidecar_write usual(const tl_job *job) {
    return (tl_sidecar_write){
        .value = tl__token_bytes(&job->token), .expect = TL_LITERAL(""), .px_ms = job->ttl_ms};
}

/* Only a first acquire may be native: after an earlier one the token may hold K already. Its reply is judged
 * by the server's clock, which must be known. With quiet_ms a script must ask whether the server has
 * forgotten its last grants. */
static bool may_be_native(const tl_job *job, const tl_event *event) {
    /* The script writes S at once. Repeated requests and locks without a renewal thread (bind) need that. All
     * other protocols need it, too: SET carries no not_after, so a late one would be a second holder beside a
     * legacy client. */
    return !job->acquire.bind && !job->again &&
           (job->acquire.quiet_ms == 0 || !GUARD(quiet_by_script)) && event->server->anchor.known &&
           !(event->server->level & LEVEL_SCRIPTS);
}

/* Release in three steps. First leave the queue: our entry must not be granted K later, and the first waiters
 * are notified to look, after which they poll. Then free S, which would keep others out. K is last. A rest is
 * one of K alone. */
static void send_drop_alone(tl_try *attempt, const tl_job *job, const tl_event *event,
                            tl_out *out) {
    tl_alone_drop step = (tl_alone_drop)((token_try *)attempt)->alone.gone;
    attempt->resting = step == TL_ALONE_LAST &&
                       tl__job_rest_ms(job, event->now, event->server->drift_ppm) > 0;
    switch (step) {
    case TL_ALONE_LINE: tl__alone_send_leave(attempt, job, out); break;
    case TL_ALONE_SIDECAR: tl__alone_send_unbind(attempt, job, out); break;
    case TL_ALONE_LAST:
        if (attempt->resting)
            tl__sidecar_send_rest(attempt, job, true, event, out);
        else
            tl__alone_send_free(attempt, job, out);
        break;
    }
}

static bool drops_more(const tl_try *attempt) {
    return attempt->result.op == TL_RELEASE &&
           ((const token_try *)attempt)->alone.gone != TL_ALONE_LAST;
}

/* The next step, whatever the reply was: K is released in any case. */
static tl_status drop_more(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    tl_alone *alone = &((token_try *)attempt)->alone;
    alone->gone = (uint8_t)(GUARD(unbound_before_freed) ? alone->gone + 1 : TL_ALONE_LAST);
    attempt->asking = false;
    attempt->hops = 0;
    send_drop_alone(attempt, job, event, out);
    return TL_GO;
}

static tl_status ask_alone(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    token_try *t = (token_try *)attempt;
    t->set = t->joining = t->refreshing = t->odd = false;
    switch ((tl_op)attempt->result.op) {
    case TL_ACQUIRE: tl__alone_send(attempt, &t->alone, job, event, out); break;
    case TL_RENEW: tl__alone_send_hold(attempt, job, false, event, out); break;
    case TL_RELEASE: send_drop_alone(attempt, job, event, out); break;
    }
    return TL_GO;
}

static uint32_t seconds(tl_mono t) {
    return (uint32_t)(t.ns / (1000 * TL_NS_PER_MS)) + 1;
}

/* refresh.lua doesn't read S, and doesn't prolong its life. So it follows a `renew` that wrote S, for half
 * an hour, and counts at that run of the server only (refreshed()). If another client changed the token in
 * S while K is ours, the next `renew` fixes it. An extension by the caller is always a `renew` (settle.c). */
static bool may_refresh(const tl_job *job, const tl_event *event) {
    return job->hold.proof.kind == TL_PROOF_TOKEN && job->hold.proof.token.noted_s != 0 &&
           job->ttl_ms <= REFRESH_MS && !(event->server->level & LEVEL_NO_REFRESH) &&
           (seconds(event->now) - job->hold.proof.token.noted_s < REFRESH_S ||
            !GUARD(long_way_again));
}

static void renew(tl_try *attempt, const tl_job *job, const tl_sidecar_write *write,
                  const tl_event *event, tl_out *out) {
    token_try *t = (token_try *)attempt;
    t->odd = false;
    t->refreshing = may_refresh(job, event);
    if (t->refreshing)
        tl__sidecar_send_refresh(attempt, job, event, out);
    else
        tl__sidecar_send_renew(attempt, job, write, event, out);
}

static tl_status ask(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    const tl_sidecar_write write = usual(job);
    if (attempt->alone)
        return ask_alone(attempt, job, event, out);
    switch ((tl_op)attempt->result.op) {
    case TL_ACQUIRE:
        ((token_try *)attempt)->set = false; /* the attempt may have begun as another protocol's */
        ((token_try *)attempt)->joining = job->queue.join;
        if (job->queue.join)
            tl__sidecar_send_join(attempt, job, event, out);
        else
            tl__sidecar_send_acquire(attempt, job, &write, event, out);
        if (!job->queue.join && may_be_native(job, event))
            add_native(job, &out->send, out);
        break;
    case TL_RENEW: renew(attempt, job, &write, event, out); break;
    case TL_RELEASE: tl__sidecar_send_release(attempt, job, event, out); break;
    }
    return TL_GO;
}

/* Is there time for another exchange? false: the attempt is over. */
static bool again(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    attempt->asked = event->now;
    attempt->by = tl__mono_min(tl__mono_add_ms(event->now, job->attempt_ms), attempt->until);
    if (!tl__mono_before(event->now, attempt->until))
        (void)tl__try_no_time(attempt, out);
    return tl__mono_before(event->now, attempt->until);
}

/* Let the script judge on the server what the native form has found. */
static tl_status ask_script(tl_try *attempt, const tl_job *job, const tl_event *event,
                            tl_out *out) {
    const tl_sidecar_write write = usual(job);
    if (!again(attempt, job, event, out))
        return TL_END;
    ((token_try *)attempt)->joining = false;
    tl__sidecar_send_acquire(attempt, job, &write, event, out);
    return TL_GO;
}

/* ---- replies of the native form -------------------------------------------------------------- */

static int64_t number_of(const tl_reply *item) {
    int64_t v;
    return item && tl__reply_int(item, &v) ? v : 0;
}

/* For how long S still keeps others out for another token, in us; 0: it doesn't. */
static int64_t bound_us(const tl_job *job, const tl_reply *reply, tl_interval now) {
    tl_bytes token;
    if (!tl__reply_text(tl__reply_item(reply, S_TOKEN), &token) || token.n == 0 ||
        tl__bytes_eq(token, tl__token_bytes(&job->token)))
        return 0;
    int64_t left = number_of(tl__reply_item(reply, S_UNTIL)) - now.lo;
    return left >= 0 ? left + 1 : 0;
}

/* Does S give a rest as the holder? */
static bool is_rest(const tl_reply *reply) {
    tl_bytes token;
    return tl__reply_text(tl__reply_item(reply, S_TOKEN), &token) && tl__is_rest(token);
}

/* The number must not be behind the clock, as after a failover that lost the last numbers, nor behind the
 * number in S. It may be ahead of the clock, which may have been set back. */
static bool is_good_number(int64_t last, const tl_reply *reply, tl_interval now) {
    return (last >= now.lo - BEHIND_US || !GUARD(number_by_clock)) && last < TL_FENCE_END &&
           reply->type == TL_REPLY_ARRAY &&
           (last > number_of(tl__reply_item(reply, S_FENCE)) || !GUARD(number_above_sidecar));
}

static bool is_line(const tl_reply *reply) {
    tl_bytes line;
    return tl__reply_text(tl__reply_item(reply, S_LINE), &line) && line.n > 0;
}

/* K is another's. Only S says whose it is and for how long, once the holder has written it. */
static tl_status native_busy(tl_try *attempt, const tl_event *event, int64_t left_us) {
    attempt->result.acquire.announced = left_us > 0;
    return tl__try_busy(attempt, event, left_us > 0 ? left_us / 1000 : -1);
}

static bool is_text(const tl_reply *reply, tl_bytes text) {
    tl_bytes found;
    return reply && tl__reply_text(reply, &found) && tl__bytes_eq(found, text);
}

/* The server rejected one of the commands. It executed none of them, unless it rejected MULTI. If it will
 * always reject the command (it lacks it, or forbids it), the script is used instead. */
static tl_status native_refused(tl_try *attempt, const tl_job *job, const tl_event *event,
                                tl_out *out) {
    const tl_reply *first = event->replied.reply;
    while (first->type != TL_REPLY_ERROR)
        first++;
    bool set = is_text(&event->replied.reply[SET], TL_LITERAL("OK"));
    tl_err code = tl__refusal(first->text);
    ((token_try *)attempt)->set = set;
    if (code == TL_EUNSUPPORTED || code == TL_EDENIED) {
        out->level = event->server->level | LEVEL_SCRIPTS;
        return ask_script(attempt, job, event, out);
    }
    (void)tl__try_refused(attempt, first->text, set, &attempt->row->who, out);
    attempt->result.harmless = event->now;
    return TL_END;
}

/* Handle the replies of the native form. The attempt is not bounded, since SET has no not_after. */
static tl_status native_answered(tl_try *attempt, const tl_job *job, const tl_event *event,
                                 tl_out *out) {
    const tl_reply *exec = &event->replied.reply[EXEC], *set = tl__reply_item(exec, 0),
                   *s = tl__reply_item(exec, 2);
    attempt->bounded = false;
    if (event->replied.reply[MULTI].type == TL_REPLY_ERROR || exec->type == TL_REPLY_ERROR)
        return native_refused(attempt, job, event, out);
    if (exec->type != TL_REPLY_ARRAY || exec->count != 3)
        return tl__try_malformed(attempt, out);
    if (set->type == TL_REPLY_ERROR) { /* a server older than NX and PX */
        out->level = event->server->level | LEVEL_SCRIPTS;
        return ask_script(attempt, job, event, out);
    }
    tl_interval now = tl__try_server_us(event, event->now);
    int64_t last = number_of(tl__reply_item(exec, 1)), left_us = bound_us(job, s, now);
    attempt->result.acquire.rests = left_us > 0 && is_rest(s);
    if (set->type == TL_REPLY_NIL)
        return native_busy(attempt, event, left_us);
    if (!is_text(set, TL_LITERAL("OK")))
        return tl__try_malformed(attempt, out);
    ((token_try *)attempt)->set = true;
    if ((GUARD(native_in_its_window) && event->replied.stale) || !event->server->anchor.known ||
        (GUARD(native_unbound) && left_us > 0) || (GUARD(no_native_past_queue) && is_line(s)) ||
        !is_good_number(last, s, now))
        return ask_script(attempt, job, event, out);
    attempt->result.proof.unbound = true;
    if (!GUARD(raised_by_scripts))
        tl__sidecar_raised(job, out);
    return tl__try_held(attempt, job, event, job->ttl_ms,
                        (uint64_t)(last - (tl__job_fences(job) - 1)), out);
}

/* ---- replies of scripts ---------------------------------------------------------------------- */

/* The server supports no queue: acquire without it. Such a waiter is not notified of its turn, and must look
 * again soon. `polls` says so, even if a new connection has reset the level. */
static tl_status ask_without_line(tl_try *attempt, const tl_job *job, const tl_event *event,
                                  tl_out *out) {
    out->level = event->server->level | LEVEL_NO_LINE;
    attempt->result.acquire.polls = true;
    return ask_script(attempt, job, event, out);
}

static tl_status join_answered(tl_try *attempt, const tl_job *job, const tl_event *event,
                               tl_out *out) {
    tl_sidecar_answer answer;
    if (!tl__sidecar_joined(attempt, event, out, &answer))
        return tl__try_malformed(attempt, out);
    if (answer.status == -3)
        return ask_without_line(attempt, job, event, out);
    attempt->result.proof.unbound = false;
    return tl__sidecar_judge(attempt, job, &answer, event, out);
}

static tl_status acquire_answered(tl_try *attempt, const tl_job *job, const tl_event *event,
                                  tl_out *out) {
    tl_sidecar_answer answer;
    if (event->asked.native)
        return native_answered(attempt, job, event, out);
    if (((token_try *)attempt)->joining)
        return join_answered(attempt, job, event, out);
    if (!tl__sidecar_acquired(attempt, job, event, out, &answer))
        return tl__try_malformed(attempt, out);
    ((token_try *)attempt)->set = false;
    attempt->result.proof.unbound = answer.status == 1 && !tl__sidecar_binds(job);
    /* Our entry may still be in the queue. */
    attempt->result.proof.stood_ms = job->queue.stands ? (int32_t)job->ttl_ms : 0;
    return tl__sidecar_judge(attempt, job, &answer, event, out);
}

static bool lines(const tl_server *server, const tl_rules *rules, tl_mono now) {
    (void)rules;
    (void)now;
    return !(server->level & LEVEL_NO_LINE);
}

/* A `refresh` found something unusual about this lock: a `renew` finds out what. */
static tl_status renew_long(tl_try *attempt, const tl_job *job, const tl_event *event,
                            tl_out *out) {
    token_try *t = (token_try *)attempt;
    const tl_sidecar_write write = usual(job);
    t->refreshing = false;
    t->odd = true;
    if (!again(attempt, job, event, out))
        return TL_END;
    tl_server room;
    tl_event informed = tl__try_informed(event, out, &room);
    tl__sidecar_send_renew(attempt, job, &write, &informed, out);
    return TL_GO;
}

static tl_status never_refreshed(tl_try *attempt, const tl_job *job, const tl_event *event,
                                 tl_out *out) {
    out->level = event->server->level | GUARD(refused_way_is_left) * LEVEL_NO_REFRESH;
    return renew_long(attempt, job, event, out);
}

/* The whole lifetime is left, since `refresh` has set it. But a server other than the one where S was written
 * may have K and an older S, with another holder: then a `renew` must look. */
static tl_status refreshed(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    if (GUARD(refreshed_in_its_run) &&
        job->hold.proof.token.noted_run != (uint32_t)event->asked.run)
        return renew_long(attempt, job, event, out);
    attempt->result.proof.kind = TL_PROOF_TOKEN;
    attempt->result.proof.token = job->hold.proof.token;
    return tl__try_held(attempt, job, event, job->ttl_ms, 0, out);
}

static tl_status refresh_answered(tl_try *attempt, const tl_job *job, const tl_event *event,
                                  tl_out *out) {
    switch (tl__sidecar_refreshed(event, out)) {
    case TL_REFRESHED: return refreshed(attempt, job, event, out);
    case TL_REFRESHED_NOT:
        return GUARD(odd_renewed_long) ? renew_long(attempt, job, event, out)
                                       : refreshed(attempt, job, event, out);
    case TL_REFRESHED_LATE:
        return GUARD(late_refresh) ? tl__try_too_late(attempt, out)
                                   : refreshed(attempt, job, event, out);
    case TL_REFRESHED_NEVER: return never_refreshed(attempt, job, event, out);
    case TL_REFRESHED_MALFORMED: break;
    }
    return tl__try_malformed(attempt, out);
}

static tl_status renew_answered(tl_try *attempt, const tl_job *job, const tl_event *event,
                                tl_out *out) {
    if (((token_try *)attempt)->refreshing)
        return refresh_answered(attempt, job, event, out);
    attempt->result.proof.kind = TL_PROOF_TOKEN;
    attempt->result.proof.token = (tl_token_proof){
        ((token_try *)attempt)->odd ? 0 : seconds(attempt->asked), (uint32_t)event->asked.run};
    return tl__sidecar_kept(attempt, job, event, out);
}

static tl_status rested_alone(tl_try *attempt, const tl_job *job, const tl_event *event,
                              tl_out *out) {
    int64_t status;
    bool absent = tl__reply_int(event->replied.reply, &status) && status == -1;
    return absent && tl__alone_may_repeat(attempt, event)
               ? tl__alone_repeat(attempt, job, event, out)
               : tl__sidecar_released(attempt, job, event, out);
}

/* A renewal of K alone doesn't change S, and so not the proof. */
static tl_status alone_answered(tl_try *attempt, const tl_job *job, const tl_event *event,
                                tl_out *out) {
    if (attempt->result.op == TL_ACQUIRE)
        return tl__alone_answered(attempt, &((token_try *)attempt)->alone, job, event, out);
    if (drops_more(attempt))
        return drop_more(attempt, job, event, out);
    if (attempt->result.op == TL_RELEASE)
        return attempt->resting ? rested_alone(attempt, job, event, out)
                                : tl__alone_freed(attempt, job, event, out);
    attempt->result.proof = job->hold.proof;
    return tl__alone_held(attempt, job, event, out);
}

static tl_status answered(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    if (attempt->alone)
        return alone_answered(attempt, job, event, out);
    switch ((tl_op)attempt->result.op) {
    case TL_ACQUIRE: return acquire_answered(attempt, job, event, out);
    case TL_RENEW: return renew_answered(attempt, job, event, out);
    case TL_RELEASE: return tl__sidecar_released(attempt, job, event, out);
    }
    return tl__try_malformed(attempt, out);
}

/* A `renew` may succeed, or be rejected with an error that says more. */
static tl_status refresh_refused(tl_try *attempt, const tl_job *job, const tl_event *event,
                                 tl_out *out) {
    tl_err code = tl__refusal(event->replied.reply->text);
    if (code == TL_EUNAVAILABLE && !tl__is_not_local(event->replied.reply->text))
        return tl__attempt_refused(attempt, job, event, out);
    bool command = code == TL_EDENIED && tl__from_script(event->replied.reply->text);
    return command ? never_refreshed(attempt, job, event, out)
                   : renew_long(attempt, job, event, out);
}

/* A user without the right to queue waits as on a server without a queue. */
static tl_status refused(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    if (attempt->alone)
        return drops_more(attempt) ? drop_more(attempt, job, event, out)
                                   : tl__attempt_refused(attempt, job, event, out);
    if (attempt->result.op == TL_RENEW && ((token_try *)attempt)->refreshing)
        return refresh_refused(attempt, job, event, out);
    if (event->asked.native)
        return native_refused(attempt, job, event, out);
    if (((token_try *)attempt)->joining && tl__refusal(event->replied.reply->text) == TL_EDENIED &&
        !tl__try_may_not_ask(job, event->replied.reply->text))
        return ask_without_line(attempt, job, event, out);
    return tl__attempt_refused(attempt, job, event, out);
}

static bool leaves(const tl_try *attempt) {
    return ((const token_try *)attempt)->set ||
           (GUARD(key_left_behind) && ((const token_try *)attempt)->alone.stage > TL_ALONE_KEY);
}

const tl_protocol tl__protocol_token = {
    .name = "token",
    .size = sizeof(token_try),
    .id = TL_TOKEN,
    .send = ask,
    .answered = answered,
    .refused = refused,
    .who = {"tokens need", TL_INSTEAD},
    .outdated = tl__try_outdated_take,
    .leaves = leaves,
    .lines = lines,
    .binds_late = true,
};
