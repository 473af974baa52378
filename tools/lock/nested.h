/*
 * A run within a run: what the environment says of the locks that are held around this process.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tidelock/tidelock.h>

#include "base/tool.h"

#define NESTED_NAME "TIDELOCK_HELD"
#define NESTED_ASSIGNS "TIDELOCK_HELD="

/** The value of that variable for a command under this lock: ours, and the lock. The caller's to
 *  free; NULL: no memory. */
char *nested_value(const char *key, const char *token, uint64_t fence);

/** Is the lock held, at this moment, by a run around this process, or on etcd one below its name? Who waits for it would wait for
 *  itself. Then *err says so. Asks the server only where the environment names the key; false also
 *  when it doesn't answer. */
bool nested_holds(const server *where, tl_client *client, const char *key, tl_error *err);
