/*
 * The faces, byte by byte, beside the files in golden/. After a change that is meant,
 * SKEW_GOLDEN=write writes them anew.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/jsonbits.h"
#include "skew/judge/skew_judge.h"
#include "skew/judge/skew_number.h"
#include "skew/judge/skew_web.h"
#include "skew/judge/skew_words.h"
#include "skew/show/skew_names.h"
#include "skew/show/skew_show.h"

#define DIR "tests/unit/golden/"

static skew_host host(const char *name, const char *instrument, int64_t lo, int64_t hi,
                      int64_t age_ms) {
    skew_host h = {.instrument = instrument,
                   .known = true,
                   .offset = {lo, hi},
                   .age_ms = age_ms,
                   .samples = 8,
                   .status = "ok"};
    (void)snprintf(h.name, sizeof h.name, "%s", name);
    (void)snprintf(h.detail, sizeof h.detail, "measured now");
    return h;
}

static void fleet(skew_host *hosts) {
    hosts[0] = host("here", "server", -9, 10, 0);
    hosts[0].has_drift = true;
    hosts[0].drift_ppb = (tl_interval){-1500, 250};
    hosts[1] = host("ahead.example.org", "agent", 349986, 350013, 4210);
    hosts[2] = host("behind", "agent", -120012, -119987, 17);
    hosts[3] = host("odd", "agent", 0, 0, -1);
    hosts[3].known = false;
    hosts[3].samples = 0;
    hosts[3].status = "unreadable";
    (void)snprintf(hosts[3].detail, sizeof hosts[3].detail, "its record says \"?\\\"");
}

static skew_result judged(skew_host *hosts, int n, int64_t slack_ms) {
    skew_result r = {.rule = {.lock_timeout_us = 60000000,
                              .slack_us = slack_ms * 1000,
                              .warn_percent = 50,
                              .drift_ppm = 200},
                     .hosts = hosts,
                     .host_count = n,
                     .at_ms = INT64_C(1795300000000)};
    assert_true(skew_judge(&r));
    return r;
}

static void expect(const char *name, skew_result *r, void (*face)(const skew_result *, FILE *)) {
    char path[128], *text = NULL, *want = calloc(1, 65536);
    size_t n = 0;
    (void)snprintf(path, sizeof path, DIR "%s", name);
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
    assert_non_null(want);
    face(r, out);
    assert_int_equal(fclose(out), 0);
    const char *mode = getenv("SKEW_GOLDEN");
    FILE *file = fopen(path, mode ? "w" : "r");
    if (!file)
        fail_msg("%s can't be opened", path);
    if (mode)
        assert_int_equal(fwrite(text, 1, n, file), n);
    else
        assert_true(fread(want, 1, 65535, file) > 0);
    assert_int_equal(fclose(file), 0);
    if (!mode)
        assert_string_equal(text, want);
    free(text);
    free(want);
}

static void all_faces(const char *name, skew_result r) {
    static const struct {
        const char *suffix;
        void (*face)(const skew_result *, FILE *);
    } faces[] = {{"txt", skew_show_text},
                 {"json", skew_show_json},
                 {"nagios", skew_show_nagios},
                 {"prom", skew_show_prometheus}};
    for (size_t i = 0; i < sizeof faces / sizeof *faces; i++) {
        char file[64];
        (void)snprintf(file, sizeof file, "skew-%s.%s", name, faces[i].suffix);
        expect(file, &r, faces[i].face);
    }
    skew_result_end(&r);
}

static void test_a_safe_fleet(void **state) {
    (void)state;
    skew_host hosts[4];
    fleet(hosts);
    all_faces("safe", judged(hosts, 3, 1000));
}

static void test_missing_evidence(void **state) {
    (void)state;
    skew_host hosts[4];
    fleet(hosts);
    all_faces("warn", judged(hosts, 4, 1000));
}

static void test_a_theft_that_is_possible(void **state) {
    (void)state;
    skew_host hosts[4];
    fleet(hosts);
    all_faces("unsafe", judged(hosts, 4, 400));
}

static void test_nothing_measured(void **state) {
    (void)state;
    skew_host hosts[4];
    fleet(hosts);
    all_faces("unknown", judged(&hosts[3], 1, -250));
}

static void test_many_hosts_are_a_list(void **state) {
    (void)state;
    skew_host hosts[9];
    for (int i = 0; i < 9; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "host%d", i);
        hosts[i] = host(name, "agent", i * 1000, i * 1000 + 500, i);
    }
    skew_result r = judged(hosts, 9, 1000);
    expect("skew-many.txt", &r, skew_show_text);
    skew_result_end(&r);
}

/* What a server answers is told, bars and all: in a plugin's line a bar begins the performance data. */
static void test_a_reason_is_no_performance_data(void **state) {
    (void)state;
    skew_host hosts[4];
    fleet(hosts);
    (void)snprintf(hosts[3].detail, sizeof hosts[3].detail, "NOPERM 'cluster|nodes'");
    skew_result r = judged(hosts, 4, 1000);
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
    skew_show_nagios(&r, out);
    assert_int_equal(fclose(out), 0);
    assert_non_null(strstr(text, "'cluster/nodes'"));
    assert_ptr_equal(strchr(text, '|'), strrchr(text, '|'));
    free(text);
    skew_result_end(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_safe_fleet),
        cmocka_unit_test(test_missing_evidence),
        cmocka_unit_test(test_a_theft_that_is_possible),
        cmocka_unit_test(test_nothing_measured),
        cmocka_unit_test(test_many_hosts_are_a_list),
        cmocka_unit_test(test_a_reason_is_no_performance_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
