/*
 * The identity of this process: for people who see it hold a lock, and for a child that was forked while its
 * parent held locks. The only module that asks the system for it.
 */
#pragma once

#include <stdint.h>

typedef struct {
    char host[65];
    int64_t pid;
    const char *program; /**< without its directory */
} tl_process;

tl_process tl__process_this(void);

/** Allocate a byte that is not 0, but reads as 0 in every child that is forked from now on; NULL: no
 *  memory. */
const volatile unsigned char *tl__process_mark(void);
/** Free that byte. NULL is fine. */
void tl__process_unmark(const volatile unsigned char *here);
