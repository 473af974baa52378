/*
 * The shipped token protocol, with its steps counted.
 */
#include "protocol/attempt.h"
#include "world.h"

int64_t sim_attempt_steps, sim_attempts_quiet;

static tl_status ask(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    sim_attempt_steps++;
    return tl__protocol_token.send(attempt, job, event, out);
}

static tl_status answered(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    sim_attempt_steps++;
    tl_status status = tl__protocol_token.answered(attempt, job, event, out);
    const tl_result *r = &attempt->result;
    if (status == TL_END && r->code == TL_EUNAVAILABLE && r->hint.ns != INT64_MAX)
        sim_attempts_quiet++;
    return status;
}

static bool outdated(const tl_try *attempt, const tl_job *job, const tl_event *event) {
    return tl__protocol_token.outdated(attempt, job, event);
}

const tl_protocol sim_counted_token = {
    .name = "token",
    .size = sizeof(tl_try),
    .id = TL_TOKEN,
    .send = ask,
    .answered = answered,
    .outdated = outdated,
};
