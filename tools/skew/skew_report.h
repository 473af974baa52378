/*
 * tidelock skew report: what the logs tell, for people, for machines, as a page.
 */
#pragma once

#include <stdint.h>

typedef enum { SKEW_REPORT_TEXT, SKEW_REPORT_JSON, SKEW_REPORT_HTML } skew_report_format;

/** Read the files and tell what they say, into `output`, or to standard output when NULL. stale_after_ms:
 *  for how long a page counts from the latest run on; 0: three of the pauses that are usual between
 *  runs. Returns the exit status: the latest verdict, or that of what failed, after a message. */
int skew_report(char *const *file, int files, skew_report_format format, const char *output,
                int64_t stale_after_ms);
