/*
 * The output formats of a result. Each writes one format to a stream, and depends on nothing else.
 */
#pragma once

#include <stdio.h>

#include "base/members.h"
#include "skew/judge/skew_judge.h"
#include "skew/judge/skew_number.h"

/** For people. The verdict comes last. */
void skew_show_text(const skew_result *result, FILE *out);
/** The same for a terminal of this size. For a large fleet it shows the worst, and how many it
 *  leaves out. */
void skew_show_screen(const skew_result *result, int columns, int rows, FILE *out);
void skew_show_json(const skew_result *result, FILE *out);
extern const member members_of_skew[], members_of_host[], members_of_pair[], members_of_cause[];
/** As one line of JSON, with members that only a report needs, and only the worst pairs. */
#define SKEW_LOG_PAIRS 1000
void skew_show_log(const skew_result *result, FILE *out);
extern const member members_of_log[], members_of_log_host[];
void skew_show_nagios(const skew_result *result, FILE *out);
void skew_show_prometheus(const skew_result *result, FILE *out);
void skew_show_html(const skew_result *result, FILE *out);
