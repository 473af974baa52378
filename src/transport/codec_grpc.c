/*
 * The codec of etcd over gRPC. Each command is a call on a stream of its own; the replies are passed on in the
 * order of the requests. The commands of one request are executed one after the other: so each is sent when
 * the one before it has been answered. It must never report a request as not executed unless the member says
 * that it has not begun it.
 *
 * A connection is up when the member has greeted in HTTP/2; so a server that doesn't is sent no request. The
 * next connection to it is the JSON gateway's, for once: a proxy may have answered for the member.
 */
#include "ground/guard.h"
#include "transport/codec_etcd.h"
#include "transport/grpc_reply.h"

static const char refused[] = TL_ETCD_ERROR "-1 the member has not begun the request",
                  not_sent[] = TL_ETCD_ERROR "-1 not sent: its time is over";

/* ---- members --------------------------------------------------------------------------------- */

static bool make(tl_conn *conn) {
    if (!tl__grpc_works()) {
        conn->codec = &tl__codec_etcd;
        return tl__codec_etcd.make(conn);
    }
    conn->grpc = tl__grpc_new();
    conn->others = conn->limits.members->count - 1;
    conn->via.prefix = conn->limits.members->prefix;
    return conn->grpc != NULL;
}

static void end(tl_conn *conn) {
    tl__grpc_free(conn->grpc);
    tl__reply_room_free(&conn->room);
    tl__members_forget_token(&conn->via.token);
}

/* false: out of memory; then this codec stays. */
static bool become_gateway(tl_conn *conn) {
    tl_grpc *grpc = conn->grpc;
    if (!tl__codec_etcd.make(conn))
        return false;
    tl__grpc_free(grpc);
    tl__reply_room_free(&conn->room);
    conn->grpc = NULL;
    conn->codec = &tl__codec_etcd;
    conn->stream.offers_http2 = false;
    conn->fallbacks += conn->fallbacks < 2;
    return tl__etcd_lead_gateway(conn);
}

static bool lead(tl_conn *conn) {
    bool http1 = conn->http1 && conn->member == atomic_load(&conn->limits.members->at);
    conn->http1 = false;
    if (http1)
        return become_gateway(conn);
    bool led = tl__etcd_lead(conn);
    conn->stream.offers_http2 = true;
    return led;
}

/* Out of memory: the gateway stays. */
bool tl__etcd_become_grpc(tl_conn *conn) {
    tl_grpc *grpc = tl__grpc_new();
    if (!grpc)
        return tl__etcd_lead_gateway(conn);
    tl__gateway_free(conn->gateway);
    conn->gateway = NULL;
    conn->grpc = grpc;
    conn->codec = &tl__codec_grpc;
    return lead(conn);
}

/* A member is not to blame for what it was never sent. */
static const char *leaves(tl_conn *conn, const tl_slot *slot) {
    if (slot->count > 0 && conn->reply[slot->count - 1].text.p == not_sent &&
        GUARD(late_part_blames_nobody))
        return NULL;
    return tl__etcd_leaves(conn, slot, tl__grpc_closes(conn->grpc));
}

/* ---- the login ------------------------------------------------------------------------------- */

/* The message is only used before this returns. */
static tl_err ask_token(tl_conn *conn) {
    char message[TL_LOGIN_SIZE];
    size_t n = tl__members_ask_token(conn->endpoint, &conn->via, tl__etcd_encode_proto, message,
                                     sizeof message);
    const tl_grpc_request request = {.method = tl__etcd_method(TL_ETCD_AUTH),
                                     .host = conn->via.host,
                                     .timeout_ms = conn->limits.connect_ms,
                                     .messages = {message, n},
                                     .tls = conn->endpoint->tls};
    bool fits = n <= sizeof message;
    bool asked = fits && tl__grpc_call(conn->grpc, &request);
    (void)tl__grpc_output(conn->grpc);
    explicit_bzero(message, sizeof message);
    return asked ? TL_OK : fits ? TL_ENOMEM : TL_EINVALID;
}

/* Our greeting in HTTP/2, and the request for a token. */
static tl_err begin(tl_conn *conn) {
    tl_login *login = conn->login;
    conn->odd = NULL;
    conn->taken = 0;
    conn->blocked = false;
    tl__reply_room_release(&conn->room);
    tl__etcd_begin_login(conn);
    login->steps = 1;
    if (!tl__grpc_reset(conn->grpc))
        return TL_ENOMEM;
    tl_err why = conn->endpoint->user[0] ? ask_token(conn) : TL_OK;
    tl_bytes bytes = tl__grpc_output(conn->grpc);
    if (why || bytes.n > sizeof login->bytes)
        return why ? why : TL_EINVALID;
    memcpy(login->bytes, bytes.p, bytes.n);
    login->size = bytes.n;
    tl__grpc_wrote(conn->grpc, bytes.n);
    return TL_OK;
}

static tl_login_outcome on_login(tl_conn *conn, const tl_reply *reply, tl_mono received) {
    conn->fallbacks = 0;
    return conn->endpoint->user[0] ? tl__etcd_on_login(conn, reply, received) : TL_LOGIN_DONE;
}

/* ---- requests -------------------------------------------------------------------------------- */

static size_t encode(const tl_slot *slot, const tl_command *command, char *to, size_t size) {
    return tl__etcd_encode_proto(command, slot->via, to, size);
}

/* All commands are stored: the kind of the request decides how its reply is read. */
static bool fill(tl_conn *conn, tl_slot *slot, const tl_command *command, uint8_t count) {
    slot->via = &conn->via;
    return tl__slot_fill(slot, command, count, true);
}

/* Nothing in the bytes belongs to a connection. But they may have been queued for another codec. */
static bool dress(tl_conn *conn, tl_slot *slot) {
    (void)conn;
    if (slot->encode == encode)
        return true;
    slot->encode = encode;
    return tl__slot_again(slot);
}

static void own(tl_grpc_call *made, const tl_slot *slot, unsigned part) {
    if (!made)
        return;
    made->owner = slot;
    made->part = (uint8_t)part;
}

/* Send a command of a request. */
static void call(tl_conn *conn, const tl_slot *slot, unsigned part, tl_mono now) {
    size_t from = part > 0 ? slot->end[part - 1] : 0;
    int64_t left_ms = slot->by.ns != TL_NEVER.ns ? tl__ms_until(now, slot->by) : 0;
    const tl_grpc_request request = {.method = tl__etcd_method(tl__etcd_kind(&slot->command[part])),
                                     .host = conn->via.host,
                                     .token = GUARD(request_gets_token) ? conn->via.token
                                                                        : (tl_bytes){0},
                                     .timeout_ms = left_ms,
                                     .messages = {slot->bytes + from, slot->end[part] - from},
                                     .tls = conn->endpoint->tls};
    own(tl__grpc_call(conn->grpc, &request), slot, part);
}

/* Nobody waits for it any more. */
static bool is_late(const tl_slot *slot, tl_mono now) {
    bool over = slot->by.ns != TL_NEVER.ns && tl__ms_until(now, slot->by) <= 0;
    return (slot->given_up || over) && GUARD(late_part_is_not_sent);
}

/* Send the command behind one that was answered. But if the member has not begun that one, the request counts
 * as not executed: so no more of it may be sent. */
static void call_next(tl_conn *conn, const tl_grpc_call *before, tl_mono now) {
    const tl_slot *slot = before->owner;
    bool ends = tl__grpc_closes(conn->grpc) || (before->refused && GUARD(refused_part_ends));
    if (!ends && !is_late(slot, now)) {
        call(conn, slot, before->part + 1U, now);
        return;
    }
    tl_grpc_call *none = tl__grpc_no_call(conn->grpc);
    own(none, slot, before->part + 1U);
    if (none)
        none->instead = ends ? refused : not_sent;
}

/* Send the next command of each request whose last one was answered. This precedes the callbacks: a request
 * that is sent from one may be in the memory of the request that was answered. */
static void follow(tl_conn *conn) {
    tl_mono now = tl__mono_now();
    for (tl_grpc_call *one = tl__grpc_calls(conn->grpc); one; one = one->next) {
        const tl_slot *slot = one->owner;
        if (!one->done || one->followed || !slot)
            continue;
        one->followed = true;
        if (one->part + 1 < slot->count && GUARD(parts_in_turn))
            call_next(conn, one, now);
    }
}

/* Write what libnghttp2 has to say. false: the stream broke */
static bool flush(tl_conn *conn) {
    tl_bytes bytes;
    conn->blocked = false;
    while (!conn->blocked && (bytes = tl__grpc_output(conn->grpc)).n > 0) {
        ssize_t n = tl__stream_write(&conn->stream, bytes.p, bytes.n);
        if (n < 0)
            return false;
        conn->blocked = n == 0;
        tl__grpc_wrote(conn->grpc, (size_t)n);
    }
    return true;
}

/* A request counts as sent as soon as libnghttp2 has it. It gets none while earlier bytes wait. Once the last
 * call has ended, acknowledgements wait for the next one: so each request is one write. */
static bool write_calls(tl_conn *conn) {
    if (conn->blocked && !flush(conn))
        return false;
    tl_mono now = tl__mono_now();
    while (!conn->blocked && tl__conn_has_to_write(conn)) {
        for (int i = 0; i < TL_GRPC_BATCH && tl__conn_has_to_write(conn); i++) {
            tl_slot *slot = conn->slots.unsent;
            uint8_t parts = GUARD(parts_in_turn) ? 1 : slot->count;
            for (uint8_t part = 0; part < parts; part++)
                call(conn, slot, part, now);
            tl__slots_written(&conn->slots, slot->size, now);
        }
        if (!flush(conn))
            return false;
    }
    return conn->blocked || !tl__grpc_is_busy(conn->grpc) || flush(conn);
}

static bool has_output(const tl_conn *conn) {
    return conn->blocked || (tl__grpc_is_busy(conn->grpc) && tl__grpc_has_output(conn->grpc));
}

/* ---- replies --------------------------------------------------------------------------------- */

/* A PING while no call is in flight may be a check whether we live: its answer doesn't wait. */
static void feed(tl_conn *conn, char *bytes, size_t n) {
    bool idle = conn->state == TL_CONN_UP && !tl__grpc_is_busy(conn->grpc);
    tl__grpc_feed(conn->grpc, bytes, n);
    if (conn->state == TL_CONN_LOGIN)
        tl__members_set_http1(conn->limits.members, conn->member, tl__grpc_is_other(conn->grpc));
    if (idle && tl__grpc_has_output(conn->grpc) && GUARD(idle_ping_is_answered))
        conn->blocked = true;
    follow(conn);
    if (tl__grpc_is_other(conn->grpc)) {
        conn->http1 = true;
        conn->leaving = tl__etcd_other_protocol;
    } else if (tl__grpc_closes(conn->grpc)) {
        conn->leaving = tl__etcd_another_member;
    }
}

static int read_error(tl_conn *conn, const tl_grpc_call *one, tl_reply *ret) {
    tl_bytes text = tl__bytes(one->text, one->text_n);
    bool over = tl__etcd_is_login_over(text, conn->endpoint->user[0] != '\0');
    return tl__reply_make_error(&conn->room, over ? TL_ETCD_UNAUTHENTICATED : one->code, text, ret)
               ? 1
               : -1;
}

static int read_call(tl_conn *conn, tl_grpc_call *one, tl_reply *ret) {
    tl_bytes message;
    one->read = true;
    conn->taken++;
    const char *instead = one->refused ? refused : one->instead;
    if (instead) {
        *ret = (tl_reply){.type = TL_REPLY_ERROR, .text = tl__bytes_of(instead)};
        return 1;
    }
    if (one->code != 0)
        return read_error(conn, one, ret);
    if (!tl__grpc_take(conn->grpc, one, &message))
        conn->odd = "a reply without its message";
    else
        conn->odd = tl__grpc_read(&conn->room, tl__etcd_next_kind(conn), message, conn->via.prefix,
                                  ret);
    return conn->odd ? -1 : 1;
}

/* The call whose reply is next: of the login, or of the oldest request. NULL: there is none. */
static tl_grpc_call *next_call(const tl_conn *conn) {
    const tl_slot *slot = conn->slots.head;
    tl_grpc_call *one = tl__grpc_calls(conn->grpc);
    if (conn->state == TL_CONN_LOGIN)
        return one;
    while (one && slot && (one->owner != slot || one->part != slot->got))
        one = one->next;
    return slot ? one : NULL;
}

static int next(tl_conn *conn, tl_reply *ret) {
    tl__conn_answer_reached(conn);
    if (conn->leaving == tl__etcd_other_protocol)
        return 0;
    bool greets = conn->state == TL_CONN_LOGIN && !conn->endpoint->user[0];
    if (greets && (tl__grpc_is_greeted(conn->grpc) || !GUARD(greeting_comes_first))) {
        *ret = (tl_reply){.type = TL_REPLY_STATUS, .text = TL_LITERAL("OK")};
        return 1;
    }
    tl_grpc_call *one = next_call(conn);
    if (one && one->done)
        return read_call(conn, one, ret);
    return tl__grpc_problem(conn->grpc) ? -1 : 0;
}

static bool is_out_of_memory(const tl_conn *conn) {
    return conn->room.exhausted || tl__grpc_is_out_of_memory(conn->grpc);
}

static const char *problem(const tl_conn *conn, tl_bytes heard) {
    const char *of_calls = tl__grpc_problem(conn->grpc);
    (void)heard;
    return conn->odd ? conn->odd : of_calls ? of_calls : "";
}

static void release(tl_conn *conn) {
    for (tl_grpc_call *one = tl__grpc_calls(conn->grpc), *after; one && conn->taken > 0;
         one = after) {
        after = one->next;
        if (!one->read)
            continue;
        tl__grpc_drop(conn->grpc, one);
        conn->taken--;
    }
    tl__reply_room_release(&conn->room);
}

/* The member has not begun it: its caller may send it again, and decides when. If its first command was
 * executed, it is answered by the error of the next. */
static bool again(tl_conn *conn, tl_slot *slot) {
    if (slot->count == 0 || conn->reply[0].text.p != refused)
        return false;
    slot->done = 0;
    slot->offered = false;
    tl__conn_refuse(conn, slot, TL_EUNAVAILABLE, refused + sizeof TL_ETCD_ERROR + 2);
    return true;
}

const tl_codec tl__codec_grpc = {
    .reply = "gRPC reply of etcd",
    .unanswered = ", without a reply: is it an etcd?",
    .watches = true,
    .calls = true,
    .make = make,
    .end = end,
    .lead = lead,
    .goes_on = tl__etcd_goes_on,
    .begin = begin,
    .on_login = on_login,
    .fill = fill,
    .encode = encode,
    .dress = dress,
    .write = write_calls,
    .has_output = has_output,
    .feed = feed,
    .next = next,
    .is_out_of_memory = is_out_of_memory,
    .problem = problem,
    .release = release,
    .leaves = leaves,
    .again = again,
};
