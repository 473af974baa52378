/*
 * Watches for legacy clients. The counts cover the whole server, and scripts too: they can prove
 * that no legacy client was active, but not that one was. The list of clients is a hint for people.
 */
#include <stdio.h>
#include <string.h>

#include "ground/guard.h"
#include "ground/wait.h"
#include "migrate/client_list.h"
#include "migrate/migrate_traffic.h"

/* ms; how often the list of clients is read, which costs the server more the more there are; and while the
 * list shows how much the server buffers for MONITOR */
#define LIST_MS 1000
#define BACKLOG_MS 200

/* ---- counts ----------------------------------------------------------------------------------- */

/* The number after "cmdstat_NAME:calls="; 0 if there is no such line. */
static int64_t calls_of(tl_bytes info, const char *name) {
    char head[48];
    size_t n = (size_t)snprintf(head, sizeof head, "cmdstat_%s:calls=", name);
    int64_t calls = 0;

    for (size_t i = 0; i + n < info.n; i++) {
        if (info.p[i] != 'c' || (i > 0 && info.p[i - 1] != '\n') ||
            memcmp(info.p + i, head, n) != 0)
            continue;
        size_t len = 0;
        while (i + n + len < info.n && info.p[i + n + len] != ',' && info.p[i + n + len] != '\r')
            len++;
        return tl__bytes_to_int(tl__bytes(info.p + i + n, len), &calls) ? calls : -1;
    }
    return 0;
}

int64_t migrate_count_calls(tl_bytes info) {
    static const char *const names[] = {"setnx", "getset"};
    int64_t sum = 0;

    /* A server that counts commands has counted the EVAL that read the register. */
    if (calls_of(info, "eval") <= 0)
        return -1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int64_t calls = calls_of(info, names[i]);
        if (calls < 0)
            return -1;
        sum += calls;
    }
    return sum;
}

static bool take_calls(void *ctx, const tl_reply *reply) {
    int64_t *calls = ctx;
    tl_bytes info;

    *calls = tl__reply_text(reply, &info) ? migrate_count_calls(info) : -1;
    return true;
}

/* ---- the list of clients ---------------------------------------------------------------------- */

static void name_stragglers(const client_row *row, migrate_traffic *traffic) {
    for (int i = 0; i < traffic->stragglers; i++)
        if (strcmp(traffic->straggler[i].address, row->address) == 0 &&
            !traffic->straggler[i].name[0])
            memcpy(traffic->straggler[i].name, row->name, sizeof row->name);
}

static void add_suspect(const client_row *row, migrate_traffic *traffic) {
    char who[CLIENT_SHOWN];
    size_t n = strlen(traffic->suspects), size = sizeof traffic->suspects;

    if (strstr(traffic->suspects, row->address) || n + strlen(client_show(who, row)) + 3 > size)
        return;
    (void)snprintf(traffic->suspects + n, size - n, "%s%s", n ? "; " : "", who);
}

void migrate_list_clients(tl_bytes list, migrate_traffic *traffic) {
    client_row row;

    traffic->connections = 0;
    while (client_list_next(&list, &row)) {
        name_stragglers(&row, traffic);
        traffic->connections += !client_may_be_ours(&row);
        if (client_is_suspect(&row))
            add_suspect(&row, traffic);
    }
}

static bool take_list(void *ctx, const tl_reply *reply) {
    migrate_watch *watch = ctx;
    tl_bytes list;

    if (tl__reply_text(reply, &list)) {
        migrate_list_clients(list, watch->seen);
        migrate_monitor_cost(&watch->monitor, list);
    }
    return true;
}

/* ---- watching --------------------------------------------------------------------------------- */

static int64_t ask_calls(migrate_link *migration) {
    static const char *const request[] = {"INFO", "commandstats", NULL};
    int64_t calls = -1;

    return link_ask(&migration->link, request, take_calls, &calls) ? calls : -1;
}

static void ask_list(migrate_watch *watch) {
    static const char *const request[] = {"CLIENT", "LIST", NULL};
    (void)link_ask(&watch->migration->link, request, take_list, watch);
    watch->listed_ms = moment_ms();
    watch->listed_for = watch->seen->stragglers;
}

/* At once for a client that MONITOR has shown: its name is in the list while it is connected. */
static void list_if_due(migrate_watch *watch) {
    int64_t every_ms = watch->monitor.conn ? BACKLOG_MS : LIST_MS;

    if (watch->seen->stragglers > watch->listed_for || moment_ms() >= watch->listed_ms + every_ms)
        ask_list(watch);
}

/* MONITOR reports each command of a scan: of a million keys that is more than 100 MB. The server keeps all that is not
 * read, and frees it in one go when MONITOR ends. Meanwhile it serves nobody. */
static void read_between(void *ctx) {
    migrate_watch *watch = ctx;

    migrate_monitor_take(&watch->monitor);
    if (watch->monitor.conn)
        list_if_due(watch);
}

/* A new connection is allowed as long as the server process is the same: it has continued to
 * count. */
static bool is_same_server(migrate_watch *watch) {
    char server[MIGRATE_RUN_ID];

    if (watch->migration->link.ups == watch->ups || !GUARD(watch_of_one_server))
        return true;
    watch->ups = watch->migration->link.ups;
    return migrate_server_id(watch->migration, server) == 0 &&
           watch->migration->link.ups == watch->ups && server[0] &&
           strcmp(server, watch->server) == 0;
}

void migrate_watch_begin(migrate_watch *watch, migrate_link *migration, const char *keys,
                         int64_t monitor_ms, migrate_traffic *ret) {
    *ret = (migrate_traffic){.watch_ms = 0};
    *watch = (migrate_watch){
        .migration = migration, .seen = ret, .keys = keys, .monitor_ms = monitor_ms};
    (void)migrate_server_id(migration, watch->server);
    watch->ups = migration->link.ups;
    if (monitor_ms > 0) {
        migrate_monitor_begin(&watch->monitor, migration, keys, ret);
        migration->between = read_between;
        migration->between_ctx = watch;
    }
    watch->monitor_until_ms = moment_ms() + monitor_ms;
    watch->base = ask_calls(migration); /* MONITOR shows every command counted from here on */
    ret->counted = watch->base >= 0;
    watch->began_ms = moment_ms();
    ask_list(watch);
}

static void count(migrate_watch *watch) {
    int64_t calls = watch->seen->counted ? ask_calls(watch->migration) : -1;

    /* fewer than before: the counts were reset, or the server was restarted */
    if (calls < watch->base || calls - watch->base < watch->seen->calls)
        watch->seen->counted = false;
    else
        watch->seen->calls = calls - watch->base;
}

void migrate_watch_pause(migrate_watch *watch, signals *sigs, int64_t ms) {
    struct pollfd p = {.fd = sigs->fd, .events = POLLIN};

    if (watch->monitor.conn)
        migrate_monitor_listen(&watch->monitor, sigs, ms);
    else
        tl__wait(&p, 1, tl__mono_add_ms(tl__mono_now(), ms));
}

bool migrate_watch_look(migrate_watch *watch) {
    count(watch);
    if (!is_same_server(watch)) {
        migrate_monitor_stop(&watch->monitor);
        migrate_watch_begin(watch, watch->migration, watch->keys, watch->monitor_ms, watch->seen);
        return false;
    }
    if (watch->monitor.conn && moment_ms() >= watch->monitor_until_ms)
        migrate_monitor_end(&watch->monitor, watch->migration);
    list_if_due(watch);
    watch->seen->watch_ms = moment_ms() - watch->began_ms;
    return true;
}

bool migrate_watch_end(migrate_watch *watch) {
    bool whole = watch->monitor.conn != NULL;

    watch->migration->between = NULL;
    count(watch);
    migrate_monitor_end(&watch->monitor, watch->migration);
    watch->seen->monitor_whole = whole && !watch->monitor.failed;
    ask_list(watch);
    watch->seen->watch_ms = moment_ms() - watch->began_ms;
    return is_same_server(watch);
}
