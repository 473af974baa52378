/*
 * What commands report in the same way.
 */
#ifndef TIDELOCK_REPORT_H
#define TIDELOCK_REPORT_H

#include <tidelock/tidelock.h>

#include "jsonout.h"

/** The member "holder": null when info is NULL or names nobody. */
void report_holder(json *j, const tl_lock_info *info);

/** For people: "nightly.sh on db1 (pid 812)". Returns buf. */
#define HOLDER_SHOWN 400
const char *report_who(char buf[HOLDER_SHOWN], const tl_lock_info *info);

#endif
