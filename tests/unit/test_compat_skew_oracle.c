/*
 * The verdict against locks that are played: hosts with clocks that are off and drift, a holder that writes
 * the stamp that its dialect's clients write, a taker that compares it as they do. Where the verdict says SAFE
 * no lock is acquired while its holder works; where it says UNSAFE it always is. None is among hosts that are SAFE
 * without the cause. ORACLE_RUNS=n plays so many scenarios, ORACLE_SEED=n one of them.
 */
#include <stdio.h>
#include <stdlib.h>

#include "seeded.h"
#include "tests.h"
#include "dialect/dialect.h"
#include "skew/judge/skew_cause.h"
#include "skew/judge/skew_judge.h"
#include "skew/judge/skew_number.h"
#include "legacy/skew_stamp.h"
#include "skew/judge/skew_web.h"
#include "skew/judge/skew_reason.h"

#define MS INT64_C(1000)
#define S INT64_C(1000000)
#define NOW (INT64_C(1763719800) * S)
#define HOSTS_MAX 5

static uint64_t seed_played;
/* ---- legacy clients ------------------------------------------------------------------------ */

typedef struct {
    int64_t offset_us; /* from the server's clock, which is the true time here */
    int64_t ppb;
} clock_of;

static int64_t measured_us; /* the true time at which offsets are as they are told */

static int64_t shows(const clock_of *c, int64_t at_us) {
    return at_us + c->offset_us + (at_us - measured_us) / 1000 * c->ppb / 1000000;
}

static int64_t rounded_down(int64_t us, int64_t to_us) {
    return us / to_us * to_us;
}

/* What is written at this reading of the writer's clock, and read again, in us. */
static int64_t stamp_of(const tl_dialect *d, int64_t clock_us, int64_t lifetime_us, bool whole) {
    int64_t plus_us = (int64_t)d->plus_ms * MS;
    if (d->unit == TL_UNIT_MS)
        return rounded_down(clock_us, MS) + lifetime_us + plus_us;
    if (d->unit == TL_UNIT_S || (whole && d->whole_readers))
        return rounded_down(clock_us, S) + lifetime_us + plus_us;
    return rounded_down(clock_us + 5 * MS, 10 * MS) + lifetime_us + plus_us; /* two decimals */
}

static bool is_over(const tl_dialect *d, int64_t stamp_us, int64_t clock_us, bool whole) {
    if (d->unit == TL_UNIT_MS)
        clock_us = rounded_down(clock_us, MS);
    if (d->unit == TL_UNIT_S || (whole && d->whole_readers))
        clock_us = rounded_down(clock_us, S);
    return d->at_equal ? stamp_us <= clock_us : stamp_us < clock_us;
}

/* The true time from which the taker calls the stamp over, to the microsecond. */
static int64_t over_from(const tl_dialect *d, int64_t stamp_us, const clock_of *taker, bool whole) {
    int64_t from = NOW - 1000 * S, to = NOW + 1000 * S;
    while (from + 1 < to) {
        int64_t middle = from + (to - from) / 2;
        if (is_over(d, stamp_us, shows(taker, middle), whole))
            to = middle;
        else
            from = middle;
    }
    return to;
}

/* A lock is acquired at the moment of the measurement, and worked under for the longest hold, by the holder's
 * own clock. Can another take it before that is over? */
static bool is_stolen(const skew_rule *rule, const tl_dialect *d, const clock_of *holder,
                      const clock_of *taker) {
    int64_t taken = measured_us = NOW + draw(S);
    int64_t hold = rule->longest_hold_us;
    int64_t ends = taken + hold - hold / 1000 * holder->ppb / 1000000;
    int64_t stamp = stamp_of(d, shows(holder, taken), rule->lock_timeout_us, draw(2));
    int64_t over = over_from(d, stamp, taker, draw(2));
    return (over > taken ? over : taken) < ends;
}

/* ---- scenarios --------------------------------------------------------------------------------------- */

typedef struct {
    int64_t pairs[3], stolen[3];
    int64_t safe_without; /* pairs of hosts that are SAFE without the cause */
} tally;

static void play_pair(const skew_result *r, const skew_pair *p, const tl_dialect *d,
                      const clock_of *clocks, tally *seen) {
    bool straddles = p->gap.lo <= r->rule.slack_us && p->gap.hi > r->rule.slack_us;
    for (int i = 0; i < 3; i++) {
        bool stolen = is_stolen(&r->rule, d, &clocks[p->holder], &clocks[p->taker]);
        if (p->verdict == SKEW_SAFE && stolen)
            fail_msg("ORACLE_SEED=%llu: %s: a false SAFE", (unsigned long long)seed_played,
                     d->name);
        if (p->verdict == SKEW_UNSAFE && !stolen)
            fail_msg("ORACLE_SEED=%llu: %s: a false UNSAFE", (unsigned long long)seed_played,
                     d->name);
        seen->pairs[p->verdict]++;
        seen->stolen[p->verdict] += stolen;
    }
    if ((p->verdict == SKEW_WARN) != straddles)
        fail_msg("ORACLE_SEED=%llu: %s in %lld..%lld us", (unsigned long long)seed_played,
                 skew_verdict_name(p->verdict), (long long)p->gap.lo, (long long)p->gap.hi);
}

static bool is_in(const skew_cause *cause, int host) {
    for (int i = 0; i < cause->hosts; i++)
        if (cause->host[i] == host)
            return true;
    return false;
}

/* Where the rest is SAFE without the cause, no lock is stolen among the rest. */
static void play_without_cause(skew_result *r, const tl_dialect *d, const clock_of *clocks,
                               tally *seen) {
    assert_true(skew_cause_find(r));
    for (int i = 0; i < r->causes; i++) {
        if (r->cause[i].verdict != SKEW_SAFE)
            continue;
        for (int h = 0; h < r->host_count; h++)
            for (int t = 0; t < r->host_count; t++) {
                if (h == t || is_in(&r->cause[i], h) || is_in(&r->cause[i], t))
                    continue;
                if (is_stolen(&r->rule, d, &clocks[h], &clocks[t]))
                    fail_msg("ORACLE_SEED=%llu: %s: not SAFE without the cause",
                             (unsigned long long)seed_played, d->name);
                seen->safe_without++;
            }
    }
}

/* Gaps are near the slack in most: elsewhere no rule is tried. */
static void make_fleet(skew_result *r, skew_host *hosts, clock_of *clocks) {
    int64_t near = r->rule.slack_us + draw(4 * S) - 2 * S,
            wide = 1 + draw(draw(3) ? 500 : 200 * MS);
    int64_t most_ppb = r->rule.drift_ppm * INT64_C(1000) / 2;
    for (int i = 0; i < r->host_count; i++) {
        int64_t ppb = most_ppb ? draw(2 * most_ppb + 1) - most_ppb : 0;
        clocks[i] = (clock_of){i % 2 ? near + draw(20 * MS) - 10 * MS : draw(20 * MS), ppb};
        hosts[i] = (skew_host){
            .instrument = "agent",
            .known = true,
            .offset = {clocks[i].offset_us - draw(wide), clocks[i].offset_us + draw(wide)},
            .status = "ok"};
        (void)snprintf(hosts[i].name, sizeof hosts[i].name, "h%d", i);
    }
}

static void play(uint64_t seed, tally *seen, int verdicts[4]) {
    skew_host hosts[HOSTS_MAX];
    clock_of clocks[HOSTS_MAX];
    seed_played = seed;
    seed_begin(seed);
    unsigned which = (unsigned)draw(64);
    const tl_dialect *d = tl__dialect_at(which) ? tl__dialect_at(which) : tl__dialect_at(0);
    tl_interval over = skew_stamp_over_us(d);
    int64_t lifetime = 1 + draw(120000);
    if (d->unit != TL_UNIT_MS)
        lifetime = lifetime / 1000 * 1000 + 1000;
    int64_t slack = draw(5 * S);
    slack = slack < lifetime * MS ? slack : lifetime * MS - 1;
    skew_result r = {.rule = {SKEW_HOLD(lifetime * MS, lifetime * MS - slack), .warn_percent = 100,
                              .drift_ppm = (int32_t)draw(400), .early_us = -over.lo,
                              .late_us = over.hi},
                     .hosts = hosts,
                     .host_count = 2 + (int)draw(HOSTS_MAX - 1)};
    make_fleet(&r, hosts, clocks);
    assert_true(skew_judge(&r));
    assert_int_equal(r.pair_count, (size_t)r.host_count * (size_t)(r.host_count - 1));
    bool all_safe = true, theft = false;
    for (size_t i = 0; i < r.pair_count; i++) {
        play_pair(&r, &r.pairs[i], d, clocks, seen);
        all_safe = all_safe && r.pairs[i].verdict == SKEW_SAFE;
        theft = theft || r.pairs[i].verdict == SKEW_UNSAFE;
    }
    assert_int_equal(r.verdict, theft ? SKEW_UNSAFE : all_safe ? SKEW_SAFE : SKEW_WARN);
    verdicts[r.verdict]++;
    play_without_cause(&r, d, clocks, seen);
    skew_result_end(&r);
}

TEST(no_false_safe_and_no_false_unsafe_for_locks_that_are_played) {
    const char *asked = getenv("ORACLE_RUNS"), *one = getenv("ORACLE_SEED");
    uint64_t runs = asked ? strtoull(asked, NULL, 10) : 100000;
    tally seen = {.safe_without = 0};
    int verdicts[4] = {0};
    if (one) {
        play(strtoull(one, NULL, 10), &seen, verdicts);
        return;
    }
    for (uint64_t seed = 1; seed <= runs; seed++)
        play(seed, &seen, verdicts);
    print_message(
        "%llu scenarios: %d safe, %d warn, %d unsafe; in doubt %lld of %lld were stolen\n",
        (unsigned long long)runs, verdicts[SKEW_SAFE], verdicts[SKEW_WARN], verdicts[SKEW_UNSAFE],
        (long long)seen.stolen[SKEW_WARN], (long long)seen.pairs[SKEW_WARN]);
    for (int v = SKEW_SAFE; v <= (int)SKEW_UNSAFE; v++)
        assert_true(verdicts[v] > (int)(runs / 100)); /* else it proves little */
    assert_true(seen.safe_without > (int64_t)(runs / 100));
    assert_true(seen.stolen[SKEW_WARN] > 0 && seen.stolen[SKEW_WARN] < seen.pairs[SKEW_WARN]);
}
