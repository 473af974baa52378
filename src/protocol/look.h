/*
 * What there is to tell of a key and its sidecar, once a server has answered: for looking at one lock
 * and for scanning many.
 */
#pragma once

#include <tidelock/inspect.h>

#include "protocol/protocol.h"

/** Items 1 to 7 of an answer of look.lua or scan.lua: K's value, what its lifetime leaves, and the
 *  sidecar's value, until, fence, since, owner. */
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

/** Read "host pid service"; of anything else nothing is. */
void tl__look_owner(tl_bytes owner, char host[TL_LOOK_HOST], int64_t *pid,
                    char service[TL_LOOK_SERVICE]);

/** Who waits, from items i and i + 1 of an answer: how many listen on S, and how many stand in line. */
void tl__look_waiters(tl_lock_info *info, const tl_reply *answer, size_t i);

/** What an entry of the line says of who stands there, at a place that was drawn at place_us. */
void tl__look_waiting(tl_waiting *ret, tl_bytes entry, int64_t place_us, int64_t now_us);

/** Fill info, all but the waiters. legacy: what the asker knows of legacy clients; NULL: nothing. kind: K's type. answer: nothing of it is trusted. */
void tl__look_fill(tl_lock_info *info, const tl_legacy *legacy, tl_bytes key, tl_bytes kind,
                   const tl_reply *answer, int64_t now_us);

/** Does it look like a lock: known to a sidecar, a stamp, a token with a lifetime, or an accident of
 *  legacy clients? */
bool tl__look_is_lock(const tl_lock_info *info);

/** What ../compat adds to it. */
typedef struct {
    /** If text is a stamp, tell so. Otherwise name what is odd about it, if it is like one. */
    void (*look)(tl_lock_info *info, const tl_legacy *legacy, tl_bytes key, tl_bytes text,
                 int64_t now_us);
    /** For a lock that was asked about by its name, why what K holds is no stamp to a client that
     *  chose its dialect, whatever it is. What is found by a scan may be no lock at all, and isn't odd. */
    void (*explain)(tl_lock_info *info, const tl_legacy *legacy, tl_bytes key,
                    const tl_reply *value, int64_t now_us);
} tl_legacy_look;
extern const tl_legacy_look tl__legacy_look;
