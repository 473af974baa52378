/*
 * Structs that begin with their size. The program may have been built against another version of the headers,
 * so the two sides may know different members. One rule for all of these structs:
 *
 * A member that this library doesn't know must be 0 in a struct that it reads, since ignoring a wish is worse
 * than rejecting it. In a struct that it fills in, it sets such a member to 0. A member that the caller
 * doesn't know counts as 0, and is not filled in.
 */
#pragma once

#include <tidelock/tidelock.h>

/** no such struct is ever larger: a larger size means that the caller did not set it */
#define TL_SIZED_MOST 4096

/**
 * Read the struct `given` into *ret, which has n bytes; members that the caller doesn't know become 0.
 *
 * least  the size of the struct when it was first published
 * name   the struct's name, for messages; its initialiser has the same name in capitals
 *
 * TL_EINVALID  NULL; an impossible size; or a member is set that this library doesn't know
 */
tl_err tl__options_read(void *ret, size_t n, const void *given, size_t least, const char *name,
                        tl_error *err);

/** Is the size that the caller has set in `to` possible? TL_OK, or TL_EINVALID. */
tl_err tl__info_check(const void *to, const char *name, tl_error *err);

/** Fill `to` in with the n bytes of `from`. */
void tl__info_write(void *to, const void *from, size_t n);
