/*
 * The value of a key that rests.
 */
#include "wire/rest.h"

bool tl__is_rest(tl_bytes value) {
    int64_t since_us;
    tl_bytes token;
    return tl__rest_read(value, &since_us, &token);
}

bool tl__rest_read(tl_bytes value, int64_t *ret_since_us, tl_bytes *ret_token) {
    tl_bytes word = tl__bytes_take(&value, ' '), since = tl__bytes_take(&value, ' ');
    *ret_token = value;
    return tl__bytes_eq(word, TL_LITERAL("resting")) && value.n > 0 &&
           tl__bytes_to_int(since, ret_since_us) && *ret_since_us >= 0;
}
