/*
 * Asks every node of the cluster, each in a thread of its own. A step rests on what all of them say at one
 * moment: they agree on the owner of each slot, no slot is on its way, and each server that may take over is
 * there and follows. Everything else is a flaw, which forbids steps, and which `status` prints.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/at_once.h"
#include "ground/wait.h"
#include "link/link_open.h"
#include "migrate/migrate_fleet.h"
#include "skew/skew_self.h"

#define FOLLOW_MS 3000 /* for so long a replica may be behind */
#define LOOK_MS 20

typedef struct migrate_fleet fleet;

/* ---- one node --------------------------------------------------------------------------------- */

static void field(tl_bytes info, const char *name, char to[MIGRATE_RUN_ID]) {
    char text[64] = "";
    (void)info_field(info, name, text, sizeof text);
    (void)snprintf(to, MIGRATE_RUN_ID, "%.40s", text);
}

static int64_t number(tl_bytes info, const char *name) {
    char text[24] = "";
    int64_t ret;
    return info_field(info, name, text, sizeof text) && tl__bytes_to_int(tl__bytes_of(text), &ret)
               ? ret
               : -1;
}

/* From when is the data with which it would come back? Without a snapshot it comes back with none. */
static int64_t saved_us(tl_bytes info) {
    int64_t saved_s = number(info, "rdb_last_save_time");
    bool none = number(info, "rdb_saves") == 0 && number(info, "rdb_last_load_keys_loaded") == 0;

    return saved_s < 0 || none || number(info, "aof_enabled") != 0 ? FLEET_SAVED
                                                                   : saved_s * 1000000;
}

static bool take_info(void *ctx, const tl_reply *reply) {
    fleet_node *node = ctx;
    char role[16] = "", link[16] = "", offset[24] = "";
    tl_bytes info;

    if (!tl__reply_text(reply, &info))
        return false;
    (void)info_field(info, "role", role, sizeof role);
    (void)info_field(info, "master_link_status", link, sizeof link);
    node->master = strcmp(role, "master") == 0;
    node->linked = strcmp(link, "up") == 0;
    (void)info_field(info, node->master ? "master_repl_offset" : "slave_repl_offset", offset,
                     sizeof offset);
    node->saved_us = saved_us(info);
    field(info, "run_id", node->run);
    field(info, "master_replid", node->history);
    return tl__bytes_to_int(tl__bytes_of(offset), &node->offset) && node->run[0];
}

static bool ask_info(fleet_node *node) {
    static const char *const info[] = {"INFO", NULL};
    return link_ask(&node->link, info, take_info, node);
}

static bool take_valkey_moves(void *ctx, const tl_reply *reply) {
    fleet_node *node = ctx;
    node->moves = node->moves || migrate_has_moves(reply, true);
    return true;
}

static bool take_redis_moves(void *ctx, const tl_reply *reply) {
    fleet_node *node = ctx;
    node->moves = node->moves || migrate_has_moves(reply, false);
    return true;
}

static bool ask_moves(fleet_node *node) {
    static const char *const valkey[] = {"CLUSTER", "GETSLOTMIGRATIONS", NULL};
    static const char *const redis[] = {"CLUSTER", "MIGRATION", "STATUS", "ALL", NULL};
    server_link *link = &node->link;

    node->moves = false;
    return (link_ask(link, valkey, take_valkey_moves, node) || migrate_has_no_moves(link)) &&
           (link_ask(link, redis, take_redis_moves, node) || migrate_has_no_moves(link));
}

/* The EVAL shows that it may be used, before a step needs it. */
static void *ask_node(void *ctx) {
    static const char *const eval[] = {"EVAL", "return 1", "0", NULL};
    fleet_node *node = ctx;

    if (node->status)
        return NULL;
    bool ok = ask_info(node) && ask_moves(node) &&
              (!node->master || link_ask(&node->link, eval, NULL, NULL));
    if (!ok) {
        node->status = node->link.status;
        (void)snprintf(node->message, sizeof node->message, "%s",
                       node->link.ok ? "INFO lacks its run ID" : node->link.message);
    }
    return NULL;
}

/* ---- all nodes -------------------------------------------------------------------------------- */

static void take_role(fleet_node *node, const cluster_node *of) {
    node->epoch = of->epoch;
    memcpy(node->of, of->of, sizeof node->of);
}

static bool add_node(fleet *fleet, const cluster_node *of, const server_link *like) {
    fleet_node *node = &fleet->node[fleet->count++];

    *node = (fleet_node){.status = of->status};
    take_role(node, of);
    memcpy(node->id, of->id, sizeof node->id);
    memcpy(node->label, of->label, sizeof node->label);
    memcpy(node->message, of->message, sizeof node->message);
    if (node->status && !node->message[0])
        (void)snprintf(node->message, sizeof node->message, "no node knows its address");
    return node->status || link_open_same(&node->link, like, of->host, of->port);
}

static bool learn(fleet *fleet, const cluster_survey *survey, const server_link *like) {
    bool ok = true;

    fleet->node = calloc(survey->count, sizeof *fleet->node);
    if (!fleet->node)
        return false;
    for (unsigned i = 0; i < survey->count; i++)
        if (migrate_is_node(&survey->of[i]))
            ok = add_node(fleet, &survey->of[i], like) && ok;
    if (!ok)
        return false;
    at_once(ask_node, fleet->node, sizeof *fleet->node, fleet->count);
    migrate_fleet_judge(fleet, survey);
    return true;
}

static void close_all(fleet *fleet) {
    for (unsigned i = 0; fleet->node && i < fleet->count; i++)
        link_close(&fleet->node[i].link);
    free(fleet->node);
    *fleet = (struct migrate_fleet){.node = NULL};
}

void migrate_fleet_free(fleet *fleet) {
    if (fleet)
        close_all(fleet);
    free(fleet);
}

/* ---- the registers ---------------------------------------------------------------------------- */

/* The slots of one node. */
typedef struct {
    const migrate_link *migration;
    fleet *fleet;
    unsigned node;
    uint16_t slot[TL_SLOTS];
    size_t count;
    char key[MIGRATE_SLOT_KEY_SIZE];
    /* when written: */
    const migrate_slot *before;
    migrate_slot want;
    char is[MIGRATE_SLOT_TEXT_SIZE], text[MIGRATE_SLOT_TEXT_SIZE];
} share;

/* Behind the last GET comes a PING: a connection whose last command is GET would look like a legacy client's. */
static size_t request_read(void *ctx, size_t i, tl_bytes *argv) {
    share *share = ctx;

    if (i == share->count) {
        argv[0] = TL_LITERAL("PING");
        return 1;
    }
    argv[0] = TL_LITERAL("GET");
    argv[1] = tl__bytes_of(migrate_slot_key(share->key, share->migration->name, share->slot[i]));
    return 2;
}

static void take_error(fleet_node *node, tl_bytes text) {
    node->denies = node->denies || tl__refusal(text) == TL_EDENIED;
    tl__bytes_print(node->message, sizeof node->message, text);
}

static void take_read(void *ctx, size_t i, const tl_reply *reply) {
    share *share = ctx;
    fleet_node *node = &share->fleet->node[share->node];
    bool wrong = reply->type == TL_REPLY_ERROR && tl__bytes_starts(reply->text, "WRONGTYPE");

    if (i == share->count)
        return;
    if (wrong)
        share->fleet->slot[share->slot[i]].phase = SLOT_ODD;
    else if (reply->type != TL_REPLY_ERROR)
        share->fleet->slot[share->slot[i]] = migrate_slot_read(reply);
    else
        take_error(node, reply->text);
}

static const char compare_and_set[] = "local is = redis.call('GET', KEYS[1]) or ''\n"
                                      "if is == ARGV[1] then\n"
                                      "    redis.call('SET', KEYS[1], ARGV[2])\n"
                                      "    return ARGV[2]\n"
                                      "end\n"
                                      "return is\n";

static size_t request_write(void *ctx, size_t i, tl_bytes *argv) {
    share *share = ctx;
    unsigned slot = share->slot[i];

    argv[0] = TL_LITERAL("EVAL");
    argv[1] = tl__bytes_of(compare_and_set);
    argv[2] = TL_LITERAL("1");
    argv[3] = tl__bytes_of(migrate_slot_key(share->key, share->migration->name, slot));
    argv[4] = tl__bytes_of(migrate_slot_text(share->is, share->before[slot]));
    argv[5] = tl__bytes_of(migrate_slot_text(share->text, share->want));
    return 6;
}

static void take_write(void *ctx, size_t i, const tl_reply *reply) {
    share *share = ctx;
    fleet_node *node = &share->fleet->node[share->node];
    (void)i;
    if (reply->type == TL_REPLY_ERROR)
        take_error(node, reply->text);
}

static void *ask_share(void *ctx) {
    share *share = ctx;
    bool write = share->before != NULL;
    link_many many = {.count = share->count + !write,
                      .request = write ? request_write : request_read,
                      .take = write ? take_write : take_read,
                      .ctx = share};
    fleet_node *node = &share->fleet->node[share->node];

    if (share->count > 0 && !link_ask_many(&node->link, &many) && !node->message[0])
        (void)snprintf(node->message, sizeof node->message, "%s", node->link.message);
    return NULL;
}

/* Ask each owner about its slots, at once. False: no memory. */
static bool ask_owners(migrate_link *migration, const migrate_slot *before, migrate_slot want,
                       bool (*wanted)(migrate_slot is, migrate_slot want)) {
    fleet *fleet = migration->fleet;
    share *shares = calloc(fleet->count, sizeof *shares);

    if (!shares)
        return false;
    for (unsigned i = 0; i < fleet->count; i++) {
        shares[i] = (share){
            .migration = migration, .fleet = fleet, .node = i, .before = before, .want = want};
        fleet->node[i].message[0] = fleet->node[i].status ? fleet->node[i].message[0] : '\0';
    }
    for (unsigned slot = 0; slot < TL_SLOTS; slot++) {
        uint16_t owner = fleet->owner[slot];
        if (owner == TL_NOBODY || fleet->node[owner].status ||
            (wanted && !wanted(fleet->slot[slot], want)))
            continue;
        shares[owner].slot[shares[owner].count++] = (uint16_t)slot;
    }
    at_once(ask_share, shares, sizeof *shares, fleet->count);
    free(shares);
    return true;
}

void migrate_fleet_write(migrate_link *migration, const migrate_slot *before, migrate_slot want,
                         bool (*wanted)(migrate_slot is, migrate_slot want)) {
    (void)ask_owners(migration, before, want, wanted);
}

static bool read_slots(migrate_link *migration) {
    fleet *fleet = migration->fleet;
    migrate_slot none = {.phase = SLOT_UNREAD};

    for (unsigned i = 0; i < TL_SLOTS; i++)
        fleet->slot[i] = none;
    if (!ask_owners(migration, NULL, none, NULL))
        return false;
    for (unsigned i = 0; i < fleet->count; i++)
        if (!fleet->node[i].status && fleet->node[i].message[0])
            migrate_add_flaw(fleet, !fleet->node[i].denies, fleet->node[i].label,
                             fleet->node[i].denies
                                 ? "let this user read ~tidelock:phase:slot:* there"
                                 : "wait; \"tidelock doctor\" says more",
                             "registers can't be read there: %.180s", fleet->node[i].message);
    fleet->tally = migrate_tally_of(fleet->slot);
    return true;
}

/* ---- reading all of it ------------------------------------------------------------------------ */

static int no_memory(void) {
    return fail(STATUS_INTERNAL, "migrate: out of memory");
}

static int read_anew(migrate_link *migration) {
    kernel_clock kernel = moment_kernel();
    fleet *fleet = migration->fleet;
    char message[240];
    tl_endpoint login;
    link_login own;
    tl_seeds seeds;
    server_link link;
    cluster_survey survey;
    int status = link_places(&link, migration->server, &login, &own, &seeds);

    if (status)
        return fail(status, "%s", link.message);
    close_all(fleet);
    bool ok = cluster_survey_ask(&survey, &login, &seeds, skew_self_rate(&kernel));
    if (ok && survey.answered == 0)
        status = cluster_survey_trouble(&survey, message, sizeof message);
    else
        ok = ok && learn(fleet, &survey, &migration->link) && read_slots(migration);
    cluster_survey_end(&survey);
    tl__endpoint_wipe(&login);
    tl__secret_wipe(&own.secret);
    fleet->read_ms = ok && status == 0 ? moment_ms() : 0;
    return !ok ? no_memory() : status ? fail(status, "migrate: %s", message) : 0;
}

/* ---- looking again ---------------------------------------------------------------------------- */

/* A node, asked by the connection that it was asked by before. */
typedef struct {
    fleet_node *node;
    unsigned ups;
    /* CLUSTER NODES; NULL: it hasn't replied, or by a new connection, behind which may be another node */
    char *nodes;
} glance;

static bool take_nodes(void *ctx, const tl_reply *reply) {
    glance *glance = ctx;
    tl_bytes text;

    if (!tl__reply_text(reply, &text))
        return false;
    glance->nodes = strndup(text.p, text.n);
    return glance->nodes != NULL;
}

static void *ask_again(void *ctx) {
    static const char *const nodes[] = {"CLUSTER", "NODES", NULL};
    glance *glance = ctx;
    server_link *link = &glance->node->link;

    if (ask_info(glance->node) && ask_moves(glance->node) &&
        link_ask(link, nodes, take_nodes, glance) && link->ups == glance->ups)
        return NULL;
    free(glance->nodes);
    glance->nodes = NULL;
    return NULL;
}

/* The nodes in the order of the fleet. A further one is new, or another address of one of them. */
static bool learn_again(fleet *fleet, const glance *glances, cluster_survey *survey) {
    bool ok = true;

    for (unsigned i = 0; i < fleet->count; i++) {
        const fleet_node *node = &fleet->node[i];
        cluster_node *of = &survey->of[survey->count++];
        of->asked = true;
        of->port = node->link.endpoint.port;
        memcpy(of->id, node->id, sizeof of->id);
        memcpy(of->label, node->label, sizeof of->label);
        memcpy(of->host, node->link.endpoint.host, sizeof of->host);
    }
    for (unsigned i = 0; ok && i < fleet->count; i++)
        ok = cluster_survey_learn(survey, i, tl__bytes_of(glances[i].nodes));
    for (unsigned i = fleet->count; ok && i < survey->count; i++)
        ok = !migrate_is_node(&survey->of[i]);
    return ok;
}

static bool judge_again(fleet *fleet, const glance *glances) {
    cluster_survey survey = {.of = calloc(CLUSTER_NODES_MOST, sizeof *survey.of)};
    uint64_t identity = fleet->identity;
    bool ok = survey.of && learn_again(fleet, glances, &survey);

    for (unsigned i = 0; ok && i < fleet->count; i++) {
        take_role(&fleet->node[i], &survey.of[i]);
        fleet->node[i].slots = 0;
    }
    if (ok)
        migrate_fleet_judge(fleet, &survey);
    cluster_survey_end(&survey);
    return ok && fleet->flaws.count == 0 && fleet->identity == identity;
}

/* Without new connections, and without the registers: is everything else as it was at the last reading, which found no
 * flaw? In doubt it is not. */
static bool is_unchanged(fleet *fleet) {
    glance *glances = fleet->flaws.count + fleet->tally.odd == 0
                          ? calloc(fleet->count ? fleet->count : 1, sizeof *glances)
                          : NULL;
    bool ok = glances != NULL;

    for (unsigned i = 0; ok && i < fleet->count; i++)
        glances[i] = (glance){.node = &fleet->node[i], .ups = fleet->node[i].link.ups};
    if (ok)
        at_once(ask_again, glances, sizeof *glances, fleet->count);
    for (unsigned i = 0; ok && i < fleet->count; i++)
        ok = glances[i].nodes != NULL;
    ok = ok && judge_again(fleet, glances);
    for (unsigned i = 0; glances && i < fleet->count; i++)
        free(glances[i].nodes);
    free(glances);
    return ok;
}

int migrate_fleet_read(migrate_link *migration, int64_t age_ms) {
    if (!migration->fleet)
        migration->fleet = calloc(1, sizeof *migration->fleet);
    struct migrate_fleet *fleet = migration->fleet;
    if (!fleet)
        return no_memory();
    if (age_ms > 0 && fleet->read_ms) {
        if (moment_ms() < fleet->read_ms + age_ms)
            return 0;
        if (is_unchanged(fleet)) {
            fleet->read_ms = moment_ms();
            return 0;
        }
    }
    return read_anew(migration);
}

bool migrate_fleet_lead(migrate_link *migration) {
    tl_endpoint login;
    link_login own;
    tl_seeds seeds;
    server_link link;

    if (migration->link.conn && seeds_go_on(&migration->link, migration->reg))
        return true;
    if (link_places(&link, migration->server, &login, &own, &seeds))
        return false;
    bool ok = seeds_lead(&migration->link, &login, &seeds, migration->reg);
    tl__endpoint_wipe(&login);
    tl__secret_wipe(&own.secret);
    return ok;
}

/* ---- waiting for the replicas ------------------------------------------------------------------ */

/* Wait until this replica has what its master had at its last INFO. */
static int follow(fleet_node *replica, const fleet_node *master, const char *what) {
    int64_t until_ms = moment_ms() + FOLLOW_MS;

    while (ask_info(replica)) {
        if (migrate_has_all(replica, master))
            return 0;
        if (moment_ms() >= until_ms)
            return fail(STATUS_UNAVAILABLE,
                        "migrate: %s: the replica %.100s, which may take over, does not have the "
                        "last changes of %.100s after 3 s: prevent a failover to it until it has "
                        "caught up",
                        what, replica->label, master->label);
        tl__wait(NULL, 0, tl__mono_add_ms(tl__mono_now(), LOOK_MS));
    }
    return fail(replica->link.status, "migrate: %s: the replica %.100s: %.200s", what,
                replica->label, replica->link.message);
}

/* The stream of a master has all that it has executed so far, up to the offset that it says. */
static int settle_once(migrate_link *migration, const char *what) {
    fleet *fleet = migration->fleet;

    for (unsigned i = 0; i < fleet->count; i++)
        if (fleet->node[i].slots && !ask_info(&fleet->node[i]))
            return fail(fleet->node[i].link.status, "migrate: %s: %.100s: %.200s", what,
                        fleet->node[i].label, fleet->node[i].link.message);
    for (unsigned i = 0; i < fleet->count; i++) {
        const fleet_node *master = migrate_find_node(fleet, fleet->node[i].of);
        int status = fleet->node[i].master || !master ? 0 : follow(&fleet->node[i], master, what);
        if (status)
            return status;
    }
    return 0;
}

/* The cluster is the same behind it as before: no server has taken over meanwhile that was not waited for. */
int migrate_fleet_settle(migrate_link *migration, const char *what) {
    int status = migrate_fleet_read(migration, 0);
    if (status)
        return status;
    const migrate_blocker *flaw = &migration->fleet->flaws.item[0];
    uint64_t identity = migration->fleet->identity;
    if (migration->fleet->flaws.count)
        return fail(STATUS_UNAVAILABLE, "migrate: %s: %s: %s: %s", what, flaw->what, flaw->who,
                    flaw->todo);
    status = settle_once(migration, what);
    status = status ? status : migrate_fleet_read(migration, 0);
    if (status == 0 && migration->fleet->identity != identity)
        return fail(STATUS_UNAVAILABLE,
                    "migrate: %s: another server has taken over, or slots have moved, meanwhile",
                    what);
    return status;
}
