/*
 * The simulator: the shipped machines and scripts, hostile schedules, one seed. See README.md.
 */
#pragma once

#include <stdio.h>

#include "config.h"
#include "stats.h"

typedef struct sim_world sim_world;

typedef struct {
    bool failed;
    const char *kind; /**< failed: which promise was broken; */
    char what[240];   /**< the same in full */
    sim_ns at;        /**< failed: when; else the end */
    uint64_t hash;    /**< of everything that happened */
} sim_result;

/** Worlds are used again from run to run, which is what makes runs fast. */
sim_world *sim_new(void);
void sim_free(sim_world *w);

/** Run a configuration to its end, or to the first broken promise. Adds to stats. tell: keep the
 *  story. */
sim_result sim_run(sim_world *w, const sim_config *config, bool tell, sim_stats *stats);

void sim_stats_add(sim_stats *to, const sim_stats *from);

/** What led there, of the key that it is about. */
void sim_print_story(const sim_world *w, FILE *to);

/** Find what can be left out of a seed's run that has failed: `words` (which may hold changes already)
 *  gets further ones for sim_config_change. The result is that of the smallest run. */
sim_result sim_shrink(sim_world *w, uint64_t seed, sim_result failed, char *words, size_t size);

/** Change settings, as in "ttl=100 off=pause,stale cast=tA0tB0". NULL, or where a word isn't one. */
const char *sim_config_change(sim_config *config, const char *words);

/** Print the words that sim_config_change knows. */
void sim_print_settings(FILE *to);

/** A scenario: many seeds, changed alike. */
typedef struct {
    const char *name, *says; /**< says: what is to be seen in it */
    uint64_t seed, runs;
    const char *changes;
    /** Of the sum of all runs: what must, and what must not have happened. NULL: anything may. */
    bool (*expect)(const sim_stats *stats);
} sim_scenario;

extern const sim_scenario sim_scenarios[];
extern const size_t sim_scenario_count;

/** NULL: there is none of that name. */
const sim_scenario *sim_scenario_named(const char *name);

/** Run seeds until one fails; changes may be NULL. *ret_seed: the one that failed. */
sim_result sim_run_many(sim_world *w, uint64_t seed, uint64_t runs, const char *changes,
                        sim_stats *stats, uint64_t *ret_seed);
