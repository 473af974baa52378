/*
 * Watches for legacy clients. The counts cover the whole server, and scripts too: they can prove
 * that no legacy client was active, but not that one was. The list of clients is a hint for people.
 */
#include <stdio.h>
#include <string.h>

#include "ground/glob.h"
#include "ground/guard.h"
#include "ground/wait.h"
#include "migrate/client_list.h"
#include "migrate/migrate_traffic.h"

/* ms; how often the list of clients is read, which costs the server more the more there are; and while the
 * list shows how much the server buffers for MONITOR */
#define LIST_MS 1000
#define BACKLOG_MS 200

/* ---- counts ----------------------------------------------------------------------------------- */

/* The number behind "name=" in a line like "calls=3,usec=9,rejected_calls=1"; -1: none, or no number. */
static int64_t number_of(tl_bytes line, const char *name) {
    int64_t number;

    while (line.n > 0) {
        tl_bytes value = tl__bytes_take(&line, ',');
        if (tl__bytes_eq(tl__bytes_take(&value, '='), tl__bytes_of(name)))
            return tl__bytes_to_int(value, &number) && number >= 0 ? number : -1;
    }
    return -1;
}

/* "cmdstat_setnx:calls=..." is of setnx: takes the name. False: another kind of line. */
static bool take_name(tl_bytes *line, tl_bytes *ret_name) {
    const tl_bytes head = TL_LITERAL("cmdstat_");

    if (line->n > 0 && line->p[line->n - 1] == '\r')
        line->n--;
    *ret_name = tl__bytes_take(line, ':');
    if (ret_name->n < head.n || memcmp(ret_name->p, head.p, head.n) != 0)
        return false;
    *ret_name = tl__bytes(ret_name->p + head.n, ret_name->n - head.n);
    return true;
}

bool migrate_read_counts(tl_bytes info, migrate_counts *ret) {
    bool counts = false, whole = true;
    tl_bytes name;

    *ret = (migrate_counts){.refused = -1};
    int64_t refused = 0;
    while (info.n > 0) {
        tl_bytes line = tl__bytes_take(&info, '\n');
        if (!take_name(&line, &name))
            continue;
        int64_t calls = number_of(line, "calls"), rejected = number_of(line, "rejected_calls");
        ret->all += calls > 0 ? calls : 0;
        if (tl__bytes_eq(name, TL_LITERAL("eval"))) {
            /* A server that counts commands has counted the EVAL that read the register. */
            counts = calls > 0;
            ret->refused = rejected >= 0 ? 0 : -1;
        } else if (tl__bytes_eq(name, TL_LITERAL("setnx")) ||
                   tl__bytes_eq(name, TL_LITERAL("getset"))) {
            whole = whole && calls >= 0;
            ret->calls += calls;
            refused += rejected > 0 ? rejected : 0;
        }
    }
    if (ret->refused == 0)
        ret->refused = refused;
    return counts && whole;
}

static bool take_counts(void *ctx, const tl_reply *reply) {
    migrate_watch *watch = ctx;
    tl_bytes info;

    watch->counted = tl__reply_text(reply, &info) && migrate_read_counts(info, &watch->counts);
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

    if (!tl__reply_text(reply, &list))
        return true;
    watch->seen->listed = MIGRATE_READ;
    migrate_list_clients(list, watch->seen);
    migrate_monitor_cost(&watch->monitor, list);
    migrate_events_cost(&watch->events, list);
    return true;
}

/* ---- denials ---------------------------------------------------------------------------------- */

/* An entry of ACL LOG, whose members come in pairs of name and value. */
typedef struct {
    tl_bytes reason, object, user, age, client;
    int64_t count;
} denial;

static denial read_denial(const tl_reply *entry) {
    denial ret = {.count = 1};
    const struct {
        const char *name;
        tl_bytes *value;
    } texts[] = {{"reason", &ret.reason},
                 {"object", &ret.object},
                 {"username", &ret.user},
                 {"age-seconds", &ret.age},
                 {"client-info", &ret.client}};
    tl_bytes name;

    for (size_t i = 0; i + 1 < entry->count; i += 2) {
        if (!tl__reply_text(&entry->items[i], &name))
            continue;
        if (tl__bytes_eq(name, TL_LITERAL("count")))
            (void)tl__reply_int(&entry->items[i + 1], &ret.count);
        for (size_t j = 0; j < sizeof texts / sizeof *texts; j++)
            if (tl__bytes_eq(name, tl__bytes_of(texts[j].name)))
                (void)tl__reply_text(&entry->items[i + 1], texts[j].value);
    }
    return ret;
}

static bool is_legacy_command(tl_bytes word) {
    return tl__bytes_eq(word, TL_LITERAL("setnx")) || tl__bytes_eq(word, TL_LITERAL("getset"));
}

/* Of a denied key the log has no command: it is the last one of the client. */
static bool concerns(const denial *denial, const client_row *row, const char *keys) {
    if (tl__bytes_eq(denial->reason, TL_LITERAL("command")))
        return is_legacy_command(denial->object);
    return tl__bytes_eq(denial->reason, TL_LITERAL("key")) && client_is_suspect(row) &&
           tl__glob_fits(tl__bytes_of(keys), denial->object);
}

/* "12.345", or "12.3": the age by the server's wall clock; one that was set back makes it negative. */
static int64_t age_of(tl_bytes text) {
    static const int64_t ms_of[] = {0, 100, 10, 1};
    int64_t seconds = 0, part = 0;
    tl_bytes whole = tl__bytes_take(&text, '.');

    text.n = text.n > 3 ? 3 : text.n;
    if (!tl__bytes_to_int(whole, &seconds) || seconds < 0)
        return 0;
    return seconds * 1000 + (tl__bytes_to_int(text, &part) ? part * ms_of[text.n] : 0);
}

static void add_denial(const denial *denial, const client_row *row, int64_t age_ms,
                       migrate_denials *ret) {
    char who[CLIENT_SHOWN], user[64], ago[DURATION_SHOWN];
    size_t n = strlen(ret->who), size = sizeof ret->who;

    if (ret->count == 0 || age_ms < ret->age_ms)
        ret->age_ms = age_ms;
    ret->count += denial->count > 0 ? denial->count : 1;
    tl__bytes_print(user, sizeof user, denial->user);
    if (n < size / 2 && !(row->address[0] && strstr(ret->who, row->address)))
        (void)snprintf(ret->who + n, size - n, "%suser %s, %s ago%s%.150s", n ? "; " : "", user,
                       show_ms(ago, age_ms), row->address[0] ? ": " : "",
                       row->address[0] ? client_show(who, row) : "");
}

void migrate_read_denials(const tl_reply *log, const char *keys, int64_t since_ms,
                          migrate_denials *ret) {
    *ret = (migrate_denials){.access = MIGRATE_READ};
    for (size_t i = 0; i < log->count; i++) {
        client_row row = {.address = ""};
        denial denial = read_denial(&log->items[i]);
        tl_bytes client = denial.client;
        (void)client_list_next(&client, &row);
        int64_t age_ms = age_of(denial.age);
        if (concerns(&denial, &row, keys) && age_ms <= since_ms)
            add_denial(&denial, &row, age_ms, ret);
    }
}

static bool take_denials(void *ctx, const tl_reply *reply) {
    migrate_watch *watch = ctx;

    if (reply->type == TL_REPLY_ARRAY)
        migrate_read_denials(reply, watch->keys,
                             watch->began_ms ? moment_ms() - watch->began_ms : INT64_MAX,
                             &watch->seen->denials);
    return true;
}

static void ask_denials(migrate_watch *watch) {
    static const char *const request[] = {"ACL", "LOG", "128", NULL};
    migrate_denials *denials = &watch->seen->denials;
    server_link *link = &watch->migration->link;

    if (link_ask(link, request, take_denials, watch))
        return;
    denials->access = link->lacks ? MIGRATE_LACKS : MIGRATE_DENIED;
    (void)snprintf(denials->why, sizeof denials->why, "%.110s", link->message);
}

/* ---- watching --------------------------------------------------------------------------------- */

static void ask_counts(migrate_watch *watch) {
    static const char *const request[] = {"INFO", "commandstats", NULL};

    watch->counted = false;
    (void)link_ask(&watch->migration->link, request, take_counts, watch);
}

static void ask_list(migrate_watch *watch) {
    static const char *const request[] = {"CLIENT", "LIST", NULL};

    watch->seen->listed = MIGRATE_DENIED;
    (void)link_ask(&watch->migration->link, request, take_list, watch);
    watch->listed_ms = moment_ms();
    watch->listed_for = watch->seen->stragglers;
}

/* At once for a client that was seen, or refused: the list names it only while it is connected. The server
 * counts what it refuses, so its log is read only for names; before 6.2 the log alone tells. */
static void list_if_due(migrate_watch *watch) {
    const migrate_traffic *seen = watch->seen;
    int64_t every_ms = watch->monitor.conn ? BACKLOG_MS : LIST_MS;
    bool refused = seen->refused > watch->denials_asked;

    if (!refused && seen->stragglers <= watch->listed_for &&
        moment_ms() < watch->listed_ms + every_ms)
        return;
    ask_list(watch);
    if (seen->denials.access == MIGRATE_READ && (refused || seen->refused < 0))
        ask_denials(watch);
    watch->denials_asked = seen->refused;
}

/* MONITOR reports each command of a scan: of a million keys that is more than 100 MB. The server keeps all that is not
 * read, and frees it in one go when MONITOR ends. Meanwhile it serves nobody. */
static void read_between(void *ctx) {
    migrate_watch *watch = ctx;

    migrate_events_take(&watch->events);
    migrate_monitor_take(&watch->monitor);
    if (watch->monitor.conn)
        list_if_due(watch);
}

/* A server that was a replica in between has counted only what it was sent by the master of that time, though
 * its process is the same. */
static bool is_same_reign(migrate_watch *watch) {
    char reign[MIGRATE_RUN_ID];
    bool master = migrate_server_reign(watch->migration, reign);

    watch->reign_ms = moment_ms();
    return (master && strcmp(reign, watch->reign) == 0) || !GUARD(watch_of_one_reign);
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

static bool is_same(migrate_watch *watch, bool at_once) {
    bool due = at_once || watch->migration->link.ups != watch->ups ||
               moment_ms() >= watch->reign_ms + LIST_MS;

    return (!due || is_same_reign(watch)) && is_same_server(watch);
}

static void begin_counts(migrate_watch *watch) {
    ask_counts(watch);
    watch->base = watch->counts;
    watch->seen->counted = watch->counted;
    watch->seen->refused = watch->counted && watch->base.refused >= 0 ? 0 : -1;
}

void migrate_watch_glance(migrate_link *migration, const char *keys, migrate_traffic *ret) {
    migrate_watch watch = {.migration = migration, .seen = ret, .keys = keys};

    *ret = (migrate_traffic){.watch_ms = 0};
    begin_counts(&watch);
    ret->calls = watch.counted ? watch.base.calls : -1;
    ret->refused = watch.counted ? watch.base.refused : -1;
    ask_list(&watch);
    ask_denials(&watch);
    migrate_events_begin(&watch.events, migration, NULL, ret);
}

static void begin_monitor(migrate_watch *watch, int64_t ms) {
    migrate_monitor_begin(&watch->monitor, watch->migration, watch->keys, watch->seen);
    watch->monitor_until_ms = moment_ms() + ms;
}

void migrate_watch_begin(migrate_watch *watch, migrate_link *migration, const char *keys,
                         int64_t monitor_ms, int64_t doubt_ms, migrate_traffic *ret) {
    *ret = (migrate_traffic){.watch_ms = 0};
    *watch = (migrate_watch){.migration = migration,
                             .seen = ret,
                             .keys = keys,
                             .monitor_ms = monitor_ms,
                             .doubt_ms = doubt_ms,
                             .throughout = monitor_ms > 0};
    (void)migrate_server_id(migration, watch->server);
    (void)migrate_server_reign(migration, watch->reign);
    watch->reign_ms = moment_ms();
    watch->ups = migration->link.ups;
    migrate_events_begin(&watch->events, migration, keys, ret);
    migration->between = read_between;
    migration->between_ctx = watch;
    if (monitor_ms > 0)
        begin_monitor(watch, monitor_ms);
    begin_counts(watch); /* MONITOR and events show everything counted from here on */
    watch->began_ms = moment_ms();
    ask_list(watch);
    ask_denials(watch);
}

static void count(migrate_watch *watch) {
    int64_t former = watch->counts.all;

    if (!watch->seen->counted)
        return;
    ask_counts(watch);
    /* fewer than before: the counts were reset, or the server was restarted */
    if (!watch->counted || watch->counts.calls < watch->base.calls ||
        watch->counts.calls - watch->base.calls < watch->seen->calls ||
        (watch->counts.all < former && GUARD(reset_counts_seen))) {
        watch->seen->reset = watch->counted;
        watch->seen->counted = false;
        return;
    }
    watch->seen->calls = watch->counts.calls - watch->base.calls;
    if (watch->seen->refused >= 0)
        watch->seen->refused = watch->counts.refused - watch->base.refused;
}

void migrate_watch_pause(migrate_watch *watch, signals *sigs, int64_t ms) {
    struct pollfd p = {.fd = sigs->fd, .events = POLLIN};

    if (watch->monitor.conn)
        migrate_monitor_listen(&watch->monitor, sigs, ms);
    else
        tl__wait(&p, 1, tl__mono_add_ms(tl__mono_now(), ms));
}

/* Begins MONITOR once, when a call is counted that nobody has seen: it may name a client that repeats it. */
static void monitor_in_doubt(migrate_watch *watch) {
    if (watch->doubt_ms <= 0 || watch->monitor.conn || watch->seen->calls <= watch->seen->accounted)
        return;
    begin_monitor(watch, watch->doubt_ms);
    watch->doubt_ms = 0;
    watch->throughout = !GUARD(late_monitor_proves_nothing);
}

bool migrate_watch_look(migrate_watch *watch) {
    count(watch);
    migrate_events_take(&watch->events); /* which may name the key of a call that was counted */
    if (!is_same(watch, false)) {
        migrate_monitor_stop(&watch->monitor);
        migrate_events_stop(&watch->events);
        migrate_watch_begin(watch, watch->migration, watch->keys, watch->monitor_ms,
                            watch->doubt_ms, watch->seen);
        return false;
    }
    if (watch->monitor.conn && moment_ms() >= watch->monitor_until_ms)
        migrate_monitor_end(&watch->monitor, watch->migration);
    monitor_in_doubt(watch);
    list_if_due(watch);
    watch->seen->watch_ms = moment_ms() - watch->began_ms;
    return true;
}

bool migrate_watch_end(migrate_watch *watch) {
    bool whole = watch->monitor.conn != NULL && watch->throughout;

    watch->migration->between = NULL;
    count(watch);
    migrate_monitor_end(&watch->monitor, watch->migration);
    watch->seen->monitor_whole = whole && !watch->monitor.failed;
    migrate_events_end(&watch->events);
    ask_list(watch);
    if (watch->seen->denials.access == MIGRATE_READ)
        ask_denials(watch);
    watch->seen->watch_ms = moment_ms() - watch->began_ms;
    return is_same(watch, true);
}
