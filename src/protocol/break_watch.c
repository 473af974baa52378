/*
 * Removing a lock on a server that runs no scripts. K and S are watched and read, judged here as break.lua does
 * there, and removed in a transaction, which does nothing if either was touched meanwhile. Comparing K alone,
 * as DELIFEQ does, is not enough: S would keep others out, and a stamp may have the bytes of an earlier one.
 * Nobody queues on such a server.
 */
#include <string.h>

#include "ground/guard.h"
#include "protocol/break.h"
#include "protocol/sidecar.h"
#include "protocol/transaction.h"
#include "wire/rest.h"

enum { GOT_WATCH, GOT_VALUE, GOT_SIDECAR, GOT_MULTI, GOT }; /* replies to the reads */
enum { S_TOKEN, S_VALUE, S_FENCE, S_FIELDS };

#define TOKEN_MOST 100 /* bytes; a longer one is not tidelock's */

const tl_needer tl__break_needer = {"removing a lock needs", NULL};

tl_status tl__break_found(tl_break *machine, int64_t status, tl_out *out) {
    switch (status) {
    case 1: return TL_END;
    case 0: return tl__end(machine, TL_ETAKEN, TL_LITERAL("the lock changed hands meanwhile"), out);
    case -1: return tl__end(machine, TL_EEXPIRED, TL_LITERAL("nobody holds it"), out);
    case -2:
        return tl__end(machine, TL_EINVALID, TL_LITERAL("the key holds no string: it is no lock"),
                       out);
    default: return tl__end_malformed(machine, out);
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

static tl_send *begin(tl_break *machine, uint16_t ticket, const tl_pin *pin, tl_out *out) {
    tl_send *send = tl__out_send(out, ticket, machine->by);
    machine->ticket = ticket;
    send->pin = pin;
    return send;
}

tl_status tl__break_watch_send(tl_break *machine, tl_out *out) {
    tl_send *send = begin(machine, TL_BREAK_READS, &tl__pin_opens, out);
    tl__try_add(tl__say(send, "WATCH", machine->key), machine->sidecar);
    (void)tl__say(send, "GET", machine->key);
    TL_ADD(tl__say(send, "HMGET", machine->sidecar), TL_LITERAL("token"), TL_LITERAL("value"),
           TL_LITERAL("fence"));
    (void)tl__say(send, "MULTI", (tl_bytes){0});
    return TL_GO;
}

/* ---- judging --------------------------------------------------------------------------------- */

/* Is it what tl_client_look showed? */
static bool is_seen(const tl_lock_info *seen, tl_bytes text, uint64_t fence) {
    static const char word[] = "resting ";
    char shown[sizeof seen->value];
    size_t at = 0;
    int64_t since_us;
    tl_bytes token;
    if (tl__rest_read(text, &since_us, &token)) {
        memcpy(shown, word, sizeof word);
        at = sizeof word - 1;
        text = token;
    }
    tl__bytes_print(shown + at, sizeof shown - at, text);
    return strcmp(shown, seen->value) == 0 && (!seen->by_tidelock || seen->fence == fence);
}

static bool is_there(const tl_reply *side) {
    bool there = false;
    for (size_t i = 0; i < S_FIELDS; i++)
        there = there || tl__reply_item(side, i)->type != TL_REPLY_NIL;
    return there;
}

/* S goes unbound, as by a release, and nothing is written where there is none. It may have expired since it was
 * read, which WATCH doesn't notice below 6.0.9: so it is given a lifetime. The token is spent, so that the holder's late request is rejected should the server run scripts again. */
static tl_status remove_both(tl_break *machine, const tl_reply *side, tl_bytes bound, tl_out *out) {
    int64_t since_us;
    tl_bytes last;
    tl_send *send = begin(machine, TL_BREAK_WRITES, &tl__pin_closes, out);
    (void)tl__say(send, "DEL", machine->key);
    if (is_there(side)) {
        tl_command *command = tl__say(send, "HMSET", machine->sidecar);
        TL_ADD(command, TL_LITERAL("token"), TL_LITERAL(""), TL_LITERAL("value"), TL_LITERAL(""),
               TL_LITERAL("until"), TL_LITERAL("0"), TL_LITERAL("broken"), machine->who,
               TL_LITERAL("claim"), TL_LITERAL(""));
        if (bound.n > 0 && bound.n <= TOKEN_MOST)
            TL_ADD(command, TL_LITERAL("spent"),
                   tl__out_copy(out, tl__rest_read(bound, &since_us, &last) ? last : bound,
                                (tl_bytes){0}));
        tl__try_add(tl__say(send, "EXPIRE", machine->sidecar),
                    tl__out_int(out, TL_SIDECAR_IDLE_MS / 1000));
    }
    (void)tl__say(send, "EXEC", (tl_bytes){0});
    tl__try_add(tl__say(send, "PUBLISH", machine->sidecar), TL_LITERAL(""));
    return TL_GO;
}

static tl_status judge(tl_break *machine, const tl_event *event, tl_out *out) {
    const tl_reply *reply = event->replied.reply, *side = &reply[GOT_SIDECAR];
    tl_bytes text = {"", 0}, bound = {"", 0};
    int64_t fence;
    const tl_reply *wrong = tl__first_error(reply, event->replied.count);
    if (wrong && wrong == &reply[GOT_VALUE] && tl__is_of_other_type(wrong->text))
        return tl__break_found(machine, -2, out);
    if (wrong && (wrong != &reply[GOT_MULTI] || GUARD(break_needs_multi)))
        return tl__end_refused(machine, wrong->text, &tl__break_needer, out);
    if (event->replied.count != GOT || side->type != TL_REPLY_ARRAY || side->count != S_FIELDS)
        return tl__end_malformed(machine, out);
    bool there = tl__reply_text(&reply[GOT_VALUE], &text);
    (void)tl__reply_text(tl__reply_item(side, S_TOKEN), &bound);
    if (!there && bound.n == 0)
        return tl__break_found(machine, -1, out);
    if (!there)
        (void)tl__reply_text(tl__reply_item(side, S_VALUE), &text);
    if (!tl__reply_int(tl__reply_item(side, S_FENCE), &fence))
        fence = 0;
    if (GUARD(breaks_what_was_seen) && machine->seen &&
        !is_seen(machine->seen, text, (uint64_t)fence))
        return tl__break_found(machine, 0, out);
    return remove_both(machine, side, bound, out);
}

/* ---- the result ------------------------------------------------------------------------------ */

/* EXEC's reply is nil if K or S was touched meanwhile. If a write was refused before, it is an error; below 2.6.5
 * it runs the others. */
static tl_status removed(tl_break *machine, const tl_event *event, tl_out *out) {
    const tl_reply *replies = event->replied.reply;
    size_t count = event->replied.count, at = 0;
    while (at < count && replies[at].type != TL_REPLY_ARRAY && replies[at].type != TL_REPLY_NIL)
        at++;
    const tl_reply *exec = at < count ? &replies[at] : NULL;
    const tl_reply *wrong = exec && exec->type == TL_REPLY_NIL ? NULL
                                                               : tl__first_error(replies, at);
    if (!wrong && exec)
        wrong = tl__first_error(exec->items, exec->count);
    if (wrong)
        return tl__end_refused(machine, wrong->text, &tl__break_needer, out);
    if (!exec)
        return tl__end_malformed(machine, out);
    static const char changed[] = "the lock changed hands or was renewed meanwhile: look again";
    return GUARD(nil_break_did_nothing) && exec->type == TL_REPLY_NIL
               ? tl__end(machine, TL_ETAKEN, TL_LITERAL(changed), out)
               : tl__break_found(machine, 1, out);
}

tl_status tl__break_watch_answered(tl_break *machine, const tl_event *event, tl_out *out) {
    return machine->ticket == TL_BREAK_READS ? judge(machine, event, out)
                                             : removed(machine, event, out);
}
