/*
 * The encoding of protobuf: numbers, and the fields of a message. Pure.
 */
#pragma once

#include "ground/bytes.h"

#define TL_VARINT_MAX 10
#define TL_GRPC_HEAD 5 /**< bytes before each message of gRPC */

/** How a field is encoded. */
enum { TL_PROTO_VARINT = 0, TL_PROTO_FIXED_64 = 1, TL_PROTO_BYTES = 2, TL_PROTO_FIXED_32 = 5 };

/** Write a number of up to TL_VARINT_MAX bytes; returns how many. */
size_t tl__varint_write(char *to, uint64_t v);

typedef struct {
    uint32_t number;
    uint8_t kind;
    int64_t integer; /**< of TL_PROTO_VARINT; 0 for the others */
    tl_bytes bytes;  /**< of TL_PROTO_BYTES; n 0 for the others */
} tl_proto_field;

/** Take the next field of a message: 1; 0: there is none; -1: it is malformed. */
int tl__proto_next(tl_bytes *message, tl_proto_field *ret);
