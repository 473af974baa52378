/*
 * Measuring again and again, until a signal or the key q ends it.
 */
#pragma once

#include <termios.h>

#include "base/signals.h"

typedef struct {
    signals sigs;
    bool keys;             /**< the terminal's keys come one by one */
    struct termios before; /**< of the terminal, where keys */
    int ended_by;          /**< a signal, 'q', or 0 */
} skew_watch;

/** Take signals and keys. Returns 0, or the exit status after a message. */
int skew_watch_begin(skew_watch *watch);

/** Wait so long, 0 just to look. True: it is to end. */
bool skew_watch_pause(skew_watch *watch, int64_t ms);

/** Give the terminal back. What the exit status is: `status` after q or INT, else the signal's. */
int skew_watch_end(skew_watch *watch, int status);
