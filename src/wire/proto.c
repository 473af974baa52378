/*
 * Reads and writes the encoding of protobuf. It must never read beyond the message, whatever lengths that
 * claims.
 */
#include "wire/proto.h"

#define FIELD_MAX ((UINT64_C(1) << 29) - 1)

size_t tl__varint_write(char *to, uint64_t v) {
    size_t n = 0;
    for (; v >= 128; v >>= 7)
        to[n++] = (char)(v | 128);
    to[n++] = (char)v;
    return n;
}

/* false: it isn't complete, or has more than 64 bits. */
static bool take_varint(tl_bytes *from, uint64_t *ret) {
    *ret = 0;
    for (unsigned i = 0; i < TL_VARINT_MAX && i < from->n; i++) {
        unsigned char c = (unsigned char)from->p[i];
        if (i == TL_VARINT_MAX - 1 && c > 1)
            return false;
        *ret |= (uint64_t)(c & 127) << (7 * i);
        if (c < 128) {
            *from = tl__bytes(from->p + i + 1, from->n - i - 1);
            return true;
        }
    }
    return false;
}

static bool take_bytes(tl_bytes *from, uint64_t n, tl_bytes *ret) {
    if (n > from->n)
        return false;
    *ret = tl__bytes(from->p, (size_t)n);
    *from = tl__bytes(from->p + n, from->n - (size_t)n);
    return true;
}

/* The other kinds of fields are in no message that etcd sends. */
static bool take_value(tl_bytes *from, tl_proto_field *ret) {
    uint64_t v;
    tl_bytes skipped;
    switch (ret->kind) {
    case TL_PROTO_VARINT:
        if (!take_varint(from, &v))
            return false;
        ret->integer = (int64_t)v;
        return true;
    case TL_PROTO_BYTES: return take_varint(from, &v) && take_bytes(from, v, &ret->bytes);
    case TL_PROTO_FIXED_64: return take_bytes(from, 8, &skipped);
    case TL_PROTO_FIXED_32: return take_bytes(from, 4, &skipped);
    default: return false;
    }
}

int tl__proto_next(tl_bytes *message, tl_proto_field *ret) {
    uint64_t tag;
    if (message->n == 0)
        return 0;
    *ret = (tl_proto_field){0};
    if (!take_varint(message, &tag) || tag >> 3 == 0 || tag >> 3 > FIELD_MAX)
        return -1;
    ret->number = (uint32_t)(tag >> 3);
    ret->kind = (uint8_t)(tag & 7);
    return take_value(message, ret) ? 1 : -1;
}
