/*
 * Acquiring. It drives a protocol's attempts. Between them it waits for the release, the expiry or a poll.
 * Two rules: if one of its requests may still acquire the lock, it must clean up after it reports "not
 * acquired"; and it must never wait past its limit.
 */
#include "protocol/acquire.h"

#include "ground/assert.h"
#include "ground/guard.h"
#include "protocol/attempt.h"
#include "protocol/line.h"

void tl__acquire_init(tl_acquisition *acquisition, const tl_job *job, const tl_retry *retry,
                      int64_t wait_ms, int64_t connect_ms, uint64_t seed) {
    TL_ASSERT(job->protocol && !job->queue.stands);
    *acquisition = (tl_acquisition){.job = *job,
                                    .retry = tl__retry_init(retry, wait_ms, connect_ms, seed)};
    acquisition->job.hold.proof = (tl_proof){0}; /* it may be that of an earlier hold */
    acquisition->lining = job->queue.join;
    acquisition->job.hold.believed = (tl_mono){0};
}

/* ---- an unanswered acquire -------------------------------------------------------------------- */

/* A native acquire carries no not_after: only closing its connection on the server certainly ends it. In
 * another run of the server the connection's number may be another client's. */
static bool must_kill(const tl_acquisition *acquisition, const tl_event *event) {
    return acquisition->kill_id != 0 &&
           (!GUARD(ends_in_its_run) ||
            (event->asked.run != 0 && event->asked.run == acquisition->kill_run));
}

static tl_status kill(tl_acquisition *acquisition, const tl_event *event, tl_out *out) {
    tl_mono by = tl__mono_add_ms(event->now, acquisition->job.attempt_ms);
    tl_send *send = tl__out_send(out, ++acquisition->ticket,
                                 tl__mono_min(by, acquisition->retry.limit));
    tl_command *command = &send->command[send->count++];
    *command = (tl_command){.form = TL_ARGV, .argc = 4};
    command->argv[0] = TL_LITERAL("CLIENT");
    command->argv[1] = TL_LITERAL("KILL");
    command->argv[2] = TL_LITERAL("ID");
    command->argv[3] = tl__out_int(out, acquisition->kill_id);
    send->here = true;
    return TL_GO;
}

/* After CLIENT KILL the server reads nothing more from the connection, whether it still existed or not. An
 * error reply (the command is forbidden) leaves the doubt. */
static void killed(tl_acquisition *acquisition, const tl_event *event) {
    int64_t count;
    if (event->kind != TL_REPLY || event->replied.count < 1 ||
        event->asked.run != acquisition->kill_run)
        return;
    acquisition->kill_id = 0;
    if (tl__reply_int(event->replied.reply, &count))
        acquisition->harmless = tl__mono_min(acquisition->harmless,
                                             tl__mono_max(event->now, acquisition->unkillable));
}

/* ---- attempts -------------------------------------------------------------------------------- */

/* The request is sent only after the login, whose reply has the server's time for not_after. Without
 * not_after a request stuck in a buffer would acquire a lock that no client knows of. Sent together with the
 * login, the request could be as late as the login: TIME and the connection's age would be read at that late
 * moment, and look fresh. Nor could the connection be closed afterwards: its number is in the lost reply, and
 * behind a proxy its address differs. A limit by this host's clock would need clocks that agree, and only a
 * client that still runs could undo the acquire. And a refused SELECT does not keep the server from what
 * follows: it would acquire in another database. So `tidelock run` takes three round trips once it has
 * connected: the login, the acquire, the release (cli/test_trips). */
static tl_status reach(tl_acquisition *acquisition, tl_out *out) {
    acquisition->retry.doing = TL_REACHES;
    acquisition->woken = acquisition->called = false; /* the state will be read after this */
    tl__out_send(out, ++acquisition->ticket,
                 GUARD(reach_has_limit) ? acquisition->retry.limit : TL_NEVER);
    return TL_GO;
}

static bool is_unlimited(const tl_acquisition *acquisition) {
    return acquisition->uncertain && acquisition->harmless.ns == TL_NEVER.ns;
}

/* A join that is still in flight may put our entry back into the queue. The release then removes it. */
static void note_doubt(tl_acquisition *acquisition) {
    acquisition->result.proof.doubted = acquisition->uncertain;
    acquisition->result.proof.unlimited = is_unlimited(acquisition);
    if (GUARD(entry_in_doubt) && acquisition->uncertain && acquisition->job.queue.stands)
        acquisition->result.proof.stood_ms = (int32_t)acquisition->job.ttl_ms;
}

/* When it was acquired, for a rest that counts from then. */
static void note_time(tl_acquisition *acquisition, const tl_event *event, const tl_out *out) {
    tl_server room;
    const tl_event informed = tl__try_informed(event, out, &room);
    acquisition->result.acquire.seen = event->now;
    acquisition->result.acquire.seen_us = tl__try_server_us(&informed, event->now).hi;
}

static tl_status attempt_ended(tl_acquisition *acquisition, const tl_event *event, tl_out *out);
static tl_status run_out(tl_acquisition *acquisition, const tl_event *event, tl_out *out);

/* While our entry may be in the queue, acquire only by a join: else the entry would be granted the lock
 * later. */
static bool joins(const tl_acquisition *acquisition) {
    return acquisition->lining && (acquisition->armed || acquisition->job.queue.stands);
}

static tl_status take(tl_acquisition *acquisition, const tl_event *event, tl_out *out) {
    acquisition->woken = acquisition->called = acquisition->near = false;
    acquisition->job.again = GUARD(repeat_compares) && acquisition->retry.attempts > 0;
    tl__retry_ask(&acquisition->retry, event->now, acquisition->job.attempt_ms);
    if (tl__retry_is_too_late(&acquisition->retry, event))
        return run_out(acquisition, event, out);
    /* While it queues, it sends only joins for this token. If another form of acquire followed, a delayed
     * join would find K set by the token and unknown to S, and delete K. */
    acquisition->job.queue.join = joins(acquisition);
    acquisition->job.queue.stands = acquisition->job.queue.stands || acquisition->job.queue.join;
    if (acquisition->job.queue.join)
        acquisition->job.fences = acquisition->job.queue.fair ? 1 : TL_FENCES;
    tl_status status = tl__attempt_begin(&acquisition->attempt, &acquisition->job, TL_ACQUIRE,
                                         ++acquisition->ticket, acquisition->retry.limit, event,
                                         out);
    return status == TL_END ? attempt_ended(acquisition, event, out)
                            : status; /* rejected before it was sent */
}

/* ---- the end --------------------------------------------------------------------------------- */

/* The caller gets `code`. Then the machine releases in the background what it may have left behind. */
static tl_status give_up(tl_acquisition *acquisition, const tl_event *event, tl_err code,
                         tl_out *out) {
    acquisition->result = (tl_result){.code = code,
                                      .maybe = acquisition->uncertain || acquisition->unwanted ||
                                               acquisition->job.queue.stands};
    tl__retry_report(&acquisition->retry, out);
    if (!acquisition->result.maybe || !GUARD(cleans_up))
        return TL_END;
    tl__retry_clean(&acquisition->retry, &acquisition->job, event->now, event->server->drift_ppm);
    acquisition->job.release.in_vain = true;
    acquisition->retry.next = event->now;
    out->until = event->now;
    return TL_DETACH;
}

static tl_status run_out(tl_acquisition *acquisition, const tl_event *event, tl_out *out) {
    return give_up(acquisition, event,
                   tl__retry_ran_out(&acquisition->retry, acquisition->uncertain), out);
}

/* ---- pauses ---------------------------------------------------------------------------------- */

static int64_t auto_pause(tl_acquisition *acquisition, const tl_event *event) {
    const tl_acquire_result *busy = &acquisition->attempt.result.acquire;
    bool notified = (busy->announced && acquisition->armed) || acquisition->watching;
    return tl__retry_auto_ms(&acquisition->retry, busy->hint, notified, event->now);
}

static bool may_line(const tl_acquisition *acquisition, const tl_event *event) {
    return acquisition->job.queue.inbox.n > 0 && acquisition->retry.wait_ms != 0 &&
           acquisition->job.protocol->lines &&
           acquisition->job.protocol->lines(event->server, &acquisition->job.rules, event->now);
}

/* A rest notifies the first three alone. Waiters that it ends leave the queue, and so others become near. */
static bool looks_for_rest(const tl_acquisition *acquisition) {
    return GUARD(near_looks_for_rest) && acquisition->near &&
           acquisition->job.acquire.rest_ends_wait;
}

/* The waiter relies on notifications while they arrive. Else it polls; each look is a join, which puts its
 * entry back. */
static int64_t line_pause(tl_acquisition *acquisition, const tl_event *event) {
    if (looks_for_rest(acquisition))
        return 0;
    if (GUARD(waits_for_its_turn) && acquisition->armed && acquisition->job.queue.join &&
        !acquisition->attempt.result.acquire.polls)
        return tl__line_pause_ms(&acquisition->attempt.result.acquire, acquisition->near,
                                 event->now, &acquisition->retry.random);
    return tl__retry_poll_ms(&acquisition->retry);
}

static void listen_to_inbox(tl_acquisition *acquisition, tl_out *out) {
    acquisition->listening = true;
    acquisition->armed = acquisition->inbox_armed;
    tl__out_listen(out, acquisition->job.queue.inbox);
    out->armed = acquisition->armed;
    out->token = tl__token_bytes(&acquisition->job.token);
}

/* When the subscription is in force (TL_ARMED) the machine looks once more: so no release falls between
 * its look and the subscription. The script that deletes K also publishes the release. */
static void listen(tl_acquisition *acquisition, tl_out *out) {
    acquisition->listening = true;
    tl__out_listen(out, acquisition->job.sidecar);
    if (acquisition->job.protocol->watching && acquisition->retry.strategy.kind == TL_RETRY_AUTO)
        out->watched = acquisition->job.key;
}

static void leave_topic(tl_acquisition *acquisition, tl_out *out) {
    acquisition->listening = acquisition->armed = acquisition->watching = false;
    out->disarm = true;
}

/* This server has no queue, this user may not use it, or this phase of a migration has none. An earlier entry
 * may still be granted the lock: so job.queue.stands stays set, and giving up removes the entry. */
static void leave_inbox(tl_acquisition *acquisition, tl_out *out) {
    acquisition->lining = false;
    leave_topic(acquisition, out);
}

static bool is_granted(const tl_acquisition *acquisition);
static bool is_given(tl_acquisition *acquisition, const tl_event *event, tl_out *out);

static void note_rank(tl_acquisition *acquisition, const tl_event *event, tl_out *out) {
    if (!acquisition->job.queue.join || !acquisition->lining ||
        acquisition->attempt.result.acquire.rank <= 0)
        return;
    acquisition->job.queue.rank = acquisition->attempt.result.acquire.rank;
    acquisition->run = out->run = event->asked.run;
}

static tl_status busy(tl_acquisition *acquisition, const tl_event *event, tl_out *out) {
    tl_retrier *retrier = &acquisition->retry;
    acquisition->unwanted =
        acquisition->attempt.result.maybe; /* K is ours, but S forbids its use */
    bool rests = acquisition->attempt.result.acquire.rests;
    tl__retry_held(retrier, rests ? TL_LITERAL(TL_RESTS) : TL_LITERAL("another holds it"), out);
    /* This reply ends the doubt about a lost request only if the server checks not_after, and if this request
     * was sent after the lost one's not_after. Before that the lost request may still take effect. */
    if (acquisition->uncertain &&
        (acquisition->attempt.result.acquire.checked || !GUARD(limit_checked)) &&
        (!tl__mono_before(event->asked.sent, acquisition->harmless) || !GUARD(busy_behind_doubt)))
        acquisition->uncertain = false; /* no acquire of ours is in flight, and K isn't ours */
    bool may = may_line(acquisition, event), begins = !acquisition->lining && may;
    if (GUARD(leaves_queue) && acquisition->lining && !may)
        leave_inbox(acquisition, out);
    else if (begins && acquisition->listening)
        leave_topic(acquisition, out);
    acquisition->lining = acquisition->lining || begins;
    note_rank(acquisition, event, out);
    bool granted = is_granted(acquisition);
    if (is_given(acquisition, event, out))
        return TL_END;
    if (GUARD(looks_after_grant) && granted) /* look at a grant that is not believed */
        acquisition->woken = acquisition->called = true;
    bool ends = GUARD(rest_ends_wait) && rests && acquisition->job.acquire.rest_ends_wait;
    tl_mono next = retrier->planned;
    if (ends || !tl__retry_is_planned(retrier)) {
        int64_t pause = ends ? -1 : tl__retry_pause_ms(retrier, event->now);
        if (pause < 0)
            return give_up(acquisition, event, acquisition->uncertain ? TL_EUNCERTAIN : TL_EBUSY,
                           out);
        if (retrier->strategy.kind == TL_RETRY_AUTO)
            pause = acquisition->lining ? line_pause(acquisition, event)
                                        : auto_pause(acquisition, event);
        next = tl__retry_in_time(retrier, event->now, tl__mono_add_ms(event->now, pause));
    }
    if (begins) {
        listen_to_inbox(acquisition, out);
        return tl__retry_pause(retrier, acquisition->armed ? event->now : next, out);
    }
    if (!acquisition->listening && !out->disarm && !acquisition->attempt.result.acquire.silent)
        listen(acquisition, out);
    if (!acquisition->woken)
        return tl__retry_pause(retrier, next, out);
    retrier->planned = next;
    tl_status status = tl__retry_pause(retrier, event->now, out);
    retrier->extra = !acquisition->called;
    return status;
}

static void doubt(tl_acquisition *acquisition, tl_mono harmless, bool killable) {
    if (!acquisition->uncertain)
        acquisition->harmless = acquisition->unkillable = (tl_mono){0};
    acquisition->harmless = tl__mono_max(acquisition->harmless, harmless);
    if (!killable)
        acquisition->unkillable = tl__mono_max(acquisition->unkillable, harmless);
    acquisition->uncertain = GUARD(doubt_remembered);
}

/* A native acquire in flight ends with its connection: note that connection. */
static bool note_native(tl_acquisition *acquisition, const tl_event *event) {
    if (!event->asked.native || event->asked.id == 0 || !GUARD(native_is_ended))
        return false;
    acquisition->kill_id = event->asked.id;
    acquisition->kill_run = event->asked.run;
    return true;
}

/* No reply, or a failure that may pass: retry with the same token. After a first lost request retry at once,
 * since it may have taken effect. */
static tl_status failed(tl_acquisition *acquisition, const tl_event *event, tl_err code,
                        tl_out *out) {
    if (!tl__may_pass(code))
        return give_up(acquisition, event, code, out);
    tl_mono next = tl__retry_after(&acquisition->retry, event->now, code == TL_EUNCERTAIN);
    return tl__retry_pause(&acquisition->retry, next, out);
}

/* The server grants nothing before the hint. */
static tl_status withheld(tl_acquisition *acquisition, const tl_event *event, tl_out *out) {
    int64_t ms = tl__until_hint_ms(acquisition->attempt.result.acquire.hint, INT64_MAX, event->now,
                                   &acquisition->retry.random);
    tl_mono next = tl__mono_add_ms(event->now, ms);
    note_rank(acquisition, event, out);
    acquisition->retry.failures++;
    if (acquisition->retry.wait_ms == 0 && !tl__mono_before(next, acquisition->retry.limit))
        return run_out(acquisition, event, out);
    return tl__retry_pause(&acquisition->retry, next, out);
}

/* Did the wait's limit leave this attempt less time than an attempt has otherwise? */
static bool was_cut_short(const tl_acquisition *acquisition) {
    tl_mono by = tl__mono_add_ms(acquisition->retry.began, acquisition->job.attempt_ms);
    return !tl__mono_before(by, acquisition->retry.limit);
}

/* The server found the request late before the wait's limit, since it goes by the earliest time that its clock can
 * show. That is no failure: ask once more if there is time for that, else the last reply counts. */
static tl_status late(tl_acquisition *acquisition, const tl_event *event, tl_out *out) {
    int64_t pause = tl__retry_poll_ms(&acquisition->retry);
    tl_mono next = tl__retry_in_time(&acquisition->retry, event->now,
                                     tl__mono_add_ms(event->now, pause));
    return tl__retry_pause(&acquisition->retry, next, out);
}

static tl_status attempt_ended(tl_acquisition *acquisition, const tl_event *event, tl_out *out) {
    const tl_result *result = &acquisition->attempt.result;
    if (result->code == TL_OK &&
        (!GUARD(late_success) || tl__mono_before(event->now, result->deadline))) {
        acquisition->result = *result;
        note_time(acquisition, event, out);
        note_doubt(acquisition);
        return TL_END;
    }
    if (result->code == TL_OK) { /* confirmed too late to be of use: ask for it again */
        acquisition->unwanted = GUARD(unwanted_remembered);
        tl__retry_say(&acquisition->retry, TL_LITERAL("the confirmation came too late"));
        return failed(acquisition, event, TL_EUNAVAILABLE, out);
    }
    if (result->code == TL_EBUSY)
        return busy(acquisition, event, out);
    bool left = GUARD(late_but_left) &&
                result->maybe; /* a stamp that could not be renewed in time */
    if (result->late && !left && acquisition->retry.answered) {
        bool ends = !tl__mono_before(event->now, acquisition->retry.limit);
        if (ends) /* the server did not fail: its last reply counts */
            return run_out(acquisition, event, out);
        if (GUARD(late_before_limit) && was_cut_short(acquisition))
            return late(acquisition, event, out);
    }
    bool killable = event->kind == TL_FAILED && event->failed.maybe_sent &&
                    note_native(acquisition, event);
    if (result->maybe && result->code == TL_EUNCERTAIN)
        doubt(acquisition, result->harmless, killable);
    else if (result->maybe) {
        acquisition->unwanted = GUARD(unwanted_remembered);
        tl__retry_lift_limit(&acquisition->retry);
    }
    /* Without memory for the reply the result is unknown, and asking again would not help. */
    bool unknown = GUARD(unread_for_memory) && event->kind == TL_FAILED &&
                   event->failed.why == TL_ENOMEM;
    tl_err code = unknown ? TL_ENOMEM : result->code;
    tl__retry_blame(&acquisition->retry, event, code, tl__bytes_of(out->message));
    bool waits = GUARD(sleeps_until_hint) && result->acquire.hint.ns != TL_NEVER.ns &&
                 tl__may_pass(code);
    return waits ? withheld(acquisition, event, out) : failed(acquisition, event, code, out);
}

/* ---- cleaning up ----------------------------------------------------------------------------- */

static tl_status drop(tl_acquisition *acquisition, const tl_event *event, tl_out *out) {
    acquisition->job.hold.proof.unlimited = is_unlimited(acquisition);
    tl_status status = tl__attempt_begin(&acquisition->attempt, &acquisition->job, TL_RELEASE,
                                         ++acquisition->ticket, acquisition->retry.limit, event,
                                         out);
    acquisition->retry.next = TL_NEVER;
    out->until = acquisition->retry.limit;
    return status;
}

/* A look in flight would put our entry back into the queue: `spent` in S stops only the token that was
 * released last. */
static bool may_return(const tl_acquisition *acquisition, const tl_event *event) {
    return acquisition->job.queue.stands && acquisition->uncertain &&
           tl__mono_before(event->now, acquisition->harmless) &&
           tl__mono_before(acquisition->harmless, acquisition->retry.limit);
}

static tl_status reach_to_kill(tl_acquisition *acquisition, tl_out *out) {
    acquisition->retry.next = TL_NEVER;
    acquisition->killing = false;
    out->until = acquisition->retry.limit;
    tl__out_send(out, ++acquisition->ticket,
                 GUARD(reach_has_limit) ? acquisition->retry.limit : TL_NEVER);
    return TL_GO;
}

/* First close the connection whose request may come late, then undo what the request may have done. */
static tl_status clean_kill(tl_acquisition *acquisition, const tl_event *event, tl_out *out) {
    out->until = acquisition->retry.limit;
    if (event->kind == TL_REPLY && !acquisition->killing && must_kill(acquisition, event)) {
        acquisition->killing = true;
        return kill(acquisition, event, out);
    }
    if (acquisition->killing)
        killed(acquisition, event);
    if (event->kind == TL_REPLY) {
        acquisition->kill_id = 0;
        return GUARD(undone_after_kill) ? drop(acquisition, event, out) : TL_END;
    }
    acquisition->retry.next = tl__retry_after(&acquisition->retry, event->now, false);
    out->until = tl__retry_wakes(&acquisition->retry);
    return TL_GO;
}

static tl_status clean(tl_acquisition *acquisition, const tl_event *event, tl_out *out) {
    if (!tl__mono_before(event->now, acquisition->retry.limit))
        return TL_END; /* everything has expired by now */
    if (!tl__mono_before(event->now, acquisition->retry.next))
        return acquisition->kill_id ? reach_to_kill(acquisition, out)
                                    : drop(acquisition, event, out);
    bool answer = event->kind == TL_REPLY || event->kind == TL_FAILED;
    if (answer && acquisition->kill_id && event->asked.ticket == acquisition->ticket)
        return clean_kill(acquisition, event, out);
    /* Until the connection is closed no release is in flight. */
    if (answer && !acquisition->kill_id &&
        tl__attempt_step(&acquisition->attempt, &acquisition->job, event, out) == TL_END) {
        bool done = !tl__may_pass(acquisition->attempt.result.code);
        if (done && !may_return(acquisition, event))
            return TL_END;
        acquisition->retry.next = done ? acquisition->harmless
                                       : tl__retry_after(&acquisition->retry, event->now, false);
    }
    out->until = tl__retry_wakes(&acquisition->retry);
    return TL_GO;
}

/* ---- in the queue ---------------------------------------------------------------------------- */

/* A grant came while a look was in flight. It counts if the look's reply does not know of it: then the server
 * executed the look before the grant. */
static bool is_granted(const tl_acquisition *acquisition) {
    return acquisition->granted &&
           (acquisition->attempt.result.acquire.server_us <= acquisition->grant.at_us ||
            !GUARD(later_look_counts));
}

/* May a request of ours that releases K still be executed? */
static bool may_be_given_back(const tl_acquisition *acquisition, const tl_event *event) {
    return GUARD(not_while_given_back) && acquisition->attempt.result.acquire.giving &&
           tl__mono_before(event->now, acquisition->attempt.result.acquire.hint);
}

static bool is_given(tl_acquisition *acquisition, const tl_event *event, tl_out *out) {
    bool granted = is_granted(acquisition) && !may_be_given_back(acquisition, event);
    tl_mono deadline;
    acquisition->granted = false;
    if (!granted || !tl__line_believe(&acquisition->grant, acquisition->run, &acquisition->job,
                                      event, &deadline))
        return false;
    int64_t others = acquisition->grant.others < INT32_MAX ? acquisition->grant.others : INT32_MAX;
    acquisition->result = (tl_result){
        .code = TL_OK,
        .deadline = deadline,
        .proved = event->server->anchor.at, /* it maps the server's time of the grant to ours */
        .proof = {.kind = TL_PROOF_TOKEN, .held_by = 1 + TL_TOKEN},
        .acquire = {.fence = acquisition->grant.fence, .waiting = (int32_t)others}};
    note_time(acquisition, event, out);
    note_doubt(acquisition);
    acquisition->result.proof.unbound =
        true; /* the server keeps K only for a short time until the first renewal */
    return true;
}

/* ---- events ---------------------------------------------------------------------------------- */

static tl_status begin(tl_acquisition *acquisition, const tl_event *event, tl_out *out) {
    acquisition->lining = acquisition->lining && may_line(acquisition, event);
    if (acquisition->lining)
        listen_to_inbox(acquisition, out);
    tl__retry_begin(&acquisition->retry, event->now);
    return reach(acquisition, out);
}

static tl_status reach_failed(tl_acquisition *acquisition, const tl_event *event, tl_out *out) {
    return tl__retry_unreached(&acquisition->retry, event,
                               acquisition->uncertain || acquisition->unwanted)
               ? failed(acquisition, event, event->failed.why, out)
               : run_out(acquisition, event, out);
}

static tl_status on_answer(tl_acquisition *acquisition, const tl_event *event, tl_out *out) {
    if (event->asked.ticket != acquisition->ticket || acquisition->retry.doing == TL_PAUSES)
        return tl__retry_stay(&acquisition->retry, out);
    if (acquisition->retry.doing == TL_ASKS) {
        tl_status status = tl__attempt_step(&acquisition->attempt, &acquisition->job, event, out);
        return status == TL_END ? attempt_ended(acquisition, event, out) : status;
    }
    if (acquisition->retry.doing == TL_KILLS) {
        killed(acquisition, event);
    } else if (event->kind == TL_REPLY && must_kill(acquisition, event)) {
        acquisition->retry.doing = TL_KILLS;
        return kill(acquisition, event, out);
    }
    return event->kind == TL_REPLY ? take(acquisition, event, out)
                                   : reach_failed(acquisition, event, out);
}

static tl_status on_timer(tl_acquisition *acquisition, const tl_event *event, tl_out *out) {
    if (acquisition->retry.doing != TL_PAUSES)
        return TL_GO;
    if (!tl__mono_before(event->now, acquisition->retry.limit))
        return run_out(acquisition, event, out);
    if (!tl__mono_before(event->now, acquisition->retry.next))
        return reach(acquisition, out);
    return tl__retry_stay(&acquisition->retry, out);
}

/* The lock may have changed, or notifications have stopped: look at once, unless the server is failing. */
static tl_status on_wake(tl_acquisition *acquisition, const tl_event *event, tl_out *out) {
    if (event->kind == TL_WATCHED)
        acquisition->watching = event->armed;
    else
        acquisition->armed = event->kind == TL_WOKEN || event->armed;
    acquisition->woken = GUARD(wake_remembered);
    acquisition->called = acquisition->called || event->kind == TL_WOKEN;
    if (acquisition->retry.doing == TL_PAUSES && acquisition->retry.failures == 0) {
        acquisition->retry.extra = event->kind != TL_WOKEN;
        acquisition->retry.planned = acquisition->retry.next;
        acquisition->retry.next = GUARD(wakes_at_once) ? event->now : acquisition->retry.planned;
    }
    return on_timer(acquisition, event, out);
}

/* Believe the grant, or look. */
static tl_status on_granted(tl_acquisition *acquisition, const tl_event *event, tl_out *out) {
    TL_ASSERT(event->kind == TL_GRANTED);
    acquisition->granted = acquisition->job.queue.stands;
    acquisition->grant = *event->grant;
    if (acquisition->retry.doing == TL_ASKS)
        return TL_GO;
    acquisition->attempt.result.acquire.server_us = 0; /* an earlier reply doesn't matter */
    if (is_given(acquisition, event, out))
        return TL_END;
    if (acquisition->retry.doing == TL_PAUSES && acquisition->retry.failures == 0)
        acquisition->retry.next = event->now;
    return on_timer(acquisition, event, out);
}

/* The waiter is now one of the first three, which watch for the holder's expiry. That also counts if a look
 * is in flight, which the server may have executed before. */
static tl_status on_near(tl_acquisition *acquisition, const tl_event *event, tl_out *out) {
    acquisition->near = GUARD(near_looks_soon);
    if (acquisition->near && acquisition->retry.doing == TL_PAUSES &&
        acquisition->retry.failures == 0)
        acquisition->retry.next = tl__mono_min(
            acquisition->retry.next,
            tl__mono_add_ms(event->now, looks_for_rest(acquisition) ? 0 : TL_LOOK_AGAIN_MS));
    return on_timer(acquisition, event, out);
}

static tl_status on_cancel(tl_acquisition *acquisition, const tl_event *event, tl_out *out) {
    if (GUARD(cancel_in_doubt) && acquisition->retry.doing == TL_ASKS)
        doubt(acquisition,
              acquisition->job.queue.join ? tl__attempt_harmless(&acquisition->attempt) : TL_NEVER,
              note_native(acquisition, event));
    tl__retry_say(&acquisition->retry, TL_LITERAL("cancelled"));
    return give_up(acquisition, event, TL_ECANCELLED, out);
}

tl_status tl__acquire_step(void *machine, const tl_event *event, tl_out *out) {
    tl_acquisition *acquisition = machine;
    if (acquisition->retry.doing == TL_CLEANS)
        return clean(acquisition, event, out);
    switch (event->kind) {
    case TL_START: return begin(acquisition, event, out);
    case TL_REPLY:
    case TL_FAILED: return on_answer(acquisition, event, out);
    case TL_ARMED:
    case TL_WATCHED:
    case TL_WOKEN: return on_wake(acquisition, event, out);
    case TL_GRANTED: return on_granted(acquisition, event, out);
    case TL_NEAR: return on_near(acquisition, event, out);
    case TL_TIMER: return on_timer(acquisition, event, out);
    case TL_CANCEL: return on_cancel(acquisition, event, out);
    case TL_CHANGED: break; /* only for holds */
    }
    return TL_GO;
}
