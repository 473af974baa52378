/*
 * make sim: run seeds, and print what happened in them; or the story of one.
 *
 *   RUNS=n        how many seeds (10000)
 *   SEED=n        the first one; without RUNS only this one, with its story
 *   SCENARIO=name the seeds, changes and expectations of a named scenario
 *   CHANGES="..." settings to change in every run, as a failure prints them
 *   SHRINK=0      name the seed of a failure, and leave it at that
 *   LIST=1        print the scenarios, the faults and the settings, and run nothing
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim.h"

#define RUNS 10000
#define MESSAGE_SIZE 600

static const char *setting(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static void print_stats(const sim_stats *s, double seconds) {
#define PRINT(name, words) (void)printf("%14lld  %s\n", (long long)s->name, words);
    SIM_STATS(PRINT)
    if (s->questions + s->maps > 0) {
        SIM_SENTINEL_STATS(PRINT)
    }
    if (s->maps > 0) {
        SIM_CLUSTER_STATS(PRINT)
    }
    if (s->etcd_changes > 0) {
        SIM_ETCD_STATS(PRINT)
    }
    if (s->votes > 0) {
        SIM_QUORUM_STATS(PRINT)
    }
    if (s->stamp_takes + s->stamps_over > 0) {
        SIM_STAMP_STATS(PRINT)
    }
    if (s->phases_followed + s->steps_early > 0) {
        SIM_PHASE_STATS(PRINT)
    }
    if (s->tool_runs > 0) {
        SIM_TOOL_STATS(PRINT)
    }
    if (s->drop_in_takes > 0) {
        SIM_DROP_IN_STATS(PRINT)
    }
#undef PRINT
    (void)printf(
        "%14.1f  seconds of one core: %.2f million machine steps and server commands each\n",
        seconds, (double)(s->steps + s->commands) / seconds / 1e6);
}

static void tell(sim_world *w, uint64_t seed, const char *changes) {
    sim_config c;
    sim_config_draw(&c, seed);
    (void)sim_config_change(&c, changes);
    (void)sim_run(w, &c, true, NULL);
    sim_print_story(w, stdout);
}

static void explain(sim_world *w, uint64_t seed, const char *changes, sim_result failed) {
    char words[MESSAGE_SIZE] = "";
    (void)snprintf(words, sizeof words, "%s", changes);
    const char *shrink = setting("SHRINK");
    (void)printf("seed %llu: %s\n", (unsigned long long)seed, failed.what);
    if (shrink && strcmp(shrink, "0") == 0)
        return;
    (void)sim_shrink(w, seed, failed, words, sizeof words);
    tell(w, seed, words);
    (void)printf("again: make sim SEED=%llu%s%s%s\n", (unsigned long long)seed,
                 *words ? " CHANGES='" : "", words, *words ? "'" : "");
}

static bool run(sim_world *w, uint64_t seed, uint64_t runs, const char *changes,
                const sim_scenario *scenario) {
    struct timespec from, to;
    sim_stats stats = {0};
    uint64_t failed = 0;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    sim_result r = sim_run_many(w, seed, runs, changes, &stats, &failed);
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    if (r.failed) {
        explain(w, failed, changes, r);
        return false;
    }
    print_stats(&stats,
                (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9);
    if (!scenario || !scenario->expect || scenario->expect(&stats))
        return true;
    (void)printf("seed %llu: scenario %s does not show: %s\n", (unsigned long long)seed,
                 scenario->name, scenario->says);
    return false;
}

static void print_lists(void) {
    (void)printf("SCENARIO=\n");
    for (size_t i = 0; i < sim_scenario_count; i++)
        (void)printf("  %-28s %s\n", sim_scenarios[i].name, sim_scenarios[i].says);
    sim_print_settings(stdout);
}

int main(void) {
    if (setting("LIST")) {
        print_lists();
        return 0;
    }
    const char *seed = setting("SEED"), *runs = setting("RUNS"), *name = setting("SCENARIO");
    const char *changes = setting("CHANGES");
    const sim_scenario *scenario = name ? sim_scenario_named(name) : NULL;
    sim_config c;
    if (name && !scenario) {
        (void)printf("there is no scenario %s\n", name);
        return 2;
    }
    if (!changes)
        changes = scenario ? scenario->changes : "";
    uint64_t first = seed ? strtoull(seed, NULL, 10) : scenario ? scenario->seed : 1;
    sim_config_draw(&c, first);
    const char *bad = sim_config_change(&c, changes);
    if (bad) {
        (void)printf("CHANGES: not a setting: %s\n", bad);
        return 2;
    }
    uint64_t n = runs ? strtoull(runs, NULL, 10) : scenario ? scenario->runs : seed ? 1 : RUNS;
    sim_world *w = sim_new();
    bool ok = run(w, first, n, changes, scenario);
    if (ok && n == 1)
        tell(w, first, changes);
    sim_free(w);
    return ok ? 0 : 1;
}
