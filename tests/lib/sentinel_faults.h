/*
 * What befalls a master, its replicas and their Sentinels, one row each: while clients go on, and nothing is mended
 * between. On return another is the master where the fault makes one of another, and all processes run again.
 */
#pragma once

#include "real_fleet.h"

typedef struct {
    const char *name;
    void (*strike)(real_fleet *f);
    bool gates; /**< only in a fleet with them */
} sentinel_fault;

/** NULL behind the last. */
const sentinel_fault *sentinel_fault_at(int i);
/** By its name, which must be one. */
const sentinel_fault *sentinel_fault_named(const char *name);

/** What a client needs for the promise that no two hold a lock at once, over each of these faults: quiet_ms of the lifetime,
 *  and of what an answer of a former master may count for. */
#define SENTINEL_QUIET_MS(ttl_ms) ((ttl_ms) + 1000)
