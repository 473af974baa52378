/*
 * Acquiring a lock of a majority. All servers are asked at once, with one proposal for the fencing number. Of
 * several clients with votes but no majority, one goes on: the one with the vote of the first server. The
 * others take their votes back, without a notification, and wait. The machine must never believe in fewer
 * votes than a majority, nor in a number that fewer servers have, nor leave a vote behind.
 */
#include "protocol/quorum_acquire.h"

#include "ground/assert.h"
#include "ground/guard.h"
#include "protocol/line.h"

#define HELD "another holds it"
#define KEEP_LEAST_MS 1 /* bounds of the pause before it asks again servers that voted for others */
#define KEEP_MOST_MS 50
#define PATIENCE 20 /* rounds for which it keeps votes */
#define ROUNDS 3    /* must fit before the limit: a pause, and replies twice as late as the last */

void tl__quorum_acquire_init(tl_quorum_acquisition *acquisition, const tl_job *job, unsigned count,
                             const tl_retry *retry, int64_t wait_ms, int64_t connect_ms,
                             uint64_t seed) {
    TL_ASSERT(count % 2 == 1 && count >= TL_QUORUM_MIN && count <= TL_QUORUM_MAX);
    *acquisition = (tl_quorum_acquisition){
        .job = *job,
        .retry = tl__retry_init(retry, wait_ms, connect_ms, seed),
        .count = (uint8_t)count,
        .patience = PATIENCE,
        .run = 1};
    acquisition->job.protocol = &tl__protocol_quorum;
    acquisition->job.hold.proof = (tl_proof){0};
    acquisition->job.hold.believed = (tl_mono){0};
    for (unsigned i = 0; i < count; i++)
        tl__voter_init(&acquisition->voter[i], &acquisition->job, i);
}

static unsigned majority(const tl_quorum_acquisition *acquisition) {
    return GUARD(more_than_half) ? tl__quorum_of(acquisition->count) : acquisition->count / 2;
}

/* The servers in the order that all clients use for this key. */
static tl_voter *ranked(tl_quorum_acquisition *acquisition, unsigned rank) {
    return &acquisition->voter[(tl__quorum_first(acquisition->job.key, acquisition->count) + rank) %
                               acquisition->count];
}

static unsigned bit(const tl_voter *voter) {
    return 1U << voter->index;
}

/* ---- votes ----------------------------------------------------------------------------------- */

static bool is_vote(const tl_quorum_acquisition *acquisition, const tl_voter *voter, tl_mono now) {
    return voter->run == acquisition->run && tl__mono_before(now, voter->until);
}

static unsigned votes(const tl_quorum_acquisition *acquisition, tl_mono now) {
    unsigned mask = 0;
    for (unsigned i = 0; i < acquisition->count; i++)
        mask |= is_vote(acquisition, &acquisition->voter[i], now) ? 1U << i : 0;
    return mask;
}

static tl_quorum_fence fence(const tl_quorum_acquisition *acquisition, tl_mono now) {
    uint64_t numbers[TL_QUORUM_MAX];
    for (unsigned i = 0; i < acquisition->count; i++)
        numbers[i] = is_vote(acquisition, &acquisition->voter[i], now)
                         ? acquisition->voter[i].number
                         : 0;
    return tl__quorum_fence(numbers, acquisition->count);
}

/* A token whose votes were taken back may be rejected for good where it was in doubt. So a new one is
 * used. */
static void next_token(tl_quorum_acquisition *acquisition) {
    static const char digits[] = "0123456789abcdef";
    char *end = acquisition->job.token.text + strlen(acquisition->job.token.text);
    bool carry = GUARD(token_is_new);
    for (char *at = end - 1; carry && at >= end - 6; at--) {
        const char *d = memchr(digits, *at, 16);
        carry = !d || d == digits + 15;
        *at = d ? digits[(d - digits + 1) % 16] : '0';
    }
    acquisition->run++;
}

static void give_back(tl_quorum_acquisition *acquisition) {
    bool any = false;
    for (unsigned i = 0; i < acquisition->count; i++)
        any = any || (acquisition->voter[i].holds && acquisition->voter[i].run == acquisition->run);
    if (GUARD(others_give_back) && any)
        next_token(acquisition);
    acquisition->keeping = false;
    acquisition->patience = PATIENCE;
}

/* ---- the next request ------------------------------------------------------------------------- */

/* Must this vote be taken back? That is a vote for a former token, or for the last one if it became no
 * hold. */
static bool is_stale(const tl_quorum_acquisition *acquisition, const tl_voter *voter) {
    bool in_vain = acquisition->retry.doing == TL_CLEANS && acquisition->result.code != TL_OK;
    return voter->holds && (voter->run != acquisition->run || in_vain);
}

static tl_mono ask_by(const tl_quorum_acquisition *acquisition, const tl_event *event) {
    return tl__mono_min(tl__mono_add_ms(event->now, acquisition->job.attempt_ms),
                        acquisition->retry.limit);
}

static void ask(tl_quorum_acquisition *acquisition, tl_voter *voter, const tl_event *event,
                tl_out *out) {
    if (is_stale(acquisition, voter))
        tl__voter_drop(voter, ++acquisition->ticket, ask_by(acquisition, event), event, out);
    else if (!(acquisition->reached & bit(voter)))
        tl__voter_reach(voter, ++acquisition->ticket, ask_by(acquisition, event), out);
    else
        tl__voter_ask(voter, ++acquisition->ticket, &acquisition->job.token, acquisition->run,
                      acquisition->least, acquisition->retry.limit, event, out);
}

/* Is there a request for this server now? */
static bool is_due(const tl_quorum_acquisition *acquisition, const tl_voter *voter) {
    if ((GUARD(one_request_each) && voter->doing != TL_VOTER_IDLE) ||
        acquisition->skipped & bit(voter))
        return false;
    return is_stale(acquisition, voter) ||
           (acquisition->retry.doing == TL_ASKS && acquisition->wanted & bit(voter) &&
            (acquisition->least > 0 || !(acquisition->reached & bit(voter))));
}

static tl_mono wakes(const tl_quorum_acquisition *acquisition) {
    return acquisition->retry.doing == TL_ASKS ? acquisition->grace
                                               : tl__retry_wakes(&acquisition->retry);
}

/* A step sends to one server. For the next one the machine is called again at once. */
static tl_status go_on(tl_quorum_acquisition *acquisition, const tl_event *event, tl_out *out) {
    bool more = false;
    for (unsigned rank = 0; rank < acquisition->count; rank++) {
        tl_voter *voter = ranked(acquisition, rank);
        bool due = is_due(acquisition, voter);
        more = more || (due && out->sends > 0);
        if (due && out->sends == 0)
            ask(acquisition, voter, event, out);
    }
    out->until = more ? event->now : wakes(acquisition);
    return TL_GO;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Is there a vote to take back? */
static bool is_left(const tl_quorum_acquisition *acquisition) {
    for (unsigned i = 0; i < acquisition->count; i++)
        if (is_stale(acquisition, &acquisition->voter[i]))
            return true;
    return false;
}

static void abandon_all(tl_quorum_acquisition *acquisition) {
    for (unsigned i = 0; i < acquisition->count; i++)
        tl__voter_abandon(&acquisition->voter[i]);
}

/* The caller has its result. Votes that were left behind are taken back in the background. */
static tl_status end(tl_quorum_acquisition *acquisition, const tl_event *event, tl_out *out) {
    tl__retry_clean(&acquisition->retry, &acquisition->job, event->now, event->servers->drift_ppm);
    out->sends = 0;
    out->until = TL_NEVER;
    /* Votes for former tokens are taken back after a success, too. Else a server whose reply was late would
     * keep its vote for nobody, and belong to no majority for a lifetime. */
    if (!is_left(acquisition) || (acquisition->result.code == TL_OK && !GUARD(former_taken_back)))
        return TL_END;
    acquisition->skipped = 0;
    acquisition->retry.next = TL_NEVER;
    out->until = event->now;
    return TL_DETACH;
}

/* Other waiters may have seen a majority for this token, and sleep until it would expire: so its releases
 * notify them. */
static tl_status give_up(tl_quorum_acquisition *acquisition, const tl_event *event, tl_err code,
                         tl_out *out) {
    abandon_all(acquisition);
    for (unsigned i = 0; i < acquisition->count; i++)
        acquisition->voter[i].job.release.silent = !GUARD(given_up_is_told);
    acquisition->result = (tl_result){.code = code};
    tl__retry_report(&acquisition->retry, out);
    tl_status status = end(acquisition, event, out);
    acquisition->result.maybe = status == TL_DETACH;
    return status;
}

/* Could unanswered requests have made a majority? */
static bool is_doubtful(const tl_quorum_acquisition *acquisition, tl_mono now) {
    unsigned mask = votes(acquisition, now);
    for (unsigned i = 0; i < acquisition->count; i++)
        mask |= acquisition->voter[i].doubted ? 1U << i : 0;
    return tl__quorum_bits(mask) >= majority(acquisition);
}

/* While another client holds the lock, one of the servers may have failed, or not replied: that is not the
 * reason to report. */
static tl_status run_out(tl_quorum_acquisition *acquisition, const tl_event *event, tl_out *out) {
    tl_err code = tl__retry_ran_out(&acquisition->retry, is_doubtful(acquisition, event->now));
    if (GUARD(held_is_the_reason) && (code == TL_EBUSY || code == TL_ETIMEDOUT))
        tl__retry_say(&acquisition->retry,
                      acquisition->rests ? TL_LITERAL(TL_RESTS) : TL_LITERAL(HELD));
    return give_up(acquisition, event, code, out);
}

/* The renewal finds a vote for this token that is still in flight (`doubted`). A vote for a former token is
 * known only to this machine, which takes it back. */
static tl_status held(tl_quorum_acquisition *acquisition, const tl_event *event, uint64_t number,
                      tl_out *out) {
    tl_ballots *ballots = &acquisition->ballots;
    *ballots = (tl_ballots){.count = acquisition->count};
    for (unsigned i = 0; i < acquisition->count; i++) {
        const tl_voter *voter = &acquisition->voter[i];
        bool asked = voter->doing == TL_VOTER_VOTING;
        if (is_vote(acquisition, voter, event->now)) {
            ballots->until[i] = voter->until;
            ballots->proved[i] = voter->proved;
            ballots->seen_us[i] = tl__voter_server_us(voter, event);
        }
        if (voter->run == acquisition->run &&
            (voter->doubted || asked || (voter->holds && !is_vote(acquisition, voter, event->now))))
            ballots->doubted |= (uint8_t)(1U << i);
    }
    acquisition->result = (tl_result){.code = TL_OK,
                                      .deadline = tl__ballots_deadline(ballots),
                                      .proved = tl__ballots_since(ballots),
                                      .proof = {.kind = TL_PROOF_TOKEN,
                                                .held_by = 1 + TL_TOKEN,
                                                .doubted = ballots->doubted != 0,
                                                .unbound = !acquisition->job.acquire.bind},
                                      .acquire = {.fence = number}};
    for (unsigned i = 0; i < acquisition->count; i++)
        if (acquisition->voter[i].run != acquisition->run)
            tl__voter_abandon(&acquisition->voter[i]);
    return end(acquisition, event, out);
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static void begin_round(tl_quorum_acquisition *acquisition, const tl_event *event) {
    acquisition->retry.doing = TL_ASKS;
    acquisition->retry.began = event->now;
    acquisition->retry.attempts += !acquisition->retry.extra && !acquisition->keeping;
    acquisition->retry.lasts = false;
    acquisition->grace = TL_NEVER;
    acquisition->least = 0;
    acquisition->keeping = acquisition->raising = false;
    unsigned mine = votes(acquisition, event->now);
    acquisition->wanted = (uint8_t)(((1U << acquisition->count) - 1) & ~mine);
    acquisition->reached = acquisition->replied = (uint8_t)mine;
    acquisition->denied = acquisition->skipped = acquisition->woken = 0;
}

/* When a majority of the servers is free. A server that voted for us is free now, another one when its hold
 * expires. */
static tl_mono free_at(const tl_quorum_acquisition *acquisition) {
    tl_mono free[TL_QUORUM_MAX] = {{0}};
    for (unsigned i = 0; i < acquisition->count; i++) {
        const tl_voter *voter = &acquisition->voter[i];
        bool voted = voter->run == acquisition->run && voter->until.ns > 0;
        free[i].ns = voted ? 0 : voter->hint.ns;
    }
    return tl__quorum_free_at(free, acquisition->count);
}

/* Does a majority name the same holder? */
static bool is_held(const tl_quorum_acquisition *acquisition, bool *ret_announced) {
    for (unsigned i = 0; i < acquisition->count; i++) {
        unsigned same = 0, announced = 0;
        for (unsigned j = 0; j < acquisition->count; j++) {
            const tl_voter *voter = &acquisition->voter[j];
            bool his = acquisition->replied & 1U << j && voter->until.ns == 0 &&
                       voter->holder == acquisition->voter[i].holder && voter->holder != 0;
            same += his;
            announced += his && voter->announced;
        }
        *ret_announced = announced >= majority(acquisition);
        if (same >= majority(acquisition))
            return true;
    }
    return false;
}

/* Has the server named the lock's holder in this round? */
static bool is_busy(const tl_quorum_acquisition *acquisition, unsigned i) {
    return acquisition->replied & 1U << i && acquisition->voter[i].until.ns == 0;
}

static unsigned resting(const tl_quorum_acquisition *acquisition) {
    unsigned n = 0;
    for (unsigned i = 0; i < acquisition->count; i++)
        n += is_busy(acquisition, i) && acquisition->voter[i].rests;
    return n;
}

/* Has this server's holder let the lock rest here, or at another server that replied? */
static bool has_let_rest(const tl_quorum_acquisition *acquisition, const tl_voter *voter) {
    bool any = voter->rests;
    for (unsigned i = 0; i < acquisition->count; i++)
        any = any || (is_busy(acquisition, i) && acquisition->voter[i].rests &&
                      acquisition->voter[i].holder == voter->holder);
    return any;
}

/* For the message alone. While one server is late, fewer than a majority may say that the lock rests. So one is
 * enough, unless another server names a holder that has not let it rest. */
static bool seems_to_rest(const tl_quorum_acquisition *acquisition) {
    bool all = true;
    for (unsigned i = 0; i < acquisition->count; i++)
        all = all &&
              (!is_busy(acquisition, i) || has_let_rest(acquisition, &acquisition->voter[i]));
    return resting(acquisition) >= (all ? 1 : majority(acquisition));
}

/* Of several clients with votes but no majority one must go on, or none would ever succeed: the one with the
 * vote of the first server that replied. */
static bool goes_on(tl_quorum_acquisition *acquisition, const tl_event *event) {
    for (unsigned rank = 0; rank < acquisition->count; rank++) {
        const tl_voter *voter = ranked(acquisition, rank);
        if (acquisition->replied & bit(voter))
            return (is_vote(acquisition, voter, event->now) && acquisition->patience > 0) ||
                   !GUARD(one_goes_on);
    }
    return false;
}

/* Is there time for more requests? Else the limit would come while they are in flight, and bring doubt after
 * a majority has replied. */
static bool has_time(const tl_quorum_acquisition *acquisition, const tl_event *event) {
    int64_t took = tl__ns_until(acquisition->proposed, event->now),
            least = KEEP_LEAST_MS * TL_NS_PER_MS;
    int64_t all = tl__mul_sat(took > least ? took : least, ROUNDS);
    return tl__mono_before(tl__mono_add_ns(event->now, all), acquisition->retry.limit) ||
           !GUARD(has_time_for_votes);
}

static void listen(tl_quorum_acquisition *acquisition, tl_out *out) {
    if (acquisition->listening)
        return;
    acquisition->listening = true;
    tl__out_listen(out, acquisition->job.sidecar);
}

static tl_status keep_votes(tl_quorum_acquisition *acquisition, const tl_event *event,
                            tl_out *out) {
    int64_t most = tl__ms_until(acquisition->retry.began, event->now);
    if (most < KEEP_LEAST_MS)
        most = KEEP_LEAST_MS;
    if (most > KEEP_MOST_MS)
        most = KEEP_MOST_MS;
    acquisition->patience--;
    acquisition->keeping = true;
    int64_t pause = tl__random_between(&acquisition->retry.random, (most + 1) / 2, most);
    return tl__retry_pause(&acquisition->retry, tl__mono_add_ms(event->now, pause), out);
}

/* Did a majority notify it during the round, or did listening begin? Then it looks again. */
static bool looks_again(const tl_quorum_acquisition *acquisition) {
    return tl__quorum_bits(acquisition->woken) >= majority(acquisition);
}

/* A majority has replied, but not voted for us. */
static tl_status busy(tl_quorum_acquisition *acquisition, const tl_event *event, tl_out *out) {
    tl_retrier *retrier = &acquisition->retry;
    bool announced = false, by_one = is_held(acquisition, &announced);
    acquisition->rests = seems_to_rest(acquisition);
    tl__retry_held(retrier, acquisition->rests ? TL_LITERAL(TL_RESTS) : TL_LITERAL(HELD), out);
    if (!by_one && goes_on(acquisition, event) && has_time(acquisition, event))
        return keep_votes(acquisition, event, out);
    bool notified = by_one && announced &&
                    tl__quorum_bits(acquisition->armed) >= majority(acquisition);
    bool again = looks_again(acquisition), in_doubt = is_doubtful(acquisition, event->now);
    tl_mono free = free_at(acquisition);
    give_back(acquisition);
    bool ends = GUARD(quorum_rest_ends_wait) && acquisition->job.acquire.rest_ends_wait &&
                resting(acquisition) >= majority(acquisition);
    tl_mono next = retrier->planned;
    if (ends || !tl__retry_is_planned(retrier)) {
        int64_t pause = ends ? -1 : tl__retry_pause_ms(retrier, event->now);
        if (pause < 0)
            return give_up(acquisition, event, in_doubt ? TL_EUNCERTAIN : TL_EBUSY, out);
        if (retrier->strategy.kind == TL_RETRY_AUTO)
            pause = tl__retry_auto_ms(retrier, free, notified, event->now);
        next = tl__retry_in_time(retrier, event->now, tl__mono_add_ms(event->now, pause));
    }
    listen(acquisition, out);
    retrier->planned = next;
    return tl__retry_pause(retrier, again ? event->now : next, out);
}

/* ---- failures -------------------------------------------------------------------------------- */

/* Fewer than a majority of the servers can be asked. */
static tl_status no_majority(tl_quorum_acquisition *acquisition, const tl_event *event,
                             tl_out *out) {
    if (tl__quorum_bits(acquisition->denied) > acquisition->count - majority(acquisition))
        return give_up(acquisition, event, acquisition->why, out);
    bool hopeless = tl__retry_is_hopeless(&acquisition->retry, acquisition->count,
                                          is_doubtful(acquisition, event->now));
    tl_mono free = free_at(acquisition);
    give_back(acquisition);
    if (hopeless || !tl__mono_before(event->now, acquisition->retry.limit)) {
        acquisition->retry.failures++;
        return run_out(acquisition, event, out);
    }
    tl_mono next = tl__retry_after(&acquisition->retry, event->now, false);
    if (free.ns != TL_NEVER.ns && free.ns > 0) {
        int64_t ms = tl__until_hint_ms(free, TL_LOOK_AGAIN_MS, event->now,
                                       &acquisition->retry.random);
        next = tl__mono_max(next, tl__mono_add_ms(event->now, ms));
    }
    return tl__retry_pause(&acquisition->retry, next, out);
}

/* ---- counting -------------------------------------------------------------------------------- */

static void wait_a_moment(tl_quorum_acquisition *acquisition, const tl_event *event) {
    if (acquisition->grace.ns == TL_NEVER.ns)
        acquisition->grace = tl__quorum_grace(acquisition->retry.began, event->now);
}

/* There is a majority. It counts once a majority has the fencing number. */
static tl_status have_majority(tl_quorum_acquisition *acquisition, const tl_event *event,
                               tl_out *out) {
    tl_quorum_fence f = fence(acquisition, event->now);
    if (f.raise == 0 || !GUARD(number_is_raised))
        return held(acquisition, event, f.number, out);
    acquisition->raising = true;
    acquisition->least = f.number;
    acquisition->wanted = (uint8_t)f.raise;
    acquisition->reached |= acquisition->wanted;
    acquisition->grace = TL_NEVER;
    return go_on(acquisition, event, out);
}

/* Choose one number for all servers, as soon as a majority is reached: then their clocks are known. */
static void propose(tl_quorum_acquisition *acquisition, const tl_event *event) {
    if (acquisition->least > 0 || tl__quorum_bits(acquisition->reached) < majority(acquisition))
        return;
    acquisition->least = tl__quorum_proposal(event->servers, acquisition->count, event->now,
                                             acquisition->seen);
    acquisition->proposed = event->now;
    if (acquisition->retry.wait_ms == 0 && !acquisition->limited)
        acquisition->retry.limit = tl__mono_add_ms(event->now, acquisition->job.attempt_ms);
    acquisition->limited = true;
}

/* A vote that was confirmed too late, or expired while others were asked, doesn't mean that another client
 * holds the lock. */
static void run_down(tl_quorum_acquisition *acquisition, const tl_event *event) {
    char room[TL_MESSAGE_SIZE];
    for (unsigned i = 0; i < acquisition->count; i++) {
        const tl_voter *voter = &acquisition->voter[i];
        bool over = voter->run == acquisition->run && voter->until.ns > 0 &&
                    !is_vote(acquisition, voter, event->now);
        if (!over || !(acquisition->replied & bit(voter)))
            continue;
        acquisition->replied &= (uint8_t)~bit(voter);
        tl__retry_say(&acquisition->retry, tl__quorum_message(room, acquisition->count,
                                                              "the confirmation came too late"));
    }
}

static tl_status count(tl_quorum_acquisition *acquisition, const tl_event *event, tl_out *out) {
    if (GUARD(late_vote_not_busy))
        run_down(acquisition, event);
    unsigned mine = votes(acquisition, event->now), q = majority(acquisition);
    bool over = acquisition->wanted == 0 || !tl__mono_before(event->now, acquisition->grace);
    if (tl__quorum_bits(mine) >= q && (over || acquisition->raising))
        return have_majority(acquisition, event, out);
    bool hopeless = tl__quorum_bits(acquisition->replied | acquisition->wanted) < q;
    if (over || hopeless) {
        tl_status status = tl__quorum_bits(acquisition->replied) >= q
                               ? busy(acquisition, event, out)
                               : no_majority(acquisition, event, out);
        return status == TL_GO ? go_on(acquisition, event, out) : status;
    }
    if (tl__quorum_bits(acquisition->replied) >= q && !acquisition->raising)
        wait_a_moment(acquisition, event);
    propose(acquisition, event);
    return go_on(acquisition, event, out);
}

/* ---- events ---------------------------------------------------------------------------------- */

/* The server may have been asked in the round before: it counts as reached all the same. */
static void note_vote(tl_quorum_acquisition *acquisition, tl_voter *voter, tl_voter_end end) {
    if (voter->run != acquisition->run)
        return;
    acquisition->wanted &= (uint8_t)~bit(voter);
    acquisition->replied |= (uint8_t)bit(voter);
    if (GUARD(answered_is_reached))
        acquisition->reached |= (uint8_t)bit(voter);
    if (end == TL_VOTER_VOTED && voter->number > acquisition->seen)
        acquisition->seen = voter->number;
}

static void note_failure(tl_quorum_acquisition *acquisition, tl_voter *voter, const tl_event *event,
                         tl_err code, const tl_out *out) {
    char room[TL_MESSAGE_SIZE];
    acquisition->wanted &= (uint8_t)~bit(voter);
    acquisition->replied &= (uint8_t)~bit(voter);
    acquisition->skipped |= (uint8_t)(is_stale(acquisition, voter) ? bit(voter) : 0);
    acquisition->denied |= (uint8_t)(tl__may_pass(code) ? 0 : bit(voter));
    acquisition->why = tl__may_pass(code) ? acquisition->why : code;
    tl__retry_note_absence(&acquisition->retry, event);
    tl__retry_blame(&acquisition->retry, event, code,
                    tl__quorum_message(room, acquisition->count, out->message));
}

static tl_status on_answer(tl_quorum_acquisition *acquisition, const tl_event *event, tl_out *out) {
    for (unsigned i = 0; i < acquisition->count; i++) {
        tl_voter *voter = &acquisition->voter[i];
        tl_voter_end end;
        tl_err code;
        if (!tl__voter_answer(voter, event, out, &end, &code))
            continue;
        if (end == TL_VOTER_FAILED)
            note_failure(acquisition, voter, event, code, out);
        else if (end == TL_VOTER_REACHED)
            acquisition->reached |= (uint8_t)bit(voter);
        else if (end != TL_VOTER_DROPPED)
            note_vote(acquisition, voter, end);
        break;
    }
    bool enough = acquisition->keeping &&
                  tl__quorum_bits(votes(acquisition, event->now)) >= majority(acquisition);
    if (enough)
        acquisition->retry.doing = TL_ASKS;
    return acquisition->retry.doing == TL_ASKS ? count(acquisition, event, out)
                                               : go_on(acquisition, event, out);
}

static tl_status on_timer(tl_quorum_acquisition *acquisition, const tl_event *event, tl_out *out) {
    if (acquisition->retry.doing == TL_ASKS)
        return count(acquisition, event, out);
    if (!tl__mono_before(event->now, acquisition->retry.limit))
        return run_out(acquisition, event, out);
    if (tl__mono_before(event->now, acquisition->retry.next))
        return go_on(acquisition, event, out);
    begin_round(acquisition, event);
    return count(acquisition, event, out);
}

/* If listening on a majority has begun, or a majority has notified it, it looks at once. After fewer
 * notifications it looks soon, since the others may have got lost. */
static tl_status on_wake(tl_quorum_acquisition *acquisition, const tl_event *event, tl_out *out) {
    unsigned q = majority(acquisition), was = acquisition->armed, from = 1U << event->from;
    bool called = event->kind == TL_WOKEN;
    acquisition->armed = (uint8_t)(called || event->armed ? was | from : was & ~from);
    acquisition->woken |= (uint8_t)(called ? from : 0);
    bool began = !called && tl__quorum_bits(was) < q && tl__quorum_bits(acquisition->armed) >= q;
    if (acquisition->retry.doing != TL_PAUSES || acquisition->keeping ||
        acquisition->retry.failures > 0) {
        acquisition->woken |= (uint8_t)(began ? acquisition->armed : 0);
        return acquisition->retry.doing == TL_ASKS ? count(acquisition, event, out)
                                                   : go_on(acquisition, event, out);
    }
    if (began || looks_again(acquisition)) {
        acquisition->retry.extra = began;
        acquisition->retry.planned = acquisition->retry.next;
        acquisition->retry.next = event->now;
    } else if (called) {
        tl_mono soon = tl__mono_add_ms(event->now, tl__retry_poll_ms(&acquisition->retry));
        acquisition->retry.next = tl__retry_in_time(&acquisition->retry, event->now,
                                                    tl__mono_min(acquisition->retry.next, soon));
    }
    return on_timer(acquisition, event, out);
}

static tl_status begin(tl_quorum_acquisition *acquisition, const tl_event *event, tl_out *out) {
    tl__retry_begin(&acquisition->retry, event->now);
    begin_round(acquisition, event);
    return count(acquisition, event, out);
}

/* ---- cleaning up ----------------------------------------------------------------------------- */

static tl_status clean(tl_quorum_acquisition *acquisition, const tl_event *event, tl_out *out) {
    if (!tl__mono_before(event->now, acquisition->retry.limit))
        return TL_END; /* everything has expired by now */
    for (unsigned i = 0; i < acquisition->count; i++) {
        tl_voter_end end;
        tl_err code;
        if (tl__voter_answer(&acquisition->voter[i], event, out, &end, &code) &&
            end == TL_VOTER_FAILED) {
            acquisition->skipped |= (uint8_t)(1U << i);
            if (acquisition->retry.next.ns == TL_NEVER.ns)
                acquisition->retry.next = tl__retry_after(&acquisition->retry, event->now, false);
        }
    }
    if (!tl__mono_before(event->now, acquisition->retry.next)) {
        acquisition->skipped = 0;
        acquisition->retry.next = TL_NEVER;
    }
    return is_left(acquisition) ? go_on(acquisition, event, out) : TL_END;
}

tl_status tl__quorum_acquire_step(void *machine, const tl_event *event, tl_out *out) {
    tl_quorum_acquisition *acquisition = machine;
    if (acquisition->retry.doing == TL_CLEANS)
        return clean(acquisition, event, out);
    switch (event->kind) {
    case TL_START: return begin(acquisition, event, out);
    case TL_REPLY:
    case TL_FAILED: return on_answer(acquisition, event, out);
    case TL_ARMED:
    case TL_WOKEN: return on_wake(acquisition, event, out);
    case TL_CANCEL:
        tl__retry_say(&acquisition->retry, TL_LITERAL("cancelled"));
        return give_up(acquisition, event, TL_ECANCELLED, out);
    default: return on_timer(acquisition, event, out);
    }
}
