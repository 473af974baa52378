/*
 * The faces, byte by byte, beside the files in golden/.
 */
#include "skew_faces.h"

#include "skew/judge/skew_alarm.h"
#include "skew/judge/skew_number.h"
#include "skew/judge/skew_web.h"
#include "skew/judge/skew_reason.h"
#include "skew/show/skew_names.h"
#include "skew/show/skew_show.h"

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

TEST(a_safe_fleet) {
    skew_host hosts[4];
    four_hosts(hosts);
    all_faces("safe", judged(hosts, 3, 1000));
}

TEST(missing_evidence) {
    skew_host hosts[4];
    four_hosts(hosts);
    all_faces("warn", judged(hosts, 4, 1000));
}

TEST(a_theft_that_is_possible) {
    skew_host hosts[4];
    four_hosts(hosts);
    all_faces("unsafe", judged(hosts, 4, 400));
}

TEST(a_hypervisor_that_warns) {
    skew_host hosts[4];
    four_hosts(hosts);
    skew_alarm_put(&hosts[0], SKEW_UNRELIABLE);
    skew_alarm_put(&hosts[1], SKEW_IMMINENT);
    all_faces("alarm", judged(hosts, 3, 1000));
}

TEST(nothing_measured) {
    skew_host hosts[4];
    four_hosts(hosts);
    all_faces("unknown", judged(&hosts[3], 1, -250));
}

TEST(many_hosts_are_a_list) {
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

/* All pairs of a list: those alone, those of groups, and those that are left out. */
static int count_pairs(const char *text) {
    const char *line = strstr(text, "\nholder"), *end = strstr(text, "\n... and ");
    int pairs = 0, alike, more;

    assert_true(line && end && sscanf(end, "\n... and %d pairs", &more) == 1);
    while ((line = strchr(line + 1, '\n')) && line < end) {
        const char *mark = strpbrk(line + 1, "!?~\n");
        pairs += sscanf(mark, "%*c %d %*[a-z] alike", &alike) == 1 ? alike : 1;
    }
    return pairs + more;
}

/* One clock that is far ahead, or behind, is one line, and not a line for each other host. */
TEST(the_pairs_of_one_bad_clock_are_one_line) {
    static const struct {
        int64_t at_ms;
        const char *pair, *alike;
    } cases[] = {{3000, "\nhost0  bad ", "!  23 holders alike\n"},
                 {-3000, "\nbad    host23 ", "!  23 takers alike\n"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        skew_host hosts[24];
        for (int k = 0; k < 24; k++) {
            char name[16];
            (void)snprintf(name, sizeof name, "host%d", k);
            hosts[k] = host(name, "agent", k * 1000, k * 1000 + 500, k);
        }
        hosts[9] = host("bad", "agent", cases[i].at_ms * 1000, cases[i].at_ms * 1000 + 500, 9);
        skew_result r = judged(hosts, 24, 1000);
        skew_gaps *gaps = r.gaps;
        for (int kept = 0; kept <= 1;
             kept++) { /* as of a log line, without the gaps of all pairs */
            char *text = NULL;
            size_t len = 0;
            FILE *out = open_memstream(&text, &len);
            assert_non_null(out);
            r.gaps = kept ? NULL : gaps;
            skew_show_text(&r, out);
            assert_int_equal(fclose(out), 0);
            const char *pair = strstr(text, cases[i].pair);
            assert_true(pair && strchr(pair, '!') == strstr(pair, cases[i].alike));
            assert_ptr_equal(strchr(strchr(pair, '!') + 1, '!'),
                             strstr(pair, "! theft is possible"));
            assert_int_equal(count_pairs(text), 24 * 23);
            free(text);
        }
        r.gaps = gaps;
        skew_result_end(&r);
    }
}

/* A hundred hosts have as many pairs as are kept; the thief is in no pair that reaches far. */
TEST(pairs_that_are_left_out_are_counted) {
    static skew_host hosts[101];
    for (int n = 100; n <= 101; n++)
        for (int all = 0; all <= 1; all++) {
            char *text = NULL, listed[64], name[16];
            size_t len = 0;
            for (int i = 0; i < n; i++) {
                (void)snprintf(name, sizeof name, "host%d", i);
                hosts[i] = host(name, "agent", -5000000, 5000000 + i, i);
            }
            hosts[7] = host("thief", "agent", 3000000, 3000000, 7);
            hosts[8] = host("victim", "agent", 0, 0, 8);
            skew_result r = {.rule = {SKEW_HOLD(60000000, 59000000), .warn_percent = 50},
                             .hosts = hosts,
                             .host_count = n,
                             .pairs_most = all ? SIZE_MAX : 9900};
            assert_true(skew_judge(&r));
            FILE *out = open_memstream(&text, &len);
            assert_non_null(out);
            skew_show_json(&r, out);
            assert_int_equal(fclose(out), 0);
            /* of 101 hosts 9,900 pairs, and the theft */
            (void)snprintf(listed, sizeof listed, "\"pairs_total\":%d,\"pairs_listed\":%d,",
                           n * (n - 1),
                           n == 100 ? 9900
                           : all    ? 10100
                                    : 9901);
            assert_non_null(strstr(text, listed));
            assert_non_null(strstr(text, "\"holder\":\"victim\",\"taker\":\"thief\""));
            free(text);
            out = open_memstream(&text, &len);
            assert_non_null(out);
            skew_show_text(&r, out);
            assert_int_equal(fclose(out), 0);
            assert_non_null(strstr(text, "\nvictim"));
            (void)snprintf(listed, sizeof listed, " pairs more, none of them worse; %s has",
                           n == 100 || all ? "--json" : "--json --all-pairs");
            assert_non_null(strstr(text, listed));
            assert_int_equal(count_pairs(text), n * (n - 1));
            free(text);
            skew_result_end(&r);
        }
}

/* What a server answers is told, bars and all: in a plugin's line a bar begins the performance data. */
TEST(a_reason_is_no_performance_data) {
    skew_host hosts[4];
    four_hosts(hosts);
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
