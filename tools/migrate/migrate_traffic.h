/*
 * Is any legacy client still active? Reads the server's counts and its list of clients repeatedly,
 * as long as the caller watches.
 */
#pragma once

#include "migrate/migrate_events.h"
#include "migrate/migrate_monitor.h"

/** The counts of INFO commandstats, since the server began to count. */
typedef struct {
    int64_t calls;   /**< SETNX and GETSET, by any client on any key */
    int64_t refused; /**< the same that it refused to execute; -1: not reported (before 6.2) */
    int64_t all;     /**< all commands: fewer than before shows that the counts were reset */
} migrate_counts;

typedef struct {
    migrate_link *migration;
    migrate_traffic *seen;
    int64_t began_ms;
    bool counted; /**< of the last reply */
    migrate_counts base, counts;
    int64_t denials_asked; /**< how many refusals were counted when ACL LOG was read */
    migrate_monitor monitor;
    int64_t monitor_ms, doubt_ms, monitor_until_ms;
    bool throughout; /**< MONITOR, if it is read, has been read since the watch began */
    migrate_events events;
    const char *keys;
    char server[MIGRATE_RUN_ID]; /**< run ID of the server with these counts; "": not reported */
    char reign[MIGRATE_RUN_ID];  /**< of this server as a master; "": not reported */
    int64_t reign_ms;            /**< when that was read */
    unsigned ups;                /**< of the connection on which that was read */
    int64_t listed_ms;           /**< when the list of clients was read, */
    int listed_for;              /**< and how many stragglers were known then */
} migrate_watch;

/** Read INFO commandstats. False: the server doesn't count commands, or a count can't be read. Pure. */
bool migrate_read_counts(tl_bytes info, migrate_counts *ret);

/** Read ACL LOG: the denials of SETNX and GETSET in the last `since_ms`. keys: a denied key counts if it
 *  fits. Pure. */
void migrate_read_denials(const tl_reply *log, const char *keys, int64_t since_ms,
                          migrate_denials *ret);

/** Fill in connections and suspects from CLIENT LIST, without our own. Pure. */
void migrate_list_clients(tl_bytes list, migrate_traffic *traffic);

#define MIGRATE_THROUGHOUT (INT64_MAX / 4) /**< for the whole watch */

/** Look once, without a watch: counts since the server began to count, and every denial in ACL LOG. */
void migrate_watch_glance(migrate_link *migration, const char *keys, migrate_traffic *ret);

/** Begin to watch; the first request shows whether the server counts. Never fails: data that isn't
 *  available is missing in `ret`. monitor_ms: how long to read MONITOR, for keys like `keys`; 0:
 *  don't. doubt_ms: how long to read it when the first call is counted and MONITOR isn't read. */
void migrate_watch_begin(migrate_watch *watch, migrate_link *migration, const char *keys,
                         int64_t monitor_ms, int64_t doubt_ms, migrate_traffic *ret);

/** Watch for ms, or until a signal comes. */
void migrate_watch_pause(migrate_watch *watch, signals *sigs, int64_t ms);

/** Read the counts again. False: the server was replaced or restarted, so the earlier counts prove
 *  nothing; the watch has begun again. */
bool migrate_watch_look(migrate_watch *watch);

/** Read the counts a last time, and end. False: the same, and nothing was proved. */
bool migrate_watch_end(migrate_watch *watch);
