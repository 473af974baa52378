/*
 * Questions that change nothing: the server's time, and what a key holds.
 */
#include "protocol/ask.h"

#include <errno.h>

#include "ground/guard.h"
#include "protocol/look.h"

enum { REACH = 1, QUESTION };
enum { WAITERS = 10, FIRST_IN_LINE = 12 }; /* items of the reply of look.lua */

void tl__ask_init(tl_ask *ask, tl_bytes key, tl_bytes line, int64_t attempt_ms,
                  int64_t connect_ms) {
    *ask = (tl_ask){.key = key, .line = line, .attempt_ms = attempt_ms};
    ask->connect_ms = connect_ms;
    ask->info.size = sizeof ask->info;
}

static tl_status reach(tl_ask *ask, const tl_event *event, tl_out *out) {
    tl_mono by = tl__mono_add_ms(event->now, ask->connect_ms);
    ask->ticket = REACH;
    ask->asking = false;
    tl__out_send(out, REACH, tl__mono_min(by, ask->limit));
    return TL_GO;
}

static tl_status question(tl_ask *ask, const tl_event *event, tl_out *out) {
    tl_mono by = tl__mono_min(tl__mono_add_ms(event->now, ask->attempt_ms), ask->limit);
    ask->ticket = QUESTION;
    tl_send *send = tl__out_send(out, QUESTION, by);
    send->alone = ask->plain;
    send->asking = ask->asking;
    tl_command *command = &send->command[send->count++];
    if (ask->key.n == 0) {
        *command = (tl_command){.form = TL_ARGV, .argc = 1, .argv = {TL_LITERAL("TIME")}};
        return TL_GO;
    }
    if (ask->plain) {
        *command = (tl_command){.form = TL_ARGV, .argc = 2, .argv = {TL_LITERAL("GET"), ask->key}};
        return TL_GO;
    }
    *command = (tl_command){.form = TL_SCRIPT, .script = TL_SCRIPT_LOOK, .nkeys = 3, .argc = 3};
    command->argv[0] = ask->key;
    command->argv[1] = tl__bytes(ask->line.p, ask->line.n - TL_LINE_EXTRA);
    command->argv[2] = ask->line;
    if (ask->two)
        command->nkeys = command->argc = 2;
    if (ask->most > 0 && !ask->two)
        command->argv[command->argc++] = tl__out_int(out, ask->most);
    return TL_GO;
}

static void fill(tl_ask *ask, tl_bytes kind, const tl_reply *answer, int64_t now_us) {
    const tl_legacy_look *stamps = TL_FROM_COMPAT(tl__legacy_look);
    tl__look_fill(&ask->info, ask->legacy, ask->key, kind, answer, now_us);
    if (ask->legacy && stamps)
        stamps->explain(&ask->info, ask->legacy, ask->key, tl__reply_item(answer, TL_LOOK_VALUE),
                        now_us);
}

static void tell_line(const tl_ask *ask, const tl_reply *answer, int64_t now_us) {
    for (uint32_t i = 0; i < ask->most; i++) {
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
        ask->on_waiting(&w, ask->ctx);
    }
}

/* Handle the reply of look.lua. */
static tl_status looked(tl_ask *ask, const tl_event *event, tl_out *out) {
    tl_bytes kind;
    int64_t now_us;
    if (!tl__reply_text(tl__reply_item(event->replied.reply, 0), &kind) ||
        !tl__reply_time(event->replied.reply, 8, &now_us))
        return tl__end_malformed(ask, out);
    fill(ask, kind, event->replied.reply, now_us);
    tl__look_waiters(&ask->info, event->replied.reply, WAITERS);
    tell_line(ask, event->replied.reply, now_us);
    return TL_END;
}

/* Handle the reply to GET, on a server without scripts. This host's clock replaces the server's. A key of
 * another type is held by somebody, and has no text. */
static tl_status got(tl_ask *ask, tl_bytes kind, const tl_reply *value, const tl_event *event) {
    tl_reply items[2] = {{.type = TL_REPLY_NIL}, *value};
    tl_reply array = {.type = TL_REPLY_ARRAY, .items = items, .count = 2};
    fill(ask, kind, &array, event->now.ns / 1000 + event->server->wall_us);
    ask->info.value_only = true;
    return TL_END;
}

static tl_status refused(tl_ask *ask, tl_bytes error, tl_out *out) {
    static const tl_needer look = {"looking at a lock needs", TL_INSTEAD_LOOK};
    return tl__end_refused(ask, error, ask->key.n > 0 ? &look : NULL, out);
}

static tl_status answered(tl_ask *ask, const tl_event *event, tl_out *out) {
    static const tl_reply nil = {.type = TL_REPLY_NIL};
    if (event->replied.count < 1)
        return tl__end_malformed(ask, out);
    if (event->replied.reply->type == TL_REPLY_ERROR && ask->may_get && !ask->plain &&
        tl__runs_no_script(event->replied.reply->text)) {
        ask->plain = true;
        return question(ask, event, out);
    }
    if (event->replied.reply->type == TL_REPLY_ERROR && ask->plain &&
        tl__is_of_other_type(event->replied.reply->text))
        return got(ask, TL_LITERAL("another type"), &nil, event);
    if (event->replied.reply->type == TL_REPLY_ERROR)
        return refused(ask, event->replied.reply->text, out);
    if (ask->plain && event->replied.reply->type == TL_REPLY_NIL)
        return got(ask, TL_LITERAL("none"), event->replied.reply, event);
    if (ask->plain && event->replied.reply->type == TL_REPLY_STRING)
        return got(ask, TL_LITERAL("string"), event->replied.reply, event);
    if (ask->plain)
        return tl__end_malformed(ask, out);
    if (ask->key.n > 0) {
        tl__out_time(out, event->replied.reply, 8, event);
        return looked(ask, event, out);
    }
    tl__out_time(out, event->replied.reply, 0, event);
    if (!out->has_bracket)
        return tl__end_malformed(ask, out);
    return TL_END;
}

/* A message about the server's failure begins with its address. */
static tl_status answered_by(tl_ask *ask, const tl_event *event, tl_out *out) {
    tl_status status = ask->ticket == REACH ? question(ask, event, out) : answered(ask, event, out);
    tl__out_place(out, event->replied.place);
    return status;
}

/* Ask another node. While a slot is being moved, two keys can't be read together: so only K's value is
 * read. */
static tl_status redirected(tl_ask *ask, const tl_event *event, tl_out *out) {
    bool open = event->failed.redirect == TL_ASK || event->failed.redirect == TL_TRY_AGAIN;
    ask->asking = ask->plain && event->failed.redirect == TL_ASK;
    ask->plain = ask->plain || (open && ask->two);
    ask->two = ask->two || open;
    ask->hops++;
    return question(ask, event, out);
}

static bool is_redirected(const tl_ask *ask, const tl_event *event) {
    return event->failed.why == TL_EELSEWHERE && ask->ticket == QUESTION;
}

/* Was the question interrupted by a failover? When another server takes over, the connections to the former
 * one end, perhaps before the failover is known. Such a question is asked again, since it changes nothing;
 * one that timed out is not. The new server may not be known yet. */
static bool is_interrupted(const tl_ask *ask, const tl_event *event) {
    if (ask->ticket == REACH)
        return event->failed.why == TL_EELSEWHERE;
    return event->failed.maybe_sent && event->failed.why == TL_EUNAVAILABLE &&
           event->failed.sys_errno != ETIMEDOUT && event->asked.generation != 0;
}

static tl_status failed(tl_ask *ask, const tl_event *event, tl_out *out) {
    if (event->asked.ticket != ask->ticket)
        return TL_GO;
    bool few = ask->hops < (GUARD(questions_end) ? TL_HOPS_MAX : UINT8_MAX);
    bool again = few && (tl__mono_before(event->now, ask->limit) || !GUARD(question_in_time));
    if (again && is_redirected(ask, event))
        return redirected(ask, event, out);
    if (GUARD(question_repeated) && again && is_interrupted(ask, event)) {
        ask->hops++;
        return reach(ask, event, out);
    }
    return tl__end_failed(ask, event, false, out);
}

tl_status tl__ask_step(void *machine, const tl_event *event, tl_out *out) {
    tl_ask *ask = machine;
    switch (event->kind) {
    case TL_START:
        ask->limit = tl__mono_add_ms(tl__mono_add_ms(event->now, ask->connect_ms), ask->attempt_ms);
        return reach(ask, event, out);
    case TL_REPLY: return event->asked.ticket == ask->ticket ? answered_by(ask, event, out) : TL_GO;
    case TL_FAILED: return failed(ask, event, out);
    case TL_CANCEL: return tl__end_cancelled(ask, out);
    default: return TL_GO;
    }
}
