/*
 * What the soaks have in common: their settings, and what each fault has cost.
 */
#pragma once

#include "locks.h"

/** How often a fault struck, and how long there was no service then. */
typedef struct {
    int struck;
    int64_t sum_ms, longest_ms;
} soak_tally;

/** A number from the environment. */
long soak_number(const char *variable, long otherwise);
/** SEED, or one by the clock: drawn from it from now on, and printed. */
void soak_seed(void);

void soak_struck(soak_tally *tally, int64_t pause_ms);
void soak_print(const char *name, const soak_tally *tally);
/** The line of a run's end that goes into tests/README.md. */
void soak_sum(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** A lock that is held all the time, from a return on until soak_let_go. */
void soak_hold(tl_client *client, const char *key, int64_t ttl_ms, int64_t within_ms);
/** Fails when nothing remains of it, and nobody was told that it is lost. */
void soak_look_at_held(void);
/** Has it been told that it is lost? */
bool soak_is_lost(void);
/** true: it was lost meanwhile, for the reason *ret_why. */
bool soak_let_go(int *ret_why);
