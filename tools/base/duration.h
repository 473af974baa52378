/*
 * Durations as people type them: digits and a unit, "30s".
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/** The longest duration: 292 years, which still counts in nanoseconds. */
#define DURATION_MAX_MS (INT64_MAX / 1000000)

/** Size of `why`. */
#define DURATION_WHY 96

/**
 * Parse digits and one of the units ms s m h d, nothing else.
 *
 * returns  milliseconds, or -1 with the reason and the remedy in why
 */
int64_t duration_parse(const char *text, char why[DURATION_WHY]);
