/*
 * From the start of the command to its end.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include <tidelock/tidelock.h>

#include "base/signals.h"
#include "lock/child.h"
#include "lock/guard.h"
#include "lock/notify.h"

#define NEWS_DETAIL 768

/** Reports of the library's renewal thread, left here for the main thread. */
typedef struct {
    pthread_mutex_t mutex;
    int fd; /**< an eventfd: readable when there is something new */
    bool fresh;
    tl_lock_event event;
    char detail[NEWS_DETAIL];
} news;

/** Returns 0, or -1 and errno. */
int news_begin(news *ret);
/** Forget reports of an earlier hold. */
void news_clear(news *news);
/** The library's on_event; ctx is the news. */
void news_event(tl_lock *lock, const tl_lock_event *event, void *ctx);
void news_end(news *news);

typedef struct {
    signals *signals;
    tl_lock *lock;
    news *news;
    notify *notify;      /**< the command's signs of life; NULL: it has no watchdog */
    int64_t watchdog_ms; /**< how long the command may give none */
    int64_t sign_at;     /**< when it has given the last one, or was started, by moment_ms */
    int timer;
    const char *key; /**< for messages */
    bool verbose;
    child child;
    guard guard;
    /** Why the lock is at risk or lost, as the library said last; "": it is neither. */
    char trouble[NEWS_DETAIL];
    bool stalled;       /**< that is since the command gives no sign of life */
    bool triggered;     /**< the command has said that it is stalled */
    bool timeout_said;  /**< that it can't change the watchdog's time was reported */
    int end_asked;      /**< the signal that asked us to end, passed on; 0: none */
    int64_t stop_asked; /**< when our job was asked to stop, by moment_ms; 0: it was not */
    int64_t until_ms;   /**< the deadline that the supervisor knows */
    int64_t killed_at;  /**< when KILL was sent; 0: it was not */
    bool continue_due;  /**< the command is stopped, and is to be continued */
    bool halted;        /**< it is stopped since the lock is in doubt */
} watch;

/** Watch the command, which was started, until it has ended. */
void watch_command(watch *watch);

/** Read what was reported since, e.g. once the release has ended the reports. */
void watch_last_news(watch *watch);
