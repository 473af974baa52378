/*
 * Threads, mutexes and conditions. The only module that calls pthreads.
 *
 * The types are structs of their own: so nothing calls a pthreads function for them by mistake. A program may
 * link a replacement of this module whose types contain something else.
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

/** Run `work` in a thread that blocks all signals: those belong to the program's own threads. ret_thread: to
 *  be joined; NULL: detached. Returns 0, or an errno. */
int tl__thread_start(void *(*work)(void *), void *ctx, tl_thread *ret_thread);
void tl__thread_join(tl_thread thread);
/** Detach it: it will not be joined. */
void tl__thread_detach(tl_thread thread);

tl_thread tl__thread_self(void);
bool tl__thread_is_self(tl_thread thread);

/** Let other threads run; for a loop that polls. */
void tl__thread_yield(void);

/** The number of threads in this process, the program's and the library's; 0: unknown. */
unsigned tl__thread_count(void);

void tl__mutex_init(tl_mutex *mutex);
void tl__mutex_end(tl_mutex *mutex);
void tl__mutex_lock(tl_mutex *mutex);
/** False: another thread holds it. */
bool tl__mutex_try(tl_mutex *mutex);
void tl__mutex_unlock(tl_mutex *mutex);

void tl__cond_init(tl_cond *cond);
void tl__cond_end(tl_cond *cond);
/** Wait; the mutex is unlocked meanwhile. Both may return early (spurious wake-ups). wait_by: until `by`;
 *  false if that had already passed. */
void tl__cond_wait(tl_cond *cond, tl_mutex *mutex);
bool tl__cond_wait_by(tl_cond *cond, tl_mutex *mutex, tl_mono by);
/** Wake one waiting thread, or all. */
void tl__cond_wake(tl_cond *cond);
void tl__cond_wake_all(tl_cond *cond);
