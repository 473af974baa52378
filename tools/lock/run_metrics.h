/*
 * What tidelock run --metrics writes: how the last run went, and what its client has counted.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tidelock/tidelock.h>

typedef struct {
    const char *key;
    const char *state; /**< as JSON says it */
    int exit_status;
    int64_t waited_ms;
    int64_t held_ms;  /**< negative: the lock was not had */
    int64_t ended_us; /**< by the wall clock */
    tl_client *client;
} run_ending;

/** Replace the file. Returns 0, or the exit status after a message. */
int run_metrics_write(const char *path, const run_ending *ending);
