/*
 * The token protocol. K holds a random token with a lifetime, S beside it the token, the
 * fence and until when it binds. The usual take is a transaction of native commands, which leaves S to the first
 * renewal; everything else, and whatever a take finds unusual, scripts in src/wire/scripts do in one go. This
 * file says what to send and what an answer means; it must never count on more time than the answer proves, nor
 * on a fencing number that may be behind another's.
 */
#include "ground/guard.h"
#include "protocol/alone.h"
#include "protocol/sidecar.h"

#define BEHIND_US 1000000 /* a number is no further behind the server's clock */

#define REFRESH_S 1800    /* then the long way: S lives for an hour from there */
#define REFRESH_MS 600000 /* nor for longer ones, which are renewed seldom */

/* Learned of a server: it refuses the native form; it can't have a line; it doesn't renew the short way. (See tl_server.) */
enum { LEVEL_SCRIPTS = 0x10, LEVEL_NO_LINE = 0x20, LEVEL_NO_REFRESH = 0x40 };

/* The replies of the native form, and the items of the last of them. */
enum { MULTI, SET, INCR, HMGET, EXEC };
enum { S_TOKEN, S_UNTIL, S_FENCE, S_LINE };

typedef struct {
    tl_try try;
    bool set;        /* K is ours by the native form, which wasn't enough */
    bool joining;    /* the line is being asked for */
    bool refreshing; /* a renewal, the short way, */
    bool odd;        /* which it wasn't well with */
    tl_alone alone;
} token_try;

_Static_assert(sizeof(token_try) <= TL_ATTEMPT_SIZE, "fits where attempts live");

/* ---- asking ---------------------------------------------------------------------------------- */

static tl_command *native(tl_send *send, tl_bytes name) {
    tl_command *c = &send->command[send->count + send->native++];
    *c = (tl_command){.form = TL_ARGV, .argc = 1};
    c->argv[0] = name;
    return c;
}

/* Beside the script that does the same. The counter goes up by one, or by as many as are wanted. */
static void add_native(const tl_job *job, tl_send *send, tl_out *out) {
    tl_bytes counter = send->command[0].argv[2], px = send->command[0].argv[5];
    send->slot = job->slot;
    (void)native(send, TL_LITERAL("MULTI"));
    tl_command *c = native(send, TL_LITERAL("SET"));
    TL_ADD(c, job->key, tl__token_bytes(&job->token), TL_LITERAL("NX"), TL_LITERAL("PX"), px);
    c = native(send, job->fences > 1 ? TL_LITERAL("INCRBY") : TL_LITERAL("INCR"));
    tl__try_add(c, counter);
    if (job->fences > 1)
        tl__try_add(c, tl__out_int(out, job->fences));
    c = native(send, TL_LITERAL("HMGET"));
    TL_ADD(c, job->sidecar, TL_LITERAL("token"), TL_LITERAL("until"), TL_LITERAL("fence"),
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

/* A first take alone may be native: a token that was asked for before may be held already. What it says is
 * judged by the server's clock. Whether the server has forgotten what it gave last, a script alone can ask. */
static bool may_be_native(const tl_job *job, const tl_event *e) {
    return !job->acquire.bind && !job->again &&
           (job->acquire.quiet_ms == 0 || !GUARD(quiet_by_script)) && e->server->anchor.known &&
           !(e->server->level & LEVEL_SCRIPTS);
}

/* The line first, where its entry would be given K which nobody waits for by it any more, and where others wait to hear of it:
 * from when they look they poll; then S, which would keep others out; K last. */
static void send_drop_alone(tl_try *a, const tl_job *job, tl_out *out) {
    switch ((tl_alone_drop)((token_try *)a)->alone.gone) {
    case TL_ALONE_LINE: tl__alone_send_leave(a, job, out); break;
    case TL_ALONE_SIDECAR: tl__alone_send_unbind(a, job, out); break;
    case TL_ALONE_LAST: tl__alone_send_free(a, job, out); break;
    }
}

static bool drops_more(const tl_try *a) {
    return a->result.op == TL_RELEASE && ((const token_try *)a)->alone.gone != TL_ALONE_LAST;
}

/* Whatever was answered: K is given up in any case. */
static tl_status drop_more(tl_try *a, const tl_job *job, tl_out *out) {
    tl_alone *alone = &((token_try *)a)->alone;
    alone->gone = (uint8_t)(GUARD(unbound_before_freed) ? alone->gone + 1 : TL_ALONE_LAST);
    a->asking = false;
    a->hops = 0;
    send_drop_alone(a, job, out);
    return TL_GO;
}

static tl_status ask_alone(tl_try *a, const tl_job *job, const tl_event *e, tl_out *out) {
    token_try *t = (token_try *)a;
    t->set = t->joining = t->refreshing = t->odd = false;
    switch ((tl_op)a->result.op) {
    case TL_ACQUIRE: tl__alone_send(a, &t->alone, job, e, out); break;
    case TL_RENEW: tl__alone_send_hold(a, job, false, e, out); break;
    case TL_RELEASE: send_drop_alone(a, job, out); break;
    }
    return TL_GO;
}

static uint32_t seconds(tl_mono t) {
    return (uint32_t)(t.ns / (1000 * TL_NS_PER_MS)) + 1;
}

static bool may_refresh(const tl_job *job, const tl_event *e) {
    return job->hold.proof.kind == TL_PROOF_TOKEN && job->hold.proof.token.noted_s != 0 &&
           job->ttl_ms <= REFRESH_MS && !(e->server->level & LEVEL_NO_REFRESH) &&
           (seconds(e->now) - job->hold.proof.token.noted_s < REFRESH_S || !GUARD(long_way_again));
}

static void renew(tl_try *a, const tl_job *job, const tl_sidecar_write *write, const tl_event *e,
                  tl_out *out) {
    token_try *t = (token_try *)a;
    t->odd = false;
    t->refreshing = may_refresh(job, e);
    if (t->refreshing)
        tl__sidecar_send_refresh(a, job, e, out);
    else
        tl__sidecar_send_renew(a, job, write, e, out);
}

static tl_status ask(tl_try *a, const tl_job *job, const tl_event *e, tl_out *out) {
    const tl_sidecar_write write = usual(job);
    if (a->alone)
        return ask_alone(a, job, e, out);
    switch ((tl_op)a->result.op) {
    case TL_ACQUIRE:
        ((token_try *)a)->set =
            false; /* what was another protocol's attempt may have become this */
        ((token_try *)a)->joining = job->queue.join;
        if (job->queue.join)
            tl__sidecar_send_join(a, job, e, out);
        else
            tl__sidecar_send_acquire(a, job, &write, e, out);
        if (!job->queue.join && may_be_native(job, e))
            add_native(job, &out->send, out);
        break;
    case TL_RENEW: renew(a, job, &write, e, out); break;
    case TL_RELEASE: tl__sidecar_send_release(a, job, out); break;
    }
    return TL_GO;
}

/* Is there time for another exchange? false: the attempt is over. */
static bool again(tl_try *a, const tl_job *job, const tl_event *e, tl_out *out) {
    a->asked = e->now;
    a->by = tl__mono_min(tl__mono_add_ms(e->now, job->attempt_ms), a->until);
    if (!tl__mono_before(e->now, a->until))
        (void)tl__try_no_time(a, out);
    return tl__mono_before(e->now, a->until);
}

/* Have the script judge, on the server, what the native form has found. */
static tl_status ask_script(tl_try *a, const tl_job *job, const tl_event *e, tl_out *out) {
    const tl_sidecar_write write = usual(job);
    if (!again(a, job, e, out))
        return TL_END;
    ((token_try *)a)->joining = false;
    tl__sidecar_send_acquire(a, job, &write, e, out);
    return TL_GO;
}

/* ---- answers of the native form -------------------------------------------------------------- */

static int64_t number_of(const tl_reply *item) {
    int64_t v;
    return item && tl__reply_int(item, &v) ? v : 0;
}

/* Does S name another, for whom it binds for so long yet? 0: it doesn't. */
static int64_t bound_us(const tl_job *job, const tl_reply *s, tl_interval now) {
    tl_bytes token;
    if (!tl__reply_text(tl__reply_item(s, S_TOKEN), &token) || token.n == 0 ||
        tl__bytes_eq(token, tl__token_bytes(&job->token)))
        return 0;
    int64_t left = number_of(tl__reply_item(s, S_UNTIL)) - now.lo;
    return left >= 0 ? left + 1 : 0;
}

/* Not behind the clock, as after a failover that lost the last of them, and not behind what S tells. It may be ahead of the
 * clock, which may have been set back. */
static bool is_good_number(int64_t last, const tl_reply *s, tl_interval now) {
    return (last >= now.lo - BEHIND_US || !GUARD(number_by_clock)) && last < TL_FENCE_END &&
           s->type == TL_REPLY_ARRAY &&
           (last > number_of(tl__reply_item(s, S_FENCE)) || !GUARD(number_above_sidecar));
}

static bool is_line(const tl_reply *s) {
    tl_bytes line;
    return tl__reply_text(tl__reply_item(s, S_LINE), &line) && line.n > 0;
}

/* K is another's. Whose, and for how long, only S tells, once it knows. */
static tl_status native_busy(tl_try *a, const tl_event *e, int64_t left_us) {
    a->result.acquire.announced = left_us > 0;
    return tl__try_busy(a, e, left_us > 0 ? left_us / 1000 : -1);
}

static bool is_text(const tl_reply *reply, tl_bytes text) {
    tl_bytes found;
    return reply && tl__reply_text(reply, &found) && tl__bytes_eq(found, text);
}

/* One of the commands was refused: none was executed, unless it was MULTI. Where it is for good, for want of
 * the command or of the right to it, the script does. */
static tl_status native_refused(tl_try *a, const tl_job *job, const tl_event *e, tl_out *out) {
    const tl_reply *first = e->replied.reply;
    while (first->type != TL_REPLY_ERROR)
        first++;
    bool set = is_text(&e->replied.reply[SET], TL_LITERAL("OK"));
    tl_err code = tl__refusal(first->text);
    ((token_try *)a)->set = set;
    if (code == TL_EUNSUPPORTED || code == TL_EDENIED) {
        out->level = e->server->level | LEVEL_SCRIPTS;
        return ask_script(a, job, e, out);
    }
    (void)tl__try_refused(a, first->text, set, &a->row->who, out);
    a->result.harmless = e->now;
    return TL_END;
}

/* Without a limit: SET heeds none. */
static tl_status native_answered(tl_try *a, const tl_job *job, const tl_event *e, tl_out *out) {
    const tl_reply *exec = &e->replied.reply[EXEC], *set = tl__reply_item(exec, 0),
                   *s = tl__reply_item(exec, 2);
    a->bounded = false;
    if (e->replied.reply[MULTI].type == TL_REPLY_ERROR || exec->type == TL_REPLY_ERROR)
        return native_refused(a, job, e, out);
    if (exec->type != TL_REPLY_ARRAY || exec->count != 3)
        return tl__try_malformed(a, out);
    if (set->type == TL_REPLY_ERROR) { /* from before NX and PX */
        out->level = e->server->level | LEVEL_SCRIPTS;
        return ask_script(a, job, e, out);
    }
    tl_interval now = tl__try_server_us(e, e->now);
    int64_t last = number_of(tl__reply_item(exec, 1)), left_us = bound_us(job, s, now);
    if (set->type == TL_REPLY_NIL)
        return native_busy(a, e, left_us);
    if (!is_text(set, TL_LITERAL("OK")))
        return tl__try_malformed(a, out);
    ((token_try *)a)->set = true;
    if ((GUARD(native_in_its_window) && e->replied.stale) || !e->server->anchor.known ||
        (GUARD(native_unbound) && left_us > 0) || (GUARD(no_native_past_queue) && is_line(s)) ||
        !is_good_number(last, s, now))
        return ask_script(a, job, e, out);
    a->result.proof.unbound = true;
    if (!GUARD(raised_by_scripts))
        tl__sidecar_raised(job, out);
    return tl__try_held(a, job, e, job->ttl_ms, (uint64_t)(last - (tl__job_fences(job) - 1)), out);
}

/* ---- answers of scripts ---------------------------------------------------------------------- */

/* Where there can be no line it acquires the lock as those do who stand in none. Nobody calls it, and it must look again soon,
 * also where the connection has been made anew meanwhile, so that what was learned of the server's version is not kept. */
static tl_status ask_without_line(tl_try *a, const tl_job *job, const tl_event *e, tl_out *out) {
    out->level = e->server->level | LEVEL_NO_LINE;
    a->result.acquire.polls = true;
    return ask_script(a, job, e, out);
}

static tl_status join_answered(tl_try *a, const tl_job *job, const tl_event *e, tl_out *out) {
    tl_sidecar_answer answer;
    if (!tl__sidecar_joined(a, e, out, &answer))
        return tl__try_malformed(a, out);
    if (answer.status == -3)
        return ask_without_line(a, job, e, out);
    a->result.proof.unbound = false;
    return tl__sidecar_judge(a, job, &answer, e, out);
}

static tl_status acquire_answered(tl_try *a, const tl_job *job, const tl_event *e, tl_out *out) {
    tl_sidecar_answer answer;
    if (e->asked.native)
        return native_answered(a, job, e, out);
    if (((token_try *)a)->joining)
        return join_answered(a, job, e, out);
    if (!tl__sidecar_acquired(a, job, e, out, &answer))
        return tl__try_malformed(a, out);
    ((token_try *)a)->set = false;
    a->result.proof.unbound = answer.status == 1 && !tl__sidecar_binds(job);
    a->result.proof.stood_ms = job->queue.stands ? (int32_t)job->ttl_ms
                                                 : 0; /* its turn is still to come */
    return tl__sidecar_judge(a, job, &answer, e, out);
}

static bool lines(const tl_server *server, const tl_rules *rules, tl_mono now) {
    (void)rules;
    (void)now;
    return !(server->level & LEVEL_NO_LINE);
}

/* What it is about this lock, which a renewal the short way wasn't well with. */
static tl_status renew_long(tl_try *a, const tl_job *job, const tl_event *e, tl_out *out) {
    token_try *t = (token_try *)a;
    const tl_sidecar_write write = usual(job);
    t->refreshing = false;
    t->odd = true;
    if (!again(a, job, e, out))
        return TL_END;
    tl_server room;
    tl_event informed = tl__try_informed(e, out, &room);
    tl__sidecar_send_renew(a, job, &write, &informed, out);
    return TL_GO;
}

static tl_status never_refreshed(tl_try *a, const tl_job *job, const tl_event *e, tl_out *out) {
    out->level = e->server->level | GUARD(refused_way_is_left) * LEVEL_NO_REFRESH;
    return renew_long(a, job, e, out);
}

/* All of the lifetime, as it has become longer by that. Another server than the one where S was written may have K and
 * an older S: of whom it tells is to be seen. */
static tl_status refreshed(tl_try *a, const tl_job *job, const tl_event *e, tl_out *out) {
    if (GUARD(refreshed_in_its_run) && job->hold.proof.token.noted_run != (uint32_t)e->asked.run)
        return renew_long(a, job, e, out);
    a->result.proof.kind = TL_PROOF_TOKEN;
    a->result.proof.token = job->hold.proof.token;
    return tl__try_held(a, job, e, job->ttl_ms, 0, out);
}

static tl_status refresh_answered(tl_try *a, const tl_job *job, const tl_event *e, tl_out *out) {
    switch (tl__sidecar_refreshed(e, out)) {
    case TL_REFRESHED: return refreshed(a, job, e, out);
    case TL_REFRESHED_NOT:
        return GUARD(odd_renewed_long) ? renew_long(a, job, e, out) : refreshed(a, job, e, out);
    case TL_REFRESHED_LATE:
        return GUARD(late_refresh) ? tl__try_too_late(a, out) : refreshed(a, job, e, out);
    case TL_REFRESHED_NEVER: return never_refreshed(a, job, e, out);
    case TL_REFRESHED_MALFORMED: break;
    }
    return tl__try_malformed(a, out);
}

static tl_status renew_answered(tl_try *a, const tl_job *job, const tl_event *e, tl_out *out) {
    if (((token_try *)a)->refreshing)
        return refresh_answered(a, job, e, out);
    a->result.proof.kind = TL_PROOF_TOKEN;
    a->result.proof.token = (tl_token_proof){((token_try *)a)->odd ? 0 : seconds(a->asked),
                                             (uint32_t)e->asked.run};
    return tl__sidecar_kept(a, job, e, out);
}

/* A keep that says nothing to S leaves it as it was. */
static tl_status alone_answered(tl_try *a, const tl_job *job, const tl_event *e, tl_out *out) {
    if (a->result.op == TL_ACQUIRE)
        return tl__alone_answered(a, &((token_try *)a)->alone, job, e, out);
    if (drops_more(a))
        return drop_more(a, job, out);
    if (a->result.op == TL_RELEASE)
        return tl__alone_freed(a, job, e, out);
    a->result.proof = job->hold.proof;
    return tl__alone_held(a, job, e, out);
}

static tl_status answered(tl_try *a, const tl_job *job, const tl_event *e, tl_out *out) {
    if (a->alone)
        return alone_answered(a, job, e, out);
    switch ((tl_op)a->result.op) {
    case TL_ACQUIRE: return acquire_answered(a, job, e, out);
    case TL_RENEW: return renew_answered(a, job, e, out);
    case TL_RELEASE: return tl__sidecar_released(a, e, out);
    }
    return tl__try_malformed(a, out);
}

/* The long way may not be refused, or with what says more. */
static tl_status refresh_refused(tl_try *a, const tl_job *job, const tl_event *e, tl_out *out) {
    tl_err code = tl__refusal(e->replied.reply->text);
    if (code == TL_EUNAVAILABLE && !tl__is_not_local(e->replied.reply->text))
        return tl__attempt_refused(a, job, e, out);
    bool command = code == TL_EDENIED && tl__from_script(e->replied.reply->text);
    return command ? never_refreshed(a, job, e, out) : renew_long(a, job, e, out);
}

/* Who lacks the right to stand in line waits as where there is none. */
static tl_status refused(tl_try *a, const tl_job *job, const tl_event *e, tl_out *out) {
    if (a->alone)
        return drops_more(a) ? drop_more(a, job, out) : tl__attempt_refused(a, job, e, out);
    if (a->result.op == TL_RENEW && ((token_try *)a)->refreshing)
        return refresh_refused(a, job, e, out);
    if (e->asked.native)
        return native_refused(a, job, e, out);
    if (((token_try *)a)->joining && tl__refusal(e->replied.reply->text) == TL_EDENIED &&
        !tl__try_may_not_ask(job, e->replied.reply->text))
        return ask_without_line(a, job, e, out);
    return tl__attempt_refused(a, job, e, out);
}

static bool leaves(const tl_try *a) {
    return ((const token_try *)a)->set ||
           (GUARD(key_left_behind) && ((const token_try *)a)->alone.stage > TL_ALONE_KEY);
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
