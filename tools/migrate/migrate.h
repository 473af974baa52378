/*
 * Shared by the subcommands of `tidelock migrate`: the options, the server, and the namespace as it
 * was last read.
 */
#pragma once

#include "migrate/migrate_link.h"

#define MIGRATE_NOT_GIVEN (-1)

typedef struct {
    const char *name, *keys, *metrics;
    int phase, rate;
    int64_t lease_ms, watch_ms, monitor_ms, wait_ms;
    bool force;
    bool yes, again, dry_run, history, json;
    int format;
    legacy_options legacy;
} migrate_options;

typedef struct {
    const char *word; /**< the subcommand, such as "advance", for messages */
    const migrate_options *options;
    migrate_link migration;
    migrate_view view;
    signals sigs;
    int sig; /**< the signal that asks to end */
} migrate_work;

/** Show what the command waits for, only on a terminal. NULL wipes it. At most ten times a
 *  second. */
void migrate_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Without a terminal for progress: report in one line what the command waits for and the longest
 *  duration, unless that is short. */
void migrate_say_wait(const char *word, const char *what, int64_t most_ms);

/** Ask for confirmation, on a terminal and without --yes. Returns 0, or the exit status after a
 *  message. */
int migrate_confirm(const migrate_work *work, const char *question);

/* The subcommands; each returns the exit status. */
int migrate_init(migrate_work *work);    /* migrate_init.c */
int migrate_advance(migrate_work *work); /* migrate_step.c */
int migrate_rollback(migrate_work *work);
int migrate_sweep(migrate_work *work); /* migrate_sweep.c */
extern const member members_of_sweep[];
int migrate_acl(migrate_work *work);    /* migrate_acl.c */
int migrate_survey(migrate_work *work); /* migrate_survey.c */

/** Which users of the servers that may be or become master may use the legacy clients' commands? Adds to
 *  `ret` the reasons against this step: the master denies a command to legacy clients, but a server that
 *  may become master allows it. Sends no request for a step that needs no evidence. */
void migrate_acl_judge(migrate_work *work, int to, migrate_permissions *permissions,
                       migrate_blockers *ret);
