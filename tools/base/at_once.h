/*
 * The same work for several items at once, a thread each: most of them only wait for a server.
 */
#pragma once

#include <stddef.h>

#define AT_ONCE 16 /* threads; of more items the others come after these */

/** work(item) for each of `count` items of `size` bytes; returns when all are done. Where no thread is to be had the caller
 *  does it. */
void at_once(void *(*work)(void *item), void *items, size_t size, unsigned count);
