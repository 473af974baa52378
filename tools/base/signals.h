/*
 * Signals as events: blocked in every thread, and read from a descriptor by the main one.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include <tidelock/tidelock.h>

typedef struct {
    int fd;            /**< readable when signals_next has something */
    sigset_t old_mask; /**< what we were started with, and a command is started with again */
    sigset_t ignored;  /**< by whoever started us: nohup, or a shell for its background jobs */
} signals;

/** What becomes of a signal. signals.c has the table, which names each of them. */
typedef enum {
    SIGNAL_PASSED,  /**< the command gets it; it ends nothing of ours */
    SIGNAL_ENDING,  /**< the command gets it; it also ends a wait, and `run --forever` */
    SIGNAL_JOB,     /**< stops the job, as a terminal does */
    SIGNAL_IGNORED, /**< a write of ours raised it; the write's error tells the same */
    SIGNAL_OURS     /**< CHLD, CONT: handled here, not passed on */
} signal_role;
signal_role signals_role(int sig);

/** Before any thread is started. Returns 0, or -1 and errno. */
int signals_begin(signals *signals);

/** No signal is read any more. */
void signals_end(signals *signals);

/** In a child between fork and exec: as we were started. */
void signals_restore(const signals *signals);

/** The next signal, or 0 when there is none now. */
int signals_next(signals *signals);

/** As signals_next. *ret_by_terminal: the kernel sent it, to our whole process group. */
int signals_next_from(signals *signals, bool *ret_by_terminal);

/** Whether this signal asks us to end: its role, unless it was ignored at our start. */
bool signals_ends(const signals *signals, int sig);

/** Whether a CONT has come that is still to be read. */
bool signals_continued(void);

/** Stop this process as the default action of TSTP, TTIN or TTOU would. */
void signals_stop(int sig);

/** The exit status for an end by this signal, which signals_die() remembers. */
int signals_status(int sig);

/** At the very end of the process, with its exit status: if that came from signals_status() of INT or
 *  QUIT, die of this signal, without a core. A shell ends its script or loop only then. Returns the
 *  status when there is no such signal, or it has no effect (process 1). */
int signals_die(int status);

/** Wait so long for a signal that asks us to end; its number, or 0. */
int signals_pause(signals *signals, int64_t ms);
/** The same, and no longer than until fd is readable (-1: it never is). */
int signals_pause_or(signals *signals, int fd, int64_t ms);

/**
 * tl_lock_acquire that such a signal ends: TL_ECANCELLED, with the signal in ret_signal. The
 * signal wins over an acquisition that came at the same moment: that one is released again.
 */
tl_err signals_acquire(signals *signals, tl_lock *lock, int64_t wait_ms, int *ret_signal,
                       tl_error *err);
