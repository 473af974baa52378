/*
 * Describing a key and its sidecar from a server's reply, for a look at one lock and for a scan of many.
 */
#pragma once

#include <tidelock/inspect.h>

#include "protocol/protocol.h"

/** Items 1 to 7 of a reply of look.lua or scan.lua: K's value, its remaining lifetime, and the sidecar's
 *  value, until, fence, since, owner. If the lock rests, since is the token of S, "resting US TOKEN". */
enum {
    TL_LOOK_VALUE = 1,
    TL_LOOK_LEFT,
    TL_LOOK_BOUND,
    TL_LOOK_UNTIL,
    TL_LOOK_FENCE,
    TL_LOOK_SINCE,
    TL_LOOK_OWNER
};

#define TL_LOOK_HOST (sizeof((tl_lock_info *)0)->host)
#define TL_LOOK_SERVICE (sizeof((tl_lock_info *)0)->service)

/** Read "host pid service". Of any other text it reads nothing. */
void tl__look_owner(tl_bytes owner, char host[TL_LOOK_HOST], int64_t *pid,
                    char service[TL_LOOK_SERVICE]);

/** Count the waiters, from items i and i + 1 of a reply: the subscribers of S, and the entries in the
 *  queue. */
void tl__look_waiters(tl_lock_info *info, const tl_reply *answer, size_t i);

/** Describe a waiter from its entry in the queue; place_us: the time of its rank, server time in us. */
void tl__look_waiting(tl_waiting *ret, tl_bytes entry, int64_t place_us, int64_t now_us);

/** Fill info, all but the waiters. legacy: the client's facts about legacy clients; NULL: none. kind: K's
 *  type, as look.lua names it. answer: the reply, of which nothing is trusted. */
void tl__look_fill(tl_lock_info *info, const tl_legacy *legacy, tl_bytes key, tl_bytes kind,
                   const tl_reply *answer, int64_t now_us);

/** Does it look like a lock? That is: a sidecar knows it, or it is a stamp, a token with a lifetime, an accident
 *  of legacy clients, a lock of Redisson, or a constant where the key's name says that it is a lock. */
bool tl__look_is_lock(const tl_lock_info *info, tl_bytes key);

/** The part of ../compat. */
typedef struct {
    /** If text is a stamp, say so in info. If it only resembles one, say what is odd about it. */
    void (*look)(tl_lock_info *info, const tl_legacy *legacy, tl_bytes key, tl_bytes text,
                 int64_t now_us);
    /** For a look at a lock by its name: explain why K's value is no stamp to a client with a chosen dialect,
     *  whatever the value is. A key that a scan found is not explained, since it may be no lock at all. */
    void (*explain)(tl_lock_info *info, const tl_legacy *legacy, tl_bytes key,
                    const tl_reply *value, int64_t now_us);
    /** For i from 0 on: a text, no number, that the client's dialects read as "never expires", or n 0.
     *  False: there is no i-th one. */
    bool (*endless)(const tl_legacy *legacy, unsigned i, tl_bytes *ret);
} tl_legacy_look;
extern const tl_legacy_look tl__legacy_look;
