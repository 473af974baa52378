/*
 * The token protocol. K holds a random token with a lifetime, S beside it the token, the
 * fence and until when it binds; scripts in src/wire/scripts do each step in one go. This file says
 * what to send and what an answer means; it must never count on more time than the answer proves.
 */
#include "protocol/sidecar.h"

static tl_status ask(tl_try *a, const tl_job *job, const tl_event *e, tl_out *out) {
    const tl_sidecar_write write = {
        .value = tl__token_bytes(&job->token), .expect = TL_LITERAL(""), .px_ms = job->ttl_ms};
    switch ((tl_op)a->op) {
    case TL_TAKE: tl__sidecar_send_take(a, job, &write, e, out); break;
    case TL_KEEP: tl__sidecar_send_keep(a, job, &write, e, out); break;
    case TL_DROP: tl__sidecar_send_drop(a, job, out); break;
    }
    return TL_GO;
}

static tl_status take_answered(tl_try *a, const tl_job *job, const tl_event *e, tl_out *out) {
    tl_sidecar_answer answer;
    if (!tl__sidecar_took(a, job, e, out, &answer))
        return tl__try_malformed(a, out);
    if (answer.status == 1)
        return tl__try_held(a, job, e, answer.left_ms, answer.fence, out);
    return answer.status == 0 ? tl__try_busy(a, e, answer.left_ms)
                              : tl__sidecar_refused(a, answer.status, out);
}

static tl_status keep_answered(tl_try *a, const tl_job *job, const tl_event *e, tl_out *out) {
    tl_sidecar_answer answer;
    if (!tl__sidecar_kept(e, out, &answer))
        return tl__try_malformed(a, out);
    if (answer.status == -2)
        return tl__try_too_late(a, out);
    return answer.status == 1 ? tl__try_held(a, job, e, answer.left_ms, 0, out)
                              : tl__try_not_kept(a, answer.status, out);
}

static tl_status answered(tl_try *a, const tl_job *job, const tl_event *e, tl_out *out) {
    switch ((tl_op)a->op) {
    case TL_TAKE: return take_answered(a, job, e, out);
    case TL_KEEP: return keep_answered(a, job, e, out);
    case TL_DROP: return tl__sidecar_dropped(a, e, out);
    }
    return tl__try_malformed(a, out);
}

static bool outdated(const tl_try *a, const tl_job *job, const tl_event *e) {
    (void)job;
    return a->op == TL_TAKE && tl__try_is_outdated(a, e);
}

const tl_protocol tl__protocol_token = {
    .name = "token",
    .size = sizeof(tl_try),
    .id = TL_TOKEN,
    .send = ask,
    .answered = answered,
    .who = {"tokens need", TL_INSTEAD},
    .outdated = outdated,
    .no_fence = &tl__protocol_plain,
};
