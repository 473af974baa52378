/*
 * Figures and names as all faces show them: rounding never hides the truth, nor carries an edge over the
 * line of the verdict; names that are cut stay different.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../tools/skew_figures.c" /* NOLINT(bugprone-suspicious-include) */

#define NO_LINE INT64_MAX

static void shows(int64_t lo, int64_t hi, int64_t line, const char *want_lo, const char *want_hi) {
    char a[SKEW_FIGURE_SIZE], b[SKEW_FIGURE_SIZE];
    int decimals;
    tl_interval v = skew_rounded((tl_interval){lo, hi}, line, &decimals);

    assert_string_equal(skew_figure(a, v.lo, decimals, "-"), want_lo);
    assert_string_equal(skew_figure(b, v.hi, decimals, "-"), want_hi);
}

static void test_no_more_digits_than_are_known(void **state) {
    (void)state;
    shows(456972, 483026, NO_LINE, "+456", "+484");
    shows(-133023, -106977, NO_LINE, "-134", "-106");
    shows(349986, 350013, NO_LINE, "+349.986", "+350.013");
    shows(349850, 350151, NO_LINE, "+349.85", "+350.16");
    shows(-1234, 1234, NO_LINE, "-1.3", "+1.3");
    shows(-900000, 1700000, NO_LINE, "-900", "+1700");
    shows(-987654, 1765432, NO_LINE, "-1000", "+1800");
    shows(7, 7, NO_LINE, "+0.007", "+0.007");
    shows(0, 0, NO_LINE, "+0.000", "+0.000");
}

/* With 400 ms of slack a gap of 400.0 ms at most is safe, and one of 400.1 is not. */
static void test_an_edge_stays_on_its_side_of_the_line(void **state) {
    (void)state;
    shows(373999, 400000, 400000, "+373", "+400");
    shows(374000, 399300, 399500, "+374.0", "+399.3");
    shows(400400, 426000, 400300, "+400.4", "+426.0");
    shows(400400, 426000, 400000, "+400.4", "+426.0");
    shows(401400, 426000, 400000, "+401", "+426");
}

static void test_rounding_only_widens_and_by_little(void **state) {
    (void)state;
    srand(5);
    for (int i = 0; i < 200000; i++) {
        int64_t lo = (rand() % 2000001 - 1000000) * (INT64_C(1) << rand() % 20),
                width = rand() % 1000000 >> rand() % 20, line = lo + rand() % 2000000 - 1000000;
        int decimals;
        tl_interval v = {lo, lo + width}, x = skew_rounded(v, line, &decimals);
        assert_true(x.lo <= v.lo && x.hi >= v.hi && decimals >= 0 && decimals <= 3);
        assert_true((x.hi - x.lo) - width <= width / 5);
        assert_true((x.lo > line) == (v.lo > line) && (x.hi > line) == (v.hi > line));
        int64_t unit = decimals == 3 ? 1 : decimals == 2 ? 10 : decimals == 1 ? 100 : 1000;
        assert_true(x.lo % unit == 0 && x.hi % unit == 0); /* what is shown is all there is */
    }
}

static void test_what_nothing_bounds_overflows_nothing(void **state) {
    (void)state;
    int decimals;
    tl_interval x = skew_rounded((tl_interval){INT64_MIN, INT64_MAX}, 0, &decimals);
    assert_true(x.lo == INT64_MIN && x.hi == INT64_MAX);
}

/* ---- names --------------------------------------------------------------------------------------- */

static void cut_is(char names[][SKEW_NAME_SIZE], int n, int most, const char *first) {
    static skew_host hosts[32];
    char a[SKEW_SHORT_SIZE], b[SKEW_SHORT_SIZE];
    skew_result r = {.hosts = hosts, .host_count = n};

    for (int i = 0; i < n; i++)
        memcpy(hosts[i].name, names[i], SKEW_NAME_SIZE);
    skew_cut cut = skew_cut_names(&r, most, 2);
    assert_string_equal(skew_short(a, names[0], cut, ".."), first);
    for (int i = 0; i < n; i++) {
        assert_true(strlen(skew_short(a, names[i], cut, "..")) <= (size_t)most);
        for (int j = i + 1; j < n; j++)
            assert_string_not_equal(a, skew_short(b, names[j], cut, ".."));
    }
}

static void test_names_are_cut_where_they_are_alike(void **state) {
    (void)state;
    char names[24][SKEW_NAME_SIZE];
    for (int i = 0; i < 24; i++)
        (void)snprintf(names[i], SKEW_NAME_SIZE, "payments-worker-%02d.prod.example.com", i);
    cut_is(names, 24, 24, "payments-worker-00...com");
    cut_is(names, 24, 23, "payments-worker-00..com");
    for (int i = 0; i < 24; i++)
        (void)snprintf(names[i], SKEW_NAME_SIZE, "a-service-of-ours.data-centre-%02d", i);
    cut_is(names, 24, 16, "a-servi..ntre-00");
    (void)snprintf(names[0], SKEW_NAME_SIZE, "db1");
    cut_is(names, 24, 16, "db1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_more_digits_than_are_known),
        cmocka_unit_test(test_an_edge_stays_on_its_side_of_the_line),
        cmocka_unit_test(test_rounding_only_widens_and_by_little),
        cmocka_unit_test(test_what_nothing_bounds_overflows_nothing),
        cmocka_unit_test(test_names_are_cut_where_they_are_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
