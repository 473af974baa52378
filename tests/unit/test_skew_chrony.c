/*
 * The line of "chronyc -c tracking": what it means, each way in which it is worth nothing, and what comes
 * of it beside the measured clock.
 */
#include <stdio.h>
#include <string.h>

#include "tests.h"
#include "skew/skew_chrony.h"
#include "skew/skew_kernel.h"

#define S INT64_C(1000000)
#define NOW_US INT64_C(1795299415000000)
/* As chrony 4.3 prints it, three seconds old. */
#define LINE                                                                                       \
    "7F000002,127.0.0.2,6,1795299412.239419165,0.249998152,0.000000011,0.000000129,0.024,0.001,"   \
    "0.070,0.000006247,0.000001251,0.2,Normal\n"

/* Its fields, from 0, as chronyc(1) lists them. */
enum {
    REFERENCE_ID,
    NAME,
    STRATUM = 2,
    REFERENCE,
    SYSTEM,
    DISPERSION = 11,
    INTERVAL,
    LEAP,
    FIELDS
};

static bool read_it(const char *text, chrony_state *s, const char **status, char *why) {
    return chrony_read(text, strlen(text), NOW_US, s, status, why);
}

/* LINE with the field replaced. */
static const char *with(int field, const char *value) {
    static char text[512];
    const char *p = LINE;
    size_t used = 0;
    for (int i = 0; i < FIELDS; i++) {
        size_t n = strcspn(p, ",\n");
        used += (size_t)snprintf(text + used, sizeof text - used, "%.*s%c",
                                 i == field ? (int)strlen(value) : (int)n, i == field ? value : p,
                                 i == FIELDS - 1 ? '\n' : ',');
        p += n + 1;
    }
    return text;
}

TEST(the_line_is_read) {
    chrony_state s;
    const char *status = NULL;
    char why[SKEW_DETAIL_SIZE] = "";
    assert_true(read_it(LINE, &s, &status, why));
    assert_int_equal(s.system_us, -249999); /* the clock is slow; rounded away from 0 */
    assert_int_equal(s.error_us, 2 + 7 / 2 + 1);
    assert_int_equal(s.interval_us, 200000);
    assert_int_equal(s.reference_us, INT64_C(1795299412239420));
    assert_true(read_it(with(SYSTEM, "-0.000000001"), &s, &status, why));
    assert_int_equal(s.system_us, 1);
    assert_true(read_it(with(LEAP, "Insert second"), &s, &status, why));
    assert_true(read_it(with(NAME, ""), &s, &status, why));
}

TEST(what_is_no_evidence_is_told_apart) {
    static const struct {
        int field;
        const char *value, *status, *words;
    } traps[] = {
        {LEAP, "Not synchronised", "unsynchronised", "not synchronised"},
        {STRATUM, "16", "unsynchronised", "not synchronised"},
        {STRATUM, "0", "unsynchronised", "not synchronised"},
        {REFERENCE_ID, "00000000", "unsynchronised", "not synchronised"},
        {REFERENCE_ID, "7F7F0101", "unsynchronised", "local"},
        {DISPERSION, "0.000000000", "unsynchronised", "dispersion 0"},
        {REFERENCE, "1795299390.0", "stale", "too long"},
        {REFERENCE, "0.000000000", "stale", "too long"},
        {REFERENCE, "1795299999.0", "stale", "in the future"},
        {REFERENCE_ID, "7F00000", "unreadable", "not understood"},
        {REFERENCE_ID, "7f000002", "unreadable", "not understood"},
        {STRATUM, "x", "unreadable", "not understood"},
        {STRATUM, "-1", "unreadable", "not understood"},
        {REFERENCE, "1795299412.2394191650", "unreadable", "not understood"},
        {REFERENCE, "99999999999999", "unreadable", "not understood"},
        {SYSTEM, "", "unreadable", "not understood"},
        {SYSTEM, "nan", "unreadable", "not understood"},
        {SYSTEM, "0x1", "unreadable", "not understood"},
        {SYSTEM, "1e3", "unreadable", "not understood"},
        {SYSTEM, "0.", "unreadable", "not understood"},
        {SYSTEM, " 1", "unreadable", "not understood"},
        {SYSTEM, "--1", "unreadable", "not understood"},
        {7, "fast", "unreadable", "not understood"},
        {DISPERSION, "-0.1", "unreadable", "not understood"},
        {INTERVAL, "-1.0", "unreadable", "not understood"},
        {LEAP, "normal", "unreadable", "not understood"},
        {LEAP, "Normal,", "unreadable", "not understood"},
        {LEAP, "Normal\n506", "unreadable", "not understood"},
    };
    for (size_t i = 0; i < sizeof traps / sizeof *traps; i++) {
        chrony_state s;
        const char *status = NULL;
        char why[SKEW_DETAIL_SIZE] = "";
        if (read_it(with(traps[i].field, traps[i].value), &s, &status, why))
            fail_msg("'%s' is taken", traps[i].value);
        assert_string_equal(status, traps[i].status);
        assert_non_null(strstr(why, traps[i].words));
    }
    static const char *const lines[] = {"", "\n", "506 Cannot talk to daemon\n", ",,,,,,,,,,,,,\n"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        chrony_state s;
        const char *status = NULL;
        char why[SKEW_DETAIL_SIZE] = "";
        assert_false(read_it(lines[i], &s, &status, why));
        assert_string_equal(status, "unreadable");
    }
}

TEST(stale_is_eight_intervals_and_16_s_at_least) {
    chrony_state s;
    const char *status;
    char why[SKEW_DETAIL_SIZE];
    char hour[512];
    assert_true(
        read_it(with(REFERENCE, "1795299399.5"), &s, &status, why)); /* 15.75 s by its time */
    assert_false(read_it(with(REFERENCE, "1795299399.2"), &s, &status, why));
    (void)snprintf(hour, sizeof hour,
                   "0A000001,a,3,%lld.0,0.0,0.0,0.0,0.0,0.0,0.0,0.01,0.02,1024.0,Normal\n",
                   (long long)(NOW_US / S - 8192));
    assert_true(read_it(hour, &s, &status, why));
    (void)snprintf(hour, sizeof hour,
                   "0A000001,a,3,%lld.0,0.0,0.0,0.0,0.0,0.0,0.0,0.01,0.02,1024.0,Normal\n",
                   (long long)(NOW_US / S - 8193));
    assert_false(read_it(hour, &s, &status, why));
}

/* ---- the rows ------------------------------------------------------------------------------------ */

static skew_reading at(int64_t boot_us, int64_t wall_us) {
    tl_mono t = {boot_us * 1000};
    return (skew_reading){.before = t,
                          .after = t,
                          .wall_us = wall_us,
                          .wall = tl__bracket(wall_us, t, t),
                          .slept = {-1, 1}};
}

TEST(the_bound_is_symmetric_and_ages) {
    chrony_report r = {
        .known = true, .state = {.system_us = -250000, .error_us = 100}, .at = at(0, NOW_US)};
    tl_interval own = {-20, 30};
    skew_reading now = at(0, NOW_US);
    skew_host h = {.known = false};
    chrony_judge(&r, &now, &own, &h);
    assert_true(h.known);
    assert_int_equal(h.kind, SKEW_ASIDE);
    assert_string_equal(h.instrument, "chrony");
    assert_true(h.offset.lo <= -250100 && h.offset.lo >= -250101);
    assert_true(h.offset.hi >= 250100 && h.offset.hi <= 250101);
    assert_non_null(strstr(h.detail, "-250.000 ms, to within 0.100"));
    assert_non_null(strstr(h.detail, "the server then -250.130 to -249.880"));
    now = at(100 * S, NOW_US + 100 * S);
    chrony_judge(&r, &now, NULL, &h);
    assert_in_range(h.offset.hi, 250100 + 5000, 250100 + 5002); /* 50 ppm */
    assert_int_equal(h.age_ms, 100000);
    now = at(100 * S, NOW_US + 101 * S); /* set meanwhile */
    h = (skew_host){.known = false};
    chrony_judge(&r, &now, NULL, &h);
    assert_false(h.known);
    assert_string_equal(h.status, "void");
    r = (chrony_report){.status = "silent", .why = "no"};
    chrony_judge(&r, &now, NULL, &h);
    assert_false(h.known);
    assert_string_equal(h.status, "silent");
}

TEST(the_kernel_is_believed_only_when_it_claims_to_know) {
    kernel_clock k = {.known = true, .synchronised = true, .max_error_us = 4000};
    skew_host h = {.known = false};
    kernel_judge(&k, &h);
    assert_true(h.known);
    assert_int_equal(h.kind, SKEW_REMARK);
    assert_int_equal(h.offset.lo, -4001);
    assert_int_equal(h.offset.hi, 4001);
    kernel_clock doubts[] = {{.known = false},
                             {.known = true, .max_error_us = 4000},
                             {.known = true, .synchronised = true, .max_error_us = 16000000},
                             {.known = true, .synchronised = true, .max_error_us = -1}};
    for (size_t i = 0; i < sizeof doubts / sizeof *doubts; i++) {
        h = (skew_host){.known = false};
        kernel_judge(&doubts[i], &h);
        assert_false(h.known);
        assert_int_equal(h.kind, SKEW_REMARK);
        assert_string_not_equal(h.status, "ok");
        assert_true(h.detail[0] != '\0');
    }
}
