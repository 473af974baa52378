/*
 * Do other namespaces of the server have names in common with this one? Such names would follow two phases.
 */
#pragma once

#include "migrate/migrate.h"

/** Is it certain that no name fits both patterns? In doubt it isn't. Pure. */
bool migrate_apart(const char *a, const char *b);

/** Say which other namespaces' patterns may have names in common with `keys`. Returns 0, or the exit status
 *  after a message; work->sig where a signal ended it. */
int migrate_tell_overlap(migrate_work *work, const char *keys);
