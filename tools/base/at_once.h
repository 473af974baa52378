/*
 * The same work for several items at once, a thread each: most of them only wait for a server.
 */
#pragma once

#include <stddef.h>

#define AT_ONCE 16 /* threads; with more items, the others follow when a thread is free */

/** Call work(item) for each of `count` items of `size` bytes; returns when all are done. If no thread can be started, the
 *  caller's thread does the work. */
void at_once(void *(*work)(void *item), void *items, size_t size, unsigned count);
