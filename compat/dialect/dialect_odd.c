/*
 * Messages about what is odd in a value that is not a stamp, for people who look for the program
 * that wrote it. Nothing here decides whether a lock is free.
 */
#include <strings.h>

#include "dialect/dialect.h"
#include "ground/clock.h"

#define DAY_MS INT64_C(86400000)
#define RUN_TOGETHER 16 /* digits; no clock shows so many */
#define MS_DIGITS 13
#define ODD_MAX 26       /* bytes; two times, one behind the other */
#define LIKELY_DIGITS 10 /* digits that a time has at least */

/* A number that is not a time in this dialect. */
static const char *odd_number(const tl_dialect *dialect, tl_bytes text, int64_t now_ms) {
    int64_t v;
    if (!tl__dialect_whole(text, &v))
        return NULL;
    if (text.n >= RUN_TOGETHER)
        return "two numbers run together: it never expires";
    if (dialect->unit == TL_UNIT_MS && tl__dialect_likely(v * 1000, now_ms))
        return "seconds where milliseconds are expected: it reads as expired long ago";
    if (dialect->unit != TL_UNIT_MS && tl__dialect_likely(v, now_ms))
        return "milliseconds where seconds are expected: it never expires";
    return "a number that is not a time";
}

static size_t digits_in(tl_bytes text) {
    size_t digits = 0;
    for (size_t i = 0; i < text.n; i++)
        digits += tl__is_digit(text.p[i]);
    return digits;
}

/* Text with digits in it, which some languages read as a number, and others don't. */
static const char *odd_text(tl_bytes text) {
    static const struct {
        char first;
        const char *message;
    } starts[] = {
        {'"', "in quotation marks: written through a JSON serialiser"},
        {'+', "a number with a sign"},
        {'-', "a number with a sign"},
        {'0', "a number with a leading zero"},
        {' ', "spaces around a number"},
    };
    size_t digits = digits_in(text);
    if (digits < LIKELY_DIGITS || text.n - digits > 6)
        return NULL;
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (text.p[0] == starts[i].first)
            return starts[i].message;
    if ((unsigned char)text.p[text.n - 1] <= ' ')
        return "spaces around a number";
    if (memchr(text.p, 'e', text.n) || memchr(text.p, 'E', text.n))
        return "a number in exponent notation";
    return digits == text.n ? "two numbers run together: it never expires" : NULL;
}

static bool is_word(tl_bytes text, const char *const *list) {
    for (; *list; list++)
        if (text.n == strlen(*list) && strncasecmp(text.p, *list, text.n) == 0)
            return true;
    return false;
}

static const char *odd_bytes(tl_bytes text) {
    if (text.n >= 2 && memcmp(text.p, "\xac\xed", 2) == 0)
        return "a serialised Java object, not text";
    for (size_t i = 0; i < text.n; i++)
        if ((unsigned char)text.p[i] < ' ' || (unsigned char)text.p[i] > '~')
            return "bytes that are not text";
    return NULL;
}

const char *tl__dialect_oddity(const tl_dialect *dialect, tl_bytes text, int64_t now_ms) {
    static const char *const no_numbers[] = {"nan",      "inf",       "-inf", "+inf",
                                             "infinity", "-infinity", NULL};
    static const char *const nothings[] = {"null", "nil", "none", "undefined", "false", NULL};
    tl_bytes number = tl__dialect_number(dialect, text);
    if (text.n == 0)
        return "empty";
    if (text.n >= TL_STAMP_SIZE)
        return "too long for a stamp";
    if (tl__dialect_uuid(text))
        return "a token, not a stamp";
    if (is_word(text, no_numbers))
        return "what a program prints for an invalid or infinite number";
    if (is_word(text, nothings))
        return "what a program prints for no value";
    const char *odd = odd_number(dialect, number.n ? number : text, now_ms);
    odd = odd ? odd : odd_text(text);
    return odd ? odd : odd_bytes(text);
}

/* A time in milliseconds up to one day ahead, followed by a lifetime or a second time. */
static bool runs_together(tl_bytes text, int64_t now_ms) {
    int64_t v;
    return tl__dialect_whole(tl__bytes(text.p, MS_DIGITS), &v) &&
           v <= tl__add_sat(now_ms, DAY_MS) && v >= tl__add_sat(now_ms, -TL_STAMP_AHEAD_MS);
}

/* Digits only: too many, in another unit, or after a leading zero. */
static bool is_odd_number(tl_bytes text, int64_t now_ms) {
    int64_t v;
    if (text.n == MS_DIGITS + 1 && text.p[0] == '0')
        return true;
    if (text.n >= RUN_TOGETHER)
        return runs_together(text, now_ms);
    return tl__dialect_whole(text, &v) &&
           (tl__dialect_likely(v, now_ms) || tl__dialect_likely(v * 1000, now_ms));
}

bool tl__dialect_is_accident(const tl_dialect *dialect, tl_bytes text, int64_t now_ms) {
    if (text.n < 2 || text.n >= TL_STAMP_SIZE || tl__dialect_uuid(text) ||
        tl__dialect_read(dialect, text, now_ms).kind == TL_STAMP_GOOD)
        return false;
    if (memcmp(text.p, "\xac\xed", 2) == 0)
        return tl__bytes_has(text, "java.lang.Long");
    if (text.n > ODD_MAX)
        return false;
    return digits_in(text) == text.n ? is_odd_number(text, now_ms) : odd_text(text) != NULL;
}
