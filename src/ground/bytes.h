/*
 * Bounded byte strings: a pointer and a length. They may contain any byte, own nothing, and need not end with
 * a NUL.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    const char *p;
    size_t n;
} tl_bytes;

#define TL_LITERAL(s) ((tl_bytes){(s), sizeof(s) - 1})
#define TL_INT_SIZE 21 /**< text of any int64_t, with its NUL */

static inline tl_bytes tl__bytes(const void *p, size_t n) {
    return (tl_bytes){(const char *)p, n};
}

static inline tl_bytes tl__bytes_of(const char *text) {
    return (tl_bytes){text, strlen(text)};
}

static inline bool tl__bytes_eq(tl_bytes a, tl_bytes b) {
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

bool tl__bytes_starts(tl_bytes text, const char *with);

/** The text after the first `part`; p is NULL if `part` does not occur. */
tl_bytes tl__bytes_after(tl_bytes text, const char *part);
/** The text before the first `part`; all of text if `part` does not occur. */
tl_bytes tl__bytes_before(tl_bytes text, const char *part);

static inline bool tl__bytes_has(tl_bytes text, const char *part) {
    return tl__bytes_after(text, part).p != NULL;
}

/** Split *text at the first `end`: return the part before it, and leave in *text the part after it. Without
 *  an `end` all of *text is returned, and text->p becomes NULL. */
tl_bytes tl__bytes_take(tl_bytes *text, char end);

/** Is every byte a visible ASCII character: no space, no control character? */
bool tl__bytes_is_visible(tl_bytes text);

/** Parse an optional minus and decimal digits, nothing else; false on any other byte or overflow. */
bool tl__bytes_to_int(tl_bytes text, int64_t *ret);

/** Parse digits of this base, 10 or 16 in lower case, nothing else; false on any other byte or overflow. */
bool tl__bytes_to_uint(tl_bytes text, unsigned base, uint64_t *ret);

/** Write v as decimal text into buffer of TL_INT_SIZE; returns it as bytes. */
tl_bytes tl__bytes_from_int(char *buffer, int64_t v);

/** FNV-1a hash of text, started with the seed; seed 0 gives the published function. The result is the same on
 *  each machine. An attacker can provoke collisions unless the seed is secret. */
uint64_t tl__bytes_hash(uint64_t seed, tl_bytes text);

/** Copy into a C string of `size`, cut to fit, with control bytes and bytes over 126 as '?'. */
void tl__bytes_print(char *to, size_t size, tl_bytes from);

/** Does text contain the word (bounded by anything that is not an upper-case letter)? */
bool tl__bytes_has_word(tl_bytes text, const char *word);
