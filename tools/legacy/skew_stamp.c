/*
 * Reads stamps as readings of clocks. Writers round down to their unit; those that write decimals
 * round to the nearest one.
 */
#include <stdio.h>

#include "legacy/skew_stamp.h"
#include "ground/guard.h"

#include "dialect/dialect.h"

#define US_PER_MS 1000
#define US_PER_S 1000000

const skew_dialect *skew_stamp_dialect(const char *name) {
    return name ? tl__dialect_find(tl__bytes_of(name)) : tl__dialect_at(0);
}

/* Seconds with decimals: half of the last decimal, and the error of a double. */
static int64_t rounding_us(tl_bytes number) {
    const char *point = memchr(number.p, '.', number.n);
    size_t decimals = point ? number.n - (size_t)(point - number.p) - 1 : 0;
    int64_t half = US_PER_S / 2;

    for (; decimals > 0 && half > 0; decimals--)
        half /= 10;
    return half + 1;
}

static bool is_whole(tl_bytes number) {
    const char *c = memchr(number.p, '.', number.n), *end = number.p + number.n;

    for (c = c ? c + 1 : end; c < end; c++)
        if (*c != '0')
            return false;
    return true;
}

static tl_interval reading(const skew_dialect *dialect, tl_bytes text, int64_t written_ms) {
    tl_interval i = {written_ms * US_PER_MS, (written_ms + 1) * US_PER_MS};

    if (dialect->unit == TL_UNIT_MS)
        return i;
    tl_bytes number = tl__dialect_number(dialect, text);
    if (dialect->unit == TL_UNIT_REAL) {
        i.lo -= rounding_us(number);
        i.hi += rounding_us(number);
    }
    if (dialect->unit == TL_UNIT_S ||
        is_whole(number)) /* some writers have only whole seconds to begin with */
        i.hi = tl__add_sat(i.hi, US_PER_S - US_PER_MS);
    return i;
}

skew_stamp_kind skew_stamp_read(const skew_dialect *dialect, tl_bytes text, int64_t now_us,
                                tl_interval *ret_us) {
    int64_t now_ms = now_us / US_PER_MS;
    tl_stamp stamp = tl__dialect_read(dialect, text, now_ms);

    if (stamp.kind == TL_STAMP_ETERNAL)
        return SKEW_NO_STAMP;
    if (stamp.kind != TL_STAMP_GOOD)
        return tl__dialect_guess(text, now_ms) || tl__dialect_is_accident(dialect, text, now_ms)
                   ? SKEW_STRANGE
                   : SKEW_NO_STAMP;
    *ret_us = reading(dialect, text, stamp.written_ms);
    return SKEW_STAMP;
}

int64_t skew_stamp_resolution_us(const skew_dialect *dialect) {
    return dialect->unit == TL_UNIT_S ? US_PER_S : US_PER_MS;
}

/* Writers and readers round down; those with decimals write at least two. */
tl_interval skew_stamp_over_us(const skew_dialect *dialect) {
    int64_t unit = !GUARD(stamp_rounding)                                 ? 0
                   : dialect->unit == TL_UNIT_MS                          ? US_PER_MS
                   : dialect->unit == TL_UNIT_S || dialect->whole_readers ? US_PER_S
                                                                          : US_PER_S / 100;

    return (tl_interval){-unit,
                         unit + GUARD(stamp_writers_add) * (int64_t)dialect->plus_ms * US_PER_MS};
}

/* ---- any dialect ------------------------------------------------------------------------------- */

static void put_name(char dialects[SKEW_ALIKE_SIZE], const skew_dialect *dialect) {
    size_t n = strlen(dialects);

    (void)snprintf(dialects + n, SKEW_ALIKE_SIZE - n, "%s%s", n ? ", " : "", dialect->name);
}

bool skew_stamp_guess(const skew_dialect *given, tl_bytes text, int64_t now_us, tl_interval *ret_us,
                      char dialects[SKEW_ALIKE_SIZE]) {
    int64_t now_ms = now_us / US_PER_MS;
    const skew_dialect *first = given;

    dialects[0] = '\0';
    *ret_us = (tl_interval){0, 0};
    if (!given || tl__dialect_read(given, text, now_ms).kind != TL_STAMP_GOOD)
        first = tl__dialect_guess(text, now_ms);
    if (!first)
        return false;
    *ret_us = reading(first, text, tl__dialect_read(first, text, now_ms).written_ms);
    put_name(dialects, first);
    for (unsigned i = 0; tl__dialect_at(i); i++)
        if (tl__dialect_at(i) != first &&
            tl__dialect_read(tl__dialect_at(i), text, now_ms).kind == TL_STAMP_GOOD)
            put_name(dialects, tl__dialect_at(i));
    return true;
}
