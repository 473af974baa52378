/*
 * Pieces of JSON on a stream, where what is told is too much to be built in memory first.
 */
#ifndef TIDELOCK_JSONBITS_H
#define TIDELOCK_JSONBITS_H

#include <stdio.h>

#include "wire/interval.h"

/** In quotes, of ASCII alone: every other byte is escaped as if it were Latin-1. */
void jsonbits_quoted(FILE *out, const char *text);

/** "name":"text", or null for NULL. */
void jsonbits_text(FILE *out, const char *name, const char *text);

/** "name":{"lo":…,"hi":…} in thousandths of the unit, or null. */
void jsonbits_interval(FILE *out, const char *name, bool known, tl_interval i);

/** Thousandths as a number with three decimals, without a float. */
void jsonbits_thousandths(FILE *out, int64_t v);

#endif
