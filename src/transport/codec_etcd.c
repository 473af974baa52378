/*
 * The codec of etcd, whose connections lead to one of its members after the other. It must never send a
 * request with a token that belongs to another connection.
 */
#include <stdio.h>

#include "ground/guard.h"
#include "transport/conn_inside.h"

/* ---- members --------------------------------------------------------------------------------- */

static bool make(tl_conn *conn) {
    conn->gateway = tl__gateway_new(conn->limits.members->prefix);
    conn->others = conn->limits.members->count - 1;
    return conn->gateway != NULL;
}

static bool lead(tl_conn *conn) {
    tl_members *m = conn->limits.members;
    conn->member = atomic_load(&m->at);
    conn->endpoint = &m->endpoint[conn->member];
    tl__stream_lead(&conn->stream, conn->endpoint);
    tl__gateway_logs_in(conn->gateway, conn->endpoint->user[0] != '\0');
    conn->via.host = tl__bytes_of(conn->endpoint->label);
    conn->via.prefix = m->prefix;
    return true;
}

static const char another_member[] = "member may serve", another_login[] = "login is needed";

/* A new login goes to the same member. */
static bool goes_on(tl_conn *conn) {
    if (conn->leaving == another_login)
        return false;
    tl__members_pass(conn->limits.members, conn->member);
    conn->passed = conn->served ? 1 : conn->passed + 1;
    bool left = conn->passed <= conn->others;
    if (!left)
        conn->passed = 0;
    return left;
}

static const char *leaves(tl_conn *conn, const tl_slot *slot) {
    bool passes = tl__gateway_closes(conn->gateway) || conn->leaving == another_member;
    bool logs_in = false;
    for (size_t i = 0; i < slot->count; i++) {
        const tl_reply *reply = &conn->reply[i];
        bool error = reply->type == TL_REPLY_ERROR;
        bool wants_login = GUARD(login_is_made_anew) && error && tl__etcd_wants_login(reply->text);
        logs_in = logs_in || wants_login;
        passes = passes || (GUARD(unfit_member_is_left) && error && !wants_login &&
                            tl__etcd_asks_elsewhere(reply->text));
    }
    return passes ? another_member : logs_in ? another_login : NULL;
}

/* ---- the login ------------------------------------------------------------------------------- */

static void end(tl_conn *conn) {
    tl__gateway_free(conn->gateway);
    tl__members_forget_token(&conn->via.token);
}

static tl_err begin(tl_conn *conn) {
    tl_login *login = conn->login;
    tl__gateway_reset(conn->gateway);
    tl__members_forget_token(&conn->via.token);
    tl__login_clear(login, conn->endpoint);
    if (!conn->endpoint->user[0])
        return TL_OK;
    const tl_etcd_via via = {.host = conn->via.host, .timeout_ms = conn->limits.connect_ms};
    login->steps = 1;
    login->size = tl__members_ask_token(conn->endpoint, &via, login->bytes, sizeof login->bytes);
    return login->size <= sizeof login->bytes ? TL_OK : TL_EINVALID;
}

static tl_login_outcome on_login(tl_conn *conn, const tl_reply *reply, tl_mono received) {
    tl_bytes message;
    char shown[160], problem[sizeof shown + 8];
    (void)received;
    if (reply->type == TL_REPLY_STRING && tl__members_keep_token(&conn->via.token, reply->text))
        return TL_LOGIN_DONE;
    if (reply->type != TL_REPLY_ERROR)
        return tl__login_fail(conn->login, TL_ESERVER, "the reply has no usable token");
    int code = tl__etcd_error(reply->text, &message);
    if (tl__bytes_has(message, "authentication is not enabled"))
        return TL_LOGIN_DONE; /* then no login is needed */
    /* Users changed while the login was checked. */
    bool passes = tl__etcd_is_login_outdated(message);
    tl__bytes_print(shown, sizeof shown, message);
    (void)snprintf(problem, sizeof problem, "login: %s", shown);
    return tl__login_fail(
        conn->login, tl__etcd_is_definite(code) && !passes ? TL_EDENIED : TL_EUNAVAILABLE, problem);
}

/* ---- requests -------------------------------------------------------------------------------- */

static size_t encode(const tl_slot *slot, const tl_command *command, char *to, size_t size) {
    tl_etcd_via via = *(const tl_etcd_via *)slot->via;
    via.timeout_ms = slot->by.ns != TL_NEVER.ns ? tl__ms_until(slot->queued, slot->by) : 0;
    return tl__etcd_encode(command, &via, to, size);
}

/* All commands are stored: the kind of the request decides how its reply is read. */
static bool fill(tl_conn *conn, tl_slot *slot, const tl_command *command, uint8_t count) {
    slot->via = &conn->via;
    return tl__slot_fill(slot, command, count, true);
}

/* Encode it for this member, with its token. */
static bool dress(tl_conn *conn, tl_slot *slot) {
    (void)conn;
    return !GUARD(request_gets_token) || tl__slot_again(slot);
}

/* ---- replies --------------------------------------------------------------------------------- */

static void feed(tl_conn *conn, char *bytes, size_t n) {
    tl__gateway_feed(conn->gateway, bytes, n);
}

/* The reply belongs to the oldest request, whose kind decides how it is read. So requests that only wait for
 * the server are answered first. */
static int next(tl_conn *conn, tl_reply *ret) {
    tl__conn_answer_reached(conn);
    const tl_slot *slot = conn->slots.head;
    tl_etcd_kind kind = TL_ETCD_NONE;
    if (conn->state == TL_CONN_LOGIN)
        kind = TL_ETCD_AUTH;
    else if (slot && tl__slot_is_asked(slot))
        kind = tl__etcd_kind(&slot->command[slot->got]);
    return tl__gateway_next(conn->gateway, kind, ret);
}

static bool is_out_of_memory(const tl_conn *conn) {
    return tl__gateway_is_out_of_memory(conn->gateway);
}

static const char *problem(const tl_conn *conn, tl_bytes heard) {
    (void)heard;
    return tl__gateway_problem(conn->gateway);
}

static void release(tl_conn *conn) {
    tl__gateway_release(conn->gateway);
}

const tl_codec tl__codec_etcd = {
    .reply = "reply of etcd's JSON gateway",
    .unanswered = ", without a reply: is it an etcd?",
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
