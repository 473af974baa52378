/*
 * Threads, and what they wait for of each other. The only module that calls pthreads.
 *
 * Types are structs of their own, so that nobody calls the system's functions for them by mistake, and a
 * program that is linked with another module in place of this one may keep something else in them.
 */
#pragma once

#include <pthread.h>

#include "ground/clock.h"

typedef struct {
    pthread_t system;
} tl_thread;

typedef struct {
    pthread_mutex_t system;
} tl_mutex;

typedef struct {
    pthread_cond_t system;
} tl_cond;

/** Run `work` in a thread that takes no signals: those are the program's business. ret_thread: to be
 *  joined; NULL: detached. Returns 0, or an errno. */
int tl__thread_start(void *(*work)(void *), void *ctx, tl_thread *ret_thread);
void tl__thread_join(tl_thread thread);
/** Nobody will join it. */
void tl__thread_detach(tl_thread thread);

tl_thread tl__thread_self(void);
bool tl__thread_is_self(tl_thread thread);

/** Let others have the processor, for one who looks again and again. */
void tl__thread_yield(void);

/** How many threads this process has, its own and the library's; 0: not known. */
unsigned tl__thread_count(void);

void tl__mutex_init(tl_mutex *mutex);
void tl__mutex_end(tl_mutex *mutex);
void tl__mutex_lock(tl_mutex *mutex);
/** False: another has it. */
bool tl__mutex_try(tl_mutex *mutex);
void tl__mutex_unlock(tl_mutex *mutex);

void tl__cond_init(tl_cond *cond);
void tl__cond_end(tl_cond *cond);
/** Wait, with the mutex let go meanwhile. Either may return early, as such waits do. wait_by: until `by`;
 *  false when that had passed. */
void tl__cond_wait(tl_cond *cond, tl_mutex *mutex);
bool tl__cond_wait_by(tl_cond *cond, tl_mutex *mutex, tl_mono by);
/** Wake one who waits, or all. */
void tl__cond_wake(tl_cond *cond);
void tl__cond_wake_all(tl_cond *cond);
