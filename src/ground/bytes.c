/*
 * Byte strings and the text of integers, without locale and without overflow.
 */
#include "ground/bytes.h"

bool tl__bytes_starts(tl_bytes text, const char *with) {
    size_t n = strlen(with);
    return text.n >= n && memcmp(text.p, with, n) == 0;
}

tl_bytes tl__bytes_after(tl_bytes text, const char *part) {
    size_t n = strlen(part);
    const char *at = text.n ? memmem(text.p, text.n, part, n) : NULL;
    return at ? tl__bytes(at + n, text.n - (size_t)(at - text.p) - n) : (tl_bytes){0};
}

tl_bytes tl__bytes_before(tl_bytes text, const char *part) {
    tl_bytes rest = tl__bytes_after(text, part);
    return rest.p ? tl__bytes(text.p, text.n - rest.n - strlen(part)) : text;
}

tl_bytes tl__bytes_take(tl_bytes *text, char end) {
    const char *at = text->n ? memchr(text->p, end, text->n) : NULL;
    tl_bytes taken = tl__bytes(text->p, at ? (size_t)(at - text->p) : text->n);
    *text = at ? tl__bytes(at + 1, text->n - taken.n - 1) : (tl_bytes){0};
    return taken;
}

bool tl__bytes_is_visible(tl_bytes text) {
    for (size_t i = 0; i < text.n; i++)
        if (text.p[i] <= ' ' || text.p[i] > '~')
            return false;
    return true;
}

#define SAFE_DIGITS 18 /* no number of this length overflows */

/* A fast path for times and counts, which are very frequent: only digits, at most SAFE_DIGITS. */
static bool is_short_number(tl_bytes text, int64_t *ret) {
    int64_t v = 0;
    if (text.n == 0 || text.n > SAFE_DIGITS)
        return false;
    for (size_t i = 0; i < text.n; i++) {
        unsigned digit = (unsigned)(unsigned char)text.p[i] - '0';
        if (digit > 9)
            return false;
        v = v * 10 + digit;
    }
    *ret = v;
    return true;
}

bool tl__bytes_to_int(tl_bytes text, int64_t *ret) {
    if (is_short_number(text, ret))
        return true;
    size_t i = 0;
    bool negative = text.n > 0 && text.p[0] == '-';
    if (negative)
        i = 1;
    if (i == text.n)
        return false;
    int64_t v = 0; /* accumulated as a negative number: INT64_MIN has no positive counterpart */
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

bool tl__bytes_to_uint(tl_bytes text, unsigned base, uint64_t *ret) {
    uint64_t v = 0;
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        unsigned digit = c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' ? (unsigned)(c - 'a') + 10
                                    : base;
        if (digit >= base || __builtin_mul_overflow(v, base, &v) ||
            __builtin_add_overflow(v, digit, &v))
            return false;
    }
    *ret = v;
    return text.n > 0;
}

static const char pairs[] = "0001020304050607080910111213141516171819"
                            "2021222324252627282930313233343536373839"
                            "4041424344454647484950515253545556575859"
                            "6061626364656667686970717273747576777879"
                            "8081828384858687888990919293949596979899";

tl_bytes tl__bytes_from_int(char *buffer, int64_t v) {
    char *end = buffer + TL_INT_SIZE - 1, *p = end;
    uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    *end = '\0';
    /* Two digits at a time, since the division takes most of the time. */
    for (; u >= 100; u /= 100) {
        p -= 2;
        memcpy(p, &pairs[u % 100 * 2], 2);
    }
    if (u >= 10)
        *--p = pairs[u * 2 + 1];
    *--p = u >= 10 ? pairs[u * 2] : (char)('0' + u);
    if (v < 0)
        *--p = '-';
    return tl__bytes(p, (size_t)(end - p));
}

uint64_t tl__bytes_hash(uint64_t seed, tl_bytes text) {
    uint64_t h = seed ^ UINT64_C(14695981039346656037);
    for (size_t i = 0; i < text.n; i++)
        h = (h ^ (unsigned char)text.p[i]) * UINT64_C(1099511628211);
    return h;
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
