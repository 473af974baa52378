/*
 * Stamps of every dialect as readings of clocks: what each row's writers make of a clock is read back as
 * an interval with that clock inside, and no wider than their unit.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests.h"
#include "legacy/skew_stamp.h"

#define S INT64_C(1000000)
#define NOW INT64_C(1763719800123456)
#define LIFE (60 * S)
#define ID "01234567-89ab-4def-8123-456789abcdef"

/* What its writers print, of clock + lifetime in us. */
typedef struct {
    const char *dialect;
    const char *format; /* of whole and fraction */
    enum { MS, SECONDS, REAL } kind;
    int64_t plus_us, width_us;
} writer;

static const writer writers[] = {
    {"java", "%lld", MS, 0, 1000},
    {"jedis-lock", "%lld", MS, 1000, 1000},
    {"jedis-lock-uuid", ID ":%lld", MS, 0, 1000},
    {"ms-pipe", "%lld|" ID, MS, 0, 1000},
    {"redis-doc", "%lld", SECONDS, S, S},
    {"node-ms", "%lld", MS, 1000, 1000},
    {"py-float", "%.6f", REAL, 0, 1010},
    {"py-float", "%.2f", REAL, 0, 11010}, /* str() of old Pythons */
    {"py-float", "%lld.0", SECONDS, 0, S + 101000},
    {"py-float-1", "%.6f", REAL, S, 1010},
    {"rb-mutex", "%.6f", REAL, 0, 1010},
    {"rb-objects", "%.6f", REAL, S, 1010},
    {"rb-resque", "%lld", SECONDS, 0, S},
    {"rb-pid", "%lld-4711", SECONDS, S, S},
    {"php-s", "%lld", SECONDS, 0, S},
    {"c-lua", "%.6f", REAL, 0, 1010},
};

static void write_stamp(const writer *w, int64_t clock_us, char *to, size_t size) {
    int64_t us = clock_us + LIFE + w->plus_us;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    if (w->kind == REAL)
        (void)snprintf(to, size, w->format, (double)us / 1e6);
    else
        (void)snprintf(to, size, w->format, (long long)(us / (w->kind == MS ? 1000 : S)));
#pragma GCC diagnostic pop
}

TEST(the_clock_is_inside_and_no_wider_than_the_unit) {
    char text[80];
    for (size_t i = 0; i < sizeof writers / sizeof *writers; i++)
        for (int64_t step = 0; step < 4000; step++) {
            const writer *w = &writers[i];
            int64_t clock_us = NOW + step * 1237;
            tl_interval read;
            write_stamp(w, clock_us, text, sizeof text);
            const skew_dialect *d = skew_stamp_dialect(w->dialect);
            assert_non_null(d);
            assert_int_equal(skew_stamp_read(d, tl__bytes_of(text), NOW, &read), SKEW_STAMP);
            if (read.lo > clock_us + LIFE || clock_us + LIFE > read.hi)
                fail_msg("%s: %s: %lld is outside of %lld..%lld", w->dialect, text,
                         (long long)(clock_us + LIFE), (long long)read.lo, (long long)read.hi);
            /* a fraction of nothing may be a whole second's */
            int64_t most = w->kind == REAL && fmod(strtod(text, NULL), 1) == 0 ? S + 11010
                                                                               : w->width_us;
            if (read.hi - read.lo > most)
                fail_msg("%s: %s: %lld us wide", w->dialect, text, (long long)(read.hi - read.lo));
        }
}

TEST(what_is_none_is_told_from_what_is_of_another_dialect) {
    const skew_dialect *java = skew_stamp_dialect(NULL), *php = skew_stamp_dialect("php-s");
    tl_interval read;
    assert_int_equal(skew_stamp_read(java, TL_LITERAL("1763719860"), NOW, &read), SKEW_STRANGE);
    assert_int_equal(skew_stamp_read(php, TL_LITERAL("1763719860123"), NOW, &read), SKEW_STRANGE);
    assert_int_equal(skew_stamp_read(java, TL_LITERAL("1763719860.5"), NOW, &read), SKEW_STRANGE);
    assert_int_equal(skew_stamp_read(java, TL_LITERAL("\"1763719860123\""), NOW, &read),
                     SKEW_STRANGE);
    assert_int_equal(skew_stamp_read(java, TL_LITERAL(ID), NOW, &read), SKEW_NO_STAMP);
    assert_int_equal(skew_stamp_read(java, TL_LITERAL("1"), NOW, &read), SKEW_NO_STAMP);
    assert_int_equal(skew_stamp_read(java, TL_LITERAL(""), NOW, &read), SKEW_NO_STAMP);
    assert_int_equal(
        skew_stamp_read(skew_stamp_dialect("rb-resque"), TL_LITERAL("true"), NOW, &read),
        SKEW_NO_STAMP);
    assert_null(skew_stamp_dialect("klingon"));
}

TEST(clients_compare_no_finer_than_their_unit) {
    assert_int_equal(skew_stamp_resolution_us(skew_stamp_dialect("java")), 1000);
    assert_int_equal(skew_stamp_resolution_us(skew_stamp_dialect("rb-mutex")), 1000);
    assert_int_equal(skew_stamp_resolution_us(skew_stamp_dialect("php-s")), S);
}
