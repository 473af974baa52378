/*
 * What there is to tell people and programs of a namespace.
 */
#pragma once

#include <stdio.h>

#include "base/js.h"
#include "migrate/migrate_judge.h"
#include "migrate/migrate_log.h"

/** All that `migrate status` knows. */
typedef struct {
    const migrate_view *view;
    const migrate_locks *locks;     /**< NULL: not looked at */
    const migrate_traffic *traffic; /**< NULL: not looked at */
    int64_t calls;                  /**< SETNX and GETSET since the server counts; -1 unknown */
    migrate_blockers next, back;
    const migrate_change *history; /**< NULL: not asked for */
    int changes;
} migrate_status;

void migrate_show_text(const migrate_status *status, FILE *out);
json_t *migrate_status_json(const migrate_status *status);

/** The clients, those that are gone too. */
void migrate_show_clients(const migrate_view *view, FILE *out);
json_t *migrate_clients_json(const migrate_view *view);

/** One line of JSON on standard output; frees it. Returns 0, or the exit status after a message. */
int migrate_show_line(json_t *json);

/** Of clients that lock by another pattern than the register's, a sentence; "" if there are none. Returns
 *  buf. */
#define MIGRATE_OTHERS_SIZE 1200
const char *migrate_others(char buf[MIGRATE_OTHERS_SIZE], const migrate_view *view);

/** "2026-11-21 22:20:01 UTC". Returns buf. */
#define MIGRATE_DATE_SIZE 32
const char *migrate_date(char buf[MIGRATE_DATE_SIZE], int64_t us);

/** A refusal: each blocker on a line of stderr. Returns the exit status. */
int migrate_refuse(const char *what, const migrate_blockers *blockers);
