/*
 * Filling the caller's tl_error.
 */
#pragma once

#include <tidelock/tidelock.h>

/** Fill err (may be NULL) with the code and a formatted line; returns code. */
tl_err tl__fail(tl_error *err, tl_err code, int sys_errno, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/** Say what it is about that err (may be NULL) has been filled with, if code is TL_EINVALID; returns
 *  code. */
tl_err tl__fail_about(tl_error *err, tl_err code, tl_about about);
