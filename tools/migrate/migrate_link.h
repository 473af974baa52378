/*
 * The server that a migration is about: reading a namespace at its master, changing it in one step, and
 * looking at its keys.
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
    const legacy_options *legacy; /**< as given; its protocol means nothing */
    const char *name;             /**< the namespace's */
    char reg[MIGRATE_KEY_SIZE], clients[MIGRATE_KEY_SIZE], log[MIGRATE_KEY_SIZE];
    bool by_cluster;          /**< no register counts; the link leads to one node of several */
    int replicas;             /**< that are connected */
    char by[MIGRATE_BY_SIZE]; /**< "user@host pid 4711" */
    char by_register[MIGRATE_BY_SIZE]; /**< "host pid user" */
} migrate_link;

/** Connects, and refuses a replica, and a cluster if the word needs a phase. Returns 0, or the exit status after a
 *  message. */
int migrate_link_open(migrate_link *migration, const server *where, const char *word,
                      bool needs_phase, const char *name, const legacy_options *legacy);
void migrate_link_close(migrate_link *migration);

/** Read the namespace; view is ended with migrate_view_end, or read again. Returns 0, or the exit status
 *  after a message. */
int migrate_read(migrate_link *migration, migrate_view *view);
void migrate_view_end(migrate_view *view);

/** A change of the register. */
typedef struct {
    int64_t epoch; /**< that it must have; 0: there must be no register */
    int phase;
    unsigned ups;                /**< link.ups of the connection by which it was judged */
    const char *keys;            /**< NULL: as they are. Else it is made anew */
    int64_t lease_ms;            /**< with keys */
    const migrate_change *entry; /**< for the history */
} migrate_move;

/** Change it if it is as expected and no client has come that forbids it, and have the replicas
 *  confirm it. *ret_epoch: the new one. Returns 0, or the exit status after a message. */
int migrate_change_register(migrate_link *migration, const migrate_move *move, int64_t *ret_epoch);

/** Which process of which server answers; "" where it may not be asked. Returns 0, or the exit status; migration->link.message
 *  says why. */
#define MIGRATE_RUN_ID 41
int migrate_server_id(migrate_link *migration, char ret_id[MIGRATE_RUN_ID]);

/** The server's clock. Returns 0, or the exit status after a message. */
int migrate_server_time(migrate_link *migration, int64_t *ret_us);

/** Add to the history, without a change of the register. Returns 0, or the exit status after a message. */
int migrate_note(migrate_link *migration, const migrate_change *entry);

/** Go through the history, the oldest first. Returns 0, or the exit status after a message. */
int migrate_history(migrate_link *migration, void (*each)(void *ctx, const migrate_change *change),
                    void *ctx);

/** The library's scan of the namespace's keys, with legacy clients' stamps guessed, or as `legacy` says
 *  (`exact`). Ends early for a signal (*ret_sig) and after 10 min (*ret_whole false). Returns 0, or the
 *  exit status after a message. */
int migrate_scan(migrate_link *migration, const char *keys, bool exact, signals *sigs,
                 tl_found_fn found, void *ctx, bool *ret_whole, int *ret_sig);

/** All locks of the namespace in the view, which is read again for a holder that it doesn't know: a
 *  client may have come meanwhile. */
int migrate_look(migrate_link *migration, migrate_view *view, const char *keys, signals *sigs,
                 migrate_locks *ret, int *ret_sig);
