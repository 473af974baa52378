/*
 * Changes the register. A change compares the epoch and sets it in one script, so that of two
 * concurrent operators the second is rejected. It is valid only for the server that was judged, and
 * only for a short time. It counts once the replicas have it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "link/link_open.h"
#include "migrate/migrate_link.h"
#include "migrate/migrate_scripts.h"

#define WAIT_MS "3000"

/* ---- changing --------------------------------------------------------------------------------- */

#define STEP_MS 5000 /* ms; how long a step may be in flight */
#define NUMBER_SIZE 24
static const char *number(char buf[NUMBER_SIZE], int64_t v) {
    (void)snprintf(buf, NUMBER_SIZE, "%lld", (long long)v);
    return buf;
}

typedef struct {
    char word[16], first[64], second[400];
} outcome;

static bool take_outcome(void *ctx, const tl_reply *reply) {
    outcome *ret = ctx;
    tl_bytes text = {"", 0};

    *ret = (outcome){.word = ""};
    if (!tl__reply_text(tl__reply_item(reply, 0), &text))
        return false;
    tl__bytes_print(ret->word, sizeof ret->word, text);
    if (tl__reply_text(tl__reply_item(reply, 1), &text))
        tl__bytes_print(ret->first, sizeof ret->first, text);
    if (tl__reply_text(tl__reply_item(reply, 2), &text))
        tl__bytes_print(ret->second, sizeof ret->second, text);
    return true;
}

static bool take_count(void *ctx, const tl_reply *reply) {
    return tl__reply_int(reply, ctx);
}

/* Waits for the replicas: a failover before they have the change would bring the old register back,
 * and clients would refuse to lock. */
static int confirm(migrate_link *migration) {
    char count[NUMBER_SIZE];
    const char *const request[] = {"WAIT", number(count, migration->replicas), WAIT_MS, NULL};
    int64_t got = 0;

    if (!link_is_named(&migration->link, migration->server))
        return fail(
            STATUS_UNAVAILABLE,
            "migrate: changed at %s, but the Sentinels did not confirm that it is still the master "
            "(%.120s); to see whether the change lasts: tidelock migrate status --namespace %s",
            migration->link.endpoint.label, migration->link.message, migration->name);
    if (migration->replicas == 0)
        return 0;
    if (!link_ask(&migration->link, request, take_count, &got))
        return fail(
            STATUS_UNAVAILABLE,
            "migrate: changed, so don't repeat it; whether the replicas have it is not known: %s",
            migration->link.message);
    if (got < migration->replicas)
        return fail(
            STATUS_UNAVAILABLE,
            "migrate: changed, so don't repeat it, but only %lld of %d replicas have it after "
            "3 s: prevent a failover to the others until they have caught up",
            (long long)got, migration->replicas);
    return 0;
}

static bool take_run_id(void *ctx, const tl_reply *reply) {
    char *id = ctx;
    tl_bytes text = {0};
    size_t n = 0;

    (void)tl__reply_text(reply, &text);
    text = tl__bytes_after(text, "run_id:");
    for (; n < MIGRATE_RUN_ID - 1 && n < text.n; n++)
        id[n] = text.p[n];
    id[n] = '\0';
    return true;
}

static bool take_time(void *ctx, const tl_reply *reply) {
    return tl__reply_time(reply, 0, ctx);
}

/* After a new connection the server may be another one. */
static int same_connection(const migrate_link *migration, unsigned ups) {
    if (migration->link.ups == ups)
        return 0;
    return fail(STATUS_UNAVAILABLE,
                "migrate: nothing has changed: the connection was lost; begin again");
}

int migrate_server_id(migrate_link *migration, char ret_id[MIGRATE_RUN_ID]) {
    static const char *const info[] = {"INFO", "server", NULL};

    ret_id[0] = '\0';
    bool ok = link_ask(&migration->link, info, take_run_id, ret_id);
    return ok || migration->link.status == STATUS_REFUSED ? 0 : migration->link.status;
}

typedef struct {
    bool replica;
    char *id;
} reign;

static bool take_reign(void *ctx, const tl_reply *reply) {
    reign *reign = ctx;
    char role[16] = "";
    tl_bytes info;

    if (!tl__reply_text(reply, &info))
        return false;
    (void)info_field(info, "role", role, sizeof role);
    (void)info_field(info, "master_replid", reign->id, MIGRATE_RUN_ID);
    reign->replica = strcmp(role, "slave") == 0;
    return true;
}

bool migrate_server_reign(migrate_link *migration, char ret_id[MIGRATE_RUN_ID]) {
    static const char *const info[] = {"INFO", "replication", NULL};
    reign reign = {.id = ret_id};

    ret_id[0] = '\0';
    (void)link_ask(&migration->link, info, take_reign, &reign);
    return !reign.replica;
}

/* Reads the run ID of the server that was judged. */
static int take_server(migrate_link *migration, unsigned ups, char run_id[MIGRATE_RUN_ID]) {
    int status = migrate_server_id(migration, run_id);

    if (status)
        return fail(status, "migrate: nothing has changed: %s", migration->link.message);
    return same_connection(migration, ups);
}

/* Replicates the present epoch too. If a failover lost it, two operators could each change another
 * register, both to the same epoch. */
static int settle_present(migrate_link *migration) {
    char count[NUMBER_SIZE];
    static const char script[] = /* a write that creates no register */
        "return redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HINCRBY', KEYS[1], 'epoch', 0)";
    const char *const touch[] = {"EVAL", script, "1", migration->reg, NULL};
    const char *const wait[] = {"WAIT", number(count, migration->replicas), WAIT_MS, NULL};
    int64_t got = 0;

    if (migration->replicas == 0)
        return 0;
    if (!link_ask(&migration->link, touch, NULL, NULL) ||
        !link_ask(&migration->link, wait, take_count, &got))
        return fail(migration->link.status, "migrate: nothing has changed: %s",
                    migration->link.message);
    if (got < migration->replicas)
        return fail(STATUS_UNAVAILABLE,
                    "migrate: nothing has changed: only %lld of %d replicas have the present epoch "
                    "after 3 s",
                    (long long)got, migration->replicas);
    return 0;
}

/* A step is valid only for the server used so far, and only for a short time: a delayed step must
 * not be executed when legacy clients run again. */
typedef struct {
    char run_id[MIGRATE_RUN_ID];
    char permit[MIGRATE_KEY_SIZE], permitted[3 * NUMBER_SIZE]; /* a key, and its value */
} permission;

int migrate_server_time(migrate_link *migration, int64_t *ret_us) {
    const char *const time[] = {"TIME", NULL};

    if (link_ask(&migration->link, time, take_time, ret_us))
        return 0;
    return fail(migration->link.status, "migrate: nothing has changed: %s",
                migration->link.message);
}

static int take_permission(migrate_link *migration, unsigned ups, permission *ret) {
    char life[NUMBER_SIZE];
    int64_t now_us = 0;
    int status = take_server(migration, ups, ret->run_id);

    if (status == 0)
        status = settle_present(migration);
    if (status == 0)
        status = migrate_server_time(migration, &now_us);
    if (status)
        return status;
    (void)migrate_key(ret->permit, migration->name, ":permit");
    int64_t limit_us = now_us + STEP_MS * INT64_C(1000);
    (void)snprintf(ret->permitted, sizeof ret->permitted, "%lld %lld %lld", (long long)limit_us,
                   (long long)now_us, (long long)getpid());
    const char *const request[] = {"PSETEX", ret->permit, number(life, STEP_MS), ret->permitted,
                                   NULL};
    if (!link_ask(&migration->link, request, NULL, NULL))
        return fail(migration->link.status, "migrate: nothing has changed: %s",
                    migration->link.message);
    return same_connection(migration, ups);
}

static int refused(const migrate_link *migration, const outcome *outcome) {
    char who[MIGRATE_WHO_SIZE];
    migrate_client client;

    if (strcmp(outcome->word, "epoch") == 0 && !outcome->first[0])
        return fail(STATUS_REFUSED, "migrate: refused: the register of namespace %s has vanished",
                    migration->name);
    if (strcmp(outcome->word, "epoch") == 0)
        return fail(
            STATUS_REFUSED,
            "migrate: refused: namespace %s has moved to epoch %s, phase %s, meanwhile: another "
            "operator was faster; see: tidelock migrate status --namespace %s",
            migration->name, outcome->first, outcome->second, migration->name);
    if (strcmp(outcome->word, "server") == 0)
        return fail(
            STATUS_UNAVAILABLE,
            "migrate: nothing has changed: another server replies than before; begin again");
    if (strcmp(outcome->word, "late") == 0)
        return fail(
            STATUS_UNAVAILABLE,
            "migrate: nothing has changed: the step reached the server too late; begin again");
    migrate_client_read(tl__bytes_of(outcome->first), tl__bytes_of(outcome->second), &client);
    return fail(
        STATUS_REFUSED,
        "migrate: refused: a client has registered meanwhile that does not follow the present "
        "epoch: %s; try again",
        migrate_client_who(who, &client));
}

int migrate_change_register(migrate_link *migration, const migrate_move *move, int64_t *ret_epoch) {
    char epoch[NUMBER_SIZE] = "", phase[NUMBER_SIZE], lease[NUMBER_SIZE];
    permission permission = {.run_id = ""};
    int status = take_permission(migration, move->ups, &permission);
    if (status)
        return status;
    char *line = migrate_change_write(move->entry);
    outcome outcome;

    if (!line)
        return fail(STATUS_INTERNAL, "migrate: out of memory");
    if (move->epoch > 0)
        (void)number(epoch, move->epoch);
    const char *const request[] = {"EVAL",
                                   migrate_change_script,
                                   "4",
                                   migration->reg,
                                   migration->clients,
                                   migration->log,
                                   permission.permit,
                                   epoch,
                                   number(phase, move->phase),
                                   migration->by_register,
                                   line,
                                   move->keys ? move->keys : "",
                                   number(lease, move->lease_ms),
                                   permission.run_id,
                                   permission.permitted,
                                   NULL};
    bool ok = link_ask(&migration->link, request, take_outcome, &outcome);
    free(line);
    if (!ok)
        return fail(migration->link.status,
                    "migrate: %s; to see whether the register has changed: tidelock migrate status "
                    "--namespace %s",
                    migration->link.message, migration->name);
    if (strcmp(outcome.word, "done") != 0)
        return refused(migration, &outcome);
    (void)tl__bytes_to_int(tl__bytes_of(outcome.first), ret_epoch);
    return confirm(migration);
}

int migrate_note(migrate_link *migration, const migrate_change *entry) {
    char at[NUMBER_SIZE];
    int64_t now_us = 0;
    int status = migrate_server_time(migration, &now_us);
    char *line = status ? NULL : migrate_change_write(entry);

    if (!line)
        return status ? status : fail(STATUS_INTERNAL, "migrate: out of memory");
    const char *const request[] = {"EVAL", migrate_note_script, "2", migration->reg, migration->log,
                                   line,   number(at, now_us),  NULL};
    bool ok = link_ask(&migration->link, request, NULL, NULL);
    free(line);
    return ok ? 0 : fail(migration->link.status, "migrate: %s", migration->link.message);
}
