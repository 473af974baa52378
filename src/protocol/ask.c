/*
 * Questions that change nothing: the server's time, and what a key holds.
 */
#include "protocol/ask.h"

#include <errno.h>

#include "ground/guard.h"
#include "protocol/look.h"

enum { REACH = 1, QUESTION };
enum { WAITERS = 10, FIRST_IN_LINE = 12 }; /* items of the answer of look.lua */

void tl__ask_init(tl_ask *a, tl_bytes key, tl_bytes sidecar, int64_t attempt_ms,
                  int64_t connect_ms) {
    *a = (tl_ask){.key = key, .sidecar = sidecar, .attempt_ms = attempt_ms};
    a->connect_ms = connect_ms;
    a->info.size = sizeof a->info;
}

static tl_status reach(tl_ask *a, const tl_event *e, tl_out *out) {
    tl_mono by = tl__mono_add_ms(e->now, a->connect_ms);
    a->ticket = REACH;
    a->asking = false;
    tl__out_send(out, REACH, tl__mono_min(by, a->limit));
    return TL_GO;
}

static tl_status question(tl_ask *a, const tl_event *e, tl_out *out) {
    tl_mono by = tl__mono_min(tl__mono_add_ms(e->now, a->attempt_ms), a->limit);
    a->ticket = QUESTION;
    tl_send *send = tl__out_send(out, QUESTION, by);
    send->alone = a->plain;
    send->asking = a->asking;
    tl_command *c = &send->command[send->count++];
    if (a->key.n == 0) {
        *c = (tl_command){.form = TL_ARGV, .argc = 1, .argv = {TL_LITERAL("TIME")}};
        return TL_GO;
    }
    if (a->plain) {
        *c = (tl_command){.form = TL_ARGV, .argc = 2, .argv = {TL_LITERAL("GET"), a->key}};
        return TL_GO;
    }
    *c = (tl_command){.form = TL_SCRIPT, .script = TL_SCRIPT_LOOK, .nkeys = 2, .argc = 2};
    c->argv[0] = a->key;
    c->argv[1] = a->sidecar;
    if (a->most > 0)
        c->argv[c->argc++] = tl__out_int(out, a->most);
    return TL_GO;
}

static void fill(tl_ask *a, tl_bytes kind, const tl_reply *answer, int64_t now_us) {
    const tl_legacy_look *stamps = TL_FROM_COMPAT(tl__legacy_look);
    tl__look_fill(&a->info, a->legacy, a->key, kind, answer, now_us);
    if (a->legacy && stamps)
        stamps->explain(&a->info, a->legacy, a->key, tl__reply_item(answer, TL_LOOK_VALUE), now_us);
}

static void tell_line(const tl_ask *a, const tl_reply *answer, int64_t now_us) {
    for (uint32_t i = 0; i < a->most; i++) {
        tl_bytes entry;
        tl_waiting w;
        int64_t place_us;
        size_t at = FIRST_IN_LINE + 2 * (size_t)i;
        if (!tl__reply_text(tl__reply_item(answer, at), &entry))
            return;
        if (!tl__reply_int(tl__reply_item(answer, at + 1), &place_us))
            place_us = 0;
        tl__look_waiting(&w, entry, place_us, now_us);
        w.place = i + 1;
        a->told(&w, a->ctx);
    }
}

/* The answer of look.lua. */
static tl_status looked(tl_ask *a, const tl_event *e, tl_out *out) {
    tl_bytes kind;
    int64_t now_us;
    if (!tl__reply_text(tl__reply_item(e->replied.reply, 0), &kind) ||
        !tl__reply_time(e->replied.reply, 8, &now_us))
        return tl__end_malformed(a, out);
    fill(a, kind, e->replied.reply, now_us);
    tl__look_waiters(&a->info, e->replied.reply, WAITERS);
    tell_line(a, e->replied.reply, now_us);
    return TL_END;
}

/* The answer of GET, on a server that can do no more: our own clock has to do. A key of another type is somebody's, and
 * has no text. */
static tl_status got(tl_ask *a, tl_bytes kind, const tl_reply *value, const tl_event *e) {
    tl_reply items[2] = {{.type = TL_REPLY_NIL}, *value};
    tl_reply array = {.type = TL_REPLY_ARRAY, .items = items, .count = 2};
    fill(a, kind, &array, e->now.ns / 1000 + e->server->wall_us);
    return TL_END;
}

static tl_status refused(tl_ask *a, tl_bytes error, tl_out *out) {
    static const tl_needer look = {"looking at a lock needs", TL_INSTEAD_LOOK};
    return tl__end_refused(a, error, a->key.n > 0 ? &look : NULL, out);
}

static tl_status answered(tl_ask *a, const tl_event *e, tl_out *out) {
    static const tl_reply nil = {.type = TL_REPLY_NIL};
    if (e->replied.count < 1)
        return tl__end_malformed(a, out);
    if (e->replied.reply->type == TL_REPLY_ERROR && a->may_get && !a->plain &&
        tl__is_unknown_command(e->replied.reply->text)) {
        a->plain = true;
        return question(a, e, out);
    }
    if (e->replied.reply->type == TL_REPLY_ERROR && a->plain &&
        tl__is_of_other_type(e->replied.reply->text))
        return got(a, TL_LITERAL("another type"), &nil, e);
    if (e->replied.reply->type == TL_REPLY_ERROR)
        return refused(a, e->replied.reply->text, out);
    if (a->plain && e->replied.reply->type == TL_REPLY_NIL)
        return got(a, TL_LITERAL("none"), e->replied.reply, e);
    if (a->plain && e->replied.reply->type == TL_REPLY_STRING)
        return got(a, TL_LITERAL("string"), e->replied.reply, e);
    if (a->plain)
        return tl__end_malformed(a, out);
    if (a->key.n > 0) {
        tl__out_time(out, e->replied.reply, 8, e);
        return looked(a, e, out);
    }
    tl__out_time(out, e->replied.reply, 0, e);
    if (!out->has_bracket)
        return tl__end_malformed(a, out);
    return TL_END;
}

/* What is wrong with the server is said with its place. */
static tl_status answered_by(tl_ask *a, const tl_event *e, tl_out *out) {
    tl_status status = a->ticket == REACH ? question(a, e, out) : answered(a, e, out);
    tl__out_place(out, e->replied.place);
    return status;
}

/* Another node is to be asked. Where a slot is being moved two keys can't be read together: what K holds is all that can be
 * told. */
static tl_status redirected(tl_ask *a, const tl_event *e, tl_out *out) {
    bool open = e->failed.redirect == TL_ASK || e->failed.redirect == TL_TRY_AGAIN;
    a->asking = a->plain && e->failed.redirect == TL_ASK;
    a->plain = a->plain || open;
    a->hops++;
    return question(a, e, out);
}

static bool is_redirected(const tl_ask *a, const tl_event *e) {
    return e->failed.why == TL_EELSEWHERE && a->ticket == QUESTION;
}

/* Where another takes a server's place that one's connections end with it, or before that is known. A question that was
 * left without its answer so is put to the other, as it changes nothing; one whose time was up is not. Of the other
 * nothing may be known yet. */
static bool is_interrupted(const tl_ask *a, const tl_event *e) {
    if (a->ticket == REACH)
        return e->failed.why == TL_EELSEWHERE;
    return e->failed.maybe_sent && e->failed.why == TL_EUNAVAILABLE &&
           e->failed.sys_errno != ETIMEDOUT && e->asked.generation != 0;
}

static tl_status failed(tl_ask *a, const tl_event *e, tl_out *out) {
    if (e->asked.ticket != a->ticket)
        return TL_GO;
    bool few = a->hops < (GUARD(questions_end) ? TL_HOPS_MAX : UINT8_MAX);
    bool again = few && (tl__mono_before(e->now, a->limit) || !GUARD(question_in_time));
    if (again && is_redirected(a, e))
        return redirected(a, e, out);
    if (GUARD(question_repeated) && again && is_interrupted(a, e)) {
        a->hops++;
        return reach(a, e, out);
    }
    return tl__end_failed(a, e, false, out);
}

tl_status tl__ask_step(void *machine, const tl_event *e, tl_out *out) {
    tl_ask *a = machine;
    switch (e->kind) {
    case TL_START:
        a->limit = tl__mono_add_ms(tl__mono_add_ms(e->now, a->connect_ms), a->attempt_ms);
        return reach(a, e, out);
    case TL_REPLY: return e->asked.ticket == a->ticket ? answered_by(a, e, out) : TL_GO;
    case TL_FAILED: return failed(a, e, out);
    case TL_CANCEL: return tl__end_cancelled(a, out);
    default: return TL_GO;
    }
}
