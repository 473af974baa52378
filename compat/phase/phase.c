/*
 * The register of a namespace, read; and the machine that keeps a lease on what it said. A
 * lease must never be longer than its register allows, counted from before the question was asked.
 */
#include "phase/phase.h"

#include <stdio.h>

#include "ground/guard.h"

#define PARTS 3 /* read again at a third of the lease */
#define LAST 4  /* act by it while more than a quarter is left */

/* ---- reading --------------------------------------------------------------------------------- */

void tl__phase_send(const tl_namespace *ns, uint16_t ticket, tl_mono by, const tl_event *e,
                    tl_out *out) {
    tl_command *c = tl__try_script(tl__out_send(out, ticket, by), TL_SCRIPT_PHASE);
    c->nkeys = 3;
    TL_ADD(c, ns->reg, ns->clients, ns->skew, tl__token_bytes(&ns->all->id),
           tl__bytes_of(ns->all->record), tl__out_int(out, tl__try_server_us(e, e->now).hi),
           tl__out_int(out, ns->all->fallback), tl__out_int(out, ns->all->lease_ms));
    /* for how long the former lease may still be acted by, as the server counts */
    int64_t left_ns = tl__rate_most_ns(
        tl__ns_until(e->now, tl__lease_of(e->server, ns->index)->until), e->server->drift_ppm);
    tl__try_add(c, tl__out_int(out, left_ns > 0 ? left_ns / TL_NS_PER_MS + 1 : 0));
    const tl_lease *known = tl__lease_of(e->server, ns->index);
    TL_ADD(c, tl__out_int(out, known->epoch),
           tl__out_int(out, known->epoch > 0 ? known->phase : ns->all->fallback), ns->pattern);
}

static tl_err refuse(const tl_namespace *ns, tl_err code, const char *message, tl_out *out) {
    (void)snprintf(out->words, sizeof out->words, "namespace %.*s: %s", (int)ns->name.n, ns->name.p,
                   message);
    return code;
}

/* What an operator has to set right. */
static tl_err refuse_register(const tl_namespace *ns, tl_err code, const char *message,
                              tl_out *out) {
    char both[TL_WORDS_SIZE];
    (void)snprintf(both, sizeof both, "%s; see `tidelock migrate status --namespace %.*s`", message,
                   (int)ns->name.n, ns->name.p);
    return refuse(ns, code, both, out);
}

/* The verdict on clocks is advice: whatever it is, the rest of the reply counts. */
static void parse_clocks(const tl_reply *r, tl_lease *ret) {
    int64_t worst_ms;
    if (!tl__reply_int(r, &worst_ms) || worst_ms == -1)
        return;
    ret->clocks = (GUARD(unsafe_without_number) && worst_ms == -2) || worst_ms >= 0
                      ? TL_CLOCKS_UNSAFE
                      : TL_CLOCKS_UNREADABLE;
    ret->worst_ms = worst_ms < 0 ? -1 : worst_ms < INT32_MAX ? (int32_t)worst_ms : INT32_MAX;
}

/* What the reply says; false: it is malformed. */
static bool parse(const tl_namespace *ns, const tl_event *e, tl_out *out, tl_lease *ret) {
    int64_t phase, lease_ms;
    const tl_reply *r = e->replied.reply;
    if (!tl__reply_int(tl__reply_item(r, 0), &phase) ||
        !tl__reply_int(tl__reply_item(r, 1), &ret->epoch) ||
        !tl__reply_int(tl__reply_item(r, 2), &lease_ms) || phase < TL_PHASE_NONE ||
        phase > TL_PHASE_TOKEN || lease_ms < 1 || lease_ms > ns->all->lease_ms ||
        (phase == TL_PHASE_NONE ? ret->epoch != 0 : ret->epoch < 1))
        return false;
    tl__out_time(out, r, 3, e);
    parse_clocks(tl__reply_item(r, 5), ret);
    ret->phase = (int8_t)phase;
    ret->lease_ms = (int32_t)lease_ms;
    return true;
}

tl_err tl__phase_read(const tl_namespace *ns, tl_mono asked, const tl_event *e, tl_out *out) {
    const tl_lease *known = tl__lease_of(e->server, ns->index);
    tl_lease read = {.phase = TL_PHASE_NONE, .lease_ms = (int32_t)ns->all->lease_ms};
    if (e->replied.count < 1)
        return refuse(ns, TL_ESERVER, "malformed reply from the server", out);
    if (e->replied.reply->type == TL_REPLY_ERROR &&
        !tl__is_unknown_command(e->replied.reply->text)) {
        tl__out_refusal(out, e->replied.reply->text, NULL);
        return tl__refusal(e->replied.reply->text);
    }
    /* Without EVAL nobody can have made a register. */
    if (e->replied.reply->type != TL_REPLY_ERROR && !parse(ns, e, out, &read))
        return refuse_register(ns, TL_ESERVER, "its register can't be read", out);
    if (GUARD(asked_before_change) && known->epoch > read.epoch &&
        tl__mono_before(asked, known->reported))
        return refuse(ns, TL_EUNAVAILABLE, "its phase has changed while it was being read", out);
    if (GUARD(no_older_epoch) && known->epoch > 0 && read.epoch == 0)
        return refuse_register(ns, TL_EDENIED, "its register has gone", out);
    if (GUARD(no_older_epoch) && known->epoch > read.epoch)
        return refuse_register(ns, TL_EDENIED,
                               "its register tells of an older epoch than before: the server has "
                               "lost writes",
                               out);
    read.until = tl__mono_add_ns(
        GUARD(phase_lease_from_request) ? asked : e->now,
        tl__rate_least_ns(read.lease_ms * TL_NS_PER_MS, e->server->drift_ppm));
    read.reported = e->now;
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

bool tl__lease_lasts(const tl_lease *lease, tl_mono now) {
    return tl__ns_until(now, lease->until) > lease->lease_ms * TL_NS_PER_MS / LAST;
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

/* Once, and no more: what is left over is void after three leases. */
static tl_status leave(tl_attend *a, const tl_event *e, tl_out *out) {
    if (e->kind != TL_START)
        return e->kind == TL_REPLY || e->kind == TL_FAILED ? TL_END : TL_GO;
    tl_command *c = tl__try_command(
        tl__out_send(out, ++a->ticket, tl__mono_add_ms(e->now, a->attempt_ms)));
    TL_ADD(c, TL_LITERAL("HDEL"), a->ns->clients, tl__token_bytes(&a->ns->all->id));
    return TL_GO;
}

static void plan(tl_attend *a, const tl_event *e, const tl_lease *lease) {
    int64_t ms = lease->lease_ms > 0 ? lease->lease_ms : a->ns->all->lease_ms;
    a->next = tl__mono_add_ms(e->now, ms / PARTS);
}

static void ask(tl_attend *a, const tl_event *e, tl_out *out) {
    a->asked = e->now;
    a->next = TL_NEVER;
    tl__phase_send(a->ns, ++a->ticket, tl__mono_add_ms(e->now, a->attempt_ms), e, out);
}

/* A reading that fails leaves the lease to run out, and says so to whoever acquires a lock then. */
static void answered(tl_attend *a, const tl_event *e, tl_out *out) {
    bool read = e->kind == TL_REPLY && tl__phase_read(a->ns, a->asked, e, out) == TL_OK;
    a->asked = (tl_mono){0};
    a->failures = read ? 0 : a->failures + 1;
    if (read)
        plan(a, e, tl__lease_read(out));
    else
        a->next = tl__mono_add_ms(e->now, tl__backoff_ms(a->failures, &a->random));
}

tl_status tl__attend_step(void *machine, const tl_event *e, tl_out *out) {
    tl_attend *a = machine;
    if (a->leaves)
        return leave(a, e, out);
    switch (e->kind) {
    case TL_START: plan(a, e, tl__lease_of(e->server, a->ns->index)); break;
    case TL_CANCEL: return TL_END;
    case TL_REPLY:
    case TL_FAILED:
        if (a->asked.ns != 0 && e->asked.ticket == a->ticket)
            answered(a, e, out);
        break;
    default:
        if (a->asked.ns == 0 && !tl__mono_before(e->now, a->next))
            ask(a, e, out);
    }
    out->until = a->next;
    return TL_GO;
}
