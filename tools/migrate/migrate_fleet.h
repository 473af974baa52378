/*
 * All nodes of a Redis Cluster at one moment: which of them has which slot, what each slot's register says, and
 * what is not in order. Writes the registers, and waits for the replicas.
 */
#pragma once

#include "doctor/cluster_survey.h"
#include "migrate/migrate_link.h"
#include "migrate/migrate_slots.h"

typedef struct {
    server_link link; /**< conn NULL: it can't be asked */
    char id[NODE_ID_SIZE], of[NODE_ID_SIZE];
    char label[TL_HOST_SIZE + 16];
    bool master;    /**< as its role says */
    bool linked;    /**< a replica: it is connected to its master */
    bool moves;     /**< slots are being moved atomically */
    int slots;      /**< how many it has */
    int64_t epoch;  /**< of its slots */
    int64_t offset; /**< in the stream of replication */
    int64_t
        saved_us; /**< by its clock: its snapshot, with which a restart begins; or FLEET_SAVED */
    char run[MIGRATE_RUN_ID];     /**< of the process */
    char history[MIGRATE_RUN_ID]; /**< of the stream of replication */
    bool denies;                  /**< it has refused to read or write a register, and will again */
    int status;                   /**< 0, or why it can't be asked, with a message */
    char message[240];
} fleet_node;

#define FLEET_SAVED INT64_MAX /**< it appends to a file, has no snapshot, or doesn't say */

struct migrate_fleet {
    fleet_node *node;
    unsigned count;
    uint16_t owner[TL_SLOTS]; /**< number of a node; TL_NOBODY: not known, or not agreed */
    migrate_blockers flaws;   /**< what of the cluster forbids a step */
    uint64_t identity;        /**< changes with any owner, process or epoch of a master */
    migrate_slot slot[TL_SLOTS];
    migrate_tally tally;
    int64_t read_ms; /**< when all of this was read; 0: not yet */
};

/** Read all of it anew, unless that was done less than `age_ms` ago, or the cluster is unchanged: the nodes are asked that by
 *  the connections that they have, and the registers are those of the last reading. 0: read it anew in any case. Returns 0, or
 *  the exit status after a message: no node replies. */
int migrate_fleet_read(migrate_link *migration, int64_t age_ms);
void migrate_fleet_free(struct migrate_fleet *fleet);

/** Lead the link to the node that has the namespace's own record. False: link->status and link->message say
 *  why not. */
bool migrate_fleet_lead(migrate_link *migration);

/** Write `want` into each slot that `wanted` chooses: in each slot only if it says what it says in `before`.
 *  Nothing is known of the result: read it. */
void migrate_fleet_write(migrate_link *migration, const migrate_slot *before, migrate_slot want,
                         bool (*wanted)(migrate_slot is, migrate_slot want));

/** Wait until each server that may take over has all that was written so far. Returns 0, or the exit status after a
 *  message, which begins with `what`. */
int migrate_fleet_settle(migrate_link *migration, const char *what);

/* ---- migrate_fleet_judge.c: pure ---------------------------------------------------------------- */

/** Is it a node of its own, and not another address of one? */
bool migrate_is_node(const cluster_node *node);

/** The node with this ID; NULL: none. */
fleet_node *migrate_find_node(const struct migrate_fleet *fleet, const char *id);

void migrate_add_flaw(struct migrate_fleet *fleet, bool passes, const char *who, const char *todo,
                      const char *what, ...) __attribute__((format(printf, 5, 6)));

/** Does a reply to CLUSTER GETSLOTMIGRATIONS (Valkey) or CLUSTER MIGRATION STATUS (Redis) have a move that is not
 *  over, or may be repeated? */
bool migrate_has_moves(const tl_reply *moves, bool valkey);

/** Does the error with which a server has answered such a request say that it can have no moves? */
bool migrate_has_no_moves(const server_link *link);

/** From the nodes and what they have said: the owners, the flaws, the identity. */
void migrate_fleet_judge(struct migrate_fleet *fleet, const cluster_survey *survey);

/** The masters that a restart would give older registers: without an append-only file, and with a snapshot from before
 *  these were written. "": none. Returns buf. */
const char *migrate_fleet_unsaved(char buf[MIGRATE_LIST_SIZE], const struct migrate_fleet *fleet);

/** The masters of slots in a later phase than this one: "10.0.0.5:6379 (12 slots)". Returns buf. */
const char *migrate_fleet_later(char buf[MIGRATE_LIST_SIZE], const struct migrate_fleet *fleet,
                                int phase);

/** Has this replica all that its master had executed at its last INFO? */
bool migrate_has_all(const fleet_node *replica, const fleet_node *master);
