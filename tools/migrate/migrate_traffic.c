/*
 * Watches for legacy clients. The counts cover the whole server, and scripts too: they can prove
 * that no legacy client was active, but not that one was. The list of clients is a hint for people.
 */
#include <stdio.h>
#include <string.h>

#include "ground/guard.h"
#include "ground/wait.h"
#include "migrate/migrate_traffic.h"

#define LIST_MS                                                                                    \
    200 /* ms; how often to look, during a scan, how much the server keeps for MONITOR */

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

/* The value of "name=" in a line, cut to fit. */
static void value_of(tl_bytes line, const char *name, char *to, size_t size) {
    size_t n = strlen(name);

    to[0] = '\0';
    for (size_t i = 0; i + n < line.n; i++) {
        if ((i > 0 && line.p[i - 1] != ' ') || memcmp(line.p + i, name, n) != 0 ||
            line.p[i + n] != '=')
            continue;
        const char *from = line.p + i + n + 1;
        size_t rest = line.n - (i + n + 1);
        const char *blank = memchr(from, ' ', rest);
        tl__bytes_print(to, size, tl__bytes(from, blank ? (size_t)(blank - from) : rest));
        return;
    }
}

static bool is_one(const char *word, const char *const *list) {
    for (; *list; list++)
        if (strcmp(word, *list) == 0)
            return true;
    return false;
}

/* Can this be the last command of a tidelock connection, or of a connection of the server
 * itself? */
static bool may_be_ours(const char *command) {
    static const char *const ours[] = {"eval",  "evalsha", "time",      "wait",        "auth",
                                       "hello", "select",  "subscribe", "unsubscribe", "ping",
                                       "info",  "client",  "monitor",   "replconf",    "psync",
                                       "sync",  "NULL",    "script",    "echo",        NULL};
    char head[32];

    (void)snprintf(head, sizeof head, "%.31s", command);
    head[strcspn(head, "|")] = '\0';
    return is_one(head, ours);
}

static void list_one(tl_bytes line, migrate_traffic *traffic) {
    static const char *const theirs[] = {"setnx", "getset", NULL};
    char address[64], name[64], command[32];

    value_of(line, "addr", address, sizeof address);
    value_of(line, "name", name, sizeof name);
    value_of(line, "cmd", command, sizeof command);
    for (int i = 0; i < traffic->stragglers; i++)
        if (strcmp(traffic->straggler[i].address, address) == 0 && !traffic->straggler[i].name[0])
            memcpy(traffic->straggler[i].name, name, sizeof name);
    if (!address[0] || may_be_ours(command))
        return;
    traffic->connections++;
    bool suspect = is_one(command, theirs);
    size_t n = strlen(traffic->suspects);
    if (!suspect || n + 120 > sizeof traffic->suspects || strstr(traffic->suspects, address))
        return;
    (void)snprintf(traffic->suspects + n, sizeof traffic->suspects - n,
                   "%s%s%s%.30s (said %s last)", n ? ", " : "", address, name[0] ? " called " : "",
                   name, command);
}

void migrate_list_clients(tl_bytes list, migrate_traffic *traffic) {
    traffic->connections = 0;
    for (size_t i = 0; i < list.n;) {
        const char *end = memchr(list.p + i, '\n', list.n - i);
        size_t n = end ? (size_t)(end - (list.p + i)) : list.n - i;
        list_one(tl__bytes(list.p + i, n), traffic);
        i += n + 1;
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
}

/* MONITOR reports each command of a scan: of a million keys that is more than 100 MB. The server keeps all that is not
 * read, and frees it in one go when MONITOR ends. Meanwhile it serves nobody. */
static void read_between(void *ctx) {
    migrate_watch *watch = ctx;

    migrate_monitor_take(&watch->monitor);
    if (watch->monitor.conn && moment_ms() >= watch->listed_ms + LIST_MS)
        ask_list(watch);
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
    ask_list(watch);
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
