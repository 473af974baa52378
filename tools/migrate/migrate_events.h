/*
 * Finds writes that only a legacy client makes, by the server's keyspace events: where its owner has switched
 * them on, and without MONITOR. They show a value that was set without a lifetime, also by SET, and on which
 * key; never by whom. An attempt that fails causes no event, so events never show that no legacy client is left.
 */
#pragma once

#include "migrate/migrate_link.h"

typedef struct {
    migrate_traffic *seen; /**< NULL: not begun */
    migrate_link *migration;
    const char *keys; /**< the pattern of the locks' names */
    tl_conn *conn;    /**< NULL: not receiving */
    bool began, ended, failed;
    int64_t began_ms;
    /* a write, of which the next event says whether it left a lifetime */
    bool open;
    int64_t open_ms;
    uint64_t channel; /**< the hash of its channel */
    char key[KEY_SHOWN];
} migrate_events;

/** Do these classes of events, as CONFIG GET has them, show all that is needed? Pure. */
bool migrate_events_suffice(tl_bytes classes);

/** Read a message. Pure. */
void migrate_events_message(migrate_events *events, const tl_reply *reply);

/** Begin to receive; returns once every later write will be reported, 5 s at most. If there are no events,
 *  seen->events has the reason. Changes nothing on the server. */
void migrate_events_begin(migrate_events *events, migrate_link *migration, const char *keys,
                          migrate_traffic *seen);

/** Read what has come, without waiting for more. After a loss it subscribes again, which is a gap. */
void migrate_events_take(migrate_events *events);

/** Read from CLIENT LIST how many bytes the server buffers for us; above the bound, reading ends. */
void migrate_events_cost(migrate_events *events, tl_bytes list);

/** End at once. No-op if not receiving. */
void migrate_events_stop(migrate_events *events);

/** End after all writes executed before this call were received, 5 s at most. No-op if not receiving. */
void migrate_events_end(migrate_events *events);
