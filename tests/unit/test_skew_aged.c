/*
 * A record that is some seconds old, of a clock that is being slewed: each face of the verdict has the interval
 * as it is now, widened by what the clock may have moved since, and none has that of the record.
 */
#include "skew_faces.h"

#include "skew/judge/skew_record.h"
#include "skew/show/skew_show.h"

#define AGE_MS 3000
#define AT_US (AT_MS * 1000)

/* 100 ms ahead, to 10 us; 3 s later -150.6 to +350.7, by 83,533 ppm. */
static skew_host aged(int64_t age_ms) {
    skew_record record = {.id = "boot-1",
                          .at_us = AT_US - age_ms * 1000,
                          .offset = {100000, 100010},
                          .slew_ppm = 83333,
                          .samples = 8,
                          .every_ms = 10000,
                          .server = "run"};
    skew_record_at at = {.server = "run", .now_us = AT_US};
    skew_host h = {.known = false};
    (void)snprintf(h.name, sizeof h.name, "slewed");
    skew_record_judge(&record, &at, 200, &h);
    return h;
}

static const struct {
    void (*face)(const skew_result *, FILE *);
    const char *now[2]; /* the edges, and for a single line the gap */
} faces[] = {
    {skew_show_text, {" -151 ", " +351 "}},
    {skew_show_json, {"\"lo\":-150.6", "\"hi\":350.6"}},
    {skew_show_log, {"\"lo\":-150.6", "\"hi\":350.6"}},
    {skew_show_html, {"&minus;5164", ">5364"}},
    {skew_show_prometheus, {"edge=\"lo\"} -0.1506", "edge=\"hi\"} 0.3506"}},
    {skew_show_nagios, {"5364", "5364"}},
};

static char *shown(size_t which, int64_t age_ms) {
    skew_host hosts[2] = {host("here", "server", -5, 5, 0), aged(age_ms)};
    skew_result r = judged(hosts, 2, 10000);
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
    faces[which].face(&r, out);
    assert_int_equal(fclose(out), 0);
    skew_result_end(&r);
    return text;
}

TEST(every_face_widens_an_interval_by_its_age) {
    for (size_t i = 0; i < sizeof faces / sizeof *faces; i++) {
        char *now = shown(i, AGE_MS), *then = shown(i, 0);
        for (int edge = 0; edge < 2; edge++) {
            if (!strstr(now, faces[i].now[edge]))
                fail_msg("face %zu lacks \"%s\": %s", i, faces[i].now[edge], now);
            assert_null(strstr(then, faces[i].now[edge]));
        }
        free(now);
        free(then);
    }
}
