/*
 * The Java class DistributeLockUtil in C, bug for bug, on a connection of its own: SETNX, GET, GETSET
 * and DEL as separate commands, stamps from the host's wall clock, one flag for all keys, and a DEL
 * that nothing but this flag guards. One instance is used by one thread, or by many as Java does it.
 */
#pragma once

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct {
    redisContext *context;
    bool locked;         /**< the one flag */
    bool flag_is_result; /**< lock() sets the flag to what it returns; else only on success */
    bool threw;          /**< the last lock() ended with an exception */
    int64_t ttl_ms;      /**< 60000 in Java */
    int64_t ahead_ms;    /**< of its host's clock */
    /** What is assumed about the class, and held here: nothing is executed of an attempt that takes
     *  longer than lag_ms, and no DEL later than slack_ms before its stamp. 0: not held. */
    int64_t lag_ms, slack_ms;
    int64_t stamp_ms; /**< what the last successful lock() wrote */
} legacy_lock;

/** For 60 s, on time. */
legacy_lock legacy_lock_on(redisContext *context);

bool legacy_lock_lock(legacy_lock *l, const char *key);
void legacy_lock_release(legacy_lock *l, const char *key);
