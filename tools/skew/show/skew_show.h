/*
 * The faces of a result. Each writes to a stream what it has to say, and knows nothing else.
 */
#pragma once

#include <stdio.h>

#include "skew/judge/skew_judge.h"
#include "skew/judge/skew_number.h"

/** For people. The verdict comes last. */
void skew_show_text(const skew_result *result, FILE *out);
/** The same for a terminal of this size: of large fleets the worst, and how many were left out. */
void skew_show_screen(const skew_result *result, int columns, int rows, FILE *out);
void skew_show_json(const skew_result *result, FILE *out);
/** As JSON, on one line, with what only a report needs, and of the pairs the worst alone. */
#define SKEW_LOG_PAIRS 1000
void skew_show_log(const skew_result *result, FILE *out);
void skew_show_nagios(const skew_result *result, FILE *out);
void skew_show_prometheus(const skew_result *result, FILE *out);
void skew_show_html(const skew_result *result, FILE *out);
