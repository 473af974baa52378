/*
 * tidelock skew report: what the logs tell, for people, for machines, as a page.
 */
#ifndef TIDELOCK_SKEW_REPORT_H
#define TIDELOCK_SKEW_REPORT_H

typedef enum { SKEW_REPORT_TEXT, SKEW_REPORT_JSON, SKEW_REPORT_HTML } skew_report_format;

/** Read the files and tell what they say, into `output`, or to standard output when NULL. Returns the exit
 *  status: the latest verdict, or that of what failed, after a message. */
int skew_report(char *const *file, int files, skew_report_format format, const char *output);

#endif
