/*
 * Threads of the library's own.
 */
#ifndef TL_THREAD_H
#define TL_THREAD_H

#include <pthread.h>

/** Run `work` in a thread that takes no signals: those are the program's business. ret_thread: to be
 *  joined; NULL: detached. Returns 0, or an errno. */
int tl__thread_start(void *(*work)(void *), void *ctx, pthread_t *ret_thread);

/** How many threads this process has, its own and the library's; 0: not known. */
unsigned tl__thread_count(void);

#endif
