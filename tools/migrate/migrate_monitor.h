/*
 * Finds clients that still lock as legacy clients do: reads MONITOR on its own connection, for a
 * bounded time, and not while the server has to buffer much.
 */
#pragma once

#include "migrate/migrate_link.h"

#define MIGRATE_BACKLOG_MOST (1 << 20) /**< most bytes that the server may buffer for us */

typedef struct {
    migrate_traffic *seen;
    const char *keys; /**< the pattern of the locks' names */
    tl_conn *conn;    /**< NULL: not reading */
    bool began, failed, marked;
    int64_t began_ms;
    int64_t unseen; /**< calls that were counted before it began */
    char marker[64];
} migrate_monitor;

/** Read a line of MONITOR: a straggler's command, or the end marker. Pure. */
void migrate_monitor_line(migrate_monitor *monitor, tl_bytes line);

/** Begin to read MONITOR; returns once every later command will be received. Blocks at most 5 s. If
 *  MONITOR is not available, seen->monitor_why has the reason. */
void migrate_monitor_begin(migrate_monitor *monitor, migrate_link *migration, const char *keys,
                           migrate_traffic *seen);

/** Read for ms, or until a signal comes. */
void migrate_monitor_listen(migrate_monitor *monitor, signals *sigs, int64_t ms);

/** Read what has come, without waiting for more. */
void migrate_monitor_take(migrate_monitor *monitor);

/** Read from CLIENT LIST how many bytes the server buffers for us; above the bound, reading
 *  ends. */
void migrate_monitor_cost(migrate_monitor *monitor, tl_bytes list);

/** End at once, without the remaining lines. No-op if not reading. */
void migrate_monitor_stop(migrate_monitor *monitor);

/** End after all commands executed before this call were received: then all that the server has
 *  counted since it began is accounted for. No-op if not reading. */
void migrate_monitor_end(migrate_monitor *monitor, migrate_link *migration);
