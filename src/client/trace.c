/*
 * Steps as lines of the log: WHERE DOES KEY: what came; what it led to. It must never print what
 * a reply holds: that can be another holder's token.
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
} told;

/* Append it; what there is no room for is cut off. */
__attribute__((format(printf, 2, 3))) static void add(told *t, const char *format, ...) {
    size_t n = strlen(t->text);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(t->text + n, sizeof t->text - n, format, arguments);
    va_end(arguments);
}

static void add_bytes(told *t, tl_bytes bytes) {
    size_t n = strlen(t->text);
    tl__bytes_print(t->text + n, sizeof t->text - n, bytes);
}

static double ms_between(tl_mono from, tl_mono to) {
    return (double)tl__ns_until(from, to) / (double)TL_NS_PER_MS;
}

/* ---- what came ------------------------------------------------------------------------------- */

/* The scripts answer with a status first, or behind the two numbers of TIME. */
static bool has_status(const tl_reply *r, int64_t *ret) {
    if (tl__reply_int(tl__reply_item(r, 0), ret) && *ret > -STATUS_END && *ret < STATUS_END)
        return true;
    return tl__reply_int(tl__reply_item(tl__reply_item(r, 2), 0), ret);
}

static void add_reply(told *t, const tl_reply *r) {
    int64_t status;
    switch (r->type) {
    case TL_REPLY_ERROR:
        add(t, "an error, ");
        add_bytes(t, tl__refusal_own(r->text));
        break;
    case TL_REPLY_NIL: add(t, "nil"); break;
    case TL_REPLY_INT: add(t, "%lld", (long long)r->integer); break;
    case TL_REPLY_ARRAY:
        if (has_status(r, &status))
            add(t, "status %lld", (long long)status);
        else
            add(t, "%zu items", r->count);
        break;
    default: add(t, "%zu bytes", r->text.n);
    }
}

static const char *event_name(const tl_event *e) {
    switch (e->kind) {
    case TL_START: return "begins";
    case TL_ARMED: return e->armed ? "subscribed" : "not subscribed any more";
    case TL_WATCHED:
        return e->armed ? "the key's next change will be told" : "the key may have changed";
    case TL_CHANGED: return "the key was read after a change";
    case TL_WOKEN: return "notified";
    case TL_TIMER: return "time is up";
    case TL_CANCEL: return "cancelled";
    default: return "";
    }
}

static void add_event(told *t, const tl_event *e) {
    if (e->kind == TL_REPLY && e->replied.count == 0)
        add(t, "the server is reached");
    else if (e->kind == TL_REPLY) {
        add(t, "reply after %.3f ms: ", ms_between(e->asked.sent, e->now));
        add_reply(t, &e->replied.reply[0]);
    } else if (e->kind == TL_FAILED) {
        add(t, "no reply%s: ", e->failed.maybe_sent ? ", though the server may have acted" : "");
        add_bytes(t, e->failed.message);
    } else
        add(t, "%s", event_name(e));
}

/* ---- what it led to -------------------------------------------------------------------------- */

/* `words` and the time until a limit; nothing where there is none. */
static void add_limit(told *t, const char *words, tl_mono now, tl_mono limit) {
    if (limit.ns != TL_NEVER.ns)
        add(t, "%s %lld ms", words, (long long)tl__ms_until(now, limit));
}

static void add_send(told *t, const tl_send *send, tl_mono now) {
    add(t, "%s",
        send->count > 0 ? "sends "
        : send->confirm ? "has the master confirmed"
                        : "reaches for the server");
    for (unsigned i = 0; i < send->count && i < COMMANDS_TOLD; i++) {
        const tl_command *c = &send->command[i];
        add(t, "%s", i > 0 ? " and " : "");
        add_bytes(t, c->form == TL_SCRIPT ? tl__script_name((tl_script)c->script) : c->argv[0]);
    }
    add_limit(t, ", within", now, send->by);
}

static void add_end(told *t, const tl_result *r, tl_status status, tl_mono now) {
    bool held = r->code == TL_OK && r->deadline.ns > now.ns;
    if (held && r->op == TL_ACQUIRE)
        add(t, "OK, for %.0f ms, fence %llu", ms_between(now, r->deadline),
            (unsigned long long)r->acquire.fence);
    else if (held)
        add(t, "OK, for %.0f ms", ms_between(now, r->deadline));
    else
        add(t, "%s%s", tl_err_name(r->code),
            status == TL_DETACH ? ", and goes on to undo what may have been done" : "");
}

static void add_decision(told *t, const tl_result *r, const tl_out *out, tl_status status,
                         tl_mono now) {
    static const char *const notes[] = {[TL_NOTE_AT_RISK] = "AT_RISK, ",
                                        [TL_NOTE_HELD] = "HELD again, ",
                                        [TL_NOTE_LOST] = "LOST, "};
    for (unsigned i = 0; i < out->notes; i++)
        add(t, "%s", notes[out->note[i].kind]);
    add(t, "%s", out->arm ? "subscribes, " : "");
    if (status != TL_GO)
        add_end(t, r, status, now);
    else if (out->sends)
        add_send(t, &out->send, now);
    else {
        add(t, "waits");
        add_limit(t, " for at most", now, out->until);
    }
    add(t, "%s%s", out->words[0] ? ": " : "", out->words);
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
                    const tl_event *e, const tl_out *out, tl_status status) {
    told came = {""}, led_to = {""};
    add_event(&came, e);
    add_decision(&led_to, machine->state, out, status, e->now);
    /* Where one that moves is would be read under a mutex, and a simulated run be another than without its trace. */
    say(client, tl__node_moves(node) ? &client->node : node, machine->key, machine->does, came.text,
        led_to.text);
}

void tl__trace(tl_client *client, tl_bytes key, const char *does, const char *what) {
    if (client->trace)
        say(client, &client->node, key, does, what, "");
}
