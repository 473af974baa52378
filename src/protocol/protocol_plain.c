/*
 * The token protocol without its sidecar, for locks that need no fence: one SET takes K, and
 * scripts that compare the token keep and release it. It must never take K for its own on a SET that
 * was answered nil: only comparing what K holds tells.
 */
#include "ground/guard.h"
#include "protocol/alone.h"

/* ---- sending --------------------------------------------------------------------------------- */

static void send_first(tl_try *a, const tl_job *job, tl_out *out) {
    tl_send *send = tl__out_send(out, a->ticket, a->by);
    tl_command *c = tl__try_command(send);
    tl__try_add(c, TL_LITERAL("SET"));
    tl__try_add(c, job->key);
    tl__try_add(c, tl__token_bytes(&job->token));
    tl__try_add(c, TL_LITERAL("NX"));
    tl__try_add(c, TL_LITERAL("PX"));
    tl__try_add(c, tl__out_int(out, job->ttl_ms));
    tl__try_add_wait(send, job, out);
}

static tl_status ask(tl_try *a, const tl_job *job, const tl_event *e, tl_out *out) {
    a->alone = true;
    bool taking = a->op == TL_ACQUIRE && !a->again;
    if (a->op == TL_RELEASE)
        tl__alone_send_free(a, job, out);
    else if (taking && !job->again)
        send_first(a, job, out);
    else
        tl__alone_send_hold(a, job, taking, e, out);
    return TL_GO;
}

/* ---- answers --------------------------------------------------------------------------------- */

static tl_status first_answered(tl_try *a, const tl_job *job, const tl_event *e, tl_out *out) {
    tl_bytes text;
    if (GUARD(refused_set) && e->reply->type == TL_REPLY_NIL)
        return tl__try_busy(a, e, -1);
    if (GUARD(refused_set) &&
        (!tl__reply_text(e->reply, &text) || !tl__bytes_eq(text, TL_LITERAL("OK"))))
        return tl__try_malformed(a, out);
    return tl__try_held(a, job, e, job->ttl_ms, 0, out);
}

static tl_status taken(tl_try *a, const tl_job *job, const tl_event *e, tl_out *out) {
    if (e->reply->type == TL_REPLY_ARRAY)
        return tl__alone_held(a, job, e, out);
    return a->op == TL_ACQUIRE && !job->again ? first_answered(a, job, e, out)
                                              : tl__try_malformed(a, out);
}

static tl_status answered(tl_try *a, const tl_job *job, const tl_event *e, tl_out *out) {
    static const char late[] = "no time is left to ask again";
    if (a->op == TL_RELEASE)
        return tl__alone_freed(a, job, e, out);
    if (a->op == TL_ACQUIRE && a->again)
        return tl__alone_has_again(a, e, out);
    tl_status status = taken(a, job, e, out);
    bool led = a->op == TL_ACQUIRE && a->asking && status == TL_END && a->result.code == TL_OK;
    if (led && !tl__alone_may_repeat(a, e))
        return tl__try_fail(a, TL_EUNAVAILABLE, true, TL_LITERAL(late), out);
    return GUARD(plain_asked_again) && led ? tl__alone_repeat(a, job, e, out) : status;
}

/* The first SET carries no limit. */
static bool outdated(const tl_try *a, const tl_job *job, const tl_event *e) {
    return a->op == TL_ACQUIRE && job->again && tl__try_is_outdated(a, e);
}

/* Our SET is well formed: a server that complains of how it is written is from before NX and PX. */
static bool is_old_set(const tl_try *a, const tl_job *job, tl_bytes error) {
    static const char syntax[] = "syntax error", number[] = "wrong number of arguments";
    return a->op == TL_ACQUIRE && !job->again &&
           (memmem(error.p, error.n, syntax, sizeof syntax - 1) ||
            memmem(error.p, error.n, number, sizeof number - 1));
}

static tl_status refused(tl_try *a, const tl_job *job, const tl_event *e, tl_out *out) {
    static const char old[] =
        "the server's SET has no NX and PX, which no_fence needs: Redis 2.6.12 or newer";
    if (!is_old_set(a, job, e->reply->text))
        return tl__attempt_refused(a, job, e, out);
    tl__try_fail(a, TL_EUNSUPPORTED, false, TL_LITERAL(old), out);
    a->result.harmless = e->now;
    return TL_END;
}

static bool leaves(const tl_try *a) {
    return a->op == TL_ACQUIRE && a->again;
}

const tl_protocol tl__protocol_plain = {
    .name = "plain",
    .size = sizeof(tl_try),
    .id = TL_TOKEN,
    .send = ask,
    .answered = answered,
    .refused = refused,
    .who = {"tokens need", TL_INSTEAD},
    .outdated = outdated,
    .leaves = leaves,
};
