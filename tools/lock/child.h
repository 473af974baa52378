/*
 * The command that runs under the lock, and all that it starts. It is part of the caller's job, as it would
 * be without tidelock: in the same process group, session and terminal.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/signals.h"
#include "lock/supervisor.h"

typedef struct {
    int link;         /**< to the supervisor; readable when child_collect has something to read */
    pid_t supervisor; /**< its pid */
    int64_t until_ms; /**< the deadline that the supervisor received last */
    int tty;          /**< the controlling terminal; -1 none */
    bool in_front;    /**< our group had the terminal at the start */
    bool ending;      /**< all that the command started was asked to end */
    bool lost; /**< the supervisor was killed before it knew that all that must end has ended */
    supervisor_report seen; /**< the supervisor's newest report */
} child;

/** Start the command of the plan. Returns 0, or -1 and errno. Main thread only. */
int child_start(child *ret, const supervisor_plan *plan);

/** Pass a signal on to the command's process group. had_it: the terminal has sent it there already. */
void child_signal(child *child, int sig, bool had_it);

/** Send TERM or KILL to all that the command started. Stopped ones are continued, so that they notice. */
void child_end_all(child *child, int sig);

/** Set the deadline, by moment_ms: then the supervisor kills all that the command started, even if tidelock
 *  is stopped. */
void child_until(child *child, int64_t until_ms);

/** Stop all that the command started, or continue it. */
void child_halt(child *child, bool halt);

/** Continue the command. */
void child_continue(child *child);

/** Read the supervisor's reports, without waiting. */
void child_collect(child *child);

/** Is the command stopped at this moment? The last report may be older than a shell's CONT. */
bool child_is_stopped(const child *child);

/** Leave alone what still runs, and return the terminal to our group if no other process can. */
void child_close(child *child);
