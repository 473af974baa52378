/*
 * One server's vote. It must never forget that a server may hold K for a token: what may be there is taken back.
 */
#include "protocol/voter.h"

#include "ground/guard.h"

void tl__voter_init(tl_voter *v, const tl_job *job, unsigned index) {
    *v = (tl_voter){.job = *job, .index = (uint8_t)index, .hint = TL_NEVER};
    v->job.protocol = &tl__protocol_quorum;
    v->job.release.silent = true;
}

void tl__voter_reach(tl_voter *v, uint16_t ticket, tl_mono by, tl_out *out) {
    v->doing = TL_VOTER_REACHING;
    v->ticket = ticket;
    tl__out_send(out, ticket, by)->to = (uint8_t)(1U << v->index);
}

static void begin(tl_voter *v, tl_op op, uint16_t ticket, tl_mono until, const tl_event *e,
                  tl_out *out) {
    v->ticket = ticket;
    (void)tl__quorum_begin(&v->attempt, &v->job, op, ticket, until, v->index, e,
                           out); /* none of them ends here */
}

void tl__voter_ask(tl_voter *v, uint16_t ticket, const tl_token *token, uint32_t run,
                   uint64_t least, tl_mono until, const tl_event *e, tl_out *out) {
    v->job.again = v->run == run && v->job.acquire.fence > 0;
    v->number = v->run == run ? v->number : 0;
    v->job.token = *token;
    v->job.acquire.fence = least;
    v->run = run;
    v->holds = true;
    v->doing = TL_VOTER_VOTING;
    begin(v, TL_ACQUIRE, ticket, until, e, out);
}

void tl__voter_drop(tl_voter *v, uint16_t ticket, tl_mono until, const tl_event *e, tl_out *out) {
    v->job.release.in_vain = GUARD(door_is_shut) && v->doubted;
    v->until = (tl_mono){0};
    v->doing = TL_VOTER_DROPPING;
    begin(v, TL_RELEASE, ticket, until, e, out);
}

/* Another has it; ours may only come yet if it was asked for before this, and is not refused by now. */
static void was_busy(tl_voter *v, const tl_event *e) {
    const tl_result *r = &v->attempt.result;
    bool kept;
    v->until = (tl_mono){0};
    v->holder = tl__quorum_holder(&v->attempt, &kept);
    v->announced = r->acquire.announced;
    if (!GUARD(doubt_stays) || !v->doubted ||
        (r->acquire.checked && !tl__mono_before(e->asked.sent, v->harmless)))
        v->holds = v->doubted = false;
}

static void doubt(tl_voter *v, tl_mono harmless) {
    v->harmless = v->doubted ? tl__mono_max(v->harmless, harmless) : harmless;
    v->holds = v->doubted = true;
}

static tl_voter_end voted(tl_voter *v, const tl_event *e) {
    const tl_result *r = &v->attempt.result;
    bool kept;
    v->hint = r->acquire.hint;
    if (r->code == TL_OK) {
        uint64_t least = v->job.acquire.fence;
        (void)tl__quorum_holder(&v->attempt, &kept);
        /* Held all the time, and the counter is beyond what was proposed: so that is its own. */
        v->number = GUARD(raised_is_its_own) && kept && v->number > 0 && v->number <= least
                        ? least
                        : r->acquire.fence;
        v->until = r->deadline;
        return TL_VOTER_VOTED;
    }
    if (r->code == TL_EBUSY) {
        was_busy(v, e);
        return TL_VOTER_BUSY;
    }
    v->until = (tl_mono){0};
    if (r->code == TL_EUNCERTAIN)
        doubt(v, r->harmless);
    else if (!r->maybe && !v->job.again)
        v->holds = v->doubted;
    return TL_VOTER_FAILED;
}

static tl_voter_end dropped(tl_voter *v) {
    if (tl__may_pass(v->attempt.result.code))
        return TL_VOTER_FAILED;
    v->holds = v->doubted = false;
    v->number = 0;
    return TL_VOTER_DROPPED;
}

bool tl__voter_answer(tl_voter *v, const tl_event *e, tl_out *out, tl_voter_end *ret_end,
                      tl_err *ret_code) {
    tl_voter_doing doing = (tl_voter_doing)v->doing;
    if (doing == TL_VOTER_IDLE || e->asked.ticket != v->ticket)
        return false;
    *ret_code = TL_OK;
    if (doing == TL_VOTER_REACHING) {
        v->doing = TL_VOTER_IDLE;
        *ret_end = e->kind == TL_REPLY ? TL_VOTER_REACHED : TL_VOTER_FAILED;
        *ret_code = e->kind == TL_REPLY ? TL_OK : e->failed.why;
        if (e->kind == TL_FAILED) {
            tl__out_words(out, e->failed.message);
            v->hint = TL_NEVER;
        }
        return true;
    }
    if (tl__quorum_step(&v->attempt, &v->job, v->index, e, out) != TL_END)
        return false;
    v->doing = TL_VOTER_IDLE;
    *ret_code = v->attempt.result.code;
    *ret_end = doing == TL_VOTER_VOTING ? voted(v, e) : dropped(v);
    return true;
}

void tl__voter_abandon(tl_voter *v) {
    if (GUARD(abandoned_in_doubt) && v->doing == TL_VOTER_VOTING)
        doubt(v, tl__attempt_harmless(&v->attempt));
    v->doing = TL_VOTER_IDLE;
}
