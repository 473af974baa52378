/*
 * Options about the legacy clients, for the commands that take locks beside them.
 */
#ifndef TIDELOCK_LEGACY_H
#define TIDELOCK_LEGACY_H

#include <tidelock/tidelock.h>

#include "base/optparse.h"

typedef struct {
    int protocol; /**< a tl_protocol_id */
    const char *dialect, *namespaces;
    int guard;                                         /**< a tl_clock_guard */
    int64_t legacy_ttl_ms, max_skew_ms, legacy_lag_ms; /**< LEGACY_NOT_GIVEN */
    bool strict;
} legacy_options;

#define LEGACY_NOT_GIVEN (-1)
#define LEGACY_DEFAULTS                                                                            \
    {                                                                                              \
        .legacy_ttl_ms = LEGACY_NOT_GIVEN, .max_skew_ms = LEGACY_NOT_GIVEN,                        \
        .legacy_lag_ms = LEGACY_NOT_GIVEN                                                          \
    }

/** Rows for a command's table; `at` is the offset of its legacy_options. None in a build without. */
#ifdef TL_COMPAT
#define LEGACY_ROWS(at)                                                                            \
    {0, "", OPT_HEADING, 0, NULL, "For locks that are shared with legacy clients:", 0, 0},         \
        {0,                                                                                        \
         "protocol",                                                                               \
         OPT_CHOICE,                                                                               \
         (at) + offsetof(legacy_options, protocol),                                                \
         "token|bridge|timestamp|auto",                                                            \
         "how the lock is kept (token, which no legacy client uses)",                              \
         0,                                                                                        \
         0},                                                                                       \
        {0,        "namespace",                                                                    \
         OPT_TEXT, (at) + offsetof(legacy_options, namespaces),                                    \
         "NAME",   "auto: whose phase counts, see: tidelock help migrate (default)",               \
         0,        0},                                                                             \
        {0,        "dialect",                                                                      \
         OPT_TEXT, (at) + offsetof(legacy_options, dialect),                                       \
         "NAME",   "how legacy clients write it, see: tidelock help dialects (java)",              \
         0,        0},                                                                             \
        {0,                                                                                        \
         "legacy-ttl",                                                                             \
         OPT_DURATION,                                                                             \
         (at) + offsetof(legacy_options, legacy_ttl_ms),                                           \
         "D",                                                                                      \
         "the shortest lifetime that legacy clients use (60s)",                                    \
         0,                                                                                        \
         0},                                                                                       \
        {0,                                                                                        \
         "max-skew",                                                                               \
         OPT_DURATION,                                                                             \
         (at) + offsetof(legacy_options, max_skew_ms),                                             \
         "D",                                                                                      \
         "how far legacy clients' clocks may be off the server's (1s)",                            \
         0,                                                                                        \
         0},                                                                                       \
        {0,                                                                                        \
         "legacy-lag",                                                                             \
         OPT_DURATION,                                                                             \
         (at) + offsetof(legacy_options, legacy_lag_ms),                                           \
         "D",                                                                                      \
         "how long they may take over one step (half of --max-skew)",                              \
         0,                                                                                        \
         0},                                                                                       \
        {0,                                                                                        \
         "clock-guard",                                                                            \
         OPT_CHOICE,                                                                               \
         (at) + offsetof(legacy_options, guard),                                                   \
         "warn|refuse|off",                                                                        \
         "when a clock is further off than --max-skew (warn)",                                     \
         0,                                                                                        \
         0},                                                                                       \
        {0,        "strict",                                                                       \
         OPT_FLAG, (at) + offsetof(legacy_options, strict),                                        \
         NULL,     "timestamp: with SETNX, GET, GETSET and DEL alone",                             \
         0,        0},
#else
#define LEGACY_ROWS(at)
#endif

/** Put them into the options of a client. Returns 0, or the exit status after a message. */
int legacy_apply(const char *who, const legacy_options *o, tl_client_options *client);

/** Those that this build does not have; ends with a NULL. */
extern const char *const legacy_left_out[];

/** The lifetime that is meant, where given_ms is what -t says, or LEGACY_NOT_GIVEN. */
int64_t legacy_ttl_ms(const legacy_options *o, int64_t given_ms);

/** The name of a protocol for JSON, NULL for -1. */
const char *protocol_name(int protocol);

/** Print the dialects. Returns 0, or the exit status after a message. */
int legacy_list(void);

#endif
