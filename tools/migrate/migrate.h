/*
 * What the words of `tidelock migrate` share: the options, and the server with the namespace as it was
 * read last.
 */
#pragma once

#include "migrate/migrate_link.h"

#define MIGRATE_NOT_GIVEN (-1)

typedef struct {
    const char *name, *keys;
    int phase;
    int64_t lease_ms, watch_ms, monitor_ms, wait_ms;
    bool force;
    bool yes, again, dry_run, history, json;
    int format;
    legacy_options legacy;
} migrate_options;

typedef struct {
    const char *word; /**< "advance" and so on, for messages */
    const migrate_options *options;
    migrate_link migration;
    migrate_view view;
    signals sigs;
    int sig; /**< the signal that asks to end */
} migrate_work;

/** Say what is waited for, on a terminal alone; a NULL wipes it away. At most ten times a second. */
void migrate_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Where there is no terminal to show progress on: say in one line what is waited for, and how long at most, if that is more
 *  than a moment. */
void migrate_say_wait(const char *word, const char *what, int64_t most_ms);

/** On a terminal, without --yes. Returns 0, or the exit status after a message. */
int migrate_confirm(const migrate_work *work, const char *question);

/* The words; each returns the exit status. */
int migrate_init(migrate_work *work);    /* migrate_init.c */
int migrate_advance(migrate_work *work); /* migrate_step.c */
int migrate_rollback(migrate_work *work);
int migrate_sweep(migrate_work *work); /* migrate_sweep.c */
int migrate_acl(migrate_work *work);   /* migrate_acl.c */

/** What ACLs have against going from one phase to another, put behind what is in `ret`: what the master denies legacy
 *  clients, and a server that may become master does not. Asks nothing where no Sentinels are named. */
void migrate_acl_judge(migrate_work *work, int from, int to, migrate_blockers *ret);
