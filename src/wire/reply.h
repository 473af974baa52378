/*
 * A reply, independent of its transport. Its strings and items belong to the code that built it; they are
 * valid while the event that brings the reply is handled.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "ground/bytes.h"

typedef enum {
    TL_REPLY_NIL,
    TL_REPLY_INT,
    TL_REPLY_STRING,
    TL_REPLY_STATUS,
    TL_REPLY_ERROR,
    TL_REPLY_ARRAY
} tl_reply_type;

typedef struct tl_reply {
    tl_reply_type type;
    int64_t integer;              /**< INT */
    tl_bytes text;                /**< STRING, STATUS, ERROR */
    const struct tl_reply *items; /**< ARRAY */
    size_t count;
} tl_reply;

/** Item i of an array, or a NIL when there is none. */
const tl_reply *tl__reply_item(const tl_reply *array, size_t i);

/** An INT, or a STRING or STATUS of digits; false otherwise. */
bool tl__reply_int(const tl_reply *reply, int64_t *ret);

/** A STRING or STATUS; false otherwise. */
bool tl__reply_text(const tl_reply *reply, tl_bytes *ret);

/** The two items of TIME at i and i + 1, as microseconds; false if they are implausible. */
bool tl__reply_time(const tl_reply *array, size_t i, int64_t *ret_us);
