/*
 * Floor 2: the token protocol. K holds a random token with a lifetime, S beside it the token, the
 * fence and until when it binds; four scripts in src/scripts do each step in one go. This file says
 * what to send and what an answer means; it must never count on more time than the answer proves.
 */
#include "protocol.h"

#define FENCE_END (INT64_C(1) << 53) /* from here on Lua's numbers stand still */
#define IDLE_MS 3600000              /* S outlives its last use by an hour, so that fences go on */

typedef struct {
    tl_result result;
    tl_mono until;
    tl_mono asked; /* when the request was built: no later than it was sent */
    tl_mono by;
    uint16_t ticket;
    uint8_t op;
    bool bounded; /* TAKE: sent with a not_after */
} token_attempt;

_Static_assert(sizeof(token_attempt) <= TL_ATTEMPT_SIZE, "fits where attempts live");

static void token_init(void *machine, tl_op op, uint16_t ticket, tl_mono until) {
    token_attempt *a = machine;
    *a = (token_attempt){.ticket = ticket, .op = (uint8_t)op, .until = until};
    a->result.hint = TL_NEVER;
    a->result.harmless = TL_NEVER;
}

/* ---- sending --------------------------------------------------------------------------------- */

static void add(tl_command *c, tl_bytes arg) {
    c->argv[c->argc++] = arg;
}

static tl_command *script(tl_send *send, tl_script script, const tl_job *job) {
    tl_command *c = &send->command[send->count++];
    *c = (tl_command){.form = TL_SCRIPT, .script = (uint8_t)script, .nkeys = 2};
    add(c, job->key);
    add(c, job->sidecar);
    return c;
}

/* The replicas must confirm: ask on the same connection, right after the write. */
static void add_wait(tl_send *send, const tl_job *job, tl_out *out) {
    if (job->wait_replicas == 0)
        return;
    tl_command *c = &send->command[send->count++];
    *c = (tl_command){.form = TL_ARGV};
    add(c, TL_LITERAL("WAIT"));
    add(c, tl__out_int(out, job->wait_replicas));
    add(c, tl__out_int(out, job->wait_replicas_ms));
}

/* The earliest and the latest that the server's clock can show at `at`, us; 0 when it is unknown. */
static tl_interval server_us(const tl_event *e, tl_mono at) {
    if (!e->server->anchor.known)
        return (tl_interval){0, 0};
    tl_interval us = tl__anchor_server_time(&e->server->anchor, at, e->server->drift_ppm);
    return (tl_interval){us.lo > 0 ? us.lo : 0, us.hi > 0 ? us.hi : 0};
}

static void send_take(token_attempt *a, const tl_job *job, const tl_event *e, tl_out *out) {
    tl_send *send = tl__out_send(out, a->ticket, a->by);
    tl_command *c = script(send, TL_SCRIPT_TAKE, job);
    tl_interval now = server_us(e, e->now);
    int64_t not_after = server_us(e, a->by).lo;
    a->bounded = not_after > 0;
    add(c, tl__token_bytes(&job->token));
    add(c, tl__token_bytes(&job->token));
    add(c, TL_LITERAL(""));
    tl_bytes ttl = tl__out_int(out, job->ttl_ms);
    add(c, ttl);
    add(c, ttl);
    add(c, tl__out_int(out, not_after));
    add(c, tl__out_int(out, now.lo));
    add(c, job->owner);
    add(c, tl__out_int(out, IDLE_MS));
    add(c, tl__out_int(out, now.hi));
    add_wait(send, job, out);
}

static void send_keep(token_attempt *a, const tl_job *job, const tl_event *e, tl_out *out) {
    tl_send *send = tl__out_send(out, a->ticket, a->by);
    tl_command *c = script(send, TL_SCRIPT_KEEP, job);
    tl_interval now = server_us(e, e->now);
    add(c, tl__out_int(out, now.lo));
    add(c, tl__out_int(out, IDLE_MS));
    add(c, tl__token_bytes(&job->token));
    add(c, tl__token_bytes(&job->token));
    tl_bytes ttl = tl__out_int(out, job->ttl_ms);
    add(c, ttl);
    add(c, ttl);
    add(c, tl__out_int(out, server_us(e, a->by).lo));
    add(c, tl__out_int(out, now.hi));
    add_wait(send, job, out);
}

static void send_drop(token_attempt *a, const tl_job *job, tl_out *out) {
    tl_command *c = script(tl__out_send(out, a->ticket, a->by), TL_SCRIPT_DROP, job);
    add(c, tl__token_bytes(&job->token));
    add(c, tl__out_int(out, IDLE_MS));
}

static tl_status start(token_attempt *a, const tl_job *job, const tl_event *e, tl_out *out) {
    a->asked = e->now;
    a->by = tl__mono_min(tl__mono_add_ms(e->now, job->attempt_ms), a->until);
    switch ((tl_op)a->op) {
    case TL_TAKE: send_take(a, job, e, out); break;
    case TL_KEEP: send_keep(a, job, e, out); break;
    case TL_DROP: send_drop(a, job, out); break;
    }
    return TL_GO;
}

/* ---- answers --------------------------------------------------------------------------------- */

static tl_status fail(token_attempt *a, tl_err code, bool maybe, tl_bytes words, tl_out *out) {
    a->result.code = code;
    a->result.maybe = maybe;
    a->result.harmless = a->bounded ? a->by : TL_NEVER;
    tl__out_words(out, words);
    return TL_END;
}

/* Ours from when the request was built, for what the key really has left, less the drift. Not from
 * when it was sent, which can be later (a connection that came back, a script sent again by text):
 * below 3.2 it also says until when S binds others, reckoned from that moment. A key
 * without a lifetime (-1: somebody persisted it) lasts at least as long as ours. */
static tl_mono deadline(const token_attempt *a, const tl_job *job, const tl_event *e,
                        int64_t left_ms) {
    int64_t ms = left_ms == -1 || left_ms > job->ttl_ms ? job->ttl_ms : left_ms;
    if (ms < 0)
        ms = 0;
    int64_t drift = tl__drift_ns(job->ttl_ms * TL_NS_PER_MS, e->server->drift_ppm);
    return tl__mono_add_ns(tl__mono_add_ms(a->asked, ms), -drift);
}

/* Did enough replicas confirm? The second reply tells. */
static bool confirmed(token_attempt *a, const tl_job *job, const tl_event *e, tl_out *out) {
    int64_t n;
    if (job->wait_replicas == 0)
        return true;
    if (e->count == 2 && tl__reply_int(&e->reply[1], &n) && n >= job->wait_replicas)
        return true;
    fail(a, TL_EUNAVAILABLE, true, TL_LITERAL("too few replicas confirmed the lock in time"), out);
    a->result.harmless = e->now; /* it has taken effect: nothing is still under way */
    return false;
}

static tl_status malformed(token_attempt *a, tl_out *out) {
    return fail(a, TL_ESERVER, true, TL_LITERAL("the server's answer makes no sense"), out);
}

static tl_status too_late(token_attempt *a, tl_out *out) {
    static const char words[] = "the request reached the server too late";
    return fail(a, TL_EUNAVAILABLE, false, TL_LITERAL(words), out);
}

static tl_status quiet(token_attempt *a, tl_mono over, tl_out *out) {
    fail(a, TL_EUNAVAILABLE, true, TL_LITERAL("the server has restarted: waiting out old locks"),
         out);
    a->result.hint = over;
    return TL_END;
}

static tl_status taken(token_attempt *a, const tl_job *job, const tl_event *e, tl_out *out) {
    int64_t left, fence;
    if (!tl__reply_int(tl__reply_item(e->reply, 2), &left) ||
        !tl__reply_int(tl__reply_item(e->reply, 3), &fence) || fence <= 0 || fence >= FENCE_END)
        return malformed(a, out);
    tl_mono over = tl__mono_add_ms(e->server->up_since, job->restart_quiet_ms);
    if (job->restart_quiet_ms > 0 && e->server->up_since.ns != 0 && tl__mono_before(e->sent, over))
        return quiet(a, over, out);
    if (!confirmed(a, job, e, out))
        return TL_END;
    a->result.code = TL_OK;
    a->result.fence = (uint64_t)fence;
    a->result.deadline = deadline(a, job, e, left);
    return TL_END;
}

static tl_status busy(token_attempt *a, const tl_event *e, tl_out *out) {
    int64_t left, announced;
    if (!tl__reply_int(tl__reply_item(e->reply, 2), &left) ||
        !tl__reply_int(tl__reply_item(e->reply, 7), &announced))
        return malformed(a, out);
    a->result.code = TL_EBUSY;
    a->result.announced = announced == 1;
    if (left >= 0)
        a->result.hint = tl__mono_add_ms(
            e->now, tl__add_sat(left, 1)); /* a key lives to the end of its ms */
    return TL_END;
}

static tl_status take_answered(token_attempt *a, const tl_job *job, const tl_event *e,
                               tl_out *out) {
    int64_t status, checked;
    if (!tl__reply_int(tl__reply_item(e->reply, 0), &status) ||
        !tl__reply_int(tl__reply_item(e->reply, 6), &checked))
        return malformed(a, out);
    tl__out_time(out, e->reply, 4, e);
    a->result.checked = checked == 1;
    switch (status) {
    case 1: return taken(a, job, e, out);
    case 0: return busy(a, e, out);
    case -1: return too_late(a, out);
    case -2:
        return fail(a, TL_ESERVER, false, TL_LITERAL("this token has been released already"), out);
    default: return malformed(a, out);
    }
}

static tl_status keep_answered(token_attempt *a, const tl_job *job, const tl_event *e,
                               tl_out *out) {
    int64_t status, left;
    const tl_reply *item = tl__reply_item(e->reply, 2);
    if (!tl__reply_int(tl__reply_item(item, 0), &status) || status < -2 || status > 1 ||
        !tl__reply_int(tl__reply_item(item, 2), &left))
        return malformed(a, out);
    tl__out_time(out, e->reply, 0, e);
    if (status == -2)
        return too_late(a, out);
    if (status == 1) {
        if (!confirmed(a, job, e, out))
            return TL_END;
        a->result.code = TL_OK;
        a->result.deadline = deadline(a, job, e, left);
        return TL_END;
    }
    a->result.why = status == 0 ? TL_LOST_TAKEN : TL_LOST_GONE;
    return fail(a, TL_ELOST, false,
                status == 0 ? TL_LITERAL("another holds it") : TL_LITERAL("the key is gone"), out);
}

static tl_status drop_answered(token_attempt *a, const tl_event *e, tl_out *out) {
    int64_t status;
    if (!tl__reply_int(tl__reply_item(e->reply, 0), &status) || status < -1 || status > 1)
        return malformed(a, out);
    tl__out_time(out, e->reply, 2, e);
    if (status == 1) {
        a->result.code = TL_OK;
        return TL_END;
    }
    return status == 0
               ? fail(a, TL_ETAKEN, false, TL_LITERAL("it had expired; another holds it"), out)
               : fail(a, TL_EEXPIRED, false, TL_LITERAL("it had expired"), out);
}

static tl_status answered(token_attempt *a, const tl_job *job, const tl_event *e, tl_out *out) {
    if (e->count < 1)
        return malformed(a, out);
    if (e->reply->type == TL_REPLY_ERROR) {
        tl_bytes error = e->reply->text;
        fail(a, tl__refusal(error), tl__from_script(error), error, out);
        a->result.harmless = e->now;
        return TL_END;
    }
    switch ((tl_op)a->op) {
    case TL_TAKE: return take_answered(a, job, e, out);
    case TL_KEEP: return keep_answered(a, job, e, out);
    case TL_DROP: return drop_answered(a, e, out);
    }
    return malformed(a, out);
}

static tl_status token_step(void *machine, const tl_job *job, const tl_event *e, tl_out *out) {
    token_attempt *a = machine;
    if (e->kind == TL_START)
        return start(a, job, e, out);
    if (e->ticket != a->ticket)
        return TL_GO;
    if (e->kind == TL_REPLY)
        return answered(a, job, e, out);
    if (e->kind == TL_FAILED)
        return fail(a, e->maybe_sent ? TL_EUNCERTAIN : e->why, e->maybe_sent, e->words, out);
    return TL_GO;
}

const tl_protocol tl__protocol_token = {
    .name = "token",
    .size = sizeof(token_attempt),
    .init = token_init,
    .step = token_step,
};
