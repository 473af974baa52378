/*
 * The value of a lock's key while the lock rests: "resting TIME TOKEN".
 */
#pragma once

#include "ground/bytes.h"

/** Does a lock rest whose key, or whose S, has this value? */
bool tl__is_rest(tl_bytes value);

/** Read it: since when it rests, server time in us, and the token of the last holder. false: it doesn't rest. */
bool tl__rest_read(tl_bytes value, int64_t *ret_since_us, tl_bytes *ret_token);
