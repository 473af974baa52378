/*
 * Numbers for people: with as many decimals as are known, and rounded outwards, so that the printed
 * interval still contains the truth. Pure.
 */
#pragma once

#include "wire/interval.h"

#define SKEW_NUMBER_SIZE 32

/** How many decimals of an interval in thousandths (us of ms, ppb of ppm) are known: 0 to 3. */
int skew_decimals(tl_interval thousandths);

/** The same, but enough decimals to show that the low edge is beyond the line, if it is. The line
 *  is a whole number. */
int skew_decimals_beyond(tl_interval thousandths, int64_t line);

/** Thousandths as a number with so many decimals, rounded down or up. Returns buf. */
const char *skew_down(char buf[SKEW_NUMBER_SIZE], int64_t thousandths, int decimals);
const char *skew_up(char buf[SKEW_NUMBER_SIZE], int64_t thousandths, int decimals);

/** The same for columns: with a sign, and with the decimal points aligned when flush right. */
const char *skew_aligned(char buf[SKEW_NUMBER_SIZE], int64_t thousandths, int decimals, bool up);

/** A given duration, exactly: "59 s", "59800 ms". Returns buf. */
const char *skew_exact(char buf[SKEW_NUMBER_SIZE], int64_t us);

/** A moment on the server's clock, "2026-11-21 22:30:01 UTC". Returns buf. */
#define SKEW_TIME_SIZE 32
const char *skew_time(char buf[SKEW_TIME_SIZE], int64_t at_ms);

/** A span of time for people, "36 h". Returns buf. */
#define SKEW_SPAN_SIZE 32
const char *skew_span(char buf[SKEW_SPAN_SIZE], int64_t ms);
