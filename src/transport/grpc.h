/*
 * Calls of gRPC over one connection: HTTP/2 by libnghttp2, which only this module uses. It does no I/O: the
 * owner passes bytes in and out. Several calls may be in flight, each on a stream of its own; they are
 * answered in any order. A build without libnghttp2 can call nothing; then tl__grpc_works is false.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ground/bytes.h"

#define TL_GRPC_MESSAGES_MAX                                                                       \
    (16u << 20) /**< bytes of replies that are not read yet, of all calls */
#define TL_GRPC_TEXT 200
#define TL_GRPC_BATCH 64 /**< calls that are begun for one write */

typedef struct tl_grpc tl_grpc;

/** A call that has been made. */
typedef struct tl_grpc_call {
    struct tl_grpc_call *next; /**< the next one that was made; NULL: the last */
    const void *owner;         /**< of the caller, as are the next four */
    const char *instead;       /**< the reply to a call that was never sent */
    uint8_t part;
    bool followed, read;
    bool done;    /**< it has ended, and `code` says how; its messages may still have to be taken */
    bool refused; /**< with `done`: the server has certainly not begun it */
    int code;     /**< gRPC's; -1: the call ended without one */
    size_t text_n;
    char text[TL_GRPC_TEXT]; /**< the message of an error; it is not ended by a NUL */
    /* private */
    tl_bytes request;
    size_t sent; /* of the request */
    bool stays_open, is_grpc;
    int status;     /* of HTTP; 0: none yet */
    char *messages; /* `n` bytes, of which `taken` have been taken */
    size_t n, taken, size;
} tl_grpc_call;

typedef struct {
    const char *method;
    tl_bytes host, token; /**< token: n 0: none */
    int64_t timeout_ms;   /**< 0: none */
    tl_bytes messages;    /**< each behind its head; they must outlive the call */
    bool tls;
    bool stream; /**< the call goes on; a member without a leader ends it */
} tl_grpc_request;

bool tl__grpc_works(void);

/** NULL: out of memory. */
tl_grpc *tl__grpc_new(void);
/** NULL is fine. */
void tl__grpc_free(tl_grpc *grpc);

/** Begin a new connection: forget all calls and bytes of the former one. false: out of memory */
bool tl__grpc_reset(tl_grpc *grpc);

/** Take in bytes. */
void tl__grpc_feed(tl_grpc *grpc, const char *bytes, size_t n);
/** Nothing more can be read until a reset. NULL: all is well */
const char *tl__grpc_problem(const tl_grpc *grpc);
bool tl__grpc_is_out_of_memory(const tl_grpc *grpc);

bool tl__grpc_is_greeted(const tl_grpc *grpc); /**< the server speaks HTTP/2 */
bool tl__grpc_is_other(const tl_grpc *grpc);   /**< it doesn't, and has executed nothing */
bool tl__grpc_closes(const tl_grpc *grpc);     /**< it begins no more calls on this connection */

/** The bytes to write next; n 0: none at present. */
tl_bytes tl__grpc_output(tl_grpc *grpc);
void tl__grpc_wrote(tl_grpc *grpc, size_t n);
/** Is there something to write? */
bool tl__grpc_has_output(const tl_grpc *grpc);

/** Is a call in flight? Else what there is to write may wait for the next one. */
bool tl__grpc_is_busy(const tl_grpc *grpc);

/** Make a call. NULL: out of memory. It is valid until it is dropped, or a reset. */
tl_grpc_call *tl__grpc_call(tl_grpc *grpc, const tl_grpc_request *request);
/** Add a call that was never sent: it is done. NULL: out of memory. */
tl_grpc_call *tl__grpc_no_call(tl_grpc *grpc);
/** The oldest call. */
tl_grpc_call *tl__grpc_calls(const tl_grpc *grpc);
/** Take the next message of a call, valid until the next feed. false: there is none yet */
bool tl__grpc_take(tl_grpc *grpc, tl_grpc_call *call, tl_bytes *ret_message);
/** Forget a call that is done. */
void tl__grpc_drop(tl_grpc *grpc, tl_grpc_call *call);
