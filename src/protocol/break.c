/*
 * Removing a lock that another holds. It is asked once: a request without an answer may have
 * removed a lock, and a second one would remove its successor.
 */
#include "protocol/break.h"

#include "ground/guard.h"
#include "protocol/sidecar.h"

enum { REACH = 1, QUESTION };

static tl_status ask(tl_break *b, const tl_event *e, tl_out *out) {
    tl_send *send = tl__out_send(out, QUESTION, tl__mono_add_ms(e->now, b->attempt_ms));
    tl_command *c = &send->command[send->count++];
    b->ticket = QUESTION;
    *c = (tl_command){.form = TL_SCRIPT, .script = TL_SCRIPT_BREAK, .nkeys = 4, .argc = 8};
    char counter[TL_COUNTER_SIZE];
    c->argv[0] = b->key;
    c->argv[1] = b->sidecar;
    c->argv[2] = tl__out_copy(out, tl__counter(counter, &b->slot), (tl_bytes){0});
    c->argv[3] = b->line;
    c->argv[4] = c->argv[5] = TL_LITERAL("");
    if (GUARD(breaks_what_was_seen) && b->seen) {
        c->argv[4] = tl__out_copy(out, TL_LITERAL("="), tl__bytes_of(b->seen->value));
        if (b->seen->by_tidelock) /* else S knew nothing of the holder, and may by now */
            c->argv[5] = tl__out_int(out, (int64_t)b->seen->fence);
    }
    c->argv[6] = b->who;
    c->argv[7] = tl__out_int(out, TL_SIDECAR_IDLE_MS);
    return TL_GO;
}

static tl_status answered(tl_break *b, const tl_event *e, tl_out *out) {
    static const tl_needer who = {"removing a lock needs", NULL};
    int64_t status;
    if (b->ticket == REACH)
        return ask(b, e, out);
    if (e->replied.count < 1)
        return tl__end_malformed(b, out);
    if (e->replied.reply->type == TL_REPLY_ERROR)
        return tl__end_refused(b, e->replied.reply->text, &who, out);
    if (!tl__reply_int(tl__reply_item(e->replied.reply, 0), &status))
        status = INT64_MIN;
    switch (status) {
    case 1: return TL_END;
    case 0: return tl__end(b, TL_ETAKEN, TL_LITERAL("the lock changed hands meanwhile"), out);
    case -1: return tl__end(b, TL_EEXPIRED, TL_LITERAL("nobody holds it"), out);
    case -2:
        return tl__end(b, TL_EINVALID, TL_LITERAL("the key holds no string: it is no lock"), out);
    default: return tl__end_malformed(b, out);
    }
}

static tl_status failed(tl_break *b, const tl_event *e, tl_out *out) {
    bool follows = e->failed.redirect == TL_MOVED || e->failed.redirect == TL_NOT_ELSEWHERE;
    if (e->failed.why != TL_EELSEWHERE || !follows || b->hops == TL_HOPS_MAX)
        return tl__end_failed(b, e, b->ticket == QUESTION, out);
    b->hops++;
    return ask(b, e, out);
}

tl_status tl__break_step(void *machine, const tl_event *e, tl_out *out) {
    tl_break *b = machine;
    switch (e->kind) {
    case TL_START:
        b->ticket = REACH;
        tl__out_send(out, REACH, tl__mono_add_ms(e->now, b->connect_ms));
        return TL_GO;
    case TL_REPLY: return e->asked.ticket == b->ticket ? answered(b, e, out) : TL_GO;
    case TL_FAILED: return e->asked.ticket == b->ticket ? failed(b, e, out) : TL_GO;
    case TL_CANCEL: return tl__end_cancelled(b, out);
    default: return TL_GO;
    }
}
