/*
 * A member of an etcd that speaks gRPC, on the far end of a peer: the test sees whole requests, and answers
 * each as it likes. HTTP/2 by libnghttp2, as a server.
 */
#pragma once

#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>

#include "peer.h"

#define H2_REQUESTS 64

typedef struct {
    int32_t stream;
    char path[64], token[64], timeout[32], authority[64], hasleader[8];
    char body[128 * 1024];
    size_t n;
    bool whole;
} h2_request;

typedef struct {
    peer *peer;
    nghttp2_session *session;
    h2_request *request;
    size_t requests, acks;
    char *record; /* what was sent, if the test wants it */
    size_t recorded;
} h2;

typedef struct {
    const char *bytes;
    size_t n, at;
    int status;
    const char *text;
    bool goes_on; /* no trailers follow */
} h2_answer;

static inline h2_request *h2_find(h2 *server, int32_t stream) {
    for (size_t i = 0; i < server->requests; i++)
        if (server->request[i].stream == stream)
            return &server->request[i];
    assert_true(server->requests < H2_REQUESTS);
    h2_request *new = &server->request[server->requests++];
    memset(new, 0, sizeof *new);
    new->stream = stream;
    return new;
}

static inline int h2_on_header(nghttp2_session *session, const nghttp2_frame *frame,
                               const uint8_t *name, size_t name_n, const uint8_t *value, size_t n,
                               uint8_t flags, void *ctx) {
    h2_request *r = h2_find(ctx, frame->hd.stream_id);
    const struct {
        const char *name;
        char *to;
        size_t size;
    } kept[] = {{":path", r->path, sizeof r->path},
                {":authority", r->authority, sizeof r->authority},
                {"token", r->token, sizeof r->token},
                {"grpc-timeout", r->timeout, sizeof r->timeout},
                {"hasleader", r->hasleader, sizeof r->hasleader}};
    (void)session, (void)flags;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (strlen(kept[i].name) == name_n && memcmp(kept[i].name, name, name_n) == 0)
            (void)snprintf(kept[i].to, kept[i].size, "%.*s", (int)n, (const char *)value);
    return 0;
}

static inline int h2_on_data(nghttp2_session *session, uint8_t flags, int32_t stream,
                             const uint8_t *bytes, size_t n, void *ctx) {
    h2_request *r = h2_find(ctx, stream);
    (void)session, (void)flags;
    assert_true(r->n + n <= sizeof r->body);
    memcpy(r->body + r->n, bytes, n);
    r->n += n;
    return 0;
}

static inline int h2_on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *ctx) {
    h2 *server = ctx;
    (void)session;
    if (frame->hd.type == NGHTTP2_PING && frame->hd.flags & NGHTTP2_FLAG_ACK)
        server->acks++;
    if (frame->hd.stream_id != 0 && frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
        h2_find(server, frame->hd.stream_id)->whole = true;
    return 0;
}

static inline void h2_begin(h2 *server, peer *p) {
    nghttp2_session_callbacks *calls;
    int yes = 1;
    (void)setsockopt(p->stream, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    *server = (h2){.peer = p, .request = calloc(H2_REQUESTS, sizeof(h2_request))};
    assert_non_null(server->request);
    assert_int_equal(nghttp2_session_callbacks_new(&calls), 0);
    nghttp2_session_callbacks_set_on_header_callback(calls, h2_on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, h2_on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(calls, h2_on_frame);
    assert_int_equal(nghttp2_session_server_new(&server->session, calls, server), 0);
    nghttp2_session_callbacks_del(calls);
    assert_int_equal(nghttp2_submit_settings(server->session, 0, NULL, 0), 0);
}

static inline void h2_end(h2 *server) {
    nghttp2_session_del(server->session);
    free(server->request);
    free(server->record);
    if (server->peer)
        peer_drop(server->peer);
    *server = (h2){0};
}

/* Send what there is to send; or only record it. */
static inline void h2_flush(h2 *server, bool sends) {
    const uint8_t *bytes;
    ssize_t n;
    while ((n = nghttp2_session_mem_send(server->session, &bytes)) > 0) {
        server->record = realloc(server->record, server->recorded + (size_t)n);
        assert_non_null(server->record);
        memcpy(server->record + server->recorded, bytes, (size_t)n);
        server->recorded += (size_t)n;
        if (sends)
            peer_send_n(server->peer, (const char *)bytes, (size_t)n);
    }
    assert_int_equal(n, 0);
}

static inline void h2_read(h2 *server) {
    uint8_t buffer[4096];
    ssize_t n;
    while ((n = recv(server->peer->stream, buffer, sizeof buffer, 0)) > 0)
        assert_int_equal(nghttp2_session_mem_recv(server->session, buffer, (size_t)n), n);
}

static inline void h2_turn(h2 *server, tl_mono began) {
    h2_flush(server, true);
    peer_turn(server->peer, began);
    h2_read(server);
}

/* Accept the connection, and greet. */
static inline void h2_accept(h2 *server, peer *p) {
    peer_accept(p);
    h2_begin(server, p);
}

static inline bool h2_has(const h2 *server, size_t count) {
    size_t whole = 0;
    for (size_t i = 0; i < server->requests; i++)
        whole += server->request[i].whole;
    return whole >= count;
}

/* The request of this number, from 0, once it is whole. */
static inline const h2_request *h2_await(h2 *server, size_t which) {
    tl_mono began = tl__mono_now();
    while (!h2_has(server, which + 1))
        h2_turn(server, began);
    return &server->request[which];
}

static inline ssize_t h2_on_answer(nghttp2_session *session, int32_t stream, uint8_t *to,
                                   size_t room, uint32_t *flags, nghttp2_data_source *source,
                                   void *ctx) {
    h2_answer *answer = source->ptr;
    char status[16];
    size_t n = answer->n - answer->at < room ? answer->n - answer->at : room;
    (void)ctx;
    memcpy(to, answer->bytes + answer->at, n);
    answer->at += n;
    if (answer->goes_on && n == 0)
        return NGHTTP2_ERR_DEFERRED;
    if (answer->at < answer->n || answer->goes_on)
        return (ssize_t)n;
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    (void)snprintf(status, sizeof status, "%d", answer->status);
    nghttp2_nv trailers[] = {
        {(uint8_t *)"grpc-status", (uint8_t *)status, 11, strlen(status), 0},
        {(uint8_t *)"grpc-message", (uint8_t *)answer->text, 12, strlen(answer->text), 0}};
    assert_int_equal(nghttp2_submit_trailer(session, stream, trailers, 2), 0);
    return (ssize_t)n;
}

/* Answer a request with these bytes, in HTTP status 200 and content-type `type`, then the trailers. */
static inline void h2_answer_as(h2 *server, size_t which, h2_answer *answer, const char *http,
                                const char *type) {
    nghttp2_nv head[] = {{(uint8_t *)":status", (uint8_t *)http, 7, strlen(http), 0},
                         {(uint8_t *)"content-type", (uint8_t *)type, 12, strlen(type), 0}};
    nghttp2_data_provider body = {.source.ptr = answer, .read_callback = h2_on_answer};
    assert_int_equal(
        nghttp2_submit_response(server->session, server->request[which].stream, head, 2, &body), 0);
}

/* A message of less than 128 bytes, behind its head. */
static inline void h2_say(h2 *server, size_t which, const char *message, size_t n) {
    char bytes[5 + 128] = {0};
    assert_true(n < 128);
    bytes[4] = (char)n;
    memcpy(bytes + 5, message, n);
    h2_answer answer = {.bytes = bytes, .n = n + 5, .text = ""};
    h2_answer_as(server, which, &answer, "200", "application/grpc");
    h2_flush(server, true);
}

static inline void h2_refuse(h2 *server, size_t which, int status, const char *text) {
    h2_answer answer = {.bytes = "", .status = status, .text = text};
    h2_answer_as(server, which, &answer, "200", "application/grpc");
    h2_flush(server, true);
}

static inline void h2_reset(h2 *server, size_t which, uint32_t error) {
    assert_int_equal(
        nghttp2_submit_rst_stream(server->session, 0, server->request[which].stream, error), 0);
    h2_flush(server, true);
}
