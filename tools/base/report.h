/*
 * What commands report in the same way.
 */
#ifndef TIDELOCK_REPORT_H
#define TIDELOCK_REPORT_H

#include <tidelock/tidelock.h>

#include "base/jsonout.h"

/** The member "holder": null when info is NULL or names nobody. */
void report_holder(json *j, const tl_lock_info *info);

/** For people: "nightly.sh on db1 (pid 812)". Returns buf. */
#define HOLDER_SHOWN 400
const char *report_who(char buf[HOLDER_SHOWN], const tl_lock_info *info);

/** When the lock ends, for people: "expires in 12.3 s". Returns buf. */
#define REPORT_END 96
const char *report_end(char buf[REPORT_END], const tl_lock_info *info);

/** The members that tell of a key as it was found; none is ever another's token. */
void report_facts(json *j, const char *key, size_t key_len, const tl_lock_info *info);

/** "held", "free", or "expired": a stamp that has ended, but only its own kind may take over. */
const char *report_state(const tl_lock_info *info);

#endif
