/*
 * Contenders for one lock, each on a thread of its own, that count up a number under it; and the
 * proof that no two of them ever held the lock at once.
 */
#pragma once

#include "locks.h"

/** Begin: each lock is one contender's, who waits at most wait_ms for it, and holds it for hold_ms
 *  (0: for a moment), again and again. */
void contest_start(tl_lock *const *locks, int count, int64_t wait_ms, int64_t hold_ms);

/** What they have counted up to so far. */
int contest_counted(void);

/** The longest time without any of them counting up, since the last call or the start: that ended in one who did. */
int64_t contest_pause_ms(void);

/** What the last of them that did not get the lock was told; "" when all got it. For a test that fails. */
const char *contest_said(void);

/** Does any of them believe that it holds the lock? */
bool contest_held(void);

typedef struct {
    int counted;     /**< how often they say that they have counted up, */
    int number;      /**< and how far it is */
    int overwritten; /**< another had counted while one was sure of the lock */
    int overlaps;    /**< two were sure of the lock at one moment, */
    int overlap_us;  /**< for so long at most, */
    char who[128];   /**< and which two that were */
    int fences_back; /**< a fence was not greater than the one before */
} contest_result;

/** End the threads, and say what came of it. */
contest_result contest_tally(void);
/** The test fails when the number isn't exact, when two were sure of the lock at one moment, or when a fence was not
 *  greater than the one before. */
void contest_demand(const contest_result *result);
/** Both. */
void contest_end(void);

/** End the threads of a contest that a failed test has left. */
void contest_abandon(void);
