/*
 * The findings of a survey: families of names that look like legacy clients' locks, the forms of their
 * stamps, and samples of how long locks live. Pure except for memory. All of it is what was seen, not
 * what there is.
 */
#pragma once

#include "migrate/migrate_judge.h"
#include "migrate/migrate_names.h"

#define FOUND_FAMILIES 300
#define FOUND_FORMS 4 /**< forms of stamps in one family */
#define FOUND_KEYS_MOST (1 << 20)
#define FOUND_OLD_MS                                                                               \
    (3600 * 1000) /**< a stamp that expired longer ago is left over, or no lock's */

/** Samples of a duration: each is known within limits. */
typedef struct {
    int64_t count;
    int64_t least_ms, most_ms; /**< the least of the lower limits, the most of the upper ones */
    int64_t least_upper_ms;    /**< the least of the upper limits */
} found_samples;

/** A form of stamps: several dialects may write the same. */
typedef struct {
    char dialects[160]; /**< "java, jedis-lock, node-ms": the first is the guess */
    char example[KEY_SHOWN];
    int64_t count;
} found_form;

typedef struct {
    uint64_t id; /**< the hash of its family's text */
    char family[NAMES_FAMILY];
    names names;
    int64_t stamps; /**< keys that held a stamp of a legacy client */
    int64_t over;   /**< of these: expired when it was counted */
    int64_t old;    /**< of these: expired longer ago than FOUND_OLD_MS, and not written since */
    int64_t odd;    /**< keys with an odd value, such as a badly written time */
    int64_t ours;   /**< keys with a stamp of tidelock's */
    int64_t tokens;
    int64_t takes;        /**< SETNX and GETSET with a stamp, read from MONITOR */
    int64_t left_most_ms; /**< of stamps without an observed beginning: the most time left */
    char oddity[96];      /**< the first one's; "" none */
    int forms;
    bool more_forms;
    found_form form[FOUND_FORMS];
    found_samples lifetimes; /**< by MONITOR */
    found_samples looks;     /**< the same by looks at a sample: less exact */
    found_samples holds, stays;
    migrate_locks locks;
} found_family;

typedef struct {
    found_family *family; /**< FOUND_FAMILIES of them */
    int families;
    int64_t dropped; /**< keys of families beyond these */
    uint64_t *seen;  /**< hashes of counted keys; 0: none */
    int64_t keys;    /**< how many were counted */
    bool full;       /**< more keys were found than can be remembered */
} found;

/** False: out of memory. */
bool found_begin(found *all);
void found_end(found *all);

/** Add a sample that is between both limits. */
void found_sample(found_samples *samples, int64_t least_ms, int64_t most_ms);

/** Add a lifetime that a look has shown, unless the stamp was over as it was written: that is none. */
void found_look(found_family *family, int64_t least_ms, int64_t most_ms);

/** Learn a lock that a scan has found; a key counts once. dialects: those that write such a stamp; "" it is none.
 *  Returns its family, or NULL: it is no lock, was counted before, or doesn't fit. */
found_family *found_learn(found *all, const migrate_view *view, tl_bytes key,
                          const tl_lock_info *info, const char *dialects);

/** Learn of a key that counts already. Returns its family if all stamps of it were old, and this one is not: it was
 *  written since. Else NULL. */
found_family *found_again(found *all, tl_bytes key, const tl_lock_info *info);

/** Learn of a command that writes a stamp on this key. Returns its family, or NULL. */
found_family *found_heard(found *all, tl_bytes key, const char *dialects);

/** Learn how long a connection held the key, between both limits. */
void found_held(found *all, tl_bytes key, int64_t least_ms, int64_t most_ms);

/** Was a stamp of a legacy client seen? Other odd values are no locks that tidelock can share. */
bool found_is_legacy(const found_family *family);

/** Are all of its stamps old, and was none written meanwhile? Then it may be no lock's. */
bool found_is_old(const found_family *family);

/** Join families whose names begin with the same word, if all of them are alike. Call it once, at the end. */
void found_join(found *all);

/** Add the counts of other locks. */
void found_join_locks(migrate_locks *into, const migrate_locks *other);

/** The lifetimes. If MONITOR has shown some, looks count only where they show a shorter one. */
found_samples found_lifetimes(const found_family *family);

/** Add the samples of another. */
void found_join_samples(found_samples *into, const found_samples *other);

/** The form that was seen most; NULL: none. */
const found_form *found_main_form(const found_family *family);
