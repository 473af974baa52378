/*
 * A self-contained HTML page. It fetches nothing, and runs at most one script, its own, which only
 * compares the page's time with the browser's. Shared by both kinds of page: the frame, escaped
 * texts, the verdict, and common pieces.
 */
#pragma once

#include <stdio.h>

#include "skew/judge/skew_number.h"
#include "skew/judge/skew_order.h"
#include "skew/show/skew_names.h"

/** So many hosts, or pairs, are visible; the others unfold. */
#define PAGE_HOSTS 40
#define PAGE_PAIRS 12

/** Write any text, with markup and unprintable characters made harmless. */
void page_text(FILE *out, const char *text);

/** Open an element with a host's short name. If the name was shortened, its full form is the
 *  tooltip. */
void page_name(FILE *out, const char *element, const skew_names *names, int host);

/** Write a number from skew_number, with a typographic minus. */
void page_number(FILE *out, const char *number);

/** Write "LO to HI", with the known digits. Rounding moves no edge across `line` (INT64_MAX:
 *  none). */
void page_between(FILE *out, tl_interval v, int64_t line);

/** Write a time for people and machines, with its zone. */
void page_time(FILE *out, int64_t at_ms);

/** what: the page's subject, for its title. made_ms: when the page is made, if that may be long
 *  after the measurement; else 0. */
void page_begin(FILE *out, const skew_result *result, const char *what, int64_t made_ms);
void page_end(FILE *out, const skew_result *result);

/** Write the verdict, its reason, and what to do; also the server, the time, and until when it is
 *  valid. */
void page_verdict(FILE *out, const skew_result *result);

/** Write the verdict's sign. Its shape also shows the verdict. */
void page_sign(FILE *out, skew_verdict v);

/** The verdict's style class: "safe", "warn" and so on. */
const char *page_class(skew_verdict v);

/** Open a section, up to page_close, with a heading and, unless NULL, a sentence below. */
void page_open(FILE *out, const char *heading, const char *text);
void page_close(FILE *out);

/** The kind of a pair: its style class, a mark that shows the same without colour, and a
 *  message. */
typedef struct {
    const char *look, *mark, *message; /* the mark is markup */
} page_kind;
page_kind page_kind_of(const skew_result *result, const skew_pair *pair);

/** Write every pair of hosts as a matrix; nothing if there are no pairs. */
void page_heat(FILE *out, const skew_result *result);

/** Where a clock is too far from the middle of the fleet (skew_fleet_middle): beyond these values it
 *  is further off than the slack allows; beyond the near ones than the warning allows. */
typedef struct {
    int64_t behind, ahead, near_behind, near_ahead;
} page_room;

/** Of a host; no limits if it or the middle (NULL) is unknown. In a SAFE fleet no clock is beyond
 *  them. Two clocks within them may still be too far apart, on both sides of the middle. */
page_room page_room_of(const skew_result *result, int host, const int64_t *middle);

/** Write the worst pairs as a table; nothing if there are none. */
void page_pairs(FILE *out, const skew_result *result);
