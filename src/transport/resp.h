/*
 * Turns bytes from a Redis server into replies. Memory and nesting depth are bounded, whatever the server
 * sends, and nothing is allocated once the buffers have grown to the usual size.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "wire/reply.h"

#define TL_RESP_BYTES_MAX (64u << 20) /**< memory of the replies that are not released yet */
#define TL_RESP_DEPTH_MAX 7           /**< arrays within arrays */
#define TL_RESP_LINE_MAX (64u << 10)  /**< a status, an error, a number */

typedef struct tl_resp tl_resp;

/** NULL: out of memory. */
tl_resp *tl__resp_new(void);
void tl__resp_free(tl_resp *resp);

/** Forget everything, for a new connection. false: out of memory. */
bool tl__resp_reset(tl_resp *resp);

/** Take in bytes; they are copied. */
void tl__resp_feed(tl_resp *resp, const char *bytes, size_t n);

/** 1: *ret is the next reply, valid until tl__resp_release. 0: more bytes are needed. -1: these are no
 *  replies, and nothing more can be read until a reset: tl__resp_message. */
int tl__resp_next(tl_resp *resp, tl_reply *ret);

/** The problem, as printable text. */
const char *tl__resp_message(const tl_resp *resp);

/** After -1: was the problem a lack of memory? */
bool tl__resp_is_out_of_memory(const tl_resp *resp);

/** Release the replies returned so far. Not between two calls of tl__resp_next if the first one returned
 *  0. */
void tl__resp_release(tl_resp *resp);
