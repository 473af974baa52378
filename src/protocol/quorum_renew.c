/*
 * Keeping a lock of a majority. Each server's vote is renewed by itself, at a third of its validity. It must report LOST
 * no later than the majority's deadline, or as soon as fewer than a majority are left; and a vote that was gone must
 * count again only while a majority without it has held the lock all the time.
 */
#include "protocol/quorum_renew.h"

#include "ground/guard.h"

#define SLACK_PARTS 256      /* a renewal may be late by this part of what is left then */
#define MISSING_NS 100000000 /* a vote that is missing is asked for by then */

void tl__quorum_renew_init(tl_quorum_renewal *r, const tl_job *job, const tl_ballots *ballots,
                           tl_mono hold, bool by_hand, uint64_t seed) {
    *r = (tl_quorum_renewal){.job = *job, .ballots = *ballots, .hold = hold, .by_hand = by_hand};
    r->random = tl__random_begin(seed);
    r->job.protocol = &tl__protocol_quorum;
    r->result = (tl_result){.op = TL_RENEW, .deadline = tl__ballots_deadline(ballots)};
}

static tl_mono end(const tl_quorum_renewal *r) {
    return tl__mono_min(tl__mono_add_ns(r->result.deadline, GUARD(lost_is_early)
                                                                ? -TL_LOST_EARLY_NS
                                                                : 20 * TL_LOST_EARLY_NS),
                        r->hold);
}

static bool is_over(const tl_quorum_renewal *r, const tl_event *e) {
    return !tl__mono_before(e->now, end(r));
}

/* A vote that is missing is asked for soon, one that may have come yet with the others. */
static void plan(tl_quorum_renewal *r, unsigned i, tl_mono now) {
    tl_quorum_seat *s = &r->seat[i];
    bool has = tl__mono_before(now, r->ballots.until[i]);
    int64_t ns = tl__ns_until(now, has ? r->ballots.until[i] : r->result.deadline) / TL_RENEW_PARTS;
    int64_t most = has ? TL_RENEW_FIRST_NS : MISSING_NS;
    if (((r->job.hold.proof.unbound && !s->bound) || !has) && ns > most)
        ns = most;
    s->next = r->by_hand ? TL_NEVER : tl__mono_add_ns(now, s->again ? 0 : ns);
    s->again = false;
}

/* ---- the end --------------------------------------------------------------------------------- */

static tl_status over(tl_quorum_renewal *r, const tl_event *e, tl_out *out) {
    unsigned not_ours = tl__quorum_bits(r->gone | r->taken), count = r->ballots.count;
    tl_lost_why why = TL_LOST_EXPIRED;
    if (!tl__mono_before(e->now, r->hold))
        why = TL_LOST_MAX_HOLD;
    else if (not_ours > count - tl__quorum_of(count))
        why = r->taken ? TL_LOST_TAKEN : TL_LOST_GONE;
    out->sends = 0;
    r->result.code = TL_ELOST;
    r->result.lost.why = why;
    (void)tl__out_note(out, TL_NOTE_LOST, why);
    return TL_END;
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* The same for each step of a request. */
static void build(tl_quorum_renewal *r, const tl_quorum_seat *s, const tl_event *e) {
    r->child = r->job;
    r->child.hold.believed = r->result.deadline;
    if (s->voting)
        tl__quorum_ask_again(&r->child, e, r->ballots.count);
}

static void ask(tl_quorum_renewal *r, unsigned i, const tl_event *e, tl_out *out) {
    tl_quorum_seat *s = &r->seat[i];
    tl_mono by = tl__renew_by(e->now, end(r), r->job.attempt_ms);
    unsigned bit = 1U << i;
    s->voting = GUARD(gone_is_asked) && r->ballots.until[i].ns == 0 && !(r->ballots.doubted & bit);
    s->next = TL_NEVER;
    s->again = false;
    r->ticket += r->ticket == UINT16_MAX ? 2 : 1; /* never 0 */
    s->ticket = r->ticket;
    if (s->voting)
        r->ballots.doubted |= (uint8_t)bit;
    build(r, s, e);
    (void)tl__quorum_begin(&s->attempt, &r->child, s->voting ? TL_ACQUIRE : TL_RENEW, s->ticket, by,
                           i, e, out); /* it doesn't end here */
}

static tl_status go_on(tl_quorum_renewal *r, const tl_event *e, tl_out *out) {
    r->result.deadline = tl__ballots_deadline(&r->ballots);
    if (is_over(r, e))
        return over(r, e, out);
    if (r->mended)
        (void)tl__out_note(out, TL_NOTE_HELD, TL_NOT_LOST);
    r->mended = false;
    tl_mono next = TL_NEVER;
    for (unsigned i = 0; i < r->ballots.count; i++) {
        if (out->sends == 0 && !tl__mono_before(e->now, r->seat[i].next))
            ask(r, i, e, out);
        next = tl__mono_min(next, r->seat[i].next);
    }
    out->until = tl__mono_min(next, end(r));
    if (tl__mono_before(next, end(r)) && tl__mono_before(e->now, next))
        out->slack_ns = tl__ns_until(next, end(r)) / SLACK_PARTS;
    return TL_GO;
}

/* ---- answers --------------------------------------------------------------------------------- */

static void at_risk(tl_quorum_renewal *r, tl_out *out) {
    if (!r->at_risk)
        (void)tl__out_note(out, TL_NOTE_AT_RISK, TL_NOT_LOST);
    r->at_risk = true;
}

static void all_well(tl_quorum_renewal *r, const tl_event *e, tl_out *out) {
    for (unsigned i = 0; i < r->ballots.count; i++)
        if (r->seat[i].failures > 0 || !tl__mono_before(e->now, r->ballots.until[i]))
            return;
    if (r->at_risk)
        (void)tl__out_note(out, TL_NOTE_HELD, TL_NOT_LOST);
    r->at_risk = false;
}

static void kept(tl_quorum_renewal *r, unsigned i, const tl_event *e, tl_out *out) {
    uint8_t bit = (uint8_t)(1U << i);
    tl_quorum_seat *s = &r->seat[i];
    out->renewed = true;
    out->renewal_of = (uint8_t)i;
    r->ballots.until[i] = s->attempt.result.deadline;
    r->ballots.doubted &= (uint8_t)~bit;
    r->gone &= (uint8_t)~bit;
    r->taken &= (uint8_t)~bit;
    s->failures = 0;
    s->bound = true;
    plan(r, i, e->now);
    all_well(r, e, out);
}

/* Where K is nobody's the vote is asked for again, at once. */
static void not_ours(tl_quorum_renewal *r, unsigned i, tl_lost_why why) {
    uint8_t bit = (uint8_t)(1U << i);
    if (GUARD(lost_vote_is_not_counted))
        r->ballots.until[i] = (tl_mono){0};
    r->ballots.doubted &= (uint8_t)~bit;
    r->gone |= why == TL_LOST_GONE ? bit : 0;
    r->taken |= why == TL_LOST_TAKEN ? bit : 0;
}

static void taken(tl_quorum_renewal *r, unsigned i, const tl_event *e, tl_out *out) {
    not_ours(r, i, TL_LOST_TAKEN);
    tl__out_words(out, TL_LITERAL("another holds it"));
    tl__out_place(out, e->replied.place);
}

static void missed(tl_quorum_renewal *r, unsigned i, const tl_event *e, tl_out *out) {
    tl_quorum_seat *s = &r->seat[i];
    const tl_result *answer = &s->attempt.result;
    bool gone = tl__result_lost(answer).why == TL_LOST_GONE;
    out->missed = true;
    out->renewal_of = (uint8_t)i;
    if (GUARD(missed_at_risk))
        at_risk(r, out);
    if (answer->code == TL_ELOST)
        not_ours(r, i, answer->lost.why);
    else if (answer->code == TL_EBUSY)
        taken(r, i, e, out);
    else if (s->voting && !answer->maybe)
        r->ballots.doubted &= (uint8_t) ~(1U << i);
    s->failures++;
    tl_mono again = tl__renew_again(e->now, end(r), s->failures, &r->random);
    s->next = gone ? e->now : again;
}

static int whose(const tl_quorum_renewal *r, const tl_event *e) {
    for (unsigned i = 0; i < r->ballots.count; i++)
        if (r->seat[i].ticket != 0 && r->seat[i].ticket == e->asked.ticket)
            return (int)i;
    return -1;
}

/* An answer after the deadline changes nothing: the lock has been called lost by then. So whatever vote is counted anew
 * a majority of others has been there all the time. */
static tl_status on_answer(tl_quorum_renewal *r, const tl_event *e, tl_out *out) {
    int i = whose(r, e);
    if (GUARD(late_answer_is_nothing) && is_over(r, e))
        return over(r, e, out);
    if (i < 0)
        return go_on(r, e, out);
    tl_quorum_seat *s = &r->seat[i];
    build(r, s, e);
    if (tl__quorum_step(&s->attempt, &r->child, (unsigned)i, e, out) != TL_END)
        return go_on(r, e, out);
    s->ticket = 0;
    if (s->attempt.result.code == TL_OK)
        kept(r, (unsigned)i, e, out);
    else
        missed(r, (unsigned)i, e, out);
    return go_on(r, e, out);
}

static void on_wake(tl_quorum_renewal *r, const tl_event *e) {
    tl_quorum_seat *s = &r->seat[e->from];
    if (s->ticket != 0)
        s->again = true;
    else
        s->next = e->now;
}

void tl__quorum_renew_extended(tl_quorum_renewal *r, int64_t ttl_ms, const tl_ballots *ballots,
                               tl_mono now) {
    uint8_t doubted = r->ballots.doubted; /* what it has asked for since the extension began */
    r->job.ttl_ms = ttl_ms;
    r->ballots = *ballots;
    if (GUARD(doubt_outlasts_extension))
        r->ballots.doubted |= doubted;
    r->result.deadline = tl__ballots_deadline(ballots);
    r->mended = r->mended || r->at_risk;
    r->at_risk = false;
    r->gone = r->taken = 0;
    for (unsigned i = 0; i < ballots->count; i++) {
        r->seat[i].ticket = 0;
        r->seat[i].failures = 0;
        plan(r, i, now);
    }
}

tl_status tl__quorum_renew_step(void *machine, const tl_event *e, tl_out *out) {
    tl_quorum_renewal *r = machine;
    switch (e->kind) {
    case TL_START:
        for (unsigned i = 0; i < r->ballots.count; i++)
            plan(r, i, e->now);
        break;
    case TL_REPLY:
    case TL_FAILED: return on_answer(r, e, out);
    case TL_WOKEN: on_wake(r, e); break;
    case TL_CANCEL: return TL_END;
    default: break;
    }
    return go_on(r, e, out);
}
