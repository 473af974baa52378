/*
 * The value of a key and its oddity show which kind of client wrote it. Pure.
 */
#include <string.h>

#include "base/report.h"

/* An oddity that is no advice on a stamp: it begins with "blocked by ", "holds " or "a constant". */
static bool odd_begins(const tl_lock_info *info, const char *begin) {
    return info->held && !info->by_tidelock && info->protocol < 0 &&
           strncmp(info->oddity, begin, strlen(begin)) == 0;
}

bool report_is_blocked(const tl_lock_info *info) {
    return odd_begins(info, "blocked by ");
}

const char *report_other_type(const tl_lock_info *info) {
    return odd_begins(info, "holds ") ? info->oddity : NULL;
}

bool report_is_endless(const tl_lock_info *info) {
    return report_other_type(info) || odd_begins(info, "blocked by a key ");
}

bool report_is_constant(const tl_lock_info *info) {
    return odd_begins(info, "a constant");
}

/* "ADDED:2026-01-31T04:00:00.000Z@HOST:UUID": the library knows the form. */
#define SHEDLOCK "ADDED:"

const char *report_library(const tl_lock_info *info) {
    const char *other = report_other_type(info);

    if (other)
        return strstr(other, "Redisson") ? "Redisson" : NULL;
    return info->held && !info->by_tidelock && info->protocol == TL_TOKEN &&
                   strncmp(info->value, SHEDLOCK, sizeof SHEDLOCK - 1) == 0
               ? "ShedLock"
               : NULL;
}
