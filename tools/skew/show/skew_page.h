/*
 * A page in HTML that stands alone: it fetches nothing, and runs one script at most, its own, which
 * only compares the page's time with the browser's. What its makers share: the frame, texts made
 * harmless, the verdict, and the pieces that both kinds of page have.
 */
#pragma once

#include <stdio.h>

#include "skew/judge/skew_number.h"
#include "skew/judge/skew_order.h"
#include "skew/show/skew_names.h"

/** So many hosts, or pairs, are in sight; the others unfold. */
#define PAGE_HOSTS 40
#define PAGE_PAIRS 12

/** Any text, as text: markup and what can't be printed is harmless. */
void page_text(FILE *out, const char *text);

/** An element, not closed, with a host's name as short as it is there; if that is not all of it,
 *  the whole is what pointing at it shows. */
void page_name(FILE *out, const char *element, const skew_names *names, int host);

/** A number as skew_number makes them, with a proper minus. */
void page_number(FILE *out, const char *number);

/** "LO to HI", to the known digits; the edges stay on their sides of line (INT64_MAX: none). */
void page_between(FILE *out, tl_interval v, int64_t line);

/** A moment for people and machines, with its zone. */
void page_time(FILE *out, int64_t at_ms);

/** what: what the page is of, for its title. made_ms: when it is made, if that may be long after it
 *  was measured; else 0. */
void page_begin(FILE *out, const skew_result *result, const char *what, int64_t made_ms);
void page_end(FILE *out, const skew_result *result);

/** The verdict, why, what to do; of which server, when, and until when that counts. */
void page_verdict(FILE *out, const skew_result *result);

/** The verdict's sign: its shape says it too. */
void page_sign(FILE *out, skew_verdict v);

/** "safe", "warn" and so on, for classes of style. */
const char *page_class(skew_verdict v);

/** A section up to page_close, with a heading and, unless NULL, a sentence below. */
void page_open(FILE *out, const char *heading, const char *text);
void page_close(FILE *out);

/** What a pair is: its class of style, the mark that says the same without colour, and a message. */
typedef struct {
    const char *look, *mark, *message; /* the mark is markup */
} page_kind;
page_kind page_kind_of(const skew_result *result, const skew_pair *pair);

/** Every pair of hosts as a matrix; nothing when there are no pairs. */
void page_heat(FILE *out, const skew_result *result);

/** How far a clock could move: beyond these some pair of its is no longer safe. */
typedef struct {
    int64_t behind, ahead;
} page_room;

/** For each host, from the pairs themselves, so that a bar is past its line just when a pair is not
 *  safe. The caller frees it; NULL: no memory. */
page_room *page_rooms(const skew_result *result);

/** The worst pairs as a table; nothing when there are none. */
void page_pairs(FILE *out, const skew_result *result);
