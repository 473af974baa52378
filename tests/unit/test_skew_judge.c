/*
 * The verdict against an oracle that knows the truth: never SAFE where a theft is possible, never
 * UNSAFE where none is, and in between only what can't be told.
 */
#include <stdio.h>
#include <string.h>

#include "seeded.h"
#include "tests.h"
#include "skew/judge/skew_alarm.h"
#include "skew/judge/skew_judge.h"
#include "skew/judge/skew_number.h"
#include "skew/judge/skew_web.h"
#include "skew/judge/skew_reason.h"

#define MS INT64_C(1000)

static skew_host host(const char *name, int64_t lo, int64_t hi) {
    skew_host h = {.instrument = "agent",
                   .known = true,
                   .offset = {lo, hi},
                   .age_ms = 10,
                   .samples = 1,
                   .status = "ok"};
    (void)snprintf(h.name, sizeof h.name, "%s", name);
    return h;
}
static skew_host unknown(const char *name) {
    skew_host h = host(name, 0, 0);
    h.known = false;
    h.status = "unknown";
    h.age_ms = -1;
    return h;
}
/* 60 s, of which the holder works 59; nothing drifts. */
static skew_result with(skew_host *hosts, int n) {
    return (skew_result){
        .rule = {SKEW_HOLD(60000 * MS, 59000 * MS), .warn_percent = 50, .drift_ppm = 0},
        .hosts = hosts,
        .host_count = n};
}
static skew_verdict judged(skew_result *r) {
    assert_true(skew_judge(r));
    skew_verdict v = r->verdict;
    assert_true(r->reason[0] != '\0');
    skew_result_end(r);
    return v;
}

/* ---- by hand: 1 ms of resolution and 1 us of rounding are added to each edge ------------------- */

static skew_verdict two(int64_t lo, int64_t hi) {
    skew_host hosts[] = {host("a", 0, 0), host("b", lo, hi)};
    skew_result r = with(hosts, 2);
    r.rule.warn_percent = 100;
    return judged(&r);
}

TEST(the_edges_decide) {
    assert_int_equal(two(0, 998999), SKEW_SAFE);
    assert_int_equal(two(0, 999000), SKEW_WARN);
    assert_int_equal(two(1001001, 1001001), SKEW_WARN);
    assert_int_equal(two(1001002, 1001002), SKEW_UNSAFE);
    assert_int_equal(two(998998, 2000000), SKEW_WARN);
    assert_int_equal(two(-998999, 0), SKEW_SAFE);
    assert_int_equal(two(-1001002, -1001002), SKEW_UNSAFE); /* the other way round */
}

TEST(a_gap_is_judged_to_the_microsecond) {
    assert_int_equal(skew_judge_gap((tl_interval){-5, 1000}, 1000), SKEW_SAFE);
    assert_int_equal(skew_judge_gap((tl_interval){-5, 1001}, 1000), SKEW_WARN);
    assert_int_equal(skew_judge_gap((tl_interval){1000, 1001}, 1000), SKEW_WARN);
    assert_int_equal(skew_judge_gap((tl_interval){1001, 1001}, 1000), SKEW_UNSAFE);
    assert_int_equal(skew_judge_gap((tl_interval){-7, -6}, -6), SKEW_SAFE);
    assert_int_equal(skew_judge_gap((tl_interval){-5, -5}, -6), SKEW_UNSAFE);
    assert_int_equal(skew_judge_gap((tl_interval){INT64_MIN, INT64_MAX}, 0), SKEW_WARN);
}

TEST(little_slack_left_is_a_warning) {
    skew_host hosts[] = {host("a", 0, 0), host("b", 498999, 498999)};
    skew_result r = with(hosts, 2);
    assert_int_equal(judged(&r), SKEW_SAFE);
    hosts[1] = host("b", 499000, 499000);
    assert_int_equal(judged(&r), SKEW_WARN);
}

TEST(missing_evidence_is_never_safe) {
    skew_host hosts[] = {host("a", 0, 0), host("b", 1, 2), unknown("c")};
    skew_result r = with(hosts, 3);
    assert_int_equal(judged(&r), SKEW_WARN);
    r = with(hosts, 2);
    assert_int_equal(judged(&r), SKEW_SAFE);
    r.more = true;
    assert_int_equal(judged(&r), SKEW_WARN);
    r = with(hosts, 1);
    assert_int_equal(judged(&r), SKEW_WARN);
    r = with(&hosts[2], 1);
    assert_int_equal(judged(&r), SKEW_UNKNOWN);
    r = with(hosts, 0);
    assert_int_equal(judged(&r), SKEW_UNKNOWN);
}

TEST(a_theft_that_is_possible_outweighs_missing_evidence) {
    skew_host hosts[] = {host("a", 0, 0), host("b", 5000 * MS, 5000 * MS), unknown("c")};
    skew_result r = with(hosts, 3);
    assert_true(skew_judge(&r));
    assert_int_equal(r.verdict, SKEW_UNSAFE);
    assert_int_equal(r.pair_count, 2);
    assert_int_equal(r.pairs[0].holder, 0);
    assert_int_equal(r.pairs[0].taker, 1);
    assert_non_null(strstr(r.reason, "stolen at least 3998.9 ms too early: when a holds"));
    skew_result_end(&r);
}

TEST(a_contradiction_makes_its_host_unknown_and_leaves_the_rest) {
    skew_host hosts[] = {host("a", 0, 10), host("b", 20, 5), host("c", 0, 10)};
    skew_result r = with(hosts, 3);
    assert_true(skew_judge(&r));
    assert_int_equal(r.verdict, SKEW_WARN);
    assert_false(hosts[1].known);
    assert_string_equal(hosts[1].status, "inconsistent");
    assert_true(hosts[0].known && hosts[2].known);
    assert_int_equal(r.pair_count, 2);
    skew_result_end(&r);
}

/* However wide the slack, and however narrow its interval is just now. */
TEST(a_clock_that_runs_wrong_is_never_safe_and_a_theft_all_the_same) {
    skew_host hosts[] = {host("a", 0, 0), host("b", 0, 0), host("c", 0, 0)};
    hosts[2].unsteady = true;
    hosts[2].status = "unsteady";
    (void)snprintf(hosts[2].detail, sizeof hosts[2].detail, "it gains");
    skew_result r = with(hosts, 3);
    assert_true(skew_judge(&r));
    assert_int_equal(r.verdict, SKEW_WARN);
    assert_non_null(strstr(r.reason, "nothing can be promised about c: it gains"));
    assert_non_null(strstr(r.advice[0], "fix the clock of c"));
    for (size_t i = 0; i < r.pair_count; i++) {
        bool concerns = r.pairs[i].holder == 2 || r.pairs[i].taker == 2;
        assert_int_equal(r.pairs[i].verdict, concerns ? SKEW_WARN : SKEW_SAFE);
        assert_int_equal(skew_mark(&r, &r.pairs[i]), concerns ? '?' : ' ');
    }
    skew_result_end(&r);
    hosts[2].offset = (tl_interval){3000 * MS, 3000 * MS};
    assert_int_equal(judged(&r), SKEW_UNSAFE);
    hosts[2].offset = (tl_interval){0, 0};
    hosts[2].unsteady = false;
    assert_int_equal(judged(&r), SKEW_SAFE);
}

TEST(a_host_that_is_missing_is_never_safe_and_no_better_than_it_was) {
    skew_host hosts[] = {host("a", 0, 0), host("b", 1, 2), host("c", 0, 0)};
    skew_result r = with(hosts, 3);
    hosts[2].missing = true;
    hosts[2].status = "missing";
    assert_true(skew_judge(&r));
    assert_int_equal(r.verdict, SKEW_WARN);
    assert_non_null(strstr(r.reason, "c is missing"));
    for (size_t i = 0; i < r.pair_count; i++)
        assert_int_equal(r.pairs[i].verdict,
                         r.pairs[i].holder == 2 || r.pairs[i].taker == 2 ? SKEW_WARN : SKEW_SAFE);
    skew_result_end(&r);
    hosts[2].offset = (tl_interval){5000 * MS, 5000 * MS};
    assert_true(skew_judge(&r));
    assert_int_equal(r.verdict, SKEW_UNSAFE);
    assert_non_null(strstr(r.reason, "; missing: c"));
    skew_result_end(&r);
    hosts[2].known = false;
    assert_int_equal(judged(&r), SKEW_WARN);
    hosts[0].known = hosts[1].known =
        false; /* it alone is no measured host, but what was bad of it counts */
    hosts[2].known = true;
    assert_int_equal(judged(&r), SKEW_UNKNOWN);
    hosts[1] = host("b", 0, 0);
    hosts[1].missing = true;
    hosts[1].status = "missing";
    assert_int_equal(judged(&r), SKEW_UNSAFE);
}

TEST(an_alarm_of_a_hypervisor_is_never_safe_and_makes_nothing_better) {
    for (int alarm = SKEW_FREERUNNING; alarm <= (int)SKEW_IMMINENT; alarm++) {
        skew_host hosts[] = {host("a", 0, 0), host("b", 0, 0)};
        skew_result r = with(hosts, 2);
        assert_int_equal(judged(&r), SKEW_SAFE);
        skew_alarm_put(&hosts[1], (skew_alarm)alarm);
        assert_true(skew_judge(&r));
        assert_int_equal(r.verdict, SKEW_WARN);
        assert_true(strncmp(r.reason, "the hypervisor of b ", 20) == 0);
        assert_non_null(strstr(r.reason, skew_alarm_says((skew_alarm)alarm)));
        assert_int_equal(r.advices, 1);
        skew_result_end(&r);
        hosts[1].offset = (tl_interval){3000 * MS, 3000 * MS};
        assert_true(skew_judge(&r));
        assert_int_equal(r.verdict, SKEW_UNSAFE);
        assert_non_null(strstr(r.reason, "stolen at least"));
        assert_non_null(strstr(r.reason, "; the hypervisor of b "));
        skew_result_end(&r);
        hosts[0].known = hosts[1].known = false;
        assert_int_equal(judged(&r), SKEW_UNKNOWN);
    }
}

TEST(the_worst_alarm_is_named_and_the_others_are_counted) {
    skew_host hosts[] = {host("a", 0, 0), host("b", 0, 0), host("c", 0, 0), host("d", 0, 0)};
    skew_result r = with(hosts, 4);
    skew_alarm_put(&hosts[0], SKEW_UNRELIABLE);
    skew_alarm_put(&hosts[1], SKEW_IMMINENT);
    skew_alarm_put(&hosts[3], SKEW_SOON);
    assert_true(skew_judge(&r));
    assert_string_equal(
        r.reason, "the hypervisor of b announces a disruption within about an hour: the clock "
                  "of b may jump then (2 hosts more have such an alarm)");
    assert_string_equal(r.advice[0],
                        "let b acquire none of these locks until its disruption is over "
                        "and its clock is measured again");
    skew_result_end(&r);
    hosts[1].kind = SKEW_REMARK; /* it acquires no locks (--no-self) */
    hosts[3].alarm = SKEW_NO_ALARM;
    assert_true(skew_judge(&r));
    assert_string_equal(r.reason,
                        "the hypervisor of a calls its own clock unreliable: the clock of a "
                        "may be wrong where it follows that one");
    skew_result_end(&r);
    hosts[0].alarm = SKEW_NO_ALARM;
    assert_int_equal(judged(&r), SKEW_SAFE);
}

TEST(there_are_so_many_hosts_or_it_is_not_safe) {
    skew_host hosts[] = {host("a", 0, 0), host("b", 0, 0), host("10.0.0.1", 0, 0),
                         host("10.0.0.2", 0, 0), host("10.0.0.3", 0, 0)};
    hosts[2].instrument = hosts[3].instrument = hosts[4].instrument = "passive";
    skew_result r = with(hosts, 5);
    r.rule.min_hosts = 3; /* two of the addresses may be those of a and b */
    assert_int_equal(judged(&r), SKEW_SAFE);
    r.rule.min_hosts = 4;
    assert_true(skew_judge(&r));
    assert_int_equal(r.verdict, SKEW_WARN);
    assert_non_null(strstr(r.reason, "3 hosts are measured, and at least 4"));
    skew_result_end(&r);
    r.host_count = 2;
    r.rule.min_hosts = 2;
    assert_int_equal(judged(&r), SKEW_SAFE);
    hosts[1].kind = SKEW_REMARK; /* it acquires no locks */
    r.host_count = 3;
    assert_int_equal(judged(&r), SKEW_WARN);
}

TEST(a_pair_that_uses_more_of_the_slack_than_allowed_is_not_safe) {
    skew_host hosts[] = {host("a", 0, 0), host("b", 600 * MS, 600 * MS), host("c", 0, 0)};
    skew_result r = with(hosts, 3);
    assert_true(skew_judge(&r));
    assert_int_equal(r.verdict, SKEW_WARN);
    for (size_t i = 0; i < r.pair_count; i++)
        assert_int_equal(r.pairs[i].verdict, r.pairs[i].taker == 1 ? SKEW_WARN : SKEW_SAFE);
    skew_result_end(&r);
}

TEST(what_is_assumed_of_holders_is_said) {
    static const int64_t ahead[] = {0, 700, 1000, 5000};
    for (int i = 0; i < 4; i++) {
        skew_host hosts[] = {host("a", 0, 0), host("b", ahead[i] * MS, ahead[i] * MS)};
        skew_result r = with(hosts, 2);
        assert_true(skew_judge(&r));
        assert_null(strstr(r.reason, "assumed"));
        skew_result_end(&r);
        r.rule.longest_hold_assumed = true;
        assert_true(skew_judge(&r));
        assert_non_null(strstr(r.reason, "59 s (assumed: say --longest-hold)"));
        skew_result_end(&r);
    }
}

TEST(that_hosts_may_be_missing_is_said_of_what_is_safe) {
    skew_host hosts[] = {host("a", 0, 0), host("b", 0, 0)};
    skew_result r = with(hosts, 2);
    for (int assumed = 0; assumed <= 1; assumed++) {
        r.rule.hosts_assumed = assumed;
        assert_true(skew_judge(&r));
        assert_int_equal(r.verdict, SKEW_SAFE);
        assert_int_equal(strstr(r.reason, "name all by --expect") != NULL, assumed);
        skew_result_end(&r);
    }
}

/* Advice is about what is lacking, each thing once. */
TEST(the_advice_is_about_what_is_lacking) {
    skew_host hosts[] = {host("a", 0, 0), unknown("b"),      unknown("n:123"),
                         unknown("a"),    unknown("r:6379"), unknown("m:123")};
    static const struct {
        skew_kind kind;
        const char *instrument, *status, *advice;
    } cases[] = {
        {SKEW_CLOCK, "agent", "clash", "give one of the agents that publish as b another name"},
        {SKEW_SERVED, "ntp", "silent",
         "check that n:123 answers NTP (UDP, through every firewall), or "
         "leave out --ntp n:123"},
        {SKEW_ASIDE, "chrony", "silent", "or leave out --chrony"},
        {SKEW_REDIS, "server", "silent", "check that the server r:6379 can be reached"},
        {SKEW_SERVED, "ntp", "unsynchronised", "fix the time service of m:123"}};
    for (int i = 0; i < 5; i++) {
        hosts[i + 1].kind = cases[i].kind;
        hosts[i + 1].instrument = cases[i].instrument;
        hosts[i + 1].status = cases[i].status;
    }
    for (int i = 0; i < 5; i++) {
        skew_host two[] = {hosts[0], host("c", 0, 0), hosts[i + 1], hosts[i + 1]};
        skew_result r = with(two, 4);
        assert_true(skew_judge(&r));
        assert_int_equal(r.verdict, SKEW_WARN);
        assert_int_equal(r.advices, 1);
        if (!strstr(r.advice[0], cases[i].advice))
            fail_msg("'%s' of %s", r.advice[0], cases[i].instrument);
        skew_result_end(&r);
    }
    skew_result r = with(hosts, 6);
    assert_true(skew_judge(&r));
    assert_int_equal(r.advices, 3);
    skew_result_end(&r);
}

/* ---- rows that are not the clock of a host ------------------------------------------------------- */

static skew_host of_kind(const char *name, skew_kind kind, int64_t lo, int64_t hi) {
    skew_host h = host(name, lo, hi);
    h.kind = kind;
    h.instrument = kind == SKEW_SERVED ? "ntp" : kind == SKEW_ASIDE ? "chrony" : "server";
    return h;
}

TEST(ntp_alone_is_never_safe_and_never_a_certain_theft) {
    static const int64_t off[] = {0, 300, 900, 5000};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        skew_host hosts[] = {host("a", 0, 0), host("b", 0, 0),
                             of_kind("n:123", SKEW_SERVED, off[i] * MS, off[i] * MS)};
        skew_result r = with(hosts, 3);
        assert_true(skew_judge(&r));
        assert_int_equal(r.verdict, SKEW_WARN);
        assert_non_null(strstr(r.reason, off[i] > 1000 ? "can't be ruled out" : "NTP alone"));
        assert_int_equal(r.pair_count, 6);
        for (size_t k = 0; k < r.pair_count; k++)
            assert_int_equal(r.pairs[k].verdict, r.pairs[k].holder == 2 || r.pairs[k].taker == 2
                                                     ? SKEW_WARN
                                                     : SKEW_SAFE);
        skew_result_end(&r);
    }
}

TEST(ntp_beside_the_hosts_own_clock_takes_nothing_away) {
    skew_host hosts[] = {host("a", 0, 0), host("b", 0, 0), of_kind("b:123", SKEW_SERVED, 100, 200)};
    skew_result r = with(hosts, 3);
    hosts[2].covered = true;
    assert_int_equal(judged(&r), SKEW_SAFE);
    hosts[2] = of_kind("b:123", SKEW_SERVED, 5000 * MS, 5000 * MS);
    hosts[2].covered = true;
    assert_int_equal(judged(&r), SKEW_WARN);
    hosts[2].known = hosts[2].covered = false; /* asked for, and not there */
    assert_int_equal(judged(&r), SKEW_WARN);
    hosts[1] = of_kind("b:123", SKEW_SERVED, 100, 200);
    hosts[1].covered = true;
    r.host_count = 2; /* it is no second host */
    assert_int_equal(judged(&r), SKEW_WARN);
}

TEST(a_direct_measurement_is_not_widened_by_the_way_over_the_server) {
    skew_host hosts[] = {host("a", -50 * MS, 50 * MS), host("b", 0, 0),
                         of_kind("n:123", SKEW_SERVED, -40 * MS, 62 * MS)};
    skew_result r = with(hosts, 3);
    hosts[2].against = 1;
    hosts[2].apart = (tl_interval){10 * MS, 12 * MS};
    assert_true(skew_judge(&r));
    for (size_t i = 0; i < r.pair_count; i++)
        if (r.pairs[i].holder == 0 && r.pairs[i].taker == 2) {
            assert_int_equal(r.pairs[i].gap.lo, 10 * MS - 1001);
            assert_int_equal(r.pairs[i].gap.hi, 12 * MS + 1001);
        } else if (r.pairs[i].holder == 1 && r.pairs[i].taker == 0) {
            assert_int_equal(r.pairs[i].gap.hi, 50 * MS + 1001); /* nobody else gains by it */
        }
    skew_result_end(&r);
    hosts[2].apart = (tl_interval){200 * MS, 201 * MS}; /* it can't be so */
    assert_true(skew_judge(&r));
    assert_false(hosts[2].known);
    assert_int_not_equal(r.verdict, SKEW_SAFE);
    skew_result_end(&r);
    hosts[2] = of_kind("n:123", SKEW_SERVED, 0, 0);
    hosts[2].against = 1;
    hosts[2].apart = (tl_interval){200 * MS, 201 * MS};
    hosts[0].known = false; /* who measured it is not known: nothing follows */
    assert_true(skew_judge(&r));
    assert_true(hosts[2].known);
    skew_result_end(&r);
}

TEST(what_daemons_believe_is_in_no_pair) {
    skew_host hosts[] = {host("a", 0, 0), host("b", 0, 0),
                         of_kind("a", SKEW_ASIDE, -9000 * MS, 9000 * MS),
                         of_kind("a", SKEW_REMARK, 4000 * MS, 4000 * MS)};
    skew_result r = with(hosts, 4);
    assert_true(skew_judge(&r));
    assert_int_equal(r.verdict, SKEW_SAFE);
    assert_int_equal(r.pair_count, 2);
    skew_result_end(&r);
    hosts[3].known = false; /* a remark may be missing */
    assert_int_equal(judged(&r), SKEW_SAFE);
    hosts[2].known = false; /* what was asked for may not */
    assert_true(skew_judge(&r));
    assert_int_equal(r.verdict, SKEW_WARN);
    assert_non_null(strstr(r.reason, "the requested measurement of a is not available"));
    skew_result_end(&r);
    hosts[2].known = hosts[3].known = true; /* alone they are no evidence of any host */
    hosts[0].known = hosts[1].known = false;
    assert_int_equal(judged(&r), SKEW_UNKNOWN);
}

TEST(a_servers_clock_may_judge_but_is_no_second_host) {
    skew_host hosts[] = {host("a", 0, 0), of_kind("r:1", SKEW_REDIS, 0, 0),
                         of_kind("r:2", SKEW_REDIS, 0, 0), host("b", 0, 0)};
    skew_result r = with(hosts, 3);
    assert_int_equal(judged(&r), SKEW_WARN);
    r.host_count = 4;
    assert_int_equal(judged(&r), SKEW_SAFE);
    hosts[2].known = false;
    assert_int_equal(judged(&r), SKEW_WARN);
    hosts[2] = of_kind("r:2", SKEW_REDIS, 5000 * MS, 5000 * MS);
    assert_true(skew_judge(&r));
    assert_int_equal(r.verdict, SKEW_UNSAFE);
    assert_non_null(strstr(r.reason, "the clock of r:2"));
    skew_result_end(&r);
    hosts[2] = of_kind("r:2", SKEW_REDIS, -5000 * MS, -5000 * MS);
    assert_true(skew_judge(&r));
    assert_non_null(strstr(r.reason, "for a lock timed by r:2"));
    skew_result_end(&r);
}

/* Known up to what they have in common: against each other, and against nobody else. */
TEST(relative_hosts_are_judged_among_themselves_and_never_safe) {
    skew_host hosts[] = {host("a", 0, 0), unknown("b"), unknown("c")};
    for (int far = 0; far < 2; far++) {
        for (int i = 1; i < 3; i++) {
            hosts[i].relative = true;
            hosts[i].offset = (tl_interval){30000 * MS + i, 30000 * MS + i + (far ? 1 : 0)};
            (void)snprintf(hosts[i].detail, sizeof hosts[i].detail, "MODEL-MISMATCH: told so");
        }
        if (far)
            hosts[2].offset = (tl_interval){32000 * MS, 32001 * MS};
        skew_result r = with(hosts, 3);
        assert_true(skew_judge(&r));
        assert_int_equal(r.pair_count, 2);
        assert_int_equal(r.verdict, far ? SKEW_UNSAFE : SKEW_WARN);
        if (!far)
            assert_string_equal(r.reason, "MODEL-MISMATCH: told so");
        for (size_t i = 0; i < r.pair_count; i++)
            assert_true(r.pairs[i].holder != 0 && r.pairs[i].taker != 0);
        if (far)
            assert_in_range(r.pairs[0].gap.hi, 2000 * MS, 2003 * MS);
        skew_result_end(&r);
        r = with(hosts + 1, 2); /* nobody else there */
        assert_int_equal(judged(&r), far ? SKEW_UNSAFE : SKEW_WARN);
    }
}

TEST(having_heard_nobody_is_a_warning) {
    skew_host hosts[] = {host("a", 0, 0), host("b", 0, 0)};
    skew_result r = with(hosts, 2);
    assert_int_equal(judged(&r), SKEW_SAFE);
    r.unheard = "nobody was heard";
    r.unheard_advice = "listen for longer";
    assert_int_equal(judged(&r), SKEW_WARN);
}

TEST(having_listened_in_part_is_a_warning) {
    skew_host hosts[] = {host("a", 0, 0), host("b", 0, 0)};
    skew_result r = with(hosts, 2);
    r.unheard = "listening was aborted early";
    r.unheard_advice = "listen when the server is less busy";
    assert_true(skew_judge(&r));
    assert_int_equal(r.verdict, SKEW_WARN);
    assert_string_equal(r.reason, r.unheard);
    assert_string_equal(r.advice[0], r.unheard_advice);
    skew_result_end(&r);
}

/* Where writers add a second, a clock that is ahead by a little more than the slack steals nothing. */
TEST(stamps_that_last_longer_move_the_low_edge_alone) {
    skew_host hosts[] = {host("a", 0, 0), host("b", 1500 * MS, 1500 * MS)};
    skew_result r = with(hosts, 2);
    assert_int_equal(judged(&r), SKEW_UNSAFE);
    r.rule.late_us = 1001 * MS;
    assert_true(skew_judge(&r));
    assert_int_equal(r.verdict, SKEW_WARN);
    assert_int_equal(r.pairs[0].gap.lo, (1500 - 1001) * MS - 1);
    assert_int_equal(r.pairs[0].gap.hi, 1501 * MS + 1);
    skew_result_end(&r);
}

TEST(stamps_of_whole_seconds_widen_gaps_by_one) {
    skew_host hosts[] = {host("a", 0, 0), host("b", 0, 0)};
    skew_result r = with(hosts, 2);
    int64_t usual = skew_widening_us(&r.rule, &hosts[0], &hosts[1]);
    r.rule.early_us = 1000 * MS;
    assert_int_equal(skew_widening_us(&r.rule, &hosts[0], &hosts[1]), usual + 999 * MS);
}

/* 60 s and a millisecond, at so many ppm; a us of rounding, and the stamps' millisecond. */
static int64_t widened_by(int64_t ppm) {
    return 60001 * ppm / 1000 + 1 + 1000;
}

TEST(drift_and_slew_widen_both_edges_for_the_whole_lifetime) {
    skew_host hosts[] = {host("a", 0, 0), host("b", 0, 0)};
    skew_result r = with(hosts, 2);
    assert_int_equal(skew_widening_us(&r.rule, &hosts[0], &hosts[1]), 1001);
    r.rule.drift_ppm = 200;
    assert_int_equal(skew_widening_us(&r.rule, &hosts[0], &hosts[1]), widened_by(200));
    for (int i = 0; i < 2; i++) { /* of either, and of both */
        hosts[i].slew_ppm = 83333;
        assert_int_equal(skew_widening_us(&r.rule, &hosts[0], &hosts[1]),
                         widened_by(200 + 83333 * (i + 1)));
        assert_int_equal(judged(&r), SKEW_WARN);
    }
    hosts[0].slew_ppm = 0;
    hosts[1].slew_ppm = 2000000; /* a second in each second is as fast as it gets */
    assert_int_equal(skew_widening_us(&r.rule, &hosts[0], &hosts[1]), widened_by(200 + 1000000));
}

/* What was seen counts by its worse edge, rounded up, once it is certainly more than drift. */
TEST(a_clock_that_was_seen_to_move_widens_by_that) {
    static const struct {
        tl_interval drift_ppb;
        int64_t slew_ppm, extra_ppm;
    } cases[] = {
        {{-900000, 900000}, 0, 0}, /* it may be no drift at all */
        {{200000, 900000}, 0, 0},     {{-900000, -200000}, 0, 0},     {{200001, 900000}, 0, 901},
        {{-900000, -200001}, 0, 901}, {{300000, 900999}, 0, 901},     {{300000, 900000}, 900, 901},
        {{300000, 900000}, 901, 901}, {{300000, 900000}, 2000, 2000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int which = 0; which < 2; which++) {
            skew_host hosts[] = {host("a", 0, 0), host("b", 0, 0)};
            skew_result r = with(hosts, 2);
            r.rule.drift_ppm = 200;
            hosts[which].has_drift = true;
            hosts[which].drift_ppb = cases[i].drift_ppb;
            hosts[which].slew_ppm = (int32_t)cases[i].slew_ppm;
            assert_int_equal(skew_widening_us(&r.rule, &hosts[0], &hosts[1]),
                             widened_by(200 + cases[i].extra_ppm));
        }
}

TEST(a_holder_that_works_longer_than_the_lifetime_is_unsafe) {
    skew_host hosts[] = {host("a", 0, 0), host("b", 0, 0)};
    skew_result r = with(hosts, 2);
    r.rule = (skew_rule){SKEW_HOLD(60000 * MS, 70000 * MS), .warn_percent = 50};
    assert_int_equal(judged(&r), SKEW_UNSAFE);
}

TEST(as_many_hosts_as_fit) {
    static skew_host hosts[SKEW_HOSTS_MAX + 1];
    for (int i = 0; i <= SKEW_HOSTS_MAX; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "h%d", i);
        hosts[i] = host(name, i * 10, i * 10 + 5);
    }
    skew_result r = with(hosts, SKEW_HOSTS_MAX);
    assert_true(skew_judge(&r));
    assert_int_equal(r.pair_count, SKEW_PAIRS_MOST);
    assert_int_equal(r.pairs_total, (size_t)SKEW_HOSTS_MAX * (SKEW_HOSTS_MAX - 1));
    assert_int_equal(r.verdict, SKEW_SAFE);
    assert_int_equal(r.pairs[0].holder, 0);
    assert_int_equal(r.pairs[0].taker, SKEW_HOSTS_MAX - 1);
    skew_result_end(&r);
    r = with(hosts, SKEW_HOSTS_MAX + 1);
    assert_false(skew_judge(&r));
    skew_result_end(&r);
}

/* ---- the server's clock ----------------------------------------------------------------------- */

static void safe_says(skew_host *hosts, int n, const char *far) {
    skew_result r = with(hosts, n);
    assert_true(skew_judge(&r));
    assert_int_equal(r.verdict, SKEW_SAFE);
    if (far)
        assert_non_null(strstr(r.reason, far));
    else
        assert_null(strstr(r.reason, "server's clock"));
    skew_result_end(&r);
}

TEST(safe_hosts_whose_clocks_are_far_from_the_servers_say_so) {
    static const char far[] = "; but the server's clock, by which tidelock's own clients time "
                              "locks, is not judged, and may be too far from that of b: "
                              "judge it by --servers";
    skew_host near[] = {host("a", 0, 0), host("b", 100000, 200000)};
    skew_host ahead[] = {host("a", 998500, 998900), host("b", 998800, 999000)};
    skew_host behind[] = {host("a", -998900, -998500), host("b", -999000, -998800)};
    safe_says(near, 2, NULL);
    safe_says(ahead, 2, far);
    safe_says(behind, 2, far);
    ahead[1].offset.hi = 998999;
    safe_says(ahead, 2, NULL);
    skew_host judged[] = {near[0], near[1], host("redis", 0, 0)};
    judged[2].kind = SKEW_REDIS;
    safe_says(judged, 3, NULL);
}

/* ---- the oracle --------------------------------------------------------------------------------- */

#define SCENARIOS 200000
#define HOSTS_MAX 5
/* The gap of two clocks at any time of the lock's life: they may part or meet by what the rule allows. */
typedef struct {
    int64_t least, most;
} really;

static really real_gap(const skew_rule *rule, int64_t holder, int64_t taker, int64_t slew_ppm) {
    int64_t by = rule->lock_timeout_us / 1000 * (rule->drift_ppm + slew_ppm) / 1000 + 1000;
    return (really){taker - holder - by, taker - holder + by};
}

static void one_scenario(uint64_t seed, int *seen) {
    skew_host hosts[HOSTS_MAX];
    int64_t truth[HOSTS_MAX];
    int n = 2 + (int)draw(HOSTS_MAX - 1);
    skew_result r = with(hosts, n);
    int64_t life = (1 + draw(120000)) * MS;
    int64_t slack = draw(5) == 0 ? -draw(1000 * MS) : draw(3000 * MS);
    r.rule = (skew_rule){SKEW_HOLD(life, life - slack), .warn_percent = 100};
    r.rule.drift_ppm = (int32_t)draw(500);
    int64_t wide = 1 + draw(draw(3) ? 500 : 500 * MS), far = 1 + draw(4000 * MS);
    for (int i = 0; i < n; i++) {
        truth[i] = draw(far) - far / 2;
        hosts[i] = host("h", truth[i] - draw(wide), truth[i] + draw(wide));
        hosts[i].slew_ppm = draw(4) ? 0 : (int32_t)draw(5000);
    }
    assert_true(skew_judge(&r));
    assert_int_equal(r.pair_count, (size_t)n * (size_t)(n - 1));
    bool all_safe = true, theft = false;
    for (size_t i = 0; i < r.pair_count; i++) {
        const skew_pair *p = &r.pairs[i];
        really is = real_gap(&r.rule, truth[p->holder], truth[p->taker],
                             hosts[p->holder].slew_ppm + hosts[p->taker].slew_ppm);
        if (is.least < p->gap.lo || is.most > p->gap.hi)
            fail_msg("seed %llu: the gap does not hold the truth", (unsigned long long)seed);
        if (p->verdict == SKEW_SAFE && is.most > r.rule.slack_us)
            fail_msg("seed %llu: a false SAFE", (unsigned long long)seed);
        if (p->verdict == SKEW_UNSAFE && is.least <= r.rule.slack_us)
            fail_msg("seed %llu: a false UNSAFE", (unsigned long long)seed);
        if (p->verdict == SKEW_WARN &&
            (p->gap.lo > r.rule.slack_us || p->gap.hi <= r.rule.slack_us))
            fail_msg("seed %llu: WARN without a straddle", (unsigned long long)seed);
        all_safe = all_safe && p->verdict == SKEW_SAFE;
        theft = theft || p->verdict == SKEW_UNSAFE;
    }
    /* With --warn 100% and nothing missing, the fleet is what its pairs are. */
    skew_verdict want = theft ? SKEW_UNSAFE : all_safe ? SKEW_SAFE : SKEW_WARN;
    if (r.verdict != want && !(all_safe && r.verdict == SKEW_WARN && r.rule.slack_us < 0))
        fail_msg("seed %llu: %s instead of %s", (unsigned long long)seed,
                 skew_verdict_name(r.verdict), skew_verdict_name(want));
    seen[r.verdict]++;
    skew_result_end(&r);
}

TEST(no_false_safe_no_false_unsafe_and_warn_only_in_doubt) {
    int seen[4] = {0};
    for (uint64_t seed = 1; seed <= SCENARIOS; seed++) {
        seed_begin(seed);
        one_scenario(seed, seen);
    }
    print_message("%d safe, %d warn, %d unsafe\n", seen[SKEW_SAFE], seen[SKEW_WARN],
                  seen[SKEW_UNSAFE]);
    for (int v = SKEW_SAFE; v <= SKEW_UNSAFE; v++)
        assert_true(seen[v] > SCENARIOS / 100); /* else it proves little */
}

/* Whoever does as told is safe from theft: with the shorter hold, and with the longer life. */
TEST(the_advice_helps) {
    for (int64_t ahead = 1500; ahead < 30000; ahead += 1777) {
        long long hold, life;
        skew_host hosts[] = {host("a", -3 * MS, 2 * MS),
                             host("b", ahead * MS - 777, ahead * MS + 777)};
        hosts[1].slew_ppm = 83333;
        skew_result r = with(hosts, 2);
        r.rule.drift_ppm = 200;
        assert_true(skew_judge(&r));
        assert_int_not_equal(r.verdict, SKEW_SAFE);
        const char *last = r.advice[r.advices - 1];
        assert_non_null(strstr(r.advice[r.advices - 2], "of b first"));
        int found = sscanf(last,
                           "until then let no holder work for more than %lld ms (--longest-hold), "
                           "or let the locks live for %lld",
                           &hold, &life);
        assert_int_equal(found, 2);
        skew_result_end(&r);
        skew_result shorter = with(hosts, 2), longer = with(hosts, 2);
        shorter.rule = (skew_rule){SKEW_HOLD(60000 * MS, hold * MS), .warn_percent = 100,
                                   .drift_ppm = 200};
        longer.rule = (skew_rule){SKEW_HOLD(life * MS, 59000 * MS), .warn_percent = 100,
                                  .drift_ppm = 200};
        assert_true(skew_judge(&shorter) && skew_judge(&longer));
        assert_int_equal(shorter.pairs[0].verdict, SKEW_SAFE);
        assert_int_equal(longer.pairs[0].verdict, SKEW_SAFE);
        skew_result_end(&shorter);
        skew_result_end(&longer);
    }
}

/* ---- a slack that is too small ------------------------------------------------------------------------- */

/* What is used however well the clocks agree: drift for 60 s, and a millisecond of rounding. */
TEST(a_slack_that_can_never_be_safe_is_told) {
    static const struct {
        int64_t slack_us;
        int32_t warn;
        const char *advice; /* NULL: it can be SAFE, and is */
    } cases[] = {
        {13001, 100, NULL},
        {13000, 100,
         "with a slack of 13 ms the verdict can never be SAFE: drift in 60 s and the rounding of "
         "stamps use 13.001 ms in any case; with --warn 100% it takes 13.001 ms"},
        {26002, 50, NULL},
        {26000, 50,
         "with a slack of 26 ms the verdict can never be SAFE: drift in 60 s and the rounding of "
         "stamps use 13.001 ms in any case; with --warn 50% it takes 26.002 ms"},
        {1000000, 0,
         "with a slack of 1 s the verdict can never be SAFE: drift in 60 s and the rounding of "
         "stamps use 13.001 ms in any case; with --warn 0% no slack is enough"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        skew_host two[] = {host("a", 0, 0), host("b", 0, 0)};
        skew_result r = with(two, 2);
        r.rule = (skew_rule){SKEW_HOLD(60000000, 60000000 - cases[i].slack_us),
                             .warn_percent = cases[i].warn, .drift_ppm = SKEW_DRIFT_PPM};
        assert_true(skew_judge(&r));
        assert_int_equal(r.verdict == SKEW_SAFE, cases[i].advice == NULL);
        if (cases[i].advice)
            assert_string_equal(r.advice[0], cases[i].advice);
        skew_result_end(&r);
    }
}
