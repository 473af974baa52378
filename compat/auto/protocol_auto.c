/*
 * The protocol that follows a namespace's phase (TL_AUTO). Each acquire needs a lease on the phase.
 * It carries the lease's end as its own limit, so that the server never executes it after that. A
 * hold keeps the protocol that it was acquired with. One exception: in the phases that write
 * tokens, a renewal turns a stamp into a token. The fixed protocols run inside.
 */
#include "ground/guard.h"
#include "phase/phase.h"
#include "stamp/stamp.h"

/* ---- the protocol within --------------------------------------------------------------------- */

/* From here on this is an attempt of the protocol `row`. */
static tl_status become(tl_try *attempt, const tl_protocol *row, bool drains, tl_mono until,
                        const tl_job *job, const tl_event *event, tl_out *out) {
    tl_event start = {.kind = TL_START, .now = event->now, .server = event->server};
    int64_t believes = attempt->believes;
    uint8_t differed = attempt->differed;
    bool polls = attempt->result.op == TL_ACQUIRE && attempt->result.acquire.polls;
    tl__attempt_init(attempt, row, (tl_op)attempt->result.op, attempt->ticket, until);
    attempt->believes = believes;
    attempt->differed = differed;
    if (polls)
        attempt->result.acquire.polls = true;
    if (drains)
        ((tl_stamp_try *)attempt)->drain = true;
    return tl__attempt_step(attempt, job, &start, out);
}

static const tl_protocol *row_of(uint8_t id) {
    static const tl_protocol *const rows[] = {[TL_TOKEN] = &tl__protocol_token,
                                              [TL_BRIDGE] = &tl__protocol_bridge,
                                              [TL_TIMESTAMP] = &tl__protocol_timestamp};
    return rows[id];
}

/* ---- by the phase ---------------------------------------------------------------------------------- */

static int phase_of(const tl_lease *lease, const tl_rules *rules) {
    return lease->phase == TL_PHASE_NONE ? tl__namespace_for(rules)->all->fallback : lease->phase;
}

static const tl_protocol *const rows[] = {[TL_PHASE_TIMESTAMP] = &tl__protocol_timestamp,
                                          [TL_PHASE_BRIDGE] = &tl__protocol_bridge,
                                          [TL_PHASE_DRAIN] = &tl__protocol_bridge,
                                          [TL_PHASE_TOKEN] = &tl__protocol_token};

static tl_status act(tl_try *attempt, const tl_job *job, const tl_lease *lease,
                     const tl_event *event, tl_out *out) {
    int phase = phase_of(lease, &job->rules);
    return become(attempt, rows[phase], phase == TL_PHASE_DRAIN,
                  GUARD(take_within_lease) ? tl__mono_min(attempt->until, lease->until)
                                           : attempt->until,
                  job, event, out);
}

static const char late[] = "the reply with the phase came too late";

/* Only the phase was read so far: whatever happened, no lock can have been acquired. */
static tl_status was_read(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    attempt->result.code = tl__phase_read(tl__namespace_for(&job->rules), attempt->asked, event,
                                          out);
    if (attempt->result.code)
        return TL_END;
    tl_lease lease = *tl__lease_read(out);
    if (!tl__mono_before(event->now, lease.until))
        return tl__try_fail(attempt, TL_EUNAVAILABLE, false, TL_LITERAL(late), out);
    return act(attempt, job, &lease, event, out);
}

static bool reads(const tl_try *attempt) {
    (void)attempt;
    return true;
}

/* ---- in a cluster ------------------------------------------------------------------------------ */

#define DIFFERED_MAX 3 /* how often a register may be another one within an attempt */

/* Acquire by what is believed of the slot's register, which the acquire carries. Waiters queue by the
 * latest phase of all slots; where this slot has another, a waiter must look again by itself. */
static tl_status act_in_slot(tl_try *attempt, const tl_job *job, int64_t believes,
                             const tl_event *event, tl_out *out) {
    const tl_namespace *ns = tl__namespace_for(&job->rules);
    int phase = tl__phase_in_slot(ns, believes, tl__lease_of(event->server, ns->index));
    attempt->believes = believes;
    if (job->queue.join && phase != TL_PHASE_TOKEN)
        attempt->result.acquire.polls = true;
    return become(attempt, rows[phase], phase == TL_PHASE_DRAIN, attempt->until, job, event, out);
}

static tl_condition condition(const tl_try *attempt, const tl_job *job, tl_out *out) {
    return tl__phase_condition(tl__namespace_for(&job->rules), &job->slot, attempt->believes, out);
}

static tl_status differs(tl_try *attempt, const tl_job *job, tl_bytes reads, const tl_event *event,
                         tl_out *out) {
    static const char often[] = "the phase of its slot changes again and again";
    const tl_namespace *ns = tl__namespace_for(&job->rules);
    int64_t believes;
    if (!tl__phase_believe(reads, &believes)) {
        attempt->result.code = tl__phase_unreadable(ns, &job->slot, out);
        return TL_END;
    }
    tl__phase_keep(ns, believes, event, out);
    if (!tl__mono_before(event->now, attempt->until))
        return tl__try_fail(attempt, TL_EUNAVAILABLE, false, TL_LITERAL(late), out);
    if (++attempt->differed > DIFFERED_MAX)
        return tl__try_fail(attempt, TL_EUNAVAILABLE, false, TL_LITERAL(often), out);
    return act_in_slot(attempt, job, believes, event, out);
}

/* ---- renewing and releasing ----------------------------------------------------------------- */

/* A stamp becomes a token where tokens are written. In a cluster it stays one: a renewal has no
 * condition. */
static tl_status keep(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    const tl_lease *lease = tl__lease_of(event->server, tl__namespace_for(&job->rules)->index);
    uint8_t speaks = job->hold.proof.held_by - 1;
    bool without_scripts = tl__proof_stamp(&job->hold.proof).capped_until.ns == TL_NEVER.ns;
    bool drains = speaks != TL_TOKEN && !without_scripts &&
                  !(GUARD(stamp_stays_in_cluster) && job->rules.nodes) &&
                  lease->phase >= TL_PHASE_DRAIN && tl__lease_lasts(lease, event);
    return become(attempt, row_of(speaks), drains,
                  drains ? tl__mono_min(attempt->until, lease->until) : attempt->until, job, event,
                  out);
}

/* Every protocol with a token releases in the same way. A lock left by an acquire without a reply
 * may have been written without scripts, on a server that has none. */
static tl_status drop(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    uint8_t left_by = GUARD(drops_without_scripts) ? TL_TIMESTAMP : TL_BRIDGE;
    uint8_t speaks = job->hold.proof.held_by ? job->hold.proof.held_by - 1 : left_by;
    return become(attempt, row_of(speaks), false, attempt->until, job, event, out);
}

static tl_status ask(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    const tl_lease *lease = tl__lease_of(event->server, tl__namespace_for(&job->rules)->index);
    if (attempt->result.op == TL_RELEASE)
        return drop(attempt, job, event, out);
    if (attempt->result.op == TL_RENEW && job->hold.proof.held_by)
        return keep(attempt, job, event, out);
    if (job->rules.nodes && attempt->result.op == TL_ACQUIRE)
        return act_in_slot(attempt, job, tl__phase_belief(lease), event, out);
    if (GUARD(stamp_stays_in_cluster) && job->rules.nodes) /* a token stays one, too */
        return become(attempt, &tl__protocol_bridge, false, attempt->until, job, event, out);
    /* A renewal of a lock acquired elsewhere also writes what the phase demands. */
    if (GUARD(lease_lasts) ? tl__lease_lasts(lease, event) : lease->until.ns != 0)
        return act(attempt, job, lease, event, out);
    tl__phase_send(tl__namespace_for(&job->rules), attempt->ticket, attempt->by, event, out);
    return TL_GO;
}

/* ---- waiting ------------------------------------------------------------------------------------- */

/* Waiters queue only in the token phase. A queue entry may outlast the phase, and the client that
 * releases the lock then may not know the new phase. So the releaser does not grant the lock to us: it
 * only reserves it and notifies us. We acquire it under a lease, by the phase of that moment. */
static bool lines(const tl_server *server, const tl_rules *rules, tl_mono now) {
    const tl_lease *lease = tl__lease_of(server, tl__namespace_for(rules)->index);
    return (!GUARD(queue_under_lease) ||
            (lease->until.ns != 0 && tl__mono_before(now, lease->until))) &&
           (!GUARD(queue_in_token_phase) || phase_of(lease, rules) == TL_PHASE_TOKEN) &&
           tl__protocol_token.lines(server, rules, now);
}

const tl_protocol tl__protocol_auto = {.name = "auto",
                                       .size = sizeof(tl_stamp_try),
                                       .id = TL_AUTO,
                                       .send = ask,
                                       .answered = was_read,
                                       .refused = was_read,
                                       .reads = reads,
                                       .rules = tl__stamp_rules,
                                       .never_renewed = tl__stamp_never_renewed,
                                       .never_rests = tl__stamp_never_rests,
                                       .lines = lines,
                                       .called = true,
                                       .reads_wall = true,
                                       .watching = &tl__watching,
                                       .unchanged = tl__stamp_unchanged,
                                       .upkeep = &tl__phase_upkeep,
                                       .condition = condition,
                                       .differs = differs};
