/*
 * tidelock skew report: summarises logs as text, as JSON, or as an HTML page.
 */
#pragma once

#include <stdint.h>

typedef enum { SKEW_REPORT_TEXT, SKEW_REPORT_JSON, SKEW_REPORT_HTML } skew_report_format;

/** Read the files and write the summary to `output`, or to standard output if that is NULL.
 *  stale_after_ms: how long after the latest run a page is valid; 0: three of the usual pauses
 *  between runs. Returns the exit status: the latest verdict, or that of a failure, after a
 *  message. */
int skew_report(char *const *file, int files, skew_report_format format, const char *output,
                int64_t stale_after_ms);
