/*
 * A run within a run: which locks the environment says are held around this process.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tidelock/tidelock.h>

#include "base/tool.h"

#define NESTED_NAME "TIDELOCK_HELD"
#define NESTED_ASSIGNS "TIDELOCK_HELD="

/** The value of TIDELOCK_HELD for a command under this lock: our own value, and this lock. The caller frees
 *  it; NULL: no memory. */
char *nested_value(const char *key, const char *token, uint64_t fence);

/** Is the lock held at this moment by a run around this process? On etcd a held lock below its name counts,
 *  too. Such a wait would never end, as that run waits for this process; *err then says so. It asks the
 *  server only where the environment names the key. False also when the server doesn't reply. */
bool nested_holds(const server *where, tl_client *client, const char *key, tl_error *err);
