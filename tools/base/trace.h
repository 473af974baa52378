/*
 * What goes on with locks, for whoever looks for one that hangs.
 */
#pragma once

#include <stdbool.h>

/** From now on: in the file that TIDELOCK_TRACE names, if it does, and on stderr, if that is wanted.
 *  Returns 0, or the exit status after a message. */
int trace_begin(const char *who, bool to_stderr);
bool trace_wanted(void);

/** One line, from any thread. */
void trace_tell(const char *message);
