/*
 * Reads a namespace from the server; changes nothing.
 */
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "link/link_open.h"
#include "ground/guard.h"
#include "migrate/migrate_fleet.h"

#define CLIENTS_MOST 100000
#define SCAN_MOST_MS (10 * 60000)

/* ---- opening ---------------------------------------------------------------------------------- */

static void tell_who(migrate_link *migration) {
    struct utsname u;
    // cppcheck-suppress getpwuidCalled ; this program has one thread
    const struct passwd *p = getpwuid(geteuid());
    const char *user = p && p->pw_name && *p->pw_name ? p->pw_name : "?";
    const char *host = uname(&u) == 0 && u.nodename[0] ? u.nodename : "?";

    (void)snprintf(migration->by, sizeof migration->by, "%.100s@%.200s pid %lld", user, host,
                   (long long)getpid());
    (void)snprintf(migration->by_register, sizeof migration->by_register, "%.200s %lld %.100s",
                   host, (long long)getpid(), user);
}

typedef struct {
    bool replica;
    int replicas;
    char master[300];
    bool sees, cluster; /* sees: all of INFO is permitted; cluster: it is a node of one */
} replication;

static bool take_replication(void *ctx, const tl_reply *reply) {
    replication *replication = ctx;
    tl_bytes info;
    char role[16] = "", host[200] = "?", port[16] = "?", count[16] = "0", cluster[4] = "";
    int64_t n = 0;

    if (!tl__reply_text(reply, &info))
        return false;
    (void)info_field(info, "role", role, sizeof role);
    (void)info_field(info, "master_host", host, sizeof host);
    (void)info_field(info, "master_port", port, sizeof port);
    (void)info_field(info, "connected_slaves", count, sizeof count);
    (void)info_field(info, "cluster_enabled", cluster, sizeof cluster);
    replication->cluster = strcmp(cluster, "1") == 0;
    (void)tl__bytes_to_int(tl__bytes_of(count), &n);
    replication->replica = strcmp(role, "slave") == 0;
    replication->replicas = n > 0 && n < 1000 ? (int)n : 0;
    (void)snprintf(replication->master, sizeof replication->master, "%s:%s", host, port);
    return true;
}

/* Falls back to one section of INFO, because a user's permissions may be limited to it. */
static bool ask_replication(migrate_link *migration, replication *ret) {
    static const char *const section[] = {"INFO", "replication", NULL};
    static const char *const all[] = {"INFO", NULL};

    ret->sees = link_ask(&migration->link, all, take_replication, ret);
    return ret->sees ||
           (migration->link.error && link_ask(&migration->link, section, take_replication, ret));
}

#define INSTEAD "give its URL as redis+cluster://, and clients the same"

static bool take_size(void *ctx, const tl_reply *reply) {
    int64_t *masters = ctx;
    char size[16] = "";
    tl_bytes text;

    return tl__reply_text(reply, &text) && info_field(text, "cluster_size", size, sizeof size) &&
           tl__bytes_to_int(tl__bytes_of(size), masters);
}

/* Rejects one of several masters: its view lacks the keys of the others, and their clients. */
static int refuse_node(migrate_link *migration) {
    static const char *const request[] = {"CLUSTER", "INFO", NULL};
    int64_t masters = 0;

    if (link_ask(&migration->link, request, take_size, &masters))
        return masters == 1 ? 0
                            : fail(STATUS_REFUSED,
                                   "migrate: this is a node of a cluster, and the locks of other "
                                   "nodes would be overlooked: " INSTEAD);
    if (migration->link.error && strstr(migration->link.message, "cluster support disabled"))
        return 0;
    return fail(migration->link.status,
                "migrate: whether this is a node of a cluster: CLUSTER INFO: %s",
                migration->link.message);
}

/* Reports a failed request. Sentinels name a dead master until they have replaced it. */
static int no_answer(const migrate_link *migration) {
    bool waits = link_is_led(migration->server) && migration->link.status == STATUS_UNAVAILABLE;

    return fail(migration->link.status, "migrate: %s%s", migration->link.message,
                waits ? "; a failover may be in progress: try again when it is over" : "");
}

static bool take_number(void *ctx, const tl_reply *reply) {
    return tl__reply_int(reply, ctx);
}

/* A client with a redis: URL follows one register, and one with redis+cluster: those of the slots. A namespace that had
 * both would have two phases. */
static int check_other(migrate_link *migration) {
    char record[MIGRATE_KEY_SIZE], slot[MIGRATE_SLOT_KEY_SIZE];
    const char *key = migration->by_cluster ? migrate_key(record, migration->name, "")
                                            : migrate_cluster_key(record, migration->name, "");
    const char *request[] = {"EXISTS", key, NULL};
    int64_t is_there = 0;
    bool ok = link_ask(&migration->link, request, take_number, &is_there);

    if (ok && !is_there &&
        !migration->by_cluster) { /* clients follow the slots, also without a record */
        request[1] = key = migrate_slot_key(slot, migration->name, 0);
        ok = link_ask(&migration->link, request, take_number, &is_there);
    }
    if (!ok)
        return no_answer(migration);
    if (!is_there)
        return 0;
    return fail(
        STATUS_REFUSED,
        migration->by_cluster
            ? "migrate: namespace %s was registered with a redis: URL (%s), which its clients "
              "follow: use the same URL. Or end all of its clients, DEL that key, and make it "
              "again with the phase that it had"
            : "migrate: namespace %s was registered with a redis+cluster: URL (%s), which its "
              "clients follow: use the same URL",
        migration->name, key);
}

int migrate_check_master(migrate_link *migration) {
    replication replication = {.replicas = 0};

    if (!ask_replication(migration, &replication))
        return no_answer(migration);
    if (replication.replica)
        return fail(STATUS_UNAVAILABLE,
                    "migrate: this is a replica, whose register may be old: use its master, %s",
                    replication.master);
    migration->replicas = replication.replicas;
    int status = replication.cluster || !replication.sees ? refuse_node(migration) : 0;
    return status || !replication.cluster ? status : check_other(migration);
}

int migrate_link_lead(migrate_link *migration) {
    if (!migrate_fleet_lead(migration))
        return no_answer(migration);
    return check_other(migration);
}

int migrate_link_open(migrate_link *migration, const server *where, const char *word,
                      bool needs_phase, const char *name, const legacy_options *legacy) {
    (void)word;
    *migration = (migrate_link){.server = where, .name = name, .legacy = legacy};
    migration->by_cluster = server_by_cluster(where);
    const char *(*key)(char *, const char *,
                       const char *) = migration->by_cluster ? migrate_cluster_key : migrate_key;
    (void)key(migration->reg, name, "");
    (void)key(migration->clients, name, ":clients");
    (void)key(migration->log, name, ":log");
    tell_who(migration);
    static const tl_needer phases = {"phases need", TL_INSTEAD};
    int status = server_need_url(where, "migrate");
    status = status ? status : link_open(&migration->link, where);
    if (status)
        return status;
    migration->link.needer = &phases;
    if (!migration->by_cluster)
        status = migrate_check_master(migration);
    else if (needs_phase)
        status = migrate_link_lead(migration);
    if (status)
        migrate_link_close(migration);
    return status;
}

void migrate_link_close(migrate_link *migration) {
    migrate_fleet_free(migration->fleet);
    migration->fleet = NULL;
    link_close(&migration->link);
}

/* ---- reading ---------------------------------------------------------------------------------- */

static bool take_view(void *ctx, const tl_reply *reply) {
    migrate_view *view = ctx;
    const tl_reply *all = tl__reply_item(reply, 1);
    size_t n = all->count / 2;

    if (reply->type != TL_REPLY_ARRAY || !tl__reply_time(reply, 2, &view->now_us) ||
        n > CLIENTS_MOST)
        return false;
    migrate_register_read(tl__reply_item(reply, 0), &view->reg);
    if (n > 0 && !(view->client = calloc(n, sizeof *view->client)))
        return false;
    for (size_t i = 0; i < n; i++) {
        tl_bytes id, text;
        if (tl__reply_text(&all->items[2 * i], &id) &&
            tl__reply_text(&all->items[2 * i + 1], &text))
            migrate_client_read(id, text, &view->client[view->clients++]);
    }
    return true;
}

void migrate_forget(migrate_link *migration) {
    if (migration->fleet)
        migration->fleet->read_ms = 0;
}

/* The record first: who finds the registers as they are here, and then changes the record as it was there, knows
 * that nobody else was at work. */
static int read_slots(migrate_link *migration, migrate_view *view) {
    int status = migrate_fleet_read(migration, MIGRATE_FLEET_MS);

    if (status)
        return status;
    view->by_slots = true;
    view->slots = migration->fleet->tally;
    view->flaws = migration->fleet->flaws;
    if (view->reg.readable)
        (void)migrate_fleet_later(view->later, migration->fleet, view->reg.phase);
    (void)migrate_fleet_unsaved(view->unsaved, migration->fleet);
    return 0;
}

int migrate_read(migrate_link *migration, migrate_view *view) {
    static const char script[] =
        "local t = redis.call('TIME') "
        "return {redis.call('HGETALL', KEYS[1]), redis.call('HGETALL', KEYS[2]), t[1], t[2]}";
    const char *const request[] = {"EVAL", script, "2", migration->reg, migration->clients, NULL};

    migrate_view_end(view);
    view->name = migration->name;
    bool ok = link_ask(&migration->link, request, take_view, view);
    if (!ok && migration->by_cluster && migrate_fleet_lead(migration)) {
        migrate_view_end(view);
        ok = link_ask(&migration->link, request, take_view, view);
    }
    if (ok)
        return migration->by_cluster ? read_slots(migration, view) : 0;
    migrate_view_end(view);
    return fail(migration->link.status, "migrate: %s", migration->link.message);
}

int migrate_read_again(migrate_link *migration, migrate_view *view) {
    migrate_view fresh = {.name = view->name};
    int status = migrate_read(migration, &fresh);

    if (status)
        return status;
    migrate_view_end(view);
    *view = fresh;
    return 0;
}

void migrate_view_end(migrate_view *view) {
    free(view->client);
    *view = (migrate_view){.name = view->name};
}

/* ---- the history ------------------------------------------------------------------------------ */

typedef struct {
    void (*each)(void *ctx, const migrate_change *c);
    void *ctx;
} teller;

static bool take_history(void *ctx, const tl_reply *reply) {
    const teller *teller = ctx;
    migrate_change change;
    tl_bytes line;

    if (reply->type != TL_REPLY_ARRAY)
        return false;
    for (size_t i = 0; i < reply->count; i++)
        if (tl__reply_text(&reply->items[i], &line) && migrate_change_read(line, &change))
            teller->each(teller->ctx, &change);
    return true;
}

int migrate_history(migrate_link *migration, void (*each)(void *ctx, const migrate_change *change),
                    void *ctx) {
    const char *const request[] = {"LRANGE", migration->log, "0", "-1", NULL};
    teller teller = {each, ctx};

    if (link_ask(&migration->link, request, take_history, &teller))
        return 0;
    return fail(migration->link.status, "migrate: %s", migration->link.message);
}

/* ---- keys ------------------------------------------------------------------------------------- */

int migrate_scan(migrate_link *migration, const char *keys, bool exact, signals *sigs,
                 tl_found_fn found, void *ctx, bool *ret_whole, int *ret_sig) {
    legacy_options legacy = exact ? *migration->legacy : (legacy_options){LEGACY_DEFAULTS};
    server where = *migration->server;
    int64_t end = moment_ms() + SCAN_MOST_MS;
    uint64_t cursor = 0;
    tl_client *client;
    tl_error err;
    tl_err code = TL_OK;

    legacy.protocol = exact ? TL_BRIDGE : TL_TOKEN;
    where.legacy = &legacy;
    int status = server_open(&where, "migrate", NULL, &client);
    if (status)
        return status;
    do {
        code = tl_client_scan(client, keys, &cursor, found, ctx, &err);
        if (migration->between)
            migration->between(migration->between_ctx);
        *ret_sig = signals_pause(sigs, 0);
    } while (code == TL_OK && cursor != 0 && !*ret_sig && moment_ms() < end);
    *ret_whole = code == TL_OK && cursor == 0;
    tl_client_close(client);
    return code ? fail_as(migration->server, &err) : 0;
}

typedef struct {
    migrate_link *migration;
    migrate_locks *locks;
    migrate_view *view;
    int status; /* of reading the view again */
} looker;

static void found_any(const void *key, size_t key_len, const tl_lock_info *info, void *ctx) {
    looker *looker = ctx;
    if (info->by_tidelock && info->stamp_left_ms > 0 && !info->rests && looker->status == 0 &&
        !migrate_knows(looker->view, info))
        looker->status = migrate_read_again(looker->migration, looker->view);
    migrate_locks_learn(looker->locks, looker->view, key, key_len, info);
}

/* Counts stamps that only the named dialect recognises: those that never end. */
static void found_eternal(const void *key, size_t key_len, const tl_lock_info *info, void *ctx) {
    if (info->protocol != TL_TOKEN && info->protocol >= 0 && info->stamp_left_ms == INT64_MIN)
        found_any(key, key_len, info, ctx);
}

int migrate_look(migrate_link *migration, migrate_view *view, const char *keys, signals *sigs,
                 migrate_locks *ret, int *ret_sig) {
    looker looker = {migration, ret, view, 0};
    char pattern[MIGRATE_KEYS_SIZE]; /* keys may be the view's, which is read again meanwhile */
    bool whole = true;

    *ret = (migrate_locks){.whole = false};
    (void)snprintf(pattern, sizeof pattern, "%s", keys);
    int status = migrate_scan(migration, pattern, false, sigs, found_any, &looker, &ret->whole,
                              ret_sig);
    if (status == 0 && !*ret_sig && migration->legacy->dialect)
        status = migrate_scan(migration, pattern, true, sigs, found_eternal, &looker, &whole,
                              ret_sig);
    ret->whole = ret->whole && whole;
    return status ? status : looker.status;
}
