/*
 * The codec of Redis. A script that the server doesn't know is sent again by its text: with limits.in_order never behind
 * another request for its keys.
 */
#include <stdio.h>

#include "ground/guard.h"
#include "transport/conn_inside.h"

static bool make(tl_conn *c) {
    c->resp = tl__resp_new();
    return c->resp != NULL;
}

static void end(tl_conn *c) {
    tl__resp_free(c->resp);
}

/* ---- the login ------------------------------------------------------------------------------- */

static tl_err begin(tl_conn *c) {
    c->texts = 0;
    c->line_n = 0;
    if (!tl__resp_reset(c->resp))
        return TL_ENOMEM;
    tl__login_begin(c->login, c->endpoint,
                    (tl_login_asks){.time = !c->limits.no_time,
                                    .run = c->limits.ask_run,
                                    .id = c->limits.ask_id,
                                    .role = c->limits.site != NULL});
    return TL_OK;
}

static tl_login_outcome on_login(tl_conn *c, const tl_reply *reply, tl_mono received) {
    return tl__login_reply(c->login, reply, received);
}

/* ---- requests -------------------------------------------------------------------------------- */

static size_t encode(const tl_slot *s, const tl_command *command, char *to, size_t size) {
    return tl__command_encode(command, s->by_text, to, size);
}

_Static_assert(TL_SCRIPTS <= 64, "a bit for each");

static uint64_t scripts_of(const tl_slot *s) {
    uint64_t bits = 0;
    for (size_t i = 0; s->kept && i < s->count; i++)
        if (s->command[i].form == TL_SCRIPT)
            bits |= UINT64_C(1) << s->command[i].script;
    return bits;
}

static bool by_text(tl_slot *s) {
    s->by_text = true;
    return tl__slot_again(s);
}

/* limits.in_order: each script goes by its text once on a connection, as one that the server doesn't know would be sent
 * again, behind what has followed it. */
static bool dress(tl_conn *c, tl_slot *s) {
    uint64_t needed = c->limits.in_order ? scripts_of(s) : 0;
    if ((needed & ~c->texts) == 0)
        return true;
    c->texts |= needed;
    return s->by_text || by_text(s);
}

static bool fill(tl_conn *c, tl_slot *s, const tl_command *command, uint8_t count) {
    return tl__slot_fill(s, command, count, false) && (!tl__conn_up(c) || dress(c, s));
}

/* ---- replies --------------------------------------------------------------------------------- */

/* Of a line that is too long the rest is thrown away. Returns how many bytes are left. */
static size_t cut_lines(tl_conn *c, char *bytes, size_t n) {
    size_t kept = 0;
    if (c->limits.line_most == 0 || c->state != TL_CONN_UP)
        return n;
    for (size_t i = 0; i < n; i++) {
        bool end = bytes[i] == '\r' || bytes[i] == '\n';
        if (end || c->line_n < c->limits.line_most)
            bytes[kept++] = bytes[i];
        c->line_n = bytes[i] == '\n' ? 0 : c->line_n + 1;
    }
    return kept;
}

static void feed(tl_conn *c, char *bytes, size_t n) {
    tl__resp_feed(c->resp, bytes, cut_lines(c, bytes, n));
}

static int next(tl_conn *c, tl_reply *ret) {
    return tl__resp_next(c->resp, ret);
}

static bool is_out_of_memory(const tl_conn *c) {
    return tl__resp_is_out_of_memory(c->resp);
}

static const char *problem(const tl_conn *c, tl_bytes heard) {
    const char *who = c->state == TL_CONN_LOGIN ? tl__login_stranger(heard) : NULL;
    return who ? who : tl__resp_words(c->resp);
}

static void release(tl_conn *c) {
    tl__resp_release(c->resp);
}

/* Was a transaction begun that was neither executed nor discarded, as where EXEC alone is forbidden below 7.0? All
 * that followed on this connection would only be queued. */
static bool is_left_open(const tl_slot *s, const tl_reply *reply) {
    static const char discarded[] = "EXECABORT";
    tl_bytes begun;
    if (!s->native || !tl__reply_text(&reply[0], &begun) || !tl__bytes_eq(begun, TL_LITERAL("OK")))
        return false;
    bool over = false;
    for (size_t i = 0; i < s->count; i++)
        over = over || reply[i].type == TL_REPLY_ARRAY ||
               (reply[i].type == TL_REPLY_ERROR && tl__bytes_has_word(reply[i].text, discarded));
    return !over;
}

static const char *leaves(tl_conn *c, const tl_slot *s) {
    bool does = is_left_open(s, c->reply);
    for (size_t i = 0; i < s->count; i++)
        does = does || (GUARD(wrong_server_is_left) && c->reply[i].type == TL_REPLY_ERROR &&
                        tl__asks_elsewhere(c->reply[i].text));
    return does ? "server may be the master now" : NULL;
}

static bool is_noscript(const tl_reply *reply) {
    return reply->type == TL_REPLY_ERROR && tl__bytes_starts(reply->text, "NOSCRIPT");
}

static bool has_key(const tl_slot *s, tl_bytes key) {
    bool has = false;
    for (size_t i = 0; s->kept && i < s->count; i++)
        for (size_t k = 0; k < s->command[i].nkeys; k++)
            has = has || tl__bytes_eq(s->command[i].argv[k], key);
    return has;
}

/* Is anything of its keys behind it, the oldest request? It would be carried out first. */
static bool is_overtaken(const tl_conn *c, const tl_slot *s) {
    bool is = false;
    for (const tl_slot *t = c->slots.head; t && !is; t = t->next)
        for (size_t i = 0; i < s->count; i++)
            for (size_t k = 0; k < s->command[i].nkeys; k++)
                is = is || has_key(t, s->command[i].argv[k]);
    return is;
}

/* The server doesn't know the request's scripts: send it again by text? */
static bool again(tl_conn *c, tl_slot *s) {
    size_t unknown = 0;
    for (size_t i = 0; i < s->count; i++)
        unknown += is_noscript(&c->reply[i]);
    if (!s->kept || s->by_text || s->given_up || unknown == 0)
        return false;
    bool executed = unknown < s->count; /* the request's other command was */
    c->texts = 0;                       /* perhaps it knows no other either */
    if (GUARD(overtaken_is_refused) && c->limits.in_order && is_overtaken(c, s)) {
        char words[TL_STREAM_WORDS];
        (void)snprintf(words, sizeof words, "%s: its scripts were removed (SCRIPT FLUSH)",
                       c->endpoint->label);
        s->done = 0;
        s->effect = executed;
        tl__conn_refuse(c, s, TL_EUNAVAILABLE, words);
        return true;
    }
    if (!by_text(s))
        return false;
    c->texts = scripts_of(s);
    s->effect = executed;
    tl__conn_enqueue(c, s);
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
