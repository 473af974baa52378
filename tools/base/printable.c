/*
 * Pure: which characters of a text a terminal may be given.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/printable.h"

static bool is_more(unsigned char c) {
    return (c & 0xc0) == 0x80;
}

/* How many bytes the character has that this byte begins; 0: it begins none. */
static size_t length_of(unsigned char first) {
    if (first < 0x80)
        return 1;
    if (first >= 0xc2 && first <= 0xdf)
        return 2;
    if (first >= 0xe0 && first <= 0xef)
        return 3;
    return first >= 0xf0 && first <= 0xf4 ? 4 : 0;
}

/* The length of the character that begins here; 0: none does. */
static size_t character(const unsigned char *at, size_t len, uint32_t *ret) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    static const unsigned char bits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    size_t n = length_of(at[0]);

    if (n == 0 || n > len)
        return 0;
    *ret = at[0] & bits[n];
    for (size_t i = 1; i < n; i++) {
        if (!is_more(at[i]))
            return 0;
        *ret = *ret << 6 | (at[i] & 0x3f);
    }
    bool half = *ret >= 0xd800 && *ret <= 0xdfff; /* of a pair of UTF-16 */
    return (n > 1 && *ret < least[n]) || half || *ret > 0x10ffff ? 0 : n;
}

static bool is_control(uint32_t c) {
    return c < ' ' || (c >= 0x7f && c <= 0x9f);
}

size_t printable(char *to, const char *text, size_t len) {
    size_t n = 0, used;
    uint32_t c = 0;

    for (size_t i = 0; i < len; i += used) {
        used = character((const unsigned char *)text + i, len - i, &c);
        if (used == 0 || is_control(c)) {
            to[n++] = '?';
            used = used ? used : 1;
            continue;
        }
        for (size_t k = 0; k < used; k++)
            to[n++] = text[i + k];
    }
    return n;
}

size_t printable_cut(const char *text, size_t len) {
    for (size_t back = 1; back < PRINTABLE_MAX && back < len; back++) {
        unsigned char c = (unsigned char)text[len - back];
        if (!is_more(c))
            return length_of(c) > back ? len - back : len;
    }
    return len;
}
