/*
 * The names of the keys beside a lock's key, in the same hash slot; and hash slots.
 */
#pragma once

#include "ground/bytes.h"

#define TL_SIDECAR_EXTRA 12 /**< bytes that a sidecar's name adds to the key, at most */

/** Write the sidecar's name into `to` (key.n + TL_SIDECAR_EXTRA bytes): KEY:tidelock if the key has an
 *  effective hash tag, tidelock:{KEY} otherwise. For a key without a tag but with a '}' there is no name in
 *  the same slot: it gets KEY:tidelock, and *ret_same_slot is false. */
tl_bytes tl__sidecar(char *to, tl_bytes key, bool *ret_same_slot);

#define TL_LINE_EXTRA 5 /**< bytes that a queue's name adds to the sidecar's */

/** Write the name of the waiters' queue into `to` (sidecar.n + TL_LINE_EXTRA bytes): SIDECAR:line. */
tl_bytes tl__line(char *to, tl_bytes sidecar);

/** The hash tag that represents a slot: the shortest text of letters and digits that hashes to it, and of
 *  these the first in ASCII order. Three bytes suffice for every slot. */
typedef struct {
    char text[4];
} tl_slot_tag;

tl_slot_tag tl__slot_tag(uint16_t slot);

#define TL_COUNTER_SIZE 20 /**< bytes of a counter's name, at most */

/** Write the name of a slot's fencing counter into `to` (TL_COUNTER_SIZE bytes): tidelock:fence:{TAG}. */
tl_bytes tl__counter(char *to, const tl_slot_tag *tag);

/** Is it the name of some slot's fencing counter, and so no lock? */
bool tl__is_counter(tl_bytes key);

/** The part of the key that is hashed. */
tl_bytes tl__hash_tag(tl_bytes key);

#define TL_SLOTS 16384 /**< of a Redis Cluster */

/** The slot, 0..TL_SLOTS - 1. */
uint16_t tl__hash_slot(tl_bytes key);
