/*
 * Dialects of stamps: each row beside the comparison that its own clients make, written out here a
 * second time; exact borders, exact round trips, and what must never be taken for a time.
 */
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests.h"
#include "dialect/dialect.h"

#define NOW INT64_C(1763719800000)
#define ID "01234567-89ab-4def-8123-456789abcdef"
#define YEAR_MS (INT64_C(365) * 86400000)

/* ---- the clients' own comparisons -------------------------------------------------------------- */

/* The number in a value, as far as the client's language reads it from `from` on. */
typedef bool reader(const char *value, int64_t now_us);

static bool ms_below(const char *value, int64_t now_us) {
    return strtoll(value, NULL, 10) < now_us / 1000;
}
static bool ms_at(const char *value, int64_t now_us) {
    return strtoll(value, NULL, 10) <= now_us / 1000;
}
static bool ms_plus_one_at(const char *value, int64_t now_us) {
    return strtoll(value, NULL, 10) + 1 <= now_us / 1000;
}
static bool ms_behind_colon_below(const char *value, int64_t now_us) {
    return strtoll(strchr(value, ':') + 1, NULL, 10) < now_us / 1000;
}
static bool whole_below_whole(const char *value, int64_t now_us) {
    return strtoll(value, NULL, 10) < now_us / 1000000;
}
static bool whole_at_whole(const char *value, int64_t now_us) {
    return strtoll(value, NULL, 10) <= now_us / 1000000;
}
static bool real_below_real(const char *value, int64_t now_us) {
    return strtod(value, NULL) < (double)now_us / 1e6;
}
static bool real_at_real(const char *value, int64_t now_us) {
    return strtod(value, NULL) <= (double)now_us / 1e6;
}
static bool real_below_whole(const char *value, int64_t now_us) {
    return strtod(value, NULL) < floor((double)now_us / 1e6);
}

typedef struct {
    const char *name;
    const char *text; /* of a lock that ends at NOW + 60123 */
    int64_t step_ms;  /* how exactly that is told */
    int plus_ms;
    reader *readers[2];
} row;

static const row rows[] = {
    {"java", "1763719860123", 1, 0, {ms_below}},
    {"jedis-lock", "1763719860123", 1, 1, {ms_below, ms_at}},
    {"jedis-lock-uuid", ID ":1763719860123", 1, 0, {ms_behind_colon_below}},
    {"ms-pipe", "1763719860123|" ID, 1, 0, {ms_plus_one_at}},
    {"redis-doc", "1763719861", 1000, 1000, {whole_at_whole}},
    {"node-ms", "1763719860123", 1, 1, {ms_at}},
    {"py-float", "1763719860.123000", 1, 0, {real_below_real, real_below_whole}},
    {"py-float-1", "1763719860.123000", 1, 1000, {real_below_real}},
    {"rb-mutex", "1763719860.123000", 1, 0, {real_at_real}},
    {"rb-objects", "1763719860.123000", 1, 1000, {real_below_real}},
    {"rb-resque", "1763719861", 1000, 0, {whole_below_whole}},
    {"rb-pid", "1763719861-" ID, 1000, 1000, {whole_below_whole}},
    {"php-s", "1763719861", 1000, 0, {whole_below_whole, real_below_real}},
    {"c-lua", "1763719860.123000", 1, 0, {real_below_real}},
};
#define ROWS (sizeof rows / sizeof *rows)

static const tl_dialect *dialect(const char *name) {
    const tl_dialect *d = tl__dialect_find(tl__bytes_of(name));
    assert_non_null(d);
    return d;
}

static tl_stamp read_as(const char *name, const char *text, int64_t now_ms) {
    return tl__dialect_read(dialect(name), tl__bytes_of(text), now_ms);
}

/* A C string of what is written. */
static const char *write_as(const tl_dialect *d, int64_t end_ms, char to[TL_STAMP_SIZE + 1]) {
    tl_bytes text = tl__dialect_write(d, end_ms, TL_LITERAL(ID), to);
    assert_true(text.p == to && text.n > 0 && text.n < TL_STAMP_SIZE);
    to[text.n] = '\0';
    return to;
}

/* ---- the table --------------------------------------------------------------------------------- */

TEST(every_dialect_of_the_table_is_tested_here) {
    for (unsigned i = 0; i < ROWS; i++) {
        const tl_dialect *d = tl__dialect_at(i);
        assert_non_null(d);
        assert_string_equal(d->name, rows[i].name);
        assert_true(d->seen_in && *d->seen_in);
        assert_ptr_equal(tl__dialect_find(tl__bytes_of(d->name)), d);
        assert_int_equal(d->plus_ms, rows[i].plus_ms);
    }
    assert_null(tl__dialect_at(ROWS));
    assert_null(tl__dialect_at(UINT32_MAX));
    assert_string_equal(tl__dialect_at(0)->name, "java");
}

TEST(there_is_no_other_name) {
    const char *const none[] = {"", "Java", "java ", "jav", "javaa", "*"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_null(tl__dialect_find(tl__bytes_of(none[i])));
    assert_null(tl__dialect_find(tl__bytes("java\0", 5)));
}

TEST(only_ms_pipe_waiters_overwrite) {
    for (unsigned i = 0; i < ROWS; i++)
        assert_int_equal(tl__dialect_at(i)->waiters_overwrite,
                         strcmp(rows[i].name, "ms-pipe") == 0);
}

/* ---- writing ----------------------------------------------------------------------------------- */

TEST(what_is_written_is_the_clients_own_format) {
    char to[TL_STAMP_SIZE + 1];
    for (size_t i = 0; i < ROWS; i++)
        assert_string_equal(write_as(dialect(rows[i].name), NOW + 60123, to), rows[i].text);
}

TEST(a_stamp_never_ends_before_what_was_asked) {
    char to[TL_STAMP_SIZE + 1];
    for (size_t i = 0; i < ROWS; i++)
        for (int64_t end = NOW; end < NOW + 2100; end++) {
            tl_stamp s = read_as(rows[i].name, write_as(dialect(rows[i].name), end, to), NOW);
            assert_int_equal(s.kind, TL_STAMP_GOOD);
            assert_true(s.end_ms >= end && s.end_ms < end + rows[i].step_ms);
            assert_int_equal(s.written_ms, s.end_ms - rows[i].plus_ms);
        }
}

TEST(a_stamp_written_again_is_the_same_text) {
    char to[TL_STAMP_SIZE + 1], again[TL_STAMP_SIZE + 1];
    for (size_t i = 0; i < ROWS; i++)
        for (int64_t end = NOW; end < NOW + 2100; end += 7) {
            const tl_dialect *d = dialect(rows[i].name);
            tl_stamp s = read_as(rows[i].name, write_as(d, end, to), NOW);
            assert_string_equal(write_as(d, s.end_ms, again), to);
        }
}

TEST(milliseconds_survive_in_every_dialect_that_has_them) {
    char to[TL_STAMP_SIZE + 1];
    for (size_t i = 0; i < ROWS; i++)
        for (int ms = 0; ms < 1000 && rows[i].step_ms == 1; ms++) {
            tl_stamp s = read_as(rows[i].name, write_as(dialect(rows[i].name), NOW + ms, to), NOW);
            assert_int_equal(s.end_ms, NOW + ms);
        }
}

TEST(writing_stays_within_its_room_whatever_the_time_and_the_name) {
    const int64_t ends[] = {INT64_MIN, -1, 0, 1, 999, 1000, INT64_MAX - 1, INT64_MAX};
    char id[200], to[TL_STAMP_SIZE + 1];
    memset(id, 'x', sizeof id);
    for (size_t i = 0; i < ROWS; i++)
        for (size_t e = 0; e < sizeof ends / sizeof *ends; e++)
            for (size_t n = 0; n <= sizeof id; n += 20) {
                to[TL_STAMP_SIZE] = '#';
                tl_bytes text = tl__dialect_write(dialect(rows[i].name), ends[e], tl__bytes(id, n),
                                                  to);
                assert_true(text.n > 0 && text.n <= TL_STAMP_SIZE);
                assert_int_equal(to[TL_STAMP_SIZE], '#');
            }
}

/* ---- borders ----------------------------------------------------------------------------------- */

/* In the microseconds around each edge: nobody takes it before its end, everybody may from the first
 * free instant on, and neither border could be moved by more than the clients' own resolution. */
static void hold_borders(const row *r, const char *text) {
    tl_stamp s = read_as(r->name, text, NOW);
    assert_int_equal(s.kind, TL_STAMP_GOOD);
    assert_true(s.end_ms <= s.first_free_ms && s.first_free_ms <= s.end_ms + 1001);
    bool late = false;
    for (int i = 0; i < 2 && r->readers[i]; i++) {
        for (int64_t us = -3000; us < 3000; us += 250) {
            if (us < 0)
                assert_false(r->readers[i](text, s.end_ms * 1000 + us));
            if (us >= 0)
                assert_true(r->readers[i](text, s.first_free_ms * 1000 + us));
        }
        late = late || !r->readers[i](text, s.first_free_ms * 1000 - 1250);
    }
    assert_true(late);
}

TEST(the_borders_are_those_of_the_clients_own_comparison) {
    char to[TL_STAMP_SIZE + 1];
    for (size_t i = 0; i < ROWS; i++) {
        hold_borders(&rows[i], rows[i].text);
        for (int64_t end = NOW + 59990; end <= NOW + 61010; end += 10)
            hold_borders(&rows[i], write_as(dialect(rows[i].name), end, to));
        hold_borders(&rows[i], write_as(dialect(rows[i].name), NOW - 5 * YEAR_MS, to));
        hold_borders(&rows[i], write_as(dialect(rows[i].name), NOW + 9 * YEAR_MS, to));
    }
}

TEST(borders_of_reals_with_other_decimals_than_ours) {
    const char *const texts[] = {"1763719860.0",       "1763719860.12",        "1763719860.1234567",
                                 "1763719860.9999999", "1763719860.000001",    "1763719860.5",
                                 "1763719860",         "1763719860.123456789", "1763719860.9"};
    for (size_t i = 0; i < ROWS; i++)
        for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
            if (dialect(rows[i].name)->unit == TL_UNIT_REAL)
                hold_borders(&rows[i], texts[t]);
}

TEST(borders_to_the_millisecond) {
    const struct {
        const char *name, *text;
        int64_t end, first_free;
    } known[] = {
        {"java", "1763719860123", 1763719860123, 1763719860124},
        {"jedis-lock", "1763719860123", 1763719860123, 1763719860124},
        {"node-ms", "1763719860123", 1763719860123, 1763719860123},
        {"ms-pipe", "1763719860123|x", 1763719860123, 1763719860124},
        {"redis-doc", "1763719860", 1763719860000, 1763719860000},
        {"php-s", "1763719860", 1763719860000, 1763719861000},
        {"rb-resque", "1763719860", 1763719860000, 1763719861000},
        {"rb-pid", "1763719860-4711", 1763719860000, 1763719861000},
        {"py-float", "1763719860.25", 1763719860250, 1763719861000},
        {"py-float", "1763719860.0", 1763719860000, 1763719861000},
        {"py-float-1", "1763719860.25", 1763719860250, 1763719860251},
        {"rb-mutex", "1763719860.2501", 1763719860250, 1763719860251},
        {"c-lua", "1763719860.250000", 1763719860250, 1763719860251},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        tl_stamp s = read_as(known[i].name, known[i].text, NOW);
        assert_int_equal(s.kind, TL_STAMP_GOOD);
        assert_int_equal(s.end_ms, known[i].end);
        assert_int_equal(s.first_free_ms, known[i].first_free);
    }
}

/* ---- lifetimes --------------------------------------------------------------------------------- */

/* What a legacy client of the row writes at that reading of its clock, for a lifetime of a minute. */
static const char *write_by(const row *r, int64_t clock_us, bool whole,
                            char to[TL_STAMP_SIZE + 1]) {
    int64_t more_ms = 60000 + r->plus_ms, end_us = clock_us + more_ms * 1000;
    const tl_dialect *d = dialect(r->name);
    bool before = d->shape == TL_SHAPE_ID_NUMBER, behind = d->shape == TL_SHAPE_NUMBER_ID;
    char number[40];
    if (d->unit == TL_UNIT_MS)
        (void)snprintf(number, sizeof number, "%lld", (long long)(end_us / 1000));
    else if (d->unit == TL_UNIT_S)
        (void)snprintf(number, sizeof number, "%lld", (long long)(end_us / 1000000));
    else if (whole)
        (void)snprintf(number, sizeof number, "%lld.0", (long long)(end_us / 1000000));
    else
        (void)snprintf(number, sizeof number, "%lld.%06lld", (long long)(end_us / 1000000),
                       (long long)(end_us % 1000000));
    (void)snprintf(to, TL_STAMP_SIZE + 1, "%s%s%s%s%s", before ? ID : "", before ? ":" : "", number,
                   behind ? (char[]){d->separator, 0} : "", behind ? ID : "");
    return to;
}

/* What the shortest lifetime of a legacy client is worth to others: no reader of the dialect calls a stamp
 * expired before it is over but for early_ms, and that is not too much. */
TEST(a_stamp_of_any_writer_lasts_its_lifetime_less_what_the_dialect_says) {
    char to[TL_STAMP_SIZE + 1];
    for (size_t i = 0; i < ROWS; i++) {
        const tl_dialect *d = dialect(rows[i].name);
        int64_t earliest_us = 0, step_us = 250;
        for (int64_t clock_us = NOW * 1000; clock_us < (NOW + 2000) * 1000; clock_us += 9750)
            for (int n = 0; n < 4; n++) {
                const char *text = write_by(&rows[i], clock_us, d->whole_readers && n / 2, to);
                reader *expired = rows[i].readers[n % 2];
                int64_t over_us = clock_us + 60000000;
                while (expired && expired(text, over_us + earliest_us - step_us))
                    earliest_us -= step_us;
            }
        assert_true(earliest_us >= -1000 * (int64_t)d->early_ms);
        assert_true(earliest_us < -1000 * (int64_t)d->early_ms + 20000);
    }
}

/* ---- clocks that are far off ------------------------------------------------------------------- */

TEST(at_the_epoch_nothing_is_free) {
    char to[TL_STAMP_SIZE + 1];
    for (size_t i = 0; i < ROWS; i++) {
        const char *text = write_as(dialect(rows[i].name), 60000, to);
        assert_int_equal(read_as(rows[i].name, text, 0).kind, TL_STAMP_UNLIKELY);
        assert_int_equal(read_as(rows[i].name, rows[i].text, 0).kind, TL_STAMP_UNLIKELY);
    }
}

TEST(in_2262_stamps_are_read_as_today) {
    const int64_t then = INT64_C(9214646400000); /* 2262-01-01 */
    char to[TL_STAMP_SIZE + 1];
    for (size_t i = 0; i < ROWS; i++) {
        tl_stamp s = read_as(rows[i].name, write_as(dialect(rows[i].name), then + 60000, to), then);
        assert_int_equal(s.kind, TL_STAMP_GOOD);
        assert_int_equal(s.end_ms, then + 60000);
    }
}

TEST(no_clock_makes_it_overflow) {
    const int64_t clocks[] = {INT64_MIN, -1, 0, INT64_MAX - 1, INT64_MAX};
    const char *const texts[] = {"0",
                                 "1",
                                 "1763719860123",
                                 "999999999999999999",
                                 "999999999999.999999999999",
                                 "9999999999999999999999"};
    for (size_t i = 0; i < ROWS; i++)
        for (size_t c = 0; c < sizeof clocks / sizeof *clocks; c++)
            for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
                tl_stamp s = read_as(rows[i].name, texts[t], clocks[c]);
                assert_true(s.end_ms <= s.first_free_ms);
                (void)tl__dialect_oddity(dialect(rows[i].name), tl__bytes_of(texts[t]), clocks[c]);
            }
}

TEST(likely_is_from_2001_to_ten_years_ahead) {
    assert_int_equal(read_as("java", "999999999999", NOW).kind, TL_STAMP_UNLIKELY);
    assert_int_equal(read_as("java", "1000000000000", NOW).kind, TL_STAMP_GOOD);
    const int64_t most = NOW + INT64_C(3653) * 86400000;
    char to[TL_STAMP_SIZE + 1];
    assert_int_equal(read_as("java", write_as(dialect("java"), most, to), NOW).kind, TL_STAMP_GOOD);
    assert_int_equal(read_as("java", write_as(dialect("java"), most + 1, to), NOW).kind,
                     TL_STAMP_UNLIKELY);
}

/* ---- what is no stamp -------------------------------------------------------------------------- */

TEST(accidents_are_held_in_every_dialect_and_named) {
    static const struct {
        const char *text;
        size_t n; /* 0: all of the string */
        const char *words;
    } bad[] = {
        {"", 0, "empty"},
        {ID, 0, "token"},
        {"01234567-89AB-4DEF-8123-456789ABCDEF", 0, "token"},
        {"\"1763719860123\"", 0, "JSON"},
        {"\"1763719860\"", 0, "JSON"},
        {"\"1763719860.123\"", 0, "JSON"},
        {"\xac\xed\x00\x05sr\x00\x0ejava.lang.Long", 20, "serialised Java"},
        {"176371986012360000", 0, "run together"},
        {"176371980000060000", 0, "run together"},
        {"1763719860123000000", 0, "run together"},
        {"999999999999999999", 0, "run together"},
        {"99999999999999999999999999", 0, "run together"},
        {"+1763719860123", 0, "sign"},
        {"-1763719860123", 0, "sign"},
        {"01763719860123", 0, "leading zero"},
        {"0001763719860", 0, "leading zero"},
        {"01763719860.123", 0, "leading zero"},
        {" 1763719860123", 0, "spaces"},
        {"1763719860123 ", 0, "spaces"},
        {"1763719860123\n", 0, "spaces"},
        {"1.763719860123e12", 0, "exponent"},
        {"1.763719860123E12", 0, "exponent"},
        {"NaN", 0, "infinite"},
        {"nan", 0, "infinite"},
        {"inf", 0, "infinite"},
        {"-inf", 0, "infinite"},
        {"Infinity", 0, "infinite"},
        {"null", 0, "no value"},
        {"None", 0, "no value"},
        {"nil", 0, "no value"},
        {"undefined", 0, "no value"},
        {"\xef\xbc\x91\xef\xbc\x97\xef\xbc\x96\xef\xbc\x93", 0, "bytes"},         /* fullwidth */
        {"\xd9\xa1\xd9\xa7\xd9\xa6\xd9\xa3\xd9\xa7\xd9\xa1\xd9\xa9", 0, "bytes"}, /* Arabic */
        {"17637198\0"
         "60123",
         14, "bytes"},
        {"1763719860123\x7f", 0, "bytes"},
        {"0", 0, "not a time"},
        {"1", 0, "not a time"},
        {"60000", 0, "not a time"},
        {"-1", 0, NULL},
        {"0x19a9f2a1c3b", 0, NULL},
        {"1,763,719,860", 0, NULL},
        {"1763719860,123", 0, NULL},
        {"1763719860123L", 0, NULL},
        {"1763719860.", 0, NULL},
        {".1763719860", 0, NULL},
        {"1763719860.12.3", 0, NULL},
        {"locked", 0, NULL},
    };
    for (size_t i = 0; i < ROWS; i++)
        for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
            const tl_dialect *d = dialect(rows[i].name);
            tl_bytes text = tl__bytes(bad[b].text, bad[b].n ? bad[b].n : strlen(bad[b].text));
            tl_stamp s = tl__dialect_read(d, text, NOW);
            if (s.kind == TL_STAMP_ETERNAL) /* its way to say so: held all the same */
                continue;
            if (s.kind == TL_STAMP_GOOD)
                fail_msg("%s reads '%s' as a time", d->name, bad[b].text);
            const char *words = tl__dialect_oddity(d, text, NOW);
            if (bad[b].words && (!words || !strstr(words, bad[b].words)))
                fail_msg("%s: '%s' is called %s", d->name, bad[b].text, words ? words : "nothing");
        }
}

TEST(milliseconds_and_seconds_are_told_from_each_other) {
    for (size_t i = 0; i < ROWS; i++) {
        const tl_dialect *d = dialect(rows[i].name);
        bool ms = d->unit == TL_UNIT_MS;
        tl_bytes text = ms ? TL_LITERAL("1763719860") : TL_LITERAL("1763719860123");
        assert_int_not_equal(tl__dialect_read(d, text, NOW).kind, TL_STAMP_GOOD);
        const char *words = tl__dialect_oddity(d, text, NOW);
        assert_non_null(words);
        assert_non_null(strstr(words, ms ? "seconds where milliseconds" : "milliseconds where"));
    }
}

TEST(64_kib_are_no_stamp) {
    size_t n = 65536;
    char *big = malloc(n);
    assert_non_null(big);
    memset(big, '1', n);
    for (size_t i = 0; i < ROWS; i++)
        for (size_t cut = n; cut >= TL_STAMP_SIZE; cut = cut > 128 ? cut / 2 : cut - 1) {
            const tl_dialect *d = dialect(rows[i].name);
            assert_int_equal(tl__dialect_read(d, tl__bytes(big, cut), NOW).kind,
                             TL_STAMP_NOT_A_STAMP);
            assert_non_null(tl__dialect_oddity(d, tl__bytes(big, cut), NOW));
        }
    free(big);
}

TEST(every_cut_and_every_changed_byte_of_a_name_is_held) {
    const char *const bad[] = {
        ID "1763719860123",
        ":1763719860123",
        ID ":",
        ID "::1763719860123",
        ID ":1763719860123:",
        ID ":1763719860123:1763719860123",
        "x:1763719860123",
        "1763719860123:" ID,
        ID "|1763719860123",
        "1763719860123|",
        "|" ID,
        "1763719860123| x",
        "1763719860123|\xff",
        "1763719860-",
        "-4711",
        "1763719860--\n",
        "1763719860:4711",
    };
    for (size_t i = 0; i < ROWS; i++)
        for (size_t b = 0; b < sizeof bad / sizeof *bad; b++)
            assert_int_equal(read_as(rows[i].name, bad[b], NOW).kind, TL_STAMP_NOT_A_STAMP);
    char text[] = ID ":1763719860123"; /* any byte of the token */
    for (size_t i = 0; i < sizeof ID - 1; i++) {
        static const char others[] = "g/:@G`{-";
        char was = text[i];
        for (const char *o = others; *o; o++) {
            text[i] = *o;
            assert_int_equal(read_as("jedis-lock-uuid", text, NOW).kind,
                             *o == was ? TL_STAMP_GOOD : TL_STAMP_NOT_A_STAMP);
        }
        text[i] = was;
    }
}

TEST(for_ever_is_said_in_the_dialects_own_way) {
    const struct {
        const char *name, *text;
    } known[] = {
        {"py-float", "2147483649.0"}, {"rb-objects", "1"}, {"rb-resque", "true"}, {"c-lua", "1"}};
    for (size_t i = 0; i < ROWS; i++)
        for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
            bool own = strcmp(rows[i].name, known[k].name) == 0;
            tl_stamp s = read_as(rows[i].name, known[k].text, NOW);
            if (own)
                assert_int_equal(s.kind, TL_STAMP_ETERNAL);
            else
                assert_int_not_equal(s.kind, TL_STAMP_GOOD);
        }
    /* Once that is a likely time it is still for ever. */
    assert_int_equal(read_as("py-float", "2147483649.0", NOW + 9 * YEAR_MS).kind, TL_STAMP_ETERNAL);
}

TEST(a_locale_changes_nothing) {
    const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "ar_EG.UTF-8", "C.UTF-8"};
    char to[TL_STAMP_SIZE + 1];
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        (void)setlocale(LC_ALL, names[n]); /* those that are not there change nothing either */
        for (size_t i = 0; i < ROWS; i++) {
            assert_string_equal(write_as(dialect(rows[i].name), NOW + 60123, to), rows[i].text);
            assert_int_equal(read_as(rows[i].name, rows[i].text, NOW).kind, TL_STAMP_GOOD);
        }
        assert_int_equal(read_as("py-float", "1763719860,123", NOW).kind, TL_STAMP_NOT_A_STAMP);
    }
    (void)setlocale(LC_ALL, "C");
}

TEST(a_guess_is_the_first_dialect_that_can_read_it) {
    const struct {
        const char *text, *name;
    } known[] = {
        {"1763719860123", "java"},      {"1763719860", "redis-doc"},
        {"1763719860.5", "py-float"},   {ID ":1763719860123", "jedis-lock-uuid"},
        {"1763719860123|x", "ms-pipe"}, {"1763719860-4711", "rb-pid"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const tl_dialect *d = tl__dialect_guess(tl__bytes_of(known[i].text), NOW);
        assert_non_null(d);
        assert_string_equal(d->name, known[i].name);
    }
    assert_null(tl__dialect_guess(TL_LITERAL("locked"), NOW));
    assert_null(tl__dialect_guess(TL_LITERAL("176371986012360000"), NOW));
}
