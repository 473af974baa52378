/*
 * Reads replies without trusting them.
 */
#include "wire/reply.h"

const tl_reply *tl__reply_item(const tl_reply *array, size_t i) {
    static const tl_reply nil = {.type = TL_REPLY_NIL};
    return array->type == TL_REPLY_ARRAY && i < array->count ? &array->items[i] : &nil;
}

bool tl__reply_int(const tl_reply *reply, int64_t *ret) {
    if (reply->type == TL_REPLY_INT) {
        *ret = reply->integer;
        return true;
    }
    tl_bytes text;
    return tl__reply_text(reply, &text) && tl__bytes_to_int(text, ret);
}

bool tl__reply_text(const tl_reply *reply, tl_bytes *ret) {
    if (reply->type != TL_REPLY_STRING && reply->type != TL_REPLY_STATUS)
        return false;
    *ret = reply->text;
    return true;
}

bool tl__reply_time(const tl_reply *array, size_t i, int64_t *ret_us) {
    int64_t s, us;
    if (!tl__reply_int(tl__reply_item(array, i), &s) ||
        !tl__reply_int(tl__reply_item(array, i + 1), &us))
        return false;
    if (s < 0 || s > INT64_C(9007199254) || us < 0 || us > 999999) /* below 2^53 us */
        return false;
    *ret_us = s * 1000000 + us;
    return true;
}
