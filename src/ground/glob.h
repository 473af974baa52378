/*
 * Globs of key names, with the meaning that SCAN and KEYS of the server give them: clients,
 * dialects and the tool all ask here, so that whoever looks at the keys of a pattern sees those
 * that others lock by it.
 *
 *     *        any bytes, none too        [abc]  one of these        \x  x itself
 *     ?        one byte                   [a-c]  one of a range      [^a] one that isn't
 */
#pragma once

#include "ground/bytes.h"

/** Does the text fit? Every byte counts, a zero byte and the case too. Takes no longer than both
 *  lengths multiplied. */
bool tl__glob_fits(tl_bytes pattern, tl_bytes text);

/** What a pattern has that not all servers read alike, and some crash at: a "'[' without ']'", a
 *  "'\' at the end", a "range of bytes beyond ASCII". NULL: nothing. */
const char *tl__glob_flaw(tl_bytes pattern);

/** Take the next of "PATTERN=NAME" or "NAME" off a list divided by commas. The last '=' divides; a
 *  comma of the pattern's own is written "\,". Without a pattern it is "*". False: the list is at
 *  its end. */
bool tl__glob_choice(const char **list, tl_bytes *ret_pattern, tl_bytes *ret_name);
