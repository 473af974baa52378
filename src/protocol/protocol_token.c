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
    case TL_ACQUIRE: tl__sidecar_send_acquire(a, job, &write, e, out); break;
    case TL_RENEW: tl__sidecar_send_renew(a, job, &write, e, out); break;
    case TL_RELEASE: tl__sidecar_send_release(a, job, out); break;
    }
    return TL_GO;
}

static tl_status acquire_answered(tl_try *a, const tl_job *job, const tl_event *e, tl_out *out) {
    tl_sidecar_answer answer;
    if (!tl__sidecar_acquired(a, job, e, out, &answer))
        return tl__try_malformed(a, out);
    if (answer.status == 1)
        return tl__try_held(a, job, e, answer.left_ms, answer.fence, out);
    return answer.status == 0 ? tl__try_busy(a, e, answer.left_ms)
                              : tl__sidecar_refused(a, answer.status, out);
}

static tl_status renew_answered(tl_try *a, const tl_job *job, const tl_event *e, tl_out *out) {
    tl_sidecar_answer answer;
    if (!tl__sidecar_renewed(e, out, &answer))
        return tl__try_malformed(a, out);
    if (answer.status == -2)
        return tl__try_too_late(a, out);
    return answer.status == 1 ? tl__try_held(a, job, e, answer.left_ms, 0, out)
                              : tl__try_not_renewed(a, answer.status, out);
}

static tl_status answered(tl_try *a, const tl_job *job, const tl_event *e, tl_out *out) {
    switch ((tl_op)a->op) {
    case TL_ACQUIRE: return acquire_answered(a, job, e, out);
    case TL_RENEW: return renew_answered(a, job, e, out);
    case TL_RELEASE: return tl__sidecar_released(a, e, out);
    }
    return tl__try_malformed(a, out);
}

static bool outdated(const tl_try *a, const tl_job *job, const tl_event *e) {
    (void)job;
    return a->op == TL_ACQUIRE && tl__try_is_outdated(a, e);
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
