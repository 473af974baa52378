/*
 * The options of skew about legacy clients, and what they mean.
 */
#ifndef TIDELOCK_SKEW_LEGACY_H
#define TIDELOCK_SKEW_LEGACY_H

#include "skew/skew_listen.h"

#define SKEW_NOT_GIVEN INT64_MIN
#define SKEW_PASSIVE_MS 5000

typedef struct {
    int64_t passive_ms, pool_wait_ms;
    const char *legacy_ttl, *dialect, *keys;
} skew_legacy_options;

#define SKEW_LEGACY_DEFAULTS                                                                       \
    { .passive_ms = SKEW_NOT_GIVEN, .pool_wait_ms = SKEW_NOT_GIVEN }

/** Rows for skew's table; `at` is the offset of its skew_legacy_options. None in a build without. */
#ifdef TL_COMPAT
#define SKEW_LEGACY_ROWS(at)                                                                       \
    {0,                                                                                            \
     "passive",                                                                                    \
     OPT_EVERY,                                                                                    \
     (at) + offsetof(skew_legacy_options, passive_ms),                                             \
     "[=D]",                                                                                       \
     "measure legacy clients too, by MONITOR for D (5s)",                                          \
     SKEW_PASSIVE_MS,                                                                              \
     0},                                                                                           \
        {0,        "legacy-ttl",                                                                   \
         OPT_TEXT, (at) + offsetof(skew_legacy_options, legacy_ttl),                               \
         "D|auto", "the lifetime that they use (that of --lock-timeout)",                          \
         0,        0},                                                                             \
        {0,        "dialect",                                                                      \
         OPT_TEXT, (at) + offsetof(skew_legacy_options, dialect),                                  \
         "NAME",   "how they write it, see: tidelock help dialects (java)",                        \
         0,        0},                                                                             \
        {0,         "keys",                                                                        \
         OPT_TEXT,  (at) + offsetof(skew_legacy_options, keys),                                    \
         "PATTERN", "the keys of their locks, as a glob (all that hold stamps)",                   \
         0,         0},                                                                            \
        {0,                                                                                        \
         "pool-wait",                                                                              \
         OPT_DURATION,                                                                             \
         (at) + offsetof(skew_legacy_options, pool_wait_ms),                                       \
         "D",                                                                                      \
         "from reading their clock to having a connection (5ms for those that PING first)",        \
         0,                                                                                        \
         0},
#else
#define SKEW_LEGACY_ROWS(at)
#endif

/** Are they to be measured? */
static inline bool skew_legacy_asked(const skew_legacy_options *o) {
    return o->passive_ms != SKEW_NOT_GIVEN;
}

/** Is any of them given? */
static inline bool skew_legacy_any(const skew_legacy_options *o) {
    return skew_legacy_asked(o) || o->legacy_ttl || o->dialect || o->keys ||
           o->pool_wait_ms != SKEW_NOT_GIVEN;
}

/** Whoever isn't to be measured leaves the others out, too, but for the dialect: stamps are compared
 *  however clocks are measured. ret->dialect is NULL when nothing is said of it. Returns 0, or the exit status after a
 *  message. */
int skew_legacy_make(const skew_legacy_options *o, int64_t lock_timeout_ms,
                     skew_listen_options *ret);

#endif
