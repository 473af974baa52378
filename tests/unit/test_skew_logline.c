/*
 * A line of a log says by which rule it was judged: what is read is what was written, and nothing is worked out of it.
 */
#include "skew_faces.h"

#include "skew/judge/skew_logline.h"
#include "skew/show/skew_show.h"

static void read_line(const char *text, size_t n, skew_result *ret) {
    const char *why = NULL;
    json_t *line = js_read(text, n, &why);
    assert_non_null(line);
    assert_true(logline_all(line, ret, &why));
    json_decref(line);
}

TEST(the_rule_of_a_line_is_the_rule_that_it_was_judged_by) {
    skew_host hosts[4];
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    four_hosts(hosts);
    skew_result r = judged(hosts, 4, -250), past;
    r.rule.longest_hold_assumed = true;
    r.rule.early_us = 1000000;
    r.rule.late_us = 2000;
    assert_non_null(out);
    skew_show_log(&r, out);
    assert_int_equal(fclose(out), 0);
    read_line(text, n, &past);
    assert_int_equal(past.rule.lock_timeout_us, 60000000);
    assert_int_equal(past.rule.slack_us, -250000);
    assert_int_equal(past.rule.warn_percent, 50);
    assert_int_equal(past.rule.early_us, 1000000);
    assert_int_equal(past.rule.late_us, 2000);
    assert_true(past.rule.longest_hold_assumed);
    free(text);
    logline_end(&past);
    skew_result_end(&r);
}

TEST(a_line_says_who_is_the_cause) {
    skew_host hosts[4];
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    four_hosts(hosts);
    skew_result r = judged(hosts, 4, 400), past;
    assert_non_null(out);
    skew_show_log(&r, out);
    assert_int_equal(fclose(out), 0);
    read_line(text, n, &past);
    assert_string_equal(past.cause_text,
                        "ahead.example.org is the cause; without it WARN for lack of "
                        "evidence, worst pair 134 ms");
    free(text);
    logline_end(&past);
    skew_result_end(&r);
}

/* A hold made of the lifetime and the slack would be shown as if somebody had said it. */
TEST(no_longest_hold_is_made_of_a_slack) {
    static const char text[] = "{\"at_ms\":1,\"verdict\":\"SAFE\",\"lock_timeout_ms\":60000,"
                               "\"longest_hold_ms\":1,\"slack_ms\":200,\"hosts\":[]}";
    skew_result past;
    read_line(text, sizeof text - 1, &past);
    assert_int_equal(past.rule.slack_us, 200000);
    assert_int_equal(past.rule.longest_hold_us, 0);
    logline_end(&past);
}
