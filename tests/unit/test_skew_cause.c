/*
 * The hosts that are named as the cause of a verdict are the smallest sets without which the clocks of
 * the others are near each other: as found by judging every set of up to three hosts. CAUSE_RUNS=n plays
 * so many fleets, CAUSE_SEED=n one of them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "seeded.h"
#include "tests.h"
#include "skew/judge/skew_cause.h"
#include "skew/judge/skew_judge.h"

#define MS INT64_C(1000)
#define HOSTS 9

/* ---- the plain way -------------------------------------------------------------------------------- */

/* Judges the hosts that are not in the set, a bit each; returns whether none of their gaps is too large. */
static bool is_near_without(const skew_result *all, unsigned set, skew_cause *ret) {
    skew_host hosts[HOSTS];
    int at[HOSTS], n = 0;

    for (int i = 0; i < all->host_count; i++) {
        at[i] = set & 1U << i ? -1 : n;
        if (at[i] >= 0)
            hosts[n++] = all->hosts[i];
    }
    for (int i = 0; i < n; i++)
        if (hosts[i].against > 0)
            hosts[i].against = at[hosts[i].against - 1] + 1;
    skew_result rest = {.rule = all->rule, .hosts = hosts, .host_count = n};
    assert_true(skew_judge(&rest));
    bool near = true;
    for (size_t i = 0; i < rest.pair_count; i++)
        near = near && rest.pairs[i].gap.hi <= rest.rule.slack_us &&
               rest.pairs[i].gap.hi * 100 <= rest.rule.slack_us * rest.rule.warn_percent;
    *ret = (skew_cause){.verdict = rest.verdict,
                        .any_pair = rest.pair_count > 0,
                        .worst = rest.pair_count ? rest.pairs[0].gap : (tl_interval){0, 0}};
    assert_true(rest.verdict != SKEW_SAFE || near);
    skew_result_end(&rest);
    return near;
}

static unsigned set_of(const skew_cause *cause) {
    unsigned set = 0;
    for (int i = 0; i < cause->hosts; i++)
        set |= 1U << cause->host[i];
    return set;
}

static const skew_cause *named(const skew_result *r, unsigned set) {
    for (int i = 0; i < r->causes; i++)
        if (set_of(&r->cause[i]) == set)
            return &r->cause[i];
    return NULL;
}

typedef struct {
    int fleets, safe, sure, either, several, more, alone, none;
} tally;

/* Compares with all sets, the small ones first. */
static void compare(uint64_t seed, const skew_result *r, tally *seen) {
    int found = 0, left_one = 0;

    for (int size = 1; size <= SKEW_CAUSE_MOST && found + left_one == 0; size++)
        for (unsigned set = 1; set < 1U << r->host_count; set++) {
            skew_cause want;
            if (__builtin_popcount(set) != size || !is_near_without(r, set, &want))
                continue;
            if (!want.any_pair && r->pairs_total != 2) {
                left_one++;
                continue;
            }
            found++;
            const skew_cause *cause = named(r, set);
            if (!cause)
                fail_msg("CAUSE_SEED=%llu: the set %x is not named", (unsigned long long)seed, set);
            if (cause->hosts != size || cause->verdict != want.verdict ||
                cause->any_pair != want.any_pair || cause->worst.hi != want.worst.hi)
                fail_msg("CAUSE_SEED=%llu: without %x: %s, %lld us", (unsigned long long)seed, set,
                         skew_verdict_name(cause->verdict), (long long)cause->worst.hi);
            seen->safe += want.verdict == SKEW_SAFE;
        }
    if (found != r->causes)
        fail_msg("CAUSE_SEED=%llu: %d sets instead of %d", (unsigned long long)seed, r->causes,
                 found);
    bool doubt = r->pairs[0].gap.hi > r->rule.slack_us;
    assert_int_equal(r->cause_text[0] == '\0', found == 0 && (left_one > 0 || !doubt));
    seen->more += found + left_one == 0;
    seen->alone += found == 0 && left_one > 0;
    seen->sure += found == 1;
    seen->either += found == 2;
    seen->several += found > 2;
}

/* ---- random fleets -------------------------------------------------------------------------------- */

static skew_host draw_host(int i, int n, int64_t wide) {
    static const skew_kind kinds[] = {SKEW_CLOCK, SKEW_CLOCK, SKEW_CLOCK, SKEW_REDIS, SKEW_SERVED};
    int64_t at = draw(3) ? draw(100 * MS) : draw(5) * 700 * MS - 1400 * MS;
    skew_host h = {.instrument = "agent",
                   .kind = draw(3) ? SKEW_CLOCK : kinds[draw(5)],
                   .known = draw(20) > 0,
                   .covered = draw(2),
                   .missing = draw(30) == 0,
                   .unsteady = draw(30) == 0,
                   .slew_ppm = draw(4) ? 0 : (int32_t)draw(600),
                   .offset = {at - draw(wide), at + draw(wide)},
                   .status = "ok"};
    (void)snprintf(h.name, sizeof h.name, "host-%d", i);
    h.relative = !h.known && draw(2);
    if (draw(4) == 0) {
        int other = (int)draw(n);
        h.against = other == i ? 0 : other + 1;
        h.apart = (tl_interval){-draw(4 * wide), draw(4 * wide)};
    }
    return h;
}

static void play(uint64_t seed, tally *seen) {
    skew_host hosts[HOSTS];
    seed_begin(seed);
    int n = (int)draw(HOSTS + 1);
    int64_t life = (1 + draw(120000)) * MS, wide = 1 + draw(draw(2) ? 300 : 300 * MS);
    skew_rule rule = {SKEW_HOLD(life, life - draw(1500 * MS)),
                      .warn_percent = draw(2) ? 100 : (int32_t)draw(101), .drift_ppm = 200};
    for (int i = 0; i < n; i++)
        hosts[i] = draw_host(i, n, wide);
    skew_result r = {.rule = rule, .hosts = hosts, .host_count = n};
    if (!skew_judge(&r)) {
        skew_result_end(&r);
        return;
    }
    assert_true(skew_cause_find(&r));
    skew_cause whole;
    seen->fleets++;
    bool too_small = skew_is_beyond(&r, skew_widening_by(&rule, 0)); /* whatever the clocks are */
    if (!is_near_without(&r, 0, &whole) && !too_small)
        compare(seed, &r, seen);
    else if (r.causes || r.cause_text[0])
        fail_msg("CAUSE_SEED=%llu: a cause, though all are near", (unsigned long long)seed);
    else
        seen->none++;
    skew_result_end(&r);
}

TEST(the_smallest_sets_are_those_of_all_sets) {
    const char *asked = getenv("CAUSE_RUNS"), *one = getenv("CAUSE_SEED");
    uint64_t runs = asked ? strtoull(asked, NULL, 10) : 10000;
    tally seen = {0};

    if (one) {
        play(strtoull(one, NULL, 10), &seen);
        return;
    }
    for (uint64_t seed = 1; seed <= runs; seed++)
        play(seed, &seen);
    print_message("%d fleets: %d sure, %d either, %d several, %d more than three, %d leave one, %d "
                  "none; %d are SAFE without\n",
                  seen.fleets, seen.sure, seen.either, seen.several, seen.more, seen.alone,
                  seen.none, seen.safe);
    const int each[] = {seen.sure,  seen.either, seen.several, seen.more,
                        seen.alone, seen.none,   seen.safe};
    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        assert_true(each[i] > (int)(runs / 500)); /* else it proves little */
}

/* ---- what it says --------------------------------------------------------------------------------- */

static skew_host at(const char *name, int64_t ms) {
    skew_host h = {
        .instrument = "agent", .known = true, .offset = {ms * MS - 5, ms * MS + 5}, .status = "ok"};
    (void)snprintf(h.name, sizeof h.name, "%s", name);
    return h;
}

static skew_result caused(skew_host *hosts, int n) {
    skew_result r = {
        .rule = {SKEW_HOLD(60000 * MS, 59000 * MS), .warn_percent = 50, .drift_ppm = 200},
        .hosts = hosts,
        .host_count = n};
    assert_true(skew_judge(&r));
    assert_true(skew_cause_find(&r));
    return r;
}

static void says(skew_host *hosts, int n, const char *text) {
    skew_result r = caused(hosts, n);
    assert_string_equal(r.cause_text, text);
    skew_result_end(&r);
}

TEST(one_bad_clock_is_named_and_the_advice_is_about_it) {
    skew_host hosts[] = {at("app1", 700), at("app2", -1000), at("app3", 710), at("app4", 720)};
    skew_result r = caused(hosts, 4);
    assert_int_equal(r.verdict, SKEW_UNSAFE);
    assert_string_equal(r.cause_text, "app2 is the cause; without it SAFE, worst pair 34 ms");
    assert_non_null(strstr(r.advice[0], "look at the time service of app2 first (there:"));
    skew_result_end(&r);
    /* the server's clock is none of theirs: the advice without a cause would be about another host */
    assert_true(skew_judge(&r));
    assert_non_null(strstr(r.advice[0], "app2 first"));
    skew_result_end(&r);
}

TEST(sets_of_two_and_three_are_named) {
    skew_host two[] = {at("a", 0), at("b", 3000), at("c", 10), at("d", -3000), at("e", 20)};
    says(two, 5, "b and d are the cause; without them SAFE, worst pair 34 ms");
    skew_host three[] = {at("a", 0), at("b", 3000), at("c", 10), at("d", -3000), at("e", 6000)};
    says(three, 5, "b, d and e are the cause; without them SAFE, worst pair 24 ms");
}

TEST(what_nobody_can_tell_is_not_told) {
    skew_host two[] = {at("app1", 0), at("app2", 3000)};
    says(two, 2, "either app1 or app2 is the cause: with two clocks nobody can tell which");
    skew_host ends[] = {at("a", 0), at("b", 300), at("c", -300), at("d", 10)};
    says(ends, 4,
         "either b or c is the cause; without one of them SAFE, worst pair at most 324 ms");
    skew_host halves[] = {at("a", 0), at("b", 10), at("c", 3000), at("d", 3010)};
    says(halves, 4,
         "either a and b, or c and d, are the cause; without one of these sets SAFE, worst pair at "
         "most 24 ms");
    skew_host apart[] = {at("a", 0), at("b", 3000), at("c", 6000)};
    says(apart, 3, "");
    skew_host many[] = {at("a", 0),    at("b", 3000),  at("c", 6000),
                        at("d", 9000), at("e", 12000), at("f", 15000)};
    says(many, 6, "more than three hosts are the cause");
}

TEST(no_clock_is_the_cause_where_the_slack_is_too_small) {
    skew_host hosts[] = {at("a", 0), at("b", 3000), at("c", 10)};
    skew_result r = {
        .rule = {SKEW_HOLD(60000 * MS, 59980 * MS), .warn_percent = 50, .drift_ppm = 200},
        .hosts = hosts,
        .host_count = 3};
    assert_true(skew_judge(&r));
    assert_true(skew_cause_find(&r));
    assert_string_equal(r.cause_text, "");
    assert_non_null(strstr(r.advice[0], "can never be SAFE"));
    skew_result_end(&r);
}

TEST(what_is_lacking_is_still_lacking_without_the_cause) {
    skew_host hosts[] = {at("a", 0), at("b", 3000), at("c", 10), at("gone", 20)};
    hosts[3].missing = true;
    says(hosts, 4, "b is the cause; without it WARN for lack of evidence, worst pair 34 ms");
    hosts[1].offset = hosts[0].offset; /* then no clock is */
    says(hosts, 4, "");
    hosts[3].offset = (tl_interval){-900 * MS, 900 * MS};
    says(hosts, 4, "gone (missing) is the cause; without it SAFE, worst pair 24 ms");
}

TEST(an_alarm_is_still_there_without_the_cause) {
    skew_host hosts[] = {at("a", 0), at("b", 3000), at("c", 10)};
    hosts[0].alarm = SKEW_SOON;
    says(hosts, 3, "b is the cause; without it WARN for a hypervisor's alarm, worst pair 24 ms");
    hosts[2].unsteady = true;
    says(hosts, 3, "b is the cause; without it WARN for lack of evidence, worst pair 24 ms");
}

/* What a daemon serves is its host's evidence: it goes with the host. */
TEST(a_host_is_left_out_with_all_its_rows) {
    skew_host hosts[] = {at("app1", 0), at("app2", 3000), at("app2:123", 3000), at("app3", 10)};
    hosts[2].kind = SKEW_SERVED;
    hosts[2].covered = true;
    hosts[2].against = 1;
    hosts[2].apart = (tl_interval){2990 * MS, 3010 * MS};
    says(hosts, 4, "app2 is the cause; without it SAFE, worst pair 24 ms");
}

/* A witness: with it the two are told apart. NTP alone proves no safety. */
TEST(a_third_clock_tells_which_of_two_it_is) {
    skew_host hosts[] = {at("app1", 0), at("app2", 3000), at("app1:123", 1)};
    hosts[2].kind = SKEW_SERVED;
    hosts[2].covered = true;
    skew_result r = caused(hosts, 3);
    assert_int_equal(r.causes, 1);
    assert_int_equal(r.cause[0].host[0], 1);
    assert_int_equal(r.cause[0].verdict, SKEW_WARN); /* one host that acquires */
    skew_result_end(&r);
}
