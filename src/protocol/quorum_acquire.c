/*
 * Acquiring a lock of a majority. All servers are asked at once, with one proposal for the fencing number. Of several who
 * have got votes and no majority one goes on, whoever has that of the first server; the others give theirs back, without
 * telling anybody, and wait. It must never believe in fewer votes than a majority, nor in a number that stands at fewer,
 * nor leave a vote behind.
 */
#include "protocol/quorum_acquire.h"

#include "ground/assert.h"
#include "ground/guard.h"
#include "protocol/line.h"

#define HELD "another holds it"
#define KEEP_LEAST_MS 1 /* before those are asked again who voted for others */
#define KEEP_MOST_MS 50
#define PATIENCE 20 /* times */
#define ROUNDS 3 /* of which one is the pause; and answers may take twice as long as the last did */

void tl__quorum_acquire_init(tl_quorum_acquisition *a, const tl_job *job, unsigned count,
                             const tl_retry *retry, int64_t wait_ms, int64_t connect_ms,
                             uint64_t seed) {
    TL_ASSERT(count % 2 == 1 && count >= TL_QUORUM_MIN && count <= TL_QUORUM_MAX);
    *a = (tl_quorum_acquisition){.job = *job,
                                 .retry = tl__retry_init(retry, wait_ms, connect_ms, seed),
                                 .count = (uint8_t)count,
                                 .patience = PATIENCE,
                                 .run = 1};
    a->job.protocol = &tl__protocol_quorum;
    a->job.hold.proof = (tl_proof){0};
    a->job.hold.believed = (tl_mono){0};
    for (unsigned i = 0; i < count; i++)
        tl__voter_init(&a->voter[i], &a->job, i);
}

static unsigned majority(const tl_quorum_acquisition *a) {
    return GUARD(more_than_half) ? tl__quorum_of(a->count) : a->count / 2;
}

/* The servers in the order that all agree on for this key. */
static tl_voter *ranked(tl_quorum_acquisition *a, unsigned rank) {
    return &a->voter[(tl__quorum_first(a->job.key, a->count) + rank) % a->count];
}

static unsigned bit(const tl_voter *v) {
    return 1U << v->index;
}

/* ---- votes ----------------------------------------------------------------------------------- */

static bool is_vote(const tl_quorum_acquisition *a, const tl_voter *v, tl_mono now) {
    return v->run == a->run && tl__mono_before(now, v->until);
}

static unsigned votes(const tl_quorum_acquisition *a, tl_mono now) {
    unsigned mask = 0;
    for (unsigned i = 0; i < a->count; i++)
        mask |= is_vote(a, &a->voter[i], now) ? 1U << i : 0;
    return mask;
}

static tl_quorum_fence fence(const tl_quorum_acquisition *a, tl_mono now) {
    uint64_t numbers[TL_QUORUM_MAX];
    for (unsigned i = 0; i < a->count; i++)
        numbers[i] = is_vote(a, &a->voter[i], now) ? a->voter[i].number : 0;
    return tl__quorum_fence(numbers, a->count);
}

/* One that was given back may be refused for good where it was in doubt. */
static void next_token(tl_quorum_acquisition *a) {
    static const char digits[] = "0123456789abcdef";
    char *end = a->job.token.text + strlen(a->job.token.text);
    bool carry = GUARD(token_is_new);
    for (char *at = end - 1; carry && at >= end - 6; at--) {
        const char *d = memchr(digits, *at, 16);
        carry = !d || d == digits + 15;
        *at = d ? digits[(d - digits + 1) % 16] : '0';
    }
    a->run++;
}

static void give_back(tl_quorum_acquisition *a) {
    bool any = false;
    for (unsigned i = 0; i < a->count; i++)
        any = any || (a->voter[i].holds && a->voter[i].run == a->run);
    if (GUARD(others_give_back) && any)
        next_token(a);
    a->keeping = false;
    a->patience = PATIENCE;
}

/* ---- what to ask next ------------------------------------------------------------------------- */

/* Of a token that was given back; and of the last one, unless it has become the hold's. */
static bool is_stale(const tl_quorum_acquisition *a, const tl_voter *v) {
    bool in_vain = a->retry.doing == TL_CLEANS && a->result.code != TL_OK;
    return v->holds && (v->run != a->run || in_vain);
}

static tl_mono ask_by(const tl_quorum_acquisition *a, const tl_event *e) {
    return tl__mono_min(tl__mono_add_ms(e->now, a->job.attempt_ms), a->retry.limit);
}

static void ask(tl_quorum_acquisition *a, tl_voter *v, const tl_event *e, tl_out *out) {
    if (is_stale(a, v))
        tl__voter_drop(v, ++a->ticket, ask_by(a, e), e, out);
    else if (!(a->reached & bit(v)))
        tl__voter_reach(v, ++a->ticket, ask_by(a, e), out);
    else
        tl__voter_ask(v, ++a->ticket, &a->job.token, a->run, a->least, a->retry.limit, e, out);
}

/* Is this server to be asked anything now? */
static bool is_due(const tl_quorum_acquisition *a, const tl_voter *v) {
    if ((GUARD(one_request_each) && v->doing != TL_VOTER_IDLE) || a->skipped & bit(v))
        return false;
    return is_stale(a, v) || (a->retry.doing == TL_ASKS && a->wanted & bit(v) &&
                              (a->least > 0 || !(a->reached & bit(v))));
}

static tl_mono wakes(const tl_quorum_acquisition *a) {
    return a->retry.doing == TL_ASKS ? a->grace : tl__retry_wakes(&a->retry);
}

/* A step asks one server; for the next it is called again at once. */
static tl_status go_on(tl_quorum_acquisition *a, const tl_event *e, tl_out *out) {
    bool more = false;
    for (unsigned rank = 0; rank < a->count; rank++) {
        tl_voter *v = ranked(a, rank);
        bool due = is_due(a, v);
        more = more || (due && out->sends > 0);
        if (due && out->sends == 0)
            ask(a, v, e, out);
    }
    out->until = more ? e->now : wakes(a);
    return TL_GO;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Something to take back. */
static bool is_left(const tl_quorum_acquisition *a) {
    for (unsigned i = 0; i < a->count; i++)
        if (is_stale(a, &a->voter[i]))
            return true;
    return false;
}

static void abandon_all(tl_quorum_acquisition *a) {
    for (unsigned i = 0; i < a->count; i++)
        tl__voter_abandon(&a->voter[i]);
}

/* The caller has his result; what was left behind is taken back in the background. */
static tl_status end(tl_quorum_acquisition *a, const tl_event *e, tl_out *out) {
    tl__retry_clean(&a->retry, &a->job, e->now, e->servers->drift_ppm);
    out->sends = 0;
    out->until = TL_NEVER;
    if (!is_left(a) || (a->result.code == TL_OK && !GUARD(former_taken_back)))
        return TL_END;
    a->skipped = 0;
    a->retry.next = TL_NEVER;
    out->until = e->now;
    return TL_DETACH;
}

/* Others may have seen a majority for it, and sleep until that would expire: they are told. */
static tl_status give_up(tl_quorum_acquisition *a, const tl_event *e, tl_err code, tl_out *out) {
    abandon_all(a);
    for (unsigned i = 0; i < a->count; i++)
        a->voter[i].job.release.silent = !GUARD(given_up_is_told);
    a->result = (tl_result){.code = code};
    tl__retry_report(&a->retry, out);
    tl_status status = end(a, e, out);
    a->result.maybe = status == TL_DETACH;
    return status;
}

/* Could what went unanswered have made it a majority? */
static bool is_doubtful(const tl_quorum_acquisition *a, tl_mono now) {
    unsigned mask = votes(a, now);
    for (unsigned i = 0; i < a->count; i++)
        mask |= a->voter[i].doubted ? 1U << i : 0;
    return tl__quorum_bits(mask) >= majority(a);
}

/* While another holds it one of the servers may have failed, or be without an answer: that is not why. */
static tl_status run_out(tl_quorum_acquisition *a, const tl_event *e, tl_out *out) {
    tl_err code = tl__retry_ran_out(&a->retry, is_doubtful(a, e->now));
    if (GUARD(held_is_the_reason) && (code == TL_EBUSY || code == TL_ETIMEDOUT))
        tl__retry_say(&a->retry, TL_LITERAL(HELD));
    return give_up(a, e, code, out);
}

/* A vote that is still on its way the renewal finds; of a token that was given back, nobody else knows. */
static tl_status held(tl_quorum_acquisition *a, const tl_event *e, uint64_t number, tl_out *out) {
    tl_ballots *b = &a->ballots;
    *b = (tl_ballots){.count = a->count};
    for (unsigned i = 0; i < a->count; i++) {
        const tl_voter *v = &a->voter[i];
        bool asked = v->doing == TL_VOTER_VOTING;
        if (is_vote(a, v, e->now))
            b->until[i] = v->until;
        if (v->run == a->run && (v->doubted || asked || (v->holds && !is_vote(a, v, e->now))))
            b->doubted |= (uint8_t)(1U << i);
    }
    a->result = (tl_result){.code = TL_OK,
                            .deadline = tl__ballots_deadline(b),
                            .proof = {.kind = TL_PROOF_TOKEN,
                                      .held_by = 1 + TL_TOKEN,
                                      .doubted = b->doubted != 0,
                                      .unbound = !a->job.acquire.bind},
                            .acquire = {.fence = number}};
    for (unsigned i = 0; i < a->count; i++)
        if (a->voter[i].run != a->run)
            tl__voter_abandon(&a->voter[i]);
    return end(a, e, out);
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static void begin_round(tl_quorum_acquisition *a, const tl_event *e) {
    a->retry.doing = TL_ASKS;
    a->retry.began = e->now;
    a->retry.attempts += !a->retry.extra && !a->keeping;
    a->retry.lasts = false;
    a->grace = TL_NEVER;
    a->least = 0;
    a->keeping = a->raising = false;
    unsigned mine = votes(a, e->now);
    a->wanted = (uint8_t)(((1U << a->count) - 1) & ~mine);
    a->reached = a->replied = (uint8_t)mine;
    a->denied = a->skipped = a->woken = 0;
}

/* How a server that voted, or told whose K is, stands: free from when on. */
static tl_mono free_at(const tl_quorum_acquisition *a) {
    tl_mono free[TL_QUORUM_MAX];
    for (unsigned i = 0; i < a->count; i++) {
        const tl_voter *v = &a->voter[i];
        bool voted = v->run == a->run && v->until.ns > 0;
        free[i].ns = voted ? 0 : v->hint.ns;
    }
    return tl__quorum_free_at(free, a->count);
}

/* Do so many name the same holder that there is one? */
static bool is_held(const tl_quorum_acquisition *a, bool *ret_announced) {
    for (unsigned i = 0; i < a->count; i++) {
        unsigned same = 0, announced = 0;
        for (unsigned j = 0; j < a->count; j++) {
            const tl_voter *v = &a->voter[j];
            bool his = a->replied & 1U << j && v->until.ns == 0 &&
                       v->holder == a->voter[i].holder && v->holder != 0;
            same += his;
            announced += his && v->announced;
        }
        *ret_announced = announced >= majority(a);
        if (same >= majority(a))
            return true;
    }
    return false;
}

/* Of those who have votes and no majority one goes on, or nobody would: who has that of the first server. */
static bool goes_on(tl_quorum_acquisition *a, const tl_event *e) {
    for (unsigned rank = 0; rank < a->count; rank++) {
        const tl_voter *v = ranked(a, rank);
        if (a->replied & bit(v))
            return (is_vote(a, v, e->now) && a->patience > 0) || !GUARD(one_goes_on);
    }
    return false;
}

/* Else the limit comes while votes are on their way, and what a majority has said would be in doubt again. */
static bool has_time(const tl_quorum_acquisition *a, const tl_event *e) {
    int64_t took = tl__ns_until(a->proposed, e->now), least = KEEP_LEAST_MS * TL_NS_PER_MS;
    int64_t all = tl__mul_sat(took > least ? took : least, ROUNDS);
    return tl__mono_before(tl__mono_add_ns(e->now, all), a->retry.limit) ||
           !GUARD(has_time_for_votes);
}

static void listen(tl_quorum_acquisition *a, tl_out *out) {
    if (a->listening)
        return;
    a->listening = true;
    tl__out_listen(out, a->job.sidecar);
}

static tl_status keep_votes(tl_quorum_acquisition *a, const tl_event *e, tl_out *out) {
    int64_t most = tl__ms_until(a->retry.began, e->now);
    if (most < KEEP_LEAST_MS)
        most = KEEP_LEAST_MS;
    if (most > KEEP_MOST_MS)
        most = KEEP_MOST_MS;
    a->patience--;
    a->keeping = true;
    int64_t pause = tl__random_between(&a->retry.random, (most + 1) / 2, most);
    return tl__retry_pause(&a->retry, tl__mono_add_ms(e->now, pause), out);
}

/* Was it called by a majority while it asked, or did listening begin? Then it looks again. */
static bool looks_again(const tl_quorum_acquisition *a) {
    return tl__quorum_bits(a->woken) >= majority(a);
}

/* A majority has answered, and hasn't voted for us. */
static tl_status busy(tl_quorum_acquisition *a, const tl_event *e, tl_out *out) {
    tl_retrier *r = &a->retry;
    bool announced = false, by_one = is_held(a, &announced);
    tl__retry_held(r, TL_LITERAL(HELD), out);
    if (!by_one && goes_on(a, e) && has_time(a, e))
        return keep_votes(a, e, out);
    bool told = by_one && announced && tl__quorum_bits(a->armed) >= majority(a);
    bool again = looks_again(a), in_doubt = is_doubtful(a, e->now);
    tl_mono free = free_at(a);
    give_back(a);
    tl_mono next = r->planned;
    if (!tl__retry_is_planned(r)) {
        int64_t pause = tl__retry_pause_ms(r, e->now);
        if (pause < 0)
            return give_up(a, e, in_doubt ? TL_EUNCERTAIN : TL_EBUSY, out);
        if (r->strategy.kind == TL_RETRY_AUTO)
            pause = tl__retry_auto_ms(r, free, told, e->now);
        next = tl__retry_in_time(r, e->now, tl__mono_add_ms(e->now, pause));
    }
    listen(a, out);
    r->planned = next;
    return tl__retry_pause(r, again ? e->now : next, out);
}

/* ---- failures -------------------------------------------------------------------------------- */

/* Fewer than a majority can be asked. */
static tl_status unreachable(tl_quorum_acquisition *a, const tl_event *e, tl_out *out) {
    if (tl__quorum_bits(a->denied) > a->count - majority(a))
        return give_up(a, e, a->why, out);
    bool hopeless = tl__retry_is_hopeless(&a->retry, a->count, is_doubtful(a, e->now));
    tl_mono free = free_at(a);
    give_back(a);
    if (hopeless || !tl__mono_before(e->now, a->retry.limit)) {
        a->retry.failures++;
        return run_out(a, e, out);
    }
    tl_mono next = tl__retry_after(&a->retry, e->now, false);
    if (free.ns != TL_NEVER.ns && free.ns > 0) {
        int64_t ms = tl__until_hint_ms(free, TL_LOOK_AGAIN_MS, e->now, &a->retry.random);
        next = tl__mono_max(next, tl__mono_add_ms(e->now, ms));
    }
    return tl__retry_pause(&a->retry, next, out);
}

/* ---- counting -------------------------------------------------------------------------------- */

static void wait_a_moment(tl_quorum_acquisition *a, const tl_event *e) {
    if (a->grace.ns == TL_NEVER.ns)
        a->grace = tl__quorum_grace(a->retry.began, e->now);
}

/* A majority is there. It counts with a number that a majority has. */
static tl_status have_majority(tl_quorum_acquisition *a, const tl_event *e, tl_out *out) {
    tl_quorum_fence f = fence(a, e->now);
    if (f.raise == 0 || !GUARD(number_is_raised))
        return held(a, e, f.number, out);
    a->raising = true;
    a->least = f.number;
    a->wanted = (uint8_t)f.raise;
    a->reached |= a->wanted;
    a->grace = TL_NEVER;
    return go_on(a, e, out);
}

/* By the same for all of them, as soon as a majority is reached, whose clocks are known then. */
static void propose(tl_quorum_acquisition *a, const tl_event *e) {
    if (a->least > 0 || tl__quorum_bits(a->reached) < majority(a))
        return;
    a->least = tl__quorum_proposal(e->servers, a->count, e->now, a->seen);
    a->proposed = e->now;
    if (a->retry.wait_ms == 0 && !a->limited)
        a->retry.limit = tl__mono_add_ms(e->now, a->job.attempt_ms);
    a->limited = true;
}

/* A vote that was confirmed too late to be of use, or ran out while others were asked, tells of nobody else who holds the
 * lock. */
static void run_down(tl_quorum_acquisition *a, const tl_event *e) {
    char room[TL_WORDS_SIZE];
    for (unsigned i = 0; i < a->count; i++) {
        const tl_voter *v = &a->voter[i];
        bool over = v->run == a->run && v->until.ns > 0 && !is_vote(a, v, e->now);
        if (!over || !(a->replied & bit(v)))
            continue;
        a->replied &= (uint8_t)~bit(v);
        tl__retry_say(&a->retry, tl__quorum_message(room, a->count, "confirmed too late"));
    }
}

static tl_status count(tl_quorum_acquisition *a, const tl_event *e, tl_out *out) {
    if (GUARD(late_vote_not_busy))
        run_down(a, e);
    unsigned mine = votes(a, e->now), q = majority(a);
    bool over = a->wanted == 0 || !tl__mono_before(e->now, a->grace);
    if (tl__quorum_bits(mine) >= q && (over || a->raising))
        return have_majority(a, e, out);
    bool hopeless = tl__quorum_bits(a->replied | a->wanted) < q;
    if (over || hopeless) {
        tl_status status = tl__quorum_bits(a->replied) >= q ? busy(a, e, out)
                                                            : unreachable(a, e, out);
        return status == TL_GO ? go_on(a, e, out) : status;
    }
    if (tl__quorum_bits(a->replied) >= q && !a->raising)
        wait_a_moment(a, e);
    propose(a, e);
    return go_on(a, e, out);
}

/* ---- events ---------------------------------------------------------------------------------- */

/* It may have been asked in the round before: then it is reached all the same. */
static void note_vote(tl_quorum_acquisition *a, tl_voter *v, tl_voter_end end) {
    if (v->run != a->run)
        return;
    a->wanted &= (uint8_t)~bit(v);
    a->replied |= (uint8_t)bit(v);
    if (GUARD(answered_is_reached))
        a->reached |= (uint8_t)bit(v);
    if (end == TL_VOTER_VOTED && v->number > a->seen)
        a->seen = v->number;
}

static void note_failure(tl_quorum_acquisition *a, tl_voter *v, const tl_event *e, tl_err code,
                         const tl_out *out) {
    char room[TL_WORDS_SIZE];
    a->wanted &= (uint8_t)~bit(v);
    a->replied &= (uint8_t)~bit(v);
    a->skipped |= (uint8_t)(is_stale(a, v) ? bit(v) : 0);
    a->denied |= (uint8_t)(tl__may_pass(code) ? 0 : bit(v));
    a->why = tl__may_pass(code) ? a->why : code;
    tl__retry_note_absence(&a->retry, e);
    tl__retry_blame(&a->retry, e, code, tl__quorum_message(room, a->count, out->words));
}

static tl_status on_answer(tl_quorum_acquisition *a, const tl_event *e, tl_out *out) {
    for (unsigned i = 0; i < a->count; i++) {
        tl_voter *v = &a->voter[i];
        tl_voter_end end;
        tl_err code;
        if (!tl__voter_answer(v, e, out, &end, &code))
            continue;
        if (end == TL_VOTER_FAILED)
            note_failure(a, v, e, code, out);
        else if (end == TL_VOTER_REACHED)
            a->reached |= (uint8_t)bit(v);
        else if (end != TL_VOTER_DROPPED)
            note_vote(a, v, end);
        break;
    }
    bool enough = a->keeping && tl__quorum_bits(votes(a, e->now)) >= majority(a);
    if (enough)
        a->retry.doing = TL_ASKS;
    return a->retry.doing == TL_ASKS ? count(a, e, out) : go_on(a, e, out);
}

static tl_status on_timer(tl_quorum_acquisition *a, const tl_event *e, tl_out *out) {
    if (a->retry.doing == TL_ASKS)
        return count(a, e, out);
    if (!tl__mono_before(e->now, a->retry.limit))
        return run_out(a, e, out);
    if (tl__mono_before(e->now, a->retry.next))
        return go_on(a, e, out);
    begin_round(a, e);
    return count(a, e, out);
}

/* Listening at a majority has begun, or a majority has called: look at once. Fewer may mean that the others' calls
 * got lost. */
static tl_status on_wake(tl_quorum_acquisition *a, const tl_event *e, tl_out *out) {
    unsigned q = majority(a), was = a->armed, from = 1U << e->from;
    bool called = e->kind == TL_WOKEN;
    a->armed = (uint8_t)(called || e->armed ? was | from : was & ~from);
    a->woken |= (uint8_t)(called ? from : 0);
    bool began = !called && tl__quorum_bits(was) < q && tl__quorum_bits(a->armed) >= q;
    if (a->retry.doing != TL_PAUSES || a->keeping || a->retry.failures > 0) {
        a->woken |= (uint8_t)(began ? a->armed : 0);
        return a->retry.doing == TL_ASKS ? count(a, e, out) : go_on(a, e, out);
    }
    if (began || looks_again(a)) {
        a->retry.extra = began;
        a->retry.planned = a->retry.next;
        a->retry.next = e->now;
    } else if (called) {
        tl_mono soon = tl__mono_add_ms(e->now, tl__retry_poll_ms(&a->retry));
        a->retry.next = tl__retry_in_time(&a->retry, e->now, tl__mono_min(a->retry.next, soon));
    }
    return on_timer(a, e, out);
}

static tl_status begin(tl_quorum_acquisition *a, const tl_event *e, tl_out *out) {
    tl__retry_begin(&a->retry, e->now);
    begin_round(a, e);
    return count(a, e, out);
}

/* ---- cleaning up ----------------------------------------------------------------------------- */

static tl_status clean(tl_quorum_acquisition *a, const tl_event *e, tl_out *out) {
    if (!tl__mono_before(e->now, a->retry.limit))
        return TL_END; /* by now it has expired */
    for (unsigned i = 0; i < a->count; i++) {
        tl_voter_end end;
        tl_err code;
        if (tl__voter_answer(&a->voter[i], e, out, &end, &code) && end == TL_VOTER_FAILED) {
            a->skipped |= (uint8_t)(1U << i);
            if (a->retry.next.ns == TL_NEVER.ns)
                a->retry.next = tl__retry_after(&a->retry, e->now, false);
        }
    }
    if (!tl__mono_before(e->now, a->retry.next)) {
        a->skipped = 0;
        a->retry.next = TL_NEVER;
    }
    return is_left(a) ? go_on(a, e, out) : TL_END;
}

tl_status tl__quorum_acquire_step(void *machine, const tl_event *e, tl_out *out) {
    tl_quorum_acquisition *a = machine;
    if (a->retry.doing == TL_CLEANS)
        return clean(a, e, out);
    switch (e->kind) {
    case TL_START: return begin(a, e, out);
    case TL_REPLY:
    case TL_FAILED: return on_answer(a, e, out);
    case TL_ARMED:
    case TL_WOKEN: return on_wake(a, e, out);
    case TL_CANCEL:
        tl__retry_say(&a->retry, TL_LITERAL("cancelled"));
        return give_up(a, e, TL_ECANCELLED, out);
    default: return on_timer(a, e, out);
    }
}
