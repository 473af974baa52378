/*
 * The common part of attempts. Nothing here knows the requests of a protocol. It must never count on more
 * time than a reply proves.
 */
#include "protocol/attempt.h"

#include <errno.h>

#include "ground/assert.h"
#include "ground/guard.h"

_Static_assert(sizeof(tl_try) <= TL_ATTEMPT_SIZE, "an attempt fits into a tl_attempt");

void tl__attempt_init(void *attempt, const tl_protocol *row, tl_op op, uint16_t ticket,
                      tl_mono until) {
    TL_ASSERT(row->size <= TL_ATTEMPT_SIZE && op <= TL_RELEASE);
    tl_try *trial = memset(attempt, 0, row->size);
    trial->row = row;
    trial->ticket = ticket;
    trial->until = until;
    trial->result.op = (uint8_t)op;
    trial->result.harmless = TL_NEVER;
    if (op == TL_ACQUIRE)
        trial->result.acquire.hint = TL_NEVER;
}

tl_mono tl__attempt_harmless(const void *attempt) {
    const tl_try *trial = attempt;
    return trial->bounded ? (GUARD(in_doubt_to_its_limit) ? trial->by : (tl_mono){0}) : TL_NEVER;
}

/* ---- sending --------------------------------------------------------------------------------- */

void tl__try_add(tl_command *command, tl_bytes arg) {
    command->argv[command->argc++] = arg;
}

void tl__try_add_all(tl_command *command, const tl_bytes *args, size_t count) {
    for (size_t i = 0; i < count; i++)
        tl__try_add(command, args[i]);
}

tl_command *tl__try_command(tl_send *send) {
    tl_command *command = &send->command[send->count++];
    command->form = TL_ARGV;
    command->script = command->argc = command->each = command->head = 0;
    command->alike = 0;
    command->exceptions = false;
    command->nkeys = command->more_argc = 0;
    command->more.n = 0;
    return command;
}

tl_command *tl__try_script(tl_send *send, tl_script script) {
    tl_command *command = tl__try_command(send);
    command->form = TL_SCRIPT;
    command->script = (uint8_t)script;
    return command;
}

void tl__try_add_wait(tl_send *send, const tl_job *job, tl_out *out) {
    if (!tl__job_waits(job))
        return;
    tl_command *command = tl__try_command(send);
    if (job->wait_fsync) {
        TL_ADD(command, TL_LITERAL("WAITAOF"), TL_LITERAL("1"));
    } else {
        tl__try_add(command, TL_LITERAL("WAIT"));
    }
    TL_ADD(command, tl__out_int(out, job->wait_replicas), tl__out_int(out, job->wait_replicas_ms));
}

tl_interval tl__try_server_us(const tl_event *event, tl_mono at) {
    if (!event->server->anchor.known)
        return (tl_interval){0, 0};
    tl_interval us = tl__anchor_server_time(&event->server->anchor, at, event->server->drift_ppm);
    return (tl_interval){us.lo > 0 ? us.lo : 0, us.hi > 0 ? us.hi : 0};
}

int64_t tl__try_not_after_us(const tl_try *attempt, const tl_event *event, bool binds) {
    tl_interval us = tl__try_server_us(event,
                                       GUARD(limit_of_attempt) ? attempt->by : attempt->until);
    bool latest = attempt->result.op == TL_RENEW && !binds && tl__try_is_outdated(attempt, event);
    return latest || !GUARD(earliest_limit) ? us.hi : us.lo;
}

/* ---- replies --------------------------------------------------------------------------------- */

tl_status tl__try_fail(tl_try *attempt, tl_err code, bool maybe, tl_bytes message, tl_out *out) {
    attempt->result.code = code;
    attempt->result.maybe = maybe;
    attempt->result.harmless = attempt->bounded
                                   ? (GUARD(in_doubt_to_its_limit) ? attempt->by : (tl_mono){0})
                                   : TL_NEVER;
    tl__out_message(out, message);
    return TL_END;
}

tl_status tl__try_malformed(tl_try *attempt, tl_out *out) {
    return tl__try_fail(attempt, TL_ESERVER, true, TL_LITERAL("malformed reply from the server"),
                        out);
}

/* As after no reply: such an end does not replace the cause of an earlier failure (note_cause in hold.c). */
static tl_status fail_by_limit(tl_try *attempt, bool maybe, tl_bytes message, tl_out *out) {
    out->sys_errno = ETIMEDOUT;
    return tl__try_fail(attempt, TL_EUNAVAILABLE, maybe, message, out);
}

tl_status tl__try_no_time(tl_try *attempt, tl_out *out) {
    static const char late[] = "no time is left for another request";
    return fail_by_limit(attempt, true, TL_LITERAL(late), out);
}

tl_status tl__try_too_late(tl_try *attempt, tl_out *out) {
    static const char message[] = "the request reached the server too late";
    attempt->result.late = true;
    return fail_by_limit(attempt, false, TL_LITERAL(message), out);
}

tl_status tl__try_quiet(tl_try *attempt, const tl_event *event, int64_t left_ms, tl_out *out) {
    static const char message[] =
        "the server has restarted or taken over: no lock is granted before quiet_ms have passed";
    (void)tl__try_fail(attempt, TL_EUNAVAILABLE, true, TL_LITERAL(message), out);
    TL_ASSERT(attempt->result.op == TL_ACQUIRE);
    if (left_ms >= 0)
        attempt->result.acquire.hint = tl__mono_add_ms(event->now, left_ms);
    return TL_END;
}

tl_status tl__try_never_quiet(tl_try *attempt, bool maybe, tl_out *out) {
    static const char message[] =
        "quiet_ms is not supported: the server's INFO doesn't show run_id and master_replid to a "
        "script; Redis 4.0 or newer does";
    return tl__try_fail(attempt, TL_EUNSUPPORTED, maybe, TL_LITERAL(message), out);
}

tl_status tl__try_busy(tl_try *attempt, const tl_event *event, int64_t left_ms) {
    TL_ASSERT(attempt->result.op == TL_ACQUIRE);
    attempt->result.code = TL_EBUSY;
    if (left_ms >= 0) /* the server keeps a key to the end of its last ms */
        attempt->result.acquire.hint = tl__mono_add_ms(event->now, tl__add_sat(left_ms, 1));
    return TL_END;
}

/* The deadline counts from when the request was built, for the shortest time that our clock can show for the
 * key's remaining lifetime. It does not count from the sending, which can be later (a new connection, a
 * script sent again as text). For below Redis 3.2 the request also says until when S keeps others out, as
 * calculated when it was built. A key without a lifetime (-1: somebody persisted it) counts as ttl_ms. */
static tl_mono deadline(const tl_try *attempt, const tl_job *job, const tl_event *event,
                        int64_t left_ms) {
    /* The key's remaining lifetime counts. A repeated request may find that its token holds K already: by its
     * own ttl_ms a holder would count on the lock for longer than the server keeps the key. */
    int64_t ms = left_ms == -1 || left_ms > job->ttl_ms || !GUARD(lifetime_left) ? job->ttl_ms
                                                                                 : left_ms;
    if (ms < 0)
        ms = 0;
    int32_t drift_ppm = GUARD(deadline_with_drift) * event->server->drift_ppm;
    int64_t ns = tl__rate_least_ns(ms * TL_NS_PER_MS,
                                   GUARD(drift_of_both_clocks) ? drift_ppm : drift_ppm / 2);
    return tl__mono_add_ns(GUARD(deadline_from_request) ? attempt->asked : event->now, ns);
}

/* The reply to WAITAOF: on how many of this server's disks (0 or 1), and of the replicas'. To WAIT: how many
 * replicas. */
static bool is_on_disk(const tl_reply *last, int64_t *ret_replicas) {
    int64_t here;
    return last->type == TL_REPLY_ARRAY && last->count == 2 &&
           tl__reply_int(&last->items[0], &here) && here >= GUARD(own_disk) &&
           tl__reply_int(&last->items[1], ret_replicas);
}

static bool has_no_file(const tl_reply *last) {
    return last->type == TL_REPLY_ERROR && tl__bytes_has_word(last->text, "appendonly");
}

static void say_unconfirmed(tl_try *attempt, const tl_job *job, const tl_reply *last, tl_out *out) {
    int64_t n;
    if (last->type == TL_REPLY_ERROR && tl__is_unknown_command(last->text))
        tl__try_refused(
            attempt, last->text, true,
            &(tl_needer){job->wait_fsync ? "wait_fsync needs" : "wait_replicas needs", NULL}, out);
    else if (job->wait_fsync && has_no_file(last))
        tl__try_fail(attempt, TL_EUNSUPPORTED, true,
                     TL_LITERAL("the server keeps no append-only file, which wait_fsync needs: "
                                "appendonly yes"),
                     out);
    else if (job->wait_fsync && !is_on_disk(last, &n))
        tl__try_fail(attempt, TL_EUNAVAILABLE, true,
                     TL_LITERAL("the server did not have the lock on its disk in time"), out);
    else
        tl__try_fail(attempt, TL_EUNAVAILABLE, true,
                     job->wait_fsync
                         ? TL_LITERAL("too few replicas had the lock on their disks in time")
                         : TL_LITERAL("too few replicas confirmed the lock in time"),
                     out);
}

/* Did enough replicas and disks confirm? The last reply says so. */
static bool confirmed(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    static const tl_reply none = {.type = TL_REPLY_NIL};
    int64_t n = 0;
    if (!tl__job_waits(job))
        return true;
    const tl_reply *last = event->replied.count > 1
                               ? &event->replied.reply[event->replied.count - 1]
                               : &none;
    bool reported = job->wait_fsync ? is_on_disk(last, &n) : tl__reply_int(last, &n);
    if (reported && n >= GUARD(enough_replicas) * job->wait_replicas)
        return true;
    say_unconfirmed(attempt, job, last, out);
    attempt->result.harmless = event->now; /* it has taken effect: nothing is still in flight */
    return false;
}

tl_status tl__try_held(tl_try *attempt, const tl_job *job, const tl_event *event, int64_t left_ms,
                       uint64_t fence, tl_out *out) {
    if (!confirmed(attempt, job, event, out))
        return TL_END;
    attempt->result.code = TL_OK;
    if (attempt->result.op == TL_ACQUIRE)
        attempt->result.acquire.fence = fence;
    attempt->result.deadline = deadline(attempt, job, event, left_ms);
    attempt->result.proved = GUARD(proved_when_built) ? attempt->asked : event->now;
    return TL_END;
}

tl_status tl__try_not_renewed(tl_try *attempt, int64_t status, tl_out *out) {
    TL_ASSERT(attempt->result.op == TL_RENEW);
    attempt->result.lost.why = status == 0 ? TL_LOST_TAKEN : TL_LOST_GONE;
    return tl__try_fail(
        attempt, TL_ELOST, false,
        status == 0 ? TL_LITERAL("another holds it") : TL_LITERAL("the key no longer exists"), out);
}

tl_status tl__try_not_released(tl_try *attempt, int64_t status, tl_out *out) {
    if (status == 0)
        return tl__try_fail(attempt, TL_ETAKEN, false,
                            TL_LITERAL("it expired or was stolen; another holds it"), out);
    return tl__try_fail(attempt, TL_EEXPIRED, false, TL_LITERAL("it expired or was deleted"), out);
}

tl_status tl__try_rested(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    if (GUARD(rest_is_confirmed))
        (void)confirmed(attempt, job, event, out);
    return TL_END;
}

/* ---- the exchange ---------------------------------------------------------------------------- */

int64_t tl__try_fallen_ns(const tl_event *event, tl_mono at) {
    int64_t ns = event->server->anchor.known ? tl__ns_until(event->server->anchor.at, at) : 0;
    return ns > 0 ? ns - tl__rate_least_ns(ns, event->server->drift_ppm) : 0;
}

bool tl__try_is_outdated(const tl_try *attempt, const tl_event *event) {
    int64_t left_ns = tl__ns_until(event->now, attempt->by);
    return GUARD(asks_time_first) && left_ns > 0 &&
           tl__try_fallen_ns(event, attempt->by) > left_ns / 2;
}

bool tl__try_outdated_take(const tl_try *attempt, const tl_job *job, const tl_event *event) {
    (void)job;
    return attempt->result.op == TL_ACQUIRE && tl__try_is_outdated(attempt, event);
}

static tl_status start(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    attempt->asked = event->now;
    attempt->by = tl__mono_min(tl__mono_add_ms(event->now, job->attempt_ms),
                               GUARD(attempt_within_wait) ? attempt->until : TL_NEVER);
    attempt->timing = attempt->row->outdated && attempt->row->outdated(attempt, job, event);
    if (!attempt->timing)
        return attempt->row->send(attempt, job, event, out);
    tl__try_add(tl__try_command(tl__out_send(out, attempt->ticket, attempt->by)),
                TL_LITERAL("TIME"));
    return TL_GO;
}

tl_event tl__try_informed(const tl_event *event, const tl_out *out, tl_server *room) {
    tl_event informed = *event;
    if (!out->has_bracket)
        return informed;
    *room = *event->server;
    (void)tl__anchor_learn(&room->anchor, out->bracket, event->now, room->drift_ppm);
    informed.server = room;
    return informed;
}

/* Build the request by the time that the server has just reported. This host may have been stopped meanwhile,
 * so that the limit has passed: then nothing is sent, since not every server can reject a late request. */
static tl_status was_told_time(tl_try *attempt, const tl_job *job, const tl_event *event,
                               tl_out *out) {
    static const char late[] = "no time is left for the request";
    attempt->timing = false;
    attempt->result.late = !tl__mono_before(event->now, attempt->by);
    if (GUARD(late_time) && attempt->result.late)
        return fail_by_limit(attempt, false, TL_LITERAL(late), out);
    tl__out_time(out, event->replied.reply, 0, event);
    if (!out->has_bracket)
        return tl__try_fail(attempt, TL_ESERVER, false, TL_LITERAL("malformed reply to TIME"), out);
    tl_server room;
    tl_event informed = tl__try_informed(event, out, &room);
    tl_event fresh = {.kind = TL_START, .now = event->now, .server = informed.server};
    attempt->asked = event->now;
    return attempt->row->send(attempt, job, &fresh, out);
}

tl_status tl__try_refused(tl_try *attempt, tl_bytes error, bool maybe, const tl_needer *who,
                          tl_out *out) {
    (void)tl__try_fail(attempt, tl__refusal(error), maybe, (tl_bytes){0}, out);
    tl__out_refusal(out, error, who);
    return TL_END;
}

static bool is_harmless(const tl_try *attempt) {
    return attempt->timing || (attempt->row->reads && attempt->row->reads(attempt));
}

bool tl__try_may_not_ask(const tl_job *job, tl_bytes error) {
    static const char end[] = " (info)";
    size_t n = sizeof end - 1;
    return job->acquire.quiet_ms > 0 && error.n > n && memcmp(error.p + error.n - n, end, n) == 0;
}

tl_status tl__attempt_refused(tl_try *attempt, const tl_job *job, const tl_event *event,
                              tl_out *out) {
    static const char quiet[] = " (INFO, which quiet_ms needs)";
    TL_ASSERT(event->kind == TL_REPLY && event->replied.reply->type == TL_REPLY_ERROR);
    tl_needer who = attempt->row->who;
    if (job->rules.nodes)
        who.instead = NULL; /* in a cluster all locks are scripts */
    tl_bytes error = event->replied.reply->text;
    bool elsewhere = tl__is_elsewhere(error);
    tl__try_refused(attempt, error, !elsewhere && tl__from_script(error) && !is_harmless(attempt),
                    who.needs ? &who : NULL, out);
    if (elsewhere)
        attempt->result.code = TL_EELSEWHERE;
    size_t n = strlen(out->message);
    if (tl__try_may_not_ask(job, error) && n + sizeof quiet <= sizeof out->message)
        memcpy(out->message + n, quiet, sizeof quiet);
    attempt->result.harmless = event->now;
    return TL_END;
}

static tl_status answered(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    TL_ASSERT(event->kind == TL_REPLY);
    if (event->replied.count < 1 && !attempt->reaches)
        return tl__try_malformed(attempt, out);
    if (event->replied.count > 0 && event->replied.reply->type == TL_REPLY_ERROR)
        return attempt->row->refused && !attempt->timing
                   ? attempt->row->refused(attempt, job, event, out)
                   : tl__attempt_refused(attempt, job, event, out);
    return attempt->timing ? was_told_time(attempt, job, event, out)
                           : attempt->row->answered(attempt, job, event, out);
}

/* A message about the server's failure begins with its address. */
static tl_status answered_by(tl_try *attempt, const tl_job *job, const tl_event *event,
                             tl_out *out) {
    tl_status status = answered(attempt, job, event, out);
    if (status == TL_END && tl__is_of_server(attempt->result.code))
        tl__out_place(out, event->replied.place);
    return status;
}

/* The server may be a former master that doesn't know it yet. For example, its process was stopped, and then
 * goes on to answer the requests in its sockets. So its reply counts only if the server is still named as the
 * master afterwards. A renewal is always confirmed there; an acquire only if the server had not been named
 * shortly before it replied. */
static tl_status confirm(tl_try *attempt, const tl_job *job, tl_out *out) {
    tl_send *send = tl__out_send(out, attempt->ticket, attempt->by);
    send->confirm = true;
    send->adopted = job->hold.proof.elsewhere;
    attempt->confirming = true;
    return TL_GO;
}

static tl_status unconfirmed(tl_try *attempt, const tl_event *event, tl_out *out) {
    TL_ASSERT(event->kind == TL_FAILED);
    out->sys_errno = event->failed.sys_errno;
    tl__try_fail(attempt, TL_EUNAVAILABLE, true, event->failed.message, out);
    attempt->result.harmless = event->now; /* it has taken effect on that server */
    return TL_END;
}

/* The node certainly executed nothing: build the request again for the other node. While a slot is being
 * moved, both nodes reject a request with two keys: then the lock is acquired, renewed or released key by
 * key. */
static tl_status follow(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    static const char moving[] =
        "the key's slot is being moved: with quiet_ms no lock is granted until it has moved";
    static const char stamps[] = "the key's slot is being moved: a lock with a stamp can't be "
                                 "acquired until it has moved; wait, or finish the move";
    static const char follower[] =
        "the key's slot is being moved: a lock that follows a phase can't be acquired until it has "
        "moved; wait, or finish the move";
    bool open = event->failed.redirect == TL_ASK || event->failed.redirect == TL_TRY_AGAIN;
    bool takes = open && !attempt->alone && attempt->result.op == TL_ACQUIRE;
    if (GUARD(no_stamp_in_open_slot) && takes && job->rules.dialect)
        return tl__try_fail(attempt, TL_EUNAVAILABLE, false,
                            job->rules.of ? TL_LITERAL(follower) : TL_LITERAL(stamps), out);
    if (GUARD(quiet_in_open_slot) && takes && job->acquire.quiet_ms > 0)
        return tl__try_fail(attempt, TL_EUNAVAILABLE, false, TL_LITERAL(moving), out);
    tl_event start = {.kind = TL_START, .now = event->now, .server = event->server};
    attempt->asking = GUARD(sends_asking) && attempt->alone && event->failed.redirect == TL_ASK;
    attempt->alone = GUARD(key_by_key) && (attempt->alone || open);
    if (GUARD(redirect_asked_anew))
        attempt->asked = event->now;
    attempt->hops++;
    return attempt->row->send(attempt, job, &start, out);
}

static bool may_follow(const tl_try *attempt, const tl_event *event) {
    return event->failed.why == TL_EELSEWHERE && event->failed.redirect != TL_NOT_ELSEWHERE &&
           !event->failed.maybe_sent && !attempt->timing &&
           attempt->hops < (GUARD(redirects_end) ? TL_HOPS_MAX : UINT8_MAX) &&
           tl__mono_before(event->now, attempt->by);
}

static tl_status failed(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    TL_ASSERT(event->kind == TL_FAILED);
    if (may_follow(attempt, event))
        return follow(attempt, job, event, out);
    bool maybe = event->failed.maybe_sent && !is_harmless(attempt);
    attempt->bounded = attempt->bounded && !event->asked.native;
    out->sys_errno = event->failed.sys_errno;
    return tl__try_fail(attempt, maybe ? TL_EUNCERTAIN : event->failed.why, maybe,
                        event->failed.message, out);
}

/* The proof is a token's unless the protocol has set another kind. */
static void prove(tl_try *attempt) {
    tl_proof *proof = &attempt->result.proof;
    if (proof->kind == TL_PROOF_NONE)
        proof->kind = TL_PROOF_TOKEN;
    proof->held_by = (uint8_t)(1 + (proof->kind == TL_PROOF_STAMP ? attempt->row->id : TL_TOKEN));
}

tl_status tl__attempt_step(void *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    tl_try *trial = attempt;
    tl_status status = TL_GO;
    TL_ASSERT(trial->row && event->server);
    if (event->kind == TL_START)
        status = start(trial, job, event, out);
    else if (event->asked.ticket == trial->ticket && trial->confirming && event->kind == TL_REPLY)
        status = TL_END;
    else if (event->asked.ticket == trial->ticket && trial->confirming && event->kind == TL_FAILED)
        status = unconfirmed(trial, event, out);
    else if (event->asked.ticket == trial->ticket && event->kind == TL_REPLY)
        status = answered_by(trial, job, event, out);
    else if (event->asked.ticket == trial->ticket && event->kind == TL_FAILED)
        status = failed(trial, job, event, out);
    tl_result *result = &trial->result;
    bool had = status == TL_END && result->code == TL_OK && trial->result.op != TL_RELEASE;
    if (had && !trial->confirming &&
        (trial->result.op == TL_RENEW ? GUARD(renewal_confirmed) && job->renew.confirms
                                      : event->kind == TL_REPLY && event->replied.unnamed))
        status = confirm(trial, job, out);
    if (out->sends > 0) {
        trial->reaches = out->send.count == 0;
        out->send.alone = trial->alone;
        out->send.keeps = trial->result.op == TL_RENEW;
        out->send.asking = trial->asking;
    }
    if (status == TL_END && result->code == TL_OK)
        prove(trial);
    else if (status == TL_END && trial->row->leaves && trial->row->leaves(trial))
        result->maybe = true;
    return status;
}
