/*
 * The requests to one of several independent servers, each of which votes for a token by holding K for it.
 * Only the acquire differs from the token protocol. It always uses the script `vote`, with a fencing number
 * that is the same for all servers. The machines in quorum_*.c count the votes.
 */
#include "ground/guard.h"
#include "protocol/quorum.h"
#include "protocol/sidecar.h"
#include "wire/rest.h"

typedef struct {
    tl_try try;
    uint64_t holder;
    bool kept;
} vote_try;

_Static_assert(sizeof(vote_try) <= TL_ATTEMPT_SIZE, "an attempt fits into a tl_attempt");

/* ---- sending --------------------------------------------------------------------------------- */

static void send_vote(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    char counter[TL_COUNTER_SIZE];
    tl_command *command = tl__try_script(tl__out_send(out, attempt->ticket, attempt->by),
                                         TL_SCRIPT_VOTE);
    tl_interval now = tl__try_server_us(event, event->now);
    int64_t not_after = tl__try_not_after_us(attempt, event, true);
    attempt->bounded = not_after > 0;
    command->nkeys = 3;
    TL_ADD(command, job->key, job->sidecar,
           tl__out_copy(out, tl__counter(counter, &job->slot), (tl_bytes){0}),
           tl__token_bytes(&job->token), tl__out_int(out, job->ttl_ms), tl__out_int(out, not_after),
           tl__out_int(out, now.lo), tl__out_int(out, now.hi),
           tl__sidecar_binds(job) ? job->owner : TL_LITERAL(""),
           tl__out_int(out, tl__job_fences(job)), tl__out_int(out, (int64_t)job->acquire.fence),
           tl__out_int(out, GUARD(vote_waits_quiet) * job->acquire.quiet_ms));
}

static void send_unvote(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    tl_command *command = tl__try_script(tl__out_send(out, attempt->ticket, attempt->by),
                                         TL_SCRIPT_UNVOTE);
    command->nkeys = 3;
    TL_ADD(command, job->key, job->sidecar, job->line, tl__token_bytes(&job->token),
           tl__sidecar_stays(job, event, out));
    if (job->release.in_vain)
        tl__try_add(command, TL_LITERAL(""));
}

static tl_status ask(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    const tl_sidecar_write write = {
        .value = tl__token_bytes(&job->token), .expect = TL_LITERAL(""), .px_ms = job->ttl_ms};
    if (attempt->result.op == TL_ACQUIRE)
        send_vote(attempt, job, event, out);
    else if (attempt->result.op == TL_RENEW)
        tl__sidecar_send_renew(attempt, job, &write, event, out);
    else if (job->release.silent)
        send_unvote(attempt, job, event, out);
    else
        tl__sidecar_send_release(attempt, job, event, out);
    return TL_GO;
}

/* ---- replies --------------------------------------------------------------------------------- */

/* A number that stands for the holder in K's value; never 0. A rest is one holder on all servers, although each
 * server notes its own time of the rest. */
static uint64_t number_for(tl_bytes text) {
    int64_t since_us;
    tl_bytes token;
    if (tl__rest_read(text, &since_us, &token) && GUARD(rest_is_one_holder))
        text = token;
    uint64_t hash = tl__bytes_hash(0, text);
    return hash ? hash : 1;
}

static tl_status voted(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    vote_try *v = (vote_try *)attempt;
    tl_sidecar_answer answer;
    if (event->replied.reply->type != TL_REPLY_ARRAY ||
        !tl__sidecar_acquired(attempt, job, event, out, &answer))
        return tl__try_malformed(attempt, out);
    out->raised = false; /* the number is not from this server's clock */
    v->kept = answer.status == 1 && answer.known;
    v->holder = answer.status == 0 && answer.value.n > 0 ? number_for(answer.value) : 0;
    attempt->result.proof.unbound = answer.status == 1 && !tl__sidecar_binds(job);
    return tl__sidecar_judge(attempt, job, &answer, event, out);
}

static tl_status answered(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    switch ((tl_op)attempt->result.op) {
    case TL_ACQUIRE: return voted(attempt, job, event, out);
    case TL_RENEW: return tl__sidecar_kept(attempt, job, event, out);
    case TL_RELEASE: return tl__sidecar_released(attempt, job, event, out);
    }
    return tl__try_malformed(attempt, out);
}

uint64_t tl__quorum_holder(const void *attempt, bool *ret_kept) {
    const vote_try *v = attempt;
    *ret_kept = v->kept;
    return v->holder;
}

const tl_protocol tl__protocol_quorum = {
    .name = "quorum",
    .size = sizeof(vote_try),
    .id = TL_TOKEN,
    .send = ask,
    .answered = answered,
    .who = {"tokens need", NULL},
    .outdated = tl__try_outdated_take,
    .binds_late = true,
};
