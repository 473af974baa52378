/*
 * What the tests of the faces of "tidelock skew" share: hosts, results, and the files in golden/. After a
 * change that is meant, SKEW_GOLDEN=write writes those anew.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests.h"
#include "skew/judge/skew_cause.h"
#include "skew/judge/skew_judge.h"

#define AT_MS INT64_C(1795300000000) /* 2026-11-21 22:26:40 UTC */

static inline skew_host host(const char *name, const char *instrument, int64_t lo, int64_t hi,
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

/* This one, one ahead, one behind, and one of which nothing is known. */
static inline void four_hosts(skew_host *hosts) {
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

static inline skew_result judged(skew_host *hosts, int n, int64_t slack_ms) {
    skew_result r = {.rule = {SKEW_HOLD(60000000, 60000000 - slack_ms * 1000), .warn_percent = 50,
                              .drift_ppm = 200},
                     .hosts = hosts,
                     .host_count = n,
                     .at_ms = AT_MS};
    assert_true(skew_judge(&r));
    assert_true(skew_cause_find(&r));
    return r;
}

/* Byte by byte what is in golden/NAME. */
static inline void is_golden(const char *name, const char *text) {
    char path[128], *want = calloc(1, 65536);
    const char *mode = getenv("SKEW_GOLDEN");

    assert_non_null(want);
    (void)snprintf(path, sizeof path, "tests/unit/golden/%s", name);
    FILE *file = fopen(path, mode ? "w" : "r");
    if (!file)
        fail_msg("%s can't be opened", path);
    if (mode)
        assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    else
        assert_true(fread(want, 1, 65535, file) > 0);
    assert_int_equal(fclose(file), 0);
    if (!mode)
        assert_string_equal(text, want);
    free(want);
}

static inline void expect(const char *name, const skew_result *r,
                          void (*face)(const skew_result *, FILE *)) {
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);

    assert_non_null(out);
    face(r, out);
    assert_int_equal(fclose(out), 0);
    is_golden(name, text);
    free(text);
}
