/*
 * Who this process is: for people who see it hold a lock, and for a child that was forked with the locks of
 * its parent. The only module that asks the system for it.
 */
#pragma once

#include <stdint.h>

typedef struct {
    char host[65];
    int64_t pid;
    const char *program; /**< without its folder */
} tl_process;

tl_process tl__process_this(void);

/** A byte that isn't 0 but reads as 0 in a child that is forked from now on; NULL: no memory. */
const volatile unsigned char *tl__process_mark(void);
/** NULL is fine. */
void tl__process_unmark(const volatile unsigned char *here);
