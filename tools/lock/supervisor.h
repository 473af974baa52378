/*
 * The process between tidelock and the command. All that the command starts stays below it, also a process
 * that leaves its parent, its process group or its session. So the supervisor finds all that must end, and
 * nothing else. It ends all of it at the lock's deadline, even if tidelock is stopped, and at once when
 * tidelock has ended.
 *
 * Tidelock ends all of it, too, and first. The supervisor has a session of its own. Linux gives each
 * session a share of the processor (autogroup), and on a busy machine the supervisor was seen to wait for
 * more than a second.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/signals.h"

/** Requests of tidelock. */
typedef enum {
    ASK_SIGNAL, /**< send sig to the command's process group: to those that the command started */
    ASK_ALL,   /**< send sig to all that the command started; KILL is repeated until none is left */
    ASK_HALT,  /**< send sig, STOP or CONT, to all that the command started */
    ASK_UNTIL, /**< a new deadline */
    ASK_LEAVE  /**< end; what is left of the command runs on */
} supervisor_ask;

typedef struct {
    supervisor_ask what;
    int sig;
    /** SIGNAL: the terminal has sent it to our process group already. ALL: tidelock has sent it to all of
     *  them. */
    bool had_it;
    int64_t until_ms; /**< by moment_ms; INT64_MAX: none */
} supervisor_request;

/** The state of the command. Each report replaces the one before. */
typedef struct {
    pid_t pid;        /**< the command's pid */
    bool ended;       /**< the command has ended, and its status is known */
    bool empty;       /**< nothing that it started is left */
    bool expired;     /**< it was killed at the deadline, or not started by then */
    int stopped_by;   /**< the signal that stopped it; 0: it is not stopped */
    int exit_status;  /**< as a shell reports it: its own, or 128 + signal */
    int ended_by;     /**< the signal that killed it, or 0 */
    int start_failed; /**< the errno of exec or fork; 0: it was started */
    bool no_process;  /**< start_failed is that of fork */
} supervisor_report;

typedef struct {
    const signals *signals;
    char **argv, **env;
    char *own_pid; /**< room in env for the command's pid (childenv.h), or NULL */
    bool new_session;
    int64_t until_ms;
} supervisor_plan;

/**
 * Start the supervisor, which starts the command. Requests go to the descriptor *ret_link, reports come
 * from it, each in one piece. End of file means that the supervisor has ended. Returns its pid, or -1 and
 * errno.
 */
pid_t supervisor_start(const supervisor_plan *plan, int *ret_link);
