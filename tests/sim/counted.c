/*
 * The shipped token protocol, with its steps counted.
 */
#include "world.h"

int64_t sim_attempt_steps, sim_attempts_quiet;

static void init(void *attempt, tl_op op, uint16_t ticket, tl_mono until) {
    tl__protocol_token.init(attempt, op, ticket, until);
}

static tl_status step(void *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    sim_attempt_steps++;
    tl_status status = tl__protocol_token.step(attempt, job, event, out);
    const tl_result *r = attempt;
    if (status == TL_END && r->code == TL_EUNAVAILABLE && r->hint.ns != INT64_MAX)
        sim_attempts_quiet++;
    return status;
}

const tl_protocol sim_counted_token = {
    .name = "token",
    .size = TL_ATTEMPT_SIZE,
    .init = init,
    .step = step,
};
