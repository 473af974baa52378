/*
 * Is anybody of the old kind still at work? What the server counts and lists, asked again and again for
 * as long as somebody wants to watch.
 */
#ifndef TIDELOCK_MIGRATE_TRAFFIC_H
#define TIDELOCK_MIGRATE_TRAFFIC_H

#include "migrate_link.h"

typedef struct {
    migrate_link *m;
    migrate_traffic *seen;
    int64_t began_ms, base;
} migrate_watch;

/** How often SETNX and GETSET have run so far, out of INFO commandstats; -1: it doesn't tell. Pure. */
int64_t migrate_count_calls(tl_bytes info);

/** Fill in connections and suspects out of CLIENT LIST, but for our own. Pure. */
void migrate_list_clients(tl_bytes list, migrate_traffic *t);

/** Begin to watch; the first question decides whether the server counts. Never fails: what can't be had is
 *  missing in `ret`. */
void migrate_watch_begin(migrate_watch *w, migrate_link *m, migrate_traffic *ret);

/** Look again. */
void migrate_watch_look(migrate_watch *w);

#endif
