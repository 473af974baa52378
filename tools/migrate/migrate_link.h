/*
 * The server of a migration: reads a namespace from its master, changes it in one step, and scans
 * its keys.
 */
#pragma once

#include "base/signals.h"
#include "legacy/legacy.h"
#include "link/server_link.h"
#include "migrate/migrate_judge.h"
#include "migrate/migrate_log.h"

typedef struct {
    server_link link;
    const server *server;
    const legacy_options *legacy; /**< as given; its protocol is ignored */
    const char *name;             /**< the namespace's name */
    char reg[MIGRATE_KEY_SIZE], clients[MIGRATE_KEY_SIZE], log[MIGRATE_KEY_SIZE];
    /** a cluster: each slot has a register; the link leads to the node of the namespace's own record */
    bool by_cluster;
    struct migrate_fleet *fleet;       /**< a cluster: its nodes, and what the registers say */
    int replicas;                      /**< connected replicas */
    char by[MIGRATE_BY_SIZE];          /**< "user@host pid 4711" */
    char by_register[MIGRATE_BY_SIZE]; /**< "host pid user" */
    void (*between)(void *ctx);        /**< NULL, or called between the steps of a scan */
    void *between_ctx;
} migrate_link;

/** Connect. A replica is rejected, and so is a single node of a cluster with several masters. Returns 0, or
 *  the exit status after a message. */
int migrate_link_open(migrate_link *migration, const server *where, const char *word,
                      bool needs_phase, const char *name, const legacy_options *legacy);
void migrate_link_close(migrate_link *migration);

/** A cluster: lead the link to the node of the namespace's record, which opening does only for commands that
 *  need the phase. Returns 0, or the exit status after a message: it can't be reached, or the namespace is
 *  registered with the other kind of URL. */
int migrate_link_lead(migrate_link *migration);

/** Read the namespace into view, in a cluster first its own record, and then the slots' registers. These are read again
 *  only when the nodes say that the cluster has changed, which they are asked each MIGRATE_FLEET_MS, and after
 *  migrate_forget. Free it with migrate_view_end, or read it again. Returns 0, or the
 *  exit status after a message. */
int migrate_read(migrate_link *migration, migrate_view *view);
/** The same, but if it fails the view stays as it is. */
int migrate_read_again(migrate_link *migration, migrate_view *view);
void migrate_view_end(migrate_view *view);
#define MIGRATE_FLEET_MS 5000
void migrate_forget(migrate_link *migration);

/** A change of the register. */
typedef struct {
    int64_t epoch; /**< the epoch that the register must have; 0: there must be none */
    int phase;
    unsigned ups;                /**< link.ups of the connection that the decision rests on */
    const char *keys;            /**< NULL: unchanged. Else the register is made anew */
    int64_t lease_ms;            /**< used with keys */
    const migrate_change *entry; /**< for the history */
} migrate_move;

/** Change the register if it is as expected and no client has appeared that forbids it; have
 *  the replicas confirm it. *ret_epoch: the new epoch. Returns 0, or the exit status after a
 *  message. */
int migrate_change_register(migrate_link *migration, const migrate_move *move, int64_t *ret_epoch);

/** The server's run ID; "" if it may not be read. Returns 0, or the exit status;
 *  migration->link.message has the reason. */
#define MIGRATE_RUN_ID 41
int migrate_server_id(migrate_link *migration, char ret_id[MIGRATE_RUN_ID]);

/** The name of the server's present time as a master, which a replica that is promoted draws anew; "" if it
 *  is not known (before 4.0, or INFO is denied). False: it is a replica now. */
bool migrate_server_reign(migrate_link *migration, char ret_id[MIGRATE_RUN_ID]);

/** Find how many replicas are connected. Returns 0, or the exit status after a message: it is a replica, or a
 *  node of a cluster with several masters. */
int migrate_check_master(migrate_link *migration);

/** The server's clock. Returns 0, or the exit status after a message. */
int migrate_server_time(migrate_link *migration, int64_t *ret_us);

/** Add to the history, without a change of the register. Returns 0, or the exit status after a message. */
int migrate_note(migrate_link *migration, const migrate_change *entry);

/** Go through the history, the oldest first. Returns 0, or the exit status after a message. */
int migrate_history(migrate_link *migration, void (*each)(void *ctx, const migrate_change *change),
                    void *ctx);

/** Scan the namespace's keys with the library, guessing legacy clients' stamps, or using the
 *  options in `legacy` (`exact`). Ends early for a signal (*ret_sig) and after 10 min (*ret_whole
 *  false). Returns 0, or the exit status after a message. */
int migrate_scan(migrate_link *migration, const char *keys, bool exact, signals *sigs,
                 tl_found_fn found, void *ctx, bool *ret_whole, int *ret_sig);

/** Count all locks of the namespace. The view is read again for an unknown holder, because a client
 *  may have started meanwhile. */
int migrate_look(migrate_link *migration, migrate_view *view, const char *keys, signals *sigs,
                 migrate_locks *ret, int *ret_sig);
