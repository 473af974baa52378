/*
 * The codec of etcd, whose connections lead to one of its members after the other. A request must never be said with a
 * token that belongs to another connection.
 */
#include <stdio.h>

#include "ground/guard.h"
#include "transport/conn_inside.h"

/* ---- whom to --------------------------------------------------------------------------------- */

static bool make(tl_conn *c) {
    c->gateway = tl__gateway_new(c->limits.members->prefix);
    c->others = c->limits.members->count - 1;
    return c->gateway != NULL;
}

static bool lead(tl_conn *c) {
    tl_members *m = c->limits.members;
    c->member = atomic_load(&m->at);
    c->endpoint = &m->endpoint[c->member];
    tl__stream_lead(&c->stream, c->endpoint);
    tl__gateway_logs_in(c->gateway, c->endpoint->user[0] != '\0');
    c->via.host = tl__bytes_of(c->endpoint->label);
    c->via.prefix = m->prefix;
    return true;
}

static const char another_member[] = "member may answer", another_login[] = "login is needed";

/* To log in anew is to do so at the same member. */
static bool goes_on(tl_conn *c) {
    if (c->leaving == another_login)
        return false;
    tl__members_pass(c->limits.members, c->member);
    c->passed = c->served ? 1 : c->passed + 1;
    bool left = c->passed <= c->others;
    if (!left)
        c->passed = 0;
    return left;
}

static const char *leaves(tl_conn *c, const tl_slot *s) {
    bool passes = tl__gateway_closes(c->gateway) || c->leaving == another_member;
    bool logs_in = false;
    for (size_t i = 0; i < s->count; i++) {
        const tl_reply *reply = &c->reply[i];
        bool error = reply->type == TL_REPLY_ERROR;
        bool wants_login = GUARD(login_is_made_anew) && error && tl__etcd_wants_login(reply->text);
        logs_in = logs_in || wants_login;
        passes = passes || (GUARD(unfit_member_is_left) && error && !wants_login &&
                            tl__etcd_asks_elsewhere(reply->text));
    }
    return passes ? another_member : logs_in ? another_login : NULL;
}

/* ---- the login ------------------------------------------------------------------------------- */

static void end(tl_conn *c) {
    tl__gateway_free(c->gateway);
    tl__members_forget_token(&c->via.token);
}

static tl_err begin(tl_conn *c) {
    tl_login *l = c->login;
    tl__gateway_reset(c->gateway);
    tl__members_forget_token(&c->via.token);
    tl__login_clear(l, c->endpoint);
    if (!c->endpoint->user[0])
        return TL_OK;
    const tl_etcd_via via = {.host = c->via.host, .timeout_ms = c->limits.connect_ms};
    l->steps = 1;
    l->size = tl__members_ask_token(c->endpoint, &via, l->bytes, sizeof l->bytes);
    return l->size <= sizeof l->bytes ? TL_OK : TL_EINVALID;
}

static tl_login_outcome on_login(tl_conn *c, const tl_reply *reply, tl_mono received) {
    tl_bytes message;
    char shown[160], problem[sizeof shown + 8];
    (void)received;
    if (reply->type == TL_REPLY_STRING && tl__members_keep_token(&c->via.token, reply->text))
        return TL_LOGIN_DONE;
    if (reply->type != TL_REPLY_ERROR)
        return tl__login_fail(c->login, TL_ESERVER, "no token that could be used");
    int code = tl__etcd_error(reply->text, &message);
    if (tl__bytes_has(message, "authentication is not enabled"))
        return TL_LOGIN_DONE;                          /* then nobody needs one */
    bool passes = tl__etcd_is_login_outdated(message); /* they changed while it was checked */
    tl__bytes_print(shown, sizeof shown, message);
    (void)snprintf(problem, sizeof problem, "login: %s", shown);
    return tl__login_fail(
        c->login, tl__etcd_is_definite(code) && !passes ? TL_EDENIED : TL_EUNAVAILABLE, problem);
}

/* ---- requests -------------------------------------------------------------------------------- */

static size_t encode(const tl_slot *s, const tl_command *command, char *to, size_t size) {
    tl_etcd_via via = *(const tl_etcd_via *)s->via;
    via.timeout_ms = s->by.ns != TL_NEVER.ns ? tl__ms_until(s->queued, s->by) : 0;
    return tl__etcd_encode(command, &via, to, size);
}

/* All are kept: which request it was says what its answer means. */
static bool fill(tl_conn *c, tl_slot *s, const tl_command *command, uint8_t count) {
    s->via = &c->via;
    return tl__slot_fill(s, command, count, true);
}

/* For this member, with its token. */
static bool dress(tl_conn *c, tl_slot *s) {
    (void)c;
    return !GUARD(request_gets_token) || tl__slot_again(s);
}

/* ---- answers --------------------------------------------------------------------------------- */

static void feed(tl_conn *c, char *bytes, size_t n) {
    tl__gateway_feed(c->gateway, bytes, n);
}

/* To the oldest request, which says what it means: so those who only wait for the server are answered before. */
static int next(tl_conn *c, tl_reply *ret) {
    tl__conn_answer_reached(c);
    const tl_slot *s = c->slots.head;
    tl_etcd_kind kind = TL_ETCD_NONE;
    if (c->state == TL_CONN_LOGIN)
        kind = TL_ETCD_AUTH;
    else if (s && tl__slot_is_asked(s))
        kind = tl__etcd_kind(&s->command[s->got]);
    return tl__gateway_next(c->gateway, kind, ret);
}

static bool is_out_of_memory(const tl_conn *c) {
    return tl__gateway_is_out_of_memory(c->gateway);
}

static const char *problem(const tl_conn *c, tl_bytes heard) {
    (void)heard;
    return tl__gateway_words(c->gateway);
}

static void release(tl_conn *c) {
    tl__gateway_release(c->gateway);
}

const tl_codec tl__codec_etcd = {
    .reply = "answer of etcd's JSON gateway",
    .unanswered = ", without an answer: is it an etcd?",
    .strangers_do_nothing = true,
    .watches = true,
    .make = make,
    .end = end,
    .lead = lead,
    .goes_on = goes_on,
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
};
