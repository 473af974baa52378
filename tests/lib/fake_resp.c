/*
 * RESP2 for the fake server's sockets. Every length from the wire has a bound.
 */
#include "fake_resp.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- buffers --------------------------------------------------------------------------------- */

void fake_buffer_add(fake_buffer *to, const void *from, size_t n) {
    if (to->room - to->n < n) {
        to->room = (to->n + n) * 2;
        char *p = realloc(to->p, to->room);
        if (!p) {
            abort();
        }
        to->p = p;
    }
    if (n) {
        memcpy(to->p + to->n, from, n);
    }
    to->n += n;
}

void fake_buffer_cut(fake_buffer *from, size_t n) {
    from->n -= n;
    if (from->n && n) {
        memmove(from->p, from->p + n, from->n);
    }
}

void fake_buffer_free(fake_buffer *b) {
    free(b->p);
    *b = (fake_buffer){0};
}

/* ---- requests -------------------------------------------------------------------------------- */

typedef struct {
    tl_bytes in;
    size_t at;
} reader;

/* A line of `mark` and a number, 0..max. */
static fake_resp_state read_number(reader *r, char mark, int64_t max, size_t *ret) {
    const char *start = r->in.p + r->at;
    size_t left = r->in.n - r->at;
    const char *end = left ? memchr(start, '\n', left) : NULL;
    int64_t v;
    if (left && *start != mark) {
        return FAKE_RESP_BAD;
    }
    if (!end) {
        return left > TL_INT_SIZE + 2 ? FAKE_RESP_BAD : FAKE_RESP_MORE;
    }
    if (end - start < 3 || end[-1] != '\r' ||
        !tl__bytes_to_int(tl__bytes(start + 1, (size_t)(end - start) - 2), &v) || v < 0 ||
        v > max) {
        return FAKE_RESP_BAD;
    }
    r->at += (size_t)(end - start) + 1;
    *ret = (size_t)v;
    return FAKE_RESP_READY;
}

static fake_resp_state read_bulk(reader *r, tl_bytes *ret) {
    size_t n;
    fake_resp_state state = read_number(r, '$', FAKE_RESP_BULK_MAX, &n);
    if (state != FAKE_RESP_READY) {
        return state;
    }
    if (r->in.n - r->at < n + 2) {
        return FAKE_RESP_MORE;
    }
    *ret = tl__bytes(r->in.p + r->at, n);
    r->at += n + 2;
    return memcmp(r->in.p + r->at - 2, "\r\n", 2) == 0 ? FAKE_RESP_READY : FAKE_RESP_BAD;
}

fake_resp_state fake_resp_read(tl_bytes in, tl_bytes *argv, size_t *ret_argc, size_t *ret_used) {
    reader r = {.in = in};
    fake_resp_state state = read_number(&r, '*', FAKE_RESP_ARGS_MAX, ret_argc);
    for (size_t i = 0; state == FAKE_RESP_READY && i < *ret_argc; i++) {
        state = read_bulk(&r, &argv[i]);
    }
    if (state == FAKE_RESP_MORE && in.n > FAKE_RESP_REQUEST_MAX) {
        return FAKE_RESP_BAD;
    }
    *ret_used = r.at;
    return state;
}

/* ---- replies --------------------------------------------------------------------------------- */

static void head(fake_buffer *to, char mark, long long v) {
    char text[32];
    int n = snprintf(text, sizeof(text), "%c%lld\r\n", mark, v);
    fake_buffer_add(to, text, (size_t)n);
}

static void line(fake_buffer *to, char mark, tl_bytes text) {
    fake_buffer_add(to, &mark, 1);
    fake_buffer_add(to, text.p, text.n);
    fake_buffer_add(to, "\r\n", 2);
}

void fake_resp_write(fake_buffer *to, const tl_reply *reply) {
    switch (reply->type) {
    case TL_REPLY_NIL: fake_buffer_add(to, "$-1\r\n", 5); break;
    case TL_REPLY_INT: head(to, ':', reply->integer); break;
    case TL_REPLY_STATUS: line(to, '+', reply->text); break;
    case TL_REPLY_ERROR: line(to, '-', reply->text); break;
    case TL_REPLY_STRING:
        head(to, '$', (long long)reply->text.n);
        fake_buffer_add(to, reply->text.p, reply->text.n);
        fake_buffer_add(to, "\r\n", 2);
        break;
    case TL_REPLY_ARRAY:
        head(to, '*', (long long)reply->count);
        for (size_t i = 0; i < reply->count; i++) {
            fake_resp_write(to, &reply->items[i]);
        }
        break;
    }
}
