/*
 * The table of dialects, and how their stamps are read and written. A text that any client of the
 * dialect might read differently must never count as free, or as a time: in doubt it is not a
 * stamp.
 */
#include "dialect/dialect.h"

#include "ground/clock.h"
#include "ground/guard.h"

#define DIGITS_MAX 18
#define SECONDS_MAX (INT64_MAX / 1000 - 1)
#define REAL_DIGITS_MAX 24                    /* before and after the point together */
#define LIKELY_FROM_MS INT64_C(1000000000000) /* 2001-09-09 */

#define PLUS_S 1000
#define EARLY_S 1000

static const tl_dialect table[] = {
    {.name = "java", .seen_in = "DistributeLockUtil", .unit = TL_UNIT_MS},
    {.name = "jedis-lock",
     .seen_in = "jedis-lock 1.0.0, copies in Spring services, ServiceStack.Redis",
     .unit = TL_UNIT_MS,
     .plus_ms = 1},
    {.name = "jedis-lock-uuid",
     .seen_in = "jedis-lock, later versions",
     .unit = TL_UNIT_MS,
     .shape = TL_SHAPE_ID_NUMBER,
     .separator = ':'},
    {.name = "ms-pipe",
     .seen_in = "copies in Spring services",
     .unit = TL_UNIT_MS,
     .shape = TL_SHAPE_NUMBER_ID,
     .separator = '|',
     .waiters_overwrite = true},
    {.name = "redis-doc",
     .seen_in = "the pattern on the SETNX page",
     .unit = TL_UNIT_S,
     .plus_ms = PLUS_S,
     .at_equal = true},
    {.name = "node-ms",
     .seen_in = "errorception, Faye",
     .unit = TL_UNIT_MS,
     .plus_ms = 1,
     .at_equal = true},
    {.name = "py-float",
     .seen_in = "redis-py up to 2.9",
     .unit = TL_UNIT_REAL,
     .decimals = 6,
     .whole_readers = true, /* int(time()) before 2.8, also to write; time() from then on */
     .early_ms = EARLY_S,
     .eternal = {"2147483649.0"}},
    {.name = "py-float-1",
     .seen_in = "Chris Lamb's recipe and its copies, retools",
     .unit = TL_UNIT_REAL,
     .decimals = 6,
     .plus_ms = PLUS_S},
    {.name = "rb-mutex",
     .seen_in = "kenn/redis-mutex",
     .unit = TL_UNIT_REAL,
     .decimals = 6,
     .at_equal = true},
    {.name = "rb-objects",
     .seen_in = "redis-objects",
     .unit = TL_UNIT_REAL,
     .decimals = 6,
     .plus_ms = PLUS_S,
     .eternal = {"1"}},
    {.name = "rb-resque", .seen_in = "resque-lock-timeout", .unit = TL_UNIT_S, .eternal = {"true"}},
    {.name = "rb-pid",
     .seen_in = "PatrickTulskie/redis-lock",
     .unit = TL_UNIT_S,
     .shape = TL_SHAPE_NUMBER_ID,
     .separator = '-',
     .plus_ms = PLUS_S},
    {.name = "php-s",
     .seen_in = "copies in PHP services",
     .unit = TL_UNIT_S,
     .early_ms = EARLY_S}, /* time() writes, microtime(true) may read */
    {.name = "c-lua",
     .seen_in = "hiredis-locker",
     .unit = TL_UNIT_REAL,
     .decimals = 6,
     .eternal = {"1"}},
};

const tl_dialect *tl__dialect_at(unsigned i) {
    return i < sizeof table / sizeof *table ? &table[i] : NULL;
}

const tl_dialect *tl__dialect_find(tl_bytes name) {
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        if (tl__bytes_eq(tl__bytes_of(table[i].name), name))
            return &table[i];
    return NULL;
}

/* ---- numbers --------------------------------------------------------------------------------- */

bool tl__dialect_whole(tl_bytes text, int64_t *ret) {
    if (text.n == 0 || text.n > DIGITS_MAX || (text.n > 1 && text.p[0] == '0'))
        return false;
    return tl__is_digit(text.p[0]) && tl__bytes_to_int(text, ret);
}

/* Seconds with decimals: microseconds, rounded down. */
static bool read_real(tl_bytes text, int64_t *ret_us) {
    size_t point = 0;
    int64_t seconds, us = 0, weight = 100000;
    while (point < text.n && text.p[point] != '.')
        point++;
    if (text.n > REAL_DIGITS_MAX || point > 12 ||
        !tl__dialect_whole(tl__bytes(text.p, point), &seconds) || point + 1 == text.n)
        return false;
    for (size_t i = point + 1; i < text.n; i++) {
        if (!tl__is_digit(text.p[i]))
            return false;
        us += (text.p[i] - '0') * weight;
        weight /= 10;
    }
    *ret_us = seconds * 1000000 + us;
    return true;
}

bool tl__dialect_uuid(tl_bytes text) {
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i], lower = (char)(c | 0x20);
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? c != '-' : !tl__is_digit(c) && !(lower >= 'a' && lower <= 'f'))
            return false;
    }
    return text.n == 36;
}

static bool is_plain(tl_bytes text) {
    return text.n > 0 && tl__bytes_is_visible(text);
}

tl_bytes tl__dialect_number(const tl_dialect *dialect, tl_bytes text) {
    const char *at = text.n && dialect->separator ? memchr(text.p, dialect->separator, text.n)
                                                  : NULL;
    if (dialect->shape == TL_SHAPE_BARE)
        return text;
    if (!at)
        return (tl_bytes){0};
    tl_bytes first = tl__bytes(text.p, (size_t)(at - text.p));
    tl_bytes rest = tl__bytes(at + 1, text.n - first.n - 1);
    if (dialect->shape == TL_SHAPE_NUMBER_ID)
        return is_plain(rest) ? first : (tl_bytes){0};
    return tl__dialect_uuid(first) ? rest : (tl_bytes){0};
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool is_eternal(const tl_dialect *dialect, tl_bytes text) {
    for (unsigned i = 0; i < 2 && dialect->eternal[i]; i++)
        if (tl__bytes_eq(text, tl__bytes_of(dialect->eternal[i])))
            return true;
    return false;
}

/* The end (before it no reader's comparison calls the stamp expired) and first_free (from it on,
 * every comparison does). */
static bool read_times(const tl_dialect *dialect, tl_bytes number, tl_stamp *ret) {
    int64_t v;
    switch (dialect->unit) {
    case TL_UNIT_MS:
        if (!tl__dialect_whole(number, &v))
            return false;
        ret->end_ms = v;
        ret->first_free_ms = v + !dialect->at_equal;
        return true;
    case TL_UNIT_S: /* readers also use whole seconds, rounded down */
        if (!tl__dialect_whole(number, &v) || v > SECONDS_MAX)
            return false;
        ret->end_ms = v * 1000;
        ret->first_free_ms = dialect->at_equal ? ret->end_ms : ret->end_ms + 1000;
        return true;
    case TL_UNIT_REAL:
        if (!read_real(number, &v))
            return false;
        ret->end_ms = v / 1000;
        v += 1; /* readers round to a double: at these times to the nearest 2^-22 s */
        ret->first_free_ms = dialect->whole_readers ? (v / 1000000 + 1) * 1000 : v / 1000 + 1;
        return true;
    }
    return false;
}

bool tl__dialect_likely(int64_t ms, int64_t now_ms) {
    return ms >= LIKELY_FROM_MS && ms <= tl__add_sat(now_ms, TL_STAMP_AHEAD_MS);
}

tl_stamp tl__dialect_read(const tl_dialect *dialect, tl_bytes text, int64_t now_ms) {
    tl_stamp stamp = {.kind = TL_STAMP_NOT_A_STAMP};
    if (text.n == 0 || text.n >= TL_STAMP_SIZE)
        return stamp;
    if (is_eternal(dialect, text)) {
        stamp.kind = TL_STAMP_ETERNAL;
        return stamp;
    }
    if (!read_times(dialect, tl__dialect_number(dialect, text), &stamp))
        return (tl_stamp){.kind = TL_STAMP_NOT_A_STAMP};
    if (GUARD(likely_time) && !tl__dialect_likely(stamp.end_ms, now_ms))
        return (tl_stamp){.kind = TL_STAMP_UNLIKELY};
    if (!GUARD(held_for_all_readers))
        stamp.first_free_ms = stamp.end_ms;
    stamp.kind = TL_STAMP_GOOD;
    stamp.written_ms = stamp.end_ms - dialect->plus_ms;
    return stamp;
}

/* ---- writing --------------------------------------------------------------------------------- */

static size_t put(char *to, size_t at, tl_bytes b) {
    if (b.n > 0 && b.n <= TL_STAMP_SIZE - at) {
        memcpy(to + at, b.p, b.n);
        return at + b.n;
    }
    return at;
}

static size_t put_number(const tl_dialect *dialect, int64_t end_ms, char *to, size_t at) {
    char text[TL_INT_SIZE];
    if (dialect->unit == TL_UNIT_MS)
        return put(to, at, tl__bytes_from_int(text, end_ms));
    if (dialect->unit == TL_UNIT_S)
        return put(to, at, tl__bytes_from_int(text, end_ms / 1000 + (end_ms % 1000 != 0)));
    at = put(to, at, tl__bytes_from_int(text, end_ms / 1000));
    char decimals[7] = {'.',
                        (char)('0' + end_ms / 100 % 10),
                        (char)('0' + end_ms / 10 % 10),
                        (char)('0' + end_ms % 10),
                        '0',
                        '0',
                        '0'};
    return put(to, at, tl__bytes(decimals, dialect->decimals + (size_t)1));
}

tl_bytes tl__dialect_write(const tl_dialect *dialect, int64_t end_ms, tl_bytes id,
                           char to[TL_STAMP_SIZE]) {
    size_t n = 0;
    if (end_ms < 0)
        end_ms = 0;
    if (dialect->shape == TL_SHAPE_ID_NUMBER) {
        n = put(to, n, id);
        n = put(to, n, tl__bytes(&dialect->separator, 1));
    }
    n = put_number(dialect, end_ms, to, n);
    if (dialect->shape == TL_SHAPE_NUMBER_ID) {
        n = put(to, n, tl__bytes(&dialect->separator, 1));
        n = put(to, n, id);
    }
    return tl__bytes(to, n);
}

const tl_dialect *tl__dialect_guess(tl_bytes text, int64_t now_ms) {
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        if (tl__dialect_read(&table[i], text, now_ms).kind == TL_STAMP_GOOD)
            return &table[i];
    return NULL;
}
