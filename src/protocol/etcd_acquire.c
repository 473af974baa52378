/*
 * Acquiring a lock on etcd. It must never call the lock held unless an answer has said that no older key of K's was
 * there and its own was, under a lease that lasts; and never leave behind what it doesn't try to delete.
 */
#include "protocol/etcd_acquire.h"

#include <stdio.h>

#include "ground/guard.h"
#include "protocol/line.h"

#define PARTS 3 /* the key is renewed at a third of its lifetime */

typedef enum { TRY, JOIN, LOOK, KEEP } word;

void tl__etcd_acquire_init(tl_etcd_acquisition *a, const tl_job *job, const tl_retry *retry,
                           int64_t wait_ms, int64_t connect_ms, uint64_t seed) {
    *a = (tl_etcd_acquisition){.job = *job,
                               .retry = tl__retry_init(retry, wait_ms, connect_ms, seed)};
    a->id = tl__etcd_id_draw(tl__random_next(&a->retry.random));
    a->job.hold.proof = (tl_proof){0};
    a->spare = job->spare;
}

static bool stands_in_line(const tl_etcd_acquisition *a) {
    const tl_retry *strategy = &a->retry.strategy;
    return a->retry.wait_ms != 0 && strategy->kind == TL_RETRY_AUTO && strategy->max_attempts == 0;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static tl_status reach(tl_etcd_acquisition *a, tl_out *out) {
    a->retry.doing = TL_REACHES;
    a->woken = false; /* what is asked will be read after this */
    tl__out_send(out, ++a->ticket, a->retry.limit);
    return TL_GO;
}

static word next_word(const tl_etcd_acquisition *a, const tl_event *e) {
    if (a->id.revision == 0)
        return stands_in_line(a) ? JOIN : TRY;
    return tl__mono_before(e->now, a->keep_at) || !GUARD(waiter_keeps_key) ? LOOK : KEEP;
}

/* Of the request that is built now: the spare one for a key that isn't there yet, or its own. Those that follow are higher. */
static void choose_lease(tl_etcd_acquisition *a, const tl_event *e, word word) {
    a->by_spare = (word == TRY || word == JOIN) &&
                  tl__etcd_is_worth(&a->spare, e->now, e->server->drift_ppm);
    if (a->by_spare) {
        int64_t ahead = tl__etcd_ahead(&a->id, a->spare.lease, e->now);
        if (GUARD(above_spare_lease) && ahead > a->ahead)
            a->ahead = ahead;
        a->lease = a->spare.lease;
    } else {
        a->lease = tl__etcd_lease(&a->id, a->ahead, e->now);
    }
}

/* A request must not be cut short by the wait's limit alone: what it may have done would be in doubt. */
static tl_status ask(tl_etcd_acquisition *a, const tl_event *e, word word, tl_out *out) {
    static const char *const names[] = {
        [TRY] = "TRY", [JOIN] = "JOIN", [LOOK] = "LOOK", [KEEP] = "KEEP"};
    tl_mono by = tl__mono_min(tl__mono_add_ms(e->now, a->job.attempt_ms), a->retry.limit);
    tl_send *send = tl__out_send(out, ++a->ticket, by);
    a->word = (uint8_t)word;
    a->retry.began = e->now;
    choose_lease(a, e, word);
    if (word != LOOK && !a->by_spare)
        tl__etcd_grant(send, a->lease, a->job.ttl_ms, out);
    tl__etcd_say(send, tl__bytes_of(names[word]), a->job.key, tl__bytes_of(a->id.suffix));
    if (word == LOOK || word == KEEP)
        tl__etcd_add_int(send, a->id.revision, out);
    if (word != LOOK)
        tl__etcd_add_int(send, a->lease, out);
    if (word == TRY || word == JOIN)
        tl__etcd_add(send, a->job.owner);
    return TL_GO;
}

static tl_status begin_asking(tl_etcd_acquisition *a, const tl_event *e, tl_out *out) {
    tl__retry_ask(&a->retry, e->now, a->job.attempt_ms);
    return ask(a, e, next_word(a, e), out);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* That of the client's before isn't revoked: see tl_etcd_proof. A key that comes to be under it after all lasts no longer. */
static bool is_spare(const tl_etcd_acquisition *a, int64_t lease) {
    return GUARD(former_spare_expires) && lease != 0 && lease == a->job.spare.lease;
}

static void revoke_later(tl_etcd_acquisition *a, int64_t lease) {
    if (lease == 0 || is_spare(a, lease))
        return;
    a->doubtful[1] = a->doubtful[0];
    a->doubtful[0] = lease;
}

/* The caller gets `code`; what may have been left behind is deleted in the background. */
static tl_status give_up(tl_etcd_acquisition *a, const tl_event *e, tl_err code, tl_out *out) {
    a->result = (tl_result){.code = code, .maybe = a->uncertain || a->id.revision > 0};
    tl__retry_report(&a->retry, out);
    if (!a->result.maybe || !GUARD(cleans_up_key))
        return TL_END;
    revoke_later(a, a->under); /* nothing will use it any more */
    tl__retry_clean(&a->retry, &a->job, e->now, e->server->drift_ppm);
    a->retry.next = e->now;
    out->until = e->now;
    return TL_DETACH;
}

static tl_status run_out(tl_etcd_acquisition *a, const tl_event *e, tl_out *out) {
    return give_up(a, e, tl__retry_ran_out(&a->retry, a->uncertain), out);
}

static tl_status held(tl_etcd_acquisition *a, tl_out *out) {
    a->result = (tl_result){.code = TL_OK,
                            .deadline = a->deadline,
                            .proof = {.kind = TL_PROOF_ETCD,
                                      .held_by = 1 + TL_TOKEN,
                                      .doubted = a->uncertain,
                                      .etcd = {.lease = a->under,
                                               .ahead = a->ahead,
                                               .changed = a->changed,
                                               .spared = is_spare(a, a->under)}},
                            .acquire = {.fence = (uint64_t)a->id.revision}};
    out->disarm = a->listening;
    return TL_END;
}

/* ---- pauses ---------------------------------------------------------------------------------- */

/* No answer, or one that may pass. */
static tl_status failed(tl_etcd_acquisition *a, const tl_event *e, tl_err code, tl_out *out) {
    if (!tl__may_pass(code))
        return give_up(a, e, code, out);
    tl_mono next = tl__retry_after(&a->retry, e->now, code == TL_EUNCERTAIN);
    return tl__retry_pause(&a->retry, next, out);
}

static void doubt(tl_etcd_acquisition *a) {
    if (a->word == LOOK || a->word == KEEP) /* they create nothing */
        return;
    a->uncertain = true;
    if (GUARD(doubted_not_spared) && a->by_spare)
        a->spare.lease = 0;
    revoke_later(a, a->lease);
}

/* Etcd has answered, and another has it, or this key is in the way. NULL: it isn't known which. */
static void told_busy(tl_etcd_acquisition *a, const tl_etcd_found *before, tl_out *out) {
    char obstacle[TL_ETCD_OBSTACLE];
    tl_bytes words = TL_LITERAL("another holds it");
    if (before && !tl__etcd_contends(a->job.key, before)) {
        tl__etcd_obstacle(obstacle, a->job.key, before);
        words = tl__bytes_of(obstacle);
    }
    tl__retry_held(&a->retry, words, out);
}

/* ---- trying ---------------------------------------------------------------------------------- */

static tl_status busy(tl_etcd_acquisition *a, const tl_event *e, tl_out *out) {
    tl_retrier *r = &a->retry;
    tl_etcd_found first;
    told_busy(a,
              tl__etcd_find(&e->replied.reply[e->replied.count - 1], 1, 0, &first) ? &first : NULL,
              out);
    int64_t ms = tl__retry_pause_ms(r, e->now);
    if (ms < 0)
        return give_up(a, e, a->uncertain ? TL_EUNCERTAIN : TL_EBUSY, out);
    if (r->strategy.kind == TL_RETRY_AUTO)
        ms = tl__retry_poll_ms(r);
    return tl__retry_pause(r, tl__retry_in_time(r, e->now, tl__mono_add_ms(e->now, ms)), out);
}

/* ---- in line --------------------------------------------------------------------------------- */

/* Who is before us has changed: listen to that one, if its name isn't too long. */
static void listen(tl_etcd_acquisition *a, const tl_etcd_found *before, int64_t revision,
                   tl_out *out) {
    if (a->behind == before->created)
        return;
    if (GUARD(topic_is_kept))
        a->topic_at ^= 1;
    char *topic = a->topic[a->topic_at];
    int n = snprintf(topic, sizeof a->topic[0], "%lld ", (long long)revision);
    out->disarm = a->listening;
    a->behind = before->created;
    a->listening = a->armed = false;
    if ((size_t)n + before->key.n > sizeof a->topic[0])
        return;
    memcpy(topic + n, before->key.p, before->key.n);
    a->listening = true;
    tl__out_listen(out, tl__bytes(topic, (size_t)n + before->key.n));
}

static tl_status wait_behind(tl_etcd_acquisition *a, const tl_event *e, const tl_etcd_found *before,
                             tl_out *out) {
    told_busy(a, before, out);
    listen(a, before, tl__etcd_revision(&e->replied.reply[e->replied.count - 1]), out);
    int64_t ms = a->armed ? TL_LOOK_AGAIN_MS : tl__retry_poll_ms(&a->retry);
    tl_mono next = tl__mono_min(tl__mono_add_ms(e->now, ms), a->keep_at);
    next = tl__retry_in_time(&a->retry, e->now, next);
    return tl__retry_pause(&a->retry, a->woken ? e->now : next, out);
}

/* Nobody is before us. What is left of the lifetime must be worth having. */
static tl_status is_first(tl_etcd_acquisition *a, const tl_event *e, tl_out *out) {
    int64_t left_ns = tl__ns_until(e->now, a->deadline);
    int64_t least_ns = a->word == LOOK ? a->job.ttl_ms * TL_NS_PER_MS / 2 : 0;
    if (left_ns > least_ns || !GUARD(key_held_in_time))
        return held(a, out);
    if (tl__mono_before(e->now, a->retry.limit))
        return ask(a, e, KEEP, out);
    tl__retry_say(&a->retry, TL_LITERAL("confirmed too late"));
    return run_out(a, e, out);
}

/* What the request in flight has told of its lease. lease 0: etcd didn't say. */
static tl_spare_lease granted(const tl_etcd_acquisition *a, const tl_event *e) {
    int64_t ms = a->by_spare ? 0 : tl__etcd_granted_ms(e->replied.reply, a->job.ttl_ms);
    tl_mono deadline = tl__etcd_deadline(GUARD(lease_from_request) ? a->retry.began : e->now, ms,
                                         e->server->drift_ppm);
    return a->by_spare ? a->spare : (tl_spare_lease){ms > 0 ? a->lease : 0, ms, deadline};
}

/* The lifetime that this request has given to the key. false: etcd didn't say. */
static bool prove(tl_etcd_acquisition *a, const tl_event *e) {
    tl_spare_lease own = granted(a, e);
    if (own.lease == 0)
        return false;
    int64_t left_ns = a->by_spare ? tl__ns_until(a->retry.began, own.deadline)
                                  : own.ttl_ms * TL_NS_PER_MS;
    a->deadline = GUARD(spare_keeps_deadline) ? own.deadline
                                              : tl__mono_add_ms(a->retry.began, own.ttl_ms);
    a->keep_at = tl__mono_add_ns(a->retry.began, left_ns / PARTS);
    a->under = own.lease;
    a->changed = tl__etcd_revision(&e->replied.reply[e->replied.count - 1]);
    if (a->by_spare)
        a->spare.lease = 0;
    return true;
}

/* The key is there, as far as is known, and has a lifetime of which we know nothing. */
static void unproved(tl_etcd_acquisition *a) {
    a->deadline = a->keep_at = (tl_mono){0};
    a->under = a->changed = 0;
}

/* Our key isn't there any more: it expired, or was deleted. */
static tl_status begin_anew(tl_etcd_acquisition *a, const tl_event *e, tl_out *out) {
    a->id.revision = 0;
    a->behind = 0;
    unproved(a);
    if (!tl__mono_before(e->now, a->retry.limit))
        return run_out(a, e, out);
    return ask(a, e, next_word(a, e), out);
}

/* A response that has our key and the one before it, as LOOK and KEEP give it. */
static tl_status judge(tl_etcd_acquisition *a, const tl_event *e, const tl_reply *answer,
                       tl_out *out) {
    tl_etcd_found mine, before;
    if (!tl__etcd_find(answer, 0, 0, &mine) || mine.created != a->id.revision)
        return begin_anew(a, e, out);
    return GUARD(waits_behind_older) && tl__etcd_find(answer, 0, 1, &before)
               ? wait_behind(a, e, &before, out)
               : is_first(a, e, out);
}

/* ---- answers --------------------------------------------------------------------------------- */

static tl_status created(tl_etcd_acquisition *a, const tl_event *e, const tl_reply *answer,
                         tl_out *out) {
    tl_etcd_found before;
    a->id.revision = tl__etcd_revision(answer);
    if (!prove(a, e)) {
        unproved(a);
        return ask(a, e, KEEP, out);
    }
    return GUARD(joined_looks_before) && a->word == JOIN && tl__etcd_find(answer, 0, 0, &before)
               ? wait_behind(a, e, &before, out)
               : is_first(a, e, out);
}

/* The key was there, or K had others. */
static tl_status not_created(tl_etcd_acquisition *a, const tl_event *e, const tl_reply *answer,
                             tl_out *out) {
    tl_etcd_found mine;
    tl_spare_lease unused = granted(a, e);
    if (unused.lease != 0 && (unused.ttl_ms == a->job.ttl_ms || !GUARD(spare_of_same_lifetime)))
        a->spare = unused;
    if (!tl__etcd_find(answer, 0, 0, &mine))
        return busy(a, e, out);
    a->id.revision = mine.created;
    a->ahead = tl__etcd_ahead(&a->id, mine.lease, e->now);
    unproved(a);
    return ask(a, e, KEEP, out);
}

static tl_status kept(tl_etcd_acquisition *a, const tl_event *e, const tl_reply *answer,
                      tl_out *out) {
    tl_etcd_found mine;
    if (tl__etcd_succeeded(answer)) {
        if (prove(a, e))
            return judge(a, e, answer, out);
        tl__retry_say(&a->retry, TL_LITERAL("etcd didn't say for how long"));
        return failed(a, e, TL_EUNAVAILABLE, out);
    }
    if (!tl__etcd_find(answer, 0, 0, &mine) || mine.created != a->id.revision)
        return begin_anew(a, e, out);
    a->ahead = tl__etcd_ahead(&a->id, mine.lease, e->now);
    tl__retry_say(&a->retry, TL_LITERAL("a later renewal of this key came first"));
    return failed(a, e, TL_EUNAVAILABLE, out);
}

static tl_status answered(tl_etcd_acquisition *a, const tl_event *e, tl_out *out) {
    const tl_reply *answer = &e->replied.reply[e->replied.count - 1];
    if (answer->type != TL_REPLY_ARRAY || tl__etcd_revision(answer) == 0) {
        doubt(a);
        tl__retry_say(&a->retry, TL_LITERAL("malformed reply from etcd"));
        return failed(a, e, TL_ESERVER, out);
    }
    switch ((word)a->word) {
    case LOOK: return judge(a, e, answer, out);
    case KEEP: return kept(a, e, answer, out);
    default:
        return tl__etcd_succeeded(answer) ? created(a, e, answer, out)
                                          : not_created(a, e, answer, out);
    }
}

/* An error, of the transaction that counts. */
static tl_status refused(tl_etcd_acquisition *a, const tl_event *e, tl_out *out) {
    const tl_reply *answer = &e->replied.reply[e->replied.count - 1];
    tl_err code = tl__etcd_refusal(answer->text, out);
    if (e->replied.count > 1 &&
        e->replied.reply->type == TL_REPLY_ERROR) /* says why there is no lease */
        (void)tl__etcd_refusal(e->replied.reply->text, out);
    if (a->by_spare &&
        code == TL_EUNAVAILABLE) { /* it may be gone; if it isn't that, the next tells */
        a->spare.lease = 0;
        return ask(a, e, (word)a->word, out);
    }
    if (code == TL_EUNCERTAIN)
        doubt(a);
    tl__out_place(out, e->replied.place);
    tl__retry_blame(&a->retry, e, code, tl__bytes_of(out->words));
    return failed(a, e, code, out);
}

static tl_status unanswered(tl_etcd_acquisition *a, const tl_event *e, tl_out *out) {
    tl_err code = e->failed.maybe_sent ? TL_EUNCERTAIN : e->failed.why;
    if (GUARD(doubts_unanswered) && e->failed.maybe_sent)
        doubt(a);
    tl__retry_blame(&a->retry, e, code, e->failed.message);
    return failed(a, e, code, out);
}

/* ---- cleaning up ----------------------------------------------------------------------------- */

/* The key, and the lease under which a request that is still on its way would create it. */
static tl_status undo(tl_etcd_acquisition *a, const tl_event *e, tl_out *out) {
    tl_send *send = tl__out_send(
        out, ++a->ticket, tl__mono_min(tl__mono_add_ms(e->now, a->job.attempt_ms), a->retry.limit));
    tl__etcd_say(send, TL_LITERAL("UNDO"), a->job.key, tl__bytes_of(a->id.suffix));
    if (a->doubtful[0] != 0)
        tl__etcd_revoke(send, a->doubtful[0], out);
    a->retry.next = TL_NEVER;
    out->until = a->retry.limit;
    return TL_GO;
}

/* That there was no such key, or no such lease, is as good. */
static bool is_undone(tl_etcd_acquisition *a, const tl_event *e, tl_out *out) {
    if (e->kind != TL_REPLY ||
        (GUARD(undo_is_confirmed) && e->replied.reply->type == TL_REPLY_ERROR))
        return false;
    bool revoked = e->replied.count < 2 || e->replied.reply[1].type != TL_REPLY_ERROR ||
                   tl__etcd_refusal(e->replied.reply[1].text, out) != TL_EUNCERTAIN;
    if (revoked) {
        a->doubtful[0] = a->doubtful[1];
        a->doubtful[1] = 0;
    }
    return revoked && a->doubtful[0] == 0;
}

static tl_status clean(tl_etcd_acquisition *a, const tl_event *e, tl_out *out) {
    if (!tl__mono_before(e->now, a->retry.limit))
        return TL_END; /* by now it has expired */
    if (!tl__mono_before(e->now, a->retry.next))
        return undo(a, e, out);
    if ((e->kind == TL_REPLY || e->kind == TL_FAILED) && e->asked.ticket == a->ticket) {
        int64_t first = a->doubtful[0];
        if (is_undone(a, e, out))
            return TL_END;
        bool more = a->doubtful[0] != 0 && (a->doubtful[0] != first || !GUARD(undone_before_more));
        a->retry.next = more ? e->now : tl__retry_after(&a->retry, e->now, false);
    }
    out->until = tl__retry_wakes(&a->retry);
    return TL_GO;
}

/* ---- events ---------------------------------------------------------------------------------- */

static tl_status begin(tl_etcd_acquisition *a, const tl_event *e, tl_out *out) {
    tl__retry_begin(&a->retry, e->now);
    return reach(a, out);
}

static tl_status reach_failed(tl_etcd_acquisition *a, const tl_event *e, tl_out *out) {
    bool in_doubt = a->uncertain || a->id.revision > 0;
    return tl__retry_unreached(&a->retry, e, in_doubt) ? failed(a, e, e->failed.why, out)
                                                       : run_out(a, e, out);
}

static tl_status on_answer(tl_etcd_acquisition *a, const tl_event *e, tl_out *out) {
    if (e->asked.ticket != a->ticket || a->retry.doing == TL_PAUSES)
        return tl__retry_stay(&a->retry, out);
    if (a->retry.doing == TL_REACHES)
        return e->kind == TL_REPLY ? begin_asking(a, e, out) : reach_failed(a, e, out);
    if (e->kind == TL_FAILED)
        return unanswered(a, e, out);
    return e->replied.reply[e->replied.count - 1].type == TL_REPLY_ERROR ? refused(a, e, out)
                                                                         : answered(a, e, out);
}

static tl_status on_timer(tl_etcd_acquisition *a, const tl_event *e, tl_out *out) {
    if (a->retry.doing != TL_PAUSES)
        return tl__retry_stay(&a->retry, out);
    if (!tl__mono_before(e->now, a->retry.limit))
        return run_out(a, e, out);
    return tl__mono_before(e->now, a->retry.next) ? tl__retry_stay(&a->retry, out) : reach(a, out);
}

/* The one before us has gone, or nobody will tell any more: look, unless it is etcd that is away. */
static tl_status on_wake(tl_etcd_acquisition *a, const tl_event *e, tl_out *out) {
    a->armed = e->kind == TL_WOKEN || e->armed;
    /* What was wanted may not be kept any more: from a later revision, then. */
    if (GUARD(compacted_asks_later) && !a->armed)
        a->behind = 0;
    a->woken = a->woken || e->kind == TL_WOKEN;
    if (a->retry.doing == TL_PAUSES && a->retry.failures == 0) {
        tl_mono later = tl__mono_min(tl__mono_add_ms(e->now, TL_LOOK_AGAIN_MS), a->keep_at);
        bool looks = e->kind == TL_WOKEN || !e->armed;
        a->retry.next = looks ? e->now : tl__retry_in_time(&a->retry, e->now, later);
    }
    return on_timer(a, e, out);
}

static tl_status on_cancel(tl_etcd_acquisition *a, const tl_event *e, tl_out *out) {
    if (GUARD(doubts_cancelled) && a->retry.doing == TL_ASKS)
        doubt(a);
    tl__retry_say(&a->retry, TL_LITERAL("cancelled"));
    return give_up(a, e, TL_ECANCELLED, out);
}

tl_status tl__etcd_acquire_step(void *machine, const tl_event *e, tl_out *out) {
    tl_etcd_acquisition *a = machine;
    if (a->retry.doing == TL_CLEANS)
        return clean(a, e, out);
    switch (e->kind) {
    case TL_START: return begin(a, e, out);
    case TL_REPLY:
    case TL_FAILED: return on_answer(a, e, out);
    case TL_ARMED:
    case TL_WOKEN: return on_wake(a, e, out);
    case TL_CANCEL: return on_cancel(a, e, out);
    default: return on_timer(a, e, out);
    }
}
