/*
 * Extending and releasing a lock of a majority. A request without an answer is asked again, which is safe, as both
 * compare the token. It must never call a lock extended but by a majority, nor released while another could not have it.
 */
#include "protocol/quorum_settle.h"

#include "ground/assert.h"
#include "ground/guard.h"

void tl__quorum_settle_init(tl_quorum_settlement *s, const tl_job *job, const tl_ballots *ballots,
                            tl_op op, uint64_t seed) {
    TL_ASSERT(op == TL_RENEW || op == TL_RELEASE);
    *s = (tl_quorum_settlement){
        .job = *job, .ballots = *ballots, .result = {.op = (uint8_t)op}, .grace = TL_NEVER};
    s->retry.random = tl__random_begin(seed);
    s->job.protocol = &tl__protocol_quorum;
    s->job.release.silent = false;
}

/* ---- counting -------------------------------------------------------------------------------- */

typedef struct {
    unsigned good;      /* extended, or released by us */
    unsigned taken;     /* another's */
    unsigned not_ours;  /* that, or nobody's */
    unsigned lost;      /* of these, those that have voted */
    unsigned denied;    /* will be the same next time */
    unsigned undecided; /* not answered yet */
    bool maybe;         /* of those some may have taken effect */
    tl_err why;         /* denied */
} tally;

static bool is_gone(tl_err code) {
    return code == TL_ELOST || code == TL_EEXPIRED || code == TL_ETAKEN;
}

static bool is_good(const tl_quorum_settlement *s, const tl_quorum_plea *p) {
    return p->code == TL_OK ||
           tl__settle_has_worked((tl_op)s->result.op, p->code, p->maybe, s->in_time);
}

static tally count(const tl_quorum_settlement *s) {
    tally t = {0};
    for (unsigned i = 0; i < s->ballots.count; i++) {
        const tl_quorum_plea *p = &s->plea[i];
        t.undecided += !p->done;
        t.maybe = t.maybe || (!p->done && (p->maybe || p->ticket != 0));
        if (!p->done)
            continue;
        bool good = is_good(s, p), gone = !good && is_gone(p->code);
        t.good += good;
        t.not_ours += gone;
        t.lost += gone && s->voted & 1U << i;
        t.taken += gone && (p->code == TL_ETAKEN ||
                            tl__result_lost(&p->attempt.result).why == TL_LOST_TAKEN);
        t.denied += !good && !gone;
        t.why = !good && !gone ? p->code : t.why;
    }
    return t;
}

/* Released by a majority; or a majority had it until now, and is free. */
static bool is_settled(const tl_quorum_settlement *s, const tally *t) {
    unsigned q = tl__quorum_of(s->ballots.count), voted = tl__quorum_bits(s->voted);
    if (t->good >= q || s->result.op == TL_RENEW)
        return t->good >= (GUARD(extended_by_majority) ? q : 1);
    return s->in_time && (t->good + t->not_ours >= q || !GUARD(majority_is_free)) &&
           (t->lost + q <= voted || !GUARD(majority_had_it));
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void build(tl_quorum_settlement *s, unsigned i, const tl_event *e) {
    s->child = s->job;
    s->child.release.in_vain = GUARD(door_is_shut) ? s->ballots.doubted & 1U << i : false;
    if (s->plea[i].voting)
        tl__quorum_ask_again(&s->child, e, s->ballots.count);
}

/* Do others hold it by what they have said? Then nobody else can have it, and a vote that is missing may be asked for. */
static bool is_believed(const tl_quorum_settlement *s, tl_mono now) {
    return tl__mono_before(now, tl__ballots_deadline(&s->ballots));
}

/* What may have come already is found by asking to keep it. */
static bool wants_vote(const tl_quorum_settlement *s, unsigned i, tl_mono now) {
    return GUARD(extension_asks_missing) && s->result.op == TL_RENEW &&
           s->ballots.until[i].ns == 0 && !(s->ballots.doubted & 1U << i) && is_believed(s, now);
}

static void ask(tl_quorum_settlement *s, unsigned i, const tl_event *e, tl_out *out) {
    tl_quorum_plea *p = &s->plea[i];
    s->ticket += s->ticket == UINT16_MAX ? 2 : 1; /* never 0 */
    p->ticket = s->ticket;
    p->next = TL_NEVER;
    p->voting = wants_vote(s, i, e->now);
    s->ballots.doubted |= (uint8_t)(p->voting << i);
    build(s, i, e);
    tl_op op = p->voting ? TL_ACQUIRE : (tl_op)s->result.op;
    (void)tl__quorum_begin(&p->attempt, &s->child, op, p->ticket, s->retry.limit, i, e,
                           out); /* it doesn't end here */
}

static tl_status go_on(tl_quorum_settlement *s, const tl_event *e, tl_out *out) {
    tl_mono next = tl__mono_min(s->grace, s->retry.limit);
    for (unsigned i = 0; i < s->ballots.count; i++) {
        if (out->sends == 0 && !tl__mono_before(e->now, s->plea[i].next))
            ask(s, i, e, out);
        next = tl__mono_min(next, s->plea[i].next);
    }
    out->until = next;
    return TL_GO;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* The caller is told; what was not answered is asked for in the background. */
static tl_status leave(tl_quorum_settlement *s, const tl_event *e, tl_err code, bool maybe,
                       tl_out *out) {
    bool open = count(s).undecided > 0;
    out->sends = 0;
    out->until = TL_NEVER;
    if (!s->detached) {
        s->result.code = code;
        s->result.maybe = maybe;
        s->result.deadline = code == TL_OK ? tl__ballots_deadline(&s->ballots) : (tl_mono){0};
    }
    if (s->detached || !open || s->result.op != TL_RELEASE)
        return TL_END;
    s->detached = true;
    s->retry.limit = s->end;
    s->grace = TL_NEVER;
    for (unsigned i = 0; i < s->ballots.count; i++) {
        tl_quorum_plea *p = &s->plea[i];
        p->maybe = p->maybe || p->ticket != 0;
        p->ticket = 0;
        p->next = p->done ? TL_NEVER : e->now;
    }
    out->until = e->now;
    return TL_DETACH;
}

/* Time is up without an answer of a majority. */
static tl_status run_out(tl_quorum_settlement *s, const tl_event *e, tl_out *out) {
    bool maybe = count(s).maybe || count(s).good > 0;
    tl__retry_report(&s->retry, out);
    return leave(s, e, maybe ? TL_EUNCERTAIN : TL_EUNAVAILABLE, maybe, out);
}

static tl_status not_ours(tl_quorum_settlement *s, const tl_event *e, const tally *t, tl_out *out) {
    bool taken = t->taken >= tl__quorum_of(s->ballots.count);
    tl__out_words(out, taken ? TL_LITERAL("another holds it")
                             : TL_LITERAL("a majority of the servers doesn't hold it any more"));
    if (s->result.op == TL_RELEASE)
        return leave(s, e, taken ? TL_ETAKEN : TL_EEXPIRED, false, out);
    s->result.lost = (tl_lost){.why = taken ? TL_LOST_TAKEN : TL_LOST_GONE};
    return leave(s, e, TL_ELOST, false, out);
}

static bool waits(tl_quorum_settlement *s, const tl_event *e) {
    if (s->grace.ns == TL_NEVER.ns)
        s->grace = tl__quorum_grace(s->retry.began, e->now);
    return tl__mono_before(e->now, s->grace) && tl__mono_before(e->now, s->retry.limit);
}

static void blame(tl_quorum_settlement *s, const tl_event *e, tl_err code, const char *message) {
    char room[TL_WORDS_SIZE];
    tl__retry_blame(&s->retry, e, code, tl__quorum_message(room, s->ballots.count, message));
}

/* What ran out before enough others had answered is asked for again; of no use is a vote where others hold it no more. */
static void run_down(tl_quorum_settlement *s, const tl_event *e) {
    for (unsigned i = 0; i < s->ballots.count && s->result.op == TL_RENEW; i++) {
        tl_quorum_plea *p = &s->plea[i];
        if (!p->done && p->voting && !is_believed(s, e->now)) {
            p->done = true;
            p->code = TL_ELOST;
            p->ticket = 0;
            p->next = TL_NEVER;
        }
        if (!p->done || p->code != TL_OK || tl__mono_before(e->now, s->ballots.until[i]))
            continue;
        p->done = false;
        p->maybe = true;
        p->next = e->now;
        blame(s, e, TL_EUNAVAILABLE, "confirmed too late");
    }
}

/* Is it decided? A majority that is extended must still be good for something. */
static tl_status judge(tl_quorum_settlement *s, const tl_event *e, tl_out *out) {
    if (GUARD(late_vote_asked_again))
        run_down(s, e);
    tally t = count(s);
    unsigned q = tl__quorum_of(s->ballots.count), rest = s->ballots.count - q;
    if (s->detached && t.undecided == 0)
        return TL_END;
    bool good = is_settled(s, &t), decided = !s->detached && (good || t.not_ours > rest);
    if (decided && (t.undecided == 0 || !waits(s, e)))
        return good ? leave(s, e, TL_OK, false, out) : not_ours(s, e, &t, out);
    if (!decided)
        s->grace = TL_NEVER;
    if (!s->detached && !decided && t.undecided == 0) {
        tl__retry_report(&s->retry, out);
        return leave(s, e, t.why, t.good > 0, out);
    }
    if (!tl__mono_before(e->now, s->retry.limit))
        return run_out(s, e, out);
    return go_on(s, e, out);
}

/* ---- events ---------------------------------------------------------------------------------- */

/* An extension: what it has come to at this server. true: there is more to ask it, at once. */
static bool noted(tl_quorum_settlement *s, unsigned i, const tl_event *e) {
    tl_quorum_plea *p = &s->plea[i];
    const tl_result *r = &p->attempt.result;
    uint8_t bit = (uint8_t)(1U << i);
    /* Others may have had it meanwhile. */
    bool late = GUARD(late_vote_is_left) && p->voting && !is_believed(s, e->now);
    if (p->voting && r->code == TL_EBUSY)
        p->code = TL_ETAKEN;
    if (r->code == TL_OK && late)
        p->code = TL_ELOST; /* its vote is left to the release */
    if (p->code == TL_OK)
        s->ballots.until[i] = r->deadline;
    else if (is_gone(p->code))
        s->ballots.until[i] = (tl_mono){0};
    if (p->code == TL_OK || (is_gone(p->code) && !late) || (p->voting && !late && !r->maybe))
        s->ballots.doubted &= (uint8_t)~bit;
    bool gone = tl__result_lost(r).why == TL_LOST_GONE;
    return gone && !p->voting && wants_vote(s, i, e->now);
}

static void ended(tl_quorum_settlement *s, unsigned i, const tl_event *e, const tl_out *out) {
    tl_quorum_plea *p = &s->plea[i];
    const tl_result *r = &p->attempt.result;
    p->ticket = 0;
    if (tl__settle_is_final((tl_op)s->result.op, r, e->now)) {
        p->code = r->code;
        p->done = s->result.op == TL_RELEASE || !noted(s, i, e);
        if (!p->done)
            p->next = e->now;
        else if (!is_good(s, p) && !is_gone(p->code))
            blame(s, e, p->code, out->words);
        return;
    }
    p->maybe = p->maybe || r->maybe || r->code == TL_OK;
    blame(s, e, TL_EUNAVAILABLE, r->code == TL_OK ? "confirmed too late" : out->words);
    p->next = tl__retry_after(&s->retry, e->now, false);
}

static tl_status on_answer(tl_quorum_settlement *s, const tl_event *e, tl_out *out) {
    for (unsigned i = 0; i < s->ballots.count; i++) {
        tl_quorum_plea *p = &s->plea[i];
        if (p->ticket == 0 || p->ticket != e->asked.ticket)
            continue;
        build(s, i, e);
        if (tl__quorum_step(&p->attempt, &s->child, i, e, out) == TL_END)
            ended(s, i, e, out);
        break;
    }
    return judge(s, e, out);
}

static tl_status begin(tl_quorum_settlement *s, const tl_event *e, tl_out *out) {
    s->retry.began = e->now;
    TL_ASSERT(e->servers && s->retry.limit.ns == 0);
    s->retry.limit = tl__mono_add_ms(e->now, s->job.attempt_ms);
    s->end = tl__retry_cleans_until(&s->job, s->job.hold.believed, e->now, e->servers->drift_ppm);
    s->in_time = tl__mono_before(e->now, s->job.hold.believed);
    for (unsigned i = 0; i < s->ballots.count; i++) {
        s->plea[i].next = e->now;
        s->voted |= (uint8_t)(tl__mono_before(e->now, s->ballots.until[i]) << i);
    }
    return judge(s, e, out);
}

tl_status tl__quorum_settle_step(void *machine, const tl_event *e, tl_out *out) {
    tl_quorum_settlement *s = machine;
    switch (e->kind) {
    case TL_START: return begin(s, e, out);
    case TL_REPLY:
    case TL_FAILED: return on_answer(s, e, out);
    case TL_CANCEL: tl__retry_say(&s->retry, TL_LITERAL("cancelled")); return run_out(s, e, out);
    default: return judge(s, e, out);
    }
}
