/*
 * The processes below another one: its children, their children, and so on.
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
 * Call fn once for each process below root, and for those that they start meanwhile; usually parents before
 * their children. fn may end them. The time that it takes grows with the number of processes below root.
 * Where the kernel has no lists of children, it grows with the number of all processes. It ends at until_ms
 * (by moment_ms; MOMENT_NEVER: no limit), even if some are left. False: /proc can't be read. Safe after a
 * fork with threads; one caller in a process at a time.
 */
bool below_each(pid_t root, int64_t until_ms, below_fn fn, void *ctx);
/** The same; lists false: don't use the kernel's lists of children. */
bool below_each_by(bool lists, pid_t root, int64_t until_ms, below_fn fn, void *ctx);

/**
 * Send sig, TERM or KILL, to each process below root except `signalled`, which has received it (0: none
 * has). Send CONT to those that are stopped, so that they notice. Otherwise as below_each().
 */
bool below_end(pid_t root, int64_t until_ms, int sig, pid_t signalled);

typedef enum {
    BELOW_NOT,    /**< it is not below root */
    BELOW_IS,     /**< it is root, or below it */
    BELOW_UNKNOWN /**< it has ended, or /proc can't be read */
} below_place;

/** Is the process below root? */
below_place below_find(pid_t pid, pid_t root);

/** Look at one process. False: it doesn't exist, or /proc can't be read. */
bool below_look(pid_t pid, below_process *ret);

/** The pid, parent, group and state in the text of /proc/PID/stat. False: it isn't such a text, or of a process
 *  that no longer exists. */
bool below_parse(const char *stat, size_t n, below_process *ret);
