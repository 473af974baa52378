/*
 * Reports that several commands share.
 */
#pragma once

#include <tidelock/inspect.h>
#include <tidelock/tidelock.h>

#include "base/js.h"
#include "base/tool.h"

/** In JSON the same for every command that is about one lock. */
typedef struct {
    const char *key;
    size_t key_len;
    int protocol; /**< a tl_protocol_id, or -1 */
    const char *state;
    const char *token;         /**< NULL: none, or another client's */
    int64_t fence;             /**< -1: none */
    const tl_lock_info *found; /**< what the key holds; NULL: not known */
    int64_t remaining_ms;      /**< -1: not known */
    int64_t waiters;           /**< -1: not known */
} report_lock;
extern const member members_of_lock[], members_of_holder[];

/** The object, to which the command adds its own members. */
json_t *report_lock_json(const report_lock *lock);

/** For people: "nightly.sh on db1 (pid 812)", of a lock that rests the last holder. Returns buf. */
#define HOLDER_SHOWN 400
const char *report_who(char buf[HOLDER_SHOWN], const tl_lock_info *info);

/** On etcd: nobody holds the lock, but a key that is not a contender blocks it; the oddity names that key. */
bool report_is_blocked(const tl_lock_info *info);

/** A phrase for a key of another type: "holds a list, not a lock"; NULL: the key may be a lock. */
const char *report_other_type(const tl_lock_info *info);

/** The key holds no lock that ends by itself: a value of another type, or on etcd a key that is not a contender is in the
 *  way. */
bool report_is_endless(const tl_lock_info *info);

/** Another library, by whose form alone the lock is written: "Redisson"; NULL: none is known. */
const char *report_library(const tl_lock_info *info);

/** Does the key hold a word that each holder writes, so that none can tell whether the lock is still its own? */
bool report_is_constant(const tl_lock_info *info);

/** Say on stderr why a lock was not acquired, and what to do. info: what the key holds; NULL: not known. once: a lock that rests
 *  has been released by a command that is to run once. */
void report_conflict(const char *key, const tl_error *err, const tl_lock_info *info, bool once);

/** When the lock ends, for people: "expires in 12.3 s". Returns buf. */
#define REPORT_END 96
const char *report_end(char buf[REPORT_END], const tl_lock_info *info);

/** Of a lock that rests, for people: "resting until 04:00:00 (in 57 min)", in the time zone of this host.
 *  Returns buf. */
const char *report_rest(char buf[REPORT_END], const tl_lock_info *info);

/** Advice on a lock that no client of this protocol takes over, or that each holder may delete; NULL: there is none. */
const char *report_advice(const server *where, const tl_lock_info *info);

/** The first waiters in the queue of a lock. */
#define REPORT_LINE 20
typedef struct {
    int count;
    tl_waiting first[REPORT_LINE];
} report_line;

/** A tl_waiting_fn that records a waiter. line: a report_line. */
void report_in_line(const tl_waiting *waiting, void *line);

/** Print the number of waiters, and a line for each of the first, to standard output. Prints nothing if there are
 *  none. */
void report_waiting(const tl_lock_info *info, const report_line *line, const char *indent);

/** An object that describes a key; it never contains another client's token. line NULL: the queue is not known. */
json_t *report_facts(const char *key, size_t key_len, const tl_lock_info *info,
                     const report_line *line);
extern const member members_of_look[], members_of_waiter[];

/** "held", "free", "resting", or "expired": a stamp that has expired, and that only clients with stamps may take
 *  over. */
const char *report_state(const tl_lock_info *info);
