/*
 * Options about legacy clients, for the commands that acquire locks beside them.
 */
#pragma once

#include "base/tool.h"

typedef struct {
    int protocol; /**< a tl_protocol_id */
    const char *dialect, *namespaces;
    int clock_guard;                                                   /**< a tl_clock_guard */
    int64_t legacy_ttl_min_ms, clock_skew_max_ms, legacy_delay_max_ms; /**< LEGACY_NOT_GIVEN */
    bool strict;
    const char *never_strict; /**< why the command can't use --strict; NULL: it can */
    bool only_looks;          /**< the command only looks: --dialect needs no --protocol */
} legacy_options;

#define LEGACY_NOT_GIVEN (-1)
#define LEGACY_DEFAULTS                                                                            \
    .legacy_ttl_min_ms = LEGACY_NOT_GIVEN, .clock_skew_max_ms = LEGACY_NOT_GIVEN,                  \
    .legacy_delay_max_ms = LEGACY_NOT_GIVEN
