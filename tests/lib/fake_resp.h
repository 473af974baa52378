/*
 * RESP2 for the fake server's sockets: requests in, replies out.
 */
#pragma once

#include "wire/reply.h"

#define FAKE_RESP_ARGS_MAX 4096
#define FAKE_RESP_BULK_MAX (16 << 20)
#define FAKE_RESP_REQUEST_MAX (32 << 20)

typedef struct {
    char *p;
    size_t n, room;
} fake_buffer;

void fake_buffer_add(fake_buffer *to, const void *from, size_t n);
/** Forget the first n bytes. */
void fake_buffer_cut(fake_buffer *from, size_t n);
void fake_buffer_free(fake_buffer *b);

typedef enum { FAKE_RESP_MORE, FAKE_RESP_READY, FAKE_RESP_BAD } fake_resp_state;

/** The request at the start of `in`: READY, and then argv points into it and *ret_used is its
 *  length; MORE: not complete yet; BAD: no client of ours says this. argv has room for
 *  FAKE_RESP_ARGS_MAX. Inline commands are BAD. */
fake_resp_state fake_resp_read(tl_bytes in, tl_bytes *argv, size_t *ret_argc, size_t *ret_used);

void fake_resp_write(fake_buffer *to, const tl_reply *reply);
