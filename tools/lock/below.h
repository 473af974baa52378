/*
 * The processes below one: its children, theirs, and so on.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct {
    pid_t pid, parent, group;
    char state; /**< as in /proc: 'T' stopped, 'Z' ended */
} below_process;

typedef void (*below_fn)(void *ctx, const below_process *p);

/**
 * Call fn once for each process below root, and for those that they start meanwhile; parents before
 * their children as a rule. fn may end them. The time that it takes grows with the number of processes below
 * root, or of the machine's where the kernel keeps no lists of children. It ends at until_ms (by moment_ms;
 * MOMENT_NEVER: no limit), even if some are left. False: /proc can't be read. Safe after a fork with threads;
 * one caller in a process at a time.
 */
bool below_each(pid_t root, int64_t until_ms, below_fn fn, void *ctx);
/** The same; without the kernel's lists if they aren't wanted. */
bool below_each_by(bool lists, pid_t root, int64_t until_ms, below_fn fn, void *ctx);

/**
 * Send sig, TERM or KILL, to each process below root but `signalled`, which has had it (0: none has), and CONT to those that
 * are stopped, so that they notice. As below_each() otherwise.
 */
bool below_end(pid_t root, int64_t until_ms, int sig, pid_t signalled);

/** Look at one. False: it isn't there, or /proc can't be read. */
bool below_look(pid_t pid, below_process *ret);

/** The number, parent, group and state in a line of /proc/PID/stat. False: it isn't one. */
bool below_parse(const char *stat, size_t n, below_process *ret);
