/*
 * The codec of Redis. A script that the server doesn't know is sent again by its text; with limits.in_order
 * never behind another request for its keys.
 */
#include <stdio.h>

#include "ground/guard.h"
#include "transport/conn_inside.h"

static bool make(tl_conn *conn) {
    conn->resp = tl__resp_new();
    return conn->resp != NULL;
}

static void end(tl_conn *conn) {
    tl__resp_free(conn->resp);
}

/* ---- the login ------------------------------------------------------------------------------- */

static tl_err begin(tl_conn *conn) {
    conn->texts = 0;
    conn->line_n = 0;
    if (!tl__resp_reset(conn->resp))
        return TL_ENOMEM;
    tl__login_begin(conn->login, conn->endpoint,
                    (tl_login_asks){.time = !conn->limits.no_time,
                                    .run = conn->limits.ask_run,
                                    .id = conn->limits.ask_id,
                                    .role = conn->limits.site != NULL});
    return TL_OK;
}

static tl_login_outcome on_login(tl_conn *conn, const tl_reply *reply, tl_mono received) {
    return tl__login_reply(conn->login, reply, received);
}

/* ---- requests -------------------------------------------------------------------------------- */

static size_t encode(const tl_slot *slot, const tl_command *command, char *to, size_t size) {
    return tl__command_encode(command, slot->by_text, to, size);
}

_Static_assert(TL_SCRIPTS <= 64, "a bit for each");

static uint64_t scripts_of(const tl_slot *slot) {
    uint64_t bits = 0;
    for (size_t i = 0; slot->kept && i < slot->count; i++)
        if (slot->command[i].form == TL_SCRIPT)
            bits |= UINT64_C(1) << slot->command[i].script;
    return bits;
}

static bool by_text(tl_slot *slot) {
    slot->by_text = true;
    return tl__slot_again(slot);
}

/* limits.in_order: each script is sent by its text once on a connection. Otherwise a script that the server
 * doesn't know would be sent again, behind requests that followed it. */
static bool dress(tl_conn *conn, tl_slot *slot) {
    uint64_t needed = conn->limits.in_order ? scripts_of(slot) : 0;
    if ((needed & ~conn->texts) == 0)
        return true;
    conn->texts |= needed;
    return slot->by_text || by_text(slot);
}

static bool fill(tl_conn *conn, tl_slot *slot, const tl_command *command, uint8_t count) {
    return tl__slot_fill(slot, command, count, false) && (!tl__conn_up(conn) || dress(conn, slot));
}

/* ---- replies --------------------------------------------------------------------------------- */

/* Remove the excess of lines that are too long. Returns how many bytes are left. */
static size_t cut_lines(tl_conn *conn, char *bytes, size_t n) {
    size_t kept = 0;
    if (conn->limits.line_most == 0 || conn->state != TL_CONN_UP)
        return n;
    for (size_t i = 0; i < n; i++) {
        bool end = bytes[i] == '\r' || bytes[i] == '\n';
        if (end || conn->line_n < conn->limits.line_most)
            bytes[kept++] = bytes[i];
        conn->line_n = bytes[i] == '\n' ? 0 : conn->line_n + 1;
    }
    return kept;
}

static void feed(tl_conn *conn, char *bytes, size_t n) {
    tl__resp_feed(conn->resp, bytes, cut_lines(conn, bytes, n));
}

static int next(tl_conn *conn, tl_reply *ret) {
    return tl__resp_next(conn->resp, ret);
}

static bool is_out_of_memory(const tl_conn *conn) {
    return tl__resp_is_out_of_memory(conn->resp);
}

static const char *problem(const tl_conn *conn, tl_bytes heard) {
    const char *who = conn->state == TL_CONN_LOGIN ? tl__login_stranger(heard) : NULL;
    return who ? who : tl__resp_message(conn->resp);
}

static void release(tl_conn *conn) {
    tl__resp_release(conn->resp);
}

/* Was a transaction begun, but neither executed nor discarded? That happens below 7.0 where only EXEC is
 * forbidden. All later commands on this connection would only be queued. */
static bool is_left_open(const tl_slot *slot, const tl_reply *reply) {
    static const char discarded[] = "EXECABORT";
    tl_bytes begun;
    if (!slot->native || !tl__reply_text(&reply[0], &begun) ||
        !tl__bytes_eq(begun, TL_LITERAL("OK")))
        return false;
    bool over = false;
    for (size_t i = 0; i < slot->count; i++)
        over = over || reply[i].type == TL_REPLY_ARRAY ||
               (reply[i].type == TL_REPLY_ERROR && tl__bytes_has_word(reply[i].text, discarded));
    return !over;
}

static const char *leaves(tl_conn *conn, const tl_slot *slot) {
    bool does = is_left_open(slot, conn->reply);
    for (size_t i = 0; i < slot->count; i++)
        does = does || (GUARD(wrong_server_is_left) && conn->reply[i].type == TL_REPLY_ERROR &&
                        tl__asks_elsewhere(conn->reply[i].text));
    return does ? "server may be the master now" : NULL;
}

static bool is_noscript(const tl_reply *reply) {
    return reply->type == TL_REPLY_ERROR && tl__bytes_starts(reply->text, "NOSCRIPT");
}

static bool has_key(const tl_slot *slot, tl_bytes key) {
    bool has = false;
    for (size_t i = 0; slot->kept && i < slot->count; i++)
        for (size_t k = 0; k < slot->command[i].nkeys; k++)
            has = has || tl__bytes_eq(slot->command[i].argv[k], key);
    return has;
}

/* Is a request for one of its keys behind it, the oldest request? That one would be executed first. */
static bool is_overtaken(const tl_conn *conn, const tl_slot *s) {
    bool is = false;
    for (const tl_slot *t = conn->slots.head; t && !is; t = t->next)
        for (size_t i = 0; i < s->count; i++)
            for (size_t k = 0; k < s->command[i].nkeys; k++)
                is = is || has_key(t, s->command[i].argv[k]);
    return is;
}

/* The server doesn't know the request's scripts: must it be sent again by text? */
static bool again(tl_conn *conn, tl_slot *slot) {
    size_t unknown = 0;
    for (size_t i = 0; i < slot->count; i++)
        unknown += is_noscript(&conn->reply[i]);
    if (!slot->kept || slot->by_text || slot->given_up || unknown == 0)
        return false;
    bool executed = unknown < slot->count; /* the request's other command was executed */
    conn->texts = 0;                       /* it may have lost all others, too */
    if (GUARD(overtaken_is_refused) && conn->limits.in_order && is_overtaken(conn, slot)) {
        char message[TL_STREAM_MESSAGE_SIZE];
        (void)snprintf(message, sizeof message, "%s: its scripts were removed (SCRIPT FLUSH)",
                       conn->endpoint->label);
        slot->done = 0;
        slot->effect = executed;
        tl__conn_refuse(conn, slot, TL_EUNAVAILABLE, message);
        return true;
    }
    if (!by_text(slot))
        return false;
    conn->texts = scripts_of(slot);
    slot->effect = executed;
    tl__conn_enqueue(conn, slot);
    return true;
}

const tl_codec tl__codec_resp = {
    .reply = "reply of a Redis server",
    .unanswered = "",
    .make = make,
    .end = end,
    .lead = tl__conn_lead,
    .begin = begin,
    .on_login = on_login,
    .fill = fill,
    .encode = encode,
    .dress = dress,
    .feed = feed,
    .next = next,
    .is_out_of_memory = is_out_of_memory,
    .problem = problem,
    .release = release,
    .leaves = leaves,
    .again = again,
};
