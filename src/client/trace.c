/*
 * Steps as lines of the log: SERVER: OPERATION KEY: the event; its result. A line must never contain a value
 * from a reply: that can be another holder's token.
 */
#include "client/trace.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "wire/refusal.h"
#include "wire/script.h"

#define TEXT_SIZE 240
#define STATUS_END 10
#define COMMANDS_TOLD 2

typedef struct {
    char text[TEXT_SIZE];
} traced;

/* Append text; it is cut if there is no room. */
__attribute__((format(printf, 2, 3))) static void add(traced *text, const char *format, ...) {
    size_t n = strlen(text->text);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text->text + n, sizeof text->text - n, format, arguments);
    va_end(arguments);
}

static void add_bytes(traced *text, tl_bytes bytes) {
    size_t n = strlen(text->text);
    tl__bytes_print(text->text + n, sizeof text->text - n, bytes);
}

static double ms_between(tl_mono from, tl_mono to) {
    return (double)tl__ns_until(from, to) / (double)TL_NS_PER_MS;
}

/* ---- the event ------------------------------------------------------------------------------- */

/* The reply of a script begins with a status, or has it after the two numbers of TIME. */
static bool has_status(const tl_reply *reply, int64_t *ret) {
    if (tl__reply_int(tl__reply_item(reply, 0), ret) && *ret > -STATUS_END && *ret < STATUS_END)
        return true;
    return tl__reply_int(tl__reply_item(tl__reply_item(reply, 2), 0), ret);
}

static void add_reply(traced *text, const tl_reply *reply) {
    int64_t status;
    switch (reply->type) {
    case TL_REPLY_ERROR:
        add(text, "an error, ");
        add_bytes(text, tl__refusal_own(reply->text));
        break;
    case TL_REPLY_NIL: add(text, "nil"); break;
    case TL_REPLY_INT: add(text, "%lld", (long long)reply->integer); break;
    case TL_REPLY_ARRAY:
        if (has_status(reply, &status))
            add(text, "status %lld", (long long)status);
        else
            add(text, "%zu items", reply->count);
        break;
    default: add(text, "%zu bytes", reply->text.n);
    }
}

static const char *event_name(const tl_event *event) {
    switch (event->kind) {
    case TL_START: return "begins";
    case TL_ARMED: return event->armed ? "subscribed" : "no longer subscribed";
    case TL_WATCHED:
        return event->armed ? "the key's next change will be notified" : "the key may have changed";
    case TL_CHANGED: return "the key was read after a change";
    case TL_WOKEN: return "notified";
    case TL_TIMER: return "time is up";
    case TL_CANCEL: return "cancelled";
    default: return "";
    }
}

static void add_event(traced *text, const tl_event *event) {
    if (event->kind == TL_REPLY && event->replied.count == 0)
        add(text, "the server is reached");
    else if (event->kind == TL_REPLY) {
        add(text, "reply after %.3f ms: ", ms_between(event->asked.sent, event->now));
        add_reply(text, &event->replied.reply[0]);
    } else if (event->kind == TL_FAILED) {
        add(text,
            "no reply%s: ", event->failed.maybe_sent ? ", though the server may have acted" : "");
        add_bytes(text, event->failed.message);
    } else
        add(text, "%s", event_name(event));
}

/* ---- its result ------------------------------------------------------------------------------ */

/* Add `message` and the time until a limit; nothing if there is no limit. */
static void add_limit(traced *text, const char *message, tl_mono now, tl_mono limit) {
    if (limit.ns != TL_NEVER.ns)
        add(text, "%s %lld ms", message, (long long)tl__ms_until(now, limit));
}

static void add_send(traced *text, const tl_send *send, tl_mono now) {
    add(text, "%s",
        send->count > 0 ? "sends "
        : send->confirm ? "has the master confirmed"
                        : "reaches for the server");
    for (unsigned i = 0; i < send->count && i < COMMANDS_TOLD; i++) {
        const tl_command *command = &send->command[i];
        add(text, "%s", i > 0 ? " and " : "");
        add_bytes(text, command->form == TL_SCRIPT ? tl__script_name((tl_script)command->script)
                                                   : command->argv[0]);
    }
    add_limit(text, ", within", now, send->by);
}

static void add_end(traced *text, const tl_result *result, tl_status status, tl_mono now) {
    bool held = result->code == TL_OK && result->deadline.ns > now.ns;
    if (held && result->op == TL_ACQUIRE)
        add(text, "OK, for %.0f ms, fence %llu", ms_between(now, result->deadline),
            (unsigned long long)result->acquire.fence);
    else if (held)
        add(text, "OK, for %.0f ms", ms_between(now, result->deadline));
    else
        add(text, "%s%s", tl_err_name(result->code),
            status == TL_DETACH ? ", and goes on to undo what may have been done" : "");
}

static void add_decision(traced *text, const tl_result *result, const tl_out *out, tl_status status,
                         tl_mono now) {
    static const char *const notes[] = {[TL_NOTE_AT_RISK] = "AT_RISK, ",
                                        [TL_NOTE_HELD] = "HELD again, ",
                                        [TL_NOTE_LOST] = "LOST, "};
    for (unsigned i = 0; i < out->notes; i++)
        add(text, "%s", notes[out->note[i].kind]);
    add(text, "%s", out->arm ? "subscribes, " : "");
    if (status != TL_GO)
        add_end(text, result, status, now);
    else if (out->sends)
        add_send(text, &out->send, now);
    else {
        add(text, "waits");
        add_limit(text, " for at most", now, out->until);
    }
    add(text, "%s%s", out->message[0] ? ": " : "", out->message);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void say(tl_client *client, const tl_node *node, tl_bytes key, const char *does,
                const char *came, const char *led_to) {
    char name[TL_KEY_SHOWN + 1], label[TL_LABEL_SIZE];
    tl__bytes_print(name, sizeof name, key);
    tl__log(client, TL_LOG_DEBUG, "%s: %s%s%s: %s%s%s", tl__node_label(node, label), does,
            name[0] ? " " : "", name, came, led_to[0] ? "; " : "", led_to);
}

void tl__trace_step(tl_client *client, const tl_node *node, const tl_machine *machine,
                    const tl_event *event, const tl_out *out, tl_status status) {
    traced came = {""}, led_to = {""};
    add_event(&came, event);
    add_decision(&led_to, machine->state, out, status, event->now);
    /* The address of a node that moves is read under a mutex: with a trace, a simulated run would differ from
     * the run without. So the first node's name is printed instead. */
    say(client, tl__node_moves(node) ? &client->node : node, machine->key, machine->does, came.text,
        led_to.text);
}

void tl__trace(tl_client *client, tl_bytes key, const char *does, const char *what) {
    if (client->trace)
        say(client, &client->node, key, does, what, "");
}
