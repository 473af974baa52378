/*
 * The memory of replies that a codec builds: all of it lasts until the next release. One thread at a time.
 */
#pragma once

#include "wire/reply.h"

typedef struct tl_reply_block tl_reply_block;

/** Zeroed is valid. */
typedef struct {
    tl_reply_block *blocks; /* private; the first is kept for the next replies */
    size_t held;            /* private: bytes of all blocks */
    bool exhausted;         /**< no memory was left; until the next release */
    bool full;              /**< more than TL_REPLY_ROOM_MAX was asked for; likewise */
} tl_reply_room;

/** So many bytes may replies take together: a few bytes of a reply can ask for a hundred times as many. */
#define TL_REPLY_ROOM_MAX ((size_t)64 << 20)
#define TL_REPLY_ROOM_FULL "a reply that takes more than 64 MiB"

void tl__reply_room_release(tl_reply_room *room);
void tl__reply_room_free(tl_reply_room *room);

/** NULL: out of memory (exhausted), or that would be more than TL_REPLY_ROOM_MAX (full). */
void *tl__reply_room_take(tl_reply_room *room, size_t n);

/* These are false if there is no room. */

/** A STRING with a copy of the text. */
bool tl__reply_make_text(tl_reply_room *room, tl_bytes text, tl_reply *ret);
/** An ERROR as tl__etcd_error reads it. */
bool tl__reply_make_error(tl_reply_room *room, int64_t code, tl_bytes message, tl_reply *ret);
/** An ARRAY of n items, which are NIL so far. */
bool tl__reply_make_array(tl_reply_room *room, size_t n, tl_reply **ret_items, tl_reply *ret);

static inline tl_reply tl__reply_of_int(int64_t v) {
    return (tl_reply){.type = TL_REPLY_INT, .integer = v};
}
