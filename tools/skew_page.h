/*
 * A page in HTML that stands alone: no script, no other resource. What its makers share: the frame, texts
 * made harmless, the verdict, and the pieces that both kinds of page have.
 */
#ifndef TIDELOCK_SKEW_PAGE_H
#define TIDELOCK_SKEW_PAGE_H

#include <stdio.h>

#include "skew_judge.h"

/** So many hosts, or pairs, are in sight; the others unfold. */
#define PAGE_HOSTS 40
#define PAGE_PAIRS 12

/** Any text, as text: markup and what can't be printed is harmless. */
void page_text(FILE *out, const char *text);

/** Microseconds as milliseconds, with their sign; parts per billion as ppm. */
void page_thousandths(FILE *out, int64_t v);

void page_begin(FILE *out, const char *title);
void page_end(FILE *out);

/** The verdict, why, what to do, and when that was. */
void page_verdict(FILE *out, const skew_result *r);

/** The verdict's sign: its shape says it too. */
void page_sign(FILE *out, skew_verdict v);

/** "safe", "warn" and so on, for classes of style. */
const char *page_class(skew_verdict v);

/** A section up to page_close, with a heading and, unless NULL, a sentence below. */
void page_open(FILE *out, const char *heading, const char *words);
void page_close(FILE *out);

/** Every pair of hosts as a heat map, the worst pair in the corner; nothing when there are no pairs. */
void page_heat(FILE *out, const skew_result *r);

/** The worst pairs as a table; nothing when there are none. */
void page_pairs(FILE *out, const skew_result *r);

#endif
