/*
 * One step of a scan. It changes nothing, and asks for few keys at a time, since the server does nothing else
 * meanwhile.
 */
#include "protocol/scan.h"

#include "protocol/look.h"
#include "wire/keys.h"

#define AT_ONCE 100
#define VALUE_MAX 128 /* bytes of a token or stamp, with room to spare */
#define CURSOR_DIGITS 20
#define NEEDER "listing keys needs"

enum { REACH = 1, STEP };
enum { FIRST_KEY = 3 };                                   /* an item of the reply */
enum { WAITERS = TL_LOOK_OWNER + 1, KIND = WAITERS + 2 }; /* items of a key */

static const tl_needer needer = {NEEDER, NULL};

void tl__scan_init(tl_scan *scan, tl_bytes pattern, uint64_t cursor, int64_t attempt_ms,
                   int64_t connect_ms) {
    *scan = (tl_scan){.pattern = pattern, .cursor = cursor, .attempt_ms = attempt_ms};
    scan->connect_ms = connect_ms;
}

/* ---- the cursor: 64 bits without a sign ------------------------------------------------------ */

static tl_bytes cursor_text(char *to, uint64_t v) {
    char *p = to + CURSOR_DIGITS;
    do
        *--p = (char)('0' + v % 10);
    while ((v /= 10) > 0);
    return tl__bytes(p, (size_t)(to + CURSOR_DIGITS - p));
}

static bool read_cursor(const tl_reply *reply, uint64_t *ret) {
    tl_bytes text;
    return tl__reply_text(reply, &text) && tl__bytes_to_uint(text, 10, ret);
}

/* ---- one step -------------------------------------------------------------------------------- */

/* The script knows no dialect: by its form such a text is nothing. */
static tl_bytes endless_texts(const tl_scan *scan, tl_out *out) {
    const tl_legacy_look *stamps = TL_FROM_COMPAT(tl__legacy_look);
    const tl_bytes blank = TL_LITERAL(" ");
    tl_bytes all = blank, text;
    if (scan->legacy && stamps)
        for (unsigned i = 0; stamps->endless(scan->legacy, i, &text); i++)
            if (text.n > 0)
                all = tl__out_copy(out, tl__out_copy(out, all, text), blank);
    return all;
}

static tl_status ask(tl_scan *scan, const tl_event *event, tl_out *out) {
    char cursor[CURSOR_DIGITS];
    tl_send *send = tl__out_send(out, STEP, tl__mono_add_ms(event->now, scan->attempt_ms));
    tl_command *command = &send->command[send->count++];
    scan->ticket = STEP;
    *command = (tl_command){.form = TL_SCRIPT, .script = TL_SCRIPT_SCAN, .argc = 6};
    command->argv[0] = tl__out_copy(out, cursor_text(cursor, scan->cursor), (tl_bytes){0});
    command->argv[1] = scan->pattern;
    command->argv[2] = tl__out_int(out, AT_ONCE);
    command->argv[3] = tl__out_int(out, VALUE_MAX);
    command->argv[4] = tl__out_int(out, TL_KEY_MAX);
    command->argv[5] = endless_texts(scan, out);
    return TL_GO;
}

static void tell(const tl_scan *scan, const tl_reply *item, int64_t now_us) {
    tl_lock_info info;
    tl_bytes key, kind;
    if (!tl__reply_text(tl__reply_item(item, 0), &key) || key.n == 0 || key.n > TL_KEY_MAX ||
        tl__is_counter(key))
        return;
    if (!tl__reply_text(tl__reply_item(item, KIND), &kind))
        kind = TL_LITERAL("string");
    tl__look_fill(&info, scan->legacy, key, kind, item, now_us);
    tl__look_waiters(&info, item, WAITERS);
    if (tl__look_is_lock(&info, key))
        scan->found(key.p, key.n, &info, scan->ctx);
}

static tl_status stepped(tl_scan *scan, const tl_event *event, tl_out *out) {
    int64_t now_us;
    uint64_t cursor;
    const tl_reply *reply = event->replied.reply;
    if (!read_cursor(tl__reply_item(reply, 0), &cursor) || !tl__reply_time(reply, 1, &now_us))
        return tl__end_malformed(scan, out);
    scan->cursor = cursor;
    tl__out_time(out, reply, 1, event);
    for (size_t i = FIRST_KEY; i < reply->count; i++)
        tell(scan, &reply->items[i], now_us);
    return TL_END;
}

/* The script's SCAN failed. A server that doesn't know SCAN doesn't name it in the error. Up to 6.2 that error says
 * "called from Lua script": such a server may be older than SCAN. */
static tl_status scan_refused(tl_scan *scan, tl_bytes error, tl_out *out) {
    static const char lacks[] = "the server has no SCAN, which " NEEDER
                                ": Redis 2.8 or newer, not renamed";
    static const char renamed[] = "the server has no SCAN, which " NEEDER
                                  ": it is renamed or forbidden there";
    tl_err code = tl__refusal(error);
    bool newer = tl__bytes_has(error, "called from script");
    if (code == TL_EUNSUPPORTED)
        return tl__end(scan, code, newer ? TL_LITERAL(renamed) : TL_LITERAL(lacks), out);
    return tl__end_refused(scan, error, &needer, out);
}

static tl_status answered(tl_scan *scanning, const tl_event *event, tl_out *out) {
    if (scanning->ticket == REACH)
        return ask(scanning, event, out);
    if (event->replied.count < 1)
        return tl__end_malformed(scanning, out);
    const tl_reply *scan = tl__reply_item(event->replied.reply, 1); /* an error of SCAN */
    if (event->replied.reply->type == TL_REPLY_ERROR)
        return tl__end_refused(scanning, event->replied.reply->text, &needer, out);
    return scan->type == TL_REPLY_ERROR ? scan_refused(scanning, scan->text, out)
                                        : stepped(scanning, event, out);
}

tl_status tl__scan_step(void *machine, const tl_event *event, tl_out *out) {
    tl_scan *scan = machine;
    switch (event->kind) {
    case TL_START:
        scan->ticket = REACH;
        tl__out_send(out, REACH, tl__mono_add_ms(event->now, scan->connect_ms));
        return TL_GO;
    case TL_REPLY: return event->asked.ticket == scan->ticket ? answered(scan, event, out) : TL_GO;
    case TL_FAILED:
        return event->asked.ticket == scan->ticket ? tl__end_failed(scan, event, false, out)
                                                   : TL_GO;
    case TL_CANCEL: return tl__end_cancelled(scan, out);
    default: return TL_GO;
    }
}
