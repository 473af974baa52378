/*
 * Is any legacy client still active? Reads the server's counts and its list of clients repeatedly,
 * as long as the caller watches.
 */
#pragma once

#include "migrate/migrate_monitor.h"

typedef struct {
    migrate_link *migration;
    migrate_traffic *seen;
    int64_t began_ms, base;
    migrate_monitor monitor;
    int64_t monitor_ms, monitor_until_ms;
    const char *keys;
    char server[MIGRATE_RUN_ID]; /**< run ID of the server with these counts; "": not reported */
    unsigned ups;                /**< of the connection on which that was read */
    int64_t listed_ms;           /**< when the list of clients was read, */
    int listed_for;              /**< and how many stragglers were known then */
} migrate_watch;

/** How often SETNX and GETSET have run so far, from INFO commandstats; -1: not reported. Pure. */
int64_t migrate_count_calls(tl_bytes info);

/** Fill in connections and suspects from CLIENT LIST, without our own. Pure. */
void migrate_list_clients(tl_bytes list, migrate_traffic *traffic);

#define MIGRATE_THROUGHOUT (INT64_MAX / 4) /**< for the whole watch */

/** Begin to watch; the first request shows whether the server counts. Never fails: data that isn't
 *  available is missing in `ret`. monitor_ms: how long to read MONITOR, for keys like `keys`; 0:
 *  don't. */
void migrate_watch_begin(migrate_watch *watch, migrate_link *migration, const char *keys,
                         int64_t monitor_ms, migrate_traffic *ret);

/** Watch for ms, or until a signal comes. */
void migrate_watch_pause(migrate_watch *watch, signals *sigs, int64_t ms);

/** Read the counts again. False: the server was replaced or restarted, so the earlier counts prove
 *  nothing; the watch has begun again. */
bool migrate_watch_look(migrate_watch *watch);

/** Read the counts a last time, and end. False: the same, and nothing was proved. */
bool migrate_watch_end(migrate_watch *watch);
