/*
 * The watch for legacy clients on each server that they may lock at: the one server, or each master of a cluster.
 */
#pragma once

#include "migrate/migrate_traffic.h"

typedef struct {
    migrate_link *migration;
    migrate_traffic *seen; /**< of all servers together */
    const char *keys;
    int64_t began_ms, monitor_ms, doubt_ms;
    uint64_t identity; /**< of the cluster when the watch began */
    unsigned count;
    struct migrate_watch_place {
        migrate_link own; /**< a cluster: its link leads to this master */
        migrate_link *at; /**< where it watches */
        migrate_watch watch;
        migrate_traffic seen;
    } * place;
} migrate_watches;

/** As the functions of migrate_traffic.h. In a cluster a watch also begins anew when another server has become a
 *  master, or slots have moved. Its masters are those of the last migrate_read. */
void migrate_watches_begin(migrate_watches *watches, migrate_link *migration, const char *keys,
                           int64_t monitor_ms, int64_t doubt_ms, migrate_traffic *ret);
void migrate_watches_pause(migrate_watches *watches, signals *sigs, int64_t ms);
bool migrate_watches_look(migrate_watches *watches);
bool migrate_watches_end(migrate_watches *watches);

void migrate_watches_glance(migrate_link *migration, const char *keys, migrate_traffic *ret);

/** The results of several servers as those of one. In doubt the worse counts. Pure. */
void migrate_traffic_add(migrate_traffic *sum, const migrate_traffic *one, bool first);
