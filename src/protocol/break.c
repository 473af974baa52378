/*
 * Removing a lock that another holds. The machine asks only once: a request without a reply may have removed
 * the lock, and a second one would remove its successor.
 */
#include "protocol/break.h"

#include "ground/guard.h"
#include "protocol/sidecar.h"

static tl_status ask(tl_break *machine, const tl_event *event, tl_out *out) {
    machine->by = tl__mono_add_ms(event->now, machine->attempt_ms);
    tl_send *send = tl__out_send(out, TL_BREAK_SCRIPT, machine->by);
    tl_command *command = &send->command[send->count++];
    machine->ticket = TL_BREAK_SCRIPT;
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
    int64_t status;
    if (machine->ticket == TL_BREAK_REACH)
        return ask(machine, event, out);
    if (machine->ticket != TL_BREAK_SCRIPT)
        return tl__break_watch_answered(machine, event, out);
    if (event->replied.count < 1)
        return tl__end_malformed(machine, out);
    tl_bytes text = event->replied.reply->text;
    bool error = event->replied.reply->type == TL_REPLY_ERROR;
    if (error && machine->transacts && tl__runs_no_script(text))
        return tl__break_watch_send(machine, out);
    if (error)
        return tl__end_refused(machine, text, &tl__break_needer, out);
    if (!tl__reply_int(tl__reply_item(event->replied.reply, 0), &status))
        status = INT64_MIN;
    return tl__break_found(machine, status, out);
}

static tl_status failed(tl_break *machine, const tl_event *event, tl_out *out) {
    static const char moving[] = "the key's slot is being moved: nothing is removed until it has "
                                 "moved; wait, or finish the move";
    bool follows = event->failed.redirect == TL_MOVED || event->failed.redirect == TL_NOT_ELSEWHERE;
    if (event->failed.why == TL_EELSEWHERE && !follows)
        return tl__end(machine, TL_EUNAVAILABLE, TL_LITERAL(moving), out);
    if (event->failed.why != TL_EELSEWHERE || machine->hops == TL_HOPS_MAX)
        return tl__end_failed(
            machine, event,
            machine->ticket == TL_BREAK_SCRIPT || machine->ticket == TL_BREAK_WRITES, out);
    machine->hops++;
    return ask(machine, event, out);
}

tl_status tl__break_step(void *machine, const tl_event *event, tl_out *out) {
    tl_break *acquiring = machine;
    switch (event->kind) {
    case TL_START:
        acquiring->ticket = TL_BREAK_REACH;
        tl__out_send(out, TL_BREAK_REACH, tl__mono_add_ms(event->now, acquiring->connect_ms));
        return TL_GO;
    case TL_REPLY:
        return event->asked.ticket == acquiring->ticket ? answered(acquiring, event, out) : TL_GO;
    case TL_FAILED:
        return event->asked.ticket == acquiring->ticket ? failed(acquiring, event, out) : TL_GO;
    case TL_CANCEL: return tl__end_cancelled(acquiring, out);
    default: return TL_GO;
    }
}
