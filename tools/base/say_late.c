/*
 * Messages that must not delay their thread: it may be the one that ends a command in
 * time, or that renews locks. No call can tell in advance whether a write to stderr blocks: poll(2) reports room even if
 * only a part of the line fits. So another thread writes them. That thread may block for ever, and
 * only say_drain() waits for it. These functions are not in say.c, so that a program without real threads
 * can define them itself.
 */
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "base/tool.h"

#define LINES 512 /* more lines are dropped, while nobody reads stderr */

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool runs;        /* the thread */
    int first, count; /* of the ring; the first may be in the process of being written */
    size_t len[LINES];
    char line[LINES][SAY_LINE_SIZE];
} late = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void *write_lines(void *ctx) {
    pthread_mutex_lock(&late.mutex);
    for (;;) {
        while (late.count == 0)
            pthread_cond_wait(&late.changed, &late.mutex);
        int at = late.first; /* no other thread changes this line while it counts */
        pthread_mutex_unlock(&late.mutex);
        say_line(late.line[at], late.len[at]);
        pthread_mutex_lock(&late.mutex);
        late.first = (late.first + 1) % LINES;
        late.count--;
        pthread_cond_broadcast(&late.changed);
    }
    return ctx;
}

/* This thread blocks all signals: the main thread handles them. */
static bool start_thread(void) {
    sigset_t all, old;
    pthread_attr_t attr;
    pthread_t thread;

    if (pthread_attr_init(&attr))
        return false;
    sigfillset(&all);
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void)pthread_sigmask(SIG_BLOCK, &all, &old);
    bool started = pthread_create(&thread, &attr, write_lines, NULL) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    (void)pthread_attr_destroy(&attr);
    return started;
}

void say_if_free(const char *format, ...) {
    va_list args;

    pthread_mutex_lock(&late.mutex);
    late.runs = late.runs || start_thread();
    if (late.runs && late.count < LINES) {
        int at = (late.first + late.count) % LINES;
        va_start(args, format);
        late.len[at] = say_format(late.line[at], format, args);
        va_end(args);
        late.count++;
        pthread_cond_broadcast(&late.changed);
    }
    pthread_mutex_unlock(&late.mutex);
}

void say_drain(int ms) {
    int64_t us = moment_wall_us() + (int64_t)ms * 1000;
    struct timespec until = {.tv_sec = (time_t)(us / 1000000),
                             .tv_nsec = (long)(us % 1000000) * 1000};
    int failed = 0;

    pthread_mutex_lock(&late.mutex);
    while (late.count > 0 && !failed)
        failed = ms == SAY_FOREVER ? pthread_cond_wait(&late.changed, &late.mutex)
                                   : pthread_cond_timedwait(&late.changed, &late.mutex, &until);
    pthread_mutex_unlock(&late.mutex);
}
