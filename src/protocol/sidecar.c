/*
 * Requests and replies of protocols that keep a sidecar: building the scripts' arguments, reading their
 * replies. The protocol decides what a reply is worth to a holder.
 */
#include "protocol/sidecar.h"

#include "ground/guard.h"
#include "wire/rest.h"

#define KEEP_EACH 5 /* arguments of renew.lua for each lock */
#define KEEP_HEAD 3 /* and before them */

/* After the last request for a token has become too late, S remembers for so long that it is spent: the server's clock
 * may be set back, and a replica's may be behind. */
#define SPENT_MS 60000

/* ---- sending --------------------------------------------------------------------------------- */

static tl_command *script(tl_send *send, tl_script script, const tl_job *job) {
    tl_command *command = tl__try_script(send, script);
    command->nkeys = 2;
    TL_ADD(command, job->key, job->sidecar);
    return command;
}

/* A script with all keys of the lock. */
static tl_command *whole(tl_send *send, tl_script name, const tl_job *job, tl_out *out) {
    char counter[TL_COUNTER_SIZE];
    tl_command *command = script(send, name, job);
    command->nkeys = 4;
    TL_ADD(command, tl__out_copy(out, tl__counter(counter, &job->slot), (tl_bytes){0}), job->line);
    return command;
}

#define TAKE_ARGS 11 /* arguments of acquire.lua before that of its condition */
#define JOIN_ARGS 8  /* and of join.lua */

/* A script that acquires, with the condition's key where there is one. *ret gets the condition. */
static tl_command *take(tl_send *send, tl_script name, const tl_try *attempt, const tl_job *job,
                        tl_condition *ret, tl_out *out) {
    tl_command *command = whole(send, name, job, out);
    if (attempt->result.op != TL_ACQUIRE || !tl__job_has_condition(job))
        return command;
    *ret = job->protocol->condition(attempt, job, out);
    tl__try_add(command, ret->key);
    command->nkeys++;
    return command;
}

/* Add the bytes that the condition's key must hold, behind so many arguments. */
static void add_condition(tl_command *command, const tl_condition *condition, unsigned args) {
    if (condition->key.n == 0)
        return;
    while (command->argc < command->nkeys + args)
        tl__try_add(command, TL_LITERAL(""));
    tl__try_add(command, condition->reads);
}

/* The lifetime as it stands in an entry of the queue. A mark says that this waiter is only notified, never
 * granted K. */
static tl_bytes lined_px(const tl_job *job, int64_t ttl_ms, tl_out *out) {
    tl_bytes mark = GUARD(called_by_phase) && job->protocol->called ? TL_LITERAL("?")
                                                                    : TL_LITERAL("");
    tl_bytes px = tl__out_int(out, ttl_ms);
    px.n += tl__out_copy(out, mark, (tl_bytes){0}).n; /* the copy stands right behind it */
    return px;
}

/* Until when S keeps others out: a time, or a lifetime from when the script runs. */
static void add_until(tl_command *command, const tl_sidecar_write *write, tl_bytes px,
                      tl_out *out) {
    tl__try_add(command, write->until_us > 0 ? tl__out_at(out, write->until_us) : px);
}

/* For how long nothing may be granted, and the epoch by which Sentinels named the server as the master. */
static void add_quiet(tl_command *command, const tl_job *job, const tl_event *event, tl_out *out) {
    tl_bytes quiet = tl__out_int(out, job->acquire.quiet_ms);
    /* Only Sentinels name a master by an epoch. A cluster needs none: a node that becomes the master was a
     * replica, and its promotion changes its history of replication, which quiet.lua compares. */
    if (GUARD(epoch_is_sent) && event->server->has_epoch) {
        /* Each copy stands right behind the last one. */
        quiet.n += tl__out_copy(out, TL_LITERAL(" "), (tl_bytes){0}).n;
        quiet.n += tl__out_int(out, event->server->epoch).n;
    }
    tl__try_add(command, quiet);
}

bool tl__sidecar_binds(const tl_job *job) {
    return job->acquire.bind || job->again;
}

void tl__sidecar_send_acquire(tl_try *attempt, const tl_job *job, const tl_sidecar_write *write,
                              const tl_event *event, tl_out *out) {
    tl_send *send = tl__out_send(out, attempt->ticket, attempt->by);
    tl_condition condition = {0};
    tl_command *command = take(send, TL_SCRIPT_ACQUIRE, attempt, job, &condition, out);
    tl_interval now = tl__try_server_us(event, event->now);
    int64_t not_after = tl__try_not_after_us(attempt, event, true);
    attempt->bounded = not_after > 0;
    tl_bytes px = tl__out_int(out, write->px_ms);
    TL_ADD(command, tl__token_bytes(&job->token), px, tl__out_int(out, not_after),
           tl__out_int(out, GUARD(takes_by_earliest) ? now.lo : now.hi),
           tl__out_int(out, GUARD(binds_by_latest) ? now.hi : now.lo),
           tl__sidecar_binds(job) ? job->owner : TL_LITERAL(""));
    bool quiet = attempt->result.op == TL_ACQUIRE &&
                 job->acquire.quiet_ms > 0; /* the holder of a renewal believes already */
    bool odd = write->until_us > 0 || write->expect.n > 0 || quiet || condition.key.n > 0;
    if (job->fences > 1 || odd)
        tl__try_add(command, tl__out_int(out, tl__job_fences(job)));
    if (odd) {
        TL_ADD(command, write->value, write->expect);
        add_until(command, write, px, out);
    }
    if (quiet)
        add_quiet(command, job, event, out);
    add_condition(command, &condition, TAKE_ARGS);
    tl__try_add_wait(send, job, out);
}

void tl__sidecar_send_join(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    tl_send *send = tl__out_send(out, attempt->ticket, attempt->by);
    tl_condition condition = {0};
    tl_command *command = take(send, TL_SCRIPT_JOIN, attempt, job, &condition, out);
    int64_t not_after = tl__try_not_after_us(attempt, event, true);
    attempt->bounded = not_after > 0;
    TL_ADD(command, tl__token_bytes(&job->token), lined_px(job, job->ttl_ms, out),
           tl__out_int(out, not_after), job->owner, tl__out_int(out, job->fences), job->queue.inbox,
           job->queue.rank > 0 ? tl__out_int(out, job->queue.rank) : TL_LITERAL(""));
    if (job->acquire.quiet_ms > 0)
        add_quiet(command, job, event, out);
    add_condition(command, &condition, JOIN_ARGS);
    tl__try_add_wait(send, job, out);
}

/* The entry, as join.lua writes it. */
tl_bytes tl__sidecar_entry(const tl_job *job, tl_out *out) {
    int64_t ttl_ms = job->hold.proof.stood_ms > 0 ? job->hold.proof.stood_ms : job->ttl_ms;
    const tl_bytes space = TL_LITERAL(" "),
                   parts[] = {tl__token_bytes(&job->token), lined_px(job, ttl_ms, out),
                              tl__out_int(out, job->fences), job->queue.inbox, job->owner};
    tl_bytes entry = tl__out_copy(out, parts[0], (tl_bytes){0});
    for (size_t i = 1; i < sizeof parts / sizeof *parts; i++)
        entry.n += tl__out_copy(out, space, parts[i]).n;
    return entry;
}

void tl__sidecar_send_renew(tl_try *attempt, const tl_job *job, const tl_sidecar_write *write,
                            const tl_event *event, tl_out *out) {
    tl_send *send = tl__out_send(out, attempt->ticket, attempt->by);
    tl_command *command = script(send, TL_SCRIPT_RENEW, job);
    tl_interval now = tl__try_server_us(event, event->now);
    command->each = KEEP_EACH;
    command->head = KEEP_HEAD;
    TL_ADD(command, tl__out_int(out, now.lo), tl__out_int(out, TL_SIDECAR_IDLE_MS), job->owner,
           tl__token_bytes(&job->token), write->value);
    tl_bytes px = tl__out_int(out, write->px_ms);
    tl__try_add(command, px);
    add_until(command, write, px, out);
    TL_ADD(command, tl__out_int(out, (int64_t)job->hold.fence),
           tl__out_int(out, tl__try_not_after_us(attempt, event, write->binds)),
           tl__out_int(out, GUARD(binds_by_latest) ? now.hi : now.lo));
    tl__try_add_wait(send, job, out);
}

void tl__sidecar_send_refresh(tl_try *attempt, const tl_job *job, const tl_event *event,
                              tl_out *out) {
    tl_send *send = tl__out_send(out, attempt->ticket, attempt->by);
    tl_command *command = script(send, TL_SCRIPT_REFRESH, job);
    command->each = 1;
    command->alike = (uint32_t)job->ttl_ms;
    command->exceptions = true;
    TL_ADD(command, tl__token_bytes(&job->token),
           tl__out_int(out, tl__try_not_after_us(attempt, event, false)),
           tl__out_int(out, job->ttl_ms));
    tl__try_add_wait(send, job, out);
}

/* Is what the server's clock shows now possible by the clock that was seen at the acquire? Another server may have
 * taken over, or have the slot, or the clock was set forward. */
static bool is_same_clock(const tl_job *job, const tl_event *event) {
    int64_t passed_ns = tl__rate_most_ns(tl__ns_until(job->release.rest_since, event->now),
                                         event->server->drift_ppm);
    return !GUARD(rest_by_same_clock) || tl__try_server_us(event, event->now).lo <=
                                             job->release.rest_since_us + passed_ns / 1000 + 1;
}

/* The rest ends so long after the acquire, by the latest time that the server's clock could show then. By this
 * host's clock more is left, as a clock's rate is not known exactly. That counts where the time of the acquire
 * isn't known, or the clock is another since. */
void tl__sidecar_send_rest(tl_try *attempt, const tl_job *job, bool alone, const tl_event *event,
                           tl_out *out) {
    tl_send *send = tl__out_send(out, attempt->ticket, attempt->by);
    tl_command *command = script(send, TL_SCRIPT_REST, job);
    int64_t since_us = job->release.rest_since_us,
            left_ms = tl__job_rest_ms(job, event->now, event->server->drift_ppm),
            end_us = since_us + job->release.rest_ms * 1000;
    if (alone) {
        command->nkeys = command->argc = 1;
    } else {
        command->nkeys = 3;
        tl__try_add(command, job->line);
    }
    TL_ADD(command, tl__token_bytes(&job->token), tl__out_int(out, left_ms),
           tl__out_int(out, since_us > 0 && is_same_clock(job, event) ? end_us : 0),
           tl__out_int(out, tl__try_server_us(event, event->now).hi), job->owner,
           tl__out_int(out, (int64_t)job->hold.fence));
    bool noted = since_us == 0, stands = job->queue.stands && !alone;
    if (noted || stands)
        tl__try_add(command, noted ? tl__out_int(out, job->release.rest_ms) : TL_LITERAL(""));
    if (stands)
        tl__try_add(command, tl__sidecar_entry(job, out));
    tl__try_add_wait(send, job, out);
}

/* By then each request for this token is past its not_after, which is at most attempt_ms after it was sent. */
tl_bytes tl__sidecar_stays(const tl_job *job, const tl_event *event, tl_out *out) {
    bool known = event->server->anchor.known && !job->hold.proof.unlimited;
    if (!known && GUARD(unknown_limit_kept))
        return TL_LITERAL("");
    return tl__out_int(out, SPENT_MS + (GUARD(sidecar_outlasts_requests) ? job->attempt_ms : 0));
}

void tl__sidecar_send_drop(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    attempt->resting = false;
    tl_command *command = whole(tl__out_send(out, attempt->ticket, attempt->by), TL_SCRIPT_RELEASE,
                                job, out);
    TL_ADD(command, tl__token_bytes(&job->token), tl__sidecar_stays(job, event, out));
    if (job->release.in_vain || job->hold.proof.doubted || job->queue.stands)
        tl__try_add(command, job->queue.stands ? tl__sidecar_entry(job, out) : TL_LITERAL(""));
}

void tl__sidecar_send_release(tl_try *attempt, const tl_job *job, const tl_event *event,
                              tl_out *out) {
    attempt->resting = tl__job_rest_ms(job, event->now, event->server->drift_ppm) > 0;
    if (attempt->resting)
        tl__sidecar_send_rest(attempt, job, false, event, out);
    else
        tl__sidecar_send_drop(attempt, job, event, out);
}

/* ---- replies --------------------------------------------------------------------------------- */

static tl_bytes text_of(const tl_reply *reply) {
    tl_bytes text;
    return tl__reply_text(reply, &text) ? text : (tl_bytes){0};
}

void tl__sidecar_raised(const tl_job *job, tl_out *out) {
    out->raised = true;
    out->slot = job->slot;
}

/* The reply of a usual acquire: the whole lifetime is left, and the fence is the server's time. */
static bool just_took(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out,
                      tl_sidecar_answer *ret) {
    int64_t server_us;
    if (job->fences > 1 || !tl__reply_int(event->replied.reply, &server_us) || server_us <= 0 ||
        server_us >= TL_FENCE_END)
        return false;
    tl__out_server_us(out, server_us, event);
    tl__sidecar_raised(job, out);
    if (attempt->result.op == TL_ACQUIRE)
        attempt->result.acquire.checked = true;
    *ret = (tl_sidecar_answer){
        .status = 1, .left_ms = job->ttl_ms, .server_us = server_us, .fence = (uint64_t)server_us};
    return true;
}

/* Has the script drawn from the counter? A repeated acquire may only have returned the number in S, while the
 * counter is behind. Below 3.2 `checked` is false, and the number follows this client's idea of the server's
 * time. There only a first acquire is known to have drawn. */
static bool has_drawn(const tl_try *attempt, const tl_job *job, int64_t last, bool checked,
                      const tl_sidecar_answer *answer) {
    bool first = attempt->result.op == TL_ACQUIRE && !job->again;
    return answer->status == 1 && (checked ? last >= answer->server_us : first);
}

bool tl__sidecar_acquired(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out,
                          tl_sidecar_answer *ret) {
    int64_t last, checked, known, reserved = tl__job_fences(job);
    *ret = (tl_sidecar_answer){0};
    if (event->replied.reply->type == TL_REPLY_STRING)
        return just_took(attempt, job, event, out, ret);
    if (!tl__reply_int(tl__reply_item(event->replied.reply, 0), &ret->status) ||
        !tl__reply_int(tl__reply_item(event->replied.reply, 2), &ret->left_ms) ||
        !tl__reply_int(tl__reply_item(event->replied.reply, 3), &last) ||
        !tl__reply_int(tl__reply_item(event->replied.reply, 6), &checked) ||
        !tl__reply_int(tl__reply_item(event->replied.reply, 7), &known) ||
        (ret->status == 1 && (last < reserved || last >= TL_FENCE_END)))
        return false;
    tl__out_time(out, event->replied.reply, 4, event);
    (void)tl__reply_time(event->replied.reply, 4, &ret->server_us);
    ret->value = text_of(tl__reply_item(event->replied.reply, 1));
    ret->fence = ret->status == 1 ? (uint64_t)(last - reserved + 1) : 0;
    ret->known = known == 1;
    ret->rests = ret->status == 0 && tl__is_rest(ret->value);
    if (has_drawn(attempt, job, last, checked == 1, ret))
        tl__sidecar_raised(job, out);
    if (attempt->result.op == TL_ACQUIRE) {
        attempt->result.acquire.checked = checked == 1;
        attempt->result.acquire.announced = ret->known;
    }
    return true;
}

bool tl__sidecar_joined(tl_try *attempt, const tl_event *event, tl_out *out,
                        tl_sidecar_answer *ret) {
    int64_t first, before, waiting, known;
    tl_acquire_result *r = &attempt->result.acquire;
    *ret = (tl_sidecar_answer){0};
    if (!tl__reply_int(tl__reply_item(event->replied.reply, 0), &ret->status) || ret->status < -6)
        return false;
    ret->value = text_of(tl__reply_item(event->replied.reply, 1));
    if (ret->status == -3 || ret->status == -6)
        return true;
    if (!tl__reply_int(tl__reply_item(event->replied.reply, 2), &ret->left_ms) ||
        !tl__reply_int(tl__reply_item(event->replied.reply, 3), &first) ||
        !tl__reply_time(event->replied.reply, 4, &ret->server_us) ||
        !tl__reply_int(tl__reply_item(event->replied.reply, 7), &before) ||
        !tl__reply_int(tl__reply_item(event->replied.reply, 8), &waiting) ||
        !tl__reply_int(tl__reply_item(event->replied.reply, 9), &known) ||
        (ret->status == 1 && (first <= 0 || first >= TL_FENCE_END)))
        return false;
    if (!tl__reply_int(tl__reply_item(event->replied.reply, 6), &r->rank))
        r->rank = 0;
    tl__out_server_us(out, ret->server_us, event);
    ret->fence = (uint64_t)first;
    ret->rests = ret->status == 0 && tl__is_rest(ret->value);
    r->before = (int32_t)(before < INT32_MAX ? before : INT32_MAX);
    r->waiting = (int32_t)(waiting < INT32_MAX ? waiting : INT32_MAX);
    r->server_us = ret->server_us;
    r->checked = true;
    r->announced = known == 1;
    return true;
}

bool tl__sidecar_renewed(const tl_event *event, tl_out *out, tl_sidecar_answer *ret) {
    const tl_reply *item = tl__reply_item(event->replied.reply, 2);
    *ret = (tl_sidecar_answer){0};
    if (!tl__reply_int(tl__reply_item(item, 0), &ret->status) || ret->status < -2 ||
        ret->status > 1 || !tl__reply_int(tl__reply_item(item, 2), &ret->left_ms))
        return false;
    tl__out_time(out, event->replied.reply, 0, event);
    (void)tl__reply_time(event->replied.reply, 0, &ret->server_us);
    ret->value = text_of(tl__reply_item(item, 1));
    return true;
}

tl_refreshed tl__sidecar_refreshed(const tl_event *event, tl_out *out) {
    const tl_reply *reply = event->replied.reply;
    int64_t server_us, first = 0;
    if (reply->type != TL_REPLY_ARRAY || reply->count < 1 || reply->count > 3)
        return TL_REFRESHED_MALFORMED;
    if (reply->count == 1)
        return tl__reply_int(reply->items, &first) && first == 0 ? TL_REFRESHED_NEVER
                                                                 : TL_REFRESHED_MALFORMED;
    if (!tl__reply_time(reply, 0, &server_us) ||
        (reply->count == 3 && !tl__reply_int(&reply->items[2], &first)))
        return TL_REFRESHED_MALFORMED;
    tl__out_server_us(out, server_us, event);
    if (reply->count == 2)
        return TL_REFRESHED;
    return first == 0 ? TL_REFRESHED_LATE : first == 1 ? TL_REFRESHED_NOT : TL_REFRESHED_MALFORMED;
}

tl_status tl__sidecar_refused(tl_try *attempt, const tl_job *job, const tl_sidecar_answer *answer,
                              const tl_event *event, tl_out *out) {
    static const char spent[] = "this token has been released already";
    switch (answer->status) {
    case -1: return tl__try_too_late(attempt, out);
    case -2: return tl__try_fail(attempt, TL_ESERVER, false, TL_LITERAL(spent), out);
    case -4: return tl__try_quiet(attempt, event, answer->left_ms, out);
    case -5: return tl__try_never_quiet(attempt, true, out); /* K may be the token's */
    case -6:
        if (tl__job_has_condition(job))
            return job->protocol->differs(attempt, job, answer->value, event, out);
        break;
    }
    return tl__try_malformed(attempt, out);
}

tl_status tl__sidecar_judge(tl_try *attempt, const tl_job *job, const tl_sidecar_answer *answer,
                            const tl_event *event, tl_out *out) {
    if (answer->status == 1)
        return tl__try_held(attempt, job, event, answer->left_ms, answer->fence, out);
    if (answer->status != 0)
        return tl__sidecar_refused(attempt, job, answer, event, out);
    attempt->result.acquire.rests = answer->rests;
    return tl__try_busy(attempt, event, answer->left_ms);
}

tl_status tl__sidecar_kept(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    tl_sidecar_answer answer;
    if (!tl__sidecar_renewed(event, out, &answer))
        return tl__try_malformed(attempt, out);
    if (answer.status == -2)
        return tl__try_too_late(attempt, out);
    return answer.status == 1 ? tl__try_held(attempt, job, event, answer.left_ms, 0, out)
                              : tl__try_not_renewed(attempt, answer.status, out);
}

tl_status tl__sidecar_released(tl_try *attempt, const tl_job *job, const tl_event *event,
                               tl_out *out) {
    int64_t status = 0;
    if (event->replied.reply->type != TL_REPLY_STRING &&
        (!tl__reply_int(event->replied.reply, &status) || status < -1 || status > 1))
        return tl__try_malformed(attempt, out);
    if (status == 1 && attempt->resting)
        return tl__try_rested(attempt, job, event, out);
    return status == 1 ? TL_END : tl__try_not_released(attempt, status, out);
}
