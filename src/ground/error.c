/*
 * The texts of errors. A message is one line and never holds a secret.
 */
#include "ground/error.h"

#include <stdarg.h>
#include <stdio.h>

tl_err tl__fail(tl_error *err, tl_err code, int sys_errno, const char *format, ...) {
    if (!err)
        return code;
    err->code = code;
    err->sys_errno = sys_errno;
    err->about = TL_ABOUT_CALL;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    return code;
}

tl_err tl__fail_about(tl_error *err, tl_err code, tl_about about) {
    if (err && code == TL_EINVALID)
        err->about = about;
    return code;
}

const char *tl_err_name(tl_err code) {
    switch (code) {
    case TL_OK: return "TL_OK";
    case TL_EBUSY: return "TL_EBUSY";
    case TL_ETIMEDOUT: return "TL_ETIMEDOUT";
    case TL_ECANCELLED: return "TL_ECANCELLED";
    case TL_ELOST: return "TL_ELOST";
    case TL_EUNCERTAIN: return "TL_EUNCERTAIN";
    case TL_EUNAVAILABLE: return "TL_EUNAVAILABLE";
    case TL_ECLOCK: return "TL_ECLOCK";
    case TL_EINVALID: return "TL_EINVALID";
    case TL_ENOMEM: return "TL_ENOMEM";
    case TL_EDENIED: return "TL_EDENIED";
    case TL_ESERVER: return "TL_ESERVER";
    case TL_EEXPIRED: return "TL_EEXPIRED";
    case TL_ETAKEN: return "TL_ETAKEN";
    case TL_EUNSUPPORTED: return "TL_EUNSUPPORTED";
    }
    return "TL_E?";
}
