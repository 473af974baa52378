/*
 * What commands report in the same way.
 */
#pragma once

#include <tidelock/inspect.h>
#include <tidelock/tidelock.h>

#include "base/js.h"
#include "base/tool.h"

/** What stands as "holder" in JSON: null when info is NULL or names nobody. */
json_t *report_holder(const tl_lock_info *info);

/** For people: "nightly.sh on db1 (pid 812)". Returns buf. */
#define HOLDER_SHOWN 400
const char *report_who(char buf[HOLDER_SHOWN], const tl_lock_info *info);

/** On etcd: nobody holds it, but a key that is none of its contenders is in the way; the oddity names it. */
bool report_is_blocked(const tl_lock_info *info);

/** When the lock ends, for people: "expires in 12.3 s". Returns buf. */
#define REPORT_END 96
const char *report_end(char buf[REPORT_END], const tl_lock_info *info);

/** What to do about a lock that no client of this protocol takes over; NULL: nothing. */
const char *report_advice(const server *where, const tl_lock_info *info);

/** The first in line for a lock. */
#define REPORT_LINE 20
typedef struct {
    int count;
    tl_waiting first[REPORT_LINE];
} report_line;

/** As tl_waiting_fn: note one. line: a report_line. */
void report_in_line(const tl_waiting *waiting, void *line);

/** For people: how many wait for a lock, and a line for each of the first. Nothing if nobody does. To standard
 *  output. */
void report_waiting(const tl_lock_info *info, const report_line *line, const char *indent);

/** An object that tells of a key as it was found; nothing in it is ever another's token. line NULL: not known. */
json_t *report_facts(const char *key, size_t key_len, const tl_lock_info *info,
                     const report_line *line);

/** "held", "free", or "expired": a stamp that has ended, but only its own kind may take over. */
const char *report_state(const tl_lock_info *info);
