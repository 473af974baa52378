/*
 * Says in plain words what is known of legacy clients, from which source, and what that source can't show.
 * Pure.
 */
#pragma once

#include "migrate/migrate_judge.h"

typedef struct {
    const char *name; /**< "counts", "monitor", "events", "acl", "acl_log" or "clients" */
    bool used;        /**< false: it could not be read, and `says` has the reason */
    char says[600];
    const char *limit; /**< what it can't show */
} migrate_source;

#define MIGRATE_SOURCES 6

/** The sources, the strongest first. Returns their number. */
int migrate_sources(const migrate_traffic *traffic, migrate_source ret[MIGRATE_SOURCES]);
