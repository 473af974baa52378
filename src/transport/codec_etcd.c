/*
 * The codec of etcd's JSON gateway, whose connections lead to one of its members after the other. It must never send a
 * request with a token that belongs to another connection.
 */
#include <stdio.h>

#include "ground/guard.h"
#include "transport/codec_etcd.h"

/* ---- members --------------------------------------------------------------------------------- */

static bool make(tl_conn *conn) {
    conn->gateway = tl__gateway_new(conn->limits.members->prefix);
    conn->others = conn->limits.members->count - 1;
    return conn->gateway != NULL;
}

bool tl__etcd_lead(tl_conn *conn) {
    tl_members *m = conn->limits.members;
    conn->member = atomic_load(&m->at);
    conn->endpoint = &m->endpoint[conn->member];
    tl__stream_lead(&conn->stream, conn->endpoint);
    conn->via.host = tl__bytes_of(conn->endpoint->label);
    conn->via.prefix = m->prefix;
    return true;
}

bool tl__etcd_lead_gateway(tl_conn *conn) {
    (void)tl__etcd_lead(conn);
    tl__gateway_logs_in(conn->gateway, conn->endpoint->user[0] != '\0');
    return true;
}

/* The gateway is asked only because the member spoke no HTTP/2 on the connection before. */
static bool is_fallback(const tl_conn *conn) {
    return tl__codec_of(&conn->limits)->calls && tl__grpc_works();
}

static bool lead(tl_conn *conn) {
    return is_fallback(conn) && GUARD(http2_is_tried_again) ? tl__etcd_become_grpc(conn)
                                                            : tl__etcd_lead_gateway(conn);
}

static const char another_login[] = "login is needed";
const char tl__etcd_another_member[] = "member may serve";
const char tl__etcd_other_protocol[] = "protocol is spoken there";

/* A new login goes to the same member. */
bool tl__etcd_goes_on(tl_conn *conn) {
    if (conn->leaving == another_login || conn->leaving == tl__etcd_other_protocol)
        return conn->leaving == tl__etcd_other_protocol;
    tl__members_pass(conn->limits.members, conn->member);
    conn->passed = conn->served ? 1 : conn->passed + 1;
    bool left = conn->passed <= conn->others;
    if (!left)
        conn->passed = 0;
    return left;
}

const char *tl__etcd_leaves(tl_conn *conn, const tl_slot *slot, bool closes) {
    bool passes = closes || conn->leaving == tl__etcd_another_member;
    bool logs_in = false;
    for (size_t i = 0; i < slot->count; i++) {
        const tl_reply *reply = &conn->reply[i];
        bool error = reply->type == TL_REPLY_ERROR;
        bool wants_login = GUARD(login_is_made_anew) && error && tl__etcd_wants_login(reply->text);
        logs_in = logs_in || wants_login;
        passes = passes || (GUARD(unfit_member_is_left) && error && !wants_login &&
                            tl__etcd_asks_elsewhere(reply->text));
    }
    return passes ? tl__etcd_another_member : logs_in ? another_login : NULL;
}

/* The gateway doesn't pass on who a client certificate names. gRPC does: so this one isn't kept. */
static unsigned lacking_user(const tl_conn *conn, const tl_slot *slot) {
    unsigned count = 0;
    for (size_t i = 0; i < slot->count; i++)
        count += conn->reply[i].type == TL_REPLY_ERROR && tl__etcd_lacks_user(conn->reply[i].text);
    return GUARD(nameless_gateway_is_left) ? count : 0;
}

static const char *leaves(tl_conn *conn, const tl_slot *slot) {
    const char *leaving = tl__etcd_leaves(conn, slot, tl__gateway_closes(conn->gateway));
    return !leaving && is_fallback(conn) && lacking_user(conn, slot) ? another_login : leaving;
}

/* Etcd has executed nothing of a request whose every command lacks a user. By gRPC the member may know the user: so
 * the caller may ask again. But if the next connection is a gateway's too, its refusal is the result. */
static bool again(tl_conn *conn, tl_slot *slot) {
    char shown[160];
    tl_bytes message;
    if (!is_fallback(conn) || conn->fallbacks > 1 || slot->count == 0 ||
        lacking_user(conn, slot) < slot->count || !GUARD(nameless_request_is_repeated))
        return false;
    (void)tl__etcd_error(conn->reply[0].text, &message);
    tl__bytes_print(shown, sizeof shown, message);
    slot->done = 0;
    slot->offered = false;
    tl__conn_refuse(conn, slot, TL_EUNAVAILABLE, shown);
    return true;
}

/* ---- the login ------------------------------------------------------------------------------- */

static void end(tl_conn *conn) {
    tl__gateway_free(conn->gateway);
    tl__members_forget_token(&conn->via.token);
}

void tl__etcd_begin_login(tl_conn *conn) {
    tl__members_forget_token(&conn->via.token);
    tl__login_clear(conn->login, conn->endpoint);
}

static tl_err begin(tl_conn *conn) {
    tl_login *login = conn->login;
    tl__gateway_reset(conn->gateway);
    tl__etcd_begin_login(conn);
    if (!conn->endpoint->user[0])
        return TL_OK;
    const tl_etcd_via via = {.host = conn->via.host, .timeout_ms = conn->limits.connect_ms};
    login->steps = 1;
    login->size = tl__members_ask_token(conn->endpoint, &via, tl__etcd_encode, login->bytes,
                                        sizeof login->bytes);
    return login->size <= sizeof login->bytes ? TL_OK : TL_EINVALID;
}

/* A server's error may repeat the request, which has a password: so of its text only what etcd is known to say, or
 * we ourselves, gets into the message. */
static void write_refusal(char *to, size_t size, int code, tl_bytes message) {
    static const char *const known[] = {"authentication failed, invalid user ID or password",
                                        "invalid auth token",
                                        "revision of auth store is old",
                                        "revision in header is old",
                                        "user name is empty",
                                        "permission denied",
                                        "too many requests",
                                        "request timed out",
                                        "no leader",
                                        "leader changed",
                                        "server stopped",
                                        "not supported for learner",
                                        "database space exceeded",
                                        "the server has ended the call"};
    tl_bytes rest = tl__bytes_after(message, "HTTP status ");
    int64_t status;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (tl__bytes_has(message, known[i])) {
            (void)snprintf(to, size, "login: %s", known[i]);
            return;
        }
    if (code < 0 && rest.n == 3 && tl__bytes_to_int(rest, &status))
        (void)snprintf(to, size, "login: HTTP status %d", (int)status);
    else
        (void)snprintf(to, size, "login: refused (code %d)", code);
}

tl_login_outcome tl__etcd_on_login(tl_conn *conn, const tl_reply *reply, tl_mono received) {
    tl_bytes message;
    char problem[160];
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
    if (GUARD(secret_is_not_quoted))
        write_refusal(problem, sizeof problem, code, message);
    else
        tl__bytes_print(problem, sizeof problem, message);
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

/* Encode it for this member, with its token. It may have been queued for another codec. */
static bool dress(tl_conn *conn, tl_slot *slot) {
    (void)conn;
    slot->encode = encode;
    return !GUARD(request_gets_token) || tl__slot_again(slot);
}

/* ---- replies --------------------------------------------------------------------------------- */

static void feed(tl_conn *conn, char *bytes, size_t n) {
    tl__gateway_feed(conn->gateway, bytes, n);
}

tl_etcd_kind tl__etcd_next_kind(const tl_conn *conn) {
    const tl_slot *slot = conn->slots.head;
    if (conn->state == TL_CONN_LOGIN)
        return TL_ETCD_AUTH;
    return slot && tl__slot_is_asked(slot) ? tl__etcd_kind(&slot->command[slot->got])
                                           : TL_ETCD_NONE;
}

/* The reply belongs to the oldest request, whose kind decides how it is read. So requests that only wait for
 * the server are answered first. */
static int next(tl_conn *conn, tl_reply *ret) {
    tl__conn_answer_reached(conn);
    return tl__gateway_next(conn->gateway, tl__etcd_next_kind(conn), ret);
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
    .goes_on = tl__etcd_goes_on,
    .begin = begin,
    .on_login = tl__etcd_on_login,
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
