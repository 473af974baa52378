/*
 * Extending and releasing a lock of a majority. A request without a reply is sent again, which is safe, since
 * both compare the token. The machine must never report a lock as extended without a majority, nor as
 * released while another client could not acquire it.
 */
#include "protocol/quorum_settle.h"

#include "ground/assert.h"
#include "ground/guard.h"

void tl__quorum_settle_init(tl_quorum_settlement *settlement, const tl_job *job,
                            const tl_ballots *ballots, tl_op op, uint64_t seed) {
    TL_ASSERT(op == TL_RENEW || op == TL_RELEASE);
    *settlement = (tl_quorum_settlement){
        .job = *job, .ballots = *ballots, .result = {.op = (uint8_t)op}, .grace = TL_NEVER};
    settlement->retry.random = tl__random_begin(seed);
    settlement->job.protocol = &tl__protocol_quorum;
    settlement->job.release.silent = false;
}

/* ---- counting -------------------------------------------------------------------------------- */

typedef struct {
    unsigned good;      /* extended, or released by us */
    unsigned taken;     /* another's */
    unsigned not_ours;  /* another's or nobody's */
    unsigned lost;      /* of these, those that had voted for us */
    unsigned denied;    /* failed, and will do so next time */
    unsigned undecided; /* not answered yet */
    bool maybe;         /* an undecided request may have taken effect */
    tl_err why;         /* the code of a denied one */
} tally;

static bool is_gone(tl_err code) {
    return code == TL_ELOST || code == TL_EEXPIRED || code == TL_ETAKEN;
}

/* While the lock still has to rest a majority must say that it does: a majority that is free is no success. */
static bool rests(const tl_quorum_settlement *settlement) {
    return GUARD(rest_by_majority) && settlement->rests;
}

static bool is_good(const tl_quorum_settlement *settlement, const tl_quorum_plea *p) {
    return p->code == TL_OK ||
           tl__settle_has_worked((tl_op)settlement->result.op, p->code, p->maybe,
                                 settlement->in_time && !rests(settlement));
}

static tally count(const tl_quorum_settlement *settlement) {
    tally t = {0};
    for (unsigned i = 0; i < settlement->ballots.count; i++) {
        const tl_quorum_plea *p = &settlement->plea[i];
        t.undecided += !p->done;
        t.maybe = t.maybe || (!p->done && (p->maybe || p->ticket != 0));
        if (!p->done)
            continue;
        bool good = is_good(settlement, p), gone = !good && is_gone(p->code);
        t.good += good;
        t.not_ours += gone;
        t.lost += gone && settlement->voted & 1U << i;
        t.taken += gone && (p->code == TL_ETAKEN ||
                            tl__result_lost(&p->attempt.result).why == TL_LOST_TAKEN);
        t.denied += !good && !gone;
        t.why = !good && !gone ? p->code : t.why;
    }
    return t;
}

/* Has it succeeded? An extension needs a majority. A release needs a majority that has released the lock; or
 * a majority that is free now, where a majority held the lock until now. */
static bool is_settled(const tl_quorum_settlement *settlement, const tally *t) {
    unsigned q = tl__quorum_of(settlement->ballots.count),
             voted = tl__quorum_bits(settlement->voted);
    if (t->good >= q || settlement->result.op == TL_RENEW)
        return t->good >= (GUARD(extended_by_majority) ? q : 1);
    return settlement->in_time && !rests(settlement) &&
           (t->good + t->not_ours >= q || !GUARD(majority_is_free)) &&
           (t->lost + q <= voted || !GUARD(majority_had_it));
}

/* ---- sending --------------------------------------------------------------------------------- */

/* The time that a server has noted for the acquire may be a number by another server's clock: so it never counts. */
static int64_t rest_since_us(const tl_quorum_settlement *settlement, unsigned i) {
    int64_t seen_us = settlement->ballots.seen_us[i];
    return seen_us > 0 || !GUARD(rest_by_own_clock) ? seen_us : -1;
}

static void build(tl_quorum_settlement *settlement, unsigned i, const tl_event *event) {
    settlement->child = settlement->job;
    settlement->child.release.rest_since_us = rest_since_us(settlement, i);
    settlement->child.release.in_vain = GUARD(door_is_shut) ? settlement->ballots.doubted & 1U << i
                                                            : false;
    settlement->child.hold.proof.unlimited = settlement->job.hold.proof.unlimited ||
                                             settlement->child.release.in_vain;
    if (settlement->plea[i].voting)
        tl__quorum_ask_again(&settlement->child, event, settlement->ballots.count);
}

/* Does a majority still hold it by the replies so far? Then no other client can hold it, and a missing vote
 * may be asked for. */
static bool is_believed(const tl_quorum_settlement *settlement, tl_mono now) {
    const tl_ballots proved = tl__ballots_proved(&settlement->ballots,
                                                 settlement->job.hold.disrupted);
    return tl__mono_before(now, tl__ballots_deadline(&proved));
}

/* Is this server asked for its vote? A vote that may have come already (`doubted`) is renewed instead. */
static bool wants_vote(const tl_quorum_settlement *settlement, unsigned i, tl_mono now) {
    return GUARD(extension_asks_missing) && settlement->result.op == TL_RENEW &&
           settlement->ballots.until[i].ns == 0 && !(settlement->ballots.doubted & 1U << i) &&
           is_believed(settlement, now);
}

static void ask(tl_quorum_settlement *settlement, unsigned i, const tl_event *event, tl_out *out) {
    tl_quorum_plea *p = &settlement->plea[i];
    settlement->ticket += settlement->ticket == UINT16_MAX ? 2 : 1; /* never 0 */
    p->ticket = settlement->ticket;
    p->next = TL_NEVER;
    p->voting = wants_vote(settlement, i, event->now);
    settlement->ballots.doubted |= (uint8_t)(p->voting << i);
    build(settlement, i, event);
    tl_op op = p->voting ? TL_ACQUIRE : (tl_op)settlement->result.op;
    (void)tl__quorum_begin(&p->attempt, &settlement->child, op, p->ticket, settlement->retry.limit,
                           i, event, out); /* it doesn't end here */
}

static tl_status go_on(tl_quorum_settlement *settlement, const tl_event *event, tl_out *out) {
    tl_mono next = tl__mono_min(settlement->grace, settlement->retry.limit);
    for (unsigned i = 0; i < settlement->ballots.count; i++) {
        if (out->sends == 0 && !tl__mono_before(event->now, settlement->plea[i].next))
            ask(settlement, i, event, out);
        next = tl__mono_min(next, settlement->plea[i].next);
    }
    out->until = next;
    return TL_GO;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* The caller gets its result. Releases without a reply are sent again in the background. */
static tl_status leave(tl_quorum_settlement *settlement, const tl_event *event, tl_err code,
                       bool maybe, tl_out *out) {
    bool open = count(settlement).undecided > 0;
    out->sends = 0;
    out->until = TL_NEVER;
    if (!settlement->detached) {
        settlement->result.code = code;
        settlement->result.proved = tl__ballots_since(&settlement->ballots);
        settlement->result.maybe = maybe;
        settlement->result.deadline = code == TL_OK ? tl__ballots_deadline(&settlement->ballots)
                                                    : (tl_mono){0};
    }
    if (settlement->detached || !open || settlement->result.op != TL_RELEASE)
        return TL_END;
    settlement->detached = true;
    settlement->retry.limit = settlement->end;
    settlement->grace = TL_NEVER;
    for (unsigned i = 0; i < settlement->ballots.count; i++) {
        tl_quorum_plea *p = &settlement->plea[i];
        p->maybe = p->maybe || p->ticket != 0;
        p->ticket = 0;
        p->next = p->done ? TL_NEVER : event->now;
    }
    out->until = event->now;
    return TL_DETACH;
}

/* The limit has come without replies of a majority. */
static tl_status run_out(tl_quorum_settlement *settlement, const tl_event *event, tl_out *out) {
    bool maybe = count(settlement).maybe || count(settlement).good > 0;
    tl__retry_report(&settlement->retry, out);
    return leave(settlement, event, maybe ? TL_EUNCERTAIN : TL_EUNAVAILABLE, maybe, out);
}

static tl_status not_ours(tl_quorum_settlement *settlement, const tl_event *event, const tally *t,
                          tl_out *out) {
    bool taken = t->taken >= tl__quorum_of(settlement->ballots.count);
    tl__out_message(out, taken ? TL_LITERAL("another holds it")
                               : TL_LITERAL("a majority of the servers doesn't hold it any more"));
    if (settlement->result.op == TL_RELEASE)
        return leave(settlement, event, taken ? TL_ETAKEN : TL_EEXPIRED, false, out);
    settlement->result.lost = (tl_lost){.why = taken ? TL_LOST_TAKEN : TL_LOST_GONE};
    return leave(settlement, event, TL_ELOST, false, out);
}

static bool waits(tl_quorum_settlement *settlement, const tl_event *event) {
    if (settlement->grace.ns == TL_NEVER.ns)
        settlement->grace = tl__quorum_grace(settlement->retry.began, event->now);
    return tl__mono_before(event->now, settlement->grace) &&
           tl__mono_before(event->now, settlement->retry.limit);
}

static void blame(tl_quorum_settlement *settlement, const tl_event *event, tl_err code,
                  const char *message) {
    char room[TL_MESSAGE_SIZE];
    tl__retry_blame(&settlement->retry, event, code,
                    tl__quorum_message(room, settlement->ballots.count, message));
}

/* A vote that expired before enough others replied is renewed again. A request for a vote is dropped once the
 * others no longer hold the lock. */
static void run_down(tl_quorum_settlement *settlement, const tl_event *event) {
    for (unsigned i = 0; i < settlement->ballots.count && settlement->result.op == TL_RENEW; i++) {
        tl_quorum_plea *p = &settlement->plea[i];
        if (!p->done && p->voting && !is_believed(settlement, event->now)) {
            p->done = true;
            p->code = TL_ELOST;
            p->ticket = 0;
            p->next = TL_NEVER;
        }
        if (!p->done || p->code != TL_OK ||
            tl__mono_before(event->now, settlement->ballots.until[i]))
            continue;
        p->done = false;
        p->maybe = true;
        p->next = event->now;
        blame(settlement, event, TL_EUNAVAILABLE, "the confirmation came too late");
    }
}

/* Is it decided? A majority that is extended must not have expired meanwhile. */
static tl_status judge(tl_quorum_settlement *settlement, const tl_event *event, tl_out *out) {
    if (GUARD(late_vote_asked_again))
        run_down(settlement, event);
    settlement->rests = tl__job_rest_ms(&settlement->job, event->now, event->servers->drift_ppm) >
                        0;
    tally t = count(settlement);
    unsigned q = tl__quorum_of(settlement->ballots.count), rest = settlement->ballots.count - q;
    if (settlement->detached && t.undecided == 0)
        return TL_END;
    bool good = is_settled(settlement, &t),
         decided = !settlement->detached && (good || t.not_ours > rest);
    if (decided && (t.undecided == 0 || !waits(settlement, event)))
        return good ? leave(settlement, event, TL_OK, false, out)
                    : not_ours(settlement, event, &t, out);
    if (!decided)
        settlement->grace = TL_NEVER;
    if (!settlement->detached && !decided && t.undecided == 0) {
        tl__retry_report(&settlement->retry, out);
        return leave(settlement, event, t.why, t.good > 0, out);
    }
    if (!tl__mono_before(event->now, settlement->retry.limit))
        return run_out(settlement, event, out);
    return go_on(settlement, event, out);
}

/* ---- events ---------------------------------------------------------------------------------- */

/* Note the result of an extension at this server. true: this server is to be asked again at once. */
static bool noted(tl_quorum_settlement *settlement, unsigned i, const tl_event *event) {
    tl_quorum_plea *p = &settlement->plea[i];
    const tl_result *result = &p->attempt.result;
    uint8_t bit = (uint8_t)(1U << i);
    /* Another client may have held the lock meanwhile. */
    bool late = GUARD(late_vote_is_left) && p->voting && !is_believed(settlement, event->now);
    if (p->voting && result->code == TL_EBUSY)
        p->code = TL_ETAKEN;
    if (result->code == TL_OK && late)
        p->code = TL_ELOST; /* the release takes this vote back */
    if (p->code == TL_OK || is_gone(p->code)) {
        settlement->ballots.until[i] = p->code == TL_OK ? result->deadline : (tl_mono){0};
        settlement->ballots.proved[i] = result->proved;
    }
    if (p->code == TL_OK || (is_gone(p->code) && !late) || (p->voting && !late && !result->maybe))
        settlement->ballots.doubted &= (uint8_t)~bit;
    bool gone = tl__result_lost(result).why == TL_LOST_GONE;
    return gone && !p->voting && wants_vote(settlement, i, event->now);
}

static void ended(tl_quorum_settlement *settlement, unsigned i, const tl_event *event,
                  const tl_out *out) {
    tl_quorum_plea *p = &settlement->plea[i];
    const tl_result *result = &p->attempt.result;
    p->ticket = 0;
    if (tl__settle_is_final((tl_op)settlement->result.op, result, event->now)) {
        p->code = result->code;
        p->done = settlement->result.op == TL_RELEASE || !noted(settlement, i, event);
        if (!p->done)
            p->next = event->now;
        else if (!is_good(settlement, p) && !is_gone(p->code))
            blame(settlement, event, p->code, out->message);
        return;
    }
    p->maybe = p->maybe || result->maybe || result->code == TL_OK;
    blame(settlement, event, TL_EUNAVAILABLE,
          result->code == TL_OK ? "the confirmation came too late" : out->message);
    p->next = tl__retry_after(&settlement->retry, event->now, false);
}

static tl_status on_answer(tl_quorum_settlement *settlement, const tl_event *event, tl_out *out) {
    for (unsigned i = 0; i < settlement->ballots.count; i++) {
        tl_quorum_plea *p = &settlement->plea[i];
        if (p->ticket == 0 || p->ticket != event->asked.ticket)
            continue;
        build(settlement, i, event);
        if (tl__quorum_step(&p->attempt, &settlement->child, i, event, out) == TL_END)
            ended(settlement, i, event, out);
        break;
    }
    return judge(settlement, event, out);
}

static tl_status begin(tl_quorum_settlement *settlement, const tl_event *event, tl_out *out) {
    settlement->retry.began = event->now;
    TL_ASSERT(event->servers && settlement->retry.limit.ns == 0);
    settlement->retry.limit = tl__mono_add_ms(event->now, settlement->job.attempt_ms);
    settlement->end = tl__retry_cleans_until(&settlement->job, settlement->job.hold.believed,
                                             event->now, event->servers->drift_ppm);
    settlement->in_time = tl__job_believes(&settlement->job, settlement->job.hold.believed,
                                           event->now);
    for (unsigned i = 0; i < settlement->ballots.count; i++) {
        settlement->plea[i].next = event->now;
        settlement->voted |= (uint8_t)(tl__mono_before(event->now, settlement->ballots.until[i])
                                       << i);
    }
    return judge(settlement, event, out);
}

tl_status tl__quorum_settle_step(void *machine, const tl_event *event, tl_out *out) {
    tl_quorum_settlement *settlement = machine;
    tl_mono *disrupted = &settlement->job.hold.disrupted;
    if (GUARD(settles_in_doubt))
        *disrupted = tl__mono_max(*disrupted, event->servers->disrupted);
    switch (event->kind) {
    case TL_START: return begin(settlement, event, out);
    case TL_REPLY:
    case TL_FAILED: return on_answer(settlement, event, out);
    case TL_CANCEL:
        tl__retry_say(&settlement->retry, TL_LITERAL("cancelled"));
        return run_out(settlement, event, out);
    default: return judge(settlement, event, out);
    }
}
