/*
 * The face for a terminal: whatever the fleet, the verdict is on the screen, and what isn't is told.
 */
#include "skew_faces.h"

#include "skew/judge/skew_alarm.h"
#include "skew/judge/skew_number.h"
#include "skew/judge/skew_web.h"
#include "skew/judge/skew_reason.h"
#include "skew/show/skew_names.h"
#include "skew/show/skew_show.h"

/* ---- on a terminal -------------------------------------------------------------------------------- */

typedef struct {
    int lines, widest;
    char *text;
} screen;

static screen on_screen(const skew_result *r, int columns, int rows) {
    screen s = {.text = NULL};
    size_t n = 0;
    FILE *out = open_memstream(&s.text, &n);
    assert_non_null(out);
    skew_show_screen(r, columns, rows, out);
    assert_int_equal(fclose(out), 0);
    int at = 0;
    for (const char *c = s.text; *c; c++) {
        at = *c == '\n' ? 0 : at + 1;
        s.widest = at > s.widest ? at : s.widest;
        s.lines += *c == '\n';
    }
    return s;
}

static void on_80_by_24(const skew_result *r, FILE *out) {
    skew_show_screen(r, 80, 24, out);
}

static void workers(skew_host *hosts, int n) {
    for (int i = 0; i < n; i++) {
        char name[SKEW_NAME_SIZE];
        (void)snprintf(name, sizeof name, "payments-worker-%02d.prod.example.com", i + 1);
        hosts[i] = host(name, "agent", i * 7919 % 400000, i * 7919 % 400000 + 500, i * 100);
        hosts[i].missing = i % 7 == 5;
        hosts[i].known = i % 11 != 8;
        hosts[i].has_drift = i % 3 == 0;
        hosts[i].drift_ppb = (tl_interval){-47000, 13000};
    }
}

/* The shell's next line included, nothing has left the screen; what is last is the verdict, whole, and what to do. */
TEST(a_terminal_of_80_by_24_has_room_for_the_verdict) {
    static skew_host hosts[60];
    static const int64_t slacks[] = {1000, 450, 200, -250};
    for (int n = 0; n <= 60; n++)
        for (size_t i = 0; i < sizeof slacks / sizeof *slacks; i++) {
            workers(hosts, n);
            skew_result r = judged(hosts, n, slacks[i]);
            screen s = on_screen(&r, 80, 24);
            if (s.lines > 23 || s.widest > 80)
                fail_msg("%d hosts: %d lines of %d\n%s", n, s.lines, s.widest, s.text);
            char begins[16];
            (void)snprintf(begins, sizeof begins, "\n%s: ", skew_verdict_name(r.verdict));
            const char *verdict = strstr(s.text, begins);
            assert_true(n == 0 || verdict);
            const char *row = strstr(s.text, "\npa");
            if (n > 0 && !(row && row < verdict))
                fail_msg("%d hosts, %d:\n%s", n, (int)i, s.text);
            assert_true(r.advices == 0 ||
                        (verdict ? strstr(verdict, "\n- ") : strstr(s.text, "\n- ")));
            free(s.text);
            skew_result_end(&r);
        }
}

TEST(a_tiny_terminal_shows_the_verdict_all_the_same) {
    static skew_host hosts[24];
    for (int columns = 1; columns < 80; columns++)
        for (int rows = 1; rows < 24; rows++) {
            workers(hosts, 24);
            skew_result r = judged(hosts, 24, 200);
            screen s = on_screen(&r, columns, rows);
            const char *verdict = strstr(s.text, "WARN:");
            assert_true(verdict && (verdict == s.text || verdict[-1] == '\n'));
            free(s.text);
            skew_result_end(&r);
        }
}

TEST(what_a_terminal_has_no_room_for_is_told) {
    skew_host hosts[24];
    workers(hosts, 24);
    for (int i = 0; i < 24; i++) {
        hosts[i].known = true;
        hosts[i].missing = false;
    }
    skew_result r = judged(hosts, 24, 200);
    expect("skew-wide.screen", &r, on_80_by_24);
    screen s = on_screen(&r, 80, 24);
    assert_non_null(strstr(s.text, " hosts more, in no worse pair; --json has all\n"));
    assert_non_null(strstr(s.text, " pairs more, none of them worse; --json has all\n"));
    free(s.text);
    s = on_screen(&r, 200, 200);
    assert_null(strstr(s.text, "hosts more"));
    assert_non_null(strstr(s.text, "payments-worker-24.prod.example.com"));
    free(s.text);
    skew_result_end(&r);
}

TEST(a_host_with_an_alarm_is_on_the_screen) {
    static skew_host hosts[60];
    for (int i = 0; i < 60; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "host%d", i);
        hosts[i] = host(name, "agent", i * 1000, i * 1000 + 500, i);
    }
    skew_alarm_put(&hosts[30], SKEW_IMMINENT);
    skew_result r = judged(hosts, 60, 1000);
    screen s = on_screen(&r, 80, 24);
    const char *row = strstr(s.text, "\nhost30 ");
    assert_true(row && row < strstr(s.text, "\nWARN: "));
    assert_non_null(strstr(row, "agent: the hypervisor"));
    free(s.text);
    skew_result_end(&r);
}

TEST(a_mark_says_which_warning_it_is) {
    skew_host hosts[4];
    four_hosts(hosts);
    hosts[3] = host("gone", "agent", 0, 0, 100000);
    hosts[3].missing = true;
    skew_result r = judged(hosts, 4, 700); /* the worst gap is 470 and some ms */
    screen s = on_screen(&r, 80, 40);
    assert_non_null(
        strstr(s.text, "slack 700 ms  ? can't be ruled out  ~ over 50% of the slack\n"));
    assert_non_null(strstr(s.text, "+484~"));
    free(s.text);
    skew_result_end(&r);
    r = judged(hosts, 3, 400);
    s = on_screen(&r, 80, 40);
    assert_non_null(strstr(s.text, "slack 400 ms  ! theft is possible  ~ over 50% of the slack\n"));
    assert_non_null(strstr(s.text, "+484!"));
    free(s.text);
    skew_result_end(&r);
}

/* ---- names ---------------------------------------------------------------------------------------- */

static void name_hosts(skew_host *hosts, const char *const *names, int n) {
    for (int i = 0; i < n; i++)
        hosts[i] = host(names[i], "agent", 0, 0, 0);
}

static void expect_names(const char *const *names, const char *const *want, int n, int width) {
    skew_host hosts[8];
    char buf[SKEW_NAME_SIZE];
    name_hosts(hosts, names, n);
    skew_result r = {.hosts = hosts, .host_count = n};
    skew_names short_names = skew_names_in(&r, width);
    for (int i = 0; i < n; i++)
        assert_string_equal(skew_name_of(&short_names, i, buf), want[i]);
}

TEST(names_are_cut_where_they_are_alike) {
    static const char *const fits[] = {"app1", "app2.example.com"},
                             *const workers_of[] = {"payments-worker-01.prod.example.com",
                                                    "payments-worker-02.prod.example.com",
                                                    "laptop"},
                             *const colours[] = {"worker-01-with-a-long-name-blue",
                                                 "worker-02-with-a-long-name-blue"},
                             *const middle[] = {"aaaaaaaaaaaa-1-bbbbbbbbbbbb",
                                                "aaaaaaaaaaaa-2-bbbbbbbbbbbb"},
                             *const places[] = {"10.20.30.1:6379", "10.20.30.2:6379"};
    expect_names(fits, fits, 2, 16);
    expect_names(workers_of, workers_of, 3, 0);
    expect_names(workers_of,
                 (const char *const[]){"payments-worker-01..", "payments-worker-02..", "laptop"}, 3,
                 20);
    expect_names(workers_of, (const char *const[]){"pay..r-01..", "pay..r-02..", "laptop"}, 3, 11);
    expect_names(colours, (const char *const[]){"worker-01..e", "worker-02..e"}, 2, 12);
    expect_names(middle, (const char *const[]){"aaaaa..bbb#1", "aaaaa..bbb#2"}, 2, 12);
    expect_names(places, (const char *const[]){"10.20...1:6379", "10.20...2:6379"}, 2, 14);
}

/* In seeded fleets: no wider than asked for, and no two that are different look the same. */
TEST(short_names_are_short_and_tell_hosts_apart) {
    static const char letters[] = "ab1-.";
    uint64_t seed = 1;
    for (int run = 0; run < 3000; run++) {
        skew_host hosts[8];
        char shown[8][SKEW_NAME_SIZE];
        int n = 1 + run % 8, width = 8 + run % 30;
        for (int i = 0; i < n; i++) {
            char name[SKEW_NAME_SIZE];
            int len = 1 + (int)((seed = seed * UINT64_C(6364136223846793005) + 1) >> 33) % 63;
            for (int k = 0; k < len; k++)
                name[k] = letters[((seed = seed * UINT64_C(6364136223846793005) + 1) >> 33) %
                                  (k % 9 ? 2 : sizeof letters - 1)];
            name[len] = '\0';
            hosts[i] = host(name, "agent", 0, 0, 0);
        }
        skew_result r = {.hosts = hosts, .host_count = n};
        skew_names names = skew_names_in(&r, width);
        for (int i = 0; i < n; i++) {
            (void)skew_name_of(&names, i, shown[i]);
            if (strlen(shown[i]) > (size_t)width || !shown[i][0])
                fail_msg("run %d: '%s' of '%s' for %d", run, shown[i], hosts[i].name, width);
            for (int k = 0; k < i; k++)
                if (strcmp(shown[i], shown[k]) == 0 && strcmp(hosts[i].name, hosts[k].name) != 0)
                    fail_msg("run %d: '%s' of '%s' and '%s'", run, shown[i], hosts[i].name,
                             hosts[k].name);
        }
    }
}

/* ---- numbers -------------------------------------------------------------------------------------- */

TEST(numbers_have_the_decimals_that_are_known_and_hold_the_truth) {
    static const struct {
        tl_interval i;
        const char *lo, *hi;
    } cases[] = {{{349979, 350024}, "349.979", "350.024"},
                 {{-1999, 1}, "-2.0", "0.1"},
                 {{-5501, 21501}, "-6", "22"},
                 {{-5000, 21000}, "-5", "21"},
                 {{0, 500}, "0.00", "0.50"},
                 {{-120012, -119000}, "-120.02", "-119.00"},
                 {{1001, 3001}, "1.0", "3.1"},
                 {{-20000, -1}, "-20.0", "0.0"},
                 {{-3, -3}, "-0.003", "-0.003"},
                 {{INT64_MIN, INT64_MAX}, "-9223372036854776", "9223372036854776"}};
    char buf[SKEW_NUMBER_SIZE];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int decimals = skew_decimals(cases[i].i);
        assert_string_equal(skew_down(buf, cases[i].i.lo, decimals), cases[i].lo);
        assert_string_equal(skew_up(buf, cases[i].i.hi, decimals), cases[i].hi);
    }
    assert_string_equal(skew_exact(buf, 59000000), "59 s");
    assert_string_equal(skew_exact(buf, 59800000), "59800 ms");
}
