/*
 * Signals as events: they are blocked in every thread, and the main thread reads them from a descriptor.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include <tidelock/tidelock.h>

typedef struct {
    int fd; /**< readable when signals_next has something */
    sigset_t
        old_mask; /**< the mask that the tool was started with, and that a command is started with */
    sigset_t ignored; /**< by the parent process: nohup, or a shell for its background jobs */
} signals;

/** The role of a signal. The table in signals.c assigns them. */
typedef enum {
    SIGNAL_PASSED,  /**< the command receives it; the tool continues */
    SIGNAL_ENDING,  /**< the command receives it; it also ends a wait, and `run --forever` */
    SIGNAL_JOB,     /**< stops the job, as a terminal does */
    SIGNAL_IGNORED, /**< a write of the tool raised it; the write's error reports the same */
    SIGNAL_OURS     /**< CHLD, CONT: handled here, not passed on */
} signal_role;
signal_role signals_role(int sig);

/** Before any thread is started. Returns 0, or -1 and errno. */
int signals_begin(signals *signals);

/** Stop reading signals. */
void signals_end(signals *signals);

/** In a child between fork and exec: restore the state that the tool was started with. */
void signals_restore(const signals *signals);

/** The next signal, or 0 when there is none now. */
int signals_next(signals *signals);

/** As signals_next. *ret_by_terminal: the kernel sent it, to the whole process group. */
int signals_next_from(signals *signals, bool *ret_by_terminal);

/** Does this signal ask the tool to end? By its role, unless it was ignored when the tool started. */
bool signals_ends(const signals *signals, int sig);

/** Is a CONT pending that was not read yet? */
bool signals_continued(void);

/** Stop this process as the default action of TSTP, TTIN or TTOU would. */
void signals_stop(int sig);

/** The exit status for an end by this signal, which is remembered for signals_die(). */
int signals_status(int sig);

/** At the very end of the process, with its exit status: if that came from signals_status() of INT or
 *  QUIT, die of this signal, without a core. A shell ends its script or loop only then. Returns the
 *  status when there is no such signal, or it has no effect (process 1). */
int signals_die(int status);

/** Wait `ms` for a signal that asks the tool to end; its number, or 0. */
int signals_pause(signals *signals, int64_t ms);
/** The same, but also return when fd is readable (-1: never). */
int signals_pause_or(signals *signals, int fd, int64_t ms);

/**
 * tl_lock_acquire that such a signal cancels: TL_ECANCELLED, with the signal in ret_signal. If the lock is acquired at the
 * moment of the signal, it is released again.
 */
tl_err signals_acquire(signals *signals, tl_lock *lock, int64_t wait_ms, int *ret_signal,
                       tl_error *err);
