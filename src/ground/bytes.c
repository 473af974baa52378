/*
 * Byte strings and the text of integers, without locale and without overflow.
 */
#include "ground/bytes.h"

bool tl__bytes_to_int(tl_bytes text, int64_t *ret) {
    size_t i = 0;
    bool negative = text.n > 0 && text.p[0] == '-';
    if (negative)
        i = 1;
    if (i == text.n)
        return false;
    int64_t v = 0; /* kept negative: that side reaches further */
    for (; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9')
            return false;
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_sub_overflow(v, text.p[i] - '0', &v))
            return false;
    }
    if (!negative && v == INT64_MIN)
        return false;
    *ret = negative ? v : -v;
    return true;
}

tl_bytes tl__bytes_from_int(char *buffer, int64_t v) {
    char *end = buffer + TL_INT_SIZE - 1, *p = end;
    uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    *end = '\0';
    do
        *--p = (char)('0' + u % 10);
    while (u /= 10);
    if (v < 0)
        *--p = '-';
    return tl__bytes(p, (size_t)(end - p));
}

void tl__bytes_print(char *to, size_t size, tl_bytes from) {
    if (size == 0)
        return;
    size_t n = from.n < size - 1 ? from.n : size - 1;
    for (size_t i = 0; i < n; i++)
        to[i] = (char)(from.p[i] >= 32 && from.p[i] <= 126 ? from.p[i] : '?');
    to[n] = '\0';
}

static bool is_upper(char c) {
    return c >= 'A' && c <= 'Z';
}

bool tl__bytes_has_word(tl_bytes text, const char *word) {
    size_t n = strlen(word);
    for (size_t i = 0; i + n <= text.n; i++)
        if (memcmp(text.p + i, word, n) == 0 && (i == 0 || !is_upper(text.p[i - 1])) &&
            (i + n == text.n || !is_upper(text.p[i + n])))
            return true;
    return false;
}
