/*
 * The agent's record: it comes back as it was written, anything else is refused, and its age, a step of
 * the server and a clash make it wider or void, never plausible.
 */
#include <stdio.h>
#include <string.h>

#include "tests.h"
#include "skew/judge/skew_alarm.h"
#include "skew/judge/skew_record.h"

#define NOW INT64_C(1700000000000000)

static skew_record usual(void) {
    return (skew_record){.id = "beef-12",
                         .at_us = NOW,
                         .offset = {349990, 350010},
                         .has_drift = true,
                         .drift_ppb = {-1500, 2500},
                         .samples = 8,
                         .steps = 1,
                         .resumes = 2,
                         .every_ms = 10000,
                         .server = "run1"};
}

static bool reads(const char *text) {
    skew_record r;
    return skew_record_read(text, strlen(text), &r);
}

TEST(what_is_written_is_read) {
    char text[SKEW_RECORD_SIZE];
    skew_record in = usual(), out;
    skew_record_write(text, &in);
    assert_string_equal(
        text, "2 beef-12 1700000000000000 349990 350010 1 -1500 2500 0 8 1 2 0 10000 0 run1");
    assert_true(skew_record_read(text, strlen(text), &out));
    assert_string_equal(out.id, in.id);
    assert_int_equal(out.at_us, in.at_us);
    assert_int_equal(out.offset.lo, in.offset.lo);
    assert_int_equal(out.offset.hi, in.offset.hi);
    assert_int_equal(out.drift_ppb.lo, in.drift_ppb.lo);
    assert_int_equal(out.drift_ppb.hi, in.drift_ppb.hi);
    assert_int_equal(out.samples, 8);
    assert_int_equal(out.every_ms, 10000);
    assert_string_equal(out.server, "run1");
    assert_true(out.has_drift && !out.clash);
}

TEST(anything_else_is_refused) {
    static const char *const bad[] = {
        "",
        " ",
        "nonsense",
        "1 beef-12 1700000000000000 349990 350010 1 -1500 2500 0 8 1 2 0 10000 0", /* version */
        "3 beef-12 1700000000000000 349990 350010 1 -1500 2500 0 8 1 2 0 10000 0 run1",
        "2 beef-12 1700000000000000 349990 350010 1 -1500 2500 0 8 1 2 0 10000 0", /* too few */
        "2 beef-12 1700000000000000 349990 350010 1 -1500 2500 0 8 1 2 0 10000 0 ",
        "2 beef-12 1700000000000000 349990 350010 1 -1500 2500 0 8 1 2 0 10000 0 run1 ",
        "2 beef-12 1700000000000000 349990 350010 1 -1500 2500 0 8 1 2 0 10000 0 run1 0",
        "2  1700000000000000 349990 350010 1 -1500 2500 0 8 1 2 0 10000 0 run1",     /* no id */
        "2 beef-12 1700000000000000 350010 349990 1 -1500 2500 0 8 1 2 0 10000 0 -", /* upside down */
        "2 beef-12 1700000000000000 349990 350010 2 -1500 2500 0 8 1 2 0 10000 0 -",
        "2 beef-12 1700000000000000 349990 350010 1 -1500 2500 0 0 1 2 0 10000 0 -", /* no samples */
        "2 beef-12 1700000000000000 349990 350010 1 -1500 2500 0 8 1 2 0 10000 4 run1",
        "2 beef-12 1700000000000000 349990 350010 1 -1500 2500 -1 8 1 2 0 10000 0 -",
        "2 beef-12 01700000000000000 349990 350010 1 -1500 2500 0 8 1 2 0 10000 0 -",
        "2 beef-12 1700000000000000 349990 350010 1 -1500 2500 -0 8 1 2 0 10000 0 -",
        "2 beef-12 0 349990 350010 1 -1500 2500 0 8 1 2 0 10000 0 -",
        "2 beef-12 9223372036854775807 349990 350010 1 -1500 2500 0 8 1 2 0 10000 0 -",
        "2 beef-12 1700000000000000 -9223372036854775808 9223372036854775807 1 -1 2 0 8 1 2 0 1 0 -",
        "2 beef-12 1700000000000000 1e3 350010 1 -1500 2500 0 8 1 2 0 10000 0 -",
        "2 beef-12 17000000000000000000000 349990 350010 1 -1500 2500 0 8 1 2 0 10000 0 -",
        "2 0123456789012345678901234567890123456789-1234567 1700000000000000 1 2 1 0 0 0 8 1 2 0 1 0 -",
        "2 b 1700000000000000 1 2 1 0 0 0 8 1 2 0 1 0 01234567890123456789012345678901234567890", /* of 41 characters */
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (reads(bad[i]))
            fail_msg("this is read: '%s'", bad[i]);
    char text[SKEW_RECORD_SIZE];
    skew_record in = usual(), out;
    skew_record_write(text, &in);
    for (size_t n = 0; n <= strlen(text) - strlen("run1");
         n++) /* cut off anywhere before the last word */
        assert_false(skew_record_read(text, n, &out));
    text[4] = '\0';
    assert_false(skew_record_read(text, strlen("2 beef-12") + 60, &out));
}

static skew_host judged(const skew_record *r, int64_t now_us, int64_t stepped_us) {
    skew_host h = {.known = false};
    skew_record_at at = {.server = "run1", .now_us = now_us, .stepped_us = stepped_us};
    skew_record_judge(r, &at, 200, &h);
    return h;
}

TEST(age_widens) {
    skew_record r = usual();
    skew_host h = judged(&r, NOW, 0);
    assert_true(h.known && h.age_ms == 0);
    assert_in_range(350010, h.offset.lo, h.offset.hi);
    assert_true(h.offset.hi - h.offset.lo <= 30);
    h = judged(&r, NOW + 10000000, 0); /* 10 s at 200 ppm */
    assert_int_equal(h.age_ms, 10000);
    assert_in_range(h.offset.hi, 352010, 352012);
    assert_in_range(h.offset.lo, 347988, 347990);
    r.slew_ppm = 83333;
    h = judged(&r, NOW + 10000000, 0);
    assert_true(h.offset.hi >= 350010 + 835330 && h.offset.lo <= 349990 - 835330);
    assert_int_equal(h.slew_ppm, 83333);
}

TEST(a_step_of_the_server_makes_what_is_older_void) {
    skew_record r = usual();
    assert_string_equal(judged(&r, NOW - 1, 0).status, "void");
    assert_false(judged(&r, NOW - 1, 0).known);
    assert_int_equal(judged(&r, NOW - 1, 0).age_ms, -1);
    assert_string_equal(judged(&r, NOW + 5, NOW + 1).status, "void");
    assert_false(judged(&r, NOW + 5, NOW + 1).known);
    assert_true(judged(&r, NOW + 5, NOW).known); /* the first that was measured after it */
}

TEST(a_clash_is_unknown) {
    skew_record r = usual();
    r.clash = true;
    assert_false(judged(&r, NOW, 0).known);
    assert_string_equal(judged(&r, NOW, 0).status, "clash");
}

/* Whoever doesn't know of it refuses the record: a number that was never there. */
TEST(a_clock_that_runs_wrong_is_told_and_widens_by_what_was_seen) {
    char text[SKEW_RECORD_SIZE];
    skew_record r = usual(), out;
    r.unsteady = true;
    r.slew_ppm = 2000;
    skew_record_write(text, &r);
    assert_string_equal(
        text, "2 beef-12 1700000000000000 349990 350010 1 -1500 2500 2000 8 1 2 0 10000 2 run1");
    assert_true(skew_record_read(text, strlen(text), &out));
    assert_true(out.unsteady && !out.clash);
    skew_host h = judged(&r, NOW + 10000000, 0);
    assert_true(h.known && h.unsteady);
    assert_string_equal(h.status, "unsteady");
    assert_non_null(strstr(h.detail, "2000 ppm"));
    assert_in_range(h.offset.hi, 350010 + 22000, 350010 + 22004);
    assert_true(judged(&r, NOW + 40000000, 0).missing);
    assert_non_null(strstr(judged(&r, NOW + 40000000, 0).detail, "published nothing for"));
    r.every_ms = SKEW_EVERY_ENDED_MS;
    assert_non_null(strstr(judged(&r, NOW + 2000000, 0).detail, "agent was ended"));
    r.every_ms = 10000;
    r.clash = true;
    skew_record_write(text, &r);
    assert_true(skew_record_read(text, strlen(text), &out));
    assert_true(out.unsteady && out.clash);
    assert_string_equal(judged(&out, NOW, 0).status, "clash");
    r.clash = false;
    r.slew_ppm = SKEW_PPM_MOST; /* it may be anywhere */
    h = judged(&r, NOW, 0);
    assert_false(h.known);
    assert_string_equal(h.status, "unsteady");
}

/* A reader of before takes the mark for a part of the ID, which is as long as it may be. */
TEST(an_alarm_is_a_mark_of_the_id) {
    static const char marks[] = {[SKEW_FREERUNNING] = 'f',
                                 [SKEW_UNRELIABLE] = 'u',
                                 [SKEW_SOON] = 's',
                                 [SKEW_IMMINENT] = 'i'};
    for (int alarm = SKEW_FREERUNNING; alarm <= (int)SKEW_IMMINENT; alarm++) {
        char text[SKEW_RECORD_SIZE], want[SKEW_RECORD_SIZE];
        skew_record r = usual(), out;
        r.alarm = (skew_alarm)alarm;
        skew_record_write(text, &r);
        (void)snprintf(
            want, sizeof want,
            "2 beef-12+%c 1700000000000000 349990 350010 1 -1500 2500 0 8 1 2 0 10000 0 run1",
            marks[alarm]);
        assert_string_equal(text, want);
        assert_true(skew_record_read(text, strlen(text), &out));
        assert_string_equal(out.id, "beef-12");
        assert_int_equal(out.alarm, alarm);
        skew_host h = judged(&out, NOW, 0);
        assert_true(h.known);
        assert_int_equal(h.alarm, alarm);
        assert_string_equal(h.status, skew_alarm_name((skew_alarm)alarm));
        assert_non_null(strstr(h.detail, skew_alarm_says((skew_alarm)alarm)));
        assert_non_null(strstr(h.detail, "; 1 steps, 2 resumes"));
        assert_string_equal(judged(&out, NOW + 40000000, 0).status, "missing");
        out.clash = true;
        assert_string_equal(judged(&out, NOW, 0).status, "clash");
    }
}

TEST(a_mark_that_is_not_known_is_no_alarm) {
    static const char *const ids[] = {"beef-12+x", "beef-12+", "beef-12+ii", "beef-12i", "+i"};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        char text[SKEW_RECORD_SIZE];
        skew_record out;
        (void)snprintf(text, sizeof text,
                       "2 %s 1700000000000000 349990 350010 1 -1500 2500 0 8 1 2 0 10000 0 run1",
                       ids[i]);
        assert_true(skew_record_read(text, strlen(text), &out));
        assert_string_equal(out.id, ids[i]);
        assert_int_equal(out.alarm, SKEW_NO_ALARM);
        assert_true(judged(&out, NOW, 0).known);
    }
}

/* After a failover or on a replica the offset is from a clock that isn't asked now. */
TEST(what_was_measured_against_another_server_is_unknown) {
    skew_record r = usual();
    static const char *const others[] = {"run2", "run", "run11", "-", ""};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        skew_host h = {.known = true};
        skew_record_judge(&r, &(skew_record_at){others[i], NOW, 0}, 200, &h);
        assert_false(h.known);
        assert_string_equal(h.status, "void");
    }
    memcpy(r.server, "-", 2); /* nobody may ask: it can't be told */
    skew_host h = {.known = false};
    skew_record_judge(&r, &(skew_record_at){"-", NOW, 0}, 200, &h);
    assert_true(h.known);
}

TEST(names_and_boots) {
    char key[SKEW_KEY_SIZE], most[SKEW_NAME_SIZE + 1];
    memset(most, 'x', sizeof most);
    most[SKEW_NAME_SIZE] = '\0';
    assert_false(skew_name_ok(most));
    most[SKEW_NAME_SIZE - 1] = '\0';
    assert_true(skew_name_ok(most));
    skew_record_key(key, most);
    assert_int_equal(strlen(key), strlen("{tidelock:agents}:") + 64);
    assert_true(skew_name_ok("db-1.example.org:6379_x"));
    static const char *const bad[] = {"", "a b", "a\"b", "a|b", "a\nb", "\xc3\xa4", "a{b}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(skew_name_ok(bad[i]));
    assert_true(skew_same_boot("beef-1", "beef-22"));
    assert_false(skew_same_boot("beef-1", "bee-1"));
    assert_false(skew_same_boot("beef-1", "bead-1"));
}
