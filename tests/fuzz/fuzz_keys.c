/*
 * Names, slots, and the text of numbers, each beside a second way to find the same.
 */

/*
 * Given a key, or digits. It asserts:
 * - Hash tag and slot are as a second implementation finds them. The sidecar is in the slot of its key whenever that is
 *   reported. No two keys have one sidecar.
 * - Numbers parse exactly when `strtoll` takes all of the text, and come back the same. Printed text fits, and is
 *   printable.
 */
#include "wire/keys.h"

#include <errno.h>

#include "fuzz.h"

#define KEY_MAX 4096

/* As the cluster specification tells it, byte by byte. */
static tl_bytes hashed(tl_bytes key) {
    size_t open = 0, close;
    while (open < key.n && key.p[open] != '{')
        open++;
    if (open == key.n)
        return key;
    close = open + 1;
    while (close < key.n && key.p[close] != '}')
        close++;
    if (close == key.n || close == open + 1)
        return key;
    return tl__bytes(key.p + open + 1, close - open - 1);
}

static uint16_t slot(tl_bytes text) {
    uint32_t crc = 0;
    for (size_t i = 0; i < text.n; i++)
        for (int bit = 7; bit >= 0; bit--) {
            uint32_t in = (unsigned char)text.p[i] >> bit & 1, out = crc >> 15 & 1;
            crc = (crc << 1 & 0xffff) ^ (in != out ? 0x1021 : 0);
        }
    return crc % 16384;
}

static void check_names(tl_bytes key) {
    static char room[KEY_MAX + TL_SIDECAR_EXTRA];
    bool same = false, braces = memchr(key.p, '}', key.n) != NULL;
    tl_bytes tag = hashed(key), found = tl__hash_tag(key);
    MUST(found.p == tag.p && found.n == tag.n);
    MUST(tl__hash_slot(key) == slot(tag));
    tl_bytes sidecar = tl__sidecar(room, key, &same);
    MUST(sidecar.p == room && sidecar.n > key.n && sidecar.n <= key.n + TL_SIDECAR_EXTRA);
    MUST(memmem(sidecar.p, sidecar.n, key.p, key.n));
    MUST(memmem(sidecar.p, sidecar.n, "tidelock", 8));
    MUST(same == (tag.p != key.p || !braces));
    MUST(!same || tl__hash_slot(sidecar) == tl__hash_slot(key));
    MUST(tl__sidecar(room, key, NULL).n == sidecar.n);
}

/* Two keys never share a sidecar. */
static void check_pair(tl_bytes a, tl_bytes b) {
    static char room[2][KEY_MAX + TL_SIDECAR_EXTRA];
    tl_bytes one = tl__sidecar(room[0], a, NULL), other = tl__sidecar(room[1], b, NULL);
    MUST(tl__bytes_eq(one, other) == tl__bytes_eq(a, b));
}

static bool is_number(const char *text, size_t n) {
    size_t at = text[0] == '-';
    return strspn(text + at, "0123456789") == n - at && n > at;
}

static void check_number(tl_bytes text) {
    static char copy[KEY_MAX + 1];
    char again[TL_INT_SIZE];
    int64_t v = 42;
    memcpy(copy, text.p, text.n);
    copy[text.n] = '\0';
    errno = 0;
    long long expected = strtoll(copy, NULL, 10);
    bool right = is_number(copy, text.n) && errno == 0;
    MUST(tl__bytes_to_int(text, &v) == right);
    if (!right)
        return;
    MUST(v == expected);
    tl_bytes shortest = tl__bytes_from_int(again, v);
    MUST(shortest.n <= text.n && shortest.p[shortest.n] == '\0');
    MUST(tl__bytes_to_int(shortest, &v) && v == expected);
}

static void check_int(int64_t v) {
    char text[TL_INT_SIZE], expected[32];
    int64_t again;
    tl_bytes b = tl__bytes_from_int(text, v);
    (void)snprintf(expected, sizeof expected, "%lld", (long long)v);
    MUST(strcmp(b.p, expected) == 0 && b.n == strlen(expected));
    MUST(tl__bytes_to_int(b, &again) && again == v);
}

static void check_print(tl_bytes text, size_t size) {
    char to[64];
    memset(to, 0xa5, sizeof to);
    tl__bytes_print(to, size, text);
    MUST(size == 0 || is_line(to, size));
    MUST(size == 0 || strlen(to) == (text.n < size ? text.n : size - 1));
    MUST(size == sizeof to || to[size] == (char)0xa5);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = {data, size < KEY_MAX ? size : KEY_MAX};
    tl_bytes all = tl__bytes(in.p, in.n);
    check_number(all);
    check_print(all, in.n % 65);
    if (in.n == 0)
        return 0;
    check_names(all);
    tl_bytes first = in_bytes(&in, KEY_MAX);
    check_pair(first, tl__bytes(in.p, in.n));
    in = (input){data, size};
    check_int(in_int(&in));
    return 0;
}
