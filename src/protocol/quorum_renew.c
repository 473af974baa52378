/*
 * Renewing a lock of a majority. Each server's vote is renewed separately, at a third of its validity. The
 * machine must report LOST no later than the majority's deadline, or as soon as fewer than a majority are
 * left. A lost vote may count again only while a majority without it has held the lock all the time. While
 * the holder gives no sign of life the machine begins no renewal, and the deadline does not move.
 *
 * A server that restarted may have forgotten another client's vote, which that one still counts. So it gives its vote to
 * the holder, too, only quiet_ms later. Else the holder could give up a third server's vote for it, and the other client,
 * whose request to that one is in flight, would have a majority.
 */
#include "protocol/quorum_renew.h"

#include "ground/guard.h"

#define SLACK_PARTS 256      /* a renewal may be late by this part of what is left then */
#define MISSING_NS 100000000 /* a missing vote is asked for by then */

void tl__quorum_renew_init(tl_quorum_renewal *renewal, const tl_job *job, const tl_ballots *ballots,
                           tl_mono hold, bool by_hand, uint64_t seed) {
    *renewal = (tl_quorum_renewal){
        .job = *job, .ballots = *ballots, .hold = hold, .by_hand = by_hand, .stalls = TL_NEVER};
    renewal->random = tl__random_begin(seed);
    renewal->job.protocol = &tl__protocol_quorum;
    renewal->result = (tl_result){.op = TL_RENEW, .deadline = tl__ballots_deadline(ballots)};
    renewal->result.proved = tl__ballots_since(ballots);
}

static tl_mono end(const tl_quorum_renewal *renewal) {
    return tl__mono_min(tl__mono_add_ns(renewal->result.deadline, GUARD(lost_is_early)
                                                                      ? -TL_LOST_EARLY_NS
                                                                      : 20 * TL_LOST_EARLY_NS),
                        renewal->hold);
}

static bool is_over(const tl_quorum_renewal *renewal, const tl_event *event) {
    return !tl__mono_before(event->now, end(renewal));
}

/* Does anything but its owner's calls renew the lock? */
static bool is_renewed(const tl_quorum_renewal *renewal) {
    return !renewal->by_hand && !(renewal->stalled && GUARD(quorum_stall_stops_renewals));
}

/* A missing vote is asked for soon, also one that may have come meanwhile. */
static void plan(tl_quorum_renewal *renewal, unsigned i, tl_mono now) {
    tl_quorum_seat *s = &renewal->seat[i];
    bool has = tl__mono_before(now, renewal->ballots.until[i]);
    int64_t ns = tl__ns_until(now, has ? renewal->ballots.until[i] : renewal->result.deadline) /
                 TL_RENEW_PARTS;
    int64_t most = has ? TL_RENEW_FIRST_NS : MISSING_NS;
    if (((renewal->job.hold.proof.unbound && !s->bound) || !has) && ns > most)
        ns = most;
    tl_mono next = tl__mono_add_ns(now, s->again ? 0 : ns);
    s->next = is_renewed(renewal) || (s->again && renewal->stalled) ? next : TL_NEVER;
    s->again = false;
}

/* ---- disruptions ----------------------------------------------------------------------------- */

/* As in renew.c. Only votes that were asked for after the disruption count, and a majority of them ends the
 * doubt. */
static tl_mono proved_deadline(const tl_quorum_renewal *renewal) {
    const tl_ballots proved = tl__ballots_proved(&renewal->ballots, renewal->job.hold.disrupted);
    return tl__ballots_deadline(GUARD(votes_before_disruption) ? &proved : &renewal->ballots);
}

static bool is_in_doubt(const tl_quorum_renewal *renewal) {
    return proved_deadline(renewal).ns == 0;
}

/* All servers are asked at once. Each counts as failed, so that the risk ends when all have answered. */
static void ask_all(tl_quorum_renewal *renewal, tl_mono now) {
    for (unsigned i = 0; i < renewal->ballots.count; i++) {
        tl_quorum_seat *s = &renewal->seat[i];
        s->failures += s->failures == 0;
        s->again = s->again || s->ticket != 0;
        if (s->ticket == 0)
            s->next = now;
    }
}

static void look_for_disruption(tl_quorum_renewal *renewal, const tl_event *event, tl_out *out) {
    tl_mono doubted = is_in_doubt(renewal) ? renewal->job.hold.disrupted : (tl_mono){0};
    bool begins = doubted.ns != 0 && doubted.ns != renewal->doubted.ns && !is_over(renewal, event);
    renewal->doubted = doubted;
    if (!begins)
        return;
    renewal->mended = false;
    if (!renewal->at_risk)
        (void)tl__out_note(out, TL_NOTE_AT_RISK, TL_RISK_DISRUPTED);
    renewal->at_risk = true;
    if (is_renewed(renewal) && GUARD(disruption_renews_votes))
        ask_all(renewal, event->now);
}

/* ---- the end --------------------------------------------------------------------------------- */

static tl_status end_with(tl_quorum_renewal *renewal, tl_lost_why why, tl_out *out) {
    out->sends = 0;
    renewal->result.code = TL_ELOST;
    renewal->result.lost.why = why;
    (void)tl__out_note(out, TL_NOTE_LOST, why);
    return TL_END;
}

static tl_status over(tl_quorum_renewal *renewal, const tl_event *event, tl_out *out) {
    unsigned not_ours = tl__quorum_bits(renewal->gone | renewal->taken),
             count = renewal->ballots.count;
    tl_lost_why why = renewal->stalled ? TL_LOST_STALLED : TL_LOST_EXPIRED;
    if (!tl__mono_before(event->now, renewal->hold))
        why = TL_LOST_MAX_HOLD;
    else if (not_ours > count - tl__quorum_of(count))
        why = renewal->taken ? TL_LOST_TAKEN : TL_LOST_GONE;
    if (renewal->doubted.ns != 0 && why != TL_LOST_MAX_HOLD)
        why = TL_LOST_DISRUPTED;
    return end_with(renewal, why, out);
}

/* ---- signs of life --------------------------------------------------------------------------- */

static void stall(tl_quorum_renewal *renewal, tl_out *out) {
    renewal->mended = false;
    if (!renewal->at_risk)
        (void)tl__out_note(out, TL_NOTE_AT_RISK, TL_RISK_STALLED);
    renewal->at_risk = true;
    for (unsigned i = 0; i < renewal->ballots.count; i++)
        if (GUARD(quorum_stall_stops_renewals))
            renewal->seat[i].next = TL_NEVER;
}

/* All servers are asked at once. Each counts as failed, so that the risk ends when all have answered. */
static void revive(tl_quorum_renewal *renewal, tl_mono now) {
    for (unsigned i = 0; i < renewal->ballots.count; i++) {
        tl_quorum_seat *s = &renewal->seat[i];
        s->failures += s->failures == 0;
        if (s->ticket == 0 && GUARD(quorum_life_renews))
            s->next = now;
    }
}

/* As in renew.c: each step looks before it does anything else. */
static void look_for_life(tl_quorum_renewal *renewal, const tl_event *event, tl_out *out) {
    bool stalled = !tl__mono_before(event->now, renewal->stalls);
    if (stalled == renewal->stalled || is_over(renewal, event))
        return;
    renewal->stalled = stalled;
    if (stalled)
        stall(renewal, out);
    else
        revive(renewal, event->now);
}

/* While the lock is stalled the votes may last longer, but the hold doesn't. */
static tl_mono deadline(const tl_quorum_renewal *renewal) {
    tl_mono voted = is_in_doubt(renewal) ? tl__ballots_deadline(&renewal->ballots)
                                         : proved_deadline(renewal);
    return renewal->stalled && GUARD(quorum_stall_keeps_deadline)
               ? tl__mono_min(voted, renewal->result.deadline)
               : voted;
}

static void plan_look(const tl_quorum_renewal *renewal, const tl_event *event, tl_out *out) {
    tl_mono look = renewal->stalled ? tl__stall_look_at(event->now, end(renewal)) : renewal->stalls;
    int64_t slack_ns = tl__ns_until(event->now, look) / SLACK_PARTS;
    if (!tl__mono_before(look, out->until))
        return;
    out->until = look;
    if (out->slack_ns > slack_ns)
        out->slack_ns = slack_ns;
}

/* ---- sending --------------------------------------------------------------------------------- */

/* Make the job of a request; it is the same for each step of the request. */
static void build(tl_quorum_renewal *renewal, const tl_quorum_seat *s, const tl_event *event) {
    renewal->child = renewal->job;
    renewal->child.hold.believed = renewal->result.deadline;
    if (s->voting)
        tl__quorum_ask_again(&renewal->child, event, renewal->ballots.count);
}

static void ask(tl_quorum_renewal *renewal, unsigned i, const tl_event *event, tl_out *out) {
    tl_quorum_seat *s = &renewal->seat[i];
    tl_mono by = tl__renew_by(event->now, end(renewal), renewal->job.attempt_ms);
    unsigned bit = 1U << i;
    s->voting = GUARD(gone_is_asked) && renewal->ballots.until[i].ns == 0 &&
                !(renewal->ballots.doubted & bit) && !is_in_doubt(renewal);
    s->next = TL_NEVER;
    s->again = false;
    renewal->ticket += renewal->ticket == UINT16_MAX ? 2 : 1; /* never 0 */
    s->ticket = renewal->ticket;
    if (s->voting)
        renewal->ballots.doubted |= (uint8_t)bit;
    build(renewal, s, event);
    (void)tl__quorum_begin(&s->attempt, &renewal->child, s->voting ? TL_ACQUIRE : TL_RENEW,
                           s->ticket, by, i, event, out); /* it doesn't end here */
}

static tl_status go_on(tl_quorum_renewal *renewal, const tl_event *event, tl_out *out) {
    const tl_ballots proved = tl__ballots_proved(&renewal->ballots, renewal->job.hold.disrupted);
    renewal->result.deadline = deadline(renewal);
    renewal->result.proved = tl__ballots_since(is_in_doubt(renewal) ? &renewal->ballots : &proved);
    if (is_over(renewal, event))
        return over(renewal, event, out);
    if (renewal->mended)
        (void)tl__out_note(out, TL_NOTE_HELD, TL_NOT_LOST);
    renewal->mended = false;
    tl_mono next = TL_NEVER;
    for (unsigned i = 0; i < renewal->ballots.count; i++) {
        if (out->sends == 0 && !tl__mono_before(event->now, renewal->seat[i].next))
            ask(renewal, i, event, out);
        next = tl__mono_min(next, renewal->seat[i].next);
    }
    out->until = tl__mono_min(next, end(renewal));
    if (tl__mono_before(next, end(renewal)) && tl__mono_before(event->now, next))
        out->slack_ns = tl__ns_until(next, end(renewal)) / SLACK_PARTS;
    plan_look(renewal, event, out);
    return TL_GO;
}

/* ---- replies --------------------------------------------------------------------------------- */

static void at_risk(tl_quorum_renewal *renewal, tl_out *out) {
    if (!renewal->at_risk)
        (void)tl__out_note(out, TL_NOTE_AT_RISK, TL_NOT_LOST);
    renewal->at_risk = true;
}

static void all_well(tl_quorum_renewal *renewal, const tl_event *event, tl_out *out) {
    for (unsigned i = 0; i < renewal->ballots.count; i++)
        if (renewal->seat[i].failures > 0 ||
            !tl__mono_before(event->now, renewal->ballots.until[i]))
            return;
    if ((renewal->stalled && GUARD(quorum_stalled_is_not_held)) || is_in_doubt(renewal))
        return;
    if (renewal->at_risk)
        (void)tl__out_note(out, TL_NOTE_HELD, TL_NOT_LOST);
    renewal->at_risk = false;
}

static void kept(tl_quorum_renewal *renewal, unsigned i, const tl_event *event, tl_out *out) {
    uint8_t bit = (uint8_t)(1U << i);
    tl_quorum_seat *s = &renewal->seat[i];
    out->renewed = true;
    out->renewal_of = (uint8_t)i;
    renewal->ballots.until[i] = s->attempt.result.deadline;
    renewal->ballots.proved[i] = s->attempt.result.proved;
    renewal->ballots.doubted &= (uint8_t)~bit;
    renewal->gone &= (uint8_t)~bit;
    renewal->taken &= (uint8_t)~bit;
    s->failures = 0;
    s->bound = true;
    plan(renewal, i, event->now);
    if (is_renewed(renewal) &&
        tl__is_disrupted(renewal->ballots.proved[i], renewal->job.hold.disrupted))
        s->next = event->now;
    all_well(renewal, event, out);
}

/* The server's vote no longer counts. Where K is nobody's, missed() asks for the vote again at once. */
static void not_ours(tl_quorum_renewal *renewal, unsigned i, tl_lost_why why) {
    uint8_t bit = (uint8_t)(1U << i);
    if (GUARD(lost_vote_is_not_counted))
        renewal->ballots.until[i] = (tl_mono){0};
    renewal->ballots.doubted &= (uint8_t)~bit;
    renewal->gone |= why == TL_LOST_GONE ? bit : 0;
    renewal->taken |= why == TL_LOST_TAKEN ? bit : 0;
}

static void taken(tl_quorum_renewal *renewal, unsigned i, const tl_event *event, tl_out *out) {
    not_ours(renewal, i, TL_LOST_TAKEN);
    tl__out_message(out, TL_LITERAL("another holds it"));
    tl__out_place(out, event->replied.place);
}

static void missed(tl_quorum_renewal *renewal, unsigned i, const tl_event *event, tl_out *out) {
    tl_quorum_seat *s = &renewal->seat[i];
    const tl_result *answer = &s->attempt.result;
    bool gone = tl__result_lost(answer).why == TL_LOST_GONE;
    out->missed = true;
    out->renewal_of = (uint8_t)i;
    if (GUARD(missed_at_risk))
        at_risk(renewal, out);
    if (answer->code == TL_ELOST)
        not_ours(renewal, i, answer->lost.why);
    else if (answer->code == TL_EBUSY)
        taken(renewal, i, event, out);
    else if (s->voting && !answer->maybe)
        renewal->ballots.doubted &= (uint8_t) ~(1U << i);
    s->failures++;
    tl_mono again = tl__renew_again(event->now, end(renewal), s->failures, &renewal->random);
    if (s->voting && answer->code == TL_EUNAVAILABLE && answer->acquire.hint.ns != TL_NEVER.ns)
        again = answer->acquire.hint; /* the server gives votes again */
    s->next = !is_renewed(renewal) && renewal->stalled ? TL_NEVER : gone ? event->now : again;
}

static int whose(const tl_quorum_renewal *renewal, const tl_event *event) {
    for (unsigned i = 0; i < renewal->ballots.count; i++)
        if (renewal->seat[i].ticket != 0 && renewal->seat[i].ticket == event->asked.ticket)
            return (int)i;
    return -1;
}

/* A reply after the deadline changes nothing: the lock has been reported as lost by then. So whenever a vote
 * counts again, a majority of the others has held the lock all the time. */
static tl_status on_answer(tl_quorum_renewal *renewal, const tl_event *event, tl_out *out) {
    int i = whose(renewal, event);
    if (GUARD(late_answer_is_nothing) && is_over(renewal, event))
        return over(renewal, event, out);
    if (i < 0)
        return go_on(renewal, event, out);
    tl_quorum_seat *s = &renewal->seat[i];
    build(renewal, s, event);
    if (tl__quorum_step(&s->attempt, &renewal->child, (unsigned)i, event, out) != TL_END)
        return go_on(renewal, event, out);
    s->ticket = 0;
    if (s->attempt.result.code == TL_OK)
        kept(renewal, (unsigned)i, event, out);
    else
        missed(renewal, (unsigned)i, event, out);
    return go_on(renewal, event, out);
}

static void on_wake(tl_quorum_renewal *renewal, const tl_event *event) {
    tl_quorum_seat *s = &renewal->seat[event->from];
    if (s->ticket != 0)
        s->again = true;
    else
        s->next = event->now;
}

void tl__quorum_renew_extended(tl_quorum_renewal *renewal, int64_t ttl_ms,
                               const tl_ballots *ballots, tl_mono now) {
    uint8_t doubted =
        renewal->ballots.doubted; /* votes that it has requested since the extension began */
    renewal->job.ttl_ms = ttl_ms;
    renewal->ballots = *ballots;
    if (GUARD(doubt_outlasts_extension))
        renewal->ballots.doubted |= doubted;
    renewal->result.deadline = tl__ballots_deadline(ballots);
    renewal->mended = renewal->mended || renewal->at_risk;
    renewal->at_risk = renewal->stalled = false;
    renewal->gone = renewal->taken = 0;
    for (unsigned i = 0; i < ballots->count; i++) {
        renewal->seat[i].ticket = 0;
        renewal->seat[i].failures = 0;
        plan(renewal, i, now);
    }
}

tl_status tl__quorum_renew_step(void *machine, const tl_event *event, tl_out *out) {
    tl_quorum_renewal *renewal = machine;
    if (event->kind != TL_CANCEL && renewal->job.hold.copied && GUARD(copy_loses_votes))
        return end_with(renewal, TL_LOST_DISRUPTED, out);
    if (event->kind != TL_CANCEL) {
        look_for_life(renewal, event, out);
        look_for_disruption(renewal, event, out);
    }
    switch (event->kind) {
    case TL_START:
        for (unsigned i = 0; i < renewal->ballots.count; i++)
            plan(renewal, i, event->now);
        break;
    case TL_REPLY:
    case TL_FAILED: return on_answer(renewal, event, out);
    case TL_WOKEN: on_wake(renewal, event); break;
    case TL_CANCEL: return TL_END;
    default: break;
    }
    return go_on(renewal, event, out);
}
