/*
 * Removing a lock that another holds. The machine asks only once: a request without a reply may have removed
 * the lock, and a second one would remove its successor.
 */
#include "protocol/break.h"

#include "ground/guard.h"
#include "protocol/sidecar.h"

enum { REACH = 1, QUESTION };

static tl_status ask(tl_break *machine, const tl_event *event, tl_out *out) {
    tl_send *send = tl__out_send(out, QUESTION, tl__mono_add_ms(event->now, machine->attempt_ms));
    tl_command *command = &send->command[send->count++];
    machine->ticket = QUESTION;
    *command = (tl_command){.form = TL_SCRIPT, .script = TL_SCRIPT_BREAK, .nkeys = 4, .argc = 8};
    char counter[TL_COUNTER_SIZE];
    command->argv[0] = machine->key;
    command->argv[1] = machine->sidecar;
    command->argv[2] = tl__out_copy(out, tl__counter(counter, &machine->slot), (tl_bytes){0});
    command->argv[3] = machine->line;
    command->argv[4] = command->argv[5] = TL_LITERAL("");
    if (GUARD(breaks_what_was_seen) && machine->seen) {
        command->argv[4] = tl__out_copy(out, TL_LITERAL("="), tl__bytes_of(machine->seen->value));
        if (machine->seen->by_tidelock) /* else S did not know the holder, and may know it by now */
            command->argv[5] = tl__out_int(out, (int64_t)machine->seen->fence);
    }
    command->argv[6] = machine->who;
    command->argv[7] = tl__out_int(out, TL_SIDECAR_IDLE_MS);
    return TL_GO;
}

static tl_status answered(tl_break *machine, const tl_event *event, tl_out *out) {
    static const tl_needer who = {"removing a lock needs", NULL};
    int64_t status;
    if (machine->ticket == REACH)
        return ask(machine, event, out);
    if (event->replied.count < 1)
        return tl__end_malformed(machine, out);
    if (event->replied.reply->type == TL_REPLY_ERROR)
        return tl__end_refused(machine, event->replied.reply->text, &who, out);
    if (!tl__reply_int(tl__reply_item(event->replied.reply, 0), &status))
        status = INT64_MIN;
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

static tl_status failed(tl_break *machine, const tl_event *event, tl_out *out) {
    bool follows = event->failed.redirect == TL_MOVED || event->failed.redirect == TL_NOT_ELSEWHERE;
    if (event->failed.why != TL_EELSEWHERE || !follows || machine->hops == TL_HOPS_MAX)
        return tl__end_failed(machine, event, machine->ticket == QUESTION, out);
    machine->hops++;
    return ask(machine, event, out);
}

tl_status tl__break_step(void *machine, const tl_event *event, tl_out *out) {
    tl_break *acquiring = machine;
    switch (event->kind) {
    case TL_START:
        acquiring->ticket = REACH;
        tl__out_send(out, REACH, tl__mono_add_ms(event->now, acquiring->connect_ms));
        return TL_GO;
    case TL_REPLY:
        return event->asked.ticket == acquiring->ticket ? answered(acquiring, event, out) : TL_GO;
    case TL_FAILED:
        return event->asked.ticket == acquiring->ticket ? failed(acquiring, event, out) : TL_GO;
    case TL_CANCEL: return tl__end_cancelled(acquiring, out);
    default: return TL_GO;
    }
}
