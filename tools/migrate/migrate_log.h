/*
 * The history of a namespace's phase: one line of JSON for each change. Only this tool writes it,
 * and it checks what it reads. Pure.
 */
#pragma once

#include "legacy/migrate_record.h"
#include "transport/conn.h" /* tl_bytes */

#define MIGRATE_LOG_MOST 1000
#define MIGRATE_EVIDENCE_SIZE 600

typedef struct {
    char action[16];         /**< "init", "advance", "rollback", "sweep" */
    int64_t at_us, to_epoch; /**< the server's clock, and the new epoch: the server writes them */
    int64_t from_epoch;
    int from_phase, to_phase; /**< -1: none */
    char by[MIGRATE_BY_SIZE]; /**< "user@host pid 4711" */
    char evidence[MIGRATE_EVIDENCE_SIZE];
} migrate_change;

/** The line without its beginning, '{"at_us":N,"to_epoch":N,'; the caller frees it. NULL: out of
 *  memory. */
char *migrate_change_write(const migrate_change *change);

/** False: it is not such a line. */
bool migrate_change_read(tl_bytes line, migrate_change *ret);
