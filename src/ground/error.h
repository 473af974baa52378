/*
 * Filling the caller's tl_error.
 */
#pragma once

#include <tidelock/tidelock.h>

/** Fill err (may be NULL) with the code and a formatted line; returns code. */
tl_err tl__fail(tl_error *err, tl_err code, int sys_errno, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/** Set what the error is about, in err (may be NULL) after it has been filled, if code is TL_EINVALID;
 *  returns code. */
tl_err tl__fail_about(tl_error *err, tl_err code, tl_about about);
