/*
 * Naming those who still lock as legacy clients do: MONITOR on a connection of its own, for a bounded time and
 * not while the server has to keep much for us.
 */
#pragma once

#include "migrate/migrate_link.h"

#define MIGRATE_BACKLOG_MOST (1 << 20) /**< bytes that the server may keep for us */

typedef struct {
    migrate_traffic *seen;
    const char *keys; /**< the pattern of the locks' names */
    tl_conn *conn;    /**< NULL: not listening */
    bool began, failed, marked;
    int64_t began_ms;
    char marker[64];
} migrate_monitor;

/** Learn from a line of MONITOR: a straggler, or the end. Pure. */
void migrate_monitor_line(migrate_monitor *monitor, tl_bytes line);

/** Begin to listen, and return when every later command will be heard. Blocks for 5 s at most. When it can't be had,
 *  seen->monitor_why says why. */
void migrate_monitor_begin(migrate_monitor *monitor, migrate_link *migration, const char *keys,
                           migrate_traffic *seen);

/** Listen for so long, or until a signal comes. */
void migrate_monitor_listen(migrate_monitor *monitor, signals *sigs, int64_t ms);

/** How many bytes the server keeps for us, out of CLIENT LIST; beyond the bound it is over. */
void migrate_monitor_cost(migrate_monitor *monitor, tl_bytes list);

/** End it at once, whatever is still to be heard. No-op when it is not listening. */
void migrate_monitor_stop(migrate_monitor *monitor);

/** End it, once everything is heard that was executed before this call: then whatever the server has
 *  counted until now is accounted for. No-op when it is not listening. */
void migrate_monitor_end(migrate_monitor *monitor, migrate_link *migration);
