/*
 * Names: the sidecar key that stands beside a lock's key in the same hash slot, and the slot.
 */
#ifndef TL_KEYS_H
#define TL_KEYS_H

#include "ground/bytes.h"

#define TL_SIDECAR_EXTRA 12 /**< bytes that a sidecar's name is longer than its key, at most */

/** Write the sidecar's name into `to` (key.n + TL_SIDECAR_EXTRA bytes): KEY:tidelock where the key
 *  has an effective hash tag, tidelock:{KEY} otherwise. A key without a tag but with a '}' has no
 *  name in the same slot: it gets KEY:tidelock, and *ret_same_slot false. */
tl_bytes tl__sidecar(char *to, tl_bytes key, bool *ret_same_slot);

/** The part of the key that is hashed. */
tl_bytes tl__hash_tag(tl_bytes key);

/** Redis Cluster's slot, 0..16383. */
uint16_t tl__hash_slot(tl_bytes key);

#endif
