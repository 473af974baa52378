/*
 * The simulator's seeds break no promise, its scenarios show what they say, and it simulates what it
 * says: nothing that can happen is missing, and the same seed is the same run.
 *
 *   ALL=1     all the seeds, and all scenarios with all of theirs. Otherwise a sample: 100 seeds,
 *             those that have found bugs, and each ninth scenario until it has shown what it says, or for 100 seeds
 *
 * timeout: 600
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"
#include "tests.h"
#include "transport/gateway.h"

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define SLOWER 10
#elif defined __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(undefined_behavior_sanitizer)
#define SLOWER 10
#endif
#endif
#ifndef SLOWER
#define SLOWER 1
#endif

#define SAMPLE 100 /* seeds */
#define BATCH 10   /* seeds of a scenario, after which it is looked at again */
#define MOST 100   /* seeds of one that has not shown it by then */
#define EACH 9     /* of the scenarios */
#define MESSAGE_SIZE 600

static sim_world *world;
static sim_stats stats; /* of all that the tests have run so far */
static bool whole;
static uint64_t seeds;

static int set_up(void **state) {
    (void)state;
    world = sim_new();
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    sim_free(world);
    return 0;
}

/* Show the story of a run that fails. */
static void must_pass(sim_result r, uint64_t seed, const char *changes) {
    sim_config c;
    if (!r.failed)
        return;
    sim_config_draw(&c, seed);
    (void)sim_config_change(&c, changes);
    (void)sim_run(world, &c, true, NULL);
    sim_print_story(world, stdout);
    fail_msg("seed %llu: %s: make sim SEED=%llu CHANGES='%s'", (unsigned long long)seed, r.what,
             (unsigned long long)seed, changes);
}

/* Returns what happened in these runs. */
static sim_stats pass_all(uint64_t first, uint64_t runs, const char *changes) {
    sim_stats own = {0};
    uint64_t seed = 0;
    sim_result r = sim_run_many(world, first, runs, changes, &own, &seed);
    must_pass(r, seed, changes);
    sim_stats_add(&stats, &own);
    return own;
}

TEST(seeds_break_no_promise) {
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        sim_config c;
        sim_stats own = {0};
        sim_config_draw(&c, seed);
        must_pass(sim_run(world, &c, false, &own), seed, "");
        if (sim_config_whole(&c))
            assert_int_equal(own.two_holders, 0);
        sim_stats_add(&stats, &own);
    }
    assert_int_equal(stats.runs, seeds);
    assert_in_range(stats.broken, seeds / 64, seeds / 12);
}

/* Half of them: they are longer. */
TEST(seeds_with_stamps_break_no_promise) {
#ifdef TL_COMPAT
    sim_stats own = pass_all(1, seeds / 2, "stamps");
    assert_in_range(own.legacy_broken, seeds / 100, seeds / 25);
#else
    print_message("SKIP: without compat\n");
    skip();
#endif
}

/* An eighth of them: these are longer still. */
TEST(migrations_break_no_promise) {
#ifdef TL_COMPAT
    (void)pass_all(1, seeds / 8, "migration");
#else
    print_message("SKIP: without compat\n");
    skip();
#endif
}

/* And of these: a question to three Sentinels is six requests. */
TEST(failovers_by_sentinels_break_no_promise) {
    (void)pass_all(1, seeds / 16, "sentinel");
}

TEST(slots_that_move_and_masters_of_a_cluster_break_no_promise) {
    (void)pass_all(1, seeds / 8, "cluster-fleet");
}

TEST(phases_of_slots_break_no_promise) {
#ifdef TL_COMPAT
    (void)pass_all(1, seeds / 16, "cluster-phases");
#else
    print_message("SKIP: without compat\n");
    skip();
#endif
}

TEST(slots_that_move_at_one_moment_break_no_promise) {
    (void)pass_all(1, seeds / 16, "cluster-atomic");
}

TEST(stamps_in_a_cluster_break_no_promise) {
#ifdef TL_COMPAT
    (void)pass_all(1, seeds / 8, "cluster-stamps");
#else
    print_message("SKIP: without compat\n");
    skip();
#endif
}

TEST(votes_of_independent_servers_break_no_promise) {
    (void)pass_all(1, seeds / 8, "quorum");
}

/* The library speaks to none without jansson. */
static bool can_run(const char *changes) {
    return strncmp(changes, "etcd", 4) != 0 || tl__gateway_works();
}

TEST(members_of_an_etcd_break_no_promise) {
    if (!can_run("etcd"))
        skip();
    (void)pass_all(1, seeds / 8, "etcd");
}

/* All of its seeds; of a sample, no more than it takes. Returns whether it was to be seen by then, or may be later. */
static bool shows(const sim_scenario *s) {
    sim_stats own = {0};
    for (uint64_t done = 0; done < s->runs;) {
        if (!whole && done >= MOST)
            return true;
        uint64_t runs = whole || s->runs - done < BATCH ? s->runs - done : BATCH;
        sim_stats more = pass_all(s->seed + done, runs, s->changes);
        sim_stats_add(&own, &more);
        done += runs;
        if (!whole && (!s->expect || s->expect(&own)))
            return true;
    }
    return !s->expect || s->expect(&own);
}

TEST(each_scenario_shows_what_it_says) {
    for (size_t i = 0; i < sim_scenario_count; i++) {
        const sim_scenario *s = &sim_scenarios[i];
        if (!can_run(s->changes) || (!whole && s->runs > 1 && i % EACH != 0))
            continue;
        if (!shows(s))
            fail_msg("%s: not to be seen: %s", s->name, s->says);
    }
}

/* After those above, if all of them have run. */
TEST(everything_has_happened) {
    if (!whole)
        return;
#define HAPPENED(name, words)                                                                      \
    if (stats.name == 0)                                                                           \
        fail_msg("never: %s", words);
    SIM_STATS(HAPPENED)
    SIM_SENTINEL_STATS(HAPPENED)
    SIM_CLUSTER_STATS(HAPPENED)
    SIM_QUORUM_STATS(HAPPENED)
    if (can_run("etcd")) {
        SIM_ETCD_STATS(HAPPENED)
    }
#ifdef TL_COMPAT
    SIM_STAMP_STATS(HAPPENED)
    SIM_PHASE_STATS(HAPPENED)
    SIM_TOOL_STATS(HAPPENED)
    SIM_DROP_IN_STATS(HAPPENED)
#endif
#undef HAPPENED
}

TEST(a_seed_is_always_the_same_run) {
    sim_world *fresh = sim_new();
    for (uint64_t seed = 100; seed < 100 + (whole ? 200U : 40U) / SLOWER; seed++) {
        sim_config c;
        sim_config_draw(&c, seed);
#ifdef TL_COMPAT
        if (seed % 2)
            assert_null(sim_config_change(&c, seed % 4 == 1 ? "stamps" : "migration"));
#endif
        if (seed % 8 == 0 && can_run("etcd"))
            assert_null(sim_config_change(&c, "etcd"));
        sim_result a = sim_run(world, &c, false, NULL);
        sim_result b = sim_run(fresh, &c, true, NULL);
        assert_true(a.hash == b.hash && a.at == b.at);
    }
    sim_free(fresh);
}

/* A server whose clock gains more than is assumed, which nobody has been told. */
TEST(a_broken_promise_is_found_shrunk_and_told) {
    static const char broken[] = "server-ppb=9000000 ttl=8000 delay-us=100";
    char words[MESSAGE_SIZE];
    char *story = NULL;
    size_t size = 0;
    uint64_t seed = 0;
    sim_result r = sim_run_many(world, 1, 100, broken, &(sim_stats){0}, &seed);
    assert_true(r.failed);
    memcpy(words, broken, sizeof broken);
    sim_result small = sim_shrink(world, seed, r, words, sizeof words);
    assert_true(small.failed);
    sim_config c;
    sim_config_draw(&c, seed);
    assert_null(sim_config_change(&c, words));
    assert_true(sim_run(world, &c, true, NULL).failed);
    FILE *to = open_memstream(&story, &size);
    sim_print_story(world, to);
    (void)fclose(to);
    assert_non_null(strstr(story, "FAILS: "));
    assert_non_null(strstr(story, small.what));
    free(story);
}

TEST(settings_are_read_to_the_word) {
    sim_config c;
    sim_config_draw(&c, 1);
    assert_null(sim_config_change(&c, "ttl=123 off=all pause=77 cast=tA0jB1 until=5  late-us=0"));
    assert_int_equal(c.ttl_ms, 123);
    assert_int_equal(c.fault[SIM_PAUSE], 77);
    assert_int_equal(c.fault[SIM_CRASH], 0);
    assert_int_equal(c.actors, 2);
    assert_int_equal(c.hosts, 2);
    assert_int_equal(c.keys, 2);
    assert_int_equal(c.until, 5000000);
    assert_string_equal(sim_config_change(&c, "ttl=1 tll=2 hold=3"), "tll=2 hold=3");
    assert_non_null(sim_config_change(&c, "off=nothing"));
    assert_non_null(sim_config_change(&c, "cast=xA0"));
    assert_non_null(sim_config_change(&c, "without=9"));
}

int main(void) {
    whole = tests_whole();
    seeds = whole ? 2000 / SLOWER : SAMPLE;
    return tests_run_group("tests", 0, set_up, tear_down);
}
