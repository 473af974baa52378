/*
 * Steps in a Redis Cluster, where each slot has a register: tests/model/phaseslot.pml has their rules.
 */
#pragma once

#include "migrate/migrate.h"
#include "migrate/migrate_fleet.h"

/** A step, and the facts that it rests on. */
typedef struct {
    int from, to;
    int64_t
        epoch; /**< of the namespace's record, read before the slots' registers; 0: there is none */
    unsigned ups;         /**< of the link to the record, since when it has shown this epoch */
    const char *keys;     /**< NULL: unchanged. Else the record is made */
    bool record_only;     /**< no slot changes */
    const char *evidence; /**< for the history */
} migrate_cluster_step;

/** Make the step, or finish one. Returns 0, or the exit status after a message. */
int migrate_cluster_move(migrate_work *work, const migrate_cluster_step *step);
