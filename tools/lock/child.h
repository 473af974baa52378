/*
 * The command that runs under the lock: a process group of its own, in the terminal's foreground
 * when we were there.
 */
#ifndef TIDELOCK_CHILD_H
#define TIDELOCK_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/signals.h"

typedef struct {
    pid_t pid;        /**< also its process group */
    int tty;          /**< the controlling terminal; -1 none */
    int failure;      /**< a pipe that tells why it could not be started */
    bool foreground;  /**< the terminal is lent to its group */
    bool ended;       /**< and its status known */
    int stopped_by;   /**< it is stopped, by this signal; 0 it is not */
    int exit_status;  /**< as a shell would say it: its own, or 128 + signal */
    int ended_by;     /**< the signal that killed it, or 0 */
    int start_failed; /**< the errno of exec; 0 it was started */
} child;

/** Start argv with the environment env. Returns 0, or -1 and errno. The main thread's business. */
int child_start(child *c, const signals *s, char **argv, char **env);

/** Send a signal to its whole group. */
void child_signal(const child *c, int sig);

/** Let it go on, in the foreground again if the terminal is ours to lend. */
void child_continue(child *c);

/** Collect what has become of it, without waiting. */
void child_collect(child *c);

/** Whether anything is left of its group, after it has ended. */
bool child_group_left(const child *c);

/** Take the terminal back. */
void child_take_terminal(child *c);

/** Close what child_start opened; the terminal is taken back first. */
void child_close(child *c);

#endif
