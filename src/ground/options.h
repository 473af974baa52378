/*
 * Structs that begin with their size, which callers built against another version of the headers fill in
 * or have filled. One rule for all of them: what this library doesn't know must be 0 in what it is given, since
 * to ignore a wish is worse than to refuse it, and is 0 in what it fills in; what the caller doesn't
 * know is 0 for the library, and is not filled in.
 */
#pragma once

#include <tidelock/tidelock.h>

#define TL_SIZED_MOST 4096 /**< no such struct is ever larger: a size beyond this was never set */

/**
 * Read the struct `given` into *ret, n bytes, which it fills.
 *
 * least  the size that it had when it was first published
 * name   the struct's, for messages: its initialiser is that in capitals
 *
 * TL_EINVALID  NULL, or a size that can't be; or there is something in it that we don't know
 */
tl_err tl__options_read(void *ret, size_t n, const void *given, size_t least, const char *name,
                        tl_error *err);

/** Can `to` be filled in, of which the caller has set the size? TL_OK, or TL_EINVALID. */
tl_err tl__info_check(const void *to, const char *name, tl_error *err);

/** Fill it in with the n bytes of `from`. */
void tl__info_write(void *to, const void *from, size_t n);
