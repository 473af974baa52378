/*
 * Signals as events: blocked in every thread, and read from a descriptor by the main one.
 */
#ifndef TIDELOCK_SIGNALS_H
#define TIDELOCK_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include <tidelock/tidelock.h>

typedef struct {
    int fd;            /**< readable when signals_next has something */
    sigset_t old_mask; /**< what we were started with, and a command is started with again */
    struct sigaction old_pipe, old_child;
    sigset_t ignored; /**< by whoever started us: nohup, or a shell for its background jobs */
} signals;

/** Before any thread is started. Returns 0, or -1 and errno. */
int signals_begin(signals *s);

/** No signal is read any more. */
void signals_end(signals *s);

/** In a child between fork and exec: as we were started. */
void signals_restore(const signals *s);

/** The next signal, or 0 when there is none now. */
int signals_next(signals *s);

/** Whether this signal asks us to end: INT TERM HUP QUIT that were not ignored at our start. */
bool signals_ends(const signals *s, int sig);

/** Stop as the default action of TSTP, TTIN or TTOU would: alone, or our whole process group. */
void signals_stop(int sig, bool group);

/** Wait so long for a signal that asks us to end; its number, or 0. */
int signals_pause(signals *s, int64_t ms);

/**
 * tl_lock_acquire that such a signal ends: TL_ECANCELLED, with the signal in ret_signal. The
 * signal wins over an acquisition that came at the same moment: that one is released again.
 */
tl_err signals_acquire(signals *s, tl_lock *lock, int64_t wait_ms, int *ret_signal, tl_error *err);

#endif
