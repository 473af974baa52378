/*
 * Measuring in rounds, until a signal or the key q ends it.
 */
#pragma once

#include <termios.h>

#include "base/signals.h"

typedef struct {
    signals sigs;
    bool keys;             /**< the terminal delivers single keys */
    struct termios before; /**< the terminal's former settings, if `keys` */
    int ended_by;          /**< a signal, 'q', or 0 */
} skew_watch;

/** Start to receive signals and keys. Returns 0, or the exit status after a message. */
int skew_watch_begin(skew_watch *watch);

/** Wait ms; 0 only checks. True: the watch is to end. */
bool skew_watch_pause(skew_watch *watch, int64_t ms);

/** Restore the terminal. Returns the exit status: `status` after q or INT, else the signal's. */
int skew_watch_end(skew_watch *watch, int status);
