/*
 * ClockBound's file: what both layouts mean, each way in which it is worth nothing, and what comes of it beside
 * the measured clock. The writer is the test's own.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clockbound_segment.h"
#include "skew/skew_clockbound.h"
#include "tests.h"

#define S INT64_C(1000000000)
#define NOW_NS (INT64_C(1795299415) * S)
#define SYNCHRONIZED 1

/* As of 100 s after the start of the machine; 250 us, 1000 ppb. */
static segment two(void) {
    return (segment){.version = 2,
                     .generation = 8,
                     .as_of_ns = 100 * S,
                     .void_after_ns = 1100 * S,
                     .bound_ns = 250000,
                     .drift_ppb = 1000,
                     .status = SYNCHRONIZED};
}

/* A counter of 1 GHz: the period is 2^33 / 10^9 of 2^(64 + 29) parts of a second, which 1 us in an hour rounds. */
static segment three(void) {
    segment s = two();
    s.version = 0x0303;
    s.as_of_ns = NOW_NS;
    s.void_after_ns = NOW_NS + 1000 * S;
    s.counter = 5000000000;
    s.period_frac = UINT64_C(9903520314283042199); /* 1e-9 * 2^93 */
    s.period_shift = 29;
    s.error_frac = UINT64_C(1) << 44; /* 2^-20: less than 1 ppm */
    s.error_shift = 0;
    return s;
}

static bool read_it(const segment *s, clockbound_state *state, const char **status, char *why) {
    uint8_t bytes[SEGMENT_SIZE];
    size_t n = segment_make(s, bytes);
    return clockbound_read(bytes, n, state, status, why);
}

static skew_reading at(int64_t boot_ns, int64_t wall_us) {
    tl_mono t = {boot_ns};
    return (skew_reading){.before = t,
                          .after = t,
                          .wall_us = wall_us,
                          .wall = tl__bracket(wall_us, t, t),
                          .slept = {-1, 1}};
}

/* This host's clocks so long after the segment, with the wall clock ahead of the true time. */
static clockbound_clocks after(int64_t ns, int64_t ahead_us) {
    return (clockbound_clocks){.reading = at(100 * S + ns, (NOW_NS + ns) / 1000 + ahead_us),
                               .monotonic_ns = 100 * S + ns,
                               .has_counter = true,
                               .counter_before = (uint64_t)(5000000000 + ns),
                               .counter_after = (uint64_t)(5000000000 + ns)};
}

static skew_host judge_at(const segment *s, clockbound_clocks now, int32_t rate_ppm) {
    clockbound_report r = {.at = now};
    skew_host host = {.known = false};
    r.known = read_it(s, &r.state, &r.status, r.why);
    clockbound_judge(&r, &now.reading, NULL, rate_ppm, &host);
    assert_int_equal(host.kind, SKEW_ASIDE);
    assert_string_equal(host.instrument, "clockbound");
    assert_non_null(host.advice);
    assert_true(host.detail[0] != '\0');
    return host;
}

static void must_refuse(const segment *s, clockbound_clocks now, const char *status,
                        const char *words) {
    skew_host host = judge_at(s, now, 50);
    if (host.known)
        fail_msg("it is believed: not %s", words);
    assert_string_equal(host.status, status);
    if (!strstr(host.detail, words))
        fail_msg("\"%s\" lacks \"%s\"", host.detail, words);
}

TEST(version_2_is_a_bound_to_both_sides) {
    segment s = two();
    skew_host host = judge_at(&s, after(0, 0), 0);
    assert_true(host.known);
    assert_string_equal(host.status, "ok");
    assert_true(host.offset.hi >= 250 && host.offset.hi <= 252);
    assert_int_equal(host.offset.lo, -host.offset.hi);
    assert_int_equal(host.age_ms, 0);
    assert_null(strstr(host.detail, "free-running"));
    s.status = 2;
    host = judge_at(&s, after(0, 0), 0);
    assert_true(host.known);
    assert_non_null(strstr(host.detail, "free-running"));
}

TEST(version_3_knows_whether_the_clock_is_ahead) {
    static const int64_t ahead_us[] = {0, 40000, -40000};
    segment s = three();
    for (int i = 0; i < 3; i++) {
        skew_host host = judge_at(&s, after(10 * S, ahead_us[i]), 500000);
        assert_true(host.known); /* 250 us, and 10 s of 2 ppm */
        assert_in_range(host.offset.hi - ahead_us[i], 250 + 10 + 9, 250 + 10 + 16);
        assert_in_range(ahead_us[i] - host.offset.lo, 250 + 10 + 9, 250 + 10 + 16);
        assert_int_equal(host.age_ms, 10000);
    }
    /* The wall clock was read somewhere between the two readings of the counter. */
    clockbound_clocks now = after(10 * S, 0);
    now.counter_after += 3000000; /* 3 ms */
    skew_host host = judge_at(&s, now, 0);
    assert_true(host.known && host.offset.lo <= -3250 && host.offset.hi < 300);
}

TEST(the_bound_grows_with_its_age) {
    segment s = two();
    skew_host host = judge_at(&s, after(500 * S, 0), 0); /* 1 ppm, as the daemon says */
    assert_in_range(host.offset.hi, 250 + 500, 250 + 503);
    host = judge_at(&s, after(S, 0), 83333); /* the kernel says that the clock is being slewed */
    assert_in_range(host.offset.hi, 250 + 83333, 250 + 83333 + 86);
}

TEST(each_status_is_told_apart) {
    static const struct {
        int32_t status;
        const char *word, *words;
    } rows[] = {{0, "unsynchronised", "does not know the time"},
                {3, "disrupted", "paused, moved or restored"},
                {4, "unreadable", "malformed"},
                {-1, "unreadable", "malformed"}};
    for (int v = 2; v <= 3; v++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            segment s = v == 2 ? two() : three();
            s.status = rows[i].status;
            must_refuse(&s, after(0, 0), rows[i].word, rows[i].words);
        }
}

TEST(an_unknown_version_is_refused_by_its_number) {
    static const struct {
        uint16_t version;
        const char *words;
    } rows[] = {{1, "version 1 "},
                {4, "version 4 "},
                {3, "version 3 (from 0 on)"},
                {0x0304, "version 4 "},
                {0x0404, "version 4 "},
                {0x0203, "version 3 (from 2 on)"},
                {0x0302, "version 2 (from 3 on)"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        segment s = two();
        s.version = rows[i].version;
        s.size = 104;
        must_refuse(&s, after(0, 0), "unreadable", rows[i].words);
    }
    segment s = two();
    s.version = 0;
    must_refuse(&s, after(0, 0), "unsynchronised", "nothing yet");
}

TEST(an_old_bound_is_void) {
    segment s = two(), t = three();
    assert_true(judge_at(&s, after(1000 * S, 0), 0).known);
    must_refuse(&s, after(1000 * S + 1, 0), "stale", "nothing for 1000 s");
    assert_true(judge_at(&t, after(999 * S, 0), 0).known);
    must_refuse(&t, after(1001 * S, 0), "stale", "nothing for 1001 s");
    s.void_after_ns = t.void_after_ns = INT64_C(9000000000) * S; /* a day at most */
    s.status = 2;
    must_refuse(&s, after(86401 * S, 0), "stale", "nothing for 86401 s");
    must_refuse(&t, after(86401 * S, 0), "stale", "nothing for 86401 s");
    t.counter = 0; /* a counter that has run for centuries */
    clockbound_clocks now = after(0, 0);
    now.counter_before = now.counter_after = UINT64_MAX;
    must_refuse(&t, now, "stale", "nothing for");
}

TEST(a_bound_from_the_future_is_void) {
    segment s = two(), t = three();
    must_refuse(&s, after(-1, 0), "void", "before a restart");
    must_refuse(&t, after(-1, 0), "void", "before a restart");
    clockbound_clocks now = after(S, 0);
    now.counter_after = now.counter_before - 1;
    must_refuse(&t, now, "void", "before a restart");
    now.has_counter = false;
    must_refuse(&t, now, "unreadable", "counter");
}

TEST(numbers_without_sense_are_refused) {
    for (int v = 2; v <= 3; v++)
        for (int i = 0; i < 8; i++) {
            segment s = v == 2 ? two() : three();
            if (i == 0)
                s.bound_ns = -1;
            else if (i == 1)
                s.drift_ppb = 1000000000;
            else if (i == 2)
                s.as_of_ns = -1;
            else if (i == 3)
                s.void_after_ns = INT64_C(9000000002) * S;
            else if (i == 4)
                s.size = v == 2 ? 79 : 103;
            else if (i == 5 && v == 3)
                s.period_frac = 0;
            else
                continue;
            must_refuse(&s, after(0, 0), "unreadable", i == 4 ? "shorter" : "malformed");
        }
    uint8_t bytes[SEGMENT_SIZE];
    segment s = two();
    size_t n = segment_make(&s, bytes);
    for (size_t cut = 0; cut < n; cut++) {
        clockbound_state state;
        const char *status = NULL;
        char why[SKEW_DETAIL_SIZE] = "";
        assert_false(clockbound_read(bytes, cut, &state, &status, why));
        assert_string_equal(status, "unreadable");
    }
    bytes[0] ^= 1;
    clockbound_state state;
    const char *status = NULL;
    char why[SKEW_DETAIL_SIZE] = "";
    assert_false(clockbound_read(bytes, n, &state, &status, why));
    assert_non_null(strstr(why, "none of ClockBound's"));
}

TEST(a_clock_that_was_set_voids_the_bound) {
    segment s = two();
    clockbound_report r = {.at = after(S, 500000)};
    skew_host host = {.known = false};
    skew_reading begun = at(100 * S, NOW_NS / 1000);
    r.known = read_it(&s, &r.state, &r.status, r.why);
    clockbound_judge(&r, &begun, NULL, 0, &host);
    assert_false(host.known);
    assert_string_equal(host.status, "void");
    r.at = after(S, 0);
    r.at.reading.slept = (tl_interval){2000000, 2000001}; /* a suspend of two seconds */
    clockbound_judge(&r, &begun, NULL, 0, &host);
    assert_false(host.known);
}

TEST(the_servers_clock_follows) {
    segment s = three();
    clockbound_report r = {.at = after(0, 40000)};
    skew_host host = {.known = false};
    tl_interval own = {10000, 10100};
    r.known = read_it(&s, &r.state, &r.status, r.why);
    clockbound_judge(&r, &r.at.reading, &own, 0, &host);
    assert_non_null(strstr(host.detail, "believes: +39.74"));
    assert_non_null(strstr(host.detail, "the server then +29.64"));
}

TEST(two_witnesses_that_are_apart_are_shown_both) {
    segment s = two();
    skew_host host = judge_at(&s, after(0, 0), 0);
    clockbound_compare(&host, (tl_interval){252, 900}, "chronyd");
    assert_true(host.known);
    clockbound_compare(&host, (tl_interval){254, 900}, "chronyd");
    assert_false(host.known);
    assert_string_equal(host.status, "inconsistent");
    assert_non_null(strstr(host.detail, "chronyd"));
    assert_non_null(strstr(host.detail, "+0.254"));
    clockbound_compare(&host, (tl_interval){0, 0}, "other"); /* the first contradiction stays */
    assert_non_null(strstr(host.detail, "chronyd"));
}

/* Random fleets, judged without the row and with it. */
static skew_verdict verdict_of(skew_host *hosts, int n, int64_t slack_us) {
    skew_result r = {
        .rule = {SKEW_HOLD(60000000, 60000000 - slack_us), .warn_percent = 50, .drift_ppm = 200},
        .hosts = hosts,
        .host_count = n};
    assert_true(skew_judge(&r));
    skew_verdict verdict = r.verdict;
    skew_result_end(&r);
    return verdict;
}

TEST(a_witness_never_makes_a_verdict_better) {
    int better = 0, worse = 0;
    srandom(37);
    for (int run = 0; run < 3000; run++) {
        skew_host hosts[5], again[5];
        int n = (int)(random() % 4);
        for (int i = 0; i < n; i++) {
            int64_t lo = random() % 400000 - 200000;
            hosts[i] = (skew_host){.instrument = "agent",
                                   .known = random() % 5 > 0,
                                   .missing = random() % 9 == 0,
                                   .offset = {lo, lo + random() % 20000},
                                   .status = "ok"};
            (void)snprintf(hosts[i].name, sizeof hosts[i].name, "host%d", i);
        }
        segment s = random() % 2 ? two() : three();
        s.status = (int32_t)(random() % 5);
        s.bound_ns = random() % 400000000;
        int64_t slack_us = random() % 400000, age_ns = random() % 4 ? S : -S;
        memcpy(again, hosts, sizeof hosts);
        again[n] = judge_at(&s, after(age_ns, random() % 800000 - 400000), 200);
        skew_verdict with = verdict_of(again, n + 1, slack_us),
                     without = verdict_of(hosts, n, slack_us);
        better += with < without;
        worse += with > without;
    }
    assert_int_equal(better, 0);
    assert_true(worse > 0);
}

/* ---- the file ------------------------------------------------------------------------------------ */

static char path[64];

static int make_file(const segment *s, size_t n, mode_t mode) {
    uint8_t bytes[SEGMENT_SIZE];
    size_t whole = segment_make(s, bytes);
    (void)snprintf(path, sizeof path, "/tmp/tidelock-clockbound-%d", (int)getpid());
    (void)unlink(path);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && fchmod(fd, mode) == 0);
    n = n < whole ? n : whole;
    assert_int_equal(pwrite(fd, bytes, n, 0), n);
    return fd;
}

static void must_fail(const char *status, const char *words) {
    clockbound_report r;
    clockbound_ask(&r, path);
    if (r.known)
        fail_msg("it is believed: not %s", words);
    assert_string_equal(r.status, status);
    if (!strstr(r.why, words))
        fail_msg("\"%s\" lacks \"%s\"", r.why, words);
}

TEST(a_file_is_read_or_the_reason_is_named) {
    segment s = two();
    clockbound_report r;
    close(make_file(&s, SIZE_MAX, 0644));
    clockbound_ask(&r, path);
    assert_true(r.known);
    assert_int_equal(r.state.bound_us, 251);
    s.generation = 7; /* a daemon that died while it wrote */
    close(make_file(&s, SIZE_MAX, 0644));
    must_fail("unreadable", "at each of 10 tries");
    s.generation = 0;
    close(make_file(&s, SIZE_MAX, 0644));
    must_fail("unsynchronised", "nothing yet");
    s.generation = 8;
    close(make_file(&s, 15, 0644));
    must_fail("unreadable", "too short");
    close(make_file(&s, 79, 0644));
    must_fail("unreadable", "shorter");
    close(make_file(&s, 0, 0644));
    must_fail("unreadable", "too short");
    close(make_file(&s, SIZE_MAX, 0666));
    must_fail("refused", "every user");
    assert_int_equal(unlink(path), 0);
    must_fail("silent", path);
    must_fail("silent", ": No such file");
    assert_int_equal(mkfifo(path, 0600), 0);
    must_fail("unreadable", "regular file");
    assert_int_equal(unlink(path), 0);
    (void)snprintf(path, sizeof path, "/tmp");
    must_fail("unreadable", "regular file");
}

/* A daemon that writes without a rest: each bound is 1 us for each second of its time. */
typedef struct {
    uint8_t *bytes;
    _Atomic bool end;
} writer;

static void *write_on(void *arg) {
    writer *d = arg;
    segment s = two();
    _Atomic uint16_t *generation = (_Atomic uint16_t *)(void *)(d->bytes + 14);
    for (int64_t i = 1; !d->end; i = i % 1000 + 1) {
        uint8_t bytes[SEGMENT_SIZE];
        s.as_of_ns = i * S;
        s.bound_ns = i * 1000;
        (void)segment_make(&s, bytes);
        *generation = (uint16_t)(*generation + 1);
        for (size_t at = 16; at < 80; at++)
            ((volatile uint8_t *)d->bytes)[at] = bytes[at];
        *generation = (uint16_t)(*generation + 1 == 0 ? 2 : *generation + 1);
    }
    return NULL;
}

TEST(a_torn_write_is_never_read) {
    segment s = two();
    s.as_of_ns = S;
    s.bound_ns = 1000;
    int fd = make_file(&s, SIZE_MAX, 0644);
    writer d = {.bytes = mmap(NULL, 80, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)};
    assert_true(d.bytes != MAP_FAILED);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, write_on, &d), 0);
    for (int i = 0; i < 300; i++) {
        clockbound_report r;
        clockbound_ask(&r, path);
        if (r.known && r.state.bound_us != r.state.as_of_ns / S + 1)
            fail_msg("half of one and half of another");
        if (!r.known)
            assert_non_null(strstr(r.why, "being written"));
    }
    d.end = true;
    assert_int_equal(pthread_join(thread, NULL), 0);
    (void)munmap(d.bytes, 80);
    close(fd);
    (void)unlink(path);
}
