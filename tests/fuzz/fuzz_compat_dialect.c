/*
 * Stamps of every dialect, beside a second reader that goes byte by byte and uses floating point as
 * the clients themselves do: what is read as a time is one to that reader too, its end lies before the
 * instant from which everybody may take it, and what is written reads back to the millisecond.
 */

/*
 * Given what a key may hold, a clock, a time to write. It asserts for each dialect:
 * - What is read as a time is one to a second reader in floating point, and the same. Its end is before the instant from
 *   which any client may acquire it, within a second and a millisecond. Anything else has no times, and a message of one
 *   line.
 * - What is written reads back, never earlier, and is the same text when written again.
 */
#include "dialect/dialect.h"

#include <math.h>

#include "fuzz.h"

#define ID_MAX 36
#define SLOP_MS(at) (1 + (at) / 4e15) /* of a double's decimals */

static bool all(tl_bytes text, bool (*is)(char)) {
    for (size_t i = 0; i < text.n; i++)
        if (!is(text.p[i]))
            return false;
    return text.n > 0;
}
static bool digit(char c) {
    return strchr("0123456789", c) && c;
}
static bool hex_or_dash(char c) {
    return c && strchr("0123456789abcdefABCDEF-", c);
}
static bool visible(char c) {
    return c > ' ' && c < 127;
}

/* Digits, for some units a point and digits, no more; as a number, or -1. */
static double number(const tl_dialect *d, tl_bytes text) {
    char copy[TL_STAMP_SIZE + 1];
    if (text.n == 0 || text.n > TL_STAMP_SIZE)
        return -1;
    const char *point = d->unit == TL_UNIT_REAL ? memchr(text.p, '.', text.n) : NULL;
    size_t whole = point ? (size_t)(point - text.p) : text.n;
    if (!all(tl__bytes(text.p, whole), digit))
        return -1;
    if (point && !all(tl__bytes(point + 1, text.n - whole - 1), digit))
        return -1;
    memcpy(copy, text.p, text.n);
    copy[text.n] = '\0';
    return strtod(copy, NULL);
}

/* The time a client of the dialect sees, ms; -1: it sees none. */
static double seen(const tl_dialect *d, tl_bytes text) {
    double unit = d->unit == TL_UNIT_MS ? 1 : 1000;
    if (d->shape == TL_SHAPE_BARE)
        return number(d, text) * unit;
    const char *at = text.n ? memchr(text.p, d->separator, text.n) : NULL;
    if (!at)
        return -1;
    tl_bytes a = tl__bytes(text.p, (size_t)(at - text.p));
    tl_bytes b = tl__bytes(at + 1, text.n - a.n - 1);
    if (d->shape == TL_SHAPE_ID_NUMBER)
        return all(a, hex_or_dash) && a.n == 36 ? number(d, b) * unit : -1;
    return all(b, visible) ? number(d, a) * unit : -1;
}

static void check_read(const tl_dialect *d, tl_bytes text, int64_t now_ms) {
    tl_stamp s = tl__dialect_read(d, text, now_ms);
    const char *odd = tl__dialect_oddity(d, text, now_ms);
    MUST(!odd || (strlen(odd) > 3 && is_line(odd, 96)));
    MUST(odd || !tl__dialect_is_accident(d, text, now_ms));
    MUST(s.kind == TL_STAMP_GOOD || (s.end_ms == 0 && s.first_free_ms == 0 && s.written_ms == 0));
    if (s.kind != TL_STAMP_GOOD)
        return;
    double at = seen(d, text);
    MUST(text.n < TL_STAMP_SIZE);
    MUST(at >= 1e12);
    MUST(fabs(at - (double)s.end_ms) <= SLOP_MS(at));
    MUST(s.end_ms <= s.first_free_ms && s.first_free_ms <= s.end_ms + 1001);
    MUST((double)s.first_free_ms + SLOP_MS(at) >= at);
    MUST(s.written_ms == s.end_ms - d->plus_ms);
    MUST(now_ms > INT64_MAX - INT64_C(316000000000) || s.end_ms <= now_ms + INT64_C(316000000000));
    MUST(tl__dialect_guess(text, now_ms));
}

/* In its likely range, what is written is read as what was asked, or rounded up within a second. */
static void check_write(const tl_dialect *d, int64_t end_ms, tl_bytes id) {
    char to[TL_STAMP_SIZE], again[TL_STAMP_SIZE];
    tl_bytes text = tl__dialect_write(d, end_ms, id, to);
    MUST(text.p == to && text.n > 0 && text.n <= TL_STAMP_SIZE);
    if (end_ms < INT64_C(1000000000000) || end_ms > INT64_C(253402300799000))
        return;
    bool named = d->shape == TL_SHAPE_BARE ||
                 (d->shape == TL_SHAPE_NUMBER_ID ? all(id, visible) : id.n == 36);
    tl_stamp s = tl__dialect_read(d, text, end_ms);
    MUST(s.kind == TL_STAMP_GOOD || !named || d->shape == TL_SHAPE_ID_NUMBER);
    if (s.kind != TL_STAMP_GOOD)
        return;
    MUST(s.end_ms >= end_ms && s.end_ms - end_ms < (d->unit == TL_UNIT_S ? 1000 : 1));
    MUST(tl__bytes_eq(tl__dialect_write(d, s.end_ms, id, again), text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const tl_bytes token = TL_LITERAL("01234567-89ab-4def-8123-456789abcdef");
    input in = {data, size};
    int64_t now_ms = in_byte(&in) & 1 ? in_int(&in) : INT64_C(1763719800000);
    int64_t end_ms = in_byte(&in) & 1 ? in_int(&in)
                                      : INT64_C(1763719800000) + in_range(&in, 0, 86400000);
    tl_bytes id = in_bytes(&in, ID_MAX);
    tl_bytes text = tl__bytes(in.p, in.n);
    const tl_dialect *d;
    for (unsigned i = 0; (d = tl__dialect_at(i)); i++) {
        check_read(d, text, now_ms);
        check_write(d, end_ms, id);
        check_write(d, end_ms, token);
    }
    MUST(tl__dialect_find(text) == NULL || is_line(tl__dialect_find(text)->name, 32));
    return 0;
}
