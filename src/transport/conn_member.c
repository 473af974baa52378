/*
 * A connection that leads to members of an etcd: which of them, who logs in, and what they answer. A request must
 * never be said with a token that belongs to another connection.
 */
#include <stdio.h>

#include "ground/guard.h"
#include "transport/conn_inside.h"

/* ---- whom to --------------------------------------------------------------------------------- */

void tl__conn_lead_member(tl_conn *conn) {
    tl_members *m = conn->limits.members;
    conn->member = atomic_load(&m->at);
    conn->endpoint = &m->endpoint[conn->member];
    tl__stream_lead(&conn->stream, conn->endpoint);
    tl__gateway_logs_in(conn->gateway, conn->endpoint->user[0] != '\0');
    conn->via.host = tl__bytes_of(conn->endpoint->label);
    conn->via.prefix = m->prefix;
}

bool tl__conn_pass_member(tl_conn *conn) {
    tl__members_pass(conn->limits.members, conn->member);
    conn->passed = conn->served ? 1 : conn->passed + 1;
    bool left = conn->passed < conn->limits.members->count;
    if (!left)
        conn->passed = 0;
    return left;
}

bool tl__conn_leaves_member(tl_conn *conn, const tl_reply *reply, size_t count) {
    bool closes = tl__gateway_closes(conn->gateway), leaves = false, logs_in = false;
    for (size_t i = 0; i < count; i++) {
        bool error = reply[i].type == TL_REPLY_ERROR;
        bool wants_login = GUARD(login_is_made_anew) && error &&
                           tl__etcd_wants_login(reply[i].text);
        logs_in = logs_in || wants_login;
        leaves = leaves || (GUARD(unfit_member_is_left) && error && !wants_login &&
                            tl__etcd_asks_elsewhere(reply[i].text));
    }
    conn->passes = conn->passes || closes || leaves;
    return closes || leaves || logs_in;
}

int tl__conn_next_answer(tl_conn *conn, tl_reply *ret) {
    const tl_slot *s = conn->slots.head;
    tl_etcd_kind kind = TL_ETCD_NONE;
    if (conn->state == TL_CONN_LOGIN)
        kind = TL_ETCD_AUTH;
    else if (s && tl__slot_is_asked(s))
        kind = tl__etcd_kind(&s->command[s->got]);
    return tl__gateway_next(conn->gateway, kind, ret);
}

/* ---- the login ------------------------------------------------------------------------------- */

void tl__conn_forget_token(tl_conn *conn) {
    tl__members_forget_token(&conn->via.token);
}

bool tl__conn_ask_token(tl_conn *conn) {
    tl_login *l = conn->login;
    const tl_endpoint *e = conn->endpoint;
    tl__conn_forget_token(conn);
    tl__login_clear(l, e);
    if (!e->user[0])
        return true;
    const tl_etcd_via via = {.host = conn->via.host, .timeout_ms = conn->limits.connect_ms};
    l->steps = 1;
    l->size = tl__members_ask_token(e, &via, l->bytes, sizeof l->bytes);
    return l->size <= sizeof l->bytes;
}

tl_login_outcome tl__conn_token_reply(tl_conn *conn, const tl_reply *reply) {
    tl_bytes message;
    char shown[160], problem[sizeof shown + 8];
    if (reply->type == TL_REPLY_STRING && tl__members_keep_token(&conn->via.token, reply->text))
        return TL_LOGIN_DONE;
    if (reply->type != TL_REPLY_ERROR)
        return tl__login_fail(conn->login, TL_ESERVER, "no token that could be used");
    int code = tl__etcd_error(reply->text, &message);
    if (tl__bytes_has(message, "authentication is not enabled"))
        return TL_LOGIN_DONE;                          /* then nobody needs one */
    bool passes = tl__etcd_is_login_outdated(message); /* they changed while it was checked */
    tl__bytes_print(shown, sizeof shown, message);
    (void)snprintf(problem, sizeof problem, "login: %s", shown);
    return tl__login_fail(
        conn->login, tl__etcd_is_definite(code) && !passes ? TL_EDENIED : TL_EUNAVAILABLE, problem);
}

bool tl__conn_dress(tl_conn *conn) {
    for (tl_slot *s = conn->slots.head; s; s = s->next)
        if (GUARD(request_gets_token) && !tl__slot_dress(s))
            return false;
    return true;
}
