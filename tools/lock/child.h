/*
 * The command that runs under the lock, and all that it starts. It is part of the caller's job, as it
 * would be without tidelock: in the same process group, session and terminal.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/signals.h"
#include "lock/supervisor.h"

typedef struct {
    int link;               /**< to its supervisor, readable when child_collect has something */
    pid_t supervisor;       /**< its number */
    int64_t until_ms;       /**< the last that was told by child_until */
    int tty;                /**< the controlling terminal; -1 none */
    bool in_front;          /**< our group had the terminal when it began */
    supervisor_report seen; /**< what has become of it */
} child;

/** Start what the plan says. Returns 0, or -1 and errno. The main thread's business. */
int child_start(child *ret, const supervisor_plan *plan);

/** Pass a signal on to its process group, unless had_it: the terminal has done so. */
void child_signal(child *child, int sig, bool had_it);

/** Send TERM or KILL to all that it started; what is stopped goes on, to notice. */
void child_end_all(child *child, int sig);

/** All that it started is to be killed then, whatever becomes of us. By moment_ms. */
void child_until(child *child, int64_t until_ms);

/** Let it go on. */
void child_continue(child *child);

/** Collect what has become of it, without waiting. */
void child_collect(child *child);

/** Whether it is stopped at this moment. What was reported may be older than a shell's CONT. */
bool child_is_stopped(const child *child);

/** Let go of what it left running, and give the terminal back to our group where nobody else can. */
void child_close(child *child);
