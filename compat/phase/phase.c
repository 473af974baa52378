/*
 * Reads the register of a namespace, and runs the machine that keeps a phase lease fresh. A lease
 * must never be longer than its register allows, counted from before the request was sent.
 */
#include "phase/phase.h"

#include <stdio.h>

#include "ground/guard.h"

#define PARTS 3 /* renew the lease after a third of it */
#define LAST 4  /* act by a lease while more than a quarter of it is left */

/* ---- reading --------------------------------------------------------------------------------- */

void tl__phase_send(const tl_namespace *ns, uint16_t ticket, tl_mono by, const tl_event *event,
                    tl_out *out) {
    tl_command *command = tl__try_script(tl__out_send(out, ticket, by), TL_SCRIPT_PHASE);
    command->nkeys = 3;
    TL_ADD(command, ns->reg, ns->clients, ns->skew, tl__token_bytes(&ns->all->id),
           tl__bytes_of(ns->all->record), tl__out_int(out, tl__try_server_us(event, event->now).hi),
           tl__out_int(out, ns->all->fallback), tl__out_int(out, ns->all->lease_ms));
    /* for how long this client may still act by the former lease, by the server's clock */
    int64_t left_ns = tl__rate_most_ns(
        tl__ns_until(event->now, tl__lease_of(event->server, ns->index)->until),
        event->server->drift_ppm);
    tl__try_add(command, tl__out_int(out, left_ns > 0 ? left_ns / TL_NS_PER_MS + 1 : 0));
    const tl_lease *known = tl__lease_of(event->server, ns->index);
    TL_ADD(command, tl__out_int(out, known->epoch),
           tl__out_int(out, known->epoch > 0 ? known->phase : ns->all->fallback), ns->pattern);
}

static tl_err refuse(const tl_namespace *ns, tl_err code, const char *message, tl_out *out) {
    (void)snprintf(out->message, sizeof out->message, "namespace %.*s: %s", (int)ns->name.n,
                   ns->name.p, message);
    return code;
}

/* An error that an operator has to fix. */
static tl_err refuse_register(const tl_namespace *ns, tl_err code, const char *message,
                              tl_out *out) {
    char both[TL_MESSAGE_SIZE];
    (void)snprintf(both, sizeof both, "%s; see `tidelock migrate status --namespace %.*s`", message,
                   (int)ns->name.n, ns->name.p);
    return refuse(ns, code, both, out);
}

/* The verdict on clocks is advice: whatever it is, the rest of the reply counts. */
static void parse_clocks(const tl_reply *reply, tl_lease *ret) {
    int64_t worst_ms;
    if (!tl__reply_int(reply, &worst_ms) || worst_ms == -1)
        return;
    ret->clocks = (GUARD(unsafe_without_number) && worst_ms == -2) || worst_ms >= 0
                      ? TL_CLOCKS_UNSAFE
                      : TL_CLOCKS_UNREADABLE;
    ret->worst_ms = worst_ms < 0 ? -1 : worst_ms < INT32_MAX ? (int32_t)worst_ms : INT32_MAX;
}

/* Reads the reply. False: it is malformed. */
static bool parse(const tl_namespace *ns, const tl_event *event, tl_out *out, tl_lease *ret) {
    int64_t phase, lease_ms;
    const tl_reply *reply = event->replied.reply;
    if (!tl__reply_int(tl__reply_item(reply, 0), &phase) ||
        !tl__reply_int(tl__reply_item(reply, 1), &ret->epoch) ||
        !tl__reply_int(tl__reply_item(reply, 2), &lease_ms) || phase < TL_PHASE_NONE ||
        phase > TL_PHASE_TOKEN || lease_ms < 1 || lease_ms > ns->all->lease_ms ||
        (phase == TL_PHASE_NONE ? ret->epoch != 0 : ret->epoch < 1))
        return false;
    tl__out_time(out, reply, 3, event);
    parse_clocks(tl__reply_item(reply, 5), ret);
    ret->phase = (int8_t)phase;
    ret->lease_ms = (int32_t)lease_ms;
    return true;
}

tl_err tl__phase_read(const tl_namespace *ns, tl_mono asked, const tl_event *event, tl_out *out) {
    const tl_lease *known = tl__lease_of(event->server, ns->index);
    tl_lease read = {.phase = TL_PHASE_NONE, .lease_ms = (int32_t)ns->all->lease_ms};
    if (event->replied.count < 1)
        return refuse(ns, TL_ESERVER, "malformed reply from the server", out);
    if (event->replied.reply->type == TL_REPLY_ERROR &&
        !tl__is_unknown_command(event->replied.reply->text)) {
        tl__out_refusal(out, event->replied.reply->text, NULL);
        return tl__refusal(event->replied.reply->text);
    }
    /* A server that never had EVAL has no register. One that only lacks its Lua module may have one, so it has
     * not been read. */
    if (event->replied.reply->type != TL_REPLY_ERROR && !parse(ns, event, out, &read))
        return refuse_register(ns, TL_ESERVER, "its register can't be read", out);
    if (GUARD(phase_asked_before_disruption) &&
        tl__is_disrupted(asked, event->server->disrupted)) /* the lease may have ended since */
        return refuse(ns, TL_EUNAVAILABLE, "this machine was paused while its phase was read", out);
    if (GUARD(asked_before_change) && known->epoch > read.epoch &&
        tl__mono_before(asked, known->reported))
        return refuse(ns, TL_EUNAVAILABLE, "its phase changed while it was being read", out);
    if (GUARD(no_older_epoch) && known->epoch > 0 && read.epoch == 0)
        return refuse_register(ns, TL_EDENIED, "its register has gone", out);
    if (GUARD(no_older_epoch) && known->epoch > read.epoch)
        return refuse_register(ns, TL_EDENIED,
                               "its register has an older epoch than before: the server has "
                               "lost writes",
                               out);
    read.until = tl__mono_add_ns(
        GUARD(phase_lease_from_request) ? asked : event->now,
        tl__rate_least_ns(read.lease_ms * TL_NS_PER_MS, event->server->drift_ppm));
    read.reported = event->now;
    out->keeps = true;
    out->keeps_at = ns->index;
    *(tl_lease *)&out->kept = read;
    return TL_OK;
}

void tl__lease_merge(tl_lease *known, const tl_lease *read) {
    bool newer = read->epoch > known->epoch ||
                 (read->epoch == known->epoch && tl__mono_before(known->until, read->until));
    if (known->until.ns == 0 || newer)
        *known = *read;
}

bool tl__lease_lasts(const tl_lease *lease, const tl_event *event) {
    bool disrupted = GUARD(lease_before_disruption) &&
                     tl__is_disrupted(lease->reported, event->server->disrupted);
    return !disrupted &&
           tl__ns_until(event->now, lease->until) > lease->lease_ms * TL_NS_PER_MS / LAST;
}

/* ---- in a cluster ------------------------------------------------------------------------------ */

#define EPOCH_END (INT64_C(1) << 53) /* from here on Lua's numbers can't count by one */
#define PHASES 4

static tl_bytes register_of(const tl_namespace *ns, const tl_slot_tag *slot, tl_out *out) {
    /* Each copy stands right behind the last one. */
    tl_bytes key = tl__out_copy(out, TL_LITERAL("tidelock:phase:slot:{"), tl__bytes_of(slot->text));
    key.n += tl__out_copy(out, TL_LITERAL("}:"), ns->name).n;
    return key;
}

tl_condition tl__phase_condition(const tl_namespace *ns, const tl_slot_tag *slot, int64_t believes,
                                 tl_out *out) {
    const tl_bytes key = register_of(ns, slot, out), none = {0};
    if (believes == 0)
        return (tl_condition){.key = key, .reads = TL_LITERAL("")};
    tl_bytes reads = tl__out_int(out, tl__phase_believed(believes));
    reads.n += tl__out_copy(out, TL_LITERAL(" "), none).n;
    reads.n += tl__out_int(out, believes / PHASES).n;
    return (tl_condition){.key = key, .reads = reads};
}

bool tl__phase_believe(tl_bytes reads, int64_t *ret) {
    int64_t epoch;
    *ret = 0;
    if (reads.n == 0)
        return true;
    if (reads.n < 3 || reads.p[0] < '0' || reads.p[0] >= '0' + PHASES || reads.p[1] != ' ' ||
        reads.p[2] < '1' || reads.p[2] > '9' ||
        !tl__bytes_to_int(tl__bytes(reads.p + 2, reads.n - 2), &epoch) || epoch >= EPOCH_END)
        return false;
    *ret = epoch * PHASES + (reads.p[0] - '0');
    return true;
}

int tl__phase_believed(int64_t believes) {
    return believes == 0 ? TL_PHASE_NONE : (int)(believes % PHASES);
}

/* A register with an older epoch than another slot's may have come back: a master without replicas has restarted
 * from an old dump, and Java may run by now. Or a step is half done. In both cases the lower phase is safe. */
int tl__phase_in_slot(const tl_namespace *ns, int64_t believes, const tl_lease *known) {
    int phase = tl__phase_believed(believes);
    bool older = believes < tl__phase_belief(known);
    if (phase == TL_PHASE_NONE)
        return ns->all->fallback;
    return GUARD(older_register_limited) && older && known->phase < phase ? known->phase : phase;
}

int64_t tl__phase_belief(const tl_lease *lease) {
    return lease->epoch * PHASES + (lease->epoch > 0 ? lease->phase : 0);
}

void tl__phase_keep(const tl_namespace *ns, int64_t believes, const tl_event *event, tl_out *out) {
    if (believes <= tl__phase_belief(tl__lease_of(event->server, ns->index)))
        return;
    out->keeps = true;
    out->keeps_at = ns->index;
    *(tl_lease *)&out->kept = (tl_lease){.epoch = believes / PHASES,
                                         .phase = (int8_t)tl__phase_believed(believes),
                                         .until = TL_NEVER,
                                         .reported = event->now};
}

tl_err tl__phase_unreadable(const tl_namespace *ns, const tl_slot_tag *slot, tl_out *out) {
    char message[TL_MESSAGE_SIZE];
    tl_bytes key = register_of(ns, slot, out);
    (void)snprintf(message, sizeof message, "its register %.*s can't be read", (int)key.n, key.p);
    return refuse_register(ns, TL_ESERVER, message, out);
}

/* ---- keeping it fresh ------------------------------------------------------------------------ */

void tl__attend_init(void *machine, const tl_namespaces *all, uint8_t index, int64_t attempt_ms,
                     uint64_t seed) {
    *(tl_attend *)machine = (tl_attend){
        .ns = &all->at[index], .attempt_ms = attempt_ms, .random = seed ? seed : 1};
}

void tl__leave_init(void *machine, const tl_namespaces *all, uint8_t index, int64_t attempt_ms) {
    *(tl_attend *)machine = (tl_attend){
        .ns = &all->at[index], .attempt_ms = attempt_ms, .leaves = true};
}

/* Removes the client's record, with one try: a record that stays is void after three leases. */
static tl_status leave(tl_attend *attend, const tl_event *event, tl_out *out) {
    if (event->kind != TL_START)
        return event->kind == TL_REPLY || event->kind == TL_FAILED ? TL_END : TL_GO;
    tl_command *command = tl__try_command(
        tl__out_send(out, ++attend->ticket, tl__mono_add_ms(event->now, attend->attempt_ms)));
    TL_ADD(command, TL_LITERAL("HDEL"), attend->ns->clients, tl__token_bytes(&attend->ns->all->id));
    return TL_GO;
}

static void plan(tl_attend *attend, const tl_event *event, const tl_lease *lease) {
    int64_t ms = lease->lease_ms > 0 ? lease->lease_ms : attend->ns->all->lease_ms;
    attend->next = tl__mono_add_ms(event->now, ms / PARTS);
}

static void ask(tl_attend *attend, const tl_event *event, tl_out *out) {
    attend->asked = event->now;
    attend->next = TL_NEVER;
    tl__phase_send(attend->ns, ++attend->ticket, tl__mono_add_ms(event->now, attend->attempt_ms),
                   event, out);
}

/* After a failed read the lease expires; an acquire then reads the register itself, and reports the
 * error. */
static void answered(tl_attend *attend, const tl_event *event, tl_out *out) {
    bool read = event->kind == TL_REPLY &&
                tl__phase_read(attend->ns, attend->asked, event, out) == TL_OK;
    attend->asked = (tl_mono){0};
    attend->failures = read ? 0 : attend->failures + 1;
    if (read)
        plan(attend, event, tl__lease_read(out));
    else
        attend->next = tl__mono_add_ms(event->now,
                                       tl__backoff_ms(attend->failures, &attend->random));
}

tl_status tl__attend_step(void *machine, const tl_event *event, tl_out *out) {
    tl_attend *attend = machine;
    if (attend->leaves)
        return leave(attend, event, out);
    switch (event->kind) {
    case TL_START: plan(attend, event, tl__lease_of(event->server, attend->ns->index)); break;
    case TL_CANCEL: return TL_END;
    case TL_REPLY:
    case TL_FAILED:
        if (attend->asked.ns != 0 && event->asked.ticket == attend->ticket)
            answered(attend, event, out);
        break;
    default:
        if (attend->asked.ns == 0 && !tl__mono_before(event->now, attend->next))
            ask(attend, event, out);
    }
    out->until = attend->next;
    return TL_GO;
}
