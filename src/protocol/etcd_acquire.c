/*
 * Acquiring a lock on etcd. It reports the lock as held only after a reply which says that its own key
 * exists, under a lease that lasts, and that no older key of K exists. It must try to delete everything that
 * it may leave behind.
 */
#include "protocol/etcd_acquire.h"

#include <stdio.h>

#include "ground/guard.h"
#include "protocol/line.h"

#define PARTS 3 /* the key is renewed at a third of its lifetime */

typedef enum { TRY, JOIN, LOOK, KEEP } word;

void tl__etcd_acquire_init(tl_etcd_acquisition *acquisition, const tl_job *job,
                           const tl_retry *retry, int64_t wait_ms, int64_t connect_ms,
                           uint64_t seed) {
    *acquisition = (tl_etcd_acquisition){.job = *job,
                                         .retry = tl__retry_init(retry, wait_ms, connect_ms, seed)};
    acquisition->id = tl__etcd_id_draw(tl__random_next(&acquisition->retry.random));
    acquisition->job.hold.proof = (tl_proof){0};
    acquisition->spare = job->spare;
}

static bool stands_in_line(const tl_etcd_acquisition *acquisition) {
    const tl_retry *strategy = &acquisition->retry.strategy;
    return acquisition->retry.wait_ms != 0 && strategy->kind == TL_RETRY_AUTO &&
           strategy->max_attempts == 0;
}

/* ---- sending --------------------------------------------------------------------------------- */

static tl_status reach(tl_etcd_acquisition *acquisition, tl_out *out) {
    acquisition->retry.doing = TL_REACHES;
    acquisition->woken = false; /* the state will be read after this */
    tl__out_send(out, ++acquisition->ticket, acquisition->retry.limit);
    return TL_GO;
}

static word next_word(const tl_etcd_acquisition *acquisition, const tl_event *event) {
    if (acquisition->id.revision == 0)
        return stands_in_line(acquisition) ? JOIN : TRY;
    return tl__mono_before(event->now, acquisition->keep_at) || !GUARD(waiter_keeps_key) ? LOOK
                                                                                         : KEEP;
}

/* Choose the lease of the request that is built now: the spare one for a key that doesn't exist yet, or a new
 * one. Later leases are higher. */
static void choose_lease(tl_etcd_acquisition *acquisition, const tl_event *event, word word) {
    acquisition->by_spare = (word == TRY || word == JOIN) &&
                            tl__etcd_is_worth(&acquisition->spare, event->now,
                                              event->server->drift_ppm);
    if (acquisition->by_spare) {
        int64_t ahead = tl__etcd_ahead(&acquisition->id, acquisition->spare.lease, event->now);
        if (GUARD(above_spare_lease) && ahead > acquisition->ahead)
            acquisition->ahead = ahead;
        acquisition->lease = acquisition->spare.lease;
    } else {
        acquisition->lease = tl__etcd_lease(&acquisition->id, acquisition->ahead, event->now);
    }
}

/* The key before ours may be another waiter's. Whether the lock rests shows the first one. */
static bool sees_first(const tl_etcd_acquisition *acquisition) {
    return acquisition->job.acquire.rest_ends_wait && acquisition->word != TRY;
}

static tl_status ask(tl_etcd_acquisition *acquisition, const tl_event *event, word word,
                     tl_out *out) {
    static const char *const names[] = {
        [TRY] = "TRY", [JOIN] = "JOIN", [LOOK] = "LOOK", [KEEP] = "KEEP"};
    tl_mono by = tl__mono_min(tl__mono_add_ms(event->now, acquisition->job.attempt_ms),
                              acquisition->retry.limit);
    tl_send *send = tl__out_send(out, ++acquisition->ticket, by);
    acquisition->word = (uint8_t)word;
    acquisition->retry.began = event->now;
    choose_lease(acquisition, event, word);
    if (word != LOOK && !acquisition->by_spare)
        tl__etcd_grant(send, acquisition->lease, acquisition->job.ttl_ms, out);
    if (sees_first(acquisition))
        tl__etcd_see(send, acquisition->job.key, 1, 1, out);
    tl__etcd_say(send, tl__bytes_of(names[word]), acquisition->job.key,
                 tl__bytes_of(acquisition->id.suffix));
    if (word == LOOK || word == KEEP)
        tl__etcd_add_int(send, acquisition->id.revision, out);
    if (word != LOOK)
        tl__etcd_add_int(send, acquisition->lease, out);
    if (word == TRY || word == JOIN)
        tl__etcd_add(send, acquisition->job.owner);
    return TL_GO;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Is it the client's spare lease? That one isn't revoked: see tl_etcd_proof.spared. If a request in flight
 * still puts the key under it, the key lasts no longer than this lease. */
static bool is_spare(const tl_etcd_acquisition *acquisition, int64_t lease) {
    return GUARD(former_spare_expires) && lease != 0 && lease == acquisition->job.spare.lease;
}

static void revoke_later(tl_etcd_acquisition *acquisition, int64_t lease) {
    if (lease == 0 || is_spare(acquisition, lease))
        return;
    acquisition->doubtful[1] = acquisition->doubtful[0];
    acquisition->doubtful[0] = lease;
}

/* The caller gets `code`. Then the machine deletes in the background what it may have left behind. */
static tl_status give_up(tl_etcd_acquisition *acquisition, const tl_event *event, tl_err code,
                         tl_out *out) {
    acquisition->result = (tl_result){.code = code,
                                      .maybe = acquisition->uncertain ||
                                               acquisition->id.revision > 0,
                                      .acquire = {.rests = code == TL_EBUSY && acquisition->rests}};
    tl__retry_report(&acquisition->retry, out);
    if (!acquisition->result.maybe || !GUARD(cleans_up_key))
        return TL_END;
    revoke_later(acquisition, acquisition->under); /* nothing else uses it */
    tl__retry_clean(&acquisition->retry, &acquisition->job, event->now, event->server->drift_ppm);
    acquisition->retry.next = event->now;
    out->until = event->now;
    return TL_DETACH;
}

static tl_status run_out(tl_etcd_acquisition *acquisition, const tl_event *event, tl_out *out) {
    return give_up(acquisition, event,
                   tl__retry_ran_out(&acquisition->retry, acquisition->uncertain), out);
}

static tl_status begin_asking(tl_etcd_acquisition *acquisition, const tl_event *event,
                              tl_out *out) {
    tl__retry_ask(&acquisition->retry, event->now, acquisition->job.attempt_ms);
    if (tl__retry_is_too_late(&acquisition->retry, event))
        return run_out(acquisition, event, out);
    return ask(acquisition, event, next_word(acquisition, event), out);
}

static tl_status held(tl_etcd_acquisition *acquisition, tl_out *out) {
    acquisition->result = (tl_result){
        .code = TL_OK,
        .deadline = acquisition->deadline,
        .proved = acquisition->proved,
        .proof = {.kind = TL_PROOF_ETCD,
                  .held_by = 1 + TL_TOKEN,
                  .doubted = acquisition->uncertain,
                  .etcd = {.lease = acquisition->under,
                           .ahead = acquisition->ahead,
                           .changed = acquisition->changed,
                           .spared = is_spare(acquisition, acquisition->under)}},
        .acquire = {.fence = (uint64_t)acquisition->id.revision}};
    out->disarm = acquisition->listening;
    return TL_END;
}

/* ---- pauses ---------------------------------------------------------------------------------- */

/* No reply, or a failure that may pass. */
static tl_status failed(tl_etcd_acquisition *acquisition, const tl_event *event, tl_err code,
                        tl_out *out) {
    if (!tl__may_pass(code))
        return give_up(acquisition, event, code, out);
    tl_mono next = tl__retry_after(&acquisition->retry, event->now, code == TL_EUNCERTAIN);
    return tl__retry_pause(&acquisition->retry, next, out);
}

/* The request may have created the key, or may still do so. etcd may execute the deletion of the key before it, as
 * the two go over different streams or connections. A new lease is revoked, and the key goes with it. A spare
 * one isn't: so a deletion that begins sooner than a moment later is repeated then. It takes the time that a
 * shared connection gives to such a request (driver.c). */
static void doubt(tl_etcd_acquisition *acquisition, const tl_event *event) {
    if (acquisition->word == LOOK || acquisition->word == KEEP) /* they create nothing */
        return;
    acquisition->uncertain = true;
    if (GUARD(undo_may_overtake) && acquisition->by_spare)
        acquisition->undo_again = tl__mono_add_ms(event->now, acquisition->job.attempt_ms / 4);
    if (GUARD(doubted_not_spared) && acquisition->by_spare)
        acquisition->spare.lease = 0;
    revoke_later(acquisition, acquisition->lease);
}

/* Note that another client holds the lock, that it rests by its first key, or that the key `before` blocks it.
 * NULL: that key isn't known. */
static void report_busy(tl_etcd_acquisition *acquisition, const tl_etcd_found *before,
                        const tl_etcd_found *first, tl_out *out) {
    char obstacle[TL_ETCD_OBSTACLE];
    tl_bytes message = TL_LITERAL("another holds it"), owner;
    acquisition->rests = first && tl__etcd_rests(acquisition->job.key, first, &owner) &&
                         GUARD(etcd_rest_is_said);
    if (acquisition->rests) {
        message = TL_LITERAL(TL_RESTS);
    } else if (before && !tl__etcd_contends(acquisition->job.key, before)) {
        tl__etcd_obstacle(obstacle, acquisition->job.key, before);
        message = tl__bytes_of(obstacle);
    }
    tl__retry_held(&acquisition->retry, message, out);
}

static bool rest_ends_wait(const tl_etcd_acquisition *acquisition) {
    return acquisition->rests && acquisition->job.acquire.rest_ends_wait &&
           GUARD(etcd_rest_ends_wait);
}

static tl_status give_up_busy(tl_etcd_acquisition *acquisition, const tl_event *event,
                              tl_out *out) {
    return give_up(acquisition, event, acquisition->uncertain ? TL_EUNCERTAIN : TL_EBUSY, out);
}

/* ---- trying ---------------------------------------------------------------------------------- */

static tl_status busy(tl_etcd_acquisition *acquisition, const tl_event *event, tl_out *out) {
    tl_retrier *retrier = &acquisition->retry;
    tl_etcd_found found;
    const tl_etcd_found *first = tl__etcd_find(&event->replied.reply[event->replied.count - 1], 1,
                                               0, &found)
                                     ? &found
                                     : NULL;
    report_busy(acquisition, first, first, out);
    int64_t ms = tl__retry_pause_ms(retrier, event->now);
    if (ms < 0 || rest_ends_wait(acquisition))
        return give_up_busy(acquisition, event, out);
    if (retrier->strategy.kind == TL_RETRY_AUTO)
        ms = tl__retry_poll_ms(retrier);
    return tl__retry_pause(
        retrier, tl__retry_in_time(retrier, event->now, tl__mono_add_ms(event->now, ms)), out);
}

/* ---- in the queue ---------------------------------------------------------------------------- */

/* If another key is before ours now, listen for its deletion, unless its name is too long. */
static void listen(tl_etcd_acquisition *acquisition, const tl_etcd_found *before, int64_t revision,
                   tl_out *out) {
    if (acquisition->behind == before->created)
        return;
    if (GUARD(topic_is_kept))
        acquisition->topic_at ^= 1;
    char *topic = acquisition->topic[acquisition->topic_at];
    int n = snprintf(topic, sizeof acquisition->topic[0], "%lld ", (long long)revision);
    out->disarm = acquisition->listening;
    acquisition->behind = before->created;
    acquisition->listening = acquisition->armed = false;
    if ((size_t)n + before->key.n > sizeof acquisition->topic[0])
        return;
    memcpy(topic + n, before->key.p, before->key.n);
    acquisition->listening = true;
    tl__out_listen(out, tl__bytes(topic, (size_t)n + before->key.n));
}

static tl_status wait_behind(tl_etcd_acquisition *acquisition, const tl_event *event,
                             const tl_etcd_found *before, tl_out *out) {
    tl_etcd_found first;
    bool seen = sees_first(acquisition) && event->replied.count > 1 &&
                tl__etcd_find(&event->replied.reply[event->replied.count - 2], 0, 0, &first);
    report_busy(acquisition, before, seen ? &first : before, out);
    if (rest_ends_wait(acquisition))
        return give_up_busy(acquisition, event, out);
    listen(acquisition, before, tl__etcd_revision(&event->replied.reply[event->replied.count - 1]),
           out);
    int64_t ms = acquisition->armed ? TL_LOOK_AGAIN_MS : tl__retry_poll_ms(&acquisition->retry);
    tl_mono next = tl__mono_min(tl__mono_add_ms(event->now, ms), acquisition->keep_at);
    next = tl__retry_in_time(&acquisition->retry, event->now, next);
    return tl__retry_pause(&acquisition->retry, acquisition->woken ? event->now : next, out);
}

/* No key is before ours: the lock is held. If too little of the lifetime is left, renew first. */
static tl_status is_first(tl_etcd_acquisition *acquisition, const tl_event *event, tl_out *out) {
    int64_t left_ns = tl__ns_until(event->now, acquisition->deadline);
    int64_t least_ns = acquisition->word == LOOK ? acquisition->job.ttl_ms * TL_NS_PER_MS / 2 : 0;
    if (left_ns > least_ns || !GUARD(key_held_in_time))
        return held(acquisition, out);
    if (tl__mono_before(event->now, acquisition->retry.limit))
        return ask(acquisition, event, KEEP, out);
    tl__retry_say(&acquisition->retry, TL_LITERAL("the confirmation came too late"));
    return run_out(acquisition, event, out);
}

/* The lease of the request in flight, by its reply. lease 0: etcd didn't report its lifetime. */
static tl_spare_lease granted(const tl_etcd_acquisition *acquisition, const tl_event *event) {
    int64_t ms = acquisition->by_spare
                     ? 0
                     : tl__etcd_granted_ms(event->replied.reply, acquisition->job.ttl_ms);
    tl_mono deadline = tl__etcd_deadline(GUARD(lease_from_request) ? acquisition->retry.began
                                                                   : event->now,
                                         ms, event->server->drift_ppm);
    return acquisition->by_spare ? acquisition->spare
                                 : (tl_spare_lease){ms > 0 ? acquisition->lease : 0, ms, deadline};
}

/* Note the lifetime that this request gave to the key. false: etcd didn't report it. */
static bool prove(tl_etcd_acquisition *acquisition, const tl_event *event) {
    tl_spare_lease own = granted(acquisition, event);
    if (own.lease == 0)
        return false;
    int64_t left_ns = acquisition->by_spare ? tl__ns_until(acquisition->retry.began, own.deadline)
                                            : own.ttl_ms * TL_NS_PER_MS;
    acquisition->deadline = GUARD(spare_keeps_deadline)
                                ? own.deadline
                                : tl__mono_add_ms(acquisition->retry.began, own.ttl_ms);
    acquisition->keep_at = tl__mono_add_ns(acquisition->retry.began, left_ns / PARTS);
    acquisition->proved = acquisition->by_spare && GUARD(spare_proved_when_granted)
                              ? tl__mono_add_ns(own.deadline,
                                                -tl__rate_least_ns(own.ttl_ms * TL_NS_PER_MS,
                                                                   event->server->drift_ppm))
                              : acquisition->retry.began;
    acquisition->under = own.lease;
    acquisition->changed = tl__etcd_revision(&event->replied.reply[event->replied.count - 1]);
    if (acquisition->by_spare)
        acquisition->spare.lease = 0;
    return true;
}

/* The key exists, as far as is known, but its lifetime is unknown. */
static void unproved(tl_etcd_acquisition *acquisition) {
    acquisition->deadline = acquisition->keep_at = (tl_mono){0};
    acquisition->under = acquisition->changed = 0;
}

/* Our key expired or was deleted: create it again. */
static tl_status begin_anew(tl_etcd_acquisition *acquisition, const tl_event *event, tl_out *out) {
    acquisition->id.revision = 0;
    acquisition->behind = 0;
    unproved(acquisition);
    if (!tl__mono_before(event->now, acquisition->retry.limit))
        return run_out(acquisition, event, out);
    return ask(acquisition, event, next_word(acquisition, event), out);
}

/* Handle a response with our key and the one before it, as LOOK and KEEP return it. */
static tl_status judge(tl_etcd_acquisition *acquisition, const tl_event *event,
                       const tl_reply *answer, tl_out *out) {
    tl_etcd_found mine, before;
    if (!tl__etcd_find(answer, 0, 0, &mine) || mine.created != acquisition->id.revision)
        return begin_anew(acquisition, event, out);
    return GUARD(waits_behind_older) && tl__etcd_find(answer, 0, 1, &before)
               ? wait_behind(acquisition, event, &before, out)
               : is_first(acquisition, event, out);
}

/* ---- replies --------------------------------------------------------------------------------- */

static tl_status created(tl_etcd_acquisition *acquisition, const tl_event *event,
                         const tl_reply *answer, tl_out *out) {
    tl_etcd_found before;
    acquisition->id.revision = tl__etcd_revision(answer);
    if (!prove(acquisition, event)) {
        unproved(acquisition);
        return ask(acquisition, event, KEEP, out);
    }
    return GUARD(joined_looks_before) && acquisition->word == JOIN &&
                   tl__etcd_find(answer, 0, 0, &before)
               ? wait_behind(acquisition, event, &before, out)
               : is_first(acquisition, event, out);
}

/* The key existed already, or K had others. */
static tl_status not_created(tl_etcd_acquisition *acquisition, const tl_event *event,
                             const tl_reply *answer, tl_out *out) {
    tl_etcd_found mine;
    tl_spare_lease unused = granted(acquisition, event);
    if (unused.lease != 0 &&
        (unused.ttl_ms == acquisition->job.ttl_ms || !GUARD(spare_of_same_lifetime)))
        acquisition->spare = unused;
    if (!tl__etcd_find(answer, 0, 0, &mine))
        return busy(acquisition, event, out);
    acquisition->id.revision = mine.created;
    acquisition->ahead = tl__etcd_ahead(&acquisition->id, mine.lease, event->now);
    unproved(acquisition);
    return ask(acquisition, event, KEEP, out);
}

static tl_status kept(tl_etcd_acquisition *acquisition, const tl_event *event,
                      const tl_reply *answer, tl_out *out) {
    tl_etcd_found mine;
    if (tl__etcd_succeeded(answer)) {
        if (prove(acquisition, event))
            return judge(acquisition, event, answer, out);
        tl__retry_say(&acquisition->retry, TL_LITERAL("etcd did not report the lease's lifetime"));
        return failed(acquisition, event, TL_EUNAVAILABLE, out);
    }
    if (!tl__etcd_find(answer, 0, 0, &mine) || mine.created != acquisition->id.revision)
        return begin_anew(acquisition, event, out);
    acquisition->ahead = tl__etcd_ahead(&acquisition->id, mine.lease, event->now);
    tl__retry_say(&acquisition->retry, TL_LITERAL("a newer renewal of this key arrived first"));
    return failed(acquisition, event, TL_EUNAVAILABLE, out);
}

static tl_status answered(tl_etcd_acquisition *acquisition, const tl_event *event, tl_out *out) {
    const tl_reply *answer = &event->replied.reply[event->replied.count - 1];
    if (answer->type != TL_REPLY_ARRAY || tl__etcd_revision(answer) == 0) {
        doubt(acquisition, event);
        tl__retry_say(&acquisition->retry, TL_LITERAL("malformed reply from etcd"));
        return failed(acquisition, event, TL_ESERVER, out);
    }
    switch ((word)acquisition->word) {
    case LOOK: return judge(acquisition, event, answer, out);
    case KEEP: return kept(acquisition, event, answer, out);
    default:
        return tl__etcd_succeeded(answer) ? created(acquisition, event, answer, out)
                                          : not_created(acquisition, event, answer, out);
    }
}

/* Handle an error reply to the transaction, which decides. */
static tl_status refused(tl_etcd_acquisition *acquisition, const tl_event *event, tl_out *out) {
    const tl_reply *answer = &event->replied.reply[event->replied.count - 1];
    const tl_reply *before = event->replied.count > 1 ? event->replied.reply : NULL;
    tl_err code = acquisition->word == LOOK
                      ? tl__etcd_refusal(answer->text, out)
                      : tl__etcd_refusal_of_put(answer->text, acquisition->by_spare ? NULL : before,
                                                out);
    if (before && before->type == TL_REPLY_ERROR) /* it says why there is no lease */
        (void)tl__etcd_refusal(before->text, out);
    if (acquisition->by_spare &&
        code == TL_EUNAVAILABLE) { /* the spare lease may have expired: ask again without it */
        acquisition->spare.lease = 0;
        return ask(acquisition, event, (word)acquisition->word, out);
    }
    if (code == TL_EUNCERTAIN)
        doubt(acquisition, event);
    tl__out_place(out, event->replied.place);
    tl__retry_blame(&acquisition->retry, event, code, tl__bytes_of(out->message));
    return failed(acquisition, event, code, out);
}

static tl_status unanswered(tl_etcd_acquisition *acquisition, const tl_event *event, tl_out *out) {
    tl_err code = event->failed.maybe_sent ? TL_EUNCERTAIN : event->failed.why;
    if (GUARD(doubts_unanswered) && event->failed.maybe_sent)
        doubt(acquisition, event);
    tl__retry_blame(&acquisition->retry, event, code, event->failed.message);
    return failed(acquisition, event, code, out);
}

/* ---- cleaning up ----------------------------------------------------------------------------- */

/* Delete the key, and revoke the lease under which a request in flight would still create it. */
static tl_status undo(tl_etcd_acquisition *acquisition, const tl_event *event, tl_out *out) {
    tl_send *send = tl__out_send(
        out, ++acquisition->ticket,
        tl__mono_min(tl__mono_add_ms(event->now, acquisition->job.attempt_ms),
                     acquisition->retry.limit));
    tl__etcd_say(send, TL_LITERAL("UNDO"), acquisition->job.key,
                 tl__bytes_of(acquisition->id.suffix));
    if (acquisition->doubtful[0] != 0)
        tl__etcd_revoke(send, acquisition->doubtful[0], out);
    if (!tl__mono_before(event->now, acquisition->undo_again))
        acquisition->undo_again = (tl_mono){0};
    acquisition->retry.next = TL_NEVER;
    out->until = acquisition->retry.limit;
    return TL_GO;
}

/* It is also undone if there was no such key, or no such lease. */
static bool is_undone(tl_etcd_acquisition *acquisition, const tl_event *event, tl_out *out) {
    if (event->kind != TL_REPLY ||
        (GUARD(undo_is_confirmed) && event->replied.reply->type == TL_REPLY_ERROR))
        return false;
    bool revoked = event->replied.count < 2 || event->replied.reply[1].type != TL_REPLY_ERROR ||
                   tl__etcd_refusal(event->replied.reply[1].text, out) != TL_EUNCERTAIN;
    if (revoked) {
        acquisition->doubtful[0] = acquisition->doubtful[1];
        acquisition->doubtful[1] = 0;
    }
    return revoked && acquisition->doubtful[0] == 0;
}

/* The key was deleted. If a request in doubt may create it only now, delete it once more. */
static bool undoes_again(tl_etcd_acquisition *acquisition, const tl_event *event, tl_out *out) {
    if (acquisition->undo_again.ns == 0)
        return false;
    acquisition->retry.next = tl__mono_max(acquisition->undo_again, event->now);
    out->until = tl__retry_wakes(&acquisition->retry);
    return true;
}

static tl_status clean(tl_etcd_acquisition *acquisition, const tl_event *event, tl_out *out) {
    if (!tl__mono_before(event->now, acquisition->retry.limit))
        return TL_END; /* everything has expired by now */
    if (!tl__mono_before(event->now, acquisition->retry.next))
        return undo(acquisition, event, out);
    if ((event->kind == TL_REPLY || event->kind == TL_FAILED) &&
        event->asked.ticket == acquisition->ticket) {
        int64_t first = acquisition->doubtful[0];
        if (is_undone(acquisition, event, out))
            return undoes_again(acquisition, event, out) ? TL_GO : TL_END;
        bool more = acquisition->doubtful[0] != 0 &&
                    (acquisition->doubtful[0] != first || !GUARD(undone_before_more));
        acquisition->retry.next = more ? event->now
                                       : tl__retry_after(&acquisition->retry, event->now, false);
    }
    out->until = tl__retry_wakes(&acquisition->retry);
    return TL_GO;
}

/* ---- events ---------------------------------------------------------------------------------- */

static tl_status begin(tl_etcd_acquisition *acquisition, const tl_event *event, tl_out *out) {
    tl__retry_begin(&acquisition->retry, event->now);
    return reach(acquisition, out);
}

static tl_status reach_failed(tl_etcd_acquisition *acquisition, const tl_event *event,
                              tl_out *out) {
    bool in_doubt = acquisition->uncertain || acquisition->id.revision > 0;
    return tl__retry_unreached(&acquisition->retry, event, in_doubt)
               ? failed(acquisition, event, event->failed.why, out)
               : run_out(acquisition, event, out);
}

static tl_status on_answer(tl_etcd_acquisition *acquisition, const tl_event *event, tl_out *out) {
    if (event->asked.ticket != acquisition->ticket || acquisition->retry.doing == TL_PAUSES)
        return tl__retry_stay(&acquisition->retry, out);
    if (acquisition->retry.doing == TL_REACHES)
        return event->kind == TL_REPLY ? begin_asking(acquisition, event, out)
                                       : reach_failed(acquisition, event, out);
    if (event->kind == TL_FAILED)
        return unanswered(acquisition, event, out);
    return event->replied.reply[event->replied.count - 1].type == TL_REPLY_ERROR
               ? refused(acquisition, event, out)
               : answered(acquisition, event, out);
}

static tl_status on_timer(tl_etcd_acquisition *acquisition, const tl_event *event, tl_out *out) {
    if (acquisition->retry.doing != TL_PAUSES)
        return tl__retry_stay(&acquisition->retry, out);
    if (!tl__mono_before(event->now, acquisition->retry.limit))
        return run_out(acquisition, event, out);
    return tl__mono_before(event->now, acquisition->retry.next)
               ? tl__retry_stay(&acquisition->retry, out)
               : reach(acquisition, out);
}

/* The key before ours was deleted, or notifications have stopped: look, unless etcd is failing. */
static tl_status on_wake(tl_etcd_acquisition *acquisition, const tl_event *event, tl_out *out) {
    acquisition->armed = event->kind == TL_WOKEN || event->armed;
    /* etcd may have compacted the revision that we listened from: listen from a later one. */
    if (GUARD(compacted_asks_later) && !acquisition->armed)
        acquisition->behind = 0;
    acquisition->woken = acquisition->woken || event->kind == TL_WOKEN;
    if (acquisition->retry.doing == TL_PAUSES && acquisition->retry.failures == 0) {
        tl_mono later = tl__mono_min(tl__mono_add_ms(event->now, TL_LOOK_AGAIN_MS),
                                     acquisition->keep_at);
        bool looks = event->kind == TL_WOKEN || !event->armed;
        acquisition->retry.next = looks ? event->now
                                        : tl__retry_in_time(&acquisition->retry, event->now, later);
    }
    return on_timer(acquisition, event, out);
}

static tl_status on_cancel(tl_etcd_acquisition *acquisition, const tl_event *event, tl_out *out) {
    if (GUARD(doubts_cancelled) && acquisition->retry.doing == TL_ASKS)
        doubt(acquisition, event);
    tl__retry_say(&acquisition->retry, TL_LITERAL("cancelled"));
    return give_up(acquisition, event, TL_ECANCELLED, out);
}

tl_status tl__etcd_acquire_step(void *machine, const tl_event *event, tl_out *out) {
    tl_etcd_acquisition *acquisition = machine;
    if (acquisition->retry.doing == TL_CLEANS)
        return clean(acquisition, event, out);
    switch (event->kind) {
    case TL_START: return begin(acquisition, event, out);
    case TL_REPLY:
    case TL_FAILED: return on_answer(acquisition, event, out);
    case TL_ARMED:
    case TL_WOKEN: return on_wake(acquisition, event, out);
    case TL_CANCEL: return on_cancel(acquisition, event, out);
    default: return on_timer(acquisition, event, out);
    }
}
