/*
 * The only user of libnghttp2. TL_GRPC_MESSAGES_MAX and the limits of libnghttp2 bound the memory that a server
 * can make it use. It must never report a call as not begun unless the server says so.
 */
#include "transport/grpc.h"

#include <stdio.h>
#include <stdlib.h>

#include "ground/guard.h"
#include "wire/proto.h"

#if TL_HAVE_HTTP2
#include <nghttp2/nghttp2.h>
#endif

#define OUTPUT_MAX ((size_t)64 << 10) /* bytes that wait to be written; then calls wait */
#define ROOM_FIRST ((size_t)1024)
#define ROOM_KEEP ((size_t)64 << 10) /* a buffer with more room is freed when it is empty */
#define SPARES_MAX 32
#define WINDOW (4 << 20) /* the server may send so much ahead */
#define HEADERS_MAX (32 << 10)
#define GREETING 9 /* the head of the first frame, which must be SETTINGS */

static const char no_memory[] = "out of memory for a reply";

struct tl_grpc {
    struct nghttp2_session *session;
    tl_grpc_call *calls, *last, *spare;
    size_t spares, open; /* open: calls in flight */
    char *output;        /* `n` bytes, of which `written` were written */
    size_t n, written, size;
    size_t held; /* bytes of messages */
    char greeting[GREETING];
    size_t greeted; /* bytes of the greeting */
    bool is_greeted, is_other, closes;
    const char *problem;
};

const char *tl__grpc_problem(const tl_grpc *grpc) {
    return grpc->problem;
}

bool tl__grpc_is_out_of_memory(const tl_grpc *grpc) {
    return grpc->problem == no_memory;
}

bool tl__grpc_is_greeted(const tl_grpc *grpc) {
    return grpc->is_greeted;
}

bool tl__grpc_is_other(const tl_grpc *grpc) {
    return grpc->is_other;
}

bool tl__grpc_closes(const tl_grpc *grpc) {
    return grpc->closes;
}

tl_grpc_call *tl__grpc_calls(const tl_grpc *grpc) {
    return grpc->calls;
}

bool tl__grpc_is_busy(const tl_grpc *grpc) {
    return grpc->open > 0;
}

static bool fail(tl_grpc *grpc, const char *problem) {
    if (!grpc->problem)
        grpc->problem = problem;
    return false;
}

/* ---- calls ------------------------------------------------------------------------------------- */

static void destroy(tl_grpc_call *call) {
    free(call->messages);
    free(call);
}

/* Cleared, except for its buffer. */
static tl_grpc_call *take_call(tl_grpc *grpc) {
    tl_grpc_call *call = grpc->spare;
    if (!call)
        return calloc(1, sizeof *call);
    grpc->spare = call->next;
    grpc->spares--;
    *call = (tl_grpc_call){.messages = call->messages, .size = call->size};
    return call;
}

static tl_grpc_call *add_call(tl_grpc *grpc) {
    tl_grpc_call *call = take_call(grpc);
    if (!call)
        return NULL;
    if (grpc->last)
        grpc->last->next = call;
    else
        grpc->calls = call;
    grpc->last = call;
    call->code = -1;
    return call;
}

void tl__grpc_drop(tl_grpc *grpc, tl_grpc_call *call) {
    tl_grpc_call *before = NULL, **at = &grpc->calls;
    for (; *at != call; at = &before->next)
        before = *at;
    *at = call->next;
    if (grpc->last == call)
        grpc->last = before;
    grpc->held -= call->n;
    if (grpc->spares == SPARES_MAX || call->size > ROOM_KEEP) {
        destroy(call);
        return;
    }
    call->next = grpc->spare;
    grpc->spare = call;
    grpc->spares++;
}

tl_grpc_call *tl__grpc_no_call(tl_grpc *grpc) {
    tl_grpc_call *call = add_call(grpc);
    if (call)
        call->done = true;
    return call;
}

bool tl__grpc_take(tl_grpc *grpc, tl_grpc_call *call, tl_bytes *ret_message) {
    size_t left = call->n - call->taken;
    if (left < TL_GRPC_HEAD)
        return false;
    const unsigned char *head = (const unsigned char *)call->messages + call->taken;
    size_t n = (size_t)head[1] << 24 | (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4];
    if (head[0] != 0)
        return fail(grpc, "a compressed message");
    if (n > TL_GRPC_MESSAGES_MAX)
        return fail(grpc, "a reply of more than 16 MiB");
    if (n > left - TL_GRPC_HEAD)
        return false;
    *ret_message = tl__bytes((const char *)head + TL_GRPC_HEAD, n);
    call->taken += TL_GRPC_HEAD + n;
    return true;
}

void tl__grpc_wrote(tl_grpc *grpc, size_t n) {
    grpc->written += n;
    if (grpc->written < grpc->n)
        return;
    explicit_bzero(grpc->output, grpc->n); /* it may have a password */
    grpc->n = grpc->written = 0;
    if (grpc->size <= 2 * OUTPUT_MAX)
        return;
    free(grpc->output);
    grpc->output = NULL;
    grpc->size = 0;
}

#if TL_HAVE_HTTP2

bool tl__grpc_works(void) {
    return true;
}

static bool append(char **buffer, size_t *n, size_t *size, const void *bytes, size_t count) {
    if (count > *size - *n) {
        size_t most = (*n + count) * 2 > ROOM_FIRST ? (*n + count) * 2 : ROOM_FIRST;
        char *room = realloc(*buffer, most);
        if (!room)
            return false;
        *buffer = room;
        *size = most;
    }
    if (count > 0)
        memcpy(*buffer + *n, bytes, count);
    *n += count;
    return true;
}

/* ---- writing ----------------------------------------------------------------------------------- */

/* Forget what was written, if that is much. While a peer reads slowly, the buffer is never empty. */
static void forget_written(tl_grpc *grpc) {
    if (grpc->written < OUTPUT_MAX || !GUARD(written_is_forgotten))
        return;
    grpc->n -= grpc->written;
    memmove(grpc->output, grpc->output + grpc->written, grpc->n);
    grpc->written = 0;
}

static int add_output(tl_grpc *grpc, const void *bytes, size_t n) {
    forget_written(grpc);
    if (append(&grpc->output, &grpc->n, &grpc->size, bytes, n))
        return 0;
    (void)fail(grpc, no_memory);
    return NGHTTP2_ERR_CALLBACK_FAILURE;
}

static ssize_t on_send(nghttp2_session *session, const uint8_t *bytes, size_t n, int flags,
                       void *ctx) {
    tl_grpc *grpc = ctx;
    (void)session, (void)flags;
    if (grpc->n - grpc->written >= OUTPUT_MAX)
        return NGHTTP2_ERR_WOULDBLOCK;
    int code = add_output(grpc, bytes, n);
    return code ? code : (ssize_t)n;
}

/* How much of the request to send next. The bytes are not copied by libnghttp2, which would keep a password. */
static ssize_t on_request(nghttp2_session *session, int32_t stream, uint8_t *to, size_t room,
                          uint32_t *flags, nghttp2_data_source *source, void *ctx) {
    tl_grpc_call *call = source->ptr;
    size_t left = call->request.n - call->sent;
    (void)session, (void)stream, (void)to, (void)ctx;
    if (left == 0 && call->stays_open)
        return NGHTTP2_ERR_DEFERRED;
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (left <= room && !call->stays_open)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)(left < room ? left : room);
}

static int on_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head,
                        size_t n, nghttp2_data_source *source, void *ctx) {
    tl_grpc *grpc = ctx;
    tl_grpc_call *call = source->ptr;
    (void)session, (void)frame;
    if (grpc->n - grpc->written >= OUTPUT_MAX)
        return NGHTTP2_ERR_WOULDBLOCK;
    int code = add_output(grpc, head, 9);
    if (!code)
        code = add_output(grpc, call->request.p + call->sent, n);
    call->sent += n;
    return code;
}

static void pump(tl_grpc *grpc) {
    int code = grpc->problem ? 0 : nghttp2_session_send(grpc->session);
    if (code)
        (void)fail(grpc, code == NGHTTP2_ERR_NOMEM ? no_memory : nghttp2_strerror(code));
}

tl_bytes tl__grpc_output(tl_grpc *grpc) {
    pump(grpc);
    return grpc->n > 0 ? tl__bytes(grpc->output + grpc->written, grpc->n - grpc->written)
                       : (tl_bytes){0};
}

bool tl__grpc_has_output(const tl_grpc *grpc) {
    return grpc->n > grpc->written || (!grpc->problem && nghttp2_session_want_write(grpc->session));
}

#define NV(name, value, flags)                                                                     \
    {                                                                                              \
        (uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(value).p, sizeof(name) - 1,           \
            (value).n, flags                                                                       \
    }

tl_grpc_call *tl__grpc_call(tl_grpc *grpc, const tl_grpc_request *request) {
    char limit[TL_INT_SIZE + 1];
    int n = snprintf(limit, sizeof limit, "%lldm",
                     (long long)(request->timeout_ms < 99999999 ? request->timeout_ms : 99999999));
    nghttp2_nv headers[10] = {
        NV(":method", TL_LITERAL("POST"), NGHTTP2_NV_FLAG_NONE),
        NV(":scheme", request->tls ? TL_LITERAL("https") : TL_LITERAL("http"),
           NGHTTP2_NV_FLAG_NONE),
        NV(":path", tl__bytes_of(request->method), NGHTTP2_NV_FLAG_NONE),
        NV(":authority", request->host, NGHTTP2_NV_FLAG_NONE),
        NV("content-type", TL_LITERAL("application/grpc"), NGHTTP2_NV_FLAG_NONE),
        NV("te", TL_LITERAL("trailers"), NGHTTP2_NV_FLAG_NONE)};
    size_t count = 6;
    if (request->token.n > 0)
        headers[count++] = (nghttp2_nv)NV("token", request->token, NGHTTP2_NV_FLAG_NO_INDEX);
    if (request->timeout_ms > 0)
        headers[count++] = (nghttp2_nv)NV("grpc-timeout", tl__bytes(limit, (size_t)n),
                                          NGHTTP2_NV_FLAG_NO_INDEX);
    if (request->stream)
        headers[count++] = (nghttp2_nv)NV("hasleader", TL_LITERAL("true"), NGHTTP2_NV_FLAG_NONE);
    tl_grpc_call *call = grpc->problem ? NULL : add_call(grpc);
    if (!call)
        return NULL;
    call->request = request->messages;
    call->stays_open = request->stream;
    const nghttp2_data_provider body = {.source.ptr = call, .read_callback = on_request};
    if (nghttp2_submit_request(grpc->session, NULL, headers, count, &body, call) < 0) {
        tl__grpc_drop(grpc, call);
        return NULL;
    }
    grpc->open++;
    return call;
}

/* ---- reading ----------------------------------------------------------------------------------- */

static bool is_named(const uint8_t *name, size_t n, const char *expected) {
    return tl__bytes_eq(tl__bytes((const char *)name, n), tl__bytes_of(expected));
}

static int digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decode "%20". */
static void read_text(tl_grpc_call *call, tl_bytes from) {
    call->text_n = 0;
    for (size_t i = 0; i < from.n && call->text_n < TL_GRPC_TEXT; i++) {
        char c = from.p[i];
        bool coded = c == '%' && i + 2 < from.n && digit(from.p[i + 1]) >= 0 &&
                     digit(from.p[i + 2]) >= 0;
        if (coded) {
            c = (char)(digit(from.p[i + 1]) << 4 | digit(from.p[i + 2]));
            i += 2;
        }
        call->text[call->text_n++] = c;
    }
}

/* The codes of gRPC are 0 to 16. */
static int code_of(tl_bytes value) {
    int64_t v;
    return tl__bytes_to_int(value, &v) && v >= 0 && v <= 16 ? (int)v : -1;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_n, const uint8_t *bytes, size_t n, uint8_t flags, void *ctx) {
    tl_grpc_call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    tl_bytes value = tl__bytes((const char *)bytes, n);
    int64_t status;
    (void)flags, (void)ctx;
    if (!call)
        return 0;
    if (is_named(name, name_n, "grpc-status"))
        call->code = code_of(value);
    else if (is_named(name, name_n, "grpc-message"))
        read_text(call, value);
    else if (is_named(name, name_n, "content-type"))
        call->is_grpc = tl__bytes_starts(value, "application/grpc");
    else if (is_named(name, name_n, ":status") && tl__bytes_to_int(value, &status))
        call->status = (int)status;
    return 0;
}

static void forget_taken(tl_grpc *grpc, tl_grpc_call *call) {
    if (call->taken == 0)
        return;
    grpc->held -= call->taken;
    call->n -= call->taken;
    memmove(call->messages, call->messages + call->taken, call->n);
    call->taken = 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *bytes,
                   size_t n, void *ctx) {
    tl_grpc *grpc = ctx;
    tl_grpc_call *call = nghttp2_session_get_stream_user_data(session, stream);
    (void)flags;
    if (!call)
        return 0;
    forget_taken(grpc, call);
    if (grpc->held + n > TL_GRPC_MESSAGES_MAX)
        (void)fail(grpc, "a reply of more than 16 MiB");
    else if (!append(&call->messages, &call->n, &call->size, bytes, n))
        (void)fail(grpc, no_memory);
    else
        grpc->held += n;
    return grpc->problem ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static void set_text(tl_grpc_call *call, const char *text) {
    size_t n = strlen(text);
    call->text_n = n < TL_GRPC_TEXT ? n : TL_GRPC_TEXT;
    memcpy(call->text, text, call->text_n);
}

/* A call that ended without a code of gRPC. */
static void explain(tl_grpc_call *call, uint32_t error) {
    char text[64];
    if (call->status != 0 && (call->status != 200 || !call->is_grpc))
        (void)snprintf(text, sizeof text, "no gRPC: HTTP status %d", call->status);
    else
        (void)snprintf(text, sizeof text, "the server has ended the call: %s",
                       nghttp2_http2_strerror(error));
    call->code = -1;
    set_text(call, text);
}

/* REFUSED_STREAM means that the server has not begun it. libnghttp2 uses it, too, for a call that a GOAWAY
 * excludes, and for one that it has not sent. */
static int on_close(nghttp2_session *session, int32_t stream, uint32_t error, void *ctx) {
    tl_grpc *grpc = ctx;
    tl_grpc_call *call = nghttp2_session_get_stream_user_data(session, stream);
    if (!call || call->done || grpc->problem)
        return 0;
    grpc->open--;
    call->done = true;
    call->refused = call->status == 0 &&
                    (error == NGHTTP2_REFUSED_STREAM || !GUARD(only_refused_is_not_begun));
    if (call->code < 0 || call->status != 200 || !call->is_grpc || error != NGHTTP2_NO_ERROR)
        explain(call, error);
    else if (call->code > 0 && call->text_n == 0)
        set_text(call, "an error without a message");
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *ctx) {
    tl_grpc *grpc = ctx;
    (void)session;
    if (frame->hd.type == NGHTTP2_SETTINGS && !(frame->hd.flags & NGHTTP2_FLAG_ACK))
        grpc->is_greeted = true;
    else if (frame->hd.type == NGHTTP2_GOAWAY)
        grpc->closes = true;
    return 0;
}

/* We send GOAWAY only after a violation: then libnghttp2 reads nothing more. */
static int on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *ctx) {
    (void)session;
    if (frame->hd.type == NGHTTP2_GOAWAY)
        (void)fail(ctx, "a violation of HTTP/2");
    return 0;
}

/* The first bytes must be the head of a frame of SETTINGS: a short length, then its type. Returns how many of
 * these bytes it has taken; they are passed on when all are there. */
static size_t take_greeting(tl_grpc *grpc, const char *bytes, size_t n) {
    size_t taken = 0;
    while (grpc->greeted < GREETING && taken < n && !grpc->is_other) {
        char c = bytes[taken++];
        grpc->is_other = (grpc->greeted == 0 && c != 0) ||
                         (grpc->greeted == 3 && c != NGHTTP2_SETTINGS);
        grpc->greeting[grpc->greeted++] = c;
    }
    if (grpc->is_other)
        (void)fail(grpc, "it does not speak HTTP/2");
    return taken;
}

static void receive(tl_grpc *grpc, const char *bytes, size_t n) {
    ssize_t got = nghttp2_session_mem_recv(grpc->session, (const uint8_t *)bytes, n);
    if (got < 0)
        (void)fail(grpc, got == NGHTTP2_ERR_NOMEM ? no_memory : nghttp2_strerror((int)got));
    pump(grpc);
}

void tl__grpc_feed(tl_grpc *grpc, const char *bytes, size_t n) {
    if (grpc->greeted < GREETING) {
        size_t taken = take_greeting(grpc, bytes, n);
        bytes += taken;
        n -= taken;
        if (grpc->greeted == GREETING && !grpc->problem)
            receive(grpc, grpc->greeting, GREETING);
    }
    if (n > 0 && !grpc->problem)
        receive(grpc, bytes, n);
}

/* ---- life -------------------------------------------------------------------------------------- */

static void forget_all(tl_grpc *grpc) {
    while (grpc->calls)
        tl__grpc_drop(grpc, grpc->calls);
    nghttp2_session_del(grpc->session);
    if (grpc->output)
        explicit_bzero(grpc->output, grpc->size); /* it may have a password */
    free(grpc->output);
    tl_grpc_call *spare = grpc->spare;
    size_t spares = grpc->spares;
    *grpc = (tl_grpc){.spare = spare, .spares = spares};
}

static nghttp2_session *open_session(tl_grpc *grpc) {
    nghttp2_session_callbacks *calls;
    nghttp2_session *session = NULL;
    if (nghttp2_session_callbacks_new(&calls))
        return NULL;
    nghttp2_session_callbacks_set_send_callback(calls, on_send);
    nghttp2_session_callbacks_set_send_data_callback(calls, on_send_data);
    nghttp2_session_callbacks_set_on_header_callback(calls, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(calls, on_close);
    nghttp2_session_callbacks_set_on_frame_recv_callback(calls, on_frame);
    nghttp2_session_callbacks_set_on_frame_send_callback(calls, on_sent);
    (void)nghttp2_session_client_new(&session, calls, grpc);
    nghttp2_session_callbacks_del(calls);
    return session;
}

bool tl__grpc_reset(tl_grpc *grpc) {
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADERS_MAX}};
    forget_all(grpc);
    grpc->session = open_session(grpc);
    bool ok = grpc->session &&
              !nghttp2_submit_settings(grpc->session, NGHTTP2_FLAG_NONE, settings,
                                       sizeof settings / sizeof *settings) &&
              !nghttp2_session_set_local_window_size(grpc->session, NGHTTP2_FLAG_NONE, 0, WINDOW);
    return ok || fail(grpc, no_memory);
}

tl_grpc *tl__grpc_new(void) {
    tl_grpc *grpc = calloc(1, sizeof *grpc);
    if (grpc)
        grpc->problem = "it has not begun";
    return grpc;
}

void tl__grpc_free(tl_grpc *grpc) {
    if (!grpc)
        return;
    forget_all(grpc);
    for (tl_grpc_call *next; grpc->spare; grpc->spare = next) {
        next = grpc->spare->next;
        destroy(grpc->spare);
    }
    free(grpc);
}

#else

bool tl__grpc_works(void) {
    return false;
}

tl_grpc *tl__grpc_new(void) {
    return NULL;
}

void tl__grpc_free(tl_grpc *grpc) {
    (void)grpc;
}

bool tl__grpc_reset(tl_grpc *grpc) {
    return fail(grpc, "built without libnghttp2");
}

void tl__grpc_feed(tl_grpc *grpc, const char *bytes, size_t n) {
    (void)bytes, (void)n;
    (void)fail(grpc, "built without libnghttp2");
}

tl_bytes tl__grpc_output(tl_grpc *grpc) {
    return tl__bytes(grpc->output, 0);
}

bool tl__grpc_has_output(const tl_grpc *grpc) {
    (void)grpc;
    return false;
}

tl_grpc_call *tl__grpc_call(tl_grpc *grpc, const tl_grpc_request *request) {
    (void)grpc, (void)request;
    return NULL;
}

#endif
