/*
 * The trace of locks, for finding out why a lock hangs.
 */
#pragma once

#include <stdbool.h>

/** Begin the trace: to the file that TIDELOCK_TRACE names, if it is set, and to stderr, if to_stderr.
 *  Returns 0, or the exit status after a message. */
int trace_begin(const char *who, bool to_stderr);
bool trace_wanted(void);

/** One line, from any thread. */
void trace_tell(const char *message);
