/*
 * Steps as lines of the log: WHERE DOES KEY: what came; what it led to. It must never print what
 * a reply holds: that can be another holder's token.
 */
#include "client/trace.h"

#include <stdio.h>

#include "wire/script.h"

#define KEY_SHOWN 64
#define TEXT_SIZE 240
#define STATUS_END 10

typedef struct {
    char text[TEXT_SIZE];
} told;

static double ms_between(tl_mono from, tl_mono to) {
    return (double)tl__ns_until(from, to) / (double)TL_NS_PER_MS;
}

/* ---- what came ------------------------------------------------------------------------------- */

/* Servers repeat the arguments of a command that they don't know. */
static int error_shown(tl_bytes error) {
    static const char arguments[] = ", with args";
    const char *end = memmem(error.p, error.n, arguments, sizeof arguments - 1);
    return (int)(end ? end - error.p : (ptrdiff_t)error.n);
}

/* The scripts answer with a status first, or behind the two numbers of TIME. */
static bool has_status(const tl_reply *r, int64_t *ret) {
    if (tl__reply_int(tl__reply_item(r, 0), ret) && *ret > -STATUS_END && *ret < STATUS_END)
        return true;
    return tl__reply_int(tl__reply_item(tl__reply_item(r, 2), 0), ret);
}

static told reply_told(const tl_reply *r) {
    told t;
    int64_t status;
    switch (r->type) {
    case TL_REPLY_ERROR: {
        char words[TEXT_SIZE];
        tl__bytes_print(words, sizeof words, tl__bytes(r->text.p, (size_t)error_shown(r->text)));
        (void)snprintf(t.text, sizeof t.text, "an error, %s", words);
        break;
    }
    case TL_REPLY_NIL: (void)snprintf(t.text, sizeof t.text, "nil"); break;
    case TL_REPLY_INT: (void)snprintf(t.text, sizeof t.text, "%lld", (long long)r->integer); break;
    case TL_REPLY_ARRAY:
        if (has_status(r, &status))
            (void)snprintf(t.text, sizeof t.text, "status %lld", (long long)status);
        else
            (void)snprintf(t.text, sizeof t.text, "%zu items", r->count);
        break;
    default: (void)snprintf(t.text, sizeof t.text, "%zu bytes", r->text.n);
    }
    return t;
}

static const char *event_name(const tl_event *e) {
    switch (e->kind) {
    case TL_START: return "begins";
    case TL_ARMED: return e->armed ? "subscribed" : "not subscribed any more";
    case TL_WATCHED:
        return e->reply   ? "the key was read after a change"
               : e->armed ? "the key's next change will be told"
                          : "the key may have changed";
    case TL_WOKEN: return "notified";
    case TL_TIMER: return "time is up";
    case TL_CANCEL: return "cancelled";
    default: return "";
    }
}

static told event_told(const tl_event *e) {
    told t;
    char words[TEXT_SIZE];
    if (e->kind == TL_REPLY && e->count == 0)
        (void)snprintf(t.text, sizeof t.text, "the server is reached");
    else if (e->kind == TL_REPLY)
        (void)snprintf(t.text, sizeof t.text, "reply after %.3f ms: %s",
                       ms_between(e->sent, e->now), reply_told(&e->reply[0]).text);
    else if (e->kind == TL_FAILED) {
        tl__bytes_print(words, sizeof words, e->words);
        (void)snprintf(t.text, sizeof t.text, "no reply%s: %s",
                       e->maybe_sent ? ", though the server may have acted" : "", words);
    } else
        (void)snprintf(t.text, sizeof t.text, "%s", event_name(e));
    return t;
}

/* ---- what it led to -------------------------------------------------------------------------- */

static tl_bytes command_name(const tl_command *c) {
    return c->form == TL_SCRIPT ? tl__script_name((tl_script)c->script) : c->argv[0];
}

/* `words` and the time until a limit; nothing where there is none. */
static told limit_told(const char *words, tl_mono now, tl_mono limit) {
    told t = {""};
    if (limit.ns != TL_NEVER.ns)
        (void)snprintf(t.text, sizeof t.text, "%s %lld ms", words,
                       (long long)tl__ms_until(now, limit));
    return t;
}

static told send_told(const tl_send *send, tl_mono now) {
    told t;
    char name[32] = "", second[32] = "";
    if (send->count > 0)
        tl__bytes_print(name, sizeof name, command_name(&send->command[0]));
    if (send->count > 1)
        tl__bytes_print(second, sizeof second, command_name(&send->command[1]));
    (void)snprintf(t.text, sizeof t.text, "%s%s%s%s%s",
                   send->count > 0 ? "sends "
                   : send->confirm ? "has the master confirmed"
                                   : "reaches for the server",
                   name, second[0] ? " and " : "", second,
                   limit_told(", within", now, send->by).text);
    return t;
}

static told wait_told(const tl_out *out, tl_mono now) {
    told t;
    (void)snprintf(t.text, sizeof t.text, "waits%s",
                   limit_told(" for at most", now, out->until).text);
    return t;
}

static told end_told(const tl_result *r, tl_status status, tl_mono now) {
    told t;
    if (r->code == TL_OK && r->deadline.ns > now.ns)
        (void)snprintf(t.text, sizeof t.text, "OK, for %.0f ms, fence %llu",
                       ms_between(now, r->deadline), (unsigned long long)r->fence);
    else
        (void)snprintf(t.text, sizeof t.text, "%s%s", tl_err_name(r->code),
                       status == TL_DETACH ? ", and goes on to undo what may have been done" : "");
    return t;
}

static told decision_told(const tl_result *r, const tl_out *out, tl_status status, tl_mono now) {
    static const char *const notes[] = {[TL_NOTE_AT_RISK] = "AT_RISK, ",
                                        [TL_NOTE_HELD] = "HELD again, ",
                                        [TL_NOTE_LOST] = "LOST, "};
    told rest = status != TL_GO ? end_told(r, status, now)
                : out->sends    ? send_told(&out->send, now)
                                : wait_told(out, now);
    told t;
    (void)snprintf(t.text, sizeof t.text, "%s%s%s%.120s%s%s",
                   out->notes > 0 ? notes[out->note[0].kind] : "",
                   out->notes > 1 ? notes[out->note[1].kind] : "", out->arm ? "subscribes, " : "",
                   rest.text, out->words[0] ? ": " : "", out->words);
    return t;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void say(tl_client *client, const tl_node *node, tl_bytes key, const char *does,
                const char *came, const char *led_to) {
    char name[KEY_SHOWN + 1], label[TL_LABEL_SIZE];
    tl__bytes_print(name, sizeof name, key);
    tl__log(client, TL_LOG_DEBUG, "%s: %s%s%s: %s%s%s", tl__node_label(node, label), does,
            name[0] ? " " : "", name, came, led_to[0] ? "; " : "", led_to);
}

void tl__trace_step(tl_client *client, const tl_node *node, const tl_machine *machine,
                    const tl_event *e, const tl_out *out, tl_status status) {
    told came = event_told(e), led_to = decision_told(machine->state, out, status, e->now);
    say(client, node, machine->key, machine->does, came.text, led_to.text);
}

void tl__trace(tl_client *client, tl_bytes key, const char *does, const char *what) {
    if (client->trace)
        say(client, &client->node, key, does, what, "");
}
