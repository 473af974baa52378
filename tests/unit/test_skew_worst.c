/*
 * The worst pairs of a fleet, the clocks that contradict each other and the verdict are those of the
 * plain way: one web of all clocks, all pairs of it, sorted.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "seeded.h"
#include "tests.h"
#include "skew/judge/skew_judge.h"
#include "skew/judge/skew_web.h"
#include "skew/judge/skew_worst.h"

#define MS INT64_C(1000)
#define HOSTS 240 /* more pairs than are kept */
#define USUAL 40

/* ---- the plain way -------------------------------------------------------------------------------- */

typedef struct {
    bool failed;
    skew_pair pair[HOSTS * HOSTS];
    size_t count;
    int theft; /* the surest, in `pair`; -1: none */
} plain;

static bool in_pairs(const skew_host *h) {
    return h->known && skew_is_clock(h->kind);
}

static bool weave(const skew_result *r, skew_web *web) {
    if (!skew_web_begin(web, r->host_count + 2))
        return false;
    for (int i = 0; i < r->host_count; i++) {
        const skew_host *h = &r->hosts[i];
        if (h->relative && !h->known)
            skew_web_bind(web, r->host_count + 1, i + 1, h->offset);
        if (!in_pairs(h))
            continue;
        skew_web_bind(web, 0, i + 1, h->offset);
        if (h->against > 0 && in_pairs(&r->hosts[h->against - 1]))
            skew_web_bind(web, h->against, i + 1, h->apart);
    }
    return true;
}

static int tear_out(skew_result *r, const skew_web *web) {
    int torn = 0;
    for (int i = 0; i < r->host_count; i++)
        if (in_pairs(&r->hosts[i]) && skew_web_torn(web, i + 1)) {
            r->hosts[i].known = false;
            torn++;
        }
    return torn;
}

static bool is_in_doubt(const skew_host *h) {
    return h->missing || h->unsteady;
}

static skew_verdict plain_verdict(const skew_result *r, const skew_pair *p) {
    const skew_host *a = &r->hosts[p->holder], *b = &r->hosts[p->taker];
    bool served = a->kind == SKEW_SERVED || b->kind == SKEW_SERVED;
    bool alone = (a->kind == SKEW_SERVED && !a->covered) || (b->kind == SKEW_SERVED && !b->covered);
    bool close = tl__mul_sat(p->gap.hi, 100) > tl__mul_sat(r->rule.slack_us, r->rule.warn_percent);
    skew_verdict v = skew_judge_gap(p->gap, r->rule.slack_us);
    if (v == SKEW_SAFE)
        return is_in_doubt(a) || is_in_doubt(b) || close || alone ? SKEW_WARN : SKEW_SAFE;
    return served ? SKEW_WARN : v;
}

static int worse(const void *a, const void *b) {
    const skew_pair *x = a, *y = b;
    if (x->gap.hi != y->gap.hi)
        return x->gap.hi < y->gap.hi ? 1 : -1;
    return x->holder != y->holder ? x->holder - y->holder : x->taker - y->taker;
}

static void plainly(skew_result *r, plain *ret) {
    skew_web web;
    ret->count = 0;
    ret->theft = -1;
    ret->failed = !weave(r, &web);
    while (!ret->failed && !skew_web_close(&web)) {
        ret->failed = tear_out(r, &web) == 0;
        skew_web_end(&web);
        ret->failed = !weave(r, &web) || ret->failed;
    }
    for (int h = 0; h < r->host_count; h++)
        for (int t = 0; t < r->host_count; t++) {
            const skew_host *a = &r->hosts[h], *b = &r->hosts[t];
            bool relative = a->relative && !a->known && b->relative && !b->known;
            if (h == t || !((in_pairs(a) && in_pairs(b)) || relative))
                continue;
            skew_pair *p = &ret->pair[ret->count++];
            *p = (skew_pair){.holder = h, .taker = t};
            p->gap = skew_widened(&r->rule, a, b, skew_web_between(&web, h + 1, t + 1));
            p->verdict = plain_verdict(r, p);
        }
    skew_web_end(&web);
    qsort(ret->pair, ret->count, sizeof *ret->pair, worse);
    for (size_t i = 0; i < ret->count; i++)
        if (ret->pair[i].verdict == SKEW_UNSAFE &&
            (ret->theft < 0 || ret->pair[i].gap.lo > ret->pair[ret->theft].gap.lo))
            ret->theft = (int)i;
}

/* ---- both ------------------------------------------------------------------------------------------ */

static bool same_pair(const skew_pair *a, const skew_pair *b) {
    return a->holder == b->holder && a->taker == b->taker && a->gap.lo == b->gap.lo &&
           a->gap.hi == b->gap.hi && a->verdict == b->verdict;
}

/* Of all pairs those that are to be kept: the worst, the worst thefts, the surest theft. */
static size_t keep_worst(const plain *all, size_t most, skew_pair *kept) {
    size_t n = 0, thefts = 0;
    for (size_t i = 0; i < all->count; i++) {
        bool theft = all->pair[i].verdict == SKEW_UNSAFE && thefts++ < most;
        if (i < most || theft || (int)i == all->theft)
            kept[n++] = all->pair[i];
    }
    return n;
}

static void check_pairs(uint64_t seed, const skew_result *r, const plain *all, size_t most) {
    static skew_pair kept[HOSTS * HOSTS];
    size_t n = keep_worst(all, most, kept);
    if (r->pairs_total != all->count || r->pair_count != n)
        fail_msg("seed %llu: %zu of %zu pairs instead of %zu of %zu", (unsigned long long)seed,
                 r->pair_count, r->pairs_total, n, all->count);
    for (size_t i = 0; i < n; i++)
        if (!same_pair(&r->pairs[i], &kept[i]))
            fail_msg("seed %llu: pair %zu is %d, %d: %lld to %lld instead of %d, %d: %lld to %lld",
                     (unsigned long long)seed, i, r->pairs[i].holder, r->pairs[i].taker,
                     (long long)r->pairs[i].gap.lo, (long long)r->pairs[i].gap.hi, kept[i].holder,
                     kept[i].taker, (long long)kept[i].gap.lo, (long long)kept[i].gap.hi);
}

/* Each pair is judged alike when it is asked for alone. */
static void check_each(uint64_t seed, const skew_result *r, const plain *all) {
    size_t found = 0;
    skew_pair pair;
    for (int h = 0; h < r->host_count; h++)
        for (int t = 0; t < r->host_count; t++)
            found += skew_judge_pair(r, h, t, &pair);
    if (found != all->count)
        fail_msg("seed %llu: %zu pairs instead of %zu", (unsigned long long)seed, found,
                 all->count);
    for (size_t i = 0; i < all->count; i++)
        if (!skew_judge_pair(r, all->pair[i].holder, all->pair[i].taker, &pair) ||
            !same_pair(&pair, &all->pair[i]))
            fail_msg("seed %llu: the pair %d, %d is judged otherwise", (unsigned long long)seed,
                     all->pair[i].holder, all->pair[i].taker);
}

static void check_verdict(uint64_t seed, const skew_result *r, const plain *all) {
    bool doubt = false;
    for (size_t i = 0; i < all->count; i++)
        doubt = doubt || all->pair[i].gap.hi > r->rule.slack_us;
    if ((r->verdict == SKEW_UNSAFE) != (all->theft >= 0) || (doubt && r->verdict == SKEW_SAFE))
        fail_msg("seed %llu: %s", (unsigned long long)seed, skew_verdict_name(r->verdict));
}

static void copy(skew_host *to, const skew_host *from, int n) {
    memcpy(to, from, (size_t)n * sizeof *to);
}

/* Returns the verdict; -1: both fail. */
static int compare(uint64_t seed, const skew_rule *rule, const skew_host *hosts, int n) {
    static plain all;
    static skew_host by_plain[HOSTS], by_few[HOSTS], by_all[HOSTS];
    skew_result p = {.rule = *rule, .hosts = by_plain, .host_count = n};
    skew_result few = {.rule = *rule, .hosts = by_few, .host_count = n};
    skew_result whole = {.rule = *rule, .hosts = by_all, .host_count = n};
    copy(by_plain, hosts, n);
    copy(by_few, hosts, n);
    copy(by_all, hosts, n);
    plainly(&p, &all);
    few.pairs_most = 1 + (size_t)draw(12);
    bool judged = skew_judge(&few);
    if (judged == all.failed)
        fail_msg("seed %llu: judged %d", (unsigned long long)seed, judged);
    if (!judged) {
        skew_result_end(&few);
        return -1;
    }
    assert_true(skew_judge(&whole));
    for (int i = 0; i < n; i++)
        if (by_few[i].known != by_plain[i].known || by_all[i].known != by_plain[i].known)
            fail_msg("seed %llu: host %d is known: %d instead of %d", (unsigned long long)seed, i,
                     by_few[i].known, by_plain[i].known);
    check_pairs(seed, &whole, &all, SKEW_PAIRS_MOST);
    check_pairs(seed, &few, &all, few.pairs_most);
    check_each(seed, &few, &all);
    check_verdict(seed, &few, &all);
    assert_int_equal(few.verdict, whole.verdict);
    assert_string_equal(few.reason, whole.reason);
    assert_int_equal(few.advices, whole.advices);
    for (int i = 0; i < few.advices; i++)
        assert_string_equal(few.advice[i], whole.advice[i]);
    int verdict = (int)few.verdict;
    skew_result_end(&few);
    skew_result_end(&whole);
    return verdict;
}

/* ---- random fleets -------------------------------------------------------------------------------- */

typedef struct {
    int64_t far, wide; /* us: of offsets */
    int apart;         /* of so many hosts one is measured against another; 0: none */
    bool sound;        /* all are measured, and agree */
    bool large;        /* hosts with more pairs than are kept by default */
    int edges;         /* some edges are near so small a part of the largest numbers; 0: none */
} world;

static int64_t near_edge(int part) {
    static const int64_t edges[] = {INT64_MIN,          INT64_MAX,           SKEW_UNBOUNDED,
                                    -SKEW_UNBOUNDED,    SKEW_UNBOUNDED / 2,  -SKEW_UNBOUNDED / 2,
                                    2 * SKEW_UNBOUNDED, -2 * SKEW_UNBOUNDED, INT64_MAX / 100,
                                    INT64_MIN / 100};
    return tl__add_sat(edges[draw(10)] / part, draw(5) - 2);
}

static tl_interval draw_interval(const world *world) {
    int64_t at = draw(world->far) - world->far / 2;
    tl_interval i = {at - draw(world->wide), at + draw(world->wide)};
    if (world->edges && draw(3) == 0)
        i.hi = near_edge(world->edges);
    if (world->edges && draw(3) == 0)
        i.lo = near_edge(world->edges);
    if (i.lo > i.hi && (world->sound || draw(8)))
        i = (tl_interval){i.hi, i.lo};
    return i;
}

static skew_host draw_host(const world *world, int i, int n) {
    static const skew_kind kinds[] = {SKEW_CLOCK, SKEW_CLOCK, SKEW_CLOCK,  SKEW_CLOCK, SKEW_CLOCK,
                                      SKEW_CLOCK, SKEW_REDIS, SKEW_SERVED, SKEW_ASIDE, SKEW_REMARK};
    skew_host h = {.instrument = draw(8) ? "agent" : "passive",
                   .kind = kinds[draw(10)],
                   .known = draw(10) > 0,
                   .covered = draw(2),
                   .missing = draw(30) == 0,
                   .unsteady = draw(30) == 0,
                   .age_ms = draw(60000),
                   .status = "ok"};
    (void)snprintf(h.name, sizeof h.name, "host-%d", i);
    h.offset = draw_interval(world);
    h.relative = !h.known && h.kind == SKEW_CLOCK && draw(2) &&
                 (h.offset.lo <= h.offset.hi || draw(20) == 0);
    h.slew_ppm = draw(3) ? 0 : (int32_t)draw(draw(2) ? 600 : 2000000);
    h.has_drift = draw(4) == 0;
    h.drift_ppb.lo = draw(2000000) - 1000000;
    h.drift_ppb.hi = h.drift_ppb.lo + draw(300000);
    if (world->sound) {
        h.kind = draw(8) ? SKEW_CLOCK : SKEW_REDIS;
        h.known = true;
        h.missing = h.unsteady = h.relative = h.has_drift = false;
        h.slew_ppm = draw(3) ? 0 : (int32_t)draw(600);
    }
    if (world->apart && draw(world->apart) == 0 && n > 1) {
        int other = (int)draw(draw(2) ? 1 : n);
        h.against = other == i ? 0 : other + 1;
        h.apart = draw_interval(world);
    }
    return h;
}

/* So that most of what is measured between hosts does not contradict the rest. */
static void agree(const world *world, skew_host *hosts, int n) {
    for (int i = 0; i < n; i++) {
        tl_interval *apart = &hosts[i].apart;
        if (hosts[i].against == 0 || world->edges || (!world->sound && draw(6) == 0))
            continue;
        const tl_interval *a = &hosts[hosts[i].against - 1].offset, *b = &hosts[i].offset;
        int64_t middle = (b->lo + b->hi) / 2 - (a->lo + a->hi) / 2, by = 1 + draw(world->wide);
        *apart = (tl_interval){middle - by, middle + by};
    }
}

static int one_fleet(uint64_t seed, const world *world) {
    static skew_host hosts[HOSTS];
    int n = world->large ? HOSTS - (int)draw(20) : (int)draw(draw(8) ? 12 : USUAL + 1);
    int64_t life = (1 + draw(120000)) * MS, slack = draw(4000 * MS) - 500 * MS;
    if (draw(3) == 0)
        slack = draw(world->far + 2000) - 500;
    skew_rule rule = {SKEW_HOLD(life, life - slack), .warn_percent = (int32_t)draw(101)};
    rule.drift_ppm = (int32_t)draw(500);
    rule.early_us = draw(3) ? 0 : draw(2000 * MS);
    rule.late_us = draw(3) ? 0 : draw(3000 * MS);
    for (int i = 0; i < n; i++)
        hosts[i] = draw_host(world, i, n);
    agree(world, hosts, n);
    return compare(seed, &rule, hosts, n);
}

static void many_fleets(const world *world, uint64_t seeds) {
    int seen[5] = {0};
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        seed_begin(seed);
        seen[1 + one_fleet(seed, world)]++;
    }
    print_message("%d safe, %d warn, %d unsafe, %d unknown, %d failed\n", seen[1], seen[2], seen[3],
                  seen[4], seen[0]);
    assert_true(seen[2] > 0 && (world->large || seen[3] > 0));
    assert_true(!world->sound || seen[1] > (int)seeds / 50);
}

TEST(clocks_measured_against_the_server_are_judged_as_plainly) {
    many_fleets(&(world){.far = 3000 * MS, .wide = 500 * MS}, 30000);
    many_fleets(&(world){.far = 3000 * MS, .wide = 100}, 10000);
}

TEST(a_fleet_of_which_all_is_known_is_judged_as_plainly) {
    many_fleets(&(world){.far = 1500 * MS, .wide = 100 * MS, .sound = true}, 20000);
    many_fleets(&(world){.far = 1500 * MS, .wide = 100 * MS, .apart = 3, .sound = true}, 20000);
}

TEST(more_pairs_than_are_kept_are_judged_as_plainly) {
    many_fleets(&(world){.far = 1500 * MS, .wide = 500 * MS, .apart = 9, .large = true}, 40);
    many_fleets(&(world){.far = 300 * MS, .wide = 50 * MS, .large = true, .sound = true}, 40);
    many_fleets(&(world){.far = 3, .wide = 2, .large = true}, 40);
}

TEST(equal_gaps_are_kept_in_the_order_of_their_hosts) {
    many_fleets(&(world){.far = 3, .wide = 2}, 20000);
    many_fleets(&(world){.far = 1, .wide = 1}, 5000);
}

TEST(clocks_measured_against_each_other_are_judged_as_plainly) {
    many_fleets(&(world){.far = 3000 * MS, .wide = 500 * MS, .apart = 2}, 20000);
    many_fleets(&(world){.far = 3000 * MS, .wide = 500 * MS, .apart = 8}, 20000);
    many_fleets(&(world){.far = 20, .wide = 10, .apart = 3}, 20000);
}

/* A path over some edges is no sum of edges that are limited, so those between hosts are smaller. */
TEST(edges_near_the_largest_numbers_are_judged_as_plainly) {
    many_fleets(&(world){.far = 3000 * MS, .wide = 500 * MS, .edges = 1}, 30000);
    many_fleets(&(world){.far = 3000 * MS, .wide = 500 * MS, .apart = 3, .edges = 256}, 30000);
}
