/*
 * Do other namespaces of the server share names with this one? Such names would follow two phases.
 */
#pragma once

#include "migrate/migrate.h"

/** Is it certain that no name fits both patterns? In doubt: false. Pure. */
bool migrate_apart(const char *a, const char *b);

/** Report which other namespaces' patterns may share names with `keys`. Returns 0, or the exit
 *  status after a message; work->sig if a signal ended it. */
int migrate_tell_overlap(migrate_work *work, const char *keys);
