/*
 * Globs of key names, with the meaning that the server's SCAN and KEYS give them. Clients, dialects and the
 * tool all match with these functions: so a look at the keys of a pattern finds exactly the keys that clients
 * lock by it.
 *
 *      *        any bytes, also none       [abc]  one of these        \x  x itself
 *      ?        one byte                   [a-c]  one of a range      [^a] one that is not listed
 */
#pragma once

#include "ground/bytes.h"

/** Does the whole text match? Every byte counts, also a zero byte; case matters. The time is bounded by the
 *  product of both lengths. */
bool tl__glob_fits(tl_bytes pattern, tl_bytes text);

/** A flaw of the pattern that servers interpret differently, and at which some crash: "'[' without ']'", "'\'
 *  at the end", "range of bytes beyond ASCII". NULL: none. */
const char *tl__glob_flaw(tl_bytes pattern);

/** Take the next "PATTERN=NAME" or "NAME" from a list separated by commas. The last '=' separates pattern
 *  and name; a comma within the pattern is written "\,". Without a pattern it is "*". False: the list has
 *  ended. */
bool tl__glob_choice(const char **list, tl_bytes *ret_pattern, tl_bytes *ret_name);
