/*
 * The file of tidelock run --metrics: how the last run went, and the counters of its client.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tidelock/tidelock.h>

typedef struct {
    const char *key;
    const char *state; /**< as in the JSON */
    int exit_status;
    int64_t waited_ms;
    int64_t held_ms;  /**< negative: the lock was not acquired */
    int64_t ended_us; /**< by the wall clock */
    tl_client *client;
} run_ending;

/** Replace the file. Returns 0, or the exit status after a message. */
int run_metrics_write(const char *path, const run_ending *ending);
