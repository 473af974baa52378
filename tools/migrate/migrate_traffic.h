/*
 * Is any legacy client still at work? What the server counts and lists, asked again and again for
 * as long as somebody wants to watch.
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
    char server[MIGRATE_RUN_ID]; /**< whose counts these are; "": it doesn't tell */
    unsigned ups;                /**< of the connection by which that is known */
} migrate_watch;

/** How often SETNX and GETSET have run so far, out of INFO commandstats; -1: it doesn't tell. Pure. */
int64_t migrate_count_calls(tl_bytes info);

/** Fill in connections and suspects out of CLIENT LIST, but for our own. Pure. */
void migrate_list_clients(tl_bytes list, migrate_traffic *traffic);

#define MIGRATE_THROUGHOUT (INT64_MAX / 4) /**< as long as is watched */

/** Begin to watch; the first question decides whether the server counts. Never fails: what can't be had is
 *  missing in `ret`. monitor_ms: how long to read MONITOR, for keys like `keys`; 0: not at all. */
void migrate_watch_begin(migrate_watch *watch, migrate_link *migration, const char *keys,
                         int64_t monitor_ms, migrate_traffic *ret);

/** Watch for so long, or until a signal comes. */
void migrate_watch_pause(migrate_watch *watch, signals *sigs, int64_t ms);

/** Look again. False: another server answers by now, or the same that was started again, whose counts say nothing
 *  of the time before: the watch has begun anew. */
bool migrate_watch_look(migrate_watch *watch);

/** Look for the last time, and end. False: the same, and nothing was watched. */
bool migrate_watch_end(migrate_watch *watch);
