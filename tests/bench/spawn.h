/*
 * The command itself, as others start it: `tidelock WORDS...` on the server of the regime.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/** Run it to its end, its output thrown away; returns how long that took, ms. The words end with NULL.
 *  An exit status over 3 ends the benchmark: those up to 3 are verdicts. */
double spawn_run(const char *const *words);

/** One that goes on. */
typedef struct {
    pid_t pid;
    int fd;
} spawn;

/** Start it, to read the lines that it says on descriptor `from`, 1 or 2. */
spawn spawn_start(const char *const *words, int from);
/** Until it has said n more lines: 20 s each at most. */
void spawn_await(const spawn *s, int n);
int64_t spawn_cpu_ns(const spawn *s);   /**< used so far */
double spawn_memory_mb(const spawn *s); /**< the most that it has had at one time */
void spawn_stop(spawn *s);              /**< TERM, and wait until it has ended */
