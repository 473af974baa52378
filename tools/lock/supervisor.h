/*
 * The process between tidelock and the command. All that the command starts stays below it, also what
 * leaves its parent, its process group or its session: so it knows what to end, and nothing else is
 * there. It ends all of it at the lock's deadline by itself, should tidelock be stopped, and at once
 * when tidelock is gone.
 *
 * Tidelock ends all of it, too, and first. The supervisor has a session of its own. Linux gives each session a share of the
 * processor (autogroup), and on a busy machine the supervisor was seen to wait for more than a second.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/signals.h"

/** What tidelock asks. */
typedef enum {
    ASK_SIGNAL, /**< sig for the command's process group: those of it that the command started */
    ASK_ALL,    /**< sig for all that the command started. KILL is repeated until nothing is left */
    ASK_UNTIL,  /**< a new deadline */
    ASK_LEAVE   /**< go. What is left of the command's is on its own */
} supervisor_ask;

typedef struct {
    supervisor_ask what;
    int sig;
    bool
        had_it; /**< SIGNAL: the terminal has sent it to our process group already; ALL: tidelock to all of them */
    int64_t until_ms; /**< by moment_ms; INT64_MAX: none */
} supervisor_request;

/** How things are. Each report replaces the one before. */
typedef struct {
    pid_t pid;        /**< the command's */
    bool ended;       /**< the command, and its status is known */
    bool empty;       /**< nothing is left of what it started */
    bool expired;     /**< it was killed at the deadline that the supervisor knew */
    int stopped_by;   /**< it is stopped, by this signal; 0 it is not */
    int exit_status;  /**< as a shell would say it: its own, or 128 + signal */
    int ended_by;     /**< the signal that killed it, or 0 */
    int start_failed; /**< the errno of exec or fork; 0 it was started */
    bool no_process;  /**< it was fork */
} supervisor_report;

typedef struct {
    const signals *signals;
    char **argv, **env;
    bool new_session;
    int64_t until_ms;
} supervisor_plan;

/**
 * Start the supervisor, and it the command. Requests go to the descriptor *ret_link, reports come from
 * it, each in one piece; its end means that the supervisor is gone. Returns its number, or -1 and errno.
 */
pid_t supervisor_start(const supervisor_plan *plan, int *ret_link);
