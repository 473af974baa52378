/*
 * Filling the caller's tl_error.
 */
#ifndef TL_ERROR_H
#define TL_ERROR_H

#include <tidelock/tidelock.h>

/** Fill err (may be NULL) with the code and a formatted line; returns code. */
tl_err tl__fail(tl_error *err, tl_err code, int sys_errno, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
