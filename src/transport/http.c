/*
 * Parses the HTTP responses of etcd's gateway: bodies with a Content-Length, or in chunks with trailers. It
 * does no I/O. It must never trust a length that the server claims, nor take a part of one response for
 * another.
 */
#include "transport/http.h"

#include <stdint.h>
#include <stdlib.h>
#include <strings.h>

#define KEEP_MAX ((size_t)64 << 10) /* a buffer with more room is freed when it is empty */
#define ROOM_FIRST ((size_t)1024)
#define CHUNK_LINE_MAX 256

const char tl__http_no_memory[] = "out of memory for a reply";

static bool fails(tl_http *http, const char *problem) {
    http->problem = problem;
    return false;
}

/* The address of byte i; the buffer may have no memory at all. */
static const char *at(const tl_http_buffer *buffer, size_t i) {
    return buffer->bytes ? buffer->bytes + i : "";
}

static bool append(tl_http_buffer *buffer, const char *bytes, size_t n) {
    if (n > buffer->size - buffer->n) {
        size_t size = (buffer->n + n) * 2 > ROOM_FIRST ? (buffer->n + n) * 2 : ROOM_FIRST;
        char *room = realloc(buffer->bytes, size);
        if (!room)
            return false;
        buffer->bytes = room;
        buffer->size = size;
    }
    if (n > 0)
        memcpy(buffer->bytes + buffer->n, bytes, n);
    buffer->n += n;
    return true;
}

static void empty(tl_http_buffer *buffer) {
    buffer->n = 0;
    if (buffer->size <= KEEP_MAX)
        return;
    free(buffer->bytes);
    *buffer = (tl_http_buffer){0};
}

void tl__http_reset(tl_http *http) {
    empty(&http->in);
    empty(&http->body);
    http->at = http->given = http->looked = http->left = 0;
    http->state = TL_HTTP_HEAD;
    http->status = 0;
    http->closes = false;
    http->problem = NULL;
}

void tl__http_free(tl_http *http) {
    free(http->in.bytes);
    free(http->body.bytes);
    *http = (tl_http){0};
}

void tl__http_feed(tl_http *http, const char *bytes, size_t n) {
    if (http->at == http->in.n) {
        empty(&http->in);
        http->at = 0;
    } else if (http->at > KEEP_MAX / 2) {
        memmove(http->in.bytes, http->in.bytes + http->at, http->in.n - http->at);
        http->in.n -= http->at;
        http->at = 0;
    }
    if (http->in.n - http->at + n > TL_HTTP_BODY_MAX)
        (void)fails(http, "a reply of more than 16 MiB");
    else if (!append(&http->in, bytes, n))
        (void)fails(http, tl__http_no_memory);
}

/* ---- lines ------------------------------------------------------------------------------------- */

/* Take the next line, without its line end. false: it isn't complete yet, or is too long. */
static bool take_line(tl_http *http, size_t most, tl_bytes *ret) {
    const char *from = at(&http->in, http->at);
    size_t n = http->in.n - http->at;
    const char *end = n ? memchr(from, '\n', n) : NULL;
    if ((end ? (size_t)(end - from) : n) > most)
        return fails(http, "a line that is too long");
    if (!end)
        return false;
    http->at += (size_t)(end - from) + 1;
    *ret = tl__bytes(from, (size_t)(end - from));
    if (ret->n > 0 && ret->p[ret->n - 1] == '\r')
        ret->n--;
    return true;
}

/* "HTTP/1.1 200 OK" */
static bool read_status(tl_http *http, tl_bytes line) {
    static const char begin[] = "HTTP/1.";
    int64_t status = 0;
    size_t n = sizeof begin - 1;
    if (line.n < n + 5 || memcmp(line.p, begin, n) != 0 || line.p[n + 1] != ' ' ||
        !tl__bytes_to_int(tl__bytes(line.p + n + 2, 3), &status) || status < 100)
        return fails(http, "it doesn't begin with HTTP/1.1 and a status");
    http->status = (int)status;
    http->closes = line.p[n] == '0';
    return true;
}

static tl_bytes trimmed(tl_bytes text) {
    while (text.n > 0 && (text.p[0] == ' ' || text.p[0] == '\t'))
        text = tl__bytes(text.p + 1, text.n - 1);
    while (text.n > 0 && (text.p[text.n - 1] == ' ' || text.p[text.n - 1] == '\t'))
        text.n--;
    return text;
}

static bool is_word(tl_bytes text, const char *word) {
    return text.n == strlen(word) && strncasecmp(text.p, word, text.n) == 0;
}

/* The length of the body, as the headers give it. */
typedef struct {
    int64_t length; /* -1: not given */
    bool chunked;
} framing;

static bool read_header(tl_http *http, tl_bytes line, framing *f) {
    const char *colon = line.n ? memchr(line.p, ':', line.n) : NULL;
    if (!colon)
        return fails(http, "a header without a colon");
    tl_bytes name = tl__bytes(line.p, (size_t)(colon - line.p));
    tl_bytes value = trimmed(tl__bytes(colon + 1, line.n - name.n - 1));
    int64_t length;
    if (is_word(name, "Content-Length")) {
        if (!tl__bytes_to_int(value, &length) || length < 0 || length > (int64_t)TL_HTTP_BODY_MAX ||
            (f->length >= 0 && f->length != length))
            return fails(http, "an impossible Content-Length");
        f->length = length;
    } else if (is_word(name, "Transfer-Encoding")) {
        if (!is_word(value, "chunked"))
            return fails(http, "an unknown Transfer-Encoding");
        f->chunked = true;
    } else if (is_word(name, "Connection") && is_word(value, "close")) {
        http->closes = true;
    }
    return true;
}

/* Is the head complete? */
static bool has_head(tl_http *http) {
    const char *from = at(&http->in, http->at);
    size_t n = http->in.n - http->at, most = n < TL_HTTP_HEAD_MAX ? n : TL_HTTP_HEAD_MAX;
    if (n > 0 && (memmem(from, most, "\r\n\r\n", 4) || memmem(from, most, "\n\n", 2)))
        return true;
    return n >= TL_HTTP_HEAD_MAX && fails(http, "headers of more than 32 KiB");
}

static bool read_head(tl_http *http) {
    tl_bytes line;
    framing f = {.length = -1};
    if (!has_head(http) || !take_line(http, TL_HTTP_HEAD_MAX, &line) || !read_status(http, line))
        return false;
    while (take_line(http, TL_HTTP_HEAD_MAX, &line) && line.n > 0)
        if (!read_header(http, line, &f))
            return false;
    if (http->problem)
        return false;
    if (http->status < 200) /* an interim response: the real one follows */
        return true;
    empty(&http->body);
    http->given = http->looked = 0;
    bool none = http->status == 204 || http->status == 304;
    if (f.chunked && f.length >= 0)
        return fails(http, "both a length and chunks");
    if (!f.chunked && f.length < 0 && !none)
        return fails(http, "a body without a length");
    http->left = f.length > 0 && !none ? (size_t)f.length : 0;
    http->state = f.chunked ? TL_HTTP_SIZE : TL_HTTP_BODY;
    return true;
}

/* ---- bodies ------------------------------------------------------------------------------------ */

static bool take_body(tl_http *http) {
    size_t n = http->in.n - http->at < http->left ? http->in.n - http->at : http->left;
    if (http->body.n - http->given + n > TL_HTTP_BODY_MAX)
        return fails(http, "a reply of more than 16 MiB");
    if (!append(&http->body, at(&http->in, http->at), n))
        return fails(http, tl__http_no_memory);
    http->at += n;
    http->left -= n;
    return http->left == 0;
}

static int hex(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* "1a; extension" */
static bool read_size(tl_http *http) {
    tl_bytes line;
    size_t size = 0, i = 0;
    if (!take_line(http, CHUNK_LINE_MAX, &line))
        return false;
    for (; i < line.n && hex(line.p[i]) >= 0; i++) {
        size = size * 16 + (size_t)hex(line.p[i]);
        if (size > TL_HTTP_BODY_MAX)
            return fails(http, "a reply of more than 16 MiB");
    }
    if (i == 0 || (i < line.n && line.p[i] != ';' && line.p[i] != ' '))
        return fails(http, "a chunk without its size");
    http->left = size;
    http->state = size > 0 ? TL_HTTP_CHUNK : TL_HTTP_TAIL;
    return true;
}

static bool read_chunk(tl_http *http) {
    tl_bytes line;
    if (http->left > 0 && !take_body(http))
        return false;
    if (!take_line(http, CHUNK_LINE_MAX, &line))
        return false;
    if (line.n > 0)
        return fails(http, "a chunk that is longer than its size");
    http->state = TL_HTTP_SIZE;
    return true;
}

/* Trailers, up to an empty line. */
static bool read_tail(tl_http *http) {
    tl_bytes line;
    if (!take_line(http, TL_HTTP_HEAD_MAX, &line))
        return false;
    if (line.n == 0)
        http->state = TL_HTTP_WHOLE;
    return true;
}

/* false: more bytes are needed, or there is a problem. */
static bool step(tl_http *http) {
    switch (http->state) {
    case TL_HTTP_HEAD: return read_head(http);
    case TL_HTTP_BODY:
        if (!take_body(http))
            return false;
        http->state = TL_HTTP_WHOLE;
        return true;
    case TL_HTTP_SIZE: return read_size(http);
    case TL_HTTP_CHUNK: return read_chunk(http);
    case TL_HTTP_TAIL: return read_tail(http);
    default: return false;
    }
}

int tl__http_next(tl_http *http, tl_bytes *ret_body) {
    while (!http->problem && http->state != TL_HTTP_WHOLE && step(http))
        ;
    if (http->problem)
        return -1;
    if (http->state != TL_HTTP_WHOLE)
        return 0;
    *ret_body = tl__bytes(at(&http->body, 0), http->body.n);
    http->state = TL_HTTP_HEAD;
    return 1;
}

/* The end of the next line of the body; NULL: it hasn't arrived. Each byte is looked at once. */
static const char *line_end(tl_http *http) {
    size_t from = http->given + http->looked;
    const char *end = memchr(at(&http->body, from), '\n', http->body.n - from);
    http->looked = end ? 0 : http->body.n - http->given;
    return end;
}

/* Complete lines are returned before a problem behind them is reported. */
int tl__http_line(tl_http *http, tl_bytes *ret_line) {
    if (http->given > KEEP_MAX / 2 || (http->given > 0 && http->given == http->body.n)) {
        http->body.n -= http->given; /* drop the lines that were returned */
        memmove(http->body.bytes, http->body.bytes + http->given, http->body.n);
        http->given = 0;
    }
    while (true) {
        const char *from = at(&http->body, http->given);
        size_t n = http->body.n - http->given;
        const char *end = http->state != TL_HTTP_HEAD ? line_end(http) : NULL;
        bool rest = !end && http->state == TL_HTTP_WHOLE && !http->problem;
        if (end || rest) {
            *ret_line = tl__bytes(from, end ? (size_t)(end - from) : n);
            http->given += ret_line->n + (end != NULL);
            http->looked = 0;
            return rest && n == 0 ? 2 : 1;
        }
        size_t before = http->body.n;
        if (http->problem)
            return -1;
        if (!step(http) && !http->problem && http->body.n == before)
            return 0;
    }
}
