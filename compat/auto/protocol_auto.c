/*
 * The protocol that follows a namespace's phase. Each take needs a lease on the phase, and
 * carries the lease's end as its own, so that none is carried out after it; a hold keeps the protocol
 * that it was taken with, but that a stamp becomes a token in the phases that write tokens. The
 * protocols themselves are those of the fixed ones, run inside.
 */
#include "phase/phase.h"
#include "stamp/stamp.h"

typedef struct {
    union {
        tl_result result; /* first; theirs and ours */
        tl_try any;
        tl_stamp_try stamp;
    } inner;
    tl_mono until;
    tl_mono asked; /* reading: when the question was built */
    uint16_t ticket;
    uint8_t op;
    bool reading; /* the register, first */
    uint8_t speaks;
    bool drains;
} tl_auto_try;

_Static_assert(sizeof(tl_auto_try) <= TL_ATTEMPT_SIZE, "fits where attempts live");

static void auto_init(void *machine, tl_op op, uint16_t ticket, tl_mono until) {
    tl_auto_try *t = machine;
    *t = (tl_auto_try){.until = until, .ticket = ticket, .op = (uint8_t)op};
    tl__try_init(&t->inner, op, ticket, until);
}

/* ---- the protocol within --------------------------------------------------------------------- */

static const tl_protocol *row(const tl_auto_try *t) {
    return tl__protocol_row((tl_protocol_id)t->speaks);
}

static tl_status run(tl_auto_try *t, const tl_job *job, const tl_event *e, tl_out *out) {
    tl_status status = row(t)->step(&t->inner, job, e, out);
    tl_result *r = &t->inner.result;
    if (status == TL_END && r->code == TL_OK)
        r->proof.speaks = 1 + (r->proof.stamp_ms ? t->speaks : TL_TOKEN);
    return status;
}

static tl_status begin(tl_auto_try *t, const tl_job *job, const tl_event *e, tl_out *out) {
    tl_event start = {.kind = TL_START, .now = e->now, .server = e->server};
    row(t)->init(&t->inner, (tl_op)t->op, t->ticket, t->until);
    if (t->drains)
        t->inner.stamp.drain = true;
    return run(t, job, &start, out);
}

static void speak(tl_auto_try *t, int phase) {
    static const uint8_t speaks[] = {[TL_PHASE_TIMESTAMP] = TL_TIMESTAMP,
                                     [TL_PHASE_BRIDGE] = TL_BRIDGE,
                                     [TL_PHASE_DRAIN] = TL_BRIDGE,
                                     [TL_PHASE_TOKEN] = TL_TOKEN};
    t->speaks = speaks[phase];
    t->drains = phase == TL_PHASE_DRAIN;
}

/* ---- by the phase ---------------------------------------------------------------------------------- */

static tl_status act(tl_auto_try *t, const tl_job *job, const tl_lease *lease, const tl_event *e,
                     tl_out *out) {
    bool none = lease->phase == TL_PHASE_NONE;
    speak(t, none ? job->rules.ns->all->fallback : lease->phase);
    t->until = tl__mono_min(t->until, lease->until);
    return begin(t, job, e, out);
}

static tl_status read_register(tl_auto_try *t, const tl_job *job, const tl_event *e, tl_out *out) {
    t->reading = true;
    t->asked = e->now;
    tl_mono by = tl__mono_min(tl__mono_add_ms(e->now, job->attempt_ms), t->until);
    tl__phase_send(job->rules.ns, t->ticket, by, e, out);
    return TL_GO;
}

/* Nothing has been asked for but a number: whatever happened, no lock can have been taken. */
static tl_status unread(tl_auto_try *t, tl_err code) {
    t->inner.result.code = code;
    return TL_END;
}

static tl_status was_read(tl_auto_try *t, const tl_job *job, const tl_event *e, tl_out *out) {
    if (e->kind == TL_FAILED) {
        tl__out_words(out, e->words);
        return unread(t, e->why == TL_OK || e->why == TL_EUNCERTAIN ? TL_EUNAVAILABLE : e->why);
    }
    t->reading = false;
    tl_err code = tl__phase_read(job->rules.ns, t->asked, e, out);
    if (code)
        return unread(t, code);
    tl_lease lease = out->lease;
    if (!tl__mono_before(e->now, lease.until)) {
        tl__out_words(out, TL_LITERAL("the reply with the phase came too late"));
        return unread(t, TL_EUNAVAILABLE);
    }
    return act(t, job, &lease, e, out);
}

/* ---- keeping and dropping -------------------------------------------------------------------- */

/* A stamp becomes a token where tokens are written. */
static tl_status keep(tl_auto_try *t, const tl_job *job, const tl_event *e, tl_out *out) {
    const tl_lease *lease = &e->server->lease[job->rules.ns->index];
    bool without_scripts = job->proof.capped_until.ns == TL_NEVER.ns;
    t->speaks = job->proof.speaks - 1;
    t->drains = t->speaks != TL_TOKEN && !without_scripts && lease->phase >= TL_PHASE_DRAIN &&
                tl__lease_lasts(lease, e->now);
    if (t->drains)
        t->until = tl__mono_min(t->until, lease->until);
    return begin(t, job, e, out);
}

/* Dropping is the same for all that have a token. What a take without an answer has left behind may have
 * been said without scripts, where there are none. */
static tl_status drop(tl_auto_try *t, const tl_job *job, const tl_event *e, tl_out *out) {
    t->speaks = job->proof.speaks ? job->proof.speaks - 1 : TL_TIMESTAMP;
    return begin(t, job, e, out);
}

static tl_status start(tl_auto_try *t, const tl_job *job, const tl_event *e, tl_out *out) {
    const tl_lease *lease = &e->server->lease[job->rules.ns->index];
    if (t->op == TL_DROP)
        return drop(t, job, e, out);
    if (t->op == TL_KEEP && job->proof.speaks)
        return keep(t, job, e, out);
    /* A keep of a token from elsewhere, too, writes what the phase has it write. */
    return tl__lease_lasts(lease, e->now) ? act(t, job, lease, e, out)
                                          : read_register(t, job, e, out);
}

static tl_status auto_step(void *machine, const tl_job *job, const tl_event *e, tl_out *out) {
    tl_auto_try *t = machine;
    if (e->kind == TL_START)
        return start(t, job, e, out);
    if (!t->reading)
        return run(t, job, e, out);
    if (e->ticket != t->ticket || (e->kind != TL_REPLY && e->kind != TL_FAILED))
        return TL_GO;
    return was_read(t, job, e, out);
}

static const tl_phases phases = {.open = tl__namespaces_open,
                                 .close = tl__namespaces_close,
                                 .of = tl__namespace_of,
                                 .attend_size = sizeof(tl_attend),
                                 .attend_init = tl__attend_init,
                                 .leave_init = tl__leave_init,
                                 .attend_step = tl__attend_step};

const tl_protocol tl__protocol_auto = {.name = "auto",
                                       .size = sizeof(tl_auto_try),
                                       .init = auto_init,
                                       .step = auto_step,
                                       .rules = tl__stamp_rules,
                                       .reads_wall = true,
                                       .watches = true,
                                       .unchanged = tl__stamp_unchanged,
                                       .phases = &phases};
