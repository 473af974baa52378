/*
 * Answers of HTTP/1.1 from bytes: a status and a body, one behind the other, as they come from requests that were
 * written one behind the other; or a body that never ends, line by line. Whatever the server sends, memory is bounded.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "ground/bytes.h"

#define TL_HTTP_HEAD_MAX (32u << 10) /**< status and headers together */
#define TL_HTTP_BODY_MAX (16u << 20)

typedef struct {
    char *bytes;
    size_t n, size;
} tl_http_buffer;

/** The problem that is no fault of the bytes. */
extern const char tl__http_no_memory[];

/** Zeroed is valid. */
typedef struct {
    tl_http_buffer in;   /* not parsed yet, from `at` on */
    tl_http_buffer body; /* of the present answer, from `given` on not given as a line yet */
    size_t at, given;
    enum {
        TL_HTTP_HEAD,
        TL_HTTP_BODY,
        TL_HTTP_SIZE,
        TL_HTTP_CHUNK,
        TL_HTTP_TAIL,
        TL_HTTP_WHOLE
    } state;
    int status;
    size_t left; /* of the body, or of the chunk */
    bool closes; /* the server closes the connection behind this answer */
    const char *problem;
} tl_http;

void tl__http_free(tl_http *http);

/** Forget everything, for a new connection. */
void tl__http_reset(tl_http *http);

/** Take in bytes; they are copied. */
void tl__http_feed(tl_http *http, const char *bytes, size_t n);

/** 1: the next answer is whole: http->status, http->closes and *ret_body, valid until the next call. 0: more bytes are
 *  needed. -1: these are no answers, and never will be until a reset: http->problem. */
int tl__http_next(tl_http *http, tl_bytes *ret_body);

/** The same of a line of the body, without its end, as soon as it is there. 2: the body has ended. */
int tl__http_line(tl_http *http, tl_bytes *ret_line);
