/*
 * Shows a namespace to people and programs.
 */
#pragma once

#include <stdio.h>

#include "base/js.h"
#include "base/members.h"
#include "migrate/migrate_judge.h"
#include "migrate/migrate_log.h"

/** The data of `migrate status`. */
typedef struct {
    const migrate_view *view;
    const migrate_locks *locks;     /**< NULL: not read */
    const migrate_traffic *traffic; /**< NULL: not read */
    migrate_blockers next, back;
    const migrate_change *history; /**< NULL: not requested */
    int changes;
} migrate_status;

void migrate_show_text(const migrate_status *status, FILE *out);
json_t *migrate_status_json(const migrate_status *status);
extern const member members_of_status[], members_of_register[], members_of_slots[],
    members_of_evidence[], members_of_source[], members_of_bunch[], members_of_example[],
    members_of_step[], members_of_blocker[], members_of_change[];

/** Show what is known of legacy clients, by source, and what each source can't show. */
void migrate_show_sources(const migrate_traffic *traffic, FILE *out);

/** Of masters, behind their names. */
#define MIGRATE_UNSAVED                                                                            \
    "would come back with older registers after a restart: until the next snapshot (BGSAVE), "     \
    "or with appendonly"

/** Show in which phase the slots of a cluster are, and what to do if that isn't the namespace's. */
void migrate_show_slots(const migrate_view *view, FILE *out);
json_t *migrate_slots_json(const migrate_view *view);

/** Show what blocks the phase; as JSON, null for a phase that does not exist. */
void migrate_show_blockers(int to, const migrate_blockers *blockers, FILE *out);
json_t *migrate_step_json(int to, const migrate_blockers *blockers);

/** Show the clients, expired ones too. */
void migrate_show_clients(const migrate_view *view, FILE *out);
json_t *migrate_clients_json(const migrate_view *view);
extern const member members_of_client[];

/** "confirmed", "behind", "ahead", "gone", "unregistered", "contradicts" or "unreadable". */
const char *migrate_client_state(const migrate_view *view, const migrate_client *client);

/** One line of JSON on standard output; frees it. Returns 0, or the exit status after a message. */
int migrate_show_line(json_t *json);

/** A sentence about clients that lock by another pattern than the register's; "" if there are none.
 *  Returns buf. */
#define MIGRATE_OTHERS_SIZE 1200
const char *migrate_others(char buf[MIGRATE_OTHERS_SIZE], const migrate_view *view);

/** "2026-11-21 22:20:01 UTC". Returns buf. */
#define MIGRATE_DATE_SIZE 32
const char *migrate_date(char buf[MIGRATE_DATE_SIZE], int64_t us);

/** Report a refusal: each blocker on a line of stderr. Returns the exit status. */
int migrate_refuse(const char *what, const migrate_blockers *blockers);
