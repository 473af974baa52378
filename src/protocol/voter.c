/*
 * One server's vote. The machine must never forget that a server may hold K for a token: such a vote is taken
 * back.
 */
#include "protocol/voter.h"

#include "ground/guard.h"

void tl__voter_init(tl_voter *voter, const tl_job *job, unsigned index) {
    *voter = (tl_voter){.job = *job, .index = (uint8_t)index, .hint = TL_NEVER};
    voter->job.protocol = &tl__protocol_quorum;
    voter->job.release.silent = true;
}

void tl__voter_reach(tl_voter *voter, uint16_t ticket, tl_mono by, tl_out *out) {
    voter->doing = TL_VOTER_REACHING;
    voter->ticket = ticket;
    tl__out_send(out, ticket, by)->to = (uint8_t)(1U << voter->index);
}

static void begin(tl_voter *voter, tl_op op, uint16_t ticket, tl_mono until, const tl_event *event,
                  tl_out *out) {
    voter->ticket = ticket;
    (void)tl__quorum_begin(&voter->attempt, &voter->job, op, ticket, until, voter->index, event,
                           out); /* none of them ends here */
}

void tl__voter_ask(tl_voter *voter, uint16_t ticket, const tl_token *token, uint32_t run,
                   uint64_t least, tl_mono until, const tl_event *event, tl_out *out) {
    voter->job.again = voter->run == run && voter->job.acquire.fence > 0;
    voter->number = voter->run == run ? voter->number : 0;
    voter->job.token = *token;
    voter->job.acquire.fence = least;
    voter->run = run;
    voter->holds = true;
    voter->doing = TL_VOTER_VOTING;
    begin(voter, TL_ACQUIRE, ticket, until, event, out);
}

void tl__voter_drop(tl_voter *voter, uint16_t ticket, tl_mono until, const tl_event *event,
                    tl_out *out) {
    voter->job.release.in_vain = GUARD(door_is_shut) && voter->doubted;
    voter->job.hold.proof.unlimited = voter->doubted && voter->harmless.ns == TL_NEVER.ns;
    voter->until = (tl_mono){0};
    voter->doing = TL_VOTER_DROPPING;
    begin(voter, TL_RELEASE, ticket, until, event, out);
}

/* Another token holds K. Our vote may still come if an earlier request for it is unanswered. It can't come
 * any more if the server checks not_after, and this request was sent after the earlier one's. */
static void was_busy(tl_voter *voter, const tl_event *event) {
    const tl_result *result = &voter->attempt.result;
    bool kept;
    voter->until = (tl_mono){0};
    voter->holder = tl__quorum_holder(&voter->attempt, &kept);
    voter->announced = result->acquire.announced;
    voter->rests = result->acquire.rests;
    if (!GUARD(doubt_stays) || !voter->doubted ||
        (result->acquire.checked && !tl__mono_before(event->asked.sent, voter->harmless)))
        voter->holds = voter->doubted = false;
}

static void doubt(tl_voter *voter, tl_mono harmless) {
    voter->harmless = voter->doubted ? tl__mono_max(voter->harmless, harmless) : harmless;
    voter->holds = voter->doubted = true;
}

static void note_time(tl_voter *voter, const tl_event *event, const tl_out *out) {
    tl_event mine = *event;
    tl_server room;
    mine.server = &event->servers[voter->index];
    mine = tl__try_informed(&mine, out, &room);
    voter->seen = event->now;
    voter->seen_us = tl__try_server_us(&mine, event->now).hi;
}

int64_t tl__voter_server_us(const tl_voter *voter, const tl_event *event) {
    int64_t passed_ns = tl__rate_most_ns(tl__ns_until(voter->seen, event->now),
                                         event->servers[voter->index].drift_ppm);
    return voter->seen_us > 0 ? voter->seen_us + (passed_ns + 999) / 1000 : 0;
}

static tl_voter_end voted(tl_voter *voter, const tl_event *event, const tl_out *out) {
    const tl_result *result = &voter->attempt.result;
    bool kept;
    voter->hint = result->acquire.hint;
    if (result->code == TL_OK) {
        uint64_t least = voter->job.acquire.fence;
        (void)tl__quorum_holder(&voter->attempt, &kept);
        /* The token held K all the time, and the counter is at the proposed number or beyond: so that number
         * is its own. */
        voter->number = GUARD(raised_is_its_own) && kept && voter->number > 0 &&
                                voter->number <= least
                            ? least
                            : result->acquire.fence;
        voter->until = result->deadline;
        voter->proved = result->proved;
        note_time(voter, event, out);
        return TL_VOTER_VOTED;
    }
    if (result->code == TL_EBUSY) {
        was_busy(voter, event);
        return TL_VOTER_BUSY;
    }
    voter->until = (tl_mono){0};
    if (result->code == TL_EUNCERTAIN)
        doubt(voter, result->harmless);
    else if (!result->maybe && !voter->job.again)
        voter->holds = voter->doubted;
    return TL_VOTER_FAILED;
}

static tl_voter_end dropped(tl_voter *voter) {
    if (tl__may_pass(voter->attempt.result.code))
        return TL_VOTER_FAILED;
    voter->holds = voter->doubted = false;
    voter->number = 0;
    return TL_VOTER_DROPPED;
}

bool tl__voter_answer(tl_voter *voter, const tl_event *event, tl_out *out, tl_voter_end *ret_end,
                      tl_err *ret_code) {
    tl_voter_doing doing = (tl_voter_doing)voter->doing;
    if (doing == TL_VOTER_IDLE || event->asked.ticket != voter->ticket)
        return false;
    *ret_code = TL_OK;
    if (doing == TL_VOTER_REACHING) {
        voter->doing = TL_VOTER_IDLE;
        *ret_end = event->kind == TL_REPLY ? TL_VOTER_REACHED : TL_VOTER_FAILED;
        *ret_code = event->kind == TL_REPLY ? TL_OK : event->failed.why;
        if (event->kind == TL_FAILED) {
            tl__out_message(out, event->failed.message);
            voter->hint = TL_NEVER;
        }
        return true;
    }
    if (tl__quorum_step(&voter->attempt, &voter->job, voter->index, event, out) != TL_END)
        return false;
    voter->doing = TL_VOTER_IDLE;
    *ret_code = voter->attempt.result.code;
    *ret_end = doing == TL_VOTER_VOTING ? voted(voter, event, out) : dropped(voter);
    return true;
}

void tl__voter_abandon(tl_voter *voter) {
    if (GUARD(abandoned_in_doubt) && voter->doing == TL_VOTER_VOTING)
        doubt(voter, tl__attempt_harmless(&voter->attempt));
    voter->doing = TL_VOTER_IDLE;
}
