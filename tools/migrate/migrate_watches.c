/*
 * Watches several masters at once. The counts prove something only if no legacy client can have locked
 * anywhere else: so the owners of all slots, and the processes behind them, are the same from begin to end.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ground/guard.h"
#include "migrate/migrate_fleet.h"
#include "migrate/migrate_watches.h"

/* ---- the sum ---------------------------------------------------------------------------------- */

static void add_text(char *to, size_t size, const char *text) {
    size_t n = strlen(to);
    if (text[0] && n + strlen(text) + 3 < size)
        (void)snprintf(to + n, size - n, "%s%s", n ? "; " : "", text);
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static migrate_access worse(migrate_access a, migrate_access b) {
    return a < b ? a : b;
}

static void add_events(migrate_event_counts *sum, const migrate_event_counts *one) {
    sum->access = worse(sum->access, one->access);
    sum->ms = least(sum->ms, one->ms);
    sum->writes += one->writes;
    sum->bare += one->bare;
    sum->gaps += one->gaps;
    if (!sum->why[0])
        memcpy(sum->why, one->why, sizeof sum->why);
}

static void add_denials(migrate_denials *sum, const migrate_denials *one) {
    sum->access = worse(sum->access, one->access);
    if (one->count > 0)
        sum->age_ms = sum->count > 0 ? least(sum->age_ms, one->age_ms) : one->age_ms;
    sum->count += one->count;
    add_text(sum->who, sizeof sum->who, one->who);
    if (!sum->why[0])
        memcpy(sum->why, one->why, sizeof sum->why);
}

static void add_stragglers(migrate_traffic *sum, const migrate_traffic *one) {
    for (int i = 0; i < one->stragglers; i++)
        if (sum->stragglers < MIGRATE_STRAGGLERS)
            sum->straggler[sum->stragglers++] = one->straggler[i];
        else
            sum->more_stragglers++;
    sum->more_stragglers += one->more_stragglers;
}

/* A count that one server doesn't report is not known of all. */
static int64_t sum_known(int64_t a, int64_t b) {
    return a < 0 || b < 0 ? -1 : a + b;
}

void migrate_traffic_add(migrate_traffic *sum, const migrate_traffic *one, bool first) {
    /* calls that were seen at one server explain none at another */
    int64_t accounted = GUARD(each_server_accounts) && one->calls >= 0
                            ? least(one->accounted, one->calls)
                            : one->accounted;

    if (first) {
        *sum = *one;
        sum->accounted = accounted;
        return;
    }
    sum->watch_ms = least(sum->watch_ms, one->watch_ms);
    sum->monitor_ms = least(sum->monitor_ms, one->monitor_ms);
    sum->counted = sum->counted && one->counted;
    sum->reset = sum->reset || one->reset;
    sum->calls = sum_known(sum->calls, one->calls);
    sum->refused = sum_known(sum->refused, one->refused);
    sum->accounted += accounted;
    sum->monitor_whole = sum->monitor_whole && one->monitor_whole;
    sum->monitoring = sum->monitoring || one->monitoring;
    sum->listed = worse(sum->listed, one->listed);
    sum->connections += one->connections;
    if (!sum->monitor_why[0])
        memcpy(sum->monitor_why, one->monitor_why, sizeof sum->monitor_why);
    add_text(sum->suspects, sizeof sum->suspects, one->suspects);
    add_events(&sum->events, &one->events);
    add_denials(&sum->denials, &one->denials);
    add_stragglers(sum, one);
}

static void sum_up(migrate_watches *watches) {
    for (unsigned i = 0; i < watches->count; i++)
        migrate_traffic_add(watches->seen, &watches->place[i].seen, i == 0);
}

/* ---- the servers ------------------------------------------------------------------------------ */

static void close_places(migrate_watches *watches) {
    for (unsigned i = 0; watches->place && i < watches->count; i++) {
        migrate_monitor_stop(&watches->place[i].watch.monitor);
        migrate_events_stop(&watches->place[i].watch.events);
        link_close(&watches->place[i].own.link);
    }
    watches->migration->between = NULL;
    free(watches->place);
    watches->place = NULL;
    watches->count = 0;
}

/* While keys are scanned each MONITOR is read. */
static void read_between(void *ctx) {
    migrate_watches *watches = ctx;
    for (unsigned i = 0; i < watches->count; i++)
        if (watches->place[i].at->between)
            watches->place[i].at->between(watches->place[i].at->between_ctx);
}

static bool open_place(migrate_watches *watches, const fleet_node *node) {
    struct migrate_watch_place *place = &watches->place[watches->count];
    const server_link *like = &watches->migration->link;

    place->own = *watches->migration;
    place->own.fleet = NULL;
    place->own.between = NULL;
    place->at = &place->own;
    if (!link_open_same(&place->own.link, like, node->link.endpoint.host, node->link.endpoint.port))
        return false;
    watches->count++;
    return true;
}

static bool open_one(migrate_watches *watches) {
    watches->place = calloc(1, sizeof *watches->place);
    if (!watches->place)
        return false;
    watches->place->at = watches->migration;
    watches->count = 1;
    return true;
}

static bool open_places(migrate_watches *watches) {
    const struct migrate_fleet *fleet = watches->migration->fleet;
    bool ok = true;

    if (!fleet)
        return open_one(watches);

    watches->place = calloc(fleet->count ? fleet->count : 1, sizeof *watches->place);
    for (unsigned i = 0; watches->place && i < fleet->count; i++)
        if (fleet->node[i].slots && !fleet->node[i].status)
            ok = open_place(watches, &fleet->node[i]) && ok;
    watches->identity = fleet->identity;
    return watches->place && ok;
}

/* ---- the watch -------------------------------------------------------------------------------- */

static void begin_each(migrate_watches *watches) {
    for (unsigned i = 0; i < watches->count; i++) {
        struct migrate_watch_place *place = &watches->place[i];
        migrate_watch_begin(&place->watch, place->at, watches->keys, watches->monitor_ms,
                            watches->doubt_ms, &place->seen);
    }
    watches->began_ms = moment_ms();
    sum_up(watches);
    if (!watches->migration->fleet)
        return;
    watches->migration->between = read_between;
    watches->migration->between_ctx = watches;
}

void migrate_watches_begin(migrate_watches *watches, migrate_link *migration, const char *keys,
                           int64_t monitor_ms, int64_t doubt_ms, migrate_traffic *ret) {
    *ret = (migrate_traffic){.watch_ms = 0};
    *watches = (migrate_watches){.migration = migration,
                                 .seen = ret,
                                 .keys = keys,
                                 .monitor_ms = monitor_ms,
                                 .doubt_ms = doubt_ms,
                                 .began_ms = moment_ms()};
    if (open_places(watches))
        begin_each(watches);
    else /* nothing is counted, which is doubt */
        close_places(watches);
}

void migrate_watches_glance(migrate_link *migration, const char *keys, migrate_traffic *ret) {
    migrate_watches watches = {.migration = migration, .seen = ret};

    *ret = (migrate_traffic){.calls = -1};
    if (!open_places(&watches))
        watches.count = 0;
    for (unsigned i = 0; i < watches.count; i++)
        migrate_watch_glance(watches.place[i].at, keys, &watches.place[i].seen);
    sum_up(&watches);
    close_places(&watches);
}

void migrate_watches_pause(migrate_watches *watches, signals *sigs, int64_t ms) {
    for (unsigned i = 0; i < watches->count; i++)
        migrate_watch_pause(&watches->place[i].watch, sigs, ms / watches->count);
}

static bool is_same_fleet(const migrate_watches *watches) {
    const struct migrate_fleet *fleet = watches->migration->fleet;
    return !fleet || fleet->identity == watches->identity;
}

static bool begin_anew(migrate_watches *watches) {
    close_places(watches);
    migrate_watches_begin(watches, watches->migration, watches->keys, watches->monitor_ms,
                          watches->doubt_ms, watches->seen);
    return false;
}

bool migrate_watches_look(migrate_watches *watches) {
    bool same = is_same_fleet(watches);

    for (unsigned i = 0; i < watches->count; i++)
        same = migrate_watch_look(&watches->place[i].watch) && same;
    sum_up(watches);
    return same ? true : begin_anew(watches);
}

bool migrate_watches_end(migrate_watches *watches) {
    bool same = watches->count > 0;

    for (unsigned i = 0; i < watches->count; i++)
        same = migrate_watch_end(&watches->place[i].watch) && same;
    sum_up(watches);
    /* last: which servers were the masters meanwhile? */
    if (watches->migration->fleet)
        same = migrate_fleet_read(watches->migration, 0) == 0 && is_same_fleet(watches) && same;
    close_places(watches);
    return same;
}
