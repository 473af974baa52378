/*
 * Parses HTTP/1.1 responses from bytes: a status and a body each, one after the other, as they come for
 * pipelined requests; or a body that never ends, line by line. Memory is bounded, whatever the server sends.
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

/** The one problem that is not the fault of the bytes. */
extern const char tl__http_no_memory[];

/** Zeroed is valid. */
typedef struct {
    tl_http_buffer in;   /* not parsed yet, from `at` on */
    tl_http_buffer body; /* of the present response; from `given` on not returned as a line yet */
    size_t at, given;
    size_t looked; /* so many bytes from `given` on have no line end */
    enum {
        TL_HTTP_HEAD,
        TL_HTTP_BODY,
        TL_HTTP_SIZE,
        TL_HTTP_CHUNK,
        TL_HTTP_TAIL,
        TL_HTTP_WHOLE
    } state;
    int status;
    size_t left; /* bytes that are missing of the body, or of the chunk */
    bool closes; /* the server closes the connection after this response */
    const char *problem;
} tl_http;

void tl__http_free(tl_http *http);

/** Forget everything, for a new connection. */
void tl__http_reset(tl_http *http);

/** Take in bytes; they are copied. */
void tl__http_feed(tl_http *http, const char *bytes, size_t n);

/** 1: the next response is complete: http->status, http->closes and *ret_body, valid until the next call. 0:
 *  more bytes are needed. -1: these are no HTTP responses, and nothing more can be read until a reset:
 *  http->problem. */
int tl__http_next(tl_http *http, tl_bytes *ret_body);

/** The same for the next line of the body, without its line end, as soon as it has arrived. 2: the body has
 *  ended. */
int tl__http_line(tl_http *http, tl_bytes *ret_line);
